"""`tamis serve spamd`: answer spamc and other clients of SpamAssassin's daemon."""

from argparse import ArgumentParser, Namespace
from functools import partial
from importlib.metadata import version
from typing import TextIO

from tamis_mail.serving import daemon
from tamis_mail.surfaces.spamd.service import SpamdService

_LISTEN = "127.0.0.1:783"


def configure(parser: ArgumentParser) -> None:
    """Add the options of `tamis serve spamd`."""
    parser.description = (
        "Answer spamc, Exim, Evolution, KMail, isbg and other clients of SpamAssassin's spamd, over TCP or a "
        "Unix socket. If the store cannot be read, the answer is a temporary error, after which clients pass "
        "the message on unchanged."
    )
    daemon.add_options(parser, _LISTEN)
    parser.add_argument(
        "--no-learn", action="store_true", help="refuse to learn and forget by TELL (spamc --learntype)"
    )


def run(out: TextIO, options: Namespace) -> int:
    """Serve until a signal ends it."""
    make_service = partial(SpamdService, version=version("tamis"), may_learn=not options.no_learn)
    return daemon.run(options, make_service, "spamd")
