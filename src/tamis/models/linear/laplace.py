"""Rows and a point → gradient and Fisher information there → a Gaussian at the posterior's mode (Laplace).

`observe` evaluates the gradient and the information of rows at a point, and `infer` makes Newton's step from
there: `iterate` of the two is Newton's method, for rows in memory or in shards. At the mode the gradient is
zero, the step has length zero, and the result of `infer` is Laplace's approximation: a Gaussian at the mode
whose precision is the Hessian, or its expectation if the link is not canonical (Bishop 2006, section 4.4).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tamis import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky, eigen
from tamis.models.linear.design import Design
from tamis.models.linear.newton import Point, solve_semidefinite
from tamis.models.linear.objective import GaussianPrior, LinearRows, Objective
from tamis.models.linear.responses import Response

_LOG_TWO_PI = float(np.log(2.0 * np.pi))
_NO_PRECISION = "no posterior was kept, expected a model with posterior='full' or 'diagonal'"
# The largest number of steps of a fixed-point iteration for α. Usually 5 to 20 are enough, but not where the
# evidence hardly depends on α.
_FIXED_POINT_STEPS = 100
_MAX_LOG_PRECISION = 690.0  # the largest |log α|: floats overflow at about 709


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """Loss, gradient and Fisher information of rows at one point; those of two parts can be added.

    The fields are floats and no `Exact` sums, because they are used for one step and never stored.
    """

    at: Array  # (D,): the point
    weight: float  # of the rows
    loss: float
    gradient: Array  # (D,)
    information: Array  # (D, D), or its diagonal (D,)

    def __add__(self, other: "Curvature") -> "Curvature":
        return self._combine(other, 1.0)

    def __sub__(self, other: "Curvature") -> "Curvature":
        return self._combine(other, -1.0)

    def _combine(self, other: "Curvature", sign: float) -> "Curvature":
        if not np.array_equal(self.at, other.at):
            raise ValueError("got curvatures at two points, expected both given the same posterior")
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
    """A Gaussian distribution of the parameters, for columns minus the design's centre."""

    mean: Array  # (D,)
    # (D, D), or its diagonal (D,): the prior's precision plus the rows' information; None if it was not
    # stored
    precision: Array | None

    @property
    def is_diagonal(self) -> bool:
        """Whether only the diagonal of the precision is known."""
        return self.precision is not None and self.precision.ndim == 1

    @property
    def is_full(self) -> bool:
        """Whether the full precision matrix is known."""
        return self.precision is not None and self.precision.ndim == 2

    @property
    def stored_precision(self) -> Array:
        """The precision; reading it raises ValueError if it was not stored."""
        if self.precision is None:
            raise ValueError(_NO_PRECISION)
        return self.precision

    def factor(self) -> Cholesky:
        """Return the Cholesky factor of the full precision."""
        if self.precision is None or self.precision.ndim != 2:
            raise ValueError("the posterior is not kept in full, expected posterior='full'")
        return Cholesky.of(self.precision, "precision of the posterior")

    def covariance(self) -> Array:
        """Return the covariance (D, D), or the variances (D,) if the precision is diagonal."""
        if self.stored_precision.ndim == 1:
            return np.asarray(1.0 / self.stored_precision)
        with threads.one_blas_thread:
            return self.factor().inverse()

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Draw parameters (count, D)."""
        noise = rng.standard_normal((count, len(self.mean)))
        if self.stored_precision.ndim == 1:
            return np.asarray(self.mean + noise / np.sqrt(self.stored_precision))
        return np.asarray(self.mean + noise @ self.factor().inverse_factor())

    def log_volume(self) -> float:
        """Return log ∫ exp(−½ (θ − mean)ᵀ Λ (θ − mean)) dθ, Λ being the precision."""
        if self.stored_precision.ndim == 1:
            log_determinant = float(np.log(self.stored_precision).sum())
        else:
            log_determinant = float(self.factor().log_determinant())
        return 0.5 * (len(self.mean) * _LOG_TWO_PI - log_determinant)

    def score_variances(self, design: Design) -> Array:
        """Return variances of the rows' scores (n,), for a response with one output."""
        covariance = self.covariance()
        if covariance.ndim == 1:
            return _diagonal_variances(design, covariance)
        root = self.factor().inverse_factor()
        return np.concatenate(design.map_blocks(lambda block: np.square(block.scores(root)).sum(axis=1)))

    def score_covariances(self, design: Design, response: Response, covariance: Array | None = None) -> Array:
        """Return the covariances of the rows' scores (n, outputs, outputs).

        `covariance` is that of the parameters, if it was computed already.
        """
        expansion, width = response.expansion, design.width
        m = expansion.shape[1]
        covariance = self.covariance() if covariance is None else covariance
        covariances = np.empty((len(design), m, m))
        if covariance.ndim == 1:
            covariances[:] = 0.0
            for a, variances in enumerate(covariance.reshape(m, width)):
                covariances[:, a, a] = _diagonal_variances(design, variances)
        else:
            by_vector = covariance.reshape(m, width, m, width)  # of the m vectors that the parameters are
            for block in design.blocks(0, len(design)):
                rows = block.dense()
                for a in range(m):
                    for b in range(a, m):
                        values = np.einsum("ij,ij->i", rows @ by_vector[a, :, b], rows)
                        covariances[block.rows, a, b] = covariances[block.rows, b, a] = values
        return np.asarray(np.einsum("ka,nab,lb->nkl", expansion, covariances, expansion, optimize=True))


