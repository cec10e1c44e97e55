"""The pictures of the README show what the program prints, and are small."""

from pathlib import Path
from typing import Any

import pytest

from tests.tools import load_tool

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def tool() -> Any:
    """tools/pictures as a module."""
    return load_tool("pictures")


def test_the_terminal_shows_what_the_demo_prints(tool: Any) -> None:
    drawing = (PICTURES / "terminal.svg").read_text(encoding="utf-8")
    lines = tool.read_demo()
    assert drawing == tool.draw_terminal(lines), "run .venv/bin/python tools/pictures"
    assert tool.read_terminal(drawing) == [line for line in lines if line]


def test_the_pictures_of_the_page_are_small() -> None:
    for name in ("page", "message"):
        picture = (PICTURES / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) <= 150_000
