"""The fused step of EM is the step: in any shape, on any number of threads, at any mean."""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from tamis.models.generative import GaussianColumns, Generative, LabelledRows, Posterior, Responsibilities, em
from tamis.models.generative.gaussian_vectors import Covariance, GaussianVectors
from tamis.models.generative.model import observe_blocks
from tamis.stats import Joint, Labels
from tamis.tables import Table
from tests.models.mixtures import (
    COVARIANCES,
    classes,
    close,
    clouds,
    gaussian,
    mixture,
    random_start,
    unlabelled,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(47)


def generic(
    model: Generative, evidence: LabelledRows, given: Posterior, hard: bool = False
) -> tuple[Joint, float]:
    """The step by scores and responsibilities, which the fused one stands in for."""
    joint = given.log_joint(evidence.rows)
    evidences = np.logaddexp.reduce(joint, axis=1)
    parts = np.exp(joint - evidences[:, None])
    if hard:
        parts, evidences = np.eye(len(given.keys))[joint.argmax(axis=1)], joint.max(axis=1)
    weights = evidence.weight() * model.unlabelled_weight
    responsibilities = Responsibilities(given.keys, parts * weights[:, None])
    statistic = observe_blocks(model.blocks, evidence.rows, responsibilities, given=given)
    return statistic, float(weights @ evidences)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_fast_step_equals_the_general_step(
    covariance: Covariance, weighted: bool, hard: bool, rng: np.random.Generator
) -> None:
    model, data = gaussian(covariance, 4), clouds(rng, 9001, 5, 4)
    evidence = unlabelled(model, data, rng.random(9001) if weighted else None)
    start = random_start(model, evidence, 4, rng)
    given = list(islice(em.steps(model, evidence, start), 3))[-1].posterior
    assert model.prepare(evidence).fast is not None
    fused = replace(model, hard=hard).observe(evidence, given)
    expected, by_scores = generic(model, evidence, given, hard)
    close(fused["x"], expected["x"], 1e-10)  # type: ignore[arg-type]  # Moments
    assert fused.log_likelihood == pytest.approx(by_scores, rel=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_first_step_over_rows_is_the_same_as_later_ones(
    covariance: Covariance, rng: np.random.Generator
) -> None:
    model = gaussian(covariance, 3)
    evidence = unlabelled(model, clouds(rng, 9001, 5, 3))
    given, prepared = random_start(model, evidence, 3, rng), model.prepare(evidence)
    first, second = (model.observe(prepared, given) for _ in range(2))
    assert second == first
    assert second.log_likelihood == first.log_likelihood


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_no_bit_depends_on_the_number_of_threads(
    covariance: Covariance, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gaussian(covariance)
    evidence = unlabelled(model, clouds(rng, 5003))
    start = random_start(model, evidence, 3, rng)
    found = []
    for lanes in (1, 2, 3):
        monkeypatch.setattr("tamis.threads.count_chunks", lambda _, lanes=lanes: lanes)
        statistic = model.observe(evidence, start)
        found.append((statistic, statistic.log_likelihood))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (3, 1, 2), (7, 2, 3), (300, 31, 40)])
def test_the_fast_step_equals_the_general_step_in_any_shape(
    covariance: Covariance, n: int, d: int, k: int, rng: np.random.Generator
) -> None:
    model = mixture(k, x=GaussianVectors(covariance=covariance, estimate="mean"))
    evidence = unlabelled(model, rng.normal(size=(n, d)))
    given = random_start(model, evidence, k, rng)
    fused = model.observe(evidence, given)
    expected, by_scores = generic(model, evidence, given)
    close(fused["x"], expected["x"], 1e-9)  # type: ignore[arg-type]  # Moments
    assert fused.log_likelihood == pytest.approx(by_scores, rel=1e-11)


def test_a_rough_step_has_all_squares(rng: np.random.Generator) -> None:
    model, data = gaussian("tied"), clouds(rng, 5000)
    evidence = unlabelled(model, data)
    start = random_start(model, evidence, 3, rng)
    rough, whole = (next(em.steps(model, evidence, start, pool_squares=pool)) for pool in (True, False))
    ours: Any = rough.posterior.densities["x"]
    theirs: Any = whole.posterior.densities["x"]
    np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-10)
    assert rough.objective == pytest.approx(whole.objective, rel=1e-12)
    outcome: Any = em.run(model, evidence, start, 5, 0.0)
    exact: Any = list(islice(em.steps(model, evidence, start), 5))[-1]
    close(outcome.statistic["x"], exact.statistic["x"], 1e-9)


def test_narrow_gaussians_far_apart_are_left_to_the_long_way(rng: np.random.Generator) -> None:
    data = np.concatenate([rng.normal(0, 1e-4, (100, 2)), rng.normal(1e3, 1e-4, (100, 2))])
    model = gaussian("full", 2)
    rows = model.encode(Table.of(data))
    given = model.infer(model.observe(LabelledRows(rows, Labels.of(np.repeat([0, 1], 100)))))
    evidence = unlabelled(model, data)
    ready = model.prepare(evidence).fast
    assert ready is not None
    assert ready.expect(given.densities["x"], given.log_prior) is None
    outcome: Any = em.run(model, evidence, given, 3, 0.0)
    np.testing.assert_allclose(
        outcome.posterior.densities["x"].covariance,
        [np.cov(data[:100].T, bias=True), np.cov(data[100:].T, bias=True)],
        rtol=1e-9,
    )


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_large_mean_costs_nothing(covariance: Covariance, rng: np.random.Generator) -> None:
    far = clouds(rng, apart=12.0) + 1e8  # apart, for a mean is rounded to 1e-8, and shares tell
    near = far - 1e8  # without rounding
    found = []
    for data in (near, far):
        model = gaussian(covariance)
        evidence = unlabelled(model, data)
        start = em.start(model, evidence, 3, np.random.default_rng(5))
        density: Any = em.run(model, evidence, start, 10, -np.inf).posterior.densities["x"]
        found.append(density.covariance if covariance in ("full", "tied") else density.variance)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9 * float(found[0].max()))


def test_a_class_that_has_nothing_disturbs_no_one(rng: np.random.Generator) -> None:
    model, data = mixture(3, x=GaussianColumns(estimate="mle")), clouds(rng, 300) + 1e8
    evidence = unlabelled(model, data)
    parts = np.append(rng.dirichlet(np.ones(2), 300), np.zeros((300, 1)), axis=1)
    start = model.infer(observe_blocks(model.blocks, evidence.rows, Responsibilities(classes(3), parts)))
    ready = model.prepare(evidence).fast
    assert ready is not None
    assert ready.expect(start.densities["x"], start.log_prior) is not None
    outcome = em.run(model, evidence, start, 10, 0.0)
    assert np.isneginf(outcome.posterior.log_prior).tolist() == [False, False, True]
    assert np.isfinite(outcome.history.log_likelihoods).all()
