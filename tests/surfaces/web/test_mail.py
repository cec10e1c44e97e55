"""The page of mail lists what was imported; actions change the store, and undo takes them back exactly."""

import html
import re
from pathlib import Path

import pytest

from tamis_mail.sample import messages
from tamis_mail.sieve import Sieve
from tests.surfaces.web.conftest import Page, open_page
from tests.surfaces.web.steps import import_file, join_mbox, wait_for_job

OFFER = b"Subject: Cheap watches\nFrom: Shop <shop@cheap.example>\n\nBuy watches now, cheap offer\n"
LUNCH = b"Subject: Lunch\nFrom: Ann <ann@home.example>\n\nAt noon, as always?\n"


def list_digests(page: Page, **parameters: str) -> list[str]:
    text = page.client.get("/", params=parameters).text
    return re.findall('<a class="subject" href="/messages/([0-9a-f]{32})"', text)


def read_undo(text: str) -> dict[str, str]:
    """Read the form that undoes the last action."""
    form = re.search('<form method="post" action="/undo">(.*?)</form>', text, re.DOTALL)
    assert form
    fields = re.findall('name="([a-z_]+)" value="([^"]*)"', form[1])
    return {name: html.unescape(value) for name, value in fields if name != "csrf"}


def read_store(page: Page) -> list[tuple[bytes, str]]:
    with Sieve.open(page.context.store, readonly=True) as sieve:
        return [(entry.digest, entry.label) for entry in sieve.store.entries()]


@pytest.fixture
def filled(page: Page) -> Page:
    """A page with two messages, and some learned mail of both kinds."""
    parts: dict[str, list[bytes]] = {"spam": [], "ham": []}
    for one in messages():
        if len(parts[one.label]) < 12:
            parts[one.label].append(one.raw)
    for label, raws in parts.items():
        assert import_file(page, join_mbox(raws), label=label)["fault"] == ""
    assert import_file(page, join_mbox([OFFER, LUNCH]))["fault"] == ""
    return page


def test_an_import_is_listed_learned_and_judged(filled: Page) -> None:
    assert len(list_digests(filled)) == 26
    assert len(list_digests(filled, label="spam")) == 12
    assert len(list_digests(filled, label="none")) == 2
    assert len(list_digests(filled, text="lunch", label="none")) == 1
    assert len(read_store(filled)) == 24


def test_marking_and_undo_leave_the_store_as_it_was(filled: Page) -> None:
    before = read_store(filled)
    learned, new = list_digests(filled, label="ham")[:2], list_digests(filled, label="none")
    marked = filled.post("/mark", digest=[*learned, *new], action="spam")
    assert "4 messages learned as spam." in marked.text
    assert len(read_store(filled)) == len(before) + 2
    undone = filled.post("/undo", **read_undo(marked.text))
    assert "4 events are undone." in undone.text
    assert read_store(filled) == before
    again = filled.post("/undo", **read_undo(undone.text))  # an undo can be undone
    assert "4 events are undone." in again.text
    assert len(read_store(filled)) == len(before) + 2


def test_forgetting_and_undo_leave_the_store_as_it_was(filled: Page) -> None:
    before = read_store(filled)
    (name,) = list_digests(filled, label="spam")[:1]
    forgotten = filled.post("/mark", one=f"forget:{name}")
    assert "1 message forgotten." in forgotten.text
    assert len(read_store(filled)) == len(before) - 1
    assert name in list_digests(filled, label="none")
    filled.post("/undo", **read_undo(forgotten.text))
    assert read_store(filled) == before


def test_a_blocked_sender_is_spam_until_it_is_undone(filled: Page) -> None:
    (name,) = list_digests(filled, text="lunch", label="none")
    blocked = filled.post("/mark", digest=name, action="block", next=f"/messages/{name}")
    assert "Blocked: ann@home.example." in blocked.text
    assert "blocked: ann@home.example" in filled.client.get(f"/messages/{name}").text
    assert list_digests(filled, verdict="spam", text="lunch", label="none") == [name]
    undone = filled.post("/undo", **read_undo(blocked.text))
    assert "as before" in undone.text
    assert list_digests(filled, verdict="spam", text="lunch", label="none") == []


