"""a message → what a filter says of it: tamis, bogofilter, spamprobe, and Bayes of SpamAssassin and rspamd.

tamis is called in this process; bogofilter and spamprobe are commands, a process to judge a message and a
process to learn it; SpamAssassin and rspamd are daemons (`benchmarks.mail_bayes`). All have the settings they
come with. A filter that crashes, or says nothing, has said ham, with score 0.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.mail_answer import FAILED, Answer
from benchmarks.mail_bayes import Rspamd, SpamAssassin
from benchmarks.mail_corpus import give_up
from tamis_mail import Sieve
from tamis_mail.labels import HAM, SPAM, UNSURE

__all__ = ["FILTERS", "PEERS", "Answer", "Filter", "bogofilter_scores", "installed", "refuse_missing"]

SOURCE = Path(__file__).parents[1] / "src"
PEERS = {"bogofilter": "bogofilter", "spamprobe": "spamprobe", "spamassassin": "spamd", "rspamd": "rspamd"}
_VERDICTS = {"S": SPAM, "H": HAM, "U": UNSURE, "SPAM": SPAM, "GOOD": HAM}


class Filter(Protocol):
    """Two verbs, on a folder of its own."""

    def judge(self, raw: bytes) -> Answer: ...

    def learn(self, raw: bytes, label: str) -> None: ...

    def close(self) -> None: ...


class Tamis:
    """In process, on a store of its own."""

    def __init__(self, folder: Path) -> None:
        self._sieve = Sieve.open(folder / "mail.tamis")

    def judge(self, raw: bytes) -> Answer:
        try:
            verdict = self._sieve.sort(raw)
        except Exception:  # noqa: BLE001  (whatever it is, it is a crash, and counts as one)
            return FAILED
        return Answer(verdict.log_odds, verdict.probability, verdict.label)

    def learn(self, raw: bytes, label: str) -> None:
        self._sieve.learn(raw, label)

    def close(self) -> None:
        self._sieve.close()


class Command:
    """A program that reads a message from standard input and prints a line `… VERDICT SCORE …`."""

    def __init__(self, folder: Path, judge: Sequence[str], learn: dict[str, Sequence[str]]) -> None:
        self._judge = [word.format(folder) for word in judge]
        self._learn = {label: [word.format(folder) for word in words] for label, words in learn.items()}

    def judge(self, raw: bytes) -> Answer:
        said = subprocess.run(self._judge, input=raw, capture_output=True, check=False).stdout.split(None, 2)
        try:
            score = float(said[1])
            return Answer(score, score, _VERDICTS[said[0].decode()])
        except (IndexError, KeyError, ValueError):
            return FAILED

    def learn(self, raw: bytes, label: str) -> None:
        subprocess.run(self._learn[label], input=raw, capture_output=True, check=False)

    def close(self) -> None:
        pass


def bogofilter(folder: Path) -> Command:
    """`bogofilter -T`, then `-s` or `-n`."""
    start = ["bogofilter", "-d", "{}"]
    return Command(folder, [*start, "-T"], {SPAM: [*start, "-s"], HAM: [*start, "-n"]})


def spamprobe(folder: Path) -> Command:
    """`spamprobe score`, then `spam` or `good`; -M: all of standard input is one message."""
    start = ["spamprobe", "-M", "-d", "{}"]
    return Command(folder, [*start, "score"], {SPAM: [*start, "spam"], HAM: [*start, "good"]})


FILTERS: dict[str, Callable[[Path], Filter]] = {
    "tamis": Tamis,
    "bogofilter": bogofilter,
    "spamprobe": spamprobe,
    "spamassassin": SpamAssassin,
    "rspamd": Rspamd,
}


def refuse_missing(names: Sequence[str]) -> None:
    """End with one line if a filter is unknown or not installed."""
    for name in names:
        if name not in FILTERS:
            give_up(f"{name} is no filter that is compared, expected some of {', '.join(FILTERS)}")
        if name in PEERS and shutil.which(PEERS[name]) is None:
            give_up(f"{name} is not installed: apt install {name} (Debian), or leave it out of --filters")


def installed(folder: Path, source: Path = SOURCE) -> dict[str, str]:
    """The environment of a tamis copied and compiled as by `pip install`, whoever edits it meanwhile.

    So is NumPy, which an environment made with PYTHONDONTWRITEBYTECODE has no byte code of.
    """
    for package in ("tamis", "tamis_mail"):
        shutil.copytree(source / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "byte-code")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import tamis_mail.sieve.jobs, tamis_mail.sieve.pool",
        ],
        env=environment,
        check=True,
    )
    return environment


def bogofilter_scores(
    folder: Path, spam: Sequence[Path], ham: Sequence[Path], judged: Sequence[Path]
) -> list[float]:
    """Learn files, then judge files, all at once: bogofilter's bulk mode. 0 where it says nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for flag, paths in (("-s", spam), ("-n", ham)):
        subprocess.run(
            ["bogofilter", "-d", str(folder), flag, "-b"], input=_lines(paths), text=True, check=True
        )
    said = subprocess.run(
        ["bogofilter", "-d", str(folder), "-b", "-T"],
        input=_lines(judged),
        text=True,
        capture_output=True,
        check=False,
    ).stdout
    scores = {}
    for line in said.splitlines():
        words = line.split()
        scores[words[0]] = float(words[-1])
    return [scores.get(str(path), 0.0) for path in judged]


def _lines(paths: Sequence[Path]) -> str:
    return "".join(f"{path}\n" for path in paths)
