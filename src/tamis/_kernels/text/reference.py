"""The kernels of text in Python, which define the results of the compiled ones. They map arrays to arrays.

A corpus is a buffer of UTF-8 and `offsets` (n + 1,): document i lies between offsets[i] and offsets[i + 1].
Each byte that is not UTF-8 is a break. An `Alphabet` has the folded form of each character and its class,
such as BREAK or WORD (`kinds`).

`compiled` has the same functions; `tests/kernels/test_text.py` checks that both return the same bits.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from tamis._kernels.text.kinds import (
    LONG,
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
from tamis._kernels.text.reader import Reader

_MASK = (1 << 64) - 1  # the lowest 64 bits
_SEED = int(SEED)

# ── bytes → folded bytes ──


def fold_words(buffer: Bytes, offsets: Int64s, alphabet: Alphabet) -> tuple[Bytes, Int64s]:
    """Fold documents, with a zero byte for each break and between pairs of UNSPACED characters.

    UNSPACED characters are of scripts without spaces: their tokens are all pairs of adjacent ones. Return
    the bytes and their offsets.
    """
    reader = Reader(alphabet)
    return _join_documents([reader.fold_words(document) for document in _split_documents(buffer, offsets)])


def fold_characters(
    buffer: Bytes, offsets: Int64s, alphabet: Alphabet, within_words: bool
) -> tuple[Bytes, Int64s]:
    """Fold documents and keep breaks, such as punctuation; a run of white space becomes one space.

    Return the bytes and their offsets. If `within_words`, each document begins and ends with a space, so that
    `read_grams` finds the words. A byte that is not UTF-8 becomes U+FFFD.
    """
    reader = Reader(alphabet)
    return _join_documents(
        [reader.fold_characters(document, within_words) for document in _split_documents(buffer, offsets)]
    )


def _split_documents(buffer: Bytes, offsets: Int64s) -> list[bytes]:
    text = buffer.tobytes()
    return [text[i:j] for i, j in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def _join_documents(documents: list[bytes]) -> tuple[Bytes, Int64s]:
    offsets = np.zeros(len(documents) + 1, dtype=np.int64)
    np.cumsum([len(document) for document in documents], out=offsets[1:])
    return np.frombuffer(b"".join(documents) + bytes(PAD), dtype=np.uint8), offsets


# ── folded bytes → tokens by number ──


def read_words(folded: Bytes, offsets: Int64s, shortest: int, alphabet: Alphabet) -> TokenStream:
    """Return the words between zero bytes, without those of fewer than `shortest` characters.

    Words of UNSPACED characters may have any length.
    """
    reader = Reader(alphabet)
    return _make_stream(
        [token for token in document.split(b"\0") if token and not reader.is_short(token, shortest)]
        for document in _split_documents(folded, offsets)
    )


def read_grams(folded: Bytes, offsets: Int64s, least: int, most: int, within_words: bool) -> TokenStream:
    """Return all n-grams of `least` to `most` characters.

    If `within_words`, they are n-grams of each word with the spaces around it. A word that has no n-gram of
    `least` characters is itself one n-gram, with its spaces.
    """
    return _make_stream(
        _list_grams(d.decode(), least, most, within_words) for d in _split_documents(folded, offsets)
    )


def _list_grams(text: str, least: int, most: int, within_words: bool) -> list[bytes]:
    """Return the n-grams of one folded document: see `read_grams`."""
    spaces = [i for i, c in enumerate(text) if c == " "]
    parts = [text[i : j + 1] for i, j in pairwise(spaces)] if within_words else [text]
    grams = []
    for part in parts:
        for n in range(least, most + 1):
            if len(part) < n and not within_words:
                break
            last = max(len(part) - n, 0)
            grams += [part[k : k + n].encode() for k in range(last + 1)]
            if len(part) <= n and within_words:
                break
    return [gram for gram in grams if gram]


def _make_stream(documents: Iterable[list[bytes]]) -> TokenStream:
    token_lists = list(documents)
    numbers, distinct = _number_distinct([token for tokens in token_lists for token in tokens])
    bounds = np.cumsum([0, *map(len, token_lists)]).astype(np.int64)
    return TokenStream(numbers, bounds, distinct)


def number_tokens(tokens: Tokens) -> tuple[Indices, Tokens]:
    """Number tokens by first occurrence. Return the number of each token, and the distinct tokens."""
    return _number_distinct(_split_tokens(tokens))


def _number_distinct(tokens: list[bytes]) -> tuple[Indices, Tokens]:
    known: dict[bytes, int] = {}
    numbers = np.array([known.setdefault(token, len(known)) for token in tokens], dtype=np.int32)
    lengths = np.array([len(token) for token in known], dtype=np.int64)
    text = np.frombuffer(b"".join(known) + bytes(PAD), dtype=np.uint8)
    keys = np.array([_make_key(token) for token in known], dtype=np.uint64)
    return numbers, Tokens(text, np.cumsum(lengths) - lengths, lengths, keys)


def make_keys(text: Bytes, starts: Int64s, lengths: Int64s) -> UInt64s:
    """Return the key of each token, valid in this process only: unique below 8 bytes, else a hash."""
    tokens = _split_tokens(Tokens(text, starts, lengths, np.zeros(0, dtype=np.uint64)))
    return np.array([_make_key(token) for token in tokens], dtype=np.uint64)


def _split_tokens(tokens: Tokens) -> list[bytes]:
    whole = tokens.text.tobytes()
    spans = zip(tokens.starts.tolist(), tokens.lengths.tolist(), strict=True)
    return [whole[i : i + length] for i, length in spans]


def _make_key(token: bytes) -> int:
    """Return the key of a token, as `Tokens` describes it."""
    length = len(token)
    if length < 8:
        return int.from_bytes(token, "little") | length << 56
    key = length * _SEED & _MASK
    for k in range(length >> 3):
        key = (key ^ int.from_bytes(token[8 * k : 8 * k + 8], "little")) * _SEED & _MASK
        key ^= key >> 29
    key = (key ^ int.from_bytes(token[-8:], "little")) * _SEED & _MASK
    return key >> 8 | LONG << 56


# ── keys → numbers ──


def number_keys(keys: UInt64s, numbers: Indices, share: int, shares: int) -> Int64s:
    """Number the distinct keys of one share, from 0 on, and write their numbers to `numbers`.

    `shares` is the number of shares, which `share_of` assigns to keys; `numbers` has an element for each key
    of all shares. Return the first position of each number among all keys.
    """
    positions = np.flatnonzero(share_of(keys, shares) == share)
    known: dict[int, int] = {}
    numbers[positions] = [known.setdefault(key, len(known)) for key in keys[positions].tolist()]
    return positions[np.unique(numbers[positions], return_index=True)[1]]


def share_of(keys: UInt64s, shares: int) -> Int64s:
    """Return the share that each key belongs to."""
    return (keys * np.uint64(SHARE_MULTIPLIER) >> np.uint64(40)).astype(np.int64) % shares


def log2_slots(count: int) -> int:
    """Return log2 of the number of slots of a hash table for `count` keys, which fill at most half of it."""
    return max(4, (2 * count).bit_length())


def index_keys(keys: UInt64s) -> UInt64s:
    """Build a hash table of distinct keys, with linear probing (2 * slots,).

    Each slot has two numbers: a key and its index plus one, or two zeros.
    """
    log_slots = log2_slots(len(keys))
    table = np.zeros(2 << log_slots, dtype=np.uint64)
    for number, key in enumerate(keys.tolist()):
        slot = _find_slot(key, log_slots)
        while table[2 * slot + 1]:
            slot = (slot + 1) % (1 << log_slots)
        table[2 * slot], table[2 * slot + 1] = key, number + 1
    return table


def _find_slot(key: int, log_slots: int) -> int:
    return (key * _SEED & _MASK) >> (64 - log_slots)


def find_tokens(table: UInt64s, tokens: Tokens, other: Tokens) -> Indices:
    """Return the index of each of the `other` tokens among `tokens`, -1 if it is not one of them.

    `table` is `index_keys(tokens.keys)`; the reference does not need it.
    """
    number = {token: k for k, token in enumerate(_split_tokens(tokens))}
    return np.array([number.get(token, -1) for token in _split_tokens(other)], dtype=np.int32)


def find_keys(table: UInt64s, keys: UInt64s) -> Indices:
    """Return the index of each key in a table that `index_keys` made; -1 if it is not there."""
    pairs = table.reshape(-1, 2)
    used = pairs[pairs[:, 1] > 0]
    number = dict(zip(used[:, 0].tolist(), (used[:, 1] - np.uint64(1)).tolist(), strict=True))
    return np.array([number.get(key, -1) for key in keys.tolist()], dtype=np.int32)


def join_tokens(
    text: Bytes, starts: Int64s, lengths: Int64s, numbers: Indices, bounds: Int64s, separator: Bytes
) -> tuple[Bytes, Int64s, Int64s]:
    """Join the tokens numbers[bounds[i] : bounds[i + 1]], with the separator between them, to the i-th name.

    A name is the text of a lexicon's entry, such as a phrase; `numbers` are indices of the tokens. Return the
    texts, starts and lengths of the names.
    """
    whole, middle = text.tobytes(), separator.tobytes()
    spans = list(zip(starts.tolist(), lengths.tolist(), strict=True))
    names = [
        middle.join(whole[spans[k][0] : spans[k][0] + spans[k][1]] for k in numbers[i:j].tolist())
        for i, j in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    name_starts, name_lengths = place_names(lengths, numbers, bounds, len(separator))
    return np.frombuffer(b"".join(names) + bytes(PAD), dtype=np.uint8), name_starts, name_lengths


def place_names(
    lengths: Int64s, numbers: Indices, bounds: Int64s, separator_length: int
) -> tuple[Int64s, Int64s]:
    """Return the starts and lengths of the names that `join_tokens` makes, where names follow each other."""
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths[numbers])])
    separator_bytes = separator_length * np.maximum(np.diff(bounds) - 1, 0)
    name_lengths = ends[bounds[1:]] - ends[bounds[:-1]] + separator_bytes
    return np.cumsum(name_lengths) - name_lengths, name_lengths


def make_pair_keys(
    left: Indices, left_documents: Int64s, right: Indices, right_documents: Int64s, shift: int
) -> tuple[UInt64s, Int64s]:
    """Make a key of the i-th number in `left` and the (i + shift)-th in `right`, for each i, per document.

    The key is left << 32 | right. Return the keys, and where the keys of each document start (n + 1,).
    """
    keys: list[int] = []
    documents = np.zeros(len(right_documents), dtype=np.int64)
    for d in range(len(right_documents) - 1):
        seconds = right[right_documents[d] + shift : right_documents[d + 1]].tolist()
        firsts = left[left_documents[d] : left_documents[d] + len(seconds)].tolist()
        keys += [i << 32 | j for i, j in zip(firsts, seconds, strict=True)]
        documents[d + 1] = len(keys)
    return np.array(keys, dtype=np.uint64), documents


def count_numbers(numbers: Indices, documents: Int64s, n_numbers: int) -> Rows:
    """Count how often each number below `n_numbers` occurs in each document."""
    indptr = np.zeros(len(documents), dtype=np.int64)
    indices: list[int] = []
    counts: list[float] = []
    for d in range(len(documents) - 1):
        row: dict[int, float] = {}
        for number in numbers[documents[d] : documents[d + 1]].tolist():
            row[number] = row.get(number, 0.0) + 1.0
        indices += row.keys()
        counts += row.values()
        indptr[d + 1] = len(indices)
    return Rows(indptr, np.array(indices, dtype=np.int32), np.array(counts, dtype=np.float64))


def sum_groups(rows: Rows, group: Int64s, groups: int, n_numbers: int) -> Rows:
    """Sum the sparse rows of each group; group[d] is the group of row d, and columns are below `n_numbers`.

    Within a sum, columns are in the order of their first occurrence.
    """
    sums: list[dict[int, float]] = [{} for _ in range(groups)]
    for d in range(len(rows.indptr) - 1):
        total = sums[group[d]]
        entries = slice(rows.indptr[d], rows.indptr[d + 1])
        for number, count in zip(rows.indices[entries].tolist(), rows.counts[entries].tolist(), strict=True):
            total[number] = total.get(number, 0.0) + count
    ends = np.cumsum([0, *map(len, sums)]).astype(np.int64)
    numbers = np.array([number for total in sums for number in total], dtype=np.int32)
    return Rows(ends, numbers, np.array([count for total in sums for count in total.values()]))


def arrange(rows: Rows, columns: Indices, signs: Floats, new_columns: Indices, values: Floats) -> Rows:
    """Move column i of sparse rows to columns[i], times signs[i], or drop it if that is negative.

    Each row is sorted by column; values that come to one column are added in their order. The result is
    written to `new_columns` and `values`.
    """
    row = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    places, numbers = columns[rows.indices], rows.counts * signs[rows.indices]
    order = np.lexsort((np.arange(len(row)), places, row))
    order = order[places[order] >= 0]
    row, places = row[order], places[order]
    is_new = np.append(True, (np.diff(row) != 0) | (np.diff(places) != 0))[: len(row)]
    count = int(is_new.sum())
    new_columns[:count], values[:count] = places[is_new], 0.0
    np.add.at(values, np.cumsum(is_new) - 1, numbers[order])
    lengths = np.bincount(row[is_new], minlength=len(rows.indptr) - 1)
    return Rows(np.append(0, np.cumsum(lengths)).astype(np.int64), new_columns[:count], values[:count])


def add_columns(sums: Int64s, numbers: Int64s, table: Int64s) -> None:
    """Add column i of `sums` (rows, n) to column numbers[i] of `table`, which has as many rows."""
    rows = np.arange(len(sums))[:, None]
    np.add.at(table, (rows, numbers[None]), sums)


def add_rows(
    indptr: Int64s, indices: Indices, counts: Floats, columns: Indices, group: Int64s, table: Int64s
) -> None:
    """Add sparse row d to row group[d] of `table`, its column i to columns[i] unless that is negative."""
    rows, new_columns = np.repeat(group, np.diff(indptr)), columns[indices]
    kept = new_columns >= 0
    np.add.at(table, (rows[kept], new_columns[kept]), counts[kept].astype(np.int64))


# ── tokens → hashes ──


def hash_tokens(text: Bytes, starts: Int64s, lengths: Int64s, seed: int) -> Hashes:
    """Return the 32-bit MurmurHash3 of each token, the hash that scikit-learn uses, too."""
    whole = text.tobytes()
    spans = zip(starts.tolist(), lengths.tolist(), strict=True)
    return np.array([murmur(whole[i : i + length], seed) for i, length in spans], dtype=np.uint32)


def murmur(token: bytes, seed: int) -> int:
    """Return the MurmurHash3 (Appleby, public domain) of one token."""
    state = seed
    for k in range(0, len(token) - 3, 4):
        state ^= _scramble(int.from_bytes(token[k : k + 4], "little"))
        state = (_rotate(state, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    if rest := len(token) & 3:
        state ^= _scramble(int.from_bytes(token[-rest:], "little"))
    state ^= len(token)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return state ^ state >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF


def _scramble(word: int) -> int:
    return _rotate(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
