"""counts → weighted features: scikit-learn's transformers, of which those that learn are their statistic.

[R] Rennie, Shih, Teevan, Karger: Tackling the poor assumptions of naive Bayes text classifiers, 2003.
[W] Wang, Manning: Baselines and bigrams: simple, good sentiment and topic classification, 2012.
"""

from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize
from sklearn.utils import ClassifierTags, column_or_1d
from sklearn.utils.validation import validate_data

from tamis.arrays import Array
from tamis.models.generative.counting import refuse_negative, sum_counts
from tamis.stats import Exact, Keys, Labels, Tally, refuse_too_much
from tamis.tables import Sparse
from tamis.text.weighing import Counts, Learned, LearnedWeights, Weights

_MANY = (
    "sklearn.multiclass.OneVsRestClassifier(make_pipeline(NaiveBayesWeights(), LogisticRegression())) "
    "takes more than two"
)


class LogCounts(Weights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """log(1 + count): the tenth time a word is there says less than the first ([R] 4.1).

    >>> LogCounts().fit_transform([[0, 1, 3]]).toarray().round(3).tolist()
    [[0.0, 0.693, 1.386]]
    """

    def fit(self, X: object, y: object = None) -> Self:
        """Check the rows; there is nothing to learn."""
        self._learn(X, y, fresh=True)
        return self

    def _weigh(self, counts: Counts) -> Any:
        return counts.weighted(np.log1p(counts.matrix.data))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.requires_fit = False
        return tags


class UnitLength(Weights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Rows divided by their length, so that long texts say no more than short ones ([R] 4.3).

    It is scikit-learn's Normalizer, and answers with sparse rows. An empty row stays empty.

    >>> UnitLength().fit_transform([[3.0, 4.0], [0.0, 0.0]]).toarray().tolist()
    [[0.6, 0.8], [0.0, 0.0]]

    Parameters
    ----------
    norm : "l2", "l1" (the sum of absolute values) or "max" (the largest of them)
    """

    _negative = True

    def __init__(self, norm: Literal["l2", "l1", "max"] = "l2") -> None:
        self.norm = norm

    def fit(self, X: object, y: object = None) -> Self:
        """Check the rows; there is nothing to learn."""
        self._learn(X, y, fresh=True)
        return self

    def _check(self) -> None:
        _one_of("norm", self.norm, ("l2", "l1", "max"))

    def _weigh(self, counts: Counts) -> Any:
        return counts.weighted(_normed(counts, counts.matrix.data, self.norm))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class TfIdf(LearnedWeights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Counts times how rare their columns are: scikit-learn's TfidfTransformer, which can also unlearn rows.

    What it learns is how many rows there were and how many of them have each column; the weights follow from
    that when asked for, so parameters may be set after `fit`. `partial_fit` of parts, in any order, is `fit`,
    to the bit.

    >>> weights = TfIdf(idf="plain", norm=None).fit([[1, 1], [1, 0]])
    >>> weights.idf_.round(3).tolist(), weights.transform([[2, 2]]).toarray().round(3).tolist()
    ([0.0, 0.693], [[0.0, 1.386]])
    >>> weights.partial_fit([[0, 1]]).unlearn([[1, 1]]).idf_.round(3).tolist()
    [0.693, 0.693]

    Parameters
    ----------
    counts : "plain" as they are, "log" for log(1 + count) ([R] 4.1), "sublinear" for 1 + log(count)
    idf : "smooth" for 1 + log((1 + n) / (1 + df)), as scikit-learn; "plain" for log(n / df) ([R] 4.2); None
        for no weights. Where scikit-learn's `smooth_idf=False` adds 1, "plain" does not: a column that all
        rows have weighs nothing. Nor does one that was never seen, of which nothing is known
    norm : the length that rows have: "l2", "l1", or None for what they come to
    """

    def __init__(
        self,
        counts: Literal["plain", "log", "sublinear"] = "plain",
        idf: Literal["smooth", "plain"] | None = "smooth",
        norm: Literal["l2", "l1"] | None = "l2",
    ) -> None:
        self.counts = counts
        self.idf = idf
        self.norm = norm

    def fit(self, X: object, y: object = None) -> Self:
        """Learn from these rows alone."""
        self._learn(X, y, fresh=True)
        return self

    def partial_fit(self, X: object, y: object = None) -> Self:
        """Learn more rows."""
        self._learn(X, y, fresh=not self.__sklearn_is_fitted__())
        return self

    def unlearn(self, X: object) -> Self:
        """Forget rows that were learned: as if they had never come."""
        return self._forget(_documents(self._next(X)))

    def _learn(self, X: object, y: object, fresh: bool) -> Counts:
        self._check()
        counts = self._first(X) if fresh else self._next(X)
        self._learned = self._added(_documents(counts), Keys(()), True, fresh)
        return counts

    def _refuse(self, learned: Learned) -> None:
        rows, seen = learned.statistic.weight.value, learned.statistic.total.value
        refuse_too_much(bool(rows < 0 or (seen < 0).any() or (seen > rows).any()))

    @property
    def idf_(self) -> Array:
        """The weight of each column (d,)."""
        state = self._state()
        self._check()

        def weigh() -> Array:
            rows, seen = state.statistic.weight.value, state.statistic.total.value
            if self.idf is None:
                return np.ones(len(seen))
            if self.idf == "smooth":
                return np.log((rows + 1.0) / (seen + 1.0)) + 1.0
            return np.log(rows / np.where(seen > 0, seen, rows))

        return state.infer(self.idf, weigh)

    def _weigh(self, counts: Counts) -> Any:
        values = counts.matrix.data
        if self.counts != "plain":
            values = np.log1p(values) if self.counts == "log" else 1.0 + np.log(values)
        if self.idf is not None:
            values = values * self.idf_[counts.matrix.indices]
        return counts.weighted(_normed(counts, values, self.norm))

    def _check(self) -> None:
        _one_of("counts", self.counts, ("plain", "log", "sublinear"))
        _one_of("idf", self.idf, ("smooth", "plain", None))
        _one_of("norm", self.norm, ("l2", "l1", None))


class NaiveBayesWeights(LearnedWeights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Entries times what naive Bayes makes of their columns, for a linear model of two classes ([W] 2).

    A column weighs log((p / ‖p‖₁) / (q / ‖q‖₁)), where p is alpha and the sum of the rows of the second class
    (in order), and q that of the first.

    >>> weights = NaiveBayesWeights().fit([[1, 1, 0], [2, 0, 0], [0, 1, 1]], ["spam", "spam", "ham"])
    >>> np.exp(weights.log_ratio_).round(3).tolist()
    [2.5, 0.833, 0.417]
    >>> weights.transform([[3, 0, 0]]).toarray().round(3).tolist()
    [[0.916, 0.0, 0.0]]

    Parameters
    ----------
    alpha : pseudo-counts of each column in each class
    binary : whether a column is there, not how often ([W] found this better)
    """

    def __init__(self, alpha: float = 1.0, binary: bool = True) -> None:
        self.alpha = alpha
        self.binary = binary

    def fit(self, X: object, y: object) -> Self:
        """Learn from these rows and their labels alone."""
        self._learn(X, y, fresh=True)
        return self

    def partial_fit(self, X: object, y: object, classes: object = None) -> Self:
        """Learn more rows; `classes` may name classes that are still to come, and need not."""
        self._learn(X, y, not self.__sklearn_is_fitted__(), classes)
        return self

    def unlearn(self, X: object, y: object) -> Self:
        """Forget rows that were learned, with their labels: as if they had never come."""
        counts = self._next(X)
        self._check()
        filed = _labels(y, counts.matrix.shape[0])
        known = self._state().statistic.keys or Keys(())
        for key in filed.keys:
            if key not in known:
                raise ValueError(
                    f"label {key!r} was never learned, expected one of {known!r}: nothing was changed"
                )
        return self._forget(self._observed(counts, filed))

    def _learn(self, X: object, y: object, fresh: bool, classes: object = None) -> Counts:
        self._check(fresh)
        counts = Counts.of(X) if fresh else self._next(X)
        filed = _labels(y, counts.matrix.shape[0])
        declared = Keys(()) if classes is None else Keys.of(classes)[0]
        found = self._added(self._observed(counts, filed), declared, bool(self.binary), fresh)
        self._refuse(found)
        if fresh:
            validate_data(self, X, reset=True, skip_check_array=True)
        self._learned = found
        return counts

    def _observed(self, counts: Counts, filed: Labels) -> Tally:
        matrix = counts.matrix
        values = np.ones(len(matrix.data)) if self.binary else matrix.data
        indptr = matrix.indptr.astype(np.int64)
        return sum_counts(Sparse(indptr, matrix.indices, values, matrix.shape[1]), filed, None)

    def _refuse(self, learned: Learned) -> None:
        keys = _classes(learned)
        if len(keys) > 2:
            raise ValueError(f"got {len(keys)} classes, {keys!r}, expected two: {_MANY}")
        refuse_negative(learned.statistic)
        weight, total = learned.statistic.weight.value, learned.statistic.total.value
        refuse_too_much(learned.binary and bool((total > weight[:, None]).any()))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels; weights are of the second against the first."""
        values = _classes(self._state()).values
        found = np.array(values)
        return found if found.tolist() == list(values) else np.array(values, dtype=object)

    @property
    def log_ratio_(self) -> Array:
        """The weight of each column (d,)."""
        state = self._state()
        self._check()
        keys = _classes(state)
        if len(keys) != 2:
            raise ValueError(
                f"learned rows of one class, {keys!r}, expected two: learn rows of another first"
            )

        def weigh() -> Array:
            first, second = state.statistic.over(keys).total.value + self.alpha
            return np.asarray(np.log(second / second.sum()) - np.log(first / first.sum()))

        return state.infer(self.alpha, weigh)

    def _weigh(self, counts: Counts) -> Any:
        found = self.log_ratio_[counts.matrix.indices]
        return counts.weighted(found if self.binary else counts.matrix.data * found)

    def _check(self, fresh: bool = False) -> None:
        alpha: object = self.alpha
        if not isinstance(alpha, Real) or not 0.0 < float(alpha) < np.inf:
            raise ValueError(f"got alpha={alpha!r}, expected a number above 0")
        if not fresh and self.__sklearn_is_fitted__() and bool(self.binary) != self._learned.binary:
            raise ValueError(
                f"got binary={self.binary}, expected {not self.binary}, which the rows were learned with: "
                "fit anew"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


def _documents(counts: Counts) -> Tally:
    """How many rows there are, and how many of them have each column."""
    rows = np.asarray(counts.matrix.shape[0], dtype=np.int64)
    return Tally(weight=Exact.from_integers(rows), total=Exact.from_integers(counts.seen))


def _classes(learned: Learned) -> Keys:
    """The classes that were learned or declared, in order."""
    return (learned.statistic.keys or Keys(())).union(learned.declared)[0]


def _labels(y: object, rows: int) -> Labels:
    """Labels by value, one a row."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass one label per row")
    keys, group = Keys.encode(column_or_1d(y, warn=True))
    if len(group) != rows:
        raise ValueError(f"got {len(group)} labels for {rows} rows, expected one per row")
    if (group < 0).any():
        raise ValueError(
            f"Input y contains NaN: label {int(np.argmax(group < 0))} is missing, expected all of them"
        )
    if any(isinstance(key, float) and not key.is_integer() for key in keys):
        raise ValueError(
            "Unknown label type: continuous. Expected classes, got numbers with fractions or infinity"
        )
    return Labels(keys, group)


def _normed(counts: Counts, values: Array, norm: str | None) -> Array:
    """Values of rows of unit length, by scikit-learn, so that nobody's baseline moves."""
    if norm is None:
        return values
    matrix = type(counts.matrix)((values, counts.matrix.indices, counts.matrix.indptr), counts.matrix.shape)
    return np.asarray(normalize(matrix, norm=norm, copy=True).data)


def _one_of(name: str, given: object, known: tuple[object, ...]) -> None:
    if given not in known:
        raise ValueError(f"got {name}={given!r}, expected one of {', '.join(map(repr, known))}")
