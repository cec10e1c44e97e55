"""Full Moments by class → the directions that separate the classes best: Fisher's discriminants."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.arrays import Array, one_line, to_matrix
from tamis.linalg import eigen, find_whitening
from tamis.models.generative.shrinkage import LedoitWolf, Shrinkage, refuse_shrinkage, shrink
from tamis.stats import Keys, Moments


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Directions of largest variance between classes, each of unit variance within classes, best first."""

    keys: Keys
    directions: Array  # (d, components): the entry of largest magnitude in each is positive
    values: Array  # (components,): variance between classes over variance within classes
    ratios: Array  # (components,): the values divided by the sum of the values of all directions
    centre: Array  # (d,): the point that is projected to zero
    means: Array  # (K, d)
    scatter: Array  # (d, d): summed within classes, without priors or shrinkage

    def transform(self, x: object) -> Array:
        """The coordinates of rows (n, d) along the directions, about the centre (n, components)."""
        rows = to_matrix(x).values
        if rows.shape[1] != len(self.centre):
            raise ValueError(f"got {rows.shape[1]} columns, expected {len(self.centre)} as in the statistic")
        return np.asarray((rows - self.centre) @ self.directions)

    def criterion(self, direction: Array | None = None) -> float:
        """Fisher's (m₂ − m₁)² / (s₁² + s₂²) of two classes along a direction, by default the best.

        m are the classes' means, and s² the sums of squared differences from them.
        """
        if len(self.keys) != 2:
            raise ValueError(f"got {len(self.keys)} classes, expected two: for more, see `values`")
        w = self.directions[:, 0] if direction is None else np.asarray(direction, dtype=np.float64)
        difference = (self.means[1] - self.means[0]) @ w
        return float(difference * difference / (w @ self.scatter @ w))


def discriminant(
    statistic: Moments,
    n_components: int | None = None,
    shrinkage: Shrinkage = None,
    priors: Mapping[Any, float] | None = None,
) -> Projection:
    """Maximise the variance between classes over the variance within classes.

    Classes are weighted by `priors`, or by their rows. `shrinkage` acts on the covariance within classes and
    on that of all rows, as in scikit-learn's solver "eigen"; for "auto", give the coefficients of
    `LedoitWolf`.

    >>> rows = [[0.0, 0.0], [2.0, 1.0], [0.0, 4.0], [2.0, 5.0]]
    >>> projection = discriminant(Moments.observe(rows, by=["a", "a", "b", "b"], form="full"), shrinkage=0.5)
    >>> projection.directions.shape, projection.transform([[1.0, 2.5]]).tolist()
    ((2, 1), [[0.0]])
    """
    if statistic.keys is None or statistic.form != "full":
        word = "without" if statistic.keys is None else "by"
        raise ValueError(
            f"got {statistic.form} Moments {word} label, expected full ones by label: observe with "
            "form='full' and by=labels"
        )
    refuse_shrinkage(shrinkage)
    count = count_components(n_components, len(statistic.keys), statistic.first.shape[-1])
    scatter, weight = statistic.scatter, statistic.weight.value
    prior = _check_priors(statistic.keys, weight, priors)
    # Differences from the pooled mean, which is rounded only once, stay precise even if the means are large.
    centre = statistic.pooled().mean
    means = statistic.mean - centre
    shift = prior @ means
    differences = np.sqrt(prior)[:, None] * (means - shift)
    within, between = np.tensordot(prior / weight, scatter, axes=1), differences.T @ differences
    if isinstance(shrinkage, LedoitWolf):
        pooled = statistic.pooled()
        n = pooled.weight.value
        total = shrinkage.shrink_all(n * (within + between), pooled) / n
        within = np.tensordot(prior / weight, shrinkage.shrink_classes(statistic), axes=1)
        between = total - within
    else:
        within, between = shrink(within, shrinkage), shrink(between, shrinkage)
    whitener = find_whitening(within, "covariance within classes")
    values, vectors = eigen(whitener.T @ between @ whitener)
    count = min(count, len(values))
    best = np.argsort(values)[::-1][:count]
    directions = whitener @ vectors[:, best]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.where(directions[largest, np.arange(count)] < 0, -1.0, 1.0)
    sum_of_values = values.sum()
    return Projection(
        statistic.keys,
        np.ascontiguousarray(directions),
        values[best],
        values[best] / sum_of_values if sum_of_values > 0 else np.zeros(count),
        centre + shift,
        statistic.mean,
        scatter.sum(axis=0),
    )


def count_components(n_components: object, classes: int, columns: int) -> int:
    """Return `n_components`, by default the largest possible number; raise if it is not possible."""
    largest = min(classes - 1, columns)
    given = largest if n_components is None else n_components
    if not isinstance(given, int | np.integer) or isinstance(given, bool) or not 1 <= given <= largest:
        raise ValueError(
            f"got n_components={one_line(n_components)} for {classes} classes of {columns} columns, expected "
            f"a whole number from 1 to {largest}, the smaller of classes − 1 and columns"
        )
    return int(given)


def _check_priors(keys: Keys, weight: Array, priors: Mapping[Any, float] | None) -> Array:
    """The probability of each class (K,), by `priors` or by weight; raise if one is missing or invalid."""
    if priors is None:
        return np.asarray(weight / weight.sum())
    missing = [key for key in keys if key not in priors]
    if missing:
        raise ValueError(f"got no prior for class {missing[0]!r}, expected one for each of {keys!r}")
    values = np.array([priors[key] for key in keys], dtype=np.float64)
    if not ((values >= 0).all() and values.sum() > 0):
        raise ValueError(f"got priors {values.tolist()}, expected numbers not below zero, and some above")
    return np.asarray(values / values.sum())
