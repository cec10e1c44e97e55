"""The recipes for Dovecot (contrib/dovecot), run by a real Dovecot: moving mail by IMAP teaches the filter.

The folders, scripts and settings are those of the recipe, with other paths.
"""

import imaplib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tests.surfaces.peers.dovecot import Dovecot, needs_dovecot, run_dovecot
from tests.surfaces.peers.spamd import Daemon, run_spamd
from tests.surfaces.terminal import COMMAND, NEW_HAM, NEW_SPAM, make_store

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "contrib" / "dovecot"
DOCS = ROOT / "docs" / "howto" / "mail-dovecot.md"
SCRIPTS = ("report-spam.sieve", "report-ham.sieve", "report-flag.sieve")
ANN, BEN = "ann@example.org", "ben@example.org"
FOLDERS = {"Junk": r"\Junk", "Trash": r"\Trash", "Papierkorb": r"\Trash", "Archive": ""}

needs_spamc = pytest.mark.skipif(
    shutil.which("spamc") is None, reason="spamc is not installed: tools/mail_programs installs it"
)
needs_sievec = pytest.mark.skipif(
    shutil.which("sievec") is None, reason="sievec is not installed: tools/mail_programs installs it"
)


@dataclass(frozen=True)
class Server:
    """A Dovecot with the recipe, and the daemon that learns."""

    dovecot: Dovecot
    daemon: Daemon
    folder: Path

    def list_lessons(self) -> list[str]:
        """Return what was done by each lesson, since the daemon was started."""
        return re.findall(r"event=learned action=(\w+)", self.daemon.log.read_text())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="tamis-recipe-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Dovecot's processes belong to another user
        for script in SCRIPTS:
            shutil.copy(RECIPE / script, folder)
        write_wrapper(folder, socket=str(folder / "spamd.sock"))
        settings = (RECIPE / "90-tamis.conf").read_text()
        for path in ("/etc/dovecot/sieve", "/usr/local/lib/dovecot/sieve"):
            assert path in settings
            settings = settings.replace(path, name)
        users = str(folder / "users" / "{user}.tamis")
        with (
            run_spamd(folder, make_store(folder / "mail.tamis"), "--user-stores", users, *OPEN) as daemon,
            run_dovecot(users=(ANN, BEN), folders=FOLDERS, settings=settings) as dovecot,
        ):
            for script in SCRIPTS:
                compile_script(dovecot, folder / script)
            yield Server(dovecot, daemon, folder)


OPEN = ("--socket-mode", "666")


def write_wrapper(folder: Path, **settings: str) -> Path:
    """Install `tamis-learn` with other settings."""
    text = (RECIPE / "tamis-learn").read_text()
    for name, value in settings.items():
        text, count = re.subn(rf"(?m)^{name}=.*$", f"{name}={value}", text)
        assert count == 1
    path = folder / "tamis-learn"
    path.write_text(text)
    path.chmod(0o755)
    return path


def compile_script(dovecot: Dovecot, script: Path) -> None:
    words = ["sievec", "-c", str(dovecot.folder / "dovecot.conf"), str(script)]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def put(client: imaplib.IMAP4, folder: str, raw: bytes) -> None:
    """Put a message into a folder, and select the folder."""
    assert client.append(folder, "", "", raw)[0] == "OK"
    assert client.select(folder)[0] == "OK"


def move(client: imaplib.IMAP4, source: str, target: str) -> None:
    """Move the last message of a folder."""
    assert client.select(source)[0] == "OK"
    status, answer = client.uid("MOVE", "*", target)
    assert status == "OK", answer


