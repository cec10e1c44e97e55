"""Rows F1–F5 and I1 of the lectures, through the faces: EM, and the classifier that no rule beats."""

import copy
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import stats

from tamis.arrays import Array
from tamis.estimators import GaussianDiscriminant, GaussianNB, Mixture

pytestmark = pytest.mark.filterwarnings("ignore:EM did not converge")  # runs of a few steps, on purpose

SHARES = np.array([0.3, 0.7])
MEANS = np.array([[0.0, 0.0], [3.0, 2.0]])
ROOTS = np.array([[[1.0, 0.0], [0.5, 0.8]], [[0.7, 0.0], [-0.4, 1.2]]])
COVARIANCES = ROOTS @ ROOTS.transpose(0, 2, 1)


def drawn(n: int, seed: int = 0, means: Array = MEANS) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < SHARES[1]).astype(np.int64)
    return means[labels] + (ROOTS[labels] @ rng.normal(size=(n, 2, 1)))[..., 0], labels


def estimates(rows: Array, gamma: Array) -> tuple[Array, Array, Array]:
    """The one formula: π_k = Σγ/n, μ_k = Σγx/Σγ, Σ_k = Σγ(x−μ)(x−μ)ᵀ/Σγ."""
    weight = gamma.sum(axis=0)
    means = gamma.T @ rows / weight[:, None]
    apart = rows[:, None] - means
    return (
        weight / len(rows),
        means,
        np.einsum("nk,nki,nkj->kij", gamma, apart, apart) / weight[:, None, None],
    )


def test_f1_with_labels_gamma_is_known() -> None:
    rows, labels = drawn(400)
    model = GaussianDiscriminant("full", estimate="mle").fit(rows, labels)
    shares, means, covariances = estimates(rows, np.eye(2)[labels])
    assert_allclose(np.exp(model.class_log_prior_), shares, rtol=1e-12)
    assert_allclose(model.means_, means, rtol=1e-12, atol=1e-12)
    assert_allclose(model.covariance_, covariances, rtol=1e-10, atol=1e-12)


def test_f1_without_labels_gamma_is_guessed_in_the_same_formula() -> None:
    rows, _ = drawn(400)
    before, after = (
        Mixture(2, estimate="mle", max_iter=steps, tol=-np.inf, random_state=0).fit(rows) for steps in (3, 4)
    )
    shares, means, covariances = estimates(rows, before.predict_proba(rows))
    assert_allclose(after.weights_, shares, rtol=1e-9)
    assert_allclose(after.means_, means, rtol=1e-8, atol=1e-9)
    assert_allclose(after.covariances_, covariances, rtol=1e-8, atol=1e-9)


def test_f1_some_labels_are_some_gammas() -> None:
    rows, labels = drawn(400)
    some = labels.astype(object)
    some[30:] = None
    known = GaussianDiscriminant("full", estimate="mle").fit(rows[:30], labels[:30])
    model = GaussianDiscriminant("full", estimate="mle", max_iter=1).fit(rows, some)
    gamma = np.concatenate([np.eye(2)[labels[:30]], known.predict_proba(rows[30:])])
    shares, means, covariances = estimates(rows, gamma)
    assert_allclose(np.exp(model.class_log_prior_), shares, rtol=1e-9)
    assert_allclose(model.means_, means, rtol=1e-8, atol=1e-9)
    assert_allclose(model.covariance_, covariances, rtol=1e-8, atol=1e-9)


def test_f2_a_mixture_finds_the_gaussians_that_rows_were_drawn_from() -> None:
    rows, labels = drawn(4000, means=2.0 * MEANS)
    model = Mixture(2, estimate="mle", tol=1e-8, max_iter=500, n_init=3, random_state=0).fit(rows)
    order = np.argsort(model.means_[:, 0])
    assert_allclose(model.weights_[order], SHARES, atol=0.03)
    assert_allclose(model.means_[order], 2.0 * MEANS, atol=0.1)
    assert_allclose(model.covariances_[order], COVARIANCES, atol=0.12)
    complete = GaussianDiscriminant("full", estimate="mle").fit(rows, labels)
    assert_allclose(model.means_[order], complete.means_, atol=0.02)  # little is lost with the labels


def test_f3_the_auxiliary_function_is_q_plus_entropy_and_touches_the_likelihood() -> None:
    rows, _ = drawn(200)
    old, new = (
        Mixture(2, estimate="mle", max_iter=steps, tol=-np.inf, random_state=1).fit(rows) for steps in (1, 2)
    )
    gamma = old.predict_proba(rows)
    q = (gamma * new.predict_joint_log_proba(rows)).sum()
    entropy = -(gamma * np.log(np.maximum(gamma, 1e-300))).sum()
    assert new.lower_bound(rows, given=old) == pytest.approx(q + entropy, rel=1e-12)
    likelihood = [float(model.score_samples(rows).sum()) for model in (old, new)]
    assert old.lower_bound(rows, given=old) == pytest.approx(likelihood[0], rel=1e-12)
    assert likelihood[0] < new.lower_bound(rows, given=old) < likelihood[1]


