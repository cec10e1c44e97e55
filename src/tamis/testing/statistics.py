"""Property tests (laws) of statistics, and data to test them with.

A law is a function that raises AssertionError with the two sides it found unequal. `STATISTICS` registers
every public statistic with a function that observes it and with samples; `tests/laws/test_statistics.py` runs
each law on each case. To test your own statistic, make a `StatisticCase` for it and run each law on the case.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import SearchStrategy

from tamis.arrays import Array
from tamis.protocols import total
from tamis.stats import Gram, Moments, Sums, Tally

_UNDERFLOW = 1e-300  # smaller products have no relative precision
_REPEATED = 40  # rows: BLAS sums the products of more than 16 per label, so these are enough for two labels


@dataclass(frozen=True)
class Sample:
    """Rows to observe, with weights and labels if there are any."""

    values: Array  # (n, d)
    weights: Array | None = None  # (n,)
    labels: tuple[str, ...] | None = None  # n of them

    def take(self, index: Sequence[int]) -> Self:
        """Return the rows with these indices, in this order."""
        return type(self)(
            self.values[list(index)],
            None if self.weights is None else self.weights[list(index)],
            None if self.labels is None else tuple(self.labels[i] for i in index),
        )

    def tame(self) -> Self:
        """Round values and weights to multiples of 2**-20, so that scaling does not round sums of squares."""
        weights = None if self.weights is None else np.round(self.weights * 2**20) / 2**20
        return type(self)(np.round(self.values * 2**20) / 2**20, weights, self.labels)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class StatisticCase:
    """A statistic: the function that observes it, and samples for it.

    `tolerance` is the largest relative difference of statistics of the same rows that were observed in
    different parts: 0 requires the same bits. Addition and subtraction must always be exact.
    """

    name: str
    kind: type[Sums]
    observe: Callable[[Sample], Sums]
    samples: SearchStrategy[Sample]
    tolerance: float = 0.0


COLUMNS = 3  # of the rows that `samples` draws


@st.composite
def samples(draw: st.DrawFn, counts: bool = False, weighted: bool = True, most: int = 12) -> Sample:
    """Draw 1 to `most` rows, with or without labels and (if `weighted`) weights.

    They hold integers from 0 to 20 if `counts`, otherwise numbers around 0, 1, -1e4 or 1e8.
    """
    n = draw(st.integers(1, most))
    if counts:
        values = draw(hnp.arrays(np.float64, (n, COLUMNS), elements=st.integers(0, 20).map(float)))
    else:
        deviations = st.floats(-1e3, 1e3, allow_subnormal=False)
        mean = draw(st.sampled_from([0.0, 1.0, -1e4, 1e8]))
        values = mean + draw(hnp.arrays(np.float64, (n, COLUMNS), elements=deviations))
    weights = None
    if weighted and draw(st.booleans()):
        weights = draw(hnp.arrays(np.float64, n, elements=st.floats(0.0, 10.0)))
    labels = None
    if draw(st.booleans()):
        labels = tuple(draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n)))
    return Sample(values, weights, labels)


def _observe_tally(sample: Sample) -> Tally:
    return Tally.observe(sample.values, sample.weights, sample.labels)


def _count_categories(sample: Sample) -> Tally:
    return Tally.count(sample.values[:, 0], sample.weights, sample.labels)


def _observe_moments(form: Any, exact: bool = False) -> Callable[[Sample], Moments]:
    return lambda sample: Moments.observe(
        sample.values, sample.weights, sample.labels, form=form, exact=exact
    )


def _observe_gram(exact: bool) -> Callable[[Sample], Gram]:
    # The last column is the target.
    return lambda sample: Gram.observe(
        sample.values[:, :-1], sample.values[:, -1], sample.weights, sample.labels, exact=exact
    )


def _repeat_rows(strategy: SearchStrategy[Sample]) -> SearchStrategy[Sample]:
    """Repeat the drawn rows, with small changes, until there are enough that BLAS sums their products.

    Magnitudes below 1e-60 become 0, because variances below 1e-300 have no bits to compare.
    """

    def repeat(sample: Sample) -> Sample:
        rows = sample.take((np.arange(_REPEATED) % len(sample)).tolist())
        values = np.where(np.abs(rows.values) < 1e-60, 0.0, rows.values)
        factors = 1.0 + 2.0**-20 * np.arange(_REPEATED)[:, None]
        return Sample(values * factors, rows.weights, rows.labels)

    return strategy.map(repeat)


STATISTICS: tuple[StatisticCase, ...] = (
    StatisticCase("Tally of counts", Tally, _observe_tally, samples(counts=True)),
    StatisticCase("Tally of numbers", Tally, _observe_tally, samples()),
    StatisticCase("Tally of categories", Tally, _count_categories, samples(counts=True)),
    StatisticCase("diagonal Moments", Moments, _observe_moments("diagonal"), samples()),
    StatisticCase("first Moments", Moments, _observe_moments("none"), samples()),
    StatisticCase(
        "full Moments", Moments, _observe_moments("full"), _repeat_rows(samples()), tolerance=1e-12
    ),
    StatisticCase(
        "exact full Moments", Moments, _observe_moments("full", exact=True), _repeat_rows(samples())
    ),
    StatisticCase("Gram", Gram, _observe_gram(exact=False), _repeat_rows(samples()), tolerance=1e-12),
    StatisticCase("exact Gram", Gram, _observe_gram(exact=True), _repeat_rows(samples())),
)


def pairs_of_samples(case: StatisticCase, parts: int = 2) -> SearchStrategy[tuple[Sample, ...]]:
    """Draw `parts` samples that can be concatenated: all with labels or none, all with weights or none."""
    return st.lists(case.samples, min_size=parts, max_size=parts).map(_make_alike)


def _make_alike(parts: list[Sample]) -> tuple[Sample, ...]:
    """Drop the labels of all parts unless all have labels, and the weights likewise."""
    has_labels = all(part.labels is not None for part in parts)
    has_weights = all(part.weights is not None for part in parts)
    return tuple(
        Sample(part.values, part.weights if has_weights else None, part.labels if has_labels else None)
        for part in parts
    )


def concatenate(*parts: Sample) -> Sample:
    """Concatenate the rows of all parts, which all have labels or none, and all have weights or none."""
    weights, labels = None, None
    if parts[0].weights is not None:
        weights = np.concatenate([part.weights for part in parts if part.weights is not None])
    if parts[0].labels is not None:
        labels = tuple(label for part in parts for label in part.labels or ())
    return Sample(np.concatenate([part.values for part in parts]), weights, labels)


def assert_same(left: Sums, right: Sums, tolerance: float = 0.0) -> None:
    """Raise unless both are equal: to the bit, or up to a tolerance relative to the largest sums."""
    if tolerance == 0.0:
        assert left == right, f"{left!r} is not {right!r}"
        return
    assert left.keys == right.keys, f"{left.keys!r} is not {right.keys!r}"
    for name, part in left.parts().items():
        other = right.parts()[name]
        difference = np.abs((part - other).value)
        scale = np.maximum(np.abs(part.value).max(initial=0.0), np.abs(other.value).max(initial=0.0))
        assert (difference <= tolerance * scale + _UNDERFLOW).all(), (
            f"{name}: {difference.max()} apart at a size of {scale}"
        )
    if isinstance(left, Gram) and isinstance(right, Gram):
        _assert_scatter_same(left, right, tolerance)
    if isinstance(left, Moments) and isinstance(right, Moments) and left.form == "full":
        _assert_scatter_same(left, right, tolerance)


def _assert_scatter_same(left: Moments | Gram, right: Moments | Gram, tolerance: float) -> None:
    """Raise unless the scatters agree, too: if means are large, sums about zero hide their differences."""
    squares = np.abs(np.diagonal(left.scatter, axis1=-2, axis2=-1))
    # W (2**-52 mean)²: how much the squares about the mean change if the mean is rounded to float64.
    rounding = (
        2.0**-104 * np.square(left.first.value) / np.maximum(np.abs(left.weight.value), 2.0**-52)[..., None]
    )
    size = np.sqrt(squares) + np.sqrt(rounding)
    difference = np.abs(left.scatter - right.scatter) / np.maximum(
        size[..., :, None] * size[..., None, :], _UNDERFLOW
    )
    assert (difference <= tolerance).all(), (
        f"scatter: {difference.max()} apart, in units of the standard deviations"
    )


def an_outlier_is_taken_away(case: StatisticCase, rows: Sample) -> None:
    """observe(all rows) − observe(an outlier) = observe(the other rows), within the tolerance of the case.

    The outlier is the first row, with all its values 1e9, or with 2e8 in its first column.
    """
    for columns, value in ((slice(None), 1e9), (slice(0, 1), 2e8)):
        values = rows.values.copy()
        values[0, columns] = value
        with_outlier = Sample(values, rows.weights, rows.labels)
        rest = list(range(1, len(rows)))
        assert_same(
            case.observe(with_outlier) - case.observe(with_outlier.take([0])),
            case.observe(rows.take(rest)),
            case.tolerance,
        )


def addition_has_no_order(a: Sums, b: Sums, c: Sums) -> None:
    """a + (b + c) = (a + b) + c and a + b = b + a."""
    assert_same(a + (b + c), (a + b) + c)
    assert_same(a + b, b + a)


def zero_weight_adds_nothing(a: Sums, b: Sums) -> None:
    """a + 0 * b = a, and `sum`, which starts from 0, gives a + b."""
    assert_same(a + 0.0 * b, a)
    assert_same(sum([a, b]), a + b)  # type: ignore[arg-type]


def scaling_is_linear(a: Sums, b: Sums, v: float, w: float, tolerance: float = 0.0) -> None:
    """(v * w) * a = v * (w * a), w * (a + b) = w * a + w * b, 2 * a = a + a and 1 * a = a.

    With a tolerance of 0 this holds if v * w is not rounded and the statistics are of `tame` samples: scaling
    keeps the 224 highest bits of a sum, and such sums have no more.
    """
    assert_same(1.0 * a, a)
    assert_same((v * w) * a, v * (w * a), tolerance)
    assert_same(w * (a + b), w * a + w * b, tolerance)
    assert_same(2.0 * a, a + a, tolerance)


def subtracting_undoes_adding(a: Sums, b: Sums) -> None:
    """(a + b) - b = a."""
    assert_same((a + b) - b, a)


def observing_is_a_homomorphism(case: StatisticCase, x: Sample, y: Sample) -> None:
    """observe(x and y, concatenated) = observe(x) + observe(y)."""
    assert_same(case.observe(concatenate(x, y)), case.observe(x) + case.observe(y), case.tolerance)


def shards_do_not_matter(case: StatisticCase, sample: Sample, order: Sequence[int], shards: int) -> None:
    """The statistics of shards of a sample, its rows in any order, add up to the sample's statistic."""
    parts = [index for index in np.array_split(np.asarray(order), shards) if len(index)]
    sum_of_parts = total(case.observe(sample.take(index.tolist())) for index in parts)
    assert_same(case.observe(sample), sum_of_parts, case.tolerance)


def it_survives_a_journey(a: Sums) -> None:
    """A statistic equals its copy that was pickled and unpickled, or made an Arrow table and read back."""
    assert_same(pickle.loads(pickle.dumps(a)), a)
    assert_same(type(a).from_arrow(a.to_arrow()), a)
