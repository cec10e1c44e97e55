"""rows with gaps → what is expected of their moments, given the current components: EM.

What is missing in a row is guessed from what is there. Its expected values are filled in, and what they leave
uncertain is added to the squares; from these sums the components are inferred as from any. Each such step
makes what was seen more probable. (Tipping and Bishop 1999; only the gaps are hidden, not the codes, so that
without gaps one step is the answer.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import threads
from tamis.arrays import Array, argsort_codes
from tamis.linalg import Cholesky
from tamis.models.components.model import Components, components
from tamis.stats import Moments
from tamis.tables import runs

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]
_LOG_2PI = float(np.log(2.0 * np.pi))
_LEAST = 1e-10  # of the mean variance, below which none is let: a Gaussian without variance has no density
_CLEAR = 1e-6  # of the largest variance, above which noise lets K × K matrices do the work of d × d ones

_CELLS = 1 << 18  # of runs of rows, whose patterns are solved together: 2 MB
_CALL = 2e6  # multiplications that take as long as to solve a pattern by itself: some 0.2 ms


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Rows by what is missing of them."""

    x: Array  # (n, d), NaN where missing
    weights: Array | None  # (n,)
    whole: Moments | None  # of the rows without gaps; None if there are none
    masks: Mask  # (P, d): what is there, in each pattern of gaps
    rows: Indices  # (m,): those with gaps, pattern by pattern
    pattern: Indices  # (m,): of each of them; ascending

    @classmethod
    def of(cls, x: Array, weights: Array | None = None, exact: bool = False) -> "Gaps":
        """File the rows; one in which nothing is there says nothing, and is left out."""
        there = ~np.isnan(x)
        full = there.all(axis=1)
        whole = None
        if full.any():
            own = None if weights is None else weights[full]
            whole = Moments.observe(x[full], own, form="full", exact=exact)
        broken = np.flatnonzero(~full & there.any(axis=1))
        packed = np.packbits(there[broken], axis=1)
        _, first, pattern = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        order = argsort_codes(pattern.ravel(), len(first))
        return cls(x, weights, whole, there[broken[first]], broken[order], pattern.ravel()[order])

    def observe(self, given: Components) -> tuple[Moments, float]:
        """Expected moments of the rows, and Σ w log p of what is there of them."""
        log_likelihood = 0.0 if self.whole is None else given.log_likelihood(self.whole)
        guessed, told, uncertain = _Density.of(given).guess(self)
        return self._expected(guessed, uncertain), log_likelihood + float(self.weight_of() @ told)

    def start(self, count: int | None) -> tuple[Components, float]:
        """Components of the rows with means for gaps, and the least variance that any may have."""
        seen = Moments.observe(self.x, self.weights, missing=True)
        mean, variance = seen.mean, seen.variance
        if np.isnan(mean).any():
            column = int(np.isnan(mean).argmax())
            raise ValueError(f"column {column} holds nothing but NaN, expected some numbers: drop the column")
        floor = _LEAST * float(variance.mean()) or 1e-300
        rows = self.x[self.rows]
        gone = np.isnan(rows)
        uncertain = np.diag((self.weight_of() @ gone) * np.maximum(variance, floor))
        statistic = self._expected(np.where(gone, mean, rows), uncertain)
        return components(statistic, count, float(statistic.weight.value), floor), floor

    def weight_of(self, own: slice = slice(None)) -> Array:
        """The weights of those with gaps, or of a slice of them (m,)."""
        rows = self.rows[own]
        return np.ones(len(rows)) if self.weights is None else self.weights[rows]

    def _expected(self, guessed: Array, uncertain: Array) -> Moments:
        """Of all rows, if these (m, d) stand for those with gaps, and this (d, d) is what they leave open."""
        statistic = self.whole
        if len(guessed):
            nothing = np.zeros(guessed.shape[1])
            weights = None if self.weights is None else self.weights[self.rows]
            found = Moments.observe(guessed, weights, form="full")
            found += Moments.about(nothing, np.zeros(()), nothing, uncertain, form="full")
            statistic = found if statistic is None else statistic + found
        if statistic is None:
            raise ValueError("every value is missing, expected some numbers: give rows that hold some")
        return statistic


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of EM: what was guessed, and what is inferred from it."""

    statistic: Moments  # expected, given the components of the step before
    found: Components
    log_likelihood: float  # Σ w log p of what was seen, under the components of the step before


def refine(gaps: Gaps, count: int | None) -> Iterator[Step]:
    """Steps of EM, whose log-likelihood never falls; the caller's loop decides when to stop.

    Variances are of maximum likelihood here: sums of squares divided by the weight.
    """
    given, floor = gaps.start(count)
    while True:
        statistic, log_likelihood = gaps.observe(given)
        given = components(statistic, count, float(statistic.weight.value), floor)
        yield Step(statistic, given, log_likelihood)


def filled(x: Array, given: Components) -> Array:
    """The rows with what is expected where they have gaps, given what is there (n, d)."""
    found, gaps = x.copy(), Gaps.of(x)
    found[np.isnan(x).all(axis=1)] = given.mean
    found[gaps.rows] = _Density.of(given).guess(gaps)[0]
    return found


def log_densities(x: Array, given: Components) -> Array:
    """log p of what is there of each row (n,)."""
    given.refuse_flat()
    found, gaps = np.zeros(len(x)), Gaps.of(x)  # of nothing, the density is 1
    full = ~np.isnan(x).any(axis=1)
    found[full] = given.log_densities(x[full])
    found[gaps.rows] = _Density.of(given).guess(gaps)[1]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Density:
    """The Gaussian of the components, as it is asked about parts of rows.

    Three forms of the same algebra; test_all_ways_of_guessing_are_one keeps them equal.
    """

    mean: Array  # (d,)
    factors: Array  # (K, d): covariance = factorsᵀ factors + noise
    noise: float
    is_clear: bool  # whether the factors may do
    covariance: Array | None  # (d, d); None where, pattern by pattern, the factors do

    @classmethod
    def of(cls, given: Components) -> "_Density":
        noise = max(given.noise, _LEAST * float(given.variances.mean()), 1e-300)
        factors = np.sqrt(np.maximum(given.variances - given.noise, 0.0))[:, None] * given.directions
        is_clear = bool(noise > _CLEAR * given.variances[0])
        if is_clear and 2 * given.count < len(given.mean):
            return cls(given.mean, factors, noise, is_clear, None)
        covariance = given.covariance()
        covariance[np.diag_indices(len(covariance))] += max(noise - given.noise, 0.0)
        return cls(given.mean, factors, noise, is_clear, covariance)

    def guess(self, gaps: Gaps) -> tuple[Array, Array, Array]:
        """Of rows with gaps: what is expected of them (m, d), log p (m,), and Σ w covariance (d, d)."""
        x, (k, d) = gaps.x[gaps.rows], self.factors.shape
        told, uncertain = np.empty(len(x)), np.zeros((d, d))
        with threads.one_blas_thread:  # each pattern's matrices are small
            if self._all_at_once(gaps):
                own = list(runs(len(x), k * (d + k), _CELLS))
                for rows, found in zip(own, threads.ahead(partial(self._of_run, gaps), own), strict=True):
                    x[rows], told[rows], part = found
                    uncertain += part
                return x, told, uncertain
            weight = gaps.weight_of()
            cuts = np.searchsorted(gaps.pattern, np.arange(len(gaps.masks) + 1)).tolist()
            for there, start, stop in zip(gaps.masks, cuts, cuts[1:], strict=False):
                x[start:stop, ~there], covariance, told[start:stop] = self._of_pattern(x[start:stop], there)
                uncertain[np.ix_(~there, ~there)] += weight[start:stop].sum() * covariance
        return x, told, uncertain

    def _all_at_once(self, gaps: Gaps) -> bool:
        """Whether many patterns are solved sooner together than each by itself.

        Measured in multiplications of a matrix product, from 20 to 1,000 columns.
        """
        k, d = self.factors.shape
        of_pattern, of_row = k * d * (d + 2 * k) + 12 * k**3, 64 * (k * k + d)
        patterns = len(gaps.masks)
        return self.is_clear and of_pattern * patterns + of_row * len(gaps.rows) < _CALL * patterns

    def _of_run(self, gaps: Gaps, own: slice) -> tuple[Array, Array, Array]:
        """The same of some rows of many patterns, by factors, with one product for all patterns."""
        x, (k, d) = gaps.x[gaps.rows[own]], self.factors.shape
        first, last = gaps.pattern[own][[0, -1]].tolist()
        pattern, masks = gaps.pattern[own] - first, gaps.masks[first : last + 1]
        pairs = (self.factors[:, None] * self.factors).reshape(k * k, d)
        inner = (masks @ pairs.T).reshape(-1, k, k) + self.noise * np.eye(k)
        factor = Cholesky.of(inner, "posterior precision of the codes")
        whiten = factor.inverse_factor()
        gone = np.isnan(x)
        about = np.where(gone, 0.0, x - self.mean)
        white = np.einsum("nab,nb->na", whiten[pattern], about @ self.factors.T)
        codes = np.einsum("nab,na->nb", whiten[pattern], white)
        squares = (np.square(about).sum(axis=1) - np.square(white).sum(axis=1)) / self.noise
        seen = masks.sum(axis=1)
        log_scale = factor.log_determinant() + (seen - k) * np.log(self.noise) + seen * _LOG_2PI
        told = -0.5 * (log_scale[pattern] + squares)
        weight = np.bincount(pattern, gaps.weight_of(own), len(masks))
        scale = np.sqrt(weight)[:, None] * ~masks
        spread = (whiten.reshape(-1, k) @ self.factors).reshape(-1, k, d) * scale[:, None]
        spread = spread.reshape(-1, d)  # its products are Σ w factorsᵀ inner⁻¹ factors of what is missing
        uncertain = self.noise * (spread.T @ spread + np.diag(weight @ ~masks))
        return np.where(gone, self.mean + codes @ self.factors, x), told, uncertain

    def _of_pattern(self, x: Array, there: Mask) -> tuple[Array, Array, Array]:
        """Of rows alike in what is there: means (n, m) and covariance (m, m) of the rest, and log p (n,)."""
        about, gone = x[:, there] - self.mean[there], ~there
        if self.covariance is None:
            seen, unseen = self.factors[:, there], self.factors[:, gone]
            inner = seen @ seen.T + self.noise * np.eye(len(seen))
            factor = Cholesky.of(inner, "posterior precision of the codes")
            along = about @ seen.T
            codes = factor.solve(along.T).T
            mean = codes @ unseen
            covariance = self.noise * (np.eye(unseen.shape[1]) + unseen.T @ factor.solve(unseen))
            squares = (np.square(about).sum(axis=1) - (along * codes).sum(axis=1)) / self.noise
            outside = about.shape[1] - len(seen)
            log_scale = float(factor.log_determinant()) + outside * float(np.log(self.noise))
        else:
            factor = Cholesky.of(self.covariance[np.ix_(there, there)], "covariance of what is there")
            white = factor.whiten(about)
            cross = factor.whiten(self.covariance[np.ix_(gone, there)])
            mean = white @ cross.T
            covariance = self.covariance[np.ix_(gone, gone)] - cross @ cross.T
            squares = np.square(white).sum(axis=1)
            log_scale = float(factor.log_determinant())
        told = -0.5 * (about.shape[1] * _LOG_2PI + log_scale + squares)
        return self.mean[gone] + mean, covariance, told
