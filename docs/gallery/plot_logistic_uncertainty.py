"""
The uncertainty of logistic regression
======================================

A few rows of two classes do not determine the line that divides them. The mode of the coefficients gives
one line, and probabilities that approach 0 and 1 along straight, parallel contours (left). The posterior is
a Gaussian at the mode, by Laplace's approximation; averaged over it, the contours spread like a fan, and
probabilities are less extreme far from the rows (middle). The right plot shows lines drawn from the
posterior.

Both predict the same class everywhere: averaging changes the confidence, not the decision.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from tamis import LogisticRegression
from tamis.arrays import Array

CENTRES = np.array([[-1.0, -0.5], [1.0, 0.5]])
rng = np.random.default_rng(3)


def draw(size: int) -> tuple[Array, Any]:
    """Rows of two classes, as many of each."""
    rows = np.repeat(CENTRES, size // 2, axis=0) + rng.normal(0.0, 1.0, (size, 2))
    return rows, np.repeat(["no", "yes"], size // 2)


def with_ones(rows: Array) -> Array:
    """A column of ones for the intercept, so that one covariance holds all three coefficients."""
    return np.column_stack([rows, np.ones(len(rows))])


rows, labels = draw(20)
model = LogisticRegression(alpha=0.1, fit_intercept=False).fit(with_ones(rows), labels)
side = np.linspace(-7.0, 7.0, 181)
plane = with_ones(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2))


def points(axes: Any) -> None:
    """The rows, in a frame of one size."""
    for name, marker, fill, edge in (("no", "o", "white", "black"), ("yes", "^", "black", "white")):
        at = rows[labels == name].T
        axes.scatter(*at, marker=marker, c=fill, edgecolors=edge, s=42, zorder=3, label=name)
    axes.set(xlim=(-7, 7), ylim=(-7, 7), xticks=[-5, 0, 5], yticks=[-5, 0, 5], aspect="equal")


figure, (plugin, averaged, lines) = plt.subplots(1, 3, figsize=(11, 4.5), layout="constrained")
for axes, predictive, title in (
    (plugin, "plugin", "probability of “yes” at the mode"),
    (averaged, "probit", "averaged over the posterior"),
):
    chance = model.set_params(predictive=predictive).predict_proba(plane)[:, 1].reshape(181, 181)
    axes.imshow(chance, cmap="Blues", alpha=0.6, vmin=0, vmax=1, origin="lower", extent=(-7, 7, -7, 7))
    drawn = axes.contour(
        side, side, chance, levels=[0.05, 0.2, 0.5, 0.8, 0.95], colors="black", linewidths=1.0
    )
    axes.clabel(drawn, drawn.levels[1:], fmt="%g", fontsize=9, inline_spacing=2)
    points(axes)
    axes.set(title=title)

for w in rng.multivariate_normal(model.coef_[0], model.coef_covariance_, 30):
    lines.axline((0, -w[2] / w[1]), slope=-w[0] / w[1], color="silver", linewidth=0.8)
w = model.coef_[0]
lines.axline((0, -w[2] / w[1]), slope=-w[0] / w[1], color="#D55E00", linewidth=3.5, zorder=2.5)
points(lines)
lines.set(title="lines drawn from the posterior")
handles, names = lines.get_legend_handles_labels()
figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
plt.show()

# %%
# In numbers: far from all rows, the probability at the mode is almost 1, and the average is not.

print(f"coefficients {w.round(2)} ± {model.coef_std_[0].round(2)}")
direction = w[:2] / np.linalg.norm(w[:2])
for distance in (1, 5, 30):
    row = with_ones(distance * direction[None])
    mode, average = (model.set_params(predictive=p).predict_proba(row)[0, 1] for p in ("plugin", "probit"))
    print(f"{distance:2d} from the middle: {mode:.6f} at the mode, {average:.4f} averaged")

# %%
# More rows narrow the posterior. Along a line through both classes, the average (solid) approaches the
# curve at the mode (dashed); the band is a 90 % interval. Strokes are rows.

place = np.linspace(-6.0, 6.0, 241)
toward = CENTRES[1] / np.linalg.norm(CENTRES[1])
along = with_ones(place[:, None] * toward)
figure, grid = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
for axes, size in zip(grid, (10, 30, 300), strict=True):
    rows, labels = draw(size)
    model = LogisticRegression(alpha=0.1, fit_intercept=False, predictive="probit")
    model.fit(with_ones(rows), labels)
    odds = model.decision_function(along)
    spread = np.sqrt(np.einsum("ni,ij,nj->n", along, model.coef_covariance_, along))
    axes.fill_between(
        place,
        expit(odds - 1.645 * spread),
        expit(odds + 1.645 * spread),
        color="#0072B2",
        alpha=0.2,
        linewidth=0,
    )
    axes.plot(place, model.predict_proba(along)[:, 1], color="#0072B2", linewidth=2.2, label="average")
    axes.plot(place, expit(odds), color="black", linestyle="--", label="mode")
    axes.plot(rows @ toward, np.where(labels == "yes", 1.04, -0.04), "|", color="black", markersize=7)
    axes.set(title=f"{size} rows", xlabel="position along the line")
grid[0].set(ylabel="probability of “yes”")
grid[2].legend(frameon=False, loc="center right")
plt.show()
