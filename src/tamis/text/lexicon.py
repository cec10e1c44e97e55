"""Number the distinct tokens and phrases of a corpus, and map each to a feature column.

Each chunk of a corpus numbers its own tokens, which are words or n-grams of characters. A token has another
number in another chunk, so `Lexicon.merge` compares contents: tokens by bytes, phrases by tokens. An entry of
a lexicon is a phrase; a phrase of one token is that token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import PAD, Bytes, Floats, Indices, Int64s, Tokens, UInt64s

# Sort ranks: _MISSING for no word, _STAR for a skipped word, _FIRST for the first real word.
_MISSING, _STAR, _FIRST = range(3)
_KEY_BITS = 63  # bits available in an int64 sort key
# NumPy sorts texts by 8 bytes per round, for this many rounds; Python then sorts texts that are still equal.
_NUMPY_ROUNDS = 4


class PackedTexts(NamedTuple):
    """Concatenated UTF-8 texts, followed by `PAD` zero bytes."""

    text: Bytes
    starts: Int64s  # of each text in `text`
    lengths: Int64s  # in bytes

    @classmethod
    def pack(cls, texts: Sequence[bytes]) -> "PackedTexts":
        """Concatenate texts in UTF-8."""
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        text = np.frombuffer(b"".join(texts) + bytes(PAD), dtype=np.uint8)
        return cls(text, np.cumsum(lengths) - lengths, lengths)

    def strings(self, rows: NDArray[np.int64] | None = None) -> list[str]:
        """Return the texts at `rows`, or all texts, as Python strings."""
        starts, lengths = (
            (self.starts, self.lengths) if rows is None else (self.starts[rows], self.lengths[rows])
        )
        text = self.text.tobytes()
        return [text[i : i + n].decode() for i, n in zip(starts.tolist(), lengths.tolist(), strict=True)]

    def argsort(self) -> Int64s:
        """Return the order of the texts by code point, which is also the order of their UTF-8 bytes."""
        n = len(self.starts)
        prefixes = self._read_eight_bytes(np.arange(n), 0)
        order = np.argsort(prefixes)
        prefixes = prefixes[order]
        tied = np.arange(n)  # positions in `order` whose texts were equal in the bytes compared so far
        # group[i] is the first position whose text equals that at i in the bytes compared so far.
        group = np.zeros(n, dtype=np.int64)
        for depth in range(8, 8 * (_NUMPY_ROUNDS + 1), 8):
            starts_group = np.append(
                True, (prefixes[1:] != prefixes[:-1]) | (group[tied][1:] != group[tied][:-1])
            )
            group[tied] = tied[np.flatnonzero(starts_group)][np.cumsum(starts_group) - 1]
            tied_with_next = group[1:] == group[:-1]
            tied = np.flatnonzero(np.append(False, tied_with_next) | np.append(tied_with_next, False))
            if not len(tied):
                return order
            prefixes = self._read_eight_bytes(order[tied], depth)
            suborder = np.lexsort((prefixes, group[tied]))
            order[tied], prefixes = order[tied][suborder], prefixes[suborder]
        text = self.text.tobytes()
        texts = {k: text[self.starts[k] : self.starts[k] + self.lengths[k]] for k in order[tied].tolist()}
        group_of = dict(zip(order[tied].tolist(), group[tied].tolist(), strict=True))
        order[tied] = sorted(texts, key=lambda k: (group_of[k], texts[k]))
        return order

    def _read_eight_bytes(self, rows: NDArray[np.int64], depth: int) -> UInt64s:
        """Read bytes `depth` to `depth` + 8 of each text as a big-endian uint64, padded with zeros."""
        n_left = np.clip(self.lengths[rows] - depth, 0, 8)
        offsets = np.minimum(self.starts[rows] + depth, len(self.text) - 8)
        windows = np.lib.stride_tricks.sliding_window_view(self.text, 8)
        prefixes = windows[offsets].view(">u8").ravel().astype(np.uint64)
        # Clear the bytes beyond the end of the text; the remainder keeps each shift below 64 bits.
        unused_bits = (8 * (8 - n_left)).astype(np.uint64) % np.uint64(64)
        return np.where(n_left == 0, np.uint64(0), (prefixes >> unused_bits) << unused_bits)


def get_token_texts(tokens: Tokens) -> PackedTexts:
    """Return the text of each token."""
    return PackedTexts(tokens.text, tokens.starts, tokens.lengths)


class Phrases(NamedTuple):
    """n-grams of consecutive tokens, or pairs of tokens that are `distance` words apart.

    With n = 1 they are single tokens.
    """

    token_numbers: Indices  # (count, n)
    distance: int = 1

    @classmethod
    def from_single_tokens(cls, count: int) -> "Phrases":
        """Return all single tokens, in the order of their numbers."""
        return cls(np.arange(count, dtype=np.int32)[:, None])

    def take(self, rows: NDArray[np.int64]) -> "Phrases":
        """Return the phrases at `rows`."""
        return Phrases(self.token_numbers[rows], self.distance)

    def is_all_single_tokens(self, n_tokens: int) -> bool:
        """Return whether the phrases are exactly all single tokens, in order.

        Single tokens are distinct and in increasing order, so the number of them and the last one suffice.
        """
        if self.token_numbers.shape != (n_tokens, 1):
            return False
        return not n_tokens or int(self.token_numbers[-1, 0]) == n_tokens - 1

    def keys(self) -> UInt64s:
        """Return a key for each phrase.

        Equal phrases have equal keys within this object; keys of other objects are not comparable if n > 2.
        """
        keys = self.token_numbers[:, 0].astype(np.uint64)
        for k in range(1, self.token_numbers.shape[1]):
            # `number_keys` gives each distinct key a number below their count.
            prefix = keys if k == 1 else kernels.number_keys(keys).numbers
            keys = _pair_numbers(prefix, self.token_numbers[:, k])
        return keys


def _pair_numbers(first: NDArray[Any], second: Indices) -> UInt64s:
    """Return 64-bit keys of pairs of numbers: the first number is in the upper half."""
    return (first.astype(np.uint64, copy=False) << np.uint64(32)) | second.astype(np.uint64)


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The phrases of a corpus, in one set for each length and distance.

    The numbers of the entries continue from one set to the next.
    """

    tokens: Tokens
    phrase_sets: tuple[Phrases, ...]

    @classmethod
    def from_tokens(cls, tokens: Tokens) -> "Lexicon":
        """Return a lexicon whose entries are the tokens."""
        return cls(tokens, (Phrases.from_single_tokens(len(tokens.keys)),))

    def __len__(self) -> int:
        return sum(len(phrases.token_numbers) for phrases in self.phrase_sets)

    def __getstate__(self) -> dict[str, object]:
        # Names are not pickled because they can be recomputed, and keys because they are valid only in this
        # process: each process hashes with a random seed.
        return {"tokens": self.tokens[:3], "phrase_sets": self.phrase_sets}

    def __setstate__(self, state: dict[str, Any]) -> None:
        text, starts, lengths = state["tokens"]
        tokens = Tokens(text, starts, lengths, kernels.make_keys(text, starts, lengths))
        self.__dict__.update(tokens=tokens, phrase_sets=state["phrase_sets"])

    @property
    def offsets(self) -> Int64s:
        """The number of the first entry of each phrase set, and the number of all entries (sets + 1,)."""
        return np.cumsum([0, *(len(phrases.token_numbers) for phrases in self.phrase_sets)], dtype=np.int64)

    @property
    def n_tokens(self) -> int:
        """The number of distinct tokens."""
        return len(self.tokens.keys)

    @cached_property
    def names(self) -> PackedTexts:
        """The name of each entry: its words joined by spaces, with a star for each word that a pair skips."""
        names_by_set = [self._join_phrases(phrases) for phrases in self.phrase_sets]
        return names_by_set[0] if len(names_by_set) == 1 else _concatenate(names_by_set)

    def _join_phrases(self, phrases: Phrases) -> PackedTexts:
        if phrases.is_all_single_tokens(self.n_tokens):
            return get_token_texts(self.tokens)
        count, n = phrases.token_numbers.shape
        separator = np.frombuffer(b" " + b"* " * (phrases.distance - 1), dtype=np.uint8)
        token_numbers = np.ascontiguousarray(phrases.token_numbers.ravel())
        bounds = np.arange(count + 1) * n
        return PackedTexts(*kernels.join_tokens(*self.tokens[:3], token_numbers, bounds, separator))

    def take(self, rows: NDArray[np.int64]) -> "Lexicon":
        """Return a lexicon of the entries at `rows`, in increasing order. The tokens do not change."""
        rows_by_set = [rows[(rows >= i) & (rows < j)] - i for i, j in pairwise(self.offsets.tolist())]
        return Lexicon(
            self.tokens,
            tuple(phrases.take(k) for phrases, k in zip(self.phrase_sets, rows_by_set, strict=True)),
        )

    def argsort(self) -> Int64s:
        """Return the order of the entries by name.

        Where phrases have several words, a space and a star sort before all characters of words.
        """
        order = get_token_texts(self.tokens).argsort()
        if len(self.phrase_sets) == 1 and self.phrase_sets[0].is_all_single_tokens(self.n_tokens):
            return order
        token_ranks = np.empty(self.n_tokens, dtype=np.int64)
        token_ranks[order] = np.arange(_FIRST, self.n_tokens + _FIRST)
        width = max(p.token_numbers.shape[1] if p.distance == 1 else p.distance + 1 for p in self.phrase_sets)
        bits = (self.n_tokens + _FIRST).bit_length()
        ranks = (_compute_phrase_ranks(phrases, token_ranks, width) for phrases in self.phrase_sets)
        if width * bits > _KEY_BITS:
            return np.lexsort(np.concatenate(list(ranks)).T[::-1])
        shifts = np.arange(width - 1, -1, -1) * bits
        return np.argsort(np.concatenate([_pack_ranks(rows, shifts) for rows in ranks]))

    @classmethod
    def merge(cls, lexicons: Sequence["Lexicon"]) -> tuple["Lexicon", list[Int64s]]:
        """Return a lexicon of all entries, and for each given lexicon the new numbers of its entries."""
        if len(lexicons) == 1:
            return lexicons[0], [np.arange(len(lexicons[0]))]
        tokens, new_token_numbers = _merge_tokens([lexicon.tokens for lexicon in lexicons])
        phrase_sets, numbers = [], []
        for k, phrases in enumerate(lexicons[0].phrase_sets):
            if all(lexicon.phrase_sets[k].is_all_single_tokens(lexicon.n_tokens) for lexicon in lexicons):
                phrase_sets.append(Phrases.from_single_tokens(len(tokens.keys)))
                numbers.append(np.concatenate(new_token_numbers))
                continue
            rows = np.concatenate(
                [
                    new_numbers[lexicon.phrase_sets[k].token_numbers]
                    for lexicon, new_numbers in zip(lexicons, new_token_numbers, strict=True)
                ]
            )
            numbering = kernels.number_keys(Phrases(rows).keys())  # with the first position of each number
            phrase_sets.append(Phrases(rows[numbering.first_positions], phrases.distance))
            numbers.append(numbering.numbers)
        merged = cls(tokens, tuple(phrase_sets))
        return merged, _regroup(lexicons, merged.offsets, numbers)


