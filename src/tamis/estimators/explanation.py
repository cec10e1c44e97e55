"""A model and rows → what each column says for one class against another; it sums to the log-odds."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.generative import Contrast, Encoded, Posterior


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Log-odds of one class against another, row by row, column by column.

    Of each row, `contributions`, `rest` and `prior` sum to `log_odds`, which is log p(for_ | x) less
    log p(against | x), before any temperature that `calibrate` set.
    """

    contributions: Any  # (n, d): a frame if the rows were one, sparse if they were
    rest: Array  # (n,): what belongs to no column alone
    prior: Array  # (n,)
    for_: NDArray[Any]  # (n,): labels
    against: NDArray[Any]  # (n,)
    names: tuple[Any, ...]  # d

    @property
    def log_odds(self) -> Array:
        """What the row comes to; 0 where each class is impossible for a reason of its own."""
        with np.errstate(invalid="ignore"):
            found = np.asarray(self._sums() + self.rest + self.prior)
        return np.where(np.isnan(found), 0.0, found)

    def _sums(self) -> Array:
        values = self.contributions
        if hasattr(values, "tocsr"):
            return np.asarray(values.sum(axis=1)).ravel()
        return np.asarray(self.values().sum(axis=1))

    def values(self) -> Array:
        """The contributions as an array (n, d)."""
        found = self.contributions
        if hasattr(found, "toarray"):
            return np.asarray(found.toarray())
        return np.asarray(found.to_numpy() if hasattr(found, "to_numpy") else found, dtype=np.float64)

    def top(self, row: int = 0, count: int = 10) -> list[tuple[Any, float]]:
        """The columns of a row that say most, strongest first: (name, contribution)."""
        found = self.contributions
        if hasattr(found, "tocsr"):
            line = found.tocsr()[[row], :].tocoo()
            columns, values = line.coords[-1] if hasattr(line, "coords") else line.col, line.data
        else:
            values = self.values()[row]
            columns = np.arange(len(values))
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(self.names[int(columns[i])], float(values[i])) for i in order if values[i] != 0]

    def plot(self, row: int = 0, count: int = 10, ax: Any = None, **style: Any) -> Any:
        """Bars for the strongest columns of a row; see `tamis.plots.ExplanationDisplay`."""
        display = importlib.import_module("tamis.plots").ExplanationDisplay
        return display.from_explanation(self, row=row, count=count, ax=ax, **style)


def pairs(joint: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each row: the second class and the first if there are two; else the likeliest and the next."""
    n, k = joint.shape
    if k == 2:
        return np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    order = np.argsort(-joint, axis=1, kind="stable")
    return order[:, 0].astype(np.int64), order[:, 1].astype(np.int64)


def contrasted(
    posterior: Posterior, rows: Encoded, for_: NDArray[np.int64], against: NDArray[np.int64]
) -> tuple[dict[str, Contrast], Array]:
    """Contrasts of each block, each row's between its own two classes, and of the classes' prior."""
    with np.errstate(invalid="ignore"):
        prior = posterior.log_prior[for_] - posterior.log_prior[against]
    prior = np.where(np.isnan(prior), 0.0, prior)
    asked, place = np.unique(np.stack([for_, against], axis=1), axis=0, return_inverse=True)
    if len(asked) == 1:
        return posterior.contrasts(rows, int(asked[0, 0]), int(asked[0, 1])), prior
    found: list[dict[str, Contrast]] = []
    order: list[NDArray[np.int64]] = []
    for number, (one, other) in enumerate(asked.tolist()):
        here = np.flatnonzero(place.ravel() == number)
        order.append(here)
        found.append(posterior.contrasts(rows.take(here), one, other))
    back = np.argsort(np.concatenate(order))
    return {
        name: Contrast(
            _stacked([part[name].terms for part in found], back),
            np.concatenate([part[name].rest for part in found])[back],
        )
        for name in found[0]
    }, prior


def _stacked(parts: list[Any], order: NDArray[np.int64]) -> Any:
    if hasattr(parts[0], "tocsr"):
        sparse = importlib.import_module("scipy.sparse")
        return sparse.vstack(parts).tocsr()[order]
    return np.concatenate(parts)[order]
