"""`tamis serve lmtp` as a process: 250 is never said without a delivery, whatever fails and whenever."""

import asyncio
import io
import re
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

from tamis_mail.serving.filtering import Fault, Filtering, TimedVerdict
from tamis_mail.serving.listeners import Listener
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics
from tamis_mail.serving.server import Limits, Server
from tamis_mail.surfaces.lmtp.next_hop import NextHop
from tamis_mail.surfaces.lmtp.service import LmtpService, Marking
from tamis_mail.verdict.header_fields import remove_verdict
from tests.surfaces.peers.daemon import find_free_port
from tests.surfaces.peers.lmtp import OK, LmtpClient, LmtpDaemon, ScriptedHop, run_hop, run_lmtp, stuff
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, Type, make_store

ANN, BEN, CAT = b"ann@example.org", b"ben@example.org", b"cat@example.org"
SPAM = NEW_SPAM.replace(b"\n", b"\r\n")
HAM = NEW_HAM.replace(b"\n", b"\r\n")
LARGE = b"Subject: large\r\n\r\n" + b"a line of a large message\r\n" * 20_000
METRICS = find_spec("prometheus_client") is not None


class Bench:
    """A filter that runs for all tests of this file, before a next hop that each test scripts anew."""

    def __init__(self, daemon: LmtpDaemon, store: Path, hop: Path, metrics: int) -> None:
        self.daemon = daemon
        self.store = store
        self.hop = hop
        self.metrics = metrics


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("lmtp")
    store = make_store(folder / "mail.tamis")
    (folder / "users").mkdir()
    (folder / "users" / "ben.tamis").write_bytes(b"no store" * 1000)
    metrics = find_free_port()
    options = ["--metrics", f"127.0.0.1:{metrics}"] if METRICS else []
    options += ["--user-stores", str(folder / "users" / "{user}.tamis"), "--user-name", "local-part"]
    options += ["--max-size", "100000", "--next-timeout", "15"]
    with run_lmtp(folder, store, folder / "hop.sock", *options) as daemon:
        yield Bench(daemon, store, folder / "hop.sock", metrics)


@pytest.fixture
def hop(bench: Bench) -> Iterator[ScriptedHop]:
    with run_hop(ScriptedHop(bench.hop)) as running:
        yield running


@pytest.fixture
def client(bench: Bench, hop: ScriptedHop) -> Iterator[LmtpClient]:
    with bench.daemon.connect() as connected:
        yield connected


def answer(verb: bytes, reply: bytes | None) -> Callable[[bytes], bytes | None]:
    """Return a script that answers commands that begin so in another way; None ends the session."""
    return lambda line: reply if verb and line.startswith(verb) else b""


def test_parameters_and_extensions_are_passed_on_as_they_are(client: LmtpClient, hop: ScriptedHop) -> None:
    hello = client.say(b"LHLO mail.example.net")
    offered = [b"tamis", b"PIPELINING", b"ENHANCEDSTATUSCODES", b"8BITMIME", b"SIZE 1000000", b"SMTPUTF8"]
    assert [line[4:] for line in hello.splitlines()] == offered
    mail = "MAIL FROM:<bjørn@example.net> SIZE=100 BODY=8BITMIME SMTPUTF8".encode()
    recipient = b'RCPT TO:<"a b"@example.org> NOTIFY=NEVER'
    assert client.say(mail) == OK
    assert client.say(recipient) == OK
    assert client.deliver(SPAM) == [OK]
    assert {b"LHLO mail.example.net", mail, recipient} <= set(hop.lines)
    assert remove_verdict(hop.deliveries[0].raw) == SPAM
    assert hop.deliveries[0].raw.startswith(b"X-Spam-Flag: YES\r\n")
    assert b"\r\nX-Spam-Evidence: " in hop.deliveries[0].raw


@pytest.mark.parametrize("verb", [b"MAIL", b"RCPT"])
@pytest.mark.parametrize(
    "reply", [b"452-4.2.2 full\r\n452 4.2.2 come later\r\n", b"550 5.1.1 no \xc3\xb8\r\n"]
)
def test_refusals_of_commands_are_passed_on(
    client: LmtpClient, hop: ScriptedHop, verb: bytes, reply: bytes
) -> None:
    hop.script = answer(verb, reply)
    assert client.say(b"LHLO client").startswith(b"250")
    replies = [client.say(b"MAIL FROM:<a@example.net>"), client.say(b"RCPT TO:<%s>" % ANN)]
    assert replies[0 if verb == b"MAIL" else 1] == reply
    assert client.say(b"DATA").startswith(b"503 5.5.1 ")


