"""The demo does the main job on any terminal, and the old one says the lectures' numbers."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tamis_mail.sample import write
from tamis_mail.surfaces.cli import main, textbook_examples

COMMAND = Path(sys.executable).with_name("tamis")


def typed(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [COMMAND, "demo", *arguments], capture_output=True, check=False, env={**os.environ, **variables}
    )


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, encoding: str) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    textbook_examples.show(out)
    out.flush()
    return raw.getvalue().decode(encoding)


def test_it_learns_sorts_explains_and_forgets(tmp_path: Path) -> None:
    answer = typed(COLUMNS="80", PYTHONIOENCODING="utf-8", TMPDIR=str(tmp_path), HOME=str(tmp_path))
    text = answer.stdout.decode()
    assert (answer.returncode, answer.stderr) == (0, b"")
    for said in (
        "1. Learn ",
        "2. Sort ",
        "Accuracy 9",
        "3. Explain",
        "log-odds of spam",
        "4. Learn one more",
    ):
        assert said in text
    assert "all are as before, to the bit" in text
    assert ": 0 of " not in text  # something moved before it was forgotten
    assert "tamis learn --spam JUNK --ham INBOX" in text
    assert list(tmp_path.iterdir()) == []  # neither a store nor a mailbox is left


@pytest.mark.parametrize("columns", [40, 70])
def test_it_fits_a_narrow_terminal_of_a_plain_machine(columns: int) -> None:
    answer = typed(COLUMNS=str(columns), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (answer.returncode, answer.stderr) == (0, b"")
    text = answer.stdout.decode("ascii")
    assert max(map(len, text.splitlines())) <= columns
    assert "\x1b" not in text


def test_it_shows_ones_own_mail_and_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "mail")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "mail").rglob("*")}
    answer = typed("--mailbox", str(tmp_path / "mail"), COLUMNS="80", HOME=str(tmp_path))
    assert answer.returncode == 0
    assert b"all are as before, to the bit" in answer.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "mail").rglob("*")} == before
    assert [path.name for path in tmp_path.iterdir()] == ["mail"]


def test_too_little_mail_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("spam", "ham"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.eml").write_bytes(b"Subject: " + folder.encode() + b"\n\nonly one")
    assert main(["demo", "--mailbox", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "1 spam and 1 ham, expected at least 5 of each" in said


def test_the_statistics_are_still_there() -> None:
    answer = typed("--statistics", PYTHONIOENCODING="utf-8")
    assert answer.returncode == 0
    assert b"China, with probability 0.69." in answer.stdout


def test_the_china_example_comes_out_as_in_the_lecture(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 80, "utf-8")
    # 3/7, 1/14 and 1/14 given China; 2/9 each given not China; joint 0.0003 against 0.0001
    assert "P(Chinese) 0.429, P(Tokyo) 0.071, P(Japan) 0.071" in text
    assert "P(Chinese) 0.222, P(Tokyo) 0.222, P(Japan) 0.222" in text
    assert text.index("joint probability 0.0003") < text.index("joint probability 0.0001")
    assert "China, with probability 0.69." in text


def test_the_coin_comes_out_as_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 80, "utf-8")
    assert "Beta(57, 47). Its mean is 0.548" in text
    assert "the same, to the bit" in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_the_statistics_fit_a_narrow_terminal_without_colours_in_any_encoding(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    text = shown(monkeypatch, 40, encoding)
    assert max(map(len, text.splitlines())) <= 80  # only the curve is drawn to the terminal's width
    curve = next(line for line in text.splitlines() if "█" in line or "@" in line)
    assert len(curve) <= 40
    assert "\x1b" not in text
