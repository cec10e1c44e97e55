"""The page Settings: thresholds, lists of senders, folders, decay, export and backup.

Changes are forms, which work without a script; each runs in the writer thread and ends in a notice, a message
at the top of the next page. The suggestion of thresholds, which takes seconds, is requested by the script of
the page.
"""

import gzip
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tamis_mail.catalog.catalog import CatalogSource
from tamis_mail.labels import count_messages
from tamis_mail.mailbox import SourceError, open_source
from tamis_mail.store import Store, exchange, maintenance, saving
from tamis_mail.store.people import (
    PeopleCounts,
    add_entries,
    count_people,
    list_entries,
    parse_entry,
    remove_entries,
)
from tamis_mail.surfaces.web.actions import Outcome, join_entries, make_list_undo
from tamis_mail.surfaces.web.analysis import Analysis
from tamis_mail.surfaces.web.context import Context
from tamis_mail.surfaces.web.figures import compute_thresholds
from tamis_mail.surfaces.web.imports import add_folders, judge_all, read_folders
from tamis_mail.surfaces.web.learning import answer_with_figure
from tamis_mail.surfaces.web.threads import Connections
from tamis_mail.verdict.rule import Rule

# The fractions of wanted mail that may be lost, and of spam that may pass, from which the user can choose.
RATES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
_SHOWN_ENTRIES = 500  # of a list
_MAX_ENTRIES = 1000  # of one form
_MAX_FIELDS = 20  # of a form
_BLOCK = 1 << 16  # bytes of a download that are read at once


@dataclass(frozen=True, slots=True)
class _Settings:
    """The values that the page shows."""

    rule: Rule
    allowed: Sequence[str]  # entries of the lists of senders
    blocked: Sequence[str]
    people: PeopleCounts
    sources: Sequence[CatalogSource]
    decays: int  # how often the store was decayed
    messages: int  # that were learned
    bytes: int  # size of the store
    is_log_on: bool


