"""A transformer in scikit-learn's interface from texts to sparse counts of tokens."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from tamis import arrays
from tamis._kernels import text as kernels
from tamis._kernels.text import Floats, Indices, Int64s, Rows
from tamis.stats import Keys
from tamis.text.alphabet import Digit, Fold, Unspaced
from tamis.text.checking import check_integer, check_range, count_texts, is_share
from tamis.text.corpus import (
    CHUNK_BYTES,
    MERGED_CHUNK_BYTES,
    Corpus,
    DecodeError,
    Input,
    Source,
    read_corpora,
    refuse_single_text,
)
from tamis.text.custom import TOKEN_PATTERN, CustomAnalyzer, StripAccents, Tokenized
from tamis.text.hashing import Hashed
from tamis.text.lexicon import ColumnSigns
from tamis.text.matrix import stack_rows, to_csr
from tamis.text.stop_words import stop_words
from tamis.text.tokenizer import Analyzer, Reader, Tokenizer
from tamis.text.vocabulary import (
    ChunkMerger,
    GivenVocabulary,
    Vocabulary,
    compute_class_information,
    sum_by_class,
)
from tamis.threads import map_ahead, run_together

UNKNOWN = "<unknown>"
_MIN_CHUNK = 1 << 16  # bytes: chunks are not made smaller, however many tokens a word has
_TAMIS_DEFAULTS: Final = {  # the defaults of parameters that scikit-learn's vectorizers do not have
    "fold": "case",
    "unspaced": "pairs",
    "digits": "keep",
    "min_length": 2,
}
# Parameters that may be functions.
_FUNCTIONS: Final = ("analyzer", "preprocessor", "tokenizer", "strip_accents")

# All have `len`, the `names` of the columns, `find` (the columns of a lexicon's entries) and `to_state`.
Columns = Vocabulary | GivenVocabulary | Hashed


@dataclass(frozen=True, eq=False)
class TextCounter:
    """Reads texts and counts their tokens per column."""

    reader: Reader
    columns: Columns
    unknown: bool  # whether a last column counts the tokens without a column
    binary: bool  # whether counts above 0 are replaced by 1

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns) + self.unknown

    def count(self, corpus: Corpus | Tokenized) -> Rows:
        """Return the counts of some texts."""
        return self.arrange(*self.find_columns(corpus))

    def find_columns(self, corpus: Corpus | Tokenized) -> tuple[Rows, ColumnSigns]:
        """Return the counts of the entries of a lexicon of these texts, and the column of each entry."""
        lexicon, rows = self.reader.count(corpus)
        return rows, self.columns.find(lexicon)

    def to_matrix(self, parts: list[tuple[Rows, ColumnSigns]], dtype: DTypeLike) -> Any:
        """Return the counts of many texts; each part is written to its slice of the final arrays."""
        ends = np.cumsum([0, *(len(rows.indices) for rows, _ in parts)]).tolist()
        indices, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
        tasks = [
            partial(self.arrange, *part, (indices[i:j], values[i:j]))
            for part, (i, j) in zip(parts, pairwise(ends), strict=True)
        ]
        return to_csr(stack_rows(run_together(tasks), indices, values), self.width, dtype)

    def arrange(
        self, rows: Rows, column_signs: ColumnSigns, out: tuple[Indices, Floats] | None = None
    ) -> Rows:
        """Return counts of entries as counts of columns, which are sorted in each row.

        They are written to `out`, arrays of columns and counts, if it is given.
        """
        columns, signs = column_signs
        if self.unknown:
            columns = np.where(columns < 0, np.int32(self.width - 1), columns)
        arranged = kernels.arrange(rows, columns, signs, out)
        if self.binary:  # also where tokens share a column or have a sign, as scikit-learn does
            arranged.counts.fill(1.0)
        return arranged


@dataclass(eq=False, repr=False, kw_only=True)
class TokenCounts(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Counts of words, phrases or characters, one row per text: CountVectorizer and HashingVectorizer in one.

    >>> counts = TokenCounts(vocabulary=["john", "mary", "sex", "money", "send", "meeting"], unknown=True)
    >>> text = "John sent money to Mary after the meeting about money"
    >>> counts.fit_transform([text]).toarray().astype(int).tolist()
    [[1, 1, 0, 2, 0, 1, 5]]
    >>> counts.get_feature_names_out()[-1]
    '<unknown>'
    >>> TokenCounts(binary=True).fit([text]).transform(["money money, Mary"]).sum()
    np.float64(2.0)

    Parameters
    ----------
    analyzer : "word", "char" (n-grams of characters), "char_wb" (n-grams within words and the spaces around
        them), or a function from a document to its tokens
    ngram_range : the least and the largest number of words or characters per token; None for pairs only
    pairs : the largest distance of two words that also make a token (sparse orthogonal bigrams, OSB), with a
        star for each word that is skipped: "send money", "send * mary"
    form : "vocabulary" learns its columns from texts; "hashed" has `n_features` columns, and learns at most
        their names
    vocabulary : a list of terms in the order of their columns, or a mapping from terms to columns, if the
        columns are not to be learned
    alternate_sign : whether hashed columns are signed, so that tokens that share a column cancel, not add
    names : the number of hashed columns that are named after their tokens, the most frequent first
    stop_words : words that are dropped: a list of words, a language, such as "en", or several: "en+de"
    min_length : the least number of characters of a word; words of scripts without spaces may be shorter
    min_df, max_df : the least and the largest number of texts that have a token; a float is a share of texts
    max_features : the largest number of columns; those with the largest score are kept
    keep_by : the score: "count", or "evidence", the information of a token about the class, for which `fit`
        needs labels
    binary : whether to count each token once per text
    unknown : whether a last column counts the tokens that are not in the vocabulary
    fold, unspaced, digits : see `tamis.text.alphabet`
    input : "content", or "filename" or "file" where documents are names of files or open files
    encoding, decode_error : how bytes and files are decoded; encoding None takes UTF-8 if that is valid, and
        otherwise guesses
    preprocessor, tokenizer, token_pattern, strip_accents, lowercase : as in scikit-learn. With a function, a
        pattern, strip_accents="ascii", or strip_accents and lowercase=False, texts are read in Python, with
        the columns and the speed of CountVectorizer; `fold`, `unspaced`, `digits` and `min_length` must then
        not be set
    """

    analyzer: Analyzer | Callable[[Any], Iterable[str]] = "word"
    ngram_range: tuple[int, int] | None = (1, 1)
    pairs: int = 0
    form: Literal["vocabulary", "hashed"] = "vocabulary"
    vocabulary: Iterable[str] | Mapping[str, int] | None = None
    n_features: int = 2**20
    alternate_sign: bool = False
    names: int = 0
    stop_words: str | Iterable[str] | None = None
    min_length: int = 2
    min_df: float = 1
    max_df: float = 1.0
    max_features: int | None = None
    keep_by: Literal["count", "evidence"] = "count"
    binary: bool = False
    unknown: bool = False
    fold: Fold = "case"
    unspaced: Unspaced = "pairs"
    digits: Digit = "keep"
    input: Input = "content"
    encoding: str | None = None
    decode_error: DecodeError = "replace"
    preprocessor: Callable[[Any], Any] | None = None
    tokenizer: Callable[[Any], Iterable[str]] | None = None
    token_pattern: str | None = TOKEN_PATTERN
    strip_accents: StripAccents | None = None
    lowercase: bool = True
    dtype: DTypeLike = np.float64

    # ── learning the columns ──

    def fit(self, X: object, y: object = None) -> Self:
        """Learn the columns; the texts are not kept in memory. Labels are needed for keep_by="evidence"."""
        self._learn(X, y, return_counts=False)
        return self

    def fit_transform(self, X: object, y: object = None) -> Any:
        """Learn the columns, and count."""
        if self.form == "hashed" or self.vocabulary is not None:
            # To name hashed columns, `fit` reads the texts before they are counted.
            texts = list(X) if self.names and isinstance(X, Iterator) else X
            return self.fit(texts, y).transform(texts)
        return self._learn(X, y, return_counts=True)

    def _learn(self, X: object, y: object, return_counts: bool) -> Any:
        """Set the columns; return the counts of learned columns if `return_counts`."""
        refuse_single_text(X)
        reader = self.build_reader()
        if (given := self._make_counter(reader)) is not None:
            self._counter = given
            if isinstance(given.columns, Hashed) and self.names:
                # `map_ahead` calls the function in threads, for chunks that this loop has not reached.
                for counted in map_ahead(given.reader.count, self.read_chunks(X, given.reader)):
                    given.columns.remember(counted)
            return None
        labels = None
        if self.keep_by == "evidence" and self.max_features is not None:
            if y is None:
                raise ValueError("got keep_by='evidence' and no labels, expected fit(texts, labels)")
            labels = Keys.of(y)
        merger, documents, kept_rows = self._gather(reader, X, labels, return_counts)
        numbers = merger.merge()
        columns = self.learn_columns(reader, merger, documents)
        if not return_counts:
            return None
        column_signs = [
            ColumnSigns(columns[number].astype(np.int32), np.ones(len(number))) for number in numbers
        ]
        return self._counter.to_matrix(list(zip(kept_rows, column_signs, strict=True)), self.dtype)

    def learn_columns(self, reader: Reader, merger: ChunkMerger, documents: Int64s) -> Int64s:
        """Set the columns by the merged lexicon; return the column of each entry, -1 if it is not kept."""
        vocabulary = Vocabulary.sort(merger.lexicons[0])
        columns = vocabulary.columns
        if self.prunes:
            mask = self._choose_columns(columns, merger, documents)
            vocabulary = vocabulary.keep_columns(mask)
            columns = np.where(mask[columns], (np.cumsum(mask) - 1)[columns], -1)
        self._counter = TextCounter(reader, vocabulary, self.unknown, self.binary)
        return columns

    def _gather(
        self, reader: Reader, X: object, labels: tuple[Keys, Int64s] | None, keep_rows: bool
    ) -> tuple[ChunkMerger, Int64s, list[Rows]]:
        """Return the lexicons of all texts, the number of texts per class, and the counts if `keep_rows`.

        Without labels, all texts are of one class.
        """
        group = None if labels is None else labels[1]
        classes = 1 if labels is None else len(labels[0])
        merger, kept_rows = ChunkMerger(), []
        documents = np.zeros(classes, dtype=np.int64)
        n_texts = 0
        chunks = self.read_chunks(X, reader, max_chunk=MERGED_CHUNK_BYTES)
        for lexicon, rows in map_ahead(reader.count, chunks):
            n = len(rows.indptr) - 1
            part = np.zeros(n, dtype=np.int64) if group is None else group[n_texts : n_texts + n]
            n_texts += n
            if len(part) < n:
                break
            documents += np.bincount(part, minlength=classes)
            merger.add(lexicon, sum_by_class(rows, len(lexicon), part, classes, self.prunes, self.prunes))
            if keep_rows:
                kept_rows.append(rows)
            else:
                merger.merge(always=False)
        if group is not None and n_texts != len(group):
            raise ValueError(f"got {len(group)} labels, expected one for each text")
        return merger, documents, kept_rows

    @property
    def prunes(self) -> bool:
        """Whether columns are dropped by min_df, max_df or max_features."""
        keeps_rare = not is_share(self.min_df) and self.min_df <= 1
        keeps_frequent = is_share(self.max_df) and self.max_df == 1.0
        return not (keeps_rare and keeps_frequent and self.max_features is None)

    def _choose_columns(self, columns: Int64s, merger: ChunkMerger, documents: Int64s) -> NDArray[np.bool_]:
        """Return whether to keep each column."""
        by_class = np.empty((len(columns), len(documents)), dtype=np.int64)
        occurrences = np.empty(len(columns), dtype=np.int64)
        by_class[columns] = merger.document_frequency.T
        occurrences[columns] = merger.term_frequency.sum(axis=0)
        frequency = by_class.sum(axis=1)
        total = int(documents.sum())
        least, most = count_texts("min_df", self.min_df, total), count_texts("max_df", self.max_df, total)
        if most < least:
            raise ValueError("max_df corresponds to < documents than min_df")
        mask: NDArray[np.bool_] = (frequency >= least) & (frequency <= most)
        if self.max_features is not None and mask.sum() > self.max_features:
            counts = frequency if self.binary else occurrences
            scores = counts if self.keep_by == "count" else compute_class_information(by_class, documents)
            ranked = np.argsort(-scores[mask], kind="stable")[: self.max_features]
            mask[np.delete(np.flatnonzero(mask), ranked)] = False
        if not mask.any():
            raise ValueError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
        return mask

    def restrict(self, columns: object) -> Self:
        """Keep only these columns, given by a mask or by their numbers."""
        counter = self.counter_
        if isinstance(counter.columns, Hashed):
            raise ValueError("got hashed columns, expected a vocabulary: hashed columns cannot be left out")
        given = np.asarray(columns)
        count = len(counter.columns)
        numbers = np.flatnonzero(given) if given.dtype == np.bool_ and given.shape == (count,) else given
        mask = np.isin(np.arange(count), numbers)
        if numbers.dtype == np.bool_ or not mask.any() or not np.isin(numbers, np.arange(count)).all():
            raise ValueError(f"got columns that do not exist, expected some of 0 to {count - 1}, or a mask")
        self._counter = replace(counter, columns=counter.columns.keep_columns(mask))
        return self

    # ── counting ──

    def transform(self, X: object) -> Any:
        """Return the counts (texts, columns), as a sparse matrix of SciPy."""
        counter = self.counter_
        return counter.to_matrix(
            list(map_ahead(counter.find_columns, self.read_chunks(X, counter.reader))), self.dtype
        )

    def batches(self, X: object) -> Iterator[Any]:
        """Yield the counts of some texts at a time, so that only one batch is in memory."""
        counter = self.counter_
        for rows in map_ahead(counter.count, self.read_chunks(X, counter.reader)):
            yield to_csr(rows, counter.width, self.dtype)

    def tokens(self, text: str | bytes) -> list[str]:
        """Return the tokens of one text."""
        return self.build_analyzer()(text)

    def read_chunks(
        self, X: object, reader: Reader, chunk: int = CHUNK_BYTES, max_chunk: int = 0
    ) -> Iterator[Corpus | Tokenized]:
        """Read the texts in chunks of about `chunk` bytes, which grow up to `max_chunk` if that is more.

        Both are divided by the number of tokens per word, but `chunk` is not made less than 64 KB.
        """
        per_word, source = reader.tokens_per_word, self._make_source()
        size, max_size = max(min(_MIN_CHUNK, chunk), chunk // per_word), max_chunk // per_word
        if isinstance(reader, CustomAnalyzer):
            return reader.read_chunks(X, source, size, max_size)
        return read_corpora(source.open(X), self.encoding, size, max_size)

    def _make_source(self) -> Source:
        return Source(self.input, self.encoding, self.decode_error)

    # ── the steps from a document to its tokens, as scikit-learn names them ──

    def decode(self, doc: Any) -> Any:
        """Return the text of one document that may be bytes or, as `input` says, a file."""
        return self._make_source().read_content(doc)

    def build_analyzer(self) -> Callable[[Any], list[str]]:
        """Return the function from a document to its tokens."""
        return partial(_read_tokens, self.build_reader(), self._make_source())

    def build_preprocessor(self) -> Callable[[Any], Any]:
        """Return the function that folds the characters of a text, before it is split into words."""
        return self.build_reader().preprocess

    def build_tokenizer(self) -> Callable[[Any], Iterable[str]]:
        """Return the function that splits a folded text into words, stop words included."""
        return self.build_reader().split

    def get_stop_words(self) -> frozenset[str] | None:
        """Return the words that are dropped, or None."""
        return stop_words(self.stop_words) or None

    # ── what the columns are ──

    @property
    def counter_(self) -> TextCounter:
        """The reader of texts and the columns of their tokens: learned, or given by the parameters."""
        counter = self.__dict__.get("_counter") or self._make_counter(self.build_reader())
        if counter is None:
            raise NotFittedError(
                "This TokenCounts instance is not fitted yet: call fit with texts, or give a vocabulary"
            )
        return counter

    def _make_counter(self, reader: Reader) -> TextCounter | None:
        """Return the counter if its columns follow from the parameters; None if they must be learned."""
        if self.form == "hashed":
            columns = Hashed(self.n_features, self.alternate_sign, self.names)
            return TextCounter(reader, columns, unknown=False, binary=self.binary)
        if self.vocabulary is None:
            return None
        return TextCounter(reader, GivenVocabulary.of(self.vocabulary, reader), self.unknown, self.binary)

    def fix_columns(self) -> bool:
        """Set the columns if they follow from the parameters; return whether the columns are known."""
        if (self.form == "hashed" or self.vocabulary is not None) and "_counter" not in self.__dict__:
            self.fit([])
        return self.__sklearn_is_fitted__()

    def __sklearn_is_fitted__(self) -> bool:
        return "_counter" in self.__dict__ or self.form == "hashed" or self.vocabulary is not None

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the token of each column; a hashed column without remembered tokens has its number."""
        counter = self.counter_
        names = counter.columns.names
        return np.append(names, UNKNOWN).astype(object) if counter.unknown else names

    @property
    def vocabulary_(self) -> dict[str, int]:
        """The column of each token."""
        columns = self.counter_.columns
        if isinstance(columns, Hashed):
            raise AttributeError("hashed columns have no vocabulary: see get_feature_names_out and names=")
        return {name: k for k, name in enumerate(columns.names)}

    @property
    def fixed_vocabulary_(self) -> bool:
        """Whether the vocabulary was given."""
        return self.vocabulary is not None

    def inverse_transform(self, X: Any) -> list[NDArray[np.object_]]:
        """Return, for each row, the tokens of the columns that are not 0."""
        names = self.get_feature_names_out()
        table = arrays.import_scipy_sparse().csr_array(X)
        if table.shape[1] != len(names):
            raise ValueError(f"got {table.shape[1]} columns, expected {len(names)}")
        return [names[table.indices[i:j][table.data[i:j] != 0]] for i, j in pairwise(table.indptr)]

    def build_reader(self) -> Reader:
        """Check the parameters, and make the reader of texts that they describe."""
        if self.form not in ("vocabulary", "hashed"):
            raise ValueError(f"got form={self.form!r}, expected 'vocabulary' or 'hashed'")
        hashed = self.form == "hashed"
        if hashed and (self.vocabulary is not None or self.unknown or self.prunes):
            raise ValueError(
                "got form='hashed' with a vocabulary, unknown=True or pruning, which need form='vocabulary'"
            )
        if not hashed and (self.alternate_sign or self.names):
            raise ValueError("got alternate_sign or names with a vocabulary, which need form='hashed'")
        self._make_source()
        np.dtype(self.dtype)
        check_integer("n_features", self.n_features, 1, 2**31 - 1)
        check_integer("names", self.names, 0)
        for name, share in (("min_df", self.min_df), ("max_df", self.max_df)):
            count_texts(name, share, 1)
        if self.keep_by not in ("count", "evidence"):
            raise ValueError(f"got keep_by={self.keep_by!r}, expected 'count' or 'evidence'")
        if self.max_features is not None:
            check_integer("max_features", self.max_features, 1)
        return self._make_reader()

    def _make_reader(self) -> Reader:
        """Return the compiled tokenizer if it can do what the parameters ask for, else one in Python."""
        shared: dict[str, Any] = {
            "analyzer": self.analyzer,
            "ngram_range": check_range(self.ngram_range),
            "pairs": self.pairs,
            "stop_words": stop_words(self.stop_words),
        }
        tamis_options = {name: getattr(self, name) for name in _TAMIS_DEFAULTS}
        for name, reason in self._find_unused():
            warnings.warn(f"{name} is not used, because {reason}: leave it out", stacklevel=4)
        if not self._needs_python():
            return Tokenizer(**shared, **tamis_options | {"fold": self._choose_fold()})
        for name, default in _TAMIS_DEFAULTS.items():
            if tamis_options[name] != default:
                raise ValueError(
                    f"got {name}={tamis_options[name]!r} with a pattern or function of your own, expected "
                    f"{default!r}: such texts are read by lowercase, strip_accents and the pattern or "
                    "function alone"
                )
        others = ("preprocessor", "tokenizer", "token_pattern", "lowercase", "strip_accents")
        return CustomAnalyzer(**shared, **{name: getattr(self, name) for name in others})

    def _find_unused(self) -> list[tuple[str, str]]:
        """Return the parameters that the others make useless, each with the reason."""
        pattern = self.token_pattern not in (None, TOKEN_PATTERN)
        if self.analyzer == "word":
            return [("token_pattern", "tokenizer is given")] if self.tokenizer is not None and pattern else []
        given = {"token_pattern": pattern, "tokenizer": self.tokenizer is not None}
        reason = f"analyzer is {self.analyzer!r}"
        if callable(self.analyzer):
            given["preprocessor"] = self.preprocessor is not None
            given["ngram_range"] = self.ngram_range not in (None, (1, 1))
            reason = "analyzer is a function"
        return [(name, reason) for name, is_given in given.items() if is_given]

    def _needs_python(self) -> bool:
        """Return whether the parameters ask for what the compiled tokenizer cannot do."""
        if callable(self.analyzer) or self.preprocessor is not None:
            return True
        if self.strip_accents is not None and (self.strip_accents != "unicode" or not self.lowercase):
            return True
        own_words = self.tokenizer is not None or self.token_pattern != TOKEN_PATTERN
        return bool(self.analyzer == "word" and own_words)

    def _choose_fold(self) -> Fold:
        """Return the folding of characters that `fold`, `lowercase` and `strip_accents` ask for."""
        fold: Fold = self.fold
        if self.strip_accents == "unicode":
            if fold not in ("case", "base"):
                raise ValueError(f"got strip_accents='unicode' and fold={fold!r}, expected one of them")
            return "base"
        if self.lowercase:
            return fold
        if fold not in ("case", "none"):
            raise ValueError(f"got lowercase=False and fold={fold!r}, which folds case: expected one of them")
        return "none"

    def describe_state(self) -> dict[str, Any]:
        """Return the state that a file holds, besides the parameters."""
        for name in _FUNCTIONS:
            if callable(getattr(self, name)):
                raise TypeError(
                    f"got {name}={getattr(self, name)!r}, expected no function: a file holds no code"
                )
        counter: TextCounter = self.counter_
        hashed = isinstance(counter.columns, Hashed)
        as_fitted = counter.reader, hashed, counter.unknown, counter.binary
        if (self.build_reader(), self.form == "hashed", self.unknown, self.binary) != as_fitted:
            raise ValueError("parameters were changed after fit, expected those it was fitted with: refit")
        return counter.columns.to_state()

    def restore_state(self, state: dict[str, Any]) -> None:
        """Set the state that a file holds."""
        columns = Hashed.from_state(state) if self.form == "hashed" else GivenVocabulary.from_state(state)
        self._counter = TextCounter(self.build_reader(), columns, self.unknown, self.binary)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = self.form != "hashed" and self.vocabulary is None
        return tags


def _read_tokens(reader: Reader, source: Source, document: Any) -> list[str]:
    """Return the tokens of one document that may be bytes, a file or missing."""
    return reader.tokens(
        source.read_text(document) if isinstance(reader, Tokenizer) else source.read_content(document)
    )
