"""
The lower bound of EM
=====================

A mixture of two Gaussians on a line, in which only the mean θ of one of them is unknown. The
responsibilities at any θ_old define the auxiliary function A(θ, θ_old), a lower bound on the log-likelihood
ℓ(θ): a parabola that lies below it everywhere and touches it at θ_old (circles). A step of EM goes to the
maximum of the parabola (triangles), where ℓ is at least as high (arrows). So ℓ cannot decrease.
"""

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from tamis.models.generative import GaussianColumns, Generative, LabelledRows, Posterior, em
from tamis.stats import Keys, Labels
from tamis.tables import Table

rng = np.random.default_rng(3)
rows = np.concatenate([rng.normal(0.0, 1.0, 60), rng.normal(4.5, 1.0, 30)])[:, None]
two = Keys((0, 1))
model = Generative({"x": GaussianColumns(estimate="mle", smoothing=0.0)})
encoded = model.encode(Table.of(rows))
unlabelled = LabelledRows(encoded, Labels(two, np.full(len(rows), -1)))
truth = model.infer(model.observe(LabelledRows(encoded, Labels(two, np.repeat([0, 1], [60, 30])))))


def at(theta: float) -> Posterior:
    """The mixture with the second mean at θ, and all other parameters known."""
    density: Any = truth.densities["x"]
    mean = np.array([density.mean[0], [theta]])
    return Posterior(truth.keys, truth.log_prior, {"x": replace(density, mean=mean)})


def maximise_bound(old: float) -> float:
    """The θ of the largest A(θ, θ_old): the mean of the rows, weighted by their responsibilities."""
    joint = at(old).log_joint(encoded)
    r = 1.0 / (1.0 + np.exp(joint[:, 0] - joint[:, 1]))
    return float(r @ rows[:, 0] / r.sum())


theta = np.linspace(-4.0, 8.0, 241)
likelihood = np.array([em.log_likelihood(unlabelled, at(t)) for t in theta])

figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
axes.plot(theta, likelihood, color="#333333", linewidth=2.4, label="log-likelihood ℓ(θ)")
for old, colour in ((-2.6, "#0072B2"), (1.6, "#D55E00"), (3.4, "#009E73")):
    bound = np.array([em.lower_bound(unlabelled, at(t), at(old)) for t in theta])
    new = maximise_bound(old)
    touch, best = em.log_likelihood(unlabelled, at(old)), em.lower_bound(unlabelled, at(new), at(old))
    reached = em.log_likelihood(unlabelled, at(new))
    print(f"θ_old = {old:+.1f}: largest A − ℓ on the grid {np.max(bound - likelihood):+.1e}; ", end="")
    print(f"step to {new:+.3f}, ℓ {touch:.2f} → {reached:.2f}")
    axes.plot(theta, bound, color=colour, label=f"A(θ, θ_old = {old:g}), maximum at {new:.2f}")
    axes.plot(old, touch, "o", color=colour, markersize=8)
    axes.plot(new, best, "^", color=colour, markersize=8)
    axes.annotate("", (new, reached), (new, best), arrowprops={"arrowstyle": "->", "color": colour})
low = likelihood.min()
axes.set(
    xlabel="θ, the mean of the second component",
    ylabel="log-likelihood and its bounds",
    ylim=(low - 0.25 * np.ptp(likelihood), likelihood.max() + 0.08 * np.ptp(likelihood)),
    xlim=(theta[0], theta[-1]),
)
figure.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
