"""Each wrong parameter is refused in one line, which names parameters that the face has."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import tamis
from tamis import basis
from tests.estimators.faces import FACES

X = np.random.default_rng(0).poisson(2.0, (30, 4)).astype(np.float64)
CLASSES = np.random.default_rng(1).integers(0, 3, 30)
NUMBERS = np.random.default_rng(2).normal(size=30)
RATINGS = [("a", "x", 1.0), ("b", "x", 2.0), ("a", "y", 3.0), ("b", "z", 1.0)]

WRONG: list[Any] = [
    -1,
    -0.5,
    0,
    np.nan,
    np.inf,
    "nonsense",
    [],
    [1.0, 2.0],
    [-1.0] * 4,
    object(),
    {"a": 1},
    2.5,
]
CLASSIFIERS = [
    tamis.NaiveBayes,
    tamis.GaussianNB,
    tamis.MultinomialNB,
    tamis.ComplementNB,
    tamis.BernoulliNB,
    tamis.CategoricalNB,
    tamis.PoissonNB,
    tamis.GaussianDiscriminant,
    tamis.FisherDiscriminant,
]
OTHERS = [
    tamis.Mixture,
    tamis.BayesianLinearRegression,
    tamis.LogisticRegression,
    tamis.GeneralizedLinear,
    tamis.PCA,
    tamis.MatrixFactorization,
    *(getattr(basis, name) for name in basis.__all__),
]
ASSIGNED = re.compile(r"\b([a-z_]+)=")  # how a message writes a parameter and its value


def named(make: Any) -> str:
    return str(make.__name__)


def use(model: Any) -> None:
    """Fit the model to rows that suit it, and ask it for an answer: some parameters are read only then."""
    if isinstance(model, tamis.MatrixFactorization):
        model.fit(RATINGS).recommend("a", n=1)
        return
    regression = isinstance(model, tamis.BayesianLinearRegression | tamis.GeneralizedLinear)
    model.fit(X, NUMBERS if regression else CLASSES)
    for verb in ("predict", "transform"):
        if hasattr(model, verb):
            getattr(model, verb)(X)


@cache
def complaints(make: Callable[..., Any]) -> list[tuple[str, Any, str]]:
    """The parameter, the value and the message of each refusal of a wrong value."""
    found = []
    for name in make().get_params():
        for value in WRONG:
            if isinstance(make().get_params()[name], bool) or name == "verbose":
                continue
            try:
                use(make().set_params(**{name: value}))
            except (ValueError, TypeError) as problem:
                found.append((name, value, str(problem)))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [*CLASSIFIERS, *OTHERS], ids=named)
def test_messages_name_no_parameter_that_the_face_does_not_have(make: Any) -> None:
    parameters = set(make().get_params())
    found = complaints(make)
    assert found
    for name, value, said in found:
        # n_samples is scikit-learn's word for the number of rows
        unknown = set(ASSIGNED.findall(said)) - parameters - {"n_samples"}
        assert not unknown, f"{name}={value!r}: {said}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", CLASSIFIERS, ids=named)
def test_a_message_names_the_parameter_that_is_wrong_in_one_line(make: Any) -> None:
    for name, value, said in complaints(make):
        assert name in said, f"{name}={value!r}: {said}"
        assert "\n" not in said


def test_every_naive_bayes_face_is_tried() -> None:
    assert {type(face.make()) for face in FACES} <= set(CLASSIFIERS)


@pytest.mark.parametrize("make", [tamis.CategoricalNB, tamis.PoissonNB])
def test_one_alpha_for_all_columns_is_asked_for_where_each_cannot_have_its_own(make: Any) -> None:
    with pytest.raises(ValueError, match=r"^got alpha of shape \(2,\), expected one number of at least 0$"):
        make(alpha=[0.5, 1.0]).fit(X[:, :2], CLASSES)


def test_a_class_prior_that_is_no_distribution_is_refused() -> None:
    for prior in ([0.0, 0.0, 0.0], [np.inf, 1.0, 1.0], [np.nan, 0.5, 0.5]):
        with pytest.raises(ValueError, match=r"got class_prior=\["):
            tamis.MultinomialNB(class_prior=prior).fit(X, CLASSES)


def test_a_discriminant_names_only_what_it_was_given_beside_its_estimate() -> None:
    with pytest.raises(
        ValueError, match=r"^got shrinkage=0\.1 with estimate='mean', expected estimate='mle'"
    ):
        tamis.GaussianDiscriminant(shrinkage=0.1).fit(X, CLASSES)
    with pytest.raises(ValueError, match=r"^got unbiased=True with estimate='mean', expected estimate='mle'"):
        tamis.GaussianDiscriminant(unbiased=True).fit(X, CLASSES)


def test_an_alpha_that_was_raised_is_reported() -> None:
    with pytest.warns(
        UserWarning, match="got alpha=0.0 with force_alpha=False, so that 1e-10 is used"
    ) as caught:
        model = tamis.MultinomialNB(alpha=0.0, force_alpha=False).fit(X, CLASSES)
    assert caught[0].filename == __file__
    expected = tamis.MultinomialNB(alpha=1e-10).fit(X, CLASSES).feature_log_prob_
    assert np.array_equal(model.feature_log_prob_, expected)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_pseudo_count_for_each_column_of_flags_is_that_of_each_column_alone(convert: Any) -> None:
    alphas = [0.5, 1.0, 2.0, 7.0]
    model = tamis.BernoulliNB(alpha=alphas, binarize=1.5).fit(convert(X), CLASSES)
    each = [
        tamis.BernoulliNB(alpha=alpha, binarize=1.5).fit(convert(X[:, [j]]), CLASSES)
        for j, alpha in enumerate(alphas)
    ]
    together = np.concatenate([one.feature_log_prob_ for one in each], axis=1)
    np.testing.assert_allclose(model.feature_log_prob_, together, rtol=1e-12)
    assert model.log_evidence_ == pytest.approx(sum(one.log_evidence_ for one in each), rel=1e-12)
    left_out = model.cross_validate(convert(X), CLASSES, folds="leave-one-out").log_joint
    for i in range(0, 30, 7):
        rest = np.arange(30) != i
        fresh = tamis.BernoulliNB(alpha=alphas, binarize=1.5).fit(X[rest], CLASSES[rest])
        np.testing.assert_allclose(left_out[i], fresh.predict_joint_log_proba(X[[i]])[0], rtol=1e-10)


@pytest.mark.parametrize(
    ("alone", "message"),
    [
        (
            [[3, 2], [2, 4]],
            "got min_categories=.*, expected one number of at least 0, or one for each of the 4",
        ),
        ([0.5] * 4, "'min_categories' should have integral type: got min_categories="),
    ],
)
def test_what_is_wrong_with_min_categories_is_said(alone: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tamis.CategoricalNB(min_categories=alone).fit(X, CLASSES)


# ── one line ──


WRONG_OPTIONS = ["many", -1, 2.5, None, [1, 2], [[1, 2], [3, 4]], np.nan, np.ones((2, 2))]


@pytest.mark.parametrize("wrong", WRONG_OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["max_iter", "n_init", "tol", "random_state"])
def test_wrong_parameters_of_a_mixture_are_named_in_one_line(name: str, wrong: Any) -> None:
    if (name == "random_state" and wrong is None) or (name == "tol" and repr(wrong) == "2.5"):
        return
    with pytest.raises((ValueError, TypeError), match=f"^got {name}=.*expected") as caught:
        tamis.Mixture(2, **{name: wrong}).fit(np.random.default_rng(0).normal(size=(20, 2)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        tamis.BayesianLinearRegression,
        tamis.GeneralizedLinear,
        tamis.LogisticRegression,
        tamis.PCA,
        tamis.MatrixFactorization,
        tamis.Mixture,
    ],
)
def test_matrices_as_parameters_are_named_in_one_line(make: Any) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5, (20, 3)).astype(np.float64) + rng.random((20, 3))
    for name in make().get_params(deep=False):
        for wrong in (np.ones((2, 2)), [[1.0, 2.0], [3.0, 4.0]]):
            with pytest.raises((ValueError, TypeError), match=name.removesuffix("_init")) as caught:
                make(**{name: wrong}).fit(rows, np.arange(20) % 2)
            assert "\n" not in str(caught.value), (name, str(caught.value))


@pytest.mark.parametrize("covariance", ["full", "tied", "diag"])
def test_a_discriminant_asks_for_nan_only_where_it_takes_nan(covariance: Any) -> None:
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    model = tamis.GaussianDiscriminant(covariance).fit(rows, np.arange(20) % 2)
    with pytest.raises(ValueError, match="X has no column 'b'") as caught:
        model.predict(rows[["a"]])
    assert ("NaN" in str(caught.value)) == (covariance == "diag")
