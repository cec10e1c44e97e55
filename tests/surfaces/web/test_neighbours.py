"""Another user of the machine, who listens at a port of his own, does not get the key of the session."""

import socket
import threading
from pathlib import Path

import pytest

from tests.surfaces.peers.chromium import run_chromium, run_page

pytestmark = pytest.mark.peers

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 24\r\nConnection: close\r\n\r\n"
    b"<a href=/second>next</a>"
)


def test_a_server_at_another_port_does_not_get_the_cookie(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def answer(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                asked.append(connection.recv(4000))
                connection.sendall(ANSWER)

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        run_page(tmp_path, tmp_path / "mail.tamis") as server,
        run_chromium() as browser,
    ):
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        context = browser.new_context()
        tab = context.new_page()
        tab.goto(server.printed)
        assert tab.inner_text("h1") == "Mail"
        assert any("tamis_session" in one.get("name", "") for one in context.cookies())
        tab.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/first")
        tab.click("a")
        tab.wait_for_url("**/second")
        tab.goto(server.printed.partition("/enter")[0])
        assert tab.inner_text("h1") == "Mail"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    assert {b"/first", b"/second"} <= {request.split()[1] for request in asked if request}
    assert all(b"tamis_session" not in request for request in asked)
