"""Every law of conjugate priors, over every registered prior."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.testing import PRIORS, PriorCase
from tamis.testing import priors as laws

every_prior = pytest.mark.parametrize("case", PRIORS, ids=lambda case: case.name)
every_single_prior = pytest.mark.parametrize(
    "case", [case for case in PRIORS if not case.batch], ids=lambda case: case.name
)
every_batch = pytest.mark.parametrize(
    "case", [case for case in PRIORS if case.batch], ids=lambda case: case.name
)
generators = st.integers(0, 2**32).map(np.random.default_rng)


@every_prior
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_updating_in_parts_is_updating_at_once(case: PriorCase, data: Any) -> None:
    prior, a, b = data.draw(case.priors), data.draw(case.statistics), data.draw(case.statistics)
    laws.updating_in_parts_is_updating_at_once(prior, a, b)


@every_prior
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nothing_observed_changes_nothing(case: PriorCase, data: Any) -> None:
    laws.updating_by_nothing_changes_nothing(data.draw(case.priors), data.draw(case.statistics))


@every_prior
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_evidence_is_a_chain(case: PriorCase, data: Any) -> None:
    prior, a, b = data.draw(case.priors), data.draw(case.statistics), data.draw(case.statistics)
    laws.evidence_is_a_chain(prior, a, b)
    laws.evidence_is_a_ratio_of_normalizers(prior, a)


@every_prior
@settings(max_examples=15, deadline=None)
@given(data=st.data(), rng=generators)
def test_bayes_theorem_holds(case: PriorCase, data: Any, rng: np.random.Generator) -> None:
    laws.bayes_theorem_holds(case, data.draw(case.priors), data.draw(case.statistics), rng)


@every_prior
@settings(max_examples=25, deadline=None)
@given(data=st.data(), rng=generators)
def test_the_predictive_density_is_the_evidence_of_one_more(
    case: PriorCase, data: Any, rng: np.random.Generator
) -> None:
    laws.predictive_is_the_evidence_of_one_more(case, data.draw(case.priors), rng)


@every_prior
@settings(max_examples=10, deadline=None)
@given(data=st.data(), rng=generators)
def test_divergence_is_an_expectation(case: PriorCase, data: Any, rng: np.random.Generator) -> None:
    laws.divergence_is_an_expectation(data.draw(case.priors), data.draw(case.priors), rng)


@every_prior
@settings(max_examples=10, deadline=None)
@given(data=st.data(), rng=generators, coverage=st.sampled_from([0.5, 0.9]))
def test_an_interval_has_its_coverage(
    case: PriorCase, data: Any, rng: np.random.Generator, coverage: float
) -> None:
    laws.interval_has_its_coverage(data.draw(case.priors), coverage, rng)


@every_single_prior
@settings(max_examples=10, deadline=None)
@given(data=st.data(), rng=generators)
def test_a_density_integrates_to_one(case: PriorCase, data: Any, rng: np.random.Generator) -> None:
    laws.density_integrates_to_one(case, data.draw(case.priors), rng)


@every_prior
@settings(max_examples=15, deadline=None)
@given(data=st.data(), rng=generators)
def test_the_mode_is_a_maximum(case: PriorCase, data: Any, rng: np.random.Generator) -> None:
    laws.mode_is_a_maximum(data.draw(case.priors), rng)


@every_single_prior
@settings(max_examples=15, deadline=None)
@given(data=st.data(), rng=generators)
def test_the_density_is_flat_at_the_mode(case: PriorCase, data: Any, rng: np.random.Generator) -> None:
    laws.mode_is_where_the_density_is_flat(data.draw(case.priors), rng)


@every_prior
@settings(max_examples=15, deadline=None)
@given(data=st.data(), rng=generators)
def test_draws_are_those_of_the_predictive(case: PriorCase, data: Any, rng: np.random.Generator) -> None:
    laws.draws_are_those_of_the_predictive(data.draw(case.priors), rng)


@every_batch
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_batch_is_its_members(case: PriorCase, data: Any) -> None:
    single = next(one for one in PRIORS if one.kind is case.kind and not one.batch)
    laws.a_batch_is_its_members(data.draw(case.priors), data.draw(single.statistics))


@pytest.mark.parametrize(
    "case", [case for case in PRIORS if hasattr(case.kind, "as_statistic")], ids=lambda case: case.name
)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_prior_is_a_statistic_that_nobody_observed(case: PriorCase, data: Any) -> None:
    laws.a_prior_is_a_statistic(data.draw(case.priors), data.draw(case.statistics))
