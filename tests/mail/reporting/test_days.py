"""Days of verdicts are joined to a bounded number, and dates that no mail has are left out."""

import numpy as np

from tamis_mail.reporting.days import Day, drop_implausible, join_days, list_days, mask_implausible


def test_labels_of_a_day_are_counted_together() -> None:
    counts = [(7, "spam", 2), (5, "ham", 3), (7, "unsure", 1), (7, "work", 4)]
    assert list_days(counts) == [Day(5, 3, 0, 0), Day(7, 7, 2, 1)]


def test_many_days_are_joined() -> None:
    rows = [(day, label, n) for day in range(10_000, 12_000) for label, n in (("spam", 2), ("ham", 3))]
    days, width = join_days(list_days(rows))
    assert width == 10
    assert [day.number for day in days] == [*range(10_000, 12_000, 10)]
    assert all((day.messages, day.spam) == (50, 20) for day in days)


def test_few_days_stay_as_they_are() -> None:
    days = [Day(5, 3, 0, 0), Day(7, 7, 2, 1)]
    assert join_days(days) == (days, 1)
    assert join_days([]) == ([], 1)


def test_impossible_dates_are_left_out() -> None:
    counts = [(-5, "spam", 1), (12_000, "spam", 2), (12_003, "spam", 4), (40_000, "spam", 8)]
    assert [*drop_implausible(counts, 12_002 * 86_400.0)] == counts[1:3]
    dates = np.array([day * 86_400.0 + 5 for day, _, _ in counts] + [np.nan])
    masked = mask_implausible(dates, 12_002 * 86_400.0)
    np.testing.assert_array_equal(masked, [np.nan, dates[1], dates[2], np.nan, np.nan])
