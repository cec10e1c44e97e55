"""`tamis serve milter`: mark, and perhaps reject, mail while Postfix or Sendmail receives it."""

from argparse import ArgumentParser, Namespace
from functools import partial
from importlib.metadata import version
from typing import TextIO

from tamis_mail.serving import daemon
from tamis_mail.surfaces.milter.service import ON_FAULT, ON_SPAM, MilterService, Policy

_LISTEN = "127.0.0.1:8783"
_CONNECTIONS = 250  # Postfix has 100 processes that receive mail, and each keeps a connection
_IDLE_SECONDS = 3600  # the connection lasts as long as the SMTP client's, which may be slow
_SECONDS = 86400  # maximum duration of a connection


def configure(parser: ArgumentParser) -> None:
    """Add the options of `tamis serve milter`."""
    parser.description = (
        "Judge mail while Postfix or Sendmail receives it, and add the verdict to its header. If there is no "
        "verdict, because the store cannot be read or the message is too large, the message is accepted "
        "without one. Mail of clients that logged in to the mail server is not judged."
    )
    daemon.add_options(parser, _LISTEN)
    parser.set_defaults(max_connections=_CONNECTIONS, timeout=_SECONDS, idle_timeout=_IDLE_SECONDS)
    daemon.add_marking_options(parser)
    parser.add_argument(
        "--on-spam",
        metavar="ACTION",
        choices=ON_SPAM,
        default=ON_SPAM[0],
        help="mark: accept spam with the verdict in its header; reject: refuse it; quarantine: mark it and "
        "let the mail server hold it; discard: accept it and delete it (default: %(default)s)",
    )
    parser.add_argument(
        "--on-fault",
        choices=ON_FAULT,
        default=ON_FAULT[0],
        help="without a verdict, accept the message or let the sender try again later (default: %(default)s)",
    )
    parser.add_argument(
        "--add-only",
        action="store_true",
        help="do not rename fields of the message that have the name of a verdict field (X-Spam-Status, ...)",
    )
    parser.add_argument(
        "--judge-authenticated",
        action="store_true",
        help="judge mail of clients that logged in, too",
    )


def run(out: TextIO, options: Namespace) -> int:
    """Serve until a signal ends it."""
    policy = Policy(
        dialect=options.dialect,
        on_spam=options.on_spam,
        on_fault=options.on_fault,
        shows_evidence=not options.no_evidence,
        may_remove_fields=not options.add_only,
        judges_authenticated=options.judge_authenticated,
    )

    make_service = partial(MilterService, version=version("tamis"), policy=policy)
    return daemon.run(options, make_service, "milter")
