"""the standard streams of a process: a terminal, a pipe that nobody reads, or not there at all."""

import os
import sys
from typing import TextIO

__all__ = ["Message", "columns", "copy_rest", "discard"]

_BLOCK = 1 << 16  # bytes of a message that are read at a time …
_SMALL = 1 << 12  # … and where memory has run out
_RESERVE = 1 << 20  # bytes that are given back then, so that writing has some


class Message:
    """One message on standard input, which can be written out as it came in, whatever happened meanwhile.

    It is read in blocks, and each is kept before the next is asked for: where memory does not suffice to read
    or to join them, `write` has all that was read, and copies the rest without keeping it.
    """

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._reserve = b""

    def read(self, command: str) -> bytes:
        """The message, byte for byte; at a terminal, say that it is waited for."""
        if sys.stdin is None:  # as in a process that was started without
            return b""
        if sys.stdin.isatty():
            sys.stderr.write(f"tamis {command}: type or paste one message, then Ctrl-D\n")
        self._reserve = bytes(_RESERVE)
        self._blocks.append(b"")
        while block := sys.stdin.buffer.read(_BLOCK):
            self._blocks[-1] = block
            self._blocks.append(b"")  # made before it is needed: a block that was read has a place
        raw = b"".join(self._blocks)
        self._blocks = [raw]
        return raw

    def write(self, out: TextIO) -> None:
        """Write the message as it came in, also what has not been read of it."""
        self._reserve = b""
        for block in self._blocks:
            out.buffer.write(block)
        copy_rest(out)


def copy_rest(out: TextIO) -> None:
    """Copy what is left of standard input, with as little memory as possible."""
    while sys.stdin is not None and (block := sys.stdin.buffer.read(_SMALL)):
        out.buffer.write(block)
    out.flush()


def discard(out: TextIO) -> None:
    """Let go of what could not be written, or Python would complain of it once more at exit."""
    try:
        descriptor = out.fileno()
    except (OSError, ValueError):  # no file, but a string in memory
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def columns() -> int:
    """The width to write for: what COLUMNS says, or the terminal's, or 80."""
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
