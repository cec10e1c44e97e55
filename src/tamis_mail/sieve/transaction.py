"""One transaction on the store: the journal entries and the counts of messages that are learned or forgotten.

This process reads messages and writes the journal while workers count earlier messages. Nothing is visible
in the store until the transaction is complete.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS
from tamis_mail.message import canonical, digest
from tamis_mail.message.addresses import read_recipients, read_senders
from tamis_mail.sieve.executor import RunJobs
from tamis_mail.store import Entry, Store, StoreError, Writer, people

if TYPE_CHECKING:
    from tamis_mail.sieve.jobs import Change

__all__ = ["JOB_MESSAGES", "Receipt", "Transaction"]

JOB_MESSAGES = 125  # messages of which a worker adds up the counts …
JOB_BYTES = 4 << 20  # … or so many bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome for a message: learned, moved, known, ignored, forgotten, or unknown (not forgotten)."""

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
        self._message_weight, self._prunings = store.message_weight(), store.prunings()
        self._token_version = store.token_version()
        self._now = int(time.time())
        self._work: list[tuple[bytes, Change]] = []
        self._bytes = 0  # of the messages that wait to be counted
        self._pruned: list[tuple[bytes, Change]] = []  # to be subtracted from pruned counts

    def learn(self, raw: bytes, label: str) -> Receipt:
        """Record that a message has a label."""
        plain = canonical(raw)
        name = digest(plain)
        old = self._store.find_entry(name)
        if old is not None:
            if old.label == label:
                return Receipt("known", label, label, name)
            self._subtract(plain, old)
        self._add(
            plain,
            self._entry(name, label, self._message_weight, 0),
        )
        return Receipt("learned" if old is None else "moved", label, old.label if old else None, name)

    def guess(self, plain: bytes, spam_units: int) -> None:
        """Record an unlabelled message in canonical form: `spam_units` of its GUESS_UNITS count as spam."""
        weights = (spam_units * self._message_weight, (GUESS_UNITS - spam_units) * self._message_weight)
        likelier = int(weights[0] < weights[1])
        label, weight, other_weight = GUESSED_LABELS[likelier], weights[likelier], weights[1 - likelier]
        name = digest(plain)
        self._add(plain, self._entry(name, label, weight, other_weight))

    def forget(self, raw: bytes) -> Receipt:
        """Record that a message is forgotten."""
        plain = canonical(raw)
        name = digest(plain)
        old = self._store.find_entry(name)
        was_sent = people.remove_sent(self._store, name)
        if old is None:
            return Receipt("forgotten" if was_sent else "unknown", None, None, name)
        self._subtract(plain, old)
        return Receipt("forgotten", None, old.label, name)

    def learn_sent(self, raw: bytes) -> Receipt:
        """Record to whom a sent message was written."""
        plain = canonical(raw)
        name = digest(plain)
        recipients = read_recipients(plain)
        if not recipients:
            return Receipt("ignored", None, None, name)
        is_new = people.record_sent(self._store, name, read_senders(plain).addresses, recipients)
        return Receipt("learned" if is_new else "known", None, None, name)

    def _entry(self, name: bytes, label: str, weight: int, other_weight: int) -> Entry:
        return Entry(
            name,
            label,
            weight,
            other_weight,
            self._token_version,
            self._prunings,
            self._source,
            self._now,
        )

    def _add(self, plain: bytes, entry: Entry) -> None:
        self._writer.record(entry)
        self._bytes += len(plain)
        self._work.append(
            (plain, tuple((self._writer.ensure_column(name), weight) for name, weight in entry.label_weights))
        )

    def _subtract(self, plain: bytes, old: Entry) -> None:
        if old.token_version != self._token_version:
            raise StoreError(
                f"the store {self._store.path} knows this message by tokens of version {old.token_version} "
                f"and counts tokens of version {self._token_version}, so it cannot be subtracted: "
                "learn your mail into a new store"
            )
        self._writer.remove(old.digest)
        work = self._pruned if self._prunings else self._work
        work.append(
            (plain, tuple((self._writer.ensure_column(name), -weight) for name, weight in old.label_weights))
        )

    def run(self, steps: Iterable[Receipt], run_jobs: RunJobs) -> list[Receipt]:
        """Process the steps one by one while workers count; return the receipts."""
        receipts: list[Receipt] = []

        def jobs() -> "Iterator[tuple[list[bytes], list[Change], int, int]]":
            for receipt in steps:
                receipts.append(receipt)
                if len(self._work) >= JOB_MESSAGES or self._bytes >= JOB_BYTES:
                    yield self._job(self._work)
            while self._work:
                yield self._job(self._work)

        def subtraction_jobs() -> "Iterator[tuple[list[bytes], list[Change], int, int]]":
            while self._pruned:
                yield self._job(self._pruned)

        tables = list(run_jobs("count", jobs()))
        pruned_tables = list(run_jobs("count", subtraction_jobs()))
        for results, write in ((tables, self._writer.add), (pruned_tables, self._writer.add_clipped)):
            if results:
                write(
                    import_module("tamis_mail.store.tables").CountTable.total(results, self._writer.n_labels)
                )
        return receipts

    def _job(self, changes: "list[tuple[bytes, Change]]") -> "tuple[list[bytes], list[Change], int, int]":
        part = changes[:JOB_MESSAGES]
        del changes[:JOB_MESSAGES]
        self._bytes = 0
        messages, its_changes = [plain for plain, _ in part], [change for _, change in part]
        return messages, its_changes, self._writer.n_labels, self._token_version
