"""`--since`: a period such as 2y, or a date → the messages that arrived later."""

import time
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator
from importlib import import_module

from tamis_mail.mailbox.raw_message import printable
from tamis_mail.surfaces.cli.parser import Parser

_FIRST_YEAR = 1971  # earlier dates of messages count as unreadable (`message.dates`)


def add_since_option(parser: Parser) -> None:
    """Add the option for the earliest date of messages."""
    parser.add_argument(
        "--since",
        type=parse_since,
        metavar="TIME",
        help="learn only messages that arrived in the last 2y (years), 6m (months), 3w (weeks) or 10d "
        "(days), or since a date such as 2024-01-31; messages without a readable date are left out",
    )


class DateFilter:
    """Selects the messages that arrived since some time (seconds since 1970), and counts the others."""

    def __init__(self, since: int) -> None:
        self._since = since
        self.day = time.strftime("%Y-%m-%d", time.localtime(since))
        self.older = 0  # number of messages that arrived before
        self.undated = 0  # number of messages without a readable date

    def select(self, messages: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the messages that are new enough."""
        for raw in messages:
            date = import_module("tamis_mail.message.dates").date_of(raw)
            if date is None:
                self.undated += 1
            elif date < self._since:
                self.older += 1
            else:
                yield raw

    def format_summary(self) -> str:
        """Describe the messages that were left out."""
        return f"left out: {self.older:,} older than {self.day}, {self.undated:,} without a readable date"


def parse_since(text: str, now: float | None = None) -> int:
    """Parse a period before now, or a date in local time; return seconds since 1970.

    >>> parse_since("10d", now=1_000_000_000.0) == 1_000_000_000 - 10 * 86400
    True
    """
    now = time.time() if now is None else now
    number, unit = text[:-1], text[-1:]
    if number.isascii() and number.isdigit() and unit in {"d", "w", "m", "y"} and int(number[:9]):
        return _subtract_period(now, min(int(number[:9]), 10**6), unit)
    since = _parse_day(text)
    if since is None:
        raise ArgumentTypeError(
            f"got {printable(text)!r}, expected a number of days, weeks, months or years, such as 10d, 3w, "
            "6m or 2y, or a date, such as 2024-01-31"
        )
    if since > now:
        raise ArgumentTypeError(f"got {text}, which lies in the future, expected a date of the past")
    return since


def _subtract_period(now: float, number: int, unit: str) -> int:
    """Subtract days, or the months and years of the calendar: 1m before March 31 is the end of February."""
    if unit in {"d", "w"}:
        return max(0, int(now) - number * 86_400 * (7 if unit == "w" else 1))
    local = time.localtime(now)
    months = local.tm_year * 12 + local.tm_mon - 1 - number * (12 if unit == "y" else 1)
    year, month = divmod(months, 12)
    if year < _FIRST_YEAR:
        return 0
    time_of_day = (local.tm_hour, local.tm_min, local.tm_sec)
    return next(
        seconds
        for day in range(local.tm_mday, 0, -1)
        if (seconds := _count_seconds(year, month + 1, day, time_of_day)) is not None
    )


def _parse_day(text: str) -> int | None:
    """Parse a date in ISO form; return its first second in local time."""
    parts = text.split("-")
    if [len(part) for part in parts] != [4, 2, 2] or not all(p.isascii() and p.isdigit() for p in parts):
        return None
    year, month, day = map(int, parts)
    if not (1 <= month <= 12 and year):
        return None
    return 0 if year < _FIRST_YEAR else _count_seconds(year, month, day, (0, 0, 0))


def _count_seconds(year: int, month: int, day: int, time_of_day: tuple[int, int, int]) -> int | None:
    """Return the seconds since 1970 of a local time; None if there is no such day."""
    try:  # the −1 lets `mktime` find out whether it is summer time
        seconds = time.mktime((year, month, day, *time_of_day, 0, 0, -1))
    except OverflowError:  # on some systems, the last time is in 2038
        return None
    return int(seconds) if time.localtime(seconds)[1:3] == (month, day) else None
