"""A verdict is what its evidence adds up to, and claims no more than what was learned."""

from dataclasses import replace
from math import exp, isclose, log, nextafter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail import features
from tamis_mail.labels import Label
from tamis_mail.verdict import RULE, RULES, Rule, judge
from tamis_mail.verdict.arrays import group_by_numpy, group_counts, judge_many
from tamis_mail.verdict.rule import RuleError, View
from tests.compiled_core import needs_core

NAMES = ("spam", "ham", "work", "spam?", "ham?")


def labels(*weights: int, lent: int = 0) -> list[Label]:
    return [Label(i, name, w, w, lent, 0) for i, (name, w) in enumerate(zip(NAMES, weights, strict=False))]


KEYS = st.integers(0, 2**48 - 1).filter(lambda key: features.view(key) < len(features.VIEWS))
COUNTS = st.dictionaries(KEYS, st.lists(st.integers(0, 50), min_size=5, max_size=5), min_size=1, max_size=40)


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


@needs_core
@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=6), st.integers(0, 1000))
def test_the_core_and_numpy_judge_alike_to_the_bit(sizes: list[int], seed: int) -> None:
    dice = np.random.default_rng(seed)
    draws = [dice.integers(0, 90, size) * 8 + dice.integers(0, 5, size) for size in sizes]
    messages = [np.unique(one).astype(np.uint64) for one in draws]
    keys = np.concatenate([*messages, np.empty(0, np.uint64)])
    distinct, rows = np.unique(keys, return_inverse=True)
    counts = dice.integers(0, 5, (len(distinct), 2))
    starts = np.cumsum([0, *(len(one) for one in messages)])
    coefficients = dice.normal(size=len(distinct))

    def find_log_odds() -> list[float]:
        judged = judge_many(distinct, rows, starts, counts, labels(5, 5), RULE, 1, coefficients)
        return [one.log_odds for one in judged]

    found = find_log_odds()
    with mock.patch("tamis_mail.verdict.arrays.core", None):
        assert find_log_odds() == found


