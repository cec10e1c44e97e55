"""Steps of long work → a bar in a terminal or notebook, and scikit-learn's callbacks where they exist.

The loop that is watched knows nothing of it: it calls a function after each step.
"""

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TextIO

from sklearn.base import BaseEstimator

from tamis.estimators.options import refuse_matrices
from tamis.progress import Line

Watch = Callable[[Any], None]

_WIDTH = 28  # characters of the bar itself


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


try:  # scikit-learn 1.9 has them
    _callbacks: Any = importlib.import_module("sklearn.callback")
except ModuleNotFoundError:
    _callbacks = None

CallbackSupport: type = _callbacks.CallbackSupportMixin if _callbacks is not None else object


def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """scikit-learn's decorator of the same name, where there is one; matrices as parameters are refused."""

    @wraps(method)
    def checked(face: BaseEstimator, *args: Any, **kwargs: Any) -> Any:
        refuse_matrices(face.get_params(deep=False))
        return method(face, *args, **kwargs)

    return checked if _callbacks is None else _callbacks.with_callbacks(checked)


@contextmanager
def watching(face: BaseEstimator, most: int, X: object, y: object = None) -> Iterator[Watch]:
    """A function to call after each step; it draws a bar if the face is verbose, and tells callbacks."""
    bar = Bar(type(face).__name__, most) if face.verbose else None
    context = None
    if _callbacks is not None and getattr(face, "_skl_callbacks", None):
        context = face._init_callback_context(max_subtasks=most)
        context.call_on_fit_task_begin(estimator=face, X=X, y=y)

    def watch(step: Any) -> None:
        if bar is not None:
            bar.step(step.log_likelihood)
        if context is not None:
            part = context.subcontext(task_name="step")
            part.call_on_fit_task_begin(estimator=face, X=X, y=y)
            part.call_on_fit_task_end(estimator=face, X=X, y=y)

    try:
        yield watch
    finally:
        if bar is not None:
            bar.close()
        if context is not None:
            context.call_on_fit_task_end(estimator=face, X=X, y=y)
