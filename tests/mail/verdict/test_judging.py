"""The parts of a verdict, each at its limits: probabilities, thresholds, trust, and what a feature weighs."""

from dataclasses import FrozenInstanceError, fields, replace
from math import inf, log

import pytest
from scipy import special

from tamis_mail import features
from tamis_mail.labels import GUESS_UNITS, Label
from tamis_mail.verdict import RULE, RULES, judge
from tamis_mail.verdict.judging import decide, list_other_labels, shrinkage, sigmoid
from tamis_mail.verdict.rule import Rule, RuleError, View, list_comparisons, sides


def label(number: int, name: str, weight: int, lent: int = 0) -> Label:
    return Label(number, name, weight, weight, lent, 0)


@pytest.mark.parametrize("odds", [-inf, -800.0, -40.0, -2.5, -0.5, 0.0, 0.5, 2.5, 40.0, 800.0, inf])
def test_a_probability_is_scipys_logistic_function_and_never_overflows(odds: float) -> None:
    assert sigmoid(odds) == pytest.approx(float(special.expit(odds)), rel=1e-14, abs=0)


@pytest.mark.parametrize("scores", [(1000.0, 999.0), (-1000.0, -1000.0), (0.0, 3.0)])
def test_labels_beside_spam_share_the_rest_as_scipys_softmax_does(scores: tuple[float, float]) -> None:
    found = decide(-1.0, ["ham", "work"], dict(zip(("ham", "work"), scores, strict=True)), RULE)
    shares = special.softmax(scores) * (1 - found.probability)
    assert found.probabilities == pytest.approx(
        {"spam": found.probability, "ham": shares[0], "work": shares[1]}, rel=1e-12
    )


def test_a_message_at_a_threshold_is_spam_at_the_upper_and_ham_at_the_lower() -> None:
    half = sigmoid(0.0)
    assert decide(0.0, ["ham"], {}, replace(RULE, spam=half, ham=0.1)).label == "spam"
    assert decide(0.0, ["ham"], {}, replace(RULE, spam=0.9, ham=half)).label == "ham"
    assert decide(0.0, ["ham"], {}, replace(RULE, spam=half + 1e-9, ham=half - 1e-9)).label == "unsure"


def test_what_is_not_spam_is_the_most_probable_of_the_other_labels() -> None:
    found = decide(-9.0, ["ham", "work", "family"], {"ham": 0.0, "work": 2.0, "family": 1.0}, RULE)
    assert found.label == "work"


def test_older_tokens_are_trusted_by_the_smaller_class_and_half_at_the_patience() -> None:
    rule = replace(RULES[1], patience=3)
    assert shrinkage(3, 100, rule) == shrinkage(100, 3, rule) == 0.5
    assert shrinkage(3, 3, rule) == 0.5


def test_trust_grows_with_both_classes() -> None:
    rule = replace(RULE, patience=3)
    assert shrinkage(6, 6, rule) == 0.5
    assert shrinkage(4, 12, rule) == shrinkage(12, 4, rule) == 0.5
    assert shrinkage(3, 1e300, rule) == 0.5
    assert shrinkage(3, 4, rule) < shrinkage(3, 5, rule) < shrinkage(4, 5, rule)


def test_nothing_is_claimed_before_both_classes_are_known() -> None:
    assert shrinkage(0, 100, replace(RULE, patience=0)) == shrinkage(100, 0, replace(RULE, patience=0)) == 0.0
    assert shrinkage(0.5, 100, replace(RULE, patience=0)) == 1.0


def test_a_label_counts_as_known_if_messages_were_learned_or_lent() -> None:
    learned, lent, both, none = (
        label(i, name, *w)
        for i, (name, w) in enumerate(zip("abcd", [(3,), (0, 3), (3, 3), (0,)], strict=True))
    )
    assert list_other_labels([learned, lent, both, none]) == ["a", "b", "c"]
    assert list_other_labels([none]) == list_other_labels([]) == ["ham"]
    assert list_other_labels([label(0, "spam", 5), label(1, "spam?", 5), label(2, "ham?", 5)]) == ["ham"]


def test_questions_are_asked_of_each_label_only_if_there_are_several() -> None:
    assert [*list_comparisons(["ham"])] == [("spam", ["ham"])]
    assert [*list_comparisons(["ham", "work"])] == [
        ("spam", ["ham", "work"]),
        ("ham", ["work"]),
        ("work", ["ham"]),
    ]


