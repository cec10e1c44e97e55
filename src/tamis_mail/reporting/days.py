"""Prepare verdicts by day for a chart: days are joined to a bounded number, without impossible dates."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.labels import SPAM, UNSURE

_FIRST_DAY = 8036  # 1992-01-01: mail is hardly older
_SECONDS = 86400  # length of a day
_POINTS = 200  # the largest number of points after joining


@dataclass(frozen=True, slots=True)
class Day:
    """The verdicts of one day, or of successive days."""

    number: int  # days since 1970
    messages: int
    spam: int
    unsure: int


def list_days(counts: Iterable[tuple[int, str, int]]) -> list[Day]:
    """Join the counts of each day, in the order of days."""
    by_day: dict[int, dict[str, int]] = {}
    for day, label, messages in counts:
        by_day.setdefault(day, {})[label] = messages
    return [
        Day(day, sum(by_label.values()), by_label.get(SPAM, 0), by_label.get(UNSURE, 0))
        for day, by_label in sorted(by_day.items())
    ]


def drop_implausible(counts: Iterable[tuple[int, str, int]], now: float) -> Iterator[tuple[int, str, int]]:
    """Leave out days on which no mail can have been sent: senders may write any date."""
    return (row for row in counts if _FIRST_DAY <= row[0] <= now // _SECONDS + 1)


def mask_implausible(dates: NDArray[np.float64], now: float) -> NDArray[np.float64]:
    """Replace dates (seconds since 1970) at which no mail can have been sent by NaN, which means unknown."""
    is_plausible = (dates >= _FIRST_DAY * _SECONDS) & (dates < (now // _SECONDS + 2) * _SECONDS)
    return np.where(is_plausible, dates, np.nan)


def join_days(days: Sequence[Day]) -> tuple[list[Day], int]:
    """Join successive days, so that few points are left; return how many days each stands for."""
    if not days:
        return [], 1
    width = 1 + (days[-1].number - days[0].number) // _POINTS
    joined: dict[int, Day] = {}
    for day in days:
        number = day.number - (day.number - days[0].number) % width
        old = joined.get(number, Day(number, 0, 0, 0))
        joined[number] = Day(
            number, old.messages + day.messages, old.spam + day.spam, old.unsure + day.unsure
        )
    return [*joined.values()], width
