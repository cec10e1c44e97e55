"""The same answers as scikit-learn's naive Bayes, and attributes of the same names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn import naive_bayes as theirs

from tamis import estimators as ours
from tamis.arrays import Array
from tests.estimators.faces import codes, counts, flags, numbers

TOLERANCE = 1e-10
DISCRETE = ["feature_count_", "feature_log_prob_", "class_log_prior_", "class_count_"]
ATTRIBUTES = {
    "GaussianNB": ["theta_", "var_", "epsilon_", "class_prior_", "class_count_"],
    "MultinomialNB": DISCRETE,
    "ComplementNB": DISCRETE,
    "BernoulliNB": DISCRETE,
    "CategoricalNB": [
        "category_count_",
        "feature_log_prob_",
        "n_categories_",
        "class_log_prior_",
        "class_count_",
    ],
}
DRAW: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "GaussianNB": numbers,
    "MultinomialNB": counts,
    "ComplementNB": counts,
    "BernoulliNB": flags,
    "CategoricalNB": codes,
}
ALPHA = np.array([0.5, 1.0, 2.0, 0.0])
# face, its parameters
CASES: list[tuple[str, dict[str, Any]]] = [
    ("GaussianNB", {}),
    ("GaussianNB", {"var_smoothing": 0.1}),
    ("GaussianNB", {"priors": [0.2, 0.3, 0.5]}),
    *[
        (name, params)
        for name in ("MultinomialNB", "ComplementNB", "BernoulliNB", "CategoricalNB")
        for params in (
            {},
            {"alpha": 0.01},
            {"fit_prior": False},
            {"class_prior": [0.2, 0.3, 0.5]},
            {"alpha": 1e-12, "force_alpha": False},
        )
    ],
    ("MultinomialNB", {"alpha": ALPHA, "force_alpha": False}),
    ("MultinomialNB", {"alpha": ALPHA + 0.1}),
    ("ComplementNB", {"alpha": ALPHA + 0.1, "norm": True}),
    ("ComplementNB", {"norm": True}),
    ("BernoulliNB", {"binarize": None}),
    ("BernoulliNB", {"binarize": 0.5}),
    ("CategoricalNB", {"min_categories": 7}),
    ("CategoricalNB", {"min_categories": [2, 9, 4, 6]}),
]
pytestmark = pytest.mark.filterwarnings("ignore:alpha too small:UserWarning")  # scikit-learn says so itself
each_case = pytest.mark.parametrize(("name", "params"), CASES, ids=lambda part: str(part).replace("\n", " "))
each_name = pytest.mark.parametrize("name", sorted(ATTRIBUTES))


def both(name: str, params: dict[str, Any]) -> tuple[Any, Any]:
    return getattr(ours, name)(**params), getattr(theirs, name)(**params)


def rows(name: str, n: int = 60, seed: int = 0) -> tuple[Array, Any]:
    """Rows and the labels of three classes; the first rows hold every category there will be."""
    rng = np.random.default_rng(seed)
    return DRAW[name](rng, n, 4), np.concatenate([[0, 1, 2], rng.integers(0, 3, n - 3)])


def assert_alike(one: Any, other: Any, new: Any, name: str, tolerance: float = TOLERANCE) -> None:
    assert one.classes_.tolist() == other.classes_.tolist()
    assert_allclose(
        one.predict_joint_log_proba(new), other.predict_joint_log_proba(new), rtol=tolerance, atol=tolerance
    )
    assert_allclose(one.predict_proba(new), other.predict_proba(new), rtol=tolerance, atol=tolerance)
    assert_allclose(one.predict_log_proba(new), other.predict_log_proba(new), rtol=tolerance, atol=tolerance)
    assert one.predict(new).tolist() == other.predict(new).tolist()
    for attribute in ATTRIBUTES[name]:
        left, right = getattr(one, attribute), getattr(other, attribute)
        if not isinstance(left, list):
            left, right = [left], [right]
        assert len(left) == len(right)
        for mine, his in zip(left, right, strict=True):
            assert np.shape(mine) == np.shape(his), attribute
            assert_allclose(mine, his, rtol=tolerance, atol=tolerance, err_msg=attribute)


@each_case
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_all_answers_are_those_of_scikit_learn(name: str, params: dict[str, Any], weighted: bool) -> None:
    for seed in range(3):
        data, labels = rows(name, seed=seed)
        weights = np.random.default_rng(seed).random(len(labels)) * 3 if weighted else None
        if weighted and name == "GaussianNB":  # its smoothing takes no notice of weights; see below
            params = params | {"var_smoothing": 0.0}
        one, other = both(name, params)
        one.fit(data, labels, sample_weight=weights)
        other.fit(data, labels, sample_weight=weights)
        # log(1 − p) of a p near 1 has lost half its digits in scikit-learn
        near_one = name == "BernoulliNB" and params.get("alpha", 1.0) < 1e-6
        assert_alike(one, other, data, name, 1e-4 if near_one else TOLERANCE)


def test_smoothing_by_weights_is_that_of_repeated_rows() -> None:
    data, labels = rows("GaussianNB")
    times = np.arange(len(labels)) % 4 + 1
    one, other = both("GaussianNB", {"var_smoothing": 0.1})
    one.fit(data, labels, sample_weight=times)
    assert_alike(one, other.fit(data.repeat(times, axis=0), labels.repeat(times)), data, "GaussianNB")


def test_numbers_never_seen_have_a_column_of_their_own() -> None:
    data, labels = np.array([[0, 5], [3, 2], [3, 0], [0, 2]]), [0, 1, 1, 0]
    one, other = both("CategoricalNB", {})
    assert_alike(one.fit(data, labels), other.fit(data, labels), [[1, 4], [2, 2]], "CategoricalNB")
    assert one.categories_ == [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]


@each_name
@pytest.mark.parametrize("classes", [1, 2, 5])
def test_the_number_of_classes_makes_no_difference(name: str, classes: int) -> None:
    data, _ = rows(name)
    labels = np.arange(len(data)) % classes
    one, other = both(name, {})
    if name == "GaussianNB":
        assert_alike(one.fit(data, labels), other.fit(data, labels), data, name, 1e-9)
    else:
        assert_alike(one.fit(data, labels), other.fit(data, labels), data, name)


@each_name
def test_labels_may_be_strings(name: str) -> None:
    data, labels = rows(name)
    words = np.array(["spam", "ham", "urgent"])[labels]
    one, other = both(name, {})
    assert_alike(one.fit(data, words), other.fit(data, words), data, name)
    boxed = words.astype(object)
    assert_alike(one.fit(data, boxed), other.fit(data, boxed), data, name)
    assert_alike(ours.__dict__[name]().fit(data, words.tolist()), other, data, name)


@each_name
def test_float32_rows_are_taken_for_what_they_are(name: str) -> None:
    data, labels = rows(name)
    narrow = data.astype(np.float32)
    one, other = both(name, {})
    assert_alike(one.fit(narrow, labels), other.fit(narrow.astype(np.float64), labels), narrow, name)


@each_name
def test_integers_of_every_width_are_numbers(name: str) -> None:
    data, labels = rows(name)
    one, other = both(name, {})
    for kind in (np.uint8, np.int16, np.int32, np.int64):
        whole = data.astype(kind)
        assert_alike(one.fit(whole, labels), other.fit(whole, labels), whole, name)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("flavour", ["array", "matrix"])
@pytest.mark.parametrize(
    ("name", "params"), [case for case in CASES if case[0] not in ("GaussianNB", "CategoricalNB")], ids=str
)
def test_sparse_rows_are_rows(name: str, params: dict[str, Any], form: str, flavour: str) -> None:
    data, labels = rows(name)
    thin = getattr(sparse, f"{form}_{flavour}")(data)
    one, other = both(name, params)
    assert_alike(one.fit(thin, labels), other.fit(data, labels), data, name)
    assert_allclose(one.predict_joint_log_proba(thin), other.predict_joint_log_proba(data), rtol=TOLERANCE)
    weights = np.arange(len(labels)) % 4 + 0.5
    one.fit(thin, labels, sample_weight=weights)
    assert_alike(one, other.fit(data, labels, sample_weight=weights), data, name)


def test_entries_that_come_twice_in_a_sparse_matrix_add_up() -> None:
    twice = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    for name in ("MultinomialNB", "ComplementNB", "BernoulliNB"):
        one, other = both(name, {})
        assert_alike(one.fit(twice, [0, 1]), other.fit(twice.toarray(), [0, 1]), twice.toarray(), name)


def test_sparse_numbers_below_the_threshold_count_as_absent() -> None:
    thin = sparse.csr_array([[0.2, 0.0, 3.0], [0.7, 0.4, 0.0], [0.0, 0.9, 1.0]])
    for binarize in (0.0, 0.5):
        one, other = both("BernoulliNB", {"binarize": binarize})
        assert_alike(one.fit(thin, [0, 1, 1]), other.fit(thin, [0, 1, 1]), thin, "BernoulliNB")
    below = ours.BernoulliNB(binarize=-0.5).fit(thin, [0, 1, 1])  # which scikit-learn refuses
    assert below.feature_count_.tolist() == [[1, 1, 1], [2, 2, 2]]


@each_name
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_are_rows_with_names(name: str, library: Any) -> None:
    data, labels = rows(name)
    frame = library.DataFrame({f"x{j}": data[:, j] for j in range(4)})
    one, other = both(name, {})
    one.fit(frame, library.Series(labels))
    assert one.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    assert_alike(one.fit(frame, labels), other.fit(data, labels), data, name)
    assert one.predict(frame).tolist() == other.predict(data).tolist()


@each_name
def test_partial_fit_in_batches_is_fit(name: str) -> None:
    """scikit-learn's own GaussianNB fails this: its smoothing depends on the batches."""
    data, labels = rows(name, 90)
    one, other = both(name, {})
    for start in range(0, 90, 7):
        one.partial_fit(data[start : start + 7], labels[start : start + 7], classes=[0, 1, 2])
    assert_alike(one, other.fit(data, labels), data, name)


@each_name
def test_classes_may_be_declared_before_they_are_seen(name: str) -> None:
    if name == "GaussianNB":
        pytest.skip("scikit-learn divides by zero for a Gaussian of which nothing was seen")
    data, labels = rows(name)
    here = labels < 2
    one, other = both(name, {"fit_prior": False})
    one.partial_fit(data[here], labels[here], classes=[0, 1, 2])
    other.partial_fit(data[here], labels[here], classes=[0, 1, 2])
    assert_alike(one, other, data[here], name)


def test_means_far_from_zero_do_not_spoil_variances() -> None:
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(200, 2)) + 1e8, np.arange(200) % 2
    found = ours.GaussianNB(var_smoothing=0.0).fit(data, labels).var_
    exact = [[float(np.var(data[labels == k, j] - 1e8)) for j in range(2)] for k in range(2)]
    assert_allclose(found, exact, rtol=1e-12)
