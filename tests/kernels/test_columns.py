"""Columns that lie apart in memory: their sums and products are those of the rows, to the bit."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import _kernels
from tamis._kernels import dense, reference
from tamis._kernels.dense import reference as dense_reference
from tamis._kernels.reference import Floats, Words
from tamis.compiled import core
from tests.compiled_core import needs_core
from tests.kernels import oracle
from tests.kernels.oracle import (
    BOTH,
    ONE_GROUP,
    assert_canonical,
    assert_same_bits,
    compiled,
    numbers,
    scattered,
)

TILE, LANES, MOST = (
    4096,
    32,
    512,
)  # kTile, kLanes and kMost in core/sums/columns.cpp and core/dense/variants.hpp


def split(x: Floats) -> list[Floats]:
    return [np.ascontiguousarray(column) for column in x.T]


@pytest.fixture(params=["fastest"] if core is None else [name for name, _ in core.dense.variants()])
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each kind of processor that this one can stand for."""
    if core is None:
        yield request.param
        return
    before = core.dense.use_variant(request.param)
    yield request.param
    core.dense.use_variant(before)


def check(x: Floats, group: Words = ONE_GROUP, groups: int = 1) -> tuple[Any, ...]:
    """Sums of columns are those of rows."""
    bounds, largest, _ = reference.span(x)
    powers: tuple[Any, ...] = compiled.deposit_powers(x, bounds, group, groups)
    for power in (1, 2):
        sums, highest, broken = compiled.deposit_columns(split(x), group, groups, power)
        assert (len(sums), highest, broken) == (power, largest, -1)
        for found, expected in zip(sums, (powers[:2], powers[2:]), strict=False):
            assert_same_bits(found, expected)
            assert_canonical(found)
    return powers


@settings(max_examples=200, deadline=None)
@given(x=oracle.matrices().filter(lambda x: x.shape[1] > 0), data=st.data())
def test_any_columns_are_summed_without_error(x: Floats, data: st.DataObject) -> None:
    group = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(x), max_size=len(x))), dtype=np.int64)
    for kernels in BOTH:
        for labels, groups in ((ONE_GROUP, 1), (ONE_GROUP, 3), (group, 4)):
            sums, largest, broken = kernels.deposit_columns(split(x), labels, groups, 2)
            assert (largest, broken) == (reference.span(x)[1], -1)
            assert numbers(sums[0]) == oracle.sums(x, labels, groups)
            assert numbers(sums[1]) == oracle.sums(x, labels, groups, x)


@pytest.mark.parametrize("rows", [1, LANES - 1, LANES, TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
@pytest.mark.parametrize("groups", [1, 3])
def test_tiles_and_lanes_end_anywhere(variant: str, rows: int, groups: int) -> None:
    rng = np.random.default_rng(rows)
    x = scattered(rng, (rows, 3), -5, 5)
    check(x, rng.integers(0, groups, size=rows) if groups > 1 else ONE_GROUP, groups)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1080, 1023), (-1080, -1000), (-1010, -990), (900, 1024), (-31, 0), (-63, 0), (-400, 400)],
)
def test_no_range_of_exponents_is_too_wide(variant: str, low: int, high: int) -> None:
    rng = np.random.default_rng(high - low)
    x = np.clip(scattered(rng, (TILE + 90, 3), low, high), -1.7e308, 1.7e308)
    check(x)
    check(x, rng.integers(0, 5, size=len(x)), groups=5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_pieces_are_moved_before_a_lane_is_full(variant: str, sign: float) -> None:
    largest = sign * float(np.nextafter(1.0, 0.0))  # all pieces at their limits, all of one sign
    rows = 3 * MOST * LANES + 7
    powers = check(np.full((rows, 1), largest))
    assert numbers(powers[:2]) == [rows * Fraction(largest)]
    assert numbers(powers[2:]) == [rows * Fraction(largest) ** 2]


def test_columns_that_grow_or_shrink_from_tile_to_tile_are_summed(variant: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6 * TILE, 2)) * np.array([1.0, 1e-200])
    x *= np.repeat([1e-9, 1.0, 0.0, 1e30, 1e-30, 1e12], TILE)[:, None]
    check(x, rng.integers(0, 4, size=len(x)), groups=4)
    check(x[::-1].copy())


