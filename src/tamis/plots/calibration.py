"""Calibration plots: the observed frequency of events against their predicted probability."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tamis import decide
from tamis.arrays import Array, floats
from tamis.conjugate import Beta
from tamis.plots import canvas
from tamis.validate import HeldOut

_COVERAGE = 0.9  # probability of the credible intervals, which have a uniform prior


@dataclass(eq=False)
class CalibrationDisplay:
    """A plot of how often an event occurred, against the probability that was predicted for it.

    Rows are divided by their predicted probability into bins of equal width; weights of rows are ignored.
    Bins without rows are left out of the arrays.

    >>> rng = np.random.default_rng(0)
    >>> given = rng.random(1000)
    >>> display = CalibrationDisplay.from_predictions(rng.random(1000) < given, given, bins=5)
    >>> display.share.round(1).tolist()
    [0.1, 0.3, 0.5, 0.7, 0.9]
    """

    given: Array  # (bins,): the mean predicted probability of the bin's rows
    share: Array  # (bins,): the fraction of these rows for which the event occurred
    low: Array  # (bins,): the lower end of the credible interval of the event's probability
    high: Array  # (bins,): the upper end of this interval
    count: Array  # (bins,): the number of rows
    ax_: Any = field(default=None, init=False)  # matplotlib's axes and figure, set by `plot`
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_predictions(
        cls, came_true: ArrayLike, probability: ArrayLike, bins: int = 10, ax: Any = None, **style: Any
    ) -> "CalibrationDisplay":
        """Draw the calibration of predicted probabilities; `came_true` says whether each event occurred.

        `style` is passed to matplotlib's `plot`.
        """
        truth = np.asarray(came_true, dtype=np.bool_)
        p = floats(probability, "the probabilities")
        if truth.shape != p.shape or truth.ndim != 1 or not len(p):
            raise ValueError(
                f"got {truth.shape} flags and {p.shape} probabilities, expected one of each per row"
            )
        if not ((p >= 0) & (p <= 1)).all():
            raise ValueError("got a probability below 0 or above 1, expected a column of predict_proba")
        if bins < 1:
            raise ValueError(f"got bins={bins}, expected at least 1")
        bin_of_row = np.minimum((p * bins).astype(np.int64), bins - 1)  # the last bin includes 1.0
        count = np.bincount(bin_of_row, minlength=bins)
        is_used = count > 0
        size = count[is_used].astype(np.float64)
        hits = np.bincount(bin_of_row, weights=truth, minlength=bins)[is_used]
        low, high = Beta(1.0 + hits, 1.0 + size - hits).interval(_COVERAGE)
        given = np.bincount(bin_of_row, weights=p, minlength=bins)[is_used] / size
        display = cls(given, share=hits / size, low=np.asarray(low), high=np.asarray(high), count=size)
        return display.plot(ax, **style)

    @classmethod
    def from_held_out(
        cls, held_out: HeldOut, bins: int = 10, ax: Any = None, **style: Any
    ) -> "CalibrationDisplay":
        """Draw the calibration of the result of `cross_validate`.

        The event is, with two classes, that a row is of the second; with more, that the prediction is right.
        """
        p = decide.probabilities(held_out.log_joint)
        if p.shape[1] == 2:
            return cls.from_predictions(held_out.group == 1, p[:, 1], bins, ax, **style)
        return cls.from_predictions(held_out.predictions == held_out.group, p.max(axis=1), bins, ax, **style)

    @classmethod
    def from_estimator(
        cls, model: Any, X: object, y: ArrayLike, bins: int = 10, ax: Any = None, **style: Any
    ) -> "CalibrationDisplay":
        """Draw a model's calibration on rows it was not fitted to; the event is as in `from_held_out`."""
        p = np.asarray(model.predict_proba(X))
        labels = np.asarray(y)
        if p.shape[1] == 2:
            return cls.from_predictions(labels == model.classes_[1], p[:, 1], bins, ax, **style)
        predicted = np.asarray(model.classes_)[p.argmax(axis=1)]
        return cls.from_predictions(predicted == labels, p.max(axis=1), bins, ax, **style)

    def plot(self, ax: Any = None, **style: Any) -> "CalibrationDisplay":
        """Draw the plot; `style` is passed to matplotlib's `plot`."""
        ax = canvas.make_axes(ax, figsize=(4.8, 4.6))
        options = {"color": canvas.FOR, "marker": "o", "markersize": 4, **style}
        # The diagonal, on which frequencies equal probabilities.
        ax.plot([0, 1], [0, 1], color=canvas.PALE, linewidth=0.9, linestyle=":")
        (line,) = ax.plot(self.given, self.share, **options)
        ax.vlines(self.given, self.low, self.high, color=line.get_color(), linewidth=1.2, alpha=0.6)
        ax.set(
            xlabel="predicted probability",
            ylabel=f"observed frequency ({_COVERAGE:.0%} credible interval)",
            xlim=(-0.02, 1.02),  # with room for the markers at 0 and 1
            ylim=(-0.02, 1.02),
            aspect="equal",
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self
