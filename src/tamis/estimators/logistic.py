"""Logistic regression: two classes, or more by softmax, with a Gaussian posterior of the coefficients.

scikit-learn minimises C Σ loss + ½|w|². Here Σ loss + ½ α|w|² is minimised, which is the same for α = 1/C.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from tamis import validate
from tamis.arrays import Array
from tamis.engines import Batch, BatchShards
from tamis.estimators.base import with_sklearn_callbacks
from tamis.estimators.linear import CoefficientSummary, summarize
from tamis.estimators.linear_shards import ReadShard, ShardTable, TableSurvey, read_all_labels
from tamis.estimators.newton import (
    SOLVERS,
    NewtonFace,
    NewtonState,
    make_centred_design,
    read_design_values,
    restore_fit,
)
from tamis.estimators.reading import make_generator, read_folds
from tamis.estimators.sharded import refuse_drift, with_shards
from tamis.inputs import match_labels, read_first_table, read_weights, to_label_array
from tamis.models.explanation import Explanation, choose_classes, linear_terms
from tamis.models.linear import classification
from tamis.models.linear.design import Design
from tamis.models.linear.fitting import make_prior
from tamis.models.linear.laplace import to_prior
from tamis.models.linear.newton import Solver
from tamis.models.linear.objective import GaussianPrior, LinearRows, Objective
from tamis.models.linear.responses import ClassResponse
from tamis.models.linear.sharded import ShardedRows
from tamis.models.linear.updates import FittedLinear, continue_fit, keep_fit, merge_fits, remove_rows
from tamis.parameters import check_integer
from tamis.schema import Schema
from tamis.stats import Keys, Labels
from tamis.tables import Table
from tamis.warning import warn

SolverName = Literal["lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"]  # scikit-learn's
Predictive = Literal["plugin", "probit", "monte-carlo"]

_PREDICTIVES = ("plugin", "probit", "monte-carlo")
_USE_SKLEARN = "use scikit-learn's LogisticRegression(solver='saga')"
_ONE_AGAINST_THE_REST = "use OneVsRestClassifier(LogisticRegression())"


@dataclass(frozen=True, slots=True, eq=False)
class LogisticState(NewtonState):
    """All that a logistic regression has learned."""

    keys: Keys
    response: ClassResponse  # the distribution of classes given scores


@dataclass(eq=False, repr=False)
class LogisticRegression(ClassifierMixin, NewtonFace[LogisticState]):  # type: ignore[misc]  # scikit-learn has no types
    """Logistic regression with its uncertainty: the mode of the posterior, and a Gaussian around it.

    Parameters
    ----------
    alpha : float, array of one number per column, or "evidence", optional
        Precision of the Gaussian prior on each coefficient, 1/C; 1 if neither alpha nor C is given. 0 is
        maximum likelihood; "evidence" chooses one number for all coefficients.
    prior : tuple, optional
        Mean and covariance of the coefficients, for two classes, in place of alpha.
    fit_intercept : bool
    intercept_alpha : float
        Precision of the prior on intercepts; 0 for no prior.
    solver : "auto", "newton", "whitened" or "diagonal"
        "newton" computes the full Hessian at each step; "whitened" computes that of a sample of rows once,
        and then only gradients; "diagonal" does the same with the Hessian's diagonal, for very many columns.
        scikit-learn's names are accepted, too; with "liblinear", the intercept has the prior as well.
    posterior : "auto", "full", "diagonal" or "none"
        The form in which the posterior's precision is kept: a matrix, its diagonal or nothing. "auto" keeps
        the matrix for up to 1,000 parameters, and beyond that the diagonal.
    predictive : "plugin", "probit" or "monte-carlo"
        Whether probabilities are those of the most probable coefficients, or their average over the
        posterior, by MacKay's approximation or by `n_draws` draws.
    class_weight : "balanced" or a mapping from labels to weights, optional
        Factors of the rows' weights; "balanced" gives all classes the same total weight.
    tol : float
        Steps end when the log-posterior is expected to rise by less than this.
    max_iter : the largest number of steps
    n_draws, random_state : the number of draws with predictive="monte-carlo"; seed or generator for them
    verbose : whether to draw a progress bar
    C : float, optional
        scikit-learn's parameter, 1/alpha; give only one of the two. ∞ is maximum likelihood.
    penalty : "l2" or None
        None is maximum likelihood. "l1" is refused, as are "elasticnet" and "l2" with an `l1_ratio` above 0.
    warm_start : bool
        Whether `fit` starts at the coefficients of the last fit, unless the usual start has a smaller loss;
        the result is the same up to `tol`.
    l1_ratio, dual, intercept_scaling, multi_class, n_jobs
        scikit-learn's parameters; values for which scikit-learn finds other coefficients are refused.
        `intercept_scaling` is used with solver="liblinear".

    Examples
    --------
    >>> import tamis
    >>> rows = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    >>> model = tamis.LogisticRegression().fit(rows, ["no", "no", "yes", "no", "yes", "yes"])
    >>> (
    ...     model.predict([[1.5], [5.5]]).tolist(),
    ...     model.coef_.round(3).tolist(),
    ...     model.coef_std_.round(3).tolist(),
    ... )
    (['no', 'yes'], [[0.767]], [[0.547]])
    >>> model.set_params(predictive="probit").predict_proba([[9.0]]).round(3).tolist()
    [[0.13, 0.87]]
    """

    alpha: float | ArrayLike | str | None = None
    _: KW_ONLY
    solver: Solver | SolverName = "auto"
    predictive: Predictive = "plugin"
    class_weight: Mapping[Any, float] | str | None = None
    n_draws: int = 256
    random_state: Any = None
    C: float | None = None
    penalty: str | None = "l2"
    l1_ratio: float | None = 0.0
    dual: bool = False
    intercept_scaling: float = 1.0
    multi_class: str = "auto"
    warm_start: bool = False
    n_jobs: int | None = None

    _solvers: ClassVar[dict[str, Solver]] = {
        **SOLVERS,
        "liblinear": "auto",
        "newton-cg": "auto",
        "sag": "auto",
        "saga": "auto",
    }

    # ── learning ──

    @with_sklearn_callbacks
    @with_shards
    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn from rows and their labels."""
        table, schema = read_first_table(X, self._accepts_sparse)
        labels = self._read_labels(y, table.rows)
        self._refuse_options(labels.keys)
        rows = self._build_rows(table, labels, read_weights(sample_weight, table.rows))
        self.state_ = self._fit_rows(rows, schema, labels.keys, X, y)
        return self

    def learn_shards(self, shards: BatchShards[Batch], anew: bool) -> Self:
        """Learn from rows in shards: in each step, the processes that have the shards sum over their rows."""
        state = None if anew else self._get_state_or_none()
        read = ReadShard(read_design_values, self._accepts_sparse, has_classes=True)
        # Engines with workers keep the tables there (`keep`); otherwise each pass reads the shards again.
        tables = shards.map(read).keep()
        survey = tables.total(TableSurvey.of)
        counts: Any = survey.classes
        if state is None:
            keys = counts.terms
            plan = ShardPlan(survey.schema, keys, self._choose_centre(survey), bool(self.fit_intercept))
        else:
            self._refuse_balanced()
            refuse_drift(survey.schema, state.schema)
            plan = ShardPlan(state.schema, state.keys, state.fit.centre, state.fit.intercept)
            match_labels(plan.keys, Labels(counts.terms, np.empty(0, dtype=np.int64)))
        self._refuse_options(plan.keys)
        if self.class_weight is not None:
            one_row_per_class = Labels(counts.terms, np.arange(len(counts.terms)))
            weights = np.ones(len(plan.keys))
            weights[plan.keys.find(counts.terms)] = _weigh_classes(
                self.class_weight, one_row_per_class, counts.total.value
            )
            plan = replace(plan, class_weights=weights)
        classes = len(plan.keys)
        size = max(1, classes - 1) * (plan.schema.width + plan.intercept)
        rows = ShardedRows.of(
            tables.map(plan.make_rows),
            plan.centre,
            plan.intercept,
            classes=classes,
            row_counts=survey.row_counts,
            size=size,
        )
        if state is None:
            self.state_ = self._fit_rows(rows, plan.schema, plan.keys)
        else:
            self.state_ = self._add_rows(state, rows, plan.schema)
        return self

    def _refuse_options(self, keys: Keys) -> None:
        _refuse_predictive(self.predictive, self.n_draws)
        _refuse_class_weight(self.class_weight, keys)
        _refuse_other_optimum(self.solver, self.dual, self.multi_class, len(keys))

    def _read_labels(self, y: object, rows: int) -> Labels:
        return read_all_labels(y, rows)

    def _build_rows(
        self,
        table: Table,
        labels: Labels,
        weights: Array | None,
        fitted_model: FittedLinear | None = None,
        may_lack_classes: bool = False,
    ) -> LinearRows:
        """Build rows of the design matrix; some class may have no rows if `may_lack_classes`."""
        design = self._build_design(table, fitted_model)
        if self.class_weight is not None:
            row_weights = _weigh_classes(self.class_weight, labels, weights)[labels.group]
            weights = row_weights if weights is None else weights * row_weights
        if weights is not None and not weights.all() and fitted_model is None and not may_lack_classes:
            present = np.unique(labels.group[np.flatnonzero(weights)])
            absent = np.setdiff1d(np.arange(len(labels.keys)), present)
            if len(absent):
                raise ValueError(
                    f"class {labels.keys[int(absent[0])]!r} has no weight, expected some in every class: "
                    "this classifier needs samples of at least 2 classes"
                )
        return LinearRows(design, labels.group.astype(np.float64), weights)

    def _choose_prior_precision(self) -> Any:
        return _choose_alpha(self.alpha, self.C, self.penalty, self.l1_ratio)

    def _choose_intercept_precision(self) -> float:
        precision = super()._choose_intercept_precision()
        if self.solver != "liblinear":
            return precision
        return _choose_intercept_alpha(precision, self.intercept_scaling, self._choose_prior_precision())

    def _fit_rows(
        self,
        rows: LinearRows,
        schema: Schema,
        keys: Keys,
        X: object = None,
        y: object = None,
        initial: Array | None = None,
        may_lack_classes: bool = False,
    ) -> LogisticState:
        """Fit these rows only; Newton's method starts at the parameters `initial` if these are given.

        X and y are passed to callbacks. Some class may have no rows if `may_lack_classes`.
        """
        if len(keys) < 2:
            raise ValueError(
                f"got 1 class, {keys!r}, expected two or more: this classifier needs samples of at least 2 "
                "classes"
            )
        response = classification.make_class_response(len(keys))
        alpha, intercept_precision = self._choose_prior_precision(), self._choose_intercept_precision()
        # `expansion` (outputs, m) makes the coefficients of all outputs from the m vectors that are fitted.
        m, columns = response.expansion.shape[1], rows.design.columns
        intercept = bool(self.fit_intercept)
        prior, by_evidence = make_prior(alpha, self.prior, columns, m, intercept, intercept_precision)
        if self.prior is not None and response.classes > 2:
            raise ValueError(f"got a prior for {len(keys)} classes, expected two: set alpha instead")
        prior_of_fit = classification.add_unseen_classes(prior, rows, response) if may_lack_classes else prior
        start = self._choose_start(rows, response, prior, keys) if initial is None else initial
        result = self._find_posterior_mode(rows, response, prior_of_fit, start, schema, X, y, by_evidence)
        if prior_of_fit is not prior:
            # The prior of the fit includes half a row of each class without rows. The prior of the result
            # does not, so that this half row counts as data: only models with equal priors can be merged.
            precision = result.prior.precision - (prior_of_fit.precision - prior.precision)
            result = replace(result, prior=GaussianPrior(prior.mean, precision))
        # `can_remove`: also store what `unlearn_approximately` needs.
        fitted_model = keep_fit(rows, response, result, result.log_likelihood, can_remove=True)
        return LogisticState(schema, fitted_model, keys, response)

    def _choose_start(
        self, rows: LinearRows, response: ClassResponse, prior: GaussianPrior, keys: Keys
    ) -> Array:
        """Return the parameters at which steps start: with `warm_start`, those of the last fit if better."""
        state = self._get_state_or_none() if self.warm_start else None
        default, design = classification.start_at_frequencies(rows, response, prior), rows.design
        if state is None or state.keys != keys:
            return default
        last, d = state.fit, design.columns
        if (len(last.centre), last.intercept) != (d, design.intercept):
            return default
        vectors = last.posterior.mean.reshape(-1, design.width).copy()  # (m, width)
        vectors[:, d:] += (vectors[:, :d] @ (design.centre - last.centre))[:, None]  # the centre may differ
        loss = Objective.of(rows, response, prior).value_and_gradient
        # If the rows are quite different, the coefficients of the last fit may be the worse start.
        return min(default, vectors.ravel(), key=lambda parameters: loss(parameters)[0])

    def _refuse_balanced(self) -> None:
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"got class_weight={self.class_weight!r} for a part of the rows, expected a mapping: "
                "a part of the rows does not show how frequent the classes are"
            )

    @with_shards
    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Learn more rows, with the posterior so far as their prior; the result is near a fit to all rows.

        The first call must have rows of all classes, or name all in `classes`. A class without rows in the
        first call is fitted as if it had half a row, because its intercept would otherwise have no mode. It
        is better to begin with rows of all classes: the Gaussian posterior is a bad approximation far from
        its mode, where later rows of that class would move it.
        """
        state = self._get_state_or_none()
        self._refuse_balanced()
        table, schema = self._read(X)
        labels = self._read_labels(y, table.rows)
        weights = read_weights(sample_weight, table.rows)
        if state is None:
            may_lack_classes = classes is not None
            labels = match_labels(Keys.of(classes)[0], labels) if classes is not None else labels
            self._refuse_options(labels.keys)
            rows = self._build_rows(table, labels, weights, may_lack_classes=may_lack_classes)
            self.state_ = self._fit_rows(rows, schema, labels.keys, X, y, may_lack_classes=may_lack_classes)
            return self
        labels = match_labels(state.keys, labels)
        self._refuse_options(state.keys)
        rows = self._build_rows(table, labels, weights, state.fit)
        self.state_ = self._add_rows(state, rows, schema, X, y)
        return self

    def _add_rows(
        self, state: LogisticState, rows: LinearRows, schema: Schema, X: object = None, y: object = None
    ) -> LogisticState:
        """Fit more rows, with the posterior so far as their prior."""
        prior = to_prior(state.fit.posterior)
        result = self._find_posterior_mode(rows, state.response, prior, prior.mean, schema, X, y)
        after = keep_fit(rows, state.response, result, result.log_likelihood, can_remove=True)
        if rows.design.is_sparse:  # then the means of columns are not computed, and stay as they are
            after = replace(after, mean=state.fit.mean)
        return replace(state, fit=continue_fit(state.fit, after))

    def merge(self, *others: Self) -> Self:
        """Add what other models of the same columns and classes learned; it is near a fit to all rows.

        It is the product of the posteriors, which are Gaussian approximations, divided by the common prior so
        that this is counted once.
        """
        states = self._list_states_to_merge(others)
        for state in states:
            if state.keys != states[0].keys:
                raise ValueError(f"got a model of classes {state.keys!r}, expected {states[0].keys!r}")
        self.state_ = replace(states[0], fit=merge_fits([state.fit for state in states]))
        return self

    def unlearn_approximately(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Remove rows by one Newton step; `removal_bound_` bounds the distance to the exact solution.

        Rows that were never learned are not detected.
        """
        state = self.state_
        self._refuse_balanced()
        table = self._read_next_table(X)
        labels = match_labels(state.keys, self._read_labels(y, table.rows))
        rows = self._build_rows(table, labels, read_weights(sample_weight, table.rows), state.fit)
        self.state_ = replace(state, fit=remove_rows(state.fit, rows))
        return self

    # ── predictions ──

    def decision_function(self, X: object) -> Array:
        """Return log-odds of the second class against the first (n,), or scores (n, classes) if more."""
        _, _, scores = self._compute_scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_log_proba(self, X: object) -> Array:
        """Return log p(class | x), (n, classes)."""
        return self._compute_log_probabilities(*self._compute_scores(X))

    def _compute_log_probabilities(self, state: LogisticState, design: Design, scores: Array) -> Array:
        if self._check_predictive(state.fit) == "plugin":
            return state.response.log_probabilities(scores)
        with np.errstate(divide="ignore"):
            return np.log(self._compute_probabilities(state, design, scores))

    def predict_proba(self, X: object) -> Array:
        """Return p(class | x), (n, classes); see the parameter `predictive`."""
        return self._compute_probabilities(*self._compute_scores(X))

    def _compute_probabilities(self, state: LogisticState, design: Design, scores: Array) -> Array:
        method, response = self._check_predictive(state.fit), state.response
        if method == "monte-carlo":
            rng, count = make_generator(self.random_state), int(self.n_draws)
            return classification.sample_probabilities(state.fit, response, design, rng, count)
        if method == "probit":
            return classification.average_probabilities(state.fit.posterior, response, design, scores)
        return response.probabilities(scores)

    def _check_predictive(self, fitted_model: FittedLinear) -> Predictive:
        _refuse_predictive(self.predictive, self.n_draws)
        if self.predictive != "plugin" and fitted_model.posterior.precision is None:
            raise ValueError(
                f"predictive={self.predictive!r} needs a posterior, expected posterior='full' or 'diagonal'"
            )
        return self.predictive

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most probable class of each row; ties go to the first.

        With two classes it is the same for every `predictive`; if both are nearly equally probable, the other
        one may have the larger average of `predict_proba` over random draws.
        """
        state, design, scores = self._compute_scores(X)
        # Of two classes, the same one is more probable at the mean of the Gaussian posterior and on average
        # over it (but not always on average over draws from it).
        if self.predictive == "plugin" or state.response.classes == 2:
            values = state.response.class_scores(scores)
        else:
            values = self._compute_probabilities(state, design, scores)
        return np.asarray(self.classes_[values.argmax(axis=1)])

    def explain(self, X: object, for_: Hashable = None, against: Hashable = None) -> Explanation:
        """Return the contribution of each column to the log-odds of one class against another.

        For dense rows it is relative to the mean row, whose log-odds are `prior`. The default is, with two
        classes, the second against the first; with more, each row's most probable class against the next most
        probable one.
        """
        state, _, scores = self._compute_scores(X)
        response, schema = state.response, state.schema
        one, other = choose_classes(response.class_scores(scores), state.keys, for_, against)
        table = self._read_next_table(X)
        coefficients, intercepts = state.fit.coefficients
        coefficients = response.class_scores(coefficients.T).T
        intercepts = response.class_scores(intercepts[None])[0]
        differences = coefficients[one] - coefficients[other]
        prior = intercepts[one] - intercepts[other] + differences @ state.fit.mean
        terms = linear_terms(table, state.fit.mean, differences, schema, X)
        names, classes = tuple(schema.name(j) for j in range(schema.width)), self.classes_
        return Explanation(terms, np.zeros(len(one)), prior, classes[one], classes[other], names)

    def cross_validate(
        self,
        X: object,
        y: object,
        folds: int | str | ArrayLike = 5,
        *,
        sample_weight: object = None,
        groups: Any = None,
        random_state: Any = 0,
    ) -> validate.HeldOut:
        """Predict each row by the model of the other folds.

        Each fit starts at the parameters of a fit to all rows, if its folds have all classes. With
        folds="leave-one-out", each row is removed by one step of Newton's method, which is an approximation.
        """
        table, schema = read_first_table(X, self._accepts_sparse)
        labels = self._read_labels(y, table.rows)
        self._refuse_options(labels.keys)
        weights = read_weights(sample_weight, table.rows)
        fold = read_folds(folds, table.rows, labels.group, groups, random_state)
        state = self._fit_rows(self._build_rows(table, labels, weights), schema, labels.keys, X, y)

        def fit_rows(
            indices: NDArray[np.int64], labels_of_rows: Labels
        ) -> Callable[[NDArray[np.int64]], Array]:
            fitted_model = state.fit if len(labels_of_rows.keys) == len(labels.keys) else None
            part = None if weights is None else weights[indices]
            rows = self._build_rows(table.take(indices), labels_of_rows, part, fitted_model)
            initial = None if fitted_model is None else fitted_model.posterior.mean
            model = self._fit_rows(rows, schema, labels_of_rows.keys, initial=initial)

            def predict(held_out: NDArray[np.int64]) -> Array:
                design = self._build_design(table.take(held_out), model.fit)
                return self._compute_log_probabilities(
                    model, design, design.scores(model.fit.parameters_by_output)
                )

            return predict

        if fold is not None:
            joint = classification.cross_validate(fit_rows, labels, fold)
            return validate.HeldOut(labels.keys, joint, labels.group, fold, weights)
        if not state.fit.posterior.is_full:
            raise ValueError(
                f"got posterior={self.posterior!r}: leave-one-out needs the full posterior, expected "
                "posterior='full' or a number of folds"
            )
        rows = self._build_rows(table, labels, weights, state.fit)
        joint = classification.leave_one_out(state.fit, state.response, rows)
        return validate.HeldOut(labels.keys, joint, labels.group, np.arange(table.rows), weights)

    # ── what was learned ──

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of all predictions."""
        return to_label_array(self.state_.keys)

    @property
    def coef_(self) -> Array:
        """Coefficients of the second class's log-odds (1, d); of more classes (classes, d), with sum 0."""
        return super().coef_

    @property
    def intercept_(self) -> Array:
        """The intercepts, one per row of `coef_`; 0 without an intercept."""
        return np.asarray(super().intercept_)

    @property
    def n_iter_(self) -> NDArray[np.int32]:
        """The number of steps, each a pass over all rows, as an array (1,)."""
        return np.array([super().n_iter_], dtype=np.int32)

    @property
    def removal_bound_(self) -> float:
        """A bound on the distance from the exact solution after `unlearn_approximately`.

        It is a bound on √(g·H⁻¹g) for the remaining gradient g and the Hessian H: to first order, the
        distance in posterior standard deviations. It is ∞, because no bound is known, if `partial_fit`,
        `merge` or `decay` was called.
        """
        return _check_removal("removal_bound_", self.state_.fit.bound)

    @property
    def removal_shift_(self) -> float:
        """How far the coefficients moved when rows were removed, in posterior standard deviations."""
        return _check_removal("removal_shift_", self.state_.fit.shift)

    def summary(self, coverage: float = 0.95) -> CoefficientSummary:
        """Return a table of coefficients, standard errors, z, p-values and intervals.

        Print it, or call its `to_frame`. With two classes, the coefficients are those of the second class's
        log-odds; with more, each class has its own.
        """
        state, classes = self.state_, self.classes_.tolist()
        fitted_model = state.fit
        intercepts = (self.intercept_, self.intercept_std_) if fitted_model.intercept else None
        if len(classes) == 2:
            title, outputs = f"logistic, {classes[1]!r} against {classes[0]!r}", None
        else:
            title, outputs = f"softmax, {len(classes)} classes", ("class", classes)
        strength = f"alpha {self.alpha_:.4g}" if isinstance(self.alpha_, float) else "a prior of its own"
        evidence = (
            "" if np.isnan(fitted_model.log_evidence) else f", log-evidence {fitted_model.log_evidence:.6g}"
        )
        headline = f"{title}: {fitted_model.weight:g} rows\n{strength}{evidence}"
        return summarize(headline, state.schema, self.coef_, self.coef_std_, intercepts, coverage, outputs)

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        return {**super().describe_state(), "keys": self.state_.keys}

    def restore_state(self, state: dict[str, Any]) -> None:
        content = dict(state)
        keys = content.pop("keys")
        response = classification.make_class_response(len(keys))
        fitted_model = restore_fit(content, response, FittedLinear)
        self.state_ = LogisticState(Schema(*state["schema"]), fitted_model, keys, response)


