"""`python -m benchmarks.cost_model`: the cost of a document, a row and a message, and of 1e9 and 1e8 of them.

Three jobs run at three sizes each. The first two sizes fix the two numbers of a simple law, the law predicts
the third, and the table shows how far off it was:

- *documents*: texts of 300 words (Zipf's law, 200,000 words) → hashed counts, `MultinomialNB` of two classes;
  seconds to learn and to judge are linear in documents, the bytes of the statistic are constant;
- *rows*: 20 floats → `GaussianNB` of two classes; the same laws;
- *mail*: a corpus (`--data`, by default SpamAssassin's) → the store of one person; seconds are linear in
  messages, the bytes of the store a power of their number (Heaps' law).

Seconds are those of processors, the least of three runs. Then the laws are applied to `--documents` and
`--mailboxes`, with prices and habits that the options state. What follows from the figures is in
`docs/explanation/cost-model.md`.
"""

import argparse
import math
import pickle
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tamis
from benchmarks.mail_corpus import Mail, add_corpus, ordered, read_corpus
from tamis.text import fit_stream
from tamis_mail import Sieve, tokens
from tamis_mail.labels import HAM, SPAM
from tamis_mail.message import canonical
from tamis_mail.sieve.jobs import extract_features

WORDS = 300
VOCABULARY = 200_000
COLUMNS = 20
FAN_IN = 32  # statistics that one node of a reduction tree adds
SHARD = 100_000  # documents
PAGE = 4096  # bytes: the unit in which SQLite reads a store
JUDGED = 200  # documents or messages
REPEATS = 3


@dataclass(frozen=True)
class Size:
    """What a job of one size took."""

    n: int
    learn: float  # seconds, of all
    judge: float  # seconds, of one
    bytes: float  # of the statistic or the store


@dataclass(frozen=True)
class StoreSize(Size):
    """The same of a store."""

    needed: float  # bytes of the store that a verdict needs
    file: float  # bytes, with free pages
    opened: float  # seconds of a verdict by a store that is opened for it


@dataclass(frozen=True)
class Law:
    """y(n) = scale · n ** power + constant."""

    scale: float
    power: float
    constant: float = 0.0

    def predict(self, n: float) -> float:
        """The value at n."""
        return float(self.scale * n**self.power + self.constant)

    @classmethod
    def through(cls, sizes: Sequence[tuple[float, float]], power: float | None) -> "Law":
        """The law of this power through two points; without one, the power that needs no constant."""
        (n, y), (m, z) = sizes
        if power is None:
            power = math.log(z / y) / math.log(m / n)
            return cls(y / n**power, power)
        if power == 0.0:
            return cls(y, 0.0)
        scale = (z - y) / (m**power - n**power)
        return cls(scale, power, y - scale * n**power)


def read_clock() -> float:
    """Seconds of processors, of this process and of those that it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def take_time(run: Callable[[], Any]) -> tuple[float, Any]:
    """The least seconds of processors that a function takes, and its result."""
    least = math.inf
    for _ in range(REPEATS):
        began = read_clock()
        result = run()
        least = min(least, read_clock() - began)
    return least, result


def draw_texts(rng: np.random.Generator, n: int) -> list[str]:
    """Texts whose words follow Zipf's law."""
    ranks = np.minimum(rng.zipf(1.3, (n, WORDS)), VOCABULARY)
    return [" ".join(f"word{rank}" for rank in row) for row in ranks.tolist()]


def measure_documents(n: int) -> Size:
    """Texts, hashed into 2**18 columns."""
    rng = np.random.default_rng(n)
    texts, labels = draw_texts(rng, n), rng.choice(["ham", "spam"], n).tolist()
    learn, model = take_time(
        lambda: fit_stream(tamis.MultinomialNB(), zip(texts, labels, strict=True), progress=False)
    )
    model.predict(texts[:2])  # infers the posterior
    judge, _ = take_time(lambda: model.predict(texts[:JUDGED]))
    return Size(n, learn, judge / min(n, JUDGED), len(pickle.dumps(model[-1].statistic_)))


def measure_rows(n: int) -> Size:
    """Rows of floats."""
    rng = np.random.default_rng(n)
    rows, labels = rng.normal(size=(n, COLUMNS)), rng.integers(0, 2, n)
    learn, model = take_time(lambda: tamis.GaussianNB().fit(rows, labels))
    repeats = 20
    judge, _ = take_time(lambda: [model.predict(rows[:10_000]) for _ in range(repeats)])
    return Size(n, learn, judge / repeats / min(n, 10_000), len(pickle.dumps(model.statistic_)))


