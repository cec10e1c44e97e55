"""What a store may hold, and that nothing else is taken in, opened or said to be sound."""

import hashlib
import io
import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail import Sieve
from tamis_mail.labels import Label
from tamis_mail.schema import MAX_COUNT, TABLES, find_setting_fault, parse_rule
from tamis_mail.store import Store, StoreError, exchange, maintenance, saving
from tamis_mail.verdict import RULE, Rule, VerdictError, judge
from tamis_mail.verdict.judging import decide
from tamis_mail.verdict.rule import RuleError
from tests.mail.store.memory import bag, careless, features, learn

MESSAGE = b"Subject: cheap watches\n\nBuy now, cheap"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        learn(careless(store), range(8), "spam")
        learn(store, range(8, 16), "ham")
        yield store


def changed_rule(change: Callable[[dict[str, object]], object]) -> str:
    rule: dict[str, object] = json.loads(RULE.to_json())
    change(rule)
    return json.dumps(rule)


def view(rule: dict[str, object]) -> dict[str, object]:
    views = rule["views"]
    assert isinstance(views, list)
    first: dict[str, object] = views[0]
    return first


BAD_RULES = {
    "a scale of NaN": changed_rule(lambda rule: view(rule).update(scale=math.nan)),
    "a scale without end": changed_rule(lambda rule: view(rule).update(scale=math.inf)),
    "a scale that is text": changed_rule(lambda rule: view(rule).update(scale="1")),
    "a scale that is true": changed_rule(lambda rule: view(rule).update(scale=True)),
    "an integer that no float holds": changed_rule(lambda rule: view(rule).update(scale=10**400)),
    "no reluctance": changed_rule(lambda rule: view(rule).update(reluctance=0)),
    "no prior": changed_rule(lambda rule: view(rule).update(prior=0)),
    "pooled by number": changed_rule(lambda rule: view(rule).update(pooled=1)),
    "no acquaintance": changed_rule(lambda rule: rule.update(acquaintance=0)),
    "a threshold beyond one": changed_rule(lambda rule: rule.update(spam=1.5)),
    "thresholds that cross": changed_rule(lambda rule: rule.update(spam=0.1, ham=0.9)),
    "three views": changed_rule(lambda rule: rule.update(views=[view(rule)] * 3)),
    "six views": changed_rule(lambda rule: rule.update(views=[view(rule)] * 6)),
    "views by name": changed_rule(lambda rule: rule.update(views={"a": 1})),
    "something more": changed_rule(lambda rule: rule.update(more=1)),
    "something less": changed_rule(lambda rule: rule.pop("ham")),
    "a list": "[1]",
    "nothing": "null",
    "nested without end": "[" * 4000,
    "very long": "[" + " " * 100_000 + "]",
    "no JSON": "rule",
}


