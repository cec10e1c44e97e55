"""The kernels of `reference.py`, compiled by Numba. Same functions, same bits; `tests/kernels` holds them so.

All of them are compiled when the door first imports this package, in 10 to 20 s, and kept on disk.
"""

from tamis._kernels.compiled.digits import combine, multiply, read, settle
from tamis._kernels.compiled.sums import deposit, deposit_powers, deposit_products, span, two_product

__all__ = [
    "combine",
    "deposit",
    "deposit_powers",
    "deposit_products",
    "multiply",
    "read",
    "settle",
    "span",
    "two_product",
]
