"""The recipes of the docs, run by the real programs: spam goes to Junk, and no error loses or doubles mail.

The text of each recipe is taken out of `docs/howto/mail.md`. A mail server tries again as long as a program
exits with another status than 0, and so does `deliver` here.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tamis_mail.mailbox import open_source
from tamis_mail.message import canonical, digest, parse
from tests.surfaces.terminal import COMMAND, NEW_HAM, NEW_SPAM, Type, learn_some

DOCS = Path(__file__).parents[2] / "docs" / "howto" / "mail.md"
TRIES = 3


def recipe(program: str) -> str:
    """The first block of text after the paragraph that names a program."""
    _, _, rest = DOCS.read_text(encoding="utf-8").partition(f"\n**{program}**")
    block = re.search(r"^```text\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL)
    assert block, program
    return block[1]


@dataclass(frozen=True)
class Home:
    """A person's folder, with a `tamis` of one's own that uses a store in it."""

    path: Path
    store: Path

    @property
    def program(self) -> Path:
        return self.path / "bin" / "tamis"

    def run(self, *command: str | Path, raw: bytes) -> int:
        """Run a program on a message; its exit status."""
        search = f"{self.program.parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [str(word) for word in command],
            input=raw,
            cwd=self.path,
            env={**os.environ, "HOME": str(self.path), "PATH": search},
            capture_output=True,
            check=False,
        ).returncode

    def write(self, name: str, text: str) -> Path:
        """Write a file of settings, which such programs want private."""
        path = self.path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        return path


def procmail(home: Home, raw: bytes) -> int:
    (home.path / "Mail").mkdir(exist_ok=True)
    rules = home.write(".procmailrc", recipe("procmail"))
    settings = [f"HOME={home.path}", f"DEFAULT={home.path}/Mail/Inbox/", f"LOGFILE={home.path}/log"]
    return home.run(
        "procmail", "-p", *settings, f"PATH={home.program.parent}:{os.environ['PATH']}", rules, raw=raw
    )


def maildrop(home: Home, raw: bytes) -> int:
    for folder in (".", ".Junk"):
        for part in ("cur", "new", "tmp"):
            (home.path / "Maildir" / folder / part).mkdir(parents=True, exist_ok=True)
    settings = (
        f'HOME="{home.path}"\nPATH="{home.program.parent}:{os.environ["PATH"]}"\nDEFAULT="$HOME/Maildir"\n'
    )
    return home.run("maildrop", home.write(".mailfilter", settings + recipe("maildrop")), raw=raw)


def fdm(home: Home, raw: bytes) -> int:
    (home.path / "Mail").mkdir(exist_ok=True)
    account = f'set lock-file "{home.path}/lock"\naccount "stdin" stdin\n'
    # %h is the folder of the user in /etc/passwd, whatever HOME says.
    rules = home.write(".fdm.conf", account + recipe("fdm").replace("%h", str(home.path)))
    return home.run("fdm", "-q", "-f", rules, "-a", "stdin", "fetch", raw=raw)


def sieve(home: Home, raw: bytes) -> int:
    filters = home.path / "filters"
    for folder in (filters, home.path / "run", home.path / "Mail"):
        folder.mkdir(exist_ok=True)
    script = filters / "tamis"
    script.write_text(f'#!/bin/sh\nexec "{home.program}" sort -p -e\n')
    script.chmod(0o755)
    settings = home.write(
        "dovecot.conf",
        f"base_dir = {home.path}/run\nstate_dir = {home.path}/run\nmail_home = {home.path}\nssl = no\n"
        "plugin {\n  sieve_plugins = sieve_extprograms\n  sieve_extensions = +vnd.dovecot.filter\n"
        f"  sieve_filter_bin_dir = {filters}\n}}\n",
    )
    rules = home.write("rules.sieve", recipe("Sieve"))
    message = home.path / "message"
    message.write_bytes(raw)
    location = f"maildir:{home.path}/Mail"
    return home.run(*AS_A_USER, "sieve-test", "-c", settings, "-e", "-l", location, rules, message, raw=b"")


# Dovecot lets nobody have mail who is root. In a namespace of its own root may go by another number.
AS_A_USER = (
    ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if hasattr(os, "getuid") and os.getuid() == 0
    else []
)


def needs(program: str, package: str) -> pytest.MarkDecorator:
    missing = shutil.which(program) is None
    reason = f"{program} is not installed (tools/mail_programs, or apt install {package})"
    if program == "sieve-test" and not missing and AS_A_USER:
        missing = not shutil.which("unshare") or bool(
            subprocess.run([*AS_A_USER, "true"], capture_output=True, check=False).returncode
        )
        reason = "sieve-test does not run as root, and this machine has no user namespaces"
    return pytest.mark.skipif(missing, reason=reason)


PROGRAMS = [
    pytest.param(procmail, marks=needs("procmail", "procmail")),
    pytest.param(maildrop, marks=needs("maildrop", "maildrop")),
    pytest.param(fdm, marks=needs("fdm", "fdm")),
    pytest.param(sieve, marks=needs("sieve-test", "dovecot-sieve")),
]
Deliver = Callable[[Home, bytes], int]


@pytest.fixture
def home(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    store = learn_some(typed, tmp_path, monkeypatch)
    found = Home(tmp_path / "home", store)
    found.program.parent.mkdir(parents=True)
    search = os.pathsep.join(path for path in sys.path if path)
    found.program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{search}" TAMIS_STORE="{store}" exec "{COMMAND}" "$@"\n', encoding="utf-8"
    )
    found.program.chmod(0o755)
    return found


def delivered(home: Home) -> dict[str, list[bytes]]:
    """What is in the folders of mail, by the name of the folder; of each message the digest of its text."""
    found: dict[str, list[bytes]] = {}
    for root in (home.path / "Mail", home.path / "Maildir"):
        for new in sorted(root.rglob("new")):
            texts = [_text(letter.raw) for letter in open_source(new.parent)]
            if texts:
                found["Junk" if "Junk" in new.parent.name else "inbox"] = texts
    return found


def _text(raw: bytes) -> bytes:
    """What no delivery changes: the subject and the body."""
    subject = dict(parse(canonical(raw)).headers)["subject"]
    return digest(subject.encode() + canonical(raw).partition(b"\n\n")[2])


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_recipe_sorts_spam_into_junk_and_the_rest_into_the_inbox(program: Deliver, home: Home) -> None:
    assert program(home, NEW_SPAM) == 0
    assert program(home, NEW_HAM) == 0
    assert delivered(home) == {"Junk": [_text(NEW_SPAM)], "inbox": [_text(NEW_HAM)]}


def _damage(home: Home) -> None:
    home.store.write_bytes(b"SQLite format 3\0" + b"no store at all " * 512)


def _replace_by_folder(home: Home) -> None:
    home.store.unlink()
    home.store.mkdir()


def _remove_program(home: Home) -> None:
    home.program.unlink()


@pytest.mark.parametrize("fault", [_damage, _replace_by_folder, _remove_program])
@pytest.mark.parametrize("program", PROGRAMS)
def test_after_an_error_a_message_is_neither_lost_nor_doubled(
    program: Deliver, fault: Callable[[Home], None], home: Home
) -> None:
    kept = {path: path.read_bytes() for path in (home.store, home.program)}
    fault(home)
    tries = 0
    while program(home, NEW_HAM) != 0:  # the server tries again, until somebody has repaired it
        tries += 1
        assert delivered(home) == {}, "a message that is kept for another try was delivered, too"
        if tries == TRIES:
            if home.store.is_dir():
                home.store.rmdir()
            for path, content in kept.items():
                path.write_bytes(content)
            home.program.chmod(0o755)
        assert tries <= TRIES
    assert delivered(home) == {"inbox": [_text(NEW_HAM)]}


def test_the_keys_of_mutt_learn_the_message_that_is_piped_to_them(home: Home, typed: Type) -> None:
    commands = re.findall(r"<pipe-message>tamis (.*?)<enter>", recipe("mutt"))
    assert [words.split()[0] for words in commands] == ["learn", "learn", "explain"]
    for words in commands:
        answer = typed(*words.split(), stdin=NEW_SPAM)
        assert (answer.status, answer.err) == (0, "")
