"""Labels: statistics are grouped by value, merging is a union, and what came to nothing is gone."""

import copy
import datetime
import itertools
import pickle
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tamis.stats import Gram, Keys, Moments, Sums, Tally

rng = np.random.default_rng(9)
x = rng.normal(size=(60, 2))
DAY = datetime.date(2026, 1, 31)
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
LABELS: dict[str, list[Any]] = {
    "strings": ["ham", "spam", "unsure"],
    "integers": [-3, 0, 7],
    "bools": [False, True, True],
    "floats": [-0.5, 0.25, 1e300],
    "bytes": [b"a", b"b", b"\x00"],
    "dates": [DAY, DAY.replace(day=1), DAY.replace(year=2000)],
    "datetimes": [NOON, NOON.replace(hour=1), NOON.replace(minute=59)],
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
    "a mixture": ["ham", 3, 2.5],
}
every_type = pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())


@every_type
def test_each_label_holds_what_its_rows_alone_would_give(labels: list[Hashable]) -> None:
    by = [labels[i % 3] for i in range(60)]
    filed = Moments.observe(x, by=by)
    assert set(filed.keys or ()) == set(labels)
    for label in labels:
        alone = np.array([own == label for own in by])
        assert filed.at(label) == Moments.observe(x[alone])
    assert filed.pooled() == Moments.observe(x)


@every_type
def test_merging_is_a_union_in_any_order(labels: list[Hashable]) -> None:
    parts = [
        Moments.observe(x[i : i + 20], by=[label] * 20) for i, label in zip((0, 20, 40), labels, strict=True)
    ]
    whole = Moments.observe(x, by=[label for label in labels for _ in range(20)])
    for order in itertools.permutations(parts):
        assert sum(order) == whole
    assert (whole - parts[2]) + parts[2] == whole


@every_type
def test_a_label_taken_back_entirely_is_gone(labels: list[Hashable]) -> None:
    here, there = Moments.observe(x[:20], by=[labels[0]] * 20), Moments.observe(x[20:], by=[labels[1]] * 40)
    assert here + there - there == here
    assert labels[1] not in ((here + there - there).keys or ())
    nothing = here - here
    assert nothing.keys == Keys(())
    assert nothing + here == here


@pytest.mark.parametrize(
    "wrap", [list, tuple, np.array, pd.Series, pl.Series, pa.array, pa.chunked_array, iter]
)
def test_labels_may_come_in_anything(wrap: Any) -> None:
    words = ["ham", "spam", "ham"] * 20
    given = wrap([words]) if wrap is pa.chunked_array else wrap(words)
    assert Moments.observe(x, by=given) == Moments.observe(x, by=words)


def test_labels_that_python_calls_equal_are_one() -> None:
    ours = Moments.observe(x[:2], by=[1, "a"]) + Moments.observe(x[2:4], by=[True, 0.5])
    theirs = Moments.observe(x[2:4], by=[1.0, 0.5]) + Moments.observe(x[:2], by=[np.int8(1), "a"])
    assert ours == theirs
    assert len(ours.keys or ()) == 3


def test_labels_are_in_their_natural_order() -> None:
    assert Keys.of([3, -1, 2.5])[0].values == (-1, 2.5, 3)
    assert Keys.of(["b", 3, "a", 1.5, (1, 2)])[0].values == (1.5, 3, "a", "b", (1, 2))
    mixed = [NOON, NOON.replace(tzinfo=None), "a"]
    assert Keys.of(mixed)[0] == Keys.of(mixed[::-1])[0]


def test_datetimes_of_numpy_are_those_of_python() -> None:
    labels = np.array(["2026-01-31T12:00:00.000001", "2026-02-01"], dtype="datetime64[ns]")
    assert Keys.of(labels)[0].values == (
        datetime.datetime(2026, 1, 31, 12, 0, 0, 1),  # noqa: DTZ001
        datetime.datetime(2026, 2, 1),  # noqa: DTZ001
    )


