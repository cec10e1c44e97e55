"""Places in order, by their digits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.arrays import argsort_codes


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000), n=st.integers(0, 60), size=st.sampled_from([1, 7, 1 << 16, 70_000, 1 << 33])
)
def test_it_is_a_stable_sort(seed: int, n: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.choice(rng.integers(0, size, 5), n)
    assert argsort_codes(places, size).tolist() == np.argsort(places, kind="stable").tolist()
    given = rng.permutation(n)
    assert (
        argsort_codes(places, size, given).tolist()
        == given[np.argsort(places[given], kind="stable")].tolist()
    )


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1])
def test_the_last_place_is_the_last(size: int) -> None:
    assert argsort_codes(np.array([size - 1, 0, 1]), size).tolist() == [1, 2, 0]
