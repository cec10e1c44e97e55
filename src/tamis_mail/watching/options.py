"""The options that `tamis watch imap` and `tamis watch maildir` share."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from tamis.progress import Line
from tamis_mail.serving.daemon import add_log_options, add_number
from tamis_mail.serving.logs import Log
from tamis_mail.serving.metrics import Metrics, PrometheusMetrics
from tamis_mail.settings import default_path
from tamis_mail.watching.classifier import StoreClassifier
from tamis_mail.watching.mailbox import Mailbox
from tamis_mail.watching.memory import Memory
from tamis_mail.watching.watcher import Settings, Stop, Watcher


def add_options(parser: ArgumentParser) -> None:
    """Add the options of a watcher."""
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be moved and learned, change nothing, and exit; this is the default for an "
        "account that was never watched",
    )
    mode.add_argument(
        "--move", action="store_true", help="move and learn mail in an account that was never watched, too"
    )
    parser.add_argument("--once", action="store_true", help="make one pass over the mailbox, and exit")
    parser.add_argument("--junk", metavar="FOLDER", help="the folder of spam (default: detected)")
    parser.add_argument(
        "--unsure",
        metavar="FOLDER",
        help="a folder for mail that may be spam (default: such mail stays in the inbox)",
    )
    parser.add_argument(
        "--only-moves",
        action="store_true",
        help="learn no message that is in Junk when it is first seen: for servers that fill Junk themselves",
    )
    parser.add_argument("--no-learn", action="store_true", help="learn nothing from what you do")
    parser.add_argument("--no-sort", action="store_true", help="learn only, and leave new mail where it is")
    parser.add_argument(
        "--sort-read",
        action="store_true",
        help="in the first pass, sort all messages of the inbox, not only unread ones",
    )
    parser.add_argument("--keywords", action="store_true", help="mark sorted mail with $Junk and $NotJunk")
    add_number(parser, "--interval", "SECONDS", 60, "maximum time between two passes over the mailbox")
    add_log_options(parser)


def run(out: TextIO, options: Namespace, mailbox: Mailbox, *, account: str, source: str, command: str) -> int:
    """Watch an account until a signal ends it, or for one pass, and return the exit status.

    The status is 3 if a fault has stopped some of the last pass, unless a signal ended it, else 0. `account`
    is the name of the account in the memory, `source` is the source of its messages in the log, and `command`
    is the command that watches it, without the options of `add_options`.
    """
    store = Path(options.store).expanduser() if options.store else default_path()
    is_dry_run = options.dry_run or not (options.move or _is_known(store, account))
    memory = Memory(Memory.path_of(store), account, is_copy=is_dry_run)
    classifier = StoreClassifier(store, source=source, logs_verdicts=not is_dry_run)
    # With --metrics ADDRESS, the numbers are served there; `Metrics` itself counts nothing.
    metrics = PrometheusMetrics(options.metrics, store) if options.metrics else Metrics()
    log = Log(sys.stderr, options.log_format)
    stop = Stop()
    try:
        if memory.renewal_reason:  # an earlier file could not be used, and a new one was made
            log.write("memory-renewed", reason=memory.renewal_reason)
        settings = Settings(
            sorts=not options.no_sort,
            learns=not options.no_learn,
            adds_keywords=options.keywords,
            only_moves=options.only_moves,
            sorts_read=options.sort_read,
            is_dry_run=is_dry_run,
            seconds=float(options.interval),
        )
        watcher = Watcher(
            mailbox,
            memory,
            classifier,
            log,
            settings,
            metrics=metrics,
            out=out if is_dry_run else None,
            progress=Line(sys.stderr),
            stop=stop,
        )
        if not is_dry_run:
            log.write("started")
        with stop.watching_signals():
            is_complete = watcher.run(once=options.once or is_dry_run)
        if not is_dry_run:
            log.write("stopped")
        if is_dry_run or options.once:
            _write_summary(out.write, watcher, is_dry_run=is_dry_run)
        if is_dry_run and not options.dry_run:
            out.write(f"This account is new. To begin: {command} --move\n")
        return 0 if is_complete or stop.is_requested else 3
    finally:
        classifier.close()
        memory.close()
        metrics.close()


def _is_known(store: Path, account: str) -> bool:
    """Whether a first pass over an account has ended before."""
    memory = Memory(Memory.path_of(store), account, is_copy=True)
    try:
        return not memory.is_baseline
    finally:
        memory.close()


def _write_summary(write: Callable[[str], object], watcher: Watcher, *, is_dry_run: bool) -> None:
    stay = watcher.counts.pop("stay", 0)
    parts = [f"{number:,} {action}" for action, number in sorted(watcher.counts.items())]
    if stay or not parts:
        parts.append(f"{stay:,} {'would stay' if is_dry_run else 'stayed'}")
    write(f"{', '.join(parts)}\n")
    if is_dry_run:
        write("This was a dry run: nothing was changed.\n")
