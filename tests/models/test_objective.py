"""Slopes and curvatures are those of the loss, for every response, dense and sparse."""

import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tamis import threads
from tamis.arrays import Array
from tamis.models.linear.design import SparseDesign
from tamis.models.linear.laplace import LaplaceModel
from tamis.models.linear.objective import GaussianPrior, LinearRows, Objective
from tamis.models.linear.responses import Bernoulli, Gamma, Response, Softmax
from tamis.tables import Sparse
from tests.models.curved_rows import ALL, design_of, drawn, expected, named, near, prior_of

each_response = pytest.mark.parametrize("response", ALL, ids=named)
each_form = pytest.mark.parametrize("as_sparse", [False, True], ids=["dense", "sparse"])
each_end = pytest.mark.parametrize(  # Gamma's canonical scores are above zero thanks to the intercept
    ("response", "intercept"),
    [(response, True) for response in ALL]
    + [(response, False) for response in ALL if not isinstance(response, Gamma)],
    ids=lambda given: ("intercept" if given else "none") if isinstance(given, bool) else named(given),
)
_STEP = 1e-5


def objective_of(response: Response, as_sparse: bool, intercept: bool = True) -> Objective:
    rng = np.random.default_rng(1)
    rows = drawn(response, rng, as_sparse=as_sparse, weighed=True, moved=True, intercept=intercept)
    return LaplaceModel(response, prior_of(response, 3, 0.7, intercept)).objective_of(rows)


def slopes(objective: Objective, at: Array) -> Array:
    """By central differences of the value (D,)."""
    steps = _STEP * np.eye(len(at))
    values = [[objective.value_and_gradient(at + sign * step)[0] for sign in (1, -1)] for step in steps]
    return np.asarray([(up - down) / (2 * _STEP) for up, down in values])


def bends(objective: Objective, at: Array) -> Array:
    """By central differences of the gradient (D, D), less the prior's."""
    steps = _STEP * np.eye(len(at))
    found = [
        objective.value_and_gradient(at + step)[1] - objective.value_and_gradient(at - step)[1]
        for step in steps
    ]
    return np.asarray(found) / (2 * _STEP) - np.diag(objective.prior.precision)


@each_end
@each_form
def test_the_gradient_is_that_of_the_value(response: Response, as_sparse: bool, intercept: bool) -> None:
    objective = objective_of(response, as_sparse, intercept)
    at = near(response, np.random.default_rng(2), 3, intercept)
    assert_allclose(objective.value_and_gradient(at)[1], slopes(objective, at), rtol=1e-6, atol=1e-6)


@each_end
@each_form
def test_the_curvature_is_the_expected_bend_of_the_value(
    response: Response, as_sparse: bool, intercept: bool
) -> None:
    objective = objective_of(response, as_sparse, intercept)
    at = near(response, np.random.default_rng(2), 3, intercept)
    objective = replace(objective, targets=expected(response, objective, at))
    found = objective.information(at)
    assert_allclose(found, bends(objective, at), rtol=1e-6, atol=1e-6)
    assert_allclose(objective.information_diagonal(at), np.diagonal(found), rtol=1e-12)


@each_response
def test_a_full_prior_is_added_whole(response: Response) -> None:
    rng = np.random.default_rng(3)
    objective = objective_of(response, as_sparse=False)
    size = objective.size
    root = rng.normal(size=(size, size))
    belief = GaussianPrior(rng.normal(size=size), root @ root.T)
    at = near(response, rng, 3)
    whole = replace(objective, prior=belief)
    assert_allclose(whole.value_and_gradient(at)[1], slopes(whole, at), rtol=1e-5, atol=1e-5)
    apart = (
        whole.value_and_gradient(at)[0]
        - replace(objective, prior=GaussianPrior(belief.mean, np.zeros(size))).value_and_gradient(at)[0]
    )
    assert_allclose(apart, 0.5 * (at - belief.mean) @ belief.precision @ (at - belief.mean), rtol=1e-10)


