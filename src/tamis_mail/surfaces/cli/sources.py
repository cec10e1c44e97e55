"""paths → letters, with a line on stderr that tells how far the work has come."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tamis.progress import Line
from tamis_mail.mailbox import Letter, Source, open_source

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Work", "bar", "name_of", "open_sources"]


def open_sources(paths: Sequence[str], *, mbox: bool = False) -> list[Source]:
    """Look at all that was named, so that a misspelt path is told before anything is done; none is stdin."""
    if sys.stdin is not None and sys.stdin.isatty() and (not paths or "-" in paths):
        sys.stderr.write("tamis: reading mail from the terminal; end it with Ctrl-D\n")
    return [open_source(path, many=mbox) for path in paths or ["-"]]


def name_of(source: Source) -> str:
    """What the store's journal calls a source."""
    return "stdin" if source.kind == "stdin" else os.path.abspath(source.path)  # noqa: PTH100 (pathlib takes 8 ms)


class Work:
    """Letters of a source as they are read, drawn as a bar while somebody can see it.

    It runs ahead of what is learned by a batch; what is told when it is interrupted is `done`.
    """

    def __init__(self, command: str, source: Source, *, quiet: bool = False) -> None:
        self._command = command
        self._source = source
        self._line = Line(sys.stderr)
        self._shown = self._line.is_terminal and not quiet and source.kind not in ("stdin", "message")
        self._begun = time.monotonic()
        self.read = 0
        self.done = 0

    def __enter__(self) -> "Work":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if self._shown:
            self._line.draw("", 0.0)
        for name, reason in self._source.unread:
            sys.stderr.write(
                f"tamis {self._command}: {name} could not be read ({reason}) and was passed over\n"
            )

    def letters(self) -> Iterator[Letter]:
        """The letters of the source."""
        size = (self._source.size or 0) if self._shown else 0
        for letter in self._source:
            self.read += 1
            if self._shown and self._line.is_due(now := time.monotonic()):
                self._line.draw(self._said(letter.position / size if size else 0.0, now - self._begun), now)
            yield letter

    def messages(self) -> Iterator[bytes]:
        """Their bytes."""
        return (letter.raw for letter in self.letters())

    def advance(self, done: int) -> None:
        """Note what is in the store for good."""
        self.done = done

    def _said(self, share: float, seconds: float) -> str:
        return bar(self._command, self.read, share, seconds)


def bar(command: str, read: int, share: float, seconds: float) -> str:
    """How far, how fast, how long still.

    >>> bar("learn", 12000, 0.25, 10.0)
    'learn [#####               ]  25 %  12,000 messages, 1,200/s, 0:30 left'
    """
    share = min(max(share, 0.0), 1.0)
    drawn = "#" * round(20 * share)
    left = seconds * (1 - share) / share if share else 0.0
    time_left = f", {int(left) // 60}:{int(left) % 60:02d} left" if share and seconds >= 1 else ""
    rate = f", {read / seconds:,.0f}/s" if seconds >= 1 else ""
    return f"{command} [{drawn:<20}] {share:4.0%}  {read:,} messages{rate}{time_left}".replace("%", " %")
