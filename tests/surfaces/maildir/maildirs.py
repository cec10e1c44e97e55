"""Maildirs for tests, and `tamis watch maildir` as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"


def make_maildir(path: Path) -> Path:
    for name in ("cur", "new", "tmp"):
        (path / name).mkdir(parents=True)
    return path


def list_files(path: Path) -> dict[str, bytes]:
    """Return the bytes of all messages by their paths in a tree."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.parent.name in ("cur", "new", "tmp")
    }


@dataclass(frozen=True)
class Watching:
    """A watcher at work, and the file with its log."""

    log: Path
    process: "subprocess.Popen[bytes]"


def start_watcher(maildir: Path, store: Path, *options: str) -> Watching:
    """Start a watcher that moves mail."""
    log = store.with_name("watch.log")
    words = ["watch", "maildir", str(maildir), "--store", str(store), "--move", *options]
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdout=stream,
            stderr=stream,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    return Watching(log, process)


@contextmanager
def run_watcher(maildir: Path, store: Path, *options: str) -> Iterator[Watching]:
    """Run a watcher, and stop it by a signal; its exit status must be 0."""
    watching = start_watcher(maildir, store, *options)
    try:
        while b"event=started" not in watching.log.read_bytes():
            try:
                status = watching.process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the watcher ended with status {status}: {watching.log.read_text()}")
        yield watching
    finally:
        watching.process.send_signal(signal.SIGTERM)
        try:
            status = watching.process.wait(40)
        except subprocess.TimeoutExpired:
            watching.process.kill()
            status = watching.process.wait()
    assert status == 0, watching.log.read_text()
