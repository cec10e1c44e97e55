"""Products of rows about their mean: kernels agree, and the number of columns alone chooses one of them."""

from typing import Any

import numpy as np
import pytest

from tamis import threads
from tamis._kernels import dense
from tamis._kernels.dense import reference
from tamis.compiled import core
from tamis.stats import Moments
from tests.compiled_core import needs_core

KERNELS = (reference,) if core is None else (reference, core.dense)


def given(n: int, p: int, more: int, weighted: bool, filed: bool) -> dict[str, Any]:
    rng = np.random.default_rng(n + p)
    return {
        "values": rng.normal(3.0, 1.0, (n, p)),
        "centre": rng.normal(3.0, 1.0, p + more),
        "order": rng.permutation(n) if filed else None,
        "weights": rng.exponential(size=(n, 1)) if weighted else None,
        "extra": rng.normal(size=(n, more)) if more else None,
    }


@pytest.mark.parametrize("p", [1, 3, 8, 9, 16, 23, 24, 25, 40, 101])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("more", [0, 2])
def test_kernels_agree_and_are_the_sum_of_products(p: int, weighted: bool, more: int) -> None:
    for n, filed in ((1, False), (64, True), (200, False), (201, True)):
        data = given(n, p, more, weighted, filed)
        place = slice(n // 3, n)
        x = np.hstack([data["values"], *([data["extra"]] if more else [])]) - data["centre"]
        which = np.arange(n)[place] if data["order"] is None else data["order"][place]
        w = np.ones((n, 1)) if data["weights"] is None else data["weights"]
        wanted = np.einsum("ni,nj->ij", w[which] * x[which], x[which])
        for kernels in KERNELS:
            found = kernels.multiply_centred(**data, start=place.start, stop=place.stop)
            np.testing.assert_allclose(np.triu(found), np.triu(wanted), rtol=1e-12, atol=1e-12)
        found = dense.multiply_centred(**data, run=place)
        np.testing.assert_allclose(np.triu(found), np.triu(wanted), rtol=1e-12, atol=1e-12)


@needs_core
@pytest.mark.parametrize("p", [1, 7, 8, 12, 25, 37, 101])
def test_processors_that_fuse_products_give_the_same_bits(p: int) -> None:
    assert core is not None
    data = {**given(200, p, 2, True, True), "start": 3, "stop": 190}
    fused: list[Any] = []
    rounded: list[Any] = []
    before = core.dense.use_variant(core.dense.variants()[0][0])
    try:
        for name, is_fused in core.dense.variants():
            core.dense.use_variant(name)
            (fused if is_fused else rounded).append(core.dense.multiply_centred(**data))
    finally:
        core.dense.use_variant(before)
    for found in fused:
        np.testing.assert_array_equal(found, fused[0])
    for found in rounded:
        np.testing.assert_allclose(found, (fused or rounded)[0], rtol=1e-12, atol=1e-12)


@needs_core
def test_rows_outside_of_the_array_are_refused() -> None:
    assert core is not None
    data = given(20, 3, 0, True, True)
    wrong: list[dict[str, Any]] = [
        {"order": np.full(20, 20)},
        {"order": np.full(20, -1)},
        {"order": np.arange(19)},
        {"stop": 21},
        {"start": -1},
        {"start": 5, "stop": 4},
        {"weights": np.ones((19, 1))},
        {"centre": np.zeros(4)},
        {"extra": np.zeros((19, 1)), "centre": np.zeros(4)},
    ]
    for change in wrong:
        with pytest.raises(ValueError, match="expected"):
            core.dense.multiply_centred(**{**data, "start": 0, "stop": 20, **change})
    with pytest.raises(ValueError, match="variant"):
        core.dense.use_variant("a processor of the year 2100")


def test_the_number_of_columns_chooses_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_MAX_COLUMNS", 5)
    for columns, kernels in ((5, KERNELS[-1]), (6, reference)):
        data = given(50, columns, 0, True, False)
        wanted = kernels.multiply_centred(**data, start=0, stop=50)
        found = dense.multiply_centred(**data, run=slice(0, 50))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("by", [None, "groups"])
def test_moments_by_tiles_are_those_by_blas(monkeypatch: pytest.MonkeyPatch, by: str | None) -> None:
    rng = np.random.default_rng(0)
    rows, weights = 1e8 + rng.normal(size=(9000, 13)), rng.exponential(size=9000)
    labels = None if by is None else rng.integers(0, 3, 9000)
    with monkeypatch.context() as narrow:
        narrow.setattr(dense, "_MAX_COLUMNS", 0)
        by_blas = Moments.observe(rows, weights, form="full", by=labels)
    found = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "_processors", lambda count=count: count)
        found.append(Moments.observe(rows, weights, form="full", by=labels))
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0].covariance, by_blas.covariance, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(found[0].mean, by_blas.mean)
