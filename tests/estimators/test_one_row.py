"""Rows that are learned and asked one at a time make the model of all rows at once, to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.stats import Moments, Tally

COLUMNS = 3
NAMES = ("x", "y", "z")
LABELS = st.sampled_from(["a", "b", "c"])
WEIGHTS = st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0, 0.1, 3e-5, 7.0])
HARD = [
    0.0,
    -0.0,
    1.5,
    -2.25,
    0.1,
    1e8,
    1e8 + 1,
    1e8 - 0.5,
    1e9,
    -1e9,
    1e-130,
    1e120,
    3.0,
]  # weighted squares below 1e-290 are rounded
NUMBERS = st.one_of(st.sampled_from([*HARD, np.nan]), st.floats(-1e3, 1e3, width=32))
COUNTS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 40.0])
COUNTS_OR_NOTHING = st.sampled_from([0.0, 1.0, 2.0, 3.0, 40.0, np.nan])
FACES: dict[str, tuple[Any, st.SearchStrategy[float]]] = {
    "GaussianNB": (tamis.GaussianNB, NUMBERS),
    "NaiveBayes": (tamis.NaiveBayes, NUMBERS),
    "map": (lambda: tamis.NaiveBayes(estimate="map"), NUMBERS),
    "predictive": (lambda: tamis.NaiveBayes(estimate="predictive"), NUMBERS),
    "BernoulliNB": (tamis.BernoulliNB, COUNTS_OR_NOTHING),
    "PoissonNB": (tamis.PoissonNB, COUNTS_OR_NOTHING),
    "CategoricalNB": (tamis.CategoricalNB, COUNTS_OR_NOTHING),
    "MultinomialNB": (tamis.MultinomialNB, COUNTS),
    "ComplementNB": (tamis.ComplementNB, COUNTS),
}


def ask(model: Any, rows: list[list[float]]) -> list[Any]:
    """The probabilities of each row, asked one by one."""
    return [model.predict_proba(np.array([row])).tolist() for row in rows]


@st.composite
def streams(draw: st.DrawFn, values: st.SearchStrategy[float]) -> list[tuple[list[float], str, float, str]]:
    """Rows, labels, weights, and how each row is learned."""
    ways = st.sampled_from(["array", "array", "float32", "integers", "forget", "ask"])
    row = st.lists(values, min_size=COLUMNS, max_size=COLUMNS)
    return draw(st.lists(st.tuples(row, LABELS, WEIGHTS, ways), min_size=1, max_size=12))


@pytest.mark.parametrize("name", FACES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_rows_one_by_one_make_the_model_of_all_rows_at_once(name: str, data: st.DataObject) -> None:
    make, values = FACES[name]
    stream = data.draw(streams(values))
    one_by_one, learned = make(), []
    with np.errstate(over="ignore"):
        for row, label, weight, way in stream:
            array = np.array([row])
            if way == "float32" and np.isfinite(array.astype(np.float32)).all():
                array = array.astype(np.float32)
            elif way == "integers" and np.isfinite(array).all() and np.abs(array).max() < 2**53:
                array = np.trunc(array).astype(np.int64)
            weights = None if weight == 1.0 else [weight]
            one_by_one.partial_fit(array, [label], sample_weight=weights)
            learned.append((array[0].astype(np.float64).tolist(), label, weight))
            if way == "forget":
                one_by_one.partial_fit([[7.0, 1.0, 3.0]], ["b"], sample_weight=[0.25])
                one_by_one.predict_proba(array.astype(np.float64))
                one_by_one.unlearn([[7.0, 1.0, 3.0]], ["b"], sample_weight=[0.25])
            elif way == "ask":
                one_by_one.predict_proba(array.astype(np.float64))
    rows = [row for row, _, _ in learned]
    at_once = make().partial_fit(
        np.array(rows), [label for _, label, _ in learned], sample_weight=[w for *_, w in learned]
    )
    assert one_by_one.statistic_ == at_once.statistic_
    assert ask(one_by_one, rows) == ask(at_once, rows) or np.isnan(ask(at_once, rows)).any()


@pytest.mark.parametrize("name", FACES)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_rows_by_name_make_the_model_of_arrays(name: str, data: st.DataObject) -> None:
    make, values = FACES[name]
    stream = data.draw(streams(values))
    by_name = make()
    rows: list[list[float]] = []
    for row, label, weight, _ in stream:
        mapping = {key: value for key, value in zip(NAMES, row, strict=True) if value == value}
        if not rows:
            mapping |= {key: 1.0 for key in NAMES if key not in mapping}  # so that all columns are known
        by_name.learn_one(mapping, label, weight)
        by_name.predict_proba_one(mapping)
        rows.append([mapping.get(key, np.nan) for key in NAMES])
    order = [NAMES.index(key) for key in by_name.feature_names_in_]
    arrays = np.array(rows)[:, order]
    labels, weights = [label for _, label, _, _ in stream], [weight for _, _, weight, _ in stream]
    at_once = make().partial_fit(arrays, labels, sample_weight=weights)
    assert by_name.statistic_ == at_once.statistic_
    for row in rows:
        mapping = {key: value for key, value in zip(NAMES, row, strict=True) if value == value}
        expected = at_once.predict_proba(np.array([row])[:, order])[0].tolist()
        answer = by_name.predict_proba_one(mapping)
        assert list(answer.values()) == expected or np.isnan(expected).any()
        assert list(answer) == at_once.classes_.tolist()


MIXED_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"heat": 21.5, "sky": "sun", "windy": False}, "out"),
    ({"heat": 12.0, "sky": "rain", "windy": True}, "in"),
    ({"heat": 18.0, "sky": "cloud"}, "out"),
    ({"sky": "rain", "windy": False, "day": 3}, "in"),
    ({"heat": 25.0, "windy": False, "day": 6}, "out"),
    ({"heat": None, "sky": "sun", "windy": True}, "in"),
    ({"heat": np.float32(9.5), "sky": "snow", "windy": True, "day": 2}, "stay"),
]


def test_mixed_rows_and_new_columns_make_the_model_of_all_rows_at_once() -> None:
    model = tamis.NaiveBayes()
    for row, label in MIXED_ROWS:
        model.learn_one(row, label)
        model.predict_proba_one(row)
    rows, labels = [row for row, _ in MIXED_ROWS], [label for _, label in MIXED_ROWS]
    at_once = tamis.NaiveBayes().fit(rows, labels)
    assert (
        model.families_
        == at_once.families_
        == {
            "heat": "gaussian",
            "sky": "categorical",
            "windy": "bernoulli",
            "day": "gaussian",
        }
    )
    assert model.statistic_ == at_once.statistic_
    for row in rows:
        assert list(model.predict_proba_one(row).values()) == at_once.predict_proba(row)[0].tolist()
        assert model.predict_one(row) == at_once.predict([row])[0]


@pytest.mark.parametrize("face", [tamis.MultinomialNB, tamis.ComplementNB])
def test_words_that_a_text_lacks_count_zero_and_new_words_are_learned(face: Any) -> None:
    texts = [({"free": 2, "offer": 1}, "spam"), ({"hello": 1}, "ham"), ({"hello": 2, "free": 1}, "ham")]
    model = face()
    for words, label in texts:
        model.learn_one(words, label)
    table = [[2, 1, 0], [0, 0, 1], [1, 0, 2]]
    at_once = face().fit(table, [label for _, label in texts])
    assert model.feature_names_in_.tolist() == ["free", "offer", "hello"]
    assert model.statistic_ == at_once.statistic_
    assert (
        list(model.predict_proba_one({"free": 3, "unheard": 9}).values())
        == at_once.predict_proba([[3, 0, 0]])[0].tolist()
    )


def test_before_the_first_row_there_is_no_class() -> None:
    model = tamis.GaussianNB()
    assert model.predict_one({"x": 1.0}) is None
    assert model.predict_proba_one({"x": 1.0}) == {}


def test_rows_by_name_are_taken_by_every_verb() -> None:
    rows = [{"x": 1.0, "y": 2.0}, {"x": 1.5}, {"x": 4.0, "y": 0.0}, {"x": 4.5, "y": 1.0}]
    model = tamis.GaussianNB().fit(rows, ["a", "a", "b", "b"])
    assert model.predict({"x": 4.1}).tolist() == ["b"]
    assert model.predict([{"x": 4.1, "new": 3.0}, {"x": 1.0}]).tolist() == ["b", "a"]
    more = tamis.GaussianNB().partial_fit(rows[0], "a").partial_fit(rows[1:], ["a", "b", "b"])
    assert more.statistic_ == model.statistic_
    assert more.unlearn([rows[1]], ["a"]).class_count_.tolist() == [1.0, 2.0]


def test_rows_by_name_that_cannot_be_read_are_refused_and_nothing_is_changed() -> None:
    model = tamis.GaussianNB().fit([{"x": 1.0}, {"x": 2.0}], ["a", "b"])
    before = model.statistic_
    with pytest.raises(TypeError, match="holds 'high' in row 0, expected numbers"):
        model.learn_one({"x": "high"}, "a")
    with pytest.raises(TypeError, match="expected a dict from names of columns to values"):
        model.learn_one([1.0], "a")
    with pytest.raises(TypeError, match="expected one value per name"):
        model.predict_one({"x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="weight 0 is -1"):
        model.learn_one({"x": 1.0}, "a", weight=-1.0)
    with pytest.raises(ValueError, match="label 0 is missing"):
        model.learn_one({"x": 1.0}, None)
    with pytest.raises(ValueError, match="holds inf"):
        model.learn_one({"x": np.inf}, "a")
    with pytest.raises(TypeError, match="learned columns without names"):
        tamis.GaussianNB().fit([[1.0], [2.0]], ["a", "b"]).learn_one({"x": 1.0}, "a")
    with pytest.raises(ValueError, match="a column 'y', which GaussianDiscriminant was not fitted with"):
        tamis.GaussianDiscriminant().fit([{"x": 1.0}, {"x": 2.0}], ["a", "b"]).learn_one(
            {"x": 1.0, "y": 2.0}, "a"
        )
    assert model.statistic_ == before


def test_a_mixed_row_is_refused_with_the_message_of_many_rows_and_nothing_is_changed() -> None:
    rows, labels = [row for row, _ in MIXED_ROWS], [label for _, label in MIXED_ROWS]
    model = tamis.NaiveBayes().fit(rows, labels)
    before = model.statistic_
    for bad in ({"heat": np.inf}, {"heat": 1.0, "day": -np.inf}, {"windy": 2}, {"windy": 0.5, "sky": "new"}):
        with pytest.raises(ValueError, match="expected") as of_one:
            model.learn_one(bad, "a")
        with pytest.raises(ValueError, match="expected") as of_many:
            model.partial_fit([bad, rows[0]], ["a", "a"])
        assert str(of_one.value) == str(of_many.value)
    assert model.statistic_ == before


def test_parameters_that_are_set_later_are_used_for_the_next_answer() -> None:
    rows = [[1.0, 3.0], [2.0, 1.0], [4.0, 0.0], [5.0, 2.0]]
    model = tamis.NaiveBayes().partial_fit(np.array(rows), ["a", "a", "b", "b"])
    model.predict_proba([[3.0, 1.0]])
    model.set_params(strength=50.0)
    model.partial_fit(np.array([[2.0, 2.0]]), ["b"])
    fresh = tamis.NaiveBayes(strength=50.0).fit([*rows, [2.0, 2.0]], ["a", "a", "b", "b", "b"])
    assert model.predict_proba([[3.0, 1.0]]).tolist() == fresh.predict_proba([[3.0, 1.0]]).tolist()


ROW = st.lists(NUMBERS, min_size=COLUMNS, max_size=COLUMNS)


@given(
    first=st.lists(ROW, min_size=1, max_size=4),
    row=ROW,
    weight=WEIGHTS,
    label=st.sampled_from([None, "a", "new"]),
)
@settings(deadline=None)
def test_moments_with_a_row_added_are_those_of_all_rows(
    first: list[list[float]], row: list[float], weight: float, label: str | None
) -> None:
    for form in ("diagonal", "none"):
        by = None if label is None else ["a"] * len(first)
        moments = Moments.observe(np.array(first), by=by, form=form, missing=True)
        if label is not None and moments.keys is not None and not len(moments.keys):
            continue  # all values are missing
        part = Moments.observe(np.array([row]), [weight], label and [label], form=form, missing=True)
        assert moments.add_row(np.array(row), label, weight) == moments + part


@given(first=st.lists(st.lists(COUNTS, min_size=2, max_size=2), min_size=1), weight=WEIGHTS)
def test_tallies_with_a_row_added_are_those_of_all_rows(first: list[list[float]], weight: float) -> None:
    row = np.array([3.0, 0.1])
    tally = Tally.observe(np.array(first), by=["a"] * len(first))
    for label in ("a", "b"):
        assert tally.add_row(row, label, weight) == tally + Tally.observe(row[None], [weight], [label])
    plain = Tally.observe(np.array(first))
    assert plain.add_row(row, weight=weight) == plain + Tally.observe(row[None], [weight])