def test_each_recipient_gets_the_answer_of_the_next_hop(client: LmtpClient, hop: ScriptedHop) -> None:
    answers = {
        b"ann": b"452-4.2.2 mailbox\r\n452 4.2.2 full\r\n",
        b"cat": b"250 2.0.0 saved\r\n",
        b"dan": b"550 5.7.1 no\r\n",
    }
    hop.final = lambda line: answers[line[9:12]]
    client.begin(ANN, CAT, b"dan@example.org", CAT)
    replies = client.deliver(HAM, 4)
    assert replies == [answers[name] for name in (b"ann", b"cat", b"dan", b"cat")]
    assert client.name(CAT) == [OK]
    assert client.deliver(HAM) == [answers[b"cat"]]


def test_recipients_with_different_verdicts_get_transactions_of_their_own(
    client: LmtpClient, hop: ScriptedHop
) -> None:
    """The store of ben is damaged: he gets his message as it came."""
    client.begin(ANN, BEN, CAT)
    answers = {b"ann": b"250 2.0.0 a\r\n", b"ben": b"250 2.0.0 b\r\n", b"cat": b"451 4.0.0 c\r\n"}
    hop.final = lambda line: answers[line[9:12]]
    assert client.deliver(SPAM, 3) == list(answers.values())
    marked, plain = hop.deliveries
    assert [line[9:12] for line in marked.recipients] == [b"ann", b"cat"]
    assert [line[9:12] for line in plain.recipients] == [b"ben"]
    assert b"X-Spam-Flag: YES" in marked.raw
    assert plain.raw == SPAM


def test_a_recipient_who_is_refused_when_he_is_named_again_gets_that_answer(
    client: LmtpClient, hop: ScriptedHop
) -> None:
    client.begin(ANN, BEN, CAT)
    hop.script = answer(b"RCPT TO:<cat", b"452 4.2.2 full now\r\n")
    assert client.deliver(SPAM, 3) == [OK, OK, b"452 4.2.2 full now\r\n"]
    hop.script = answer(b"MAIL", b"451 4.3.0 not now\r\n")
    hop.final = lambda line: b"250 2.0.0 late\r\n"
    client.say(b"RSET")
    assert client.say(b"MAIL FROM:<a@example.net>") == b"451 4.3.0 not now\r\n"
    assert len(hop.deliveries) == 2


LOST = b"451 4.4.2 the next hop did not finish, try again\r\n"


@pytest.mark.parametrize("verb", [b"DATA", b"RSET", b"NOOP"])
def test_a_next_hop_that_leaves_before_the_message_is_asked_once_more(
    client: LmtpClient, hop: ScriptedHop, verb: bytes
) -> None:
    ends = iter([None])
    client.begin(ANN, BEN)  # two groups, so that RSET is said

    def script(line: bytes) -> bytes | None:
        return next(ends, b"") if line.startswith(verb) else b""

    hop.script = script
    replies = client.deliver(SPAM, 2)
    assert len(hop.deliveries) == replies.count(OK)
    assert set(replies) <= {OK, LOST}
    if verb == b"RSET":
        assert replies == [OK, OK]


def test_a_next_hop_that_refuses_the_message_refuses_it_for_all(client: LmtpClient, hop: ScriptedHop) -> None:
    hop.script = answer(b"DATA", b"554-5.6.0 not\r\n554 5.6.0 this\r\n")
    client.begin(ANN, CAT)
    assert client.deliver(SPAM, 2) == [b"554-5.6.0 not\r\n554 5.6.0 this\r\n"] * 2
    hop.script = answer(b"none", None)
    client.name(ANN)
    assert client.deliver(SPAM) == [OK]


def test_a_next_hop_that_dies_after_the_message_gives_no_positive_answer(
    client: LmtpClient, hop: ScriptedHop
) -> None:
    replies = iter([OK, None])
    hop.final = lambda line: next(replies)
    client.begin(ANN, CAT, b"dan@example.org")
    assert client.deliver(HAM, 3) == [OK, LOST, LOST]
    assert client.say(b"NOOP") == OK


