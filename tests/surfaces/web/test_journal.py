"""The journal lists learning events, newest first, and undoes each exactly."""

import re
from pathlib import Path

from tamis_mail.surfaces.web.threads import Connections
from tests.surfaces.web.conftest import Page

MAIL = [b"From: a@example.org\nSubject: Number %d\n\nwords of number %d" % (n, n) for n in range(120)]


def learn(page: Page, first: int, last: int, label: str) -> None:
    page.context.threads.submit_writing(
        lambda connections: connections.sieve.learn_many(MAIL[first:last], label, processes=1)
    ).result()


def read_labels(page: Page) -> dict[str, int]:
    def read(connections: Connections) -> dict[str, int]:
        return {label.name: label.messages for label in connections.sieve.store.labels()}

    return page.context.threads.submit_reading(read).result()


def list_numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'<tr role="row" id="event-(\d+)"', text)]


def test_an_empty_journal_says_so(page: Page) -> None:
    assert "Nothing has been learned yet" in page.client.get("/journal").text


def test_an_event_is_undone(page: Page) -> None:
    learn(page, 0, 3, "spam")
    assert list_numbers(page.client.get("/journal").text) == [3, 2, 1]
    text = page.post("/undo", events=2, next="/journal").text
    assert "1 event is undone" in text
    assert 'undone by <a href="#event-4">event 4</a>' in text
    assert list_numbers(text) == [4, 3, 2, 1]
    assert read_labels(page) == {"spam": 2}
    assert re.findall(r'aria-label="Undo event (\d+)"', text) == ["4", "3", "1"]
    text = page.post("/undo", events=4, next="/journal").text
    assert "its text cannot be shown" in text  # forgotten features come back from the message only
    assert read_labels(page) == {"spam": 2}


def test_an_undoing_is_undone_where_the_mail_is(page: Page, tmp_path: Path) -> None:
    (tmp_path / "one.eml").write_bytes(MAIL[1])
    page.post("/settings/folders", path=str(tmp_path / "one.eml"))
    page.context.threads.submit_background(lambda connections: None).result()  # after the folder was read
    learn(page, 0, 3, "spam")
    page.post("/undo", events=2, next="/journal")
    text = page.post("/undo", events=4, next="/journal").text
    assert "1 event is undone" in text
    assert read_labels(page) == {"spam": 3}


def test_a_correction_is_undone(page: Page) -> None:
    learn(page, 0, 2, "spam")
    learn(page, 1, 2, "ham")
    text = page.client.get("/journal").text
    assert "moved the message from spam to ham" in text
    page.post("/undo", events=3, next="/journal")
    assert read_labels(page)["spam"] == 2
    text = page.post("/undo", events=4, next="/journal").text
    assert "1 event is undone" in text
    assert read_labels(page) == {"spam": 1, "ham": 1}


def test_the_order_of_events_is_kept(page: Page) -> None:
    learn(page, 0, 1, "spam")
    learn(page, 0, 1, "ham")
    text = page.post("/undo", events=1, next="/journal").text
    assert "cannot be undone before event 2" in text
    assert read_labels(page)["ham"] == 1


def test_pages_of_the_journal_follow_each_other(page: Page) -> None:
    learn(page, 0, 120, "ham")
    numbers: list[int] = []
    address: str | None = "/journal"
    while address:
        text = page.client.get(address).text
        numbers += list_numbers(text)
        older = re.search(r'href="(/journal\?before=\d+)"', text)
        address = older[1] if older else None
    assert numbers == list(range(120, 0, -1))


def test_a_wrong_number_is_refused(page: Page) -> None:
    for text in ("x", "-1", "9" * 30, "1;DROP"):
        assert page.client.get("/journal", params={"before": text}).status_code == 400


def test_hostile_text_is_only_text(page: Page) -> None:
    mail = b"From: <script>alert(1)</script>\nSubject: <img src=x onerror=alert(1)>\n\nx"
    page.context.threads.submit_writing(lambda connections: connections.sieve.learn(mail, "spam")).result()
    text = page.client.get("/journal").text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
