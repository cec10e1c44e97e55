"""Rows → a Gaussian posterior → attributes and files: what faces fitted by Newton's method share.

Parameters are kept about a centre, next to the columns' mean where that is far from zero; attributes are
about zero.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.exceptions import ConvergenceWarning

from tamis.arrays import Array
from tamis.conjugate.distribution import tail_of
from tamis.estimators.linear import LinearFace, LinearState
from tamis.inputs import read_numbers
from tamis.models.linear.design import DenseDesign, Design, SparseDesign
from tamis.models.linear.fitting import Fit, FitOptions, UnidentifiedError, fit
from tamis.models.linear.laplace import Curvature, Laplace
from tamis.models.linear.newton import Solver
from tamis.models.linear.objective import GaussianPrior, LinearRows
from tamis.models.linear.responses import Response
from tamis.models.linear.updates import FittedLinear, decay_fit
from tamis.parameters import check_decay_factor, check_nonnegative
from tamis.schema import Schema
from tamis.tables import Sparse, Table
from tamis.warning import warn

# Ours, and scikit-learn's names: those end at the same optimum, by whatever steps are best here.
SOLVERS: dict[str, Solver] = {
    "auto": "auto",
    "newton": "newton",
    "whitened": "whitened",
    "diagonal": "diagonal",
    "lbfgs": "auto",
    "newton-cholesky": "newton",
}
_FORMS = ("auto", "full", "diagonal", "none")
_LARGEST = 1e150  # beyond, squares and their sums are not finite
_FILE_NAMES = {  # of fields whose name in files is another
    "log_evidence": "evidence",
    "log_likelihood": "told",
    "original": "before",
    "removed": "gone",
}


class SeparationWarning(ConvergenceWarning):  # type: ignore[misc]  # scikit-learn has no types
    """The classes do not overlap and there is no prior: the likelihood rises for ever."""


@dataclass(frozen=True, slots=True, eq=False)
class NewtonState(LinearState):
    """What a face has learned: its columns, and the fitted model."""

    fit: FittedLinear


N = TypeVar("N", bound=NewtonState)
F = TypeVar("F", bound=FittedLinear)


class NewtonFace(LinearFace[N]):
    """A linear model that has no closed form; a face adds its response and its predictions."""

    _solvers: ClassVar[dict[str, Solver]] = SOLVERS

    alpha: Any
    prior: Any
    fit_intercept: bool
    intercept_alpha: float
    solver: Any
    posterior: Any
    tol: float
    max_iter: int

    @property
    def _sparse(self) -> bool:
        return True

    # ── learning ──

    def _options(self) -> FitOptions:
        for name, allowed in (("solver", self._solvers), ("posterior", _FORMS)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"got {name}={getattr(self, name)!r}, expected one of {', '.join(map(repr, allowed))}"
                )
        most: Any = self.max_iter
        if not isinstance(most, int | np.integer) or most < 1:
            raise ValueError(f"got max_iter={most!r}, expected a whole number of at least 1")
        tol = check_nonnegative("tol", self.tol)
        return FitOptions(self._solvers[self.solver], self.posterior, tol, int(most))

    def _intercept_precision(self) -> float:
        return check_nonnegative("intercept_alpha", self.intercept_alpha)

    def _design(self, table: Table, like: FittedLinear | None = None) -> Design:
        """Rows as the model reads them; about the same centre as before, if there was one."""
        intercept = bool(self.fit_intercept) if like is None else like.intercept
        if table.sparse is not None:
            _refuse_broken(table, table.sparse)
            _refuse_large(table, table.sparse.values, table.sparse.indices)
            if like is None or not like.centre.any():
                return SparseDesign.of(table.sparse, intercept)
            return DenseDesign(like.centre, intercept, table.sparse.dense(slice(None)) - like.centre)
        values = read_numbers(table)
        _refuse_large(table, values)
        if like is None:
            return DenseDesign.of(values, intercept, centred=not self._intercept_precision())
        return DenseDesign(like.centre, intercept, values - like.centre if like.centre.any() else values)

    def _fit_mode(
        self,
        rows: LinearRows,
        response: Response,
        prior: GaussianPrior,
        start: Array,
        schema: Schema,
        X: object,
        y: object,
        by_evidence: bool = False,
        options: FitOptions | None = None,
    ) -> Fit:
        """Fit with a progress bar and callbacks; errors and warnings name the columns."""
        options = self._options() if options is None else options
        weakest = _weakest_precision(prior, rows)
        with self._report_progress(options.max_iter, X, y) as report:

            def watch(step: Any) -> None:
                report(step.log_likelihood)

            try:
                result = fit(rows, response, prior, start, options, by_evidence, watch)
            except UnidentifiedError as problem:
                if self._intercept_precision() and _varies_far_from_zero(rows.design):
                    raise ValueError(
                        "the columns' means are far beyond their spread, and a prior on the intercept keeps "
                        "them there, expected columns about zero: centre them, or set intercept_alpha to 0"
                    ) from None
                names = name_columns(schema, problem.columns)
                rest = f" and {len(problem.columns) - 5} more" if len(problem.columns) > 5 else ""
                raise ValueError(
                    f"columns {names}{rest} are determined by the others, and alpha={weakest:g} leaves their "
                    f"coefficients open: drop them, or {_advise_stronger_prior(weakest)}"
                ) from None
        _warn_of_fit(result, schema, weakest, options)
        return result

    def decay(self, factor: float) -> Self:
        """Let everything learned so far count `factor` times as much: the posterior widens."""
        state, factor = self.state_, check_decay_factor(factor)
        self.state_ = replace(state, fit=self._decay_fit(state, factor))
        return self

    def _decay_fit(self, state: N, factor: float) -> FittedLinear:
        return decay_fit(state.fit, factor)

    # ── what was learned ──

    @property
    def n_iter_(self) -> Any:
        """Steps over all rows."""
        return self._state_for("n_iter_").fit.iterations

    @property
    def converged_(self) -> bool:
        """Whether the mode was reached."""
        return self._state_for("converged_").fit.converged

    @property
    def alpha_(self) -> Any:
        """The prior precision of the coefficients: one number, or one per column where they differ."""
        fitted = self._state_for("alpha_").fit
        precisions = fitted.prior.diagonal[: len(fitted.centre)]
        is_one = len(precisions) and (precisions == precisions[0]).all()
        return float(precisions[0]) if is_one else precisions.copy()

    @property
    def log_evidence_(self) -> float:
        """log p(rows) with the parameters integrated out, by Laplace's approximation.

        An intercept without a prior counts as if it had a density of 1.
        """
        fitted = self._state_for("log_evidence_").fit
        if np.isnan(fitted.log_evidence) and fitted.removed is not None:
            raise AttributeError(
                "log_evidence_ is of rows that were fitted, and some were taken away since: call fit"
            )
        if np.isnan(fitted.log_evidence):
            raise AttributeError(
                "log_evidence_ needs a prior on every coefficient and a posterior: set alpha above 0 and "
                "posterior='full'"
            )
        return fitted.log_evidence

    def _dispersion(self) -> float:
        """What covariances are multiplied by."""
        return 1.0

    def _covariance(self, name: str) -> tuple[Array, Array]:
        """Covariance of the coefficients (outputs · d)², or variances, and variances of the intercepts."""
        fitted = self._state_for(name).fit
        if fitted.posterior.precision is None:
            raise AttributeError(f"{name} needs a posterior, expected posterior='full' or 'diagonal'")
        coefficients, intercepts = fitted.covariance()
        scale = self._dispersion()
        return scale * coefficients, scale * intercepts

    @property
    def coef_(self) -> Array:
        """Coefficients."""
        return np.asarray(self._shape_output(self._state_for("coef_").fit.coefficients[0]))

    @property
    def intercept_(self) -> Any:
        """Intercepts: the score of a row of zeros; 0 without an intercept."""
        return self._shape_output(self._state_for("intercept_").fit.coefficients[1])

    def _shape_output(self, values: Array) -> Any:
        """Values of each output (outputs, …) in the shape of the attributes."""
        return values

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of the coefficients under the posterior, in the shape of `coef_`."""
        covariance, _ = self._covariance("coef_std_")
        variances = covariance if covariance.ndim == 1 else np.diagonal(covariance)
        return np.sqrt(variances).reshape(self.coef_.shape)

    @property
    def intercept_std_(self) -> Any:
        """Standard deviations of the intercepts under the posterior; 0 where there is none."""
        _, variances = self._covariance("intercept_std_")
        has_intercept = self.state_.fit.intercept
        return self._shape_output(np.sqrt(variances) if has_intercept else np.zeros_like(variances))

    @property
    def coef_covariance_(self) -> Array:
        """The covariance of all coefficients under the posterior, row by row of `coef_`."""
        covariance, _ = self._covariance("coef_covariance_")
        if covariance.ndim == 1:
            raise AttributeError("coef_covariance_ needs posterior='full': see coef_std_")
        return covariance

    def coef_interval(self, coverage: float = 0.95) -> tuple[Array, Array]:
        """Ends of the intervals that hold each coefficient with this probability, in the shape of `coef_`."""
        self._state_for("")
        coefficients = self.coef_
        reach = -special.ndtri(tail_of(coverage)) * self.coef_std_
        return coefficients - reach, coefficients + reach

    def _scores(self, X: object) -> tuple[N, Design, Array]:
        """The state, the rows as the model reads them, and their scores (n, outputs)."""
        state, table = self.state_, self._table(X)
        design = self._design(table, state.fit)
        return state, design, design.scores(state.fit.outputs)

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        state = self.state_
        fitted, schema = state.fit, state.schema
        content = {
            _FILE_NAMES.get(each.name, each.name): getattr(fitted, each.name) for each in fields(fitted)
        }
        del content["response"], content["gone"], content["before"]
        for name in ("prior", "posterior"):
            content[name] = (content[name].mean, content[name].precision)
        if fitted.original is not None and fitted.removed is not None:
            removed = fitted.removed
            content["before"] = (fitted.original.mean, fitted.original.precision)
            content["gone"] = (removed.weight, removed.loss, removed.gradient, removed.information)
        content["schema"] = schema.to_tuple()
        return content


