"""A verdict is what its evidence adds up to, and claims no more than what was learned."""

from math import exp, isclose, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail import bag
from tamis_mail.labels import Label
from tamis_mail.verdict import RULE, Rule, judge
from tamis_mail.verdict.arrays import judge_many
from tamis_mail.verdict.rule import View

NAMES = ("spam", "ham", "work", "spam?", "ham?")


def labels(*weights: int, lent: int = 0) -> list[Label]:
    return [Label(i, name, w, w, lent, 0) for i, (name, w) in enumerate(zip(NAMES, weights, strict=False))]


COUNTS = st.dictionaries(
    st.integers(0, 2**48 - 1), st.lists(st.integers(0, 50), min_size=5, max_size=5), min_size=1, max_size=40
)


@given(COUNTS, st.lists(st.integers(50, 200), min_size=2, max_size=5), st.sampled_from([1, 4]))
def test_evidence_sums_to_the_log_odds(counts: dict[int, list[int]], weights: list[int], unit: int) -> None:
    rows = {key: row[: len(weights)] for key, row in counts.items()}
    verdict = judge(rows, labels(*weights), RULE, unit, lambda: {key: f"t{key}" for key in rows})
    evidence = verdict.evidence
    assert isclose(sum(one.contribution for one in evidence), verdict.log_odds, abs_tol=1e-9)
    assert [abs(one.contribution) for one in evidence] == sorted(
        (abs(e.contribution) for e in evidence), reverse=True
    )
    assert isclose(sum(verdict.probabilities.values()), 1)
    assert isclose(verdict.probabilities["spam"], verdict.probability)


@given(st.lists(COUNTS, min_size=1, max_size=5), st.lists(st.integers(0, 200), min_size=2, max_size=5))
def test_many_are_judged_like_one(messages: list[dict[int, list[int]]], weights: list[int]) -> None:
    known = labels(*weights, lent=3)
    keys = np.array([key for message in messages for key in message], np.uint64)
    rows = np.array([row[: len(weights)] for message in messages for row in message.values()], np.int64)
    starts = np.cumsum([0, *(len(message) for message in messages)])
    together = judge_many(keys, np.arange(len(keys)), starts, rows, known, RULE, 2)
    for message, found in zip(messages, together, strict=True):
        alone = judge({k: r[: len(weights)] for k, r in message.items()}, known, RULE, 2, dict).judgement
        assert isclose(alone.log_odds, found.log_odds, rel_tol=1e-9, abs_tol=1e-9)
        assert alone.probabilities == pytest.approx(found.probabilities)


@pytest.mark.parametrize("weights", [(), (5,), (0, 9), (9, 0)])
def test_who_knows_one_side_only_is_unsure(weights: tuple[int, ...]) -> None:
    row = [3] * len(weights)
    verdict = judge({bag.key(b"word", bag.WORDS): row}, labels(*weights), RULE, 1, dict)
    assert (verdict.label, verdict.probability) == ("unsure", 0.5)


def test_after_one_message_of_each_nothing_is_certain() -> None:
    counts = {bag.key(str(n).encode(), bag.WORDS): [1, 0] for n in range(100)}
    verdict = judge(counts, labels(1, 1), RULE, 1, dict)
    assert 0.5 < verdict.probability < 0.99


def test_a_word_never_seen_says_nothing() -> None:
    assert RULE.views[2].weigh(0, 0, 10, 1000) == 0


def test_the_weight_is_the_lectures_formula_with_its_prior() -> None:
    """A8: (limited 1/2, offer 0/0): maximum likelihood would give 0 or nothing, a prior does not."""
    view = View(scale=1, prior=1, pooled=False, reluctance=0)
    assert isclose(view.weigh(1, 2, 10, 10), log((1 + 1) / (10 + 2)) - log((2 + 1) / (10 + 2)))
    assert isclose(view.weigh(3, 0, 10, 10), log(4 / 1))


def test_pooled_prior_leaves_the_overall_rate_alone() -> None:
    view = View(scale=1, prior=5, pooled=True, reluctance=0)
    assert isclose(view.weigh(2, 20, 10, 100), 0, abs_tol=1e-12)


def test_decay_halves_what_was_learned() -> None:
    key = bag.key(b"word", bag.WORDS)
    old = judge({key: [8, 2]}, labels(20, 20), RULE, 1, dict)
    same = judge({key: [16, 4]}, labels(40, 40), RULE, 2, dict)
    assert old.log_odds == same.log_odds


def test_thresholds_decide_and_a_third_label_is_found() -> None:
    work, spam = bag.key(b"minutes", bag.WORDS), bag.key(b"pills", bag.WORDS)
    known = labels(100, 100, 100)
    assert judge({work: [0, 1, 60]}, known, RULE, 1, dict).label == "work"
    assert judge({spam: [90, 0, 0]}, known, RULE, 1, dict).label in ("spam", "unsure")


def test_a_rule_survives_being_written() -> None:
    class Kept:
        def setting(self, name: str, /) -> str | None:
            return RULE.scaled((1, 2, 3, 4)).written() if name == "rule" else None

    assert Rule.of(Kept()) == RULE.scaled((1, 2, 3, 4))


def test_probability_is_the_logistic_of_the_log_odds() -> None:
    verdict = judge({bag.key(b"word", bag.WORDS): [5, 1]}, labels(10, 10), RULE, 1, dict)
    assert isclose(verdict.probability, 1 / (1 + exp(-verdict.log_odds)))
