"""Statistics travel between processes as bytes that hold no code, and arrive as they were."""

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import tamis
from tamis.engines import Batch, Loaded, LocalShards
from tamis.engines.messages import decode, encode
from tamis.protocols import Statistic
from tamis.stats import Gram, Joint, Moments, Tally
from tamis.testing.components import COMPONENTS
from tamis.testing.faces import FACES
from tamis.testing.learning import LearningCase
from tamis.testing.regressions import REGRESSIONS

S = TypeVar("S", bound=Statistic)
CASES: tuple[LearningCase, ...] = (*FACES, *COMPONENTS, *REGRESSIONS)


class RemoteShards(LocalShards[Any]):
    """Shards whose statistics arrive as bytes, as from other processes; functions go there as a pickle."""

    def total(self, observe: Callable[[Any], S | None], /) -> S:
        sent = pickle.dumps(observe)

        def observe_there(shard: Any) -> S | None:
            part = pickle.loads(sent)(shard)
            returned: S | None = None if part is None else decode(encode(part))
            return returned

        return super().total(observe_there)

    def map(self, change: Callable[[Any], Any], /) -> "RemoteShards":
        changed = super().map(change)
        return RemoteShards(changed.pieces, changed.count)

    def keep(self) -> "RemoteShards":
        return self


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{type(case).__name__} {case.name}")
def test_a_face_whose_statistics_travelled_is_the_same(case: LearningCase) -> None:
    data = case.sample(np.random.default_rng(3))
    parts = [data.take(np.arange(start, len(data), 3)) for start in range(3)]
    batches = [Batch(part.rows, part.targets, part.weights, number=k) for k, part in enumerate(parts)]
    pieces = [Loaded(f"shard {batch.number}", batch) for batch in batches]
    expected = case.make().fit(*data.arguments, sample_weight=data.weights)
    case.assert_alike(expected, case.make().learn_shards(RemoteShards(pieces, 3), True), data.rows)


@pytest.mark.parametrize(
    "face",
    [tamis.GaussianNB(), tamis.LogisticRegression(), tamis.Mixture(2, random_state=0), tamis.PCA(2)],
    ids=lambda face: type(face).__name__,
)
def test_faces_learn_from_large_arrow_tables_as_from_rows(face: Any) -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 12_000)
    rows = rng.normal(size=(12_000, 12)) + labels[:, None]  # columns of so many values are not copied
    frame = pa.table({f"x{j}": pa.array(rows[:, j]) for j in range(12)})
    y = None if isinstance(face, tamis.Mixture | tamis.PCA) else labels
    halves = slice(0, 6000), slice(6000, 12_000)
    batches = [
        Batch(frame.slice(half.start, 6000), None if y is None else y[half], number=k)
        for k, half in enumerate(halves)
    ]
    pieces = [Loaded(f"shard {batch.number}", batch) for batch in batches]
    learned = clone(face).learn_shards(RemoteShards(pieces, 2), True)
    expected = clone(face).fit(frame, y)
    for name in ("theta_", "coef_", "means_", "components_"):
        if hasattr(expected, name):
            np.testing.assert_allclose(getattr(learned, name), getattr(expected, name), rtol=1e-6, atol=1e-9)


def test_statistics_arrive_to_the_bit() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3)) * [1e-140, 1.0, 1e140]
    for statistic in (
        Tally.count(["a", "b", "a"]),
        Moments.observe(rows),
        Gram.observe(rows[:, 1:2], rows[:, 1]),
        Joint({"x": Moments.observe(rows[:, 1])}, log_likelihood=-0.1),
    ):
        assert decode(encode(statistic)) == statistic
    assert decode(encode(Joint({"x": Moments.observe(rows[:, 1])}, -0.1))).log_likelihood == -0.1
    np.testing.assert_array_equal(decode(encode(rows)), rows)


def test_bytes_are_a_table_of_arrow() -> None:
    with pa.ipc.open_stream(encode(Moments.observe([1.0, 2.0]))) as reader:
        assert reader.read_all().column_names == ["name", "type", "shape", "data"]


def test_bytes_that_hold_no_statistic_are_refused() -> None:
    whole = encode(tamis.GaussianNB().fit([[1.0], [2.0]], [0, 1]))
    for content in (b"", b"\x80\x04]\x94.", whole[:40], pickle.dumps(Moments.observe([1.0]))):
        with pytest.raises(ValueError, match="got bytes that hold no statistic"):
            decode(content)


@pytest.mark.parametrize("name", ["os.system", "tamis.engines.messages.decode", "tamis.nothing.Tally"])
def test_bytes_name_no_code_but_the_records_of_tamis(name: str) -> None:
    module, _, member = name.rpartition(".")
    original = encode(Tally.count(["a"]))
    with pa.ipc.open_stream(original) as reader:
        table = reader.read_all()
    tree = f'{{"record": ["{module}", "{member}", {{}}]}}'.encode()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata({b"tamis": tree})) as writer:
        writer.write_table(table)
    with pytest.raises(ValueError, match="expected a statistic of this tamis"):
        decode(sink.getvalue().to_pybytes())
