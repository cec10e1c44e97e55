"""What the weights of counts share: rows are read once and checked, what is learned is a statistic.

Rows come sparse or dense and leave as SciPy's CSR. What came is never written to, nor made dense.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from tamis import arrays
from tamis.arrays import Array
from tamis.stats import Keys, Tally
from tamis.tables import Table
from tamis.text.hashing import refuse_many_names
from tamis.text.matrix import csr


class Counts(NamedTuple):
    """Rows of numbers, sparse: columns in order, each once, and no zeros. Not to be written to."""

    matrix: Any  # csr_array (n, d) of float64; may share memory with what the caller passed
    dtype: np.dtype[Any]  # of the answer

    @classmethod
    def of(cls, data: object, negative: bool = False) -> "Counts":
        """Read rows of any kind; negative ones are refused unless they are said to be right."""
        table = Table.of(data)
        single = getattr(data, "dtype", None) == np.float32
        for size, what in ((table.width, "feature(s)"), (table.rows, "sample(s)")):
            if size == 0:
                raise ValueError(
                    f"Found array with 0 {what} (shape=({table.rows}, {table.width})) "
                    "while a minimum of 1 is required."
                )
        if table.sparse is None:
            matrix = arrays.scipy_sparse().csr_array(table.numbers())
        else:
            matrix = table.sparse.matrix()
            if not matrix.has_canonical_format:
                matrix = matrix.copy()
                matrix.sum_duplicates()
            if not matrix.data.all():
                matrix = matrix.copy()
                matrix.eliminate_zeros()
        _refuse_broken(table, matrix, negative)
        return cls(matrix, np.dtype(np.float32 if single else np.float64))

    @property
    def seen(self) -> NDArray[np.int64]:
        """How many rows have something in each column (d,)."""
        return np.bincount(self.matrix.indices, minlength=self.matrix.shape[1]).astype(np.int64)

    def weighted(self, values: Array) -> Any:
        """Other values in the same places, less those that are zero, in CSR of the kind configured."""
        found = csr()(
            (values.astype(self.dtype), self.matrix.indices, self.matrix.indptr), self.matrix.shape, copy=True
        )
        if not found.data.all():
            found.eliminate_zeros()
        return found


def _refuse_broken(table: Table, matrix: Any, negative: bool) -> None:
    """Raise for the first number that is not finite, or that is below zero, naming its place."""
    values = matrix.data
    for wrong, said, expected in (
        (~np.isfinite(values), "Input X contains NaN or infinity", "finite numbers: drop or fill those rows"),
        (
            np.zeros(0, dtype=np.bool_) if negative else values < 0,
            "Negative values in data",
            "counts of at least 0: hashed ones come with alternate_sign=False",
        ),
    ):
        if wrong.any():
            entry = int(np.argmax(wrong))
            row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
            place = f"row {row} of {table.name(int(matrix.indices[entry]))}"
            raise ValueError(f"{said}: got {values[entry]:g} in {place}, expected {expected}")


class Weights(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]  # scikit-learn has no types
    """A transformer that gives each entry another value, and no entry another place."""

    _negative: ClassVar[bool] = False  # whether numbers below zero are taken

    def _check(self) -> None:
        """Raise if a parameter is not what it can be."""

    def _learn(self, X: object, y: object, fresh: bool) -> Counts:
        """Learn rows, alone or with those that came before; and the rows as they were read."""
        self._check()
        return self._first(X)

    def _weigh(self, counts: Counts) -> Any:
        """The rows with their weights."""
        raise NotImplementedError

    def fit_transform(self, X: object, y: object = None) -> Any:
        """Learn from these rows alone, and weigh them; they are read once."""
        return self._weigh(self._learn(X, y, fresh=True))

    def transform(self, X: object) -> Any:
        """The weighted rows, in SciPy's CSR."""
        self._check()
        return self._weigh(self._next(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns; x0, x1, … if they have none."""
        if input_features is None and not hasattr(self, "feature_names_in_"):
            refuse_many_names(getattr(self, "n_features_in_", 0))
        names: NDArray[np.object_] = super().get_feature_names_out(input_features)
        return names

    def _first(self, X: object) -> Counts:
        """The first rows, of which the columns are remembered."""
        counts = Counts.of(X, self._negative)
        validate_data(self, X, reset=True, skip_check_array=True)
        return counts

    def _next(self, X: object) -> Counts:
        """Further rows, which must have the columns of the first."""
        counts = Counts.of(X, self._negative)
        validate_data(self, X, reset=False, skip_check_array=True)
        return counts

    def describe_state(self) -> dict[str, Any]:
        """What a file holds of it, besides its parameters."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "width": getattr(self, "n_features_in_", None),
            "names": None if names is None else names.tolist(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """As it was when it was saved."""
        if state["width"] is not None:
            self.n_features_in_ = int(state["width"])
        if state["names"] is not None:
            self.feature_names_in_ = np.array(state["names"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True, eq=False)
class Learned:
    """A statistic, how its rows were summed, and what was inferred from it so far."""

    statistic: Tally
    declared: Keys  # classes that are still to come
    binary: bool  # whether entries are counted, and not added
    inferred: dict[object, Array] = field(default_factory=dict)

    def infer(self, parameter: object, how: Callable[[], Array]) -> Array:
        """What follows for a parameter, worked out when it is first asked for."""
        found = self.inferred.get(parameter)
        if found is None:
            found = how()
            found.setflags(write=False)
            self.inferred.clear()
            self.inferred[parameter] = found
        return found

    def __reduce__(self) -> tuple[type["Learned"], tuple[Tally, Keys, bool]]:
        return Learned, (self.statistic, self.declared, self.binary)  # without what can be had again


class LearnedWeights(Weights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Weights that follow from a statistic: learning is adding, and leaves all as it was if it raises."""

    _learned: Learned

    def _refuse(self, learned: Learned) -> None:
        """Raise if no rows come to this statistic, or it is of no use."""
        raise NotImplementedError

    def _next(self, X: object) -> Counts:
        self._state()
        return super()._next(X)

    def merge(self, *others: Self) -> Self:
        """Add what other transformers of the same kind and columns have learned."""
        found = self._state()
        for other in others:
            if type(other) is not type(self):
                raise TypeError(
                    f"got a {type(other).__name__} to merge, expected another {type(self).__name__}"
                )
            theirs = other._state()
            names, own = (getattr(each, "feature_names_in_", None) for each in (other, self))
            if theirs.statistic.total.shape[-1] != found.statistic.total.shape[-1] or (
                names is not None and own is not None and names.tolist() != own.tolist()
            ):
                raise ValueError("the transformers have other columns, expected the same in the same order")
            if theirs.binary != found.binary:
                raise ValueError(
                    f"got one with binary={theirs.binary} to merge, expected {found.binary}: fit them alike"
                )
            declared = found.declared.union(theirs.declared)[0]
            found = Learned(found.statistic + theirs.statistic, declared, found.binary)
        self._refuse(found)
        self._learned = found
        return self

    def decay(self, factor: float) -> Self:
        """Let everything learned so far count `factor` times as much."""
        found = self._state()
        if not 0.0 < float(factor) <= 1.0:
            raise ValueError(f"got factor={factor}, expected above 0 and at most 1, as 0.99")
        self._learned = Learned(found.statistic * float(factor), found.declared, found.binary)
        return self

    def _added(self, part: Tally, declared: Keys, binary: bool, fresh: bool) -> Learned:
        """What was learned, and this part."""
        if fresh:
            return Learned(part, declared, binary)
        before = self._state()
        return Learned(before.statistic + part, before.declared.union(declared)[0], before.binary)

    def _forget(self, part: Tally) -> Self:
        """Take away what was learned of some rows."""
        before = self._state()
        rest = Learned(before.statistic - part, before.declared, before.binary)
        self._refuse(rest)
        if not rest.statistic.weight.value.any():
            raise ValueError(
                "every row would be forgotten, expected some to be left: "
                f"make a new {type(self).__name__} instead; nothing was changed"
            )
        self._learned = rest
        return self

    def _state(self) -> Learned:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this {type(self).__name__} has learned nothing yet, expected a call to fit first"
            )
        return self._learned

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__

    def describe_state(self) -> dict[str, Any]:
        found = self._state()
        return {
            "statistic": found.statistic,
            "declared": found.declared,
            "binary": found.binary,
            **super().describe_state(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        statistic, declared = state["statistic"], state["declared"]
        if not isinstance(statistic, Tally) or not isinstance(declared, Keys):
            raise TypeError("no statistic")
        super().restore_state(state)
        self._learned = Learned(statistic, declared, bool(state["binary"]))

    @property
    def statistic_(self) -> Tally:
        """All that was learned."""
        return self._state().statistic

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
