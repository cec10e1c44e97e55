"""Instructions for compiled code on small matrices: tiles that stay in registers.

A tile is LANES rows of up to three vectors; matrices are (rows, width) with a width of whole vectors, in C
order. BLAS packs what it multiplies and looks for the best way to, which for 50 × 50 costs more than the
product; here rows are read where they lie. Each entry is a sum of fused products in the order of the rows,
so that the bits of products are the same whatever the width of the machine's vectors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def _has_wide_vectors() -> bool:
    try:
        return bool(binding.get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # a machine that does not say
        return False


# Of the 32 registers of AVX-512 a tile takes 24; of the 16 that others have, 12.
LANES = 8 if _has_wide_vectors() else 4
WIDEST = 3  # vectors of a tile

_DOUBLE, _WORD, _PLACE = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_BLANK, _ZERO = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_VECTOR, [0.0] * LANES)


class _Code:
    """A builder that knows vectors."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder = context, builder
        self.kinds, self.arguments = signature.args, arguments

    def array(self, number: int) -> tuple[Any, Any]:
        """The address of an argument's numbers, and its last length."""
        kind: Any = self.kinds[number]
        array: Any = cgutils.create_struct_proxy(kind)(self.context, self.builder, self.arguments[number])  # type: ignore[no-untyped-call]
        return array.data, self.builder.extract_value(array.shape, kind.ndim - 1)

    def row(self, first: Any, number: int, width: Any) -> Any:
        """The place of the first number of a row, counted from the first number of the array."""
        return self.builder.mul(self.builder.add(first, _WORD(number)), width)

    def address(self, data: Any, *steps: Any) -> Any:
        """The address so many numbers on."""
        place = steps[0]
        for step in steps[1:]:
            place = self.builder.add(place, _WORD(step) if isinstance(step, int) else step)
        return self.builder.gep(data, [place])

    def load(self, address: Any) -> Any:
        """A vector, aligned as numbers are."""
        vector = self.builder.load(self.builder.bitcast(address, _VECTOR.as_pointer()))
        vector.align = 8
        return vector

    def store(self, vector: Any, address: Any) -> None:
        """Write a vector."""
        self.builder.store(vector, self.builder.bitcast(address, _VECTOR.as_pointer())).align = 8

    def broadcast(self, number: Any) -> Any:
        """The same number in every lane."""
        return self.broadcast_lane(self.builder.insert_element(_BLANK, number, _PLACE(0)), 0)

    def broadcast_lane(self, vector: Any, lane: int) -> Any:
        """One lane's number in every lane."""
        lanes = ir.Constant(ir.VectorType(_PLACE, LANES), [lane] * LANES)
        return self.builder.shuffle_vector(vector, _BLANK, lanes)

    def subtract_product(self, held: Any, left: Any, right: Any) -> Any:
        """held − left · right."""
        return self.add_product(held, self.builder.fneg(left), right)

    def add_product(self, held: Any, left: Any, right: Any) -> Any:
        """held + left · right, rounded once where the machine can."""
        return self.call(f"llvm.fmuladd.v{LANES}f64", _VECTOR, left, right, held)

    def call(self, name: str, result: Any, *arguments: Any, **more: Any) -> Any:
        """A function of LLVM's own."""
        kind = ir.FunctionType(result, [each.type for each in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)  # type: ignore[no-untyped-call]
        return self.builder.call(function, arguments, **more)

    @contextmanager
    def loop(self, start: Any, stop: Any, step: int, held: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
        """The body of a loop: a counter, and values to replace; after it, `held` is what they came to."""
        builder = self.builder
        before = builder.block
        body, after = builder.append_basic_block("body"), builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", start, stop), body, after)
        builder.position_at_end(body)
        counter = builder.phi(_WORD)
        counter.add_incoming(start, before)
        values = [self._make_phi([(value, before)]) for value in held]
        replaced = list(values)
        yield counter, replaced
        following = builder.add(counter, _WORD(step))
        counter.add_incoming(following, body)
        for value, new in zip(values, replaced, strict=True):
            value.add_incoming(new, body)
        builder.cbranch(builder.icmp_signed("<", following, stop), body, after)
        builder.position_at_end(after)
        held[:] = [
            self._make_phi([(old, before), (new, body)]) for old, new in zip(held, replaced, strict=True)
        ]

    def _make_phi(self, sources: list[tuple[Any, Any]]) -> Any:
        phi = self.builder.phi(_VECTOR)
        for value, block in sources:
            phi.add_incoming(value, block)
        return phi


def _products(wide: int) -> Any:
    def type_call(_: Any, left: Any, right: Any, count: Any, sign: Any, sums: Any, i: Any, j: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            c = _Code(context, builder, signature, arguments)
            (own, width), (other, _), (out, stride) = c.array(0), c.array(1), c.array(4)
            count, sign, i, j = arguments[2], c.broadcast(arguments[3]), arguments[5], arguments[6]
            spots = [
                c.address(out, c.row(i, a, stride), j, b * LANES) for a in range(LANES) for b in range(wide)
            ]
            held = [_ZERO] * len(spots)
            with c.loop(_WORD(0), count, 1, held) as (n, tile):
                row = builder.mul(n, width)
                vectors = [c.load(c.address(other, row, j, b * LANES)) for b in range(wide)]
                for a in range(LANES):
                    number = c.broadcast(builder.load(c.address(own, row, i, a)))
                    for b in range(wide):
                        tile[a * wide + b] = c.add_product(tile[a * wide + b], number, vectors[b])
            for vector, spot in zip(held, spots, strict=True):
                c.store(c.add_product(c.load(spot), sign, vector), spot)
            return context.get_dummy_value()

        kinds = left, right, types.int64, types.float64, sums, types.int64, types.int64
        return types.void(*kinds), code

    return intrinsic(type_call)


def _corner(_: Any, sums: Any, i: Any, inverses: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        c = _Code(context, builder, signature, arguments)
        (data, width), (inverse, _), i = c.array(0), c.array(2), arguments[1]
        spots = [c.address(data, c.row(i, a, width), i) for a in range(LANES)]
        rows = [c.load(spot) for spot in spots]
        for p in range(LANES):
            root = c.call("llvm.sqrt.f64", _DOUBLE, builder.extract_element(rows[p], _PLACE(p)))
            scale = builder.fdiv(_DOUBLE(1.0), root)
            builder.store(scale, c.address(inverse, i, p))
            rows[p] = builder.fmul(rows[p], c.broadcast(scale))
            for q in range(p + 1, LANES):
                rows[q] = c.subtract_product(rows[q], c.broadcast_lane(rows[p], q), rows[p])
        for row, spot in zip(rows, spots, strict=True):
            c.store(row, spot)
        return context.get_dummy_value()

    return types.void(sums, types.int64, inverses), code


def _make_side(wide: int) -> Any:
    def type_call(_: Any, sums: Any, i: Any, j: Any, inverses: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            c = _Code(context, builder, signature, arguments)
            (data, width), (inverse, _), i, j = c.array(0), c.array(3), arguments[1], arguments[2]
            begins = [c.row(i, a, width) for a in range(LANES)]
            spots = [[c.address(data, begin, j, b * LANES) for b in range(wide)] for begin in begins]
            rows = [[c.load(spot) for spot in row] for row in spots]
            for p in range(LANES):
                scale = c.broadcast(builder.load(c.address(inverse, i, p)))
                rows[p] = [builder.fmul(vector, scale) for vector in rows[p]]
                for q in range(p + 1, LANES):
                    share = c.broadcast(builder.load(c.address(data, begins[p], i, q)))
                    rows[q] = [
                        c.subtract_product(old, share, own) for old, own in zip(rows[q], rows[p], strict=True)
                    ]
            for row, places in zip(rows, spots, strict=True):
                for vector, spot in zip(row, places, strict=True):
                    c.store(vector, spot)
            return context.get_dummy_value()

        return types.void(sums, types.int64, types.int64, inverses), code

    return intrinsic(type_call)


def _make_rest(_: Any, upper: Any, i: Any, x: Any, out: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        c = _Code(context, builder, signature, arguments)
        (data, width), (right, size), (to, _), i = c.array(0), c.array(2), c.array(3), arguments[1]
        begins = [c.row(i, a, width) for a in range(LANES)]
        held = [_ZERO] * LANES
        with c.loop(builder.add(i, _WORD(LANES)), size, LANES, held) as (n, sums):
            vector = c.load(c.address(right, n))
            for a in range(LANES):
                sums[a] = c.add_product(sums[a], c.load(c.address(data, begins[a], n)), vector)
        reduce = f"llvm.vector.reduce.fadd.v{LANES}f64"
        for a in range(LANES):
            total = c.call(reduce, _DOUBLE, _DOUBLE(0.0), held[a], fastmath=("reassoc",))
            builder.store(total, c.address(to, _WORD(a)))
        return context.get_dummy_value()

    return types.void(upper, types.int64, x, out), code


# (left, right, count, sign, sums, i, j): sums[i:, j:] ± leftᵀ right of columns i… and j… of so many rows
add_1, add_2, add_3 = (_products(wide) for wide in range(1, WIDEST + 1))
# (sums, i, inverses): the square tile at (i, i) → its upper root, and one over its diagonal in inverses[i:]
corner: Any = intrinsic(_corner)
# (sums, i, j, inverses): the tile at (i, j), extra a corner that is done → its part of the upper root
side_1, side_2, side_3 = (_make_side(wide) for wide in range(1, WIDEST + 1))
# (upper, i, x, out): the products of rows i… with x, of the columns beyond their own corner, to out
multiply_rest: Any = intrinsic(_make_rest)
