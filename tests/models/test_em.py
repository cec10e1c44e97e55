"""Labels known, or missing in part or in whole: one model, and EM where they are missing (rows F1 to F5)."""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from tamis.models.generative import (
    BernoulliColumns,
    GaussianColumns,
    Generative,
    LabelledRows,
    PoissonColumns,
    Posterior,
    Responsibilities,
    em,
)
from tamis.models.generative.em import draw_row_numbers
from tamis.models.generative.gaussian_vectors import Covariance, GaussianVectors
from tamis.models.generative.model import observe_blocks
from tamis.protocols import Step
from tamis.stats import Joint, Labels
from tamis.tables import Table
from tests.models.mixtures import (
    COVARIANCES,
    FAMILIES,
    Floats,
    classes,
    close,
    clouds,
    gaussian,
    mixture,
    random_start,
    table_of_all,
    unlabelled,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(47)


# F1: complete and incomplete data


@pytest.mark.parametrize("family", FAMILIES)
def test_with_all_labels_em_is_the_classifier(family: str, rng: np.random.Generator) -> None:
    model = Generative(FAMILIES[family])
    rows = model.encode(Table.of(table_of_all(rng)))
    evidence = LabelledRows(rows, Labels.of(rng.choice(["ham", "spam"], len(rows))))
    classifier = model.observe(evidence)
    outcome = em.run(model, evidence, model.infer(classifier))
    assert outcome.statistic == classifier
    assert outcome.history.converged
    assert outcome.history.iterations == 2


def test_known_labels_are_never_doubted(rng: np.random.Generator) -> None:
    model = gaussian("full", 2)
    rows = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(1, 1, (60, 2))])
    labels = np.repeat([0, 1], [50, 60])
    group = np.where(rng.random(110) < 0.5, labels, -1)
    evidence = LabelledRows(model.encode(Table.of(rows)), Labels(classes(2), group))
    start = model.infer(model.observe(evidence.select_labelled()))
    step = next(em.steps(model, evidence, start))
    missing = evidence.select_unlabelled()
    assert missing is not None
    expected = model.observe(evidence.select_labelled()) + model.observe(missing, start)
    close(step.statistic["x"], expected["x"], 1e-12)  # type: ignore[arg-type]  # Moments
    assert step.objective == pytest.approx(em.log_likelihood(evidence, start), rel=1e-12)
    likelihoods = em.run(model, evidence, start, 30, 0.0).history.log_likelihoods
    assert (np.diff(likelihoods) > -1e-9).all()


def test_rows_without_labels_may_weigh_less(rng: np.random.Generator) -> None:
    data, group = clouds(rng, 200), np.where(rng.random(200) < 0.5, rng.integers(0, 3, 200), -1)
    light = Generative({"x": GaussianColumns(estimate="mle")}, classes=classes(3), unlabelled_weight=0.25)
    plain = mixture(3, x=GaussianColumns(estimate="mle"))
    evidence = LabelledRows(plain.encode(Table.of(data)), Labels(classes(3), group))
    weighted = LabelledRows(evidence.rows, evidence.labels, np.where(group < 0, 0.25, 1.0))
    start = plain.infer(plain.observe(evidence.select_labelled()))
    ours, theirs = em.run(light, evidence, start, 5, 0.0), em.run(plain, weighted, start, 5, 0.0)
    np.testing.assert_allclose(ours.history.log_likelihoods, theirs.history.log_likelihoods, rtol=1e-12)
    assert em.log_likelihood(evidence, start, 0.25) == pytest.approx(
        ours.history.log_likelihoods[0], rel=1e-12
    )


