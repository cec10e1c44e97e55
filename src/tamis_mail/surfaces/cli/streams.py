"""The standard streams of a process, which may be terminals, closed pipes, or absent."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import NoReturn, TextIO

ERROR_STATUS = 3  # the exit status after an error, or if some of the mail could not be read

_BLOCK = 1 << 16  # bytes of a message that are read at a time
_SMALL_BLOCK = 1 << 12  # bytes that are read at a time when memory may have run out
_RESERVE = 1 << 20  # bytes that are freed when memory has run out, so that the message can be written


class Message:
    """One message on standard input, which can be written unchanged after any error.

    It is read in blocks, and each is stored before the next is read: if memory does not suffice to read or to
    join them, `write` writes the blocks so far and copies the rest.
    """

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._reserve = b""

    def read(self, command: str) -> bytes:
        """Read the message, byte for byte; prompt for it on a terminal."""
        if sys.stdin is None:  # the process has no standard input
            return b""
        if sys.stdin.isatty():
            sys.stderr.write(f"tamis {command}: type or paste one message, then Ctrl-D\n")
        self._reserve = bytes(_RESERVE)
        self._blocks.append(b"")
        while block := sys.stdin.buffer.read(_BLOCK):
            self._blocks[-1] = block
            self._blocks.append(b"")  # allocated before the next block is read, which must not be lost
        raw = b"".join(self._blocks)
        self._blocks = [raw]
        return raw

    def write(self, out: TextIO) -> None:
        """Write the message unchanged, including the part that was not read."""
        self._reserve = b""
        for block in self._blocks:
            out.buffer.write(block)
        copy_rest(out)


def copy_rest(out: TextIO) -> None:
    """Copy the rest of standard input, with little memory."""
    while sys.stdin is not None and (block := sys.stdin.buffer.read(_SMALL_BLOCK)):
        out.buffer.write(block)
    out.flush()


def end_process(status: int) -> NoReturn:
    """End this process, whose output is written, without freeing each object, which takes up to 12 ms."""
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


def discard(out: TextIO) -> None:
    """Discard unwritten output, which Python would otherwise report again at exit."""
    try:
        descriptor = out.fileno()
    except (OSError, ValueError):  # a stream without a file descriptor
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def warn_of_log(command: str, fault: str | None) -> None:
    """Print a warning that says why the log could not be written, if there is a reason."""
    if fault:
        line: str = import_module("tamis_mail.mailbox.raw_message").printable(fault)
        sys.stderr.write(f"tamis {command}: not logged: {line}\n")


def text_width() -> int:
    """Return the width of wrapped text: the width of the terminal, at most 100."""
    return min(terminal_width(), 100)


def terminal_width() -> int:
    """Return the width of the output: COLUMNS, else the terminal's, else 80."""
    try:
        width = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        width = 0
    if width <= 0:
        try:
            width = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
        except (OSError, ValueError):
            width = 0
    return max(24, width or 80)
