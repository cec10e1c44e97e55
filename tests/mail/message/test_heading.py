"""The sender and the subject of any bytes: one short printable line each."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tamis_mail.message import Heading, canonical, read_heading
from tamis_mail.message.heading import SENDER, SUBJECT


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=100))
@example(b"=?utf-8?b?4oCu?=", b"=?utf-8?q?=1B[2J=0AX?=", b"")
@example(b"a" * 5000, "\u0301".encode() * 2000, b"\n\n")
def test_a_heading_is_printable_and_short(sender: bytes, subject: bytes, rest: bytes) -> None:
    raw = b"From: " + sender + b"\nSubject: " + subject + b"\n" + rest
    heading = read_heading(raw)
    assert read_heading(raw, canonical(raw)) == heading
    for text, longest in zip(heading, (SENDER, SUBJECT), strict=True):
        assert text.isprintable()
        assert text == text.strip()
        assert len(text) <= longest
        text.encode("utf-8")


@pytest.mark.parametrize(
    ("raw", "heading"),
    [
        (b"", Heading("", "")),
        (b"no header at all", Heading("", "")),
        (b"From me Mon Jan  5 10:00:00 2026\nFROM: a@b\nsubject:x\r\n\ty\n\n", Heading("a@b", "x y")),
        (b"Subject: first\nSubject: second\n\nSubject: body", Heading("", "first")),
        (b"X: y\n\nFrom: body\nSubject: body", Heading("", "")),
        ("Subject: grün\n\n".encode(), Heading("", "grün")),
        (b"Subject: a\0b\x1b\x7f\xe2\x80\xaec\n\n", Heading("", "ab c")),
        (b"X-Spam-Status: Yes\nX: " + b"y" * 70_000 + b"\nSubject: too far\n\n", Heading("", "")),
    ],
)
def test_the_first_field_of_the_header_counts(raw: bytes, heading: Heading) -> None:
    assert read_heading(raw) == heading
    assert read_heading(raw, canonical(raw)) == heading
