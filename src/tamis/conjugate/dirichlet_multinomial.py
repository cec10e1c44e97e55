"""Dirichlet-multinomial: counts of categories whose probabilities have a Dirichlet distribution."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array
from tamis.conjugate import simplex
from tamis.conjugate.beta_binomial import BetaBinomial
from tamis.conjugate.distribution import (
    Distribution,
    broadcast_parameters,
    check_counts,
    mask_counts,
    shape_of,
    to_integers,
)
from tamis.families.family import Size, check_generator, check_positive, check_vectors, set_fields
from tamis.families.normalizers import sum_of_others


@dataclass(frozen=True, slots=True, eq=False)
class DirichletMultinomial(Distribution):
    """Counts of K categories among `trials`, with probabilities drawn once from a Dirichlet.

    >>> words = DirichletMultinomial(2, [1, 1, 1])
    >>> words.mean.round(3).tolist(), round(float(words.density([2, 0, 0])), 4)
    ([0.667, 0.667, 0.667], 0.1667)
    """

    trials: Array  # batch
    concentration: Array  # batch + (K,)

    def __init__(self, trials: ArrayLike, concentration: ArrayLike) -> None:
        alpha = check_concentration(concentration)
        n, alpha = broadcast_parameters(trials=check_counts(trials, "trials")[..., None], concentration=alpha)
        set_fields(self, trials=n[..., 0], concentration=alpha)

    @property
    def mean(self) -> Array:
        probabilities = self.concentration / self.concentration.sum(axis=-1, keepdims=True)
        return np.asarray(self.trials[..., None] * probabilities)

    @property
    def covariance(self) -> Array:
        """Cov[x] (*batch, K, K)."""
        strength = self.concentration.sum(axis=-1)
        probabilities = self.concentration / strength[..., None]
        factor = self.trials * (strength + self.trials) / (strength + 1.0)
        of_one_trial = (
            np.eye(probabilities.shape[-1]) * probabilities[..., None]
            - probabilities[..., :, None] * probabilities[..., None, :]
        )
        return np.asarray(factor[..., None, None] * of_one_trial)

    def marginals(self) -> BetaBinomial:
        """The marginal distribution of each category's count, a batch (*batch, K)."""
        return BetaBinomial(self.trials[..., None], self.concentration, sum_of_others(self.concentration))

    def log_density(self, x: ArrayLike) -> Array:
        """log p(counts) for counts (..., K); −∞ unless they are whole and sum to the trials."""
        counts, value = mask_counts(check_vectors(x, self.concentration.shape[-1], "counts"))
        inside = counts.all(axis=-1) & (value.sum(axis=-1) == self.trials)
        return np.where(inside, simplex.log_mass(self.concentration, value), -np.inf)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        probabilities = draw_probabilities(self.concentration, rng, size)
        return np.asarray(rng.multinomial(to_integers(self.trials), probabilities), dtype=np.float64)


def check_concentration(concentration: ArrayLike) -> Array:
    """Return the concentrations (..., K); raise unless they are positive, one per category."""
    alpha = check_positive(concentration, "concentration")
    if alpha.ndim == 0 or alpha.shape[-1] < 1:
        raise ValueError(f"got a concentration of shape {alpha.shape}, expected one number per category")
    return alpha


def draw_probabilities(concentration: Array, rng: np.random.Generator, size: Size) -> Array:
    """Draw from a Dirichlet distribution (*size, *batch, K).

    Logarithms are drawn, because for a small concentration the gamma variables themselves underflow to 0.
    """
    shape = shape_of(size, concentration.shape)
    # A gamma variable of shape α is one of shape α + 1, times a uniform variable to the power 1/α.
    logs = np.log(check_generator(rng).standard_gamma(concentration + 1.0, size=shape))
    logs = logs - rng.standard_exponential(shape) / concentration
    probabilities = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(probabilities / probabilities.sum(axis=-1, keepdims=True))