def test_columns_of_zeros_have_sums_of_zero() -> None:
    check(np.zeros((5000, 2)), np.zeros(5000, dtype=np.int64), groups=3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, TILE, 2 * TILE + 3])
def test_the_first_column_that_is_not_finite_is_found(bad: float, row: int) -> None:
    x = scattered(np.random.default_rng(row), (2 * TILE + 4, 4), -3, 3)
    x[row, 2] = bad
    x[-1 - row, 3] = np.nan
    for kernels in BOTH:
        assert kernels.deposit_columns(split(x), ONE_GROUP, 1, 2) == ((), 0, 2)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums_of_columns_do_not_depend_on_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("tamis.threads.count_chunks", lambda work: count)
    rng = np.random.default_rng(5)
    x = scattered(rng, (1001, 3), -80, 40)
    check(x, rng.integers(0, 4, size=len(x)), groups=4)
    x[1000, 1] = np.nan
    assert compiled.deposit_columns(split(x), ONE_GROUP, 1, 1) == ((), 0, 1)


def test_the_door_refuses_columns_that_do_not_fit() -> None:
    columns = [np.ones(9), np.ones(9)]
    for given_columns, group in (
        ([], None),
        ([np.ones(9), np.ones(8)], None),
        (columns, np.zeros(8, dtype=np.int64)),
        (columns, np.full(9, 2)),
        (columns, np.full(9, -1)),
    ):
        with pytest.raises(ValueError, match="got"):
            _kernels.deposit_columns(given_columns, group, 2)


@needs_core
def test_the_core_itself_refuses_columns_that_do_not_fit() -> None:
    assert core is not None
    for columns in (
        [np.ones(9), np.ones(8)],
        [np.ones(9), np.ones(18)[::2]],
        [np.ones(9, dtype=np.float32)],
        [3],
    ):
        with pytest.raises(ValueError, match="got"):
            core.sums.deposit_columns(columns, ONE_GROUP, 1, 2)
        with pytest.raises(ValueError, match="got"):
            core.dense.multiply_column_blocks(columns, np.zeros(len(columns)), 0, 9, 4)
    for group, groups in ((np.zeros(8, dtype=np.int64), 1), (ONE_GROUP, 0)):
        with pytest.raises(ValueError, match="got"):
            core.sums.deposit_columns([np.ones(9)], group, groups, 2)
    for start, stop, block in ((0, 10, 4), (3, 2, 4), (0, 9, 0)):
        with pytest.raises(ValueError, match="got"):
            core.dense.multiply_column_blocks([np.ones(9)], np.zeros(1), start, stop, block)
        with pytest.raises(ValueError, match="got"):
            core.dense.multiply_row_blocks(np.ones((9, 1)), np.zeros(1), start, stop, block)
    with pytest.raises(ValueError, match="got"):
        core.dense.multiply_row_blocks(np.ones((9, 2)), np.zeros(1), 0, 9, 4)


@pytest.mark.parametrize("d", [1, 3, 8, 16, 25, 70])
@pytest.mark.parametrize(("start", "stop", "block"), [(0, 300, 64), (0, 300, 300), (7, 290, 100), (5, 5, 9)])
def test_products_of_blocks_are_those_of_each_block(
    variant: str, d: int, start: int, stop: int, block: int
) -> None:
    rng = np.random.default_rng(d)
    x, centre = rng.normal(3.0, 1.0, (300, d)), rng.normal(3.0, 1.0, d)
    upper = np.triu_indices(d)
    blocks = [slice(first, min(first + block, stop)) for first in range(start, stop, block)]
    expected = np.array([dense.multiply_centred(x, centre, place)[upper] for place in blocks])
    expected = expected.reshape(len(blocks), d * (d + 1) // 2)
    for rows in (x, split(x)):
        found = dense.multiply_blocks(rows, centre, slice(start, stop), block)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(
        dense_reference.multiply_column_blocks(split(x), centre, start, stop, block),
        expected,
        rtol=1e-12,
        atol=1e-12,
    )
