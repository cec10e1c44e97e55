"""Columns → statistic by class → density by class: the base of naive Bayes, discriminants and mixtures.

A block is some columns and the family they follow, with `observe` and `infer` for these columns. A model of
rows has several blocks, independent given the class, and a distribution of classes (`model.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats, one_line
from tamis.stats import Keys, Labels, Sums, Tally
from tamis.tables import RowIndex, Sparse, Table

# How a density follows from rows and prior: by the parameters of maximum likelihood (without a prior), by the
# mode or the mean of their posterior, or with the parameters integrated out.
Estimate = Literal["mle", "map", "mean", "predictive"]
ESTIMATES = ("mle", "map", "mean", "predictive")

_MAX_SQUARABLE = 1e100  # the sums of the squares of smaller numbers do not overflow

E = TypeVar("E")  # the type in which a block stores encoded rows
S = TypeVar("S", bound=Sums)


@dataclass(frozen=True, eq=False)
class Codes:
    """Columns of categories as codes: the index of each value among its column's values, -1 where missing.

    Either `named` lists the values of each column, or the values are integers, and code 0 stands for `least`.
    """

    codes: NDArray[np.int64]  # (n, d)
    named: tuple[Keys, ...] | None = None  # the values of each of the d columns
    least: NDArray[np.int64] | None = None  # (d,): the integer with code 0; 0 if None

    @cached_property
    def keys(self) -> tuple[Keys, ...]:
        """The values of each column."""
        if self.named is not None:
            return self.named
        sizes = self.codes.max(axis=0, initial=-1) + 1
        starts = np.zeros_like(sizes) if self.least is None else self.least
        return tuple(
            Keys(tuple(range(a, a + size))) for a, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        )

    def list_terms(self) -> list[tuple[int, Any]]:
        """The pair (column, value) of each category of the first row, without missing ones."""
        codes = self.codes[0].tolist()
        if self.named is not None:
            return [(j, self.named[j].values[code]) for j, code in enumerate(codes) if code >= 0]
        starts = [0] * len(codes) if self.least is None else self.least.tolist()
        return [
            (j, start + code) for j, (code, start) in enumerate(zip(codes, starts, strict=True)) if code >= 0
        ]

    def take(self, rows: RowIndex) -> "Codes":
        return Codes(np.ascontiguousarray(self.codes[rows]), self.named, self.least)

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True, eq=False)
class Responsibilities:
    """The posterior probability of each class for each row, times the row's weight."""

    keys: Keys  # the classes
    values: Array  # (n, K)

    def take(self, rows: NDArray[np.int64]) -> "Responsibilities":
        return Responsibilities(self.keys, self.values[rows])


