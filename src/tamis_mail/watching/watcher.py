"""The loop of `tamis watch`: find changes, learn from the owner's moves and marks, sort new mail, wait.

A pass lists all watched folders, compares them with the memory, notes in it what is to be done with each
message (its task), and then does that. A place is a message in a folder; its state says what is to be done:
UNIDENTIFIED is a message that could not be read yet, and AMBIGUOUS one that was found elsewhere while a copy
is still in Junk or in the folder for unsure mail, which is either a move in progress or a second delivery.
TO_SORT, TO_LEARN, MOVING, MOVED and DONE say it themselves. A lesson is the label that an action of the
mailbox's owner teaches. The baseline of a folder are the messages that it has in the first pass over the
account, or when it returns, or after all its uids have changed; they teach nothing. Keywords include the
flags of IMAP, such as \\Seen. Each step is noted in the memory before and after it is done, so that the
process can be killed, or lose the connection, at any moment: the next pass does the rest.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO

from tamis.progress import Line
from tamis_mail.labels import HAM, SPAM, UNSURE
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.message import canonical, digest, read_heading
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics
from tamis_mail.watching import lessons
from tamis_mail.watching.classifier import Classifier, JudgedMessage, StoreUnusableError
from tamis_mail.watching.mailbox import (
    Folder,
    FolderError,
    ListedMessage,
    Mailbox,
    MailboxError,
    MessageError,
)
from tamis_mail.watching.memory import (
    AMBIGUOUS,
    DONE,
    MOVED,
    MOVING,
    TO_LEARN,
    TO_SORT,
    UNIDENTIFIED,
    Memory,
    MemoryUnusableError,
    Place,
)
from tamis_mail.watching.roles import WATCHED, Role

_READ_BATCH = 100  # messages that are requested from the mailbox together
_TASK_BATCH = 50  # messages that are judged or learned together, in a fraction of a second
# Messages are read to identify them; at most so many bytes of them are kept until they are judged or learned.
_CACHE_BYTES = 32 << 20
_GROUP_BYTES = 8 << 20  # when so many bytes were read, their messages are handled before more are read
_NOTE_BATCH = 1000  # places that are noted in one transaction
_PROGRESS_MESSAGES = 200  # for fewer messages, there is no progress line
# A mail program may move a message by copying it and deleting the original later. After this time, a copy
# whose original is still there counts as a second delivery.
_SETTLE_SECONDS = 60
_PRUNE_SECONDS = 3600.0  # time between two prunings of the memory
# Seconds to wait after a pass that the mailbox or the memory has stopped; doubled after each further one.
_FIRST_BACKOFF, _MAX_BACKOFF = 2.0, 300.0
# Junk is listed last: a message that is moved there meanwhile is found in both folders, never in neither.
_ORDER = (Role.INBOX, Role.OTHER, Role.ARCHIVE, Role.UNSURE, Role.JUNK)
_SORTED_INTO = (Role.JUNK, Role.UNSURE)  # roles of the folders to which the filter moves mail


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a watcher."""

    sorts: bool = True  # whether new mail in the inbox is judged
    learns: bool = True  # whether the lessons of the owner are learned
    adds_keywords: bool = False  # whether sorted spam gets the keyword $Junk, and sorted ham $NotJunk
    only_moves: bool = False  # whether folder and keywords of a message teach nothing when it is first seen
    sorts_read: bool = False  # whether the first pass also sorts messages that the owner has read
    is_dry_run: bool = False  # whether the mailbox and the store stay unchanged
    seconds: float = 60.0  # maximum wait between two passes without a fault


