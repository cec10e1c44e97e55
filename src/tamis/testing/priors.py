"""Property tests (laws) of conjugate priors, and priors and statistics to test them with.

A law is a function that raises AssertionError with the two sides it found unequal. `PRIORS` registers every
public prior, for each of its likelihoods, alone and in batches; run each law over each. Laws that draw from a
prior take the generator; they allow six standard errors, which chance exceeds once in a billion.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import SearchStrategy
from scipy import special

from tamis import conjugate
from tamis.arrays import Array
from tamis.conjugate import Beta, Dirichlet, Gamma, MultivariateT, NormalInverseGamma, NormalInverseWishart
from tamis.conjugate.prior import Prior
from tamis.linalg import Cholesky
from tamis.stats import Exact, Moments, Tally
from tamis.testing import transforms
from tamis.testing.transforms import Transform

_DRAWS = 4000
_ERRORS = 6.0  # standard errors by which a mean over draws may differ from its expectation
_EXPONENT = 25.0  # of Bernstein's inequality: chance fails a comparison with probability 2 e^−25, or 3e-11


@dataclass(frozen=True)
class PriorCase:
    """A class of priors with a likelihood and the shape of a batch, and priors and statistics to draw."""

    name: str
    kind: type[Prior]
    priors: SearchStrategy[Prior]
    statistics: SearchStrategy[Any]  # any two of them can be added
    observe: Callable[[Array], Any]  # one observation for each prior → its statistic
    log_likelihood: Callable[[Any, Any], Array]  # parameters, statistic → log p(data) − Σ log h(x)
    transform: Transform
    log_base: Callable[[Array], Array] = np.zeros_like  # of one observation for each prior
    batch: tuple[int, ...] = ()


COLUMNS = 2  # the dimension of vectors
CATEGORIES = 3

Shape = tuple[int, ...]


def _numbers(shape: Shape, elements: SearchStrategy[float]) -> SearchStrategy[Array]:
    return hnp.arrays(np.float64, shape, elements=elements)


def _positive(shape: Shape, least: float = 0.5, most: float = 30.0) -> SearchStrategy[Array]:
    return _numbers(shape, st.floats(least, most))


def _tallies(batch: Shape, terms: int = 1) -> SearchStrategy[Tally]:
    """Draw sums that are multiples of ½, because weights may be fractions.

    With several terms, the weight is the sum of the terms.
    """
    halves = _numbers((*batch, terms), st.integers(0, 60).map(lambda k: k / 2))
    if terms > 1:
        return halves.map(lambda total: Tally.of(total.sum(axis=-1), total))
    failures = _numbers(batch, st.integers(0, 60).map(lambda k: k / 2))
    return st.builds(lambda total, rest: Tally.of(total[..., 0] + rest, total), halves, failures)


@st.composite
def _moments(draw: st.DrawFn, batch: Shape, full: bool) -> Moments:
    """Draw moments of a few weighted rows with a large or small mean.

    The members of a batch are columns if moments are diagonal, and groups of rows if they are full.
    """
    columns = COLUMNS if full else (batch[0] if batch else 1)
    groups = batch[0] if full and batch else 1
    rows = draw(st.integers(1, 6)) * groups
    # Far from the prior's location a full scale matrix is nearly singular, and its determinant not precise.
    mean = draw(st.sampled_from([0.0, 10.0, -1e2] if full else [0.0, 10.0, -1e4]))
    values = mean + draw(_numbers((rows, columns), st.floats(-8.0, 8.0, width=16)))
    weights = draw(st.none() | _numbers((rows,), st.sampled_from([0.5, 1.0, 3.0])))
    if not full:
        return Moments.observe(values if batch else values[:, 0], weights)
    by = np.arange(rows) % groups if batch else None
    return replace(Moments.observe(values, weights, by, form="full"), keys=None)


@st.composite
def _normal_inverse_wisharts(draw: st.DrawFn, batch: Shape) -> NormalInverseWishart:
    root = np.tril(draw(_numbers((*batch, COLUMNS, COLUMNS), st.floats(-2.0, 2.0))), -1)
    root = root + np.eye(COLUMNS) * draw(_positive((*batch, COLUMNS), 0.5, 3.0))[..., None]
    return NormalInverseWishart(
        draw(_numbers((*batch, COLUMNS), st.floats(-10.0, 10.0))),
        draw(_positive(batch)),
        COLUMNS - 1 + draw(_positive(batch, 3.0)),
        root @ np.swapaxes(root, -1, -2),
    )


def _observe_number(x: Array) -> Moments:
    return Moments(weight=Exact.of(np.ones(x.shape)), first=Exact.of(x), second=Exact.of(x).times(x))


def _observe_vector(x: Array) -> Moments:
    left, right = np.triu_indices(x.shape[-1])
    second = Exact.of(x[..., left]).times(x[..., right])
    return Moments(weight=Exact.of(np.ones(x.shape[:-1])), first=Exact.of(x), second=second, form="full")


def _observe_count(x: Array) -> Tally:
    return Tally.of(1.0, x[..., None])


def _zero_log_base(x: Array) -> Array:
    """The logarithm of a base measure of 1, for vectors (..., d)."""
    return np.zeros(x.shape[:-1])


def _read_sums(tally: Tally) -> tuple[Array, Array]:
    return tally.weight.value, tally.total.value[..., 0]


def _bernoulli_log_likelihood(p: Array, tally: Tally) -> Array:
    weight, total = _read_sums(tally)
    return np.asarray(special.xlogy(total, p) + special.xlog1py(weight - total, -p))


def _geometric_log_likelihood(p: Array, tally: Tally) -> Array:
    weight, total = _read_sums(tally)
    return np.asarray(special.xlogy(weight, p) + special.xlog1py(total, -p))


def _poisson_log_likelihood(rate: Array, tally: Tally) -> Array:
    weight, total = _read_sums(tally)
    return np.asarray(special.xlogy(total, rate) - weight * rate)


def _exponential_log_likelihood(rate: Array, tally: Tally) -> Array:
    weight, total = _read_sums(tally)
    return np.asarray(special.xlogy(weight, rate) - total * rate)


def _normal_log_likelihood(parameters: Any, data: Moments) -> Array:
    (mean, variance), weight = parameters, data.weight.value
    square = data.scatter + weight * np.square(data.mean - mean)
    return np.asarray(-0.5 * (weight * np.log(2.0 * np.pi * variance) + square / variance))


def _vector_log_likelihood(parameters: Any, data: Moments) -> Array:
    (mean, covariance), weight = parameters, data.weight.value
    factor, d = Cholesky.of(covariance), mean.shape[-1]
    scatter = np.broadcast_to(data.scatter, covariance.shape)
    square = np.trace(factor.solve(scatter), axis1=-2, axis2=-1) + weight * factor.quadratic(data.mean - mean)
    return np.asarray(-0.5 * (weight * (d * np.log(2.0 * np.pi) + factor.log_determinant()) + square))


def _make_beta_case(name: str, batch: Shape, likelihood: Any) -> PriorCase:
    priors = st.builds(lambda a, b: Beta(a, b, likelihood), _positive(batch), _positive(batch))
    log_likelihood = _bernoulli_log_likelihood if likelihood == "bernoulli" else _geometric_log_likelihood
    transform = transforms.PROBABILITY
    return PriorCase(
        name, Beta, priors, _tallies(batch), _observe_count, log_likelihood, transform, batch=batch
    )


def _make_gamma_case(name: str, batch: Shape, likelihood: Any) -> PriorCase:
    priors = st.builds(lambda a, b: Gamma(a, b, likelihood), _positive(batch), _positive(batch))
    log_likelihood: Any = _exponential_log_likelihood
    log_base: Any = np.zeros_like
    if likelihood == "poisson":
        log_likelihood, log_base = _poisson_log_likelihood, lambda x: -special.gammaln(x + 1.0)
    transform = transforms.RATE
    return PriorCase(
        name, Gamma, priors, _tallies(batch), _observe_count, log_likelihood, transform, log_base, batch
    )


def _make_dirichlet_case(name: str, batch: Shape) -> PriorCase:
    priors = _positive((*batch, CATEGORIES)).map(Dirichlet)
    return PriorCase(
        name,
        Dirichlet,
        priors,
        statistics=_tallies(batch, CATEGORIES),
        observe=lambda x: Tally.of(1.0, x),
        log_likelihood=lambda p, tally: special.xlogy(tally.total.value, p).sum(axis=-1),
        transform=transforms.PROBABILITIES,
        log_base=_zero_log_base,
        batch=batch,
    )


def _make_normal_case(name: str, batch: Shape) -> PriorCase:
    location, positive = _numbers(batch, st.floats(-10.0, 10.0)), _positive(batch)
    return PriorCase(
        name,
        NormalInverseGamma,
        priors=st.builds(NormalInverseGamma, location, positive, positive, positive),
        statistics=_moments(batch, full=False),
        observe=_observe_number,
        log_likelihood=_normal_log_likelihood,
        transform=transforms.MEAN_AND_VARIANCE,
        batch=batch,
    )


def _make_vector_case(name: str, batch: Shape) -> PriorCase:
    return PriorCase(
        name,
        NormalInverseWishart,
        priors=_normal_inverse_wisharts(batch),
        statistics=_moments(batch, full=True),
        observe=_observe_vector,
        log_likelihood=_vector_log_likelihood,
        transform=transforms.MEAN_AND_COVARIANCE,
        log_base=_zero_log_base,
        batch=batch,
    )


PRIORS: tuple[PriorCase, ...] = (
    _make_beta_case("Beta of bits", (), "bernoulli"),
    _make_beta_case("Betas of bits", (3,), "bernoulli"),
    _make_beta_case("Beta of waiting times", (), "geometric"),
    _make_dirichlet_case("Dirichlet", ()),
    _make_dirichlet_case("Dirichlets", (2,)),
    _make_gamma_case("Gamma of counts", (), "poisson"),
    _make_gamma_case("Gammas of counts", (2, 3), "poisson"),
    _make_gamma_case("Gamma of waiting times", (), "exponential"),
    _make_normal_case("normal–inverse-gamma", ()),
    _make_normal_case("normal–inverse-gammas", (3,)),
    _make_vector_case("normal–inverse-Wishart", ()),
    _make_vector_case("normal–inverse-Wisharts", (2,)),
)


def list_parameters(prior: Prior) -> dict[str, Array]:
    """Return the arrays of a prior's parameters, by name."""
    named = {field.name: getattr(prior, field.name) for field in fields(prior)}  # type: ignore[arg-type]
    return {name: value for name, value in named.items() if isinstance(value, np.ndarray)}


