"""What kernels must give, said in Python's own integers and fractions; and floats to try them on."""

from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from tamis._kernels import reference
from tamis._kernels.reference import Floats, Words
from tamis.compiled import choose_kernels

# Where there is no compiled core, the reference stands for it: it must still give what is true.
compiled = choose_kernels(reference, "tamis._kernels.compiled")
BOTH: tuple[ModuleType, ModuleType] = (reference, compiled)
ONE_GROUP: Words = np.zeros(0, dtype=np.int64)

# Where the kernels change their minds: words end at 2**(32 k), pieces at 2**-31 of the largest value.
_TURNING_POINTS = [
    sign * float(np.nextafter(2.0**exponent, side))
    for exponent in (-64, -32, -31, 0, 31, 32, 33, 64)
    for side in (0.0, np.inf)
    for sign in (1, -1)
] + [sign * 2.0**exponent for exponent in (-1074, -1022, -62, -31, -1, 0, 32) for sign in (1, -1)]

everyday = st.floats(-1e6, 1e6, allow_subnormal=False)
anything = st.floats(allow_nan=False, allow_infinity=False)
turning = st.sampled_from(_TURNING_POINTS)


squarable = st.just(0.0) | st.floats(1e-100, 1e100) | st.floats(-1e100, -1e-100)


def matrices(
    rows: int = 12, columns: int = 4, elements: SearchStrategy[float] | None = None
) -> SearchStrategy[Floats]:
    """Everyday numbers, extreme ones, or those about the turning points; any of them next to zeros."""
    shapes = st.tuples(st.integers(0, rows), st.integers(0, columns))
    kinds = [everyday, anything, turning, everyday | anything | turning] if elements is None else [elements]
    drawn = st.tuples(shapes, st.sampled_from(kinds))
    return drawn.flatmap(lambda pair: hnp.arrays(np.float64, pair[0], elements=pair[1]))


def scattered(rng: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Floats:
    """Floats of random sign with exponents from low to high, and a tenth of them zero."""
    exponents = rng.integers(low, high, size=shape, endpoint=True).astype(np.int32)
    values = np.ldexp(rng.uniform(-1.0, 1.0, size=shape), exponents)
    return np.where(rng.random(shape) < 0.1, 0.0, values)


def numbers(settled: tuple[Words, int]) -> list[Fraction]:
    """What words say."""
    words, low = settled
    unit = Fraction(2) ** (32 * low)
    totals = [0] * words.shape[1]
    for plane in reversed(words.tolist()):
        totals = [(total << 32) + digit for total, digit in zip(totals, plane, strict=True)]
    return [total * unit for total in totals]


def sums(values: Floats, group: Words, groups: int, other: Floats | None = None) -> list[Fraction]:
    """The true sums of values, or of their products with others, by group."""
    beside = np.ones_like(values) if other is None else np.broadcast_to(other, values.shape)
    totals = [[Fraction(0)] * values.shape[1] for _ in range(groups)]
    places = group.tolist() if group.size else [0] * len(values)
    for g, row, others in zip(places, values.tolist(), beside.tolist(), strict=True):
        for j, (x, y) in enumerate(zip(row, others, strict=True)):
            totals[g][j] += Fraction(x) * Fraction(y)
    return [total for row in totals for total in row]


def assert_same_bits(left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    """The same integers, and arrays with the same shape, type and bits."""
    assert len(left) == len(right)
    for ours, theirs in zip(left, right, strict=True):
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            assert ours.tobytes() == theirs.tobytes()
        else:
            assert ours == theirs


def assert_canonical(settled: tuple[Words, int]) -> None:
    """Settled words: digits in their ranges, and no plane that could be dropped."""
    words, low = settled
    assert ((words[:-1] >= 0) & (words[:-1] < 2**32)).all()
    assert ((words[-1] >= -(2**31)) & (words[-1] < 2**31)).all()
    if not words.any():
        assert (len(words), low) == (1, 0)
    elif len(words) > 1:
        assert words[0].any()
        assert _needed(words[-1], words[-2]).any()


def _needed(last: Words, below: Words) -> NDArray[np.bool_]:
    return np.asarray(last != -(below >> 31))
