"""
A mixture, step by step
=======================

The component of each row is unknown. A step of EM computes the responsibilities of the present components
for the rows, sums the rows with them (the same statistic as a classifier's), and infers the components
again. The log-likelihood never decreases.

The start is poor on purpose: rows have random labels, so that all components are nearly equal.
"""

from itertools import islice

import matplotlib.pyplot as plt
import numpy as np

from tamis.models.generative import GaussianVectors, Generative, LabelledRows, em
from tamis.plots.canvas import COLOURS
from tamis.stats import Keys, Labels
from tamis.tables import Table

rng = np.random.default_rng(1)
rows = np.concatenate(
    [
        rng.multivariate_normal([0.0, 0.0], [[1.0, 0.7], [0.7, 1.0]], 150),
        rng.multivariate_normal([4.0, 0.5], [[0.4, 0.0], [0.0, 1.5]], 100),
        rng.multivariate_normal([2.0, 4.5], [[1.6, -0.8], [-0.8, 0.8]], 150),
    ]
)

model = Generative({"rows": GaussianVectors(covariance="full", estimate="map")})
encoded = model.encode(Table.of(rows))
three = Keys((0, 1, 2))

start = model.infer(model.observe(LabelledRows(encoded, Labels(three, rng.integers(0, 3, len(rows))))))
unlabelled = LabelledRows(encoded, Labels(three, np.full(len(rows), -1)))

posteriors, likelihoods = [start], []
for step in islice(em.steps(model, unlabelled, start), 30):
    posteriors.append(step.posterior)
    likelihoods.append(step.objective)  # of the posterior before the step
increases = np.diff(likelihoods)
print(f"log-likelihood {likelihoods[0]:.1f} at the start, {likelihoods[-1]:.1f} after 29 steps")
print(f"smallest increase of any step: {increases.min():.2e}")

# %%
# Rows are coloured by their responsibilities; ellipses are one and two standard deviations.

turn = np.linspace(0.0, 2.0 * np.pi, 100)
circle = np.stack([np.cos(turn), np.sin(turn)])
palette = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in COLOURS[:3]])

figure, grid = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
for number, axes in zip((0, 1, 3, 10, 30), grid.flat, strict=False):
    posterior = posteriors[number]
    joint = posterior.log_joint(encoded)
    responsibilities = np.exp(joint - joint.max(axis=1, keepdims=True))
    responsibilities /= responsibilities.sum(axis=1, keepdims=True)
    axes.scatter(*rows.T, c=responsibilities @ palette, s=9, alpha=0.7, linewidths=0)
    density: object = posterior.densities["rows"]
    means, covariances = getattr(density, "mean"), getattr(density, "covariance")  # noqa: B009
    for k in range(3):
        ring = np.linalg.cholesky(covariances[k]) @ circle
        for wide, look in ((1.0, "-"), (2.0, "--")):
            axes.plot(*(means[k][:, None] + wide * ring), look, color=COLOURS[k], linewidth=1.8)
    title = "the start" if number == 0 else f"after {number} step{'s' * (number > 1)}"
    axes.set(title=title, xlim=(-4, 7), ylim=(-4.5, 7.5), xticks=[], yticks=[])

last = grid.flat[5]
last.plot(np.arange(len(likelihoods)), likelihoods, color="#333333", marker=".", markersize=4)
last.yaxis.tick_right()
last.set(title="log-likelihood", xlabel="steps")
plt.show()
