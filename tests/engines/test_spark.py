"""Spark: a model fitted to a data frame, where its partitions are, is the model of one process."""

import gc
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

import tamis
from tamis.engines import Batch, Request, open_shards, spark_files
from tamis.stats import Moments
from tests.engines.spark_sessions import PANDAS, find_reason_to_skip, run_cluster

REASON = find_reason_to_skip()
pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.filterwarnings(PANDAS, "ignore::ResourceWarning"),
]

N = 600
RNG = np.random.default_rng(22)
LABELS = np.array(["ham", "spam", "unsure"])[RNG.integers(0, 3, N)]
NUMBERS = RNG.normal(size=(N, 3)) + 1e6 * (LABELS == "spam")[:, None]
COUNTS = RNG.poisson(3.0, size=(N, 3))
WORDS = RNG.choice(["red", "green", "blue"], N)


def make_rows() -> pd.DataFrame:
    rows = pd.DataFrame(NUMBERS, columns=["a", "b", "c"])
    rows[["k", "l", "m"]] = COUNTS
    return rows.assign(word=WORDS, label=LABELS, weight=RNG.integers(1, 5, N) / 4.0)


ROWS = make_rows()


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # executors cannot import this file: its functions are sent as a whole
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])
    with run_cluster(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.fixture(scope="session")
def frame(session: Any) -> Any:
    """All rows in five partitions, of which one is empty."""
    numbered = pa.Table.from_pandas(ROWS.assign(number=np.arange(N)), preserve_index=False)
    partitions = session.createDataFrame(numbered).repartitionByRange(4, "number")
    empty = session.createDataFrame(numbered.slice(0, 1)).coalesce(1).where("number < 0")
    return partitions.union(empty).drop("number").cache()


def test_counts_and_diagonal_moments_are_those_of_one_process_to_the_bit(frame: Any) -> None:
    numbers, counts = ["a", "b", "c"], ["k", "l", "m"]
    for face, columns in (
        (tamis.GaussianNB(), numbers),
        (tamis.MultinomialNB(), counts),
        (tamis.PoissonNB(), counts),
    ):
        spread = tamis.fit(face, frame, "label", columns=columns)
        assert spread.statistic_ == type(face)().fit(ROWS[columns], LABELS).statistic_
        assert (
            spread.predict(ROWS[columns]) == type(face)().fit(ROWS[columns], LABELS).predict(ROWS[columns])
        ).all()


def test_columns_of_all_kinds_weights_and_labels_are_read_by_name(frame: Any) -> None:
    mixed = tamis.NaiveBayes().fit(frame, "label", sample_weight="weight")
    expected = tamis.NaiveBayes().fit(
        ROWS.drop(columns=["label", "weight"]), LABELS, sample_weight=ROWS["weight"]
    )
    assert mixed.statistic_ == expected.statistic_
    assert mixed.feature_names_in_.tolist() == expected.feature_names_in_.tolist()


def test_full_matrices_agree_to_twelve_digits(frame: Any) -> None:
    numbers = ROWS[["a", "b", "c"]]
    spread = tamis.fit(tamis.PCA(2), frame, columns=["a", "b", "c"])
    np.testing.assert_allclose(
        spread.get_covariance(), tamis.PCA(2).fit(numbers).get_covariance(), rtol=1e-12
    )
    line = tamis.fit(tamis.BayesianLinearRegression(), frame, "a", columns=["k", "l", "m"])
    expected = tamis.BayesianLinearRegression().fit(COUNTS, ROWS["a"])
    np.testing.assert_allclose(line.coef_, expected.coef_, rtol=1e-12)


def test_logistic_regression_has_the_coefficients_of_one_process(frame: Any) -> None:
    columns = ["k", "l", "m"]
    spread = tamis.fit(tamis.LogisticRegression(), frame, "label", sample_weight="weight", columns=columns)
    expected = tamis.LogisticRegression().fit(COUNTS, LABELS, sample_weight=ROWS["weight"])
    np.testing.assert_allclose(spread.coef_, expected.coef_, rtol=1e-6)
    np.testing.assert_allclose(spread.intercept_, expected.intercept_, rtol=1e-6)
    np.testing.assert_allclose(spread.coef_std_, expected.coef_std_, rtol=1e-6)


def test_a_generalized_linear_model_has_the_coefficients_of_one_process(frame: Any) -> None:
    spread = tamis.GeneralizedLinear("poisson")
    spread.fit(frame.select("l", "k", "weight", "m"), "k", sample_weight="weight", offset="m")
    expected = tamis.GeneralizedLinear("poisson")
    expected.fit(ROWS[["l"]], ROWS["k"], sample_weight=ROWS["weight"], offset=ROWS["m"])
    np.testing.assert_allclose(spread.coef_, expected.coef_, rtol=1e-6)
    np.testing.assert_allclose(spread.coef_std_, expected.coef_std_, rtol=1e-6)
    assert spread.null_deviance_ == pytest.approx(expected.null_deviance_, rel=1e-9)


def test_a_recommender_is_that_of_one_process_to_the_bit(session: Any) -> None:
    ratings = pd.DataFrame([(f"u{k % 30}", k % 7, 3.0 + np.sin(k)) for k in range(200)])
    ratings.columns = ["user", "item", "rating"]
    numbered = pa.Table.from_pandas(ratings.assign(number=range(200)), preserve_index=False)
    frame = session.createDataFrame(numbered).repartitionByRange(4, "number").drop("number")
    spread, expected = (tamis.MatrixFactorization(2, random_state=0) for _ in range(2))
    assert np.array_equal(spread.fit(frame).user_factors_, expected.fit(ratings).user_factors_)
    assert spread.users_.tolist() == expected.users_.tolist()


def test_a_mixture_takes_the_steps_of_one_process(frame: Any) -> None:
    spread = tamis.fit(tamis.Mixture(2, random_state=0), frame, columns=["a", "b", "c"])
    expected = tamis.Mixture(2, random_state=0).fit(NUMBERS)
    assert spread.n_iter_ == expected.n_iter_
    order = np.argsort(spread.means_[:, 0])
    np.testing.assert_allclose(
        spread.means_[order], expected.means_[np.argsort(expected.means_[:, 0])], rtol=1e-6
    )
    assert spread.score(NUMBERS) == pytest.approx(expected.score(NUMBERS), rel=1e-6)


def test_a_task_that_dies_and_one_that_fails_are_tried_again_and_counted_once(
    frame: Any, tmp_path: Path
) -> None:
    shards = open_shards(frame, Request(columns=["a", "b", "c"])).map(_read_numbers).keep()
    assert shards.total(partial(_fail_once, tmp_path)) == Moments.observe(NUMBERS)
    tried = [path.name for path in tmp_path.iterdir()]
    assert {"0 ended", "1 ended"} <= set(tried), tried
    for partition, what in (("0-", "dead"), ("1-", "failed")):
        attempts = [name for name in tried if name.startswith(partition)]
        assert len(attempts) > 1, f"the {what} task was not tried again"


def test_a_slow_task_is_run_twice_and_counted_once(frame: Any, tmp_path: Path) -> None:
    shards = open_shards(frame, Request(columns=["a", "b", "c"])).map(_read_numbers).keep()
    shards.total(Moments.observe)  # so that only the slow task is slow
    assert shards.total(partial(_sleep_once, tmp_path)) == Moments.observe(NUMBERS)
    assert (tmp_path / "1-1").exists(), "Spark did not speculate"


def test_kept_shards_are_files_that_go_with_the_fit(session: Any, frame: Any) -> None:
    shards: Any = open_shards(frame, Request(columns=["a", "b", "c"])).map(_read_numbers).keep()
    assert shards.total(Moments.observe) == Moments.observe(NUMBERS)
    # A second attempt at a slow task, which Spark ends as soon as the first is done, may still write.
    _wait_until_idle(session)
    folders = [Path(folder) for folder in shards.source.folders]
    files = {path.name for folder in folders for path in folder.iterdir() if path.name.isdigit()}
    assert files == {str(shard) for shard in range(shards.source.count)}
    del shards
    gc.collect()
    assert not any(folder.exists() for folder in folders)


def test_shards_whose_files_are_lost_are_made_again(frame: Any) -> None:
    shards: Any = open_shards(frame, Request(columns=["a", "b", "c"])).map(_read_numbers).keep()
    shards.total(Moments.observe)
    for folder in shards.source.folders:
        spark_files.remove_kept(Path(folder))
    for _ in range(2):
        assert shards.total(Moments.observe) == Moments.observe(NUMBERS)


def test_kept_shards_can_be_changed_and_kept_again(frame: Any, tmp_path: Path) -> None:
    shards: Any = open_shards(frame, Request(columns=["a", "b", "c"])).map(_read_numbers).keep()
    for is_lost in (False, True):
        doubled = shards.map(partial(_double, tmp_path)).keep()
        shards.total(Moments.observe)
        for folder in shards.source.folders if is_lost else ():
            spark_files.remove_kept(Path(folder))
        for _ in range(2):
            assert doubled.total(Moments.observe) == Moments.observe(2.0 * NUMBERS)
        made = len(list(tmp_path.iterdir()))
        assert doubled.total(Moments.observe) == Moments.observe(2.0 * NUMBERS)
        assert len(list(tmp_path.iterdir())) == made > 0, "the change was made again"


def test_a_full_disk_leaves_the_shards_to_spark(frame: Any, tmp_path: Path) -> None:
    read = open_shards(frame, Request(columns=["a", "b", "c"])).map(_read_numbers)
    shards = read.map(partial(_fill_disk, tmp_path)).keep()
    for _ in range(2):
        assert shards.total(Moments.observe) == Moments.observe(NUMBERS)
    assert (tmp_path / "full").exists(), "no file was written"


def test_pieces_that_were_written_before_the_disk_was_full_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    writer = spark_files.KeptWriter("kept", 0)
    writer.write([b"pickle", b"numbers" * 100])
    writer.write([b"other"])
    assert [[bytes(part) for part in piece] for piece in writer.abandon()] == [
        [b"pickle", b"numbers" * 100],
        [b"other"],
    ]
    assert list((tmp_path / "python" / "kept").iterdir()) == []


def test_more_partitions_than_one_process_adds_are_added_in_a_tree(session: Any) -> None:
    frame = session.range(0, 4000, 1, 40).selectExpr("cast(id as double) as x")
    shards = open_shards(frame, Request()).keep()
    for _ in range(2):  # the number of partitions is known the second time
        assert shards.total(_sum_rows) == Moments.observe(np.arange(4000.0)[:, None])


def test_files_are_read_by_the_tasks_of_a_session(session: Any, tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(
            pa.Table.from_pandas(ROWS[number::3], preserve_index=False), tmp_path / f"{number}.parquet"
        )
    columns = ["a", "b", "c"]
    spread = tamis.fit(tamis.GaussianNB(), str(tmp_path), "label", columns=columns, engine=session)
    assert spread.statistic_ == tamis.GaussianNB().fit(ROWS[columns], LABELS).statistic_


def test_a_pipeline_of_spark_takes_a_face(session: Any, frame: Any, tmp_path: Path) -> None:
    ml, feature = import_module("pyspark.ml"), import_module("pyspark.ml.feature")
    stages = import_module("tamis.engines.spark_ml")
    assembler = feature.VectorAssembler(inputCols=["a", "b", "c"], outputCol="features")
    estimator = stages.FaceEstimator(tamis.GaussianNB()).setLabelCol("label").setPredictionCol("guess")
    model = ml.Pipeline(stages=[assembler, estimator]).fit(frame)
    expected = tamis.GaussianNB().fit(NUMBERS, LABELS)
    assert model.stages[-1].face.statistic_ == expected.statistic_
    model.save(str(tmp_path / "model"))
    for fitted in (model, ml.PipelineModel.load(str(tmp_path / "model"))):
        answers = fitted.transform(frame).select("guess", "probability", "a", "b", "c").collect()
        rows = np.array([[answer["a"], answer["b"], answer["c"]] for answer in answers])
        assert [answer["guess"] for answer in answers] == expected.predict(rows).tolist()
        probabilities = np.array([answer["probability"].toArray() for answer in answers])
        np.testing.assert_allclose(probabilities, expected.predict_proba(rows), rtol=1e-12)


def test_vectors_may_be_sparse_and_arrays_are_vectors(session: Any) -> None:
    linalg = import_module("pyspark.ml.linalg")
    rows = [
        (linalg.Vectors.sparse(3, [1], [2.0]), [0.0, 2.0, 0.0], "a"),
        (linalg.Vectors.dense(1.0, 0.0, 3.0), [1.0, 0.0, 3.0], "b"),
        (linalg.Vectors.sparse(3, [0, 2], [4.0, 1.0]), [4.0, 0.0, 1.0], "b"),
    ]
    frame = session.createDataFrame(rows, ["vector", "array", "label"]).coalesce(1)
    expected = tamis.MultinomialNB().fit([row[1] for row in rows], ["a", "b", "b"])
    for column in ("vector", "array"):
        spread = tamis.fit(tamis.MultinomialNB(), frame, "label", columns=[column])
        assert spread.statistic_ == expected.statistic_
    with pytest.raises(
        ValueError, match="got the column of vectors 'vector' beside 'array', expected it alone"
    ):
        tamis.fit(tamis.MultinomialNB(), frame, "label")


def test_bad_input_gets_one_line_and_nothing_is_learned(session: Any, frame: Any) -> None:
    model = tamis.GaussianNB().fit(NUMBERS, LABELS)
    before = model.statistic_
    ragged = session.createDataFrame([([1.0, 2.0], "a"), ([1.0], "b")], ["x", "label"]).coalesce(1)
    cases: list[tuple[Any, Any, str]] = [
        (
            frame,
            "verdict",
            r"^got y='verdict', expected a column of the data: it has a, b, c, k, l, m, word, label",
        ),
        (ragged, "label", r"column 'x' has vectors of 2 and of 1 numbers, expected one length"),
        (frame.where("a < -1e9").select("a", "label"), "label", r"^got no rows, expected at least one"),
        (frame.select("word", "label"), "label", r"word"),
    ]
    for data, label, message in cases:
        with pytest.raises((TypeError, ValueError), match=message) as raised:
            model.fit(data, label)
        assert "\n" not in str(raised.value)
        assert model.statistic_ is before


def test_columns_without_any_value_are_told_in_one_line_or_learned_as_missing(session: Any) -> None:
    rows = pa.table(
        {"x": pa.array([1.0, 2.0, 5.0]), "y": pa.nulls(3, pa.float64()), "label": ["a", "b", "b"]}
    )
    spread = tamis.GaussianNB().fit(session.createDataFrame(rows), "label")
    local = tamis.GaussianNB().fit(rows.select(["x", "y"]), rows["label"].to_pylist())
    assert spread.statistic_ == local.statistic_


def make_odd_rows() -> pa.Table:
    """Values that sums round or lose, in columns whose names need quotes; one class is in one partition."""
    rng = np.random.default_rng(5)
    values = {
        "mean.1e8": 1e8 + rng.normal(size=40),
        "a`b": np.where(np.arange(40) == 7, 1e9, rng.normal(size=40)),
        "tiny": rng.normal(size=40) * 1e-300,
        "zeros": np.where(np.arange(40) % 2, 0.0, -0.0),
        "NaN": np.where(np.arange(40) % 3, rng.normal(size=40), np.nan),
    }
    columns = {name: pa.array(column) for name, column in values.items()}
    columns["null"] = pa.array([None if k % 4 == 1 else k / 3 for k in range(40)])
    columns["empty"] = pa.nulls(40, pa.float64())
    columns |= {f"n{k}": pa.array([None if j == k else 2**52 + j for j in range(40)]) for k in range(4)}
    columns |= {f"f{k}": pa.array(rng.normal(size=40).astype(np.float32)) for k in range(4)}
    columns |= {f"i{k}": pa.array(rng.integers(-9, 9, 40), pa.int16()) for k in range(5)}
    weights = pa.array(rng.integers(1, 5, 40) / 4.0)
    return pa.table(columns | {"weight": weights, "label": pa.array([k // 30 + k % 2 for k in range(40)])})


def test_odd_values_of_many_columns_are_those_of_one_process_to_the_bit(session: Any) -> None:
    rows = make_odd_rows()
    numbered = session.createDataFrame(rows.append_column("number", pa.array(range(40))))
    partitions = numbered.repartitionByRange(4, "number")
    frame = partitions.union(numbered.where("number < 0")).drop("number")
    plain = rows.drop_columns(["weight", "label"])
    for face in (tamis.GaussianNB(), tamis.NaiveBayes()):
        for weight in (None, "weight"):
            columns = plain.column_names
            spread = tamis.fit(face, frame, "label", weight, columns=columns)
            weights = None if weight is None else rows[weight].to_numpy()
            expected = type(face)().fit(plain, rows["label"].to_numpy(), sample_weight=weights)
            assert spread.statistic_ == expected.statistic_
            assert spread.feature_names_in_.tolist() == columns
    infinite = frame.withColumn("tiny", frame["tiny"] * float("inf"))
    with pytest.raises(
        ValueError, match=r"column 'tiny' holds -?inf in row \d+, expected finite numbers"
    ) as raised:
        tamis.fit(tamis.GaussianNB(), infinite, "label")
    assert "\n" not in str(raised.value)


def test_an_error_in_the_code_of_a_task_is_one_line(session: Any) -> None:
    shards = open_shards(session.range(3), Request())
    with pytest.raises(
        RuntimeError, match=r"^Spark did not finish the work, nothing was learned: KeyError: 'x'$"
    ):
        shards.total(_raise_key_error)


def test_the_how_to_is_true(session: Any) -> None:
    page = Path(__file__).parents[2] / "docs/howto/spark.md"
    document = Sybil(parsers=[PythonCodeBlockParser()]).parse(page)
    examples = list(document.examples())
    for example in examples:
        example.evaluate()
    assert len(examples) == 22


def test_columns_of_numbers_are_learned_in_one_job(session: Any, frame: Any) -> None:
    context = session.sparkContext
    frame.count()  # it is cached
    for columns, jobs in ((["a", "b", "c"], 1), (["k", "l", "word"], 2)):
        context.setJobGroup(f"one pass {jobs}", "")
        spread = tamis.fit(tamis.NaiveBayes(), frame, "label", columns=columns)
        context.setJobGroup("other", "")
        assert spread.statistic_ == tamis.NaiveBayes().fit(ROWS[columns], LABELS).statistic_
        # The kinds of words are found in the first rows, which take a job of their own, or two.
        found = len(context.statusTracker().getJobIdsForGroup(f"one pass {jobs}"))
        assert found == 1 if jobs == 1 else found >= jobs


def test_packages_are_not_searched_for_garbage_between_tasks(session: Any) -> None:
    shards = open_shards(session.range(4).repartition(2), Request()).map(_count_frozen).keep()
    assert shards.total(Moments.observe).mean.min() > 1000
    assert shards.total(Moments.observe).mean.min() > 1000


def _count_frozen(batch: Batch) -> Any:
    return np.full((batch.rows, 1), float(gc.get_freeze_count())) if batch.rows else None


def _wait_until_idle(session: Any) -> None:
    """Wait until no executor runs a task."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    end = time.monotonic() + 60
    while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        assert time.monotonic() < end, "tasks run for ever"
        time.sleep(0.05)


def _read_numbers(batch: Batch) -> Any:
    return np.column_stack([column.to_numpy() for column in batch.X.columns])


def _double(folder: Path, rows: Any) -> Any:
    (folder / str(time.monotonic_ns())).touch()
    return 2.0 * rows


def _sum_rows(batch: Batch) -> Moments:
    return Moments.observe(_read_numbers(batch))


def _mark_attempt(folder: Path) -> tuple[int, int]:
    context = import_module("pyspark").TaskContext.get()
    partition, attempt = context.partitionId(), context.attemptNumber()
    (folder / f"{partition}-{attempt}").touch()
    return partition, attempt


def _fail_once(folder: Path, rows: Any) -> Moments:
    partition, _ = _mark_attempt(folder)
    ended = folder / f"{partition} ended"  # not by the number of the attempt: Spark may start two at once
    if partition < 2 and not ended.exists():
        ended.touch()
        if partition == 0:
            os._exit(3)  # the process of the task is gone, as if its machine were
        raise OSError("the disk was full for a moment")
    return Moments.observe(rows)


def _sleep_once(folder: Path, rows: Any) -> Moments:
    partition, attempt = _mark_attempt(folder)
    if attempt == 0 and partition == 1:  # one of two, since a core reads all that it keeps in one task
        time.sleep(60)
    return Moments.observe(rows)


def _fill_disk(folder: Path, rows: Any) -> Any:
    """In the process of a task, let the next file that it writes find no space."""
    module = import_module("tamis.engines.spark_files")
    write = module.KeptWriter.write

    def fail(writer: Any, parts: list[Any]) -> None:
        module.KeptWriter.write = write
        (folder / "full").touch()
        raise OSError("no space left on device")

    module.KeptWriter.write = fail
    return rows


def _raise_key_error(batch: Batch) -> Moments:
    raise KeyError("x")
