"""Beliefs in a mean and a variance: far from their location, in batches, by label, and what they refuse."""

import math
import pickle
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tamis.arrays import Array
from tamis.conjugate import MultivariateT, NormalInverseGamma, NormalInverseWishart, StudentT
from tamis.conjugate.inverse_gamma import InverseGamma
from tamis.stats import Keys, Moments, Tally

LABELS = ["ham", "spam", "eggs"] * 8


SKEW = np.array([[2.0, 1.5], [0.0, 2.0]])
TALLY: Any = Tally.observe([1])
FIVE: Any = 5


def rows(d: int, mean: float = 0.0, n: int = 20) -> Array:
    return mean + np.random.default_rng(d).standard_normal((n, d))


def full(data: Array, by: Any = None) -> Moments:
    return Moments.observe(data, by=by, form="full", exact=True)


def wishart(d: int) -> NormalInverseWishart:
    return NormalInverseWishart(np.zeros(d), 1, d + 2, np.eye(d))


def determinant(matrix: list[list[Fraction]]) -> Fraction:
    if len(matrix) == 1:
        return matrix[0][0]
    minors = ([row[:j] + row[j + 1 :] for row in matrix[1:]] for j in range(len(matrix)))
    return sum(
        ((-1) ** j * matrix[0][j] * determinant(minor) for j, minor in enumerate(minors)), start=Fraction(0)
    )


def log(x: Fraction) -> float:
    with localcontext() as context:
        context.prec = 60
        return float((Decimal(x.numerator) / Decimal(x.denominator)).ln())


def exact_evidence(data: Array) -> float:
    """Of `wishart(d)`, whose scale grows in fractions: only its logarithm is rounded."""
    n, d = data.shape
    x = [[Fraction(float(value)) for value in row] for row in data]
    total = [sum((row[i] for row in x), start=Fraction(0)) for i in range(d)]
    after = [
        [
            int(i == j)
            + sum((row[i] * row[j] for row in x), start=Fraction(0))
            - total[i] * total[j] / (n + 1)
            for j in range(d)
        ]
        for i in range(d)
    ]
    nu = d + 2
    gammas = sum(math.lgamma(0.5 * (nu + n - i)) - math.lgamma(0.5 * (nu - i)) for i in range(d))
    constant = 0.5 * n * d * math.log(math.pi) + 0.5 * d * math.log1p(n)
    return float(gammas - constant - 0.5 * (nu + n) * log(determinant(after)))


@pytest.mark.parametrize("mean", [0.0, 1e4, -1e8, 1e9, 1e12])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_evidence_of_data_far_from_the_location_keeps_its_digits(d: int, mean: float) -> None:
    data = rows(d, mean)
    assert_allclose(wishart(d).log_evidence(full(data)), exact_evidence(data), rtol=1e-12)


def test_groups_far_apart_are_fitted() -> None:
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(60), 10)
    centres, deviations = 1e5 * rng.standard_normal((60, 2)), np.sqrt(6.0 / rng.chisquare(8.0, (60, 1)))
    noise = deviations[labels] * rng.standard_normal((600, 2))
    fitted = NormalInverseWishart.fit(full(centres[labels] + noise, labels))
    assert_allclose(fitted.location, centres.mean(axis=0), atol=2e4)
    assert_allclose(fitted.mean.covariance, np.eye(2), atol=0.4)
    assert_allclose(fitted.strength, 1e-10, rtol=0.5)


@pytest.mark.parametrize("mean", [1e9, 3e9, 1e10, 1e12])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_a_scale_that_float64_cannot_hold_is_refused_with_the_remedy(d: int, mean: float) -> None:
    with pytest.raises(
        ValueError, match="too far from the location for the precision of float64, put the location"
    ):
        wishart(d).update(full(rows(d, mean)))


@pytest.mark.parametrize(("mean", "tolerance"), [(1e2, 1e-11), (1e4, 1e-7), (1e6, 1e-3)])
def test_a_posterior_scale_loses_two_digits_for_each_of_the_distance(mean: float, tolerance: float) -> None:
    prior, data = wishart(2), full(rows(2, mean))
    ratio = prior.update(data).log_normalizer() - prior.log_normalizer()
    assert_allclose(ratio, prior.log_evidence(data), rtol=tolerance)


def test_a_location_near_the_data_is_the_remedy() -> None:
    near = NormalInverseWishart(np.full(3, 1e9), 1, 5, np.eye(3))
    here = wishart(3).update(full(rows(3, 1e9) - 1e9))
    assert_allclose(near.update(full(rows(3, 1e9))).scale, here.scale, rtol=1e-12, atol=1e-12)


