"""Responses whose targets are classes: Bernoulli for two classes, and softmax for any number.

Softmax has one score per class, but only differences of scores matter. So it has K − 1 vectors of parameters,
one per contrast: a weighted sum of the classes' scores whose weights add up to zero. The coefficients of the
classes follow from these vectors, and add up to zero in each column. With a Gaussian prior of mean 0 and one
precision for all classes, the mode is the same as with parameters for each class.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.linalg import helmert

from tamis.arrays import Array
from tamis.models.linear.design import RowBlock
from tamis.models.linear.responses.response import ALL_ZERO, Operator, Response, leave_out_scores
from tamis.tables import runs

_CELLS = 1 << 21  # the largest rows · classes · columns that `Softmax.block_information` multiplies at a time
# The logistic function σ(a) is nearly Φ(a √(π/8)), where Φ is the standard normal distribution function
# (MacKay 1992; Bishop 2006, section 4.5.2).
_PROBIT = np.pi / 8.0


class ClassResponse(Response):
    """The base class of responses whose targets are classes, by their index.

    The methods that `Response` does not have take scores (n, outputs), also if there is only one output.
    """

    has_classes = True

    @property
    @abstractmethod
    def classes(self) -> int:
        """The number K of classes."""

    @property
    @abstractmethod
    def class_contrasts(self) -> Array:
        """A matrix (K, m), m being the number of contrasts: the weights of the classes in each.

        Its transpose times the log-probabilities of the classes (K,) is the intercept of each contrast.
        """

    @abstractmethod
    def class_scores(self, scores: Array) -> Array:
        """Return a score for every class (n, K); differences of two of them are log-odds."""

    @abstractmethod
    def probabilities(self, scores: Array) -> Array:
        """Return p(class) (n, K)."""

    @abstractmethod
    def log_probabilities(self, scores: Array) -> Array:
        """Return log p(class) (n, K)."""

    @abstractmethod
    def average_probabilities(self, scores: Array, covariances: Array) -> Array:
        """Return p(class) (n, K), averaged approximately over scores with a Gaussian distribution.

        `covariances` are those of the scores (n, K, K), or the variances (n,) of a single output. The
        approximation is MacKay's (1992), for each pair of classes.
        """

    @abstractmethod
    def leave_out(self, scores: Array, targets: Array, weights: Array, covariances: Array) -> Array:
        """Return the scores of each row (n, outputs) by the model of all other rows, after one Newton step.

        The other arguments are as in `average_probabilities` and by the model of all rows.
        """


class Bernoulli(ClassResponse):
    """Two classes: p(1) is the logistic function of the score.

    A target is a class, 0 or 1, or the fraction of successes among several trials.
    """

    family = "bernoulli"
    link = "logit"
    allowed_targets = "0, 1, or a fraction between them"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        tail = np.exp(-np.abs(scores))
        losses = np.log1p(tail)
        losses += np.maximum(scores, 0.0)
        losses -= targets * scores
        derivatives = np.where(scores >= 0, 1.0, tail)
        derivatives /= 1.0 + tail
        derivatives -= targets
        return losses, derivatives

    def information(self, scores: Array) -> Array:
        tail = np.exp(-np.abs(scores))
        return np.asarray(tail / np.square(1.0 + tail))

    def mean(self, scores: Array) -> Array:
        return np.asarray(special.expit(scores))

    def link_function(self, mean: Array) -> Array:
        return np.asarray(special.logit(mean))

    def variance(self, mean: Array) -> Array:
        return np.asarray(mean * (1.0 - mean))

    def deviance(self, mean: Array, targets: Array) -> Array:
        saturated = special.xlogy(targets, targets) + special.xlogy(1.0 - targets, 1.0 - targets)
        return np.asarray(2.0 * (saturated - self.log_likelihood(mean, targets, 1.0)))

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        return np.asarray(special.xlogy(targets, mean) + special.xlog1py(1.0 - targets, -mean))

    def deviance_by_score(self, scores: Array, targets: Array) -> Array:
        # Scores, not means, because 1 − p loses digits for p near 1.
        saturated = special.xlogy(targets, targets) + special.xlog1py(1.0 - targets, -targets)
        return np.asarray(2.0 * (self.loss(scores, targets)[0] + saturated))

    def log_likelihood_by_score(self, scores: Array, targets: Array, dispersion: float) -> Array:
        return -self.loss(scores, targets)[0]

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.asarray((targets >= 0) & (targets <= 1))

    def refuse_unbounded_intercept(self, least: float, largest: float, mean: float, has_prior: bool) -> None:
        if not has_prior and least == largest == 0:
            raise ValueError(ALL_ZERO)
        if not has_prior and least == largest == 1:
            raise ValueError(
                "all targets are 1, so that the likelihood rises for ever with the intercept, expected some "
                "below 1: set intercept_alpha above 0, or collect more rows"
            )

    @property
    def classes(self) -> int:
        return 2

    @property
    def class_contrasts(self) -> Array:
        return np.array([[-1.0], [1.0]])

    def class_scores(self, scores: Array) -> Array:
        return np.hstack([np.zeros_like(scores), scores])

    def probabilities(self, scores: Array) -> Array:
        return np.asarray(special.expit(np.hstack([-scores, scores])))

    def log_probabilities(self, scores: Array) -> Array:
        return np.asarray(special.log_expit(np.hstack([-scores, scores])))

    def average_probabilities(self, scores: Array, covariances: Array) -> Array:
        return self.probabilities(average_log_odds(scores[:, 0], covariances)[:, None])

    def margins(self, scores: Array, targets: Array) -> Array:
        margins = (2.0 * targets - 1.0) * scores  # for targets 0 and 1
        return np.where((targets == 0.0) | (targets == 1.0), margins, -np.abs(scores))

    def relative_information(self, scores: Array) -> Array:
        return 4.0 * self.information(scores)  # which is ¼ at a score of 0

    def leave_out(self, scores: Array, targets: Array, weights: Array, covariances: Array) -> Array:
        left_out, _variances = leave_out_scores(self, scores[:, 0], targets, weights, covariances)
        return left_out[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Softmax(ClassResponse):
    """K classes: p(class) is the softmax of K scores, one per class."""

    basis: Array  # (K, K − 1): the contrasts, orthonormal columns that sum to zero

    family = "categorical"
    link = "softmax"
    allowed_targets = "indices of classes"

    @classmethod
    def of(cls, classes: int) -> "Softmax":
        """Return the response for this number of classes."""
        return cls(np.ascontiguousarray(helmert(classes).T))

    @property
    def classes(self) -> int:
        return len(self.basis)

    @property
    def outputs(self) -> int:
        return len(self.basis)

    @property
    def expansion(self) -> Array:
        return self.basis

    @property
    def class_contrasts(self) -> Array:
        return self.basis

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """Return −log p(own class) of each row (n,), and its derivative by the score of each class (n, K)."""
        own_class = (np.arange(len(scores)), targets.astype(np.intp))
        p = scores - scores.max(axis=1, keepdims=True)
        losses = -p[own_class]
        np.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        losses += np.log(total[:, 0])
        p /= total
        p[own_class] -= 1.0
        return losses, p

    def information(self, scores: Array) -> Array:
        """Return diag p − p pᵀ of each row (n, K, K)."""
        p = self.probabilities(scores)
        return np.asarray(p[:, :, None] * np.eye(self.classes) - p[:, :, None] * p[:, None])

    def mean(self, scores: Array) -> Array:
        return self.probabilities(scores)

    def link_function(self, mean: Array) -> Array:
        logs = np.log(mean)
        return np.asarray(logs - logs.mean(axis=-1, keepdims=True))

    def variance(self, mean: Array) -> Array:
        return np.asarray(mean * (1.0 - mean))

    def deviance(self, mean: Array, targets: Array) -> Array:
        return -2.0 * self.log_likelihood(mean, targets, 1.0)

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        return np.asarray(np.log(mean[np.arange(len(mean)), targets.astype(np.intp)]))

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.isin(targets, np.arange(self.classes))

    def class_scores(self, scores: Array) -> Array:
        return scores

    def probabilities(self, scores: Array) -> Array:
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return np.asarray(p)

    def log_probabilities(self, scores: Array) -> Array:
        return np.asarray(special.log_softmax(scores, axis=1))

    def average_probabilities(self, scores: Array, covariances: Array) -> Array:
        return average_softmax(scores, covariances)

    def margins(self, scores: Array, targets: Array) -> Array:
        own_class = (np.arange(len(scores)), targets.astype(np.intp))
        others = scores.copy()
        others[own_class] = -np.inf
        return np.asarray(scores[own_class] - others.max(axis=1))

    def relative_information(self, scores: Array) -> Array:
        # At scores of 0 it is 1 − 1/K, which is near enough to 1: see `Response`.
        return np.asarray(1.0 - self.probabilities(scores).max(axis=1))

    def leave_out(self, scores: Array, targets: Array, weights: Array, covariances: Array) -> Array:
        derivatives = weights[:, None] * self.loss(scores, targets)[1]
        information = weights[:, None, None] * self.information(scores)
        step = np.einsum("nkl,nl->nk", covariances, derivatives)  # if the information did not change
        remaining = np.eye(self.classes) - covariances @ information
        return np.asarray(scores + np.linalg.solve(remaining, step[..., None])[..., 0])

    def expand(self, parameters: Array, width: int) -> Array:
        return np.asarray(self.basis @ parameters.reshape(-1, width))

    def reduce_gradient(self, gradient: Array) -> Array:
        return np.asarray(self.basis.T @ gradient).ravel()

    def reduce_matrix(self, matrix: Array) -> Array:
        classes = self.classes
        width = len(matrix) // classes
        by_class = matrix.reshape(classes, width, classes, width)
        reduced = np.einsum("ka,kilj,lb->aibj", self.basis, by_class, self.basis, optimize=True)
        return np.ascontiguousarray(reduced.reshape((classes - 1) * width, -1))

    def block_information(
        self, block: RowBlock, scores: Array, targets: Array, weights: Array | None, observed: bool
    ) -> Array:
        """Return Σ weight · (diag p − p pᵀ) ⊗ x xᵀ over the rows (K · width, K · width).

        The softmax is canonical, so that the observed and the expected information are equal.
        """
        p, width = self.probabilities(scores), block.width
        matrix = np.zeros((self.classes * width,) * 2)
        for part in runs(len(p), self.classes * width, _CELLS):
            rows = block.dense(part)
            if weights is not None:
                rows = rows * np.sqrt(weights[part])[:, None]
            stacked = (p[part, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            matrix -= stacked.T @ stacked
            for number in range(self.classes):
                at = slice(number * width, (number + 1) * width)
                matrix[at, at] += rows.T @ stacked[:, at]
        return matrix

    def block_diagonal(self, block: RowBlock, scores: Array, weights: Array | None) -> Array:
        p = self.probabilities(scores)
        mean = p @ self.basis
        variances = p @ np.square(self.basis) - np.square(mean)  # (n, K − 1), of each contrast
        if weights is not None:
            variances *= weights[:, None]
        return np.concatenate(
            [block.column_squares(variance) for variance in np.ascontiguousarray(variances.T)]
        )

    def information_operator(self, scores: Array, weights: Array) -> Operator:
        """Make a function that multiplies changes of scores by weight and information of their rows."""
        probabilities = self.probabilities(scores)

        def multiply(rows: slice, changes: Array) -> Array:
            p = probabilities[rows]
            changes -= (p * changes).sum(axis=1, keepdims=True)
            changes *= p * weights[rows, None]
            return changes

        return multiply

    def row_information(self, scores: Array) -> Array:
        return np.asarray(self.basis.T @ self.information(scores[None])[0] @ self.basis)

    def bound_information_change(self, before: Array, after: Array) -> float:
        # If no difference of two scores changes by more than R, the information along any direction changes
        # by a factor from e^−R to e^R.
        changes = after - before
        with np.errstate(over="ignore"):
            return float(np.expm1((changes.max(axis=1) - changes.min(axis=1)).max(initial=0.0)))

    def difference_coefficients(self, parameters: Array, width: int) -> Array:
        rows = self.expand(parameters, width)
        return (rows[:, None] - rows[None]).reshape(-1, width)


def average_log_odds(scores: Array, variances: Array) -> Array:
    """Approximate the log-odds of E[σ(a)] for a ~ N(score, variance); σ is replaced by Φ: see `_PROBIT`."""
    return np.asarray(scores / np.sqrt(1.0 + _PROBIT * variances))


def average_softmax(scores: Array, covariances: Array) -> Array:
    """Approximate E[p(class)] (n, K) for Gaussian scores, by `average_log_odds` of all pairs of classes."""
    diagonal = np.einsum("nkk->nk", covariances)
    variances = diagonal[:, :, None] + diagonal[:, None, :] - 2.0 * covariances  # of differences of scores
    log_odds = average_log_odds(scores[:, None, :] - scores[:, :, None], np.maximum(variances, 0.0))
    largest = log_odds.max(axis=2, keepdims=True)
    log_sums = largest[..., 0] + np.log(np.exp(log_odds - largest).sum(axis=2))
    p = np.exp(-(log_sums - log_sums.min(axis=1, keepdims=True)))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
