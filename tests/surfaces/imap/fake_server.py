"""An IMAP server in a thread, with real sockets, that obeys a script: it can be odd, garbled, slow or gone.

Folders and messages are kept in memory, and outlive connections. These can be set: the capabilities, how
strings are written (quoted or literal), the size of the packets, and what happens at a certain command.
"""

import base64
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

__all__ = ["FakeFolder", "FakeServer", "run_fake_server"]

ALL_CAPABILITIES = "IMAP4rev1 AUTH=PLAIN SASL-IR NAMESPACE SPECIAL-USE UIDPLUS MOVE UNSELECT IDLE"


@dataclass
class FakeFolder:
    """A folder: messages and flags by uid."""

    messages: dict[int, bytes] = field(default_factory=dict)
    flags: dict[int, set[str]] = field(default_factory=dict)
    attributes: str = ""
    validity: int = 7
    next_uid: int = 1
    permanent_flags: str = r"\Deleted \Seen \Answered \Flagged \*"

    def add(self, raw: bytes) -> int:
        uid, self.next_uid = self.next_uid, self.next_uid + 1
        self.messages[uid], self.flags[uid] = raw, set()
        return uid


@dataclass
class FakeServer:
    """The server. `script` gets the number and text of a command, and returns what happens instead or after.

    "bye": it says BYE and closes. "before": it closes before the command is done. "after": the command is
    done, and the connection is closed before the answer. "no": it refuses. Bytes: they are the answer, where
    TAG stands for the tag. None: nothing special.
    """

    port: int = 0
    folders: dict[str, FakeFolder] = field(default_factory=dict)
    capabilities: str = ALL_CAPABILITIES
    greeting: bytes = b"* OK ready\r\n"
    packet: int = 1 << 16
    pause: float = 0.0  # seconds between two packets
    writes_literals: bool = False
    script: Callable[[int, str], "str | bytes | None"] = lambda number, command: None
    commands: list[str] = field(default_factory=list)
    credentials: list[bytes] = field(default_factory=list)  # that clients gave, decoded
    accepts: bytes = b""  # part of the credentials that are accepted
    sockets: list[socket.socket] = field(default_factory=list)

    def all_messages(self) -> list[tuple[str, bytes]]:
        """Return folder and bytes of every message."""
        return [(name, raw) for name, folder in self.folders.items() for raw in folder.messages.values()]


class _ClosedError(Exception):
    """The connection ends."""


