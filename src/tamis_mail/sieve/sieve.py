"""mail → verdicts, and labels → what the store remembers: three verbs, for one message or for many.

    sort(raw) -> Verdict            spam, ham or unsure, a probability, and the evidence
    learn(raw, label) -> Receipt    idempotent; learning another label moves the message
    forget(raw) -> Receipt          exact: the store is as if the message had never come

All that a surface does, it does by these.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from tamis_mail import bag, tokens
from tamis_mail.labels import GUESSES, HAM, SHARES, SPAM, UNSURE
from tamis_mail.message import canonical, digest, parse
from tamis_mail.settings import default_path
from tamis_mail.store import Entry, Store, StoreError, Writer
from tamis_mail.verdict import Evidence, Rule, Verdict, judge

if TYPE_CHECKING:
    from tamis_mail.sieve.jobs import Change

__all__ = ["Receipt", "Sieve"]

Progress = Callable[[int], None]  # called now and then with the number of messages that are done

_LEARNED = 2000  # messages of a transaction: a second or so of work that a kill may cost
_SORTED = 500  # messages that are judged together: each batch reads most of a small store
_GUESSED = 8000  # messages that are guessed together: each tells something of the others
_JOB = 125  # messages of which a worker adds up the counts
_BYTES = 16 << 20  # of a batch: a few large messages are enough of one
_FEW = 150  # messages that are done before other processes have started


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a message: learned, moved, known already, forgotten, or unknown and so not forgotten."""

    action: str
    label: str | None
    before: str | None
    digest: bytes


