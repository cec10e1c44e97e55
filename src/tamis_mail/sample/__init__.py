"""Seed → a sample mailbox: some five hundred raw messages, spam and ham, for those who have none to show yet.

Every text was written for this package. Nobody in it exists, and every host and address is one that is
reserved for examples. A seed gives the same bytes on every machine. The texts are in `texts/`; the rest makes
mail of them.
"""

from tamis_mail.sample.mailbox import Sample, messages, write

__all__ = ["Sample", "messages", "write"]
