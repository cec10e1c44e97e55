"""Read mail from a path: a message, an mbox, a Maildir, an MH folder or a tree of these; or from stdin.

Files may be compressed. The kind of a mailbox is detected by its contents, not by its name. A mailbox is
read in blocks, so that it need not fit into memory.
"""

from tamis_mail.mailbox.labels import find_labelled_folders
from tamis_mail.mailbox.names import guess_label
from tamis_mail.mailbox.raw_message import RawMessage, SourceError
from tamis_mail.mailbox.source import Source, open_source

__all__ = ["RawMessage", "Source", "SourceError", "find_labelled_folders", "guess_label", "open_source"]
