"""Property tests (laws) of exponential families, and members (distributions) to test.

A law is a function of a member, or a batch of members, that raises AssertionError. `FAMILIES` holds members
of every public family to draw. A family of one column with a conjugate prior needs no more than its line in
`tamis.families.registry`: members are drawn from its prior. Expectations are not sampled but summed or
integrated over `nodes`, so the laws hold to about ten digits. To test another family of your own, register
nodes for it and make a `FamilyCase`.

Tolerances are in the family's own units, where s is the standard deviation of T(x): no data can distinguish
parameters η that differ by a small part of 1/s, nor means that differ by a small part of s.
"""

import pickle
from dataclasses import dataclass, fields, replace
from functools import singledispatch
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.families import (
    Bernoulli,
    Categorical,
    Exponential,
    Family,
    Gaussian,
    Geometric,
    Multinomial,
    MultivariateGaussian,
    Poisson,
    registry,
)
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.family import bregman_divergence
from tamis.linalg import Cholesky
from tamis.stats import Moments
from tamis.testing.statistics import assert_same

FALSE_ALARM = 1e-9  # the probability that `samples_have_the_right_moments` fails for a correct family

_CLOSE = 1e-8  # tolerance, in units of s or of 1/s
_DRAWS = 4000  # the number of draws whose means are compared with expectations
_STEP = 0.02  # in units of 1/s; the error of the eighth-order difference is about 64 · 0.02⁸ s
_DIFFERENCE = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}  # c by j: f′ ≈ Σ c (f(jh) − f(−jh)) / h


@dataclass(frozen=True)
class FamilyCase:
    """A family, in one of its variants, and members of it, none of them at the edge of the parameters.

    `variant` names a parametrisation, such as "minimal" (k − 1 natural parameters for k categories), or the
    form of a covariance; it is "" for the default.
    """

    kind: type[Family]
    members: SearchStrategy[Any]
    variant: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind.__name__} {self.variant}".strip()


@dataclass(frozen=True)
class Nodes:
    """Points x and weights w such that Σ w p(x) f(x) is E[f(x)] for a member p and a smooth f."""

    points: Array  # (n, *batch, *event); batch axes may be 1
    weights: Array  # (n, *batch)


@singledispatch
def nodes(member: Family) -> Nodes:
    """Return points and weights to sum or integrate under the member, with an error of about 1e-12.

    A family of counts, or of positive numbers, needs no nodes of its own: see `_make_generic_nodes`.
    """
    if not isinstance(member, ConjugateFamily) or member.event_axes or member.supports(-1.0):
        raise TypeError(
            f"got a {type(member).__name__}, expected a family with nodes: register them with @nodes.register"
        )
    return _make_generic_nodes(member)


def _make_generic_nodes(member: Family) -> Nodes:
    """Return counts from 0 to far beyond any draw; or the trapezoidal rule for positive numbers.

    The rule has equal steps in t, where x is exp(t − exp(−t)) times the median: the integrand falls faster
    than any power at both ends of t.
    """
    draws = member.sample(np.random.default_rng(0), 1000)
    if member.discrete:
        return _make_count_nodes(np.arange(12.0 * draws.max() + 100.0), member)
    t = np.arange(-5.0, 5.0, 0.02).reshape(-1, *(1,) * len(member.batch))
    points = np.median(draws, axis=0) * np.exp(t - np.exp(-t))
    return Nodes(points, 0.02 * points * (1.0 + np.exp(-t)))


def _make_count_nodes(points: Array, member: Family) -> Nodes:
    """Return the same points for every member of the batch, each of weight 1."""
    batch = (1,) * len(member.batch)
    return Nodes(points.reshape(len(points), *batch, *points.shape[1:]), np.ones((len(points), *batch)))


@nodes.register
def _(member: Bernoulli) -> Nodes:
    return _make_count_nodes(np.arange(2.0), member)


@nodes.register
def _(member: Categorical) -> Nodes:
    return _make_count_nodes(np.arange(float(member.categories)), member)


@nodes.register
def _(member: Multinomial) -> Nodes:
    k = member.categories
    counts = [
        np.bincount(np.array(chosen, dtype=np.int64), minlength=k)
        for n in np.unique(member.trials)
        for chosen in combinations_with_replacement(range(k), int(n))
    ]
    return _make_count_nodes(np.array(counts, dtype=np.float64), member)


