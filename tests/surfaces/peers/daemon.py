"""Runs a daemon of `tamis serve` in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def run_daemon(log: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start `tamis serve`, wait until it listens, and stop it by a signal; its exit status must be 0.

    A daemon that a test has killed may have any status.
    """
    program = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "serve", *words], stderr=stream, env=os.environ
        )
    try:
        while b"event=started" not in log.read_bytes():
            try:
                status = process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the daemon ended with status {status}: {log.read_text()}")
        yield process
    finally:
        was_killed = process.poll() is not None
        # A test may have stopped it: a second signal, before the process has ended, would kill it.
        if b"event=stopped" not in log.read_bytes():
            process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    has_stopped = b"event=stopped" in log.read_bytes()
    assert was_killed or status == 0 or (has_stopped and status == -signal.SIGTERM), log.read_text()
