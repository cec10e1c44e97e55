"""measurements → one small JSON file per run in benchmarks/results, for `benchmarks.scoreboard`.

A file holds a title, the command that made it, the date, the machine with its versions, and some of:

    comparisons   ours against a peer: a case, what it does, both medians, and the ratio with its quartiles,
                  above 1 where ours is better, be it by fewer seconds or by more messages per second.
                  `wanted` is the ratio that was wanted. `phase` sets two rows of a case side by side
                  ("first call" and "warm").
    limits        ours alone, against the most that was wanted
    stream        the figures of mail filters on a stream of mail (`benchmarks.mail_accuracy`)
    tables        other figures, as they are printed
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.harness import machine

__all__ = [
    "RESULTS",
    "Comparison",
    "Limit",
    "Run",
    "Table",
    "compare",
    "read_runs",
    "take_quartiles",
    "write_run",
]

RESULTS = Path(__file__).with_name("results")
PHASES = ("first call", "warm")
_DIGITS = 5  # of a figure in a file: more than any measurement has


@dataclass(frozen=True)
class Comparison:
    """A case, measured for ours and for a peer; `quartiles` are those of the ratio over pairs of samples."""

    case: str
    what: str
    ours: float
    peer: float
    ratio: float
    quartiles: tuple[float, float]
    unit: str = "s"
    samples: tuple[
        tuple[float, float], ...
    ] = ()  # pairs of ours and the peer's; of old runs they are not kept
    wanted: float | None = None
    group: str = ""
    phase: str = ""

    @property
    def key(self) -> str:
        """What an explanation calls the row."""
        return f"{self.case}, {self.phase}" if self.phase else self.case

    @property
    def result(self) -> str:
        """won or lost if the middle half of the pairs says so, else tied."""
        low, high = self.quartiles
        return "won" if low > 1.0 else "lost" if high < 1.0 else "tied"

    @property
    def is_missed(self) -> bool:
        """Whether the ratio is below the wanted one."""
        return self.wanted is not None and self.ratio < self.wanted


@dataclass(frozen=True)
class Limit:
    """A figure that has no peer, and the most that it should be."""

    case: str
    what: str
    ours: float
    unit: str
    wanted: float

    @property
    def key(self) -> str:
        """What an explanation calls the row."""
        return self.case

    @property
    def is_missed(self) -> bool:
        """Whether the figure is above the wanted one."""
        return self.ours > self.wanted


@dataclass(frozen=True)
class Table:
    """Figures of another kind, as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: str = ""


@dataclass(frozen=True)
class Run:
    """The contents of one file."""

    title: str
    command: str
    date: str
    machine: Mapping[str, Any]
    text: str = ""
    comparisons: tuple[Comparison, ...] = ()
    limits: tuple[Limit, ...] = ()
    stream: Mapping[str, Any] | None = None
    tables: tuple[Table, ...] = ()
    name: str = field(default="", compare=False)  # of the file


def take_quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def compare(
    case: str,
    what: str,
    ours: Sequence[float],
    peer: Sequence[float],
    *,
    unit: str = "s",
    is_more_better: bool = False,
    wanted: float | None = None,
    group: str = "",
    phase: str = "",
) -> Comparison:
    """Compare samples that were taken in pairs, `ours[i]` next to `peer[i]`."""
    ratios = [a / b if is_more_better else b / a for a, b in zip(ours, peer, strict=True)]
    low, middle, high = take_quartiles(ratios)
    return Comparison(
        case,
        what,
        median(ours),
        median(peer),
        middle,
        (low, high),
        unit=unit,
        samples=tuple(zip(ours, peer, strict=True)),
        wanted=wanted,
        group=group,
        phase=phase,
    )


def write_run(
    path: Path,
    title: str,
    *,
    command: str = "",
    text: str = "",
    comparisons: Sequence[Comparison] = (),
    limits: Sequence[Limit] = (),
    stream: Mapping[str, Any] | None = None,
    tables: Sequence[Table] = (),
    versions: Mapping[str, str] | None = None,
) -> None:
    """Write a file of results, dated now; `versions` are those of programs that are no Python packages."""
    about = machine()
    about["versions"] = {**about["versions"], **(versions or {})}
    contents = {
        "title": title,
        "command": command or _command(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": about,
        "text": text,
        "comparisons": [
            {name: value for name, value in asdict(row).items() if value not in (None, "", ())}
            for row in comparisons
        ],
        "limits": [asdict(row) for row in limits],
        "stream": stream,
        "tables": [asdict(table) for table in tables],
    }
    filled = {name: _round(value) for name, value in contents.items() if value}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_format(filled), encoding="utf-8")
    sys.stderr.write(f"results: {path}\n")


def _command() -> str:
    """The command line of this process, without the option that says where results go."""
    script = Path(sys.argv[0])
    module = "benchmarks" if script.stem == "__main__" else f"benchmarks.{script.stem}"
    words, given = [], iter(sys.argv[1:])
    for word in given:
        if word == "--output":
            next(given, None)
        elif not word.startswith("--output="):
            words.append(f"'{word}'" if " " in word else word)
    return " ".join(["python -m", module, *words])


def _format(contents: Mapping[str, Any]) -> str:
    """JSON with one line per row, so that differences between two runs can be read."""
    entries = []
    for name, value in contents.items():
        if isinstance(value, list):
            text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        entries.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _round(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_round(one) for one in value]
    return value


def read_runs(folder: Path = RESULTS) -> list[Run]:
    """All files of results in a folder, by name."""
    return [_read_run(path) for path in sorted(folder.glob("*.json"))]


def _pairs(row: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    return tuple((ours, peer) for ours, peer in row.get("samples", ()))


def _read_run(path: Path) -> Run:
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
        return Run(
            contents["title"],
            contents["command"],
            contents["date"],
            contents["machine"],
            contents.get("text", ""),
            tuple(
                Comparison(**{**row, "quartiles": tuple(row["quartiles"]), "samples": _pairs(row)})
                for row in contents.get("comparisons", ())
            ),
            tuple(Limit(**row) for row in contents.get("limits", ())),
            contents.get("stream"),
            tuple(
                Table(
                    table["title"],
                    tuple(table["columns"]),
                    tuple(map(tuple, table["rows"])),
                    table.get("text", ""),
                )
                for table in contents.get("tables", ())
            ),
            path.stem,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SystemExit(
            f"{path}: not a file of results ({error}); write it again with the benchmark's --output"
        ) from error