def _compute_phrase_ranks(phrases: Phrases, token_ranks: Int64s, width: int) -> Int64s:
    """Return ranks (count, width). Sorting the rows of ranks sorts the names."""
    ranks = np.full((len(phrases.token_numbers), width), _MISSING, dtype=np.int64)
    if phrases.distance == 1:
        ranks[:, : phrases.token_numbers.shape[1]] = token_ranks[phrases.token_numbers]
    else:
        ranks[:, 1 : phrases.distance] = _STAR
        ranks[:, [0, phrases.distance]] = token_ranks[phrases.token_numbers]
    return ranks


def _pack_ranks(ranks: Int64s, shifts: Int64s) -> Int64s:
    """Return one sort key per row of ranks."""
    packed: Int64s = ranks[:, 0] << shifts[0]
    for k in range(1, len(shifts)):
        packed |= ranks[:, k] << shifts[k]
    return packed


def _concatenate(packed: Sequence[PackedTexts]) -> PackedTexts:
    """Concatenate packed texts, with padding only at the end."""
    texts = [part.text[: len(part.text) - PAD] for part in packed]
    shifts = np.cumsum([0, *map(len, texts)])[:-1]
    return PackedTexts(
        np.concatenate([*texts, np.zeros(PAD, dtype=np.uint8)]),
        np.concatenate([part.starts + shift for part, shift in zip(packed, shifts, strict=True)]),
        np.concatenate([part.lengths for part in packed]),
    )


