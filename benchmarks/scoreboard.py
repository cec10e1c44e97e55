"""`python -m benchmarks.scoreboard`: benchmarks/results/*.json → docs/reference/scoreboard.md and its plots.

Every comparison that any file holds is a row: won, tied or lost by the quartiles of its ratio, and whether it
reached what was wanted. Every row that is lost or missed needs an explanation in
benchmarks/results/explanations.toml; without one, nothing is written and the command ends with status 1.
Cases of `benchmarks.cases` that no file has are listed as not measured.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from benchmarks.cases import discover
from benchmarks.mail_scores import calibration_plot, compare_filters, describe_stream, missed_measures
from benchmarks.raw_results import PHASES, RESULTS, Comparison, Limit, Run, Table, read_runs

__all__ = ["Explanations", "main", "make_page", "make_plots"]

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "scoreboard.md"
Note: TypeAlias = Callable[[str], str]  # the mark of the explanation of a row

PLOTS = "scoreboard"  # the folder beside the page
_INTRODUCTION = """\
# Scoreboard

<!-- Written by `make scoreboard` from benchmarks/results; do not edit. -->

Every benchmark against its peers, from the raw results in `benchmarks/results`. *Ratio* is how many times
better tamis is than the peer: above 1, tamis is faster (or needs less memory or space). It is the median over
pairs of neighbouring runs, and its quartiles follow. A row is **won** if the lower quartile is above 1,
**lost** if the upper one is below 1, and **tied** otherwise. *Wanted* is the ratio that was set as a goal;
**missed** marks a goal that was not reached. Each row that is lost or missed has a note that explains it.
Compare ratios, not times: machines differ. Figures of mail filters have 95 % intervals; there, a row is won
or lost if neither figure lies in the interval of the other. The commands repeat the measurements; `make
scoreboard` writes this page again.
"""


class Explanations:
    """Why rows are lost or missed: patterns of row keys, and a sentence for each."""

    def __init__(self, entries: Sequence[tuple[Sequence[str], str]]) -> None:
        self._entries = entries

    @classmethod
    def read(cls, path: Path) -> "Explanations":
        """Read the file of explanations."""
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("explanation", [])
        return cls([(entry["rows"], " ".join(entry["why"].split())) for entry in entries])

    def find(self, key: str) -> int | None:
        """Return the number of the first explanation that fits a row, counted from 1."""
        for number, (patterns, _) in enumerate(self._entries, 1):
            if any(fnmatchcase(key, pattern) for pattern in patterns):
                return number
        return None

    def text(self, number: int) -> str:
        """Return an explanation."""
        return self._entries[number - 1][1]


def find_weak_rows(runs: Sequence[Run]) -> list[str]:
    """Return the keys of all rows that are lost or missed."""
    keys = []
    for run in runs:
        keys += [row.key for row in run.comparisons if row.result == "lost" or row.is_missed]
        keys += [row.key for row in run.limits if row.is_missed]
        if run.stream is not None:
            keys += [row.key for row in compare_filters(run.stream) if row.result == "lost"]
            keys += missed_measures(run.stream)
    return keys


def make_page(runs: Sequence[Run], explanations: Explanations, case_names: Sequence[str]) -> str:
    """Write the page; a row that is lost or missed without an explanation is a ValueError."""
    if unexplained := [key for key in find_weak_rows(runs) if explanations.find(key) is None]:
        raise ValueError(
            f"lost or missed without an explanation: {'; '.join(unexplained)}: "
            "add each to benchmarks/results/explanations.toml"
        )
    measured = {row.case for run in runs for row in run.comparisons}
    absent = [name for name in case_names if name not in measured]
    lines = [_INTRODUCTION, *_summarize(runs, absent)]
    for run in runs:
        lines += _describe_run(run, explanations)
    return "\n".join(lines).rstrip("\n") + "\n"


def make_plots(runs: Sequence[Run]) -> dict[str, str]:
    """Draw the calibration of the filters on each stream: SVG by file name."""
    return {f"{run.name}.svg": calibration_plot(run.stream) for run in runs if run.stream is not None}


def _summarize(runs: Sequence[Run], absent: Sequence[str]) -> Iterator[str]:
    yield from ("## Summary", "")
    yield "| results | date | rows | won | tied | lost | goals | missed |"
    yield "|---|---|---|---|---|---|---|---|"
    totals = [0] * 6
    for run in runs:
        results = [row.result for row in run.comparisons]
        goals = [row.is_missed for row in run.comparisons if row.wanted is not None]
        goals += [row.is_missed for row in run.limits]
        if run.stream is not None:
            results += [row.result for row in compare_filters(run.stream)]
            missed = missed_measures(run.stream)
            goals += [True] * len(missed) + [False] * (len(run.stream.get("wanted", {})) - len(missed))
        counts = [
            len(results),
            *(results.count(word) for word in ("won", "tied", "lost")),
            len(goals),
            sum(goals),
        ]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        yield f"| [{run.title}](#{_anchor(run.title)}) | {run.date[:10]} | {' | '.join(map(str, counts))} |"
    yield f"| **all** | | {' | '.join(f'**{total}**' for total in totals)} |"
    yield ""
    if absent:
        yield f"Not measured: {', '.join(f'`{name}`' for name in absent)}."
        yield ""


def _anchor(title: str) -> str:
    """The anchor that MyST gives to a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _describe_run(run: Run, explanations: Explanations) -> Iterator[str]:
    yield from (f"## {run.title}", "")
    yield from (f"`{run.command}`, {run.date[:10]}. {_describe_machine(run)}", "")
    if run.text:
        yield from (run.text, "")
    notes: list[int] = []

    def note(key: str) -> str:
        number = explanations.find(key)
        if number is None:
            return ""
        if number not in notes:
            notes.append(number)
        return str(notes.index(number) + 1)

    phased = [row for row in run.comparisons if row.phase]
    plain = [row for row in run.comparisons if not row.phase]
    for group, rows in groupby(sorted(plain, key=lambda row: row.group), key=lambda row: row.group):
        if group:
            yield from (f"### {group[0].upper()}{group[1:]}", "")
        yield from _tabulate_comparisons(list(rows), note)
    if phased:
        yield from _tabulate_phases(phased, note)
    if run.limits:
        yield from _tabulate_limits(run.limits, note)
    if run.stream is not None:
        yield from describe_stream(run.stream, note)
        yield from (f"![Calibration of the filters: {run.title}]({PLOTS}/{run.name}.svg)", "")
    for table in run.tables:
        yield from _tabulate(table)
    for number, explanation in enumerate(notes, 1):
        yield f"{number}. {explanations.text(explanation)}"
    yield ""


