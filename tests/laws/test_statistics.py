"""Every law of statistics, over every registered statistic."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.stats import Moments, Sums, products
from tamis.testing import STATISTICS, Sample, StatisticCase
from tamis.testing import statistics as laws


def _as_much_data(case: StatisticCase) -> StatisticCase:
    """Summed by rounding, however little it is."""

    def observe(sample: Sample) -> Sums:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(products, "_MAX_EXACT_VALUES", 0)
            return case.observe(sample)

    return replace(case, name=f"{case.name}, as much data", observe=observe)


CASES = (*STATISTICS, *(_as_much_data(case) for case in STATISTICS if case.tolerance))
every_statistic = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
sixteenths = st.integers(-64, 64).map(lambda k: k / 16)  # products of two are floats without rounding


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_addition_has_no_order(case: StatisticCase, data: Any) -> None:
    a, b, c = map(case.observe, data.draw(laws.pairs_of_samples(case, 3)))
    laws.addition_has_no_order(a, b, c)


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nothing_adds_nothing(case: StatisticCase, data: Any) -> None:
    a, b = map(case.observe, data.draw(laws.pairs_of_samples(case)))
    laws.zero_weight_adds_nothing(a, b)


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data(), v=sixteenths, w=sixteenths)
def test_scaling_is_linear(case: StatisticCase, data: Any, v: float, w: float) -> None:
    x, y = data.draw(laws.pairs_of_samples(case))
    laws.scaling_is_linear(case.observe(x.tame()), case.observe(y.tame()), v, w)
    laws.scaling_is_linear(case.observe(x), case.observe(y), v, w, tolerance=1e-15)


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_was_taken_back_was_never_there(case: StatisticCase, data: Any) -> None:
    a, b = map(case.observe, data.draw(laws.pairs_of_samples(case)))
    laws.subtracting_undoes_adding(a, b)


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_outlier_is_taken_away(case: StatisticCase, data: Any) -> None:
    laws.an_outlier_is_taken_away(case, data.draw(case.samples))


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_observing_is_a_homomorphism(case: StatisticCase, data: Any) -> None:
    x, y = data.draw(laws.pairs_of_samples(case))
    laws.observing_is_a_homomorphism(case, x, y)


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data(), shards=st.integers(1, 5))
def test_shards_do_not_matter(case: StatisticCase, data: Any, shards: int) -> None:
    sample = data.draw(case.samples)
    order = data.draw(st.permutations(range(len(sample))))
    laws.shards_do_not_matter(case, sample, order, shards)


@every_statistic
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_it_survives_a_journey(case: StatisticCase, data: Any) -> None:
    laws.it_survives_a_journey(case.observe(data.draw(case.samples)))


def test_a_law_fails_for_a_statistic_that_breaks_it() -> None:
    def of_the_mean(sample: Sample) -> Moments:
        return Moments.observe(sample.values.mean(axis=0, keepdims=True))

    careless = StatisticCase("mean of means", Moments, of_the_mean, laws.samples())
    x, y = Sample(np.zeros((1, 3))), Sample(np.ones((3, 3)))
    with pytest.raises(AssertionError):
        laws.observing_is_a_homomorphism(careless, x, y)
