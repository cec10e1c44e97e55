"""What a test types, and what comes back: in this process with streams of bytes, or in one of its own."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.surfaces.cli import main

COMMAND = Path(sys.executable).with_name("tamis")

SPAM = [
    f"From: offers{n}@shop.example\nTo: me@home.example\nSubject: Cheap pills {n}\n\n"
    f"Buy cheap pills now, offer {n} ends today! Click http://pills.example/{n}\n".encode()
    for n in range(12)
]
HAM = [
    f"From: friend{n}@home.example\nTo: me@home.example\nSubject: Lunch on day {n}\n\n"
    f"Shall we have lunch at noon on day {n}? The report of our meeting is attached. Mary\n".encode()
    for n in range(12)
]
NEW_SPAM = (
    b"From: x@shop.example\nTo: me@home.example\nSubject: Cheap pills\n\n"
    b"Buy cheap pills now! This offer ends today! Click http://pills.example/99\n"
)
NEW_HAM = (
    b"From: friend3@home.example\nTo: me@home.example\nSubject: Lunch\n\nShall we have lunch at noon? Mary\n"
)


@dataclass(frozen=True)
class Answer:
    """What a command came back with."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")


Type = Callable[..., Answer]


def type_in(monkeypatch: pytest.MonkeyPatch) -> Type:
    """A function that runs a command in this process."""

    def typed(*words: str | Path, stdin: bytes = b"", encoding: str = "utf-8") -> Answer:
        out, err = io.BytesIO(), io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding, write_through=True))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding="utf-8", write_through=True))
            try:
                status = main([str(word) for word in words])
            except SystemExit as stopped:
                status = int(stopped.code or 0)
            sys.stdout.flush()
            return Answer(status, out.getvalue(), err.getvalue().decode("utf-8"))

    return typed


def spawn(*words: str | Path, stdin: bytes = b"", **variables: str) -> Answer:
    """Run a command in a process of its own."""
    result = subprocess.run(
        [COMMAND, *map(str, words)],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
    )
    return Answer(result.returncode, result.stdout, result.stderr.decode("utf-8"))


def write_mail(folder: Path) -> tuple[Path, Path]:
    """A folder of spam and an mbox of ham."""
    spam, ham = folder / "junk", folder / "inbox.mbox"
    spam.mkdir(parents=True)
    for number, raw in enumerate(SPAM):
        (spam / f"{number:02}.eml").write_bytes(raw)
    ham.write_bytes(b"".join(b"From me Mon Jan  5 10:00:00 2026\n" + raw + b"\n" for raw in HAM))
    return spam, ham


def learn_some(typed: Type, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, by default everybody's, that has learned some mail."""
    spam, ham = write_mail(folder / "mail")
    path = folder / "mail.tamis"
    monkeypatch.setenv("TAMIS_STORE", str(path))
    assert typed("learn", "--spam", spam, "--ham", ham).status == 0
    return path


def make_store(path: Path) -> Path:
    """Write a store that has learned SPAM and HAM."""
    with Sieve.open(path) as sieve:
        sieve.learn_many(SPAM, "spam", processes=1)
        sieve.learn_many(HAM, "ham", processes=1)
    return path
