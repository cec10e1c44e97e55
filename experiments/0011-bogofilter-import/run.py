"""Is mail judged as well after an import from bogofilter as by bogofilter? python run.py DATA [--seeds N …] [--own]

bogofilter learns some messages, its word list is imported into an empty store, and both judge other messages.
With --own, both then learn some of the user's own mail, too. DATA holds the unpacked corpora.
"""

import argparse
import io
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tamis_mail.labels import HAM, SPAM
from tamis_mail.sieve import Sieve
from tamis_mail.store.import_foreign import load_bogofilter

Files = list[Path]
Draw = tuple[str, Files, Files, Files, Files]  # name; spam and ham that are learned; spam and ham that are judged
FIGURES = ("1-ROCA %", "missed at 0.1 % ham loss %", "spam called spam %", "ham called spam %", "spam called ham %", "ham called ham %")


def read_index(folder: Path, label: str) -> Files:
    lines = (line.split("\t") for line in (folder / "index.tsv").read_text().splitlines())
    return [folder / path for kind, path, *_ in lines if kind == label]


class Corpora:
    """Files of each corpus, in a fixed order."""

    def __init__(self, data: Path) -> None:
        self.old_spam, self.old_ham = (read_index(data / "spamassassin", label) for label in (SPAM, HAM))
        self.modern_spam, self.modern_ham = (read_index(data / "modern-mail", label) for label in (SPAM, HAM))
        self.junk = read_index(data / "cwl-email-corpus-2026", SPAM)
        self.news = sorted(path for path in (data / "20news-bydate-train").rglob("*") if path.is_file())


def shuffle(files: Files, seed: int) -> Files:
    shuffled = list(files)
    random.Random(seed).shuffle(shuffled)
    return shuffled


def draws(corpora: Corpora, seed: int) -> Iterator[Draw]:
    spam, ham = shuffle(corpora.old_spam, seed), shuffle(corpora.old_ham, seed)
    for s, h in ((900, 2000), (200, 200), (500, 100), (50, 500)):
        yield f"SpamAssassin, {s} spam and {h} ham", spam[:s], ham[:h], spam[900:1800], ham[2000:4000]
    modern_spam, modern_ham = shuffle(corpora.modern_spam, seed), shuffle(corpora.modern_ham, seed)
    yield "modern-mail, half", modern_spam[:72], modern_ham[:66], modern_spam[72:], modern_ham[66:]
    yield "modern-mail, three quarters", modern_spam[:110], modern_ham[:100], modern_spam[110:], modern_ham[100:]
    junk, news = shuffle(corpora.junk, seed), shuffle(corpora.news, seed)
    yield "spam-2026 and newsgroups", junk[:400], news[:400], junk[400:], news[400:1900]
    yield "spam-2026, newsgroups and modern ham", junk[:400], news[:300] + modern_ham[:66], junk[400:], modern_ham[66:]
    yield "old ham and fresh junk; judged: modern ham", junk[:400], ham[:400], junk[500:], modern_ham


def own_draws(corpora: Corpora, seed: int) -> Iterator[tuple[Draw, tuple[Files, Files]]]:
    """Yield draws, and the user's own mail that is learned after the import."""
    spam, ham = shuffle(corpora.old_spam, seed), shuffle(corpora.old_ham, seed)
    modern_spam, modern_ham = shuffle(corpora.modern_spam, seed), shuffle(corpora.modern_ham, seed)
    junk = shuffle(corpora.junk, seed)
    yield ("SpamAssassin, then SpamAssassin", spam[:400], ham[:400], spam[600:1100], ham[600:1600]), (spam[400:600], ham[400:600])
    yield ("SpamAssassin, then modern-mail", spam[:400], ham[:400], modern_spam[80:], modern_ham[72:]), (modern_spam[:80], modern_ham[:72])
    yield ("modern-mail, then modern-mail", modern_spam[:40], modern_ham[:36], modern_spam[90:], modern_ham[82:]), (modern_spam[40:90], modern_ham[36:82])
    yield ("old ham and fresh junk, then modern ham", junk[:400], ham[:400], junk[500:], modern_ham[72:]), (junk[400:500], modern_ham[:72])


def call_bogofilter(folder: str, option: str, files: Files) -> str:
    lines = "".join(f"{path}\n" for path in files)
    options = ["-d", folder, "-b", *option.split()]
    return subprocess.run(["bogofilter", *options], input=lines, text=True, capture_output=True, check=False).stdout


