"""What was learned is a sum: in any order, in any parts, taken back as it was given."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from tamis.estimators import CategoricalNB, GaussianNB, MultinomialNB, NaiveBayes
from tests.estimators.faces import FACES, PLAIN, Face, named, numbers, same

each_face = pytest.mark.parametrize("face", FACES, ids=named)
each_plain_face = pytest.mark.parametrize("face", PLAIN, ids=named)
some = settings(max_examples=8, deadline=None)

seeds = st.integers(0, 2**16)


@st.composite
def shardings(draw: st.DrawFn, n: int = 30) -> list[np.ndarray[Any, Any]]:
    """n rows in any order, cut anywhere: many batches are of one row, and wait."""
    order = draw(st.permutations(range(n)))
    cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=n - 1)))
    return [part for part in np.split(np.array(order), cuts) if len(part)]


def learn(model: Any, rows: Any, labels: Any, parts: list[Any], looks: list[bool] | None = None) -> Any:
    for number, part in enumerate(parts):
        model.partial_fit(rows[part], labels[part])
        if looks is not None and looks[number % len(looks)]:
            assert model.statistic_ is not None  # what waits is summed now
    return model


@each_face
@given(seed=seeds, parts=shardings(), looks=st.lists(st.booleans(), min_size=1, max_size=5))
@some
def test_batches_of_any_size_in_any_order_are_one_fit(
    face: Face, seed: int, parts: list[Any], looks: list[bool]
) -> None:
    rows, labels = face.rows(30, seed=seed)
    assert same(learn(face.make(), rows, labels, parts, looks), face.make().fit(rows, labels), rows)


@each_face
@given(seed=seeds, parts=shardings())
@some
def test_parts_learned_apart_and_merged_are_one_fit(face: Face, seed: int, parts: list[Any]) -> None:
    rows, labels = face.rows(30, seed=seed)
    first, *others = [face.make().partial_fit(rows[part], labels[part]) for part in parts]
    assert same(first.merge(*others), face.make().fit(rows, labels), rows)


@each_face
@given(seed=seeds, parts=shardings(), left=st.integers(1, 29))
@some
def test_what_was_unlearned_never_was(face: Face, seed: int, parts: list[Any], left: int) -> None:
    rows, labels = face.rows(30, seed=seed)
    kept, gone = np.arange(left), np.arange(left, 30)
    model = face.make().fit(rows[kept], labels[kept])
    learn(model, rows, labels, [part[part >= left] for part in parts if (part >= left).any()])
    for part in parts:
        if (part >= left).any():
            model.unlearn(rows[part[part >= left]], labels[part[part >= left]])
    assert same(model, face.make().fit(rows[kept], labels[kept]), rows)
    back = face.make().fit(rows, labels).unlearn(rows[gone], labels[gone])
    assert back.statistic_ == model.statistic_


@each_face
@given(seed=seeds, weights=st.lists(st.integers(0, 3), min_size=30, max_size=30).filter(any))
@some
def test_a_weight_is_a_row_that_often(face: Face, seed: int, weights: list[int]) -> None:
    rows, labels = face.rows(30, seed=seed)
    times = np.array(weights)
    weighted = face.make().fit(rows, labels, sample_weight=times.astype(np.float64))
    repeated = face.make().fit(rows.repeat(times, axis=0), labels.repeat(times))
    assert same(weighted, repeated, rows)


@each_face
def test_weighted_rows_are_unlearned_with_their_weights(face: Face) -> None:
    rows, labels = face.rows(40)
    weights = np.random.default_rng(0).random(40) * 7
    model = face.make().fit(rows[:20], labels[:20], sample_weight=weights[:20])
    before = model.statistic_
    model.partial_fit(rows[20:], labels[20:], sample_weight=weights[20:])
    assert model.unlearn(rows[20:], labels[20:], sample_weight=weights[20:]).statistic_ == before


@each_face
def test_decay_is_a_weight_on_the_past(face: Face) -> None:
    rows, labels = face.rows(40)
    faded = face.make().fit(rows[:30], labels[:30]).decay(0.25).partial_fit(rows[30:], labels[30:])
    weights = np.where(np.arange(40) < 30, 0.25, 1.0)
    assert same(faded, face.make().fit(rows, labels, sample_weight=weights), rows)


@each_face
def test_decay_by_one_changes_nothing(face: Face) -> None:
    rows, labels = face.rows()
    assert same(face.make().fit(rows, labels).decay(1.0), face.make().fit(rows, labels), rows)


def test_inferring_anew_is_fitting_with_those_parameters() -> None:
    rows, labels = PLAIN[0].rows()
    for estimate in ("mle", "map", "mean", "predictive"):
        model = NaiveBayes().fit(rows, labels).decay(0.5).infer(estimate=estimate, strength=3.0)
        assert same(
            model,
            NaiveBayes(estimate=estimate, strength=3.0).fit(rows, labels, np.full(len(rows), 0.5)),
            rows,
        )
    counts, labels = PLAIN[1].rows()
    inferred = MultinomialNB().fit(counts, labels).infer(alpha=0.1)
    assert same(inferred, MultinomialNB(alpha=0.1).fit(counts, labels), counts)


@each_face
def test_labels_may_appear_later(face: Face) -> None:
    rows, labels = face.rows(60, classes=6)
    model = face.make()
    for label in (4, 0, 5, 2, 1, 3):
        for row in np.flatnonzero(labels == label):
            model.partial_fit(rows[[row]], labels[[row]])
        assert label in model.classes_
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert same(model, face.make().fit(rows, labels), rows)


@each_face
def test_a_class_whose_rows_are_all_unlearned_is_gone(face: Face) -> None:
    rows, labels = face.rows()
    here = labels == 1
    model = face.make().fit(rows, labels).unlearn(rows[here], labels[here])
    assert model.classes_.tolist() == [0, 2]
    assert same(model, face.make().fit(rows[~here], labels[~here]), rows)


def test_a_class_that_was_declared_needs_no_rows_to_unlearn_others() -> None:
    model = GaussianNB(priors=[0.2, 0.3, 0.5])
    model.partial_fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], classes=[0, 1, 2])
    assert model.unlearn([[0.0]], [0]).class_count_.tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("model", [NaiveBayes({0: "categorical"}), NaiveBayes()], ids=["named", "inferred"])
def test_a_column_may_be_missing_from_the_first_batch(model: NaiveBayes) -> None:
    rows = np.array([[None], ["x"], ["y"]], dtype=object)
    in_parts = clone(model).partial_fit(rows[:1], [0]).partial_fit(rows[1:], [0, 1])
    assert same(in_parts, clone(model).fit(rows, [0, 0, 1]), rows)


def test_categories_may_appear_later() -> None:
    rows = np.array([["a", "x"], ["b", "x"], ["c", "y"], ["d", "x"], ["a", "z"]], dtype=object)
    labels = np.array(["no", "yes", "no", "yes", "no"])
    for make in (CategoricalNB, NaiveBayes):
        model = make().partial_fit(rows[:1], labels[:1])
        for row in range(1, 5):
            model.partial_fit(rows[row : row + 1], labels[row : row + 1])
        assert same(model, make().fit(rows, labels), rows)
    codes = np.array([[0], [7], [3], [7]])
    later = CategoricalNB().partial_fit(codes[:1], [0])
    for code, label in zip(codes[1:], [1, 0, 1], strict=True):
        later.partial_fit(code[None], [label])
    assert same(later, CategoricalNB().fit(codes, [0, 1, 0, 1]), codes)
    assert later.n_categories_.tolist() == [8]


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_columns_of_a_frame_are_found_by_name(library: Any) -> None:
    rows, labels = PLAIN[0].rows()
    names = ["a", "b", "c", "d"]
    frame = library.DataFrame(dict(zip(names, rows.T, strict=True)))
    shuffled = frame[["c", "a", "d", "b"]]
    for make in (GaussianNB, NaiveBayes):
        model = make().fit(frame, labels)
        assert np.array_equal(model.predict_joint_log_proba(frame), model.predict_joint_log_proba(shuffled))
        twice = make().fit(frame, labels).partial_fit(shuffled, labels)
        assert same(twice, make().fit(frame, labels, sample_weight=np.full(len(rows), 2.0)), frame)
        assert same(twice.unlearn(shuffled, labels), model, frame)


@each_face
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_learns_alone(face: Face, copied: Any) -> None:
    rows, labels = face.rows(60)
    model = learn(face.make(), rows, labels, [np.arange(20), *np.arange(20, 30)[:, None]])  # some rows wait
    other = copied(model)
    learn(other, rows, labels, list(np.arange(30, 60)[:, None]))
    assert same(model, face.make().fit(rows[:30], labels[:30]), rows)
    assert same(other, face.make().fit(rows, labels), rows)


@each_plain_face
def test_rows_that_wait_are_pickled_too(face: Face) -> None:
    rows, labels = face.rows(50)
    model = learn(face.make(), rows, labels, [np.arange(20), *np.arange(20, 50)[:, None]])
    back = pickle.loads(pickle.dumps(model))
    assert same(back, face.make().fit(rows, labels), rows)
    assert same(model, back, rows)


@each_plain_face
def test_more_rows_than_may_wait_are_summed(face: Face) -> None:
    rows, labels = face.rows(1200)
    model = learn(face.make(), rows, labels, list(np.arange(1200)[:, None]))
    assert same(model, face.make().fit(rows, labels), rows)


def test_a_waiting_row_is_not_changed_by_its_owner() -> None:
    rows, labels = PLAIN[0].rows(20)
    model = GaussianNB().fit(rows[:10], labels[:10])
    buffer = np.empty((1, rows.shape[1]))
    names = np.empty(1, dtype=np.int64)
    for row, label in zip(rows[10:], labels[10:], strict=True):
        buffer[0], names[0] = row, label
        model.partial_fit(buffer, names)
    assert same(model, GaussianNB().fit(rows, labels), rows)


@each_plain_face
def test_threads_that_read_while_rows_wait_all_see_the_same(face: Face) -> None:
    rows, labels = face.rows(60)
    whole = face.make().fit(rows, labels)
    for _ in range(10):
        model = learn(face.make(), rows, labels, [np.arange(20), *np.arange(20, 60)[:, None]])
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _, model=model: model.predict_joint_log_proba(rows), range(16)))
        assert all(np.array_equal(one, found[0]) for one in found)
        assert same(model, whole, rows)


@given(seed=seeds, shift=st.sampled_from([0.0, 1e4, 1e8]))
@some
def test_learning_and_unlearning_a_thousand_rows_leaves_no_trace(seed: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    rows, labels = numbers(rng, 1000) + shift, rng.integers(0, 2, 1000)
    start = GaussianNB().fit(rows[:10], [0, 1] * 5)
    model = copy.deepcopy(start).partial_fit(rows, labels).unlearn(rows, labels)
    assert same(model, start, rows)
    assert_allclose(model.var_, start.var_, rtol=0)
