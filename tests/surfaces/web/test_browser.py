"""A new user in a real browser: the whole story, at the width of a phone, and with the keyboard only."""

import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tamis_mail.sample import messages
from tests.surfaces.peers.chromium import Server, run_chromium, run_page, save_screenshot
from tests.surfaces.web.steps import join_mbox

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

pytestmark = pytest.mark.peers

_PATIENCE = 20_000  # milliseconds: the machine may be busy
_SHOWS_FOCUS = """() => {
    const one = document.activeElement;
    return one === document.body || getComputedStyle(one).outlineStyle !== "none";
}"""
_LEARNED = 40  # messages of each kind
_NEW = 30


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with run_chromium() as running:
        yield running


@pytest.fixture(scope="module")
def mailboxes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three mboxes: spam and wanted mail to learn, and new mail."""
    folder = Path(tmp_path_factory.mktemp("mailboxes"))
    parts: dict[str, list[bytes]] = {"spam": [], "ham": [], "new": []}
    for one in messages():
        name: str = one.label if len(parts[one.label]) < _LEARNED else "new"
        if name != "new" or len(parts["new"]) < _NEW:
            parts[name].append(one.raw)
    for name, raws in parts.items():
        (folder / f"{name}.mbox").write_bytes(join_mbox(raws))
    return {name: folder / f"{name}.mbox" for name in parts}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = Path(tmp_path_factory.mktemp("browser"))
    with run_page(folder, folder / "mail.tamis") as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: "Browser", server: Server) -> Iterator["Tab"]:
    """One tab for all tests of this module, which go on where the test before has ended."""
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    context.set_default_timeout(_PATIENCE)
    opened = context.new_page()
    faults: list[str] = []

    def note(kind: str, text: str) -> None:
        if kind == "error" and "404" not in text:  # one of the addresses leads nowhere
            faults.append(text)

    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: note(message.type, message.text))
    opened.goto(server.address)
    yield opened
    assert not faults
    context.close()


def drop(tab: "Tab", path: Path) -> None:
    """Drop a file on the page, as a file manager does."""
    transfer = tab.evaluate_handle(
        """([text, name]) => {
            const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], name));
            return transfer;
        }""",
        [b64encode(path.read_bytes()).decode(), path.name],
    )
    for event in ("dragenter", "dragover", "drop"):
        tab.dispatch_event("#drop", event, {"dataTransfer": transfer})


def import_by_drop(tab: "Tab", path: Path, choice: str, n_listed: int) -> None:
    if tab.locator("#import").get_attribute("open") is None:
        tab.locator("#import summary").click()
    tab.get_by_label(choice).check()
    with tab.expect_navigation(url=re.compile(r"/$")):
        drop(tab, path)
        tab.wait_for_selector("#import-progress:not([hidden])")
    tab.wait_for_selector(f"nav.tabs a[aria-current] >> text={n_listed}")


def test_a_new_user_opens_drops_sees_corrects_and_undoes(
    tab: "Tab", mailboxes: dict[str, Path], server: Server
) -> None:
    # Nothing is there, and the page says how to begin.
    assert "token" not in tab.url
    assert tab.inner_text("#welcome h2") == "Nothing has been learned yet"
    save_screenshot(tab, "story-1-empty")
    # Spam and wanted mail are learned, new mail is judged.
    import_by_drop(tab, mailboxes["spam"], "Spam: learn it", _LEARNED)
    assert tab.inner_text("#welcome h2") == "One kind of mail is missing"
    import_by_drop(tab, mailboxes["ham"], "Wanted mail: learn it", 2 * _LEARNED)
    assert tab.locator("#welcome").count() == 0
    import_by_drop(tab, mailboxes["new"], "Mixed mail: only judge it", 2 * _LEARNED + _NEW)
    save_screenshot(tab, "story-2-mail")
    # Unsure mail comes first.
    names = tab.locator(".verdict-name").all_inner_texts()
    assert names == sorted(names, key=lambda name: name != "unsure")
    assert {"spam", "wanted"} <= set(names)
    # A message is opened, its reasons are read.
    tab.select_option("#label", "none")
    tab.get_by_role("button", name="Show").click()
    tab.wait_for_url(re.compile("label=none"))
    tab.locator("a.subject").first.click()
    tab.wait_for_selector("#verdict-title")
    address = tab.url
    tab.wait_for_selector("#similar-list, #similar-state:has-text('No learned message')")
    assert tab.locator(".tint").count() > 2
    assert tab.locator(".waterfall tbody tr").count() >= 5
    total = tab.locator(".waterfall tr.sum td").first.inner_text()
    before = tab.inner_text("#probability")
    save_screenshot(tab, "story-3-message")
    # It is corrected: the evidence changes.
    tab.get_by_role("button", name="Spam", exact=True).click()
    tab.wait_for_selector("text=1 message learned as spam.")
    assert tab.url == address
    assert tab.locator("#learned").inner_text().startswith("Learned as spam")
    assert tab.locator(".waterfall tr.sum td").first.inner_text() != total
    assert float(tab.inner_text("#probability").split()[0]) > float(before.split()[0])
    assert "learned as spam" in tab.inner_text("#history")
    save_screenshot(tab, "story-4-corrected")
    # It is undone, exactly.
    tab.get_by_role("button", name="Undo").click()
    tab.wait_for_selector("text=1 event is undone.")
    assert tab.inner_text("#probability") == before
    assert tab.locator(".waterfall tr.sum td").first.inner_text() == total
    assert tab.locator("#learned").count() == 0
    history = tab.inner_text("#history")
    assert "forgotten" in history
    save_screenshot(tab, "story-5-undone")
    # The journal has both events.
    tab.get_by_role("link", name="Journal").click()
    tab.wait_for_selector("table.journal")
    newest, before_it = tab.locator("table.journal tbody tr").all_inner_texts()[:2]
    assert "undid" in newest
    assert "undone by" in before_it
    save_screenshot(tab, "story-6-journal")


def test_several_messages_are_marked_together(tab: "Tab", server: Server) -> None:
    tab.goto(f"{server.root}/?label=none")
    boxes = tab.locator('input[name="digest"]')
    for number in range(3):
        boxes.nth(number).check()
    assert tab.inner_text("#selected") == "3 selected"
    tab.locator(".bulk").get_by_role("button", name="Spam", exact=True).click()
    tab.wait_for_selector("text=3 messages learned as spam.")
    tab.get_by_role("button", name="Undo").click()
    tab.wait_for_selector("text=3 events are undone.")


def test_the_keyboard_alone_suffices(tab: "Tab", server: Server) -> None:
    tab.goto(f"{server.root}/?label=none")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.keyboard.press("Enter")
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    tab.keyboard.press("k")
    first = tab.locator("a.subject").first
    assert first.evaluate("(link) => link === document.activeElement")
    save_screenshot(tab, "keyboard-focus")
    tab.keyboard.press("x")
    assert tab.inner_text("#selected") == "1 selected"
    tab.keyboard.press("h")
    tab.wait_for_selector("text=1 message learned as wanted mail.")
    tab.wait_for_load_state("load")
    tab.keyboard.press("u")
    tab.wait_for_selector("text=1 event is undone.")
    tab.wait_for_load_state("load")
    tab.keyboard.press("/")
    tab.keyboard.type("zzzz")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=No message matches.")
    tab.goto(f"{server.root}/?label=none")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile("/messages/"), wait_until="load")
    tab.keyboard.press("s")
    tab.wait_for_selector("text=1 message learned as spam.")
    tab.wait_for_load_state("load")
    tab.keyboard.press("u")
    tab.wait_for_selector("text=1 event is undone.")
    tab.wait_for_load_state("load")
    tab.keyboard.press("b")
    tab.wait_for_selector("ul.mail")
    for _ in range(60):  # every element that takes the focus shows it
        tab.keyboard.press("Tab")
        assert tab.evaluate(_SHOWS_FOCUS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(tab: "Tab", server: Server, scheme: str) -> None:
    tab.set_viewport_size({"width": 360, "height": 740})
    tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    try:
        for name, address in (("mail", "/"), ("message", None), ("error", "/nothing")):
            if address is None:
                tab.locator("a.subject").first.click()
                tab.wait_for_selector("#similar-list, #similar-state:has-text('No learned message')")
            else:
                tab.goto(server.root + address)
            save_screenshot(tab, f"phone-{scheme}-{name}")
            width = tab.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, name
    finally:
        tab.set_viewport_size({"width": 1100, "height": 800})
        tab.emulate_media(color_scheme="light")


def test_axe_finds_no_serious_fault(tab: "Tab", server: Server) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        for address in ("/", None):
            if address is None:
                tab.goto(f"{server.root}/")
                tab.locator("a.subject").first.click()
                tab.wait_for_selector("#similar-list, #similar-state:has-text('No learned message')")
            else:
                tab.goto(server.root + address)
            faults = [
                (fault["id"], [node["html"][:200] for node in fault["nodes"][:3]])
                for fault in axe.run(tab).response["violations"]
                if fault["impact"] in ("serious", "critical")
            ]
            assert not faults, (scheme, address)
