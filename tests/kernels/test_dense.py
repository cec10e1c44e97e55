"""Products of rows about their mean: twins agree, and the size of the data alone tells who computes."""

from typing import Any

import numpy as np
import pytest

from tamis import threads
from tamis._kernels import dense
from tamis.stats import Moments


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
def test_twins_agree_and_are_the_sum_of_products(p: int, weighted: bool, more: int) -> None:
    for n, filed in ((1, False), (64, True), (200, False), (201, True)):
        data = given(n, p, more, weighted, filed)
        place = slice(n // 3, n)
        x = np.hstack([data["values"], *([data["extra"]] if more else [])]) - data["centre"]
        which = np.arange(n)[place] if data["order"] is None else data["order"][place]
        w = np.ones((n, 1)) if data["weights"] is None else data["weights"]
        wanted = np.einsum("ni,nj->ij", w[which] * x[which], x[which])
        for large in (False, True):
            found = dense.multiply_centred(**data, place=place, large=large)
            np.testing.assert_allclose(np.triu(found), np.triu(wanted), rtol=1e-12, atol=1e-12)


def test_size_alone_tells_who_computes() -> None:
    assert dense.is_large(40_000, 100)
    assert not dense.is_large(39_999, 100)
    assert not dense.is_large(40_000, 1_000)


@pytest.mark.parametrize("by", [None, "groups"])
def test_moments_of_large_data_are_those_of_small(monkeypatch: pytest.MonkeyPatch, by: str | None) -> None:
    rng = np.random.default_rng(0)
    rows, weights = 1e8 + rng.normal(size=(9000, 13)), rng.exponential(size=9000)
    labels = None if by is None else rng.integers(0, 3, 9000)
    small = Moments.observe(rows, weights, form="full", by=labels)
    monkeypatch.setattr(dense, "_LARGE", 0)
    found = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "_processors", lambda count=count: count)
        found.append(Moments.observe(rows, weights, form="full", by=labels))
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0].covariance, small.covariance, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(found[0].mean, small.mean)
