"""Base class of the estimators that Newton's method fits: it fits, saves, and has the fitted attributes.

The state stores the parameters of centred columns x − c, where c is near the columns' means if one of these
is far from zero, and 0 otherwise. Public attributes refer to columns that are not centred.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.exceptions import ConvergenceWarning

from tamis.arrays import Array
from tamis.conjugate.distribution import tail_of
from tamis.estimators.linear import LinearFace, LinearState
from tamis.estimators.linear_shards import TableSurvey
from tamis.inputs import read_numbers
from tamis.models.linear.design import DenseDesign, Design, SparseDesign
from tamis.models.linear.fitting import Fit, FitOptions, PosteriorForm, UnidentifiedError, fit
from tamis.models.linear.laplace import Curvature, Laplace
from tamis.models.linear.newton import Solver
from tamis.models.linear.objective import GaussianPrior, LinearRows
from tamis.models.linear.responses import Response
from tamis.models.linear.updates import FittedLinear, decay_fit
from tamis.parameters import check_decay_factor, check_nonnegative
from tamis.schema import Schema
from tamis.tables import Sparse, Table
from tamis.warning import warn

# From values of the parameter `solver` to solvers: our names, and two of scikit-learn, whose solvers reach
# the same optimum by other steps. "whitened" is L-BFGS, or conjugate gradients, in coordinates in which the
# Hessian is near the identity; "diagonal" is L-BFGS in coordinates that are scaled by the Hessian's diagonal.
SOLVERS: dict[str, Solver] = {
    "auto": "auto",
    "newton": "newton",
    "whitened": "whitened",
    "diagonal": "diagonal",
    "lbfgs": "auto",
    "newton-cholesky": "newton",
}
_POSTERIOR_FORMS = ("auto", "full", "diagonal", "none")
_MAX_MAGNITUDE = 1e150  # squares of larger values, or sums of such squares, may be infinite
_FILE_NAMES = {  # from names of fields to their names in files, if these differ
    "distance_from_mode": "slack",
    "log_evidence": "evidence",
    "log_likelihood": "told",
    "original": "before",
    "removed": "gone",
}


class SeparationWarning(ConvergenceWarning):  # type: ignore[misc]  # scikit-learn has no types
    """The classes do not overlap and there is no prior: the likelihood has no maximum."""


@dataclass(frozen=True, slots=True, eq=False)
class NewtonState(LinearState):
    """The learned state of an estimator (face): its columns and the fitted model."""

    fit: FittedLinear


class Centred(Protocol):
    """What defines a design matrix: a fitted model, or one that is about to be fitted."""

    @property
    def centre(self) -> Array:
        """The values that are subtracted from the columns (d,)."""

    @property
    def intercept(self) -> bool:
        """Whether a column of ones is appended."""


StateT = TypeVar("StateT", bound=NewtonState)
FitT = TypeVar("FitT", bound=FittedLinear)


@dataclass(eq=False, repr=False, kw_only=True)
class NewtonFace(LinearFace[StateT]):
    """Base of linear models without a closed-form fit. Subclasses define the response and predictions."""

    _solvers: ClassVar[dict[str, Solver]] = SOLVERS

    prior: tuple[ArrayLike, ArrayLike] | None = None
    fit_intercept: bool = True
    intercept_alpha: float = 0.0
    solver: Any = "auto"
    posterior: PosteriorForm = "auto"
    tol: float = 1e-8
    max_iter: int = 100
    verbose: int = 0

    @property
    def _accepts_sparse(self) -> bool:
        return True

    # ── fitting ──

    def _check_options(self) -> FitOptions:
        for name, allowed in (("solver", self._solvers), ("posterior", _POSTERIOR_FORMS)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"got {name}={getattr(self, name)!r}, expected one of {', '.join(map(repr, allowed))}"
                )
        max_iter: Any = self.max_iter
        if not isinstance(max_iter, int | np.integer) or max_iter < 1:
            raise ValueError(f"got max_iter={max_iter!r}, expected a whole number of at least 1")
        tol = check_nonnegative("tol", self.tol)
        return FitOptions(self._solvers[self.solver], self.posterior, tol, int(max_iter))

    def _choose_intercept_precision(self) -> float:
        return check_nonnegative("intercept_alpha", self.intercept_alpha)

    def _build_design(self, table: Table, fitted_model: "Centred | None" = None) -> Design:
        """Build the design matrix of the table's rows, with the centre of `fitted_model` if that is given."""
        values = read_design_values(table)
        if fitted_model is not None:
            return make_centred_design(values, fitted_model)
        if isinstance(values, Sparse):
            return SparseDesign.of(values, bool(self.fit_intercept))
        return DenseDesign.of(
            values, bool(self.fit_intercept), centred=not self._choose_intercept_precision()
        )

    def _choose_centre(self, survey: TableSurvey) -> Array:
        """Return the centre of columns in shards; it is zero unless there is an intercept without a prior."""
        is_free = bool(self.fit_intercept) and not self._choose_intercept_precision()
        return survey.choose_centre() if is_free else np.zeros(survey.schema.width)

    def _find_posterior_mode(
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
        """Fit in steps that begin at the parameters `start`; errors and warnings name columns.

        X and y are passed to callbacks. With `by_evidence`, the precision of the prior is chosen by the
        evidence.
        """
        options = self._check_options() if options is None else options
        smallest_precision = _find_smallest_precision(prior, rows)
        with self._report_progress(options.max_iter, X, y) as report:

            def report_step(step: Any) -> None:
                report(step.log_posterior)

            try:
                result = fit(rows, response, prior, start, options, by_evidence, report_step)
            except UnidentifiedError as problem:
                if self._choose_intercept_precision() and _varies_far_from_zero(rows.design):
                    raise ValueError(
                        "the columns' means are far beyond their spread, and a prior on the intercept "
                        "prevents centring, expected columns about zero: centre them, or set "
                        "intercept_alpha to 0"
                    ) from None
                names = list_first_names(schema, problem.columns)
                rest = f" and {len(problem.columns) - 5} more" if len(problem.columns) > 5 else ""
                raise ValueError(
                    f"columns {names}{rest} are determined by the others, and alpha={smallest_precision:g} "
                    "does not determine their coefficients: drop them, or "
                    f"{_advise_stronger_prior(smallest_precision)}"
                ) from None
        _warn_of_fit(result, schema, smallest_precision, options)
        return result

    def decay(self, factor: float) -> Self:
        """Multiply the weight of everything learned so far by `factor`; this widens the posterior."""
        state, factor = self.state_, check_decay_factor(factor)
        self.state_ = replace(state, fit=self._decay_fit(state, factor))
        return self

    def _decay_fit(self, state: StateT, factor: float) -> FittedLinear:
        return decay_fit(state.fit, factor)

    # ── fitted attributes ──

    @property
    def n_iter_(self) -> Any:
        """The number of steps over all rows."""
        return self.state_.fit.iterations

    @property
    def converged_(self) -> bool:
        """Whether the fit reached the mode of the posterior."""
        return self.state_.fit.converged

    @property
    def alpha_(self) -> Any:
        """The prior precision of the coefficients: one number, or one per column if they differ.

        If `prior` was given, it is the diagonal of the inverse of the prior's covariance.
        """
        fitted_model = self.state_.fit
        precisions = fitted_model.prior.diagonal[: len(fitted_model.centre)]
        all_equal = len(precisions) and (precisions == precisions[0]).all()
        return float(precisions[0]) if all_equal else precisions.copy()

    @property
    def log_evidence_(self) -> float:
        """The log-evidence: log p(rows) with the parameters integrated out, by Laplace's approximation.

        If the intercept has no prior, its prior density is taken as 1 everywhere.
        """
        fitted_model = self.state_.fit
        if np.isnan(fitted_model.log_evidence) and fitted_model.removed is not None:
            raise AttributeError("log_evidence_ is not available after rows were removed: call fit again")
        if np.isnan(fitted_model.log_evidence):
            raise AttributeError(
                "log_evidence_ needs a prior on every coefficient and a posterior: set alpha above 0 and "
                "posterior='full'"
            )
        return fitted_model.log_evidence

    def _get_dispersion(self) -> float:
        """Return the factor that scales all covariances."""
        return 1.0

    def _compute_covariance(self, name: str) -> tuple[Array, Array]:
        """Return the covariance of the coefficients, or their variances, and the intercepts' variances.

        The covariance matrix is (outputs·d, outputs·d); the diagonal form has only variances (outputs·d,).
        """
        fitted_model = self._require_state(name).fit
        if fitted_model.posterior.precision is None:
            raise AttributeError(f"{name} needs a posterior, expected posterior='full' or 'diagonal'")
        coefficients, intercepts = fitted_model.covariance()
        scale = self._get_dispersion()
        return scale * coefficients, scale * intercepts

    @property
    def coef_(self) -> Array:
        """The coefficients."""
        return np.asarray(self._shape_output(self.state_.fit.coefficients[0]))

    @property
    def intercept_(self) -> Any:
        """The intercepts: the scores of a row of zeros; 0 without an intercept."""
        return self._shape_output(self.state_.fit.coefficients[1])

    def _shape_output(self, values: Array) -> Any:
        """Reshape the values of all outputs (outputs, …) to the shape of the public attributes."""
        return values

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of the coefficients under the posterior, in the shape of `coef_`."""
        covariance, _ = self._compute_covariance("coef_std_")
        variances = covariance if covariance.ndim == 1 else np.diagonal(covariance)
        return np.sqrt(variances).reshape(self.coef_.shape)

    @property
    def intercept_std_(self) -> Any:
        """Standard deviations of the intercepts under the posterior; 0 where there is none."""
        _, variances = self._compute_covariance("intercept_std_")
        has_intercept = self.state_.fit.intercept
        return self._shape_output(np.sqrt(variances) if has_intercept else np.zeros_like(variances))

    @property
    def coef_covariance_(self) -> Array:
        """The covariance of all coefficients under the posterior, row by row of `coef_`."""
        covariance, _ = self._compute_covariance("coef_covariance_")
        if covariance.ndim == 1:
            raise AttributeError("coef_covariance_ needs posterior='full': see coef_std_")
        return covariance

    def coef_interval(self, coverage: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of the interval that holds each coefficient with this probability.

        Both have the shape of `coef_`.
        """
        self._require_state()  # raises if nothing was learned
        coefficients = self.coef_
        half_width = -special.ndtri(tail_of(coverage)) * self.coef_std_
        return coefficients - half_width, coefficients + half_width

    def _compute_scores(self, X: object) -> tuple[StateT, Design, Array]:
        """Return the state, the design matrix of the rows, and their scores (n, outputs)."""
        state, table = self.state_, self._read_next_table(X)
        design = self._build_design(table, state.fit)
        return state, design, design.scores(state.fit.parameters_by_output)

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        state = self.state_
        fitted_model, schema = state.fit, state.schema
        content = {
            _FILE_NAMES.get(each.name, each.name): getattr(fitted_model, each.name)
            for each in fields(fitted_model)
        }
        del content["response"], content["gone"], content["before"]
        for name in ("prior", "posterior"):
            content[name] = (content[name].mean, content[name].precision)
        if fitted_model.original is not None and fitted_model.removed is not None:
            removed = fitted_model.removed
            content["before"] = (fitted_model.original.mean, fitted_model.original.precision)
            content["gone"] = (removed.weight, removed.loss, removed.gradient, removed.information)
        content["schema"] = schema.to_tuple()
        return content


def restore_fit(content: dict[str, Any], response: Response, kind: type[FitT]) -> FitT:
    """Restore the fitted model from the content of a file."""
    names = {file_name: name for name, file_name in _FILE_NAMES.items()}
    values = {names.get(name, name): value for name, value in content.items() if name != "schema"}
    values["prior"], values["posterior"] = GaussianPrior(*values["prior"]), Laplace(*values["posterior"])
    if "removed" in values:
        values["original"] = Laplace(*values["original"])
        values["removed"] = Curvature(values["original"].mean, *values["removed"])
    return kind(response=response, **values)


def read_design_values(table: Table) -> Array | Sparse:
    """Read the numbers of a design matrix, whose squares must be finite; an error names the column."""
    if table.sparse is None:
        values = read_numbers(table)
        _refuse_large(table, values)
        return values
    _refuse_nonfinite(table, table.sparse)
    _refuse_large(table, table.sparse.values, table.sparse.indices)
    return table.sparse


def make_centred_design(values: Array | Sparse, fitted_model: Centred) -> Design:
    """Return the design matrix of rows, from which the centre of `fitted_model` is subtracted."""
    centre = fitted_model.centre
    if isinstance(values, Sparse):
        if not centre.any():
            return SparseDesign.of(values, fitted_model.intercept)
        values = values.dense(slice(None))
    return DenseDesign(centre, fitted_model.intercept, values - centre if centre.any() else values)


def _refuse_large(table: Table, values: Array, columns: NDArray[Any] | None = None) -> None:
    """Raise if squares of the values are too large for float64.

    If the table is sparse, `columns` has the index of each value's column.
    """
    if max(float(values.max(initial=0.0)), -float(values.min(initial=0.0))) < _MAX_MAGNITUDE:
        return
    position = int(np.abs(values).argmax())
    column = position % values.shape[1] if columns is None else int(columns[position])
    raise ValueError(
        f"{table.describe(column)} holds {float(np.abs(values).max()):.3g}, expected magnitudes that can be "
        "squared (below about 1e150): rescale the column"
    )


def _refuse_nonfinite(table: Table, sparse: Sparse) -> None:
    if not np.isfinite(sparse.values).all():
        position = int(np.flatnonzero(~np.isfinite(sparse.values))[0])
        raise ValueError(
            f"{table.describe(int(sparse.indices[position]))} holds {sparse.values[position]}, expected "
            "finite numbers: drop or fill NaN and infinity"
        )


def _varies_far_from_zero(design: Design) -> bool:
    """Return whether all columns vary, and some means are far larger than the standard deviations."""
    if not isinstance(design, DenseDesign) or not design.intercept:
        return False
    centred = DenseDesign.of(design.values, intercept=True)
    return bool(centred.centre.any() and centred.values.any(axis=0).all())


def _find_smallest_precision(prior: GaussianPrior, rows: LinearRows) -> float:
    """Return the smallest prior precision of a coefficient."""
    return float(prior.diagonal.reshape(-1, rows.design.width)[:, : rows.design.columns].min())


# ── warnings ──


def list_first_names(schema: Schema, columns: NDArray[np.int64]) -> str:
    """Return the names of the first five of these columns."""
    return ", ".join(repr(schema.name(int(j))) for j in columns[:5])


def _advise_stronger_prior(alpha: float) -> str:
    return "set a larger alpha, such as 1e-6" if alpha else "set alpha above 0"


def _warn_of_fit(result: Fit, schema: Schema, smallest_precision: float, options: FitOptions) -> None:
    """Warn if no optimum exists, or if the fit stopped before it reached one.

    `result.separating` has the columns along which the classes do not overlap; it is empty if all columns
    together separate them, and None if no separation was found.
    """
    if result.separating is not None:
        if len(result.separating):
            problem = (
                f"the classes do not overlap along columns {list_first_names(schema, result.separating)}"
            )
        else:
            problem = "the classes are separable: a plane has all rows of each on its own side"
        prior = (
            f"with a prior as weak as alpha={smallest_precision:g}"
            if smallest_precision
            else "without a prior"
        )
        warn(
            f"{problem}, so that {prior} coefficients grow without bound and the result means nothing: "
            f"{_advise_stronger_prior(smallest_precision)}",
            SeparationWarning,
        )
    elif result.is_evidence_unbounded:
        warn(
            "the classes are separable, and the evidence has no maximum: it rises as alpha falls to 0, so "
            "that no alpha is the best: set alpha to a number",
            SeparationWarning,
        )
    elif not result.is_alpha_converged:
        warn(
            f"stopped after {result.iterations} of max_iter={options.max_iter} steps before the alpha of "
            "the largest evidence was found: raise max_iter, or set alpha to a number",
            ConvergenceWarning,
        )
    elif not result.converged:
        warn(
            f"stopped after max_iter={options.max_iter} steps, {result.distance_from_mode:.2g} standard "
            "deviations from the mode: raise max_iter, or scale the columns",
            ConvergenceWarning,
        )


def warn_if_unbounded(response: Response, columns: NDArray[np.int64] | None, schema: Schema) -> None:
    """Warn if the likelihood has no maximum because targets are 0 or less.

    `columns` are those whose coefficients can grow without bound; None if there are none.
    """
    if columns is None:
        return
    names = list_first_names(schema, columns)
    named = f"column {names}" if len(columns) == 1 else f"columns {names}"
    warn(
        f"{response.vanishing_targets_text} along {named}, so that without a prior coefficients grow without "
        f"bound and the result means nothing: set alpha above 0{response.vanishing_advice}",
        SeparationWarning,
    )
