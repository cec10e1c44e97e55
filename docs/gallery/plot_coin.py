"""
A coin, toss by toss
====================

Belief about a coin before any toss, after one head, after two, and after 55 heads in 100 tosses. Each curve
is the one before it, updated by the statistic of the tosses between them.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis import Beta
from tamis.stats import Tally

belief = Beta(2, 2)
head = Tally.observe([1])
rest = Tally.observe([1] * 53 + [0] * 45)

beliefs = {"before: Beta(2, 2)": belief}
for name, tosses in (("one head", head), ("two heads", head), ("55 heads in 100", rest)):
    belief = belief.update(tosses)
    beliefs[f"{name}: Beta({belief.a:g}, {belief.b:g}), mean {belief.mean:.3f}"] = belief

places = np.linspace(0, 1, 501)
figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
for label, curve in beliefs.items():
    axes.plot(places, np.exp(curve.log_density(places)), label=label)
low, high = belief.interval(0.95)
axes.axvspan(float(low), float(high), alpha=0.12, color="C3", label=f"95 % sure: {low:.2f} to {high:.2f}")
axes.set(xlabel="probability of heads", ylabel="density of belief", xlim=(0, 1), ylim=(0, None))
figure.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
