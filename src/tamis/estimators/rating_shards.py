"""Ratings in shards → one table of ratings, in the order of the shards.

A recommender keeps the ratings that it learned, to explain, to update and to forget them, so that they are
its statistic. Each shard is reduced where it is read to the ids that it names and 24 bytes per rating, 40
with times and weights; these add, and sweeps over all of them are those of ratings that were given at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.engines import Batch
from tamis.estimators.rating_tables import RatingTable, read_shard, refuse_mixed_times
from tamis.estimators.sharded import has_rows
from tamis.models.factors import Entries, Indices
from tamis.stats import Keys


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRatings:
    """The ratings of some shards, by the number of each; they add."""

    tables: dict[int, RatingTable]

    def __add__(self, other: "GatheredRatings") -> "GatheredRatings":
        return GatheredRatings(self.tables | other.tables)

    def __mul__(self, weight: float) -> "GatheredRatings":
        raise TypeError("ratings of shards are not scaled: learn them with weights")

    def join(self) -> RatingTable:
        """The ratings of all shards."""
        tables = [self.tables[number] for number in sorted(self.tables)]
        users, user_index = _join_ids([(table.users, table.entries.user_index) for table in tables])
        items, item_index = _join_ids([(table.items, table.entries.item_index) for table in tables])
        dates = next((table.dates for table in tables if table.dates is not None), None)
        for table in tables:
            refuse_mixed_times(dates, table.dates)
        entries = Entries(
            user_index,
            item_index,
            np.concatenate([table.entries.values for table in tables]),
            _join_weights([table.entries for table in tables]),
            _join_times([table.entries for table in tables]),
        )
        return RatingTable(users, items, entries, dates)


def _join_ids(parts: list[tuple[Keys, Indices]]) -> tuple[Keys, Indices]:
    """All ids, and the index among them of each rating's."""
    keys, places = Keys.of([key for own, _ in parts for key in own])
    starts = np.cumsum([0, *(len(own) for own, _ in parts)])
    return keys, np.concatenate(
        [places[start:][index] for start, (_, index) in zip(starts[:-1], parts, strict=True)]
    )


def _join_weights(parts: list[Entries]) -> Array | None:
    if all(part.undecayed_weights is None for part in parts):
        return None
    return np.concatenate(
        [np.ones(len(part)) if part.undecayed_weights is None else part.undecayed_weights for part in parts]
    )


def _join_times(parts: list[Entries]) -> Array | None:
    times = [part.time for part in parts if part.time is not None]
    if times and len(times) < len(parts):
        raise ValueError(
            "got shards with times and shards without, expected all alike: write all shards alike"
        )
    return np.concatenate(times) if times else None


@dataclass(frozen=True, slots=True, eq=False)
class ReadRatings:
    """A batch → its ratings; None if it has no rows."""

    columns: Mapping[str, Any] | None  # of the face
    is_implicit: bool

    def __call__(self, batch: Batch) -> GatheredRatings | None:
        if not has_rows(batch):
            return None
        if hasattr(batch.X, "tocoo"):
            raise TypeError(
                "got a sparse matrix in a shard, where users have no numbers, expected rows of "
                "(user, item, rating)"
            )
        table = read_shard(batch.X, batch.y, batch.sample_weight, self.columns, self.is_implicit)
        return GatheredRatings({batch.number: table})
