"""The only entry to the kernels of text: those of the compiled core, or `reference` where there is none.

Both give the same results to the bit; `reference` defines each function.
"""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tamis._kernels.text import reference
from tamis._kernels.text.kinds import (
    BREAK,
    PAD,
    SKIP,
    UNSPACED,
    WORD,
    Alphabet,
    Bytes,
    Floats,
    Hashes,
    Indices,
    Int64s,
    Numbering,
    Rows,
    Tokens,
    TokenStream,
    UInt64s,
)
from tamis.compiled import choose_kernels
from tamis.threads import map_row_chunks, run_together

__all__ = [
    "BREAK",
    "PAD",
    "SKIP",
    "UNSPACED",
    "WORD",
    "Alphabet",
    "Bytes",
    "Floats",
    "Hashes",
    "Indices",
    "Int64s",
    "Numbering",
    "Rows",
    "TokenStream",
    "Tokens",
    "UInt64s",
    "add_columns",
    "add_rows",
    "arrange",
    "count_numbers",
    "find_keys",
    "find_tokens",
    "fold_characters",
    "fold_words",
    "hash_tokens",
    "index_keys",
    "join_tokens",
    "make_keys",
    "make_pair_keys",
    "number_keys",
    "number_tokens",
    "read_grams",
    "read_words",
    "sum_groups",
]

_SHARES, _MIN_KEYS = 4, 1 << 20  # _MIN_KEYS keys or more are divided into _SHARES shares, one per task

if TYPE_CHECKING:
    _kernels = reference  # both have the same signatures
else:
    _kernels = choose_kernels(reference, "tamis._kernels.text.compiled")

count_numbers = _kernels.count_numbers
find_keys = _kernels.find_keys
find_tokens = _kernels.find_tokens
fold_characters = _kernels.fold_characters
fold_words = _kernels.fold_words
index_keys = _kernels.index_keys
join_tokens = _kernels.join_tokens
make_keys = _kernels.make_keys
make_pair_keys = _kernels.make_pair_keys
number_tokens = _kernels.number_tokens
read_grams = _kernels.read_grams
read_words = _kernels.read_words
sum_groups = _kernels.sum_groups


def number_keys(keys: UInt64s) -> Numbering:
    """Give each distinct key, a 64-bit number that stands for a token or for two numbers, a number from 0 on.

    Keys are divided into shares by their value, so that equal keys are in one share. The numbers of a share
    follow those of the share before; within a share, they are in the order of first occurrence.
    """
    # The numbers depend on how many shares there are, so this must not depend on the number of threads.
    shares = _SHARES if len(keys) >= _MIN_KEYS else 1
    numbers = np.empty(len(keys), dtype=np.int32)
    first_positions = run_together(
        [partial(_kernels.number_keys, keys, numbers, share, shares) for share in range(shares)]
    )
    if shares > 1:
        counts_before = np.cumsum([0, *map(len, first_positions[:-1])]).astype(np.int32)
        numbers += counts_before[reference.share_of(keys, shares)]
    return Numbering(numbers, np.concatenate(first_positions))


def arrange(rows: Rows, columns: Indices, signs: Floats, out: tuple[Indices, Floats] | None = None) -> Rows:
    """Move column i of sparse rows to columns[i], times signs[i]; sort each row by column.

    Column i is dropped if columns[i] is negative; counts that come to the same column are added. If `out`
    (indices and counts) is given, the result is written to it; each array needs `len(rows.indices)` elements.
    """
    count = len(rows.indices)
    indices, values = (np.empty(count, dtype=np.int32), np.empty(count)) if out is None else out
    return _kernels.arrange(rows, columns, signs, indices, values)


def add_columns(sums: Int64s, numbers: Int64s, table: Int64s) -> None:
    """Add column i of `sums` (rows, n) to column numbers[i] of `table`, which has at least as many rows."""
    map_row_chunks(len(sums), sums.size, lambda i, j: _kernels.add_columns(sums[i:j], numbers, table[i:j]))


def add_rows(rows: Rows, columns: Indices, group: Int64s, table: Int64s) -> None:
    """Add sparse row d to row group[d] of `table`, its column i to columns[i] unless that is negative."""
    _kernels.add_rows(*rows, columns, group, table)


def hash_tokens(text: Bytes, starts: Int64s, lengths: Int64s, seed: int = 0) -> Hashes:
    """Return the 32-bit MurmurHash3 of each token, the hash that scikit-learn uses, too."""
    return _kernels.hash_tokens(text, starts, lengths, seed)
