"""`tamis watch imap`: sort new mail of an IMAP account, and learn from what its owner does."""

from argparse import ArgumentParser, Namespace
from typing import TextIO

from tamis_mail.surfaces.imap.account_options import (
    add_account_options,
    format_account,
    load_mailbox_module,
    make_account,
)
from tamis_mail.watching import options as watching_options


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Watch an IMAP account. New mail in the inbox is moved to Junk if it is spam, and what you move into "
        "and out of Junk is learned. The account is one that tamis setup imap has written, or is given by "
        "options. Messages are moved by the server: they are never changed, and never deleted.\n\n"
        "An account that was never watched is only read, as with --dry-run, until --move is given once."
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the account (default: the only one that was set up)"
    )
    watching_options.add_options(parser)
    add_account_options(parser)


def run(out: TextIO, options: Namespace) -> int:
    """Watch until a signal ends it."""
    account = make_account(options, options.name)
    options.keywords = options.keywords or account.keywords  # whether sorted mail is marked
    mailbox = load_mailbox_module().ImapMailbox(account, max_size=options.max_size)
    try:
        return watching_options.run(
            out,
            options,
            mailbox,
            account=f"imap {account.user} {account.host}",
            source="imap",
            # printed, with --move, after a first pass that moved nothing
            command=f"tamis watch imap {format_account(options, account)}",
        )
    finally:
        mailbox.close()
