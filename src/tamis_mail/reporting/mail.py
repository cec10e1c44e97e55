"""Open labelled messages by their paths, or the sample mailbox if no path is given."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tamis_mail import sample
from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox import RawMessage, Source, SourceError, find_labelled_folders, open_source
from tamis_mail.mailbox.raw_message import printable


@dataclass(frozen=True)
class LabelledPart:
    """Messages of one label; they can be iterated repeatedly."""

    name: str
    messages: Callable[[], Iterator[tuple[RawMessage, bool]]]  # yields (message, whether it is spam)
    size: Callable[[], int]  # returns the largest `position` of a message, to measure progress
    unread: Callable[[], Sequence[tuple[str, str]]]  # returns names and reasons of files not read
    source: Source | None = None  # None for the sample


@dataclass(frozen=True)
class LabelledMail:
    """Labelled mail in several parts."""

    name: str
    parts: tuple[LabelledPart, ...]

    def __iter__(self) -> Iterator[tuple[RawMessage, bool]]:
        for part in self.parts:
            yield from part.messages()


def open_labelled(
    spam: Sequence[str] = (),
    ham: Sequence[str] = (),
    root: str | None = None,
    *,
    seed: int = 2026,
    advice: str = "name them with --spam PATH and --ham PATH",
) -> LabelledMail:
    """Open the named mail, else the folders below a root whose names imply a label, else the sample.

    `advice` is part of the error message for a root without both labels.
    """
    if root is not None and (spam or ham):
        raise ValueError(
            f"the folder {printable(root)} was given besides --spam or --ham, expected one or the other: "
            "a folder with subfolders whose names say spam or ham, or both --spam and --ham"
        )
    if bool(spam) != bool(ham):
        present, missing = ("--spam", "--ham") if spam else ("--ham", "--spam")
        raise ValueError(f"only {present} was given, expected mail of both kinds: add {missing} PATH")
    if spam:
        sources = [(path, SPAM) for path in spam] + [(path, HAM) for path in ham]
        return LabelledMail(
            " ".join(printable(path) for path, _ in sources),
            tuple(_open_part(path, label) for path, label in sources),
        )
    if root is not None:
        parts = [_open_part(path, label, subfolders=False) for path, label in _find_mailboxes(root, advice)]
        return LabelledMail(printable(root), tuple(parts))
    return LabelledMail("the sample mailbox", (_open_sample(seed),))


def _find_mailboxes(root: str, advice: str) -> list[tuple[str, str]]:
    """Return the paths and labels of the mailboxes below a root; raise unless there is spam and ham."""
    open_source(root)  # raises an error for a path without mail
    mailboxes = find_labelled_folders(root)
    missing = {SPAM, HAM} - {label for _, label in mailboxes}
    if missing:
        names = ", ".join(f"{printable(os.path.relpath(path, root))} ({label})" for path, label in mailboxes)
        raise SourceError(
            f"{printable(root)} has no folder whose name says {' or '.join(sorted(missing))} "
            f"(found: {names or 'none'}), expected one of each: {advice}"
        )
    return mailboxes


def _open_part(path: str, label: str, *, subfolders: bool = True) -> LabelledPart:
    if path == "-":
        raise SourceError(
            "standard input was given, expected mail that can be read twice: save it to a file, and name that"
        )
    source: Source = open_source(path, label=label, subfolders=subfolders)

    def messages() -> Iterator[tuple[RawMessage, bool]]:
        return ((message, label == SPAM) for message in source)

    return LabelledPart(
        printable(path), messages, size=lambda: source.size or 0, unread=lambda: source.unread, source=source
    )


def _open_sample(seed: int) -> LabelledPart:
    def messages() -> Iterator[tuple[RawMessage, bool]]:
        for number, written in enumerate(sample.messages(seed), 1):
            yield RawMessage(written.raw, f"{number:04}-{written.kind}.eml", number), written.label == SPAM

    return LabelledPart(
        "the sample mailbox", messages, size=lambda: sum(1 for _ in sample.messages(seed)), unread=lambda: ()
    )
