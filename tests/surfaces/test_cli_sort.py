"""`tamis sort`: the statuses, the lines, and mail that is never lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tamis
from tamis_mail.surfaces.cli.version import version
from tamis_mail.verdict import header_fields
from tests.surfaces.terminal import COMMAND, NEW_HAM, NEW_SPAM, SPAM, Type, spawn, write_mail


@pytest.fixture
def store(tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> Path:
    spam, ham = write_mail(tmp_path / "mail")
    path = tmp_path / "mail.tamis"
    monkeypatch.setenv("TAMIS_STORE", str(path))
    assert typed("learn", "--spam", spam, "--ham", ham).status == 0
    return path


@pytest.mark.parametrize(("raw", "label", "status"), [(NEW_SPAM, "spam", 0), (NEW_HAM, "ham", 1)])
@pytest.mark.usefixtures("store")
def test_the_status_is_the_verdict(raw: bytes, label: str, status: int) -> None:
    answer = spawn("sort", stdin=raw)
    assert (answer.status, answer.err) == (status, "")
    said, probability = answer.text.split()
    assert said == label
    assert 0 <= float(probability) <= 1
    assert spawn("sort", "--exit-zero", stdin=raw).status == 0


def test_who_knows_one_kind_of_mail_is_unsure_of_all(typed: Type, tmp_path: Path) -> None:
    path = tmp_path / "half.tamis"
    assert typed("learn", "--spam", "--store", path, stdin=SPAM[0]).status == 0
    answer = spawn("sort", "--store", path, stdin=NEW_SPAM)
    assert (answer.status, answer.text, answer.err) == (2, "unsure 0.5000\n", "")


def test_a_store_that_is_not_there_leaves_all_unsure(tmp_path: Path) -> None:
    answer = spawn("sort", "--store", tmp_path / "none.tamis", stdin=NEW_SPAM)
    assert (answer.status, answer.text) == (2, "unsure 0.5000\n")
    assert answer.err.startswith("tamis sort: nothing has been learned yet")
    assert len(answer.err.splitlines()) == 1
    assert not (tmp_path / "none.tamis").exists()
    passed = spawn("sort", "-p", "--quiet", "--store", tmp_path / "none.tamis", stdin=NEW_SPAM)
    assert (passed.status, passed.err) == (2, "")
    assert header_fields.remove_verdict(passed.out) == NEW_SPAM


@pytest.mark.parametrize(
    "words",
    [
        ["--frobnicate"],
        ["--dialect", "klingon"],
        ["-p", "--json"],
        ["--undo", "-p"],
        ["-p", "mail"],
        ["/no/such/mail"],
    ],
)
def test_every_error_is_status_3_and_one_line(words: list[str]) -> None:
    answer = spawn("sort", *words, stdin=NEW_SPAM)
    is_filter = "-p" in words  # whose message comes out in any case
    assert (answer.status, answer.out) == (3, NEW_SPAM if is_filter else b"")
    assert answer.err.startswith("tamis sort: ")
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("damage", [b"no store", b"SQLite format 3\0" + b"\xff" * 5000])
@pytest.mark.parametrize("raw", [b"", NEW_SPAM, b"\r\n\0\xff no newline"])
def test_mail_passes_through_whatever_is_wrong(tmp_path: Path, damage: bytes, raw: bytes) -> None:
    path = tmp_path / "broken.tamis"
    path.write_bytes(damage)
    answer = spawn("sort", "-p", "--store", path, stdin=raw)
    assert (answer.status, answer.out) == (3, raw)
    assert answer.err.startswith("tamis sort: ")
    assert len(answer.err.splitlines()) == 1
    assert spawn("sort", "-p", "-e", "--store", path, stdin=raw).status == 3


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), MemoryError(), KeyboardInterrupt(), RecursionError("deep")]
)
def test_mail_passes_through_a_bug(
    typed: Type, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(header_fields, "add_verdict", fail)
    answer = typed("sort", "-p", stdin=NEW_SPAM)
    assert (answer.status, answer.out) == (3, NEW_SPAM)
    assert len(answer.err.splitlines()) == 1


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "raw",
    [
        NEW_SPAM,
        NEW_SPAM.replace(b"\n", b"\r\n"),
        b"",
        b"no newline",
        b"\0\xff\r",
        b"a: b\n\n" + b"x" * 300_000,
    ],
)
@pytest.mark.parametrize("dialect", header_fields.DIALECTS)
def test_what_passes_through_can_be_undone(typed: Type, raw: bytes, dialect: str) -> None:
    passed = typed("sort", "-p", "-e", "--dialect", dialect, stdin=raw)
    assert (passed.status, passed.err) == (0, "")
    undone = typed("sort", "--undo", stdin=passed.out)
    assert (undone.status, undone.out) == (0, raw)


@pytest.mark.usefixtures("store")
def test_real_bytes_pass_a_real_pipe() -> None:
    raw = NEW_SPAM.replace(b"\n", b"\r\n") + bytes(range(256)) * 50
    passed = spawn("sort", "-p", stdin=raw)
    assert passed.status == 2  # the bytes that follow make it unsure
    assert passed.out.startswith(b"X-Spam-Level:\r\n")
    assert passed.out.endswith(raw)
    assert b"X-Spam-Evidence: '" in passed.out


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_is_closed_is_no_reason_to_spoil_mail(tmp_path: Path, closed: int) -> None:
    message = tmp_path / "message"
    message.write_bytes(NEW_SPAM)
    line = f"exec {closed}>&-; exec '{COMMAND}' sort -p -e"
    with message.open("rb") as stdin:
        result = subprocess.run(["sh", "-c", line], stdin=stdin, capture_output=True, check=False)
    assert result.returncode == (3 if closed == 1 else 0)
    assert header_fields.remove_verdict(result.stdout) == (NEW_SPAM if closed == 2 else b"")
    assert len(result.stderr.splitlines()) == (closed == 1)


@pytest.mark.usefixtures("store")
def test_bogofilters_dialect(typed: Type) -> None:
    answer = typed("sort", "--dialect", "bogofilter", stdin=NEW_SPAM)
    assert answer.status == 0
    assert answer.text.startswith("X-Bogosity: Spam, tests=bogofilter, spamicity=0.")
    assert typed("sort", "-p", "--dialect", "bogofilter", stdin=NEW_SPAM).out == answer.out + NEW_SPAM


@pytest.mark.usefixtures("store")
def test_mailboxes_are_a_line_for_each_message(typed: Type, tmp_path: Path) -> None:
    mail = tmp_path / "mail"
    answer = typed("sort", mail / "junk", mail / "inbox.mbox")
    assert (answer.status, answer.err) == (0, "")
    lines = [line.split() for line in answer.text.splitlines()]
    assert [line[0] for line in lines] == ["spam"] * 12 + ["ham"] * 12
    assert lines[0][2] == "junk/00.eml"
    assert lines[-1][2] == "inbox.mbox#12"
    piped = typed("sort", "-", stdin=(mail / "inbox.mbox").read_bytes())
    assert len(piped.text.splitlines()) == 12


@pytest.mark.usefixtures("store")
def test_json_is_an_object_on_each_line(typed: Type, tmp_path: Path) -> None:
    one = json.loads(typed("sort", "--json", stdin=NEW_SPAM).text)
    assert one["label"] == "spam"
    assert set(one["probabilities"]) == {"spam", "ham"}
    strange = tmp_path / "a\nb\udcff"
    strange.mkdir()
    (strange / "x\x1b.eml").write_bytes(SPAM[0])
    lines = typed("sort", "--json", strange, tmp_path / "mail" / "junk").text.splitlines()
    assert len(lines) == 13
    assert all(json.loads(line)["label"] == "spam" for line in lines)


@pytest.mark.usefixtures("store")
def test_one_message_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom tamis_mail.surfaces.cli import main\nstatus = main(['sort', '-p'])\n"
        "sys.stderr.write(' '.join({name.partition('.')[0] for name in sys.modules}))\nsys.exit(status)"
    )
    result = subprocess.run([sys.executable, "-c", code], input=NEW_SPAM, capture_output=True, check=False)
    assert result.returncode == 0
    loaded = set(result.stderr.decode().split())
    heavy = {
        "email",
        "numpy",
        "scipy",
        "sklearn",
        "numba",
        "difflib",
        "asyncio",
        "multiprocessing",
        "subprocess",
        "tempfile",
        "argparse",
        "hashlib",
        "pathlib",
        "secrets",
        "shutil",
        "zlib",
    }
    assert loaded & heavy == set()


def test_the_light_version_is_the_version() -> None:
    assert version() == tamis.__version__


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("words", [["-p"], []])
def test_nobody_who_reads_is_an_error_of_sort(words: list[str]) -> None:
    """Status 0 would say that the message is spam, or that it went through."""
    reading, writing = os.pipe()
    os.close(reading)
    pipe = subprocess.run(
        [COMMAND, "sort", *words], input=NEW_HAM, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (pipe.returncode, pipe.stderr) == (3, b"")


@pytest.mark.usefixtures("store")
def test_many_lines_into_a_closed_pipe_are_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    pipe = subprocess.run(
        [COMMAND, "sort", tmp_path / "mail" / "junk"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (pipe.returncode, pipe.stderr) == (0, b"")


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no /dev/full to run out of space on"
)
@pytest.mark.usefixtures("store")
def test_a_full_disk_is_status_3() -> None:
    with Path("/dev/full").open("wb") as full:
        answer = subprocess.run(
            [COMMAND, "sort", "-p"], input=NEW_SPAM, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (answer.returncode, answer.stderr) == (3, b"tamis sort: No space left on device\n")


@pytest.mark.parametrize(
    "words",
    [
        ["sort", "-p", "--bogus"],
        ["sort", "-pe", "--dialect", "nonsense"],
        ["sort", "-p", "--json"],
        ["sort", "--undo", "-p"],
        ["sort", "-p", "mail"],
        ["sort", "--passthru"],
        ["sotr", "-p"],
    ],
)
def test_a_filter_that_is_configured_wrongly_loses_no_mail(words: list[str]) -> None:
    answer = spawn(*words, stdin=NEW_SPAM)
    assert answer.status in (2, 3)
    assert answer.out == NEW_SPAM
    assert len(answer.err.splitlines()) == 1


def test_help_and_errors_of_other_commands_do_not_copy_standard_input() -> None:
    assert NEW_SPAM not in spawn("sort", "-p", "--help", stdin=NEW_SPAM).out
    assert spawn("learn", "-p", stdin=NEW_SPAM).out == b""
    assert spawn("sort", "--bogus", stdin=NEW_SPAM).out == b""
