"""Runs `tamis serve spamd` in a process of its own, at a Unix socket and a free port."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.surfaces.peers.daemon import find_free_port, run_daemon


@dataclass(frozen=True)
class Daemon:
    """A daemon that answers, and the file with its log."""

    socket: Path
    port: int
    log: Path
    process: "subprocess.Popen[bytes]"

    def ask(self, request: bytes) -> bytes:
        """Send a request, and return the answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(self.socket))
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            parts = []
            while part := client.recv(1 << 16):
                parts.append(part)
            return b"".join(parts)


@contextmanager
def run_spamd(folder: Path, store: Path, *options: str) -> Iterator[Daemon]:
    """Start the daemon, wait until it listens, and stop it by a signal; its exit status must be 0."""
    path, log, port = folder / "spamd.sock", folder / "spamd.log", find_free_port()
    words = ["spamd", "--store", str(store), "--listen", f"unix:{path}"]
    with run_daemon(log, *words, "--listen", f"127.0.0.1:{port}", *options) as process:
        yield Daemon(path, port, log, process)
