"""
Generative against discriminative
=================================

Naive Bayes models the distribution of rows, under a wrong assumption: that columns are independent given
the class. Logistic regression models only the label given the row. With few rows the assumption helps, and
naive Bayes has the lower error rate; with many, its bias remains and logistic regression is better (Ng and
Jordan, 2002).

The simulated rows are presence or absence of words. Twenty words are weak independent evidence; four more
nearly always occur together, so that naive Bayes counts their evidence four times.
"""

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import BernoulliNB, LogisticRegression

TOGETHER, ALONE, REPEATS = 4, 20, 30
SIZES = (10, 18, 32, 56, 100, 180, 320, 560, 1000, 1800, 3200)


def draw(rng: np.random.Generator, n: int) -> tuple[Array, NDArray[np.int64]]:
    """Rows of two classes, as many of each."""
    y = np.arange(n, dtype=np.int64) % 2
    chance = np.where(y == 1, 0.62, 0.38)[:, None]
    alone = rng.random((n, ALONE)) < chance
    common = rng.random((n, 1)) < chance
    together = common ^ (rng.random((n, TOGETHER)) < 0.08)
    return np.concatenate([together, alone], axis=1).astype(np.float64), y


test_rows, test_labels = draw(np.random.default_rng(0), 5_000)
models: dict[str, BernoulliNB | LogisticRegression] = {
    "naive Bayes": BernoulliNB(),
    "logistic regression": LogisticRegression(alpha=0.01),
}
errors = {name: np.empty((len(SIZES), REPEATS)) for name in models}
for i, n in enumerate(SIZES):
    for j in range(REPEATS):
        rows, labels = draw(np.random.default_rng([n, j]), n)
        for name, model in models.items():
            errors[name][i, j] = np.mean(model.fit(rows, labels).predict(test_rows) != test_labels)

figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
for (name, error), colour in zip(errors.items(), ("#0072B2", "#D55E00"), strict=True):
    low, high = np.quantile(error, [0.25, 0.75], axis=1)
    middle = error.mean(axis=1)
    axes.plot(SIZES, middle, color=colour, marker="o", markersize=4, label=name)
    axes.fill_between(SIZES, low, high, color=colour, alpha=0.18, linewidth=0)
    print(f"{name:20s}", "  ".join(f"{n}: {e:.3f}" for n, e in zip(SIZES[::2], middle[::2], strict=True)))
axes.set_xscale("log")
axes.set_xticks([10, 30, 100, 300, 1000, 3000], ["10", "30", "100", "300", "1000", "3000"])
axes.set(xlabel="training rows", ylabel="error rate on new rows")
axes.legend(frameon=False, title=f"mean of {REPEATS} samples; band: interquartile range", alignment="left")
plt.show()
