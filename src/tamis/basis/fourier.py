"""x → sin 2πhx / P, cos 2πhx / P for h = 1, 2, …: a Fourier series of period P."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array
from tamis.basis.base import Basis, Functions
from tamis.basis.placement import Range, check_integer, check_positive


@dataclass(eq=False, repr=False)
class FourierBasis(Basis):
    """Waves sin 2πhx / P and cos 2πhx / P for the harmonics h = 1 to `order` of a period P.

    Whole periods are subtracted first, without rounding, so that the millionth day is as exact as the first.

    >>> FourierBasis(order=1, period=24).fit_transform([[0], [6], [24 * 10**8 + 12]]).round(3).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]
    >>> FourierBasis(order=2, period=24).fit([[0]]).get_feature_names_out(["hour"]).tolist()
    ['hour sin 1', 'hour cos 1', 'hour sin 2', 'hour cos 2']

    Parameters
    ----------
    order : the number of harmonics; each is a sine and a cosine
    period : the length after which the waves repeat, for all columns or (d,); None for the length of each
        column's range, so that the waves have the same values at its two ends. Give the period where it is
        known: hours of the day have the period 24, but range only from 0 to 23
    include_bias : whether a column of ones comes first, for models without an intercept
    """

    order: int = 3
    period: float | ArrayLike | None = None
    include_bias: bool = False

    @property
    def period_(self) -> Array:
        """The period of each column (d,); raise NotFittedError before `fit`."""
        period: Array = self._require_state().functions["period"]
        return period

    def define_functions(self, values: Array, ranges: Range) -> Functions:
        """Describe the waves by their periods (d,), their order, and whether a column of ones comes first.

        `ranges` are the least and the largest value of each column; the rows `values` have no other effect.
        """
        columns = len(ranges.low)
        if self.period is None:
            ranges = ranges.widen_constants()  # so that no period is 0
            period = ranges.high - ranges.low
        else:
            period = check_positive("period", self.period)
            if period.shape not in ((), (columns,)):
                raise ValueError(
                    f"got period of shape {period.shape}, expected a number, or one per column ({columns},)"
                )
        return {
            "period": np.broadcast_to(period, (columns,)).copy(),
            "order": check_integer("order", self.order, 1),
            "bias": bool(self.include_bias),  # read by `Basis`, which adds the column of ones
        }

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        """Yield the waves of each column at rows (n, d): sine and cosine of each harmonic (n, 2 * order)."""
        harmonics = np.arange(1, functions["order"] + 1)
        for j, period in enumerate(functions["period"].tolist()):
            turns = np.fmod(values[:, j], period) / period  # fmod is exact
            angle = 2.0 * np.pi * harmonics * turns[:, None]
            waves = np.empty((len(values), 2 * functions["order"]))
            np.sin(angle, out=waves[:, ::2])
            np.cos(angle, out=waves[:, 1::2])
            yield waves

    def _name_functions(self, functions: Functions, names: list[str]) -> Iterator[str]:
        for name in names:
            for harmonic in range(1, functions["order"] + 1):
                yield from (f"{name} {wave} {harmonic}" for wave in ("sin", "cos"))
