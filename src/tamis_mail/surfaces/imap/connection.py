"""An IMAP connection: folders, flags, messages and moves by UID.

- A method sends a command, and returns a value that was read from the responses, or raises an error.
  `CommandRefusedError`: the server answered NO or BAD. `ConnectionLostError`: the server closed the
  connection, was too slow, sent too much, or was not understood; the connection cannot be used any more.
- Messages are read by BODY.PEEK[], which changes no flag. A folder is opened by EXAMINE until it is to be
  changed.
- A message is moved by UID MOVE, else by UID COPY, UID STORE and UID EXPUNGE of this message alone. EXPUNGE
  without a UID and CLOSE, which remove what other programs have marked, are never sent.
"""

import imaplib
import re
import select
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from imapclient.exceptions import ProtocolError
from imapclient.imap_utf7 import decode as decode_utf7
from imapclient.imap_utf7 import encode as encode_utf7
from imapclient.response_parser import parse_response

from tamis_mail.surfaces.imap.account import Account
from tamis_mail.surfaces.imap.transport import Client

T = TypeVar("T")

_CONNECT_SECONDS = 30.0  # maximum time to connect, and without any byte from the server
_LOGOUT_SECONDS = 2.0  # maximum time of LOGOUT
_LOGOUT_BYTES = 1 << 16  # maximum size of the answer to LOGOUT
_IDLE_BYTES = 1 << 20  # maximum size of what the server reports during an IDLE
_COMMAND_SECONDS = 300.0  # maximum time of one command, from the first byte to the last
_ANSWER_BYTES = 64 << 20  # maximum size of an answer, enough for the flags of a million messages
_MAX_UID_SET = 1_000_000  # uids in one set of a response; more are an error
_MAX_TEXT = 200  # characters of a server's text that are shown
_IDLE_SECONDS = 25 * 60.0  # maximum time of an IDLE; RFC 2177: a server may end it after 30 minutes
_FETCH = "FETCH"
_SET_UIDS = 500  # maximum number of uids in one command
_UID = re.compile(rb"[ (]UID (\d{1,10})[ )]", re.IGNORECASE)
_FLAGS = re.compile(rb"[ (]FLAGS \(([^()]*)\)", re.IGNORECASE)
_SIZE = re.compile(rb"[ (]RFC822\.SIZE (\d{1,15})[ )]", re.IGNORECASE)
_COPYUID = re.compile(rb"(\d{1,10}) [\d,:]+ (\d{1,10})")  # UIDVALIDITY, old uid, new uid of one message
# The errors that imaplib and imapclient raise if they cannot parse an answer.
_PARSE_ERRORS = (
    *(ProtocolError, ValueError, TypeError, LookupError, AttributeError),
    *(AssertionError, RecursionError, ArithmeticError),
)
# A line during IDLE that reports a change.
_CHANGE = re.compile(rb"\* (?:\d+ (?:EXISTS|EXPUNGE|FETCH)|VANISHED)\b", re.IGNORECASE)


class ConnectionLostError(Exception):
    """The connection cannot be used any more. The text is one line."""


class CommandRefusedError(Exception):
    """The server has refused a command. The text is one line."""


class LoginRefusedError(Exception):
    """The server does not accept the user and password. The text is one line."""


@dataclass(frozen=True, slots=True)
class Status:
    """The counters of a folder, which change when it does; 0 where the server did not send one."""

    validity: int  # UIDVALIDITY
    next_uid: int = 0
    messages: int = 0  # their number
    highest_modseq: int = 0

    @classmethod
    def read(cls, items: Mapping[Any, Any]) -> "Status":
        """Read the counters from the items of STATUS, SELECT or EXAMINE."""

        def find_number(*names: bytes) -> int:
            return next((items[name] for name in names if isinstance(items.get(name), int)), 0)

        return cls(
            find_number(b"UIDVALIDITY"),
            find_number(b"UIDNEXT"),
            find_number(b"MESSAGES", b"EXISTS"),
            find_number(b"HIGHESTMODSEQ"),
        )


