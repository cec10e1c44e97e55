"""text → tokens: words, phrases and runs of characters, as strings or counted by document."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import Alphabet, Indices, Rows, Stems, TokenStream, Words
from tamis.text.alphabet import Digit, Fold, Unspaced, alphabet
from tamis.text.checking import LONGEST, check_integer, check_range
from tamis.text.corpus import Corpus
from tamis.text.lexicon import Finder, Lexicon, Phrases

Analyzer = Literal["word", "char", "char_wb"]


class LexiconCounts(NamedTuple):
    """The counts of the entries of a lexicon in each document."""

    lexicon: Lexicon
    rows: Rows


class Reader(Protocol):
    """Finds the tokens of documents: `Tokenizer`, compiled, or `CustomAnalyzer`, in Python."""

    @property
    def weight(self) -> int: ...
    def tokens(self, document: Any, /) -> list[str]: ...
    def preprocess(self, document: Any, /) -> Any: ...
    def split(self, document: Any, /) -> Iterable[str]: ...
    def name(self, term: str, /) -> str: ...
    def count(self, corpus: Any, /) -> LexiconCounts: ...


class _Stream(NamedTuple):
    """Numbers of the tokens of documents, in the order of the text."""

    numbers: Indices
    documents: Words  # (n + 1,)


@dataclass(frozen=True)
class Tokenizer:
    """The definition of a token. It has no state: the tokens of a text depend on the text alone.

    >>> Tokenizer().tokens("Straße, CAFÉ und 東京都!")
    ['strasse', 'café', 'und', '東京', '京都']
    >>> Tokenizer(ngram_range=(2, 2)).tokens("send money to Mary")
    ['send money', 'money to', 'to mary']
    >>> Tokenizer(ngram_range=None, pairs=3).tokens("send money to Mary")
    ['send money', 'money to', 'to mary', 'send * to', 'money * mary', 'send * * mary']
    """

    analyzer: Analyzer = "word"
    ngram_range: tuple[int, int] | None = (1, 1)  # None: pairs only
    pairs: int = 0  # words up to so far apart, two by two
    min_length: int = 2  # characters of a word; those of scripts without spaces always count
    fold: Fold = "case"
    unspaced: Unspaced = "pairs"
    digits: Digit = "keep"
    stop_words: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.analyzer not in ("word", "char", "char_wb"):
            raise ValueError(f"got analyzer={self.analyzer!r}, expected 'word', 'char' or 'char_wb'")
        for name in ("fold", "unspaced", "digits"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"got {name}={getattr(self, name)!r}, expected a word: see text.alphabet")
        check_range(self.ngram_range)
        check_integer("pairs", self.pairs, 0, LONGEST)
        check_integer("min_length", self.min_length, 1)
        if self.analyzer == "word" and self.ngram_range is None and not self.pairs:
            raise ValueError(
                "got ngram_range=None and pairs=0, expected one of them: nothing would be counted"
            )
        if self.analyzer != "word" and (self.ngram_range is None or self.pairs or self.stop_words):
            raise ValueError(
                f"got analyzer={self.analyzer!r} with pairs, stop words or no ngram_range, which need words: "
                "expected analyzer='word', or an ngram_range and nothing else"
            )

    @property
    def weight(self) -> int:
        """The approximate number of tokens per word of a text."""
        least, most = self.ngram_range or (1, 0)
        return (most - least + 1 + self.pairs) * (1 if self.analyzer == "word" else 6)

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # tables can be made again

    @cached_property
    def _alphabet(self) -> Alphabet:
        return alphabet(self.fold, self.unspaced, self.digits)

    @cached_property
    def _stops(self) -> Finder | None:
        """Finds stop words among stems; a stop word of several tokens stops each of them."""
        if not self.stop_words:
            return None
        stems = self._read_words(Corpus.of(sorted(self.stop_words)), shortest=1).stems
        return Finder(Lexicon(stems, (_single_stems(stems),)), np.arange(len(stems.keys)))

    def tokens(self, text: str | bytes) -> list[str]:
        """The tokens of one text: in their order, shorter before longer, pairs last. Bytes are UTF-8."""
        given: object = text
        if not isinstance(given, str | bytes):
            raise TypeError(f"got a {type(text).__name__}, expected one text: str, or bytes in UTF-8")
        lexicon, streams = self._read(Corpus.of([text]))
        names = lexicon.names.strings()
        return [names[k] for stream in streams for k in stream.numbers.tolist()]

    def preprocess(self, text: str) -> str:
        """The text with its characters folded, and any white space as one space.

        >>> Tokenizer(fold="base").preprocess("Größe  und ΟΔΟΣ")
        'grosse und οδοσ'
        """
        corpus = Corpus.of([text])
        folded, places = kernels.fold_characters(corpus.text, corpus.offsets, self._alphabet, False)
        return folded[: places[-1]].tobytes().decode()

    def split(self, text: str) -> list[str]:
        """The words of a text as they are written: nothing is folded and no stop word is left out.

        >>> Tokenizer(stop_words=frozenset(["the"])).split("The CAT")
        ['The', 'CAT']
        """
        plain = frozenset[str]()
        return replace(
            self, analyzer="word", ngram_range=(1, 1), pairs=0, fold="none", stop_words=plain
        ).tokens(text)

    def name(self, term: str) -> str:
        """The token that a term of one or more words, with stars for those left out, stands for.

        >>> Tokenizer().name("Money"), Tokenizer(pairs=2).name("Send * Mary")
        ('money', 'send * mary')
        """
        if self.analyzer != "word":
            return self.preprocess(term)
        single = replace(self, ngram_range=(1, 1), pairs=0)
        words = [["*"] if part == "*" else single.tokens(part) for part in term.split()]
        if not words or any(len(tokens) != 1 for tokens in words):
            raise ValueError(
                f"the term {term!r} is not made of tokens, expected words as texts are read: see fold, "
                "min_length and stop_words"
            )
        return " ".join(word for (word,) in words)

    def count(self, corpus: Corpus) -> LexiconCounts:
        """The counts of tokens in each document, by their numbers in a lexicon of these documents."""
        lexicon, streams = self._read(corpus)
        stream = _interleave(streams)
        return LexiconCounts(lexicon, kernels.tally(stream.numbers, stream.documents, len(lexicon)))

    def _read(self, corpus: Corpus) -> tuple[Lexicon, list[_Stream]]:
        if self.analyzer != "word":
            within = self.analyzer == "char_wb"
            folded, places = kernels.fold_characters(corpus.text, corpus.offsets, self._alphabet, within)
            least, most = self.ngram_range or (1, 1)
            numbers, documents, stems = kernels.read_grams(folded, places, least, most, within)
            return Lexicon(stems, (_single_stems(stems),)), [_Stream(numbers, documents)]
        numbers, documents, stems = self._read_words(corpus, self.min_length)
        words, single = _Stream(numbers, documents), _single_stems(stems)
        if self._stops is not None:
            words, single = _drop_stems(words, self._stops.find(Lexicon(stems, (single,))) >= 0)
        kinds, streams = [], []
        shift = 0
        for kind, stream in self._make_phrases(words, single):
            kinds.append(kind)
            streams.append(
                _Stream(stream.numbers + np.int32(shift) if shift else stream.numbers, stream.documents)
            )
            shift += len(kind.parts)
        return Lexicon(stems, tuple(kinds)), streams

    def _read_words(self, corpus: Corpus, shortest: int) -> TokenStream:
        folded, places = kernels.fold_words(corpus.text, corpus.offsets, self._alphabet)
        return kernels.read_words(folded, places, shortest, self._alphabet)

    def _make_phrases(self, words: _Stream, single: Phrases) -> Iterator[tuple[Phrases, _Stream]]:
        """Each kind of phrase, and its occurrences."""
        least, most = self.ngram_range or (1, 0)
        kind, stream = single, _renumber(words, single)
        for n in range(1, most + 1):
            if n > 1:
                kind, stream = _extend(kind, stream, words, n - 1)
            if n >= least:
                yield kind, stream
        kind, stream = single, _renumber(words, single)
        for distance in range(2 if least <= 2 <= most else 1, self.pairs + 1):  # each phrase once
            pair, where = _extend(kind, stream, words, distance)
            yield Phrases(pair.parts, distance), where


def _single_stems(stems: Stems) -> Phrases:
    return Phrases(np.arange(len(stems.keys), dtype=np.int32)[:, None])


def _drop_stems(words: _Stream, stopped: NDArray[np.bool_]) -> tuple[_Stream, Phrases]:
    """Drop the stems that are stop words."""
    kept = ~stopped[words.numbers]
    before = np.concatenate([[0], np.cumsum(kept)])
    return _Stream(words.numbers[kept], before[words.documents]), Phrases(
        np.flatnonzero(~stopped).astype(np.int32)[:, None]
    )


def _renumber(words: _Stream, single: Phrases) -> _Stream:
    """Number the stems among those that are not stop words."""
    stems = single.parts[:, 0]
    if not len(stems) or stems[-1] == len(stems) - 1:
        return words
    place = np.full(int(stems[-1]) + 1, -1, dtype=np.int32)
    place[stems] = np.arange(len(stems), dtype=np.int32)
    return _Stream(place[words.numbers], words.documents)


def _extend(kind: Phrases, stream: _Stream, words: _Stream, shift: int) -> tuple[Phrases, _Stream]:
    """Extend phrases by the word that comes `shift` words after their first."""
    keys, documents = kernels.pair(stream.numbers, stream.documents, words.numbers, words.documents, shift)
    numbering = kernels.identify_keys(keys)
    first = keys[numbering.first]
    left, last = (first >> np.uint64(32)).astype(np.int64), (first & np.uint64(0xFFFFFFFF)).astype(np.int32)
    return Phrases(np.column_stack([kind.parts[left], last])), _Stream(numbering.numbers, documents)


def _interleave(streams: list[_Stream]) -> _Stream:
    """The numbers of all streams, document by document."""
    if len(streams) == 1:
        return streams[0]
    documents = np.sum([stream.documents for stream in streams], axis=0)
    numbers = np.empty(documents[-1], dtype=np.int32)
    starts = documents[:-1].copy()
    for stream in streams:
        lengths = np.diff(stream.documents)
        numbers[np.arange(len(stream.numbers)) + np.repeat(starts - stream.documents[:-1], lengths)] = (
            stream.numbers
        )
        starts += lengths
    return _Stream(numbers, documents)
