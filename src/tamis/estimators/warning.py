"""A message → a warning that points at the line of the caller, however deep in here it was found."""

import sys
import warnings

_OURS = ("tamis", "sklearn")


def warn(message: str, category: type[Warning]) -> None:
    """Warn as if from the first frame outside this package and scikit-learn."""
    depth = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth + 1)
