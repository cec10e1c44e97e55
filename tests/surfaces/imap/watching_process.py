"""Runs `tamis watch imap` in a process of its own, which can be killed and started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.surfaces.peers.dovecot import PASSWORD, USER, Dovecot

__all__ = ["WatchProcess", "account_options", "run_tamis", "run_watch", "wait_for"]

_PROGRAM = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"
_SECONDS = 60.0  # until something that must happen has happened


def account_options(dovecot: Dovecot, *, port: int | None = None, tls: str = "implicit") -> list[str]:
    """Return the options of an account on Dovecot."""
    words = ["--host", "localhost", "--user", USER, "--tls", tls]
    words += ["--port", str(port or (dovecot.tls_port if tls == "implicit" else dovecot.port))]
    words += ["--password-command", f"echo '{PASSWORD}'"]
    return words if tls == "none" else [*words, "--certificate", str(dovecot.certificate)]


def run_tamis(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env={**os.environ, **variables},
    )


@dataclass
class WatchProcess:
    """A filter that watches."""

    words: list[str]
    log_path: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def log(self) -> str:
        """What it has logged, in all its lives."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start it; it works in the background."""
        with self.log_path.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

    def kill(self) -> None:
        """End it by SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it by SIGTERM, and return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@contextmanager
def run_watch(folder: Path, store: Path, *options: str) -> Iterator[WatchProcess]:
    """Watch until the block ends; the exit status must be 0."""
    words = ["watch", "imap", "--store", str(store), "--move", "--interval", "1", *options]
    watch = WatchProcess(words, folder / "watch.log")
    watch.start()
    try:
        yield watch
    except BaseException:
        watch.kill()
        raise
    assert watch.stop() == 0, watch.log


def wait_for(condition: Callable[[], bool], describe: Callable[[], str] = str) -> None:
    """Wait until something has happened."""
    limit = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < limit, describe()
        time.sleep(0.05)
