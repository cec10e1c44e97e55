"""Linear scores and targets → losses, their derivatives and their information: one class per response.

A response is a family and its link. For each row it gives the loss −log p(y | η) up to terms that do not
depend on the score η, the derivative of the loss in η, the expected second derivative (Fisher's information)
and the observed one; with a canonical link these two are equal. All are for a dispersion of 1. Newton's steps
use the observed second derivative, which alone makes them converge quadratically; covariances use the
expected one, as statsmodels does.

Most responses have one score per row. Softmax has one score per class; only differences of scores matter, so
its parameters are those of K − 1 orthonormal contrasts, and the coefficients of the classes, which sum to
zero, are their image. A Gaussian prior with one precision for all classes has the same mode in both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.linalg import helmert
from scipy.optimize import brentq

from tamis.arrays import Array
from tamis.conjugate import NegativeBinomial, Normal, Univariate
from tamis.families import stirling
from tamis.models.linear.design import Block
from tamis.tables import runs

Family = Literal["bernoulli", "poisson", "gaussian", "gamma"]
Link = Literal["logit", "log", "identity", "inverse"]
Operator = Callable[[slice, Array], Array]

_LOG_TWO_PI = float(np.log(2.0 * np.pi))
_HUGE = 1e152  # the sum of squares of 10,000 such targets is still finite
_CELLS = 1 << 21  # of rows times probabilities, in memory at a time
_PROBIT = np.pi / 8.0  # σ(a) is nearly Φ(a √(π/8)): MacKay 1992
_TRIGAMMA_STEPS = 8  # Newton's steps to invert the trigamma function: five are enough


class Response(ABC):
    """The distribution of a row's target given its score; scores are (k,), or (k, outputs) for several."""

    family: ClassVar[str]
    link: ClassVar[str]
    allowed_targets: ClassVar[str] = "numbers"
    is_canonical: ClassVar[bool] = True  # whether the observed second derivative is the expected one
    is_decreasing: ClassVar[bool] = False  # whether the mean falls as the score rises
    has_classes: ClassVar[bool] = False  # whether targets are classes, which rows may separate
    has_dispersion: ClassVar[bool] = False  # whether the family has a dispersion of its own
    has_positive_targets: ClassVar[bool] = False
    takes_exposure: ClassVar[bool] = False  # whether an offset of log t multiplies the mean by t
    needs_all_rows: ClassVar[bool] = False  # whether a sample of the rows is no guide to the mode of all
    targets_have_unit: ClassVar[bool] = False  # whether losses are squares, in the unit of the targets
    scores_have_unit: ClassVar[bool] = False  # whether scores are in the unit of the targets
    is_profiled: ClassVar[bool] = False  # whether its log-likelihood is at the likeliest dispersion
    vanishing_targets: ClassVar[str | None] = None  # targets whose means may fall to zero without end
    vanishing_advice: ClassVar[str] = ""

    # ── losses ──

    @abstractmethod
    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its derivative in the score; ∞ outside the link's range."""

    @abstractmethod
    def information(self, scores: Array) -> Array:
        """The expected second derivative of the loss of each row."""

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        """The second derivative of the loss of each row; with a canonical link it does not depend on y."""
        return self.information(scores)

    # ── the distribution of targets ──

    @abstractmethod
    def mean(self, scores: Array) -> Array:
        """E[y]."""

    @abstractmethod
    def score(self, mean: Array) -> Array:
        """The link: the score of a mean."""

    @abstractmethod
    def variance(self, mean: Array) -> Array:
        """Var[y] for a dispersion of 1."""

    @abstractmethod
    def deviance(self, mean: Array, targets: Array) -> Array:
        """Twice the difference of log-likelihood between a perfect fit and this mean, dispersion 1."""

    @abstractmethod
    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        """log p(y) of each row, with all constants."""

    def deviances(self, scores: Array, targets: Array) -> Array:
        """The deviance of each row by its score."""
        with np.errstate(over="ignore"):
            return self.deviance(self.mean(scores), targets)

    def log_likelihoods(self, scores: Array, targets: Array, dispersion: float) -> Array:
        """log p(y) of each row by its score; NaN for an unknown dispersion, ∞ for a dispersion of 0."""
        if not dispersion > 0:
            return np.full(len(scores), np.inf if dispersion == 0 else np.nan)
        with np.errstate(over="ignore"):
            return self.log_likelihood(self.mean(scores), targets, dispersion)

    def squared_residuals(self, scores: Array, targets: Array) -> Array:
        """Pearson's (y − mean)²/variance of each row, dispersion 1: squared derivative over information."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            derivatives, information = self.loss(scores, targets)[1], self.information(scores)
            return np.where(derivatives == 0, 0.0, np.square(derivatives) / information)

    def likeliest_dispersion(self, mean_deviance: float) -> float:
        """The dispersion of greatest likelihood for rows of this mean deviance."""
        return max(mean_deviance, 0.0)

    def predict_distribution(self, scores: Array, variances: Array, dispersion: float) -> Univariate:
        """The next target of each row, with scores of these variances integrated out, if that is closed."""
        raise ValueError(
            f"the next target has no closed distribution for family={self.family!r}, "
            f"link={self.link!r} and dispersion {dispersion:g}: use mean_interval or "
            "sample_functions"
        )

    # ── which targets there can be ──

    @abstractmethod
    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        """Whether each target can occur."""

    def refuse_targets(self, targets: Array) -> None:
        """Raise if some target cannot occur, or if the largest is too large or too small to be squared."""
        allowed = self.is_allowed(targets)
        if not allowed.all():
            row = int(np.argmin(allowed))
            raise ValueError(
                f"target {row} is {targets[row]:g}, expected {self.allowed_targets}: "
                f"family={self.family!r} knows no others, drop that row or choose another family"
            )
        largest = float(np.abs(targets).max())
        if largest > _HUGE or 0 < largest < 1.0 / _HUGE:
            raise ValueError(
                f"the largest target is {largest:g}, expected {1.0 / _HUGE:g} to {_HUGE:g}, whose squares "
                "floats can hold: choose another unit"
            )

    def refuse_unbounded_intercept(self, targets: Array, weights: Array | None, has_prior: bool) -> None:
        """Raise if the likelihood rises for ever with the intercept, and no prior on it prevents that."""
        return

    # ── the model of an intercept alone, and where steps start ──

    def intercept(self, targets: Array, weights: Array | None = None, offsets: Array | None = None) -> float:
        """The intercept of greatest likelihood, were it the only parameter; −∞ or ∞ where there is none.

        >>> counts, hours = np.array([3.0, 5.0]), np.array([1.0, 3.0])
        >>> round(float(np.exp(Poisson().intercept(counts, offsets=np.log(hours)))), 6)
        2.0
        """
        w = np.ones(len(targets)) if weights is None else weights
        with np.errstate(divide="ignore"):
            if offsets is None:
                return float(self.score(np.array(float(w @ targets)) / float(w.sum())))
            return self._intercept_with_offsets(targets, w, offsets)

    def _intercept_with_offsets(self, targets: Array, w: Array, offsets: Array) -> float:
        least, most = float(offsets.min()), float(offsets.max())
        level = float(self.score(np.array(float(w @ targets) / float(w.sum()))))
        if not np.isfinite(level):
            return level
        pad = 1e-9 * (1.0 + abs(level) + most - least)
        low = max(level - most - pad, self._least_intercept(targets, w, offsets))
        high = level - least + pad
        return _find_root(lambda at: float(w @ self.loss(offsets + at, targets)[1]), low, high)

    def _least_intercept(self, targets: Array, w: Array, offsets: Array) -> float:
        return -np.inf

    def null_scores(
        self, targets: Array, weights: Array | None = None, offsets: Array | None = None
    ) -> Array:
        """Scores of the model of an intercept alone (n,)."""
        level = self.intercept(targets, weights, offsets)
        return np.full(len(targets), level) if offsets is None else level + offsets

    def start_means(self, targets: Array, mean: float) -> Array:
        """Means half way from the targets to their mean, inside the range of the link."""
        return np.asarray(0.5 * (targets + mean))

    def can_all_vanish(
        self, scores: Array, targets: Array, weights: Array | None, offsets: Array | None
    ) -> bool:
        """Whether these scores prove that the loss falls for ever as all means fall to zero."""
        return False

    def margins(self, scores: Array, targets: Array) -> Array:
        """By how much the score of each row's own class exceeds the next best (n,).

        Along a direction of non-negative margins the loss never rises; numbers have no such direction.
        """
        return -np.abs(scores)

    def remaining_information(self, scores: Array) -> Array:
        """The information of each row (n,) as a share of the largest, or nearly so; 1 for numbers."""
        return np.ones(len(scores))

    # ── several scores per row, and the parameters that they depend on ──

    @property
    def outputs(self) -> int:
        """The number of scores per row."""
        return 1

    @property
    def contrasts(self) -> Array:
        """(outputs, m): a row of coefficients per output is this times m rows of parameters."""
        return np.eye(1)

    def expand(self, parameters: Array, width: int) -> Array:
        """Parameters (D,) → coefficients of each output (outputs, width), or (width,) of the only one."""
        return parameters

    def reduce_gradient(self, gradient: Array) -> Array:
        """A gradient in the coefficients of the outputs → in the parameters (D,)."""
        return gradient

    def reduce_matrix(self, matrix: Array) -> Array:
        """A Hessian in the coefficients of the outputs → in the parameters (D, D)."""
        return matrix

    def block_information(
        self, block: Block, scores: Array, targets: Array, weights: Array | None, observed: bool
    ) -> Array:
        """The information of a block of rows, or their Hessian, in the coefficients of the outputs."""
        values = self.second_derivative(scores, targets) if observed else self.information(scores)
        return block.gram(values if weights is None else values * weights)

    def block_diagonal(self, block: Block, scores: Array, weights: Array | None) -> Array:
        """The diagonal of the information of a block of rows, in the parameters (D,)."""
        values = self.information(scores)
        return block.squares(values if weights is None else values * weights)

    def information_operator(self, scores: Array, weights: Array) -> Operator:
        """What multiplies changes of the scores of some rows by the information of these rows."""
        information = weights * self.information(scores)

        def multiply(rows: slice, changes: Array) -> Array:
            changes *= information[rows]
            return changes

        return multiply

    def level_information(self, level: Array) -> Array:
        """The information (m, m) of a row with these scores (outputs,)."""
        return self.information(level).reshape(1, 1)

    def information_change(self, before: Array, after: Array) -> float:
        """The largest relative change of a row's information between two sets of scores, at most."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            first, second = self.information(before), self.information(after)
            return float(np.where(first == second, 0.0, np.abs(second - first) / first).max(initial=0.0))

    def score_differences(self, parameters: Array, width: int) -> Array:
        """The coefficients (pairs, width) of all differences of scores that the loss depends on."""
        return parameters[None]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.outputs == cast(Response, other).outputs

    def __hash__(self) -> int:
        return hash((type(self), self.outputs))