@pytest.mark.parametrize("code", [b"200", b"250", b"355"])
def test_a_positive_reply_to_data_is_no_delivery(client: LmtpClient, hop: ScriptedHop, code: bytes) -> None:
    hop.script = answer(b"DATA", code + b" 2.0.0 fine\r\n")
    client.begin(ANN, CAT)
    assert client.deliver(SPAM, 2) == [LOST, LOST]
    client.name(ANN)
    assert client.deliver(LARGE) == [LOST]
    assert hop.deliveries == []


@pytest.mark.parametrize(
    "garbage", [b"hello\r\n", b"250-a\r\n550 b\r\n", b"2" * 10_000, b"421 4.3.2 bye\r\n", b"354 go\r\n"]
)
def test_a_next_hop_that_says_something_strange_gives_no_positive_answer(
    client: LmtpClient, hop: ScriptedHop, garbage: bytes
) -> None:
    hop.final = lambda line: garbage
    client.begin(ANN)
    assert client.deliver(HAM) == [LOST]
    hop.script = lambda line: garbage if line.startswith(b"RCPT") else b""
    assert client.name(ANN) == [LOST]
    assert client.say(b"DATA").startswith(b"503 5.5.1 ")
    client.say(b"RSET")
    hop.script = lambda line: garbage if line.startswith(b"MAIL") else b""
    assert client.say(b"MAIL FROM:<a@example.net>").startswith(b"451 4.4.1 ")


@pytest.mark.parametrize("greeting", [None, b"554 go away\r\n", b"hello\r\n"])
def test_without_a_next_hop_the_client_keeps_its_mail(
    bench: Bench, hop: ScriptedHop, greeting: bytes | None
) -> None:
    hop.script = lambda line: greeting
    with bench.daemon.connect() as client:
        assert client.say(b"LHLO client") == b"451 4.4.1 the next hop cannot be reached, try again\r\n"
        assert client.say(b"MAIL FROM:<a@example.net>").startswith(b"503 ")
        hop.script = lambda line: b""
        client.begin(ANN)
        assert client.deliver(HAM) == [OK]


def test_the_evidence_can_be_left_out(tmp_path: Path, bench: Bench) -> None:
    hop = ScriptedHop(tmp_path / "hop.sock")
    with (
        run_hop(hop),
        run_lmtp(tmp_path, bench.store, hop.path, "--no-evidence") as daemon,
        daemon.connect() as client,
    ):
        client.begin(ANN)
        assert client.deliver(SPAM) == [OK]
    assert hop.deliveries[0].raw.startswith(b"X-Spam-Flag: YES\r\n")
    assert b"X-Spam-Evidence" not in hop.deliveries[0].raw


def test_by_smtp_the_one_answer_holds_for_all(tmp_path: Path, bench: Bench) -> None:
    hop = ScriptedHop(tmp_path / "hop.sock", is_lmtp=False, final=lambda line: b"250 2.0.0 queued\r\n")
    with (
        run_hop(hop),
        run_lmtp(tmp_path, bench.store, hop.path, "--next-protocol", "smtp", "--dialect", "bogofilter") as it,
        it.connect() as client,
    ):
        client.begin(ANN, CAT)
        assert client.deliver(SPAM, 2) == [b"250 2.0.0 queued\r\n"] * 2
        hop.final = lambda line: None
        client.name(ANN, CAT)
        assert client.deliver(SPAM, 2) == [LOST, LOST]
    assert hop.lines[0] == b"EHLO client"
    assert hop.deliveries[0].raw.startswith(b"X-Bogosity: Spam, ")


def test_the_fields_are_no_reason_to_refuse_a_message_for_its_size(
    client: LmtpClient, hop: ScriptedHop
) -> None:
    hop.extensions = [b"SIZE %d" % len(SPAM)]
    client.begin(ANN)
    assert client.deliver(SPAM) == [OK]
    assert hop.deliveries[0].raw == SPAM


@pytest.mark.parametrize("raw", [b"Subject: a\r\n\r\na\n.\nMAIL\r\n", b"a\r.\r\nb\r\n"])
@pytest.mark.parametrize("filler", [b"", b"x" * 200_000 + b"\r\n"])
def test_a_lone_dot_between_bare_line_ends_is_sent_by_length_or_refused(
    client: LmtpClient, hop: ScriptedHop, raw: bytes, filler: bytes
) -> None:
    """The scripted next hop reads as Dovecot does: it takes the first one for the end of the message."""
    client.begin(ANN, CAT)
    assert [reply[:9] for reply in client.deliver(filler + raw, 2)] == [b"554 5.6.0"] * 2
    hop.extensions = [b"CHUNKING"]
    client.begin(ANN, CAT)
    assert client.deliver(filler + raw, 2) == [OK, OK]
    (delivery,) = hop.deliveries
    assert delivery.by_length
    assert remove_verdict(delivery.raw) == filler + raw


