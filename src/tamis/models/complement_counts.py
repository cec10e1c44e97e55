"""counts → Tally by class → what speaks against every other class (Rennie and others, 2003)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.models.block import Density
from tamis.models.counting import NoEvidenceError
from tamis.models.linear_scores import Rows
from tamis.models.multinomial_counts import Draws, MultinomialCounts, pseudo_counts
from tamis.stats import Keys, Tally


@dataclass(frozen=True, kw_only=True)
class ComplementCounts(MultinomialCounts):
    """Weights from the counts of all other classes: steadier where classes differ in size.

    Its scores are no densities, so the model has no evidence and its classes no prior.
    """

    kind: ClassVar[str] = "complement"

    norm: bool = False  # whether the weights of each class are divided by their sum

    def infer(self, statistic: Tally, keys: Keys) -> Density[Rows]:
        seen = statistic.over(keys)
        counts = seen.total.value
        alpha = pseudo_counts(self.alpha, counts.shape[-1])
        others = counts.sum(axis=0) + alpha - counts
        others = np.where(
            others.sum(axis=1, keepdims=True) > 0, others, 1.0
        )  # of no others, nothing is known
        with np.errstate(divide="ignore"):
            logs = np.log(others / others.sum(axis=1, keepdims=True))
        weights = logs / logs.sum(axis=1, keepdims=True) if self.norm else -logs
        return Complement(keys, weights, seen, alpha, certain=True)


class Complement(Draws):
    """Linear weights in the place of log-shares."""

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        raise ValueError(
            "complement naive Bayes has no rows to draw, for it is no model of the counts: use MultinomialNB"
        )

    def log_evidence(self) -> float:
        raise NoEvidenceError("complement naive Bayes has no evidence: it is no model of the counts")
