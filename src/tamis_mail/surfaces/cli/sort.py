"""`tamis sort`: the verdict as exit status, as text, as JSON, or in the header of the message.

After any error, a message that is passed through is written unchanged, and the status is 3: a filter may
fail, but mail must not be lost. So modules that could fail to load are imported after the message was read.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module

from tamis_mail.framing import exceeds_limit
from tamis_mail.surfaces.cli import describe_error
from tamis_mail.surfaces.cli.streams import ERROR_STATUS, Message, discard, warn_of_log

TYPE_CHECKING = False  # importing `typing` and `argparse` would take 10 ms per message
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import TextIO

    from tamis_mail.mailbox import RawMessage
    from tamis_mail.sieve import Sieve
    from tamis_mail.surfaces.cli.parser import Parser
    from tamis_mail.verdict import Verdict

_STATUS = {"spam": 0, "unsure": 2}  # the exit status is 1 for all other labels, which are ham
_JOINED_LINES = 250  # lines that are written in one call


def configure(parser: Parser) -> None:
    parser.usage_error_status = ERROR_STATUS
    parser.description = (
        "Classify a message from standard input, or each message of mailboxes (PATH).\n\n"
        "The exit status for a message is 0 spam, 1 ham (or another label that was learned), 2 unsure, 3 "
        "error; with --exit-zero, and for mailboxes, it is 0, or 3 after an error. "
        "Before anything was learned, every message is unsure: status 2, and a hint on stderr.\n\n"
        "With --passthrough, the message is written with the verdict in its header; after any error "
        "it is written unchanged. A verdict never changes the store; it is written to a log beside it "
        "(tamis log), with the sender and the subject.\n\n"
        "With --move, messages of a Maildir that are spam are moved to another Maildir, and those that are "
        "unsure to that of --unsure. Names, flags and whether they were read stay the same; all other "
        "messages, and the subfolders of the Maildir, are left alone. A folder that does not exist is "
        "created; .Junk, without a slash, is the subfolder of the Maildir. Moving can be interrupted at any "
        "time, and run again."
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="mailboxes; one line is printed per message (-: stdin)")
    add(
        "-p",
        "--passthrough",
        action="store_true",
        help="write the message to standard output with the verdict in its header (see --dialect)",
    )
    add("-e", "--exit-zero", action="store_true", help="exit with 0 for any verdict, with 3 after an error")
    add(
        "--dialect",
        choices=("spamassassin", "bogofilter"),
        default="spamassassin",
        metavar="DIALECT",
        help="header fields of --passthrough: X-Spam-Status and others (spamassassin, the default) or "
        "X-Bogosity (bogofilter)",
    )
    add("--undo", action="store_true", help="remove the fields of --passthrough")
    add("--json", action="store_true", help="print one JSON object per message, each on its own line")
    add("--move", metavar="PATH", help="move spam from the Maildirs to this Maildir; print what was moved")
    add("--unsure", metavar="PATH", help="with --move: move unsure messages to this Maildir")
    add("--dry-run", action="store_true", help="with --move: print what would be moved, and move nothing")
    parsers = import_module("tamis_mail.surfaces.cli.parser")
    parsers.add_log_option(parser)
    parsers.add_store_option(parser)
    parsers.add_quiet_option(parser)
    parser.examples = [
        ("tamis sort < message", "prints `spam 0.9993`, exits with 0"),
        ("tamis sort -p -e < message", "for procmail, fdm, maildrop: filter it"),
        ("tamis sort ~/Mail/Inbox | grep ^spam", "which messages are spam?"),
        ("tamis sort --json inbox.mbox.gz", "for programs"),
        ("tamis sort --move .Junk --dry-run ~/Maildir", "what would be moved?"),
        ("tamis sort --move ~/Mail/Junk --unsure ~/Mail/Unsure ~/Mail/Inbox", "move it"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Sort one message, or many."""
    _refuse_contradictions(options)
    if options.move:
        return _sort_and_move(out, options)
    if options.paths:
        return _sort_mailboxes(out, options)
    try:
        status = _sort_message(out, options, Message())
        out.flush()
    except BrokenPipeError:
        discard(out)  # there is no reader; status 0 would mean spam, or that the message was passed on
        return ERROR_STATUS
    return status


def _refuse_contradictions(options: Namespace) -> None:
    """Exit with a usage error if options contradict each other, or lack another one that they need."""
    for option in ("passthrough", "undo"):
        if getattr(options, option):
            conflicts = {
                "a PATH": options.paths,
                "--json": options.json,
                "--move": options.move,
                "--undo": option != "undo" and options.undo,
            }
            for conflict, is_given in conflicts.items():
                if is_given:
                    options.parser.error(
                        f"--{option} writes one message from standard input: leave {conflict} out"
                    )

    for option in ("unsure", "dry_run"):
        if getattr(options, option) and not options.move:
            options.parser.error(f"--{option.replace('_', '-')} was given without --move PATH: add it")
    if options.move is not None and not (options.move and options.paths and "-" not in options.paths):
        options.parser.error(
            "--move needs a Maildir to move to and one to sort: tamis sort --move PATH MAILDIR"
        )


