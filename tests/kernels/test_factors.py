"""Many small regressions and the best of many scores: kernels agree, and threads leave no trace."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tamis import threads
from tamis._kernels import factors as door
from tamis._kernels.factors import reference
from tamis._kernels.reference import Floats, Words
from tamis.compiled import core
from tests.compiled_core import needs_core

KERNELS = (reference,) if core is None else (reference, core.factors)
NOTHING = np.zeros((0, 0))


def rows(
    seed: int, n: int = 40, m: int = 30, k: int = 5, most: int = 20
) -> tuple[Words, Words, Floats, Floats, Floats, Floats]:
    """Rows of no entry up to `most`."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most + 1, n)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = rng.integers(0, m, indptr[-1])
    weights, pulls = rng.exponential(size=indptr[-1]), rng.normal(size=indptr[-1])
    ridge = rng.uniform(0.1, 2.0, (n, k))
    return indptr, indices, weights, pulls, rng.normal(size=(m, k)), ridge


def solved(
    kernels: ModuleType,
    given: Any,
    base: Floats = NOTHING,
    pull: Any = None,
    noise: Floats = NOTHING,
    other_offsets: Any = None,
) -> Floats:
    other, ridge = given[-2:]
    out = np.full(ridge.shape, 7.0)
    start = np.zeros(ridge.shape[1]) if pull is None else pull
    known = np.zeros(len(other)) if other_offsets is None else other_offsets
    kernels.solve_rows(*given, base, start, noise, known, 0, len(ridge), out)
    return out


@pytest.mark.parametrize(
    "shape",
    [
        (40, 30, 5, 20),
        (40, 30, 8, 4),
        (3, 1, 1, 1),
        (25, 60, 33, 90),
        (2, 4, 3, 0),
        (3, 700, 11, 600),  # more entries than are gathered at a time
        *((12, 50, k, 40) for k in (7, 15, 16, 17, 23, 24, 31, 32, 47)),  # about the widths of tiles
    ],
)
def test_kernels_agree_on_rows(shape: tuple[int, int, int, int]) -> None:
    for seed in range(3):
        given = rows(seed, *shape)
        np.testing.assert_allclose(
            solved(KERNELS[-1], given), solved(reference, given), rtol=1e-9, atol=1e-10
        )


def test_a_row_is_the_answer_to_its_normal_equations() -> None:
    indptr, indices, weights, pulls, other, ridge = given = rows(4, 30, 20, 6, 12)
    root = np.random.default_rng(0).normal(size=(6, 6))
    base, pull = root @ root.T, root[0]
    for kernels in KERNELS:
        plain, more = solved(kernels, given), solved(kernels, given, base, pull)
        for i in range(30):
            at = slice(indptr[i], indptr[i + 1])
            v = other[indices[at]]
            gram = np.diag(ridge[i]) + (v * weights[at, None]).T @ v
            np.testing.assert_allclose(gram @ plain[i], pulls[at] @ v, atol=1e-10)
            np.testing.assert_allclose((gram + base) @ more[i], pull + pulls[at] @ v, atol=1e-10)


