"""Judge many messages by the counts of their features, in NumPy; equal to `judging` up to rounding.

A view is a kind of features: byte n-grams, headers, words, pairs of words, relations between parts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.compiled import core
from tamis_mail.features import GRAMS, HEADERS
from tamis_mail.features.arrays import expand_ranges, views
from tamis_mail.labels import SPAM, Label
from tamis_mail.records import record
from tamis_mail.verdict.judging import decide, list_other_labels, refuse_negative, shrinkage
from tamis_mail.verdict.rule import Rule, Side, View, one_versus_rest, sides
from tamis_mail.verdict.verdict import Judgement

# One side of a comparison: how many of its messages have each feature, and how many messages it has, by view.
CountedSide = tuple[NDArray[np.float64], Sequence[float]]
# The features of messages: message i has rows[begins[i] : ends[i]].
Ranges = tuple[NDArray[np.intp], NDArray[np.intp]]
# Indices of rows of counts, of which each feature has one; a fit has millions, for which four bytes suffice.
Rows = NDArray[np.int32] | NDArray[np.intp]
Kinds = NDArray[np.uint8] | NDArray[np.intp]  # the view of each row
Groups = NDArray[np.int32] | NDArray[np.intp]  # the group of each row: see `group_counts`


def judge_many(
    keys: NDArray[np.uint64],
    rows: Rows,
    starts: NDArray[np.intp],
    counts: NDArray[np.int64] | NDArray[np.float64],
    labels: Sequence[Label],
    rule: Rule,
    unit: int,
    coefficients: NDArray[np.float64] | None = None,
    offsets: NDArray[np.float64] | None = None,
) -> list[Judgement]:
    """Judge messages: message i has the features rows[starts[i] : starts[i + 1]], feature j has counts[j].

    `keys` and `coefficients` have one value per row of the counts; `unit` is the weight of a message that is
    learned now. `offsets` are added to the log-odds of spam: the evidence of an imported word list.
    """
    other_labels = list_other_labels(labels)
    kinds = views(keys, rule.token_version)
    ranges = starts[:-1], starts[1:]
    groups, firsts = group_counts(kinds, counts)
    group_kinds, counts = kinds[firsts], counts[firsts]

    def compute_log_odds(left: CountedSide, right: CountedSide, rule: Rule) -> NDArray[np.float64]:
        view_scores, _ = _score_views(rows, ranges, group_kinds, rule, left, right, groups)
        return log_odds(view_scores, rule)

    spam, rest = sides(labels, SPAM, other_labels, unit, guessed_weight=rule.guessed)
    odds_of_spam = compute_log_odds(_count_side(counts, spam), _count_side(counts, rest), rule)
    odds_of_spam += rule.intercept * shrinkage(spam.messages[GRAMS], rest.messages[GRAMS], rule)
    if coefficients is not None:
        odds_of_spam += sum_coefficients(rows, ranges, kinds, coefficients, rule)
    if offsets is not None:
        odds_of_spam += offsets
    all_labels, comparisons = one_versus_rest(labels, other_labels, unit)
    total = side_counts(counts, all_labels)
    odds_by_label = {}
    label_rule = rule.drop_centres()
    for comparison in comparisons:
        own = side_counts(counts, comparison.own)
        odds_by_label[comparison.name] = compute_log_odds(
            (own, comparison.own.messages), (total - own, comparison.rest), label_rule
        )
    return [
        decide(
            float(odds),
            other_labels,
            {name: float(odds_of_label[message]) for name, odds_of_label in odds_by_label.items()},
            rule,
        )
        for message, odds in enumerate(odds_of_spam)
    ]


@record(frozen=True, slots=True)
class Contributions:
    """What the features, the offsets of the views and the intercept add to the log-odds of one message."""

    features: NDArray[np.float64]  # (features,)
    spam: NDArray[np.float64]  # (features,): the number of spam messages that have the feature
    ham: NDArray[np.float64]  # (features,): the number of other messages that have the feature
    offset: float  # by the views' offsets; not 0 only for tokens of version 1: `judging.HEADER_LENGTH`
    intercept: float
    n_spam: float  # the numbers of all spam and of all other messages; earlier and guessed ones count less
    n_ham: float


def contribute(
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64] | NDArray[np.float64],
    labels: Sequence[Label],
    rule: Rule,
    unit: int,
    coefficients: NDArray[np.float64] | None = None,
) -> Contributions:
    """Compute what each feature of one message adds to the log-odds that `judge_many` computes.

    `keys` are the features, and `counts` has one row for each. The evidence of a word list is not included.
    """
    spam, rest = sides(labels, SPAM, list_other_labels(labels), unit, guessed_weight=rule.guessed)
    (s, spams), (h, hams) = left, right = _count_side(counts, spam), _count_side(counts, rest)
    kinds = views(keys, rule.token_version)
    sizes = np.bincount(kinds, minlength=len(rule.views))
    scales = [shrinkage(spams[kind], hams[kind], rule) * view.scale for kind, view in enumerate(rule.views)]
    factors = np.array(scales) / (sizes + [view.reluctance for view in rule.views])
    features = _weigh_features(kinds, rule, left, right) * factors[kinds]
    if coefficients is not None:
        features += coefficients / np.sqrt(sizes[kinds])
    familiar = int(np.count_nonzero((s + h > 0) & (kinds <= HEADERS)))
    offsets = (
        scale * view.offset(int(size)) for scale, view, size in zip(scales, rule.views, sizes, strict=True)
    )
    return Contributions(
        features,
        s,
        h,
        familiar / (familiar + rule.acquaintance) * sum(offsets),
        rule.intercept * shrinkage(spams[GRAMS], hams[GRAMS], rule),
        spams[GRAMS],
        hams[GRAMS],
    )


def sum_coefficients(
    rows: Rows,
    ranges: Ranges,
    kinds: Kinds,
    coefficients: NDArray[np.float64],
    rule: Rule,
) -> NDArray[np.float64]:
    """(messages,): the sum of b / √n over a message's features, of which n are of the same view."""
    messages, n_views = len(ranges[0]), len(rule.views)
    if core is not None:
        sums = np.empty(messages)
        indices = [array.astype(np.int64, copy=False) for array in (rows, *ranges)]
        kinds = kinds.astype(np.uint8, copy=False)
        core.mail.sum_coefficients(*indices, kinds, coefficients, n_views, sums)
        return sums
    positions, owners = expand_ranges(*ranges)
    rows = rows[positions]
    cells = owners * n_views + kinds[rows]
    sizes = np.bincount(cells, minlength=messages * n_views)
    terms = coefficients[rows] / np.sqrt(sizes[cells])
    return np.bincount(owners, terms, messages).astype(np.float64, copy=False)


