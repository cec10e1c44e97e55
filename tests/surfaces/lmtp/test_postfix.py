"""Postfix, the filter and Dovecot in a row: whatever is killed meanwhile, each message arrives."""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis_mail.message import canonical, parse
from tests.surfaces.peers.dovecot import Dovecot, needs_dovecot, run_dovecot
from tests.surfaces.peers.lmtp import run_lmtp
from tests.surfaces.peers.postfix import DOMAIN, Postfix, needs_postfix, run_postfix
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, make_store

pytestmark = [pytest.mark.peers, needs_dovecot, needs_postfix]

ANN, BEN = f"ann@{DOMAIN}", f"ben@{DOMAIN}"
SETTINGS = """
virtual_transport = lmtp:unix:{socket}
virtual_mailbox_maps =
smtpd_reject_unlisted_recipient = no
minimal_backoff_time = 1s
maximal_backoff_time = 1s
queue_run_delay = 1s
lmtp_destination_concurrency_failed_cohort_limit = 1000
transport_retry_time = 1s
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that Postfix may enter, which pytest's are not."""
    path = Path(tempfile.mkdtemp(prefix="tamis-lmtp-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with run_dovecot(users=(ANN, BEN)) as running:
        yield running


@pytest.fixture(scope="module")
def postfix(folder: Path, dovecot: Dovecot) -> Iterator[Postfix]:
    with run_postfix(SETTINGS.format(socket=folder / "filter.sock")) as running:
        yield running


def count_subjects(dovecot: Dovecot, user: str) -> Counter[str]:
    return Counter(dict(parse(canonical(raw)).headers)["subject"] for _, raw in dovecot.list_messages(user))


def make_message(number: int) -> bytes:
    raw = (NEW_SPAM if number % 2 else NEW_HAM).replace(b"\n", b"\r\n")
    return raw.replace(b"Subject: ", b"Subject: %d " % number)


def test_mail_arrives_with_its_verdict_whatever_is_killed(
    folder: Path, dovecot: Dovecot, postfix: Postfix
) -> None:
    store = make_store(folder / "mail.tamis")
    options = ("--socket-mode", "666")
    numbers = iter(range(1000))

    def send(count: int) -> None:
        for _ in range(count):
            postfix.send(make_message(next(numbers)), ANN, BEN)

    with run_lmtp(folder, store, dovecot.lmtp, *options) as daemon:
        send(5)
        wait_until_the_queue_is_empty(postfix)
        send(3)
        dovecot.kill()  # perhaps within a delivery
        send(3)
        dovecot.start()
        send(3)
        daemon.process.kill()  # perhaps within a delivery
        daemon.process.wait()
    send(3)
    assert postfix.list_queue()
    with run_lmtp(folder, store, dovecot.lmtp, *options):
        send(3)
        wait_until_the_queue_is_empty(postfix)
    assert "status=bounced" not in postfix.log
    for user in (ANN, BEN):
        subjects = count_subjects(dovecot, user)
        assert len(subjects) == 20
        # Twice is right where Dovecot had a message and somebody was killed before he could say so.
        assert sum(subjects.values()) <= 20 + 6
    for _, raw in dovecot.list_messages(ANN):
        assert (b"X-Spam-Flag: YES" in raw) == (b"Cheap pills" in raw)


def wait_until_the_queue_is_empty(postfix: Postfix) -> None:
    """Postfix itself waits a minute before it starts a delivery agent again that has failed."""
    end = time.monotonic() + 150
    while time.monotonic() < end:
        if not postfix.list_queue():
            return
        postfix.run("/usr/sbin/postqueue", "-f")
        time.sleep(0.1)
    raise AssertionError(f"mail waits: {postfix.list_queue()} {postfix.log[-3000:]}")
