"""Counts, flags and rates without each row in turn.

A sum that loses a row is read in two floats, and so is what it loses: zero is left if and only if it is.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from tamis.arrays import Array
from tamis.conjugate import NegativeBinomial
from tamis.families.stirling import log_rising
from tamis.models.generative.counting import pseudo_counts
from tamis.models.generative.leave_one_out.formula import (
    CANCELLED,
    Formula,
    Found,
    Indices,
    Sum,
    certain,
    replaced,
)
from tamis.models.generative.linear_scores import Rows
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import BernoulliColumns, PoissonColumns
from tamis.stats import Keys, Moments, Tally
from tamis.tables import Sparse


def multinomial(block: MultinomialCounts, statistic: Tally, keys: Keys) -> Formula | None:
    """Counts of draws: the row's own are gone from its class, and their number."""
    density = block.infer(statistic, keys)
    seen = statistic.over(keys)
    total, length = Sum.of(seen.total), Sum.of(seen.total.sum(axis=-1))
    alpha = pseudo_counts(block.alpha, seen.total.shape[-1])
    if block.estimate == "map" and (alpha < 1).any():
        return None  # it may be refused
    pseudo = {"mle": 0.0 * alpha, "map": alpha - 1.0}.get(block.estimate, alpha)

    def formula(rows: Rows, own: Indices, w: Array) -> Found:
        row, column, x, n = _entries(rows)
        left = total.at(own[row], column, None).less(w[row][:, None], x[:, None])[:, 0] if len(x) else x
        each: Array = np.bincount(row, x, minlength=n).astype(np.float64)
        whole = length.at(own).high - w * each
        doubtful = (whole <= CANCELLED * length.high[own]) & (pseudo.sum() <= 1e-6 * length.high[own])
        whole = np.asarray(np.maximum(whole, 0.0) + pseudo.sum())
        rise = log_rising if block.estimate == "predictive" else _log_power
        with np.errstate(invalid="ignore"):  # of nothing left, which is in doubt
            mine = np.bincount(row, rise(left + pseudo[column], x), minlength=n) - rise(whole, each)
        return replaced(density.scores(rows), own, mine), doubtful

    return formula


def _log_power(base: Array, exponent: Array) -> Array:
    return np.asarray(xlogy(exponent, base), dtype=np.float64)


def _entries(rows: Rows) -> tuple[Indices, Indices, Array, int]:
    """Row, column and value of each number that is not zero, each cell once; and how many rows there are."""
    if not isinstance(rows, Sparse):
        row, column = np.nonzero(rows)
        return row, column, rows[row, column], len(rows)
    matrix = rows.matrix().copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    row = np.repeat(np.arange(len(rows)), np.diff(matrix.indptr))
    return row, matrix.indices.astype(np.int64), matrix.data, len(rows)


def _dense(rows: Rows) -> tuple[Array, Array]:
    """Values with 0 where they are missing, and 1 where they are not."""
    values = rows.dense(slice(None)) if isinstance(rows, Sparse) else rows
    present = ~np.isnan(values)
    return np.where(present, values, 0.0), present.astype(np.float64)


class _Rates(NamedTuple):
    """Σ w x and Σ w of each class and column, from which rows are taken."""

    first: Sum  # (K, d), or (d,)
    weight: Sum

    @classmethod
    def of(cls, seen: Moments) -> "_Rates":
        return cls(Sum.of(seen.first), Sum.of(seen.weight))

    def less(self, own: Any, x: Array, present: Array, w: Array) -> tuple[Array, Array]:
        """Both without each row (b, d)."""
        column = w[:, None]
        return self.first.at(own).less(column, x), self.weight.at(own).less(column, present)


