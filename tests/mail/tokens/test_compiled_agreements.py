"""The compiled core reads the further tokens of version 3 as the reference does, to the byte."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamis import compiled
from tamis_mail.message import Message, Part
from tamis_mail.message.dates import parse_date, parse_sent_time
from tamis_mail.tokens import Tokens, reference

if compiled.core is None:
    pytest.skip("there is no compiled core", allow_module_level=True)
mail: Any = compiled.core.mail

NAMES = (
    "received",
    "received",
    "from",
    "to",
    "cc",
    "message-id",
    "return-path",
    "reply-to",
    "subject",
    "date",
)
PLAIN_PIECES = (
    *("from ", "from [", "mail.shop.example", "shop.example", "SHOP.co.uk", "192.0.2.1", "127", "localhost"),
    *(" (", "(", "[", " [", "])", ") ", "by ", "for <", "<", ">", "ann@shop.example", "bob@list.example"),
    *(
        "forged",
        "unknown",
        "Unknown",
        "xForgedx",
        "..",
        ".",
        "-",
        "_",
        ";",
        "; ",
        "a.b_c.d",
        ".a.b",
        "a.b.",
        " ",
    ),
    *(
        "\t",
        "\n",
        "\0",
        "ann",
        "Bob",
        "plan",
        "sale!",
        "$$",
        "x",
        "9",
        "aB3",
        "q" * 70,
        "w.w " * 30,
        "noun" * 20,
    ),
    *(
        "Fri, 23 Aug 2002 23:10:22 +0800",
        " 1 Jan 70 0:00",
        "23 Aug 2002 22:10:22 mar 2001 10:00",
        "Aug 23 1:02:03 ",
    ),
    *(
        "2002",
        "2002-08-23T23:10:22+08:00",
        "CEST",
        "31 Feb 2002 1:02",
        "23:10",
        "boundary=",
        '"',
        "----=_Next_07",
    ),
)
PIECES = (*PLAIN_PIECES, "é", "İ", "Σ", "\u212a", "٣", "…", "\ud800", "限时优惠", "\u3000", "\U0001f600", "ſ")
PLAIN = st.lists(st.sampled_from(PLAIN_PIECES), max_size=14).map("".join)
TEXTS = PLAIN | st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=12)
FIELDS = st.lists(st.tuples(st.sampled_from((*NAMES, "content-type")), PLAIN), max_size=14) | st.lists(
    st.tuples(st.sampled_from((*NAMES, "content-type")), TEXTS), max_size=14
)
NUMBERS = st.lists(
    st.sampled_from(
        [
            *(
                "1",
                "23",
                "456",
                "$",
                "€",
                "£",
                "#",
                "%",
                ".",
                ",",
                ":",
                "/",
                "-",
                " ",
                "a",
                "\n",
                "$9.99",
                "7" * 50,
            ),
            *("٣", "é", "<b>", "<html>", "x" * 40, "10:30, ", "p{a:1}q{b:2}", "１", "word " * 20),
        ]
    ),
    max_size=90,
).map("".join)


list_fields = attrgetter(*Tokens.__slots__)


def compare(fields: Sequence[tuple[str, str]], *parts: Part) -> None:
    message = Message(b"", tuple(fields), parts, "", ())
    for version in (2, 3):
        expected = reference.read(message, version)
        assert (*mail.read_tokens(message, version), version) == list_fields(expected)


def make_part(text: str, kind: str = "text/plain") -> Part:
    return Part(kind, "", "", "", "", len(text), text)


@settings(max_examples=600)
@given(FIELDS, TEXTS)
@example([("subject", "a b c d e f g h")], "a")  # the half of a quarter is rounded to 0
@example([("subject", "a b c d e f g h")], "a b c")  # one and a half quarters are rounded to 2
@example([("subject", "x" * 50), ("to", "y" * 50)], "x" * 50 + " " + "y" * 40)
@example([("received", "x" * 64), ("received", "a." * 32), ("received", "(a" + "b" * 62 + " [")], "")
def test_fields_have_the_tokens_of_the_reference(fields: list[tuple[str, str]], text: str) -> None:
    compare(fields, make_part(text))


@pytest.mark.parametrize("name", ["received", "to", "from", "subject", "content-type"])
@pytest.mark.parametrize(
    "piece", ["a", "a.", "a ", "(a ", "for <", "for <a@b> ", "boundary=x;", "x@y.z ", "é.", "unk", "g"]
)
def test_long_fields_have_the_tokens_of_the_reference(name: str, piece: str) -> None:
    for count in (1, 15, 31, 63, 64, 65, 127, 500, 2500):
        compare([(name, piece * count), ("received", "from " + piece * count)] * 2, make_part(piece * count))


@given(st.lists(st.tuples(NUMBERS, st.sampled_from(["text/plain", "text/html"])), max_size=3))
@example([("1 2 " * 3100, "text/plain"), ("<b>$3</b>", "text/html"), ("4%", "text/plain")])
@example([(f"{' '.join('7' * size for size in range(70))}", "text/plain")])
def test_numbers_are_those_of_the_reference(texts: list[tuple[str, str]]) -> None:
    compare([], *(make_part(text, kind) for text, kind in texts))


DATES = st.lists(
    st.sampled_from(
        [
            *(
                "23",
                "1",
                "2002",
                "02",
                "99",
                " ",
                " ",
                " ",
                "-",
                ":",
                ".",
                ",",
                "+",
                "Aug",
                "august.",
                "mar",
                "T",
            ),
            *("23:10:22", "1:02", "+0800", "-130", "GMT", "utc+9", "PST", "23 Aug 2002 23:10:22 +0800", ";"),
            *("2002-08-23", "Aug 23 23:10:22 CEST 2002", "Aug 23 23:10:22 2002"),
        ]
    ),
    max_size=16,
).map("".join)


@settings(max_examples=600)
@given(DATES, DATES)
@example("23 Aug 2002 22:10:22 mar 2001 10:00", "Aug 23 2002")
def test_dates_of_all_forms_are_those_of_the_reference(sent: str, arrived: str) -> None:
    compare([("received", f"by a; {arrived}"), ("date", sent)])
    message = Message(b"", (("received", f"by a;{arrived}"), ("date", sent)), (), "", ())
    relations = mail.read_tokens(message, 3)[4]
    time, date = parse_sent_time(sent[:300]), parse_date(arrived.rpartition(";")[2])
    assert (b"delay:no-" in relations) == (time is None or date is None)
