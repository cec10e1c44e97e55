"""Detect likelihoods without a maximum: the columns whose coefficients grow without bounds, if any.

Without a prior a likelihood may have no maximum. With classes this happens if a plane separates them (some
rows may lie on the plane): scores can then grow without bounds. It is proved by a direction along which the
margins of some rows rise and no margin falls (Albert and Anderson 1984). With a log link it happens if means
of targets of 0 or less can tend to zero: each of Newton's steps then changes their scores by ½ to 1, and
steps never become shorter, though the objective hardly changes any more. So the length of the next step, in
scores, distinguishes this case from an optimum.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.linalg import Cholesky, eigen
from tamis.models.linear.newton import minimise
from tamis.models.linear.objective import LinearRows, Objective
from tamis.models.linear.responses import Response

# Two fractions of a row's information at a score of 0. If no row has more than the first, the rows do not
# determine a direction. If every row has more than the second, no score is large.
_NO_INFORMATION, _LITTLE_INFORMATION = 1e-3, 1e-2
# A row with less than this fraction of the mean weight may still be on the wrong side when steps end.
_MAX_LIGHT_WEIGHT = 1e-3
# Two fractions of the largest margin. A row whose margin is below the first, whatever its sign, lies on the
# separating plane. A margin below the second is a rounding error.
_BORDER, _STRICT = 1e-4, 1e-12
_CONSTANT = 1e-5  # a score that changes by less than this fraction of the largest change counts as constant
# Two fractions of the largest curvature. Along a direction with less than the first, the length of a step is
# a rounding error. The second is about the rounding error of a curvature of 0.
_NO_CURVATURE, _ROUNDING = 1e-13, 1e-16
# The number of parameters up to which any direction is tried; beyond it, only that of the columns that each
# have hardly any information.
_MAX_SEARCHED_SIZE = 1000
# A step that changes some score by more is long: near an optimum steps are far shorter, and without one they
# change a score by ½ or more.
_LONG_STEP = 0.1
_MIN_PART = 0.1  # of the largest part that a column has in a direction: a column with less is not reported
# The step lengths that are tried, for which the largest change of a score is 1, 2, 4, …. The last one changes
# even a score that just does not count as constant by hundreds.
_DISTANCES = 2.0 ** np.arange(25)


# ── classes ──


def find_separating_columns(
    objective: Objective, at: Array, precision: Array | None
) -> NDArray[np.int64] | None:
    """Find columns without a prior along which scores grow without bounds, because classes are separable.

    Return None if there are none, and an empty array if all columns together separate the classes.
    `precision` is the posterior's at the point `at`, where steps ended, or None if it was not computed. If it
    is no full matrix and there are more than 1,000 parameters, only one direction is tried: that of the
    columns that each have hardly any information.
    """
    if not objective.response.has_classes:
        return None
    has_flat_prior = objective.mask_flat_priors()
    if not has_flat_prior[objective.mask_coefficients()].any():
        return None
    part_without_prior = np.where(has_flat_prior, at, 0.0)
    if has_all_rows_correct(objective, part_without_prior) or _is_separated_but_for_light_rows(
        objective, at, has_flat_prior
    ):
        return np.empty(0, dtype=np.int64)
    if not objective.find_least_information(at) < _LITTLE_INFORMATION:
        return None
    if precision is None or precision.ndim == 1:
        if objective.size > _MAX_SEARCHED_SIZE:
            return _find_single_columns(objective, at, part_without_prior)
        precision = objective.prior.add_to(objective.information(at))
    return _find_directions(objective, at, has_flat_prior, precision)


def has_all_rows_correct(objective: Objective, direction: Array) -> bool:
    """Return whether every row with weight has its largest score for its own class, at these parameters."""
    least, largest = objective.find_margin_range(direction)
    return bool(least > _STRICT * largest) if least <= largest else False


def _is_separated_but_for_light_rows(
    objective: Objective, at: Array, has_flat_prior: NDArray[np.bool_]
) -> bool:
    """Return whether only very light rows are on the wrong side, and a fit with equal weights has none."""
    weights = objective.weights
    if weights is None or not has_flat_prior.all():
        return False
    has_weight = weights > 0
    scores = objective.design.scores(objective.expand(at))
    wrong = objective.response.margins(scores, objective.targets)[has_weight] <= 0.0
    positive = weights[has_weight]
    if not wrong.any() or positive[wrong].max() > _MAX_LIGHT_WEIGHT * positive.mean():
        return False
    equal = replace(objective, weights=has_weight.astype(np.float64))
    return has_all_rows_correct(equal, minimise(equal, np.zeros_like(at)).point.parameters)


def _is_separating(objective: Objective, direction: Array) -> bool:
    """Return whether a direction raises the margin of some rows with weight and lowers no margin."""
    least, largest = objective.find_margin_range(direction)
    return bool(largest > 0.0 and least >= -_BORDER * largest)


def _find_single_columns(
    objective: Objective, at: Array, part_without_prior: Array
) -> NDArray[np.int64] | None:
    """Find columns that each hardly have information at `at`, if together they separate the classes.

    `part_without_prior` is `at` with zeros for parameters that have a prior. Return None if there are no such
    columns.
    """
    width, columns = objective.design.width, objective.design.columns
    at_zero, at_end = objective.information_diagonal(np.zeros_like(at)), objective.information_diagonal(at)
    uninformed = np.logical_and(
        objective.mask_flat_priors(),
        at_end <= _NO_INFORMATION / objective.rows.count_weighted_rows() * at_zero,
    )
    uninformed.reshape(-1, width)[:, columns:] = False
    if not uninformed.any() or not _is_separating(objective, np.where(uninformed, part_without_prior, 0.0)):
        return None
    return np.flatnonzero(np.asarray(uninformed.reshape(-1, width).any(axis=0))[:columns])


def _find_directions(
    objective: Objective, at: Array, has_flat_prior: NDArray[np.bool_], precision: Array
) -> NDArray[np.int64] | None:
    """Find the columns that take part in a direction without information along which scores can grow.

    The direction separates the classes, or has less information than even the lightest row would give.
    `has_flat_prior` marks the parameters without a prior. Return None if there is no such direction.
    """
    width, columns = objective.design.width, objective.design.columns
    at_zero = objective.prior.add_to(objective.information(np.zeros_like(at)))
    scale = np.sqrt(np.diagonal(at_zero))
    values, vectors = eigen(precision / (scale[:, None] * scale))
    threshold = _NO_INFORMATION * float(eigen(at_zero / (scale[:, None] * scale))[0][0])
    uninformed = vectors[:, values <= threshold / objective.rows.count_weighted_rows()]
    if not uninformed.shape[1]:
        return None
    # The projection of the parameters on the directions along which rows have no information.
    direction = uninformed @ (uninformed.T @ (scale * at))
    if not _is_separating(objective, np.where(has_flat_prior, direction / scale, 0.0)):
        if values[0] > threshold * objective.rows.find_least_relative_weight():
            return None
        direction = vectors[:, 0]
    parts = np.abs(direction.reshape(-1, width)).max(axis=0)[:columns]
    return np.flatnonzero(parts > _MIN_PART * parts.max())


def make_definite(objective: Objective, precision: Array) -> Array:
    """Raise the diagonal of a precision that rounding may have left singular until it is definite.

    It is raised by a part of the information at scores of 0: by the smallest power of ten that is enough.
    """
    if precision.ndim == 1:
        least = 1e-14 * objective.information_diagonal(np.zeros_like(precision))
        return np.maximum(precision, np.maximum(least, np.finfo(np.float64).tiny))
    if bool(Cholesky.factorise_definite(precision)[1]):
        return precision
    at_zero = np.diagonal(objective.prior.add_to(objective.information(np.zeros(len(precision)))))
    for part in 10.0 ** np.arange(-15.0, -5.0):
        raised = precision + part * np.diag(at_zero)
        if bool(Cholesky.factorise_definite(raised)[1]):
            return np.asarray(raised)
    return np.diag(np.maximum(np.diagonal(precision), 1e-6 * at_zero))


# ── means that fall to zero ──


def find_vanishing_columns(objective: Objective, at: Array, is_full: bool) -> NDArray[np.int64] | None:
    """Find columns whose coefficients grow without bounds because means of vanishing targets fall to zero.

    Return None if there are none. `is_full` is whether the posterior's full precision is stored, so that a
    Hessian can be computed, too.
    """
    rows, response = objective.rows, objective.response
    if response.vanishing_targets_text is None:
        return None
    has_flat_prior = objective.mask_flat_priors()
    least, largest = rows.target_range
    if (
        has_flat_prior.all()
        and least == largest == 0
        and rows.total(partial(_bound_loss, response, at)).proves_fall
    ):
        return np.arange(rows.design.columns)
    if not is_full or not has_flat_prior.any() or least > 0:
        return None
    for step, has_length in _generate_steps(objective, at):
        move = np.where(has_flat_prior, step, 0.0)
        longest = rows.total(partial(_find_longest_change, move)).length
        is_long = longest > (_LONG_STEP if has_length else 0.0)
        if is_long and rows.total(partial(_follow_fall, response, at, move, longest)).is_endless:
            _, extent = objective.design.find_reach_and_extent()
            parts = (np.abs(move) * extent)[: objective.design.columns]
            return np.flatnonzero(parts > _MIN_PART * parts.max(initial=0.0))
    return None


def _generate_steps(objective: Objective, at: Array) -> Iterator[tuple[Array, bool]]:
    """Yield Newton's step (D,) and True; then each direction without curvature, and its opposite, and False.

    The bool is whether the length of the step matters. In Newton's step the Hessian's eigenvalues are
    replaced by their magnitudes, so that it descends in any case.
    """
    _, gradient = objective.value_and_gradient(at)
    hessian = objective.prior.add_to(objective.information(at, observed=True))
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(hessian)), np.finfo(np.float64).tiny))
    values, vectors = eigen(hessian / (scale[:, None] * scale))
    sizes = np.abs(values) / np.abs(values).max()
    raised = np.maximum(sizes, _ROUNDING) * np.abs(values).max()
    yield -(vectors @ ((vectors.T @ (gradient / scale)) / raised)) / scale, True
    for index in np.flatnonzero(sizes <= _NO_CURVATURE):
        yield vectors[:, index] / scale, False
        yield -vectors[:, index] / scale, False


@dataclass(frozen=True, slots=True, eq=False)
class _LossBounds:
    """The logarithms of the loss of some rows, and of a lower bound on the loss of all rows.

    Those of two shards can be added. See `Response.bound_vanishing_loss`.
    """

    log_loss: float
    least: float  # the logarithm of the bound

    def __add__(self, other: "_LossBounds") -> "_LossBounds":
        return _LossBounds(float(np.logaddexp(self.log_loss, other.log_loss)), min(self.least, other.least))

    def __mul__(self, weight: float) -> "_LossBounds":
        return _LossBounds(self.log_loss + float(np.log(weight)), self.least + float(np.log(weight)))

    @property
    def proves_fall(self) -> bool:
        """Whether the loss is below the bound, so that it falls without end as all means fall to zero."""
        return self.log_loss < self.least


def _bound_loss(response: Response, at: Array, rows: LinearRows) -> _LossBounds:
    """Return the loss of rows at a point, and the bound on the loss of all rows."""
    scores = rows.scores(at)
    return _LossBounds(*response.bound_vanishing_loss(scores, rows.targets, rows.weights, rows.offsets))


@dataclass(frozen=True, slots=True, eq=False)
class _Length:
    """The largest change of a score; the sum of two is the larger one."""

    length: float

    def __add__(self, other: "_Length") -> "_Length":
        return _Length(max(self.length, other.length))

    def __mul__(self, weight: float) -> "_Length":
        return self


def _find_longest_change(move: Array, rows: LinearRows) -> _Length:
    """Return the largest change of a score of these rows that a change of the parameters makes."""
    return _Length(float(np.abs(rows.design.scores(move)).max(initial=0.0)))


@dataclass(frozen=True, slots=True, eq=False)
class _Fall:
    """How scores and loss change along a direction; those of two shards can be added."""

    rises: bool  # whether some score rises
    derivatives: Array  # (distances,): of the loss by the distance, at each distance

    def __add__(self, other: "_Fall") -> "_Fall":
        return _Fall(self.rises or other.rises, self.derivatives + other.derivatives)

    def __mul__(self, weight: float) -> "_Fall":
        return _Fall(self.rises, weight * self.derivatives)

    @property
    def is_endless(self) -> bool:
        """Whether no score rises, and the loss falls at the first distance and rises at none."""
        # At the largest distances means underflow, and derivatives are 0.
        return bool(not self.rises and self.derivatives[0] < 0 and self.derivatives.max() <= 0)


def _follow_fall(response: Response, at: Array, move: Array, longest: float, rows: LinearRows) -> _Fall:
    """Return whether scores rise, and the derivatives of the loss, along a direction from a point (D,).

    `move` (D,) is the direction, and `longest` the largest change of a score that it makes.
    """
    changes = rows.design.scores(move) / longest
    is_changing = np.abs(changes) > _CONSTANT
    changes = changes[is_changing]
    if (changes > 0).any():
        return _Fall(rises=True, derivatives=np.zeros(len(_DISTANCES)))
    scores, targets = rows.scores(at)[is_changing], rows.targets[is_changing]
    weights = np.ones(len(scores)) if rows.weights is None else rows.weights[is_changing]
    with np.errstate(over="ignore"):
        derivatives = [
            (weights * changes) @ response.loss(scores + distance * changes, targets)[1]
            for distance in _DISTANCES
        ]
    return _Fall(rises=False, derivatives=np.array(derivatives))