def _find_root(rising: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(rising, low, high, xtol=1e-13 * (1.0 + abs(low) + abs(high)), rtol=1e-14))


# ── classes ──


class ClassResponse(Response):
    """Targets are places of K classes; scores here are (n, outputs), also where there is one output."""

    has_classes = True

    @property
    @abstractmethod
    def classes(self) -> int:
        """K."""

    @property
    @abstractmethod
    def class_contrasts(self) -> Array:
        """(K, m): scores of the m rows of parameters are the transpose of this times log-probabilities."""

    @abstractmethod
    def class_scores(self, scores: Array) -> Array:
        """Scores of every class (n, K), whose differences are log-odds."""

    @abstractmethod
    def probabilities(self, scores: Array) -> Array:
        """p(class), (n, K)."""

    @abstractmethod
    def log_probabilities(self, scores: Array) -> Array:
        """log p(class), (n, K)."""

    @abstractmethod
    def average_probabilities(self, scores: Array, covariances: Array) -> Array:
        """p(class), (n, K), averaged over Gaussian scores by MacKay's closed form.

        Covariances are (n,) variances of the only output, or (n, outputs, outputs).
        """

    @abstractmethod
    def leave_out(self, scores: Array, targets: Array, weights: Array, covariances: Array) -> Array:
        """Scores of each row (n, outputs) by the model without it, to one step of Newton's method."""


