"""Scaling: weights, decay and forgetting by degrees."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tamis.stats import Exact, Gram, Moments, Sums, Tally

rng = np.random.default_rng(8)
x = rng.normal(1e6, 1.0, size=(300, 2))
STATISTICS: dict[str, Sums] = {
    "diagonal": Moments.observe(x),
    "full": Moments.observe(x, form="full"),
    "by label": Moments.observe(x, by=["a", "b", "c"] * 100),
    "Gram": Gram.observe(x, x[:, 0]),
    "counts": Tally.count(["p", "q", "q"] * 100, by=["a", "b", "c"] * 100),
}
every_statistic = pytest.mark.parametrize("name", STATISTICS)


@every_statistic
@pytest.mark.parametrize("k", [-200, -33, -1, 1, 32, 200])
def test_powers_of_two_scale_exactly(name: str, k: int) -> None:
    a = STATISTICS[name]
    assert 2.0**-k * (2.0**k * a) == a
    assert 2.0 * a == a + a


@every_statistic
def test_one_keeps_and_zero_takes_all(name: str) -> None:
    a = STATISTICS[name]
    assert 1 * a == a
    assert a + 0 * a == a
    assert 0 * a == a - a
    assert a + (-1) * a == a - a
    for part in (0 * a).parts().values():
        assert not part.value.any()


@every_statistic
def test_numbers_of_numpy_scale_as_those_of_python(name: str) -> None:
    a = STATISTICS[name]
    scaled = 0.5 * a
    halves: list[Any] = [np.float64(0.5), np.float32(0.5), Fraction(1, 2)]
    for half in halves:
        assert half * a == a * half == scaled
    thrice: Any = np.int64(3)
    assert thrice * a == True * a + 2 * a


@every_statistic
@pytest.mark.parametrize("weight", ["2", None, np.ones(2), [2.0]])
def test_nothing_else_scales(name: str, weight: object) -> None:
    with pytest.raises(TypeError):
        weight * STATISTICS[name]  # type: ignore[operator]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_no_number_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=r"got (nan|inf|-inf) as a weight, expected a finite number"):
        weight * STATISTICS["diagonal"]


def test_a_weight_weighs_as_rows_that_are_repeated() -> None:
    assert 3 * Moments.observe(x) == Moments.observe(np.repeat(x, 3, axis=0))
    assert 0.1 * Moments.observe(x) == Moments.observe(x, np.full(len(x), 0.1))


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.999])
def test_a_thousand_decays_stay_short_and_right(factor: float) -> None:
    days = rng.normal(1e6, 1.0, size=(1_000, 5, 2))
    statistic = Moments.observe(days[0])
    weight = Fraction(5)
    first = [sum(map(Fraction, column), Fraction(0)) for column in days[0].T.tolist()]
    for day in days[1:]:
        statistic = factor * statistic + Moments.observe(day)
        weight = weight * Fraction(factor) + 5
        first = [
            total * Fraction(factor) + sum(map(Fraction, column), Fraction(0))
            for total, column in zip(first, day.T.tolist(), strict=True)
        ]
    assert max(len(part.words) for part in statistic.parts().values()) <= 10
    for column in range(2):
        mean = first[column] / weight
        assert abs(Fraction(float(statistic.mean[column])) - mean) <= mean / 10**15
    ages = np.repeat(factor ** np.arange(999.0, -1.0, -1.0), 5)
    centred = (days - 1e6).reshape(-1, 2)
    variance = np.average((centred - np.average(centred, axis=0, weights=ages)) ** 2, axis=0, weights=ages)
    np.testing.assert_allclose(statistic.variance, variance, rtol=1e-11)  # NumPy's own error is 1e-12


def test_a_label_that_is_heard_of_no_more_fades_and_is_gone() -> None:
    fresh = Moments.observe([[1.0]], by=["fresh"])
    statistic = Moments.observe([[1.0]], by=["stale"])
    longest = 0
    for _ in range(80):
        statistic = 2.0**-32 * statistic + fresh
        longest = max(longest, *(len(part.words) for part in statistic.parts().values()))
    assert tuple(statistic.keys or ()) == ("fresh",)
    assert longest <= 80


def test_what_was_cut_was_far_below_the_last_digit() -> None:
    third = Exact.of([1.0, -1.0]).times(1 / 3)
    for _ in range(100):
        third = third.times(1 / 3).times(3.0)
    truth = [
        Fraction(1 / 3) * Fraction(1 / 3) ** 100 * 3**100,
        -Fraction(1 / 3) * Fraction(1 / 3) ** 100 * 3**100,
    ]
    for high, rest, true in zip(*(part.tolist() for part in third.pair), truth, strict=True):
        assert abs(Fraction(high) + Fraction(rest) - true) <= abs(true) / 2**104


def test_factors_of_more_axes_make_a_batch() -> None:
    numbers, factors = Exact.of([1e6, 0.1, -3.0]), [1.0, 0.5, 3.0, 0.0]
    table = numbers.times(np.array(factors)[:, None])
    assert table.shape == (4, 3)
    assert table.value.tolist() == [numbers.times(factor).value.tolist() for factor in factors]
    assert table.sum(axis=0) == numbers.times(sum(factors))
