"""counts → Tally by class → what speaks against every other class (Rennie and others, 2003)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tamis.models.block import Density
from tamis.models.linear_scores import Rows
from tamis.models.multinomial_counts import Draws, MultinomialCounts, NoEvidenceError, pseudo_counts
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
        counts, weight = seen.total.value, seen.weight.value
        alpha = pseudo_counts(self.alpha, counts.shape[-1])
        others = counts.sum(axis=0) + alpha - counts
        with np.errstate(divide="ignore"):
            logs = np.log(others / others.sum(axis=1, keepdims=True))
        weights = logs / logs.sum(axis=1, keepdims=True) if self.norm else -logs
        lengths = counts.sum(axis=-1) / np.where(weight > 0, weight, 1.0)
        return Complement(keys, weights, counts, alpha, lengths, certain=True)


class Complement(Draws):
    """Linear weights in the place of log-shares."""

    def log_evidence(self) -> float:
        raise NoEvidenceError("complement naive Bayes has no evidence: it is no model of the counts")
