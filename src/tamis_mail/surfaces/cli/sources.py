"""Read mail at paths, with a progress line on stderr and a summary per source."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from tamis.compiled import core
from tamis.progress import Line
from tamis_mail.framing import LARGEST, exceeds_limit
from tamis_mail.mailbox import RawMessage, Source, open_source
from tamis_mail.mailbox.raw_message import path_bytes, printable
from tamis_mail.records import record
from tamis_mail.surfaces.cli.streams import ERROR_STATUS

TYPE_CHECKING = False  # importing `typing` and `argparse` would take 4 ms
if TYPE_CHECKING:
    from argparse import Namespace
    from types import TracebackType
    from typing import TextIO

__all__ = [
    "SourceReader",
    "Task",
    "describe_oversize",
    "format_bar",
    "format_summary",
    "join_names",
    "list_remarks",
    "name_of",
    "open_sources",
    "path_bytes",
    "prepare_bulk_work",
    "run_tasks",
]

_MAX_NAMES = 3  # files or folders that a remark lists
_SWITCH_SECONDS = 0.0002  # after this time, a thread that runs Python lets another one run that waits


def open_sources(
    paths: Sequence[str],
    *,
    allow_mbox: bool = False,
    label: str | None = None,
    other_paths: Iterable[str] = (),
) -> list[Source]:
    """Open all paths before any is read, so that a wrong path is reported first. No path means stdin.

    With `allow_mbox`, standard input may be an mbox; without, it is one message. If the mail has a `label`,
    folders whose names contradict it are left out. The subfolders of a Maildir are read, too, except those in
    `other_paths`.
    """
    if sys.stdin is not None and sys.stdin.isatty() and (not paths or "-" in paths):
        sys.stderr.write("tamis: reading mail from the terminal; end it with Ctrl-D\n")
    other_paths = frozenset(map(os.path.realpath, {*paths, *other_paths} - {"-"}))
    return [
        open_source(path, allow_mbox=allow_mbox, label=label, subfolders=True, other_paths=other_paths)
        for path in paths or ["-"]
    ]


def prepare_bulk_work() -> None:
    """Configure memory, the garbage collector and threads for a process that ends after one command."""
    if core is not None:  # the compiled core
        # Memory that is freed is used again, not given back to the system; the next 31 MB of this thread lie
        # in pages of 2 MB, which the system makes faster than the same memory in pages of 4 KB.
        core.mail.keep_freed_memory()
        core.mail.reserve_large_pages()
    gc.disable()  # messages, features and verdicts refer to nothing that refers to them
    # NumPy would start a thread per core that waits for work in a busy loop, and the products are small.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # By default, a thread that returns from the compiled core would wait 5 ms for the interpreter's lock.
    sys.setswitchinterval(_SWITCH_SECONDS)


def name_of(source: Source) -> str:
    """Return the name of a source in the journal of the store."""
    return "stdin" if source.kind == "stdin" else os.path.abspath(source.path)  # noqa: PTH100 (pathlib takes 8 ms)


class SourceReader:
    """Reads the messages of a source; with `shows_progress`, it draws a progress bar if stderr is a terminal.

    At its end, it prints which files could not be read and, with `prints_remarks`, which subfolders were read
    and what was left out. Reading is ahead of learning: `read` counts the messages that were read, `done`
    those that were committed to the store.
    """

    def __init__(
        self,
        command: str,
        source: Source,
        *,
        quiet: bool = False,
        shows_progress: bool = True,
        prints_remarks: bool = True,
    ) -> None:
        self._command = command
        self._quiet = quiet
        self._prints_remarks = prints_remarks and not quiet
        self._source = source
        self._line = Line(sys.stderr)
        is_wanted = shows_progress and not quiet and source.kind not in ("stdin", "message")
        self._is_drawn = self._line.is_terminal and is_wanted
        self._start = 0.0
        self.read = 0
        self.done = 0

    def __enter__(self) -> SourceReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_drawn:
            self._line.draw("", 0.0)  # clear the progress bar
        for name, reason in self._source.unread:
            sys.stderr.write(f"tamis {self._command}: {name} could not be read ({reason}) and was skipped\n")
        if self._prints_remarks:
            sys.stderr.writelines(f"tamis {self._command}: {line}\n" for line in list_remarks(self._source))

    def messages(self) -> Iterator[RawMessage]:
        """Yield the messages of the source."""
        self._start = time.monotonic()
        size = (self._source.size or 0) if self._is_drawn else 0
        for message in self._source:
            self.read += 1
            if exceeds_limit(message.raw) and not self._quiet:
                sys.stderr.write(f"tamis {self._command}: {describe_oversize(message.name)}\n")
            if self._is_drawn and self._line.is_due(now := time.monotonic()):
                self._line.draw(
                    self._format_bar(message.position / size if size else 0.0, now - self._start), now
                )
            yield message

    def contents(self) -> Iterator[bytes]:
        """Yield the bytes of each message."""
        return (message.raw for message in self.messages())

    def advance(self, done: int) -> None:
        """Record how many messages are committed to the store."""
        self.done = done

    def _format_bar(self, fraction: float, seconds: float) -> str:
        return format_bar(self._command, self.read, fraction, seconds)


@record(frozen=True, slots=True)
class Task:
    """A source, and what is to be done with its messages."""

    source: Source
    process: Callable[[SourceReader], Counter[str]]  # returns the number of messages by action
    action_names: tuple[str, ...]  # in the order in which they are printed
    label: str = ""
    reader: SourceReader | None = None  # if it is None, one is made when the source is processed


def run_tasks(
    out: TextIO, command: str, options: Namespace, tasks: Iterable[Task], *, so_far: str
) -> tuple[int, int]:
    """Process the sources, print one line each, and return the number of messages and the exit status.

    If the user interrupts, the error names the number of messages that are done, after the words `so_far`.
    """
    total = 0
    status = 0
    for task in tasks:
        with task.reader or SourceReader(command, task.source, quiet=options.quiet) as reader:
            try:
                actions = task.process(reader)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"interrupted; {so_far}: {total + reader.done:,}; run again to go on"
                ) from None
        total += actions.total()
        status = ERROR_STATUS if task.source.unread else status
        if not options.quiet:
            out.write(format_summary(task.source, actions, task.action_names, task.label) + "\n")
            out.flush()
    return total, status


def format_summary(source: Source, actions: Counter[str], names: Sequence[str], label: str = "") -> str:
    """Summarise the actions on the messages of a source.

    >>> format_summary(
    ...     Source("inbox", "mbox", 0), Counter(learned=1200, known=3), ("learned", "moved", "known"), "ham"
    ... )
    'inbox: 1,200 learned, 0 moved, 3 known (ham)'
    """
    numbers = ", ".join(f"{actions[name]:,} {name}" for name in names)
    return f"{printable(source.path)}: {numbers}" + (f" ({label})" if label else "")


def list_remarks(source: Source) -> Iterator[str]:
    """Yield remarks on a source that was read: its subfolders, and what was left out."""
    if source.subfolders:
        yield f"{printable(source.path)} was read with its subfolders {join_names(source.subfolders)}"
    reasons: dict[str, list[str]] = {}
    for name, reason in source.left_out:
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        advice = (
            "; unpack it to include it"
            if "archive" in reason or "packed" in reason
            else ""
            if reason.endswith("not mail")
            else "; name it to include it"
        )
        yield f"left out, {join_names(names)}: {reason}{advice}"


def describe_oversize(name: str) -> str:
    """Describe a message that is larger than the limit."""
    return f"{name} is larger than {LARGEST // 10**6} MB: only its first {LARGEST // 10**6} MB count"


def join_names(names: Sequence[str], limit: int = _MAX_NAMES) -> str:
    """Join the first names, and say how many there are beyond the limit.

    >>> join_names(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    suffix = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + suffix


def format_bar(command: str, read: int, fraction: float, seconds: float) -> str:
    """Format a progress bar with rate and remaining time.

    >>> format_bar("learn", 12000, 0.25, 10.0)
    'learn [#####               ]  25 %  12,000 messages, 1,200/s, 0:30 left'
    """
    fraction = min(max(fraction, 0.0), 1.0)
    filled = "#" * round(20 * fraction)
    seconds_left = seconds * (1 - fraction) / fraction if fraction else 0.0
    time_left = (
        f", {int(seconds_left) // 60}:{int(seconds_left) % 60:02d} left" if fraction and seconds >= 1 else ""
    )
    rate = f", {read / seconds:,.0f}/s" if seconds >= 1 else ""
    return f"{command} [{filled:<20}] {fraction:4.0%}  {read:,} messages{rate}{time_left}".replace("%", " %")
