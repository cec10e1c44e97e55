"""Kernels are compiled once, for arrays that may be read-only, and run without the interpreter's lock."""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")

_SOURCES = Path(__file__).parent

# A writable array passes for a read-only one and not the other way: one compilation serves both.
FLOATS_1D, FLOATS = (numba.types.Array(numba.float64, k, "C", readonly=True) for k in (1, 2))
WORDS_1D, WORDS = (numba.types.Array(numba.int64, k, "C", readonly=True) for k in (1, 2))
INDICES_1D = numba.types.Array(numba.int32, 1, "C", readonly=True)
BYTES_1D, NUMBERS_1D, DIGITS_1D = (
    numba.types.Array(kind, 1, "C", readonly=True) for kind in (numba.uint8, numba.uint32, numba.uint64)
)
# Arrays that a kernel writes to.
FLOATS_OUT, WORDS_OUT = (numba.types.Array(kind, 2, "C") for kind in (numba.float64, numba.int64))
FLOATS_OUT_1D, WORDS_OUT_1D, INDICES_OUT_1D, BYTES_OUT_1D, DIGITS_OUT_1D = (
    numba.types.Array(kind, 1, "C")
    for kind in (numba.float64, numba.int64, numba.int32, numba.uint8, numba.uint64)
)
INTEGER, BOOLEAN, DIGIT = numba.int64, numba.boolean, numba.uint64


def kernel(*arguments: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function that the door calls, for arguments of these types."""

    def compile_now(function: Callable[P, R]) -> Callable[P, R]:
        return _compile(function, arguments)

    return compile_now


def kernel_for(*signatures: tuple[Any, ...]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function that the door calls, once for each of several lists of types."""

    def compile_now(function: Callable[P, R]) -> Callable[P, R]:
        return _compile(function, list(signatures))

    return compile_now


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that kernels call, for whatever types they call it with."""
    return _compile(function)


def part_unordered(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that kernels call, whose sums may be taken in any order: side by side in vectors."""
    return _compile(function, fastmath={"reassoc", "contract"})


def _compile(function: Callable[P, R], signature: Any = None, fastmath: Any = False) -> Callable[P, R]:
    # Numba's cache on disk goes by the name and file of a function, not by the functions that it calls.
    name = function.__qualname__
    function.__qualname__ = f"{name}-{digest(_SOURCES)}"
    try:
        compiled: Callable[P, R] = numba.njit(signature, cache=True, nogil=True, fastmath=fastmath)(function)
    except RuntimeError:  # no folder can be written to: every process compiles for itself
        compiled = numba.njit(signature, nogil=True, fastmath=fastmath)(function)
    finally:
        function.__qualname__ = name
    return compiled


@lru_cache(maxsize=1)
def digest(folder: Path) -> str:
    """A short digest of all sources in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
