"""counts → Tally by class → what speaks against every other class (Rennie and others, 2003)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.models.generative.block import Density
from tamis.models.generative.counting import NoEvidenceError, pseudo_counts
from tamis.models.generative.linear_scores import Rows
from tamis.models.generative.multinomial_counts import Draws, MultinomialCounts
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
        if (others == 0).any():
            label, column = np.argwhere(others == 0)[0].tolist()
            raise ValueError(
                f"column {column} has counts in no class but {keys[label]!r}, whose weight is infinite with "
                "alpha=0, expected alpha above 0"
            )
        weights = -np.log(others / others.sum(axis=1, keepdims=True))
        if self.norm:
            whole = weights.sum(axis=1, keepdims=True)
            weights = weights / np.where(whole > 0, whole, 1.0)  # a single column weighs 0, divided or not
        return Complement(keys, weights, seen, alpha, certain=True)


class Complement(Draws):
    """Linear weights in the place of log-shares."""

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        raise ValueError(
            "complement naive Bayes has no rows to draw, for it is no model of the counts: use MultinomialNB"
        )

    def log_evidence(self) -> float:
        raise NoEvidenceError("complement naive Bayes has no evidence: it is no model of the counts")
