"""`tamis learn`: learn messages with labels."""

import argparse
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import Any, TextIO

from tamis_mail.labels import HAM, SPAM, check_label
from tamis_mail.mailbox import Source
from tamis_mail.mailbox.names import reason_to_leave_out
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.sieve import LabelledMail, Sieve
from tamis_mail.surfaces.cli.parser import Parser, add_log_option, add_quiet_option, add_store_option
from tamis_mail.surfaces.cli.since import DateFilter, add_since_option
from tamis_mail.surfaces.cli.sources import (
    SourceReader,
    Task,
    name_of,
    open_sources,
    prepare_bulk_work,
    run_tasks,
)
from tamis_mail.surfaces.cli.streams import warn_of_log

UNLABELLED = None  # stands for the label of mail without labels
LabelledPaths = tuple[str | None, list[str]]  # a label or UNLABELLED, and paths of mail
LabelledSource = tuple[str | None, Source]  # a label or UNLABELLED, and the mail at one path


class _AppendLabelledPaths(argparse.Action):
    """Collects pairs of a label and its paths in the order of the command line."""

    def __call__(self, parser: Any, namespace: Namespace, values: Any, option: str | None = None) -> None:
        if option == "--label":
            label, *paths = values
        else:
            label, paths = self.const, list(values)
        namespace.labelled_paths = [*(namespace.labelled_paths or []), (label, paths)]


