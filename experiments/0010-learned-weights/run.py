"""Which rule for mail? python run.py DATA [--cache FOLDER] [--rules NAME …] [--streams WORD …] [--table]

What each rule said of each message is kept in the cache; --table prints the tables of what is there.
"""

import argparse
import hashlib
import sys
import time
from pathlib import Path

import numpy as np
from figures import FIGURES, Answers, measure_group, resample_group
from peers import HAM, SPAM, run_bogofilter
from rules import FIXED, PRIORS, SHIPPED, VARIANTS, run
from streams import Stream, make_streams

BOGOFILTER = "bogofilter"
OUTCOMES = ("won", "tied", "lost")
RULES = {variant.name: variant for variant in (*VARIANTS, *PRIORS)}


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def path_of(stream: Stream, name: str, cache: Path) -> Path:
    mark = hashlib.sha256(f"{stream.group}|{stream.name}|{name}".encode()).hexdigest()[:20]
    return cache / "answers" / f"{mark}.npy"


def compute(stream: Stream, name: str, cache: Path) -> None:
    path = path_of(stream, name, cache)
    if path.exists():
        return
    start = time.perf_counter()
    log_odds = run_bogofilter(stream) if name == BOGOFILTER else run(stream, RULES[name])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, log_odds)
    tell(f"{time.perf_counter() - start:6.1f} s  {stream.group} {stream.name}: {name}")


def read_answers(streams: list[Stream], name: str, cache: Path) -> list[Answers]:
    """What is in the cache of the streams of a group."""
    spam, ham = (SPAM, HAM) if name == BOGOFILTER else (RULES[name].rule.spam, RULES[name].rule.ham)
    paths = [path_of(stream, name, cache) for stream in streams]
    pairs = [(stream, path) for stream, path in zip(streams, paths, strict=True) if path.exists()]
    return [Answers(stream, np.load(path), spam, ham) for stream, path in pairs]


def show(value: float, error: float, sign: str = "") -> str:
    """A figure and its standard error, with one digit."""
    return f"{value:{sign}.3g} ± {float(f'{error:.1g}'):g}"


def print_tables(groups: dict[str, list[Stream]], names: list[str], cache: Path) -> None:
    """All figures with standard errors, and where a rule differs from another by more than two of them."""
    tell("| streams | rule | " + " | ".join(FIGURES) + " |\n" + "|---" * (2 + len(FIGURES)) + "|")
    comparisons = []
    for group, streams in groups.items():
        title = f"{group} ({len(streams)})"
        for name in names:
            answers = read_answers(streams, name, cache)
            if not answers:
                continue
            mean, error = measure_group(answers), resample_group(answers).std(axis=0)
            pairs = zip(mean, error, strict=True)
            some = "" if len(answers) == len(streams) else f" ({len(answers)} of them)"
            tell(f"| {title} | {name}{some} | " + " | ".join(show(x, e) for x, e in pairs) + " |")
            title = ""
        for other in (FIXED.name, BOGOFILTER):
            ours = read_answers(streams, SHIPPED.name, cache)
            theirs = {one.stream.name: one for one in read_answers(streams, other, cache)}
            ours = [one for one in ours if one.stream.name in theirs]
            if ours:
                paired = [theirs[one.stream.name] for one in ours]
                difference = measure_group(ours) - measure_group(paired)
                error = (resample_group(ours) - resample_group(paired)).std(axis=0)
                comparisons.append((other, group, len(ours), difference, error))
    for other in (FIXED.name, BOGOFILTER):
        tell(
            f"\nshipped less {other}\n\n| streams | "
            + " | ".join(FIGURES)
            + " |\n"
            + "|---" * (1 + len(FIGURES))
            + "|"
        )
        totals = np.zeros((3, len(FIGURES)), int)
        for name, group, count, difference, error in comparisons:
            if name == other:
                verdicts = np.where(difference < -2 * error, 0, np.where(difference > 2 * error, 2, 1))
                verdicts[np.abs(difference) < 1e-12] = 1
                totals[verdicts, np.arange(len(FIGURES))] += 1
                cells = (
                    f"{show(d, e, '+')} {OUTCOMES[v]}"
                    for d, e, v in zip(difference, error, verdicts, strict=True)
                )
                tell(f"| {group} ({count}) | " + " | ".join(cells) + " |")
        tell(
            "| won / tied / lost | "
            + " | ".join("{} / {} / {}".format(*column) for column in totals.T)
            + " |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/exp10"))
    parser.add_argument(
        "--rules", nargs="*", help="names; by default all but the trials of priors, and bogofilter"
    )
    parser.add_argument("--streams", nargs="*", help="words in names of groups, all if none")
    parser.add_argument("--table", action="store_true", help="print tables of what was computed")
    options = parser.parse_args()
    names = options.rules or [*(variant.name for variant in VARIANTS), BOGOFILTER]
    groups: dict[str, list[Stream]] = {}
    for stream in make_streams(options.data, options.cache):
        if not options.streams or any(word in stream.group for word in options.streams):
            groups.setdefault(stream.group, []).append(stream)
    if options.table:
        print_tables(groups, names, options.cache)
        return
    for streams in groups.values():
        for name in names:
            for stream in streams:
                compute(stream, name, options.cache)


if __name__ == "__main__":
    main()
