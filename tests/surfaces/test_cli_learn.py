"""`tamis learn`, `relabel`, `forget` and `status`: what is typed, what is said, what is remembered."""

import json
import os
import pty
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tamis_mail.sieve import LabelledMail, Sieve
from tamis_mail.store import Store
from tamis_mail.surfaces.cli.sources import format_bar
from tests.surfaces.terminal import COMMAND, HAM, NEW_HAM, NEW_SPAM, SPAM, Type, spawn, write_mail


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deep" / "mail.tamis"
    monkeypatch.setenv("TAMIS_STORE", str(path))
    return path


def messages(path: Path) -> dict[str, int]:
    with Store(path, create=False, readonly=True) as store:
        return {label.name: label.messages for label in store.labels() if label.messages}


def test_each_source_is_a_line(typed: Type, tmp_path: Path, store: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")
    answer = typed("learn", "--spam", spam, "--ham", ham)
    assert (answer.status, answer.err) == (0, "")
    assert answer.text.splitlines() == [
        f"{spam}: 12 learned, 0 moved, 0 known (spam)",
        f"{ham}: 12 learned, 0 moved, 0 known (ham)",
    ]
    again = typed("learn", "--spam", spam)
    assert (again.status, again.text) == (0, f"{spam}: 0 learned, 0 moved, 12 known (spam)\n")
    moved = typed("relabel", "ham", spam / "00.eml")
    assert (moved.status, moved.text) == (0, f"{spam / '00.eml'}: 0 learned, 1 moved, 0 known (ham)\n")
    assert messages(store) == {"spam": 11, "ham": 13}
    forgotten = typed("forget", spam)
    assert (forgotten.status, forgotten.text) == (0, f"{spam}: 12 forgotten, 0 unknown\n")
    assert typed("forget", spam).text == f"{spam}: 0 forgotten, 12 unknown\n"
    assert messages(store) == {"ham": 12}


@pytest.mark.parametrize(
    "words", [["--spam"], ["--spam", "-"], ["--label", "spam"], ["--label", "spam", "-"]]
)
def test_one_message_comes_from_standard_input(typed: Type, store: Path, words: list[str]) -> None:
    answer = typed("learn", *words, stdin=NEW_SPAM)
    assert (answer.status, answer.text) == (0, "stdin: 1 learned, 0 moved, 0 known (spam)\n")
    assert typed("relabel", "work", stdin=NEW_SPAM).text == "stdin: 0 learned, 1 moved, 0 known (work)\n"
    assert messages(store) == {"work": 1}
    assert typed("forget", stdin=NEW_SPAM).text == "stdin: 1 forgotten, 0 unknown\n"


def test_a_message_with_an_mbox_line_is_one_message_unless_it_is_said_otherwise(
    typed: Type, tmp_path: Path
) -> None:
    _, ham = write_mail(tmp_path / "mail")
    assert "1 learned" in typed("learn", "--ham", stdin=ham.read_bytes()).text
    assert "12 learned" in typed("learn", "--mbox", "--ham", "-", stdin=ham.read_bytes()).text


def test_labels_of_ones_own(typed: Type, tmp_path: Path, store: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")
    assert (
        typed("learn", "--spam", spam, "--label", "work", ham, "--label", "büro", "-", stdin=NEW_HAM).status
        == 0
    )
    assert messages(store) == {"spam": 12, "work": 12, "büro": 1}
    status = typed("status")
    assert "büro      1 message\n" in status.text
    assert typed("sort", "--json", stdin=HAM[0]).status == 1
    assert typed("learn", "--label", "unsure", ham).status == 3


def test_unlabelled_mail_is_guessed(typed: Type, tmp_path: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")
    typed("learn", "--spam", *sorted(spam.iterdir())[:6], "--ham", ham)
    answer = typed("learn", "--unlabelled", spam)
    assert (answer.status, answer.err) == (0, "")
    assert "(unlabelled)" in answer.text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "--spam, --ham or --label NAME"),
        (["mail", "--spam"], "mail was given without a label, and other mail with one"),
        (["--spam", "--ham"], "standard input is used twice"),
        (["--label"], "expected at least one argument"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_status_2(
    typed: Type, words: list[str], expected: str, store: Path
) -> None:
    answer = typed("learn", *words, stdin=NEW_SPAM)
    assert (answer.status, answer.out) == (2, b"")
    assert expected in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not store.exists()


def test_a_misspelt_path_is_told_before_anything_is_learned(typed: Type, tmp_path: Path, store: Path) -> None:
    spam, _ = write_mail(tmp_path / "mail")
    answer = typed("learn", "--spam", spam, tmp_path / "mail" / "inbox.mbax")
    assert (answer.status, answer.out) == (3, b"")
    assert answer.err.startswith("tamis learn: ")
    assert "did you mean" in answer.err
    assert not store.exists()


def test_quiet_says_nothing(typed: Type, tmp_path: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")
    for words in (["learn", "--spam", spam, "--ham", ham], ["relabel", "ham", spam], ["forget", spam]):
        answer = typed(*words, "--quiet")
        assert (answer.status, answer.out, answer.err) == (0, b"", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_learned(typed: Type, tmp_path: Path) -> None:
    spam, _ = write_mail(tmp_path / "mail")
    (spam / "00.eml").chmod(0)
    answer = typed("learn", "--spam", spam)
    assert answer.status == 3
    assert "11 learned" in answer.text
    assert "00.eml could not be read" in answer.err


def test_status_without_a_store_says_how_to_begin(typed: Type) -> None:
    answer = typed("status")
    assert (answer.status, answer.err) == (0, "")
    assert "tamis learn --spam" in answer.text
    assert json.loads(typed("status", "--json").text) == {"store": None, "messages": 0, "labels": {}}


def test_status_says_what_was_learned(typed: Type, tmp_path: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")
    typed("learn", "--spam", spam)
    assert (
        "every message is unsure until spam and ham are learned: tamis learn --ham PATH"
        in typed("status").text
    )
    typed("learn", "--ham", ham)
    answer = typed("status")
    assert answer.status == 0
    for line in ("spam      12 messages", "ham       12 messages", f"{spam}: 12", "learned   last on 2"):
        assert line in answer.text
    found = json.loads(typed("status", "--json").text)
    assert found["messages"] == 24
    assert found["sources"] == {str(spam): 12, str(ham): 12}


def test_ctrl_c_says_what_is_done(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spam, ham = write_mail(tmp_path / "mail")

    def stopped(self: Sieve, sources: Sequence[LabelledMail]) -> Iterator[Counter[str]]:
        yield Counter(learned=8000)
        assert sources[1].label == "ham"
        assert sources[1].progress is not None
        sources[1].progress(4000)
        raise KeyboardInterrupt

    monkeypatch.setattr(Sieve, "learn_sources", stopped)
    answer = typed("learn", "--spam", spam, "--ham", ham)
    assert answer.status == 130
    assert answer.err == "tamis learn: interrupted; learned so far: 12,000; run again to go on\n"


def test_ctrl_c_leaves_a_sound_store(store: Path) -> None:
    raw = b"".join(
        b"From me Mon Jan  5 10:00:00 2026\nSubject: note %d\n\n" % number
        + b"some words of note %d\n" % number * 60
        + b"\n"
        for number in range(13_000)
    )
    process = subprocess.Popen(
        [COMMAND, "learn", "--mbox", "--ham", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(raw)
    process.stdin.flush()
    while process.poll() is None:  # the process cannot end: its input stays open
        if store.exists() and store.stat().st_size and messages(store).get("ham"):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert err == b"tamis learn: interrupted; learned so far: 10,000; run again to go on\n"
    assert messages(store) == {"ham": 10_000}
    assert spawn("store", "check").status == 0


def test_two_learn_at_once(tmp_path: Path, store: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")
    both = [
        subprocess.Popen([COMMAND, "learn", option, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for option, path in (("--spam", spam), ("--ham", ham))
    ]
    answers = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert messages(store) == {"spam": len(SPAM), "ham": len(HAM)}


def test_the_bar_says_how_far_how_fast_how_long() -> None:
    assert format_bar("learn", 0, 0.0, 0.0) == "learn [                    ]   0 %  0 messages"
    assert (
        format_bar("sort", 500, 2.0, 2.0)
        == "sort [####################] 100 %  500 messages, 250/s, 0:00 left"
    )


def test_a_terminal_sees_a_bar_that_goes_away(tmp_path: Path) -> None:
    spam, _ = write_mail(tmp_path / "mail")
    master, slave = pty.openpty()
    result = subprocess.run(
        [COMMAND, "learn", "--spam", spam], stdout=subprocess.PIPE, stderr=slave, check=False
    )
    os.close(slave)
    drawn = b""
    with suppress(OSError):  # Linux reports the end of a terminal's output as an error
        while block := os.read(master, 100_000):
            drawn += block
    os.close(master)
    assert result.returncode == 0
    assert b"messages" in drawn
    assert b" %" in drawn
    assert drawn.endswith(b"\r\x1b[K")


def test_mail_cannot_have_two_labels_at_once(typed: Type, tmp_path: Path) -> None:
    spam, ham = write_mail(tmp_path / "mail")
    other = spam.rename(spam.with_name("other"))
    for outer in (other, other.parent):
        answer = typed("learn", "--spam", other, "--ham", outer)
        assert answer.status == 3
        assert "one lies within the other" in answer.err
    assert typed("learn", "--spam", other, "--ham", ham).status == 0


def test_a_folder_whose_name_says_spam_may_be_learned_beside_the_tree_it_lies_in(
    typed: Type, tmp_path: Path
) -> None:
    spam, _ = write_mail(tmp_path / "mail")
    answer = typed("learn", "--spam", spam, "--ham", spam.parent)
    assert answer.status == 0
    assert answer.text.splitlines() == [
        f"{spam}: 12 learned, 0 moved, 0 known (spam)",
        f"{spam.parent}: 12 learned, 0 moved, 0 known (ham)",
    ]
