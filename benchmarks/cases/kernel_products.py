"""Products of rows about a centre, block by block on one core: in tiles, against the same rows by BLAS."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.harness import AnyCase, Case
from tamis import threads
from tamis._kernels.dense import reference
from tamis.arrays import Array
from tamis.compiled import core

_CELLS, _BLOCK = 10_000_000, 4096


def _rows(columns: int) -> Array:
    return np.random.default_rng(0).normal(5.0, 1.0, size=(_CELLS // columns, columns))


def _products(x: Array, multiply: Callable[..., Array]) -> Array:
    centre, total = np.full(x.shape[1], 5.0), np.zeros((x.shape[1], x.shape[1]))
    with threads.one_blas_thread:
        for start in range(0, len(x), _BLOCK):
            total += multiply(x, centre, start, min(start + _BLOCK, len(x)), None, None, None)
    return np.triu(total)


def _tiles(x: Array) -> Array:
    if core is None:
        raise RuntimeError("got no compiled core, expected one: build it by `make install`")
    return _products(x, core.dense.multiply_centred)


def _blas(x: Array) -> Array:
    return _products(x, reference.multiply_centred)


def _agree(ours: Array, peer: Array) -> bool:
    return bool(np.allclose(ours, peer, rtol=1e-10, atol=1e-6))


CASES: tuple[AnyCase, ...] = tuple(
    Case(
        name=f"kernel-products-{columns}",
        what=f"products of {_CELLS // columns:,} × {columns} about a centre, against BLAS, on one core",
        setup=partial(_rows, columns),
        ours=_tiles,
        peer=_blas,
        agree=_agree,
    )
    for columns in (8, 16, 100, 400)
)
