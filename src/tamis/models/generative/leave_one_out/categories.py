"""Categories without each row in turn: a value may be gone with its row, and then its column has one less."""

from typing import Any, NamedTuple

import numpy as np

from tamis.arrays import Array
from tamis.models.generative.block import Codes
from tamis.models.generative.category_columns import CategoryColumns, Values
from tamis.models.generative.leave_one_out.formula import Formula, Found, Indices, Sum, certain
from tamis.stats import Exact, Keys, Tally


def categories(block: CategoryColumns, statistic: Tally, keys: Keys) -> Formula | None:
    """Values: the row's own are one less in its class, and may be the last."""
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

    def formula(rows: Codes, own: Indices, w: Array) -> Found:
        found = np.zeros((len(own), len(keys)))
        for j, (column, table) in enumerate(zip(columns, tables, strict=True)):
            place = np.append(density.values[j].find(rows.keys[j]), -1)[rows.codes[:, j]]  # -1 where missing
            missing = rows.codes[:, j] < 0
            terms = table[np.where(missing, -1, np.where(place < 0, len(table) - 2, place))]
            here = np.flatnonzero(place >= 0)
            column.leave_out(terms, here, place[here], own[here], w[here])
            found += terms
        return found, certain(len(own))

    return formula


class _Column(NamedTuple):
    """One column of categories."""

    counts: Sum  # (K, values)
    whole: Sum  # (K,): over values
    pooled: Sum  # (values,): over classes
    size: int
    sizes_without: Indices  # (values,): how many values there are if this one is not
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
            counts=Sum.of(own),
            whole=Sum.of(own.sum(axis=-1)),
            pooled=Sum.of(own.sum(axis=0)),
            size=size,
            sizes_without=np.array(without, dtype=np.int64),
            pseudo=pseudo,
        )

    def leave_out(self, terms: Array, here: Indices, v: Indices, own: Indices, w: Array) -> None:
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

    def _logs(self, count: Array | None, whole: Array, size: Indices) -> Array:
        """log p of a value seen so often; without a count, of one that was never seen."""
        room = whole + self.pseudo * size
        with np.errstate(divide="ignore", invalid="ignore"):
            if count is None and not self.pseudo > 0:
                logs = np.zeros(room.shape)
            else:
                logs = np.log((0.0 if count is None else count) + self.pseudo) - np.log(room)
        return np.where(room == 0, -np.log(np.maximum(size, 1)), logs)
