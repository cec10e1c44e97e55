"""Generalised linear models where something has no end, no room or no closed form: it is said."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tamis
from tamis.estimators import GeneralizedLinear

rng = np.random.default_rng(1)
X = rng.normal(size=(60, 3))
COUNTS = rng.poisson(np.exp(0.3 + X @ [0.5, -0.5, 0.0]))


@pytest.mark.parametrize("kept", ["full", "none"])
@pytest.mark.parametrize("columns", [1, 3])
def test_no_counts_without_an_intercept_have_no_end(kept: Any, columns: int) -> None:
    model = GeneralizedLinear("poisson", fit_intercept=False, posterior=kept)
    with pytest.warns(tamis.SeparationWarning, match="grow without bound"):
        model.fit(np.abs(X[:, :columns]), np.zeros(60))
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X[:, :columns], np.zeros(60)).converged_  # on both sides of zero there is an end
        model.set_params(alpha=1.0).fit(np.abs(X[:, :columns]), np.zeros(60))


def test_rows_on_the_border_do_not_hide_that() -> None:
    rows = np.vstack([np.abs(X[:, :1]), np.zeros((2, 1))])
    with pytest.warns(tamis.SeparationWarning, match="along column 0,"):
        model = GeneralizedLinear("poisson", fit_intercept=False).fit(rows, np.zeros(62))
    assert not model.converged_


def test_what_has_no_end_has_not_converged() -> None:
    closed = np.column_stack([X, np.arange(60) < 10])
    with pytest.warns(tamis.SeparationWarning, match="counts are 0 along column 3,"):
        model = GeneralizedLinear("poisson").fit(closed, np.where(closed[:, 3], 0, COUNTS))
    assert not model.converged_


def test_leaving_one_out_needs_the_whole_posterior() -> None:
    for kept in ("diagonal", "none"):
        model = GeneralizedLinear("poisson", posterior=kept)
        with pytest.raises(ValueError, match=f"needs the full posterior, got posterior='{kept}'"):
            model.cross_validate(X, COUNTS, "leave-one-out")
        assert np.isfinite(model.cross_validate(X, COUNTS, 3).mean_log_density)


@pytest.mark.parametrize("intercept_alpha", [0.0, 1.0])
def test_exponentials_have_no_mean_below_zero(intercept_alpha: float) -> None:
    model = GeneralizedLinear(link="log", intercept_alpha=intercept_alpha)
    with pytest.raises(ValueError, match="the mean of the targets is -1, expected above 0 for link='log'"):
        model.fit(X, np.full(60, -1.0))


def test_a_model_learns_no_other_family() -> None:
    model = GeneralizedLinear("poisson").fit(X, COUNTS)
    with pytest.raises(ValueError, match=r"got family='gaussian' .* learned 'poisson' with link 'log'"):
        model.set_params(family="gaussian").partial_fit(X, COUNTS)
    model = GeneralizedLinear("gamma").fit(X, COUNTS + 1.0)
    with pytest.raises(
        ValueError, match=r"got family='gamma' and link='log' .* learned 'gamma' with link 'inverse'"
    ):
        model.set_params(link="log").partial_fit(X, COUNTS + 1.0)


def test_little_weight_leaves_no_dispersion() -> None:
    with pytest.warns(UserWarning, match="rows of weight 3 determine 4 coefficients and leave nothing"):
        model = GeneralizedLinear().fit(X, COUNTS, sample_weight=0.05)
    assert np.isnan(model.dispersion_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, COUNTS)
        GeneralizedLinear(dispersion=1.0).fit(X, COUNTS, sample_weight=0.05)
    assert model.dispersion_ > 0


@pytest.mark.parametrize(
    ("family", "link"), [("gaussian", "identity"), ("gamma", "inverse"), ("gamma", "log")]
)
@pytest.mark.parametrize("unit", [1e160, 1e-160, 1e300, 1e-300])
def test_targets_that_cannot_be_squared_are_refused(family: Any, link: Any, unit: float) -> None:
    with pytest.raises(ValueError, match=r"the largest target is .*, expected 1e-152 to 1e\+152"):
        GeneralizedLinear(family, link=link).fit(X, (COUNTS + 1.0) * unit)


@pytest.mark.parametrize(
    ("params", "more", "said"),
    [
        ({"family": ["poisson"]}, {}, r"got family=\['poisson'\], expected one of"),
        ({"link": ["log"]}, {}, r"got link=\['log'\] for 'gaussian', expected"),
        ({}, {"offset": "a"}, "got offset='a', expected a number, or one per row"),
        ({"family": "poisson"}, {"exposure": "a"}, "got exposure='a', expected a number, or one per row"),
    ],
)
def test_words_for_numbers_are_refused(params: Any, more: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        GeneralizedLinear(**params).fit(X, COUNTS, **more)


def test_counts_are_predicted_as_they_would_be_drawn() -> None:
    """Where coefficients are uncertain, too: quartiles of the predictive are those of draws."""
    model = GeneralizedLinear("poisson").fit(X[:6, :1], [2, 9, 4, 1, 12, 5])
    far = np.array([[0.0], [3.0], [-4.0]])
    said = model.predict_distribution(far)
    dice = np.random.default_rng(0)
    drawn = dice.poisson(np.minimum(model.sample_functions(far, 100_000, random_state=0), 1e9))
    for share in (0.25, 0.5, 0.75):
        wanted = np.quantile(drawn, share, axis=0)
        assert_allclose(said.ppf(share), wanted, rtol=0.2, atol=1.0)


def test_summaries_of_perfect_fits_have_columns() -> None:
    model = GeneralizedLinear().fit(X, 1e6 * X[:, 0] + 1.0)
    lines = str(model.summary()).splitlines()
    rows = [line.split() for line in lines[5:]]
    assert [len(row) for row in rows] == [7] * 4
    assert float(rows[1][3]) > 1e6
    assert {len(line) for line in lines[5:]} == {len(lines[4])}
    assert len(lines[4]) <= 72


# ── means that fall for ever ──


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_normal_targets_of_zero_or_less_whose_means_fall_for_ever_are_named(
    intercept: bool, scale: float
) -> None:
    """Where a column is above 0, all targets are 0 or less: the likelihood rises as its coefficient falls."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = np.abs(rng.normal(size=(20, 2)))
        x[:12, 1] = 0.0
        y = np.where(x[:, 1] > 0, -0.5 * np.abs(rng.normal(size=20)), 1.0 + rng.random(20))
        y[-1] = 0.0
        model = tamis.GeneralizedLinear("gaussian", link="log", fit_intercept=intercept)
        with pytest.warns(tamis.SeparationWarning, match="targets are 0 or less along column 1") as caught:
            model.fit(x * [1.0, scale], 3.0 * y)
        assert "\n" not in str(caught[0].message)
        assert "set alpha above 0, or link='identity'" in str(caught[0].message)
        assert not model.converged_
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a prior gives it an optimum
            assert model.set_params(alpha=0.1).fit(x * [1.0, scale], 3.0 * y).converged_


