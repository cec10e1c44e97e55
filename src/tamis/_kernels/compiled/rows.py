"""The kernels of `sums.py` on many rows → the same on chunks of them, side by side, and the results joined.

On two cores 1e6 × 20 values in 10 groups take 15 ms for a first sum (29 on one), 33 ms for a first and a
second (64), and 9 ms to span (17); on cores that others keep busy, as long as on one.
"""

import numpy as np

from tamis import threads
from tamis._kernels.compiled import sums
from tamis._kernels.compiled.digits import combine
from tamis._kernels.reference import Floats, Words

CROWD = 8  # values a cell: with fewer, joining the words of the chunks costs what the chunks have saved


def _work(values: Floats, groups: int) -> int:
    return values.size if len(values) >= CROWD * groups else 0


def span(values: Floats) -> tuple[Words, int, int]:
    if threads.count_chunks(values.size) == 1:
        return sums.span(values)
    n = len(values)
    chunks = threads.map_row_chunks(n, values.size, lambda start, stop: sums.extents(values[start:stop]))
    largest, smallest, broken = chunks[0]
    for other in chunks[1:]:
        largest = np.maximum(largest, other[0])
        smallest = np.minimum(smallest, other[1])
        broken = broken + other[2]
    return sums.exponents(largest, smallest, broken)


def deposit(values: Floats, bounds: Words, group: Words, groups: int) -> tuple[Words, int]:
    if threads.count_chunks(_work(values, groups)) == 1:
        return sums.deposit(values, bounds, group, groups)

    def work(start: int, stop: int) -> tuple[Words, int]:
        return sums.deposit(values[start:stop], bounds, group[start:stop], groups)

    chunks = threads.map_row_chunks(len(values), _work(values, groups), work)
    total = chunks[0]
    for other in chunks[1:]:
        total = combine(*total, *other, 1)
    return total


def deposit_powers(values: Floats, bounds: Words, group: Words, groups: int) -> tuple[Words, int, Words, int]:
    if threads.count_chunks(_work(values, groups)) == 1:
        return sums.deposit_powers(values, bounds, group, groups)

    def work(start: int, stop: int) -> tuple[Words, int, Words, int]:
        return sums.deposit_powers(values[start:stop], bounds, group[start:stop], groups)

    chunks = threads.map_row_chunks(len(values), _work(values, groups), work)
    first, second = chunks[0][:2], chunks[0][2:]
    for other in chunks[1:]:
        first = combine(*first, *other[:2], 1)
        second = combine(*second, *other[2:], 1)
    return *first, *second
