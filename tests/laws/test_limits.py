"""Limits inside the statistics that no law reaches by chance: signs, settled words, parts that do not fit."""

from typing import Any

import numpy as np
import pytest

from tamis import Beta
from tamis.stats import Keys, Moments, Tally
from tamis.stats.consistency import CONSISTENCY_CHECKS, refuse_inconsistent
from tamis.stats.exact import Exact
from tamis.stats.products import are_impossible, refuse_lost_precision


def test_the_sign_of_a_sum_is_known_without_rounding() -> None:
    assert Exact.of([-1.0, 0.0, 2.0, -1e-300, 1e300]).negative.tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("number", [(1 << 31) - 1, 1 << 31, 1 << 32, -(1 << 31), -(1 << 31) - 1, 1 << 52])
def test_counts_of_any_size_are_settled_words(number: int) -> None:
    exact = Exact.from_integers(np.array([number, 1], np.int64))
    assert CONSISTENCY_CHECKS[Exact](exact.words, exact.low)
    assert exact.value.tolist() == [number, 1]
    assert (exact + exact).value.tolist() == [2 * number, 2]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_words_that_are_not_settled_do_not_fit(place: int) -> None:
    words = np.zeros((4, 1), np.int64)
    assert CONSISTENCY_CHECKS[Exact](words, 0)
    words[place] = 1 << 32
    assert not CONSISTENCY_CHECKS[Exact](words, 0)
    words[place] = -1
    assert not CONSISTENCY_CHECKS[Exact](words, 0)


def test_parameters_that_would_be_broadcast_to_gigabytes_are_refused() -> None:
    column, row = np.ones((2000, 1)), np.ones((1, 2000))
    for other in (row, row[0]):  # NumPy aligns the last axes
        expected = r"a Beta whose parameters broadcast to 4,000,000 numbers \(the limit is 1,048,576\)"
        with pytest.raises(ValueError, match=expected):
            refuse_inconsistent(Beta, {"a": column, "b": other})
    refuse_inconsistent(Beta, {"a": column, "b": row[:, :100]})
    refuse_inconsistent(Beta, {"a": np.ones(1 << 21), "b": np.ones(1 << 21)})


def test_moments_fit_only_if_each_part_does() -> None:
    moments = Moments.observe([[1.0, 2.0], [3.0, 5.0]], by=["a", "b"], form="full")
    sound: dict[str, Any] = {
        "keys": moments.keys,
        "weight": moments.weight,
        "first": moments.first,
        "second": moments.second,
        "form": "full",
        "rounded": moments.rounded,
    }
    assert CONSISTENCY_CHECKS[Moments](**sound)
    for name, broken in (
        ("keys", Keys(("a",))),
        ("weight", moments.weight.sum(axis=0)),
        ("form", "diagonal"),
        ("form", "square"),
        ("rounded", np.array([1.0])),
        ("second", moments.first),
    ):
        assert not CONSISTENCY_CHECKS[Moments](**{**sound, name: broken}), name


def test_a_class_of_which_nothing_is_left_is_possible() -> None:
    nothing, some = Exact.of(np.zeros((1, 2))), Exact.of([[1.0, 0.0]])
    assert not are_impossible(nothing, nothing, None, None)
    assert are_impossible(nothing, some, None, None)
    assert are_impossible(Exact.of([[-1.0, 1.0]]), nothing, None, None)


def test_the_column_that_is_lost_is_named_in_any_batch() -> None:
    lost = np.zeros((2, 3), np.bool_)
    lost[1, 2] = True
    with pytest.raises(ValueError, match="left of column 'c' after rounding"):
        refuse_lost_precision(lost, ("a", "b", "c"))


def test_a_statistic_extends_to_keys_that_begin_with_its_own() -> None:
    tally = Tally.observe([[1, 0], [1, 1]], by=["a", "a"])
    assert tally.over(Keys(("a", "b"))).total.value.tolist() == [[2.0, 1.0], [0.0, 0.0]]
    with pytest.raises(KeyError, match="'a' is a label of this Tally"):
        tally.over(Keys(("b",)))


def test_totals_without_names_are_numbered() -> None:
    assert Tally.observe([[1, 0, 2], [1, 1, 0]]).table() == {0: 2.0, 1: 1.0, 2: 2.0}


def test_many_keys_are_shown_by_the_first_six() -> None:
    assert "…" not in repr(Keys(tuple(range(6))))
    assert repr(Keys(tuple(range(7)))).endswith(", …)")


def test_a_batch_of_totals_with_terms_survives_arrow() -> None:
    pytest.importorskip("pyarrow")
    tally = Tally(
        weight=Exact.of([3.0, 5.0]),
        total=Exact.of([[1.0, 2.0, 0.0], [0.0, 1.0, 4.0]]),
        terms=Keys(("x", "y", "z")),
    )
    again = Tally.from_arrow(tally.to_arrow())
    assert again == tally
    assert again.total.shape == (2, 3)


def test_a_statistic_of_no_columns_survives_arrow() -> None:
    pytest.importorskip("pyarrow")
    tally = Tally(weight=Exact.of(2.0), total=Exact.of(np.zeros(0)))
    assert Tally.from_arrow(tally.to_arrow()) == tally