@dataclass(frozen=True, slots=True)
class FolderName:
    """A folder in the server's list."""

    wire: str  # as the server writes it: modified UTF-7
    name: str  # decoded
    delimiter: str  # between the levels of the name; empty if there are no levels
    attributes: frozenset[str]  # in lower case, such as "\\junk"
    status: Status | None = None  # None if the server's list does not have it

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the levels."""
        return tuple(self.name.split(self.delimiter)) if self.delimiter else (self.name,)


@dataclass(frozen=True, slots=True)
class SelectedFolder:
    """A folder that is open."""

    wire: str  # as in `FolderName`
    status: Status
    is_writable: bool  # it was opened by SELECT, not by EXAMINE
    permanent_flags: frozenset[str] = field(default=frozenset())


def open_connection(account: Account, secret: str) -> "Connection":
    """Connect, begin TLS and log in; raise ConnectionLostError or LoginRefusedError if that fails."""
    context = None
    if account.tls != "none":
        try:
            context = ssl.create_default_context(cafile=account.certificate or None)
        except (OSError, ssl.SSLError) as error:
            raise ConnectionLostError(
                f"the certificates in {account.certificate} cannot be read: {_format_error(error)}"
            ) from None
    address = f"{account.host}:{account.effective_port}"
    try:
        client = Client(
            account.host,
            account.effective_port,
            _CONNECT_SECONDS,
            context if account.tls == "implicit" else None,
        )
    except ssl.SSLCertVerificationError as error:
        raise ConnectionLostError(
            f"the certificate of {address} is not valid: {error.verify_message}; for a certificate of your "
            "own, give its file with --certificate"
        ) from None
    except (imaplib.IMAP4.error, OSError, *_PARSE_ERRORS) as error:
        hint = "; try --tls starttls" if account.tls == "implicit" else ""
        raise ConnectionLostError(f"{address} cannot be reached: {_format_error(error)}{hint}") from None
    connection = Connection(client)
    try:
        if account.tls == "starttls":
            connection.start_tls(context, address)
        connection.log_in(account, secret)
    except BaseException:
        connection.close()
        raise
    return connection


class Connection:
    """A connection that is logged in."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._transport = client.transport
        self._client.folder_encode = False  # imapclient does not encode names: they are sent as they came
        self._capabilities: frozenset[str] = frozenset()
        self.selected: SelectedFolder | None = None
        self._is_idle = False

    # Beginning and end.

    def start_tls(self, context: ssl.SSLContext | None, address: str) -> None:
        """Encrypt the connection; `address`, as HOST:PORT, is for the text of an error."""
        try:
            self._run(lambda: self._client.starttls(context), "STARTTLS")
        except CommandRefusedError:
            raise ConnectionLostError(f"{address} does not offer STARTTLS; try --tls implicit") from None

    def log_in(self, account: Account, secret: str) -> None:
        """Log in, and switch extensions on."""
        offered = self._read_capabilities()
        try:
            if account.login == "xoauth2":
                if "AUTH=XOAUTH2" not in offered:
                    raise LoginRefusedError(f"{account.host} does not offer XOAUTH2")
                self._authenticate("XOAUTH2", f"user={account.user}\1auth=Bearer {secret}\1\1")
            elif "AUTH=PLAIN" in offered:
                self._authenticate("PLAIN", f"\0{account.user}\0{secret}")
            elif "LOGINDISABLED" in offered:
                raise LoginRefusedError(
                    f"{account.host} accepts no password here: try --tls implicit or starttls"
                )
            else:
                self._run(lambda: self._transport.login(account.user, secret), "LOGIN")
        except CommandRefusedError as error:
            raise LoginRefusedError(
                f"{account.host} does not accept the {account.login} of {account.user}: {error}"
            ) from None
        self._capabilities = self._read_capabilities()
        extensions = [name for name in ("CONDSTORE", "QRESYNC") if name in self._capabilities]
        if "ENABLE" in self._capabilities and extensions:
            self._run(lambda: self._client.enable(*extensions), "ENABLE")

    def _authenticate(self, mechanism: str, response: str) -> None:
        # imapclient's methods would raise the same error for a lost connection as for a refused password.
        responses = iter([response.encode("utf-8")])

        def respond(challenge: bytes) -> bytes:
            return next(responses, b"")  # a second challenge describes an error of XOAUTH2

        self._run(lambda: self._transport.authenticate(mechanism, respond), "AUTHENTICATE")

    def close(self) -> None:
        """Log out, unless the connection is broken or in IDLE, and close the connection."""
        if not self._transport.is_broken and not self._is_idle:
            with suppress(Exception):  # it is closed in any case
                self._transport.set_limits(_LOGOUT_BYTES, _LOGOUT_SECONDS)
                self._client.logout()
        self._transport.shutdown()

    @property
    def is_lost(self) -> bool:
        """Whether the connection cannot be used any more."""
        return self._transport.is_broken

    def offers(self, capability: str) -> bool:
        """Whether the server has a capability."""
        return capability in self._capabilities

    # Folders.

    def list_folders(self) -> list[FolderName]:
        """List the folders that can be opened, with their attributes.

        Folders whose names this client cannot send back to the server are left out.

        If the server offers LIST-STATUS, the list also has the counters of the folders.
        """

        def ask() -> tuple[list[tuple[Any, Any, Any]], list[Any]]:
            if not {"SPECIAL-USE", "LIST-EXTENDED"} <= self._capabilities:
                return list(self._client.list_folders()), []
            wanted = "SPECIAL-USE"
            if self.offers("LIST-STATUS"):
                wanted += f" STATUS ({' '.join(self._status_items)})"
            for name in ("LIST", "STATUS"):
                self._transport.response(name)
            word, data = self._transport.xatom("LIST", '""', '"*"', "RETURN", f"({wanted})")
            _check_answer(word, data)
            lists, statuses = (self._transport.response(name)[1] or () for name in ("LIST", "STATUS"))
            parsed = parse_response([line for line in lists if line])
            folders = list(zip(parsed[::3], parsed[1::3], parsed[2::3], strict=True))
            return folders, list(parse_response([line for line in statuses if line]))

        answers, statuses = self._run(ask, "LIST")

        def read() -> list[FolderName | None]:
            known = {
                _read_wire(name): items for name, items in zip(statuses[::2], statuses[1::2], strict=True)
            }
            return [_read_folder_name(*answer, known) for answer in answers]

        hidden = {"\\noselect", "\\nonexistent"}
        folders = self._parse(read, "LIST")
        return [folder for folder in folders if folder is not None and not hidden & folder.attributes]

    def list_foreign_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of folders that belong to others, or to a group."""
        if not self.offers("NAMESPACE"):
            return ()
        namespace = self._run(self._client.namespace, "NAMESPACE")

        def read() -> tuple[str, ...]:
            foreign = [*(namespace.other or ()), *(namespace.shared or ())]
            return tuple(decode_utf7(prefix) for prefix, _ in foreign if prefix)

        return self._parse(read, "NAMESPACE")

    def find_own_prefix(self) -> tuple[str, str]:
        """Return the prefix of the user's own folders, and the delimiter of levels; ("", "/") by default."""
        if self.offers("NAMESPACE"):
            personal = self._run(self._client.namespace, "NAMESPACE").personal
            if personal:
                prefix, delimiter = personal[0]
                return self._parse(lambda: (decode_utf7(prefix), delimiter or ""), "NAMESPACE")
        return "", "/"

    def read_status(self, wire: str) -> Status:
        """Return the counters of a folder without opening it."""
        answer = self._run(lambda: self._client.folder_status(wire, self._status_items), "STATUS")
        return Status.read(answer)

    @property
    def _status_items(self) -> list[str]:
        items = ["MESSAGES", "UIDNEXT", "UIDVALIDITY"]
        return [*items, "HIGHESTMODSEQ"] if self.offers("CONDSTORE") else items

    def create(self, name: str) -> str:
        """Create a folder, and subscribe to it; return its name on the wire."""
        wire: str = encode_utf7(name).decode("ascii")
        try:
            self._run(lambda: self._client.create_folder(wire), "CREATE")
        except CommandRefusedError:
            self.read_status(wire)  # raises an error unless the folder exists already
        with suppress(CommandRefusedError):  # not all servers have subscriptions
            self._run(lambda: self._client.subscribe_folder(wire), "SUBSCRIBE")
        return wire

    def select(self, wire: str, *, writable: bool = False, reopens: bool = False) -> SelectedFolder:
        """Open a folder by EXAMINE, or by SELECT if it is to be changed (`writable`).

        `wire` is the name that the server understands (`FolderName.wire`). A folder that is open already is
        opened again only if it must become writable or, with `reopens`, to read its present counters.
        """
        current = self.selected
        if (
            current is not None
            and current.wire == wire
            and not reopens
            and (current.is_writable or not writable)
        ):
            return current
        self.selected = None
        answer = self._run(lambda: self._client.select_folder(wire, readonly=not writable), "SELECT")
        status = Status.read(answer)
        flags = [flag.decode("ascii", "replace") for flag in answer.get(b"PERMANENTFLAGS", ())]
        permanent = frozenset(flag.strip("()") for flag in flags)
        self.selected = SelectedFolder(wire, status, writable, permanent)
        return self.selected

    # Messages of the folder that is open.

    def list_uids(self) -> frozenset[int]:
        """Return the uids of all messages."""
        uids: Iterable[int] = self._run(lambda: self._client.search("ALL"), "SEARCH")
        return frozenset(uids)

    def list_flags(self, since: int = 0) -> tuple[dict[int, frozenset[str]], frozenset[int]]:
        r"""Return the flags of all messages, without \Recent, and the uids of messages that have vanished.

        With `since`, a former HIGHESTMODSEQ, only the changes after it are returned. Which messages have
        vanished is known only with QRESYNC.
        """
        modifier = ""
        if since:
            modifier = f"(CHANGEDSINCE {since}{' VANISHED' if self.offers('QRESYNC') else ''})"
        flags: dict[int, frozenset[str]] = {}
        parsed: dict[bytes, frozenset[str]] = {}  # most messages have the same few flags
        self._transport.response("VANISHED")
        for line in self._fetch("1:*", "(UID FLAGS)", modifier):
            head = _take_head(line)
            uid, names = _UID.search(head), _FLAGS.search(head)
            if uid and names:
                if names[1] not in parsed:
                    words = names[1].decode("ascii", "replace").split()
                    parsed[names[1]] = frozenset(word for word in words if word.lower() != "\\recent")
                flags[int(uid[1])] = parsed[names[1]]
        lines = [line for line in self._transport.response("VANISHED")[1] or () if isinstance(line, bytes)]
        sets = self._parse(lambda: [read_uid_set(line.rpartition(b" ")[2]) for line in lines])
        return flags, frozenset().union(*sets)

    def read_sizes(self, uids: Sequence[int]) -> dict[int, int]:
        """Return the sizes of messages in bytes; those that are not there any more are left out."""
        wanted, sizes = frozenset(uids), {}
        for start in range(0, len(uids), _SET_UIDS):
            part = uids[start : start + _SET_UIDS]
            for line in self._fetch(format_uid_set(part), "(UID RFC822.SIZE)"):
                head = _take_head(line)
                uid, size = _UID.search(head), _SIZE.search(head)
                if uid and size and int(uid[1]) in wanted:
                    sizes[int(uid[1])] = int(size[1])
        return sizes

    def read_messages(self, uids: Sequence[int], max_bytes: int) -> dict[int, bytes | None]:
        """Read messages; those that are not there any more are left out.

        None stands for a message whose text the server does not send. An answer of more than `max_bytes` for
        all of them together loses the connection.
        """
        lines = self._fetch(format_uid_set(uids), "(UID BODY.PEEK[])", size=max_bytes)
        wanted = frozenset(uids)
        messages: dict[int, bytes | None] = {}
        for items in self._parse(lambda: list(_read_fetched(lines))):
            uid, raw = items.get(b"UID"), items.get(b"BODY[]", False)
            if isinstance(uid, int) and uid in wanted and raw is not False:
                messages[uid] = raw if isinstance(raw, bytes) else None
        return messages

    def has_message(self, uid: int) -> bool:
        """Whether a message is there."""
        return uid in self.read_sizes([uid])

    def add_flags(self, uid: int, flags: Sequence[str]) -> None:
        """Add flags to a message."""
        self._run(lambda: self._client.add_flags([uid], flags, silent=True), "STORE")

    @property
    def can_move(self) -> bool:
        """Whether a single message can be moved without removing others from the folder."""
        return self.offers("MOVE") or self.offers("UIDPLUS")

    def move(self, uid: int, wire: str) -> tuple[int, int] | None:
        """Move a message; return UIDVALIDITY of the target and its uid there, if the server sends them."""
        self._transport.response("COPYUID")
        if self.offers("MOVE"):
            self._run(lambda: self._client.move([uid], wire), "MOVE")
            return self._read_copy_uid()
        self._run(lambda: self._client.copy([uid], wire), "COPY")
        copy_uid = self._read_copy_uid()
        self.remove(uid)
        return copy_uid

    def remove(self, uid: int) -> None:
        r"""Mark one message as \Deleted and, if the server offers UIDPLUS, remove it, and no other."""
        self.add_flags(uid, [r"\Deleted"])
        if self.offers("UIDPLUS"):
            self._run(lambda: self._client.uid_expunge([uid]), "EXPUNGE")

    # Waiting.

    def check(self) -> None:
        """Send NOOP, so that the server can report changes."""
        self._run(self._client.noop, "NOOP")

    def wait(self, seconds: float) -> None:
        """Wait by IDLE until the open folder changes or the time is over."""
        seconds = min(seconds, _IDLE_SECONDS)
        self._run(self._client.idle, "IDLE")
        self._is_idle = True
        self._transport.set_limits(_IDLE_BYTES, seconds + _CONNECT_SECONDS)
        deadline = time.monotonic() + seconds
        poller = select.poll()
        poller.register(self._client.socket(), select.POLLIN)
        while (remaining := deadline - time.monotonic()) > 0:
            if not self._transport.has_unread and not poller.poll(remaining * 1000):
                break
            line = self._run_part_of_idle(self._transport.readline)
            if _CHANGE.match(line):
                break
            if line[:6].upper() == b"* BYE ":
                raise self._give_up("IDLE", ConnectionError("the server has ended the connection"))
        self._run(self._client.idle_done, "IDLE")
        self._is_idle = False

    # The parts that all commands share.

    def _fetch(self, uids: str, items: str, modifier: str = "", size: int = _ANSWER_BYTES) -> list[Any]:
        """Return the lines of the answer to UID FETCH, which may have at most `size` bytes."""

        def ask() -> list[Any]:
            self._transport.response("FETCH")  # drop responses that came before the command
            word, data = self._transport.uid("FETCH", uids, items, *([modifier] if modifier else []))
            _check_answer(word, data)
            return [line for line in data if line is not None]

        return self._run(ask, _FETCH, size)

    def _read_capabilities(self) -> frozenset[str]:
        def ask() -> list[Any]:
            word, data = self._transport.capability()
            _check_answer(word, data)
            return list(data)

        lines = self._run(ask, "CAPABILITY")
        text = b" ".join(line for line in lines if isinstance(line, bytes)).decode("ascii", "replace")
        return frozenset(text.upper().split())

    def _read_copy_uid(self) -> tuple[int, int] | None:
        lines = self._transport.response("COPYUID")[1] or ()
        for line in lines:
            match = _COPYUID.fullmatch(line) if isinstance(line, bytes) else None
            if match:
                return int(match[1]), int(match[2])
        return None

    def _parse(self, read: Callable[[], T], command: str = _FETCH) -> T:
        """Read the answer to a command; if that fails, give up the connection."""
        try:
            return read()
        except _PARSE_ERRORS as error:
            raise self._give_up(command, error) from None

    def _run_part_of_idle(self, work: Callable[[], T]) -> T:
        """Run part of the command IDLE, with the limits that are set already."""
        try:
            return work()
        except (imaplib.IMAP4.error, OSError) as error:
            raise self._give_up("IDLE", error) from None

    def _run(self, work: Callable[[], T], command: str, size: int = _ANSWER_BYTES) -> T:
        """Run a command whose answer may have at most `size` bytes.

        Raise ConnectionLostError or CommandRefusedError if it fails.
        """
        self._transport.set_limits(size, _COMMAND_SECONDS)
        try:
            return work()
        except (imaplib.IMAP4.readonly, CommandRefusedError) as error:
            raise _explain_refusal(command, error) from None
        except _PARSE_ERRORS as error:
            raise self._give_up(command, error) from None
        except (imaplib.IMAP4.abort, OSError) as error:
            raise self._give_up(command, error) from None
        except imaplib.IMAP4.error as error:
            if self._transport.is_broken:
                raise self._give_up(command, error) from None
            raise _explain_refusal(command, error) from None

    def _give_up(self, command: str, error: BaseException) -> ConnectionLostError:
        """Close the connection, and return an error that says why.

        Errors of imaplib quote the server's answer, which may be part of a message: they are not shown. The
        text of a BYE is shown, except while messages are read, because a garbled answer may look like a BYE.
        """
        byes = self._transport.untagged_responses.get("BYE") or []
        if self._transport.fault:
            reason = self._transport.fault
        elif isinstance(error, OSError):
            reason = _format_error(error)
        elif byes and command == _FETCH:
            reason = "the server ended the connection"
        elif byes and isinstance(byes[-1], bytes):
            reason = _format_error(ConnectionError(byes[-1].decode("utf-8", "replace")))
        else:
            reason = "the server's answer was not understood"
        self._transport.shutdown()
        return ConnectionLostError(f"connection lost at {command}: {reason}")