# On the real line the trapezoidal rule is exact up to rounding for functions this smooth, at such steps.
@nodes.register
def _(member: Gaussian) -> Nodes:
    z = np.arange(-10.0, 10.01, 0.5).reshape(-1, *(1,) * len(member.batch))
    scale = np.sqrt(member.variance)
    return Nodes(member.mean + scale * z, np.broadcast_to(0.5 * scale, (len(z), *member.batch)))


@nodes.register
def _(member: MultivariateGaussian) -> Nodes:
    d = member.dimension
    axis = np.arange(-8.45, 8.46, 0.65)
    z = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, *(1,) * len(member.batch), d)
    matrix = member.covariance
    if member.form != "full":
        variance = matrix if member.form == "diagonal" else matrix[..., None]
        matrix = variance[..., None] * np.eye(d)
    factor = Cholesky.of(matrix)
    volume = 0.65**d * np.exp(0.5 * factor.log_determinant())
    # `colour` multiplies standard normal vectors by L, so that they have the covariance LLᵀ.
    return Nodes(member.mean + factor.colour(z), np.broadcast_to(volume, (len(z), *member.batch)))


_batches = st.sampled_from([(), (3,), (2, 2)])  # shapes


def _floats(shape: tuple[int, ...], low: float, high: float) -> SearchStrategy[Array]:
    return hnp.arrays(np.float64, shape, elements=st.floats(low, high, allow_subnormal=False))


def _powers(shape: tuple[int, ...], low: float, high: float) -> SearchStrategy[Array]:
    """Draw powers of ten; the exponents are from `low` to `high`."""
    return _floats(shape, low, high).map(lambda exponent: np.asarray(10.0**exponent))


@st.composite
def _probabilities(draw: st.DrawFn, batch: tuple[int, ...]) -> Array:
    weights = draw(_floats((*batch, draw(st.integers(2, 4))), 0.01, 1.0))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@st.composite
def _multinomials(draw: st.DrawFn, minimal: bool) -> Multinomial:
    batch = draw(_batches)
    trials = draw(hnp.arrays(np.int64, batch, elements=st.integers(1, 5)))
    return Multinomial(trials, draw(_probabilities(batch)), minimal)


@st.composite
def _gaussians(draw: st.DrawFn) -> Gaussian:
    batch = draw(_batches)
    deviation = draw(_powers(batch, -4.0, 4.0))
    return Gaussian(deviation * draw(_floats(batch, -20.0, 20.0)), deviation**2)


@st.composite
def _vectors(draw: st.DrawFn, form: Any) -> MultivariateGaussian:
    batch, d = draw(_batches), draw(st.integers(1, 2))
    unit = draw(_powers(batch, -3.0, 3.0))
    mean = unit[..., None] * draw(_floats((*batch, d), -10.0, 10.0))
    if form == "spherical":
        return MultivariateGaussian(mean, unit**2, form)
    scale = unit[..., None] * draw(_floats((*batch, d), 0.5, 2.0))
    if form == "diagonal":
        return MultivariateGaussian(mean, scale**2, form)
    lower = scale[..., None] * (np.eye(d) + np.tril(draw(_floats((*batch, d, d), -1.0, 1.0)), -1))
    return MultivariateGaussian(mean, lower @ np.swapaxes(lower, -1, -2), form)


@st.composite
def _members_near(draw: st.DrawFn, member: Any) -> Any:
    """Draw members of the family of `member`, from a conjugate prior whose mean is near it.

    `fixed` has the names of the parameters that are given, not inferred; they are changed, too.
    """
    changes = {name: getattr(member, name) * draw(_powers((), -0.5, 1.0)) for name in member.fixed}
    kind = replace(member, **{name: float(value) for name, value in changes.items()})
    batch, rng = draw(_batches), np.random.default_rng(draw(st.integers(0, 2**32)))
    weight = np.full(batch, 8.0)
    return kind.sample_prior(
        rng, weight, weight[..., None] * kind.mean_parameters * draw(_powers((), -1.0, 1.0))
    )


