"""Responses whose targets are counts, any real numbers, or numbers above zero."""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.conjugate import NegativeBinomial, Normal, Univariate
from tamis.families import stirling
from tamis.models.linear.responses.response import ALL_ZERO, NullModelSizes, Response, SumOverRows, find_root

_LOG_TWO_PI = float(np.log(2.0 * np.pi))
# Steps of Newton's method that invert the trigamma function: four reach full precision for all variances from
# 1e-12 to 1e200.
_TRIGAMMA_STEPS = 6
# The least variance of a gamma variable's logarithm, so that no shape is infinite: such a variable varies by
# one part in a million.
_LEAST_VARIANCE = 1e-12
# The least starting mean, as a fraction of the mean target: starting means must have logarithms.
_LEAST_START = 0.05


class _LogLink(Response):
    """The log link: the mean is the exponential function of the score."""

    link = "log"
    has_positive_mean = True
    takes_exposure = True  # an offset of log t multiplies the mean by t

    def mean(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def link_function(self, mean: Array) -> Array:
        return np.asarray(np.log(np.maximum(mean, 0.0)))


class Poisson(_LogLink):
    """Counts with a Poisson distribution, whose mean is the exponential function of the score.

    Targets may be any numbers of 0 or more, such as rates.
    """

    family = "poisson"
    allowed_targets = "counts, 0 or more"
    vanishing_targets_text = "counts are 0"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            means = np.exp(scores)
        return means - targets * scores, means - targets

    def information(self, scores: Array) -> Array:
        return np.asarray(np.exp(scores))

    def variance(self, mean: Array) -> Array:
        return mean

    def deviance(self, mean: Array, targets: Array) -> Array:
        return 2.0 * stirling.deviance(targets, mean)  # 2 (y log(y/mean) − y + mean)

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        # log p(y) = y log(mean) − mean − log y!, without the terms y log y − y, which cancel
        return -stirling.deviance(targets, mean) - stirling.factorial_remainder(targets)

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.asarray(targets >= 0)

    def refuse_unbounded_intercept(self, least: float, largest: float, mean: float, has_prior: bool) -> None:
        if not has_prior and least == largest == 0:
            raise ValueError(ALL_ZERO)

    def find_null_intercept(self, sizes: NullModelSizes, sum_rows: SumOverRows) -> float:
        # Offsets are shifted by the largest one, so that no exponential overflows.
        means = sum_rows(partial(self._sum_means, sizes.largest_offset))[0]
        return float(np.log(sizes.target_sum) - np.log(means)) - sizes.largest_offset

    @staticmethod
    def _sum_means(shift: float, targets: Array, w: Array, offsets: Array) -> Array:
        return np.array([w @ np.exp(offsets - shift)])

    def bound_vanishing_loss(
        self, scores: Array, targets: Array, weights: Array | None, offsets: Array | None
    ) -> tuple[float, float]:
        """Return the logarithms of the loss and of its bound; ∞ and −∞ if a target is above 0.

        Proof of the bound for the coefficients β: either some direction lowers all scores x·β, so that all
        means can tend to zero together, or the zero vector is a convex combination of the rows x, Σ λ x = 0
        with Σ λ = 1 and λ ≥ 0 (Gordan's theorem). The loss is Σ a exp(x·β), where a is a row's weight times
        the exponential of its offset. In the second case it is at least min a · Σ λ exp(x·β), because no λ is
        above 1, and so at least min a · exp(Σ λ x·β) = min a, by Jensen's inequality.
        """
        if targets.any():
            return np.inf, -np.inf
        log_factors = np.zeros(len(scores)) if offsets is None else offsets
        if weights is not None:
            scores, log_factors = scores + np.log(weights), log_factors + np.log(weights)
        return float(special.logsumexp(scores)), float(log_factors.min())

    def predict_distribution(self, scores: Array, variances: Array, dispersion: float) -> Univariate:
        if dispersion != 1.0:
            return super().predict_distribution(scores, variances, dispersion)
        return NegativeBinomial(*match_gamma(scores, variances))


def match_gamma(scores: Array, variances: Array) -> tuple[Array, Array]:
    """Return shapes and rates of gamma variables, given the means and variances of their logarithms.

    The means are `scores`. Variances below 1e-12 are replaced by 1e-12.

    >>> shape, rate = match_gamma(np.array([0.0]), special.polygamma(1, np.array([2.5])))
    >>> shape.round(9).tolist(), np.log(rate).round(9).tolist() == special.digamma(shape).round(9).tolist()
    ([2.5], True)
    """
    target = np.maximum(variances, _LEAST_VARIANCE)
    # Newton's method on 1/ψ₁, where ψ₁ is the trigamma function. 1/ψ₁ is convex, so that it converges from
    # any start above the solution (Smyth 2004, "Linear models and empirical Bayes methods"). Both terms of
    # the start are above the solution: the first is close to it for small variances v; the second, which
    # solves 1/x + 1/x² = v, for large ones.
    shape = np.minimum(0.5 + 1.0 / target, (0.5 + np.sqrt(0.25 + target)) / target)
    for _ in range(_TRIGAMMA_STEPS):
        variance = special.polygamma(1, shape)
        shape = shape + variance * (1.0 - variance / target) / special.polygamma(2, shape)
    return shape, np.exp(special.digamma(shape) - scores)


# ── numbers ──


class _Normal(Response):
    """Numbers with a normal distribution, whose variance does not depend on the mean."""

    family = "gaussian"
    has_dispersion = True
    start_needs_all_rows = True  # no solver may start at the mode of a sample of the rows
    targets_have_unit = True  # losses are in the squared unit of the targets

    def variance(self, mean: Array) -> Array:
        return np.ones_like(mean)

    def deviance(self, mean: Array, targets: Array) -> Array:
        return np.square(targets - mean)

    def pearson_squares(self, scores: Array, targets: Array) -> Array:
        return self.deviance_by_score(scores, targets)

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        squares = np.square(targets - mean) / dispersion
        return np.asarray(-0.5 * (squares + _LOG_TWO_PI + np.log(dispersion)))

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.ones(len(targets), dtype=np.bool_)


class Gaussian(_Normal):
    """Numbers with a normal distribution, whose mean is the score."""

    link = "identity"
    scores_have_unit = True  # scores are in the unit of the targets
    uses_likeliest_dispersion = True  # at which a fit reports its log-likelihood, as in statsmodels

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        derivatives = scores - targets
        return 0.5 * np.square(derivatives), derivatives

    def information(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def mean(self, scores: Array) -> Array:
        return scores

    def link_function(self, mean: Array) -> Array:
        return mean

    def find_null_intercept(self, sizes: NullModelSizes, sum_rows: SumOverRows) -> float:
        return float(sum_rows(self._sum_differences)[0]) / sizes.weight

    @staticmethod
    def _sum_differences(targets: Array, w: Array, offsets: Array) -> Array:
        return np.array([w @ (targets - offsets)])

    def start_means(self, targets: Array, mean: float) -> Array:
        return targets

    def predict_distribution(self, scores: Array, variances: Array, dispersion: float) -> Univariate:
        return Normal(scores, np.sqrt(dispersion + variances))


class GaussianLog(_LogLink, _Normal):
    """Numbers with a normal distribution, whose mean is the exponential function of the score."""

    is_canonical = False
    vanishing_targets_text = "targets are 0 or less"
    vanishing_advice = ", or link='identity'"

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.exp(scores)
            residuals = means - targets
            return 0.5 * np.square(residuals), residuals * means

    def information(self, scores: Array) -> Array:
        return np.asarray(np.exp(2.0 * scores))

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.exp(scores)
            return np.asarray((2.0 * means - targets) * means)

    def refuse_unbounded_intercept(self, least: float, largest: float, mean: float, has_prior: bool) -> None:
        if mean <= 0:
            raise ValueError(
                f"the mean of the targets is {mean:g}, expected above 0 for link='log': means are "
                "exponentials, set link='identity'"
            )

    def find_null_intercept(self, sizes: NullModelSizes, sum_rows: SumOverRows) -> float:
        # Offsets are shifted by the largest one, so that no exponential overflows.
        product, square = sum_rows(partial(self._sum_products, sizes.largest_offset)).tolist()
        return float(np.log(np.maximum(product, 0.0) / square)) - sizes.largest_offset

    @staticmethod
    def _sum_products(shift: float, targets: Array, w: Array, offsets: Array) -> Array:
        factors = np.exp(offsets - shift)
        return np.array([w @ (targets * factors), w @ np.square(factors)])

    def start_means(self, targets: Array, mean: float) -> Array:
        return np.asarray(np.maximum(super().start_means(targets, mean), _LEAST_START * abs(mean)))


# ── positive numbers ──


class _Positive(Response):
    """Numbers above zero with a gamma distribution, whose standard deviation is proportional to the mean."""

    family = "gamma"
    allowed_targets = "numbers above 0"
    has_dispersion = True
    has_positive_mean = True
    start_needs_all_rows = True  # no solver may start at the mode of a sample of the rows

    def variance(self, mean: Array) -> Array:
        return np.square(mean)

    def deviance(self, mean: Array, targets: Array) -> Array:
        return 2.0 * stirling.log1p_gap(_relative_excess(targets, mean))  # 2 (y/mean − 1 − log(y/mean))

    def log_likelihood(self, mean: Array, targets: Array, dispersion: float) -> Array:
        shape = 1.0 / dispersion
        loss = shape * stirling.log1p_gap(_relative_excess(targets, mean))  # ν (y/mean − 1 − log(y/mean))
        # The remainder is log Γ(ν) − ν log ν + ν.
        return -loss - np.log(targets) - float(stirling.remainder(np.array(shape)))

    def is_allowed(self, targets: Array) -> NDArray[np.bool_]:
        return np.asarray(targets > 0)

    def likeliest_dispersion(self, mean_deviance: float) -> float:
        if not mean_deviance > 0:
            return super().likeliest_dispersion(mean_deviance)
        # The likeliest ν = 1/φ solves log ν − ψ(ν) = D/2, where D is the mean deviance and ψ the digamma
        # function. The left side is between 1/(2ν) and 1/ν, so that ν is between 1/D and 2/D. (The slope is
        # ψ(ν) − log ν.)
        low, high = np.log(0.5 / mean_deviance), np.log(4.0 / mean_deviance)
        rising = lambda log_shape: mean_deviance + 2.0 * float(stirling.remainder_slope(np.exp(log_shape)))  # noqa: E731
        return float(np.exp(-find_root(rising, low, high)))


def _relative_excess(targets: Array, mean: Array) -> Array:
    """Return y/mean − 1, accurate where it is small; −1 where the mean is infinite."""
    known = np.isfinite(mean)
    safe = np.where(known, mean, 1.0)
    return np.where(known, (targets - safe) / safe, -1.0)


class Gamma(_Positive):
    """A gamma distribution with the canonical link: the score is one over the mean, and above zero."""

    link = "inverse"
    is_decreasing = True  # the mean falls as the score rises

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        inside = scores > 0
        safe = np.where(inside, scores, 1.0)
        losses = np.where(inside, targets * safe - np.log(safe), np.inf)
        return losses, targets - 1.0 / safe

    def information(self, scores: Array) -> Array:
        return np.asarray(1.0 / np.square(scores))

    def mean(self, scores: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.where(scores > 0, 1.0 / np.where(scores > 0, scores, 1.0), np.inf)

    def link_function(self, mean: Array) -> Array:
        return np.asarray(1.0 / mean)

    def _bound_null_intercept(self, sizes: NullModelSizes) -> float:
        # The derivative of the loss is the sum of w (target − 1 / score). At this intercept the score of the
        # row with the smallest offset is so small that its w / score is at least twice the sum of w · target.
        # So the derivative is below zero, and the optimum is at a larger intercept.
        return 0.5 * sizes.smallest_weight / sizes.target_sum - sizes.smallest_offset


class GammaLog(_LogLink, _Positive):
    """A gamma distribution, whose mean is the exponential function of the score."""

    is_canonical = False

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            ratio = targets * np.exp(-scores)
        return ratio + scores, 1.0 - ratio

    def information(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(targets * np.exp(-scores))

    def find_null_intercept(self, sizes: NullModelSizes, sum_rows: SumOverRows) -> float:
        # Offsets are shifted by the smallest one, so that no exponential overflows.
        ratios = sum_rows(partial(self._sum_ratios, -sizes.smallest_offset))[0]
        return float(np.log(ratios / sizes.weight)) - sizes.smallest_offset

    @staticmethod
    def _sum_ratios(shift: float, targets: Array, w: Array, offsets: Array) -> Array:
        return np.array([w @ (targets * np.exp(-offsets - shift))])
