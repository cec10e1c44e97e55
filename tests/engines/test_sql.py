"""A database sums the rows: a face that learns these sums is the face that learned the rows."""

import datetime
import decimal
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.engines.sql import DuckDBTable, PostgreSQLTable, SQLTable
from tamis.engines.sql.fixed_point import ColumnProfile, Slices
from tamis.engines.sql.sums import TableSums
from tamis.extras import MissingPackageError
from tamis.stats import Moments
from tamis.testing.components import COMPONENTS, ComponentsCase
from tamis.testing.faces import FACES, FaceCase
from tamis.testing.regressions import REGRESSIONS, RegressionCase
from tests.engines.postgresql import MISSING, find_program

pytest.importorskip("duckdb", reason="needs DuckDB: pip install duckdb")
pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")

from tests.engines.databases import KINDS, Database, run_database

pytestmark = pytest.mark.engines

Case = FaceCase | ComponentsCase | RegressionCase
CASES: tuple[Case, ...] = (*FACES, *COMPONENTS, *(c for c in REGRESSIONS if not c.targets))
NEEDS_ROWS = ("exact", "held", "gaps")  # in the names of cases whose rows are read
NAMES = ["plain", "select", 'He said "no"', "it's; DROP TABLE kept; --"]


@pytest.fixture(scope="module", params=KINDS)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "postgresql" and find_program("initdb") is None:
        pytest.skip(MISSING)
    with run_database(request.param) as running:
        yield running


def make_table(database: Database, rows: Any, targets: Any, **more: Any) -> SQLTable:
    """A table of rows (n, d) of numbers, words and flags, with odd names, and of their targets."""
    columns = [rows[:, j].tolist() for j in range(rows.shape[1])]
    types = {NAMES[j]: find_type(column) for j, column in enumerate(columns)}
    for name, values in {"y": targets, **more}.items():
        if values is not None:
            columns.append(values.tolist())
            types[name] = find_type(columns[-1])
    return database.make(types, columns)