def assert_close(left: Array, right: Array, tolerance: float, what: str) -> None:
    """Raise unless both are equal within a tolerance, relative for large numbers and absolute for small."""
    difference = np.abs(left - right) / (1.0 + np.maximum(np.abs(left), np.abs(right)))
    assert (difference <= tolerance).all(), f"{what}: {left} is not {right}, {difference.max()} apart"


def assert_same_prior(left: Prior, right: Prior, tolerance: float = 0.0) -> None:
    """Raise unless all parameters are equal within a tolerance."""
    for name, value in list_parameters(left).items():
        assert_close(value, list_parameters(right)[name], tolerance, name)


def updating_in_parts_is_updating_at_once(prior: Prior, a: Any, b: Any) -> None:
    """update(a).update(b) = update(a + b)."""
    assert_same_prior(prior.update(a).update(b), prior.update(a + b), 1e-10)


def updating_by_nothing_changes_nothing(prior: Prior, a: Any) -> None:
    """update(0) is the prior itself, to the bit, and has an evidence of one."""
    assert_same_prior(prior.update(0.0 * a), prior)
    assert_close(prior.log_evidence(0.0 * a), np.zeros(prior.batch), 0.0, "log-evidence of nothing")


def evidence_is_a_chain(prior: Prior, a: Any, b: Any) -> None:
    """p(a, b) = p(a) p(b | a)."""
    chain = prior.log_evidence(a) + prior.update(a).log_evidence(b)
    assert_close(prior.log_evidence(a + b), chain, 1e-9, "log-evidence")


