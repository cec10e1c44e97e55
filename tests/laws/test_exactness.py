"""Exactness: what was added and taken back was never there, to the bit, and no mean is too large."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.protocols import total
from tamis.stats import Gram, Moments, Sums, Tally

ROWS, KEPT = 200_000, 200
Index = NDArray[np.int64]
Observe = Callable[[Index], Sums]

generator = np.random.default_rng(20_000)
x: Array = generator.normal(1e6, 1.0, size=(ROWS, 3))
z: Array = x.sum(axis=1) + generator.normal(size=ROWS)
weights: Array = generator.exponential(size=ROWS)
labels = generator.choice(["ham", "spam", "unsure"], size=ROWS)
counts = generator.poisson(3.0, size=ROWS)

EXACT: dict[str, Observe] = {
    "diagonal Moments": lambda i: Moments.observe(x[i]),
    "diagonal Moments, weighed": lambda i: Moments.observe(x[i], weights[i]),
    "diagonal Moments by label": lambda i: Moments.observe(x[i], by=labels[i]),
    "diagonal Moments by label, weighed": lambda i: Moments.observe(x[i], weights[i], labels[i]),
    "first Moments": lambda i: Moments.observe(x[i], form="none"),
    "exact full Moments": lambda i: Moments.observe(x[i], form="full", exact=True),
    "exact full Moments, weighed": lambda i: Moments.observe(x[i], weights[i], form="full", exact=True),
    "exact Gram": lambda i: Gram.observe(x[i], z[i], exact=True),
    "exact Gram, weighed": lambda i: Gram.observe(x[i], z[i], weights[i], exact=True),
    "Tally": lambda i: Tally.observe(x[i]),
    "counts": lambda i: Tally.count(counts[i]),
    "counts by label": lambda i: Tally.count(counts[i], by=labels[i]),
    "counts by label, weighed": lambda i: Tally.count(counts[i], weights[i], labels[i]),
}


def added_and_taken_back(observe: Observe, seed: int) -> tuple[Sums, Sums]:
    """What is left of all rows when all but 200 are taken back, in other shards and order; and the 200."""
    rng = np.random.default_rng(seed)
    everything = total(observe(index) for index in shards(rng, rng.permutation(ROWS)))
    order = rng.permutation(ROWS)
    left = everything
    for index in shards(rng, order[KEPT:]):
        left = left - observe(index)
    return left, observe(order[:KEPT])


def shards(rng: np.random.Generator, order: Index) -> list[Index]:
    """Twenty or so parts of any sizes, some of them tiny."""
    edges = np.sort(rng.integers(0, len(order), size=20))
    return [part for part in np.split(order, [1, 2, *edges]) if len(part)]


@pytest.mark.parametrize("name", EXACT)
def test_what_was_forgotten_never_was(name: str) -> None:
    left, alone = added_and_taken_back(EXACT[name], seed=1)
    assert left == alone
    for part, other in zip(left.parts().values(), alone.parts().values(), strict=True):
        assert part.value.tobytes() == other.value.tobytes()
    if isinstance(left, Moments) and isinstance(alone, Moments):
        assert left.mean.tobytes() == alone.mean.tobytes()
        if left.form != "none":
            assert left.variance.tobytes() == alone.variance.tobytes()


@pytest.mark.parametrize("weighed", [False, True])
def test_full_moments_by_blas_forget_to_twelve_digits(weighed: bool) -> None:
    left, alone = added_and_taken_back(
        lambda i: Moments.observe(x[i], weights[i] if weighed else None, form="full"), seed=2
    )
    assert isinstance(left, Moments)
    assert isinstance(alone, Moments)
    assert (left.weight, left.first) == (alone.weight, alone.first)
    deviation = np.sqrt(np.diagonal(alone.covariance))
    assert np.abs(left.covariance - alone.covariance).max() <= 1e-12 * np.outer(deviation, deviation).min()


@pytest.mark.parametrize("weighed", [False, True])
def test_a_gram_by_blas_forgets_to_twelve_digits(weighed: bool) -> None:
    left, alone = added_and_taken_back(
        lambda i: Gram.observe(x[i], z[i], weights[i] if weighed else None), seed=3
    )
    assert isinstance(left, Gram)
    assert isinstance(alone, Gram)
    for ours, theirs in (
        (left.features, alone.features),
        (left.cross, alone.cross),
        (left.squares, alone.squares),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_neither_shards_nor_their_order_can_be_seen(name: str) -> None:
    observe, rng = EXACT[name], np.random.default_rng(4)
    index = np.arange(5_000)
    parts = [observe(part) for part in shards(rng, rng.permutation(index))]
    assert total(parts) == observe(index)
    assert sum(parts[::-1]) == observe(index)


def true_variance(values: Sequence[float], weights: Sequence[float] | None = None) -> Fraction:
    w = [Fraction(1)] * len(values) if weights is None else [Fraction(weight) for weight in weights]
    v = [Fraction(value) for value in values]
    size = sum(w)
    mean = sum((a * b for a, b in zip(w, v, strict=True)), Fraction(0)) / size
    return sum((a * (b - mean) ** 2 for a, b in zip(w, v, strict=True)), Fraction(0)) / size


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e4, -1e6, 1e8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_variances_are_right_whatever_the_mean(mean: float, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(5)
    data = rng.normal(mean, 10.0 if dtype is np.float32 else 1.0, size=(3_000, 2)).astype(dtype)
    w = rng.exponential(size=len(data))
    for weighed in (None, w):
        truth = [
            true_variance(data[:, j].tolist(), None if weighed is None else w.tolist()) for j in range(2)
        ]
        for moments in (
            Moments.observe(data, weighed),
            Moments.observe(data, weighed, form="full"),
            Moments.observe(data, weighed, form="full", exact=True),
        ):
            for found, true in zip(moments.variance.tolist(), truth, strict=True):
                assert abs(Fraction(found) - true) <= true / 10**12


def test_covariances_are_right_whatever_the_mean() -> None:
    rng = np.random.default_rng(6)
    data = rng.normal(size=(2_000, 3)) @ rng.normal(size=(3, 3)) + np.array([1e8, -1e8, 3.0])
    exact = [[Fraction(value) for value in column] for column in data.T.tolist()]
    means = [sum(column, Fraction(0)) / len(column) for column in exact]
    truth = np.array(
        [
            [
                float(sum(((u - m) * (v - n) for u, v in zip(a, b, strict=True)), Fraction(0)) / len(a))
                for b, n in zip(exact, means, strict=True)
            ]
            for a, m in zip(exact, means, strict=True)
        ]
    )
    np.testing.assert_allclose(Moments.observe(data, form="full").covariance, truth, rtol=1e-12)
    np.testing.assert_allclose(Moments.observe(data, form="full", exact=True).covariance, truth, rtol=1e-14)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_data_that_lie_far_apart_merge_without_loss(form: Literal["diagonal", "full"]) -> None:
    rng = np.random.default_rng(7)
    here, there = rng.normal(-1e8, 1.0, size=(500, 2)), rng.normal(1e8, 1.0, size=(700, 2))
    merged = Moments.observe(here, form=form) + Moments.observe(there, form=form)
    for j in range(2):
        truth = true_variance([*here[:, j].tolist(), *there[:, j].tolist()])
        assert abs(Fraction(float(merged.variance[j])) - truth) <= truth / 10**12
    alone = merged - Moments.observe(there, form=form)
    for j in range(2):
        truth = true_variance(here[:, j].tolist())
        assert abs(Fraction(float(alone.variance[j])) - truth) <= truth / 10**12


def test_float32_is_summed_as_the_numbers_it_holds() -> None:
    narrow = x[:1_000].astype(np.float32)
    assert Moments.observe(narrow) == Moments.observe(narrow.astype(np.float64))


def test_first_sums_may_be_as_large_as_floats_get() -> None:
    moments = Moments.observe([[1e300], [1e300], [-1e300]], form="none")
    assert moments.first.value.tolist() == [1e300]
    assert (moments - Moments.observe([[1e300]], form="none")).first.value.tolist() == [0.0]


def test_a_sum_past_the_largest_float_reads_as_infinite_and_comes_back() -> None:
    big = Tally.observe([1.7e308])
    assert (big + big).total.value.tolist() == [np.inf]
    assert big + big - big == big
