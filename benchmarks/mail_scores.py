"""figures of mail filters on one stream → rows that are won, tied or lost, tables, and a plot of calibration.

A stream is what `benchmarks.mail_stream --output` writes: its name, the numbers of messages, the figures that
were wanted of tamis, and for each filter `figures`, a value with its 95 % interval by measure, and
`calibration`, a list of [messages, mean probability, share of spam] by bins of the probability. Smaller
figures are better.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = [
    "COMPARED",
    "FilterComparison",
    "calibration_plot",
    "compare_filters",
    "describe_stream",
    "missed_measures",
]

Stream = Mapping[str, Any]
OURS = "tamis"
# Measures with an interval, which one filter can win. The others are shown.
COMPARED = (
    "1-ROCA %",
    "missed at 0.1 %",
    "missed at 1 %",
    "ham called spam %",
    "spam not called spam %",
    "Brier",
    "log-loss",
)
# Okabe and Ito's colours, which the colour-blind can tell apart; each filter has its own dashes, too.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00")
_DASHES = ("none", "6 3", "2 2", "8 3 2 3", "4 2", "1 3")
_WAITING = "The classifiers of SpamAssassin and rspamd wait until they have learned 200 spam and 200 ham."
_SIZE, _MARGIN = 320, 44


@dataclass(frozen=True)
class FilterComparison:
    """One measure of tamis and of a peer on a stream."""

    stream: str
    measure: str
    peer: str
    result: str

    @property
    def key(self) -> str:
        """What an explanation calls the row."""
        return f"{self.stream}: {self.measure}, {self.peer}"


def compare_filters(stream: Stream) -> list[FilterComparison]:
    """Compare tamis with each peer by each measure that both have, with an interval."""
    filters = {one["filter"]: one["figures"] for one in stream["filters"]}
    ours = filters.get(OURS, {})
    return [
        FilterComparison(stream["name"], measure, peer, _judge(ours[measure], figures[measure]))
        for peer, figures in filters.items()
        if peer != OURS and peer not in _silent_filters(stream)
        for measure in COMPARED
        if len(ours.get(measure, ())) == 3 and len(figures.get(measure, ())) == 3
    ]


def _silent_filters(stream: Stream) -> list[str]:
    """Filters that said the same of every message: there is nothing to win against them."""
    return [
        one["filter"]
        for one in stream["filters"]
        if (bins := one.get("calibration")) and len(bins) == 1 and bins[0][1] == 0.5
    ]


def _judge(ours: Sequence[float], peer: Sequence[float]) -> str:
    """won or lost if neither value lies in the interval of the other, else tied."""
    if ours[1] <= peer[0] <= ours[2] or peer[1] <= ours[0] <= peer[2]:
        return "tied"
    return "won" if ours[0] < peer[0] else "lost"


def missed_measures(stream: Stream) -> list[str]:
    """Return the keys of the wanted figures that tamis did not reach."""
    figures: Mapping[str, Sequence[float]] = next(
        (one["figures"] for one in stream["filters"] if one["filter"] == OURS), {}
    )
    wanted: Mapping[str, float] = stream.get("wanted", {})
    return [
        f"{stream['name']}: {measure}, wanted"
        for measure, most in wanted.items()
        if measure not in figures or figures[measure][0] > most
    ]


def describe_stream(stream: Stream, note: Callable[[str], str]) -> Iterator[str]:
    """Tables of the figures, and of what was won, tied and lost."""
    ham = stream["messages"] - stream["spam"]
    yield (
        f"{stream['messages']:,} messages, {stream['spam']:,} spam and {ham:,} ham; each is judged and then "
        "learned. Less is better in every column; 95 % intervals are in brackets."
    )
    yield ""
    measures = list(dict.fromkeys(measure for one in stream["filters"] for measure in one["figures"]))
    yield f"| filter | {' | '.join(measures)} | failed | seconds |"
    yield "|---|" + "---|" * (len(measures) + 2)
    for one in stream["filters"]:
        cells = [_figure(one["figures"].get(measure)) for measure in measures]
        cells += [str(one.get("failed", "–")), f"{one['seconds']:.0f}" if "seconds" in one else "–"]
        yield f"| {one['filter']} | {' | '.join(cells)} |"
    wanted: Mapping[str, float] = stream.get("wanted", {})
    if wanted:
        missed = missed_measures(stream)
        cells = [_goal(stream, measure, wanted, missed, note) for measure in measures]
        yield f"| *wanted of {OURS}* | {' | '.join(cells)} | | |"
    yield ""
    if silent := _silent_filters(stream):
        names = " and ".join(silent)
        yield f"{names}: unsure of every message (probability 0.5), so not compared. {_WAITING}"
        yield ""
    rows = compare_filters(stream)
    yield f"| {OURS} against | {' | '.join(COMPARED)} |"
    yield "|---|" + "---|" * len(COMPARED)
    for peer in dict.fromkeys(row.peer for row in rows):
        by_measure = {row.measure: row for row in rows if row.peer == peer}
        results = (by_measure.get(measure) for measure in COMPARED)
        cells = ["–" if row is None else _result(row, note) for row in results]
        yield f"| {peer} | {' | '.join(cells)} |"
    yield ""


def _result(row: FilterComparison, note: Callable[[str], str]) -> str:
    return f"**lost** (note {note(row.key)})" if row.result == "lost" else row.result


def _goal(
    stream: Stream,
    measure: str,
    wanted: Mapping[str, float],
    missed: Sequence[str],
    note: Callable[[str], str],
) -> str:
    if measure not in wanted:
        return ""
    key = f"{stream['name']}: {measure}, wanted"
    return f"{wanted[measure]:g}" + (f", **missed** (note {note(key)})" if key in missed else "")


def _figure(values: Sequence[float] | None) -> str:
    if not values:
        return "–"
    value, *interval = (
        f"{one:.4f}" if one < 0.1 else f"{one:.3f}" if one < 1 else f"{one:.2f}" for one in values
    )
    return f"{value} ({'–'.join(interval)})" if interval else value


def calibration_plot(stream: Stream) -> str:
    """Draw the share of spam over the stated probability: SVG, by no library, so the same everywhere."""
    drawn = [one for one in stream["filters"] if one.get("calibration")]
    width, height = _SIZE + 2 * _MARGIN + 130, _SIZE + 2 * _MARGIN
    end, middle = _MARGIN + _SIZE, _MARGIN + _SIZE // 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f' width="{width}" height="{height}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>Calibration on {escape(stream['name'])}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<rect x="{_MARGIN}" y="{_MARGIN}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="#888888"/>',
        f'<line x1="{_MARGIN}" y1="{end}" x2="{end}" y2="{_MARGIN}" stroke="#bbbbbb"/>',
        _text(middle, height - 8, "stated probability of spam", "middle"),
        f'<g transform="rotate(-90 14 {middle})">{_text(14, middle, "share of spam", "middle")}</g>',
        _text(_MARGIN, _MARGIN - 14, stream["name"]),
    ]
    for step in range(6):
        x, y = _place(step / 5, step / 5)
        lines.append(_text(x, end + 16, f"{step / 5:g}", "middle"))
        lines.append(_text(_MARGIN - 6, y + 4, f"{step / 5:g}", "end"))
    for number, one in enumerate(drawn):
        colour, dashes = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        style = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"'
        points = [(*_place(claimed, share), count) for count, claimed, share in one["calibration"]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        lines.append(f'<polyline points="{path}" {style}/>')
        for x, y, count in points:
            radius = 1.5 + min(4.5, count**0.5 / 8)  # more messages, larger
            lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}"/>')
        y = _MARGIN + 16 + 20 * number
        lines.append(f'<polyline points="{end + 14},{y} {end + 38},{y}" {style}/>')
        lines.append(_text(end + 44, y + 4, one["filter"]))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def _place(x: float, y: float) -> tuple[float, float]:
    return _MARGIN + _SIZE * x, _MARGIN + _SIZE * (1 - y)
