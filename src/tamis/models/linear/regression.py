"""Rows and targets → Gram → LinearPosterior: Bayesian linear regression, with a flat prior on the intercept.

    y = level + (x − x̄)·w + noise,   w ~ N(m₀, S₀),   noise ~ N(0, 1/β)

For columns minus their mean x̄, the level and the coefficients w are independent, in the prior and in the
posterior. Precisions are divided by β: with R = S₀⁻¹/β the posterior of w is N(m, V/β) with V⁻¹ = ΦᵀΦ + R
(Bishop 2006, section 3.3).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky, complete_basis, find_dependent, spectrum
from tamis.models.linear import evidence
from tamis.models.linear.evidence import Spectrum
from tamis.models.linear.posterior import LinearPosterior, NoisePosterior
from tamis.models.linear.priors import (
    CoefficientPrior,
    check_at_least_zero,
    check_noise_precision,
    make_coefficient_prior,
    read_numbers_or_word,
)
from tamis.stats import Gram

_LOG_TWO_PI = float(np.log(2.0 * np.pi))
_EPS = float(np.finfo(np.float64).eps)
_LEAST_SQUARE = 1e-300  # the least mean square of a column: below about 1e-308, floats have fewer digits
# The least pivot of a Cholesky factor, of a matrix scaled to a unit diagonal, that does not come from the
# prior alone.
_MIN_PIVOT = 1e-7
# Evidence chooses a noise variance of at most this many times the mean square of the targets.
_MAX_RELATIVE_NOISE = 1e6


class Paired(NamedTuple):
    """Rows (n, d), targets to be predicted from them, (n,) or (n, q), and their weights (n,)."""

    features: object
    targets: object
    weights: object = None


@dataclass(frozen=True, slots=True, eq=False)
class Equations:
    """The normal equations for columns and targets, minus their means if there is an intercept."""

    gram: Array  # (d, d): ΦᵀΦ
    cross: Array  # (q, d): products of targets and features
    squares: Array  # (q,): of the targets
    weight: float  # of all rows
    centre: Array  # (d,): x̄, or zeros
    level: Array  # (q,): ȳ, or zeros
    rounding: Array  # (d + q,): the rounding errors of the means of features and targets
    least: Array  # (q,): the least noise variance that can be distinguished from zero
    slack: float  # variance of the level in units of the noise: 1/weight, or 0 without an intercept

    @classmethod
    def of(cls, gram: Gram, intercept: bool) -> "Equations":
        """Compute the normal equations from the statistic."""
        weight, p = float(gram.weight.value), gram.width
        if not weight > 0:
            raise ValueError(
                "got a statistic of no weight, expected that of one row or more: learn some rows"
            )
        mean, rounding = gram.mean, np.zeros(gram.width + gram.targets)
        if intercept:
            products, centre, level, slack = gram.scatter, mean[:p], mean[p:], 1.0 / weight
            rounding = gram.mean_rest
            # A constant column has squares only because float64 cannot represent its mean exactly.
            constant = np.diagonal(products) <= weight * np.square(_EPS * mean)
            products[constant] = products[:, constant] = 0.0
            squares = np.diagonal(products[p:, p:])
        else:
            products = np.block([[gram.features, gram.cross], [gram.cross.T, gram.squares]])
            centre, level, slack = np.zeros(p), np.zeros(gram.targets), 0.0
            squares = np.diagonal(gram.squares)
        for what, sizes in (("column", np.diagonal(products[:p, :p])), ("target", squares)):
            if 0.0 < float(sizes.max()) < _LEAST_SQUARE * weight:
                raise ValueError(
                    f"the largest {what} has a mean square of {sizes.max() / weight:.3g}, expected above "
                    f"{_LEAST_SQUARE:g}, where floats have all their digits: rescale it"
                )
        least = evidence.LEAST_NOISE * squares / weight
        least = np.where(least > 0, least, np.maximum(np.square(_EPS * mean[p:]), 1e-30))
        gram_matrix, cross = products[:p, :p], products[:p, p:].T
        return cls(gram_matrix, cross, squares, weight, centre, level, rounding, least, slack)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BayesianLinear:
    """Bayesian linear regression: `observe` sums products, `infer` applies the prior and the noise.

    `alpha` is the prior precision of the coefficients: a number, or one per column, 0 for a flat prior; or
    "evidence". `prior`, a pair of their mean and covariance (or variances), replaces it. `beta` is the
    precision of the noise: a number, or one per target; "evidence"; or "unknown". If it is unknown, the
    noise's variance has an inverse gamma prior of `noise_shape` and `noise_scale`, and the coefficients'
    prior covariance is in units of the noise's variance.

    >>> model = BayesianLinear(alpha=0.0, beta=1.0)
    >>> posterior = model.infer(model.observe(Paired([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])))
    >>> posterior.mean.round(12).tolist(), posterior.covariance.round(12).tolist()
    ([[2.0]], [[[0.5]]])
    """

    alpha: object = "evidence"
    beta: object = "evidence"
    prior: object = None
    noise_shape: float = 0.0
    noise_scale: float = 0.0
    intercept: bool = True
    exact: bool = False  # whether products are summed without rounding
    names: tuple[object, ...] | None = None  # of the columns, for messages

    def observe(self, data: Paired, given: LinearPosterior | None = None, /) -> Gram:
        """Sum the products of rows and targets."""
        return Gram.observe(data.features, data.targets, data.weights, exact=self.exact)

    def infer(self, statistic: Gram, /) -> LinearPosterior:
        """Infer the distribution of coefficients, level and noise."""
        equations = Equations.of(statistic, self.intercept)
        with threads.limit_blas(len(equations.gram)):
            return self._solve(equations)

    def _solve(self, equations: Equations) -> LinearPosterior:
        """Infer the posterior from the normal equations."""
        q, d = equations.cross.shape
        prior = make_coefficient_prior(self.alpha, self.prior, d, q)
        # Products with the targets' residuals about the predictions by the prior's mean.
        cross = equations.cross - prior.mean @ equations.gram
        squares = equations.squares - np.einsum("qd,qd->q", prior.mean, equations.cross + cross)
        squares = np.maximum(squares, 0.0)
        count = equations.weight - self.intercept - int(prior.flat.sum())
        noise = self._make_noise_prior(count, q)
        self._refuse_dependent(equations, prior)
        precisions = _choose_precisions(equations, prior, cross, squares, noise, count)
        root, log_determinant, is_informed = _find_roots(equations.gram, prior, precisions.ratio)
        # The mean minus the prior's is root · coordinates, because root · rootᵀ is the inverse of ΦᵀΦ + R.
        coordinates = (cross[:, None, :] @ root)[:, 0] * is_informed
        mean = prior.mean + (root @ coordinates[..., None])[..., 0]
        loss = np.maximum(squares - np.square(coordinates).sum(axis=1), 0.0)
        posterior_noise, beta = None, precisions.beta
        if noise.unknown:
            shape = np.full(q, noise.shape + 0.5 * count)
            scale = np.maximum(noise.scale + 0.5 * loss, shape * equations.least)
            posterior_noise = NoisePosterior(shape, scale)
            beta = posterior_noise.shape / posterior_noise.scale
        log_evidence: Array | None = None
        if not prior.flat.any() and (posterior_noise is None or min(noise.shape, noise.scale) > 0):
            log_evidence = 0.5 * (
                prior.proper * np.log(precisions.ratio) + prior.log_determinant - log_determinant
            )
            log_level = 0.5 * np.log(equations.weight) if self.intercept else 0.0
            log_evidence = log_evidence - 0.5 * count * _LOG_TWO_PI - log_level
            log_evidence = log_evidence + _log_noise_terms(beta, loss, count, noise, posterior_noise)
        return LinearPosterior(
            centre=equations.centre,
            level=equations.level + equations.rounding[d:] - mean @ equations.rounding[:d],
            slack=equations.slack,
            mean=mean,
            root=root,
            beta=np.asarray(beta),
            noise=posterior_noise,
            alpha=precisions.alpha,
            effective=(((equations.gram @ root) * root).sum(axis=-2) * is_informed).sum(axis=-1) * np.ones(q),
            log_evidence=log_evidence,
        )

    def refuse_invalid_parameters(self, d: int, q: int) -> None:
        """Raise if the model's parameters are invalid for d columns and q targets."""
        make_coefficient_prior(self.alpha, self.prior, d, q)
        self._make_noise_prior(np.inf, q)

    def _make_noise_prior(self, count: float, q: int) -> "_Noise":
        """Check the parameters and make the prior of the noise of q targets.

        `count` is the total weight, minus one for each coefficient, or intercept, with a flat prior.
        """
        shape = check_at_least_zero("noise_shape", self.noise_shape)
        scale = check_at_least_zero("noise_scale", self.noise_scale)
        beta = read_numbers_or_word(self.beta, "beta", ("unknown", "evidence"))
        if not isinstance(beta, str):
            return _Noise(check_noise_precision(beta, q), unknown=False, shape=0.0, scale=0.0)
        unknown = beta == "unknown"
        if count + 2.0 * shape * unknown <= 0:
            raise ValueError(
                f"the rows leave {count:g} degrees of freedom for the noise (n_samples = 1, or fewer rows or "
                "less weight than flat coefficients), expected more than 0: learn more rows, or give beta as "
                "a number"
            )
        return _Noise(known=None, unknown=unknown, shape=shape * unknown, scale=scale * unknown)

    def _refuse_dependent(self, equations: Equations, prior: CoefficientPrior) -> None:
        """Raise if other columns determine a column with a flat prior."""
        if not prior.flat.any():
            return
        columns = find_dependent(equations.gram + prior.precision)
        if len(columns):
            names = ", ".join(repr(self.names[j]) if self.names else str(j) for j in columns.tolist())
            named, them = (f"column {names}", "it") if len(columns) == 1 else (f"columns {names}", "them")
            others = "the others and the intercept" if self.intercept else "the others"
            raise ValueError(
                f"{others} determine {named}, expected independent columns where alpha=0: drop {them}, or "
                "give an alpha above 0"
            )


