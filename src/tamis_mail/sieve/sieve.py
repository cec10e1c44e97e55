"""The filter: sort, learn and forget, for one message or for many.

    sort(raw) -> Verdict            spam, ham or unsure, a probability, and the evidence
    learn(raw, label) -> Receipt    idempotent; learning another label moves the message
    learn_sent(messages)            the recipients of sent mail become correspondents
    forget(raw) -> Receipt          exact: the counts are as if the message had never been learned
    undo(events) -> receipts        exact: counts and journal are as they were before the events

The commands, the daemons and the web page judge and learn mail by these methods only.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import groupby

from tamis_mail import features
from tamis_mail.labels import GUESSED_LABELS, SPAM, check_label
from tamis_mail.locations import is_address
from tamis_mail.message import canonical, digest
from tamis_mail.records import record
from tamis_mail.settings import default_path_name
from tamis_mail.sieve.executor import JOB_BYTES, JOB_MESSAGES, MAX_BATCH_BYTES, Executor, batches, run_inline
from tamis_mail.sieve.recorder import PendingEvents, Recorder
from tamis_mail.sieve.word_list import read_word_list
from tamis_mail.store import Store, StoreError
from tamis_mail.store.database import VERDICT_SECONDS
from tamis_mail.store.log import FORGOTTEN, Event
from tamis_mail.verdict import Evidence, Rule, Verdict, judge, judge_sender, list_layer_keys, with_sender

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from tamis_mail.message import Heading
    from tamis_mail.sieve.executor import Job, RunJobs
    from tamis_mail.sieve.open_stores import OpenStore
    from tamis_mail.sieve.reading import ReadMessages
    from tamis_mail.sieve.receipt import Receipt
    from tamis_mail.sieve.transaction import Transaction
    from tamis_mail.store import Entry, Writer
    from tamis_mail.store.overlay import Overlay, VerdictStore
    from tamis_mail.tokens import Tokens

    # The index of the source, the messages of one job, and their features. The messages are None, which frees
    # their memory, if the store was new when the job began: then all their features were read.
    ReadPart = tuple[int, list[bytes] | None, ReadMessages]

Progress = Callable[[int], None]  # called from time to time with the number of processed messages

_LEARN_BATCH = 10_000  # messages per transaction: about two seconds of work, lost if the process is killed
_SORT_BATCH = 250  # messages per job
_UNDO_BATCH = 1000  # events per transaction that undoes them
_UNDOING = "tamis_mail.sieve.undoing"
_SCORE_TABLES = "tamis_mail.store.score_tables"
_GUESS_BATCH = 8000  # messages from which the most certain are selected, per transaction


@record(frozen=True, slots=True)
class LabelledMail:
    """Messages of one label that are to be learned, and the name of their source for the journal."""

    messages: Iterable[bytes]
    label: str
    source: str = ""
    progress: Progress | None = None


class _NumberedMail:
    """Iterates over (index of the source, message) pairs; ends where a source raises an error."""

    def __init__(self, sources: Sequence[LabelledMail]) -> None:
        self._sources = sources
        self.fault: tuple[int, Exception] | None = None  # the index of the source that raised, and its error
        self.is_at_end = False  # whether all messages were read

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for number, one in enumerate(self._sources):
            try:
                for raw in one.messages:
                    yield number, raw
            except Exception as error:  # noqa: BLE001 (raised again when the sources before this one are learned)
                self.fault = number, error
                return
        self.is_at_end = True


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
    >>> folder.cleanup()
    """

    def __init__(self, store: Store, *, log: bool = True) -> None:
        self.store = store
        self._executor = Executor(store.token_version)
        self._open_store: OpenStore | None = None  # the cache of counts of `sort_batch`
        self._overlay: Overlay | None = None  # of this store and a site's store, if the address names one
        if is_address(store.path_name):
            self._overlay = import_module("tamis_mail.store.overlay").open_overlay(store)
        self._recorder = Recorder(store.path_name, lambda: log and self.store.is_log_on())

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        create: bool = True,
        readonly: bool = False,
        log: bool = True,
        bulk: bool = False,
    ) -> Sieve:
        """Open the store at a path or an address, by default the user's own.

        If it does not exist, it is created if `create` is true and `readonly` is false; otherwise StoreError
        is raised. With `log`, events are written to the log beside the store, unless it is switched off.
        `bulk` is for a process that first learns much mail, and opens this store only here: if the store is
        created, its first transaction is faster.
        """
        store = Store(
            default_path_name() if path is None else path, create=create, readonly=readonly, bulk=bulk
        )
        try:
            return cls(store, log=log)
        except BaseException:  # the site's store cannot be opened
            store.close()
            raise

    def close(self) -> None:
        """Stop the workers, write the recorded verdicts, and close the store."""
        self._executor.close()
        self.flush_log()
        if self._overlay is not None:
            self._overlay.close()
        self.store.close()

    @property
    def verdict_store(self) -> VerdictStore:
        """The store that verdicts read: `store`, or an overlay of it and the site's store."""
        return self.store if self._overlay is None else self._overlay

    @property
    def log_fault(self) -> str | None:
        """The first error of the log, in one line, or None. It does not stop learning or sorting."""
        return self._recorder.fault

    def log_verdict(self, raw: bytes, verdict: Verdict, *, source: str = "") -> None:
        """Record a verdict in the log, for the commands `tamis log` and `tamis digest`, which list verdicts.

        Verdicts are written in batches, by `flush_log` and by `close`.
        """
        self._recorder.add_verdict(raw, verdict, source)

    def flush_log(self) -> None:
        """Write the recorded verdicts to the log."""
        self._recorder.flush()

    def __enter__(self) -> Sieve:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, writer: Writer, source: str) -> Transaction:
        # A verdict does not need this module.
        module = import_module("tamis_mail.sieve.transaction")
        transaction: Transaction = module.Transaction(self.store, writer, source)
        return transaction

    # One message.

    def sort(self, raw: bytes) -> Verdict:
        """Judge a message."""
        plain = canonical(raw)
        store = self.verdict_store
        with store.snapshot(VERDICT_SECONDS):  # the time limit of each statement
            labels = store.labels()
            token_version = store.token_version()
            rule, message_weight = Rule.of(store), store.message_weight()
            keys = features.read_keys(plain, token_version)
            counts = store.counts(keys)
            layer_keys = list_layer_keys(keys, rule.token_version)
            coefficients = store.coefficients(layer_keys)
            has_people = store.has_people()
            if has_people:
                senders = import_module("tamis_mail.message.addresses").read_senders(plain)
                people = store.look_up_people(senders.addresses)
            imported = read_word_list(store, plain)
        verdict = judge(
            counts,
            labels,
            rule,
            message_weight,
            lambda: features.name_features(_read_tokens(plain, token_version)),
            coefficients=coefficients,
            further_evidence=imported,
        )
        if not has_people:
            return verdict
        return with_sender(verdict, judge_sender(senders, people.listed, people.correspondents), rule)

    def learn(self, raw: bytes, label: str, *, source: str = "") -> Receipt:
        """Learn a message under a label; if it was learned under another one, move it."""
        check_label(label)
        return self._change([raw], label, source, run_inline)[0]

    def forget(self, raw: bytes, *, source: str = "") -> Receipt:
        """Forget a message that was learned, sent or guessed."""
        return self._change([raw], None, source, run_inline)[0]

    def forget_digest(self, digest: bytes) -> Receipt:
        """Forget the message with this digest by its stored features; raise StoreError if it has none.

        The receipt of a message that is not in the journal has the action "unknown". The recipients of a sent
        message stay recorded.
        """
        with self.store.transaction() as writer:
            transaction = self._begin(writer, "")
            (receipt,) = transaction.run([transaction.forget_digest(digest)], run_inline)
        self._recorder.write_changes([(receipt, None)], "")
        return receipt

    def relabel_digest(self, digest: bytes, label: str) -> Receipt:
        """Move the message with this digest to another label, by its stored features.

        Its weight and time are those of a message that is learned now; features that pruning dropped are not
        counted again. The receipt of a message that is not in the journal has the action "unknown";
        StoreError is raised for a message whose features are not stored.
        """
        check_label(label)
        with self.store.transaction() as writer:
            transaction = self._begin(writer, "")
            (receipt,) = transaction.run([transaction.relabel_digest(digest, label)], run_inline)
        if receipt.label is not None:  # otherwise events of a message that was only judged would be erased
            self._recorder.write_changes([(receipt, None)], "")
        return receipt

    def fit_weights(self) -> bool:
        """Fit the weights to the learned messages with stored features, and write them.

        Return False if there are too few messages, or if the store counts tokens of version 1: then fitted
        weights are deleted, and verdicts use the default weights.
        """
        with self.store.transaction() as writer:
            return _weights().fit_store(self.store, writer) is not None

    def write_rule(self, rule: Rule | None) -> None:
        """Write a rule as the prior of the weights (None: the default rule), and fit the weights again."""
        with self.store.transaction() as writer:
            writer.write_setting("rule", "" if rule is None else rule.to_json())
            _weights().fit_store(self.store, writer)

    # Many messages.

    def sort_many(self, messages: Iterable[bytes], *, processes: int | None = None) -> Iterator[Verdict]:
        """Judge messages and yield their verdicts, in order; use all cores, or `processes` workers.

        The evidence of a verdict is computed when it is read, by the counts of the store at that time.
        """
        waiting: deque[list[bytes]] = deque()
        has_identity = self._recorder.logs_verdicts()
        raw_messages, run_jobs = self._executor.prepare(messages, processes)
        job, first_argument, further_arguments = self._choose_judging(has_identity=has_identity)

        def jobs() -> Iterator[tuple[Any, ...]]:
            for batch in batches(raw_messages, _SORT_BATCH):
                waiting.append(batch)
                yield first_argument, batch, *further_arguments

        for judged in run_jobs(job, jobs()):
            for raw, (judgement, identity) in zip(waiting.popleft(), judged, strict=True):
                yield Verdict(judgement, partial(self._evidence, raw), identity)

    def _choose_judging(self, *, has_identity: bool) -> tuple[Job, Any, tuple[bool, ...]]:
        """Return the job that judges messages, and its arguments before and after the messages.

        If there are few counts, a table in the compiled core has all of them, and NumPy is not needed.
        """
        if self._overlay is None and import_module(_SCORE_TABLES).can_read_score_table(self.store):
            module = import_module("tamis_mail.sieve.table_judging")
            return module.judge_batch, module.TableJudge(self.store), (has_identity,)
        return "identify_and_judge" if has_identity else "judge", self.store.path_name, ()

    def sort_batch(self, messages: Sequence[bytes], *, with_strongest: bool = False) -> list[Verdict]:
        """Judge messages together, in this process; keep counts in memory until the store changes.

        Daemons use it to judge together all messages that arrived while they judged the last batch. With a
        store of 2,000 messages, a batch of ten messages took 9 ms, a batch of one message 3 ms, and `sort`
        9 ms for one message. With `with_strongest`, `Verdict.strongest` is computed too, in 4 ms per message;
        all evidence of a message took 20 ms.
        """
        jobs = import_module("tamis_mail.sieve.jobs")
        if self._open_store is None:
            open_stores = import_module("tamis_mail.sieve.open_stores")
            self._open_store = open_stores.OpenStore(self.verdict_store)
        strongest: list[tuple[Evidence, ...] | None] = [None] * len(messages)
        with self._open_store.snapshot():
            judged = jobs.identify_and_judge_by(self._open_store, messages)
            if with_strongest:
                explain = import_module("tamis_mail.sieve.explanation").explain_strongest
                strongest = [explain(self._open_store, raw) for raw in messages]
        return [
            Verdict(judgement, partial(self._evidence, raw), identity, evidence)
            for raw, (judgement, identity), evidence in zip(messages, judged, strongest, strict=True)
        ]

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
        """Learn messages of one label; return how many were learned, moved or known.

        All cores are used, or `processes` workers. A transaction has thousands of messages. If the call is
        interrupted, each message was learned once or not at all, and a second call learns the rest.
        """
        (actions,) = self.learn_sources(
            [LabelledMail(messages, label, source, progress)], processes=processes
        )
        return actions

    def learn_sources(
        self, sources: Sequence[LabelledMail], *, processes: int | None = None
    ) -> Iterator[Counter[str]]:
        """Learn messages of several sources as `learn_many` does; yield the numbers by action of each source.

        A transaction may have messages of several sources. An error of a source is raised after the sources
        before it are learned; some of its own messages may have been learned, too.
        """
        for one in sources:
            check_label(one.label)
        numbered = _NumberedMail(sources)
        all_messages, run_jobs = self._executor.prepare(numbered, processes, lambda pair: len(pair[1]))
        # Of each job: the index of the source, the bytes of its messages, and what `ReadPart` keeps of them.
        waiting: deque[tuple[int, int, list[bytes] | None]] = deque()
        has_headings = self._recorder.logs_changes()

        def jobs() -> Iterator[tuple[str | None, list[bytes], str, bool]]:
            for number, pairs in groupby(all_messages, lambda pair: pair[0]):
                for part in batches((raw for _, raw in pairs), JOB_MESSAGES, JOB_BYTES):
                    is_new = self.store.is_new
                    waiting.append((number, sum(map(len, part)), None if is_new else part))
                    path = None if is_new else self.store.path_name
                    yield path, part, sources[number].label, has_headings

        actions: list[Counter[str]] = [Counter() for _ in sources]
        parts: list[ReadPart] = []  # messages that were read and are not learned yet
        n_messages = n_bytes = 0  # of these messages
        n_complete = 0  # sources whose actions were yielded
        all_read = run_jobs(import_module("tamis_mail.sieve.reading").read_messages, jobs())
        for read in all_read:
            if not parts:
                _weights().import_fit()  # while threads read further messages
            number, size, messages = waiting.popleft()
            parts.append((number, messages, read))
            n_messages += len(read.digests)
            n_bytes += size
            if numbered.is_at_end:
                break
            if n_messages >= self._max_batch() or n_bytes >= MAX_BATCH_BYTES:
                self._learn_read(_take_all(parts), sources, run_jobs, actions, has_more=True)
                n_messages = n_bytes = 0
                yield from actions[n_complete:number]
                n_complete = number
        n_readable = len(sources) if numbered.fault is None else numbered.fault[0]
        parts = [one for one in parts if one[0] < n_readable]
        if parts:

            def take_last_parts() -> Iterator[ReadPart]:
                # All sources were read to their ends, so that the open transaction waits for no source.
                yield from _take_all(parts)
                for read in all_read:
                    number, _, messages = waiting.popleft()
                    yield number, messages, read
                self._executor.release_workers()  # their memory serves the threads that fit the weights

            self._learn_read(take_last_parts(), sources, run_jobs, actions, has_more=False)
        # A transaction that moved a message has fitted the weights itself.
        if any(actions) and _weights().is_fit_due(self.store, has_removed=False):
            self.fit_weights()
        yield from actions[n_complete:n_readable]
        if numbered.fault is not None:
            raise numbered.fault[1]

    def _learn_read(
        self,
        parts: Iterable[ReadPart],
        sources: Sequence[LabelledMail],
        run_jobs: RunJobs,
        actions: Sequence[Counter[str]],
        *,
        has_more: bool,
    ) -> None:
        """Learn messages that were read, in one transaction; log the changes and add to `actions`."""
        # By index of the source: the receipts, each with the heading or the bytes of the message.
        changes: dict[int, list[tuple[Receipt, bytes | Heading | None]]] = {}
        pending = PendingEvents(self._recorder, writes_ahead=self.store.is_new)
        try:
            with self.store.postpone_checkpoints(), self.store.transaction() as writer:
                transaction = self._begin(writer, "")
                for number, messages, read in parts:
                    one = sources[number]
                    receipts = transaction.learn_read(messages, read, one.label, one.source)
                    changes.setdefault(number, []).extend(
                        zip(receipts, read.headings or messages or [None] * len(receipts), strict=True)
                    )
                has_moved = any(
                    receipt.action == "moved" for pairs in changes.values() for receipt, _ in pairs
                )
                by_source = [(sources[number].source, pairs) for number, pairs in changes.items()]
                transaction.run(
                    (),
                    run_jobs,
                    has_more=has_more,
                    has_moved=has_moved,
                    meanwhile=lambda: pending.describe(by_source),
                )
        except BaseException:
            pending.finish(is_wanted=False)
            raise
        import_module("tamis.threads").run_together(
            [partial(pending.finish, is_wanted=True), self.store.checkpoint]
        )
        for number, pairs in changes.items():
            one = sources[number]
            actions[number].update(receipt.action for receipt, _ in pairs)
            if one.progress:
                one.progress(actions[number].total())

    def _max_batch(self) -> int:
        """Return the number of messages per transaction: fewer for more labels, to limit the memory."""
        return max(_LEARN_BATCH // max(1, len(self.store.labels()) // 2), JOB_MESSAGES)

    def learn_sent(self, messages: Iterable[bytes], *, progress: Progress | None = None) -> Counter[str]:
        """Record the recipients of sent messages; return how many messages were learned, known or ignored.

        Their features are not counted. Messages without recipients and automatic replies are ignored.
        `forget` and `forget_many` forget sent messages, too.
        """
        actions: Counter[str] = Counter()
        for batch in batches(messages, _LEARN_BATCH):
            with self.store.transaction() as writer:
                transaction = self._begin(writer, "")
                actions.update([transaction.learn_sent(raw).action for raw in batch])
            if progress:
                progress(actions.total())
        return actions

    def learn_unlabelled(
        self,
        messages: Iterable[bytes],
        *,
        source: str = "",
        processes: int | None = None,
        progress: Progress | None = None,
    ) -> Counter[str]:
        """Learn from messages without labels; return how many were guessed, unsure or known.

        The messages whose class is most certain count by their probabilities of spam and ham (one step of
        EM, see `guessing`); the others are unsure, and are not learned. Guesses are based on labelled mail
        only, so that they do not change later guesses. `learn` moves a guessed message to its label; `forget`
        subtracts it exactly.
        """
        kinds = {label.name == SPAM for label in self.store.labels() if label.weight + label.lent}
        if len(kinds) < 2:
            raise StoreError(
                f"the store {self.store.name} has not learned spam and other mail: to guess labels, first "
                "learn a few messages of each (tamis learn --spam … --ham …)"
            )
        actions: Counter[str] = Counter()
        raw_messages, run_jobs = self._executor.prepare(messages, processes)
        for batch in batches(raw_messages, _GUESS_BATCH):
            actions += self._guess(batch, source, run_jobs)
            if progress:
                progress(actions.total())
        return actions

    def _guess(self, batch: list[bytes], source: str, run_jobs: RunJobs) -> Counter[str]:
        """Guess the labels of messages in one transaction.

        Messages that were guessed before take part in the selection, so that the same batch gives the same
        guesses, but they are not counted again.
        """
        with self.store.transaction() as writer:
            transaction = self._begin(writer, source)
            entries = {
                plain: self.store.find_entry(digest(plain)) for plain in dict.fromkeys(map(canonical, batch))
            }
            candidates = [
                plain for plain, old in entries.items() if old is None or old.label in GUESSED_LABELS
            ]
            version = self.store.token_version()
            jobs = (
                (candidates[start : start + JOB_MESSAGES], version)
                for start in range(0, len(candidates), JOB_MESSAGES)
            )
            features = [
                keys for batch_features in run_jobs("extract_features", jobs) for keys in batch_features
            ]
            guess_spam_units = import_module("tamis_mail.sieve.guessing").guess_spam_units
            actions: Counter[str] = Counter(known=len(batch))
            guesses: list[tuple[Receipt, bytes | None]] = []
            for plain, units in zip(candidates, guess_spam_units(features, self.store), strict=True):
                if entries[plain] is None:
                    actions.update(known=-1, unsure=units is None, guessed=units is not None)
                    if units is not None:
                        guesses.append((transaction.guess(plain, units), plain))
            transaction.run((), run_jobs)
        self._recorder.write_changes(guesses, source)
        return actions

    def relearn_many(
        self,
        messages: Iterable[bytes],
        entries: Mapping[bytes, Entry],
        *,
        processes: int | None = None,
        progress: Progress | None = None,
    ) -> Counter[str]:
        """Learn messages with their journal entries in another store, which are given by digest.

        Labels, weights, times and sources are kept. Return how many messages were learned, known (to this
        store) or unknown (without an entry).
        """
        actions: Counter[str] = Counter()
        raw_messages, run_jobs = self._executor.prepare(messages, processes)
        for batch in batches(raw_messages, _LEARN_BATCH):
            with self.store.transaction() as writer:
                transaction = self._begin(writer, "")
                receipts = transaction.run((transaction.relearn(raw, entries) for raw in batch), run_jobs)
            actions.update(receipt.action for receipt in receipts)
            if progress:
                progress(actions.total())
        return actions

    def forget_many(
        self,
        messages: Iterable[bytes],
        *,
        source: str = "",
        processes: int | None = None,
        progress: Progress | None = None,
    ) -> Counter[str]:
        """Forget messages; return how many were forgotten or unknown.

        Their senders and subjects are erased from the log, too. If that fails, `log_fault` says so.
        """
        actions: Counter[str] = Counter()
        raw_messages, run_jobs = self._executor.prepare(messages, processes)
        # A batch is read before the transaction locks the store, because a source may be slow.
        for batch in batches(raw_messages, self._max_batch()):
            receipts = self._change(batch, None, source, run_jobs, has_more=True)
            actions.update(receipt.action for receipt in receipts)
            if progress:
                progress(actions.total())
        # A transaction that forgot a message has fitted the weights itself.
        if actions and _weights().is_fit_due(self.store, has_removed=False):
            self.fit_weights()
        return actions

    def _change(
        self,
        messages: Iterable[bytes],
        label: str | None,
        source: str,
        run_jobs: RunJobs,
        *,
        has_more: bool = False,
    ) -> list[Receipt]:
        """Learn or forget messages in one transaction, and log the changes."""
        changes: list[tuple[Receipt, bytes | None]] = []
        with self.store.transaction() as writer:
            transaction = self._begin(writer, source)

            def process(raw: bytes) -> Receipt:
                receipt = transaction.forget(raw) if label is None else transaction.learn(raw, label)
                changes.append((receipt, raw))
                return receipt

            receipts = transaction.run(map(process, messages), run_jobs, has_more=has_more)
        self._recorder.write_changes(changes, source)
        return receipts

    # Undoing.

    def plan_undo(self, ranges: Iterable[tuple[int, int]]) -> list[Event]:
        """Return the learning events in ranges of event numbers (first, last), newest first.

        Raise UndoError if one of them cannot be undone. A range of several numbers may have verdicts and
        events that were undone before: they are left out.
        """
        events: list[Event] = import_module(_UNDOING).plan(self._recorder.log, ranges)
        return events

    def needs_message(self, event: Event) -> bool:
        """Whether undoing an event needs the text of its message, because its features are not stored."""
        return event.action == FORGOTTEN or not self.store.has_features(event.digest)

    def undo(
        self, events: Sequence[Event], messages: Mapping[bytes, bytes], *, progress: Progress | None = None
    ) -> list[tuple[Receipt, int]]:
        """Undo events that `plan_undo` returned; return a receipt and the number of the new event for each.

        `messages` has the messages of the events for which `needs_message` is true, by digest. A number is 0
        if the event could not be logged.
        """
        undone: list[tuple[Receipt, int]] = []
        undo_events = import_module(_UNDOING).undo_events
        for start in range(0, len(events), _UNDO_BATCH):
            batch = events[start : start + _UNDO_BATCH]
            receipts = undo_events(self.store, batch, messages)
            undone += zip(receipts, self._recorder.write_undoing(batch, receipts, messages), strict=True)
            if progress:
                progress(len(undone))
        return undone


def _take_all(parts: list[ReadPart]) -> Iterator[ReadPart]:
    """Yield the parts, and remove each from the list before, to free its memory."""
    while parts:
        yield parts.pop(0)


def _read_tokens(plain: bytes, version: int) -> Tokens:
    """Read the tokens of a message, by which evidence names its features."""
    parse = import_module("tamis_mail.message.tree").parse
    tokens: Tokens = import_module("tamis_mail.tokens").read(parse(plain), version)
    return tokens


def _weights() -> ModuleType:
    return import_module("tamis_mail.sieve.weights")
