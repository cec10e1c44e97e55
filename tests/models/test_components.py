"""Principal components: the SVD from sums of products, and a Gaussian with a density."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn import decomposition

from tamis.arrays import Array
from tamis.models.components import (
    PrincipalComponents,
    cross_validate,
    decompose,
    decompose_randomized,
    decompose_rows,
)
from tamis.stats import Moments
from tamis.tables import Table
from tests.models.component_rows import drawn, fitted, low_rank


def by_svd(x: Array) -> tuple[Array, Array]:
    """Variances and directions of centred rows, with scikit-learn's signs."""
    exact = x.astype(np.longdouble)
    centred = (exact - exact.mean(axis=0)).astype(np.float64)
    _, s, v = np.linalg.svd(centred, full_matrices=False)
    largest = np.abs(v).argmax(axis=1)
    return s**2 / (len(x) - 1), v * np.sign(v[np.arange(len(v)), largest])[:, None]


@pytest.mark.parametrize("mean", [0.0, 1e4, 1e8])
def test_components_are_those_of_the_svd_at_any_mean(mean: float) -> None:
    x = drawn(mean=mean)
    found, (variances, directions) = fitted(x), by_svd(x)
    assert_allclose(found.variances, variances, rtol=1e-10)
    assert_allclose(found.directions, directions, atol=1e-10)
    assert_allclose(found.mean, x.mean(axis=0), rtol=1e-13)
    assert_allclose(found.total, variances.sum())
    assert_allclose(found.directions @ found.directions.T, np.eye(8), atol=1e-13)


def test_columns_in_units_far_apart_keep_their_variances() -> None:
    x = np.random.default_rng(1).normal(size=(400, 3)) * [1e7, 1.0, 1e-6]
    assert_allclose(fitted(x).variances, by_svd(x)[0], rtol=1e-9)


def test_variances_that_the_products_lose_are_zero_and_never_below() -> None:
    x = drawn(50, 3)
    x = np.column_stack([x, x[:, 0] + x[:, 1], np.full(50, 7.0)])
    found = fitted(x)
    assert_allclose(found.variances[3:], 0.0)
    assert fitted(x, 3).noise == 0.0
    assert_allclose(found.directions @ found.directions.T, np.eye(5), atol=1e-12)
    assert fitted(x, 4).noise >= 0.0


def test_the_gaussian_is_scikit_learns() -> None:
    x, new = drawn(), drawn(40, seed=9)
    peer = decomposition.PCA(3, svd_solver="full").fit(x)
    found = fitted(x, 3)
    assert_allclose(found.noise, peer.noise_variance_)
    assert_allclose(found.log_densities(new), peer.score_samples(new))
    assert_allclose(found.covariance(), peer.get_covariance(), atol=1e-12)
    assert_allclose(found.precision(), peer.get_precision(), atol=1e-12)
    told = stats.multivariate_normal(found.mean, found.covariance()).logpdf(new)
    assert_allclose(found.log_densities(new), told)
    assert_allclose(found.log_likelihood(Moments.observe(new, form="full")), told.sum())


def test_small_noise_is_not_lost_in_the_likelihood() -> None:
    x = low_rank(200, 6, 2, noise=1e-5)
    found = fitted(x, 2)
    scale = 6 * np.log(2 * np.pi) + np.log(found.variances).sum() + 4 * np.log(found.noise)
    own = found.log_likelihood(Moments.observe(x, form="full"))
    assert_allclose(own, -0.5 * (200 * scale + 199 * 6), rtol=1e-12)  # sums of squares are freedom × variance
    assert_allclose(own, found.log_densities(x).sum(), rtol=1e-6)


def test_all_directions_are_the_whole_gaussian() -> None:
    x = drawn(200, 4)
    told = stats.multivariate_normal(x.mean(axis=0), np.cov(x.T)).logpdf(x)
    assert_allclose(fitted(x).log_densities(x), told)
    assert_allclose(fitted(x).precision() @ np.cov(x.T), np.eye(4), atol=1e-11)


