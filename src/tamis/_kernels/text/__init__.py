"""The one door to the kernels of text: `reference` (Python) serves messages, `compiled` (Numba) a corpus.

Both give the same bits; what each function means is said in `reference`.
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
    Digits,
    Floats,
    Hashes,
    Indices,
    Numbering,
    Rows,
    Stems,
    TokenStream,
    Words,
)
from tamis.threads import map_row_chunks, run_together

__all__ = [
    "PAD",
    "UNSPACED",
    "WORD",
    "Alphabet",
    "Bytes",
    "Digits",
    "Floats",
    "Hashes",
    "Indices",
    "Numbering",
    "Rows",
    "Stems",
    "TokenStream",
    "Words",
    "add",
    "arrange",
    "condense",
    "find",
    "find_keys",
    "fold_characters",
    "fold_words",
    "hashes",
    "identify_keys",
    "index",
    "join",
    "keys",
    "move",
    "pair",
    "read_grams",
    "read_words",
    "tally",
    "unite",
]

_CALL = 20  # a call of a Python function costs what 20 bytes do
_PATIENCE = 2_000_000  # bytes that pass here: about 0.5 s of Python, half of what loading Numba takes

_SHARES, _SHARED = 4, 1 << 20  # keys are shared out among threads from so many on

_door = Door(reference, "tamis._kernels.text.compiled", _CALL, _PATIENCE)


def fold_words(buffer: Bytes, offsets: Words, alphabet: Alphabet) -> tuple[Bytes, Words]:
    """Each document folded, a zero for each break and between pairs; and where the documents now are."""
    folded: tuple[Bytes, Words] = _door.kernels(len(buffer)).fold_words(buffer, offsets, alphabet)
    return folded


def fold_characters(buffer: Bytes, offsets: Words, alphabet: Alphabet, within: bool) -> tuple[Bytes, Words]:
    """Each document folded, breaks and all, white space as one space; in spaces if `within` words."""
    kernel = _door.kernels(3 * len(buffer)).fold_characters
    folded: tuple[Bytes, Words] = kernel(buffer, offsets, alphabet, within)
    return folded


def read_words(folded: Bytes, offsets: Words, shortest: int, alphabet: Alphabet) -> TokenStream:
    """The words between zeros, without those shorter than `shortest`; UNSPACED ones are all kept."""
    read: TokenStream = _door.kernels(2 * len(folded)).read_words(folded, offsets, shortest, alphabet)
    return read


def read_grams(folded: Bytes, offsets: Words, least: int, most: int, within: bool) -> TokenStream:
    """All runs of `least` to `most` characters; or within words and their spaces, short words once."""
    kernel = _door.kernels(6 * (most - least + 1) * len(folded)).read_grams
    read: TokenStream = kernel(folded, offsets, least, most, within)
    return read


def keys(text: Bytes, starts: Words, lengths: Words) -> Digits:
    """The key of each token in this process."""
    digits: Digits = _door.kernels(5 * len(starts)).keys(text, starts, lengths)
    return digits


def unite(tokens: Stems) -> tuple[Indices, Stems]:
    """Tokens some of which are the same, by number; and each of them once."""
    united: tuple[Indices, Stems] = _door.kernels(5 * len(tokens.keys)).unite(tokens)
    return united


def identify_keys(keys: Digits) -> Numbering:
    """Equal keys get equal numbers; those of one share of all keys come before those of the next."""
    kernel = _door.kernels(3 * len(keys)).identify_keys
    shares = _SHARES if len(keys) >= _SHARED else 1  # by the keys, not the threads: numbers go by it
    numbers = np.empty(len(keys), dtype=np.int32)
    first = run_together([partial(kernel, keys, numbers, share, shares) for share in range(shares)])
    if shares > 1:
        before = np.cumsum([0, *map(len, first[:-1])]).astype(np.int32)
        numbers += before[reference.share_of(keys, shares)]
    return Numbering(numbers, np.concatenate(first))


def index(keys: Digits) -> Digits:
    """A table of keys, to find their numbers by."""
    table: Digits = _door.kernels(3 * len(keys)).index(keys)
    return table


def find(table: Digits, stems: Stems, asked: Stems) -> Indices:
    """The numbers of tokens (`asked`) among those that were build_table; -1 if they have none."""
    numbers: Indices = _door.kernels(3 * (len(stems.keys) + len(asked.keys))).find(table, stems, asked)
    return numbers


def find_keys(table: Digits, keys: Digits) -> Indices:
    """The numbers of keys that were build_table; -1 if they have none."""
    numbers: Indices = _door.kernels(3 * len(keys) + len(table)).find_keys(table, keys)
    return numbers


def join(
    text: Bytes, starts: Words, lengths: Words, parts: Indices, bounds: Words, between: Bytes
) -> tuple[Bytes, Words, Words]:
    """Names made of tokens, the i-th of parts[bounds[i] : bounds[i + 1]]: text, starts, lengths."""
    kernel = _door.kernels(2 * len(parts) + 3 * len(bounds)).join
    names: tuple[Bytes, Words, Words] = kernel(text, starts, lengths, parts, bounds, between)
    return names


def pair(
    left: Indices, left_documents: Words, right: Indices, right_documents: Words, shift: int
) -> tuple[Digits, Words]:
    """Keys of what is i-th on the left and (i + shift)-th on the right, of each document."""
    kernel = _door.kernels(len(right)).pair
    keys: tuple[Digits, Words] = kernel(left, left_documents, right, right_documents, shift)
    return keys


def tally(numbers: Indices, documents: Words, known: int) -> Rows:
    """The counts of the numbers below `known` in each document."""
    rows: Rows = _door.kernels(2 * len(numbers)).tally(numbers, documents, known)
    return rows


def condense(rows: Rows, group: Words, groups: int, known: int) -> Rows:
    """The sum of the rows of each group, of `known` numbers at most."""
    condensed: Rows = _door.kernels(2 * len(rows.indices)).condense(rows, group, groups, known)
    return condensed


def arrange(rows: Rows, columns: Indices, signs: Floats, out: tuple[Indices, Floats] | None = None) -> Rows:
    """Rows by column, in its order: number i to columns[i], times signs[i]; left out if below zero.

    If `out` is given, the rows are written to it; it has room for as many entries as the rows have.
    """
    count = len(rows.indices)
    indices, values = (np.empty(count, dtype=np.int32), np.empty(count)) if out is None else out
    arranged: Rows = _door.kernels(4 * count).arrange(rows, columns, signs, indices, values)
    return arranged


def move(sums: Words, numbers: Words, table: Words) -> None:
    """Add column i of some sums to column numbers[i] of a table that has at least as many rows."""
    kernel = _door.kernels(sums.size // 4).move
    map_row_chunks(len(sums), sums.size, lambda i, j: kernel(sums[i:j], numbers, table[i:j]))


def add(rows: Rows, columns: Indices, group: Words, table: Words) -> None:
    """Add rows to those rows of `table` that `group` names, number i to columns[i]; below zero, nowhere."""
    _door.kernels(len(rows.indices)).add(*rows, columns, group, table)


def hashes(text: Bytes, starts: Words, lengths: Words, seed: int = 0) -> Hashes:
    """MurmurHash3 of each token, 32 bits: what scikit-learn and Vowpal Wabbit hash by."""
    codes: Hashes = _door.kernels(8 * len(starts)).hashes(text, starts, lengths, seed)
    return codes