def member(prior: Any, place: tuple[int, ...]) -> Any:
    """One belief of a batch."""
    if isinstance(prior, NormalInverseGamma):
        parts = prior.location, prior.strength, prior.shape, prior.scale
        return NormalInverseGamma(*(part[place] for part in parts))
    return NormalInverseWishart(
        prior.location[place], prior.strength[place], prior.freedom[place], prior.scale[place]
    )


DATA = rows(2, 3.0, 24)
GRID = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    ("prior", "statistic", "part"),
    [
        (
            NormalInverseWishart(np.arange(6.0).reshape(3, 2), 1, 5, np.eye(2)),
            full(DATA),
            lambda place: full(DATA),
        ),
        (
            NormalInverseWishart(GRID[..., None] + np.zeros(2), 1, 5, np.eye(2)),
            full(DATA, LABELS),
            lambda place: full(DATA, LABELS).at(["eggs", "ham", "spam"][place[1]]),
        ),
        (
            NormalInverseWishart(np.zeros(2), 1, 5, np.eye(2)),
            full(DATA, LABELS),
            lambda place: full(DATA, LABELS).at(["eggs", "ham", "spam"][place[0]]),
        ),
        (
            NormalInverseGamma(np.arange(3.0)[:, None], 1, 2, 2),
            Moments.observe(DATA),
            lambda place: Moments.observe(DATA[:, place[1]]),
        ),
        (
            NormalInverseGamma(np.zeros(2), 1, [2, 3], 2),
            Moments.observe(DATA[:, 0]),
            lambda place: Moments.observe(DATA[:, 0]),
        ),
        (
            NormalInverseGamma(GRID, 1 + GRID, 2, 2),
            Moments.observe(DATA[:, 0], by=LABELS),
            lambda place: Moments.observe(DATA[:, 0], by=LABELS).at(["eggs", "ham", "spam"][place[1]]),
        ),
    ],
)
def test_a_batch_is_updated_as_its_members_are_one_by_one(
    prior: Any, statistic: Moments, part: Callable[[tuple[int, ...]], Moments]
) -> None:
    after, evidence = prior.update(statistic), prior.log_evidence(statistic)
    assert evidence.shape == after.batch == np.broadcast_shapes(prior.batch, statistic.weight.shape)
    for place in np.ndindex(after.batch):
        start = tuple(i for i, length in zip(place, prior.batch, strict=False) if length > 1)
        alone = member(prior, (*start, *(0,) * (len(prior.batch) - len(start))))
        one, found = alone.update(part(place)), member(after, place)
        assert_allclose(evidence[place], alone.log_evidence(part(place)), rtol=1e-13)
        assert_allclose(found.location, one.location, rtol=1e-13)
        assert_allclose(found.scale, one.scale, rtol=1e-13)
        assert_allclose(found.strength, one.strength)


@pytest.mark.parametrize(
    ("prior", "statistic", "others"),
    [
        (
            NormalInverseGamma(0, 1, 2, 2),
            Moments.observe(DATA[:, 0], by=LABELS),
            Moments.observe([1.0], by=["ham"]),
        ),
        (
            NormalInverseGamma([0, 1], 1, 2, 2),
            Moments.observe(DATA, by=LABELS),
            Moments.observe(DATA[:1], by=["ham"]),
        ),
        (wishart(2), full(DATA, LABELS), full(DATA[:1], ["ham"])),
    ],
)
def test_a_belief_keeps_the_labels_of_what_it_saw(prior: Any, statistic: Moments, others: Moments) -> None:
    after = prior.update(statistic)
    assert prior.keys is None
    assert after.keys == statistic.keys == after.update(statistic).keys
    assert pickle.loads(pickle.dumps(after)).keys == after.keys
    for act in (after.update, after.log_evidence):
        with pytest.raises(ValueError, match="expected the same labels"):
            act(others)


def test_labels_that_would_name_an_inner_axis_are_not_kept() -> None:
    assert NormalInverseGamma(GRID, 1, 2, 2).update(Moments.observe(DATA[:, 0], by=LABELS)).keys is None
    with pytest.raises(ValueError, match="2 keys for an axis of length 3"):
        NormalInverseGamma(np.zeros(3), 1, 2, 2, keys=Keys(("a", "b")))
    with pytest.raises(ValueError, match="2 keys for a prior without a batch axis"):
        NormalInverseWishart(np.zeros(2), 1, 5, np.eye(2), keys=Keys(("a", "b")))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda x: NormalInverseGamma(x, x, x, x), ["location", "strength", "shape", "scale"]),
        (lambda x: StudentT(x, x, x), ["freedom", "location", "scale"]),
        (lambda x: InverseGamma(x, x), ["shape", "scale"]),
        (
            lambda x: NormalInverseWishart(x, x[0], x[1] + 1, np.diag(x)),
            ["location", "strength", "freedom", "scale"],
        ),
        (lambda x: MultivariateT(x[0], x, np.diag(x)), ["freedom", "location", "scale"]),
    ],
)
def test_a_belief_keeps_its_parameters_to_itself(make: Callable[[Array], Any], names: list[str]) -> None:
    given = np.array([2.0, 3.0])
    belief = make(given)
    before = {name: getattr(belief, name).tolist() for name in names}
    given[:] = 9.0
    assert {name: getattr(belief, name).tolist() for name in names} == before
    for name in names:
        with pytest.raises(ValueError, match="read-only"):
            getattr(belief, name)[...] = 9.0


