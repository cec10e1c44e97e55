"""A real Postfix asks the milter: the verdict arrives, nothing else changes, and mail always flows."""

import json
import re
import shutil
import smtplib
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tamis_mail.message import canonical, digest
from tamis_mail.verdict.header_fields import remove_verdict
from tests.surfaces.peers.daemon import run_daemon
from tests.surfaces.peers.milter import Milter, run_milter
from tests.surfaces.peers.postfix import SENDER, Postfix, needs_postfix, run_postfix, without_delivery_fields
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, make_store

pytestmark = [pytest.mark.peers, needs_postfix]

DOCS = Path(__file__).parents[3] / "docs" / "howto" / "mail-milter.md"
COMPLETE = b"Message-ID: <1@elsewhere.test>\r\nDate: Mon, 16 Nov 2026 10:00:00 +0000\r\n"
SPAM, HAM = (COMPLETE + raw.replace(b"\n", b"\r\n") for raw in (NEW_SPAM, NEW_HAM))
_RECEIVED = re.compile(rb"Received: from [^\n]*\n\tby mx\.example\.test[^\n]*\n(?:\t[^\n]*\n)*")

ODD = {
    "folded": b"Subject: a\r\n\tfolded\r\n  field\r\n",
    "spaces": b"Subject:no space\r\nX-A:\ttab\r\nX-B:  two  \r\nX-C:\r\nX-D: \r\n",
    "8-bit": "Subject: gr\u00fc\u00dfe \u65e5\u672c\r\nX-Latin: ".encode() + b"\xe4\xff\r\n",
    "same": b"X-A: 1\r\nX-A: 2\r\nx-a: 3\r\n",
    "long": b"Subject: " + b"x" * 900 + b"\r\n" + b"References:" + b"\r\n <a@b>" * 100 + b"\r\n",
}
BODIES = {
    "plain": b"text\r\n",
    "empty": b"",
    "dots": b".\r\n..\r\n.x\r\n",
    "from": b"From me\r\n>From you\r\n",
    "blank": b"\r\n\r\ntext\r\n\r\n\r\n",
    "binary": bytes(range(1, 10)) + bytes(range(14, 256)) + b"\r\n",
    "long": (b"y" * 70 + b"\r\n") * 3000,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("store") / "mail.tamis")


@pytest.fixture(scope="module")
def milter(store: Path) -> Iterator[Milter]:
    with run_milter(store) as running:
        yield running


@pytest.fixture(scope="module")
def own_store(store: Path) -> Path:
    """A store that a test may spoil."""
    return Path(shutil.copy(store, store.parent / "own.tamis"))


@pytest.fixture(scope="module")
def fragile(own_store: Path) -> Iterator[Milter]:
    """A milter that a test may kill."""
    with run_milter(own_store) as running:
        yield running


