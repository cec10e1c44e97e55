"""`tamis learn`: learn messages with labels."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib import import_module
from itertools import groupby

from tamis_mail.labels import HAM, SPAM, check_label
from tamis_mail.mailbox.names import reason_to_leave_out
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.sieve import LabelledMail, Sieve
from tamis_mail.surfaces.cli.sources import (
    SourceReader,
    Task,
    name_of,
    open_sources,
    prepare_bulk_work,
    run_tasks,
)
from tamis_mail.surfaces.cli.streams import warn_of_log

TYPE_CHECKING = False  # importing `typing` and `argparse` would take 4 ms
if TYPE_CHECKING:
    from argparse import Namespace
    from collections import Counter
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from tamis_mail.mailbox import Source
    from tamis_mail.surfaces.cli.parser import Parser
    from tamis_mail.surfaces.cli.since import DateFilter

    LabelledPaths = tuple[str | None, list[str]]  # a label or UNLABELLED, and paths of mail
    LabelledSource = tuple[str | None, Source]  # a label or UNLABELLED, and the mail at one path

UNLABELLED = None  # stands for the label of mail without labels


def configure(parser: Parser) -> None:
    import_module("tamis_mail.surfaces.cli.learn_options").configure(parser)


def run(out: TextIO, options: Namespace) -> int:
    labelled_paths: Sequence[LabelledPaths] = options.labelled_paths or []
    _refuse_unclear_labels(options, labelled_paths)
    sent = open_sources(options.sent, allow_mbox=options.mbox) if options.sent else []
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
            for source in open_sources(paths, allow_mbox=options.mbox, label=label, other_paths=all_paths)
        ]
        _refuse_mail_with_two_labels(labelled_sources)
    date_filter = None if options.since is None else _make_date_filter(options.since)
    status = learn(out, "learn", options, labelled_sources, date_filter) if labelled_sources else 0
    if not sent:
        return status
    sent_status: int = import_module("tamis_mail.surfaces.cli.learn_sent").learn_sent(out, options, sent)
    return max(status, sent_status)


def _make_date_filter(since: int) -> DateFilter:
    date_filter: DateFilter = import_module("tamis_mail.surfaces.cli.since").DateFilter(since)
    return date_filter


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
        or f"{os.sep}." in inner_path[len(outer_path) :]  # such folders are not read with the outer one
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
    prepare_bulk_work()  # sets memory, garbage collector and threads of this process for speed
    with Sieve.open(options.store, log=not options.no_log, bulk=True) as sieve:
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
                        ("guessed", "unsure", "known"),  # an unsure message is not learned
                        label="unlabelled",
                    )
                    for _, source in group
                ]
        total, status = run_tasks(out, command, options, tasks, so_far="learned so far")
    warn_of_log(command, None if options.quiet else sieve.log_fault)  # if the log could not be written
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
    # `learned` yields the numbers of messages by action, for one source after the other.
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