def find_type(values: list[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    return {bool: "BOOLEAN", str: "VARCHAR", int: "BIGINT"}.get(kinds.pop(), "DOUBLE PRECISION")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{type(case).__name__} {case.name}")
def test_sums_of_a_database_are_those_of_its_rows(case: Case, database: Database) -> None:
    data = case.sample(np.random.default_rng(1))
    frame: Any = pd.DataFrame({NAMES[j]: column for j, column in enumerate(data.rows.T)}).infer_objects()
    local = case.make().fit(frame, *data.arguments[1:])
    table = make_table(database, data.rows, data.targets)
    label = None if data.targets is None else "y"
    if any(word in case.name for word in NEEDS_ROWS):
        expected = "cannot compute the sums of this model, so that its rows are read"
        with pytest.warns(UserWarning, match=expected):
            learned = tamis.fit(case.make(), table, y=label)
    else:
        learned = case.make().fit(table, *([] if label is None else [label]))
    case.assert_alike(local, learned, frame)
    assert learned.feature_names_in_.tolist() == list(frame.columns)


def test_weights_are_read_with_the_rows(database: Database) -> None:
    data = FACES[2].sample(np.random.default_rng(0))
    table = make_table(database, data.rows, data.targets, w=data.weights)
    local = tamis.GaussianNB().fit(data.rows, data.targets, sample_weight=data.weights)
    with pytest.warns(UserWarning, match="sample_weight is not summed by a database"):
        learned = tamis.fit(tamis.GaussianNB(), table, y="y", sample_weight="w")
    assert learned.statistic_ == local.statistic_


def test_sums_are_added_to_what_was_learned(database: Database) -> None:
    data = FACES[2].sample(np.random.default_rng(0))
    table = make_table(database, data.rows[30:], data.targets[30:])
    frame = pd.DataFrame(data.rows, columns=NAMES[:3])
    model = tamis.GaussianNB().fit(frame[:30], data.targets[:30]).partial_fit(table, "y")
    assert model.statistic_ == tamis.GaussianNB().fit(frame, data.targets).statistic_


FLOATS = st.floats(-1e80, 1e80) | st.sampled_from([0.0, -0.0, 1.0, 1e8, 1e8 + 1e-7, 1e9, -1e9, 5e-324, 0.1])


@settings(max_examples=40)
@given(
    columns=st.integers(1, 8).flatmap(
        lambda n: st.lists(
            st.lists(FLOATS | st.none() | st.just(math.nan), min_size=n, max_size=n), min_size=2, max_size=2
        )
    )
)
def test_sums_of_any_floats_are_exact(duck: Database, columns: list[list[float | None]]) -> None:
    duck.connection.execute('DELETE FROM "floats"')
    duck.connection.executemany(
        'INSERT INTO "floats" VALUES (?, ?)', [list(row) for row in zip(*columns, strict=True)]
    )
    known = [[v for v in column if v is not None and not math.isnan(v)] for column in columns]
    table = duck.open("floats")
    sums = TableSums(table, tuple(table.list_columns()))
    profiles = sums.profile_columns([0, 1])
    if any(Slices.of(j, profiles[j], 53) is None for j in (0, 1)):
        return  # the rows are read
    powers = sums.sum_powers(profiles, squares=True)
    assert powers.value_counts.value.tolist() == [list(map(len, known))]
    for power, found in ((1, powers.first), (2, powers.second)):
        expected = [sum((Fraction(v) ** power for v in column), Fraction()) for column in known]
        assert found is not None
        assert found.value.tolist() == [[float(value) for value in expected]]
        moments = Moments.observe(np.array(columns, dtype=np.float64).T, missing=True)
        local = moments.first if power == 1 else moments.second
        assert local is not None
        assert found.reindex(lambda words: words[:, 0]) == local


@pytest.fixture(scope="module")
def duck() -> Iterator[Database]:
    with run_database("duckdb") as running:
        running.make({"a": "DOUBLE", "b": "DOUBLE"}, [[], []], "floats")
        yield running


def test_hard_columns_have_the_same_bits(database: Database) -> None:
    rng = np.random.default_rng(3)
    n = 400
    columns: dict[str, Any] = {
        "large mean": 1e8 + rng.normal(size=n),
        "outlier": np.where(np.arange(n) == 7, 1e9, rng.normal(size=n)),
        "tiny": rng.normal(size=n) * 1e-30,
        "negative": -np.exp(rng.normal(size=n) * 6),
        "wide": np.exp(rng.normal(size=n) * 40),
        "whole": rng.integers(-(10**15), 10**15, n).astype(np.float64),
        "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
        "zero": np.zeros(n),
        "single": rng.normal(size=n).astype(np.float32).astype(np.float64),
        "integer": rng.integers(-(2**53), 2**53, n),
        "small": rng.integers(-5, 5, n),
        "flag": rng.random(n) < 0.5,
    }
    types = dict.fromkeys(columns, "DOUBLE PRECISION") | {
        "single": "REAL", "integer": "BIGINT", "small": "SMALLINT", "flag": "BOOLEAN"
    }  # fmt: skip
    frame, labels = pd.DataFrame(columns), rng.choice(["a", "b"], n)
    table = database.make({**types, "y": "VARCHAR"}, [*(frame[c].tolist() for c in frame), labels.tolist()])
    learned = tamis.GaussianNB().fit(table, "y")
    local = tamis.GaussianNB().fit(frame, labels)
    assert learned.statistic_ == local.statistic_
    np.testing.assert_array_equal(learned.var_, local.var_)


def test_products_agree_to_twelve_digits_at_a_large_mean(database: Database) -> None:
    rng = np.random.default_rng(4)
    rows = 1e8 + rng.normal(size=(2000, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 5.0]])
    rows[5] = 1e9
    labels = np.where(np.arange(2000) < 900, "near", "far")
    rows[:900] += 1e9  # classes far apart: each has its own centre
    table = make_table(database, rows, labels)
    local = tamis.GaussianDiscriminant("full", exact=True).fit(rows, labels).statistic_["gaussian"]
    learned = tamis.GaussianDiscriminant("full").fit(table, "y").statistic_["gaussian"]
    assert (learned.weight, learned.first) == (local.weight, local.first)
    scale = np.sqrt(np.einsum("kii,kjj->kij", local.scatter, local.scatter))
    assert (np.abs(learned.scatter - local.scatter) <= 1e-12 * scale).all()


def test_words_dates_and_flags_are_counted_by_value(database: Database) -> None:
    days = [datetime.date(2026, 1, 1 + i % 3) for i in range(40)]
    words = [None if i % 7 == 0 else f"w'{i % 5}\" -- é" for i in range(40)]
    flags = [None if i % 6 == 0 else i % 4 == 0 for i in range(40)]
    prices = [decimal.Decimal(i % 9) / 4 for i in range(40)]
    labels = [i % 2 == 0 for i in range(40)]
    types = {"day": "DATE", "word": "VARCHAR", "flag": "BOOLEAN", "price": "NUMERIC(8, 2)", "y": "BOOLEAN"}
    table = database.make(types, [days, words, flags, prices, labels])
    rows = [
        dict(zip(list(types)[:4], row, strict=True)) for row in zip(days, words, flags, prices, strict=True)
    ]
    with pytest.warns(UserWarning, match="column 'day' holds dates .3 distinct values in 40 rows."):
        local = tamis.NaiveBayes().fit(rows, labels)
    with pytest.warns(UserWarning, match="column 'day' holds dates .3 distinct values in 40 rows."):
        learned = tamis.fit(tamis.NaiveBayes(), table, y="y")
    assert learned.families_ == {
        "day": "categorical", "word": "categorical", "flag": "bernoulli", "price": "gaussian"
    }  # fmt: skip
    assert learned.statistic_ == local.statistic_
    assert learned.predict_proba(rows).tolist() == local.predict_proba(rows).tolist()


def test_families_of_one_column_are_learned_by_distinct_values(database: Database) -> None:
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.geometric(0.4, 80) - 1.0, rng.exponential(3.0, 80)])
    rows[3] = np.nan
    labels = rng.choice(["a", "b"], 80)
    table = make_table(database, rows, labels)
    choice = {"plain": "geometric", "select": "exponential"}
    local = tamis.NaiveBayes(choice).fit(pd.DataFrame(rows, columns=NAMES[:2]), labels)
    assert tamis.fit(tamis.NaiveBayes(choice), table, y="y").statistic_ == local.statistic_


