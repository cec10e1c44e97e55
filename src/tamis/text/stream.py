"""texts and labels as they come → sums by class → a fitted model, in one pass and in bounded memory.

No matrix is built: a chunk of texts is counted, its counts are added to the sums of its classes, and it is
gone.
"""

import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from tamis._kernels import text as kernels
from tamis._kernels.text import Indices, Rows, Words
from tamis._kernels.threads import ahead
from tamis.progress import Line
from tamis.stats import Exact, Keys, Tally
from tamis.text.corpus import CHUNK, LARGE, Corpus
from tamis.text.counts import TokenCounts
from tamis.text.custom import Tokenized
from tamis.text.hashing import Hashed
from tamis.text.lexicon import Lexicon
from tamis.text.matrix import matrix
from tamis.text.tokenizer import Counted
from tamis.text.vocabulary import Gathering, Sums, summed

WIDTH = 2**18  # columns where a model comes without counts: 2 MB a class
_SMALL = 1 << 19  # bytes worked on at a time, if nothing is gained by more: with what they become, 20 MB
_PATIENCE = 2.0  # seconds before anybody is told how far it has come


class Chunk(NamedTuple):
    """Some texts and their labels."""

    corpus: Corpus | Tokenized
    labels: list[Any]


def fit_stream(
    model: Any,
    texts: Iterable[tuple[Any, Any]],
    *,
    more: bool = False,
    classes: object = None,
    progress: bool | None = None,
) -> Pipeline:
    """Fit naive Bayes to texts with labels, however many, in one pass; what is returned takes texts.

    `model` is `make_pipeline(TokenCounts(…), MultinomialNB(…))`, or the classifier alone, whose counts are
    hashed then. It is fitted itself, and no copy; `more` adds to what it has learned before. A vocabulary
    that is to be learned is learned in the same pass. A classifier that cannot learn from sums, as those of
    scikit-learn, learns from a matrix for each chunk; it may need to be told all `classes`. Progress is shown
    in a terminal, or as asked.

    >>> import tamis
    >>> mail = [
    ...     ("cheap pills", "spam"),
    ...     ("see you at lunch", "ham"),
    ...     ("cheap lunch", "ham"),
    ...     ("pills now", "spam"),
    ... ]
    >>> sieve = tamis.text.fit_stream(tamis.MultinomialNB(), iter(mail))
    >>> sieve.predict(["cheap pills now", "see you at lunch then"]).tolist()
    ['spam', 'ham']
    """
    pipeline, counts, learner = _steps(model)
    reader, pupil = (deepcopy(counts), deepcopy(learner)) if more else (clone(counts), clone(learner))
    if (reader.form == "hashed" or reader.vocabulary is not None) and "_learned" not in reader.__dict__:
        reader.fit([])
    known = reader.__sklearn_is_fitted__()
    chunks = _Meter(progress).watched(_chunks(reader, texts, known))
    takes = getattr(pupil, "sum_kind", None)
    if takes is None or (reader.form == "hashed" and reader.alternate_sign):
        _learn_rows(reader, pupil, chunks, classes)
    else:
        made = _filed_sums if known else _gathered_sums
        flags = reader.binary or takes == "flags"
        pupil.partial_fit_sums(made(reader, chunks, flags, _Classes(pupil.missing_label)), classes)
    counts.__dict__, learner.__dict__ = reader.__dict__, pupil.__dict__  # at last: nothing is half learned
    return pipeline


def _steps(model: Any) -> tuple[Pipeline, TokenCounts, Any]:
    """A pipeline of counts and a classifier, and these two."""
    if not isinstance(model, Pipeline):
        model = make_pipeline(TokenCounts(form="hashed", n_features=WIDTH), model)
    steps = [step for _, step in model.steps]
    if len(steps) != 2 or not isinstance(steps[0], TokenCounts) or not hasattr(steps[1], "partial_fit"):
        found = ", ".join(type(step).__name__ for step in steps)
        raise TypeError(
            f"got a pipeline of {found}, expected TokenCounts and a classifier that learns bit by bit, as "
            "tamis.MultinomialNB: what weighs counts by all texts needs them all at once"
        )
    return model, steps[0], steps[1]


def _chunks(counts: TokenCounts, texts: Iterable[tuple[Any, Any]], known: bool) -> Iterator[Chunk]:
    """The texts as `counts` cuts them, each chunk with its labels; those to be merged grow."""
    given: Any = texts
    if not isinstance(given, Iterable):
        raise TypeError(f"got a {type(texts).__name__}, expected texts with labels: zip(texts, labels)")
    labels: list[Any] = []

    def documents() -> Iterator[Any]:
        for row, pair in enumerate(given):
            if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2:
                raise TypeError(
                    f"item {row} is a {type(pair).__name__}, expected (text, label): zip(texts, labels)"
                )
            labels.append(pair[1])
            yield pair[0]

    chunk, most = (_SMALL, 0) if known else (CHUNK, LARGE)
    for corpus in counts._corpora(documents(), counts._tokenizer(), chunk, most):
        yield Chunk(corpus, labels[: len(corpus)])  # no more were taken than are in it
        labels.clear()


