"""mail → whether it is spam: as an exit status, as text, as JSON, or in the message's own header.

Whatever goes wrong, a message that is passed through comes out as it went in, and the status is 3: a filter
may fail, mail may not be lost. So what could fail, even to load, is loaded after the message was read.
"""

import os
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from tamis_mail.framing import exceeds_limit
from tamis_mail.surfaces.cli import said_of
from tamis_mail.surfaces.cli.parser import Parser, add_quiet, add_store
from tamis_mail.surfaces.cli.streams import Message, abandon
from tamis_mail.surfaces.cli.version import version

if TYPE_CHECKING:
    from tamis_mail.mailbox import Letter
    from tamis_mail.sieve import Sieve
    from tamis_mail.verdict import Verdict

__all__ = ["configure", "run"]

_STATUS = {"spam": 0, "unsure": 2}  # all else is ham: 1
_ERROR = 3


def configure(parser: Parser) -> None:
    """The options of `tamis sort`."""
    parser.status = _ERROR
    parser.description = (
        "Say whether a message (standard input) is spam, or each message of mailboxes (PATH).\n\n"
        "The exit status for a message is 0 spam, 1 ham (or another label that was learned), 2 unsure, 3 "
        "error; with --exit-zero, and for mailboxes, it is 0, or 3 after an error. "
        "Where nothing has been learned yet every message is unsure: status 2, and a hint on stderr.\n\n"
        "With --passthrough the message is written out with the verdict in its header; after any error "
        "it is written out as it came in. Nothing is ever learned from a verdict."
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="mailboxes; a line is printed for each message (-: stdin)"
    )
    parser.add_argument(
        "-p",
        "--passthrough",
        action="store_true",
        help="write the message to standard output with X-Spam fields added",
    )
    parser.add_argument(
        "-e",
        "--exit-zero",
        action="store_true",
        help="exit with 0 whatever the verdict is, with 3 after an error",
    )
    parser.add_argument(
        "--dialect",
        choices=("spamassassin", "bogofilter"),
        default="spamassassin",
        metavar="DIALECT",
        help="whose fields are written: X-Spam-Status and its like (spamassassin, the default) or X-Bogosity",
    )
    parser.add_argument(
        "--undo", action="store_true", help="write the message as it was before --passthrough"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object on a line for each message")
    add_store(parser)
    add_quiet(parser)
    parser.examples = [
        ("tamis sort < message", "prints `spam 0.9993`, exits with 0"),
        ("tamis sort -p -e < message", "for procmail, fdm, maildrop: filter it"),
        ("tamis sort ~/Mail/Inbox | grep ^spam", "what in it is spam?"),
        ("tamis sort --json inbox.mbox.gz", "for programs"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Sort one message, or many."""
    _refuse_contradictions(options)
    if options.paths:
        return _many(out, options)
    try:
        status = _one(out, options, Message())
        out.flush()
    except BrokenPipeError:
        abandon(out)  # nobody reads; status 0 would say spam, or that the message went through
        return _ERROR
    return status


def _refuse_contradictions(options: Namespace) -> None:
    for chosen in ("passthrough", "undo"):
        if getattr(options, chosen):
            beside = {
                "a PATH": options.paths,
                "--json": options.json,
                "--undo": chosen != "undo" and options.undo,
            }
            for other, given in beside.items():
                if given:
                    options.parser.error(
                        f"--{chosen} writes one message from standard input: leave {other} out"
                    )


def _one(out: TextIO, options: Namespace, message: Message) -> int:
    try:
        written, status = _judged(message.read("sort"), options)
    except (Exception, KeyboardInterrupt) as error:
        debugged = bool(os.environ.get("TAMIS_DEBUG"))
        if not debugged:
            error.with_traceback(None)  # its frames hold copies of the message: now memory is needed
        if options.passthrough or options.undo:
            message.write(out)
        if debugged:
            raise
        sys.stderr.write(f"tamis sort: {said_of(error)}\n")
        return _ERROR
    out.buffer.write(written)
    return 0 if options.exit_zero or options.undo else status


def _judged(raw: bytes, options: Namespace) -> tuple[bytes, int]:
    """What to write, and the status."""
    if options.undo:
        undone: bytes = import_module("tamis_mail.surfaces.cli.passthrough").removed(raw)
        return undone, 0
    with _open(options) as sieve:
        return _written(raw, sieve, options)


def _written(raw: bytes, sieve: "Sieve | None", options: Namespace) -> tuple[bytes, int]:
    if exceeds_limit(raw) and not options.quiet:
        said = import_module("tamis_mail.surfaces.cli.sources").too_large("the message")
        sys.stderr.write(f"tamis sort: {said}\n")
    verdict = sieve.sort(raw) if sieve else _ignorant()
    status = _STATUS.get(verdict.label, 1)
    if options.passthrough:
        rules = import_module("tamis_mail.verdict")
        required = (rules.Rule.of(sieve.store) if sieve else rules.RULE).spam
        passthrough = import_module("tamis_mail.surfaces.cli.passthrough")
        return passthrough.added(
            raw, verdict, dialect=options.dialect, required=required, version=version()
        ), status
    return (_line(verdict, _size_note(raw), options) + "\n").encode("utf-8", "backslashreplace"), status


def _many(out: TextIO, options: Namespace) -> int:
    sources = import_module("tamis_mail.surfaces.cli.sources")
    opened = sources.open_sources(options.paths, mbox=True)
    unread = False
    with _open(options) as sieve:
        for source in opened:
            notes: deque[dict[str, object]] = deque()
            with sources.Work("sort", source, quiet=options.quiet, draw=not out.isatty()) as work:
                messages = _noted(work.letters(), notes, sources.path_bytes)
                verdicts = sieve.sort_many(messages) if sieve else (_ignorant() for _ in messages)
                out.writelines(_line(verdict, notes.popleft(), options) + "\n" for verdict in verdicts)
            unread = unread or bool(source.unread)
    return _ERROR if unread else 0


def _noted(
    letters: Iterable["Letter"],
    notes: deque[dict[str, object]],
    path_bytes: Callable[["Letter"], dict[str, str]],
) -> Iterator[bytes]:
    """The messages, of which names and remarks are noted until their verdicts come."""
    for letter in letters:
        notes.append({"name": letter.name, **path_bytes(letter), **_size_note(letter.raw)})
        yield letter.raw


def _size_note(raw: bytes) -> dict[str, object]:
    return {"cut": True} if exceeds_limit(raw) else {}


def _line(verdict: "Verdict", note: dict[str, object], options: Namespace) -> str:
    name = note.get("name")
    if options.json:
        said = dict(note)
        said |= {
            "label": verdict.label,
            "probability": verdict.probability,
            "log_odds": verdict.log_odds,
            "probabilities": dict(verdict.probabilities),
        }
        return str(import_module("json").dumps(said))
    if options.dialect == "bogofilter":
        line: str = import_module("tamis_mail.surfaces.cli.passthrough").bogosity(verdict, version())
        return f"{name} {line}" if name else line
    return (
        f"{verdict.label:<6} {verdict.probability:.4f} {name}"
        if name
        else f"{verdict.label} {verdict.probability:.4f}"
    )


def _open(options: Namespace) -> AbstractContextManager["Sieve | None"]:
    """The sieve; none, and a hint, where there is no store yet."""
    path = options.store or import_module("tamis_mail.settings").default_path()
    if not import_module("tamis_mail.files").is_there(path):
        if not options.quiet:
            named: str = import_module("tamis_mail.mailbox.letter").printable(str(path))
            hint = f"nothing has been learned yet ({named}): begin with tamis learn --help"
            sys.stderr.write(f"tamis sort: {hint}\n")
        return nullcontext()
    opened: Sieve = import_module("tamis_mail.sieve").Sieve.open(path, create=False, readonly=True)
    return opened


def _ignorant() -> "Verdict":
    """What is known of a message before anything was learned."""
    verdict = import_module("tamis_mail.verdict")
    made: Verdict = verdict.Verdict(verdict.Judgement("unsure", 0.5, 0.0, {}), tuple)
    return made
