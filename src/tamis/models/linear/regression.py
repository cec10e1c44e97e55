"""rows and targets → Gram → LinearPosterior: Bayesian linear regression, with a flat prior on the intercept.

    y = level + (x − x̄)·w + noise,   w ~ N(m₀, S₀),   noise ~ N(0, 1/β)

About the mean x̄ the level and the coefficients w are independent, before the data and after. Precisions are
kept in units of the noise's: with R = S₀⁻¹/β the posterior of w is N(m, V/β) with V⁻¹ = ΦᵀΦ + R.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky, completed, dependent, spectrum
from tamis.models.linear import evidence
from tamis.models.linear.evidence import Spectrum
from tamis.models.linear.posterior import LinearPosterior, NoiseBelief
from tamis.models.linear.priors import Coefficients, at_least_zero, coefficients, evidence_or, noise_precision
from tamis.stats import Gram

_LOG_TWO_PI = float(np.log(2.0 * np.pi))
_EPS = float(np.finfo(np.float64).eps)
_LEAST_SQUARE = 1e-300  # below about 1e-308 digits are lost
_PIVOT = 1e-7  # of a column's own precision: where less is left of it, the prior may be all that is


class Paired(NamedTuple):
    """Rows (n, d), what is to be predicted from each, (n,) or (n, q), and their weights (n,)."""

    features: object
    targets: object
    weights: object = None


@dataclass(frozen=True, slots=True, eq=False)
class Equations:
    """The normal equations, about the mean if there is an intercept."""

    gram: Array  # (d, d)
    cross: Array  # (q, d)
    squares: Array  # (q,)
    weight: float
    centre: Array  # (d,): x̄, or zeros
    level: Array  # (q,): ȳ, or zeros
    rest: Array  # (d + q,): what rounding took from both
    least: Array  # (q,): the squared noise that is the least to be told from none
    slack: float  # variance of the level in units of the noise: 1/weight, or 0 without one

    @classmethod
    def of(cls, gram: Gram, intercept: bool) -> "Equations":
        """Read off the statistic."""
        weight, p = float(gram.weight.value), gram.width
        if not weight > 0:
            raise ValueError(
                "got a statistic of no weight, expected that of one row or more: learn some rows"
            )
        mean, rest = gram.mean, np.zeros(gram.width + gram.targets)
        if intercept:
            whole, centre, level, slack = gram.scatter, mean[:p], mean[p:], 1.0 / weight
            rest = gram.mean_rest
            # what is left of a constant that no float can hold
            constant = np.diagonal(whole) <= weight * np.square(_EPS * mean)
            whole[constant] = whole[:, constant] = 0.0
            squares = np.diagonal(whole[p:, p:])
        else:
            whole = np.block([[gram.features, gram.cross], [gram.cross.T, gram.squares]])
            centre, level, slack = np.zeros(p), np.zeros(gram.targets), 0.0
            squares = np.diagonal(gram.squares)
        for what, sizes in (("column", np.diagonal(whole[:p, :p])), ("target", squares)):
            if 0.0 < float(sizes.max()) < _LEAST_SQUARE * weight:
                raise ValueError(
                    f"the largest {what} has a mean square of {sizes.max() / weight:.3g}, expected above "
                    f"{_LEAST_SQUARE:g}, where floats have all their digits: rescale it"
                )
        least = evidence.LEAST_NOISE * squares / weight
        least = np.where(least > 0, least, np.maximum(np.square(_EPS * mean[p:]), 1e-30))
        return cls(whole[:p, :p], whole[:p, p:].T, squares, weight, centre, level, rest, least, slack)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BayesianLinear:
    """The pair: `observe` sums products, `infer` knows the prior and the noise.

    `alpha` is the precision of the coefficients, one or one a column, 0 for a flat prior, or "evidence";
    `prior` is their mean and covariance, or variances, in its place. `beta` is the precision of the noise;
    "evidence"; or "unknown", with an inverse gamma belief of `noise_shape` and `noise_scale` in its variance,
    in units of which the prior of the coefficients then is.

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
    exact: bool = False
    names: tuple[object, ...] | None = None  # of the columns, for messages

    def observe(self, data: Paired, given: LinearPosterior | None = None, /) -> Gram:
        """Sum the products of rows and targets."""
        return Gram.observe(data.features, data.targets, data.weights, exact=self.exact)

    def infer(self, statistic: Gram, /) -> LinearPosterior:
        """The belief in coefficients, level and noise."""
        seen = Equations.of(statistic, self.intercept)
        with threads.blas_of(len(seen.gram)):
            return self._of(seen)

    def _of(self, seen: Equations) -> LinearPosterior:
        q, d = seen.cross.shape
        held = coefficients(self.alpha, self.prior, d, q)
        cross = seen.cross - held.mean @ seen.gram
        squares = seen.squares - np.einsum("qd,qd->q", held.mean, seen.cross + cross)
        squares = np.maximum(squares, 0.0)
        count = seen.weight - self.intercept - int(held.flat.sum())
        noise = self._noise(count, q)
        self._refuse_if_dependent(seen, held)
        found = _precisions(seen, held, cross, squares, noise, count)
        root, log_volume, told_of = _roots(seen.gram, held, found.ratio)
        half = (cross[:, None, :] @ root)[:, 0] * told_of
        mean = held.mean + (root @ half[..., None])[..., 0]
        penalised = np.maximum(squares - np.square(half).sum(axis=1), 0.0)
        belief, beta = None, found.beta
        if noise.unknown:
            a = np.full(q, noise.shape + 0.5 * count)
            belief = NoiseBelief(a, np.maximum(noise.scale + 0.5 * penalised, a * seen.least))
            beta = belief.shape / belief.scale
        told: Array | None = None
        if not held.flat.any() and (belief is None or min(noise.shape, noise.scale) > 0):
            told = 0.5 * (held.proper * np.log(found.ratio) + held.log_determinant - log_volume)
            told = told - 0.5 * count * _LOG_TWO_PI - (0.5 * np.log(seen.weight) if self.intercept else 0.0)
            told = told + _log_fit(beta, penalised, count, noise, belief)
        return LinearPosterior(
            centre=seen.centre,
            level=seen.level + seen.rest[d:] - mean @ seen.rest[:d],
            slack=seen.slack,
            mean=mean,
            root=root,
            beta=np.asarray(beta),
            noise=belief,
            alpha=found.alpha,
            effective=(((seen.gram @ root) * root).sum(axis=-2) * told_of).sum(axis=-1) * np.ones(q),
            log_evidence=told,
        )

    def refuse_impossible(self, d: int, q: int) -> None:
        """Raise if no rows of d columns and q targets, however many, can be inferred from."""
        coefficients(self.alpha, self.prior, d, q)
        self._noise(np.inf, q)

    def _noise(self, count: float, q: int) -> "_Noise":
        """What is said of the noise of q targets, checked."""
        shape = at_least_zero("noise_shape", self.noise_shape)
        scale = at_least_zero("noise_scale", self.noise_scale)
        given = evidence_or(self.beta, "beta", ("unknown", "evidence"))
        if not isinstance(given, str):
            return _Noise(noise_precision(given, q), False, 0.0, 0.0)
        unknown = given == "unknown"
        if count + 2.0 * shape * unknown <= 0:
            raise ValueError(
                f"the rows leave {count:g} degrees of freedom for the noise (n_samples = 1, or fewer rows or "
                "less weight than flat coefficients), expected more than 0: learn more rows, or give beta as "
                "a number"
            )
        return _Noise(None, unknown, shape * unknown, scale * unknown)

    def _refuse_if_dependent(self, seen: Equations, held: Coefficients) -> None:
        if not held.flat.any():
            return
        found = dependent(seen.gram + held.precision)
        if len(found):
            named = ", ".join(repr(self.names[j]) if self.names else str(j) for j in found.tolist())
            named, them = (f"column {named}", "it") if len(found) == 1 else (f"columns {named}", "them")
            others = "the others and the intercept" if self.intercept else "the others"
            raise ValueError(
                f"{others} determine {named}, expected columns that stand alone where alpha=0: drop {them}, "
                "or give an alpha above 0"
            )


