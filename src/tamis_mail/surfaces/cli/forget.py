"""`tamis forget`: remove messages from the store."""

from argparse import Namespace
from collections import Counter
from functools import partial
from typing import TextIO

from tamis_mail.mailbox import Source
from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.cli.learn_options import add_common_options
from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.sources import SourceReader, Task, name_of, open_sources, run_tasks
from tamis_mail.surfaces.cli.streams import ERROR_STATUS, warn_of_log


def configure(parser: Parser) -> None:
    parser.description = (
        "Forget learned messages exactly: the store is then as if they had never been learned. A message "
        "that was never learned is counted as unknown, which is not an error. A sent message is "
        "forgotten with its recipients (tamis learn --sent). Without a PATH, one message is read from "
        "standard input.\n\n"
        "The log forgets the messages, too: their senders, subjects and paths are erased. It keeps that a "
        "message was forgotten, by its digest and the path of its mailbox, so that tamis undo can learn it "
        "again from there; with --no-log it keeps nothing."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="mail (-: standard input)")
    add_common_options(parser)
    parser.examples = [
        ("tamis forget < message", "one message"),
        ("tamis forget ~/Mail/Private", "a folder"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    sources = open_sources(options.paths, allow_mbox=options.mbox)
    with Sieve.open(options.store, create=False, log=not options.no_log) as sieve:
        # The words are the actions that are counted for the summary.
        tasks = [
            Task(source, partial(_forget_source, sieve, source), ("forgotten", "unknown"))
            for source in sources
        ]
        _, status = run_tasks(out, "forget", options, tasks, so_far="done so far")
    warn_of_log("forget", sieve.log_fault)  # why the log could not be written, if it could not
    return ERROR_STATUS if sieve.log_fault else status  # the log may still name the messages


def _forget_source(sieve: Sieve, source: Source, reader: SourceReader) -> Counter[str]:
    return sieve.forget_many(reader.contents(), source=name_of(source), progress=reader.advance)
