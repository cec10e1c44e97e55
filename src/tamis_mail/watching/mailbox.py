"""The interface of an account that a watcher needs: list folders and messages, read, move and mark them.

IMAP and Maildir implement `Mailbox`. Every method may raise `MailboxError` if the account cannot be reached:
the watcher then ends its pass and waits, and the next call connects again. An implementation must expect that
the process is killed, or loses its connection, between any two calls and within any call.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tamis_mail.watching.roles import Role


class MailboxError(Exception):
    """The account, or one of its folders, cannot be reached now. The text is one line for the user."""


class MessageError(Exception):
    """A message cannot be read, moved or marked; others can. The text is one line without its content."""


class FolderError(Exception):
    """A folder accepts no messages now: it is full or read-only. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder as it is now."""

    name: str  # unique in its account, decoded
    role: Role
    validity: str = ""  # UIDVALIDITY: a new value means that all uids are new; empty for Maildirs
    revision: str = ""  # changes when a message does; empty if the account has no such text
    is_present: bool = True  # False for a folder that `move` creates when it is needed


@dataclass(frozen=True, slots=True)
class ListedMessage:
    """A message as a folder lists it."""

    uid: str  # does not change while the message stays in this folder
    keywords: frozenset[str] = frozenset()  # keywords and flags, such as "$Junk" and "\\Seen"


class Mailbox(Protocol):
    """An account."""

    def list_folders(self) -> Sequence[Folder]:
        """List the folders. The first one with the role JUNK gets spam, the first with UNSURE unsure mail."""

    def list_messages(self, folder: Folder) -> Iterable[ListedMessage]:
        """List the messages of a folder, without reading them."""

    def read(self, folder: Folder, uids: Sequence[str]) -> Iterator[tuple[str, bytes | MessageError]]:
        """Read messages, without changing their flags, in any order.

        A message that is not in the folder any more is left out. For a message that cannot be read, or is too
        large, the error is returned.
        """

    def move(self, folder: Folder, uid: str, target: Folder, *, copy_uid: str | None = None) -> str | None:
        """Move a message and return its uid in the target, or None if that is not known.

        `copy_uid` is the uid of a copy that an interrupted move seems to have left in the target: if its
        bytes are the same, the message is only removed from `folder`, otherwise it is moved. Raise
        MessageError if this message cannot be moved, FolderError if none can be moved to the target now, and
        LookupError if the message is not in `folder` any more.
        """

    def add_keywords(self, folder: Folder, uid: str, keywords: frozenset[str]) -> bool:
        """Add keywords to a message; return False if the folder cannot keep them.

        Raise MessageError if this message cannot be marked; LookupError is allowed if it is not in the folder
        any more.
        """

    def wait(self, seconds: float) -> None:
        """Wait until the account reports a change, but at most the given number of seconds."""
