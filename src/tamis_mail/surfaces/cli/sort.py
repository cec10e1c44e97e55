"""mail → whether it is spam: as an exit status, as text, as JSON, or in the message's own header.

Whatever goes wrong, a message that is passed through comes out as it went in, and the status is 3: a filter may fail, mail may not be lost.
"""

import os
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from typing import TextIO

from tamis_mail.settings import default_path
from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.cli import said_of
from tamis_mail.surfaces.cli.parser import Parser, add_quiet, add_store
from tamis_mail.surfaces.cli.streams import abandon, read_stdin
from tamis_mail.surfaces.cli.version import version
from tamis_mail.verdict import RULE, Judgement, Rule, Verdict

__all__ = ["configure", "run"]

_STATUS = {"spam": 0, "unsure": 2}  # all else is ham: 1
_ERROR = 3


def configure(parser: Parser) -> None:
    """The options of `tamis sort`."""
    parser.status = _ERROR
    parser.description = (
        "Say whether a message (standard input) is spam, or each message of mailboxes (PATH).\n\n"
        "The exit status for a message is 0 spam, 1 ham (or another label that was learned), 2 unsure,\n"
        "3 error; with --exit-zero, and for mailboxes, it is 0, or 3 after an error.\n"
        "Where nothing has been learned yet every message is unsure: status 2, and a hint on stderr.\n"
        "With --passthrough the message is written out with the verdict in its header; after any error\n"
        "it is written out as it came in. Nothing is ever learned from a verdict."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="mailboxes; a line is printed for each message (-: stdin)")
    parser.add_argument(
        "-p", "--passthrough", action="store_true", help="write the message to standard output with X-Spam fields added"
    )
    parser.add_argument(
        "-e", "--exit-zero", action="store_true", help="exit with 0 whatever the verdict is, with 3 after an error"
    )
    parser.add_argument(
        "--dialect",
        choices=("spamassassin", "bogofilter"),
        default="spamassassin",
        help="whose fields --passthrough writes: X-Spam-Status and its like (spamassassin, the default) or X-Bogosity",
    )
    parser.add_argument("--undo", action="store_true", help="write the message as it was before --passthrough")
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
    refused = (options.passthrough or options.undo) and (
        "paths" if options.paths else "--json" if options.json else "--undo" if options.passthrough and options.undo else ""
    )
    if refused:
        chosen = "--passthrough" if options.passthrough else "--undo"
        sys.stderr.write(f"tamis sort: {chosen} writes one message from standard input and goes with no {refused}: leave one out\n")
        return _ERROR
    if options.paths:
        return _many(out, options)
    raw = read_stdin("sort")
    try:
        status = _one(out, options, raw)
        out.flush()
    except BrokenPipeError:
        abandon(out)  # nobody reads; status 0 would say spam, or that the message went through
        return _ERROR
    return status


def _one(out: TextIO, options: Namespace, raw: bytes) -> int:
    try:
        written, status = _judged(raw, options)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (mail must not be lost to any of them)
        if os.environ.get("TAMIS_DEBUG"):
            raise
        sys.stderr.write(f"tamis sort: {said_of(error) or 'interrupted'}\n")
        if options.passthrough or options.undo:
            out.buffer.write(raw)
        return _ERROR
    out.buffer.write(written)
    return 0 if options.exit_zero or options.undo else status


def _judged(raw: bytes, options: Namespace) -> tuple[bytes, int]:
    """What to write, and the status."""
    if options.undo:
        undone: bytes = import_module("tamis_mail.surfaces.cli.passthrough").removed(raw)
        return undone, 0
    sieve = _open(options)
    verdict = sieve.sort(raw) if sieve else _ignorant()
    status = _STATUS.get(verdict.label, 1)
    if options.passthrough:
        required = Rule.of(sieve.store).spam if sieve else RULE.spam
        passthrough = import_module("tamis_mail.surfaces.cli.passthrough")
        return passthrough.added(raw, verdict, dialect=options.dialect, required=required, version=version()), status
    return (_line(verdict, "", options) + "\n").encode("utf-8", "backslashreplace"), status


def _many(out: TextIO, options: Namespace) -> int:
    sources = import_module("tamis_mail.surfaces.cli.sources")
    opened = sources.open_sources(options.paths, mbox=True)
    sieve = _open(options)
    unread = False
    for source in opened:
        names: deque[str] = deque()
        with sources.Work("sort", source, quiet=options.quiet or out.isatty()) as work:

            def messages(names: deque[str] = names, work: object = work) -> Iterator[bytes]:
                for letter in work.letters():  # type: ignore[attr-defined]
                    names.append(letter.name)
                    yield letter.raw

            verdicts = sieve.sort_many(messages()) if sieve else (_ignorant() for _ in messages())
            for verdict in verdicts:
                out.write(_line(verdict, names.popleft(), options) + "\n")
        unread = unread or bool(source.unread)
    return _ERROR if unread else 0


def _line(verdict: Verdict, name: str, options: Namespace) -> str:
    if options.json:
        said: dict[str, object] = {"name": name} if name else {}
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
    return f"{verdict.label:<6} {verdict.probability:.4f} {name}" if name else f"{verdict.label} {verdict.probability:.4f}"


def _open(options: Namespace) -> Sieve | None:
    """The sieve; none, and a hint, where there is no store yet."""
    path = options.store or default_path()
    if not os.path.lexists(path):
        if not options.quiet:
            sys.stderr.write(f"tamis sort: nothing has been learned yet ({path}): begin with tamis learn --help\n")
        return None
    return Sieve.open(path, create=False, readonly=True)


def _ignorant() -> Verdict:
    """What is known of a message before anything was learned."""
    return Verdict(Judgement("unsure", 0.5, 0.0, {}), tuple)