class _Noise(NamedTuple):
    """Its precision (q,) where that is known; else whether it is integrated out, by what belief."""

    known: Array | None
    unknown: bool
    shape: float
    scale: float


class _Precisions(NamedTuple):
    """Of each target (q,): the prior's in units of the noise's, the noise's, and what `alpha` came to."""

    ratio: Array
    beta: Array
    alpha: Array | None


def _precisions(
    seen: Equations, held: Coefficients, cross: Array, squares: Array, noise: _Noise, count: float
) -> _Precisions:
    """The prior's and the noise's precision of each target, those chosen by evidence included."""
    q = len(cross)
    if not held.free and noise.unknown:
        return _Precisions(np.ones(q), np.ones(q), held.alpha)
    if not held.free and noise.known is not None:
        return _Precisions(1.0 / noise.known, noise.known, held.alpha)
    gram, across, left = _without_flat(seen.gram, cross, squares, held.flat)
    root = held.root[np.ix_(~held.flat, ~held.flat)]
    each = evidence.spectra(root.T @ gram @ root, across @ root, left, count)
    ratio, beta = np.ones(q), np.ones(q)
    for k, (one, least) in enumerate(zip(each, seen.least.tolist(), strict=True)):
        if not held.free:
            beta[k] = _noise_alone(one, least, float(squares[k]))
            ratio[k] = 1.0 / beta[k]
        elif noise.known is None:
            ratio[k], beta[k] = evidence.both(one, least, noise.shape, noise.scale)
        else:
            beta[k] = noise.known[k]
            ratio[k] = evidence.prior_alone(one, float(beta[k]))
    if not held.free:
        return _Precisions(ratio, beta, held.alpha)
    return _Precisions(ratio, beta, ratio if noise.unknown else ratio * beta)


