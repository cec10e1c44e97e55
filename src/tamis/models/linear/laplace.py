"""rows, given a point → their curvature there → a Gaussian at the posterior's top: Laplace's approximation.

`observe` takes the slope and the information of rows at a point, `infer` makes Newton's step from it:
`iterate` of the two is Newton's method over any shards. From where the slope is zero the step leads nowhere,
and what `infer` gives is Laplace's approximation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky, eigen
from tamis.models.linear.design import Design
from tamis.models.linear.newton import solved
from tamis.models.linear.objective import GaussianPrior, Objective
from tamis.models.linear.responses import Response

_LOG_TWO_PI = float(np.log(2.0 * np.pi))
_NOT_KEPT = "no posterior was kept, expected a model with posterior='full' or 'diagonal'"
_FIXED_POINT_STEPS = 100  # 5 to 20 are usual; more where evidence hardly changes with the precision
_FARTHEST = 690.0  # of log α, from 0: floats end a little further


@dataclass(frozen=True, slots=True, eq=False)
class LinearRows:
    """Rows to learn from."""

    design: Design
    targets: Array  # (n,)
    weights: Array | None = None  # (n,)
    offsets: Array | None = None  # (n,)

    @property
    def weight(self) -> float:
        """Of all rows."""
        return float(len(self.design)) if self.weights is None else float(self.weights.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """Loss, slope and information of rows, taken at one point; of rows at the same point they add.

    These are plain floats: they serve one step, and the next begins with new ones.
    """

    at: Array  # (D,): the point
    weight: float
    loss: float
    gradient: Array  # (D,)
    information: Array  # (D, D), or its diagonal (D,)

    def __add__(self, other: "Curvature") -> "Curvature":
        return self._combined(other, 1.0)

    def __sub__(self, other: "Curvature") -> "Curvature":
        return self._combined(other, -1.0)

    def _combined(self, other: "Curvature", sign: float) -> "Curvature":
        if not np.array_equal(self.at, other.at):
            raise ValueError("got curvatures taken at two points, expected both given the same posterior")
        return Curvature(
            self.at,
            self.weight + sign * other.weight,
            self.loss + sign * other.loss,
            self.gradient + sign * other.gradient,
            self.information + sign * other.information,
        )

    def __mul__(self, weight: float) -> "Curvature":
        return Curvature(
            self.at,
            self.weight * weight,
            self.loss * weight,
            self.gradient * weight,
            self.information * weight,
        )

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True, eq=False)
class Laplace:
    """A Gaussian over the parameters, about the design's centre, of a precision that may be unknown."""

    mean: Array  # (D,)
    precision: Array | None  # (D, D) or (D,): that of the prior and the rows' information

    @property
    def is_diagonal(self) -> bool:
        """Whether nothing is known of how parameters vary together."""
        return self.precision is not None and self.precision.ndim == 1

    def factor(self) -> Cholesky:
        """Of the whole precision."""
        if self.precision is None or self.precision.ndim != 2:
            raise ValueError("the posterior is not kept whole, expected posterior='full'")
        return Cholesky.of(self.precision, "precision of the posterior")

    def covariance(self) -> Array:
        """(D, D), or the variances (D,) of a diagonal."""
        if self.precision is None:
            raise ValueError(_NOT_KEPT)
        if self.precision.ndim == 1:
            return np.asarray(1.0 / self.precision)
        with threads.one_blas_thread:
            return self.factor().inverse()

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Parameters (count, D)."""
        noise = rng.standard_normal((count, len(self.mean)))
        if self.precision is None:
            raise ValueError(_NOT_KEPT)
        if self.precision.ndim == 1:
            return np.asarray(self.mean + noise / np.sqrt(self.precision))
        inverse = self.factor().inverse_factor()
        return np.asarray(self.mean + noise @ inverse)

    def log_volume(self) -> float:
        """log ∫ exp(−½ (θ − mean)ᵀ Λ (θ − mean)) dθ."""
        if self.precision is None:
            raise ValueError(_NOT_KEPT)
        if self.precision.ndim == 1:
            determinant = float(np.log(self.precision).sum())
        else:
            determinant = float(self.factor().log_determinant())
        return 0.5 * (len(self.mean) * _LOG_TWO_PI - determinant)

    def score_variances(self, design: Design) -> Array:
        """Variances of the rows' scores (n,), of one output."""
        covariance = self.covariance()
        if covariance.ndim == 1:
            return _squared_scores(design, covariance)
        root = self.factor().inverse_factor()
        parts = design.in_lanes(
            lambda blocks: [np.square(block.scores(root)).sum(axis=1) for block in blocks]
        )
        return np.concatenate([block for part in parts for block in part])

    def score_covariances(self, design: Design, response: Response, covariance: Array | None = None) -> Array:
        """Covariances of the rows' scores of all classes (n, K, K); `covariance` is the own, if known."""
        contrasts, width = response.contrasts, design.width
        m = contrasts.shape[1]
        covariance = self.covariance() if covariance is None else covariance
        found = np.empty((len(design), m, m))
        if covariance.ndim == 1:
            found[:] = 0.0
            for a, own in enumerate(covariance.reshape(m, width)):
                found[:, a, a] = _squared_scores(design, own)
        else:
            cells = covariance.reshape(m, width, m, width)
            for block in design.blocks(0, len(design)):
                rows = block.dense()
                for a in range(m):
                    for b in range(a, m):
                        own = np.einsum("ij,ij->i", rows @ cells[a, :, b], rows)
                        found[block.rows, a, b] = found[block.rows, b, a] = own
        return np.asarray(np.einsum("ka,nab,lb->nkl", contrasts, found, contrasts, optimize=True))