@pytest.mark.parametrize("most", [2, 12])  # fewer entries than unknowns, and more
def test_what_is_known_of_others_is_taken_from_the_targets(most: int) -> None:
    indptr, indices, weights, pulls, other, ridge = rows(8, 30, 20, 6, most)
    other_offsets = np.random.default_rng(0).normal(size=20)
    rest = pulls - weights * other_offsets[indices]
    for kernels in KERNELS:
        found = solved(kernels, (indptr, indices, weights, pulls, other, ridge), other_offsets=other_offsets)
        wanted = solved(kernels, (indptr, indices, weights, rest, other, ridge))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_weak_ridge_loses_no_digits() -> None:
    """Of a row of few entries, whose own equations would be as steep as the weights are large."""
    indptr, indices, weights, pulls, other, ridge = rows(11, 30, 60, 51, 10)
    for weakest in (1e-3, 1e-6, 1e-9, 1e-12):
        ridge[:, -1] = weakest
        given = indptr, indices, weights, pulls, other, ridge
        np.testing.assert_allclose(
            solved(KERNELS[-1], given), solved(reference, given), rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("k", [0, 1, 5, 8])
def test_squares_are_of_what_is_wrong(k: int) -> None:
    indptr, indices, weights, targets, other, _ = rows(9, 12, 7, k + 1, 9)
    own = np.random.default_rng(1).normal(size=(12, k + 1))
    row = np.repeat(np.arange(12), np.diff(indptr))
    expected = (own[row, :-1] * other[indices, :-1]).sum(axis=1) + own[row, -1] + other[indices, -1]
    wanted = np.bincount(row, weights * np.square(targets - expected), minlength=12)
    for kernels in KERNELS:
        out = np.full(12, 7.0)
        kernels.row_squares(indptr, indices, weights, targets, own, other, 0, 12, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-12)
    found = door.row_squares(indptr, indices, weights, targets, own, other)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_noise_has_the_covariance_of_the_posterior() -> None:
    given = rows(5, 1, 20, 3, 12)
    matrix = np.linalg.inv(_gram(given))
    many = 4000
    repeated = (
        np.arange(many + 1) * len(given[1]),
        np.tile(given[1], many),
        np.tile(given[2], many),
        np.tile(given[3], many),
        given[4],
        np.tile(given[5], (many, 1)),
    )
    z = np.random.default_rng(1).standard_normal((many, 3))
    found = [solved(kernels, repeated, noise=z) for kernels in KERNELS]
    np.testing.assert_allclose(found[0], found[-1], atol=1e-10)
    np.testing.assert_allclose(np.cov(found[0].T), matrix, atol=0.1 * np.abs(matrix).max())


def _gram(given: Any) -> Floats:
    v = given[4][given[1]]
    return np.asarray(np.diag(given[5][0]) + (v * given[2][:, None]).T @ v)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_entries_without_weight_say_nothing(weight: float) -> None:
    indptr, indices, weights, pulls, other, ridge = rows(6, 20, 10, 6, 5)
    weights = np.where(np.arange(len(weights)) % 2, weights, weight * weights)
    pulls = np.where(weights > 0.0, pulls, 0.0)
    for kernels in KERNELS:
        whole = solved(kernels, (indptr, indices, weights, pulls, other, ridge))
        kept = weights > 0.0
        row = np.repeat(np.arange(20), np.diff(indptr))[kept]
        fewer = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=20))]).astype(np.int64)
        less = solved(kernels, (fewer, indices[kept], weights[kept], pulls[kept], other, ridge))
        np.testing.assert_allclose(whole, less, atol=1e-11)


def test_what_cannot_be_solved_is_not_a_number() -> None:
    indptr, indices = np.array([0, 1, 3]), np.array([0, 0, 1])
    other, ridge = np.eye(2), np.zeros((2, 2))
    given = indptr, indices, np.ones(3), np.ones(3), other, ridge
    for kernels in KERNELS:
        found = solved(kernels, given)
        assert np.isnan(found[0]).all()
        np.testing.assert_allclose(found[1], 1.0)


def _run_variants(call: Any) -> Iterator[tuple[bool, Floats]]:
    """What each variant that this processor can run returns, and whether it fuses products with sums."""
    assert core is not None
    before = core.dense.use_variant(core.dense.variants()[0][0])
    try:
        for name, is_fused in core.dense.variants():
            core.dense.use_variant(name)
            yield is_fused, call()
    finally:
        core.dense.use_variant(before)


def _assert_variants_agree(call: Any) -> None:
    """The same bits where products are fused, and the same up to rounding where they are not."""
    found = list(_run_variants(call))
    fused = [each for is_fused, each in found if is_fused] or [found[0][1]]
    for is_fused, each in found:
        if is_fused:
            np.testing.assert_array_equal(each, fused[0])
        else:
            np.testing.assert_allclose(each, fused[0], rtol=1e-9, atol=1e-10)


@needs_core
@pytest.mark.parametrize("k", [1, 3, 7, 8, 12, 16, 17, 24, 37, 50])
def test_processors_that_fuse_products_give_the_same_bits(k: int) -> None:
    assert core is not None
    given = rows(k, 40, 60, k + 1, 90)
    root = np.random.default_rng(0).normal(size=(k + 1, k + 1))
    noise = np.random.default_rng(1).normal(size=(40, k + 1))
    _assert_variants_agree(lambda: solved(core.factors, given))
    _assert_variants_agree(lambda: solved(core.factors, given, root @ root.T, root[0], noise))
    own = np.random.default_rng(2).normal(size=(40, k + 1))
    _assert_variants_agree(lambda: door.row_squares(*given[:4], own, given[4]))
    i, j = (np.random.default_rng(3).integers(-1, size, 200) for size in (40, 60))
    _assert_variants_agree(lambda: door.dot_pairs(own, given[4], i, j))


