"""`tamis digest`: the messages that were called spam or unsure, as text or as mail.

The digest that is written is this list. The `digest` of an event is that of its message, 16 bytes. An event
with `is_learning` is no verdict, but one by which a message was learned, moved, guessed or forgotten.
"""

# ruff: noqa: PTH100, PTH113, PTH118, PTH208 (the log has paths as text)

import os
import re
import shlex
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime, localtime, make_msgid
from textwrap import wrap
from typing import TextIO

from tamis_mail.settings import default_path
from tamis_mail.store.log import Event
from tamis_mail.surfaces.cli.layout import clip, replace_hidden
from tamis_mail.surfaces.cli.log import describe_absence, find_log, format_time
from tamis_mail.surfaces.cli.parser import Parser, add_store_option
from tamis_mail.surfaces.cli.past import PAST_HELP, parse_past
from tamis_mail.surfaces.cli.streams import text_width

_MAIL_COLUMNS = 76  # maximum columns of a line of the mail; only commands with paths may be longer
_ADDRESS = re.compile(
    r"(?!-)[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}(?:@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?)?"
)


def configure(parser: Parser) -> None:
    parser.description = (
        "List the messages that were called spam or unsure since yesterday, the most doubtful first, and how "
        "to correct each verdict. Messages that were learned after their verdict are only counted.\n\n"
        "With --mail, the list is written as a mail to ADDRESS, which a program such as sendmail can send."
    )
    parser.add_argument(
        "--since",
        type=parse_past,
        metavar="TIME",
        default="yesterday",
        help=f"time of the first verdict that is listed (default: yesterday): {PAST_HELP}",
    )
    parser.add_argument("--mail", metavar="ADDRESS", help="write a mail to this address")
    add_store_option(parser)
    parser.examples = [
        ("tamis digest", "what was called spam since yesterday?"),
        ("tamis digest --since 1w", "in the last seven days?"),
        ("tamis digest --since 1d --mail me@home.example | sendmail -t", "each morning, from cron"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    since = options.since
    if options.mail is not None and not _ADDRESS.fullmatch(options.mail):
        options.parser.error(
            f"got {options.mail!r:.60} as the address, expected one plain address, such as me@home.example"
        )
    path = options.store or default_path()
    log = find_log(path)
    width = _MAIL_COLUMNS if options.mail else text_width()
    has_log = log.exists()
    summary = _summarise(list(log.events(since)) if has_log else [])
    lines = _format_digest(summary, since, width) if has_log else wrap(describe_absence(path), width)
    if options.mail:
        out.flush()
        out.buffer.write(_make_mail(options.mail, _make_title(summary, since), lines))
    else:
        out.writelines(line.rstrip() + "\n" for line in lines)
    return 0


@dataclass(frozen=True)
class _Summary:
    """The newest verdict on each message."""

    unsure: list[Event]  # most doubtful first
    spam: list[Event]  # most doubtful first
    n_learned: int  # spam and unsure messages that were learned or forgotten later
    n_judged: int  # messages that were judged


def _summarise(events: Sequence[Event]) -> _Summary:
    """Group events, given newest first, by the newest verdict on each message."""
    newest: dict[bytes, Event] = {}
    learned: set[bytes] = set()
    n_learned = 0
    for event in events:
        if not event.digest:  # it was erased, because the message was forgotten
            continue
        if event.is_learning:
            if event.digest not in newest:
                learned.add(event.digest)
        elif event.digest not in newest:
            newest[event.digest] = event
            n_learned += event.digest in learned and event.label in ("spam", "unsure")
    rest = sorted((event for event in newest.values() if event.digest not in learned), key=_rank_by_doubt)
    unsure, spam = ([event for event in rest if event.label == label] for label in ("unsure", "spam"))
    return _Summary(unsure, spam, n_learned, len(newest))


def _rank_by_doubt(event: Event) -> tuple[float, int]:
    return abs((event.probability or 0.0) - 0.5), -event.number


def _make_title(summary: _Summary, since: int) -> str:
    counts = f"{len(summary.spam):,} spam, {len(summary.unsure):,} unsure"
    return f"tamis: {counts} since {_format_start(since)}"


def _format_start(since: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(since))


def _format_digest(summary: _Summary, since: int, width: int) -> list[str]:
    subject = f"{summary.n_judged:,} message{' was' if summary.n_judged == 1 else 's were'}"
    judged = f"{subject} judged since {_format_start(since)}"
    if not summary.spam and not summary.unsure:
        lines = wrap(f"There is nothing to check: {judged}, and none was called spam or unsure.", width)
        return lines + _describe_learned(summary, width)
    counts = f"{len(summary.spam):,} called spam, {len(summary.unsure):,} unsure"
    lines = wrap(f"{judged}: {counts}.", width)
    groups = (("Unsure", summary.unsure, ("ham", "spam")), ("Spam", summary.spam, ("ham",)))
    for title, events, labels in groups:
        if events:
            lines += ["", f"{title} ({len(events):,}), most doubtful first"]
            for event in events:
                lines += ["", *_describe_event(event, labels, width)]
    lines += [
        "",
        *wrap(
            "To correct a verdict, learn the message under its right label. Where no "
            "path is named, pipe the message from your mail program, or name the file that has it: "
            "tamis relabel ham < message (wanted), tamis relabel spam < message (spam).",
            width,
        ),
    ]
    return lines + _describe_learned(summary, width)


def _describe_event(event: Event, labels: Sequence[str], width: int) -> list[str]:
    """Describe a verdict; name the commands that learn its message under each of the labels."""
    head = f"{event.number:>6}  {format_time(event.time)}  {event.probability or 0.0:.4f}  "
    indent = " " * 8
    lines = [
        head + clip(replace_hidden(event.sender) or "(no sender)", max(8, width - len(head))),
        indent + clip(replace_hidden(event.subject) or "(no subject)", width - len(indent)),
    ]
    path = _find_file(event.source)
    if path and path.isprintable():
        # Commands are not truncated, because they would then be other commands.
        lines += [f"{indent}tamis relabel {label} {shlex.quote(path)}" for label in labels]
    elif "#" in event.source and path is None:  # an mbox, and the number of the message in it
        lines.append(indent + clip(f"in {replace_hidden(event.source)}", width - len(indent)))
    return lines


def _find_file(source: str) -> str | None:
    """Return the path of a message that is a file of its own, or None; `source` is that of its event.

    A mail program that opens a message of a Maildir moves it from `new` to `cur`, and adds `:2,` and flags to
    its name.
    """
    if os.path.isfile(source):
        return os.path.abspath(source)
    folder, name = os.path.split(source)
    root, kind = os.path.split(folder)
    unique_name = name.partition(":")[0]
    if kind not in ("new", "cur") or not unique_name:
        return None
    for path in (os.path.join(root, "new", unique_name), os.path.join(root, "cur", unique_name)):
        if os.path.isfile(path):
            return path
    try:
        names = os.listdir(os.path.join(root, "cur"))
    except OSError:
        return None
    return next(
        (os.path.join(root, "cur", file) for file in names if file.startswith(f"{unique_name}:2,")), None
    )


def _describe_learned(summary: _Summary, width: int) -> list[str]:
    if not summary.n_learned:
        return []
    n_learned = summary.n_learned
    text = (
        f"{n_learned:,} more {'was' if n_learned == 1 else 'were'} called spam or unsure, and learned later."
    )
    return ["", *wrap(text, width)]


def _make_mail(address: str, title: str, lines: Sequence[str]) -> bytes:
    """Return the digest as a message of RFC 5322; only the body has words of other senders."""
    message = EmailMessage()
    message["From"] = message["To"] = address
    message["Subject"] = title
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = make_msgid("tamis", domain=address.partition("@")[2] or "localhost")
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(line.rstrip() for line in lines) + "\n", cte="quoted-printable")
    return message.as_bytes()
