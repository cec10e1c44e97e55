"""The state of a fitted generative model: a statistic, and the posterior that was inferred from it.

If only a few rows are learned, they are not summed immediately: they are checked and appended to a linked
list of pending rows, which are summed together when the statistic is next read. Sums are exact, so the
statistic is the same; only products of two columns, for covariance matrices, may differ by rounding.
"""

from collections.abc import Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.generative import Generative, LabelledRows, Posterior, Projection
from tamis.models.generative.em import History
from tamis.models.generative.regroup import regroup
from tamis.schema import Schema
from tamis.stats import Joint, Keys, Labels
from tamis.tables import Table

_MAX_PENDING = 512  # the largest number of pending rows
_SINGLE_GROUP = np.zeros(1, dtype=np.int64)  # the group of a single row, whose label is the only key


class PendingRows(NamedTuple):
    """A linked list of rows that are not summed yet; copies of a model share it, and it never changes."""

    values: Array  # (n, d)
    labels: list[Any]  # n labels
    previous: "PendingRows | None"
    rows: int  # the number of rows in the whole list


class InferenceModel(NamedTuple):
    """The model that last inferred a posterior, to be reused while parameters and classes do not change."""

    params: list[Any]  # of the estimator
    keys: Keys
    model: Generative


class GenerativeState:
    """A statistic, the posterior inferred from it, and the columns.

    `declared` are the classes that were announced in advance, by `classes` of `partial_fit`; rows of them may
    or may not have been learned.
    """

    __slots__ = (
        "_names",
        "_sums",
        "classes",
        "declared",
        "history",
        "inference_model",
        "model",
        "posterior",
        "projection",
        "schema",
        "temperature",
    )

    def __init__(
        self,
        schema: Schema,
        model: Generative,
        statistic: Joint | None,
        declared: Keys,
        posterior: Posterior | None = None,
        history: History | None = None,
        pending: PendingRows | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.schema = schema.drop_remarks()  # remarks are warnings about the rows just read
        # This model encodes and observes rows; to infer, the estimator makes one with its present parameters.
        self.model = model
        self._sums = (statistic, pending)  # assigned together, because other threads may read them
        self.declared = declared  # classes announced in advance
        self.posterior = posterior  # None until it is first needed
        self.history = history  # of EM; None if all labels were known
        self.temperature = temperature  # calibration: log-odds are divided by it
        # These are None until they are first needed.
        self.classes: NDArray[Any] | None = None  # the labels of the classes
        self.projection: Projection | None = None  # Fisher's discriminants
        self.inference_model: InferenceModel | None = None
        self._names: frozenset[object] | None = None  # of columns

    @property
    def statistic(self) -> Joint:
        """The statistic of all rows that were learned; pending rows are added to it first."""
        statistic, pending = self._sums
        if statistic is None:
            raise RuntimeError("nothing was learned yet")
        if pending is not None:
            statistic = self.model.add_rows(statistic, self._join_pending(pending))
            self._sums = (statistic, None)
        return statistic

    def has_columns(self, names: Set[object]) -> bool:
        """Whether all of these are names of columns."""
        if self._names is None:
            self._names = frozenset(self.schema.names or ())
        return names <= self._names

    @property
    def is_empty(self) -> bool:
        """Whether nothing was learned yet."""
        return self._sums[0] is None

    def replace(
        self,
        statistic: Joint | None = None,
        declared: Keys | None = None,
        posterior: Posterior | None = None,
        temperature: float | None = None,
    ) -> "GenerativeState":
        """Return the state of the same columns with another statistic, classes, posterior or temperature."""
        state = GenerativeState(
            self.schema,
            self.model,
            self.statistic if statistic is None else statistic,
            self.declared if declared is None else declared,
            posterior,
            self.history,
            temperature=self.temperature if temperature is None else temperature,
        )
        state._names = self._names
        if declared is None or declared == self.declared:
            state.inference_model = self.inference_model
        return state

    def with_columns(self, schema: Schema, model: Generative) -> "GenerativeState":
        """Convert the statistic to that of a model with more columns, or other kinds of empty columns."""
        statistic = None if self.is_empty else self.statistic
        if statistic is not None and (schema.width != self.schema.width or not model.sums_like(self.model)):
            statistic = regroup(statistic, self.model, model, schema.width, self.schema.width)
        return GenerativeState(
            schema,
            model,
            statistic,
            self.declared,
            history=self.history,
            temperature=self.temperature,
        )

    def with_pending(self, values: Array, labels: list[Any]) -> "GenerativeState":
        """Append a few checked rows, which are summed when `statistic` is next read."""
        statistic, pending = self._sums
        count = len(values) + (0 if pending is None else pending.rows)
        if count > _MAX_PENDING:
            statistic, pending, count = self.statistic, None, len(values)
        linked_rows = PendingRows(values, labels, pending, count)
        state = GenerativeState(
            self.schema,
            self.model,
            statistic,
            self.declared,
            history=self.history,
            pending=linked_rows,
            temperature=self.temperature,
        )
        state._names = self._names
        state.inference_model = self.inference_model
        return state

    def _join_pending(self, pending: PendingRows) -> LabelledRows:
        """Encode all rows of the linked list."""
        if pending.rows == 1:
            ((label,), row) = pending.labels, pending.values
            return LabelledRows(
                self.model.encode(Table(row, 1, "number")), Labels(Keys((label,)), _SINGLE_GROUP)
            )
        values, labels = [], []
        link: PendingRows | None = pending
        while link is not None:
            values.append(link.values)
            labels.extend(link.labels)
            link = link.previous
        table = Table(np.concatenate(values), len(labels), "number")
        return LabelledRows(self.model.encode(table), Labels.of(labels))

    def __getstate__(self) -> dict[str, Any]:
        if not self.is_empty:
            self.statistic  # noqa: B018  (sums pending rows: pickle would recurse into a long list)
        derived = ("_names", "inference_model")
        return {name: getattr(self, name) for name in self.__slots__ if name not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._names = self.inference_model = None
        for name, value in state.items():
            setattr(self, name, value)
