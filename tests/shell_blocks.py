"""Blocks of shell commands in the README and the docs → checked commands; `conftest.py` passes each block.

A command of `tamis` must be one that its parser understands. On the pages of EXECUTED, commands also run, in
a home folder with a sample mailbox, and print what the page shows ("..." stands for any text). Commands that
are not run stand in NOT_RUN, with the reason; other programs stand in PROGRAMS. One that is in none fails.
"""

import mailbox
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

from sybil import Example

EXECUTED = {"README.md", "first-filter.md"}
# By how a command begins: why it does not run although its page is executed.
NOT_RUN = {
    "pip install": "it needs the network; tools/wheel installs a wheel into an empty environment",
    "tamis demo --web": "it serves until it is interrupted; tests/surfaces/web start it",
    "tamis serve": "it serves until it is interrupted; tests/surfaces/web start it",
    "tamis setup imap": "it asks for an account; tests/surfaces/imap/test_setup.py answers",
    "tamis watch": "it watches until it is interrupted; tests/surfaces/maildir start it",
}
_SYSTEM = "a program of the system beside tamis"
# Programs beside `tamis` on pages that are not executed: which tests run them, or why none can.
PROGRAMS = {
    "bogoutil": "of bogofilter: tests/mail/store/test_import_foreign.py reads what it prints",
    "cat": _SYSTEM,
    "curl": "tests/surfaces/web/test_api.py sends the same requests",
    "doveadm": "tests/surfaces/test_recipes_dovecot.py runs the recipes",
    "install": "copies files to /etc; tests/surfaces/test_recipes_dovecot.py copies them elsewhere",
    "eval": _SYSTEM,
    "export": _SYSTEM,
    "grep": _SYSTEM,
    "head": _SYSTEM,
    "jq": _SYSTEM,
    "less": _SYSTEM,
    "ls": _SYSTEM,
    "make": "the project's own targets",
    "pip": "it needs the network",
    "python": _SYSTEM,
    "read": _SYSTEM,
    "sa-learn": "of SpamAssassin: tests/mail/store/test_import_foreign.py reads what it prints",
    "sendmail": "tests/surfaces/test_cli_log.py reads the message that it would send",
    "sievec": "tests/surfaces/test_recipes_dovecot.py runs the recipes",
    "spamc": "tests/surfaces/spamd/test_spamc.py runs it",
    "ssh": "it needs another machine",
    "swaks": "sends a test message by hand; tests/surfaces/milter/test_postfix.py sends by SMTP",
    "tail": _SYSTEM,
    "zcat": _SYSTEM,
}
OPERATORS = {"|", "||", "&&", ";", "&", "(", ")"}
KEYWORDS = {"for", "do", "done", "while", "if", "then", "fi"}


@dataclass(frozen=True)
class Command:
    """A command of a block, with the output that the page shows."""

    text: str
    expected: str | None  # None: the page shows no output


def read_commands(language: str, block: str) -> Iterator[Command]:
    """The commands of a block: all lines of `sh`; of `console` those after a prompt, with what follows."""
    lines = re.sub(r"\s*\\\n\s*(?:> *)?", " ", block).splitlines()
    if language == "sh":
        yield from (Command(line, None) for line in lines if line.strip() and not line.startswith("#"))
        return
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    assert not lines or starts[:1] == [0], "a console block begins with a prompt: $"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        output = "\n".join(lines[start + 1 : end])
        yield Command(lines[start][2:], f"{output}\n" if output.strip() else None)


def split_programs(command: str) -> Iterator[list[str]]:
    """The words of each program of a command, without redirections and keywords of the shell."""
    for inner in re.findall(r"\$\(([^)]*)\)", command):  # eval "$(tamis completion bash)"
        yield from split_programs(inner)
    outer = re.sub(r"\$\([^)]*\)", "VALUE", command)
    lexer = shlex.shlex(outer, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    tokens = iter(lexer)
    for token in tokens:
        if token in OPERATORS:
            yield words
            words = []
        elif token.startswith(("<", ">")):
            next(tokens, None)
        elif words or (token not in KEYWORDS and not re.fullmatch(r"\w+=.*", token)):
            words.append(token)
    yield words


def is_understood(words: list[str]) -> bool:
    """Whether the parser of `tamis` takes these words; help and version end it with status 0."""
    from tamis_mail.surfaces.cli import command_line  # noqa: PLC0415 (only these blocks need it)

    try:
        command_line().parse_args(words)
    except SystemExit as end:
        return end.code == 0
    return True


def check_understood(command: Command) -> None:
    """Every program of a command is `tamis`, with arguments that its parser takes, or has a reason."""
    for words in split_programs(command.text):
        program = Path(words[0]).name if words else ""
        if program == "tamis":
            assert is_understood(words[1:]), f"tamis does not understand: {command.text}"
        elif program:
            assert program in PROGRAMS, f"{program} has no reason in tests/shell_blocks.py: {command.text}"


class Home:
    """A folder with a sample mailbox, in which the commands of one page run one after the other."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="tamis-docs-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        self._write_mail()

    def _write_mail(self) -> None:
        from tamis_mail.sample import messages  # noqa: PLC0415

        mail = list(messages())
        chosen = next(one for one in mail if one.kind == "pills" and b" the " in one.raw)
        (self.path / "message").write_bytes(chosen.raw)
        (self.path / "Mail").mkdir()
        for label, name in (("spam", "Junk"), ("ham", "Inbox")):
            box = mailbox.mbox(self.path / "Mail" / name)
            for one in mail:
                if one.label == label and one is not chosen:
                    box.add(one.raw)
            box.close()

    def run(self, command: Command) -> None:
        """Run a command; its status and output are those that the page shows."""
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TAMIS_CORE") if name in os.environ}
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=self.path,
            env={
                **kept,
                "HOME": str(self.path),
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "LANG": "C.UTF-8",
                "COLUMNS": "80",
                "NO_COLOR": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
        allowed = {0, 1, 2} if command.text.startswith("tamis sort") else {0}  # the status is the verdict
        assert done.returncode in allowed, f"{command.text}\n{done.stdout}"
        assert "Traceback" not in done.stdout, done.stdout
        if command.expected is not None:
            checker, options = OutputChecker(), ELLIPSIS | NORMALIZE_WHITESPACE
            assert checker.check_output(command.expected, done.stdout, options), (
                f"$ {command.text}\nexpected:\n{command.expected}\ngot:\n{done.stdout}"
            )


def check_block(example: Example, language: str) -> None:
    """Check, and on some pages run, the commands of one block."""
    page = Path(example.path).name
    for command in read_commands(language, str(example.parsed)):
        check_understood(command)
        if page in EXECUTED and not command.text.startswith(tuple(NOT_RUN)):
            home = example.namespace.setdefault("_shell_home", None) or Home()
            example.namespace["_shell_home"] = home
            home.run(command)
