"""`tamis watch maildir`: sort new mail of a Maildir, and learn from what its owner does."""

import shlex
import sys
from argparse import ArgumentParser, Namespace
from typing import TextIO

from tamis_mail.mailbox.raw_message import printable
from tamis_mail.serving.daemon import make_argument_type, read_positive
from tamis_mail.serving.logs import Log
from tamis_mail.surfaces.maildir.mailbox import MaildirMailbox
from tamis_mail.watching import options as watching_options


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Watch a Maildir and its subfolders. New mail in the inbox is moved to Junk if it is spam, and what "
        "you move into and out of Junk is learned. Messages are renamed from one folder to another: they are "
        "never changed, and never deleted.\n\n"
        "A Maildir that was never watched is only read, as with --dry-run, until --move is given once."
    )
    parser.add_argument("path", metavar="PATH", help="the Maildir, such as ~/Maildir")
    watching_options.add_options(parser)
    parser.add_argument(
        "--poll",
        metavar="SECONDS",
        type=make_argument_type(read_positive),
        help="check for changes at this interval, and do not wait for notifications of the system: for "
        "network file systems",
    )


def run(out: TextIO, options: Namespace) -> int:
    """Watch until a signal ends it."""
    log = Log(sys.stderr, options.log_format)
    mailbox = MaildirMailbox(
        options.path,
        junk=options.junk,
        unsure=options.unsure,
        poll=None if options.poll is None else float(options.poll),
        report=lambda event, reason: log.write(event, reason=reason),
    )
    if options.move:
        mailbox.refuse_unless_writable()
    name = printable(mailbox.path)
    try:
        return watching_options.run(
            out,
            options,
            mailbox,
            account=f"maildir {name}",
            source=name,
            # printed, with --move, after a first pass that moved nothing
            command=f"tamis watch maildir {shlex.quote(printable(options.path))}",
        )
    finally:
        mailbox.close()
