"""Naive Bayes of counts and flags: values that are missing, columns alone, and attributes people know."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.naive_bayes
from numpy.testing import assert_allclose
from scipy import sparse

import tamis

X = np.random.default_rng(0).poisson(2.0, (30, 4)).astype(np.float64)
Y = np.random.default_rng(1).integers(0, 3, 30)
GAP = X.copy()
GAP[3, 1] = np.nan


@pytest.mark.parametrize(
    ("model", "outcomes"),
    [
        (tamis.PoissonNB(), np.arange(200.0)),
        (tamis.PoissonNB(estimate="predictive"), np.arange(4000.0)),
        (tamis.BernoulliNB(), np.array([0.0, 1.0])),
        (tamis.CategoricalNB(), np.arange(X[:, 1].max() + 1.0)),
    ],
    ids=["poisson", "negative-binomial", "bernoulli", "categorical"],
)
def test_a_missing_value_is_summed_out(model: Any, outcomes: Any) -> None:
    """log p(class, rest) is the log of Σ over the values that the missing one may have."""
    model.fit(X, Y)
    every = np.repeat(X[[3]], len(outcomes), axis=0)
    every[:, 1] = outcomes
    summed = np.logaddexp.reduce(model.predict_joint_log_proba(every), axis=0)
    assert_allclose(model.predict_joint_log_proba(GAP[[3]])[0], summed, rtol=1e-9)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("make", [tamis.MultinomialNB, tamis.ComplementNB])
def test_a_missing_count_of_draws_has_no_probability_and_is_refused(make: Any, convert: Any) -> None:
    model = make().fit(X, Y)
    before = model.statistic_
    for act in (make().fit, model.partial_fit, model.unlearn):
        with pytest.raises(ValueError, match=r"holds NaN.*, expected counts: a multinomial has no") as caught:
            act(convert(GAP), Y)
        assert "\n" not in str(caught.value)
    for ask in (model.predict, model.predict_proba, model.explain):
        with pytest.raises(ValueError, match="holds NaN"):
            ask(convert(GAP))
    assert model.statistic_ == before
    assert not model.__sklearn_tags__().input_tags.allow_nan


def test_columns_that_count_together_refuse_a_missing_count_in_every_face() -> None:
    for model in (tamis.NaiveBayes("multinomial"), tamis.Mixture(2, families="multinomial", random_state=0)):
        with pytest.raises(ValueError, match="column 1 holds NaN in row 3, expected counts"):
            model.fit(GAP, Y)


def test_a_column_that_is_absent_is_not_said_to_be_filled_with_nan() -> None:
    model = tamis.MultinomialNB().fit(pd.DataFrame(X, columns=list("abcd")), Y)
    with pytest.raises(ValueError, match=r"no column 'd', which MultinomialNB was fitted with: add it$"):
        model.predict(pd.DataFrame(X[:, :3], columns=list("abc")))


def test_complement_weights_of_a_single_column_say_nothing() -> None:
    for norm in (False, True):
        model = tamis.ComplementNB(norm=norm).fit(X[:, :1], Y)
        assert_allclose(model.feature_log_prob_, 0.0, atol=1e-15)
        assert_allclose(model.predict_proba(X[:, :1]), 1.0 / 3.0)


@pytest.mark.parametrize("norm", [False, True])
def test_an_infinite_complement_weight_is_refused(norm: bool) -> None:
    rows = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [0.0, 1.0, 4.0]])
    with pytest.raises(ValueError, match=r"column 0 has counts in no class but 0, .* expected alpha above 0"):
        tamis.ComplementNB(alpha=0.0, norm=norm).fit(rows, [0, 1, 2])
    shared = rows + 1.0
    ours = tamis.ComplementNB(alpha=0.0, norm=norm).fit(shared, [0, 1, 2])
    theirs = sklearn.naive_bayes.ComplementNB(alpha=0.0, norm=norm).fit(shared, [0, 1, 2])
    assert_allclose(ours.feature_log_prob_, theirs.feature_log_prob_, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "name", ["GaussianNB", "MultinomialNB", "ComplementNB", "BernoulliNB", "CategoricalNB"]
)
def test_every_fitted_attribute_of_scikit_learn_is_there_and_the_same(name: str, weighted: bool) -> None:
    weights = np.random.default_rng(2).random(30) + 0.5 if weighted else None
    ours = getattr(tamis, name)().fit(X, Y, sample_weight=weights)
    theirs = getattr(sklearn.naive_bayes, name)().fit(X, Y, sample_weight=weights)
    attributes = [word for word in dir(theirs) if word.endswith("_") and not word.startswith("_")]
    assert {"class_count_", "classes_", "n_features_in_"} < set(attributes)
    for attribute in attributes:
        if weighted and attribute == "epsilon_":
            continue  # a difference that docs/howto/from-scikit-learn.md tells of
        found, expected = getattr(ours, attribute), getattr(theirs, attribute)
        if isinstance(expected, list):
            for one, other in zip(found, expected, strict=True):
                assert_allclose(one, other, rtol=1e-10)
            continue
        assert_allclose(found, expected, rtol=1e-7 if attribute == "var_" else 1e-10)
        assert np.shape(found) == np.shape(expected)
