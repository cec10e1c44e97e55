"""A table of all counts, in the compiled core, against `arrays`, in NumPy."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.compiled import core
from tamis_mail.features import read_features
from tamis_mail.features.arrays import Numbers
from tamis_mail.features.batches import open_batch, read_batch
from tamis_mail.labels import Label
from tamis_mail.message import identify
from tamis_mail.sieve import Sieve, jobs
from tamis_mail.sieve.table_judging import TableJudge, judge_batch
from tamis_mail.store import Store, StoreError, saving
from tamis_mail.store.score_tables import can_read_score_table, read_score_table
from tamis_mail.tokens import COMPILED_VERSIONS, VERSION
from tamis_mail.verdict import RULE, VerdictError
from tamis_mail.verdict.arrays import judge_many
from tamis_mail.verdict.tables import TableRule
from tests.compiled_core import needs_core

pytestmark = needs_core

KEY = st.integers(0, (1 << 40) - 1).map(lambda number: number << 3 | number % 5)
NAMES = ("spam", "ham", "work", "guess-spam", "guess-ham")


def _label(column: int, name: str, weight: int) -> Label:
    return Label(column, name, weight, weight, 0, 0)


def _table(runs: list[dict[int, list[int]]], coefficients: dict[int, int], labels: int, bits: int) -> object:
    """Make a table of runs, each with all of its entries on shelves by the highest bits of their keys."""
    assert core is not None
    table = core.mail.ScoreTable(labels, 3)
    shift = 48 - bits

    def shelve(entries: dict[int, bytes]) -> list[tuple[int, bytes]]:
        shelves: dict[int, bytes] = {}
        for key in sorted(entries):
            low = struct.pack("<I" if shift <= 32 else "<Q", key & ((1 << shift) - 1))
            shelves[key >> shift] = shelves.get(key >> shift, b"") + low + entries[key]
        return sorted(shelves.items())

    for run in runs:
        rows = {key: struct.pack(f"<{labels}i", *counts) for key, counts in run.items()}
        table.add_run([(7 + n, data) for n, data in shelve(rows)], 7, bits, 4, labels, len(run))
    table.add_coefficients(
        shelve({key: struct.pack("<h", value) for key, value in coefficients.items()}), bits
    )
    table.finish()
    return table


@given(data=st.data())
def test_log_odds_are_those_of_arrays(data: st.DataObject) -> None:
    n_labels = data.draw(st.integers(2, 4))
    labels = [
        _label(n, name, data.draw(st.integers(0, 50)))
        for n, name in enumerate(data.draw(st.permutations(NAMES))[:n_labels])
    ]
    counts = st.lists(st.integers(0, 9), min_size=n_labels, max_size=n_labels)
    runs = data.draw(st.lists(st.dictionaries(KEY, counts, max_size=20), max_size=4))
    known = sorted({key for run in runs for key in run})
    coefficient = st.integers(-32767, 32767)
    coefficients = data.draw(st.dictionaries(KEY | st.sampled_from(known or [8]), coefficient, max_size=9))
    messages = data.draw(st.lists(st.sets(KEY | st.sampled_from(known or [8]), max_size=30), max_size=5))
    rule = RULE.with_centres([0.1, -0.2, 0.3, 0.0, 0.5])
    table = _table(runs, coefficients, n_labels, data.draw(st.sampled_from([0, 5, 16])))
    batch = open_batch([b""] * len(messages))
    for index, keys in enumerate(messages):
        batch.set_features(index, struct.pack(f"<{len(keys)}Q", *sorted(keys)))
    judged = TableRule(table, labels, rule, 1).judge(batch)  # type: ignore[arg-type]
    distinct = np.array(sorted({key for keys in messages for key in keys}), np.uint64)
    totals = np.zeros((len(distinct), n_labels), np.int64)
    for run in runs:
        for row, key in enumerate(distinct.tolist()):
            totals[row] += run.get(key, [0] * n_labels)
    rows = [np.searchsorted(distinct, np.array(sorted(keys), np.uint64)) for keys in messages]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.intp)
    values = np.array([coefficients.get(key, 0) / 1024 for key in distinct.tolist()])
    expected = judge_many(
        distinct,
        np.concatenate([*rows, np.empty(0, np.intp)]),
        starts,
        totals,
        labels,
        rule,
        1,
        coefficients=values,
    )
    assert [one.log_odds for one in judged] == pytest.approx(
        [one.log_odds for one in expected], rel=1e-9, abs=1e-9
    )
    for one, other in zip(judged, expected, strict=True):
        assert dict(one.probabilities) == pytest.approx(dict(other.probabilities), rel=1e-9, abs=1e-9)


def test_a_negative_count_is_refused_where_a_message_has_the_feature() -> None:
    labels = [_label(0, "spam", 5), _label(1, "ham", 5)]
    rule = TableRule(_table([{8: [-1, 2], 16: [1, 1]}], {}, 2, 0), labels, RULE, 1)  # type: ignore[arg-type]
    batch = open_batch([b""])
    batch.set_features(0, struct.pack("<Q", 16))
    assert len(rule.judge(batch)) == 1
    batch.set_features(0, struct.pack("<QQ", 8, 16))
    with pytest.raises(VerdictError):
        rule.judge(batch)


MAIL = [f"Subject: {'buy' if n % 2 else 'see'} {n}\n\nwords of {n // 3} and more".encode() for n in range(60)]


def _learn(path: Path, version: int = max(COMPILED_VERSIONS, default=VERSION)) -> Sieve:
    sieve = Sieve.open(path)
    with sieve.store.transaction() as writer:
        writer.write_setting("tokens", version)  # as if it had counts of another filter
    for n, raw in enumerate(MAIL[:40]):
        sieve.learn(raw, "spam" if n % 2 else "ham")
    return sieve


@pytest.mark.parametrize("version", COMPILED_VERSIONS)
def test_sorting_is_that_of_numpy(tmp_path: Path, version: int) -> None:
    with _learn(tmp_path / "mail.tamis", version) as sieve:
        assert sieve.store.token_version() == version
        assert can_read_score_table(sieve.store)
        judged = [verdict.judgement for verdict in sieve.sort_many(MAIL)]
        expected = [one for one, _ in jobs.judge(sieve.store.path_name, MAIL)]
        assert [one.log_odds for one in judged] == pytest.approx([one.log_odds for one in expected], rel=1e-9)
        before = judged[50]
        verdicts = sieve.sort_many([MAIL[50]] * 600, processes=1)
        first = next(verdicts)
        sieve.learn(MAIL[50], "spam")
        *_, last = verdicts
        assert first.judgement == before  # the table is read again when the store has changed
        assert last.log_odds > first.log_odds


@pytest.mark.parametrize("version", COMPILED_VERSIONS)
def test_a_store_that_was_upgraded_meanwhile_judges_by_its_new_tokens(tmp_path: Path, version: int) -> None:
    with _learn(tmp_path / "mail.tamis") as sieve:
        expected = [verdict.log_odds for verdict in sieve.sort_many(MAIL)]
        judge = TableJudge(sieve.store)
        judge.token_version = version  # that of the store before
        judged = judge_batch(judge, MAIL, has_identity=False)
        assert [judgement.log_odds for judgement, _ in judged] == expected
        assert judge.token_version == sieve.store.token_version()


def test_a_store_that_an_older_backup_replaced_meanwhile_is_refused(tmp_path: Path) -> None:
    path, backup = tmp_path / "mail.tamis", tmp_path / "backup.tamis"
    with Sieve.open(tmp_path / "old.tamis") as old:
        with old.store.transaction() as writer:
            writer.write_setting("tokens", 1)
        old.learn(MAIL[0], "ham")
        saving.backup(old.store, backup)
    with _learn(path) as sieve:
        verdicts = sieve.sort_many(MAIL * 10, processes=1)
        next(verdicts)
        saving.restore(backup, path)
        with pytest.raises(StoreError, match="tokens of version 1, while mail was judged by it: run"):
            list(verdicts)


def test_a_store_with_many_counts_has_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _learn(tmp_path / "mail.tamis") as sieve:
        expected = [verdict.log_odds for verdict in sieve.sort_many(MAIL)]
        monkeypatch.setattr("tamis_mail.store.score_tables._MAX_COUNTS", 10)
        assert not can_read_score_table(sieve.store)
        assert [verdict.log_odds for verdict in sieve.sort_many(MAIL)] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE shelf SET data = substr(data, 1, length(data) - 1)",
        "UPDATE shelf SET data = CAST(data || data AS BLOB)",
        "UPDATE run SET entries = 1",
        "UPDATE shelf SET data = 'text'",
        "UPDATE coefficient SET data = substr(data, 1, length(data) - 1)",
        "UPDATE coefficient SET data = CAST(data || data AS BLOB)",
    ],
)
def test_damaged_counts_are_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "mail.tamis"
    _learn(path).close()
    with Store(path) as store:
        store.connection.execute(damage)
        with pytest.raises(StoreError, match="damaged"), store.snapshot():
            read_score_table(store)


@given(rows=st.lists(st.tuples(st.integers(-3, 300), st.binary(max_size=60)), max_size=6))
def test_any_rows_are_read_or_refused(rows: list[tuple[int, bytes]]) -> None:
    assert core is not None
    for bits, width in ((0, 1), (8, 8), (48, 2)):
        table = core.mail.ScoreTable(2, 3)
        try:
            table.add_run(rows, 0, bits, width, 2, 100)
            table.add_coefficients(rows, bits)
        except ValueError:
            continue
        table.finish()
        assert len(table) <= 2 * sum(len(data) for _, data in rows)


@pytest.mark.parametrize("version", COMPILED_VERSIONS)
def test_features_of_a_batch_are_those_of_its_messages(version: int) -> None:
    plain, digests = identify(MAIL)
    expected = read_features(plain, version)
    batch = open_batch(MAIL)
    dates = read_batch(batch, range(len(MAIL)), version)
    found: list[Numbers] = [np.frombuffer(batch.features(index), "<u8") for index in range(len(MAIL))]
    assert batch.digests() == digests
    assert [batch.canonical(index) for index in range(len(MAIL))] == plain
    assert dates == [date for _, date in expected]
    assert all(
        np.array_equal(one, np.frombuffer(two, "<u8")) for one, (two, _) in zip(found, expected, strict=True)
    )
