"""`python -m benchmarks.mail_stream --data FOLDER`: judge a message, then learn it: how well do filters sort?

Every filter sees the same messages in the same order, begins with nothing, and is told the truth of each
message after it has judged it. What each said of each message is kept in a CSV under build/, so that figures
can be counted anew: peers that are there already are not run again, tamis is (`--again` says who is). With
`--output` the figures are also written for `benchmarks.scoreboard`, with intervals and calibration.

1-ROCA % is 100 × (1 - the area under the ROC curve); missed at x % is the spam that is lost by a threshold
that loses x % of the ham. Seconds are of the whole stream: tamis in one process, the others a process each
time, as their users run them.
"""

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.mail_corpus import (
    BUILD,
    SEED,
    Mail,
    add_corpus,
    add_order,
    fingerprint,
    ordered,
    read_corpus,
    tell,
)
from benchmarks.mail_filters import FILTERS, Answer, refuse_missing
from benchmarks.mail_metrics import LOSSES, Figures, figures
from benchmarks.mail_record import WANTED, describe_filter, describe_versions
from benchmarks.raw_results import write_run
from tamis_mail.labels import SPAM

__all__ = ["Row", "row_of", "stream"]

FIELDS = ("number", "name", "label", "score", "probability", "verdict", "failed", "judge_s", "learn_s")
_EVERY = 500  # messages after which it says how far it is


class Row(NamedTuple):
    """What a filter said of a message before it learned it."""

    name: str
    label: str
    answer: Answer
    judging: float  # seconds
    learning: float


def stream(name: str, mail: Sequence[Mail], path: Path) -> list[Row]:
    """Let a filter judge and learn each message; the CSV is there when all of them are done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        filter_ = FILTERS[name](Path(folder))
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        begun = time.perf_counter()
        for number, one in enumerate(mail):
            start = time.perf_counter()
            answer = filter_.judge(one.raw)
            judged = time.perf_counter()
            filter_.learn(one.raw, one.label)
            row = Row(one.name, one.label, answer, judged - start, time.perf_counter() - judged)
            rows.append(row)
            said = (repr(answer.score), repr(answer.probability), answer.verdict, int(answer.failed))
            writer.writerow((number, *row[:2], *said, f"{row.judging:.6f}", f"{row.learning:.6f}"))
            if number % _EVERY == _EVERY - 1:
                tell(f"{name}: {number + 1:,} of {len(mail):,} messages, {time.perf_counter() - begun:.0f} s")
        filter_.close()
    part.replace(path)
    return rows


def read(path: Path) -> list[Row]:
    """The rows of a CSV."""
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        return [
            Row(
                row["name"],
                row["label"],
                Answer(float(row["score"]), float(row["probability"]), row["verdict"], row["failed"] == "1"),
                float(row["judge_s"]),
                float(row["learn_s"]),
            )
            for row in csv.DictReader(file)
        ]


def summed(rows: Sequence[Row]) -> Figures:
    """The figures of a stream."""
    answers = [row.answer for row in rows]
    return figures(
        np.array([answer.score for answer in answers]),
        np.array([answer.probability for answer in answers]),
        [answer.verdict for answer in answers],
        np.array([row.label == SPAM for row in rows]),
    )


TITLES = (
    "filter",
    "1-ROCA % (95 %)",
    *(f"missed at {100 * loss:g} %" for loss in LOSSES),
    "ham called spam %",
    "ham unsure %",
    "spam not called spam %",
    "spam called ham %",
    "Brier",
    "ECE 10",
    "ECE 15",
    "log-loss",
    "seconds",
    "failed",
)


def row_of(name: str, rows: Sequence[Row]) -> str:
    """A line of the table."""
    found = summed(rows)
    shares = (*found.missed, found.ham_as_spam, found.ham_unsure, found.spam_not_spam, found.spam_as_ham)
    worth = (found.brier, *found.errors, found.log_loss)
    seconds = sum(row.judging + row.learning for row in rows)
    cells = [name, str(found.area), *(f"{share:.2f}" for share in shares), *(f"{one:.4f}" for one in worth)]
    cells += [f"{seconds:.0f}", str(sum(row.answer.failed for row in rows))]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail_stream", description=__doc__)
    add_corpus(parser)
    add_order(parser)
    parser.add_argument("--filters", default=",".join(FILTERS), help=f"default: {','.join(FILTERS)}")
    parser.add_argument(
        "--again", default="tamis", help="who is run though the CSV is there (default: tamis)"
    )
    parser.add_argument("--cache", type=Path, default=BUILD / "mail_stream", help="where the CSVs are")
    parser.add_argument("--name", help="of the corpus, in the results (default: its folder)")
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    options = parser.parse_args()
    names = options.filters.split(",")
    mail = ordered(read_corpus(options), options.order, options.seed)
    order = options.order
    if order == "random" and options.seed != SEED:
        order = f"random (seed {options.seed})"
    paths = {name: options.cache / f"{name}-{fingerprint(mail)}.csv" for name in names}
    wanted = [name for name in names if name in options.again.split(",") or not paths[name].is_file()]
    refuse_missing(wanted)
    spam = sum(one.is_spam for one in mail)
    said = f"{len(mail):,} messages ({spam:,} spam, {len(mail) - spam:,} ham), order: {order}"
    sys.stdout.write(f"{said}; CSVs: {options.cache}/*-{fingerprint(mail)}.csv\n\n")
    sys.stdout.write(f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}\n")
    results = []
    for name in names:
        rows = stream(name, mail, paths[name]) if name in wanted else read(paths[name])
        sys.stdout.write(f"{row_of(name, rows)}\n")
        sys.stdout.flush()
        truth = np.array([row.label == SPAM for row in rows])
        seconds = sum(row.judging + row.learning for row in rows)
        results.append(describe_filter(name, [row.answer for row in rows], truth, seconds))
    if options.output:
        title = f"{options.name or options.data.name}, {order}"
        record = {"name": title, "messages": len(mail), "spam": spam, "wanted": WANTED.get(title, {})}
        write_run(
            options.output,
            f"Mail: {title}",
            stream={**record, "filters": results},
            versions=describe_versions(names),
        )


if __name__ == "__main__":
    main()
