"""The bases are what their formulas, scikit-learn and SciPy say they are."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer

from tamis.basis import FourierBasis, GaussianBasis, PolynomialBasis, SigmoidBasis, SplineBasis

Rows = NDArray[np.float64]

few = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def some_rows(seed: int, n: int = 30, d: int = 3, mean: float = 0.0) -> Rows:
    return mean + np.random.default_rng(seed).normal(size=(n, d)) * [1.0, 5.0, 0.1][:d]


# ── polynomials ──


@few
@given(seeds, st.integers(1, 4), st.booleans())
def test_interactions_without_scale_are_scikit_learns_polynomial_features(
    seed: int, degree: int, bias: bool
) -> None:
    X = some_rows(seed)
    ours = PolynomialBasis(degree, interactions=True, scale=None, include_bias=bias).fit(X)
    theirs = PolynomialFeatures(degree, include_bias=bias).fit(X)
    assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-13)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert_array_equal(ours.powers_, theirs.powers_[int(bias) :])


def test_more_products_than_memory_holds_are_counted_and_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 40))
    with pytest.raises(ValueError, match="makes 377,348,993 functions, expected at most 1,000,000"):
        PolynomialBasis(8, interactions=True).fit(rows)
    with pytest.raises(ValueError, match="makes 40,000,000,000 functions, expected at most 1,000,000"):
        PolynomialBasis(10**9).fit(rows)
    assert PolynomialBasis(2, interactions=True).fit_transform(rows).shape == (5, 860)


def test_without_interactions_each_column_has_its_own_powers() -> None:
    found = PolynomialBasis(3, scale=None).fit_transform([[2.0, 10.0], [-1.0, 0.5]])
    assert found.tolist() == [[2, 4, 8, 10, 100, 1000], [-1, 1, -1, 0.5, 0.25, 0.125]]


def test_scaled_columns_go_from_minus_one_to_one() -> None:
    X = some_rows(0, mean=1e8)
    basis = PolynomialBasis(5).fit(X)
    found = basis.transform(X)
    assert_allclose(found.min(axis=0)[::5], -1.0, atol=1e-12)
    assert_allclose(found.max(axis=0), 1.0, atol=1e-12)
    assert_allclose(found[:, 5], (X[:, 1] - basis.centre_[1]) / basis.width_[1])


def test_a_polynomial_is_found_at_a_mean_of_a_hundred_million() -> None:
    x = 1e8 + np.linspace(-1, 1, 50)
    y = (x - 1e8) ** 5 - (x - 1e8)
    scaled = PolynomialBasis(5, include_bias=True).fit_transform(x[:, None])
    assert np.linalg.cond(scaled) < 1e3
    assert_allclose(scaled @ np.linalg.lstsq(scaled, y, rcond=None)[0], y, atol=1e-12)
    by_hand = PolynomialBasis(5, scale=(1e8, [1.0])).fit_transform(x[:, None])
    assert_allclose(by_hand[:, 4] - by_hand[:, 0], y, atol=1e-14)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_powers_that_cannot_be_held_are_refused(kind: Any) -> None:
    X = np.array([[np.sqrt(np.finfo(kind).max) * 2]], dtype=kind)
    basis = PolynomialBasis(2, scale=None).fit(X)
    with pytest.raises(ValueError, match=rf"values up to .* whose functions fit into {np.dtype(kind)}:"):
        basis.transform(X)


# ── Gaussians and sigmoids ──


@few
@given(seeds, st.integers(1, 12), st.sampled_from(["evenly", "quantiles"]), st.floats(0.01, 100))
def test_bumps_are_the_formula(seed: int, count: int, placed: Any, width: float) -> None:
    X = some_rows(seed, d=2)
    basis = GaussianBasis(count, placed, width).fit(X)
    expected = [np.exp(-((X[:, [j]] - c) ** 2) / (2 * width**2)) for j, c in enumerate(basis.centres_)]
    assert_allclose(basis.transform(X), np.hstack(expected), rtol=1e-10, atol=1e-300)


@few
@given(seeds, st.integers(1, 12), st.sampled_from(["evenly", "quantiles"]), st.sampled_from([0.0, 1e8, -1e8]))
def test_at_its_centre_a_bump_is_one_and_a_step_a_half(
    seed: int, count: int, placed: Any, mean: float
) -> None:
    X = some_rows(seed, d=1, mean=mean)
    for basis, value in ((GaussianBasis(count, placed), 1.0), (SigmoidBasis(count, placed), 0.5)):
        centres = basis.fit(X).centres_[0]
        found = basis.transform(centres[:, None])
        assert_array_equal(np.diag(found), value)
        assert (found >= 0).all()
        assert (found <= 1).all()


@few
@given(seeds, st.floats(0.01, 100))
def test_steps_are_the_formula_and_mirror_about_their_centre(seed: int, width: float) -> None:
    X = some_rows(seed, d=1)
    basis = SigmoidBasis([[0.25], [-1.0]], width=width).fit(X)
    assert_allclose(basis.transform(X), 1 / (1 + np.exp(-(X - [0.25, -1.0]) / width)), rtol=1e-12)
    above, below = basis.transform(0.25 + X)[:, 0], basis.transform(0.25 - X)[:, 0]
    assert_allclose(above + below, 1.0, rtol=1e-12)


def test_centres_lie_evenly_or_at_quantiles_and_widths_are_their_spacing() -> None:
    X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [8.0, 5.0]])
    even = GaussianBasis(5).fit(X)
    assert [c.tolist() for c in even.centres_] == [[0, 2, 4, 6, 8], [1, 2, 3, 4, 5]]
    assert [s.tolist() for s in even.width_] == [[2.0] * 5, [1.0] * 5]
    quantiles = SigmoidBasis(4, placed="quantiles").fit(X)
    assert [c.tolist() for c in quantiles.centres_] == [[0, 1, 2, 8], [1, 5]]  # what falls together is one
    assert [s.tolist() for s in quantiles.width_] == [[1, 1, 3.5, 6], [4, 4]]
    assert quantiles.transform(X).shape == (4, 6)
    assert GaussianBasis(1).fit(X).centres_[0].tolist() == [4.0]
    assert GaussianBasis(1).fit(X).width_[0].tolist() == [8.0]
    assert GaussianBasis([5.0, 0.0, 1.0]).fit(X).width_[0].tolist() == [4.0, 1.0, 2.5]  # in the given order


def test_widths_by_hand_are_one_for_all_or_a_column_or_a_centre() -> None:
    X = some_rows(1, d=2)
    for given_width, expected in (
        (2.0, [[2, 2, 2], [2, 2, 2]]),
        ([1.0, 3.0], [[1, 1, 1], [3, 3, 3]]),
        ([[1.0], [2.0], [3.0]], [[1, 2, 3], [1, 2, 3]]),
        ([[1, 4], [2, 5], [3, 6]], [[1, 2, 3], [4, 5, 6]]),
    ):
        assert [s.tolist() for s in GaussianBasis(3, width=given_width).fit(X).width_] == expected


@few
@given(seeds, st.integers(1, 6))
def test_a_radial_basis_falls_with_the_distance(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    X, centres, width = some_rows(seed), rng.normal(size=(count, 3)), rng.uniform(0.5, 2, size=(count, 3))
    for given_width in (1.5, width[0], width[:, :1], width):
        found = GaussianBasis(centres, width=given_width).fit(X).transform(X)
        far = (((X[:, None] - centres) / given_width) ** 2).sum(axis=2)
        assert_allclose(found, np.exp(-far / 2), rtol=1e-10, atol=1e-300)


def test_radial_bumps_reach_to_the_nearest_other_centre() -> None:
    basis = GaussianBasis([[0, 0], [3, 4], [3, 5]]).fit([[0, 0], [10, 1]])
    assert_allclose(np.asarray(basis.width_), [[5, 5], [1, 1], [1, 1]])
    assert_allclose(np.asarray(GaussianBasis([[0, 0]]).fit([[0, 0], [10, 1]]).width_), [[10, 10]])
    assert basis.transform([[1e200, -1e200]]).tolist() == [[0, 0, 0]]


# ── splines ──


def cox_de_boor(x: float, knots: Rows, i: int, degree: int) -> float:
    """The recursion of the textbooks; 0/0 is 0."""
    if degree == 0:
        return float(knots[i] <= x < knots[i + 1])
    up, down = knots[i + degree] - knots[i], knots[i + degree + 1] - knots[i + 1]
    left = (x - knots[i]) / up * cox_de_boor(x, knots, i, degree - 1) if up else 0.0
    right = (knots[i + degree + 1] - x) / down * cox_de_boor(x, knots, i + 1, degree - 1) if down else 0.0
    return left + right


@few
@given(
    seeds,
    st.integers(0, 5),
    st.sampled_from(["constant", "linear", "periodic"]),
    st.sampled_from(["evenly", "quantiles"]),
    st.booleans(),
)
def test_splines_are_those_of_scikit_learn(
    seed: int, degree: int, beyond: Any, placed: Any, bias: bool
) -> None:
    X = some_rows(seed, d=1)  # of several columns theirs with degree 1 and "linear" differ from one alone
    ours = SplineBasis(7, degree, placed, beyond, bias).fit(X)
    theirs = SplineTransformer(
        7,
        degree,
        knots="uniform" if placed == "evenly" else "quantile",
        extrapolation=beyond,
        include_bias=bias,
    ).fit(X)
    wider = np.vstack([X, 3 * some_rows(seed + 1, d=1)])
    if degree == 0:  # theirs raise an error for the constant ones
        wider = X
    assert_allclose(ours.transform(wider), theirs.transform(wider), rtol=1e-9, atol=1e-9)


@few
@given(seeds, st.integers(0, 4))
def test_splines_are_the_recursion_and_scipys(seed: int, degree: int) -> None:
    rng = np.random.default_rng(seed)
    knots = np.cumsum(rng.uniform(0.1, 1, 5))
    x = rng.uniform(knots[0], knots[-1], 20)
    found = SplineBasis(knots, degree, include_bias=True).fit(x[:, None]).transform(x[:, None])
    steps = np.arange(1, degree + 1)
    first, last = knots[1] - knots[0], knots[-1] - knots[-2]
    all_knots = np.r_[knots[0] - first * steps[::-1], knots, knots[-1] + last * steps]
    recursion = [[cox_de_boor(each, all_knots, i, degree) for i in range(4 + degree)] for each in x]
    assert_allclose(found, recursion, atol=1e-12)
    assert_allclose(found, BSpline.design_matrix(x, all_knots, degree).toarray(), atol=1e-12)


@few
@given(
    seeds,
    st.integers(0, 5),
    st.sampled_from(["constant", "linear", "periodic"]),
    st.sampled_from(["evenly", "quantiles"]),
    st.sampled_from([0.0, 1e8]),
)
def test_splines_sum_to_one_everywhere(seed: int, degree: int, beyond: Any, placed: Any, mean: float) -> None:
    X = some_rows(seed, d=1, mean=mean)
    basis = SplineBasis(8, degree, placed, beyond, include_bias=True).fit(X)
    inside, outside = basis.transform(X), basis.transform(mean + 3 * (X - mean))
    assert_allclose(inside.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(outside.sum(axis=1), 1.0, rtol=1e-9)
    assert (inside >= -1e-15).all()


def test_beyond_the_knots_splines_stay_go_straight_or_repeat() -> None:
    knots = np.array([0.0, 1.0, 2.5, 4.0, 5.0])
    x = np.linspace(-3, 8, 56)
    bases = {
        beyond: SplineBasis(knots, 3, extrapolation=beyond, include_bias=True).fit(x[:, None])
        for beyond in ("constant", "linear", "periodic")
    }
    found = {beyond: basis.transform(x[:, None]) for beyond, basis in bases.items()}
    ends = bases["constant"].transform([[0.0], [5.0]])
    assert_allclose(found["constant"][x < 0], ends[[0] * int(np.sum(x < 0))])
    assert_allclose(found["constant"][x > 5], ends[[1] * int(np.sum(x > 5))])
    assert_allclose(np.diff(found["linear"][x >= 5], n=2, axis=0), 0, atol=1e-12)
    assert_allclose(np.diff(found["linear"][x <= 0], n=2, axis=0), 0, atol=1e-12)
    assert_allclose(found["periodic"], bases["periodic"].transform(x[:, None] + 15), atol=1e-12)
    across = bases["periodic"].transform(5 + np.array([[-1e-7], [1e-7]]))
    assert_allclose(across[0], across[1], atol=1e-6)


def test_without_bias_the_last_function_of_each_column_is_left_out() -> None:
    X = some_rows(3, d=2)
    every = SplineBasis(4, 2, include_bias=True).fit(X)
    rest = SplineBasis(4, 2).fit(X)
    assert_array_equal(rest.transform(X), np.delete(every.transform(X), [4, 9], axis=1))
    assert [len(knots) for knots in rest.knots_] == [4, 4]


# ── waves ──


@few
@given(seeds, st.integers(1, 6), st.floats(0.1, 100))
def test_waves_are_the_formula_and_repeat(seed: int, order: int, period: float) -> None:
    X = some_rows(seed, d=2)
    basis = FourierBasis(order, period).fit(X)
    angles = 2 * np.pi * X[:, :, None] * np.arange(1, order + 1) / period
    expected = np.stack([np.sin(angles), np.cos(angles)], axis=3).reshape(len(X), -1)
    assert_allclose(basis.transform(X), expected, atol=1e-9)
    assert_allclose(basis.transform(X + 3 * period), expected, atol=1e-9)


def test_waves_are_as_sharp_after_many_periods() -> None:
    hours = np.arange(24.0)[:, None]
    basis = FourierBasis(3, 24).fit(hours)
    assert_array_equal(basis.transform(hours + 24 * 10**10), basis.transform(hours))


def test_a_period_is_the_range_or_one_a_column() -> None:
    X = np.array([[1.0, 0.0], [5.0, 0.5]])
    assert FourierBasis().fit(X).period_.tolist() == [4.0, 0.5]
    ends = FourierBasis(2).fit(X).transform(X)
    assert_allclose(ends[0], ends[1], atol=1e-12)
    assert FourierBasis(period=[24, 7]).fit(X).period_.tolist() == [24.0, 7.0]


@pytest.mark.parametrize("interactions", [False, True])
def test_memory_for_a_polynomial_grows_as_its_degree_does(interactions: bool) -> None:
    basis = PolynomialBasis(degree=20_000, interactions=interactions, scale=None).fit([[1.0]])
    tracemalloc.start()
    try:
        rows = basis.transform([[1.0]])
        names = basis.get_feature_names_out()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows.shape == (1, 20_000)
    assert names[-1] == "x0^20000"
    assert peak < 20_000 * 2000  # lists of all factors would take 1,600 million bytes
