"""What a release is made of agrees: versions, licences, the bill of materials, the audit, Debian's files."""

import re
import sys
import tomllib
from datetime import date
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def load(name: str) -> Any:
    """A program of tools/ as a module."""
    loader = SourceFileLoader(f"{name}_tool", str(ROOT / "tools" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


AUDIT, RELEASE, SBOM = load("audit"), load("release"), load("sbom")


def read_texts() -> dict[str, str]:
    """The files that a release changes, with a line in the changelog: right after a release it has none."""
    names = ["pyproject.toml", "CHANGELOG.md", "CITATION.cff", *RELEASE.EXAMPLES]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    log = texts["CHANGELOG.md"].replace(RELEASE.UNRELEASED, f"{RELEASE.UNRELEASED}\n- A new line.\n", 1)
    return {**texts, "CHANGELOG.md": log}


# ── the version ──


def test_the_citation_has_the_version_of_the_project() -> None:
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_a_release_writes_its_version_everywhere_and_loses_no_line_of_the_changelog() -> None:
    before = read_texts()
    after = RELEASE.write_version(before, "99.1.0", date(2030, 5, 6))
    assert tomllib.loads(after["pyproject.toml"])["project"]["version"] == "99.1.0"
    assert "## [Unreleased]\n\n## [99.1.0] - 2030-05-06\n" in after["CHANGELOG.md"]
    heading = "## [99.1.0] - 2030-05-06\n"
    assert after["CHANGELOG.md"].replace(f"\n{heading}", "", 1) == before["CHANGELOG.md"]
    assert after["CITATION.cff"].endswith("\nversion: 99.1.0\ndate-released: 2030-05-06\n")
    for name in RELEASE.EXAMPLES:
        assert "version=99.1.0" in after[name]
        assert f"version={VERSION}" not in after[name]


@pytest.mark.parametrize(
    ("version", "log", "message"),
    [
        (VERSION, None, "is not later than"),
        ("0.0.1", None, "is not later than"),
        ("99.0", "## [Unreleased]\n\n## [0.9.0] - 2026-01-01\n", "nothing under .Unreleased."),
    ],
)
def test_a_release_that_makes_no_sense_is_refused(version: str, log: str | None, message: str) -> None:
    texts = read_texts()
    with pytest.raises(ValueError, match=message):
        RELEASE.write_version(
            {**texts, "CHANGELOG.md": log or texts["CHANGELOG.md"]}, version, date(2030, 1, 1)
        )


# ── dependencies ──


@pytest.mark.skipif(sys.platform != "linux", reason="some packages of the lock are installed on Linux alone")
def test_the_page_of_licences_is_up_to_date() -> None:
    assert SBOM.PAGE.read_text(encoding="utf-8") == SBOM.make_page(), "run make sbom"


def test_every_package_of_the_lock_states_its_licence() -> None:
    assert not [name for name, _, _ in SBOM.read_lock(SBOM.LOCK) if SBOM.find_licence(name) == "not stated"]


def test_the_runtime_has_numpy_and_no_build_tool() -> None:
    runtime = SBOM.find_runtime()
    assert {"numpy", "imapclient", "starlette", "cryptography"} <= runtime
    build = {"meson", "meson-python", "nanobind", "ninja", "packaging", "pyproject-metadata"}
    assert {name for name, _, _ in SBOM.read_lock(SBOM.LOCK)} - runtime == build


ADVISORY = {
    "id": "OSV-1",
    "summary": "a defect",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Some_Package"},
            "versions": ["0.5"],
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "1.0"}, {"fixed": "1.10"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "3.0"}, {"last_affected": "3.2"}]},
            ],
        }
    ],
}


@pytest.mark.parametrize(
    ("version", "is_vulnerable"),
    [
        ("0.4", False),
        ("0.5", True),
        ("0.9", False),
        ("1.0", True),
        ("1.9.1", True),
        ("1.10", False),
        ("3.2", True),
        ("3.3", False),
    ],
)
def test_an_advisory_applies_from_its_introduction_to_its_fix(version: str, is_vulnerable: bool) -> None:
    lines = AUDIT.find_vulnerable([{"name": "some-package", "version": version}], iter([ADVISORY]))
    assert lines == ([f"some-package {version}: OSV-1 a defect"] if is_vulnerable else [])


def test_a_package_without_a_hash_or_a_licence_is_a_problem() -> None:
    licence = [{"license": {"name": "MIT"}}]
    sound = {"name": "a", "properties": [{"name": "sha256", "value": "0"}], "licenses": licence}
    assert AUDIT.find_unsound([sound]) == []
    assert AUDIT.find_unsound([{**sound, "properties": []}]) == ["a: no hash"]
    unknown = {**sound, "licenses": [{"license": {"name": "not stated"}}]}
    assert AUDIT.find_unsound([unknown]) == ["a: no licence is stated"]


# ── Debian ──


def test_the_units_that_the_package_installs_exist_and_name_the_program_that_it_replaces() -> None:
    rules = (ROOT / "packaging/debian/rules").read_text(encoding="utf-8")
    units = set(re.findall(r"tamis-[a-z]+@?\.service", rules))
    assert units == {path.name for path in (ROOT / "contrib/systemd").iterdir()}
    for unit in units:
        text = (ROOT / "contrib/systemd" / unit).read_text(encoding="utf-8")
        assert re.search(r"^ExecStart=(/usr/local/bin|%h/\.local/bin)/tamis ", text, re.MULTILINE), unit
