"""Files, datasets, relations and memory maps: a model of their shards is that of all rows."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

import tamis
from tamis.engines import memory_maps
from tamis.engines.opening import find_module

pa: Any = pyarrow  # its stubs are narrower than it is
pq: Any = pyarrow.parquet
pc: Any = pyarrow.csv
ds: Any = pyarrow.dataset
RNG = np.random.default_rng(0)
NAMES = ["a", "b", "c"]
X, Y, W = RNG.normal(size=(500, 3)), RNG.choice(["x", "y"], 500), RNG.random(500) + 0.1
TABLE = pa.table({**{name: X[:, j] for j, name in enumerate(NAMES)}, "y": Y, "w": W, "other": np.arange(500)})
EXPECTED = tamis.GaussianNB().fit(TABLE.select(NAMES), Y, sample_weight=W).statistic_


def write_parquet(folder: Path) -> Any:
    pq.write_table(TABLE.slice(0, 300), folder / "1.parquet", row_group_size=70)
    pq.write_table(TABLE.slice(300), folder / "2.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def write_pattern(folder: Path) -> Any:
    write_parquet(folder)
    return f"{folder}/?.parquet"


def write_csv(folder: Path) -> Any:
    pc.write_csv(TABLE.slice(0, 300), folder / "1.csv")
    pc.write_csv(TABLE.slice(300), folder / "2.csv")
    return folder


def write_arrow(folder: Path) -> Any:
    with pa.ipc.new_file(folder / "1.arrow", TABLE.schema) as file:
        file.write_table(TABLE, max_chunksize=120)
    return folder / "1.arrow"


def write_stream(folder: Path) -> Any:
    with pa.ipc.new_stream(folder / "1.arrows", TABLE.schema) as file:
        file.write_table(TABLE, max_chunksize=120)
    return folder / "1.arrows"


def open_dataset(folder: Path) -> Any:
    return ds.dataset(write_parquet(folder), exclude_invalid_files=True)


def open_reader(folder: Path) -> Any:
    return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=90))


def open_relation(folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'tamis[duckdb]'")
    return duckdb.sql(f"SELECT * FROM '{write_pattern(folder)}'")


SOURCES = (
    write_parquet,
    write_pattern,
    write_csv,
    write_arrow,
    write_stream,
    open_dataset,
    open_reader,
    open_relation,
)


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
def test_a_source_is_all_its_rows(make: Callable[[Path], Any], tmp_path: Path) -> None:
    source = make(tmp_path)
    model = tamis.fit(tamis.GaussianNB(), source, "y", "w", columns=NAMES)
    assert model.statistic_ == EXPECTED
    assert model.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("make", [write_parquet, write_csv, open_relation], ids=lambda make: make.__name__)
def test_a_source_is_read_again_at_each_step(make: Callable[[Path], Any], tmp_path: Path) -> None:
    sharded = tamis.fit(tamis.LogisticRegression(), make(tmp_path), "y", "w", columns=NAMES)
    at_once = tamis.LogisticRegression().fit(X, Y, sample_weight=W)
    np.testing.assert_allclose(sharded.coef_, at_once.coef_, rtol=1e-9)


def test_a_large_memory_map_is_read_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert find_module(mapped) is None
    monkeypatch.setattr("tamis.engines.opening._LARGE_MAP", 1000)
    monkeypatch.setattr(memory_maps, "_MAX_SHARD_BYTES", 1000)
    assert tamis.GaussianNB().fit(mapped, Y, sample_weight=W).statistic_ == EXPECTED
    with pytest.raises(ValueError, match=r"got y of shape \(499,\) for 500 rows, expected one per row"):
        tamis.GaussianNB().fit(mapped, Y[1:])


def test_a_small_memory_map_can_be_fitted_as_shards(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert tamis.fit(tamis.GaussianNB(), mapped, Y, W).statistic_ == EXPECTED


def test_a_progress_bar_counts_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tamis.fit(tamis.GaussianNB(), write_parquet(tmp_path), "y", "w", columns=NAMES, progress=True)
    assert "GaussianNB: 2 of at most 2 steps" in capsys.readouterr().err


def test_a_column_of_nulls_in_one_shard_is_learned_from_the_others(tmp_path: Path) -> None:
    nulls = TABLE.slice(0, 300).set_column(1, "b", pa.nulls(300))
    pq.write_table(nulls, tmp_path / "1.parquet")
    pq.write_table(TABLE.slice(300), tmp_path / "2.parquet")
    model = tamis.fit(tamis.NaiveBayes(), tmp_path, "y", "w", columns=NAMES)
    known = X.copy()
    known[:300, 1] = np.nan
    expected = tamis.NaiveBayes().fit(known, Y, sample_weight=W)
    assert np.array_equal(model.predict_joint_log_proba(X), expected.predict_joint_log_proba(X))


def test_shards_of_other_columns_or_kinds_are_refused_and_nothing_is_learned(tmp_path: Path) -> None:
    model = tamis.GaussianNB().fit(X, Y)
    before = model.statistic_
    pq.write_table(TABLE, tmp_path / "1.parquet")
    for changed, message in (
        (
            TABLE.drop_columns("b"),
            "2.parquet, row group 0: there is no column 'b', which the first shard has",
        ),
        (
            TABLE.set_column(1, "b", pa.array(["?"] * 500)),
            "2.parquet, row group 0: column 'b' holds text, exp",
        ),
    ):
        pq.write_table(changed, tmp_path / "2.parquet")
        with pytest.raises(ValueError, match=message):
            tamis.fit(model, tmp_path, "y", columns=NAMES)
        assert model.statistic_ == before


def test_a_csv_file_whose_later_lines_are_of_another_type_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,y\n1.5,x\n2.5,y\n")
    (tmp_path / "2.csv").write_text("a,y\nlong,x\n")
    with pytest.raises(
        ValueError, match=r"2\.csv: .*column #0: (Row #\d+: )?CSV conversion error to double: invalid value"
    ):
        tamis.GaussianNB().fit(tmp_path, "y")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": "z"}, "got y='z', expected a column of the data: it has a, b, c, y, w, other"),
        (
            {"y": "y", "columns": ["a", "d"]},
            "the data has no column 'd', expected one of a, b, c, y, w, other",
        ),
        ({"y": "y", "columns": ["a", "y"]}, "got column 'y' to learn from and as a label or weight"),
    ],
)
def test_columns_that_are_not_there_are_refused(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        tamis.fit(tamis.GaussianNB(), write_parquet(tmp_path), **arguments)


def test_paths_without_files_to_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"where there is no file to read, expected a path of \.parquet"
    ):
        tamis.GaussianNB().fit(tmp_path, "y")
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(ValueError, match=r"rows\.xlsx, expected a file that ends in one of \.parquet"):
        tamis.GaussianNB().fit(tmp_path / "rows.xlsx", "y")
    write_parquet(tmp_path)
    write_arrow(tmp_path)
    with pytest.raises(ValueError, match="which holds arrow and parquet files, expected one format"):
        tamis.GaussianNB().fit(tmp_path, "y")
    (tmp_path / "broken.parquet").write_bytes(b"no Parquet")
    with pytest.raises(ValueError, match=r"broken\.parquet: .*Parquet"):
        tamis.GaussianNB().fit(tmp_path / "broken.parquet", "y")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        ImportError, match=r'needs pyarrow, which is not installed: pip install "tamis\[arrow\]"'
    ):
        tamis.GaussianNB().fit(tmp_path, "y")


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="got engine='ray', expected None for threads, a Client of Dask"):
        tamis.fit(tamis.GaussianNB(), write_parquet(tmp_path), "y", engine="ray")
    with pytest.raises(TypeError, match="got data of type ndarray, expected a path, a dataset, a memory map"):
        tamis.fit(tamis.GaussianNB(), X, Y)
