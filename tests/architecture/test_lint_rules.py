"""The lint rules that hold the house style would be missed: a planted violation of each fails."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def broken_rules(tmp_path: Path, name: str, lines: str) -> list[str]:
    """Codes of the rules that a file with these lines breaks, under this project's settings."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    (file.parent / "__init__.py").touch()
    file.write_text(lines, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=json", "."]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stderr
    return [violation["code"] for violation in json.loads(result.stdout)]


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ("PLC0415", "def load() -> object:\n    import scipy\n\n    return scipy\n"),
        ("PLC2701", "from numpy._core import multiarray\n\n__all__ = ['multiarray']\n"),
        ("SLF001", "def read(model: type) -> object:\n    return model._items\n"),
        ("T201", "print('done')\n"),
        ("T203", "from pprint import pprint\n\npprint('done')\n"),
        ("TID252", "from . import arrays\n\n__all__ = ['arrays']\n"),
    ],
)
def test_a_planted_violation_fails(tmp_path: Path, rule: str, lines: str) -> None:
    assert broken_rules(tmp_path, "src/tamis/planted.py", lines) == [rule]


@pytest.mark.parametrize(
    ("name", "is_bad"),
    [
        ("found", True),
        ("_weighed", True),
        ("without_rows", True),
        ("fit_mode", False),
        ("with_rows", False),
        ("is_empty", False),
    ],
)
def test_a_planted_name_that_is_no_verb_fails(tmp_path: Path, name: str, is_bad: bool) -> None:
    (tmp_path / "planted.py").write_text(f"def {name}() -> None: ...\n", encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "plain_names"), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == is_bad, result.stdout + result.stderr
    assert (f"planted.py:1: {name}" in result.stdout) == is_bad


@pytest.mark.parametrize(
    "name", ["src/tamis/planted.py", "tests/kernels/test_planted.py", "benchmarks/cases/kernel_planted.py"]
)
def test_what_obeys_passes(tmp_path: Path, name: str) -> None:
    lines = "from tamis._kernels import reference\n\n__all__ = ['reference']\n"
    assert broken_rules(tmp_path, name, lines) == []


def test_programs_without_a_suffix_are_linted_too() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--show-files", "tools"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    programs = [path for path in (ROOT / "tools").iterdir() if path.is_file()]
    python = {path for path in programs if b"python" in path.read_bytes().partition(b"\n")[0]}
    assert python
    assert python <= {Path(path) for path in listed}
