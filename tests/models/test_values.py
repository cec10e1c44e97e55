"""Values go to a tree of JSON and arrays and come back the same, or are refused by name."""

import functools
import json
import math
import random
from collections import OrderedDict
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tamis.conjugate import Beta, Dirichlet, Gamma, NormalInverseGamma, NormalInverseWishart
from tamis.persistence import archive
from tamis.persistence.values import pack, unpack
from tamis.stats import Exact, Gram, Joint, Keys, Moments, Sums, Tally
from tamis.testing import STATISTICS, StatisticCase
from tamis.testing import statistics as laws

every_text = st.text(st.characters(exclude_categories=()))  # surrogates too
zones = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, microseconds=1)), ZoneInfo("Europe/Paris")])
atoms: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats()
wide: st.SearchStrategy[Any] = (
    st.integers(-(2**200), 2**200) | st.complex_numbers() | every_text | st.binary()
)
scalars = atoms | wide | st.dates() | st.datetimes(timezones=zones) | st.timedeltas() | st.decimals()
with_hash = scalars.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan()))
hashable = st.recursive(with_hash, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
cells = hnp.scalar_dtypes() | hnp.unicode_string_dtypes(max_len=4) | hnp.byte_string_dtypes(max_len=4)
shapes = hnp.array_shapes(min_dims=0, min_side=0, max_side=3)
values = st.recursive(
    scalars | hnp.arrays(cells, shapes),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        hnp.arrays(object, shapes, elements=inner, fill=st.nothing()),
    ),
    max_leaves=8,
)


def through_json(value: object) -> Any:
    """Packed, written, read and unpacked."""
    arrays: archive.Arrays = {}
    tree = json.loads(json.dumps(pack(value, arrays), ensure_ascii=False, allow_nan=False).encode())
    return unpack(tree, arrays)


def assert_same(found: Any, given: Any) -> None:
    """The same type and value; NaN is NaN."""
    assert type(found) is type(given)
    if isinstance(given, list | tuple):
        assert len(found) == len(given)
        for left, right in zip(found, given, strict=True):
            assert_same(left, right)
    elif isinstance(given, dict):
        assert_same(list(found.items()), list(given.items()))
    elif isinstance(given, np.ndarray):
        assert found.dtype == given.dtype.newbyteorder("=")
        assert found.shape == given.shape
        assert not found.flags.writeable
        if given.dtype == object:
            assert_same(list(found.flat), list(given.flat))
        else:
            assert found.tobytes() == given.astype(found.dtype).tobytes()
    elif isinstance(given, float):
        assert found == given or (math.isnan(found) and math.isnan(given))
        assert math.copysign(1, found) == math.copysign(1, given) or math.isnan(given)
    elif isinstance(given, complex):
        assert_same([found.real, found.imag], [given.real, given.imag])
    elif isinstance(given, Decimal):
        assert str(found) == str(given)
    elif isinstance(given, datetime):
        assert found.replace(tzinfo=None) == given.replace(tzinfo=None)
        assert (found.tzinfo, found.fold) == (given.tzinfo, given.fold)
    else:
        assert found == given


@settings(max_examples=300, deadline=None)
@given(value=values)
def test_what_was_packed_is_unpacked(value: Any) -> None:
    assert_same(through_json(value), value)


@pytest.mark.parametrize("case", STATISTICS, ids=lambda case: case.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), weight=st.floats(-1e3, 1e3))
def test_statistics_come_back_to_the_bit(case: StatisticCase, data: Any, weight: float) -> None:
    a, b = map(case.observe, data.draw(laws.pairs_of_samples(case)))
    for statistic in (a, a + b, a - a, a * weight, Joint({"a": a, "b": b})):
        found = through_json(statistic)
        assert found == statistic
        assert hash(found) == hash(statistic)
        for part in (found,) if isinstance(found, Sums) else found.values():
            assert all(not exact.words.flags.writeable for exact in part.parts().values())


def test_sums_of_every_shape_come_back_to_the_bit() -> None:
    for shape in [(), (0,), (2, 0), (1, 2, 3)]:
        exact = Exact.of(np.full(shape, -1e300)) + Exact.of(np.full(shape, 1e-300))
        assert through_json(exact) == exact


@pytest.mark.parametrize(
    "statistic",
    [
        Tally.count(["sun", "rain"], by=[1, "a"]),
        Tally.count([("column", None), (2, b"x")]),
        Tally.count(np.array(["2020-01-01"], dtype="M8[D]")),
        Moments.observe([[1.0, 2.0]], form="full", by=["\ud800"]),
        Moments.observe([1e300, 1e-300], form="none"),
        Gram.observe([[1.0, 2.0]], [3.0], by=[True]),
    ],
)
def test_labels_of_any_kind_come_back(statistic: Sums) -> None:
    found = through_json(statistic)
    assert found == statistic
    assert_same(found.keys and found.keys.values, statistic.keys and statistic.keys.values)