@pytest.fixture(scope="module")
def postfix(store: Path, milter: Milter, fragile: Milter) -> Iterator[Postfix]:
    """A Postfix with the settings of the docs; it asks for mail of local programs at a Unix socket."""
    recipe = re.search(r"^\*\*Postfix\*\*.*?^```text\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert recipe
    settings = recipe[1].replace("127.0.0.1:8783", f"127.0.0.1:{milter.port}")
    settings += f"non_smtpd_milters = unix:{milter.socket}\n"
    with ExitStack() as stack:
        services = {"old": f"smtpd_milters=inet:127.0.0.1:{milter.port} milter_protocol=2"}
        services["fragile"] = f"smtpd_milters=unix:{fragile.socket}"
        services["restarted"] = f"smtpd_milters=unix:{milter.socket}.restarted"
        services["xclient"] = (
            f"smtpd_milters=unix:{milter.socket} smtpd_authorized_xclient_hosts=127.0.0.1 "
            "smtpd_sasl_auth_enable=yes"
        )
        for action in ("reject", "quarantine", "discard"):
            running = stack.enter_context(run_milter(store, "--on-spam", action))
            services[action] = f"smtpd_milters=unix:{running.socket}"
        yield stack.enter_context(run_postfix(settings, services))


def sent_as(delivered: bytes) -> bytes:
    """Return a delivered message as it was sent, without what Postfix and the milter have added."""
    marked = without_delivery_fields(delivered)
    unmarked = remove_verdict(marked)
    assert unmarked != marked, delivered[:1000]
    received = _RECEIVED.match(unmarked)
    assert received, unmarked[:1000]
    return unmarked[received.end() :]


def test_the_verdict_arrives_and_nothing_else_is_changed(postfix: Postfix) -> None:
    postfix.send(SPAM, "ann@example.test")
    postfix.send(HAM, "ann@example.test")
    spam, ham = postfix.wait_for_mail("ann@example.test", 2)
    assert b"\nX-Spam-Flag: YES\n" in spam
    assert b"\nX-Spam-Status: Yes, score=" in spam
    assert b"\nX-Spam-Status: No, score=" in ham
    assert (sent_as(spam), sent_as(ham)) == (SPAM.replace(b"\r", b""), HAM.replace(b"\r", b""))
    assert b"X-Old-" not in spam + ham


@pytest.mark.parametrize("header", ODD)
@pytest.mark.parametrize("body", BODIES)
def test_any_message_is_delivered_byte_for_byte(postfix: Postfix, header: str, body: str) -> None:
    raw = b"From: a@b.test\r\n" + COMPLETE + ODD[header] + b"\r\n" + BODIES[body]
    address = f"{header}-{body}@example.test"
    postfix.send(raw, address)
    (delivered,) = postfix.wait_for_mail(address, 1)
    assert sent_as(delivered) == raw.replace(b"\r\n", b"\n")
    assert digest(canonical(sent_as(delivered))) == digest(canonical(raw))


def test_mail_of_local_programs_is_judged(postfix: Postfix) -> None:
    postfix.submit(SPAM.replace(b"\r", b""), "local@example.test")
    (delivered,) = postfix.wait_for_mail("local@example.test", 1)
    assert b"\nX-Spam-Flag: YES\n" in delivered


def test_forged_fields_are_renamed(postfix: Postfix) -> None:
    forged = b"X-Spam-Status: No, score=-99\r\nx-spam-flag: NO\r\nX-Spam-Flag: NO\r\nX-Bogosity: Ham\r\n"
    postfix.send(forged + SPAM, "forged@example.test")
    (delivered,) = postfix.wait_for_mail("forged@example.test", 1)
    header = delivered[: delivered.find(b"\n\n") + 1]
    assert re.findall(rb"(?im)^x-spam-(?:status|flag):[^,\n]*|^x-bogosity.*", header) == [
        b"X-Spam-Flag: YES",
        b"X-Spam-Status: Yes",
    ]
    for line in forged.split(b"\r\n")[:-1]:
        assert b"\nX-Old-" + line + b"\n" in header
    assert digest(canonical(sent_as(delivered))) == digest(canonical(SPAM))


def test_mail_of_a_client_that_logged_in_is_not_judged(postfix: Postfix) -> None:
    """By XCLIENT, with which Postfix believes that a client has logged in."""
    try:
        client = postfix.connect("xclient")
    except smtplib.SMTPServerDisconnected:
        pytest.skip("this Postfix has no mechanisms for SASL: libsasl2-modules is not installed")
    with client:
        client.ehlo()
        client.docmd("XCLIENT", "NAME=client.test ADDR=192.0.2.7 LOGIN=ann")
        client.ehlo()
        client.sendmail(SENDER, ["login@example.test"], b"X-Spam-Status: No\r\n" + SPAM)
    (delivered,) = postfix.wait_for_mail("login@example.test", 1)
    sent = _RECEIVED.sub(b"", without_delivery_fields(delivered), count=1)
    assert sent == (b"X-Spam-Status: No\r\n" + SPAM).replace(b"\r", b"")
    assert b" with ESMTPA " in delivered


def test_a_thousand_forged_fields_hold_up_nobody(postfix: Postfix) -> None:
    postfix.send(b"X-Spam-Flag: NO\r\n" * 1000 + HAM, "flood@example.test")
    (delivered,) = postfix.wait_for_mail("flood@example.test", 1)
    assert delivered.split(b"\n").count(b"X-Old-X-Spam-Flag: NO") == 100
    assert delivered.index(b"X-Spam-Status: No, score=") < delivered.index(b"X-Spam-Flag: NO")


def test_no_content_of_a_forged_field_is_lost(postfix: Postfix) -> None:
    lines = b"".join(b"\r\n\t%04d %s" % (number, b"x" * 60) for number in range(100))
    postfix.send(b"X-Spam-Status: No" + lines + b"\r\nX-Spam-Flag:\r\n" + HAM, "long@example.test")
    (delivered,) = postfix.wait_for_mail("long@example.test", 1)
    assert b"\nX-Old-X-Spam-Status: No" + lines.replace(b"\r", b"") + b"\n" in delivered
    assert b"\nX-Old-X-Spam-Flag:" in delivered
    assert delivered.count(b"\nX-Spam-Status: No") == 1


def test_twenty_messages_in_one_connection(postfix: Postfix) -> None:
    with postfix.connect() as client:
        for number in range(20):
            client.sendmail(SENDER, ["twenty@example.test"], (SPAM, HAM)[number % 2] + b"%d\r\n" % number)
    messages = postfix.wait_for_mail("twenty@example.test", 20)
    for raw in messages:
        number = int(raw.split()[-1])
        assert (b"\nX-Spam-Flag: YES\n" in raw) == (number % 2 == 0)
        assert sent_as(raw) == ((SPAM, HAM)[number % 2] + b"%d\r\n" % number).replace(b"\r", b"")
    assert len({sent_as(raw) for raw in messages}) == 20


def test_commands_that_are_sent_together(postfix: Postfix) -> None:
    """A client with PIPELINING sends the envelopes of several messages without waiting."""
    with (
        socket.create_connection(("127.0.0.1", postfix.ports[""]), 20) as client,
        client.makefile("rb") as answers,
    ):
        answers.readline()
        client.sendall(b"EHLO x\r\n")
        while answers.readline()[3:4] == b"-":
            pass
        for number in range(3):
            client.sendall(
                b"MAIL FROM:<a@b.test>\r\nRCPT TO:<pipe@example.test>\r\nRSET\r\nMAIL FROM:<a@b.test>\r\n"
                b"RCPT TO:<nobody@elsewhere.test>\r\nRCPT TO:<pipe@example.test>\r\nDATA\r\n"
            )
            codes = [answers.readline()[:3] for _ in range(7)]
            assert codes[:4] == [b"250"] * 4
            assert codes[-1] == b"354"
            client.sendall((SPAM, HAM, SPAM)[number] + b".\r\n")
            assert answers.readline().startswith(b"250")
        client.sendall(b"QUIT\r\n")
    messages = postfix.wait_for_mail("pipe@example.test", 3)
    assert sum(b"\nX-Spam-Flag: YES\n" in raw for raw in messages) == 2


def test_many_recipients_get_the_message_once(postfix: Postfix) -> None:
    recipients = [f"many{number}@example.test" for number in range(100)]
    postfix.send(SPAM, *recipients)
    for recipient in recipients:
        (delivered,) = postfix.wait_for_mail(recipient, 1)
        assert sent_as(delivered) == SPAM.replace(b"\r", b"")


def test_a_message_that_is_too_large_to_be_judged_flows(postfix: Postfix, milter: Milter) -> None:
    raw = b"X-Spam-Status: No\r\n" + HAM + b"x" * 70 + b"\r\n" + (b"z" * 78 + b"\r\n") * 150_000
    postfix.send(raw, "large@example.test")
    (delivered,) = postfix.wait_for_mail("large@example.test", 1)
    assert b"X-Spam-Status: " not in delivered[:2000].replace(b"X-Old-X-Spam-Status: ", b"")
    assert delivered.endswith(raw.partition(b"\r\n\r\n")[2].replace(b"\r", b""))
    assert "event=too-large" in milter.log


@pytest.mark.skipif(shutil.which("swaks") is None, reason="swaks is not installed")
def test_a_message_of_swaks(postfix: Postfix) -> None:
    words = [
        "swaks",
        "--server",
        f"127.0.0.1:{postfix.ports['']}",
        "--to",
        "swaks@example.test",
        "--from",
        SENDER,
    ]
    subprocess.run([*words, "--body", "Buy cheap pills now!", "--pipeline"], check=True, capture_output=True)
    (delivered,) = postfix.wait_for_mail("swaks@example.test", 1)
    assert b"\nX-Spam-Status: " in delivered


def test_protocol_version_2_gives_the_same_message(postfix: Postfix) -> None:
    postfix.send(b"X-Spam-Status: No\r\nX-Spam-Status: No\r\n" + SPAM, "old@example.test", service="old")
    (delivered,) = postfix.wait_for_mail("old@example.test", 1)
    header, _, body = delivered.partition(b"\n\n")
    assert b"\nX-Spam-Status: Yes, score=" in header
    assert header.count(b"\nX-Spam-Status:") == 1
    assert header.count(b"\nX-Old-X-Spam-Status: No") == 2
    assert body == SPAM.replace(b"\r", b"").partition(b"\n\n")[2]


def test_spam_is_rejected_without_a_score(postfix: Postfix) -> None:
    with postfix.connect("reject") as client:
        with pytest.raises(smtplib.SMTPDataError) as caught:
            client.sendmail(SENDER, ["reject@example.test"], SPAM)
        assert caught.value.smtp_code == 550
        assert caught.value.smtp_error == b"5.7.1 This message was taken for spam"
        client.sendmail(SENDER, ["reject@example.test"], HAM)
    (delivered,) = postfix.wait_for_mail("reject@example.test", 1)
    assert sent_as(delivered) == HAM.replace(b"\r", b"")


def test_spam_is_held_in_the_queue_and_can_be_released(postfix: Postfix) -> None:
    with postfix.connect("quarantine") as client:
        client.sendmail(SENDER, ["hold@example.test"], HAM)
        client.sendmail(SENDER, ["hold@example.test"], SPAM)
    (ham,) = postfix.wait_for_mail("hold@example.test", 1)
    assert sent_as(ham) == HAM.replace(b"\r", b"")
    (held,) = [json.loads(line) for line in postfix.list_queue()]
    assert held["queue_name"] == "hold"
    postfix.run("/usr/sbin/postsuper", "-H", held["queue_id"])
    postfix.run("/usr/sbin/postqueue", "-i", held["queue_id"])
    spam = postfix.wait_for_mail("hold@example.test", 2)[1]
    assert sent_as(spam) == SPAM.replace(b"\r", b"")


def test_spam_is_discarded_where_it_was_asked_for(postfix: Postfix) -> None:
    postfix.send(SPAM, "discard@example.test", service="discard")
    postfix.send(HAM, "discard@example.test", service="discard")
    (ham,) = postfix.wait_for_mail("discard@example.test", 1)
    assert b"X-Spam-Status: No" in ham


def test_no_message_is_lost_altered_or_doubled_while_the_milter_is_killed_and_started_again(
    postfix: Postfix, milter: Milter, store: Path, tmp_path: Path
) -> None:
    path = f"{milter.socket}.restarted"
    words = ["milter", "--store", str(store), "--listen", f"unix:{path}", "--socket-mode", "666"]
    sent: list[bytes] = []

    def send(client: smtplib.SMTP) -> None:
        sent.append(HAM + b"%d\r\n" % len(sent))
        client.sendmail(SENDER, ["restarted@example.test"], sent[-1])

    for _ in range(3):
        with run_daemon(tmp_path / "log", *words) as process, postfix.connect("restarted") as client:
            for number in range(6):
                send(client)
                if number == 3:
                    process.kill()
                    process.wait()
        with postfix.connect("restarted") as client:
            send(client)
    delivered = postfix.wait_for_mail("restarted@example.test", len(sent))
    bodies = sorted(raw[raw.rfind(b"Message-ID:") :] for raw in delivered)
    assert bodies == sorted(raw.replace(b"\r", b"") for raw in sent)
    assert sum(b"\nX-Spam-Status: " in raw for raw in delivered) == 3 * 4


def test_mail_flows_when_the_milter_has_no_usable_store_and_when_it_is_killed(
    postfix: Postfix, fragile: Milter, own_store: Path
) -> None:
    plain = HAM.replace(b"\r", b"")
    postfix.send(HAM, "before@example.test", service="fragile")
    assert sent_as(postfix.wait_for_mail("before@example.test", 1)[0]) == plain
    own_store.write_bytes(b"no store" * 1000)
    postfix.send(HAM, "corrupt@example.test", service="fragile")
    (delivered,) = postfix.wait_for_mail("corrupt@example.test", 1)
    assert delivered.endswith(plain)
    assert b"X-Spam-" not in delivered
    with postfix.connect("fragile") as client:
        client.ehlo()
        client.mail(SENDER)
        client.rcpt("killed@example.test")
        fragile.process.kill()
        fragile.process.wait()
        client.data(HAM)  # in the middle of a message
        client.sendmail(SENDER, ["killed@example.test"], HAM)  # in the same connection
    postfix.send(HAM, "killed@example.test", service="fragile")  # nobody listens any more
    messages = postfix.wait_for_mail("killed@example.test", 3)
    assert [raw.endswith(plain) for raw in messages] == [True] * 3
