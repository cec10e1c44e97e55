"""rows, Gaussians → sums by share and log p(rows), in one pass: a step of EM at the speed of BLAS.

About an origin o near the rows, a Gaussian's log-density is linear in φ(x) = [x − o, products of x − o, 1],
and its statistic is Σ r φ: one product of matrices each for all classes together, of blocks of φ that stay in
the cache. The Gaussians of a tied covariance share their squares, so that φ = [x − o, 1] is enough.

What is lost to rounding grows with the terms that cancel; where these are large, None sends a caller back to
scores and shares, class by class. `test_the_fused_step_is_the_step` keeps the two equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, singledispatch
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky
from tamis.models.generative.gaussian_columns import Normal
from tamis.models.generative.gaussian_densities import FullNormal, TiedNormal
from tamis.stats import Keys, Moments

Products = Literal["full", "diagonal", "none"]  # those in φ

_LOG_TAU = float(np.log(2.0 * np.pi))
_FAR = 1e6  # terms of a log-density that cancel: ten digits are left of its unit
_SMALL = 10**6  # rows · classes · terms up to which OpenBLAS multiplies without packing: twice as fast
_FEWEST, _CELLS, _MOST = 256, 1 << 19, 4096  # rows at a time, and cells of φ where there is no small product
_WIDEST = 2500  # terms of φ, for 69 columns: blocks of wider ones have too few rows for BLAS
_CHUNKS = 8  # in which sums are made, whatever the number of threads: the result must not depend on that
_SQUARABLE = 1e140  # and then summed, and weighed
_LEAST_LOG = -1e300  # log 0, for sums that must not meet ∞ · 0


class Natural(NamedTuple):
    """Log-densities about an origin: constant + linear · x + quadratic · products of x."""

    constant: Array  # (K,)
    linear: Array  # (K, d)
    quadratic: Array  # (K, d) diagonal; (K, pairs); (d, d) and one for all if tied
    cancelling: Array  # (K,): the sum of the terms' magnitudes, for a usual row of the class


class Found(NamedTuple):
    """What a step finds."""

    statistic: Moments
    weight: Array  # (K,)
    log_likelihood: float


@singledispatch
def natural(density: Any, origin: Array) -> Natural | None:
    """The density about an origin, if it is Gaussian."""
    return None


@natural.register
def _(density: Normal, origin: Array) -> Natural:
    about, precision = density.mean - origin, 1.0 / density.variance
    linear = precision * about
    constant = -0.5 * (linear * about + np.log(density.variance) + _LOG_TAU).sum(axis=1)
    cancelling = precision * (np.square(about) + density.variance)
    return Natural(constant, linear, -0.5 * precision, cancelling.sum(axis=1))


@natural.register
def _(density: FullNormal, origin: Array) -> Natural:
    about, precision = density.mean - origin, density.factor.inverse()
    linear, constant, cancelling = _parts(about, precision, density.covariance, density.factor)
    return Natural(constant, linear, -0.5 * _by_pair(precision), cancelling)


@natural.register
def _(density: TiedNormal, origin: Array) -> Natural:
    about, precision = density.mean - origin, density.factor.inverse()
    linear, constant, cancelling = _parts(about, precision, density.covariance, density.factor)
    return Natural(constant, linear, -0.5 * precision, cancelling)


def _parts(about: Array, precision: Array, covariance: Array, factor: Cholesky) -> tuple[Array, Array, Array]:
    """Linear terms, constants and how much cancels; matrices are (K, d, d), or (d, d) for all classes."""
    linear = (precision @ about[..., None])[..., 0]
    square = (linear * about).sum(axis=1)
    constant = -0.5 * (square + factor.log_determinant() + about.shape[1] * _LOG_TAU)
    usual = np.sqrt(np.square(about) + np.diagonal(covariance, axis1=-2, axis2=-1))[..., None]
    cancelling = np.swapaxes(usual, 1, 2) @ np.abs(precision) @ usual
    return linear, constant, cancelling[:, 0, 0]


@dataclass(frozen=True, eq=False)
class Pass:
    """Rows without labels, made ready to be gone over again and again."""

    rows: Array  # (n, d), nothing missing
    weights: Array | None  # (n,)
    origin: Array  # (d,)

    @classmethod
    def over(cls, rows: Any, weights: Array | None, density: Any) -> "Pass | None":
        """None if there is no short way: the density is not Gaussian, or something is missing."""
        if not isinstance(density, Normal | FullNormal | TiedNormal) or not rows.size:
            return None
        if not max(rows.max(), -rows.min()) < _SQUARABLE:  # nor is NaN
            return None
        return cls(rows, weights, rows.mean(axis=0))  # rounded or not, it is near the rows, and stays

    def expect(self, density: Any, log_prior: Array, hard: bool = False, rough: bool = False) -> Found | None:
        """Sums by share, and log p(rows); None if the density is not Gaussian, or too narrow to be near o.

        With `rough`, classes of a tied covariance get their weights and means, and each a part of all squares
        that is in proportion to its weight: their sum is right, and is all that `infer` uses of them.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # and then it is too narrow
            known = natural(density, self.origin)
        if known is None or not (known.cancelling <= _FAR)[log_prior > -np.inf].all():
            return None
        tied = isinstance(density, TiedNormal)
        products: Products = (
            "diagonal" if isinstance(density, Normal) else "none" if tied and rough else "full"
        )
        d = self.rows.shape[1]
        if 1 + d + _width(products, d) > _WIDEST:
            return None
        terms = [known.linear, (known.constant + np.maximum(log_prior, _LEAST_LOG))[:, None]]
        if products != "none":
            shape = (len(log_prior), _width(products, d))
            terms.insert(1, np.broadcast_to(_by_pair(known.quadratic), shape) if tied else known.quadratic)
        sums, likelihood = self._summed(np.concatenate(terms, axis=1), products, hard)
        first, second, weight = sums[:, :d], sums[:, d:-1], sums[:, -1]
        if products == "none":
            likelihood += float((known.quadratic * self.squares).sum())
            second = _apportioned(weight, first, self.squares)
        elif products == "full":
            left, right = pairs(d)
            matrices = np.empty((len(second), d, d))
            matrices[:, left, right] = matrices[:, right, left] = second
            second = matrices
        return Found(self._moments(weight, first, second, density.keys, products), weight, likelihood)

    def _moments(self, weight: Array, first: Array, second: Array, keys: Keys, products: Products) -> Moments:
        diagonal = products == "diagonal"
        return Moments.about(
            centre=np.broadcast_to(self.origin, first.shape),
            weight=np.ascontiguousarray(
                np.broadcast_to(weight[:, None], first.shape) if diagonal else weight
            ),
            first=np.ascontiguousarray(first),
            second=np.ascontiguousarray(second),
            form="diagonal" if diagonal else "full",
            keys=keys,
        )

    @cached_property
    def about(self) -> Array:
        """x − o (d, n), columns first: rows lie side by side, and so do the products of two columns."""
        found = np.empty((len(self.origin), len(self.rows)))
        for start in range(0, len(self.rows), _MOST):
            rows = slice(start, start + _MOST)
            np.subtract(self.rows[rows].T, self.origin[:, None], out=found[:, rows])
        return found

    @cached_property
    def squares(self) -> Array:
        """Σ w (x − o)(x − o)ᵀ (d, d)."""
        found = np.zeros((len(self.origin), len(self.origin)))
        with threads.one_blas_thread:
            for start in range(0, len(self.rows), _MOST):
                x = self.about[:, start : start + _MOST]
                wx = x if self.weights is None else x * self.weights[start : start + _MOST]
                found += wx @ x.T
        return found

    def _summed(self, theta: Array, products: Products, hard: bool) -> tuple[Array, float]:
        """Σ r φ (K, terms) and log p(rows); chunks are summed by themselves, and added in their order."""
        n, count = self.about.shape[1], _CHUNKS
        lanes = threads.parts(self.rows.size * len(theta))
        cuts = [n * c // count for c in range(count + 1)]
        spans = list(pairwise(cuts))
        with threads.one_blas_thread:
            results = threads.together(
                [_Lane(self, theta, products, hard, spans[i::lanes]).sums for i in range(lanes)]
            )
        ordered = [results[c % lanes][c // lanes] for c in range(count)]
        return np.sum([sums for sums, _ in ordered], axis=0), sum(found for _, found in ordered)


class _Lane(NamedTuple):
    """The chunks that one thread sums, in buffers of its own."""

    over: Pass
    theta: Array
    products: Products
    hard: bool
    spans: Sequence[tuple[int, int]]

    def sums(self) -> list[tuple[Array, float]]:
        k, p = self.theta.shape
        step = _SMALL // (k * p)
        step = min(step if step >= _FEWEST else max(_FEWEST, _CELLS // p), _MOST)
        buffers = _Buffers.of(self, step)
        found = []
        for begin, end in self.spans:
            sums, likelihood = np.zeros((k, p)), 0.0
            for start in range(begin, end, step):
                rows = slice(start, min(start + step, end))
                own = buffers if rows.stop - start == step else _Buffers.of(self, rows.stop - start)
                own.fill(self.over.about[:, rows], self.products)
                np.matmul(self.theta, own.features, out=own.joint)
                likelihood += self._share(own.joint, rows)
                np.copyto(own.shares, own.joint.T)
                sums += np.matmul(own.shares.T, own.features.T, out=own.product)
            found.append((sums, likelihood))
        return found

    def _share(self, joint: Array, rows: slice) -> float:
        """Makes log p(x, class) (K, n) into weighted shares; gives log p(x), or of the best class if hard."""
        weights = None if self.over.weights is None else self.over.weights[rows]
        most = joint.max(axis=0)
        if self.hard:
            best = joint.argmax(axis=0)
            joint[:] = 0.0
            joint[best, np.arange(len(best))] = 1.0
            evidence = most
        else:
            joint -= most
            np.exp(joint, out=joint)
            whole = joint.sum(axis=0)
            joint /= whole
            evidence = np.log(whole, out=whole)
            evidence += most
        if weights is None:
            return float(evidence.sum())
        joint *= weights
        return float(weights @ evidence)


class _Buffers(NamedTuple):
    """For a block of rows; whole arrays, for NumPy goes through them in one loop."""

    table: Array  # x twice, products, 1
    features: Array  # (terms, n): the table from its second x on
    joint: Array  # (K, n)
    shares: Array  # (n, K): so BLAS wants them beside φ
    product: Array  # (K, terms)

    @classmethod
    def of(cls, lane: _Lane, size: int) -> "_Buffers":
        k, p = lane.theta.shape
        table = np.empty((lane.over.rows.shape[1] + p, size))
        table[-1] = 1.0
        features = table[lane.over.rows.shape[1] :]
        return cls(table, features, np.empty((k, size)), np.empty((size, k)), np.empty((k, p)))

    def fill(self, about: Array, products: Products) -> None:
        """φ of these columns (d, n); each times the one `turn` places on, so that d products are one call."""
        d = len(about)
        np.copyto(self.features[:d], about)
        if products == "diagonal":
            np.square(self.features[:d], out=self.features[d : 2 * d])
        elif products == "full":
            x, at, end = self.table[:d], d, d + d * (d + 1) // 2
            np.copyto(x, about)
            for turn in range(d // 2 + 1):
                size = min(d, end - at)
                np.multiply(x[:size], self.table[turn : turn + size], out=self.features[at : at + size])
                at += size


@lru_cache(maxsize=4)
def pairs(d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The columns of each product, in the order of `_Buffers.fill`."""
    place = np.arange(d * (d + 1) // 2)
    return place % d, (place % d + place // d) % d


def _by_pair(matrices: Array) -> Array:
    """Symmetric (..., d, d) → a factor for each product (..., d(d+1)/2): those of two columns count twice."""
    left, right = pairs(matrices.shape[-1])
    return np.asarray(matrices[..., left, right] * np.where(left == right, 1.0, 2.0))


def _width(products: Products, d: int) -> int:
    return {"full": d * (d + 1) // 2, "diagonal": d, "none": 0}[products]


def _apportioned(weight: Array, first: Array, squares: Array) -> Array:
    """Second moments (K, d, d) whose sum is right: each class its mean's, and its part of the rest."""
    mean = np.where(weight[:, None] > 0, first, 0.0) / np.where(weight > 0, weight, 1.0)[:, None]
    own = first[:, :, None] * mean[:, None, :]
    rest = squares - own.sum(axis=0)
    return np.asarray(own + rest * (weight / weight.sum())[:, None, None])