def test_f3_no_step_but_ems_raises_the_bound_as_far() -> None:
    rows, _ = drawn(200)
    old, new = (
        Mixture(2, estimate="mle", max_iter=steps, tol=-np.inf, random_state=1).fit(rows) for steps in (1, 2)
    )
    best = new.lower_bound(rows, given=old)
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = 1.0 + 0.2 * rng.standard_normal(200)
        other = copy.deepcopy(old)
        other.decay(1e-6).partial_fit(rows, sample_weight=np.maximum(weights, 0.1))
        assert other.lower_bound(rows, given=old) < best


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_f4_the_likelihood_never_falls_and_the_run_stops_by_its_rule(covariance: Any) -> None:
    rows, _ = drawn(500, means=0.6 * MEANS)
    model = Mixture(3, covariance=covariance, estimate="mle", tol=1e-5, max_iter=300, random_state=2).fit(
        rows
    )
    gains = np.diff(model.log_likelihoods_) / len(rows)
    assert (gains > -1e-12).all()
    assert model.converged_
    assert (gains[:-1] >= 1e-5).all()
    assert gains[-1] < 1e-5
    assert not Mixture(3, covariance=covariance, max_iter=2, tol=1e-9, random_state=2).fit(rows).converged_


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli", "categorical", "multinomial"])
def test_f5_any_family_can_be_mixed(family: str) -> None:
    rng = np.random.default_rng(3)
    truth = (rng.random(1500) < 0.6).astype(np.int64)
    high = truth[:, None] == np.array([0, 1, 0, 1, 0, 1])
    rows = {
        "gaussian": rng.normal(np.where(high, 2.5, 0.0)),
        "poisson": rng.poisson(np.where(high, 6.0, 1.0)),
        "bernoulli": rng.random(high.shape) < np.where(high, 0.9, 0.1),
        "categorical": np.where(high, 0, 2) + rng.integers(0, 3, high.shape),
        "multinomial": rng.poisson(np.where(high, 6.0, 1.0)),
    }[family]
    model = Mixture(2, families=family, estimate="mle", covariance="diag", n_init=3, tol=1e-7, random_state=0)
    model.fit(rows.astype(np.float64))
    assert (np.diff(model.log_likelihoods_) > -1e-7).all()
    named = model.predict(rows.astype(np.float64))
    assert max((named == truth).mean(), (named != truth).mean()) > 0.97
    assert_allclose(np.sort(model.weights_), [0.4, 0.6], atol=0.04)


def test_i1_with_the_true_model_no_rule_has_a_lower_risk() -> None:
    rows, labels = drawn(200_000, seed=5, means=0.6 * MEANS)
    truth = [stats.multivariate_normal(0.6 * MEANS[k], COVARIANCES[k]) for k in (0, 1)]
    odds = np.log(SHARES[1] / SHARES[0]) + truth[1].logpdf(rows) - truth[0].logpdf(rows)

    def risk(rule: NDArray[np.bool_]) -> float:
        return float((rule != (labels == 1)).mean())

    bayes = risk(odds > 0)
    error = 3.0 * np.sqrt(0.25 / len(rows))  # of a difference of two risks, at most
    chance = 1.0 / (1.0 + np.exp(np.abs(odds)))
    assert bayes == pytest.approx(chance.mean(), abs=error)  # the risk is the mean chance of the other class
    train, known = drawn(2000, seed=6, means=0.6 * MEANS)
    rivals: list[NDArray[np.bool_]] = [odds > shift for shift in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)]
    rng = np.random.default_rng(7)
    rivals += [rows @ rng.normal(size=2) > rng.normal() for _ in range(50)]
    rivals += [np.zeros(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)]
    for rival in (GaussianDiscriminant("tied"), GaussianNB(), GaussianDiscriminant("spherical")):
        rivals.append(rival.fit(train, known).predict(rows) == 1)
    assert min(map(risk, rivals)) > bayes - error
    fitted = GaussianDiscriminant("full").fit(*drawn(20_000, seed=8, means=0.6 * MEANS))
    assert risk(fitted.predict(rows) == 1) == pytest.approx(bayes, abs=error)


def test_i1_row_by_row_the_likeliest_class_errs_least() -> None:
    rows, labels = drawn(500)
    model = GaussianDiscriminant("full").fit(rows, labels)
    p = model.predict_proba(rows)
    losses = 1.0 - p  # expected 0/1 loss of each answer
    chosen = model.predict(rows)
    assert_allclose(losses[np.arange(500), chosen], losses.min(axis=1))
    assert model.decide(rows).tolist() == chosen.tolist()