def configure(parser: Parser) -> None:
    """Add the options of `tamis learn`."""
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
    add(
        "--spam",
        nargs="*",
        metavar="PATH",
        action=_AppendLabelledPaths,
        dest="labelled_paths",
        const="spam",
        help="mail that is spam",
    )
    add(
        "--ham",
        nargs="*",
        metavar="PATH",
        action=_AppendLabelledPaths,
        dest="labelled_paths",
        const="ham",
        help="mail that is wanted",
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
        const=UNLABELLED,
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


def run(out: TextIO, options: Namespace) -> int:
    """Learn the messages of all sources."""
    labelled_paths: Sequence[LabelledPaths] = options.labelled_paths or []
    _refuse_unclear_labels(options, labelled_paths)
    sent = open_sources(options.sent, mbox=options.mbox) if options.sent else []
    labelled_sources: Sequence[LabelledSource]
    if options.paths:
        folder_labels = import_module("tamis_mail.surfaces.cli.folder_labels")
        labelled_sources = folder_labels.open_labelled_folders(
            out, options.paths, since=options.since, quiet=options.quiet
        )
    else:
        all_paths = [path for _, paths in labelled_paths for path in paths]
        labelled_sources = [
            (label, source)
            for label, paths in labelled_paths
            for source in open_sources(paths, mbox=options.mbox, label=label, other_paths=all_paths)
        ]
        _refuse_mail_with_two_labels(labelled_sources)
    date_filter = None if options.since is None else DateFilter(options.since)
    status = learn(out, "learn", options, labelled_sources, date_filter) if labelled_sources else 0
    if not sent:
        return status
    sent_status: int = import_module("tamis_mail.surfaces.cli.learn_sent").learn_sent(out, options, sent)
    return max(status, sent_status)


def _refuse_unclear_labels(options: Namespace, labelled_paths: Sequence[LabelledPaths]) -> None:
    """Exit with a usage error if some mail has no label, or if standard input is used twice."""
    if not labelled_paths and not options.paths and not options.sent:
        options.parser.error(
            "no label was given, expected --spam, --ham or --label NAME, or a PATH with folders such as Junk "
            "and Inbox, or --sent PATH"
        )
    if options.paths:
        first = printable(options.paths[0])
        if labelled_paths:
            options.parser.error(
                f"{first} was given without a label, and other mail with one: put {first} after --spam, "
                "--ham or --label NAME, too"
            )
        if first in {SPAM, HAM}:
            options.parser.error(f"got {first}, which is a label, expected a PATH: write --{first}")
        if "-" in options.paths:
            options.parser.error(
                "standard input has no name from which a label could be guessed: add --spam or --ham"
            )
    if sum(not paths or "-" in paths for _, paths in labelled_paths) + ("-" in options.sent) > 1:
        options.parser.error(
            "standard input is used twice, and can be read once: give one of the labels a PATH"
        )


def _refuse_mail_with_two_labels(labelled_sources: Sequence[LabelledSource]) -> None:
    """Raise ValueError for nested folders with different labels: the last label would apply to both."""
    for number, (label, source) in enumerate(labelled_sources):
        for other_label, other_source in labelled_sources[number + 1 :]:
            if label != other_label and (
                _contains(source, other_source, label) or _contains(other_source, source, other_label)
            ):
                raise ValueError(
                    f"{printable(source.path)} has one label and {printable(other_source.path)} another, and "
                    "one lies within the other: name folders that share no mail"
                )


def _contains(outer: Source, inner: Source, label: str | None) -> bool:
    """Whether all mail of the inner source is read with the outer one, which has this label."""
    if "stdin" in (outer.kind, inner.kind):
        return False
    outer_path, inner_path = os.path.realpath(outer.path), os.path.realpath(inner.path)
    if outer_path == inner_path:
        return True
    if (
        outer.kind != "folder"
        or not inner_path.startswith(outer_path + os.sep)
        or f"{os.sep}." in inner_path[len(outer_path) :]
    ):
        return False
    folder = outer_path
    for name in inner_path[len(outer_path) :].split(os.sep)[1:]:  # noqa: PTH206 (pathlib takes 8 ms)
        folder = f"{folder}{os.sep}{name}"
        if label and reason_to_leave_out(folder, outer.path, label):
            return False
    return True


def learn(
    out: TextIO,
    command: str,
    options: Namespace,
    labelled_sources: Sequence[LabelledSource],
    date_filter: DateFilter | None = None,
) -> int:
    """Learn sources, each under its label; print one line per source; return the exit status."""
    for label, _ in labelled_sources:
        if label is not UNLABELLED:
            check_label(label)
    prepare_bulk_work()
    with Sieve.open(options.store, log=not options.no_log) as sieve:
        tasks: list[Task] = []
        for is_labelled, group in groupby(labelled_sources, lambda pair: pair[0] is not UNLABELLED):
            if is_labelled:
                labelled = [(str(label), source) for label, source in group]
                tasks += _plan_labelled(sieve, command, options, labelled, date_filter)
            else:
                tasks += [
                    Task(
                        source,
                        partial(_learn_unlabelled, sieve, source, date_filter),
                        ("guessed", "unsure", "known"),
                        "unlabelled",
                    )
                    for _, source in group
                ]
        total, status = run_tasks(out, command, options, tasks, so_far="learned so far")
    warn_of_log(command, None if options.quiet else sieve.log_fault)
    if date_filter and not options.quiet:
        out.write(date_filter.format_summary() + "\n")
    elif not total and not options.quiet:
        sys.stderr.write(f"tamis {command}: there was no message\n")
    return status


def _plan_labelled(
    sieve: Sieve,
    command: str,
    options: Namespace,
    labelled_sources: Sequence[tuple[str, Source]],
    date_filter: DateFilter | None,
) -> list[Task]:
    """Plan to learn sources together: messages of one are read while those of another are written."""
    readers = [SourceReader(command, source, quiet=options.quiet) for _, source in labelled_sources]
    learned = sieve.learn_sources(
        [
            LabelledMail(_read_messages(reader, date_filter), label, name_of(source), reader.advance)
            for reader, (label, source) in zip(readers, labelled_sources, strict=True)
        ]
    )
    return [
        Task(source, lambda _: next(learned), ("learned", "moved", "known"), label, reader)
        for reader, (label, source) in zip(readers, labelled_sources, strict=True)
    ]


def _learn_unlabelled(
    sieve: Sieve, source: Source, date_filter: DateFilter | None, reader: SourceReader
) -> Counter[str]:
    return sieve.learn_unlabelled(
        _read_messages(reader, date_filter), source=name_of(source), progress=reader.advance
    )


def _read_messages(reader: SourceReader, date_filter: DateFilter | None) -> Iterator[bytes]:
    messages = reader.contents()
    return date_filter.select(messages) if date_filter else messages
