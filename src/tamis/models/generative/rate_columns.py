"""Flags or counts → Σx by class → a Bernoulli or Poisson distribution per class and column."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from tamis.arrays import Array
from tamis.conjugate import Beta, Gamma
from tamis.families.stirling import log_rising
from tamis.models.generative.block import (
    Block,
    ColumnDensity,
    Contrast,
    Density,
    Responsibilities,
    subtract_logs,
)
from tamis.models.generative.counting import (
    MAX_COUNT,
    Rows,
    check_pseudo_counts,
    choose_pseudo_counts,
    multiply_columns,
    refuse_missing_prior,
    refuse_negative_counts,
    score_linearly,
    sum_by_responsibilities,
    sum_sparse,
    sum_weights,
)
from tamis.stats import Exact, Keys, Labels, Moments, Tally, refuse_excess_subtraction
from tamis.tables import Sparse, Table


@dataclass(frozen=True, kw_only=True)
class RateColumns(Block[Rows, Moments]):
    """Columns whose statistic is their weight and their sum: Moments without squares."""

    def sparse(self, table: Table) -> Sparse | None:
        rows = Block.sparse(self, table)
        if rows is not None and np.isnan(rows.values.sum()):
            raise ValueError(
                "the sparse matrix holds NaN, expected numbers: call .toarray(), whose NaN are missing values"
            )
        return rows

    def observe(
        self,
        rows: Rows,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Rows] | None = None,
    ) -> Moments:
        if isinstance(by, Responsibilities):
            return _sum_by_responsibilities(rows, by)
        if not isinstance(rows, Sparse):
            return Moments.observe(rows, weights, by, form="none", missing=True)
        total, weight = sum_sparse(rows, by, weights), sum_weights(by, weights)
        return self.convert_sums(Tally(weight=weight, total=total, keys=by.keys))

    def add_row(self, statistic: Moments, row: Rows, label: Hashable, weight: float) -> Moments | None:
        return None if isinstance(row, Sparse) else statistic.add_row(row[0], label, weight)

    def convert_sums(self, sums: Tally) -> Moments:
        """Convert weights (K,) and sums (K, d) of the classes: each column gets the weight of its class."""
        weight = sums.weight.reindex(lambda w: np.broadcast_to(w[..., None], (len(w), *sums.total.shape)))
        return Moments(weight=weight, first=sums.total, form="none", keys=sums.keys).drop_zeros()

    def count_parameters(self, density: Any) -> int:
        return int(density.class_sums.first.value.size)

    @property
    def type_of_draws(self) -> type[np.generic]:
        return np.int64

    def infer(self, statistic: Moments, keys: Keys) -> Density[Rows]:
        return self._infer_density(keys, statistic.over(keys))

    @abstractmethod
    def _infer_density(self, keys: Keys, class_sums: Moments) -> Density[Rows]:
        """Infer the density from the sums of each class (K, d); `keys` are the classes."""

    def refuse_impossible(self, statistic: Moments) -> None:
        statistic.refuse_impossible()
        refuse_excess_subtraction(bool((statistic.first.value < 0).any()))


def _sum_by_responsibilities(rows: Rows, responsibilities: Responsibilities) -> Moments:
    """Σ r x and Σ r of each class and column."""
    r, present = responsibilities.values, _mask_present(rows)
    first = sum_by_responsibilities(_fill_missing(rows), r)
    weight = np.broadcast_to(r.sum(axis=0)[:, None], first.shape) if present is None else r.T @ present
    return Moments(
        weight=Exact.of(weight), first=Exact.of(first), form="none", keys=responsibilities.keys
    ).drop_zeros()


def _mask_present(rows: Rows) -> Array | None:
    """1 where there is a value (n, d); None if nothing is missing."""
    if isinstance(rows, Sparse) or not np.isnan(rows.sum()):
        return None
    return (~np.isnan(rows)).astype(np.float64)


def _fill_missing(rows: Rows) -> Rows:
    """Replace missing values by 0."""
    if isinstance(rows, Sparse) or not np.isnan(rows.sum()):
        return rows
    return np.nan_to_num(rows, nan=0.0)


def _to_tally(class_sums: Moments) -> Tally:
    """Convert the sums to the Tally, with one term per class and column, that conjugate priors take."""
    return Tally(weight=class_sums.weight, total=class_sums.first.reindex(lambda w: w[..., None]))


@dataclass(frozen=True, kw_only=True)
class BernoulliColumns(RateColumns):
    """Each column holds flags, which are set with a probability of its own in each class."""

    kind: ClassVar[str] = "bernoulli"

    alpha: ArrayLike = 1.0  # pseudo-observations of each outcome; one number, or one per column
    threshold: float | None = None  # flags are set where values are above it; if None, values are 0 and 1

    def encode(self, table: Table, learn: bool = True) -> Rows:
        rows = self.sparse(table)
        if rows is not None and (self.threshold is None or self.threshold >= 0):
            matrix = rows.matrix()
            matrix.sum_duplicates()
            values = self._to_flags(matrix.data[:, None], table)[:, 0]
            return Sparse(
                matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), values, rows.columns
            )
        return self._to_flags(self.values(table), table)

    @property
    def type_of_draws(self) -> type[np.generic]:
        return np.bool_

    def admits(self, values: Array) -> bool:
        return self.threshold is not None and bool(np.isfinite(values.sum()))

    def _to_flags(self, values: Array, table: Table) -> Array:
        """Convert values to flags 0 and 1, NaN where missing; without a threshold, raise for other values."""
        if self.threshold is not None:
            missing = np.isnan(values)
            flags = (values > self.threshold).astype(np.float64)
            return np.where(missing, np.nan, flags) if missing.any() else flags
        neither = (values != 0) & (values != 1)
        if neither.any() and (neither := neither & ~np.isnan(values)).any():
            row, j = np.argwhere(neither)[0].tolist()
            name = (
                table.describe(self.column_indices(table)[j]) if table.sparse is None else "the sparse matrix"
            )
            raise ValueError(
                f"{name} holds {values[row, j]:g}, expected 0 or 1: turn it into flags first, as by x > 0"
            )
        return values

    def refuse_impossible(self, statistic: Moments) -> None:
        super().refuse_impossible(statistic)
        if (statistic.first.value > statistic.weight.value).any():
            raise ValueError(
                "more zeros would be subtracted than were learned, expected rows that were learned, with "
                "their weights: nothing was changed"
            )

    def sums_like(self, other: Block[Any, Any]) -> bool:
        return super().sums_like(other) and self.threshold == getattr(other, "threshold", None)

    def _infer_density(self, keys: Keys, class_sums: Moments) -> Density[Rows]:
        ones, weight = class_sums.first.value, class_sums.weight.value
        alpha = check_pseudo_counts(self.alpha, ones.shape[-1])
        pseudo = choose_pseudo_counts(self.estimate, alpha)
        one, zero = ones + pseudo, weight - ones + pseudo
        smallest = np.minimum(one, zero).min(initial=np.inf)
        if smallest < 0:
            raise ValueError(
                "estimate='map' needs alpha of at least 1 where a count is 0: raise it, or use 'mean'"
            )
        both, has_zeros = one + zero, False
        if smallest > 0:
            log_both = np.log(both)
            log_one, log_zero = np.log(one) - log_both, np.log(zero) - log_both
            flag_scores = log_one - log_zero
        else:
            is_empty = both == 0
            with np.errstate(divide="ignore", invalid="ignore"):
                log_one, log_zero = (
                    np.where(is_empty, -np.log(2.0), np.log(count) - np.log(both)) for count in (one, zero)
                )
                has_zeros = -np.inf in log_one or -np.inf in log_zero
                flag_scores = log_one - log_zero
        base_scores = log_zero.sum(axis=1)
        return Flags(keys, log_one, log_zero, class_sums, alpha, has_zeros, flag_scores, base_scores)


@dataclass(frozen=True, slots=True, eq=False)
class Flags(Density[Rows]):
    """Bernoulli distributions: log p(1) and log p(0) of each class and column."""

    keys: Keys
    log_one: Array  # (K, d): log p of a flag that is set
    log_zero: Array  # (K, d): log p of a flag that is not set
    class_sums: Moments
    alpha: Array  # (d,)
    has_zeros: bool  # whether any log-probability is −∞
    flag_scores: Array  # (K, d): the score that a flag adds if it is set
    base_scores: Array  # (K,): the score of a row with no flag set

    def scores(self, rows: Rows) -> Array:
        present = _mask_present(rows)
        if not self.has_zeros:
            scores = score_linearly(_fill_missing(rows), self.flag_scores, has_zeros=False)
            return np.asarray(scores + (self.base_scores if present is None else present @ self.log_zero.T))
        dense = rows.dense(slice(None)) if isinstance(rows, Sparse) else rows
        filled = np.nan_to_num(dense, nan=0.0)
        others = (1.0 if present is None else present) - filled
        return score_linearly(filled, self.log_one) + score_linearly(others, self.log_zero)

    def contrasts(self, rows: Rows, for_: int, against: int) -> Contrast:
        one = subtract_logs(self.log_one[for_], self.log_one[against])
        zero = subtract_logs(self.log_zero[for_], self.log_zero[against])
        if isinstance(rows, Sparse):
            if np.isfinite(one).all() and np.isfinite(zero).all():
                rest = np.full(len(rows), zero.sum())
                return Contrast(multiply_columns(rows, one - zero), rest)
            rows = rows.dense(slice(None))  # −∞ cannot be subtracted from the sum over all zeros
        terms = np.where(rows > 0, one, zero)
        return Contrast(np.where(np.isnan(rows), 0.0, terms), np.zeros(len(rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        p = np.exp(self.log_one[group])
        return list((rng.random(p.shape) < p).astype(np.float64).T)

    def log_evidence(self) -> float:
        refuse_missing_prior(bool((self.alpha > 0).all()))
        alpha = np.broadcast_to(self.alpha, self.log_one.shape)
        prior = Beta(alpha, alpha)
        return float(prior.log_evidence(_to_tally(self.class_sums)).sum())


@dataclass(frozen=True, kw_only=True)
class PoissonColumns(RateColumns):
    """Each column holds counts, with a rate of its own in each class.

    The default prior has the rate of all classes together, with half an event added, as `alpha`
    pseudo-observations.
    """

    kind: ClassVar[str] = "poisson"

    alpha: float = 1.0
    prior: Gamma | None = None

    def encode(self, table: Table, learn: bool = True) -> Rows:
        rows = self.sparse(table)
        values = self.values(table) if rows is None else rows.values
        if learn and (values < 0).any():
            refuse_negative_counts(values, table, self.column_indices(table))
        return values if rows is None else rows

    def admits(self, values: Array) -> bool:
        return bool(values.min() >= 0 and values.max() < MAX_COUNT)

    def _infer_density(self, keys: Keys, class_sums: Moments) -> Density[Rows]:
        total, weight = class_sums.first.value, class_sums.weight.value
        shape, rate = self._make_prior(class_sums, total.shape)
        if self.estimate == "predictive":
            return Overdispersed(keys, shape + total, rate + weight, class_sums, shape, rate)
        upper, lower = (total, weight) if self.estimate == "mle" else (shape + total, rate + weight)
        if self.estimate == "map":
            upper = np.maximum(upper - 1.0, 0.0)  # for a shape below 1 the mode is 0
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.where(lower > 0, upper / lower, 0.0)
        return Rates(keys, rates, class_sums, shape, rate)

    def _make_prior(self, class_sums: Moments, size: tuple[int, ...]) -> tuple[Array, Array]:
        """Shape and rate of the gamma distribution, (K, d)."""
        if self.prior is not None:
            return np.broadcast_to(self.prior.shape, size), np.broadcast_to(self.prior.rate, size)
        pooled = class_sums.pooled()
        weight = pooled.weight.value
        # Half an event is added, so that an event that was never seen has a positive probability.
        rate = (pooled.first.value + 0.5) / np.where(weight > 0, weight, 1.0)
        return np.broadcast_to(self.alpha * rate, size), np.full(size, float(self.alpha))


@dataclass(frozen=True, slots=True, eq=False)
class Rates(Density[Rows]):
    """A rate for each class and column."""

    keys: Keys
    rates: Array  # (K, d)
    class_sums: Moments
    shape: Array  # (K, d): of the gamma prior
    rate: Array  # (K, d): of the gamma prior

    def scores(self, rows: Rows) -> Array:
        present = _mask_present(rows)
        with np.errstate(divide="ignore"):
            scores = score_linearly(_fill_missing(rows), np.log(self.rates))
        expected = self.rates.sum(axis=1) if present is None else present @ self.rates.T
        factorials = _log_factorials(rows)[:, None]  # ∞ for a negative count, which is impossible
        return np.asarray(np.where(np.isposinf(factorials), -np.inf, scores - expected - factorials))

    def contrasts(self, rows: Rows, for_: int, against: int) -> Contrast:
        with np.errstate(divide="ignore"):
            log_ratio = subtract_logs(np.log(self.rates[for_]), np.log(self.rates[against]))
        rate_difference = self.rates[against] - self.rates[for_]
        terms = multiply_columns(_fill_missing(rows), log_ratio)
        if isinstance(rows, Sparse):
            return Contrast(terms, np.full(len(rows), rate_difference.sum()))
        return Contrast(np.where(np.isnan(rows), 0.0, terms + rate_difference), np.zeros(len(rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        return list(rng.poisson(self.rates[group]).astype(np.float64).T)

    def log_evidence(self) -> float:
        return _rate_evidence(self.class_sums, self.shape, self.rate)


@dataclass(frozen=True, slots=True, eq=False)
class Overdispersed(ColumnDensity[Rows]):
    """The Poisson with its rate integrated out: a negative binomial."""

    keys: Keys
    shape: Array  # (K, d), of the posterior
    rate: Array  # (K, d), of the posterior
    class_sums: Moments
    prior_shape: Array  # (K, d)
    prior_rate: Array  # (K, d)

    def _log_terms(self, rows: Rows, k: int) -> Array:
        values = rows.dense(slice(None)) if isinstance(rows, Sparse) else rows
        shape, rate = self.shape[k], self.rate[k]
        x = np.nan_to_num(values, nan=0.0)
        counts = np.abs(x)  # the negative binomial is defined for fractional counts, too
        terms = log_rising(shape, counts) - gammaln(counts + 1.0)
        terms += shape * (np.log(rate) - np.log1p(rate)) - counts * np.log1p(rate)
        return np.where(np.isnan(values), 0.0, np.where(x < 0, -np.inf, terms))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        rates = rng.gamma(self.shape[group]) / self.rate[group]
        return list(rng.poisson(rates).astype(np.float64).T)

    def log_evidence(self) -> float:
        return _rate_evidence(self.class_sums, self.prior_shape, self.prior_rate)


def _rate_evidence(class_sums: Moments, shape: Array, rate: Array) -> float:
    """The log-evidence without −Σ log x!, which does not depend on the prior and is not in the statistic."""
    refuse_missing_prior(bool(((shape > 0) & (rate > 0)).all()))
    return float(Gamma(shape, rate).log_evidence(_to_tally(class_sums)).sum())


def _log_factorials(rows: Rows) -> Array:
    """Σ_j log x_j! (n,); ∞ where a count is negative."""
    if not isinstance(rows, Sparse):
        filled = np.nan_to_num(rows, nan=0.0)
        return np.asarray(np.where(filled < 0, np.inf, gammaln(np.abs(filled) + 1.0)).sum(axis=1))
    matrix = rows.matrix()
    matrix.sum_duplicates()
    matrix.data = np.where(matrix.data < 0, np.inf, gammaln(np.abs(matrix.data) + 1.0))
    return np.asarray(matrix.sum(axis=1)).ravel()
