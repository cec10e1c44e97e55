"""Rows with gaps (missing values) → their expected moments, given the current components: EM.

Each gap is imputed from the values of its row. The expected values are filled in, and their uncertainty is
added to the squares; from these sums the components are inferred as from complete rows. No such step lowers
the likelihood of the observed values. (Tipping and Bishop 1999. Only the gaps are latent variables, not the
coordinates of the rows along the components; so without gaps one step is the exact solution.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tamis import threads
from tamis.arrays import Array, argsort_codes
from tamis.linalg import Cholesky
from tamis.models.components.model import Components, Indices, decompose, dense_blocks, to_integer
from tamis.protocols import Iterative, iterate
from tamis.stats import Moments
from tamis.tables import Table, runs

Mask = NDArray[np.bool_]
_LOG_2PI = float(np.log(2.0 * np.pi))
_MIN_RELATIVE_VARIANCE = 1e-10  # the least variance over the mean variance: a density needs one above zero
# With noise above this part of the largest variance, K × K matrices are as accurate as d × d matrices, for K
# components and d columns.
_MIN_RELATIVE_NOISE = 1e-6
_CELLS = 1 << 18  # array elements (2 MB) of the rows whose patterns are solved together
_SINGLE_COST = 2e6  # multiplications that take as long as solving for one pattern by itself: about 0.2 ms


def has_gaps(table: Table) -> bool:
    """Whether some value is NaN; infinite values are refused elsewhere."""
    values = table.sparse.values if table.sparse is not None else table.numbers()
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(values.sum())) and bool(np.isnan(values).any())


def refuse_gaps(table: Table, remedy: str) -> None:
    """Raise for the first NaN, naming its column and row."""
    if not has_gaps(table):
        return
    first = 0
    for block in dense_blocks(table):
        if (is_missing := np.isnan(block)).any():
            row, column = np.argwhere(is_missing)[0].tolist()
            raise ValueError(
                f"{table.describe(column)} holds NaN in row {first + row}, expected finite numbers: {remedy}"
            )
        first += len(block)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Rows, ordered by their pattern of gaps: which of their values are missing."""

    x: Array  # (n, d), NaN where missing
    weights: Array | None  # (n,)
    complete: Moments | None  # of the rows without gaps; None if there are none
    masks: Mask  # (P, d): of each of the P patterns of gaps, True where a value is observed
    rows: Indices  # (m,): indices of the rows with gaps, pattern by pattern
    pattern: Indices  # (m,): the pattern of each of these rows, an index into `masks`; ascending

    @classmethod
    def of(cls, x: Array, weights: Array | None = None, exact: bool = False) -> "Gaps":
        """Order the rows by pattern; a row without any value is left out."""
        is_observed = ~np.isnan(x)
        is_complete = is_observed.all(axis=1)
        complete = None
        if is_complete.any():
            row_weights = None if weights is None else weights[is_complete]
            complete = Moments.observe(x[is_complete], row_weights, form="full", exact=exact)
        rows = np.flatnonzero(~is_complete & is_observed.any(axis=1))
        packed = np.packbits(is_observed[rows], axis=1)
        _, first, pattern = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        order = argsort_codes(pattern.ravel(), len(first))
        return cls(x, weights, complete, is_observed[rows[first]], rows[order], pattern.ravel()[order])

    @cached_property
    def column_moments(self) -> Moments:
        """The moments of the values of each column; raise if a column has none."""
        moments = Moments.observe(self.x, self.weights, missing=True)
        if np.isnan(moments.mean).any():
            column = int(np.isnan(moments.mean).argmax())
            raise ValueError(f"column {column} holds only NaN, expected some numbers: drop the column")
        return moments

    @property
    def floor(self) -> float:
        """The least variance that any direction may have."""
        return _MIN_RELATIVE_VARIANCE * float(self.column_moments.variance.mean()) or 1e-300

    def select_weights(self, part: slice = slice(None)) -> Array:
        """The weights of the rows with gaps, or of a slice of them (m,)."""
        rows = self.rows[part]
        return np.ones(len(rows)) if self.weights is None else self.weights[rows]

    def complete_moments(self, imputed: Array, uncertainty: Array) -> Moments:
        """The moments of all rows, with the imputed rows (m, d) in place of the rows with gaps.

        `uncertainty` (d, d) is the sum of the covariances of the imputed values.
        """
        statistic = self.complete
        if len(imputed):
            zeros = np.zeros(imputed.shape[1])
            weights = None if self.weights is None else self.weights[self.rows]
            moments = Moments.observe(imputed, weights, form="full")
            moments += Moments.about(zeros, np.zeros(()), zeros, uncertainty, form="full")
            statistic = moments if statistic is None else statistic + moments
        if statistic is None:
            raise ValueError("every value is missing, expected some numbers: give rows that hold some")
        return statistic


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedMoments:
    """The expected moments of all rows, given components, and the likelihood of the observed values."""

    moments: Moments
    log_likelihood: float  # Σ w log p; NaN where no components were given

    def __add__(self, other: "ExpectedMoments") -> "ExpectedMoments":
        return ExpectedMoments(self.moments + other.moments, self.log_likelihood + other.log_likelihood)

    def __mul__(self, weight: float) -> "ExpectedMoments":
        return ExpectedMoments(self.moments * weight, self.log_likelihood * weight)


