"""Settings change the store as the commands do, and downloads can be read again."""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis_mail.store import Store, exchange, saving
from tamis_mail.store.people import list_entries
from tamis_mail.surfaces.web.threads import Connections
from tamis_mail.verdict import RULE, Rule
from tests.surfaces.web.conftest import Page, open_page
from tests.surfaces.web.stores import make_store
from tests.surfaces.web.test_learning import wait_at


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(make_store(tmp_path_factory.mktemp("learned") / "mail.tamis", 120)) as page:
        yield page


def read_rule(page: Page) -> Rule:
    return page.context.threads.submit_reading(lambda connections: Rule.of(connections.sieve.store)).result()


def read_lists(page: Page) -> tuple[list[str], list[str]]:
    def read(connections: Connections) -> tuple[list[str], list[str]]:
        store = connections.sieve.store
        return list_entries(store, is_allowed=True), list_entries(store, is_allowed=False)

    return page.context.threads.submit_reading(read).result()


def test_thresholds_are_written_to_the_rule(page: Page) -> None:
    text = page.post("/settings/thresholds", spam="0.9", ham="0.2").text
    assert "from a probability of 0.9" in text
    assert (read_rule(page).spam, read_rule(page).ham) == (0.9, 0.2)


@pytest.mark.parametrize(
    ("spam", "ham"),
    [("1", "0.1"), ("0.5", "0.6"), ("nan", "0.1"), ("x", "0.1"), ("0.9", ""), ("1e999", "0.1")],
)
def test_impossible_thresholds_change_nothing(page: Page, spam: str, ham: str) -> None:
    assert "Nothing was changed" in page.post("/settings/thresholds", spam=spam, ham=ham).text
    assert (read_rule(page).spam, read_rule(page).ham) == (RULE.spam, RULE.ham)


def test_thresholds_are_suggested_by_the_wanted_rates(learned: Page) -> None:
    values = wait_at(learned, "/settings/suggestion?lost=0.05&passed=0.05")
    assert values["sample"]["messages"] == 120
    assert values["ham"]["suggested"] is not None
    assert values["ham"]["tolerated"] == int(0.05 * values["sample"]["spam"])
    assert values["spam"]["now"] == RULE.spam


def test_another_rate_is_refused(page: Page) -> None:
    for text in ("0.5", "", "x", "1e-9"):
        assert page.client.get(f"/settings/suggestion?lost={text}&passed=0.01").status_code == 400


def test_senders_are_allowed_blocked_and_removed_and_each_is_undone(page: Page) -> None:
    text = page.post("/settings/senders", entries="Ann@Example.org, shop.example", list="allowed").text
    assert "Allowed: ann@example.org, shop.example" in text
    assert read_lists(page) == (["ann@example.org", "@shop.example"], [])
    page.post("/settings/senders", entries="shop.example", list="blocked")
    assert read_lists(page) == (["ann@example.org"], ["@shop.example"])
    page.post("/undo", was_new="", was_allowed="@shop.example", was_blocked="", next="/settings")
    assert read_lists(page) == (["ann@example.org", "@shop.example"], [])
    text = page.post("/settings/senders/remove", entry="@shop.example", list="allowed").text
    assert "shop.example is no longer allowed" in text
    assert read_lists(page) == (["ann@example.org"], [])


def test_the_notice_of_a_change_of_senders_can_undo_it(page: Page) -> None:
    text = page.post("/settings/senders", entries="ann@example.org", list="blocked").text
    assert 'name="was_new" value="ann@example.org"' in text
    assert 'name="next" value="/settings"' in text


@pytest.mark.parametrize("entries", ["", "a b c", "/etc/passwd", "<script>", "x" * 5000])
def test_what_is_no_sender_is_refused(page: Page, entries: str) -> None:
    text = page.post("/settings/senders", entries=entries, list="allowed").text
    assert "Nothing was changed" in text
    assert "<script>" not in text.partition("<main")[2]
    assert read_lists(page) == ([], [])


