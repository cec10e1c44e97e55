"""Mail of several kinds as streams: rows of features, labels and dates, read once and kept in --cache.

A stream is a corpus and an order of its messages; each message is judged, then learned.
"""

import csv
import email.utils
import glob
import hashlib
import pickle
import random
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relations import relations
from tamis_mail.message import canonical, parse
from tamis_mail.sieve.jobs import extract_features

VIEWS = 5  # those of tokens version 1, and relations


@dataclass(frozen=True)
class Corpus:
    """Messages as the places of their features."""

    labels: np.ndarray  # (n,): 1 is spam
    dates: np.ndarray  # (n,): seconds since 1970; NaN if unknown
    starts: np.ndarray  # (n + 1,)
    places: np.ndarray  # of all messages, one after the other
    kinds: np.ndarray  # of each feature: its view

    def __len__(self) -> int:
        return len(self.labels)

    def features(self, message: int) -> np.ndarray:
        return self.places[self.starts[message] : self.starts[message + 1]]


def date_of(raw: bytes) -> float:
    """The date that the first server on the way wrote (the last Received), else the Date field."""
    head = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0][:65536]
    head = re.sub(rb"\r?\n[ \t]+", b" ", head)
    received = re.findall(rb"(?im)^Received:.*;([^;]*)$", head)
    own = re.findall(rb"(?im)^Date:(.*)$", head)
    for text in [*received[:1], *own[:1]]:
        try:
            return email.utils.parsedate_to_datetime(text.decode("latin-1").strip()).timestamp()
        except (ValueError, TypeError, OverflowError):
            continue
    return float("nan")


def make_corpus(messages: list[tuple[bytes, int]], cache: Path) -> Corpus:
    """Read messages, or take them from the cache if they were read by this version of tokens before."""
    mark = hashlib.sha256(f"1 {hashlib.sha256(Path(relations.__code__.co_filename).read_bytes()).hexdigest()}".encode())
    for raw, label in messages:
        mark.update(hashlib.sha256(raw).digest() + bytes([label]))
    path = cache / f"{mark.hexdigest()[:24]}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    plain = [canonical(raw) for raw, _ in messages]
    rows = []
    for message, old in zip(plain, extract_features(plain, 1), strict=True):
        new = [int.from_bytes(hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=6).digest(), "little") for token in relations(parse(message))]
        rows.append(np.concatenate([old, np.array(sorted(set(new)), np.uint64) | np.uint64(1 << 60)]))
    keys, places = np.unique(np.concatenate(rows), return_inverse=True)
    corpus = Corpus(
        np.array([label for _, label in messages]),
        np.array([date_of(raw) for raw, _ in messages]),
        np.cumsum([0, *map(len, rows)]),
        places.astype(np.int32),
        np.where(keys >> np.uint64(60), 4, keys & np.uint64(3)).astype(np.int8),
    )
    cache.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(corpus))
    return corpus


def read_files(data: Path, pattern: str) -> list[bytes]:
    return [Path(path).read_bytes() for path in sorted(glob.glob(str(data / pattern))) if not path.endswith("cmds")]


def read_all(data: Path) -> dict[str, list[bytes]]:
    """Each set of messages by its name."""
    sms = [
        line.split("\t", 1)
        for line in (data / "sms-spam-collection/SMSSpamCollection").read_text("utf-8", errors="replace").splitlines()
    ]
    youtube = []
    for path in sorted(glob.glob(str(data / "youtube-spam/labelled/*.csv"))):
        with open(path, newline="", encoding="utf-8", errors="replace") as lines:
            youtube += [(row["CONTENT"], int(row["CLASS"])) for row in csv.DictReader(lines)]
    return {
        "old ham": [m for f in ("easy_ham", "easy_ham_2", "hard_ham") for m in read_files(data, f"spamassassin/{f}/*")],
        "old spam": read_files(data, "spamassassin/spam*/*"),
        "modern ham": read_files(data, "modern-mail/ham/*"),
        "modern spam": read_files(data, "modern-mail/spam/*"),
        "spam of 2026": read_files(data, "cwl-email-corpus-2026/submissions/*/*/emails/*.eml"),
        "newsgroups": random.Random(1).sample(read_files(data, "20news-bydate-train/*/*"), 2000),
        "SMS ham": [f"Subject: \n\n{text}".encode() for label, text in sms if label == "ham"],
        "SMS spam": [f"Subject: \n\n{text}".encode() for label, text in sms if label == "spam"],
        "YouTube ham": [f"Subject: \n\n{text}".encode() for text, label in youtube if not label],
        "YouTube spam": [f"Subject: \n\n{text}".encode() for text, label in youtube if label],
    }


