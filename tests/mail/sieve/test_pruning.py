"""Pruning by a bound moves no verdict by more."""

from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.features import PAIRS, WORDS
from tamis_mail.sample import messages
from tamis_mail.sieve.pruning import prune
from tamis_mail.store import maintenance
from tamis_mail.verdict import Rule

SAMPLE = list(messages())


@pytest.mark.parametrize("bound", [0.2, 1.0, 3.0])
def test_no_verdict_moves_by_more_than_the_bound(tmp_path: Path, bound: float) -> None:
    with Sieve.open(tmp_path / "store") as sieve:
        for label in ("spam", "ham"):
            sieve.learn_many([one.raw for one in SAMPLE[::3] if one.label == label], label)
        for _ in range(6):
            maintenance.decay(sieve.store)
        for label in ("spam", "ham"):
            sieve.learn_many([one.raw for one in SAMPLE[1::3] if one.label == label], label)
        asked = [one.raw for one in SAMPLE[2::6]] + [one.raw for one in SAMPLE[::9]]
        before = [sieve.sort(raw).log_odds for raw in asked]
        pruned = prune(sieve.store, bound)
        after = [sieve.sort(raw).log_odds for raw in asked]
        moved = max(abs(one - other) for one, other in zip(before, after, strict=True))
        assert moved <= bound
        if bound > 1:
            assert pruned.dropped > 0
            assert moved > 0
        assert maintenance.check(sieve.store) == []


def test_views_that_have_no_effect_can_be_pruned(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "store") as sieve:
        for label, mail in (("ham", SAMPLE[:200:2]), ("spam", SAMPLE[1:200:2])):
            sieve.learn_many([one.raw for one in mail], label)
        rule = Rule.of(sieve.store)
        assert all(rule.views[kind].scale == 0 for kind in (WORDS, PAIRS))  # the labels have no meaning
        before = sieve.sort(SAMPLE[0].raw).log_odds
        assert prune(sieve.store, 0.5).dropped > 0
        assert sieve.sort(SAMPLE[0].raw).log_odds == pytest.approx(before, abs=1e-12)
        assert maintenance.check(sieve.store) == []


def test_a_bound_that_is_none_is_refused(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "store") as sieve, pytest.raises(ValueError, match="give log-odds above 0"):
        prune(sieve.store, 0)
