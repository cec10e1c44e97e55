"""Row A12 of the lectures: naive Bayes against logistic regression on growing samples; their curves cross.

The settings are those of `docs/gallery/plot_generative_discriminative.py`: messages are the presence or
absence of 24 words. In half of the messages each word has the probability 0.62, in the other half 0.38.
Twenty words are independent given the class. The other four are copies of one word, each wrong with
probability 0.08, so that naive Bayes counts their evidence four times. Both models learn the same samples and
judge the same 4000 new messages.
"""

from typing import Any

import numpy as np
import pytest

from tamis import BernoulliNB, LogisticRegression
from tamis.arrays import Array

SIZES, REPEATS = (32, 100, 1000, 3200), 12


def draw(rng: np.random.Generator, count: int, copies: int) -> tuple[Array, Array]:
    """Messages of two classes in turn (count, 24) and their labels; some of the words are copies of one."""
    labels = np.arange(count) % 2
    chance = np.where(labels == 1, 0.62, 0.38)[:, None]
    independent = rng.random((count, 24 - copies)) < chance
    copied = (rng.random((count, 1)) < chance) ^ (rng.random((count, copies)) < 0.08)
    return np.concatenate([copied, independent], axis=1).astype(np.float64), labels.astype(np.float64)


def compare(copies: int) -> tuple[Array, Array]:
    """Error rates of both models (models, sizes, repeats), and how many standard errors they differ by.

    The difference is positive where logistic regression is better.
    """
    new, truth = draw(np.random.default_rng(0), 4000, copies)
    errors = np.empty((2, len(SIZES), REPEATS))
    for i, size in enumerate(SIZES):
        for j in range(REPEATS):
            rows, labels = draw(np.random.default_rng([size, j]), size, copies)
            models: tuple[Any, Any] = BernoulliNB(), LogisticRegression(alpha=0.01, posterior="none")
            for k, model in enumerate(models):
                errors[k, i, j] = np.mean(model.fit(rows, labels).predict(new) != truth)
    gap = errors[0] - errors[1]
    return errors.mean(axis=2), gap.mean(axis=1) / (gap.std(axis=1, ddof=1) / np.sqrt(REPEATS))


def test_a12_naive_bayes_is_better_on_few_messages_and_logistic_regression_on_many() -> None:
    (naive, logistic), gaps = compare(copies=4)
    assert (gaps[:2] < -3.0).all(), "32 and 100 messages: naive Bayes has fewer errors"
    assert (gaps[2:] > 3.0).all(), "1000 and 3200 messages: logistic regression has fewer errors"
    assert naive == pytest.approx([0.205, 0.163, 0.151, 0.147], abs=0.01)
    assert logistic == pytest.approx([0.244, 0.195, 0.137, 0.133], abs=0.01)


def test_a12_where_the_assumption_of_naive_bayes_holds_the_curves_do_not_cross() -> None:
    _, gaps = compare(copies=0)
    assert (gaps < 0.0).all()
