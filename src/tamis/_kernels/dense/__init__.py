"""The one door to the kernels of dense symmetric matrices: products of many rows of few columns.

The size of the data alone chooses the implementation. BLAS and the compiled kernel round differently, and
rows must be unlearned by the one that learned them.
"""

import numpy as np

from tamis._kernels.dense import reference
from tamis._kernels.door import import_compiled
from tamis._kernels.reference import Floats, Words

__all__ = ["is_large", "multiply_centred"]

_LARGE = 4_000_000  # cells: their sums alone have loaded Numba
_WIDEST = 512  # columns: beyond them BLAS, which packs its tiles, is as fast
_NOTHING: Floats = np.zeros((0, 0))
_EACH: Floats = np.zeros(0)
_AS_THEY_ARE: Words = np.zeros(0, dtype=np.int64)


def is_large(rows: int, columns: int) -> bool:
    """Whether the compiled kernel takes data of this size, in all its blocks."""
    return columns <= _WIDEST and rows * columns >= _LARGE


def multiply_centred(
    values: Floats,
    centre: Floats,
    place: slice,
    order: Words | None = None,
    weights: Floats | None = None,
    extra: Floats | None = None,
    large: bool = False,
) -> Floats:
    """Σ w (x − c)(x − c)ᵀ of the rows at `place` (d, d), of which the upper triangle is meant.

    Rows are `values` (n, p) and the `extra` columns (n, d − p); `order` (n,) is the row at each place.
    """
    compiled = import_compiled("tamis._kernels.dense.compiled") if large else None
    if compiled is None:
        return reference.multiply_centred(values, centre, place, order, weights, extra)
    products: Floats = compiled.multiply_centred(
        values,
        _NOTHING if extra is None else extra,
        centre,
        _EACH if weights is None else weights.reshape(-1),
        _AS_THEY_ARE if order is None else order,
        place.start,
        place.stop,
    )
    return products[: len(centre), : len(centre)]