@dataclass(frozen=True)
class Stream:
    """A corpus, the order in which its messages come, and from which one on they are scored."""

    name: str
    corpus: Corpus
    order: np.ndarray
    scored: int = 0


def make_streams(data: Path, cache: Path) -> list[Stream]:
    """All streams, those that choices are made on first."""
    kinds = read_all(data)

    def corpus(hams: str, spams: str) -> Corpus:
        return make_corpus([(raw, 0) for raw in kinds[hams]] + [(raw, 1) for raw in kinds[spams]], cache)

    streams = []
    old = corpus("old ham", "old spam")
    shuffled = list(range(len(old)))
    random.Random(7).shuffle(shuffled)
    half = shuffled[: len(old) // 2]
    for seed in (11, 12):
        order = random.Random(seed).sample(half, len(half))
        streams.append(Stream(f"SpamAssassin, development half, order {seed}", old, np.array(order)))
    spams = [m for m in half if old.labels[m]]
    hams = [m for m in half if not old.labels[m]]
    for a, b in ((900, 90), (90, 900)):
        rng = random.Random(a)
        streams.append(Stream(f"{a} spam, {b} ham", old, np.array(rng.sample(spams[:a] + hams[:b], a + b))))
    by_date = np.argsort(np.where(np.isnan(old.dates), np.nanmedian(old.dates), old.dates), kind="stable")
    modern = corpus("modern ham", "modern spam")
    for seed in range(8):
        order = random.Random(seed).sample(range(len(modern)), len(modern))
        streams.append(Stream(f"modern mail, order {seed}", modern, np.array(order)))
    for hams_of, spams_of in (("newsgroups", "spam of 2026"), ("old ham", "spam of 2026"), ("SMS ham", "SMS spam"), ("YouTube ham", "YouTube spam")):
        other = corpus(hams_of, spams_of)
        order = random.Random(3).sample(range(len(other)), len(other))
        streams.append(Stream(f"{hams_of}, {spams_of}", other, np.array(order)))
    for seed in range(4):
        streams.append(old_and_fresh(kinds, cache, seed))
    streams.append(Stream("SpamAssassin by date", old, by_date))
    for seed in (2026, 1, 2):
        order = random.Random(seed).sample(range(len(old)), len(old))
        streams.append(Stream(f"SpamAssassin, all, order {seed}", old, np.array(order)))
    return streams


def old_and_fresh(kinds: dict[str, list[bytes]], cache: Path, seed: int) -> Stream:
    """1,500 old ham, 15 modern ham and half of the modern spam are learned; then the other modern mail comes."""
    rng = random.Random(100 + seed)
    hams, spams = rng.sample(kinds["modern ham"], len(kinds["modern ham"])), rng.sample(kinds["modern spam"], len(kinds["modern spam"]))
    past = [(raw, 0) for raw in rng.sample(kinds["old ham"], 1500) + hams[:15]] + [(raw, 1) for raw in spams[: len(spams) // 2]]
    future = [(raw, 0) for raw in hams[15:]] + [(raw, 1) for raw in spams[len(spams) // 2 :]]
    rng.shuffle(past)
    rng.shuffle(future)
    corpus = make_corpus(past + future, cache)
    return Stream(f"old archive and fresh junk, draw {seed}", corpus, np.arange(len(corpus)), len(past))
