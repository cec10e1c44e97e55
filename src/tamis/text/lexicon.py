"""Tokens by number, and what is made of them: names in, columns out.

A chunk of a corpus numbers what it finds for itself. Its numbers mean nothing elsewhere, so lexicons are
merged by what their entries are: stems (words, or runs of characters) by their bytes, phrases by their stems.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import PAD, Bytes, Digits, Floats, Indices, Stems, Words

_MISSING, _STAR, _FIRST = range(3)  # ranks, as names are sorted: no word, one left out, the first of them
_DIGIT = 63  # bits of a number that is sorted by
_ROUNDS = 4  # eight bytes at a time, before what is still tied is sorted by Python


class Names(NamedTuple):
    """Texts back to back, and zeros after them."""

    text: Bytes
    starts: Words
    lengths: Words

    def strings(self, rows: NDArray[np.int64] | None = None) -> list[str]:
        """As Python strings: those of some rows, or all."""
        starts, lengths = (
            (self.starts, self.lengths) if rows is None else (self.starts[rows], self.lengths[rows])
        )
        text = self.text.tobytes()
        return [text[i : i + n].decode() for i, n in zip(starts.tolist(), lengths.tolist(), strict=True)]

    def order(self) -> Words:
        """The order of the names by code point, which is how UTF-8 sorts."""
        n = len(self.starts)
        eight = self._read_eight_bytes(np.arange(n), 0)
        order = np.argsort(eight)
        eight = eight[order]
        places = np.arange(n)
        group = np.zeros(n, dtype=np.int64)  # of each place, the first of those that are like it so far
        for depth in range(8, 8 * (_ROUNDS + 1), 8):
            new = np.append(True, (eight[1:] != eight[:-1]) | (group[places][1:] != group[places][:-1]))
            group[places] = places[np.flatnonzero(new)][np.cumsum(new) - 1]
            same = group[1:] == group[:-1]
            places = np.flatnonzero(np.append(False, same) | np.append(same, False))
            if not len(places):
                return order
            eight = self._read_eight_bytes(order[places], depth)
            again = np.lexsort((eight, group[places]))
            order[places], eight = order[places][again], eight[again]
        text = self.text.tobytes()
        spans = {k: text[self.starts[k] : self.starts[k] + self.lengths[k]] for k in order[places].tolist()}
        first = dict(zip(order[places].tolist(), group[places].tolist(), strict=True))
        order[places] = sorted(spans, key=lambda k: (first[k], spans[k]))
        return order

    def _read_eight_bytes(self, rows: NDArray[np.int64], depth: int) -> Digits:
        """Eight bytes of each from some depth on, the first highest; zeros after its end."""
        left = np.clip(self.lengths[rows] - depth, 0, 8)
        at = np.minimum(self.starts[rows] + depth, len(self.text) - 8)
        eight = (
            np.lib.stride_tricks.sliding_window_view(self.text, 8)[at].view(">u8").ravel().astype(np.uint64)
        )
        beyond = (8 * (8 - left)).astype(np.uint64)
        return np.where(left == 0, np.uint64(0), eight >> beyond % np.uint64(64) << beyond % np.uint64(64))


def stem_names(stems: Stems) -> Names:
    """The text of each stem."""
    return Names(stems.text, stems.starts, stems.lengths)


class Phrases(NamedTuple):
    """Runs of n stems, or pairs at a distance; a run of one is a stem by itself."""

    parts: Indices  # (count, n): stems
    distance: int = 1

    def take(self, rows: NDArray[np.int64]) -> "Phrases":
        """Some of them."""
        return Phrases(self.parts[rows], self.distance)

    def is_every(self, stems: int) -> bool:
        """Whether they are the stems themselves, each by itself."""
        return self.parts.shape == (stems, 1) and (not stems or int(self.parts[-1, 0]) == stems - 1)

    def keys(self) -> Digits:
        """Equal phrases have equal keys."""
        keys = self.parts[:, 0].astype(np.uint64)
        for k in range(1, self.parts.shape[1]):
            left = keys if k == 1 else kernels.identify_keys(keys).numbers.astype(np.uint64)
            keys = left << np.uint64(32) | self.parts[:, k].astype(np.uint64)
        return keys


@dataclass(frozen=True, eq=False)
class Lexicon:
    """All entries of a corpus: phrases of one kind after those of another, numbered throughout."""

    stems: Stems
    kinds: tuple[Phrases, ...]

    def __len__(self) -> int:
        return sum(len(kind.parts) for kind in self.kinds)

    def __getstate__(self) -> dict[str, object]:
        # Names can be made again, and keys must be: they are of this process.
        return {"stems": self.stems[:3], "kinds": self.kinds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        text, starts, lengths = state["stems"]
        stems = Stems(text, starts, lengths, kernels.keys(text, starts, lengths))
        self.__dict__.update(stems=stems, kinds=state["kinds"])

    @cached_property
    def names(self) -> Names:
        """The text of each entry, its words joined by spaces, a star for a word that is left out."""
        each = [self._join(kind) for kind in self.kinds]
        if len(each) == 1:
            return each[0]
        return _concatenate(each)

    def _join(self, kind: Phrases) -> Names:
        if kind.is_every(len(self.stems.keys)):
            return stem_names(self.stems)
        count, n = kind.parts.shape
        between = np.frombuffer(b" " + b"* " * (kind.distance - 1), dtype=np.uint8)
        parts = np.ascontiguousarray(kind.parts.ravel())
        return Names(*kernels.join(*self.stems[:3], parts, np.arange(count + 1) * n, between))

    def take(self, rows: NDArray[np.int64]) -> "Lexicon":
        """Some of the entries, in their order; stems stay what they are."""
        ends = np.cumsum([0, *(len(kind.parts) for kind in self.kinds)])
        chosen = [rows[(rows >= i) & (rows < j)] - i for i, j in pairwise(ends.tolist())]
        return Lexicon(self.stems, tuple(kind.take(k) for kind, k in zip(self.kinds, chosen, strict=True)))

    def order(self) -> Words:
        """The order of the entries by name. A space and a star sort before all characters of words."""
        order = stem_names(self.stems).order()
        if len(self.kinds) == 1 and self.kinds[0].is_every(len(self.stems.keys)):
            return order
        rank = np.empty(len(self.stems.keys), dtype=np.int64)
        rank[order] = np.arange(_FIRST, len(self.stems.keys) + _FIRST)
        width = max(k.parts.shape[1] if k.distance == 1 else k.distance + 1 for k in self.kinds)
        bits = (len(self.stems.keys) + _FIRST).bit_length()
        if width * bits > _DIGIT:
            return np.lexsort(np.concatenate([self._ranks(kind, rank, width) for kind in self.kinds]).T[::-1])
        shifts = np.arange(width - 1, -1, -1) * bits
        return np.argsort(np.concatenate([_pack(self._ranks(k, rank, width), shifts) for k in self.kinds]))

    def _ranks(self, kind: Phrases, rank: Words, width: int) -> Words:
        """Phrases as ranks (count, width): as these are sorted, so are the names."""
        ranks = np.full((len(kind.parts), width), _MISSING, dtype=np.int64)
        if kind.distance == 1:
            ranks[:, : kind.parts.shape[1]] = rank[kind.parts]
        else:
            ranks[:, 1 : kind.distance] = _STAR
            ranks[:, [0, kind.distance]] = rank[kind.parts]
        return ranks

    @classmethod
    def merge(cls, parts: Sequence["Lexicon"]) -> tuple["Lexicon", list[Words]]:
        """A lexicon of all entries, and the new numbers of the entries of each part."""
        if len(parts) == 1:
            return parts[0], [np.arange(len(parts[0]))]
        stems, moved = _merge_stems([part.stems for part in parts])
        kinds, numbers = [], []
        for k, kind in enumerate(parts[0].kinds):
            if all(part.kinds[k].is_every(len(part.stems.keys)) for part in parts):
                kinds.append(Phrases(np.arange(len(stems.keys), dtype=np.int32)[:, None]))
                numbers.append(np.concatenate(moved))
                continue
            rows = np.concatenate(
                [where[part.kinds[k].parts] for part, where in zip(parts, moved, strict=True)]
            )
            numbering = kernels.identify_keys(Phrases(rows).keys())
            kinds.append(Phrases(rows[numbering.first], kind.distance))
            numbers.append(numbering.numbers)
        return cls(stems, tuple(kinds)), _renumber(parts, kinds, numbers)


def _pack(ranks: Words, shifts: Words) -> Words:
    """Several small numbers in one."""
    packed: Words = ranks[:, 0] << shifts[0]
    for k in range(1, len(shifts)):
        packed |= ranks[:, k] << shifts[k]
    return packed


def _concatenate(each: Sequence[Names]) -> Names:
    """Names one after the other, with one end of zeros."""
    texts = [names.text[: len(names.text) - PAD] for names in each]
    shifts = np.cumsum([0, *map(len, texts)])[:-1]
    return Names(
        np.concatenate([*texts, np.zeros(PAD, dtype=np.uint8)]),
        np.concatenate([names.starts + shift for names, shift in zip(each, shifts, strict=True)]),
        np.concatenate([names.lengths for names in each]),
    )


def _merge_stems(parts: Sequence[Stems]) -> tuple[Stems, list[Indices]]:
    every = _concatenate([stem_names(part) for part in parts])
    keys = np.concatenate([part.keys for part in parts])
    numbers, stems = kernels.unite(Stems(every.text, every.starts, every.lengths, keys))
    return stems, np.split(numbers, np.cumsum([len(part.keys) for part in parts])[:-1])


def _renumber(parts: Sequence[Lexicon], kinds: list[Phrases], numbers: list[Indices]) -> list[Words]:
    """Numbers by kind and then by part → numbers by part and then by kind, counted over all kinds."""
    shift = np.cumsum([0, *(len(kind.parts) for kind in kinds)])
    at = [0] * len(kinds)
    renumbered = []
    for part in parts:
        rows = []
        for k, kind in enumerate(part.kinds):
            rows.append(numbers[k][at[k] : at[k] + len(kind.parts)].astype(np.int64) + shift[k])
            at[k] += len(kind.parts)
        renumbered.append(np.concatenate(rows))
    return renumbered


class Places(NamedTuple):
    """The column and the sign of each entry of a lexicon."""

    columns: Indices  # -1: nowhere
    signs: Floats


class Finder:
    """Finds the entries of one lexicon in others, by tables that are made once."""

    def __init__(self, lexicon: Lexicon, columns: Words) -> None:
        self.lexicon = lexicon
        self.stems = kernels.index(lexicon.stems.keys)
        ends = np.cumsum([0, *(len(kind.parts) for kind in lexicon.kinds)])
        self.kinds = [
            _KindFinder(kind, columns[i:j])
            for kind, i, j in zip(lexicon.kinds, ends[:-1], ends[1:], strict=True)
        ]

    def find(self, asked: Lexicon) -> Words:
        """The column of each entry of another lexicon of the same kinds; -1 if it has none."""
        stems = kernels.find(self.stems, self.lexicon.stems, asked.stems)
        return np.concatenate([f.find(stems[k.parts]) for f, k in zip(self.kinds, asked.kinds, strict=True)])


class _KindFinder:
    """One table per word of a phrase: from the phrase before the word, and the word, to the longer phrase."""

    def __init__(self, kind: Phrases, columns: Words) -> None:
        self.tables = []
        left = kind.parts[:, 0].astype(np.uint64)
        for k in range(1, kind.parts.shape[1]):
            keys = left << np.uint64(32) | kind.parts[:, k].astype(np.uint64)
            numbering = kernels.identify_keys(keys)
            self.tables.append(kernels.index(keys[numbering.first]))
            left = numbering.numbers.astype(np.uint64)
        many = int(left.max(initial=0)) + 1
        self.columns = np.full(many + 1, -1, dtype=np.int64)  # the last one is of what is unknown
        self.columns[left.astype(np.int64)] = columns

    def find(self, parts: Indices) -> Words:
        left = parts[:, 0]
        for k, table in enumerate(self.tables, start=1):
            known = (left >= 0) & (parts[:, k] >= 0)
            keys = left[known].astype(np.uint64) << np.uint64(32) | parts[known, k].astype(np.uint64)
            left = np.full(len(parts), -1, dtype=np.int32)
            left[known] = kernels.find_keys(table, keys)
        return self.columns[np.where(left < len(self.columns) - 1, left, -1)]
