"""Runs a command of `tamis` in a process of its own, as a service manager does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"
_STOP_SECONDS = 20.0


@contextmanager
def run_daemon(log: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a command, wait until its log says so, and stop it by a signal; its exit status must be 0.

    A test may kill it before.
    """
    with log.open("wb") as stream:
        process = subprocess.Popen([sys.executable, "-c", _PROGRAM, *words], stderr=stream, env=os.environ)
    try:
        while b"event=started" not in log.read_bytes():
            if process.poll() is not None:
                raise AssertionError(f"{words} ended with status {process.returncode}: {log.read_text()}")
            time.sleep(0.02)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    assert status in (0, -signal.SIGKILL), log.read_text()
