"""Runs `tamis serve milter` in a process of its own, at a Unix socket and a free port.

`MailServer` speaks the other side of the protocol, so that tests need no Postfix to see packets.
"""

import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.surfaces.peers.daemon import find_free_port, run_daemon

VERSION_6 = (6, 0x1FF, 0x1FFFFF)  # what Postfix 3.7 offers
VERSION_2 = (2, 0x3F, 0x7F)


@dataclass(frozen=True)
class Milter:
    """A daemon that answers, and the file with its log."""

    socket: Path
    port: int
    log_file: Path
    process: "subprocess.Popen[bytes]"

    @property
    def log(self) -> str:
        return self.log_file.read_text()


@contextmanager
def run_milter(store: Path, *options: str) -> Iterator[Milter]:
    """Start the daemon, wait until it listens, and stop it by a signal."""
    # Postfix, which is another user, must reach the socket.
    with tempfile.TemporaryDirectory(prefix="milter-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), find_free_port()
        folder.chmod(0o755)
        path, log = folder / "milter.sock", folder / "log"
        words = ["milter", "--store", str(store), "--listen", f"unix:{path}", "--socket-mode", "666"]
        with run_daemon(log, *words, "--listen", f"127.0.0.1:{port}", *options) as process:
            yield Milter(path, port, log, process)


def pack(command: bytes, data: bytes = b"") -> bytes:
    """Return a packet."""
    return struct.pack("!I", len(data) + 1) + command + data


def pack_message(raw: bytes, *recipients: str, macros: Sequence[str] = ("i", "4711")) -> list[bytes]:
    """Return the packets of a message, as Postfix sends them with LEADING_SPACE; `raw` has CR LF."""
    header, _, body = raw.partition(b"\r\n\r\n")
    packets = [pack(b"D", b"M" + b"".join(name.encode() + b"\0" for name in macros))]
    packets.append(pack(b"M", b"<sender@elsewhere.test>\0"))
    packets += [pack(b"R", f"<{recipient}>\0".encode()) for recipient in recipients]
    fields: list[bytes] = []
    for line in header.split(b"\r\n") if header else []:
        if line[:1] in (b" ", b"\t") and fields:
            fields[-1] += b"\n" + line
        else:
            fields.append(line)
    for field in fields:
        name, _, value = field.partition(b":")
        packets.append(pack(b"L", name + b"\0" + value + b"\0"))
    packets += [pack(b"B", body[start : start + 65535]) for start in range(0, len(body), 65535)]
    return [*packets, pack(b"E")]


class MailServer:
    """A connection to a milter, from the side of the mail server."""

    def __init__(self, milter: Milter, offer: tuple[int, int, int] = VERSION_6) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(str(milter.socket))
        self._stream = self._socket.makefile("rb")
        self.write(pack(b"O", struct.pack("!III", *offer)))
        command, data = self.read()
        assert command == b"O"
        self.version, self.actions, self.steps = struct.unpack("!III", data)

    def __enter__(self) -> "MailServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._socket.close()

    def write(self, *packets: bytes) -> None:
        self._socket.sendall(b"".join(packets))

    def read(self) -> tuple[bytes, bytes]:
        """Read one packet: the command, which is empty if the connection has ended, and the data."""
        head = self._stream.read(4)
        if len(head) < 4:
            return b"", b""
        (length,) = struct.unpack("!I", head)
        packet = self._stream.read(length)
        return packet[:1], packet[1:]

    def read_decision(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Read the changes of a message, and the decision."""
        changes: list[tuple[bytes, bytes]] = []
        while True:
            command, data = self.read()
            if command in b"acdrty":
                return changes, command + data
            changes.append((command, data))

    def ask(self, raw: bytes, *recipients: str, macros: Sequence[str] = ("i", "4711")) -> "Decision":
        """Send a message, packet by packet, and return the decision; a body may be accepted or skipped."""
        body_replies: list[bytes] = []
        for packet in pack_message(raw, *(recipients or ("ann@example.test",)), macros=macros):
            if packet[4:5] == b"B" and b"s" in body_replies:
                continue
            self.write(packet)
            if packet[4:5] == b"B":
                body_replies.append(self.read()[0])
                if body_replies[-1] == b"a":
                    return Decision([], b"a", body_replies)
        return Decision(*self.read_decision(), body_replies)


@dataclass(frozen=True)
class Decision:
    """What a milter decided: changes, the last packet, and the answers to parts of the body."""

    changes: list[tuple[bytes, bytes]]
    last: bytes
    body_replies: list[bytes]

    @property
    def inserted(self) -> list[bytes]:
        """Lines that were inserted at the top, in the order of the message."""
        lines = [data[4:-1].replace(b"\0", b":") for command, data in self.changes if command == b"i"]
        return lines[::-1]
