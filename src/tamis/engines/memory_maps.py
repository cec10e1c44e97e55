"""Memory-mapped arrays → shards: consecutive rows, which are copied to memory when they are needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.engines.batches import Batch
from tamis.engines.opening import (
    BatchShards,
    Request,
    place_pieces,  # makes shards of pieces, on the engine that the request names
)

_MAX_SHARD_BYTES = 1 << 25  # a shard may be larger only if it is a single row


@dataclass(frozen=True, slots=True, eq=False)
class RowRun:
    """Some consecutive rows of arrays, which are copied when they are needed."""

    rows: Any  # (n, d)
    roles: dict[str, Any]  # arrays (n, …), such as labels, by their argument of `fit`
    start: int
    stop: int
    number: int  # the shard's number

    @property
    def name(self) -> str:
        return f"rows {self.start} to {self.stop - 1}"

    def load(self) -> Batch:
        run = slice(self.start, self.stop)
        roles = {role: np.array(array[run]) for role, array in self.roles.items()}
        return Batch.from_roles(np.array(self.rows[run]), roles, self.number)


def open_shards(data: Any, request: Request) -> BatchShards[Batch]:
    """Open an array of rows (n, d); the first axis of labels and weights has the length n."""
    if request.columns is not None:
        raise ValueError("got columns for an array, which has no names, expected None: slice the array")
    if data.ndim != 2:
        raise ValueError(f"Expected 2D array, got {data.ndim}D array instead: reshape the memory map")
    roles = {name: np.asanyarray(value) for name, value in request.roles.items()}
    for name, array in roles.items():
        if array.shape[:1] != data.shape[:1]:
            raise ValueError(f"got {name} of shape {array.shape} for {len(data)} rows, expected one per row")
    step = max(1, _MAX_SHARD_BYTES // max(1, data.itemsize * data.shape[1]))
    count = -(-len(data) // step)
    return place_pieces(_Runs(data, roles, step), count, request)


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """The shards of an array: runs of `step` rows."""

    rows: Any  # (n, d)
    roles: dict[str, Any]  # as in `RowRun`
    step: int

    def __iter__(self) -> Iterator[RowRun]:
        n = len(self.rows)
        for number, start in enumerate(range(0, n, self.step)):
            yield RowRun(self.rows, self.roles, start, min(n, start + self.step), number)