def evidence_is_a_ratio_of_normalizers(prior: Prior, a: Any) -> None:
    """p(a) = Z(posterior) / Z(prior), which the numerically careful formulas must equal."""
    ratio = prior.update(a).log_normalizer() - prior.log_normalizer()
    assert_close(prior.log_evidence(a), ratio, 1e-9, "log-evidence")


def bayes_theorem_holds(case: PriorCase, prior: Prior, a: Any, rng: np.random.Generator) -> None:
    """p(θ) p(a | θ) = p(a) p(θ | a), at draws of θ."""
    drawn = prior.update(a).sample(rng, 5)
    left = prior.log_density(drawn) + case.log_likelihood(drawn, a)
    right = prior.log_evidence(a) + prior.update(a).log_density(drawn)
    assert_close(left, right, 1e-8, "log p(θ) p(a | θ)")


def predictive_is_the_evidence_of_one_more(case: PriorCase, prior: Prior, rng: np.random.Generator) -> None:
    """The predictive density of an observation is its evidence."""
    x = prior.predictive().sample(rng)
    evidence = prior.log_evidence(case.observe(x), case.log_base(x))
    assert_close(prior.predictive().log_density(x), evidence, 1e-9, f"log-density of {x}")


def divergence_is_an_expectation(prior: Prior, other: Prior, rng: np.random.Generator) -> None:
    """KL(p ‖ q) = E[log p − log q] ≥ 0, and 0 from a prior to itself."""
    assert_close(prior.kl(prior), np.zeros(prior.batch), 1e-12, "divergence from itself")
    divergence = prior.kl(other)
    assert (divergence >= 0).all(), f"the divergence is {divergence}, below zero"
    drawn = prior.sample(rng, _DRAWS)
    terms = prior.log_density(drawn) - other.log_density(drawn)
    _assert_expectation(terms, divergence, "the divergence")