def _diagonal_variances(design: Design, variances: Array) -> Array:
    """Return Σ_j v_j x_j² of each row (n,): its score's variance if coefficients have variances v."""
    return np.concatenate(design.map_blocks(lambda block: block.score_variances(variances)))


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceModel:
    """A linear model with any response, as `protocols.iterate` takes it: each `infer` is a Newton step."""

    response: Response
    prior: GaussianPrior
    is_full: bool = True  # whether `observe` computes the information's full matrix, or only its diagonal

    def objective_of(self, rows: LinearRows) -> Objective:
        """Return the negative log-posterior of these rows."""
        return Objective.of(rows, self.response, self.prior)

    def observe(self, data: LinearRows, given: Laplace | None = None, /) -> Curvature:
        """Evaluate gradient and information at the mean of `given`, or of the prior if it is None."""
        at = self.prior.mean if given is None else given.mean
        return Curvature(at, data.weight, *self.objective_of(data).row_loss(at), self._information(data, at))

    def observe_at(self, rows: LinearRows, point: Point) -> Curvature:
        """Return what `observe` returns, at a point where the objective and its gradient are known."""
        loss, gradient = self.row_loss(point)
        information = point.information
        if information is None or not self.is_full:
            information = self._information(rows, point.parameters)
        return Curvature(point.parameters, rows.weight, loss, gradient, information)

    def row_loss(self, point: Point) -> tuple[float, Array]:
        """Return the rows' loss at a point and its gradient (D,): those of the point without the prior's."""
        loss, gradient = self.prior.loss(point.parameters)
        return point.value - loss, point.gradient - gradient

    def _information(self, rows: LinearRows, at: Array) -> Array:
        objective = self.objective_of(rows)
        return objective.information(at) if self.is_full else objective.information_diagonal(at)

    def precision(self, curvature: Curvature) -> Array:
        """Return the posterior's precision (D, D), or (D,): the information plus the prior's precision."""
        if curvature.information.ndim == 1:
            return np.asarray(curvature.information + self.prior.diagonal)
        return self.prior.add_to(curvature.information)

    def objective(self, statistic: Curvature, /) -> float:
        """Return the negative log-posterior, up to constants, where the statistic was observed."""
        prior_loss, _ = self.prior.loss(statistic.at)
        return statistic.loss + prior_loss

    def infer(self, statistic: Curvature, /) -> Laplace:
        """Make Newton's step, or Fisher's scoring step if the link is not canonical.

        The precision is that at the start of the step.
        """
        _, prior_gradient = self.prior.loss(statistic.at)
        gradient, precision = statistic.gradient + prior_gradient, self.precision(statistic)
        if precision.ndim == 1:
            return Laplace(statistic.at - gradient / precision, precision)
        return Laplace(statistic.at - solve_semidefinite(precision, gradient), precision)


def log_evidence(log_likelihood: float, posterior: Laplace, prior: GaussianPrior) -> float:
    """Return log ∫ p(y | θ) p(θ) dθ by Laplace's approximation; flat priors have density 1."""
    if prior.precision.ndim == 1:
        precisions = prior.precision[prior.precision > 0]
    else:
        values, _ = eigen(prior.precision)  # ascending
        precisions = values[values > 1e-12 * values[-1]]  # smaller ones are rounding errors of 0
    log_determinant = float(np.log(precisions).sum())
    prior_loss, _ = prior.loss(posterior.mean)
    log_prior = 0.5 * (log_determinant - len(precisions) * _LOG_TWO_PI) - prior_loss
    return log_likelihood + log_prior + posterior.log_volume()