@dataclass(frozen=True, kw_only=True)
class Block(ABC, Generic[E, S]):
    """Columns of one family."""

    kind: ClassVar[str]  # the family's name, as users write it
    # Whether EM must start from all rows, because a sample may lack values that other rows have.
    needs_all_rows: ClassVar[bool] = True
    takes_means: ClassVar[bool] = False  # whether EM can start with means and precisions that a user gives

    columns: tuple[int, ...] | None = None  # indices of columns in the table; all of them if None
    estimate: Estimate = "mean"

    def __post_init__(self) -> None:
        given: object = self.estimate
        if not isinstance(given, str) or given not in ESTIMATES:
            raise ValueError(f"got estimate={one_line(given)}, expected one of {', '.join(ESTIMATES)}")

    @abstractmethod
    def encode(self, table: Table, learn: bool = True) -> E:
        """Check the block's columns and encode them; raise ValueError for values that it cannot store.

        With `learn`, a block also refuses values that its family does not have, such as negative counts;
        without it, most blocks give them probability zero.
        """

    def admits(self, values: Array) -> bool:
        """Whether it is certain that these numbers (n, d) can be learned without an error.

        Rows for which it returns False are checked by `encode`.
        """
        return False

    @abstractmethod
    def observe(
        self,
        rows: E,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: "Density[E] | None" = None,
    ) -> S:
        """Sum the rows by label, exactly, or by responsibilities.

        The responsibilities contain the weights, and `weights` (n,) is then None. `given` is the density from
        which the responsibilities were computed; a block may impute missing values by it.
        """

    def observe_table(self, table: Table, labels: Labels, weights: Array | None = None) -> S:
        """Encode the rows of a table and sum them by label; a block may sum columns where they are."""
        return self.observe(self.encode(table), labels, weights)

    def add_row(self, statistic: S, row: E, label: Hashable, weight: float) -> S | None:
        """Add one row to the statistic; return None if adding `observe` of the row is as fast."""
        return None

    def prepare(self, rows: E, weights: Array | None) -> "Preparation | None":
        """Prepare rows for many expectation steps; return None if the block has no fast expectation step."""
        return None

    @property
    def can_pool_squares(self) -> bool:
        """Whether `infer` needs only the sum of squares over all classes, so that steps can be faster."""
        return False

    def invert_precisions(self, precisions: ArrayLike, k: int, width: int) -> Array:
        """Invert the precisions with which EM starts, for k classes and `width` columns.

        The result has the shape of the precisions, which depends on the type of covariance.
        """
        raise TypeError(f"{self.kind} columns have no precisions, expected a block that takes means")

    def fill_missing(self, rows: E) -> E:
        """Fill in missing values for the first step of EM, when there is no density yet to impute them by."""
        return rows

    def choose(self, rows: E, labels: Labels, weights: Array | None, statistic: S) -> Self:
        """Return the block with settings that it chooses from rows, such as shrinkage; most choose none."""
        return self

    def convert_sums(self, sums: Tally) -> S:
        """Make the statistic from the number of rows and their sums by class (K, d), without the rows.

        Only blocks of counts and flags can do this.
        """
        raise TypeError(f"{self.kind} columns cannot be learned from sums, expected a model of counts")

    @abstractmethod
    def infer(self, statistic: S, keys: Keys) -> "Density[E]":
        """Infer the density in each class of `keys`.

        They include the keys of the statistic; a class without rows gets a density, too.
        `statistic.over(keys)` has the sums of all these classes in this order, zeros for those without rows.
        """

    @abstractmethod
    def refuse_impossible(self, statistic: S) -> None:
        """Raise if no rows can have this statistic: more was subtracted than had been added."""

    @abstractmethod
    def count_parameters(self, density: Any) -> int:
        """Count the free parameters of a density that this block inferred, in all classes together."""

    @property
    def type_of_draws(self) -> type[np.generic]:
        """The type to which drawn values of a column of integers or flags are converted."""
        return np.float64

    def sums_like(self, other: "Block[Any, Any]") -> bool:
        """Whether both sum the same statistic of the same columns, so that one can infer from the other's."""
        return type(other) is type(self) and other.columns == self.columns

    def column_indices(self, table: Table) -> Sequence[int]:
        """The indices of the block's columns in a table."""
        return range(table.width) if self.columns is None else self.columns

    def values(self, table: Table) -> Array:
        """The block's columns as float64, NaN where missing; raise if a value is infinite."""
        values = table.numbers(self.columns)
        if len(values) == 1:  # for one row, `np.errstate` would take longer than to check each value
            suspect = True
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                suspect = not isfinite(values.sum())
        if suspect and (infinite := np.isinf(values)).any():
            row, j = np.argwhere(infinite)[0].tolist()
            name = table.describe(self.column_indices(table)[j])
            raise ValueError(
                f"{name} holds {values[row, j]} in row {row}, expected finite numbers or NaN: "
                "correct that row"
            )
        return values

    def sparse(self, table: Table) -> Sparse | None:
        """The block's columns if they are sparse, else None; raise if a value is infinite."""
        if table.sparse is None:
            return None
        chosen = table if self.columns is None else table.select(self.columns)
        rows = chosen.sparse
        if rows is not None and not np.isfinite(rows.values.sum()) and np.isinf(rows.values).any():
            raise ValueError("the sparse matrix holds inf, expected finite numbers: correct that row")
        return rows

    def with_columns(self, columns: tuple[int, ...]) -> Self:
        return replace(self, columns=columns)


