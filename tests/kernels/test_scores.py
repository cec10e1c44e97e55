"""Scores: the same bits from either twin, and from the sums written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tamis import _kernels, threads
from tamis._kernels import reference
from tamis._kernels.reference import Floats, Words
from tests.kernels.oracle import BOTH, assert_same_bits, compiled

exhaustively = settings(max_examples=200, deadline=None)
ROWS = 128  # kRows in core/sums/scores.cpp
SHAPES = [(0, 3, 2), (3, 0, 2), (4, 2, 0), (1, 20, 1), (1, 20, 10), (1, 300, 1), (2, 9, 1), (7, 33, 3)]
SHAPES += [(n, 5, 2) for n in range(ROWS - 1, ROWS + 2)] + [(1500, 8, 30)]


def gaussian(x: Floats, mean: Floats, precision: Floats, log_peak: Floats, constant: Floats) -> Floats:
    """One number at a time."""
    scores = np.empty((len(x), len(constant)))
    for i, row in enumerate(x.tolist()):
        for k in range(len(constant)):
            total = float(constant[k])
            present = [j for j, v in enumerate(row) if v == v]
            for j in present:
                total += float(log_peak[k, j])
            for j in present:
                distance = row[j] - float(mean[k, j])
                total -= distance * distance * (0.5 * float(precision[k, j]))
            scores[i, k] = total
    return scores


def gathered(codes: Words, offsets: Words, table: Floats, constant: Floats) -> Floats:
    """One row of the table at a time."""
    scores = np.empty((len(codes), len(constant)))
    for i, row in enumerate(codes.tolist()):
        total = constant.copy()
        for j, code in enumerate(row):
            if code >= 0:
                total = total + table[offsets[j] + code]
        scores[i] = total
    return scores


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("missing", [0.0, 0.002, 0.4, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_scores_are_added_in_order(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], missing: float, count: int
) -> None:
    n, d, classes = shape
    rng = np.random.default_rng(n + d)
    x = 10.0 ** rng.integers(-8, 8, size=(n, d)) * rng.normal(size=(n, d))
    x[rng.random((n, d)) < missing] = np.nan
    mean, log_peak = rng.normal(size=(2, classes, d))
    precision = rng.exponential(size=(classes, d))
    constant = rng.normal(size=classes)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)
    expected = gaussian(x, mean, precision, log_peak, constant)
    for kernels in BOTH:
        assert_same_bits((kernels.gaussian_scores(x, mean, precision, log_peak, constant),), (expected,))


@exhaustively
@given(data=st.data())
def test_gaussian_scores_of_anything_have_the_same_bits(data: st.DataObject) -> None:
    n, d, classes = (data.draw(st.integers(0, 5)) for _ in range(3))
    tame = st.floats(-1e70, 1e70)
    x = data.draw(hnp.arrays(np.float64, (n, d), elements=tame | st.just(np.nan)))
    mean, precision, log_peak = (
        data.draw(hnp.arrays(np.float64, (classes, d), elements=tame)) for _ in range(3)
    )
    constant = data.draw(hnp.arrays(np.float64, classes, elements=tame))
    found = [kernels.gaussian_scores(x, mean, precision, log_peak, constant) for kernels in BOTH]
    assert_same_bits((found[0],), (found[1],))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_gathered_scores_are_added_in_order(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], count: int
) -> None:
    n, d, classes = shape
    rng = np.random.default_rng(n + d)
    sizes = rng.integers(0, 5, size=d)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    codes = (rng.integers(0, 60, size=(n, d)) % (sizes + 1)) - 1
    table = rng.normal(size=(offsets[-1], classes)) * 10.0 ** rng.integers(-9, 9, size=(offsets[-1], 1))
    table[rng.random(table.shape) < 0.05] = -np.inf
    constant = rng.normal(size=classes)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)
    expected = gathered(codes, offsets, table, constant)
    for kernels in BOTH:
        assert_same_bits((kernels.gather_scores(codes, offsets, table, constant),), (expected,))


@pytest.mark.parametrize("kernels", BOTH)
def test_what_is_missing_everywhere_leaves_the_constant(kernels: object) -> None:
    constant = np.array([-0.0, 0.5])
    nothing = np.full((1, 3), np.nan)
    ones = np.ones((2, 3))
    for found in (
        kernels.gaussian_scores(nothing, ones, ones, ones, constant),  # type: ignore[attr-defined]
        kernels.gather_scores(np.full((1, 3), -1), np.arange(4), np.ones((3, 2)), constant),  # type: ignore[attr-defined]
    ):
        assert found.tobytes() == constant.tobytes()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (1, 1), (1, 20), (1000, 7), (30, 300)])
def test_twins_agree_nearly_on_log_sums(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], count: int
) -> None:
    rng = np.random.default_rng(shape[0])
    scores = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 5, size=(shape[0], 1))
    scores[rng.random(shape) < 0.2] = -np.inf
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)
    ours, theirs = compiled.log_sum_rows(scores), reference.log_sum_rows(scores)
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite])
    bound = 1e-14 * np.maximum(
        1.0, np.abs(scores[finite]).max(axis=1, initial=0.0, where=np.isfinite(scores[finite]))
    )
    assert (np.abs(ours[finite] - theirs[finite]) <= bound).all()
    np.testing.assert_allclose(
        theirs, np.logaddexp.reduce(scores, axis=1, initial=-np.inf), rtol=1e-12, atol=1e-12
    )


def test_log_sums_at_the_ends() -> None:
    inf, nan = np.inf, np.nan
    rows = np.array([[-inf, -inf], [inf, 0.0], [inf, -inf], [nan, 0.0], [nan, -inf], [0.0, nan], [-inf, 3.0]])
    for kernels in BOTH:
        np.testing.assert_array_equal(kernels.log_sum_rows(rows), [-inf, inf, inf, nan, nan, nan, 3.0])


def test_the_door_hands_scores_on() -> None:
    rng = np.random.default_rng(8)
    x, (mean, precision, log_peak) = rng.normal(size=(6, 3)), rng.exponential(size=(3, 2, 3))
    parameters = mean, precision, log_peak, rng.normal(size=2)
    scores = _kernels.gaussian_scores(x, *parameters)
    assert_same_bits((scores,), (reference.gaussian_scores(x, *parameters),))
    codes, offsets, table = rng.integers(-1, 2, size=(6, 3)), np.arange(0, 8, 2), rng.normal(size=(6, 2))
    gathered_scores = _kernels.gather_scores(codes, offsets, table, parameters[-1])
    assert_same_bits((gathered_scores,), (reference.gather_scores(codes, offsets, table, parameters[-1]),))
    np.testing.assert_allclose(_kernels.log_sum_rows(scores), np.logaddexp(*scores.T), rtol=1e-13)
