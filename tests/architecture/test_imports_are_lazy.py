"""Importing a package loads nothing heavy; using a name loads what that name needs."""

import json
import subprocess
import sys

import pytest

import tamis

HEAVY = {"matplotlib", "narwhals", "numba", "pandas", "polars", "pyarrow", "scipy", "sklearn"}


def loaded_after(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter that has run one statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(result.stdout)}


@pytest.mark.parametrize("package", ["tamis", "tamis_mail", "tamis_mail.surfaces.cli"])
def test_importing_a_package_loads_nothing_heavy(package: str) -> None:
    assert loaded_after(f"import {package}") & HEAVY == set()


@pytest.mark.parametrize("name", tamis.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(tamis, name) is not None
    assert name in dir(tamis)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tamis' has no attribute 'Betta'"):
        getattr(tamis, "Betta")  # noqa: B009 (a type checker knows that it is not there)
