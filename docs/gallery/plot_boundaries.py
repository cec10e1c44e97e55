"""
Boundaries of Gaussian classifiers
==================================

Three classes, and a Gaussian in each. What the covariances may be decides what the boundaries can be: one for
all classes makes them straight, one each makes them conics, variances alone give naive Bayes, one variance a
class gives circles. Ellipses are one and two standard deviations; colours fade where classes are even.

All five pictures come from the statistics of one pass each: weights, means and scatters by class.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis.estimators import FisherDiscriminant, GaussianDiscriminant
from tamis.plots import BoundaryDisplay
from tamis.plots.canvas import COLOURS

rng = np.random.default_rng(4)
shapes = {
    "a": ([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]]),
    "b": ([3.2, 0.2], [[0.4, -0.3], [-0.3, 1.2]]),
    "c": ([1.6, 3.4], [[2.2, 0.9], [0.9, 0.7]]),
}
rows = np.concatenate([rng.multivariate_normal(mean, spread, 120) for mean, spread in shapes.values()])
labels = np.repeat(list(shapes), 120)

figure, grid = plt.subplots(2, 3, figsize=(9.4, 7.6), layout="constrained")
for covariance, axes in zip(("tied", "full", "diag", "spherical"), grid.flat, strict=False):
    model = GaussianDiscriminant(covariance=covariance)  # type: ignore[arg-type]
    right = model.cross_validate(rows, labels, folds="leave-one-out").accuracy
    BoundaryDisplay.from_estimator(model.fit(rows, labels), rows, labels, ax=axes, s=10, grid=120)
    axes.set(title=f"{covariance}: {right:.1%} right, left out", xlabel="", ylabel="")
    print(f"{covariance:10s} accuracy of rows left out {right:.3f}, log-evidence {model.log_evidence_:.1f}")

# %%
# Fisher asked for no density at all, but for the direction along which classes lie far apart for their
# spread: :math:`(m_2 - m_1)^2 / (s_1^2 + s_2^2)` for two classes, and as many directions as classes less one
# for more. The first is drawn in the plane, and the rows along it beside.

fisher = FisherDiscriminant(n_components=1).fit(rows, labels)
direction = fisher.scalings_[:, 0] / np.linalg.norm(fisher.scalings_[:, 0])
print("first direction", direction.round(3), "holds", fisher.explained_variance_ratio_.round(3))

plane, line = grid.flat[4], grid.flat[5]
BoundaryDisplay.from_estimator(fisher, rows, labels, ax=plane, ellipses=False, s=10, grid=120)
ends = fisher.xbar_ + np.outer([-3.2, 3.2], direction)
plane.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": "black", "linewidth": 2})
plane.set(title="Fisher's first direction", xlabel="", ylabel="")
along = fisher.transform(rows)[:, 0]
bins = np.linspace(along.min(), along.max(), 40)
for k, name in enumerate(shapes):
    line.hist(along[labels == name], bins, color=COLOURS[k], alpha=0.6)
line.set(title="rows along it", xlabel="place along the direction", ylabel="rows")
for axes in grid.flat[:5]:
    axes.set_aspect("equal")
handles, names = plane.get_legend_handles_labels()
figure.legend(
    handles, names, loc="outside lower center", ncols=3, frameon=False, title="class", markerscale=2.5
)
plt.show()
