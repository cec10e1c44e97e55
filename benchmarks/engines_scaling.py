"""Strong scaling of threads over shards: the same fit on one core and on two.

    python -m benchmarks.engines_scaling

fits each model to the same shards in memory, in processes that may use one core or two (by their affinity),
in turns, and prints the quickest of each and their ratio. The last column is a fit to all rows at once, on
two cores.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROWS, SHARDS, COLUMNS = 1 << 21, 32, 16


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


def measure(task: str, rows: int, repeats: int, in_shards: bool) -> float:
    """The seconds of the quickest fit."""
    from tamis.engines import Batches  # noqa: PLC0415

    X, y = make_rows(rows)
    data: Any = X
    if in_shards:
        runs = np.array_split(np.arange(rows), SHARDS)
        parts = [(X[run[0] : run[-1] + 1], y[run[0] : run[-1] + 1]) for run in runs]
        data, y = (
            Batches([(part,) if task != "naive Bayes" else (part, labels) for part, labels in parts]),
            None,
        )
    seconds = []
    for _ in range(repeats + 1):  # the first loads libraries
        start = time.perf_counter()
        TASKS[task](data, y)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def run(task: str, cores: int, in_shards: bool, options: argparse.Namespace) -> float:
    """Measure in a process of its own, which may use so many cores."""
    command = [sys.executable, "-m", "benchmarks.engines_scaling", "--task", task, "--cores", str(cores)]
    command += ["--rows", str(options.rows), "--repeats", str(options.repeats)]
    command += [] if in_shards else ["--at-once"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


def main() -> None:
    """Print a line per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--at-once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        figure = measure(options.task, options.rows, options.repeats, not options.at_once)
        print(json.dumps(figure))  # noqa: T201
        return
    print(f"{options.rows:,} rows of {COLUMNS} columns in {SHARDS} shards")  # noqa: T201
    print("model          1 core   2 cores   speed-up   at once, 2 cores")  # noqa: T201
    for task in TASKS:
        one, two, whole = (
            run(task, 1, True, options),
            run(task, 2, True, options),
            run(task, 2, False, options),
        )
        print(f"{task:12} {one:7.2f} s {two:7.2f} s {one / two:9.2f} {whole:15.2f} s")  # noqa: T201


if __name__ == "__main__":
    main()
