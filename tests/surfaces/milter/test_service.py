"""`tamis serve milter` as a process: decisions, faults of the store, and mail servers that misbehave."""

import asyncio
import io
import resource
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.serving.filtering import Fault, Filtering, TimedVerdict
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics
from tamis_mail.serving.server import Limits
from tamis_mail.surfaces.milter import codec
from tamis_mail.surfaces.milter.codec import Action, Negotiation, ProtocolOption
from tamis_mail.surfaces.milter.service import MilterService, Policy
from tamis_mail.surfaces.milter.session import Envelope, Message
from tests.surfaces.peers.milter import VERSION_2, MailServer, Milter, pack, run_milter
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, Type, make_store

SPAM, HAM = NEW_SPAM.replace(b"\n", b"\r\n"), NEW_HAM.replace(b"\n", b"\r\n")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("store") / "mail.tamis")


@pytest.fixture(scope="module")
def milter(store: Path) -> Iterator[Milter]:
    with run_milter(
        store, "--idle-timeout", "2", "--user-stores", f"{store.parent}/{{user}}.tamis"
    ) as running:
        yield running


def wait_for(milter: Milter, text: str) -> None:
    for _ in range(400):
        if text in milter.log:
            return
        time.sleep(0.05)
    raise AssertionError(f"the log has no {text}: {milter.log}")


def test_the_verdict_is_inserted_at_the_top_as_one_block(milter: Milter) -> None:
    with MailServer(milter) as server:
        decision = server.ask(SPAM)
        assert decision.last == b"a"
        names = [line.partition(b":")[0] for line in decision.inserted]
        assert names == [b"X-Spam-Flag", b"X-Spam-Level", b"X-Spam-Evidence", b"X-Spam-Status"]
        assert decision.inserted[-1].startswith(b"X-Spam-Status: Yes, score=")
        assert b"X-Spam-Status: No, score=" in server.ask(HAM).inserted[-1]


def test_fields_that_others_wrote_are_removed_from_the_last_on_and_kept_under_another_name(
    milter: Milter,
) -> None:
    with MailServer(milter) as server:
        changes = server.ask(b"X-Spam-Flag: NO\r\nX-Spam-Flag: YES\r\nX-Bogosity: Ham\r\n" + SPAM).changes
    assert changes[:6] == [
        (b"m", b"\0\0\0\1X-Bogosity\0\0"),
        (b"m", b"\0\0\0\2X-Spam-Flag\0\0"),
        (b"m", b"\0\0\0\1X-Spam-Flag\0\0"),
        (b"h", b"X-Old-X-Spam-Flag\0 NO\0"),
        (b"h", b"X-Old-X-Spam-Flag\0 YES\0"),
        (b"h", b"X-Old-X-Bogosity\0 Ham\0"),
    ]
    assert {command for command, _ in changes[6:]} == {b"i"}


def test_a_field_that_is_empty_or_long_keeps_its_value_and_one_that_is_too_long_its_name(
    milter: Milter,
) -> None:
    long, too_long = b"x" * 50_000, b"y" * 70_000
    fields = [b"X-Spam-Status: " + too_long, b"X-Spam-Status: " + long, b"X-Spam-Flag:"]
    with MailServer(milter) as server:
        changes = server.ask(b"".join(field + b"\r\n" for field in fields) + SPAM).changes
    assert changes[:4] == [
        (b"m", b"\0\0\0\1X-Spam-Flag\0\0"),
        (b"m", b"\0\0\0\2X-Spam-Status\0\0"),
        (b"h", b"X-Old-X-Spam-Status\0 " + long + b"\0"),
        (b"h", b"X-Old-X-Spam-Flag\0\0"),
    ]
    assert {command for command, _ in changes[4:]} == {b"i"}
    wait_for(milter, "event=old-fields-left queue=4711 count=1\n")


def test_fields_stay_where_a_server_allows_to_remove_but_not_to_add(milter: Milter) -> None:
    with MailServer(milter, (6, 0x10, 0x1FFFFF)) as server:
        assert server.ask(b"X-Spam-Flag: NO\r\n" + SPAM).changes == []


