"""Jobs: work that one request starts, and whose progress other requests read.

The work is a function of `Connections`, those of a thread to the store and to the catalog.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from tamis_mail.surfaces.web.threads import Connections, Threads

_MAX_JOBS = 100  # jobs that are kept; if there are more, the oldest finished ones are dropped


@dataclass(slots=True)
class Job:
    """The progress of some work; its thread writes it. Other threads read it, and set only `is_cancelled`."""

    title: str
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    done: int = 0
    total: int = 0  # 0 if it is not known
    remark: str = ""  # a sentence about the progress or the result
    fault: str = ""  # why the work failed; empty if it did not
    is_finished: bool = False
    is_cancelled: bool = False  # the work checks it from time to time, and then ends

    def describe(self) -> dict[str, Any]:
        """Return the values that a page shows."""
        return {
            "key": self.key,
            "title": self.title,
            "done": self.done,
            "total": self.total,
            "remark": self.remark,
            "fault": self.fault,
            "finished": self.is_finished,
        }


class Jobs:
    """The jobs of the server by their keys, oldest first."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def add(self, title: str) -> Job:
        """Add a job that has not begun."""
        job = Job(title)
        self._jobs[job.key] = job
        finished = [key for key, known in self._jobs.items() if known.is_finished]
        for key in finished[: max(0, len(self._jobs) - _MAX_JOBS)]:
            del self._jobs[key]
        return job

    def find(self, key: str) -> Job | None:
        return self._jobs.get(key)

    def start(self, job: Job, work: Callable[[Connections, Job], None]) -> "Future[None]":
        """Run the work of a job in the background; an error becomes its fault."""

        def run(connections: Connections) -> None:
            try:
                if not job.is_cancelled:
                    work(connections, job)
            except Exception as error:  # noqa: BLE001 (the page says what happened)
                job.fault = str(error) or type(error).__name__
            finally:
                job.is_finished = True

        return self._threads.submit_background(run)

    def restart(self, title: str, work: Callable[[Connections, Job], None]) -> Job:
        """Run work in the background; ask older jobs with this title to end."""
        for job in self._jobs.values():
            job.is_cancelled |= job.title == title
        job = self.add(title)
        self.start(job, work)
        return job

    def cancel_all(self) -> None:
        """Ask all jobs to end."""
        for job in self._jobs.values():
            job.is_cancelled = True