@dataclass(frozen=True, slots=True)
class ComponentsWithGaps:
    """Principal components by EM; variances are maximum-likelihood estimates: squares over the weight."""

    count: int | None  # the number of components; None for all
    floor: float = 0.0  # the least variance

    def observe(self, data: Gaps, given: Components | None = None) -> ExpectedMoments:
        """The expected moments; without components, each gap has its column's mean and variance."""
        if given is not None:
            likelihood = 0.0 if data.complete is None else given.log_likelihood(data.complete)
            imputed, log_densities, uncertainty = _Density.of(given).impute(data)
            likelihood += float(data.select_weights() @ log_densities)
            return ExpectedMoments(data.complete_moments(imputed, uncertainty), likelihood)
        mean, variance = data.column_moments.mean, data.column_moments.variance
        rows = data.x[data.rows]
        is_missing = np.isnan(rows)
        uncertainty = np.diag((data.select_weights() @ is_missing) * np.maximum(variance, self.floor))
        return ExpectedMoments(data.complete_moments(np.where(is_missing, mean, rows), uncertainty), np.nan)

    def infer(self, statistic: ExpectedMoments) -> Components:
        """The components of the expected moments."""
        moments = statistic.moments
        return decompose(moments, self.count, float(moments.weight.value), self.floor)

    def objective(self, statistic: ExpectedMoments) -> float:
        """The log-likelihood of the observed values; a step lowers it only by rounding errors."""
        return statistic.log_likelihood


# The type checker verifies by this assignment that ComponentsWithGaps has the methods of Iterative.
_: type[Iterative[Gaps, ExpectedMoments, Components]] = ComponentsWithGaps


@dataclass(frozen=True, slots=True, eq=False)
class GapFit:
    """The result of EM: the expected moments of rows with gaps, and the log-likelihood before each step."""

    statistic: Moments
    log_likelihoods: tuple[float, ...]
    converged: bool


def fit_gaps(gaps: Gaps, count: object, tol: float, max_iter: int, report: Callable[[float], None]) -> GapFit:
    """Run EM until a step adds at most `tol` to the mean log-likelihood of a row, or for `max_iter` steps.

    `report` is called with the log-likelihood of each step.
    """
    number = to_integer(count)
    if count is not None and number is None:
        raise ValueError(
            f"got n_components={count!r} for rows with gaps, expected a whole number or None: the variances "
            "are estimated together with the missing values"
        )
    model = ComponentsWithGaps(number, gaps.floor)
    likelihoods: list[float] = []
    statistic = model.observe(gaps)
    for step in islice(iterate(model, (gaps,), model.infer(statistic)), max_iter):
        report(step.objective)
        likelihoods.append(step.objective)
        statistic = step.statistic
        gain = likelihoods[-1] - likelihoods[-2] if len(likelihoods) > 1 else np.inf
        if gain <= tol * float(statistic.moments.weight.value):
            return GapFit(statistic.moments, tuple(likelihoods), converged=True)
    return GapFit(statistic.moments, tuple(likelihoods), converged=False)


