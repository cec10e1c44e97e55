"""
A sinusoid from nine bumps
==========================

A model that is linear in its coefficients follows a curve if its features are functions: here nine Gaussian
bumps, evenly over the range. After 1, 2, 4 and 25 points of a noisy sinusoid (dashed): left, the predicted
mean and one standard deviation about it, noise included; right, functions drawn from the posterior.

Far from the points, functions differ, and the band is wide. With more points it narrows to the noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis import BayesianLinearRegression
from tamis.basis import GaussianBasis

rng = np.random.default_rng(3)
noise = 0.2
x = rng.uniform(0.0, 1.0, (25, 1))
y = np.sin(2.0 * np.pi * x[:, 0]) + rng.normal(0.0, noise, 25)

places = np.linspace(0.0, 1.0, 201)[:, None]
bumps = GaussianBasis(9, include_bias=True).fit(places)
model = BayesianLinearRegression(alpha=2.0, beta=1.0 / noise**2, fit_intercept=False)

figure, grid = plt.subplots(4, 2, figsize=(8.2, 10.5), layout="constrained", sharex=True, sharey=True)
for (band, drawn), start, seen in zip(grid, (0, 1, 2, 4), (1, 2, 4, 25), strict=True):
    model.partial_fit(bumps.transform(x[start:seen]), y[start:seen])
    mean, std = model.predict(bumps.transform(places), return_std=True)
    functions = model.sample_functions(bumps.transform(places), 6, random_state=seen)
    band.fill_between(places[:, 0], mean - std, mean + std, color="#56B4E9", alpha=0.35, linewidth=0)
    band.plot(places, mean, color="#0072B2", linewidth=2.0)
    drawn.plot(places, functions.T, color="#0072B2", linewidth=1.0, alpha=0.8)
    for axes in (band, drawn):
        axes.plot(places, np.sin(2.0 * np.pi * places), color="#333333", linewidth=1.4, linestyle="--")
        axes.plot(x[:seen], y[:seen], "o", color="black", markersize=5, markerfacecolor="white")
    points = f"{seen} point{'s' * (seen > 1)}"
    band.set(title=f"after {points}: mean ± 1 sd", ylabel="y", xlim=(0, 1), ylim=(-2.2, 2.2))
    drawn.set_title(f"after {points}: functions drawn")
    print(f"after {seen:2d}: the band is {std.min():.2f} to {std.max():.2f} wide to each side")
for axes in grid[-1]:
    axes.set_xlabel("x")
plt.show()
