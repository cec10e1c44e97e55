"""Parse `--since` of the log: 12h, today, yesterday, or the periods and dates of `tamis learn --since`."""

import time
from argparse import ArgumentTypeError

from tamis_mail.surfaces.cli.since import parse_since

PAST_HELP = "12h, 3d, 2w, 6m, 1y, today, yesterday, or a date such as 2026-11-01"


def parse_past(text: str, now: float | None = None) -> int:
    """Parse a period before now, a day or a date in local time; return seconds since 1970.

    >>> noon = time.mktime((2026, 11, 16, 12, 0, 0, 0, 0, -1))
    >>> [
    ...     time.strftime("%m-%d %H:%M", time.localtime(parse_past(text, noon)))
    ...     for text in ("yesterday", "36h")
    ... ]
    ['11-15 00:00', '11-15 00:00']
    """
    now = time.time() if now is None else now
    if text in ("today", "yesterday"):
        year, month, day, *_ = time.localtime(now)
        first_day = day - (text == "yesterday")  # day 0 is the last one of the month before
        # The −1 lets `mktime` find out whether it is summer time.
        return int(time.mktime((year, month, first_day, 0, 0, 0, 0, 0, -1)))
    hours = text[:-1]
    if text.endswith("h") and hours.isascii() and hours.isdigit() and int(hours[:9]):
        return max(0, int(now) - int(hours[:9]) * 3600)
    try:
        return parse_since(text, now)
    except ArgumentTypeError as error:
        if "future" in str(error):
            raise
        raise ArgumentTypeError(f"got {text[:40]!r}, expected {PAST_HELP}") from None
