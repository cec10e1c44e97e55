"""
A coin, toss by toss
====================

The distribution of a coin's probability of heads before any toss, after one head, after two, and after 55
heads in 100 tosses. Each curve is the previous one, updated by the statistic of the tosses in between.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis import Beta
from tamis.stats import Tally

posterior = Beta(2, 2)
head = Tally.observe([1])
rest = Tally.observe([1] * 53 + [0] * 45)

curves = {"before: Beta(2, 2)": posterior}
for name, tosses in (("one head", head), ("two heads", head), ("55 heads in 100", rest)):
    posterior = posterior.update(tosses)
    curves[f"{name}: Beta({posterior.a:g}, {posterior.b:g}), mean {posterior.mean:.3f}"] = posterior

places = np.linspace(0, 1, 501)
figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
for label, curve in curves.items():
    axes.plot(places, np.exp(curve.log_density(places)), label=label)
low, high = posterior.interval(0.95)
axes.axvspan(float(low), float(high), alpha=0.12, color="C3", label=f"95 % interval: {low:.2f} to {high:.2f}")
axes.set(xlabel="probability of heads", ylabel="density", xlim=(0, 1), ylim=(0, None))
figure.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
