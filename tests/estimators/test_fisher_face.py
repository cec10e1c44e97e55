"""Fisher's discriminant behind scikit-learn's verbs: directions, learned in parts, as arrays or frames."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis.estimators import FisherDiscriminant, GaussianDiscriminant
from tests.estimators.test_discriminants import clusters, one_line


@parametrize_with_checks([FisherDiscriminant()])  # type: ignore[untyped-decorator]  # scikit-learn has no types
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_fishers_transform_is_that_of_linear_discriminant_analysis(classes: int) -> None:
    rows, labels = clusters(classes=classes)
    ours = FisherDiscriminant().fit(rows, labels)
    theirs = LinearDiscriminantAnalysis().fit(rows, labels)
    found, expected = ours.transform(rows), theirs.transform(rows)
    signs = np.sign((found * expected).sum(axis=0))
    assert_allclose(found, expected * signs, rtol=1e-8, atol=1e-8)
    assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-8)
    assert_allclose(ours.xbar_, theirs.xbar_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_projection_may_be_a_frame(library: Any) -> None:
    rows, labels = clusters()
    frame = library.DataFrame(dict(zip("abc", rows.T, strict=True)))
    model = FisherDiscriminant().fit(frame, labels)
    plain = model.transform(frame)
    found = model.set_output(transform=library.__name__).transform(frame)
    assert isinstance(found, library.DataFrame)
    assert list(found.columns) == ["fisherdiscriminant0", "fisherdiscriminant1"]
    assert_array_equal(found.to_numpy(), plain)
    assert model.get_feature_names_out().tolist() == list(found.columns)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_directions_need_classes_to_tell_apart() -> None:
    rows, labels = clusters()
    with pytest.raises(
        ValueError, match="3 classes of 3 columns, expected a whole number from 1 to 2"
    ) as caught:
        FisherDiscriminant(n_components=5).fit(rows, labels)
    assert one_line(caught)
    with pytest.raises(ValueError, match="for 1 classes") as caught:
        FisherDiscriminant().fit(rows, np.zeros(120)).transform(rows)
    assert one_line(caught)


def test_directions_are_learned_in_parts() -> None:
    rows, labels = clusters()
    whole = FisherDiscriminant(exact=True).fit(rows, labels)
    parts = FisherDiscriminant(exact=True).fit(rows[50:], labels[50:]).partial_fit(rows[:50], labels[:50])
    assert parts.statistic_ == whole.statistic_
    assert_array_equal(parts.transform(rows), whole.transform(rows))
    wide = np.column_stack([rows, np.ones(120), rows[:, 0]])
    found, expected = FisherDiscriminant().fit(wide, labels).transform(wide), whole.transform(rows)
    assert_allclose(found, expected * np.sign((found * expected).sum(axis=0)), atol=1e-9)


@pytest.mark.parametrize("count", [0, 3, 1.5, True, "mle"])
def test_a_number_of_components_that_does_not_fit_is_refused_in_fit(count: Any) -> None:
    rows, labels = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    model = FisherDiscriminant(count)
    with pytest.raises(
        ValueError, match=r"^got n_components=.* for 3 classes of 4 columns, expected [^\n]* from 1 to 2"
    ):
        model.fit(rows, labels)
    assert not hasattr(model, "classes_")
    assert FisherDiscriminant(2).fit(rows, labels).transform(rows).shape == (30, 2)


def test_advice_about_missing_values_names_no_parameter_that_there_is_not() -> None:
    rows, labels = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    rows[4, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"column 2 holds NaN in row 4.* or use GaussianDiscriminant\(covariance='diag'\)$"
    ):
        FisherDiscriminant().fit(rows, labels)
    assert GaussianDiscriminant(covariance="diag").fit(rows, labels).predict(rows).shape == (30,)
