"""No index gets through a door of the kernels that would lead compiled code outside an array."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tamis import _kernels
from tamis._kernels import factors
from tests.compiled_core import needs_core
from tests.kernels.oracle import compiled

ONES = np.ones(3)
ROWS = np.array([0, 1, 3])
PLACES = np.array([0, 1, 2])
CODES = np.array([[0, 1], [1, -1]])
OFFSETS = np.array([0, 2, 4])
OTHER, TABLE = np.ones((3, 2)), np.ones((4, 3))
VALUES = np.ones((2, 2))
BOUNDS = _kernels.span(VALUES)[0]

Call = Callable[..., Any]


def deposit_sparse(
    indptr: Any = ROWS, indices: Any = PLACES, values: Any = ONES, group: Any = None, weights: Any = None
) -> Any:
    return _kernels.deposit_sparse(indptr, indices, values, weights, group, 2, 3)


def deposit_codes(codes: Any = CODES, offsets: Any = OFFSETS, group: Any = None) -> Any:
    return _kernels.deposit_codes(codes, offsets, None, group, 2)


def gather_scores(codes: Any = CODES, offsets: Any = OFFSETS, table: Any = TABLE) -> Any:
    return _kernels.gather_scores(codes, offsets, table, ONES)


def deposit(group: Any) -> Any:
    return _kernels.deposit(VALUES, BOUNDS, group, 2)


def gaussian_scores(mean: Any = VALUES) -> Any:
    return _kernels.gaussian_scores(VALUES, mean, VALUES, VALUES, np.zeros(2))


def solve_rows(indptr: Any = ROWS, indices: Any = PLACES, weights: Any = ONES, other: Any = OTHER) -> Any:
    return factors.solve_rows(indptr, indices, weights, ONES, other, np.ones((2, 2)))


def row_squares(indptr: Any = ROWS, indices: Any = PLACES, other: Any = OTHER) -> Any:
    return factors.row_squares(indptr, indices, ONES, ONES, VALUES, other)


def dot_pairs(i: Any = PLACES, j: Any = PLACES, right: Any = OTHER) -> Any:
    return factors.dot_pairs(OTHER, right, i, j)


LATE, BACK, FEW = np.array([0, 1, 4]), np.array([0, 3, 2]), PLACES[:2].copy()
BEYOND, BELOW = np.array([0, 1 << 40, 2]), np.array([0, -1, 2])


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (deposit_sparse, {"indptr": LATE}),
        (deposit_sparse, {"indptr": BACK}),
        (deposit_sparse, {"indptr": np.array([-1, 1, 3])}),
        (deposit_sparse, {"indptr": ROWS[:0]}),
        (deposit_sparse, {"indices": BEYOND}),
        (deposit_sparse, {"indices": BELOW}),
        (deposit_sparse, {"indices": BELOW.astype(np.int32)}),
        (deposit_sparse, {"indices": FEW}),
        (deposit_sparse, {"group": np.array([0, 2])}),
        (deposit_sparse, {"group": np.array([0, -1])}),
        (deposit_sparse, {"group": np.array([0])}),
        (deposit_sparse, {"weights": np.ones(1)}),
        (deposit_codes, {"codes": np.array([[0, 2], [1, -1]])}),
        (deposit_codes, {"codes": np.array([[0, 1 << 40], [1, -1]])}),
        (deposit_codes, {"codes": np.array([[0, (1 << 63) - 1], [1, -1]])}),  # and its cell is negative
        (deposit_codes, {"offsets": OFFSETS[:2].copy()}),
        (deposit_codes, {"offsets": np.array([-1, 2, 4])}),
        (deposit_codes, {"offsets": np.array([0, 5, 4])}),
        (deposit_codes, {"group": np.array([0, 7])}),
        (gather_scores, {"codes": np.array([[0, 2], [1, -1]])}),
        (gather_scores, {"offsets": np.array([0, -2, 4])}),
        (gather_scores, {"table": np.ones((3, 3))}),
        (gather_scores, {"table": np.ones((4, 2))}),
        (deposit, {"group": np.array([0, 2])}),
        (deposit, {"group": np.array([-1, 1])}),
        (deposit, {"group": np.array([0])}),
        (gaussian_scores, {"mean": VALUES[:, :1].copy()}),
        (solve_rows, {"indptr": LATE}),
        (solve_rows, {"indptr": BACK}),
        (solve_rows, {"indices": BEYOND}),
        (solve_rows, {"indices": BELOW}),
        (solve_rows, {"weights": np.ones(2)}),
        (solve_rows, {"other": np.ones((3, 1))}),
        (row_squares, {"indices": BEYOND}),
        (row_squares, {"other": np.ones((3, 1))}),
        (dot_pairs, {"i": BEYOND}),
        (dot_pairs, {"j": BEYOND}),
        (dot_pairs, {"j": FEW}),
        (dot_pairs, {"right": np.ones((3, 1))}),
    ],
)
def test_a_place_outside_is_refused_at_the_door(call: Call, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        call(**given)


@pytest.mark.parametrize("call", [deposit_sparse, deposit_codes, gather_scores, solve_rows, row_squares])
def test_places_inside_pass_the_door(call: Call) -> None:
    assert call() is not None


def test_a_pair_of_nowhere_is_nothing() -> None:
    assert dot_pairs(i=BELOW).tolist() == [2.0, 0.0, 2.0]


WORDS = np.ones((1, 2), dtype=np.int64)
WRITABLE = np.zeros((1, 4), dtype=np.int64)
NONE, NO_FLOATS = np.zeros(0, dtype=np.int64), np.zeros(0)


@needs_core
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("settle", (WORDS, 1 << 62)),
        ("combine", (WORDS, 0, WORDS[:, :1].copy(), 0, 1)),
        ("combine", (WORDS, -(1 << 62), WORDS, 1 << 62, 1)),
        ("multiply", (WORDS, 0, np.array([np.nan, 1.0]), 8)),
        ("multiply", (WORDS, 0, np.array([np.inf, 1.0]), 8)),
        ("multiply", (WORDS, 0, np.ones(3), 8)),
        ("multiply", (WORDS[:0], 0, np.ones(2), 8)),
        ("read", (WORDS[:0], 0, np.ones(2), np.ones(2))),
        ("read", (WORDS, 0, np.ones(1), np.ones(2))),
        ("span", (VALUES, np.zeros((2, 1), dtype=np.int64))),
        ("two_product", (VALUES, np.ones((1, 2)), VALUES.copy(), VALUES.copy())),
        ("two_product", (VALUES, VALUES, VALUES.copy(), np.ones((1, 2)))),
        ("deposit", (VALUES, BOUNDS[:, :1].copy(), NONE, 1)),
        ("deposit", (VALUES, BOUNDS, NONE, -1)),
        ("deposit", (VALUES, BOUNDS, NONE, 0)),
        ("deposit_products", (VALUES, BOUNDS, np.ones((2, 3)), BOUNDS, NONE, 1)),
        ("cut_rows", (ROWS, PLACES, 2)),
        ("add_codes", (CODES, OFFSETS, NO_FLOATS, NONE, NONE, 0, 3, WRITABLE, WRITABLE, -1, None)),
        ("gaussian_scores", (VALUES, VALUES, VALUES, VALUES, np.ones(2), np.ones((1, 2)))),
        ("log_sum_rows", (VALUES, np.ones(3))),
    ],
)
def test_the_core_itself_refuses_arrays_that_do_not_fit(name: str, given: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="got"):
        getattr(compiled.sums, name)(*given)


@needs_core
def test_values_beyond_their_bounds_are_written_nowhere_else() -> None:
    narrow = np.zeros((2, 3), dtype=np.int64)
    for rows in (2, 500):
        x = np.tile([1e300, -1e-300, np.inf], (rows, 1))
        for kernel in (compiled.deposit, compiled.deposit_powers):
            assert kernel(x, narrow, NONE, 1)[0].shape[1] == 3
        wild = np.full((2, 3), 1 << 62)
        assert compiled.deposit_products(x, wild, x, -wild, NONE, 1)[0].shape[1] == 3
