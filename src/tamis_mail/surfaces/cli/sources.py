"""paths → letters, and what became of them, with a line on stderr that tells how far the work has come."""

import os
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TextIO

from tamis.progress import Line
from tamis_mail.framing import LARGEST, exceeds_limit
from tamis_mail.mailbox import Letter, Source, open_source
from tamis_mail.mailbox.letter import printable

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "Deed",
    "Work",
    "bar",
    "name_of",
    "open_sources",
    "path_bytes",
    "remarks",
    "summary",
    "too_large",
    "treat",
]

_NAMED = 3  # files or folders of a remark that are named


def open_sources(
    paths: Sequence[str], *, mbox: bool = False, label: str | None = None, elsewhere: Iterable[str] = ()
) -> list[Source]:
    """Look at all that was named, so that a misspelt path is told before anything is done; none is stdin.

    Of a Maildir its subfolders are read, too, but for those that are named `elsewhere`.
    """
    if sys.stdin is not None and sys.stdin.isatty() and (not paths or "-" in paths):
        sys.stderr.write("tamis: reading mail from the terminal; end it with Ctrl-D\n")
    others = frozenset(map(os.path.realpath, {*paths, *elsewhere} - {"-"}))
    return [
        open_source(path, many=mbox, label=label, subfolders=True, elsewhere=others)
        for path in paths or ["-"]
    ]


def name_of(source: Source) -> str:
    """What the store's journal calls a source."""
    return "stdin" if source.kind == "stdin" else os.path.abspath(source.path)  # noqa: PTH100 (pathlib takes 8 ms)


class Work:
    """Letters of a source as they are read, drawn as a bar while somebody can see it.

    It runs ahead of what is learned by a batch; what is told when it is interrupted is `done`.
    """

    def __init__(self, command: str, source: Source, *, quiet: bool = False, draw: bool = True) -> None:
        self._command = command
        self._quiet = quiet
        self._source = source
        self._line = Line(sys.stderr)
        is_worth_it = draw and not quiet and source.kind not in ("stdin", "message")
        self._shown = self._line.is_terminal and is_worth_it
        self._begun = time.monotonic()
        self.read = 0
        self.done = 0

    def __enter__(self) -> "Work":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if self._shown:
            self._line.draw("", 0.0)
        for name, reason in self._source.unread:
            sys.stderr.write(
                f"tamis {self._command}: {name} could not be read ({reason}) and was passed over\n"
            )
        if not self._quiet:
            sys.stderr.writelines(f"tamis {self._command}: {line}\n" for line in remarks(self._source))

    def letters(self) -> Iterator[Letter]:
        """The letters of the source."""
        size = (self._source.size or 0) if self._shown else 0
        for letter in self._source:
            self.read += 1
            if exceeds_limit(letter.raw) and not self._quiet:
                sys.stderr.write(f"tamis {self._command}: {too_large(letter.name)}\n")
            if self._shown and self._line.is_due(now := time.monotonic()):
                self._line.draw(self._said(letter.position / size if size else 0.0, now - self._begun), now)
            yield letter

    def messages(self) -> Iterator[bytes]:
        """Their bytes."""
        return (letter.raw for letter in self.letters())

    def advance(self, done: int) -> None:
        """Note what is in the store for good."""
        self.done = done

    def _said(self, share: float, seconds: float) -> str:
        return bar(self._command, self.read, share, seconds)


class Deed(NamedTuple):
    """What is to be done with a source, by which names it is counted, and under which label."""

    source: Source
    act: Callable[[Work], Counter[str]]
    names: tuple[str, ...]
    label: str = ""


def treat(
    out: TextIO, command: str, options: Namespace, deeds: Iterable[Deed], so_far: str
) -> tuple[int, int]:
    """Do it, source after source, a line for each; how many messages there were, and the exit status."""
    total = 0
    status = 0
    for deed in deeds:
        with Work(command, deed.source, quiet=options.quiet) as work:
            try:
                actions = deed.act(work)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"interrupted; {so_far}: {total + work.done:,}; run again to go on"
                ) from None
        total += actions.total()
        status = 3 if deed.source.unread else status
        if not options.quiet:
            out.write(summary(deed.source, actions, deed.names, deed.label) + "\n")
            out.flush()
    return total, status


def summary(source: Source, actions: Counter[str], names: Sequence[str], label: str = "") -> str:
    """What became of a source's messages.

    >>> summary(
    ...     Source("inbox", "mbox", 0), Counter(learned=1200, known=3), ("learned", "moved", "known"), "ham"
    ... )
    'inbox: 1,200 learned, 0 moved, 3 known (ham)'
    """
    said = ", ".join(f"{actions[name]:,} {name}" for name in names)
    return f"{printable(source.path)}: {said}" + (f" ({label})" if label else "")


def remarks(source: Source) -> Iterator[str]:
    """What to say of a source that was read: what was left out of it, and which subfolders were not."""
    if source.subfolders:
        yield f"{printable(source.path)} was read with its subfolders {_listed(source.subfolders)}"
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
        yield f"left out, {_listed(names)}: {reason}{advice}"


def too_large(name: str) -> str:
    """What to say of a message of which not all counts."""
    return f"{name} is larger than {LARGEST // 10**6} MB: only its first {LARGEST // 10**6} MB count"


def _listed(names: Sequence[str]) -> str:
    """Some names.

    >>> _listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def path_bytes(letter: Letter) -> dict[str, str]:
    """For JSON, the bytes of a path, in base64, if its name cannot be shown as it is.

    >>> path_bytes(Letter(b"", r"1\\n2", 0, "1" + chr(10) + "2")), path_bytes(Letter(b"", "a", 0, "a"))
    ({'path_bytes': 'MQoy'}, {})
    """
    if not letter.path or (letter.path.isprintable() and "\\" not in letter.path):
        return {}
    encoded: bytes = import_module("base64").b64encode(os.fsencode(letter.path))
    return {"path_bytes": encoded.decode("ascii")}


def bar(command: str, read: int, share: float, seconds: float) -> str:
    """How far, how fast, how long still.

    >>> bar("learn", 12000, 0.25, 10.0)
    'learn [#####               ]  25 %  12,000 messages, 1,200/s, 0:30 left'
    """
    share = min(max(share, 0.0), 1.0)
    drawn = "#" * round(20 * share)
    left = seconds * (1 - share) / share if share else 0.0
    time_left = f", {int(left) // 60}:{int(left) % 60:02d} left" if share and seconds >= 1 else ""
    rate = f", {read / seconds:,.0f}/s" if seconds >= 1 else ""
    return f"{command} [{drawn:<20}] {share:4.0%}  {read:,} messages{rate}{time_left}".replace("%", " %")
