"""A sample of the remembered messages is a function of their set."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting.corpus import read
from tamis_mail.reporting.estimates import list_estimates
from tamis_mail.reporting.remembered import choose_sample, read_remembered
from tamis_mail.sample import messages
from tamis_mail.sieve import Sieve
from tamis_mail.verdict.fitting import INTERCEPT_WIDTH
from tamis_mail.verdict.rule import Weights

MAIL = [one for _, one in zip(range(60), messages(2026), strict=False)]


@pytest.fixture
def sieve(tmp_path: Path) -> Sieve:
    return Sieve.open(tmp_path / "mail.tamis")


def learn(sieve: Sieve, order: list[int]) -> None:
    for label in (SPAM, HAM):
        sieve.learn_many([MAIL[row].raw for row in order if MAIL[row].label == label], label, processes=1)


def test_the_corpus_is_that_of_the_mail(sieve: Sieve) -> None:
    learn(sieve, [*range(60)])
    remembered = read_remembered(sieve.store, 1000)
    expected = read(
        ((RawMessage(one.raw, "", row), one.label == SPAM) for row, one in enumerate(MAIL)), processes=1
    )
    order = sorted(range(60), key=expected.digests.__getitem__)
    assert list(remembered.corpus.digests) == [expected.digests[row] for row in order]
    for place, row in enumerate(order):
        assert remembered.corpus.features_of(place)[0].tolist() == expected.features_of(row)[0].tolist()
    assert remembered.corpus.is_spam.tolist() == expected.is_spam[order].tolist()
    assert remembered.total == len(remembered.corpus)


def test_the_order_of_learning_does_not_change_the_sample(sieve: Sieve, tmp_path: Path) -> None:
    other = Sieve.open(tmp_path / "other.tamis")
    learn(sieve, [*range(60)])
    learn(other, [*range(59, -1, -1)])
    first, second = (read_remembered(one.store, 20) for one in (sieve, other))
    assert first.corpus.digests == second.corpus.digests
    assert len(first.corpus) == 20
    assert first.total == 60
    np.testing.assert_array_equal(first.corpus.ids, second.corpus.ids)
    np.testing.assert_array_equal(first.dates, second.dates)


@given(st.lists(st.booleans(), max_size=200), st.integers(4, 100))
def test_a_sample_has_both_classes_if_the_mail_has(marks: list[bool], limit: int) -> None:
    is_spam = np.array(marks, np.bool_)
    chosen = choose_sample(is_spam, limit)
    assert len(chosen) == min(limit, len(marks))
    assert (np.diff(chosen) > 0).all()
    assert set(is_spam[chosen].tolist()) == set(marks)
    for kind in (False, True):
        members = np.flatnonzero(is_spam == kind)
        assert chosen[is_spam[chosen] == kind].tolist() == members[: (is_spam[chosen] == kind).sum()].tolist()


def test_estimates_are_the_prior_and_then_the_fit(sieve: Sieve) -> None:
    before = list_estimates(sieve.store)
    assert all(one.value == one.prior and one.deviation == one.prior_deviation for one in before)
    learn(sieve, [*range(60)])
    after = list_estimates(sieve.store)
    weights = Weights.of(sieve.store)
    assert weights is not None
    assert [one.value for one in after] == [*weights.scales, weights.intercept]
    assert [one.deviation for one in after] == [*weights.deviations[1:], weights.deviations[0]]
    assert [one.prior for one in after] == [one.value for one in before]
    assert after[-1].prior_deviation == INTERCEPT_WIDTH