def log_odds(view_scores: NDArray[np.float64], rule: Rule) -> NDArray[np.float64]:
    """(messages,): the sum of the scores of the views, each times its scale."""
    total: NDArray[np.float64] = view_scores @ np.array([view.scale for view in rule.views])
    return total


def group_counts(
    kinds: Kinds, counts: NDArray[np.int64] | NDArray[np.float64]
) -> tuple[Groups, NDArray[np.intp]]:
    """Return the group of each row of counts, and the first row of each group.

    The rows of a group have the same view and the same counts, and therefore the same weight, which is
    computed once. There are few groups, because most features are in one or two messages.
    """
    if core is None:
        return group_by_numpy(kinds, counts)
    groups, firsts = np.empty(len(kinds), np.int32), np.empty(len(kinds), np.int64)
    bits = np.ascontiguousarray(counts).view(np.int64)
    number = core.mail.group_counts(kinds.astype(np.uint8, copy=False), bits, groups, firsts)
    return groups, firsts[:number].astype(np.intp, copy=False)


def group_by_numpy(
    kinds: Kinds, counts: NDArray[np.int64] | NDArray[np.float64]
) -> tuple[Groups, NDArray[np.intp]]:
    """Group rows of counts in NumPy: the reference for `core.mail`."""
    columns = [kinds, *counts.T]
    order = np.lexsort(columns)
    is_first = np.zeros(len(kinds), bool)
    is_first[:1] = True
    for column in columns:
        is_first[1:] |= column[order[1:]] != column[order[:-1]]
    firsts = order[is_first]  # the sort is stable
    ranks = np.empty_like(firsts)
    ranks[np.argsort(firsts)] = np.arange(len(firsts))
    groups = np.empty_like(order)
    groups[order] = ranks[np.cumsum(is_first) - 1]
    return groups, np.sort(firsts)


def scores(
    rows: Rows,
    ranges: Ranges,
    kinds: Kinds,
    counts: NDArray[np.int64] | NDArray[np.float64],
    rule: Rule,
    spam: Side,
    rest: Side,
) -> NDArray[np.float64]:
    """(messages, views): the score of each view, before its scale."""
    return score_and_find_presences(rows, ranges, kinds, counts, rule, spam, rest)[0]


