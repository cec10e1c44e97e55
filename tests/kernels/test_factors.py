"""Many small regressions and the best of many scores: twins agree, and threads leave no trace."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tamis import threads
from tamis._kernels import factors as door
from tamis._kernels.dense.symmetric import LANES
from tamis._kernels.factors import compiled, reference
from tamis._kernels.reference import Floats, Words

TWINS = (reference, compiled)
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
def test_twins_agree_on_rows(shape: tuple[int, int, int, int]) -> None:
    for seed in range(3):
        given = rows(seed, *shape)
        theirs = solved(reference, given)
        np.testing.assert_allclose(solved(compiled, given), theirs, rtol=1e-9, atol=1e-10)


def test_a_row_is_the_answer_to_its_normal_equations() -> None:
    indptr, indices, weights, pulls, other, ridge = given = rows(4, 30, 20, 6, 12)
    root = np.random.default_rng(0).normal(size=(6, 6))
    base, pull = root @ root.T, root[0]
    for kernels in TWINS:
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
    for kernels in TWINS:
        found = solved(kernels, (indptr, indices, weights, pulls, other, ridge), other_offsets=other_offsets)
        wanted = solved(kernels, (indptr, indices, weights, rest, other, ridge))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_weak_ridge_loses_no_digits() -> None:
    """Of a row of few entries, whose own equations would be as steep as the weights are large."""
    indptr, indices, weights, pulls, other, ridge = rows(11, 30, 60, 51, 10)
    for weakest in (1e-3, 1e-6, 1e-9, 1e-12):
        ridge[:, -1] = weakest
        given = indptr, indices, weights, pulls, other, ridge
        theirs = solved(reference, given)
        np.testing.assert_allclose(solved(compiled, given), theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("k", [0, 1, 5, 8])
def test_squares_are_of_what_is_wrong(k: int) -> None:
    indptr, indices, weights, targets, other, _ = rows(9, 12, 7, k + 1, 9)
    own = np.random.default_rng(1).normal(size=(12, k + 1))
    row = np.repeat(np.arange(12), np.diff(indptr))
    expected = (own[row, :-1] * other[indices, :-1]).sum(axis=1) + own[row, -1] + other[indices, -1]
    wanted = np.bincount(row, weights * np.square(targets - expected), minlength=12)
    for kernels in TWINS:
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
    found = [solved(kernels, repeated, noise=z) for kernels in TWINS]
    np.testing.assert_allclose(found[0], found[1], atol=1e-10)
    np.testing.assert_allclose(np.cov(found[0].T), matrix, atol=0.1 * np.abs(matrix).max())


def _gram(given: Any) -> Floats:
    v = given[4][given[1]]
    return np.asarray(np.diag(given[5][0]) + (v * given[2][:, None]).T @ v)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_entries_without_weight_say_nothing(weight: float) -> None:
    indptr, indices, weights, pulls, other, ridge = rows(6, 20, 10, 6, 5)
    weights = np.where(np.arange(len(weights)) % 2, weights, weight * weights)
    pulls = np.where(weights > 0.0, pulls, 0.0)
    for kernels in TWINS:
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
    for kernels in TWINS:
        found = solved(kernels, given)
        assert np.isnan(found[0]).all()
        np.testing.assert_allclose(found[1], 1.0)


_ON_ANOTHER_MACHINE = """
import sys
from unittest import mock
import numpy as np
lanes = int(sys.argv[1])
with mock.patch("llvmlite.binding.get_host_cpu_features", return_value={"avx512f": lanes == 8}):
    import tamis._kernels.dense.tiles
from tamis._kernels.dense.symmetric import LANES
from tamis._kernels.factors import compiled, reference
assert LANES == lanes
rng = np.random.default_rng(0)
n, m, k = 30, 60, 37
indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 90, n))])
indices = rng.integers(0, m, indptr[-1])
weights, pulls = rng.exponential(size=indptr[-1]), rng.normal(size=indptr[-1])
other, ridge, none = rng.normal(size=(m, k)), rng.uniform(0.1, 2.0, (n, k)), np.zeros((0, 0))
found = np.zeros((2, n, k))
for kernels, out in zip((compiled, reference), found):
    entries = indptr, indices, weights, pulls
    kernels.solve_rows(*entries, other, ridge, none, np.zeros(k), none, np.zeros(m), 0, n, out)
np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-11)
"""


def test_tiles_of_the_other_width_agree(tmp_path: Path) -> None:
    lanes = 12 - LANES  # 4 or 8: what this machine does not take by itself
    there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _ON_ANOTHER_MACHINE, str(lanes)], check=True, env=there)


@pytest.mark.parametrize("kernels", TWINS)
def test_rows_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, kernels: ModuleType) -> None:
    given = rows(7, 300, 200, 17, 60)
    monkeypatch.setattr(threads, "ENOUGH", 0)
    monkeypatch.setattr(door._door, "kernels", lambda work: kernels)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "_processors", lambda count=count: count)
        found.append(door.solve_rows(*given).tobytes())
    assert len(set(found)) == 1
    np.testing.assert_allclose(np.frombuffer(found[0]).reshape(300, 17), solved(reference, given), atol=1e-9)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_twins_agree_on_the_best(data: st.DataObject) -> None:
    n, m, count = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 12)), data.draw(st.integers(1, 6))
    scores = data.draw(
        hnp.arrays(np.float64, (n, m), elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf]))
    )
    found = []
    for kernels in TWINS:
        out = np.full((n, count), 99, dtype=np.int64)
        kernels.top_rows(scores, 0, n, out)
        found.append(out.tolist())
    assert found[0] == found[1]
    for row, best in zip(scores, found[0], strict=True):
        expected = sorted((j for j in range(m) if row[j] > -np.inf), key=lambda j: (-row[j], j))[:count]
        assert best == expected + [-1] * (count - len(expected))


@pytest.mark.parametrize("count", [1, 3])
def test_the_best_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    scores = np.random.default_rng(0).integers(0, 50, (101, 300)).astype(np.float64)
    monkeypatch.setattr(threads, "ENOUGH", 0)
    monkeypatch.setattr(threads, "_processors", lambda: count)
    monkeypatch.setattr(door._door, "kernels", lambda work: compiled)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(door.top_rows(scores, 10), expected)


@pytest.mark.parametrize("k", [0, 1, 3, 4, 9])
def test_twins_agree_on_products_of_pairs(k: int) -> None:
    rng = np.random.default_rng(k)
    left, right = rng.normal(size=(7, k)), rng.normal(size=(5, k))
    i, j = rng.integers(-1, 7, 200), rng.integers(-1, 5, 200)
    wanted = np.array([left[u] @ right[v] if u >= 0 and v >= 0 else 0.0 for u, v in zip(i, j, strict=True)])
    for kernels in TWINS:
        out = np.full(200, 7.0)
        kernels.dot_pairs(left, right, i, j, 0, 200, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(door.dot_pairs(left, right, i, j), wanted, rtol=1e-12, atol=1e-12)


def test_pairs_of_nobody_have_no_product() -> None:
    nowhere = np.full(3, -1)
    for kernels in TWINS:
        out = np.full(3, 7.0)
        kernels.dot_pairs(np.zeros((0, 4)), np.ones((2, 4)), nowhere, np.zeros(3, dtype=np.int64), 0, 3, out)
        assert (out == 0.0).all()
