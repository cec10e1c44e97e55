"""The addresses of the model room: pages, examples, answers, and one line for a wrong request."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis_mail.surfaces.web.model_room import ROOMS
from tamis_mail.surfaces.web.rooms.fields import LONGEST_BODY, FieldError, Fields, to_json
from tests.surfaces.web.conftest import Page, open_page


@pytest.fixture(scope="module")
def room_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of an empty store, for all tests here: rooms keep nothing between requests."""
    with open_page(Path(tmp_path_factory.mktemp("rooms")) / "mail.tamis") as opened:
        yield opened


def test_the_models_are_loaded_when_a_room_is_first_asked_for() -> None:
    program = (
        "import sys, tamis_mail.surfaces.web.app; "
        "heavy = ('scipy', 'sklearn', 'tamis_mail.surfaces.web.rooms'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert output.stdout == "[]\n"


def send(page: Page, name: str, body: bytes | str) -> httpx.Response:
    """Post a body to a room."""
    headers = {"x-csrf-token": page.csrf, "content-type": "application/json"}
    response: httpx.Response = page.client.post(f"/rooms/{name}", content=body, headers=headers)
    return response


def test_the_list_of_rooms_opens_on_an_empty_store(room_page: Page) -> None:
    text = room_page.client.get("/rooms").text
    for room in ROOMS.values():
        assert f'href="/rooms/{room.name}"' in text
        assert room.title in text
        assert all(f'id="row-{row}"' in text for row in room.rows)


@pytest.mark.parametrize("name", list(ROOMS))
def test_a_room_says_what_it_shows_and_links_its_rows(room_page: Page, name: str) -> None:
    text = room_page.client.get(f"/rooms/{name}").text
    assert ROOMS[name].shows.replace("'", "&#39;") in text
    assert all(f'href="/rooms#row-{row}"' in text for row in ROOMS[name].rows)
    assert f'src="/static/rooms/{name}.js"' in text
    assert room_page.client.get(f"/static/rooms/{name}.js").status_code == 200
    assert "<style" not in text
    assert " style=" not in text


@pytest.mark.parametrize("name", list(ROOMS))
def test_the_example_of_a_room_is_answered(room_page: Page, name: str) -> None:
    example = room_page.client.get(f"/rooms/{name}/example").json()
    if "repeats" in example:
        example["repeats"] = 1
    answer = room_page.post_json(f"/rooms/{name}", example)
    assert answer.status_code == 200
    assert answer.json()["text"]
    assert len(answer.content) < 100_000


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("", "got a body that is not JSON, expected a JSON object of fields"),
        ("[1, 2]", "got [1, 2], expected a JSON object of fields"),
        ('"' + "a" * 500 + '"', f'got "{"a" * 39}…, expected a JSON object of fields'),
        ("[" * 50_000, "got a body that is not JSON, expected a JSON object of fields"),
        ('{"tosses": []}', "the field a is missing, expected a value for it"),
        ('{"wrong": 1}', 'got the field "wrong", expected only tosses, a, b, coverage, next'),
        ('{"tosses": 3}', "got tosses = 3, expected a list"),
        ('{"tosses": [0.5]}', "got tosses[0] = 0.5, expected a whole number"),
        ('{"tosses": [2]}', "got tosses[0] = 2, expected a number from 0 to 1"),
        ('{"tosses": [true]}', "got tosses[0] = true, expected a number from 0 to 1"),
        ('{"tosses": [], "a": NaN}', "got a = NaN, expected a number from 0.01 to 1000"),
        ('{"tosses": [], "a": 1e999}', "got a = Infinity, expected a number from 0.01 to 1000"),
        ('{"tosses": [], "a": "1"}', 'got a = "1", expected a number from 0.01 to 1000'),
    ],
)
def test_a_wrong_request_is_answered_by_one_line(room_page: Page, body: str, sentence: str) -> None:
    answer = send(room_page, "coin", body)
    assert (answer.status_code, answer.json()) == (400, {"error": sentence})


@pytest.mark.parametrize("depth", [100, 300, 500, 700, 900, 1000, 3000])
def test_lists_within_lists_are_refused(room_page: Page, depth: int) -> None:
    answer = send(room_page, "coin", '{"tosses": [], "a": ' + "[" * depth + "]" * depth + "}")
    assert answer.status_code == 400
    assert len(answer.json()["error"]) < 120


def test_integers_of_any_length_are_refused(room_page: Page) -> None:
    digits = send(room_page, "coin", '{"tosses": [], "a": ' + "9" * 400 + "}")
    assert "expected a number from 0.01 to 1000" in digits.json()["error"]
    more_digits = send(room_page, "coin", '{"tosses": [], "a": ' + "9" * 20_000 + "}")
    assert more_digits.status_code == 400


def test_a_body_that_is_too_long_is_refused(room_page: Page) -> None:
    answer = send(room_page, "coin", b" " * (LONGEST_BODY + 1))
    assert answer.status_code == 400
    assert "expected at most 65536: remove some points" in answer.json()["error"]


@pytest.mark.parametrize("address", ["/rooms/none", "/rooms/fields", "/rooms/../app", "/rooms/none/example"])
def test_there_are_no_other_rooms(room_page: Page, address: str) -> None:
    assert room_page.client.get(address).status_code == 404


def test_a_computation_needs_the_session_and_its_csrf_token(room_page: Page) -> None:
    assert room_page.client.post("/rooms/coin", json={}).status_code == 403
    cookies = dict(room_page.client.cookies)
    room_page.client.cookies.clear()
    try:
        assert room_page.client.get("/rooms").status_code == 401
    finally:
        room_page.client.cookies.update(cookies)


def test_the_answer_of_a_busy_room_is_that_it_is_busy(
    room_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Event()
    slow = ModuleType("slow")
    slow.__dict__["compute"] = lambda _: {"text": [str(begin.wait(10))]}
    monkeypatch.setitem(sys.modules, ROOMS["coin"].module, slow)
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(send(room_page, "coin", "{}").status_code))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    while len(statuses) < 4:
        assert any(thread.is_alive() for thread in threads)
    begin.set()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 8 + [503] * 4


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_value_of_any_field_breaks_a_room(room_page: Page, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(set(ROOMS) - {"learning-curves"})))
    example = room_page.client.get(f"/rooms/{name}/example").json()
    field = data.draw(st.sampled_from(sorted(example)))
    small = st.lists(st.lists(st.integers(-3, 12), min_size=2, max_size=3), max_size=6)
    example[field] = data.draw(values | st.integers(0, 30) | small | st.lists(st.integers(0, 2), max_size=6))
    answer = send(room_page, name, json.dumps(example))
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert len(answer.json()["error"]) < 250
        assert "\n" not in answer.json()["error"]


def test_numbers_that_are_not_finite_become_null() -> None:
    assert to_json({"a": [float("nan"), float("inf"), 1 / 3, 2, True, None]}) == {
        "a": [None, None, 0.333333, 2, True, None]
    }


def test_a_flag_and_a_choice_are_checked() -> None:
    fields: Any = Fields({"flag": 1, "choice": "c", "rows": [[1]]})
    with pytest.raises(FieldError, match="got flag = 1, expected true or false"):
        fields.read_flag("flag")
    with pytest.raises(FieldError, match='got choice = "c", expected one of a, b'):
        fields.read_choice("choice", ("a", "b"))
    with pytest.raises(FieldError, match=r"got rows\[0\] = \[1\], expected 2 numbers"):
        fields.read_rows("rows", [(0, 1), (0, 1)], 3)
