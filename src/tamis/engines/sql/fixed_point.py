"""A column of floats → integers that a database adds exactly → the exact Σx and Σx².

SUM of DOUBLE values is rounded and depends on the order of the rows, and a variance computed from such a Σx²
loses its digits if the mean is large. A finite float is an integer times a power of two. So each value is cut
into chunks of at most 60 bits, each of which a BIGINT holds, and chunks into slices of 30 bits, so that a
BIGINT holds the product of two slices. DuckDB and PostgreSQL add BIGINTs exactly, in 128 bits or more.
Multiplying by a power of two, truncating, and subtracting the truncated part do not round. So the sums are
those of `tamis.stats`, whatever the order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

SLICE_BITS = 30  # bits of a slice: products have 60, and a BIGINT has 63
_MAX_BITS = 600  # from the highest to the lowest bit of a column's values, so that no scaled value underflows
_MAX_EXPONENT = 500  # of values whose squares a float can hold
_MASK = (1 << SLICE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """The number and the range of a column's values, which are found before they are summed."""

    count: int  # of values that are not missing
    least: float | None  # None if there is no value
    most: float | None
    nearest: float | None  # the smallest magnitude above zero
    has_fractions: bool

    @property
    def is_finite(self) -> bool:
        return all(value is None or math.isfinite(value) for value in (self.least, self.most))

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.least or 0), abs(self.most or 0))


@dataclass(frozen=True)
class Slices:
    """How the values of a column are cut: a value is the sum of its chunks, each times 2**exponent."""

    place: int  # of the column in the query, whose alias is v{place}
    high: int  # |x| < 2**high
    widths: tuple[int, ...]  # of the chunks, in bits: 60 or 30
    is_integer: bool = False  # whether all values are whole numbers of at most 30 bits, which need no cutting

    @classmethod
    def of(cls, place: int, bounds: Bounds, bits: int) -> "Slices | None":
        """Choose the chunks for a column of these bounds; None if its values are too large or too different.

        `bits` is the number of bits of a significand.
        """
        if not bounds.largest or bounds.nearest is None:
            return cls(place, SLICE_BITS, (SLICE_BITS,), is_integer=True)
        high = math.frexp(bounds.largest)[1]
        low = max(math.frexp(bounds.nearest)[1] - bits, -1074)
        if not bounds.has_fractions:
            low = max(low, 0)
            if high <= SLICE_BITS:
                return cls(place, SLICE_BITS, (SLICE_BITS,), is_integer=True)
        if high > _MAX_EXPONENT or high - low > _MAX_BITS:
            return None
        widths = []
        rest = high - low
        while rest > 0:
            widths.append(SLICE_BITS if rest <= SLICE_BITS else 2 * SLICE_BITS)
            rest -= widths[-1]
        return cls(place, high, tuple(widths))

    @cached_property
    def exponents(self) -> list[int]:
        """The exponent of each chunk."""
        return [self.high - sum(self.widths[: c + 1]) for c in range(len(self.widths))]

    def cut(self, step: int) -> dict[str, str]:
        """Return the expressions, by alias, of a query that cuts off chunk number `step`.

        Chunk c is a{place}_{c}; t{place}_{c} is the part of the value that is still to be cut. Each step
        selects from the query of the step before; step 0 selects from the values v{place}.
        """
        j = self.place
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

    def slice(self) -> dict[str, str]:
        """Return the expressions, by alias, of the chunks (for Σx) and of their slices (for products)."""
        selected = {}
        for c, width in enumerate(self.widths):
            chunk = f"a{self.place}_{c}"
            selected[chunk] = chunk
            if width > SLICE_BITS:
                selected[f"h{self.place}_{c}"] = f"{chunk} >> {SLICE_BITS}"
                selected[f"l{self.place}_{c}"] = f"{chunk} & {_MASK}"
        return selected

    @property
    def first_terms(self) -> list[tuple[str, int]]:
        """The terms of Σx: an expression to sum, and the exponent of two that its sum is multiplied by."""
        return [(f"a{self.place}_{c}", exponent) for c, exponent in enumerate(self.exponents)]

    @property
    def second_terms(self) -> list[tuple[str, int]]:
        """The terms of Σx². A float has bits in at most two neighbouring chunks; other products are zero."""
        slices: list[tuple[int, str, int]] = []  # chunk, alias, exponent
        for c, (width, exponent) in enumerate(zip(self.widths, self.exponents, strict=True)):
            if width > SLICE_BITS:
                slices.append((c, f"h{self.place}_{c}", exponent + SLICE_BITS))
                slices.append((c, f"l{self.place}_{c}", exponent))
            else:
                slices.append((c, f"a{self.place}_{c}", exponent))
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
    return sum(int(part) << (e - lowest) for part, e in zip(sums, exponents, strict=True) if part is not None)
