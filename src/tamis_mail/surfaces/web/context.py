"""`Context`, the objects that every route of the page uses."""

from dataclasses import dataclass
from pathlib import Path

from tamis_mail.surfaces.web.jobs import Jobs
from tamis_mail.surfaces.web.pages import Pages
from tamis_mail.surfaces.web.security import Security
from tamis_mail.surfaces.web.threads import Threads


@dataclass(frozen=True, slots=True)
class Context:
    store: Path  # its file
    security: Security  # tokens and sessions
    threads: Threads  # in which the store is read and written
    jobs: Jobs  # running and finished ones
    pages: Pages  # the templates

    @property
    def imports(self) -> Path:
        """The folder of mailboxes that were imported."""
        return Path(f"{self.store.resolve()}.imports")


def make_context(store: Path, security: Security) -> Context:
    threads = Threads(store)
    return Context(store, security, threads, Jobs(threads), Pages())
