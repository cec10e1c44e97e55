"""`tamis setup`: ask what a surface needs to know, and write it down. Each surface is loaded by its name."""

from argparse import Namespace
from importlib import import_module
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser, add_store_option

__all__ = ["ACTIONS", "configure", "run"]

ACTIONS = {
    "imap": "set up an IMAP account to be watched",
}

EXAMPLES = {
    "imap": [("tamis setup imap", "ask for the account, learn its folders, and say what to run next")],
}


def configure(parser: Parser) -> None:
    """Add what can be set up."""
    parser.description = "Set up what the filter needs to know of your mail."
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
    """Ask, and write down the answers."""
    status: int = import_module(module_of(options.action)).run(out, options)
    return status


def module_of(name: str) -> str:
    """Return the name of the module that sets up a kind of mailbox."""
    return f"tamis_mail.surfaces.{name}.setup"
