"""What a generalised linear model says of what it learned: coefficients, their errors, and the fit."""

from numbers import Real
from typing import Any

import numpy as np
from scipy import special

from tamis.arrays import Array
from tamis.estimators.coefficient_summary import CoefficientSummary, summarize
from tamis.estimators.curved_face import CurvedFace
from tamis.models.linear.fitting import gaussian_prior
from tamis.models.linear.objective import GaussianPrior

_DISPERSIONS = ("estimate", "pearson", "mle")
_PARTS = (
    "is known of rows that were fitted at once, and some of these came in parts or were decayed: call fit"
)


class GeneralizedFace(CurvedFace):
    """The attributes of a fitted generalised linear model."""

    dispersion: Any

    def _scatter(self) -> str | float:
        """How the dispersion is known, checked."""
        given: object = self.dispersion
        if isinstance(given, str) and given in _DISPERSIONS:
            return given
        if isinstance(given, Real) and 0 < float(given) < np.inf:
            return float(given)
        raise ValueError(
            f"got dispersion={given!r}, expected {', '.join(map(repr, _DISPERSIONS))} or a number above 0"
        )

    def _prior(self, columns: int, outputs: int) -> tuple[GaussianPrior, bool]:
        level, intercept = self._intercept_precision(), bool(self.fit_intercept)
        return gaussian_prior(self.alpha, self.prior, columns, outputs, intercept, level, usual=0.0)

    def _coefficients(self) -> tuple[Array, Array]:
        found, ends = super()._coefficients()
        return found[0], ends

    def _scale(self) -> float:
        return float(self.state_.dispersion)

    @property
    def coef_(self) -> Array:
        """Coefficients (d,): what a column adds to the score."""
        self._fitted_for("coef_")
        return self._coefficients()[0]

    @property
    def intercept_(self) -> float:
        """The score of a row of zeros; 0 without an intercept."""
        self._fitted_for("intercept_")
        return float(self._coefficients()[1][0])

    @property
    def intercept_std_(self) -> float:  # type: ignore[override]  # one number, as `intercept_` is
        """Its standard deviation under the posterior; 0 where there is none."""
        return float(super().intercept_std_[0])

    @property
    def z_values_(self) -> Array:
        """Coefficients over their standard deviations (d,)."""
        self._fitted_for("z_values_")
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.coef_ / self.coef_std_

    @property
    def p_values_(self) -> Array:
        """How often a coefficient of 0 would look as far from it, by the normal distribution (d,)."""
        self._fitted_for("p_values_")
        return np.asarray(2.0 * special.ndtr(-np.abs(self.z_values_)))

    @property
    def dispersion_(self) -> float:
        """φ; NaN if it was to be estimated from no more rows than coefficients."""
        return float(self._fitted_for("dispersion_").dispersion)

    @property
    def deviance_(self) -> float:
        """Twice what the log-likelihood lacks to a perfect fit, dispersion 1; of parts, to second order."""
        return float(self._fitted_for("deviance_").deviance)

    @property
    def pearson_(self) -> float:
        """Σ weight (y − mean)²/V(mean); of rows that came in parts, to second order."""
        return float(self._fitted_for("pearson_").pearson)

    @property
    def null_deviance_(self) -> float:
        """The deviance of a model of an intercept alone, with the same offsets."""
        return self._at_once("null_deviance_", "null_deviance")

    @property
    def log_likelihood_(self) -> float:
        """Of the rows, at the coefficients and the dispersion that were found."""
        return self._at_once("log_likelihood_", "told")

    @property
    def aic_(self) -> float:
        """Akaike's criterion: −2 log-likelihood + 2 `n_effective_`."""
        return -2.0 * self._at_once("aic_", "told") + 2.0 * self.n_effective_

    @property
    def bic_(self) -> float:
        """Schwarz's criterion: −2 log-likelihood + log(rows) `n_effective_`."""
        weight = self._fitted_for("bic_").weight
        return -2.0 * self._at_once("bic_", "told") + float(np.log(weight)) * self.n_effective_

    def _at_once(self, name: str, field: str) -> float:
        state = self._fitted_for(name)
        if np.isnan(state.null_deviance):
            raise AttributeError(f"{name} {_PARTS}")
        return float(getattr(state, field))

    @property
    def n_observed_(self) -> float:
        """Rows learned: Σ weight."""
        return float(self._fitted_for("n_observed_").weight)

    @property
    def n_effective_(self) -> float:
        """How many coefficients, the intercept too, rows rather than the prior determine."""
        return float(self._fitted_for("n_effective_").effective)

    @property
    def df_resid_(self) -> float:
        """Degrees of freedom left: `n_observed_` − `n_effective_`."""
        return float(self._fitted_for("df_resid_").freedom)

    def summary(self, coverage: float = 0.95) -> CoefficientSummary:
        """Coefficients with their standard errors, z, p and intervals: print it, or call its `to_frame`."""
        state = self.state_
        ends = (np.array([self.intercept_]), np.array([self.intercept_std_])) if state.intercept else None
        coefficients, errors = self.coef_[None], self.coef_std_[None]
        return summarize(self._headline(), state.schema, coefficients, errors, ends, coverage)

    def _headline(self) -> str:
        state = self.state_
        first = f"{state.response.family}, link {state.response.link}: {state.weight:g} rows"
        second = f"dispersion {state.dispersion:.4g}, deviance {state.deviance:.6g}"
        if np.isnan(state.null_deviance):
            return f"{first}\n{second}"
        third = f"log-likelihood {state.told:.6g}, AIC {self.aic_:.6g}, BIC {self.bic_:.6g}"
        return f"{first}\n{second} (null {state.null_deviance:.6g})\n{third}"
