"""What the faces of linear models by Newton's method share: rows → a Gaussian posterior → answers.

Parameters are kept about a centre, next to the columns' mean where that is far from zero; callers see them
about zero.
"""

from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.conjugate.distribution import tail_of
from tamis.estimators.curved_state import CurvedState
from tamis.estimators.linear_face import LinearFace
from tamis.estimators.linear_warnings import stronger, warn_of_fit
from tamis.inputs import read_numbers
from tamis.models.linear.design import DenseDesign, Design, SparseDesign
from tamis.models.linear.fitting import Fit, Plan, UnidentifiedError, fit
from tamis.models.linear.laplace import Curvature, Laplace, LinearRows, combined, log_evidence
from tamis.models.linear.newton import Solver
from tamis.models.linear.objective import GaussianPrior
from tamis.models.linear.removal import largest_change
from tamis.models.linear.responses import Response
from tamis.parameters import check_decay_factor, check_nonnegative
from tamis.schema import Schema
from tamis.tables import Table

# Ours, and scikit-learn's names: those end at the same optimum, by whatever steps are best here.
SOLVERS: dict[str, Solver] = {
    "auto": "auto",
    "newton": "newton",
    "whitened": "whitened",
    "diagonal": "diagonal",
    "lbfgs": "auto",
    "newton-cholesky": "newton",
}
_KEPT = ("auto", "full", "diagonal", "none")
_VAST = 1e150  # beyond, squares and their sums are not finite