def _log_fit(beta: Array, penalised: Array, count: float, noise: _Noise, belief: NoiseBelief | None) -> Array:
    """What the noise and the squares it has to explain add to the log-evidence (q,)."""
    if belief is None:
        return 0.5 * count * np.log(beta) - 0.5 * beta * penalised
    before = special.gammaln(noise.shape) - noise.shape * np.log(noise.scale)
    return np.asarray(special.gammaln(belief.shape) - belief.shape * np.log(belief.scale) - before)


def _noise_alone(seen: Spectrum, least: float, squares: float) -> float:
    """β by evidence, where the prior is known."""
    if not len(seen.values):  # the prior says nothing that the data could add to
        return seen.count / max(seen.residual, seen.count * least)
    return evidence.noise_alone(seen, least, 1e6 * (squares / seen.count + least))


def _without_flat(
    gram: Array, cross: Array, squares: Array, flat: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """The equations of the columns that have a prior, once the others have taken what they can."""
    if not flat.any():
        return gram, cross, squares
    kept = ~flat
    taken = Cholesky.of(gram[np.ix_(flat, flat)]).inverse_factor()
    onto, share = taken @ gram[np.ix_(flat, kept)], cross[:, flat] @ taken.T
    left = np.maximum(squares - np.square(share).sum(axis=1), 0.0)
    return gram[np.ix_(kept, kept)] - onto.T @ onto, cross[:, kept] - share @ onto, left


def _roots(gram: Array, held: Coefficients, ratio: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """G (1 or q, d, d) with GGᵀ = (ΦᵀΦ + ratio · precision)⁻¹, and log|ΦᵀΦ + …|: one for all if that is all.

    Where columns repeat each other and the prior is weak, what Cholesky would leave of it is rounding: there
    the eigenvectors say which directions are the prior's alone. The mask (1 or q, d) has those of the others.
    """
    ratios = ratio[:1] if (ratio == ratio[0]).all() else ratio
    whole = gram + ratios[:, None, None] * held.precision
    units = 1.0 / np.sqrt(np.diagonal(whole, axis1=-2, axis2=-1))
    factor, definite = Cholesky.where_definite(whole * units[:, :, None] * units[:, None, :])
    pivots = np.square(np.diagonal(factor.lower, axis1=-2, axis2=-1)).min(axis=-1)
    weak = (~definite | (pivots < _PIVOT)) & (not held.flat.any())
    root = units[:, :, None] * np.swapaxes(factor.inverse_factor(), -1, -2)
    volume = factor.log_determinant() - 2.0 * np.log(units).sum(axis=-1)
    told_of = np.ones(units.shape, dtype=np.bool_)
    if weak.any():
        values, vectors = spectrum(held.root.T @ gram @ held.root)
        rest = completed(vectors)
        for k in np.flatnonzero(weak).tolist():
            inner, outer = np.sqrt(values + ratios[k]), np.sqrt(ratios[k])
            root[k] = held.root @ np.hstack([vectors / inner, rest / outer])
            told_of[k, len(values) :] = False
            logs = np.log(inner).sum() + rest.shape[1] * np.log(outer)
            volume[k] = 2.0 * logs + held.log_determinant
    return root, volume, told_of
