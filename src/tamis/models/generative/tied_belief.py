"""a normal–inverse-Wishart prior and full Moments by class → a belief in means that share one covariance."""

from typing import NamedTuple

import numpy as np

from tamis.arrays import Array
from tamis.conjugate import MultivariateT, NormalInverseWishart, normals
from tamis.linalg import Cholesky
from tamis.stats import Moments

_LOG_PI = float(np.log(np.pi))


def expected_covariance(scale: Array, freedom: Array, d: int) -> Array:
    """E[covariance] of an inverse Wishart; where it is infinite, the scale by the freedom that is left."""
    left = freedom - (d + 1.0)
    return np.asarray(scale / np.where(left > 0, left, freedom - (d - 1.0)))


class TiedBelief(NamedTuple):
    """Belief in one covariance, and in means that are normal about their locations given it."""

    location: Array  # (K, d)
    strength: Array  # (K,)
    freedom: Array  # ()
    scale: Array  # (d, d)
    seen: int  # classes of which there were rows

    def covariance(self, most_probable: bool) -> Array:
        """Each mean that was updated has a density with |Σ|^(−½), which the mode of all together counts."""
        d = len(self.scale)
        if most_probable:
            return np.asarray(self.scale / (self.freedom + d + 1.0 + self.seen))
        return expected_covariance(self.scale, self.freedom, d)

    def predictive(self) -> MultivariateT:
        freedom = self.freedom - (len(self.scale) - 1.0)
        spread = (1.0 + 1.0 / self.strength) / freedom
        return MultivariateT(freedom, self.location, spread[:, None, None] * self.scale)


def _gathered(belief: NormalInverseWishart, seen: Moments) -> normals.Gathered:
    weight = seen.weight.reindex(lambda words: words[..., None])
    shift = normals.shift_of(weight, seen.first, belief.location)
    return normals.gathered(belief.strength, seen.weight.value, shift, seen.scatter)


def update_tied(belief: NormalInverseWishart, seen: Moments) -> TiedBelief:
    data = _gathered(belief, seen)
    total = belief.strength + data.weight
    return TiedBelief(
        belief.location + (data.weight / total)[:, None] * data.shift,
        total,
        belief.freedom + data.weight.sum(),
        belief.scale + data.growth.sum(axis=0),
        int((data.weight > 0).sum()),
    )


def tied_evidence(belief: NormalInverseWishart, seen: Moments) -> float:
    """|S + W + UUᵀ| by the determinant lemma: means far from the location then cost no digits."""
    data = _gathered(belief, seen)
    d, n = belief.dimension, data.weight.sum()
    within = data.scatter.sum(axis=0)
    spread = Cholesky.of(belief.scale + within, "scale matrix with the scatter")
    levers = spread.whiten(np.sqrt(data.pull)[:, None] * data.shift)  # (K, d)
    products = levers @ levers.T if len(levers) < d else levers.T @ levers
    rise = (
        normals.log_determinant_rise(belief.factor, belief.scale, within)
        + Cholesky.of(np.eye(len(products)) + products).log_determinant()
    )
    return float(
        normals.log_multigamma_rise(belief.freedom, n, d)
        - 0.5 * (belief.freedom + n) * rise
        - 0.5 * n * (belief.factor.log_determinant() + d * _LOG_PI)
        - 0.5 * d * np.log1p(data.weight / belief.strength).sum()
    )
