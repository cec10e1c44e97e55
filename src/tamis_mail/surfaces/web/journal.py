"""The page Journal: the learning events of the log, newest first, each with a button that undoes it.

The events are read from the log, not from the store's table `journal`.
"""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tamis_mail.sieve.undoing import describe
from tamis_mail.store.log import Event, EventLog
from tamis_mail.surfaces.web.context import Context
from tamis_mail.surfaces.web.threads import Connections

_EVENTS = 50  # events of a page


@dataclass(frozen=True, slots=True)
class _Page:
    """The learning events that one page of the journal shows."""

    events: list[Event]  # newest first
    undo_numbers: dict[int, int]  # by number of an event that was undone: the number of its undoing
    has_older: bool
    is_log_on: bool

    def is_in_force(self, number: int) -> bool:
        """Whether an event was not undone, or its undo was undone."""
        is_in_force = True
        while (undo_number := self.undo_numbers.get(number)) is not None:
            number, is_in_force = undo_number, not is_in_force
        return is_in_force


def routes(context: Context) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        before = _read_number(request.query_params.get("before"))
        page = await context.threads.read(lambda connections: _read_page(connections, before))
        rows = [
            {
                "event": event,
                "action": describe(event),
                "undone_by": page.undo_numbers.get(event.number),
                "can_undo": bool(event.digest) and page.is_in_force(event.number),
            }
            for event in page.events
        ]
        values = {
            "rows": rows,
            "is_newest": before is None,
            "older": page.events[-1].number if page.has_older else None,
            "is_log_on": page.is_log_on,
        }
        return context.pages.render(request, "journal.html", values)

    return [Route("/journal", show)]


def _read_page(connections: Connections, before: int | None) -> _Page:
    store = connections.sieve.store
    log = EventLog.of(store.path_name)
    if not log.exists():
        return _Page([], {}, False, store.is_log_on())
    events = log.find_learning(_EVENTS + 1, before)
    return _Page(events[:_EVENTS], log.undo_numbers(), len(events) > _EVENTS, store.is_log_on())


def _read_number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 18):  # SQLite has integers of 64 bits
        raise HTTPException(400, f"before is {text[:40]!r}, expected the number of an event")
    return int(text)
