"""The options of `tamis learn`, for the parser; `plain_options` reads the usual ones without it."""

import argparse
from argparse import Namespace
from typing import Any

from tamis_mail.labels import HAM, SPAM
from tamis_mail.surfaces.cli.parser import Parser, add_log_option, add_quiet_option, add_store_option
from tamis_mail.surfaces.cli.since import add_since_option


class _AppendLabelledPaths(argparse.Action):
    """Collects pairs of a label and its paths in the order of the command line."""

    def __call__(self, parser: Any, namespace: Namespace, values: Any, option: str | None = None) -> None:
        if option == "--label":
            label, *paths = values
        else:
            label, paths = self.const, list(values)
        namespace.labelled_paths = [*(namespace.labelled_paths or []), (label, paths)]


def configure(parser: Parser) -> None:
    parser.description = (
        "Learn messages. Without a PATH after the label, or with -, one message is read from standard "
        "input.\n\n"
        "A PATH without a label is a folder of mail whose labels are guessed from the names of its folders: "
        "Junk is spam; Inbox, Archive and a Maildir itself are ham; Sent, Drafts, Trash and names that say "
        "neither are left out. The label of each folder is printed first, and nothing is learned unless "
        "there is mail of both kinds.\n\n"
        "A message that was learned before is known and counts once; one that was learned under another "
        "label is moved. Learning can be interrupted at any time, and run again.\n\n"
        "A Maildir is read with its subfolders. Folders and mboxes below a PATH whose names contradict the "
        "label, as Junk below --ham, are left out, and so are Sent, Drafts and Trash, and links to targets "
        "outside; they are listed on stderr. To include one, give its own PATH."
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="mail whose folders are named by their content")
    for label, text in ((SPAM, "mail that is spam"), (HAM, "mail that is wanted")):
        add(
            f"--{label}",
            nargs="*",
            metavar="PATH",
            action=_AppendLabelledPaths,
            dest="labelled_paths",
            const=label,
            help=text,
        )
    add(
        "--label",
        nargs="+",
        metavar=("NAME", "PATH"),
        action=_AppendLabelledPaths,
        dest="labelled_paths",
        help="wanted mail with another label, such as work; may be given several times",
    )
    add(
        "--unlabelled",
        nargs="+",
        metavar="PATH",
        action=_AppendLabelledPaths,
        dest="labelled_paths",
        const=None,  # UNLABELLED of `learn`
        help="mail without labels: the most confidently classified messages are learned with guessed labels",
    )
    add(
        "--sent",
        nargs="+",
        metavar="PATH",
        action="extend",
        default=[],
        help="mail that you sent, from which only the people to whom you write are learned",
    )
    add_since_option(parser)
    add_common_options(parser)
    parser.examples = [
        (
            "tamis learn --spam ~/Mail/Junk --ham ~/Mail/Inbox ~/Mail/Archive",
            "start: a few hundred of each suffice",
        ),
        ("tamis learn --spam < message", "one message, as from a key of your mail program"),
        (
            "tamis learn --label work ~/Mail/Work --label lists ~/Mail/Lists",
            "sort into more than two",
        ),
        ("tamis learn --since 2y ~/Maildir", "all folders by their names, without old mail"),
        ("tamis learn --sent ~/Mail/Sent", "know the people to whom you write"),
        ("zcat old.mbox.gz | tamis learn --mbox --ham -", "many messages from a pipe"),
    ]


def add_common_options(parser: Parser) -> None:
    """Add the options that learning shares with forgetting and learning under another label."""
    parser.add_argument("--mbox", action="store_true", help="standard input is an mbox of many messages")
    add_log_option(parser)
    add_store_option(parser)
    add_quiet_option(parser)
