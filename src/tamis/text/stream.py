"""Fit a model to a stream of texts and labels, by sums per class, in one pass.

No matrix is built: a chunk of texts is counted, its counts are added to the sums of its classes, and it is
released. So the memory depends on the numbers of classes and of columns (or of distinct tokens, if columns
are learned), not on the number of texts.
"""

import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from tamis._kernels import text as kernels
from tamis._kernels.text import Indices, Int64s, Rows
from tamis.progress import Line
from tamis.stats import Exact, Keys, Tally
from tamis.text.corpus import CHUNK_BYTES, MERGED_CHUNK_BYTES, Corpus
from tamis.text.counts import TokenCounts
from tamis.text.custom import Tokenized
from tamis.text.hashing import Hashed
from tamis.text.lexicon import Lexicon
from tamis.text.matrix import to_csr
from tamis.text.tokenizer import LexiconCounts
from tamis.text.vocabulary import ChunkMerger, ClassSums, sum_by_class
from tamis.threads import map_ahead

WIDTH = 2**18  # the number of hashed columns of a model that is given without TokenCounts: 2 MB per class
# Bytes of text per chunk where columns are known before the pass, so that lexicons need not be merged. Such a
# chunk takes 20 MB with its counts, and several are in memory.
_SMALL_CHUNK = 1 << 19
_DELAY = 2.0  # seconds before progress is shown


class Chunk(NamedTuple):
    """Some texts and their labels."""

    corpus: Corpus | Tokenized  # texts in UTF-8, or tokens if a function of the user's makes these
    labels: list[Any]


def fit_stream(
    model: Any,
    texts: Iterable[tuple[Any, Any]],
    *,
    more: bool = False,
    classes: object = None,
    progress: bool | None = None,
) -> Pipeline:
    """Fit naive Bayes to any number of texts with labels, in one pass; return a pipeline that takes texts.

    `model` is `make_pipeline(TokenCounts(…), MultinomialNB(…))`, or only the classifier; then the counts are
    hashed. The model itself is fitted, not a copy; with `more`, it adds to what it has learned before. A
    vocabulary is learned in the same pass. A classifier that cannot learn from sums, such as those of
    scikit-learn, learns from one matrix per chunk; it may need all `classes`. `progress` is whether to show
    the progress; by default it is shown in a terminal.

    >>> import tamis
    >>> mail = [
    ...     ("cheap pills", "spam"),
    ...     ("see you at lunch", "ham"),
    ...     ("cheap lunch", "ham"),
    ...     ("pills now", "spam"),
    ... ]
    >>> pipeline = tamis.text.fit_stream(tamis.MultinomialNB(), iter(mail))
    >>> pipeline.predict(["cheap pills now", "see you at lunch then"]).tolist()
    ['spam', 'ham']
    """
    pipeline, token_counts, learner = _split_pipeline(model)
    copy = deepcopy if more else clone
    new_counts, new_learner = copy(token_counts), copy(learner)
    has_columns = new_counts.fix_columns()  # whether they are known before any text is read
    chunks = _Progress(progress).watch(_read_chunks(new_counts, texts, has_columns))
    # "counts", "flags" (each count above 0 is 1), or None if the classifier cannot learn from sums.
    sum_kind = getattr(new_learner, "sum_kind", None)
    # Signed counts may be below 0, which the classifier must check text by text: sums would hide it.
    if sum_kind is None or (new_counts.form == "hashed" and new_counts.alternate_sign):
        _learn_rows(new_counts, new_learner, chunks, classes)
    else:
        sum_chunks = _sum_known_columns if has_columns else _sum_new_columns
        once_per_text = new_counts.binary or sum_kind == "flags"
        sums = sum_chunks(new_counts, chunks, once_per_text, _Classes(new_learner.missing_label))
        new_learner.partial_fit_sums(sums, classes)
    # The model is changed only now, so that an error leaves it as it was.
    token_counts.__dict__, learner.__dict__ = new_counts.__dict__, new_learner.__dict__
    return pipeline


def _split_pipeline(model: Any) -> tuple[Pipeline, TokenCounts, Any]:
    """Return a pipeline of counts and a classifier, and these two steps."""
    if not isinstance(model, Pipeline):
        model = make_pipeline(TokenCounts(form="hashed", n_features=WIDTH), model)
    steps = [step for _, step in model.steps]
    if len(steps) != 2 or not isinstance(steps[0], TokenCounts) or not hasattr(steps[1], "partial_fit"):
        names = ", ".join(type(step).__name__ for step in steps)
        raise TypeError(
            f"got a pipeline of {names}, expected TokenCounts and a classifier that has partial_fit, such as "
            "tamis.MultinomialNB: weights such as TfIdf need all texts at once"
        )
    return model, steps[0], steps[1]


