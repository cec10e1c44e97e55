"""An explanation of one row → bars, for one class to the right and for the other to the left."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.estimators import Explanation
from tamis.plots import canvas
from tamis.tables import Sparse, Table

_LONGEST_LABEL = 36  # the largest number of characters of a label; the middle of a longer one is omitted
_INFINITE_LENGTH = 1.25  # length of an infinite bar, in units of the longest finite one


@dataclass(eq=False)
class ExplanationDisplay:
    """The columns that contribute most to the log-odds of one class of a row against another.

    The total is the log-odds of the two classes; finite bars sum to it, up to rounding. Each unit multiplies
    the odds by e.

    >>> import tamis
    >>> model = tamis.GaussianNB().fit([[1, 8], [1.2, 7.9], [3, 1], [3.2, 1.1]], ["a", "a", "b", "b"])
    >>> display = ExplanationDisplay.from_estimator(model, [[2.2, 4.0]])
    >>> display.labels, display.log_odds == float(display.values.sum())
    (('column 1 = 4', 'column 0 = 2.2', 'prior'), True)
    """

    labels: tuple[str, ...]  # of the bars, from the top: columns, then the parts that belong to no column
    values: Array  # (bars,): their lengths with sign, in log-odds
    log_odds: float  # the total
    for_: Any  # the label of the class to whose side positive bars point
    against: Any  # the label of the other class
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_explanation(
        cls, explanation: Explanation, row: int = 0, count: int = 10, ax: Any = None, **style: Any
    ) -> "ExplanationDisplay":
        """Draw the `count` columns of a row with the largest contributions.

        `style` is passed to matplotlib's `barh`.
        """
        return cls._make_display(explanation, row, count, cells={}).plot(ax, **style)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: object,
        row: int = 0,
        count: int = 10,
        for_: object = None,
        against: object = None,
        ax: Any = None,
        **style: Any,
    ) -> "ExplanationDisplay":
        """Explain a row by a fitted model and draw it, with the row's values beside the columns' names."""
        explanation = model.explain(X, for_, against)
        return cls._make_display(explanation, row, count, _format_cells(X, row, explanation)).plot(
            ax, **style
        )

    @classmethod
    def _make_display(
        cls, explanation: Explanation, row: int, count: int, cells: dict[Any, str]
    ) -> "ExplanationDisplay":
        rows = len(explanation.prior)
        if not -rows <= row < rows:
            raise ValueError(f"got row={row}, expected one of the {rows} that were explained")
        if count < 1:
            raise ValueError(f"got count={count}, expected at least 1 column to draw")
        strongest = explanation.top(row, count)
        prior, rest = float(explanation.prior[row]), float(explanation.rest[row])
        with np.errstate(invalid="ignore"):
            total = float(explanation.log_odds[row])
            others = total - prior - rest - sum(value for _, value in strongest)
        bars = [(_format_name(name) + cells.get(name, ""), value) for name, value in strongest]
        omitted = len(explanation.names) - len(strongest)
        if omitted and np.isfinite(others) and abs(others) > 1e-9 * max(1.0, abs(total)):
            bars.append((f"{omitted} other column{'s' * (omitted > 1)}", others))
        if rest:
            bars.append(("no column alone", rest))
        bars.append(("prior", prior))
        return cls(
            tuple(label for label, _ in bars),
            np.array([value for _, value in bars]),
            total,
            explanation.for_[row],
            explanation.against[row],
        )

    @property
    def probability(self) -> float:
        """The probability of class `for_`, if there are only these two classes."""
        return float(0.5 * (1.0 + np.tanh(0.5 * self.log_odds)))

    def plot(self, ax: Any = None, **style: Any) -> "ExplanationDisplay":
        """Draw the plot; `style` is passed to matplotlib's `barh`."""
        values = np.append(self.values, self.log_odds)
        ax = canvas.make_axes(ax, (7.0, 1.3 + 0.32 * len(values)))
        finite = np.abs(values[np.isfinite(values)])
        longest = float(finite.max(initial=0.0)) or 1.0
        lengths = np.clip(
            np.nan_to_num(values, nan=0.0), -_INFINITE_LENGTH * longest, _INFINITE_LENGTH * longest
        )
        positions = np.arange(len(values), dtype=np.float64)
        positions[-1] += 0.4  # a gap above the total
        colours = [canvas.FOR if value > 0 else canvas.AGAINST for value in values[:-1]] + [canvas.DARK]
        ax.barh(positions, lengths, **{"color": colours, "height": 0.72, **style})
        for position, value, width in zip(positions, values, lengths, strict=True):
            ax.annotate(
                _format_signed(value),
                (width, position),
                xytext=(4 if width >= 0 else -4, 0),
                textcoords="offset points",
                ha="left" if width >= 0 else "right",
                va="center",
                fontsize="small",
            )
        ax.axvline(0.0, color=canvas.DARK, linewidth=0.8)
        ax.axhline(positions[-1] - 0.7, color=canvas.PALE, linewidth=0.8, linestyle=":")
        ax.set_yticks(positions, [*self.labels, "total"])
        ax.tick_params(axis="y", length=0)
        # A margin for the numbers at the ends of the bars.
        ends = min(0.0, lengths.min()), max(0.0, lengths.max())
        margin = 0.16 * (ends[1] - ends[0]) or 1.0
        ax.set_xlim(ends[0] - margin * (ends[0] < 0), ends[1] + margin * (ends[1] > 0 or ends[0] == 0))
        ax.set_ylim(positions[-1] + 0.6, -0.6)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_xlabel(f"log-odds:  ← for {_shorten(self.against)}    for {_shorten(self.for_)} →")
        probability = _format_probability(self.log_odds)
        ax.set_title(
            f"{_shorten(self.for_)} against {_shorten(self.against)}: probability {probability}", loc="left"
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _format_cells(X: object, row: int, explanation: Explanation) -> dict[Any, str]:
    """Return the text " = value" of each column of the row, by the column's name."""
    table = Table.of(X)
    index = range(table.rows)[row] if -table.rows <= row < table.rows else 0
    names = explanation.names if table.names is None else table.names
    if isinstance(table.data, Sparse):
        dense = table.data.dense(slice(index, index + 1))[0]
        return {name: f" = {value:g}" for name, value in zip(names, dense, strict=True)}
    is_array = isinstance(table.data, np.ndarray)
    values = table.data[index] if is_array else [column[index] for column in table.data]
    return {name: f" = {_format_value(value)}" for name, value in zip(names, values, strict=True)}


def _format_value(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, int | float | np.number) else _shorten(value, 20)


def _format_name(name: Any) -> str:
    return f"column {name}" if isinstance(name, int | np.integer) else _shorten(name)


def _shorten(name: Any, most: int = _LONGEST_LABEL) -> str:
    text = str(name).replace("$", r"\$")
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most // 3) :]}"


def _format_signed(value: float) -> str:
    if not np.isfinite(value):
        return "?" if np.isnan(value) else "∞" if value > 0 else "−∞"
    return f"{value:+.2f}".replace("-", "−")


def _format_probability(log_odds: float) -> str:
    """Format the probability with at least three digits; very near 0 or 1, format the distance from it."""
    if np.isnan(log_odds):
        return "unknown"
    distance = float(np.exp(-abs(log_odds)))
    if distance > 1e-6:
        digits = max(3, int(np.ceil(-np.log10(distance))))
        return f"{0.5 * (1.0 + np.tanh(0.5 * log_odds)):.{digits}f}"
    return ("1" if log_odds > 0 else "0") if distance == 0 else f"{'1 − ' * (log_odds > 0)}{distance:.0e}"
