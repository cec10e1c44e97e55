"""A linear model and rows → what each column adds to the answer; it sums to the prediction."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.estimators import answers
from tamis.schema import Schema
from tamis.tables import Table


@dataclass(frozen=True, slots=True, eq=False)
class LinearExplanation:
    """What a row comes to on the scale on which the model is linear, column by column.

    Of each row, `contributions` and `baseline` sum to `prediction`. The baseline is the answer for a row of
    means, if the model has an intercept; a contribution is how far its column moves the answer from there.
    """

    contributions: Any  # (n, d): a frame if the rows were one, sparse if they were
    baseline: Array  # (n,)
    names: tuple[Any, ...]  # d

    @property
    def prediction(self) -> Array:
        """What the row comes to (n,)."""
        found = self.contributions if hasattr(self.contributions, "tocsr") else self.values()
        return np.asarray(found.sum(axis=1)).ravel() + self.baseline

    def values(self) -> Array:
        """The contributions as an array (n, d)."""
        found = self.contributions
        if hasattr(found, "toarray"):
            return np.asarray(found.toarray())
        return np.asarray(found.to_numpy() if hasattr(found, "to_numpy") else found, dtype=np.float64)

    def top(self, row: int = 0, count: int = 10) -> list[tuple[Any, float]]:
        """The columns of a row that move it most, strongest first: (name, contribution)."""
        found = self.contributions
        sparse = hasattr(found, "tocsr")  # one row of it is filled, not all
        values = found.tocsr()[[row]].toarray()[0] if sparse else self.values()[row]
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(self.names[i], float(values[i])) for i in order.tolist() if values[i] != 0]


def explained(terms: Array, baseline: Array, schema: Schema, X: object, table: Table) -> LinearExplanation:
    """Contributions (n, d) in the order of the data's columns; a frame for a frame."""
    names = tuple(schema.name(j) for j in range(schema.width))
    found: Any = terms
    if schema.names is not None and table.names is not None:
        library = type(X).__module__.partition(".")[0]
        found = answers.frame(dict(zip(names, terms.T, strict=True)), library, like=X)
    return LinearExplanation(found, baseline, names)
