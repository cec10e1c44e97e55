"""Compute figures that take seconds in a thread of their own, and cache them.

    find(figure) -> its values, or the job that computes them

A cached figure is valid while the state is the same. The state of the store is its totals, its rule and its
weights; the state of the verdicts is the number of the newest event and how many messages have each verdict.
A page asks again when the job has finished.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from tamis_mail.store.log import EventLog
from tamis_mail.surfaces.web.jobs import Job, Jobs
from tamis_mail.surfaces.web.threads import Connections, Threads

_MAX_CACHED = 16  # figures, each for one state
_STEPS = 100  # parts into which the progress of a job is divided

# Computes the values of a figure; it calls its second argument with the fraction that is done, from 0 to 1.
Compute = Callable[[Connections, Callable[[float], None]], dict[str, Any]]


class CancelledError(Exception):
    """The server is stopping, and the computation stops, too."""


def get_store_state(connections: Connections) -> Hashable:
    """Return the totals of the labels, and the settings that change when weights are fitted."""
    store = connections.sieve.store
    with store.snapshot():
        settings = tuple(store.setting(name) for name in ("rule", "weights", "epoch", "era"))
        return (*store.labels(), settings)


def get_verdict_state(connections: Connections) -> Hashable:
    """Return the number of the newest event, and the numbers of messages by verdict."""
    newest = EventLog.of(connections.sieve.store.path_name).newest_number()
    return newest, tuple(sorted(connections.catalog.count_verdicts().items()))


class Analysis:
    """Computes figures one after the other, in the order in which they were requested."""

    def __init__(self, threads: Threads, jobs: Jobs) -> None:
        self._threads = threads
        self._jobs = jobs
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, dict[str, Any]] = OrderedDict()
        self._running: dict[Hashable, Job] = {}

    async def find(
        self, name: Hashable, title: str, compute: Compute, *, depends_on_verdicts: bool = False
    ) -> dict[str, Any] | Job:
        """Return the values of a figure for the present state, or the job that computes them.

        `name` identifies the figure and its parameters. With `depends_on_verdicts`, the figure depends on the
        verdicts of the log and the catalog, else on the store.
        """
        get_state = get_verdict_state if depends_on_verdicts else get_store_state
        key = (name, await self._threads.read(get_state))
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            if name in self._running:  # perhaps for an older state: the page asks again when it has finished
                return self._running[name]
            job = self._running[name] = self._jobs.add(title)
            job.total = _STEPS
        self._threads.submit_analysis(lambda connections: self._run(connections, job, key, name, compute))
        return job

    def _run(
        self, connections: Connections, job: Job, key: Hashable, name: Hashable, compute: Compute
    ) -> None:
        def advance(fraction: float) -> None:
            if job.is_cancelled:
                raise CancelledError
            job.done = round(_STEPS * fraction)

        try:
            advance(0.0)
            values = compute(connections, advance)
            with self._lock:
                self._values[key] = values
                while len(self._values) > _MAX_CACHED:
                    self._values.popitem(last=False)
        except CancelledError:
            job.fault = "the server is stopping"
        except Exception as error:  # noqa: BLE001 (the page says what happened)
            job.fault = str(error) or type(error).__name__
        finally:
            with self._lock:
                del self._running[name]
            job.is_finished = True