@pytest.mark.parametrize("extension", [b"8BITMIME", b"CHUNKING"])
def test_a_message_that_is_sent_in_parts_is_the_same(tmp_path: Path, bench: Bench, extension: bytes) -> None:
    bare = b"\n" if extension == b"CHUNKING" else b""
    raw = SPAM + b"\r\n.".join([b"x" * 700] * 2000) + bare + b"\r\n"
    hop = ScriptedHop(tmp_path / "hop.sock", extensions=[extension])
    with (
        run_hop(hop),
        run_lmtp(tmp_path, bench.store, hop.path, "--no-evidence") as daemon,
        daemon.connect() as client,
    ):
        client.begin(ANN)
        assert client.deliver(raw) == [OK]
    (delivery,) = hop.deliveries
    assert delivery.by_length == (extension == b"CHUNKING")
    assert b"X-Spam-Status: " in delivery.raw
    assert remove_verdict(delivery.raw) == raw


@pytest.mark.parametrize("extension", [b"8BITMIME", b"CHUNKING"])
def test_a_large_message_is_passed_on_without_a_verdict(
    client: LmtpClient, hop: ScriptedHop, extension: bytes
) -> None:
    hop.extensions = [extension]
    hop.final = lambda line: b"452 4.2.2 full\r\n" if b"cat" in line else OK
    client.begin(ANN, CAT)
    assert client.deliver(LARGE, 2) == [OK, b"452 4.2.2 full\r\n"]
    assert [delivery.raw for delivery in hop.deliveries] == [LARGE]
    client.name(ANN)
    assert client.deliver(HAM) == [OK]


@pytest.mark.parametrize("extension", [b"8BITMIME", b"CHUNKING"])
def test_a_next_hop_that_dies_within_a_large_message_gets_the_rest_discarded(
    client: LmtpClient, hop: ScriptedHop, extension: bytes
) -> None:
    hop.extensions = [extension]
    client.begin(ANN, CAT)
    parts = iter([b"", b""])
    hop.script = lambda line: next(parts, None) if line.startswith(b"BDAT") else b""
    if extension != b"CHUNKING":
        hop.script = answer(b"DATA", b"452 4.3.1 no space\r\n")
    replies = client.deliver(LARGE, 2)
    assert replies == [LOST if extension == b"CHUNKING" else b"452 4.3.1 no space\r\n"] * 2
    assert hop.deliveries == []
    assert client.say(b"NOOP") == OK


def test_answers_that_are_known_early_wait_for_the_end_of_a_large_message(
    client: LmtpClient, hop: ScriptedHop
) -> None:
    client.begin(CAT, ANN)
    ends = iter([None])

    def script(line: bytes) -> bytes | None:
        if line == b"NOOP":
            return next(ends, b"")
        return b"452 4.2.2 full now\r\n" if line.startswith(b"RCPT TO:<cat") else b""

    hop.script = script
    client.say(b"DATA")
    client.send(LARGE)
    while not hop.n_partial:
        time.sleep(0.01)
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.read()
    client.socket.settimeout(20)
    client.send(b".\r\n")
    assert [client.read(), client.read()] == [b"452 4.2.2 full now\r\n", OK]
    assert [delivery.raw for delivery in hop.deliveries] == [LARGE]


def test_a_client_that_has_gone_before_the_next_hop_has_the_message_gets_no_delivery(
    bench: Bench, hop: ScriptedHop
) -> None:
    """It would send the message once more."""
    has_gone = threading.Event()

    def script(line: bytes) -> bytes:
        if line == b"NOOP":
            has_gone.wait(20)
            time.sleep(0.1)
        return b""

    with bench.daemon.connect() as client:
        client.begin(ANN)
        hop.script = script
        client.say(b"DATA")
        client.send(SPAM + b".\r\n")
        while b"NOOP" not in hop.lines:
            time.sleep(0.01)
    has_gone.set()
    while b"QUIT" not in hop.lines:
        time.sleep(0.01)
    assert hop.deliveries == []


