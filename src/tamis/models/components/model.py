"""rows → full Moments → the directions of largest variance, and a Gaussian that knows only these.

The Gaussian is that of probabilistic PCA: variance λ along each direction kept, and one variance, the mean of
what is left over, along all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.linalg import completed, leading, spectrum
from tamis.models.components.choice import held_out_counts, minka
from tamis.stats import Moments
from tamis.tables import runs

Count = int | float | str | None
_LOG_2PI = float(np.log(2.0 * np.pi))
_NEAR = 16.0  # of a mean's square to the variance: up to here two bits are lost by taking it away last
_CANCELS = 1e-4  # of all squares, below which a difference from them has lost digits that count
_LARGE = 300  # columns, above which a tenth of the directions or fewer take half the time of all
_CELLS = 1 << 18  # of rows that are about the mean at a time: 2 MB


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Directions of largest variance, largest first, and what is left over."""

    mean: Array  # (d,)
    directions: Array  # (K, d), orthonormal: the entry of largest size is positive
    variances: Array  # (K,)
    noise: float  # mean variance in each of the d − K directions left over; 0 if there are none
    total: float  # of all variances
    weight: float  # of the rows
    freedom: float  # what sums of squares were divided by
    scores: Array | None = None  # of each number of directions, from 1 on, if the number was chosen by them
    error: float = 0.0  # bound on the largest singular value left over; 0 where it is exact

    @property
    def count(self) -> int:
        """The number of directions."""
        return len(self.variances)

    @property
    def ratios(self) -> Array:
        """The variances' shares of the total (K,); 0 if nothing varies."""
        return self.variances / self.total if self.total > 0 else np.zeros(self.count)

    @property
    def scale(self) -> Array:
        """Standard deviations (K,), for whitening; 1 where there is no variance to speak of."""
        least = 1e-13 * float(self.variances.max(initial=0.0))
        return np.where(self.variances > least, np.sqrt(self.variances), 1.0)

    def codes(self, x: Array) -> Array:
        """Rows (n, d) along the directions, about the mean (n, K)."""
        if float(self.mean @ self.mean) <= _NEAR * self.total:
            return np.asarray(x @ self.directions.T - self.directions @ self.mean)
        found = np.empty((len(x), self.count))
        for rows in runs(len(x), len(self.mean), _CELLS):
            np.matmul(x[rows] - self.mean, self.directions.T, out=found[rows])
        return found

    def rows(self, codes: Array) -> Array:
        """The rows (n, d) that codes (n, K) stand for."""
        return np.asarray(codes @ self.directions + self.mean)

    def residuals(self, x: Array) -> Array:
        """What is left of rows (n, d) when the mean and what their codes stand for are taken away."""
        about = x - self.mean
        return np.asarray(about - (about @ self.directions.T) @ self.directions)

    def log_densities(self, x: Array) -> Array:
        """log p(x) of rows (n, d) under the Gaussian (n,)."""
        self.refuse_flat()
        return self.log_densities_of(*self.squares(x))

    def log_densities_of(self, along: Array, outside: Array) -> Array:
        """The same, of rows with these `squares`."""
        found = along @ (1.0 / self.variances)
        if self.count < len(self.mean):
            found += outside / self.noise
        return np.asarray(-0.5 * (found + self._log_scale()))

    def squares(self, x: Array) -> tuple[Array, Array]:
        """Of rows (n, d): squared codes (n, K), and ‖x − reconstruction‖² (n,)."""
        along, outside = np.empty((len(x), self.count)), np.empty(len(x))
        for rows in runs(len(x), len(self.mean), _CELLS):
            about = x[rows] - self.mean
            codes = about @ self.directions.T
            about -= codes @ self.directions
            outside[rows] = np.einsum("ij,ij->i", about, about)
            np.square(codes, out=along[rows])
        return along, outside

    def log_likelihood(self, statistic: Moments) -> float:
        """Σ w log p(x) of the rows of a statistic, these or others: no row is looked at."""
        self.refuse_flat()
        weight = float(statistic.weight.value)
        shift = statistic.mean - self.mean
        about = statistic.scatter + weight * shift[:, None] * shift
        along = np.einsum("kd,kd->k", self.directions @ about, self.directions)
        squares = float(along @ (1.0 / self.variances))
        if self.count < len(self.mean):
            total = float(np.trace(about))
            outside = total - float(along.sum())
            if outside < _CANCELS * total:  # the rounding of the large is not let in
                values, vectors = spectrum(about)
                rest = vectors - self.directions.T @ (self.directions @ vectors)
                outside = float(np.square(rest).sum(axis=0) @ values)
            squares += outside / self.noise
        return -0.5 * (weight * self._log_scale() + squares)

    def covariance(self) -> Array:
        """Of the Gaussian (d, d)."""
        found = self._with_spread(np.maximum(self.variances - self.noise, 0.0), self.noise)
        return 0.5 * (found + found.T)

    def precision(self) -> Array:
        """The inverse of the covariance (d, d)."""
        self.refuse_flat()
        rest = 1.0 / self.noise if self.count < len(self.mean) else 0.0
        return self._with_spread(1.0 / self.variances - rest, rest)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Rows (n, d) from the Gaussian."""
        spread = np.sqrt(np.maximum(self.variances - self.noise, 0.0))
        found = self.rows(rng.normal(size=(n, self.count)) * spread)
        return np.asarray(found + np.sqrt(self.noise) * rng.normal(size=found.shape))

    @property
    def is_flat(self) -> bool:
        """Whether the Gaussian has no variance in some direction, and so no density."""
        return not (self.variances > 0).all() or (self.count < len(self.mean) and not self.noise > 0)

    def refuse_flat(self) -> None:
        """Raise if there is no density."""
        d = len(self.mean)
        if self.is_flat:
            live = int((self.variances > 0).sum())
            fewer = f"choose fewer than {live} components, or " if live > 1 else ""
            raise ValueError(
                f"the rows vary in {live} directions of {d}, and so have no density with n_components="
                f"{self.count}, expected some variance left over: {fewer}drop columns that repeat others or "
                "do not vary"
            )

    def _log_scale(self) -> float:
        d = len(self.mean)
        rest = (d - self.count) * float(np.log(self.noise)) if self.count < d else 0.0
        return d * _LOG_2PI + float(np.log(self.variances).sum()) + rest

    def _with_spread(self, along: Array, everywhere: float) -> Array:
        found = (self.directions.T * along) @ self.directions
        found[np.diag_indices(len(found))] += everywhere
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """The pair (observe, infer). `count` is how many directions are kept:

    a whole number, None (all), a share of the variance, "mle" (Minka's evidence), or "held-out": the one that
    gives the largest density to folds that were left out, for which the statistic must be by fold.
    """

    count: Count = None
    exact: bool = False

    def observe(self, data: object, given: object = None, weights: object = None) -> Moments:
        """Sum the rows and their products; nothing that is inferred changes them."""
        return Moments.observe(data, weights, form="full", exact=self.exact)

    def infer(self, statistic: Moments) -> Components:
        """The directions; sums of squares are divided by the weight less one, as for a sample's variance.

        >>> model = PrincipalComponents(1)
        >>> found = model.infer(model.observe([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]))
        >>> found.variances.round(6).tolist(), found.noise
        ([5.0], 0.0)
        """
        if self.count != "held-out":
            return components(statistic if statistic.keys is None else statistic.pooled(), self.count)
        if statistic.keys is None:
            raise ValueError(
                "got n_components='held-out' for rows that were learned without folds, expected it when they "
                "are learned: set it and fit again, or give a whole number"
            )
        return self.infer_parts([statistic.at(key) for key in statistic.keys])

    def infer_parts(self, parts: Sequence[Moments]) -> Components:
        """From folds that are summed apart; each is held out in turn, if that is how the number is chosen."""
        whole = sum(parts[1:], start=parts[0])
        if self.count != "held-out":
            return components(whole, self.count)
        tried = held_out_counts(parts)
        return replace(components(whole, tried.best), scores=tried.log_densities)


def components(
    statistic: Moments, count: Count = None, freedom: float | None = None, floor: float = 0.0
) -> Components:
    """Decompose the scatter, divided by `freedom` or by the weight less one; no variance is below `floor`.

    Variances below 1e-13 of the largest are lost in the rounding of the sum of products and are 0 here, but
    where only the columns' units are so far apart: see `linalg.spectrum`.
    """
    weight, d = float(statistic.weight.value), statistic.first.shape[-1]
    own = checked_freedom(weight) if freedom is None else freedom
    refuse_few_rows(count, weight, d)
    scatter, number = statistic.scatter, whole(count) or 0
    with threads.blas_of(d):
        few = leading(scatter, number) if d > _LARGE and 1 <= number <= min(d // 10, weight) else None
        values, vectors = spectrum(scatter) if few is None else few
    order = np.argsort(values)[::-1]
    rest = 0.0 if few is None else (float(np.trace(scatter)) - float(values.sum())) / (d - number)
    variances = np.full(d, rest / own)
    variances[: len(order)] = values[order] / own
    total = max(float(np.trace(scatter)) / own, 0.0)
    k, scores = chosen(count, variances, weight, len(order), total=total)
    directions = vectors[:, order[:k]]
    if directions.shape[1] < k:  # directions without variance: any will do
        more = completed(directions) if directions.shape[1] else np.eye(d)
        directions = np.concatenate([directions, more[:, : k - directions.shape[1]]], axis=1)
    return Components(
        statistic.mean,
        signed(directions.T),
        np.maximum(variances[:k], floor),
        max(float(variances[k:].mean()), floor) if k < d else 0.0,
        total,
        weight,
        own,
        scores,
    )


def checked_freedom(weight: float) -> float:
    """The weight less one, of which something must be left."""
    if not weight > 1.0:
        raise ValueError(
            f"got n_samples={weight:g} in weight, expected above 1: one sample has no variance, learn more"
        )
    return weight - 1.0


def refuse_few_rows(count: Count, weight: float, columns: int) -> None:
    """Raise if the evidence is asked for of fewer rows than columns."""
    if isinstance(count, str) and count == "mle" and weight < columns:
        raise ValueError(
            f"got n_components='mle' for {weight:g} rows of {columns} columns, expected at least as many "
            "rows as columns: give a whole number"
        )


def signed(directions: Array) -> Array:
    """Rows (K, d) turned so that the entry of largest size is positive: as scikit-learn turns them."""
    largest = np.abs(directions).argmax(axis=1)
    signs = np.where(directions[np.arange(len(directions)), largest] < 0, -1.0, 1.0)
    return np.ascontiguousarray(directions * signs[:, None])


def chosen(
    count: Count,
    variances: Array,
    weight: float,
    rank: int,
    columns: int | None = None,
    total: float | None = None,
) -> tuple[int, Array | None]:
    """How many directions to keep of those with these variances (r,), largest first; and scores of all.

    `columns` is how many columns the rows have, if not r; `total` the variance that shares are of, if not
    their sum. Shares are summed as `explained_variance_ratio_` is: one read off it is met to the bit.
    """
    d = len(variances)
    most = min(d, max(int(np.ceil(weight)), rank))
    given: Any = count
    if given is None:
        return most, None
    if isinstance(given, str):
        if given != "mle":
            raise ValueError(_expected(given, most))
        scores = minka(variances, weight)
        return (int(np.argmax(scores)) + 1 if len(scores) else 1), scores
    if (number := whole(given)) is not None:
        if not 1 <= number <= most:
            rows = f"{weight:g} rows of {d if columns is None else columns} columns"
            remedy = "give fewer" if number > most else "give at least 1, or None for all"
            raise ValueError(f"got n_components={number} for {rows}, expected 1 to {most}: {remedy}")
        return number, None
    if isinstance(given, Real) and 0.0 < float(given) < 1.0:
        whole_variance = float(variances.sum()) if total is None else total
        if not whole_variance > 0:
            return 1, None
        ratios = np.cumsum(variances / whole_variance)
        return min(int(np.searchsorted(ratios, float(given), side="right")) + 1, most), None
    raise ValueError(_expected(given, most))


def whole(count: object) -> int | None:
    """The number itself, if it is a whole one."""
    return int(count) if isinstance(count, int | np.integer) and not isinstance(count, bool) else None


def _expected(given: object, most: int) -> str:
    return (
        f"got n_components={given!r}, expected None, a whole number from 1 to {most}, a share of the "
        "variance between 0 and 1, 'mle' or 'held-out'"
    )
