"""See core/dense.cpp."""

import numpy as np
from numpy.typing import NDArray

def multiply_centred(
    values: NDArray[np.float64],
    centre: NDArray[np.float64],
    start: int,
    stop: int,
    order: NDArray[np.int64] | None,
    weights: NDArray[np.float64] | None,
    extra: NDArray[np.float64] | None,
) -> NDArray[np.float64]: ...
def multiply_row_blocks(
    values: NDArray[np.float64], centre: NDArray[np.float64], start: int, stop: int, block: int
) -> NDArray[np.float64]: ...
def multiply_column_blocks(
    columns: list[NDArray[np.float64]], centre: NDArray[np.float64], start: int, stop: int, block: int
) -> NDArray[np.float64]: ...
def sum_responsible(
    rows: NDArray[np.float64],
    start: int,
    stop: int,
    weights: NDArray[np.float64] | None,
    origin: NDArray[np.float64],
    constant: NDArray[np.float64],
    linear: NDArray[np.float64],
    quadratic: NDArray[np.float64],
    hard: bool,
) -> tuple[NDArray[np.float64], float]: ...
def variants() -> list[tuple[str, bool]]: ...
def use_variant(name: str) -> str: ...
