"""A design, targets and a Gaussian prior → minus the log-posterior, its slope and its curvature.

The parameters are one vector: for each output its coefficients, its intercept last. A response with one
output has one row of them; softmax has a row for each contrast of classes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.linear.design import Block, Design
from tamis.models.linear.responses import Response

_LEAST_SQUARES = 1e-16  # of targets in a unit that suits them: below, residuals have few digits left
_WEAK = 1e-8  # a prior precision that is at least this is taken for one without a look at the rows …
_ROUNDED = 1e-14  # … and a smaller one is lost if it is less than this share of a column's squares
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPrior:
    """A belief in the parameters: precisions of each, or of all together; 0 is flat."""

    mean: Array  # (D,)
    precision: Array  # (D,) or (D, D)

    def loss(self, parameters: Array) -> tuple[float, Array]:
        """½ (θ − m)ᵀ Λ (θ − m) and its slope."""
        apart = parameters - self.mean
        slope = self.precision * apart if self.precision.ndim == 1 else self.precision @ apart
        return 0.5 * float(apart @ slope), slope

    def added_to(self, matrix: Array) -> Array:
        """Λ + matrix (D, D)."""
        if self.precision.ndim == 2:
            return np.asarray(matrix + self.precision)
        found = matrix.copy()
        found[np.diag_indices_from(found)] += self.precision
        return found

    @property
    def diagonal(self) -> Array:
        """The precision of each parameter by itself (D,)."""
        return self.precision if self.precision.ndim == 1 else np.diagonal(self.precision)


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """What Newton's method brings down."""

    design: Design
    targets: Array  # (n,): numbers, or of softmax the places of classes
    response: Response
    prior: GaussianPrior
    weights: Array | None = None  # (n,)
    offsets: Array | None = None  # (n,)

    @property
    def size(self) -> int:
        """D."""
        return len(self.prior.mean)

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """The loss of all rows and of the prior, and its gradient (D,); ∞ outside the link's range."""
        full = self.expand(parameters)

        def lane(blocks: Iterator[Block]) -> tuple[float, Array]:
            loss, gradient = 0.0, np.zeros(full.shape)
            for block in blocks:
                losses, slopes = self._losses(block, full)
                if not np.isfinite(losses):  # outside the link's range, where no slope is asked for
                    return np.inf, gradient
                loss += losses
                with np.errstate(over="ignore", invalid="ignore"):
                    gradient += block.gradient(slopes)
            return loss, gradient

        parts = self.design.in_lanes(lane)
        value, slope = self.prior.loss(parameters)
        with np.errstate(invalid="ignore"):
            value += sum(loss for loss, _ in parts)
            gradient = self.response.reduce_gradient(reduce(add, (part for _, part in parts)))
        return (value if np.isfinite(value) else np.inf), gradient + slope

    def _losses(self, block: Block, full: Array) -> tuple[float, Array]:
        scores = self._scores(block, full)
        with np.errstate(over="ignore", invalid="ignore"):
            losses, slopes = self.response.loss(scores, self.targets[block.rows])
            if self.weights is None:
                return float(losses.sum()), slopes
            weights = self.weights[block.rows]
            return float(weights @ losses), slopes * (weights if slopes.ndim == 1 else weights[:, None])

    def _scores(self, block: Block, full: Array) -> Array:
        scores = block.scores(full)
        if self.offsets is not None:
            scores += self.offsets[block.rows] if scores.ndim == 1 else self.offsets[block.rows, None]
        return scores

    def scores(self, parameters: Array) -> Array:
        """Of all rows, (n,) or (n, outputs), their offsets added."""
        full = self.expand(parameters)
        parts = self.design.in_lanes(lambda blocks: [self._scores(block, full) for block in blocks])
        return np.concatenate([block for part in parts for block in part])

    def curvature(self, parameters: Array, observed: bool = False) -> Array:
        """Fisher's information of the rows (D, D), without the prior; with `observed`, their Hessian."""
        full = self.expand(parameters)

        def lane(blocks: Iterator[Block]) -> Array:
            matrix = np.zeros((full.size, full.size))
            for block in blocks:
                scores, targets = self._scores(block, full), self.targets[block.rows]
                weights = None if self.weights is None else self.weights[block.rows]
                matrix += self.response.block_information(block, scores, targets, weights, observed)
            return matrix

        return self.response.reduce_matrix(reduce(add, self.design.in_lanes(lane)))

    def resolution(self, value: float) -> float:
        """What changes of the objective are measured against: 1, or the value where that is larger.

        Normal targets leave squares, which are in no unit of log-likelihood: their sum is the measure.
        """
        return max(_LEAST_SQUARES if self.response.targets_have_unit else 1.0, abs(value))

    def information_change(self, before: Array, after: Array) -> float:
        """The largest relative change of a row's information between two points, at most.

        Information as a whole changes by no larger share in any direction, and standard errors by half of it.
        """
        return self.response.information_change(self.scores(before), self.scores(after))

    def flat(self) -> NDArray[np.bool_]:
        """Which parameters (D,) have no prior, or one so weak that rounding the rows' sums loses it."""
        own = self.prior.diagonal
        weak = own < _WEAK
        if not own[weak].any():
            return weak
        squares = self._squares(np.ones(len(self.design)) if self.weights is None else self.weights)
        return np.asarray(own <= _ROUNDED * np.tile(squares, len(own) // len(squares)))

    def _squares(self, weights: Array) -> Array:
        """Σ weight · x² of each column (width,)."""
        parts = self.design.in_lanes(
            lambda blocks: sum((block.squares(weights[block.rows]) for block in blocks), np.zeros(()))
        )
        return reduce(add, parts)

    def gram(self) -> Array:
        """Σ weight · row rowᵀ (width, width)."""
        design = self.design
        weights = np.ones(len(design)) if self.weights is None else self.weights

        def lane(blocks: Iterator[Block]) -> Array:
            found = np.zeros((design.width, design.width))
            for block in blocks:
                found += block.gram(weights[block.rows])
            return found

        return reduce(add, design.in_lanes(lane))

    def product(self, parameters: Array) -> Callable[[Array], Array]:
        """What multiplies vectors (D,) by the information at a point, the prior's part added.

        It takes two passes over the rows per product, and no matrix.
        """
        scores = self.scores(parameters)
        weights = np.ones(len(scores)) if self.weights is None else self.weights
        operator = self.response.information_operator(scores, weights)

        def multiply(vector: Array) -> Array:
            full = self.expand(vector)

            def lane(blocks: Iterator[Block]) -> Array:
                product = np.zeros(full.shape)
                for block in blocks:
                    product += block.gradient(operator(block.rows, block.scores(full)))
                return product

            pull = self.prior.loss(vector + self.prior.mean)[1]
            return self.response.reduce_gradient(reduce(add, self.design.in_lanes(lane))) + pull

        return multiply

    def diagonal(self, parameters: Array) -> Array:
        """The diagonal of the information of the rows (D,), without the prior."""
        full = self.expand(parameters)

        def lane(blocks: Iterator[Block]) -> Array:
            diagonal = np.zeros(self.size)
            for block in blocks:
                weights = None if self.weights is None else self.weights[block.rows]
                diagonal += self.response.block_diagonal(block, self._scores(block, full), weights)
            return diagonal

        return reduce(add, self.design.in_lanes(lane))

    def expand(self, parameters: Array) -> Array:
        """Coefficients of each output (outputs, width), or (width,) of the only one."""
        return self.response.expand(parameters, self.design.width)

    def sample(self, count: int) -> "Objective":
        """Some of the rows, standing for all: spread evenly, and without a period that theirs could match."""
        n = len(self.design)
        rows = np.unique((n * (np.arange(count) * _GOLDEN % 1.0)).astype(np.int64))
        design = self.design.take(rows)
        share = len(self.design) / len(design)
        weights = np.full(len(design), share) if self.weights is None else share * self.weights[rows]
        return replace(
            self,
            design=design,
            targets=self.targets[rows],
            weights=weights,
            offsets=None if self.offsets is None else self.offsets[rows],
        )
