"""Classes that are named before they come: improbable until then, and never without end."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis import LogisticRegression
from tamis.arrays import Array

each_number = pytest.mark.parametrize("classes", [2, 3])
NAMES = np.array(["no", "yes", "maybe"])


def drawn(classes: int) -> tuple[Array, NDArray[Any]]:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 3))
    truth = rng.normal(size=(3, classes))
    return rows, NAMES[(rows @ truth + rng.gumbel(size=(600, classes))).argmax(axis=1)]


@each_number
def test_a_class_that_is_yet_to_come_is_improbable_and_no_more(classes: int) -> None:
    rows, labels = drawn(classes)
    whole = LogisticRegression().fit(rows, labels)
    late = labels == NAMES[classes - 1]
    first = np.flatnonzero(~late)[:30]
    rest = np.setdiff1d(np.arange(600), first)
    model = LogisticRegression().partial_fit(rows[first], labels[first], classes=NAMES[:classes])
    assert np.abs(model.intercept_).max() < 6.0
    model.partial_fit(rows[rest], labels[rest])
    assert (np.abs(model.coef_ - whole.coef_) < 2.0 * whole.coef_std_).all()
    assert (np.abs(model.intercept_ - whole.intercept_) < 2.0 * whole.intercept_std_).all()
    assert not model.state_.fit.prior.diagonal[3::4].any()  # half rows are rows: the prior stays as it was


@each_number
@pytest.mark.parametrize("parts", [1, 5])
def test_a_stream_in_the_order_of_classes_does_not_run_away(classes: int, parts: int) -> None:
    rows, labels = drawn(classes)
    model = LogisticRegression()
    for name in NAMES[:classes]:
        for index in np.array_split(np.flatnonzero(labels == name), parts):
            model.partial_fit(rows[index], labels[index], classes=NAMES[:classes])
            assert np.abs(model.intercept_).max() < 10.0
            assert model.converged_


def test_a_class_without_weight_is_refused_by_a_fit_alone() -> None:
    rows, labels = drawn(2)
    weight = (labels == "yes").astype(np.float64)
    with pytest.raises(ValueError, match="class 'no' has no weight"):
        LogisticRegression().fit(rows, labels, weight)
    model = LogisticRegression().partial_fit(rows, labels, classes=["no", "yes"], sample_weight=weight)
    assert np.abs(model.intercept_).max() < 10.0
