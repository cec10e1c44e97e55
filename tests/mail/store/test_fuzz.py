"""A few of the fuzzer's cases, always the same ones (`python -m benchmarks.fuzz_stores` runs many)."""

import os

import pytest

from benchmarks.fuzz_stores import KINDS, fuzz


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case needs a child process with limits")
def test_changed_exports_dumps_and_stores_are_refused_or_sound() -> None:
    tally = fuzz(2026, iter(range(80)))
    assert tally.broken == []
    assert {kind for kind, _ in tally.outcomes} == set(KINDS)
    assert {what for _, what in tally.outcomes} == {"accepted", "refused", "damaged"}
