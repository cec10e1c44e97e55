"""Judge one message by the counts of its features, in plain Python; the reference for `verdict.arrays`."""

from collections.abc import Callable, Mapping, Sequence
from math import exp, isfinite, sqrt
from types import MappingProxyType

from tamis_mail.features import GRAMS, HEADERS, VIEWS, view, view_mask
from tamis_mail.labels import GUESSED_LABELS, HAM, SPAM, UNSURE, Label
from tamis_mail.verdict.rule import Rule, Side, one_versus_rest, sides
from tamis_mail.verdict.verdict import Evidence, Judgement, Verdict, VerdictError, sort_evidence

INTERCEPT = "(before any evidence)"  # the evidence of the fitted intercept
INTERCEPT_VIEW = "intercept"
HEADER_LENGTH = "(length of the headers)"  # the evidence of the number of n-grams (tokens of version 1)
_IMPOSSIBLE_COUNTS = (
    "the counts of the store are impossible, so the message was not judged: look for damage with "
    "tamis store check"
)


def judge(
    counts: Mapping[int, Sequence[int]],
    labels: Sequence[Label],
    rule: Rule,
    unit: int,
    names: Callable[[], Mapping[int, str]],
    coefficients: Mapping[int, float] = MappingProxyType({}),
    further_evidence: Sequence[Evidence] = (),
) -> Verdict:
    """Judge a message, given the counts of each of its features by label, and the features' coefficients.

    `unit` is the weight of a message that is learned now. `rule.guessed` is the factor of the counts of
    guessed mail. `names` is called if the evidence is read, and returns the name of each feature.
    `further_evidence` is the evidence of an imported word list.
    """
    other_labels = list_other_labels(labels)
    spam, rest = sides(labels, SPAM, other_labels, unit, guessed_weight=rule.guessed)
    pairs = _count_sides(counts, spam, rest)
    contributions, offset = _compute_contributions(pairs, rule, spam.messages, rest.messages)
    if coefficients:
        _add_coefficients(contributions, coefficients, rule.token_version)
    # The numbers of messages with n-grams: all but the lent ones.
    intercept = rule.intercept * shrinkage(spam.messages[GRAMS], rest.messages[GRAMS], rule)
    log_odds = intercept + offset + sum(contributions.values())
    log_odds += sum(item.contribution for item in further_evidence)
    log_odds_of_labels = {}
    all_labels, comparisons = one_versus_rest(labels, other_labels, unit)
    label_rule = rule.drop_centres() if comparisons else rule
    totals = {key: all_labels.count(row) for key, row in counts.items()} if comparisons else {}
    for comparison in comparisons:
        own_counts = {key: comparison.own.count(row) for key, row in counts.items()}
        pairs = {key: (count, totals[key] - count) for key, count in own_counts.items()}
        label_contributions, label_offset = _compute_contributions(
            pairs, label_rule, comparison.own.messages, comparison.rest
        )
        log_odds_of_labels[comparison.name] = label_offset + sum(label_contributions.values())

    def explain() -> tuple[Evidence, ...]:
        names_of_keys = names()
        evidence = [
            Evidence(
                names_of_keys[key],
                VIEWS[view(key, rule.token_version)],
                contribution,
                spam.count(counts[key]),
                rest.count(counts[key]),
            )
            for key, contribution in contributions.items()
        ]
        evidence += further_evidence
        messages = spam.messages[GRAMS], rest.messages[GRAMS]
        if offset:
            evidence.append(Evidence(HEADER_LENGTH, VIEWS[GRAMS], offset, *messages))
        if intercept:
            evidence.append(Evidence(INTERCEPT, INTERCEPT_VIEW, intercept, *messages))
        return sort_evidence(evidence)

    return Verdict(decide(log_odds, other_labels, log_odds_of_labels, rule), explain)


def _count_sides(
    counts: Mapping[int, Sequence[int]], spam: Side, rest: Side
) -> dict[int, tuple[float, float]]:
    """Return for each feature the numbers of spam and of other messages that have it."""
    cache: dict[tuple[int, ...], tuple[float, float]] = {}  # many features have the same counts
    pairs = {}
    for key, row in counts.items():
        case = tuple(row)
        pair = cache.get(case)
        if pair is None:
            pair = cache[case] = spam.count(row), rest.count(row)
        pairs[key] = pair
    return pairs


def list_other_labels(labels: Sequence[Label]) -> list[str]:
    """List the labels other than spam and guessed ones that have messages; ham if there are none."""
    names = [
        label.name
        for label in labels
        if label.weight + label.lent and label.name not in (SPAM, *GUESSED_LABELS)
    ]
    return names or [HAM]


