"""Merge the lexicons of many chunks of texts to a vocabulary, whose columns are sorted.

A lexicon holds the distinct tokens and phrases (entries) of some texts. `Rows` are counts of entries by text,
or by class, in the form of a compressed sparse matrix.
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

# Chunks are merged when the number of their sums and entries, with the entries that were merged before, is
# more than this number (about 60 MB) plus twice the number of the entries that were merged before.
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
        """Return columns in the order of their names."""
        columns = np.empty(len(lexicon), dtype=np.int64)
        columns[lexicon.argsort()] = np.arange(len(lexicon))
        return cls(lexicon, columns)

    def find(self, lexicon: Lexicon) -> ColumnSigns:
        """Return the columns of the entries of another lexicon, −1 for those that have none.

        All signs are 1: only hashed columns subtract some of their entries.
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

    def keep_columns(self, columns: Mask) -> "Vocabulary":
        """Drop the columns that are not marked, and renumber the others."""
        new_columns = np.cumsum(columns) - 1
        rows = np.flatnonzero(columns[self.columns])
        return Vocabulary(self.lexicon.take(rows), new_columns[self.columns[rows]])

    def to_state(self) -> dict[str, Any]:
        """Return the names as arrays."""
        return _encode_names(self.names)

    def __getstate__(self) -> dict[str, object]:
        return {"lexicon": self.lexicon, "columns": self.columns}  # the finder can be recomputed


@dataclass(frozen=True, eq=False)
class GivenVocabulary:
    """Columns for the terms that a user gave."""

    names: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, terms: Iterable[str] | Mapping[str, int], tokenizer: Reader) -> "GivenVocabulary":
        """Read terms, which the tokenizer folds as it folds texts.

        A list has the terms in the order of their columns, and a mapping names the column of each. The terms
        of a set are sorted.
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
        """Return the columns of the entries of another lexicon, as `Vocabulary.find` does."""
        column_of = self._column_of
        columns = np.array([column_of.get(name, -1) for name in lexicon.names.strings()], dtype=np.int32)
        return ColumnSigns(columns, np.ones(len(columns)))

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def keep_columns(self, columns: Mask) -> "GivenVocabulary":
        return GivenVocabulary(self.names[columns])


class ClassSums(NamedTuple):
    """Sums over the documents of each class, one row per class; None for a sum that is not needed."""

    document_frequency: Rows | None  # number of documents that contain an entry
    term_frequency: Rows | None  # number of occurrences of an entry


class ChunkMerger:
    """Merges the lexicons of chunks into one, and adds their sums (classes, entries).

    Later chunks may have more classes. Chunks are in memory until they are merged. If `merge(always=False)`
    follows each `add`, the memory depends on the number of entries, not on the number of documents.
    """

    def __init__(self) -> None:
        self.lexicons: list[Lexicon] = []
        self.sums: list[ClassSums] = []  # the sums of the lexicons that are not merged yet
        self.document_frequency = self.term_frequency = np.zeros((0, 0), dtype=np.int64)
        self._merged_size = 0

    def add(self, lexicon: Lexicon, sums: ClassSums) -> None:
        self.lexicons.append(lexicon)
        self.sums.append(sums)

    def merge(self, always: bool = True) -> list[Int64s]:
        """Merge the chunks; return the new numbers of each chunk's entries, an array per chunk.

        If chunks were merged before, their merged lexicon is the first one, and has the first array. Without
        `always`, chunks are merged only if they are large enough; otherwise [] is returned.
        """
        size = sum(len(rows.indices) for sums in self.sums for rows in sums if rows is not None)
        size += sum(map(len, self.lexicons))
        if not always and size <= 2 * self._merged_size + _MERGE_SIZE:
            return []
        if not any(map(len, self.lexicons)):
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        lexicon, numbers = Lexicon.merge(self.lexicons)
        entries = len(lexicon)
        documents, terms = (
            (list(column) for column in zip(*self.sums, strict=True)) if self.sums else ([], [])
        )
        self.document_frequency = _merge_sums(self.document_frequency, documents, numbers, entries)
        self.term_frequency = _merge_sums(self.term_frequency, terms, numbers, entries)
        self.lexicons, self.sums = [lexicon], []
        self._merged_size = entries
        return numbers


def _merge_sums(before: Int64s, sums: list[Rows | None], numbers: list[Int64s], entries: int) -> Int64s:
    """Add the sums of chunks to `before`, the sums (classes, entries) of what was merged earlier.

    `numbers` has the new numbers of the entries, an array per lexicon; `before` belongs to the first one.
    """
    known = [rows for rows in sums if rows is not None]
    if not known and not len(before):
        return before
    table = np.zeros((max([len(before), *(len(rows.indptr) - 1 for rows in known)]), entries), dtype=np.int64)
    if len(before):
        kernels.add_columns(before, numbers[0], table)
    for rows, number in zip(known, numbers[len(numbers) - len(known) :], strict=True):
        kernels.add_rows(rows, number.astype(np.int32), np.arange(len(rows.indptr) - 1), table)
    return table


def sum_by_class(
    rows: Rows, entries: int, group: Int64s, classes: int, documents: bool = True, terms: bool = True
) -> ClassSums:
    """Sum the rows of each class; `group` (n,) has the class of each row, as an integer below `classes`.

    `entries` is the number of entries. `documents` and `terms` are whether to sum document frequencies and
    term frequencies.
    """
    presence = Rows(rows.indptr, rows.indices, np.ones(len(rows.counts))) if documents else None
    return ClassSums(
        None if presence is None else kernels.sum_groups(presence, group, classes, entries),
        kernels.sum_groups(rows, group, classes, entries) if terms else None,
    )


def compute_class_information(documents_with_token: Int64s, documents: Int64s) -> NDArray[np.float64]:
    """Return the information about a text's class in the presence of each token, summed over texts.

    `documents_with_token` (tokens, classes) and `documents` (classes,) are numbers of texts. The result is
    the number of texts times the mutual information; twice it is the G statistic (log-likelihood ratio) of
    the test of independence.

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
