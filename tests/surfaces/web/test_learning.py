"""Figures are computed off the event loop, once until the store changes, and say what is missing."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis_mail.sample import messages
from tamis_mail.store.log import VERDICT, Event, EventLog
from tamis_mail.surfaces.web import figures
from tamis_mail.surfaces.web.figures import FIGURES, Figure
from tamis_mail.surfaces.web.threads import Connections
from tests.surfaces.web.conftest import Page, open_page
from tests.surfaces.web.stores import make_store


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a store that has learned some of the sample mailbox."""
    with open_page(make_store(tmp_path_factory.mktemp("learned") / "mail.tamis")) as page:
        yield page


def wait_for(page: Page, name: str) -> dict[str, Any]:
    """Ask for a figure until it is computed, as the script of the page does."""
    return wait_at(page, f"/learning/figures/{name}")


def wait_at(page: Page, address: str) -> dict[str, Any]:
    """Ask for values at an address until they are computed."""
    response = page.client.get(address)
    while response.status_code == 202:
        job = page.client.get(f"/jobs/{response.json()['job']['key']}").json()
        assert job["fault"] == ""
        assert 0 <= job["done"] <= job["total"]
        time.sleep(0.02)
        if job["finished"]:
            response = page.client.get(address)
    assert response.status_code == 200
    values: dict[str, Any] = response.json()
    return values


def test_the_view_comes_before_its_figures(learned: Page) -> None:
    response = learned.client.get("/learning")
    assert response.status_code == 200
    for name in FIGURES:
        assert f'data-figure="{name}"' in response.text


def test_the_study_judges_each_message_once(learned: Page) -> None:
    values = wait_for(learned, "study")
    assert values["sample"]["messages"] == values["measures"]["messages"] == 150
    assert values["curve"][-1]["learned"] == 120
    assert values["roc"][0] == [0.0, 0.0]
    assert values["roc"][-1] == [1.0, 1.0]
    assert sum(one["messages"] for one in values["bins"]) == 150


def test_the_weights_have_their_uncertainty(learned: Page) -> None:
    values = wait_for(learned, "weights")
    assert values["messages"] == 150
    assert [one["title"] for one in values["estimates"]][-1] == "before evidence"
    assert all(one["deviation"] > 0 for one in values["estimates"])


def test_the_trend_of_the_verdicts_has_a_band_and_rises(learned: Page) -> None:
    values = wait_for(learned, "trend")
    assert values["by"] == "verdict"
    assert len(values["days"]) == 20
    assert all(low <= share <= high for _, share, low, high in values["trend"]["points"])
    assert values["trend"]["rise"] > 0.99
    assert values["changes"]["spam"]["rise"] > 0.99


