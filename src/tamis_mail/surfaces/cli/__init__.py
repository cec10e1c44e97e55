"""argv → exit status: the command `tamis`.

A command is a module of this package with `run(out) -> status`; it is loaded when it is called, not before.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import tamis

__all__ = ["main"]

_COMMANDS = {
    "demo": "show in the terminal what tamis does",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> _Parser:
    parser = _Parser(prog="tamis", description="A personal spam filter that learns, explains and forgets.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, purpose in _COMMANDS.items():
        commands.add_parser(name, help=purpose, description=purpose)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; a command line that makes no sense exits with 2."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.version:
        sys.stdout.write(f"tamis {tamis.__version__}\n")
        return 0
    if options.command is None:
        parser.error("a command is needed: " + ", ".join(_COMMANDS))
    try:
        status: int = import_module(f"{__name__}.{options.command}").run(sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader had enough, as in `tamis demo | head -1`
        return _abandon_output(0)
    except KeyboardInterrupt:
        return _abandon_output(130)
    except OSError as error:
        sys.stderr.write(f"tamis {options.command}: {error.strerror or error}\n")
        return _abandon_output(3)
    return status


def _abandon_output(status: int) -> int:
    """Let go of what could not be written, or Python would complain of it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