def test_a_correction_changes_the_evidence(filled: Page) -> None:
    (name,) = list_digests(filled, text="watches", label="none")

    def read_probability() -> float:
        text = filled.client.get(f"/messages/{name}").text
        found = re.search('id="probability">([0-9.]+) %', text)
        assert found
        return float(found[1])

    before = read_probability()
    filled.post("/mark", digest=name, action="spam")
    assert read_probability() > before
    undo = filled.post("/mark", digest=name, action="forget")
    assert undo.status_code == 200
    assert read_probability() == before


def test_verdicts_that_are_older_than_the_last_learning_are_brought_up_to_date(filled: Page) -> None:
    (name,) = list_digests(filled, text="watches", label="none")
    (other,) = list_digests(filled, text="lunch", label="none")
    filled.post("/mark", digest=other, action="ham")
    text = filled.client.get("/").text
    assert f'data-digest="{name}" data-stale' in text
    assert f'data-digest="{other}" data-stale' not in text
    verdicts = filled.post_json("/judge", {"digests": [name]}).json()
    assert verdicts[name].keys() == {"label", "probability"}
    assert f'data-digest="{name}" data-stale' not in filled.client.get("/").text
    job = filled.client.post("/judge-all", headers={"x-csrf-token": filled.csrf}).json()
    assert wait_for_job(filled, job["key"])["done"] == 26
    assert "data-stale" not in filled.client.get("/").text


def test_a_learned_message_whose_text_is_gone_can_be_moved_and_forgotten(filled: Page) -> None:
    (name,) = list_digests(filled, label="spam")[:1]
    for path in filled.context.imports.iterdir():
        path.unlink()
    assert "cannot be read from" in filled.client.get(f"/messages/{name}").text
    assert "1 message learned as wanted mail." in filled.post("/mark", digest=name, action="ham").text
    assert "1 message forgotten." in filled.post("/mark", digest=name, action="forget").text
    (new,) = list_digests(filled, text="watches", label="none")[:1]
    assert "1 message could not be read" in filled.post("/mark", digest=new, action="spam").text


def test_similar_learned_messages_share_words(filled: Page) -> None:
    (name,) = list_digests(filled, text="lunch", label="none")
    import_file(filled, LUNCH.replace(b"At noon", b"At one"), label="ham")
    similar = filled.client.get(f"/messages/{name}/similar").json()
    assert similar[0]["subject"] == "Lunch"
    assert similar[0]["label"] == "ham"
    assert set(similar[0]["shared"]) & {"subject:lunch", "always", "from:ann@home.example"}


def test_a_watched_folder_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "mail"
    folder.mkdir()
    (folder / "1.eml").write_bytes(LUNCH)
    with open_page(tmp_path / "mail.tamis", mail=[str(folder)]) as page:
        while not list_digests(page):
            pass
        assert "Lunch" in page.client.get("/").text


@pytest.mark.parametrize(
    "address",
    [
        "/?after=x",
        "/?before=1,2",
        "/?order=x",
        "/?source=-1",
        "/?source=x",
        "/?after=nan,1,1",
        "/messages/xyz",
    ],
)
def test_a_wrong_address_is_answered_by_a_sentence(page: Page, address: str) -> None:
    response = page.client.get(address)
    assert response.status_code in (400, 404)
    assert "<h1>Error" in response.text


def test_an_action_needs_messages_and_a_name(filled: Page) -> None:
    assert "Select messages first." in filled.post("/mark", action="spam").text
    assert filled.post("/mark", action="explode").status_code == 400
    assert filled.post("/undo", events="x").status_code == 400
    assert "there is no event 99999" in filled.post("/undo", events="99999").text.lower()
    assert filled.post("/mark", digest="zz", action="spam").status_code == 404