@dataclass(frozen=True, slots=True, eq=False)
class ShardPlan:
    """What all workers must know to convert their batches to rows of one design matrix."""

    schema: Schema
    keys: Keys
    centre: Array  # (d,)
    intercept: bool
    class_weights: Array | None = None  # (K,)

    def make_rows(self, shard: ShardTable) -> LinearRows:
        """Convert a shard to rows of the design matrix."""
        labels: Any = shard.labels
        group = match_labels(self.keys, labels).group
        weights = shard.weights
        if self.class_weights is not None:
            row_weights = self.class_weights[group]
            weights = row_weights if weights is None else weights * row_weights
        design = make_centred_design(shard.values, self)
        return LinearRows(design, group.astype(np.float64), weights, number=shard.number)


def _check_removal(name: str, value: float) -> float:
    if np.isnan(value):
        raise AttributeError(f"no {name}: no rows were removed since the last fit")
    return value


# ── scikit-learn's parameters ──


def _choose_alpha(alpha: Any, C: Any, penalty: Any, l1_ratio: Any) -> Any:
    """Return the precision of the prior, from alpha and scikit-learn's C, penalty and l1_ratio."""
    _refuse_sparse_penalty(penalty, l1_ratio)
    if isinstance(alpha, str) and alpha in ("l1", "l2", "elasticnet", "none"):
        advice = {"l2": "pass penalty='l2'", "none": "pass penalty=None"}.get(alpha, _USE_SKLEARN)
        raise ValueError(f"got alpha={alpha!r}, expected a number or 'evidence': {advice}")
    if C is not None and (not isinstance(C, Real) or not float(C) > 0.0):
        raise ValueError(f"got C={C!r}, expected a number above 0, or None to use alpha")
    if penalty is None:
        if alpha is not None and (isinstance(alpha, str) or np.any(np.asarray(alpha) != 0)):
            raise ValueError(f"got penalty=None and alpha={alpha!r}, expected one of them: drop one")
        if C is not None and C not in (1.0, np.inf):
            warn(f"C={C!r} is ignored with penalty=None: coefficients are not penalised", UserWarning)
        return 0.0
    if C is None:
        return 1.0 if alpha is None else alpha
    if alpha is not None and not _are_reciprocal(alpha, float(C)):
        raise ValueError(f"got alpha={alpha!r} and C={C!r}, expected one of them: alpha is 1/C, {1.0 / C:g}")
    return 1.0 / float(C)