@pytest.mark.parametrize("rule", BAD_RULES.values(), ids=BAD_RULES)
def test_a_bad_rule_is_refused_wherever_it_comes_from(store: Store, tmp_path: Path, rule: str) -> None:
    assert find_setting_fault("rule", rule)
    text = io.BytesIO()
    exchange.export(store, text)
    hostile = with_setting(text.getvalue(), "rule", rule)
    with Store(tmp_path / "new") as new, pytest.raises(StoreError, match=r"line 2: .*; nothing was loaded"):
        exchange.load(new, io.BytesIO(hostile))
    store.connection.execute("INSERT INTO setting VALUES ('rule', ?)", (rule,))
    with pytest.raises(RuleError, match=r"cannot be used .*: tamis tune --reset goes back") as error:
        Sieve(store).sort(MESSAGE)
    assert "\n" not in str(error.value)
    (fault,) = maintenance.check(store)
    assert "setting" in fault
    saving.backup(store, tmp_path / "backup")
    with pytest.raises(StoreError, match=r"the backup .* is damaged"):
        saving.restore(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def with_setting(text: bytes, name: str, value: str) -> bytes:
    """An export with one setting more, whose counts and checksum are right."""
    first, *rest, _ = text.splitlines(keepends=True)
    lines = [first, f"setting {json.dumps(name)} {json.dumps(value)}\n".encode(), *rest]
    numbers = [
        sum(line.startswith(kind) for line in lines) for kind in (b"set", b"row", b"lab", b"mes", b"cou")
    ]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    return b"".join(lines) + f"end {' '.join(map(str, numbers))} {digest}\n".encode()


@given(
    st.lists(st.floats(0, 1e4), min_size=5, max_size=5),
    st.floats(1e-9, 1e6),
    st.floats(1e-9, 1e6),
    st.floats(-1e4, 1e4),
    st.floats(1e-9, 1e9),
)
@settings(max_examples=50, deadline=None)
def test_every_rule_that_is_accepted_gives_finite_probabilities(
    scales: list[float], prior: float, reluctance: float, tilt: float, acquaintance: float
) -> None:
    views = [
        replace(view, scale=scale, prior=prior, reluctance=reluctance, tilt=tilt, doubt=-tilt)
        for view, scale in zip(RULE.views, scales, strict=True)
    ]
    rule = replace(RULE, views=tuple(views), acquaintance=acquaintance)
    parse_rule(rule.to_json(), 2)
    labels = [Label(0, "spam", 9, 9, 0, MAX_COUNT), Label(1, "ham", 9, 9, 0, MAX_COUNT)]
    for counts in ({}, {0: [1, 0], 1: [0, 0], 2: [0, MAX_COUNT], 3: [MAX_COUNT, 0], 4: [1, 9]}):
        verdict = judge(counts, labels, rule, 1, dict)
        assert math.isfinite(verdict.log_odds)
        assert 0 <= verdict.probability <= 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", "41"),
        ("epoch", "-1"),
        ("epoch", "1e9"),
        ("epoch", "²"),
        ("era", "9" * 5000),
        ("tokens", "x"),
    ],
)
def test_numbers_out_of_range_are_refused(store: Store, name: str, value: str) -> None:
    store.connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))
    (fault,) = maintenance.check(store)
    assert "setting" in fault
    with pytest.raises(StoreError, match=name if len(value) < 100 else "setting") as error:
        store.integer_setting(name)
    assert len(str(error.value)) < 400


def test_the_description_names_the_columns_that_the_migrations_make(store: Store) -> None:
    tables = store.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert {name for (name,) in tables} == set(TABLES)
    for table, columns in TABLES.items():
        info = store.connection.execute(f"PRAGMA table_info({table})").fetchall()
        assert [name for _, name, *_ in info] == list(columns)


HOSTILE_VALUES = {
    "text among weights": "UPDATE journal SET weight = 'x'",
    "a weight below zero": "UPDATE journal SET weight = -1",
    "a time beyond the calendar": f"UPDATE journal SET time = {1 << 60}",
    "a digest that is text": "INSERT INTO journal SELECT 'x', 0, 1, 0, 1, 0, 1, 1",
    "the name of a label": "UPDATE label SET name = 'un\nsure' WHERE name = 'ham'",
    "a label that is bytes": "UPDATE label SET name = x'ff' WHERE name = 'ham'",
    "weights of a label": "UPDATE label SET weight = 1.5",
    "bits of a run": "UPDATE run SET bits = 1000000000",
    "bits of a run below zero": "UPDATE run SET bits = -1",
    "labels of a run": "UPDATE run SET labels = 100000000",
    "more labels of a run": "UPDATE run SET labels = 3",
    "text among shelves": "UPDATE shelf SET data = 'abcdefghijklmnopqrst'",
    "shelves that are cut off": "UPDATE shelf SET data = substr(data, 1, 7)",
    "where a run starts": "UPDATE run SET start = -9223372036854775808",
    "how many entries a run has": "UPDATE run SET entries = 281474976710656",
    "the name of a source": "UPDATE source SET name = x'00'",
    "a setting that is bytes": "INSERT INTO setting VALUES ('rule', x'00')",
}


