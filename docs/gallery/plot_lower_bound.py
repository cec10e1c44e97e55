"""
What a step of EM climbs
========================

A mixture of two Gaussians on a line, everything known but the mean θ of one of them. At any θ_old, share the
rows as θ_old would; the auxiliary function A(θ, θ_old) is then a bound on the log-likelihood ℓ(θ): a parabola
that lies below it everywhere and touches it at θ_old (circles). A step goes to the top of the parabola
(triangles), so ℓ, which is at least as high there (arrows), cannot fall.
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
evidence = LabelledRows(encoded, Labels(two, np.full(len(rows), -1)))
truth = model.infer(model.observe(LabelledRows(encoded, Labels(two, np.repeat([0, 1], [60, 30])))))


def at(theta: float) -> Posterior:
    """The mixture with the second mean at θ, and all else as it is."""
    density: Any = truth.densities["x"]
    mean = np.array([density.mean[0], [theta]])
    return Posterior(truth.keys, truth.log_prior, {"x": replace(density, mean=mean)})


def top(old: float) -> float:
    """Where A(θ, θ_old) is largest: the mean of the rows, weighted by the second component's shares."""
    joint = at(old).log_joint(encoded)
    share = 1.0 / (1.0 + np.exp(joint[:, 0] - joint[:, 1]))
    return float(share @ rows[:, 0] / share.sum())


theta = np.linspace(-4.0, 8.0, 241)
likelihood = np.array([em.log_likelihood(evidence, at(t)) for t in theta])

figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
axes.plot(theta, likelihood, color="#333333", linewidth=2.4, label="log-likelihood ℓ(θ)")
for old, colour in ((-2.6, "#0072B2"), (1.6, "#D55E00"), (3.4, "#009E73")):
    bound = np.array([em.lower_bound(evidence, at(t), at(old)) for t in theta])
    new = top(old)
    touch, best = em.log_likelihood(evidence, at(old)), em.lower_bound(evidence, at(new), at(old))
    reached = em.log_likelihood(evidence, at(new))
    print(f"θ_old = {old:+.1f}: largest A − ℓ on the grid {np.max(bound - likelihood):+.1e}; ", end="")
    print(f"step to {new:+.3f}, ℓ {touch:.2f} → {reached:.2f}")
    axes.plot(theta, bound, color=colour, label=f"A(θ, θ_old = {old:g}), its top at {new:.2f}")
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