def choose_precision(
    curvature: Curvature, prior: GaussianPrior, coefficients: NDArray[np.bool_], most: float = 1e12
) -> float:
    """Choose the precision α of all coefficients by the evidence, with a Gaussian for the likelihood.

    The Gaussian has the curvature's gradient and information; `coefficients` (D,) selects the parameters with
    the precision α, and the priors of the others are taken as flat. MacKay's (1992) fixed point, α = γ /
    |w|², is iterated without reading rows again; if it converges slowly, a root of the evidence's derivative
    is bracketed and found by Brent's method. The result is `most` if the evidence still rises there.
    """
    information = curvature.information
    if information.ndim == 1:
        values = information[coefficients]
        right_sides = values * curvature.at[coefficients] - curvature.gradient[coefficients]
    else:
        # The normal equations of the mode, without the parameters of flat priors: their Schur complement.
        chosen, others = np.flatnonzero(coefficients), np.flatnonzero(~coefficients)
        all_right_sides = information @ curvature.at - curvature.gradient
        matrix, right_sides = information[np.ix_(chosen, chosen)], all_right_sides[chosen]
        if len(others):
            cross = information[np.ix_(chosen, others)]
            factor = Cholesky.of(information[np.ix_(others, others)], "information of the intercept")
            matrix = matrix - cross @ factor.solve(cross.T)
            right_sides = right_sides - cross @ factor.solve(all_right_sides[others][:, None])[:, 0]
        values, vectors = eigen(matrix)
        values, right_sides = np.maximum(values, 0.0), vectors.T @ right_sides
    alpha = float(prior.diagonal[coefficients].mean())
    for _ in range(_FIXED_POINT_STEPS):
        coordinates = right_sides / (values + alpha)  # of the mode, along the eigenvectors
        effective = float((values / (values + alpha)).sum())
        square = float(coordinates @ coordinates)
        new = min(effective / square, most) if square * most > effective else most
        if abs(np.log(new / alpha)) < 1e-10:
            return new
        alpha = new
    return _bracket_fixed_point(values, np.square(right_sides), alpha, most)


def _bracket_fixed_point(values: Array, squares: Array, alpha: float, most: float) -> float:
    """Search from `alpha` in the direction of rising evidence; return the first local maximum.

    `values` are the eigenvalues of the information, and `squares` the squared right sides along them.
    """

    def derivative(log_alpha: float) -> float:  # 2α times the derivative of the log-evidence by log α
        a = np.exp(log_alpha)
        return float(a * ((values * (values + a) - a * squares) @ np.square(1.0 / (values + a))))

    at, limits = float(np.log(alpha)), (-_MAX_LOG_PRECISION, float(np.log(most)))
    is_rising = derivative(at) > 0
    distance = 0.1  # of the next trial; it grows with every trial
    while at != limits[is_rising]:
        trial = float(np.clip(at + (distance if is_rising else -distance), *limits))
        if (derivative(trial) > 0) != is_rising:
            low, high = sorted((at, trial))
            return float(np.exp(brentq(derivative, low, high, xtol=1e-11, rtol=1e-14)))
        at, distance = trial, 1.5 * distance
    return float(np.exp(at))


def combine(parts: list[Laplace], powers: list[float], prior: GaussianPrior) -> Laplace:
    """Return the posterior from one prior and the likelihoods of all parts, each raised to its power.

    `parts` are posteriors with this prior; the likelihood of each is the posterior divided by the prior. If
    some part has only the diagonal of its precision, the result has only that.
    """
    is_full = not any(part.is_diagonal for part in parts)
    prior_precision = prior.add_to(np.zeros((len(prior.mean),) * 2)) if is_full else prior.diagonal
    prior_right_side = _multiply(prior_precision, prior.mean)
    precision, right_side = prior_precision, prior_right_side
    for part, power in zip(parts, powers, strict=True):
        part_precision = part.stored_precision
        if not is_full and part_precision.ndim == 2:
            part_precision = np.diagonal(part_precision)
        precision = precision + power * (part_precision - prior_precision)
        right_side = right_side + power * (_multiply(part_precision, part.mean) - prior_right_side)
    if is_full:
        mean = Laplace(prior.mean, precision).factor().solve(right_side[:, None])[:, 0]
        return Laplace(mean, precision)
    return Laplace(right_side / precision, precision)


def _multiply(precision: Array, vector: Array) -> Array:
    return np.asarray(precision @ vector if precision.ndim == 2 else precision * vector)


def recentre(posterior: Laplace, shift: Array, width: int) -> Laplace:
    """Express a Gaussian for columns minus a centre that is moved by `shift` (d,).

    Each output has an intercept, which compensates. A diagonal precision does not change, which is only an
    approximation.
    """
    if not shift.any():
        return posterior
    change_of_basis = np.eye(width)
    change_of_basis[-1, :-1] = shift  # (x − c)ᵀw + b = (x − c − shift)ᵀw + (b + shiftᵀw)
    vectors = posterior.mean.reshape(-1, width)
    mean = (vectors @ change_of_basis.T).ravel()
    if posterior.precision is None or posterior.precision.ndim == 1:
        return Laplace(mean, posterior.precision)
    inverse = np.eye(width)
    inverse[-1, :-1] = -shift
    transformation = np.kron(np.eye(len(vectors)), inverse)
    return Laplace(mean, np.asarray(transformation.T @ posterior.precision @ transformation))


def to_prior(posterior: Laplace) -> GaussianPrior:
    """Return a posterior as the prior of further rows."""
    return GaussianPrior(posterior.mean, posterior.stored_precision)
