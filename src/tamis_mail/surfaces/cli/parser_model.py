"""The commands and options of a parser as plain values, for completions and manual pages."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from tamis_mail.surfaces.cli.parser import Parser


@dataclass(frozen=True, slots=True)
class Option:
    """An option (with names) or a positional argument (without)."""

    names: tuple[str, ...]  # such as -q, --quiet
    value_names: tuple[str, ...]  # argparse's metavars, such as FILE; none for a flag
    is_repeatable: bool  # whether the last value may be repeated
    required: bool
    choices: tuple[str, ...]  # empty if any value is allowed
    help: str

    @property
    def synopsis(self) -> str:
        """The option as a usage line writes it."""
        words = list(self.names[-1:])
        values = list(self.value_names)
        if self.is_repeatable:
            values[-1] += "..."
        words += values
        text = " ".join(words)
        return text if self.required else f"[{text}]"

    @property
    def is_path(self) -> bool:
        """Whether its value is a file or a folder."""
        return bool(self.value_names) and self.value_names[-1] in ("PATH", "FILE", "STORE")


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its options, or a group of commands."""

    words: tuple[str, ...]  # tamis, store, merge
    summary: str  # one line for the list of commands
    description: str
    epilog: str
    options: tuple[Option, ...]
    arguments: tuple[Option, ...]  # positional ones
    examples: tuple[tuple[str, str], ...]  # pairs of a command and its purpose
    subcommands: tuple[str, ...]  # their last words; a group has some, a command has none

    @property
    def synopsis(self) -> str:
        """The usage as one line."""
        return " ".join([*self.words, *self._usage_parts])

    def usage(self, width: int) -> str:
        """Wrap the usage line without breaking options."""
        lines = [" ".join(self.words)]
        for part in self._usage_parts:
            if len(lines[-1]) + len(part) + 1 > width:
                lines.append("   ")
            lines[-1] += " " + part
        return "\n".join(lines)

    @property
    def _usage_parts(self) -> list[str]:
        options = [option.synopsis for option in self.options if "--help" not in option.names]
        return [
            *options,
            *(["COMMAND ..."] if self.subcommands else [one.synopsis for one in self.arguments]),
        ]


def list_commands(parser: Parser, words: tuple[str, ...] = ("tamis",)) -> Iterator[Command]:
    """Yield a command and all of its subcommands."""
    yield describe_command(parser, words)
    for name, subparser in list_subcommands(parser).items():
        yield from list_commands(subparser, (*words, name))


def describe_command(parser: Parser, words: tuple[str, ...]) -> Command:
    parser.load_options()
    options = [_describe_option(action) for action in parser.option_actions]
    return Command(
        words=words,
        summary=parser.summary,
        description=parser.description or "",
        epilog=parser.epilog or "",
        options=tuple(option for option in options if option.names),
        arguments=tuple(option for option in options if not option.names),
        examples=tuple(parser.examples),
        subcommands=tuple(list_subcommands(parser)),
    )


def list_subcommands(parser: Parser) -> dict[str, Parser]:
    return dict(parser.load_options().subcommands)


def _describe_option(action: argparse.Action) -> Option:
    if action.nargs == 0:
        value_names: tuple[str, ...] = ()
    elif isinstance(action.metavar, tuple):
        value_names = action.metavar
    else:
        value_names = (action.metavar or action.dest.upper(),)
    return Option(
        names=tuple(action.option_strings),
        value_names=value_names,
        is_repeatable=action.nargs in ("*", "+"),
        required=action.required if action.option_strings else action.nargs not in ("*", "?"),
        choices=tuple(map(str, action.choices or ())),
        help=(action.help or "") % vars(action),  # "%(default)s", as argparse itself expands it
    )
