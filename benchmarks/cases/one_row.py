"""Streaming, one row at a time: a statistic that adds, against river's, which update in place."""

from dataclasses import dataclass

import numpy as np
from river import stats

from benchmarks.harness import AnyCase, Case
from tamis.arrays import Array
from tamis.stats import Moments

ROWS, COLUMNS = 200, 20
Summary = tuple[Array, Array]  # means and variances


@dataclass(frozen=True)
class Stream:
    """The same rows as each side likes them best."""

    arrays: list[Array]  # of (1, 20)
    mappings: list[dict[str, float]]


def _stream() -> Stream:
    rows = np.random.default_rng(0).normal(5.0, 1.0, size=(ROWS, COLUMNS))
    Moments.observe(np.zeros((500_000, COLUMNS)))  # enough work that compiled kernels are in use from here on
    return Stream(
        arrays=[row[None] for row in rows],
        mappings=[{f"x{j}": value for j, value in enumerate(row)} for row in rows.tolist()],
    )


def _ours(stream: Stream) -> Summary:
    total = Moments.observe(stream.arrays[0])
    for row in stream.arrays[1:]:
        total = total + Moments.observe(row)
    return total.mean, total.variance


def _river(stream: Stream) -> Summary:
    means = {name: stats.Mean() for name in stream.mappings[0]}
    variances = {name: stats.Var(ddof=0) for name in stream.mappings[0]}
    for row in stream.mappings:
        for name, value in row.items():
            means[name].update(value)
            variances[name].update(value)
    return (
        np.array([mean.get() for mean in means.values()]),
        np.array([variance.get() for variance in variances.values()]),
    )


def _agree(ours: Summary, peer: Summary) -> bool:
    return all(bool(np.allclose(left, right, rtol=1e-10)) for left, right in zip(ours, peer, strict=True))


CASES: tuple[AnyCase, ...] = (
    Case(
        name="one-row",
        what=f"{ROWS} updates by one row of {COLUMNS} columns, reversible, against river's Mean and Var",
        setup=_stream,
        ours=_ours,
        peer=_river,
        agree=_agree,
    ),
)
