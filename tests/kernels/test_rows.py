"""Rows that are read once: their sums are those of `deposit_powers`, and their products those of blocks."""

from collections.abc import Callable

import numpy as np
import pytest

from tamis import _kernels
from tamis._kernels import dense, reference
from tamis._kernels.dense import reference as dense_reference
from tamis._kernels.reference import Floats
from tamis.compiled import core
from tamis.stats import Moments
from tests.compiled_core import needs_core
from tests.kernels.oracle import BOTH, ONE_GROUP, assert_canonical, assert_same_bits, compiled

TILE = 1024  # rows of 16 columns: kTileCells in core/sums/rows.cpp
SHAPES = [(0, 3, 1), (1, 1, 1), (5, 0, 1), (TILE - 1, 16, 1), (TILE + 1, 16, 4), (3 * TILE + 2, 16, 1)]
SHAPES += [(2100, 100, 2), (9001, 1, 1), (5000, 3, 7), (40, 2, 30)]


def draw_everyday(rng: np.random.Generator, n: int, m: int) -> Floats:
    return rng.normal(size=(n, m))


def draw_growing(rng: np.random.Generator, n: int, m: int) -> Floats:
    return rng.normal(size=(n, m)) * 2.0 ** np.linspace(-300, 300, n)[:, None]


def draw_of_all_sizes(rng: np.random.Generator, n: int, m: int) -> Floats:
    return rng.normal(size=(n, m)) * 10.0 ** rng.integers(-150, 150, size=(n, m))


def draw_with_zeros(rng: np.random.Generator, n: int, m: int) -> Floats:
    return np.where(rng.random((n, m)) < 0.9, 0.0, rng.normal(1e8, 1.0, (n, m)))


def draw_tiny(rng: np.random.Generator, n: int, m: int) -> Floats:
    return rng.normal(size=(n, m)) * 5e-324 * 2.0 ** rng.integers(0, 60, size=(n, m))


DRAWS = [draw_everyday, draw_growing, draw_of_all_sizes, draw_with_zeros, draw_tiny]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("draw", DRAWS)
def test_sums_are_those_of_values_and_squares(
    shape: tuple[int, int, int], draw: Callable[..., Floats]
) -> None:
    n, m, groups = shape
    rng = np.random.default_rng(n + m)
    x, group = draw(rng, n, m), rng.integers(0, groups, n) if groups > 1 else ONE_GROUP
    bounds, largest, _ = reference.span(x)
    powers = reference.deposit_powers(x, bounds, group, groups)
    for kernels in BOTH:
        for power in (1, 2):
            sums, highest, is_finite = kernels.deposit_rows(x, group, groups, power)
            assert (len(sums), highest, is_finite) == (power, largest, True)
            for found, expected in zip(sums, (powers[:2], powers[2:]), strict=False):
                assert_same_bits(found, expected)
                assert_canonical(found)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, TILE, 2 * TILE + 3])
def test_rows_that_are_not_finite_have_no_sums(value: float, row: int) -> None:
    x = np.ones((2 * TILE + 4, 16))
    x[row, 5] = value
    for kernels in BOTH:
        assert kernels.deposit_rows(x, ONE_GROUP, 1, 2) == ((), 0, False)
    sums, _, is_finite, _ = dense.deposit_blocks(x, np.zeros(16), 4096)
    assert (sums, is_finite) == ((), False)


def test_threads_share_rows_and_sums_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    x, group = rng.normal(size=(5003, 4)), rng.integers(0, 3, 5003)
    expected = reference.deposit_rows(x, group, 3, 2)
    broken = np.where(np.arange(5003)[:, None] == 5002, np.nan, x)
    for count in (1, 2, 3):
        monkeypatch.setattr("tamis.threads.count_chunks", lambda _, count=count: count)
        sums, largest, is_finite = _kernels.deposit_rows(x, group, 3, 2)
        assert (largest, is_finite) == expected[1:]
        for found, wanted in zip(sums, expected[0], strict=True):
            assert_same_bits(found, wanted)
        assert compiled.deposit_rows(broken, group, 3, 2) == ((), 0, False)


@pytest.mark.parametrize("shape", [(1, 1), (100, 3), (4096, 16), (4097, 16), (9001, 5), (700, 33), (30, 520)])
@pytest.mark.parametrize("block", [64, 1000, 4096])
def test_blocks_are_those_of_products_alone(shape: tuple[int, int], block: int) -> None:
    x = np.random.default_rng(shape[0]).normal(3.0, 1.0, shape)
    sums, largest, is_finite, products = dense.deposit_blocks(x, x[0], block)
    np.testing.assert_array_equal(products, dense.multiply_blocks(x, x[0], slice(0, len(x)), block))
    expected, highest, _, _ = dense_reference.deposit_row_blocks(x, x[0], block)
    assert (len(sums), largest, is_finite) == (1, highest, True)
    assert_same_bits(sums[0], expected[0])


@needs_core
def test_other_sizes_are_refused() -> None:
    assert core is not None
    with pytest.raises(ValueError, match=r"^got rows and groups"):
        core.sums.deposit_rows(np.ones((9, 2)), np.zeros(8, dtype=np.int64), 2, 2)
    with pytest.raises(ValueError, match=r"^got rows without groups"):
        core.sums.deposit_rows(np.ones((9, 2)), ONE_GROUP, 0, 2)
    with pytest.raises(ValueError, match=r"^got a centre"):
        core.sums.deposit_row_blocks(np.ones((9, 2)), np.zeros(3), 4)
    with pytest.raises(ValueError, match=r"^got blocks without rows"):
        core.sums.deposit_row_blocks(np.ones((9, 2)), np.zeros(2), 0)
    with pytest.raises(ValueError, match=r"^got groups"):
        _kernels.deposit_rows(np.ones((9, 2)), np.full(9, 2), 2)


def test_moments_of_many_rows_are_those_of_their_parts() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(1e8, 1.0, (9000, 5)), rng.integers(0, 3, 9000)
    few = [Moments.observe(x[i : i + 100], by=y[i : i + 100]) for i in range(0, 9000, 100)]
    assert Moments.observe(x, by=y) == sum(few[1:], start=few[0])
