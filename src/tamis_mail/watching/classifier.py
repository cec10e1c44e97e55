"""Judge and learn messages by a store; errors of the store are separated from errors of messages.

An error of the store (locked, full, read-only, missing, damaged, of a newer version) raises
`StoreUnusableError`: it may be temporary, and mail stays where it is meanwhile. An error of one message is
returned in its place among the results.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tamis_mail.labels import GUESSED_LABELS, HAM, SPAM, find_missing
from tamis_mail.message import canonical, digest
from tamis_mail.serving.stores import OpenStores, describe_fault
from tamis_mail.sieve import Sieve
from tamis_mail.store import has_store
from tamis_mail.watching.mailbox import MessageError

T = TypeVar("T")


class StoreUnusableError(Exception):
    """The store cannot be used now. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class JudgedMessage:
    """The label and the probability of spam of a message, and the time that this took."""

    label: str  # spam, ham or unsure
    probability: float
    seconds: float  # the mean for the messages that were judged together


class Classifier(Protocol):
    """Judges and learns messages. `judge` and `learn` may raise StoreUnusableError."""

    def judge(self, messages: Sequence[bytes]) -> Sequence[JudgedMessage | MessageError]:
        """Judge messages; return a result or an error for each of them, in their order."""

    def learn(self, messages: Sequence[bytes], label: str) -> Sequence[str | MessageError]:
        """Learn messages of one label; return "learned", "known" or an error for each, in their order.

        "known" stands for a message that had been learned with this label before.
        """

    def close(self) -> None:
        """Write the log, and close the store."""


class StoreClassifier:
    """Judges and learns by the store at a path.

    The log and the journal name `source` as the origin of the messages. With `logs_verdicts`, verdicts are
    written to the log beside the store.
    """

    def __init__(self, path: Path, *, source: str, logs_verdicts: bool = True) -> None:
        self.path = path
        self._logs_verdicts = logs_verdicts
        self._source = source
        self._readers = OpenStores(readonly=True)
        self._writers = OpenStores(readonly=False)

    def judge(self, messages: Sequence[bytes]) -> Sequence[JudgedMessage | MessageError]:
        """Judge messages. A message that was learned has its own label: spam, or ham for any other label.

        A guessed label does not count: such a message has the label of its verdict.
        """
        started = time.perf_counter()
        if not has_store(self.path):
            raise StoreUnusableError(f"there is no store {self.path}: learn first (tamis learn --help)")
        outcomes = self._run_separately(self._readers, self._judge, messages)
        seconds = (time.perf_counter() - started) / max(1, len(messages))
        return [
            outcome if isinstance(outcome, MessageError) else JudgedMessage(*outcome, seconds)
            for outcome in outcomes
        ]

    def learn(self, messages: Sequence[bytes], label: str) -> Sequence[str | MessageError]:
        """Learn messages of one label together or, if one of them causes an error, one by one."""

        def learn(sieve: Sieve, batch: Sequence[bytes]) -> Sequence[str]:
            digests = [digest(canonical(raw)) for raw in batch]
            entries = sieve.store.find_entries(digests)  # of the journal
            known = {message_digest for message_digest, entry in entries.items() if entry.label == label}
            sieve.learn_many(batch, label, source=self._source, processes=1)
            return ["known" if message_digest in known else "learned" for message_digest in digests]

        return self._run_separately(self._writers, learn, messages)

    def close(self) -> None:
        self._readers.close()
        self._writers.close()

    def _judge(self, sieve: Sieve, messages: Sequence[bytes]) -> Sequence[tuple[str, float]]:
        """Return the label and the probability of spam of each message."""
        missing = find_missing(sieve.store.labels())  # what was not learned yet, such as "spam"; else ""
        if missing:
            raise StoreUnusableError(
                f"the store {self.path} has not learned {missing} yet (tamis learn --help)"
            )
        digests = [digest(canonical(raw)) for raw in messages]
        entries = sieve.store.find_entries(digests)  # of the journal: of the messages that were learned
        judged: list[tuple[str, float]] = []
        for raw, message_digest, verdict in zip(messages, digests, sieve.sort_batch(messages), strict=True):
            if self._logs_verdicts:
                sieve.log_verdict(raw, verdict, source=self._source)
            entry = entries.get(message_digest)
            label = verdict.label
            if entry is not None and entry.label not in GUESSED_LABELS:
                label = entry.label
            judged.append((label if label in (SPAM, "unsure") else HAM, verdict.probability))
        self._readers.flush()  # write the verdicts to the log
        return judged

    def _run_separately(
        self,
        stores: OpenStores,
        work: Callable[[Sieve, Sequence[bytes]], Sequence[T]],
        messages: Sequence[bytes],
    ) -> Sequence[T | MessageError]:
        """Call `work` with all messages or, if one of them causes an error, with each of them separately."""
        try:
            return work(stores.open(self.path), messages)
        except StoreUnusableError:
            raise
        except Exception as error:  # noqa: BLE001 (one message must not stop others)
            stores.drop(self.path)  # close it; the next call opens it again
            sentence = describe_fault(error)
            if sentence is not None:
                raise StoreUnusableError(sentence) from None
            if len(messages) == 1:
                return [MessageError(f"unexpected {type(error).__name__}")]
        return [outcome for raw in messages for outcome in self._run_separately(stores, work, [raw])]