def measure_mail(mail: Sequence[Mail], n: int) -> StoreSize:
    """The store of one person."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mail.tamis"
        some, others = mail[:n], [one.raw for one in mail[-JUDGED:]]
        learn, _ = take_time(lambda: learn_anew(path, some))
        with Sieve.open(path, readonly=True, log=False) as sieve:
            sieve.sort_batch(others[:2])
            judge, _ = take_time(lambda: [sieve.sort_batch([raw]) for raw in others])
        needed = float(np.mean([count_needed_bytes(path, raw) for raw in others[:60]]))
        opened, _ = take_time(lambda: [judge_once(path, raw) for raw in others[:60]])
        file, used = path.stat().st_size, count_used_bytes(path)
        return StoreSize(n, learn, judge / len(others), used, needed, file, opened / 60)


def learn_anew(path: Path, mail: Sequence[Mail]) -> None:
    """Learn mail into a new store."""
    for old in path.parent.iterdir():
        old.unlink()
    with Sieve.open(path, log=False) as sieve:
        for label in (HAM, SPAM):
            sieve.learn_many([one.raw for one in mail if one.label == label], label, processes=1)


def judge_once(path: Path, raw: bytes) -> str:
    """The label of one message of a mailbox: the next one is another mailbox's."""
    with Sieve.open(path, readonly=True, log=False) as sieve:
        return sieve.sort(raw).label


def count_needed_bytes(path: Path, raw: bytes) -> int:
    """The bytes of a store that one verdict needs, if none of them is in memory.

    SQLite maps the store into memory, and the kernel may then read ahead as much as the whole file: for 20
    pages of a file of 20 MB it read all of it. So the map is turned off, and the calls to `read` are counted.
    """
    with Sieve.open(path, readonly=True, log=False) as sieve:
        sieve.store.connection.execute("PRAGMA mmap_size = 0")
        before = count_read_bytes()
        sieve.sort(raw)
        return count_read_bytes() - before