def test_more_columns_than_one_query_takes(database: Database) -> None:
    rows = np.random.default_rng(6).normal(size=(12, 60))
    names = [f"x{j}" for j in range(60)]
    types = {**dict.fromkeys(names, "DOUBLE PRECISION"), "y": "BIGINT"}
    labels = [i % 3 for i in range(12)]
    table = database.make(types, [*rows.T.tolist(), labels])
    assert tamis.GaussianNB().fit(table, "y").statistic_ == tamis.GaussianNB().fit(rows, labels).statistic_
    some = names[:30]
    learned, local = tamis.fit(tamis.PCA(3), table, columns=some), tamis.PCA(3).fit(rows[:, :30])
    np.testing.assert_allclose(learned.explained_variance_, local.explained_variance_, rtol=1e-12)


def test_a_query_is_summed_as_a_table(database: Database) -> None:
    table = database.make(
        {"x": "DOUBLE PRECISION", "y": "VARCHAR"}, [[1.0, 2.0, 3.0], ["a", "b", "a"]], "source"
    )
    chosen = database.query('SELECT x, y FROM "source" WHERE x > 1.5;' if database.address else
                            'SELECT x, y FROM "source" WHERE x > 1.5')  # fmt: skip
    assert isinstance(table, SQLTable)
    assert tamis.GaussianNB().fit(chosen, "y").class_count_.tolist() == [1.0, 1.0]