# F3: the auxiliary function


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bound_is_below_the_likelihood_and_touches_it(family: str, rng: np.random.Generator) -> None:
    model = mixture(2, **FAMILIES[family])
    evidence = unlabelled(model, table_of_all(rng, 120), rng.random(120) + 0.5)
    for _ in range(4):
        one, other = (random_start(model, evidence, 2, rng) for _ in range(2))
        likelihood = em.log_likelihood(evidence, one)
        slack = 1e-9 * abs(likelihood)
        assert em.lower_bound(evidence, one, other) <= likelihood + slack
        assert em.lower_bound(evidence, one, one) == pytest.approx(likelihood, rel=1e-12)


def test_a_step_raises_the_bound_and_so_the_likelihood(rng: np.random.Generator) -> None:
    model = gaussian("full", 2)
    rows = model.encode(Table.of(clouds(rng, 150, k=2)))
    evidence = LabelledRows(rows, Labels(classes(2), rng.integers(-1, 2, 150)))
    start = model.infer(model.observe(evidence.select_labelled()))
    after = next(em.steps(model, evidence, start)).posterior
    before, bound = em.log_likelihood(evidence, start), em.lower_bound(evidence, after, start)
    assert before < bound < em.log_likelihood(evidence, after)


# F4: the likelihood never falls; the stop rule


@pytest.mark.parametrize("family", FAMILIES)
def test_the_likelihood_never_falls(family: str, rng: np.random.Generator) -> None:
    model = mixture(2, **FAMILIES[family])
    evidence = unlabelled(model, table_of_all(rng))
    start = random_start(model, evidence, 2, rng)
    likelihoods = np.array([step.objective for step in islice(em.steps(model, evidence, start), 30)])
    assert (np.diff(likelihoods) >= -1e-10 * np.abs(likelihoods[1:])).all()


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_likelihood_of_vectors_never_falls(covariance: Covariance, rng: np.random.Generator) -> None:
    model = gaussian(covariance)
    evidence = unlabelled(model, clouds(rng))
    outcome = em.run(model, evidence, random_start(model, evidence, 3, rng), 40, 0.0)
    likelihoods = np.array(outcome.history.log_likelihoods)
    assert (np.diff(likelihoods) >= -1e-10 * np.abs(likelihoods[1:])).all()


def test_a_run_stops_when_little_is_gained(rng: np.random.Generator) -> None:
    model = gaussian("diag")
    evidence = unlabelled(model, clouds(rng))
    seen: list[Step[Joint, Posterior]] = []
    start = random_start(model, evidence, 3, rng)
    outcome = em.run(model, evidence, start, 200, 1e-5, report_step=seen.append)
    gains = np.diff(outcome.history.log_likelihoods) / 600
    assert outcome.history.converged
    assert (gains[:-1] >= 1e-5).all()
    assert gains[-1] < 1e-5
    assert [step.number for step in seen] == list(range(1, outcome.history.iterations + 1))
    assert not em.run(model, evidence, start, 2, 1e-5).history.converged


def test_no_steps_are_refused(rng: np.random.Generator) -> None:
    model = gaussian("diag")
    evidence = unlabelled(model, clouds(rng, 20))
    with pytest.raises(ValueError, match="max_iter=0"):
        em.run(model, evidence, random_start(model, evidence, 3, rng), 0)


# F5: any family


def test_a_mixture_of_poissons_finds_its_rates(rng: np.random.Generator) -> None:
    rates = np.array([[2.0, 9.0], [8.0, 1.0], [20.0, 5.0]])
    model = mixture(3, x=PoissonColumns(estimate="mle"))
    evidence = unlabelled(model, rng.poisson(rates[rng.integers(0, 3, 6000)]))
    outcome = em.run_best(model, evidence, 3, rng, 3, 200, 1e-7)
    found: Any = outcome.posterior.densities["x"]
    order = np.argsort(found.rates[:, 0])
    np.testing.assert_allclose(found.rates[order], rates, rtol=0.05)
    np.testing.assert_allclose(np.exp(outcome.posterior.log_prior), 1 / 3, atol=0.03)


