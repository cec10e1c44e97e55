"""`tamis setup`: ask for the settings of an account, and write them to a file."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.surface_commands import add_surfaces, run_surface

ACTIONS = {
    "imap": "set up an IMAP account to be watched",
}

EXAMPLES = {
    "imap": [("tamis setup imap", "ask for the account, learn its folders, and say what to run next")],
}


def configure(parser: Parser) -> None:
    parser.description = "Set up an account, so that the filter can learn and watch its mail."
    add_surfaces(parser, ACTIONS, EXAMPLES, metavar="KIND", title="kinds of mailboxes", module="setup")


def run(out: TextIO, options: Namespace) -> int:
    return run_surface(out, options, "setup")
