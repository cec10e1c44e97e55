"""Split documents into tokens by a user's pattern or functions, in Python, as scikit-learn does.

The user's functions are called in the caller's thread, for one document after the other.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from tamis._kernels import text as kernels
from tamis._kernels.text import Tokens
from tamis.extras import import_package
from tamis.text.checking import check_phrases
from tamis.text.corpus import Source, get_only_column, grow_chunk, is_missing, refuse_single_text
from tamis.text.lexicon import Lexicon, PackedTexts
from tamis.text.tokenizer import Analyzer, LexiconCounts, count_tokens_per_word

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

TOKEN_PATTERN: Final = r"(?u)\b\w\w+\b"  # words of two or more characters, as `Tokenizer` reads them
StripAccents = Literal["ascii", "unicode"] | Callable[[str], str]
_OVERHEAD = 64  # bytes added to the size of each document, so that empty documents fill chunks, too


class Tokenized(NamedTuple):
    """The tokens of some documents."""

    tokens: list[list[str]]
    size: int  # characters of those documents that are texts, and `_OVERHEAD` per document

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class CustomAnalyzer:
    """The definition of a token by scikit-learn's parameters, and by `pairs` as in `Tokenizer`.

    Both have the methods of the protocol `Reader` (`tamis.text.tokenizer`).

    >>> CustomAnalyzer(token_pattern=r"[a-z]+", ngram_range=(1, 2)).tokens("Send 5 EUR")
    ['send', 'eur', 'send eur']
    """

    # "char_wb": n-grams of characters within words, with the spaces around them
    analyzer: Analyzer | Callable[[Any], Iterable[str]] = "word"
    preprocessor: Callable[[Any], Any] | None = None
    tokenizer: Callable[[Any], Iterable[str]] | None = None
    token_pattern: str | None = TOKEN_PATTERN
    lowercase: bool = True
    strip_accents: StripAccents | None = None
    stop_words: frozenset[str] = frozenset()
    ngram_range: tuple[int, int] | None = (1, 1)  # pairs only if None
    pairs: int = 0

    def __post_init__(self) -> None:
        for name in ("preprocessor", "tokenizer"):
            given = getattr(self, name)
            if not (given is None or callable(given)):
                raise TypeError(f"got {name}={given!r}, expected a function, or None")
        if not (callable(self.analyzer) or self.analyzer in ("word", "char", "char_wb")):
            raise ValueError(
                f"got analyzer={self.analyzer!r}, expected 'word', 'char', 'char_wb' or a function"
            )
        if self.analyzer == "word" and self.tokenizer is None and not isinstance(self.token_pattern, str):
            raise TypeError(f"got token_pattern={self.token_pattern!r}, expected a regular expression")
        if not (self.strip_accents in (None, "ascii", "unicode") or callable(self.strip_accents)):
            raise ValueError(
                f"got strip_accents={self.strip_accents!r}, expected 'ascii', 'unicode', a function or None"
            )
        check_phrases(self.analyzer, self.ngram_range, self.pairs, self.stop_words)
        _ = self._analyze  # raises for an invalid pattern

    @property
    def tokens_per_word(self) -> int:
        return count_tokens_per_word(self.analyzer, self.ngram_range, self.pairs)

    @cached_property
    def vectorizer(self) -> "CountVectorizer":
        """scikit-learn's vectorizer with the same parameters; it makes no phrases of words."""
        # It is imported here, because it imports 83 modules that the built-in tokenizer does not need.
        return import_package("sklearn.feature_extraction.text", "CustomAnalyzer").CountVectorizer(
            analyzer=self.analyzer,
            preprocessor=self.preprocessor,
            tokenizer=self.tokenizer,
            token_pattern=self.token_pattern,
            lowercase=self.lowercase,
            strip_accents=self.strip_accents,
            stop_words=self.stop_words or None,
            ngram_range=(1, 1) if self.analyzer == "word" else self.ngram_range,
        )

    @cached_property
    def _analyze(self) -> Callable[[Any], Iterable[str]]:
        analyze: Callable[[Any], Iterable[str]] = self.vectorizer.build_analyzer()
        return analyze

    @property
    def accepts_any_object(self) -> bool:
        """Whether a document may be any object, because the first function called with it is the user's."""
        if callable(self.analyzer) or self.preprocessor is not None:
            return True
        return self.tokenizer is not None and not self.lowercase and self.strip_accents is None

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def tokens(self, document: Any, row: int = 0) -> list[str]:
        """Return the tokens of one document; a missing document has none."""
        if is_missing(document):
            return []
        if not (isinstance(document, str) or self.accepts_any_object):
            raise TypeError(
                f"document {row} is a {type(document).__name__}, expected text: "
                "str, bytes, a Path to a file, or None"
            )
        tokens = list(self._analyze(document))
        for token in tokens:
            if not isinstance(token, str):
                raise TypeError(f"document {row} has the token {token!r}, expected tokens that are str")
        return _add_phrases(tokens, self.ngram_range, self.pairs) if self.analyzer == "word" else tokens

    def preprocess(self, document: Any) -> Any:
        return self.vectorizer.build_preprocessor()(document)

    def split(self, document: Any) -> Iterable[str]:
        """Return the words of a preprocessed document."""
        words: Iterable[str] = self.vectorizer.build_tokenizer()(document)
        return words

    def name(self, term: str) -> str:
        """Return the token that a term of a vocabulary stands for: the term itself, as in scikit-learn."""
        if self.lowercase and not self.accepts_any_object and term != term.lower():
            warnings.warn(
                f"the term {term!r} is never found, because texts are lowercased: write {term.lower()!r}, "
                "or ask for lowercase=False",
                stacklevel=2,
            )
        return term

    def read_chunks(self, documents: Any, source: Source, chunk: int, max_chunk: int) -> Iterator[Tokenized]:
        """Yield the tokens of documents, in chunks of about `chunk` characters that grow to `max_chunk`."""
        refuse_single_text(documents)
        column = get_only_column(documents)
        if not isinstance(column, Iterable) or getattr(column, "shape", None) == ():
            raise TypeError(f"got a {type(documents).__name__}, expected an iterable of documents")
        batch: list[list[str]] = []
        size = 0
        for row, document in enumerate(column):
            content = source.read_content(document, row)
            batch.append(self.tokens(content, row))
            size += _OVERHEAD + (len(content) if isinstance(content, str) else 0)
            if size >= chunk:
                yield Tokenized(batch, size)
                batch, size, chunk = [], 0, grow_chunk(chunk, max_chunk)
        if batch:
            yield Tokenized(batch, size)

    def count(self, documents: Tokenized) -> LexiconCounts:
        known: dict[str, int] = {}
        numbers = [known.setdefault(token, len(known)) for tokens in documents.tokens for token in tokens]
        ends = np.cumsum([0, *map(len, documents.tokens)]).astype(np.int64)
        return LexiconCounts(
            _make_lexicon(list(known)), kernels.count_numbers(np.array(numbers, np.int32), ends, len(known))
        )


def _add_phrases(words: list[str], ngram_range: tuple[int, int] | None, pairs: int) -> list[str]:
    """Return the n-grams of the words and the pairs at a distance, named as by the built-in tokenizer."""
    least, most = ngram_range or (1, 0)
    if (least, most, pairs) == (1, 1, 0):
        return words
    tokens = [" ".join(words[i : i + n]) for n in range(least, most + 1) for i in range(len(words) - n + 1)]
    for distance in range(2 if least <= 2 <= most else 1, pairs + 1):  # a pair at distance 1 is a 2-gram
        separator = " " + "* " * (distance - 1)  # a star for each skipped word
        tokens += [f"{first}{separator}{last}" for first, last in zip(words, words[distance:], strict=False)]
    return tokens


def _make_lexicon(tokens: list[str]) -> Lexicon:
    """Return a lexicon of distinct tokens, in their order."""
    try:
        packed = PackedTexts.pack([token.encode() for token in tokens])
    except UnicodeEncodeError as error:
        raise ValueError(f"got the token {error.object!r}, expected tokens without lone surrogates") from None
    keys = kernels.make_keys(*packed)  # 64-bit numbers: the bytes of a short token, a hash of a longer one
    return Lexicon.from_tokens(Tokens(*packed, keys))