@pytest.mark.parametrize("raw", [SPAM, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("end", [b"", b".", b".\r"])
def test_a_message_without_its_end_is_not_delivered(
    bench: Bench, hop: ScriptedHop, raw: bytes, end: bytes
) -> None:
    with bench.daemon.connect() as client:
        client.begin(ANN)
        client.say(b"DATA")
        client.send(raw + end)
    with bench.daemon.connect() as client:
        client.begin(CAT)
        assert client.deliver(HAM) == [OK]
    assert [line for delivery in hop.deliveries for line in delivery.recipients] == [b"RCPT TO:<%s>" % CAT]


def test_a_message_split_at_every_byte_is_the_same(client: LmtpClient, hop: ScriptedHop) -> None:
    raw = b"Subject: a\r\n\r\n.\r\n..b\r\n\r\n"
    session = b"MAIL FROM:<a@example.net>\r\nRCPT TO:<%s>\r\nDATA\r\n" % CAT
    client.say(b"LHLO client")
    for place in range(len(session)):
        client.send(session[place : place + 1])
    assert [client.read()[:3] for _ in range(3)] == [b"250", b"250", b"354"]
    wire = stuff(raw) + b".\r\n"
    for place in range(len(wire)):
        client.send(wire[place : place + 1])
        time.sleep(0.001)
    assert client.read() == OK
    assert remove_verdict(hop.deliveries[0].raw) == raw


def test_commands_at_the_wrong_time_and_garbage_are_refused(client: LmtpClient) -> None:
    assert client.say(b"MAIL FROM:<a@example.net>").startswith(b"503 5.5.1 ")
    assert client.say(b"RCPT TO:<%s>" % ANN).startswith(b"503 5.5.1 ")
    assert client.say(b"HELO client").startswith(b"500 5.5.1 ")
    assert client.say(b"EHLO client").startswith(b"500 5.5.1 ")
    assert client.say(b"BDAT 5 LAST").startswith(b"500 5.5.1 ")
    assert client.say(b"XCLIENT NAME=x").startswith(b"500 5.5.1 ")
    assert client.say(b"\xff").startswith(b"500 5.5.2 ")
    assert client.say(b"x" * 50_000).startswith(b"500 5.5.2 ")
    assert client.say(b"VRFY ann").startswith(b"252 ")
    client.begin(ANN)
    assert client.say(b"MAIL FROM:<a@example.net>").startswith(b"503 5.5.1 ")
    assert client.say(b"RCPT TO:ann").startswith(b"501 5.5.4 ")
    assert client.say(b"DATA now").startswith(b"503 5.5.1 ")
    assert client.say(b"RSET") == OK
    assert client.say(b"DATA").startswith(b"503 5.5.1 ")
    replies: list[bytes] = []
    with suppress(BrokenPipeError):  # the server has hung up
        replies.extend(client.say(b"nonsense") for _ in range(20))
    replies.append(client.read())
    assert b"421 4.7.0 too many errors\r\n" in replies


def test_a_message_that_did_not_wait_for_a_refusal_is_not_read_as_commands(
    client: LmtpClient, hop: ScriptedHop
) -> None:
    hop.script = answer(b"RCPT", b"550 5.1.1 no\r\n")
    client.say(b"LHLO client")
    client.send(
        b"MAIL FROM:<a@example.net>\r\nRCPT TO:<%s>\r\nDATA\r\nMAIL FROM:<evil@example.net>\r\n.\r\n" % ANN
    )
    assert [client.read()[:3] for _ in range(4)] == [b"250", b"550", b"503", b""]
    assert not any(b"evil" in line for line in hop.lines)


def test_too_many_recipients_are_told_to_come_again(client: LmtpClient, hop: ScriptedHop) -> None:
    client.begin()
    client.send(b"".join(b"RCPT TO:<u%d@example.org>\r\n" % number for number in range(1001)))
    replies = [client.read() for _ in range(1001)]
    assert replies[:1000] == [OK] * 1000
    assert replies[1000].startswith(b"452 4.5.3 ")
    assert client.deliver(HAM, 1000) == [OK] * 1000


def test_an_empty_message_is_a_message(client: LmtpClient, hop: ScriptedHop) -> None:
    client.begin(ANN)
    assert client.deliver(b"") == [OK]
    raw = hop.deliveries[0].raw
    assert raw.startswith(b"X-Spam-Level:")
    assert raw.count(b"\n") == raw.count(b"\r\n")


def test_a_filter_that_is_killed_has_delivered_what_it_answered_and_nothing_else(
    tmp_path: Path, bench: Bench
) -> None:
    """It is killed before and within DATA, and while the next hop has the whole message."""
    hop = ScriptedHop(tmp_path / "hop.sock")
    release = threading.Event()

    def hold(line: bytes) -> bytes:
        release.wait(20)
        return OK

    for moment in ("recipient", "content", "answer"):
        release.clear()
        hop.final = hold if moment == "answer" else lambda line: OK
        with run_hop(hop), run_lmtp(tmp_path, bench.store, hop.path) as daemon, daemon.connect() as client:
            client.begin(ANN)
            if moment != "recipient":
                client.say(b"DATA")
                client.send(SPAM + (b".\r\n" if moment == "answer" else b""))
            for _ in range(1000):
                if moment != "answer" or hop.deliveries:
                    break
                time.sleep(0.02)
            daemon.process.kill()
            daemon.process.wait()
            assert client.read() == b""
            release.set()
        # Only in the last case the message is there, and comes again: no server can avoid that (RFC 1047).
        assert len(hop.deliveries) == (moment == "answer")
    with run_hop(hop), run_lmtp(tmp_path, bench.store, hop.path) as daemon, daemon.connect() as client:
        client.begin(ANN)
        assert client.deliver(SPAM) == [OK]
    assert hop.n_partial == 0


def test_a_signal_to_stop_waits_for_the_answer_of_the_next_hop(tmp_path: Path, bench: Bench) -> None:
    stopping = threading.Event()
    hop = ScriptedHop(tmp_path / "hop.sock")

    def hold(line: bytes) -> bytes:
        stopping.wait(20)
        return OK

    hop.final = hold
    with (
        run_hop(hop),
        run_lmtp(tmp_path, bench.store, hop.path, "--timeout", "3") as daemon,
        daemon.connect() as client,
    ):
        client.begin(ANN)
        client.say(b"DATA")
        client.send(SPAM + b".\r\n")
        while not hop.deliveries:
            time.sleep(0.02)
        daemon.process.send_signal(signal.SIGTERM)
        time.sleep(3.1)  # longer than a session may last
        stopping.set()
        assert client.read() == OK
        assert client.read() == b""


def test_a_silent_client_and_a_long_session_are_asked_to_leave(tmp_path: Path, bench: Bench) -> None:
    hop = ScriptedHop(tmp_path / "hop.sock")
    options = ("--idle-timeout", "1", "--timeout", "4")
    with run_hop(hop), run_lmtp(tmp_path, bench.store, hop.path, *options) as daemon:
        with daemon.connect() as idle, daemon.connect() as busy:
            busy.begin(ANN)
            idle.send(b"LHL")
            assert idle.read() == b"421 4.4.2 nothing was sent for too long\r\n"
            assert idle.read() == b""
        with daemon.connect() as busy:
            for _ in range(400):
                reply = busy.say(b"LHLO client")
                if reply.startswith(b"250"):
                    reply = busy.say(b"MAIL FROM:<a@example.net>")
                if not reply.startswith(b"250"):
                    break
                time.sleep(0.02)
            assert reply.startswith(b"421 4.3.2 ")


# The fault table of docs/howto/mail-lmtp.md.


def deliver_one(bench: Bench, hop: ScriptedHop) -> bytes:
    hop.deliveries.clear()
    with bench.daemon.connect() as client:
        client.begin(ANN)
        assert client.deliver(SPAM) == [OK]
    return hop.deliveries[0].raw


def test_whatever_happens_to_the_store_mail_flows(bench: Bench, hop: ScriptedHop) -> None:
    store, data = bench.store, bench.store.read_bytes()
    is_spam = b"X-Spam-Flag: YES"
    assert is_spam in deliver_one(bench, hop)
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:  # locked
        writer.execute("BEGIN IMMEDIATE")
        assert is_spam in deliver_one(bench, hop)
        writer.execute("ROLLBACK")
    store.chmod(0o400)  # read-only
    assert is_spam in deliver_one(bench, hop)
    store.chmod(0o600)
    pid = bench.daemon.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, limits[1]))  # as on a full disk
    assert is_spam in deliver_one(bench, hop)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    store.unlink()  # missing
    assert b"X-Spam-Status: Unsure, " in deliver_one(bench, hop)
    store.write_bytes(b"no store" * 1000)  # corrupt
    assert deliver_one(bench, hop) == SPAM
    store.write_bytes(data)
    with closing(sqlite3.connect(store)) as connection, connection:  # of a newer version
        columns = [row[1] for row in connection.execute("PRAGMA table_info(migration)")]
        values = ["9999-later" if name == "name" else 0 for name in columns]
        connection.execute(f"INSERT INTO migration VALUES ({', '.join('?' * len(values))})", values)
    assert deliver_one(bench, hop) == SPAM
    replacement = store.with_name("replacement")
    replacement.write_bytes(data)
    replacement.replace(store)  # restored
    assert is_spam in deliver_one(bench, hop)


