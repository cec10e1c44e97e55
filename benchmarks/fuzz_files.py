"""`python -m benchmarks.fuzz_files --seconds N`: hostile files and tables, each read in a watched process.

The cases are those of `hostile_seeds`. Workers run them one after the other, and say
before each case which it is. A case is a finding if the process dies, if anything but
a ValueError of one line leaves `load` or `from_arrow`, if it takes more than --longest seconds of the
processor, or if the peak of its memory rises by more than ten times the file and 50 MB. `--only NUMBER` runs
one case here.
"""

import argparse
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.hostile_seeds import case_of, seeds
from benchmarks.hostile_tables import tables

_TIMES, _MORE = 10, 50 << 20  # of a case's memory
_ADDRESSES = 6 << 30  # bytes that a worker may map: a bomb ends in a MemoryError, not in the machine's swap
_PATIENCE = 120.0  # seconds of the clock after which a worker is taken for hung


def peak() -> int:
    """Bytes of memory that this process had at most since `reset_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0


def reset_peak() -> int:
    """Begin anew; the memory that is held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def work(seed: int, first: int, step: int) -> None:
    """Run cases until killed, a line before and after each."""
    warnings.simplefilter("ignore")
    files, statistics = seeds(), tables()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        number = first
        while True:
            case = case_of(number, seed, files, statistics)
            _tell(json.dumps([number, case.name]))
            before, start = reset_peak(), time.process_time()
            try:
                outcome = case.run(Path(folder))
            except BaseException as problem:  # noqa: BLE001 (all that is not refused is a finding)
                outcome = f"{type(problem).__name__}: {str(problem)[:200]}"
            seconds, memory = time.process_time() - start, peak() - before
            _tell(json.dumps([number, outcome, seconds, memory, case.size]))
            number += step


class Worker:
    """A process that runs every so-manieth case."""

    def __init__(self, seed: int, first: int, step: int) -> None:
        self.seed, self.step, self.number, self.name = seed, step, first, "the start"
        self.start(first)

    def start(self, first: int) -> None:
        """Begin with that case."""
        command = [sys.executable, "-m", "benchmarks.fuzz_files", "--seed", str(self.seed)]
        command += ["--worker", str(first), str(self.step)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.since = time.monotonic() + 600.0  # to load and compile

    def line(self) -> list[Any] | None:
        """What it says next; nothing if it died."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        while text and not text.startswith("["):  # what a model says of its progress
            text = self.process.stdout.readline()
        return json.loads(text) if text.endswith("\n") else None


def run(seconds: float, seed: int, workers: int, longest: float) -> int:
    """Run cases for so long; the number of findings."""
    every = [Worker(seed, first, workers) for first in range(workers)]
    counted: Counter[str] = Counter()
    findings: list[str] = []
    slowest = largest = 0.0
    end = None
    while end is None or time.monotonic() < end:
        streams: list[Any] = [worker.process.stdout for worker in every]
        ready, _, _ = select.select(streams, [], [], 1.0)
        for worker in every:
            if worker.process.stdout in ready:
                said = worker.line()
                if said is None:
                    code = worker.process.wait()
                    findings.append(f"died of {_cause(code)}: {worker.name}")
                    counted["died"] += 1
                    worker.start(worker.number + worker.step)
                    continue
                if end is None:
                    end = time.monotonic() + seconds  # the first case begins
                worker.since = time.monotonic()
                if len(said) == 2:
                    worker.number, worker.name = said
                    continue
                _, outcome, spent, memory, size = said
                known = outcome in ("refused", "read", "used")
                counted[outcome if known else "wrong"] += 1
                slowest, largest = max(slowest, spent), max(largest, memory)
                if not known:
                    findings.append(f"{outcome}: {worker.name}")
                if spent > longest:
                    findings.append(f"took {spent:.1f} s: {worker.name}")
                if memory > _TIMES * size + _MORE:
                    findings.append(f"took {memory >> 20} MB for {size} bytes: {worker.name}")
            elif time.monotonic() - worker.since > _PATIENCE:
                worker.process.kill()
                worker.process.wait()
                findings.append(f"hung: {worker.name}")
                counted["hung"] += 1
                worker.start(worker.number + worker.step)
    for worker in every:
        worker.process.kill()
        worker.process.wait()
    for finding in findings:
        _tell(finding)
    total = sum(counted.values())
    _tell(f"{total} cases: {', '.join(f'{count} {name}' for name, count in sorted(counted.items()))}")
    _tell(f"slowest {slowest:.2f} s of the processor, largest {largest / 2**20:.0f} MB")
    _tell(f"{len(findings)} findings")
    return len(findings)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _cause(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--longest", type=float, default=10.0, help="seconds of the processor for a case")
    parser.add_argument("--only", type=int, help="run this case here, and let it raise")
    parser.add_argument("--worker", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.seed, *options.worker)
    elif options.only is not None:
        case = case_of(options.only, options.seed, seeds(), tables())
        _tell(f"{case.name}, {case.size} bytes")
        with tempfile.TemporaryDirectory() as folder:
            before = reset_peak()
            _tell(f"{case.run(Path(folder))}, {(peak() - before) >> 20} MB")
    else:
        sys.exit(1 if run(options.seconds, options.seed, options.workers, options.longest) else 0)


if __name__ == "__main__":
    main()
