"""Every law of exponential families, over every registered family."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.arrays import Array
from tamis.families import Bernoulli, Gaussian, Poisson
from tamis.families.conjugacy import ConjugateFamily, ProbabilityFamily, RateFamily
from tamis.families.family import Size
from tamis.testing import FAMILIES, FamilyCase
from tamis.testing import families as laws

CONJUGATE = [case for case in FAMILIES if issubclass(case.kind, ConjugateFamily)]
every_conjugate_family = pytest.mark.parametrize("case", CONJUGATE, ids=lambda case: case.name)
every_family_of_one_parameter = pytest.mark.parametrize(
    "case",
    [case for case in CONJUGATE if issubclass(case.kind, RateFamily | ProbabilityFamily)],
    ids=lambda case: case.name,
)
every_family = pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
a_few = settings(max_examples=12, deadline=None)
the_same_few = settings(max_examples=12, deadline=None, derandomize=True)  # laws that draw must never flake


def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)


@every_family
@a_few
@given(data=st.data())
def test_the_gradient_of_the_log_partition_is_the_mean_of_the_statistic(case: FamilyCase, data: Any) -> None:
    laws.the_gradient_of_the_log_partition_is_the_mean_of_the_statistic(data.draw(case.members))


@every_family
@a_few
@given(data=st.data())
def test_the_curvature_of_the_log_partition_is_the_covariance_of_the_statistic(
    case: FamilyCase, data: Any
) -> None:
    laws.the_curvature_of_the_log_partition_is_the_covariance_of_the_statistic(data.draw(case.members))


@every_family
@a_few
@given(data=st.data())
def test_every_way_round_the_parameters_comes_back(case: FamilyCase, data: Any) -> None:
    laws.parameters_make_the_round_trip(data.draw(case.members))


@every_family
@a_few
@given(data=st.data())
def test_the_density_is_that_of_an_exponential_family(case: FamilyCase, data: Any) -> None:
    laws.the_density_is_that_of_an_exponential_family(data.draw(case.members))


@every_family
@a_few
@given(data=st.data())
def test_total_probability_is_one(case: FamilyCase, data: Any) -> None:
    laws.total_probability_is_one(data.draw(case.members))


@every_family
@a_few
@given(data=st.data())
def test_outside_the_support_nothing_is_possible(case: FamilyCase, data: Any) -> None:
    laws.outside_the_support_nothing_is_possible(data.draw(case.members))


@every_family
@a_few
@given(data=st.data())
def test_entropy_is_the_expected_surprise(case: FamilyCase, data: Any) -> None:
    laws.entropy_is_the_expected_surprise(data.draw(case.members))


@every_family
@the_same_few
@given(data=st.data())
def test_divergence_is_the_expected_log_ratio(case: FamilyCase, data: Any) -> None:
    laws.divergence_is_the_expected_log_ratio(data.draw(case.members), rng())


@every_family
@the_same_few
@given(data=st.data())
def test_maximum_likelihood_is_the_mean_of_the_statistic(case: FamilyCase, data: Any) -> None:
    laws.maximum_likelihood_is_the_mean_of_the_statistic(data.draw(case.members), rng())


@every_family
@the_same_few
@given(data=st.data())
def test_samples_have_the_right_moments(case: FamilyCase, data: Any) -> None:
    laws.samples_have_the_right_moments(data.draw(case.members), rng())


@every_family
@the_same_few
@given(data=st.data())
def test_shards_add_up(case: FamilyCase, data: Any) -> None:
    laws.shards_add_up(data.draw(case.members), rng())


@every_conjugate_family
@the_same_few
@given(data=st.data())
def test_evidence_is_a_ratio_of_prior_normalizers(case: FamilyCase, data: Any) -> None:
    laws.evidence_is_a_ratio_of_prior_normalizers(data.draw(case.members), rng())


@every_conjugate_family
@the_same_few
@given(data=st.data())
def test_evidence_in_parts_is_evidence_at_once(case: FamilyCase, data: Any) -> None:
    laws.evidence_in_parts_is_evidence_at_once(data.draw(case.members), rng())


@every_conjugate_family
@the_same_few
@given(data=st.data())
def test_expectations_under_the_prior_are_those_of_its_draws(case: FamilyCase, data: Any) -> None:
    laws.expectations_under_the_prior_are_those_of_its_draws(data.draw(case.members), rng())


@every_family_of_one_parameter
@the_same_few
@given(data=st.data())
def test_the_prior_is_flat_at_its_mode(case: FamilyCase, data: Any) -> None:
    laws.the_prior_is_flat_at_its_mode(data.draw(case.members))


class WithoutSpread(Poisson):
    """Its draws have the right mean, and nothing else."""

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return np.full((*np.atleast_1d(size), *self.batch), np.round(self.rate))


class Biased(Gaussian):
    """Its draws are a fifth of a standard deviation too large."""

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return super().sample(rng, size) + 0.2 * np.sqrt(self.variance)


class Backwards(Bernoulli):
    """Its divergence is that of the other from it."""

    def _kl(self, other: Self) -> Array:
        return Bernoulli._kl(other, self)


class Bent(Poisson):
    """A that is off by one part in a million."""

    def log_partition(self, natural: Any) -> Array:
        return Poisson.log_partition(self, natural) * (1.0 + 1e-6)


class Smoothed(Bernoulli):
    """Fits with a prior that it does not mention."""

    def fit(self, statistic: Any) -> Self:
        return type(self)((statistic.total.value[..., 0] + 1.0) / (statistic.weight.value + 2.0))


@pytest.mark.parametrize(
    ("law", "member"),
    [
        (lambda member: laws.samples_have_the_right_moments(member, rng()), WithoutSpread(4.0)),
        (lambda member: laws.samples_have_the_right_moments(member, rng()), Biased(1.0, 4.0)),
        (lambda member: laws.divergence_is_the_expected_log_ratio(member, rng()), Backwards(0.3)),
        (laws.the_gradient_of_the_log_partition_is_the_mean_of_the_statistic, Bent(3.0)),
        (laws.the_density_is_that_of_an_exponential_family, Bent(3.0)),
        (laws.entropy_is_the_expected_surprise, Bent(3.0)),
        (lambda member: laws.maximum_likelihood_is_the_mean_of_the_statistic(member, rng()), Smoothed(0.3)),
    ],
)
def test_a_law_notices_a_family_that_breaks_it(law: Callable[[Any], None], member: Any) -> None:
    with pytest.raises(AssertionError):
        law(member)


def test_the_mode_of_a_probability_is_where_the_density_is_infinite() -> None:
    weight, total = np.array([1.5, 1.5, 2.0]), np.array([[1.0], [0.5], [1.0]])
    modes = Bernoulli(0.5).prior_mode(weight, total).probability  # priors Beta(1, ½), Beta(½, 1), Beta(1, 1)
    assert modes.tolist() == [1.0, 0.0, 0.5]