class _Noise(NamedTuple):
    """The noise's precision: known, chosen by evidence (`known` is None), or integrated out (`unknown`)."""

    known: Array | None  # (q,): the precision if it is known
    unknown: bool  # whether the precision is integrated out
    shape: float  # of the inverse gamma prior of its variance, if it is integrated out
    scale: float


class _Precisions(NamedTuple):
    """The precisions of the prior and of the noise, for each target."""

    ratio: Array  # (q,): α/β
    beta: Array  # (q,)
    # Of the prior: (q,) if chosen by evidence, else as given; None if a covariance was given.
    alpha: Array | None


def _choose_precisions(
    equations: Equations, prior: CoefficientPrior, cross: Array, squares: Array, noise: _Noise, count: float
) -> _Precisions:
    """Choose the prior's and the noise's precision of each target by evidence, unless they are given."""
    q = len(cross)
    if not prior.by_evidence and noise.unknown:
        return _Precisions(np.ones(q), np.ones(q), prior.alpha)
    if not prior.by_evidence and noise.known is not None:
        return _Precisions(1.0 / noise.known, noise.known, prior.alpha)
    gram, inner_cross, inner_squares = _eliminate_flat(equations.gram, cross, squares, prior.flat)
    root = prior.root[np.ix_(~prior.flat, ~prior.flat)]
    spectra = evidence.find_spectra(root.T @ gram @ root, inner_cross @ root, inner_squares, count)
    ratio, beta = np.ones(q), np.ones(q)
    for k, (target, least) in enumerate(zip(spectra, equations.least.tolist(), strict=True)):
        if not prior.by_evidence:
            beta[k] = _choose_noise(target, least, float(squares[k]))
            ratio[k] = 1.0 / beta[k]
        elif noise.known is None:
            ratio[k], beta[k] = evidence.choose_ratio_and_noise(target, least, noise.shape, noise.scale)
        else:
            beta[k] = noise.known[k]
            ratio[k] = evidence.choose_ratio(target, float(beta[k]))
    if not prior.by_evidence:
        return _Precisions(ratio, beta, prior.alpha)
    return _Precisions(ratio, beta, ratio if noise.unknown else ratio * beta)


