"""An IMAP account as the watcher sees it, with a scripted server: nothing is lost or doubled."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tamis_mail.serving.logs import Log
from tamis_mail.surfaces.imap.account import Account
from tamis_mail.surfaces.imap.connection import LoginRefusedError
from tamis_mail.surfaces.imap.mailbox import ImapMailbox
from tamis_mail.watching.classifier import JudgedMessage
from tamis_mail.watching.mailbox import Folder, MailboxError, MessageError
from tamis_mail.watching.memory import Memory
from tamis_mail.watching.roles import Role
from tamis_mail.watching.watcher import Watcher
from tests.surfaces.imap.fake_server import ALL_CAPABILITIES, FakeFolder, FakeServer, run_fake_server

SPAM, HAM = b"Subject: spam %d\r\n\r\nbody\r\n", b"Subject: ham %d\r\n\r\nbody\r\n"
WITHOUT_MOVE = ALL_CAPABILITIES.replace(" MOVE", "")


def make_folder(*messages: bytes, attributes: str = "") -> FakeFolder:
    folder = FakeFolder(attributes=attributes)
    for raw in messages:
        folder.add(raw)
    return folder


def make_folders(*inbox: bytes) -> dict[str, FakeFolder]:
    return {"INBOX": make_folder(*inbox), "Junk": make_folder(attributes=r"\Junk")}


@contextmanager
def open_mailbox(server: FakeServer, **settings: object) -> Iterator[ImapMailbox]:
    account = Account("test", host="127.0.0.1", user="ann", port=server.port, tls="none", password="prompt")
    mailbox = ImapMailbox(account, secret="secret", **settings)  # type: ignore[arg-type]
    try:
        yield mailbox
    finally:
        mailbox.close()


def find(mailbox: ImapMailbox, role: Role) -> Folder:
    return next(folder for folder in mailbox.list_folders() if folder.role == role)


class WordClassifier:
    """Takes messages with the word spam for spam, and remembers what it is taught."""

    def __init__(self) -> None:
        self.taught: list[tuple[bytes, str]] = []

    def judge(self, messages: "list[bytes]") -> "list[JudgedMessage | MessageError]":
        return [JudgedMessage("spam" if b"spam" in raw else "ham", 0.5, 0.0) for raw in messages]

    def learn(self, messages: "list[bytes]", label: str) -> "list[str | MessageError]":
        self.taught += [(raw, label) for raw in messages]
        return ["learned" for _ in messages]

    def close(self) -> None:
        """End."""


class Sink:
    """Keeps log lines."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Nothing is kept back."""


@pytest.mark.parametrize(
    ("act", "capabilities"),
    [
        ("bye", ALL_CAPABILITIES),
        ("after", ALL_CAPABILITIES),
        ("before", WITHOUT_MOVE),
        ("after", WITHOUT_MOVE),
        (b"\xff\xfe\r\n", WITHOUT_MOVE),
    ],
)
def test_a_connection_that_is_lost_at_any_command_loses_and_doubles_nothing(
    act: "str | bytes", capabilities: str, tmp_path: Path
) -> None:
    """The watcher runs until all is sorted; each of its commands fails once, before or after it is done."""

    def run(place: int) -> int:
        lost: list[int] = []

        def script(number: int, command: str) -> "str | bytes | None":
            if number == place and not lost:
                lost.append(number)
                return act
            return None

        messages = [SPAM % 1, HAM % 1, SPAM % 2]
        memory = Memory(tmp_path / f"{place}.watch", "test")
        with (
            run_fake_server(
                folders=make_folders(*messages), capabilities=capabilities, script=script
            ) as server,
            open_mailbox(server) as mailbox,
        ):
            classifier = WordClassifier()
            log = Log(Sink())  # type: ignore[arg-type]
            watcher = Watcher(mailbox, memory, classifier, log)  # type: ignore[arg-type]
            for _ in range(3):
                watcher.run_pass()
            expected = [("Junk" if b"spam" in raw else "INBOX", raw) for raw in messages]
            assert sorted(server.all_messages()) == sorted(expected), (place, server.commands[place])
            assert classifier.taught == []
            count = len(server.commands)
        memory.close()
        return count

    for place in range(run(-1)):
        run(place)