def test_draws_have_the_covariance() -> None:
    found = fitted(low_rank(500, 5, 2), 2)
    rows = found.draw(np.random.default_rng(3), 100_000)
    assert_allclose(np.cov(rows.T), found.covariance(), atol=0.1)
    assert_allclose(rows.mean(axis=0), found.mean, atol=0.05)


def test_weights_are_repetition() -> None:
    x, times = drawn(60, 4), np.random.default_rng(2).integers(0, 4, 60)
    weighed, often = fitted(x, 2, times.astype(np.float64)), fitted(np.repeat(x, times, axis=0), 2)
    assert_allclose(weighed.variances, often.variances, rtol=1e-12)
    assert_allclose(weighed.directions, often.directions, atol=1e-12)
    assert weighed.weight == times.sum()


@pytest.mark.parametrize("kind", ["noise", "low rank", "no noise", "units", "few rows", "light"])
def test_few_directions_of_many_columns_are_those_of_all(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = low_rank(60 if kind == "few rows" else 500, 330, 12, noise=0.0 if kind == "no noise" else 0.3)
    count = 20 if kind == "no noise" else 5
    if kind == "noise":
        x = np.random.default_rng(1).normal(size=(500, 330)) * np.linspace(1.0, 2.0, 330)
        x[:, 7] = 3.0
    if kind == "units":
        x = x * np.logspace(-4, 4, 330)
    weights = np.full(500, 0.008) if kind == "light" else None
    found = fitted(x, count, weights)
    monkeypatch.setattr("tamis.models.components.model._MANY_COLUMNS", np.inf)
    slow, new = fitted(x, count, weights), low_rank(20, 330, 12, seed=3)
    assert_allclose(found.variances, slow.variances, rtol=1e-11, atol=1e-25)
    assert_allclose(found.noise, slow.noise, rtol=1e-10, atol=1e-25)
    assert_allclose(found.ratios, slow.ratios, rtol=1e-11, atol=1e-25)
    assert_allclose(found.directions @ found.directions.T, np.eye(count), atol=1e-12)
    if kind != "no noise":  # there, directions without variance may be any
        assert_allclose(found.directions, slow.directions, atol=1e-10)
        sums = Moments.observe(new, form="full")
        assert_allclose(found.log_likelihood(sums), slow.log_likelihood(sums), rtol=1e-10)


def test_few_directions_are_told_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tamis.models.components.model.spectrum")
    assert fitted(low_rank(500, 330, 12), 5).count == 5


# ── wide rows ──


@pytest.mark.parametrize("weighed", [False, True])
def test_products_of_rows_say_the_same(weighed: bool) -> None:
    x = drawn(30, 50, mean=1e6)
    weights = np.random.default_rng(4).random(30) + 0.5 if weighed else None
    sums = Moments.observe(x, weights, form="full")
    for k in (5, 20):
        wide, square = decompose_rows(Table.of(x), k, weights), decompose(sums, k)
        assert_allclose(wide.variances, square.variances, rtol=1e-9)
        assert_allclose(wide.directions, square.directions, atol=1e-8)
        assert_allclose(wide.noise, square.noise, rtol=1e-8)
        assert_allclose(wide.mean, square.mean)
    with pytest.raises(ValueError, match="got n_components='mle' with solver='rows'"):
        decompose_rows(Table.of(x), "mle")


def test_random_vectors_say_what_they_may_have_missed() -> None:
    x = low_rank(300, 400, 12, noise=0.2)
    variances, _ = by_svd(x)
    for seed in range(5):
        found = decompose_randomized(Table.of(x), 8, None, np.random.default_rng(seed))
        assert_allclose(found.variances, variances[:8], rtol=1e-6)
        left = x - x.mean(axis=0)
        left = left - (left @ found.directions.T) @ found.directions
        actual = np.linalg.norm(left, 2)
        assert actual <= found.error <= 1.6 * actual
        assert np.sqrt(variances[8] * 299) <= actual * (1 + 1e-12)
    with pytest.raises(ValueError, match=r"got n_components=0\.5 with solver='randomized', expected a whole"):
        decompose_randomized(Table.of(x), 0.5, None, np.random.default_rng(0))


@pytest.mark.parametrize("weighed", [False, True])
def test_the_variances_that_random_vectors_find_are_those_of_the_codes(weighed: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 80))  # a flat spectrum: the space is found roughly
    weights = rng.integers(1, 4, 200).astype(float) if weighed else None
    found = decompose_randomized(Table.of(x), 3, weights, rng)
    spread = np.cov(found.codes(x).T, fweights=None if weights is None else weights.astype(int))
    assert_allclose(spread, np.diag(found.variances), rtol=1e-10, atol=1e-12)


