"""Each import contract is kept, and would be missed: a violation planted in a copy of the tree breaks it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]

# contract → violations, each a set of files under src/ and the lines to add to them
PLANTED: dict[str, list[dict[str, str]]] = {
    "The science is layered": [
        {"tamis/stats/__init__.py": "import tamis.conjugate"},
        {"tamis/linalg.py": "import tamis.protocols"},
        {"tamis/arrays.py": "import tamis"},
        {"tamis/stray.py": ""},
    ],
    "The application is layered": [
        {"tamis_mail/message.py": "import tamis_mail.tokens", "tamis_mail/tokens.py": ""},
        {"tamis_mail/stray.py": ""},
    ],
    "The science does not know the application": [
        {"tamis/stats/__init__.py": "import tamis_mail"},
        {"tamis/conjugate/__init__.py": "from tamis_mail.surfaces import cli"},
    ],
    "Surfaces are strangers to each other": [
        {"tamis_mail/surfaces/stranger.py": "import tamis_mail.surfaces.cli"},
    ],
    "Kernels have one door": [
        {"tamis/stats/__init__.py": "import tamis._kernels.compiled"},
        {"tamis/families/__init__.py": "from tamis._kernels import reference"},
    ],
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(tree: Path) -> tuple[int, str]:
    """Run import-linter on a copy of the tree, which comes before the installed one on the path."""
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as main; main()",
            "--no-cache",
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


def test_the_tree_keeps_every_contract(tree: Path) -> None:
    status, report = lint(tree)
    assert status == 0, report
    assert re.search(rf"{len(PLANTED)} kept, 0 broken", report), report


@pytest.mark.parametrize(
    ("contract", "files"),
    [
        pytest.param(contract, files, id=f"{contract}-{number}".replace(" ", "_"))
        for contract, violations in PLANTED.items()
        for number, files in enumerate(violations)
    ],
)
def test_a_planted_violation_breaks_its_contract(tree: Path, contract: str, files: dict[str, str]) -> None:
    for name, lines in files.items():
        with (tree / "src" / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{lines}\n")
    status, report = lint(tree)
    assert status == 1, report
    assert f"{contract} BROKEN" in report


def test_every_contract_has_a_planted_violation() -> None:
    assert [contract["name"] for contract in CONTRACTS["contracts"]] == list(PLANTED)


def test_contracts_are_exhaustive_and_ignore_nothing() -> None:
    for contract in CONTRACTS["contracts"]:
        assert not {"ignore_imports", "exhaustive_ignores"} & contract.keys(), contract["name"]
        assert contract["type"] != "layers" or contract["exhaustive"] is True, contract["name"]
