"""--spam, --ham or a folder → labelled mail, and a line on stderr that tells how far it has been read."""

import sys
import time
from argparse import Namespace
from types import TracebackType

from tamis.progress import Line
from tamis_mail.mailbox import Letter
from tamis_mail.reporting.mail import Labelled, labelled
from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.sources import bar, remarks

__all__ = ["Reading", "add_mail", "mail_of"]


def add_mail(parser: Parser) -> None:
    """The options that name labelled mail."""
    parser.add_argument(
        "root",
        nargs="?",
        metavar="FOLDER",
        help="a folder of mail whose subfolders say what is in them, as Junk and Inbox do",
    )
    parser.add_argument("--spam", nargs="+", action="extend", metavar="PATH", help="mail that is spam")
    parser.add_argument("--ham", nargs="+", action="extend", metavar="PATH", help="mail that is wanted")


def mail_of(options: Namespace) -> Labelled:
    """The mail that was named, or the sample."""
    return labelled(options.spam or (), options.ham or (), options.root)


class Reading:
    """Draws how much of labelled mail has been read, where somebody can see it; call it with each letter."""

    def __init__(self, command: str, mail: Labelled, *, quiet: bool = False) -> None:
        self._command = command
        self._mail = mail
        self._quiet = quiet
        self._line = Line(sys.stderr)
        self._shown = self._line.is_terminal and not quiet
        self._size = sum(part.size() for part in mail.parts) if self._shown else 0
        self._begun = time.monotonic()
        self._passed = self._last = 0
        self.read = 0

    def __enter__(self) -> "Reading":
        return self

    def __call__(self, letter: Letter) -> None:
        self.read += 1
        if letter.position < self._last:  # the next part has begun
            self._passed += self._last
        self._last = letter.position
        if self._shown and self._line.is_due(now := time.monotonic()):
            share = (self._passed + self._last) / self._size if self._size else 0.0
            self._line.draw(bar(self._command, self.read, share, now - self._begun), now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._line.draw("", 0.0)
        for name, reason in self.unread:
            sys.stderr.write(
                f"tamis {self._command}: {name} could not be read ({reason}) and was passed over\n"
            )
        for source in (part.source for part in self._mail.parts if part.source and not self._quiet):
            sys.stderr.writelines(f"tamis {self._command}: {line}\n" for line in remarks(source))

    @property
    def unread(self) -> list[tuple[str, str]]:
        """What could not be read, and why."""
        return [one for part in self._mail.parts for one in part.unread()]
