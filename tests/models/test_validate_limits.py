"""Validation at its limits: the smallest and largest numbers of folds, ties, single draws, and refusals."""

from dataclasses import FrozenInstanceError, replace
from typing import Any, Literal

import numpy as np
import pytest

from tamis import validate
from tamis.models.generative import GaussianColumns, Generative, LabelledRows, MultinomialCounts
from tamis.models.linear import HeldOutNumbers
from tamis.stats import Keys, Labels
from tamis.tables import Table

MODEL = Generative({"x": MultinomialCounts()})
ROWS = np.array([[3, 0, 1], [0, 2, 2], [1, 1, 1], [4, 0, 0], [0, 0, 5], [2, 1, 0]])


def observed(labels: list[Any]) -> LabelledRows:
    return LabelledRows(MODEL.encode(Table.of(ROWS)), Labels.of(labels))


def test_there_are_at_least_two_folds_and_at_most_one_for_each_row() -> None:
    assert validate.split(2, 2).tolist() == [0, 1]
    assert validate.split(5, 5).tolist() == [0, 1, 2, 3, 4]
    assert validate.split(5, 2).tolist() == [0, 1, 0, 1, 0]
    for folds in (-1, 0, 1, 6):
        with pytest.raises(ValueError, match=f"got {folds} folds for 5 rows"):
            validate.split(5, folds)


def test_there_may_be_as_many_folds_as_groups() -> None:
    assert sorted(validate.split(4, 2, groups=["a", "b", "b", "b"]).tolist()) == [0, 0, 0, 1]
    with pytest.raises(ValueError, match="got 2 groups for 3 folds"):
        validate.split(4, 3, groups=["a", "b", "b", "b"])


def test_the_largest_group_is_placed_first_and_each_where_there_is_most_room() -> None:
    groups = np.repeat([*"abcd"], [1, 2, 3, 4])
    fold = validate.split(10, 2, groups=groups)
    assert {name: set(fold[groups == name].tolist()) for name in "abcd"} == {
        "d": {0},
        "c": {1},
        "b": {1},
        "a": {0},
    }


def test_rows_are_shuffled_if_and_only_if_a_generator_is_given() -> None:
    one = validate.split(50, 5, np.random.default_rng(1))
    assert one.tolist() != validate.split(50, 5).tolist()
    assert one.tolist() == validate.split(50, 5, np.random.default_rng(1)).tolist()
    names = [f"{number}" for number in range(50)]
    one = validate.split(50, 5, np.random.default_rng(1), groups=names)
    assert one.tolist() != validate.split(50, 5, groups=names).tolist()


@pytest.mark.parametrize("given", [{"group": [0, 1]}, {"groups": [0, 1]}])
def test_there_is_a_class_or_a_group_for_each_row(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"got 2 (classes|groups) for 4 rows"):
        validate.split(4, 2, **given)


@pytest.mark.parametrize("fold", [[7, 7, 7, 3, 3, 3], [0, 1, 2, 2, 0, 1]])
def test_two_folds_are_enough_and_each_is_scored_by_the_others(fold: list[int]) -> None:
    evidence = observed([*"ababab"])
    held_out = validate.cross_validate(MODEL, evidence, fold)
    for one in set(fold):
        rows, rest = np.flatnonzero(np.equal(fold, one)), np.flatnonzero(np.not_equal(fold, one))
        posterior = MODEL.infer(MODEL.observe(evidence.take(rest)))
        np.testing.assert_array_equal(held_out.log_joint[rows], posterior.log_joint(evidence.rows.take(rows)))
    parts = held_out.by_fold()
    assert [part.fold.tolist() for part in parts] == [[one] * fold.count(one) for one in sorted(set(fold))]
    with pytest.raises(ValueError, match="got 5 folds for 6 rows"):
        validate.cross_validate(MODEL, evidence, [0, 1, 0, 1, 0])


def test_a_class_of_one_fold_is_impossible_there() -> None:
    held_out = validate.cross_validate(MODEL, observed([*"aabbbc"]), [0, 1, 0, 1, 0, 1])
    assert np.isneginf(held_out.log_joint).tolist() == [[False] * 3, [False, False, True]] * 3
    assert held_out.log_loss == np.inf


def test_missing_labels_are_refused_even_if_they_are_few() -> None:
    evidence = observed([*"ababab"])
    group = evidence.labels.group.copy()
    group[2] = -1
    unlabelled = replace(evidence, labels=Labels(evidence.labels.keys, group))
    with pytest.raises(ValueError, match="some labels are missing"):
        validate.leave_one_out(MODEL, unlabelled)
    with pytest.raises(ValueError, match="some labels are missing"):
        validate.cross_validate(MODEL, unlabelled, [0, 1] * 3)


