"""Instructions for compiled code: read eight bytes at any offset, find the lowest bit of a word."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

U = np.uint64
ONE = U(1)
SEVENS = U(0x7F7F7F7F7F7F7F7F)
HIGHS = U(0x8080808080808080)


def _eight(context: Any, text: Any, place: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_address(context, builder, signature, arguments))
        value.align = 1
        return value

    return types.uint64(text, types.int64), code


def _store(context: Any, text: Any, place: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _address(context, builder, signature, arguments)).align = 1
        return context.get_dummy_value()

    return types.void(text, types.int64, types.uint64), code


def _lowest(context: Any, bits: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array: Any = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])  # type: ignore[no-untyped-call]
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())


eight: Any = intrinsic(_eight)  # (text, place): read eight bytes, little-endian and not aligned
store: Any = intrinsic(_store)  # (text, place, value): write them
lowest: Any = intrinsic(_lowest)  # (bits): the index of the lowest bit that is set
