"""The verdict is naive Bayes with Beta priors: a reference made of `tamis` gives the same log-odds.

The rule's own code is plain Python, so that one message is judged without NumPy. Here the probabilities of
features are posterior means of `tamis.Beta`, updated with the store's own statistic.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.conjugate import Beta
from tamis.stats import Tally
from tamis_mail import features, tokens
from tamis_mail.features.arrays import views
from tamis_mail.labels import Label
from tamis_mail.message import canonical, parse
from tamis_mail.sieve import Sieve
from tamis_mail.sieve.jobs import judge_features
from tamis_mail.verdict import RULE, Rule, Verdict, judge
from tamis_mail.verdict import RULES as DEFAULTS
from tamis_mail.verdict.arrays import scores
from tamis_mail.verdict.judging import HEADER_LENGTH
from tamis_mail.verdict.rule import View, sides

Floats = NDArray[np.float64]


def change_views(rule: Rule, change: Callable[[View], View]) -> Rule:
    return replace(rule, views=tuple(map(change, rule.views)))


RULES = [
    RULE,
    DEFAULTS[1],
    replace(RULE, patience=0.0, acquaintance=1e-3),
    RULE.with_scales((0.3, 2.0, 0.0, 7.0, 0.9)),
    DEFAULTS[1].with_scales((0.3, 2.0, 0.0, 7.0)),
    change_views(RULE, lambda view: replace(view, pooled=not view.pooled, prior=0.7)),
    RULE.with_centres((-0.4, 0.3, 0.0, -1.0, 0.25)),
]


def log_ratios(view: View, spam: Tally, ham: Tally) -> Floats:
    """log P(feature | spam) - log P(feature | ham) by posterior means, less the centre; 0 if unseen."""
    s, h = spam.total.value[:, 0], ham.total.value[:, 0]
    n = spam.weight.value + ham.weight.value
    rate = (s + h) / n if view.pooled else np.full(len(s), 0.5)
    strength = view.prior if view.pooled else 2 * view.prior
    known = (s + h > 0) & (rate < 1)  # a feature of all messages weighs nothing, and no Beta has rate 1
    prior = Beta(np.where(known, strength * rate, 1.0), np.where(known, strength * (1 - rate), 1.0))
    ratios = np.log(prior.update(spam).mean) - np.log(prior.update(ham).mean)
    found: Floats = np.where(known, ratios, 0.0) - view.centre * (s + h > 0)
    return found


def trust(spams: float, hams: float, rule: Rule) -> float:
    """By what factor log-odds shrink."""
    if not (spams and hams):
        return 0.0
    if rule.token_version == 1:
        return 1 / (1 + rule.patience / min(spams, hams))
    return 1 / (1 + rule.patience / spams + rule.patience / hams)


def reference(keys: NDArray[np.uint64], spam: Tally, ham: Tally, rule: Rule) -> tuple[Floats, float]:
    """The score of each view before its scale, and the log-odds of spam; a Tally has one row per feature."""
    kinds = views(keys, rule.token_version)
    known = (spam.total.value[:, 0] + ham.total.value[:, 0] > 0) & (kinds <= features.HEADERS)
    familiarity = known.sum() / (known.sum() + rule.acquaintance)
    found = np.zeros(len(rule.views))
    for kind, view in enumerate(rule.views):
        chosen = kinds == kind
        size = int(chosen.sum())
        unseen = familiarity * (size * view.tilt + view.reluctance * view.doubt)
        of_view = [Tally.of(part.weight.value[chosen], part.total.value[chosen]) for part in (spam, ham)]
        spams, hams = (float(part.weight.value.max(initial=0)) for part in (of_view if size else (spam, ham)))
        shrinkage = trust(spams, hams, rule)
        total = log_ratios(view, *of_view).sum() if size else 0.0
        found[kind] = shrinkage * (total + unseen) / (size + view.reluctance)
    return found, float(found @ [view.scale for view in rule.views])


def sum_by_view(verdict: Verdict, rule: Rule) -> dict[str, float]:
    """The contributions of features, without what a view adds whatever its features are."""
    sums = dict.fromkeys(features.VIEWS_OF[rule.token_version], 0.0)
    for one in verdict.evidence:
        if one.token != HEADER_LENGTH:
            sums[one.view] += one.contribution
    return sums


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(8))
def test_any_counts_are_judged_as_by_naive_bayes(rule: Rule, seed: int) -> None:
    dice = np.random.default_rng(seed)
    spams, hams = int(dice.integers(1, 60)), int(dice.integers(1, 60))
    keys = np.unique(dice.integers(0, 1 << 48, 150, np.uint64))
    keys = keys[views(keys, rule.token_version) < len(rule.views)]
    counts = np.stack([dice.integers(0, spams, len(keys)), dice.integers(0, hams, len(keys))], axis=1)
    counts[dice.uniform(size=len(keys)) < 0.3] = 0
    labels = [Label(0, "spam", spams, spams, 0, 0), Label(1, "ham", hams, hams, 0, 0)]
    spam, ham = (
        Tally.of(np.full(len(keys), n), counts[:, column, None]) for column, n in enumerate((spams, hams))
    )
    expected, log_odds = reference(keys, spam, ham, rule)

    names = {key: str(key) for key in keys.tolist()}
    verdict = judge(dict(zip(names, counts.tolist(), strict=True)), labels, rule, 1, lambda: names)
    assert verdict.log_odds == pytest.approx(log_odds, rel=1e-9, abs=1e-9)
    kinds, rows = views(keys, rule.token_version), np.arange(len(keys))
    ranges = np.zeros(1, np.intp), np.array([len(keys)])
    found = scores(rows, ranges, kinds, counts, rule, *sides(labels, "spam", ["ham"], 1, 1.0))
    np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-9)
    bare = change_views(rule, lambda view: replace(view, tilt=0.0, doubt=0.0))
    by_features, _ = reference(keys, spam, ham, bare)
    np.testing.assert_allclose(
        list(sum_by_view(verdict, rule).values()),
        by_features * [view.scale for view in rule.views],
        rtol=1e-9,
        atol=1e-9,
    )


WORDS = ["offer", "lunch", "noon", "pills", "cheap", "minutes", "agenda", "winner", "prize", "thanks"]
# It lacks most features of the others.
ODD = b"Received: from a by b\nContent-Type: text/html\n\n<p>odd</p>"


def message(dice: np.random.Generator) -> bytes:
    text = " ".join(dice.choice(WORDS, dice.integers(1, 30)))
    return f"Subject: {dice.choice(WORDS)}\nFrom: {dice.choice(WORDS)}@example.org\n\n{text}".encode()


def of_features(statistic: Tally, keys: NDArray[np.uint64]) -> Tally:
    """The statistic of a label, one row per feature."""
    assert statistic.terms is not None
    places = statistic.terms.find(keys.tolist())
    counts = np.where(places < 0, 0.0, np.append(statistic.total.value, 0.0)[places])
    return Tally.of(np.full(len(keys), statistic.weight.value), counts[:, None])


@pytest.mark.parametrize("seed", range(3))
def test_a_store_judges_as_naive_bayes_with_its_statistic(tmp_path: Path, seed: int) -> None:
    dice = np.random.default_rng(seed)
    with Sieve.open(tmp_path / "store") as sieve:
        sieve.learn_many([message(dice) for _ in range(15)], "spam", processes=1)
        sieve.learn_many([ODD, *(message(dice) for _ in range(20))], "ham", processes=1)
        statistic = sieve.store.statistic()
        assert sieve.store.setting("weights")
        for raw in [message(dice) for _ in range(5)]:
            keys = np.array(sorted(features.hash_tokens(tokens.read(parse(canonical(raw))))), np.uint64)
            spam, ham = (of_features(statistic.at(label), keys) for label in ("spam", "ham"))
            rule = Rule.of(sieve.store)
            _, log_odds = reference(keys, spam, ham, rule)
            log_odds += rule.intercept * trust(15, 21, rule)
            kinds = views(keys, rule.token_version)
            for key, coefficient in sieve.store.coefficients(keys.tolist()).items():
                log_odds += coefficient / np.sqrt((kinds == features.view(key, rule.token_version)).sum())
            assert sieve.sort(raw).log_odds == pytest.approx(log_odds, rel=1e-9, abs=1e-9)
            (judged,) = judge_features([keys], sieve.store)
            assert judged.log_odds == pytest.approx(log_odds, rel=1e-9, abs=1e-9)
