"""mail → a store that does not remember it."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.cli.learn import add_mbox, summary
from tamis_mail.surfaces.cli.parser import Parser, add_quiet, add_store
from tamis_mail.surfaces.cli.sources import Work, open_sources

__all__ = ["configure", "run"]


def configure(parser: Parser) -> None:
    """The options of `tamis forget`."""
    parser.description = (
        "Forget messages that were learned: the store is then as if they had never come. What was never "
        "learned is unknown, and no error. Without a PATH one message is read from standard input."
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="mail (-: standard input)")
    add_mbox(parser)
    add_store(parser)
    add_quiet(parser)
    parser.examples = [
        ("tamis forget < message", "one message"),
        ("tamis forget ~/Mail/Private", "a folder"),
    ]


def run(out: TextIO, options: Namespace) -> int:
    """Forget all that was named."""
    total = 0
    status = 0
    sources = open_sources(options.paths, mbox=options.mbox)
    with Sieve.open(options.store, create=False) as sieve:
        for source in sources:
            with Work("forget", source, quiet=options.quiet) as work:
                try:
                    actions = sieve.forget_many(work.messages(), progress=work.advance)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(
                        f"interrupted; done so far: {total + work.done:,}; run again to go on"
                    ) from None
            total += actions.total()
            status = 3 if source.unread else status
            if not options.quiet:
                out.write(summary(source, actions, ("forgotten", "unknown")) + "\n")
                out.flush()
    return status