_CASES_BY_HAND: tuple[FamilyCase, ...] = (
    FamilyCase(Bernoulli, _batches.flatmap(lambda batch: _floats(batch, 0.01, 0.99)).map(Bernoulli)),
    FamilyCase(Categorical, _batches.flatmap(_probabilities).map(Categorical)),
    FamilyCase(
        Categorical, _batches.flatmap(_probabilities).map(lambda p: Categorical(p, minimal=True)), "minimal"
    ),
    FamilyCase(Multinomial, _multinomials(minimal=False)),
    FamilyCase(Multinomial, _multinomials(minimal=True), "minimal"),
    FamilyCase(Poisson, _batches.flatmap(lambda batch: _powers(batch, -2.0, 2.0)).map(Poisson)),
    FamilyCase(Exponential, _batches.flatmap(lambda batch: _powers(batch, -8.0, 8.0)).map(Exponential)),
    FamilyCase(Geometric, _batches.flatmap(lambda batch: _floats(batch, 0.02, 0.99)).map(Geometric)),
    FamilyCase(Gaussian, _gaussians()),
    FamilyCase(MultivariateGaussian, _vectors("full")),
    FamilyCase(MultivariateGaussian, _vectors("diagonal"), "diagonal"),
    FamilyCase(MultivariateGaussian, _vectors("spherical"), "spherical"),
)
FAMILIES: tuple[FamilyCase, ...] = (
    *_CASES_BY_HAND,
    *(
        FamilyCase(type(member), _members_near(member))
        for member in registry.FAMILIES.values()
        if isinstance(member, ConjugateFamily) and type(member) not in {case.kind for case in _CASES_BY_HAND}
    ),
)


def the_gradient_of_the_log_partition_is_the_mean_of_the_statistic(member: Family) -> None:
    """∇A(η) = mean_of(η) = E[T]."""
    s = _compute_deviations(member)
    mean = member.mean_of(member.natural)
    _assert_close("mean_of(η), E[T]", mean, _expect(member, member.sufficient(nodes(member).points)), s)
    _assert_close("mean_of(η), the mean parameters", mean, member.mean_parameters, s)
    for i in range(member.natural.shape[-1]):
        slope = _differentiate(member, member.log_partition, i)
        _assert_close(f"∂A/∂η[{i}], mean_of(η)[{i}]", slope, mean[..., i], s[..., i])


def the_curvature_of_the_log_partition_is_the_covariance_of_the_statistic(member: Family) -> None:
    """∇²A(η) = ∂mean_of/∂η = Cov[T]."""
    s = _compute_deviations(member)
    centred = member.sufficient(nodes(member).points) - member.mean_parameters
    for i in range(member.natural.shape[-1]):
        covariance = _expect(member, centred * centred[..., i : i + 1])
        slope = _differentiate(member, member.mean_of, i)
        _assert_close(f"∂mean/∂η[{i}], Cov[T, T[{i}]]", slope, covariance, s * s[..., i : i + 1])


def parameters_make_the_round_trip(member: Family) -> None:
    """Converting natural to mean to natural parameters, or either to the usual ones, changes no member."""
    s = _compute_deviations(member)
    back = member.natural_of(member.mean_of(member.natural))
    _assert_close("natural_of(mean_of(η)), η", back, member.natural, 1.0 / np.where(s > 0, s, 1.0))
    for way, result in (
        ("with_natural", member.with_natural(member.natural)),
        ("with_mean", member.with_mean(member.mean_parameters)),
        ("pickle", pickle.loads(pickle.dumps(member))),
    ):
        assert type(result) is type(member), f"{way} made a {type(result).__name__}"
        _assert_close(f"E[T] by way of {way}, before", result.mean_parameters, member.mean_parameters, s)
        for field in fields(member):  # type: ignore[arg-type]
            before, after = getattr(member, field.name), getattr(result, field.name)
            if isinstance(before, np.ndarray):
                size = np.abs(before).max(initial=0.0)
                _assert_close(f"{field.name} by way of {way}, before", after, before, np.asarray(size))
            elif not isinstance(before, Cholesky):
                assert after == before, f"{field.name} by way of {way}: {after!r} is not {before!r}"


def the_density_is_that_of_an_exponential_family(member: Family) -> None:
    """log p(x) = log h(x) + η·T(x) − A(η)."""
    x = nodes(member).points
    derived, direct = Family.log_density(member, x), member.log_density(x)
    size = (np.abs(member.natural) * np.abs(member.sufficient(x))).sum(axis=-1) + np.abs(derived)
    is_possible = np.broadcast_to(np.isfinite(member.log_base(x)), direct.shape)
    assert np.isneginf(direct[~is_possible]).all(), "p(x) is above 0 where h(x) is 0"
    _assert_close(
        "log p, log h + η·T − A", direct[is_possible], derived[is_possible], 1e-3 * (1.0 + size[is_possible])
    )


