"""`python -m benchmarks [name …]`: run cases, print the table, write the JSON."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.cases import discover
from benchmarks.harness import AnyCase, DisagreementError, run, table
from benchmarks.raw_results import compare, write_run

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, cases: Sequence[AnyCase] | None = None) -> int:
    """Run the cases whose names match; 1 if any gave two different answers, 2 if a name matches none."""
    now = datetime.now(UTC)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Time each case against its peer."
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help="cases to run, * and ? allowed; default: all"
    )
    parser.add_argument(
        "--repeats", type=int, default=9, metavar="N", help="pairs of samples a case (default: 9)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/benchmarks") / f"{now:%Y%m%dT%H%M%SZ}.json",
        metavar="PATH",
        help="where to write the figures (default: build/benchmarks/<time>.json)",
    )
    parser.add_argument("--list", action="store_true", help="say what there is and run nothing")
    options = parser.parse_args(argv)
    if options.repeats < 1:
        parser.error(f"--repeats is {options.repeats}; at least 1 is needed")

    known = discover() if cases is None else list(cases)
    if unknown := [name for name in options.names if not any(fnmatchcase(case.name, name) for case in known)]:
        parser.error(f"no case is called {', '.join(unknown)}; see --list")
    chosen = [
        case
        for case in known
        if not options.names or any(fnmatchcase(case.name, name) for name in options.names)
    ]
    if options.list:
        sys.stdout.writelines(f"{case.name}: {case.what}\n" for case in chosen)
        return 0

    timings, comparisons = [], []
    disagreements = 0
    for case in chosen:
        sys.stderr.write(f"{case.name}: {case.what}\n")
        try:
            timing = run(case, repeats=options.repeats)
        except DisagreementError as problem:
            disagreements += 1
            sys.stderr.write(f"{problem}\n")
            continue
        timings.append(timing)
        comparisons.append(
            compare(case.name, case.what, timing.ours, timing.peer, wanted=case.wanted, group=case.group)
        )
    if timings:
        sys.stdout.write(table(timings) + "\n")
        write_run(options.output, "Models and statistics", comparisons=comparisons)
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
