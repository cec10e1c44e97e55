"""Access to matplotlib, and the colours of all pictures."""

import importlib
from typing import Any

# Okabe and Ito (2008): distinct for all kinds of colour vision, and on most printers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A6A00", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FOR, AGAINST = COLOURS[0], COLOURS[1]  # of contributions that raise the log-odds of a class, or lower them
DARK, PALE = "#333333", "#999999"  # of lines and marks that belong to no class


def import_matplotlib(part: str = "pyplot") -> Any:
    """Import a module of matplotlib, when the first picture is drawn."""
    try:
        return importlib.import_module(f"matplotlib.{part}")
    except ModuleNotFoundError:
        raise ImportError(
            "matplotlib is not installed, expected it for plots: pip install tamis[plots]"
        ) from None


def make_axes(ax: Any = None, figsize: tuple[float, float] | None = None) -> Any:
    """Return these axes; if they are None, new ones in a new figure."""
    if ax is not None:
        return ax
    _figure, axes = import_matplotlib().subplots(figsize=figsize, layout="constrained")
    return axes


def choose_colour(index: int) -> str:
    """Return the colour of a class, by its index among the classes."""
    return COLOURS[index % len(COLOURS)]


def choose_marker(index: int) -> str:
    """Return the marker of a class, by its index among the classes."""
    return MARKERS[index % len(MARKERS)]
