"""An IMAP account as a `Mailbox` of the watcher; when its connection is lost, another is opened.

- The watcher is the loop of `tamis watch`; `Mailbox`, in `tamis_mail.watching.mailbox`, is the interface
  by which the watcher reaches an account.
- A method that loses the connection raises `MailboxError`, and the next call opens another connection; the
  watcher waits longer after each failure. After a refused password, no password is sent for a minute or more,
  because servers lock accounts after several refusals.
- The flags of a folder's messages are kept in memory, and with CONDSTORE or QRESYNC only changes of them are
  requested.
- Messages are read in batches, so that memory is bounded. If the connection is lost while a batch is read,
  each of its messages is read alone the next time. After three losses, a message counts as unreadable, so
  that the others are still watched.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tamis_mail.surfaces.imap.account import Account, AccountError
from tamis_mail.surfaces.imap.connection import (
    CommandRefusedError,
    Connection,
    ConnectionLostError,
    FolderName,
    LoginRefusedError,
    SelectedFolder,
    Status,
    open_connection,
)
from tamis_mail.watching.mailbox import Folder, ListedMessage, MailboxError, MessageError
from tamis_mail.watching.roles import WATCHED, NamedFolder, Role, find_roles

_BATCH_BYTES = 4 << 20  # maximum size of a batch of several messages
_BATCH_MESSAGES = 100  # maximum number of messages of a batch
# An answer may have twice the expected size of its messages and so many bytes more, because some servers
# report a size that is too small.
_EXTRA_BYTES = 1 << 20
_FIRST_LOGIN_DELAY, _MAX_LOGIN_DELAY = 60.0, 3600.0  # seconds to wait after a refused password
_MAX_LOSSES = 3  # of the connection while a message was read; then the message counts as unreadable
_SLEEP_SECONDS = 60.0  # maximum time for which `wait` sleeps if it cannot use IDLE
_INBOX = "INBOX"
_SPECIAL_USES = frozenset({"\\junk", "\\archive"})  # attributes; a folder with one of them is listed first
_QRESYNC, _IDLE = "QRESYNC", "IDLE"

Connect = Callable[[Account, str], Connection]  # its arguments are an account and its secret


class LoginError(MailboxError):
    """The password was refused, or there is none."""


@dataclass(slots=True)
class _Listing:
    """The flags of a folder's messages, by uid, when the folder had this status."""

    status: Status
    flags: dict[int, frozenset[str]]


