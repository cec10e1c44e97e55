"""A real Dovecot and a watcher on the same Maildir."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.message import canonical, digest
from tests.surfaces.maildir.maildirs import list_files
from tests.surfaces.peers.dovecot import USER, Dovecot, needs_dovecot, run_dovecot
from tests.surfaces.terminal import HAM, NEW_HAM, NEW_SPAM, SPAM, Type, make_store

pytestmark = [pytest.mark.peers, needs_dovecot]


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with run_dovecot() as running:
        yield running


class Session:
    """A mailbox of Dovecot, and `tamis watch maildir` on its files."""

    def __init__(self, dovecot: Dovecot, typed: Type, store: Path) -> None:
        self.dovecot, self.store = dovecot, store
        self._typed = typed
        for name in ("INBOX", "Junk", "Trash"):
            dovecot.doveadm("expunge", "mailbox", name, "all")
        self.watch()

    def watch(self, *options: str) -> str:
        """Let the watcher do what there is to do, and return what it says."""
        answer = self._typed(
            "watch", "maildir", self.dovecot.maildir(), "--store", self.store, "--move", "--once", *options
        )
        assert answer.status == 0, answer.err
        return answer.text.strip()

    def list_messages(self) -> list[tuple[str, bytes]]:
        return sorted(self.dovecot.list_messages())

    def move(self, subject: str, source: str, target: str) -> None:
        """Move a message, as a mail program does by IMAP."""
        self.dovecot.doveadm("move", target, "mailbox", source, "header", "subject", subject)

    def label_of(self, raw: bytes) -> str | None:
        with Sieve.open(self.store, readonly=True) as sieve:
            entry = sieve.store.find_entry(digest(canonical(raw)))
        return entry.label if entry else None


@pytest.fixture
def session(dovecot: Dovecot, typed: Type, tmp_path: Path) -> Session:
    return Session(dovecot, typed, make_store(tmp_path / "mail.tamis"))


def with_crlf(raw: bytes) -> bytes:
    return raw.replace(b"\n", b"\r\n")


def test_moves_by_dovecot_are_learned_and_ours_are_seen_once(session: Session) -> None:
    for raw in (NEW_SPAM, NEW_HAM):
        session.dovecot.append("INBOX", [with_crlf(raw)])
    assert session.watch() == "1 moved to Junk, 1 stayed"
    assert session.list_messages() == [("INBOX", with_crlf(NEW_HAM)), ("Junk", with_crlf(NEW_SPAM))]
    assert session.watch() == "0 stayed"
    session.move("Cheap pills", "Junk", "INBOX")
    session.move("Lunch", "INBOX", "Junk")
    assert session.watch() == "1 learned as ham, 1 learned as spam"
    assert session.label_of(NEW_SPAM) == "ham"
    assert session.label_of(NEW_HAM) == "spam"
    assert session.list_messages() == [("INBOX", with_crlf(NEW_SPAM)), ("Junk", with_crlf(NEW_HAM))]
    session.move("Lunch", "Junk", "Trash")
    assert session.watch() == "0 stayed"
    assert session.label_of(NEW_HAM) == "spam"


def test_flags_keywords_and_dates_survive_our_moves(session: Session) -> None:
    with session.dovecot.log_in() as client:
        client.append("INBOX", r"(\Seen work later)", '"05-Jan-2026 10:00:00 +0000"', with_crlf(NEW_SPAM))
        client.append("Junk", "(other)", None, with_crlf(SPAM[0]))
    fields = ("flags", "date.received", "size.virtual")
    fetched = session.dovecot.doveadm("fetch", " ".join(fields), "mailbox", "INBOX", "all")
    assert session.watch() == "1 learned as spam, 1 moved to Junk"
    moved = session.dovecot.doveadm(
        "fetch", " ".join(fields), "mailbox", "Junk", "header", "subject", "Cheap pills"
    )
    assert sorted(_words(fetched)) in [sorted(_words(part)) for part in moved.split(b"\f")]


def test_keywords_set_by_a_mail_program_are_learned_and_ours_are_seen_by_it(session: Session) -> None:
    session.dovecot.append("INBOX", [with_crlf(NEW_HAM)])
    session.watch()
    session.dovecot.doveadm("flags", "add", "-u", USER, "$Junk", "mailbox", "INBOX", "all", user=None)
    assert session.watch() == "1 learned as spam"
    session.dovecot.append("INBOX", [with_crlf(HAM[0] + b"today\n")])
    with session.dovecot.log_in() as client:
        client.select("INBOX")  # which moves it to `cur`
    assert session.watch("--keywords") == "1 stayed"
    flags = session.dovecot.doveadm("fetch", "flags", "mailbox", "INBOX", "header", "subject", "day 0")
    assert b"$NotJunk" in flags
    assert session.watch("--keywords") == "0 stayed"


def test_a_delivery_by_lmtp_is_sorted_and_stays_new(session: Session) -> None:
    session.dovecot.deliver(NEW_SPAM)
    session.dovecot.deliver(NEW_HAM)
    assert session.watch() == "1 moved to Junk, 1 stayed"
    files = list_files(session.dovecot.maildir())
    assert Counter(str(Path(path).parent) for path in files) == {"new": 1, ".Junk/new": 1}
    owners = {(session.dovecot.maildir() / path).stat().st_uid for path in files}
    assert owners == {session.dovecot.maildir().stat().st_uid}
    assert Counter(name for name, _ in session.list_messages()) == {"INBOX": 1, "Junk": 1}


def test_folders_in_folders_of_dovecot_are_watched(typed: Type, tmp_path: Path) -> None:
    with run_dovecot(mail_location="maildir:~/Maildir:LAYOUT=fs", separator="/") as dovecot:
        dovecot.doveadm("mailbox", "create", "Lists", "Lists/Größe")
        session = Session(dovecot, typed, make_store(tmp_path / "mail.tamis"))
        dovecot.append("INBOX", [with_crlf(NEW_SPAM)])
        assert session.watch() == "1 moved to Junk"
        assert [name for name, _ in session.list_messages()] == ["Junk"]
        session.move("Cheap pills", "Junk", "Lists/Größe")
        assert session.watch() == "1 learned as ham"


def _words(fetched: bytes) -> list[bytes]:
    return [line for line in fetched.strip().splitlines() if line]
