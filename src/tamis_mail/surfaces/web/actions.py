"""The actions of the user: mark, forget, allow, block, undo. They run in the writer thread.

Each action returns an `Outcome`: a sentence, and the fields of the form that undoes it. `judge_again` returns
verdicts instead; the script of the page also requests it, and it then runs in another thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tamis_mail.catalog import CatalogError, read_message
from tamis_mail.message import canonical
from tamis_mail.message.addresses import parse_addresses, read_senders
from tamis_mail.sieve.undoing import UndoError
from tamis_mail.store.log import EventLog, LogError
from tamis_mail.store.people import add_entries, parse_entry, remove_entries
from tamis_mail.surfaces.web.threads import Connections

MAX_MESSAGES = 1000  # of one action
_SOURCE = "web"
_JUDGED_TOGETHER = 50  # maximum number of messages that are judged together
_JUDGED_BYTES = 16 << 20  # a batch of more bytes gets no more messages
_HEAD_BYTES = 1 << 16  # bytes of a message in which its senders are searched
_MAX_EVENT = 1 << 62  # larger than the number of any event


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action."""

    sentence: str
    undo: dict[str, str] = field(default_factory=dict)  # fields of a form for /undo; empty if there is none
    is_fault: bool = False

    def as_notice(self) -> dict[str, object]:
        """Return the outcome as a notice: a message at the top of the next page, with a button for undo."""
        return {"sentence": self.sentence, "undo": self.undo, "is_fault": self.is_fault}


def mark(connections: Connections, digests: Sequence[bytes], label: str) -> Outcome:
    """Learn messages under a label. If a message cannot be read, its stored features are relabelled."""
    before = _find_newest_event(connections)
    sieve = connections.sieve
    unreadable: list[bytes] = []
    actions = sieve.learn_many(
        _read_messages(connections, digests, unreadable), label, source=_SOURCE, processes=1
    )
    for digest in [*unreadable]:
        if sieve.store.has_features(digest):
            actions[sieve.relabel_digest(digest, label).action] += 1
            unreadable.remove(digest)
    _note_changes(connections, digests)
    name = "spam" if label == "spam" else "wanted mail" if label == "ham" else label
    n_changed = actions["learned"] + actions["moved"]
    sentence = f"{_count_messages(n_changed)} learned as {name}."
    if actions["known"]:
        sentence += f" {_count_messages(actions['known'])} known as {name} already."
    return _make_outcome(connections, before, sentence, digests, unreadable)


def forget(connections: Connections, digests: Sequence[bytes]) -> Outcome:
    """Forget messages: the counts are as if they had never been learned.

    If a message cannot be read, its stored features are forgotten.
    """
    before = _find_newest_event(connections)
    unreadable: list[bytes] = []
    sieve = connections.sieve
    known = sieve.store.find_entries(digests)
    actions = sieve.forget_many(
        _read_messages(connections, [one for one in digests if one in known], unreadable),
        source=_SOURCE,
        processes=1,
    )
    for digest in [*unreadable]:
        if sieve.store.has_features(digest):
            actions[sieve.forget_digest(digest).action] += 1
            unreadable.remove(digest)
    _note_changes(connections, digests)
    n_unknown = len(set(digests) - known.keys())
    sentence = f"{_count_messages(actions['forgotten'])} forgotten."
    if n_unknown:
        sentence += f" {_count_messages(n_unknown)} had not been learned."
    return _make_outcome(connections, before, sentence, digests, unreadable)


def set_senders(connections: Connections, digests: Sequence[bytes], *, is_allowed: bool) -> Outcome:
    """Allow or block the senders of messages."""
    entries = [*dict.fromkeys(entry for digest in digests for entry in _find_senders(connections, digest))]
    if not entries:
        return Outcome("No sender with an address was found.", is_fault=True)
    before = add_entries(connections.sieve.store, entries, is_allowed=is_allowed)
    judge_again(connections, digests)
    verb = "allowed" if is_allowed else "blocked"
    return Outcome(f"{verb.capitalize()}: {join_entries(entries)}.", make_list_undo(before, digests))