def test_a_side_counts_messages_in_units_and_guessed_ones_by_their_worth() -> None:
    known = [label(0, "spam", 8, lent=2), label(1, "ham", 6)]
    known += [label(2, "spam?", 4 * GUESS_UNITS), label(3, "ham?", 2 * GUESS_UNITS)]
    spam, ham = sides(known, "spam", ["ham"], unit=2, guessed_weight=0.5)
    guess = 0.5 / (2 * GUESS_UNITS)
    assert list(spam.columns) == [(0, 0.5), (2, guess)]
    assert list(ham.columns) == [(1, 0.5), (3, guess)]
    assert list(spam.messages) == [
        4 + 1,
        5 + 1,
        5 + 1,
        4 + 1,
        4 + 1,
    ]  # what was lent has headers and words only
    assert list(ham.messages) == [3.5] * 5
    assert spam.count([2, 7, 8 * GUESS_UNITS, 7]) == 3.0
    assert ham.count([7, 2, 7, 4 * GUESS_UNITS]) == 2.0
    one, other = sides(known, "ham", ["work"], unit=2, guessed_weight=0.5)
    assert (one.columns, other.columns) == (((1, 0.5),), ())


def test_a_feature_with_less_than_one_message_weighs_what_its_counts_say() -> None:
    view = View(scale=1, prior=1, pooled=False, reluctance=0)
    assert view.weigh(0.25, 0, 10, 10) == pytest.approx(log(1.25 / 1))
    pooled = View(scale=1, prior=2, pooled=True, reluctance=0)
    assert pooled.weigh(3, 1, 10, 30) == pytest.approx(log((3 + 0.2) / 12) - log((1 + 0.2) / 32))


def test_the_lean_of_a_view_is_the_mean_of_tilts_and_doubts() -> None:
    view = View(scale=1, prior=1, pooled=True, reluctance=4, tilt=3.0, doubt=-2.0)
    assert view.offset(6) == pytest.approx((6 * 3.0 + 4 * -2.0) / 10)


def test_the_evidence_of_one_message_is_worked_out_by_hand() -> None:
    """Two words and a header, 10 messages of spam and 30 of ham; each number of the rule is used once."""
    rule = RULES[1]
    word, other, header = (
        features.key(b"a", features.WORDS, 1),
        features.key(b"b", features.WORDS, 1),
        features.key(b"c", features.HEADERS, 1),
    )
    known = [label(0, "spam", 10), label(1, "ham", 30)]
    names = {word: "a", other: "b", header: "c"}
    verdict = judge({word: [5, 3], other: [0, 0], header: [2, 2]}, known, rule, 1, lambda: names)
    trusted = 10 / (10 + rule.patience)
    words, headers, grams = rule.views[2], rule.views[1], rule.views[0]
    expected = {
        "a": trusted * words.scale * words.weigh(5, 3, 10, 30) / (2 + words.reluctance),
        "b": 0.0,
        "c": trusted * headers.scale * headers.weigh(2, 2, 10, 30) / (1 + headers.reluctance),
        "(length of the headers)": 1 / (1 + rule.acquaintance) * trusted * grams.scale * grams.offset(0),
    }
    assert {one.token: one.contribution for one in verdict.evidence} == pytest.approx(expected, rel=1e-12)
    assert {one.token: (one.spam, one.ham) for one in verdict.evidence} == {
        "a": (5, 3),
        "b": (0, 0),
        "c": (2, 2),
        "(length of the headers)": (10, 30),
    }
    assert verdict.log_odds == pytest.approx(sum(expected.values()), rel=1e-12)