def _describe_machine(run: Run) -> str:
    about = run.machine
    versions = ", ".join(f"{name} {version}" for name, version in about.get("versions", {}).items())
    parts = [
        str(about.get("cpu", "")),
        f"{about['cores']} cores" if about.get("cores") else "",
        str(about.get("system", "")),
        f"Python {about['python']}" if about.get("python") else "",
        versions,
    ]
    return ", ".join(part for part in parts if part) + "."


def _tabulate_comparisons(rows: Sequence[Comparison], note: Note) -> Iterator[str]:
    yield "| case | ours | peer | ratio | quartiles | pairs | wanted | result | note |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        cells = [f"`{row.case}`: {row.what}", _amount(row.ours, row.unit), _amount(row.peer, row.unit)]
        cells += [_number(row.ratio), _spread(row), str(len(row.samples) or "–"), _goal(row), row.result]
        yield f"| {' | '.join([*cells, _note_of(row, note)])} |"
    yield ""


def _tabulate_phases(rows: Sequence[Comparison], note: Note) -> Iterator[str]:
    """One row per case, its phases side by side."""
    yield (
        "| case |"
        + "".join(f" {phase}: ours | peer | ratio | wanted | result |" for phase in PHASES)
        + " note |"
    )
    yield "|---|" + "---|" * (5 * len(PHASES) + 1)
    for case in dict.fromkeys(row.case for row in rows):
        of_case = {row.phase: row for row in rows if row.case == case}
        cells, numbers = [case], []
        for phase in PHASES:
            row = of_case.get(phase)
            if row is None:
                cells += ["not measured", "", "", "", ""]
                continue
            cells += [_amount(row.ours, row.unit), _amount(row.peer, row.unit)]
            cells += [f"{_number(row.ratio)} ({_spread(row)})", _goal(row), row.result]
            numbers.append(_note_of(row, note))
        yield f"| {' | '.join(cells)} | {', '.join(dict.fromkeys(filter(None, numbers)))} |"
    yield ""


def _tabulate_limits(rows: Sequence[Limit], note: Note) -> Iterator[str]:
    yield from ("| figure | ours | wanted at most | result | note |", "|---|---|---|---|---|")
    for row in rows:
        result = "**missed**" if row.is_missed else "reached"
        cells = [
            f"`{row.case}`: {row.what}",
            _amount(row.ours, row.unit),
            _amount(row.wanted, row.unit),
            result,
        ]
        yield f"| {' | '.join(cells)} | {note(row.key) if row.is_missed else ''} |"
    yield ""


def _tabulate(table: Table) -> Iterator[str]:
    if table.title:
        yield from (f"### {table.title}", "")
    if table.text:
        yield from (table.text, "")
    yield f"| {' | '.join(table.columns)} |"
    yield "|" + "---|" * len(table.columns)
    for row in table.rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _note_of(row: Comparison, note: Note) -> str:
    return note(row.key) if row.result == "lost" or row.is_missed else ""


def _goal(row: Comparison) -> str:
    if row.wanted is None:
        return "–"
    return f"{row.wanted:g}, **missed**" if row.is_missed else f"{row.wanted:g}"


def _spread(row: Comparison) -> str:
    low, high = row.quartiles
    return f"{_number(low)} – {_number(high)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _amount(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {name}" if value < 1000 * size else f"{value / size:,.0f} {name}"
    return f"{value / 1e-9:.3g} ns"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page and its plots; 1 if a row that is lost or missed has no explanation."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scoreboard", description="Write the scoreboard from the raw results."
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of raw results (default: %(default)s)"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="page to write (default: %(default)s)")
    options = parser.parse_args(argv)
    runs = read_runs(options.results)
    try:
        explanations = Explanations.read(options.results / "explanations.toml")
        page = make_page(runs, explanations, [case.name for case in discover()])
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"scoreboard: {problem}\n")
        return 1
    plots = options.page.parent / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    drawings = make_plots(runs)
    for old in plots.glob("*.svg"):
        if old.name not in drawings:
            old.unlink()
    for name, drawing in drawings.items():
        (plots / name).write_text(drawing, encoding="utf-8")
    options.page.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{options.page}: {sum(len(run.comparisons) for run in runs)} comparisons\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