def _sort_message(out: TextIO, options: Namespace, message: Message) -> int:
    """Sort the message on standard input; after an error, write it unchanged if it is passed through."""
    try:
        output, status = _make_output(message.read("sort"), options)
    except (Exception, KeyboardInterrupt) as error:
        is_debugging = bool(os.environ.get("TAMIS_DEBUG"))
        if not is_debugging:
            error.with_traceback(None)  # its frames hold copies of the message, and memory is needed now
        if options.passthrough or options.undo:
            message.write(out)
        if is_debugging:
            raise
        sys.stderr.write(f"tamis sort: {describe_error(error)}\n")
        return ERROR_STATUS
    out.buffer.write(output)
    return 0 if options.exit_zero or options.undo else status


def _make_output(raw: bytes, options: Namespace) -> tuple[bytes, int]:
    """Return the output and the exit status."""
    if options.undo:
        original: bytes = import_module("tamis_mail.verdict.header_fields").remove_verdict(raw)
        return original, 0
    with _open_sieve(options) as sieve:
        return _judge(raw, sieve, options)


def _judge(raw: bytes, sieve: Sieve | None, options: Namespace) -> tuple[bytes, int]:
    if exceeds_limit(raw) and not options.quiet:
        warning = import_module("tamis_mail.surfaces.cli.sources").describe_oversize("the message")
        sys.stderr.write(f"tamis sort: {warning}\n")
    verdict = sieve.sort(raw) if sieve else _make_unsure_verdict()
    output = _format_output(raw, verdict, sieve, options)
    if sieve:
        sieve.log_verdict(raw, verdict, source="stdin")
        _write_log(sieve, options)
    return output, _STATUS.get(verdict.label, 1)


def _write_log(sieve: Sieve, options: Namespace) -> None:
    sieve.flush_log()
    warn_of_log("sort", None if options.quiet else sieve.log_fault)


def _format_output(raw: bytes, verdict: Verdict, sieve: Sieve | None, options: Namespace) -> bytes:
    if options.passthrough:
        rules = import_module("tamis_mail.verdict")
        rule = rules.Rule.of(sieve.store) if sieve else rules.RULE
        header_fields = import_module("tamis_mail.verdict.header_fields")
        # `rule.spam` is the probability from which on mail is spam.
        output: bytes = header_fields.add_verdict(
            raw, verdict, dialect=options.dialect, required=rule.spam, version=_find_version()
        )
        return output
    return (_format_line(verdict, _make_size_note(raw), options) + "\n").encode("utf-8", "backslashreplace")


def _sort_mailboxes(out: TextIO, options: Namespace) -> int:
    sources = import_module("tamis_mail.surfaces.cli.sources")
    all_sources = sources.open_sources(options.paths, allow_mbox=True)
    sources.prepare_bulk_work()  # sets memory, garbage collector and threads of this process for speed
    has_unread = False  # whether some mail could not be read
    with _open_sieve(options) as sieve:
        for source in all_sources:
            # What is needed of each message once its verdict comes: its JSON fields, and itself.
            notes: deque[tuple[dict[str, object], RawMessage]] = deque()
            with sources.SourceReader(
                "sort", source, quiet=options.quiet, shows_progress=not out.isatty()
            ) as reader:
                messages = _read_and_note(reader.messages(), notes, sources.path_bytes)
                verdicts = sieve.sort_many(messages) if sieve else (_make_unsure_verdict() for _ in messages)
                with _join_lines(out) as write_line:
                    for verdict in verdicts:
                        note, message = notes.popleft()
                        if sieve:
                            sieve.log_verdict(message.raw, verdict, source=_name_source(message))
                        write_line(_format_line(verdict, note, options))
            has_unread = has_unread or bool(source.unread)
        if sieve:
            _write_log(sieve, options)
    return ERROR_STATUS if has_unread else 0


