"""Header fields → the time when the message arrived, in seconds since 1970, or None.

The first `Received` field is normally that of the recipient's server, written on arrival. `Date` was written
by the sender, and may be false, so it is used only where no `Received` field has a date. The result depends
on the message alone, not on the clock or the time zone of this computer.

A date without a zone, or with an unknown one, is taken as UTC. A date before 1971 comes from a clock that was
not set, and counts as unreadable. A date in the future is returned as it is.
"""

import re
from collections.abc import Iterable
from typing import Final

from tamis_mail.message.canonical import canonical
from tamis_mail.message.fields import read_fields
from tamis_mail.records import record

# Limits; what exceeds them is not searched.
_LONGEST: Final = 300  # characters of a value that are searched; a date with its comments has at most 60
_RECEIVED: Final = 20  # Received fields that are read; in real mail, a date is in one of the first few
_HEADER: Final = 1 << 17  # bytes of a message that are searched for its header; real ones have 50 kB at most
_EARLIEST: Final = 1971  # the first and the last year that are accepted
_LATEST: Final = 9999
_DAY = 86_400  # seconds

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Hours east of Greenwich. RFC 5322 defines the first eleven; the others are frequent in real mail.
_ZONES = {
    "z": 0, "ut": 0, "gmt": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8,
    "pdt": -7, "utc": 0, "ast": -4, "adt": -3, "bst": 1, "wet": 0, "west": 1, "cet": 1, "cest": 2, "met": 1,
    "mest": 2, "mez": 1, "mesz": 2, "eet": 2, "eest": 3, "msk": 3, "jst": 9, "kst": 9, "hkt": 8, "sgt": 8,
}  # fmt: skip

_DAY_OF_MONTH = r"(?<![0-9])(?P<day>[0-9]{1,2})"
_MONTH = rf"(?<![a-z])(?P<month>{'|'.join(_MONTH_NAMES)})[a-z]*+\.?"
_YEAR = r"(?P<year>[0-9]{4})(?![0-9])"
_TIME = (
    r"(?P<hour>[0-9]{1,2})[:.](?P<minute>[0-9]{1,2})"
    r"(?:[:.](?P<second>[0-9]{1,2})(?:[.,][0-9]++)?)?(?![0-9:])"
)
_ZONE = (
    r"(?:(?:gmt|utc?)?(?P<sign>[+-])(?P<offset>[0-9]{1,2}:?[0-9]{2}|[0-9]{2})(?![0-9])"
    r"|(?P<zone>[a-z]{1,5})(?![a-z]))"
)
_SPACE = r"[ \t]++"
_LAST_ZONE = rf"(?:[ \t]*+{_ZONE})?"
_DATE_PATTERNS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        # RFC 5322: "Fri, 23 Aug 2002 23:10:22 +0800"
        rf"{_DAY_OF_MONTH}[ \t-]++{_MONTH}[ \t,-]++(?P<year>[0-9]{{2,4}})[ \t,]++{_TIME}{_LAST_ZONE}",
        # C's ctime: "Fri Aug 23 23:10:22 2002"
        rf"{_MONTH}{_SPACE}{_DAY_OF_MONTH}{_SPACE}{_TIME}{_SPACE}{_YEAR}{_LAST_ZONE}",
        # the command `date`: "Fri Aug 23 23:10:22 CEST 2002"
        rf"{_MONTH}{_SPACE}{_DAY_OF_MONTH}{_SPACE}{_TIME}{_SPACE}{_ZONE}{_SPACE}{_YEAR}",
        # ISO 8601: "2002-08-23T23:10:22+08:00"
        rf"(?<![0-9])(?P<year>[0-9]{{4}})-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})[ t]{_TIME}{_LAST_ZONE}",
    )
)


@record(frozen=True, slots=True)
class SentTime:
    """A date, and the hour and the second that its text has, which are those of the sender's own zone."""

    seconds: int  # since 1970
    hour: int
    second: int


