"""texts → sparse counts of tokens: scikit-learn's transformer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from tamis import arrays
from tamis._kernels.text import Rows, Words
from tamis._kernels.threads import ahead
from tamis.stats import Keys
from tamis.text.alphabet import Digit, Fold, Unspaced
from tamis.text.checking import is_share, texts, whole
from tamis.text.corpus import CHUNK, LARGE, Corpus, corpora, refuse_one
from tamis.text.custom import TOKEN_PATTERN, CustomAnalyzer, StripAccents, Tokenized
from tamis.text.hashing import Hashed
from tamis.text.learned import Learned
from tamis.text.lexicon import Places
from tamis.text.matrix import matrix
from tamis.text.reading import FUNCTIONS, read_tokens, reader_of
from tamis.text.source import DecodeError, Input, Source
from tamis.text.stop_words import stop_words
from tamis.text.tokenizer import Analyzer, Reader
from tamis.text.vocabulary import Gathering, GivenVocabulary, Vocabulary, evidence, summed

UNKNOWN = "<unknown>"
_LEAST = 1 << 16  # bytes of a chunk, however much is made of them


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
    analyzer : "word", "char" (runs of characters), "char_wb" (within words, with the spaces about them), or a
        function from a document to its tokens
    ngram_range : the least and the most words or characters that make a token; None for pairs only
    pairs : also two words up to so far apart (sparse orthogonal bigrams): "send money", "send * mary"
    form : "vocabulary" learns its columns from texts; "hashed" has `n_features` of them and learns nothing
    vocabulary : terms, in the order of their columns, or terms with their columns, instead of learning them
    alternate_sign : hashed columns are signed, so that tokens that share one cancel rather than add
    names : hashed columns whose tokens are remembered, the most frequent first: they have names, then
    stop_words : words that are left out: a list, or the language of one, as "en", or several languages
    min_length : characters that a word has at least; scripts without spaces always count
    min_df, max_df : texts that have a token, at least and at most: a number, or a share if it is a float
    max_features : so many columns at most: the most frequent, or those that tell classes apart best
    keep_by : "count", or "evidence": what a token says about the class, for which `fit` takes labels
    binary : whether a token is there, not how often
    unknown : a last column counts the tokens that are not in the vocabulary
    fold, unspaced, digits : see `tamis.text.alphabet`
    input : "content", or "filename" or "file" where documents are names of files or open files
    encoding, decode_error : of bytes and files; None takes UTF-8 where it is that, and guesses else
    preprocessor, tokenizer, token_pattern, strip_accents, lowercase : as in scikit-learn. A function, another
        pattern than the default, or accents stripped to ASCII or with case kept are read in Python, with the
        columns and the speed of CountVectorizer; `fold`, `unspaced`, `digits`, `min_length` are not for these
    """

    def __init__(
        self,
        *,
        analyzer: Analyzer | Callable[[Any], Iterable[str]] = "word",
        ngram_range: tuple[int, int] | None = (1, 1),
        pairs: int = 0,
        form: Literal["vocabulary", "hashed"] = "vocabulary",
        vocabulary: Iterable[str] | Mapping[str, int] | None = None,
        n_features: int = 2**20,
        alternate_sign: bool = False,
        names: int = 0,
        stop_words: str | Iterable[str] | None = None,
        min_length: int = 2,
        min_df: float = 1,
        max_df: float = 1.0,
        max_features: int | None = None,
        keep_by: Literal["count", "evidence"] = "count",
        binary: bool = False,
        unknown: bool = False,
        fold: Fold = "case",
        unspaced: Unspaced = "pairs",
        digits: Digit = "keep",
        input: Input = "content",
        encoding: str | None = None,
        decode_error: DecodeError = "replace",
        preprocessor: Callable[[Any], Any] | None = None,
        tokenizer: Callable[[Any], Iterable[str]] | None = None,
        token_pattern: str | None = TOKEN_PATTERN,
        strip_accents: StripAccents | None = None,
        lowercase: bool = True,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.pairs = pairs
        self.form = form
        self.vocabulary = vocabulary
        self.n_features = n_features
        self.alternate_sign = alternate_sign
        self.names = names
        self.stop_words = stop_words
        self.min_length = min_length
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.keep_by = keep_by
        self.binary = binary
        self.unknown = unknown
        self.fold = fold
        self.unspaced = unspaced
        self.digits = digits
        self.input = input
        self.encoding = encoding
        self.decode_error = decode_error
        self.preprocessor = preprocessor
        self.tokenizer = tokenizer
        self.token_pattern = token_pattern
        self.strip_accents = strip_accents
        self.lowercase = lowercase
        self.dtype = dtype

    _learned: Learned

    # ── learning the columns ──

    def fit(self, X: object, y: object = None) -> Self:
        """Learn the columns, in memory for them alone; labels are needed to keep those of most evidence."""
        self._learn(X, y, keep=False)
        return self

    def fit_transform(self, X: object, y: object = None) -> Any:
        """Learn the columns, and count."""
        if self.form == "hashed" or self.vocabulary is not None:
            texts = list(X) if self.names and isinstance(X, Iterator) else X  # names take a pass
            return self.fit(texts, y).transform(texts)
        return self._learn(X, y, keep=True)

    def _learn(self, X: object, y: object, keep: bool) -> Any:
        """Set the columns; the counts, if they are kept."""
        refuse_one(X)
        tokenizer = self._tokenizer()
        if (given := self._given(tokenizer)) is not None:
            self._learned = given
            if isinstance(given.columns, Hashed) and self.names:
                for counted in ahead(given.tokenizer.count, self._corpora(X, given.tokenizer)):
                    given.columns.remember(counted)
            return None
        labels = None
        if self.keep_by == "evidence" and self.max_features is not None:
            if y is None:
                raise ValueError("got keep_by='evidence' and no labels, expected fit(texts, labels)")
            labels = Keys.of(y)
        gathering, documents, kept = self._gathered(tokenizer, X, labels, keep)
        numbers = gathering.tidy()
        columns = self._settle(tokenizer, gathering, documents)
        if not keep:
            return None
        moved = [Places(columns[number].astype(np.int32), np.ones(len(number))) for number in numbers]
        return self._learned.matrix(list(zip(kept, moved, strict=True)), self.dtype)

    def _settle(self, tokenizer: Reader, gathering: Gathering, documents: Words) -> Words:
        """Set the columns by what was gathered and tidied; of each entry its column, -1 if not kept."""
        vocabulary = Vocabulary.sorted(gathering.parts[0])
        columns = vocabulary.columns
        if self._prunes:
            mask = self._kept(columns, gathering, documents)
            vocabulary = vocabulary.keep(mask)
            columns = np.where(mask[columns], (np.cumsum(mask) - 1)[columns], -1)
        self._learned = Learned(tokenizer, vocabulary, self.unknown, self.binary)
        return columns

    def _gathered(
        self, tokenizer: Reader, X: object, labels: tuple[Keys, Words] | None, keep: bool
    ) -> tuple[Gathering, Words, list[Rows]]:
        """The lexicon of all texts, how many texts each class has, and their counts if they are kept."""
        group = None if labels is None else labels[1]
        classes = 1 if labels is None else len(labels[0])
        gathering, kept = Gathering(), []
        documents = np.zeros(classes, dtype=np.int64)
        at = 0
        for lexicon, rows in ahead(tokenizer.count, self._corpora(X, tokenizer, most=LARGE)):
            n = len(rows.indptr) - 1
            part = np.zeros(n, dtype=np.int64) if group is None else group[at : at + n]
            at += n
            if len(part) < n:
                break
            documents += np.bincount(part, minlength=classes)
            gathering.add(lexicon, summed(rows, len(lexicon), part, classes, self._prunes, self._prunes))
            if keep:
                kept.append(rows)
            else:
                gathering.tidy(always=False)
        if group is not None and at != len(group):
            raise ValueError(f"got {len(group)} labels, expected one for each text")
        return gathering, documents, kept

    @property
    def _prunes(self) -> bool:
        one = not is_share(self.min_df) and self.min_df <= 1
        every = is_share(self.max_df) and self.max_df == 1.0
        return not (one and every and self.max_features is None)

    def _kept(self, columns: Words, gathered: Gathering, documents: Words) -> NDArray[np.bool_]:
        """The columns that are kept."""
        has = np.empty((len(columns), len(documents)), dtype=np.int64)
        often = np.empty(len(columns), dtype=np.int64)
        has[columns], often[columns] = gathered.has.T, gathered.often.sum(axis=0)
        having = has.sum(axis=1)
        total = int(documents.sum())
        least, most = texts("min_df", self.min_df, total), texts("max_df", self.max_df, total)
        if most < least:
            raise ValueError("max_df corresponds to < documents than min_df")
        mask: NDArray[np.bool_] = (having >= least) & (having <= most)
        if self.max_features is not None and mask.sum() > self.max_features:
            often = having if self.binary else often
            says = often if self.keep_by == "count" else evidence(has, documents)
            ranked = np.argsort(-says[mask], kind="stable")[: self.max_features]
            mask[np.delete(np.flatnonzero(mask), ranked)] = False
        if not mask.any():
            raise ValueError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
        return mask

    def restrict(self, columns: object) -> Self:
        """Keep only these columns: a mask, or their numbers, as those that a model found telling."""
        learned = self._found()
        if isinstance(learned.columns, Hashed):
            raise ValueError("got hashed columns, expected a vocabulary: hashed columns cannot be left out")
        given = np.asarray(columns)
        count = len(learned.columns)
        named = np.flatnonzero(given) if given.dtype == np.bool_ and given.shape == (count,) else given
        mask = np.isin(np.arange(count), named)
        if named.dtype == np.bool_ or not mask.any() or not np.isin(named, np.arange(count)).all():
            raise ValueError(f"got columns that are not there, expected some of 0 to {count - 1}, or a mask")
        self._learned = replace(learned, columns=learned.columns.keep(mask))
        return self

    # ── counting ──

    def transform(self, X: object) -> Any:
        """Counts (texts, columns), in SciPy's CSR."""
        learned = self._found()
        return learned.matrix(list(ahead(learned.placed, self._corpora(X, learned.tokenizer))), self.dtype)

    def batches(self, X: object) -> Iterator[Any]:
        """The same, some texts at a time, for as many texts as there are: memory is that of a batch."""
        learned = self._found()
        for rows in ahead(learned.count, self._corpora(X, learned.tokenizer)):
            yield matrix(rows, learned.width, self.dtype)

    def tokens(self, text: str | bytes) -> list[str]:
        """The tokens of one text."""
        return self.build_analyzer()(text)

    def _corpora(
        self, X: object, tokenizer: Reader, chunk: int = CHUNK, most: int = 0
    ) -> Iterator[Corpus | Tokenized]:
        """The texts in chunks of such sizes, the smaller the more is made of a text."""
        weight, source = tokenizer.weight, self._source()
        least, most = max(min(_LEAST, chunk), chunk // weight), most // weight
        if isinstance(tokenizer, CustomAnalyzer):
            return tokenizer.chunks(X, source, least, most)
        return corpora(source.open(X), self.encoding, least, most)

    def _source(self) -> Source:
        return Source(self.input, self.encoding, self.decode_error)

    # ── the steps from a document to its tokens, as scikit-learn names them ──

    def decode(self, doc: Any) -> Any:
        """The text of one document that may be bytes or, as `input` says, a file."""
        return self._source().content(doc)

    def build_analyzer(self) -> Callable[[Any], list[str]]:
        """The function from a document to its tokens."""
        return partial(read_tokens, self._tokenizer(), self._source())

    def build_preprocessor(self) -> Callable[[Any], Any]:
        """The function that folds the characters of a text, before it is cut into words."""
        return self._tokenizer().preprocess

    def build_tokenizer(self) -> Callable[[Any], Iterable[str]]:
        """The function that cuts a text whose characters are folded into words, stop words included."""
        return self._tokenizer().split

    def get_stop_words(self) -> frozenset[str] | None:
        """The words that are left out, or None."""
        return stop_words(self.stop_words) or None

    # ── what the columns are ──

    def _found(self) -> Learned:
        """What was learned, or what needs no learning."""
        learned = self.__dict__.get("_learned") or self._given(self._tokenizer())
        if learned is None:
            raise NotFittedError(
                "This TokenCounts instance is not fitted yet: call fit with texts, or give a vocabulary"
            )
        return learned

    def _given(self, tokenizer: Reader) -> Learned | None:
        """Columns that need no texts; None if there are none such."""
        if self.form == "hashed":
            return Learned(
                tokenizer, Hashed(self.n_features, self.alternate_sign, self.names), False, self.binary
            )
        if self.vocabulary is None:
            return None
        return Learned(tokenizer, GivenVocabulary.of(self.vocabulary, tokenizer), self.unknown, self.binary)

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__ or self.form == "hashed" or self.vocabulary is not None

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """The token of each column; a hashed one has its number, unless its tokens are remembered."""
        learned = self._found()
        names = learned.columns.names
        return np.append(names, UNKNOWN).astype(object) if learned.unknown else names

    @property
    def vocabulary_(self) -> dict[str, int]:
        """The column of each token."""
        found = self._found().columns
        if isinstance(found, Hashed):
            raise AttributeError("hashed columns have no vocabulary: see get_feature_names_out and names=")
        return {name: k for k, name in enumerate(found.names)}

    @property
    def fixed_vocabulary_(self) -> bool:
        """Whether the vocabulary was given."""
        return self.vocabulary is not None

    def inverse_transform(self, X: Any) -> list[NDArray[np.object_]]:
        """The tokens of each row that has them."""
        names = self.get_feature_names_out()
        table = arrays.scipy_sparse().csr_array(X)
        if table.shape[1] != len(names):
            raise ValueError(f"got {table.shape[1]} columns, expected {len(names)}")
        return [names[table.indices[i:j][table.data[i:j] != 0]] for i, j in pairwise(table.indptr)]

    def _tokenizer(self) -> Reader:
        """What reads the texts; and the parameters, checked."""
        if self.form not in ("vocabulary", "hashed"):
            raise ValueError(f"got form={self.form!r}, expected 'vocabulary' or 'hashed'")
        hashed = self.form == "hashed"
        if hashed and (self.vocabulary is not None or self.unknown or self._prunes):
            raise ValueError(
                "got form='hashed' with a vocabulary, unknown=True or pruning, which need form='vocabulary'"
            )
        if not hashed and (self.alternate_sign or self.names):
            raise ValueError("got alternate_sign or names with a vocabulary, which need form='hashed'")
        self._source()
        np.dtype(self.dtype)
        whole("n_features", self.n_features, 1, 2**31 - 1)
        whole("names", self.names, 0)
        for name, share in (("min_df", self.min_df), ("max_df", self.max_df)):
            texts(name, share, 1)
        if self.keep_by not in ("count", "evidence"):
            raise ValueError(f"got keep_by={self.keep_by!r}, expected 'count' or 'evidence'")
        if self.max_features is not None:
            whole("max_features", self.max_features, 1)
        return reader_of(self)

    def describe_state(self) -> dict[str, Any]:
        """What a file holds of it, besides its parameters."""
        for name in FUNCTIONS:
            if callable(getattr(self, name)):
                raise TypeError(
                    f"got {name}={getattr(self, name)!r}, expected no function: a file holds no code"
                )
        learned = self._found()
        hashed = isinstance(learned.columns, Hashed)
        as_fitted = learned.tokenizer, hashed, learned.unknown, learned.binary
        if (self._tokenizer(), self.form == "hashed", self.unknown, self.binary) != as_fitted:
            raise ValueError("parameters were changed after fit, expected those it was fitted with: refit")
        return learned.columns.saved()

    def restore_state(self, state: dict[str, Any]) -> None:
        """As it was when it was saved."""
        columns = Hashed.restored(state) if self.form == "hashed" else GivenVocabulary.restored(state)
        self._learned = Learned(self._tokenizer(), columns, self.unknown, self.binary)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = self.form != "hashed" and self.vocabulary is None
        return tags