def test_mail_that_was_judged_today_is_shown_by_its_dates(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, one in enumerate(islice(messages(2026), 50)):
        (folder / f"{number}.eml").write_bytes(one.raw)
    page.post("/settings/folders", path=str(folder))
    page.context.threads.submit_background(lambda connections: None).result()  # after the folder was read
    values = wait_for(page, "trend")
    assert values["by"] == "date"
    assert sum(day["messages"] for day in values["days"]) == 50
    assert values["trend"] is not None


def test_the_map_and_the_campaigns_name_messages(learned: Page) -> None:
    points = wait_for(learned, "map")["points"]
    assert len(points) == 150
    assert all(point["subject"] or point["sender"] for point in points)
    campaigns = wait_for(learned, "campaigns")["campaigns"]
    digests = {point["digest"]: point["spam"] for point in points}
    assert campaigns
    assert all(digests[example["digest"]] for one in campaigns for example in one["examples"])


def test_words_of_a_campaign_are_read_from_the_mail(page: Page, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    template = [
        "cheap",
        "meds",
        "online",
        "from",
        "our",
        "new",
        "pharmacy",
        "without",
        "any",
        "prescription",
        "needed",
        "today",
    ]
    others = ["".join(letters) for letters in product("bdfgklmnprst", "aeiou", "bdfgklmnprst")]
    bodies = [
        [*rng.permutation(template), *rng.choice(others, 2)] if number % 2 else [*rng.choice(others, 12)]
        for number in range(40)
    ]
    mail = [f"From: x@example.org\n\n{' '.join(body)}".encode() for body in bodies]
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, raw in enumerate(mail):
        (folder / f"{number}.eml").write_bytes(raw)
    page.post("/settings/folders", path=str(folder))
    page.context.threads.submit_background(lambda connections: None).result()  # after the folder was read
    page.context.threads.submit_writing(
        lambda connections: connections.sieve.learn_many(mail, "spam", processes=1)
    ).result()
    words = {word for one in wait_for(page, "campaigns")["campaigns"] for word in one["words"]}
    assert len(words & {*template}) > 5
    assert len(words & {*others}) < 3


def test_the_periods_of_drift_are_in_the_order_of_dates(learned: Page) -> None:
    periods = wait_for(learned, "drift")["periods"]
    assert len(periods) == 7
    assert all(one["last"] <= other["first"] for one, other in pairwise(periods))


def test_an_empty_store_says_what_is_missing(page: Page) -> None:
    assert "at least 6 learned messages" in wait_for(page, "study")["shortage"]
    assert wait_for(page, "weights")["messages"] is None
    assert wait_for(page, "trend")["days"] == []
    assert wait_for(page, "drift")["periods"] == []
    assert wait_for(page, "campaigns")["campaigns"] == []
    assert wait_for(page, "map")["points"] == []


def test_an_unknown_figure_is_not_found(page: Page) -> None:
    assert page.client.get("/learning/figures/none").status_code == 404


def test_a_figure_is_computed_again_only_after_the_store_has_changed(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def compute(connections: Connections, progress: figures.Progress) -> dict[str, Any]:
        calls.append(len(connections.sieve.store.labels()))
        return {"labels": calls[-1]}

    monkeypatch.setitem(FIGURES, "map", Figure("Counting", compute))
    assert wait_for(page, "map") == wait_for(page, "map") == {"labels": 0}
    assert len(calls) == 1
    page.context.threads.submit_writing(
        lambda connections: connections.sieve.learn(b"Subject: Lunch\n\nAt noon?", "ham")
    ).result()
    assert wait_for(page, "map") == {"labels": 1}
    assert len(calls) == 2


def test_views_answer_while_a_figure_is_computed(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def compute(_: Connections, progress: figures.Progress) -> dict[str, Any]:
        progress(0.5)
        may_end.wait(20)
        return {}

    monkeypatch.setitem(FIGURES, "map", Figure("Waiting", compute))
    try:
        job = page.client.get("/learning/figures/map").json()["job"]
        for address in ("/", "/learning", "/journal", "/settings"):
            assert page.client.get(address).status_code == 200
        while page.client.get(f"/jobs/{job['key']}").json()["done"] != 50:
            time.sleep(0.01)
        assert page.client.get("/learning/figures/map").json()["job"]["key"] == job["key"]
    finally:
        may_end.set()
    assert wait_for(page, "map") == {}


def test_a_fault_of_a_figure_is_said_and_the_next_request_tries_again(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[dict[str, Any] | Exception] = [ValueError("no such luck"), {"done": True}]

    def compute(_: Connections, __: figures.Progress) -> dict[str, Any]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setitem(FIGURES, "map", Figure("Failing", compute))
    job = page.client.get("/learning/figures/map").json()["job"]
    while not (answer := page.client.get(f"/jobs/{job['key']}").json())["finished"]:
        time.sleep(0.01)
    assert answer["fault"] == "no such luck"
    assert wait_for(page, "map") == {"done": True}


def test_a_server_that_ends_does_not_wait_for_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun = threading.Event()

    def compute(_: Connections, progress: figures.Progress) -> dict[str, Any]:
        while True:
            has_begun.set()
            progress(0.1)
            time.sleep(0.01)

    monkeypatch.setitem(FIGURES, "map", Figure("Going on", compute))
    with open_page(tmp_path / "mail.tamis") as page:
        page.client.get("/learning/figures/map")
        assert has_begun.wait(20)


def test_controls_in_subjects_are_marks(page: Page) -> None:
    def learn(connections: Connections) -> None:
        digests = [
            connections.sieve.learn(b"From: x@example.org\n\n" + words, "spam").digest
            for words in (b"one two three", b"two three four", b"one three four", b"four one")
        ]
        subject = "a\u202eb\u0007<script>"
        events = [Event(0, VERDICT, digest, "spam", probability=0.9, subject=subject) for digest in digests]
        EventLog.of(connections.sieve.store.path_name).append(events)

    page.context.threads.submit_writing(learn).result()
    points = wait_for(page, "map")["points"]
    assert {point["subject"] for point in points} == {"a⟨U+202E⟩b⟨U+0007⟩<script>"}


def test_the_server_starts_without_loading_models() -> None:
    program = "import sys, tamis_mail.surfaces.web.app; print(sorted({'scipy', 'sklearn'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