def format_uid_set(uids: Iterable[int]) -> str:
    """Return uids as IMAP writes them.

    >>> format_uid_set([7, 3, 4, 5])
    '3:5,7'
    """
    ranges: list[list[int]] = []
    for uid in sorted(set(uids)):
        if ranges and ranges[-1][1] == uid - 1:
            ranges[-1][1] = uid
        else:
            ranges.append([uid, uid])
    return ",".join(str(first) if first == last else f"{first}:{last}" for first, last in ranges)


def read_uid_set(text: bytes) -> set[int]:
    """Return the uids of a set that IMAP writes; raise ValueError if it is not one, or too large.

    >>> sorted(read_uid_set(b"3:5,7"))
    [3, 4, 5, 7]
    """
    uids: set[int] = set()
    for part in text.split(b","):
        first, _, last = part.partition(b":")
        low, high = sorted((int(first), int(last or first)))
        if high - low + 1 + len(uids) > _MAX_UID_SET:
            raise ValueError(f"a set with more than {_MAX_UID_SET} uids")
        uids.update(range(low, high + 1))
    return uids


def _take_head(line: Any) -> bytes:
    """Return a response up to its first literal; imaplib returns a response with a literal as a tuple."""
    head: bytes = line[0] if isinstance(line, tuple) else line
    return head


