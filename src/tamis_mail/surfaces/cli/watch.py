"""`tamis watch`: watch a mailbox. The package of each kind of mailbox is imported when it is named."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.surface_commands import add_surfaces, run_surface

ACTIONS = {
    "imap": "watch an IMAP account",
    "maildir": "watch a Maildir",
}

EXAMPLES = {
    "imap": [
        ("tamis watch imap home --dry-run", "what would be moved"),
        ("tamis watch imap home --move", "sort new mail, and learn from what you move"),
    ],
    "maildir": [
        ("tamis watch maildir ~/Maildir --dry-run", "what would be moved"),
        ("tamis watch maildir ~/Maildir --move", "sort new mail, and learn from what you move"),
    ],
}


def configure(parser: Parser) -> None:
    parser.description = (
        "Watch a mailbox: sort new mail into Junk, and learn from what you move into and out of it."
    )
    add_surfaces(parser, ACTIONS, EXAMPLES, metavar="KIND", title="kinds of mailboxes")


def run(out: TextIO, options: Namespace) -> int:
    """Watch until a signal ends it."""
    return run_surface(out, options)
