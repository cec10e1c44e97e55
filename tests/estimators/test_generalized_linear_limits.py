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
    with pytest.warns(tamis.SeparationWarning, match="grow for ever"):
        model.fit(np.abs(X[:, :columns]), np.zeros(60))
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X[:, :columns], np.zeros(60)).converged_  # on both sides of zero there is an end
        model.set_params(alpha=1.0).fit(np.abs(X[:, :columns]), np.zeros(60))


def test_rows_on_the_border_do_not_hide_that() -> None:
    rows = np.vstack([np.abs(X[:, :1]), np.zeros((2, 1))])
    with pytest.warns(tamis.SeparationWarning, match="wherever column 0 says so"):
        model = GeneralizedLinear("poisson", fit_intercept=False).fit(rows, np.zeros(62))
    assert not model.converged_


def test_what_has_no_end_has_not_converged() -> None:
    closed = np.column_stack([X, np.arange(60) < 10])
    with pytest.warns(tamis.SeparationWarning, match="column 3 says so"):
        model = GeneralizedLinear("poisson").fit(closed, np.where(closed[:, 3], 0, COUNTS))
    assert not model.converged_


def test_leaving_one_out_needs_the_whole_posterior() -> None:
    for kept in ("diagonal", "none"):
        model = GeneralizedLinear("poisson", posterior=kept)
        with pytest.raises(ValueError, match=f"needs the whole posterior, got posterior='{kept}'"):
            model.cross_validate(X, COUNTS, "leave-one-out")
        assert np.isfinite(model.cross_validate(X, COUNTS, 3).mean_log_density)


@pytest.mark.parametrize("intercept_alpha", [0.0, 1.0])
def test_exponentials_have_no_mean_below_zero(intercept_alpha: float) -> None:
    model = GeneralizedLinear(link="log", intercept_alpha=intercept_alpha)
    with pytest.raises(ValueError, match="the mean of the targets is -1, expected above 0 for link='log'"):
        model.fit(X, np.full(60, -1.0))


def test_a_model_learns_no_other_family() -> None:
    model = GeneralizedLinear("poisson").fit(X, COUNTS)
    with pytest.raises(ValueError, match=r"got family='gaussian' .* learned 'poisson' by 'log'"):
        model.set_params(family="gaussian").partial_fit(X, COUNTS)
    model = GeneralizedLinear("gamma").fit(X, COUNTS + 1.0)
    with pytest.raises(
        ValueError, match=r"got family='gamma' and link='log' .* learned 'gamma' by 'inverse'"
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
        ({}, {"offset": "a"}, "got offset='a', expected a number, or one a row"),
        ({"family": "poisson"}, {"exposure": "a"}, "got exposure='a', expected a number, or one a row"),
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
