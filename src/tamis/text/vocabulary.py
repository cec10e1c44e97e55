"""lexicons of many chunks → the columns of a vocabulary: merged, counted, pruned, sorted by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import Rows, Words
from tamis.text.checking import check_words
from tamis.text.lexicon import Finder, Lexicon, Places
from tamis.text.tokenizer import Reader

Mask = NDArray[np.bool_]

_TIDY = 1 << 22  # sums and entries that are merged at once, at least: some 60 MB


def _encode_names(names: NDArray[np.object_]) -> dict[str, Any]:
    """Names as arrays: their text in UTF-8, and the length of each."""
    each = [name.encode() for name in names]
    text = np.frombuffer(b"".join(each), dtype=np.uint8)
    return {"text": text, "lengths": np.array([len(name) for name in each], dtype=np.int64)}


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Columns and their names."""

    lexicon: Lexicon
    columns: Words  # of each entry of the lexicon

    def __len__(self) -> int:
        return len(self.lexicon)

    @classmethod
    def sort(cls, lexicon: Lexicon) -> "Vocabulary":
        """Columns in the order of their names."""
        columns = np.empty(len(lexicon), dtype=np.int64)
        columns[lexicon.order()] = np.arange(len(lexicon))
        return cls(lexicon, columns)

    def find(self, lexicon: Lexicon) -> Places:
        """The columns of the entries of another lexicon."""
        columns = self._finder.find(lexicon).astype(np.int32)
        return Places(columns, np.ones(len(columns)))

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.lexicon, self.columns)

    @cached_property
    def names(self) -> NDArray[np.object_]:
        """The name of each column."""
        names = np.empty(len(self), dtype=object)
        names[self.columns] = self.lexicon.names.strings()
        return names

    def keep(self, columns: Mask) -> "Vocabulary":
        """Drop the columns that are not marked; the others move up."""
        place = np.cumsum(columns) - 1
        rows = np.flatnonzero(columns[self.columns])
        return Vocabulary(self.lexicon.take(rows), place[self.columns[rows]])

    def to_state(self) -> dict[str, Any]:
        """The names as arrays."""
        return _encode_names(self.names)

    def __getstate__(self) -> dict[str, object]:
        return {"lexicon": self.lexicon, "columns": self.columns}  # the finder can be made again


@dataclass(frozen=True, eq=False)
class GivenVocabulary:
    """Terms that a user wrote, each with its column."""

    names: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, terms: Iterable[str] | Mapping[str, int], tokenizer: Reader) -> "GivenVocabulary":
        """Terms in the order of their columns, or with their columns, read as texts are."""
        if isinstance(terms, str):
            raise TypeError(f"got vocabulary={terms!r}, expected a list of terms")
        listed = check_words("the vocabulary", sorted(terms) if isinstance(terms, set | frozenset) else terms)
        columns = [terms[term] for term in listed] if isinstance(terms, Mapping) else list(range(len(listed)))
        if not listed:
            raise ValueError("got an empty vocabulary, expected at least one term")
        if sorted(columns) != list(range(len(listed))):
            raise ValueError(
                f"the columns of the vocabulary are not 0 to {len(listed) - 1}, each once: leave them out, "
                "and the terms get them in their order"
            )
        names = np.empty(len(listed), dtype=object)
        place: dict[str, str] = {}
        for term, column in zip(listed, columns, strict=True):
            name = tokenizer.name(term)
            if name in place:
                raise ValueError(
                    f"the terms {place[name]!r} and {term!r} are one token, {name!r}: expected each once"
                )
            place[name] = term
            names[column] = name
        return cls(names)

    def to_state(self) -> dict[str, Any]:
        """The names as arrays."""
        return _encode_names(self.names)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "GivenVocabulary":
        """The vocabulary that `to_state` wrote."""
        text, ends = state["text"].tobytes(), np.cumsum(state["lengths"]).tolist()
        names = np.empty(len(ends), dtype=object)
        names[:] = [text[i:j].decode() for i, j in pairwise([0, *ends])]
        return cls(names)

    def find(self, lexicon: Lexicon) -> Places:
        """The columns of the entries of another lexicon."""
        place = self._place
        columns = np.array([place.get(name, -1) for name in lexicon.names.strings()], dtype=np.int32)
        return Places(columns, np.ones(len(columns)))

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def keep(self, columns: Mask) -> "GivenVocabulary":
        """Drop the columns that are not marked; the others move up."""
        return GivenVocabulary(self.names[columns])


