"""tools/mutants tells a defect that a test notices from one that none does, and lists lines that exist."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools import load_tool

ROOT = Path(__file__).parents[2]
SOURCE = "def clip(x):\n    return x if x > 0 else 0\n"
# pytest loads toy.clips once more to find its doctests; the tests use the function of the first.
MUTANTS = {
    "boundary": SOURCE.replace("x > 0", "x >= 0"),  # the same function
    "opposite": SOURCE.replace("x > 0", "x <= 0"),
    "broken": SOURCE.replace("return", "raise"),
}
TESTS = "from toy import clip\n\ndef test_clip():\n    assert [clip(x) for x in (-2, 0, 3)] == [0, 0, 3]\n"


@pytest.fixture(scope="module")
def tool() -> Any:
    """tools/mutants as a module."""
    return load_tool("mutants")


@pytest.mark.parametrize("inside", [True, False])
def test_a_mutant_is_killed_by_a_test_that_fails_and_by_nothing_else(tmp_path: Path, inside: bool) -> None:
    for folder in ("src/toy", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n", encoding="utf-8")
    (tmp_path / "src" / "toy" / "__init__.py").write_text("from toy.clips import clip\n", encoding="utf-8")
    (tmp_path / "src" / "toy" / "clips.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "tests" / "test_toy.py").write_text(TESTS, encoding="utf-8")
    todo = [
        {"key": name, "path": "src/toy/clips.py", "line": 2, "before": "", "after": name, "source": source}
        | {"inside": inside}
        for name, source in MUTANTS.items()
    ]
    (tmp_path / "todo.json").write_text(json.dumps(todo), encoding="utf-8")
    subprocess.run(
        [sys.executable, ROOT / "tools" / "mutants", "--work", "todo.json", "results", "tests/test_toy.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": "src"},
        check=True,
    )
    lines = map(json.loads, (tmp_path / "results").read_text(encoding="utf-8").splitlines())
    found = {line["after"]: (line["outcome"], line["why"]) for line in lines}
    assert found == {
        "boundary": ("survived", ""),
        "opposite": ("killed", "tests/test_toy.py::test_clip"),
        "broken": ("killed", "tests/test_toy.py::test_clip"),
    }
    assert (tmp_path / "src" / "toy" / "clips.py").read_text(encoding="utf-8") == SOURCE


def test_modules_and_their_tests_exist(tool: Any) -> None:
    for module, tests in tool.TESTS.items():
        assert tool.find_files(module)
        for test in tests:
            path, _, name = test.removeprefix("--deselect=").partition("::")
            assert (ROOT / path).exists()
            assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_annotations_are_not_mutated(tool: Any) -> None:
    source = "def f(a: int | None = 1 | 2) -> int | str: ...\n"
    places = tool.annotation_places(source)
    inside = [any(first <= (1, c) < last for first, last in places) for c in range(len(source))]
    assert [inside[match.start()] for match in re.finditer(r"\|", source)] == [True, False, True]


def test_every_explained_mutant_is_of_a_line_that_exists() -> None:
    path = None
    for line in (ROOT / "tests" / "mutants.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"#+ `(src/\S+\.py)`", line):
            path = ROOT / heading[1]
        elif mutant := re.match(r"- `(.+?)` → `", line):
            assert path is not None
            source = " ".join(path.read_text(encoding="utf-8").split())
            assert " ".join(mutant[1].split()) in source, f"{path}: {line}"