def make_list_undo(before: Mapping[str, bool | None], digests: Sequence[bytes] = ()) -> dict[str, str]:
    """Return the fields of the form that restores entries of the lists of senders.

    `before` has for each entry whether it was allowed (True), blocked (False) or on neither list (None). The
    first 50 of the messages `digests` are judged again afterwards.
    """
    return {
        "was_new": "\n".join(entry for entry, value in before.items() if value is None),
        "was_allowed": "\n".join(entry for entry, value in before.items() if value is True),
        "was_blocked": "\n".join(entry for entry, value in before.items() if value is False),
        "digests": " ".join(digest.hex() for digest in digests[:50]),
    }


def restore_list(
    connections: Connections,
    was_new: Sequence[str],
    was_allowed: Sequence[str],
    was_blocked: Sequence[str],
    digests: Sequence[bytes] = (),
) -> Outcome:
    """Restore entries of the lists of senders, as they were before an action, and judge messages again."""
    try:
        new, allowed, blocked = (
            [parse_entry(entry) for entry in entries] for entries in (was_new, was_allowed, was_blocked)
        )
    except ValueError as error:
        return Outcome(str(error), is_fault=True)
    store = connections.sieve.store
    for is_allowed in (True, False):
        remove_entries(store, new, is_allowed=is_allowed)
    add_entries(store, allowed, is_allowed=True)
    add_entries(store, blocked, is_allowed=False)
    judge_again(connections, digests)
    entries = [*new, *allowed, *blocked]
    return Outcome(f"Undone: the lists of senders are as before for {join_entries(entries)}.")


def undo(connections: Connections, ranges: Sequence[tuple[int, int]]) -> Outcome:
    """Undo the learning events of the log with numbers in some ranges (first, last), if all can be undone."""
    before = _find_newest_event(connections)
    sieve = connections.sieve
    try:
        events = sieve.plan_undo(ranges)
        if len(events) > MAX_MESSAGES:
            sentence = f"These are {len(events):,} events: undo at most {MAX_MESSAGES:,} at once."
            return Outcome(sentence, is_fault=True)
        messages = {
            event.digest: read_message(connections.catalog, event.digest)
            for event in events
            if sieve.needs_message(event)
        }
        undone = sieve.undo(events, messages)
    except (UndoError, CatalogError) as error:
        return Outcome(f"{error}"[:1].upper() + f"{error}."[1:], is_fault=True)
    digests = [event.digest for event in events]
    _note_changes(connections, digests)
    n_undone = len(undone)
    sentence = "1 event is undone." if n_undone == 1 else f"{n_undone:,} events are undone."
    return _make_outcome(connections, before, sentence, digests, [])


def read_ranges(text: str) -> list[tuple[int, int]]:
    """Read ranges of numbers of events, as `Outcome.undo` has them; raise ValueError if they are not valid.

    >>> read_ranges("3-5,9")
    [(3, 5), (9, 9)]
    """
    ranges: list[tuple[int, int]] = []
    for part in text.split(",")[:MAX_MESSAGES]:
        first, _, last = part.partition("-")
        # A number of 18 digits or more might not fit into SQLite's integers.
        if not all(word.isascii() and word.isdigit() and len(word) < 18 for word in (first, last or first)):
            raise ValueError(f"events are {text[:40]!r}, expected numbers, as in 3-5,9")
        ranges.append((int(first), int(last or first)))
    return ranges


