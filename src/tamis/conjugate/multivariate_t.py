"""Multivariate t: a normal vector whose mean and covariance have a normal–inverse-Wishart distribution."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array
from tamis.conjugate import normals
from tamis.conjugate.distribution import Distribution
from tamis.conjugate.student_t import StudentT, log_one_plus_square, log_t_normalizer
from tamis.families.family import (
    Size,
    check_generator,
    check_positive,
    check_vectors,
    freeze_parameter,
    set_fields,
)
from tamis.linalg import Cholesky


@dataclass(frozen=True, slots=True, eq=False)
class MultivariateT(Distribution):
    """A t distribution of vectors, with `freedom` degrees of freedom.

    The scale is a matrix that is proportional to the covariance scale · ν / (ν − 2), for a freedom ν > 2.

    >>> MultivariateT(4, [0, 0], np.eye(2)).covariance.tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    freedom: Array  # batch
    location: Array  # batch + (d,)
    scale: Array  # batch + (d, d)
    factor: Cholesky = field(repr=False)  # of the scale

    def __init__(self, freedom: ArrayLike, location: ArrayLike, scale: ArrayLike) -> None:
        nu = freeze_parameter(check_positive(freedom, "freedom"), "freedom")
        centre, matrix, lower = normals.check_location_and_scale(location, scale)
        d = centre.shape[-1]
        batch = np.broadcast_shapes(nu.shape, centre.shape[:-1], matrix.shape[:-2])
        set_fields(
            self,
            freedom=np.broadcast_to(nu, batch),
            location=np.broadcast_to(centre, (*batch, d)),
            scale=np.broadcast_to(matrix, (*batch, d, d)),
            factor=Cholesky(np.broadcast_to(lower, (*batch, d, d))),
        )

    @property
    def mean(self) -> Array:
        return np.where(self.freedom[..., None] > 1, self.location, np.nan)

    @property
    def covariance(self) -> Array:
        """Cov[x] (*batch, d, d).

        With a freedom of 2 or less its diagonal is ∞ and the rest is NaN; with a freedom of 1 or less the
        mean does not exist, and everything is NaN, as in `StudentT`.
        """
        finite = self.freedom > 2
        infinite = np.where(self.freedom > 1, np.inf, np.nan)
        factor = np.where(finite, self.freedom / np.where(finite, self.freedom - 2.0, 1.0), infinite)
        return normals.scale_matrix(factor, self.scale)

    def marginals(self) -> StudentT:
        """The marginal distribution of each coordinate, a batch (*batch, d)."""
        variances = np.diagonal(self.scale, axis1=-2, axis2=-1)
        return StudentT(self.freedom[..., None], self.location, np.sqrt(variances))

    def log_density(self, x: ArrayLike) -> Array:
        d = self.location.shape[-1]
        value = check_vectors(x, d, "x")
        inside = np.asarray(np.isfinite(value).all(axis=-1))
        standard = self.factor.whiten(np.where(inside[..., None], value, 0.0) - self.location)
        deviation = np.sqrt(np.square(standard).sum(axis=-1) / self.freedom)
        density = (
            log_t_normalizer(self.freedom, d)
            - 0.5 * self.factor.log_determinant()
            - 0.5 * (self.freedom + d) * log_one_plus_square(deviation)
        )
        return np.where(inside, density, -np.inf)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        shape, rng = self._shape(size), check_generator(rng)
        normal = self.factor.colour(rng.standard_normal((*shape, self.location.shape[-1])))
        divisor = np.sqrt(rng.chisquare(self.freedom, size=shape) / self.freedom)
        return np.asarray(self.location + normal / divisor[..., None])
