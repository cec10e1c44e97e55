"""`python -m benchmarks.mail_cost --before CHECKOUT`: what fitted weights cost, against an earlier checkout.

    git worktree add /tmp/before 277dd16^     # the last commit whose store keeps counts alone
    python -m benchmarks.mail_cost --before /tmp/before --ham PATH … --spam PATH … [--messages 20000]

Both trees learn the same two mboxes by `tamis learn` into empty stores, in turns, each compiled to byte code
as `pip install` leaves it. The limits are those that were set when the weights of the evidence came to be
fitted: learning takes at most 1.3 times as long, the store is at most 3 times as large, and one fit to
10,000 messages (`tamis tune`, with the start of its process) takes at most a second.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.mail_corpus import Mail, add_corpus, bodies, read_corpus, tell, write_mbox
from benchmarks.mail_filters import SOURCE, installed
from benchmarks.raw_results import Limit, write_run
from tamis_mail.labels import HAM, SPAM

LEARN_WANTED = 1.3  # times the seconds of the earlier tree
STORE_WANTED = 3.0  # times the bytes of the earlier tree's store
FIT_WANTED = 1.0  # seconds
FITTED_MESSAGES = 10_000
_COMMAND = "import sys; from tamis_mail.surfaces.cli import main; sys.exit(main())"


def run_command(environment: Mapping[str, str], *arguments: str) -> float:
    """Run a command of tamis, and return how many seconds it took."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments],
        env=dict(environment),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - start


def write_boxes(mail: Sequence[Mail], folder: Path) -> list[str]:
    """Write the mail to two mboxes, and return the arguments of `tamis learn` that name them."""
    folder.mkdir()
    for label in (HAM, SPAM):
        write_mbox(folder / f"{label}.mbox", bodies(mail, label))
    return ["--spam", f"{folder}/{SPAM}.mbox", "--ham", f"{folder}/{HAM}.mbox"]


def learn(environment: Mapping[str, str], folder: Path, boxes: Sequence[str]) -> tuple[float, int]:
    """Learn the mboxes into a new store in `folder`: the seconds, and the bytes of the store."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    store = folder / "mail.tamis"
    seconds = run_command(environment, "learn", "--quiet", "--store", str(store), *boxes)
    return seconds, store.stat().st_size


def measure(mail: Sequence[Mail], before: Path, folder: Path, repeats: int) -> list[Limit]:
    """Learn with both trees in turns, fit the weights to 10,000 messages, and return the figures."""
    trees = {
        "now": installed(folder / "now", SOURCE),
        "before": installed(folder / "before", before / "src"),
    }
    boxes = write_boxes(mail, folder / "all")
    runs: dict[str, list[tuple[float, int]]] = {name: [] for name in trees}
    for number in range(repeats):
        for name in trees if number % 2 == 0 else reversed(trees):
            runs[name].append(learn(trees[name], folder / f"{name}-store", boxes))
            tell(f"run {number + 1}: {name}: {runs[name][-1][0]:.2f} s, {runs[name][-1][1] / 1e6:.1f} MB")
    seconds = {name: statistics.median(took for took, _ in runs[name]) for name in trees}
    megabytes = {name: runs[name][-1][1] / 1e6 for name in trees}
    count = min(FITTED_MESSAGES, len(mail))
    some = write_boxes([mail[number * len(mail) // count] for number in range(count)], folder / "some")
    learn(trees["now"], folder / "fitted", some)
    store = str(folder / "fitted" / "mail.tamis")
    fits = [run_command(trees["now"], "tune", "--quiet", "--store", store) for _ in range(max(3, repeats))]
    times = f"({seconds['now']:.2f} s against {seconds['before']:.2f} s)"
    sizes = f"({megabytes['now']:.1f} MB against {megabytes['before']:.1f} MB)"
    return [
        Limit(
            "mail-version-2-learn",
            f"learning {len(mail):,} messages, times that of constant weights {times}",
            seconds["now"] / seconds["before"],
            "times",
            LEARN_WANTED,
        ),
        Limit(
            "mail-version-2-store",
            f"size of the store, times that of constant weights {sizes}",
            megabytes["now"] / megabytes["before"],
            "times",
            STORE_WANTED,
        ),
        Limit(
            "mail-version-2-fit",
            f"fit of the weights at {FITTED_MESSAGES:,} messages, with the start of its process",
            statistics.median(fits),
            "s",
            FIT_WANTED,
        ),
    ]


def main() -> None:
    """Print the figures, and write them where --output says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mail_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_corpus(parser)
    parser.add_argument("--before", type=Path, required=True, metavar="CHECKOUT", help="the earlier tree")
    parser.add_argument("--repeats", type=int, default=3, help="of learning (default: 3)")
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    options = parser.parse_args()
    mail = read_corpus(options)
    with tempfile.TemporaryDirectory() as folder:
        limits = measure(mail, options.before, Path(folder), options.repeats)
    for limit in limits:
        outcome = "missed" if limit.is_missed else "reached"
        sys.stdout.write(
            f"{limit.what}: {limit.ours:.2f} {limit.unit}, wanted at most {limit.wanted:g}: {outcome}\n"
        )
    if options.output:
        text = f"{len(mail):,} messages on two cores, in turns with a checkout of before fitted weights."
        write_run(options.output, "Mail: cost of fitted weights", text=text, limits=limits)


if __name__ == "__main__":
    main()
