"""The model room: interactive demonstrations of models, computed by `tamis` and drawn by the page.

    GET /rooms · GET /rooms/NAME → a page      GET /rooms/NAME/example → the page's first request
    POST /rooms/NAME, a JSON object of fields → `rooms.NAME.compute` → a JSON object of numbers and sentences

Rooms need no store and keep nothing between requests. They have a thread of their own, so that a computation
never delays mail; and their modules are imported when the list of rooms is first shown, since they load SciPy
and scikit-learn.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from threading import BoundedSemaphore
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tamis_mail.surfaces.web.context import Context

_MAX_REQUESTS = 8  # at a time; a page has at most two: one that is computed, and its successor
T = TypeVar("T")

# The topics of lectures on probabilistic classification that rooms demonstrate, and the expected results; the
# keys are those of the rows of docs/reference/lectures.md.
ROWS: Mapping[str, str] = {
    "A12": "Generative against discriminative: naive Bayes and logistic regression on growing samples.",
    "B1": "A coin by maximum likelihood: 55 heads and 45 tails give 0.55.",
    "B2": "Beta–Bernoulli updates: Beta(2, 2), heads, Beta(3, 2), heads, Beta(4, 2).",
    "B3": "A prior from a belief: a mean of 0.3, worth 10 observations, is Beta(3, 7).",
    "B4": "The posterior mean is a weighted average of the prior mean and the observed frequency.",
    "B5": "The mode of the posterior.",
    "B6": "The probability of the next observation: after three white swans, a black one has 1/5, never 0.",
    "C1": "Class priors, means and covariances.",
    "C2": "One covariance for all classes: the posterior is a sigmoid of w·x + w₀.",
    "C3": "A covariance for each class: the boundary is quadratic.",
    "C4": "Variances only: naive Bayes.",
    "C6": "A picture of the boundaries.",
    "F1": "The same formula with labels that are known, or guessed by responsibilities.",
    "F2": "Mixtures of Gaussians.",
    "F3": "The bound A(θ, θ₀) lies below the objective and touches it at θ₀.",
    "F4": "No step lowers the objective; a rule says when to stop.",
    "G2": "Matrix completion by alternating least squares: entries that were never seen are predicted.",
    "H1": "The posterior of the weights of a linear model; precisions that are given, or chosen by evidence.",
    "H2": "Point by point gives what all points at once give.",
    "H3": "The variance of a prediction: noise plus what is not known of the weights.",
    "H4": "The pictures of a straight line, and of a sinusoid by nine Gaussian basis functions.",
}


@dataclass(frozen=True, slots=True)
class Room:
    """One page of the model room."""

    name: str  # of its address, template and script
    title: str
    short: str  # a short title, for the list of rooms on each page
    shows: str  # what it shows, in two sentences
    rows: tuple[str, ...]  # keys of ROWS

    @property
    def module(self) -> str:
        """The name of the module that computes it.

        Its `make_example()` returns the first request of the page, and its `compute(fields)` the answer to a
        request: both are objects for JSON.
        """
        return f"tamis_mail.surfaces.web.rooms.{self.name.replace('-', '_')}"


ROOMS: Mapping[str, Room] = {
    room.name: room
    for room in (
        Room(
            "coin",
            "A coin, toss by toss",
            "Coin",
            "Each toss changes what is believed about the coin's probability of heads: the prior times the "
            "likelihood gives the posterior. The more tosses there are, the narrower it becomes, and the "
            "less the prior matters.",
            ("B1", "B2", "B3", "B4", "B5", "B6"),
        ),
        Room(
            "line",
            "A straight line, point by point",
            "Line",
            "Each point narrows the distribution of the line's level and slope, and with it the band in "
            "which the next observation is expected. Lines drawn from the posterior become more and more "
            "similar.",
            ("H1", "H2", "H3", "H4"),
        ),
        Room(
            "curve",
            "A curve of Gaussian basis functions",
            "Curve",
            "A model that is linear in its weights follows a curve if its features are bumps along the axis. "
            "The evidence says how many bumps, of which width and with how much ridge, the points support.",
            ("H1", "H3", "H4"),
        ),
        Room(
            "mixture",
            "EM, step by step",
            "EM",
            "A step of EM first guesses which component each point belongs to, and then fits each component "
            "to its points. It climbs a lower bound that touches the objective where the step begins, so "
            "that the objective never falls.",
            ("F1", "F2", "F3", "F4"),
        ),
        Room(
            "boundaries",
            "Boundaries between Gaussian classes",
            "Boundaries",
            "Each class is a Gaussian, and a point belongs to the class that is most probable there. One "
            "covariance for all classes makes the boundaries straight lines, one for each class makes them "
            "conics.",
            ("C1", "C2", "C3", "C4", "C6"),
        ),
        Room(
            "learning-curves",
            "Naive Bayes against logistic regression",
            "Learning curves",
            "With few messages, the assumption that words are independent helps naive Bayes. With many, "
            "logistic regression learns that some words occur together, and makes fewer errors.",
            ("A12",),
        ),
        Room(
            "ratings",
            "A table of ratings, completed entry by entry",
            "Ratings",
            "From the entries that are known, alternating least squares learns factors of the users and of "
            "the films, and their products fill the rest of the table. The error on hidden entries shows how "
            "well that works.",
            ("G2",),
        ),
    )
}


class _Worker:
    """Runs computations in one thread, and refuses more than a few at a time."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "model-room")
        self._slots = BoundedSemaphore(_MAX_REQUESTS)
        self._has_loaded = False

    def load(self) -> None:
        """Begin to import the modules of the rooms, so that the first room opens sooner."""
        if not self._has_loaded:
            self._has_loaded = True
            for room in ROOMS.values():
                self._executor.submit(import_module, room.module)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work in the thread; raise HTTPException if too many requests wait for it."""
        if not self._slots.acquire(blocking=False):
            raise HTTPException(503, "the model room is busy: try again in a moment")
        future = self._executor.submit(work)
        # A cancelled request frees its slot only when its computation has ended.
        future.add_done_callback(lambda _: self._slots.release())
        return await asyncio.wrap_future(future)


def routes(context: Context) -> list[BaseRoute]:
    worker = _Worker()

    async def list_rooms(request: Request) -> Response:
        worker.load()
        return context.pages.render(request, "rooms.html", {"rooms": ROOMS.values(), "rows": ROWS})

    async def show_room(request: Request) -> Response:
        room = _find_room(request)
        values = {"room": room, "rooms": ROOMS.values()}
        return context.pages.render(request, f"rooms/{room.name}.html", values)

    async def show_example(request: Request) -> Response:
        room = _find_room(request)
        return JSONResponse(await worker.run(lambda: import_module(room.module).make_example()))

    async def compute(request: Request) -> Response:
        room, body = _find_room(request), await request.body()
        status, answer = await worker.run(lambda: _compute(room, body))
        return JSONResponse(answer, status)

    return [
        Route("/rooms", list_rooms),
        Route("/rooms/{name}/example", show_example),
        Route("/rooms/{name}", show_room),
        Route("/rooms/{name}", compute, methods=["POST"]),
    ]


def _find_room(request: Request) -> Room:
    room = ROOMS.get(request.path_params["name"])
    if room is None:
        raise HTTPException(404, "there is no such room")
    return room


def _compute(room: Room, body: bytes) -> tuple[int, Any]:
    """Return the status and the JSON of an answer, or 400 and an error if it cannot be computed."""
    fields = import_module("tamis_mail.surfaces.web.rooms.fields")
    module = import_module(room.module)
    try:
        return 200, fields.to_json(module.compute(fields.Fields.parse(body)))
    except ValueError as error:  # raised by the fields, or by a model that cannot be fitted to them
        return 400, {"error": str(error)}
