"""A verdict takes work in proportion to the number of labels, not to its square."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from tamis_mail.features import KEY_BITS, VIEWS, view
from tamis_mail.labels import Label
from tamis_mail.verdict import RULE, judge
from tamis_mail.verdict.arrays import judge_many
from tamis_mail.verdict.judging import refuse_negative
from tamis_mail.verdict.rule import list_comparisons, one_versus_rest, sides
from tamis_mail.verdict.verdict import VerdictError


class Row(list[int]):
    """Counts of a feature, by label, that note how often one is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        for count in super().__iter__():
            Row.looks += 1
            yield count

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        Row.looks += 1
        return super().__getitem__(place)


def many(labels: int, features: int = 40) -> tuple[dict[int, Row], list[Label]]:
    rng = np.random.default_rng(1)
    rows = {
        int(key): Row(rng.poisson(1.0, labels).tolist())
        for key in rng.integers(0, 1 << KEY_BITS, 2 * features)
        if view(int(key)) < len(VIEWS)
    }
    named = [Label(n, "spam" if not n else f"label {n}", 50, 50, 0, 1000) for n in range(labels)]
    return rows, named


def test_the_work_of_a_verdict_is_linear_in_the_number_of_labels() -> None:
    looks = []
    for labels in (25, 100):
        rows, named = many(labels)
        Row.looks = 0
        judge(rows, named, RULE, 1, dict)
        looks.append(Row.looks)
    assert looks[1] <= 5 * looks[0]  # four times as many labels; sixteen times, if it were the square


def test_many_labels_are_judged_alike_one_by_one_and_together() -> None:
    rows, named = many(60)
    keys = np.array(sorted(rows), np.uint64)
    counts = np.array([list(rows[int(key)]) for key in keys], np.int64)
    (found,) = judge_many(keys, np.arange(len(keys)), np.array([0, len(keys)]), counts, named, RULE, 1)
    verdict = judge(rows, named, RULE, 1, dict)
    assert found.label == verdict.label
    assert found.log_odds == pytest.approx(verdict.log_odds)
    assert found.probabilities == pytest.approx(dict(verdict.probabilities))
    assert sum(found.probabilities.values()) == pytest.approx(1)


@pytest.mark.parametrize("unit", [1, 8])
def test_the_others_of_a_contest_are_all_labels_but_its_own(unit: int) -> None:
    labels = [
        Label(n, "spam" if not n else f"label {n}", 50, unit * (7 + n * n), 3 * n, 1000) for n in range(6)
    ]
    known = [label.name for label in labels[1:]]
    together, several = one_versus_rest(labels, known, unit)
    asked = [(name, against) for name, against in list_comparisons(known) if name != "spam"]
    assert [contest.name for contest in several] == [name for name, _ in asked]
    for contest, (name, against) in zip(several, asked, strict=True):
        own, rest = sides(labels, name, against, unit, 0.0)
        assert (contest.own, contest.rest) == (own, rest.messages)
    assert together.messages == tuple(
        a + b for a, b in zip(several[0].own.messages, several[0].rest, strict=True)
    )
    assert one_versus_rest(labels, known[:1], unit)[1] == []


def test_counts_below_zero_make_no_verdict() -> None:
    refuse_negative(0.0)
    for least in (-1e-9, -1.0):
        with pytest.raises(VerdictError):
            refuse_negative(least)


def test_centres_are_those_of_spam_and_do_not_change_a_comparison_of_other_labels() -> None:
    rows, named = many(4)
    keys = np.array(sorted(rows), np.uint64)
    counts = np.array([list(rows[int(key)]) for key in keys], np.int64)
    centred = RULE.with_centres((-0.4, 0.3, 1.0, -1.0, 0.25))
    names = ["label 1", "label 2", "label 3"]

    def compare(probabilities: Mapping[str, float]) -> list[float]:
        total = sum(probabilities[name] for name in names)
        return [probabilities[name] / total for name in names]

    verdicts = [judge(rows, named, rule, 1, dict) for rule in (RULE, centred)]
    together = [
        judge_many(keys, np.arange(len(keys)), np.array([0, len(keys)]), counts, named, rule, 1)[0]
        for rule in (RULE, centred)
    ]
    expected = compare(verdicts[0].probabilities)
    assert compare(verdicts[1].probabilities) == pytest.approx(expected, rel=1e-9)
    assert compare(together[1].probabilities) == pytest.approx(expected, rel=1e-9)
    assert verdicts[1].log_odds == pytest.approx(together[1].log_odds)
    assert verdicts[1].log_odds != pytest.approx(verdicts[0].log_odds)
