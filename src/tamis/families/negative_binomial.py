"""Negative binomial of a fixed size r: failures before r successes. T(x) = x, A(η) = −r log(1 − e^η).

h(x) = Γ(x + r) / (x! Γ(r)) and η = log(1 − p), as in the geometric family, whose size is 1.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families.conjugacy import ProbabilityFamily
from tamis.families.counts import draw_poisson, expect_over_counts, is_count
from tamis.families.family import check_positive_number, set_fields
from tamis.families.geometric import Geometric
from tamis.families.stirling import deviance, factorial_remainder, remainder

_GEOMETRIC = Geometric(0.5)  # any member: A(η) and ∇A(η), times the size, are those of this family


@dataclass(frozen=True, slots=True, eq=False)
class NegativeBinomial(ProbabilityFamily):
    """Counts 0, 1, 2, … that vary more than Poisson counts: with mean μ, their variance is μ + μ²/size.

    The size is given and never inferred; it need not be an integer. A size of 1 is the geometric family; as
    the size grows, the distribution approaches a Poisson distribution. SciPy's nbinom(n, p) has n = size and
    p = probability. At a probability of 1 the count is always 0, and η = −∞. The predictive distribution of a
    gamma prior is another class, `tamis.conjugate.NegativeBinomial`.

    >>> visits = NegativeBinomial(size=2).fit(NegativeBinomial(size=2).observe([0, 3, 9]))
    >>> round(float(visits.probability), 4), round(float(visits.density(4)), 4)
    (0.3333, 0.1097)
    """

    fixed: ClassVar[tuple[str, ...]] = ("size",)

    size: float
    probability: Array  # batch

    def __init__(self, size: float, probability: ArrayLike = 0.5) -> None:
        set_fields(
            self, size=check_positive_number(size, "size"), probability=Geometric(probability).probability
        )

    @property
    def support(self) -> str:
        return f"a count: 0, 1, 2, …, for a negative binomial of size {self.size:g}"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        return is_count(floats(x, "x"))

    def log_base(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        count = np.where(inside, floats(x, "x"), 0.0)
        # Γ(x + r) / (x! Γ(r)) = 1 / ((x + r) B(r, x + 1)), which is accurate for large counts, too
        return np.where(inside, -np.log(count + self.size) - special.betaln(self.size, count + 1.0), -np.inf)

    def log_partition(self, natural: ArrayLike) -> Array:
        return self.size * _GEOMETRIC.log_partition(natural)

    def mean_of(self, natural: ArrayLike) -> Array:
        return self.size * _GEOMETRIC.mean_of(natural)

    def natural_of(self, mean: ArrayLike) -> Array:
        return _GEOMETRIC.natural_of(floats(mean, "mean") / self.size)

    @property
    def natural(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-self.probability))[..., None]

    @property
    def mean_parameters(self) -> Array:
        return np.asarray(self.size * (1.0 - self.probability) / self.probability)[..., None]

    def with_natural(self, natural: ArrayLike) -> Self:
        return replace(self, probability=_GEOMETRIC.with_natural(natural).probability)

    def with_mean(self, mean: ArrayLike) -> Self:
        return replace(self, probability=_GEOMETRIC.with_mean(floats(mean, "mean") / self.size).probability)

    def count_outcomes(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Return the numbers of successes and of failures: each row has `size` successes."""
        return self.size * weight, total[..., 0]

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        odds = (1.0 - self.probability) / self.probability
        return draw_poisson(rng, rng.standard_gamma(self.size, shape) * odds, shape)

    def mean_log_base(self) -> Array:
        """E[log h(x)], computed from the entropy, in which large terms do not cancel."""
        inner = special.xlog1py(self.mean_parameters[..., 0], -self.probability)
        return np.asarray(-self.size * np.log(self.probability) - inner - self.entropy())

    def log_density(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        count = np.where(inside, floats(x, "x"), 0.0)
        return np.where(inside, _log_mass(count, np.asarray(self.size), self.probability), -np.inf)

    def entropy(self) -> Array:
        """The entropy has no closed form: it is a sum over counts, with an error below 1e-10."""
        entropies = np.zeros(self.batch)
        for index in np.ndindex(self.batch):
            p = self.probability[index]
            if p < 1:
                mean = float(self.size * (1.0 - p) / p)
                log_mass = partial(_log_mass, size=np.asarray(self.size), probability=p)
                entropies[index] = expect_over_counts(
                    log_mass, np.negative, mean, float(np.sqrt(mean / p)), -1.0 / float(np.log1p(-p))
                )
        return entropies

    def _kl(self, other: Self) -> Array:
        """The divergence of one trial times the expected number of trials."""
        p, q = self.probability, other.probability
        return np.asarray(self.size * (deviance(p, q) + deviance(1.0 - p, 1.0 - q)) / p)


def _log_mass(count: Array, size: Array, probability: Array) -> Array:
    """log p(count), also for fractional counts, over which `expect_over_counts` integrates."""
    p = probability
    step = size * (1.0 - p) - count * p  # size − (size + count) p
    loss = deviance(size, (size + count) * p, step) + deviance(count, (size + count) * (1.0 - p), -step)
    return np.asarray(remainder(size + count) - remainder(size) - factorial_remainder(count) - loss)
