"""The page is whole, needs nothing from elsewhere, and believes nothing that a message says."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting.mail import LabelledMail, LabelledPart
from tamis_mail.reporting.page import page, refuse_unless_writable, write
from tamis_mail.reporting.report import Report, report
from tamis_mail.sample import messages

HOSTILE = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;b&gt;\x1b[2J\u202e\x00end"
VOID = {"meta", "line", "circle", "rect", "polyline", "polygon", "br"}


def hostile_mail() -> LabelledMail:
    """Mail that every miss and every token of would break a page that trusts it."""

    def letters() -> Iterator[tuple[RawMessage, bool]]:
        for number, one in enumerate(list(messages())[:60]):
            subject = HOSTILE.encode("utf-8", "replace").replace(b"\x00", b"\x01")
            raw = b"Subject: " + subject + b"\r\nX-<script>: <script>\r\n" + one.raw
            # labels by coin, so that there are misses
            yield RawMessage(raw, f"<script>{number}\x1b", number), number % 3 == 0

    return LabelledMail("<script>alert('name')</script>\x1b", (LabelledPart("", letters, lambda: 60, tuple),))


class Reader(HTMLParser):
    """Elements, in order, each closed where it should be."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def hostile() -> Report:
    found = report(hostile_mail(), folds=3)
    assert found.misses
    assert any("script" in miss.subject for miss in found.misses)
    return found


def test_nothing_of_a_message_is_markup(hostile: Report) -> None:
    text = page(hostile, "1")
    reader = parsed(text)
    assert not reader.tags & {"script", "img", "iframe", "link", "a", "object"}
    assert not [
        name for name, _ in reader.attributes if name.startswith("on") or name in ("src", "href", "style")
    ]
    assert "alert(1)" in "".join(reader.text)  # shown, as text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_the_page_needs_nothing_from_elsewhere(hostile: Report) -> None:
    text = page(hostile, "1")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src &#x27;none&#x27;" in text


def test_every_picture_says_what_it_shows(hostile: Report) -> None:
    text = page(hostile, "1")
    assert text.count("<svg ") == text.count('role="img"') == text.count("aria-label=")
    for title in ("ROC curve", "Calibration", "Probabilities", "Learning curve"):
        assert f"<title>{title}</title>" in text
    assert not re.search(r"""[">, ]nan\b""", text)


@pytest.mark.parametrize("kept", [8, 20])
def test_a_handful_of_messages_can_be_drawn(kept: int) -> None:
    some = list(messages())
    chosen = [one for one in some if one.label == "spam"][: kept // 2]
    chosen += [one for one in some if one.label == "ham"][: kept // 2]

    def letters() -> Iterator[tuple[RawMessage, bool]]:
        return ((RawMessage(one.raw, "", 0), one.label == "spam") for one in chosen)

    found = report(LabelledMail("few", (LabelledPart("", letters, lambda: 0, tuple),)))
    assert found.study.measures.messages >= 1
    parsed(page(found))


def test_nothing_to_miss_is_said(hostile: Report) -> None:
    measures = replace(hostile.study.measures, right=hostile.study.measures.messages)
    perfect = replace(hostile, study=replace(hostile.study, measures=measures), misses=())
    assert "None: for every message" in page(perfect)


def test_a_page_is_replaced_whole_and_kept_private(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("before")
    link = tmp_path / "link.html"
    link.symlink_to(target)
    write("after", link)
    assert target.read_text() == "after"
    assert link.is_symlink()
    assert target.stat().st_mode & 0o077 == 0
    with pytest.raises(UnicodeEncodeError):
        write("half \ud800", target)
    assert target.read_text() == "after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "report.html"]


@pytest.mark.parametrize("name", [".", "missing/report.html"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"expected a file for the report's page: name one with --html FILE"):
        refuse_unless_writable(tmp_path / name)