def test_the_class_that_a_statistic_lacks_is_named() -> None:
    evidence = observed([*"aabbzb"])
    with pytest.raises(ValueError, match="class 'z' has no weight"):
        validate.leave_one_out(MODEL, evidence, MODEL.observe(evidence.take(np.array([0, 1, 2, 3, 5]))))


def test_a_row_that_is_impossible_costs_log_of_the_number_of_classes() -> None:
    joint = np.array([[-np.inf] * 3, [-1.0, -2.0, -np.inf]])
    held_out = validate.HeldOut(Keys((0, 1, 2)), joint, np.array([2, 1]), np.array([0, 1]))
    expected = [np.log(3.0), 2.0 + np.log(np.exp(-1.0) + np.exp(-2.0))]
    assert held_out.log_losses.tolist() == pytest.approx(expected)
    assert held_out.accuracy == 0.0
    assert [part.weights for part in held_out.by_fold()] == [None, None]


@pytest.mark.parametrize(
    ("replicated", "p_value"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 2 * (1 + 3) / 8),
        ([1.0, 1.0, 1.0], 0.5),  # (1 + 0) · 2 / 4: none as large
        ([9.0, 9.0, 9.0], 0.5),  # none as small
        ([3.0, 3.0, 3.0], 1.0),  # all as far out on either side, and a probability is no more than 1
        ([3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0.5),  # one as large
        ([3.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], 0.5),
    ],
)
def test_the_data_are_counted_among_the_draws(replicated: list[float], p_value: float) -> None:
    assert validate.Check(3.0, np.array(replicated)).p_value == p_value


def test_an_impossible_row_of_weight_zero_is_not_in_the_means() -> None:
    keys, labels = Keys.of(["a", "b", "b"])
    joint, weights = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, -np.inf]]), np.array([1.0, 2.0, 0.0])
    held_out = validate.HeldOut(keys, joint, labels, np.arange(3), weights)
    assert held_out.log_losses.tolist() == [np.log(2.0), np.log(2.0), np.inf]
    assert held_out.log_loss == np.log(2.0)
    numbers = np.array([1.0, 2.0, np.inf])
    predicted = HeldOutNumbers(numbers, np.zeros(3), numbers, -numbers, np.arange(3), weights)
    assert predicted.mean_log_density == -5.0 / 3.0


def test_one_draw_is_enough_and_200_are_usual() -> None:
    statistic, rng = MODEL.observe(observed([*"aabbbb"])), np.random.default_rng(0)
    sizes: list[list[int]] = []

    def measure(group: Any, columns: Any) -> float:
        sizes.append(np.bincount(group, minlength=2).tolist())
        return 1.0

    assert validate.check(MODEL, statistic, measure, 1.0, rng, draws=1).replicated.tolist() == [1.0]
    assert sizes == [[2, 4]]
    assert len(validate.check(MODEL, statistic, measure, 1.0, rng).replicated) == 200
    for draws in (0, -1):
        with pytest.raises(ValueError, match=f"got draws={draws}"):
            validate.check(MODEL, statistic, measure, 1.0, rng, draws=draws)


def test_a_choice_of_one_or_of_equals_is_the_first_and_anything_else_is_refused() -> None:
    evidence = observed([*"ababab"])
    ways: tuple[Literal["evidence", "leave-one-out"], ...] = ("evidence", "leave-one-out")
    for by in ways:
        assert validate.choose({"only": MODEL}, evidence, by=by).best == "only"
        assert validate.choose({"one": MODEL, "two": MODEL}, evidence, by=by).best == "one"
    with pytest.raises(ValueError, match="got by='luck'"):
        validate.choose({"only": MODEL}, evidence, by="luck")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got no candidates"):
        validate.choose({}, evidence)
    other = Generative({"x": GaussianColumns()})
    for models in ({"a": MODEL, "b": other}, {"a": other, "b": MODEL}, {"a": MODEL, "b": MODEL, "c": other}):
        with pytest.raises(ValueError, match="differ in their blocks"):
            validate.choose(models, evidence)


def test_results_are_values_that_nobody_changes() -> None:
    held_out = validate.leave_one_out(MODEL, observed([*"ababab"]))
    for value, field in (
        (held_out, "fold"),
        (validate.Choice("a", {"a": 1.0}), "best"),
        (validate.Check(1.0, np.ones(2)), "observed"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field, None)
    assert held_out != replace(held_out)  # arrays have no one answer to whether they are equal
    assert validate.Check(1.0, held_out.log_losses) != validate.Check(1.0, held_out.log_losses)
