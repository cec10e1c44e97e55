"""Mixtures: components are found, at any mean and of any family, and nothing collapses in silence."""

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis.arrays import Array
from tamis.estimators import Mixture, load
from tamis.models.generative.gaussian_vectors import Covariance

COVARIANCES: tuple[Covariance, ...] = ("full", "tied", "diag", "spherical")
each_covariance = pytest.mark.parametrize("covariance", COVARIANCES)
MEANS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 12.0]])
FAMILIES = {"size": "gaussian", "colour": "categorical", "visits": "poisson"}


def blobs(n: int = 600, seed: int = 0, means: Array = MEANS) -> tuple[Array, NDArray[np.int64]]:
    """Round Gaussians far apart; numbers that 1e8 can be added to exactly."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % len(means)
    rows = means[group] + rng.normal(size=(n, means.shape[1]))
    return np.round(rows * 2.0**20) / 2.0**20, group


def frame(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """A number, a category and a count of two components; a tenth of each is missing."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    size = rng.normal(5.0 * group, 1.0)
    colour = pd.Series(np.where(rng.random(n) < 0.8, np.array(["red", "blue"])[group], "green"), dtype=object)
    visits = pd.Series(rng.poisson(np.array([2.0, 9.0])[group])).astype("Int64")
    gaps = rng.random((n, 3)) < 0.1
    size[gaps[:, 0]], colour[gaps[:, 1]], visits[gaps[:, 2]] = np.nan, None, None
    return pd.DataFrame({"size": size, "colour": colour.astype("category"), "visits": visits}), group


def agreement(found: Any, truth: Any) -> float:
    """The share of rows whose component is the commonest of their group."""
    table = np.zeros((np.max(truth) + 1, np.max(found) + 1))
    np.add.at(table, (truth, found), 1)
    return float(table.max(axis=1).sum() / len(truth))


@parametrize_with_checks([Mixture()])  # type: ignore[untyped-decorator]  # scikit-learn has no types
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


# What is found


@each_covariance
def test_known_components_are_found(covariance: Covariance) -> None:
    rows, group = blobs()
    model = Mixture(3, covariance=covariance, random_state=0, n_init=3).fit(rows)
    order = np.argsort(model.means_ @ [1.0, 2.0])
    assert_allclose(model.means_[order], MEANS, atol=0.35)
    assert_allclose(model.weights_, 1 / 3, atol=0.02)
    assert agreement(model.predict(rows), group) > 0.99
    assert model.converged_
    assert_allclose(np.exp(model.predict_log_proba(rows)).sum(axis=1), 1.0)


@each_covariance
def test_the_likelihood_is_that_of_scikit_learns(covariance: Covariance) -> None:
    rows, _ = blobs(450, seed=1)
    ours = Mixture(3, covariance=covariance, estimate="mle", n_init=5, tol=1e-9, max_iter=500, random_state=0)
    theirs = GaussianMixture(
        3, covariance_type=covariance, reg_covar=0.0, n_init=5, tol=1e-9, max_iter=500, random_state=0
    )
    assert ours.fit(rows).score(rows) == pytest.approx(theirs.fit(rows).score(rows), rel=1e-6)
    assert ours.bic(rows) == pytest.approx(theirs.bic(rows), rel=1e-6)
    assert ours.aic(rows) == pytest.approx(theirs.aic(rows), rel=1e-6)


def test_a_frame_of_all_kinds_with_gaps_is_shared_out() -> None:
    table, group = frame()
    model = Mixture(2, families=FAMILIES, random_state=0, n_init=3).fit(table)
    assert agreement(model.predict(table), group) > 0.97
    assert_allclose(np.sort(model.means_.ravel()), [0.0, 5.0], atol=0.3)
    assert model.n_parameters_ == 1 + 2 * (2 + 2 + 1)
    drawn, named = model.sample(50, random_state=0)
    assert list(drawn.columns) == list(table.columns)
    assert set(drawn["colour"]) <= {"red", "green", "blue"}
    assert set(named) <= {0, 1}
    before = model.statistic_
    part = table.iloc[:20]
    model.partial_fit(part).unlearn(part)
    assert_allclose(model.class_count_.sum(), before["classes"].total.value.sum())


