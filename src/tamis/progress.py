"""A progress bar: one line that is redrawn, in a terminal or a notebook."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable

TYPE_CHECKING = False  # importing `typing` would take 2 ms
if TYPE_CHECKING:
    from typing import Any, TextIO

StepReport = Callable[[float | None], None]  # called after each step with its objective, or None

_INTERVAL = 0.1  # seconds: the least time between two drawings
_ERASE_LINE = "\r\x1b[K"  # in a terminal: go to the start of the line, and erase it
_WIDTH = 28  # characters of the bar, without the text


class Line:
    """A line of text that is redrawn in a terminal or notebook; elsewhere only the final text is written."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.is_terminal = bool(getattr(self._stream, "isatty", lambda: False)())
        self._may_be_notebook = not self.is_terminal and stream is None
        self._cell: Any = None
        self._last_drawn = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether enough time has passed since the last drawing; `now` is a `time.monotonic()`."""
        return now - self._last_drawn >= _INTERVAL

    def draw(self, text: str, now: float) -> None:
        """Show the text until the next drawing."""
        self._last_drawn = now
        if self.is_terminal:
            self._stream.write(f"{_ERASE_LINE}{text[: max(1, _get_terminal_width() - 1)]}")
            self._stream.flush()
        else:
            self._show(text)

    def end(self, text: str) -> None:
        """Show the final text, and end the line."""
        if self.is_terminal:
            self._stream.write(f"{_ERASE_LINE}{text}\n")
        elif not self._show(text):
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def _show(self, text: str) -> bool:
        """Show the text in a notebook; return False outside of a notebook."""
        if self._may_be_notebook and self._cell is None:
            self._cell = _make_notebook_cell()
            self._may_be_notebook = self._cell is not None
        if self._cell is None:
            return False
        self._cell.update({"text/plain": text}, raw=True)
        return True


class Bar:
    """A progress bar of at most `max_steps` steps, with the time left and the objective.

    >>> import sys
    >>> bar = Bar("EM", 4, stream=sys.stdout)
    >>> for objective in (-1.5, -1.25):
    ...     bar.step(objective)
    >>> bar.close()
    EM: 2 of at most 4 steps, objective -1.25
    """

    def __init__(self, name: str, max_steps: int, stream: TextIO | None = None) -> None:
        self._name, self._max_steps = name, max_steps
        self._line = Line(stream)
        self._start = time.monotonic()
        self._count = 0
        self._objective: float | None = None

    def step(self, objective: float | None = None) -> None:
        """Count one more step, with its objective if it has one."""
        self._count += 1
        self._objective = objective
        now = time.monotonic()
        if self._line.is_due(now):
            self._line.draw(self._format(now), now)

    def close(self) -> None:
        """Write the number of steps and the last objective, and end the line."""
        last = "" if self._objective is None else f", objective {self._objective:.6g}"
        self._line.end(f"{self._name}: {self._count} of at most {self._max_steps} steps{last}")

    def _format(self, now: float) -> str:
        filled = _WIDTH * self._count // max(1, self._max_steps)
        seconds_left = (now - self._start) / self._count * (self._max_steps - self._count)
        last = "" if self._objective is None else f" {self._objective:.6g}"
        bar = "█" * filled + "░" * (_WIDTH - filled)
        return f"{self._name} {bar} {self._count}/{self._max_steps} at most {seconds_left:.0f} s left{last}"


def _get_terminal_width() -> int:
    return importlib.import_module("shutil").get_terminal_size().columns  # type: ignore[no-any-return]


def _make_notebook_cell() -> Any:
    """Return a cell of output that can be changed; None outside of a notebook."""
    if "ipykernel" not in sys.modules:  # the module by which Jupyter runs cells
        return None
    return importlib.import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)