def _merge_tokens(token_sets: Sequence[Tokens]) -> tuple[Tokens, list[Indices]]:
    """Return the distinct tokens of all sets, and for each set the new numbers of its tokens."""
    all_texts = _concatenate([get_token_texts(tokens) for tokens in token_sets])
    keys = np.concatenate([tokens.keys for tokens in token_sets])
    numbers, distinct = kernels.number_tokens(Tokens(*all_texts, keys))
    return distinct, np.split(numbers, np.cumsum([len(tokens.keys) for tokens in token_sets])[:-1])


def _regroup(lexicons: Sequence[Lexicon], offsets: Int64s, numbers: list[Indices]) -> list[Int64s]:
    """Regroup the numbers from one array per phrase set to one per lexicon, and add each set's offset."""
    parts = []
    for k, set_numbers in enumerate(numbers):
        lengths = [len(lexicon.phrase_sets[k].token_numbers) for lexicon in lexicons]
        parts.append(np.split(set_numbers.astype(np.int64) + offsets[k], np.cumsum(lengths)[:-1]))
    return [np.concatenate(own_parts) for own_parts in zip(*parts, strict=True)]


class ColumnSigns(NamedTuple):
    """The column of each entry of a lexicon, and whether its counts are added there (1) or subtracted (-1).

    Entries that share a hashed column are added and subtracted at random, so that they cancel on average.
    """

    columns: Indices  # -1: the entry has no column
    signs: Floats