def test_a_name_is_never_run_as_a_statement(database: Database) -> None:
    name = 'x" FROM "kept"; DROP TABLE "kept"; --'
    database.make({"x": "BIGINT"}, [[1, 2]], "kept")
    table = database.make({name: "DOUBLE PRECISION", "y": "VARCHAR"}, [[1.0, 2.0], ["a", "b'); --"]], name)
    model = tamis.fit(tamis.GaussianNB(), table, y="y", columns=[name])
    assert model.theta_.tolist() == [[1.0], [2.0]]
    assert database.connection.execute('SELECT COUNT(*) FROM "kept"').fetchall() == [(2,)]
    with pytest.raises(ValueError, match="zero byte"):
        PostgreSQLTable("host=nowhere", "x\0y").name_source()


# ── bad input ──

BAD: dict[str, tuple[dict[str, str], list[list[Any]], Any, str]] = {
    "empty table": (
        {"x": "DOUBLE PRECISION", "y": "VARCHAR"}, [[], []], tamis.GaussianNB(),
        "^got no rows, expected at least one: the table, or the result of the query, is empty$",
    ),
    "text among numbers": (
        {"x": "VARCHAR", "y": "VARCHAR"}, [["1"], ["a"]], tamis.GaussianNB(),
        "^column 'x' is of type (VARCHAR|varchar), expected numbers: name the columns to learn from",
    ),
    "infinity": (
        {"x": "DOUBLE PRECISION", "y": "VARCHAR"}, [[1.0, math.inf], ["a", "b"]], tamis.GaussianNB(),
        "^column 'x' holds infinity, expected finite numbers, NaN or NULL: mend those rows$",
    ),
    "integers that are no floats": (
        {"x": "BIGINT", "y": "VARCHAR"}, [[1, 2**53 + 1], ["a", "b"]], tamis.GaussianNB(),
        r"^column 'x' holds integers up to 9.01e.15, expected integers up to 2\*\*53, which",
    ),
    "negative counts": (
        {"x": "BIGINT", "y": "VARCHAR"}, [[1, -2], ["a", "b"]], tamis.PoissonNB(),
        "^Negative values in data: column 'x' holds -2, expected counts of at least 0$",
    ),
    "no flags": (
        {"x": "DOUBLE PRECISION", "y": "VARCHAR"}, [[1.0, 0.5], ["a", "b"]], tamis.BernoulliNB(binarize=None),
        "^column 'x' holds fractions, expected 0 or 1: turn it into flags first, as by x > 0$",
    ),
    "missing count": (
        {"x": "BIGINT", "y": "VARCHAR"}, [[1, None], ["a", "b"]], tamis.MultinomialNB(),
        "^column 'x' is missing in 1 of 2 rows, expected a number in each: drop or fill those rows$",
    ),
    "labels with fractions": (
        {"x": "BIGINT", "y": "DOUBLE PRECISION"}, [[1, 2], [0.5, 1.0]], tamis.GaussianNB(),
        "^Unknown label type: continuous.",
    ),
    "no label at all": (
        {"x": "BIGINT", "y": "VARCHAR"}, [[1, 2], [None, None]], tamis.GaussianNB(),
        "^no row has a label, expected at least one: without labels, use tamis.Mixture$",
    ),
    "a list": (
        {"x": "BIGINT[]", "y": "VARCHAR"}, [[[1]], ["a"]], tamis.GaussianNB(),
        r"^column 'x' is of type (BIGINT|int8)\[\], expected numbers, booleans, text or dates",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_line_and_nothing_is_learned(name: str, database: Database) -> None:
    types, columns, model, message = BAD[name]
    table = database.make(types, columns)
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        model.fit(table, "y")
    assert "\n" not in str(raised.value)
    assert not model.__sklearn_is_fitted__()


def test_a_column_without_values_is_learned_as_unknown(database: Database) -> None:
    types = {"x": "DOUBLE PRECISION", "none": "DOUBLE PRECISION", "y": "VARCHAR"}
    table = database.make(types, [[1.0, 2.0, 4.0], [None] * 3, ["a", "b", "b"]])
    learned = tamis.GaussianNB().fit(table, "y")
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "none": [np.nan] * 3})
    local = tamis.GaussianNB().fit(frame, ["a", "b", "b"])
    assert learned.statistic_ == local.statistic_
    assert learned.state_.schema.kinds == local.state_.schema.kinds == ("number", "unknown")
    with pytest.raises(ValueError, match=r"^column 'none' is missing in 3 of 3 rows"):
        tamis.fit(tamis.PCA(), table, columns=["x", "none"])


