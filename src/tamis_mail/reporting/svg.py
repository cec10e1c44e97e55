"""numbers → SVG: axes, lines, points and bars, as text that any browser draws; no library, no script.

Colours are classes that the page's style sheet defines for light and dark themes. All text is escaped here,
so that nothing from a message can be read as markup.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 320  # of a chart, in units of the SVG
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 22, 14, 46  # margins around the axes


def escape_text(text: str) -> str:
    """Escape text for an element or an attribute; control characters become dots."""
    return escape("".join(c if c.isprintable() else "·" for c in text), quote=True)


def format_number(number: float, digits: int = 3) -> str:
    """Format a number without trailing zeros.

    >>> format_number(0.25), format_number(0.0), format_number(1234.0)
    ('0.25', '0', '1234')
    """
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """An axis: title, ticks and scale."""

    title: str
    ticks: Sequence[tuple[float, str]]  # values and their labels
    scale: Callable[[float], float] = lambda value: value  # maps a value to its position on the axis, 0 to 1


class Chart:
    """A chart with lines, points, bars and a legend.

    Coordinates are values of the axes. `css_class` is the class of what is added, such as "main" or "spam".
    """

    def __init__(self, title: str, description: str, x: Axis, y: Axis) -> None:
        self._title = title
        self._description = description
        self._x, self._y = x, y
        self._parts: list[str] = []
        self._legend: list[tuple[str, str]] = []

    def x_position(self, value: float) -> float:
        """Return where a value of the x axis is, in units of the SVG; values off the axis are at its ends."""
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(max(self._x.scale(value), 0.0), 1.0)

    def y_position(self, value: float) -> float:
        """Return where a value of the y axis is, as `x_position` does."""
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * min(max(self._y.scale(value), 0.0), 1.0)

    def add_line(self, points: Sequence[tuple[float, float]], css_class: str, *, area: bool = False) -> None:
        """Add a line through points; if `area`, fill the area between it and the x axis."""
        coordinates = " ".join(f"{self.x_position(x):.1f},{self.y_position(y):.1f}" for x, y in points)
        if area and points:
            base = f"{HEIGHT - _BOTTOM:.1f}"
            first, last = self.x_position(points[0][0]), self.x_position(points[-1][0])
            self._parts.append(
                f'<polygon class="area {css_class}" '
                f'points="{first:.1f},{base} {coordinates} {last:.1f},{base}"/>'
            )
        self._parts.append(f'<polyline class="line {css_class}" points="{coordinates}"/>')

    def add_point(self, x: float, y: float, css_class: str, tooltip: str, radius: float = 4) -> None:
        self._parts.append(
            f'<circle class="point {css_class}" cx="{self.x_position(x):.1f}" cy="{self.y_position(y):.1f}" '
            f'r="{radius:.1f}"><title>{escape_text(tooltip)}</title></circle>'
        )

    def add_bar(
        self, start: float, stop: float, low: float, high: float, css_class: str, tooltip: str
    ) -> None:
        """Add a bar from `start` to `stop` on the x axis, and from `low` to `high` on the y axis."""
        left, right = sorted((self.x_position(start), self.x_position(stop)))
        top, bottom = sorted((self.y_position(low), self.y_position(high)))
        self._parts.append(
            f'<rect class="bar {css_class}" x="{left:.1f}" y="{top:.1f}" '
            f'width="{max(0.0, right - left):.1f}" height="{max(0.0, bottom - top):.1f}">'
            f"<title>{escape_text(tooltip)}</title></rect>"
        )

    def add_whisker(self, x: float, low: float, high: float, css_class: str) -> None:
        """Add a vertical line, such as an interval around a point."""
        position, start, stop = (
            f"{one:.1f}" for one in (self.x_position(x), self.y_position(low), self.y_position(high))
        )
        self._parts.append(
            f'<line class="whisker {css_class}" x1="{position}" x2="{position}" y1="{start}" y2="{stop}"/>'
        )

    def add_legend(self, css_class: str, text: str) -> None:
        self._legend.append((css_class, text))

    def draw(self) -> str:
        """Return the chart as SVG, with its legend below."""
        body = "".join([*self._draw_grid(), *self._parts])
        svg = (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape_text(self._description)}">'
            f"<title>{escape_text(self._title)}</title><desc>{escape_text(self._description)}</desc>{body}</svg>"
        )
        keys = "".join(
            f'<span class="key"><i class="{css_class}"></i>{escape_text(text)}</span>'
            for css_class, text in self._legend
        )
        return svg + (f'<p class="keys">{keys}</p>' if keys else "")

    def _draw_grid(self) -> list[str]:
        left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
        parts = []
        for value, text in self._x.ticks:
            position = self.x_position(value)
            parts.append(
                f'<line class="grid" x1="{position:.1f}" x2="{position:.1f}" y1="{top}" y2="{bottom}"/>'
            )
            parts.append(
                f'<text x="{position:.1f}" y="{bottom + 16}" text-anchor="middle">{escape_text(text)}</text>'
            )
        for value, text in self._y.ticks:
            position = self.y_position(value)
            parts.append(
                f'<line class="grid" x1="{left}" x2="{right}" y1="{position:.1f}" y2="{position:.1f}"/>'
            )
            parts.append(
                f'<text x="{left - 6}" y="{position + 4:.1f}" text-anchor="end">{escape_text(text)}</text>'
            )
        middle, height = (left + right) / 2, (top + bottom) / 2
        parts.append(
            f'<text class="axis" x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">'
            f"{escape_text(self._x.title)}</text>"
        )
        parts.append(
            f'<text class="axis" transform="translate(13 {height:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape_text(self._y.title)}</text>"
        )
        return parts
