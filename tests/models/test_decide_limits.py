"""Decisions at their limits: other shapes, free rejection, exact thresholds, extreme temperatures."""

from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from tamis.decide import (
    Temperature,
    decide,
    expected_losses,
    log_evidence,
    log_probabilities,
    probabilities,
    threshold,
)

LOSS = [[0.0, 3.0], [5.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 5), (2, 4), (1, 1, 3)])
def test_leading_axes_are_rows(shape: tuple[int, ...]) -> None:
    joint = np.random.default_rng(6).normal(size=(*shape, 3)) * 4
    for answer in (
        probabilities,
        log_probabilities,
        log_evidence,
        decide,
        lambda rows: decide(rows, reject=0.2),
        lambda rows: decide(rows, LOSS),
        lambda rows: expected_losses(rows, LOSS),
        lambda rows: Temperature(2.0).apply(rows),
    ):
        together = answer(joint)
        alone = np.array([answer(row) for row in joint.reshape(-1, 3)])
        np.testing.assert_allclose(together, alone.reshape(np.shape(together)), rtol=1e-14)


@pytest.mark.parametrize(
    "rows", [[[np.inf, 0.0]], [[np.inf, 0.0], [0.0, 0.0]], [[np.nan, 0.0]], [[np.inf, -np.inf]]]
)
def test_densities_that_are_no_numbers_are_refused_in_one_row_and_in_many(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="holds NaN or ∞"):
        probabilities(np.array(rows))
    with pytest.raises(ValueError, match="holds NaN or ∞"):
        log_probabilities(rows)


def test_the_sum_of_a_log_joint_may_overflow() -> None:
    assert probabilities([[1e308, 1e308], [-1e308, -1e308]]).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_classes_that_are_all_impossible_are_equally_probable_in_one_row_and_in_many() -> None:
    assert probabilities(np.full((1, 4), -np.inf)).tolist() == [[0.25] * 4]
    assert probabilities(np.array([[-np.inf, -np.inf], [-np.inf, 0.0]])).tolist() == [[0.5, 0.5], [0.0, 1.0]]


def test_impossible_rows_may_have_any_leading_axes() -> None:
    assert probabilities([-np.inf, -np.inf]).tolist() == [0.5, 0.5]
    joint = np.zeros((2, 2, 3))
    joint[0, 1] = -np.inf
    joint[1, :, 0] = -np.inf
    third, half = [1 / 3] * 3, [0.0, 0.5, 0.5]
    np.testing.assert_allclose(probabilities(joint), [[third, third], [half, half]], rtol=1e-14)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 0)])
def test_rows_without_classes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected \\(\\.\\.\\., classes\\)"):
        log_probabilities(np.zeros(shape))


def test_no_rows_have_no_probabilities() -> None:
    assert probabilities(np.zeros((0, 3))).shape == (0, 3)


def test_a_number_is_no_log_joint() -> None:
    with pytest.raises(ValueError, match="of shape \\(\\), expected"):
        log_probabilities(1.0)


def test_declining_may_be_free() -> None:
    joint = [[0.0, -np.inf], [0.0, -1.0]]
    assert decide(joint, reject=0.0).tolist() == [0, -1]


@pytest.mark.parametrize("rate", [-0.5, -1e-9, 1.0 + 1e-9, 2.0, float("nan")])
def test_a_rate_outside_zero_to_one_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        threshold([1.0, 2.0], [True, True], rate)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_a_threshold_leaves_as_many_of_the_scores_above_as_the_rate_allows(n: int) -> None:
    scores = np.arange(n, dtype=np.float64)[::-1]
    for allowed in range(n + 2):  # of n + 1, with a new one
        exactly = Fraction(allowed, n + 1)
        expected = np.inf if allowed == 0 else -np.inf if allowed > n else float(n - allowed)
        assert threshold(scores, np.ones(n, dtype=bool), float(exactly)) == expected
        if allowed <= n:
            assert (
                threshold(scores, np.ones(n, dtype=bool), float(exactly + Fraction(1, 2 * n + 2))) == expected
            )


def test_no_negatives_allow_nothing_but_everything() -> None:
    assert threshold([5.0], [False], 0.999) == np.inf
    assert threshold([5.0], [False], 1.0) == -np.inf


@pytest.mark.parametrize(("scores", "marks"), [([[1.0]], [[True]]), (1.0, True)])
def test_scores_come_in_one_row(scores: object, marks: object) -> None:
    with pytest.raises(ValueError, match=r"expected \(n,\) for both"):
        threshold(scores, marks, 0.5)  # type: ignore[arg-type]


def test_a_score_that_is_no_number_counts_only_among_negatives() -> None:
    assert threshold([1.0, np.nan], [True, False], 0.5) == 1.0


@pytest.mark.parametrize(
    ("joint", "labels", "message"),
    [
        ([[0.0, 0.0]], [-1], "got labels -1 to -1"),
        ([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [0, 1, 2], "got labels 0 to 2"),
        (np.zeros((0, 2)), [], "expected \\(n, classes\\)"),
        ([0.0, 0.0], [0], "expected \\(n, classes\\)"),
        ([[0.0, 0.0]], [[0]], "expected \\(n, classes\\)"),
    ],
)
def test_labels_that_do_not_belong_to_the_rows_are_refused(
    joint: object, labels: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Temperature.fit(joint, labels)  # type: ignore[arg-type]


def test_a_temperature_divides_the_log_joints() -> None:
    joint = np.random.default_rng(7).normal(size=(5, 3))
    np.testing.assert_allclose(
        probabilities(Temperature(2.5).apply(joint)), probabilities(joint / 2.5), rtol=1e-14
    )


def test_the_ends_of_the_temperature_are_as_the_docs_say() -> None:
    apart = [[3.0, 0.0], [0.0, 3.0]]
    assert Temperature.fit(apart, [0, 1]).value == pytest.approx(2.0**-20, rel=1e-6)
    assert Temperature.fit(apart, [1, 0]).value == pytest.approx(2.0**20, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-4, 0.3, 1.0, 7.0, 1e4])
def test_a_temperature_follows_the_scale_of_the_log_joints(factor: float) -> None:
    rng = np.random.default_rng(8)
    joint = rng.normal(size=(300, 3)) * 2
    labels = np.array([rng.choice(3, p=p) for p in probabilities(joint)])
    one = Temperature.fit(joint, labels).value
    assert Temperature.fit(joint * factor, labels).value == pytest.approx(one * factor, rel=1e-9)


def test_a_row_of_weight_two_is_two_rows() -> None:
    rng = np.random.default_rng(9)
    joint, labels = rng.normal(size=(50, 2)) * 3, rng.integers(0, 2, 50)
    weights = rng.integers(0, 3, 50)
    repeated = Temperature.fit(np.repeat(joint, weights, axis=0), np.repeat(labels, weights))
    assert Temperature.fit(joint, labels, weights).value == pytest.approx(repeated.value, rel=1e-9)


def test_a_temperature_cannot_be_changed() -> None:
    found = Temperature(2.0)
    assert not hasattr(found, "__dict__")
    with pytest.raises(FrozenInstanceError):
        found.value = 3.0  # type: ignore[misc]