def _log_noise_terms(
    beta: Array, loss: Array, count: float, noise: _Noise, posterior: NoisePosterior | None
) -> Array:
    """Return the terms of the log-evidence (q,) that depend on the noise and the penalised squares `loss`."""
    if posterior is None:
        return 0.5 * count * np.log(beta) - 0.5 * beta * loss
    of_prior = special.gammaln(noise.shape) - noise.shape * np.log(noise.scale)
    return np.asarray(special.gammaln(posterior.shape) - posterior.shape * np.log(posterior.scale) - of_prior)


def _choose_noise(spectrum: Spectrum, least: float, squares: float) -> float:
    """Choose β by the evidence for a known prior; `squares` is the target's sum of squares."""
    if not len(spectrum.values):  # no column with a prior varies
        return spectrum.count / max(spectrum.residual, spectrum.count * least)
    most = _MAX_RELATIVE_NOISE * (squares / spectrum.count + least)
    return evidence.choose_noise(spectrum, least, most)


def _eliminate_flat(
    gram: Array, cross: Array, squares: Array, flat: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """Eliminate the columns with a flat prior from the normal equations (by the Schur complement)."""
    if not flat.any():
        return gram, cross, squares
    rest = ~flat
    factor = Cholesky.of(gram[np.ix_(flat, flat)]).inverse_factor()
    projections, explained = factor @ gram[np.ix_(flat, rest)], cross[:, flat] @ factor.T
    remaining = np.maximum(squares - np.square(explained).sum(axis=1), 0.0)
    return (
        gram[np.ix_(rest, rest)] - projections.T @ projections,
        cross[:, rest] - explained @ projections,
        remaining,
    )


def _find_roots(gram: Array, prior: CoefficientPrior, ratio: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Find G (k, d, d) with GGᵀ = P⁻¹ for P = ΦᵀΦ + ratio · precision; return G, log|P| (k,), a mask (k, d).

    k is 1 if all ratios are equal, otherwise q. If columns are collinear and the prior is weak, a Cholesky
    factor would lose the prior in rounding; then G is made of eigenvectors of ΦᵀΦ. The mask is False for the
    columns of G that only the prior determines.
    """
    ratios = ratio[:1] if (ratio == ratio[0]).all() else ratio
    precision = gram + ratios[:, None, None] * prior.precision
    scales = 1.0 / np.sqrt(np.diagonal(precision, axis1=-2, axis2=-1))
    factor, definite = Cholesky.factorise_definite(precision * scales[:, :, None] * scales[:, None, :])
    pivots = np.square(np.diagonal(factor.lower, axis1=-2, axis2=-1)).min(axis=-1)
    weak = (~definite | (pivots < _MIN_PIVOT)) & (not prior.flat.any())
    root = scales[:, :, None] * np.swapaxes(factor.inverse_factor(), -1, -2)
    log_determinant = factor.log_determinant() - 2.0 * np.log(scales).sum(axis=-1)
    is_informed = np.ones(scales.shape, dtype=np.bool_)
    if weak.any():
        values, vectors = spectrum(prior.root.T @ gram @ prior.root)
        rest = complete_basis(vectors)
        for k in np.flatnonzero(weak).tolist():
            informed, uninformed = np.sqrt(values + ratios[k]), np.sqrt(ratios[k])  # √ of the eigenvalues
            root[k] = prior.root @ np.hstack([vectors / informed, rest / uninformed])
            is_informed[k, len(values) :] = False
            logs = np.log(informed).sum() + rest.shape[1] * np.log(uninformed)
            log_determinant[k] = 2.0 * logs + prior.log_determinant
    return root, log_determinant, is_informed
