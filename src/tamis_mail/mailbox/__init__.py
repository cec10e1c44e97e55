"""A path → messages: a message, an mbox, a Maildir, an MH folder, a tree of them, packed or not, or stdin.

The kind of a mailbox is detected from its contents, not its name. Only one message is in memory at a time.
"""

from tamis_mail.mailbox.labels import find_labelled_folders
from tamis_mail.mailbox.names import guess_label
from tamis_mail.mailbox.raw_message import RawMessage, SourceError
from tamis_mail.mailbox.source import Source, open_source

__all__ = ["RawMessage", "Source", "SourceError", "find_labelled_folders", "guess_label", "open_source"]
