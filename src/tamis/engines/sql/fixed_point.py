"""A column of floats → integers that a database adds exactly → the exact Σx and Σx².

SUM of DOUBLE values is rounded and depends on the order of the rows, and a variance computed from such a Σx²
loses its digits if the mean is large. A finite float is an integer times a power of two. So each value is cut
into chunks of at most 60 bits, each of which a BIGINT (a 64-bit integer) holds, and chunks into slices of 30
bits, so that a BIGINT holds the product of two slices. DuckDB and PostgreSQL add BIGINTs exactly, in 128 bits
or more. To multiply by a power of two, to truncate, and to subtract the truncated part does not round. So the
sums are equal to those of `tamis.stats`, in whatever order the rows are added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

SLICE_BITS = 30  # bits of a slice; the product of two has 60, and a BIGINT has 63 and a sign
_SLICE_MASK = (1 << SLICE_BITS) - 1  # a slice of ones
_MAX_BITS = 600  # from the highest to the lowest bit of a column's values; then no scaled value underflows
_MAX_EXPONENT = 500  # values below 2**500 have squares that a float can hold
_LOWEST_EXPONENT = -1074  # the smallest positive float is 2**-1074


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """The number and the range of a column's values, which are found before they are summed."""

    count: int  # the number of values that are not missing
    minimum: float | None  # None if there is no value
    maximum: float | None
    smallest_magnitude: float | None  # above zero; None if all values are zero
    has_fractions: bool

    @property
    def is_finite(self) -> bool:
        return all(value is None or math.isfinite(value) for value in (self.minimum, self.maximum))

    @property
    def largest_magnitude(self) -> float:
        return max(abs(self.minimum or 0), abs(self.maximum or 0))


@dataclass(frozen=True)
class Slices:
    """How the values of a column are cut: a value is the sum of its chunks, each times 2**exponent."""

    column: int  # the index of the column; its name in the query is v{column}
    high: int  # all values are less than 2**high in magnitude
    widths: tuple[int, ...]  # the number of bits of each chunk, the highest bits first: 60 or 30
    is_integer: bool = False  # whether all values are whole numbers of at most 30 bits, and need not be cut

    @classmethod
    def of(cls, column: int, profile: ColumnProfile, bits: int) -> "Slices | None":
        """Choose the chunks for a column with this profile, whose significands have this number of bits.

        None if the values, or the ratios of their magnitudes, are too large.
        """
        if not profile.largest_magnitude or profile.smallest_magnitude is None:
            return cls(column, SLICE_BITS, (SLICE_BITS,), is_integer=True)
        high = math.frexp(profile.largest_magnitude)[1]
        low = max(math.frexp(profile.smallest_magnitude)[1] - bits, _LOWEST_EXPONENT)
        if not profile.has_fractions:
            low = max(low, 0)
            if high <= SLICE_BITS:
                return cls(column, SLICE_BITS, (SLICE_BITS,), is_integer=True)
        if high > _MAX_EXPONENT or high - low > _MAX_BITS:
            return None
        widths = []
        rest = high - low
        while rest > 0:
            widths.append(SLICE_BITS if rest <= SLICE_BITS else 2 * SLICE_BITS)
            rest -= widths[-1]
        return cls(column, high, tuple(widths))

    @cached_property
    def exponents(self) -> list[int]:
        """The exponent of each chunk."""
        return [self.high - sum(self.widths[: c + 1]) for c in range(len(self.widths))]

    def select_chunks(self, step: int) -> dict[str, str]:
        """Return what to select in order to cut off chunk number `step`: SQL expressions by their names.

        Chunk c is named a{column}_{c}; t{column}_{c} is the part of the value that is still to be cut. Each
        step selects from the query of the step before; step 0 selects from the values v{column}.
        """
        j = self.column
        if self.is_integer:
            return {f"a{j}_0": f"CAST(v{j} AS BIGINT)" if step == 0 else f"a{j}_0"}
        selected = {f"a{j}_{c}": f"a{j}_{c}" for c in range(min(step, len(self.widths)))}
        if step < len(self.widths):
            left = f"v{j} * {write_power(self.widths[0] - self.high)}" if step == 0 else f"t{j}_{step}"
            selected[f"a{j}_{step}"] = f"CAST(TRUNC({left}) AS BIGINT)"
            if step + 1 < len(self.widths):
                factor = write_power(self.widths[step + 1])
                selected[f"t{j}_{step + 1}"] = f"({left} - TRUNC({left})) * {factor}"
        return selected

    def select_slices(self) -> dict[str, str]:
        """Return what to select for sums: SQL expressions of the chunks and of their slices by their names.

        The two slices of a{column}_{c} are h{column}_{c}, its high bits, and l{column}_{c}, its low bits.
        """
        selected = {}
        for c, width in enumerate(self.widths):
            chunk = f"a{self.column}_{c}"
            selected[chunk] = chunk
            if width > SLICE_BITS:
                selected[f"h{self.column}_{c}"] = f"{chunk} >> {SLICE_BITS}"
                selected[f"l{self.column}_{c}"] = f"{chunk} & {_SLICE_MASK}"
        return selected

    @property
    def first_terms(self) -> list[tuple[str, int]]:
        """The terms of Σx: a name to sum, and the exponent of the power of two that multiplies the sum."""
        return [(f"a{self.column}_{c}", exponent) for c, exponent in enumerate(self.exponents)]

    @property
    def second_terms(self) -> list[tuple[str, int]]:
        """The terms of Σx². A float has bits in at most two neighbouring chunks; other products are zero."""
        slices: list[tuple[int, str, int]] = []  # number of the chunk, name of the slice, exponent
        for c, (width, exponent) in enumerate(zip(self.widths, self.exponents, strict=True)):
            if width > SLICE_BITS:
                slices.append((c, f"h{self.column}_{c}", exponent + SLICE_BITS))
                slices.append((c, f"l{self.column}_{c}", exponent))
            else:
                slices.append((c, f"a{self.column}_{c}", exponent))
        return [
            (f"{left} * {right}", e + f + (left != right))  # (a + b)² has the product of two slices twice
            for (c, left, e), (d, right, f) in combinations_with_replacement(slices, 2)
            if d - c <= 1
        ]


def write_power(exponent: int) -> str:
    """Write 2**exponent as a DOUBLE; above 2**1000, as a product, because it may be too large for one."""
    if exponent > 1000:
        return f"{write_float(2.0**500)} * {write_power(exponent - 500)}"
    return write_float(math.ldexp(1.0, exponent))


def write_float(value: float) -> str:
    """Write a float as a DOUBLE, cast from text, because SQL reads a literal with a point as a decimal."""
    return f"CAST('{value!r}' AS DOUBLE PRECISION)"


def add_terms(sums: Sequence[int | None], exponents: Sequence[int], lowest: int) -> int:
    """Return Σ sum * 2**exponent in units of 2**lowest; a sum is None (NULL) if it has no rows."""
    return sum(
        int(part) << (exponent - lowest)
        for part, exponent in zip(sums, exponents, strict=True)
        if part is not None
    )
