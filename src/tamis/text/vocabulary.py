"""lexicons of many chunks → the columns of a vocabulary: merged, counted, pruned, sorted by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import Rows, Words
from tamis.text.checking import words
from tamis.text.lexicon import Finder, Lexicon, Places
from tamis.text.tokenizer import Reader

Mask = NDArray[np.bool_]

_TIDY = 1 << 22  # sums and entries that wait to be merged, at least: some 60 MB


class Named(Protocol):
    """Columns that have names."""

    @property
    def names(self) -> NDArray[np.object_]: ...


def saved(columns: Named) -> dict[str, Any]:
    """The names of columns as arrays: their text in UTF-8, and how long each is."""
    each = [name.encode() for name in columns.names]
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
    def sorted(cls, lexicon: Lexicon) -> "Vocabulary":
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
        found = np.empty(len(self), dtype=object)
        found[self.columns] = self.lexicon.names.strings()
        return found

    def keep(self, columns: Mask) -> "Vocabulary":
        """Less the columns that are not kept; the others move up."""
        place = np.cumsum(columns) - 1
        rows = np.flatnonzero(columns[self.columns])
        return Vocabulary(self.lexicon.take(rows), place[self.columns[rows]])

    def saved(self) -> dict[str, Any]:
        """As arrays."""
        return saved(self)

    def __getstate__(self) -> dict[str, object]:
        return {"lexicon": self.lexicon, "columns": self.columns}  # what is looked up by can be made again


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
        listed = words("the vocabulary", sorted(terms) if isinstance(terms, set | frozenset) else terms)
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

    def saved(self) -> dict[str, Any]:
        """As arrays."""
        return saved(self)

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "GivenVocabulary":
        """What was saved."""
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
        """Less the columns that are not kept; the others move up."""
        return GivenVocabulary(self.names[columns])


class Sums(NamedTuple):
    """Of each class and entry, in how many documents it is, and how often: those that are asked for."""

    has: Rows | None  # a row a class
    often: Rows | None


class Gathering:
    """Chunks as they come → one lexicon, and its sums (classes, entries).

    It takes memory for the entries, and none for the documents. Classes may still be added as chunks come.
    """

    def __init__(self) -> None:
        self.parts: list[Lexicon] = []
        self.sums: list[Sums] = []  # of all parts but those that were merged before
        self.has = self.often = np.zeros((0, 0), dtype=np.int64)
        self._tidied = 0

    def add(self, lexicon: Lexicon, sums: Sums) -> None:
        """One chunk more."""
        self.parts.append(lexicon)
        self.sums.append(sums)

    def tidy(self, always: bool = True) -> list[Words]:
        """Merge what was added, at once or when it pays; of each part, its entries' new numbers."""
        held = sum(len(rows.indices) for sums in self.sums for rows in sums if rows is not None)
        held += sum(map(len, self.parts))
        if not always and held <= 2 * self._tidied + _TIDY:
            return []
        if not any(map(len, self.parts)):
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        whole, numbers = Lexicon.merged(self.parts)
        self.has = _merged(self.has, [sums.has for sums in self.sums], numbers, len(whole))
        self.often = _merged(self.often, [sums.often for sums in self.sums], numbers, len(whole))
        self.parts, self.sums = [whole], []
        self._tidied = len(whole)
        return numbers


def _merged(before: Words, sums: list[Rows | None], numbers: list[Words], entries: int) -> Words:
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


def summed(
    rows: Rows, entries: int, group: Words, classes: int, has: bool = True, often: bool = True
) -> Sums:
    """The sums of the documents of each class."""
    once = Rows(rows.indptr, rows.indices, np.ones(len(rows.counts))) if has else None
    return Sums(
        None if once is None else kernels.condense(once, group, classes, entries),
        kernels.condense(rows, group, classes, entries) if often else None,
    )


def evidence(has: Words, documents: Words) -> NDArray[np.float64]:
    """What a text's having a token, or not, says about its class, over all texts (entries,): in nats.

    >>> says = evidence(np.array([[50, 0], [25, 25]]), np.array([50, 50]))
    >>> [round(float(x), 3) for x in says]
    [69.315, 0.0]
    """
    total = documents.sum()
    said = np.zeros(len(has))
    for seen in (has, documents - has):
        expected = seen.sum(axis=1, keepdims=True) * (documents / total)
        with np.errstate(divide="ignore", invalid="ignore"):
            said += np.where(seen > 0, seen * np.log(seen / expected), 0.0).sum(axis=1)
    return said
