"""Calls of the compiled kernels: the functions of `reference.py`, with the same results.

`tests/kernels` compares the results; only the last digits of `log_sum_rows` may differ. `__init__` and
`reference` describe what each kernel computes, and the shapes of its arguments. Words are digits of 32 bits,
in int64; those of a settled number are from 0 to 2**32 − 1, except the last, which is signed and from −HALF
to HALF − 1. Large inputs are split into chunks of rows, which threads process in parallel; small ones take
one call.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from tamis import threads
from tamis._core import sums

# These functions of the core are exported unchanged.
from tamis._core.sums import (
    add_row,
    are_codes_within,
    are_rows_within,
    are_within,
    combine,
    deposit_products,
    describe_moments,
    multiply,
    settle,
)
from tamis._kernels.reference import HALF, Floats, Indices, Int64s, Words

__all__ = [
    "add_row",
    "are_codes_within",
    "are_rows_within",
    "are_within",
    "combine",
    "deposit",
    "deposit_codes",
    "deposit_columns",
    "deposit_powers",
    "deposit_products",
    "deposit_rows",
    "deposit_sparse",
    "describe_moments",
    "gather_scores",
    "gaussian_scores",
    "log_sum_rows",
    "multiply",
    "read",
    "settle",
    "span",
    "two_product",
]

# add(start, stop, words, separate, shared, low): add the rows order[start] … order[stop − 1] (`order` as of
# `_Chunks`), or the rows start … stop − 1 if `order` is empty, to `words` (1 or more, cells). Rows of the
# group `shared` (-1 for none), to which another thread adds at the same time, are added to `separate` (as
# many words, columns) instead. `low` is the position of the lowest word. If it is None, values and weights
# are taken for integers, whose products are added to a single word per cell. Then the results are: the
# bitwise or of all values, the bitwise or of all weights (in both, what is not an integer below 2**62 counts
# as 2**62, and a negative −n as n − 1), and the sum of the magnitudes of the products. Otherwise the results
# mean nothing.
Adder: TypeAlias = Callable[[int, int, Words, Words, int, int | None], tuple[int, int, int]]

# With fewer rows per group, adding up the words of the chunks takes the time that threads save.
MIN_VALUES_PER_CELL = 8


def span(values: Floats) -> tuple[Int64s, int, int]:
    n, m = values.shape
    bounds = np.empty((2, m), np.int64)  # exponents of each column's largest and smallest nonzero magnitude
    n_chunks = threads.count_chunks(values.size)
    if n_chunks == 1:
        # `sums.span` writes the bounds. It returns the largest exponent, and the index of a column that is
        # not finite, or -1; so does `sums.join_extents`.
        return bounds, *sums.span(values, bounds)
    # Of each chunk and column: the largest magnitude, the least nonzero one, and 0 if all values are finite,
    # otherwise NaN.
    extents = np.empty((n_chunks, 3, m))
    threads.run_in_turns(
        n_chunks,
        values.size,
        lambda k: sums.write_extents(values[n * k // n_chunks : n * (k + 1) // n_chunks], extents[k]),
    )
    return bounds, *sums.join_extents(extents, bounds)


def two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    product, rounding = np.empty(x.shape), np.empty(x.shape)
    sums.two_product(x, y, product, rounding)
    return product, rounding


def read(words: Words, low: int) -> tuple[Floats, Floats]:
    value, rest = np.empty(words.shape[1]), np.empty(words.shape[1])
    sums.read(words, low, value, rest)
    return value, rest


def deposit(values: Floats, bounds: Int64s, group: Int64s, groups: int) -> tuple[Words, int]:
    work = _count_work(values, groups)
    if threads.count_chunks(work) == 1:
        return sums.deposit(values, bounds, group, groups)

    def sum_rows(start: int, stop: int) -> tuple[Words, int]:
        return sums.deposit(values[start:stop], bounds, group[start:stop], groups)

    chunks = threads.map_row_chunks(len(values), work, sum_rows)
    return _add_chunks([(chunk,) for chunk in chunks])[0]


def deposit_powers(
    values: Floats, bounds: Int64s, group: Int64s, groups: int
) -> tuple[Words, int, Words, int]:
    work = _count_work(values, groups)
    if threads.count_chunks(work) == 1:
        return sums.deposit_powers(values, bounds, group, groups)

    def sum_rows(start: int, stop: int) -> tuple[Words, int, Words, int]:
        return sums.deposit_powers(values[start:stop], bounds, group[start:stop], groups)

    chunks = threads.map_row_chunks(len(values), work, sum_rows)
    first, second = _add_chunks([(chunk[:2], chunk[2:]) for chunk in chunks])
    return *first, *second


def deposit_rows(
    values: Floats, group: Int64s, groups: int, power: int
) -> tuple[tuple[tuple[Words, int], ...], int, bool]:
    work = _count_work(values, groups)
    if threads.count_chunks(work) == 1:
        return sums.deposit_rows(values, group, groups, power)

    def sum_rows(start: int, stop: int) -> tuple[tuple[tuple[Words, int], ...], int, bool]:
        return sums.deposit_rows(values[start:stop], group[start:stop], groups, power)

    # Of each chunk: its sums, the largest exponent of its values, and whether all are finite.
    chunks = threads.map_row_chunks(len(values), work, sum_rows)
    if not all(is_finite for _, _, is_finite in chunks):
        return (), 0, False
    return _add_chunks([chunk[0] for chunk in chunks]), max(exponent for _, exponent, _ in chunks), True


def _add_chunks(chunks: list[tuple[tuple[Words, int], ...]]) -> tuple[tuple[Words, int], ...]:
    """Add the sums of all chunks; a chunk has one or more sums, each as (words, low)."""
    totals = chunks[0]
    for others in chunks[1:]:
        totals = tuple(combine(*total, *other, sign=1) for total, other in zip(totals, others, strict=True))
    return totals


def deposit_columns(
    columns: list[Floats], group: Int64s, groups: int, power: int
) -> tuple[tuple[tuple[Words, int], ...], int, int]:
    work = len(columns[0]) * len(columns)
    if threads.count_chunks(work) == 1:
        return sums.deposit_columns(columns, group, groups, power)

    def sum_rows(start: int, stop: int) -> tuple[tuple[tuple[Words, int], ...], int, int]:
        chunk = [column[start:stop] for column in columns]
        return sums.deposit_columns(chunk, group[start:stop], groups, power)

    # Of each chunk: its sums, the largest exponent of its values, and a column that is not finite, or -1.
    chunks = threads.map_row_chunks(len(columns[0]), work, sum_rows)
    if nonfinite := [column for _, _, column in chunks if column >= 0]:
        return (), 0, min(nonfinite)
    return _add_chunks([chunk[0] for chunk in chunks]), max(exponent for _, exponent, _ in chunks), -1


def _count_work(values: Floats, groups: int) -> int:
    """Return the number of values, by which rows are split into chunks; 0 if splitting is not faster."""
    return values.size if len(values) >= MIN_VALUES_PER_CELL * groups else 0


def deposit_sparse(
    indptr: Int64s,
    indices: Indices,
    values: Floats,
    weights: Floats,
    group: Int64s,
    groups: int,
    columns: int,
) -> tuple[Words, int]:
    n_chunks = threads.count_chunks(values.size + groups * columns)
    if n_chunks == 1:
        return sums.deposit_sparse(indptr, indices, values, weights, group, groups, columns)
    # The row indices sorted by group; empty, for rows as they are, if there is one group, or if the sums of
    # all groups fit in a cache.
    order = sums.sort_rows(group, groups, columns)
    cuts = sums.cut_rows(indptr, order, n_chunks)  # about the same number of entries in each chunk

    # An `Adder`; `target` is its words, separate, shared and low.
    def add(start: int, stop: int, *target: *tuple[Words, Words, int, int | None]) -> tuple[int, int, int]:
        return sums.add_sparse(indptr, indices, values, weights, group, order, start, stop, *target)

    chunks = _Chunks(add, group, order, cuts, columns)
    return _sum_by_cell(chunks, cells=groups * columns, entries=values.size, values=values, weights=weights)


def deposit_codes(
    codes: Int64s, offsets: Int64s, weights: Floats, group: Int64s, groups: int
) -> tuple[Words, int]:
    columns = int(offsets[-1])
    n_chunks = threads.count_chunks(codes.size + groups * columns)
    if n_chunks == 1:
        return sums.deposit_codes(codes, offsets, weights, group, groups)
    order = sums.sort_rows(group, groups, columns)  # as in `deposit_sparse`
    cuts = np.array([len(codes) * k // n_chunks for k in range(n_chunks + 1)])

    def add(start: int, stop: int, *target: *tuple[Words, Words, int, int | None]) -> tuple[int, int, int]:
        return sums.add_codes(codes, offsets, weights, group, order, start, stop, *target)

    chunks = _Chunks(add, group, order, cuts, columns)
    # What a code adds to its cell is the weight of its row: here the weights are the values.
    return _sum_by_cell(
        chunks, cells=groups * columns, entries=codes.size, values=weights, weights=np.zeros(0)
    )


class _Chunks(NamedTuple):
    """Rows split into chunks, and the function that adds one chunk."""

    add: Adder
    group: Int64s  # (n,): the group of each row; empty if all rows are one group
    order: Int64s  # (n,): the indices of the rows, sorted by group; empty if rows are taken as they are
    cuts: Int64s  # (chunks + 1,): chunk k has the rows from place cuts[k] to before cuts[k + 1] in this order
    columns: int  # the number of cells of each group

    def add_together(self, words: Words, low: int | None) -> list[tuple[int, int, int]]:
        """Add all chunks of rows to the words, in parallel; return what `add` returned for each."""
        tasks, targets = [], []
        for start, stop in pairwise(self.cuts.tolist()):
            shared = self._find_shared_group(start)
            separate = np.zeros((len(words), self.columns), dtype=np.int64)
            # Chunks of sorted rows add to different cells, except those of a shared group. Of unsorted rows,
            # each chunk after the first needs words of its own.
            target = words if start == 0 or self.order.size else np.zeros_like(words)
            targets.append((target, shared, separate))
            tasks.append(partial(self.add, start, stop, target, separate, shared, low))
        results = threads.run_together(tasks)
        for target, shared, separate in targets:
            if target is not words:
                words += target
            if shared >= 0:
                words[:, shared * self.columns : (shared + 1) * self.columns] += separate
        return results

    def _find_shared_group(self, start: int) -> int:
        """The group whose rows are on both sides of the place `start`, where a chunk begins, or -1."""
        if not 0 < start < self.order.size:
            return -1
        before, after = self.group[self.order[start - 1 : start + 1]].tolist()
        return int(after) if before == after else -1


def _sum_by_cell(
    chunks: _Chunks, cells: int, entries: int, values: Floats, weights: Floats
) -> tuple[Words, int]:
    """Settled sums of `entries` products of a value and a weight, added as integers if that is exact."""
    words = np.zeros((1, cells), dtype=np.int64)  # NumPy zeroes no page before it is first written to
    results = chunks.add_together(words, low=None)
    # The sum of `entries` products has no more bits than the largest value, weight and `entries` together.
    value_bits, weight_bits = (max(result[k].bit_length() for result in results) for k in (0, 1))
    if value_bits + weight_bits + entries.bit_length() <= 62:  # all are integers, and no sum overflows int64
        is_small = sum(total for _, _, total in results) < HALF  # then so is each cell: none need be read
        if is_small or (words.min(initial=0) >= -HALF and words.max(initial=0) < HALF):
            return words, 0
        return _settle_in_place(np.concatenate([words, np.zeros_like(words)]), 0)  # two words hold 64 bits
    # `low` and the number of the words that hold all products and their sums exactly.
    low, length = sums.find_window(values, weights, entries)
    words = np.zeros((length, cells), dtype=np.int64)
    chunks.add_together(words, low)
    return _settle_in_place(words, low)


def _settle_in_place(words: Words, low: int) -> tuple[Words, int]:
    """Settle words, overwriting them; leave out the first and the last ones that are not needed."""
    first, last, low = sums.settle_in_place(words, low)
    return words if last - first == len(words) else words[first:last].copy(), low


def gaussian_scores(x: Floats, mean: Floats, precision: Floats, log_peak: Floats, constant: Floats) -> Floats:
    scores = np.empty((len(x), len(constant)))
    parameters = mean, precision, log_peak, constant
    _write_in_chunks(sums.gaussian_scores, x, parameters, scores, x.size * len(constant))
    return scores


def gather_scores(codes: Int64s, offsets: Int64s, table: Floats, constant: Floats) -> Floats:
    scores = np.empty((len(codes), len(constant)))
    parameters = offsets, table, constant
    _write_in_chunks(sums.gather_scores, codes, parameters, scores, codes.size * len(constant))
    return scores


def log_sum_rows(scores: Floats) -> Floats:
    totals = np.empty(len(scores))
    _write_in_chunks(sums.log_sum_rows, scores, (), totals, scores.size)
    return totals


def _write_in_chunks(
    kernel: Callable[..., None],
    rows: Floats | Int64s,
    parameters: tuple[Floats | Int64s, ...],
    results: Floats,
    work: int,
) -> None:
    """Call `kernel(rows, *parameters, results)`; if there is enough work, in chunks of rows in parallel."""
    if threads.count_chunks(work) == 1:
        kernel(rows, *parameters, results)
    else:
        threads.map_row_chunks(
            len(rows),
            work,
            lambda start, stop: kernel(rows[start:stop], *parameters, results[start:stop]),
        )