def routes(context: Context) -> list[BaseRoute]:
    analysis = Analysis(context.threads, context.jobs)

    async def show(request: Request) -> Response:
        settings = await context.threads.read(_read_settings)
        values = {
            "settings": settings,
            "rates": [(rate, f"{1 / rate:,.0f}") for rate in RATES],
            "shown_entries": _SHOWN_ENTRIES,
            "store": str(context.store),
        }
        return context.pages.render(request, "settings.html", values)

    async def suggest(request: Request) -> Response:
        lost, passed = (_read_rate(request.query_params.get(name, "")) for name in ("lost", "passed"))

        def compute(connections: Connections, progress: Callable[[float], None]) -> dict[str, object]:
            return compute_thresholds(connections, lost, passed, progress)

        title = "Judging learned messages by the others"
        return answer_with_figure(await analysis.find(("thresholds", lost, passed), title, compute))

    def judge_listed() -> None:
        """Judge all listed messages again in the background; a running job of this kind ends."""
        context.jobs.restart("Judging all messages again", judge_all)

    def make_route(
        work: Callable[[Connections, FormData], Outcome], *, affects_verdicts: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        """Make the handler of a form; if it affects verdicts, all messages are judged again."""

        async def run(request: Request) -> Response:
            form = await request.form(max_fields=_MAX_FIELDS, max_files=0)
            try:
                outcome = await context.threads.write(lambda connections: work(connections, form))
            except (ValueError, SourceError) as error:
                outcome = Outcome(f"Nothing was changed: {error}.", is_fault=True)
            if affects_verdicts and not outcome.is_fault:
                judge_listed()
            request.scope["session"].notices.append(outcome.as_notice())
            return RedirectResponse("/settings", 303)

        return run

    def watch(connections: Connections, form: FormData) -> Outcome:
        outcome = _watch_folder(connections, form)
        context.jobs.start(context.jobs.add("Reading the folders"), partial(read_folders, context))
        return outcome

    async def download(request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in _DOWNLOADS:
            raise HTTPException(404, f"there is no download of this name, expected {' or '.join(_DOWNLOADS)}")
        write, ending = _DOWNLOADS[kind]
        # The writer thread does it, because SQLite cannot copy (VACUUM INTO) by a read-only connection.
        file = await context.threads.write(lambda connections: _write_unnamed(connections, write))
        name = f"tamis-{kind}-{time.strftime('%Y-%m-%d')}{ending}"
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "content-length": str(os.fstat(file.fileno()).st_size),
        }
        return StreamingResponse(_read_blocks(file), 200, headers, "application/octet-stream")

    handlers = {
        "thresholds": make_route(_set_thresholds),
        "senders": make_route(_set_senders),
        "senders/remove": make_route(_remove_sender),
        "folders": make_route(watch, affects_verdicts=False),
        "folders/remove": make_route(_remove_folder, affects_verdicts=False),
        "decay": make_route(_decay),
    }
    return [
        Route("/settings", show),
        Route("/settings/suggestion", suggest),
        Route("/settings/download/{kind}", download),
        *(Route(f"/settings/{name}", run, methods=["POST"]) for name, run in handlers.items()),
    ]


def _read_settings(connections: Connections) -> _Settings:
    store = connections.sieve.store
    with store.snapshot():
        return _Settings(
            rule=Rule.of(store),
            allowed=list_entries(store, is_allowed=True),
            blocked=list_entries(store, is_allowed=False),
            people=count_people(store),
            sources=connections.catalog.sources(),
            decays=store.integer_setting("epoch"),
            messages=sum(count_messages(store.labels())),
            bytes=store.path.stat().st_size,
            is_log_on=store.is_log_on(),
        )


def _set_thresholds(connections: Connections, form: FormData) -> Outcome:
    """Write the thresholds into the rule, and fit the weights again."""
    spam, ham = (_read_probability(form, name) for name in ("spam", "ham"))
    if not ham < spam:
        raise ValueError(
            f"the threshold of wanted mail is {ham:g} and that of spam {spam:g}, expected a smaller one for "
            "wanted mail"
        )
    prior = Rule.read_prior(connections.sieve.store)  # without the fitted weights, as `write_rule` takes it
    connections.sieve.write_rule(replace(prior, spam=spam, ham=ham))
    return Outcome(
        f"A message is judged as spam from a probability of {spam:g}, and as wanted up to {ham:g}."
    )


def _set_senders(connections: Connections, form: FormData) -> Outcome:
    """Allow or block the addresses and domains of a text, one per line or separated by commas."""
    texts = [text for text in str(form.get("entries", "")).replace(",", "\n").splitlines() if text.strip()]
    if not texts:
        raise ValueError("no address was given, expected one such as ann@example.org, or example.org")
    if len(texts) > _MAX_ENTRIES:
        raise ValueError(f"{len(texts):,} addresses were given, expected at most {_MAX_ENTRIES:,}")
    entries = [parse_entry(text) for text in texts]
    is_allowed = _read_list(form)
    before = add_entries(connections.sieve.store, entries, is_allowed=is_allowed)
    return Outcome(
        f"{'Allowed' if is_allowed else 'Blocked'}: {join_entries(entries)}.", make_list_undo(before)
    )


def _remove_sender(connections: Connections, form: FormData) -> Outcome:
    entry = parse_entry(str(form.get("entry", "")))
    is_allowed = _read_list(form)
    before = remove_entries(connections.sieve.store, [entry], is_allowed=is_allowed)
    if before.get(entry) is not is_allowed:
        return Outcome(f"{join_entries([entry])} was not on the list.", is_fault=True)
    verb = "allowed" if is_allowed else "blocked"
    return Outcome(f"{join_entries([entry])} is no longer {verb}.", make_list_undo(before))


def _watch_folder(connections: Connections, form: FormData) -> Outcome:
    """Watch a folder, or a mailbox in one file."""
    path = str(form.get("path", "")).strip()
    try:
        is_absolute = Path(path).expanduser().is_absolute()
    except RuntimeError:  # ~name of a user who does not exist
        is_absolute = False
    if not is_absolute:
        raise ValueError(f"the path is {path[:60]!r}, expected one that begins with / or with ~")
    open_source(str(Path(path).expanduser()))
    add_folders(connections.catalog, [path])
    return Outcome(f"{path} is watched. Its messages are being read.")


def _remove_folder(connections: Connections, form: FormData) -> Outcome:
    """Stop listing the messages of a folder; the copy of an imported mailbox is deleted.

    The messages that were learned from it stay learned.
    """
    number = str(form.get("number", ""))
    source = next((one for one in connections.catalog.sources() if str(one.number) == number), None)
    if source is None:
        raise ValueError(f"there is no folder of the number {number[:20]!r}")
    connections.catalog.remove_source(source.number)
    if source.is_import:
        Path(source.path).unlink(missing_ok=True)
    return Outcome(f"{source.name or source.path} is no longer listed. What was learned from it stays.")


def _decay(connections: Connections, form: FormData) -> Outcome:
    """Let everything that was learned so far count half, and fit the weights again."""
    if form.get("confirmed") != "yes":
        raise ValueError("decay cannot be undone, so tick the box first")
    decays = maintenance.decay(connections.sieve.store)
    connections.sieve.fit_weights()
    times = "once" if decays == 1 else f"{decays} times"
    return Outcome(f"Everything learned so far counts half. The store was decayed {times}.")


def _read_list(form: FormData) -> bool:
    """Whether a form names the list of allowed senders, not that of blocked ones."""
    name = form.get("list")
    if name not in ("allowed", "blocked"):
        raise ValueError(f"the list is {str(name)[:20]!r}, expected allowed or blocked")
    return name == "allowed"


def _read_probability(form: FormData, name: str) -> float:
    text = str(form.get(name, ""))
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1:
        raise ValueError(f"a threshold is {text[:20]!r}, expected a probability between 0 and 1")
    return value


def _read_rate(text: str) -> float:
    for rate in RATES:
        if text == f"{rate:g}":
            return rate
    known = ", ".join(f"{rate:g}" for rate in RATES)
    raise HTTPException(400, f"a rate is {text[:20]!r}, expected one of {known}")


def _write_unnamed(connections: Connections, write: Callable[[Store, Path], None]) -> IO[bytes]:
    """Write a temporary file for one answer, open it and delete its name, so that nothing is left behind."""
    with tempfile.TemporaryDirectory(prefix="tamis-") as folder:
        path = Path(folder) / "file"
        write(connections.sieve.store, path)
        return path.open("rb")


def _read_blocks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while block := file.read(_BLOCK):
            yield block


def _write_export(store: Store, path: Path) -> None:
    """Write the contents of the store as text, which `tamis store import` reads."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        exchange.export(store, packed)  # type: ignore[arg-type]


def _write_backup(store: Store, path: Path) -> None:
    """Write a backup, which `tamis store restore` reads."""
    saving.backup(store, path)


_DOWNLOADS: dict[str, tuple[Callable[[Store, Path], None], str]] = {
    "backup": (_write_backup, ".tamis"),
    "export": (_write_export, ".txt.gz"),
}