class Stop:
    """A request to stop between two messages, by SIGTERM, SIGINT or `request`."""

    def __init__(self) -> None:
        self.is_requested = False
        self._is_waiting = False

    def request(self) -> None:
        self.is_requested = True

    @contextmanager
    def watching_signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT request the end, in this block."""
        handlers = {number: signal.signal(number, self._handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    @contextmanager
    def allow_interrupts(self) -> Iterator[None]:
        """Let a signal end this block, such as a wait, at once; raise StopRequest if there was a request."""
        self._is_waiting = True
        try:
            self.check()
            yield
        finally:
            self._is_waiting = False

    def check(self) -> None:
        if self.is_requested:
            raise StopRequest

    def _handle(self, number: int, frame: Any) -> None:
        self.is_requested = True
        if self._is_waiting:
            self._is_waiting = False
            raise StopRequest


class StopRequest(Exception):  # noqa: N818 (no error)
    """The end was requested."""


@dataclass(slots=True)
class _MessageCache:
    """Messages that were just read, up to _CACHE_BYTES of them, so that these need not be read twice."""

    size: int = 0  # bytes of these messages
    messages: dict[tuple[str, str], bytes] = field(default_factory=dict)  # by folder and uid

    def keep(self, folder: str, uid: str, raw: bytes) -> None:
        if self.size + len(raw) <= _CACHE_BYTES:
            self.messages[folder, uid] = raw
            self.size += len(raw)

    def take(self, folder: str, uid: str) -> bytes | None:
        raw = self.messages.pop((folder, uid), None)
        self.size -= len(raw or b"")
        return raw


class Watcher:
    """Watches one account.

    In a dry run, `out` receives one line per message that would be moved or learned. `progress` is the line
    of the terminal that says how many messages of a large folder were read.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        memory: Memory,
        classifier: Classifier,
        log: Log,
        settings: Settings | None = None,
        *,
        metrics: Metrics | None = None,
        out: TextIO | None = None,
        progress: Line | None = None,
        stop: Stop | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.counts: Counter[str] = Counter()  # by action: the number of messages
        self._mailbox = mailbox
        self._memory = memory
        self._classifier = classifier
        self._log = log
        self._settings = settings or Settings()
        self._metrics = metrics or Metrics()
        self._out = out
        self._progress = progress
        self.stop = stop or Stop()
        self._clock = clock
        # By kind of work (mailbox, memory, learning, sorting, moving or keywords): the fault that stops it.
        self._faults: dict[str, str] = {}
        # By folder: its revision at the last comparison with the memory.
        self._revisions: dict[str, str] = {}
        self._cache = _MessageCache()
        self._prune_time = 0.0  # time of the last pruning of the memory; 0 before the first one

    def run(self, *, once: bool = False) -> bool:
        """Watch until the end is requested, or for one pass; return what the last finished pass returned.

        Without a finished pass, return False.
        """
        backoff = _FIRST_BACKOFF
        is_complete = False
        try:
            while True:
                self.stop.check()
                is_complete = self.run_pass()
                if once:
                    return is_complete
                with self.stop.allow_interrupts():
                    if "mailbox" in self._faults or "memory" in self._faults:
                        time.sleep(backoff * random.uniform(0.8, 1.2))
                        backoff = min(2 * backoff, _MAX_BACKOFF)
                    else:
                        backoff = _FIRST_BACKOFF
                        self._wait()
        except StopRequest:
            return is_complete

    def run_pass(self) -> bool:
        """Compare, learn and sort once; return False if a fault has stopped some of this.

        A message that is tried again later, because it could not be read or is ambiguous, is not a fault.
        Raise StopRequest if the end was requested.
        """
        try:
            folders = [folder for folder in self._mailbox.list_folders() if folder.role in WATCHED]
            folders.sort(key=lambda folder: _ORDER.index(folder.role))
            self._note_changes(folders)
            self._clear_fault("mailbox")
            self._clear_fault("memory")
            is_complete = self._do_tasks(folders)
            self._prune()
        except MailboxError as error:
            self._report_fault("mailbox", str(error))
            return False
        except MemoryUnusableError as error:
            self._report_fault("memory", str(error))
            return False
        finally:
            self._cache = _MessageCache()
        return is_complete

    def _wait(self) -> None:
        try:
            self._mailbox.wait(self._settings.seconds)
        except MailboxError as error:
            self._report_fault("mailbox", str(error))

    # Comparing folders with the memory.

    def _note_changes(self, folders: Sequence[Folder]) -> None:
        """Note the changes of all folders: first the messages that are gone, then the new ones."""
        present = [folder.name for folder in folders if folder.is_present]
        self._memory.mark_folders_gone_except(present)
        for name in self._revisions.keys() - present:
            del self._revisions[name]  # the folder is compared when it returns, even if it has not changed
        new_messages: list[tuple[Folder, list[ListedMessage], bool]] = []
        for folder in folders:
            self.stop.check()
            if not folder.is_present or (
                folder.revision and self._revisions.get(folder.name) == folder.revision
            ):
                continue
            # The validity of a folder is its UIDVALIDITY.
            is_baseline = self._memory.begin_folder(folder.name, folder.role, folder.validity)
            known = self._memory.list_places(folder.name)
            listed = {message.uid: message for message in self._mailbox.list_messages(folder)}
            self._memory.mark_places_gone([place for uid, place in known.items() if uid not in listed])
            with self._memory.batch():
                for uid, place in known.items():
                    if uid in listed and listed[uid].keywords != place.keywords:
                        self._note_keywords(place, listed[uid].keywords, is_baseline=is_baseline)
            new_messages.append(
                (folder, [message for uid, message in listed.items() if uid not in known], is_baseline)
            )
        for folder, messages, is_baseline in new_messages:
            self._note_messages(folder, messages, is_baseline=is_baseline)
            self._memory.end_folder(folder.name)
            self._revisions[folder.name] = folder.revision
        if self._memory.is_baseline:
            self._memory.end_baseline()

    def _note_keywords(self, place: Place, keywords: frozenset[str], *, is_baseline: bool) -> None:
        """Note the changed keywords of a message, and the task to learn it if they teach a lesson."""
        lesson = None
        if self._settings.learns and not is_baseline and place.state != MOVING:
            lesson = lessons.find_lesson(place.role, place.role, place.keywords, keywords)
        if lesson is not None:
            self._memory.update(place, TO_LEARN, label=lesson, keywords=keywords)
        else:
            self._memory.note_keywords(place, keywords)

    def _note_messages(self, folder: Folder, messages: Sequence[ListedMessage], *, is_baseline: bool) -> None:
        """Note messages that are new in a folder; they are read, because their content identifies them."""
        # Old messages of the archive and of other folders need not be identified: if one of them is later
        # found in Junk, that teaches spam wherever it was before.
        is_not_identified = (
            is_baseline and folder.role in (Role.ARCHIVE, Role.OTHER) and not self._settings.only_moves
        )
        step = _NOTE_BATCH if is_not_identified else _READ_BATCH
        for start in range(0, len(messages), step):
            self.stop.check()
            batch = {message.uid: message for message in messages[start : start + step]}
            if is_not_identified:
                with self._memory.batch():
                    for message in batch.values():
                        self._memory.add(folder.name, message.uid, None, message.keywords, DONE)
                continue
            for outcomes in _group_by_size(self._mailbox.read(folder, list(batch))):
                with self._memory.batch():
                    for uid, outcome in outcomes:
                        self._note_message(folder, batch[uid], outcome, is_baseline=is_baseline)
            self._draw_progress(folder.name, start + len(batch), len(messages))
        self._draw_progress(folder.name, len(messages), len(messages))

    def _note_message(
        self, folder: Folder, message: ListedMessage, outcome: bytes | MessageError, *, is_baseline: bool
    ) -> None:
        """Note a message that is new in a folder, given its bytes or why it could not be read."""
        if isinstance(outcome, MessageError):
            self._memory.add(
                folder.name, message.uid, None, message.keywords, DONE if is_baseline else UNIDENTIFIED
            )
            if not is_baseline:
                self._record_failure(self._memory.find(folder.name, message.uid), str(outcome))
            return
        identity = digest(canonical(outcome))
        move = self._memory.find_move(identity, folder.name)
        if move is not None:
            self._memory.recognize_move(move, message.uid)
            self._memory.add(folder.name, message.uid, identity, message.keywords, DONE, move.label)
            return
        state, label, retry_time = self._find_task(folder, message, identity, is_baseline=is_baseline)
        self._memory.add(
            folder.name, message.uid, identity, message.keywords, state, label, retry_time=retry_time
        )
        if state in (TO_SORT, TO_LEARN):
            self._cache.keep(folder.name, message.uid, outcome)

    def _find_task(
        self, folder: Folder, message: ListedMessage, identity: bytes, *, is_baseline: bool
    ) -> tuple[str, str, int]:
        """Return the task for a message that is new in a folder: state, label and retry time of its place.

        The retry time is 0 for a task that is due at once.
        """
        last = self._memory.find_last_place(identity)
        if last and last.is_gone and last.folder == folder.name and last.state in (TO_SORT, TO_LEARN):
            # The message had gone from this folder, and is there again with another uid: its task stays.
            return last.state, last.label, 0
        # If a copy of the message is still in the inbox, this is a second delivery, and new mail, too.
        is_unknown = last is None or (last.role == Role.INBOX and not last.is_gone)
        is_new_mail = folder.role == Role.INBOX and is_unknown and self._settings.sorts
        if is_baseline:
            # `is_kept_by_owner`: the message is flagged, answered, a draft or marked as deleted.
            was_read = lessons.SEEN in message.keywords and not self._settings.sorts_read
            is_to_sort = is_new_mail and not was_read and not lessons.is_kept_by_owner(message.keywords)
            return (TO_SORT if is_to_sort else DONE), "", 0
        before = last.role if last else None
        if last and last.is_gone and last.state in (MOVING, MOVED):
            before = self._memory.abandon_move(last)
        lesson = lessons.find_lesson(
            before,
            folder.role,
            last.keywords if last else None,
            message.keywords,
            only_moves=self._settings.only_moves,
        )
        if lesson == HAM and last and last.role in _SORTED_INTO and not last.is_gone:
            return AMBIGUOUS, HAM, int(self._clock()) + _SETTLE_SECONDS
        if lesson is not None and self._settings.learns:
            return TO_LEARN, lesson, 0
        if is_new_mail and lesson is None and not lessons.is_kept_by_owner(message.keywords):
            return TO_SORT, "", 0
        return DONE, "", 0

    # Doing the tasks.

    def _do_tasks(self, folders: Sequence[Folder]) -> bool:
        """Do the tasks of all folders; return False if a fault has stopped some of them."""
        stopped: set[str] = set()  # the kinds of work that a fault has stopped: learning, sorting or moving
        present = [folder for folder in folders if folder.is_present]
        for folder in present:
            for place in self._list_tasks(folder, UNIDENTIFIED, AMBIGUOUS):
                if place.state == UNIDENTIFIED:
                    self._identify(folder, place)
                else:
                    self._resolve_ambiguous(place)
        for folder in present:
            for place in self._list_tasks(folder, MOVING):
                if "moving" not in stopped:
                    self.stop.check()
                    self._try_move(stopped, partial(self._repeat_move, folder, place, folders))
        for folder in present:  # before new mail is sorted, so that it is judged by what is learned here
            for label in (SPAM, HAM):
                to_learn = [place for place in self._list_tasks(folder, TO_LEARN) if place.label == label]
                self._do_in_batches(folder, to_learn, stopped, "learning", self._learn_batch)
        for folder in present:
            sort = partial(self._sort_batch, folders, stopped)
            self._do_in_batches(folder, self._list_tasks(folder, TO_SORT), stopped, "sorting", sort)
        for work in {"learning", "sorting", "moving"} - stopped:
            self._clear_fault(work)
        return not stopped

    def _list_tasks(self, folder: Folder, *states: str) -> list[Place]:
        return [place for place in self._memory.list_tasks(folder.name) if place.state in states]

    def _try_move(self, stopped: set[str], move: Callable[[], None]) -> None:
        """Make a move. If the folder accepts no messages now, add "moving" to the stopped kinds of work.

        A later pass then makes the move.
        """
        try:
            move()
        except FolderError as error:
            stopped.add("moving")
            self._report_fault("moving", str(error))

    def _do_in_batches(
        self,
        folder: Folder,
        places: Sequence[Place],
        stopped: set[str],
        work: str,
        do: Callable[[Folder, list[tuple[Place, bytes]]], None],
    ) -> None:
        """Call `do` with batches of places and their messages, unless a fault has stopped this kind of work.

        If the store cannot be used, add the kind of work to the stopped ones, and return.
        """
        for start in range(0, len(places), _TASK_BATCH):
            if work in stopped:
                return
            self.stop.check()
            for batch in self._read_messages(folder, places[start : start + _TASK_BATCH]):
                try:
                    do(folder, batch)
                except StoreUnusableError as fault:
                    stopped.add(work)
                    self._report_fault(work, str(fault))
                    return

    def _read_messages(self, folder: Folder, places: Sequence[Place]) -> Iterator[list[tuple[Place, bytes]]]:
        """Yield places with the bytes of their messages, in groups of bounded size.

        The place of a message that is not in the folder any more is marked as gone.
        """
        cached = [(place, self._cache.take(folder.name, place.uid)) for place in places]
        known = [(place, raw) for place, raw in cached if raw is not None]
        if known:
            yield known
        missing = {place.uid: place for place, raw in cached if raw is None}
        if not missing:
            return
        for outcomes in _group_by_size(self._mailbox.read(folder, list(missing))):
            group: list[tuple[Place, bytes]] = []
            for uid, outcome in outcomes:
                place = missing.pop(uid)
                if isinstance(outcome, MessageError):
                    self._record_failure(place, str(outcome))
                else:
                    group.append((place, outcome))
            if group:
                yield group
        self._memory.mark_places_gone(missing.values())

    def _identify(self, folder: Folder, place: Place) -> None:
        """Try again to read a message that could not be read before, and note it and its task."""
        outcomes = dict(self._mailbox.read(folder, [place.uid]))
        outcome = outcomes.get(place.uid)
        if outcome is None:
            self._memory.mark_places_gone([place])
        elif isinstance(outcome, MessageError):
            self._record_failure(place, str(outcome))
        else:
            self._note_message(folder, ListedMessage(place.uid, place.keywords), outcome, is_baseline=False)

    def _resolve_ambiguous(self, place: Place) -> None:
        """Decide on an ambiguous message once no copy is in Junk or among unsure mail, or after some time."""
        has_copy = place.identity is not None and self._memory.is_in_role(place.identity, _SORTED_INTO)
        if not has_copy:
            self._memory.update(place, TO_LEARN if self._settings.learns else DONE)
        elif place.retry_time <= self._clock():
            is_new_mail = place.role == Role.INBOX and self._settings.sorts
            self._memory.update(place, TO_SORT if is_new_mail else DONE, label="")

    def _learn_batch(self, folder: Folder, batch: list[tuple[Place, bytes]]) -> None:
        """Learn messages whose places have the same label."""
        label = batch[0][0].label
        if self._settings.is_dry_run:
            for place, raw in batch:
                self._print(f"would learn as {label}", folder, raw)
                self._memory.update(place, DONE)
                self.counts[f"would learn as {label}"] += 1
            return
        outcomes = self._classifier.learn([raw for _, raw in batch], label)
        with self._memory.batch():
            for (place, raw), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, MessageError):
                    self._record_failure(place, str(outcome))
                    continue
                self._memory.update(place, DONE)
                self.counts[f"learned as {label}"] += 1
                self._log.write(
                    "learned", label=label, action=outcome, role=folder.role.value, bytes=len(raw)
                )

    def _sort_batch(
        self,
        folders: Sequence[Folder],
        stopped: set[str],
        folder: Folder,
        batch: list[tuple[Place, bytes]],
    ) -> None:
        """Judge messages of a folder, and move them or let them stay, as their labels say."""
        outcomes = self._classifier.judge([raw for _, raw in batch])
        stays: list[tuple[Place, str]] = []
        moves: list[tuple[Place, str, Folder]] = []
        for (place, raw), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, MessageError):
                self._record_failure(place, str(outcome))
                continue
            target = _find_target(outcome.label, folders)
            if target is not None and "moving" in stopped:
                continue  # it is judged again in a later pass, when the folder may accept messages
            self._metrics.count_verdict(outcome.label, outcome.seconds)
            if not self._settings.is_dry_run:
                self._log_verdict(outcome, target, len(raw))
            elif target is not None:
                self._print(f"would move to {target.name}", folder, raw, outcome.probability)
            if target is None:
                stays.append((place, outcome.label))
            else:
                moves.append((place, outcome.label, target))
        self._note_and_mark(folder, stays)
        for place, label, target in moves:
            self.stop.check()
            if self._settings.is_dry_run:
                self._memory.update(place, DONE, label=label)
                self.counts[f"would move to {target.name}"] += 1
            elif "moving" not in stopped:
                self._try_move(stopped, partial(self._note_and_move, folder, place, label, target))

    def _note_and_mark(self, folder: Folder, stays: list[tuple[Place, str]]) -> None:
        """Note that messages stay where they are, and add the keywords of their labels."""
        marked: list[tuple[Place, frozenset[str]]] = []
        with self._memory.batch():
            for place, label in stays:
                added = self._keywords_of(label) - place.keywords
                self._memory.update(place, DONE, label=label, keywords=place.keywords | added)
                self.counts["stay"] += 1
                if added and not self._settings.is_dry_run:
                    marked.append((place, added))
        for place, added in marked:
            self._add_keywords(folder, place, added)

    def _keywords_of(self, label: str) -> frozenset[str]:
        if not self._settings.adds_keywords:
            return frozenset()
        return {SPAM: frozenset({"$Junk"}), HAM: frozenset({"$NotJunk"})}.get(label, frozenset())

    def _add_keywords(self, folder: Folder, place: Place, added: frozenset[str]) -> None:
        try:
            is_kept = self._mailbox.add_keywords(folder, place.uid, added)
        except (MessageError, LookupError):  # the message stays without keywords, or is gone
            return
        if not is_kept:
            self._report_fault("keywords", f"{folder.name} cannot keep keywords: messages are not marked")

    def _repeat_move(self, folder: Folder, place: Place, folders: Sequence[Folder]) -> None:
        """Make a move again that was noted and perhaps not completed, because the process was ended."""
        target = next((candidate for candidate in folders if candidate.name == place.target), None)
        if target is None:  # the folder has been renamed or removed
            self._memory.update(place, TO_SORT, label="")
        else:
            self._note_and_move(folder, place, place.label, target)

    def _note_and_move(self, folder: Folder, place: Place, label: str, target: Folder) -> None:
        """Note a move and the keywords of the label, add the keywords, and make the move."""
        added = self._keywords_of(label)
        noted = self._memory.update(
            place, MOVING, label=label, target=target.name, keywords=place.keywords | added
        )
        if added - place.keywords or (added and place.state == MOVING):
            self._add_keywords(folder, noted, added)
        self._move(folder, noted, target)

    def _move(self, folder: Folder, place: Place, target: Folder) -> None:
        """Make a move that was noted, and note its end; a message that cannot be moved is a failure."""
        try:
            # `copy_uid`: of the copy that an interrupted move has left in the target.
            uid = self._mailbox.move(folder, place.uid, target, copy_uid=place.copy_uid or None)
        except LookupError:  # the owner has moved or deleted the message meanwhile
            self._memory.update(place, DONE)
            self._memory.mark_places_gone([place])
            return
        except MessageError as error:
            self._record_failure(place, str(error))
            return
        if not target.is_present:
            self._memory.begin_folder(target.name, target.role, target.validity)
        self._memory.end_move(place, uid, place.keywords)
        self.counts[f"moved to {target.name}"] += 1

    # Reporting.

    def _log_verdict(self, judged: JudgedMessage, target: Folder | None, size: int) -> None:
        self._log.write(
            "verdict",
            label=judged.label,
            probability=round(judged.probability, 6),
            target=target.role.value if target else "stay",
            bytes=size,
            seconds=round(judged.seconds, 4),
        )

    def _record_failure(self, place: Place, reason: str) -> None:
        """Note and log that a message could not be handled; the memory says when it is tried again."""
        is_retried = self._memory.record_failure(place, reason)
        self.counts["failed"] += 1
        self._metrics.count_fault("message")
        self._log.write(
            "message-failed", folder=place.folder, uid=place.uid, reason=reason, tried_again=is_retried
        )

    def _report_fault(self, work: str, sentence: str) -> None:
        """Report a fault when it begins and when it changes, not each time it occurs."""
        if self._faults.get(work) != sentence:
            self._faults[work] = sentence
            self._metrics.count_fault("store" if work in ("learning", "sorting") else "mailbox")
            self._log.write("fault", stops=work, reason=sentence)

    def _clear_fault(self, work: str) -> None:
        if self._faults.pop(work, None) is not None:
            self._log.write("fault-ended", stops=work)

    def _print(self, action: str, folder: Folder, raw: bytes, probability: float | None = None) -> None:
        if self._out is None:
            return
        heading = read_heading(raw)
        probability_text = "" if probability is None else f" {probability:.3f}"
        self._out.write(
            f"{action}{probability_text}: {printable(folder.name)}: {heading.sender or '(no sender)'}: "
            f"{heading.subject or '(no subject)'}\n"
        )

    def _draw_progress(self, name: str, done: int, total: int) -> None:
        if self._progress is None or total < _PROGRESS_MESSAGES or not self._progress.is_terminal:
            return
        now = time.monotonic()
        if done == total:
            self._progress.draw("", now)
        elif self._progress.is_due(now):
            self._progress.draw(f"{printable(name)}: {done:,} of {total:,} messages read", now)

    def _prune(self) -> None:
        if self._clock() - self._prune_time >= _PRUNE_SECONDS:
            self._prune_time = self._clock()
            self._memory.prune()


def _group_by_size(
    outcomes: Iterator[tuple[str, bytes | MessageError]],
) -> Iterator[list[tuple[str, bytes | MessageError]]]:
    """Group messages: a group ends with the message that brings it to _GROUP_BYTES or more."""
    group: list[tuple[str, bytes | MessageError]] = []
    size = 0
    for uid, outcome in outcomes:
        group.append((uid, outcome))
        size += len(outcome) if isinstance(outcome, bytes) else 0
        if size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _find_target(label: str, folders: Sequence[Folder]) -> Folder | None:
    """Return the folder to which messages with this label are moved, or None if they stay."""
    role = {SPAM: Role.JUNK, UNSURE: Role.UNSURE}.get(label)
    return next((folder for folder in folders if folder.role == role), None)
