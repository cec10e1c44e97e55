"""The command `tamis`, as a user types it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tamis
from tamis.compiled import describe
from tamis_mail.surfaces.cli import main, status

COMMAND = Path(sys.executable).with_name("tamis")


def type_in(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_the_version_is_the_installed_one() -> None:
    answer = type_in("--version")
    expected = f"tamis {tamis.__version__} ({describe()})\n"
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, expected, "")


def test_the_version_says_that_the_core_is_switched_off() -> None:
    environment = {**os.environ, "TAMIS_CORE": "off"}
    said = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True, env=environment)
    assert "no compiled core" in said.stdout


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("demo", "--frobnicate")])
def test_a_senseless_command_line_is_one_clear_line_and_status_2(arguments: tuple[str, ...]) -> None:
    answer = type_in(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert len(answer.stderr.splitlines()) == 1
    assert answer.stderr.startswith("tamis")
    assert arguments[-1:] == () or arguments[-1] in answer.stderr


def test_the_demo_runs() -> None:
    answer = type_in("demo")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    pipe = subprocess.Popen(
        [COMMAND, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert pipe.stdout is not None
    assert pipe.stderr is not None
    pipe.stdout.close()
    assert (pipe.stderr.read(), pipe.wait()) == (b"", 0)
    pipe.stderr.close()


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no /dev/full to run out of space on"
)
def test_a_full_disk_is_one_clear_line() -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [COMMAND, "demo"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (answer.returncode, answer.stderr) == (3, "tamis demo: No space left on device\n")


def test_an_error_that_nobody_foresaw_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise KeyError("a bug\nin two lines")

    monkeypatch.setattr(status, "run", fail)
    assert main(["status"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("tamis status: unexpected KeyError: ")
    assert len(said.splitlines()) == 1
    monkeypatch.setenv("TAMIS_DEBUG", "1")
    with pytest.raises(KeyError):
        main(["status"])
