"""The base class of basis functions: it reads and checks rows, and learns the ranges of columns.

In `fit`, `define_functions` computes a description of the functions from the parameters, the rows and their
ranges; `_expand` and `_name_functions` use only that description, so that a parameter that is set later has
no effect until `fit` is called again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from tamis.arrays import Array
from tamis.basis.placement import Placement, Range
from tamis.inputs import read_table, refuse_empty_array
from tamis.tables import Table, runs

Functions = dict[str, Any]  # a description of basis functions, by values of types that a file can hold

BIAS = "1"  # the name of the column of ones
_CELLS = 1 << 15  # input values that are expanded at a time, few enough for the cache


@dataclass(frozen=True, eq=False)
class BasisState:
    """The ranges of the columns, and the functions that follow from them."""

    ranges: Range
    functions: Functions


class Basis(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A transformer that replaces columns by functions of them."""

    include_bias: bool
    _state: BasisState

    def fit(self, X: object, y: object = None) -> Self:
        """Learn the ranges of the columns from these rows alone."""
        return self._learn(X, fresh=True)

    def partial_fit(self, X: object, y: object = None) -> Self:
        """Learn from more rows: ranges grow, and the functions move with them.

        A model that was fitted to the old functions must be fitted again. For a stream of rows, set the
        places and widths of the functions as parameters, so that they do not move.
        """
        if getattr(self, "placed", None) == "quantiles":
            raise ValueError(
                "got rows in parts with placed='quantiles', expected all rows at once, because quantiles of "
                "parts do not add: call fit, or set placed='evenly'"
            )
        return self._learn(X, fresh=not self.__sklearn_is_fitted__())

    def transform(self, X: object) -> Any:
        """Return the values of the functions at each row (n, functions)."""
        functions = self._require_state().functions
        table, values = self._read_next(X)
        result: NDArray[Any] | None = None
        for rows in runs(table.rows, table.width, _CELLS):
            part = values[rows]
            ones = [np.ones((len(part), 1))] if functions["bias"] else []
            block = np.concatenate([*ones, *self._expand(functions, part)], axis=1)
            if result is None:
                dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
                result = np.empty((table.rows, block.shape[1]), dtype=dtype)
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
                result[rows] = block
            if not np.isfinite(result[rows]).all():
                raise ValueError(
                    f"got values up to {np.abs(part).max():g}, expected values whose functions "
                    f"{result.dtype} can hold: scale them first, or lower the degree"
                )
        return result

    def get_feature_names_out(self, input_features: Iterable[str] | None = None) -> NDArray[np.object_]:
        """Return the names of the functions; that of a function of one column begins with the column's."""
        functions = self._require_state().functions
        known = getattr(self, "feature_names_in_", None)
        if input_features is None:
            names = [f"x{j}" for j in range(self.n_features_in_)] if known is None else list(known)
        else:
            names = list(input_features)
            if known is not None and names != list(known):
                raise ValueError("input_features is not equal to feature_names_in_: pass those, or None")
            if len(names) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to the number of columns: "
                    f"got {len(names)}, expected {self.n_features_in_}"
                )
        return np.array(
            [*([BIAS] if functions["bias"] else []), *self._name_functions(functions, names)], dtype=object
        )

    def define_functions(self, values: Array, ranges: Range) -> Functions:
        """Describe the functions that follow from the parameters, the rows (n, d) and the ranges.

        The keys depend only on the subclass. One of them is "bias": whether a column of ones comes first; it
        is added by this class, not by `_expand`.
        """
        raise NotImplementedError

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        """Yield the values of the functions at rows (n, d), in blocks of some functions (n, k)."""
        raise NotImplementedError

    def _name_functions(self, functions: Functions, names: list[str]) -> Iterator[str]:
        """Yield the names of the functions, in the order of `_expand`; `names` are those of the d columns."""
        raise NotImplementedError

    def _learn(self, X: object, fresh: bool) -> Self:
        """Learn from rows; with `fresh`, forget the ranges of rows that were learned before."""
        table, values = _read_rows(X) if fresh else self._read_next(X)
        ranges = Range.of(values)
        if not fresh:
            ranges = self._require_state().ranges + ranges
        ranges.refuse_overflow(table.describe)
        functions = self.define_functions(values, ranges)
        if fresh:
            validate_data(self, X, reset=True, skip_check_array=True)  # sets the number and names of columns
        self._state = BasisState(ranges, functions)
        return self

    def _read_next(self, X: object) -> tuple[Table, Array]:
        """Read further rows of the columns that were learned, matched by name if both have names."""
        table, values = _read_rows(X)
        known = list(getattr(self, "feature_names_in_", ()))
        names = list(table.names or ())
        if known != names and len(known) == len(names) and set(known) == set(names):
            table = table.select([names.index(name) for name in known])
            return table, table.numbers()
        validate_data(self, X, reset=False, skip_check_array=True)  # raises if number or names differ
        return table, values

    def _require_state(self) -> BasisState:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this {type(self).__name__} has learned nothing yet, expected a call to fit first"
            )
        return self._state

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    def describe_state(self) -> dict[str, Any]:
        """Return the state by types that a file can hold."""
        state = self._require_state()
        names = getattr(self, "feature_names_in_", None)
        return {
            "low": state.ranges.low,
            "high": state.ranges.high,
            "plan": state.functions,  # the name in files
            "names": None if names is None else names.tolist(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `describe_state` returned; raise TypeError if it is not of this class."""
        ranges, functions = Range(state["low"], state["high"]), state["plan"]
        if not isinstance(functions, dict) or ranges.low.shape != ranges.high.shape or ranges.low.ndim != 1:
            raise TypeError("the state holds no ranges of columns")
        # Any row of so many columns serves, because only the keys are compared.
        if functions.keys() != type(self)().define_functions(ranges.low[None], ranges).keys():
            raise TypeError("the state describes functions of another class")
        self.n_features_in_ = len(ranges.low)
        if state["names"] is not None:
            self.feature_names_in_ = np.array(state["names"], dtype=object)
        self._state = BasisState(ranges, functions)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(eq=False, repr=False)
class CentredBasis(Basis):
    """A basis of functions of one shape, each with its centre and its width."""

    # The subclasses describe these parameters.
    centres: int | ArrayLike = 9
    placed: Placement = "evenly"
    width: float | ArrayLike | None = None
    include_bias: bool = False

    @property
    def centres_(self) -> list[Array] | Array:
        """The centres of the functions: a list of (k,), one per column, or (k, d) of a radial basis."""
        centres: list[Array] | Array = self._require_state().functions["centres"]
        return centres

    @property
    def width_(self) -> list[Array] | Array:
        """The widths of the functions, in the shape of the centres."""
        widths: list[Array] | Array = self._require_state().functions["widths"]
        return widths


def _read_rows(X: object) -> tuple[Table, Array]:
    """Read dense rows of finite numbers; raise for the first other value, naming its column."""
    table = read_table(X, sparse=False)
    refuse_empty_array(table)
    values = table.numbers()
    is_invalid = ~np.isfinite(values)
    if is_invalid.any():
        row, column = np.argwhere(is_invalid)[0].tolist()
        raise ValueError(
            f"Input X contains NaN or infinity: got {values[row, column]:g} in row {row} of "
            f"{table.describe(column)}, expected finite numbers: drop or fill those rows"
        )
    return table, values
