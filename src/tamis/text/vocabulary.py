"""Merge the lexicons of many chunks of texts to a vocabulary, whose columns are sorted by name.

A lexicon holds the distinct tokens and phrases (entries) of some texts. `Rows` are a compressed sparse matrix
of counts: a row is a text or a class, and a column an entry.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import Int64s, Rows
from tamis.text.checking import check_words
from tamis.text.lexicon import ColumnSigns, Finder, Lexicon
from tamis.text.tokenizer import Reader

Mask = NDArray[np.bool_]

# Chunks are merged when the number of their nonzero sums and of the entries of all lexicons, including the
# merged one, is more than this (about 60 MB) plus twice the entries of the merged one. So a large merged
# lexicon is not merged again for a few small chunks.
_MERGE_SIZE = 1 << 22


def _encode_names(names: NDArray[np.object_]) -> dict[str, Any]:
    """Return names as arrays: their text in UTF-8, and the length of each."""
    encoded = [name.encode() for name in names]
    text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return {"text": text, "lengths": np.array([len(name) for name in encoded], dtype=np.int64)}


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Columns that were learned from texts. Their order is that of their names."""

    lexicon: Lexicon
    columns: Int64s  # the column of each entry of the lexicon

    def __len__(self) -> int:
        return len(self.lexicon)

    @classmethod
    def sort(cls, lexicon: Lexicon) -> "Vocabulary":
        """Return a vocabulary with a column for each entry, in the order of their names."""
        columns = np.empty(len(lexicon), dtype=np.int64)
        columns[lexicon.argsort()] = np.arange(len(lexicon))
        return cls(lexicon, columns)

    def find(self, lexicon: Lexicon) -> ColumnSigns:
        """Return the column of each entry of another lexicon, −1 if it has none.

        All signs are 1, to add the counts: only hashed columns subtract those of some entries.
        """
        columns = self._finder.find(lexicon).astype(np.int32)
        return ColumnSigns(columns, np.ones(len(columns)))

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.lexicon, self.columns)

    @cached_property
    def names(self) -> NDArray[np.object_]:
        """The name of each column."""
        names = np.empty(len(self), dtype=object)
        names[self.columns] = self.lexicon.names.strings()
        return names

    def keep_columns(self, is_kept: Mask) -> "Vocabulary":
        """Drop the columns that are not marked, and renumber the others."""
        new_columns = np.cumsum(is_kept) - 1
        entries = np.flatnonzero(is_kept[self.columns])
        return Vocabulary(self.lexicon.take(entries), new_columns[self.columns[entries]])

    def to_state(self) -> dict[str, Any]:
        """Return the names as arrays, which `GivenVocabulary.from_state` reads."""
        return _encode_names(self.names)

    def __getstate__(self) -> dict[str, object]:
        return {"lexicon": self.lexicon, "columns": self.columns}  # the finder can be recomputed


@dataclass(frozen=True, eq=False)
class GivenVocabulary:
    """Columns for the terms that a user gave, or whose names a file holds."""

    names: NDArray[np.object_]  # of each column

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, terms: Iterable[str] | Mapping[str, int], tokenizer: Reader) -> "GivenVocabulary":
        """Read terms, which the tokenizer folds as it folds texts.

        A list has the terms in the order of their columns, a mapping has the column of each term, and the
        terms of a set are sorted.
        """
        if isinstance(terms, str):
            raise TypeError(f"got vocabulary={terms!r}, expected a list of terms")
        listed = check_words("the vocabulary", sorted(terms) if isinstance(terms, set | frozenset) else terms)
        columns = [terms[term] for term in listed] if isinstance(terms, Mapping) else list(range(len(listed)))
        if not listed:
            raise ValueError("got an empty vocabulary, expected at least one term")
        if sorted(columns) != list(range(len(listed))):
            raise ValueError(
                f"the columns of the vocabulary are not 0 to {len(listed) - 1}, each once: pass a list of "
                "terms, which get columns in their order"
            )
        names = np.empty(len(listed), dtype=object)
        term_of: dict[str, str] = {}
        for term, column in zip(listed, columns, strict=True):
            name = tokenizer.name(term)
            if name in term_of:
                raise ValueError(
                    f"the terms {term_of[name]!r} and {term!r} are one token, {name!r}: drop one of them"
                )
            term_of[name] = term
            names[column] = name
        return cls(names)

    def to_state(self) -> dict[str, Any]:
        """Return the names as arrays."""
        return _encode_names(self.names)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "GivenVocabulary":
        """Restore the vocabulary that `to_state` wrote."""
        text, ends = state["text"].tobytes(), np.cumsum(state["lengths"]).tolist()
        names = np.empty(len(ends), dtype=object)
        names[:] = [text[i:j].decode() for i, j in pairwise([0, *ends])]
        return cls(names)

    def find(self, lexicon: Lexicon) -> ColumnSigns:
        """Return the column of each entry of a lexicon, as `Vocabulary.find` does."""
        column_of = self._column_of
        columns = np.array([column_of.get(name, -1) for name in lexicon.names.strings()], dtype=np.int32)
        return ColumnSigns(columns, np.ones(len(columns)))

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def keep_columns(self, is_kept: Mask) -> "GivenVocabulary":
        return GivenVocabulary(self.names[is_kept])


