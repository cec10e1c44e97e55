"""data → Gram: ΣW, ΣW[φ z] and ΣW[φ z][φ z]ᵀ, the normal equations of every linear model."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from tamis import arrays
from tamis._kernels import Floats
from tamis.stats.exact import Exact
from tamis.stats.products import (
    Pairs,
    are_impossible,
    are_lost,
    compute_scatter,
    joint_moments,
    refuse_lost,
    triangle,
    unpack,
)
from tamis.stats.rows import Rows
from tamis.stats.sums import Sums, refuse_too_much


@dataclass(frozen=True, slots=True, kw_only=True)
class Gram(Sums):
    """Products of features φ and targets z, summed: about zero, and read out about the mean too.

    >>> phi, z = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0]
    >>> gram = Gram.observe(phi, z)
    >>> np.linalg.solve(gram.features, gram.cross)[:, 0].round(12).tolist()
    [1.0, 2.0]
    """

    weight: Exact  # batch
    first: Exact  # batch + (p + q,): ΣW[φ z]
    products: Exact  # batch + packed upper triangle of [φ z][φ z]ᵀ
    width: int  # columns of φ
    targets: int  # columns of z

    @classmethod
    def observe(
        cls,
        features: object,
        targets: object,
        weights: object = None,
        by: object = None,
        exact: bool = False,
    ) -> Self:
        """Sum the products of rows φ (n, p) and z (n,) or (n, q), by label if labels are given.

        The sums are exact sums of products that were rounded, about the mean, good to 1e-12; with
        `exact=True`, or for up to 65,536 cells, they are exact, and rows far out among others always are.
        For much data exact sums take about six times as long.
        """
        phi, z = arrays.matrix(features), arrays.matrix(targets)
        if len(phi.values) != len(z.values):
            raise ValueError(
                f"got {len(phi.values)} rows of features and {len(z.values)} of targets, expected as many"
            )
        names = z.names or tuple(f"target {j}" for j in range(z.values.shape[1]))
        rows = Rows.of(phi, weights, by)
        extra = rows.with_table(arrays.Matrix(z.values, names))
        first, products, rounded = joint_moments(rows, extra, exact)
        return cls(
            weight=rows.sum_weights(),
            first=first,
            products=products,
            width=phi.values.shape[1],
            targets=z.values.shape[1],
            keys=rows.keys,
            rounded=rounded,
        ).prune()

    @property
    def features(self) -> Floats:
        """ΣWφφᵀ (..., p, p)."""
        return self._matrix[..., : self.width, : self.width]

    @property
    def cross(self) -> Floats:
        """ΣWφz (..., p, q)."""
        return self._matrix[..., : self.width, self.width :]

    @property
    def squares(self) -> Floats:
        """ΣWzzᵀ (..., q, q)."""
        return self._matrix[..., self.width :, self.width :]

    @property
    def mean(self) -> Floats:
        """The mean of [φ z] (..., p + q); NaN where nothing was seen."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.first.value / self.weight.value[..., None])

    @property
    def mean_rest(self) -> Floats:
        """The rounding error of `mean` (..., p + q): at 1e8, the next float is 1.5e-8 away."""
        weight = self.weight.reindex(lambda w: w[..., None])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self.first - weight.times(self.mean)).value / weight.value)

    @property
    def scatter(self) -> Floats:
        """ΣW of products of [φ z] less its mean (..., p + q, p + q); 0 where nothing was seen.

        Good to a few units in the last place whatever the mean: see `products.compute_scatter`.
        """
        return unpack(compute_scatter(self.weight, self.first, self.products, self._pairs), self._side)

    def refuse_impossible(self) -> None:
        """Raise if no rows have these sums: more was taken away than was there, and than rounding hides."""
        slack = 0.0 if self.rounded is None else 1e-12 * self.rounded
        refuse_too_much(are_impossible(self.weight, self.first, self.products, self._pairs, slack))

    def refuse_lost(self, about_mean: bool = True, names: tuple[object, ...] | None = None) -> None:
        """Raise if the squares that are left of a column drown in the rounding of what was taken away."""
        if self.rounded is not None:
            left = np.diagonal(self.scatter if about_mean else self._matrix, axis1=-2, axis2=-1)
            lost = are_lost(left, self.rounded)
            refuse_lost(
                lost, None if names is None else (*names, *(f"target {j}" for j in range(self.targets)))
            )

    @property
    def _side(self) -> int:
        return self.width + self.targets

    @property
    def _pairs(self) -> Pairs:
        return triangle(self._side)

    @property
    def _matrix(self) -> Floats:
        return unpack(self.products.value, self._side)