def test_random_vectors_that_miss_nothing_say_so() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2)) @ np.random.default_rng(1).normal(size=(2, 60))
    found = decompose_randomized(Table.of(x), 2, None, np.random.default_rng(0))
    assert found.error < 1e-5 * np.linalg.norm(x, 2)
    assert found.noise == 0.0


# ── sums and blocks that these share with others ──


def test_the_spread_is_the_scatters_diagonal() -> None:
    x, by = drawn(60, 4, mean=1e8), np.arange(60) % 3
    for sums in (Moments.observe(x, form="full"), Moments.observe(x, by=by, form="full")):
        assert_allclose(sums.spread, np.diagonal(sums.scatter, axis1=-2, axis2=-1), rtol=1e-12)
    assert_allclose(Moments.observe(x).spread, Moments.observe(x, form="full").spread, rtol=1e-12)


def test_blocks_are_the_rows() -> None:
    x, some = np.round(drawn(23, 4)), np.array([5, 0, 22, 7])
    for table, count in ((Table.of(x), 1), (Table.of(sparse.csr_array(x)), 8)):
        blocks = list(table.dense_runs(12))
        assert len(blocks) == count
        assert_allclose(np.concatenate([rows for _, rows in blocks]), x)
        for where in (slice(None), slice(3, 20, 2), some):
            for place, rows in table.dense_runs(12, where):
                assert_allclose(rows, x[place])
            assert_allclose(np.concatenate([rows for _, rows in table.dense_runs(12, where)]), x[where])


# ── rows held out ──


@pytest.mark.parametrize("folds", [4, 80])
def test_what_is_said_of_folds_is_what_models_of_the_others_say(folds: int) -> None:
    x = low_rank(80, 5, 2)
    weights = np.random.default_rng(8).random(80) + 0.5
    fold = np.arange(80) % folds
    held = cross_validate(PrincipalComponents(2), x, fold, weights)
    for one in range(folds):
        rows = fold == one
        model = fitted(x[~rows], 2, weights[~rows])
        assert_allclose(held.log_densities[rows], model.log_densities(x[rows]), rtol=1e-9)
        assert_allclose(held.errors[rows], np.square(model.residuals(x[rows])).sum(axis=1), rtol=1e-8)
        assert_allclose(held.spread[rows], np.square(x[rows] - model.mean).sum(axis=1), rtol=1e-10)
    assert 0.9 < held.explained < 1.0
    assert_allclose(held.mean_error, np.average(held.errors, weights=weights))
    assert_allclose(held.mean_log_density, np.average(held.log_densities, weights=weights))


def test_the_number_is_chosen_anew_for_each_fold() -> None:
    x = low_rank(200, 6, 2)
    held = cross_validate(PrincipalComponents("held-out"), x, np.arange(200) % 5)
    assert np.median(held.counts) == 2
    assert 1 < held.counts.min() <= held.counts.max() < 4
    flat = np.column_stack([x[:, :2], x[:, 0]])
    assert np.isnan(cross_validate(PrincipalComponents(2), flat, np.arange(200) % 5).log_densities).all()
    with pytest.raises(ValueError, match="got 200 folds with n_components='held-out', expected at most 64"):
        cross_validate(PrincipalComponents("held-out"), x, np.arange(200))
    with pytest.raises(ValueError, match="got 1 folds, expected at least 2"):
        cross_validate(PrincipalComponents(2), x, np.zeros(200, dtype=np.int64))
