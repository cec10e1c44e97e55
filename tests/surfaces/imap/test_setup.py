"""`tamis setup imap` as a new user meets it: in a terminal of 80 columns, with a real Dovecot.

The transcript in docs/howto/mail-imap.md is what this prints.
"""

import json
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from fcntl import ioctl
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tests.surfaces.imap.watching_process import account_options, run_tamis
from tests.surfaces.peers.dovecot import PASSWORD, USER, Dovecot, needs_dovecot, run_dovecot
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, make_store

pytestmark = [pytest.mark.peers, needs_dovecot]

PAGE = Path(__file__).parents[3] / "docs/howto/mail-imap.md"
_PROGRAM = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"
_SECONDS = 60.0
_INTERRUPT = "\x03"


def make_mail(count: int, kind: str) -> list[bytes]:
    text = {
        "spam": "Buy cheap pills now, offer %d ends today!",
        "ham": "Shall we have lunch on day %d? Mary",
    }[kind]
    return [
        f"From: {kind}{n}@{kind}.example\r\nTo: {USER}\r\nSubject: {kind} {n}\r\n\r\n{text % n}\r\n".encode()
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with run_dovecot() as running:
        running.append("INBOX", make_mail(120, "ham"), flags=r"(\Seen)")
        running.append("Junk", make_mail(60, "spam"))
        running.append(
            "Sent", [f"From: {USER}\r\nTo: mary@home.example\r\nSubject: Yes\r\n\r\nYes!\r\n".encode()]
        )
        yield running


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "TAMIS_STORE"}
    return {
        **kept,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": "",
        "XDG_DATA_HOME": "",
        "TERM": "xterm",
        "PYTHON_KEYRING_BACKEND": "tests.surfaces.imap.file_keyring.FileKeyring",
        "TEST_KEYRING": str(tmp_path / "keyring.json"),
    }


def run_in_terminal(
    words: Sequence[str], answers: Sequence[tuple[str, str]], variables: dict[str, str]
) -> tuple[str, int]:
    """Run a command in a terminal of 80 columns; when a question comes, type its answer.

    An interrupt is typed again if nothing follows: one that comes just before a read begins is noticed only
    when the read ends.
    """
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=variables,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
    )
    os.close(slave)
    waiting = list(answers)
    screen, limit = "", time.monotonic() + _SECONDS
    try:
        while time.monotonic() < limit:
            if not select.select([master], [], [], 1.0)[0]:
                if not waiting and answers and answers[-1][1] == _INTERRUPT:
                    os.write(master, _INTERRUPT.encode())
                continue
            try:
                data = os.read(master, 1 << 16)
            except OSError:  # the other end is closed
                break
            screen += data.decode("utf-8", "replace")
            if waiting and screen.endswith(waiting[0][0]):
                os.write(master, waiting.pop(0)[1].encode())
    finally:
        os.close(master)
        if process.poll() is None and time.monotonic() >= limit:
            process.send_signal(signal.SIGKILL)
        status = process.wait(_SECONDS)
    return screen, status


def read_screen(screen: str) -> list[str]:
    """Return the lines as they stand at the end: what was drawn over is gone."""
    lines = [line.rpartition("\r\x1b[K")[2] for line in screen.replace("\r\n", "\n").split("\n")]
    return [line.rstrip() for line in lines]


def read_transcript(command: str) -> list[str]:
    """Return the lines after a command in the documentation, up to the end of its block."""
    block = PAGE.read_text("utf-8").partition(f"$ {command}\n")[2]
    assert block, command
    return block.partition("```")[0].rstrip().split("\n")


ANSWERS = [
    ("Your address: ", f"{USER}\n"),
    ("Server [imap.example.org]: ", "localhost\n"),
    ("Number [1]: ", "\n"),
    (f"Password of {USER}: ", f"{PASSWORD}\n"),
    ("[Y/n] ", "\n"),
]