def test_rows_of_all_kinds_can_be_unlearned_whatever_rounding_did() -> None:
    for seed in range(4):  # the weight of a component is summed in each block in an order of its own
        table, _ = frame(120, seed)
        model = Mixture(2, families=FAMILIES, random_state=0).fit(table).unlearn(table.iloc[:20])
        assert model.class_count_.sum() == pytest.approx(100.0)


@each_covariance
def test_a_weight_is_a_row_that_often(covariance: Covariance) -> None:
    rows, _ = blobs(90, seed=2)
    times = np.random.default_rng(3).integers(1, 4, 90)
    weighted = Mixture(3, covariance=covariance, random_state=0).fit(rows, sample_weight=times)
    repeated = Mixture(3, covariance=covariance, random_state=0).fit(rows.repeat(times, axis=0))
    places = [np.argsort(model.means_ @ [1.0, 2.0]) for model in (weighted, repeated)]
    assert_allclose(weighted.means_[places[0]], repeated.means_[places[1]], rtol=1e-5, atol=1e-5)
    assert_allclose(weighted.weights_[places[0]], repeated.weights_[places[1]], rtol=1e-6)
    assert weighted.class_count_.sum() == pytest.approx(times.sum())
    none = Mixture(3, covariance=covariance, random_state=0).fit(
        rows, sample_weight=(times > 1).astype(float)
    )
    kept = Mixture(3, covariance=covariance, random_state=0).fit(rows[times > 1])
    assert none.statistic_ == kept.statistic_


def test_hard_spheres_are_k_means() -> None:
    rows, _ = blobs(600, seed=4, means=np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]]))
    model = Mixture(4, hard=True, covariance="spherical", estimate="mle", n_init=3, random_state=0).fit(rows)
    inertia = np.square(rows - model.means_[model.predict(rows)]).sum()
    theirs = KMeans(4, n_init=3, random_state=0).fit(rows)
    assert inertia == pytest.approx(theirs.inertia_, rel=0.01)
    assert agreement(model.predict(rows), theirs.labels_) > 0.98
    assert_allclose(model.class_count_, np.bincount(model.predict(rows)), atol=6.0)


@each_covariance
def test_a_row_that_repeats_is_no_trap_with_a_prior(covariance: Covariance) -> None:
    rows = np.concatenate([blobs(100, seed=5, means=MEANS[:1])[0], np.full((40, 2), 20.0)])
    model = Mixture(2, covariance=covariance, random_state=0).fit(rows)
    assert np.isfinite(model.score(rows))
    found = model.covariances_
    assert (found.min() if covariance in ("diag", "spherical") else np.linalg.eigvalsh(found).min()) > 1e-3
    assert agreement(model.predict(rows), np.repeat([0, 1], [100, 40])) == 1.0


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_without_a_prior_a_collapse_is_told(covariance: Covariance) -> None:
    rows = np.concatenate([blobs(100, seed=5, means=MEANS[:1])[0], np.full((40, 2), 20.3)])
    with pytest.raises(ValueError, match=r"expected (all|variances) above zero: set ") as caught:
        Mixture(2, covariance=covariance, estimate="mle", random_state=0).fit(rows)
    assert "\n" not in str(caught.value)
    mended = Mixture(2, covariance=covariance, estimate="mle", reg_covar=1e-3, random_state=0).fit(rows)
    assert np.isfinite(mended.score(rows))


@each_covariance
def test_schwarzs_criterion_finds_how_many_there_are(covariance: Covariance) -> None:
    rows, _ = blobs(600, seed=6)
    found = {
        k: Mixture(k, covariance=covariance, estimate="mle", reg_covar=1e-6, n_init=3, random_state=0).fit(
            rows
        )
        for k in (1, 2, 3, 4)
    }
    assert min(found, key=lambda k: found[k].bic(rows)) == 3
    assert found[3].aic(rows) < found[2].aic(rows)


# What EM promises


@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_the_bound_touches_the_likelihood_at_the_model_itself() -> None:
    rows, _ = blobs(150, seed=7, means=MEANS / 4.0)
    one, other = (
        Mixture(3, estimate="mle", max_iter=steps, tol=-np.inf, random_state=0).fit(rows) for steps in (1, 6)
    )
    total = float(one.score_samples(rows).sum())
    assert one.lower_bound(rows) == pytest.approx(total, rel=1e-12)
    assert one.lower_bound(rows, given=one) == pytest.approx(total, rel=1e-12)
    assert one.lower_bound(rows, given=other) < total
    assert other.lower_bound(rows, given=one) < other.score_samples(rows).sum()
    with pytest.raises(ValueError, match="expected the same classes"):
        one.lower_bound(rows, given=Mixture(2, random_state=0).fit(rows))


