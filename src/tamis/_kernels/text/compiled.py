"""The kernels of `reference.py`, compiled: they allocate arrays, which functions of `core/text` write to.

The results are the same to the bit; each docstring there describes the arguments. Text is read in words of
eight bytes: a token of up to seven bytes is one number, and is known by it; a longer one is known by a hash
and its bytes.
"""

import numpy as np

from tamis._core import text as core
from tamis._core.text import add_columns as add_columns
from tamis._core.text import add_rows as add_rows
from tamis._kernels.text.kinds import (
    GROWTH,
    PAD,
    SEED,
    SHARE_MULTIPLIER,
    Alphabet,
    Bytes,
    Floats,
    Hashes,
    Indices,
    Int64s,
    Rows,
    Tokens,
    TokenStream,
    UInt64s,
)
from tamis._kernels.text.reference import log2_slots, place_names

_SEED = int(SEED)
# Bytes of text per token that `core.TokenTable`, a hash table of tokens, assumes in choosing its first size.
_TOKEN_SIZE = 64

# ── bytes → folded bytes ──


def fold_words(buffer: Bytes, offsets: Int64s, alphabet: Alphabet) -> tuple[Bytes, Int64s]:
    folded, folded_offsets = _allocate_text(buffer, offsets)
    end = core.fold_words(buffer, offsets, *alphabet, folded, folded_offsets)
    return folded[: end + PAD], folded_offsets


def fold_characters(
    buffer: Bytes, offsets: Int64s, alphabet: Alphabet, within_words: bool
) -> tuple[Bytes, Int64s]:
    folded, folded_offsets = _allocate_text(buffer, offsets)
    without_ascii = alphabet[1:]  # the table of ASCII is for words only
    end = core.fold_characters(buffer, offsets, *without_ascii, within_words, folded, folded_offsets)
    return folded[: end + PAD], folded_offsets


def _allocate_text(buffer: Bytes, offsets: Int64s) -> tuple[Bytes, Int64s]:
    # This size is enough for any text (tests/text/test_alphabet.py); pages that are not written to take no
    # memory.
    size = GROWTH * len(buffer) + 2 * len(offsets) + PAD
    return np.empty(size, dtype=np.uint8), np.empty(len(offsets), dtype=np.int64)


# ── folded bytes → tokens by number ──