def impute(x: Array, components: Components) -> Array:
    """Fill each gap of rows (n, d) by its expectation, given the observed values of its row."""
    rows, gaps = x.copy(), Gaps.of(x)
    rows[np.isnan(x).all(axis=1)] = components.mean
    rows[gaps.rows], _, _ = _Density.of(components).impute(gaps)
    return rows


def log_densities_with_gaps(x: Array, components: Components) -> Array:
    """log p of the observed values of each row (n,)."""
    components.refuse_degenerate()
    densities, gaps = np.zeros(len(x)), Gaps.of(x)  # a row without any value has the density 1
    is_complete = ~np.isnan(x).any(axis=1)
    densities[is_complete] = components.log_densities(x[is_complete])
    _, densities[gaps.rows], _ = _Density.of(components).impute(gaps)
    return densities


@dataclass(frozen=True, slots=True, eq=False)
class _Density:
    """The Gaussian of the components, conditioned on the observed values of rows.

    It is computed in three ways: by K × K matrices (of K components) for many patterns together
    (`_impute_together`), and for one pattern by K × K or d × d matrices (`_impute_pattern`).
    `test_all_ways_of_imputing_agree` compares them.
    """

    mean: Array  # (d,)
    factors: Array  # (K, d): covariance = factorsᵀ factors + noise · identity
    noise: float
    has_noise: bool  # whether the noise is large enough for K × K matrices to be accurate
    covariance: Array | None  # (d, d); None if a pattern by itself is solved by K × K matrices

    @classmethod
    def of(cls, components: Components) -> "_Density":
        """Make the density; a covariance that is nearly singular gets a little noise."""
        mean, variances = components.mean, components.variances
        noise = max(components.noise, _MIN_RELATIVE_VARIANCE * float(variances.mean()), 1e-300)
        factors = np.sqrt(np.maximum(variances - components.noise, 0.0))[:, None] * components.directions
        has_noise = bool(noise > _MIN_RELATIVE_NOISE * variances[0])
        if has_noise and 2 * components.count < len(mean):
            return cls(mean, factors, noise, has_noise, covariance=None)
        covariance = components.covariance()
        covariance[np.diag_indices(len(covariance))] += max(noise - components.noise, 0.0)
        return cls(mean, factors, noise, has_noise, covariance)

    def impute(self, gaps: Gaps) -> tuple[Array, Array, Array]:
        """The expectation of rows with gaps (m, d), their log p (m,), and Σ w covariance (d, d)."""
        x, (k, d) = gaps.x[gaps.rows], self.factors.shape
        densities, uncertainty = np.empty(len(x)), np.zeros((d, d))
        with threads.one_blas_thread:  # each pattern's matrices are small
            if self._is_cheaper_together(gaps):
                parts = list(runs(len(x), k * (d + k), _CELLS))
                results = threads.map_ahead(partial(self._impute_together, gaps), parts)
                for rows, result in zip(parts, results, strict=True):
                    x[rows], densities[rows], part = result
                    uncertainty += part
                return x, densities, uncertainty
            weight = gaps.select_weights()
            cuts = np.searchsorted(gaps.pattern, np.arange(len(gaps.masks) + 1)).tolist()
            for observed, start, stop in zip(gaps.masks, cuts, cuts[1:], strict=False):
                mean, covariance, densities[start:stop] = self._impute_pattern(x[start:stop], observed)
                x[start:stop, ~observed] = mean
                uncertainty[np.ix_(~observed, ~observed)] += weight[start:stop].sum() * covariance
        return x, densities, uncertainty

    def _is_cheaper_together(self, gaps: Gaps) -> bool:
        """Whether solving many patterns together takes less time than each by itself.

        The costs are in multiplications of a matrix product, as measured with 20 to 1,000 columns.
        """
        k, d = self.factors.shape
        per_pattern, per_row = k * d * (d + 2 * k) + 12 * k**3, 64 * (k * k + d)
        patterns = len(gaps.masks)
        return self.has_noise and per_pattern * patterns + per_row * len(gaps.rows) < _SINGLE_COST * patterns

    def _impute_together(self, gaps: Gaps, part: slice) -> tuple[Array, Array, Array]:
        """Impute a slice of `gaps.rows` as `impute` does, by one matrix product for all its patterns."""
        x, (k, d) = gaps.x[gaps.rows[part]], self.factors.shape
        first, last = gaps.pattern[part][[0, -1]].tolist()
        pattern, masks = gaps.pattern[part] - first, gaps.masks[first : last + 1]
        products = (self.factors[:, None] * self.factors).reshape(k * k, d)
        # Of each pattern: the posterior precision of a row's codes, times the noise.
        inner = (masks @ products.T).reshape(-1, k, k) + self.noise * np.eye(k)
        factor = Cholesky.of(inner, "posterior precision of the codes")
        inverse_factors = factor.inverse_factor()
        is_missing = np.isnan(x)
        centred = np.where(is_missing, 0.0, x - self.mean)
        whitened = np.einsum("nab,nb->na", inverse_factors[pattern], centred @ self.factors.T)
        codes = np.einsum("nab,na->nb", inverse_factors[pattern], whitened)
        squares = (np.square(centred).sum(axis=1) - np.square(whitened).sum(axis=1)) / self.noise
        observed = masks.sum(axis=1)  # (P,): the number of observed values
        log_scale = factor.log_determinant() + (observed - k) * np.log(self.noise) + observed * _LOG_2PI
        densities = -0.5 * (log_scale[pattern] + squares)
        weight = np.bincount(pattern, gaps.select_weights(part), len(masks))
        scale = np.sqrt(weight)[:, None] * ~masks
        root = (inverse_factors.reshape(-1, k) @ self.factors).reshape(-1, k, d) * scale[:, None]
        root = root.reshape(-1, d)  # rootᵀ root = Σ w factorsᵀ inner⁻¹ factors of the missing values
        uncertainty = self.noise * (root.T @ root + np.diag(weight @ ~masks))
        return np.where(is_missing, self.mean + codes @ self.factors, x), densities, uncertainty

    def _impute_pattern(self, x: Array, observed: Mask) -> tuple[Array, Array, Array]:
        """Means (n, m) and covariance (m, m) of missing values, and log p (n,), for rows with one pattern."""
        centred, missing = x[:, observed] - self.mean[observed], ~observed
        if self.covariance is None:
            observed_factors, missing_factors = self.factors[:, observed], self.factors[:, missing]
            k, m = missing_factors.shape
            inner = observed_factors @ observed_factors.T + self.noise * np.eye(k)
            factor = Cholesky.of(inner, "posterior precision of the codes")
            projections = centred @ observed_factors.T
            codes = factor.solve(projections.T).T
            mean = codes @ missing_factors
            covariance = self.noise * (np.eye(m) + missing_factors.T @ factor.solve(missing_factors))
            squares = (np.square(centred).sum(axis=1) - (projections * codes).sum(axis=1)) / self.noise
            log_scale = float(factor.log_determinant()) + (centred.shape[1] - k) * float(np.log(self.noise))
        else:
            block = self.covariance[np.ix_(observed, observed)]
            factor = Cholesky.of(block, "covariance of the observed values")
            whitened = factor.whiten(centred)
            cross = factor.whiten(self.covariance[np.ix_(missing, observed)])
            mean = whitened @ cross.T
            covariance = self.covariance[np.ix_(missing, missing)] - cross @ cross.T
            squares = np.square(whitened).sum(axis=1)
            log_scale = float(factor.log_determinant())
        densities = -0.5 * (centred.shape[1] * _LOG_2PI + log_scale + squares)
        return self.mean[missing] + mean, covariance, densities
