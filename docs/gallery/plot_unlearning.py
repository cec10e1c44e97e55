"""
Rounding error after forgetting
===============================

Learn 200,000 rows, forget all but 200 in another order, and read the variance of the 200. Running sums in
float64 lose two digits for every digit of the mean, and all of them at a million; the centred formulas of
Welford and Chan lose nearly one. Sums kept as integers lose nothing: the bits equal those of observing only
the 200.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis.arrays import Array
from tamis.protocols import total
from tamis.stats import Moments

MEANS = 10.0 ** np.arange(0, 10)
ROWS, KEPT, SHARD = 200_000, 200, 2_000


def running_sums(shards: list[Array], removed: list[Array]) -> float:
    """n, Σx and Σx² in float64."""
    sums = np.zeros(3)
    for x in shards:
        sums = sums + np.array([len(x), x.sum(), (x * x).sum()])
    for x in removed:
        sums = sums - np.array([len(x), x.sum(), (x * x).sum()])
    n, first, second = sums
    return float(second / n - (first / n) ** 2)


def centred(shards: list[Array], removed: list[Array]) -> float:
    """Mean and scatter, merged and subtracted by Chan's formulas."""
    n, mean, scatter = 0, 0.0, 0.0
    for x in shards:
        m, step = len(x), x.mean() - mean
        scatter += ((x - x.mean()) ** 2).sum() + step**2 * n * m / (n + m)
        mean += step * m / (n + m)
        n += m
    for x in removed:
        m = len(x)
        kept = mean + (mean - x.mean()) * m / (n - m)
        scatter -= ((x - x.mean()) ** 2).sum() + (x.mean() - kept) ** 2 * (n - m) * m / n
        n, mean = n - m, kept
    return float(scatter / n)


def exact(shards: list[Array], removed: list[Array]) -> float:
    """The statistic of this library."""
    learned = total(Moments.observe(x) for x in shards)
    return float((learned - total(Moments.observe(x) for x in removed)).variance)


rng = np.random.default_rng(0)
errors: dict[str, list[float]] = {"running sums": [], "centred (Welford, Chan)": [], "tamis": []}
for mean in MEANS:
    x = rng.normal(mean, 1.0, ROWS)
    truth = np.var((x[:KEPT] - mean).astype(np.longdouble))
    shards = [x[i : i + SHARD] for i in range(0, ROWS, SHARD)]
    removed = list(np.array_split(rng.permutation(x[KEPT:]), 77))
    for name, method in zip(errors, (running_sums, centred, exact), strict=True):
        errors[name].append(max(abs(float(method(shards, removed) / truth) - 1), 1e-17))

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, error), marker in zip(errors.items(), "sov", strict=True):
    axes.loglog(MEANS, error, marker=marker, label=name)
axes.axhline(1.0, color="grey", linewidth=0.8, linestyle=":")
axes.text(2e3, 1.6, "no correct digit", color="grey", fontsize="small")
axes.set(xlabel="mean of the data (standard deviation 1)", ylabel="relative error of the variance")
axes.legend(frameon=False, loc="upper left")
plt.show()
