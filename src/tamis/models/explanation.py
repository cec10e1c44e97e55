"""A classifier and rows → the contribution of each column to the log-odds of one class against another."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.schema import Schema
from tamis.stats import Keys
from tamis.tables import Table, make_frame

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """The contribution of each column to a sum, row by row."""

    contributions: Any  # (n, d): a data frame or a sparse matrix if the rows are one, otherwise an array

    def values(self) -> Array:
        """The contributions as an array (n, d)."""
        terms = self.contributions
        if hasattr(terms, "toarray"):
            return np.asarray(terms.toarray())
        return np.asarray(terms.to_numpy() if hasattr(terms, "to_numpy") else terms, dtype=np.float64)

    def sum_columns(self) -> Array:
        """The sum of the contributions to each row (n,)."""
        terms = self.contributions if hasattr(self.contributions, "tocsr") else self.values()
        return np.asarray(terms.sum(axis=1)).ravel()

    def row_values(self, row: int) -> Array:
        """The contributions of the columns to one row (d,); only these are made dense if they are sparse."""
        terms = self.contributions
        if hasattr(terms, "tocsr"):
            return np.asarray(terms.tocsr()[[row], :].toarray()[0])
        return np.asarray(self.values()[row])

    def find_largest(self, row: int, count: int, names: tuple[Any, ...]) -> list[tuple[Any, float]]:
        """The columns whose contributions to a row are largest in magnitude, largest first.

        Each is a pair (name, contribution). Columns that contribute 0 are left out.
        """
        values = self.row_values(row)
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(names[i], float(values[i])) for i in order.tolist() if values[i] != 0]


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(Contributions):
    """The log-odds of one class against another, split into contributions of columns, for each row.

    For each row, the sum of `contributions`, `rest` and `prior` is `log_odds`: log p(for_ | x) −
    log p(against | x), before `calibrate` divides it by a temperature.
    """

    rest: Array  # (n,): the part of the log-odds that no single column contributes
    prior: Array  # (n,): the log-odds before any column is read
    for_: NDArray[Any]  # (n,): the label of the class that each row is explained for
    against: NDArray[Any]  # (n,): the label of the class that it is compared with
    names: tuple[Any, ...]  # the names of the d columns

    @property
    def log_odds(self) -> Array:
        """The log-odds of each row (n,); 0 where both classes have probability zero."""
        with np.errstate(invalid="ignore"):
            log_odds = np.asarray(self.sum_columns() + self.rest + self.prior)
        return np.where(np.isnan(log_odds), 0.0, log_odds)

    def top(self, row: int = 0, count: int = 10) -> list[tuple[Any, float]]:
        """The pairs (name, contribution) of the columns with the largest contributions, as `find_largest`."""
        return self.find_largest(row, count, self.names)

    def plot(self, row: int = 0, count: int = 10, ax: Any = None, **style: Any) -> Any:
        """Draw a bar for each of the largest contributions to a row (`tamis.plots.ExplanationDisplay`)."""
        display = importlib.import_module("tamis.plots").ExplanationDisplay
        return display.from_explanation(self, row=row, count=count, ax=ax, **style)


def choose_classes(
    joint: Array, keys: Keys, for_: object = None, against: object = None
) -> tuple[Indices, Indices]:
    """The two classes that an explanation compares for each row, as indices (n,), from scores (n, K).

    `for_` and `against` name them. By default, of two classes the second is compared with the first, and of
    more classes the most probable one of each row with the next.
    """
    one, other = _choose_default_classes(joint)
    for label, classes in ((for_, one), (against, other)):
        if label is not None:
            classes[:] = _find_class(keys, label)
    if for_ is not None and against is not None and for_ == against:
        raise ValueError(f"got class {for_!r} against itself, expected two classes")
    same = one == other  # rows whose default is the class that the user named: choose the next best one
    if not same.any():
        return one, other
    scores = joint.copy()  # the scores of classes that cannot be chosen become −∞
    scores[np.arange(len(joint)), other if for_ is None else one] = -np.inf
    best = scores.argmax(axis=1).astype(np.int64)
    if for_ is None:
        return np.where(same, best, one), other
    return one, np.where(same, best, other)


def _find_class(keys: Keys, label: object) -> int:
    if label not in keys:
        raise ValueError(f"got class {label!r}, expected one of {keys!r}")
    return int(keys.find([label])[0])


def _choose_default_classes(joint: Array) -> tuple[Indices, Indices]:
    """The second class and the first if there are two; otherwise the two most probable ones of each row."""
    n, k = joint.shape
    if k == 2:
        return np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    order = np.argsort(-joint, axis=1, kind="stable")
    return order[:, 0].astype(np.int64), order[:, 1].astype(np.int64)


def linear_terms(table: Table, mean: Array, coefficients: Array, schema: Schema, like: object) -> Any:
    """Multiply rows (n, d) minus the mean (d,) by the coefficients of each row (n, d), element by element.

    The mean is not subtracted from sparse rows. The terms are returned as `frame_like` returns them.
    """
    if table.sparse is not None:
        rows = table.sparse.matrix()
        row = np.repeat(np.arange(len(coefficients)), np.diff(rows.indptr))
        rows.data = rows.data * coefficients[row, rows.indices]
        return rows
    return frame_like((table.numbers() - mean) * coefficients, schema, table, like)


def frame_like(terms: Any, schema: Schema, table: Table, like: object) -> Any:
    """Return terms (n, d) as a data frame of the kind of `like`, the explained rows, if these are one.

    Sparse terms stay sparse.
    """
    if schema.names is None or table.names is None or hasattr(terms, "tocsr"):
        return terms
    library = type(like).__module__.partition(".")[0]
    return make_frame(dict(zip(schema.names, terms.T, strict=True)), library, like)
