"""
Boundaries of Gaussian classifiers
==================================

Three classes, with a Gaussian in each. The form of the covariances determines the form of the boundaries:
one covariance for all classes gives straight lines, one per class gives conics, diagonal ones give naive
Bayes, and one variance per class gives circles. Ellipses are one and two standard deviations; colours fade
where classes are equally probable. Titles give the accuracy in ten-fold cross-validation.

Each of the five plots needs the statistic of one pass: weights, means and scatter matrices by class.
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

figure, grid = plt.subplots(2, 2, figsize=(7.6, 8), layout="constrained")
for covariance, axes in zip(("tied", "full", "diag", "spherical"), grid.flat, strict=True):
    model = GaussianDiscriminant(covariance=covariance)  # type: ignore[arg-type]
    right = model.cross_validate(rows, labels, folds=10).accuracy
    BoundaryDisplay.from_estimator(model.fit(rows, labels), rows, labels, ax=axes, s=10, grid=120)
    axes.set(title=f"{covariance}: {right:.1%} right", xlabel="", ylabel="", aspect="equal")
    print(f"{covariance:10s} {right:.1%} right on held-out folds, log-evidence {model.log_evidence_:.1f}")
handles, names = axes.get_legend_handles_labels()
figure.legend(
    handles, names, loc="outside lower center", ncols=3, frameon=False, title="class", markerscale=2.5
)
plt.show()

# %%
# Fisher's discriminant needs no density. It finds the direction of the largest ratio of between-class to
# within-class variance: :math:`(m_2 - m_1)^2 / (s_1^2 + s_2^2)` for two classes; K classes have K − 1
# directions. The left plot shows the first direction, the right plot the rows along it.

fisher = FisherDiscriminant(n_components=1).fit(rows, labels)
direction = fisher.scalings_[:, 0] / np.linalg.norm(fisher.scalings_[:, 0])
share = float(fisher.explained_variance_ratio_[0])
print(f"first direction {direction.round(3)}, {share:.1%} of the variance between the classes")

figure, (plane, line) = plt.subplots(1, 2, figsize=(8.6, 4.8), layout="constrained")
BoundaryDisplay.from_estimator(fisher, rows, labels, ax=plane, ellipses=False, s=10, grid=120)
ends = fisher.xbar_ + np.outer([-3.2, 3.2], direction)
plane.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": "black", "linewidth": 2})
plane.set(title="Fisher's first direction", xlabel="", ylabel="", aspect="equal")
along = fisher.transform(rows)[:, 0]
bins = np.linspace(along.min(), along.max(), 40)
for name, colour in zip(shapes, COLOURS, strict=False):
    line.hist(along[labels == name], bins, color=colour, alpha=0.6)
line.set(title="rows along it", xlabel="position along the direction", ylabel="rows")
handles, names = plane.get_legend_handles_labels()
figure.legend(
    handles, names, loc="outside lower center", ncols=3, frameon=False, title="class", markerscale=2.5
)
plt.show()
