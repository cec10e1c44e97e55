"""statistic, rows → log p(row | class), each row under parameters inferred without it, all rows at once.

A statistic less one row is a statistic, so leaving a row out is a subtraction and an `infer`: `exactly` does
that for any block, row by row. Where a block has a closed form the same numbers come for all rows together:
only the row's own class loses something, and what a block pools over classes (a prior, a smoothing, how many
values a column has) loses the row too. A closed form says where it would cancel; `exactly` gets those rows.
"""

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.models.generative.block import Block, Codes, taken
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.complement_counts import ComplementCounts
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.leave_one_out.categories import categories
from tamis.models.generative.leave_one_out.counts import bernoulli, multinomial, poisson
from tamis.models.generative.leave_one_out.formula import Formula, replaced
from tamis.models.generative.leave_one_out.gaussian import gaussian
from tamis.models.generative.model import Generative
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import BernoulliColumns, PoissonColumns
from tamis.stats import Keys, Labels, Sums, Tally
from tamis.tables import Sparse

# Terms of scores that are in memory at a time. A core's cache holds them, and products of three times as many
# terms are below 2**19, from where on OpenBLAS takes threads: on a busy machine that was 5 times slower.
_CELLS = 1 << 17
_DENSE = 1 << 22  # cells of sparse rows that may be made dense at a time


def scores(
    block: Block[Any, Any], statistic: Sums, keys: Keys, rows: Any, labels: Labels, weights: Array | None
) -> Array:
    """log p(row | class) without the row, (n, K); `labels` are over these keys."""
    n = len(labels)
    found, doubtful = np.empty((n, len(keys))), np.ones(n, dtype=np.bool_)
    if (formula := formula_of(block, statistic, keys)) is not None:
        each = np.ones(n) if weights is None else weights
        for run in _runs(block, rows, len(keys)):
            found[run], doubtful[run] = formula(taken(rows, run), labels.group[run], each[run])
    for i in np.flatnonzero(doubtful).tolist():
        found[i] = exactly(block, statistic, keys, rows, labels, weights, i)
    return found


def exactly(
    block: Block[Any, Any],
    statistic: Sums,
    keys: Keys,
    rows: Any,
    labels: Labels,
    weights: Array | None,
    i: int,
) -> Array:
    """The scores (K,) of one row, whose statistic is taken away before the block infers."""
    index = np.array([i])
    row = taken(rows, index)
    weight = None if weights is None else weights[index]
    alone = Labels(Keys((keys[int(labels.group[i])],)), np.zeros(1, dtype=np.int64))
    left = (
        statistic
        if weight is not None and not weight.any()
        else statistic - block.observe(row, alone, weight)
    )
    found: Array = block.infer(left, keys).scores(row)[0]
    return found


def log_priors(model: Generative, counts: Tally, labels: Labels, w: Array) -> Array:
    """log p(class) without each row, (n, K), as `infer` would have it: a class may be gone with its row."""
    keys, own = labels.keys, labels.group
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
        return replaced(np.log(shares) - whole[:, None], own, np.log(mine) - whole)


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


formula_of.register(BernoulliColumns, bernoulli)
formula_of.register(CategoryColumns, categories)
formula_of.register(ComplementCounts, lambda block, statistic, keys: None)  # though it is a MultinomialCounts
formula_of.register(GaussianColumns, gaussian)
formula_of.register(MultinomialCounts, multinomial)
formula_of.register(PoissonColumns, poisson)
