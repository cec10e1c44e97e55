"""Generalised linear models of binary, count, real and positive targets, with the uncertainty of the fit."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import RegressorMixin, clone

from tamis import arrays
from tamis.arrays import Array
from tamis.conjugate import Univariate
from tamis.conjugate.distribution import tail_of
from tamis.engines import Batch, BatchShards
from tamis.estimators.base import with_sklearn_callbacks
from tamis.estimators.linear import CoefficientSummary, LinearExplanation, assign_folds, summarize
from tamis.estimators.linear_shards import ReadShard, TableSurvey, read_shard_table
from tamis.estimators.newton import (
    Centred,
    NewtonFace,
    NewtonState,
    read_design_values,
    restore_fit,
    warn_if_unbounded,
)
from tamis.estimators.reading import check_sample_count, make_generator, read_target
from tamis.estimators.sharded import has_rows, refuse_drift, with_shards
from tamis.inputs import read_first_table, read_weights
from tamis.models.explanation import linear_terms
from tamis.models.linear import generalized
from tamis.models.linear.design import Design
from tamis.models.linear.fitting import Fit, make_prior
from tamis.models.linear.generalized import FittedGeneralized, HeldOutResponses, ScaledRows
from tamis.models.linear.laplace import to_prior
from tamis.models.linear.newton import Solver
from tamis.models.linear.objective import GaussianPrior, LinearRows
from tamis.models.linear.responses import CANONICAL, RESPONSES, Family, Link, Response, make_response
from tamis.models.linear.sharded import ShardedRows
from tamis.schema import Schema
from tamis.tables import Table
from tamis.warning import warn

_RESPONSE_KEY = "answer"  # the name of family and link in files of saved models
_DISPERSIONS = ("estimate", "pearson", "mle")
_IN_PARTS = (
    "is known only if all rows were fitted at once, and some came in parts or were decayed: "
    "call fit with all rows"
)


@dataclass(frozen=True, slots=True, eq=False)
class GeneralizedState(NewtonState):
    """All that a generalised linear model has learned."""

    fit: FittedGeneralized


@dataclass(eq=False, repr=False)
class GeneralizedLinear(RegressorMixin, NewtonFace[GeneralizedState]):  # type: ignore[misc]  # scikit-learn has no types
    """Generalised linear regression, for targets such as fractions, counts, rates and positive amounts.

    The mean of a target is g⁻¹(intercept + x·w + offset), where g is the link. Its variance is φ V(mean),
    where φ is the dispersion and V the family's variance function: 1 for gaussian, the mean for poisson,
    mean · (1 − mean) for bernoulli, and mean² for gamma. The result is the mode of the posterior, and a
    Gaussian around it. A row of weight 2 counts as two equal rows.

    Parameters
    ----------
    family : "gaussian", "poisson", "bernoulli" or "gamma"
    link : "identity", "log", "logit" or "inverse", optional
        By default the family's canonical link, in the order of the families above: identity, log, logit and
        inverse. gaussian and gamma also accept "log".
    alpha : float, array of one per column, or "evidence"
        Precision α of the Gaussian prior on each coefficient, times the dispersion: coefficients are
        N(0, φ/α), and minimise Σ weight · deviance/2 + α/2 |w|². So α is the alpha of scikit-learn's Ridge,
        and that of its PoissonRegressor, GammaRegressor and TweedieRegressor times Σ weight. "evidence"
        chooses it, which is possible only for bernoulli and poisson, with a dispersion of "estimate", "mle"
        or 1.
    prior : tuple, optional
        Mean and covariance of the coefficients, in place of alpha; the covariance is multiplied by φ.
    fit_intercept : bool
    intercept_alpha : float
        Precision of the prior on the intercept; 0 for no prior.
    dispersion : "estimate", "pearson", "mle" or a number
        "estimate" is 1 for bernoulli and poisson, and for the others Pearson's Σ weight (y − mean)²/V(mean)
        divided by the remaining degrees of freedom; "pearson" is Pearson's for all families (quasi-Poisson);
        "mle" maximises the likelihood. Covariances are multiplied by the dispersion; coefficients do not
        depend on it.
    solver, posterior, tol, max_iter, verbose
        As in `LogisticRegression`.

    Notes
    -----
    Newton's method uses the Hessian; standard errors use the expected (Fisher) information, with every link.
    Without a prior, the results are those of statsmodels' GLM with frequency weights: standard errors,
    deviance, AIC (for gaussian with the identity, at the dispersion of maximum likelihood), and z by the
    normal distribution. With a prior, `n_effective_`, the effective number of coefficients, is subtracted to
    get degrees of freedom, and `coef_std_` is that of the posterior. With the inverse link, a score of 0 or
    less has an infinite mean.

    Examples
    --------
    >>> import tamis
    >>> days, calls = [[0.0], [1.0], [2.0], [3.0], [4.0]], [2, 3, 6, 7, 12]
    >>> model = tamis.GeneralizedLinear("poisson").fit(days, calls)
    >>> (
    ...     model.coef_.round(3).tolist(),
    ...     model.coef_std_.round(3).tolist(),
    ...     model.predict([[5.0]]).round(1).tolist(),
    ... )
    ([0.431], [0.145], [18.3])
    >>> hours = [1.0, 2.0, 1.0, 4.0, 2.0]  # over which the calls were counted
    >>> rates = tamis.GeneralizedLinear("poisson").fit(days, calls, exposure=hours)
    >>> rates.predict([[5.0]]).round(2).tolist(), rates.predict([[5.0]], exposure=[10.0]).round(1).tolist()
    ([5.74], [57.4])
    """

    family: Family = "gaussian"
    _: KW_ONLY
    link: Link | None = None
    alpha: float | ArrayLike | str = 0.0
    dispersion: Literal["estimate", "pearson", "mle"] | float = "estimate"
    solver: Solver | Literal["lbfgs", "newton-cholesky"] = "auto"

    # ── learning ──

    @with_sklearn_callbacks
    @with_shards
    def fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> Self:
        """Learn from rows and their targets; offsets are added to scores, exposures multiply means.

        An exposure needs the log link; it is the time, or the number of units, over which events were
        counted. For rows in shards, offset and exposure are names of columns, or data of the same kind as the
        rows.
        """
        response = make_response(self.family, self.link)
        table, schema = read_first_table(X, self._accepts_sparse)
        batch = Batch(X, y, sample_weight, {"offset": offset, "exposure": exposure})
        rows, _ = self._build_rows(table, response, batch)
        self.state_ = GeneralizedState(schema, self._fit_rows(rows, response, schema, X, y))
        return self

    def learn_shards(self, shards: BatchShards[Batch], anew: bool) -> Self:
        """Learn from rows in shards: in each step, the processes that have the shards sum over their rows.

        If `anew`, what was learned before is forgotten; otherwise these rows are added.
        """
        state, response = None if anew else self._get_state_or_none(), make_response(self.family, self.link)
        read = ReadShard(read_design_values, self._accepts_sparse, has_classes=False)
        survey = shards.map(read).total(TableSurvey.of)
        if state is None:
            plan = _ShardPlan(survey.schema, self._choose_centre(survey), bool(self.fit_intercept), response)
        else:
            _refuse_other_response(response, state.fit.response)
            refuse_drift(survey.schema, state.schema)
            plan = _ShardPlan(state.schema, state.fit.centre, state.fit.intercept, response)
        reader: Any = clone(self)  # the parameters without what was learned, to be sent to workers
        # Engines with workers keep the rows there (`keep`); otherwise each step reads the shards again.
        rows = ShardedRows.of(
            shards.map(partial(reader.read_shard, plan)).keep(), plan.centre, plan.intercept
        )
        response.refuse_size(max(map(abs, rows.target_range)))
        if state is None:
            fitted_model = self._fit_rows(rows, response, plan.schema)
        else:
            fitted_model = self._add_rows(state.fit, rows, plan.schema)
        self.state_ = GeneralizedState(plan.schema, fitted_model)
        return self

    def read_shard(self, plan: "_ShardPlan", batch: Batch) -> LinearRows | None:
        """Convert a batch to rows of the design matrix that `plan` defines; None if it has no rows."""
        if not has_rows(batch):
            return None
        table = read_shard_table(batch, plan.schema, type(self).__name__, self._accepts_sparse)
        rows, _ = self._read_rows(table, plan.response, batch, plan)
        return replace(rows, number=batch.number)

    def _build_rows(
        self, table: Table, response: Response, batch: Batch, fitted_model: FittedGeneralized | None = None
    ) -> tuple[LinearRows, NDArray[np.int64] | None]:
        """Check and convert rows with the targets, weights and offsets of `batch`; drop rows of weight 0.

        Also return the indices of the rows that remain, or None if no row was dropped.
        """
        rows, indices = self._read_rows(table, response, batch, fitted_model)
        response.refuse_size(max(map(abs, rows.target_range)))
        return rows, indices

    def _read_rows(
        self, table: Table, response: Response, batch: Batch, fitted_model: Centred | None
    ) -> tuple[LinearRows, NDArray[np.int64] | None]:
        """Read rows as `_build_rows` does, but without the check of the largest target.

        `fitted_model`, a model or a `_ShardPlan`, has the centre that is subtracted from the columns.
        """
        weights, targets = read_weights(batch.sample_weight, table.rows), read_target(batch.y, table.rows)
        offset, exposure = batch.others.get("offset"), batch.others.get("exposure")
        offsets = _read_offsets(offset, exposure, table.rows, response)
        indices = None
        if weights is not None and not weights.all():
            indices = np.flatnonzero(weights)
            table, targets, weights = table.take(indices), targets[indices], weights[indices]
            offsets = None if offsets is None else offsets[indices]
        response.refuse_targets(targets)
        return LinearRows(self._build_design(table, fitted_model), targets, weights, offsets), indices

    def _fit_rows(
        self,
        rows: LinearRows,
        response: Response,
        schema: Schema,
        X: object = None,
        y: object = None,
        initial: Array | None = None,
    ) -> FittedGeneralized:
        """Fit these rows only; Newton's method starts at the parameters `initial` if these are given.

        X and y are passed to callbacks.
        """
        method, intercept_precision = self._read_dispersion_method(), self._choose_intercept_precision()
        columns, intercept = rows.design.columns, bool(self.fit_intercept)
        prior, by_evidence = make_prior(
            self.alpha, self.prior, columns, 1, intercept, intercept_precision, default=0.0
        )
        if by_evidence and (response.has_dispersion or method not in ("estimate", "mle", 1.0)):
            raise ValueError(
                f"got alpha='evidence' for family={response.family!r} and dispersion={self.dispersion!r}, "
                "expected family='bernoulli' or 'poisson', and dispersion='estimate', 'mle' or 1: set alpha "
                "to a number, or use BayesianLinearRegression for gaussian"
            )
        _refuse_without_mode(response, rows, prior)
        result = self._fit_scaled(rows, response, prior, initial, schema, X, y, by_evidence)
        fitted_model, unbounded_columns = generalized.make_generalized_fit(rows, response, result, method)
        warn_if_unbounded(response, unbounded_columns, schema)
        return _warn_if_dispersion_unknown(fitted_model)

    def _fit_scaled(
        self,
        rows: LinearRows,
        response: Response,
        prior: GaussianPrior,
        initial: Array | None,
        schema: Schema,
        X: object,
        y: object,
        by_evidence: bool = False,
    ) -> Fit:
        """Fit; if gaussian targets must be rescaled for that (`ScaledRows`), undo this in the result."""
        options = generalized.choose_options(self._check_options(), response, rows)
        scaled = ScaledRows.of(rows, response, prior)
        initial = None if initial is None else scaled.scale_parameters(initial)
        start = generalized.find_start(scaled.rows, response, scaled.prior, initial)
        result = self._find_posterior_mode(
            scaled.rows, response, scaled.prior, start, schema, X, y, by_evidence, options
        )
        return scaled.restore(result, result.prior if by_evidence else prior)

    @with_shards
    def partial_fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> Self:
        """Learn more rows, with the posterior so far as their prior; the result is near a fit to all rows.

        For gaussian with the identity it equals that fit, unless the posterior is only diagonal. The
        dispersion is estimated from all rows so far.
        """
        state = self._get_state_or_none()
        if state is None:
            return self.fit(X, y, sample_weight, offset, exposure)  # type: ignore[no-any-return]
        table, schema = self._read(X)
        before, response = state.fit, make_response(self.family, self.link)
        _refuse_other_response(response, before.response)
        batch = Batch(X, y, sample_weight, {"offset": offset, "exposure": exposure})
        rows, _ = self._build_rows(table, response, batch, before)
        self.state_ = GeneralizedState(schema, self._add_rows(before, rows, schema, X, y))
        return self

    def _add_rows(
        self, before: FittedGeneralized, rows: LinearRows, schema: Schema, X: object = None, y: object = None
    ) -> FittedGeneralized:
        """Fit more rows, with the posterior of the earlier ones as their prior."""
        response, prior, method = before.response, to_prior(before.posterior), self._read_dispersion_method()
        result = self._fit_scaled(rows, response, prior, prior.mean, schema, X, y)
        after, unbounded_columns = generalized.make_generalized_fit(
            rows, response, result, method, is_part=True
        )
        warn_if_unbounded(response, unbounded_columns, schema)
        return _warn_if_dispersion_unknown(generalized.continue_generalized(before, after, method))

    def merge(self, *others: Self) -> Self:
        """Add what other models of the same columns learned; the result is near a fit to all rows.

        It is the product of the posteriors, which are Gaussian approximations, divided by the common prior so
        that this is counted once.
        """
        states = self._list_states_to_merge(others)
        fitted_model = generalized.merge_generalized(
            [state.fit for state in states], self._read_dispersion_method()
        )
        self.state_ = replace(states[0], fit=fitted_model)
        return self

    def _decay_fit(self, state: GeneralizedState, factor: float) -> FittedGeneralized:
        return generalized.decay_generalized(state.fit, factor)

    def _read_dispersion_method(self) -> str | float:
        """Return how the dispersion is estimated, or its value; raise if the parameter is not valid."""
        given: object = self.dispersion
        if isinstance(given, str) and given in _DISPERSIONS:
            return given
        if isinstance(given, Real) and 0 < float(given) < np.inf:
            return float(given)
        raise ValueError(
            f"got dispersion={given!r}, expected {', '.join(map(repr, _DISPERSIONS))} or a number above 0"
        )

    # ── predictions ──

    def _compute_scores_with_offsets(
        self, X: object, offset: object, exposure: object
    ) -> tuple[FittedGeneralized, Design, Array]:
        state, design, scores = self._compute_scores(X)
        offsets = _read_offsets(offset, exposure, len(design), state.fit.response)
        return state.fit, design, scores[:, 0] if offsets is None else scores[:, 0] + offsets

    def predict_linear(self, X: object, offset: object = None, exposure: object = None) -> Array:
        """Return the scores (n,), intercept + x·w + offset.

        They are the link function of the means, except with the inverse link for scores of 0 or less.
        """
        return self._compute_scores_with_offsets(X, offset, exposure)[2]

    def predict(self, X: object, offset: object = None, exposure: object = None) -> Array:
        """Return the means (n,), at the most probable coefficients."""
        fitted_model, _, scores = self._compute_scores_with_offsets(X, offset, exposure)
        with np.errstate(over="ignore"):
            return fitted_model.response.mean(scores)

    def mean_interval(
        self, X: object, coverage: float = 0.95, offset: object = None, exposure: object = None
    ) -> tuple[Array, Array]:
        """Return both ends of the interval that holds each mean with this probability, each (n,).

        The score is taken to be normally distributed.
        """
        fitted_model, design, scores = self._compute_scores_with_offsets(X, offset, exposure)
        half_width = -special.ndtri(tail_of(coverage)) * np.sqrt(_score_variances(fitted_model, design))
        response = fitted_model.response
        with np.errstate(over="ignore"):
            lower, upper = response.mean(scores - half_width), response.mean(scores + half_width)
        return (upper, lower) if response.is_decreasing else (lower, upper)

    def predict_interval(
        self, X: object, coverage: float = 0.9, offset: object = None, exposure: object = None
    ) -> tuple[Array, Array]:
        """Return both ends, each (n,), of the interval that holds a new target with this probability.

        For counts, the probability is at least `coverage`. The predictive distribution ignores that the
        dispersion may be an estimate.
        """
        return self.predict_distribution(X, offset, exposure).interval(coverage)

    def predict_distribution(self, X: object, offset: object = None, exposure: object = None) -> Univariate:
        """Return the predictive distribution of each row's target; raise ValueError without a closed form.

        It is `Normal` for gaussian with the identity, and `NegativeBinomial` for poisson of dispersion 1: the
        logarithm of its mean, which has a gamma distribution, has the mean and variance of the score. For
        bernoulli, `predict` returns the probability of 1.
        """
        fitted_model, design, scores = self._compute_scores_with_offsets(X, offset, exposure)
        variances = _score_variances(fitted_model, design)
        return fitted_model.response.predict_distribution(scores, variances, fitted_model.dispersion)

    def sample_coefficients(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw coefficients from the posterior (n_samples, d)."""
        fitted_model = self.state_.fit
        return self._draw_parameters(fitted_model, n_samples, random_state)[:, : len(fitted_model.centre)]

    def sample_functions(
        self,
        X: object,
        n_samples: int = 1,
        random_state: Any = None,
        offset: object = None,
        exposure: object = None,
    ) -> Array:
        """Draw coefficients from the posterior, and return the means of rows by each draw (n_samples, n)."""
        fitted_model, design, scores = self._compute_scores_with_offsets(X, offset, exposure)
        changes = self._draw_parameters(fitted_model, n_samples, random_state) - fitted_model.posterior.mean
        with np.errstate(over="ignore"):
            return fitted_model.response.mean(scores + design.scores(changes).T)

    @staticmethod
    def _draw_parameters(fitted_model: FittedGeneralized, n_samples: int, random_state: Any) -> Array:
        draws = fitted_model.posterior.draw(make_generator(random_state), check_sample_count(n_samples))
        mean = fitted_model.posterior.mean
        return np.asarray(mean + np.sqrt(fitted_model.dispersion) * (draws - mean))

    def score(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> float:
        """Return D²: the fraction of the deviance of an intercept-only model that this model explains."""
        fitted_model, table = self.state_.fit, self._read_next_table(X)
        batch = Batch(X, y, sample_weight, {"offset": offset, "exposure": exposure})
        rows, _ = self._build_rows(table, fitted_model.response, batch, fitted_model)
        return fitted_model.compute_explained_deviance(rows)

    def explain(self, X: object, offset: object = None, exposure: object = None) -> LinearExplanation:
        """Compute how much each column contributes to the score; see `LinearExplanation`."""
        fitted_model, _, scores = self._compute_scores_with_offsets(X, offset, exposure)
        table, schema, n = self._read_next_table(X), self.state_.schema, len(scores)
        coefficients = self.coef_
        mean = fitted_model.mean if fitted_model.intercept else np.zeros_like(fitted_model.mean)
        each = np.broadcast_to(coefficients, (n, len(coefficients)))
        offsets = _read_offsets(offset, exposure, n, fitted_model.response)
        baseline = np.full(n, self.intercept_ + float(coefficients @ mean))
        terms = linear_terms(table, mean, each, schema, X)
        names = tuple(schema.name(j) for j in range(schema.width))
        return LinearExplanation(terms, baseline if offsets is None else baseline + offsets, names)

    def cross_validate(
        self,
        X: object,
        y: object,
        folds: int | str | ArrayLike = 5,
        *,
        sample_weight: object = None,
        groups: Any = None,
        random_state: Any = 0,
        offset: object = None,
        exposure: object = None,
    ) -> HeldOutResponses:
        """Predict each row by the model of the other folds, whose fits start at the parameters for all rows.

        With folds="leave-one-out", each row is removed by one step of Newton's method, which is exact for
        gaussian with the identity, and an approximation otherwise; the dispersion is that of all rows. The
        result has no rows of weight zero.
        """
        response = make_response(self.family, self.link)
        table, schema = read_first_table(X, self._accepts_sparse)
        batch = Batch(X, y, sample_weight, {"offset": offset, "exposure": exposure})
        rows, indices = self._build_rows(table, response, batch)
        fold = assign_folds(folds, groups, table.rows, indices, random_state)
        fitted_model = self._fit_rows(rows, response, schema)
        if fold is not None:
            initial = fitted_model.posterior.mean
            return generalized.cross_validate(
                lambda others: self._fit_rows(rows.take(others), response, schema, initial=initial),
                response,
                rows,
                fold,
            )
        if not fitted_model.posterior.is_full:
            raise ValueError(
                f"leaving one row out needs the full posterior, got posterior={self.posterior!r} of "
                f"{len(fitted_model.posterior.mean)} parameters: set it to 'full', or folds to a number"
            )
        return generalized.leave_one_out(fitted_model, rows)

    # ── what was learned ──

    def _get_dispersion(self) -> float:
        """Return the factor that scales all covariances."""
        return self.state_.fit.dispersion

    def _shape_output(self, values: Array) -> Any:
        """Return the values (1, …) of the only output as those of the public attributes."""
        return values[0] if values.ndim > 1 else float(values[0])

    @property
    def coef_(self) -> Array:
        """The coefficients (d,): the increase of the score per unit of each column."""
        return super().coef_

    @property
    def intercept_(self) -> float:
        """The score of a row of zeros; 0 without an intercept."""
        return float(super().intercept_)

    @property
    def intercept_std_(self) -> float:
        """The standard deviation of the intercept under the posterior; 0 without an intercept."""
        return float(super().intercept_std_)

    @property
    def z_values_(self) -> Array:
        """The coefficients divided by their standard deviations (d,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.coef_ / self.coef_std_

    @property
    def p_values_(self) -> Array:
        """Two-sided p-values of the coefficients against 0, by the normal distribution (d,)."""
        return np.asarray(2.0 * special.ndtr(-np.abs(self.z_values_)))

    @property
    def dispersion_(self) -> float:
        """The dispersion φ; NaN if it is estimated by Pearson's sum, and `df_resid_` is not above 0."""
        return self.state_.fit.dispersion

    @property
    def deviance_(self) -> float:
        """The deviance: twice the difference between the log-likelihoods of a perfect fit and of this one.

        Both are at a dispersion of 1. If rows were learned in several calls, it is an approximation to second
        order.
        """
        return self.state_.fit.deviance

    @property
    def pearson_(self) -> float:
        """Pearson's Σ weight (y − mean)²/V(mean), approximated to second order as in `deviance_`."""
        return self.state_.fit.pearson

    @property
    def null_deviance_(self) -> float:
        """The deviance of a model that has only an intercept, with the same offsets."""
        return self._require_single_fit("null_deviance_").null_deviance

    @property
    def log_likelihood_(self) -> float:
        """The log-likelihood of the rows at the mode and the dispersion.

        For gaussian with the identity, it is at the dispersion of maximum likelihood instead, unless the
        dispersion is given as a number.
        """
        return self._require_single_fit("log_likelihood_").log_likelihood

    @property
    def aic_(self) -> float:
        """Akaike's information criterion: −2 log-likelihood + 2 `n_effective_`."""
        fitted_model = self._require_single_fit("aic_")
        return -2.0 * fitted_model.log_likelihood + 2.0 * fitted_model.effective

    @property
    def bic_(self) -> float:
        """The Bayesian information criterion: −2 log-likelihood + log(rows) `n_effective_`."""
        fitted_model = self._require_single_fit("bic_")
        return (
            -2.0 * fitted_model.log_likelihood + float(np.log(fitted_model.weight)) * fitted_model.effective
        )

    def _require_single_fit(self, name: str) -> FittedGeneralized:
        fitted_model = self._require_state(name).fit
        if np.isnan(fitted_model.null_deviance):
            raise AttributeError(f"{name} {_IN_PARTS}")
        return fitted_model

    @property
    def n_observed_(self) -> float:
        """The total weight of the rows that were learned."""
        return self.state_.fit.weight

    @property
    def n_effective_(self) -> float:
        """The effective number of coefficients, with the intercept; without a prior, simply their number."""
        return self.state_.fit.effective

    @property
    def df_resid_(self) -> float:
        """The remaining degrees of freedom: `n_observed_` − `n_effective_`; `decay` also multiplies these."""
        return self.state_.fit.freedom

    def summary(self, coverage: float = 0.95) -> CoefficientSummary:
        """Return a table of coefficients, standard errors, z, p-values and intervals, to be printed.

        Its `to_frame` makes a data frame.
        """
        state = self.state_
        intercepts = None
        if state.fit.intercept:
            intercepts = (np.array([self.intercept_]), np.array([self.intercept_std_]))
        coefficients, errors = self.coef_[None], self.coef_std_[None]
        return summarize(self._format_headline(), state.schema, coefficients, errors, intercepts, coverage)

    def _format_headline(self) -> str:
        fitted_model = self.state_.fit
        first = (
            f"{fitted_model.response.family}, link {fitted_model.response.link}: {fitted_model.weight:g} rows"
        )
        second = f"dispersion {fitted_model.dispersion:.4g}, deviance {fitted_model.deviance:.6g}"
        if np.isnan(fitted_model.null_deviance):
            return f"{first}\n{second}"
        third = f"log-likelihood {fitted_model.log_likelihood:.6g}, AIC {self.aic_:.6g}, BIC {self.bic_:.6g}"
        return f"{first}\n{second} (null {fitted_model.null_deviance:.6g})\n{third}"

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        response = self.state_.fit.response
        return {**super().describe_state(), _RESPONSE_KEY: (response.family, response.link)}

    def restore_state(self, state: dict[str, Any]) -> None:
        content = dict(state)
        fitted_model = restore_fit(content, make_response(*content.pop(_RESPONSE_KEY)), FittedGeneralized)
        self.state_ = GeneralizedState(Schema(*state["schema"]), fitted_model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = RESPONSES.get((self.family, self.link or CANONICAL.get(self.family, "identity")))
        tags.target_tags.positive_only = kind is not None and kind.has_positive_mean
        return tags


@dataclass(frozen=True, slots=True, eq=False)
class _ShardPlan:
    """What all workers must know to convert their batches to rows of one design matrix."""

    schema: Schema
    centre: Array  # (d,)
    intercept: bool
    response: Response


def _refuse_other_response(response: Response, learned: Response) -> None:
    """Raise if the parameters name another response than the one that was learned."""
    if response != learned:
        raise ValueError(
            f"got family={response.family!r} and link={response.link!r} for a model that learned "
            f"{learned.family!r} with link {learned.link!r}, expected the same: call fit, which learns anew"
        )


def _score_variances(fitted_model: FittedGeneralized, design: Design) -> Array:
    return np.asarray(fitted_model.dispersion * fitted_model.posterior.score_variances(design))


def _warn_if_dispersion_unknown(fitted_model: FittedGeneralized) -> FittedGeneralized:
    """Return the model; warn if the dispersion is NaN, because no degrees of freedom remain for it."""
    if np.isnan(fitted_model.dispersion):
        warn(
            f"rows of weight {fitted_model.weight:g} determine {fitted_model.effective:g} coefficients and "
            "leave nothing for the dispersion, so that it and standard errors are NaN: learn more rows, or "
            "set dispersion",
            UserWarning,
        )
    return fitted_model


def _refuse_without_mode(response: Response, rows: LinearRows, prior: GaussianPrior) -> None:
    """Raise in two cases without a unique mode and without a prior: a single row, or an unbounded intercept.

    Other cases, such as collinear columns, are detected later.
    """
    without_prior = int((prior.diagonal == 0).sum())
    if len(rows.design) == 1 and without_prior > 1:
        raise ValueError(
            f"got 1 sample for {without_prior} coefficients without a prior, expected more rows: set alpha "
            "above 0"
        )
    if rows.design.intercept:
        has_prior = bool(prior.diagonal[-1] > 0)
        response.refuse_unbounded_intercept(*rows.target_range, rows.mean_target, has_prior)


def _read_offsets(offset: object, exposure: object, rows: int, response: Response) -> Array | None:
    """Return what to add to the scores (n,): offsets plus logarithms of exposures; None if there are none."""
    offsets = None if offset is None else _read_column(offset, rows, "offset")
    if exposure is None:
        return offsets
    if not response.takes_exposure:
        raise ValueError(
            f"got exposure with link={response.link!r}, expected link='log': with other links it does not "
            "multiply the mean; pass an offset instead"
        )
    exposures = _read_column(exposure, rows, "exposure")
    if not (exposures > 0).all():
        row = int(np.argmin(exposures > 0))
        raise ValueError(f"exposure {row} is {exposures[row]:g}, expected above 0: drop that row")
    return np.log(exposures) if offsets is None else offsets + np.log(exposures)


def _read_column(given: object, rows: int, name: str) -> Array:
    if np.ndim(given) == 0 and not isinstance(given, Real):  # type: ignore[arg-type]
        raise ValueError(f"got {name}={given!r}, expected a number, or one per row")
    values = np.asarray(arrays.to_matrix(given).values if np.ndim(given) else np.full((rows, 1), given))  # type: ignore[arg-type]
    if values.shape != (rows, 1):
        raise ValueError(f"got {name} of shape {values.shape} for {rows} rows, expected one number per row")
    column = np.ascontiguousarray(values[:, 0], dtype=np.float64)
    if not np.isfinite(column).all():
        row = int(np.argmin(np.isfinite(column)))
        raise ValueError(f"{name} {row} is {column[row]}, expected a finite number: drop or correct that row")
    return column