@pytest.mark.parametrize("above", [0.002, 0.02])
def test_a_normal_mean_that_is_very_small_at_its_optimum_is_no_alarm(above: float) -> None:
    """Two rows along one column: the target below 0 falls faster, and the one above 0 holds both far out."""
    x, y = np.array([[0.0], [0.0], [1.25], [1.0]]), np.array([1.0, 1.2, -0.5, above])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tamis.GeneralizedLinear("gaussian", link="log", dispersion=1.0).fit(x, y)
    assert model.converged_
    falling, held = model.predict(x)[2:]
    assert held < 1e-4 * above
    if above == 0.02:  # at 0.002 both slopes are lost in the rounding of the others
        assert_allclose(1.25 * (falling + 0.5) * falling, (above - held) * held, rtol=1e-3)


def test_counts_of_columns_that_are_nearly_alike_and_fall_for_ever_are_named() -> None:
    x, y = np.array([[-1.98446, -1.95589], [-0.70393, -0.72207]]), [0, 2]
    with pytest.warns(tamis.SeparationWarning, match="counts are 0 along columns 0, 1,"):
        GeneralizedLinear("poisson", fit_intercept=False).fit(x, y)


# ── rows that come later ──


@pytest.mark.parametrize("intercept", [True, False])
def test_later_rows_out_of_the_range_of_the_inverse_link_are_learned(intercept: bool) -> None:
    """The coefficients so far would give them means below 0: steps begin elsewhere, and end at the mode."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 2.0, (60, 2))
    y = rng.gamma(9.0, 1.0 / (9.0 * (x @ [2.5, -0.5])))
    later, targets = np.array([[0.1, 3.0], [0.1, 4.0], [0.2, 8.0]]), np.array([3.0, 4.0, 2.0])
    model = tamis.GeneralizedLinear("gamma", fit_intercept=intercept, dispersion=1.0).fit(x, y)
    at = np.append(model.coef_, model.intercept_) if intercept else model.coef_
    before, after = (np.column_stack([one, np.ones(len(one))])[:, : len(at)] for one in (x, later))
    assert (after @ at <= 0).any()
    information = (before.T / np.square(before @ at)) @ before
    model.partial_fit(later, targets)
    assert model.converged_
    found = np.append(model.coef_, model.intercept_) if intercept else model.coef_
    assert (after @ found > 0).all()
    slope = information @ (found - at) + (targets - 1.0 / (after @ found)) @ after
    assert_allclose(slope, 0.0, atol=1e-5 * np.abs(information @ (found - at)).max())


def test_later_rows_whose_means_would_overflow_are_learned() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 3.0, (50, 1))
    model = tamis.GeneralizedLinear("poisson").fit(x, rng.poisson(np.exp(x[:, 0])))
    model.partial_fit([[1000.0], [2.0]], [3, 2])
    assert model.converged_
    assert model.predict([[1000.0]])[0] == pytest.approx(3.0, rel=0.5)
