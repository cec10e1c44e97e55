"""mail ↔ what is remembered of it: `Sieve`, the three verbs."""

from tamis_mail.sieve.sieve import Receipt, Sieve

__all__ = ["Receipt", "Sieve"]
