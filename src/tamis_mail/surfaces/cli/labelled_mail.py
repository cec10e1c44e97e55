"""Read labelled mail, given by --spam, --ham or a folder, with a progress line on stderr."""

import sys
import time
from argparse import Namespace
from types import TracebackType

from tamis.progress import Line
from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting.mail import LabelledMail, open_labelled
from tamis_mail.surfaces.cli.parser import Parser
from tamis_mail.surfaces.cli.sources import format_bar, list_remarks


def add_mail_options(parser: Parser) -> None:
    """Add the options for labelled mail."""
    parser.add_argument(
        "root",
        nargs="?",
        metavar="FOLDER",
        help="a folder of mail whose subfolders are named by their content, as Junk and Inbox are",
    )
    parser.add_argument("--spam", nargs="+", action="extend", metavar="PATH", help="mail that is spam")
    parser.add_argument("--ham", nargs="+", action="extend", metavar="PATH", help="mail that is wanted")


def open_mail(options: Namespace) -> LabelledMail:
    """Open the mail that is named, or the sample mailbox."""
    return open_labelled(options.spam or (), options.ham or (), options.root)


class ReadingProgress:
    """Shows on a terminal how much mail has been read; at its end, it prints what could not be read.

    The mail has one part for each of its mailboxes.
    """

    def __init__(self, command: str, mail: LabelledMail, *, quiet: bool = False) -> None:
        self._command = command
        self._mail = mail
        self._quiet = quiet
        self._line = Line(sys.stderr)
        self._is_drawn = self._line.is_terminal and not quiet
        self._size = sum(part.size() for part in mail.parts) if self._is_drawn else 0
        self._start = time.monotonic()
        self._offset = 0  # bytes of the parts that were read completely
        self._position = 0  # bytes that were read of the present part
        self.read = 0  # number of messages

    def __enter__(self) -> "ReadingProgress":
        return self

    def __call__(self, message: RawMessage) -> None:
        """Note that a message was read."""
        self.read += 1
        if message.position < self._position:  # the first message of the next part
            self._offset += self._position
        self._position = message.position
        if self._is_drawn and self._line.is_due(now := time.monotonic()):
            fraction = (self._offset + self._position) / self._size if self._size else 0.0
            self._line.draw(format_bar(self._command, self.read, fraction, now - self._start), now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_drawn:
            self._line.draw("", 0.0)  # clear the progress bar
        for name, reason in self.unread:
            sys.stderr.write(f"tamis {self._command}: {name} could not be read ({reason}) and was skipped\n")
        for source in (part.source for part in self._mail.parts if part.source and not self._quiet):
            # The remarks say what was left out, and that subfolders were read.
            sys.stderr.writelines(f"tamis {self._command}: {line}\n" for line in list_remarks(source))

    @property
    def unread(self) -> list[tuple[str, str]]:
        """The files that could not be read, and the reasons."""
        return [one for part in self._mail.parts for one in part.unread()]
