"""The only entry to the kernels of text: `reference` (Python) for few texts, `compiled` (Numba) for many.

Both give the same results to the bit; `reference` defines each function.
"""

from functools import partial

import numpy as np

from tamis._kernels.door import Door
from tamis._kernels.text import reference
from tamis._kernels.text.kinds import (
    PAD,
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
from tamis.threads import map_row_chunks, run_together

__all__ = [
    "PAD",
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

_CALL = 20  # the cost of a call of a Python function, in bytes of text
_PATIENCE = 2_000_000  # bytes read in Python before Numba is loaded: 0.5 s, half the time that loading takes

_SHARES, _SHARED = 4, 1 << 20  # _SHARED or more keys are divided into _SHARES parts, for threads

_door = Door(reference, "tamis._kernels.text.compiled", _CALL, _PATIENCE)


def fold_words(buffer: Bytes, offsets: Int64s, alphabet: Alphabet) -> tuple[Bytes, Int64s]:
    """Fold documents, with a zero byte for each break and between pairs. Return bytes and offsets."""
    folded: tuple[Bytes, Int64s] = _door.kernels(len(buffer)).fold_words(buffer, offsets, alphabet)
    return folded


def fold_characters(buffer: Bytes, offsets: Int64s, alphabet: Alphabet, within: bool) -> tuple[Bytes, Int64s]:
    """Fold documents and keep the breaks; white space becomes one space. Return bytes and offsets.

    If `within`, each document begins and ends with a space, so that n-grams can stay within words.
    """
    kernel = _door.kernels(3 * len(buffer)).fold_characters
    folded: tuple[Bytes, Int64s] = kernel(buffer, offsets, alphabet, within)
    return folded


def read_words(folded: Bytes, offsets: Int64s, shortest: int, alphabet: Alphabet) -> TokenStream:
    """Return the words between zeros; of those shorter than `shortest`, only UNSPACED ones are kept."""
    read: TokenStream = _door.kernels(2 * len(folded)).read_words(folded, offsets, shortest, alphabet)
    return read


def read_grams(folded: Bytes, offsets: Int64s, least: int, most: int, within: bool) -> TokenStream:
    """Return all n-grams of `least` to `most` characters.

    If `within`, they are n-grams of words with their surrounding spaces; a shorter word is one n-gram.
    """
    kernel = _door.kernels(6 * (most - least + 1) * len(folded)).read_grams
    read: TokenStream = kernel(folded, offsets, least, most, within)
    return read


def make_keys(text: Bytes, starts: Int64s, lengths: Int64s) -> UInt64s:
    """Return the key of each token, which is valid in this process only."""
    digits: UInt64s = _door.kernels(5 * len(starts)).make_keys(text, starts, lengths)
    return digits


def number_tokens(tokens: Tokens) -> tuple[Indices, Tokens]:
    """Number tokens, equal ones alike. Return the number of each, and the distinct tokens."""
    united: tuple[Indices, Tokens] = _door.kernels(5 * len(tokens.keys)).number_tokens(tokens)
    return united


def number_keys(keys: UInt64s) -> Numbering:
    """Number keys, equal ones alike; the numbers of one share of the keys come before those of the next."""
    kernel = _door.kernels(3 * len(keys)).number_keys
    shares = _SHARES if len(keys) >= _SHARED else 1  # not by the number of threads: the numbers depend on it
    numbers = np.empty(len(keys), dtype=np.int32)
    first = run_together([partial(kernel, keys, numbers, share, shares) for share in range(shares)])
    if shares > 1:
        before = np.cumsum([0, *map(len, first[:-1])]).astype(np.int32)
        numbers += before[reference.share_of(keys, shares)]
    return Numbering(numbers, np.concatenate(first))


def index_keys(keys: UInt64s) -> UInt64s:
    """Build a hash table from keys to their positions."""
    table: UInt64s = _door.kernels(3 * len(keys)).index_keys(keys)
    return table


def find_tokens(table: UInt64s, tokens: Tokens, other: Tokens) -> Indices:
    """Return the number of each `other` token among `tokens`, whose keys `table` holds; -1 if unknown."""
    numbers: Indices = _door.kernels(3 * (len(tokens.keys) + len(other.keys))).find_tokens(
        table, tokens, other
    )
    return numbers


def find_keys(table: UInt64s, keys: UInt64s) -> Indices:
    """Return the number of each key in a table; -1 if it is unknown."""
    numbers: Indices = _door.kernels(3 * len(keys) + len(table)).find_keys(table, keys)
    return numbers


def join_tokens(
    text: Bytes, starts: Int64s, lengths: Int64s, numbers: Indices, bounds: Int64s, separator: Bytes
) -> tuple[Bytes, Int64s, Int64s]:
    """Join tokens numbers[bounds[i] : bounds[i + 1]] to the i-th name. Return text, starts, lengths."""
    kernel = _door.kernels(2 * len(numbers) + 3 * len(bounds)).join_tokens
    names: tuple[Bytes, Int64s, Int64s] = kernel(text, starts, lengths, numbers, bounds, separator)
    return names


def make_pair_keys(
    left: Indices, left_documents: Int64s, right: Indices, right_documents: Int64s, shift: int
) -> tuple[UInt64s, Int64s]:
    """Make a key of the i-th number on the left and the (i + shift)-th on the right, in each document."""
    kernel = _door.kernels(len(right)).make_pair_keys
    keys: tuple[UInt64s, Int64s] = kernel(left, left_documents, right, right_documents, shift)
    return keys


def count_numbers(numbers: Indices, documents: Int64s, n_numbers: int) -> Rows:
    """Count the numbers, which are below `n_numbers`, in each document."""
    rows: Rows = _door.kernels(2 * len(numbers)).count_numbers(numbers, documents, n_numbers)
    return rows


def sum_groups(rows: Rows, group: Int64s, groups: int, n_numbers: int) -> Rows:
    """Sum the rows of each group; all numbers are below `n_numbers`."""
    sums: Rows = _door.kernels(2 * len(rows.indices)).sum_groups(rows, group, groups, n_numbers)
    return sums


def arrange(rows: Rows, columns: Indices, signs: Floats, out: tuple[Indices, Floats] | None = None) -> Rows:
    """Move number i to columns[i], times signs[i], or drop it if that is negative; sort rows by column.

    If `out` is given, the result is written to it; it must have as many elements as the rows.
    """
    count = len(rows.indices)
    indices, values = (np.empty(count, dtype=np.int32), np.empty(count)) if out is None else out
    arranged: Rows = _door.kernels(4 * count).arrange(rows, columns, signs, indices, values)
    return arranged


def add_columns(sums: Int64s, numbers: Int64s, table: Int64s) -> None:
    """Add column i of `sums` to column numbers[i] of a table that has at least as many rows."""
    kernel = _door.kernels(sums.size // 4).add_columns
    map_row_chunks(len(sums), sums.size, lambda i, j: kernel(sums[i:j], numbers, table[i:j]))


def add_rows(rows: Rows, columns: Indices, group: Int64s, table: Int64s) -> None:
    """Add row d to row group[d] of `table`, and number i to columns[i]; it is dropped if that is negative."""
    _door.kernels(len(rows.indices)).add_rows(*rows, columns, group, table)


def hash_tokens(text: Bytes, starts: Int64s, lengths: Int64s, seed: int = 0) -> Hashes:
    """Return the 32-bit MurmurHash3 of each token, which scikit-learn and Vowpal Wabbit use, too."""
    codes: Hashes = _door.kernels(8 * len(starts)).hash_tokens(text, starts, lengths, seed)
    return codes