def _read_chunks(
    token_counts: TokenCounts, texts: Iterable[tuple[Any, Any]], has_columns: bool
) -> Iterator[Chunk]:
    """Read the texts in chunks, each with its labels; chunks grow if their lexicons are to be merged."""
    given: Any = texts
    if not isinstance(given, Iterable):
        raise TypeError(f"got a {type(texts).__name__}, expected texts with labels: zip(texts, labels)")
    labels: list[Any] = []  # of the texts read since the last chunk

    def documents() -> Iterator[Any]:
        for row, pair in enumerate(given):
            if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2:
                raise TypeError(
                    f"item {row} is a {type(pair).__name__}, expected (text, label): zip(texts, labels)"
                )
            labels.append(pair[1])
            yield pair[0]

    # If columns are learned, each chunk is larger than the last, so that fewer lexicons have to be merged; 0
    # leaves all chunks of one size.
    size, max_size = (_SMALL_CHUNK, 0) if has_columns else (CHUNK_BYTES, MERGED_CHUNK_BYTES)
    for corpus in token_counts.read_chunks(documents(), token_counts.build_reader(), size, max_size):
        # `documents` has read no more pairs than this chunk has texts.
        yield Chunk(corpus, labels[: len(corpus)])
        labels.clear()


class _Classes:
    """Numbers the labels by first occurrence, and counts the texts of each."""

    def __init__(self, missing: object) -> None:
        self.missing = missing  # the value that stands for a missing label, besides None and NaN
        self.numbers: dict[Any, int] = {}
        self.documents = np.zeros(0, dtype=np.int64)  # (classes,): texts of each class so far, by its number

    def number(self, labels: list[Any]) -> Int64s:
        """Return the number of each label; a new label gets the next number."""
        if any(label is None or label != label or label == self.missing for label in labels):
            raise ValueError(
                "a label is missing, expected one for each text: leave the text out, or call fit with "
                "all texts"
            )
        keys, group = Keys.of(labels)
        numbers = np.array([self.numbers.setdefault(key, len(self.numbers)) for key in keys], dtype=np.int64)
        group = numbers[group]
        documents = np.bincount(group, minlength=len(self.numbers))
        documents[: len(self.documents)] += self.documents
        self.documents = documents
        return group

    def make_tally(self, totals: Int64s) -> Tally:
        """Return the sums (classes, columns), with the classes sorted as `Keys` sorts labels.

        `totals` has the classes in the order of their numbers.
        """
        if not self.numbers:
            raise ValueError("got no texts, expected at least one: was the iterator used before?")
        keys, positions = Keys.of(list(self.numbers))
        documents = self.documents
        if (np.diff(positions) < 0).any():
            order = np.argsort(positions)
            documents, totals = documents[order], totals[order]
        return Tally(weight=Exact.from_integers(documents), total=Exact.from_integers(totals), keys=keys)


def _sum_known_columns(
    token_counts: TokenCounts, chunks: Iterator[Chunk], once_per_text: bool, classes: _Classes
) -> Tally:
    """Sum the counts of each class, for columns that are known before the pass.

    If `once_per_text`, a token counts once for each text that has it.
    """
    counter = token_counts.counter_  # reads texts and finds the columns of their tokens
    totals = np.zeros((0, counter.width), dtype=np.int64)
    all_columns = np.arange(counter.width, dtype=np.int32)

    def count(chunk: Chunk) -> tuple[list[Any], LexiconCounts, Rows, Indices]:
        counted = counter.reader.count(chunk.corpus)
        column_signs = counter.columns.find(counted.lexicon)  # the column of each entry; all signs are 1 here
        if once_per_text or counter.unknown:
            # Convert counts of tokens to counts of columns: a text has a column once, even if several of its
            # tokens share it; and tokens without a column are counted in the last one.
            rows, columns = counter.arrange(counted.rows, column_signs), all_columns
        else:
            rows, columns = counted.rows, column_signs.columns
        if once_per_text:
            rows = Rows(rows.indptr, rows.indices, np.ones(len(rows.counts)))
        return chunk.labels, counted, rows, columns

    # Threads count the next chunks, while this one adds up the last.
    for labels, counted, rows, columns in map_ahead(count, chunks):
        group = classes.number(labels)
        if len(classes.documents) > len(totals):
            longer = np.zeros((2 * len(classes.documents), counter.width), dtype=np.int64)
            longer[: len(totals)] = totals
            totals = longer
        kernels.add_rows(rows, columns, group, totals)
        if isinstance(counter.columns, Hashed):
            counter.columns.remember(counted)  # the most frequent tokens, which name their columns
    return classes.make_tally(totals[: len(classes.documents)])


