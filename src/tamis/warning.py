"""Issue warnings that point to the caller's line, outside this library."""

import inspect
import warnings

_PACKAGES = ("tamis", "sklearn")


def warn(message: str, category: type[Warning]) -> None:
    """Warn as if from the innermost frame of the stack that is outside this package and scikit-learn."""
    depth, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth + 1)
