"""data → Gram: Σw, Σw[φ z] and Σw[φ z][φ z]ᵀ.

The normal equations of every linear model are formed from these sums.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from tamis import arrays
from tamis._kernels import Floats
from tamis.stats.exact import Exact
from tamis.stats.products import (
    ColumnPairs,
    are_impossible,
    compute_scatter,
    find_lost_columns,
    joint_moments,
    refuse_lost_precision,
    triangle,
    unpack,
)
from tamis.stats.rows import Rows
from tamis.stats.sums import Sums, refuse_excess_subtraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Gram(Sums):
    """Sums of products of p features φ and q targets z, about zero; `scatter` is about their mean.

    >>> phi, z = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0]
    >>> gram = Gram.observe(phi, z)
    >>> np.linalg.solve(gram.features, gram.cross)[:, 0].round(12).tolist()
    [1.0, 2.0]
    """

    weight: Exact  # of the batch axes' shape
    first: Exact  # batch + (p + q,): Σw[φ z]
    products: Exact  # batch + ((p + q)(p + q + 1) / 2,): the packed upper triangle of Σw[φ z][φ z]ᵀ
    width: int  # p, the number of features
    targets: int  # q, the number of targets

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

        With many rows, the mean is subtracted first and the products are summed in float64, which rounds; the
        result is added to the exact sums. The error of s_ij, an entry of `scatter`, is then below
        1e-12 √(s_ii s_jj), as long as no rows are subtracted. `exact=True` avoids the rounding, and takes
        several times as long. Nothing is rounded if n(p + q) ≤ 65,536 (16,384 with weights), or if there are
        at most 16 rows per label on average. Products of rows far from the median (`tamis.stats.outliers`)
        are never rounded.
        """
        phi, z = arrays.to_matrix(features), arrays.to_matrix(targets)
        if len(phi.values) != len(z.values):
            raise ValueError(
                f"got {len(phi.values)} rows of features and {len(z.values)} of targets, "
                "expected the same number of each"
            )
        names = z.names or tuple(f"target {j}" for j in range(z.values.shape[1]))
        rows = Rows.of(phi, weights, by)
        target_rows = rows.with_table(arrays.Matrix(z.values, names))
        first, products, rounded = joint_moments(rows, target_rows, exact)
        return cls(
            weight=rows.sum_weights(),
            first=first,
            products=products,
            width=phi.values.shape[1],
            targets=z.values.shape[1],
            keys=rows.keys,
            rounded=rounded,
        ).drop_zeros()

    @property
    def features(self) -> Floats:
        """Σwφφᵀ (..., p, p)."""
        return self._full_products[..., : self.width, : self.width]

    @property
    def cross(self) -> Floats:
        """Σwφz (..., p, q)."""
        return self._full_products[..., : self.width, self.width :]

    @property
    def squares(self) -> Floats:
        """Σwzzᵀ (..., q, q)."""
        return self._full_products[..., self.width :, self.width :]

    @property
    def mean(self) -> Floats:
        """The mean of [φ z] (..., p + q); NaN where the weight is 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.first.value / self.weight.value[..., None])

    @property
    def mean_rest(self) -> Floats:
        """The exact mean minus `mean`, which is rounded to float64 (..., p + q).

        It matters for a large mean: near 1e8, neighbouring floats differ by 1.5e-8.
        """
        weight = self.weight.reindex(lambda w: w[..., None])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self.first - weight.times(self.mean)).value / weight.value)

    @property
    def scatter(self) -> Floats:
        """The weighted sum of (v − v̄)(v − v̄)ᵀ, where v = [φ z] (..., p + q, p + q); 0 without rows.

        A large mean costs no precision: see `products.compute_scatter`.
        """
        return unpack(compute_scatter(self.weight, self.first, self.products, self._pairs), self._n_columns)

    def refuse_impossible(self) -> None:
        """Raise if these sums cannot be those of any rows, even allowing for rounding errors.

        That is so if more was subtracted than was added. Only the weight, and the sum and the square of each
        column, are checked, not the products of two columns.
        """
        tolerance = 0.0 if self.rounded is None else 1e-12 * self.rounded
        refuse_excess_subtraction(
            are_impossible(self.weight, self.first, self.products, self._pairs, tolerance)
        )

    def refuse_lost_precision(self, about_mean: bool = True, names: tuple[object, ...] | None = None) -> None:
        """Raise if a column's sum of squares is too small compared with its rounding errors.

        Subtracting rows does not subtract the rounding errors of their sums, so a column may be left with
        little but errors. Squares are about the mean, or about zero if `about_mean` is false. `names` are
        the names of the features, for the message.
        """
        if self.rounded is not None:
            remaining = np.diagonal(self.scatter if about_mean else self._full_products, axis1=-2, axis2=-1)
            is_lost = find_lost_columns(remaining, self.rounded)
            refuse_lost_precision(
                is_lost, None if names is None else (*names, *(f"target {j}" for j in range(self.targets)))
            )

    @property
    def _n_columns(self) -> int:
        return self.width + self.targets

    @property
    def _pairs(self) -> ColumnPairs:
        return triangle(self._n_columns)

    @property
    def _full_products(self) -> Floats:
        return unpack(self.products.value, self._n_columns)