def test_unknown_columns_are_named(database: Database) -> None:
    table = database.make({"x": "BIGINT", "y": "VARCHAR"}, [[1, 2], ["a", "b"]])
    model = tamis.GaussianNB()
    with pytest.raises(ValueError, match=r"^got y='label', expected a column of the data: it has x, y$"):
        model.fit(table, "label")
    with pytest.raises(ValueError, match=r"^the data has no column 'z', expected one of x, y$"):
        tamis.fit(model, table, y="y", columns=["z"])
    with pytest.raises(ValueError, match=r"^requires y to be passed, but the target y is None"):
        tamis.fit(model, table)
    with pytest.raises(TypeError, match=r"^got an engine for a table of a database, expected none"):
        tamis.fit(model, table, y="y", engine="threads")
    assert not model.__sklearn_is_fitted__()


def test_rows_without_a_label_are_read(database: Database) -> None:
    rng = np.random.default_rng(7)
    rows, labels = rng.normal(size=(60, 2)) + np.repeat([[0.0], [4.0]], 30, axis=0), np.repeat(["a", "b"], 30)
    some = labels.astype(object)
    some[np.arange(60) % 3 > 0] = None
    table = make_table(database, rows, some)
    with pytest.warns(UserWarning, match="its rows are read: some rows have no label"):
        learned = tamis.GaussianNB().fit(table, "y")
    local = tamis.GaussianNB().fit(pd.DataFrame(rows, columns=NAMES[:2]), some)
    np.testing.assert_allclose(learned.theta_, local.theta_, rtol=1e-6)
    with (
        pytest.warns(UserWarning, match="some rows have no label"),
        pytest.raises(ValueError, match=r"^batch 0: label 1 is missing, expected all labels in partial_fit"),
    ):
        tamis.GaussianNB().partial_fit(table, "y")


def test_a_relation_is_summed_where_that_is_asked_for(duck: Database) -> None:
    relation = duck.connection.sql("SELECT * FROM (VALUES (1.0, 'a'), (3.0, 'b'), (5.0, 'b')) AS rows(x, y)")
    summed = tamis.fit(tamis.GaussianNB(), relation, y="y", engine="sql")
    read = tamis.fit(tamis.GaussianNB(), relation, y="y")
    assert summed.statistic_ == read.statistic_
    with pytest.raises(TypeError, match=r"^got a ndarray, expected a relation of DuckDB"):
        tamis.fit(tamis.GaussianNB(), np.ones((2, 2)), y="y", engine="sql")


def test_a_server_that_cannot_be_reached_is_one_line() -> None:
    model = tamis.GaussianNB()
    with pytest.raises(
        ConnectionError, match=r"^cannot reach the PostgreSQL server: .*: start it, or mend"
    ) as e:
        model.fit(PostgreSQLTable("host=/nowhere user=tamis dbname=mail connect_timeout=2", "mail"), "y")
    assert "\n" not in str(e.value)
    assert not model.__sklearn_is_fitted__()


