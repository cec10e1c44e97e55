"""Gaussian vectors. T(x) = (x, vec xxᵀ), η = (Σ⁻¹μ, vec −½Σ⁻¹), A = ½(μᵀΣ⁻¹μ + log |Σ|).

In the diagonal and spherical forms, T(x) has the squares, or their sum, instead of all products.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats, is_frame, to_numpy
from tamis.families.family import Family, check_statistic, check_vectors, freeze_parameter, set_fields
from tamis.families.gaussian import (
    observe_columns,
    quadratic_partition,
    refuse_unless_gaussian,
    variance_of,
)
from tamis.families.stirling import LOG_2PI, log1p_gap
from tamis.linalg import Cholesky, symmetrize
from tamis.stats import Moments

Form = Literal["full", "diagonal", "spherical"]


@dataclass(frozen=True, slots=True, eq=False)
class MultivariateGaussian(Family):
    """A normal distribution of vectors with the given mean and covariance.

    The covariance is a matrix (..., d, d); with form="diagonal" the variances (..., d); with form="spherical"
    one variance (...) for all axes. T(x) is x followed by the d² products, the d squares, or their sum.
    Density, entropy and divergence are computed from the Cholesky factor and x − μ, so that a large mean
    costs no precision.

    >>> cloud = MultivariateGaussian([0, 0], np.eye(2))
    >>> moments = cloud.observe([[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]])
    >>> cloud.fit(moments).mean.tolist(), cloud.fit(moments).covariance.round(3).tolist()
    ([2.0, 3.0], [[0.667, 0.0], [0.0, 2.0]])
    >>> sphere = MultivariateGaussian([0, 0], 1, form="spherical").fit(moments)
    >>> round(float(sphere.covariance), 3), round(float(cloud.log_density([0, 0])), 4)
    (1.333, -1.8379)
    """

    event_axes: ClassVar[int] = 1
    discrete: ClassVar[bool] = False

    mean: Array  # batch + (d,)
    covariance: Array  # batch + (d, d) full, (d,) diagonal, () spherical
    form: Form
    _factor: Cholesky | None = field(repr=False)  # of a full covariance; None in the other forms

    def __init__(self, mean: ArrayLike, covariance: ArrayLike, form: Form = "full") -> None:
        if form not in ("full", "diagonal", "spherical"):
            raise ValueError(f"got form={form!r}, expected 'full', 'diagonal' or 'spherical'")
        mu, sigma = freeze_parameter(mean, "mean"), freeze_parameter(covariance, "covariance")
        axes = {"full": 2, "diagonal": 1, "spherical": 0}[form]
        d = mu.shape[-1] if mu.ndim else 0
        if d == 0 or sigma.shape[sigma.ndim - axes :] != (d,) * axes or sigma.ndim < axes:
            expected = (
                "(..., d), " + {"full": "(..., d, d)", "diagonal": "(..., d)", "spherical": "(...)"}[form]
            )
            raise ValueError(
                f"got mean and covariance of shape {mu.shape}, {sigma.shape}, expected {expected}"
            )
        batch = np.broadcast_shapes(mu.shape[:-1], sigma.shape[: sigma.ndim - axes])
        factor = None
        if form == "full":
            sigma = freeze_parameter(symmetrize(sigma, "covariance"), "covariance")
            refuse_unless_gaussian(mu, np.diagonal(sigma, axis1=-2, axis2=-1))
            factor = Cholesky(np.broadcast_to(Cholesky.of(sigma, "covariance").lower, (*batch, d, d)))
        else:
            refuse_unless_gaussian(mu, sigma)
        set_fields(
            self,
            mean=np.broadcast_to(mu, (*batch, d)),
            covariance=np.broadcast_to(sigma, (*batch, *(d,) * axes)),
            form=form,
            _factor=factor,
        )

    @property
    def batch(self) -> tuple[int, ...]:
        return self.mean.shape[:-1]

    @property
    def dimension(self) -> int:
        """The number d of coordinates."""
        return int(self.mean.shape[-1])

    @property
    def support(self) -> str:
        return f"{self.dimension} finite numbers"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self._check_vectors(x)).all(axis=-1))

    def sufficient(self, x: ArrayLike) -> Array:
        return self._join_terms(self._check_vectors(x), 0.0)

    def log_base(self, x: ArrayLike) -> Array:
        return np.where(self.supports(x), -0.5 * self.dimension * LOG_2PI, -np.inf)

    def log_partition(self, natural: ArrayLike) -> Array:
        first, second = self._split_terms(floats(natural, "natural"))
        if self.form != "full":
            return np.asarray(quadratic_partition(first, np.broadcast_to(second, first.shape)).sum(axis=-1))
        precision, inside = Cholesky.factorise_definite(-2.0 * second)
        value = 0.5 * (precision.quadratic(first) - precision.log_determinant())
        return np.where(inside, value, np.inf)

    @property
    def natural(self) -> Array:
        if self._factor is None:
            variance = self._variance
            return np.concatenate([self.mean / variance, -0.5 / variance[..., : self._n_products]], axis=-1)
        precision = self._factor.inverse()
        half = -0.25 * (precision + np.swapaxes(precision, -1, -2))
        first = self._factor.solve(self.mean[..., None])[..., 0]
        return np.concatenate([first, half.reshape(*self.batch, -1)], axis=-1)

    @property
    def mean_parameters(self) -> Array:
        return self._join_terms(self.mean, self.covariance if self.form == "full" else self._variance)

    def with_natural(self, natural: ArrayLike) -> Self:
        first, second = self._split_terms(floats(natural, "natural"))
        if self.form != "full":
            variance = variance_of(second)
            return self._make_member(first * variance, variance)
        precision = Cholesky.of(-2.0 * second, "precision")
        return self._make_member(precision.solve(first[..., None])[..., 0], precision.inverse())

    def with_mean(self, mean: ArrayLike) -> Self:
        first, second = self._split_terms(floats(mean, "mean"))
        if self.form == "full":
            return self._make_member(first, second - first[..., :, None] * first[..., None, :])
        square = (first**2).sum(axis=-1, keepdims=True) if self.form == "spherical" else first**2
        return self._make_member(first, (second - square) / (self.dimension / self._n_products))

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        z = rng.standard_normal((*shape, self.dimension))
        step = np.sqrt(self._variance) * z if self._factor is None else self._factor.colour(z)
        return np.asarray(self.mean + step)

    def mean_log_base(self) -> Array:
        return np.full(self.batch, -0.5 * self.dimension * LOG_2PI)

    def log_density(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        with np.errstate(over="ignore"):  # where the square overflows, the density is 0
            step = np.where(inside[..., None], self._check_vectors(x), 0.0) - self.mean
            whitened = step / np.sqrt(self._variance) if self._factor is None else self._factor.whiten(step)
            square = np.square(whitened).sum(axis=-1)
        constant = self.dimension * LOG_2PI + self._log_determinant
        return np.where(inside, -0.5 * (constant + square), -np.inf)

    def entropy(self) -> Array:
        return np.asarray(0.5 * (self.dimension * (1.0 + LOG_2PI) + self._log_determinant))

    def _kl(self, other: Self) -> Array:
        """Half of |L₂⁻¹(μ₁ − μ₂)|² + Σ(m² − 1 − log m²) on the diagonal of M = L₂⁻¹L₁ + Σm² below it."""
        if other.form != self.form:
            raise ValueError(f"got forms {self.form!r} and {other.form!r}, expected the same: convert one")
        step = self.mean - other.mean
        if self._factor is None or other._factor is None:
            v1, v2 = self._variance, other._variance
            terms = log1p_gap((v1 - v2) / v2) + np.square(step) / v2
            return np.asarray(0.5 * terms.sum(axis=-1))
        lower1, lower2 = self._factor.lower, other._factor.lower
        d1, d2 = (np.diagonal(lower, axis1=-2, axis2=-1) for lower in (lower1, lower2))
        diagonal = log1p_gap((d1 - d2) * (d1 + d2) / d2**2)
        columns = Cholesky(lower2[..., None, :, :]).whiten(np.swapaxes(lower1, -1, -2))
        below = np.square(np.triu(columns, 1)).sum(axis=(-2, -1))
        return np.asarray(0.5 * (diagonal.sum(axis=-1) + below + other._factor.quadratic(step)))

    def observe(self, x: object, weights: object = None, by: object = None) -> Moments:
        """Sum x (n, *batch, d) to moments: full ones if the form is full, else diagonal ones."""
        values: Any = x if is_frame(x) else to_numpy(x)
        shape = np.shape(values)
        if len(shape) < 2 or shape[-1] != self.dimension:
            raise ValueError(
                f"got x of shape {shape}, expected rows of {self.dimension} numbers: (n, ..., d)"
            )
        if self.form != "full":
            return observe_columns(values, weights, by)
        if len(shape) == 2:
            return Moments.observe(values, weights, by, form="full")
        batch = shape[1:-1]
        members = [Moments.observe(values[:, *i], weights, by, form="full") for i in np.ndindex(batch)]
        return _stack_members(members, batch)

    def fit(self, statistic: Any) -> Self:
        """The maximum-likelihood member; a full covariance needs moments of the full form."""
        mean = check_statistic(statistic, Moments).mean
        if self.form == "full":
            return self._make_member(mean, statistic.covariance)
        if self.form == "spherical" and statistic.form == "diagonal":  # columns may have different weights
            weight = statistic.weight.value
            return type(self)(mean, statistic.scatter.sum(axis=-1) / weight.sum(axis=-1), self.form)
        return self._make_member(mean, statistic.variance)

    @property
    def _n_products(self) -> int:
        """The number of components of T(x) that follow x."""
        return {"full": self.dimension**2, "diagonal": self.dimension, "spherical": 1}[self.form]

    @property
    def _variance(self) -> Array:
        """The variance of each coordinate (*batch, d), for the diagonal and spherical forms."""
        return (
            self.covariance
            if self.form == "diagonal"
            else np.broadcast_to(self.covariance[..., None], self.mean.shape)
        )

    @property
    def _log_determinant(self) -> Array:
        if self._factor is not None:
            return self._factor.log_determinant()
        return np.asarray(np.log(self._variance).sum(axis=-1))

    def _make_member(self, mean: Array, covariance: Array) -> Self:
        """The member with this mean and covariance (..., d, d), or variances (..., d) in the other forms.

        The spherical form takes the mean of the variances.
        """
        if self.form == "spherical":
            return type(self)(mean, covariance.mean(axis=-1), self.form)
        return type(self)(mean, covariance, self.form)

    def _join_terms(self, first: Array, covariance: Array | float) -> Array:
        """Join x and its products or squares, as in T(x); `covariance` is added to these.

        It is (..., d, d) in the full form, (..., d) in the others, or 0.
        """
        if self.form == "full":
            products = first[..., :, None] * first[..., None, :] + covariance
            return np.concatenate([first, products.reshape(*first.shape[:-1], -1)], axis=-1)
        squares = first**2 + covariance
        if self.form == "spherical":
            squares = squares.sum(axis=-1, keepdims=True)
        return np.concatenate([first, squares], axis=-1)

    def _split_terms(self, terms: Array) -> tuple[Array, Array]:
        """Split (..., k) into the part of x (..., d) and the part of the squares.

        The latter is (..., d, d) in the full form, (..., d) in the diagonal and (..., 1) in the spherical
        form.
        """
        d = self.dimension
        if terms.ndim == 0 or terms.shape[-1] != d + self._n_products:
            raise ValueError(f"got parameters of shape {terms.shape}, expected (..., {d + self._n_products})")
        first, second = terms[..., :d], terms[..., d:]
        if self.form != "full":
            return first, second
        matrix = second.reshape(*terms.shape[:-1], d, d)
        return first, 0.5 * (matrix + np.swapaxes(matrix, -1, -2))

    def _check_vectors(self, x: ArrayLike) -> Array:
        return check_vectors(x, self.dimension, "x")


def _stack_members(members: list[Moments], batch: tuple[int, ...]) -> Moments:
    """Join the moments of all members, in row-major order of the batch, to one with these batch axes."""
    axis = 0 if members[0].keys is None else 1
    parts: dict[str, Any] = {}
    for name in members[0].parts():
        summands = [
            member.parts()[name]
            .reindex(lambda words: np.expand_dims(words, axis + 1))
            .place(np.array([index]), len(members), axis)
            for index, member in enumerate(members)
        ]
        sums = sum(summands[1:], start=summands[0])
        parts[name] = sums.reindex(
            lambda words: words.reshape(*words.shape[: axis + 1], *batch, *words.shape[axis + 2 :])
        )
    return replace(members[0], **parts)
