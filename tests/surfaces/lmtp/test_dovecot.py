"""`tamis serve lmtp` before Dovecot's real LMTP: verdicts arrive, and no byte is lost, altered or doubled."""

import re
import time
from collections.abc import Iterator

import pytest

from tamis_mail import Sieve
from tamis_mail.verdict.header_fields import remove_verdict
from tests.surfaces.peers.dovecot import Dovecot, needs_dovecot, run_dovecot
from tests.surfaces.peers.lmtp import LmtpDaemon, run_lmtp
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, SPAM, make_store

pytestmark = [pytest.mark.peers, needs_dovecot]

ANN, BEN = "ann@example.org", "ben@example.org"


def on_the_wire(raw: bytes) -> bytes:
    return raw.replace(b"\n", b"\r\n")


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with run_dovecot(users=(ANN, BEN)) as running:
        yield running


@pytest.fixture(scope="module")
def daemon(dovecot: Dovecot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LmtpDaemon]:
    folder = tmp_path_factory.mktemp("lmtp")
    (folder / "users").mkdir()
    with Sieve.open(make_store(folder / "users" / f"{BEN}.tamis")) as sieve:
        for raw in [NEW_SPAM, *SPAM]:
            sieve.learn(raw, "ham")
    users = str(folder / "users" / "{user}.tamis")
    store = make_store(folder / "mail.tamis")
    with run_lmtp(folder, store, dovecot.lmtp, "--user-stores", users, "--max-size", "100000") as running:
        yield running


def take_mail(dovecot: Dovecot, user: str = ANN) -> list[bytes]:
    """Return a user's messages without the fields that Dovecot adds, and delete them."""
    messages = [raw for _, raw in dovecot.list_messages(user)]
    dovecot.doveadm("expunge", "mailbox", "INBOX", "all", user=user)
    own = re.compile(rb"\A(?:(?:Return-Path|Delivered-To|Received):[^\n]*\n(?:\t[^\n]*\n)*)+")
    return [own.sub(b"", raw) for raw in messages]


def test_spam_and_ham_arrive_with_their_verdicts(daemon: LmtpDaemon, dovecot: Dovecot) -> None:
    with daemon.connect() as client:
        for raw in (NEW_SPAM, NEW_HAM):
            assert client.begin(ANN.encode()) == [b"250 2.1.5 OK\r\n"]
            assert client.deliver(on_the_wire(raw))[0].startswith(b"250 2.0.0 <ann@example.org> ")
        assert client.say(b"QUIT") == b"221 2.0.0 bye\r\n"
    spam, ham = take_mail(dovecot)
    assert spam.startswith(b"X-Spam-Flag: YES\r\n")
    assert b"X-Spam-Status: No, " in ham
    assert [remove_verdict(spam), remove_verdict(ham)] == [on_the_wire(NEW_SPAM), on_the_wire(NEW_HAM)]


ODD = [
    b"Subject: a\r\n\r\nbody\r\n",
    b"Subject: a\r\n\r\n.\r\n..\r\n...\r\n.dot\r\n",
    b"Subject: no body\r\n",
    b"\r\nbody only\r\n",
    b"no header at all\r\n",
    b" continued\r\nSubject: a\r\n\r\nbody\r\n",
    b"X-Spam-Flag: YES\r\nX-Spam-Status: Yes\r\nSubject: forged\r\n\r\nbody\r\n",
    b"Subject: \xff\xfe\r\n\r\n\x80\xff" + b"long line " * 5000 + b"\r\n",
    b"Subject: a\r\n\r\ncarriage\rreturn\r.\rno end\r\n",
]


def test_no_byte_of_a_message_is_lost_or_altered(daemon: LmtpDaemon, dovecot: Dovecot) -> None:
    with daemon.connect() as client:
        for raw in ODD:
            client.begin(ANN.encode())
            assert client.deliver(raw)[0].startswith(b"250 ")
    messages = take_mail(dovecot)
    assert all(b"X-Spam-Status: " in raw for raw in messages)
    assert [remove_verdict(raw) for raw in messages] == ODD