def test_a_table_that_does_not_exist_is_one_line(database: Database) -> None:
    if not database.address:
        return  # DuckDB itself refuses to make the relation
    with pytest.raises(
        ValueError, match=r'^PostgreSQL cannot query the table: relation "nowhere" does not exist$'
    ):
        tamis.GaussianNB().fit(PostgreSQLTable(database.connection, "nowhere"), "y")


@dataclass(frozen=True, eq=False)
class Disturbed(PostgreSQLTable):
    """A table to which another connection adds a row after each query."""

    writer: Any = None

    def run(self, query: str) -> list[tuple[Any, ...]]:
        rows = super().run(query)
        self.writer.execute("INSERT INTO own VALUES (1e9, 'c')")
        return rows


def test_all_queries_see_one_snapshot_and_the_connection_is_closed(database: Database) -> None:
    if not database.address:
        return
    database.make({"x": "DOUBLE PRECISION", "y": "VARCHAR"}, [[1.0, 2.5], ["a", "b"]], "own")
    model = tamis.GaussianNB().fit(Disturbed(database.address, "own", writer=database.connection), "y")
    assert (model.theta_.tolist(), model.class_count_.tolist()) == ([[1.0], [2.5]], [1.0, 1.0])
    own = PostgreSQLTable(database.address, ("public", "own"))
    assert tamis.GaussianNB().fit(own, "y").class_count_.tolist() == [1.0, 1.0, 3.0]
    count = "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    end = time.monotonic() + 20
    while database.connection.execute(count).fetchall() != [(1,)]:  # a backend takes a moment to end
        assert time.monotonic() < end
        time.sleep(0.02)


def test_other_objects_are_refused_and_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="expected a relation of DuckDB"):
        DuckDBTable("mail")
    with pytest.raises(TypeError, match="expected a connection of psycopg 3"):
        PostgreSQLTable(object(), "mail")
    with pytest.raises(ValueError, match="got both a table and a query, or neither"):
        PostgreSQLTable("dbname=mail")

    def refuse(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.delitem(sys.modules, "psycopg", raising=False)
    monkeypatch.setattr("tamis.extras.import_module", refuse)
    message = r"PostgreSQLTable needs psycopg, which is not installed: pip install \"tamis\[postgresql\]\"$"
    with pytest.raises(MissingPackageError, match=message):
        PostgreSQLTable("dbname=mail", "mail").list_columns()


def test_a_range_that_is_too_wide_is_read_in_rows(database: Database) -> None:
    assert Slices.of(0, ColumnProfile(2, 1e-200, 1e100, 1e-200, True), 53) is None
    table = database.make({"x": "DOUBLE PRECISION", "y": "VARCHAR"}, [[1e-200, 1e100], ["a", "b"]])
    with pytest.warns(UserWarning, match="column 'x' holds numbers from 1e-200 to 1e.100"):
        learned = tamis.GaussianNB().fit(table, "y")
    assert learned.statistic_ == tamis.GaussianNB().fit([[1e-200], [1e100]], ["a", "b"]).statistic_


def test_the_how_to_of_postgresql_is_true() -> None:
    if find_program("initdb") is None:
        pytest.skip(MISSING)
    page = (Path(__file__).parents[2] / "docs/howto/sql-postgresql.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    with run_database("postgresql") as database:
        database.connection.execute("CREATE SCHEMA archive")
        database.connection.execute(
            "CREATE TABLE archive.mail AS SELECT 1000.5 * n AS size, n % 3 AS links, "
            "CASE WHEN n % 2 = 0 THEN 'en' ELSE 'fr' END AS language, "
            "CASE WHEN n % 4 = 0 THEN 'junk' ELSE 'inbox' END AS folder, "
            "DATE '2025-12-01' + n AS day FROM generate_series(1, 60) AS n"
        )
        namespace: dict[str, Any] = {}
        exec(block.replace("host=db.example.org dbname=site", database.address), namespace)
    assert namespace["model"].class_count_.tolist() == [45 + 21, 15 + 8]  # 29 days after the first of 2026
