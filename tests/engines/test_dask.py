"""Dask: faces that are fitted to its collections on a real cluster are those of all rows, whatever dies."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tamis
from tamis.engines import Batch, Batches
from tamis.testing.components import COMPONENTS
from tamis.testing.faces import FACES
from tamis.testing.learning import LearningCase, an_engine_leaves_no_trace
from tamis.testing.regressions import REGRESSIONS
from tests.engines.iterative_cases import ITERATIVE, IterativeCase

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'tamis[dask]'")
distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
array = pytest.importorskip("dask.array")
bag = pytest.importorskip("dask.bag")
dataframe = pytest.importorskip("dask.dataframe")

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Dask's own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

# One of each kind that observes: the cases that are left out differ only in what they infer.
CASES: tuple[LearningCase, ...] = (*FACES, COMPONENTS[0], COMPONENTS[-1], REGRESSIONS[0], REGRESSIONS[-1])
_STEPS = ("logistic", "mixture, full", "naive Bayes, some labels", "poisson", "gaussian, log", "recommender")
STEPS = [case for case in ITERATIVE if case.name in _STEPS]
X = np.random.default_rng(0).normal(size=(90, 3))
Y = np.repeat(["a", "b", "c"], 30)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    settings = {"distributed.worker.daemon": True, "distributed.admin.log-length": 0}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def distribute(batches: list[Batch]) -> Any:
    """Batches that tasks of Dask make."""
    return Batches([dask.delayed(batch) for batch in batches])


def test_an_engine_that_is_no_client_is_refused() -> None:
    rows, labels = array.from_array(X, chunks=(30, 3)), array.from_array(Y, chunks=30)
    message = "^got engine='threads' for data of Dask, expected None or a Client of Dask$"
    with pytest.raises(TypeError, match=message):
        tamis.fit(tamis.GaussianNB(), rows, labels, engine="threads")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{type(case).__name__} {case.name}")
def test_partitions_are_all_rows_at_once(cluster: Any, case: LearningCase) -> None:
    an_engine_leaves_no_trace(case, np.random.default_rng(0), distribute)


@pytest.mark.parametrize("case", STEPS, ids=lambda case: case.name)
def test_steps_over_partitions_are_steps_over_all_rows(cluster: Any, case: IterativeCase) -> None:
    case.assert_alike(case.fit(), case.make().fit(distribute(case.deal())))


def make_frame() -> pd.DataFrame:
    weights = np.arange(1.0, 91.0)
    return pd.DataFrame({**{name: X[:, j] for j, name in enumerate("uvw")}, "label": Y, "weight": weights})


def test_arrays_frames_and_bags_are_taken(cluster: Any) -> None:
    frame = make_frame()
    expected = tamis.GaussianNB().fit(X, Y, sample_weight=frame["weight"]).statistic_
    rows, labels = array.from_array(X, chunks=(40, 2)), array.from_array(Y, chunks=25)
    weights = array.from_array(frame["weight"].to_numpy(), chunks=90)
    partitions = dataframe.from_pandas(frame, npartitions=3)
    items = bag.from_sequence(frame.to_dict("records"), npartitions=3)
    fits = (
        tamis.GaussianNB().fit(rows, labels, sample_weight=weights),
        tamis.GaussianNB().fit(partitions, "label", sample_weight="weight"),
        tamis.GaussianNB().fit(
            partitions[["u", "v", "w"]], partitions["label"], sample_weight=partitions["weight"]
        ),
        tamis.GaussianNB().fit(items, "label", sample_weight="weight"),
        tamis.fit(tamis.GaussianNB(), partitions, "label", "weight", columns=["u", "v", "w"]),
    )
    assert all(model.statistic_ == expected for model in fits)


def test_workers_read_files(cluster: Any, tmp_path: Path) -> None:
    frame = make_frame()
    frame[:50].to_parquet(tmp_path / "1.parquet", row_group_size=20)
    frame[50:].to_parquet(tmp_path / "2.parquet")
    model = tamis.fit(tamis.GaussianNB(), tmp_path, "label", "weight", engine=cluster)
    assert model.statistic_ == tamis.GaussianNB().fit(X, Y, sample_weight=frame["weight"]).statistic_


def test_without_a_cluster_tasks_run_in_this_process() -> None:
    rows, labels = array.from_array(X, chunks=(40, 3)), array.from_array(Y, chunks=40)
    assert tamis.GaussianNB().fit(rows, labels).statistic_ == tamis.GaussianNB().fit(X, Y).statistic_


def kill_once(batch: Batch, mark: str) -> Batch:
    """Kill the worker that runs this, the first time."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return batch
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the worker is dead")


def test_a_worker_that_is_killed_in_the_middle_of_a_fit_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    parts = [Batch(X[k::6], Y[k::6]) for k in range(6)]
    tasks = [dask.delayed(kill_once)(part, str(tmp_path / "killed")) for part in parts[:1]]
    tasks += [dask.delayed(part) for part in parts[1:]]
    model = tamis.GaussianNB().fit(Batches(tasks))
    assert (tmp_path / "killed").exists()
    assert model.statistic_ == tamis.GaussianNB().fit(X, Y).statistic_


def test_a_worker_that_is_killed_between_two_steps_changes_nothing(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = STEPS[1]
    cluster.wait_for_workers(2)
    killed: list[int] = []

    class KillingBar:
        """A progress bar that kills a worker, which keeps shards, after the first step."""

        def __init__(self, *_: Any) -> None:
            pass

        def step(self, score: float | None = None) -> None:
            if not killed:
                killed.extend(list(cluster.run(os.getpid).values())[:1])
                os.kill(killed[0], signal.SIGKILL)

        def close(self) -> None:
            pass

    monkeypatch.setattr("tamis.estimators.base.Bar", KillingBar)
    model = case.make().set_params(verbose=1).fit(distribute(case.deal()))
    assert killed
    case.assert_alike(case.fit(), model)


def test_a_bad_partition_is_named(cluster: Any) -> None:
    with pytest.raises(ValueError, match=r"^batch 1: X has 2 features, but GaussianNB is expecting 3"):
        tamis.GaussianNB().fit(distribute([Batch(X, Y), Batch(X[:, :2], Y)]))


def test_labels_of_another_kind_or_size_are_refused(cluster: Any) -> None:
    rows = array.from_array(X, chunks=(40, 3))
    with pytest.raises(TypeError, match="got y of type ndarray beside rows of Dask, expected an array"):
        tamis.GaussianNB().fit(rows, Y)
    with pytest.raises(ValueError, match="got y of 80 values for 90 rows, expected one per row"):
        tamis.GaussianNB().fit(rows, array.from_array(Y[:80], chunks=40))
    with pytest.raises(ValueError, match="got y='lable', expected a column of the data: it has u, v, w"):
        tamis.GaussianNB().fit(dataframe.from_pandas(make_frame(), npartitions=2), "lable")
