"""What a conjugate prior is: a belief that a statistic updates, and all that follows from its normalizer.

A prior is a statistic that nobody observed: ν pseudo-observations of mean χ. `update` adds the statistic that
somebody did observe. A prior's file gives `update`, `log_normalizer` and the shape of the belief; this file
derives the evidence, and hyper-parameters from groups by evidence. An object may be a batch of beliefs: its
parameters are arrays, and a statistic with the same batch axes updates each.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from tamis.arrays import Array
from tamis.families.family import Size

Interval = tuple[Array, Array]


class Prior(ABC):
    """A belief about parameters, or a batch of beliefs. Before data or after: a posterior is one too."""

    @property
    @abstractmethod
    def batch(self) -> tuple[int, ...]:
        """The shape of the batch."""

    @abstractmethod
    def update(self, statistic: Any, /) -> Self:
        """The belief after the statistic was observed."""

    @abstractmethod
    def log_normalizer(self) -> Array:
        """log ∫ exp(η·νχ − νA(η)): the log-evidence of a statistic is the difference of two of these."""

    def log_evidence(self, statistic: Any, log_base: float = 0.0) -> Array:
        """log p(data) with the parameters integrated out (*batch,).

        `log_base` is Σ log h(x) of the data, the part that no parameter changes and a statistic does not keep:
        0 for bits, categories and waiting times; `Poisson(1).log_base(x).sum()` for counts.
        """
        return np.asarray(self.update(statistic).log_normalizer() - self.log_normalizer() + log_base)

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size = ()) -> Any:
        """Independent draws of the parameters (*size, *batch, …)."""

    @abstractmethod
    def kl(self, other: Self) -> Array:
        """KL(self ‖ other) in nats (*batch,)."""