@each_response
@each_form
def test_the_gram_is_the_weighted_sum_of_products(response: Response, as_sparse: bool) -> None:
    objective = objective_of(response, as_sparse)
    rows = next(iter(objective.design.blocks(0, 60))).dense()
    assert objective.weights is not None
    assert_allclose(objective.gram(), rows.T @ (objective.weights[:, None] * rows), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("response", [Bernoulli(), Softmax.of(3)], ids=named)
@each_form
def test_no_bit_depends_on_the_number_of_threads(
    response: Response, as_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    rows = drawn(response, rng, 60_000, 10, as_sparse=as_sparse, weighed=True)
    assert rows.design.cells > 1 << 18  # else there is but one lane
    objective = LaplaceModel(response, prior_of(response, 10, 1.0)).objective_of(rows)
    at = near(response, rng, 10)

    def found() -> list[Array]:
        value, gradient = objective.value_and_gradient(at)
        return [np.asarray(value), gradient, objective.information(at), objective.information_diagonal(at)]

    monkeypatch.setattr(threads, "_processors", lambda: 1)
    alone = found()
    for processors in (2, 3, 4):
        monkeypatch.setattr(threads, "_processors", lambda count=processors: count)
        for one, other in zip(alone, found(), strict=True):
            assert np.array_equal(one, other)


_DIGEST = """
import hashlib, numpy as np
from tamis import LogisticRegression
rng = np.random.default_rng(0)
rows = rng.normal(size=(10_000, 20))
for classes in (2, 4):
    labels = (rows @ rng.normal(size=(20, classes)) + rng.gumbel(size=(10_000, classes))).argmax(axis=1)
    model = LogisticRegression().fit(rows, labels)
    print(hashlib.md5(model.coef_.tobytes() + model.coef_std_.tobytes()).hexdigest())
"""


def test_no_bit_depends_on_the_threads_of_blas() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={**os.environ, "OPENBLAS_NUM_THREADS": count, "MKL_NUM_THREADS": count},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for count in ("1", "2")
    ]
    assert found[0] == found[1]


def test_the_curvature_of_many_classes_fills_up_few_sparse_rows_at_a_time() -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(20_000, 200)) * (rng.random((20_000, 200)) < 0.02)
    rows = LinearRows(design_of(dense, as_sparse=True), rng.integers(0, 3, 20_000).astype(np.float64))
    objective = LaplaceModel(Softmax.of(3), prior_of(Softmax.of(3), 200, 1.0)).objective_of(rows)
    tracemalloc.start()
    found = objective.information(np.zeros(402))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * 8 * 20_000 * 3 * 201  # all rows at once take that, times three
    part = replace(objective, design=design_of(dense), targets=rows.targets)
    assert_allclose(found, part.information(np.zeros(402)), rtol=1e-9, atol=1e-9)


@each_form
def test_columns_far_from_zero_are_taken_about_their_mean_where_an_intercept_makes_up_for_it(
    as_sparse: bool,
) -> None:
    values = 1e8 + np.random.default_rng(5).normal(size=(50, 2))
    centre = design_of(values, True, as_sparse).centre
    assert_allclose(centre, 0.0 if as_sparse else values.mean(axis=0))
    assert not design_of(values, False).centre.any()
    assert not design_of(values, True, centred=False).centre.any()


@each_form
def test_the_extent_is_that_of_the_longest_row_and_the_largest_numbers(as_sparse: bool) -> None:
    values = np.array([[3.0, 0.0], [0.0, -7.0], [2.0, 4.0]])
    reach, extent = design_of(values, True, as_sparse).find_reach_and_extent()
    assert reach == pytest.approx(np.sqrt(50.0))
    assert extent.tolist() == [3.0, 7.0, 1.0]


def test_one_sparse_row_of_many_columns_has_no_empty_lane() -> None:
    columns = 300_000
    row = Sparse(np.array([0, columns]), np.arange(columns), np.linspace(-2.0, 1.0, columns), columns)
    norm, largest = SparseDesign.of(row, intercept=True).find_reach_and_extent()
    assert_allclose(norm, np.sqrt(np.square(row.values).sum() + 1.0))
    assert largest.max() == 2.0
    assert largest[-1] == 1.0


@pytest.mark.parametrize(
    ("precision", "flat"),
    [
        ((1e-6, 1e-12), (False, True)),  # the second is lost in the sum of squares, 1e16 for each column
        ((1e-6, 0.0), (False, True)),
        ((1e-9, 1e-9), (True, True)),
        ((1e-7, 1e-7), (False, False)),
        ((0.0, 0.0), (True, True)),
    ],
)
def test_a_prior_is_flat_whatever_those_of_the_other_parameters_are(
    precision: tuple[float, float], flat: tuple[bool, bool]
) -> None:
    prior = GaussianPrior(np.zeros(2), np.array(precision))
    rows = LinearRows(design_of(np.array([[1e8, 0.0], [0.0, 1e8]]), intercept=False), np.array([0.0, 1.0]))
    objective = Objective.of(rows, Bernoulli(), prior)
    assert tuple(objective.mask_flat_priors().tolist()) == flat
    assert objective.has_prior_on_all_coefficients() is not any(flat)
    scarce = LinearRows(design_of(np.eye(2), intercept=False), rows.targets)
    has_prior = Objective.of(scarce, Bernoulli(), prior).has_prior_on_all_coefficients()
    assert has_prior is all(value > 0 for value in precision)  # 1e-12 is not lost beside 1


def test_only_weights_above_zero_are_counted() -> None:
    rows = LinearRows(design_of(np.eye(3), intercept=False), np.ones(3), np.array([-1.0, 0.0, 2.0]))
    assert rows.count_weighted_rows() == 1