def restore_fit(content: dict[str, Any], response: Response, kind: type[F]) -> F:
    """The fitted model that a file holds."""
    names = {file_name: name for name, file_name in _FILE_NAMES.items()}
    values = {names.get(name, name): value for name, value in content.items() if name != "schema"}
    values["prior"], values["posterior"] = GaussianPrior(*values["prior"]), Laplace(*values["posterior"])
    if "removed" in values:
        values["original"] = Laplace(*values["original"])
        values["removed"] = Curvature(values["original"].mean, *values["removed"])
    return kind(response=response, **values)


def _refuse_large(table: Table, values: Array, columns: NDArray[Any] | None = None) -> None:
    """Raise if squares would leave the range of float64; `columns` are those of sparse values."""
    if max(float(values.max(initial=0.0)), -float(values.min(initial=0.0))) < _LARGEST:
        return
    place = int(np.abs(values).argmax())
    column = place % values.shape[1] if columns is None else int(columns[place])
    raise ValueError(
        f"{table.name(column)} holds {float(np.abs(values).max()):.3g}, expected magnitudes that can be "
        "squared (below about 1e150): rescale the column"
    )


def _refuse_broken(table: Table, sparse: Sparse) -> None:
    if not np.isfinite(sparse.values).all():
        place = int(np.flatnonzero(~np.isfinite(sparse.values))[0])
        raise ValueError(
            f"{table.name(int(sparse.indices[place]))} holds {sparse.values[place]}, expected finite "
            "numbers: drop or fill NaN and infinity"
        )


