"""
Digits from a few components
============================

Images of handwritten digits have 64 pixels, but vary in fewer directions. Above, one of each digit
reconstructed from 2, 8 and 32 principal components. In the middle, the mean and the first components.

The number of components is chosen by five-fold cross-validation: it has the largest held-out log-density.
One decomposition per fold scores all numbers, and no image is read twice.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from tamis import PCA

digits = load_digits()
X = digits.data
chosen = PCA("held-out").fit(X)
scores = chosen.count_scores_
examples = X[[int(np.flatnonzero(digits.target == digit)[3]) for digit in range(10)]]

figure = plt.figure(figsize=(8.6, 8.4), layout="constrained")
above, middle, below = figure.subfigures(3, 1, height_ratios=[4.2, 1.3, 2.9])  # type: ignore[misc]

grid = above.subplots(4, 10, gridspec_kw={"wspace": 0.02, "hspace": 0.02})
for row, count in zip(grid, (2, 8, 32, None), strict=True):
    model = PCA(count).fit(X)
    drawn = examples if count is None else model.inverse_transform(model.transform(examples))
    for axes, image in zip(row, drawn, strict=True):
        axes.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0.0, vmax=16.0)
    if count is not None:
        print(f"{count:2d} components keep {model.explained_variance_ratio_.sum():.0%} of the variance")
    row[0].set_ylabel("original" if count is None else f"K = {count}", rotation=0, ha="right", va="center")

ways = middle.subplots(1, 10)
ways[0].imshow(chosen.mean_.reshape(8, 8), cmap="gray_r")
ways[0].set_title("mean", fontsize=9)
for place, axes in enumerate(ways[1:]):
    axes.imshow(chosen.components_[place].reshape(8, 8), cmap="RdBu_r", vmin=-0.4, vmax=0.4)
    axes.set_title(f"{place + 1}", fontsize=9)
for axes in [*grid.flat, *ways]:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)

curve = below.subplots()
counts = np.arange(1, len(scores) + 1)
known = np.isfinite(scores)
curve.plot(counts[known], scores[known], color="#0072B2", linewidth=2.0)
best = chosen.n_components_
curve.plot(best, scores[best - 1], "o", color="#D55E00", markersize=8)
curve.annotate(
    f"K = {best}",
    (best, scores[best - 1]),
    xytext=(0, -16),
    textcoords="offset points",
    ha="center",
    va="top",
)
curve.set(
    xlabel="components kept",
    ylabel="log-density of a held-out image",
    xlim=(0, 62),
    ylim=(np.quantile(scores[known], 0.05), scores.max() + 3.0),
)
curve.spines[["top", "right"]].set_visible(False)
print(f"held-out images are most probable with {best} of 64")
plt.show()