@contextmanager
def open_watcher(server: FakeServer, path: Path) -> Iterator[tuple[Watcher, WordClassifier, Sink]]:
    memory, classifier, sink = Memory(path, "test"), WordClassifier(), Sink()
    with open_mailbox(server) as mailbox:
        yield Watcher(mailbox, memory, classifier, Log(sink)), classifier, sink  # type: ignore[arg-type]
    memory.close()


def test_new_uids_teach_nothing_and_move_nothing_twice(tmp_path: Path) -> None:
    with (
        run_fake_server(folders=make_folders(SPAM % 1, HAM % 1)) as server,
        open_watcher(server, tmp_path / "watch") as (watcher, classifier, _),
    ):
        assert watcher.run_pass()
        before = sorted(server.all_messages())
        for name in ("INBOX", "Junk"):
            folder = server.folders[name]
            server.folders[name] = restored = FakeFolder(
                attributes=folder.attributes, validity=99, next_uid=500
            )
            for raw in folder.messages.values():
                restored.add(raw)
        for _ in range(3):
            assert watcher.run_pass()
        assert sorted(server.all_messages()) == before
        assert classifier.taught == []


def test_a_message_that_the_server_refuses_to_move_stays_and_is_reported(tmp_path: Path) -> None:
    def script(number: int, command: str) -> bytes | None:
        return b"TAG NO [OVERQUOTA] full\r\n" if command.startswith("UID MOVE") else None

    with (
        run_fake_server(folders=make_folders(SPAM % 1, HAM % 1), script=script) as server,
        open_watcher(server, tmp_path / "watch") as (watcher, _, sink),
    ):
        for _ in range(5):
            watcher.run_pass()
        assert sorted(server.all_messages()) == [("INBOX", HAM % 1), ("INBOX", SPAM % 1)]
        moves = [command for command in server.commands if command.startswith("UID MOVE")]
    assert len(moves) == 1  # and again after a while
    assert sink.text.count("event=message-failed") == 1
    assert "OVERQUOTA" in sink.text


def test_a_message_with_which_the_server_dies_stops_no_other() -> None:
    messages = [HAM % number for number in range(5)]
    recovered: list[bool] = []

    def script(number: int, command: str) -> str | None:
        is_body = command.startswith("UID FETCH") and "BODY.PEEK" in command
        return "bye" if is_body and not recovered and command.split()[2] in ("1:5", "3") else None

    with (
        run_fake_server(folders=make_folders(*messages), script=script) as server,
        open_mailbox(server) as mailbox,
    ):
        outcomes: dict[str, bytes | MessageError] = {}
        failures = 0
        for _ in range(10):
            try:
                inbox = find(mailbox, Role.INBOX)
                uids = [message.uid for message in mailbox.list_messages(inbox)]
                outcomes.update(mailbox.read(inbox, [uid for uid in uids if uid not in outcomes]))
            except MailboxError:
                failures += 1
            if len(outcomes) == 5:
                break
        recovered.append(True)
        assert dict(mailbox.read(inbox, ["3"])) == {"3": messages[2]}  # as the watcher does after a while
    assert isinstance(outcomes["3"], MessageError)
    assert "lost 3 times" in str(outcomes["3"])
    assert [outcomes[uid] for uid in "1245"] == [messages[int(uid) - 1] for uid in "1245"]
    assert failures == 3


def test_reading_changes_nothing_not_even_what_is_recent() -> None:
    with run_fake_server(folders=make_folders(HAM % 1, HAM % 2)) as server, open_mailbox(server) as mailbox:
        inbox = find(mailbox, Role.INBOX)
        uids = [message.uid for message in mailbox.list_messages(inbox)]
        assert dict(mailbox.read(inbox, uids)) == {"1": HAM % 1, "2": HAM % 2}
        mailbox.wait(0.01)
        verbs = {command.split()[0] for command in server.commands}
        assert "EXAMINE" in verbs
        assert not verbs & {"SELECT", "STORE", "COPY", "MOVE"}


def test_a_message_that_is_too_large_is_not_read() -> None:
    with (
        run_fake_server(folders=make_folders(b"x" * 5000, HAM % 1)) as server,
        open_mailbox(server, max_size=1000) as mailbox,
    ):
        inbox = find(mailbox, Role.INBOX)
        outcomes = dict(mailbox.read(inbox, ["1", "2", "9"]))
        assert str(outcomes.pop("1")) == "it has 5000 bytes, more than 1000"
        assert outcomes == {"2": HAM % 1}
        assert not any("BODY" in command and " 1 " in command for command in server.commands)