def _squared_scores(design: Design, variances: Array) -> Array:
    """Σ_j v_j x_j² of each row (n,)."""
    parts = design.in_lanes(lambda blocks: [block.squared_scores(variances) for block in blocks])
    return np.concatenate([block for part in parts for block in part])


@dataclass(frozen=True, slots=True, eq=False)
class CurvedModel:
    """A linear model of any response: `observe` given a point, `infer` by one step of Newton's."""

    response: Response
    prior: GaussianPrior
    whole: bool = True  # whether the information is kept whole, not its diagonal alone

    def objective_of(self, rows: LinearRows) -> Objective:
        """The negative log-posterior of these rows."""
        return Objective(rows.design, rows.targets, self.response, self.prior, rows.weights, rows.offsets)

    def observe(self, data: LinearRows, given: Laplace | None = None, /) -> Curvature:
        """Slope and information at the posterior's mean; at the prior's, if none is given."""
        at = self.prior.mean if given is None else given.mean
        return self.seen(data, at, *self.objective_of(data).value_and_gradient(at))

    def seen(self, rows: LinearRows, at: Array, value: float, gradient: Array) -> Curvature:
        """The same at a point where the objective and its slope are known already."""
        objective = self.objective_of(rows)
        belief, pull = self.prior.loss(at)
        information = objective.curvature(at) if self.whole else objective.diagonal(at)
        return Curvature(at, rows.weight, value - belief, gradient - pull, information)

    def objective(self, statistic: Curvature, /) -> float:
        """The negative log-posterior, but for constants, where the statistic was observed."""
        return statistic.loss + self.prior.loss(statistic.at)[0]

    def infer(self, statistic: Curvature, /) -> Laplace:
        """Newton's step (Fisher's, if the link is not canonical), and the precision where it began."""
        _, pull = self.prior.loss(statistic.at)
        gradient = statistic.gradient + pull
        if statistic.information.ndim == 1:
            precision = statistic.information + self.prior.diagonal
            return Laplace(statistic.at - gradient / precision, precision)
        precision = self.prior.added_to(statistic.information)
        return Laplace(statistic.at - solved(precision, gradient), precision)


def log_evidence(log_likelihood: float, posterior: Laplace, prior: GaussianPrior) -> float:
    """log ∫ p(y | θ) p(θ) dθ, where flat parameters have a density of 1; NaN if all are flat."""
    matrix = prior.precision
    if matrix.ndim == 1:
        proper = matrix > 0
        known = float(np.log(matrix[proper]).sum())
        count = int(proper.sum())
    else:
        values, _ = eigen(matrix)
        proper = values > 1e-12 * values[-1]
        known, count = float(np.log(values[proper]).sum()), int(proper.sum())
    density = 0.5 * (known - count * _LOG_TWO_PI) - prior.loss(posterior.mean)[0]
    return log_likelihood + density + posterior.log_volume()


