"""Rows → coefficients at which every score is above zero, by a linear program: where there are any."""

import numpy as np
from scipy.optimize import linprog

from tamis.arrays import Array
from tamis.models.linear.laplace import LinearRows

_CELLS = 1 << 24  # rows times columns up to which a linear program is solved
_ABOVE = 1e-9  # of the score that is wanted: less than that above zero is the program's own rounding


def find_interior(rows: LinearRows, wanted: float) -> Array | None:
    """Find coefficients whose smallest score is as large as can be, up to `wanted`; None if not above 0.

    With `wanted` near what scores should be, that is a fair place to begin.
    """
    design = rows.design
    n, width = len(design), design.width
    if n * width > _CELLS:
        return None
    cells = np.concatenate([block.dense() for block in design.blocks(0, n)])
    scale = np.abs(cells).max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    offsets = np.zeros(n) if rows.offsets is None else rows.offsets
    program = linprog(  # largest t ≤ 1 with x·w + offset ≥ t, scores in units of `wanted`
        np.append(np.zeros(width), -1.0),
        A_ub=np.column_stack([-cells / scale, np.ones(n)]),
        b_ub=offsets / wanted,
        bounds=[(None, None)] * width + [(None, 1.0)],
    )
    if program.x is None or not program.x[-1] > _ABOVE:
        return None
    return np.asarray(program.x[:width] * wanted / scale)