@needs_core
def test_the_core_refuses_arrays_that_do_not_fit() -> None:
    assert core is not None
    given = rows(0, 10, 8, 3, 5)
    names = "indptr", "indices", "weights", "pulls", "other_factors", "ridge"
    fitting: dict[str, Any] = {
        **dict(zip(names, given, strict=True)),
        "base": NOTHING,
        "pull": np.zeros(3),
        "noise": NOTHING,
        "other_offsets": np.zeros(8),
        "start": 0,
        "stop": 10,
        "out": np.zeros((10, 3)),
    }
    core.factors.solve_rows(**fitting)
    wrong: list[dict[str, Any]] = [
        {"indptr": given[0][:-1].copy()},
        {"weights": given[2][1:].copy()},
        {"pulls": given[3][1:].copy()},
        {"other_factors": np.ones((8, 2))},
        {"base": np.ones((3, 2))},
        {"pull": np.zeros(2)},
        {"noise": np.zeros((9, 3))},
        {"other_offsets": np.zeros(7)},
        {"start": -1},
        {"stop": 11},
        {"out": np.zeros((9, 3))},
    ]
    for change in wrong:
        with pytest.raises(ValueError, match="expected"):
            core.factors.solve_rows(**{**fitting, **change})
    with pytest.raises(ValueError, match="expected"):
        core.factors.top_rows(np.zeros((3, 4)), 0, 4, np.zeros((3, 2), dtype=np.int64))
    core.factors.top_rows(np.zeros((3, 4)), 0, 3, np.zeros((3, 0), dtype=np.int64))  # nothing is asked for


@pytest.mark.parametrize("kernels", KERNELS)
def test_rows_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, kernels: ModuleType) -> None:
    given = rows(7, 300, 200, 17, 60)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(door, "_kernels", kernels)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "_processors", lambda count=count: count)
        found.append(door.solve_rows(*given).tobytes())
    assert len(set(found)) == 1
    np.testing.assert_allclose(np.frombuffer(found[0]).reshape(300, 17), solved(reference, given), atol=1e-9)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_kernels_agree_on_the_best(data: st.DataObject) -> None:
    n, m, count = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 12)), data.draw(st.integers(1, 6))
    scores = data.draw(
        hnp.arrays(np.float64, (n, m), elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf]))
    )
    found = []
    for kernels in KERNELS:
        out = np.full((n, count), 99, dtype=np.int64)
        kernels.top_rows(scores, 0, n, out)
        found.append(out.tolist())
    assert found[0] == found[-1]
    for row, best in zip(scores, found[0], strict=True):
        expected = sorted((j for j in range(m) if row[j] > -np.inf), key=lambda j: (-row[j], j))[:count]
        assert best == expected + [-1] * (count - len(expected))


@pytest.mark.parametrize("count", [1, 3])
def test_the_best_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    scores = np.random.default_rng(0).integers(0, 50, (101, 300)).astype(np.float64)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(door.top_rows(scores, 10), expected)


@pytest.mark.parametrize("k", [0, 1, 3, 4, 9])
def test_kernels_agree_on_products_of_pairs(k: int) -> None:
    rng = np.random.default_rng(k)
    left, right = rng.normal(size=(7, k)), rng.normal(size=(5, k))
    i, j = rng.integers(-1, 7, 200), rng.integers(-1, 5, 200)
    wanted = np.array([left[u] @ right[v] if u >= 0 and v >= 0 else 0.0 for u, v in zip(i, j, strict=True)])
    for kernels in KERNELS:
        out = np.full(200, 7.0)
        kernels.dot_pairs(left, right, i, j, 0, 200, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(door.dot_pairs(left, right, i, j), wanted, rtol=1e-12, atol=1e-12)


def test_pairs_of_nobody_have_no_product() -> None:
    nowhere = np.full(3, -1)
    for kernels in KERNELS:
        out = np.full(3, 7.0)
        kernels.dot_pairs(np.zeros((0, 4)), np.ones((2, 4)), nowhere, np.zeros(3, dtype=np.int64), 0, 3, out)
        assert (out == 0.0).all()
