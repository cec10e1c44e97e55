"""Arrow's datasets and readers, and relations (queries) of DuckDB → shards, one per record batch of Arrow.

A dataset is a table that Arrow reads from several fragments, usually files. A reader is a stream of record
batches, which are tables of some consecutive rows. Each pass over the data scans a dataset, or runs the query
of a relation, again. A reader can be read only once.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tamis.engines.batches import Batch
from tamis.engines.iterables import Batches
from tamis.engines.iterables import open_shards as open_batches
from tamis.engines.opening import BatchShards, Request
from tamis.engines.tabular import (
    ROWS_PER_BATCH,
    Layout,  # which columns of a table are read, and as what
    import_arrow,
)

_READAHEAD = 2  # batches that Arrow reads in advance; its default is 16, and memory grows with the number


def open_shards(data: Any, request: Request) -> BatchShards[Batch]:
    """Open a dataset or a reader of Arrow, or a relation of DuckDB."""
    package = type(data).__module__.partition(".")[0]
    if package != "pyarrow":
        return open_relation(data, request)
    if isinstance(data, import_arrow().RecordBatchReader):
        layout = Layout.of(data.schema, request)
        return open_stream(lambda: iter(data), layout, request, once=True)
    return open_dataset(data, request)


def open_dataset(dataset: Any, request: Request) -> BatchShards[Batch]:
    """Open a `pyarrow.dataset.Dataset`; only the columns that are needed are read."""
    layout = Layout.of(dataset.schema, request)

    def scan() -> Iterator[Any]:
        batches: Iterator[Any] = dataset.to_batches(
            columns=layout.names, batch_size=ROWS_PER_BATCH, batch_readahead=_READAHEAD, fragment_readahead=1
        )
        return batches

    return open_stream(scan, layout, request)


def open_relation(relation: Any, request: Request) -> BatchShards[Batch]:
    """Open a relation of DuckDB. Each pass runs its query, for the columns that are needed."""
    import_arrow()  # raises if pyarrow is missing, which DuckDB needs to return rows
    layout = Layout.of(relation.limit(0).to_arrow_table().schema, request)
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in layout.names)

    def query() -> Iterator[Any]:
        batches: Iterator[Any] = iter(relation.project(names).to_arrow_reader(ROWS_PER_BATCH))
        return batches

    return open_stream(query, layout, request)


def open_stream(
    read: Callable[[], Iterator[Any]], layout: Layout, request: Request, once: bool = False
) -> BatchShards[Batch]:
    """Make shards of record batches; `read` returns an iterator over them.

    `read` is called at each pass. If `once` is true, it is called once, and only one pass is possible.
    """
    if request.engine not in (None, "threads"):
        raise TypeError("got an engine for a stream of rows, expected none: it is read in this process")

    def read_batches() -> Iterator[Batch]:
        return (layout.make_batch(batch, number) for number, batch in enumerate(read()) if batch.num_rows)

    content = read_batches() if once else read_batches
    return open_batches(Batches(content), Request(progress=request.progress))
