"""`tamis watch`: mailboxes. Each kind is a surface of its own, which is loaded by its name."""

from argparse import Namespace
from importlib import import_module
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser, add_store_option

__all__ = ["ACTIONS", "configure", "run"]

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
    """Add the kinds of mailboxes."""
    parser.description = (
        "Watch a mailbox: sort new mail into Junk, and learn from what you move into and out of it."
    )
    parser.examples = [examples[0] for examples in EXAMPLES.values()]
    group = parser.add_subparsers(
        dest="action", metavar="KIND", title="kinds of mailboxes", required=True, prog=parser.prog
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
    """Watch until a signal ends it."""
    status: int = import_module(module_of(options.action)).run(out, options)
    return status


def module_of(name: str) -> str:
    """Return the name of the module that watches a kind of mailbox."""
    return f"tamis_mail.surfaces.{name}.command"