def test_an_old_server_gets_fields_at_the_end_of_the_header(milter: Milter) -> None:
    with MailServer(milter, VERSION_2) as server:
        assert (server.version, server.steps) == (2, 0x40)
        server.write(pack(b"B", HAM))
        assert server.read() == (b"c", b"")
        server.write(pack(b"E"))
        changes, last = server.read_decision()
    assert last == b"a"
    assert changes[-1][0] == b"h"
    assert changes[-1][1].startswith(b"X-Spam-Status\0No, score=") or changes[-1][1].startswith(
        b"X-Spam-Status\0Unsure, score="
    )


def test_a_server_that_allows_no_change_gets_none(milter: Milter) -> None:
    with MailServer(milter, (6, 0, 0x1FFFFF)) as server:
        assert server.ask(b"X-Spam-Flag: NO\r\n" + SPAM).changes == []


def test_the_recipient_has_a_store_of_his_own_if_there_is_one_recipient(milter: Milter, store: Path) -> None:
    shutil.copy(store, store.parent / "bob@example.test.tamis")
    with Sieve.open(store.parent / "bob@example.test.tamis") as sieve:
        sieve.learn_many([NEW_SPAM + b"%d\n" % number for number in range(20)], "ham", processes=1)
    with MailServer(milter) as server:
        assert b": Yes," in server.ask(SPAM, "ann@example.test").inserted[-1]
        assert b": Yes," not in server.ask(SPAM, "Bob@Example.test").inserted[-1]
        assert b": Yes," in server.ask(SPAM, "ann@example.test", "bob@example.test").inserted[-1]
        assert b": Yes," in server.ask(SPAM, "../bob@example.test").inserted[-1]


def test_mail_of_clients_that_logged_in_is_accepted_unchanged(milter: Milter) -> None:
    with MailServer(milter) as server:
        decision = server.ask(SPAM, macros=("i", "1", "{auth_type}", "PLAIN"))
        assert (decision.changes, decision.last, decision.body_replies) == ([], b"a", [b"a"])
        assert server.ask(SPAM).changes


def test_a_mail_server_that_misbehaves_disturbs_nobody(milter: Milter) -> None:
    with MailServer(milter) as good:
        for bad in (b"GET / HTTP/1.0\r\n\r\n", pack(b"L", b"x"), pack(b"Z"), b"\0\0\0\0", b"\xff" * 9):
            with MailServer(milter) as server:
                server.write(bad)
                assert server.read() == (b"", b"")
        for _ in range(10):
            with MailServer(milter) as gone:
                gone.write(pack(b"M", b"<>\0"), pack(b"B", b"half"))
        assert good.ask(SPAM).last == b"a"
    with MailServer(milter) as silent:
        silent.write(b"\0\0")
        assert silent.read() == (b"", b"")
    wait_for(milter, "the mail server has sent nothing for too long")


def test_twenty_messages_in_one_connection_and_an_abort_between_them(milter: Milter) -> None:
    with MailServer(milter) as server:
        for number in range(20):
            assert (b": Yes," in server.ask((SPAM, HAM)[number % 2]).inserted[-1]) == (number % 2 == 0)
            server.write(pack(b"M", b"<>\0"), pack(b"R", b"<x@y>\0"), pack(b"A"))
        server.write(pack(b"Q"))
        assert server.read() == (b"", b"")


def test_the_log_has_no_content_of_messages(milter: Milter) -> None:
    with MailServer(milter) as server:
        server.ask(b"From: secret@secret.example\r\nSubject: secret\r\n\r\nsecret", "secret@example.test")
        server.write(pack(b"Z", b"secret"))
        server.read()
    assert "secret" not in milter.log
    assert "queue=4711" in milter.log


