"""The API does what its OpenAPI document says, for valid requests and for invalid ones."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tamis_mail.catalog import Cursor
from tamis_mail.message import canonical, digest
from tamis_mail.surfaces.web.api import OPERATIONS, make_document
from tamis_mail.surfaces.web.schemas import find_fault
from tests.surfaces.peers.chromium import run_page
from tests.surfaces.web.conftest import API_TOKEN, Page
from tests.surfaces.web.steps import import_file, join_mbox

LUNCH = b"Subject: Lunch\nFrom: Ann <ann@home.example>\n\nAt noon, as always?\n"
OFFER = b"Subject: Cheap watches\nFrom: Shop <shop@cheap.example>\n\nBuy watches now, cheap offer\n"
PROGRAM = {"Authorization": f"Bearer {API_TOKEN}"}
EXAMPLES = 5  # requests of each operation, besides those that cover each bound of its schema
COUNTS: dict[str, int] = {}

schemathesis.serializer.alias("message/rfc822", "application/octet-stream")
document = schemathesis.openapi.from_dict(make_document())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, requests.Session]]:
    """The address of a server with a message, and a client that may use its API."""
    folder = Path(tmp_path_factory.mktemp("api"))
    (folder / "token").write_text(API_TOKEN)
    (folder / "lunch.eml").write_bytes(LUNCH)
    options = ("--api-token-file", str(folder / "token"), "--mail", str(folder / "lunch.eml"))
    with run_page(folder, folder / "mail.tamis", *options) as running, requests.Session() as session:
        yield running.root, session


@pytest.mark.peers
@document.parametrize()
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[*HealthCheck],
)
def test_every_operation_answers_as_it_is_described(case: Any, server: tuple[str, requests.Session]) -> None:
    address, session = server
    COUNTS[case.operation.label] = COUNTS.get(case.operation.label, 0) + 1
    case.call_and_validate(base_url=address, session=session, headers=PROGRAM)


def test_all_operations_were_tried() -> None:
    if not COUNTS:
        pytest.skip("the operations were not tried in this run")
    print(f"schemathesis has sent {sum(COUNTS.values())} requests to {len(COUNTS)} operations")  # noqa: T201
    assert len(COUNTS) == len(OPERATIONS)


@given(st.floats(0.0, 1.5), st.integers(0, 1 << 40), st.integers(1, 1 << 40))
@example(abs(0.55 - 0.5), 1_700_000_000, 7)  # 18 digits after the point
@example(1e-05, 1_700_000_000, 7)
def test_each_cursor_of_a_list_is_accepted(doubt: float, date: int, number: int) -> None:
    operation = next(operation for operation in OPERATIONS if operation.name == "listMessages")
    cursor = str(Cursor(doubt, -date, number))
    assert find_fault(cursor, operation.parameters["after"]) is None
    assert str(Cursor.parse(cursor)) == cursor


def test_a_program_judges_learns_lists_and_undoes(page: Page) -> None:
    client = page.client
    client.cookies.clear()
    message = PROGRAM | {"content-type": "message/rfc822"}
    first = client.post("/api/v1/verdicts", content=LUNCH, headers=message).json()
    assert (first["label"], first["digest"]) == ("unsure", digest(canonical(LUNCH)).hex())
    for label, raw in (("ham", LUNCH), ("spam", OFFER)):
        learned = client.post(f"/api/v1/learned?label={label}", content=raw, headers=message).json()
        assert learned["action"] == "learned"
    second = client.post("/api/v1/verdicts", content=LUNCH, headers=message).json()
    assert second["probability"] < first["probability"]
    assert sum(one["contribution"] for one in second["evidence"]) == pytest.approx(second["log_odds"])
    listed = client.get("/api/v1/messages?limit=1&order=newest", headers=PROGRAM).json()
    assert len(listed["messages"]) == 1
    rest = client.get(
        "/api/v1/messages", params={"order": "newest", "after": listed["next"]}, headers=PROGRAM
    )
    assert len(rest.json()["messages"]) == 1
    events = client.get("/api/v1/events", headers=PROGRAM).json()
    assert [event["action"] for event in events] == ["verdict", "learned", "learned", "verdict"]
    undone = client.post("/api/v1/undo", json={"events": str(events[1]["number"])}, headers=PROGRAM).json()
    assert undone["sentence"] == "1 event is undone."
    assert client.get("/api/v1/status", headers=PROGRAM).json()["labels"] == {"ham": 1, "spam": 0}


def test_a_program_imports_explains_labels_and_blocks(page: Page) -> None:
    import_file(page, join_mbox([LUNCH, OFFER]))
    client = page.client
    names = [one["digest"] for one in client.get("/api/v1/messages", headers=PROGRAM).json()["messages"]]
    both = {"digests": names, "label": "ham"}
    labelled = client.post("/api/v1/labels", json=both, headers=PROGRAM).json()
    assert labelled["sentence"] == "2 messages learned as wanted mail."
    offer = digest(canonical(OFFER)).hex()
    blocked = client.post("/api/v1/senders", json={"digests": [offer], "decision": "block"}, headers=PROGRAM)
    assert blocked.json()["sentence"] == "Blocked: shop@cheap.example."
    explained = client.get(f"/api/v1/messages/{offer}", headers=PROGRAM).json()
    assert (explained["label"], explained["listed"]) == ("spam", "blocked: shop@cheap.example")
    file = PROGRAM | {"content-type": "application/octet-stream"}
    sent = client.post("/api/v1/imports?name=one.eml", content=LUNCH, headers=file)
    job = sent.json()
    while not job["finished"]:
        time.sleep(0.01)
        job = client.get(f"/api/v1/jobs/{job['key']}", headers=PROGRAM).json()
    assert (sent.status_code, job["fault"]) == (202, "")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/api/v1/messages?limit=0", "limit is 0, expected at least 1"),
        ("/api/v1/messages?limit=x", "limit is 'x', expected integer"),
        ("/api/v1/messages?limit=1&limit=2", "limit is given 2 times, expected once"),
        ("/api/v1/messages?order=random", "order is 'random', expected one of doubt, newest"),
    ],
)
def test_a_wrong_parameter_is_named(page: Page, address: str, sentence: str) -> None:
    response = page.client.get(address)
    assert (response.status_code, response.json()) == (400, {"error": sentence})


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "the body is not valid JSON"),
        (b"[" * 100_000, "the body is not valid JSON"),
        (b"[]", "the body is [], expected object"),
        (b'{"events": 3}', "events is 3, expected string"),
        (b'{"events": "1", "all": true}', "the body has 'all', expected only events"),
        (b"{}", "the body has no events"),
    ],
)
def test_a_wrong_body_is_described(page: Page, body: bytes, sentence: str) -> None:
    headers = {"x-csrf-token": page.csrf, "content-type": "application/json"}
    response = page.client.post("/api/v1/undo", content=body, headers=headers)
    assert (response.status_code, response.json()) == (400, {"error": sentence})
