"""Rows, responsibilities of classes → Moments by class: the expectation step of Gaussian columns.

`sum_vectors` and `sum_columns` take responsibilities that are known, and sum about the mean of each class.
`PreparedGaussianRows` computes responsibilities and sums in one pass. With an origin o near the rows, a
Gaussian's log-density is linear in φ(x) = [x − o, products of x − o, 1], and its statistic is Σ r φ. For
products of all pairs of columns a kernel does this (`_kernels.dense.sum_responsible`), and reads the rows
once. For the other forms, log-densities and sums of all classes are one matrix product per block of rows,
whose φ fits into the cache of the processor: diagonal covariances need only squares; with a tied covariance
all classes have the same quadratic term, so that φ = [x − o, 1] suffices.

Rounding errors grow with the size of the terms that cancel. If these are large, `PreparedGaussianRows.expect`
returns None, and the caller computes scores and responsibilities class by class.
`test_the_fast_step_equals_the_general_step` checks that both ways give the same results.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from math import isfinite
from typing import Any, Literal, NamedTuple

import numpy as np

from tamis import threads
from tamis._kernels import dense
from tamis.arrays import Array
from tamis.models.generative.block import Density, Expectation, Responsibilities
from tamis.stats import Keys, Moments
from tamis.tables import runs

Products = Literal["diagonal", "none"]  # which products of columns φ contains: squares, or none

_CENTRED_ROWS = 4096  # rows whose centred copy is in memory at a time
_MAX_CANCELLING = 1e6  # the largest sum of cancelling terms of a log-density that leaves ten decimal digits
# The product of the numbers of rows, classes and terms of φ in a block. Up to about 1e6, OpenBLAS does not
# copy (pack) the matrices before it multiplies them, and is twice as fast. Larger blocks need fewer calls,
# between which threads wait for the interpreter's lock: with two threads, EM over shards takes 3 % less time.
_MAX_UNPACKED = 3 * 10**6 // 2
# A block has _MIN_ROWS to _MAX_ROWS rows; if OpenBLAS packs, it has about _CELLS elements of φ.
_MIN_ROWS, _CELLS, _MAX_ROWS = 256, 1 << 19, 4096
_MAX_TERMS = 2500  # of φ, as for 69 columns: with more, the sums of a class do not fit into the cache
_SAMPLED = 4096  # rows whose mean is the origin
_CHUNKS = 8  # the parts of a sum; not the number of threads, on which the result must not depend
_MAX_SQUARABLE = 1e140  # squares of smaller numbers can be weighted and summed without overflow
_LOG_ZERO = -1e300  # in place of log 0 = −∞, because −∞ · 0 is NaN


def sum_vectors(rows: Array, responsibilities: Responsibilities) -> Moments:
    """Full Moments of rows without missing values, each class about its own mean."""
    r = responsibilities.values
    centre, weight = _find_centres(rows, r), r.sum(axis=0)
    k, d = centre.shape
    first, second = np.zeros((k, d)), np.zeros((k, d, d))
    for run in runs(len(rows), 1, _CENTRED_ROWS):
        for i in range(k):
            centred, w = _drop_weightless(rows[run], r[run, i])
            centred = centred - centre[i]
            first[i] += w @ centred
            second[i] += sum_products(centred, w)
    return Moments.about(centre, weight, first, second, "full", responsibilities.keys)


def sum_columns(rows: Array, responsibilities: Responsibilities) -> Moments:
    """Diagonal Moments, each class about its own mean; a missing value is left out of its column alone."""
    r = responsibilities.values
    centre = _find_centres(rows, r)
    k, d = centre.shape
    weight, first, second = np.zeros((k, d)), np.zeros((k, d)), np.zeros((k, d))
    for run in runs(len(rows), 1, _CENTRED_ROWS):
        present = ~np.isnan(rows[run])
        is_complete = bool(present.all())
        weight += r[run].sum(axis=0)[:, None] if is_complete else r[run].T @ present
        for i in range(k):
            centred, w = _drop_weightless(rows[run], r[run, i])
            centred = centred - centre[i]
            if not is_complete:
                centred[np.isnan(centred)] = 0.0
            first[i] += w @ centred
            second[i] += w @ np.square(centred)
    return Moments.about(centre, weight, first, second, keys=responsibilities.keys)


def _find_centres(rows: Array, responsibilities: Array) -> Array:
    """The mean of each class (K, d), by sums about the mean of all rows; precise enough as a centre."""
    if not len(rows):
        return np.zeros((responsibilities.shape[1], rows.shape[1]))
    present = ~np.isnan(rows)
    is_complete = bool(present.all())
    values = rows if is_complete else np.where(present, rows, 0.0)
    centre = values.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    centred = rows - centre
    if not is_complete:
        centred[~present] = 0.0
    weight = responsibilities.sum(axis=0)[:, None] if is_complete else responsibilities.T @ present
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = (responsibilities.T @ centred) / weight
    return np.asarray(centre + np.where(np.isfinite(shift), shift, 0.0))


def fill_by_means(rows: Array) -> Array:
    """Replace each missing value by the mean of its column."""
    count = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    return np.where(np.isnan(rows), np.nansum(rows, axis=0) / count, rows)


def _drop_weightless(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Drop rows of weight zero if they are the majority, as happens with classes that are far apart."""
    positive = weights != 0
    return (rows[positive], weights[positive]) if 2 * positive.sum() < len(rows) else (rows, weights)


