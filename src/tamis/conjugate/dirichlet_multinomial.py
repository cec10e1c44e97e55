"""Dirichlet-multinomial: counts of categories among trials, whose probabilities are a belief."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array
from tamis.conjugate import simplex
from tamis.conjugate.beta_binomial import BetaBinomial
from tamis.conjugate.distribution import Distribution, counted, positive, shape_of, whole
from tamis.families.family import Size


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
        n, alpha = counted(trials, "trials"), positive(concentration, "concentration")
        batch = np.broadcast_shapes(n.shape, alpha.shape[:-1])
        object.__setattr__(self, "trials", np.broadcast_to(n, batch))
        object.__setattr__(self, "concentration", np.broadcast_to(alpha, (*batch, alpha.shape[-1])))

    @property
    def batch(self) -> tuple[int, ...]:
        return self.trials.shape

    @property
    def mean(self) -> Array:
        share = self.concentration / self.concentration.sum(axis=-1, keepdims=True)
        return np.asarray(self.trials[..., None] * share)

    @property
    def covariance(self) -> Array:
        """Cov[x] (*batch, K, K)."""
        strength = self.concentration.sum(axis=-1)
        share = self.concentration / strength[..., None]
        spread = self.trials * (strength + self.trials) / (strength + 1.0)
        single = np.eye(share.shape[-1]) * share[..., None] - share[..., :, None] * share[..., None, :]
        return np.asarray(spread[..., None, None] * single)

    def marginals(self) -> BetaBinomial:
        """Each category's count by itself, a batch (*batch, K)."""
        return BetaBinomial(self.trials[..., None], self.concentration, simplex.rest(self.concentration))

    def log_density(self, x: ArrayLike) -> Array:
        """log p(counts) for counts (..., K); −∞ unless they are whole and sum to the trials."""
        counts, value = whole(x)
        inside = counts.all(axis=-1) & (value.sum(axis=-1) == self.trials)
        return np.where(inside, simplex.log_mass(self.concentration, value), -np.inf)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        shares = draw_shares(self.concentration, rng, size)
        return np.asarray(rng.multinomial(self.trials.astype(np.int64), shares), dtype=np.float64)


def draw_shares(concentration: Array, rng: np.random.Generator, size: Size) -> Array:
    """Draws from a Dirichlet (*size, *batch, K): in logarithms, or small concentrations would underflow."""
    shape = shape_of(size, concentration.shape)
    # Γ(α) is Γ(α + 1) times a uniform to the power 1/α
    logs = np.log(rng.standard_gamma(concentration + 1.0, size=shape))
    logs = logs - rng.standard_exponential(shape) / concentration
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))
