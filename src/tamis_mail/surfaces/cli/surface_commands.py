"""The commands `serve`, `watch` and `setup`, which start another surface: a daemon, a watcher or a page.

The package of a surface is imported when its name is given.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TextIO

from tamis_mail.surfaces.cli.parser import Parser, add_store_option


def add_surfaces(
    parser: Parser,
    summaries: Mapping[str, str],
    examples: Mapping[str, Sequence[tuple[str, str]]],
    *,
    metavar: str,
    title: str,
    module: str = "command",
) -> None:
    """Add a command for each surface; `module` names the module of its package with `configure` and `run`."""
    parser.examples = [surface_examples[0] for surface_examples in examples.values()]
    group = parser.add_subparsers(
        dest="action", metavar=metavar, title=title, required=True, prog=parser.prog
    )
    for name, summary in summaries.items():
        subparser = group.add_parser(
            name,
            help=summary,
            summary=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            options_module=_find_module(name, module),
        )
        subparser.examples = list(examples[name])
        add_store_option(subparser)


def run_surface(out: TextIO, options: Namespace, module: str = "command") -> int:
    """Run the surface that the user has named, and return its exit status."""
    status: int = import_module(_find_module(options.action, module)).run(out, options)
    return status


def _find_module(surface: str, module: str) -> str:
    return f"tamis_mail.surfaces.{surface}.{module}"
