"""Numbers → Moments by class → one multivariate Gaussian, or its predictive t, for all columns together.

One statistic of the full form gives quadratic and linear discriminants (`covariance` "full" and "tied"), and
Fisher's directions (`fisher.py`); one of the diagonal form gives "diag" and "spherical".
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, one_line
from tamis.conjugate import MultivariateT, NormalInverseGamma, NormalInverseWishart, normals
from tamis.linalg import Cholesky
from tamis.models.generative.block import (
    Block,
    Density,
    Responsibilities,
    can_sum_squares,
    check_array,
    refuse_strength,
)
from tamis.models.generative.gaussian_columns import Student, replace_zero_variances
from tamis.models.generative.gaussian_densities import (
    DiagonalNormal,
    FullNormal,
    SphericalNormal,
    TiedNormal,
    VectorStudent,
    compute_spherical_increases,
    spherical_evidence,
    sum_incomplete_vectors,
)
from tamis.models.generative.gaussian_expectation import (
    PreparedGaussianRows,
    fill_by_means,
    sum_columns,
    sum_vectors,
)
from tamis.models.generative.shrinkage import LedoitWolf, Shrinkage, is_automatic, refuse_shrinkage, shrink
from tamis.stats import Keys, Labels, Moments
from tamis.tables import Table

Covariance = Literal["full", "tied", "diag", "spherical"]
COVARIANCES = ("full", "tied", "diag", "spherical")

_TINY = 1e-300  # the least variance of a density, and the least divisor: its inverse is finite
_REMEDY = (
    "set shrinkage (of a discriminant) or reg_covar (of a mixture), use another estimate than 'mle', give "
    "more rows than columns, or drop columns that repeat others"
)
_LOG_PI = float(np.log(np.pi))
_ROUNDING = 16 * float(np.finfo(np.float64).eps)  # relative to a variance: what is smaller is rounding error


@dataclass(frozen=True, kw_only=True)
class GaussianVectors(Block[Array, Moments]):
    """All columns together have one Gaussian in each class.

    `covariance` is "full" (one per class), "tied" (one for all), "diag" or "spherical" (one variance per
    class). The estimate "mle" may be regularised: by `shrinkage` toward the identity times the mean variance,
    or with "auto" toward the variances by Ledoit and Wolf's coefficients, as in scikit-learn's
    LinearDiscriminantAnalysis; and by a `floor` that is added to every variance, as in its GaussianMixture.
    The divisor of an `unbiased` estimate is the weight minus one for each class. The other estimates have a
    prior instead: by default one with the variances of all classes together, without correlations, as
    `strength` pseudo-observations. If `within_classes`, it has the variances within classes, and the strength
    of the means is multiplied by the ratio of these variances to those of all classes together: for
    components of a mixture, which may be far apart.
    """

    kind: ClassVar[str] = "gaussian vectors"
    needs_all_rows: ClassVar[bool] = False  # EM may start from a sample of the rows
    takes_means: ClassVar[bool] = True  # EM can start with means and precisions that a user gives

    covariance: Covariance = "full"
    shrinkage: Shrinkage = None  # 0 to 1; "auto" until `choose`
    floor: float = 0.0  # added to every variance
    unbiased: bool = False  # whether covariances are divided by the weight minus one for each class
    prior: NormalInverseWishart | None = None
    strength: float = 1.0
    within_classes: bool = False
    exact: bool = False  # whether products of two columns are summed without rounding
    missing: bool = False  # whether rows with missing values are accepted, because EM imputes them

    def __post_init__(self) -> None:
        Block.__post_init__(self)
        if self.covariance not in COVARIANCES:
            raise ValueError(f"got covariance={self.covariance!r}, expected one of {', '.join(COVARIANCES)}")
        refuse_shrinkage(self.shrinkage)
        if not self.has_matrices and isinstance(self.shrinkage, str | LedoitWolf):
            raise ValueError(
                f"got shrinkage='auto' with covariance={self.covariance!r}, expected 'tied' or 'full': there "
                "is no correlation to shrink; give a number, or None"
            )
        if not (np.isfinite(self.floor) and self.floor >= 0):
            raise ValueError(f"got floor={self.floor!r}, expected a finite number, zero or above")
        if self.estimate != "mle" and (self.shrinkage or self.floor or self.unbiased):
            names = [name for name in ("shrinkage", "floor", "unbiased") if getattr(self, name)]
            raise ValueError(
                f"got {names[0]}={getattr(self, names[0])!r} with estimate={self.estimate!r}, expected "
                "estimate='mle': the others have a prior for that, see `prior` and `strength`"
            )
        refuse_strength(self.strength)
        given: object = self.prior
        if not isinstance(given, NormalInverseWishart | None):
            raise TypeError(f"got prior={one_line(given)}, expected a NormalInverseWishart, or None")
        if self.prior is not None and self.prior.batch != ():
            raise ValueError(f"got a prior of batch {self.prior.batch}, expected one for all classes: ()")

    @property
    def has_matrices(self) -> bool:
        """Whether the statistic holds all products of two columns."""
        return self.covariance in ("full", "tied")

    def encode(self, table: Table, learn: bool = True) -> Array:
        rows = table.numbers(self.columns)
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(rows.sum()):  # the usual case, in one pass over the rows
                return rows
        rows = self.values(table)  # as `table.numbers`, but an infinite value raises an error
        if self.has_matrices and not self.missing:
            self._refuse_missing(rows)
        return rows

    def admits(self, values: Array) -> bool:
        return can_sum_squares(values)

    def observe(
        self,
        rows: Array,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Array] | None = None,
    ) -> Moments:
        """Sum the rows by label, exactly, or by responsibilities, with BLAS, about the mean of each class.

        With a full or tied covariance and responsibilities, missing values are imputed by the given density:
        their expected values are summed, and their uncertainty is added to the squares.
        """
        if isinstance(by, Responsibilities):
            return self._observe_by_responsibilities(rows, by, given)
        if not self.has_matrices:
            return Moments.observe(rows, weights, by, missing=True)
        try:
            return Moments.observe(rows, weights, by, form="full", exact=self.exact)
        except ValueError:
            self._refuse_missing(rows)  # its message says what to do about missing values
            raise

    def _observe_by_responsibilities(
        self, rows: Array, responsibilities: Responsibilities, given: Density[Array] | None
    ) -> Moments:
        if not self.has_matrices:
            return sum_columns(rows, responsibilities)
        incomplete = np.asarray(np.isnan(rows).any(axis=1))
        if not incomplete.any():
            return sum_vectors(rows, responsibilities)
        return sum_vectors(
            rows[~incomplete], responsibilities.take(np.flatnonzero(~incomplete))
        ) + sum_incomplete_vectors(rows[incomplete], responsibilities.take(np.flatnonzero(incomplete)), given)

    def prepare(self, rows: Array, weights: Array | None) -> PreparedGaussianRows | None:
        return PreparedGaussianRows.of(rows, weights)

    @property
    def can_pool_squares(self) -> bool:
        return self.covariance == "tied" and self.estimate != "predictive"

    def invert_precisions(self, precisions: ArrayLike, k: int, width: int) -> Array:
        """Invert precisions, whose shape depends on the type of covariance."""
        shapes = {"full": (k, width, width), "tied": (width, width), "diag": (k, width), "spherical": (k,)}
        values = check_array("precisions_init", precisions, shapes[self.covariance])
        if not self.has_matrices:
            if not (values > 0).all():
                raise ValueError(f"precisions_init holds {values.min():g}, expected numbers above zero")
            return np.asarray(1.0 / values)
        if not np.allclose(values, np.swapaxes(values, -1, -2), rtol=1e-6, atol=1e-12):
            raise ValueError(
                "precisions_init holds a matrix that is not symmetric, expected symmetric matrices"
            )
        remedy = "give symmetric, positive definite ones"
        return Cholesky.of(values, "matrix in precisions_init", remedy).inverse()

    def fill_missing(self, rows: Array) -> Array:
        return fill_by_means(rows) if np.isnan(rows).any() else rows

    def choose(self, rows: Array, labels: Labels, weights: Array | None, statistic: Moments) -> Self:
        if is_automatic(self.shrinkage) or isinstance(self.shrinkage, LedoitWolf):
            return replace(self, shrinkage=LedoitWolf.choose(rows, labels, weights, statistic))
        return self

    def _refuse_missing(self, rows: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = np.isnan(rows.sum())
        if suspect and (missing := np.isnan(rows)).any():
            row, j = np.argwhere(missing)[0].tolist()
            column = j if self.columns is None else self.columns[j]
            raise ValueError(
                f"column {column} holds NaN in row {row}, expected finite numbers: drop or fill those rows, "
                "or use GaussianDiscriminant(covariance='diag')"
            )

    def sums_like(self, other: Block[Any, Any]) -> bool:
        return (
            isinstance(other, GaussianVectors)
            and super().sums_like(other)
            and other.has_matrices == self.has_matrices
            and other.exact == self.exact
        )

    def infer(self, statistic: Moments, keys: Keys) -> Density[Array]:
        class_sums = statistic.over(keys)
        if self.has_matrices:
            return self._infer_vectors(statistic, class_sums, keys)
        return self._infer_columns(statistic, class_sums, keys)

    def _infer_vectors(self, statistic: Moments, class_sums: Moments, keys: Keys) -> Density[Array]:
        tied = self.covariance == "tied"
        evidence = partial(self.log_evidence, statistic)
        if self.estimate == "mle":
            if is_automatic(self.shrinkage):
                raise ValueError(
                    "got shrinkage='auto', which fit chooses from rows, expected a number from 0 to 1 for "
                    "a statistic without rows: call fit, or give a number"
                )
            mean, covariance = self._maximise_likelihood(class_sums, statistic.pooled())
        elif tied:
            posterior = update_tied(self.make_prior(statistic), class_sums)
            if self.estimate == "predictive":
                return VectorStudent(keys, posterior.predictive(), evidence)
            mean, covariance = posterior.location, posterior.covariance(mode=self.estimate == "map")
        else:
            updated = self.make_prior(statistic).update(class_sums.drop_keys())
            if self.estimate == "predictive":
                return VectorStudent(keys, updated.predictive(), evidence)
            mean, covariance = updated.mode
            if self.estimate == "mean":
                covariance = mean_covariance(updated.scale, updated.freedom[:, None, None], mean.shape[1])
        if tied:
            factor = _factorise(covariance, "covariance that the classes share")
            return TiedNormal(keys, mean, covariance, factor, evidence)
        weight = class_sums.weight.value
        lowers = [
            _factorise(one, f"covariance of class {key!r}, of weight {n:g},").lower
            for key, one, n in zip(keys, covariance, weight, strict=True)
        ]
        return FullNormal(keys, mean, covariance, Cholesky(np.stack(lowers)), evidence)

    def _infer_columns(self, statistic: Moments, class_sums: Moments, keys: Keys) -> Density[Array]:
        spherical = self.covariance == "spherical"
        prior = _split_prior(self.make_prior(statistic), spherical)
        evidence = partial(self.log_evidence, statistic)
        if self.estimate == "mle":
            mean, variance = self._maximise_likelihood(class_sums, statistic.pooled())
        else:
            posterior = (
                _update_spherical(prior, class_sums) if spherical else prior.update(class_sums.drop_keys())
            )
            if self.estimate == "predictive":
                if not spherical:
                    return Student(keys, posterior.predictive(), prior, class_sums)
                return VectorStudent(keys, _predict_spherical(posterior), evidence)
            mean = posterior.location
            d = mean.shape[1] if spherical else 1
            if self.estimate == "map":
                variance = posterior.scale / (posterior.shape + 1.0 + 0.5 * d)
            else:
                divisor = posterior.shape - 1.0
                variance = posterior.scale / np.where(divisor > 0, divisor, posterior.shape)
        variance = np.maximum(variance, _TINY)
        if spherical:
            return SphericalNormal.of(keys, mean, variance, prior, class_sums)
        return DiagonalNormal.of(keys, mean, variance, prior, class_sums)

    def _maximise_likelihood(self, class_sums: Moments, pooled: Moments) -> tuple[Array, Array]:
        """Means (K, d), and covariances: (d, d) if tied, (K, d, d) if full, variances (K, d) otherwise.

        A class without rows gets the mean and covariance of all rows.
        """
        weight = class_sums.weight.value  # (K,) full, (K, d) diagonal
        is_empty = ~(weight > 0)
        lost_freedom = np.where(is_empty, 0.0, 1.0 if self.unbiased else 0.0)
        column_weight = weight[:, None] if self.has_matrices else weight
        scatter = (
            self.shrinkage.shrink_classes(class_sums)
            if isinstance(self.shrinkage, LedoitWolf)
            else class_sums.scatter
        )
        pooled_mean = np.where(pooled.weight.value > 0, pooled.mean, 0.0)
        mean = np.where(column_weight > 0, class_sums.mean, pooled_mean)
        if self.covariance == "tied":
            weight, lost_freedom, scatter = weight.sum(), lost_freedom.sum(), scatter.sum(axis=0)
            is_empty = np.asarray(~(weight > 0))
        elif self.covariance == "spherical":
            weight, lost_freedom, scatter = (
                np.broadcast_to(part.sum(axis=1, keepdims=True), part.shape)
                for part in (weight, lost_freedom, scatter)
            )
            is_empty = weight <= 0
        freedom = np.where(is_empty, 1.0, weight - lost_freedom)
        if not (freedom > 0).all():
            raise ValueError(
                f"a class has a weight of {np.min(weight):g}, expected above 1 for unbiased=True: give more "
                "rows, or use unbiased=False"
            )
        if self.has_matrices:
            freedom, is_empty = freedom[..., None, None], is_empty[..., None, None]
        covariance = scatter / freedom
        if is_empty.any():
            covariance = np.where(is_empty, self._covariance_of_all(pooled), covariance)
        return mean, self._regularise(covariance)

    def _covariance_of_all(self, pooled: Moments) -> Array:
        """The covariance, or the variances, of all classes together; the identity if there are no rows."""
        if not (pooled.weight.value > 0).any():
            return np.eye(pooled.first.shape[-1]) if self.has_matrices else np.ones(pooled.first.shape)
        if self.has_matrices and isinstance(self.shrinkage, LedoitWolf):
            return self.shrinkage.shrink_all(pooled.scatter, pooled) / pooled.weight.value
        if self.has_matrices:
            return pooled.covariance
        variance = np.where(pooled.weight.value > 0, pooled.variance, 1.0)
        return np.full_like(variance, variance.mean()) if self.covariance == "spherical" else variance

    def _regularise(self, covariance: Array) -> Array:
        if self.has_matrices:
            # With LedoitWolf, the covariance of each class is shrunk already.
            if not isinstance(self.shrinkage, LedoitWolf):
                covariance = shrink(covariance, self.shrinkage)
            return covariance + self.floor * np.eye(covariance.shape[-1])
        if self.shrinkage and not isinstance(self.shrinkage, LedoitWolf):
            s = float(self.shrinkage)
            covariance = (1.0 - s) * covariance + s * covariance.mean(axis=-1, keepdims=True)
        return np.asarray(covariance + self.floor)

    def make_prior(self, statistic: Moments) -> NormalInverseWishart:
        """Return `prior`, or the default prior, which is computed from the statistic."""
        if self.prior is not None:
            return self.prior
        pooled = statistic.pooled()
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(pooled.weight.value > 0, pooled.mean, 0.0)
            variance = replace_zero_variances(pooled.variance)
        if not self.within_classes:
            return NormalInverseWishart.from_mean(mean, self.strength, np.diag(variance))
        scatter = statistic.scatter
        if self.has_matrices:
            scatter = np.diagonal(scatter, axis1=-2, axis2=-1)
        weight = np.maximum(pooled.weight.value, _TINY)
        within = scatter.sum(axis=0) / weight
        within = np.where(within > _ROUNDING * variance, np.minimum(within, variance), variance)
        # All columns have the same strength, that of the column whose means differ most.
        mean_strength = self.strength * float((within / variance).min(initial=1.0))
        return NormalInverseWishart.from_mean(
            mean, mean_strength, np.diag(within), covariance_strength=self.strength
        )

    def log_evidence(self, statistic: Moments) -> float:
        """log p(columns | classes) of rows with this statistic, the parameters integrated out."""
        prior, class_sums = self.make_prior(statistic), statistic.drop_keys()
        if self.covariance == "full":
            return float(prior.log_evidence(class_sums).sum())
        if self.covariance == "tied":
            return log_evidence_of_tied(prior, class_sums)
        by_column = _split_prior(prior, self.covariance == "spherical")
        if self.covariance == "diag":
            return float(by_column.log_evidence(class_sums).sum())
        return spherical_evidence(by_column, class_sums)

    def count_parameters(self, density: Any) -> int:
        k, d = density.mean.shape
        pairs = d * (d + 1) // 2
        covariances = {"full": k * pairs, "tied": pairs, "diag": k * d, "spherical": k}
        return int(k * d + covariances[self.covariance])

    def refuse_impossible(self, statistic: Moments) -> None:
        statistic.refuse_impossible()
        if statistic.rounded is not None:
            prior_scatter = 0.0 if self.estimate == "mle" else np.diagonal(self.make_prior(statistic).scale)
            statistic.refuse_lost_precision(prior_scatter, pooled=self.covariance == "tied")


def _factorise(covariance: Array, what: str) -> Cholesky:
    """The Cholesky factor; raise also if the matrix is positive definite only because of rounding."""
    d = len(covariance)
    factor = Cholesky.of(covariance, what, _REMEDY)
    unexplained = np.square(np.diagonal(factor.lower)) / np.diagonal(covariance)
    if d and unexplained.min() < _ROUNDING * d:
        raise ValueError(
            f"the {what} is singular up to rounding errors, expected all eigenvalues above zero: {_REMEDY}"
        )
    return factor


def _split_prior(prior: NormalInverseWishart, spherical: bool) -> NormalInverseGamma:
    """The marginal prior of each column; if spherical, that of one variance for all columns."""
    d, freedom = prior.dimension, prior.freedom
    scale = np.diagonal(prior.scale)
    if not spherical:
        return NormalInverseGamma(prior.location, prior.strength, 0.5 * (freedom - d + 1.0), 0.5 * scale)
    shape = 1.0 + 0.5 * d * (freedom - d - 1.0)
    if not shape > 0:
        raise ValueError(
            f"got a prior with freedom {freedom:g} for covariance='spherical', expected above "
            f"{d + 1 - 2 / d:g}, for one variance to have a prior"
        )
    return NormalInverseGamma(prior.location, prior.strength, shape, 0.5 * scale.sum())


def _update_spherical(prior: NormalInverseGamma, class_sums: Moments) -> NormalInverseGamma:
    """The posterior (K, d); all columns of a class share one variance, and so its shape and scale."""
    columns = prior.update(class_sums.drop_keys())
    shape, scale = compute_spherical_increases(prior, class_sums)
    return NormalInverseGamma(
        columns.location, columns.strength, prior.shape + shape[:, None], prior.scale + scale[:, None]
    )


def _predict_spherical(posterior: NormalInverseGamma) -> MultivariateT:
    """The distribution of a new row in each class, whose columns share one variance."""
    variances = posterior.scale / posterior.shape * (1.0 + 1.0 / posterior.strength)
    return MultivariateT(
        2.0 * posterior.shape[:, 0], posterior.location, variances[:, :, None] * np.eye(variances.shape[1])
    )


def mean_covariance(scale: Array, freedom: Array, d: int) -> Array:
    """E[covariance] of an inverse Wishart; where it is infinite, scale / (freedom − d + 1)."""
    divisor = freedom - (d + 1.0)
    return np.asarray(scale / np.where(divisor > 0, divisor, freedom - (d - 1.0)))


class TiedPosterior(NamedTuple):
    """The posterior of one covariance for all classes and, given it, normal distributions of their means."""

    location: Array  # (K, d)
    strength: Array  # (K,)
    freedom: Array  # ()
    scale: Array  # (d, d)
    classes: int  # the number of classes with rows

    def covariance(self, *, mode: bool) -> Array:
        """The mode or the mean of the covariance Σ.

        The mode is that of Σ and the means together: their density has a factor |Σ|^(−½) per class with rows.
        """
        d = len(self.scale)
        if mode:
            return np.asarray(self.scale / (self.freedom + d + 1.0 + self.classes))
        return mean_covariance(self.scale, self.freedom, d)

    def predictive(self) -> MultivariateT:
        """The distribution of a new row in each class."""
        freedom = self.freedom - (len(self.scale) - 1.0)
        factor = (1.0 + 1.0 / self.strength) / freedom
        return MultivariateT(freedom, self.location, factor[:, None, None] * self.scale)


def _centre_class_sums(prior: NormalInverseWishart, class_sums: Moments) -> normals.MomentsAboutPrior:
    """The moments of each class about the location of the prior."""
    weight = class_sums.weight.reindex(lambda words: words[..., None])
    shift = normals.shift_of(weight, class_sums.first, prior.location)
    return normals.centre_moments(prior.strength, class_sums.weight.value, shift, class_sums.scatter)


def update_tied(prior: NormalInverseWishart, class_sums: Moments) -> TiedPosterior:
    """The posterior if all classes share one covariance."""
    data = _centre_class_sums(prior, class_sums)
    total = prior.strength + data.weight
    return TiedPosterior(
        prior.location + (data.weight / total)[:, None] * data.shift,
        total,
        prior.freedom + data.weight.sum(),
        prior.scale + data.growth.sum(axis=0),
        int((data.weight > 0).sum()),
    )


def log_evidence_of_tied(prior: NormalInverseWishart, class_sums: Moments) -> float:
    """The log-evidence if all classes share one covariance.

    The determinant |S + W + UUᵀ|, with the scale S, the scatter W and the shifts of means U, is computed by
    the matrix determinant lemma, so that it is precise even if the means are far apart.
    """
    data = _centre_class_sums(prior, class_sums)
    d, n = prior.dimension, data.weight.sum()
    within = data.scatter.sum(axis=0)
    total = Cholesky.of(prior.scale + within, "scale matrix with the scatter")
    shifts = total.whiten(np.sqrt(data.shift_weight)[:, None] * data.shift)  # (K, d)
    products = shifts @ shifts.T if len(shifts) < d else shifts.T @ shifts
    rise = (
        normals.log_determinant_rise(prior.factor, prior.scale, within)
        + Cholesky.of(np.eye(len(products)) + products).log_determinant()
    )
    return float(
        normals.log_multigamma_rise(prior.freedom, n, d)
        - 0.5 * (prior.freedom + n) * rise
        - 0.5 * n * (prior.factor.log_determinant() + d * _LOG_PI)
        - 0.5 * d * np.log1p(data.weight / prior.strength).sum()
    )
