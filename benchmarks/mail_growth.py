"""`python -m benchmarks.mail_growth --data FOLDER`: what a message costs after 1,000 … 1,000,000.

A million real messages nobody has, so counts are made up and given to the store as bulk learning gives them:
2,000 messages per transaction, each in the journal. How many features a message has, and how fast new
ones come (Heaps' law), is fitted to a corpus, and the table shows how well. Spam and ham share their
features, since nothing is judged here, only timed. "Bulk messages/s" is thus of the store alone, without
reading mail. At each size real messages are sorted and learned, one by one, in process, on a copy of the
store.

One store keeps all. A second one is fed the same and tidied as an administrator would, `tamis store decay`
and `tamis store prune` every so many messages.
"""

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import exp, gamma, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.mail_corpus import SEED, Mail, add_corpus, ordered, read_corpus, tell, timed
from tamis_mail import Sieve, tokens
from tamis_mail.features import KEY_BITS
from tamis_mail.labels import HAM, SPAM
from tamis_mail.message import canonical
from tamis_mail.sieve.jobs import extract_features
from tamis_mail.store import Entry, Store
from tamis_mail.store.maintenance import decay, prune, status
from tamis_mail.store.tables import CountTable

SIZES = (1_000, 10_000, 100_000, 1_000_000)
STORES = ("all kept", "tidied")
BATCH = 2_000  # messages of a transaction, as `Sieve.learn_many` takes them
PROBES = 40  # real messages that are sorted and learned at each size

Numbers = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Growth:
    """Features of mail: the k-th is in (scale / (shift + k)) ** (1 / heaps) of messages, some in all.

    That is the law of Zipf and Mandelbrot. A message then has `always` + `rare` of them, and n messages have
    `always` + gamma(1 - heaps) · scale · n ** heaps - shift: the law of Heaps.
    """

    always: int
    scale: float
    shift: float
    heaps: float

    @classmethod
    def fitted(cls, features: float, steps: Sequence[tuple[int, int]]) -> "Growth":
        """To the features of a message, and to those that n messages have between them, for several n."""
        sizes, distinct = np.array(steps, np.float64).T
        best = (np.inf, 0.0, 0.0, 0.0)
        for heaps in np.linspace(0.4, 0.9, 251).tolist():
            parts = np.stack([sizes**heaps, -np.ones_like(sizes)], axis=1) / distinct[:, np.newaxis]
            slope, less = np.linalg.lstsq(parts, np.ones_like(sizes), rcond=None)[0].tolist()
            off = float(np.sum((parts @ np.array([slope, less]) - 1) ** 2))
            if less > 0:
                best = min(best, (off, heaps, slope, less))
        _, heaps, slope, less = best
        scale = slope / gamma(1 - heaps)
        made = [cls(always, scale, less + always, heaps) for always in range(int(features))]
        return min(made, key=lambda one: abs(one.always + one.rare - features))

    @property
    def rare(self) -> float:
        """Features of a message that not every one has."""
        steep = 1 / self.heaps - 1
        return self.scale * exp(steep * log(self.scale / self.shift)) / steep

    def distinct(self, messages: int) -> float:
        """Features that so many messages have between them."""
        grown = gamma(1 - self.heaps) * self.scale * exp(self.heaps * log(messages))
        return self.always + grown - self.shift

    def table(self, messages: int, dice: np.random.Generator) -> tuple[Numbers, NDArray[np.int64]]:
        """Features of so many messages, and how many have each."""
        always = -np.arange(1.0, self.always + 1)
        drawn = dice.random(dice.poisson(messages * self.rare))
        ranks = np.floor(self.shift * (drawn ** (-self.heaps / (1 - self.heaps)) - 1)) + 1
        found, counts = np.unique(ranks, return_counts=True)
        keys = np.concatenate([_hashed(always), _hashed(found)])
        return keys, np.concatenate([np.full(len(always), messages), np.minimum(counts, messages)])


def _hashed(ranks: NDArray[np.float64]) -> Numbers:
    """Keys spread as a hash spreads them (splitmix64)."""
    mixed = ranks.view(np.uint64).copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    keys: Numbers = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(64 - KEY_BITS)
    return keys


