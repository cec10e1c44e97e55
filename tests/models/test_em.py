"""Labels known, or missing in part or in whole: one model, and EM where they are missing (rows F1 to F5)."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from tamis.models import (
    BernoulliColumns,
    Block,
    CategoryColumns,
    Evidence,
    GaussianColumns,
    Generative,
    MultinomialCounts,
    PoissonColumns,
    Posterior,
    Shares,
    em,
)
from tamis.models.gaussian_vectors import Covariance, GaussianVectors
from tamis.stats import Filed, Joint, Keys, Moments
from tamis.tables import Table

Floats = NDArray[np.float64]

COVARIANCES: tuple[Covariance, ...] = ("full", "tied", "diag", "spherical")


def classes(k: int) -> Keys:
    return Keys(tuple(range(k)))


def mixture(k: int, **blocks: Block[Any, Any]) -> Generative:
    return Generative(blocks, classes=classes(k))


def gaussian(covariance: Covariance, k: int = 3) -> Generative:
    return mixture(k, x=GaussianVectors(covariance=covariance, estimate="mle"))


def unlabelled(model: Generative, data: object, weights: Floats | None = None) -> Evidence:
    table = Table.of(data)
    return Evidence(model.encode(table), Filed(classes(0), np.full(table.rows, -1)), weights)


def clouds(rng: np.random.Generator, n: int = 600, d: int = 3, k: int = 3, apart: float = 3.0) -> Floats:
    """k Gaussians that overlap, each with correlations of its own."""
    group = rng.integers(0, k, n)
    turn = rng.normal(size=(k, d, d)) / np.sqrt(d) + np.eye(d)
    noise = (turn[group] @ rng.normal(size=(n, d, 1)))[..., 0]
    return np.asarray(apart * rng.normal(size=(k, d))[group] + noise)


def table_of_all(rng: np.random.Generator, n: int = 400) -> NDArray[Any]:
    """Numbers, counts, flags, categories and words, of two classes."""
    group = rng.integers(0, 2, n)
    columns: list[Any] = [
        rng.normal(2.0 * group, 1.0),
        rng.poisson(1.0 + 4.0 * group),
        rng.poisson(3.0 - 2.0 * group),
        (rng.random(n) < 0.2 + 0.6 * group).astype(int),
        np.array(["red", "green", "blue"])[(group + (rng.random(n) < 0.3)) % 3],
        rng.poisson(1 + group),
        rng.poisson(2 - group),
    ]
    found = np.empty((n, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        found[:, j] = column.tolist()
    return found


FAMILIES: dict[str, dict[str, Block[Any, Any]]] = {
    "gaussian": {"g": GaussianColumns(columns=(0,), estimate="mle")},
    "poisson": {"p": PoissonColumns(columns=(1, 2), estimate="mle")},
    "bernoulli": {"b": BernoulliColumns(columns=(3,), estimate="mle")},
    "categorical": {"c": CategoryColumns(columns=(4,), estimate="mle")},
    "multinomial": {"m": MultinomialCounts(columns=(5, 6), estimate="mle")},
    "mixed": {
        "g": GaussianVectors(columns=(0,), covariance="diag", estimate="mle"),
        "p": PoissonColumns(columns=(1, 2), estimate="mle"),
        "b": BernoulliColumns(columns=(3,), estimate="mle"),
        "c": CategoryColumns(columns=(4,), estimate="mle"),
        "m": MultinomialCounts(columns=(5, 6), estimate="mle"),
    },
}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(47)


def random_start(model: Generative, evidence: Evidence, k: int, rng: np.random.Generator) -> Posterior:
    parts = rng.dirichlet(np.full(k, 0.3), size=len(evidence.rows)) * evidence.weight()[:, None]
    return model.infer(model.gather(evidence.rows, Shares(classes(k), parts)))


def generic(
    model: Generative, evidence: Evidence, given: Posterior, hard: bool = False
) -> tuple[Joint, float]:
    """The step by scores and shares, which the fused one stands in for."""
    joint = given.log_joint(evidence.rows)
    evidences = np.logaddexp.reduce(joint, axis=1)
    parts = np.exp(joint - evidences[:, None])
    if hard:
        parts, evidences = np.eye(len(given.keys))[joint.argmax(axis=1)], joint.max(axis=1)
    weights = evidence.weight() * model.weighed
    shares = Shares(given.keys, parts * weights[:, None])
    return model.gather(evidence.rows, shares, given), float(weights @ evidences)


def close(found: Moments, expected: Moments, rtol: float) -> None:
    np.testing.assert_allclose(found.weight.value, expected.weight.value, rtol=rtol)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=rtol, atol=rtol * expected.scatter.max())


# F1: complete and incomplete data


@pytest.mark.parametrize("family", FAMILIES)
def test_with_all_labels_em_is_the_classifier(family: str, rng: np.random.Generator) -> None:
    model = Generative(FAMILIES[family])
    rows = model.encode(Table.of(table_of_all(rng)))
    evidence = Evidence(rows, Filed.of(rng.choice(["ham", "spam"], len(rows))))
    classifier = model.observe(evidence)
    outcome = em.run(model, evidence, model.infer(classifier))
    assert outcome.statistic == classifier
    assert outcome.converged
    assert outcome.iterations == 2


def test_known_labels_are_never_doubted(rng: np.random.Generator) -> None:
    model = gaussian("full", 2)
    rows = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(1, 1, (60, 2))])
    labels = np.repeat([0, 1], [50, 60])
    group = np.where(rng.random(110) < 0.5, labels, -1)
    evidence = Evidence(model.encode(Table.of(rows)), Filed(classes(2), group))
    start = model.infer(model.observe(evidence.known()))
    step = next(em.steps(model, evidence, start))
    missing = evidence.unknown()
    assert missing is not None
    expected = model.observe(evidence.known()) + model.observe(missing, start)
    close(step.statistic["x"], expected["x"], 1e-12)  # type: ignore[arg-type]  # Moments
    assert step.log_likelihood == pytest.approx(em.log_likelihood(evidence, start), rel=1e-12)
    likelihoods = em.run(model, evidence, start, 30, 0.0).log_likelihoods
    assert (np.diff(likelihoods) > -1e-9).all()


def test_rows_without_labels_may_weigh_less(rng: np.random.Generator) -> None:
    data, group = clouds(rng, 200), np.where(rng.random(200) < 0.5, rng.integers(0, 3, 200), -1)
    light = Generative({"x": GaussianColumns(estimate="mle")}, classes=classes(3), weighed=0.25)
    plain = mixture(3, x=GaussianColumns(estimate="mle"))
    evidence = Evidence(plain.encode(Table.of(data)), Filed(classes(3), group))
    weighted = Evidence(evidence.rows, evidence.filed, np.where(group < 0, 0.25, 1.0))
    start = plain.infer(plain.observe(evidence.known()))
    ours, theirs = em.run(light, evidence, start, 5, 0.0), em.run(plain, weighted, start, 5, 0.0)
    np.testing.assert_allclose(ours.log_likelihoods, theirs.log_likelihoods, rtol=1e-12)
    assert em.log_likelihood(evidence, start, 0.25) == pytest.approx(ours.log_likelihoods[0], rel=1e-12)


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
    evidence = Evidence(rows, Filed(classes(2), rng.integers(-1, 2, 150)))
    start = model.infer(model.observe(evidence.known()))
    after = next(em.steps(model, evidence, start)).posterior
    before, bound = em.log_likelihood(evidence, start), em.lower_bound(evidence, after, start)
    assert before < bound < em.log_likelihood(evidence, after)


# F4: the likelihood never falls; the stop rule


@pytest.mark.parametrize("family", FAMILIES)
def test_the_likelihood_never_falls(family: str, rng: np.random.Generator) -> None:
    model = mixture(2, **FAMILIES[family])
    evidence = unlabelled(model, table_of_all(rng))
    start = random_start(model, evidence, 2, rng)
    likelihoods = np.array([step.log_likelihood for step in islice(em.steps(model, evidence, start), 30)])
    assert (np.diff(likelihoods) >= -1e-10 * np.abs(likelihoods[1:])).all()


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_likelihood_of_vectors_never_falls(covariance: Covariance, rng: np.random.Generator) -> None:
    model = gaussian(covariance)
    evidence = unlabelled(model, clouds(rng))
    outcome = em.run(model, evidence, random_start(model, evidence, 3, rng), 40, 0.0)
    likelihoods = np.array(outcome.log_likelihoods)
    assert (np.diff(likelihoods) >= -1e-10 * np.abs(likelihoods[1:])).all()


def test_a_run_stops_when_little_is_gained(rng: np.random.Generator) -> None:
    model = gaussian("diag")
    evidence = unlabelled(model, clouds(rng))
    seen: list[em.Step] = []
    start = random_start(model, evidence, 3, rng)
    outcome = em.run(model, evidence, start, 200, 1e-5, watch=seen.append)
    gains = np.diff(outcome.log_likelihoods) / 600
    assert outcome.converged
    assert (gains[:-1] >= 1e-5).all()
    assert gains[-1] < 1e-5
    assert [step.number for step in seen] == list(range(1, outcome.iterations + 1))
    assert not em.run(model, evidence, start, 2, 1e-5).converged


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
    outcome = em.run(model, evidence, em.start(model, evidence, 3, rng, tries=3), 200, 1e-7)
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
    probability = np.exp(found.log_up)
    np.testing.assert_allclose(probability[np.argsort(-probability[:, 0])], p, atol=0.03)


@pytest.mark.parametrize("family", ["categorical", "multinomial", "mixed"])
def test_a_start_leads_up(family: str, rng: np.random.Generator) -> None:
    model = mixture(2, **FAMILIES[family])
    evidence = unlabelled(model, table_of_all(rng))
    outcome = em.run(model, evidence, em.start(model, evidence, 2, rng, tries=2), 100, 1e-6)
    assert outcome.log_likelihoods[-1] >= outcome.log_likelihoods[0]
    assert np.isfinite(outcome.log_likelihoods).all()
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
    assert outcome.log_likelihoods[-1] / len(data) == pytest.approx(theirs.lower_bound_, rel=1e-10)


# The fused step


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_fused_step_is_the_step(
    covariance: Covariance, weighted: bool, hard: bool, rng: np.random.Generator
) -> None:
    model, data = gaussian(covariance, 4), clouds(rng, 9001, 5, 4)
    evidence = unlabelled(model, data, rng.random(9001) if weighted else None)
    start = random_start(model, evidence, 4, rng)
    given = list(islice(em.steps(model, evidence, start), 3))[-1].posterior
    assert model.prepare(evidence, given) is not None
    fused, likelihood = model.guess(evidence, given, hard)
    expected, by_scores = generic(model, evidence, given, hard)
    close(fused["x"], expected["x"], 1e-10)  # type: ignore[arg-type]  # Moments
    assert likelihood == pytest.approx(by_scores, rel=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_no_bit_depends_on_the_number_of_threads(
    covariance: Covariance, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gaussian(covariance)
    evidence = unlabelled(model, clouds(rng, 5003))
    start = random_start(model, evidence, 3, rng)
    found = []
    for lanes in (1, 2, 3):
        monkeypatch.setattr("tamis._kernels.threads.parts", lambda _, lanes=lanes: lanes)
        found.append(model.guess(evidence, start))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (3, 1, 2), (7, 2, 3), (300, 31, 40)])
def test_the_fused_step_is_the_step_in_any_shape(
    covariance: Covariance, n: int, d: int, k: int, rng: np.random.Generator
) -> None:
    model = mixture(k, x=GaussianVectors(covariance=covariance, estimate="mean"))
    evidence = unlabelled(model, rng.normal(size=(n, d)))
    given = random_start(model, evidence, k, rng)
    fused, likelihood = model.guess(evidence, given)
    expected, by_scores = generic(model, evidence, given)
    close(fused["x"], expected["x"], 1e-9)  # type: ignore[arg-type]  # Moments
    assert likelihood == pytest.approx(by_scores, rel=1e-11)


def test_a_rough_step_has_all_squares(rng: np.random.Generator) -> None:
    model, data = gaussian("tied"), clouds(rng, 5000)
    evidence = unlabelled(model, data)
    start = random_start(model, evidence, 3, rng)
    rough, whole = (next(em.steps(model, evidence, start, rough=rough)) for rough in (True, False))
    ours: Any = rough.posterior.densities["x"]
    theirs: Any = whole.posterior.densities["x"]
    np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-10)
    assert rough.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    outcome: Any = em.run(model, evidence, start, 5, 0.0)
    exact: Any = list(islice(em.steps(model, evidence, start), 5))[-1]
    close(outcome.statistic["x"], exact.statistic["x"], 1e-9)


def test_narrow_gaussians_far_apart_are_left_to_the_long_way(rng: np.random.Generator) -> None:
    data = np.concatenate([rng.normal(0, 1e-4, (100, 2)), rng.normal(1e3, 1e-4, (100, 2))])
    model = gaussian("full", 2)
    rows = model.encode(Table.of(data))
    given = model.infer(model.observe(Evidence(rows, Filed.of(np.repeat([0, 1], 100)))))
    evidence = unlabelled(model, data)
    ready = model.prepare(evidence, given)
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
    start = model.infer(model.gather(evidence.rows, Shares(classes(3), parts)))
    ready = model.prepare(evidence, start)
    assert ready is not None
    assert ready.expect(start.densities["x"], start.log_prior) is not None
    outcome = em.run(model, evidence, start, 10, 0.0)
    assert np.isneginf(outcome.posterior.log_prior).tolist() == [False, False, True]
    assert np.isfinite(outcome.log_likelihoods).all()


# Hard EM


def test_hard_em_of_balls_is_k_means(rng: np.random.Generator) -> None:
    data = clouds(rng, 500, 2, 4)
    balls = GaussianVectors(covariance="tied", shrinkage=1.0, estimate="mle")
    model = Generative({"x": balls}, classes=classes(4), even=True)
    evidence = unlabelled(model, data)
    centres = em.kmeans_plus_plus(data, 4, rng)
    nearest = np.square(data[:, None] - centres).sum(axis=2).argmin(axis=1)
    shares = Shares(classes(4), np.eye(4)[nearest])
    outcome = em.run(model, evidence, model.infer(model.gather(evidence.rows, shares)), 100, 0.0, hard=True)
    theirs = KMeans(4, init=centres, n_init=1, algorithm="lloyd", tol=0.0).fit(data)
    ours: Any = outcome.posterior.densities["x"]
    np.testing.assert_allclose(ours.mean, theirs.cluster_centers_, rtol=1e-9)
    assert (np.diff(outcome.log_likelihoods) > -1e-9).all()
    np.testing.assert_array_equal(outcome.posterior.log_joint(evidence.rows).argmax(axis=1), theirs.labels_)


# Weights, and what is missing


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_weight_is_a_row_repeated(covariance: Covariance, rng: np.random.Generator) -> None:
    model, data, times = gaussian(covariance), clouds(rng, 200), rng.integers(1, 4, 200)
    weighted = unlabelled(model, data, times.astype(np.float64))
    repeated = unlabelled(model, np.repeat(data, times, axis=0))
    start = random_start(model, weighted, 3, rng)
    ours, theirs = (em.run(model, evidence, start, 8, -np.inf) for evidence in (weighted, repeated))
    np.testing.assert_allclose(ours.log_likelihoods, theirs.log_likelihoods, rtol=1e-10)
    close(ours.statistic["x"], theirs.statistic["x"], 1e-8)  # type: ignore[arg-type]  # Moments


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_what_is_missing_is_left_out(covariance: Covariance, rng: np.random.Generator) -> None:
    data = clouds(rng, 400, apart=6.0)
    data[rng.random(data.shape) < 0.1] = np.nan
    model = mixture(3, x=GaussianVectors(covariance=covariance, estimate="mle", missing=True))
    evidence = unlabelled(model, data)
    outcome = em.run(model, evidence, em.start(model, evidence, 3, rng), 30, 0.0)
    likelihoods = np.array(outcome.log_likelihoods)
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
    one, other = (em.start(model, evidence, 3, np.random.default_rng(3), tries=2) for _ in range(2))
    np.testing.assert_array_equal(one.log_prior, other.log_prior)


def test_a_start_among_labels_is_refused(rng: np.random.Generator) -> None:
    model = gaussian("full")
    evidence = Evidence(
        model.encode(Table.of(clouds(rng, 30))), Filed(classes(3), np.zeros(30, dtype=np.int64))
    )
    with pytest.raises(ValueError, match="rows with labels"):
        em.start(model, evidence, 3, rng)