def test_a_message_that_the_server_refuses_to_show_is_told_apart() -> None:
    def script(number: int, command: str) -> str | None:
        return "no" if "BODY.PEEK" in command and command.split()[2] in ("1:3", "2") else None

    with (
        run_fake_server(folders=make_folders(*(HAM % n for n in range(3))), script=script) as server,
        open_mailbox(server) as mailbox,
    ):
        outcomes = dict(mailbox.read(find(mailbox, Role.INBOX), ["1", "2", "3"]))
    assert isinstance(outcomes["2"], MessageError)
    assert [outcomes["1"], outcomes["3"]] == [HAM % 0, HAM % 2]


def test_new_uids_are_noticed_before_a_message_is_touched() -> None:
    with run_fake_server(folders=make_folders(HAM % 1)) as server, open_mailbox(server) as mailbox:
        inbox, junk = find(mailbox, Role.INBOX), find(mailbox, Role.JUNK)
        server.folders["INBOX"].validity += 1
        mailbox.close()
        with pytest.raises(MailboxError, match="has new uids"):
            mailbox.list_messages(inbox)
        with pytest.raises(MailboxError, match="has new uids"):
            mailbox.move(inbox, "1", junk)
        assert server.all_messages() == [("INBOX", HAM % 1)]


def test_a_copy_that_was_made_before_is_not_made_again() -> None:
    with (
        run_fake_server(folders=make_folders(SPAM % 1, SPAM % 2), capabilities=WITHOUT_MOVE) as server,
        open_mailbox(server) as mailbox,
    ):
        server.folders["Junk"].add(SPAM % 1)
        server.folders["Junk"].add(b"another message")
        inbox, junk = find(mailbox, Role.INBOX), find(mailbox, Role.JUNK)
        assert mailbox.move(inbox, "1", junk, copy_uid="1") == "1"
        assert mailbox.move(inbox, "2", junk, copy_uid="2") == "3"
        with pytest.raises(LookupError):
            mailbox.move(inbox, "1", junk)
        with pytest.raises(LookupError):
            mailbox.move(inbox, "1", junk, copy_uid="1")
        assert sorted(server.all_messages()) == [
            ("Junk", SPAM % 1),
            ("Junk", SPAM % 2),
            ("Junk", b"another message"),
        ]


def test_a_server_without_move_and_uidplus_keeps_messages_where_they_are() -> None:
    capabilities = WITHOUT_MOVE.replace(" UIDPLUS", "")
    with (
        run_fake_server(folders=make_folders(SPAM % 1), capabilities=capabilities) as server,
        open_mailbox(server) as mailbox,
    ):
        inbox, junk = find(mailbox, Role.INBOX), find(mailbox, Role.JUNK)
        with pytest.raises(MessageError, match="neither MOVE nor UID EXPUNGE"):
            mailbox.move(inbox, "1", junk)
        assert server.all_messages() == [("INBOX", SPAM % 1)]


def test_a_folder_that_is_missing_is_created() -> None:
    with run_fake_server(folders={"INBOX": make_folder(SPAM % 1)}) as server, open_mailbox(server) as mailbox:
        inbox, junk = find(mailbox, Role.INBOX), find(mailbox, Role.JUNK)
        assert (junk.name, junk.is_present) == ("Junk", False)
        assert mailbox.list_messages(junk) == []
        assert mailbox.move(inbox, "1", junk) == "1"
        assert server.all_messages() == [("Junk", SPAM % 1)]
        assert find(mailbox, Role.JUNK).is_present


def test_keywords_are_set_only_where_they_are_kept() -> None:
    folders = make_folders(HAM % 1)
    with run_fake_server(folders=folders) as server, open_mailbox(server) as mailbox:
        inbox = find(mailbox, Role.INBOX)
        assert mailbox.add_keywords(inbox, "1", frozenset({"$NotJunk"}))
        assert folders["INBOX"].flags[1] == {"$NotJunk"}
        folders["INBOX"].permanent_flags = r"\Seen \Deleted"
        mailbox.close()
        assert not mailbox.add_keywords(inbox, "1", frozenset({"$Junk"}))
        assert folders["INBOX"].flags[1] == {"$NotJunk"}


