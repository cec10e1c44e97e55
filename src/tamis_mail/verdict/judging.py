"""the counts of one message's features → its verdict, in plain Python; the meaning of `arrays`."""

from collections.abc import Callable, Mapping, Sequence
from math import exp, isfinite

from tamis_mail.features import GRAMS, HEADERS, VIEWS, view
from tamis_mail.labels import GUESSES, HAM, SPAM, UNSURE, Label
from tamis_mail.verdict.rule import Rule, contests, sides
from tamis_mail.verdict.verdict import Evidence, Judgement, Verdict, VerdictError

__all__ = ["AS_SUCH", "concluded", "judge", "others", "refuse_negative", "sigmoid", "trust"]

AS_SUCH = "(length of the headers)"  # what the length of the head says, whatever is in it
_SENSELESS = (
    "the counts of the store make no sense, so nothing is said of the message: look for damage with "
    "tamis store check"
)


def judge(
    counts: Mapping[int, Sequence[int]],
    labels: Sequence[Label],
    rule: Rule,
    unit: int,
    names: Callable[[], Mapping[int, str]],
) -> Verdict:
    """The verdict on a message of which each feature's counts are given, by label."""
    known = others(labels)
    spam, rest = sides(labels, SPAM, known, unit, rule.guessed)
    pairs = {key: (spam.count(row), rest.count(row)) for key, row in counts.items()}
    contributions, lean = _contributions(pairs, rule, spam.messages, rest.messages)
    log_odds = lean + sum(contributions.values())
    beside = {}
    together, asked = contests(labels, known, unit)
    totals = {key: together.count(row) for key, row in counts.items()} if asked else {}
    for one in asked:
        ours = {key: one.own.count(row) for key, row in counts.items()}
        pairs = {key: (own, totals[key] - own) for key, own in ours.items()}
        found, aside = _contributions(pairs, rule, one.own.messages, one.rest)
        beside[one.name] = aside + sum(found.values())

    def explain() -> tuple[Evidence, ...]:
        called = names()
        found = [
            Evidence(called[key], VIEWS[view(key)], worth, spam.count(counts[key]), rest.count(counts[key]))
            for key, worth in contributions.items()
        ]
        if lean:
            found.append(Evidence(AS_SUCH, VIEWS[GRAMS], lean, spam.messages[GRAMS], rest.messages[GRAMS]))
        return tuple(sorted(found, key=lambda one: (-abs(one.contribution), one.view, one.token)))

    return Verdict(concluded(log_odds, known, beside, rule), explain)


def others(labels: Sequence[Label]) -> list[str]:
    """What a message may be that is not spam."""
    held = [
        label.name for label in labels if label.weight + label.lent and label.name not in (SPAM, *GUESSES)
    ]
    return held or [HAM]


def concluded(log_odds: float, known: Sequence[str], beside: Mapping[str, float], rule: Rule) -> Judgement:
    """The judgement from the log-odds of spam and, if there are several other labels, of each of these."""
    if not all(map(isfinite, (log_odds, *beside.values()))):  # else NaN would be called ham
        raise VerdictError(_SENSELESS)
    probability = sigmoid(log_odds)
    shares = _softmax([beside.get(name, 0.0) for name in known])
    probabilities = {SPAM: probability} | {
        name: (1 - probability) * share for name, share in zip(known, shares, strict=True)
    }
    if probability >= rule.spam:
        label = SPAM
    elif probability > rule.ham:
        label = UNSURE
    else:
        label = max(known, key=lambda name: probabilities[name])
    return Judgement(label, probability, log_odds, probabilities)


def refuse_negative(least: float) -> None:
    """Refuse counts below zero, which a damaged store may have."""
    if least < 0:
        raise VerdictError(_SENSELESS)


def trust(spams: float, hams: float, rule: Rule) -> float:
    """How much may be claimed after so many messages."""
    least = min(spams, hams)
    return least / (least + rule.patience) if least > 0 else 0.0


def sigmoid(log_odds: float) -> float:
    """1 / (1 + e**-x), which neither end overflows."""
    if log_odds >= 0:
        return 1 / (1 + exp(-log_odds))
    return exp(log_odds) / (1 + exp(log_odds))


def _softmax(scores: Sequence[float]) -> list[float]:
    best = max(scores)
    powers = [exp(score - best) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def _contributions(
    counts: Mapping[int, tuple[float, float]], rule: Rule, spams: Sequence[float], hams: Sequence[float]
) -> tuple[dict[int, float], float]:
    """What each feature adds to the log-odds, and what the views add whatever their features are.

    Given are the messages of either side that have each feature, and all messages of either side, by view.
    """
    sizes = [0] * len(VIEWS)
    for key in counts:
        sizes[view(key)] += 1
    scales = [chosen.scale * trust(spams[kind], hams[kind], rule) for kind, chosen in enumerate(rule.views)]
    known: dict[tuple[int, float, float], float] = {}  # most were seen once or twice: few weights differ
    contributions = {}
    familiar = 0
    for key, (s, h) in counts.items():
        kind = view(key)
        case = (kind, s, h)
        if case not in known:
            chosen = rule.views[kind]
            refuse_negative(min(s, h))
            weight = chosen.weigh(s, h, spams[kind], hams[kind]) if scales[kind] else 0.0
            known[case] = scales[kind] * weight / (sizes[kind] + chosen.reluctance)
        contributions[key] = known[case]
        familiar += s + h > 0 and kind <= HEADERS
    acquainted = familiar / (familiar + rule.acquaintance)
    leans = (scale * chosen.lean(size) for scale, chosen, size in zip(scales, rule.views, sizes, strict=True))
    return contributions, acquainted * sum(leans)
