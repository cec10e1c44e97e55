"""Sums in named cells: sparse rows and codes of categories give the words that dense rows give."""

from typing import NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tamis import _kernels, threads
from tamis._kernels import reference
from tamis._kernels.reference import Floats, Indices, Words
from tests.kernels import oracle
from tests.kernels.oracle import BOTH, ONE_GROUP, assert_canonical, assert_same_bits, numbers, scattered

exhaustively = settings(max_examples=200, deadline=None)
MANY = 1 << 17  # kFewCells in core/sums/scatter.cpp
Number = TypeVar("Number", np.int64, np.float64)
NO_WEIGHTS: Floats = np.zeros(0)

small = st.integers(-300, 300).map(float)
# Whole numbers that fit two words, one, or a float only; and products of them that do not.
large = st.integers(-(2**70), 2**70).map(float) | st.sampled_from(
    [2.0**k for k in (30, 31, 32, 52, 53, 62, 63)]
)
large = large | large.map(lambda v: -v)


class Sparse(NamedTuple):
    """Rows of a sparse matrix, in groups."""

    indptr: Words
    indices: Indices
    values: Floats
    weights: Floats
    group: Words
    groups: int
    columns: int

    def dense(self) -> Floats:
        """One row for each entry: entries named twice are added by whoever adds the rows."""
        rows = np.zeros((len(self.values), self.columns))
        rows[np.arange(len(rows)), self.indices] = self.values
        return rows

    def each(self, values: NDArray[Number]) -> NDArray[Number]:
        """What each row has, for each of its entries."""
        return np.repeat(values, np.diff(self.indptr)) if values.size else values