def read_date(headers: Iterable[tuple[str, str]]) -> int | None:
    """Return when a message arrived, in seconds since 1970; None if no field has a readable date.

    `headers` are the fields of a parsed message: names in lower case, and values.

    >>> read_date([("subject", "hello"), ("date", "Fri, 23 Aug 2002 23:10:22 +0800")])
    1030115422
    """
    n_received = 0
    sent: int | None = None
    for name, value in headers:
        if name == "received":
            n_received += 1
            if n_received <= _RECEIVED and (arrival := parse_date(value[-_LONGEST:])) is not None:
                return arrival
        elif name == "date" and sent is None:
            sent = parse_date(value[:_LONGEST])
    return sent


def date_of(raw: bytes) -> int | None:
    """Return when a message arrived, in seconds since 1970, from its first _HEADER bytes; None if unknown.

    >>> date_of(b"Date: Fri, 23 Aug 2002 23:10:22 +0800\\r\\n\\r\\nbody")
    1030115422
    """
    header = canonical(raw[:_HEADER])
    fields, _ = read_fields(header, 0, len(header), faults=set())
    return read_date(fields)


def parse_date(text: str) -> int | None:
    """Return the date in a text, in seconds since 1970; None if it has none, or an impossible one.

    Of several dates, those of the first form of `_DATE_PATTERNS` that occurs count, and of these the last.

    >>> parse_date("by mail.example.org; Fri, 23 Aug 2002 23:10:22 +0800 (CST)")
    1030115422
    >>> parse_date("Fri, 31 Feb 2002 23:10:22 +0800") is None
    True
    """
    date = _find_date(text)
    return None if date is None else _count_seconds_since_1970(date)


def parse_sent_time(text: str) -> SentTime | None:
    """Return the date that `parse_date` returns, with the hour and the second that the text has.

    >>> parse_sent_time("Fri, 23 Aug 2002 23:10:22 +0800")
    SentTime(seconds=1030115422, hour=23, second=22)
    """
    date = _find_date(text)
    seconds = None if date is None else _count_seconds_since_1970(date)
    if date is None or seconds is None:
        return None
    return SentTime(seconds, int(date["hour"]), int(date["second"] or 0))


def _find_date(text: str) -> re.Match[str] | None:
    """Return the last date of the first form that occurs in a text."""
    for pattern in _DATE_PATTERNS:
        if matches := list(pattern.finditer(text)):
            return matches[-1]
    return None


def _count_seconds_since_1970(date: re.Match[str]) -> int | None:
    year, day, hour, minute = (int(date[name]) for name in ("year", "day", "hour", "minute"))
    second = int(date["second"] or 0)
    month = _MONTHS.get(date["month"].lower()) or int(date["month"])
    year = _expand_year(year)
    if not (
        _EARLIEST <= year <= _LATEST and 1 <= month <= 12 and hour <= 24 and minute <= 59 and second <= 60
    ):
        return None
    is_leap_year = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + (month == 2 and is_leap_year):
        return None
    return (
        _count_days_since_1970(year, month, day) * _DAY
        + hour * 3600
        + minute * 60
        + second
        - _count_seconds_east(date)
    )


def _expand_year(year: int) -> int:
    """Expand a short year by RFC 5322: 49 is 2049, 50 is 1950, and 102, which counts from 1900, is 2002."""
    if year < 50:
        return year + 2000
    return year + 1900 if year < 1000 else year


def _count_days_since_1970(year: int, month: int, day: int) -> int:
    """Count the days from 1970-01-01, which is day 719,163 of the Gregorian calendar, to a date."""
    years = year - 1  # complete years since the year 1
    days = years * 365 + years // 4 - years // 100 + years // 400 + sum(_MONTH_DAYS[: month - 1]) + day
    is_leap_year = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return days + (month > 2 and is_leap_year) - 719_163


def _count_seconds_east(date: re.Match[str]) -> int:
    """Return the seconds by which local time is ahead of UTC; 0 for an unknown or impossible zone."""
    if date["sign"]:
        digits = date["offset"].replace(":", "")
        hours, minutes = (int(digits), 0) if len(digits) == 2 else (int(digits[:-2]), int(digits[-2:]))
        if hours > 24 or minutes > 59:
            return 0
        return (hours * 3600 + minutes * 60) * (-1 if date["sign"] == "-" else 1)
    return _ZONES.get((date["zone"] or "").lower(), 0) * 3600
