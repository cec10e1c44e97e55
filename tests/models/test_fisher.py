"""Fisher's discriminants, against scikit-learn's and against every other direction."""

from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from tamis.arrays import Array
from tamis.models.generative.fisher import Projection, discriminant
from tamis.stats import Moments


def flowers(classes: int = 4, d: int = 5, seed: int = 0) -> tuple[Array, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, 300)
    root = rng.normal(size=(d, d)) + 2.0 * np.eye(d)
    return rng.normal(size=(300, d)) @ root + 3.0 * rng.normal(size=(classes, d))[y], y


def found(x: Array, y: Any, shrinkage: float | None = None) -> Projection:
    return discriminant(Moments.observe(x, by=y, form="full"), shrinkage=shrinkage)


@pytest.mark.parametrize("shrinkage", [None, 0.2])
@pytest.mark.parametrize("classes", [2, 4, 8])
def test_directions_and_ratios_are_those_of_scikit_learn(shrinkage: float | None, classes: int) -> None:
    x, y = flowers(classes)
    ours = found(x, y, shrinkage)
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(x, y)
    count = min(classes - 1, 5)
    assert ours.directions.shape == (5, count)
    scalings = theirs.scalings_[:, :count]
    signs = np.sign((ours.directions * scalings).sum(axis=0))
    np.testing.assert_allclose(ours.directions, scalings * signs, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.ratios, theirs.explained_variance_ratio_, rtol=1e-9)
    moved = theirs.transform(x) * signs
    np.testing.assert_allclose(ours.transform(x), moved - moved.mean(axis=0), atol=1e-9)


def test_the_transform_is_that_of_the_default_solver() -> None:
    x, y = flowers()
    theirs = LinearDiscriminantAnalysis().fit(x, y).transform(x)
    ours = found(x, y).transform(x)
    np.testing.assert_allclose(ours, theirs * np.sign((ours * theirs).sum(axis=0)), atol=1e-9)


def test_within_classes_directions_are_uncorrelated_and_of_unit_variance() -> None:
    x, y = flowers()
    z = found(x, y).transform(x)
    within = sum((y == k).mean() * np.cov(z[y == k].T, ddof=0) for k in range(4))
    np.testing.assert_allclose(within, np.eye(3), atol=1e-10)


def test_no_direction_has_a_larger_criterion() -> None:
    x, y = flowers(2)
    ours = found(x, y)
    best = ours.criterion()
    projected = [x[y == k] @ ours.directions[:, 0] for k in (0, 1)]
    spread = sum(np.square(part - part.mean()).sum() for part in projected)
    assert best == pytest.approx((projected[1].mean() - projected[0].mean()) ** 2 / spread)
    others = np.random.default_rng(1).normal(size=(2000, 5))
    assert max(ours.criterion(other) for other in others) < best
    assert ours.criterion(-3.0 * ours.directions[:, 0]) == pytest.approx(best)
    n = np.bincount(y)
    assert ours.values[0] == pytest.approx(best * n[0] * n[1] / n.sum())


def test_a_large_mean_and_the_order_of_rows_change_nothing() -> None:
    x, y = flowers()
    x = np.round(x * 2.0**20) / 2.0**20
    order = np.random.default_rng(2).permutation(len(x))
    near, far = found(x, y), found((x + 1e8)[order], y[order])
    np.testing.assert_allclose(far.directions, near.directions, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(far.transform(x + 1e8), near.transform(x), atol=1e-6)
    assert (near.directions[np.abs(near.directions).argmax(axis=0), np.arange(3)] > 0).all()


def test_priors_weigh_the_classes() -> None:
    x, y = flowers(3)
    statistic = Moments.observe(x, by=y, form="full")
    counted = dict(enumerate((np.bincount(y) / len(y)).tolist()))
    same = discriminant(statistic, priors=counted)
    np.testing.assert_allclose(same.directions, found(x, y).directions, rtol=1e-9)
    even = discriminant(statistic, priors={0: 1, 1: 1, 2: 1})
    middle = np.mean([x[y == k].mean(axis=0) for k in range(3)], axis=0)
    np.testing.assert_allclose(even.centre, middle)
    with pytest.raises(ValueError, match="no prior for class 2"):
        discriminant(statistic, priors={0: 1, 1: 1})
    with pytest.raises(ValueError, match="not below zero"):
        discriminant(statistic, priors={0: 1, 1: -1, 2: 1})


def test_fewer_components_are_the_first() -> None:
    x, y = flowers()
    statistic = Moments.observe(x, by=y, form="full")
    two = discriminant(statistic, n_components=2)
    np.testing.assert_array_equal(two.directions, discriminant(statistic).directions[:, :2])
    assert two.ratios.sum() < 1
    with pytest.raises(
        ValueError, match="got n_components=4 for 4 classes of 5 columns, expected a whole number from 1 to 3"
    ):
        discriminant(statistic, n_components=4)


def test_what_cannot_be_projected_is_refused() -> None:
    x, y = flowers()
    with pytest.raises(ValueError, match="without label, expected full ones by label"):
        discriminant(Moments.observe(x, form="full"))
    with pytest.raises(ValueError, match="got diagonal Moments by label"):
        discriminant(Moments.observe(x, by=y))
    with pytest.raises(ValueError, match="for 1 classes"):
        found(x, np.zeros(300))
    with pytest.raises(ValueError, match="covariance within classes is zero"):
        found(np.arange(6.0).reshape(3, 2), np.arange(3))
    with pytest.raises(ValueError, match="got 4 classes, expected two"):
        found(x, y).criterion()
    with pytest.raises(ValueError, match="got 2 columns, expected 5"):
        found(x, y).transform(x[:, :2])
    with pytest.raises(ValueError, match="shrinkage=2"):
        found(x, y, 2.0)


def test_a_column_that_repeats_or_never_varies_changes_nothing() -> None:
    x, y = flowers()
    wide = np.column_stack([x, np.ones(300), x[:, 0]])
    np.testing.assert_allclose(found(wide, y).transform(wide), found(x, y).transform(x), atol=1e-9)
