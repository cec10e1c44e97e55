"""folders, mailboxes or an index → labelled mail in one order: what every benchmark of the mail filter reads.

A corpus is a folder with subfolders or mboxes whose names say what is in them (`ham`, `easy_ham_2`,
`spam.mbox`, `Junk`); or any mail that `--ham` and `--spam` name; or an index with a line `spam PATH` or `ham
PATH` for each message, as TREC has them. By default it is `spamassassin`, or `spamassassin.tar.xz`, in the
folder TAMIS_DATA, or in `../shared/data`.
"""

import argparse
import hashlib
import os
import random
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from pathlib import Path
from typing import NoReturn, TypeVar

from tamis_mail.labels import HAM, SPAM
from tamis_mail.mailbox import SourceError, guess_label, open_source

__all__ = [
    "BUILD",
    "ORDERS",
    "Mail",
    "add_corpus",
    "add_order",
    "bodies",
    "fingerprint",
    "give_up",
    "ordered",
    "read_corpus",
    "tell",
    "timed",
    "write_mbox",
]

ORDERS = ("random", "date", "path")
SEED = 2026  # of the order, and of whatever else is drawn
BUILD = Path(__file__).parents[1] / "build" / "benchmarks"
_DATA = Path(__file__).parents[2] / "shared" / "data"
_ARCHIVE = "spamassassin.tar.xz"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Mail:
    """A message, what it is, and where it came from."""

    name: str
    label: str
    raw: bytes

    @property
    def is_spam(self) -> bool:
        return self.label == SPAM


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """The options that say what mail there is."""
    add = parser.add_argument
    data = Path(os.environ.get("TAMIS_DATA", _DATA))
    add(
        "--data",
        type=Path,
        metavar="FOLDER",
        help=f"a corpus, or a folder with spamassassin in it ({data})",
        default=data,
    )
    add("--ham", nargs="+", type=Path, metavar="PATH", default=[], help="mail that is wanted: no --data then")
    add("--spam", nargs="+", type=Path, metavar="PATH", default=[], help="mail that is spam")
    add("--index", type=Path, metavar="FILE", help="lines of a label and a path, as TREC's full/index")
    add("--messages", type=int, metavar="N", help="no more than so many, drawn at random")


def add_order(parser: argparse.ArgumentParser) -> None:
    """The options that say in what order mail comes."""
    parser.add_argument(
        "--order",
        choices=ORDERS,
        default="random",
        help="shuffled with a fixed seed, by Date, or as it lies there (default: random)",
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, metavar="N", help=f"of the random order (default: {SEED})"
    )


def read_corpus(options: argparse.Namespace) -> list[Mail]:
    """All mail that the options name, in the order in which it lies there."""
    try:
        if options.index:
            mail = list(_indexed(options.index))
        elif options.ham or options.spam:
            named = ((HAM, options.ham), (SPAM, options.spam))
            mail = [one for label, paths in named for path in paths for one in _letters(path, label)]
        else:
            mail = list(_folder(options.data))
    except SourceError as error:
        give_up(str(error))
    if options.messages and options.messages < len(mail):
        chosen = sorted(random.Random(SEED).sample(range(len(mail)), options.messages))
        mail = [mail[number] for number in chosen]
    if not (any(one.is_spam for one in mail) and any(not one.is_spam for one in mail)):
        give_up(f"all {len(mail)} messages are of one kind, expected two: name them, --ham PATH --spam PATH")
    return mail


def _folder(folder: Path) -> Iterator[Mail]:
    if (folder / _ARCHIVE).is_file() and not (folder / "spamassassin").is_dir():
        folder = _unpacked(folder / _ARCHIVE)
    if (folder / "spamassassin").is_dir():
        folder = folder / "spamassassin"
    if not folder.is_dir():
        give_up(f"{folder} is no folder, expected ham* and spam* in it: unpack a corpus, then --data FOLDER")
    found = [(path, label) for path in sorted(folder.iterdir()) if (label := _label_of(path)) is not None]
    if not found:
        give_up(
            f"{folder} holds no ham* and spam*, and no {_ARCHIVE}: name another folder, --data FOLDER, "
            "or the mail itself, --ham PATH --spam PATH"
        )
    for path, label in found:
        yield from _letters(path, label)


