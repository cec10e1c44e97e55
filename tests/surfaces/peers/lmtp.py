"""Runs `tamis serve lmtp` in a process of its own; an LMTP client, and a next hop that a test commands."""

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.surfaces.peers.daemon import run_daemon

OK = b"250 2.0.0 ok\r\n"


class LmtpClient:
    """Says what a test wants to say, and reads replies, which may have several lines."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self._buffer = b""

    def __enter__(self) -> "LmtpClient":
        self.read()
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> bytes:
        """Return one reply; empty if the server has gone."""
        lines = b""
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                lines += line + b"\n"
                if line[3:4] != b"-":
                    return lines
                continue
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return lines
            self._buffer += data

    def say(self, line: bytes) -> bytes:
        """Send a command, and return its reply."""
        self.send(line + b"\r\n")
        return self.read()

    def begin(self, *recipients: bytes, sender: bytes = b"bob@example.net") -> list[bytes]:
        """Say LHLO, MAIL and RCPT; return the replies to RCPT."""
        assert self.say(b"LHLO client").startswith(b"250"), "LHLO"
        return self.name(*recipients, sender=sender)

    def name(self, *recipients: bytes, sender: bytes = b"bob@example.net") -> list[bytes]:
        """Say MAIL and RCPT; return the replies to RCPT."""
        reply = self.say(b"MAIL FROM:<%s>" % sender)
        assert reply.startswith(b"250"), reply
        return [self.say(b"RCPT TO:<%s>" % recipient) for recipient in recipients]

    def deliver(self, raw: bytes, n_recipients: int = 1) -> list[bytes]:
        """Send a message, and return the reply for each recipient."""
        reply = self.say(b"DATA")
        assert reply.startswith(b"354"), reply
        self.send(stuff(raw) + b".\r\n")
        return [self.read() for _ in range(n_recipients)]


def stuff(raw: bytes) -> bytes:
    """Double the dots at the start of lines; the message ends in CR LF."""
    return (b"\r\n" + raw).replace(b"\r\n.", b"\r\n..")[2:]


@dataclass
class Delivery:
    """A message that a scripted next hop has taken."""

    sender: bytes
    recipients: list[bytes]
    raw: bytes
    by_length: bool = False


@dataclass
class ScriptedHop:
    """A next hop in a thread. `script` may answer a command in its own way, or end the session (None)."""

    path: Path
    extensions: Sequence[bytes] = (b"PIPELINING", b"8BITMIME", b"SMTPUTF8", b"SIZE 1000000")
    is_lmtp: bool = True
    script: Callable[[bytes], bytes | None] = lambda line: b""
    lines: list[bytes] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    n_partial: int = 0  # messages that ended with their session
    final: Callable[[bytes], bytes | None] = lambda recipient: OK  # the reply to the end of a message

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = self.script(b"")
        if greeting is None:
            return
        writer.write(greeting or b"220 hop\r\n")
        delivery = Delivery(b"", [], b"")
        while True:
            line = (await reader.readuntil(b"\r\n"))[:-2]
            self.lines.append(line)
            verb = line.split(b" ")[0].upper()
            reply = self.script(line)
            if reply is None:
                return
            if not reply:
                reply = OK
                if verb == (b"LHLO" if self.is_lmtp else b"EHLO"):
                    offered = [b"hop", *self.extensions]
                    reply = b"".join(b"250-%s\r\n" % each for each in offered) + b"250 HELP\r\n"
                elif verb == b"DATA":
                    reply = b"354 go\r\n"
                elif verb == b"BDAT":
                    reply = b""
            if reply:
                writer.write(reply)
            if verb == b"QUIT":
                return
            if verb in (b"MAIL", b"RSET"):
                delivery = Delivery(line, [], b"")
            elif verb == b"RCPT" and reply.startswith(b"2"):
                delivery.recipients.append(line)
            elif verb in (b"DATA", b"BDAT") and reply[:1] in (b"3", b""):
                delivery.by_length = verb == b"BDAT"
                self.n_partial += 1
                if verb == b"DATA":
                    delivery.raw = await _read_data(reader)
                else:
                    delivery.raw += await reader.readexactly(int(line.split()[1]))
                self.n_partial -= 1
                if verb == b"DATA" or b"LAST" in line.upper():
                    if not await self._finish(delivery, writer):
                        return
                    delivery = Delivery(b"", [], b"")
                else:
                    writer.write(OK)
            await writer.drain()

    async def _finish(self, delivery: Delivery, writer: asyncio.StreamWriter) -> bool:
        self.deliveries.append(delivery)
        for recipient in delivery.recipients if self.is_lmtp else delivery.recipients[:1]:
            reply = self.final(recipient)
            if reply is None:
                return False
            writer.write(reply)
            await writer.drain()
        return True


async def _read_data(reader: asyncio.StreamReader) -> bytes:
    """Read a message as a lenient server does: a line ends in LF, with or without CR."""
    lines = []
    while (line := await _read_line(reader)).rstrip(b"\r\n") != b".":
        lines.append(line.removeprefix(b"."))
    return b"".join(lines)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while True:
        try:
            parts.append(await reader.readuntil(b"\n"))
        except asyncio.LimitOverrunError as error:
            parts.append(await reader.readexactly(error.consumed))
            continue
        return b"".join(parts)


@contextmanager
def run_hop(hop: ScriptedHop) -> Iterator[ScriptedHop]:
    """Serve a scripted next hop in a thread."""
    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        server = await asyncio.start_unix_server(hop.serve, hop.path)
        started.set()
        await stop.wait()
        server.close()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_until_complete(end_sessions())
        loop.close()

    async def end_sessions() -> None:
        sessions = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
        for session in sessions:
            session.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)
        for _ in range(3):  # rounds in which the transports are closed
            await asyncio.sleep(0)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(20)
    try:
        yield hop
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        hop.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class LmtpDaemon:
    """A filter that listens, and the file with its log."""

    socket: Path
    log: Path
    process: "subprocess.Popen[bytes]"

    def connect(self) -> LmtpClient:
        return LmtpClient(self.socket)

    def wait_for(self, text: str) -> None:
        """Wait until the log has a text."""
        for _ in range(1000):
            if text in self.log.read_text():
                return
            time.sleep(0.02)
        raise AssertionError(f"the log has no {text}: {self.log.read_text()}")


@contextmanager
def run_lmtp(folder: Path, store: Path, next_hop: Path, *options: str) -> Iterator[LmtpDaemon]:
    """Start the filter between a Unix socket in `folder` and the socket of the next hop."""
    path, log = folder / "filter.sock", folder / "filter.log"
    words = ["lmtp", "--store", str(store), "--listen", f"unix:{path}"]
    with run_daemon(log, *words, "--next", f"unix:{next_hop}", *options) as process:
        yield LmtpDaemon(path, log, process)