def interval_has_its_coverage(prior: Prior, coverage: float, rng: np.random.Generator) -> None:
    """A fraction (1 − coverage) / 2 of draws lies below the interval of each parameter, and as many above."""
    drawn = prior.sample(rng, _DRAWS)
    lower, upper = prior.interval(coverage)
    if not isinstance(drawn, tuple):
        drawn, lower, upper = (drawn,), (lower,), (upper,)
    for value, low, high in zip(drawn, lower, upper, strict=True):
        if value.ndim > low.ndim + 1:  # a covariance, of which the interval is for the variances
            value = np.diagonal(value, axis1=-2, axis2=-1)
        tail = np.full(low.shape, 0.5 * (1.0 - coverage))
        _assert_expectation((value < low).astype(np.float64), tail, "the share below the interval")
        _assert_expectation((value > high).astype(np.float64), tail, "the share above the interval")


def density_integrates_to_one(case: PriorCase, prior: Prior, rng: np.random.Generator) -> None:
    """∫ p(θ) dθ = 1, by importance sampling in unbounded coordinates, for one prior.

    Proposals are from a t distribution with the mean and covariance of the prior's draws.
    """
    u = case.transform.unconstrain(prior, prior.sample(rng, _DRAWS))
    proposal = MultivariateT(5.0, u.mean(axis=0), 1.2 * np.atleast_2d(np.cov(u.T)))
    u = proposal.sample(rng, _DRAWS)
    parameters = case.transform.constrain(prior, u)
    with np.errstate(invalid="ignore"):
        log_weight = (
            prior.log_density(parameters)
            + case.transform.log_jacobian(prior, parameters)
            - proposal.log_density(u)
        )
    _assert_expectation(np.exp(np.nan_to_num(log_weight, nan=-np.inf)), np.ones(()), "the integral")


def mode_is_a_maximum(prior: Prior, rng: np.random.Generator) -> None:
    """No draw has a higher density than the mode, where there is one."""
    peak = prior.log_density(prior.mode)
    highest = prior.log_density(prior.sample(rng, 200)).max(axis=0)
    none = np.isnan(peak)
    assert (none | (highest <= peak + 1e-9 * (1.0 + np.abs(peak)))).all(), (
        f"{highest} is above the mode's {peak}"
    )


def mode_is_where_the_density_is_flat(prior: Prior, rng: np.random.Generator) -> None:
    """At a mode inside the support, opposite small steps lower the density about equally; for one prior."""
    mode, peak = prior.mode, prior.log_density(prior.mode)
    for _ in range(5):
        length, drawn = 1.0, prior.sample(rng)
        while np.isfinite(peak) and length > 1e-12:
            ahead, behind = (prior.log_density(_interpolate(mode, drawn, step)) for step in (length, -length))
            if max(abs(peak - ahead), abs(peak - behind)) < 1e-4:
                fall = 2.0 * peak - ahead - behind
                assert abs(ahead - behind) <= 0.5 * abs(fall) + 1e-11 * (1.0 + abs(peak)), (
                    f"beside the mode {mode} of {prior} the log-density is {ahead} here, {behind} there"
                )
                break
            length *= 0.5