def measured(mail: Sequence[Mail]) -> tuple[Growth, list[tuple[int, int]]]:
    """The growth of a corpus, and how many distinct features its first messages have."""
    found: list[Numbers] = extract_features(
        [canonical(one.raw) for one in ordered(mail, "random")], tokens.VERSION
    )
    ends = sorted({*(size for size in (100, 300, 1_000, 2_000, 4_000) if size < len(found)), len(found)})
    seen = np.empty(0, np.uint64)
    steps = []
    for start, end in pairwise([0, *ends]):
        seen = np.unique(np.concatenate([seen, *found[start:end]]))
        steps.append((end, len(seen)))
    features = float(np.mean([len(keys) for keys in found]))
    return Growth.fitted(features, steps), steps


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of a transaction: their digests, and what features they have, each by label."""

    names: dict[str, list[bytes]]
    tables: dict[str, tuple[Numbers, NDArray[np.int64]]]


def made_up(growth: Growth, first: int, messages: int) -> Batch:
    """As many messages, half of them spam; `first` is their seed."""
    dice, names = np.random.default_rng([SEED, first]), random.Random(first)
    shares = {SPAM: messages // 2, HAM: messages - messages // 2}
    return Batch(
        {label: [names.randbytes(16) for _ in range(share)] for label, share in shares.items()},
        {label: growth.table(share, dice) for label, share in shares.items()},
    )


def learn(store: Store, batch: Batch) -> None:
    """One transaction, as bulk learning writes it."""
    unit, prunings = store.message_weight(), store.prunings()
    with store.transaction() as writer:
        tables = []
        for label, names in batch.names.items():
            keys, counts = batch.tables[label]
            placed = np.zeros((len(keys), 2), np.int64)
            placed[:, writer.ensure_column(label)] = counts * unit
            tables.append(CountTable(keys, placed))
            for name in names:
                writer.record(Entry(name, label, unit, 0, tokens.VERSION, prunings, "made up", 0))
        writer.add(CountTable.total(tables, 2))


def tidied(store: Store) -> None:
    """What an administrator does now and then."""
    decay(store)
    prune(store)


def probes(mail: Sequence[Mail]) -> Iterator[list[Mail]]:
    """Real messages, others each time, over and over."""
    while True:
        for start in range(0, len(mail) - PROBES + 1, PROBES):
            yield list(mail[start : start + PROBES])


def one_by_one(path: Path, chosen: Sequence[Mail]) -> tuple[float, float]:
    """Median milliseconds to sort a message, and to learn one; the store is then as it was."""
    beside = path.with_suffix(".copy")
    shutil.copy(path, beside)
    with Sieve.open(beside) as sieve:
        sieve.sort(chosen[0].raw)
        sorting = [timed(partial(sieve.sort, one.raw))[1] for one in chosen]
        learning = [timed(partial(sieve.learn, one.raw, one.label))[1] for one in chosen]
    beside.unlink()
    return 1000 * statistics.median(sorting), 1000 * statistics.median(learning)


def pruned_bytes(path: Path) -> int:
    """What `tamis store prune --halvings 0` would leave."""
    beside = path.with_suffix(".copy")
    shutil.copy(path, beside)
    with Store(beside) as store:
        left = prune(store, 0).bytes_after
    beside.unlink()
    return left


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail_growth", description=__doc__)
    add_corpus(parser)
    parser.add_argument("--most", type=int, default=SIZES[-1], metavar="N", help="default: 1,000,000")
    parser.add_argument(
        "--tidy", type=int, default=50_000, metavar="N", help="default: every 50,000 messages"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the stores are put meanwhile (default: a temporary one)"
    )
    parser.add_argument("--stores", default=",".join(STORES), help=f"default: {','.join(STORES)}")
    options = parser.parse_args()
    if not set(options.stores.split(",")) <= set(STORES):
        parser.error(f"--stores {options.stores}: expected some of {','.join(STORES)}")
    mail = ordered(read_corpus(options), "random")
    growth, steps = measured(mail)
    say = sys.stdout.write
    features = growth.always + growth.rare
    say(f"Heaps' law fitted to {len(mail):,} messages: {features:.0f} features per message, ")
    say(f"exponent {growth.heaps:.3f}\n\n| messages | distinct features | as fitted |\n|---|---|---|\n")
    for messages, distinct in steps:
        say(f"| {messages:,} | {distinct:,} | {growth.distinct(messages):,.0f} |\n")
    say("\n| messages | store | entries | MB | MB if pruned now | bulk messages/s | tidying s ")
    say("| sort ms | learn ms |\n|---|---|---|---|---|---|---|---|---|\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        grow(growth, mail, Path(folder), options.most, options.tidy, options.stores.split(","))


def grow(
    growth: Growth, mail: Sequence[Mail], folder: Path, most: int, tidy: int, stores: Sequence[str]
) -> None:
    """Feed the stores, and write a line for each at every size."""
    paths = {name: folder / f"{name.replace(' ', '-')}.tamis" for name in stores}
    sizes = sorted({*(size for size in SIZES if size < most), most})
    draws = probes(mail)
    done = 0
    for size in sizes:
        begun, grown_from = time.perf_counter(), done
        learning, tidying = dict.fromkeys(paths, 0.0), dict.fromkeys(paths, 0.0)
        while done < size:
            number = min(BATCH, size - done)
            batch = made_up(growth, done, number)
            for name, path in paths.items():
                with Store(path) as store:
                    learning[name] += timed(partial(learn, store, batch))[1]
                    if name == STORES[1] and (done + number) // tidy > done // tidy:
                        tidying[name] += timed(partial(tidied, store))[1]
            done += number
        tell(f"{done:,} messages after {time.perf_counter() - begun:.0f} s more")
        chosen = next(draws)
        for name, path in paths.items():
            sorting, one = one_by_one(path, chosen)
            with Store(path) as store:
                held = status(store)
            rate = (done - grown_from) / learning[name]
            size_now, size_pruned = path.stat().st_size / 1e6, pruned_bytes(path) / 1e6
            sys.stdout.write(
                f"| {done:,} | {name} | {held.entries:,} | {size_now:.1f} | {size_pruned:.1f} | {rate:,.0f} "
                f"| {tidying[name]:.1f} | {sorting:.1f} | {one:.1f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