@contextmanager
def _join_lines(out: TextIO) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes lines, many at a time, because the stream may have no buffer."""
    lines: list[str] = []
    max_lines = 1 if out.isatty() else _JOINED_LINES

    def write() -> None:
        text = "".join(lines)
        lines.clear()
        out.write(text)

    def write_line(line: str) -> None:
        lines.append(f"{line}\n")
        if len(lines) >= max_lines:
            write()

    try:
        yield write_line
    finally:
        write()


def _sort_and_move(out: TextIO, options: Namespace) -> int:
    sources = import_module("tamis_mail.surfaces.cli.sources")
    moves = import_module("tamis_mail.surfaces.cli.moves")
    all_moves = moves.open_moves(options)
    with _open_sieve(options, prints_hint=False) as opened:
        sieve = moves.refuse_unless_learned(opened, _store_path(options))
        for move in all_moves:
            notes: deque[tuple[dict[str, object], RawMessage]] = deque()
            with sources.SourceReader(
                "sort", move.source, quiet=options.quiet, shows_progress=not out.isatty()
            ) as reader:
                messages = _read_and_note(reader.messages(), notes, sources.path_bytes)
                try:
                    for verdict in sieve.sort_many(messages):
                        note, message = notes.popleft()
                        moved_to = move.move(verdict.label, message.path, str(note["name"]))
                        if not options.dry_run:
                            new_path = os.path.abspath(moved_to) if moved_to else _name_source(message)  # noqa: PTH100
                            sieve.log_verdict(message.raw, verdict, source=new_path)
                        if options.json:
                            move.write(
                                out, _format_line(verdict, note | move.describe_move(moved_to), options)
                            )
                        elif moved_to and not options.quiet:
                            move.write(out, _format_line(verdict, note, options))
                except KeyboardInterrupt:
                    n_moved = sum(one.n_moved for one in all_moves)
                    raise KeyboardInterrupt(
                        f"interrupted; moved so far: {n_moved:,}; run again to go on"
                    ) from None
            if not options.quiet:
                move.remark_on_subfolders()
                if not options.json:
                    move.write(out, move.format_summary())
        _write_log(sieve, options)
    return ERROR_STATUS if any(move.source.unread for move in all_moves) else 0


def _read_and_note(
    messages: Iterable[RawMessage],
    notes: deque[tuple[dict[str, object], RawMessage]],
    path_bytes: Callable[[RawMessage], dict[str, str]],
) -> Iterator[bytes]:
    """Yield the messages; append the JSON fields of each, and the message, to `notes` for its verdict."""
    for message in messages:
        note = {"name": message.name, **path_bytes(message), **_make_size_note(message.raw)}
        notes.append((note, message))
        yield message.raw


def _name_source(message: RawMessage) -> str:
    """Return the path of a message for the log; in an mbox, with # and the number of the message."""
    if not message.path:
        return "stdin"
    path, file_name = _locate_file(message.path)
    return path if message.name.endswith(file_name) else f"{path}#{message.name.rpartition('#')[2]}"


@lru_cache(maxsize=1)  # called once per message of an mbox
def _locate_file(name: str) -> tuple[str, str]:
    """Return the full path of a file, and its printable name in its folder."""
    path = os.path.abspath(name)  # noqa: PTH100 (pathlib takes 8 ms)
    file_name = os.path.basename(path)  # noqa: PTH119
    if not file_name.isprintable():
        file_name = import_module("tamis_mail.mailbox.raw_message").printable(file_name)
    return path, file_name


def _make_size_note(raw: bytes) -> dict[str, object]:
    """Return the JSON field of a message that is larger than the limit; no field for others."""
    return {"cut": True} if exceeds_limit(raw) else {}


def _format_line(verdict: Verdict, note: dict[str, object], options: Namespace) -> str:
    """Format a verdict as a line; `note` has the JSON fields of its message."""
    name = note.get("name")
    if options.json:
        fields = dict(note)
        fields |= {
            "label": verdict.label,
            "probability": verdict.probability,
            "log_odds": verdict.log_odds,
            "probabilities": dict(verdict.probabilities),
        }
        if verdict.listed:
            fields["listed"] = verdict.listed
        return str(import_module("json").dumps(fields))
    if options.dialect == "bogofilter":
        line: str = import_module("tamis_mail.verdict.header_fields").bogosity(verdict, _find_version())
        return f"{name} {line}" if name else line
    # A tab separates the reason, because a name may contain spaces and never a tab.
    reason = f"\t({verdict.listed})" if verdict.listed else ""
    return (
        f"{verdict.label:<6} {verdict.probability:.4f} {name}{reason}"
        if name
        else f"{verdict.label} {verdict.probability:.4f}{reason}"
    )


def _open_sieve(options: Namespace, *, prints_hint: bool = True) -> AbstractContextManager[Sieve | None]:
    """Open the sieve; without a store, print a hint, and return a context with None."""
    path = _store_path(options)
    if not import_module("tamis_mail.store").has_store(path):
        if prints_hint and not options.quiet:
            store_name: str = import_module("tamis_mail.mailbox.raw_message").printable(str(path))
            hint = f"nothing has been learned yet ({store_name}): start with tamis learn --help"
            sys.stderr.write(f"tamis sort: {hint}\n")
        return nullcontext()
    sieve: Sieve = import_module("tamis_mail.sieve").Sieve.open(
        path, create=False, readonly=True, log=not options.no_log
    )
    return sieve


def _store_path(options: Namespace) -> str | os.PathLike[str]:
    path: str | os.PathLike[str] = options.store or import_module("tamis_mail.settings").default_path_name()
    return path


def _make_unsure_verdict() -> Verdict:
    """Return the verdict before anything was learned."""
    verdict = import_module("tamis_mail.verdict")
    list_evidence = tuple  # returns an empty tuple
    # The probability of spam is 0.5, the log-odds are 0, and no label has a probability.
    unsure: Verdict = verdict.Verdict(verdict.Judgement("unsure", 0.5, 0.0, {}), list_evidence)
    return unsure


def _find_version() -> str:
    version: str = import_module("tamis_mail.surfaces.cli.version").version()
    return version
