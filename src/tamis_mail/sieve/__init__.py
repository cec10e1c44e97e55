"""`Sieve`: sort, learn and forget mail."""

from tamis_mail.sieve.sieve import Sieve
from tamis_mail.sieve.transaction import Receipt

__all__ = ["Receipt", "Sieve"]