def test_the_transcript_in_the_documentation_is_what_is_shown(
    dovecot: Dovecot, variables: dict[str, str], tmp_path: Path
) -> None:
    words = ["setup", "imap", "--port", str(dovecot.tls_port), "--certificate", str(dovecot.certificate)]
    screen, status = run_in_terminal(words, ANSWERS, variables)
    lines = read_screen(screen)
    assert status == 0, screen
    assert max(map(len, lines)) <= 80
    assert PASSWORD not in screen
    # The documentation has the server that is offered, and the usual port.
    shown = "\n".join(lines).replace("org]: localhost", "org]:").replace("localhost", "imap.example.org")
    assert shown.replace(str(dovecot.tls_port), "993").rstrip().split("\n") == read_transcript(
        "tamis setup imap"
    )
    assert json.loads((tmp_path / "keyring.json").read_text()) == {f"tamis {USER} at localhost": PASSWORD}
    settings = tmp_path / ".config/tamis/imap-example.org.toml"
    assert PASSWORD not in settings.read_text()
    with Sieve.open(tmp_path / ".local/share/tamis/mail.tamis", readonly=True) as sieve:
        counts = {label.name: label.messages for label in sieve.store.labels()}
    assert (counts["spam"], counts["ham"]) == (60, 120)

    # The next commands, as they are printed.
    dovecot.append("INBOX", [raw.replace(b"\n", b"\r\n") for raw in (NEW_SPAM, NEW_HAM)])
    try:
        dry, status = run_in_terminal(["watch", "imap", "example.org", "--dry-run"], [], variables)
        assert status == 0
        transcript = read_transcript("tamis watch imap example.org --dry-run")
        assert [line for line in read_screen(dry) if line] == transcript
        words = ["watch", "imap", "example.org", "--move", "--once"]
        moved, status = run_in_terminal(words, [], variables)
        assert (status, "1 moved to Junk" in moved) == (0, True)
    finally:
        dovecot.doveadm("expunge", "mailbox", "*", "header", "From", "shop.example")
        dovecot.doveadm("expunge", "mailbox", "*", "header", "From", "friend3@home.example")

    # A second run takes the settings and the password that are there, and learns nothing twice.
    again, status = run_in_terminal(["setup", "imap", "example.org"], [("[Y/n] ", "\n")], variables)
    assert status == 0
    assert "INBOX: 120 known" in again


def test_a_wrong_password_is_asked_for_again(
    dovecot: Dovecot, variables: dict[str, str], tmp_path: Path
) -> None:
    words = ["setup", "imap", "--port", str(dovecot.tls_port), "--certificate", str(dovecot.certificate)]
    question = ANSWERS[3][0]
    screen, status = run_in_terminal(words, [*ANSWERS[:3], (question, "wrong\n"), *ANSWERS[3:]], variables)
    assert (status, screen.count(question)) == (0, 2)
    assert "does not accept the password" in screen
    assert json.loads((tmp_path / "keyring.json").read_text()) == {f"tamis {USER} at localhost": PASSWORD}


def test_a_new_account_that_is_not_set_up_is_named_by_its_options(
    dovecot: Dovecot, variables: dict[str, str], tmp_path: Path
) -> None:
    done = run_tamis(
        "watch", "imap", "--store", str(make_store(tmp_path / "x")), *account_options(dovecot), **variables
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "To begin" in line]
    words = shlex.split(line.partition("To begin: ")[2])
    assert words[:4] == ["tamis", "watch", "imap", "--host"]
    assert run_tamis(*words[1:], "--once", "--store", str(tmp_path / "x"), **variables).returncode == 0


def test_an_interrupt_leaves_nothing_half_done(
    dovecot: Dovecot, variables: dict[str, str], tmp_path: Path
) -> None:
    words = ["setup", "imap", "--port", str(dovecot.tls_port), "--certificate", str(dovecot.certificate)]
    for place in range(len(ANSWERS)):
        answers = [*ANSWERS[:place], (ANSWERS[place][0], _INTERRUPT)]
        screen, status = run_in_terminal(words, answers, variables)
        assert status == 130, screen
        assert "interrupted" in screen
        assert "Traceback" not in screen
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_each_question_has_an_option(dovecot: Dovecot, variables: dict[str, str], tmp_path: Path) -> None:
    store = str(tmp_path / "my store")
    words = ["setup", "imap", "work", "--yes", "--store", store, *account_options(dovecot)]
    done = run_tamis(*words, **variables)
    assert done.returncode == 0, done.stderr
    assert f"tamis watch imap work --store '{store}' --move" in done.stdout
    assert (tmp_path / ".config/tamis/imap-work.toml").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "there was no answer: give --user"),
        (["--yes"], "--user is needed"),
        (["--user", USER], "there was no answer: give --host"),
        (["--user", USER, "--host", "localhost"], "there was no answer: give --password"),
        (["--user", USER, "--host", "localhost", "--password", "prompt"], "there is no terminal"),
        (["--user", USER, "--host", "localhost", "--password-command", "false"], "exit status 1"),
        (
            ["--user", USER, "--host", "localhost", "--password-command", "echo x", "--port", "1"],
            "cannot be reached",
        ),
        (["--port", "x"], "expected a number from 1 to 65535"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(
    words: list[str], reason: str, variables: dict[str, str], tmp_path: Path
) -> None:
    done = run_tamis("setup", "imap", *words, **variables)
    assert done.returncode in (2, 3)
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
