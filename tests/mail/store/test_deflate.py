"""Bytes that the compiled core compresses are those that zlib reads, and take as much room as zlib's own."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.compiled import core
from tests.compiled_core import needs_core

pytestmark = needs_core


def _compress(raw: bytes) -> bytes:
    assert core is not None
    packed: bytes = core.mail.compress_bytes(raw)
    return packed


@given(
    st.binary()
    | st.text("ab", max_size=400).map(str.encode)
    | st.integers(0, 255).map(lambda n: bytes([n]) * n)
)
def test_zlib_reads_what_was_compressed(raw: bytes) -> None:
    machine = zlib.decompressobj()
    assert machine.decompress(_compress(raw)) == raw
    assert machine.eof
    assert not machine.unused_data


@pytest.mark.parametrize("size", [32_767, 32_768, 32_769, 65_536, 300_000])
@pytest.mark.parametrize("ratio", [0.3, 0.6, 0.97])
def test_long_bytes_of_any_frequencies_are_read(size: int, ratio: float) -> None:
    numbers = np.random.default_rng(size).geometric(1 - ratio, size) - 1
    raw = np.minimum(numbers, 255).astype(np.uint8).tobytes()
    packed = _compress(raw)
    assert zlib.decompress(packed) == raw
    machine = zlib.compressobj(1, zlib.DEFLATED, strategy=zlib.Z_HUFFMAN_ONLY)
    assert len(packed) < 1.01 * len(machine.compress(raw) + machine.flush()) + 100


def test_codes_are_no_longer_than_allowed() -> None:
    """Frequencies that double from symbol to symbol would have codes of more than 15 bits."""
    raw = b"".join(bytes([symbol]) * (1 << symbol) for symbol in range(17)) + bytes(range(17, 60))
    assert zlib.decompress(_compress(raw)) == raw
    fibonacci = [1, 1]
    while len(fibonacci) < 24:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    raw = b"".join(bytes([symbol]) * count for symbol, count in enumerate(fibonacci))
    assert zlib.decompress(_compress(raw)) == raw