def can_sum_squares(values: Array) -> bool:
    """Whether sums of squares of these values are far from the largest float; False if a value is NaN."""
    return bool(np.abs(values).max() < _MAX_SQUARABLE)


def refuse_strength(strength: object) -> None:
    """Raise unless the strength of a prior (its number of pseudo-observations) is a number."""
    if not isinstance(strength, Real):
        raise TypeError(f"got strength={one_line(strength)}, expected a number above 0")


def check_array(name: str, given: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return the numbers as an array; raise unless they have this shape and are finite."""
    values = floats(given, name)
    if values.shape != shape:
        raise ValueError(f"got {name} of shape {values.shape}, expected {shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds {values[~np.isfinite(values)][0]}, expected finite numbers")
    return values


class Expectation(NamedTuple):
    """The result of an expectation step of one block."""

    statistic: Sums
    weight: Array  # (K,): of the rows of each class
    log_likelihood: float  # Σ w log p(row)


class Preparation(Protocol):
    """Rows without labels, of a model with one block, prepared to be observed again and again."""

    def expect(
        self, density: "Density[Any]", log_prior: Array, hard: bool = False, pool_squares: bool = False
    ) -> Expectation | None:
        """Sum the rows by their responsibilities; return None if the fast way is inexact for this density.

        If `hard`, each row belongs only to its most probable class. With `pool_squares`, the second moments
        of single classes may be wrong, but their sum over all classes is right.
        """
        ...


class Contrast(NamedTuple):
    """Log-odds of one class against another: for each row, the sum of its `terms` and its `rest`."""

    terms: Any  # (n, d): one term per column; a sparse matrix, without terms for zeros, if the rows are one
    rest: Array  # (n,): terms that belong to no single column


class Density(ABC, Generic[E]):
    """The distribution of a block's columns in each class: log p(columns | class)."""

    keys: Keys  # the classes

    @abstractmethod
    def scores(self, rows: E) -> Array:
        """log p(x | class) of each row (n, K), with all columns together; missing values are left out.

        It is −∞ where a row is impossible in a class.
        """

    @abstractmethod
    def contrasts(self, rows: E, for_: int, against: int) -> "Contrast":
        """log p(x | class `for_`) − log p(x | class `against`), column by column; classes are indices.

        A value with zero probability in both classes contributes 0.
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Draw one row for each class index in `group` (n,); return a list of the d columns, each (n,)."""

    @abstractmethod
    def log_evidence(self) -> float:
        """log p(columns | classes) of the learned rows, with the parameters integrated out.

        Raise `NoEvidenceError` if the prior is improper.
        """

    def with_parameters(self, means: Array | None, covariances: Array | None) -> "Density[E]":
        """The density with other means (K, d) and covariances; itself if it has no such parameters.

        A parameter does not change if None is given. The covariances have the shape of those of the density.
        """
        return self


def subtract_logs(one: Array, other: Array) -> Array:
    """one − other, but 0 where both are −∞: what is impossible in both classes does not distinguish them."""
    with np.errstate(invalid="ignore"):
        difference = one - other
    return np.where(np.isnan(difference), 0.0, difference)


class ColumnDensity(Density[E]):
    """A density whose columns are independent given the class; a subclass computes the term of each value."""

    @abstractmethod
    def _log_terms(self, rows: E, k: int) -> Array:
        """log p of each value (n, d) in the class of index k; 0 where it is missing."""

    def scores(self, rows: E) -> Array:
        return np.stack([self._log_terms(rows, k).sum(axis=1) for k in range(len(self.keys))], axis=1)

    def contrasts(self, rows: E, for_: int, against: int) -> Contrast:
        terms = subtract_logs(self._log_terms(rows, for_), self._log_terms(rows, against))
        return Contrast(terms, np.zeros(len(terms)))


def take_rows(rows: Any, index: RowIndex) -> Any:
    """Select some of a block's rows."""
    return rows.take(index) if isinstance(rows, Codes | Sparse) else np.ascontiguousarray(rows[index])
