"""What a fitted face holds. The face swaps it whole, so that nothing is ever half learned.

Rows that come one by one are not summed one by one: they wait in a chain, checked, and are summed together
when the statistic is next asked for. Sums are exact, so nobody can tell.
"""

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

PATIENCE = 512  # rows that wait at most


class Waiting(NamedTuple):
    """Rows that wait, and those that came before them; shared by copies of a model, so never changed."""

    values: Array  # (n, d)
    labels: list[Any]  # n
    before: "Waiting | None"
    rows: int  # in the chain


class Fitted:
    """A statistic, and what was inferred from it so far."""

    __slots__ = (
        "_known",
        "classes",
        "declared",
        "history",
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
        waiting: Waiting | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.schema = schema.drop_remarks()
        self.model = model  # that encodes and observes; what infers is made anew from the face's parameters
        self._known = (statistic, waiting)  # swapped as one, for threads may read meanwhile
        self.declared = declared  # classes that may not have been seen yet
        self.posterior = posterior  # None until it is asked for
        self.history = history  # of EM; None where all labels were given
        self.temperature = temperature  # by which probabilities are calibrated
        self.classes: NDArray[Any] | None = None  # None until asked for, as is the projection
        self.projection: Projection | None = None

    @property
    def learned(self) -> Joint:
        """All that was learned."""
        statistic, waiting = self._known
        if statistic is None:
            raise RuntimeError("nothing was learned yet")
        if waiting is not None:
            statistic = statistic + self._summed(waiting)
            self._known = (statistic, None)
        return statistic

    @property
    def is_empty(self) -> bool:
        """Whether nothing was learned yet."""
        return self._known[0] is None

    def after(
        self,
        statistic: Joint | None = None,
        declared: Keys | None = None,
        posterior: Posterior | None = None,
        temperature: float | None = None,
    ) -> "Fitted":
        """The same columns, with something else learned or inferred."""
        return Fitted(
            self.schema,
            self.model,
            self.learned if statistic is None else statistic,
            self.declared if declared is None else declared,
            posterior,
            self.history,
            temperature=self.temperature if temperature is None else temperature,
        )

    def regrouped(self, schema: Schema, model: Generative) -> "Fitted":
        """The same rows, as a model that knows more of its columns' kinds would have learned them."""
        statistic = self.learned
        if not model.sums_like(self.model):
            statistic = regroup(statistic, self.model, model, schema.width)
        return Fitted(
            schema,
            model,
            statistic,
            self.declared,
            history=self.history,
            temperature=self.temperature,
        )

    def awaiting(self, values: Array, labels: list[Any]) -> "Fitted":
        """With a few rows more, that the model is sure to take."""
        statistic, waiting = self._known
        count = len(values) + (0 if waiting is None else waiting.rows)
        if count > PATIENCE:
            statistic, waiting, count = self.learned, None, len(values)
        chain = Waiting(values, labels, waiting, count)
        return Fitted(
            self.schema, self.model, statistic, self.declared, None, self.history, chain, self.temperature
        )

    def _summed(self, waiting: Waiting) -> Joint:
        values, labels = [], []
        link: Waiting | None = waiting
        while link is not None:
            values.append(link.values)
            labels.extend(link.labels)
            link = link.before
        table = Table.of(np.concatenate(values))
        return self.model.observe(LabelledRows(self.model.encode(table), Labels.of(labels)))

    def __getstate__(self) -> dict[str, Any]:
        self.learned  # noqa: B018  (what waits is summed: a long chain would be a deep pickle)
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
