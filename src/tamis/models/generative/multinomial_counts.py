"""counts → Tally by class → how often each column is the one that is counted: words in a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from tamis._kernels.threads import in_row_chunks
from tamis.arrays import Array
from tamis.families.stirling import log_rising
from tamis.models.generative import linear_scores
from tamis.models.generative.block import Block, Contrast, Density, Responsibilities
from tamis.models.generative.counting import (
    LARGEST,
    NoEvidenceError,
    are_counts,
    pseudo_counts,
    refuse_negative,
    refuse_negative_counts,
    tallied,
)
from tamis.models.generative.linear_scores import Rows
from tamis.stats import Exact, Keys, Labels, Tally
from tamis.tables import Sparse, Table

_TABLE = 1 << 20  # counts up to here have a table of their logarithms


@dataclass(frozen=True, kw_only=True)
class MultinomialCounts(Block[Rows, Tally]):
    """All columns together are counts of draws from one distribution a class.

    The density is that of the draws in their order: the number of orders, which is the same for every class,
    is left out. A missing count is refused: summed over what it may be, the probability of the other counts
    depends on how many draws a row has, of which the model says nothing.
    """

    kind: ClassVar[str] = "multinomial"

    alpha: ArrayLike = 1.0  # pseudo-counts, of every column or of each

    def encode(self, table: Table, learn: bool = True) -> Rows:
        if not learn and isinstance(table.data, np.ndarray):
            plain = table.numbers(self.columns)
            if isfinite(plain.sum()):  # as nearly always; one row feels each look at it
                return plain
        if self.columns is None and table.sparse is not None and are_counts(table.sparse.values):
            return table.sparse
        rows = self.sparse(table)
        values = self.values(table) if rows is None else rows.values
        least = values.min(initial=0.0)
        if np.isnan(least):
            _refuse_missing(values, table, self.places(table))
        if learn and least < 0:
            refuse_negative_counts(values, table, self.places(table))
        return values if rows is None else rows

    def admits(self, values: Array) -> bool:
        return bool(values.min() >= 0 and values.max() < LARGEST)  # not so if any is NaN

    def observe(
        self,
        rows: Rows,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Rows] | None = None,
    ) -> Tally:
        if isinstance(by, Responsibilities):
            return Tally.of(by.values.sum(axis=0), linear_scores.total(rows, by.values), by.keys)
        return tallied(rows, by, weights)

    def convert_sums(self, sums: Tally) -> Tally:
        return sums

    def infer(self, statistic: Tally, keys: Keys) -> Density[Rows]:
        seen = statistic.over(keys)
        alpha = pseudo_counts(self.alpha, seen.total.shape[-1])
        if self.estimate == "predictive":
            return Urn(keys, seen.total.value + alpha, alpha, seen)
        pseudo = {"mle": 0.0 * alpha, "map": alpha - 1.0, "mean": alpha}[self.estimate]
        logs = log_shares(seen.total, pseudo)
        certain = not pseudo.min(initial=1.0) > 0 and bool(np.isneginf(logs).any())
        return Draws(keys, logs, seen, alpha, certain)

    def refuse_impossible(self, statistic: Tally) -> None:
        refuse_negative(statistic)


def _refuse_missing(values: Array, table: Table, columns: Sequence[int]) -> None:
    """Raise for the first count that is NaN, naming its place if the rows are dense."""
    wrong = np.argwhere(np.isnan(values))[0].tolist()
    dense = len(wrong) == 2
    place = (
        f"{table.name(columns[wrong[1]])} holds NaN in row {wrong[0]}" if dense else "the matrix holds NaN"
    )
    raise ValueError(
        f"{place}, expected counts: a multinomial has no probability of some of its counts alone; fill in 0 "
        "if nothing was counted, drop the row, or use a Poisson family, which leaves missing counts out"
    )


def log_shares(total: Exact, pseudo: Array) -> Array:
    """log of the shares of each row of totals and pseudo-counts (K, d); a row of nothing says nothing."""
    if (found := _log_shares_of_integers(total, pseudo)) is not None:
        return found
    counts = total.value + pseudo
    if (counts < 0).any():
        raise ValueError(
            "estimate='map' needs alpha of at least 1 where a count is 0: raise it, or use 'mean'"
        )
    whole = counts.sum(axis=-1, keepdims=True)
    even = np.where(whole > 0, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts + even) - np.log(whole + even * counts.shape[-1]))


def _log_shares_of_integers(total: Exact, pseudo: Array) -> Array | None:
    """As above, by a table of logarithms: whole numbers repeat; None if they are not whole, or too large."""
    words = total.words[0]
    if (
        total.low != 0
        or len(total.words) > 1
        or not words.size
        or pseudo.min() != pseudo.max()
        or pseudo[0] < 0
    ):
        return None
    most = int(words.view(np.uint64).max())  # of a negative number, very large
    if most > _TABLE:
        return None
    with np.errstate(divide="ignore"):
        table = np.log(np.arange(most + 1) + pseudo[0])
        whole = np.log(words.sum(axis=-1) + pseudo[0] * words.shape[-1])
    logs = np.empty(words.shape)

    def fill(start: int, stop: int) -> None:
        rows = slice(start, stop)
        np.take(table, words[rows], out=logs[rows], mode="clip")
        logs[rows] -= np.where(np.isneginf(whole[rows]), 0.0, whole[rows])[:, None]

    in_row_chunks(len(words), words.size, fill)
    logs[np.isneginf(whole)] = -np.log(words.shape[-1])
    return logs


@dataclass(frozen=True, slots=True, eq=False)
class Draws(Density[Rows]):
    """Shares that are known: the score of a row is linear in its counts."""

    keys: Keys
    log_shares: Array  # (K, d)
    seen: Tally
    alpha: Array  # (d,)
    certain: bool  # whether any share is 0

    def scores(self, rows: Rows) -> Array:
        return linear_scores.scores(rows, self.log_shares, self.certain)

    def contrasts(self, rows: Rows, for_: int, against: int) -> Contrast:
        with np.errstate(invalid="ignore"):
            factors = self.log_shares[for_] - self.log_shares[against]
        n = len(rows)
        factors = np.where(np.isnan(factors), 0.0, factors)  # impossible in both
        return Contrast(linear_scores.products(rows, factors), np.zeros(n))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        return _draws(rng, np.exp(self.log_shares[group]), _lengths(self.seen)[group])

    def log_evidence(self) -> float:
        return _log_evidence(self.seen.total.value, self.alpha)


@dataclass(frozen=True, slots=True, eq=False)
class Urn(Density[Rows]):
    """Shares that are integrated out: each draw makes the next of its kind likelier (Pólya's urn)."""

    keys: Keys
    concentration: Array  # (K, d)
    alpha: Array  # (d,)
    seen: Tally

    def scores(self, rows: Rows) -> Array:
        found = np.empty((len(rows), len(self.keys)))
        for k in range(len(self.keys)):
            terms, rest = self._terms(rows, k)
            found[:, k] = np.asarray(terms.sum(axis=1)).ravel() + rest
        return found

    def contrasts(self, rows: Rows, for_: int, against: int) -> Contrast:
        (ours, our_rest), (theirs, their_rest) = self._terms(rows, for_), self._terms(rows, against)
        return Contrast(ours - theirs, our_rest - their_rest)

    def _terms(self, rows: Rows, k: int) -> tuple[Any, Array]:
        """log Γ(a_j + x_j) / Γ(a_j) of each column, and −log of that of the totals."""
        own = self.concentration[k]
        if isinstance(rows, Sparse):
            terms = rows.matrix().copy()
            terms.sum_duplicates()
            terms.data = log_rising(own[terms.indices], terms.data)
            length = np.asarray(rows.matrix().sum(axis=1)).ravel()
        else:
            terms = log_rising(own, rows)
            length = rows.sum(axis=1)
        return terms, -log_rising(np.broadcast_to(own.sum(), length.shape), length)

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        shares = np.stack([rng.dirichlet(np.maximum(self.concentration[k], 1e-12)) for k in group])
        return _draws(rng, shares, _lengths(self.seen)[group])

    def log_evidence(self) -> float:
        return _log_evidence(self.seen.total.value, self.alpha)


def _lengths(seen: Tally) -> Array:
    """The mean number of draws a row, of each class (K,)."""
    weight = seen.weight.value
    return np.asarray(seen.total.value.sum(axis=-1) / np.where(weight > 0, weight, 1.0))


def _draws(rng: np.random.Generator, shares: Array, lengths: Array) -> Sequence[NDArray[Any]]:
    """A row for each of the shares (n, d), its length a Poisson number about the class's mean length."""
    found = [
        rng.multinomial(rng.poisson(mean), row / row.sum()) for row, mean in zip(shares, lengths, strict=True)
    ]
    return list(np.array(found, dtype=np.float64).reshape(shares.shape).T)


def _log_evidence(counts: Array, alpha: Array) -> float:
    """Of the draws in their order: Σ log Γ(α+n)/Γ(α) − log Γ(Σα+N)/Γ(Σα), over classes."""
    if not (alpha > 0).all():
        raise NoEvidenceError("there is no evidence without a prior: got alpha=0, expected above 0")
    whole = float(alpha.sum())
    rising = gammaln(counts + alpha).sum() - len(counts) * gammaln(alpha).sum()
    return float(rising - (gammaln(counts.sum(axis=1) + whole) - gammaln(whole)).sum())
