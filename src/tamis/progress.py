"""How far long work has come → one line that is written over and over, in a terminal or a notebook."""

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

Watch = Callable[[Any], None]  # called after each step of a loop, which knows nothing else of it

_EVERY = 0.1  # seconds between two drawings
_WIDTH = 28  # characters of the bar itself


class Line:
    """A line of text that changes. Where nobody could see it change, only what it ends with is written."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.is_terminal = bool(getattr(self._stream, "isatty", lambda: False)())
        self._may_be_notebook = not self.is_terminal and stream is None
        self._cell: Any = None
        self._drawn = 0.0

    def is_due(self, now: float) -> bool:
        """Whether enough time has passed since it was last drawn."""
        return now - self._drawn >= _EVERY

    def draw(self, text: str, now: float) -> None:
        """Show the text for a while."""
        self._drawn = now
        if self.is_terminal:
            self._stream.write(f"\r\x1b[K{text[: max(1, _columns() - 1)]}")
            self._stream.flush()
        else:
            self._show(text)

    def end(self, text: str) -> None:
        """Show the text for good, on a line of its own."""
        if self.is_terminal:
            self._stream.write(f"\r\x1b[K{text}\n")
        elif not self._show(text):
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def _show(self, text: str) -> bool:
        """Show the text in a notebook, if this is one."""
        if self._may_be_notebook and self._cell is None:
            self._cell = _notebook_cell()
            self._may_be_notebook = self._cell is not None
        if self._cell is None:
            return False
        self._cell.update({"text/plain": text}, raw=True)
        return True


class Bar:
    """A line that fills: how far, how fast, how long still, and how well it goes.

    >>> import sys
    >>> bar = Bar("EM", 4, stream=sys.stdout)
    >>> for score in (-1.5, -1.25):
    ...     bar.step(score)
    >>> bar.close()
    EM: 2 of at most 4 steps, log-likelihood -1.25
    """

    def __init__(self, name: str, most: int, stream: TextIO | None = None) -> None:
        self._name, self._most = name, most
        self._line = Line(stream)
        self._begun = time.monotonic()
        self._done = 0
        self._score: float | None = None

    def step(self, score: float | None = None) -> None:
        """One step more."""
        self._done += 1
        self._score = score
        now = time.monotonic()
        if self._line.is_due(now):
            self._line.draw(self._running(now), now)

    def close(self) -> None:
        """Say how it ended, on a line of its own."""
        score = "" if self._score is None else f", log-likelihood {self._score:.6g}"
        self._line.end(f"{self._name}: {self._done} of at most {self._most} steps{score}")

    def _running(self, now: float) -> str:
        filled = _WIDTH * self._done // max(1, self._most)
        left = (now - self._begun) / self._done * (self._most - self._done)
        score = "" if self._score is None else f" {self._score:.6g}"
        bar = "█" * filled + "░" * (_WIDTH - filled)
        return f"{self._name} {bar} {self._done}/{self._most} at most {left:.0f} s left{score}"


def _columns() -> int:
    return importlib.import_module("shutil").get_terminal_size().columns  # type: ignore[no-any-return]


def _notebook_cell() -> Any:
    """A place in a notebook's output that can be written again; None where there is no notebook."""
    if "ipykernel" not in sys.modules:
        return None
    return importlib.import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)