def test_a_mixture_of_flags_finds_its_probabilities(rng: np.random.Generator) -> None:
    p = np.array([[0.9, 0.8, 0.9, 0.1, 0.2, 0.1], [0.1, 0.2, 0.1, 0.9, 0.8, 0.9]])
    model = mixture(2, x=BernoulliColumns(estimate="mle"))
    evidence = unlabelled(model, (rng.random((5000, 6)) < p[rng.integers(0, 2, 5000)]).astype(int))
    outcome = em.run(model, evidence, em.start(model, evidence, 2, rng), 200, 1e-8)
    found: Any = outcome.posterior.densities["x"]
    probability = np.exp(found.log_one)
    np.testing.assert_allclose(probability[np.argsort(-probability[:, 0])], p, atol=0.03)


@pytest.mark.parametrize("family", ["categorical", "multinomial", "mixed"])
def test_a_start_leads_up(family: str, rng: np.random.Generator) -> None:
    model = mixture(2, **FAMILIES[family])
    evidence = unlabelled(model, table_of_all(rng))
    outcome = em.run_best(model, evidence, 2, rng, 2, 100, 1e-6)
    assert outcome.history.log_likelihoods[-1] >= outcome.history.log_likelihoods[0]
    assert np.isfinite(outcome.history.log_likelihoods).all()
    assert outcome.posterior.keys == classes(2)


# Gaussian mixtures against scikit-learn, from the same start


def sklearn_precisions(covariance: Covariance, matrices: Floats) -> Floats:
    if covariance in ("full", "tied"):
        return np.asarray(np.linalg.inv(matrices))
    return np.asarray(1.0 / (matrices if covariance == "diag" else matrices[:, 0]))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_steps_are_those_of_scikit_learn(covariance: Covariance, rng: np.random.Generator) -> None:
    model, data = gaussian(covariance), clouds(rng)
    evidence = unlabelled(model, data)
    start = random_start(model, evidence, 3, rng)
    density: Any = start.densities["x"]
    matrices = density.covariance if covariance in ("full", "tied") else density.variance
    theirs = GaussianMixture(
        3,
        covariance_type=covariance,
        weights_init=np.exp(start.log_prior),
        means_init=density.mean,
        precisions_init=sklearn_precisions(covariance, matrices),
        reg_covar=0.0,
        tol=0.0,
        max_iter=12,
    )
    with pytest.warns(ConvergenceWarning):
        theirs.fit(data)
    outcome = em.run(model, evidence, start, 12, -np.inf)
    ours: Any = outcome.posterior.densities["x"]
    np.testing.assert_allclose(np.exp(outcome.posterior.log_prior), theirs.weights_, rtol=1e-8)
    np.testing.assert_allclose(ours.mean, theirs.means_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        ours.covariance if covariance != "diag" else ours.variance, theirs.covariances_, rtol=1e-8, atol=1e-8
    )
    assert outcome.history.log_likelihoods[-1] / len(data) == pytest.approx(theirs.lower_bound_, rel=1e-10)


# Hard EM


def test_hard_em_of_balls_is_k_means(rng: np.random.Generator) -> None:
    data = clouds(rng, 500, 2, 4)
    balls = GaussianVectors(covariance="tied", shrinkage=1.0, estimate="mle")
    model = Generative({"x": balls}, classes=classes(4), is_uniform=True)
    evidence = unlabelled(model, data)
    centres = em.kmeans_plus_plus(data, 4, rng)
    nearest = np.square(data[:, None] - centres).sum(axis=2).argmin(axis=1)
    assigned = Responsibilities(classes(4), np.eye(4)[nearest])
    start = model.infer(observe_blocks(model.blocks, evidence.rows, assigned))
    outcome = em.run(replace(model, hard=True), evidence, start, 100, 0.0)
    theirs = KMeans(4, init=centres, n_init=1, algorithm="lloyd", tol=0.0).fit(data)
    ours: Any = outcome.posterior.densities["x"]
    np.testing.assert_allclose(ours.mean, theirs.cluster_centers_, rtol=1e-9)
    assert (np.diff(outcome.history.log_likelihoods) > -1e-9).all()
    np.testing.assert_array_equal(outcome.posterior.log_joint(evidence.rows).argmax(axis=1), theirs.labels_)


