"""Principal components of rows with gaps: EM is the slow one, in whichever way the gaps are guessed."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tamis.arrays import Array
from tamis.models.components import (
    Components,
    ComponentsWithGaps,
    ExpectedMoments,
    Gaps,
    decompose,
    impute,
    log_densities_with_gaps,
)
from tamis.models.components import gaps as gaps_module
from tamis.protocols import Step, iterate
from tamis.stats import Moments
from tests.models.component_rows import fitted, low_rank


def with_gaps(x: Array, share: float = 0.2, seed: int = 5) -> Array:
    gone = np.random.default_rng(seed).random(x.shape) < share
    return np.where(gone, np.nan, x)


def refine(gaps: Gaps, count: int | None) -> Iterator[Step[ExpectedMoments, Components]]:
    model = ComponentsWithGaps(count, gaps.floor)
    return iterate(model, [gaps], model.infer(model.observe(gaps)))


def slow_step(
    x: Array, weights: Array, mean: Array, covariance: Array, count: int
) -> tuple[Array, Array, float]:
    """One step of EM, a row at a time, with whole covariances."""
    d, told = x.shape[1], 0.0
    guesses, uncertain = x.copy(), np.zeros((d, d))
    for row, weight in enumerate(weights):
        there = ~np.isnan(x[row])
        gone = ~there
        seen = covariance[np.ix_(there, there)]
        told += weight * stats.multivariate_normal(mean[there], seen).logpdf(x[row, there])
        slope = covariance[np.ix_(gone, there)] @ np.linalg.inv(seen)
        guesses[row, gone] = mean[gone] + slope @ (x[row, there] - mean[there])
        own = covariance[np.ix_(gone, gone)] - slope @ covariance[np.ix_(there, gone)]
        uncertain[np.ix_(gone, gone)] += weight * own
    centre = np.average(guesses, axis=0, weights=weights)
    scatter = (guesses - centre).T @ ((guesses - centre) * weights[:, None]) + uncertain
    values, vectors = np.linalg.eigh(scatter / weights.sum())
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = values[count:].mean()
    kept = (vectors[:, :count] * (values[:count] - noise)) @ vectors[:, :count].T
    return centre, kept + noise * np.eye(d), told


@pytest.mark.parametrize(("d", "count"), [(7, 2), (5, 3)])
@pytest.mark.parametrize("weighed", [False, True])
def test_em_is_the_slow_one(d: int, count: int, weighed: bool) -> None:
    x = with_gaps(low_rank(60, d, 2))
    x = x[~np.isnan(x).all(axis=1)]
    weights = np.random.default_rng(6).random(len(x)) + 0.2 if weighed else None
    gaps = Gaps.of(x, weights)
    model = ComponentsWithGaps(count, gaps.floor)
    start = model.infer(model.observe(gaps))
    mean, covariance = start.mean, start.covariance()
    own = np.ones(len(x)) if weights is None else weights
    for step in islice(refine(gaps, count), 10):
        mean, covariance, told = slow_step(x, own, mean, covariance, count)
        assert_allclose(step.objective, told, rtol=1e-10)
        assert_allclose(step.posterior.mean, mean, rtol=1e-9)
        assert_allclose(step.posterior.covariance(), covariance, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 4, None])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_what_was_seen_never_gets_less_probable(count: int | None, share: float) -> None:
    x = with_gaps(low_rank(150, 6, 2), share)
    told = [step.objective for step in islice(refine(Gaps.of(x), count), 60)]
    assert min(np.diff(told)) > -1e-8


def test_without_gaps_one_step_is_the_answer() -> None:
    x = low_rank(100, 6, 2)
    steps = list(islice(refine(Gaps.of(x), 2), 3))
    whole = decompose(Moments.observe(x, form="full"), 2, 100.0)
    for step in steps:
        assert_allclose(step.posterior.variances, whole.variances, rtol=1e-12)
        assert_allclose(step.objective, whole.log_likelihood(step.statistic.moments), rtol=1e-12)


def test_steps_over_shards_are_those_over_all_rows() -> None:
    x = with_gaps(low_rank(90, 6, 2))
    gaps = Gaps.of(x)
    model = ComponentsWithGaps(2, gaps.floor)
    begin = model.infer(model.observe(gaps))
    parts = [Gaps.of(x[:40]), Gaps.of(x[40:])]
    for step, one in islice(zip(iterate(model, parts, begin), iterate(model, [gaps], begin), strict=True), 5):
        assert_allclose(step.objective, one.objective, rtol=1e-10)
        assert_allclose(step.posterior.variances, one.posterior.variances, rtol=1e-9)
    assert (model.observe(gaps, begin) * 2.0).log_likelihood == 2.0 * model.observe(
        gaps, begin
    ).log_likelihood


def test_gaps_at_random_hide_little() -> None:
    x = low_rank(4000, 8, 2)
    *_, last = islice(refine(Gaps.of(with_gaps(x)), 2), 100)
    whole = fitted(x, 2)
    assert_allclose(last.posterior.variances, whole.variances, rtol=0.05)
    assert_allclose(np.abs((last.posterior.directions * whole.directions).sum(axis=1)), 1.0, atol=0.01)
    assert_allclose(last.posterior.noise, 0.09, rtol=0.05)


def test_densities_of_gaps_are_marginal() -> None:
    x = with_gaps(low_rank(30, 5, 2), 0.3)
    x[0] = np.nan
    given = fitted(low_rank(90, 5, 2), 2)
    for row, told in zip(x, log_densities_with_gaps(x, given), strict=True):
        there = ~np.isnan(row)
        if not there.any():
            assert told == 0.0
            continue
        marginal = stats.multivariate_normal(given.mean[there], given.covariance()[np.ix_(there, there)])
        assert_allclose(told, marginal.logpdf(row[there]), rtol=1e-9)
    assert_allclose(impute(x, given)[0], given.mean)


def test_gaps_that_hide_everything_are_refused() -> None:
    with pytest.raises(ValueError, match="column 1 holds only NaN, expected some numbers"):
        next(refine(Gaps.of(np.array([[1.0, np.nan], [2.0, np.nan]])), 1))
    with pytest.raises(ValueError, match="holds only NaN"):
        next(refine(Gaps.of(np.full((3, 2), np.nan)), 1))


# ── ways of guessing: all patterns at once, each by factors, each by covariances ──


def in_each_way(
    monkeypatch: pytest.MonkeyPatch, x: Array, weights: Array | None, given: Components
) -> list[Array]:
    """Rows filled, densities, expected covariance and log-likelihood, all in a row, for each way."""
    told = []
    for call, clear in ((np.inf, 1e-6), (0.0, 1e-6), (0.0, np.inf)):
        monkeypatch.setattr(gaps_module, "_SINGLE_COST", call)
        monkeypatch.setattr(gaps_module, "_MIN_RELATIVE_NOISE", clear)
        expected = ComponentsWithGaps(None).observe(Gaps.of(x, weights), given)
        sums, log_likelihood = expected.moments, expected.log_likelihood
        parts = (
            impute(x, given),
            log_densities_with_gaps(x, given),
            sums.mean,
            sums.covariance,
            [log_likelihood],
        )
        told.append(np.concatenate([np.ravel(part) for part in parts]))
    return told


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("patterns", [3, 80])
@pytest.mark.parametrize("weighed", [False, True])
def test_all_ways_of_imputing_agree(
    count: int, patterns: int, weighed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaps_module, "_CELLS", 7 * count * (9 + count))  # runs of seven rows
    x = low_rank(80, 9, 2)
    gone = np.random.default_rng(3).random((patterns, 9)) < 0.3
    x[gone[np.arange(80) % patterns]] = np.nan
    x[[4, 70]] = np.nan
    weights = 0.7 * np.random.default_rng(6).integers(0, 4, 80).astype(np.float64) if weighed else None
    together, by_factors, by_columns = in_each_way(monkeypatch, x, weights, fitted(low_rank(80, 9, 2), count))
    assert_allclose(together, by_factors, rtol=1e-10, atol=1e-11)
    assert_allclose(together, by_columns, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("call", [0.0, np.inf])
def test_without_noise_no_way_loses_what_was_seen(call: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise shrinks to its floor, on the way to which covariances take over from factors."""
    monkeypatch.setattr(gaps_module, "_SINGLE_COST", call)
    x = with_gaps(low_rank(150, 8, 2, noise=0.0), 0.15)
    steps = list(islice(refine(Gaps.of(x), 2), 300))
    told = np.array([step.objective for step in steps])
    assert (np.diff(told) > -1e-6 * np.abs(told[1:])).all()
    assert steps[-1].posterior.noise < 1e-6 * steps[-1].posterior.variances[0]
    assert_allclose(impute(x, steps[-1].posterior), low_rank(150, 8, 2, noise=0.0), atol=1e-2)


def test_many_patterns_are_solved_at_once_and_few_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is cheaper: the way not taken is never called."""
    x, given = low_rank(6000, 12, 2), fitted(low_rank(300, 12, 2), 2)
    few = np.where(np.arange(12) == np.arange(6000)[:, None] % 2, np.nan, x)
    for rows, other in ((few, "_impute_together"), (with_gaps(x), "_impute_pattern")):
        with monkeypatch.context() as patched:
            patched.delattr(gaps_module._Density, other)
            assert np.isfinite(impute(rows, given)).all()
