"""Real clients of spamd get what they expect: spamc of SpamAssassin, and aiospamc."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tamis_mail.verdict.header_fields import remove_verdict
from tests.surfaces.peers.spamd import Daemon, run_spamd
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, make_store

SPAMC = shutil.which("spamc")
pytestmark = pytest.mark.peers
needs_spamc = pytest.mark.skipif(
    SPAMC is None, reason="spamc is not installed: tools/mail_programs installs it"
)
needs_aiospamc = pytest.mark.skipif(find_spec("aiospamc") is None, reason="aiospamc is not installed")

ODD = [
    b"Subject: a\r\n\r\nbody\r\n",
    b"Subject: a\n\nno line end",
    b"Subject: a\r\n\r\nbody\n\nwith\r\n\r\nother ends",
    b"Subject: no body\n",
    b"Subject: no line end",
    b"no header at all\n",
    b"\nbody only\n",
    b"\r\n\r\nbody only\n",
    b"Subject: a\n\r\nmixed ends\n\nend\n",
    b"Subject: a\r\n\nmixed ends\r\n\r\nend",
    b"From ann Mon Jan  1 00:00:00 2024\nSubject: a\n\nFrom the body\n",
    b"X-Spam-Flag: YES\nX-Spam-Status: Yes\nSubject: forged\n\nbody\n",
    b" continued\nSubject: a\n\nbody\n",
    b"Subject: \xff\xfe\n\n\x00\xff\x00",
    b"\n",
    b"\n\n\n",
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("spamd")
    store = make_store(folder / "mail.tamis")
    users = str(folder / "users" / "{user}.tamis")
    with run_spamd(folder, store, "--user-stores", users) as running:
        yield running


def spamc(daemon: Daemon, raw: bytes, *options: str) -> tuple[int, bytes]:
    """Run spamc; return its exit status and output."""
    assert SPAMC
    done = subprocess.run(
        [SPAMC, "-F", "/dev/null", "-U", str(daemon.socket), *options],
        input=raw,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout


@needs_spamc
def test_spamc_checks(daemon: Daemon) -> None:
    status, out = spamc(daemon, NEW_SPAM, "-c")
    score, required = map(float, out.split(b"/"))
    assert (status, score >= required) == (1, True)
    status, out = spamc(daemon, NEW_HAM, "-c")
    score, required = map(float, out.split(b"/"))
    assert (status, score >= required) == (0, False)


@needs_spamc
def test_spamc_reports(daemon: Daemon) -> None:
    assert b"spam: the probability of spam is" in spamc(daemon, NEW_SPAM, "-R")[1]
    assert b"spam: the probability of spam is" in spamc(daemon, NEW_SPAM, "-r")[1]
    assert b"probability" not in spamc(daemon, NEW_HAM, "-r")[1]
    assert spamc(daemon, NEW_SPAM, "-y")[1].strip() == b"tamis"


@needs_spamc
def test_spamc_pings_over_tcp_and_a_unix_socket(daemon: Daemon) -> None:
    assert spamc(daemon, b"", "-K")[0] == 0
    assert SPAMC
    words = [SPAMC, "-F", "/dev/null", "-d", "127.0.0.1", "-p", str(daemon.port), "-K"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0


@needs_spamc
@pytest.mark.parametrize("raw", [NEW_SPAM, NEW_HAM, *ODD], ids=repr)
def test_spamc_loses_and_alters_no_byte_of_a_message(daemon: Daemon, raw: bytes) -> None:
    status, marked = spamc(daemon, raw)
    assert status == 0
    assert b"X-Spam-Status: " in marked
    assert remove_verdict(marked) == raw


@needs_spamc
@pytest.mark.parametrize("raw", [NEW_SPAM, NEW_HAM, *(raw for raw in ODD if b"\0" not in raw)], ids=repr)
def test_spamc_with_headers_loses_and_alters_no_byte_of_a_message(daemon: Daemon, raw: bytes) -> None:
    """Without NUL: spamc, which appends the body itself, replaces what follows a NUL, whoever answers it."""
    status, marked = spamc(daemon, raw, "--headers")
    assert status == 0
    assert remove_verdict(marked) == raw


@needs_spamc
def test_spamc_passes_a_message_on_that_is_too_large(tmp_path: Path) -> None:
    raw = NEW_HAM + b"x" * 5_000_000
    with run_spamd(tmp_path, tmp_path / "mail.tamis", "--max-size", "1000") as daemon:
        assert spamc(daemon, raw, "-s", "100000000") == (0, raw)
        assert "larger than 1000 bytes" in daemon.log.read_text()


@needs_spamc
def test_spamc_learns_once_and_forgets(daemon: Daemon) -> None:
    raw = b"Subject: new words\n\nperiwinkle\n"
    answers = [
        spamc(daemon, raw, "-u", "ann", "-L", action)[1]
        for action in ("spam", "spam", "ham", "forget", "forget")
    ]
    once, again = b"Message successfully un/learned", b"Message was already un/learned"
    assert [answer.strip() for answer in answers] == [once, again, once, once, again]


@needs_spamc
def test_a_user_has_a_store_of_his_own(daemon: Daemon) -> None:
    assert spamc(daemon, NEW_SPAM, "-c", "-u", "bob")[0] == 1
    spamc(daemon, NEW_SPAM, "-u", "bob", "-L", "ham")
    assert spamc(daemon, NEW_SPAM, "-c", "-u", "bob")[0] == 0
    assert spamc(daemon, NEW_SPAM, "-c", "-u", "carla")[0] == 1
    assert spamc(daemon, NEW_SPAM, "-c", "-u", "../bob")[0] == 1


@needs_spamc
def test_without_a_usable_store_spamc_passes_mail_on_unchanged(tmp_path: Path) -> None:
    store = tmp_path / "mail.tamis"
    store.write_bytes(b"no store" * 1000)
    with run_spamd(tmp_path, store) as daemon:
        assert spamc(daemon, NEW_SPAM) == (0, NEW_SPAM)
        assert spamc(daemon, NEW_SPAM, "--headers") == (0, NEW_SPAM)
        assert spamc(daemon, NEW_SPAM, "-c") == (0, b"0/0\n")
        assert spamc(daemon, NEW_SPAM, "-x") == (74, b"")  # EX_IOERR: the mail server tries again
        assert "event=store-fault" in daemon.log.read_text()


@needs_spamc
def test_before_anything_was_learned_mail_is_unsure(tmp_path: Path) -> None:
    with run_spamd(tmp_path, tmp_path / "mail.tamis") as daemon:
        status, marked = spamc(daemon, NEW_SPAM)
    assert status == 0
    assert b"X-Spam-Status: Unsure, score=0.00" in marked


@needs_aiospamc
def test_aiospamc_understands_every_answer(daemon: Daemon) -> None:
    aiospamc: Any = import_module("aiospamc")
    place = {"socket_path": str(daemon.socket)}

    async def ask() -> None:
        assert (await aiospamc.ping(**place)).message == "PONG"
        for verb in (aiospamc.check, aiospamc.symbols, aiospamc.report, aiospamc.process, aiospamc.headers):
            for raw, is_spam in ((NEW_SPAM, True), (NEW_HAM, False)):
                answer = await verb(raw, **place)
                assert answer.status_code == 0
                assert answer.headers.spam.value is is_spam
        assert (await aiospamc.report_if_spam(NEW_SPAM, **place)).body
        learned = await aiospamc.tell(b"Subject: lilac\n\nlilac\n", "spam", set_action="local", **place)
        assert learned.status_code == 0

    asyncio.run(ask())
