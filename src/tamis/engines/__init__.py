"""Where `observe` runs and statistics are added: threads over files larger than memory, Dask, and others.

A shard is a part of the data. An engine replaces one step of `tamis.protocols`, "observe each shard and add";
models do not depend on where that happens. All estimators (faces) take the sources of `opening.SOURCES` in
`fit` and `partial_fit`, and so does `tamis.fit`.
"""

from tamis.engines.batches import Batch, Loaded, Piece
from tamis.engines.iterables import Batches
from tamis.engines.local import LocalShards
from tamis.engines.opening import BatchShards, Request, is_source, open_shards
from tamis.engines.parts import Part, finish, observe_part, observe_piece
from tamis.engines.summing import SummingShards, UnfitError

__all__ = [
    "Batch",
    "BatchShards",
    "Batches",
    "Loaded",
    "LocalShards",
    "Part",
    "Piece",
    "Request",
    "SummingShards",
    "UnfitError",
    "finish",
    "is_source",
    "observe_part",
    "observe_piece",
    "open_shards",
]