@needs_core
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 300), st.integers(0, 3), st.integers(0, 1000))
def test_the_core_and_numpy_group_rows_of_counts_alike(rows: int, n_labels: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    kinds, counts = dice.integers(0, 5, rows), dice.integers(0, 3, (rows, n_labels))
    groups, firsts = group_counts(kinds, counts)
    for found, expected in zip((groups, firsts), group_by_numpy(kinds, counts), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(kinds[firsts][groups], kinds)
    np.testing.assert_array_equal(counts[firsts][groups], counts)


@pytest.mark.parametrize("weights", [(), (5,), (0, 9), (9, 0)])
def test_who_knows_one_side_only_is_unsure(weights: tuple[int, ...]) -> None:
    row = [3] * len(weights)
    verdict = judge({features.key(b"word", features.WORDS): row}, labels(*weights), RULE, 1, dict)
    assert (verdict.label, verdict.probability) == ("unsure", 0.5)


def test_after_one_message_of_each_nothing_is_certain() -> None:
    counts = {features.key(str(n).encode(), features.WORDS): [1, 0] for n in range(100)}
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
    key = features.key(b"word", features.WORDS)
    old = judge({key: [8, 2]}, labels(20, 20), RULE, 1, dict)
    same = judge({key: [16, 4]}, labels(40, 40), RULE, 2, dict)
    assert old.log_odds == same.log_odds


def test_thresholds_decide_and_a_third_label_is_found() -> None:
    work, spam = (features.key(word, features.WORDS, 1) for word in (b"minutes", b"pills"))
    known = labels(100, 100, 100)
    rule = RULES[1]
    assert judge({work: [0, 1, 60]}, known, rule, 1, dict).label == "work"
    assert judge({spam: [90, 0, 0]}, known, rule, 1, dict).label == "spam"
    assert judge({spam: [60, 20, 10]}, known, rule, 1, dict).label == "unsure"
    assert judge({work: [0, 60, 1]}, known, rule, 1, dict).label == "ham"


@pytest.mark.parametrize("row", [[9, 1], [5, 5], [1, 9], [40, 0], [0, 40]])
def test_a_probability_at_a_threshold_is_spam_or_ham_and_one_between_them_is_unsure(row: list[int]) -> None:
    def label(rule: Rule) -> str:
        return judge({features.key(b"word", features.WORDS): row}, labels(50, 50), rule, 1, dict).label

    at = judge({features.key(b"word", features.WORDS): row}, labels(50, 50), RULE, 1, dict).probability
    above, below = nextafter(at, 1), nextafter(at, 0)
    assert label(replace(RULE, spam=at, ham=below)) == "spam"
    assert label(replace(RULE, spam=above, ham=below)) == "unsure"
    assert label(replace(RULE, spam=above, ham=at)) == "ham"


@pytest.mark.parametrize(("spams", "hams"), [(3, 1000), (1000, 3), (3, 3), (1, 40), (40, 1), (200, 200)])
@pytest.mark.parametrize("patience", [0.5, 2.0, 9.0])
def test_as_much_is_claimed_as_the_messages_of_both_classes_allow(
    spams: int, hams: int, patience: float
) -> None:
    """By hand: one word, so that its weight is divided by one and the view's reluctance."""
    rule, view = replace(RULE, patience=patience), RULE.views[features.WORDS]
    prior = view.prior
    weight = log((1 + prior) / (spams + 2 * prior)) - log(prior / (hams + 2 * prior))
    expected = view.scale * weight / (1 + view.reluctance) / (1 + patience * (1 / spams + 1 / hams))
    keys, counts = np.array([features.key(b"word", features.WORDS)], np.uint64), np.array([[1, 0]])
    verdict = judge({int(keys[0]): [1, 0]}, labels(spams, hams), rule, 1, dict)
    (together,) = judge_many(
        keys, np.zeros(1, np.intp), np.array([0, 1]), counts, labels(spams, hams), rule, 1
    )
    assert isclose(verdict.log_odds, expected, rel_tol=1e-12)
    assert isclose(together.log_odds, expected, rel_tol=1e-12)


def test_lent_mail_is_known_by_its_headers_and_words_and_not_by_grams_or_pairs() -> None:
    """Another filter's counts have no grams and no pairs: it has seen no messages as far as these go."""
    for kind, counted in [
        (features.GRAMS, 10),
        (features.HEADERS, 40),
        (features.WORDS, 40),
        (features.PAIRS, 10),
        (features.RELATIONS, 10),
    ]:
        view = replace(RULE.views[kind], tilt=0.0, doubt=0.0)
        views = (view if number == kind else other for number, other in enumerate(RULE.views))
        rule = replace(RULE, views=tuple(views), acquaintance=1e300)
        verdict = judge({features.key(b"word", kind): [4, 1]}, labels(10, 10, lent=30), rule, 1, dict)
        weight = view.weigh(4, 1, counted, counted)
        expected = view.scale * weight / (1 + view.reluctance) / (1 + 2 * RULE.patience / counted)
        assert isclose(verdict.log_odds, expected, rel_tol=1e-9)


@pytest.mark.parametrize("version", RULES)
def test_a_rule_survives_being_written(version: int) -> None:
    rule = RULES[version].with_scales(range(1, len(features.VIEWS_OF[version]) + 1))

    class Kept:
        def setting(self, name: str, /) -> str | None:
            return rule.to_json() if name == "rule" else None

        def token_version(self) -> int:
            return version

    assert Rule.of(Kept()) == rule


def test_a_rule_for_other_tokens_than_those_of_the_store_is_refused() -> None:
    class Kept:
        def setting(self, name: str, /) -> str | None:
            return RULES[1].to_json() if name == "rule" else None

        def token_version(self) -> int:
            return 2

    with pytest.raises(RuleError, match="views is a list of 4, expected a list of 5"):
        Rule.of(Kept())


@pytest.mark.parametrize("version", RULES)
def test_the_default_rule_has_the_views_of_its_tokens(version: int) -> None:
    assert RULES[version].token_version == version
    assert len(RULES[version].views) == len(features.VIEWS_OF[version])
    assert RULES[version].intercept == 0


def test_probability_is_the_logistic_of_the_log_odds() -> None:
    verdict = judge({features.key(b"word", features.WORDS): [5, 1]}, labels(10, 10), RULE, 1, dict)
    assert isclose(verdict.probability, 1 / (1 + exp(-verdict.log_odds)))