def _sum_new_columns(
    token_counts: TokenCounts, chunks: Iterator[Chunk], once_per_text: bool, classes: _Classes
) -> Tally:
    """Sum the counts of each class as `_sum_known_columns` does; learn the columns in the same pass."""
    merger, tokenizer, prunes = ChunkMerger(), token_counts.build_reader(), token_counts.prunes
    # The sums wanted of each token: how many texts of a class have it, and how often it occurs in them. Both
    # are wanted if it `prunes`: if min_df, max_df or max_features drop columns.
    needs_documents, needs_terms = once_per_text or prunes, not once_per_text or prunes

    def number_labels() -> Iterator[tuple[Corpus | Tokenized, Int64s, int]]:
        for chunk in chunks:
            yield chunk.corpus, classes.number(chunk.labels), len(classes.documents)

    def count(item: tuple[Corpus | Tokenized, Int64s, int]) -> tuple[Lexicon, ClassSums]:
        corpus, group, count_of_classes = item
        lexicon, rows = tokenizer.count(corpus)
        return lexicon, sum_by_class(
            rows, len(lexicon), group, count_of_classes, needs_documents, needs_terms
        )

    for lexicon, sums in map_ahead(count, number_labels()):
        merger.add(lexicon, sums)
        merger.merge(always=False)  # only if the chunks since the last merge are large together
    merger.merge()
    columns = token_counts.learn_columns(tokenizer, merger, classes.documents)
    counter, kept = token_counts.counter_, columns >= 0
    sums_by_entry = merger.document_frequency if once_per_text else merger.term_frequency
    if counter.unknown and once_per_text and not kept.all():
        raise ValueError(
            "got unknown=True, binary counts and a vocabulary pruned in the same pass, expected at most two "
            "of these: fit TokenCounts first, then stream with more=True"
        )
    totals = np.zeros((len(classes.documents), counter.width), dtype=np.int64)
    kept_sums = sums_by_entry if kept.all() else np.ascontiguousarray(sums_by_entry[:, kept])
    kernels.add_columns(kept_sums, columns[kept], totals)
    if counter.unknown:  # the last column counts the tokens without a column
        totals[:, -1] = sums_by_entry[:, ~kept].sum(axis=1)
    return classes.make_tally(totals)


def _learn_rows(token_counts: TokenCounts, learner: Any, chunks: Iterator[Chunk], classes: object) -> None:
    """Learn from one matrix per chunk."""
    if not token_counts.__sklearn_is_fitted__():
        raise TypeError(
            f"a {type(learner).__name__} learns from rows, for which the columns must be known: expected "
            "TokenCounts(form='hashed'), one with a vocabulary, or one that was fitted, with more=True"
        )
    counter = token_counts.counter_

    def count(chunk: Chunk) -> tuple[list[Any], Rows]:
        return chunk.labels, counter.count(chunk.corpus)

    for labels, rows in map_ahead(count, chunks):
        options = {} if classes is None else {"classes": classes}
        learner.partial_fit(to_csr(rows, counter.width, token_counts.dtype), labels, **options)


class _Progress:
    """Shows the number of texts read, and the speed."""

    def __init__(self, shown: bool | None) -> None:
        self._line = Line()
        self._shown = self._line.is_terminal if shown is None else shown
        self._always = shown is True
        self._start = time.monotonic()
        self._texts = self._bytes = 0

    def watch(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the same chunks, and show how many texts were read."""
        try:
            for chunk in chunks:
                yield chunk
                self._texts += len(chunk.corpus)
                self._bytes += chunk.corpus.size
                now = time.monotonic()
                if self._shown and now - self._start > _DELAY and self._line.is_due(now):
                    self._line.draw(self._describe(now), now)
        finally:
            now = time.monotonic()
            if self._always or (self._shown and now - self._start > _DELAY):
                self._line.end(self._describe(now))

    def _describe(self, now: float) -> str:
        seconds = max(now - self._start, 1e-9)
        size = self._bytes / 1e6
        return f"{self._texts:,} texts, {size:,.1f} MB, {size / seconds:,.1f} MB/s, {seconds:.0f} s"
