"""The matrix of the fit in the compiled core: the same bits as in NumPy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.compiled import core
from tamis_mail.verdict.fitting import SparseRows, solve
from tests.compiled_core import needs_core

pytestmark = needs_core


def _matrix(messages: int, features: int, slots: int, seed: int) -> tuple[SparseRows, SparseRows]:
    """Make a matrix whose entries of a row and a slot have one value: with the core, and without."""
    assert core is not None
    rng = np.random.default_rng(seed)
    slot_of = rng.integers(0, slots, features).astype(np.uint8)
    columns = [np.flatnonzero(rng.random(features) < rng.random()) for _ in range(messages)]
    rows = np.repeat(np.arange(messages), [len(of_row) for of_row in columns])
    all_columns = np.concatenate([np.empty(0, np.intp), *columns])
    values = rng.normal(size=(messages, slots))[rows, slot_of[all_columns]]
    plain = SparseRows.of(rows, all_columns, values, messages, features)
    matrix = core.mail.FitMatrix(plain.starts, plain.columns, plain.values, slot_of)
    return SparseRows(rows, plain.columns, values, plain.starts, features, matrix), plain


@pytest.mark.parametrize("slots", [1, 3, 4])
@pytest.mark.parametrize(("messages", "features"), [(0, 0), (0, 3), (3, 0), (1, 1), (7, 130), (41, 700)])
def test_products_and_steps_have_the_bits_of_numpy(messages: int, features: int, slots: int) -> None:
    ours, plain = _matrix(messages, features, slots, messages + features)
    rng = np.random.default_rng(slots)
    by_message, by_feature = rng.normal(size=messages), rng.normal(size=features)
    np.testing.assert_array_equal(ours.multiply(by_feature), plain.multiply(by_feature))
    of_squares = rng.random(messages)
    for product, by_numpy in zip(
        ours.multiply_transposed(by_message, of_squares),
        plain.multiply_transposed(by_message, of_squares),
        strict=True,
    ):
        np.testing.assert_array_equal(product, by_numpy)
    curvature, diagonal = rng.random(messages), 0.1 + rng.random(features)
    step = solve(ours, curvature, diagonal, by_feature, 0.1)
    np.testing.assert_array_equal(step, solve(plain, curvature, diagonal, by_feature, 0.1))
    assert not features or step.any()


@pytest.mark.parametrize(
    ("starts", "columns"),
    [
        ([0, 1, 2], [0, 3]),
        ([0, 1, 2], [0, -1]),
        ([0, 1, 3], [0, 1]),
        ([0, 3, 2], [0, 1]),
        ([0, -1, 2], [0, 1]),
        ([1, 1, 2], [0, 1]),
    ],
)
def test_an_entry_outside_of_the_matrix_is_refused(starts: list[int], columns: list[int]) -> None:
    assert core is not None
    with pytest.raises(ValueError, match="outside of the matrix"):
        core.mail.FitMatrix(np.array(starts), np.array(columns, np.int32), np.ones(2), np.zeros(3, np.uint8))


def _refuse(values: NDArray[np.float64], slots: list[int], match: str) -> None:
    assert core is not None
    starts, columns = np.array([0, 2]), np.array([0, 1], np.int32)
    with pytest.raises(ValueError, match=match):
        core.mail.FitMatrix(starts, columns, values, np.array(slots, np.uint8))


def test_slots_and_sizes_are_checked() -> None:
    assert core is not None
    _refuse(np.array([1.0, 2.0]), [0, 0], "several values")
    _refuse(np.ones(2), [0, 4], "four slots")
    _refuse(np.ones(3), [0, 0], "matching sizes")
    matrix = core.mail.FitMatrix(
        np.array([0, 2]), np.array([0, 1], np.int32), np.ones(2), np.zeros(2, np.uint8)
    )
    with pytest.raises(ValueError, match="matching sizes"):
        matrix.multiply(np.ones(3), np.ones(1))
    with pytest.raises(ValueError, match="matching sizes"):
        matrix.multiply_transposed(np.ones(2), np.ones(1), np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="matching sizes"):
        matrix.solve(np.ones(1), np.ones(2), np.ones(3), 0.1, 0.1, 5, np.ones(2))
