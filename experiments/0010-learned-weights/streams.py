"""Mail of several kinds as streams: messages as features, labels and dates, read once and kept in a cache.

A stream is a corpus and an order of its messages. The first `known` messages are learned before any is
judged; each of the others is judged and then, if `learns`, learned.
"""

import csv
import hashlib
import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tamis_mail.features.arrays import views
from tamis_mail.message import canonical
from tamis_mail.sieve.jobs import extract_features


@dataclass(frozen=True)
class Letter:
    """A message, its features under both versions of the tokens, and when it arrived."""

    raw: bytes
    digest: bytes
    date: float  # seconds since 1970; NaN if unknown
    keys: dict[int, np.ndarray]  # by version of the tokens


@dataclass(frozen=True)
class Features:
    """The features of messages, as places among all keys; message i has places[starts[i] : starts[i + 1]]."""

    version: int
    keys: np.ndarray
    starts: np.ndarray
    places: np.ndarray
    kinds: np.ndarray  # of each key: its view

    @classmethod
    def from_rows(cls, rows: Sequence[np.ndarray], version: int) -> "Features":
        keys, places = np.unique(np.concatenate(rows), return_inverse=True)
        return cls(version, keys, np.cumsum([0, *map(len, rows)]), places, views(keys, version))

    def without(self, view: int) -> "Features":
        """The same messages without the features of a view."""
        keep = self.kinds[self.places] != view
        starts = np.concatenate([[0], np.cumsum(keep)])[self.starts]
        return Features(self.version, self.keys, starts, self.places[keep], self.kinds)

    def of(self, message: int) -> np.ndarray:
        return self.places[self.starts[message] : self.starts[message + 1]]


class Corpus:
    """Letters with labels."""

    def __init__(self, hams: Sequence[Letter], spams: Sequence[Letter]) -> None:
        self.letters = [*hams, *spams]
        self.labels = np.repeat([0, 1], [len(hams), len(spams)])  # 1 is spam
        self.dates = np.array([letter.date for letter in self.letters])
        digests = np.array([letter.digest for letter in self.letters])
        self.ranks = np.unique(digests, return_inverse=True)[1]  # equal messages have one rank
        self._features: dict[int, Features] = {}

    def __len__(self) -> int:
        return len(self.letters)

    def features(self, version: int) -> Features:
        if version not in self._features:
            rows = [letter.keys[version] for letter in self.letters]
            self._features[version] = Features.from_rows(rows, version)
        return self._features[version]


@dataclass(frozen=True)
class Stream:
    """A corpus, the order in which its messages come, and which of them are judged."""

    group: str
    name: str
    corpus: Corpus
    order: np.ndarray
    known: int = 0
    learns: bool = True

    @property
    def labels(self) -> np.ndarray:
        """Of the messages that are judged."""
        return self.corpus.labels[self.order[self.known :]]


def read_letters(raws: Sequence[bytes], cache: Path) -> list[Letter]:
    """Read messages, or take them from the cache if these were read before."""
    mark = hashlib.sha256()
    for raw in raws:
        mark.update(hashlib.sha256(raw).digest())
    path = cache / f"letters-{mark.hexdigest()[:24]}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    plain = [canonical(raw) for raw in raws]
    dates: list[int | None] = []
    first, second = extract_features(plain, 1), extract_features(plain, 2, dates)
    letters = [
        Letter(raw, hashlib.sha256(text).digest(), float("nan") if date is None else date, {1: one, 2: two})
        for raw, text, date, one, two in zip(raws, plain, dates, first, second, strict=True)
    ]
    cache.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(letters))
    return letters


def find_files(data: Path, pattern: str) -> list[Path]:
    """The files of a pattern, without hidden ones and without SpamAssassin's lists of files, in one order."""
    return sorted(
        (path for path in data.glob(pattern) if path.name[0] != "." and path.name != "cmds"), key=str
    )


def read_files(data: Path, pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in find_files(data, pattern)]


def read_index(data: Path) -> list[tuple[bool, bytes]]:
    """The modern mail in the order of its index, and whether it is spam; hidden files are left out."""
    lines = [line.split("\t") for line in (data / "modern-mail/index.tsv").read_text("utf-8").splitlines()]
    return [
        (kind == "spam", (data / "modern-mail" / name).read_bytes())
        for kind, name in lines
        if "/." not in name
    ]


def read_short_texts(data: Path) -> dict[str, list[bytes]]:
    lines = (data / "sms-spam-collection/SMSSpamCollection").read_text("utf-8", errors="replace").splitlines()
    texts = [("SMS", *line.split("\t", 1)) for line in lines]
    for path in find_files(data, "youtube-spam/labelled/*.csv"):
        with path.open(newline="", encoding="utf-8", errors="replace") as rows:
            texts += [
                ("YouTube", "spam" if int(row["CLASS"]) else "ham", row["CONTENT"])
                for row in csv.DictReader(rows)
            ]
    found: dict[str, list[bytes]] = {}
    for source, label, text in texts:
        found.setdefault(f"{source} {label}", []).append(f"Subject: \n\n{text}".encode())
    return found


