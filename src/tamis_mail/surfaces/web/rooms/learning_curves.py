"""Simulated messages → naive Bayes and logistic regression on growing samples → error rates on new messages.

A message is the presence or absence of words. Some words are independent given the class, as naive Bayes
assumes; others nearly always occur together, so that naive Bayes counts one piece of evidence several times.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import BernoulliNB, LogisticRegression
from tamis.arrays import Array
from tamis_mail.surfaces.web.rooms.fields import FieldError, Fields

# Numbers of messages in the samples.
SIZES = (10, 18, 32, 56, 100, 180, 320, 560, 1000)
MAX_WORDS = 60
_NEW_MESSAGES = 2000  # on which the error rates are measured
_PROBABILITY = 0.62  # of a word in its class; 0.38 in the other
_NAMES = ("naive Bayes", "logistic regression")  # of the two models


def make_example() -> dict[str, object]:
    """Return the first request of the page: twenty independent words, and four that occur together."""
    return {"independent": 20, "together": 4, "agreement": 0.92, "alpha": 0.01, "repeats": 8, "seed": 0}


def compute(fields: Fields) -> dict[str, object]:
    """Measure the error rates of both models on samples of each size, and find where the curves cross."""
    fields.refuse_unknown("independent", "together", "agreement", "alpha", "repeats", "seed")
    independent = fields.read_integer("independent", 0, MAX_WORDS)
    together = fields.read_integer("together", 0, MAX_WORDS)
    agreement = fields.read_number("agreement", 0.5, 1.0)
    alpha = fields.read_number("alpha", 1e-4, 100.0)
    repeats = fields.read_integer("repeats", 1, 10)
    seed = fields.read_integer("seed", 0, 1_000_000)
    if not 1 <= independent + together <= MAX_WORDS:
        raise FieldError(f"got {independent + together} words, expected 1 to {MAX_WORDS}")

    def draw(count: int, *stream: int) -> tuple[Array, NDArray[np.int64]]:
        rng = np.random.default_rng([seed, *stream])  # a stream of random numbers of its own
        return draw_messages(rng, count, independent, together, agreement)

    new_rows, new_labels = draw(_NEW_MESSAGES, 0)
    errors = np.empty((len(_NAMES), len(SIZES), repeats))
    for i, size in enumerate(SIZES):
        for j in range(repeats):
            rows, labels = draw(size, 1, size, j)
            models: tuple[Any, Any] = BernoulliNB(), LogisticRegression(alpha=alpha, posterior="none")
            for k, model in enumerate(models):
                errors[k, i, j] = np.mean(model.fit(rows, labels).predict(new_rows) != new_labels)
    means = errors.mean(axis=2)
    crossing = find_crossing(means[0], means[1])
    return {
        "sizes": SIZES,
        "curves": [
            {
                "name": name,
                "mean": means[k],
                "low": errors[k].min(axis=1),
                "high": errors[k].max(axis=1),
            }
            for k, name in enumerate(_NAMES)
        ],
        "crossing": crossing,
        "text": _write_sentences(means, crossing),
    }


def draw_messages(
    rng: np.random.Generator, count: int, independent: int, together: int, agreement: float
) -> tuple[Array, NDArray[np.int64]]:
    """Draw messages alternately from two classes; return them, (count, words), and their labels.

    With probability `agreement`, each of the words that occur together has the value of their common draw.
    """
    labels = np.arange(count, dtype=np.int64) % 2
    probability = np.where(labels == 1, _PROBABILITY, 1.0 - _PROBABILITY)[:, None]
    alone = rng.random((count, independent)) < probability
    common = rng.random((count, 1)) < probability
    copies = common ^ (rng.random((count, together)) >= agreement)
    return np.concatenate([copies, alone], axis=1).astype(np.float64), labels


def find_crossing(first: Array, second: Array) -> float | None:
    """Return the size from which on the second curve stays below the first; None if it does not end below it.

    Between two of SIZES, the curves are taken to be linear in the logarithm of the size.
    """
    difference = second - first
    if not difference[-1] < 0:
        return None
    last = int(np.flatnonzero(difference >= 0)[-1]) if (difference >= 0).any() else -1
    if last < 0:
        return float(SIZES[0])
    fraction = difference[last] / (difference[last] - difference[last + 1])
    low, high = np.log(SIZES[last]), np.log(SIZES[last + 1])
    return float(np.exp(low + fraction * (high - low)))


def _write_sentences(means: Array, crossing: float | None) -> list[str]:
    few, many = SIZES[0], SIZES[-1]
    lines = [
        f"With {size} messages to learn from, naive Bayes is wrong on {means[0, i]:.1%} of new ones and "
        f"logistic regression on {means[1, i]:.1%}."
        for size, i in ((few, 0), (many, -1))
    ]
    if crossing is None:
        lines.append(f"With {many} messages, logistic regression is still not better than naive Bayes.")
    elif crossing <= few:
        lines.append(f"Logistic regression is better at every size from {few} messages on.")
    else:
        lines.append(f"The curves cross at about {crossing:.0f} messages.")
    return lines
