"""Rows and a Gaussian prior → the negative log-posterior of a linear model, its gradient and its Hessian.

The parameters are one vector (D,): the rows of a parameter matrix (m, width), one after another. Each has the
coefficients of p columns and, if there is one, the intercept (last), so that the width is p or p + 1. For a
response with one output (one score per row of data), m is 1. Softmax has K scores, but adding a number to all
of them changes no probability: so m is K − 1, for as many contrasts, which are sums of the scores with
weights that add up to 0. `expand` converts parameters to the coefficients of the outputs.

Rows of data are read in blocks of consecutive rows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.linear.design import Design, RowBlock
from tamis.models.linear.responses import Response
from tamis.protocols import Shards, Statistic

S = TypeVar("S", bound=Statistic)

# The prior of a parameter counts as flat if its precision is below _WEAK, and at most _NEGLIGIBLE times the
# sum of squares of its column: in a sum of the two it would be lost in rounding.
_WEAK, _NEGLIGIBLE = 1e-8, 1e-14
# The golden ratio minus 1: fractional parts of its multiples are evenly distributed (Weyl's sequence).
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
SAMPLE = 8192  # the least number of rows in the sample whose Hessian approximates that of all rows
_PER_PARAMETER = 8  # the least number of these rows per parameter


@dataclass(frozen=True, slots=True, eq=False)
class LinearRows:
    """The rows of a linear model: features, targets, weights and offsets."""

    design: Design
    targets: Array  # (n,)
    weights: Array | None = None  # (n,)
    offsets: Array | None = None  # (n,)
    number: int = 0  # the number of the shard (part of the data) to which the rows belong

    @property
    def shards(self) -> "Iterable[LinearRows] | Shards[LinearRows]":
        """The shards in which the rows are observed; rows in memory are one."""
        return (self,)

    @property
    def prefers_few_passes(self) -> bool:
        """Whether reading all rows takes longer than computing with them, as with rows in shards."""
        return False

    def total(self, observe: "Callable[[LinearRows], S]") -> S:
        """Observe the rows; a subclass with rows in shards observes each shard and adds the results."""
        return observe(self)

    def map(self, change: "Callable[[LinearRows], LinearRows]") -> "LinearRows":
        """Return `change(rows)`; `change` may replace targets, weights and offsets."""
        return change(self)

    def find_null_intercept(self, response: Response) -> float:
        """Return the maximum-likelihood intercept of the null model, which has no other parameter."""
        return response.intercept(self.targets, self.weights, self.offsets)

    def make_objective(self, response: Response, prior: "GaussianPrior") -> "Objective":
        """Make the objective that Newton's method minimises for these rows."""
        return Objective(self.design, self.targets, response, prior, self.weights, self.offsets)

    @property
    def mean_target(self) -> float:
        """The weighted mean of the targets."""
        return float(np.average(self.targets, weights=self.weights))

    @property
    def target_range(self) -> tuple[float, float]:
        """The least and the largest target."""
        return float(self.targets.min()), float(self.targets.max())

    @property
    def mean_weight(self) -> float:
        """The mean weight of rows with a weight above 0; 1 without weights."""
        if self.weights is None or not self.weights.any():
            return 1.0
        return float(np.mean(self.weights, where=self.weights > 0))

    def divide_weights(self, unit: float) -> "LinearRows":
        """Return the rows with weights divided by `unit`; rows without weights are returned as they are."""
        return replace(self, weights=None if self.weights is None else self.weights / unit)

    def count_weighted_rows(self) -> int:
        """Return the number of rows with a weight above 0."""
        return len(self.design) if self.weights is None else int(np.count_nonzero(self.weights > 0))

    def find_least_relative_weight(self) -> float:
        """Return the smallest weight above 0, divided by the total weight."""
        if self.weights is None:
            return 1.0 / len(self.design)
        return float(self.weights[self.weights > 0].min() / self.weights.sum())

    def count_classes(self, classes: int) -> Array:
        """Return the weight of each class (classes,), where targets are indices of classes."""
        return np.bincount(self.targets.astype(np.intp), self.weights, classes).astype(np.float64)

    @property
    def weight(self) -> float:
        """The total weight of all rows."""
        return float(len(self.design)) if self.weights is None else float(self.weights.sum())

    def take(self, rows: NDArray[np.int64]) -> "LinearRows":
        """Select rows."""
        return LinearRows(
            self.design.take(rows),
            self.targets[rows],
            None if self.weights is None else self.weights[rows],
            None if self.offsets is None else self.offsets[rows],
            self.number,
        )

    def scores(self, parameters: Array) -> Array:
        """Return scores (n,) of a response with one output, with offsets added."""
        scores = self.design.scores(parameters)
        return scores if self.offsets is None else scores + self.offsets

    def null_scores(self, intercept: float) -> Array:
        """Return scores (n,) of the null model, which has an intercept and no coefficients."""
        return np.full(len(self.targets), intercept) if self.offsets is None else intercept + self.offsets

    def sum(self, values: Array) -> float:
        """Return Σ weight · value, for values (n,)."""
        return float(values.sum() if self.weights is None else self.weights @ values)


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPrior:
    """A Gaussian prior of the parameters; a precision of 0 is a flat prior."""

    mean: Array  # (D,)
    precision: Array  # (D, D), or (D,) if it is diagonal

    def loss(self, parameters: Array) -> tuple[float, Array]:
        """Return ½ (θ − m)ᵀ Λ (θ − m) and its gradient (D,), m being the mean and Λ the precision."""
        difference = parameters - self.mean
        gradient = self.precision * difference if self.precision.ndim == 1 else self.precision @ difference
        return 0.5 * float(difference @ gradient), gradient

    def add_to(self, matrix: Array) -> Array:
        """Return the precision plus a matrix (D, D)."""
        if self.precision.ndim == 2:
            return np.asarray(matrix + self.precision)
        total = matrix.copy()
        total[np.diag_indices_from(total)] += self.precision
        return total

    @property
    def diagonal(self) -> Array:
        """The diagonal of the precision (D,)."""
        return self.precision if self.precision.ndim == 1 else np.diagonal(self.precision)


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """The negative log-posterior, which Newton's method minimises."""

    design: Design
    targets: Array  # (n,): numbers, or indices of classes
    response: Response
    prior: GaussianPrior
    weights: Array | None = None  # (n,)
    offsets: Array | None = None  # (n,)

    @classmethod
    def of(cls, rows: LinearRows, response: Response, prior: GaussianPrior) -> "Objective":
        """Return the negative log-posterior of these rows."""
        return rows.make_objective(response, prior)

    @property
    def rows(self) -> LinearRows:
        """The rows over which the objective is a sum."""
        return LinearRows(self.design, self.targets, self.weights, self.offsets)

    @property
    def size(self) -> int:
        """The number D of parameters."""
        return len(self.prior.mean)

    def expand(self, parameters: Array) -> Array:
        """Convert parameters (D,) to coefficients (outputs, width), or (width,) if there is one output."""
        return self.response.expand(parameters, self.design.width)

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Return the loss of all rows and of the prior, and its gradient (D,).

        The loss is ∞ if it overflows, or if a score gives no mean, such as 0 with the inverse link; the
        gradient is of no use then.
        """
        loss, gradient = self.row_loss(parameters)
        prior_loss, prior_gradient = self.prior.loss(parameters)
        value = prior_loss + loss
        return (value if np.isfinite(value) else np.inf), gradient + prior_gradient

    def row_loss(self, parameters: Array) -> tuple[float, Array]:
        """Return what `value_and_gradient` does, without the prior."""
        coefficients = self.expand(parameters)

        def sum_lane(blocks: Iterator[RowBlock]) -> tuple[float, Array]:
            total, gradient = 0.0, np.zeros(coefficients.shape)
            for block in blocks:
                loss, derivatives = self._block_loss(block, coefficients)
                if not np.isfinite(loss):  # no gradient is needed
                    return np.inf, gradient
                total += loss
                with np.errstate(over="ignore", invalid="ignore"):
                    gradient += block.gradient(derivatives)
            return total, gradient

        losses, gradients = zip(*self.design.map_lanes(sum_lane), strict=True)
        with np.errstate(invalid="ignore"):
            loss = sum(losses)
            # The sum is the derivative by the coefficients of the outputs, not by the parameters.
            gradient = self.response.reduce_gradient(reduce(add, gradients))
        return (loss if np.isfinite(loss) else np.inf), gradient

    def _block_loss(self, block: RowBlock, coefficients: Array) -> tuple[float, Array]:
        """Return the weighted loss of the rows of a block, and its derivatives by their scores."""
        scores = self._block_scores(block, coefficients)
        with np.errstate(over="ignore", invalid="ignore"):
            losses, derivatives = self.response.loss(scores, self.targets[block.rows])
            if self.weights is None:
                return float(losses.sum()), derivatives
            weights = self.weights[block.rows]
            factors = weights if derivatives.ndim == 1 else weights[:, None]
            return float(weights @ losses), derivatives * factors

    def _block_scores(self, block: RowBlock, coefficients: Array) -> Array:
        """Return the scores of the rows of a block, with offsets added."""
        scores = block.scores(coefficients)
        if self.offsets is not None:
            scores += self.offsets[block.rows] if scores.ndim == 1 else self.offsets[block.rows, None]
        return scores

    def scores(self, parameters: Array) -> Array:
        """Return the scores of all rows, (n,) or (n, outputs), with offsets added."""
        coefficients = self.expand(parameters)
        return np.concatenate(self.design.map_blocks(lambda block: self._block_scores(block, coefficients)))

    def information(self, parameters: Array, observed: bool = False) -> Array:
        """Return the rows' Fisher information (D, D), without the prior.

        If `observed`, return the Hessian of their loss instead, which is the observed information.
        """
        coefficients = self.expand(parameters)

        def compute_information(block: RowBlock) -> Array:
            scores, targets = self._block_scores(block, coefficients), self.targets[block.rows]
            weights = None if self.weights is None else self.weights[block.rows]
            return self.response.block_information(block, scores, targets, weights, observed)

        matrix = self._sum_blocks((coefficients.size, coefficients.size), compute_information)
        # The sum is by the coefficients of the outputs, not by the parameters.
        return self.response.reduce_matrix(matrix)

    def information_diagonal(self, parameters: Array) -> Array:
        """Return the diagonal of the information of the rows (D,), without the prior."""
        coefficients = self.expand(parameters)

        def compute_diagonal(block: RowBlock) -> Array:
            weights = None if self.weights is None else self.weights[block.rows]
            return self.response.block_diagonal(block, self._block_scores(block, coefficients), weights)

        return self._sum_blocks((self.size,), compute_diagonal)

    def _sum_blocks(self, shape: tuple[int, ...], work: Callable[[RowBlock], Array]) -> Array:
        """Sum an array of this shape over all blocks of rows: first within each lane, then over the lanes."""

        def sum_lane(blocks: Iterator[RowBlock]) -> Array:
            total = np.zeros(shape)
            for block in blocks:
                total += work(block)
            return total

        return reduce(add, self.design.map_lanes(sum_lane))

    def information_product(self, parameters: Array) -> Callable[[Array], Array]:
        """Return a function that multiplies a vector (D,) by the sum of information and prior precision.

        The information is that at `parameters`. A product takes one pass over the rows, and needs no matrix.
        """
        scores = self.scores(parameters)
        weights = np.ones(len(scores)) if self.weights is None else self.weights
        operator = self.response.information_operator(scores, weights)

        def multiply(vector: Array) -> Array:
            coefficients = self.expand(vector)
            product = self._sum_blocks(
                coefficients.shape,
                lambda block: block.gradient(operator(block.rows, block.scores(coefficients))),
            )
            # The gradient of the prior's loss at this point is the precision times the vector.
            _, prior_product = self.prior.loss(vector + self.prior.mean)
            return self.response.reduce_gradient(product) + prior_product

        return multiply

    def bound_information_change(self, before: Array, after: Array) -> float:
        """Return an upper bound on the relative change of any row's information between two points (D,).

        It is relative to the information at `before`. It also bounds the relative change of the sum over rows
        in any direction; a small change changes standard errors by about half as much.
        """
        return self.response.bound_information_change(self.scores(before), self.scores(after))

    def gram(self) -> Array:
        """Return Σ weight · x xᵀ (width, width), x being a row of the design."""
        weights = np.ones(len(self.design)) if self.weights is None else self.weights
        return self._sum_blocks((self.design.width,) * 2, lambda block: block.gram(weights[block.rows]))

    def mask_flat_priors(self) -> NDArray[np.bool_]:
        """Return a mask (D,) of the parameters without a prior, or with one that counts as flat."""
        precision = self.prior.diagonal
        weak = precision < _WEAK
        if not precision[weak].any():
            return weak
        squares = self.column_squares()
        limits = _NEGLIGIBLE * np.tile(squares, len(precision) // len(squares))
        return np.asarray(weak & (precision <= limits))

    def column_squares(self) -> Array:
        """Return Σ weight · x² of each column (width,)."""
        weights = np.ones(len(self.design)) if self.weights is None else self.weights
        return self._sum_blocks((self.design.width,), lambda block: block.column_squares(weights[block.rows]))

    def find_margin_range(self, direction: Array) -> tuple[float, float]:
        """Return the smallest and the largest margin of rows at the parameters `direction` (D,).

        A margin is the score of the row's class minus the next best; offsets are not added. It is −|score| if
        the response has no classes, or if the target is not a class but a fraction. Rows without weight are
        ignored; without any other rows, the range is (∞, −∞).
        """
        margins = self._drop_weightless(
            self.response.margins(self.design.scores(self.expand(direction)), self.targets)
        )
        return float(margins.min(initial=np.inf)), float(margins.max(initial=-np.inf))

    def find_least_information(self, parameters: Array) -> float:
        """Return about the least information of a row with weight, as a fraction of that at scores of 0.

        It is 1 for responses without classes, and ∞ if no row has weight.
        """
        fractions = self.response.relative_information(self.scores(parameters))
        return float(self._drop_weightless(fractions).min(initial=np.inf))

    def _drop_weightless(self, values: Array) -> Array:
        return values if self.weights is None else values[self.weights > 0]

    def mask_coefficients(self) -> NDArray[np.bool_]:
        """Return a mask (D,) of the parameters that are coefficients, not intercepts."""
        mask = np.ones((self.size // self.design.width, self.design.width), dtype=np.bool_)
        mask[:, self.design.columns :] = False
        return mask.ravel()

    def has_prior_on_all_coefficients(self) -> bool:
        """Return whether no coefficient has a flat prior."""
        return not self.mask_flat_priors()[self.mask_coefficients()].any()

    def sample(self) -> "Objective | None":
        """Return the objective of a sample of rows, weighted to represent all.

        None if there are less than twice as many rows as a sample has.
        """
        n = len(self.design)
        indices = choose_sample(n, self.size)
        if indices is None:
            return None
        rows = self.rows.take(indices)
        factor = n / len(rows.design)
        weights = np.full(len(rows.design), factor) if rows.weights is None else factor * rows.weights
        return replace(rows, weights=weights).make_objective(self.response, self.prior)


def choose_sample(rows: int, size: int) -> NDArray[np.int64] | None:
    """Choose a sample of the rows for a model of `size` parameters: evenly spread, but not periodic, indices.

    None if there are less than twice as many rows as a sample has.
    """
    count = max(SAMPLE, _PER_PARAMETER * size)
    if rows < 2 * count:
        return None
    return np.unique((rows * (np.arange(count) * _GOLDEN % 1.0)).astype(np.int64))


def bound_score_change(step: Array, reach: float, extent: Array, response: Response) -> float:
    """Return an upper bound on the change of a row's score by a step of the parameters (D,).

    With more than two classes it bounds the change of the difference of any two scores. `reach` is the
    largest norm of a row, and `extent` (width,) the largest magnitude in each column.
    """
    # Coefficients (pairs, width) of the difference of each pair of scores, or of the only score.
    differences = response.difference_coefficients(step, len(extent))
    by_norms = reach * np.linalg.norm(differences, axis=-1).max()  # the Cauchy–Schwarz inequality
    by_columns = (np.abs(differences) @ extent).max()
    return min(float(by_norms), float(by_columns))