def score_and_find_presences(
    rows: Rows,
    ranges: Ranges,
    kinds: Kinds,
    counts: NDArray[np.int64] | NDArray[np.float64],
    rule: Rule,
    spam: Side,
    rest: Side,
    groups: Groups | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(messages, views): the scores, and what the scores would be if every known feature had weight 1.

    With `groups`, `kinds` and `counts` have one element or row per group, and row i of the counts is in group
    groups[i].
    """
    sides_counted = _count_side(counts, spam), _count_side(counts, rest)
    return _score_views(rows, ranges, kinds, rule, *sides_counted, groups)


def _count_side(counts: NDArray[np.int64] | NDArray[np.float64], side: Side) -> CountedSide:
    return side_counts(counts, side), side.messages


def _score_views(
    rows: Rows,
    ranges: Ranges,
    kinds: Kinds,
    rule: Rule,
    spam: CountedSide,
    rest: CountedSide,
    groups: Groups | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    weights = _weigh_features(kinds, rule, spam, rest)
    (s, spams), (h, hams) = spam, rest
    n_views = len(rule.views)
    shrinkages = [shrinkage(spams[kind], hams[kind], rule) for kind in range(n_views)]
    sums, sizes, known = _sum_views(rows, ranges, n_views, kinds, weights, s + h > 0, groups)
    n_known = known[:, : HEADERS + 1].sum(axis=1)  # known n-grams and headers
    offset_factors = n_known / (n_known + rule.acquaintance)
    reluctance, tilt, doubt = np.array([(view.reluctance, view.tilt, view.doubt) for view in rule.views]).T
    offsets = (sizes * tilt + reluctance * doubt) * offset_factors[:, np.newaxis]
    view_scores: NDArray[np.float64] = (sums + offsets) / (sizes + reluctance) * shrinkages
    presences: NDArray[np.float64] = known / (sizes + reluctance) * shrinkages
    return view_scores, presences


def _weigh_features(kinds: Kinds, rule: Rule, spam: CountedSide, rest: CountedSide) -> NDArray[np.float64]:
    """(features,): the weight of each feature, before the scale of its view.

    It is zero if the feature was never learned, or if one of the sides has no messages.
    """
    (s, spams), (h, hams) = spam, rest
    refuse_negative(float(min(s.min(initial=0), h.min(initial=0))))
    weights = np.zeros(len(s))
    is_known = s + h > 0
    for kind, view in enumerate(rule.views):
        if shrinkage(spams[kind], hams[kind], rule):
            selected = np.flatnonzero((kinds == kind) & is_known)
            weights[selected] = weigh(view, s[selected], h[selected], spams[kind], hams[kind]) - view.centre
    return weights


def _sum_views(
    rows: Rows,
    ranges: Ranges,
    n_views: int,
    kinds: Kinds,
    weights: NDArray[np.float64],
    is_known: NDArray[np.bool_],
    groups: Groups | None,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return, by message and view: the sum of the weights, the number of features, the number known."""
    shape = len(ranges[0]), n_views
    sums, sizes, known = np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    if core is None:
        positions, owners = expand_ranges(*ranges)
        rows = rows[positions] if groups is None else groups[rows[positions]]
        cells = owners * n_views + kinds[rows]
        sums.reshape(-1)[:] = np.bincount(cells, weights[rows], sums.size)
        sizes.reshape(-1)[:] = np.bincount(cells, minlength=sums.size)
        known.reshape(-1)[:] = np.bincount(cells[is_known[rows]], minlength=sums.size)
        return sums, sizes, known
    if groups is None:
        groups = np.arange(len(kinds), dtype=np.int32)
    begins, ends = (array.astype(np.int64, copy=False) for array in ranges)
    core.mail.sum_views(
        rows if rows.dtype == np.int32 else rows.astype(np.int64, copy=False),
        groups.astype(np.int32, copy=False),
        begins,
        ends,
        kinds.astype(np.uint8, copy=False),
        weights,
        is_known.view(np.uint8),
        sums,
        sizes,
        known,
    )
    return sums, sizes, known


def side_counts(counts: NDArray[np.int64] | NDArray[np.float64], side: Side) -> NDArray[np.float64]:
    """Compute `Side.count` of each row."""
    total = np.zeros(len(counts))
    for column, factor in side.columns:
        total += factor * counts[:, column]
    return total


def weigh(
    view: View,
    s: NDArray[np.float64],
    h: NDArray[np.float64],
    spams: float | NDArray[np.float64],
    hams: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute `View.weigh` of many features with nonzero counts; the centre is not subtracted."""
    rate = (s + h) / (spams + hams) if view.pooled else np.float64(0.5)
    strength = view.prior if view.pooled else 2 * view.prior
    weights: NDArray[np.float64] = np.log((s + strength * rate) / (spams + strength)) - np.log(
        (h + strength * rate) / (hams + strength)
    )
    return weights
