"""Intervals of the next answer have one shape in all models."""

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tamis import BayesianLinearRegression, GeneralizedLinear, MatrixFactorization

rng = np.random.default_rng(0)
X = rng.normal([1.0, -2.0, 3.0], size=(90, 3))
Y = X @ [1.0, 2.0, 0.0] + 5.0 + rng.normal(size=90)


def test_intervals_of_the_next_answer_have_one_shape() -> None:
    """Lower and upper ends, each in the shape of `predict`, and coverage is the second argument."""
    counts = np.random.default_rng(1).poisson(np.exp(0.1 * Y))
    users, items = np.repeat(np.arange(12), 6), np.tile(np.arange(6), 12)
    ratings = [(int(u), int(i), float(1 + (u * i) % 5)) for u, i in zip(users, items, strict=True)]
    recommender = MatrixFactorization(2, method="gibbs", random_state=0).fit(ratings)
    cases: list[tuple[Any, Any]] = [
        (BayesianLinearRegression().fit(X, Y), X[:7]),
        (BayesianLinearRegression(beta="unknown").fit(X, Y), X[:2]),
        (BayesianLinearRegression().fit(X, np.column_stack([Y, -Y])), X[:7]),
        (GeneralizedLinear().fit(X, Y), X[:7]),
        (GeneralizedLinear("poisson").fit(X, counts), X[:2]),
        (recommender, [row[:2] for row in ratings[:7]]),
        (recommender, [row[:2] for row in ratings[:2]]),
    ]
    for model, asked in cases:
        assert list(inspect.signature(model.predict_interval).parameters)[1] == "coverage"
        assert inspect.signature(model.predict_interval).parameters["coverage"].default == 0.9
        mean = model.predict(asked)
        narrow, wide = model.predict_interval(asked, 0.5), model.predict_interval(asked, coverage=0.99)
        assert isinstance(narrow, tuple)
        for low, high in (narrow, wide):
            assert low.shape == high.shape == mean.shape
            assert (low <= high).all()
        assert (wide[0] <= narrow[0]).all()
        assert (narrow[1] <= wide[1]).all()


def test_intervals_of_the_next_count_are_those_of_its_distribution() -> None:
    counts = np.random.default_rng(1).poisson(np.exp(0.1 * Y))
    model = GeneralizedLinear("poisson").fit(X, counts)
    hours = np.full(5, 8.0)
    said = model.predict_distribution(X[:5], exposure=hours).interval(0.8)
    assert_array_equal(model.predict_interval(X[:5], 0.8, exposure=hours), said)
    with pytest.raises(ValueError, match="use mean_interval or sample_functions"):
        GeneralizedLinear("gamma", link="log").fit(X, np.exp(0.2 * Y)).predict_interval(X[:5])