def judge_again(
    connections: Connections, digests: Iterable[bytes], must_end: Callable[[], bool] = lambda: False
) -> dict[bytes, tuple[str, float]]:
    """Judge messages, until `must_end` returns True, and write the verdicts to the catalog.

    Return the label and the probability of each message that was judged, by digest; a message that cannot be
    read is left out.
    """
    verdicts: dict[bytes, tuple[str, float]] = {}
    batch: list[tuple[bytes, bytes]] = []
    size = 0

    def judge() -> None:
        judged = connections.sieve.sort_batch([raw for _, raw in batch])
        for (digest, _), verdict in zip(batch, judged, strict=True):
            verdicts[digest] = (verdict.label, verdict.probability)
        batch.clear()

    for digest in dict.fromkeys(digests):
        if must_end():
            break
        try:
            raw = read_message(connections.catalog, digest)
        except CatalogError:
            continue
        batch.append((digest, raw))
        size += len(raw)
        if len(batch) == _JUDGED_TOGETHER or size > _JUDGED_BYTES:
            judge()
            size = 0
    if batch:
        judge()
    connections.catalog.note_verdicts((digest, *verdict) for digest, verdict in verdicts.items())
    return verdicts


def _read_messages(
    connections: Connections, digests: Iterable[bytes], unreadable: list[bytes]
) -> Iterator[bytes]:
    """Yield the messages one by one; add the digests of those that cannot be read to `unreadable`."""
    for digest in dict.fromkeys(digests):
        try:
            yield read_message(connections.catalog, digest)
        except CatalogError:
            unreadable.append(digest)


def _find_senders(connections: Connections, digest: bytes) -> Sequence[str]:
    """Return the addresses of a message's senders, from its text or from its entry in the catalog."""
    try:
        raw = read_message(connections.catalog, digest)
        return read_senders(canonical(raw[:_HEAD_BYTES])).addresses
    except CatalogError:
        row = connections.catalog.find(digest)
        return () if row is None else parse_addresses(row.sender)[0]


def _note_changes(connections: Connections, digests: Sequence[bytes]) -> None:
    """Write the changes of the store to the catalog, and judge the messages again.

    Not all labels are in the log, which can be off: those of the messages are read from the store.
    """
    connections.catalog.follow(EventLog.of(connections.sieve.store.path_name))
    entries = connections.sieve.store.find_entries(digests)
    connections.catalog.note_labels(
        (digest, entries[digest].label if digest in entries else "") for digest in digests
    )
    judge_again(connections, digests)


def _find_newest_event(connections: Connections) -> int:
    """Return the number of the newest event of the log; 0 if there is none."""
    try:
        newest = next(EventLog.of(connections.sieve.store.path_name).events(), None)
    except LogError:
        return 0
    return 0 if newest is None else newest.number


def _make_outcome(
    connections: Connections,
    before: int,
    sentence: str,
    digests: Sequence[bytes],
    unreadable: Sequence[bytes],
) -> Outcome:
    """Return the outcome of an action, with the form that undoes the learning events after number `before`.

    Its sentence also says how many messages could not be read.
    """
    if unreadable:
        sentence += f" {_count_messages(len(unreadable))} could not be read: the mail was moved or deleted."
    digest_set = set(digests)
    try:
        events = EventLog.of(connections.sieve.store.path_name).find_range(before + 1, _MAX_EVENT)
        numbers = sorted(event.number for event in events if event.is_learning and event.digest in digest_set)
    except LogError:
        numbers = []
    undo_fields = {"events": _join_numbers(numbers)} if numbers else {}
    return Outcome(sentence, undo_fields, is_fault=bool(unreadable))


def join_entries(entries: Sequence[str]) -> str:
    """Join the first entries of the lists of senders for a sentence; domains lose their @."""
    names = [entry.removeprefix("@") for entry in entries]
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _join_numbers(numbers: Sequence[int]) -> str:
    """Write ascending numbers as ranges.

    >>> _join_numbers([3, 4, 5, 9])
    '3-5,9'
    """
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def _count_messages(number: int) -> str:
    return "1 message" if number == 1 else f"{number:,} messages"
