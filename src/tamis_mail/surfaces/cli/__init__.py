"""The command `tamis`.

A command is a module of this package. It is loaded only when it is called, and it has these functions:

    run(out) -> status                  does the work and writes to `out`
    configure(parser) -> None           adds options, if there are any; then `run(out, options)` is called

Status 0 is success, 2 a usage error, 3 any other error, 130 Ctrl-C; `sort` has its own. An error is one line
on stderr, which says what was given, what was expected and what to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from tamis_mail.surfaces.cli.plain_options import read_plain_options
from tamis_mail.surfaces.cli.streams import ERROR_STATUS, copy_rest, discard, end_process

# True for a type checker. `typing` is not imported: if its import failed, a message could not be passed on.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from types import SimpleNamespace

    from tamis_mail.surfaces.cli.parser import Parser

__all__ = ["COMMANDS", "command_line", "describe_error", "main"]

COMMANDS = {
    "learn": "learn messages of spam and of wanted mail",
    "sort": "classify mail as spam or not; filter it",
    "explain": "explain why a message is spam or not",
    "forget": "forget messages exactly, as if never learned",
    "relabel": "learn messages again, under another label",
    "allow": "never call mail of a sender spam",
    "block": "always call mail of a sender spam",
    "log": "list verdicts and learned messages",
    "undo": "undo what an event of the log has learned",
    "digest": "list messages that were called spam, as text or as mail",
    "status": "show what has been learned",
    "store": "back up, merge, shrink, check, export, import",
    "serve": "run as a daemon for mail programs and servers",
    "watch": "sort the mail of a mailbox, and learn from what you move",
    "setup": "set up an account to be watched",
    "report": "evaluate how well your mail is classified, with charts",
    "tune": "fit the weights of the evidence to your mail",
    "demo": "show in the terminal what tamis does",
    "completion": "write completions for a shell",
    "help": "explain a command",
}


# Commands that hold much memory or run for each message, and leave nothing to do at the end of the process.
_COMMANDS_THAT_END_AT_ONCE = frozenset({"learn", "sort"})


def command_line(first_word: str = "") -> Parser:
    """Make the parser of `tamis`. If the first word is the name of a command, add that command only."""
    parser: Parser = import_module(f"{__name__}.parser").Parser(
        prog="tamis",
        description="A personal spam filter that learns your mail, explains itself, and can forget.",
        epilog="Mail is a message, an mbox, a Maildir, an MH folder, or a folder of any of them, packed or "
        "not. The store, one file, holds everything learned: --store, else $TAMIS_STORE, else "
        "~/.local/share/tamis/mail.tamis.",
    )
    parser.examples = [
        ("tamis learn --spam ~/Mail/Junk --ham ~/Mail/Inbox", "begin"),
        ("tamis sort < message", "is it spam?"),
        ("tamis explain < message", "why?"),
        ("tamis help learn", "more on a command"),
    ]
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="tamis")
    for name in [first_word] if first_word in COMMANDS else COMMANDS:
        summary = COMMANDS[name]
        commands.add_parser(
            name,
            help=summary,
            summary=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            options_module=f"{__name__}.{name}",
        )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; a usage error exits with 2.

    Without `argv`, the command is that of this process, which some commands end at once.
    """
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            # A character that the terminal's charset does not have must not raise an error.
            reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else list(argv)
    name = f"tamis {words[0]}" if words and words[0] in COMMANDS else "tamis"
    if sys.stdout is None:  # the parent process has closed it
        os.write(2, f"{name}: there is no standard output: redirect it, to /dev/null if you like\n".encode())
        return ERROR_STATUS
    try:
        status = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader stopped early, as in `tamis demo | head -1`
        discard(sys.stdout)  # what was not written yet
        return 0
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(f"{name}: {describe_error(interrupt)}\n")
        discard(sys.stdout)
        return 130
    except Exception as error:
        if os.environ.get("TAMIS_DEBUG"):
            raise
        sys.stderr.write(f"{name}: {describe_error(error)}\n")
        discard(sys.stdout)
        return ERROR_STATUS
    if argv is None and words and words[0] in _COMMANDS_THAT_END_AT_ONCE:
        end_process(status)
    return status


def _run(words: list[str]) -> int:
    is_started = False
    try:
        # `read_plain_options` is faster than the parser, and returns None for options that are rare.
        options = read_plain_options(words) or command_line(*words[:1]).parse_args(words)
        if options.version:
            sys.stdout.write(f"{import_module(f'{__name__}.version').describe()}\n")
            return 0
        if options.command is None:
            options.parser.error("a command is needed: " + ", ".join(COMMANDS))
        run = _load_command(options)
        is_started = True
        return run()
    except (Exception, SystemExit) as error:
        # A command that runs copies its message itself. The parser exits with 0 after it has printed help.
        is_stdin_unread = bool(error.code) if isinstance(error, SystemExit) else not is_started
        if is_stdin_unread and _is_filter(words):
            copy_rest(sys.stdout)
        raise


def _load_command(options: Namespace | SimpleNamespace) -> Callable[[], int]:
    """Import the module of a command, and return a function that runs it."""
    module = import_module(f"{__name__}.{options.command}")
    arguments = [options] if hasattr(module, "configure") else []
    return lambda: module.run(sys.stdout, *arguments)


def _is_filter(words: list[str]) -> bool:
    """Whether standard input is a message that must be copied to the output after any error.

    With `-p`, `--passthrough` and `--undo`, `tamis sort` writes the message. A misspelt command or option
    counts, too: a filter that is configured wrongly must not lose mail.
    """
    if sys.stdin is None or sys.stdin.isatty() or (words and words[0] in COMMANDS and words[0] != "sort"):
        return False
    return any(
        word.startswith(("--pass", "--undo")) or (word[:1] == "-" and word[1:2] != "-" and "p" in word)
        for word in words
    )


def describe_error(error: BaseException) -> str:
    """Describe an error in one printable line; for an unexpected one, say how to find out more."""
    text = _format_error(error)
    if text.isprintable():
        return text
    line: str = import_module("tamis_mail.mailbox.raw_message").printable(text)
    return line


def _format_error(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return text or "interrupted"
    if isinstance(error, MemoryError):
        return "there was not enough memory: end other programs, or raise the limit (ulimit -v)"
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return error.strerror
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
        return f"{name}: {error.strerror}"
    if isinstance(error, OSError | ValueError) or type(error).__module__.startswith(
        ("tamis.", "tamis_mail.")
    ):
        return text
    return f"unexpected {type(error).__name__}: {text} (TAMIS_DEBUG=1 shows where; please report it)"