def total_probability_is_one(member: Family) -> None:
    """Σ p(x) = 1 or ∫ p(x) dx = 1."""
    grid = nodes(member)
    _assert_close("total probability, one", (grid.weights * member.density(grid.points)).sum(axis=0), 1.0)


def outside_the_support_nothing_is_possible(member: Family) -> None:
    """log p is −∞ there: not NaN, not a warning, not an exception."""
    event = nodes(member).points.shape[1 + len(member.batch) :]
    for value in (np.nan, np.inf, -np.inf, *((0.5, -1.0) if member.discrete else ())):
        result = member.log_density(np.full((*member.batch, *event), value))
        assert np.isneginf(result).all(), f"log p({value}) is {result}, expected −∞"


def entropy_is_the_expected_surprise(member: Family) -> None:
    """H = −E[log p(x)] = A(η) − η·E[T] − E[log h(x)]."""
    log_p = member.log_density(nodes(member).points)
    expected = -_expect(member, np.where(np.isfinite(log_p), log_p, 0.0)[..., None])[..., 0]
    _assert_close("entropy, −E[log p]", member.entropy(), expected)
    size = np.abs(member.natural * member.mean_parameters).sum(axis=-1)
    _assert_close(
        "entropy, A − η·E[T] − E[log h]", member.entropy(), Family.entropy(member), 1e-3 * (1.0 + size)
    )


def divergence_is_the_expected_log_ratio(member: Family, rng: np.random.Generator) -> None:
    """KL(p ‖ q) = E[log p(x) − log q(x)] ≥ 0, the Bregman divergence of A; and KL(p ‖ p) = 0."""
    other = draw_neighbour(member, rng)
    kl = member.kl(other)
    assert (kl >= 0).all(), f"KL(p ‖ q) is {kl}, expected at least 0"
    same = member.kl(member)
    assert ((same >= 0) & (same < 1e-24)).all(), f"KL(p ‖ p) is {same}, expected 0, or roundings squared"
    x = nodes(member).points
    is_possible = np.isfinite(member.log_density(x))
    p, q = (np.where(is_possible, each.log_density(x), 0.0) for each in (member, other))
    _assert_close("KL(p ‖ q), E[log p − log q]", kl, _expect(member, (p - q)[..., None])[..., 0])
    size = np.abs(member.natural * member.mean_parameters).sum(axis=-1)
    _assert_close(
        "KL(p ‖ q), the Bregman divergence", kl, bregman_divergence(member, other), 1e-3 * (1.0 + size)
    )


def maximum_likelihood_is_the_mean_of_the_statistic(member: Family, rng: np.random.Generator) -> None:
    """At `fit`, E[T] is the mean of T(x): the log-likelihood has gradient zero, and no member does better."""
    x = member.sample(rng, 50)
    fitted = member.fit(member.observe(x))
    gradient = member.sufficient(x).mean(axis=0) - fitted.mean_parameters
    _assert_close("gradient of the log-likelihood, zero", gradient, 0.0, _compute_deviations(member))
    best = fitted.log_density(x).sum(axis=0)
    for other in (member, draw_neighbour(member, rng)):
        worse = other.log_density(x).sum(axis=0)
        assert (worse <= best + _CLOSE * (1.0 + np.abs(best))).all(), (
            f"log-likelihood {worse} beats fit's {best}"
        )