def test_a_defect_of_the_filter_keeps_no_mail_back(tmp_path: Path) -> None:
    class Defective(Filtering):
        async def judge(
            self, raw: bytes, user: str = "", *, with_evidence: bool = False
        ) -> TimedVerdict | Fault:
            raise ZeroDivisionError

    lines = io.StringIO()
    hop = ScriptedHop(tmp_path / "hop.sock")
    service = LmtpService(
        Defective(lambda user: tmp_path / "mail.tamis"),
        Log(lines),
        Metrics(),
        limits=Limits(),
        hop=NextHop(Listener(path=str(hop.path))),
        marking=Marking("spamassassin", "0"),
    )

    async def serve() -> list[bytes]:
        path = tmp_path / "filter.sock"
        server = Server([Listener(path=str(path))], service.handle, Log(lines))
        running = asyncio.create_task(server.run())
        await server.started.wait()
        replies = await asyncio.to_thread(deliver, path)
        server.stop()
        await running
        return replies

    def deliver(path: Path) -> list[bytes]:
        with LmtpClient(path) as client:
            client.begin(ANN, BEN)
            replies = client.deliver(SPAM, 2)
            client.say(b"QUIT")
            return replies

    with run_hop(hop):
        assert asyncio.run(serve()) == [OK, OK]
    assert [delivery.raw for delivery in hop.deliveries] == [SPAM]
    assert "unexpected ZeroDivisionError" in lines.getvalue()