def test_a_fitted_intercept_and_coefficients_are_evidence_of_their_own() -> None:
    """A word and a header with coefficients, another word without; the intercept shrinks as the views do."""
    word, other, header = (
        features.key(b"a", features.WORDS),
        features.key(b"b", features.WORDS),
        features.key(b"c", features.HEADERS),
    )
    known = [label(0, "spam", 10), label(1, "ham", 30)]
    names = {word: "a", other: "b", header: "c"}
    counts = {word: [5, 3], other: [0, 0], header: [2, 2]}
    rule = replace(RULE, intercept=-1.5)
    verdict = judge(counts, known, rule, 1, lambda: names, {word: 0.75, header: -0.5})
    before = judge(counts, known, RULE, 1, lambda: names)
    parts = {one.token: one.contribution for one in verdict.evidence}
    parts_before = {one.token: one.contribution for one in before.evidence}
    assert parts["a"] - parts_before["a"] == pytest.approx(0.75 / 2**0.5, rel=1e-12)
    assert parts["b"] == parts_before["b"] == 0
    assert parts["c"] - parts_before["c"] == pytest.approx(-0.5, rel=1e-12)
    assert parts["(before any evidence)"] == pytest.approx(-1.5 / (1 + 1 / 10 + 1 / 30), rel=1e-12)
    assert verdict.log_odds == pytest.approx(sum(parts.values()), rel=1e-12)


@pytest.mark.parametrize(
    ("version", "log_odds", "spam"), [(1, 0.6952190894427162, 0.95), (2, 0.6424683137229217, 0.97)]
)
def test_the_default_rule_gives_the_log_odds_that_were_measured(
    version: int, log_odds: float, spam: float
) -> None:
    """Every constant of the default rule is in this number; experiments 0005, 0010 and 0013 chose them."""
    rule = RULES[version]
    counts = {
        features.key(b"gram", features.GRAMS, version): [5, 3],
        features.key(b"another", features.GRAMS, version): [0, 1],
        features.key(b"header", features.HEADERS, version): [2, 7],
        features.key(b"word", features.WORDS, version): [9, 1],
        features.key(b"pair", features.PAIRS, version): [0, 2],
    }
    known = [label(0, "spam", 10, lent=1), label(1, "ham", 30), label(2, "spam?", 64)]
    rows = {key: [*row, 3] for key, row in counts.items()}
    verdict = judge(rows, known, rule, 1, lambda: {key: str(key) for key in rows})
    assert verdict.log_odds == pytest.approx(log_odds, rel=1e-12)
    assert (rule.spam, rule.ham) == (spam, 0.1)


@pytest.mark.parametrize(
    "written",
    [
        "{",
        "3",
        "[]",
        "{}",
        '{"views": []}',
        '{"views": 3}',
        '{"views": [{}, {}, {}, {}]}',
        '{"views": [1, 2, 3, 4]}',
        '{"views": [1, 2, 3, 4, 5]}',
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_what_to_do(written: str) -> None:
    class Kept:
        def setting(self, name: str, /) -> str | None:
            return written if name == "rule" else None

        def token_version(self) -> int:
            return 2

    with pytest.raises(RuleError, match="tamis tune --reset"):
        Rule.of(Kept())


@pytest.mark.parametrize("scales", [(1, 2, 3, 4), (1, 2, 3, 4, 5, 6)])
def test_scales_are_as_many_as_views(scales: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        RULE.with_scales(scales)


def test_a_view_leans_nowhere_unless_it_is_told_to() -> None:
    assert View(scale=1, prior=1, pooled=True, reluctance=4).offset(6) == 0


def test_a_feature_of_less_than_one_message_is_familiar() -> None:
    header = features.key(b"c", features.HEADERS, 1)
    known = [label(0, "spam", 40), label(1, "ham", 40)]
    verdict = judge({header: [1, 0]}, known, RULES[1], 4, lambda: {header: "c"})  # a quarter of a message
    assert [one.token for one in verdict.evidence if one.contribution] == ["c", "(length of the headers)"]


def test_what_a_verdict_is_made_of_cannot_be_changed() -> None:
    word = features.key(b"a", features.WORDS)
    known = [label(0, "spam", 10), label(1, "ham", 30)]
    verdict = judge({word: [5, 3]}, known, RULE, 1, lambda: {word: "a"})
    parts = [RULE, RULE.views[0], sides(known, "spam", ["ham"], 1, 1.0)[0]]
    for value in [*parts, verdict, verdict.judgement, verdict.evidence[0]]:
        assert not hasattr(value, "__dict__")
        with pytest.raises(FrozenInstanceError):
            setattr(value, fields(value)[0].name, None)  # type: ignore[arg-type]
    assert "explain" not in repr(verdict)
    assert verdict == judge({word: [5, 3]}, known, RULE, 1, lambda: {word: "b"})
