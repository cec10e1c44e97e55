"""`tamis watch imap` with a real Dovecot: with all of its extensions, with few, and with faults."""

import io
import os
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.message import canonical, digest
from tamis_mail.serving.logs import Log
from tamis_mail.surfaces.imap.account import Account
from tamis_mail.surfaces.imap.mailbox import ImapMailbox
from tamis_mail.watching.classifier import StoreClassifier
from tamis_mail.watching.memory import Memory
from tamis_mail.watching.roles import Role
from tamis_mail.watching.watcher import Settings, Watcher
from tests.surfaces.imap.watching_process import account_options, run_tamis
from tests.surfaces.peers.dovecot import PASSWORD, Dovecot, needs_dovecot, run_dovecot
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, make_store

pytestmark = [pytest.mark.peers, needs_dovecot]

_USERS = [f"user{number}@example.org" for number in range(30)]
_FEW = "IMAP4rev1 LITERAL+ NAMESPACE UIDPLUS"  # no MOVE, CONDSTORE, QRESYNC, IDLE, SPECIAL-USE, LIST-EXTENDED
SPAM, HAM = (raw.replace(b"\n", b"\r\n") for raw in (NEW_SPAM, NEW_HAM))


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Dovecot]]:
    with (
        run_dovecot(users=_USERS) as full,
        run_dovecot(users=_USERS, settings=f"imap_capability = {_FEW}\n", prefix="INBOX.") as plain,
    ):
        yield {"full": full, "few": plain}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("store") / "mail.tamis")


@pytest.fixture
def store(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(trained, tmp_path / "mail.tamis"))


@pytest.fixture(scope="module")
def users() -> Iterator[str]:
    return iter(_USERS)


@dataclass
class Scene:
    """A user of a Dovecot, and the watcher of his account."""

    dovecot: Dovecot
    user: str
    store: Path
    watcher: Watcher
    mailbox: ImapMailbox
    log: io.StringIO

    def append(self, folder: str, *messages: bytes) -> None:
        self.dovecot.append(folder, messages, self.user)

    def list_messages(self) -> list[tuple[str, bytes]]:
        return sorted(self.dovecot.list_messages(self.user))

    def move(self, raw: bytes, source: str, target: str) -> None:
        """Move a message as its owner."""
        subject = raw.partition(b"Subject: ")[2].partition(b"\r")[0].decode()
        self.dovecot.doveadm("move", target, "mailbox", source, "subject", subject, user=self.user)

    def find_label(self, raw: bytes) -> str | None:
        with Sieve.open(self.store, readonly=True) as sieve:
            entry = sieve.store.find_entries([digest(canonical(raw))]).get(digest(canonical(raw)))
            return None if entry is None else entry.label


@contextmanager
def open_scene(
    dovecot: Dovecot, user: str, store: Path, *, tls: str = "implicit", junk: str = "", **settings: bool
) -> Iterator[Scene]:
    account = Account(
        "test",
        host="localhost",
        user=user,
        port=dovecot.tls_port if tls == "implicit" else dovecot.port,
        tls=tls,  # type: ignore[arg-type]
        certificate="" if tls == "none" else str(dovecot.certificate),
        password="command",
        command=f"echo '{PASSWORD}'",
        junk=junk,
    )
    memory = Memory(Memory.path_of(store), user)
    classifier = StoreClassifier(store, source="imap")
    mailbox = ImapMailbox(account)
    log = io.StringIO()
    watcher = Watcher(mailbox, memory, classifier, Log(log), Settings(**settings))
    try:
        yield Scene(dovecot, user, store, watcher, mailbox, log)
    finally:
        mailbox.close()
        classifier.close()
        memory.close()


