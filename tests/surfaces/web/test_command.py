"""`tamis serve web` and `tamis demo --web` print an address, serve it, and end by a signal."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.surfaces.peers.chromium import run_page
from tests.surfaces.terminal import Type

PROGRAM = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"


def test_the_token_of_the_api_is_made_once_and_private(tmp_path: Path) -> None:
    token = tmp_path / "token"
    for _ in range(2):
        with run_page(tmp_path, tmp_path / "mail.tamis", "--api-token-file", str(token)) as server:
            headers = {"authorization": f"Bearer {token.read_text().strip()}"}
            assert httpx.get(f"{server.root}/api/v1/status", headers=headers).status_code == 200
            assert httpx.get(f"{server.root}/").status_code == 401
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    for name in ("mail.tamis.catalog", "mail.tamis"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) & 0o077 == 0


def test_the_demo_serves_the_sample_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    words = [sys.executable, "-c", PROGRAM, "demo", "--web", "--no-open"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        address = re.search(rb"http://\S+", process.stdout.readline())
        assert address
        host = re.search(r"//(tamis-[0-9a-f]{16}\.localhost):", address[0].decode())
        assert host
        with httpx.Client(follow_redirects=True) as client:
            text = client.get(address[0].decode().replace(host[1], "127.0.0.1")).text
        process.send_signal(signal.SIGINT)
        process.wait(30)
    assert "<h1>Mail</h1>" in text
    assert process.returncode == 0
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "70000"], "expected a port from 0 to 65535"),
        (["--mail", "/nowhere/at/all"], "does not exist"),
        (["--api-token-file", "/nowhere/token"], "cannot be written"),
    ],
)
def test_a_wrong_option_is_answered_by_a_sentence(
    typed: Type, tmp_path: Path, words: list[str], sentence: str
) -> None:
    answer = typed("serve", "web", "--no-open", "--store", str(tmp_path / "mail.tamis"), *words)
    assert answer.status != 0
    assert sentence in answer.err


def test_a_port_that_is_taken_is_named(typed: Type, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        answer = typed("serve", "web", "--no-open", "--store", str(tmp_path / "a.tamis"), "--port", port)
    assert answer.status != 0
    assert f"port {port} cannot be used" in answer.err