def samples_have_the_right_moments(member: Family, rng: np.random.Generator) -> None:
    """Draws are of the right shape and in the support; T(x) and p(x) have the right means over them.

    A correct sampler fails with probability below `FALSE_ALARM`, whatever its tails. For T, the exponential
    of n(t·(mean of T − E[T]) − (A(η + t) − A(η) − t·E[T])) has expectation 1 for any t, so that by Markov's
    inequality it is seldom large; t is six standard errors of the mean of T, in units of 1/s². For p divided
    by its peak, which is between 0 and 1, the bound is Hoeffding's inequality.
    """
    grid, eta, s = nodes(member), member.natural, _compute_deviations(member)
    x = member.sample(rng, _DRAWS)
    shape = (_DRAWS, *member.batch, *grid.points.shape[1 + len(member.batch) :])
    assert x.shape == shape, f"draws of shape {x.shape}, expected {shape}"
    assert member.supports(x).all(), "a draw is outside the support"
    tests = 3 * s.size + 1  # at least the number of comparisons
    difference_of_means = member.sufficient(x).mean(axis=0) - member.mean_parameters
    for i in range(eta.shape[-1]):
        for sign in (-1.0, 1.0):
            t = sign * 6.0 / np.sqrt(_DRAWS) * _choose_steps(member)[..., i]
            tilted = eta + t[..., None] * (np.arange(eta.shape[-1]) == i)
            growth = (
                member.log_partition(tilted) - member.log_partition(eta) - t * member.mean_parameters[..., i]
            )
            exponent = _DRAWS * (t * difference_of_means[..., i] - growth)
            assert (exponent < np.log(tests / FALSE_ALARM)).all(), (
                f"the mean of T[{i}] is off by {difference_of_means[..., i]}"
            )
    density = np.broadcast_to(member.density(grid.points), (len(grid.points), *member.batch))
    peak = density.max(axis=0)
    expected = _expect(member, (density / peak)[..., None])[..., 0]
    difference = np.abs((member.density(x) / peak).mean(axis=0) - expected)
    limit = np.sqrt(np.log(2.0 * tests / FALSE_ALARM) / (2.0 * _DRAWS))
    assert (difference < limit).all(), f"the mean of p(x)/peak is off by {difference}, expected below {limit}"


def shards_add_up(member: Family, rng: np.random.Generator) -> None:
    """Adding the statistics of parts equals observing all rows; subtracting a part undoes adding it."""
    x, weights = member.sample(rng, 12), rng.integers(1, 4, 12).astype(np.float64)
    first, second = member.observe(x[:5], weights[:5]), member.observe(x[5:], weights[5:])
    together = member.observe(x, weights)
    is_rounded = isinstance(together, Moments) and together.form == "full"
    assert_same(first + second, together, 1e-12 if is_rounded else 0.0)
    assert_same(first + second - second, first)


def make_prior(member: ConjugateFamily, strength: float = 6.0) -> tuple[Array, Array]:
    """Return ν and τ of a prior whose mean parameters are the member's."""
    weight = np.full(member.batch, strength)
    return weight, np.asarray(weight[..., None] * member.mean_parameters)


def evidence_is_a_ratio_of_prior_normalizers(member: ConjugateFamily, rng: np.random.Generator) -> None:
    """log p(data) − Σ log h = log Z(ν + n, τ + ΣT) − log Z(ν, τ)."""
    weight, total = make_prior(member)
    x = member.sample(rng, 5)
    n, t = np.full(member.batch, 5.0), member.sufficient(x).sum(axis=0)
    before = member.log_prior_normalizer(weight, total)
    after = member.log_prior_normalizer(weight + n, total + t)
    scale = 1e-3 * (1.0 + np.abs(before) + np.abs(after))
    _assert_close("log-evidence, Z/Z", member.log_evidence(weight, total, n, t), after - before, scale)


def evidence_in_parts_is_evidence_at_once(member: ConjugateFamily, rng: np.random.Generator) -> None:
    """p(x, y) = p(x) p(y | x), the last by `log_predictive`."""
    weight, total = make_prior(member)
    first, second = member.sample(rng, 2)
    one, t, u = np.ones(member.batch), member.sufficient(first), member.sufficient(second)
    both = member.log_evidence(weight, total, 2.0 * one, t + u)
    chain = member.log_evidence(weight, total, one, t) + member.log_predictive(
        weight + 1.0, total + t, second
    )
    _assert_close("p(x, y), p(x) p(y | x)", both + member.log_base(second), chain)


def expectations_under_the_prior_are_those_of_its_draws(
    member: ConjugateFamily, rng: np.random.Generator
) -> None:
    """E[E[T]] = τ/ν and E[p(x)] is the predictive probability of x, within six standard errors of draws."""
    weight, total = make_prior(member)
    shape = (_DRAWS, *member.batch)
    drawn = member.sample_prior(
        rng, np.broadcast_to(weight, shape), np.broadcast_to(total, (*shape, total.shape[-1]))
    )
    expected = member.prior_mean(weight, total)
    if type(member) is not Gaussian:  # its prior mean is that of mean and variance, not of E[x²]
        _assert_expected("E[T] under the prior", drawn.mean_parameters, expected.mean_parameters)
    for x in member.sample(rng, 3):
        predictive = np.exp(member.log_predictive(weight, total, x))
        _assert_expected("p(x) under the prior", drawn.density(x), predictive)


