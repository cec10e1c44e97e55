"""Sums of values, squares and products: reference and compiled give the same bits, and these are true."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis._kernels import reference
from tamis._kernels.reference import Floats, Words
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

ROWS, CELLS = 1 << 11, 1 << 15  # kRows and kCells in core/sums/rows.cpp

exhaustively = settings(max_examples=200, deadline=None)


def check(x: Floats, y: Floats, group: Words = ONE_GROUP, groups: int = 1, truth: bool = True) -> None:
    """Every deposit of both modules agrees, and with the truth if that is not too long to compute."""
    found = []
    for kernels in BOTH:
        bounds, _, broken = kernels.span(x)
        y_bounds, _, y_broken = kernels.span(y)
        assert (broken, y_broken) == (-1, -1)
        found.append(
            (
                kernels.deposit(x, bounds, group, groups),
                kernels.deposit_powers(x, bounds, group, groups),
                kernels.deposit_products(x, bounds, y, y_bounds, group, groups),
            )
        )
    for ours, theirs in zip(*found, strict=True):
        assert_same_bits(ours, theirs)
    values, powers, products = found[0]
    assert_same_bits(values, powers[:2])
    for settled in (values, powers[2:], products):
        assert_canonical(settled)
    if truth:
        assert numbers(values) == oracle.sums(x, group, groups)
        assert numbers(powers[2:]) == oracle.sums(x, group, groups, x)
        assert numbers(products) == oracle.sums(x, group, groups, y)


@exhaustively
@given(x=oracle.matrices())
def test_any_floats_are_summed_without_error(x: Floats) -> None:
    check(x, x[::-1].copy())


@exhaustively
@given(x=oracle.matrices(), data=st.data())
def test_any_floats_are_summed_by_group_without_error(x: Floats, data: st.DataObject) -> None:
    group = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(x), max_size=len(x))), dtype=np.int64)
    check(x, x[::-1].copy(), group, groups=4)


@exhaustively
@given(x=oracle.matrices(), data=st.data())
def test_one_column_may_stand_beside_all(x: Floats, data: st.DataObject) -> None:
    weights = data.draw(st.lists(oracle.anything | st.just(0.0), min_size=len(x), max_size=len(x)))
    check(x, np.array(weights, dtype=np.float64)[:, None])


@pytest.mark.parametrize("columns", [1, 3, 16, 17, 70])
@pytest.mark.parametrize("rows", [1, 7, 8, 63, 64, 65, 200])
def test_narrow_data_may_be_folded(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows * columns)
    x = scattered(rng, (rows, columns), -5, 5)
    check(x, scattered(rng, (rows, 1), -5, 5))


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1080, 1023), (-1080, -1000), (-1010, -990), (900, 1024), (-31, 0), (-63, 0), (-400, 400)],
)
def test_no_range_of_exponents_is_too_wide(low: int, high: int) -> None:
    rng = np.random.default_rng(high - low)
    x = np.clip(scattered(rng, (90, 3), low, high), -1.7e308, 1.7e308)
    check(x, np.clip(scattered(rng, (90, 3), low, high), -1.7e308, 1.7e308))
    check(x, x[:, :1].copy(), rng.integers(0, 5, size=90), groups=5)


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 5])
def test_blocks_of_rows_end_where_pieces_are_full(rows: int) -> None:
    largest = np.nextafter(1.0, 0.0)  # all pieces at their limits, all of one sign
    check(np.full((rows, 1), largest), np.full((rows, 1), -largest), truth=False)
    total = compiled.deposit_powers(np.full((rows, 20), largest), np.zeros((2, 20), np.int64), ONE_GROUP, 1)
    assert numbers(total[:2]) == [rows * Fraction(float(largest))] * 20
    assert numbers(total[2:]) == [rows * Fraction(float(largest)) ** 2] * 20


def test_seventy_thousand_rows_agree() -> None:
    rng = np.random.default_rng(70_000)
    x = rng.normal(1e6, 1.0, size=(70_000, 5))
    x[::1000] *= 2.0 ** rng.integers(-200, 200, size=(70, 5))
    check(x, rng.exponential(size=(70_000, 1)), truth=False)
    check(x, rng.exponential(size=(70_000, 5)), rng.integers(0, 7, size=70_000), groups=7, truth=False)
    column = [float(value).as_integer_ratio() for value in x[:, 0]]
    bounds = reference.span(x)[0]
    scaled = sum((top << 1200) // bottom for top, bottom in column)
    assert numbers(compiled.deposit(x, bounds, ONE_GROUP, 1))[0] == Fraction(scaled, 1 << 1200)


def test_more_groups_than_a_cache_holds_agree() -> None:
    rng = np.random.default_rng(1)
    groups = CELLS + 1
    x = scattered(rng, (2 * groups, 1), -20, 20)
    check(
        x,
        scattered(rng, (2 * groups, 1), -5, 5),
        rng.integers(0, groups, size=2 * groups),
        groups,
        truth=False,
    )
    many = scattered(rng, (9 * groups, 1), -20, 20)
    check(many, many, rng.integers(0, groups, size=9 * groups), groups, truth=False)


@exhaustively
@given(x=oracle.matrices(elements=oracle.squarable), data=st.data())
def test_a_product_is_two_floats(x: Floats, data: st.DataObject) -> None:
    weights = data.draw(st.lists(oracle.squarable, min_size=len(x), max_size=len(x)))
    for y in (x[::-1].copy(), np.array(weights, dtype=np.float64)[:, None]):
        halves = reference.two_product(x, y)
        assert_same_bits(compiled.two_product(x, y), halves)
        triples = zip(x.flat, np.broadcast_to(y, x.shape).flat, *(half.flat for half in halves), strict=True)
        for u, v, product, rounding in triples:
            assert product == u * v
            assert Fraction(product) + Fraction(rounding) == Fraction(u) * Fraction(v)


def test_no_rows_and_no_columns_come_to_nothing() -> None:
    for shape in ((0, 0), (0, 3), (4, 0)):
        check(np.zeros(shape), np.zeros(shape))
        check(np.zeros(shape), np.zeros(shape), np.zeros(shape[0], dtype=np.int64), groups=2)
    check(np.zeros((0, 3)), np.zeros((0, 3)), ONE_GROUP, groups=0)


def test_arrays_that_may_not_be_written_to_are_summed_as_well() -> None:
    x = np.random.default_rng(0).normal(size=(100, 3))
    bounds = reference.span(x)[0]
    expected = compiled.deposit_powers(x, bounds, ONE_GROUP, 1)
    for array in (x, bounds):
        array.setflags(write=False)
    assert_same_bits(compiled.deposit_powers(x, bounds, ONE_GROUP, 1), expected)


@exhaustively
@given(x=oracle.matrices())
def test_a_span_bounds_its_columns(x: Floats) -> None:
    bounds, top, broken = reference.span(x)
    assert_same_bits(compiled.span(x), (bounds, top, broken))
    assert (top, broken) == (max(bounds[0], default=0) if x.size and bounds[0].max() > 0 else 0, -1)
    for column, (high, low) in zip(np.abs(x.T), bounds.T, strict=True):
        found = column[column > 0]
        if found.size:
            assert (np.frexp(found.max())[1], np.frexp(found.min())[1]) == (high, low)
        else:
            assert (high, low) == (0, 0)


@pytest.mark.parametrize("kernels", BOTH)
@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
def test_the_first_column_that_is_not_finite_is_named(kernels: object, what: float) -> None:
    x = np.ones((5, 4))
    x[3, 2] = x[4, 3] = what
    bounds, top, broken = kernels.span(x)  # type: ignore[attr-defined]
    assert broken == 2
    assert bounds.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]
    assert top == 1