@pytest.mark.skipif(not METRICS, reason="prometheus-client is not installed")
def test_metrics_count_verdicts_and_faults(bench: Bench, hop: ScriptedHop) -> None:
    hop.final = lambda line: None
    with bench.daemon.connect() as client:
        client.begin(ANN)
        assert client.deliver(SPAM) == [LOST]
        client.say(b"nonsense")
    with urlopen(f"http://127.0.0.1:{bench.metrics}/metrics", timeout=20) as page:
        text = page.read().decode()
    assert re.search(r'tamis_verdicts_total\{label="spam"\} [1-9]', text)
    assert re.search(r'tamis_faults_total\{kind="next-hop"\} [1-9]', text)
    assert re.search(r'tamis_faults_total\{kind="protocol"\} [1-9]', text)


def test_the_log_has_no_content_of_messages_and_no_address(bench: Bench, hop: ScriptedHop) -> None:
    raw = b"From: secret@secret.example\r\nSubject: secretsubject\r\n\r\nsecretbody\r\n"
    hop.final = lambda line: b"550 5.1.1 secretreason\r\n"
    with bench.daemon.connect() as client:
        client.begin(b"secret@example.org", sender=b"secret@example.net")
        assert client.deliver(raw)[0].startswith(b"550")
        client.say(b"secretcommand")
        hop.script = answer(b"RCPT", b"secretgarbage\r\n")
        client.name(b"secret@example.org")
    bench.daemon.wait_for("refused=1")
    assert "secret" not in bench.daemon.log.read_text().lower()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "required: --next"),
        (["--next", "systemd"], "got 'systemd', expected HOST:PORT, [ADDRESS]:PORT or unix:PATH"),
        (["--next", "24"], "got '24', expected HOST:PORT, [ADDRESS]:PORT or unix:PATH"),
        (["--next", "127.0.0.1:2424"], "--next is 127.0.0.1:2424, where this daemon listens"),
        (["--next", "unix:/x", "--next-timeout", "0"], "got '0', expected a whole number of seconds"),
    ],
)
def test_a_wrong_option_is_one_clear_line(typed: Type, words: list[str], sentence: str) -> None:
    outcome = typed("serve", "lmtp", *words)
    assert outcome.status != 0
    assert sentence in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