def _are_reciprocal(alpha: Any, C: float) -> bool:
    return isinstance(alpha, Real) and math.isclose(float(alpha), 1.0 / C, rel_tol=1e-12)


def _refuse_sparse_penalty(penalty: Any, l1_ratio: Any) -> None:
    # "deprecated" is scikit-learn's default of a parameter that was not given.
    if penalty not in ("l2", "l1", "elasticnet", "deprecated", None):
        raise ValueError(f"got penalty={penalty!r}, expected 'l2' or None")
    if l1_ratio is not None and (not isinstance(l1_ratio, Real) or not 0.0 <= float(l1_ratio) <= 1.0):
        raise ValueError(f"got l1_ratio={l1_ratio!r}, expected 0")
    if penalty == "l1" or (penalty == "elasticnet" and l1_ratio is None):
        raise ValueError(
            f"got penalty={penalty!r}, expected 'l2' or None: {_USE_SKLEARN} for sparse coefficients"
        )
    if l1_ratio and penalty is not None:
        raise ValueError(f"got l1_ratio={l1_ratio!r}, expected 0: {_USE_SKLEARN} for sparse coefficients")


def _choose_intercept_alpha(intercept_alpha: float, intercept_scaling: Any, alpha: Any) -> float:
    """Return the precision of liblinear's prior on intercepts: by default α / intercept_scaling²."""
    if intercept_alpha:
        return intercept_alpha
    if not isinstance(intercept_scaling, Real) or not 0.0 < float(intercept_scaling) < np.inf:
        raise ValueError(f"got intercept_scaling={intercept_scaling!r}, expected a finite number above 0")
    if not isinstance(alpha, Real):
        raise ValueError(
            f"got solver='liblinear' and alpha={alpha!r}, expected one number, because liblinear "
            "applies it to the intercept, too: set solver='auto'"
        )
    return float(alpha) / float(intercept_scaling) ** 2


