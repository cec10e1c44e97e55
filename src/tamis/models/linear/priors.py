"""Check a caller's settings of the prior and the noise, and make the prior of a linear model."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.linalg import Cholesky, symmetrize


@dataclass(frozen=True, slots=True, eq=False)
class CoefficientPrior:
    """The prior N(mean, S) of the coefficients of each target."""

    mean: Array  # (q, d)
    precision: Array  # (d, d): S⁻¹, with zeros for coefficients of a flat prior
    root: Array  # (d, d): S = root rootᵀ, where coefficients with a flat prior have variance 1
    log_determinant: float  # of the precision of the coefficients whose prior is not flat
    flat: NDArray[np.bool_]  # (d,): whether the prior of each coefficient is flat
    alpha: Array | None  # (), or (d,): the caller's alpha; None if it was "evidence", or if `prior` was given
    by_evidence: bool  # whether the precision is to be multiplied by an α that the evidence chooses

    @property
    def proper(self) -> int:
        """The number of coefficients that have a prior which integrates to one."""
        return int((~self.flat).sum())


def make_coefficient_prior(
    alpha: object, prior: object, d: int, q: int, default: float | None = None
) -> CoefficientPrior:
    """Make the prior on the coefficients of d columns, for each of q targets, from `alpha` or `prior`.

    If `prior` is not None, `alpha` must not be set: it must be "evidence" or `default`, the number that
    `alpha` is where the caller gives none.
    """
    if prior is not None:
        strength = read_numbers_or_word(alpha, "alpha", ("evidence",))
        if not isinstance(strength, str) and (strength.ndim or float(strength) != default):
            unset = "'evidence'" if default is None else f"{default:g}"
            raise ValueError(f"got both alpha and prior, expected one of them: leave alpha={unset}")
        return _read_prior(prior, d, q)
    precision = read_alpha(alpha, d)
    if precision is None:
        return _make_diagonal(np.zeros((q, d)), np.ones(d), alpha=None, by_evidence=True)
    return _make_diagonal(np.zeros((q, d)), np.broadcast_to(precision, (d,)), precision)


def read_alpha(alpha: object, d: int) -> Array | None:
    """Check a caller's α for d columns; return it as an array () or (d,), or None for "evidence"."""
    precision = read_numbers_or_word(alpha, "alpha", ("evidence",))
    if isinstance(precision, str):
        return None
    if precision.shape not in ((), (d,)):
        raise ValueError(
            f"got alpha of shape {precision.shape}, expected one number or one per column ({d},)"
        )
    if not ((precision >= 0) & (precision < np.inf)).all():
        raise ValueError(f"got alpha={precision.min():g}, expected finite numbers of at least 0")
    return np.asarray(precision)


def check_noise_precision(beta: Array, q: int) -> Array:
    """Check a caller's β, and return that of each target (q,)."""
    if beta.shape not in ((), (q,)):
        raise ValueError(f"got beta of shape {beta.shape}, expected one number or one per target ({q},)")
    if not ((beta > 0) & (beta < np.inf)).all():
        raise ValueError(f"got beta={beta.min():g}, expected finite numbers above 0")
    return np.broadcast_to(beta, (q,)).copy()


def check_at_least_zero(name: str, value: object) -> float:
    """Return a parameter as a float; raise unless it is finite and not negative."""
    if not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"got {name}={value!r}, expected a finite number of at least 0")
    return float(value)


def read_numbers_or_word(value: object, name: str, words: tuple[str, ...]) -> Any:
    """Return one of the words unchanged, or convert the value to an array of numbers.

    `name` is that of the parameter, for errors.
    """
    if isinstance(value, str) and value in words:
        return value
    expected = f"expected a number, an array of them, or {' or '.join(repr(word) for word in words)}"
    if isinstance(value, str | bool) or value is None:
        raise ValueError(f"got {name}={value!r}, {expected}")
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"got {name}={value!r}, {expected}") from None


def _read_prior(prior: object, d: int, q: int) -> CoefficientPrior:
    """Check a caller's pair of mean and covariance, or variances, and make the prior."""
    if not isinstance(prior, Sequence) or len(prior) != 2:
        raise ValueError(
            f"got prior={arrays.one_line(prior)}, expected a mean and a covariance: prior=(m0, S0)"
        )
    mean, covariance = arrays.floats(prior[0], "mean of the prior"), arrays.floats(prior[1], "prior")
    if mean.shape not in ((), (d,), (q, d)) or not np.isfinite(mean).all():
        raise ValueError(
            f"got a prior mean of shape {mean.shape}, expected finite numbers, one per column ({d},)"
        )
    means = np.broadcast_to(mean, (q, d)).copy()
    if covariance.shape == (d,):
        if not ((covariance > 0) & (covariance < np.inf)).all():
            raise ValueError(f"got a prior variance of {covariance.min():g}, expected finite numbers above 0")
        return _make_diagonal(means, 1.0 / covariance, alpha=None)
    if covariance.shape != (d, d):
        raise ValueError(
            f"got a prior covariance of shape {covariance.shape}, expected ({d}, {d}), or variances ({d},)"
        )
    name = "prior covariance"  # in messages
    factor = Cholesky.of(symmetrize(covariance, name), name, "give one that is")
    log_determinant, flat = -float(factor.log_determinant()), np.zeros(d, dtype=np.bool_)
    return CoefficientPrior(
        means, factor.inverse(), factor.lower, log_determinant, flat, alpha=None, by_evidence=False
    )


def _make_diagonal(
    mean: Array, precision: Array, alpha: Array | None, by_evidence: bool = False
) -> CoefficientPrior:
    """Make a prior with means (q, d) and independent coefficients of these precisions (d,)."""
    flat = precision == 0
    proper = np.where(flat, 1.0, precision)
    root, log_determinant = np.diag(1.0 / np.sqrt(proper)), float(np.log(proper).sum())
    return CoefficientPrior(mean, np.diag(precision), root, log_determinant, flat, alpha, by_evidence)
