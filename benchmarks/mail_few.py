"""`python -m benchmarks.mail_few --data FOLDER`: 20 spam and 20 ham are known: how is the rest ranked?

In each of 20 draws a filter learns 20 and 20 messages, and ranks all others: the area under the ROC curve, in
per cent. tamis then learns messages without labels too: the rest itself (transductive), or one half of the
rest while the other half is ranked (inductive; with and without are compared on that other half). bogofilter
learns and judges in bulk.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.mail_corpus import BUILD, Mail, add_corpus, fingerprint, give_up, read_corpus, tell
from benchmarks.mail_filters import bogofilter_scores, refuse_missing
from benchmarks.mail_metrics import roc_area
from tamis_mail import Sieve
from tamis_mail.labels import HAM, SPAM

FEW = 20  # messages of each label
PLAIN, TRANSDUCTIVE = "tamis", "tamis, the rest unlabelled (transductive)"
HALF, INDUCTIVE = "tamis, on one half of the rest", "tamis, the other half unlabelled (inductive)"
BOGOFILTER = "bogofilter"
PAIRS = ((PLAIN, BOGOFILTER), (TRANSDUCTIVE, PLAIN), (INDUCTIVE, HALF))

Areas = dict[str, float]


def draw(mail: Sequence[Mail], number: int) -> tuple[list[int], list[int], list[int]]:
    """Indices of spam to learn, of ham to learn, and of all others, shuffled."""
    dice = random.Random(1000 + number)
    spam = dice.sample([index for index, one in enumerate(mail) if one.is_spam], FEW)
    ham = dice.sample([index for index, one in enumerate(mail) if not one.is_spam], FEW)
    known = {*spam, *ham}
    rest = [index for index in range(len(mail)) if index not in known]
    dice.shuffle(rest)
    return spam, ham, rest


def tamis_areas(mail: Sequence[Mail], number: int, processes: int | None) -> Areas:
    """The areas of a draw, with and without unlabelled mail."""
    spam, ham, rest = draw(mail, number)
    half = len(rest) // 2
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.tamis"
        with Sieve.open(base) as sieve:
            sieve.learn_many((mail[index].raw for index in spam), SPAM, processes=1)
            sieve.learn_many((mail[index].raw for index in ham), HAM, processes=1)
            plain = _scores(sieve, mail, rest, processes)
        found = {PLAIN: _area(plain, mail, rest), HALF: _area(plain[half:], mail, rest[half:])}
        for name, unlabelled, judged in (
            (TRANSDUCTIVE, rest, rest),
            (INDUCTIVE, rest[:half], rest[half:]),
        ):
            path = Path(folder) / "more.tamis"
            shutil.copy(base, path)
            with Sieve.open(path) as sieve:
                sieve.learn_unlabelled((mail[index].raw for index in unlabelled), processes=processes)
                found[name] = _area(_scores(sieve, mail, judged, processes), mail, judged)
            path.unlink()
    return found


def _scores(sieve: Sieve, mail: Sequence[Mail], judged: Sequence[int], processes: int | None) -> list[float]:
    verdicts = sieve.sort_many((mail[index].raw for index in judged), processes=processes)
    return [verdict.log_odds for verdict in verdicts]


def _area(scores: Sequence[float], mail: Sequence[Mail], judged: Sequence[int]) -> float:
    return 100 * roc_area(np.array(scores), np.array([mail[index].is_spam for index in judged]))


def bogofilter_areas(mail: Sequence[Mail], files: Sequence[Path], number: int) -> Areas:
    """The area of a draw."""
    spam, ham, rest = draw(mail, number)
    with tempfile.TemporaryDirectory() as folder:
        parts = ([files[index] for index in part] for part in (spam, ham, rest))
        scores = bogofilter_scores(Path(folder), *parts)
    return {BOGOFILTER: _area(scores, mail, rest)}


def table(draws: Sequence[Areas]) -> str:
    """Means, then paired differences."""
    names = [name for name in (BOGOFILTER, PLAIN, TRANSDUCTIVE, HALF, INDUCTIVE) if name in draws[0]]
    lines = ["| filter | mean ROC area % | standard error | least |", "|---|---|---|---|"]
    for name in names:
        areas = np.array([found[name] for found in draws])
        lines.append(f"| {name} | {areas.mean():.3f} | {_error(areas):.3f} | {areas.min():.3f} |")
    lines += ["", "| | against | difference | standard error | won | lost |", "|---|---|---|---|---|---|"]
    for ours, theirs in PAIRS:
        if ours in names and theirs in names:
            gains = np.array([found[ours] - found[theirs] for found in draws])
            won, lost = int((gains > 0).sum()), int((gains < 0).sum())
            lines.append(
                f"| {ours} | {theirs} | {gains.mean():+.3f} | {_error(gains):.3f} | {won} | {lost} |"
            )
    return "\n".join(lines) + "\n"


def _error(values: "np.typing.NDArray[np.float64]") -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail_few", description=__doc__)
    add_corpus(parser)
    parser.add_argument("--draws", type=int, default=20, help="default: 20")
    parser.add_argument("--filters", default="tamis,bogofilter", help="default: tamis,bogofilter")
    parser.add_argument("--processes", type=int, help="that tamis takes (default: one for each core)")
    parser.add_argument(
        "--cache", type=Path, default=BUILD / "mail_few", help="where bogofilter's areas are kept"
    )
    options = parser.parse_args()
    names = options.filters.split(",")
    refuse_missing(names)
    mail = read_corpus(options)
    least = min(sum(one.is_spam for one in mail), sum(not one.is_spam for one in mail))
    if least <= FEW:
        give_up(f"there are {least} messages of one kind, expected more than {FEW} of each: give more mail")
    cache = options.cache / f"bogofilter-{fingerprint(mail)}.json"
    kept: dict[str, Areas] = json.loads(cache.read_text()) if cache.is_file() else {}
    draws: list[Areas] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{index:06}.eml" for index in range(len(mail))]
        for file, one in zip(files, mail, strict=True):
            file.write_bytes(one.raw)
        for number in range(options.draws):
            found: Areas = {}
            if "bogofilter" in names:
                if str(number) not in kept:
                    kept[str(number)] = bogofilter_areas(mail, files, number)
                    cache.parent.mkdir(parents=True, exist_ok=True)
                    cache.write_text(json.dumps(kept))
                found |= kept[str(number)]
            if "tamis" in names:
                found |= tamis_areas(mail, number, options.processes)
            draws.append(found)
            tell(f"draw {number + 1}: " + ", ".join(f"{name} {area:.2f}" for name, area in found.items()))
    sys.stdout.write(
        f"{len(mail):,} messages, {len(draws)} draws of {FEW} spam and {FEW} ham\n\n{table(draws)}"
    )


if __name__ == "__main__":
    main()
