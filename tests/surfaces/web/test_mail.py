"""The mail view lists what was imported; actions change the store, and undo takes them back."""

from pathlib import Path

from tests.surfaces.web.conftest import Page
from tests.surfaces.web.steps import import_file


def test_x(page: Page, tmp_path: Path) -> None:
    job = import_file(
        page,
        b"From a Mon Jan  1 00:00:00 2024\nSubject: Cheap watches\nFrom: Ann <ann@shop.example>\n\nbuy now\n\nFrom a Mon Jan  1 00:00:00 2024\nSubject: Lunch\n\nAt noon?\n",
        label="spam",
    )
    assert job["fault"] == ""
    text = page.client.get("/").text
    print(text)
    import re

    d = re.findall("/messages/([0-9a-f]{32})", text)
    r = page.client.get(f"/messages/{d[0]}")
    print(r.text)
    print(page.client.get(f"/messages/{d[0]}/similar").json())
    r = page.post("/mark", digest=d, action="ham")
    print(re.findall("<div class=.notice.*?</div>", r.text, re.DOTALL))
    assert 0
