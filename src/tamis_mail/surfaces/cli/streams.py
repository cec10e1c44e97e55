"""the standard streams of a process: a terminal, a pipe that nobody reads, or not there at all."""

import os
import sys
from typing import TextIO

__all__ = ["abandon", "columns", "read_stdin"]


def read_stdin(command: str) -> bytes:
    """One message from standard input, byte for byte; at a terminal it is said that it is waited for."""
    if sys.stdin is None:  # as in a process that was started without
        return b""
    if sys.stdin.isatty():
        sys.stderr.write(f"tamis {command}: type or paste one message, then Ctrl-D\n")
    return sys.stdin.buffer.read()


def abandon(out: TextIO) -> None:
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
        chosen = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        chosen = 0
    if chosen <= 0:
        try:
            chosen = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
        except (OSError, ValueError):
            chosen = 0
    return max(24, chosen or 80)
