"""
How fast to forget
==================

The two classes drift: each day they have moved a little on a circle. A model without decay uses outdated
rows; one that forgets too fast has too few rows. ``decay`` multiplies the statistic, so that the weight of
a day halves with each half-life; each day is predicted before it is learned.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis.estimators import GaussianNB

DAYS, ROWS, REPEATS = 120, 4, 10
HALF_LIVES = {"never": np.inf, "after 6 days": 6.0, "after half a day": 0.5}


def errors(half_life: float, seed: int) -> list[float]:
    """The error rate of each day but the first."""
    rng = np.random.default_rng(seed)
    model, rates = GaussianNB(var_smoothing=0.05), []
    for day in range(DAYS):
        labels = np.arange(ROWS) % 2
        turn = np.pi * day / DAYS + np.pi * labels
        rows = 1.2 * np.stack([np.cos(turn), np.sin(turn)], axis=1) + rng.normal(size=(ROWS, 2))
        if day:
            rates.append(float(np.mean(model.predict(rows) != labels)))
            model.decay(0.5 ** (1.0 / half_life))
        model.partial_fit(rows, labels)
    return rates


figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
week = np.ones(9) / 9.0
for (name, half_life), colour in zip(HALF_LIVES.items(), ("#333333", "#0072B2", "#D55E00"), strict=True):
    mean = np.mean([errors(half_life, seed) for seed in range(REPEATS)], axis=0)
    print(f"half forgotten {name:16s} error rate {mean.mean():.3f}")
    label = f"half forgotten {name}: error rate {mean.mean():.1%}"
    axes.plot(np.arange(5, DAYS - 4), np.convolve(mean, week, "valid"), color=colour, label=label)
axes.set(xlabel="day", ylabel="error rate (mean of nine days)", xlim=(0, DAYS), ylim=(0, 0.6))
axes.legend(frameon=False, loc="upper left")
plt.show()
