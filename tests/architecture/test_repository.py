"""What a stranger who clones the repository relies on: locks, typing marks, a licence, files one can read."""

import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ["use", "dev", "engines", "mutants", "wheel", "package"]
# In pieces, so that this file does not name them either.
INDEX_HOSTS = ["pypi" + ".org", "python" + "hosted.org", "pypi" + ".python.org"]


def repository_files() -> list[Path]:
    """Every file that is committed or could be: not what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def lock_entries(lock: str) -> list[str]:
    """The requirements of a lock, each with its hashes on one line."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def lock_pins(lock: str) -> set[tuple[str, str, str]]:
    """(name, version, marker) of every requirement of a lock."""
    requirements = [Requirement(entry.partition(" --hash")[0]) for entry in lock_entries(lock)]
    return {
        (requirement.name, str(requirement.specifier), str(requirement.marker))
        for requirement in requirements
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_requirement_has_a_version_and_a_hash(lock: str) -> None:
    for entry in lock_entries(lock):
        assert re.match(r"[a-z0-9][a-z0-9._-]*==\S+( ;[^#]+?)?( +--hash=sha256:[0-9a-f]{64})+$", entry), entry


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_says_where_to_download_from(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    assert not re.search(r"^-|index-url|find-links|://", text, flags=re.MULTILINE)


@pytest.mark.parametrize("lock", ["use", "package"])
def test_what_is_locked_for_users_is_locked_for_development(lock: str) -> None:
    """In the same version; the condition may differ, because another package may need it on every Python."""
    users, dev = ({(name, version) for name, version, _ in lock_pins(one)} for one in (lock, "dev"))
    assert users <= dev


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_covers_what_the_project_declares(lock: str) -> None:
    extras, groups = PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"]
    use = [*PROJECT["project"]["dependencies"], *groups["build"], *extras["models"]]
    use += [line for line in extras["web"] if not line.startswith("tamis[")]
    third_party = {
        name: [line for line in extra if not line.startswith("tamis[")] for name, extra in extras.items()
    }
    engines = third_party.pop("spark")  # 500 MB, which only tests of Spark need
    dev = [*use, *groups["dev"], *chain.from_iterable(third_party.values())]
    package = [*use, *extras["daemons"], *extras["imap"], *extras["maildir"]]
    declared = {
        "use": use,
        "dev": dev,
        "engines": engines,
        "mutants": groups["mutants"],
        "wheel": groups["wheel"],
        "package": package,
    }[lock]
    pinned: dict[str, list[str]] = {}
    for name, version, _ in lock_pins(lock):
        pinned.setdefault(canonicalize_name(name), []).append(version.removeprefix("=="))
    for requirement in map(Requirement, declared):
        versions = pinned.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement} is not in requirements/{lock}.txt; run make lock"
        assert all(requirement.specifier.contains(version) for version in versions), (
            f"{requirement}; run make lock"
        )


def test_the_mail_filter_brings_numpy_alone() -> None:
    assert [Requirement(line).name for line in PROJECT["project"]["dependencies"]] == ["numpy"]


@pytest.mark.parametrize("extra", ["plots", "testing", "docs", "bench", "web"])
def test_extras_that_use_the_models_bring_them(extra: str) -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    asked, brought = [extra], set()
    while asked:
        for requirement in map(Requirement, extras[asked.pop()]):
            if requirement.name == "tamis":
                asked += requirement.extras
            brought.add(str(requirement))
    assert {str(Requirement(line)) for line in extras["models"]} <= brought


def test_no_file_names_a_package_index() -> None:
    for path in repository_files():
        content = path.read_bytes()
        assert not [host for host in INDEX_HOSTS if host.encode() in content], path.relative_to(ROOT)


@pytest.mark.parametrize("package", ["tamis", "tamis_mail"])
def test_both_packages_say_that_they_are_typed(package: str) -> None:
    assert (ROOT / "src" / package / "py.typed").is_file()


def test_the_licence_is_the_one_declared() -> None:
    assert PROJECT["project"]["license"] == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("BSD 3-Clause License\n")


def test_the_changelog_has_a_place_for_the_next_line() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