@pytest.mark.parametrize("dot", [b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r.\r\n", b"\n.\r"], ids=repr)
def test_a_dot_between_other_line_ends_smuggles_nothing(
    daemon: LmtpDaemon, dovecot: Dovecot, dot: bytes
) -> None:
    """Dovecot, which takes most of them for the end, gets the length of such a message."""
    raw = b"Subject: a\r\n\r\nbody" + dot + b"MAIL FROM:<evil@example.net>\r\nRCPT TO:<ben@example.org>\r\n"
    with daemon.connect() as client:
        client.begin(ANN.encode())
        assert client.deliver(raw)[0].startswith(b"250 ")
        assert client.say(b"NOOP") == b"250 2.0.0 ok\r\n"
    (arrived,) = take_mail(dovecot)
    # A Maildir has one kind of line ends: Dovecot writes LF for CR LF, and gives out CR LF for each LF.
    assert remove_verdict(arrived) == re.sub(rb"\r?\n", b"\r\n", raw)
    assert take_mail(dovecot, BEN) == []


def test_each_recipient_gets_the_verdict_of_his_own_store(daemon: LmtpDaemon, dovecot: Dovecot) -> None:
    with daemon.connect() as client:
        replies = client.begin(ANN.encode(), b"nobody@example.org", b"BEN+offers@example.org")
        assert [reply[:9] for reply in replies] == [b"250 2.1.5", b"550 5.1.1", b"250 2.1.5"]
        replies = client.deliver(on_the_wire(NEW_SPAM), 2)
        assert [reply[:8].lower() for reply in replies] == [b"250 2.0."] * 2
        assert b"ann@example.org" in replies[0]
        assert b"ben+offers@example.org" in replies[1].lower()
        replies = client.begin(ANN.encode(), ANN.encode())
        assert len(client.deliver(on_the_wire(NEW_HAM), 2)) == 2
    spam, *_ = take_mail(dovecot)
    assert b"X-Spam-Flag: YES" in spam
    (ham,) = take_mail(dovecot, BEN)
    assert b"X-Spam-Status: " in ham
    assert b"X-Spam-Flag" not in ham
    assert "transactions=2" in daemon.log.read_text()


def test_a_message_that_is_too_large_to_be_judged_is_passed_on(daemon: LmtpDaemon, dovecot: Dovecot) -> None:
    raw = b"Subject: large\r\n\r\n" + b"\r\n.\r\n".join([b"x" * 70, b".y" * 3000] * 100) + b"\r\n"
    with daemon.connect() as client:
        client.begin(ANN.encode(), BEN.encode())
        assert [reply[:3] for reply in client.deliver(raw, 2)] == [b"250", b"250"]
        assert client.say(b"NOOP") == b"250 2.0.0 ok\r\n"
    assert take_mail(dovecot) == take_mail(dovecot, BEN) == [raw]


def test_a_pipelined_session_gets_every_reply_in_its_order(daemon: LmtpDaemon, dovecot: Dovecot) -> None:
    commands = b"MAIL FROM:<>\r\nRCPT TO:<ann@example.org>\r\nRCPT TO:<no@example.org>\r\nDATA\r\n"
    with daemon.connect() as client:
        assert client.say(b"LHLO client").startswith(b"250-tamis\r\n250-PIPELINING\r\n")
        for number in range(3):
            client.send(commands)
            assert [client.read()[:3] for _ in range(4)] == [b"250", b"250", b"550", b"354"]
            client.send(b"Subject: %d\r\n\r\n.\r\nNOOP\r\n" % number)
            assert [client.read()[:9] for _ in range(2)] == [b"250 2.0.0", b"250 2.0.0"]
    assert [remove_verdict(raw) for raw in take_mail(dovecot)] == [
        b"Subject: %d\r\n\r\n" % number for number in range(3)
    ]


def test_mail_waits_while_dovecot_is_down_and_arrives_once_afterwards(
    daemon: LmtpDaemon, dovecot: Dovecot
) -> None:
    raw = on_the_wire(NEW_HAM)
    with daemon.connect() as client:
        client.begin(ANN.encode())
        dovecot.kill()
        assert client.say(b"RCPT TO:<ben@example.org>").startswith(b"451 4.4.2 ")
        assert client.deliver(raw) == [b"451 4.4.2 the next hop did not finish, try again\r\n"]
        assert client.say(b"MAIL FROM:<bob@example.net>").startswith(b"451 4.4.1 ")
    with daemon.connect() as client:
        assert client.say(b"LHLO client").startswith(b"451 4.4.1 ")
        dovecot.start()
        _wait_for_lmtp(daemon)
        assert client.begin(ANN.encode()) == [b"250 2.1.5 OK\r\n"]
        dovecot.restart()  # between RCPT and DATA: sender and recipient are named again
        _wait_for_lmtp(daemon)
        assert client.deliver(raw)[0].startswith(b"250 ")
    assert [remove_verdict(each) for each in take_mail(dovecot)] == [raw]
    assert take_mail(dovecot, BEN) == []


def _wait_for_lmtp(daemon: LmtpDaemon) -> None:
    for _ in range(400):
        with daemon.connect() as client:
            if client.say(b"LHLO client").startswith(b"250"):
                return
        time.sleep(0.05)
    raise AssertionError("Dovecot's LMTP does not come back")