def bernoulli(block: BernoulliColumns, statistic: Moments, keys: Keys) -> Formula | None:
    """Flags, up or down."""
    alpha = pseudo_counts(block.alpha, statistic.first.shape[-1])
    if block.estimate == "map" and (alpha < 1).any():
        return None  # it may be refused
    density = block.infer(statistic, keys)
    classes = _Rates.of(statistic.over(keys))
    pseudo = {"mle": 0.0 * alpha, "map": alpha - 1.0}.get(block.estimate, alpha)  # (d,)
    # how often a flag was down is a difference of sums, and may be rounding alone unless these are whole
    exact = classes.first.whole and classes.weight.whole
    tables = cache(lambda w: _Flags.of(classes, w, pseudo))  # for sparse rows, by their weight

    def formula(rows: Rows, own: Indices, w: Array) -> Found:
        found = density.scores(rows)
        if isinstance(rows, Sparse) and exact and (w == w[0]).all() and w[0] == np.floor(w[0]):
            return replaced(found, own, tables(float(w[0])).scores(rows, own)), certain(len(own))
        x, present = _dense(rows)
        ones, weight = classes.less(own, x, present, w)
        up = np.where(x > 0, ones, weight - ones) + pseudo  # of what the row says
        both = weight + 2.0 * pseudo
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(both == 0, -np.log(2.0), np.log(up) - np.log(both))
        mine = np.where(present > 0, terms, 0.0).sum(axis=1)
        cancelled = (x == 0) & (weight - ones < CANCELLED * weight) & (pseudo < 1e-6 * weight)
        doubtful = cancelled.any(axis=1) & ((w != np.floor(w)) | (not exact))
        return replaced(found, own, mine), doubtful

    return formula


class _Flags(NamedTuple):
    """log p of flags in a class that has lost a row of this weight, in which they are up, or down."""

    up: Array  # (K, d)
    down: Array  # (K, d); 0 where it is impossible
    all_down: Array  # (K,): over columns
    impossible: Array  # (K, d): where a class has nothing that is down

    @classmethod
    def of(cls, classes: _Rates, w: float, pseudo: Array) -> "_Flags":
        ones, weight = classes.first.high, classes.weight.high - w
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.log(weight + 2.0 * pseudo)
            up, down = np.log(ones - w + pseudo) - both, np.log(weight - ones + pseudo) - both
        nothing = weight + 2.0 * pseudo == 0
        up, down = np.where(nothing, -np.log(2.0), up), np.where(nothing, -np.log(2.0), down)
        impossible = ~np.isfinite(down)
        down = np.where(impossible, 0.0, down)
        return cls(up, down, down.sum(axis=1), impossible.astype(np.float64))

    def scores(self, rows: Sparse, own: Indices) -> Array:
        """Of each row in its own class: as if all were down, but for those that are not."""
        row, column, _, n = _entries(rows)
        at = own[row], column
        found = self.all_down[own] + np.bincount(row, self.up[at] - self.down[at], minlength=n)
        met = self.impossible.sum(axis=1)[own] - np.bincount(row, self.impossible[at], minlength=n)
        return np.where(met > 0, -np.inf, found)


def poisson(block: PoissonColumns, statistic: Moments, keys: Keys) -> Formula | None:
    """Rates, whose prior is pooled: the row changes it for all classes."""
    seen = statistic.over(keys)
    classes, whole = _Rates.of(seen), _Rates.of(statistic.pooled())
    total, weight = seen.first.value, seen.weight.value
    prior = block.prior
    alpha = float(block.alpha)

    def belief(x: Array, present: Array, w: Array) -> tuple[Array, Array]:
        """Shape and rate without each row, (b, d)."""
        if prior is not None:
            return np.broadcast_to(prior.shape, x.shape), np.broadcast_to(prior.rate, x.shape)
        first, weight = whole.less(..., x, present, w)
        return alpha * (first + 0.5) / np.where(weight > 0, weight, 1.0), np.full(x.shape, alpha)

    def member(x: Array, present: Array, shape: Array, rate: Array, total: Array, weight: Array) -> Array:
        """log p of the rows, summed over columns."""
        upper, lower = total + shape, weight + rate
        if block.estimate == "predictive":
            terms = NegativeBinomial(upper, lower).log_density(x)
        else:
            if block.estimate == "mle":
                upper, lower = np.broadcast_arrays(total, weight)
            elif block.estimate == "map":
                upper = np.maximum(upper - 1.0, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                rates = np.where(lower > 0, upper / lower, 0.0)
            terms = xlogy(x, rates) - rates - gammaln(x + 1.0)
        return np.asarray(np.where(present > 0, terms, 0.0).sum(axis=-1))

    def formula(rows: Rows, own: Indices, w: Array) -> Found:
        x, present = _dense(rows)
        shape, rate = belief(x, present, w)
        left = member(x, present, shape, rate, *classes.less(own, x, present, w))
        every = member(x[:, None], present[:, None], shape[:, None], rate[:, None], total, weight)
        return replaced(every, own, left), certain(len(own))

    return formula
