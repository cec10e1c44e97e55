"""Importing a package loads nothing heavy; using a name loads what that name needs."""

import gc
import json
import subprocess
import sys

import pytest

import tamis
from tamis.extras import MissingPackageError, import_package

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


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("module", ["colorsys", "sklearn.there_is_no_such_module"])
def test_an_import_leaves_the_garbage_collector_as_it_was(
    enabled: bool, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        try:
            import_package(module, "a test")
        except (MissingPackageError, ModuleNotFoundError):
            assert module != "colorsys"
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count() == 0
    finally:
        (gc.enable if before else gc.disable)()


def test_an_import_unfreezes_nothing_that_the_program_froze(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        import_package("colorsys", "a test")
        assert gc.isenabled()
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()


def test_a_package_that_is_loaded_costs_no_count_of_frozen_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise AssertionError("all frozen objects were counted")

    monkeypatch.setattr(gc, "get_freeze_count", refuse)
    assert import_package("json", "a test") is json
