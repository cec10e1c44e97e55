"""Drop words and pairs of words that hardly change verdicts.

The score of a view is a mean of weights, to which an unknown feature contributes zero. So dropping features
of absolute weight at most e changes the score by at most e, and the log-odds by at most e times the sum of
the scales of the pruned views. Only features whose counts add up to at most the weight of one message learned
now are dropped: those that were seen once, or more often before decays. A common word of weight zero must
stay: if it were dropped, it would have the weight of a rare word when it occurs again. Headers stay, because
the rule (`acquaintance`) depends on how many are known. The fitted weights stay, too, because the bound is
computed with them.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import PAIRS, WORDS
from tamis_mail.features.arrays import views
from tamis_mail.labels import SPAM, Label
from tamis_mail.store import Store, maintenance
from tamis_mail.store.tables import CountTable
from tamis_mail.verdict import Rule
from tamis_mail.verdict.arrays import side_counts, weigh
from tamis_mail.verdict.judging import list_other_labels
from tamis_mail.verdict.rule import list_comparisons, sides


def prune(
    store: Store, bound: float, progress: maintenance.Progress | None = None
) -> maintenance.PruningSummary:
    """Drop rare words and pairs; together, they change the log-odds of a message by at most `bound`."""
    if not bound > 0:
        raise ValueError(f"the bound is {bound}: give log-odds above 0, such as 0.5")
    rule, message_weight = Rule.of(store), store.message_weight()
    scale = sum(abs(rule.views[kind].scale) for kind in (WORDS, PAIRS))
    max_weight = bound / scale if scale else inf  # with both scales at zero, these views have no effect

    def select_negligible(table: CountTable, labels: Sequence[Label]) -> NDArray[np.bool_]:
        kinds = views(table.keys, rule.token_version)
        is_negligible: NDArray[np.bool_] = ((kinds == WORDS) | (kinds == PAIRS)) & (
            table.counts.sum(axis=1) <= message_weight
        )
        other_labels = list_other_labels(labels)  # neither spam nor guessed
        for name, rest in list_comparisons(other_labels):  # a label, and those it is compared with
            comparison_rule = rule if name == SPAM else rule.drop_centres()
            one, other = sides(labels, name, rest, message_weight, guessed_weight=rule.guessed)
            s, h = side_counts(table.counts, one), side_counts(table.counts, other)
            for kind in (WORDS, PAIRS):
                spams, hams = one.messages[kind], other.messages[kind]
                if not (spams and hams):  # without messages of both classes, weights are unknown
                    is_negligible[:] = False
                    continue
                rows = np.flatnonzero(is_negligible & (kinds == kind) & (s + h > 0))
                view = comparison_rule.views[kind]
                weights = weigh(view, s[rows], h[rows], spams, hams) - view.centre
                is_negligible[rows] = np.abs(weights) <= max_weight
        return is_negligible

    # `has_effect` says whether verdicts change; if they do not, `drop` keeps the fitted weights.
    return maintenance.drop(store, select_negligible, progress, has_effect=False)
