"""`python -m benchmarks.engines_sql`: sums in DuckDB and PostgreSQL against pulling their rows.

A table of random rows has 8 columns of floats, 4 of counts, 2 of words and one of labels. Each model is
fitted in two ways, which must give the same statistic: the database sums (`tamis.engines.sql`), or the rows
are read in batches and observed here. Of PostgreSQL, rows are also read by COPY in its binary format, the
fastest way there is, for columns of floats alone. Times are those of the processors, of this process and of
the server together, because wall time depends on what else the machine does; both are shown. Each way runs
once to warm up, and then so often in turns; the table shows medians.
"""

import argparse
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg

import tamis
from benchmarks.raw_results import compare, write_run
from tamis.engines.sql import DuckDBTable, PostgreSQLTable
from tests.engines.postgresql import run_postgresql

FLOATS = [f"x{j}" for j in range(8)]
COUNTS = [f"k{j}" for j in range(4)]
WORDS = ["word0", "word1"]
MODELS: dict[str, tuple[Callable[[], Any], list[str], str | None]] = {
    "CategoricalNB, 2 columns": (tamis.CategoricalNB, WORDS, "y"),
    "PoissonNB, 4 columns": (tamis.PoissonNB, COUNTS, "y"),
    "BernoulliNB, 4 columns": (tamis.BernoulliNB, COUNTS, "y"),
    "GaussianNB, 4 columns of integers": (tamis.GaussianNB, COUNTS, "y"),
    "GaussianNB, 8 columns of floats": (tamis.GaussianNB, FLOATS, "y"),
    "PCA, 8 columns of floats": (tamis.PCA, FLOATS, None),
}
_TICKS = 100.0  # of a second, in /proc


def make_rows(rows: int) -> pd.DataFrame:
    """Random rows of three classes."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, rows)
    columns: dict[str, Any] = {name: 1e3 + label + rng.normal(size=rows) for name in FLOATS}
    columns |= {name: rng.poisson(2.0 + label).astype(np.int32) for name in COUNTS}
    words = np.array([f"word {k}" for k in range(50)], dtype=object)
    columns |= {name: words[(rng.zipf(1.5, rows) + label) % 50] for name in WORDS}
    return pd.DataFrame({**columns, "y": np.array(["ham", "spam", "list"], dtype=object)[label]})


def fill_postgresql(connection: Any, frame: pd.DataFrame) -> None:
    """Copy the rows into a table `mail`."""
    types = {**dict.fromkeys(FLOATS, "float8"), **dict.fromkeys(COUNTS, "int4")}
    described = ", ".join(f"{name} {types.get(name, 'text')}" for name in frame.columns)
    connection.execute(f"CREATE TABLE mail ({described})")
    with connection.cursor().copy("COPY mail FROM STDIN (FORMAT csv)") as copy:
        for start in range(0, len(frame), 20_000):
            copy.write(frame[start : start + 20_000].to_csv(index=False, header=False).encode())
    connection.execute("VACUUM ANALYZE mail")


class Clock:
    """Seconds of processors: of this process, and of a server with all its processes."""

    def __init__(self, server: int | None = None) -> None:
        self._server = server  # the process that the others of the server descend from

    def read(self) -> float:
        """The seconds so far."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        return own.ru_utime + own.ru_stime + self._read_server()

    def _read_server(self) -> float:
        if self._server is None:
            return 0.0
        total = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:  # a process that has just ended
                continue
            if int(path.parent.name) == self._server:
                total += sum(map(int, fields[11:15]))  # with those of children that have ended
            elif int(fields[1]) == self._server:
                total += sum(map(int, fields[11:13]))
        return total / _TICKS


def read_binary(connection: Any, columns: list[str]) -> np.ndarray[Any, Any]:
    """Columns of floats without NULL, by COPY in binary format (n, d)."""
    query = f"COPY (SELECT {', '.join(columns)} FROM mail) TO STDOUT (FORMAT binary)"
    with connection.cursor().copy(query) as copy:
        content = b"".join(bytes(part) for part in copy)
    fields = [field for name in columns for field in ((f"size {name}", ">i4"), (name, ">f8"))]
    rows = np.frombuffer(content[19:-2], np.dtype([("fields", ">i2"), *fields]))
    return np.column_stack([rows[name].astype(np.float64) for name in columns])


