"""The one door to the kernels of dense symmetric matrices: products of many rows of few columns.

Who computes is told by the size of the data alone. BLAS and the compiled kernel round differently, and what
was learned by one must be unlearned by the same.
"""

import numpy as np

from tamis._kernels.dense import reference
from tamis._kernels.door import import_compiled
from tamis._kernels.reference import Floats, Words

__all__ = ["centred_products", "is_large"]

_LARGE = 4_000_000  # cells: their sums alone have loaded Numba
_WIDEST = 512  # columns: beyond them BLAS, which packs its tiles, is as fast
_NOTHING: Floats = np.zeros((0, 0))
_EACH: Floats = np.zeros(0)
_AS_THEY_ARE: Words = np.zeros(0, dtype=np.int64)


def is_large(rows: int, columns: int) -> bool:
    """Whether the compiled kernel takes data of this size, in all its blocks."""
    return columns <= _WIDEST and rows * columns >= _LARGE


def centred_products(
    values: Floats,
    centre: Floats,
    place: slice,
    order: Words | None = None,
    weights: Floats | None = None,
    beside: Floats | None = None,
    large: bool = False,
) -> Floats:
    """Σ w (x − c)(x − c)ᵀ of the rows at `place` (d, d), of which the upper triangle is meant.

    Rows are `values` (n, p) and, `beside` them, (n, d − p); `order` (n,) says which row is at which place.
    """
    compiled = import_compiled("tamis._kernels.dense.compiled") if large else None
    if compiled is None:
        return reference.centred_products(values, centre, place, order, weights, beside)
    more = _NOTHING if beside is None else beside
    weigh = _EACH if weights is None else weights.reshape(-1)
    which = _AS_THEY_ARE if order is None else order
    found: Floats = compiled.centred_products(values, more, centre, weigh, which, place.start, place.stop)
    return found[: len(centre), : len(centre)]
