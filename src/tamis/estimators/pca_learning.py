"""rows → what a PCA has learned of them: moments, by fold or not, or of wide rows components alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tamis.arrays import Array, Matrix
from tamis.estimators.linear_face import LinearState
from tamis.models.components import Components, Gaps, Step, refine, whole
from tamis.stats import Moments
from tamis.tables import Table, runs
from tamis.warning import warn

SOLVERS = ("auto", "moments", "rows", "randomized")
FOLDS = 5  # by which n_components="held-out" chooses
MODERATE = 2000  # columns whose products with each other are cheap to keep
_WIDEST = 20_000  # columns of which the products fill some gigabytes
_FAINT = 1e-10  # of the squares that were rounded, below which no six digits are left
_LOUD = 1e5  # times all that is left, above which rounding is more than 1e-10 of the largest variance
_CELLS = 1 << 23  # of sparse rows that are dense at a time: 64 MB, or 5,000 rows of 1,600 columns


@dataclass(frozen=True, slots=True, eq=False)
class Learned(LinearState):
    """The sums, and what was inferred from them so far; or only that, if the rows were wide."""

    statistic: Moments | None  # by fold, if n_components="held-out"; None for wide rows
    solver: str = "moments"
    likelihoods: tuple[float, ...] = ()  # of EM's steps, if there were gaps
    inferred: Components | None = None  # until it is asked for

    def summed(self, what: str) -> Moments:
        """The sums, by fold or not, or an error that says why there are none."""
        if self.statistic is None:
            raise ValueError(
                f"this PCA was fitted with solver={self.solver!r}, which keeps no statistic to {what}, "
                "expected solver='moments': set it and fit again"
            )
        return self.statistic

    @property
    def whole(self) -> Moments:
        """The sums of all rows."""
        found = self.summed("show")
        return found if found.keys is None else found.pooled()


def refuse_other_solver(asked: object) -> None:
    """Raise if there is no such solver."""
    if asked not in SOLVERS:
        raise ValueError(f"got solver={asked!r}, expected one of {', '.join(SOLVERS)}")


def solver_for(asked: str, rows: int, columns: int, count: Any) -> str:
    """The solver that is asked for; or the one that suits: one that merges, where that is not too slow."""
    refuse_other_solver(asked)
    number = whole(count)
    if asked != "auto":
        found = asked
    elif columns <= MODERATE or count == "mle":
        found = "moments"
    elif min(rows, columns) > MODERATE and number is not None and number <= min(rows, columns) // 10:
        found = "randomized"
    else:
        found = "rows" if rows < columns else "moments"
    if found == "moments" and columns > _WIDEST:
        raise ValueError(
            f"got {columns} columns, whose products with each other would not fit, expected at most "
            f"{_WIDEST}: use solver='rows' or 'randomized', and fit all rows at once"
        )
    return found


def observe(table: Table, weights: Array | None, by_fold: bool, exact: bool) -> Moments:
    """The moments of the rows, sparse ones a block at a time; by fold, if these are to be held out."""
    total: Moments | None = None
    for rows, x in table.blocks(_CELLS):
        own = None if weights is None else weights[rows]
        part = _summed(Matrix(x, table.names), own, by_fold, exact)
        total = part if total is None else total + part
    assert total is not None
    return total


def refuse_lost(after: Moments, table: Table) -> None:
    """Raise if rows were never learned, or if what is left without them drowns in the sums' rounding."""
    after.refuse_impossible()
    if after.rounded is None or not float(after.weight.value.sum()) > 0:
        return
    whole = after if after.keys is None else after.pooled()
    left, rounded = whole.spread, np.asarray(whole.rounded)
    lost = (left < _FAINT * rounded) & (rounded > _LOUD * left.max())
    if lost.any():
        raise ValueError(
            f"too little is left of {table.name(int(lost.argmax()))} to tell after rounding, expected at "
            "least 1e-10 of the squares learned: fit with exact=True; nothing was changed"
        )


def _summed(rows: Matrix, weights: Array | None, by_fold: bool, exact: bool) -> Moments:
    by = fold_of(rows.values) if by_fold else None
    return Moments.observe(rows, weights, by, form="full", exact=exact)


def fold_of(x: Array) -> NDArray[np.int64]:
    """The fold of each row (n,), by what it holds: the same whenever it comes, and when it is forgotten.

    Rows that are the same are held out together. (The bits of the numbers, each column's times its own odd
    number, and the sum of them mixed as splitmix64 does.)
    """
    odd = _mixed(np.arange(1, x.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    sums = np.empty(len(x), dtype=np.uint64)
    for rows in runs(len(x), x.shape[1], 1 << 16):
        bits = (x[rows] + 0.0).view(np.uint64)  # −0 is 0
        sums[rows] = (bits ^ (bits >> np.uint64(32))) @ odd
    return (_mixed(sums) % np.uint64(FOLDS)).astype(np.int64)


def folds_of(table: Table) -> NDArray[np.int64]:
    """The fold of each row of a table (n,)."""
    return np.concatenate([fold_of(Matrix(x).values) for x in dense_blocks(table)])


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    found = numbers * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))


def dense_blocks(table: Table) -> Iterator[Array]:
    """The rows as they are, or sparse ones a block at a time with their zeros."""
    return (x for _, x in table.blocks(_CELLS))


def has_gaps(table: Table) -> bool:
    """Whether some value is NaN; infinite ones are somebody else's."""
    values = table.sparse.values if table.sparse is not None else table.numbers()
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(values.sum())) and bool(np.isnan(values).any())


def refuse_gaps(table: Table, remedy: str) -> None:
    """Raise for the first NaN, naming its column and row."""
    if not has_gaps(table):
        return
    at = 0
    for block in dense_blocks(table):
        if (missing := np.isnan(block)).any():
            row, column = np.argwhere(missing)[0].tolist()
            raise ValueError(
                f"{table.name(column)} holds NaN in row {at + row}, expected finite numbers: {remedy}"
            )
        at += len(block)


def guess(
    x: Array,
    weights: Array | None,
    count: Any,
    exact: bool,
    tol: float,
    max_iter: int,
    watch: Callable[[Step], None],
) -> tuple[Moments, tuple[float, ...]]:
    """Expected moments of rows with gaps, by EM until a row gains less than `tol`; and what steps gained."""
    if count is not None and whole(count) is None:
        raise ValueError(
            f"got n_components={count!r} for rows with gaps, expected a whole number or None: what varies is "
            "guessed together with what is missing"
        )
    likelihoods: list[float] = []
    statistic: Moments | None = None
    for step in refine(Gaps.of(x, weights, exact), whole(count)):
        watch(step)
        likelihoods.append(step.log_likelihood)
        statistic = step.statistic
        gained = likelihoods[-1] - likelihoods[-2] if len(likelihoods) > 1 else np.inf
        if gained <= tol * float(statistic.weight.value):
            break
        if len(likelihoods) >= max_iter:
            warn(f"EM did not converge in {max_iter} steps: raise max_iter, or tol", ConvergenceWarning)
            break
    assert statistic is not None
    return statistic, tuple(likelihoods)


class unless_wide:  # noqa: N801  (a decorator)
    """Of a method that `hasattr` denies, in a line of its own, where the solver keeps no statistic."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, face: Any, kind: type) -> Any:
        if face is None:  # as scikit-learn reads signatures
            return self._method
        if face.solver in ("rows", "randomized"):
            raise AttributeError(
                f"PCA(solver={face.solver!r}) has no {self._method.__name__}, for it keeps no statistic: set "
                "solver='moments'"
            )
        return self._method.__get__(face, kind)
