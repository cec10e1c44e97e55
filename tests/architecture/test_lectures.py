"""docs/reference/lectures.md maps every row of the lectures to objects, tests and pictures that exist."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tamis_mail.surfaces.web.model_room import ROWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "lectures.md").read_text(encoding="utf-8")
SECTIONS = {"A": 12, "B": 8, "C": 6, "D": 5, "E": 3, "F": 5, "G": 3, "H": 4, "I": 2}  # the rows of each
PICTURES = {"C6", "F3", "H4"}  # the rows that ask for a picture


def read_rows() -> dict[str, str]:
    """The item of each row, with its objects, tests and pictures, by its identifier."""
    return dict(re.findall(r"^- \*\*([A-I]\d+)\*\*: (.*\n(?:  .*\n)+)", PAGE, flags=re.MULTILINE))


MAP = read_rows()


@cache
def list_tests(path: Path) -> frozenset[str]:
    """The names of the test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def find_object(name: str) -> Any:
    """Import the longest part of a dotted name that is a module, and look up the rest in it."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(name)


def test_every_row_is_on_the_page_once_and_in_order() -> None:
    expected = [f"{letter}{number + 1}" for letter, count in SECTIONS.items() for number in range(count)]
    assert re.findall(r"^- \*\*([A-I]\d+)\*\*: ", PAGE, flags=re.MULTILINE) == expected
    assert ROWS.keys() <= MAP.keys(), "a row that the model room shows is not on the page"


@pytest.mark.parametrize("row", MAP)
def test_objects_tests_and_pictures_of_a_row_exist(row: str) -> None:
    (objects,) = re.findall(r"^  - Objects: (.*)$", MAP[row], flags=re.MULTILINE)
    for name in re.findall(r"`([^`]+)`", objects):
        assert find_object(name) is not None
    nodes = re.findall(r"`(\S+\.py)::(\w+)`", MAP[row])
    assert nodes
    assert len(nodes) == MAP[row].count("::")
    for file, test in nodes:
        assert test in list_tests(ROOT / "tests" / file), f"{file} has no {test}"
    drawn = re.findall(r"\]\(\.\./auto_gallery/(\w+)\.rst\)", MAP[row])
    assert drawn or row not in PICTURES
    assert MAP[row].count("](") == len(drawn)
    for script in drawn:
        assert (ROOT / "docs" / "gallery" / f"{script}.py").is_file(), script
