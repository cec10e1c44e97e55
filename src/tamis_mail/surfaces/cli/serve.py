"""`tamis serve`: the daemons. Each is a surface of its own, which is loaded by its name."""

from argparse import Namespace
from importlib import import_module
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser, add_store_option

__all__ = ["ACTIONS", "configure", "run"]

ACTIONS = {
    "spamd": "answer spamc and other clients of SpamAssassin's daemon",
    "milter": "judge mail while Postfix or Sendmail receives it",
    "lmtp": "judge mail on its way from a mail server to its delivery, by LMTP",
    "web": "open a page in the browser: see why, and correct verdicts with a click",
}

EXAMPLES = {
    "spamd": [
        ("tamis serve spamd --listen unix:/run/tamis/spamd.sock", "for spamc -U and Exim, on a Unix socket"),
        ("tamis serve spamd --listen 127.0.0.1:1783 --no-learn", "at a port, for verdicts only"),
        (
            "tamis serve spamd --store common.tamis --user-stores 'users/{user}.tamis'",
            "with a store for each user, as spamc -u names them",
        ),
    ],
    "milter": [
        ("tamis serve milter --listen 127.0.0.1:8783", "for smtpd_milters = inet:127.0.0.1:8783 in Postfix"),
        (
            "tamis serve milter --listen unix:/run/tamis/milter.sock --on-spam quarantine",
            "at a Unix socket; Postfix puts spam on hold",
        ),
    ],
    "lmtp": [
        (
            "tamis serve lmtp --listen unix:/run/tamis/lmtp.sock --next unix:/run/dovecot/lmtp",
            "between Postfix and Dovecot, on Unix sockets",
        ),
        (
            "tamis serve lmtp --next 127.0.0.1:24 --user-stores '/var/lib/tamis/users/{user}.tamis'",
            "at ports, with a store for each recipient",
        ),
    ],
    "web": [
        ("tamis serve web", "open the page on the mail that was sorted and learned"),
        ("tamis serve web --mail ~/Maildir", "and on the mail of a folder"),
        ("tamis serve web --no-open --port 9000", "without a browser, at another port"),
    ],
}


def configure(parser: Parser) -> None:
    """Add the daemons."""
    parser.description = "Run the filter as a daemon for mail programs and servers."
    parser.examples = [examples[0] for examples in EXAMPLES.values()]
    group = parser.add_subparsers(
        dest="action", metavar="DAEMON", title="daemons", required=True, prog=parser.prog
    )
    for name, summary in ACTIONS.items():
        one = group.add_parser(
            name,
            help=summary,
            summary=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            options_module=module_of(name),
        )
        one.examples = EXAMPLES[name]
        add_store_option(one)


def run(out: TextIO, options: Namespace) -> int:
    """Run one daemon until a signal ends it."""
    status: int = import_module(module_of(options.action)).run(out, options)
    return status


def module_of(name: str) -> str:
    """Return the name of the module of a daemon's command."""
    return f"tamis_mail.surfaces.{name}.command"
