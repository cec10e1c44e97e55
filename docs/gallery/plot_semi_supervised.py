"""
Few labels, many rows
=====================

Labels are expensive and rows are cheap. Six rows have a label, nearly six hundred have none. A row with a
label belongs to its class; EM divides a row without a label among the classes, by the responsibilities of
the present model. The model and ``fit`` are the same: only some labels are None.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis.estimators import GaussianDiscriminant
from tamis.plots import BoundaryDisplay

rng = np.random.default_rng(11)
n = 300
rows = np.concatenate(
    [
        rng.multivariate_normal([0.0, 0.0], [[3.0, 1.2], [1.2, 0.7]], n),
        rng.multivariate_normal([1.0, 3.0], [[3.0, 1.2], [1.2, 0.7]], n),
    ]
)
truth = np.repeat(["lower", "upper"], n)
known = np.concatenate([rng.choice(n, 3, replace=False), n + rng.choice(n, 3, replace=False)])
labels = np.full(2 * n, None, dtype=object)
labels[known] = truth[known]

figure, grid = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained", sharey=True)
before = GaussianDiscriminant(covariance="full").fit(rows[known], labels[known])
after = GaussianDiscriminant(covariance="full").fit(rows, labels)
for axes, model, title in (
    (grid[0], before, "six labelled rows"),
    (grid[1], after, "and 594 without a label"),
):
    right = float(np.mean(model.predict(rows) == truth))
    BoundaryDisplay.from_estimator(model, rows, labels, ax=axes)
    chosen = [0 if label == "lower" else 1 for label in labels[known]]
    colours = np.array(["#0072B2", "#D55E00"])[chosen]
    axes.scatter(*rows[known].T, s=90, c=colours, edgecolors="black", linewidths=1.5, zorder=6)
    axes.set_title(f"{title}: {right:.1%} of all rows right")
    print(f"{title}: {right:.3f} right, {model.n_iter_} steps of EM")
handles, names = grid[0].get_legend_handles_labels()
figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, markerscale=2)
plt.show()