def count_read_bytes() -> int:
    """The bytes that this process has asked for by `read`, from disks or from memory."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def count_used_bytes(path: Path) -> int:
    """The size of a store without its free pages, which the next messages fill."""
    with closing(sqlite3.connect(path)) as store:
        pages, free = (
            store.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
        )
    return int(pages - free) * PAGE


def show_law(
    name: str, unit: str, sizes: Sequence[Size], pick: str, power: float | None, scale: float
) -> Law:
    """Print the measurements, and the prediction of the last one by the law through the others; return it."""
    points = [(float(size.n), float(getattr(size, pick))) for size in sizes]
    law = Law.through(points[:2], power)
    guess = law.predict(points[2][0])
    cells = "".join(f"{y * scale:>12.4g}" for _, y in points)
    error = 100.0 * (guess / points[2][1] - 1.0)
    sys.stdout.write(f"{name:34}{unit:>8}{cells}{guess * scale:>14.4g}{error:>9.0f} %\n")
    return law


@dataclass(frozen=True)
class Bill:
    """Prices in dollars. They are round numbers of public clouds in 2026, and options of the command."""

    core_hour: float
    terabyte_month: float  # of solid-state disks
    network_gigabyte: float


def show_documents(name: str, count: float, width: float, learn: Law, size: Size, bill: Bill) -> None:
    """Print what learning and judging so many documents takes; `width` is the bytes of one."""
    shards = math.ceil(count / SHARD)
    messages, level = 0, shards
    while level > 1:
        messages += level
        level = math.ceil(level / FAN_IN)
    hours, judging = learn.predict(count) / 3600, count * size.judge / 3600
    traffic = messages * size.bytes / 1e9
    write = sys.stdout.write
    write(f"\n{count:.0e} {name} of {width:,.0f} bytes ({count * width / 1e12:.2f} TB)\n")
    write(f"  learn: {hours:,.2f} core hours, ${hours * bill.core_hour:,.2f}; judge: {judging:,.2f} core h\n")
    write(f"  {shards:,} shards → {messages:,} messages of {size.bytes / 1e6:.3g} MB = {traffic:,.2f} GB, ")
    write(f"${traffic * bill.network_gigabyte:,.2f}\n")


@dataclass(frozen=True)
class MailLaws:
    """What mail costs, by the number of messages that a store has learned."""

    learn: Law  # seconds, of all
    judge: Law  # seconds of one, with the store opened for it
    store: Law  # bytes
    # Bytes of the store that a verdict needs, by messages. No law: they grow with the store only until each
    # feature of the message is on a page of its own.
    needed: dict[int, float]
    features: float  # of a message
    letter: float  # bytes of a message

    def interpolate_needed(self, n: float) -> float:
        """Between the sizes that were measured, on logarithmic scales."""
        sizes, needed = np.log(list(self.needed)), np.log(list(self.needed.values()))
        return float(np.exp(np.interp(math.log(n), sizes, needed)))


def show_mailboxes(laws: MailLaws, mailboxes: float, learned: float, judged: float, bill: Bill) -> None:
    """Print what so many mailboxes take."""
    write = sys.stdout.write
    rate = mailboxes * judged / 86_400
    size, read = laws.store.predict(learned), laws.interpolate_needed(learned)
    terabytes, cores = mailboxes * size / 1e12, rate * laws.judge.predict(learned)
    hours = mailboxes * laws.learn.predict(learned) / 3600
    write(
        f"\n{mailboxes:.0e} mailboxes that have learned {learned:,.0f} messages, {judged:g} new ones a day\n"
    )
    write(f"  stores: {size / 1e6:.2f} MB each, {terabytes:,.0f} TB, ")
    write(f"${terabytes * bill.terabyte_month:,.0f} a month\n")
    write(f"  verdicts: {rate:,.0f} a second, {cores:,.0f} cores, ")
    write(f"${cores * 730 * bill.core_hour:,.0f} a month\n")
    write(
        f"  mail itself: {rate * laws.letter / 1e9:.2f} GB/s; features: {rate * laws.features:,.0f} per s\n"
    )
    write(f"  reading stores from disk: {read / 1e6:.2f} MB, {read / PAGE:,.0f} pages per verdict; ")
    write(f"{rate * read / 1e9:,.1f} GB and {rate * read / PAGE:,.0f} pages a second\n")
    write(f"  learning all anew: {hours:,.0f} core hours, ${hours * bill.core_hour:,.0f}\n")


def measure_laws_of_mail(mail: Sequence[Mail]) -> MailLaws:
    """Measure stores of three sizes, and print them."""
    most = len(mail) - JUDGED
    sizes = [measure_mail(mail, n) for n in (most // 81, most // 9, most)]
    found = extract_features([canonical(one.raw) for one in mail[:300]], tokens.VERSION)
    laws = MailLaws(
        show_law(f"mail {sizes[0].n}–{sizes[1].n}–{sizes[2].n}: learn", "s", sizes, "learn", 1.0, 1.0),
        show_law("  open the store and judge one", "ms", sizes, "opened", None, 1e3),
        show_law("  store", "MB", sizes, "bytes", None, 1e-6),
        {size.n: size.needed for size in sizes},
        float(np.mean([len(keys) for keys in found])),
        float(np.mean([len(one.raw) for one in mail])),
    )
    show_law("  judge one, the store in memory", "ms", sizes, "judge", None, 1e3)
    cells = "".join(f"{size.needed * 1e-6:>12.4g}" for size in sizes)
    sys.stdout.write(f"{'  bytes of it for a verdict':34}{'MB':>8}{cells}\n")
    show_law("  file with free pages", "MB", sizes, "file", None, 1e-6)
    sys.stdout.write(f"  a message has {laws.features:,.0f} features and {laws.letter:,.0f} bytes\n")
    return laws


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model")
    add_corpus(parser)
    parser.add_argument("--documents", type=float, default=1e9)
    parser.add_argument("--mailboxes", type=float, default=1e8)
    parser.add_argument("--learned", type=float, default=500, help="messages that a mailbox has learned")
    parser.add_argument("--overlay", type=float, default=100, help="messages of its own, beside those of all")
    parser.add_argument("--judged", type=float, default=30, help="messages that come to a mailbox per day")
    parser.add_argument("--core-hour", type=float, default=0.04, help="dollars")
    parser.add_argument("--terabyte-month", type=float, default=80.0, help="dollars, of solid-state disks")
    parser.add_argument("--network-gigabyte", type=float, default=0.01, help="dollars, between hosts")
    options = parser.parse_args()
    bill = Bill(options.core_hour, options.terabyte_month, options.network_gigabyte)
    mail = ordered(read_corpus(options), "random")
    for warm_up in (
        partial(measure_documents, 500),
        partial(measure_rows, 500),
        partial(measure_mail, mail, 100),
    ):
        warm_up()

    heading = "".join(f"{size:>12}" for size in ("small", "medium", "large"))
    sys.stdout.write(f"{'':34}{'unit':>8}{heading}{'predicted':>14}{'error':>11}\n")
    documents = [measure_documents(n) for n in (4_000, 16_000, 64_000)]
    learn_documents = show_law("documents 4,000–64,000: learn", "s", documents, "learn", 1.0, 1.0)
    show_law("  judge one", "ms", documents, "judge", 0.0, 1e3)
    show_law("  statistic", "MB", documents, "bytes", 0.0, 1e-6)
    rows = [measure_rows(n) for n in (50_000, 200_000, 800_000)]
    learn_rows = show_law("rows 50,000–800,000: learn", "s", rows, "learn", 1.0, 1.0)
    show_law("  judge one", "µs", rows, "judge", 0.0, 1e6)
    show_law("  statistic", "kB", rows, "bytes", 0.0, 1e-3)
    laws = measure_laws_of_mail(mail)

    text = float(np.mean([len(one) for one in draw_texts(np.random.default_rng(0), 200)]))
    show_documents("documents", options.documents, text, learn_documents, documents[-1], bill)
    show_documents("rows", options.documents, 8.0 * COLUMNS, learn_rows, rows[-1], bill)
    for learned in (options.learned, options.overlay):
        show_mailboxes(laws, options.mailboxes, learned, options.judged, bill)


if __name__ == "__main__":
    main()
