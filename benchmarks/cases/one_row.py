"""Rows that come one at a time, against river."""

from dataclasses import dataclass

import numpy as np
from river import stats as river_stats

from benchmarks.harness import Case
from tamis.arrays import Array
from tamis.stats import Moments

ROWS, COLUMNS = 100, 20


@dataclass(frozen=True)
class Stream:
    """The same rows in the form that each side likes."""

    rows: list[Array]  # (1, COLUMNS) each
    records: list[dict[str, float]]


def _stream() -> Stream:
    x = np.random.default_rng(0).normal(10.0, 1.0, size=(ROWS, COLUMNS))
    Moments.observe(np.ones((200_000, COLUMNS)))  # as in any long stream, the kernels are loaded by now
    records = [{f"x{j}": float(v) for j, v in enumerate(row)} for row in x]
    return Stream([row[None] for row in x], records)


def _ours(stream: Stream) -> Moments:
    moments = Moments.observe(stream.rows[0])
    for row in stream.rows[1:]:
        moments = moments + Moments.observe(row)
    return moments


def _river(stream: Stream) -> tuple[list[float], list[float]]:
    means = {name: river_stats.Mean() for name in stream.records[0]}
    variances = {name: river_stats.Var(ddof=0) for name in stream.records[0]}
    for record in stream.records:
        for name, value in record.items():
            means[name].update(value)
            variances[name].update(value)
    return [mean.get() for mean in means.values()], [variance.get() for variance in variances.values()]


def _agree(ours: Moments, peer: tuple[list[float], list[float]]) -> bool:
    return np.allclose(ours.mean, peer[0], rtol=1e-12) and np.allclose(ours.variance, peer[1], rtol=1e-9)


CASES = [
    Case(
        name="one-row-updates",
        what=f"mean and variance of {COLUMNS} columns, {ROWS} rows one by one; peer: river.stats Mean, Var",
        setup=_stream,
        ours=_ours,
        peer=_river,
        agree=_agree,
    ),
]