def _refuse_other_optimum(solver: Any, dual: Any, multi_class: Any, classes: int) -> None:
    """Raise if scikit-learn's parameters are unknown, or ask for other coefficients than this model's."""
    if dual and solver not in ("auto", "liblinear"):
        raise ValueError(
            f"got dual={dual!r} and solver={solver!r}, expected dual=False: this solver has no dual form"
        )
    if multi_class not in ("auto", "deprecated", "multinomial", "ovr"):
        raise ValueError(f"got multi_class={multi_class!r}, expected 'auto'")
    if classes > 2 and (solver == "liblinear" or multi_class == "ovr"):
        given = "solver='liblinear'" if solver == "liblinear" else "multi_class='ovr'"
        raise ValueError(f"got {given} for {classes} classes, expected two: {_ONE_AGAINST_THE_REST}")
    if classes == 2 and multi_class == "multinomial":
        raise ValueError(
            "got multi_class='multinomial' for 2 classes, expected 'auto': a softmax of two classes halves "
            "the penalty; for the same coefficients, set alpha=1/(2C)"
        )


def _refuse_predictive(predictive: Any, n_draws: Any) -> None:
    """Raise unless these parameters of averaged probabilities are valid."""
    if predictive not in _PREDICTIVES:
        raise ValueError(
            f"got predictive={predictive!r}, expected one of {', '.join(map(repr, _PREDICTIVES))}"
        )
    check_integer("n_draws", n_draws)


def _refuse_class_weight(given: Any, keys: Keys) -> None:
    """Raise unless `class_weight` is None, "balanced" or a mapping from some of the classes to weights."""
    if given is None or (isinstance(given, str) and given == "balanced"):
        return
    if not isinstance(given, Mapping):
        raise ValueError(f"got class_weight={given!r}, expected 'balanced' or a mapping from labels")
    for label, weight in given.items():
        if label not in keys:
            raise ValueError(f"got class_weight for {label!r}, expected labels among {keys!r}")
        try:
            is_valid = 0.0 <= float(weight) < np.inf
        except (TypeError, ValueError):
            is_valid = False
        if not is_valid:
            raise ValueError(
                f"got class_weight={weight!r} for {label!r}, expected a finite number of at least 0"
            )


def _weigh_classes(given: Mapping[Any, float] | str, labels: Labels, weights: Array | None) -> Array:
    """Return the weight of a row of each class (K,)."""
    if isinstance(given, Mapping):
        return np.array([float(given.get(key, 1.0)) for key in labels.keys])
    return classification.balance_classes(labels, weights)
