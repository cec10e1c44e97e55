"""`tamis relabel`: learn messages under another label."""

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TextIO

from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.surfaces.cli.learn import learn
from tamis_mail.surfaces.cli.learn_options import add_common_options
from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.sources import open_sources


def configure(parser: Parser) -> None:
    parser.description = (
        "Learn messages under another label than before: their counts under the old label are subtracted "
        "exactly. Messages that were never learned are learned now. Without a PATH, one message is read from "
        "standard input."
    )
    parser.add_argument("label", metavar="LABEL", help="spam, ham, or any other label")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="mail (-: standard input)")
    add_common_options(parser)
    parser.examples = [
        ("tamis relabel ham < message", "it was not spam"),
        ("tamis relabel spam ~/Mail/Missed", "all of these are"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Learn the messages of all sources under the label."""
    label = options.label
    if label not in (SPAM, HAM) and _is_path(label, options.paths):
        options.parser.error(
            f"got {printable(label)} where a label is expected, which is a path: name the label first, as in "
            f"tamis relabel ham {printable(label)}"
        )
    sources = open_sources(options.paths, allow_mbox=options.mbox, label=label)
    tasks = [(label, source) for source in sources]
    return learn(out, "relabel", options, tasks)


def _is_path(label: str, paths: Sequence[str]) -> bool:
    """Whether the label argument is meant as a path of mail."""
    if os.sep in label or os.path.isfile(label):  # noqa: PTH113 (pathlib takes 8 ms)
        return True
    return not paths and os.path.lexists(label)
