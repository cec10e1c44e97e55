"""Folders of mail → sources with labels guessed from their names, which are printed before learning."""

import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO, TypeVar

from tamis.progress import Line
from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox import Source, SourceError, guess_label, open_source
from tamis_mail.mailbox.labels import find_all_folders
from tamis_mail.mailbox.raw_message import printable
from tamis_mail.surfaces.cli.since import DateFilter
from tamis_mail.surfaces.cli.sources import join_names

T = TypeVar("T")
_MAX_NAMES = 20  # folders that one line lists


@dataclass(frozen=True, slots=True)
class _Mailbox:
    """A mailbox whose name implies a label."""

    source: Source
    label: str
    messages: int  # messages that will be learned
    total: int  # all messages
    first_day: str  # only messages since this day will be learned; empty for all messages

    def describe(self) -> str:
        of_all = f" of {self.total:,}" if self.first_day else ""
        noun = "message" if self.total == 1 else "messages"
        since = f" since {self.first_day}" if self.first_day else ""
        reason = "by its name" if guess_label(self.source.path) == self.label else "as an inbox"
        return (
            f"{printable(self.source.path)}: {self.messages:,}{of_all} {noun}{since}, taken for {self.label} "
            f"{reason}"
        )


def open_labelled_folders(
    out: TextIO, roots: Sequence[str], *, since: int | None = None, quiet: bool = False
) -> list[tuple[str, Source]]:
    """Find the mailboxes below some folders, print the label of each, and return them with their labels.

    Mailboxes without messages are left out. Raise SourceError unless there are messages of both labels.
    """
    labels: dict[str, tuple[str, str]] = {}  # by real path: path and label
    left_out: dict[str, list[str]] = {}  # by reason: names
    for root in roots:
        open_source(root)  # raises an error for a path without mail
        labelled, unlabelled = find_all_folders(root)
        for path, label in labelled:
            labels.setdefault(os.path.realpath(path), (path, label))
        for path, reason in unlabelled:
            left_out.setdefault(reason, []).append(path)
    with _MessageCounter(since, quiet=quiet) as counter:
        mailboxes = [box for path, label in labels.values() if (box := _open_mailbox(path, label, counter))]
    _refuse_unless_both_labels(roots, mailboxes, counter.first_day)
    if not quiet:
        out.writelines(f"{mailbox.describe()}\n" for mailbox in mailboxes)
        out.writelines(f"{line}\n" for line in _describe_left_out(left_out, labels))
        out.flush()
    return [(mailbox.label, mailbox.source) for mailbox in mailboxes]


class _MessageCounter:
    """Counts the messages of sources; shows the number on a terminal."""

    def __init__(self, since: int | None, *, quiet: bool) -> None:
        self._since = since
        self.first_day = "" if since is None else DateFilter(since).day  # of the messages to learn
        self._line = Line(sys.stderr)
        self._is_drawn = self._line.is_terminal and not quiet
        self._total = 0

    def __enter__(self) -> "_MessageCounter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_drawn:
            self._line.draw("", 0.0)  # clear the line

    def count(self, source: Source) -> tuple[int, int]:
        """Count the messages of a source that will be learned, and all of its messages."""
        if self._since is not None:
            date_filter = DateFilter(self._since)
            messages = sum(
                1 for _ in date_filter.select(message.raw for message in self._show_progress(source))
            )
            return messages, messages + date_filter.older + date_filter.undated
        if source.kind in {"maildir", "mh"}:  # each file is a message, and need not be read
            messages = sum(1 for _ in self._show_progress(source.list_paths()))
        else:
            messages = sum(1 for _ in self._show_progress(source))
        return messages, messages

    def _show_progress(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items, and show on the terminal how many there were so far."""
        for item in items:
            self._total += 1
            if self._is_drawn and self._line.is_due(now := time.monotonic()):
                self._line.draw(f"learn: counting, {self._total:,} messages", now)
            yield item


def _open_mailbox(path: str, label: str, counter: _MessageCounter) -> _Mailbox | None:
    """Open a mailbox, and count its messages; return None if it has none."""
    try:
        source = open_source(path, label=label)
    except SourceError:
        # A folder without mail. (noqa: pathlib is slower, and there may be many folders.)
        if os.path.isdir(path):  # noqa: PTH112
            return None
        raise
    messages, total = counter.count(source)
    return _Mailbox(source, label, messages, total, counter.first_day) if total else None


def _describe_left_out(left_out: dict[str, list[str]], labels: Collection[str]) -> Iterator[str]:
    for reason, paths in left_out.items():
        if names := [printable(path) for path in paths if os.path.realpath(path) not in labels]:
            yield f"left out, {join_names(names, _MAX_NAMES)}: {reason}"


def _refuse_unless_both_labels(roots: Sequence[str], mailboxes: Sequence[_Mailbox], first_day: str) -> None:
    """Raise SourceError unless messages of both labels will be learned."""
    mailboxes = [mailbox for mailbox in mailboxes if mailbox.messages]
    labels = {mailbox.label for mailbox in mailboxes}
    if len(labels) == 2:
        return
    given = join_names([printable(root) for root in roots])
    mail = f"mail since {first_day}" if first_day else "mail"
    if not labels:
        raise SourceError(
            f"{given} has no {mail} in a folder whose name says spam or ham, as Junk and Inbox do, so "
            "nothing was learned: say what it is, with tamis learn --spam PATH or --ham PATH"
        )
    label = labels.pop()
    missing = HAM if label == SPAM else SPAM
    names = [printable(mailbox.source.path) for mailbox in mailboxes]
    raise SourceError(
        f"{given} has {label} ({join_names(names)}) and no {mail} in a folder whose name says {missing}, "
        f"expected both, so nothing was learned: name the {missing}, with tamis learn --{label} {names[0]} "
        f"--{missing} PATH"
    )
