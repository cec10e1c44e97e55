"""`tamis serve spamd` as a process: faults of a store, of clients and of options."""

import signal
import socket
import sqlite3
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.surfaces.peers.daemon import find_free_port
from tests.surfaces.peers.spamd import Daemon, run_spamd
from tests.surfaces.terminal import NEW_SPAM, Type, make_store


def request(method: str, *fields: str, message: bytes = NEW_SPAM, version: str = "1.5") -> bytes:
    lines = [f"{method} SPAMC/{version}", f"Content-length: {len(message)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + message


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "mail.tamis")


def wait_for(daemon: Daemon, text: str) -> None:
    for _ in range(400):
        if text in daemon.log.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"the log has no {text}: {daemon.log.read_text()}")


def test_faults_of_a_running_store_are_answers_and_mail_flows(tmp_path: Path, store: Path) -> None:
    with run_spamd(tmp_path, store) as daemon:
        assert b"Spam: True" in daemon.ask(request("CHECK"))
        data = store.read_bytes()
        store.unlink()
        assert b"Spam: False ; 0.0 /" in daemon.ask(request("CHECK"))
        store.write_bytes(b"no store" * 1000)
        assert daemon.ask(request("PROCESS")).startswith(b"SPAMD/1.0 75 EX_TEMPFAIL ")
        tell = request("TELL", "Message-class: spam", "Set: local")
        assert daemon.ask(tell).startswith(b"SPAMD/1.0 75 EX_TEMPFAIL ")
        (tmp_path / "new").write_bytes(data)
        (tmp_path / "new").replace(store)
        assert b"Spam: True" in daemon.ask(request("CHECK"))
        with closing(sqlite3.connect(store, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            assert b"Spam: True" in daemon.ask(request("CHECK"))


def test_bad_clients_disturb_nobody(tmp_path: Path, store: Path) -> None:
    with run_spamd(tmp_path, store, "--idle-timeout", "1", "--max-connections", "3") as daemon:
        assert daemon.ask(b"") == b""
        assert daemon.ask(b"GET / HTTP/1.0\r\n\r\n").startswith(b"SPAMD/1.0 76 EX_PROTOCOL ")
        assert daemon.ask(request("CHECK")[:-5]).startswith(b"SPAMD/1.0 76 EX_PROTOCOL ")
        assert daemon.ask(b"SKIP SPAMC/1.5\r\n\r\n") == b""
        assert daemon.ask(b"PING SPAMC/1.2\r\n") == b"SPAMD/1.5 0 PONG\r\n"
        assert daemon.ask(request("TELL")).startswith(b"SPAMD/1.0 64 EX_USAGE ")
        both = request("TELL", "Message-class: spam", "Set: local", "Remove: local")
        assert daemon.ask(both).startswith(b"SPAMD/1.0 76 EX_PROTOCOL ")
        with socket.create_connection(("127.0.0.1", daemon.port)) as idle:
            idle.settimeout(20)
            idle.sendall(b"CHECK SPA")
            assert b"79 EX_TIMEOUT" in idle.recv(1000)
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", daemon.port)) as gone:
                gone.sendall(request("CHECK")[:30])
        assert b"Spam: True" in daemon.ask(request("CHECK"))


def test_learning_can_be_switched_off(tmp_path: Path, store: Path) -> None:
    with run_spamd(tmp_path, store, "--no-learn") as daemon:
        tell = request("TELL", "Message-class: ham", "Set: local")
        assert daemon.ask(tell).startswith(b"SPAMD/1.0 69 EX_UNAVAILABLE learning is switched off")


def test_the_log_has_no_content_of_messages(tmp_path: Path, store: Path) -> None:
    raw = b"From: anna@secret.example\nSubject: secretsubject\n\nsecretbody\n"
    with run_spamd(tmp_path, store) as daemon:
        for method in ("CHECK", "SYMBOLS", "REPORT", "PROCESS", "HEADERS"):
            daemon.ask(request(method, "User: secretuser", message=raw))
        daemon.ask(request("TELL", "Message-class: spam", "Set: local", message=raw))
        daemon.ask(raw + b"\r\n\r\n")
        daemon.ask(b"SECRET SPAMC/1.5\r\n\r\n")
        daemon.ask(b"CHECK SPAMC/1.5\r\nsecret\r\n\r\n")
    log = daemon.log.read_text()
    assert log.count("event=verdict") == 5
    assert log.count("event=refused") == 3
    assert "secret" not in log.lower()


def test_a_hangup_signal_opens_the_stores_again(tmp_path: Path, store: Path) -> None:
    with run_spamd(tmp_path, store) as daemon:
        assert b"Spam: True" in daemon.ask(request("CHECK"))
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "event=reloaded")
        assert b"Spam: True" in daemon.ask(request("CHECK"))


@pytest.mark.skipif(find_spec("prometheus_client") is None, reason="prometheus-client is not installed")
def test_metrics_count_verdicts_and_faults(tmp_path: Path, store: Path) -> None:
    port = find_free_port()
    with run_spamd(tmp_path, store, "--metrics", f"127.0.0.1:{port}") as daemon:
        daemon.ask(request("CHECK"))
        daemon.ask(b"garbage\r\n\r\n")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
    assert 'tamis_verdicts_total{label="spam"} 1.0' in text
    assert 'tamis_faults_total{kind="protocol"} 1.0' in text
    assert "tamis_store_bytes " in text
    assert "tamis_verdict_seconds_count 1.0" in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--listen", "783"], "cannot listen at '783': expected HOST:PORT"),
        (["--listen", "unix:/nowhere/at/all"], "cannot listen at unix:/nowhere/at/all"),
        (["--socket-mode", "rw"], "got 'rw', expected three or four octal digits"),
        (["--max-connections", "0"], "got '0', expected a positive integer"),
        (["--user-stores", "/var/mail/x"], "expected a path with {user} in it"),
        (["--metrics", "unix:/x"], "expected HOST:PORT"),
    ],
)
def test_a_wrong_option_is_one_clear_line(typed: Type, words: list[str], sentence: str) -> None:
    answer = typed("serve", "spamd", *words)
    assert answer.status != 0
    assert sentence in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