@pytest.mark.parametrize(
    "prior",
    [
        Beta(0.1, [1, 2], keys=Keys(("a", "b"))),
        Beta(1, 1, likelihood="geometric"),
        Dirichlet([[1, 2, 3.5]], keys=Keys((1,)), terms=Keys(("x", "y", "z"))),
        Gamma(2, 0.3, likelihood="exponential"),
        NormalInverseGamma([0, 1e8], 1, 2, 3).update(Moments.observe([[1.0, 2.0], [1.5, 2.5]])),
        NormalInverseWishart(
            [[0.1, 0.2], [3.0, 4.0]], 1, [2, 3], [[2.0, 0.3], [0.3, 1.0]], keys=Keys(("a", "b"))
        ),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_priors_come_back_to_the_bit(prior: Any) -> None:
    found = through_json(prior)
    assert type(found) is type(prior)
    for field in fields(prior):
        left, right = getattr(found, field.name), getattr(prior, field.name)
        if field.name == "factor":
            left, right = left.lower, right.lower
        assert_same(left, right)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(True), True),
        (np.str_("\udc00é"), "\udc00é"),
        (np.bytes_(b"\xff"), b"\xff"),
        (np.complex64(1 - 2j), 1 - 2j),
        (np.float64("-inf"), -math.inf),
        (pd.Timestamp("2020-02-03 04:05:06.000007"), datetime(2020, 2, 3, 4, 5, 6, 7)),  # noqa: DTZ001
        (pd.Timedelta("1 day 00:00:00.000001"), timedelta(1, 0, 1)),
    ],
)
def test_numbers_of_numpy_and_times_of_pandas_become_pythons(value: Any, expected: Any) -> None:
    assert_same(through_json(value), expected)


@pytest.mark.parametrize(
    "value", [np.datetime64("2020-01-01T00:00:00.000000001"), np.timedelta64("NaT", "D")]
)
def test_times_that_python_cannot_hold_stay_numpys(value: Any) -> None:
    found = through_json(value)
    assert (type(found), found.dtype, found.tobytes()) == (type(value), value.dtype, value.tobytes())


@pytest.mark.parametrize(
    "value",
    [np.random.default_rng(0), np.random.RandomState(0), np.random.SeedSequence(0), np.random.PCG64(0)],
)
def test_a_generator_asks_for_an_int(value: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^random_state cannot be saved: got a \w+, expected a seed: pass an int$"
    ):
        pack({"random_state": value}, {})


class Number(int):
    """Holds more than its value, for all that anybody knows."""


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (math.sqrt, "the function sqrt"),
        (lambda x: x, "the function <lambda>"),
        (Path, "the class Path"),
        (functools.partial(int), "a partial"),
        (object(), "a object"),
        ({1, 2}, "a set"),
        (Number(1), "a Number"),
        (OrderedDict(), "a OrderedDict"),
        (random.Random(0), "a Random"),
        (np.longdouble(1), "a longdouble of type "),
        (np.zeros(1, "i4,f4"), "a ndarray of type "),
        (np.zeros(1, np.longdouble), "a ndarray of type "),
        (np.ma.masked_array([1]), "a MaskedArray of type "),
        (pd.Timestamp(1), "a Timestamp"),
        (pd.NaT, "a NaTType"),
        (pd.Series([1]), "a Series"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_anything_else_is_refused_by_name(value: Any, described: str) -> None:
    arrays: archive.Arrays = {}
    for held in ({"alpha": value}, {"alpha": [value]}, {"alpha": np.array([value, None], dtype=object)[:1]}):
        with pytest.raises(
            TypeError, match=rf"^model\.alpha cannot be saved: got {described}.*, expected numbers"
        ):
            pack({"first": np.zeros(2), **held}, arrays, "model")
    assert arrays == {}  # nothing is half-packed
    with pytest.raises(TypeError, match=r"^the value cannot be saved: got a object"):
        pack(object(), {})


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="cannot be saved: got values nested 65 deep"):
        pack(endless, {})
    deep: list[Any] = []
    for _ in range(64):
        deep = [deep]
    assert through_json(deep) == deep


def test_arrays_that_are_there_keep_their_names() -> None:
    arrays: archive.Arrays = {"array1": np.zeros(1)}
    tree = pack([np.ones(1), np.ones(2)], arrays)
    assert len(arrays) == 3
    assert [array.tolist() for array in unpack(tree, arrays)] == [[1.0], [1.0, 1.0]]
    assert arrays["array1"].tolist() == [0.0]


def test_what_is_unpacked_does_not_change_with_its_source() -> None:
    source = np.zeros(2)
    arrays: archive.Arrays = {}
    found = unpack(pack(source, arrays), arrays)
    source[0] = 1
    assert found.tolist() == [0.0, 0.0]


WORDS: archive.Arrays = {
    "words": np.ones((1, 2), dtype=np.int64),
    "wide": np.full((2, 2), 1 << 40),
    "last": np.full((1, 2), 1 << 31),
    "none": np.zeros((0, 2), dtype=np.int64),
    "float": np.ones((1, 2)),
    "codes": np.full((1, 2), 0x110000, dtype=np.uint32),
    "object": np.array([None]),
}
EXACT = {"Exact": {"words": {"array": "words"}, "low": 0}}  # (2,)


