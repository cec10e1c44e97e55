"""Observe data in shards, and add the statistics: in threads, on Dask, on Spark or in a database.

A shard is a part of the data. An engine replaces one step of `tamis.protocols`, "observe each shard and add";
models do not depend on where that happens. `fit` and `partial_fit` of all estimators, and `tamis.fit`, take
the types of data in `opening.SOURCES`, paths of files, large memory maps and iterators of batches.
"""

from tamis.engines.batches import Batch, Loaded, Piece
from tamis.engines.iterables import Batches
from tamis.engines.local import LocalShards
from tamis.engines.opening import BatchShards, Request, is_source, open_shards
from tamis.engines.parts import Part, observe_part, observe_piece, require_all_shards
from tamis.engines.summing import DatabaseShards, UnsupportedSumsError

__all__ = [
    "Batch",
    "BatchShards",
    "Batches",
    "DatabaseShards",
    "Loaded",
    "LocalShards",
    "Part",
    "Piece",
    "Request",
    "UnsupportedSumsError",
    "is_source",
    "observe_part",
    "observe_piece",
    "open_shards",
    "require_all_shards",
]
