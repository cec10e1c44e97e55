"""tools/environment makes .venv once, and whole. uv is played by a script that notes what it was asked."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FAKE_UV = """\
#!/bin/sh
echo "$*" >>asked
case "$1 $*" in
    venv*) mkdir -p .venv/bin && printf '#!/bin/sh\\n' >.venv/bin/python && chmod +x .venv/bin/python ;;
    *"$UNREACHABLE"*) exit 1 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script reads, in a folder with a space in its name, beside a folder of commands."""
    tree = tmp_path / "my checkout"
    for name in ("core", "requirements", "tools"):
        shutil.copytree(ROOT / name, tree / name)
    (tree / "src").mkdir()
    for name in ("meson.build", "meson.options", "pyproject.toml", "src/meson.build"):
        shutil.copy(ROOT / name, tree / name)
    write_command(tmp_path / "commands" / "uv", FAKE_UV)
    write_command(tmp_path / "commands" / "python3", "#!/bin/sh\necho Python 3.11.2\n")
    return tree


def write_command(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)


def set_up(checkout: Path, level: str = "use", **variables: str) -> tuple[int, str]:
    """Run the script with the fake commands first on the path; its status and what it said."""
    environment = {
        "PATH": f"{checkout.parent / 'commands'}:/usr/bin:/bin",
        "PYTHON": str(checkout.parent / "commands" / "python3"),
        "UNREACHABLE": "nothing",
        **variables,
    }
    command = [str(checkout / "tools" / "environment"), *([level] if level else [])]
    result = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert result.stdout == ""
    return result.returncode, result.stderr


def asked(checkout: Path) -> list[str]:
    """What uv was asked since last looked at, each request by its first and last word."""
    path = checkout / "asked"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [f"{line.split()[0]} … {line.split()[-1]}" for line in lines]


MAKE, USE, DEV, PROJECT = (
    "venv … .venv",
    "pip … requirements/use.txt",
    "pip … requirements/dev.txt",
    "pip … .",
)


def test_the_second_run_does_nothing(checkout: Path) -> None:
    assert set_up(checkout)[0] == 0
    assert asked(checkout) == [MAKE, USE, PROJECT]
    assert set_up(checkout) == (0, "")
    assert asked(checkout) == []


def test_everything_is_installed_by_its_hash(checkout: Path) -> None:
    set_up(checkout)
    lines = (checkout / "asked").read_text(encoding="utf-8").splitlines()
    assert "--require-hashes" in lines[1]
    assert "--no-deps --no-build-isolation --editable" in lines[2]


def test_development_is_added_to_use_and_then_covers_it(checkout: Path) -> None:
    set_up(checkout, "use")
    asked(checkout)
    assert set_up(checkout, "dev")[0] == 0
    assert asked(checkout) == [DEV]
    assert set_up(checkout, "use") == (0, "")


def test_a_changed_lock_or_project_is_installed_again(checkout: Path) -> None:
    set_up(checkout)
    asked(checkout)
    changed = ("requirements/use.txt", USE), ("pyproject.toml", PROJECT), ("core/module.cpp", PROJECT)
    for name, expected in changed:
        with (checkout / name).open("a", encoding="utf-8") as file:
            file.write("\n# changed\n")
        assert set_up(checkout)[0] == 0
        assert asked(checkout) == [expected]


@pytest.mark.parametrize("step", ["use.txt", "--editable"])
def test_what_was_interrupted_is_made_again_from_nothing(checkout: Path, step: str) -> None:
    assert set_up(checkout, UNREACHABLE=step)[0] == 1
    asked(checkout)
    assert set_up(checkout)[0] == 0
    assert asked(checkout) == [MAKE, USE, PROJECT]


def test_a_lock_left_by_a_run_that_died_is_nobodys(checkout: Path) -> None:
    died = subprocess.Popen(["true"])
    died.wait()
    (checkout / ".venv.lock").symlink_to(str(died.pid))
    assert set_up(checkout)[0] == 0
    assert not (checkout / ".venv.lock").is_symlink()


def test_two_at_once_wait_for_each_other(checkout: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert [status for status, _ in pool.map(set_up, [checkout] * 2)] == [0, 0]
    assert asked(checkout) == [MAKE, USE, PROJECT]


def test_a_moved_checkout_is_made_again(checkout: Path) -> None:
    set_up(checkout)
    asked(checkout)
    moved = checkout.rename(checkout.with_name("moved"))
    assert set_up(moved)[0] == 0
    assert asked(moved) == [MAKE, USE, PROJECT]


@pytest.mark.parametrize("level", ["", "everything"])
def test_a_senseless_argument_is_one_line(checkout: Path, level: str) -> None:
    assert set_up(checkout, level) == (1, f"tools/environment: expected 'use' or 'dev', not '{level}'\n")


def test_a_python_that_is_too_old_is_one_line(checkout: Path) -> None:
    old = checkout.parent / "python3.10"
    write_command(old, "#!/bin/sh\nexit 1\n")
    assert set_up(checkout, PYTHON=str(old)) == (
        1,
        f"tools/environment: PYTHON={old} is not Python 3.11 or later\n",
    )
    assert not (checkout / ".venv").exists()


@pytest.fixture
def few_commands(tmp_path: Path) -> str:
    """A path with what the script itself needs, and neither uv nor Python."""
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("cat", "cksum", "dirname", "find", "ln", "readlink", "rm", "sh", "sleep", "sort", "xargs"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


def test_no_python_is_one_line(checkout: Path, few_commands: str) -> None:
    status, said = set_up(checkout, PATH=few_commands, PYTHON="")
    assert status == 1
    assert said.startswith("tools/environment: no Python 3.11 or later on PATH; install one, or name it:")
    assert len(said.splitlines()) == 1


def test_a_python_that_cannot_make_an_environment_is_one_line(checkout: Path, few_commands: str) -> None:
    bare = checkout.parent / "python3.11"
    write_command(
        bare, '#!/bin/sh\ncase "$*" in *ensurepip* | *pip*) exit 1 ;; --version) echo Python 3.11.2 ;; esac\n'
    )
    status, said = set_up(checkout, PATH=few_commands, PYTHON=str(bare))
    assert status == 1
    assert said.splitlines()[-1].endswith("run: apt install python3-venv (or install uv)")


def test_a_machine_without_a_compiler_is_told_that_tamis_will_be_slower(
    checkout: Path, few_commands: str
) -> None:
    path = f"{checkout.parent / 'commands'}:{few_commands}"
    (Path(few_commands) / "mkdir").symlink_to(shutil.which("mkdir") or "mkdir")
    (Path(few_commands) / "chmod").symlink_to(shutil.which("chmod") or "chmod")
    status, said = set_up(checkout, PATH=path)
    assert status == 0
    assert "no C++ compiler" in said
    assert asked(checkout) == [MAKE, USE, PROJECT]
    assert "compiling the core" in set_up(checkout)[1]  # a compiler is there now
    assert asked(checkout) == [PROJECT]