def test_scores_are_sums_over_components() -> None:
    rows, _ = blobs(90, seed=8)
    model = Mixture(3, random_state=0).fit(rows)
    joint = model.predict_joint_log_proba(rows)
    assert_allclose(model.score_samples(rows), np.logaddexp.reduce(joint, axis=1), rtol=1e-12)
    assert model.score(rows) == pytest.approx(model.score_samples(rows).mean(), rel=1e-12)
    weights = np.arange(90.0)
    expected = np.average(model.score_samples(rows), weights=weights)
    assert model.score(rows, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
    assert_array_equal(model.predict(rows), joint.argmax(axis=1))
    assert_array_equal(Mixture(3, random_state=0).fit_predict(rows), model.predict(rows))


@pytest.mark.filterwarnings("ignore:EM did not converge")
@each_covariance
def test_the_likelihood_never_falls(covariance: Covariance) -> None:
    rows, _ = blobs(300, seed=9, means=MEANS / 4.0)
    model = Mixture(3, covariance=covariance, estimate="mle", tol=0.0, max_iter=60, random_state=1).fit(rows)
    rises = np.diff(model.log_likelihoods_)
    assert len(model.log_likelihoods_) == model.n_iter_ > 5
    assert (rises >= -1e-10 * np.abs(model.log_likelihoods_[1:])).all()


def test_more_starts_come_at_least_as_far() -> None:
    rows, _ = blobs(300, seed=10, means=np.random.default_rng(0).normal(0.0, 4.0, (6, 2)))
    scores = [
        [Mixture(6, n_init=n, random_state=seed, tol=1e-5).fit(rows).score(rows) for seed in range(4)]
        for n in (1, 8)
    ]
    assert np.mean(scores[1]) >= np.mean(scores[0])


@pytest.mark.filterwarnings("ignore:EM did not converge")
@each_covariance
def test_a_seed_gives_every_bit_on_any_number_of_threads(
    covariance: Covariance, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = blobs(5001, seed=11, means=MEANS / 4.0)
    found = []
    for lanes in (1, 1, 2, 3):
        monkeypatch.setattr("tamis.threads.count_chunks", lambda _, lanes=lanes: lanes)
        found.append(
            Mixture(3, covariance=covariance, max_iter=5, tol=0.0, random_state=4, n_init=2).fit(rows)
        )
    for other in found[1:]:
        assert other.statistic_ == found[0].statistic_
        assert_array_equal(
            other.predict_joint_log_proba(rows[:50]), found[0].predict_joint_log_proba(rows[:50])
        )


@each_covariance
def test_a_mean_of_a_hundred_million_costs_nothing(covariance: Covariance) -> None:
    rows, _ = blobs(300, seed=12, means=4.0 * MEANS)
    for estimate in ("map", "mle"):
        near, far = (
            Mixture(3, covariance=covariance, estimate=estimate, random_state=0).fit(rows + shift)
            for shift in (0.0, 1e8)
        )
        spread = float(np.abs(near.covariances_).max())
        assert_allclose(far.covariances_, near.covariances_, rtol=1e-9, atol=1e-9 * spread)
    if covariance in ("diag", "spherical"):
        with pytest.raises(ValueError, match="ill-defined empirical covariance"):
            GaussianMixture(3, covariance_type=covariance, random_state=0).fit(rows + 1e8)


# Learning on


def test_more_rows_are_shared_as_the_components_are() -> None:
    rows, _ = blobs(300, seed=13)
    new, _ = blobs(60, seed=14)
    model = Mixture(3, random_state=0).fit(rows)
    before, shares = copy.deepcopy(model), model.predict_proba(new)
    model.partial_fit(new)
    assert_allclose(model.class_count_, before.class_count_ + shares.sum(axis=0), rtol=1e-10)
    found: Any = model.statistic_["gaussian"]
    start: Any = before.statistic_["gaussian"]
    assert_allclose(found.first.value, start.first.value + shares.T @ new, rtol=1e-9, atol=1e-7)
    model.unlearn(new)  # shares have hardly moved
    assert_allclose(model.means_, before.means_, atol=1e-3)
    assert_allclose(model.class_count_, before.class_count_, atol=1e-2)
    assert Mixture(3, random_state=0).partial_fit(rows).statistic_ == before.statistic_


def test_mixtures_that_began_as_one_can_be_merged() -> None:
    rows, _ = blobs(300, seed=13)
    start = Mixture(3, random_state=0).fit(rows)
    one, other = copy.deepcopy(start), copy.deepcopy(start)
    one.partial_fit(rows[:50]).merge(other)
    assert_allclose(one.class_count_.sum(), 650.0)
    assert_allclose(one.means_, start.means_, atol=0.2)
    with pytest.raises(ValueError, match="n_components=2, expected 3"):
        one.merge(Mixture(2, random_state=0).fit(rows))
    assert_allclose(one.class_count_.sum(), 650.0)


def test_decay_fades_the_past_and_moves_no_mean() -> None:
    rows, _ = blobs(300, seed=13)
    model = Mixture(3, estimate="mle", random_state=0).fit(rows)
    means, counts = model.means_, model.class_count_
    assert_allclose(model.decay(0.25).class_count_, 0.25 * counts)
    assert_allclose(model.means_, means, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="factor=0"):
        model.decay(0.0)


def test_more_than_was_learned_is_not_unlearned() -> None:
    rows, _ = blobs(90, seed=13)
    model = Mixture(3, random_state=0).fit(rows)
    before = model.statistic_
    for gone in (rows, np.concatenate([rows, rows])):
        with pytest.raises(ValueError, match="nothing was changed") as caught:
            model.unlearn(gone)
        assert "\n" not in str(caught.value)
        assert model.statistic_ == before


def test_a_saved_mixture_goes_on(tmp_path: Any) -> None:
    table, _ = frame()
    model = Mixture(2, families=FAMILIES, random_state=0).fit(table)
    model.save(tmp_path / "mixture.tamis")
    back = load(tmp_path / "mixture.tamis")
    assert back.statistic_ == model.statistic_
    assert_array_equal(back.log_likelihoods_, model.log_likelihoods_)
    assert back.converged_ == model.converged_
    assert_array_equal(back.score_samples(table), model.score_samples(table))
    assert back.partial_fit(table[:9]).statistic_ == model.partial_fit(table[:9]).statistic_


def test_held_out_rows_tell_how_many_components_there_are() -> None:
    rows, _ = blobs(150, seed=15)
    found = [Mixture(k, random_state=0, n_init=2).cross_validate(rows, folds=3).mean() for k in (1, 3)]
    assert found[1] > found[0]


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_components": 11}, "n_samples=10 rows for n_components=11, expected one per component"),
        ({"n_components": 0}, "n_components=0, expected a whole number"),
        ({"n_components": 1.5}, "n_components=1.5, expected a whole number"),
        ({"covariance": "round"}, "covariance='round', expected one of"),
        ({"families": "normal"}, "'normal' for 'families', expected one of"),
        ({"families": {7: "gaussian"}}, "a column 7, which the data does not have"),
        ({"estimate": "best"}, "estimate='best', expected one of"),
        ({"max_iter": 0}, "max_iter=0, expected a whole number of at least 1"),
        ({"n_init": 0}, "n_init=0, expected a whole number of at least 1"),
        ({"alpha": -1.0}, "alpha=-1.0, expected a finite number of at least 0"),
        ({"weight_alpha": -1.0}, "weight_alpha=-1.0, expected"),
        ({"reg_covar": -1.0, "estimate": "mle"}, "reg_covar=-1.0, expected"),
        ({"reg_covar": 1e-6}, "reg_covar=1e-06 with estimate='map', expected 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(params: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        Mixture(**params).fit(blobs(10)[0])
    assert "\n" not in str(caught.value)


def test_a_mixture_has_no_evidence() -> None:
    model = Mixture(2, random_state=0).fit(blobs(30)[0])
    with pytest.raises(AttributeError, match="no evidence in closed form"):
        _ = model.log_evidence_
    counts = Mixture(2, families="poisson", random_state=0).fit(np.arange(20).reshape(10, 2))
    with pytest.raises(AttributeError, match="means_ needs Gaussian columns"):
        _ = counts.means_
