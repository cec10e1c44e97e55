"""Runs Redis and PostgreSQL in folders of their own, at free ports, for stores that several hosts share.

They work as root, as CI is, and as any other user. Nothing outside of the folder is touched, and the folder
is removed at the end. Both write each commit to their logs before they answer, so that a kill loses nothing.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tamis_mail.store import StoreError, has_store
from tests.surfaces.peers.daemon import find_free_port

__all__ = ["KINDS", "Server", "find_missing", "needs_server", "run_server"]

KINDS = ("postgresql", "redis")
_START_SECONDS = 30.0
_NEEDED = {"redis": ["redis-server"], "postgresql": ["initdb", "postgres"]}


def _find_program(name: str) -> str | None:
    """Return the path of a program; Debian keeps those of PostgreSQL out of PATH.

    TAMIS_REDIS_SERVER is a program to use in the place of redis-server, such as valkey-server.
    """
    if name == "redis-server" and (other := os.environ.get("TAMIS_REDIS_SERVER")):
        return shutil.which(other)
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: path.parts[-3])
    return shutil.which(name) or (str(newest[-1]) if newest else None)


def find_missing(kind: str) -> list[str]:
    """List the programs of a kind of server that are not installed."""
    return [name for name in _NEEDED[kind] if _find_program(name) is None]


def needs_server(kind: str) -> pytest.MarkDecorator:
    """Skip a test where a kind of server is not installed."""
    missing = find_missing(kind)
    return pytest.mark.skipif(bool(missing), reason=f"needs {' and '.join(missing)}: apt-get install {kind}")


@dataclass
class Server:
    """A server that can be killed and started again."""

    kind: str
    address: str  # without the name of a store
    command: list[str]
    user: str | None
    process: "subprocess.Popen[bytes]" = field(init=False)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self.user,
            group=pwd.getpwnam(self.user).pw_gid if self.user else None,
            start_new_session=True,
        )
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                has_store(self.store("any"))
                return
            except StoreError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def store(self, name: str) -> str:
        """Return the address of a store."""
        return f"{self.address}?store={name}"

    def kill(self) -> None:
        """Kill the server with all of its processes at once."""
        number = self.process.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split()
        for process in (number, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Stop the server."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # PostgreSQL: without waiting for its clients
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


def _prepare_redis(folder: Path) -> Server:
    port = find_free_port()
    command = [
        *(_find_program("redis-server") or "", "--port", str(port), "--bind", "127.0.0.1"),
        *("--dir", str(folder), "--save", "", "--appendonly", "yes", "--appendfsync", "always"),
    ]
    return Server("redis", f"redis://127.0.0.1:{port}/0", command, None)


def _prepare_postgresql(folder: Path) -> Server:
    # initdb and postgres refuse to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    data = folder / "data"
    if user:
        shutil.chown(folder, user)
    subprocess.run(
        [
            *(_find_program("initdb") or "", "-D", str(data), "-A", "trust", "-U", "tamis"),
            *("-E", "UTF8", "--no-locale", "--no-sync"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        user=user,
    )
    port = find_free_port()
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "shared_buffers": "64MB",
        "fsync": "off",  # of the disk: a kill of the process loses nothing
        "max_wal_size": "256MB",
    }
    command = [_find_program("postgres") or "", "-D", str(data)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    return Server("postgresql", f"postgresql://tamis@127.0.0.1:{port}/postgres", command, user)


_PREPARE: dict[str, Callable[[Path], Server]] = {"redis": _prepare_redis, "postgresql": _prepare_postgresql}


@contextmanager
def run_server(kind: str) -> Iterator[Server]:
    """Run a server in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix=f"tamis-{kind}-") as folder:
        Path(folder).chmod(0o755)
        server = _PREPARE[kind](Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


if __name__ == "__main__":
    with run_server(sys.argv[1]) as running:
        sys.stdout.write(f"{running.address}\n")
        sys.stdout.flush()
        signal.pause()
