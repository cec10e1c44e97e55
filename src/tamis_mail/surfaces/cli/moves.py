"""`tamis sort --move`: move messages of a Maildir to other Maildirs by their verdicts."""

import os
import sys
from argparse import Namespace
from collections import Counter
from typing import TextIO

from tamis_mail.labels import SPAM, find_missing
from tamis_mail.mailbox import RawMessage, SourceError, open_source
from tamis_mail.mailbox.folders import is_maildir, list_folder
from tamis_mail.mailbox.maildir import MaildirTarget, refuse_unless_maildir, resolve_target
from tamis_mail.mailbox.raw_message import path_bytes, printable
from tamis_mail.sieve import Sieve
from tamis_mail.surfaces.cli.sources import join_names
from tamis_mail.surfaces.cli.streams import discard


def open_moves(options: Namespace) -> list["Moves"]:
    """Open the moves of all sources, and check sources and targets before any message is moved."""
    return [Moves(path, options) for path in options.paths]


def refuse_unless_learned(sieve: Sieve | None, store_path: str | os.PathLike[str]) -> Sieve:
    """Raise SourceError if the filter cannot distinguish spam: every message would be moved as unsure."""
    missing = find_missing(sieve.store.labels() if sieve else ())
    if sieve is None or missing:
        raise SourceError(
            f"the store {printable(str(store_path))} has not learned {missing} yet, expected spam and wanted "
            "mail, without which every message is unsure: learn both first (tamis learn --help)"
        )
    return sieve


class Moves:
    """Moves messages from one Maildir, prints each, and counts them."""

    def __init__(self, path: str, options: Namespace) -> None:
        self.source = open_source(path)
        refuse_unless_maildir(path, self.source.kind, is_read_only=options.dry_run)
        self._is_quiet: bool = options.quiet
        self._is_dry_run: bool = options.dry_run
        self._targets: dict[str, MaildirTarget] = {}
        for label, target_path in ((SPAM, options.move), ("unsure", options.unsure)):
            if target_path:
                self._targets[label] = self._open_target(target_path)
        self._actions: Counter[str] = Counter()

    def move(self, label: str, path: str, name: str) -> str | None:
        """Move a message, if its label has a target; return its new path, or in a dry run the target's.

        Return None if it stays where it is, or is not there any more.
        """
        target = self._targets.get(label)
        if target is None:
            self._actions["stay"] += 1
            return None
        if os.path.islink(path):  # noqa: PTH114 (pathlib is slower, and there are many messages)
            self._skip(f"{name} is a link, and was left where it is", "stay")
            return None
        if self._is_dry_run:
            self._actions[label] += 1
            return target.path
        try:
            was_created = target.is_created
            new_path = target.take(path)
        except FileNotFoundError:
            self._skip(
                f"{name} was not moved: another program has moved, renamed or deleted it meanwhile",
                "vanished",
            )
            return None
        except OSError as error:
            reason = error.strerror or str(error)
            raise SourceError(
                f"{name} of {printable(self.source.path)} could not be moved to "
                f"{printable(target.path)} ({reason}), {self.n_moved:,} were moved before it: check "
                "permissions and free space, and run it again"
            ) from None
        if not was_created:
            self._print(f"created the Maildir {printable(os.path.realpath(target.path))}")
        self._actions[label] += 1
        return new_path

    @property
    def n_moved(self) -> int:
        """The number of messages that were moved."""
        return sum(self._actions[label] for label in self._targets)

    def format_summary(self) -> str:
        """Summarise what was done with the messages of this Maildir."""
        verb = "would be moved" if self._is_dry_run else "moved"
        parts = [
            f"{self._actions[label]:,} {verb} to {printable(os.path.realpath(target.path))} ({label})"
            for label, target in self._targets.items()
        ]
        parts.append(f"{self._actions['stay']:,} {'would stay' if self._is_dry_run else 'stayed'}")
        if vanished := self._actions["vanished"]:
            parts.append(f"{vanished:,} vanished")
        return f"{printable(self.source.path)}: {', '.join(parts)}"

    def remark_on_subfolders(self) -> None:
        """Print which subfolders of the Maildir were not sorted."""
        entries = [entry for entry in list_folder(self.source.path) if entry.name.startswith(".")]
        subfolders = [
            printable(entry.name)
            for entry in entries
            if is_maildir(entry.path)
            and not any(target.is_same_folder(entry.path) for target in self._targets.values())
        ]
        if subfolders:
            self._print(f"subfolders were not sorted: {join_names(subfolders)}; name one to sort it")

    def describe_move(self, new_path: str | None) -> dict[str, object]:
        """Return the JSON fields for the result of `move`."""
        fields: dict[str, object] = {"moved_to": None if new_path is None else printable(new_path)}
        if new_path is not None:
            # If the printed path is ambiguous, the field `moved_to_bytes` has the path in base64.
            named = path_bytes(RawMessage(b"", "", 0, new_path))
            fields |= {f"moved_to_{name.removeprefix('path_')}": value for name, value in named.items()}
        return fields | ({"dry_run": True} if self._is_dry_run else {})

    def write(self, out: TextIO, line: str) -> None:
        """Print a line at once; a reader who stops reading does not stop the moves."""
        try:
            out.write(line + "\n")
            out.flush()
        except BrokenPipeError:
            discard(out)

    def _open_target(self, target_path: str) -> MaildirTarget:
        target = MaildirTarget(resolve_target(target_path, self.source.path))
        if target.is_same_folder(self.source.path):
            raise SourceError(
                f"{printable(self.source.path)} is the folder to sort and the folder to move to, expected "
                "two: name another one after --move or --unsure"
            )
        return target

    def _skip(self, line: str, action: str) -> None:
        self._actions[action] += 1
        self._print(line)

    def _print(self, line: str) -> None:
        if not self._is_quiet:
            sys.stderr.write(f"tamis sort: {line}\n")