@pytest.mark.peers
@needs_dovecot
@needs_spamc
@needs_sievec
class TestWithDovecot:
    """What an owner of mail does in a mail program, and what the filter learns from it."""

    def test_moves_into_and_out_of_junk_are_lessons_and_throwing_away_is_none(self, server: Server) -> None:
        n_before = len(server.list_lessons())
        with server.dovecot.log_in(ANN) as client:
            put(client, "INBOX", NEW_SPAM)
            move(client, "INBOX", "Junk")
            move(client, "Junk", "INBOX")
            move(client, "INBOX", "Junk")
            assert server.list_lessons()[n_before:] == ["learned", "moved", "moved"], server.dovecot.log
            for trash in ("Trash", "Papierkorb"):
                move(client, "Junk", trash)
                client.select(trash)
                assert client.uid("COPY", "*", "Archive")[0] == "OK"
                assert len(server.list_lessons()) == n_before + 3
                move(client, trash, "Junk")  # known: nothing is learned twice
                assert server.list_lessons()[-1] == "known"
                n_before += 1
            client.select("Junk")
            assert client.uid("COPY", "*", "Junk")[0] == "OK"
        with Sieve.open(server.folder / "users" / f"{ANN}.tamis") as sieve:
            assert sieve.forget(NEW_SPAM).before == "spam"
        assert not (server.folder / "users" / f"{BEN}.tamis").exists()
        assert " Error: " not in server.dovecot.log

    @pytest.mark.parametrize(
        ("flags", "lessons"),
        [
            (r"+FLAGS ($Junk)", ["learned"]),
            (r"+FLAGS ($NotJunk)", ["learned"]),
            (r"+FLAGS (Junk)", ["learned"]),
            (r"+FLAGS (NonJunk)", ["learned"]),
            (r"+FLAGS (\Seen)", []),
            (r"+FLAGS ($Junk $NotJunk)", []),
        ],
    )
    def test_flags_are_lessons(self, server: Server, flags: str, lessons: list[str]) -> None:
        n_before = len(server.list_lessons())
        raw = f"Subject: flags\r\n\r\nunique words {flags.encode().hex()}\r\n".encode()
        change, _, names = flags.partition(" ")
        with server.dovecot.log_in(BEN) as client:
            put(client, "INBOX", raw)
            assert client.uid("STORE", "*", change, names)[0] == "OK"
        assert server.list_lessons()[n_before:] == lessons, server.dovecot.log
        with Sieve.open(server.folder / "users" / f"{BEN}.tamis") as sieve:
            before = sieve.forget(raw).before
        expected = "ham" if "No" in names else "spam"
        assert before == (expected if lessons else None)

    def test_while_the_filter_is_down_mail_is_moved_all_the_same(self, server: Server) -> None:
        wrapper = write_wrapper(server.folder, socket="/nowhere/at/all")
        try:
            with server.dovecot.log_in(ANN) as client:
                put(client, "INBOX", NEW_HAM)
                move(client, "INBOX", "Junk")
                client.select("Junk")
                _, (numbers,) = client.uid("SEARCH", "SUBJECT", "Lunch")
                assert numbers
        finally:
            write_wrapper(server.folder, socket=str(server.folder / "spamd.sock"))
        assert "tamis-learn" in server.dovecot.log
        assert wrapper.exists()

    def test_the_loop_with_doveadm_learns_a_folder(self, server: Server) -> None:
        subjects = [b"first", b"second", b"third"]
        messages = [b"Subject: %s\r\n\r\nlearned by doveadm\r\n" % subject for subject in subjects]
        server.dovecot.append("Archive", messages, BEN)
        (loop,) = re.findall(r"```sh\n(doveadm search .*?)```", DOCS.read_text(), re.DOTALL)
        for old, new in (
            ("doveadm ", f"doveadm -c {server.dovecot.folder / 'dovecot.conf'} "),
            ("/run/tamis/spamd.sock", str(server.daemon.socket)),
            ("ann@example.org", BEN),
            ("mailbox Junk", "mailbox Archive"),
        ):
            assert old in loop
            loop = loop.replace(old, new)
        n_before = len(server.list_lessons())
        done = subprocess.run(["sh", "-eu", "-c", loop], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert server.list_lessons()[n_before:] == ["learned"] * 3
        with Sieve.open(server.folder / "users" / f"{BEN}.tamis") as sieve:
            assert [sieve.forget(raw).before for raw in messages] == ["spam"] * 3


@pytest.mark.parametrize("label", ["spam", "ham"])
def test_without_a_daemon_the_wrapper_learns_into_the_store_of_the_home(tmp_path: Path, label: str) -> None:
    store = tmp_path / "home" / ".local" / "share" / "tamis" / "mail.tamis"
    wrapper = write_wrapper(tmp_path, tamis=str(COMMAND))
    variables = {
        name: value for name, value in os.environ.items() if name not in ("TAMIS_STORE", "XDG_DATA_HOME")
    }
    variables |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [str(wrapper), label, ANN]
    done = subprocess.run(words, input=NEW_SPAM, env=variables, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr.decode()
    with Sieve.open(store) as sieve:
        assert sieve.forget(NEW_SPAM).before == label


def test_the_wrapper_refuses_other_labels(tmp_path: Path) -> None:
    wrapper = write_wrapper(tmp_path, tamis="/bin/false")
    assert subprocess.run([str(wrapper), "--help", ANN], check=False).returncode == 64


def test_both_versions_of_the_settings_name_the_same_scripts() -> None:
    texts = [(RECIPE / name).read_text() for name in ("90-tamis.conf", "90-tamis-2.4.conf")]
    scripts = [sorted(re.findall(r"/etc/dovecot/sieve/([\w-]+\.sieve)", text)) for text in texts]
    assert scripts[0] == scripts[1] == sorted(SCRIPTS)
    assert "NOT RUN" in texts[1]
