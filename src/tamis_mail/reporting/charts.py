"""a report → its charts: ROC curve, calibration, probabilities by class, learning curve."""

from collections.abc import Sequence
from math import floor, isnan, log10, sqrt

import numpy as np

from tamis_mail.reporting.report import Report
from tamis_mail.reporting.svg import Axis, Chart, format_number

_TENTHS = [(tenth / 10, format_number(tenth / 10)) for tenth in range(0, 11, 2)]
_MIN_TICK_DISTANCE = 0.1  # minimum distance of two tick labels, as a share of the axis
_DEVIATIONS = 1.96  # half the width of a 95 % interval, in standard deviations


def draw_roc(report: Report) -> str:
    """Draw true against false positive rates, these on a logarithmic scale, because small ones matter."""
    hams = max(1, report.study.measures.ham)
    # On the logarithmic axis, zero is at the power of ten below half a message.
    smallest = 10.0 ** min(-1, floor(log10(0.5 / hams)))
    ticks = [
        (smallest, "0"),
        *((10.0**power, _format_percent(power)) for power in range(round(log10(smallest)) + 1, 1)),
    ]
    decades = -log10(smallest)
    x = Axis("ham called spam (log scale)", ticks, lambda value: 1 + log10(max(value, smallest)) / decades)
    points = report.roc
    best = max((spam for ham, spam in points if ham <= 0), default=0.0)
    low = 0.0 if best < 0.55 else 0.5  # the value at which the axis begins
    y = Axis("spam caught", _list_ticks(low, 1.0), lambda value: (value - low) / (1 - low))
    area = report.study.measures.roc_area
    description = (
        f"Spam caught against ham called spam; {100 * best:.1f} % of spam is caught before any ham is lost."
    )
    chart = Chart("ROC curve", f"{description} ROC area {_format_value(area)}.", x, y)
    stairs = [(smallest, low), (smallest, max(low, best))]
    for ham, spam in points:
        if ham > 0:
            stairs += [(ham, stairs[-1][1]), (ham, max(spam, low))]
    chart.add_line(stairs, "main", area=True)
    threshold = report.study.rule.spam
    is_called_spam = report.probabilities >= threshold
    ham_rate = float(is_called_spam[~report.is_spam].mean()) if hams and (~report.is_spam).any() else 0.0
    spam_rate = float(is_called_spam[report.is_spam].mean()) if report.is_spam.any() else 0.0
    if spam_rate >= low:
        chart.add_point(
            max(ham_rate, smallest),
            spam_rate,
            "mark",
            f"called spam from {threshold:g}: {100 * spam_rate:.1f} % of spam, {100 * ham_rate:.2f} % of ham",
            radius=5,
        )
        chart.add_legend("mark", f"called spam from {threshold:g}")
    chart.add_legend("main", f"area {_format_value(area)}")
    return chart.draw()


def draw_calibration(report: Report) -> str:
    """Draw the observed share of spam against the predicted probability, with Wilson's 95 % intervals."""
    chart = Chart(
        "Calibration",
        "Observed share of spam against the predicted probability of spam; "
        f"mean difference {_format_value(report.study.measures.calibration_error)}.",
        Axis("predicted probability of spam", _TENTHS),
        Axis("observed share of spam", _TENTHS),
    )
    chart.add_line([(0, 0), (1, 1)], "guide")
    largest = max((one.messages for one in report.bins), default=1)
    for one in report.bins:
        low, high = _compute_wilson_interval(one.spam, one.messages)
        chart.add_whisker(one.predicted, low, high, "main")
        tooltip = f"predicted {one.predicted:.3f}, observed {one.observed:.3f}, {one.messages} messages"
        radius = 3 + 4 * sqrt(one.messages / largest)
        chart.add_point(one.predicted, one.observed, "main", tooltip, radius)
    chart.add_legend("main", "messages, and a 95 % interval")
    chart.add_legend("guide", "perfect calibration")
    return chart.draw()


