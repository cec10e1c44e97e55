"""Where a daemon listens."""

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tamis_mail.serving.listeners import Listener


@pytest.mark.parametrize(
    "text", ["127.0.0.1:783", "[::1]:783", "localhost:0", "unix:/run/x y.sock", "systemd"]
)
def test_a_listener_is_written_as_it_is_read(text: str) -> None:
    assert str(Listener.parse(text)) == text


def test_without_a_host_only_this_machine_is_served() -> None:
    assert Listener.parse(":783").host == "localhost"


@pytest.mark.parametrize(
    "text", ["", "783", "unix:", "host", "a:b", "host:65536", "::1:783", "[::1]", "h:-1"]
)
def test_what_is_no_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(repr(text))}: expected HOST:PORT"):
        Listener.parse(text)


def test_a_unix_socket_has_its_permissions_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    (opened,) = Listener.parse(f"unix:{path}").open(0o600)
    with opened:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_socket_file_that_nobody_listens_at_is_replaced(tmp_path: Path) -> None:
    listener = Listener.parse(f"unix:{tmp_path / 'socket'}")
    listener.open()[0].close()
    (opened,) = listener.open()
    opened.close()


def test_a_socket_of_another_process_is_left_alone(tmp_path: Path) -> None:
    listener = Listener.parse(f"unix:{tmp_path / 'socket'}")
    (opened,) = listener.open()
    with opened, pytest.raises(OSError, match="another process listens there"):
        listener.open()
    assert (tmp_path / "socket").exists()


def test_a_socket_of_datagrams_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(OSError, match="cannot be tried"):
            Listener.parse(f"unix:{path}").open()
        assert path.exists()


def test_a_file_is_never_replaced_by_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    path.write_text("precious")
    with pytest.raises(OSError, match="it exists and is not a socket"):
        Listener.parse(f"unix:{path}").open()
    assert path.read_text() == "precious"


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{port}"):
            Listener.parse(f"127.0.0.1:{port}").open()


def test_sockets_of_systemd_are_for_the_process_that_they_were_passed_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LISTEN_FDS", "1")
    for process in ("", str(os.getpid() + 1)):
        monkeypatch.setenv("LISTEN_PID", process)
        with pytest.raises(OSError, match="systemd has passed no socket"):
            Listener.parse("systemd").open()


def test_a_socket_that_systemd_passes_is_taken() -> None:
    program = (
        "import os, sys\n"
        "from tamis_mail.serving.listeners import Listener\n"
        "os.dup2(int(sys.argv[1]), 3)\n"
        "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n"
        "(taken,) = Listener.parse('systemd').open()\n"
        "print(taken.getsockname()[1])\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as passed:
        number = passed.fileno()
        words = [sys.executable, "-c", program, str(number)]
        done = subprocess.run(words, pass_fds=[number], capture_output=True, check=True)
        assert int(done.stdout) == passed.getsockname()[1]