def test_a_refused_password_is_not_sent_again_at_once() -> None:
    now = [100.0]
    attempts: list[float] = []

    def refuse(account: Account, secret: str) -> None:
        attempts.append(now[0])
        raise LoginRefusedError("no")

    account = Account("test", host="h", user="ann", password="command", command="echo secret")
    mailbox = ImapMailbox(account, connect=refuse, clock=lambda: now[0])  # type: ignore[arg-type]
    for _ in range(500):
        with pytest.raises(MailboxError, match="no"):
            mailbox.list_folders()
        now[0] += 10
    assert len(attempts) < 15
    waits = [later - earlier for earlier, later in pairwise(attempts)]
    assert waits == sorted(waits)
    assert waits[0] >= 60


def test_the_server_tells_which_of_several_junk_folders_is_used() -> None:
    folders = {
        "INBOX": make_folder(),
        "Spam/2026": make_folder(),
        "A": make_folder(attributes=r"\Junk"),
        "A/old": make_folder(),
        "Spam": make_folder(),
    }
    with run_fake_server(folders=folders) as server, open_mailbox(server) as mailbox:
        assert find(mailbox, Role.JUNK).name == "A"
        folders["A"].attributes = ""
        del folders["A"], folders["A/old"]
        assert find(mailbox, Role.JUNK).name == "Spam"


def test_folders_of_other_people_are_not_watched() -> None:
    folders = {
        **make_folders(),
        "Other/bob": make_folder(),
        "Work": make_folder(),
        "&ZeVnLIqe-": make_folder(),
    }
    with run_fake_server(folders=folders) as server, open_mailbox(server) as mailbox:
        names = {folder.name: folder.role for folder in mailbox.list_folders()}
    assert names == {"INBOX": Role.INBOX, "Junk": Role.JUNK, "Work": Role.OTHER, "日本語": Role.OTHER}


def test_a_folder_that_cannot_be_opened_is_left_out_afterwards() -> None:
    def script(number: int, command: str) -> str | None:
        return "no" if command.startswith("EXAMINE") and "Work" in command else None

    folders = {**make_folders(), "Work": make_folder(HAM % 1)}
    with run_fake_server(folders=folders, script=script) as server, open_mailbox(server) as mailbox:
        work = find(mailbox, Role.OTHER)
        with pytest.raises(MailboxError, match="refused"):
            mailbox.list_messages(work)
        assert {folder.name for folder in mailbox.list_folders()} == {"INBOX", "Junk"}


def test_only_changes_are_asked_for_with_condstore() -> None:
    """The answers of a server with QRESYNC, word for word."""
    answers = iter(
        [
            b"* 1 FETCH (UID 1 FLAGS ())\r\n* 2 FETCH (UID 2 FLAGS ($Junk \\Recent))\r\nTAG OK done\r\n",
            b"* VANISHED (EARLIER) 1\r\n* 2 FETCH (UID 3 FLAGS (\\Seen) MODSEQ (12))\r\nTAG OK done\r\n",
        ]
    )
    changes = iter([10, 12])

    def script(number: int, command: str) -> bytes | None:
        if command.startswith("EXAMINE"):
            line = b"* 2 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [HIGHESTMODSEQ %d] x\r\n" % next(changes)
            return line + b"TAG OK [READ-ONLY] done\r\n"
        return next(answers) if command.startswith("UID FETCH 1:*") else None

    capabilities = f"{ALL_CAPABILITIES} ENABLE CONDSTORE QRESYNC"
    with (
        run_fake_server(folders=make_folders(), script=script, capabilities=capabilities) as server,
        open_mailbox(server) as mailbox,
    ):
        inbox = Folder("INBOX", Role.INBOX, "7")
        first = {message.uid: message.keywords for message in mailbox.list_messages(inbox)}
        second = {message.uid: message.keywords for message in mailbox.list_messages(inbox)}
        fetches = [command for command in server.commands if command.startswith("UID FETCH")]
    assert first == {"1": frozenset(), "2": frozenset({"$Junk"})}
    assert second == {"2": frozenset({"$Junk"}), "3": frozenset({"\\Seen"})}
    assert fetches[1].endswith("(CHANGEDSINCE 10 VANISHED)")