@pytest.mark.parametrize("kind", ["full", "few"])
@pytest.mark.parametrize("tls", ["implicit", "starttls", "none"])
def test_mail_is_sorted_and_moves_are_learned(
    servers: dict[str, Dovecot], users: Iterator[str], store: Path, kind: str, tls: str
) -> None:
    junk = "Junk" if kind == "full" else "INBOX.Junk"
    trash = junk.replace("Junk", "Trash")
    with open_scene(servers[kind], next(users), store, tls=tls) as scene:
        assert scene.watcher.run_pass()
        wanted = SPAM.replace(b"Cheap pills", b"Cheap wanted pills")
        unwanted = HAM.replace(b"Subject: Lunch", b"Subject: Unwanted lunch")
        deleted = SPAM.replace(b"Cheap pills", b"Cheap deleted pills")
        everything = [SPAM, HAM, wanted, unwanted, deleted]
        scene.append("INBOX", *everything)
        assert scene.watcher.run_pass()
        places = {raw: "INBOX" if raw in (HAM, unwanted) else junk for raw in everything}
        assert scene.list_messages() == sorted((place, raw) for raw, place in places.items())
        scene.move(wanted, junk, "INBOX")
        scene.move(unwanted, "INBOX", junk)
        scene.move(deleted, junk, trash)
        for _ in range(3):
            assert scene.watcher.run_pass()
        places |= {wanted: "INBOX", unwanted: junk, deleted: trash}
        assert scene.list_messages() == sorted((place, raw) for raw, place in places.items())
        assert [scene.find_label(raw) for raw in everything] == [None, None, "ham", "spam", None]
        assert scene.log.getvalue().count("event=learned") == 2
        assert "pills" not in scene.log.getvalue()


@pytest.mark.parametrize("kind", ["full", "few"])
def test_flags_teach_and_keywords_are_set(
    servers: dict[str, Dovecot], users: Iterator[str], store: Path, kind: str
) -> None:
    dovecot, user = servers[kind], next(users)
    with open_scene(dovecot, user, store, adds_keywords=True) as scene:
        assert scene.watcher.run_pass()
        scene.append("INBOX", HAM, SPAM)
        assert scene.watcher.run_pass()
        flags = dovecot.doveadm("fetch", "flags", "all", user=user)
        assert b"$NotJunk" in flags
        assert b"$Junk" in flags
        assert b"\\Seen" not in flags
        dovecot.doveadm("flags", "add", "$Junk", "mailbox", "INBOX", "subject", "Lunch", user=user)
        dovecot.doveadm("flags", "remove", "$NotJunk", "mailbox", "INBOX", "subject", "Lunch", user=user)
        assert scene.watcher.run_pass()
        assert scene.find_label(HAM) == "spam"


def test_a_junk_folder_may_have_any_name(
    servers: dict[str, Dovecot], users: Iterator[str], store: Path
) -> None:
    name = 'My "odd" \\ Müll 日本'
    with open_scene(servers["full"], next(users), store, junk=name) as scene:
        scene.append("INBOX", SPAM)
        assert scene.watcher.run_pass()
        assert scene.watcher.run_pass()
        assert [folder.name for folder in scene.mailbox.list_folders() if folder.role == Role.JUNK] == [name]
        ((place, raw),) = scene.list_messages()
        assert (place != "INBOX", raw) == (True, SPAM)


def test_waiting_ends_when_mail_arrives_or_the_time_is_over(
    servers: dict[str, Dovecot], users: Iterator[str], store: Path
) -> None:
    for kind in ("full", "few"):
        with open_scene(servers[kind], next(users), store) as scene:
            assert scene.watcher.run_pass()
            scene.mailbox.wait(0.1)
            scene.append("INBOX", SPAM)
            scene.mailbox.wait(30 if kind == "full" else 0.1)
            assert scene.watcher.run_pass()
            assert scene.list_messages()[0][0].endswith("Junk")


# The fault table of docs/howto/mail-imap.md.


def test_without_a_store_mail_stays(
    servers: dict[str, Dovecot], users: Iterator[str], tmp_path: Path
) -> None:
    with open_scene(servers["full"], next(users), tmp_path / "mail.tamis") as scene:
        scene.append("INBOX", SPAM)
        assert not scene.watcher.run_pass()
        assert scene.list_messages() == [("INBOX", SPAM)]
        assert "there is no store" in scene.log.getvalue()
        scene.append("Junk", SPAM.replace(b"Cheap", b"Cheapest"))  # moved there from an unwatched folder
        scene.watcher.run_pass()
        assert scene.find_label(SPAM.replace(b"Cheap", b"Cheapest")) == "spam"
        scene.move(SPAM.replace(b"Cheap", b"Cheapest"), "Junk", "Trash")
        scene.store.unlink()
        make_store(scene.store)
        assert scene.watcher.run_pass()
        assert ("Junk", SPAM) in scene.list_messages()


