"""data → Moments: weight, Σx and Σxxᵀ, the sufficient statistic of every Gaussian model."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from tamis import _kernels, arrays
from tamis._kernels import Floats, Words
from tamis.stats.exact import Exact
from tamis.stats.keys import Keys, Labels
from tamis.stats.products import (
    ColumnPairs,
    are_impossible,
    compute_scatter,
    cross_terms,
    describe_moments,
    find_lost_columns,
    pack,
    refuse_lost_precision,
    second_moments,
    sum_unweighted_rows,
    triangle,
    unpack,
)
from tamis.stats.rows import Rows, can_add_row, can_square
from tamis.stats.sums import Sums, refuse_excess_subtraction

Form = Literal["full", "diagonal", "none"]

# The kernel of `observe_columns` sorts rows by group, 4,096 at a time. This is slow if few of these are in
# the same group: there must be _MIN_GROUP_SIZE rows per group on average, and at most _MAX_GROUPS groups.
_MIN_GROUP_SIZE, _MAX_GROUPS = 256, 64
# `observe` reads rows once if they have at least _MIN_VALUES values, and at most _MAX_SUMS sums (one for each
# column and group), so that the sums stay in the cache.
_MIN_VALUES, _MAX_SUMS = 1 << 14, 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments(Sums):
    """Exact sums of rows and of their squares or products, so that variances are accurate for any mean.

    The diagonal form is a batch of univariate moments: each column has a weight of its own, from
    which its missing values are left out. Moments of one-dimensional data have no axis of columns, unless
    they are in the full form. The form "none" has no squares.

    >>> day, night = Moments.observe([[1e8], [1e8 + 1]]), Moments.observe([[1e8 + 2]])
    >>> (day + night).mean.tolist(), (day + night - day) == night
    ([100000001.0], True)
    """

    weight: Exact  # batch in the full form; batch + (d,) in the forms "diagonal" and "none"
    first: Exact  # batch + (d,)
    second: Exact | None = None  # batch + (d,) diagonal; batch + (d(d+1)/2,) full, packed; None in "none"
    form: Form = "diagonal"

    @classmethod
    def observe(
        cls,
        data: object,
        weights: object = None,
        by: object = None,
        form: Form = "diagonal",
        exact: bool = False,
        missing: bool = False,
    ) -> Self:
        """Sum the rows of the data (n, d), by label if `by` gives a label per row.

        Sums of the diagonal form are exact. In the full form, by default, sums of products about the mean are
        rounded; the scatter then has a relative error below 1e-12. `exact=True` avoids the rounding, and
        takes about six times as long for many rows. Products are never rounded if the data have at most
        65,536 values (16,384 if there are weights) or at most 16 rows per label on average, nor are those of
        outliers (`tamis.stats.outliers`: rows very far from the median of their label). The exception: with
        weights, products below 1e-290 may be rounded, because their rounding errors underflow.
        `missing=True` leaves NaN out of the sums of its column; the full form does not accept this argument.
        """
        if form not in ("full", "diagonal", "none"):
            raise ValueError(f"got form={form!r}, expected 'full', 'diagonal' or 'none'")
        if missing and form == "full":
            raise ValueError(
                "got missing=True for the full form, expected form='diagonal', or rows without NaN"
            )
        table = arrays.to_matrix(data)
        moments: Self | None = None  # of one of the faster ways, if it applies
        if form == "full" and not exact and weights is None and by is None:
            moments = cls.observe_unweighted(table.values)
        elif form == "diagonal" and weights is None and not table.had_one_axis:
            moments = cls._observe_in_one_pass(table.values, by)
        if moments is not None:
            return moments
        rows = Rows.of(table, weights, by, missing)
        second: Exact | None = None
        rounded: Floats | None = None
        if form == "full":
            weight, first = rows.sum_weights(), rows.sum_values()
            second, rounded = second_moments(rows, exact, first)
        elif form == "diagonal":
            weight, (first, second) = rows.sum_weights_by_column(), rows.sum_powers()
        else:
            weight, first = rows.sum_weights_by_column(), rows.sum_values()
        moments = cls(weight=weight, first=first, second=second, form=form, keys=rows.keys, rounded=rounded)
        if rows.table.had_one_axis and form != "full":
            moments = moments.with_fields(
                **{name: _drop_column(part) for name, part in moments.parts().items()}
            )
        return moments.drop_zeros()

    @classmethod
    def observe_columns(cls, columns: list[Floats], by: Labels | None = None) -> Self | None:
        """Sum columns (n,), each an array of its own, in one pass without a copy of the rows.

        The result equals that of `observe` in the diagonal form. Return None if this would be no faster
        (fewer than 256 rows per label, or more than 64 labels), if there is not one label per row, or if a
        value is not finite or too large to be squared, so that `observe` will raise or leave NaN out.
        """
        keys, group = (None, None) if by is None else (by.keys, by.group)
        groups, n = 1 if keys is None else len(keys), len(columns[0])
        if n < _MIN_GROUP_SIZE * groups or groups > _MAX_GROUPS or (group is not None and len(group) != n):
            return None
        # Magnitudes are below 2**exponent; `nonfinite` is the first column with NaN or ∞, or -1.
        sums, exponent, nonfinite = _kernels.deposit_columns(columns, group, groups, power=2)
        if nonfinite >= 0 or not can_square(exponent):
            return None
        return cls._make_from_sums(sums, n, len(columns), by)

    @classmethod
    def _observe_in_one_pass(cls, values: Floats, by: object) -> Self | None:
        """Sum rows (n, d) without weights in the diagonal form, reading them once.

        Return None if this would be no faster (few values, few rows per label, or many sums), if there is not
        one label per row, or if a value is not finite or too large to be squared.
        """
        n, d = values.shape
        if values.size < _MIN_VALUES:
            return None
        labels = by if by is None or isinstance(by, Labels) else Labels.of(by)
        groups = 1 if labels is None else len(labels.keys)
        if n < _MIN_GROUP_SIZE * groups or groups * d > _MAX_SUMS:
            return None
        if labels is not None and len(labels) != n:
            return None
        sums, exponent, is_finite = _kernels.deposit_rows(
            values, None if labels is None else labels.group, groups, power=2
        )
        return cls._make_from_sums(sums, n, d, labels) if is_finite and can_square(exponent) else None

    @classmethod
    def _make_from_sums(cls, sums: tuple[tuple[Words, int], ...], n: int, d: int, by: Labels | None) -> Self:
        """Make the diagonal form from the sums of n rows and of their squares, each as words and `low`."""
        shape = (d,) if by is None else (len(by.keys), d)
        first, second = [Exact(words.reshape(len(words), *shape), low) for words, low in sums]
        if by is None:
            weight = Exact.count(n, shape)
        else:
            weight = Exact.from_integers(np.repeat(by.counts[:, None], d, axis=1))
        return cls(
            weight=weight, first=first, second=second, keys=None if by is None else by.keys
        ).drop_zeros()

    @classmethod
    def observe_unweighted(cls, rows: Floats | list[Floats]) -> Self | None:
        """Sum rows (n, d), or a list of columns (n,), in the full form, without a copy of them.

        Return None if products must be summed exactly, because there are few rows or values, or may be
        outliers (see `observe`); also if a value is not finite or too large to be squared.
        """
        sums = sum_unweighted_rows(rows)
        if sums is None:
            return None
        first, second, rounded = sums
        weight = Exact.count(len(rows[0]) if isinstance(rows, list) else len(rows), ())
        return cls(weight=weight, first=first, second=second, form="full", rounded=rounded).drop_zeros()

    def add_row(self, values: Floats, label: Hashable = None, weight: float = 1.0) -> Self:
        """Add one row (d,): the same as adding what `observe` returns for the row, in less time.

        Values that are NaN are left out; the full form refuses them. `label` is used only if the moments are
        by label.

        >>> moments = Moments.observe([[1.0, 2.0]])
        >>> moments.add_row(np.array([3.0, np.nan])).mean.tolist()
        [2.0, 2.0]
        """
        group = 0 if self.keys is None else self.keys.position(label)
        power = 1 if self.second is None else 2
        if (
            group is None  # the label is new
            or self.form == "full"
            or values.shape != self.first.shape[-1:]
            or not can_add_row(values, weight, power)
        ):
            by = None if self.keys is None else [label]
            missing = self.form != "full"
            return self + type(self).observe(values[None], [weight], by, self.form, missing=missing)
        sums = {"weight": self.weight.add_row(group, values, weight, power=0)}
        sums["first"] = self.first.add_row(group, values, weight, power=1)
        if self.second is not None:
            sums["second"] = self.second.add_row(group, values, weight, power=2)
        return self.with_fields(**sums)

    @classmethod
    def about(
        cls,
        centre: Floats,
        weight: Floats,
        first: Floats,
        second: Floats | None = None,
        form: Form = "diagonal",
        keys: Keys | None = None,
    ) -> Self:
        """Make moments from sums of x − centre, as the expectation step of EM computes them.

        `weight` is Σw, `first` is Σw(x − centre) (..., d), and `second` is Σw(x − centre)² (..., d), or
        Σw(x − centre)(x − centre)ᵀ (..., d, d) in the full form. Rounding errors of the variances are
        smallest if the centre is near the mean.
        """
        total, centred = Exact.of(weight), Exact.of(first)
        column_weight = total.reindex(lambda words: words[..., None]) if form == "full" else total
        sums = centred + column_weight.times(centre)
        squares = None
        if second is not None:
            pairs = triangle(first.shape[-1]) if form == "full" else None
            packed = pack(second) if form == "full" else second
            squares = Exact.of(packed) + cross_terms(total, sums, centre, pairs)
        rounded = second  # of each column: the caller rounded these sums of squares
        if second is not None and form == "full":
            rounded = np.diagonal(second, axis1=-2, axis2=-1)
        moments = cls(weight=total, first=sums, second=squares, form=form, keys=keys)
        return moments.with_fields(rounded=None if rounded is None else np.abs(rounded)).drop_zeros()

    @classmethod
    def from_centred_products(
        cls, weight: Exact, first: Exact, centre: Floats, products: Floats, keys: Keys | None = None
    ) -> Self:
        """Make the full form from exact Σw and Σwx, and rounded Σw(x − centre)(x − centre)ᵀ (..., d, d)."""
        squares = Exact.of(pack(products)) + cross_terms(weight, first, centre, triangle(first.shape[-1]))
        rounded = np.abs(np.diagonal(products, axis1=-2, axis2=-1))
        moments = cls(weight=weight, first=first, second=squares, form="full", keys=keys, rounded=rounded)
        return moments.drop_zeros()

    def refuse_impossible(self) -> None:
        """Raise if no data has these moments: more was subtracted than was added, beyond rounding errors."""
        # A rounded sum of products has a relative error below 1e-12 (see `observe`).
        tolerance = 0.0 if self.rounded is None else 1e-12 * self.rounded
        refuse_excess_subtraction(
            are_impossible(self.weight, self.first, self.second, self._pairs, tolerance)
        )

    def refuse_lost_precision(self, prior_scatter: Floats | float = 0.0, pooled: bool = False) -> None:
        """Raise if a column's scatter is too small compared with its rounding errors.

        Subtracting rows does not subtract the rounding errors of their sums. `prior_scatter`, which a prior
        adds to the scatter, counts as part of it. If `pooled`, the scatter and the errors are first summed
        over labels, for models whose labels share one covariance.
        """
        if self.rounded is None:
            return
        remaining, rounded = self.spread, self.rounded
        if pooled:
            remaining, rounded = remaining.sum(axis=0), rounded.sum(axis=0)
        refuse_lost_precision(find_lost_columns(remaining + prior_scatter, rounded))

    def describe_with_pooled(self) -> Floats:
        """Return weight, mean, scatter and shift by label and column (4, labels + 1, d): diagonal form only.

        The last entry along the axis of labels is for all labels together. The first three equal `weight`,
        `mean` and `scatter` of this statistic and of `pooled()`, but all are computed in one pass. The shift
        is a label's mean minus the mean of all rows, computed from the exact sums, so that no digits cancel.
        """
        if self.second is None or self.form == "full" or self.keys is None:
            raise ValueError(f"got {self.describe()}, expected diagonal Moments by label")
        return describe_moments(self.weight, self.first, self.second, pooled=True)

    @property
    def mean(self) -> Floats:
        """Σx / weight (..., d); NaN where the weight is 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.first.value / self._weight_by_column())

    @property
    def scatter(self) -> Floats:
        """Σ(x − mean)(x − mean)ᵀ: (..., d, d) full, (..., d) diagonal; 0 where the weight is 0.

        A large mean costs no precision: see `products.compute_scatter`.
        """
        if self.second is None:
            raise ValueError("these Moments hold no squares: observe with form='diagonal' or form='full'")
        scatter = compute_scatter(self.weight, self.first, self.second, self._pairs)
        return unpack(scatter, self.first.shape[-1]) if self.form == "full" else scatter

    @property
    def spread(self) -> Floats:
        """Σ(x − mean)² of each column (..., d): only the scatter's diagonal is computed."""
        if self.form != "full" or self.second is None:
            return self.scatter
        left, right = triangle(self.first.shape[-1])
        squares = self.second.reindex(lambda words: words[..., left == right])
        weight = self.weight.reindex(lambda words: np.repeat(words[..., None], self.first.shape[-1], axis=-1))
        return compute_scatter(weight, self.first, squares, None)

    @property
    def variance(self) -> Floats:
        """Maximum-likelihood variances (..., d): the scatter's diagonal over the weight."""
        scatter = self.scatter if self.form != "full" else np.diagonal(self.scatter, axis1=-2, axis2=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(scatter / self._weight_by_column())

    @property
    def covariance(self) -> Floats:
        """Maximum-likelihood covariances (..., d, d) of the full form."""
        if self.form != "full":
            raise ValueError(f"these Moments are {self.form}: observe with form='full' for a covariance")
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.scatter / self.weight.value[..., None, None])

    @property
    def _pairs(self) -> ColumnPairs | None:
        """The two columns of each entry of `second` in the full form; in the others, None."""
        return triangle(self.first.shape[-1]) if self.form == "full" else None

    def _weight_by_column(self) -> Floats:
        """Return the weight with an axis of columns, which has length 1 in the full form."""
        return self.weight.value if self.form != "full" else self.weight.value[..., None]


def _drop_column(part: Exact) -> Exact:
    """Drop the axis of columns, which has length 1."""
    return part.reindex(lambda words: words[..., 0])
