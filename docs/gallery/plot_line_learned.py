"""
A line, learned point by point
==============================

Points lie about the line y = −0.3 + 0.5 x, with noise of standard deviation 0.2. The distribution of the
line's level w₀ and slope w₁ starts at the prior N(0, I/2). The likelihood of each point (left) times the
distribution before it gives the distribution after it (middle, the truth marked by a cross). Lines drawn
from it (right, the true one dashed) become more and more similar.

The model learns by ``partial_fit``: it keeps sums, and the result equals that of all points at once.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from tamis import BayesianLinearRegression
from tamis.basis import PolynomialBasis
from tamis.conjugate import Normal
from tamis.families import MultivariateGaussian

truth, noise, alpha = np.array([-0.3, 0.5]), 0.2, 2.0
rng = np.random.default_rng(9)
x = rng.uniform(-1.0, 1.0, (20, 1))
line = PolynomialBasis(degree=1, scale=None, include_bias=True).fit(x)  # the functions 1 and x
y = line.transform(x) @ truth + rng.normal(0.0, noise, 20)

side = np.linspace(-1.0, 1.0, 201)
weights = np.stack(np.meshgrid(side, side), axis=-1)  # every w₀ and w₁ in the square
ends = np.array([[-1.0], [1.0]])
prior = MultivariateGaussian(np.zeros(2), np.eye(2) / alpha)


def plane(axes: Any, density: Any) -> None:
    """A density over all lines, with the true one."""
    axes.contourf(side, side, density, levels=12, cmap="Greys", vmax=1.4 * density.max())
    axes.plot(*truth, "+", color="white", markersize=14, markeredgewidth=4.5)
    axes.plot(*truth, "+", color="#D55E00", markersize=11, markeredgewidth=2)
    axes.set(xlabel="w₀", ylabel="w₁")


def draw(row: Any, seen: int, distribution: MultivariateGaussian, lines: Any) -> None:
    """The likelihood of the last point, the distribution after it, and lines (6, 2) by their ends."""
    likelihood, posterior, data = row
    if seen:
        middle = weights @ line.transform(x[[seen - 1]])[0]
        plane(likelihood, np.exp(Normal(middle, noise).log_density(y[seen - 1])))
        likelihood.set_title(f"likelihood of point {seen}")
    plane(posterior, np.exp(distribution.log_density(weights)))
    posterior.set_title(f"posterior after {seen} point{'s' * (seen > 1)}" if seen else "prior")
    data.plot(ends, lines.T, color="#0072B2", linewidth=1.0)
    data.plot(ends, line.transform(ends) @ truth, color="#D55E00", linewidth=2.2, linestyle="--")
    data.plot(x[:seen], y[:seen], "o", color="black", markersize=5, markerfacecolor="white")
    data.set(xlabel="x", ylabel="y", title="six lines drawn from it")
    for axes in row:
        axes.set(xlim=(-1, 1), ylim=(-1, 1), xticks=[-1, 0, 1], yticks=[-1, 0, 1], aspect="equal")


figure, grid = plt.subplots(4, 3, figsize=(8.2, 11), layout="constrained")
grid[0, 0].axis("off")  # no point, no likelihood
draw(grid[0], 0, prior, prior.sample(rng, 6) @ line.transform(ends).T)

model = BayesianLinearRegression(alpha=alpha, beta=1.0 / noise**2, fit_intercept=False)
for row, start, seen in zip(grid[1:], (0, 1, 2), (1, 2, 20), strict=True):
    model.partial_fit(line.transform(x[start:seen]), y[start:seen])
    distribution = MultivariateGaussian(model.coef_, model.coef_covariance_)
    draw(row, seen, distribution, model.sample_functions(line.transform(ends), 6, random_state=0))
    spread = np.sqrt(np.diagonal(model.coef_covariance_))
    print(f"after {seen:2d}: w₀ = {model.coef_[0]:+.2f} ± {spread[0]:.2f}, ", end="")
    print(f"w₁ = {model.coef_[1]:+.2f} ± {spread[1]:.2f}")
plt.show()