@pytest.mark.parametrize("fault", ["corrupt", "newer"])
def test_with_a_store_that_cannot_be_read_mail_stays(
    servers: dict[str, Dovecot], users: Iterator[str], store: Path, trained: Path, fault: str
) -> None:
    if fault == "corrupt":
        store.write_bytes(b"no store at all" * 1000)
    else:
        with closing(sqlite3.connect(store)) as connection, connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(migration)")]
            values = ["9999-later" if name == "name" else 0 for name in columns]
            connection.execute(f"INSERT INTO migration VALUES ({', '.join('?' * len(values))})", values)
    with open_scene(servers["full"], next(users), store) as scene:
        scene.append("INBOX", SPAM)
        for _ in range(3):
            assert not scene.watcher.run_pass()
        assert scene.list_messages() == [("INBOX", SPAM)]
        assert scene.log.getvalue().count("event=fault ") == 1
        for path in store.parent.glob("mail.tamis-*"):
            path.unlink()
        shutil.copy(trained, store)
        assert scene.watcher.run_pass()
        assert scene.list_messages() == [("Junk", SPAM)]


@pytest.mark.parametrize("fault", ["locked", "read-only"])
def test_with_a_store_that_cannot_be_written_mail_is_sorted_and_moves_are_learned_later(
    servers: dict[str, Dovecot],
    users: Iterator[str],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    for name in ("tamis_mail.store.database", "tamis_mail.store.store"):
        monkeypatch.setattr(f"{name}.BUSY_SECONDS", 0.2)
    with open_scene(servers["full"], next(users), store) as scene:
        scene.append("INBOX", HAM)
        assert scene.watcher.run_pass()
        scene.move(HAM, "INBOX", "Junk")
        scene.append("INBOX", SPAM)
        with closing(sqlite3.connect(store, isolation_level=None)) as writer, monkeypatch.context() as patch:
            if fault == "locked":
                writer.execute("BEGIN IMMEDIATE")
            else:
                patch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
            assert not scene.watcher.run_pass()
            if fault == "locked":
                writer.execute("ROLLBACK")
        assert scene.list_messages() == [("Junk", HAM), ("Junk", SPAM)]
        assert scene.find_label(HAM) is None
        assert scene.watcher.run_pass()
        assert scene.find_label(HAM) == "spam"
        assert scene.log.getvalue().count("event=learned") == 1


def test_on_a_full_disk_mail_stays(servers: dict[str, Dovecot], users: Iterator[str], store: Path) -> None:
    with open_scene(servers["full"], next(users), store) as scene:
        assert scene.watcher.run_pass()
        scene.append("INBOX", SPAM)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        try:
            assert not scene.watcher.run_pass()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert scene.list_messages() == [("INBOX", SPAM)]
        assert scene.watcher.run_pass()
        assert scene.list_messages() == [("Junk", SPAM)]


def test_while_the_server_is_down_it_is_tried_again(
    servers: dict[str, Dovecot], users: Iterator[str], store: Path
) -> None:
    dovecot = servers["full"]
    with open_scene(dovecot, next(users), store) as scene:
        assert scene.watcher.run_pass()
        scene.append("INBOX", SPAM)
        dovecot.kill()
        try:
            for _ in range(3):
                assert not scene.watcher.run_pass()
        finally:
            dovecot.start()
        assert scene.watcher.run_pass()
        assert scene.list_messages() == [("Junk", SPAM)]
        assert "event=fault-ended" in scene.log.getvalue()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"--password-command": "echo wrong"}, "does not accept the password of ann@example.org"),
        ({"--password-command": "false"}, "failed with exit status 1"),
        ({"--certificate": ""}, "is not valid: self-signed certificate"),
        ({"--certificate": "/no/such/file"}, "the certificates in /no/such/file cannot be read"),
        ({"--port": "1"}, "localhost:1 cannot be reached"),
        ({"--host": "127.0.0.2"}, "127.0.0.2"),
    ],
)
def test_an_account_that_cannot_be_reached_is_one_line_and_status_3(
    servers: dict[str, Dovecot], store: Path, changes: dict[str, str], reason: str
) -> None:
    words = account_options(servers["full"])
    options = dict(zip(words[::2], words[1::2], strict=True)) | changes
    given = [word for name, value in options.items() if value for word in (name, value)]
    done = run_tamis("watch", "imap", "--store", str(store), "--once", "--move", *given)
    assert done.returncode == 3
    lines = [line for line in done.stderr.splitlines() if "event=fault" in line]
    assert len(lines) == 1
    assert reason in lines[0]
    assert PASSWORD not in done.stderr
