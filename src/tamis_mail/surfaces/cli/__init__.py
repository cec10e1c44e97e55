"""argv → exit status: the command `tamis`.

A command is a module of this package that is loaded when it is called, not before, with

    run(out) -> status                  what it does, and writes to `out`
    configure(parser) -> None           if it has options, which `run(out, options)` is then given

Status 0 is well, 2 a command line that makes no sense, 3 all else that went wrong, 130 Ctrl-C; `sort` has its own.
An error is one line on stderr that says what was given, what was expected and what to do.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.streams import abandon
from tamis_mail.surfaces.cli.version import version

__all__ = ["COMMANDS", "command_line", "main", "said_of"]

COMMANDS = {
    "learn": "learn what is spam and what is not",
    "sort": "say whether mail is spam; filter it",
    "explain": "say why a message is spam, or is not",
    "forget": "forget messages, as if they had never come",
    "relabel": "learn messages again, under another label",
    "status": "say what has been learned",
    "store": "back up, merge, shrink, check, export, import",
    "demo": "show in the terminal what tamis does",
    "completion": "write completions for a shell",
    "help": "explain a command",
}


def command_line() -> Parser:
    """What `tamis` understands; a command's options are loaded when they are looked at."""
    parser = Parser(
        prog="tamis",
        description="A personal spam filter that learns your mail, explains itself, and can forget.",
        epilog="Mail is a message, an mbox, a Maildir, an MH folder, or a folder of any of them, packed or not.\n"
        "What was learned is kept in one file: --store, else $TAMIS_STORE, else ~/.local/share/tamis/mail.tamis.",
    )
    parser.examples = [
        ("tamis learn --spam ~/Mail/Junk --ham ~/Mail/Inbox", "begin"),
        ("tamis sort < message", "is it spam?"),
        ("tamis explain < message", "why?"),
        ("tamis help learn", "more on a command"),
    ]
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, purpose in COMMANDS.items():
        commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.", module=f"{__name__}.{name}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; a command line that makes no sense exits with 2."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # a name in no charset of the terminal's is no reason to stop
    parser = command_line()
    options = parser.parse_args(argv)
    if options.version:
        sys.stdout.write(f"tamis {version()}\n")
        return 0
    if options.command is None:
        parser.error("a command is needed: " + ", ".join(COMMANDS))
    try:
        module = import_module(f"{__name__}.{options.command}")
        status: int = module.run(sys.stdout, options) if hasattr(module, "configure") else module.run(sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader had enough, as in `tamis demo | head -1`
        return _abandoned(0)
    except KeyboardInterrupt as stopped:
        sys.stderr.write(f"tamis {options.command}: {stopped or 'interrupted'}\n")
        return _abandoned(130)
    except Exception as error:  # noqa: BLE001 (a person at a terminal has no use for a traceback)
        if os.environ.get("TAMIS_DEBUG"):
            raise
        sys.stderr.write(f"tamis {options.command}: {said_of(error)}\n")
        return _abandoned(3)
    return status


def said_of(error: BaseException) -> str:
    """One line on an error; one that nobody foresaw says how to find out more."""
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{import_module('tamis_mail.mailbox.letter').printable(os.fsdecode(error.filename))}: {error.strerror}"
    if isinstance(error, OSError | ValueError | import_module("tamis_mail.store").StoreError):
        return str(text)
    return f"unexpected {type(error).__name__}: {text} (TAMIS_DEBUG=1 shows where; please report it)"


def _abandoned(status: int) -> int:
    abandon(sys.stdout)
    return status
