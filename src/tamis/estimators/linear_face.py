"""What the faces of all linear models share: columns that are numbers, and a state that is swapped whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tamis.arrays import Array
from tamis.estimators import answers, persistence
from tamis.estimators.own_arrays import OwnArrays
from tamis.estimators.progress import CallbackSupport
from tamis.estimators.reading import Schema, first_table, next_table, numbers
from tamis.tables import Table


@dataclass(frozen=True, slots=True, eq=False)
class LinearState:
    """What a fitted linear model holds; each face adds what it learned."""

    schema: Schema

    is_empty: ClassVar[bool] = False  # a state is only ever made by learning


class LinearFace(OwnArrays, CallbackSupport, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A linear model's columns, names and file. What it learned is `_fitted`, and nothing else is."""

    _sparse: ClassVar[bool] = False  # whether sparse rows are taken

    def _checked(self) -> Any:
        fitted = self.__dict__.get("_fitted")
        if fitted is None:
            raise answers.not_fitted(self)
        return fitted

    def _read(self, X: object) -> tuple[Table, Schema]:
        """Rows to learn: the first, which say what columns there are, or more of the same columns."""
        fitted = self.__dict__.get("_fitted")
        if fitted is None:
            return first_table(X, self._sparse)
        return self._table(X), fitted.schema

    def _table(self, X: object) -> Table:
        """More rows of the same columns."""
        return next_table(X, self._checked().schema, type(self).__name__, self._sparse, missing=False)

    def _rows(self, X: object) -> Array:
        """Dense rows to answer for (n, d)."""
        return numbers(self._table(X))

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__

    @property
    def n_features_in_(self) -> int:
        """The number of columns."""
        return answers.fitted_attribute(self, "n_features_in_").schema.width

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, if these were strings."""
        return answers.feature_names(self)

    def save(self, path: str | Path) -> None:
        """Write the model to a file that `tamis.load` reads, and that can run no code."""
        persistence.save(self, path)

    def _saved(self) -> dict[str, Any]:
        """What was learned, of types that a file can hold."""
        raise NotImplementedError

    def _restore(self, state: dict[str, Any]) -> None:
        """Take back what `_saved` told."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        return tags