class _Classes:
    """Labels as they come, by number, and how many texts each has."""

    def __init__(self, missing: object) -> None:
        self.missing = missing  # the label that stands for none
        self.numbers: dict[Any, int] = {}
        self.documents = np.zeros(0, dtype=np.int64)

    def group(self, labels: list[Any]) -> Words:
        """The number of each label; new ones get the next."""
        if any(label is None or label != label or label == self.missing for label in labels):
            raise ValueError(
                "a label is missing, expected one for each text: leave the text out, or call fit with all"
            )
        keys, group = Keys.of(labels)
        numbers = np.array([self.numbers.setdefault(key, len(self.numbers)) for key in keys], dtype=np.int64)
        found = numbers[group]
        more = np.bincount(found, minlength=len(self.numbers))
        more[: len(self.documents)] += self.documents
        self.documents = more
        return found

    def tally(self, totals: Words) -> Tally:
        """The sums (classes, columns) by label."""
        if not self.numbers:
            raise ValueError("got no texts, expected at least one: was the iterator used before?")
        keys, order = Keys.of(list(self.numbers))
        documents = self.documents
        if (np.diff(order) < 0).any():
            place = np.argsort(order)
            documents, totals = documents[place], totals[place]
        return Tally(weight=Exact.from_integers(documents), total=Exact.from_integers(totals), keys=keys)


def _filed_sums(counts: TokenCounts, chunks: Iterator[Chunk], flags: bool, classes: _Classes) -> Tally:
    """Sums over columns that are known."""
    learned = counts._found()
    totals = np.zeros((0, learned.width), dtype=np.int64)
    itself = np.arange(learned.width, dtype=np.int32)

    def count(chunk: Chunk) -> tuple[list[Any], Counted, Rows, Indices]:
        found = learned.tokenizer.count(chunk.corpus)
        places = learned.columns.find(found.lexicon)
        if flags or learned.unknown:  # what shares a column must be known by document
            rows, columns = learned.arranged(found.rows, places), itself
        else:
            rows, columns = found.rows, places.columns
        if flags:
            rows = Rows(rows.indptr, rows.indices, np.ones(len(rows.counts)))
        return chunk.labels, found, rows, columns

    for labels, found, rows, columns in ahead(count, chunks):
        group = classes.group(labels)
        if len(classes.documents) > len(totals):
            wider = np.zeros((2 * len(classes.documents), learned.width), dtype=np.int64)
            wider[: len(totals)] = totals
            totals = wider
        kernels.add(rows, columns, group, totals)
        if isinstance(learned.columns, Hashed):
            learned.columns.remember(found)
    return classes.tally(totals[: len(classes.documents)])


def _gathered_sums(counts: TokenCounts, chunks: Iterator[Chunk], flags: bool, classes: _Classes) -> Tally:
    """Sums over columns that are learned in the same pass."""
    gathering, tokenizer = Gathering(), counts._tokenizer()
    has, often = flags or counts._prunes, not flags or counts._prunes

    def grouped() -> Iterator[tuple[Corpus | Tokenized, Words, int]]:
        for chunk in chunks:
            yield chunk.corpus, classes.group(chunk.labels), len(classes.documents)

    def count(item: tuple[Corpus | Tokenized, Words, int]) -> tuple[Lexicon, Sums]:
        corpus, group, known = item
        lexicon, rows = tokenizer.count(corpus)
        return lexicon, summed(rows, len(lexicon), group, known, has, often)

    for lexicon, sums in ahead(count, grouped()):
        gathering.add(lexicon, sums)
        gathering.tidy(always=False)
    gathering.tidy()
    columns = counts._settle(tokenizer, gathering, classes.documents)
    learned, kept = counts._found(), columns >= 0
    found = gathering.has if flags else gathering.often
    if learned.unknown and flags and not kept.all():
        raise ValueError(
            "got unknown=True, binary counts and a vocabulary pruned in the same pass, expected one less: "
            "fit TokenCounts first, then stream with more=True"
        )
    totals = np.zeros((len(classes.documents), learned.width), dtype=np.int64)
    kernels.move(found if kept.all() else np.ascontiguousarray(found[:, kept]), columns[kept], totals)
    if learned.unknown:
        totals[:, -1] = found[:, ~kept].sum(axis=1)
    return classes.tally(totals)


def _learn_rows(counts: TokenCounts, learner: Any, chunks: Iterator[Chunk], classes: object) -> None:
    """Learn a matrix for each chunk."""
    if not counts.__sklearn_is_fitted__():
        raise TypeError(
            f"a {type(learner).__name__} learns from rows, for which the columns must be known: expected "
            "TokenCounts(form='hashed'), one with a vocabulary, or one that was fitted, with more=True"
        )
    learned = counts._found()

    def count(chunk: Chunk) -> tuple[list[Any], Rows]:
        return chunk.labels, learned.count(chunk.corpus)

    for labels, rows in ahead(count, chunks):
        named = {} if classes is None else {"classes": classes}
        learner.partial_fit(matrix(rows, learned.width, counts.dtype), labels, **named)


class _Meter:
    """How many texts have passed, and how fast."""

    def __init__(self, shown: bool | None) -> None:
        self._line = Line()
        self._shown = self._line.is_terminal if shown is None else shown
        self._always = shown is True
        self._begun = time.monotonic()
        self._texts = self._bytes = 0

    def watched(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """The same chunks, counted as they pass."""
        try:
            for chunk in chunks:
                yield chunk
                self._texts += len(chunk.corpus)
                self._bytes += chunk.corpus.size
                now = time.monotonic()
                if self._shown and now - self._begun > _PATIENCE and self._line.is_due(now):
                    self._line.draw(self._said(now), now)
        finally:
            now = time.monotonic()
            if self._always or (self._shown and now - self._begun > _PATIENCE):
                self._line.end(self._said(now))

    def _said(self, now: float) -> str:
        seconds = max(now - self._begun, 1e-9)
        size = self._bytes / 1e6
        return f"{self._texts:,} texts, {size:,.1f} MB, {size / seconds:,.1f} MB/s, {seconds:.0f} s"
