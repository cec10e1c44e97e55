"""unlabelled mail + what is known → which of it is surely spam, and which surely ham.

The classifier whose labels are given and the mixture whose labels are not are one model: a message without
a label counts as what it is thought to be. One step of EM, of the surest messages only, and as many of
either kind: with all messages, or with further steps, one kind swallows the other when few labels are known
(experiments/0005-mail-views: mean ROC area 98.2 % without, 99.1 % with one such step, 97.7 % with two of
all).

Earlier guesses do not count for later ones: what is guessed of some mail depends on that mail and on what was
labelled, and nothing more is guessed when the same mail comes again.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis_mail.labels import GUESS_UNITS
from tamis_mail.sieve.jobs import judge_features
from tamis_mail.store import Store

__all__ = ["guess_spam_units"]

_PART = 0.1  # of the messages, that are taken on either side at most
_SURE = 0.9  # the least probability of what is taken


def guess_spam_units(features: Sequence[NDArray[np.uint64]], store: Store) -> list[int | None]:
    """How many of GUESS_UNITS parts of each message are spam; None where nothing sure can be said."""
    probability = np.array([one.probability for one in judge_features(features, store, with_guesses=False)])
    order = np.argsort(probability, kind="stable")
    hams, spams = np.count_nonzero(probability <= 1 - _SURE), np.count_nonzero(probability >= _SURE)
    limit = min(int(_PART * len(features)), int(hams), int(spams))
    selected = {*order[:limit].tolist(), *order[len(order) - limit :].tolist()}
    units = np.rint(probability * GUESS_UNITS).astype(np.int64).tolist()
    return [spam_units if number in selected else None for number, spam_units in enumerate(units)]