class Sieve:
    """A filter and its store.

    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> sieve = Sieve.open(pathlib.Path(folder.name) / "mail.tamis")
    >>> sieve.learn(b"Subject: Lunch?\\n\\nAt noon, as always?", "ham").action
    'learned'
    >>> sieve.learn(b"Subject: Lunch?\\n\\nAt noon, as always?", "ham").action
    'known'
    >>> sieve.forget(b"Subject: Lunch?\\n\\nAt noon, as always?").action
    'forgotten'
    >>> sieve.close()
    ... folder.cleanup()
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    @classmethod
    def open(
        cls, path: str | os.PathLike[str] | None = None, *, create: bool = True, readonly: bool = False
    ) -> "Sieve":
        """Open the store at a path (by default the user's own), which is made if it is not there."""
        return cls(Store(default_path() if path is None else path, create=create, readonly=readonly))

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> "Sieve":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # One message.

    def sort(self, raw: bytes) -> Verdict:
        """Judge a message."""
        read = tokens.read(parse(canonical(raw)))
        with self.store.reading():
            labels = self.store.labels()
            rule, unit = Rule.of(self.store), self.store.unit()
            counts = self.store.counts(bag.features(read))
        return judge(counts, labels, rule, unit, lambda: bag.named(read))

    def learn(self, raw: bytes, label: str, *, source: str = "") -> Receipt:
        """Learn that a message is of a label."""
        return self._change([raw], label, source, _here)[0]

    def forget(self, raw: bytes) -> Receipt:
        """Forget a message."""
        return self._change([raw], None, "", _here)[0]

    # Many messages.

    def sort_many(self, messages: Iterable[bytes], *, processes: int | None = None) -> Iterator[Verdict]:
        """Judge messages, in order, on all cores; a verdict's evidence is found when it is asked for."""
        waiting: list[list[bytes]] = []
        path = str(self.store.path)

        def inputs(batches: Iterable[list[bytes]]) -> Iterator[tuple[str, list[bytes]]]:
            for batch in batches:
                waiting.append(batch)
                yield path, batch

        with _Hands(_batches(messages, _SORTED), processes) as (batches, hands):
            for judgements in hands("judge", inputs(batches)):
                for raw, judgement in zip(waiting.pop(0), judgements, strict=True):
                    yield Verdict(judgement, partial(self._evidence, raw))

    def _evidence(self, raw: bytes) -> tuple[Evidence, ...]:
        return self.sort(raw).evidence

    def learn_many(
        self,
        messages: Iterable[bytes],
        label: str,
        *,
        source: str = "",
        processes: int | None = None,
        progress: Progress | None = None,
    ) -> Counter[str]:
        """Learn messages of one label, on all cores; how many were learned, moved or known.

        Some thousand messages make a transaction: whatever is interrupted, a message is learned once or not
        at all, and to do it all again does the rest.
        """
        _refuse_label(label)
        return self._change_many(messages, label, source, processes, progress)

    def learn_unlabelled(
        self,
        messages: Iterable[bytes],
        *,
        source: str = "",
        processes: int | None = None,
        progress: Progress | None = None,
    ) -> Counter[str]:
        """Learn from messages of which nobody has said what they are: how many were guessed, unsure or known.

        The surest count as much as they are thought to be spam, and ham (a step of EM); the others are left.
        To learn one with its label later moves it, to forget it takes all of it away.
        """
        if {SPAM, HAM} - {label.name for label in self.store.labels() if label.messages + label.lent}:
            raise StoreError(
                f"the store {self.store.path} has not learned both spam and ham: to guess labels, first learn"
                " a few messages of each (tamis learn --spam … --ham …)"
            )
        actions: Counter[str] = Counter()
        with _Hands(_batches(messages, _GUESSED), processes) as (batches, hands):
            for batch in batches:
                actions += self._guess(batch, source, hands)
                if progress:
                    progress(actions.total())
        return actions

    def _guess(self, batch: list[bytes], source: str, hands: "Hands") -> Counter[str]:
        """Guess what messages are that the store does not know, in one transaction."""
        with self.store.writing() as writer:
            plan = _Plan(self.store, writer, source)
            new = [
                plain
                for plain in dict.fromkeys(map(canonical, batch))
                if self.store.find(digest(plain)) is None
            ]
            jobs = ((new[start : start + _JOB],) for start in range(0, len(new), _JOB))
            bags = [keys for found in hands("bags", jobs) for keys in found]
            shares = import_module("tamis_mail.sieve.guessing").shares
            guesses = shares(bags, self.store, Rule.of(self.store))
            for plain, share in zip(new, guesses, strict=True):
                if share is not None:
                    plan.guess(plain, share)
            plan.carry_out(hands)
        unsure = guesses.count(None)
        return Counter(guessed=len(new) - unsure, unsure=unsure, known=len(batch) - len(new))

    def forget_many(
        self, messages: Iterable[bytes], *, processes: int | None = None, progress: Progress | None = None
    ) -> Counter[str]:
        """Forget messages; how many were forgotten, or unknown."""
        return self._change_many(messages, None, "", processes, progress)

    def _change_many(
        self,
        messages: Iterable[bytes],
        label: str | None,
        source: str,
        processes: int | None,
        progress: Progress | None,
    ) -> Counter[str]:
        actions: Counter[str] = Counter()
        with _Hands(_batches(messages, _LEARNED), processes) as (batches, hands):
            for batch in batches:
                actions.update(receipt.action for receipt in self._change(batch, label, source, hands))
                if progress:
                    progress(actions.total())
        return actions

    def _change(self, messages: list[bytes], label: str | None, source: str, hands: "Hands") -> list[Receipt]:
        """Learn or forget messages in one transaction."""
        if label is not None:
            _refuse_label(label)
        with self.store.writing() as writer:
            plan = _Plan(self.store, writer, source)
            receipts = [plan.forget(raw) if label is None else plan.learn(raw, label) for raw in messages]
            plan.carry_out(hands)
        return receipts


class _Plan:
    """What a transaction will change: the journal at once, the counts when all messages are known."""

    def __init__(self, store: Store, writer: Writer, source: str) -> None:
        self._store = store
        self._writer = writer
        self._source = source
        self._unit, self._era, self._now = store.unit(), store.era(), int(time.time())
        self._work: list[tuple[bytes, Change]] = []
        self._pruned: list[tuple[bytes, Change]] = []  # to be taken from counts of which some may have gone

    def learn(self, raw: bytes, label: str) -> Receipt:
        plain = canonical(raw)
        name = digest(plain)
        old = self._store.find(name)
        if old is not None and old.label == label:
            return Receipt("known", label, label, name)
        if old is not None:
            self._take(plain, old)
            self._writer.drop(name)
        entry = Entry(name, label, self._unit, 0, tokens.VERSION, self._era, self._source, self._now)
        self._writer.remember(entry)
        self._give(plain, entry)
        return Receipt("learned" if old is None else "moved", label, old.label if old else None, name)

    def guess(self, plain: bytes, share: int) -> None:
        units = (share * self._unit, (SHARES - share) * self._unit)
        likelier = int(units[0] < units[1])
        weight, rest = units[likelier], units[1 - likelier]
        name = digest(plain)
        entry = Entry(
            name, GUESSES[likelier], weight, rest, tokens.VERSION, self._era, self._source, self._now
        )
        self._writer.remember(entry)
        self._give(plain, entry)

    def forget(self, raw: bytes) -> Receipt:
        plain = canonical(raw)
        name = digest(plain)
        old = self._store.find(name)
        if old is None:
            return Receipt("unknown", None, None, name)
        self._take(plain, old)
        self._writer.drop(name)
        return Receipt("forgotten", None, old.label, name)

    def _give(self, plain: bytes, entry: Entry) -> None:
        self._work.append((plain, tuple((self._writer.column(name), units) for name, units in entry.columns)))

    def _take(self, plain: bytes, old: Entry) -> None:
        if old.version != tokens.VERSION:
            raise StoreError(
                f"the store {self._store.path} knows this message by tokens of version {old.version}, which "
                f"this tamis, of version {tokens.VERSION}, cannot take back: learn your mail into a new store"
            )
        work = self._pruned if self._era else self._work  # after a pruning, counts may have gone
        work.append((plain, tuple((self._writer.column(name), -units) for name, units in old.columns)))

    def carry_out(self, hands: "Hands") -> None:
        labels = self._writer.width
        for work, put in ((self._work, self._writer.add), (self._pruned, self._writer.take)):
            if work:
                inputs = (
                    ([plain for plain, _ in part], [change for _, change in part], labels)
                    for part in (work[start : start + _JOB] for start in range(0, len(work), _JOB))
                )
                tables = list(hands("count", inputs))
                put(
                    tables[0]
                    if len(tables) == 1
                    else import_module("tamis_mail.store.tables").Table.total(tables, labels)
                )


Hands = Callable[
    [str, Iterable[tuple[Any, ...]]], Iterator[Any]
]  # the name of a job, and its inputs → its results


def _here(job: str, inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Do jobs in this process."""
    work = getattr(import_module("tamis_mail.sieve.jobs"), job)
    return (work(*given) for given in inputs)


class _Hands:
    """Batches of messages, and who will do the jobs: this process if the messages are few, else several."""

    def __init__(self, batches: Iterator[list[bytes]], processes: int | None) -> None:
        first = next(batches, [])
        self._batches = chain([first] if first else [], batches)
        pool = import_module("tamis_mail.sieve.pool") if len(first) > _FEW and processes != 1 else None
        count = 1 if pool is None else processes or pool.cores()
        self._pool = pool.Pool(count) if pool and count > 1 else None

    def __enter__(self) -> tuple[Iterator[list[bytes]], Hands]:
        if self._pool is None:
            return self._batches, _here
        self._pool.__enter__()
        jobs = import_module("tamis_mail.sieve.jobs")
        pool = self._pool
        return self._batches, lambda job, inputs: pool.map(getattr(jobs, job), inputs)

    def __exit__(self, *error: Any) -> None:
        if self._pool is not None:
            self._pool.__exit__(*error)


def _batches(messages: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for raw in messages:
        batch.append(raw)
        size += len(raw)
        if len(batch) >= most or size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _refuse_label(label: str) -> None:
    if not label.strip() or len(label) > 40 or not label.isprintable() or label in (*GUESSES, UNSURE):
        raise ValueError(f"{label!r} cannot be a label: give a short name, such as spam, ham or work")
