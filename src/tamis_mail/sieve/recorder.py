"""Write verdicts and learning events to the log, in batches.

An error of the log is not raised: `fault` keeps the first one, which the calling command may print.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tamis_mail.locations import find_local_path
from tamis_mail.message import Heading, canonical, digest, read_heading
from tamis_mail.store.log import FORGOTTEN, VERDICT, Event, EventLog, LogError
from tamis_mail.verdict import Identity

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis_mail.sieve.receipt import Receipt
    from tamis_mail.verdict import Verdict

    # A receipt, and the bytes or the heading of its message; None if the caller has neither.
    LoggedChange = tuple[Receipt, bytes | Heading | None]

_BATCH = 1000  # verdicts that are written together
# The fields of `Event` from `weight` to `number`, of a verdict: it changes no entry of the journal, undoes
# nothing, and has no number yet.
_NO_CHANGE = (0, 0, 0, "", 0, 0, 0)


class Recorder:
    """Writes events to the log of the store at a path, while `is_on` returns true."""

    def __init__(self, store_path: str | os.PathLike[str], is_on: Callable[[], bool]) -> None:
        self.log = EventLog.of(store_path)
        self.fault: str | None = None  # the first error of the log
        self._store_path = store_path
        self._is_on = is_on
        self._verdicts: list[Event] = []  # verdicts that are not written yet
        self._logs_verdicts: bool | None = None  # the last result of `logs_verdicts`; None after each `flush`

    def logs_verdicts(self) -> bool:
        """Whether verdicts are written: the log is on, and this process may write the store."""
        if self._logs_verdicts is None:
            self._logs_verdicts = self._is_on() and os.access(find_local_path(self._store_path), os.W_OK)
        return self._logs_verdicts

    def logs_changes(self) -> bool:
        """Whether learning events are written."""
        return self._is_on()

    def add_verdict(self, raw: bytes, verdict: Verdict, source: str) -> None:
        """Keep a verdict until `flush`, which also runs at _BATCH verdicts and before messages are erased."""
        if not self.logs_verdicts():
            return
        judgement, identity = verdict.judgement, verdict.identity or identify(raw)
        self._verdicts.append(
            # Positional arguments take a third of the time of named ones.
            Event(
                int(time.time()),
                VERDICT,
                identity.digest,
                judgement.label,
                "",  # before
                judgement.probability,
                identity.sender,
                identity.subject,
                source,
                *_NO_CHANGE,
            )
        )
        if len(self._verdicts) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write the verdicts that were added."""
        verdicts, self._verdicts, self._logs_verdicts = self._verdicts, [], None
        if verdicts:
            self._write(verdicts)

    def write_changes(self, changes: Sequence[LoggedChange], source: str) -> None:
        """Write the changes by messages from a source; erase forgotten messages from older events."""
        self.write_events(*self.describe_changes([(source, changes)]))

    def describe_changes(
        self, changes_by_source: Iterable[tuple[str, Sequence[LoggedChange]]]
    ) -> tuple[list[Event], set[bytes]]:
        """Return the events of changes of the store, and the digests of messages to erase from older events.

        The sender and the subject of an event come from the bytes or the heading in the change or, if the
        change has neither, from the newest learning event of the message. If it is forgotten, they are empty.
        """
        forgotten: set[bytes] = set()
        events: list[Event] = []
        for source, changes in changes_by_source:
            forgotten |= {receipt.digest for receipt, _ in changes if receipt.label is None}
            # A receipt without journal entries makes no event: nothing was learned or forgotten, or only the
            # recipients of sent mail were.
            logged = [change for change in changes if change[0].old or change[0].new]
            if logged and self._is_on():
                events += [
                    _make_event(receipt, self._find_heading(receipt, raw_or_heading), source)
                    for receipt, raw_or_heading in logged
                ]
        return events, forgotten

    def write_events(
        self, events: Sequence[Event], forgotten: set[bytes], is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Write events, and erase senders, subjects and paths of forgotten messages, without using the store.

        `is_wanted` is called just before the commit to the log; if it returns false, nothing is written.
        """
        if forgotten:
            self.flush()  # otherwise a verdict on a forgotten message might be written after the erasure
        if events or forgotten:
            self._write(events, forgotten, is_wanted)

    def _find_heading(self, receipt: Receipt, raw_or_heading: bytes | Heading | None) -> Heading:
        if receipt.action == FORGOTTEN:
            return Heading("", "")
        if isinstance(raw_or_heading, bytes):
            return read_heading(raw_or_heading)
        return raw_or_heading or self._find_logged_heading(receipt.digest)

    def _find_logged_heading(self, digest: bytes) -> Heading:
        """Return the heading in the newest learning event of a message, empty if there is none."""
        try:
            events = self.log.find_history(digest) if self.log.exists() else []
        except LogError as error:
            self.fault = self.fault or str(error)
            events = []
        return Heading(events[-1].sender, events[-1].subject) if events else Heading("", "")

    def write_undoing(
        self, events: Sequence[Event], receipts: Sequence[Receipt], messages: Mapping[bytes, bytes]
    ) -> Sequence[int]:
        """Record that events were undone; return the number of each new event, 0 if it was not written."""
        numbers: Sequence[int] = ()
        if self._is_on():
            numbers = self._write(
                [
                    _make_event(receipt, _choose_heading(event, messages), event.source, event.number)
                    for event, receipt in zip(events, receipts, strict=True)
                ]
            )
        return numbers or [0] * len(events)

    def _write(
        self,
        events: Sequence[Event],
        erase: Collection[bytes] = (),
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Sequence[int]:
        """Write events, and erase some messages from older ones; return no numbers after an error."""
        try:
            return self.log.append(events, erase=erase, is_wanted=is_wanted)
        except LogError as error:
            advice = "; it may still name messages that were forgotten: forget them again" if erase else ""
            self.fault = self.fault or f"{error}{advice}"
        except MemoryError:
            self.fault = self.fault or "there was not enough memory to write the log"
        return ()


class PendingEvents:
    """The events of the changes in a transaction of the store, committed to the log after that transaction.

    With `writes_ahead`, a thread writes the events while the store's transaction goes on; only their commit
    waits. The log is locked meanwhile, so this is for a new store, whose log no other process uses.
    """

    def __init__(self, recorder: Recorder, *, writes_ahead: bool) -> None:
        self._recorder = recorder
        self._writes_ahead = writes_ahead
        self._described: tuple[list[Event], set[bytes]] = [], set()
        self._thread: threading.Thread | None = None
        self._is_decided = threading.Event()
        self._is_wanted = False  # the decision: whether the store's transaction was committed
        self._error: BaseException | None = None  # of the thread

    def describe(self, changes_by_source: Iterable[tuple[str, Sequence[LoggedChange]]]) -> None:
        """Make the events of all changes of the transaction."""
        self._described = self._recorder.describe_changes(changes_by_source)
        if self._writes_ahead:
            # A daemon thread, because an interrupt may end the process before it calls `finish`.
            self._thread = threading.Thread(target=self._write_ahead, daemon=True)
            self._thread.start()

    def _write_ahead(self) -> None:
        try:
            self._recorder.write_events(*self._described, is_wanted=self._wait_for_decision)
        except BaseException as error:  # noqa: BLE001 (raised in the thread that calls `finish`)
            self._error = error

    def _wait_for_decision(self) -> bool:
        self._is_decided.wait()
        return self._is_wanted

    def finish(self, *, is_wanted: bool) -> None:
        """Commit the events to the log, or drop them if the store's transaction failed."""
        self._is_wanted = is_wanted
        self._is_decided.set()
        if self._thread is not None:
            self._thread.join()
        elif is_wanted:
            self._recorder.write_events(*self._described)
        if is_wanted and self._error is not None:
            raise self._error


def identify(raw: bytes) -> Identity:
    """Return the digest, the sender and the subject of a message."""
    plain = canonical(raw)
    return Identity(digest(plain), *read_heading(raw, plain))


def _choose_heading(event: Event, messages: Mapping[bytes, bytes]) -> Heading:
    """Return the heading of an event or, if it was erased, that of its message."""
    heading = Heading(event.sender, event.subject)
    return heading if any(heading) else read_heading(messages.get(event.digest, b""))


def _make_event(receipt: Receipt, heading: Heading, source: str, undoes: int = 0) -> Event:
    """Make the event of a change of the store."""
    old, new = receipt.old, receipt.new
    old_fields = (old.weight, old.other_weight, old.source, old.time) if old else (0, 0, "", 0)
    # Positional arguments take a third of the time of named ones.
    return Event(
        int(time.time()),
        receipt.action,
        receipt.digest,
        receipt.label or "",
        receipt.before or "",
        None,  # probability
        heading.sender,
        heading.subject,
        source,
        new.weight if new else 0,
        *old_fields,
        undoes,
        0,  # number: not written yet
    )