class Sums(NamedTuple):
    """Sums over the documents of each class, one row per class; None if they are not needed."""

    document_frequency: Rows | None  # documents that have an entry
    term_frequency: Rows | None  # occurrences of an entry


class Gathering:
    """Chunks as they come → one lexicon, and its sums (classes, entries).

    Memory is needed for the entries, not for the documents. Chunks may bring new classes.
    """

    def __init__(self) -> None:
        self.parts: list[Lexicon] = []
        self.sums: list[Sums] = []  # of all parts but those that were merged before
        self.document_frequency = self.term_frequency = np.zeros((0, 0), dtype=np.int64)
        self._merged_size = 0

    def add(self, lexicon: Lexicon, sums: Sums) -> None:
        """Add a chunk."""
        self.parts.append(lexicon)
        self.sums.append(sums)

    def merge(self, always: bool = True) -> list[Words]:
        """Merge the chunks, always or when it pays; return the new numbers of each chunk's entries."""
        held = sum(len(rows.indices) for sums in self.sums for rows in sums if rows is not None)
        held += sum(map(len, self.parts))
        if not always and held <= 2 * self._merged_size + _TIDY:
            return []
        if not any(map(len, self.parts)):
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        lexicon, numbers = Lexicon.merge(self.parts)
        entries = len(lexicon)
        documents, terms = (
            (list(column) for column in zip(*self.sums, strict=True)) if self.sums else ([], [])
        )
        self.document_frequency = _merge_sums(self.document_frequency, documents, numbers, entries)
        self.term_frequency = _merge_sums(self.term_frequency, terms, numbers, entries)
        self.parts, self.sums = [lexicon], []
        self._merged_size = entries
        return numbers


def _merge_sums(before: Words, sums: list[Rows | None], numbers: list[Words], entries: int) -> Words:
    """Sums of the first part, if it was merged before, and of the others, by their new numbers."""
    known = [rows for rows in sums if rows is not None]
    if not known and not len(before):
        return before
    table = np.zeros((max([len(before), *(len(rows.indptr) - 1 for rows in known)]), entries), dtype=np.int64)
    if len(before):
        kernels.move(before, numbers[0], table)
    for rows, number in zip(known, numbers[len(numbers) - len(known) :], strict=True):
        kernels.add(rows, number.astype(np.int32), np.arange(len(rows.indptr) - 1), table)
    return table


def sum_by_class(
    rows: Rows, entries: int, group: Words, classes: int, documents: bool = True, terms: bool = True
) -> Sums:
    """Sum the rows of each class: `documents` and `terms` say which of the sums are needed."""
    flags = Rows(rows.indptr, rows.indices, np.ones(len(rows.counts))) if documents else None
    return Sums(
        None if flags is None else kernels.condense(flags, group, classes, entries),
        kernels.condense(rows, group, classes, entries) if terms else None,
    )


def class_information(having: Words, documents: Words) -> NDArray[np.float64]:
    """The information about the class in the presence of each token (entries,), over all texts: in nats.

    It is the number of texts times the mutual information; twice it is the G statistic of independence.

    >>> information = class_information(np.array([[50, 0], [25, 25]]), np.array([50, 50]))
    >>> [round(float(x), 3) for x in information]
    [69.315, 0.0]
    """
    total = documents.sum()
    information = np.zeros(len(having))
    for seen in (having, documents - having):
        expected = seen.sum(axis=1, keepdims=True) * (documents / total)
        with np.errstate(divide="ignore", invalid="ignore"):
            information += np.where(seen > 0, seen * np.log(seen / expected), 0.0).sum(axis=1)
    return information
