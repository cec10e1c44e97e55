"""`tamis forget`: remove messages from the store."""

from argparse import Namespace
from collections import Counter
from functools import partial
from typing import TextIO

from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.cli.learn import add_mbox_option
from tamis_mail.surfaces.cli.parser import Parser, add_quiet_option, add_store_option
from tamis_mail.surfaces.cli.sources import SourceReader, Task, open_sources, run_tasks

__all__ = ["configure", "run"]


def configure(parser: Parser) -> None:
    """Add the options of `tamis forget`."""
    parser.description = (
        "Forget learned messages exactly: the store is then as if they had never been learned. A message "
        "that was never learned is counted as unknown, which is no error. A sent message is "
        "forgotten with its recipients (tamis learn --sent). Without a PATH, one message is read from "
        "standard input."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="mail (-: standard input)")
    add_mbox_option(parser)
    add_store_option(parser)
    add_quiet_option(parser)
    parser.examples = [
        ("tamis forget < message", "one message"),
        ("tamis forget ~/Mail/Private", "a folder"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Forget the messages of all sources."""
    sources = open_sources(options.paths, mbox=options.mbox)
    with Sieve.open(options.store, create=False) as sieve:
        tasks = [Task(source, partial(_forget_source, sieve), ("forgotten", "unknown")) for source in sources]
        _, status = run_tasks(out, "forget", options, tasks, "done so far")
    return status


def _forget_source(sieve: Sieve, reader: SourceReader) -> Counter[str]:
    return sieve.forget_many(reader.contents(), progress=reader.advance)
