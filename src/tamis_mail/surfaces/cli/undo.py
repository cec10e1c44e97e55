"""`tamis undo`: undo what an event of the log has learned, exactly."""

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from tamis_mail.mailbox import Source, SourceError, open_source
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.message import canonical, digest
from tamis_mail.settings import default_path
from tamis_mail.sieve import Receipt, Sieve
from tamis_mail.store import has_store
from tamis_mail.store.log import Event
from tamis_mail.surfaces.cli.layout import replace_hidden
from tamis_mail.surfaces.cli.parser import Parser, add_quiet_option, add_store_option
from tamis_mail.surfaces.cli.sources import SourceReader, open_sources
from tamis_mail.surfaces.cli.streams import warn_of_log

_BATCH = 1000  # maximum number of messages in memory
_RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")


def configure(parser: Parser) -> None:
    parser.description = (
        "Undo events of the log (see tamis log --learned): a message that was learned is forgotten, one that "
        "was moved to another label is moved back with its old weight, and one that was forgotten is learned "
        "again with its old label and weight. An undo is an event itself, and can be undone.\n\n"
        "An event is not undone if a later event has changed the same message; an error names the later "
        "event. In a range, verdicts and events that were undone before are left out.\n\n"
        "To undo forgetting, or an event of an old version of tamis, the message itself is needed. It is "
        "searched in the mailbox from which it was learned, or in that of --from."
    )
    parser.add_argument(
        "numbers", nargs="+", metavar="N", help="the number of an event, or a range, such as 12-40"
    )
    parser.add_argument(
        "--from",
        dest="mailboxes",
        action="append",
        metavar="PATH",
        default=[],
        help="mail that has the message (-: standard input); may be given several times",
    )
    add_store_option(parser)
    add_quiet_option(parser)
    parser.examples = [
        ("tamis undo 12", "as if event 12 had not happened"),
        ("tamis undo 120-931", "all that a wrong command has learned"),
        ("tamis undo 12 --from ~/Mail/Archive", "the message was moved there"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Undo the events, and print what happened to their messages."""
    ranges = [_parse_range(word, options) for word in options.numbers]
    path = options.store or default_path()
    if not has_store(path):
        raise ValueError(f"there is no store at {path}, and so nothing to undo: see tamis learn --help")
    mailboxes = open_sources(options.mailboxes, allow_mbox=True) if options.mailboxes else []
    with Sieve.open(path, create=False) as sieve:
        events = sieve.plan_undo(ranges)  # the events that can be undone, newest first
        undone = _undo(sieve, events, mailboxes, options)
        fault = sieve.log_fault  # why the log could not be written, or None
    if not options.quiet:
        warn_of_log("undo", fault)
        out.writelines(line + "\n" for line in _describe_undone(events, undone))
    return 0


def _parse_range(word: str, options: Namespace) -> tuple[int, int]:
    parser: Parser = options.parser
    numbers = _RANGE.fullmatch(word)
    if numbers is None:
        parser.error(
            f"got {word!r:.60}, expected the number of an event or a range, such as 12 or 12-40 (tamis log)"
        )
    first = int(numbers[1])
    last = int(numbers[2]) if numbers[2] else first
    if first > last:
        parser.error(f"got the range {word}, expected the smaller number first: {last}-{first}")
    return first, last


def _undo(
    sieve: Sieve, events: Sequence[Event], mailboxes: Sequence[Source], options: Namespace
) -> list[tuple[Receipt, int]]:
    """Undo events, in batches if there are many."""
    batches = [events[start : start + _BATCH] for start in range(0, len(events), _BATCH)]
    if len(batches) > 1:
        needed = [event for event in events if sieve.needs_message(event)]
        for _ in _find_messages(needed, mailboxes, options):
            pass  # a message that is missing raises an error before any event is undone
    undone: list[tuple[Receipt, int]] = []
    for batch in batches:
        try:
            # The message is needed if its features are not stored.
            needed = [event for event in batch if sieve.needs_message(event)]
            undone += sieve.undo(batch, dict(_find_messages(needed, mailboxes, options)))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; undone so far: {len(undone):,}; run again to go on"
            ) from None
    return undone


def _find_messages(
    events: Sequence[Event], mailboxes: Sequence[Source], options: Namespace
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the digests and the messages of events; raise SourceError if one is not found."""
    missing = {event.digest for event in events}
    for source in mailboxes or _open_sources_of(events):
        if not missing:
            return
        with SourceReader("undo", source, quiet=options.quiet, prints_remarks=False) as reader:
            for raw in reader.contents():
                message_digest = digest(canonical(raw))
                if message_digest in missing:
                    missing.remove(message_digest)
                    yield message_digest, raw
                    if not missing:
                        return
    if missing:
        event = next(event for event in events if event.digest in missing)
        raise SourceError(_describe_missing(event, len(missing), bool(mailboxes)))


def _open_sources_of(events: Iterable[Event]) -> list[Source]:
    """Open the mailboxes that the messages came from, if they are still there."""
    sources = []
    # `old_source` is the source from which the message was learned before the event.
    paths = [path for event in events for path in (event.source, event.old_source)]
    for path in dict.fromkeys(path for path in paths if path not in ("", "stdin")):
        try:
            sources.append(open_source(path, subfolders=True))
        except SourceError:
            continue
    return sources


def _describe_missing(event: Event, number: int, has_mailboxes: bool) -> str:
    others = f" (and those of {number - 1} other events)" if number > 1 else ""
    origin = event.source or event.old_source
    if has_mailboxes:
        where = "is not in the mail that was named"
    elif origin in ("", "stdin"):
        where = "came from standard input, and is not kept"
    else:
        where = f"is no longer in {printable(origin)}"
    return (
        f"to undo event {event.number}, its message is needed, which {where}{others}: name the mail that has "
        f"it, as in tamis undo {event.number} --from PATH"
    )


def _describe_undone(events: Sequence[Event], undone: Sequence[tuple[Receipt, int]]) -> list[str]:
    if len(events) > 3:
        actions = Counter(receipt.action for receipt, _ in undone)
        words = {"forgotten": "forgotten", "moved": "moved back", "learned": "learned again"}
        parts = ", ".join(f"{actions[action]:,} {text}" for action, text in words.items() if actions[action])
        return [
            f"{len(events):,} events are undone: {parts}{_describe_numbers([number for _, number in undone])}"
        ]
    lines = []
    for event, (receipt, number) in zip(events, undone, strict=True):
        label, before = replace_hidden(receipt.label or ""), replace_hidden(receipt.before or "")
        outcome = {
            "forgotten": f"the message, which was {before}, is forgotten",
            "moved": f"the message is {label} again, and no longer {before}",
            "learned": f"the message is learned as {label} again",
        }[receipt.action]
        lines.append(f"event {event.number} is undone: {outcome}{_describe_numbers([number])}")
    return lines


def _describe_numbers(numbers: Sequence[int]) -> str:
    """Name the events that record the undoing; "" if one of them was not logged."""
    if not all(numbers):
        return ""
    first, last = min(numbers), max(numbers)
    return f" (event {first})" if first == last else f" (events {first}-{last})"