@st.composite
def sparse_rows(draw: st.DrawFn) -> Sparse:
    kind = draw(
        st.sampled_from([small, large, oracle.everyday, oracle.turning, oracle.squarable, small | large])
    )
    n, columns, groups = draw(st.integers(0, 8)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    size = sum(sizes)
    indices = draw(st.lists(st.integers(0, columns - 1), min_size=size, max_size=size))
    values = draw(st.lists(kind, min_size=size, max_size=size))
    weights = draw(st.lists(kind, min_size=n, max_size=n) | st.just([]))
    group = draw(st.lists(st.integers(0, groups - 1), min_size=n, max_size=n)) if groups > 1 else []
    return Sparse(
        np.cumsum([0, *sizes], dtype=np.int64),
        np.array(indices, dtype=draw(st.sampled_from([np.int32, np.int64]))),
        np.array(values, dtype=np.float64),
        np.array(weights, dtype=np.float64),
        np.array(group, dtype=np.int64),
        groups,
        columns,
    )


def random_rows(
    seed: int, n: int, columns: int, groups: int, values: tuple[int, int] | None, weighted: bool
) -> Sparse:
    """Whole numbers if `values` is None, or floats with such exponents."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 12, size=n)
    size = int(sizes.sum())
    drawn = [
        rng.integers(-9, 9, size=(k, 1)) if values is None else scattered(rng, (k, 1), *values)
        for k in (size, n)
    ]
    return Sparse(
        np.concatenate([[0], np.cumsum(sizes)]),
        rng.integers(0, columns, size=size),
        drawn[0][:, 0].astype(np.float64),
        drawn[1][:, 0].astype(np.float64) if weighted else NO_WEIGHTS,
        rng.integers(0, groups, size=n) if groups > 1 else ONE_GROUP,
        groups,
        columns,
    )


def check(case: Sparse) -> tuple[Words, int]:
    found = reference.deposit_sparse(*case)
    for kernels in BOTH:
        assert_same_bits(kernels.deposit_sparse(*case), found)
    return found


@exhaustively
@given(case=sparse_rows())
def test_sparse_rows_add_to_what_dense_rows_do(case: Sparse) -> None:
    found = check(case)
    assert_canonical(found)
    dense = case.dense()
    rows = case.each(case.group)
    weights = case.each(case.weights)[:, None] if case.weights.size else np.ones((len(dense), 1))
    assert numbers(found) == oracle.sums(dense, rows, case.groups, weights)
    for kernels in BOTH:
        bounds, other = kernels.span(dense)[0], kernels.span(weights)[0]
        products = kernels.deposit_products(dense, bounds, weights, other, rows, case.groups)
        assert_same_bits(products, found)
        if not case.weights.size:
            assert_same_bits(kernels.deposit(dense, bounds, rows, case.groups), found)


@exhaustively
@given(case=sparse_rows(), count=st.integers(1, 4))
def test_threads_do_not_show_in_sparse_sums(case: Sparse, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "MIN_PARALLEL_WORK", 0)
        patch.setattr(threads, "_processors", lambda: count)
        check(case)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("exponents", [None, (-3, 10), (-300, 300)])
@pytest.mark.parametrize("groups", [1, 2, 7, 40])
def test_many_cells_are_added_group_by_group_to_the_same_words(
    monkeypatch: pytest.MonkeyPatch,
    groups: int,
    exponents: tuple[int, int] | None,
    weighted: bool,
    count: int,
) -> None:
    columns = MANY // groups + 1
    case = random_rows(groups, 60, columns, groups, exponents, weighted)
    few = case._replace(indices=case.indices % 50, columns=50)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)
    check(few)
    if exponents != (-300, 300):  # 80 words in each of so many cells say no more
        check(case)


@pytest.mark.parametrize(
    "value", [2.0**31 - 1, 2.0**31, -(2.0**31), -(2.0**31) - 1, 2.0**40, 2.0**53, 2.0**63]
)
@pytest.mark.parametrize("copies", [1, 2, 5])
def test_whole_numbers_are_settled_on_either_side_of_a_word(value: float, copies: int) -> None:
    case = Sparse(
        np.array([0, copies, copies + 1]),
        np.zeros(copies + 1, dtype=np.int32),
        np.append(np.full(copies, value), -3.0),
        NO_WEIGHTS,
        np.array([1, 0]),
        2,
        2,
    )
    found = check(case)
    assert_canonical(found)
    assert numbers(found) == [-3, 0, copies * int(value), 0]


def test_part_of_a_matrix_is_added_where_its_rows_begin() -> None:
    whole = random_rows(3, 50, 6, 1, None, False)
    for kernels in BOTH:
        halves = [
            kernels.deposit_sparse(*whole._replace(indptr=whole.indptr[rows].copy()))
            for rows in (slice(0, 21), slice(20, 51))
        ]
        assert_same_bits(kernels.combine(*halves[0], *halves[1], 1), kernels.deposit_sparse(*whole))


@exhaustively
@given(data=st.data(), count=st.integers(1, 4))
def test_codes_add_to_what_indicators_do(data: st.DataObject, count: int) -> None:
    sizes = data.draw(st.lists(st.integers(0, 4), max_size=4))
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    n, groups = data.draw(st.integers(0, 9)), data.draw(st.integers(1, 3))
    codes = np.array(
        [[data.draw(st.integers(-1, size - 1)) for size in sizes] for _ in range(n)], dtype=np.int64
    ).reshape(n, len(sizes))
    kind = data.draw(st.sampled_from([small, large, oracle.everyday, oracle.turning]))
    weights = np.array(data.draw(st.lists(kind, min_size=n, max_size=n) | st.just([])), dtype=np.float64)
    members = st.integers(0, groups - 1)
    group = np.array(data.draw(st.lists(members, min_size=n, max_size=n)), dtype=np.int64)
    group = group if groups > 1 else ONE_GROUP
    indicators = np.zeros((n, offsets[-1]))
    for i, j in zip(*np.nonzero(codes >= 0), strict=True):
        indicators[i, offsets[j] + codes[i, j]] = weights[i] if weights.size else 1.0
    expected = reference.deposit(indicators, reference.span(indicators)[0], group, groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "MIN_PARALLEL_WORK", 0)
        patch.setattr(threads, "_processors", lambda: count)
        for kernels in BOTH:
            assert_same_bits(kernels.deposit_codes(codes, offsets, weights, group, groups), expected)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_codes_in_many_cells_are_added_group_by_group(
    monkeypatch: pytest.MonkeyPatch, weighted: bool, count: int
) -> None:
    rng = np.random.default_rng(count)
    n, groups, offsets = 300, 9, np.array([0, 3, 3, 20, 20 + MANY // 9])
    codes = np.stack([rng.integers(-1, size, size=n) for size in np.diff(offsets)], axis=1)
    weights = rng.normal(size=n) if weighted else NO_WEIGHTS
    group = rng.integers(0, groups, size=n)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)
    found = [kernels.deposit_codes(codes, offsets, weights, group, groups) for kernels in BOTH]
    assert_same_bits(*found)


def test_the_door_takes_nothing_for_ones_and_for_one_group() -> None:
    case = random_rows(5, 20, 6, 1, None, False)
    ours = _kernels.deposit_sparse(case.indptr, case.indices, case.values, None, None, 1, 6)
    assert_same_bits(ours, reference.deposit_sparse(*case))
    codes = np.random.default_rng(6).integers(-1, 3, size=(20, 2))
    offsets = np.array([0, 3, 6])
    expected = reference.deposit_codes(codes, offsets, np.ones(20), np.zeros(20, dtype=np.int64), 1)
    assert_same_bits(_kernels.deposit_codes(codes, offsets), expected)
