"""The page that lists mail, the page of one message, and their forms."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from tamis_mail import features, tokens
from tamis_mail.catalog import CatalogError, Cursor, Query, Row, read_message
from tamis_mail.message import canonical, parse
from tamis_mail.message.dates import date_of
from tamis_mail.reporting.similarity import choose_sample, find_similar
from tamis_mail.reporting.wording import describe_verdict
from tamis_mail.store.log import EventLog
from tamis_mail.surfaces.web import actions
from tamis_mail.surfaces.web.context import Context
from tamis_mail.surfaces.web.explanation import (
    SHOWN_PARTS,
    Tinter,
    find_changes,
    find_strongest,
    list_steps,
    read_parts,
)
from tamis_mail.surfaces.web.pages import show_invisible
from tamis_mail.surfaces.web.threads import Connections
from tamis_mail.verdict import Rule

_JUDGE_SECONDS = 10.0  # after this time, the answer has only the verdicts that are ready
PAGE_MESSAGES = 50  # messages of a page
_DIGEST_DIGITS = 32
_STRONGEST = 12  # pieces of evidence for spam, and as many against it, that are shown
_FIELDS = 40  # header fields that are shown, besides the first ones
_FIELD_TEXT = 500  # characters of a header field that are shown
_HISTORY = 10  # events of a message that are shown
# The choices above the list of mail: value in the address → text.
_VERDICTS = {"": "all", "unsure": "unsure", "spam": "spam", "ham": "wanted", "none": "not judged"}
_LABELS = {"": "learned or not", "none": "not learned", "spam": "learned as spam", "ham": "learned as wanted"}
_ORDERS = {"doubt": "unsure first", "newest": "newest first"}
# Header fields that are shown first; the others follow in the order of the message.
_FIRST_FIELDS = ("from", "to", "cc", "reply-to", "date", "subject")


def read_digest(text: str) -> bytes:
    """Read a digest from an address; raise HTTPException if it is not valid."""
    if len(text) == _DIGEST_DIGITS:
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    raise HTTPException(404, "there is no such message")


def read_query(parameters: QueryParams) -> Query:
    """Read a query from an address; raise HTTPException if a value is unknown."""
    source = parameters.get("source", "") or "0"
    try:
        if not (source.isascii() and source.isdigit() and len(source) < 10):
            raise ValueError(f"source is {source[:40]!r}, expected a number")
        return Query(
            text=parameters.get("text", "")[:200],
            verdict=parameters.get("verdict", "")[:50],
            label=parameters.get("label", "")[:50],
            source=int(source),
            order=parameters.get("order", "") or "doubt",
        )
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def _read_cursor(parameters: QueryParams, name: str) -> Cursor | None:
    text = parameters.get(name)
    if not text:
        return None
    try:
        return Cursor.parse(text)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def find_page(
    connections: Connections, parameters: QueryParams, limit: int = PAGE_MESSAGES
) -> dict[str, Any]:
    """Return the rows that an address asks for, and the cursors of the pages before and after them.

    A cursor is the position of a row in the list, as text.
    """
    query = read_query(parameters)
    after, before = _read_cursor(parameters, "after"), _read_cursor(parameters, "before")
    catalog = connections.catalog
    catalog.follow(EventLog.of(connections.sieve.store.path_name))  # applies the new events of the log
    listing = catalog.list_page(query, after=after, before=before, limit=limit)
    if before is not None and not listing.has_previous:
        listing = catalog.list_page(query, limit=limit)  # a full first page
    rows = listing.rows
    return {
        "query": query,
        "rows": rows,
        "previous": str(Cursor.of(rows[0])) if rows and listing.has_previous else None,
        "next": str(Cursor.of(rows[-1])) if rows and listing.has_next else None,
    }


def _read_mail_page(connections: Connections, parameters: QueryParams) -> dict[str, Any]:
    values = find_page(connections, parameters)
    counts = connections.catalog.count_verdicts()
    labels = connections.sieve.store.labels()
    learned = {label.name: label.messages for label in labels if label.messages}
    return values | {
        "counts": counts,
        "total": sum(counts.values()),
        "sources": connections.catalog.sources(),
        "learned": learned,
        "verdicts": _VERDICTS,
        "labels": _LABELS,
        "orders": _ORDERS,
    }


def _read_message_page(connections: Connections, digest: bytes) -> dict[str, Any]:
    row = connections.catalog.find(digest)
    if row is None:
        raise HTTPException(404, "there is no such message")
    entry = connections.sieve.store.find_entry(digest)
    values: dict[str, Any] = {
        "row": row,
        "entry": entry,
        "history": _find_history(connections, digest),
        "fault": "",
    }
    try:
        raw = read_message(connections.catalog, digest)
    except CatalogError as error:
        return values | {"fault": str(error)}
    canonical_bytes = canonical(raw)
    message = parse(canonical_bytes)
    verdict = connections.sieve.sort(canonical_bytes)
    connections.catalog.note_verdicts([(digest, verdict.label, verdict.probability)])
    evidence = verdict.evidence
    rule = Rule.of(connections.sieve.store)
    tinter = Tinter(evidence)  # colours words by their evidence
    first = [
        (name, value[:_FIELD_TEXT])
        for wanted in _FIRST_FIELDS
        for name, value in message.headers
        if name == wanted
    ][: 2 * len(_FIRST_FIELDS)]  # a name may be repeated, but only so many are shown
    others = [(name, value[:_FIELD_TEXT]) for name, value in message.headers if name not in _FIRST_FIELDS]
    return values | {
        "verdict": verdict,
        "words": describe_verdict(verdict.label, verdict.probability),
        "subject": tinter.tint(row.subject, "subject"),
        "date": date_of(raw),
        "first_fields": [(name, tinter.tint(value, name)) for name, value in first],
        "other_fields": [(name, tinter.tint(value, name)) for name, value in others[:_FIELDS]],
        "omitted_fields": max(0, len(others) - _FIELDS),
        "parts": read_parts(message, tinter),
        "omitted_parts": max(0, len(message.parts) - SHOWN_PARTS),
        "faults": message.faults,
        "steps": list_steps(verdict, evidence),  # the bars of a chart: how the kinds of evidence add up
        "changes": find_changes(verdict, evidence, rule),  # evidence without which the verdict would differ
        "rule": rule,
        "for_spam": find_strongest(evidence, 1, _STRONGEST),
        "against": find_strongest(evidence, -1, _STRONGEST),
    }


def _find_history(connections: Connections, digest: bytes) -> Sequence[Any]:
    log = EventLog.of(connections.sieve.store.path_name)
    return log.find_history(digest)[-_HISTORY:][::-1] if log.exists() else []


def describe_similar(connections: Connections, digest: bytes) -> list[dict[str, Any]]:
    """Return the learned messages that are most similar to a message, with the features that they share.

    Raise CatalogError if the message cannot be read and the store does not have its features.
    """
    store = connections.sieve.store
    keys = store.find_features(digest)
    names: dict[int, str] = {}
    try:
        message = parse(canonical(read_message(connections.catalog, digest)))
        message_tokens = tokens.read(message, store.token_version())
        names = features.name_features(message_tokens)
        keys = features.hash_tokens(message_tokens)
    except CatalogError:
        if keys is None:
            raise
    learned = store.message_features(choose=choose_sample)
    labels = {label.id: label.name for label in store.labels()}
    similar = find_similar(learned, keys, store.token_version(), own_digest=digest)
    rows = {one.digest: connections.catalog.find(one.digest) for one in similar}
    return [
        {
            "digest": one.digest.hex(),
            "label": labels.get(one.label, ""),
            "similarity": round(one.similarity, 4),
            "listed": rows[one.digest] is not None,
            "subject": show_invisible(_subject_of(rows[one.digest])),
            "shared": [show_invisible(names[key]) for key in one.shared if key in names],
        }
        for one in similar
    ]


def _subject_of(row: Row | None) -> str:
    return (row.subject or "(no subject)") if row is not None else "(a message that is not listed here)"


def _read_digests(form: FormData) -> list[bytes]:
    values = [value for value in form.getlist("digest") if isinstance(value, str)]
    if len(values) > actions.MAX_MESSAGES:
        raise HTTPException(400, f"an action takes at most {actions.MAX_MESSAGES} messages")
    return [read_digest(value) for value in values]


def _redirect_back(form: FormData) -> RedirectResponse:
    """Redirect to the page that a form names, if it is on this server, else to the first page."""
    address = str(form.get("next", "/"))
    if not address.startswith("/") or address.startswith(("//", "/\\")):
        address = "/"
    return RedirectResponse(address, 303)


def choose_action(name: str, digests: Sequence[bytes]) -> Callable[[Connections], actions.Outcome] | None:
    """Return the action of a button, or None if there is no such button."""
    if name in ("spam", "ham"):
        return lambda connections: actions.mark(connections, digests, name)
    if name == "forget":
        return lambda connections: actions.forget(connections, digests)
    if name in ("allow", "block"):
        return lambda connections: actions.set_senders(connections, digests, is_allowed=name == "allow")
    return None


def routes(context: Context) -> list[BaseRoute]:
    async def show_mail(request: Request) -> Response:
        parameters = request.query_params
        values = await context.threads.read(lambda connections: _read_mail_page(connections, parameters))
        present = {
            name: parameters[name]
            for name in ("text", "verdict", "label", "source", "order")
            if parameters.get(name)
        }
        # Returns the address of this list with some parameters changed.
        values["with_parameters"] = lambda **changed: "/?" + urlencode(present | changed)
        return context.pages.render(request, "mail.html", values)

    async def show_message(request: Request) -> Response:
        digest = read_digest(request.path_params["digest"])
        values = await context.threads.read(lambda connections: _read_message_page(connections, digest))
        return context.pages.render(request, "message.html", values)

    async def show_similar(request: Request) -> Response:
        digest = read_digest(request.path_params["digest"])
        similar = await context.threads.read(lambda connections: describe_similar(connections, digest))
        return JSONResponse(similar)

    async def apply_action(request: Request) -> Response:
        """Do what a button says to the selected messages or, if it belongs to a row, to that message."""
        form = await request.form()
        digests = _read_digests(form)
        name = str(form.get("action", ""))
        if one := form.get("one"):  # a button of one row: the action, a colon and the digest
            name, _, text = str(one).partition(":")
            digests = [read_digest(text)]
        action = choose_action(name, digests)
        if action is None:
            raise HTTPException(400, f"action is {name[:40]!r}, expected spam, ham, forget, allow or block")
        outcome = (
            await context.threads.write(action)
            if digests
            else actions.Outcome("Select messages first.", is_fault=True)
        )
        request.scope["session"].notices.append(outcome.as_notice())
        return _redirect_back(form)

    async def undo(request: Request) -> Response:
        """Undo learning events or, if the form names none, a change of the lists of senders."""
        form = await request.form()
        if events := str(form.get("events", "")):
            try:
                ranges = actions.read_ranges(events)
            except ValueError as error:
                raise HTTPException(400, str(error)) from None
            outcome = await context.threads.write(lambda connections: actions.undo(connections, ranges))
        else:
            # Entries by what they were before the change: new (on no list), allowed or blocked.
            new, allowed, blocked = (
                str(form.get(name, "")).splitlines() for name in ("was_new", "was_allowed", "was_blocked")
            )
            texts = str(form.get("digests", "")).split()
            if len(texts) > actions.MAX_MESSAGES:
                raise HTTPException(400, f"an action takes at most {actions.MAX_MESSAGES} messages")
            digests = [read_digest(text) for text in texts]
            outcome = await context.threads.write(
                lambda connections: actions.restore_list(connections, new, allowed, blocked, digests)
            )
        request.scope["session"].notices.append(outcome.as_notice())
        return _redirect_back(form)

    async def judge(request: Request) -> Response:
        """Judge messages again, as the page asks for those whose verdicts are stale."""
        values = await read_json(request)
        texts = values.get("digests") if isinstance(values, dict) else None
        if not isinstance(texts, list) or len(texts) > 2 * PAGE_MESSAGES:
            raise HTTPException(400, f"expected digests, a list of at most {2 * PAGE_MESSAGES}")
        digests = [read_digest(str(text)) for text in texts]
        end = time.monotonic() + _JUDGE_SECONDS  # the page asks again for the messages that are left
        work = partial(actions.judge_again, digests=digests, must_end=lambda: time.monotonic() > end)
        verdicts = await asyncio.wrap_future(context.threads.submit_analysis(work))
        return JSONResponse(
            {digest.hex(): {"label": label, "probability": p} for digest, (label, p) in verdicts.items()}
        )

    return [
        Route("/", show_mail),
        Route("/messages/{digest}", show_message),
        Route("/messages/{digest}/similar", show_similar),
        Route("/mark", apply_action, methods=["POST"]),
        Route("/undo", undo, methods=["POST"]),
        Route("/judge", judge, methods=["POST"]),
    ]


async def read_json(request: Request) -> Any:
    """Read the JSON of a request; raise HTTPException if it is not valid."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise HTTPException(415, "the type of the body must be application/json")
    try:
        return await request.json()
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not valid JSON") from None
