"""Property tests (laws) of models that learn by adding: the order does not matter, and forgetting is exact.

A case makes a model, draws a sample for it, and compares two models; `faces`, `regressions` and `components`
register cases and run these laws over them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.engines import Batch, Batches


@dataclass(frozen=True)
class Sample:
    """Rows to learn, with their labels or targets if there are any, and their weights."""

    rows: Any  # (n, d), of numbers or of objects
    weights: Array  # (n,)
    targets: Any = None  # (n,) or (n, q)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of `fit`, `partial_fit` and `unlearn`, besides the weights."""
        return (self.rows,) if self.targets is None else (self.rows, self.targets)

    def take(self, index: NDArray[np.int64]) -> "Sample":
        """Return the rows with these indices, in this order."""
        targets = None if self.targets is None else self.targets[index]
        return Sample(self.rows[index], self.weights[index], targets)

    def with_outliers(self, row: int, column: int) -> Iterator["Sample"]:
        """Yield the sample with one row of 1e9, and with one cell of 2e8; cells that are not floats stay."""
        for cells, value in ((slice(None), 1e9), (slice(column, column + 1), 2e8)):
            rows = self.rows.copy()
            changed = [value if isinstance(cell, float) else cell for cell in rows[row, cells].tolist()]
            rows[row, cells] = changed
            yield Sample(rows, self.weights, self.targets)


class LearningCase(Protocol):
    """A model, and how to draw rows for it and compare it with another."""

    outlier_column: ClassVar[int]  # the column of numbers in which `an_outlier_is_forgotten` puts 2e8

    @property
    def make(self) -> Callable[[], Any]:
        """A function that makes the model, not fitted."""

    def sample(self, rng: np.random.Generator, n: int = 60) -> Sample:
        """Draw rows that suit the model, and weights that are not whole numbers."""

    def assert_alike(self, left: Any, right: Any, rows: Any) -> None:
        """Raise unless the models, which learned the same rows in different parts, are equal."""

    def assert_near(self, left: Any, right: Any, rows: Any) -> None:
        """Raise unless the models' predictions agree to 1e-6."""


def fit(case: LearningCase, data: Sample) -> Any:
    """Return a model that was fitted to all rows at once."""
    return case.make().fit(*data.arguments, sample_weight=data.weights)


def learn_parts(case: LearningCase, parts: list[Sample]) -> Any:
    """Return a model that learned the parts one after another."""
    model = case.make()
    for part in parts:
        model.partial_fit(*part.arguments, sample_weight=part.weights)
    return model


def _split_randomly(rng: np.random.Generator, data: Sample) -> list[Sample]:
    """Split the rows into random shards (parts) in random order."""
    cuts = np.sort(rng.choice(np.arange(1, len(data)), 5, replace=False))
    return [data.take(index) for index in np.split(rng.permutation(len(data)), cuts)]


def shards_leave_no_trace(case: LearningCase, rng: np.random.Generator) -> None:
    """fit of all rows = partial_fit of any shards in any order, within the tolerance of the case."""
    data = case.sample(rng)
    case.assert_alike(fit(case, data), learn_parts(case, _split_randomly(rng, data)), data.rows)


def merging_is_learning(case: LearningCase, rng: np.random.Generator) -> None:
    """fit of all rows = merge of models that each learned a shard, within the tolerance of the case."""
    data = case.sample(rng)
    first, *others = [learn_parts(case, [shard]) for shard in _split_randomly(rng, data)]
    case.assert_alike(fit(case, data), first.merge(*others), data.rows)


def an_engine_leaves_no_trace(
    case: LearningCase, rng: np.random.Generator, distribute: Callable[[list[Batch]], Any] = Batches
) -> None:
    """A model fitted to all rows = one fitted to shards in any order by an engine, within the tolerance.

    `distribute` makes of batches the data that the engine reads. One of the shards is empty.
    """
    data = case.sample(rng)
    parts = [*_split_randomly(rng, data), data.take(np.arange(0))]
    batches = [Batch(part.rows, part.targets, part.weights) for part in parts]
    case.assert_alike(fit(case, data), case.make().fit(distribute(batches)), data.rows)


def forgetting_restores_the_model(case: LearningCase, rng: np.random.Generator) -> None:
    """unlearn after partial_fit restores the model, whatever came between."""
    data = case.sample(rng, 90)
    kept, forgotten = data.take(np.arange(60)), data.take(np.arange(60, 90))
    model = learn_parts(case, [forgotten, kept])
    for index in np.array_split(rng.permutation(30), 3):
        part = forgotten.take(index)
        model.unlearn(*part.arguments, sample_weight=part.weights)
    case.assert_alike(learn_parts(case, [kept]), model, data.rows)


def an_outlier_is_forgotten(case: LearningCase, rng: np.random.Generator) -> None:
    """A row of 1e9, or a cell of 2e8, learned among others and forgotten leaves no trace, or is refused."""
    data = case.sample(rng, 90)
    kept = data.take(np.delete(np.arange(90), 40))
    for changed in data.with_outliers(40, case.outlier_column):
        model = learn_parts(case, [changed])
        if _try_to_unlearn(model, changed.take(np.array([40]))):
            case.assert_near(model, learn_parts(case, [kept]), kept.rows)


def _try_to_unlearn(model: Any, data: Sample) -> bool:
    """Unlearn rows; return False if the model refuses, because rounding would hide the rest."""
    try:
        model.unlearn(*data.arguments, sample_weight=data.weights)
    except ValueError as refusal:
        if "exact=True" not in str(refusal):  # the advice of errors that are due to rounding
            raise
        return False
    return True


def weight_is_repetition(case: LearningCase, rng: np.random.Generator) -> None:
    """A row of weight 2 has the effect of two equal rows, and a row of weight 0 has none."""
    data = case.sample(rng)
    times = rng.integers(0, 4, len(data))
    repeated = data.take(np.repeat(np.arange(len(data)), times))
    weighted = case.make().fit(*data.arguments, sample_weight=times)
    case.assert_alike(case.make().fit(*repeated.arguments), weighted, data.rows)
