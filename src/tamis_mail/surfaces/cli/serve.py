"""`tamis serve`: run a daemon. The package of each daemon is imported when it is named."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.surface_commands import add_surfaces, run_surface

ACTIONS = {
    "spamd": "answer spamc and other clients of SpamAssassin's daemon",
    "milter": "judge mail while Postfix or Sendmail receives it",
    "lmtp": "judge mail on its way from a mail server to its delivery, by LMTP",
    "web": "open a page in the browser that explains verdicts, and corrects them with a click",
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
    parser.description = "Run the filter as a daemon for mail programs and servers."
    add_surfaces(parser, ACTIONS, EXAMPLES, metavar="DAEMON", title="daemons")


def run(out: TextIO, options: Namespace) -> int:
    """Run one daemon until a signal ends it."""
    return run_surface(out, options)