# Weights, and what is missing


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_weight_is_a_row_repeated(covariance: Covariance, rng: np.random.Generator) -> None:
    model, data, times = gaussian(covariance), clouds(rng, 200), rng.integers(1, 4, 200)
    weighted = unlabelled(model, data, times.astype(np.float64))
    repeated = unlabelled(model, np.repeat(data, times, axis=0))
    start = random_start(model, weighted, 3, rng)
    ours, theirs = (em.run(model, evidence, start, 8, -np.inf) for evidence in (weighted, repeated))
    np.testing.assert_allclose(ours.history.log_likelihoods, theirs.history.log_likelihoods, rtol=1e-10)
    close(ours.statistic["x"], theirs.statistic["x"], 1e-8)  # type: ignore[arg-type]  # Moments


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_what_is_missing_is_left_out(covariance: Covariance, rng: np.random.Generator) -> None:
    data = clouds(rng, 400, apart=6.0)
    data[rng.random(data.shape) < 0.1] = np.nan
    model = mixture(3, x=GaussianVectors(covariance=covariance, estimate="mle", missing=True))
    evidence = unlabelled(model, data)
    outcome = em.run(model, evidence, em.start(model, evidence, 3, rng), 30, 0.0)
    likelihoods = np.array(outcome.history.log_likelihoods)
    assert np.isfinite(likelihoods).all()
    assert (np.diff(likelihoods) >= -1e-9 * np.abs(likelihoods[1:])).all()


# Starts


def test_centres_are_rows_far_from_each_other(rng: np.random.Generator) -> None:
    corners = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0], [100.0, 100.0]])
    data = corners[rng.integers(0, 4, 9000)] + rng.normal(size=(9000, 2))
    data[rng.random(data.shape) < 0.05] = np.nan
    data[0] = np.nan
    centres = em.kmeans_plus_plus(data, 4, rng)
    whole = corners[np.square(centres[:, None] - corners).sum(axis=2).argmin(axis=1)]
    assert len(np.unique(whole, axis=0)) >= 3
    assert np.isfinite(centres).all()
    assert em.kmeans_plus_plus(np.ones((5, 2)), 3, rng).shape == (3, 2)
    with pytest.raises(ValueError, match="k=6 for 5 rows"):
        em.kmeans_plus_plus(np.ones((5, 2)), 6, rng)


def test_a_start_is_its_generator() -> None:
    model = gaussian("full")
    evidence = unlabelled(model, clouds(np.random.default_rng(1)))
    one, other = (em.start(model, evidence, 3, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.log_prior, other.log_prior)


@pytest.mark.parametrize("rows", [1, 2_000, 2_001, 1 << 18, (1 << 18) + 1, 3_000_000])
def test_rows_among_which_a_start_is_searched_are_distinct_and_in_order(rows: int) -> None:
    numbers = draw_row_numbers(rows, 3, np.random.default_rng(7))
    assert len(numbers) == min(rows, 2_000)
    assert (np.diff(numbers) > 0).all()
    assert numbers[0] >= 0
    assert numbers[-1] < rows


def test_a_start_of_many_classes_is_searched_among_all_rows() -> None:
    rows = (1 << 18) + 1
    numbers = draw_row_numbers(rows, 6_000, np.random.default_rng(7))  # 50 rows per class would be more
    assert numbers.tolist() == list(range(rows))


def test_a_start_among_labels_is_refused(rng: np.random.Generator) -> None:
    model = gaussian("full")
    evidence = LabelledRows(
        model.encode(Table.of(clouds(rng, 30))), Labels(classes(3), np.zeros(30, dtype=np.int64))
    )
    with pytest.raises(ValueError, match="rows with labels"):
        em.start(model, evidence, 3, rng)
