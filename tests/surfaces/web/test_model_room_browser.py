"""The model room in a real browser: points by pointer and keyboard, steps, phone width, dark, axe."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tamis_mail.surfaces.web.model_room import ROOMS
from tests.surfaces.peers.chromium import run_chromium, run_page, save_screenshot

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.peers
PHONE = {"width": 375, "height": 740}


class Visit:
    """A browser that has entered the page, and the requests and errors of its tabs."""

    def __init__(self, root: str, context: "BrowserContext") -> None:
        self.root = root
        self.context = context
        self.errors: list[str] = []
        self.foreign: list[str] = []

    def open(self, name: str) -> "Page":
        """Open a room in a new tab, and wait for its first picture."""
        tab = self.context.new_page()
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        tab.on("request", lambda request: self._watch(request.url))
        tab.goto(f"{self.root}/rooms/{name}")
        settle(tab)
        return tab

    def _watch(self, address: str) -> None:
        if not address.startswith((self.root, "data:")):
            self.foreign.append(address)


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any, Any]]:
    """A server on an empty store, a browser, and the state of a context that has entered."""
    folder = tmp_path_factory.mktemp("rooms")
    with run_chromium() as browser, run_page(folder, folder / "mail.tamis") as server:
        context = browser.new_context()
        context.new_page().goto(server.address)
        yield server.root, browser, context.storage_state()


@pytest.fixture
def visit(entered: tuple[str, Any, Any]) -> Iterator[Visit]:
    root, browser, state = entered
    context = browser.new_context(storage_state=state, viewport={"width": 1200, "height": 900})
    visit = Visit(root, context)
    yield visit
    context.close()
    assert visit.errors == []
    assert visit.foreign == []


def settle(tab: "Page") -> None:
    """Wait until the last answer is drawn."""
    tab.wait_for_selector("#room[aria-busy=false]", timeout=60_000)


def read_numbers(tab: "Page") -> str:
    settle(tab)
    return tab.inner_text("#numbers")


def count_points(tab: "Page") -> int:
    settle(tab)
    return tab.locator("#data .point").count()


def click_plane(tab: "Page", across: float, up: float, **options: Any) -> None:
    """Click at parts of the width and height of the plane."""
    box: Any = tab.locator("#data svg").bounding_box()
    tab.locator("#data svg").click(
        position={"x": across * box["width"], "y": (1 - up) * box["height"]}, **options
    )


def test_tosses_by_click_update_the_posterior(visit: Visit) -> None:
    tab = visit.open("coin")
    assert "Beta(4, 2)" in read_numbers(tab)
    tab.click("#toss-heads")
    tab.click("#toss-tails")
    assert "becomes the posterior Beta(5, 3)" in read_numbers(tab)
    tab.click("#toss-back")
    assert "Beta(5, 2)" in read_numbers(tab)
    tab.locator("#a").press("End")
    assert "prior Beta(20, 2)" in read_numbers(tab)
    assert tab.inner_text("#a-value") == "20"
    save_screenshot(tab, "rooms-coin")
    tab.click("#toss-clear")
    assert "0 heads in 0 tosses" in read_numbers(tab)


def test_points_of_the_line_come_one_by_one_and_by_click(visit: Visit) -> None:
    tab = visit.open("line")
    assert read_numbers(tab).startswith("After 3 points")
    tab.click("#further")
    assert read_numbers(tab).startswith("After 4 points")
    tab.click("#none")
    assert read_numbers(tab).startswith("After 0 points the level is 0.000 ± 0.707")
    click_plane(tab, 0.4, 0.7)
    assert read_numbers(tab).startswith("After 1 point ")
    tab.click("#further")
    assert count_points(tab) == 2
    save_screenshot(tab, "rooms-line")


def test_the_curve_shows_its_evidence(visit: Visit) -> None:
    tab = visit.open("curve")
    for _ in range(3):
        tab.locator("#functions").press("ArrowLeft")
    assert "10 points, 6 basis functions" in read_numbers(tab)
    click_plane(tab, 0.9, 0.5)
    assert "11 points" in read_numbers(tab)
    tab.check("#by_evidence")
    assert "11 points" in read_numbers(tab)
    assert tab.locator("#alpha").is_disabled()
    chosen = tab.inner_text("#alpha-value")
    precision = re.search(r"precision of the weights is ([\d.]+),", read_numbers(tab))
    assert precision
    assert float(chosen) == pytest.approx(float(precision[1]), rel=0.01)
    tab.uncheck("#by_evidence")
    settle(tab)
    assert tab.inner_text("#alpha-value") == "2" != chosen
    assert "largest" in str(tab.get_attribute("#evidence svg", "aria-label"))
    save_screenshot(tab, "rooms-curve")


def read_objective(tab: "Page") -> float:
    match = re.search(r"log-prior, is (-?\d+\.\d+)", read_numbers(tab))
    assert match
    return float(match[1])


def test_em_goes_forward_back_and_runs_until_it_has_converged(visit: Visit) -> None:
    tab = visit.open("mixture")
    assert tab.locator("#step-back").is_disabled()
    heights = [read_objective(tab)]
    for _ in range(3):
        tab.click("#step-forward")
        heights.append(read_objective(tab))
    assert heights == sorted(heights)
    save_screenshot(tab, "rooms-mixture")
    tab.click("#step-back")
    assert read_objective(tab) == heights[2]
    tab.click("#step-reset")
    assert read_objective(tab) == heights[0]
    assert tab.inner_text("#step-number") == "Step 0"
    tab.select_option("#start", "kmeans")
    before = read_objective(tab)
    tab.click("#step-run")
    tab.get_by_text("The steps have converged").wait_for()
    tab.wait_for_selector("#step-run[aria-pressed=false]")
    assert read_objective(tab) > before
    assert tab.inner_text("#step-number") != "Step 0"


def test_points_are_added_dragged_and_removed_by_pointer(visit: Visit) -> None:
    tab = visit.open("mixture")
    before = count_points(tab)
    click_plane(tab, 0.9, 0.9)
    assert count_points(tab) == before + 1
    mark: Any = tab.locator("#data .point").last.bounding_box()
    x, y = mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 120, y + 60, steps=4)
    tab.mouse.up()
    assert count_points(tab) == before + 1
    moved: Any = tab.locator("#data .point").last.bounding_box()
    assert abs(moved["x"] - mark["x"] + 120) < 3
    tab.mouse.click(x - 120, y + 60)  # picks the point: there is no new one
    assert count_points(tab) == before + 1
    tab.keyboard.down("Shift")
    tab.mouse.click(x - 120, y + 60)
    tab.keyboard.up("Shift")
    assert count_points(tab) == before
    tab.click("#remove-point")
    assert count_points(tab) == before - 1


def test_a_room_without_points_says_so_and_recovers(visit: Visit) -> None:
    tab = visit.open("mixture")
    visit.errors.clear()
    tab.click("#clear-points")
    settle(tab)
    assert tab.inner_text("#fault") == "Got no points, expected at least one: add points."
    click_plane(tab, 0.5, 0.5)
    assert read_numbers(tab).startswith("After 0 steps on 1 point: component A with weight 1.00")
    assert tab.inner_text("#fault") == ""
    # The browser reports the answer 400 in its console.
    assert [error for error in visit.errors if "400" not in error] == []
    visit.errors.clear()


def test_boundaries_follow_the_form_of_the_covariance_and_the_classes(visit: Visit) -> None:
    tab = visit.open("boundaries")
    assert "The boundary is the line" in read_numbers(tab)
    tab.select_option("#covariance", "full")
    assert "The boundaries are conics" in read_numbers(tab)
    save_screenshot(tab, "rooms-boundaries")
    tab.check("input[name=class][value='2']")
    for across, up in ((0.5, 0.85), (0.55, 0.8), (0.45, 0.9)):
        click_plane(tab, across, up)
    assert "class C has 3 points" in read_numbers(tab)
    tab.click("#clear-points")
    click_plane(tab, 0.5, 0.5)
    assert "There is one class, and so no boundary" in read_numbers(tab)
    visit.errors.clear()  # the answer to the cleared plane


def test_learning_curves_cross(visit: Visit) -> None:
    tab = visit.open("learning-curves")
    assert "The curves cross at about" in read_numbers(tab)
    assert tab.locator("#curve-rows tr").count() == 9
    save_screenshot(tab, "rooms-learning-curves")


def test_entries_are_revealed_hidden_and_rated_by_pointer(visit: Visit) -> None:
    tab = visit.open("ratings")
    known = tab.locator("#ratings .known").count()
    tab.locator("#ratings .hidden").first.click()
    settle(tab)
    assert tab.locator("#ratings .known").count() == known + 1
    tab.click("#reveal")
    settle(tab)
    assert tab.inner_text("#known-count").startswith(f"{known + 2} known")
    tab.click("#hide")
    settle(tab)
    assert tab.locator("#ratings .known").count() == known + 1
    for _ in range(3):
        tab.click("#step-forward")
    assert "After 3 sweeps" in read_numbers(tab)
    save_screenshot(tab, "rooms-ratings")


def press_tab_until(tab: "Page", selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_the_plane_works_with_the_keyboard_alone(visit: Visit) -> None:
    tab = visit.open("boundaries")
    before = count_points(tab)
    press_tab_until(tab, "#data svg")
    tab.keyboard.press("2")
    for key in ("ArrowRight", "Shift+ArrowUp", "Enter"):
        tab.keyboard.press(key)
    assert count_points(tab) == before + 1
    assert tab.text_content("#said") == "Point added at 5.2, 6"
    assert "class B has 25 points" in read_numbers(tab)
    tab.keyboard.press("p")
    assert tab.text_content("#said") == f"Picked point {before + 1} of class B at 5.2, 6"
    tab.keyboard.press("ArrowLeft")
    assert tab.text_content("#said") == f"Point {before + 1} at 5, 6"
    settle(tab)
    assert tab.locator("#data .picked").count() == 1
    save_screenshot(tab, "rooms-keyboard")
    tab.keyboard.press("Delete")
    assert count_points(tab) == before
    press_tab_until(tab, "summary")
    tab.keyboard.press("Enter")
    press_tab_until(tab, "#new-x")
    tab.keyboard.type("2.5")
    press_tab_until(tab, "#new-y")
    tab.keyboard.type("7.5")
    press_tab_until(tab, "#add-point")
    tab.keyboard.press("Enter")
    assert count_points(tab) == before + 1
    assert tab.locator("#point-rows tr").last.inner_text().split()[1:3] == ["2.5", "7.5"]


def test_steps_and_entries_work_with_the_keyboard_alone(visit: Visit) -> None:
    tab = visit.open("ratings")
    press_tab_until(tab, "#ratings button")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
    focused = tab.locator("#ratings button:focus")
    assert str(focused.get_attribute("aria-label")).startswith("User 2, film C: ")
    tab.keyboard.press("4")
    settle(tab)
    assert focused.get_attribute("aria-label") == "User 2, film C: known, 4 stars"
    tab.keyboard.press("Enter")
    settle(tab)
    assert re.fullmatch(
        r"User 2, film C: hidden, predicted \d\.\d, true rating 4", str(focused.get_attribute("aria-label"))
    )
    press_tab_until(tab, "#step-forward")
    tab.keyboard.press("Enter")
    assert "After 1 sweep " in read_numbers(tab)


@pytest.mark.parametrize("name", list(ROOMS))
def test_a_room_fits_a_phone_in_the_dark_and_has_no_serious_fault(visit: Visit, name: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = visit.open(name)
    tab.set_viewport_size(PHONE)  # type: ignore[arg-type]
    for scheme in ("light", "dark") if name in ("boundaries", "ratings") else ("light",):
        tab.emulate_media(color_scheme=scheme)
        violations = axe.run(tab, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [one for one in violations if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in serious] == []
    for picture in tab.locator("svg").all():
        assert len(str(picture.get_attribute("aria-label"))) > 20, "a picture says its numbers"
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    save_screenshot(tab, f"rooms-{name}-phone-dark")


def test_the_list_of_rooms_has_no_serious_fault(visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = visit.context.new_page()
    tab.goto(f"{visit.root}/rooms")
    violations = axe.run(tab, options={"resultTypes": ["violations"]}).response["violations"]
    assert [one["id"] for one in violations if one["impact"] in ("serious", "critical")] == []
    tab.click("text=EM, step by step")
    tab.click("text=F3")
    tab.wait_for_url("**/rooms#row-F3")
    tab.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    save_screenshot(tab, "rooms-phone")