class ClassSums(NamedTuple):
    """Sums over the documents of each class, one row per class and one column per entry of a lexicon.

    A sum that is not needed is None.
    """

    document_frequency: Rows | None  # number of documents that contain an entry
    term_frequency: Rows | None  # number of occurrences of an entry


class ChunkMerger:
    """Merges the lexicons of chunks into one, and adds their sums.

    Later chunks may have more classes. Chunks are in memory until they are merged. If `merge(always=False)`
    follows each `add`, the memory depends on the number of entries, not on the number of documents.
    """

    def __init__(self) -> None:
        self.lexicons: list[Lexicon] = []  # first the merged one, if there is one
        self.sums: list[ClassSums] = []  # the sums of the lexicons that are not merged yet
        # As of `ClassSums`, for the merged lexicon: (classes, entries), or empty.
        self.document_frequency = self.term_frequency = np.zeros((0, 0), dtype=np.int64)
        self._merged_entries = 0  # the number of entries of the merged lexicon

    def add(self, lexicon: Lexicon, sums: ClassSums) -> None:
        self.lexicons.append(lexicon)
        self.sums.append(sums)

    def merge(self, always: bool = True) -> list[Int64s]:
        """Merge the lexicons; return the new numbers of each one's entries, an array per lexicon.

        If chunks were merged before, the first array is that of their merged lexicon. Without `always`,
        chunks are merged only if they are large enough (see _MERGE_SIZE); otherwise [] is returned.
        """
        size = sum(len(rows.indices) for sums in self.sums for rows in sums if rows is not None)
        size += sum(map(len, self.lexicons))
        if not always and size <= 2 * self._merged_entries + _MERGE_SIZE:
            return []
        if not any(map(len, self.lexicons)):
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        lexicon, numbers = Lexicon.merge(self.lexicons)
        entries = len(lexicon)
        documents = [sums.document_frequency for sums in self.sums]
        terms = [sums.term_frequency for sums in self.sums]
        self.document_frequency = _merge_sums(self.document_frequency, documents, numbers, entries)
        self.term_frequency = _merge_sums(self.term_frequency, terms, numbers, entries)
        self.lexicons, self.sums = [lexicon], []
        self._merged_entries = entries
        return numbers


def _merge_sums(before: Int64s, sums: list[Rows | None], numbers: list[Int64s], entries: int) -> Int64s:
    """Add the sums of chunks to `before`, the sums (classes, entries) of what was merged earlier.

    `numbers` has the new numbers, below `entries`, of each lexicon's entries: first those of the lexicon that
    was merged earlier, to which `before` belongs, if there is one, then those of each chunk.
    """
    known = [rows for rows in sums if rows is not None]
    if not known and not len(before):
        return before
    table = np.zeros((max([len(before), *(len(rows.indptr) - 1 for rows in known)]), entries), dtype=np.int64)
    if len(before):
        kernels.add_columns(before, numbers[0], table)
    for rows, new_numbers in zip(known, numbers[len(numbers) - len(known) :], strict=True):
        classes = np.arange(len(rows.indptr) - 1)  # row k of the sums is that of class k
        kernels.add_rows(rows, new_numbers.astype(np.int32), classes, table)
    return table


def sum_by_class(
    rows: Rows, entries: int, group: Int64s, classes: int, documents: bool = True, terms: bool = True
) -> ClassSums:
    """Sum the counts of the texts of each class.

    `rows` has a row per text, `group` (n,) the class of each as an integer below `classes`. `entries` is the
    number of entries of the lexicon. `documents` and `terms` are whether to sum document frequencies and term
    frequencies.
    """
    presence = Rows(rows.indptr, rows.indices, np.ones(len(rows.counts))) if documents else None
    return ClassSums(
        None if presence is None else kernels.sum_groups(presence, group, classes, entries),
        kernels.sum_groups(rows, group, classes, entries) if terms else None,
    )


def compute_class_information(documents_with_token: Int64s, documents: Int64s) -> NDArray[np.float64]:
    """Return how much information about the class the presence of each token gives, summed over texts.

    `documents_with_token` (tokens, classes) and `documents` (classes,) are numbers of texts. The result
    (tokens,) is the number of texts times the mutual information of presence and class, in nats; twice that
    is the G statistic (log-likelihood ratio) of the test of independence.

    >>> information = compute_class_information(np.array([[50, 0], [25, 25]]), np.array([50, 50]))
    >>> [round(float(x), 3) for x in information]
    [69.315, 0.0]
    """
    total = documents.sum()
    information = np.zeros(len(documents_with_token))
    for seen in (documents_with_token, documents - documents_with_token):
        expected = seen.sum(axis=1, keepdims=True) * (documents / total)
        with np.errstate(divide="ignore", invalid="ignore"):
            information += np.where(seen > 0, seen * np.log(seen / expected), 0.0).sum(axis=1)
    return information