def test_decay_asks_first(page: Page) -> None:
    assert "tick the box first" in page.post("/settings/decay").text
    assert "decayed once" in page.post("/settings/decay", confirmed="yes").text
    assert "decayed once" in page.client.get("/settings").text


def test_a_folder_is_watched_and_removed(page: Page, tmp_path: Path) -> None:
    mailbox = tmp_path / "inbox.mbox"
    mailbox.write_bytes(b"From a Mon Jan  1 00:00:00 2024\nSubject: Lunch\n\nAt noon?\n")
    assert "is watched" in page.post("/settings/folders", path=str(mailbox)).text
    text = page.client.get("/settings").text
    assert str(mailbox) in text
    assert "is no longer listed" in page.post("/settings/folders/remove", number=1).text
    assert str(mailbox) not in page.client.get("/settings").text
    assert mailbox.exists()


def test_listed_messages_are_judged_again_after_a_change(page: Page, tmp_path: Path) -> None:
    mailbox = tmp_path / "one.eml"
    mailbox.write_bytes(b"From: Bob <bob@shop.example>\nSubject: Lunch\n\nAt noon?\n")
    page.post("/settings/folders", path=str(mailbox))
    page.post("/settings/senders", entries="bob@shop.example", list="blocked")

    def read_verdicts(connections: Connections) -> dict[str, int]:
        return connections.catalog.count_verdicts()

    assert page.context.threads.submit_background(read_verdicts).result() == {"spam": 1}
    page.post("/settings/senders/remove", entry="bob@shop.example", list="blocked")
    assert page.context.threads.submit_background(read_verdicts).result() == {"unsure": 1}


def test_damaged_weights_are_said(page: Page) -> None:
    def damage(connections: Connections) -> None:
        with connections.sieve.store.transaction() as writer:
            writer.write_setting("weights", "1 2 3")

    page.context.threads.submit_writing(damage).result()
    response = page.client.get("/settings")
    assert response.status_code == 409
    assert "tamis tune fits them again" in response.text


@pytest.mark.parametrize("path", ["", "relative/path", "/nonexistent/folder", "../..", "/dev/zero"])
def test_what_is_no_folder_is_refused(page: Page, path: str) -> None:
    text = page.post("/settings/folders", path=path).text
    assert "Nothing was changed" in text


def test_a_backup_can_be_restored(learned: Page, tmp_path: Path) -> None:
    response = learned.client.get("/settings/download/backup")
    assert response.status_code == 200
    assert "attachment" in response.headers["content-disposition"]
    assert int(response.headers["content-length"]) == len(response.content)
    (tmp_path / "backup.tamis").write_bytes(response.content)
    saving.restore(tmp_path / "backup.tamis", tmp_path / "mail.tamis")
    with Store(tmp_path / "mail.tamis", create=False) as store:
        assert sum(label.messages for label in store.labels()) == 120


def test_an_export_can_be_imported(learned: Page, tmp_path: Path) -> None:
    response = learned.client.get("/settings/download/export")
    text = gzip.decompress(response.content)
    with Store(tmp_path / "mail.tamis") as store:
        assert exchange.load(store, io.BytesIO(text)) == 120


def test_downloads_need_the_session_and_have_no_other_name(learned: Page) -> None:
    assert learned.client.get("/settings/download/..%2f..%2fetc").status_code == 404
    assert learned.client.get("/settings/download/log").status_code == 404
    assert learned.client.get("/settings/download/backup", headers={"cookie": ""}).status_code == 401


def test_a_change_without_the_token_of_the_page_is_refused(page: Page) -> None:
    for name in ("thresholds", "senders", "senders/remove", "folders", "folders/remove", "decay"):
        assert page.client.post(f"/settings/{name}", data={"confirmed": "yes"}).status_code == 403
    assert "never decayed" in page.client.get("/settings").text
