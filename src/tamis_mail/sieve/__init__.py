"""`Sieve`: sort, learn and forget mail."""

from tamis_mail.sieve.receipt import Receipt
from tamis_mail.sieve.sieve import LabelledMail, Sieve

__all__ = ["LabelledMail", "Receipt", "Sieve"]
