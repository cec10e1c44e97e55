"""messages and a label → one transaction on the store: journal entries and counts.

This process reads messages and writes the journal while workers count the messages before. Nothing is visible
in the store until the transaction is complete.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tamis_mail import tokens
from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS
from tamis_mail.message import canonical, digest
from tamis_mail.sieve.executor import RunJobs
from tamis_mail.store import Entry, Store, StoreError, Writer

if TYPE_CHECKING:
    from tamis_mail.sieve.jobs import Change

__all__ = ["JOB", "Receipt", "Transaction"]

JOB = 125  # messages of which a worker adds up the counts …
BYTES = 4 << 20  # … or so many bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome for a message: learned, moved, known, forgotten, or unknown (not forgotten)."""

    action: str
    label: str | None
    before: str | None
    digest: bytes


class Transaction:
    """Learns and forgets messages; `run` writes the counts."""

    def __init__(self, store: Store, writer: Writer, source: str) -> None:
        self._store = store
        self._writer = writer
        self._source = source
        self._unit, self._era, self._now = store.unit(), store.era(), int(time.time())
        self._work: list[tuple[bytes, Change]] = []
        self._bytes = 0  # of the messages that wait to be counted
        self._pruned: list[tuple[bytes, Change]] = []  # to be subtracted from pruned counts

    def learn(self, raw: bytes, label: str) -> Receipt:
        """Record that a message has a label."""
        plain = canonical(raw)
        name = digest(plain)
        old = self._store.find(name)
        if old is not None:
            if old.label == label:
                return Receipt("known", label, label, name)
            self._take(plain, old)
        self._give(
            plain, Entry(name, label, self._unit, 0, tokens.VERSION, self._era, self._source, self._now)
        )
        return Receipt("learned" if old is None else "moved", label, old.label if old else None, name)

    def guess(self, plain: bytes, share: int) -> None:
        """Record that a message in canonical form is spam by so many GUESS_UNITS."""
        units = (share * self._unit, (GUESS_UNITS - share) * self._unit)
        likelier = int(units[0] < units[1])
        label, weight, rest = GUESSED_LABELS[likelier], units[likelier], units[1 - likelier]
        name = digest(plain)
        self._give(
            plain, Entry(name, label, weight, rest, tokens.VERSION, self._era, self._source, self._now)
        )

    def forget(self, raw: bytes) -> Receipt:
        """Record that a message is forgotten."""
        plain = canonical(raw)
        name = digest(plain)
        old = self._store.find(name)
        if old is None:
            return Receipt("unknown", None, None, name)
        self._take(plain, old)
        return Receipt("forgotten", None, old.label, name)

    def _give(self, plain: bytes, entry: Entry) -> None:
        self._writer.record(entry)
        self._bytes += len(plain)
        self._work.append((plain, tuple((self._writer.column(name), units) for name, units in entry.columns)))

    def _take(self, plain: bytes, old: Entry) -> None:
        if old.version != tokens.VERSION:
            raise StoreError(
                f"the store {self._store.path} knows this message by tokens of version {old.version}, which "
                f"this tamis, of version {tokens.VERSION}, cannot subtract: learn your mail into a new store"
            )
        self._writer.remove(old.digest)
        work = self._pruned if self._era else self._work
        work.append((plain, tuple((self._writer.column(name), -units) for name, units in old.columns)))

    def run(self, steps: Iterable[Receipt], run_jobs: RunJobs) -> list[Receipt]:
        """Process the steps one by one while workers count; return the receipts."""
        receipts: list[Receipt] = []

        def jobs() -> "Iterator[tuple[list[bytes], list[Change], int]]":
            for receipt in steps:
                receipts.append(receipt)
                if len(self._work) >= JOB or self._bytes >= BYTES:
                    yield self._job(self._work)
            while self._work:
                yield self._job(self._work)

        def undoing() -> "Iterator[tuple[list[bytes], list[Change], int]]":
            while self._pruned:
                yield self._job(self._pruned)

        added = list(run_jobs("count", jobs()))
        clipped = list(run_jobs("count", undoing()))
        for tables, write in ((added, self._writer.add), (clipped, self._writer.add_clipped)):
            if tables:
                write(import_module("tamis_mail.store.tables").Table.total(tables, self._writer.width))
        return receipts

    def _job(self, changes: "list[tuple[bytes, Change]]") -> "tuple[list[bytes], list[Change], int]":
        part = changes[:JOB]
        del changes[:JOB]
        self._bytes = 0
        return [plain for plain, _ in part], [change for _, change in part], self._writer.width
