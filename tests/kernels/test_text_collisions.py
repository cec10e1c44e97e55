"""Words that were chosen to fall into one place of a table of tokens are found in few steps all the same."""

import subprocess
import sys

import numpy as np

from tamis._kernels import text as kernels
from tamis._kernels.text.kinds import UInt64s
from tamis.compiled import core
from tamis.text import TokenCounts
from tests.compiled_core import needs_core

KNOWN = 0x9E3779B97F4A7C15  # a multiplier that everybody knows


def colliding_words(bits: int) -> list[bytes]:
    """Words whose keys a table of 2**bits places, with the known multiplier, puts into 64 of them."""
    letters = b"abcdefghijklmnopqrstuvwxyz"
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 26, size=(4_000_000, 7))
    places = np.frombuffer(letters, dtype=np.uint8)[drawn].astype(np.uint64) << (
        8 * np.arange(7, dtype=np.uint64)
    )
    keys = np.bitwise_or.reduce(places, axis=1) | np.uint64(7 << 56)
    chosen = drawn[keys * np.uint64(KNOWN) >> np.uint64(64 - bits) < 64]
    return sorted({bytes(letters[c] for c in row) for row in chosen.tolist()})


def probes(keys: UInt64s, bits: int, seed: int) -> float:
    """In how many places a key is looked for, on average, in the table that kernels make."""
    assert core is not None
    table = np.zeros(2 << bits, dtype=np.uint64)
    core.text.index_keys(keys, seed, table)
    at = np.flatnonzero(table[1::2])
    first = (table[::2][at] * np.uint64(seed) >> np.uint64(64 - bits)).astype(np.int64)
    assert len(at) == len(keys)
    return float(1 + ((at - first) % (1 << bits)).mean())


@needs_core
def test_tokens_made_to_collide_are_found_in_few_steps() -> None:
    """Counted, not timed. With a multiplier that their writer knew, steps would grow with the words."""
    words, bits = colliding_words(17), 17
    assert len(words) > 1000
    lengths = np.full(len(words), 7)
    text = np.frombuffer(b" ".join(words) + bytes(64), dtype=np.uint8)
    keys = kernels.make_keys(text, np.arange(len(words)) * 8, lengths)
    assert probes(keys, bits, KNOWN) > len(words) / 4
    for seed in np.random.default_rng(1).integers(1 << 60, 1 << 63, 20).tolist():
        assert probes(keys, bits, seed | 1) < 3
    assert TokenCounts().fit_transform([b" ".join(words)] * 3).sum() == 3 * len(words)


def test_no_writer_can_know_the_multiplier() -> None:
    code = "from tamis._kernels.text.kinds import SEED; print(SEED)"
    found = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(3)}
    assert len(found) == 3
    assert all(int(seed) % 2 for seed in found)  # an even one would forget bits