def measure(
    ways: dict[str, Callable[[], Any]], clock: Clock, repeats: int
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of processors and of the wall clock, of each way and run; all give the same statistic."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    first: Any = None
    for number in range(repeats + 1):
        for name, run in ways.items():
            used, began = clock.read(), time.perf_counter()
            model = run()
            took = (clock.read() - used, time.perf_counter() - began)
            if number:
                seconds[name].append(took)
            first = model if first is None else first
            if hasattr(model, "components_"):
                np.testing.assert_allclose(model.explained_variance_, first.explained_variance_, rtol=1e-12)
            else:
                assert model.statistic_ == first.statistic_, name
    return seconds


@contextmanager
def run_databases(frame: pd.DataFrame) -> Iterator[list[tuple[str, Clock, Any, Any]]]:
    """Both databases with the table: name, clock, table, connection."""
    with duckdb.connect() as duck, run_postgresql() as address:
        duck.execute("CREATE TABLE mail AS SELECT * FROM frame")
        with psycopg.connect(address, autocommit=True) as connection:
            fill_postgresql(connection, frame)
            folder = connection.execute("SHOW data_directory").fetchone()
            assert folder is not None
            server = int(Path(folder[0], "postmaster.pid").read_text().split()[0])
            yield [
                ("DuckDB", Clock(), DuckDBTable(duck.table("mail")), None),
                ("PostgreSQL", Clock(server), PostgreSQLTable(connection, "mail"), connection),
            ]


def list_ways(table: Any, connection: Any, name: str) -> dict[str, Callable[[], Any]]:
    """The ways in which a model is fitted to a table."""
    make, columns, label = MODELS[name]

    def pull() -> Any:
        request = tamis.engines.Request(y=label, columns=columns)
        return make().learn_shards(table.open_rows(request), True)

    ways = {"summed": lambda: tamis.fit(make(), table, y=label, columns=columns), "pulled": pull}
    if connection is not None and label is None:
        ways["pulled by COPY"] = lambda: make().fit(read_binary(connection, columns))
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines_sql")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the raw results to this file, for the scoreboard")
    options = parser.parse_args()
    print_ = sys.stdout.write
    load = os.getloadavg()[0]
    print_(f"{options.rows:,} rows; seconds of processors (of the wall clock); load {load:.1f} before\n")
    print_(f"{'database':11}{'model':36}{'summed':>16}{'pulled':>16}{'by COPY':>16}  pulled/summed\n")
    comparisons = []
    with run_databases(make_rows(options.rows)) as databases:
        for database, clock, table, connection in databases:
            for name in MODELS:
                runs = measure(list_ways(table, connection, name), clock, options.repeats)
                taken = {
                    way: [statistics.median(each) for each in zip(*own, strict=True)]
                    for way, own in runs.items()
                }
                cells = [taken.get(way) for way in ("summed", "pulled", "pulled by COPY")]
                shown = "".join(f"{f'{c[0]:.2f} ({c[1]:.2f})' if c else '–':>16}" for c in cells)
                ratio = taken["pulled"][0] / max(taken["summed"][0], 1e-9)
                print_(f"{database:11}{name:36}{shown}  {ratio:.1f}\n")
                sys.stdout.flush()
                for suffix, which, about in (
                    ("", 1, ""),
                    ("-cpu", 0, ", processor time of this process and the server"),
                ):
                    slug = "-".join(re.findall(r"\w+", f"{database} {name}".lower()))
                    comparisons.append(
                        compare(
                            f"engines-sql-{slug}{suffix}",
                            f"{name}: summed by {database} against pulling the rows{about}",
                            *([max(own[which], 1e-9) for own in runs[way]] for way in ("summed", "pulled")),
                            group="engines",
                        )
                    )
    if options.output:
        text = f"{options.rows:,} rows; load {load:.1f} before; the peer is tamis itself, given the rows."
        write_run(options.output, "Sums in databases", text=text, comparisons=comparisons)


if __name__ == "__main__":
    main()
