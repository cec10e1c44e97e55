"""Undo learning events of the log, so that the store is as it was before them.

An event is undone only if the message still has, in the journal, the label that the event gave it. Its label,
weight, source and time before the event are in the log.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from tamis_mail import tokens
from tamis_mail.message import canonical, digest
from tamis_mail.sieve.executor import run_inline
from tamis_mail.sieve.receipt import Receipt
from tamis_mail.sieve.transaction import Transaction
from tamis_mail.store import Entry, Store
from tamis_mail.store.log import FORGOTTEN, MOVED, Event, EventLog


class UndoError(Exception):
    """An event that cannot be undone. The message is one line for the user."""


def plan(log: EventLog, ranges: Iterable[tuple[int, int]]) -> list[Event]:
    """Return the learning events to be undone in ranges of event numbers, newest first.

    Raise UndoError if one of them cannot be undone.
    """
    candidates: dict[int, Event] = {}
    single_numbers: set[int] = set()
    for first, last in ranges:
        if first == last:
            candidates[first] = _find_one(log, first)
            single_numbers.add(first)
        else:
            events = [event for event in log.find_range(first, last) if event.is_learning and event.digest]
            candidates |= {event.number: event for event in events}
    undo_numbers = log.undo_numbers()
    planned: dict[int, Event] = {}
    for number in sorted(candidates, reverse=True):
        undone_by = _find_undo(undo_numbers, number, planned)
        if not undone_by:
            _refuse_order(log, candidates[number], undo_numbers, planned)
            planned[number] = candidates[number]
        elif number in single_numbers:
            raise UndoError(
                f"event {number} was undone already, by event {undone_by}: to have it back, run "
                f"tamis undo {undone_by}"
            )
    if not planned:
        raise UndoError(
            "there is nothing to undo in this range: its events are verdicts, were undone already, or their "
            "messages were forgotten later (see tamis log --learned)"
        )
    return [*planned.values()]


def _find_one(log: EventLog, number: int) -> Event:
    event = log.find(number)
    if event is None:
        newest = next(log.events(), None)
        raise UndoError(
            f"there is no event {number} in the log, whose newest event is {newest.number if newest else 0}: "
            "tamis log --learned lists the events that can be undone"
        )
    if not event.is_learning:
        other = "ham" if event.label == "spam" else "spam"
        raise UndoError(
            f"event {number} is a verdict, which changed nothing: to correct it, learn the message under its "
            f"right label, as in tamis relabel {other} PATH"
        )
    if not event.digest:
        raise UndoError(
            f"event {number} is of a message that was forgotten later, so neither the log nor the store "
            "describes it: to have the message back, learn it again"
        )
    return event


def _find_undo(undo_numbers: Mapping[int, int], number: int, planned: Container[int]) -> int:
    """Return the number of the event that undid an event; 0 if there is none, or if it was undone itself.

    The events of `planned` count as undone.
    """
    undo_number = later = undo_numbers.get(number, 0)
    length = 0  # of a chain of events, each of which undid the one before; the first undid this event
    while later and later not in planned:
        length += 1
        later = undo_numbers.get(later, 0)
    return undo_number if length % 2 else 0


def _refuse_order(
    log: EventLog, event: Event, undo_numbers: Mapping[int, int], planned: Container[int]
) -> None:
    """Raise UndoError if a later event of the message was not undone and is not in `planned`."""
    for later in reversed(log.find_history(event.digest)):
        if later.number <= event.number:
            return
        is_undone = later.number in planned or _find_undo(undo_numbers, later.number, planned)
        # An event that undid another one after `event` restored what was before that one.
        if not is_undone and later.undoes <= event.number:
            raise UndoError(
                f"event {event.number} cannot be undone before event {later.number}, which came later and "
                f"{describe(later)}: begin with tamis undo {later.number}"
            )


def describe(event: Event) -> str:
    """Describe a learning event as a predicate.

    >>> describe(Event(0, "moved", b"", "ham", before="spam"))
    'moved the message from spam to ham'
    """
    if event.action == MOVED:
        return f"moved the message from {event.before} to {event.label}"
    if event.action == FORGOTTEN:
        return f"made the store forget the message, which was {event.before}"
    return f"learned the message as {event.label}"


def undo_events(store: Store, events: Sequence[Event], messages: Mapping[bytes, bytes]) -> list[Receipt]:
    """Undo events in one transaction; `messages` has the messages without stored features, by digest."""
    with store.transaction() as writer:
        transaction = Transaction(store, writer, source="")
        receipts = (_undo(store, transaction, event, messages) for event in events)
        return transaction.run(receipts, run_inline)


def _undo(store: Store, transaction: Transaction, event: Event, messages: Mapping[bytes, bytes]) -> Receipt:
    entry = store.find_entry(event.digest)
    label = entry.label if entry else ""
    if label != event.label:
        raise UndoError(
            f"event {event.number} {describe(event)}, but now it is {label or 'not learned'}, by a change "
            "that is not in the log: use tamis relabel or tamis forget"
        )
    raw = messages.get(event.digest)
    is_wrong = raw is not None and digest(canonical(raw)) != event.digest
    if is_wrong or (raw is None and not store.has_features(event.digest)):
        raise UndoError(
            f"the message of event {event.number} is needed to undo it: name the mail that has it"
        )
    if not event.before:
        return transaction.forget_digest(event.digest) if raw is None else transaction.unlearn(raw)
    # A merge with a store that was decayed more often multiplies all weights.
    factor = entry.weight // event.weight if entry and event.weight else 1
    return transaction.restore(
        raw,
        Entry(
            event.digest,
            event.before,
            event.old_weight * factor,
            event.old_rest * factor,
            tokens.VERSION,
            store.prunings(),
            event.old_source,
            event.old_time,
        ),
    )
