"""The kernels of dense matrices, compiled."""

import numpy as np

from tamis._kernels.dense.symmetric import add_products, width_of
from tamis._kernels.jit import FLOATS, FLOATS_1D, INTEGER, WORDS_1D, kernel
from tamis._kernels.reference import Floats, Words

_PIECE = 64  # rows less the centre at a time: they stay in the cache


@kernel(FLOATS, FLOATS, FLOATS_1D, FLOATS_1D, WORDS_1D, INTEGER, INTEGER)
def multiply_centred(
    values: Floats, extra: Floats, centre: Floats, weights: Floats, order: Words, start: int, stop: int
) -> Floats:
    p, d = values.shape[1], len(centre)
    width = width_of(d)
    sums = np.zeros((width, width))
    rows = np.zeros((_PIECE, width))
    weighed = np.zeros((_PIECE, width)) if weights.size else rows
    for begin in range(start, stop, _PIECE):
        count = min(_PIECE, stop - begin)
        for i in range(count):
            place = order[begin + i] if order.size else begin + i
            for j in range(p):
                rows[i, j] = values[place, j] - centre[j]
            for j in range(p, d):
                rows[i, j] = extra[place, j - p] - centre[j]
            if weights.size:
                for j in range(d):
                    weighed[i, j] = weights[place] * rows[i, j]
        add_products(weighed, rows, count, sums)
    return sums
