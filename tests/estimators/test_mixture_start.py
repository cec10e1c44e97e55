"""Where EM starts: what a user gives is used, as in scikit-learn, and nonsense is refused in one line."""

import copy
import inspect
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.mixture import GaussianMixture

from tamis.estimators import Mixture, load
from tamis.models.generative.em import METHODS
from tamis.models.generative.gaussian_vectors import Covariance
from tests.estimators.test_mixture import FAMILIES, MEANS, blobs, each_covariance, frame

unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
WEIGHTS = np.array([0.5, 0.3, 0.2])


def precisions(covariance: Covariance, seed: int = 0) -> Any:
    """Positive definite precisions of three components in two dimensions, none like another."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(3, 2, 2))
    full = roots @ np.swapaxes(roots, 1, 2) + 0.2 * np.eye(2)
    return {
        "full": full,
        "tied": full[0],
        "diag": full[:, [0, 1], [0, 1]],
        "spherical": full[:, 0, 0],
    }[covariance]


@unfinished
@each_covariance
@pytest.mark.parametrize("steps", [1, 4])
def test_from_the_same_start_every_step_is_that_of_scikit_learn(covariance: Covariance, steps: int) -> None:
    rows, _ = blobs(200, seed=1, means=MEANS / 4.0)
    given: dict[str, Any] = {
        "weights_init": WEIGHTS,
        "means_init": MEANS / 3.0 + 0.5,
        "precisions_init": precisions(covariance),
        "reg_covar": 1e-3,
        "max_iter": steps,
        "tol": 0.0,
    }
    ours = Mixture(3, covariance=covariance, estimate="mle", **given).fit(rows)
    theirs = GaussianMixture(3, covariance_type=covariance, **given).fit(rows)
    names = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_", "lower_bounds_")
    for name in names:
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-10, err_msg=name)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=1e-10)
    assert (ours.n_iter_, ours.converged_, ours.n_features_in_) == (steps, False, 2)
    assert_allclose(ours.predict_proba(rows), theirs.predict_proba(rows), atol=1e-7)
    assert ours.aic(rows) == pytest.approx(theirs.aic(rows), rel=1e-9)
    assert ours.bic(rows) == pytest.approx(theirs.bic(rows), rel=1e-9)


def test_all_that_scikit_learns_mixture_has_is_here_or_is_documented() -> None:
    rows, _ = blobs(60)
    ours, theirs = Mixture(2, random_state=0).fit(rows), GaussianMixture(2, random_state=0).fit(rows)
    public = {name for name in dir(theirs) if not name.startswith("_")}
    parameters = set(inspect.signature(GaussianMixture).parameters)
    # `covariance` is the name of all of tamis; a bar has no interval (docs/howto/from-scikit-learn.md)
    renamed = {"covariance_type", "verbose_interval"}
    assert {name for name in public - renamed if not hasattr(ours, name)} == set()
    assert parameters - set(inspect.signature(Mixture).parameters) == renamed


@each_covariance
def test_precisions_are_the_inverse_of_covariances(covariance: Covariance) -> None:
    rows, _ = blobs(300, seed=2)
    for estimate in ("mle", "map", "mean", "predictive"):
        model = Mixture(3, covariance=covariance, estimate=estimate, random_state=0).fit(rows)
        covariances, roots = model.covariances_, model.precisions_cholesky_
        assert model.precisions_.shape == covariances.shape == roots.shape
        if covariances.shape[-2:] == (2, 2):
            assert_allclose(
                model.precisions_ @ covariances, np.broadcast_to(np.eye(2), covariances.shape), atol=1e-9
            )
            assert_allclose(roots @ np.swapaxes(roots, -1, -2), model.precisions_, rtol=1e-9, atol=1e-12)
            assert_array_equal(np.tril(roots, -1), 0.0)
        else:
            assert_allclose(model.precisions_ * covariances, 1.0)
            assert_allclose(np.square(roots), model.precisions_)


@pytest.mark.parametrize("method", METHODS)
def test_every_way_to_start_finds_the_components(method: Any) -> None:
    rows, _ = blobs(300, seed=3)
    model = Mixture(3, init_params=method, n_init=8, random_state=0, tol=1e-6, max_iter=2000).fit(rows)
    assert_allclose(model.means_[np.argsort(model.means_ @ [1.0, 2.0])], MEANS, atol=0.35)
    table, _ = frame(200, 1)
    mixed = Mixture(2, families=FAMILIES, init_params=method, random_state=0, max_iter=1000).fit(table)
    assert np.isfinite(mixed.score(table))


@unfinished
def test_the_ways_to_start_differ() -> None:
    rows, _ = blobs(300, seed=3, means=MEANS / 4.0)
    firsts = {
        method: Mixture(3, init_params=method, random_state=1, max_iter=1).fit(rows).lower_bound_
        for method in METHODS
    }
    assert len(set(firsts.values())) == len(METHODS)
    assert firsts["kmeans"] > firsts["random"]


@unfinished
def test_means_that_are_given_keep_their_order() -> None:
    rows, _ = blobs(300, seed=4)
    for order in ([0, 1, 2], [2, 0, 1]):
        model = Mixture(3, means_init=MEANS[order]).fit(rows)
        assert_allclose(model.means_, MEANS[order], atol=0.35)
    table, group = frame(300, 2)  # the rows nearest to each mean say what its other columns are like
    mixed = Mixture(2, families=FAMILIES, means_init=[[5.0], [0.0]], random_state=0).fit(table)
    assert_allclose(mixed.means_.ravel(), [5.0, 0.0], atol=0.3)
    assert (mixed.predict(table) == 1 - group).mean() > 0.97


@unfinished
def test_weights_that_are_given_are_the_first_weights() -> None:
    counts = np.random.default_rng(0).poisson([[2.0, 9.0]] * 50 + [[9.0, 2.0]] * 50)
    bounds = []
    for weights in ([0.5, 0.5], [0.999, 0.001]):
        model = Mixture(2, families="poisson", weights_init=weights, random_state=0, max_iter=1).fit(counts)
        bounds.append(model.lower_bound_)
    assert bounds[0] > bounds[1] + 1.0


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"weights_init": [[0.5], [0.5]]}, r"weights_init of shape \(2, 1\), expected \(2,\)"),
        ({"weights_init": [1.5, -0.5]}, "weights_init holds -0.5, expected probabilities"),
        ({"weights_init": [0.5, 0.4]}, "weights_init sums to 0.9, expected 1"),
        ({"weights_init": [0.5, np.nan]}, "weights_init holds nan, expected finite"),
        ({"means_init": np.zeros((3, 2))}, r"means_init of shape \(3, 2\), expected \(2, 2\)"),
        ({"means_init": [[0.0, np.inf], [0.0, 1.0]]}, "means_init holds inf, expected finite"),
        ({"precisions_init": np.ones((2, 2))}, r"precisions_init of shape \(2, 2\), expected \(2, 2, 2\)"),
        ({"precisions_init": -np.ones(2), "covariance": "spherical"}, "precisions_init holds -1, expected"),
        ({"precisions_init": np.ones((3, 2)), "covariance": "diag"}, r"expected \(2, 2\)"),
        (
            {"precisions_init": [[1.0, 2.0], [2.0, 1.0]], "covariance": "tied"},
            "precisions_init has eigenvalue -1",
        ),
        ({"precisions_init": [[1.0, 0.5], [0.0, 1.0]], "covariance": "tied"}, "not symmetric"),
        ({"init_params": "k-means"}, "init_params='k-means', expected one of 'kmeans'"),
        ({"means_init": np.zeros((2, 2)), "families": "poisson"}, "means_init for columns none of which is"),
        (
            {"precisions_init": np.ones(2), "estimate": "predictive"},
            "precisions_init with estimate='predictive'",
        ),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(params: dict[str, Any], match: str) -> None:
    model = Mixture(2, **params)
    with pytest.raises(ValueError, match=match) as caught:
        model.fit(np.round(np.abs(blobs(20)[0])))
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "means_")


@unfinished
def test_a_warm_start_goes_on_where_the_last_fit_ended() -> None:
    rows, _ = blobs(300, seed=5, means=MEANS / 4.0)
    cold = Mixture(3, max_iter=6, tol=0.0, random_state=0).fit(rows)
    warm = Mixture(3, max_iter=2, tol=0.0, random_state=0, warm_start=True)
    bounds = [bound for _ in range(3) for bound in warm.fit(rows).lower_bounds_]
    assert_allclose(bounds, cold.lower_bounds_, rtol=1e-12)
    assert_allclose(warm.means_, cold.means_, rtol=1e-9, atol=1e-9)
    one = Mixture(3, max_iter=1, tol=1e-6, random_state=0, warm_start=True)
    assert any(one.fit(rows).converged_ for _ in range(2000))  # steps of one fit are compared with the last's


@unfinished
def test_a_warm_start_takes_what_it_can_go_on_with_and_refuses_the_rest() -> None:
    rows, _ = blobs(90, seed=6)
    model = Mixture(3, warm_start=True, random_state=0).fit(rows)
    before = copy.deepcopy(model)
    for change in ({"n_components": 2}, {"covariance": "diag"}):
        other = copy.deepcopy(model).set_params(**change)
        with pytest.raises(ValueError, match="warm_start=True with other parameters") as caught:
            other.fit(rows)
        assert "\n" not in str(caught.value)
        assert other.statistic_ == before.statistic_
    with pytest.raises(ValueError, match="2"):
        model.fit(rows[:, :1])
    assert model.statistic_ == before.statistic_
    assert model.fit(rows[:50]).class_count_.sum() == pytest.approx(50.0)
    assert not hasattr(clone(model), "means_")


def test_a_start_is_saved_with_its_model(tmp_path: Any) -> None:
    rows, _ = blobs(90, seed=6)
    model = Mixture(
        3, weights_init=WEIGHTS, means_init=MEANS.tolist(), precisions_init=precisions("full")
    ).fit(rows)
    model.save(tmp_path / "mixture.tamis")
    back = load(tmp_path / "mixture.tamis")
    assert_array_equal(back.weights_init, WEIGHTS)
    assert_array_equal(back.lower_bounds_, model.lower_bounds_)
    assert (back.n_iter_, back.converged_, back.lower_bound_) == (model.n_iter_, True, model.lower_bound_)
    assert_array_equal(back.fit(rows).means_, model.means_)


def test_draws_follow_the_models_own_random_state() -> None:
    rows, _ = blobs(90, seed=6)
    model = Mixture(3, random_state=0).fit(rows)
    assert_array_equal(model.sample(5)[0], model.sample(5)[0])
    assert not np.array_equal(model.sample(5)[0], model.sample(5, random_state=1)[0])


@pytest.mark.parametrize("hard", [False, True])
def test_the_best_of_several_runs_has_the_largest_last_bound(hard: bool) -> None:
    rows, _ = blobs(200, seed=10, means=np.random.default_rng(0).normal(0.0, 4.0, (5, 2)))
    params: dict[str, Any] = {"covariance": "spherical", "hard": hard, "tol": 1e-6, "max_iter": 1000}
    best = Mixture(5, n_init=4, random_state=np.random.default_rng(7), **params).fit(rows)
    rng = np.random.default_rng(7)
    bounds = [Mixture(5, random_state=rng, **params).fit(rows).lower_bound_ for _ in range(4)]
    assert len(set(bounds)) > 1
    assert best.lower_bound_ == max(bounds)
