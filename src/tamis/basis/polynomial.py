"""x → x, x², x³, …: powers, and products of columns."""

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array
from tamis.basis.base import Basis, Functions
from tamis.basis.placement import Range, check_finite, check_integer

_MOST = 1_000_000  # functions: a thousand rows of them are 8 GB


class PolynomialBasis(Basis):
    """Powers of each column up to a degree; with interactions, products of columns too.

    By default a column is first shifted and scaled to −1 … 1, for powers of numbers near 1e8 are nearly
    proportional to each other. A model with an intercept can reach the same functions; its weights are those
    of the scaled columns. `interactions=True, scale=None` is scikit-learn's PolynomialFeatures.

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
    scale : "range" to bring the range of each column to −1 … 1 (a constant column has a range of one about
        it); None for columns as they are; or (centre, half-width) by hand, each a number or (d,)
    include_bias : whether a column of ones comes first, for models without an intercept
    """

    def __init__(
        self,
        degree: int = 2,
        interactions: bool = False,
        scale: Literal["range"] | tuple[ArrayLike, ArrayLike] | None = "range",
        include_bias: bool = False,
    ) -> None:
        self.degree = degree
        self.interactions = interactions
        self.scale = scale
        self.include_bias = include_bias

    @property
    def powers_(self) -> NDArray[np.int64]:
        """The power of each column in each function, less the ones (functions, d)."""
        functions = self._require_state().functions
        products = _list_products(functions, len(functions["centre"]))
        powers = np.zeros((len(products), len(functions["centre"])), dtype=np.int64)
        for row, product in enumerate(products):
            np.add.at(powers[row], list(product), 1)
        return powers

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

    def define_functions(self, values: Array, span: Range) -> Functions:
        centre, width = self._choose_scale(span)
        self._refuse_many(len(centre), check_integer("degree", self.degree, 1))
        return {
            "centre": centre,
            "width": width,
            "degree": check_integer("degree", self.degree, 1),
            "interactions": bool(self.interactions),
            "bias": bool(self.include_bias),
        }

    def _refuse_many(self, columns: int, degree: int) -> None:
        count = comb(columns + degree, degree) - 1 if self.interactions else columns * degree
        if count > _MOST:
            raise ValueError(
                f"got degree={degree} for {columns} columns, which makes {count:,} functions, expected at "
                f"most {_MOST:,}: lower the degree, or set interactions=False"
            )

    def _choose_scale(self, span: Range) -> tuple[Array, Array]:
        columns = len(span.low)
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
            raise ValueError(f"got scale={scale!r}, expected 'range', (centre, half-width), or None for none")
        span = span.widen()
        half = 0.5 * (span.high - span.low)
        return span.low + half, half

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        products = _list_products(functions, values.shape[1])
        block = np.empty((len(values), len(products)))
        places: dict[tuple[int, ...], int] = {}
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # infinities are refused later
            scaled = (values - functions["centre"]) / functions["width"]
            for place, product in enumerate(products):  # each is an earlier one times one factor
                shorter = places.get(product[:-1])
                last = scaled[:, product[-1]]
                block[:, place] = last if shorter is None else block[:, shorter] * last
                places[product] = place
        yield block

    def _name(self, functions: Functions, names: list[str]) -> Iterator[str]:
        for product in _list_products(functions, len(names)):
            powers = {j: product.count(j) for j in product}
            yield " ".join(names[j] if power == 1 else f"{names[j]}^{power}" for j, power in powers.items())


def _list_products(functions: Functions, columns: int) -> list[tuple[int, ...]]:
    """The columns, in order, that each function multiplies."""
    degrees = range(1, functions["degree"] + 1)
    if functions["interactions"]:
        return [product for n in degrees for product in combinations_with_replacement(range(columns), n)]
    return [(j,) * n for j in range(columns) for n in degrees]
