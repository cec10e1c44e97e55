"""The kernels of `reference.py`, compiled by Numba. Same functions, same bits; `tests/kernels` holds them so.

All of them are compiled when the door first imports this package, in 10 to 20 s, and kept on disk.
"""

from tamis._kernels.compiled.digits import combine, multiply, read, settle
from tamis._kernels.compiled.rows import deposit, deposit_powers, span
from tamis._kernels.compiled.scatter import deposit_codes, deposit_sparse
from tamis._kernels.compiled.scores import gather_scores, gaussian_scores, log_sum_rows
from tamis._kernels.compiled.sums import deposit_products, two_product

__all__ = [
    "combine",
    "deposit",
    "deposit_codes",
    "deposit_powers",
    "deposit_products",
    "deposit_sparse",
    "gather_scores",
    "gaussian_scores",
    "log_sum_rows",
    "multiply",
    "read",
    "settle",
    "span",
    "two_product",
]
