"""statistic, rows → log p(row | class), each row under parameters inferred without it, all rows at once.

A statistic less one row is a statistic, so leaving a row out is a subtraction and an `infer`: `exactly` does
that for any block, row by row. Where a block has a closed form the same numbers come for all rows together:
only the row's own class loses something, and what a block pools over classes (a prior, a smoothing, how many
values a column has) loses the row too. A closed form says where it would cancel; `exactly` gets those rows.
"""

from collections.abc import Callable, Iterator
from functools import cache, singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from tamis import _kernels
from tamis.arrays import Array
from tamis.conjugate import NegativeBinomial
from tamis.families.stirling import log_rising
from tamis.models.block import Block, Codes, taken
from tamis.models.category_columns import CategoryColumns, Values
from tamis.models.complement_counts import ComplementCounts
from tamis.models.gaussian_columns import GaussianColumns
from tamis.models.gaussian_left_out import gaussian
from tamis.models.generative import Generative
from tamis.models.linear_scores import Rows
from tamis.models.multinomial_counts import MultinomialCounts, pseudo_counts
from tamis.models.rate_columns import BernoulliColumns, PoissonColumns
from tamis.stats import Exact, Filed, Keys, Moments, Sums, Tally
from tamis.tables import Sparse

Marks = NDArray[np.bool_]
Found = tuple[Array, Marks]  # scores (b, K) of some rows, and which of these are in doubt (b,)
Formula = Callable[
    [Any, NDArray[np.int64], Array], Found
]  # of rows, their own class (b,) and their weight (b,)

# Terms of scores that are in memory at a time. A core's cache holds them, and products of three times as many
# terms are below 2**19, from where on OpenBLAS takes threads: on a busy machine it was 5 times slower for them.
_CELLS = 1 << 17
_DENSE = 1 << 22  # cells of sparse rows that may be made dense at a time
_CANCELLED = 1e-3  # of a sum that is left when its subtraction is no longer trusted: 1e-13 becomes 1e-10


def scores(
    block: Block[Any, Any], statistic: Sums, keys: Keys, rows: Any, filed: Filed, weights: Array | None
) -> Array:
    """log p(row | class) without the row, (n, K); `filed` is over these keys."""
    n = len(filed)
    found, doubtful = np.empty((n, len(keys))), np.ones(n, dtype=np.bool_)
    if (formula := formula_of(block, statistic, keys)) is not None:
        each = np.ones(n) if weights is None else weights
        for run in _runs(block, rows, len(keys)):
            found[run], doubtful[run] = formula(taken(rows, run), filed.group[run], each[run])
    for i in np.flatnonzero(doubtful).tolist():
        found[i] = exactly(block, statistic, keys, rows, filed, weights, i)
    return found


def exactly(
    block: Block[Any, Any],
    statistic: Sums,
    keys: Keys,
    rows: Any,
    filed: Filed,
    weights: Array | None,
    i: int,
) -> Array:
    """The scores (K,) of one row, whose statistic is taken away before the block infers."""
    index = np.array([i])
    row = taken(rows, index)
    weight = None if weights is None else weights[index]
    alone = Filed(Keys((keys[int(filed.group[i])],)), np.zeros(1, dtype=np.int64))
    left = (
        statistic
        if weight is not None and not weight.any()
        else statistic - block.observe(row, alone, weight)
    )
    found: Array = block.infer(left, keys).scores(row)[0]
    return found


def log_priors(model: Generative, counts: Tally, filed: Filed, w: Array) -> Array:
    """log p(class) without each row, (n, K), as `infer` would have it: a class may be gone with its row."""
    keys, own = filed.keys, filed.group
    high, rest = np.zeros(len(keys)), np.zeros(len(keys))
    place = keys.find(counts.terms or ())
    high[place], rest[place] = counts.total.pair
    left = (high[own] - w) + rest[own]
    gone = (left == 0) & (model.classes.find(keys) < 0)[own]
    if model.prior is not None or model.even:
        shares = np.array([1.0 if model.prior is None else model.prior[key] for key in keys])
        mine = shares[own]
    else:
        shares = high + rest + model.alpha
        mine = left + model.alpha
    mine = np.where(gone, 0.0, mine)
    whole = (shares.sum() - shares[own]) + mine
    with np.errstate(divide="ignore"):
        whole = np.log(np.where(whole > 0, whole, 1.0))  # of nothing left, all shares are zero
        return _own(np.log(shares) - whole[:, None], own, np.log(mine) - whole)


