"""The sockets of a daemon: at an address and port, at a Unix path, or opened by systemd."""

import os
import re
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TCP = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\[\]:]*)):(?P<port>\d{1,5})")
_FIRST_SYSTEMD_SOCKET = 3  # systemd passes sockets as the file descriptors from 3 on
_BACKLOG = 128  # connections that wait in the operating system until they are accepted


@dataclass(frozen=True, slots=True)
class Listener:
    """An address at which a daemon listens.

    >>> Listener.parse("127.0.0.1:783")
    Listener(host='127.0.0.1', port=783, path='')
    >>> Listener.parse("unix:/run/tamis/spamd.sock").path
    '/run/tamis/spamd.sock'
    >>> str(Listener.parse("[::1]:783"))
    '[::1]:783'
    """

    host: str = ""  # empty for a Unix socket and for systemd
    port: int = 0
    path: str = ""  # of a Unix socket

    @classmethod
    def parse(cls, text: str) -> "Listener":
        """Read `HOST:PORT`, `[ADDRESS]:PORT`, `unix:PATH` or `systemd`; an empty host is localhost."""
        if text == "systemd":
            return cls()
        if text.startswith("unix:") and len(text) > len("unix:"):
            return cls(path=text.removeprefix("unix:"))
        match = _TCP.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise ValueError(
                f"cannot listen at {text!r}: expected HOST:PORT, [ADDRESS]:PORT, unix:PATH or systemd"
            )
        return cls(host=match["ipv6"] or match["host"] or "localhost", port=int(match["port"]))

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        if not self.host:
            return "systemd"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def open(self, mode: int = 0o660) -> list[socket.socket]:
        """Open the sockets, a Unix socket with the permissions `mode`; raise OSError if that fails."""
        if self.path:
            return [_open_unix(Path(self.path), mode)]
        if self.host:
            return _open_tcp(self.host, self.port)
        return _take_systemd_sockets()


def _open_tcp(host: str, port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, kind, protocol, _, address in addresses:
            opened = socket.socket(family, kind, protocol)
            sockets.append(opened)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(address)
            opened.listen(_BACKLOG)
            opened.setblocking(False)
    except OSError as error:
        for each in sockets:
            each.close()
        raise OSError(error.errno, f"cannot listen at {host}:{port}: {error.strerror}") from None
    return sockets


def _open_unix(path: Path, mode: int) -> socket.socket:
    """Open a Unix socket. A socket file at which no process accepts connections is replaced."""
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        raise OSError(f"cannot listen at unix:{path}: it exists and is not a socket")
    if path.exists():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except (ConnectionRefusedError, FileNotFoundError):
                path.unlink(missing_ok=True)
            except OSError as error:
                reason = f"the socket that is there cannot be tried: {error.strerror}"
                raise OSError(error.errno, f"cannot listen at unix:{path}: {reason}") from None
            else:
                raise OSError(f"cannot listen at unix:{path}: another process listens there")
    opened = socket.socket(socket.AF_UNIX)
    try:
        mask = os.umask(0o777 & ~mode)
        try:
            opened.bind(str(path))
        finally:
            os.umask(mask)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise OSError(error.errno, f"cannot listen at unix:{path}: {error.strerror}") from None
    opened.setblocking(False)
    return opened


def _take_systemd_sockets() -> list[socket.socket]:
    """Take the sockets that systemd has opened.

    The environment variable LISTEN_FDS is their number, and LISTEN_PID the process for which they are meant.
    """
    count = 0
    with suppress(ValueError):
        if int(os.environ.get("LISTEN_PID", "0")) == os.getpid():
            count = int(os.environ.get("LISTEN_FDS", "0"))
    if count < 1:
        raise OSError(
            "systemd has passed no socket: start the daemon by its .socket unit, or name an address"
        )
    sockets = [
        socket.socket(fileno=number) for number in range(_FIRST_SYSTEMD_SOCKET, _FIRST_SYSTEMD_SOCKET + count)
    ]
    for each in sockets:
        each.setblocking(False)
    return sockets