def _unpacked(archive: Path) -> Path:
    """The folder into which an archive was unpacked, now or before."""
    folder = BUILD / "mail_corpus"
    if not folder.is_dir():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as beside:
            with tarfile.open(archive, "r:xz") as packed:
                packed.extractall(Path(beside) / "all", filter="data")
            (Path(beside) / "all").replace(folder)
    return folder


def _label_of(path: Path) -> str | None:
    """What the name of a folder or an mbox says: also ham25 and spam-old, which are no words."""
    name = path.name.lower()
    if name.endswith((".tsv", ".csv", ".json")):
        return None
    begins = SPAM if name.startswith("spam") else HAM if name.startswith("ham") else None
    return guess_label(path) or begins


def _letters(path: Path, label: str) -> Iterator[Mail]:
    for letter in open_source(path):
        if Path(letter.name).name != "cmds":  # SpamAssassin's folders came with a list of their files
            yield Mail(f"{path.name}/{letter.name.removeprefix(path.name + '/')}", label, letter.raw)


def _indexed(index: Path) -> Iterator[Mail]:
    try:
        lines = index.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        give_up(f"the index {index} cannot be read ({error.strerror}): check the path")
    for line in lines:
        label, _, name = line.strip().replace("\t", " ").partition(" ")
        if label.lower() in (HAM, SPAM):
            yield Mail(name, label.lower(), (index.parent / name.strip()).read_bytes())


def ordered(mail: Sequence[Mail], order: str, seed: int = SEED) -> list[Mail]:
    """The mail in the order of that name; `seed` is that of the random order."""
    if order == "random":
        shuffled = list(mail)
        random.Random(seed).shuffle(shuffled)
        return shuffled
    return sorted(mail, key=lambda one: _date(one.raw)) if order == "date" else list(mail)


def _date(raw: bytes) -> float:
    """When a message came, by its newest Received, else by its sender's Date; 0 if neither says."""
    head = (
        raw[:20_000]
        .replace(b"\r\n", b"\n")
        .partition(b"\n\n")[0]
        .replace(b"\n\t", b" ")
        .replace(b"\n ", b" ")
    )
    dates: list[bytes] = []
    for line in head.split(b"\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"received":
            dates.insert(0, value.rpartition(b";")[2])
            break
        if name.lower() == b"date":
            dates.append(value)
    for date in dates:
        try:
            found = parsedate_tz(date.decode("latin-1").strip())
            if found is not None:
                return float(mktime_tz(found))
        except (ValueError, OverflowError, IndexError, TypeError):
            continue
    return 0.0


def fingerprint(mail: Sequence[Mail]) -> str:
    """Names a corpus in its order."""
    digest = hashlib.sha256()
    for one in mail:
        digest.update(one.label.encode() + hashlib.sha256(one.raw).digest())
    return digest.hexdigest()[:12]


def bodies(mail: Sequence[Mail], label: str) -> list[bytes]:
    """The messages of one label."""
    return [one.raw for one in mail if one.label == label]


def write_mbox(path: Path, messages: Sequence[bytes]) -> None:
    """Put messages into an mbox that every program splits into the same messages."""
    with path.open("wb") as file:
        for raw in messages:
            text = raw.replace(b"\r\n", b"\n")
            if text.startswith(b"From "):
                text = text.partition(b"\n")[2]
            text = text.replace(b"\nFrom ", b"\n>From ")
            file.write(b"From sender@example.org Sun Nov 15 12:00:00 2026\n" + text.rstrip(b"\n") + b"\n\n")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What a job gives, and its seconds."""
    begun = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begun


def tell(line: str) -> None:
    """Say how far it is, beside the table."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def give_up(line: str) -> NoReturn:
    """End with one line that says why."""
    raise SystemExit(f"{Path(sys.argv[0]).stem}: {line}")