def _interpolate(mode: Any, drawn: Any, step: float) -> Any:
    if isinstance(mode, tuple):
        return tuple(_interpolate(m, d, step) for m, d in zip(mode, drawn, strict=True))
    return mode + step * (drawn - mode)


def draws_are_those_of_the_predictive(prior: Prior, rng: np.random.Generator) -> None:
    """The fraction of draws below a quantile is its cdf, in each coordinate and in a sum of coordinates.

    By Bernstein's inequality, a comparison fails by chance less than once in 1e10.
    """
    predictive = prior.predictive()
    for one, drawn in _list_marginals(predictive, predictive.sample(rng, _DRAWS)):
        for probability in (0.1, 0.5, 0.9):
            end = one.quantile(probability)
            expected, fraction = one.cdf(end), (drawn <= end).mean(axis=0)
            deviation = np.sqrt(2.0 * _EXPONENT * expected * (1.0 - expected) / _DRAWS)
            assert (np.abs(fraction - expected) <= deviation + _EXPONENT / (1.5 * _DRAWS)).all(), (
                f"{fraction} of {_DRAWS} draws lie below {end}, and {expected} by the cdf of {one}"
            )


def _list_marginals(
    predictive: conjugate.Distribution, drawn: Array
) -> list[tuple[conjugate.Univariate, Array]]:
    """Return univariate distributions of coordinates and of a sum of them, each with its draws."""
    if isinstance(predictive, MultivariateT):
        pooled = np.sqrt(predictive.scale.sum(axis=(-2, -1)))
        sums = conjugate.StudentT(predictive.freedom, predictive.location.sum(axis=-1), pooled)
        return [(predictive.marginals(), drawn), (sums, drawn.sum(axis=-1))]
    if isinstance(predictive, conjugate.DirichletMultinomial):
        alpha = predictive.concentration
        first, others = alpha[..., :2].sum(axis=-1), alpha[..., 2:].sum(axis=-1)
        two = conjugate.BetaBinomial(predictive.trials, first, others)
        return [(predictive.marginals(), drawn), (two, drawn[..., :2].sum(axis=-1))]
    assert isinstance(predictive, conjugate.Univariate)
    return [(predictive, drawn)]


def a_batch_is_its_members(prior: Prior, a: Any) -> None:
    """A statistic without batch axes updates each prior of a batch as it would update that prior alone."""
    after, evidence = prior.update(a), prior.log_evidence(a)
    assert after.batch == prior.batch, f"a batch of {prior.batch} became one of {after.batch}"
    for index in np.ndindex(prior.batch):
        alone = _select_member(prior, index)
        assert_same_prior(_select_member(after, index), alone.update(a), 1e-12)
        assert_close(evidence[index], alone.log_evidence(a), 1e-11, "log-evidence")


def _select_member(prior: Any, index: Shape) -> Prior:
    rest = {"likelihood": prior.likelihood} if hasattr(prior, "likelihood") else {}
    numbers = {name: value[index] for name, value in list_parameters(prior).items()}
    member: Prior = type(prior)(**numbers, **rest)
    return member


def a_prior_is_a_statistic(prior: Any, a: Any) -> None:
    """from_statistic(as_statistic + a) = update(a), and without a it is the prior itself, to the bit."""
    own = prior.as_statistic()
    rest = (prior.likelihood,) if hasattr(prior, "likelihood") else ()
    assert_same_prior(type(prior).from_statistic(own, *rest), prior)
    assert_same_prior(type(prior).from_statistic(own + a, *rest), prior.update(a), 1e-15)


def _assert_expectation(terms: Array, expected: Array, what: str) -> None:
    """Raise unless the mean over draws (n, …) is as expected, within six standard errors."""
    mean, error = terms.mean(axis=0), terms.std(axis=0) / np.sqrt(len(terms))
    difference = np.abs(mean - expected)
    assert (difference <= _ERRORS * error + 1e-9 * (1.0 + np.abs(expected))).all(), (
        f"{what} is {expected}, and {mean} ± {error} by {len(terms)} draws"
    )