def the_prior_is_flat_at_its_mode(member: Any) -> None:
    """η·τ − νA(η) + log |dη/dθ| has slope zero in the one usual parameter θ that is inferred."""
    (name,) = (field.name for field in fields(member) if field.name not in member.fixed)
    weight, total = make_prior(member, 1000.0)  # strong enough that the mode is inside the support
    mode = member.prior_mode(weight, total)
    theta = getattr(mode, name)
    step = 1e-3 * np.minimum(theta, 1.0 - theta) if name == "probability" else 1e-3 * theta

    def natural(place: Array) -> Array:
        return replace(member, **{name: place}).natural[..., 0]  # type: ignore[no-any-return]

    def log_density(place: Array) -> Array:
        slope = sum(
            c * (natural(place + 1e-2 * j * step) - natural(place - 1e-2 * j * step))
            for j, c in _DIFFERENCE.items()
        )
        eta = natural(place)
        volume = np.log(np.abs(slope) / (1e-2 * step))
        return np.asarray(eta * total[..., 0] - weight * member.log_partition(eta[..., None]) + volume)

    slope = sum(
        c * (log_density(theta + j * step) - log_density(theta - j * step)) for j, c in _DIFFERENCE.items()
    )
    assert (np.abs(slope) < 1e-7).all(), f"beside the mode {theta} the log-density rises by {slope} in a step"


def _assert_expected(what: str, draws: Array, expected: Array) -> None:
    """Raise unless the mean over draws (n, …) is as expected, within six standard errors."""
    mean, error = draws.mean(axis=0), draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(mean - expected) <= 6.0 * error + _CLOSE * np.abs(expected)).all(), (
        f"{what} is {expected}, and {mean} ± {error} by {len(draws)} draws"
    )


def draw_neighbour(member: Family, rng: np.random.Generator) -> Any:
    """Return another member, about a third of a standard deviation of T away."""
    direction = rng.uniform(-1.0, 1.0, member.natural.shape) / member.natural.shape[-1]
    return member.with_natural(member.natural + 0.3 * direction * _choose_steps(member))


def _expect(member: Family, values: Array) -> Array:
    """Return E[f] for values f(x) at the nodes (n, *batch, terms)."""
    grid = nodes(member)
    mass = grid.weights * member.density(grid.points)
    return np.asarray((mass[..., None] * values).sum(axis=0))


def _compute_deviations(member: Family) -> Array:
    """Return s, the standard deviations of T (*batch, k)."""
    centred = member.sufficient(nodes(member).points) - member.mean_parameters
    return np.sqrt(_expect(member, centred**2))


def _choose_steps(member: Family) -> Array:
    """Return the step of each η for numerical derivatives of A (*batch, k): 1/s, and at most 1 for counts."""
    s = _compute_deviations(member)
    steps = 1.0 / np.where(s > 0, s, 1.0)
    return np.minimum(steps, 1.0) if member.discrete else steps


def _differentiate(member: Family, function: Any, i: int) -> Array:
    """Return the derivative of a function of η by η[i]."""
    h = _STEP * _choose_steps(member)[..., i : i + 1]
    along: NDArray[np.bool_] = np.arange(member.natural.shape[-1]) == i
    slope = np.asarray(0.0)
    for j, coefficient in _DIFFERENCE.items():
        up, down = function(member.natural + j * h * along), function(member.natural - j * h * along)
        slope = slope + coefficient * (up - down) / (h if up.ndim == h.ndim else h[..., 0])
    return slope


def _assert_close(what: str, left: Array, right: Array | float, scale: Array | float = 1.0) -> None:
    """Raise unless both agree within a small part of the scale, and of the right side for its rounding."""
    difference = np.abs(left - right)
    allowed = _CLOSE * scale + 1e-11 * np.abs(right)
    assert (difference <= allowed).all(), (
        f"{what}: {left} and {right}, {difference} apart, expected within {allowed}"
    )