class _Session:
    def __init__(self, server: FakeServer, client: socket.socket) -> None:
        self.server = server
        self.client = client
        self.buffer = b""
        self.selected: FakeFolder | None = None

    def run(self) -> None:
        with suppress(OSError, _ClosedError), self.client:
            self.send(self.server.greeting)
            while True:
                self.obey(self.read_line())

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), self.server.packet):
            self.client.sendall(data[start : start + self.server.packet])
            if self.server.pause:
                time.sleep(self.server.pause)

    def read_line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            data = self.client.recv(1 << 16)
            if not data:
                raise _ClosedError
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def obey(self, line: bytes) -> None:
        tag, _, text = line.decode("ascii").partition(" ")
        number = len(self.server.commands)
        self.server.commands.append(text)
        act = self.server.script(number, text)
        if act == "bye":
            self.send(b"* BYE enough\r\n")
        if act in ("bye", "before"):
            raise _ClosedError
        if isinstance(act, bytes):
            self.send(act.replace(b"TAG", tag.encode()))
            return
        if act == "no":
            self.send(f"{tag} NO refused by the script\r\n".encode())
            return
        answer, status = self.do(tag, text)
        if act == "after":
            raise _ClosedError
        self.send(answer + f"{tag} {status}\r\n".encode())

    def do(self, tag: str, text: str) -> tuple[bytes, str]:
        verb, _, rest = text.partition(" ")
        verb = verb.upper()
        if verb == "UID":
            verb, _, rest = rest.partition(" ")
            return getattr(self, f"do_uid_{verb.lower()}")(rest)  # type: ignore[no-any-return]
        handler = getattr(self, f"do_{verb.lower()}", None)
        if handler is None:
            return b"", "BAD unknown"
        if verb == "IDLE":
            return handler(tag)  # type: ignore[no-any-return]
        return handler(rest)  # type: ignore[no-any-return]

    # Commands.

    def do_capability(self, rest: str) -> tuple[bytes, str]:
        return f"* CAPABILITY {self.server.capabilities}\r\n".encode(), "OK done"

    def do_authenticate(self, rest: str) -> tuple[bytes, str]:
        self.send(b"+ \r\n")
        given = base64.b64decode(self.read_line())
        self.server.credentials.append(given)
        if self.server.accepts in given:
            return b"", "OK logged in"
        if rest == "XOAUTH2":  # the reason is a challenge, which the client answers with nothing
            self.send(b"+ " + base64.b64encode(b'{"status":"401"}') + b"\r\n")
            self.read_line()
        return b"", "NO [AUTHENTICATIONFAILED] wrong"

    def do_login(self, rest: str) -> tuple[bytes, str]:
        return b"", "OK logged in"

    def do_noop(self, rest: str) -> tuple[bytes, str]:
        return b"", "OK done"

    def do_logout(self, rest: str) -> tuple[bytes, str]:
        return b"* BYE bye\r\n", "OK done"

    def do_namespace(self, rest: str) -> tuple[bytes, str]:
        return b'* NAMESPACE (("" "/")) (("Other/" "/")) NIL\r\n', "OK done"

    def do_enable(self, rest: str) -> tuple[bytes, str]:
        return f"* ENABLED {rest}\r\n".encode(), "OK done"

    def do_list(self, rest: str) -> tuple[bytes, str]:
        lines = [
            f'* LIST ({folder.attributes}) "/" '.encode() + self.write(name.encode("ascii")) + b"\r\n"
            for name, folder in self.server.folders.items()
        ]
        return b"".join(lines), "OK done"

    def do_status(self, rest: str) -> tuple[bytes, str]:
        name, _ = _take_name(rest)
        folder = self.server.folders.get(name)
        if folder is None:
            return b"", "NO no such folder"
        values = f"MESSAGES {len(folder.messages)} UIDNEXT {folder.next_uid} UIDVALIDITY {folder.validity}"
        return b"* STATUS " + self.write(name.encode()) + f" ({values})\r\n".encode(), "OK done"

    def do_select(self, rest: str, mode: str = "READ-WRITE") -> tuple[bytes, str]:
        name, _ = _take_name(rest)
        folder = self.server.folders.get(name)
        if folder is None:
            return b"", "NO no such folder"
        self.selected = folder
        lines = [
            f"* {len(folder.messages)} EXISTS",
            "* 0 RECENT",
            f"* FLAGS ({folder.permanent_flags})",
            f"* OK [PERMANENTFLAGS ({folder.permanent_flags})] limited",
            f"* OK [UIDVALIDITY {folder.validity}] valid",
            f"* OK [UIDNEXT {folder.next_uid}] next",
        ]
        return "".join(f"{line}\r\n" for line in lines).encode(), f"OK [{mode}] done"

    def do_examine(self, rest: str) -> tuple[bytes, str]:
        return self.do_select(rest, "READ-ONLY")

    def do_create(self, rest: str) -> tuple[bytes, str]:
        name, _ = _take_name(rest)
        if name in self.server.folders:
            return b"", "NO [ALREADYEXISTS] it is there"
        self.server.folders[name] = FakeFolder(validity=8)
        return b"", "OK done"

    def do_subscribe(self, rest: str) -> tuple[bytes, str]:
        return b"", "OK done"

    def do_idle(self, tag: str) -> tuple[bytes, str]:
        self.send(b"+ idling\r\n")
        self.read_line()
        return b"", "OK done"

    def do_uid_search(self, rest: str) -> tuple[bytes, str]:
        assert self.selected is not None
        return f"* SEARCH {' '.join(map(str, self.selected.messages))}".rstrip().encode() + b"\r\n", "OK done"

    def do_uid_fetch(self, rest: str) -> tuple[bytes, str]:
        folder = self.selected
        assert folder is not None
        uids, items = rest.split(" ", 1)
        answer = b""
        for number, uid in enumerate(folder.messages, 1):
            if uid not in _read_set(uids, folder.next_uid):
                continue
            parts = [f"UID {uid}".encode()]
            if "FLAGS" in items:
                parts.append(f"FLAGS ({' '.join(sorted(folder.flags[uid]))})".encode())
            if "RFC822.SIZE" in items:
                parts.append(f"RFC822.SIZE {len(folder.messages[uid])}".encode())
            if "BODY.PEEK[]" in items:
                parts.append(b"BODY[] " + self.write(folder.messages[uid], is_body=True))
            answer += f"* {number} FETCH (".encode() + b" ".join(parts) + b")\r\n"
        return answer, "OK done"

    def do_uid_store(self, rest: str) -> tuple[bytes, str]:
        assert self.selected is not None
        uids, _, flags = rest.split(" ", 2)
        for uid in _read_set(uids, self.selected.next_uid) & self.selected.messages.keys():
            self.selected.flags[uid] |= set(flags.strip("()").split())
        return b"", "OK done"

    def do_uid_expunge(self, rest: str) -> tuple[bytes, str]:
        assert self.selected is not None
        for uid in _read_set(rest, self.selected.next_uid) & self.selected.messages.keys():
            if r"\Deleted" in self.selected.flags[uid]:
                del self.selected.messages[uid], self.selected.flags[uid]
        return b"", "OK done"

    def do_uid_copy(self, rest: str) -> tuple[bytes, str]:
        assert self.selected is not None
        uids, name = rest.split(" ", 1)
        target = self.server.folders.get(_take_name(name)[0])
        if target is None:
            return b"", "NO [TRYCREATE] no such folder"
        code = ""
        for uid in sorted(_read_set(uids, self.selected.next_uid) & self.selected.messages.keys()):
            new = target.add(self.selected.messages[uid])
            target.flags[new] = set(self.selected.flags[uid])
            code = f"[COPYUID {target.validity} {uid} {new}] "
        return b"", f"OK {code if 'UIDPLUS' in self.server.capabilities else ''}done"

    def do_uid_move(self, rest: str) -> tuple[bytes, str]:
        assert self.selected is not None
        _, status = self.do_uid_copy(rest)
        if status.startswith("OK"):
            for uid in (
                _read_set(rest.split(" ", 1)[0], self.selected.next_uid) & self.selected.messages.keys()
            ):
                del self.selected.messages[uid], self.selected.flags[uid]
        return f"* {status}\r\n".encode(), "OK done"

    def write(self, text: bytes, *, is_body: bool = False) -> bytes:
        """Write a string as a literal or in quotes."""
        is_quotable = not set(text) & set(b"\r\n\0") and max(text, default=0) < 128
        if self.server.writes_literals or not is_quotable or (is_body and len(text) > 1000):
            return f"{{{len(text)}}}\r\n".encode() + text
        return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _take_name(text: str) -> tuple[str, str]:
    """Return the name at the beginning of arguments, and what follows it."""
    if text.startswith('"'):
        found = re.match(r'"((?:[^"\\]|\\.)*)" ?(.*)', text)
        assert found, text
        return re.sub(r"\\(.)", r"\1", found[1]), found[2]
    name, _, rest = text.partition(" ")
    return name, rest


def _read_set(text: str, last: int) -> set[int]:
    uids: set[int] = set()
    for part in text.split(","):
        first, _, end = part.partition(":")
        uids.update(range(int(first), (last if end == "*" else int(end or first)) + 1))
    return uids


@contextmanager
def run_fake_server(**settings: object) -> Iterator[FakeServer]:
    """Serve at a free port until the block ends."""
    server = FakeServer(**settings)  # type: ignore[arg-type]
    listening = socket.create_server(("127.0.0.1", 0))
    server.port = listening.getsockname()[1]

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.sockets.append(client)
                threading.Thread(target=_Session(server, client).run, daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for client in server.sockets:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        thread.join(5)