def draw_histogram(report: Report) -> str:
    """Draw a histogram of probabilities, spam upwards and ham downwards, on a square-root scale."""
    p = report.probabilities
    edges = np.linspace(0, 1, 21)
    spam, _ = np.histogram(p[report.is_spam], edges)
    ham, _ = np.histogram(p[~report.is_spam], edges)
    largest = _round_up(max(int(spam.max()), int(ham.max()), 1))
    parts = sorted({largest, largest // 4} - {0})
    ticks = [(0.0, "0"), *((sign * part, _format_count(part)) for part in parts for sign in (1, -1))]
    chart = Chart(
        "Probabilities",
        "How many messages were given each probability of spam, spam above the line and ham below.",
        Axis("probability of spam", _TENTHS),
        Axis(
            "messages (root scale)", ticks, lambda n: 0.5 + (1 if n > 0 else -1) * sqrt(abs(n) / largest) / 2
        ),
    )
    for number, (upper, lower) in enumerate(zip(spam.tolist(), ham.tolist(), strict=True)):
        start, stop = edges[number] + 0.004, edges[number + 1] - 0.004
        interval = f"{edges[number]:.2f} to {edges[number + 1]:.2f}"
        if upper:
            chart.add_bar(start, stop, 0, upper, "spam", f"{upper} spam from {interval}")
        if lower:
            chart.add_bar(start, stop, 0, -lower, "ham", f"{lower} ham from {interval}")
    for threshold in (report.study.rule.ham, report.study.rule.spam):
        chart.add_line([(threshold, -largest), (threshold, largest)], "guide")
    chart.add_legend("spam", "spam")
    chart.add_legend("ham", "ham")
    chart.add_legend("guide", "thresholds")
    return chart.draw()


def draw_curve(report: Report) -> str:
    """Draw ROC area and accuracy against the number of learned messages."""
    points = [point for point in report.study.curve if point.learned]
    values = [v for point in points for v in (point.roc_area, point.accuracy) if not isnan(v)]
    lowest = min(values, default=0.5)
    low = max(0.0, floor(min(lowest, 0.9) * 10) / 10)
    first, last = points[0].learned, max(points[-1].learned, points[0].learned + 1)
    ticks = [(float(n), f"{n:,}") for n in _choose_ticks([point.learned for point in points])]
    span = log10(last) - log10(first)
    chart = Chart(
        "Learning curve",
        f"ROC area and accuracy after learning {first:,} to {last:,} messages.",
        Axis("messages learned (log scale)", ticks, lambda n: (log10(max(n, 1)) - log10(first)) / span),
        Axis("share", _list_ticks(low, 1.0), lambda value: (value - low) / (1 - low)),
    )
    for name, css_class in (("ROC area", "main"), ("accuracy", "second")):
        line = [
            (float(p.learned), p.roc_area if css_class == "main" else p.accuracy)
            for p in points
            if css_class == "second" or not isnan(p.roc_area)
        ]
        chart.add_line(line, css_class)
        for n, value in line:
            chart.add_point(n, value, css_class, f"{name} {value:.3f} after {n:,.0f} messages", radius=3.5)
        chart.add_legend(css_class, name)
    return chart.draw()


def _choose_ticks(numbers: Sequence[int]) -> list[int]:
    """Choose numbers whose labels do not overlap on a logarithmic axis; the last one is always chosen."""
    if not numbers:
        return []
    span = log10(max(numbers[-1], 2) / numbers[0]) or 1.0
    ticks = [numbers[-1]]
    for number in reversed(numbers[:-1]):
        if log10(ticks[-1] / number) / span >= _MIN_TICK_DISTANCE:
            ticks.append(number)
    return ticks[::-1]


def _format_percent(power: int) -> str:
    """Format 10**power as a percentage."""
    return f"{format_number(10.0 ** (power + 2), max(0, -power - 2))} %"


def _list_ticks(low: float, high: float) -> list[tuple[float, str]]:
    step = 0.1 if high - low <= 0.5 + 1e-9 else 0.2
    values = [high - step * number for number in range(floor((high - low) / step + 1e-9) + 1)]
    return [(value, format_number(value, 2)) for value in values]


def _round_up(number: int) -> int:
    """Round up to 1, 2, 4 or 8 times a power of ten, whose quarters are short numbers."""
    unit: int = 10 ** max(0, len(str(number)) - 1)
    return next(part for part in (unit, 2 * unit, 4 * unit, 8 * unit, 10 * unit) if part >= number)


def _format_count(number: int) -> str:
    """Format a number for an axis.

    >>> _format_count(400), _format_count(20000), _format_count(2500)
    ('400', '20k', '2.5k')
    """
    return f"{number / 1000:g}k" if number >= 1000 else str(number)


def _compute_wilson_interval(spam: int, messages: int) -> tuple[float, float]:
    share, z = spam / messages, _DEVIATIONS
    middle = (share + z * z / (2 * messages)) / (1 + z * z / messages)
    half = z * sqrt(share * (1 - share) / messages + z * z / (4 * messages**2)) / (1 + z * z / messages)
    return max(0.0, middle - half), min(1.0, middle + half)


def _format_value(value: float) -> str:
    return "–" if isnan(value) else f"{value:.4f}"
