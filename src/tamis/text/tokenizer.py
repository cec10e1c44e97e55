"""Split texts into tokens: words, phrases or n-grams of characters, as strings or counted per document."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import Alphabet, Indices, Int64s, Rows, TokenStream
from tamis.text.alphabet import Digit, Fold, Unspaced, alphabet
from tamis.text.checking import check_integer, check_phrases
from tamis.text.corpus import Corpus
from tamis.text.lexicon import Finder, Lexicon, Phrases

Analyzer = Literal["word", "char", "char_wb"]


class LexiconCounts(NamedTuple):
    """The counts of the entries of a lexicon in each document."""

    lexicon: Lexicon
    rows: Rows


class Reader(Protocol):
    """The protocol of readers of tokens: `Tokenizer` uses compiled kernels, `CustomAnalyzer` is in Python."""

    @property
    def tokens_per_word(self) -> int:
        """The approximate number of tokens per word of a text."""

    def tokens(self, document: Any, /) -> list[str]:
        """Return the tokens of one document, with repetitions."""

    def preprocess(self, document: Any, /) -> Any:
        """Return the document as it is before it is split into words."""

    def split(self, document: Any, /) -> Iterable[str]:
        """Return the words of a document, stop words included."""

    def name(self, term: str, /) -> str:
        """Return the token that a term of a given vocabulary stands for."""

    def count(self, corpus: Any, /) -> LexiconCounts:
        """Count the tokens of each document, and number them in a lexicon of these documents."""


def count_tokens_per_word(analyzer: object, ngram_range: tuple[int, int] | None, pairs: int) -> int:
    """Return the approximate number of tokens per word; a word with its space has about six characters."""
    least, most = ngram_range or (1, 0)
    return (most - least + 1 + pairs) * (6 if analyzer in ("char", "char_wb") else 1)


class _Stream(NamedTuple):
    """The numbers of the tokens of all documents, in the order of the text."""

    numbers: Indices
    documents: Int64s  # (n + 1,): numbers[documents[d] : documents[d + 1]] belong to document d


@dataclass(frozen=True)
class Tokenizer:
    """The definition of a token. The tokens of a text depend on this definition and the text alone.

    >>> Tokenizer().tokens("Straße, CAFÉ und 東京都!")
    ['strasse', 'café', 'und', '東京', '京都']
    >>> Tokenizer(ngram_range=(2, 2)).tokens("send money to Mary")
    ['send money', 'money to', 'to mary']
    >>> Tokenizer(ngram_range=None, pairs=3).tokens("send money to Mary")
    ['send money', 'money to', 'to mary', 'send * to', 'money * mary', 'send * * mary']
    """

    analyzer: Analyzer = "word"
    ngram_range: tuple[int, int] | None = (1, 1)  # pairs only if None
    pairs: int = 0  # the largest distance, in words, of the two words of a pair
    min_length: int = 2  # the least number of characters of a word; scripts without spaces may have fewer
    fold: Fold = "case"
    unspaced: Unspaced = "pairs"
    digits: Digit = "keep"
    stop_words: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.analyzer not in ("word", "char", "char_wb"):
            raise ValueError(f"got analyzer={self.analyzer!r}, expected 'word', 'char' or 'char_wb'")
        for name in ("fold", "unspaced", "digits"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"got {name}={getattr(self, name)!r}, expected a string: see text.alphabet")
        check_phrases(self.analyzer, self.ngram_range, self.pairs, self.stop_words)
        check_integer("min_length", self.min_length, 1)
        if self.analyzer == "word" and self.ngram_range is None and not self.pairs:
            raise ValueError(
                "got ngram_range=None and pairs=0, expected one of them: nothing would be counted"
            )

    @property
    def tokens_per_word(self) -> int:
        return count_tokens_per_word(self.analyzer, self.ngram_range, self.pairs)

    def __getstate__(self) -> dict[str, object]:
        # Cached tables are left out, because they can be recomputed.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _alphabet(self) -> Alphabet:
        return alphabet(self.fold, self.unspaced, self.digits)

    @cached_property
    def _stops(self) -> Finder | None:
        """Finds stop words; if a given stop word consists of several tokens, each of them is one."""
        if not self.stop_words:
            return None
        tokens = self._read_words(Corpus.of(sorted(self.stop_words)), shortest=1).tokens
        return Finder(Lexicon.from_tokens(tokens), np.arange(len(tokens.keys)))

    def tokens(self, text: str | bytes) -> list[str]:
        """Return the tokens of one text: shorter phrases before longer ones, pairs last. Bytes are UTF-8."""
        given: object = text
        if not isinstance(given, str | bytes):
            raise TypeError(f"got a {type(text).__name__}, expected one text: str, or bytes in UTF-8")
        lexicon, streams = self._read_tokens(Corpus.of([text]))
        names = lexicon.names.strings()
        return [names[k] for stream in streams for k in stream.numbers.tolist()]

    def preprocess(self, text: str) -> str:
        """Return the text with its characters folded and each stretch of white space replaced by one space.

        >>> Tokenizer(fold="base").preprocess("Größe  und ΟΔΟΣ")
        'grosse und οδοσ'
        """
        corpus = Corpus.of([text])
        folded, offsets = kernels.fold_characters(corpus.text, corpus.offsets, self._alphabet, False)
        return folded[: offsets[-1]].tobytes().decode()

    def split(self, text: str) -> list[str]:
        """Return the words of a text as they are written: nothing is folded and no stop word is dropped.

        >>> Tokenizer(stop_words=frozenset(["the"])).split("The CAT")
        ['The', 'CAT']
        """
        plain = Tokenizer(min_length=self.min_length, fold="none", unspaced=self.unspaced, digits=self.digits)
        return plain.tokens(text)

    def name(self, term: str) -> str:
        """Return the token that a term of a vocabulary stands for; a star in the term is a skipped word.

        >>> Tokenizer().name("Money"), Tokenizer(pairs=2).name("Send * Mary")
        ('money', 'send * mary')
        """
        if self.analyzer != "word":
            return self.preprocess(term)
        single = replace(self, ngram_range=(1, 1), pairs=0)
        words = [["*"] if part == "*" else single.tokens(part) for part in term.split()]
        if not words or any(len(tokens) != 1 for tokens in words):
            raise ValueError(
                f"the term {term!r} is not made of tokens, expected words that a text could have: see fold, "
                "min_length and stop_words"
            )
        return " ".join(word for (word,) in words)

    def count(self, corpus: Corpus) -> LexiconCounts:
        lexicon, streams = self._read_tokens(corpus)
        stream = _interleave(streams)
        return LexiconCounts(lexicon, kernels.count_numbers(stream.numbers, stream.documents, len(lexicon)))

    def _read_tokens(self, corpus: Corpus) -> tuple[Lexicon, list[_Stream]]:
        """Return a lexicon of the documents, and for each of its phrase sets the numbers of the entries."""
        if self.analyzer != "word":
            is_within_words = self.analyzer == "char_wb"
            folded, offsets = kernels.fold_characters(
                corpus.text, corpus.offsets, self._alphabet, is_within_words
            )
            least, most = self.ngram_range or (1, 1)
            numbers, documents, tokens = kernels.read_grams(folded, offsets, least, most, is_within_words)
            return Lexicon.from_tokens(tokens), [_Stream(numbers, documents)]
        numbers, documents, tokens = self._read_words(corpus, self.min_length)
        words, single = _Stream(numbers, documents), Phrases.from_single_tokens(len(tokens.keys))
        if self._stops is not None:
            words, single = _drop_tokens(words, self._stops.find(Lexicon(tokens, (single,))) >= 0)
        phrase_sets, streams = [], []
        offset = 0
        for phrases, stream in self._make_phrases(words, single):
            phrase_sets.append(phrases)
            streams.append(
                _Stream(stream.numbers + np.int32(offset) if offset else stream.numbers, stream.documents)
            )
            offset += len(phrases.token_numbers)
        return Lexicon(tokens, tuple(phrase_sets)), streams

    def _read_words(self, corpus: Corpus, shortest: int) -> TokenStream:
        """Return the words of at least `shortest` characters."""
        folded, offsets = kernels.fold_words(corpus.text, corpus.offsets, self._alphabet)
        return kernels.read_words(folded, offsets, shortest, self._alphabet)

    def _make_phrases(self, words: _Stream, single: Phrases) -> Iterator[tuple[Phrases, _Stream]]:
        """Yield the phrases of each length, then the pairs of each distance, with their occurrences."""
        least, most = self.ngram_range or (1, 0)
        phrases, stream = single, _renumber(words, single)
        for n in range(1, most + 1):
            if n > 1:
                phrases, stream = _append_word(phrases, stream, words, n - 1)
            if n >= least:
                yield phrases, stream
        phrases, stream = single, _renumber(words, single)
        # A pair at distance 1 is a phrase of two words, which must not be counted twice.
        for distance in range(2 if least <= 2 <= most else 1, self.pairs + 1):
            pairs, pair_stream = _append_word(phrases, stream, words, distance)
            yield Phrases(pairs.token_numbers, distance), pair_stream


def _drop_tokens(words: _Stream, is_stop_word: NDArray[np.bool_]) -> tuple[_Stream, Phrases]:
    """Drop the occurrences of stop words; return the others, and the tokens that are left."""
    keep = ~is_stop_word[words.numbers]
    n_kept_before = np.concatenate([[0], np.cumsum(keep)])
    return _Stream(words.numbers[keep], n_kept_before[words.documents]), Phrases(
        np.flatnonzero(~is_stop_word).astype(np.int32)[:, None]
    )


def _renumber(words: _Stream, single: Phrases) -> _Stream:
    """Number the tokens that are not stop words, without gaps."""
    kept = single.token_numbers[:, 0]
    if not len(kept) or kept[-1] == len(kept) - 1:
        return words
    new_numbers = np.full(int(kept[-1]) + 1, -1, dtype=np.int32)
    new_numbers[kept] = np.arange(len(kept), dtype=np.int32)
    return _Stream(new_numbers[words.numbers], words.documents)


def _append_word(phrases: Phrases, stream: _Stream, words: _Stream, shift: int) -> tuple[Phrases, _Stream]:
    """Extend each phrase by the word that comes `shift` words after its first word."""
    keys, documents = kernels.make_pair_keys(
        stream.numbers, stream.documents, words.numbers, words.documents, shift
    )
    # A key has the number of the phrase in its upper 32 bits, and that of the word in the lower ones.
    numbering = kernels.number_keys(keys)
    distinct = keys[numbering.first_positions]
    prefixes = (distinct >> np.uint64(32)).astype(np.int64)
    last = (distinct & np.uint64(0xFFFFFFFF)).astype(np.int32)
    extended = Phrases(np.column_stack([phrases.token_numbers[prefixes], last]))
    return extended, _Stream(numbering.numbers, documents)


def _interleave(streams: list[_Stream]) -> _Stream:
    """Join several streams of the same documents, document by document."""
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
