"""The page Learning, the journal and the settings in Chromium: pictures, keyboard, phone, no fault of axe."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.surfaces.peers.chromium import (
    Server,
    require_chromium,
    run_chromium,
    run_page,
    save_screenshot,
)
from tests.surfaces.web.stores import make_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

pytestmark = pytest.mark.peers

VIEWS = {
    "/learning": "html[data-ready=learning]",
    "/journal": "table.journal",
    "/settings": "#suggestion:not([hidden])",
}
CHARTS = [
    "Verdicts over time",
    "Learning curve",
    "ROC curve",
    "Calibration",
    "Weights of each kind of evidence",
    "Map of the mailbox",
    "Each period judged by earlier mail",
    "New features",
    "Campaigns",
]


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    require_chromium()
    with run_chromium() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("web")
    with run_page(folder, make_store(folder / "mail.tamis")) as started:
        yield started


@pytest.fixture(scope="module")
def cookies(browser: "Browser", server: Server) -> Any:
    """The session of a browser that has opened the address."""
    context = browser.new_context()
    context.new_page().goto(server.address)
    session = context.cookies()
    context.close()
    return session


def open_context(browser: "Browser", cookies: Any, **options: Any) -> "BrowserContext":
    context = browser.new_context(**options)
    context.add_cookies(cookies)
    return context


@pytest.fixture
def page(browser: "Browser", server: Server, cookies: Any) -> Iterator["Page"]:
    """A page that may neither print an error nor ask another server for anything."""
    context = open_context(browser, cookies, viewport={"width": 1100, "height": 800})
    opened = context.new_page()
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on(
        "request", lambda request: None if request.url.startswith(server.root) else faults.append(request.url)
    )
    yield opened
    context.close()
    assert faults == []


def show(page: "Page", server: Server, view: str) -> None:
    page.goto(server.root + view)
    page.wait_for_selector(VIEWS[view], timeout=60_000)


def test_every_figure_is_drawn_with_a_text_alternative(page: "Page", server: Server) -> None:
    show(page, server, "/learning")
    assert page.locator("figure.chart figcaption").all_inner_texts() == CHARTS
    for figure in page.locator("figure.chart").all():
        picture = figure.locator(".plot svg")
        assert picture.get_attribute("role") == "img"
        names = (picture.get_attribute("aria-labelledby") or "").split()
        alternative = " ".join(page.locator(f"#{name}").text_content() or "" for name in names)
        assert len(alternative) > 40
        figure.locator("summary").click()
        figure.locator("details table tbody tr").first.wait_for()
    assert page.locator("[role=alert]").count() == 0
    assert page.locator("[aria-busy=true]").count() == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("light", {"viewport": {"width": 1100, "height": 800}}),
        ("dark", {"viewport": {"width": 1100, "height": 800}, "color_scheme": "dark"}),
        ("phone", {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}),
    ],
)
def test_axe_finds_no_serious_fault(
    browser: "Browser", server: Server, cookies: Any, name: str, options: dict[str, Any]
) -> None:
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")
    context = open_context(browser, cookies, **options)
    page = context.new_page()
    for view in VIEWS:
        show(page, server, view)
        for summary in page.locator("figure.chart summary").all()[:2]:
            summary.click()
        results = axe_module.Axe().run(page).response
        serious = [
            (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in results["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], view
        assert page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
        save_screenshot(page, f"{view.strip('/')}-{name}")
    context.close()


def test_the_map_is_read_by_the_pointer_and_by_the_keyboard(page: "Page", server: Server) -> None:
    show(page, server, "/learning")
    figure = page.locator("figure.chart").nth(CHARTS.index("Map of the mailbox"))
    current = figure.locator(".current")
    figure.locator(".plot .tone-spam path").first.hover()
    assert re.match("(spam|wanted): ", current.inner_text())
    plot = figure.locator(".plot")
    plot.focus()
    texts = set()
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "End"):
        page.keyboard.press(key)
        texts.add(current.inner_text())
    assert len(texts) > 3
    assert all(re.match("(spam|wanted): ", text) for text in texts)
    page.keyboard.press("Escape")
    assert "arrow keys" in current.inner_text()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/messages/[0-9a-f]{32}"))


def test_a_click_on_the_map_opens_the_message(page: "Page", server: Server) -> None:
    show(page, server, "/learning")
    figure = page.locator("figure.chart").nth(CHARTS.index("Map of the mailbox"))
    figure.locator(".plot .tone-ham circle").first.click(force=True)
    page.wait_for_url(re.compile("/messages/[0-9a-f]{32}"))


def test_progress_is_shown_while_a_figure_is_computed(page: "Page", server: Server) -> None:
    job = {"key": "0" * 16, "title": "Counting", "done": 0, "total": 10, "fault": "", "finished": False}
    shown: list[str | None] = []

    def answer_figure(route: "Route") -> None:
        if shown:
            route.continue_()
        else:
            route.fulfill(status=202, json={"job": job})

    def answer_job(route: "Route") -> None:
        bar = page.locator("progress[aria-label=Counting]")
        shown.append(bar.get_attribute("value"))
        route.fulfill(json=job | {"done": 4 * len(shown), "finished": len(shown) == 3})

    page.route("**/learning/figures/map", answer_figure)
    page.route(f"**/jobs/{job['key']}", answer_job)
    show(page, server, "/learning")
    assert shown == ["0", "4", "8"]
    assert page.locator("progress").count() == 0
    assert page.locator("figure.chart figcaption").all_inner_texts() == CHARTS


def test_an_event_is_undone_with_the_keyboard(page: "Page", server: Server) -> None:
    show(page, server, "/journal")
    newest = page.locator("table.journal tbody tr").first.get_attribute("id")
    button = page.locator(f"#{newest} button")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".notice:has-text('1 event is undone')")
    assert page.locator(f"#{newest} button").count() == 0
    assert "undone by" in page.locator(f"#{newest}").inner_text()


def test_thresholds_are_suggested_and_saved(page: "Page", server: Server) -> None:
    show(page, server, "/settings")
    page.locator("#rate-lost").select_option("0.05")
    page.locator("#rate-passed").select_option("0.05")
    page.get_by_role("button", name="Suggest thresholds").click()
    page.wait_for_selector("#suggested p:has-text('each judged by the others')", timeout=60_000)
    put = page.get_by_role("button", name="Put these into the form")
    if put.count():
        put.click()
    else:
        page.locator("#threshold-ham").fill("0.12")
    wanted = page.locator("#threshold-ham").input_value()
    page.keyboard.press("Enter") if put.count() else page.get_by_role(
        "button", name="Save thresholds"
    ).click()
    page.wait_for_selector(f".notice:has-text('as wanted up to {wanted}')")


def test_a_sender_is_blocked_and_the_notice_undoes_it(page: "Page", server: Server) -> None:
    show(page, server, "/settings")
    page.get_by_label("Addresses or domains").fill("spam@example.org")
    page.get_by_role("button", name="Block").click()
    page.wait_for_selector(".notice:has-text('Blocked: spam@example.org')")
    assert page.get_by_role("button", name="Remove spam@example.org from the blocked senders").count() == 1
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".notice:has-text('Undone')")
    assert page.url == f"{server.root}/settings"
    assert page.get_by_text("Blocked (0)").count() == 1


def test_a_backup_is_downloaded(page: "Page", server: Server) -> None:
    show(page, server, "/settings")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download a backup", exact=True).click()
    path = downloading.value.path()
    assert path.read_bytes().startswith(b"SQLite format 3\0")
    assert downloading.value.suggested_filename.endswith(".tamis")