def _read_fetched(lines: Sequence[Any]) -> Iterator[Mapping[bytes, object]]:
    """Yield the items of each FETCH response separately, by their names in upper case.

    imapclient itself joins responses by their sequence numbers, which may change between two responses.
    """
    values = parse_response(list(lines)) if lines else ()
    for number, items in zip(values[::2], values[1::2], strict=True):
        if not isinstance(number, int) or not isinstance(items, tuple):
            raise ValueError("no FETCH response")
        names = [name.upper() if isinstance(name, bytes) else b"" for name in items[::2]]
        yield dict(zip(names, items[1::2], strict=True))


def _read_wire(name: Any) -> str:
    """Return the name of a folder as it was sent; empty if it cannot be sent back."""
    wire = str(name) if isinstance(name, int) else name
    if isinstance(wire, bytes):
        wire = wire.decode("ascii", "replace")
    return wire if isinstance(wire, str) and wire.isascii() and wire.isprintable() else ""


def _read_folder_name(
    attributes: Any, delimiter: Any, name: Any, statuses: Mapping[str, Any]
) -> FolderName | None:
    """Return a folder, or None if its name cannot be sent back."""
    wire = _read_wire(name)
    if not wire:
        return None
    try:
        decoded: str = decode_utf7(wire.encode("ascii"))
    except ValueError:
        decoded = wire
    if not decoded.isprintable():
        decoded = wire
    items = statuses.get(wire)
    return FolderName(
        wire,
        decoded,
        delimiter.decode("ascii", "replace") if isinstance(delimiter, bytes) else "",
        frozenset(
            value.decode("ascii", "replace").lower() for value in attributes if isinstance(value, bytes)
        ),
        Status.read(dict(zip(items[::2], items[1::2], strict=True))) if isinstance(items, tuple) else None,
    )


def _check_answer(word: str, data: Sequence[Any]) -> None:
    if word != "OK":
        # After other words than NO and BAD, the data are the result of the command, and not a reason.
        text = data[0] if data and word in ("NO", "BAD") else b""
        raise CommandRefusedError(text.decode("utf-8", "replace") if isinstance(text, bytes) else word)


def _explain_refusal(command: str, error: BaseException) -> CommandRefusedError:
    """Return the refusal with the server's reason, except for FETCH, whose answer may quote a message."""
    return CommandRefusedError("it does not say why" if command == _FETCH else _format_error(error))


def _format_error(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:_MAX_TEXT]