def chosen_precision(
    curvature: Curvature, prior: GaussianPrior, alike: NDArray[np.bool_], most: float = 1e12
) -> float:
    """The precision of the `alike` parameters (D,) by evidence, were the likelihood Gaussian from here on.

    In the eigenvectors of the information about the other parameters, which are taken for flat, evidence
    has one unknown. MacKay's fixed point, α = γ / |w|², is found without going back to the rows; where his
    steps are slow, in a bracket that shrinks to it. It is `most` if evidence rises up to there.
    """
    information = curvature.information
    if information.ndim == 1:
        own = information[alike]
        values, pulls = own, own * curvature.at[alike] - curvature.gradient[alike]
    else:
        wanted, other = np.flatnonzero(alike), np.flatnonzero(~alike)
        target = information @ curvature.at - curvature.gradient
        matrix, target_own = information[np.ix_(wanted, wanted)], target[wanted]
        if len(other):
            cross = information[np.ix_(wanted, other)]
            factor = Cholesky.of(information[np.ix_(other, other)], "information of the intercept")
            matrix = matrix - cross @ factor.solve(cross.T)
            target_own = target_own - cross @ factor.solve(target[other][:, None])[:, 0]
        values, vectors = eigen(matrix)
        values, pulls = np.maximum(values, 0.0), vectors.T @ target_own
    alpha = float(prior.diagonal[alike].mean())
    for _ in range(_FIXED_POINT_STEPS):
        weights = pulls / (values + alpha)
        counted = float((values / (values + alpha)).sum())
        size = float(weights @ weights)
        new = min(counted / size, most) if size * most > counted else most
        if abs(np.log(new / alpha)) < 1e-10:
            return new
        alpha = new
    return _fixed_point_beyond(values, np.square(pulls), alpha, most)


def _fixed_point_beyond(values: Array, squares: Array, alpha: float, most: float) -> float:
    """The first precision from `alpha` on, in the direction of rising evidence, where it rises no more."""

    def slope(log_alpha: float) -> float:  # of the log-evidence, twice and times α, by log α
        at = np.exp(log_alpha)
        return float(at * ((values * (values + at) - at * squares) @ np.square(1.0 / (values + at))))

    before, limits = float(np.log(alpha)), (-_FARTHEST, float(np.log(most)))
    rises = slope(before) > 0
    reach = 0.1
    while before != limits[rises]:
        there = float(np.clip(before + (reach if rises else -reach), *limits))
        if (slope(there) > 0) != rises:
            low, high = sorted((before, there))
            return float(np.exp(brentq(slope, low, high, xtol=1e-11, rtol=1e-14)))
        before, reach = there, 1.5 * reach
    return float(np.exp(before))


def combined(parts: list[Laplace], factors: list[float], prior: GaussianPrior) -> Laplace:
    """The prior, times what each part says beyond it, to these powers."""
    whole = not any(part.is_diagonal for part in parts)
    belief = prior.added_to(np.zeros((len(prior.mean),) * 2)) if whole else prior.diagonal
    precision, pull = belief.copy(), _times(belief, prior.mean)
    for part, factor in zip(parts, factors, strict=True):
        own = _own_precision(part, whole)
        precision = precision + factor * (own - belief)
        pull = pull + factor * (_times(own, part.mean) - _times(belief, prior.mean))
    if whole:
        mean = Laplace(prior.mean, precision).factor().solve(pull[:, None])[:, 0]
        return Laplace(mean, precision)
    return Laplace(pull / precision, precision)


def _own_precision(part: Laplace, whole: bool) -> Array:
    if part.precision is None:
        raise ValueError(_NOT_KEPT)
    return part.precision if whole or part.precision.ndim == 1 else np.diagonal(part.precision)


def _times(precision: Array, vector: Array) -> Array:
    return np.asarray(precision @ vector if precision.ndim == 2 else precision * vector)


def recentred(posterior: Laplace, by: Array, width: int) -> Laplace:
    """The same belief, of columns about a centre moved `by` (d,); each output has an intercept."""
    if not by.any():
        return posterior
    move = np.eye(width)
    move[-1, :-1] = by  # (x − c)ᵀw + b = (x − c − by)ᵀw + (b + byᵀw)
    cells = posterior.mean.reshape(-1, width)
    mean = (cells @ move.T).ravel()
    if posterior.precision is None or posterior.precision.ndim == 1:
        return Laplace(mean, posterior.precision)
    back = np.eye(width)
    back[-1, :-1] = -by
    turn = np.kron(np.eye(len(cells)), back)
    return Laplace(mean, np.asarray(turn.T @ posterior.precision @ turn))


def moved_on(posterior: Laplace) -> GaussianPrior:
    """The posterior of today as the prior of tomorrow."""
    if posterior.precision is None:
        raise ValueError(_NOT_KEPT)
    return GaussianPrior(posterior.mean, posterior.precision)
