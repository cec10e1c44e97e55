"""A path → letters: a message, an mbox, a Maildir, an MH folder, a tree of them, packed or not, or stdin.

What a path holds is found by looking, not by its name. Nothing is held in memory but the letter at hand.
"""

from tamis_mail.mailbox.labels import labelled_folders
from tamis_mail.mailbox.letter import Letter, SourceError
from tamis_mail.mailbox.names import guess_label
from tamis_mail.mailbox.source import Source, open_source

__all__ = ["Letter", "Source", "SourceError", "guess_label", "labelled_folders", "open_source"]