class ImapMailbox:
    """The account of one user."""

    def __init__(
        self,
        account: Account,
        *,
        max_size: int = 10 << 20,  # of a message in bytes; a larger one is not read
        secret: str = "",
        connect: Connect = open_connection,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.account = account
        self.max_size = max_size
        self._connect = connect
        self._clock = clock
        self._secret = secret  # password or OAuth token; if it is empty, it is read when it is needed
        self._connection: Connection | None = None
        self._refused_logins = 0  # in succession
        self._next_login = 0.0  # time on the clock before which no login is tried
        self._login_fault = ""  # why the last login was refused
        # The status of the inbox for which `wait` last returned at once.
        self._noticed_status: Status | None = None
        # Names of folders that the server has refused to open. They are not watched until another connection
        # is opened, except the inbox, Junk and Unsure, which are always watched.
        self._refused_folders: set[str] = set()
        self._wires: dict[str, str] = {}  # by name of a folder: the name that is sent (`FolderName.wire`)
        self._listings: dict[str, _Listing] = {}  # by name of a folder
        # Connections that were lost while a message was read, by name and UIDVALIDITY of its folder, and uid.
        self._losses: Counter[tuple[str, str, int]] = Counter()

    # The methods of `watching.mailbox.Mailbox`.

    def list_folders(self) -> Sequence[Folder]:
        """List the wanted folders; Junk, and Unsure if the settings name one, even before they exist."""
        connection = self._get_connection()
        with self._translate_errors(connection):
            connection.check()  # NOOP: the server may report changes
            own_folders = self._list_own_folders(connection)
            roles = self._find_roles(own_folders)
            self._wires = {folder.name: folder.wire for folder in own_folders}
            folders = [
                self._make_folder(connection, folder, role)
                for folder, role in zip(own_folders, roles, strict=True)
                if self._is_wanted(folder, role)
            ]
            prefix, _ = connection.find_own_prefix() if Role.JUNK not in roles else ("", "")
        for role, name in (
            (Role.JUNK, self.account.junk or f"{prefix}Junk"),
            (Role.UNSURE, self.account.unsure),
        ):
            if name and role not in roles:
                folders.append(Folder(name, role, is_present=False))
        names = {folder.name for folder in folders}
        self._listings = {name: listing for name, listing in self._listings.items() if name in names}
        return folders

    def list_messages(self, folder: Folder) -> Sequence[ListedMessage]:
        """List the messages of a folder with their flags."""
        if not folder.is_present:
            return []
        connection = self._get_connection()
        with self._translate_errors(connection):
            opened = self._open(connection, folder, reopens=True)
            listing = self._update_listing(connection, opened, self._listings.get(folder.name))
        self._listings[folder.name] = listing
        return [ListedMessage(str(uid), flags) for uid, flags in sorted(listing.flags.items())]

    def read(self, folder: Folder, uids: Sequence[str]) -> Iterator[tuple[str, bytes | MessageError]]:
        """Read messages in batches; yield each uid that is still there with its message or an error."""
        numbers = [int(uid) for uid in uids]
        connection = self._get_connection()
        with self._translate_errors(connection):
            self._open(connection, folder)
            sizes = connection.read_sizes(numbers)
        for batch in self._make_batches(folder, numbers, sizes):
            if len(batch) == 1:  # a message with a problem has a batch of its own
                problem = self._find_problem(folder, batch[0], sizes)
                if problem is not None:
                    yield str(batch[0]), problem
                    continue
            for uid, raw in self._read_batch(folder, batch, sizes):
                yield str(uid), raw

    def move(self, folder: Folder, uid: str, target: Folder, *, copy_uid: str | None = None) -> str | None:
        """Move a message; return its uid in the target, or None if that is not known.

        `copy_uid` is the uid of a copy that an interrupted move may have left in the target: if its bytes are
        the same, the message is only removed from `folder`.
        """
        connection, number = self._get_connection(), int(uid)
        if not connection.can_move:
            raise MessageError("the server can neither MOVE nor UID EXPUNGE, so messages stay where they are")
        with self._translate_errors(connection, MessageError):
            target_wire = self._wires.get(target.name)
            if target_wire is None:
                target_wire = self._wires[target.name] = connection.create(target.name)
            if copy_uid is not None and self._is_copy(connection, folder, number, target, int(copy_uid)):
                self._open(connection, folder, writable=True)
                connection.remove(number)
                return copy_uid
            self._open(connection, folder, writable=True)
            if not connection.has_message(number):
                raise LookupError(uid)
            moved = connection.move(number, target_wire)
        if moved is None:
            return None
        validity, new_uid = moved
        return str(new_uid) if target.validity in ("", str(validity)) else None

    def add_keywords(self, folder: Folder, uid: str, keywords: frozenset[str]) -> bool:
        """Add keywords; return False if the folder cannot keep them. A message that is gone is no error."""
        connection = self._get_connection()
        with self._translate_errors(connection, MessageError):
            opened = self._open(connection, folder, writable=True)
            if not ("\\*" in opened.permanent_flags or keywords <= opened.permanent_flags):
                return False
            connection.add_flags(int(uid), sorted(keywords))
        return True

    def wait(self, seconds: float) -> None:
        """Wait by IDLE until the inbox changes; sleep if there is no connection or the server has no IDLE."""
        connection = self._connection
        if connection is None or connection.is_lost or not connection.offers(_IDLE):
            time.sleep(min(seconds, _SLEEP_SECONDS))
            return
        with self._translate_errors(connection):
            opened = connection.select(self._wires.get(_INBOX, _INBOX), reopens=True)
            known = self._listings.get(_INBOX)
            is_changed = known is not None and known.status != opened.status  # since the inbox was listed
            if is_changed and opened.status != self._noticed_status:  # only once for each status
                self._noticed_status = opened.status
                return
            connection.wait(seconds)

    # The connection.

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get_connection(self) -> Connection:
        """Return the connection; open one if there is none."""
        if self._connection is not None and not self._connection.is_lost:
            return self._connection
        self.close()
        if self._clock() < self._next_login:
            raise MailboxError(self._login_fault)
        try:
            if not self._secret or self.account.login == "xoauth2":  # tokens expire
                self._secret = self.account.read_secret()
            self._connection = self._connect(self.account, self._secret)
        except (LoginRefusedError, AccountError) as error:
            exponent = min(self._refused_logins, 20)  # a larger power could overflow
            delay = min(_FIRST_LOGIN_DELAY * 2.0**exponent, _MAX_LOGIN_DELAY)
            self._refused_logins += 1
            self._next_login = self._clock() + delay
            self._secret, self._login_fault = "", str(error)
            raise LoginError(str(error)) from None
        except ConnectionLostError as error:
            raise MailboxError(str(error)) from None
        self._refused_logins = 0
        self._refused_folders.clear()
        return self._connection

    @contextmanager
    def _translate_errors(
        self, connection: Connection, refusal: type[MailboxError] | type[MessageError] = MailboxError
    ) -> Iterator[None]:
        """Raise errors of the connection as errors of `watching.mailbox`, a refused command as `refusal`."""
        try:
            yield
        except ConnectionLostError as error:
            self.close()
            raise MailboxError(str(error)) from None
        except CommandRefusedError as error:
            raise refusal(f"the server refused: {error}") from None

    # Folders.

    def _list_own_folders(self, connection: Connection) -> list[FolderName]:
        """List the user's own folders, in an order in which the first one with a role is the best for it."""
        foreign_prefixes = connection.list_foreign_prefixes()
        folders: dict[str, FolderName] = {}
        for folder in connection.list_folders():
            if foreign_prefixes and folder.name.startswith(foreign_prefixes):
                continue
            if folder.wire.upper() == _INBOX:
                folder = replace(folder, name=_INBOX)
            if folder.name in folders:  # two names on the wire are decoded to the same name
                folder = replace(folder, name=folder.wire)
            folders[folder.name] = folder

        def rank(folder: FolderName) -> tuple[bool, int, str]:
            """Put a folder before others with its role: by special use, then by depth, then by name."""
            return not folder.attributes & _SPECIAL_USES, len(folder.parts), folder.name

        return sorted(folders.values(), key=rank)

    def _find_roles(self, own_folders: Sequence[FolderName]) -> list[Role]:
        paths = {folder.name: "/".join(folder.parts) for folder in own_folders}

        def list_path(name: str) -> list[str]:
            """The path of the folder that a setting names; none if the setting is empty."""
            return [paths.get(name, name)] if name else []

        folders = [NamedFolder(folder.parts, folder.attributes) for folder in own_folders]
        return find_roles(folders, junk=list_path(self.account.junk), unsure=list_path(self.account.unsure))

    def _make_folder(self, connection: Connection, folder: FolderName, role: Role) -> Folder:
        """Return a folder for the watcher, without validity and revision if its role is not watched."""
        if role not in WATCHED:
            return Folder(folder.name, role)
        try:
            status = folder.status or connection.read_status(folder.wire)
        except CommandRefusedError:
            self._refused_folders.add(folder.name)
            raise
        revision = ""
        if status.highest_modseq:  # without this number, a revision would not show a change of flags
            revision = f"{status.validity} {status.next_uid} {status.messages} {status.highest_modseq}"
        return Folder(folder.name, role, validity=str(status.validity), revision=revision)

    def _is_wanted(self, folder: FolderName, role: Role) -> bool:
        """Whether a folder is listed.

        The inbox, Junk and Unsure are always listed. Any other folder is listed if the settings name this
        folder or name no folders at all, unless the server has refused to open it.
        """
        if role in (Role.INBOX, Role.JUNK, Role.UNSURE):
            return True
        is_chosen = not self.account.folders or folder.name in self.account.folders
        return is_chosen and folder.name not in self._refused_folders

    def _open(
        self, connection: Connection, folder: Folder, *, writable: bool = False, reopens: bool = False
    ) -> SelectedFolder:
        """Open a folder as `Connection.select` does; raise MailboxError if its UIDVALIDITY has changed."""
        wire = self._wires.get(folder.name, folder.name)
        try:
            opened = connection.select(wire, writable=writable, reopens=reopens)
        except CommandRefusedError:
            self._refused_folders.add(folder.name)
            raise
        if folder.validity and str(opened.status.validity) != folder.validity:
            raise MailboxError(f"folder {folder.name} has new uids: it is listed again")
        return opened

    def _update_listing(
        self, connection: Connection, opened: SelectedFolder, known: _Listing | None
    ) -> _Listing:
        """Return the open folder's listing; if the known one can be updated, only changes are requested."""
        current = opened.status
        if (
            known is None
            or known.status.validity != current.validity
            or not known.status.highest_modseq
            or not current.highest_modseq
        ):
            flags, _ = connection.list_flags() if current.messages else ({}, frozenset[int]())
        else:
            changes, vanished = connection.list_flags(known.status.highest_modseq)
            flags = {**known.flags, **changes}
            # Without QRESYNC, or if the messages do not add up, all uids are requested.
            if (
                not connection.offers(_QRESYNC)
                or len(flags) - len(vanished & flags.keys()) != current.messages
            ):
                present = connection.list_uids() if current.messages else frozenset[int]()
                flags = {uid: each for uid, each in flags.items() if uid in present}
            else:
                flags = {uid: each for uid, each in flags.items() if uid not in vanished}
        return _Listing(current, flags)

    # Messages.

    def _make_batches(
        self, folder: Folder, uids: Sequence[int], sizes: dict[int, int]
    ) -> Iterator[list[int]]:
        """Split uids into batches, without those that have no size: these messages are gone.

        A message that is too large, or during whose reading the connection was lost, has a batch of its own.
        """
        batch: list[int] = []
        total = 0
        for uid in uids:
            if uid not in sizes:
                continue
            is_alone = sizes[uid] > self.max_size or self._losses[self._make_loss_key(folder, uid)] > 0
            if batch and (is_alone or total + sizes[uid] > _BATCH_BYTES or len(batch) == _BATCH_MESSAGES):
                yield batch
                batch, total = [], 0
            if is_alone:
                yield [uid]
            else:
                batch.append(uid)
                total += sizes[uid]
        if batch:
            yield batch

    def _find_problem(self, folder: Folder, uid: int, sizes: dict[int, int]) -> MessageError | None:
        """Return an error if a message is too large, or its reading has lost too many connections."""
        if sizes[uid] > self.max_size:
            return MessageError(f"it has {sizes[uid]} bytes, more than {self.max_size}")
        if self._losses[self._make_loss_key(folder, uid)] >= _MAX_LOSSES:
            del self._losses[self._make_loss_key(folder, uid)]  # counted anew if the watcher asks again
            return MessageError(f"the connection was lost {_MAX_LOSSES} times while it was read")
        return None

    def _read_batch(
        self, folder: Folder, batch: Sequence[int], sizes: dict[int, int]
    ) -> list[tuple[int, bytes | MessageError]]:
        """Return the uids and the messages of a batch; count a loss of the connection for each of them."""
        connection = self._get_connection()
        keys = [self._make_loss_key(folder, uid) for uid in batch]
        max_bytes = 2 * sum(sizes[uid] for uid in batch) + _EXTRA_BYTES
        try:
            with self._translate_errors(connection):
                self._open(connection, folder)
                messages = self._read_messages(connection, batch, max_bytes)
        except MailboxError:
            if connection.is_lost:
                self._losses.update(keys)
            raise
        for key in keys:
            self._losses.pop(key, None)
        outcomes: list[tuple[int, bytes | MessageError]] = []
        for uid, raw in messages.items():
            if raw is None:
                outcomes.append((uid, MessageError("the server refuses to show it")))
            elif len(raw) > self.max_size:
                outcomes.append((uid, MessageError(f"it has {len(raw)} bytes, more than {self.max_size}")))
            else:
                outcomes.append((uid, raw))
        return outcomes

    def _read_messages(
        self, connection: Connection, batch: Sequence[int], max_bytes: int
    ) -> dict[int, bytes | None]:
        """Read messages together, or one by one if the server refuses that; None marks a refused message."""
        try:
            return connection.read_messages(batch, max_bytes)
        except CommandRefusedError:
            if len(batch) == 1:
                return {batch[0]: None}
        return {
            uid: raw
            for single_uid in batch
            for uid, raw in self._read_messages(connection, [single_uid], max_bytes).items()
        }

    def _is_copy(
        self, connection: Connection, folder: Folder, uid: int, target: Folder, copy_uid: int
    ) -> bool:
        """Whether message `uid` of a folder and message `copy_uid` of the target have the same bytes."""
        self._open(connection, folder)
        max_bytes = 2 * self.max_size + _EXTRA_BYTES
        original = connection.read_messages([uid], max_bytes).get(uid)
        if original is None:
            raise LookupError(str(uid))
        opened = connection.select(self._wires[target.name])
        if target.validity and str(opened.status.validity) != target.validity:
            return False
        return connection.read_messages([copy_uid], max_bytes).get(copy_uid) == original

    def _make_loss_key(self, folder: Folder, uid: int) -> tuple[str, str, int]:
        """Return the key of a message in `_losses`."""
        return folder.name, folder.validity, uid