def judge_by_bogofilter(folder: str, files: Files) -> np.ndarray:
    """(messages,): spamicity; 0 where bogofilter says nothing."""
    scores = dict(line.rsplit(None, 1) for line in call_bogofilter(folder, "-TT", files).splitlines())
    return np.array([float(scores.get(str(path), 0)) for path in files])


def measure(scores: np.ndarray, is_spam: np.ndarray, spam: float, ham: float) -> list[float]:
    """Compute FIGURES; `spam` and `ham` are thresholds of the scores."""
    spams, hams = scores[is_spam], scores[~is_spam]
    order = np.sort(hams)
    below, up_to = np.searchsorted(order, spams, "left"), np.searchsorted(order, spams, "right")
    threshold = order[::-1][int(0.001 * len(hams))]
    shares = [1 - (below + up_to).mean() / 2 / len(hams), (spams <= threshold).mean()]
    shares += [(spams >= spam).mean(), (hams >= spam).mean(), (spams <= ham).mean(), (hams <= ham).mean()]
    return [100 * float(share) for share in shares]


def judge_by_tamis(sieve: Sieve, files: Files) -> np.ndarray:
    return np.array([verdict.log_odds for verdict in sieve.sort_many([path.read_bytes() for path in files], processes=1)])


def compare(draw: Draw, own: tuple[Files, Files] = ([], []), sizes: Sequence[int] = (0,)) -> Iterator[tuple[int, list[float], list[float]]]:
    """Yield the number of own messages of each kind, and the figures of bogofilter and of tamis."""
    _, learned_spam, learned_ham, judged_spam, judged_ham = draw
    judged = judged_spam + judged_ham
    is_spam = np.arange(len(judged)) < len(judged_spam)
    with tempfile.TemporaryDirectory() as folder, Sieve.open(Path(folder) / "mail.tamis") as sieve:
        for option, files in (("-s", learned_spam), ("-n", learned_ham)):
            call_bogofilter(folder, option, files)
        dump = subprocess.run(["bogoutil", "-d", f"{folder}/wordlist.db"], capture_output=True, check=True).stdout
        load_bogofilter(sieve.store, io.BytesIO(dump))
        last = 0
        for size in sizes:
            if size > min(map(len, own)):
                break
            for label, option, files in ((SPAM, "-s", own[0]), (HAM, "-n", own[1])):
                if size > last:
                    call_bogofilter(folder, option, files[last:size])
                    sieve.learn_many([path.read_bytes() for path in files[last:size]], label, processes=1)
            last = size
            bogofilter = measure(judge_by_bogofilter(folder, judged), is_spam, 0.99, 0.45)
            tamis = measure(judge_by_tamis(sieve, judged), is_spam, np.log(19), -np.log(9))
            yield size, bogofilter, tamis


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[11, 12, 13, 14, 15, 16])
    parser.add_argument("--own", action="store_true", help="learn own mail after the import")
    options = parser.parse_args()
    corpora = Corpora(options.data)
    rows: dict[tuple[str, int], list[tuple[list[float], list[float]]]] = {}
    for seed in options.seeds:
        pairs = own_draws(corpora, seed) if options.own else ((draw, ([], [])) for draw in draws(corpora, seed))
        sizes = (0, 3, 10, 25, 50, 100, 200) if options.own else (0,)
        for draw, own in pairs:
            for size, bogofilter, tamis in compare(draw, own, sizes):
                rows.setdefault((draw[0], size), []).append((bogofilter, tamis))
    print("| learned, judged | own messages of each kind | filter | " + " | ".join(FIGURES) + " |\n" + "|---" * (3 + len(FIGURES)) + "|")
    for (name, size), pairs in rows.items():
        for number, title in enumerate(("bogofilter", "tamis")):
            figures = np.array([pair[number] for pair in pairs])
            print(f"| {name} ({len(pairs)}) | {size} | {title} | " + " | ".join(f"{mean:.3g}" for mean in figures.mean(axis=0)) + " |")
        wins = np.sign([[b - t for b, t in zip(*pair)] for pair in pairs]) * np.array([1, 1, -1, 1, 1, -1])
        print("| | | won/tied/lost | " + " | ".join(f"{(w > 0).sum()}/{(w == 0).sum()}/{(w < 0).sum()}" for w in wins.T) + " |", flush=True)


if __name__ == "__main__":
    main()
