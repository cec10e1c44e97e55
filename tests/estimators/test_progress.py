"""Long work shows how far it has come: on a line that fits its terminal, or on one at the end."""

import io
import os
import re
import shutil
from typing import Any

import numpy as np
import pytest

from tamis.arrays import Array
from tamis.estimators import GaussianNB, Mixture
from tamis.progress import Bar


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What was drawn, one drawing after another, without what moves the cursor."""
        return [line for line in re.split(r"\r\x1b\[K|\n", self.getvalue()) if line]


class Clock:
    """A second passes whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("tamis.progress.time.monotonic", found)
    return found


def halves() -> tuple[Array, list[Any]]:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-1, 1, (40, 2)), rng.normal(1, 1, (40, 2))])
    return rows, [0] * 3 + [None] * 37 + [1] * 3 + [None] * 37


@pytest.mark.parametrize("width", [8, 20, 40, 80, 200])
def test_a_line_is_never_wider_than_its_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((width, 24)))
    stream = Terminal()
    bar = Bar("GaussianDiscriminant", 1000, stream=stream)
    for step in range(5):
        bar.step(-123456.789 + step)
    bar.close()
    *drawn, last = stream.lines()
    assert len(drawn) == 5
    assert all(len(line) < width for line in drawn)  # or it would wrap, and be drawn again below itself
    assert last == "GaussianDiscriminant: 5 of at most 1000 steps, objective -123453"
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith("\n")


def test_a_terminal_sees_the_bar_fill(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((120, 24)))
    stream = Terminal()
    bar = Bar("EM", 4, stream=stream)
    for _ in range(4):
        bar.step()
    bar.close()
    *drawn, last = stream.lines()
    assert [line.count("█") for line in drawn] == [7, 14, 21, 28]
    assert [line.count("█") + line.count("░") for line in drawn] == [28] * 4
    assert "2/4" in drawn[1]
    assert "2 s left" in drawn[1]
    assert last == "EM: 4 of at most 4 steps"


def test_steps_that_come_fast_are_not_all_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.progress.time.monotonic", lambda: 5.0)
    stream = Terminal()
    bar = Bar("EM", 100, stream=stream)
    for _ in range(100):
        bar.step()
    assert len(stream.lines()) == 1


def test_what_is_no_terminal_gets_one_last_line(clock: Clock) -> None:
    stream = io.StringIO()
    bar = Bar("EM", 9, stream=stream)
    for score in (-3.0, -2.0, -1.5):
        bar.step(score)
    assert stream.getvalue() == ""
    bar.close()
    assert stream.getvalue() == "EM: 3 of at most 9 steps, objective -1.5\n"


def test_a_verbose_fit_writes_to_stderr_and_a_quiet_one_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    rows, labels = halves()
    quiet = GaussianNB().fit(rows, labels)
    told = capsys.readouterr()
    assert told.out == told.err == ""
    loud = GaussianNB(verbose=1).fit(rows, labels)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"GaussianNB: {loud.n_iter_} of at most 100 steps, objective -")
    assert told.err.count("\n") == 1
    assert loud.statistic_ == quiet.statistic_
    Mixture(2, verbose=1, random_state=0).fit(rows)
    assert capsys.readouterr().err.startswith("Mixture: ")
    GaussianNB(verbose=1).fit(rows, [0, 1] * 40)  # one pass, no steps
    assert capsys.readouterr().err == ""


def test_a_fit_that_fails_ends_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.concatenate([np.zeros((30, 2)), np.random.default_rng(0).normal(9.0, 1.0, (30, 2))])
    with pytest.raises(ValueError, match="expected all above zero"):
        Mixture(2, estimate="mle", verbose=1, random_state=0, max_iter=50).fit(rows)
    told = capsys.readouterr().err
    assert told == "" or told.endswith("\n")


@pytest.mark.parametrize(
    "make", [GaussianNB, lambda: Mixture(2, random_state=0)], ids=["GaussianNB", "Mixture"]
)
def test_callbacks_get_a_task_for_every_step(make: Any) -> None:
    pytest.importorskip("sklearn.callback")
    told: list[tuple[str, str]] = []

    class Listener:
        def setup(self, estimator: Any, context: Any) -> None:
            told.append(("setup", ""))

        def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
            told.append(("begin", context.task_name))

        def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> None:
            told.append(("end", context.task_name))

        def teardown(self, estimator: Any, context: Any) -> None:
            told.append(("teardown", ""))

    rows, labels = halves()
    model = make().set_callbacks(Listener()).fit(rows, labels)
    plain = make().fit(rows, labels)
    assert model.statistic_ == plain.statistic_
    assert told.count(("begin", "step")) == told.count(("end", "step")) == model.n_iter_
    assert told[0] == ("setup", "")
    assert told[-1] == ("teardown", "")
    assert sum(kind == "begin" for kind, _ in told) == model.n_iter_ + 1  # the fit itself, and its steps
    open_tasks = np.cumsum([{"begin": 1, "end": -1}.get(kind, 0) for kind, _ in told])
    assert open_tasks.max() == 2
    assert open_tasks[-1] == 0
