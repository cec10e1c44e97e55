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
from tamis.models.linear.design import Block

Operator = Callable[[slice, Array], Array]  # see `Response.information_operator`

ALL_ZERO = (
    "all targets are 0, so that the likelihood rises for ever as the intercept falls, expected some "
    "above 0: set intercept_alpha above 0, or collect more rows"
)
_LEAST_SQUARES = 1e-16  # smaller residual squares of rescaled targets are mostly rounding
_MAX_TARGET = 1e152  # the sum of squares of 10,000 such targets is still finite


@dataclass(frozen=True, slots=True)
class NullModelSizes:
    """Sums and bounds of targets, weights and offsets, from which the null model's intercept is found."""

    target_sum: float  # Σ weight · target
    weight: float  # of all rows
    smallest_weight: float  # of a row, which is above 0
    smallest_offset: float
    largest_offset: float


RowSums = Callable[[Array, Array, Array], Array]  # targets, weights and offsets of some rows → sums
SumRows = Callable[[RowSums], Array]  # calls the function for the rows of each shard, and adds the results


class Response(ABC):
    """The distribution of a row's target given its score; scores are (k,), or (k, outputs) for several."""

    family: ClassVar[str]
    link: ClassVar[str]
    allowed_targets: ClassVar[str] = "numbers"
    is_canonical: ClassVar[bool] = True  # whether the observed second derivative is the expected one
    is_decreasing: ClassVar[bool] = False  # whether the mean falls as the score rises
    has_classes: ClassVar[bool] = False  # whether targets are classes, which rows may separate
    has_dispersion: ClassVar[bool] = False  # whether the family has a dispersion parameter
    has_positive_mean: ClassVar[bool] = False  # whether every mean is above 0; a target need not be
    takes_exposure: ClassVar[bool] = False  # whether an offset of log t multiplies the mean by t
    # Whether no solver may start at the mode of a sample, which may be far from the mode of all rows.
    start_needs_all_rows: ClassVar[bool] = False
    targets_have_unit: ClassVar[bool] = False  # whether losses are in the square of the unit of the targets
    scores_have_unit: ClassVar[bool] = False  # whether scores are in the unit of the targets
    uses_likeliest_dispersion: ClassVar[bool] = False  # whether log-likelihoods are at that dispersion
    # For messages: the rows whose means may tend to zero without end; None if there are none.
    vanishing_targets_text: ClassVar[str | None] = None
    vanishing_advice: ClassVar[str] = ""  # what else to do about them, for messages

    # ── losses ──

    @abstractmethod
    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """Return the loss of each row (∞ outside the link's range), and its derivative by the score."""

    @abstractmethod
    def information(self, scores: Array) -> Array:
        """Return the expected second derivative of the loss of each row."""

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        """Return the second derivative of the loss of each row; only canonical links may inherit this."""
        return self.information(scores)

    def loss_scale(self, value: float) -> float:
        """Return the scale of tolerances for a loss: 1, or the loss if that is larger.

        For normal targets it is always the loss, a sum of squares in the unit of the targets.
        """
        return max(_LEAST_SQUARES if self.targets_have_unit else 1.0, abs(value))

    # ── the distribution of targets ──

    @abstractmethod
    def mean(self, scores: Array) -> Array:
        """Return E[y], the inverse of the link."""

    @abstractmethod
    def score(self, mean: Array) -> Array:
        """Return the score of a mean: the link function."""

    @abstractmethod
    def variance(self, mean: Array) -> Array:
        """Return Var[y] for a dispersion of 1: the variance function."""

    @abstractmethod
    def deviance(self, mean: Array, targets: Array) -> Array:
        """Return each row's deviance for dispersion 1: 2 (log-likelihood at mean y − that at this mean)."""

    @abstractmethod
    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        """Return log p(y) of each row by its mean, with all constants."""

    def deviances(self, scores: Array, targets: Array) -> Array:
        """Return the deviance of each row by its score, for a dispersion of 1."""
        with np.errstate(over="ignore"):
            return self.deviance(self.mean(scores), targets)

    def log_likelihoods(self, scores: Array, targets: Array, dispersion: float) -> Array:
        """Return log p(y) of each row by its score; NaN for a dispersion of NaN, ∞ for a dispersion of 0."""
        if not dispersion > 0:
            return np.full(len(scores), np.inf if dispersion == 0 else np.nan)
        with np.errstate(over="ignore"):
            return self.log_likelihood(self.mean(scores), targets, dispersion)

    def pearson_squares(self, scores: Array, targets: Array) -> Array:
        """Return Pearson's (y − mean)²/variance of each row: the loss's derivative² / information."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            derivatives, information = self.loss(scores, targets)[1], self.information(scores)
            return np.where(derivatives == 0, 0.0, np.square(derivatives) / information)

    def likeliest_dispersion(self, mean_deviance: float) -> float:
        """Return the dispersion of greatest likelihood for rows of this mean deviance."""
        return max(mean_deviance, 0.0)

    def predict_distribution(self, scores: Array, variances: Array, dispersion: float) -> Univariate:
        """Return each target's predictive distribution; raise if it has no closed form."""
        raise ValueError(
            f"the predictive distribution of a target has no closed form for family={self.family!r}, "
            f"link={self.link!r} and dispersion {dispersion:g}: use mean_interval or sample_functions"
        )

    # ── which targets are allowed ──

    @abstractmethod
    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        """Return whether each target is possible."""

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
        """Raise if the largest magnitude of a target is too large or too small to be squared."""
        if largest > _MAX_TARGET or 0 < largest < 1.0 / _MAX_TARGET:
            raise ValueError(
                f"the largest target is {largest:g}, expected {1.0 / _MAX_TARGET:g} to {_MAX_TARGET:g}, "
                "whose squares floats can hold: choose another unit"
            )

    def refuse_unbounded_intercept(self, least: float, largest: float, mean: float, has_prior: bool) -> None:
        """Raise if the likelihood has no maximum in the intercept, and no prior on the intercept.

        The arguments are the least and the largest target, the weighted mean of all targets, and whether the
        intercept has a prior.
        """
        return

    # ── the null model, whose only parameter is the intercept, and where steps start ──

    def intercept(self, targets: Array, weights: Array | None = None, offsets: Array | None = None) -> float:
        """Return the maximum-likelihood intercept of the null model; −∞ or ∞ if there is no maximum.

        Weights must be above 0.

        >>> from tamis.models.linear.responses import Poisson
        >>> counts, hours = np.array([3.0, 5.0]), np.array([1.0, 3.0])
        >>> round(float(np.exp(Poisson().intercept(counts, offsets=np.log(hours)))), 6)
        2.0
        """
        w = np.ones(len(targets)) if weights is None else weights
        with np.errstate(divide="ignore"):
            if offsets is None:
                return float(self.score(np.array(float(w @ targets)) / float(w.sum())))
            sizes = NullModelSizes(
                float(w @ targets),
                float(w.sum()),
                float(w.min()),
                float(offsets.min()),
                float(offsets.max()),
            )
            return self.find_null_intercept(sizes, lambda function: function(targets, w, offsets))

    def find_null_intercept(self, sizes: "NullModelSizes", sum_rows: "SumRows") -> float:
        """Return the maximum-likelihood intercept of the null model of rows with offsets.

        `sum_rows` calls a function with the targets, weights and offsets of all rows, or of each shard, and
        adds the results.
        """
        intercept = float(self.score(np.array(sizes.target_sum / sizes.weight)))
        if not np.isfinite(intercept):
            return intercept
        margin = 1e-9 * (1.0 + abs(intercept) + sizes.largest_offset - sizes.smallest_offset)
        low = max(intercept - sizes.largest_offset - margin, self._bound_null_intercept(sizes))
        high = intercept - sizes.smallest_offset + margin
        return find_root(lambda at: float(sum_rows(partial(self._sum_derivatives, at))[0]), low, high)

    def _sum_derivatives(self, at: float, targets: Array, w: Array, offsets: Array) -> Array:
        return np.array([w @ self.loss(offsets + at, targets)[1]])

    def _bound_null_intercept(self, sizes: "NullModelSizes") -> float:
        """Return a lower bound on the null model's intercept."""
        return -np.inf

    def start_means(self, targets: Array, mean: float) -> Array:
        """Return means half way from the targets to their mean, inside the range of the link."""
        return np.asarray(0.5 * (targets + mean))

    def bound_vanishing_loss(
        self, scores: Array, targets: Array, weights: Array | None, offsets: Array | None
    ) -> tuple[float, float]:
        """Return the logarithms of the loss of some rows at these scores, and of a lower bound on the loss.

        Unless all means can tend to zero together, the loss of all rows is above the bound for any
        coefficients. So if it is below the bound at these scores, it falls without end as all means tend to
        zero. Over shards, losses are added (`logaddexp`), and the least bound is taken. A response whose loss
        has no such bound returns ∞ and −∞.
        """
        return np.inf, -np.inf

    def margins(self, scores: Array, targets: Array) -> Array:
        """Return the margin of each row (n,): the score of its own class minus the next best score.

        Along a direction whose margins are all at least 0 the loss never rises. Responses without classes
        return −|score|.
        """
        return -np.abs(scores)

    def remaining_information(self, scores: Array) -> Array:
        """Return the approximate information of each row (n,) relative to the largest possible.

        Responses without classes return 1.
        """
        return np.ones(len(scores))

    # ── several scores per row, and the parameters that they depend on ──

    @property
    def outputs(self) -> int:
        """The number of scores per row."""
        return 1

    @property
    def contrasts(self) -> Array:
        """A matrix (outputs, m): times m rows of parameters, it is the coefficients of the outputs."""
        return np.eye(1)

    def expand(self, parameters: Array, width: int) -> Array:
        """Convert parameters (D,) to coefficients of the outputs (outputs, width), or (width,) for one."""
        return parameters

    def reduce_gradient(self, gradient: Array) -> Array:
        """Convert a gradient by the coefficients of the outputs to one by the parameters (D,)."""
        return gradient

    def reduce_matrix(self, matrix: Array) -> Array:
        """Convert a Hessian by the coefficients of the outputs to one by the parameters (D, D)."""
        return matrix

    def block_information(
        self, block: Block, scores: Array, targets: Array, weights: Array | None, observed: bool
    ) -> Array:
        """Return a block's information, or its Hessian if `observed`, by the coefficients of the outputs."""
        values = self.second_derivative(scores, targets) if observed else self.information(scores)
        return block.gram(values if weights is None else values * weights)

    def block_diagonal(self, block: Block, scores: Array, weights: Array | None) -> Array:
        """Return the diagonal of the information of a block of rows, by the parameters (D,)."""
        values = self.information(scores)
        return block.squares(values if weights is None else values * weights)

    def information_operator(self, scores: Array, weights: Array) -> Operator:
        """Make a function of (rows, changes of their scores), which returns the changes of derivatives.

        It multiplies the changes by the information of the rows, in place. `scores` and `weights` are of all
        rows.
        """
        information = weights * self.information(scores)

        def multiply(rows: slice, changes: Array) -> Array:
            changes *= information[rows]
            return changes

        return multiply

    def row_information(self, scores: Array) -> Array:
        """Return the information (m, m) of one row with these scores (outputs,)."""
        return self.information(scores).reshape(1, 1)

    def information_change(self, before: Array, after: Array) -> float:
        """Bound the relative change of any row's information between two sets of scores."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            first, second = self.information(before), self.information(after)
            return float(np.where(first == second, 0.0, np.abs(second - first) / first).max(initial=0.0))

    def score_differences(self, parameters: Array, width: int) -> Array:
        """Return the coefficients (pairs, width) of all differences of scores that the loss depends on."""
        return parameters[None]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.outputs == other.outputs

    def __hash__(self) -> int:
        return hash((type(self), self.outputs))


def find_root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Find the zero of a rising function between two points, by Brent's method."""
    return float(brentq(rising, low, high, xtol=1e-13 * (1.0 + abs(low) + abs(high)), rtol=1e-14))


def leave_out_scores(
    response: Response, scores: Array, targets: Array, weights: Array, variances: Array
) -> tuple[Array, Array]:
    """Return the score and its variance of each row (n,) by the model without it, after one Newton step."""
    derivatives = response.loss(scores, targets)[1]
    remaining = np.maximum(1.0 - weights * response.information(scores) * variances, 1e-12)
    return scores + weights * derivatives * variances / remaining, variances / remaining
