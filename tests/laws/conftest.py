"""Laws hold for little data, whose products are summed exactly, and as much data is summed, with rounding."""

from collections.abc import Iterator

import pytest

from tamis.stats import products


@pytest.fixture(scope="module", params=["as little data", "as much data"])
def summed(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "as much data":
            patch.setattr(products, "_MAX_EXACT_VALUES", 0)
        yield
