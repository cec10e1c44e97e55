"""What a caller sets on a face → a checked value, or one line that says what was expected."""

from typing import Any

import numpy as np

from tamis.arrays import one_line
from tamis.estimators.reading import at_least_zero

# parameters that some face takes as an array; each says itself which shapes it takes
_ARRAYS = frozenset(
    (
        "alpha",
        "beta",
        "class_prior",
        "means_init",
        "min_categories",
        "precisions_init",
        "prior",
        "priors",
        "weights_init",
    )
)


def whole_number(name: str, value: object, least: int = 1) -> int:
    """A parameter as a whole number of at least `least`.

    >>> whole_number("max_iter", np.int64(3))
    3
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"got {name}={one_line(value)}, expected a whole number of at least {least}")
    return int(value)


def refuse_em_options(face: Any) -> None:
    """Raise unless the parameters of a face that fits by EM say when to stop, and how often to start."""
    for name in ("max_iter", "n_init"):
        if hasattr(face, name):
            whole_number(name, getattr(face, name))
    if not (
        isinstance(face.tol, float) and face.tol == -np.inf
    ):  # that is never reached: as many iterations as max_iter says
        at_least_zero("tol", face.tol)


def refuse_matrices(params: dict[str, Any]) -> None:
    """Raise if a parameter that is one value, or one per column, is an array of two or more axes."""
    for name, value in params.items():
        if name not in _ARRAYS and isinstance(value, np.ndarray | list) and _axes(value) > 1:
            raise ValueError(f"got {name}={one_line(value)}, expected one value: pass no array")


def _axes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.ndim
    return 1 + max((_axes(each) for each in value if isinstance(each, np.ndarray | list)), default=0)