class Bernoulli(ClassResponse):
    """Two classes by the logistic function: softmax of 0 and the score; a target in (0, 1) is a share."""

    family = "bernoulli"
    link = "logit"
    allowed_targets = "0, 1, or a share between them"

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

    def score(self, mean: Array) -> Array:
        return np.asarray(special.logit(mean))

    def variance(self, mean: Array) -> Array:
        return np.asarray(mean * (1.0 - mean))

    def deviance(self, mean: Array, targets: Array) -> Array:
        saturated = special.xlogy(targets, targets) + special.xlogy(1.0 - targets, 1.0 - targets)
        return np.asarray(2.0 * (saturated - self.log_likelihood(mean, targets, 1.0)))

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        return np.asarray(special.xlogy(targets, mean) + special.xlog1py(1.0 - targets, -mean))

    def deviances(self, scores: Array, targets: Array) -> Array:
        # by the loss: a probability next to 1 has no digits left
        saturated = special.xlogy(targets, targets) + special.xlog1py(1.0 - targets, -targets)
        return np.asarray(2.0 * (self.loss(scores, targets)[0] + saturated))

    def log_likelihoods(self, scores: Array, targets: Array, dispersion: float) -> Array:
        return -self.loss(scores, targets)[0]

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.asarray((targets >= 0) & (targets <= 1))

    def refuse_unbounded_intercept(self, targets: Array, weights: Array | None, has_prior: bool) -> None:
        if not has_prior and not targets.any():
            raise ValueError(_ALL_ZERO)
        if not has_prior and (targets == 1).all():
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
        gains = (2.0 * targets - 1.0) * scores
        return np.where((targets == 0.0) | (targets == 1.0), gains, -np.abs(scores))

    def remaining_information(self, scores: Array) -> Array:
        return 4.0 * self.information(scores)

    def leave_out(self, scores: Array, targets: Array, weights: Array, covariances: Array) -> Array:
        return leave_out_scores(self, scores[:, 0], targets, weights, covariances)[0][:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Softmax(ClassResponse):
    """K classes by K scores; `contrasts` (K, K − 1) has orthonormal columns that sum to zero."""

    basis: Array

    family = "categorical"
    link = "softmax"
    allowed_targets = "places of classes"

    @classmethod
    def of(cls, classes: int) -> "Softmax":
        """The response of so many classes."""
        return cls(np.ascontiguousarray(helmert(classes).T))

    @property
    def classes(self) -> int:
        return len(self.basis)

    @property
    def outputs(self) -> int:
        return len(self.basis)

    @property
    def contrasts(self) -> Array:
        return self.basis

    @property
    def class_contrasts(self) -> Array:
        return self.basis

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """−log p(own class) of each row (k,), and its derivative in the score of each class (k, K)."""
        own = (np.arange(len(scores)), targets.astype(np.intp))
        p = scores - scores.max(axis=1, keepdims=True)
        losses = -p[own]
        np.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        losses += np.log(total[:, 0])
        p /= total
        p[own] -= 1.0
        return losses, p

    def information(self, scores: Array) -> Array:
        """diag p − p pᵀ of each row (k, K, K)."""
        p = self.probabilities(scores)
        return np.asarray(p[:, :, None] * np.eye(self.classes) - p[:, :, None] * p[:, None])

    def mean(self, scores: Array) -> Array:
        return self.probabilities(scores)

    def score(self, mean: Array) -> Array:
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
        own = (np.arange(len(scores)), targets.astype(np.intp))
        others = scores.copy()
        others[own] = -np.inf
        return np.asarray(scores[own] - others.max(axis=1))

    def remaining_information(self, scores: Array) -> Array:
        return np.asarray(1.0 - self.probabilities(scores).max(axis=1))

    def leave_out(self, scores: Array, targets: Array, weights: Array, covariances: Array) -> Array:
        derivatives = weights[:, None] * self.loss(scores, targets)[1]
        information = weights[:, None, None] * self.information(scores)
        pull = np.einsum("nkl,nl->nk", covariances, derivatives)
        remaining = np.eye(self.classes) - covariances @ information
        return np.asarray(scores + np.linalg.solve(remaining, pull[..., None])[..., 0])

    def expand(self, parameters: Array, width: int) -> Array:
        return np.asarray(self.basis @ parameters.reshape(-1, width))

    def reduce_gradient(self, gradient: Array) -> Array:
        return np.asarray(self.basis.T @ gradient).ravel()

    def reduce_matrix(self, matrix: Array) -> Array:
        k = self.classes
        width = len(matrix) // k
        cells = matrix.reshape(k, width, k, width)
        reduced = np.einsum("ka,kilj,lb->aibj", self.basis, cells, self.basis, optimize=True)
        return np.ascontiguousarray(reduced.reshape((k - 1) * width, -1))

    def block_information(
        self, block: Block, scores: Array, targets: Array, weights: Array | None, observed: bool
    ) -> Array:
        """Σ (diag p − p pᵀ) ⊗ x xᵀ over all K classes (K · width, K · width)."""
        p, width = self.probabilities(scores), block.width
        matrix = np.zeros((self.classes * width,) * 2)
        for part in runs(len(p), self.classes * width, _CELLS):
            rows = block.dense(part)
            if weights is not None:
                rows = rows * np.sqrt(weights[part])[:, None]
            stacked = (p[part, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            matrix -= stacked.T @ stacked
            for place in range(self.classes):
                at = slice(place * width, (place + 1) * width)
                matrix[at, at] += rows.T @ stacked[:, at]
        return matrix

    def block_diagonal(self, block: Block, scores: Array, weights: Array | None) -> Array:
        p = self.probabilities(scores)
        mean = p @ self.basis
        variances = p @ np.square(self.basis) - np.square(mean)  # (k, K − 1), of each contrast
        if weights is not None:
            variances *= weights[:, None]
        return np.concatenate([block.squares(each) for each in np.ascontiguousarray(variances.T)])

    def information_operator(self, scores: Array, weights: Array) -> Operator:
        probabilities = self.probabilities(scores)

        def multiply(rows: slice, changes: Array) -> Array:
            p = probabilities[rows]
            changes -= (p * changes).sum(axis=1, keepdims=True)
            changes *= p * weights[rows, None]
            return changes

        return multiply

    def level_information(self, level: Array) -> Array:
        return np.asarray(self.basis.T @ self.information(level[None])[0] @ self.basis)

    def information_change(self, before: Array, after: Array) -> float:
        changes = after - before  # probabilities change by e^±(largest change of a difference)
        with np.errstate(over="ignore"):
            return float(np.expm1((changes.max(axis=1) - changes.min(axis=1)).max(initial=0.0)))

    def score_differences(self, parameters: Array, width: int) -> Array:
        rows = self.expand(parameters, width)
        return (rows[:, None] - rows[None]).reshape(-1, width)

    __eq__ = Response.__eq__
    __hash__ = Response.__hash__


def average_log_odds(scores: Array, variances: Array) -> Array:
    """The log-odds of E[σ(a)] for a ~ N(score, variance), by the probit's closed form."""
    return np.asarray(scores / np.sqrt(1.0 + _PROBIT * variances))


def average_softmax(scores: Array, covariances: Array) -> Array:
    """Probabilities (n, K) of classes with Gaussian scores: each pair's log-odds shrunk as a probit's are."""
    own = np.einsum("nkk->nk", covariances)
    variances = own[:, :, None] + own[:, None, :] - 2.0 * covariances  # of differences of scores
    odds = (scores[:, None, :] - scores[:, :, None]) / np.sqrt(1.0 + _PROBIT * np.maximum(variances, 0.0))
    most = odds.max(axis=2, keepdims=True)
    log_sums = most[..., 0] + np.log(np.exp(odds - most).sum(axis=2))
    p = np.exp(-(log_sums - log_sums.min(axis=1, keepdims=True)))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def leave_out_scores(
    response: Response, scores: Array, targets: Array, weights: Array, variances: Array
) -> tuple[Array, Array]:
    """Scores (n,) and their variances by the model without each row, to one step of Newton's method."""
    derivatives = response.loss(scores, targets)[1]
    remaining = np.maximum(1.0 - weights * response.information(scores) * variances, 1e-12)
    return scores + weights * derivatives * variances / remaining, variances / remaining


# ── counts ──

_ALL_ZERO = (
    "all targets are 0, so that the likelihood rises for ever as the intercept falls, expected some "
    "above 0: set intercept_alpha above 0, or collect more rows"
)


class _LogLink(Response):
    """The mean is the exponential function of the score."""

    link = "log"
    has_positive_targets = True
    takes_exposure = True

    def mean(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def score(self, mean: Array) -> Array:
        return np.asarray(np.log(np.maximum(mean, 0.0)))


class Poisson(_LogLink):
    """Counts, by the exponential function."""

    family = "poisson"
    allowed_targets = "counts, 0 or more"
    vanishing_targets = "counts are 0"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            means = np.exp(scores)
        return means - targets * scores, means - targets

    def information(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def variance(self, mean: Array) -> Array:
        return mean

    def deviance(self, mean: Array, targets: Array) -> Array:
        return 2.0 * stirling.deviance(targets, mean)

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        return -stirling.deviance(targets, mean) - stirling.factorial_remainder(targets)

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.asarray(targets >= 0)

    def refuse_unbounded_intercept(self, targets: Array, weights: Array | None, has_prior: bool) -> None:
        if not has_prior and not targets.any():
            raise ValueError(_ALL_ZERO)

    def _intercept_with_offsets(self, targets: Array, w: Array, offsets: Array) -> float:
        shift = float(offsets.max())
        return float(np.log(w @ targets) - np.log(w @ np.exp(offsets - shift))) - shift

    def can_all_vanish(
        self, scores: Array, targets: Array, weights: Array | None, offsets: Array | None
    ) -> bool:
        """If they cannot, the row of zeros is a mean of the rows with some weights λ.

        Then Σ a exp(x·w) is at least min a Σ λ exp(x·w) ≥ min a (Jensen), where a are the weights times
        exponentials of offsets.
        """
        if targets.any():
            return False
        own = np.zeros(len(scores)) if offsets is None else offsets
        if weights is not None:
            scores, own = scores + np.log(weights), own + np.log(weights)
        return bool(special.logsumexp(scores) < own.min())

    def predict_distribution(self, scores: Array, variances: Array, dispersion: float) -> Univariate:
        if dispersion != 1.0:
            return super().predict_distribution(scores, variances, dispersion)
        return NegativeBinomial(*match_gamma(scores, variances))


def match_gamma(scores: Array, variances: Array) -> tuple[Array, Array]:
    """Shape and rate of the gamma distribution whose logarithm has these means and variances.

    >>> shape, rate = match_gamma(np.array([0.0]), special.polygamma(1, np.array([2.5])))
    >>> shape.round(9).tolist(), np.log(rate).round(9).tolist() == special.digamma(shape).round(9).tolist()
    ([2.5], True)
    """
    wanted = np.maximum(variances, 1e-12)
    shape = 0.5 + 1.0 / wanted  # below ψ₁⁻¹ never, and Newton's steps on 1/ψ₁ only come nearer (Minka 2000)
    for _ in range(_TRIGAMMA_STEPS):
        at = special.polygamma(1, shape)
        shape = shape + at * (1.0 - at / wanted) / special.polygamma(2, shape)
    return shape, np.exp(special.digamma(shape) - scores)


# ── numbers ──


class _Normal(Response):
    """Numbers with one variance."""

    family = "gaussian"
    has_dispersion = True
    needs_all_rows = True
    targets_have_unit = True

    def variance(self, mean: Array) -> Array:
        return np.ones_like(mean)

    def deviance(self, mean: Array, targets: Array) -> Array:
        return np.square(targets - mean)

    def squared_residuals(self, scores: Array, targets: Array) -> Array:
        return self.deviances(scores, targets)

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        squares = np.square(targets - mean) / dispersion
        return np.asarray(-0.5 * (squares + _LOG_TWO_PI + np.log(dispersion)))

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.ones(len(targets), dtype=np.bool_)


class Gaussian(_Normal):
    """Numbers whose mean is the score."""

    link = "identity"
    scores_have_unit = True
    is_profiled = True

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        derivatives = scores - targets
        return 0.5 * np.square(derivatives), derivatives

    def information(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def mean(self, scores: Array) -> Array:
        return scores

    def score(self, mean: Array) -> Array:
        return mean

    def _intercept_with_offsets(self, targets: Array, w: Array, offsets: Array) -> float:
        return float(w @ (targets - offsets)) / float(w.sum())

    def start_means(self, targets: Array, mean: float) -> Array:
        return targets

    def predict_distribution(self, scores: Array, variances: Array, dispersion: float) -> Univariate:
        return Normal(scores, np.sqrt(dispersion + variances))


class GaussianLog(_LogLink, _Normal):
    """Numbers whose mean is the exponential function of the score."""

    is_canonical = False
    vanishing_targets = "targets are 0 or less"
    vanishing_advice = ", or link='identity'"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.exp(scores)
            residuals = means - targets
            return 0.5 * np.square(residuals), residuals * means

    def information(self, scores: Array) -> Array:
        return np.asarray(np.exp(2.0 * scores))

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.exp(scores)
            return np.asarray((2.0 * means - targets) * means)

    def refuse_unbounded_intercept(self, targets: Array, weights: Array | None, has_prior: bool) -> None:
        mean = float(np.average(targets, weights=weights))
        if mean <= 0:
            raise ValueError(
                f"the mean of the targets is {mean:g}, expected above 0 for link='log': means are "
                "exponentials, set link='identity'"
            )

    def _intercept_with_offsets(self, targets: Array, w: Array, offsets: Array) -> float:
        shift = float(offsets.max())
        factors = np.exp(offsets - shift)
        return float(np.log(max(float(w @ (targets * factors)), 0.0) / float(w @ np.square(factors)))) - shift

    def start_means(self, targets: Array, mean: float) -> Array:
        return np.asarray(np.maximum(super().start_means(targets, mean), 0.05 * abs(mean)))


# ── positive numbers ──


class _Positive(Response):
    """Numbers above zero whose standard deviation is proportional to their mean."""

    family = "gamma"
    allowed_targets = "numbers above 0"
    has_dispersion = True
    has_positive_targets = True
    needs_all_rows = True

    def variance(self, mean: Array) -> Array:
        return np.square(mean)

    def deviance(self, mean: Array, targets: Array) -> Array:
        return 2.0 * stirling.excess(_relative_excess(targets, mean))

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        shape = 1.0 / dispersion
        loss = shape * stirling.excess(_relative_excess(targets, mean))
        return -loss - np.log(targets) - float(stirling.remainder(np.array(shape)))

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.asarray(targets > 0)

    def likeliest_dispersion(self, mean_deviance: float) -> float:
        if not mean_deviance > 0:
            return super().likeliest_dispersion(mean_deviance)
        # log ν − ψ(ν) = mean/2 with ν = 1/φ, which lies between 1/mean and 2/mean
        low, high = np.log(0.5 / mean_deviance), np.log(4.0 / mean_deviance)
        rising = lambda at: mean_deviance + 2.0 * float(stirling.slope(np.exp(at)))  # noqa: E731
        return float(np.exp(-_find_root(rising, low, high)))


def _relative_excess(targets: Array, mean: Array) -> Array:
    """y/mean − 1, with all its digits where it is small; the mean may be infinite."""
    known = np.isfinite(mean)
    safe = np.where(known, mean, 1.0)
    return np.where(known, (targets - safe) / safe, -1.0)


class Gamma(_Positive):
    """The canonical link: the score is one over the mean, and must be above zero."""

    link = "inverse"
    is_decreasing = True

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        inside = scores > 0
        safe = np.where(inside, scores, 1.0)
        losses = np.where(inside, targets * safe - np.log(safe), np.inf)
        return losses, targets - 1.0 / safe

    def information(self, scores: Array) -> Array:
        return np.asarray(1.0 / np.square(scores))

    def mean(self, scores: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.where(scores > 0, 1.0 / np.where(scores > 0, scores, 1.0), np.inf)

    def score(self, mean: Array) -> Array:
        return np.asarray(1.0 / mean)

    def _least_intercept(self, targets: Array, w: Array, offsets: Array) -> float:
        # scores are above zero: at half a step from there, the loss of one row alone already falls
        return 0.5 * float(w[np.argmin(offsets)]) / float(w @ targets) - float(offsets.min())


class GammaLog(_LogLink, _Positive):
    """The mean is the exponential function of the score."""

    is_canonical = False

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            ratio = targets * np.exp(-scores)
        return ratio + scores, 1.0 - ratio

    def information(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(targets * np.exp(-scores))

    def _intercept_with_offsets(self, targets: Array, w: Array, offsets: Array) -> float:
        shift = float(-offsets.min())
        return float(np.log(w @ (targets * np.exp(-offsets - shift)) / w.sum())) + shift


RESPONSES: dict[tuple[Family, Link], type[Response]] = {
    (cast(Family, kind.family), cast(Link, kind.link)): kind
    for kind in (Bernoulli, Poisson, Gaussian, GaussianLog, Gamma, GammaLog)
}
CANONICAL: dict[Family, Link] = {
    family: link for (family, link), kind in RESPONSES.items() if kind.is_canonical
}


def make_response(family: object, link: object = None) -> Response:
    """Make the response of that family, with its canonical link if no other is named.

    >>> make_response("gamma").link, make_response("gamma", "log").link
    ('inverse', 'log')
    """
    canonical = CANONICAL.get(family) if isinstance(family, str) else None  # type: ignore[call-overload]
    if canonical is None:
        raise ValueError(f"got family={family!r}, expected one of {', '.join(map(repr, CANONICAL))}")
    name = canonical if link is None else link
    kind = RESPONSES.get((family, name)) if isinstance(name, str) else None  # type: ignore[arg-type]
    if kind is None:
        links = [each for own, each in RESPONSES if own == family]
        raise ValueError(f"got link={link!r} for {family!r}, expected {' or '.join(map(repr, links))}")
    return kind()
