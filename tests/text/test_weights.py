"""Weights of counts equal scikit-learn's where they share a name, and the papers' numbers; they are sums."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis.text.weights import LogCounts, NaiveBayesWeights, TfIdf, UnitLength

EVERY = [LogCounts(), UnitLength(), TfIdf(), NaiveBayesWeights()]
LEARNING = [TfIdf(), NaiveBayesWeights(), NaiveBayesWeights(binary=False)]
each = pytest.mark.parametrize("weights", EVERY, ids=lambda weights: type(weights).__name__)
each_learning = pytest.mark.parametrize("weights", LEARNING, ids=str)

few = settings(max_examples=40, deadline=None)  # the first compiles

Rows = NDArray[np.int64]


@st.composite
def counts(draw: st.DrawFn, rows: int = 12, columns: int = 6) -> Rows:
    """Small counts, mostly zeros, of which rows and columns may be empty."""
    n, d = draw(st.integers(1, rows)), draw(st.integers(1, columns))
    cells = st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 7]), min_size=n * d, max_size=n * d)
    return np.array(draw(cells), dtype=np.int64).reshape(n, d)


def some_rows(n: int = 40, seed: int = 0) -> tuple[Any, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return sparse.csr_matrix(rng.poisson(0.4, (n, 15)).astype(np.float64)), np.array(["ham", "spam"])[
        rng.integers(0, 2, n)
    ]


def dense(found: Any) -> NDArray[Any]:
    return np.asarray(found.toarray())


# ── scikit-learn ──


@parametrize_with_checks([*EVERY, TfIdf(counts="log", idf="plain"), NaiveBayesWeights(binary=False)])  # type: ignore[untyped-decorator]  # scikit-learn has no types
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@few
@given(counts(), st.sampled_from(["plain", "sublinear"]), st.sampled_from(["smooth", None]), st.data())
def test_tf_idf_is_that_of_scikit_learn(rows: Rows, how: Any, idf: Any, data: st.DataObject) -> None:
    norm: Any = data.draw(st.sampled_from(["l1", "l2", None]))
    X = sparse.csr_matrix(rows)
    ours = TfIdf(counts=how, idf=idf, norm=norm).fit(X)
    theirs = TfidfTransformer(sublinear_tf=how == "sublinear", use_idf=idf is not None, norm=norm).fit(X)
    if idf is not None:
        assert_allclose(ours.idf_, theirs.idf_, rtol=1e-15)
    assert_allclose(dense(ours.transform(X)), dense(theirs.transform(X)), rtol=1e-14)


@few
@given(counts())
def test_plain_weights_are_one_less_than_scikit_learns(rows: Rows) -> None:
    seen = (rows > 0).any(axis=0)
    ours = TfIdf(idf="plain").fit(rows).idf_
    with np.errstate(divide="ignore"):
        theirs = TfidfTransformer(smooth_idf=False).fit(rows).idf_
    assert_allclose(ours[seen], theirs[seen] - 1.0, atol=1e-15)
    assert not ours[~seen].any()


@few
@given(counts(), st.sampled_from(["l1", "l2", "max"]))
def test_unit_length_is_that_of_scikit_learn(rows: Rows, norm: Any) -> None:
    X = sparse.csr_matrix(rows - 1.0)
    assert_array_equal(dense(UnitLength(norm).fit_transform(X)), dense(Normalizer(norm).fit_transform(X)))
    assert_allclose(dense(UnitLength(norm).transform(rows)), Normalizer(norm).transform(rows), rtol=1e-15)


def test_one_against_the_rest_takes_more_than_two_classes() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    X = sparse.csr_matrix(rng.poisson(0.2 + 2.0 * (np.arange(6) // 2 == y[:, None])))
    model = OneVsRestClassifier(make_pipeline(NaiveBayesWeights(), LogisticRegression())).fit(X, y)
    assert model.score(X, y) > 0.8


# ── the papers' numbers ──


def test_rennies_steps_come_to_what_they_come_to_by_hand() -> None:
    rows = np.array([[3, 1, 0], [1, 0, 0], [0, 1, 0], [7, 0, 0]])
    logs = LogCounts().fit_transform(rows)
    assert_allclose(dense(logs)[0], [math.log(4), math.log(2), 0])
    weights = TfIdf(idf="plain", norm=None).fit(logs)
    assert_allclose(weights.idf_, [math.log(4 / 3), math.log(4 / 2), 0])
    weighted = weights.transform(logs)
    first = [math.log(4) * math.log(4 / 3), math.log(2) * math.log(2)]
    assert_allclose(dense(weighted)[0], [*first, 0])
    assert_allclose(
        dense(UnitLength().fit_transform(weighted))[0], [*np.array(first) / math.hypot(*first), 0]
    )
    at_once = TfIdf(counts="log", idf="plain").fit(rows)
    assert_allclose(dense(at_once.transform(rows)), dense(UnitLength().fit_transform(weighted)))


def test_wang_and_mannings_ratio_is_what_it_is_by_hand() -> None:
    rows, labels = [[1, 1, 0], [2, 0, 0], [0, 1, 1]], [1, 1, 0]
    r = [math.log((3 / 6) / (1 / 5)), math.log((2 / 6) / (2 / 5)), math.log((1 / 6) / (2 / 5))]
    weights = NaiveBayesWeights().fit(rows, labels)
    assert_allclose(weights.log_ratio_, r)
    assert_allclose(dense(weights.transform([[4, 0, 1]])), [[r[0], 0, r[2]]])
    often = NaiveBayesWeights(alpha=0.5, binary=False).fit(rows, labels)  # p = 3.5, 1.5, .5; q = .5, 1.5, 1.5
    assert_allclose(
        often.log_ratio_, np.log([(3.5 / 5.5) / (0.5 / 3.5), 3.5 / 5.5, (0.5 / 5.5) / (1.5 / 3.5)])
    )
    assert_allclose(dense(often.transform([[4, 0, 1]])), [often.log_ratio_ * [4, 0, 1]])


# ── the laws ──


@each_learning
@few
@given(st.integers(0, 2**32), st.permutations(range(5)))
def test_learning_is_blind_to_sharding(weights: Any, seed: int, order: list[int]) -> None:
    X, y = some_rows(seed=seed)
    part = np.random.default_rng(seed).integers(0, 5, len(y))
    part[:5] = range(5)
    whole, stream = clone(weights).fit(X, y), clone(weights)
    for k in order:
        stream.partial_fit(X[part == k], y[part == k])
    merged = [clone(weights).fit(X[part == k], y[part == k]) for k in order]
    for other in (stream, merged[0].merge(*merged[1:])):
        assert other.statistic_ == whole.statistic_
        assert_array_equal(dense(other.transform(X)), dense(whole.transform(X)))


def unlearned(weights: Any, X: Any, y: Any) -> Any:
    return weights.unlearn(X) if isinstance(weights, TfIdf) else weights.unlearn(X, y)


@each_learning
@few
@given(st.integers(0, 2**32))
def test_what_was_forgotten_never_was(weights: Any, seed: int) -> None:
    X, y = some_rows(seed=seed)
    rest = unlearned(clone(weights).fit(X, y), X[:25], y[:25])
    alone = clone(weights).fit(X[25:], y[25:])
    assert rest.statistic_ == alone.statistic_
    assert_array_equal(dense(rest.transform(X)), dense(alone.transform(X)))


@each_learning
def test_what_was_never_learned_cannot_be_forgotten(weights: Any) -> None:
    X, y = some_rows()
    fitted = clone(weights).fit(X, y)
    before = fitted.statistic_
    for rows, labels in ((sparse.vstack([X, X]), np.append(y, y)), (X, y)):
        with pytest.raises(ValueError, match="nothing was changed") as raised:
            unlearned(fitted, rows, labels)
        assert "\n" not in str(raised.value)
        assert fitted.statistic_ is before


@pytest.mark.parametrize("weights", [TfIdf(), NaiveBayesWeights()], ids=str)
def test_a_column_is_in_no_more_rows_than_there_are(weights: Any) -> None:
    fitted = clone(weights).fit([[1, 0], [1, 0], [1, 1]], [0, 0, 1])
    with pytest.raises(ValueError, match="more would be subtracted"):
        unlearned(fitted, [[0, 0]], [0])


def test_a_label_that_was_never_learned_cannot_be_forgotten() -> None:
    X, y = some_rows()
    with pytest.raises(ValueError, match="label 'eggs' was never learned, expected one of Keys"):
        NaiveBayesWeights().fit(X, y).unlearn(X[:1], ["eggs"])


@each_learning
def test_decay_scales_the_statistic(weights: Any) -> None:
    X, y = some_rows()
    fitted = clone(weights).fit(X, y)
    assert copy.deepcopy(fitted).decay(0.5).statistic_ == 0.5 * fitted.statistic_
    twice = clone(weights).fit(sparse.vstack([X, X]), np.append(y, y))
    assert twice.decay(0.5).statistic_ == fitted.statistic_
    with pytest.raises(ValueError, match="factor=2"):
        fitted.decay(2)


def test_parameters_may_be_set_after_learning() -> None:
    X, y = some_rows()
    fitted = TfIdf().fit(X)
    assert_array_equal(fitted.set_params(idf="plain").idf_, TfIdf(idf="plain").fit(X).idf_)
    assert_array_equal(fitted.set_params(idf=None).idf_, np.ones(15))
    nb = NaiveBayesWeights().fit(X, y)
    smooth = nb.log_ratio_
    assert_array_equal(nb.set_params(alpha=3.0).log_ratio_, NaiveBayesWeights(alpha=3.0).fit(X, y).log_ratio_)
    assert np.abs(nb.log_ratio_).sum() < np.abs(smooth).sum()


def test_a_class_may_come_later() -> None:
    X, y = some_rows()
    ham, spam = y == "ham", y == "spam"
    weights = NaiveBayesWeights().partial_fit(X[ham], y[ham])
    with pytest.raises(ValueError, match=r"one class, Keys\('ham'\), expected two"):
        weights.transform(X)
    declared = NaiveBayesWeights().partial_fit(X[ham], y[ham], classes=["spam", "ham"])
    assert declared.classes_.tolist() == ["ham", "spam"]
    assert dense(declared.transform(X)).shape == X.shape
    assert NaiveBayesWeights().fit(X, np.where(y == "ham", 0, y.astype(object))).classes_.tolist() == [
        0,
        "spam",
    ]
    whole = NaiveBayesWeights().fit(X, y)
    for each in (weights, declared):
        assert_array_equal(each.partial_fit(X[spam], y[spam]).log_ratio_, whole.log_ratio_)


# ── what comes in, and what goes out ──


@each
@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_matrix", "coo_array", "lil_matrix"])
def test_any_sparse_matrix_is_taken_and_left_as_it_was(weights: Any, kind: str) -> None:
    X, y = some_rows()
    given = getattr(sparse, kind)(X)
    before = copy.deepcopy(given)
    found = clone(weights).fit_transform(given, y)
    assert isinstance(found, sparse.csr_matrix)
    assert (given != before).nnz == 0
    assert_array_equal(dense(found), dense(clone(weights).fit_transform(X.toarray(), y)))
    with config_context(sparse_interface="sparray"):
        assert isinstance(clone(weights).fit_transform(given, y), sparse.csr_array)


@each
def test_no_memory_is_shared_with_the_answer(weights: Any) -> None:
    X, y = some_rows()
    found = clone(weights).fit_transform(X, y)
    for name in ("data", "indices", "indptr"):
        assert not np.shares_memory(getattr(found, name), getattr(X, name))


@each
def test_entries_out_of_order_named_twice_or_zero_are_what_they_come_to(weights: Any) -> None:
    plain = sparse.csr_matrix(np.array([[0.0, 3.0, 1.0], [2.0, 0.0, 0.0]]))
    odd = sparse.csr_matrix((np.array([1.0, 2.0, 1.0, 2.0, 0.0]), [2, 1, 1, 0, 1], [0, 3, 5]), shape=(2, 3))
    arrays = [part.copy() for part in (odd.data, odd.indices, odd.indptr)]
    found = clone(weights).fit_transform(odd, [0, 1])
    assert_array_equal(dense(found), dense(clone(weights).fit_transform(plain, [0, 1])))
    for part, before in zip((odd.data, odd.indices, odd.indptr), arrays, strict=True):
        assert_array_equal(part, before)


@each
def test_numbers_may_be_small_whole_or_flags(weights: Any) -> None:
    X, y = some_rows()
    wide = clone(weights).fit_transform(X, y)
    small = clone(weights).fit_transform(X.astype(np.float32), y)
    assert (wide.dtype, small.dtype) == (np.float64, np.float32)
    assert_allclose(dense(small), dense(wide), rtol=1e-6)
    assert_array_equal(dense(clone(weights).fit_transform(X.astype(np.int8), y)), dense(wide))
    flags = clone(weights).fit_transform(X.astype(np.bool_), y)
    assert_array_equal(dense(flags), dense(clone(weights).fit_transform((X > 0).astype(np.float64), y)))


@each
def test_an_empty_row_stays_empty(weights: Any) -> None:
    found = clone(weights).fit_transform(sparse.csr_matrix([[1.0, 2.0], [0.0, 0.0], [0.0, 1.0]]), [0, 0, 1])
    assert found[1].nnz == 0
    assert np.isfinite(found.data).all()


@each
def test_a_pickle_comes_back_the_same(weights: Any) -> None:
    X, y = some_rows()
    fitted = clone(weights).fit(X, y)
    before = dense(fitted.transform(X))
    assert_array_equal(dense(pickle.loads(pickle.dumps(fitted)).transform(X)), before)
    if hasattr(fitted, "partial_fit"):
        back = pickle.loads(pickle.dumps(fitted))
        assert back.partial_fit(X, y).statistic_ == fitted.partial_fit(X, y).statistic_


@each
def test_names_stay_those_of_the_columns(weights: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"money": [1, 0, 2], "meeting": [0, 1, 1]})
    fitted = clone(weights).fit(frame, [1, 0, 1])
    assert fitted.get_feature_names_out().tolist() == ["money", "meeting"]
    assert get_tags(weights).input_tags.sparse
    assert get_tags(weights).input_tags.positive_only is not isinstance(weights, UnitLength)


# ── refusals: one line each, and nothing is changed ──


def refused(call: Any, *arguments: Any, match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match) as raised:
        call(*arguments)
    assert "\n" not in str(raised.value)


@each
def test_broken_numbers_are_refused_by_their_place(weights: Any) -> None:
    X, y = some_rows()
    for value in (np.nan, np.inf):
        broken = X.tolil()
        broken[3, 2] = value
        refused(clone(weights).fit, broken, y, match="got (nan|inf) in row 3 of column 2, expected finite")
    negative = X.tolil()
    negative[3, 2] = -2.0
    if not isinstance(weights, UnitLength):
        refused(clone(weights).fit, negative, y, match="Negative values in data: got -2 in row 3 of column 2")


@each_learning
def test_a_refusal_changes_nothing(weights: Any) -> None:
    X, y = some_rows()
    refused(clone(weights).transform, X, match="learned nothing yet")
    with pytest.raises(NotFittedError):
        _ = clone(weights).statistic_
    fitted = clone(weights).fit(X, y)
    before = fitted.statistic_
    refused(fitted.transform, X[:, :4], match="X has 4 features, but .* is expecting 15")
    refused(fitted.partial_fit, X[:, :4], y, match="X has 4 features")
    refused(fitted.fit, -X[:, :4], y, match="Negative")
    refused(fitted.merge, LogCounts(), match="got a LogCounts to merge")
    refused(fitted.merge, clone(weights).fit(X[:, :4], y), match="different columns")
    refused(fitted.merge, clone(weights), match="learned nothing yet")
    assert fitted.statistic_ is before
    assert fitted.n_features_in_ == 15


def test_what_parameters_cannot_be_is_refused() -> None:
    X, y = some_rows()
    refused(TfIdf(counts="often").fit, X, match="got counts='often', expected one of 'plain', 'log'")  # type: ignore[arg-type]
    refused(TfIdf(idf="no").fit, X, match="got idf='no', expected one of 'smooth', 'plain', None")  # type: ignore[arg-type]
    refused(UnitLength(norm="l3").transform, X, match="got norm='l3', expected one of 'l2', 'l1', 'max'")  # type: ignore[arg-type]
    refused(NaiveBayesWeights(alpha=0).fit, X, y, match="got alpha=0, expected a number above 0")


def test_what_labels_cannot_be_is_refused() -> None:
    X, y = some_rows()
    weights = NaiveBayesWeights().fit(X, y)
    third = y.astype(object)
    third[0] = "eggs"
    for call in (NaiveBayesWeights().fit, weights.fit, weights.partial_fit):
        refused(
            call, X, third, match=r"got 3 classes, .*OneVsRestClassifier\(make_pipeline\(NaiveBayesWeights"
        )
    other = NaiveBayesWeights().fit(X, np.where(y == "ham", "eggs", y))
    refused(weights.merge, other, match="got 3 classes")
    third[0] = None
    refused(weights.partial_fit, X, third, match="label 0 is missing")
    refused(weights.partial_fit, X, y[:7], match="got 7 labels for 40 rows")
    refused(
        weights.merge, NaiveBayesWeights(binary=False).fit(X, y), match="binary=False to merge, expected True"
    )
    refused(weights.set_params(binary=False).transform, X, match="which the rows were learned with: fit anew")
