"""The web application: the list of routes, and the `Context` that every route gets.

Each module of pages, and that of the API, has `routes(context)`, which returns its routes (a path and the
function that answers its requests). A route that reads calls `await context.threads.read(work)`, and one that
changes the store `await context.threads.write(work)`, where `work` is a function of `Connections`; so nothing
runs on the event loop for long.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tamis_mail.catalog import CatalogError
from tamis_mail.mailbox import SourceError
from tamis_mail.store import StoreError
from tamis_mail.store.log import LogError
from tamis_mail.surfaces.web import api, imports, journal, learning, mail, model_room, settings_page
from tamis_mail.surfaces.web.context import Context, make_context
from tamis_mail.surfaces.web.pages import STATIC_FOLDER
from tamis_mail.surfaces.web.security import Guard
from tamis_mail.verdict.rule import RuleError

__all__ = ["Context", "make_app", "make_context"]


def _make_base_routes(context: Context) -> list[BaseRoute]:
    """Return the routes that begin a session, and that read the progress of a job."""

    async def enter(request: Request) -> Response:
        if request.method != "GET":  # a preview of the link sends HEAD, which must not use up the token
            raise HTTPException(405, "the address is opened by GET")
        session = context.security.enter(request.query_params.get("token", ""))
        if session is None:
            raise HTTPException(
                401, "the token is not valid, or was used before: start tamis serve web again"
            )
        response = RedirectResponse("/", 303)
        context.security.set_cookie(response, session)
        return response

    async def find_job(request: Request) -> Response:
        job = context.jobs.find(request.path_params["key"])
        if job is None:
            raise HTTPException(404, "there is no such job")
        return JSONResponse(job.describe())

    return [Route("/enter", enter, methods=["GET"]), Route("/jobs/{key}", find_job)]


# The functions that return the routes of each module.
_ROUTES: Sequence[Callable[[Context], Sequence[BaseRoute]]] = (
    _make_base_routes,
    mail.routes,
    imports.routes,
    api.routes,
    learning.routes,
    journal.routes,
    settings_page.routes,
    model_room.routes,
)


def make_app(context: Context) -> Starlette:
    """Make the application; it closes the context when it ends."""

    @asynccontextmanager
    async def manage_lifespan(_: Starlette) -> AsyncIterator[None]:
        await context.threads.write(lambda connections: None)  # creates the store, which readers need
        polling_task = asyncio.create_task(imports.poll_folders(context))
        yield
        polling_task.cancel()
        context.jobs.cancel_all()
        context.threads.close()

    async def answer_error(request: Request, error: Exception) -> Response:
        """Answer an error with a sentence: as JSON for the API and for scripts, else as a page."""
        status, sentence = _describe_error(error)
        # Only scripts of the page send the CSRF token in a header; forms have it in a field.
        if request.url.path.startswith("/api/") or "x-csrf-token" in request.headers:
            return JSONResponse({"error": sentence}, status, getattr(error, "headers", None))
        values = {"status": status, "sentence": f"{sentence[:1].upper()}{sentence[1:]}"}
        return context.pages.render(request, "error.html", values, status)

    errors = (HTTPException, StoreError, RuleError, SourceError, LogError, CatalogError)
    return Starlette(
        routes=[
            *(route for routes in _ROUTES for route in routes(context)),
            Mount("/static", StaticFiles(directory=STATIC_FOLDER)),
        ],
        middleware=[Middleware(Guard, security=context.security)],  # checks each request before its route
        exception_handlers=dict.fromkeys(errors, answer_error),
        lifespan=manage_lifespan,
    )


def _describe_error(error: Exception) -> tuple[int, str]:
    """Return the status and the sentence for an error: 409 for a store, a log or mail that cannot be used."""
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    return 409, str(error)