def _runs(block: Block[Any, Any], rows: Any, classes: int) -> Iterator[slice]:
    """Rows in runs of about `_CELLS` terms."""
    if isinstance(rows, Sparse):
        poisson = isinstance(block, PoissonColumns)  # whose rates change everywhere
        columns = rows.columns if poisson else 1 + len(rows.values) // max(1, len(rows))
        step = max(1, min(_CELLS // max(1, classes * columns), _DENSE // max(1, rows.columns)))
    else:
        columns = (rows.codes if isinstance(rows, Codes) else rows).shape[1]
        step = max(1, _CELLS // max(1, classes * columns))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


@singledispatch
def formula_of(block: Block[Any, Any], statistic: Any, keys: Keys) -> Formula | None:
    """The block's closed form for this statistic; None if it has none."""
    return None


class _Sum(NamedTuple):
    """A sum in two floats, from which a product is taken without rounding either."""

    high: Array  # (K, d), or fewer axes
    rest: Array

    @classmethod
    def of(cls, total: Exact) -> "_Sum":
        return cls(*total.pair)

    def at(self, *index: Any) -> "_Sum":
        return _Sum(self.high[index], self.rest[index])

    def less(self, w: Array, x: Array) -> Array:
        """self − w · x; zero if and only if that is."""
        product, lost = _kernels.two_product(np.ascontiguousarray(x), np.ascontiguousarray(w))
        return np.asarray((self.high - product) + (self.rest - lost))


def _own(found: Array, own: NDArray[np.int64], scores_of_own: Array) -> Array:
    """With the score of each row in its own class replaced."""
    found[np.arange(len(own)), own] = scores_of_own
    return found


def _none(n: int) -> Marks:
    return np.zeros(n, dtype=np.bool_)


@formula_of.register
def _(block: GaussianColumns, statistic: Moments, keys: Keys) -> Formula | None:
    return gaussian(block, statistic, keys, _CANCELLED)


@formula_of.register
def _(block: ComplementCounts, statistic: Tally, keys: Keys) -> Formula | None:
    return None


@formula_of.register
def _(block: MultinomialCounts, statistic: Tally, keys: Keys) -> Formula | None:
    density = block.infer(statistic, keys)
    seen = statistic.over(keys)
    total, length = _Sum.of(seen.total), _Sum.of(seen.total.sum(axis=-1))
    alpha = pseudo_counts(block.alpha, seen.total.shape[-1])
    if block.estimate == "map" and (alpha < 1).any():
        return None  # it may be refused
    pseudo = {"mle": 0.0 * alpha, "map": alpha - 1.0}.get(block.estimate, alpha)
    certain = not (pseudo > 0).all()

    def formula(rows: Rows, own: NDArray[np.int64], w: Array) -> Found:
        row, column, x, n = _entries(rows)
        left = total.at(own[row], column, None).less(w[row][:, None], x[:, None])[:, 0] if len(x) else x
        each: Array = np.bincount(row, x, minlength=n).astype(np.float64)
        whole = length.at(own).high - w * each
        doubtful = (whole <= _CANCELLED * length.high[own]) & certain
        whole = np.asarray(np.maximum(whole, 0.0) + pseudo.sum())
        rise = log_rising if block.estimate == "predictive" else _log_power
        with np.errstate(invalid="ignore"):  # of nothing left, which is in doubt
            mine = np.bincount(row, rise(left + pseudo[column], x), minlength=n) - rise(whole, each)
        return _own(density.scores(rows), own, mine), doubtful

    return formula


def _log_power(base: Array, exponent: Array) -> Array:
    return np.asarray(xlogy(exponent, base), dtype=np.float64)


def _entries(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, int]:
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

    first: _Sum  # (K, d), or (d,)
    weight: _Sum

    @classmethod
    def of(cls, seen: Moments) -> "_Rates":
        return cls(_Sum.of(seen.first), _Sum.of(seen.weight))

    def less(self, own: Any, x: Array, present: Array, w: Array) -> tuple[Array, Array]:
        """Both without each row (b, d)."""
        column = w[:, None]
        return self.first.at(own).less(column, x), self.weight.at(own).less(column, present)


@formula_of.register
def _(block: BernoulliColumns, statistic: Moments, keys: Keys) -> Formula | None:
    if block.estimate == "map" and block.alpha < 1:
        return None  # it may be refused
    density = block.infer(statistic, keys)
    classes = _Rates.of(statistic.over(keys))
    pseudo = {"mle": 0.0, "map": block.alpha - 1.0}.get(block.estimate, block.alpha)

    seen = cache(lambda w: _Flags.of(classes, w, pseudo))  # for sparse rows, by their weight

    def formula(rows: Rows, own: NDArray[np.int64], w: Array) -> Found:
        if isinstance(rows, Sparse) and (w == w[0]).all() and w[0] == np.floor(w[0]):
            return _own(density.scores(rows), own, seen(float(w[0])).scores(rows, own)), _none(len(own))
        x, present = _dense(rows)
        ones, weight = classes.less(own, x, present, w)
        up = np.where(x > 0, ones, weight - ones) + pseudo  # of what the row says
        both = weight + 2.0 * pseudo
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(both == 0, -np.log(2.0), np.log(up) - np.log(both))
        found = np.where(present > 0, terms, 0.0).sum(axis=1)
        # how often a flag was down is a difference, and may be rounding alone unless weights are whole
        cancelled = (x == 0) & (weight - ones < _CANCELLED * weight) & (pseudo < 1e-6 * weight)
        return _own(density.scores(rows), own, found), cancelled.any(axis=1) & (w != np.floor(w))

    return formula


class _Flags(NamedTuple):
    """log p of flags in a class that has lost a row of this weight, in which they are up, or down."""

    up: Array  # (K, d)
    down: Array  # (K, d); 0 where it is impossible
    all_down: Array  # (K,): over columns
    impossible: Array  # (K, d): where a class has nothing that is down

    @classmethod
    def of(cls, classes: _Rates, w: float, pseudo: float) -> "_Flags":
        ones, weight = classes.first.high, classes.weight.high - w
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.log(weight + 2.0 * pseudo)
            up, down = np.log(ones - w + pseudo) - both, np.log(weight - ones + pseudo) - both
        nothing = weight + 2.0 * pseudo == 0
        up, down = np.where(nothing, -np.log(2.0), up), np.where(nothing, -np.log(2.0), down)
        impossible = ~np.isfinite(down)
        down = np.where(impossible, 0.0, down)
        return cls(up, down, down.sum(axis=1), impossible.astype(np.float64))

    def scores(self, rows: Sparse, own: NDArray[np.int64]) -> Array:
        """Of each row in its own class: as if all were down, but for those that are not."""
        row, column, _, n = _entries(rows)
        at = own[row], column
        found = self.all_down[own] + np.bincount(row, self.up[at] - self.down[at], minlength=n)
        met = self.impossible.sum(axis=1)[own] - np.bincount(row, self.impossible[at], minlength=n)
        return np.where(met > 0, -np.inf, found)


@formula_of.register
def _(block: PoissonColumns, statistic: Moments, keys: Keys) -> Formula | None:
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

    def formula(rows: Rows, own: NDArray[np.int64], w: Array) -> Found:
        x, present = _dense(rows)
        shape, rate = belief(x, present, w)
        left = member(x, present, shape, rate, *classes.less(own, x, present, w))
        every = member(x[:, None], present[:, None], shape[:, None], rate[:, None], total, weight)
        return _own(every, own, left), _none(len(own))

    return formula


@formula_of.register
def _(block: CategoryColumns, statistic: Tally, keys: Keys) -> Formula | None:
    density = block.infer(statistic, keys)
    if not isinstance(density, Values):
        return None
    pseudo = {"mle": 0.0, "map": block.alpha - 1.0}.get(block.estimate, block.alpha)
    seen = statistic.over(keys)
    columns = [
        _Column.of(block, seen.total, places, values, int(size), pseudo)
        for (places, values), size in zip(block._columns(statistic), density.sizes.tolist(), strict=True)
    ]
    tables = [
        np.concatenate([table, rest[:, None], np.zeros((len(keys), 1))], axis=1).T
        for table, rest in zip(density.tables, density.absent, strict=True)
    ]

    def formula(rows: Codes, own: NDArray[np.int64], w: Array) -> Found:
        found = np.zeros((len(own), len(keys)))
        for j, (column, table) in enumerate(zip(columns, tables, strict=True)):
            place = np.append(density.values[j].find(rows.keys[j]), -1)[rows.codes[:, j]]  # -1 where missing
            missing = rows.codes[:, j] < 0
            terms = table[np.where(missing, -1, np.where(place < 0, len(table) - 2, place))]
            here = np.flatnonzero(place >= 0)
            column.leave_out(terms, here, place[here], own[here], w[here])
            found += terms
        return found, _none(len(own))

    return formula


class _Column(NamedTuple):
    """One column of categories."""

    counts: _Sum  # (K, values)
    whole: _Sum  # (K,): over values
    pooled: _Sum  # (values,): over classes
    size: int
    sizes_without: NDArray[np.int64]  # (values,): how many values there are if this one is not
    pseudo: float

    @classmethod
    def of(
        cls,
        block: CategoryColumns,
        total: Exact,
        places: list[int],
        values: tuple[Any, ...],
        size: int,
        pseudo: float,
    ) -> "_Column":
        own = total.reindex(lambda words: words[..., places])
        without = [block._sizes([([], values[:v] + values[v + 1 :])])[0] for v in range(len(values))]
        return cls(
            counts=_Sum.of(own),
            whole=_Sum.of(own.sum(axis=-1)),
            pooled=_Sum.of(own.sum(axis=0)),
            size=size,
            sizes_without=np.array(without, dtype=np.int64),
            pseudo=pseudo,
        )

    def leave_out(
        self, terms: Array, here: NDArray[np.int64], v: NDArray[np.int64], own: NDArray[np.int64], w: Array
    ) -> None:
        """Mend log p(value | class) (n, K) of the rows that are here, each of value v and class `own`."""
        left = (self.counts.high[own, v] - w) + self.counts.rest[own, v]
        whole = (self.whole.high[own] - w) + self.whole.rest[own]
        terms[here, own] = self._logs(left, whole, np.full(len(v), self.size))
        gone = np.flatnonzero((self.pooled.high[v] - w) + self.pooled.rest[v] == 0)
        if len(gone):  # the value is unknown to all classes, and there is one less
            size = self.sizes_without[v[gone]]
            every = np.tile(self.whole.high + self.whole.rest, (len(gone), 1))
            every[np.arange(len(gone)), own[gone]] = whole[gone]
            terms[here[gone]] = self._logs(None, every, size[:, None])

    def _logs(self, count: Array | None, whole: Array, size: NDArray[np.int64]) -> Array:
        """log p of a value seen so often; without a count, of one that was never seen."""
        room = whole + self.pseudo * size
        with np.errstate(divide="ignore", invalid="ignore"):
            if count is None and not self.pseudo > 0:
                logs = np.zeros(room.shape)
            else:
                logs = np.log((0.0 if count is None else count) + self.pseudo) - np.log(room)
        return np.where(room == 0, -np.log(np.maximum(size, 1)), logs)
