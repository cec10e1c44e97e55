"""words of a command line → options: argparse, with options that are loaded on demand."""

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from tamis_mail.mailbox.raw_message import printable
from tamis_mail.surfaces.cli.streams import columns

__all__ = ["Parser", "add_quiet", "add_store"]


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs to the terminal; keeps indented lines, such as examples."""

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog, width=min(columns(), 100) - 2
        )  # without a width, argparse would import `shutil`

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            part if "\n  " in part else super(_Formatter, self)._fill_text(part, width, indent)
            for part in paragraphs
        )


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line, and with examples in its help."""

    status = 2  # of a usage error

    def __init__(self, *, module: str | None = None, purpose: str = "", **settings: Any) -> None:
        super().__init__(
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
            **settings,
        )
        self.module = module
        self.purpose = purpose  # one line for the list of commands
        self.subcommands: Mapping[str, Parser] = {}  # by name
        self.examples: list[tuple[str, str]] = []  # command, what it is for
        self.add_argument("-h", "--help", action="help", help="show this help and exit")

    def add_subparsers(self, **settings: Any) -> Any:
        group = super().add_subparsers(**settings)
        self.subcommands = group.choices
        return group

    @property
    def arguments(self) -> list[argparse.Action]:
        """Options and arguments, without the group of subcommands."""
        return [action for action in self._actions if action.choices is not self.subcommands]

    def prepare(self) -> "Parser":
        """Load the options of the command, once."""
        module, self.module = self.module, None
        self.set_defaults(parser=self)  # for usage errors that only the command can detect
        configure = getattr(import_module(module), "configure", None) if module else None
        if configure:
            configure(self)
        return self

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self.prepare()
        words = None if args is None else self._options_first(list(args))
        options, rest = super().parse_known_args(words, namespace)
        if rest:  # argparse would report them by the outermost parser, without the command
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options, rest

    def _options_first(self, words: list[str]) -> list[str]:
        """Move options with a fixed number of values to the front.

        Then the positional arguments are contiguous, as argparse requires: `learn --ham --store FILE PATH`
        and `relabel ham -q PATH` work.
        """
        if self.subcommands:
            return words
        actions = {name: action for action in self._actions for name in action.option_strings}
        flags = {name[1] for name, action in actions.items() if len(name) == 2 and action.nargs == 0}
        front: list[str] = []
        back: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                back += [word, *rest]
                break
            name, equals, _ = word.partition("=")
            action = actions.get(name)
            if action is not None and action.nargs in (0, None):
                front.append(word)
                if action.nargs is None and not equals:
                    front += [value for value in (next(rest, None),) if value is not None]
            elif len(word) > 2 and word[0] == "-" != word[1] and flags.issuperset(word[1:]):
                front.append(word)
            else:
                back.append(word)
        return front + back

    def format_help(self) -> str:
        self.prepare()
        parser_model = import_module("tamis_mail.surfaces.cli.parser_model")
        width = min(columns(), 100)
        self.usage = parser_model.command(self, tuple(self.prog.split())).usage(width - 8).replace("%", "%%")
        epilog = self.epilog
        self.epilog = "\n\n".join(part for part in (self.format_examples(), epilog) if part) or None
        try:
            return super().format_help()
        finally:
            self.epilog = epilog

    def format_examples(self) -> str:
        """Format the examples, one or two lines each."""
        if not self.examples:
            return ""
        width = max(len(command) for command, _ in self.examples)
        if width + max(len(purpose) for _, purpose in self.examples) + 5 > min(columns(), 100):
            lines = [f"  {command}\n      {purpose}" for command, purpose in self.examples]
        else:
            lines = [f"  {command:<{width}}   {purpose}" for command, purpose in self.examples]
        return "\n".join(["examples:", *lines])

    def error(self, message: str) -> NoReturn:
        self.exit(self.status, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


def add_store(parser: Parser) -> None:
    """Add the option for the path of the store."""
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="the store (default: $TAMIS_STORE, else ~/.local/share/tamis/mail.tamis)",
    )


def add_quiet(parser: Parser) -> None:
    """Add the option for quiet operation."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only, and no progress")