def add_later_migration(store: Path) -> None:
    """Let a store look as if a later version had written it."""
    with closing(sqlite3.connect(store)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(migration)")]
        values = ["9999-later" if name == "name" else 0 for name in columns]
        connection.execute(f"INSERT INTO migration VALUES ({', '.join('?' * len(values))})", values)


def test_faults_of_a_running_store_are_no_reason_to_refuse_mail(tmp_path: Path) -> None:
    """The rows of the table in docs/howto/mail-milter.md."""
    store = make_store(tmp_path / "mail.tamis")
    forged = b"X-Spam-Status: No\r\n" + SPAM
    removed = [(b"m", b"\0\0\0\1X-Spam-Status\0\0"), (b"h", b"X-Old-X-Spam-Status\0 No\0")]
    with run_milter(store, "--max-size", "1000") as milter, MailServer(milter) as server:
        data = store.read_bytes()
        with closing(sqlite3.connect(store, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            assert b": Yes," in server.ask(SPAM).inserted[-1]  # locked
        store.chmod(0o400)
        tmp_path.chmod(0o500)
        assert b": Yes," in server.ask(SPAM).inserted[-1]  # read-only, unless root runs the test
        tmp_path.chmod(0o700)
        limits = resource.prlimit(milter.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(milter.process.pid, resource.RLIMIT_FSIZE, (1, limits[1]))
        assert b": Yes," in server.ask(SPAM).inserted[-1]  # on a full disk
        resource.prlimit(milter.process.pid, resource.RLIMIT_FSIZE, limits)
        store.unlink()
        assert b": Unsure, score=0.00" in server.ask(SPAM).inserted[-1]  # missing
        store.write_bytes(b"no store" * 1000)
        decision = server.ask(forged)  # corrupt
        assert (decision.changes, decision.last) == (removed, b"a")
        store.write_bytes(data)
        add_later_migration(store)
        decision = server.ask(forged)  # of a newer version
        assert (decision.changes, decision.last) == (removed, b"a")
        (tmp_path / "new").write_bytes(data)
        (tmp_path / "new").replace(store)
        assert b": Yes," in server.ask(SPAM).inserted[-1]  # restored
        decision = server.ask(forged + b"x" * 200_000)  # too large
        assert (decision.changes, decision.last, decision.body_replies) == (removed, b"a", [b"s"])
        assert milter.log.count("event=store-fault") == 2
        assert milter.log.count("event=too-large") == 1


def test_a_fault_can_make_the_sender_try_again(tmp_path: Path) -> None:
    (tmp_path / "mail.tamis").write_bytes(b"no store" * 1000)
    with (
        run_milter(tmp_path / "mail.tamis", "--on-fault", "tempfail") as milter,
        MailServer(milter) as server,
    ):
        decision = server.ask(SPAM)
        assert (decision.changes, decision.last) == ([], b"t")


def test_the_fields_can_be_those_of_bogofilter_and_others_left_alone(store: Path) -> None:
    with run_milter(store, "--dialect", "bogofilter", "--add-only") as milter, MailServer(milter) as server:
        decision = server.ask(b"X-Bogosity: Ham\r\n" + SPAM)
    (line,) = decision.inserted
    assert line.startswith(b"X-Bogosity: Spam, tests=bogofilter, spamicity=0.9")
    assert len(decision.changes) == 1


def test_the_evidence_can_be_left_out(store: Path) -> None:
    with run_milter(store, "--no-evidence") as milter, MailServer(milter) as server:
        names = [line.partition(b":")[0] for line in server.ask(SPAM).inserted]
    assert names == [b"X-Spam-Flag", b"X-Spam-Level", b"X-Spam-Status"]


@pytest.mark.parametrize(
    ("action", "last"), [("reject", b"y550 5.7.1 This message was taken for spam\0"), ("discard", b"d")]
)
def test_spam_can_be_rejected_or_discarded_and_nothing_else_is(store: Path, action: str, last: bytes) -> None:
    with run_milter(store, "--on-spam", action) as milter, MailServer(milter) as server:
        decision = server.ask(SPAM)
        assert (decision.changes, decision.last) == ([], last)
        assert server.ask(HAM).last == b"a"
        assert server.ask(b"Subject: neither\r\n\r\nzzz").last == b"a"


def test_spam_can_be_quarantined_where_the_server_has_a_quarantine(store: Path) -> None:
    with run_milter(store, "--on-spam", "quarantine") as milter:
        with MailServer(milter) as server:
            decision = server.ask(SPAM)
            assert decision.changes[-1] == (b"q", b"tamis: spam\0")
            assert b": Yes," in decision.inserted[-1]
            assert (b"q", b"tamis: spam\0") not in server.ask(HAM).changes
        with MailServer(milter, (6, 0x11, 0x1FFFFF)) as without:
            decision = without.ask(SPAM)
            assert (b"q", b"tamis: spam\0") not in decision.changes
            assert b": Yes," in decision.inserted[-1]


class _Recording(Filtering):
    raw = b""

    async def judge(self, raw: bytes, user: str = "", *, with_evidence: bool = False) -> TimedVerdict | Fault:
        self.raw = raw
        return Fault("nothing was judged")


def make_service(filtering: Filtering, stream: io.StringIO, policy: Policy) -> MilterService:
    return MilterService(
        filtering,
        Log(stream),
        Metrics(),
        limits=Limits(),
        version="1",
        policy=policy,
        verdict_seconds=0.05,
    )


def test_a_message_is_judged_with_the_field_that_the_server_will_add(tmp_path: Path) -> None:
    envelope = Envelope(b"mx.elsewhere.test", b"192.0.2.1", b"mx", b"home.example", b"4711")
    message = Message(SPAM, len(SPAM), envelope, (), 0)
    agreed = Negotiation(6, Action.ADD_HEADERS, ProtocolOption.LEADING_SPACE)

    async def decide() -> bytes:
        filtering = _Recording(lambda user: tmp_path / "x")
        await make_service(filtering, io.StringIO(), Policy()).decide(message, agreed)
        return filtering.raw

    raw = asyncio.run(decide())
    assert raw.startswith(
        b"Received: from mx (mx.elsewhere.test [192.0.2.1])\r\n\tby home.example with ESMTP"
    )
    assert raw.endswith(b"\r\n" + SPAM)


class _Slow(Filtering):
    async def judge(self, raw: bytes, user: str = "", *, with_evidence: bool = False) -> TimedVerdict | Fault:
        await asyncio.sleep(60)
        return Fault("too late")


class _Broken(Filtering):
    async def judge(self, raw: bytes, user: str = "", *, with_evidence: bool = False) -> TimedVerdict | Fault:
        raise RuntimeError("secret")


@pytest.mark.parametrize(
    ("kind", "reason"), [(_Slow, "no verdict within 0.05 s"), (_Broken, "unexpected RuntimeError")]
)
@pytest.mark.parametrize(
    ("on_fault", "last"), [("accept", codec.ACCEPT), ("tempfail", codec.TEMPORARY_FAILURE)]
)
def test_a_verdict_that_does_not_come_is_a_fault(
    tmp_path: Path, kind: type[Filtering], reason: str, on_fault: str, last: bytes
) -> None:
    stream = io.StringIO()
    message = Message(SPAM, len(SPAM), Envelope(queue_id=b"4711"), (), 0)
    agreed = Negotiation(6, Action.ADD_HEADERS, ProtocolOption.LEADING_SPACE)

    async def decide() -> bytes:
        service = make_service(kind(lambda user: tmp_path / "x"), stream, Policy(on_fault=on_fault))
        return await service.decide(message, agreed)

    assert asyncio.run(decide()) == last
    assert reason in stream.getvalue()
    assert "secret" not in stream.getvalue()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--on-spam", "burn"], "invalid choice: 'burn'"),
        (["--on-fault", "panic"], "invalid choice: 'panic'"),
        (["--dialect", "latin"], "invalid choice: 'latin'"),
        (["--listen", "inet:8783@localhost"], "expected HOST:PORT, [ADDRESS]:PORT, unix:PATH or systemd"),
    ],
)
def test_a_wrong_option_is_one_clear_line(typed: Type, words: list[str], sentence: str) -> None:
    answer = typed("serve", "milter", *words)
    assert answer.status != 0
    assert sentence in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
