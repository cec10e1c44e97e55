"""`tamis help COMMAND`: the help of a command."""

from argparse import Namespace
from typing import TextIO

from tamis_mail.surfaces.cli import command_line
from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.parser_model import list_subcommands


def configure(parser: Parser) -> None:
    parser.description = "Explain tamis, or one of its commands."
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="a command, such as learn or store merge")
    parser.examples = [("tamis help", "all commands"), ("tamis help store merge", "one command")]


def run(out: TextIO, options: Namespace) -> int:
    parser = command_line()
    for word in options.words:
        commands = list_subcommands(parser)
        if word not in commands:
            expected = f"one of {', '.join(commands)}" if commands else "nothing more"
            options.parser.error(f"{parser.prog} has no command {word!r}, expected {expected}")
        parser = commands[word]
    out.write(parser.format_help())
    return 0
