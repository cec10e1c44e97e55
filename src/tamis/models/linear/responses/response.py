"""The base class of responses, the distributions of a target given the linear score of its row."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tamis.arrays import Array
from tamis.conjugate import Univariate
from tamis.models.linear.design import RowBlock

# A function of rows and of changes of their scores, which returns the changes of their losses' derivatives.
Operator = Callable[[slice, Array], Array]

ALL_ZERO = (
    "all targets are 0, so that the likelihood rises for ever as the intercept falls, expected some "
    "above 0: set intercept_alpha above 0, or collect more rows"
)
# The least `loss_scale` of normal targets: smaller residual squares of rescaled targets are mostly rounding.
_MIN_NORMAL_SCALE = 1e-16
_MAX_TARGET = 1e152  # the sum of squares of 10,000 such targets is still finite


@dataclass(frozen=True, slots=True)
class NullModelSizes:
    """Sums and bounds of targets, weights and offsets, from which `find_null_intercept` starts."""

    target_sum: float  # Σ weight · target
    weight: float  # total of all rows
    smallest_weight: float  # of a row; above 0
    smallest_offset: float
    largest_offset: float


# A function of the targets, weights and offsets of some rows, which returns sums over these rows.
RowSums = Callable[[Array, Array, Array], Array]
# A function that calls such a function with the rows of each shard, and adds the results.
SumOverRows = Callable[[RowSums], Array]


class Response(ABC):
    """The distribution of a row's target given its score.

    Scores of n rows are (n,) if there is one output, and (n, outputs) for `Softmax`. Targets are (n,).
    """

    family: ClassVar[str]
    link: ClassVar[str]
    allowed_targets: ClassVar[str] = "numbers"
    is_canonical: ClassVar[bool] = True  # whether `second_derivative` is `information` for all targets
    is_decreasing: ClassVar[bool] = False  # whether the mean falls as the score rises
    has_classes: ClassVar[bool] = False  # whether targets are classes, which rows may separate
    has_dispersion: ClassVar[bool] = False  # whether the family has a dispersion parameter
    has_positive_mean: ClassVar[bool] = False  # whether every mean is above 0; a target need not be
    takes_exposure: ClassVar[bool] = False  # whether an offset of log t multiplies the mean by t
    # Whether no solver may start at the mode of a sample of the rows, because it may be far from that of all.
    start_needs_all_rows: ClassVar[bool] = False
    targets_have_unit: ClassVar[bool] = False  # whether losses are in the squared unit of the targets
    scores_have_unit: ClassVar[bool] = False  # whether scores are in the unit of the targets
    # Whether a fit reports its log-likelihood at the dispersion that maximises it, as statsmodels does.
    uses_likeliest_dispersion: ClassVar[bool] = False
    # For messages: the rows whose means may tend to zero without end; None if there are none.
    vanishing_targets_text: ClassVar[str | None] = None
    vanishing_advice: ClassVar[str] = ""  # what else to do about them, for messages

    # ── losses ──

    @abstractmethod
    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """Return the loss of each row (n,), and its derivative by each score, in the shape of the scores.

        The loss is ∞ where a score gives no mean, such as 0 with the inverse link.
        """

    @abstractmethod
    def information(self, scores: Array) -> Array:
        """Return the expected second derivative of the loss by the score (n,), or (n, K, K) by K scores."""

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        """Return the second derivative of the loss, shaped as `information`; canonical links inherit this."""
        return self.information(scores)

    def loss_scale(self, value: float) -> float:
        """Return the number by which tolerances of a loss are multiplied: its magnitude, but at least 1.

        For normal targets it is at least 1e-16 instead, because their loss is in the squared unit of targets.
        """
        return max(_MIN_NORMAL_SCALE if self.targets_have_unit else 1.0, abs(value))

    # ── the distribution of targets ──

    @abstractmethod
    def mean(self, scores: Array) -> Array:
        """Return E[y] for each score: the inverse of the link function."""

    @abstractmethod
    def link_function(self, mean: Array) -> Array:
        """Return the score of each mean; it may be −∞ or ∞ at the ends of the range of means."""

    @abstractmethod
    def variance(self, mean: Array) -> Array:
        """Return Var[y] for each mean and a dispersion of 1: the variance function."""

    @abstractmethod
    def deviance(self, mean: Array, targets: Array) -> Array:
        """Return the deviance of each row (n,) for a dispersion of 1.

        It is twice the log-likelihood of a mean equal to the target, minus twice that of the given mean.
        """

    @abstractmethod
    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        """Return log p(target) of each row (n,), with all constants, for the mean that each row has."""

    def deviance_by_score(self, scores: Array, targets: Array) -> Array:
        """Return `deviance` for the means that belong to these scores."""
        with np.errstate(over="ignore"):
            return self.deviance(self.mean(scores), targets)

    def log_likelihood_by_score(self, scores: Array, targets: Array, dispersion: float) -> Array:
        """Return `log_likelihood` for the means that belong to these scores.

        For a dispersion of 0 it is ∞, and for one that is negative or NaN, NaN. `Bernoulli` ignores the
        dispersion.
        """
        if not dispersion > 0:
            return np.full(len(scores), np.inf if dispersion == 0 else np.nan)
        with np.errstate(over="ignore"):
            return self.log_likelihood(self.mean(scores), targets, dispersion)

    def pearson_squares(self, scores: Array, targets: Array) -> Array:
        """Return Pearson's (target − mean)² / variance of each row (n,).

        It equals the squared derivative of the loss, divided by the information.
        """
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            derivatives, information = self.loss(scores, targets)[1], self.information(scores)
            return np.where(derivatives == 0, 0.0, np.square(derivatives) / information)

    def likeliest_dispersion(self, mean_deviance: float) -> float:
        """Return the maximum-likelihood dispersion of rows whose deviances have this mean."""
        return max(mean_deviance, 0.0)

    def predict_distribution(self, scores: Array, variances: Array, dispersion: float) -> Univariate:
        """Return each target's predictive distribution; raise `ValueError` if it has no closed form.

        `variances` (n,) are those of the scores, whose posterior is Gaussian.
        """
        raise ValueError(
            f"the predictive distribution of a target has no closed form for family={self.family!r}, "
            f"link={self.link!r} and dispersion {dispersion:g}: use mean_interval or sample_functions"
        )

    # ── which targets are allowed ──

    @abstractmethod
    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        """Return whether each target (n,) is possible."""

    def refuse_targets(self, targets: Array) -> None:
        """Raise if some target is impossible."""
        allowed = self.is_allowed(targets)
        if not allowed.all():
            row = int(np.argmin(allowed))
            raise ValueError(
                f"target {row} is {targets[row]:g}, expected {self.allowed_targets}: "
                f"family={self.family!r} has no others, drop that row or choose another family"
            )

    def refuse_size(self, largest: float) -> None:
        """Raise if targets of this largest magnitude are too large or too small to be squared."""
        if largest > _MAX_TARGET or 0 < largest < 1.0 / _MAX_TARGET:
            raise ValueError(
                f"the largest target is {largest:g}, expected {1.0 / _MAX_TARGET:g} to {_MAX_TARGET:g}, "
                "whose squares floats can hold: choose another unit"
            )

    def refuse_unbounded_intercept(self, least: float, largest: float, mean: float, has_prior: bool) -> None:
        """Raise if neither the likelihood nor a prior bounds the intercept, or no intercept gives this mean.

        `least` and `largest` are the extreme targets, `mean` is the weighted mean of all targets, and
        `has_prior` is whether the intercept has a prior.
        """
        return

    # ── the null model, whose only parameter is the intercept, and where steps start ──

    def intercept(self, targets: Array, weights: Array | None = None, offsets: Array | None = None) -> float:
        """Return the maximum-likelihood intercept of the null model; −∞ or ∞ if there is no maximum.

        Weights must be above 0 if there are offsets.

        >>> from tamis.models.linear.responses import Poisson
        >>> counts, hours = np.array([3.0, 5.0]), np.array([1.0, 3.0])
        >>> round(float(np.exp(Poisson().intercept(counts, offsets=np.log(hours)))), 6)
        2.0
        """
        w = np.ones(len(targets)) if weights is None else weights
        with np.errstate(divide="ignore"):
            if offsets is None:
                return float(self.link_function(np.array(float(w @ targets)) / float(w.sum())))
            sizes = NullModelSizes(
                float(w @ targets),
                float(w.sum()),
                float(w.min()),
                float(offsets.min()),
                float(offsets.max()),
            )
            return self.find_null_intercept(sizes, lambda function: function(targets, w, offsets))

    def find_null_intercept(self, sizes: "NullModelSizes", sum_rows: "SumOverRows") -> float:
        """Return the maximum-likelihood intercept of the null model of rows with offsets.

        `sum_rows` calls its argument with the targets, weights and offsets of all rows, or of each shard, and
        adds the results. The result is −∞ or ∞ if there is no maximum.
        """
        intercept = float(self.link_function(np.array(sizes.target_sum / sizes.weight)))
        if not np.isfinite(intercept):
            return intercept
        margin = 1e-9 * (1.0 + abs(intercept) + sizes.largest_offset - sizes.smallest_offset)
        low = max(intercept - sizes.largest_offset - margin, self._bound_null_intercept(sizes))
        high = intercept - sizes.smallest_offset + margin
        return find_root(lambda at: float(sum_rows(partial(self._sum_derivatives, at))[0]), low, high)

    def _sum_derivatives(self, at: float, targets: Array, w: Array, offsets: Array) -> Array:
        return np.array([w @ self.loss(offsets + at, targets)[1]])

    def _bound_null_intercept(self, sizes: "NullModelSizes") -> float:
        """Return a lower bound on the null model's intercept, where the losses of all rows are finite."""
        return -np.inf

    def start_means(self, targets: Array, mean: float) -> Array:
        """Return a mean for each target from which the first step starts, inside the range of the link.

        By default it is half way from the target to `mean`, a typical mean.
        """
        return np.asarray(0.5 * (targets + mean))

    def bound_vanishing_loss(
        self, scores: Array, targets: Array, weights: Array | None, offsets: Array | None
    ) -> tuple[float, float]:
        """Return log(loss of these rows at these scores) and log(bound on the loss of all rows).

        Unless all means can tend to zero together, the loss of all rows is at least the bound for any
        coefficients. So if it is below the bound at these scores, it falls without end as all means tend to
        zero. The losses of several shards are added (`logaddexp`), and the least of their bounds holds. A
        response without such a bound returns ∞ and −∞.
        """
        return np.inf, -np.inf

    def margins(self, scores: Array, targets: Array) -> Array:
        """Return the margin of each row (n,): the score of its own class minus the next best score.

        The loss never rises along a direction whose scores give margins of at least 0 in all rows. A row
        whose target is not one of the classes has the margin −|score|: no direction counts as safe for it.
        """
        return -np.abs(scores)

    def relative_information(self, scores: Array) -> Array:
        """Return about how much information each row (n,) has, relative to that at scores of 0.

        It is compared with limits such as 0.01, so a factor of 2 does not matter. A response with classes
        returns a number from 0 to 1 that tends to 0, in proportion to the row's information, as the
        probability of a class tends to 1. Responses without classes return 1.
        """
        return np.ones(len(scores))

    # ── several scores per row, and the parameters that they depend on ──

    @property
    def outputs(self) -> int:
        """The number of scores per row."""
        return 1

    @property
    def expansion(self) -> Array:
        """The matrix (outputs, m) by which `expand` multiplies parameters (m, width)."""
        return np.eye(1)

    def expand(self, parameters: Array, width: int) -> Array:
        """Convert parameters (D,), m vectors of `width` numbers, to the coefficients of each output.

        The result is (outputs, width), or (width,) if there is one output.
        """
        return parameters

    def reduce_gradient(self, gradient: Array) -> Array:
        """Convert a gradient by the outputs' coefficients (outputs, width) to one by the parameters (D,)."""
        return gradient

    def reduce_matrix(self, matrix: Array) -> Array:
        """Convert a Hessian by the coefficients of the outputs to one by the parameters (D, D).

        Coefficients are in the order of outputs, and within an output in the order of columns.
        """
        return matrix

    def block_information(
        self, block: RowBlock, scores: Array, targets: Array, weights: Array | None, observed: bool
    ) -> Array:
        """Return the information of some rows, or their Hessian if `observed`, by the outputs' coefficients.

        It is (outputs · width, outputs · width).
        """
        values = self.second_derivative(scores, targets) if observed else self.information(scores)
        return block.gram(values if weights is None else values * weights)

    def block_diagonal(self, block: RowBlock, scores: Array, weights: Array | None) -> Array:
        """Return the diagonal of the information of some rows by the parameters (D,)."""
        values = self.information(scores)
        return block.column_squares(values if weights is None else values * weights)

    def information_operator(self, scores: Array, weights: Array) -> Operator:
        """Make a function that multiplies changes of scores by weight and information of their rows.

        Its arguments are a slice of the rows and the changes of their scores, which it overwrites and
        returns. `scores` and `weights` are those of all rows.
        """
        information = weights * self.information(scores)

        def multiply(rows: slice, changes: Array) -> Array:
            changes *= information[rows]
            return changes

        return multiply

    def row_information(self, scores: Array) -> Array:
        """Return the information of a row by its products with the m vectors of parameters (m, m).

        `scores` (outputs,) are those of the row.
        """
        return self.information(scores).reshape(1, 1)

    def bound_information_change(self, before: Array, after: Array) -> float:
        """Return an upper bound on the relative change of any row's information from one score to another."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            first, second = self.information(before), self.information(after)
            return float(np.where(first == second, 0.0, np.abs(second - first) / first).max(initial=0.0))

    def difference_coefficients(self, parameters: Array, width: int) -> Array:
        """Return coefficients (pairs, width): times a row, they are the score or the differences of scores.

        The loss depends on the scores by these alone: one score, or the differences of all pairs.
        """
        return parameters[None]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.outputs == other.outputs

    def __hash__(self) -> int:
        return hash((type(self), self.outputs))


def find_root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Find the zero of a rising function between two points of opposite signs, by Brent's method."""
    return float(brentq(rising, low, high, xtol=1e-13 * (1.0 + abs(low) + abs(high)), rtol=1e-14))


def leave_out_scores(
    response: Response, scores: Array, targets: Array, weights: Array, variances: Array
) -> tuple[Array, Array]:
    """Return each row's score, and the score's variance, both (n,), by the model of all other rows.

    `scores` and `variances` are those by the model of all rows, from which one Newton step is made.
    """
    derivatives = response.loss(scores, targets)[1]
    remaining = np.maximum(1.0 - weights * response.information(scores) * variances, 1e-12)
    return scores + weights * derivatives * variances / remaining, variances / remaining
