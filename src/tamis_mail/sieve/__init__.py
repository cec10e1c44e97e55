"""mail ↔ what is remembered of it: `Sieve`, the three verbs."""

from tamis_mail.sieve.plan import Receipt
from tamis_mail.sieve.sieve import Sieve

__all__ = ["Receipt", "Sieve"]
