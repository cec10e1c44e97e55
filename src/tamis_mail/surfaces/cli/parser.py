"""An argparse parser that imports each command's options only when that command is used."""

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from tamis_mail.mailbox.raw_message import printable
from tamis_mail.surfaces.cli.streams import text_width


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs to the width of the terminal; keeps indented lines, such as examples."""

    def __init__(self, prog: str) -> None:
        # Without a width, argparse would import `shutil`.
        super().__init__(prog, width=text_width() - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            part if "\n  " in part else super(_Formatter, self)._fill_text(part, width, indent)
            for part in paragraphs
        )


class Parser(argparse.ArgumentParser):
    """Prints each error on one line and adds examples to the help."""

    usage_error_status = 2

    def __init__(self, *, options_module: str | None = None, summary: str = "", **settings: Any) -> None:
        super().__init__(
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
            **settings,
        )
        self.options_module = options_module  # its function `configure` adds the options
        self.summary = summary  # one line for the list of commands
        self.subcommands: Mapping[str, Parser] = {}  # by name
        self.examples: list[tuple[str, str]] = []  # command, purpose
        self.add_argument("-h", "--help", action="help", help="show this help and exit")

    def add_subparsers(self, **settings: Any) -> Any:
        group = super().add_subparsers(**settings)
        self.subcommands = group.choices
        return group

    @property
    def option_actions(self) -> list[argparse.Action]:
        """The actions of options and of positional arguments, without the group of subcommands."""
        return [action for action in self._actions if action.choices is not self.subcommands]

    def load_options(self) -> "Parser":
        """Import the command's module and add its options. Later calls have no effect."""
        module, self.options_module = self.options_module, None
        self.set_defaults(parser=self)  # the command itself calls `parser.error` for some usage errors
        configure = getattr(import_module(module), "configure", None) if module else None
        if configure:
            configure(self)
        return self

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self.load_options()
        words = None if args is None else self._move_options_first(list(args))
        options, unrecognized = super().parse_known_args(words, namespace)
        if unrecognized:  # argparse would report them without the name of the command
            self.error(f"unrecognized arguments: {' '.join(unrecognized)}")
        return options, unrecognized

    def _move_options_first(self, words: list[str]) -> list[str]:
        """Move options with no value or one value to the front.

        argparse requires that positional arguments are contiguous. Without this step it would refuse
        `learn --ham --store FILE PATH` and `relabel ham -q PATH`.
        """
        if self.subcommands:
            return words
        actions = {name: action for action in self._actions for name in action.option_strings}
        short_flags = {name[1] for name, action in actions.items() if len(name) == 2 and action.nargs == 0}
        front: list[str] = []
        back: list[str] = []
        remaining = iter(words)
        for word in remaining:
            if word == "--":
                back += [word, *remaining]
                break
            name, equals, _ = word.partition("=")
            action = actions.get(name)
            if action is not None and action.nargs in (0, None):
                front.append(word)
                if action.nargs is None and not equals:
                    front += [value for value in (next(remaining, None),) if value is not None]
            elif len(word) > 2 and word[0] == "-" and word[1] != "-" and short_flags.issuperset(word[1:]):
                front.append(word)
            else:
                back.append(word)
        return front + back

    def format_help(self) -> str:
        self.load_options()
        parser_model = import_module("tamis_mail.surfaces.cli.parser_model")
        width = text_width()
        self.usage = (
            parser_model.describe_command(self, tuple(self.prog.split())).usage(width - 8).replace("%", "%%")
        )
        epilog = self.epilog
        self.epilog = "\n\n".join(part for part in (self.format_examples(), epilog) if part) or None
        try:
            return super().format_help()
        finally:
            self.epilog = epilog

    def format_examples(self) -> str:
        """Format each example on one line, or on two if the lines would be too long."""
        if not self.examples:
            return ""
        width = max(len(command) for command, _ in self.examples)
        if width + max(len(purpose) for _, purpose in self.examples) + 5 > text_width():
            lines = [f"  {command}\n      {purpose}" for command, purpose in self.examples]
        else:
            lines = [f"  {command:<{width}}   {purpose}" for command, purpose in self.examples]
        return "\n".join(["examples:", *lines])

    def error(self, message: str) -> NoReturn:
        self.exit(self.usage_error_status, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


def add_store_option(parser: Parser) -> None:
    """Add the option for the path of the store."""
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="the store, a file or an address such as redis://host/0?store=name (default: $TAMIS_STORE, else "
        "~/.local/share/tamis/mail.tamis)",
    )


def add_log_option(parser: Parser) -> None:
    """Add the option with which no event is written to the log."""
    parser.add_argument("--no-log", action="store_true", help="write nothing to the log (see tamis log)")


def add_quiet_option(parser: Parser) -> None:
    """Add the option that prints errors only."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only, and no progress")
