"""Transformers in scikit-learn's interface from counts to weighted features. What they learn is a statistic.

They take sparse or dense rows, and return sparse rows of SciPy in the CSR form (compressed rows). The
caller's rows are not changed, and sparse rows are not made dense.

[R] Rennie, Shih, Teevan, Karger: Tackling the poor assumptions of naive Bayes text classifiers, 2003.
[W] Wang, Manning: Baselines and bigrams: simple, good sentiment and topic classification, 2012.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import normalize
from sklearn.utils import ClassifierTags, column_or_1d
from sklearn.utils.validation import validate_data

from tamis import arrays
from tamis.arrays import Array
from tamis.inputs import refuse_empty_array
from tamis.models.generative.counting import refuse_negative_sums, sum_counts
from tamis.parameters import check_decay_factor
from tamis.stats import Exact, Keys, Labels, Tally, refuse_excess_subtraction
from tamis.tables import Sparse, Table
from tamis.text.checking import check_choice
from tamis.text.hashing import refuse_many_names
from tamis.text.matrix import choose_csr_type

_MULTICLASS_REMEDY = (
    "sklearn.multiclass.OneVsRestClassifier(make_pipeline(NaiveBayesWeights(), LogisticRegression())) "
    "takes more than two"
)


class Counts(NamedTuple):
    """Sparse rows of numbers, with sorted, distinct columns and no zeros. They must not be changed."""

    matrix: Any  # csr_array (n, d) of float64; it may share memory with the caller's rows
    dtype: np.dtype[Any]  # of the weighted rows: float32 if the caller's rows are, else float64

    @classmethod
    def of(cls, data: object, negative: bool = False) -> "Counts":
        """Read rows of any kind; negative numbers are refused unless `negative`."""
        table = Table.of(data)
        is_float32 = getattr(data, "dtype", None) == np.float32
        refuse_empty_array(table)
        if table.sparse is None:
            matrix = arrays.import_scipy_sparse().csr_array(table.numbers())
        else:
            matrix = table.sparse.matrix()
            if not matrix.has_canonical_format:
                matrix = matrix.copy()
                matrix.sum_duplicates()
            if not matrix.data.all():
                matrix = matrix.copy()
                matrix.eliminate_zeros()
        _refuse_invalid(table, matrix, negative)
        return cls(matrix, np.dtype(np.float32 if is_float32 else np.float64))

    @property
    def document_frequencies(self) -> NDArray[np.int64]:
        """The number of rows with an entry in each column (d,)."""
        return np.bincount(self.matrix.indices, minlength=self.matrix.shape[1]).astype(np.int64)

    def with_values(self, values: Array) -> Any:
        """Return other values for the same entries, without zeros, in CSR.

        scikit-learn's option `sparse_interface` chooses between SciPy's arrays and matrices.
        """
        rows = choose_csr_type()(
            (values.astype(self.dtype), self.matrix.indices, self.matrix.indptr), self.matrix.shape, copy=True
        )
        if not rows.data.all():
            rows.eliminate_zeros()
        return rows


def _refuse_invalid(table: Table, matrix: Any, negative: bool) -> None:
    """Raise for the first number that is not finite or is negative; the message names its row and column."""
    values = matrix.data
    for is_wrong, problem, expected in (
        (~np.isfinite(values), "Input X contains NaN or infinity", "finite numbers: drop or fill those rows"),
        (
            np.zeros(0, dtype=np.bool_) if negative else values < 0,
            "Negative values in data",
            # `alternate_sign`, of `TokenCounts` and HashingVectorizer, negates the counts of some tokens.
            "counts of at least 0: for hashed columns, set alternate_sign=False",
        ),
    ):
        if is_wrong.any():
            entry = int(np.argmax(is_wrong))
            row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
            place = f"row {row} of {table.describe(int(matrix.indices[entry]))}"
            raise ValueError(f"{problem}: got {values[entry]:g} in {place}, expected {expected}")


class Weights(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc,call-arg]  # scikit-learn has no types
    """A transformer that changes the values of entries, not their rows and columns.

    `auto_wrap_output_keys=None` turns off scikit-learn's conversion of results to data frames, because the
    rows are sparse.
    """

    _negative: ClassVar[bool] = False  # whether negative numbers are allowed

    def _check(self) -> None:
        """Raise if a parameter is invalid; this base class has none."""

    def _learn(self, X: object, y: object, fresh: bool) -> Counts:
        """Learn rows, and forget earlier ones if `fresh`; return the rows as they were read.

        Here only the number and the names of columns are learned.
        """
        self._check()
        return self._read(X, first=True)

    def _weigh(self, counts: Counts) -> Any:
        """Return the weighted rows (n, d) in CSR, made by `Counts.with_values`."""
        raise NotImplementedError

    def fit(self, X: object, y: object = None) -> Self:
        """Learn from these rows alone."""
        self._learn(X, y, fresh=True)
        return self

    def fit_transform(self, X: object, y: object = None) -> Any:
        """Learn from these rows alone, and weigh them; they are read once."""
        return self._weigh(self._learn(X, y, fresh=True))

    def transform(self, X: object) -> Any:
        """Return the weighted rows, as a sparse matrix of SciPy."""
        self._check()
        return self._weigh(self._read(X, first=False))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns; x0, x1, … if they have none."""
        if input_features is None and not hasattr(self, "feature_names_in_"):
            refuse_many_names(getattr(self, "n_features_in_", 0))
        names: NDArray[np.object_] = super().get_feature_names_out(input_features)
        return names

    def _read(self, X: object, first: bool) -> Counts:
        """Read the first rows, whose columns are remembered, or later rows, which must have these columns."""
        counts = Counts.of(X, self._negative)
        # scikit-learn stores the number and the names of the columns, or compares them with the stored ones.
        validate_data(self, X, reset=first, skip_check_array=True)
        return counts

    def describe_state(self) -> dict[str, Any]:
        """Return the state that a file holds, besides the parameters."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "width": getattr(self, "n_features_in_", None),
            "names": None if names is None else names.tolist(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Set the state that a file holds."""
        if state["width"] is not None:
            self.n_features_in_ = int(state["width"])
        if state["names"] is not None:
            self.feature_names_in_ = np.array(state["names"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True, eq=False)
class WeightState:
    """What weights were learned from, and the weights that were last inferred from it."""

    statistic: Tally  # the number of rows and the sums of columns (d,), by label (K, d) if there are labels
    declared: Keys  # classes that were declared and may have no rows yet
    binary: bool  # whether entries count as 1, whatever their value
    # The weights (d,) that were last inferred, by the value of the parameter that they depend on.
    inferred: dict[object, Array] = field(default_factory=dict)

    def infer(self, parameter: object, compute: Callable[[], Array]) -> Array:
        """Return the weights for this value of a parameter; compute them unless they were inferred last."""
        weights = self.inferred.get(parameter)
        if weights is None:
            weights = compute()
            weights.setflags(write=False)
            self.inferred.clear()
            self.inferred[parameter] = weights
        return weights

    def __reduce__(self) -> tuple[type["WeightState"], tuple[Tally, Keys, bool]]:
        # The weights are left out, because they can be inferred again.
        return WeightState, (self.statistic, self.declared, self.binary)


class LearnedWeights(Weights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Weights that are inferred from a statistic, to which learning adds; an error does not change it."""

    _learned: WeightState

    def _refuse_impossible(self, learned: WeightState) -> None:
        """Raise if no rows could have this statistic, or if no weights can be inferred from it."""
        raise NotImplementedError

    def _read(self, X: object, first: bool) -> Counts:
        if not first:
            self._refuse_unfitted()
        return super()._read(X, first)

    def merge(self, *others: Self) -> Self:
        """Add what other transformers of the same kind and columns have learned."""
        state = self.state_
        for other in others:
            if type(other) is not type(self):
                raise TypeError(
                    f"got a {type(other).__name__} to merge, expected another {type(self).__name__}"
                )
            theirs = other.state_
            names, own_names = (getattr(each, "feature_names_in_", None) for each in (other, self))
            if theirs.statistic.total.shape[-1] != state.statistic.total.shape[-1] or (
                names is not None and own_names is not None and names.tolist() != own_names.tolist()
            ):
                raise ValueError(
                    "the transformers have different columns, expected the same in the same order"
                )
            if theirs.binary != state.binary:
                raise ValueError(
                    f"got one with binary={theirs.binary} to merge, expected {state.binary}: fit them alike"
                )
            declared = state.declared.union(theirs.declared)[0]
            state = WeightState(state.statistic + theirs.statistic, declared, state.binary)
        self._refuse_impossible(state)
        self._learned = state
        return self

    def decay(self, factor: float) -> Self:
        """Multiply the weight of everything learned so far by `factor`."""
        state = self.state_
        statistic = state.statistic * check_decay_factor(factor)
        self._learned = WeightState(statistic, state.declared, state.binary)
        return self

    def _add_rows(self, part: Tally, declared: Keys, binary: bool, fresh: bool) -> WeightState:
        """Return the state with the statistic of more rows added."""
        if fresh:
            return WeightState(part, declared, binary)
        before = self.state_
        return WeightState(before.statistic + part, before.declared.union(declared)[0], before.binary)

    def _forget(self, part: Tally) -> Self:
        """Subtract the statistic of some rows."""
        before = self.state_
        rest = WeightState(before.statistic - part, before.declared, before.binary)
        self._refuse_impossible(rest)
        if not rest.statistic.weight.value.any():
            raise ValueError(
                "every row would be forgotten, expected some to be left: "
                f"make a new {type(self).__name__} instead; nothing was changed"
            )
        self._learned = rest
        return self

    @property
    def state_(self) -> WeightState:
        """The state; raise NotFittedError if nothing was learned."""
        self._refuse_unfitted()
        return self._learned

    def _refuse_unfitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this {type(self).__name__} has learned nothing yet, expected a call to fit first"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__

    def describe_state(self) -> dict[str, Any]:
        state = self.state_
        return {
            "statistic": state.statistic,
            "declared": state.declared,
            "binary": state.binary,
            **super().describe_state(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        statistic, declared = state["statistic"], state["declared"]
        if not isinstance(statistic, Tally) or not isinstance(declared, Keys):
            raise TypeError("no statistic")
        super().restore_state(state)
        self._learned = WeightState(statistic, declared, bool(state["binary"]))

    @property
    def statistic_(self) -> Tally:
        """The statistic of all rows that were learned."""
        return self.state_.statistic

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


class LogCounts(Weights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """log(1 + count): the tenth occurrence of a word has less weight than the first ([R] 4.1).

    >>> LogCounts().fit_transform([[0, 1, 3]]).toarray().round(3).tolist()
    [[0.0, 0.693, 1.386]]
    """

    def _weigh(self, counts: Counts) -> Any:
        return counts.with_values(np.log1p(counts.matrix.data))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.requires_fit = False
        return tags


class UnitLength(Weights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Rows divided by their length, so that long texts have no more weight than short ones ([R] 4.3).

    It is scikit-learn's Normalizer, but returns sparse rows. An empty row stays empty.

    >>> UnitLength().fit_transform([[3.0, 4.0], [0.0, 0.0]]).toarray().tolist()
    [[0.6, 0.8], [0.0, 0.0]]

    Parameters
    ----------
    norm : "l2", "l1" (the sum of absolute values) or "max" (the largest of them)
    """

    _negative = True

    def __init__(self, norm: Literal["l2", "l1", "max"] = "l2") -> None:
        self.norm = norm

    def _check(self) -> None:
        check_choice("norm", self.norm, ("l2", "l1", "max"))

    def _weigh(self, counts: Counts) -> Any:
        return counts.with_values(_normalize(counts, counts.matrix.data, self.norm))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


@dataclass(eq=False, repr=False)
class TfIdf(LearnedWeights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Counts times the rarity of their columns: scikit-learn's TfidfTransformer that can also unlearn rows.

    It learns the number of rows, and the number of rows that have each column. The weights are computed from
    the two when they are needed, so parameters may be set after `fit`. `partial_fit` of parts, in any order,
    has the same result as `fit`, to the bit.

    >>> weights = TfIdf(idf="plain", norm=None).fit([[1, 1], [1, 0]])
    >>> weights.idf_.round(3).tolist(), weights.transform([[2, 2]]).toarray().round(3).tolist()
    ([0.0, 0.693], [[0.0, 1.386]])
    >>> weights.partial_fit([[0, 1]]).unlearn([[1, 1]]).idf_.round(3).tolist()
    [0.693, 0.693]

    Parameters
    ----------
    counts : "plain" for the counts, "log" for log(1 + count) ([R] 4.1), "sublinear" for 1 + log(count)
    idf : "smooth" for 1 + log((1 + n) / (1 + df)), as scikit-learn, where df of the n rows have the column;
        "plain" for log(n / df) ([R] 4.2); None for no weights. scikit-learn's `smooth_idf=False` adds 1,
        "plain" does not: a column that all rows have gets the weight 0, and so does a column that no row had
    norm : the norm by which rows are divided: "l2", "l1", or None
    """

    counts: Literal["plain", "log", "sublinear"] = "plain"
    idf: Literal["smooth", "plain"] | None = "smooth"
    norm: Literal["l2", "l1"] | None = "l2"

    def partial_fit(self, X: object, y: object = None) -> Self:
        """Learn more rows."""
        self._learn(X, y, fresh=not self.__sklearn_is_fitted__())
        return self

    def unlearn(self, X: object) -> Self:
        """Forget rows that were learned, as if they had never been learned."""
        return self._forget(_count_documents(self._read(X, first=False)))

    def _learn(self, X: object, y: object, fresh: bool) -> Counts:
        self._check()
        counts = self._read(X, first=fresh)
        self._learned = self._add_rows(_count_documents(counts), declared=Keys(()), binary=True, fresh=fresh)
        return counts

    def _refuse_impossible(self, learned: WeightState) -> None:
        rows, seen = learned.statistic.weight.value, learned.statistic.total.value
        refuse_excess_subtraction(bool(rows < 0 or (seen < 0).any() or (seen > rows).any()))

    @property
    def idf_(self) -> Array:
        """The weight of each column (d,)."""
        state = self.state_
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
        return counts.with_values(_normalize(counts, values, self.norm))

    def _check(self) -> None:
        check_choice("counts", self.counts, ("plain", "log", "sublinear"))
        check_choice("idf", self.idf, ("smooth", "plain", None))
        check_choice("norm", self.norm, ("l2", "l1", None))


class NaiveBayesWeights(LearnedWeights, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # scikit-learn has no types
    """Entries times the log-ratios of naive Bayes, for a linear model of two classes ([W] 2).

    The weight of a column is log((p / ‖p‖₁) / (q / ‖q‖₁)), where p is alpha plus the sum of the rows of the
    second class in sorted order, and q is the same for the first class.

    >>> weights = NaiveBayesWeights().fit([[1, 1, 0], [2, 0, 0], [0, 1, 1]], ["spam", "spam", "ham"])
    >>> np.exp(weights.log_ratio_).round(3).tolist()
    [2.5, 0.833, 0.417]
    >>> weights.transform([[3, 0, 0]]).toarray().round(3).tolist()
    [[0.916, 0.0, 0.0]]

    Parameters
    ----------
    alpha : pseudo-counts of each column in each class
    binary : whether to count each entry as 1 ([W] found this better)
    """

    def __init__(self, alpha: float = 1.0, binary: bool = True) -> None:
        self.alpha = alpha
        self.binary = binary

    def fit(self, X: object, y: object) -> Self:  # type: ignore[override]  # labels are needed
        """Learn from these rows and their labels alone."""
        self._learn(X, y, fresh=True)
        return self

    def partial_fit(self, X: object, y: object, classes: object = None) -> Self:
        """Learn more rows; `classes` may name classes that have no rows yet."""
        self._learn(X, y, fresh=not self.__sklearn_is_fitted__(), classes=classes)
        return self

    def unlearn(self, X: object, y: object) -> Self:
        """Forget rows that were learned, with their labels, as if they had never been learned."""
        counts = self._read(X, first=False)
        self._check()
        labels = _read_labels(y, counts.matrix.shape[0])
        known = self.state_.statistic.keys or Keys(())
        for key in labels.keys:
            if key not in known:
                raise ValueError(
                    f"label {key!r} was never learned, expected one of {known!r}: nothing was changed"
                )
        return self._forget(self._observe(counts, labels))

    def _learn(self, X: object, y: object, fresh: bool, classes: object = None) -> Counts:
        self._check(fresh)
        counts = Counts.of(X) if fresh else self._read(X, first=False)
        labels = _read_labels(y, counts.matrix.shape[0])
        declared = Keys(()) if classes is None else Keys.of(classes)[0]
        state = self._add_rows(self._observe(counts, labels), declared, bool(self.binary), fresh)
        self._refuse_impossible(state)
        if fresh:
            validate_data(self, X, reset=True, skip_check_array=True)
        self._learned = state
        return counts

    def _observe(self, counts: Counts, labels: Labels) -> Tally:
        matrix = counts.matrix
        values = np.ones(len(matrix.data)) if self.binary else matrix.data
        indptr = matrix.indptr.astype(np.int64)
        return sum_counts(Sparse(indptr, matrix.indices, values, matrix.shape[1]), labels, None)

    def _refuse_impossible(self, learned: WeightState) -> None:
        keys = _list_classes(learned)
        if len(keys) > 2:
            raise ValueError(f"got {len(keys)} classes, {keys!r}, expected two: {_MULTICLASS_REMEDY}")
        refuse_negative_sums(learned.statistic)
        weight, total = learned.statistic.weight.value, learned.statistic.total.value
        refuse_excess_subtraction(learned.binary and bool((total > weight[:, None]).any()))

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels; weights are log-ratios of the second to the first."""
        values = _list_classes(self.state_).values
        classes = np.array(values)
        return classes if classes.tolist() == list(values) else np.array(values, dtype=object)

    @property
    def log_ratio_(self) -> Array:
        """The weight of each column (d,)."""
        state = self.state_
        self._check()
        keys = _list_classes(state)
        if len(keys) != 2:
            raise ValueError(
                f"learned rows of one class, {keys!r}, expected two: learn rows of another first"
            )

        def weigh() -> Array:
            # `over` extends the sums to these classes; the sums of a class without rows are 0.
            first, second = state.statistic.over(keys).total.value + self.alpha
            return np.asarray(np.log(second / second.sum()) - np.log(first / first.sum()))

        return state.infer(self.alpha, weigh)

    def _weigh(self, counts: Counts) -> Any:
        weights = self.log_ratio_[counts.matrix.indices]
        return counts.with_values(weights if self.binary else counts.matrix.data * weights)

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


def _count_documents(counts: Counts) -> Tally:
    """Return the number of rows, and the number of rows that have each column."""
    rows = np.asarray(counts.matrix.shape[0], dtype=np.int64)
    return Tally(weight=Exact.from_integers(rows), total=Exact.from_integers(counts.document_frequencies))


def _list_classes(learned: WeightState) -> Keys:
    """Return the classes that were learned or declared, in order."""
    return (learned.statistic.keys or Keys(())).union(learned.declared)[0]


def _read_labels(y: object, rows: int) -> Labels:
    """Read the labels of the rows; raise if one is missing."""
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


def _normalize(counts: Counts, values: Array, norm: str | None) -> Array:
    """Divide values by the norm of their row; the result equals scikit-learn's to the bit."""
    if norm is None:
        return values
    matrix = type(counts.matrix)((values, counts.matrix.indices, counts.matrix.indptr), counts.matrix.shape)
    return np.asarray(normalize(matrix, norm=norm, copy=True).data)
