"""mail and another label → what the store remembers: learning, for people who look for this word."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.surfaces.cli.learn import add_mbox, learn
from tamis_mail.surfaces.cli.parser import Parser, add_quiet, add_store
from tamis_mail.surfaces.cli.sources import open_sources

__all__ = ["configure", "run"]


def configure(parser: Parser) -> None:
    """The options of `tamis relabel`."""
    parser.description = (
        "Learn messages under another label than they had: what was learned under the old one is taken back, "
        "exactly. Messages that were never learned are learned now. Without a PATH one message is read from "
        "standard input."
    )
    parser.add_argument("label", metavar="LABEL", help="spam, ham, or any other label")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="mail (-: standard input)")
    add_mbox(parser)
    add_store(parser)
    add_quiet(parser)
    parser.examples = [
        ("tamis relabel ham < message", "it was no spam"),
        ("tamis relabel spam ~/Mail/Missed", "all of these are"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Learn all that was named under the label."""
    tasks = [(options.label, source) for source in open_sources(options.paths, mbox=options.mbox)]
    return learn(out, "relabel", options, tasks)