def exact(words: str, low: Any = 0) -> dict[str, Any]:
    return {"words": {"array": words}, "low": low}


def tally(weight: Any = EXACT, keys: Any = None) -> dict[str, Any]:
    return {"keys": keys, "weight": weight, "total": EXACT, "terms": None}


def moments(form: str = "none", keys: Any = None, second: Any = None) -> dict[str, Any]:
    return {"keys": keys, "weight": EXACT, "first": EXACT, "second": second, "form": form}


def gram(width: Any, targets: Any) -> dict[str, Any]:
    sums = {"weight": EXACT, "first": EXACT, "products": EXACT}
    return {"keys": None, **sums, "width": width, "targets": targets}


def beta(a: Any, keys: Any = None) -> dict[str, Any]:
    return {"a": a, "b": 1, "likelihood": "bernoulli", "keys": keys}


NOON = "2020-01-01T12:00:00"
NOBODY_PACKED: dict[str, list[Any]] = {
    "os.system": ["true"],
    "__reduce__": [[]],
    "Sums": [{}],
    "tuple": [1, "ab"],
    "dict": [[[1]], [[1, 2, 3]], ["ab"], [[[], 1]], [[1, 1], [1, 2]]],
    "int": ["zz", 1],
    "float": ["1e3", []],
    "complex": ["1+", 1],
    "text": ["é", "/w=="],
    "bytes": ["a", 1],
    "date": ["yesterday", 1],
    "datetime": [
        [NOON],
        [NOON, 2, None],
        [NOON, 0, "Europe"],
        [NOON, 0, "../../etc/passwd"],
        [NOON, 0, [2, 0, 0]],
    ],
    "timedelta": [[10**30, 0, 0], [1.5, 0, 0]],
    "Decimal": ["x", 1.5],
    "array": ["missing", [], "object"],
    "scalar": ["words"],
    "texts": ["words", "codes"],
    "byte texts": ["words"],
    "objects": [1, [[2], [1]], [[-1, -1], [1]], [[0, 10**30], []], [["1"], [1]]],
    "Keys": [{}, [], {"values": [1]}, {"values": {"tuple": [1, 1]}}, {"values": {"tuple": [[]]}}],
    "Exact": [
        exact("words", 10**30),
        exact("words", 0.5),
        exact("wide"),
        exact("last"),
        exact("none"),
        exact("float"),
    ],
    "Tally": [tally(), tally(weight=1), tally(keys="ab"), {}],
    "Moments": [
        moments("other"),
        moments("full"),
        moments(second=1),
        moments(keys={"Keys": {"values": {"tuple": []}}}),
    ],
    "Gram": [gram(1, 1), gram("a", "b"), gram(None, 1)],
    "Joint": [{"parts": {"dict": [["a", EXACT]]}}, {"parts": {"dict": [[1, EXACT]]}}, {"parts": []}],
    "Beta": [beta(-1), beta("x"), beta([1, 1], keys="ab"), {"a": 1, "b": 1}],
    "Dirichlet": [{"concentration": [], "keys": None, "terms": None}],
    "NormalInverseWishart": [dict.fromkeys(("location", "strength", "freedom", "scale", "keys"))],
}


@pytest.mark.parametrize(
    "tree",
    [
        *({tag: made} for tag, several in NOBODY_PACKED.items() for made in several),
        *({}, {"tuple": [], "dict": []}, {1: 2}, (1, 2), {1, 2}, math.nan),
    ],
    ids=lambda tree: repr(tree)[:50],
)
def test_a_tree_that_nobody_packed_is_one_kind_of_error(tree: Any) -> None:
    for held in (tree, [tree], {"tuple": [tree]}):
        with pytest.raises(
            ValueError, match=r"^got a value that cannot be read \(.+\), expected one made by pack"
        ):
            unpack(held, WORDS)


def test_a_tree_nested_without_end_is_refused() -> None:
    tree: Any = []
    for _ in range(5000):
        tree = [tree]
    with pytest.raises(ValueError, match="nested too deep"):
        unpack(tree, {})


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_tree_gives_another_kind_of_error(data: Any) -> None:
    leaves = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(list(WORDS))
    )
    trees = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(list(NOBODY_PACKED)), inner, max_size=1)
        ),
        max_leaves=6,
    )
    tree = data.draw(trees)
    with suppress(ValueError):
        unpack(tree, WORDS)


def test_a_statistic_that_does_not_fit_itself_is_not_packed() -> None:
    crooked = Tally(weight=Exact.of([1.0]), total=Exact.of([1.0]))
    with pytest.raises(
        ValueError,
        match="learned cannot be saved: got a Tally whose parts have shapes or types that do not agree",
    ):
        pack({"learned": crooked}, {})


def test_a_model_goes_to_a_file_and_back(tmp_path: Path) -> None:
    model = {"learned": Joint({"x": Moments.observe([[1e8, 1.0]], by=["spam"])}), "seen": date(2020, 1, 2)}
    arrays: archive.Arrays = {}
    archive.write(tmp_path / "model", {"model": pack(model, arrays)}, arrays)
    content, found = archive.read(tmp_path / "model")
    assert unpack(content["model"], found) == model
