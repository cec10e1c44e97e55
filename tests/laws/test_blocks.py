"""Every law of blocks, over every block that a family has of its own."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.testing import blocks as laws
from tamis.testing.blocks import ESTIMATES, FASTER_BLOCKS, BlockCase


@pytest.mark.parametrize("shared", [False, True], ids=["labels", "responsibilities"])
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("case", FASTER_BLOCKS, ids=lambda case: case.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_faster_block_is_the_block_of_any_family(
    case: BlockCase, estimate: str, shared: bool, data: Any
) -> None:
    alpha = data.draw(st.sampled_from([1.0, 2.5, 40.0] if estimate == "map" else [0.3, 1.0, 2.5, 40.0]))
    laws.a_faster_block_is_the_block_of_any_family(case, data.draw(case.columns), estimate, alpha, shared)
