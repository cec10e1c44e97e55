"""rows with gaps → what is expected of their moments, given the current components: EM.

What is missing in a row is guessed from what is there. Its expected values are filled in, and what they leave
uncertain is added to the squares; from these sums the components are inferred as from any. Each such step
makes what was seen more probable. (Tipping and Bishop 1999; only the gaps are hidden, not the codes, so that
without gaps one step is the answer.)
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky
from tamis.models.components.model import Components, components
from tamis.stats import Moments

Mask = NDArray[np.bool_]
_LOG_2PI = float(np.log(2.0 * np.pi))
_LEAST = 1e-10  # of the mean variance, below which none is let: a Gaussian without variance has no density
_CLEAR = 1e-6  # of the largest variance, above which noise lets K × K matrices do the work of d × d ones


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Rows by what is missing of them."""

    x: Array  # (n, d), NaN where missing
    weights: Array | None  # (n,)
    whole: Moments | None  # of the rows without gaps; None if there are none
    patterns: tuple[tuple[Mask, NDArray[np.int64]], ...]  # what is there (d,), and in which rows

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
        _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        cuts = np.cumsum(np.bincount(group.ravel(), minlength=len(first)))[:-1]
        parts = np.split(broken[order], cuts) if len(broken) else []
        patterns = tuple((there[broken[i]], part) for i, part in zip(first.tolist(), parts, strict=True))
        return cls(x, weights, whole, patterns)

    def observe(self, given: Components) -> tuple[Moments, float]:
        """Expected moments of the rows, and Σ w log p of what is there of them."""
        d = self.x.shape[1]
        uncertain, log_likelihood = np.zeros((d, d)), 0.0
        statistic = self.whole
        if statistic is not None:
            log_likelihood = given.log_likelihood(statistic)
        if self.patterns:
            rows = np.concatenate([rows for _, rows in self.patterns])
            guessed = self.x[rows]
            density, at = _Density.of(given), 0
            with threads.one_blas_thread:  # each pattern's matrices are small
                for there, part in self.patterns:
                    own = guessed[at : at + len(part)]
                    at += len(part)
                    weight = np.ones(len(part)) if self.weights is None else self.weights[part]
                    mean, covariance, told = density.guess(own, there)
                    own[:, ~there] = mean
                    uncertain[np.ix_(~there, ~there)] += weight.sum() * covariance
                    log_likelihood += float(weight @ told)
            weights = None if self.weights is None else self.weights[rows]
            found = Moments.observe(guessed, weights, form="full")
            nothing = np.zeros(d)
            found += Moments.about(nothing, np.zeros(()), nothing, uncertain, form="full")
            statistic = found if statistic is None else statistic + found
        if statistic is None:
            raise ValueError("every value is missing, expected some numbers: give rows that hold some")
        return statistic, log_likelihood

    def start(self, count: int | None) -> tuple[Components, float]:
        """Components of the rows with means for gaps, and the least variance that any may have."""
        seen = Moments.observe(self.x, self.weights, missing=True)
        mean, variance = seen.mean, seen.variance
        if np.isnan(mean).any():
            column = int(np.isnan(mean).argmax())
            raise ValueError(f"column {column} holds nothing but NaN, expected some numbers: drop the column")
        floor = _LEAST * float(variance.mean()) or 1e-300
        alone = Components(mean, np.eye(len(mean)), np.maximum(variance, floor), 0.0, 0.0, 0.0, 1.0)
        statistic, _ = self.observe(alone)
        return components(statistic, count, float(statistic.weight.value), floor), floor


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
    found, density = x.copy(), _Density.of(given)
    found[np.isnan(x).all(axis=1)] = given.mean
    for there, rows in Gaps.of(x).patterns:
        found[np.ix_(rows, ~there)] = density.guess(x[rows], there)[0]
    return found


def log_densities(x: Array, given: Components) -> Array:
    """log p of what is there of each row (n,)."""
    given.refuse_flat()
    found, density = np.zeros(len(x)), _Density.of(given)  # of nothing, the density is 1
    full = ~np.isnan(x).any(axis=1)
    found[full] = given.log_densities(x[full])
    for there, rows in Gaps.of(x).patterns:
        found[rows] = density.guess(x[rows], there)[2]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Density:
    """The Gaussian of the components, as it is asked about parts of rows."""

    mean: Array  # (d,)
    factors: Array  # (K, d): covariance = factorsᵀ factors + noise
    noise: float
    covariance: Array | None  # (d, d); None where the factors do

    @classmethod
    def of(cls, given: Components) -> "_Density":
        # two forms of the same algebra; test_both_ways_of_guessing_are_one keeps them equal
        noise = max(given.noise, _LEAST * float(given.variances.mean()), 1e-300)
        factors = np.sqrt(np.maximum(given.variances - given.noise, 0.0))[:, None] * given.directions
        if 2 * given.count < len(given.mean) and noise > _CLEAR * given.variances[0]:
            return cls(given.mean, factors, noise, None)
        covariance = given.covariance()
        covariance[np.diag_indices(len(covariance))] += max(noise - given.noise, 0.0)
        return cls(given.mean, factors, noise, covariance)

    def guess(self, x: Array, there: Mask) -> tuple[Array, Array, Array]:
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
