"""mail ↔ what is remembered of it: `Sieve`, the three verbs."""

from tamis_mail.sieve.sieve import Sieve
from tamis_mail.sieve.transaction import Receipt

__all__ = ["Receipt", "Sieve"]