def read_sets(data: Path, cache: Path) -> dict[str, list[Letter]]:
    """Each set of messages by its name."""
    modern = read_index(data)
    sets = {
        "old ham": [
            m for f in ("easy_ham", "easy_ham_2", "hard_ham") for m in read_files(data, f"spamassassin/{f}/*")
        ],
        "old spam": read_files(data, "spamassassin/spam*/*"),
        "modern ham": [raw for is_spam, raw in modern if not is_spam],
        "modern spam": [raw for is_spam, raw in modern if is_spam],
        "spam of 2026": read_files(data, "cwl-email-corpus-2026/submissions/*/*/emails/*.eml"),
        "newsgroups": random.Random(1).sample(read_files(data, "20news-bydate-train/*/*"), 2000),
        **read_short_texts(data),
    }
    return {name: read_letters(raws, cache) for name, raws in sets.items()}


def shuffle(messages: Sequence[int], seed: int) -> np.ndarray:
    return np.array(random.Random(seed).sample(list(messages), len(messages)))


def order_of_index(data: Path) -> np.ndarray:
    """The places of the messages of the index in a corpus of its ham and then its spam."""
    is_spam = np.array([is_spam for is_spam, _ in read_index(data)])
    return np.where(is_spam, (~is_spam).sum() + np.cumsum(is_spam) - 1, np.cumsum(~is_spam) - 1)


def make_streams(data: Path, cache: Path) -> list[Stream]:
    """All streams; the groups whose names end in * are those that choices were made on."""
    sets = read_sets(data, cache)
    modern = Corpus(sets["modern ham"], sets["modern spam"])
    old = Corpus(sets["old ham"], sets["old spam"])
    both = Corpus(sets["old ham"] + sets["modern ham"], sets["modern spam"])
    half = shuffle(range(len(old)), 7)[: len(old) // 2].tolist()
    by_date = np.argsort(np.where(np.isnan(old.dates), 0, old.dates), kind="stable")
    streams = [Stream("modern mail in the order of its index", "", modern, order_of_index(data))]
    streams += [
        Stream("modern mail, shuffled *", f"{seed}", modern, shuffle(range(len(modern)), seed))
        for seed in range(8)
    ]
    for draw in range(6):
        streams += old_and_fresh(both, len(sets["old ham"]), draw)
    streams += unbalanced(old, half)
    streams += few_labels(old, half)
    for hams, spams in (
        ("newsgroups", "spam of 2026"),
        ("old ham", "spam of 2026"),
        ("SMS ham", "SMS spam"),
        ("YouTube ham", "YouTube spam"),
    ):
        other = Corpus(sets[hams], sets[spams])
        streams.append(Stream(f"{hams}, {spams}", "", other, shuffle(range(len(other)), 3)))
    streams += [
        Stream("SpamAssassin, one half, shuffled *", f"{seed}", old, shuffle(half, seed)) for seed in (11, 12)
    ]
    streams.append(Stream("SpamAssassin by date", "", old, by_date))
    streams += [
        Stream("SpamAssassin, shuffled", f"{seed}", old, shuffle(range(len(old)), seed))
        for seed in (2026, 1, 2, 3, 4)
    ]
    benchmark = list(range(len(old)))
    random.Random(2026).shuffle(benchmark)  # as benchmarks/mail_stream.py
    streams.append(Stream("SpamAssassin, shuffled", "benchmark", old, np.array(benchmark)))
    return streams


def old_and_fresh(both: Corpus, old_hams: int, draw: int) -> list[Stream]:
    """Learn 1,500 old ham, 15 modern ham and half of the modern spam; then the other modern mail comes."""
    rng = random.Random(100 + draw)
    hams = [m for m in range(old_hams, len(both)) if not both.labels[m]]
    spams = np.flatnonzero(both.labels).tolist()
    rng.shuffle(hams)
    rng.shuffle(spams)
    cut = len(spams) // 2
    past = rng.sample(range(old_hams), 1500) + hams[:15] + spams[:cut]
    future = hams[15:] + spams[cut:]
    rng.shuffle(past)
    rng.shuffle(future)
    order = np.array(past + future)
    name = "old archive and fresh junk"
    return [
        Stream(f"{name}, then judged", f"{draw}", both, order, len(past), learns=False),
        Stream(f"{name}, then judged and learned", f"{draw}", both, order, len(past)),
    ]


def unbalanced(old: Corpus, half: list[int]) -> list[Stream]:
    streams = []
    for n_spam, n_ham in ((900, 90), (90, 900)):
        for draw in range(4):
            rng = random.Random(n_spam + draw)
            spams = rng.sample([m for m in half if old.labels[m]], n_spam)
            hams = rng.sample([m for m in half if not old.labels[m]], n_ham)
            streams.append(
                Stream(f"{n_spam} spam, {n_ham} ham *", f"{draw}", old, shuffle(spams + hams, draw))
            )
    return streams


def few_labels(old: Corpus, half: list[int]) -> list[Stream]:
    streams = []
    for n_each in (10, 30):
        for draw in range(10):
            rng = random.Random(1000 * n_each + draw)
            spams = rng.sample([m for m in half if old.labels[m]], n_each)
            hams = rng.sample([m for m in half if not old.labels[m]], n_each)
            rest = rng.sample(sorted(set(half) - set(spams) - set(hams)), 1000)
            order = np.concatenate([shuffle(spams + hams, draw), rest])
            streams.append(
                Stream(
                    f"{n_each} spam and {n_each} ham, then 1,000",
                    f"{draw}",
                    old,
                    order,
                    2 * n_each,
                    learns=False,
                )
            )
    return streams
