"""Prepare verdicts by day for a chart: leave out implausible dates, and join days to fewer points."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.labels import SPAM, UNSURE

_FIRST_DAY = 8036  # days since 1970: 1992-01-01; mail is hardly older
_DAY_SECONDS = 86400
_MAX_POINTS = 200  # of a chart


@dataclass(frozen=True, slots=True)
class Day:
    """The verdicts of one day, or of successive days."""

    number: int  # days since 1970
    messages: int
    spam: int
    unsure: int


def list_days(counts: Iterable[tuple[int, str, int]]) -> list[Day]:
    """Join the counts of each day, in the order of days.

    A count is a day (days since 1970), the label of the verdict, and the number of messages.
    """
    by_day: dict[int, dict[str, int]] = {}
    for day, label, messages in counts:
        by_day.setdefault(day, {})[label] = messages
    return [
        Day(day, sum(by_label.values()), by_label.get(SPAM, 0), by_label.get(UNSURE, 0))
        for day, by_label in sorted(by_day.items())
    ]


def drop_implausible(counts: Iterable[tuple[int, str, int]], now: float) -> Iterator[tuple[int, str, int]]:
    """Leave out counts of days before 1992 or after tomorrow, because senders may write any date.

    `now` is in seconds since 1970; counts are those of `list_days`.
    """
    return (row for row in counts if _FIRST_DAY <= row[0] <= now // _DAY_SECONDS + 1)


def mask_implausible(dates: NDArray[np.float64], now: float) -> NDArray[np.float64]:
    """Replace implausible dates (seconds since 1970) by NaN, as if they were unknown."""
    is_plausible = (dates >= _FIRST_DAY * _DAY_SECONDS) & (dates < (now // _DAY_SECONDS + 2) * _DAY_SECONDS)
    return np.where(is_plausible, dates, np.nan)


def join_days(days: Sequence[Day]) -> tuple[list[Day], int]:
    """Join successive days to at most _MAX_POINTS points; return also the number of days per point."""
    if not days:
        return [], 1
    width = 1 + (days[-1].number - days[0].number) // _MAX_POINTS
    joined: dict[int, Day] = {}
    for day in days:
        number = day.number - (day.number - days[0].number) % width
        old = joined.get(number, Day(number, 0, 0, 0))
        joined[number] = Day(
            number, old.messages + day.messages, old.spam + day.spam, old.unsure + day.unsure
        )
    return [*joined.values()], width
