"""Fit a model to Parquet files larger than memory: speed against just reading them, and peak memory.

    python -m benchmarks.engines_parquet --gigabytes 20 --remove [--output FILE]

makes the files once (in `--folder`; they are kept for the next run, and removed by `--remove`, also if the
run fails), reads them, and fits each model to them, each time in a new process. "Just reading" decodes the
same columns by the same threads to Arrow tables, and drops them. The share is the speed of the fit as a share
of that of reading; memory is the peak of the process less what it had before the first row.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.raw_results import Limit, compare, write_run

COLUMNS = 16
ROWS = 1 << 18  # of a row group: 36 MB
GROUPS = 28  # of a file: 1 GB
NAMES = [f"x{j}" for j in range(COLUMNS)]
SHARE_WANTED = 0.6  # of the speed of just reading
MEMORY_WANTED = 1000.0  # megabytes, peak − start


def make_files(folder: Path, gigabytes: float) -> None:
    """Write files of random numbers and a label of four classes, about 1 GB each."""
    pa: Any
    pq: Any
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    folder.mkdir(parents=True, exist_ok=True)
    groups = max(1, round(gigabytes * GROUPS))
    for number, first in enumerate(range(0, groups, GROUPS)):
        path, count = folder / f"part-{number:03}.parquet", min(GROUPS, groups - first)
        if path.exists() and pq.read_metadata(path).num_row_groups == count:
            continue
        rng = np.random.default_rng(number)
        # Drawn once per file; each row group takes another window of them.
        noise = rng.random((COLUMNS, 2 * ROWS))
        draft = path.with_suffix(".draft")
        schema = pa.schema([*((name, pa.float64()) for name in NAMES), ("label", pa.int64())])
        with pq.ParquetWriter(draft, schema, use_dictionary=["label"], write_statistics=False) as writer:
            for _ in range(count):
                labels = rng.integers(0, 4, ROWS)
                start = int(rng.integers(0, ROWS))
                columns = [pa.array(noise[j, start : start + ROWS] + 0.1 * labels) for j in range(COLUMNS)]
                writer.write_table(pa.table([*columns, pa.array(labels)], schema), row_group_size=ROWS)
        draft.rename(path)
    for path in sorted(folder.glob("part-*.parquet"))[-(-groups // GROUPS) :]:
        path.unlink()


def read(folder: Path) -> None:
    """Decode all columns, and drop them."""
    from tamis import threads  # noqa: PLC0415
    from tamis.engines import Request, open_shards  # noqa: PLC0415

    shards: Any = open_shards(folder, Request(y="label"))
    for _ in threads.map_ahead(lambda piece: piece.read_table().num_rows, shards.pieces):
        pass


def fit_naive_bayes(folder: Path) -> None:
    """One pass: Gaussian naive Bayes."""
    import tamis  # noqa: PLC0415

    tamis.GaussianNB().fit(folder, "label")


def fit_components(folder: Path) -> None:
    """One pass: principal components, by full moments."""
    import tamis  # noqa: PLC0415

    tamis.fit(tamis.PCA(4), folder, columns=NAMES)


TASKS: dict[str, Callable[[Path], None]] = {
    "just reading": read,
    "naive Bayes": fit_naive_bayes,
    "components": fit_components,
}


def measure(task: str, folder: Path) -> dict[str, float]:
    """Seconds and megabytes of memory of one task, in this process."""
    import pyarrow.parquet  # noqa: F401, PLC0415  (the libraries are no part of what is measured)

    import tamis  # noqa: PLC0415

    tamis.GaussianNB().fit(np.random.default_rng(0).random((100, 2)), np.arange(100) % 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    TASKS[task](folder)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "processor": cpu, "memory": (after - before) / 1024}


def main() -> None:
    """Print a line per task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks/parquet"))
    parser.add_argument("--repeats", type=int, default=1, help="runs of each task; the quickest counts")
    parser.add_argument("--remove", action="store_true", help="remove the files at the end")
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(measure(options.task, options.folder)))  # noqa: T201
        return
    try:
        _compare_tasks(options)
    finally:
        if options.remove:
            shutil.rmtree(options.folder, ignore_errors=True)


def _compare_tasks(options: argparse.Namespace) -> None:
    start, load = time.perf_counter(), os.getloadavg()[0]
    make_files(options.folder, options.gigabytes)
    size = sum(path.stat().st_size for path in options.folder.glob("*.parquet"))
    print(f"{size / 1e9:.2f} GB of Parquet, made in {time.perf_counter() - start:.0f} s")  # noqa: T201
    runs: dict[str, list[dict[str, float]]] = {task: [] for task in TASKS}
    for _ in range(options.repeats):
        for task in TASKS:
            command = [sys.executable, "-m", "benchmarks.engines_parquet", "--task", task]
            command += ["--folder", str(options.folder)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs[task].append(json.loads(done.stdout))
    best = {task: min(figures, key=lambda one: one["seconds"]) for task, figures in runs.items()}
    reading = best["just reading"]
    print("task            seconds   GB/s   share of reading   processor s   peak − start")  # noqa: T201
    for task, figures in best.items():
        print(  # noqa: T201
            f"{task:14} {figures['seconds']:8.1f} {size / 1e9 / figures['seconds']:6.2f} "
            f"{reading['seconds'] / figures['seconds']:14.0%} {figures['processor']:15.1f} "
            f"{figures['memory']:11.0f} MB"
        )
    if options.output:
        _write_results(options.output, runs, size, load)


def _write_results(output: Path, runs: dict[str, list[dict[str, float]]], size: int, load: float) -> None:
    """Fits as comparisons with reading, and their memory as limits."""
    reading = [run["seconds"] for run in runs["just reading"]]
    comparisons, limits = [], []
    for task, figures in runs.items():
        case = f"engines-parquet-{task.replace(' ', '-').lower()}"
        if task != "just reading":
            about = f"{task} of {size / 1e9:.1f} GB of Parquet, against just reading it"
            seconds = [run["seconds"] for run in figures]
            comparisons.append(compare(case, about, seconds, reading, wanted=SHARE_WANTED, group="engines"))
            memory = max(run["memory"] for run in figures)
            limits.append(Limit(f"{case}-memory", f"{about}: peak − start", memory, "MB", MEMORY_WANTED))
    title = "Fits to Parquet files, against just reading them"
    write_run(output, title, text=f"load {load:.1f} before", comparisons=comparisons, limits=limits)


if __name__ == "__main__":
    main()
