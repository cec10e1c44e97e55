"""`tamis log`: the verdicts and what was learned, newest first."""

import os
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import TextIO

from tamis_mail.mailbox.raw_message import printable
from tamis_mail.settings import default_path
from tamis_mail.sieve import Sieve
from tamis_mail.store import has_store
from tamis_mail.store.log import FORGOTTEN, GUESSED, LEARNED, MOVED, Event, EventLog
from tamis_mail.surfaces.cli.layout import can_show, clip, pad, replace_hidden
from tamis_mail.surfaces.cli.parser import Parser, add_store_option
from tamis_mail.surfaces.cli.past import PAST_HELP, parse_past
from tamis_mail.surfaces.cli.streams import terminal_width

_LINES = 20  # events that are listed by default
_MIN_GROUP = 4  # if so many consecutive events learned messages of one mailbox, they are listed in one line
_WIDE = 72  # in a terminal of fewer columns, an event has two lines


def configure(parser: Parser) -> None:
    parser.description = (
        "List the verdicts, and the messages that were learned, moved and forgotten, newest first. Each "
        "event has a number: tamis undo undoes what an event has learned. Many messages that were "
        "learned from one mailbox are one line, unless --each is given.\n\n"
        "The log is a file beside the store (its name ends in .log), which only you can read. It has the "
        "sender and the subject of each message, and keeps the newest 100,000 events; tamis forget erases "
        "the sender, the subject and the path of a message."
    )
    add = parser.add_argument
    add("--since", type=parse_past, metavar="TIME", help=f"events of this time or later: {PAST_HELP}")
    add("--spam", action="store_true", help="messages that were judged to be spam")
    add("--ham", action="store_true", help="messages that were judged to be ham, or have another label")
    add("--unsure", action="store_true", help="messages about which the verdict was unsure")
    add("--learned", action="store_true", help="messages that were learned, moved or forgotten")
    add("--limit", type=int, metavar="N", help=f"number of events (default: {_LINES}; 0: all)")
    add("--each", action="store_true", help="one line per event, also where many messages were learned")
    add("--json", action="store_true", help="print one JSON object per line and event")
    add("--off", action="store_true", help="write no log for this store from now on")
    add("--on", action="store_true", help="write the log again from now on")
    add("--clear", action="store_true", help="delete the log")
    add_store_option(parser)
    parser.examples = [
        ("tamis log", "the last verdicts, and what was learned"),
        ("tamis log --spam --since yesterday", "is there a mistake?"),
        ("tamis log --learned", "which event should be undone?"),
        ("tamis log --json --limit 0 | jq .subject", "for programs"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """List events, or switch the log on or off, or delete it."""
    path = options.store or default_path()
    switches = [name for name in ("on", "off", "clear") if getattr(options, name)]
    filters = [
        getattr(options, name) for name in ("since", "limit", "spam", "ham", "unsure", "learned", "json")
    ]
    if switches and (len(switches) > 1 or any(value is not None and value is not False for value in filters)):
        options.parser.error(f"--{switches[0]} is given alone: leave the other options out")
    if options.limit is not None and options.limit < 0:
        options.parser.error(f"got --limit {options.limit}, expected a whole number from 0")
    log = find_log(path)
    if switches:
        out.write(_switch(switches[0], path, log) + "\n")
        return 0
    if not log.exists():
        if not options.json:
            out.write(describe_absence(path) + "\n")
        return 0
    events = (event for event in log.events(options.since) if _is_selected(event, options))
    limit = _LINES if options.limit is None else options.limit or None
    undone = _find_undone(log.undo_numbers())
    if options.json:
        json = import_module("json")
        out.writelines(json.dumps(_as_dict(event, undone)) + "\n" for event in islice(events, limit))
        return 0
    page = _Page(out)
    count = 0
    for group in islice(_group_events(events, undone, each=options.each), limit):
        count += 1
        out.writelines(line.rstrip() + "\n" for line in page.lines(group, undone))
    if not count:
        out.write("there is no such event in the log\n")
    return 0


def _switch(switch: str, path: object, log: EventLog) -> str:
    if switch == "clear":
        existed = log.exists()
        log.clear()
        return f"the log {printable(str(log.path))} is deleted" if existed else "there was no log"
    with Sieve.open(str(path), create=False) as sieve, sieve.store.transaction() as writer:
        writer.write_setting("log", switch)
    if switch == "on":
        return "verdicts and what is learned are logged from now on"
    rest = "; tamis log --clear deletes what was logged" if log.exists() else ""
    return f"nothing is logged from now on{rest}"


def find_log(path: str | os.PathLike[str]) -> EventLog:
    """Return the log of a store, which may be absent; raise ValueError if there is no store."""
    if not has_store(path):
        raise ValueError(
            f"there is no store at {path}, and so no log: learn some mail first (tamis learn --help)"
        )
    return EventLog.of(path)


def describe_absence(path: object) -> str:
    """Describe why there is no log."""
    with Sieve.open(str(path), create=False, readonly=True) as sieve:
        if not sieve.store.is_log_on():
            return "the log of this store is switched off: tamis log --on"
    return "nothing has been logged yet: the log begins with the next verdict (tamis sort) or tamis learn"


def _is_selected(event: Event, options: Namespace) -> bool:
    if not (options.spam or options.ham or options.unsure or options.learned):
        return True
    if event.is_learning:
        return bool(options.learned)
    kind = event.label if event.label in ("spam", "unsure") else "ham"
    return bool(getattr(options, kind))


def _find_undone(undo_numbers: Mapping[int, int]) -> dict[int, int]:
    """Return the numbers of the events that are undone now, and of the events that have undone them.

    `undo_numbers` also has events whose undoing was itself undone.
    """
    undone: dict[int, int] = {}
    for number, undo_number in sorted(undo_numbers.items(), key=lambda pair: -pair[1]):
        if undo_number not in undone:
            undone[number] = undo_number
    return undone


def _group_events(events: Iterable[Event], undone: Mapping[int, int], *, each: bool) -> Iterator[list[Event]]:
    """Yield groups of at least _MIN_GROUP consecutive similar events, and each other event alone.

    If `each`, yield every event alone. The events are given and yielded newest first.
    """
    group: list[Event] = []
    for event in events:
        if group and (each or not _are_similar(group[-1], event, undone)):
            yield from _split_small_group(group)
            group = []
        group.append(event)
    yield from _split_small_group(group)


def _are_similar(later: Event, event: Event, undone: Mapping[int, int]) -> bool:
    """Whether two events have done the same with messages of one mailbox."""
    if not event.is_learning or event.source in ("", "stdin"):
        return False
    return (later.action, later.label, later.before, later.source, bool(later.undoes)) == (
        event.action,
        event.label,
        event.before,
        event.source,
        bool(event.undoes),
    ) and (later.number in undone) == (event.number in undone)


def _split_small_group(group: list[Event]) -> list[list[Event]]:
    return [group] if len(group) >= _MIN_GROUP else [[event] for event in group]


def describe_event(event: Event, arrow: str = "->") -> str:
    """Describe what happened in a few words.

    >>> describe_event(Event(0, "verdict", b"", "spam", probability=0.99931))
    'spam 0.9993'
    >>> (
    ...     describe_event(Event(0, "moved", b"", "ham", before="spam")),
    ...     describe_event(Event(0, "learned", b"", "ham")),
    ... )
    ('spam -> ham', 'learned ham')
    """
    label, before = replace_hidden(event.label), replace_hidden(event.before)
    words = {
        LEARNED: f"learned {label}",
        MOVED: f"{before} {arrow} {label}",
        FORGOTTEN: f"forgot {before}",
        GUESSED: f"guessed {label}",
    }
    return words.get(event.action) or f"{label} {event.probability or 0.0:.4f}"


def format_time(seconds: int, now: float | None = None) -> str:
    """Format a time for a list: without the year if it is this year."""
    try:
        then, today = time.localtime(seconds), time.localtime(now)
    except (OverflowError, OSError, ValueError):  # of a damaged log
        return "?"
    return time.strftime("%m-%d %H:%M" if then.tm_year == today.tm_year else "%Y-%m-%d", then)


class _Page:
    """Formats events for the width and the charset of the terminal."""

    def __init__(self, out: TextIO) -> None:
        self._width = terminal_width()
        self._arrow = "→" if can_show(out, "→") else "->"
        self._dots = "…" if can_show(out, "…") else "..."

    def lines(self, events: list[Event], undone: Mapping[int, int]) -> list[str]:
        """Return the lines of one event, or of a group of events."""
        event = events[0]
        number = str(event.number) if len(events) == 1 else f"{events[-1].number}-{event.number}"
        head = f"{number:>6}  {format_time(event.time):<11}  {describe_event(event, self._arrow):<14}"
        text = self._describe_message(events, undone)
        if self._width >= _WIDE:
            return [clip(f"{head}  {text}", self._width, self._dots)]
        return [
            clip(head.strip(), self._width, self._dots),
            *([f"  {clip(text, self._width - 2, self._dots)}"] if text else []),
        ]

    def _describe_message(self, events: list[Event], undone: Mapping[int, int]) -> str:
        event = events[0]
        if len(events) > 1:
            note = " (undone)" if event.number in undone else " (an undo)" if event.undoes else ""
            return f"{len(events):,} messages of {printable(event.source)}{note}"
        notes = []
        if event.number in undone:
            notes.append(f"(undone by {undone[event.number]})")
        if event.undoes:
            notes.append(f"(undoes {event.undoes})")
        if not event.digest:
            notes.append("(forgotten later)")
        if event.sender or event.subject:
            sender = replace_hidden(event.sender)
            notes.append(pad(sender, 24, self._dots) if self._width >= _WIDE else f"{sender}:")
            notes.append(replace_hidden(event.subject))
        return " ".join(notes)


def _as_dict(event: Event, undone: Mapping[int, int]) -> dict[str, object]:
    return {
        "event": event.number,
        "time": event.time,
        "action": event.action,
        "label": event.label or None,
        "before": event.before or None,
        "probability": event.probability,
        "from": event.sender,
        "subject": event.subject,
        "source": event.source,
        "digest": event.digest.hex(),
        "undoes": event.undoes or None,
        "undone_by": undone.get(event.number),
    }
