"""Counts → Tally (sums) by class → the probability of each column in a draw, such as of a word in a text."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from tamis.arrays import Array
from tamis.families.stirling import log_rising
from tamis.models.generative.block import Block, Contrast, Density, Responsibilities, subtract_logs
from tamis.models.generative.counting import (
    MAX_COUNT,
    NoEvidenceError,
    Rows,
    are_counts,
    check_pseudo_counts,
    choose_pseudo_counts,
    multiply_columns,
    refuse_missing_prior,
    refuse_negative_counts,
    refuse_negative_sums,
    score_linearly,
    sum_by_responsibilities,
    sum_counts,
)
from tamis.stats import Exact, Keys, Labels, Tally
from tamis.tables import Sparse, Table
from tamis.threads import map_row_chunks

_MAX_TABULATED = 1 << 20  # if no count is larger, logarithms of counts are tabulated


@dataclass(frozen=True, kw_only=True)
class MultinomialCounts(Block[Rows, Tally]):
    """All columns together are multinomial: counts of draws from one distribution per class.

    The density is that of the draws in their order: the multinomial coefficient, which is the same for every
    class, is left out. A missing count raises an error: the probability of the other counts depends on the
    number of draws in the row, which the model does not describe.
    """

    kind: ClassVar[str] = "multinomial"

    alpha: ArrayLike = 1.0  # the pseudo-count of all columns, or of each column (d,)

    def encode(self, table: Table, learn: bool = True) -> Rows:
        if not learn and isinstance(table.data, np.ndarray):
            numbers = table.numbers(self.columns)
            # This is the usual case; for a single row, each further check takes measurable time.
            if isfinite(numbers.sum()):
                return numbers
        if self.columns is None and table.sparse is not None and are_counts(table.sparse.values):
            return table.sparse
        rows = self.sparse(table)
        values = self.values(table) if rows is None else rows.values
        smallest = values.min(initial=0.0)
        if np.isnan(smallest):
            _refuse_missing(values, table, self.column_indices(table))
        if learn and smallest < 0:
            refuse_negative_counts(values, table, self.column_indices(table))
        return values if rows is None else rows

    def admits(self, values: Array) -> bool:
        return bool(values.min() >= 0 and values.max() < MAX_COUNT)  # False if any value is NaN

    def observe(
        self,
        rows: Rows,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Rows] | None = None,
    ) -> Tally:
        if isinstance(by, Responsibilities):
            return Tally.of(by.values.sum(axis=0), sum_by_responsibilities(rows, by.values), by.keys)
        return sum_counts(rows, by, weights)

    def add_row(self, statistic: Tally, row: Rows, label: Hashable, weight: float) -> Tally | None:
        return None if isinstance(row, Sparse) else statistic.add_row(row[0], label, weight)

    def convert_sums(self, sums: Tally) -> Tally:
        return sums  # the weight and the sums of each class are the statistic of this block

    def infer(self, statistic: Tally, keys: Keys) -> Density[Rows]:
        class_sums = statistic.over(keys)
        alpha = check_pseudo_counts(self.alpha, class_sums.total.shape[-1])
        if self.estimate == "predictive":
            return Urn(keys, class_sums.total.value + alpha, alpha, class_sums)
        pseudo = choose_pseudo_counts(self.estimate, alpha)
        logs = log_probabilities(class_sums.total, pseudo)
        has_zeros = not pseudo.min(initial=1.0) > 0 and bool(np.isneginf(logs).any())
        return PointMultinomial(keys, logs, class_sums, alpha, has_zeros)

    def count_parameters(self, density: Any) -> int:
        return len(density.keys) * (int(density.alpha.shape[0]) - 1)

    @property
    def type_of_draws(self) -> type[np.generic]:
        return np.int64

    def refuse_impossible(self, statistic: Tally) -> None:
        refuse_negative_sums(statistic)


def _refuse_missing(values: Array, table: Table, columns: Sequence[int]) -> None:
    """Raise for the first count that is NaN, naming its row and column if the rows are dense."""
    index = np.argwhere(np.isnan(values))[0].tolist()
    dense = len(index) == 2
    problem = (
        f"{table.describe(columns[index[1]])} holds NaN in row {index[0]}"
        if dense
        else "the matrix holds NaN"
    )
    raise ValueError(
        f"{problem}, expected counts: a multinomial has no probability of some of its counts alone; fill in "
        "0 if nothing was counted, drop the row, or use a Poisson family, which leaves missing counts out"
    )


def log_probabilities(total: Exact, pseudo: Array) -> Array:
    """The log-probabilities of columns (K, d), from their totals plus pseudo-counts.

    They are uniform where the sum of these over columns is 0.
    """
    if (logs := _log_probabilities_of_integers(total, pseudo)) is not None:
        return logs
    counts = total.value + pseudo
    if (counts < 0).any():
        raise ValueError(
            "estimate='map' needs alpha of at least 1 where a count is 0: raise it, or use 'mean'"
        )
    sums = counts.sum(axis=-1, keepdims=True)
    uniform = np.where(sums > 0, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts + uniform) - np.log(sums + uniform * counts.shape[-1]))


def _log_probabilities_of_integers(total: Exact, pseudo: Array) -> Array | None:
    """Compute `log_probabilities` by a table of logarithms; None unless all sums are small integers."""
    words = total.words[0]
    if (
        total.low != 0
        or len(total.words) > 1
        or not words.size
        or pseudo.min() != pseudo.max()
        or pseudo[0] < 0
    ):
        return None
    largest = int(words.view(np.uint64).max())  # a negative number read as unsigned is very large
    if largest > _MAX_TABULATED:
        return None
    with np.errstate(divide="ignore"):
        table = np.log(np.arange(largest + 1) + pseudo[0])
        log_sums = np.log(words.sum(axis=-1) + pseudo[0] * words.shape[-1])
    logs = np.empty(words.shape)

    def fill(start: int, stop: int) -> None:
        rows = slice(start, stop)
        np.take(table, words[rows], out=logs[rows], mode="clip")
        logs[rows] -= np.where(np.isneginf(log_sums[rows]), 0.0, log_sums[rows])[:, None]

    map_row_chunks(len(words), words.size, fill)
    logs[np.isneginf(log_sums)] = -np.log(words.shape[-1])
    return logs


@dataclass(frozen=True, slots=True, eq=False)
class PointMultinomial(Density[Rows]):
    """A multinomial with point estimates of its probabilities: the score is linear in the counts."""

    keys: Keys
    log_probabilities: Array  # (K, d)
    class_sums: Tally
    alpha: Array  # (d,): the pseudo-counts of the prior
    has_zeros: bool  # whether any probability is 0

    def scores(self, rows: Rows) -> Array:
        return score_linearly(rows, self.log_probabilities, self.has_zeros)

    def contrasts(self, rows: Rows, for_: int, against: int) -> Contrast:
        factors = subtract_logs(self.log_probabilities[for_], self.log_probabilities[against])
        return Contrast(multiply_columns(rows, factors), np.zeros(len(rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        return _draw_counts(rng, np.exp(self.log_probabilities[group]), _mean_lengths(self.class_sums)[group])

    def log_evidence(self) -> float:
        return _log_evidence(self.class_sums.total.value, self.alpha)


@dataclass(frozen=True, slots=True, eq=False)
class Urn(Density[Rows]):
    """A multinomial with its probabilities integrated out (Dirichlet-multinomial, Pólya's urn)."""

    keys: Keys
    concentration: Array  # (K, d)
    alpha: Array  # (d,)
    class_sums: Tally

    def scores(self, rows: Rows) -> Array:
        scores = np.empty((len(rows), len(self.keys)))
        for k in range(len(self.keys)):
            terms, rest = self._terms(rows, k)
            scores[:, k] = np.asarray(terms.sum(axis=1)).ravel() + rest
        return scores

    def contrasts(self, rows: Rows, for_: int, against: int) -> Contrast:
        (terms, rest), (other_terms, other_rest) = self._terms(rows, for_), self._terms(rows, against)
        return Contrast(terms - other_terms, rest - other_rest)

    def _terms(self, rows: Rows, k: int) -> tuple[Any, Array]:
        """log Γ(a + x)/Γ(a) of each column (n, d), and minus the same of the sums over columns (n,).

        a are the concentrations of the class of index k.
        """
        concentration = self.concentration[k]
        if isinstance(rows, Sparse):
            terms = rows.matrix().copy()
            terms.sum_duplicates()
            terms.data = log_rising(concentration[terms.indices], terms.data)
            length = np.asarray(rows.matrix().sum(axis=1)).ravel()
        else:
            terms = log_rising(concentration, rows)
            length = rows.sum(axis=1)
        return terms, -log_rising(np.broadcast_to(concentration.sum(), length.shape), length)

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        probabilities = np.stack([rng.dirichlet(np.maximum(self.concentration[k], 1e-12)) for k in group])
        return _draw_counts(rng, probabilities, _mean_lengths(self.class_sums)[group])

    def log_evidence(self) -> float:
        return _log_evidence(self.class_sums.total.value, self.alpha)


def _mean_lengths(class_sums: Tally) -> Array:
    """The mean number of draws per row, of each class (K,)."""
    weight = class_sums.weight.value
    return np.asarray(class_sums.total.value.sum(axis=-1) / np.where(weight > 0, weight, 1.0))


def _draw_counts(rng: np.random.Generator, probabilities: Array, lengths: Array) -> Sequence[NDArray[Any]]:
    """Draw a row of counts per row of probabilities (n, d), and return the d columns.

    The number of draws in a row has a Poisson distribution, whose mean is the row's entry of `lengths` (n,).
    """
    counts = [
        rng.multinomial(rng.poisson(mean), row / row.sum())
        for row, mean in zip(probabilities, lengths, strict=True)
    ]
    return list(np.array(counts, dtype=np.float64).reshape(probabilities.shape).T)


def _log_evidence(counts: Array, alpha: Array) -> float:
    """The log-evidence of the draws in their order: Σ log Γ(α+n)/Γ(α) − log Γ(Σα+N)/Γ(Σα), over classes."""
    refuse_missing_prior(bool((alpha > 0).all()))
    total = float(alpha.sum())
    rising = gammaln(counts + alpha).sum() - len(counts) * gammaln(alpha).sum()
    return float(rising - (gammaln(counts.sum(axis=1) + total) - gammaln(total)).sum())


@dataclass(frozen=True, kw_only=True)
class ComplementCounts(MultinomialCounts):
    """Complement naive Bayes: the weights of a class come from the counts of all other classes.

    It is meant for classes of unequal size (Rennie and others 2003). Its scores are not densities, so that
    the model has no log-evidence and its classes have no prior.
    """

    kind: ClassVar[str] = "complement"

    norm: bool = False  # whether the weights of each class are divided by their sum

    def infer(self, statistic: Tally, keys: Keys) -> Density[Rows]:
        class_sums = statistic.over(keys)
        counts = class_sums.total.value
        alpha = check_pseudo_counts(self.alpha, counts.shape[-1])
        others = counts.sum(axis=0) + alpha - counts
        # A single class has no complement.
        others = np.where(others.sum(axis=1, keepdims=True) > 0, others, 1.0)
        if (others == 0).any():
            label, column = np.argwhere(others == 0)[0].tolist()
            raise ValueError(
                f"column {column} has counts in no class but {keys[label]!r}, whose weight is infinite with "
                "alpha=0, expected alpha above 0"
            )
        weights = -np.log(others / others.sum(axis=1, keepdims=True))
        if self.norm:
            sums = weights.sum(axis=1, keepdims=True)
            weights = weights / np.where(sums > 0, sums, 1.0)  # the weight of a single column is 0
        return Complement(keys, weights, class_sums, alpha, has_zeros=True)


class Complement(PointMultinomial):
    """Scores that are linear in the counts, with weights in place of log-probabilities."""

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        raise ValueError(
            "complement naive Bayes cannot draw rows, because it is not a model of the counts: use "
            "MultinomialNB"
        )

    def log_evidence(self) -> float:
        raise NoEvidenceError("complement naive Bayes has no evidence: it is not a model of the counts")
