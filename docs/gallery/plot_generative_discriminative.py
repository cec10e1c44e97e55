"""
Generative against discriminative
=================================

Naive Bayes models how rows come about, and wrongly: it takes the columns for independent given the class.
Logistic regression models the label alone. With few rows a strong assumption is worth more than the data, and
naive Bayes errs less; with many, its bias stays and logistic regression passes it (Ng and Jordan, 2002).

Simulated here: thirty columns, each of which says a little; ten of them are copies of one thing, which
naive Bayes counts ten times over.
"""

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tamis.arrays import Array
from tamis.estimators import GaussianNB

COPIES, OTHERS, REPEATS = 10, 20, 40
SIZES = (10, 16, 25, 40, 64, 100, 160, 250, 400, 640, 1000)


def draw(rng: np.random.Generator, n: int) -> tuple[Array, NDArray[np.int64]]:
    """Rows of two classes, as many of each."""
    y = np.arange(n) % 2
    sign = (2.0 * y - 1.0)[:, None]
    common = 0.35 * sign + rng.normal(size=(n, 1))
    copies = common + 0.6 * rng.normal(size=(n, COPIES))
    others = 0.25 * sign + rng.normal(size=(n, OTHERS))
    return np.concatenate([copies, others], axis=1), y


test_rows, test_labels = draw(np.random.default_rng(0), 5_000)
errors: dict[str, Array] = {
    name: np.empty((len(SIZES), REPEATS)) for name in ("naive Bayes", "logistic regression")
}
for i, n in enumerate(SIZES):
    for j in range(REPEATS):
        rows, labels = draw(np.random.default_rng([n, j]), n)
        for name, model in (
            ("naive Bayes", GaussianNB()),
            ("logistic regression", LogisticRegression(C=100.0, max_iter=2000)),
        ):
            model.fit(rows, labels)
            errors[name][i, j] = np.mean(model.predict(test_rows) != test_labels)

figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
for (name, error), colour in zip(errors.items(), ("#0072B2", "#D55E00"), strict=True):
    low, middle, high = np.quantile(error, [0.1, 0.5, 0.9], axis=1)
    axes.plot(SIZES, middle, color=colour, marker="o", markersize=4, label=name)
    axes.fill_between(SIZES, low, high, color=colour, alpha=0.18, linewidth=0)
    print(f"{name:20s}", "  ".join(f"{n}: {e:.3f}" for n, e in zip(SIZES[::2], middle[::2], strict=True)))
axes.set_xscale("log")
axes.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1000"])
axes.set(xlabel="rows that were learned", ylabel="share of new rows in error")
axes.legend(frameon=False, title=f"median of {REPEATS} samples; band: 10 % to 90 %", alignment="left")
plt.show()
