"""One row in exact sums, and the moments that sums describe, against what several kernels compute."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis._kernels import reference
from tamis._kernels.reference import Floats, Words
from tests.compiled_core import needs_core
from tests.kernels.oracle import BOTH, assert_canonical, assert_same_bits, compiled, numbers

exhaustively = settings(max_examples=200, deadline=None)
HARD = st.sampled_from([0.0, -0.0, 1e8, 1e8 + 1, -1e9, 0.1, 1e-130, 5e-324, 1e100, np.nan])
values = st.lists(HARD | st.floats(-1e3, 1e3), min_size=1, max_size=4)
weights = st.sampled_from([1.0, 0.5, 0.1, 3.0, 1e-20, 1e20])


def add_rows(rows: list[list[float]], cells: int, power: int) -> tuple[Words, int]:
    sums = np.zeros((1, cells), dtype=np.int64), 0
    for row in rows:
        sums = reference.add_row(*sums, 0, np.array(row), 1.0, power)
    return sums


@exhaustively
@given(before=values, row=values, weight=weights, power=st.sampled_from([0, 1, 2]), space=st.integers(0, 3))
def test_a_row_is_added_exactly(
    before: list[float], row: list[float], weight: float, power: int, space: int
) -> None:
    if power == 2 and weight != 1.0:
        row = [0.0 if abs(value) < 1e-130 else value for value in row]  # whose squares are rounded
    cells = max(len(before), len(row) + space)
    sums = add_rows([before], cells, 1)
    added = reference.add_row(*sums, space, np.array(row), weight, power)
    assert_same_bits(compiled.add_row(*sums, space, np.array(row), weight, power), added)
    assert_canonical(added)
    expected = numbers(sums)
    for j, value in enumerate(row):
        if value == value:
            expected[space + j] += Fraction(weight) * Fraction(value) ** power
    assert numbers(added) == expected


@exhaustively
@given(data=st.data(), d=st.integers(1, 3), groups=st.integers(1, 3), pooled=st.booleans())
def test_moments_of_the_core_are_those_of_the_reference(
    data: st.DataObject, d: int, groups: int, pooled: bool
) -> None:
    rows = data.draw(st.lists(st.lists(HARD | st.floats(-1e3, 1e3), min_size=d, max_size=d), max_size=6))
    sums: list[Any] = []
    for power in (0, 1, 2):
        total = np.zeros((1, groups * d), dtype=np.int64), 0
        for i, row in enumerate(rows):
            total = reference.add_row(*total, i % groups * d, np.array(row), 1.0, power)
        sums.extend(total)
    shape = (4, groups * d + d) if pooled else (3, groups * d)
    answers: list[Floats] = []
    for kernels in BOTH:
        moments = np.empty(shape)
        kernels.describe_moments(*sums, d, moments)
        answers.append(moments)
    np.testing.assert_array_equal(answers[0], answers[1])
    present = [[row[0] for row in rows[g::groups] if row[0] == row[0]] for g in range(groups)]
    for g, column in enumerate(present):
        assert answers[0][0, g * d] == len(column)
        if column:
            mean = sum(map(Fraction, column)) / len(column)
            scatter = float(sum((Fraction(value) - mean) ** 2 for value in column))
            assert answers[0][2, g * d] == pytest.approx(scatter, rel=1e-12, abs=1e-300)


@needs_core
@pytest.mark.parametrize(
    ("low", "start", "row", "weight", "power"),
    [
        (0, 2, [1.0, 2.0], 1.0, 1),
        (0, -1, [1.0], 1.0, 1),
        (5000, 0, [1.0], 1.0, 1),
        (0, 0, [np.inf], 1.0, 1),
        (0, 0, [1.0], np.nan, 1),
        (0, 0, [1.0], 1.0, 3),
    ],
)
def test_the_core_refuses_rows_outside_of_the_sums(
    low: int, start: int, row: list[float], weight: float, power: int
) -> None:
    with pytest.raises(ValueError, match="expected"):
        compiled.add_row(np.zeros((1, 3), dtype=np.int64), low, start, np.array(row), weight, power)


@needs_core
def test_the_core_refuses_room_for_other_moments() -> None:
    sums = np.zeros((1, 4), dtype=np.int64), 0
    for shape in ((2, 4), (3, 6), (4, 4), (3, 5)):
        with pytest.raises(ValueError, match="got room"):
            compiled.describe_moments(*sums, *sums, *sums, 2, np.empty(shape))
