"""Words: settling, adding, scaling and reading them, against Python's integers and fractions."""

from fractions import Fraction
from math import inf, isfinite
from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tamis._kernels import reference
from tamis._kernels.reference import DEEPEST, Words
from tests.kernels import oracle
from tests.kernels.oracle import BOTH, assert_canonical, assert_same_bits, compiled, numbers

exhaustively = settings(max_examples=200, deadline=None)
shapes = st.tuples(st.integers(1, 9), st.integers(0, 4))
unsettled = hnp.arrays(np.int64, shapes, elements=st.integers(-(2**62), 2**62) | st.integers(-2, 2))
positions = st.integers(-60, 30)
integers = st.integers(-(2**400), 2**400) | st.integers(-3, 3)


def words_of(number: int) -> Words:
    """The settled words of one integer."""
    length = number.bit_length() // 32 + 1
    digits = [(number >> (32 * j)) & 0xFFFFFFFF for j in range(length)]
    digits[-1] -= 2**32 if digits[-1] >= 2**31 else 0
    return np.array(digits, dtype=np.int64)[:, None]


@exhaustively
@given(words=unsettled, low=positions)
def test_settling_keeps_the_number_and_finds_its_one_writing(words: Words, low: int) -> None:
    settled = reference.settle(words, low)
    assert_same_bits(compiled.settle(words, low), settled)
    assert_canonical(settled)
    assert numbers(settled) == numbers((words, low))
    assert_same_bits(reference.settle(*settled), settled)


@exhaustively
@given(words=unsettled, carries=st.data(), low=positions)
def test_numbers_that_are_equal_settle_to_equal_words(words: Words, carries: st.DataObject, low: int) -> None:
    moved = np.vstack([words, np.zeros((1, words.shape[1]), dtype=np.int64)])
    for j in range(len(words)):
        carry = carries.draw(st.integers(-(2**29), 2**29))
        moved[j] -= carry << 32
        moved[j + 1] += carry
    for kernels in BOTH:
        assert_same_bits(kernels.settle(moved, low), kernels.settle(words, low))


@exhaustively
@given(a=unsettled, b=unsettled, a_low=positions, b_low=positions, sign=st.sampled_from([1, -1]))
def test_combining_adds_and_subtracts(a: Words, b: Words, a_low: int, b_low: int, sign: int) -> None:
    cells = min(a.shape[1], b.shape[1])
    left = reference.settle(a[:, :cells].copy(), a_low)
    right = reference.settle(b[:, :cells].copy(), b_low)
    combined = reference.combine(*left, *right, sign)
    assert_same_bits(compiled.combine(*left, *right, sign), combined)
    assert_canonical(combined)
    assert numbers(combined) == [x + sign * y for x, y in zip(numbers(left), numbers(right), strict=True)]


@exhaustively
@given(words=unsettled, low=st.integers(-20, 30), data=st.data())
def test_scaling_is_exact_when_all_is_kept(words: Words, low: int, data: st.DataObject) -> None:
    factor = st.floats(-1e150, 1e150, allow_subnormal=False).filter(lambda w: w == 0 or abs(w) > 1e-150)
    factors = data.draw(hnp.arrays(np.float64, words.shape[1], elements=factor))
    settled = reference.settle(words, low)
    product = reference.multiply(*settled, factors, 100)
    assert_same_bits(compiled.multiply(*settled, factors, 100), product)
    assert_canonical(product)
    assert numbers(product) == [
        x * Fraction(w) for x, w in zip(numbers(settled), factors.tolist(), strict=True)
    ]


@exhaustively
@given(words=unsettled, low=positions, keep=st.integers(1, 9), data=st.data())
def test_scaling_cuts_towards_zero_what_it_does_not_keep(
    words: Words, low: int, keep: int, data: st.DataObject
) -> None:
    factors = data.draw(
        hnp.arrays(np.float64, words.shape[1], elements=oracle.anything | st.sampled_from([1, -1.0]))
    )
    settled = reference.settle(words, low)
    product = reference.multiply(*settled, factors, keep)
    assert_same_bits(compiled.multiply(*settled, factors, keep), product)
    assert_canonical(product)
    for x, w, found in zip(numbers(settled), factors.tolist(), numbers(product), strict=True):
        exact = x * Fraction(w)
        lost = abs(exact) - abs(found)
        assert found * exact >= 0
        if abs(w) == 1:
            assert lost == 0
        else:
            assert 0 <= lost < max(abs(exact) / 2 ** (32 * (keep - 1)), Fraction(2) ** (32 * DEEPEST))


@pytest.mark.parametrize("kernels", BOTH)
def test_decay_without_end_comes_to_nothing(kernels: ModuleType) -> None:
    settled = reference.deposit(
        np.array([[1e300, -1e-300]]), np.array([[997, 0], [997, -996]]), oracle.ONE_GROUP, 1
    )
    for _ in range(400):
        settled = kernels.multiply(*settled, np.full(2, 2.0**-10), 8)
        assert len(settled[0]) <= 110
    assert_same_bits(settled, (np.zeros((1, 2), dtype=np.int64), 0))


def rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


@exhaustively
@given(drawn=st.lists(integers, min_size=1, max_size=3), low=st.integers(-20, 12))
@example(drawn=[2**53 + 1, -(2**53) - 1, 2**53 + 3], low=0)  # halfway between two floats
@example(drawn=[(2**53 + 1 << 300) + 1, (2**53 + 1 << 300) - 1, 0], low=-5)  # not quite halfway
@example(drawn=[2**64 - 1, -(2**64) + 1, 2**128 - 1], low=0)  # the rounding carries into a new bit
@example(drawn=[2**1024 - 2**970, 2**1024 - 2**970 - 1, -(2**1023)], low=0)  # the largest float, and past it
def test_reading_rounds_correctly_and_says_what_is_left(drawn: list[int], low: int) -> None:
    columns = [words_of(number) for number in drawn]
    words = np.zeros((max(map(len, columns)) + 1, len(columns)), dtype=np.int64)
    for c, column in enumerate(columns):
        words[: len(column), c] = column[:, 0]
    settled = reference.settle(words, low)
    value, rest = reference.read(*settled)
    assert_same_bits(compiled.read(*settled), (value, rest))
    for number, high, left in zip(numbers(settled), value.tolist(), rest.tolist(), strict=True):
        assert high == rounded(number)
        if isfinite(high):
            assert abs(number - Fraction(high) - Fraction(left)) <= abs(number) / 2**104
        else:
            assert left == 0


@pytest.mark.parametrize("kernels", BOTH)
def test_a_large_neighbour_does_not_blur_a_small_number(kernels: ModuleType) -> None:
    x = np.array([[1.7e308, -1.0, 5e-324, -1e-300, 0.0]])
    settled = reference.deposit(x, reference.span(x)[0], oracle.ONE_GROUP, 1)
    value, rest = kernels.read(*settled)
    assert value.tolist() == x[0].tolist()
    assert not rest.any()
