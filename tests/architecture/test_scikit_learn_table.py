"""docs/reference/scikit-learn.md says what inspecting both libraries says now."""

from pathlib import Path
from typing import Any

import pytest

from tests.tools import load_tool

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> Any:
    """tools/scikit_learn_table as a module."""
    return load_tool("scikit_learn_table")


def test_the_page_is_up_to_date(tool: Any) -> None:
    page = (ROOT / "docs" / "reference" / "scikit-learn.md").read_text(encoding="utf-8")
    assert page == tool.write_page(), "run .venv/bin/python tools/scikit_learn_table"


def test_a_name_that_differs_needs_a_reason_and_a_reason_a_difference(
    tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mixture,) = [pair for pair in tool.PAIRS if pair.theirs.__name__ == "GaussianMixture"]
    reasons = tool.REASONS["GaussianMixture"]
    for changed, message in (
        ({}, "covariance_type is absent here without a reason"),
        (reasons | {"shape": ("", "")}, "has reasons for shape, which do not differ"),
        (reasons | {"tol": ("tolerance", "")}, "said to be tolerance here, which does not exist"),
    ):
        monkeypatch.setitem(tool.REASONS, "GaussianMixture", changed)
        with pytest.raises(SystemExit, match=message):
            tool.compare_pair(mixture)