def read_words(folded: Bytes, offsets: Int64s, shortest: int, alphabet: Alphabet) -> TokenStream:
    numbers = np.empty((len(folded) + len(offsets)) // 2 + 1, dtype=np.int32)
    documents = np.empty(len(offsets), dtype=np.int64)  # where the tokens of each document start in `numbers`
    table = core.TokenTable(len(folded), _SEED)
    shortest = min(shortest, len(folded))
    total = table.read_words(folded, offsets, shortest, alphabet.blocks, alphabet.cells, numbers, documents)
    return TokenStream(numbers[:total], documents, _copy_tokens(table))


def read_grams(folded: Bytes, offsets: Int64s, least: int, most: int, within_words: bool) -> TokenStream:
    longest = int(np.diff(offsets).max(initial=0))  # no n-gram is longer than its document
    most = min(most, max(least, longest))
    size = (len(folded) - PAD) * (2 if within_words else 1)
    numbers = np.empty((most - least + 1) * size, dtype=np.int32)
    documents = np.empty(len(offsets), dtype=np.int64)  # where the tokens of each document start in `numbers`
    table = core.TokenTable(len(folded), _SEED)
    total = table.read_grams(folded, offsets, least, most, within_words, numbers, documents)
    return TokenStream(numbers[:total], documents, _copy_tokens(table))


def number_tokens(tokens: Tokens) -> tuple[Indices, Tokens]:
    numbers = np.empty(len(tokens.keys), dtype=np.int32)
    table = core.TokenTable(_TOKEN_SIZE * len(numbers), _SEED)
    table.number_tokens(*tokens, numbers)
    return numbers, _copy_tokens(table)


def _copy_tokens(table: core.TokenTable) -> Tokens:
    text = np.zeros(table.text_size + PAD, dtype=np.uint8)
    starts, lengths = np.empty(table.count, dtype=np.int64), np.empty(table.count, dtype=np.int64)
    keys = np.empty(table.count, dtype=np.uint64)
    table.write(text, starts, lengths, keys)
    return Tokens(text, starts, lengths, keys)


def make_keys(text: Bytes, starts: Int64s, lengths: Int64s) -> UInt64s:
    keys = np.empty(len(starts), dtype=np.uint64)
    core.make_keys(text, starts, lengths, _SEED, keys)
    return keys


# ── keys → numbers ──


def number_keys(keys: UInt64s, numbers: Indices, share: int, shares: int) -> Int64s:
    # Only keys of this one of `shares` shares are numbered; their products with SHARE_MULTIPLIER choose them.
    first_positions = np.empty(len(keys), dtype=np.int64)
    count = core.number_keys(keys, share, shares, SHARE_MULTIPLIER, _SEED, numbers, first_positions)
    return first_positions[:count].copy()


def index_keys(keys: UInt64s) -> UInt64s:
    table = np.zeros(2 << log2_slots(len(keys)), dtype=np.uint64)
    core.index_keys(keys, _SEED, table)
    return table


def find_tokens(table: UInt64s, tokens: Tokens, other: Tokens) -> Indices:
    numbers = np.empty(len(other.keys), dtype=np.int32)
    core.find_tokens(table, _SEED, tokens.text, tokens.starts, tokens.lengths, *other, numbers)
    return numbers


def find_keys(table: UInt64s, keys: UInt64s) -> Indices:
    numbers = np.empty(len(keys), dtype=np.int32)
    core.find_keys(table, _SEED, keys, numbers)
    return numbers


def join_tokens(
    text: Bytes, starts: Int64s, lengths: Int64s, numbers: Indices, bounds: Int64s, separator: Bytes
) -> tuple[Bytes, Int64s, Int64s]:
    name_starts, name_lengths = place_names(lengths, numbers, bounds, len(separator))
    names = np.zeros(int(name_lengths.sum()) + PAD, dtype=np.uint8)
    core.join_tokens(text, starts, lengths, numbers, bounds, separator, name_starts, names)
    return names, name_starts, name_lengths


def make_pair_keys(
    left: Indices, left_documents: Int64s, right: Indices, right_documents: Int64s, shift: int
) -> tuple[UInt64s, Int64s]:
    # A key has the i-th number of a document in `left`, and its (i + shift)-th in `right`.
    keys, documents = np.empty(len(right), dtype=np.uint64), np.empty(len(right_documents), dtype=np.int64)
    total = core.make_pair_keys(left, left_documents, right, right_documents, shift, keys, documents)
    return keys[:total], documents


# ── numbers → counts ──


def count_numbers(numbers: Indices, documents: Int64s, n_numbers: int) -> Rows:
    indptr = np.empty(len(documents), dtype=np.int64)
    indices, counts = np.empty(len(numbers), dtype=np.int32), np.empty(len(numbers))
    total = core.count_numbers(numbers, documents, n_numbers, indptr, indices, counts)
    return Rows(indptr, indices[:total], counts[:total])


def sum_groups(rows: Rows, group: Int64s, groups: int, n_numbers: int) -> Rows:
    ends = np.empty(groups + 1, dtype=np.int64)
    numbers, values = np.empty(len(rows.indices), dtype=np.int32), np.empty(len(rows.indices))
    total = core.sum_groups(*rows, group, n_numbers, ends, numbers, values)
    return Rows(ends, numbers[:total].copy(), values[:total].copy())


def arrange(rows: Rows, columns: Indices, signs: Floats, new_columns: Indices, values: Floats) -> Rows:
    # Column i is moved to columns[i], or dropped if that is negative, and multiplied by signs[i].
    ends = np.empty(len(rows.indptr), dtype=np.int64)
    size = core.arrange(*rows, columns, signs, ends, new_columns, values)
    return Rows(ends, new_columns[:size], values[:size])


# ── tokens → hashes ──


def hash_tokens(text: Bytes, starts: Int64s, lengths: Int64s, seed: int) -> Hashes:
    hashes = np.empty(len(starts), dtype=np.uint32)
    core.hash_tokens(text, starts, lengths, seed, hashes)
    return hashes