def sum_products(centred: Array, weights: Array) -> Array:
    """Σ w x xᵀ (d, d); without negative weights as YᵀY, Y having the rows √w x: half the work for BLAS."""
    if (weights < 0).any():
        return np.asarray((centred * weights[:, None]).T @ centred)
    root = centred * np.sqrt(weights)[:, None]
    return np.asarray(root.T @ root)


class Natural(NamedTuple):
    """Natural parameters of Gaussians: log p = constant + linear · x + quadratic · products of x.

    x is the row minus an origin.
    """

    form: Literal["full", "tied", "diagonal"]
    constant: Array  # (K,)
    linear: Array  # (K, d)
    quadratic: Array  # (K, d, d); (d, d) if tied, one for all classes; (K, d) if diagonal
    # (K,): the sum of the magnitudes of the terms that cancel, for a typical row of the class. If it is
    # large, so are rounding errors, and `PreparedGaussianRows.expect` does not use these parameters.
    cancelling: Array


class Gaussian(Density[Array]):
    """The base of densities that are a Gaussian in each class, with point estimates of its parameters.

    `Normal` has independent columns; those of `gaussian_densities` have covariance matrices.
    """

    @abstractmethod
    def natural(self, origin: Array) -> Natural:
        """The natural parameters for rows minus an origin."""