@pytest.mark.parametrize("damage", HOSTILE_VALUES.values(), ids=HOSTILE_VALUES)
def test_values_that_no_store_has_are_found_by_check_and_end_in_one_line(store: Store, damage: str) -> None:
    maintenance.compact(store)
    store.connection.execute(damage)
    assert maintenance.check(store)
    sieve = Sieve(store)
    for act in (
        lambda: sieve.sort(MESSAGE),
        lambda: list(sieve.sort_many([MESSAGE], processes=1)),
        lambda: sieve.learn(MESSAGE, "ham"),
        lambda: maintenance.status(store),
        lambda: exchange.export(store, io.BytesIO()),
    ):
        with suppress(StoreError, RuleError, VerdictError):  # nothing else may come of it
            act()


def test_counts_whose_sum_64_bits_do_not_hold_are_refused(store: Store, tmp_path: Path) -> None:
    most = 9 * 10**17
    lines = [b"tamis-store 1 tokens 1 epoch 0 era 0\n", b'label 0 "ham"\n']
    lines += [b"count %012x %d\n" % (key, most) for key in range(1, 40)]
    digest = hashlib.sha256(b"".join(lines)).hexdigest().encode()
    text = b"".join(lines) + b"end 0 1 0 39 %s\n" % digest
    with Store(tmp_path / "new") as new, pytest.raises(StoreError, match="too large"):
        exchange.load(new, io.BytesIO(text))
    with store.transaction() as writer:
        writer.add_imported("ham", MAX_COUNT // 2)
    with pytest.raises(StoreError, match="too large"), store.transaction() as writer:
        writer.add_imported("ham", MAX_COUNT // 2)
    with store.transaction() as writer:
        writer.add(bag(features(99), 0, 2, MAX_COUNT // 100))
    entries = store.connection.execute("SELECT sum(entries) FROM run").fetchone()[0]
    store.connection.execute(
        "INSERT INTO run SELECT max(id) + 1, 0, max(start + (1 << bits)), 0, 8, 1, 3 FROM run"
    )
    (start,) = store.connection.execute("SELECT start FROM run ORDER BY id DESC").fetchone()
    data = b"".join(key.to_bytes(8, "little") + ((1 << 63) - 1).to_bytes(8, "little") for key in range(1, 4))
    store.connection.execute("INSERT INTO shelf VALUES (?, ?)", (start, data))
    assert entries
    assert any("add up to about" in fault for fault in maintenance.check(store))


@pytest.mark.parametrize("many", [False, True])
def test_counts_below_zero_are_an_error_and_never_ham(tmp_path: Path, many: bool) -> None:
    with Sieve.open(tmp_path / "mail") as sieve:
        for number in range(6):
            sieve.learn(b"Subject: cheap %d\n\nBuy watches" % number, "spam")
            sieve.learn(b"Subject: lunch %d\n\nAt noon" % number, "ham")
        with sieve.store.transaction() as writer:
            for table in list(sieve.store.count_slices()):
                table.counts[:] *= -3
                writer.add(table)
        with pytest.raises(VerdictError, match="tamis store check"):
            list(sieve.sort_many([MESSAGE], processes=1)) if many else sieve.sort(MESSAGE)


@pytest.mark.parametrize("log_odds", [math.nan, math.inf, -math.inf])
def test_no_label_is_given_to_log_odds_that_are_no_number(log_odds: float) -> None:
    with pytest.raises(VerdictError, match="the message was not judged"):
        decide(log_odds, ["ham"], {}, RULE)
    with pytest.raises(VerdictError, match="the message was not judged"):
        decide(0.0, ["ham", "work"], {"ham": 0.0, "work": log_odds}, RULE)


def test_a_rule_is_read_as_it_was_written(store: Store) -> None:
    with store.transaction() as writer:
        writer.write_setting("rule", RULE.with_scales((1, 2, 3, 4, 5)).to_json())
    assert Rule.of(store) == RULE.with_scales((1, 2, 3, 4, 5))
    assert maintenance.check(store) == []


OBJECTS = {
    "a trigger": """CREATE TRIGGER endless AFTER INSERT ON journal BEGIN
        INSERT INTO source (name) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i FROM n; END""",
    "a view": "CREATE VIEW more AS SELECT 1",
    "a view in the place of a table": """DROP TABLE label; CREATE VIEW label AS
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i AS id, 'a' AS name, 1 AS messages, 1 AS weight, 1 AS lent, count(*) AS features FROM n""",
    "a view of migrations": """DROP TABLE migration; CREATE VIEW migration AS
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS name FROM n""",
    "an index": "CREATE INDEX slow ON journal (abs(weight))",
    "a table": "CREATE TABLE more (a)",
    "a column": "ALTER TABLE journal ADD COLUMN more AS (abs(weight))",
    "a column that is gone": "ALTER TABLE journal DROP COLUMN time",
    "a table that is gone": "DROP TABLE run",
    "statistics": "ANALYZE",
}


@pytest.mark.parametrize("statement", OBJECTS.values(), ids=OBJECTS)
def test_a_store_with_other_tables_triggers_or_views_is_not_opened(
    store: Store, tmp_path: Path, statement: str
) -> None:
    saving.backup(store, tmp_path / "hostile")
    with closing(sqlite3.connect(tmp_path / "hostile")) as connection:
        connection.executescript(statement)
    words = "that no store of tamis has|has no table"
    with pytest.raises(StoreError, match=words):
        Store(tmp_path / "hostile")
    with pytest.raises(StoreError, match=words):
        Store(tmp_path / "hostile", readonly=True)
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match=words):
        saving.restore(tmp_path / "hostile", store.path)
    assert store.path.read_bytes() == before
    assert maintenance.check(store) == []
    store.connection.executescript(statement)
    (fault, *_) = maintenance.check(store)
    assert statement.startswith(("DROP", "ALTER TABLE journal DROP")) or "no store of tamis has" in fault


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_every_statement_has_a_time_limit(store: Store) -> None:
    with pytest.raises(StoreError, match="took too long"), store.snapshot(seconds=0.05):
        store.connection.execute(ENDLESS)

    def write() -> None:
        with store.transaction() as writer:
            writer.write_setting("more", 1)
            store.connection.execute(f"INSERT INTO source (name) {ENDLESS}")

    with store.connection.limit_statements(0.05), pytest.raises(StoreError, match="took too long"):
        write()
    assert store.setting("more") is None
    assert maintenance.check(store) == []


def test_what_is_said_of_a_hostile_export_is_short(tmp_path: Path) -> None:
    first = b"tamis-store 1 tokens 1 epoch 0 era 0\n"
    long = b"x" * 60_000
    for line in (
        b'label 0 "%s"\n' % long,
        b'label 0 "y"\nlabel 0 "%s"\n' % long,
        b'setting "%s" ""\n' % long,
        b'setting "y" ""\nsetting "%s" ""\n' % long,
        b'setting "rule" "%s"\n' % long,
        b'setting "epoch2" "%s"\n' % long,
        b"%s\n" % long,
        b"count %s\n" % long,
        b"message %s\n" % long,
        b'label 0 "ham"\nmessage 00 0 1 0 1 0 1 "%s\n' % long,
    ):
        with Store(tmp_path / "new") as new, pytest.raises(StoreError) as error:
            exchange.load(new, io.BytesIO(first + line))
        assert len(str(error.value)) < 400
        assert "\n" not in str(error.value)


def test_each_fault_of_a_file_with_a_page_over_another_is_one_line(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(careless(store), range(60), stored=False)  # the last pages are shelves
        saving.backup(store, tmp_path / "backup")
    data = (tmp_path / "backup").read_bytes()
    pages = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    several = 0
    for number in range(len(pages) - 6, len(pages) - 1):
        changed = [*pages[:number], pages[number + 1], *pages[number + 1 :]]
        path = tmp_path / f"changed-{number}"
        path.write_bytes(b"".join(changed))
        with closing(sqlite3.connect(path)) as connection:
            several += any("\n" in line for (line,) in connection.execute("PRAGMA integrity_check(20)"))
        with Store(path) as store:
            faults = maintenance.check(store)
        assert faults
        assert not any("\n" in fault for fault in faults)
    assert several  # SQLite does say several things in one answer
