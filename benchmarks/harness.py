"""case → (ours, peer, ours, peer, …) → seconds per call → the ratio peer / ours, with its spread.

The two sides take turns in one process, so that what the machine does meanwhile (turbo, heat, neighbours)
befalls both; the ratio is taken pair by pair, and its quartiles say how far to trust it. Nothing is timed
before both sides have given the same answer.
"""

import gc
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Generic, TypeAlias, TypeVar

__all__ = ["AnyCase", "Case", "DisagreementError", "Timing", "machine", "run", "table"]

Data = TypeVar("Data")
Ours = TypeVar("Ours")
Peer = TypeVar("Peer")
Clock: TypeAlias = Callable[[], float]

_PACKAGES = ("tamis", "numpy", "scipy", "scikit-learn", "numba", "narwhals", "river")
# Shorter samples are lost in the clock's and the scheduler's grain (a tick is up to 4 ms).
_SAMPLE_SECONDS = 0.1
_SURE = 10  # a first, cold call that fills so many samples says that one call fills a sample


class DisagreementError(Exception):
    """Ours and the peer gave different answers, so that comparing their times would mean nothing."""


@dataclass(frozen=True)
class Case(Generic[Data, Ours, Peer]):
    """One job done twice: by us and by the best alternative a user has."""

    name: str
    what: str  # the job, its size, and who the peer is, in one line
    setup: Callable[[], Data]
    ours: Callable[[Data], Ours]
    peer: Callable[[Data], Peer]
    agree: Callable[[Ours, Peer], bool]
    repeats: int | None = None  # pairs at most, where a side takes many seconds
    peer_share: float = 1.0  # of the job that the peer does: what all of it takes is inferred from that
    wanted: float | None = None  # the ratio that is wanted: WANTED of the case's module
    group: str = ""  # the name of the case's module


AnyCase: TypeAlias = Case[Any, Any, Any]


@dataclass(frozen=True)
class Timing:
    """Seconds a call, pair by pair: `ours[i]` and `peer[i]` were taken one right after the other."""

    name: str
    what: str
    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """peer / ours of each pair: above 1, ours is the faster."""
        return tuple(peer / ours for ours, peer in zip(self.ours, self.peer, strict=True))

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """First quartile, median and third quartile of `ratios`."""
        if len(self.ratios) == 1:
            return (self.ratios[0],) * 3
        low, middle, high = quantiles(self.ratios, n=4, method="inclusive")
        return low, middle, high


def run(
    case: AnyCase,
    *,
    repeats: int = 9,
    sample_seconds: float = _SAMPLE_SECONDS,
    clock: Clock = time.perf_counter,
) -> Timing:
    """Check that both sides of `case` agree, then time them in turn, `repeats` times each."""
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}; at least 1 is needed")
    data = case.setup()
    begun = clock()
    found = case.ours(data)
    between = clock()
    expected = case.peer(data)
    ended = clock()
    if not case.agree(found, expected):
        raise DisagreementError(f"{case.name}: ours and the peer give different answers; not timed")
    del found, expected

    def ours() -> object:
        return case.ours(data)

    def peer() -> object:
        return case.peer(data)

    def calls(side: Callable[[], object], first: float) -> int:
        return 1 if first >= _SURE * sample_seconds else _calls(side, sample_seconds, clock)

    with _no_collection():
        # Finding how many calls fill a sample is also the warm-up.
        ours_calls, peer_calls = calls(ours, between - begun), calls(peer, ended - between)
        pairs = [
            (_sample(ours, ours_calls, clock), _sample(peer, peer_calls, clock) / case.peer_share)
            for _ in range(repeats if case.repeats is None else min(repeats, case.repeats))
        ]
    return Timing(case.name, case.what, tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))


@contextmanager
def _no_collection() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _calls(side: Callable[[], object], sample_seconds: float, clock: Clock) -> int:
    calls = 1
    while (took := _sample(side, calls, clock) * calls) < sample_seconds:
        # At most tenfold at a time: the first calls are the slow, cold ones and mislead.
        wanted = ceil(calls * sample_seconds / took) if took > 0 else 10 * calls
        calls = min(10 * calls, max(calls + 1, wanted))
    return calls


def _sample(side: Callable[[], object], calls: int, clock: Clock) -> float:
    gc.collect()
    start = clock()
    for _ in range(calls):
        side()
    return (clock() - start) / calls


def table(timings: list[Timing]) -> str:
    """The timings as aligned text, one case a line."""
    rows = [("case", "ours", "peer", "peer/ours", "quartiles")]
    for timing in timings:
        low, middle, high = timing.quartiles
        spread = f"{low:.2f} – {high:.2f}"
        rows.append(
            (timing.name, _human(median(timing.ours)), _human(median(timing.peer)), f"{middle:.2f}", spread)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _human(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def machine() -> dict[str, Any]:
    """What the figures depend on: the processor, its cores, and the versions of what ran."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
    }


def _cpu() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
