"""How much work a call does, in numbers that do not depend on the machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(work: Callable[[], object]) -> int:
    """Run work; return the lines of Python that it ran plus the functions written in C that it called."""
    steps = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return trace

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal steps
        steps += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return steps


def assert_proportional(work: Callable[[int], object], size: int, times: int = 8) -> None:
    """Assert that work on data `times` as large takes at most about `times` as many steps."""
    work(size)  # what is loaded or remembered once is not counted
    few, many = (count_steps(lambda n=n: work(n)) for n in (size, times * size))  # type: ignore[misc]
    assert many <= 1.25 * times * few, f"{few} steps for {size}, {many} for {times * size}"
