"""Check parameters that a caller sets; an error says what was expected."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from tamis.arrays import one_line
from tamis.stats import Keys


def check_integer(name: str, value: object, least: int = 1) -> int:
    """Return a parameter as an int; raise unless it is a whole number of at least `least`.

    >>> check_integer("max_iter", np.int64(3))
    3
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"got {name}={one_line(value)}, expected a whole number of at least {least}")
    return int(value)


def check_em_options(max_iter: object, tol: Any, n_init: object = 1) -> None:
    """Raise unless these are valid parameters of EM: iterations, tolerance, and number of starts."""
    check_integer("max_iter", max_iter)
    check_integer("n_init", n_init)
    if not (isinstance(tol, float) and tol == -np.inf):  # −inf: do not stop before max_iter iterations
        check_nonnegative("tol", tol)


def check_nonnegative(name: str, value: object) -> float:
    """Return a parameter as a float; raise unless it is finite and not negative."""
    if not isinstance(value, Real):
        raise TypeError(f"got {name}={one_line(value)}, expected a number of at least 0")
    if not 0.0 <= float(value) < np.inf:
        raise ValueError(f"got {name}={value}, expected a finite number of at least 0")
    return float(value)


def check_decay_factor(factor: object) -> float:
    """Return the factor by which `decay` scales a statistic; raise unless it is above 0 and at most 1."""
    if not isinstance(factor, Real) or not 0.0 < float(factor) <= 1.0:
        raise ValueError(f"got factor={factor!r}, expected a number above 0 and at most 1, such as 0.99")
    return float(factor)


def check_class_probabilities(
    priors: Any, classes: Keys, must_sum_to_one: bool = True, name: str = "priors"
) -> dict[Any, float] | None:
    """Return the probability of each class by its label; None if `priors` is None, or there are no classes.

    `priors` has one probability per class, as a sequence in the order of `classes` or as a mapping from
    labels, in which other labels are ignored. They must sum to 1 unless `must_sum_to_one` is False. `name` is
    the parameter's name for error messages.
    """
    if priors is None or not len(classes):
        return None
    setting = f"{name}={one_line(priors)}"
    if isinstance(priors, Mapping) and (missing := [key for key in classes if key not in priors]):
        raise ValueError(
            f"got {setting}, without class {missing[0]!r}, expected a probability for every class"
        )
    try:
        values = [priors[key] for key in classes] if isinstance(priors, Mapping) else priors
        probabilities = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"got {setting}, expected one probability per class") from None
    if probabilities.shape != (len(classes),):
        raise ValueError(
            f"Number of priors must match number of classes: got {name} of shape {probabilities.shape}, "
            f"expected {len(classes)} numbers"
        )
    if not (probabilities >= 0).all():
        raise ValueError(f"Priors must be non-negative: got {setting}")
    if must_sum_to_one and not np.isclose(probabilities.sum(), 1.0):
        raise ValueError(
            f"The sum of the priors should be 1: got {setting}, which sum to {probabilities.sum():g}"
        )
    if not 0 < probabilities.sum() < np.inf:
        raise ValueError(f"got {setting}, expected finite numbers with a sum above 0")
    return dict(zip(classes, probabilities.tolist(), strict=True))
