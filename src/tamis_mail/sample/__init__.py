"""Seed → a sample mailbox: about five hundred raw messages, spam and ham, for demonstrations.

Every text was written for this package. All persons are invented, and every host and address is reserved for
examples. A seed gives the same bytes on every machine. The texts are in `texts/`; the modules make messages
of them.
"""

from tamis_mail.sample.mailbox import Sample, messages, write

__all__ = ["Sample", "messages", "write"]