@dataclass(frozen=True, eq=False)
class PreparedGaussianRows:
    """Rows without labels, prepared for many expectation steps."""

    rows: Array  # (n, d), contiguous
    weights: Array | None  # (n,)
    origin: Array  # (d,)
    # The products in φ of each step that BLAS computed, and the forms of the steps that could not be
    # computed.
    _blas_steps: list[Products] = field(default_factory=list, repr=False)
    _failed_steps: list[str] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, rows: Array, weights: Array | None) -> "PreparedGaussianRows | None":
        """Prepare the rows; None if there are none."""
        if not rows.size:
            return None
        rows = np.ascontiguousarray(rows)
        # Any point near the rows can be the origin. A shard is prepared at each step, and to read all of its
        # rows for their mean would take a tenth of the step.
        with np.errstate(over="ignore", invalid="ignore"):
            origin = rows[:: -(-len(rows) // _SAMPLED)].mean(axis=0)
        return cls(rows, None if weights is None else np.ascontiguousarray(weights), origin)

    def expect(
        self, density: Density[Any], log_prior: Array, hard: bool = False, pool_squares: bool = False
    ) -> Expectation | None:
        """Sum the rows by their responsibilities; None if it would be imprecise or slow.

        If `hard`, each row belongs only to its most probable class. The result is None if the density is no
        Gaussian or so narrow that digits cancel, if a value is missing or too large to be squared, or if
        there are too many columns. With `pool_squares` and a tied covariance, the statistic has the weight
        and the mean of each class, but divides the squares among classes by weight: `infer` uses only their
        sum, which is right.
        """
        if not isinstance(density, Gaussian) or (self._failed_steps and not self.is_squarable):
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow means that the density is too narrow
            natural = density.natural(self.origin)
        if not (natural.cancelling <= _MAX_CANCELLING)[log_prior > -np.inf].all():
            return None
        natural = natural._replace(constant=natural.constant + np.maximum(log_prior, _LOG_ZERO))
        if natural.form == "diagonal":
            expectation = self._expect_by_blas(natural, density.keys, "diagonal", hard)
        elif natural.form == "tied" and pool_squares:
            expectation = self._expect_by_blas(natural, density.keys, "none", hard)
        else:
            expectation = self._expect_by_kernel(natural, density.keys, hard)
        if expectation is None:
            self._failed_steps.append(natural.form)
        return expectation

    @cached_property
    def is_squarable(self) -> bool:
        """Whether no value is missing, or too large to be squared."""
        return bool(max(self.rows.max(), -self.rows.min()) < _MAX_SQUARABLE)

    def _expect_by_kernel(self, natural: Natural, keys: Keys, hard: bool) -> Expectation | None:
        """Sum by the kernel for products of all pairs; return None if that would be slow or not finite."""
        k, d = natural.linear.shape
        if 1 + d + d * (d + 1) // 2 > _MAX_TERMS:
            return None
        linear = np.ascontiguousarray(natural.linear)
        quadratic = np.ascontiguousarray(np.broadcast_to(natural.quadratic, (k, d, d)))

        def sum_chunk(start: int, stop: int) -> tuple[Array, float]:
            run = slice(start, stop)
            return dense.sum_responsible(
                self.rows, run, self.weights, self.origin, natural.constant, linear, quadratic, hard
            )

        sums, log_likelihood = self._add_chunks(k, lambda chunks: [sum_chunk(*chunk) for chunk in chunks])
        if not (isfinite(log_likelihood) and np.isfinite(sums).all()):
            return None
        first, second, weight = sums[:, :d, d], sums[:, :d, :d], sums[:, d, d]
        statistic = self._make_moments(weight, first, second, keys)
        return Expectation(statistic, np.ascontiguousarray(weight), log_likelihood)

    def _expect_by_blas(
        self, natural: Natural, keys: Keys, products: Products, hard: bool
    ) -> Expectation | None:
        """Sum by matrix products with φ; None if columns are too many, or a value is missing or too large."""
        d = self.rows.shape[1]
        if (2 * d if products == "diagonal" else d) >= _MAX_TERMS or not self.is_squarable:
            return None
        terms = [natural.linear, natural.constant[:, None]]
        if products == "diagonal":
            terms.insert(1, natural.quadratic)
        coefficients = np.concatenate(terms, axis=1)
        # A centred copy of all rows saves time from the second step on. A shard that is read anew for each
        # step is prepared for one step only.
        centred = self.centred if self._blas_steps else None
        self._blas_steps.append(products)
        sums, log_likelihood = self._add_chunks(
            len(coefficients),
            lambda chunks: _Worker(self, centred, coefficients, products, hard, chunks).sum_chunks(),
        )
        first, second, weight = sums[:, :d], sums[:, d:-1], sums[:, -1]
        if products == "none":
            log_likelihood += float((natural.quadratic * self.squares).sum())
            second = _divide_squares(weight, first, self.squares)
        return Expectation(self._make_moments(weight, first, second, keys), weight, log_likelihood)

    def _make_moments(self, weight: Array, first: Array, second: Array, keys: Keys) -> Moments:
        diagonal = second.ndim == first.ndim
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
    def centred(self) -> Array:
        """x − o (d, n): transposed, so that the values of a column are contiguous in memory."""
        differences = np.empty((len(self.origin), len(self.rows)))
        for start in range(0, len(self.rows), _MAX_ROWS):
            rows = slice(start, start + _MAX_ROWS)
            self.centre(rows, differences[:, rows])
        return differences

    def centre(self, rows: slice, out: Array) -> None:
        """Write x − o of these rows to `out` (d, rows)."""
        np.subtract(self.rows[rows].T, self.origin[:, None], out=out)

    @cached_property
    def squares(self) -> Array:
        """Σ w (x − o)(x − o)ᵀ (d, d)."""
        squares = np.zeros((len(self.origin), len(self.origin)))
        with threads.one_blas_thread:
            for start in range(0, len(self.rows), _MAX_ROWS):
                x = self.centred[:, start : start + _MAX_ROWS]
                wx = x if self.weights is None else x * self.weights[start : start + _MAX_ROWS]
                squares += wx @ x.T
        return squares

    def _add_chunks(
        self, k: int, sum_chunks: Callable[[Sequence[tuple[int, int]]], list[tuple[Array, float]]]
    ) -> tuple[Array, float]:
        """Sum chunks of rows for k classes, in threads, and add their sums and log p(rows) in order."""
        n, count = len(self.rows), _CHUNKS
        workers = threads.count_chunks(self.rows.size * k)
        cuts = [n * c // count for c in range(count + 1)]
        chunks = list(pairwise(cuts))
        with threads.one_blas_thread:
            results = threads.run_together([partial(sum_chunks, chunks[i::workers]) for i in range(workers)])
        ordered = [results[c % workers][c // workers] for c in range(count)]
        return np.sum([sums for sums, _ in ordered], axis=0), sum(likelihood for _, likelihood in ordered)


class _Worker(NamedTuple):
    """The chunks that one thread sums, in buffers of its own."""

    prepared: PreparedGaussianRows
    centred: Array | None  # x − o (d, n); None if it is not in memory
    coefficients: Array  # (K, terms): log p(x, class) = coefficients · φ(x)
    products: Products
    hard: bool  # whether each row belongs only to its most probable class
    chunks: Sequence[tuple[int, int]]  # of rows: the first, and the one after the last

    def sum_chunks(self) -> list[tuple[Array, float]]:
        """Σ r φ (K, terms) and log p(rows) of each chunk."""
        k, p = self.coefficients.shape
        step = _MAX_UNPACKED // (k * p)
        step = min(step if step >= _MIN_ROWS else max(_MIN_ROWS, _CELLS // p), _MAX_ROWS)
        buffers = _Buffers.of(self, step)
        results = []
        for begin, end in self.chunks:
            sums, log_likelihood = np.zeros((k, p)), 0.0
            for start in range(begin, end, step):
                rows = slice(start, min(start + step, end))
                block = buffers if rows.stop - start == step else _Buffers.of(self, rows.stop - start)
                x = block.features[: self.prepared.rows.shape[1]]
                if self.centred is None:
                    self.prepared.centre(rows, x)
                else:
                    np.copyto(x, self.centred[:, rows])
                if self.products == "diagonal":
                    np.square(x, out=block.features[len(x) : 2 * len(x)])
                np.matmul(self.coefficients, block.features, out=block.joint)
                log_likelihood += self._compute_responsibilities(block.joint, rows)
                np.copyto(block.responsibilities, block.joint.T)
                sums += np.matmul(block.responsibilities.T, block.features.T, out=block.product)
            results.append((sums, log_likelihood))
        return results

    def _compute_responsibilities(self, joint: Array, rows: slice) -> float:
        """Turn log p(x, class) (K, n) into weighted responsibilities, in place; return Σ w log p(x).

        If `hard`, p(x) is replaced by p(x, most probable class).
        """
        weights = None if self.prepared.weights is None else self.prepared.weights[rows]
        largest = joint.max(axis=0)
        if self.hard:
            best = joint.argmax(axis=0)
            joint[:] = 0.0
            joint[best, np.arange(len(best))] = 1.0
            log_density = largest
        else:
            joint -= largest
            np.exp(joint, out=joint)
            density = joint.sum(axis=0)
            joint /= density
            log_density = np.log(density, out=density)
            log_density += largest
        if weights is None:
            return float(log_density.sum())
        joint *= weights
        return float(weights @ log_density)


class _Buffers(NamedTuple):
    """Contiguous arrays for a block of rows, which are used again for the next block."""

    features: Array  # (terms, n): φ = [x, squares or nothing, 1]
    joint: Array  # (K, n)
    responsibilities: Array  # (n, K): the layout in which BLAS multiplies them fastest with φ
    product: Array  # (K, terms)

    @classmethod
    def of(cls, worker: _Worker, size: int) -> "_Buffers":
        """Allocate buffers for blocks of `size` rows."""
        k, p = worker.coefficients.shape
        features = np.empty((p, size))
        features[-1] = 1.0
        return cls(features, np.empty((k, size)), np.empty((size, k)), np.empty((k, p)))


def _divide_squares(weight: Array, first: Array, squares: Array) -> Array:
    """Second moments (K, d, d) whose sum over classes is `squares`.

    Those of a class are the products of its mean, and a part of the remainder in proportion to its weight.
    """
    mean = np.where(weight[:, None] > 0, first, 0.0) / np.where(weight > 0, weight, 1.0)[:, None]
    of_means = first[:, :, None] * mean[:, None, :]
    rest = squares - of_means.sum(axis=0)
    return np.asarray(of_means + rest * (weight / weight.sum())[:, None, None])
