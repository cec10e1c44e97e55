"""The date of a message is when it arrived, whatever its fields look like."""

import time
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime, mktime_tz, parsedate_tz

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.message import canonical, parse
from tamis_mail.message.dates import date_of, parse_date, read_date

NOON = int(datetime(2002, 8, 23, 12, 0, 0, tzinfo=UTC).timestamp())
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FIRST, LAST = datetime.fromisoformat("1971-01-01"), datetime.fromisoformat("9999-12-30")
MOMENTS = st.datetimes(FIRST, LAST, timezones=ZONES).map(lambda moment: moment.replace(microsecond=0))


@given(MOMENTS)
def test_a_well_formed_date_is_read_as_the_standard_library_reads_it(moment: datetime) -> None:
    text = format_datetime(moment)
    parts = parsedate_tz(text)
    assert parts is not None
    assert parse_date(text) == mktime_tz(parts) == int(moment.timestamp())


@given(MOMENTS)
def test_a_date_of_a_postmark_and_one_of_iso_are_read(moment: datetime) -> None:
    local = int(moment.replace(tzinfo=UTC).timestamp())
    assert parse_date(time.asctime(moment.timetuple())) == local
    assert parse_date(moment.isoformat()) == int(moment.timestamp())


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 23 Aug 2002 12:00:00 GMT",
        "Fri, 23 Aug 2002 12:00:00",
        "Fri, 23 Aug 2002 12:00",
        "23 Aug 2002 12:00:00 -0000",
        "Fri, 23 Aug 02 14:00:00 CEST",
        "Fri, 23 Aug 102 12:00:00 UT",
        "Fri, 23 Aug 0102 12:00:00 Z",
        "fri, 23 AUGUST 2002 12:0:0 nonsense",
        "Fri,  23-Aug-2002 05:00:00 PDT",
        "Fri, 23 Aug 2002 12:00:00 +9999",
        "Fri, 23 Aug 2002 14:00:00 GMT+0200",
        "Fri, 23 Aug 2002 14:00:00 +200 (CEST)",
        "Fri, 23 Aug 2002 12:00:00.123456 +0000",
        "Fri Aug 23 12:00:00 2002",
        "Fri Aug 23 08:00:00 EDT 2002",
        "Fri Aug 23 08:00:00 2002 -0400",
        "Fri Aug 23 08:00:00 -0400 2002",
        "2002-08-23 12:00:00Z",
        "2002-08-23T14:00:00+02:00",
    ],
)
def test_a_date_of_common_form_is_read(text: str) -> None:
    assert parse_date(text) == NOON


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "Fri, 23 Aug 99999 12:00:00 +0000",
        "Fri, 30 Feb 2002 12:00:00 +0000",
        "Fri, 29 Feb 2100 12:00:00 +0000",
        "Fri, 0 Aug 2002 12:00:00 +0000",
        "Fri, 23 Aug 2002 25:00:00 +0000",
        "Fri, 23 Aug 2002 12:60:00 +0000",
        "Fri, 23 Aug 2002 12:00:61 +0000",
        "2002-13-23T12:00:00Z",
        "2002-00-23T12:00:00Z",
        "Thu, 01 Jan 1970 00:00:00 +0000",
        "Thu, 01 Jan 50 00:00:00 +0000",
        "Fri, ２３ Aug ２００２ 12:00:00",
        "Fri, 23 ſep 2002 12:00:00",
    ],
)
def test_an_impossible_date_is_none(text: str) -> None:
    assert parse_date(text) is None


def test_a_leap_second_is_the_first_second_of_the_next_day() -> None:
    assert parse_date("Sat, 31 Dec 2016 23:59:60 +0000") == parse_date("Sun, 1 Jan 2017 00:00:00 +0000")


def test_arrival_comes_before_the_claim_of_the_sender() -> None:
    headers = [
        ("date", "Fri, 1 Jan 2038 00:00:00 +0000"),
        ("received", "from me by myself"),
        ("received", "from a (b [192.0.2.1]) by c; for <d>; Fri, 23 Aug 2002 14:00:00 +0200 (CEST; summer)"),
        ("received", "from x by y; Fri, 1 Jan 1999 00:00:00 +0000"),
    ]
    assert read_date(headers) == NOON
    assert read_date(headers[:2]) == read_date(headers[:1]) == parse_date("2038-01-01 00:00:00")
    assert read_date([("Date", "Fri, 23 Aug 2002 12:00:00"), ("x-date", "Fri, 23 Aug 2002 12:00:00")]) is None


def test_the_first_readable_date_of_the_sender_counts() -> None:
    dates = [("date", "no date"), ("date", "23 Aug 2002 12:00:00"), ("date", "24 Aug 2002 12:00:00")]
    assert read_date(dates) == NOON


@given(st.lists(st.tuples(st.sampled_from(["received", "date", "from"]), st.text()), max_size=30))
def test_any_fields_are_read(headers: list[tuple[str, str]]) -> None:
    seconds = read_date(headers)
    assert seconds is None or isinstance(seconds, int)


@given(st.lists(st.sampled_from([*"0123456789:+-. ,;", "Aug", "Fri", "2002", "23", "12:00", "+0200", "GMT"])))
def test_any_pieces_of_a_date_are_read(pieces: list[str]) -> None:
    seconds = parse_date("".join(pieces))
    assert seconds is None or seconds > 0


@given(MOMENTS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "From ann Fri Aug 23 12:00:00 1999\n"]))
def test_the_date_of_bytes_is_that_of_the_parsed_message(
    moment: datetime, line_end: str, envelope: str
) -> None:
    text = f"{envelope}X-Spam-Flag: NO\nReceived: by here;\n\t{format_datetime(moment)}\nDate: none\n\nbody"
    raw = text.replace("\n", line_end).encode()
    assert date_of(raw) == read_date(parse(canonical(raw)).headers) == int(moment.timestamp())


def test_a_hostile_value_takes_no_longer_than_its_first_characters() -> None:
    mega = 1 << 20
    for unit in ("1 ", "1 Aug ", "1 Aug 2002 ", "Aug 1 12:00 ", "a", " ", "12:", "-"):
        text = unit * (mega // len(unit))
        assert read_date([("date", text), ("received", text)] * 100) is None