def decide(
    log_odds: float, other_labels: Sequence[str], log_odds_of_labels: Mapping[str, float], rule: Rule
) -> Judgement:
    """Choose the label by the log-odds of spam and, if there are several other labels, by the log-odds
    of each of these against the others.

    Raise VerdictError if a number is not finite.
    """
    if not all(map(isfinite, (log_odds, *log_odds_of_labels.values()))):  # NaN would be judged as ham
        raise VerdictError(_IMPOSSIBLE_COUNTS)
    probability = sigmoid(log_odds)
    posterior = _softmax([log_odds_of_labels.get(name, 0.0) for name in other_labels])
    probabilities = {SPAM: probability} | {
        name: (1 - probability) * p for name, p in zip(other_labels, posterior, strict=True)
    }
    if probability >= rule.spam:
        label = SPAM
    elif probability > rule.ham:
        label = UNSURE
    else:
        label = max(other_labels, key=lambda name: probabilities[name])
    return Judgement(label, probability, log_odds, probabilities, listed=None, remark=None)


def refuse_negative(smallest: float) -> None:
    """Raise VerdictError for negative counts, which a damaged store may have."""
    if smallest < 0:
        raise VerdictError(_IMPOSSIBLE_COUNTS)


def shrinkage(spams: float, hams: float, rule: Rule) -> float:
    """Return the factor of the log-odds: 0 without messages of a class, and near 1 with many of both.

    Since version 2 of the tokens, it is 1 / (1 + patience · (1 / spams + 1 / hams)).
    """
    smallest = min(spams, hams)
    if smallest <= 0:
        return 0.0
    if rule.token_version == 1:
        return smallest / (smallest + rule.patience)
    return smallest / (smallest + rule.patience * (1 + smallest / max(spams, hams)))


def sigmoid(log_odds: float) -> float:
    """Compute 1 / (1 + e**-x) without overflow."""
    if log_odds >= 0:
        return 1 / (1 + exp(-log_odds))
    return exp(log_odds) / (1 + exp(log_odds))


def _softmax(scores: Sequence[float]) -> list[float]:
    best = max(scores)
    powers = [exp(score - best) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def _add_coefficients(
    contributions: dict[int, float], coefficients: Mapping[int, float], token_version: int
) -> None:
    """Add b / √n to the contribution of each feature with a coefficient b.

    n is the number of the message's features of the same view.
    """
    mask = view_mask(token_version)  # of the bits of a key that are the index of its view
    sizes: dict[int, int] = {}
    for key in contributions:
        sizes[key & mask] = sizes.get(key & mask, 0) + 1
    factors = {kind: 1 / sqrt(size) for kind, size in sizes.items()}
    for key, coefficient in coefficients.items():
        contributions[key] += coefficient * factors[key & mask]


def _compute_contributions(
    counts: Mapping[int, tuple[float, float]], rule: Rule, spams: Sequence[float], hams: Sequence[float]
) -> tuple[dict[int, float], float]:
    """Return what each feature adds to the log-odds, and what the numbers of features of the views add.

    The latter is 0 since version 2 of the tokens; in version 1, it depends on the number of n-grams, and so
    on the length of the headers. `counts` has for each feature the numbers of messages on the two sides that
    have it; `spams` and `hams` are the numbers of all messages on these sides, by view: lent messages have
    only some views.
    """
    sizes = [0] * len(rule.views)
    mask = view_mask(rule.token_version)  # of the bits of a key that are the index of its view
    for key in counts:
        sizes[key & mask] += 1
    scales = [
        view_rule.scale * shrinkage(spams[kind], hams[kind], rule)
        for kind, view_rule in enumerate(rule.views)
    ]
    # Most features were learned once or twice, so there are few distinct contributions.
    cache: dict[tuple[int, float, float], float] = {}
    contributions = {}
    n_known = 0
    for key, (s, h) in counts.items():
        kind = key & mask
        case = (kind, s, h)
        if case not in cache:
            view_rule = rule.views[kind]
            refuse_negative(min(s, h))
            weight = 0.0
            if scales[kind] and s + h > 0:
                weight = view_rule.weigh(s, h, spams[kind], hams[kind]) - view_rule.centre
            cache[case] = scales[kind] * weight / (sizes[kind] + view_rule.reluctance)
        contributions[key] = cache[case]
        n_known += s + h > 0 and kind <= HEADERS  # of the grams and headers
    familiarity = n_known / (n_known + rule.acquaintance)
    offsets = (
        scale * view_rule.offset(size)
        for scale, view_rule, size in zip(scales, rule.views, sizes, strict=True)
    )
    return contributions, familiarity * sum(offsets)