class Finder:
    """Looks up entries of other lexicons in one lexicon. Its hash tables are built once."""

    def __init__(self, lexicon: Lexicon, columns: Int64s) -> None:
        self.lexicon = lexicon
        self.token_table = kernels.index_keys(lexicon.tokens.keys)
        self.phrase_finders = [
            _PhraseFinder(phrases, columns[i:j])
            for phrases, (i, j) in zip(lexicon.phrase_sets, pairwise(lexicon.offsets), strict=True)
        ]

    def find(self, other: Lexicon) -> Int64s:
        """Return the column of each entry of a lexicon with the same phrase sets; -1 if it has none."""
        token_numbers = kernels.find_tokens(self.token_table, self.lexicon.tokens, other.tokens)
        return np.concatenate(
            [
                finder.find(token_numbers[phrases.token_numbers])
                for finder, phrases in zip(self.phrase_finders, other.phrase_sets, strict=True)
            ]
        )


class _PhraseFinder:
    """Finds the columns of phrases by one hash table for each word after the first.

    A prefix is the first words of a phrase; distinct prefixes of equal length are numbered. Table k maps the
    number of a prefix of k words and the number of the next word to the number of the longer prefix.
    """

    def __init__(self, phrases: Phrases, columns: Int64s) -> None:
        self.tables = []
        prefix = phrases.token_numbers[:, 0]
        for k in range(1, phrases.token_numbers.shape[1]):
            keys = _pair_numbers(prefix, phrases.token_numbers[:, k])
            numbering = kernels.number_keys(keys)
            self.tables.append(kernels.index_keys(keys[numbering.first_positions]))
            prefix = numbering.numbers
        n_phrases = int(prefix.max(initial=0)) + 1
        self.columns = np.full(n_phrases + 1, -1, dtype=np.int64)  # the last element serves unknown phrases
        self.columns[prefix] = columns

    def find(self, token_numbers: Indices) -> Int64s:
        """Return the column of each phrase from the numbers of its tokens (count, n); -1 for unknown ones."""
        prefix = token_numbers[:, 0]
        for k, table in enumerate(self.tables, start=1):
            known = (prefix >= 0) & (token_numbers[:, k] >= 0)
            keys = _pair_numbers(prefix[known], token_numbers[known, k])
            prefix = np.full(len(token_numbers), -1, dtype=np.int32)
            prefix[known] = kernels.find_keys(table, keys)
        return self.columns[np.where(prefix < len(self.columns) - 1, prefix, -1)]
