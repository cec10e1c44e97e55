"""Sums of rows by responsibilities: kernels agree on every processor, and no gap goes unseen."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from tamis._kernels.dense import reference
from tamis.compiled import core
from tests.compiled_core import needs_core

KERNELS = (reference,) if core is None else (reference, core.dense)
SHAPES = [
    (1, 1, 1),
    (5, 2, 3),
    (127, 3, 2),
    (128, 4, 4),
    (129, 16, 5),
    (4097, 5, 7),
    (9000, 2, 1),
    (300, 40, 3),
]


@pytest.fixture(params=["fastest"] if core is None else [name for name, _ in core.dense.variants()])
def variant(request: pytest.FixtureRequest) -> Iterator[None]:
    if core is None:
        yield
        return
    before = core.dense.use_variant(request.param)
    yield
    core.dense.use_variant(before)


def given(n: int, d: int, k: int, weighted: bool, hard: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(n + d + k)
    factor = rng.normal(size=(k, d, d)) / np.sqrt(d)
    return {
        "rows": rng.normal(3.0, 1.0, (n, d)),
        "start": 0,
        "stop": n,
        "weights": rng.exponential(size=n) if weighted else None,
        "origin": rng.normal(3.0, 1.0, d),
        "constant": rng.normal(size=k),
        "linear": rng.normal(size=(k, d)),
        "quadratic": -0.5 * factor @ np.swapaxes(factor, 1, 2),
        "hard": hard,
    }


def by_hand(data: dict[str, Any]) -> tuple[Any, float]:
    at = slice(data["start"], data["stop"])
    x = data["rows"][at] - data["origin"]
    w = np.ones(len(x)) if data["weights"] is None else data["weights"][at]
    joint = data["constant"] + x @ data["linear"].T + np.einsum("ni,kij,nj->nk", x, data["quadratic"], x)
    log_density = joint.max(axis=1) if data["hard"] else logsumexp(joint, axis=1)
    best = np.eye(joint.shape[1])[joint.argmax(axis=1)]
    r = (best if data["hard"] else np.exp(joint - log_density[:, None])) * w[:, None]
    extended = np.column_stack([x, np.ones(len(x))])
    return np.einsum("nk,ni,nj->kij", r, extended, extended), float(w @ log_density)


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hard", [False, True])
def test_kernels_agree_with_the_sums_by_hand(shape: tuple[int, int, int], weighted: bool, hard: bool) -> None:
    data = given(*shape, weighted, hard)
    data["start"] = shape[0] // 3
    wanted, log_likelihood = by_hand(data)
    scale = max(1.0, float(np.abs(wanted).max()))
    for kernels in KERNELS:
        sums, found = kernels.sum_responsible(**data)
        np.testing.assert_allclose(sums, wanted, rtol=1e-11, atol=1e-13 * scale)
        assert found == pytest.approx(log_likelihood, rel=1e-12, abs=1e-12)


@pytest.mark.usefixtures("variant")
def test_classes_of_no_probability_and_rows_far_away_have_no_part_in_sums() -> None:
    data = given(500, 3, 3, False)
    data["constant"] = np.array([0.0, -1e300, -1e300])
    data["rows"][7] = 1e6  # whose log-densities are below every exponent of a float
    for kernels in KERNELS:
        sums, found = kernels.sum_responsible(**data)
        assert np.isfinite(sums).all()
        assert found < -1e9
        assert sums[0, 3, 3] == 500.0
        assert not sums[1:].any()


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("row", [0, 4999, 5998])
def test_what_cannot_be_squared_leaves_no_finite_result(
    value: float, row: int, weighted: bool, hard: bool
) -> None:
    data = given(6000, 5, 3, weighted, hard)
    data["rows"][row, 2] = value
    for kernels in KERNELS:
        sums, found = kernels.sum_responsible(**data)
        assert not (np.isfinite(sums).all() and np.isfinite(found))


@needs_core
@pytest.mark.parametrize("shape", SHAPES)
def test_processors_that_fuse_products_give_the_same_bits(shape: tuple[int, int, int]) -> None:
    assert core is not None
    data = given(*shape, True)
    results = []
    before = core.dense.use_variant(core.dense.variants()[0][0])
    try:
        for name, is_fused in core.dense.variants():
            core.dense.use_variant(name)
            if is_fused:
                results.append(core.dense.sum_responsible(**data))
    finally:
        core.dense.use_variant(before)
    for sums, found in results:
        np.testing.assert_array_equal(sums, results[0][0])
        assert found == results[0][1]


@needs_core
def test_arrays_of_other_sizes_are_refused() -> None:
    assert core is not None
    data = given(20, 3, 2, True)
    wrong: list[dict[str, Any]] = [
        {"stop": 21},
        {"start": -1},
        {"start": 5, "stop": 4},
        {"weights": np.ones(19)},
        {"origin": np.zeros(4)},
        {"constant": np.zeros(3)},
        {"constant": np.zeros(0), "linear": np.zeros((0, 3)), "quadratic": np.zeros((0, 3, 3))},
        {"linear": np.zeros((2, 4))},
        {"quadratic": np.zeros((2, 3, 4))},
    ]
    for change in wrong:
        with pytest.raises(ValueError, match=r"^got "):
            core.dense.sum_responsible(**{**data, **change})
