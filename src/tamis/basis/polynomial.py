"""x → x, x², x³, …: powers, and products of columns."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array
from tamis.basis.base import Basis, Functions
from tamis.basis.placement import Range, check_finite, check_integer

_CHUNK = 4096  # array elements that `_iterate_pairs` converts at a time
_MAX_FUNCTIONS = 1_000_000  # more are refused: a thousand rows of this many are 8 GB


@dataclass(eq=False, repr=False)
class PolynomialBasis(Basis):
    """Powers of each column up to a degree; with interactions, products of columns too.

    By default a column is first shifted and scaled to −1 … 1, because powers of numbers near 1e8 are nearly
    proportional to each other. The scaling does not change which curves a model with an intercept can fit;
    its coefficients are those of the scaled columns. `interactions=True, scale=None` makes the columns of
    scikit-learn's PolynomialFeatures.

    >>> PolynomialBasis(degree=2).fit_transform([[10.0], [15.0], [20.0]]).tolist()
    [[-1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    >>> PolynomialBasis(degree=3, scale=None, include_bias=True).fit_transform([[2.0]]).tolist()
    [[1.0, 2.0, 4.0, 8.0]]
    >>> basis = PolynomialBasis(degree=2, interactions=True, scale=None).fit([[2.0, 3.0]])
    >>> basis.transform([[2.0, 3.0]]).tolist(), basis.get_feature_names_out().tolist()
    ([[2.0, 3.0, 4.0, 6.0, 9.0]], ['x0', 'x1', 'x0^2', 'x0 x1', 'x1^2'])

    Parameters
    ----------
    degree : the highest power; with interactions, the highest sum of powers of a product
    interactions : whether columns are multiplied with each other; if not, each is expanded by itself
    scale : "range" to scale the range of each column to −1 … 1 (a constant column gets a range of length 1
        around its value); None for no scaling; or (centre, half-width), each a number or (d,)
    include_bias : whether a column of ones comes first, for models without an intercept
    """

    degree: int = 2
    interactions: bool = False
    scale: Literal["range"] | tuple[ArrayLike, ArrayLike] | None = "range"
    include_bias: bool = False

    @property
    def powers_(self) -> NDArray[np.int64]:
        """The power of each column in each function, without the column of ones (functions, d)."""
        functions = self._require_state().functions
        earlier, column = _list_factors(functions, len(functions["centre"]))
        powers = np.zeros((len(earlier) + 1, len(functions["centre"])), dtype=np.int64)  # the last: no factor
        for row, (before, j) in enumerate(_iterate_pairs(earlier, column)):
            powers[row] = powers[before]
            powers[row, j] += 1
        return powers[:-1]

    @property
    def centre_(self) -> Array:
        """The value that is subtracted from each column (d,)."""
        centre: Array = self._require_state().functions["centre"]
        return centre

    @property
    def width_(self) -> Array:
        """The value by which each column is then divided (d,)."""
        width: Array = self._require_state().functions["width"]
        return width

    def define_functions(self, values: Array, ranges: Range) -> Functions:
        centre, width = self._choose_scale(ranges)
        degree = check_integer("degree", self.degree, 1)
        self._refuse_too_many(len(centre), degree)
        return {
            "centre": centre,
            "width": width,
            "degree": degree,
            "interactions": bool(self.interactions),
            "bias": bool(self.include_bias),
        }

    def _refuse_too_many(self, columns: int, degree: int) -> None:
        count = comb(columns + degree, degree) - 1 if self.interactions else columns * degree
        if count > _MAX_FUNCTIONS:
            raise ValueError(
                f"got degree={degree} for {columns} columns, which makes {count:,} functions, expected at "
                f"most {_MAX_FUNCTIONS:,}: lower the degree, or set interactions=False"
            )

    def _choose_scale(self, ranges: Range) -> tuple[Array, Array]:
        columns = len(ranges.low)
        scale: object = self.scale
        if scale is None:
            return np.zeros(columns), np.ones(columns)
        if isinstance(scale, tuple | list) and len(scale) == 2:
            given = [check_finite("scale", part) for part in scale]
            if any(part.shape not in ((), (columns,)) for part in given) or not given[1].all():
                raise ValueError(
                    f"got scale={scale!r}, expected (centre, half-width), each a number or one per column "
                    f"({columns},), and no width of 0"
                )
            centre, width = (np.broadcast_to(part, (columns,)).copy() for part in given)
            return centre, width
        if not isinstance(scale, str) or scale != "range":
            raise ValueError(
                f"got scale={scale!r}, expected 'range', (centre, half-width), or None for no scaling"
            )
        ranges = ranges.widen_constants()
        half = 0.5 * (ranges.high - ranges.low)
        return ranges.low + half, half

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        earlier, column = _list_factors(functions, values.shape[1])
        block = np.empty((len(values), len(earlier)))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # infinities are refused later
            scaled = (values - functions["centre"]) / functions["width"]
            for place, (before, j) in enumerate(_iterate_pairs(earlier, column)):
                block[:, place] = scaled[:, j] if before < 0 else block[:, before] * scaled[:, j]
        yield block

    def _name_functions(self, functions: Functions, names: list[str]) -> Iterator[str]:
        powers: list[tuple[tuple[int, int], ...]] = []  # of each function: (column, power), …
        for before, j in _iterate_pairs(*_list_factors(functions, len(names))):
            *others, (last, power) = powers[before] if before >= 0 else ((-1, 0),)
            product = (*others, (j, power + 1)) if last == j else (*others, (last, power), (j, 1))
            powers.append(tuple(pair for pair in product if pair[1]))
            yield " ".join(names[k] if n == 1 else f"{names[k]}^{n}" for k, n in powers[-1])


def _list_factors(functions: Functions, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each function as the product of an earlier function (its index, −1 for none) and a column.

    A file may hold a polynomial of degree 100,000. The memory for lists of all factors would grow with the
    square of the degree.
    """
    degree = functions["degree"]
    if not functions["interactions"]:
        earlier = np.arange(columns * degree, dtype=np.int64) - 1
        earlier[::degree] = -1
        return earlier, np.repeat(np.arange(columns, dtype=np.int64), degree)
    places, column = [np.full(columns, -1, np.int64)], [np.arange(columns, dtype=np.int64)]
    start = 0
    # Multiply each product of the degree before by its last column, and by every column after that one.
    for _ in range(degree - 1):
        last = column[-1]
        repeats = columns - last
        offset = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        places.append(start + np.repeat(np.arange(len(last)), repeats))
        column.append(np.repeat(last, repeats) + offset)
        start += len(last)
    return np.concatenate(places), np.concatenate(column)


def _iterate_pairs(first: NDArray[np.int64], second: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield pairs of elements of two arrays as Python integers; few of them are in memory at a time."""
    for start in range(0, len(first), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        yield from zip(first[chunk].tolist(), second[chunk].tolist(), strict=True)
