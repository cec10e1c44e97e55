"""List and judge the messages of imports (mailboxes that were dragged onto the page) and of watched folders.

An import is kept, unpacked, in a folder beside the store, under a random name. Watched folders (or mailboxes
in one file) stay where they are; their new messages are read about every minute.
"""

import asyncio
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tamis_mail.catalog import Catalog, FoundMessage, remove_missing, scan_path
from tamis_mail.files import open_privately
from tamis_mail.mailbox import SourceError
from tamis_mail.mailbox.stream import Content, File
from tamis_mail.store.log import EventLog
from tamis_mail.surfaces.web.actions import judge_again
from tamis_mail.surfaces.web.context import Context
from tamis_mail.surfaces.web.jobs import Job
from tamis_mail.surfaces.web.pages import show_invisible
from tamis_mail.surfaces.web.threads import Connections

_LABELS = ("", "spam", "ham")  # of an import; with "" its messages are only judged
_BATCH = 100  # messages that are judged, and written to the catalog, together
_BATCH_BYTES = 16 << 20  # a batch that has more bytes than this gets no further message
_BLOCK = 1 << 20  # bytes that are unpacked at once
_WATCH_SECONDS = 60.0  # time from the end of one reading of the watched folders to the next
_MIB = 1 << 20


async def receive_import(context: Context, request: Request, name: str, label: str) -> Job:
    """Write the body of a request to a file, and start the job that reads it.

    `name` is shown to the user. With a `label`, the messages are learned, and then all messages of the
    catalog are judged again.
    """
    if label not in _LABELS:
        raise HTTPException(400, f"label is {label[:40]!r}, expected spam, ham or nothing")
    title = show_invisible(name)[:100] or "mailbox"
    folder = context.imports
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{secrets.token_hex(8)}.mail"
    try:
        with open(path, "xb", opener=open_privately) as file:
            async for block in request.stream():
                await asyncio.to_thread(file.write, block)
            size = file.tell()
        if not size:
            raise HTTPException(400, f"{title} is empty, expected a message or an mbox")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    job = context.jobs.add(f"Import of {title}")
    job.total = size

    def work(connections: Connections, job: Job) -> None:
        try:
            unpacked = _unpack(path, context.security.limits.upload)
            source = connections.catalog.add_source(str(unpacked), name=title, is_import=True)
            try:
                n_messages = _read_source(context, connections, job, source, str(unpacked), label)
            except SourceError:
                connections.catalog.remove_source(source)
                raise
        except SourceError as error:
            path.unlink(missing_ok=True)
            # The user knows the mailbox by its title, not by its random name.
            raise SourceError(str(error).replace(str(path), title)) from None
        job.remark = f"{n_messages:,} {'message' if n_messages == 1 else 'messages'} in {title}."
        if label:
            judge_all(connections, job)

    context.jobs.start(job, work)
    return job


def _unpack(path: Path, largest: int) -> Path:
    """Replace a packed file by its contents, of at most `largest` bytes; other files stay as they are."""
    target = path.with_suffix(".unpacked")
    try:
        with File(str(path)) as file:
            content = Content(file)
            if not content.is_packed:
                return path
            with open(target, "xb", opener=open_privately) as output:
                while block := content.read(_BLOCK):
                    output.write(block)
                    if output.tell() > largest:
                        raise SourceError(f"{path} unpacks to over {largest // _MIB} MB: unpack it first")
        target.replace(path)
    finally:
        target.unlink(missing_ok=True)
    return path


def _read_source(
    context: Context, connections: Connections, job: Job, source: int, path: str, label: str
) -> int:
    """List the new messages of a path, and learn them if a label is given, else judge them.

    Return their number.
    """

    def note_size(size: int) -> None:
        job.total = size

    n_messages = 0
    for batch in _make_batches(scan_path(connections.catalog, source, path, on_size=note_size)):
        if job.is_cancelled:
            break
        _add_batch(connections, batch)
        if label:
            context.threads.submit_writing(partial(_learn, batch, label, path)).result()
        else:
            _judge_batch(connections, batch)
        n_messages += len(batch)
        job.done = batch[-1].position
        job.remark = f"{n_messages:,} messages"
    return n_messages


def _make_batches(messages: Iterable[FoundMessage]) -> Iterator[list[FoundMessage]]:
    batch: list[FoundMessage] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message.raw)
        if len(batch) == _BATCH or size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _add_batch(connections: Connections, batch: list[FoundMessage]) -> None:
    """Add messages to the catalog, with the labels of those that the store has learned."""
    learned = connections.sieve.store.find_entries(found.entry.digest for found in batch)
    connections.catalog.add_messages(found.entry for found in batch)
    connections.catalog.note_labels((digest, entry.label) for digest, entry in learned.items())


def _judge_batch(connections: Connections, batch: list[FoundMessage]) -> None:
    verdicts = connections.sieve.sort_batch([found.raw for found in batch])
    connections.catalog.note_verdicts(
        (found.entry.digest, verdict.label, verdict.probability)
        for found, verdict in zip(batch, verdicts, strict=True)
    )


def _learn(batch: list[FoundMessage], label: str, path: str, connections: Connections) -> None:
    connections.sieve.learn_many((found.raw for found in batch), label, source=path, processes=1)
    connections.catalog.note_labels((found.entry.digest, label) for found in batch)
    # The catalog applies the new events of the log.
    connections.catalog.follow(EventLog.of(connections.sieve.store.path_name))


def judge_all(connections: Connections, job: Job) -> None:
    """Judge again, by the present store, all messages of the catalog whose file is known."""
    job.total, job.done = connections.catalog.count_with_file(), 0
    last_number = 0  # of a message in the catalog
    while not job.is_cancelled and (rows := connections.catalog.digests_with_file(last_number, _BATCH)):
        judge_again(connections, [digest for _, digest in rows], must_end=lambda: job.is_cancelled)
        last_number, _ = rows[-1]
        job.done += len(rows)


async def poll_folders(context: Context) -> None:
    """Read the watched folders again and again, until the task is cancelled."""
    while True:
        job = context.jobs.add("Reading the folders")
        with suppress(Exception):  # the job keeps the error, as its `fault`
            await asyncio.wrap_future(context.jobs.start(job, partial(read_folders, context)))
        await asyncio.sleep(_WATCH_SECONDS)


def read_folders(context: Context, connections: Connections, job: Job) -> None:
    """Add the new messages of all watched folders to the catalog."""
    faults: list[str] = []
    for source in connections.catalog.sources():
        if not source.is_import and not job.is_cancelled:
            try:
                _read_source(context, connections, job, source.number, source.path, label="")
                remove_missing(connections.catalog, source.number)
            except SourceError as error:
                faults.append(str(error))
    job.fault = "; ".join(faults)


def add_folders(catalog: Catalog, paths: Iterable[str]) -> None:
    """Add folders to those that are watched."""
    for path in paths:
        catalog.add_source(str(Path(path).expanduser().resolve()), name=path)


def routes(context: Context) -> list[BaseRoute]:
    async def receive(request: Request) -> Response:
        parameters = request.query_params
        job = await receive_import(context, request, parameters.get("name", ""), parameters.get("label", ""))
        return JSONResponse(job.describe(), 202)

    async def judge(request: Request) -> Response:
        job = context.jobs.restart("Judging all messages again", judge_all)
        return JSONResponse(job.describe(), 202)

    return [
        Route("/imports", receive, methods=["POST"]),
        Route("/judge-all", judge, methods=["POST"]),
    ]
