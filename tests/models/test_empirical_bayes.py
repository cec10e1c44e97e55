"""Hyper-parameters from groups by evidence, for every prior; and what is said where there are none."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.conjugate import Beta, Dirichlet, Gamma, NormalInverseGamma, NormalInverseWishart, simplex
from tamis.conjugate.ascent import maximize
from tamis.conjugate.prior import Prior
from tamis.stats import Moments, Tally

GROUPS = 300


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def coins() -> tuple[Prior, Any]:
    tosses = rng().integers(5, 60, GROUPS)
    heads = rng().binomial(tosses, Beta(3, 7).sample(rng(), GROUPS))
    return Beta(3, 7), Tally.of(tosses, heads[:, None])


def waits() -> tuple[Prior, Any]:
    failures = rng().geometric(Beta(6, 4).sample(rng(), GROUPS), (20, GROUPS)).sum(axis=0) - 20
    return Beta(6, 4, "geometric"), Tally.of(20.0, failures[:, None])


def words() -> tuple[Prior, Any]:
    prior = Dirichlet([1.0, 2.0, 3.0, 0.2])
    return prior, Tally.of(40.0, rng().multinomial(40, prior.sample(rng(), GROUPS)))


def calls() -> tuple[Prior, Any]:
    hours = rng().uniform(0.5, 8.0, GROUPS)
    return Gamma(3, 2), Tally.of(hours, rng().poisson(hours * Gamma(3, 2).sample(rng(), GROUPS))[:, None])


def lifetimes() -> tuple[Prior, Any]:
    prior = Gamma(3, 2, "exponential")
    total = rng().exponential(1 / prior.sample(rng(), GROUPS), (8, GROUPS)).sum(axis=0)
    return prior, Tally.of(8.0, total[:, None])


def heights() -> tuple[Prior, Any]:
    prior = NormalInverseGamma([5.0, 1e6], [0.5, 2.0], [4.0, 3.0], [8.0, 2.0])
    mean, variance = prior.sample(rng(), GROUPS)
    rows = mean + np.sqrt(variance) * rng().standard_normal((12, GROUPS, 2))
    return prior, Moments.observe(rows.reshape(-1, 2), by=np.tile(np.arange(GROUPS), 12))


def clouds() -> tuple[Prior, Any]:
    prior = NormalInverseWishart([1.0, 100.0], 0.5, 8.0, [[8.0, 2.8], [2.8, 4.0]])
    mean, covariance = prior.sample(rng(), GROUPS)
    root = np.linalg.cholesky(covariance)
    rows = mean + (root @ rng().standard_normal((15, GROUPS, 2, 1)))[..., 0]
    return prior, Moments.observe(rows.reshape(-1, 2), by=np.tile(np.arange(GROUPS), 15), form="full")


def refit(prior: Any, groups: Any) -> Any:
    likelihood = getattr(prior, "likelihood", None)
    return type(prior).fit(groups) if likelihood is None else type(prior).fit(groups, likelihood)


CASES = [coins, waits, words, calls, lifetimes, heights, clouds]


@pytest.mark.parametrize("case", CASES)
def test_the_fitted_prior_is_near_the_one_that_made_the_groups(case: Any) -> None:
    prior, groups = case()
    fitted = refit(prior, groups)
    for name in ("a", "b", "concentration", "shape", "rate", "strength", "freedom"):
        if hasattr(prior, name):
            assert_allclose(getattr(fitted, name), getattr(prior, name), rtol=0.35)
    gain = (fitted.log_evidence(groups) - prior.log_evidence(groups)).sum(axis=0)
    # twice the gain is χ² with as many degrees of freedom as hyper-parameters: at most 7 here
    assert ((gain >= 0) & (gain < 12.0)).all()


@pytest.mark.parametrize("case", CASES)
def test_no_step_from_the_fitted_prior_raises_the_evidence(case: Any) -> None:
    prior, groups = case()
    fitted = refit(prior, groups)
    top = fitted.log_evidence(groups).sum(axis=0)
    for name, value in vars_of(fitted).items():
        for factor in (1 - 1e-3, 1 + 1e-3):
            if name == "scale" and value.ndim >= 2:
                moved = value * factor
            else:
                moved = (
                    value * np.where(np.arange(value.shape[-1]) == 0, factor, 1)
                    if value.ndim
                    else value * factor
                )
            near = rebuilt(fitted, {**vars_of(fitted), name: moved})
            assert (near.log_evidence(groups).sum(axis=0) <= top + 1e-9 * np.abs(top)).all(), name


def vars_of(prior: Any) -> dict[str, Array]:
    named = {name: getattr(prior, name) for name in type(prior).__dataclass_fields__}
    return {name: value for name, value in named.items() if isinstance(value, np.ndarray)}


def rebuilt(prior: Any, parameters: dict[str, Array]) -> Any:
    rest = {} if not hasattr(prior, "likelihood") else {"likelihood": prior.likelihood}
    return type(prior)(**parameters, **rest)


def test_columns_are_fitted_each_by_itself() -> None:
    _, one = coins()
    heads = np.stack([one.total.value, 0.5 * one.total.value], axis=1)
    weight = np.stack([one.weight.value, one.weight.value], axis=1)
    both, alone = Beta.fit(Tally.of(weight, heads)), Beta.fit(one)
    assert both.batch == (2,)
    assert_allclose(both.a[0], alone.a, rtol=1e-9)
    assert_allclose(both.mean[1], 0.5 * alone.mean, rtol=0.05)


def test_groups_filed_by_label_are_groups() -> None:
    by = rng().integers(0, 9, 400)
    bits = rng().random(400) < np.linspace(0.1, 0.9, 9)[by]
    keyed = Tally.observe(bits, by=by)
    plain = Tally.of(keyed.weight.value, keyed.total.value)
    assert keyed.keys is not None
    assert_allclose(Beta.fit(keyed).a, Beta.fit(plain).a, rtol=1e-12)


def test_groups_without_weight_are_ignored() -> None:
    full = Tally.of([10.0, 10.0, 10.0], [[1.0], [9.0], [4.0]])
    more = Tally.of([10.0, 0.0, 10.0, 10.0], [[1.0], [0.0], [9.0], [4.0]])
    assert_allclose(Beta.fit(more).a, Beta.fit(full).a, rtol=1e-9)
    by = np.repeat(np.arange(12), 10)
    rows = rng().normal(size=(120, 2)) * rng().uniform(0.3, 3.0, 12)[by, None] + by[:, None]
    rows[by < 3, 1] = np.nan
    fitted = NormalInverseGamma.fit(Moments.observe(rows, by=by, missing=True))
    alone = NormalInverseGamma.fit(Moments.observe(rows[by >= 3, 1], by=by[by >= 3]))
    assert_allclose(fitted.scale[1], alone.scale, rtol=1e-6)
    assert_allclose(fitted.location[1], alone.location, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "groups", "strength"),
    [
        (Beta, Tally.of(10.0, np.full((20, 1), 3.0)), 1e7),
        (Beta, Tally.of(10.0, [[3.0]]), 1e7),
        (Dirichlet, Tally.of(10.0, np.tile([2.0, 3.0, 5.0], (20, 1))), 1e7),
        (Gamma, Tally.of(2.0, np.full((20, 1), 3.0)), 2e6),
        (
            NormalInverseGamma,
            Moments.observe(np.tile([1.0, 2.0, 3.0], 9), by=np.repeat(np.arange(9), 3)),
            3e6,
        ),
    ],
)
def test_groups_that_are_all_alike_drive_the_strength_to_its_cap(
    kind: Any, groups: Any, strength: float
) -> None:
    with pytest.warns(
        RuntimeWarning,
        match="it is limited to a million times the weight of the heaviest group; pool the groups",
    ):
        fitted = kind.fit(groups)
    assert_allclose(fitted.strength, strength, rtol=1e-6)
    mean = groups.mean.mean(axis=0)
    ours = fitted.mean.mean if kind is NormalInverseGamma else fitted.mean
    assert_allclose(np.ravel(ours), np.ravel(mean), rtol=1e-6)


def test_groups_that_have_nothing_in_common_hold_the_strength_at_a_millionth() -> None:
    with pytest.warns(RuntimeWarning, match="have nothing in common"):
        fitted = Beta.fit(Tally.of(10.0, [[0.0], [10.0], [0.0], [10.0], [10.0]]))
    assert_allclose(fitted.strength, 1e-6)
    assert_allclose(fitted.mean, 0.6, rtol=1e-4)


def test_groups_of_one_toss_say_nothing_of_the_strength() -> None:
    with pytest.warns(RuntimeWarning, match="every group is one observation"):
        fitted = Beta.fit(Tally.of(1.0, [[0.0], [1.0], [1.0]]))
    assert_allclose((fitted.mean, fitted.strength), (2 / 3, 1.0), rtol=1e-6)


def test_groups_of_a_fraction_of_a_toss_do_tell_a_strength() -> None:
    groups = Tally.of(np.full(6, 0.9), [[0.0], [0.9], [0.45], [0.3], [0.7], [0.1]])
    with pytest.warns(RuntimeWarning, match="differ no more than by chance"):
        fitted = Beta.fit(groups)
    assert fitted.log_evidence(groups).sum() > Beta(1e3, 1e3).log_evidence(groups).sum()


@pytest.mark.parametrize("unit", [1e-9, 3600.0, 1e12])
@pytest.mark.parametrize("likelihood", ["poisson", "exponential"])
def test_a_unit_of_time_changes_the_rate_and_nothing_else(likelihood: Any, unit: float) -> None:
    _, groups = calls() if likelihood == "poisson" else lifetimes()
    weight, total = groups.weight.value, groups.total.value
    poisson = likelihood == "poisson"
    scaled = Tally.of(unit * weight, total) if poisson else Tally.of(weight, unit * total)
    here, there = Gamma.fit(groups, likelihood), Gamma.fit(scaled, likelihood)
    assert_allclose(there.shape, here.shape, rtol=1e-12)
    assert_allclose(there.rate, unit * here.rate, rtol=1e-12)


@pytest.mark.parametrize("exposure", [1e3, 1e7, 1e9])
def test_a_long_exposure_shows_the_rates_themselves(exposure: float) -> None:
    hidden = Gamma(2, 1).sample(rng(), GROUPS)
    fitted = Gamma.fit(Tally.of(exposure, rng().poisson(hidden * exposure)[:, None]))
    # with rates known, log shape − ψ(shape) is the log of their mean less the mean of their logs
    spread = np.log(hidden.mean()) - np.log(hidden).mean()
    assert_allclose(np.log(fitted.shape) - special.digamma(fitted.shape), spread, rtol=2e-2)
    assert_allclose(fitted.mean, hidden.mean(), rtol=1e-2)


def test_many_categories_are_fitted_to_the_top() -> None:
    k, words = 500, 300
    prior = Dirichlet(rng().gamma(0.5, 1.0, k) + 1e-3)
    table = rng().multinomial(words, prior.sample(rng(), 100)).astype(np.float64)
    alpha = Dirichlet.fit(Tally.of(float(words), table)).concentration
    rise = special.digamma(alpha + table) - special.digamma(alpha)
    pooled = special.digamma(alpha.sum() + words) - special.digamma(alpha.sum())
    slope = (alpha * (rise - pooled)).sum(axis=0)
    assert np.abs(slope[table.sum(axis=0) > 0]).max() < 1e-3


def test_what_never_happened_gets_next_to_nothing() -> None:
    never = Dirichlet.fit(Tally.of(10.0, [[3.0, 7.0, 0.0], [8.0, 2.0, 0.0], [5.0, 5.0, 0.0]]))
    assert 0 < never.mean[2] < 1e-8
    assert Gamma.fit(Tally.of(1.0, np.zeros((4, 1)))).mean < 1e-8


def test_what_cannot_be_fitted_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="got a statistic without a batch axis, expected one group per row"):
        Beta.fit(Tally.observe([1, 0]))
    with pytest.raises(ValueError, match="got 3 groups without weight"):
        Gamma.fit(Tally.of(0.0, np.zeros((3, 1))))
    with pytest.raises(ValueError, match="got 2 groups without weight in column 1, expected data"):
        Beta.fit(Tally.of([[1.0, 0.0], [2.0, 0.0]], np.zeros((2, 2, 1))))
    with pytest.raises(ValueError, match="column 1 is constant in all groups"):
        NormalInverseGamma.fit(Moments.observe([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0]], by=[0, 0, 1]))
    with pytest.raises(ValueError, match="waiting times that are all zero"):
        Gamma.fit(Tally.of(3.0, np.zeros((3, 1))), "exponential")


# ── steps that end early ──


def test_a_climb_whose_gains_are_lost_in_rounding_says_so() -> None:
    """Two hills, of which one has values of few digits: its steps seem to gain nothing, far from the top."""

    def height(place: Array, live: NDArray[np.int64]) -> tuple[Array, Array]:
        value, slope = -np.square(place).sum(axis=-1), -2.0 * place
        return np.where(live == 0, value, np.round(value, -2)), slope

    start = np.array([[3.0], [3.0]])
    with pytest.warns(RuntimeWarning, match=r"did not converge to a maximum.*\(1 of 2 priors\)") as caught:
        top = maximize(height, start, start - 9.0, start + 9.0)
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert_allclose(top[0], 0.0, atol=1e-6)


@pytest.mark.parametrize("newton_steps", [1, 60])
def test_a_dirichlet_of_hard_groups_is_at_the_top_of_its_evidence(
    newton_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rare categories, groups of very different sizes: nothing is warned of, and no slope is left.

    Newton's steps only prepare for L-BFGS, which would warn: one of them is as good as sixty.
    """
    monkeypatch.setattr(simplex, "_NEWTON_STEPS", newton_steps)
    for seed in range(12):
        draw = np.random.default_rng(seed)
        k = int(draw.integers(9, 40))
        alpha = np.exp(draw.normal(0.0, 2.0, k))
        sizes = np.exp(draw.uniform(1.0, 9.0, 25)).astype(int) + 2
        counts = np.array([draw.multinomial(size, draw.dirichlet(alpha)) for size in sizes], dtype=float)
        counts = counts[:, counts.any(axis=0)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = Dirichlet.fit(Tally.of(counts.sum(axis=1), counts)).concentration
        total, weight = found.sum(), counts.sum(axis=1)
        rises = special.digamma(found + counts) - special.digamma(found)
        slopes = found * (rises - (special.digamma(total + weight) - special.digamma(total))[:, None])
        left, size = slopes.sum(axis=0), np.abs(slopes).sum(axis=0)
        inside = found > 2e-9 * total
        assert np.abs(left[inside]).max() <= 1e-5 * max(1.0, size.max()), seed