def test_what_cannot_be_has_log_density_minus_infinity() -> None:
    assert (
        MultivariateT(3, [0, 0], np.eye(2)).log_density([[np.inf, 0], [0, np.nan]]).tolist() == [-np.inf] * 2
    )
    assert StudentT(3).log_density([np.inf, -np.inf, np.nan]).tolist() == [-np.inf] * 3
    assert InverseGamma(1, 1).log_density([0.0, -1.0, np.inf, np.nan]).tolist() == [-np.inf] * 4
    pairs = NormalInverseGamma(0, 1, 1, 1).log_density(
        ([np.inf, np.inf, 0.0, 0.0, np.nan], [1, np.inf, 0, -1, 1])
    )
    assert pairs.tolist() == [-np.inf] * 5
    matrices = np.array([np.eye(2), -np.eye(2), [[1, 2], [2, 1]], np.full((2, 2), np.nan)])
    found = wishart(2).log_density(([0, 0], matrices))
    assert np.isneginf(found).tolist() == [False, True, True, True]
    assert wishart(2).log_density(([0, np.inf], np.eye(2))) == -np.inf


def test_a_second_moment_that_diverges_is_infinite_on_the_diagonal() -> None:
    vectors = MultivariateT([1.0, 2.0, 3.0], np.zeros((3, 2)), np.eye(2))
    np.testing.assert_array_equal(
        np.diagonal(vectors.covariance, axis1=-2, axis2=-1)[:, 0], [np.nan, np.inf, 3]
    )
    np.testing.assert_array_equal(vectors.covariance[:, 0, 1], [np.nan, np.nan, 0.0])
    np.testing.assert_array_equal(StudentT([1.0, 2.0, 3.0]).variance, [np.nan, np.inf, 3.0])


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (
            lambda: NormalInverseWishart([0, 0], 1, 5, SKEW),
            ValueError,
            "got a scale matrix with 1.5 above the diagonal and 0.0 below",
        ),
        (lambda: MultivariateT(3, [0, 0], SKEW), ValueError, "expected a symmetric matrix"),
        (
            lambda: wishart(2).log_density(([0, 0], SKEW)),
            ValueError,
            "got a covariance with 1.5",
        ),
        (lambda: NormalInverseWishart([0], 1, 5, [[np.nan]]), ValueError, "the scale matrix holds nan"),
        (lambda: NormalInverseGamma(np.nan, 1, 1, 1), ValueError, "got a location of nan, expected finite"),
        (lambda: NormalInverseWishart([0, np.inf], 1, 5, np.eye(2)), ValueError, "got a location of inf"),
        (lambda: StudentT(3, np.inf), ValueError, "got a location of inf"),
        (lambda: MultivariateT(3, [np.nan], [[1]]), ValueError, "got a location of nan"),
        (lambda: MultivariateT(3, 0, 1), ValueError, r"location of shape \(\) and a scale of shape \(\)"),
        (lambda: NormalInverseWishart.from_mean(0, 1, 1), ValueError, r"got a mean of shape \(\)"),
        (lambda: MultivariateT(3, [0, 0], np.eye(2)).log_density(5), ValueError, "expected 2 numbers"),
        (lambda: wishart(2).log_density((3.0, np.eye(2))), ValueError, r"mean of shape \(\), expected 2"),
        (lambda: wishart(2).log_density(([0, 0], np.eye(3))), ValueError, r"covariance of shape \(3, 3\)"),
        (
            lambda: wishart(2).update(full(rows(3))),
            ValueError,
            "got Moments of 3 columns, expected the prior's 2",
        ),
        (
            lambda: NormalInverseGamma(0, 1, 1, 1).update(TALLY),
            TypeError,
            "got a Tally, expected a M",
        ),
        (lambda: NormalInverseGamma.fit(TALLY), TypeError, "got a Tally, expected a Moments"),
        (lambda: wishart(2).log_evidence(TALLY), TypeError, "got a Tally, expected a Moments"),
        (lambda: NormalInverseGamma(0, 1, 1, 1).sample(FIVE), TypeError, "got rng=5, expected a generator"),
        (lambda: wishart(2).sample(FIVE), TypeError, "got rng=5, expected a generator"),
    ],
)
def test_a_message_says_what_was_given_and_what_was_expected(
    act: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        act()
