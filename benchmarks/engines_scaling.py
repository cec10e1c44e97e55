"""Strong scaling of threads over shards: the same fit on one core and on two.

    python -m benchmarks.engines_scaling [--cases NAME …] [--rows N] [--repeats 3] [--output FILE]

fits each model to the same shards in memory, in processes that may use one core or two (by their affinity),
in turns, and prints the median of each and of their ratio. A model that reads its rows once is so quick that
it reads the list of shards several times over, as if there were so many more rows: a fit takes a second or
more. The whole takes about five minutes. On a machine that does other work, the ratio is that of the cores
that were left, and says nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.raw_results import compare, write_run

ROWS, SHARDS, COLUMNS = 1 << 22, 16, 16  # a shard is as large as a row group of `benchmarks.engines_parquet`
TIMES = {"naive Bayes": 10, "moments": 10, "mixture": 1}  # how often the list of shards is read in one pass
WANTED = 1.7  # times the speed of one core


def make_rows(rows: int) -> tuple[Any, Any]:
    """Rows of four classes, and their classes."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 4, rows)
    values = rng.standard_normal((rows, COLUMNS)) + 2.0 * np.eye(4, COLUMNS)[group]
    return values, group


def fit_naive_bayes(data: Any, y: Any) -> None:
    """Gaussian naive Bayes."""
    import tamis  # noqa: PLC0415  (the process chooses its cores first)

    tamis.GaussianNB().fit(data, y)


def fit_moments(data: Any, y: Any) -> None:
    """Principal components, by full moments."""
    import tamis  # noqa: PLC0415

    tamis.PCA(4, solver="moments").fit(data)


def fit_mixture(data: Any, y: Any) -> None:
    """Ten steps of EM, four components of full covariance."""
    import warnings  # noqa: PLC0415

    import tamis  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tamis.Mixture(4, max_iter=10, tol=0.0, random_state=0).fit(data)


TASKS: dict[str, Callable[[Any, Any], None]] = {
    "naive Bayes": fit_naive_bayes,
    "moments": fit_moments,
    "mixture": fit_mixture,
}


def measure(task: str, rows: int) -> dict[str, float]:
    """The seconds of one fit, by the clock and of processors."""
    from tamis.engines import Batches  # noqa: PLC0415

    X, y = make_rows(rows)
    runs = np.array_split(np.arange(rows), SHARDS)
    parts = [(X[run[0] : run[-1] + 1], y[run[0] : run[-1] + 1]) for run in runs]
    batches = [(part,) if task != "naive Bayes" else (part, labels) for part, labels in parts]
    TASKS[task](Batches(batches[:2]), None)  # loads libraries
    start, processor = time.perf_counter(), time.process_time()
    TASKS[task](Batches(batches * TIMES[task]), None)
    return {"seconds": time.perf_counter() - start, "processor": time.process_time() - processor}


def run(task: str, cores: int, options: argparse.Namespace) -> dict[str, float]:
    """Measure in a process of its own, which may use so many cores."""
    command = [sys.executable, "-m", "benchmarks.engines_scaling", "--task", task, "--cores", str(cores)]
    command += ["--rows", str(options.rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Print a line per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", nargs="+", choices=list(TASKS), default=list(TASKS), help="the models to fit"
    )
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        print(json.dumps(measure(options.task, options.rows)))  # noqa: T201
        return
    load = f"load {os.getloadavg()[0]:.1f} before"
    print(f"{options.rows:,} rows of {COLUMNS} columns in {SHARDS} shards; {load}")  # noqa: T201
    print("model         1 core   2 cores   speed-up   processor s, 1 and 2 cores")  # noqa: T201
    comparisons = []
    for task in options.cases:
        pairs = [(run(task, 1, options), run(task, 2, options)) for _ in range(options.repeats)]
        one, two = ([pair[k]["seconds"] for pair in pairs] for k in (0, 1))
        spent = (np.median([pair[k]["processor"] for pair in pairs]) for k in (0, 1))
        case, about = f"engines-scaling-{task.replace(' ', '-').lower()}", "two cores against one core"
        row = compare(case, about, two, one, wanted=WANTED, group="engines")
        comparisons.append(row)
        print(  # noqa: T201
            f"{task:12} {row.peer:6.2f} s {row.ours:7.2f} s {row.ratio:10.2f}   "
            + " and ".join(f"{each:.2f}" for each in spent),
            flush=True,
        )
    if options.output:
        title = "Strong scaling of threads over shards, on two cores"
        write_run(options.output, title, text=load, comparisons=comparisons)


if __name__ == "__main__":
    main()