def test_datetimes_of_numpy_may_be_missing() -> None:
    labels = np.array(["NaT", "2026-02-01"], dtype="datetime64[ns]")
    keys, codes = Keys.encode(labels)
    assert keys.values == (datetime.datetime(2026, 2, 1),)  # noqa: DTZ001
    assert codes.tolist() == [-1, 0]


@pytest.mark.parametrize("labels", [np.array(["20000-01-01"], "M8[s]"), np.array([3], "m8[M]")])
def test_times_that_python_cannot_store_are_refused(labels: Any) -> None:
    with pytest.raises(ValueError, match="that Python cannot store as times, expected years 1 to 9999"):
        Keys.of(labels)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_labels_at_both_ends_of_an_integer_type_are_themselves(kind: type[np.signedinteger[Any]]) -> None:
    ends = [int(np.iinfo(kind).min), int(np.iinfo(kind).max)]
    keys, codes = Keys.of(np.array(ends * 40_000, dtype=kind))
    assert keys.values == tuple(ends)
    assert codes.tolist() == [0, 1] * 40_000


def test_a_label_without_weight_is_not_there() -> None:
    filed = Moments.observe(x[:3], weights=[1.0, 0.0, 2.0], by=["a", "b", "c"])
    assert tuple(filed.keys or ()) == ("a", "c")
    assert filed == Moments.observe(x[[0, 2]], weights=[1.0, 2.0], by=["a", "c"])
    assert Tally.count(["u", "v"], weights=[0.0, 1.0]).table() == {"v": 1.0}


def test_terms_are_known_by_value_as_well() -> None:
    day = Tally.count(["sun", "rain"], by=["mon", "tue"])
    night = Tally.count(["snow", "sun"], by=["wed", "mon"])
    both = day + night
    assert both.table() == {
        "mon": {"rain": 0.0, "snow": 0.0, "sun": 2.0},
        "tue": {"rain": 1.0, "snow": 0.0, "sun": 0.0},
        "wed": {"rain": 0.0, "snow": 1.0, "sun": 0.0},
    }
    assert both - night == day
    assert both.at("mon") == Tally.count(["sun", "sun"])
    assert both.pooled() == Tally.count(["sun", "rain", "snow", "sun"])


def test_one_class_is_a_class() -> None:
    filed = Gram.observe(x[:, :1], x[:, 1], by=["only"] * 60)
    assert tuple(filed.keys or ()) == ("only",)
    assert filed.at("only") == filed.pooled()


def test_asking_for_a_label_that_is_not_there_says_so() -> None:
    with pytest.raises(KeyError, match=r"'c' was never observed; the labels are Keys\('a', 'b'\)"):
        Moments.observe(x[:2], by=["a", "b"]).at("c")
    with pytest.raises(ValueError, match="this Moments is not grouped by label: observe with by=labels"):
        Moments.observe(x).at("c")
    with pytest.raises(ValueError, match="this Tally is not grouped by label: it is pooled already"):
        Tally.observe(x).pooled()


STATISTICS: Sequence[Sums] = (
    Moments.observe(x),
    Moments.observe(x, by=["a", 1] * 30),
    Gram.observe(x, x[:, 0], by=[b"a", b"b"] * 30),
    Tally.count(["a", "b"] * 30, by=[DAY, NOON.date()] * 30),
)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_copy_is_equal_and_cannot_be_written_to(statistic: Sums) -> None:
    for other in (pickle.loads(pickle.dumps(statistic)), copy.copy(statistic), copy.deepcopy(statistic)):
        assert other == statistic
        assert hash(other) == hash(statistic)
        for part in other.parts().values():
            assert not part.words.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                part.words[0] = 1


def test_a_million_labels_are_filed_at_once() -> None:
    labels = rng.permutation(1_000_000)
    values = rng.normal(size=1_000_000)
    filed = Moments.observe(values, by=labels)
    assert len(filed.keys or ()) == 1_000_000
    assert filed.mean[labels[:1000]].tolist() == values[:1000].tolist()
    assert (filed - filed).keys == Keys(())
