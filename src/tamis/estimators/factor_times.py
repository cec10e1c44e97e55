"""Dates and numbers → times, lengths of time, and the clock that a recommender goes by."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from numbers import Real
from typing import Any

import numpy as np

from tamis import arrays
from tamis.arrays import Array
from tamis.estimators.factor_reading import plain, ratings
from tamis.estimators.factor_state import FactorState
from tamis.models.factors.clock import Clock

_FADED, _FEW = 1e-3, 10  # a half-life that leaves less a rating is a slip of units; few may fade to one
_PERIODS = 10_000  # more of them in the span of the times are a slip of units, too
_DAY = np.timedelta64(86_400_000_000, "us")


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """When n ratings were made."""

    values: Array  # (n,): numbers as they are, dates in days since 1970
    dates: bool | None  # which of these they were; None if there are none


def read(values: Any, rows: int) -> Times:
    """Numbers, dates or datetimes, one a row; a single one is that of every row."""
    if isinstance(values, date | np.datetime64) or (np.ndim(values) == 0 and not arrays.is_frame(values)):
        values = [values] * rows
    if hasattr(values, "to_list"):
        values = values.to_list()
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        days = (values.astype("M8[us]") - np.datetime64(0, "us")) / _DAY
        return Times(ratings(np.where(np.isnat(values), np.nan, days), rows, "time"), True)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return Times(ratings(values, rows, "time"), False)
    listed = list(values)
    known = [(row, _is_date(x)) for row, x in enumerate(listed) if arrays.object_kind(x) is not None]
    if not any(is_date for _, is_date in known):
        return Times(ratings(values, rows, "time"), False if known else None)
    first = known[0][1]
    if (odd := next((row for row, is_date in known if is_date != first), None)) is not None:
        raise TypeError(
            f"time {odd} is {plain(listed[odd])!r} and time {known[0][0]} {plain(listed[known[0][0]])!r}, "
            "expected all dates or all numbers: parse them, e.g. with pandas.to_datetime"
        )
    days = np.full(len(listed), np.nan)
    for row, _ in known:
        days[row] = _day(listed[row])
    return Times(ratings(days, rows, "time"), True)


def _is_date(value: Any) -> bool:
    return isinstance(value, date | np.datetime64)


def _day(value: Any) -> float:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp() / 86_400.0
    return float((np.datetime64(value, "us") - np.datetime64(0, "us")) / _DAY)


def clock_of(face: Any, time: Array | None, dates: bool | None) -> Clock | None:
    """By the face's parameters, or one line about what does not go with these times."""
    bins: Any = face.time_bins
    if not isinstance(bins, int | np.integer) or bins < 0:
        raise ValueError(f"got time_bins={bins!r}, expected a whole number, 0 for none")
    half_life, period = (_length(name, getattr(face, name)) for name in ("half_life", "period"))
    if period is not None and not bins:
        raise ValueError(
            f"got period={face.period!r} without time_bins, expected into how many parts to cut it: set "
            "time_bins, e.g. to 12"
        )
    if time is None:
        if bins or half_life is not None:
            raise ValueError(
                "got half_life or time_bins, and ratings without times, expected a column of times: name "
                "it time, or say which it is with columns={'time': …}"
            )
        return None
    clock = Clock(float(time.min()), float(time.max()), half_life, int(bins), period, dates=dates)
    _refuse_many_periods(clock)
    left = float(clock.weights(time).sum())
    if _is_faded(left, len(time)):
        raise _faded(clock, len(time), left)
    return clock


def _length(name: str, given: Any) -> float | None:
    """A length of time: a number as it is, a timedelta in days."""
    if isinstance(given, np.timedelta64 | timedelta):
        given = given / (timedelta(days=1) if isinstance(given, timedelta) else np.timedelta64(1, "D"))
    if given is None:
        return None
    if not isinstance(given, Real) or not 0.0 < float(given) < np.inf:
        raise ValueError(
            f"got {name}={given!r}, expected a length of time above 0: a number in the unit of the times, or "
            "a datetime.timedelta"
        )
    return float(given)


def _is_faded(left: float, rows: int) -> bool:
    return left < _FADED * rows or (rows > _FEW and left < 2.0)


def _faded(clock: Clock, rows: int, left: float) -> ValueError:
    return ValueError(
        f"got half_life={clock.half_life:g}, which leaves {rows} ratings the weight of {left:.3g}, "
        f"expected a longer one for times from {clock.oldest:g} to {clock.newest:g}: are the times in "
        "seconds?"
    )


def _refuse_many_periods(clock: Clock) -> None:
    if clock.period is not None and clock.newest - clock.oldest > _PERIODS * clock.period:
        raise ValueError(
            f"got period={clock.period:g} for times from {clock.oldest:g} to {clock.newest:g}, expected at "
            f"most {_PERIODS:,} periods between them: are the times in seconds?"
        )


def refuse_other_kind(clock: Clock | None, dates: bool | None) -> None:
    """One line if the clock goes by dates and these are numbers, or the reverse."""
    if clock is None or clock.dates is None or dates is None or clock.dates == dates:
        return
    if dates:
        raise ValueError(
            "got times that are dates, expected numbers, as in the fit: convert them to its unit, or fit anew"
        )
    raise ValueError(
        "got times that are numbers, expected dates, as in the fit: convert them, e.g. with "
        "pandas.to_datetime(…, unit='s')"
    )


def refuse_leap(before: FactorState, after: FactorState) -> None:
    """One line if newer times leave nothing of what was known: rather a slip of units than news.

    Small steps are never refused, so that a stream may go on as long as it likes.
    """
    then, now = before.clock, after.clock
    if then is None or now is None or now == then:
        return
    _refuse_many_periods(now)
    if now.half_life is None or before.entries.time is None or after.entries.time is None:
        return
    if np.exp2((then.newest - now.newest) / now.half_life) >= _FADED:
        return
    known, left = (float(now.weights(each).sum()) for each in (before.entries.time, after.entries.time))
    if known < _FADED:
        raise _faded(now, len(before.entries), known)
    if _is_faded(left, len(after.entries)):
        raise _faded(now, len(after.entries), left)