def _varies_far_from_zero(design: Design) -> bool:
    """Whether columns vary, but so little about means so far away that rounding loses it in products."""
    if not isinstance(design, DenseDesign) or not design.intercept:
        return False
    centred = DenseDesign.of(design.values, True)
    return bool(centred.centre.any() and centred.values.any(axis=0).all())


def _weakest_precision(prior: GaussianPrior, rows: LinearRows) -> float:
    """The smallest prior precision of a coefficient."""
    return float(prior.diagonal.reshape(-1, rows.design.width)[:, : rows.design.columns].min())


# ── warnings ──


def name_columns(schema: Schema, columns: NDArray[np.int64]) -> str:
    """The names of the first of these columns."""
    return ", ".join(repr(schema.name(int(j))) for j in columns[:5])


def _advise_stronger_prior(alpha: float) -> str:
    return "set a larger alpha, such as 1e-6" if alpha else "set alpha above 0"


def _warn_of_fit(result: Fit, schema: Schema, weakest: float, options: FitOptions) -> None:
    """Warn if there is no optimum, or if steps ended before it; `weakest` is the smallest prior precision."""
    if result.separating is not None:
        if len(result.separating):
            problem = f"the classes do not overlap along columns {name_columns(schema, result.separating)}"
        else:
            problem = "the classes are separable: a plane has all rows of each on its own side"
        prior = f"with a prior as weak as alpha={weakest:g}" if weakest else "without a prior"
        warn(
            f"{problem}, so that {prior} coefficients grow without bound and the result means nothing: "
            f"{_advise_stronger_prior(weakest)}",
            SeparationWarning,
        )
    elif result.is_evidence_unbounded:
        warn(
            "the classes are separable, and the evidence has no maximum: it rises as the prior fades, and "
            "its alpha means nothing: set alpha",
            SeparationWarning,
        )
    elif not result.is_evidence_settled:
        warn(
            f"stopped after {result.iterations} of max_iter={options.max_iter} steps before evidence had "
            "settled on an alpha: raise max_iter, or set alpha to a number",
            ConvergenceWarning,
        )
    elif not result.converged:
        warn(
            f"stopped after max_iter={options.max_iter} steps, {result.slack:.2g} standard deviations from "
            "the mode: raise max_iter, or scale the columns",
            ConvergenceWarning,
        )


def warn_if_unbounded(response: Response, columns: NDArray[np.int64] | None, schema: Schema) -> None:
    """Warn if targets of 0 or less along these columns leave the likelihood without a maximum."""
    if columns is None:
        return
    names = name_columns(schema, columns)
    named = f"column {names}" if len(columns) == 1 else f"columns {names}"
    warn(
        f"{response.vanishing_targets} along {named}, so that without a prior coefficients grow without "
        f"bound and the result means nothing: set alpha above 0{response.vanishing_advice}",
        SeparationWarning,
    )
