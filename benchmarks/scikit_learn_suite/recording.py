"""A pytest plugin: note for each test how it ended, and whether it made one of our estimators.

Some tests in scikit-learn's files exercise only scikit-learn's private functions. They say nothing about our
classes, so the report counts them apart; whether a test is of that kind is seen by watching our constructors.

With TAMIS_SUITE_IGNORE_WORDING set, errors and warnings must still be of the kind that a test expects, and
may say it in other words.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scikit_learn_suite import adapters

_instances = 0
_uses: dict[str, bool] = {}
_outcomes: dict[str, dict[str, str]] = {}


def _count_instances(cls: type) -> None:
    """Make a class count its instances without changing its signature, which scikit-learn inspects."""

    def make(kind: type, *_: Any, **__: Any) -> Any:
        global _instances
        _instances += 1
        return object.__new__(kind)

    cls.__new__ = staticmethod(make)  # type: ignore[method-assign,assignment]


def _ignore_wording(check: Callable[..., Any]) -> Callable[..., Any]:
    """`pytest.raises` or `pytest.warns` without a comparison of the message."""

    def check_kind(*arguments: Any, match: object = None, **more: Any) -> Any:
        return check(*arguments, **more)

    return check_kind


for _name in adapters.__all__:
    _count_instances(getattr(adapters, _name))
if "TAMIS_SUITE_IGNORE_WORDING" in os.environ:
    pytest.raises = _ignore_wording(pytest.raises)
    pytest.warns = _ignore_wording(pytest.warns)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = _instances
    yield
    _uses[item.nodeid] = _instances > before


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.failed or report.skipped:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash is not None else ""
        _outcomes[report.nodeid] = {"outcome": report.outcome, "reason": reason}


def pytest_sessionfinish() -> None:
    found = [
        {"test": test.partition("::")[2], "ours": _uses.get(test, False), **outcome}
        for test, outcome in _outcomes.items()
    ]
    Path(os.environ["TAMIS_SUITE_OUTCOMES"]).write_text(json.dumps(found), encoding="utf-8")