class CurvedFace(LinearFace[Any]):
    """A linear model that has no closed form; a face says what it predicts and how."""

    _sparse: ClassVar[bool] = True
    _solvers: ClassVar[dict[str, Solver]] = SOLVERS
    _removes: ClassVar[bool] = False  # whether rows can be taken away by a step with a bound

    alpha: Any
    prior: Any
    fit_intercept: bool
    intercept_alpha: float
    solver: Any
    posterior: Any
    tol: float
    max_iter: int
    verbose: int

    def _plan(self) -> Plan:
        for name, allowed in (("solver", self._solvers), ("posterior", _KEPT)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"got {name}={getattr(self, name)!r}, expected one of {', '.join(map(repr, allowed))}"
                )
        most: Any = self.max_iter
        if not isinstance(most, int | np.integer) or most < 1:
            raise ValueError(f"got max_iter={most!r}, expected a whole number of at least 1")
        return Plan(self._solvers[self.solver], self.posterior, check_nonnegative("tol", self.tol), int(most))

    def _intercept_precision(self) -> float:
        return check_nonnegative("intercept_alpha", self.intercept_alpha)

    def _design(self, table: Table, like: CurvedState | None = None) -> Design:
        """Rows as the model sees them; about the same centre as before, if there was one."""
        intercept = bool(self.fit_intercept) if like is None else like.intercept
        if table.sparse is not None:
            self._refuse_broken(table)
            self._refuse_vast(table, table.sparse.values, table.sparse.indices)
            if like is None or not like.centre.any():
                return SparseDesign.of(table.sparse, intercept)
            return DenseDesign(like.centre, intercept, table.sparse.dense(slice(None)) - like.centre)
        values = read_numbers(table)
        self._refuse_vast(table, values)
        if like is None:
            return DenseDesign.of(values, intercept, centred=not self._intercept_precision())
        return DenseDesign(like.centre, intercept, values - like.centre if like.centre.any() else values)

    def _lost_far_from_zero(self, design: Design) -> bool:
        """Whether columns vary, but so little about means so far away that products do not tell."""
        if not (isinstance(design, DenseDesign) and design.intercept and self._intercept_precision()):
            return False
        again = DenseDesign.of(design.values, True)
        return bool(again.centre.any() and again.values.any(axis=0).all())

    @staticmethod
    def _refuse_vast(table: Table, values: Array, columns: NDArray[Any] | None = None) -> None:
        """Raise if squares would leave the range of float64; `columns` are those of sparse values."""
        if max(float(values.max(initial=0.0)), -float(values.min(initial=0.0))) < _VAST:
            return
        place = int(np.abs(values).argmax())
        column = place % values.shape[1] if columns is None else int(columns[place])
        raise ValueError(
            f"{table.name(column)} holds {float(np.abs(values).max()):.3g}, expected magnitudes that can be "
            "squared (below about 1e150): rescale the column"
        )

    @staticmethod
    def _refuse_broken(table: Table) -> None:
        sparse = table.sparse
        if sparse is not None and not np.isfinite(sparse.values).all():
            place = int(np.flatnonzero(~np.isfinite(sparse.values))[0])
            raise ValueError(
                f"{table.name(int(sparse.indices[place]))} holds {sparse.values[place]}, expected finite "
                "numbers: drop or fill NaN and infinity"
            )

    def _climbed(
        self,
        rows: LinearRows,
        response: Response,
        prior: GaussianPrior,
        start: Array,
        free: bool,
        schema: Schema,
        X: object,
        y: object,
        plan: Plan | None = None,
    ) -> Fit:
        """Fit, with a bar and callbacks, and say what went wrong in one line."""
        plan = self._plan() if plan is None else plan
        with self._report_progress(plan.max_iter, X, y) as watch:
            try:
                found = fit(rows, response, prior, start, plan, free, watch)
            except UnidentifiedError as problem:
                if self._lost_far_from_zero(rows.design):
                    raise ValueError(
                        "the columns' means are far beyond their spread, and a prior on the intercept keeps "
                        "them there, expected columns about zero: centre them, or set intercept_alpha to 0"
                    ) from None
                weakest = _weakest(prior, rows)
                named = ", ".join(repr(schema.name(int(j))) for j in problem.columns[:5])
                more = f" and {len(problem.columns) - 5} more" if len(problem.columns) > 5 else ""
                raise ValueError(
                    f"columns {named}{more} are determined by the others, and alpha={weakest:g} leaves their "
                    f"coefficients open: drop them, or {stronger(weakest)}"
                ) from None
        warn_of_fit(found, schema, _weakest(prior, rows), plan)
        return found

    def _learned(
        self,
        schema: Schema,
        rows: LinearRows,
        response: Response,
        found: Fit,
        mean: Array,
        log_likelihood: float,
        **more: Any,
    ) -> Any:
        """The state after a fit; `more` is what a face adds."""
        reach, extent, drift = np.inf, np.full(rows.design.width, np.inf), 0.0
        if self._removes and found.posterior.precision is not None and not found.posterior.is_diagonal:
            reach, extent = rows.design.extent()
            drift = largest_change(found.moved, reach, extent, response)
        return self._state_kind()(
            schema=schema,
            response=response,
            centre=rows.design.centre,
            mean=mean,
            intercept=rows.design.intercept,
            prior=found.prior,
            posterior=found.posterior,
            evidence=_evidence(log_likelihood, found, rows.design),
            weight=rows.weight,
            iterations=found.iterations,
            converged=found.converged,
            reach=reach,
            extent=extent,
            slack=found.slack,
            drift=drift,
            **more,
        )

    def _state_kind(self) -> Any:
        return CurvedState

    # ── what was learned ──

    def _fitted_for(self, name: str) -> Any:
        return self._state_for(name)

    @property
    def n_iter_(self) -> int:
        """Steps over all rows."""
        return int(self._fitted_for("n_iter_").iterations)

    @property
    def converged_(self) -> bool:
        """Whether the top was reached."""
        return bool(self._fitted_for("converged_").converged)

    @property
    def alpha_(self) -> Any:
        """The prior precision of the coefficients: one number, or one a column where they differ."""
        state = self._fitted_for("alpha_")
        found = state.prior.diagonal[: len(state.centre)]
        return float(found[0]) if len(found) and (found == found[0]).all() else found.copy()

    @property
    def log_evidence_(self) -> float:
        """log p(rows) with the parameters integrated out, by Laplace's approximation.

        An intercept without a prior counts as if it had a density of 1.
        """
        state = self._fitted_for("log_evidence_")
        if np.isnan(state.evidence) and state.gone is not None:
            raise AttributeError(
                "log_evidence_ is of rows that were fitted, and some were taken away since: call fit"
            )
        if np.isnan(state.evidence):
            raise AttributeError(
                "log_evidence_ needs a prior on every coefficient and a posterior: set alpha above 0 and "
                "posterior='full'"
            )
        return float(state.evidence)

    def _scale(self) -> float:
        """What covariances are multiplied by: the dispersion."""
        return 1.0

    def _covariance(self, name: str) -> tuple[Array, Array]:
        """Covariances of the coefficients (outputs · d)², or variances, and those of the intercepts."""
        state = self._fitted_for(name)
        if state.posterior.precision is None:
            raise AttributeError(f"{name} needs a posterior, expected posterior='full' or 'diagonal'")
        d, covariance = len(state.centre), self._scale() * state.posterior.covariance()
        width = d + state.intercept
        m = len(state.posterior.mean) // width
        lift = state.response.contrasts
        if covariance.ndim == 1:
            own = np.square(lift) @ covariance.reshape(m, width)
            ends = own[:, :d] @ np.square(state.centre) + (own[:, d] if state.intercept else 0.0)
            return own[:, :d].ravel(), ends
        parts = covariance.reshape(m, width, m, width)
        cells = np.einsum("ka,aibj,lb->kilj", lift, parts, lift, optimize=True)
        k = len(lift)
        to_end = np.concatenate([-state.centre, np.ones(1)])[:width]
        ends = np.einsum("i,kikj,j->k", to_end, cells, to_end)
        return np.ascontiguousarray(cells[:, :d, :, :d]).reshape(k * d, k * d), ends

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of the coefficients under the posterior, in the shape of `coef_`."""
        covariance, _ = self._covariance("coef_std_")
        variances = covariance if covariance.ndim == 1 else np.diagonal(covariance)
        return np.sqrt(variances).reshape(self._coefficients()[0].shape)

    @property
    def intercept_std_(self) -> Array:
        """Standard deviations of the intercepts under the posterior; 0 where there is none."""
        _, ends = self._covariance("intercept_std_")
        state = self.state_
        return np.sqrt(ends) if state.intercept else np.zeros_like(ends)

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
        coefficients, _ = self._coefficients()
        reach = -special.ndtri(tail_of(coverage)) * self.coef_std_
        return coefficients - reach, coefficients + reach

    def _coefficients(self) -> tuple[Array, Array]:
        """Coefficients and intercepts as the face shows them."""
        state = self.state_
        found, ends = state.about_zero(state.outputs)
        return found, ends

    def _scores(self, X: object) -> tuple[CurvedState, Design, Array]:
        """The model, the rows as it sees them, and their scores (n, outputs)."""
        state, table = self.state_, self._table(X)
        design = self._design(table, state)
        return state, design, design.scores(state.outputs)

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        state = self.state_
        schema = state.schema
        found = {field.name: getattr(state, field.name) for field in fields(state)}
        del found["schema"], found["response"], found["gone"], found["before"]
        for name in ("prior", "posterior"):
            belief = found[name]
            found[name] = (belief.mean, belief.precision)
        if state.before is not None and state.gone is not None:
            gone = state.gone
            found["before"] = (state.before.mean, state.before.precision)
            found["gone"] = (gone.weight, gone.loss, gone.gradient, gone.information)
        found["schema"] = (schema.width, schema.kinds, schema.names, schema.library)
        return found

    def restore_state(self, state: dict[str, Any]) -> None:
        given = dict(state)
        given["schema"] = Schema(*given["schema"])
        given["prior"], given["posterior"] = GaussianPrior(*given["prior"]), Laplace(*given["posterior"])
        if "gone" in given:
            before = Laplace(*given["before"])
            given["before"], given["gone"] = before, Curvature(before.mean, *given["gone"])
        given["response"] = self._restored_response(given)
        self._fitted = self._state_kind()(**given)

    def _restored_response(self, given: dict[str, Any]) -> Response:
        """What the scores of a saved model mean."""
        raise NotImplementedError

    # ── the algebra ──

    def decay(self, factor: float) -> Any:
        """Let everything learned so far count `factor` times as much: the posterior widens."""
        state, factor = self.state_, check_decay_factor(factor)
        self._fitted = replace(
            state,
            posterior=combined([state.posterior], [factor], state.prior),
            evidence=np.nan,
            weight=state.weight * factor,
            slack=np.inf,
            before=None,
            gone=None,
            bound=np.nan,
            shift=np.nan,
        )
        return self


def _evidence(log_likelihood: float, found: Fit, design: Design) -> float:
    own = found.prior.diagonal.reshape(-1, design.width)[:, : design.columns]
    if found.posterior.precision is None or not own.all():
        return float("nan")
    return log_evidence(log_likelihood, found.posterior, found.prior)


def _weakest(prior: GaussianPrior, rows: LinearRows) -> float:
    """The smallest prior precision of a coefficient."""
    return float(prior.diagonal.reshape(-1, rows.design.width)[:, : rows.design.columns].min())


def column_means(rows: LinearRows, values: NDArray[Any] | None) -> Array:
    """The weighted mean of each column of dense rows; zeros for sparse ones, whose zeros should stay."""
    if values is None:
        return np.zeros(rows.design.columns)
    return np.asarray(np.average(values, axis=0, weights=rows.weights))
