"""Logistic regression: two classes, or more by softmax, with a Gaussian posterior of the coefficients."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from tamis import validate
from tamis.arrays import Array
from tamis.estimators import answers, logistic_answers, logistic_folds
from tamis.estimators.base import with_callbacks
from tamis.estimators.curved_face import column_means
from tamis.estimators.curved_state import CurvedState, continued, joined, without
from tamis.estimators.explanation import Explanation
from tamis.estimators.logistic_face import LogisticFace
from tamis.estimators.logistic_options import (
    class_weights,
    refuse_averages,
    refuse_class_weight,
    refuse_scheme,
)
from tamis.estimators.reading import make_generator, read_labels
from tamis.inputs import match_labels, read_first_table, read_weights
from tamis.models.linear.fitting import Kept, level_start, with_unseen
from tamis.models.linear.laplace import LinearRows, moved_on
from tamis.models.linear.newton import Solver
from tamis.models.linear.objective import GaussianPrior, Objective
from tamis.models.linear.responses import Bernoulli, ClassResponse, Softmax
from tamis.schema import Schema
from tamis.stats import Keys, Labels
from tamis.tables import Table

SolverName = Literal["lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"]  # scikit-learn's
Predictive = Literal["plugin", "probit", "monte-carlo"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LogisticState(CurvedState):
    """What a logistic regression has learned."""

    keys: Keys
    response: ClassResponse


class LogisticRegression(ClassifierMixin, LogisticFace):  # type: ignore[misc]  # scikit-learn has no types
    """Logistic regression with its uncertainty: the top of the posterior, and a Gaussian around it.

    Parameters
    ----------
    alpha : float, array of one number per column, or "evidence", optional
        Precision of the Gaussian prior on each coefficient, 1/C; 1 if neither is given. 0 is maximum
        likelihood; "evidence" chooses one for all.
    prior : tuple, optional
        Mean and covariance of the coefficients of two classes, instead of alpha, which is then left alone.
    fit_intercept : bool
    intercept_alpha : float
        Precision of the prior on intercepts: 0, none.
    solver : "auto", "newton", "whitened" or "diagonal"
        "newton" takes the whole curvature at each step; "whitened" that of a sample of rows once, and then
        slopes alone; "diagonal" does the same with its diagonal, for very many columns. scikit-learn's
        names are taken too; "liblinear" puts the prior on the intercept as well, as it does there.
    posterior : "auto", "full", "diagonal" or "none"
        What to keep of the posterior; "auto" keeps it whole up to 1,000 parameters, and a diagonal beyond.
    predictive : "plugin", "probit" or "monte-carlo"
        Whether probabilities are those of the most probable coefficients, or their average over the
        posterior, by MacKay's closed form or by `n_draws` draws.
    class_weight : "balanced" or a mapping from labels to weights, optional
    tol : float
        Steps end when the log-posterior is expected to rise by less.
    max_iter, n_draws, random_state, verbose
    C : float, optional
        scikit-learn's: 1/alpha, give one of the two. ∞ is maximum likelihood.
    penalty : "l2" or None
        None is maximum likelihood. "l1" and "elasticnet" are refused, as is an `l1_ratio` other than 0.
    warm_start : bool
        Whether `fit` begins at the coefficients of the last one; it ends at the same ones.
    l1_ratio, dual, intercept_scaling, multi_class, n_jobs
        scikit-learn's: refused where they ask for other coefficients; `intercept_scaling` is liblinear's.

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

    _removes: ClassVar[bool] = True

    def __init__(
        self,
        alpha: float | ArrayLike | str | None = None,
        *,
        prior: tuple[ArrayLike, ArrayLike] | None = None,
        fit_intercept: bool = True,
        intercept_alpha: float = 0.0,
        solver: Solver | SolverName = "auto",
        posterior: Kept = "auto",
        predictive: Predictive = "plugin",
        class_weight: Mapping[Any, float] | str | None = None,
        tol: float = 1e-8,
        max_iter: int = 100,
        n_draws: int = 256,
        random_state: Any = None,
        verbose: int = 0,
        C: float | None = None,
        penalty: str | None = "l2",
        l1_ratio: float | None = 0.0,
        dual: bool = False,
        intercept_scaling: float = 1.0,
        multi_class: str = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.intercept_alpha = intercept_alpha
        self.solver = solver
        self.posterior = posterior
        self.predictive = predictive
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_draws = n_draws
        self.random_state = random_state
        self.verbose = verbose
        self.C = C
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.warm_start = warm_start
        self.n_jobs = n_jobs

    def _state_kind(self) -> Any:
        return LogisticState

    # ── learning ──

    @with_callbacks
    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn from rows and their labels."""
        table, schema = read_first_table(X, self._sparse)
        filed = self._labels(y, table.rows)
        self._refuse_options(filed.keys)
        self._fitted = self._from_nothing(table, schema, filed, read_weights(sample_weight, table.rows), X, y)
        return self

    def _refuse_options(self, keys: Keys) -> None:
        refuse_averages(self.predictive, self.n_draws)
        refuse_class_weight(self.class_weight, keys)
        refuse_scheme(self.solver, self.dual, self.multi_class, len(keys))

    def _labels(self, y: object, rows: int) -> Labels:
        filed = read_labels(y, rows)
        if (filed.group < 0).any():
            row = int(np.argmax(filed.group < 0))
            raise ValueError(
                f"label {row} is missing, expected one per row: y holds NaN or None, drop that row"
            )
        return filed

    def _from_nothing(
        self,
        table: Table,
        schema: Schema,
        filed: Labels,
        weighed: Array | None,
        X: object,
        y: object,
        near: LogisticState | None = None,
        partly: bool = False,
    ) -> LogisticState:
        """Fit, from the top of a model that is near, if there is one; `partly`, more classes are to come."""
        response = self._response(filed.keys)
        rows = self._rows_of(table, filed, weighed, near, partly)
        prior, free = self._prior(rows.design.columns, response.contrasts.shape[1])
        if self.prior is not None and response.classes > 2:
            raise ValueError(f"got a prior for {len(filed.keys)} classes, expected two: set alpha instead")
        believed = with_unseen(prior, rows, response) if partly else prior
        start = self._start(rows, response, prior, filed.keys) if near is None else near.posterior.mean
        found = self._climbed(rows, response, believed, start, free, schema, X, y)
        if believed is not prior:  # half rows count as rows: models that are merged share their prior
            own = found.prior.precision - (believed.precision - prior.precision)
            found = replace(found, prior=GaussianPrior(prior.mean, own))
        dense = None if table.sparse is not None else table.numbers()
        mean = column_means(rows, dense)
        state: LogisticState = self._learned(
            schema, rows, response, found, mean, found.log_likelihood, keys=filed.keys
        )
        return state

    def _start(self, rows: LinearRows, response: ClassResponse, prior: GaussianPrior, keys: Keys) -> Array:
        """The parameters that steps begin with: those of the last fit, for warm_start."""
        last: LogisticState | None = self._find_state() if self.warm_start else None
        fresh, design = level_start(rows, response, prior), rows.design
        d = design.columns
        if last is None or (last.keys, len(last.centre), last.intercept) != (keys, d, design.intercept):
            return fresh
        cells = last.posterior.mean.reshape(-1, design.width).copy()
        cells[:, d:] += (cells[:, :d] @ (design.centre - last.centre))[:, None]
        loss = Objective(design, rows.targets, response, prior, rows.weights).value_and_gradient
        # Rows that have moved far can make the last coefficients a worse place to begin than none.
        return min(fresh, cells.ravel(), key=lambda parameters: loss(parameters)[0])

    @staticmethod
    def _response(keys: Keys) -> ClassResponse:
        if len(keys) < 2:
            raise ValueError(
                f"got 1 class, {keys!r}, expected two or more to tell apart: this classifier needs samples "
                "of at least 2 classes"
            )
        return Bernoulli() if len(keys) == 2 else Softmax.of(len(keys))

    def _rows_of(
        self,
        table: Table,
        filed: Labels,
        weighed: Array | None,
        like: CurvedState | None = None,
        partly: bool = False,
    ) -> LinearRows:
        design = self._design(table, like)
        if self.class_weight is not None:
            own = class_weights(self.class_weight, filed, weighed)[filed.group]
            weighed = own if weighed is None else weighed * own
        if weighed is not None and not weighed.all():
            kept = np.flatnonzero(weighed)
            gone = np.setdiff1d(np.arange(len(filed.keys)), np.unique(filed.group[kept]))
            if len(gone) and like is None and not partly:
                raise ValueError(
                    f"class {filed.keys[int(gone[0])]!r} has no weight, expected some in every class: this "
                    "classifier needs samples of at least 2 classes"
                )
        return LinearRows(design, filed.group.astype(np.float64), weighed)

    def _refuse_balanced(self) -> None:
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"got class_weight={self.class_weight!r} for a part of the rows, expected a mapping: "
                "what shares of all rows the classes have is not seen there"
            )

    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Learn more rows, with the posterior so far as their prior: near what a fit to all rows would be.

        All classes must be named, or there, in the first call. Of classes that are named and have no row in
        it, intercepts are taken as if half a row had been seen, or they would have no end; a stream is best
        begun with rows of all classes, for far from its top a posterior is no Gaussian.
        """
        fitted: LogisticState | None = self._find_state()
        self._refuse_balanced()
        table, schema = self._read(X)
        filed = self._labels(y, table.rows)
        weighed = read_weights(sample_weight, table.rows)
        if fitted is None:
            if classes is not None:
                filed = match_labels(Keys.of(classes)[0], filed)
            self._refuse_options(filed.keys)
            partly = classes is not None
            self._fitted = self._from_nothing(table, schema, filed, weighed, X, y, partly=partly)
            return self
        filed = match_labels(fitted.keys, filed)
        self._refuse_options(fitted.keys)
        rows = self._rows_of(table, filed, weighed, fitted)
        prior = moved_on(fitted.posterior)
        found = self._climbed(rows, fitted.response, prior, prior.mean, False, schema, X, y)
        mean = fitted.mean if table.sparse is not None else column_means(rows, table.numbers())
        after = self._learned(
            schema, rows, fitted.response, found, mean, found.log_likelihood, keys=fitted.keys
        )
        self._fitted = continued(fitted, after)
        return self

    def merge(self, *others: Self) -> Self:
        """Add what other models learned of the same columns and classes: near a fit to all rows.

        Each posterior is taken for a Gaussian, and their common prior is counted once.
        """
        states: list[LogisticState] = self._states_to_merge(others)
        for state in states:
            if state.keys != states[0].keys:
                raise ValueError(f"got a model of classes {state.keys!r}, expected {states[0].keys!r}")
        self._fitted = joined(states)
        return self

    def unlearn_approximately(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Take rows away by one step of Newton's, and bound what is left to do in `removal_bound_`.

        Rows that were not learned are not told from those that were.
        """
        fitted: LogisticState = self.state_
        self._refuse_balanced()
        table = self._table(X)
        filed = match_labels(fitted.keys, self._labels(y, table.rows))
        rows = self._rows_of(table, filed, read_weights(sample_weight, table.rows), fitted)
        self._fitted = without(fitted, rows)
        return self

    def _restored_response(self, given: dict[str, Any]) -> ClassResponse:
        return self._response(given["keys"])

    # ── answers ──

    def decision_function(self, X: object) -> Array:
        """Log-odds of the second class against the first (n,); with more classes, scores (n, classes)."""
        _, _, scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_log_proba(self, X: object) -> Array:
        """log p(class | x), (n, classes)."""
        state, _, scores = self._scores(X)
        if self._averages(state) == "plugin":
            return state.response.log_probabilities(scores)
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_proba(self, X: object) -> Array:
        """p(class | x), (n, classes); see the parameter `predictive`."""
        state, design, scores = self._scores(X)
        by = self._averages(state)
        if by == "monte-carlo":
            rng = make_generator(self.random_state)
            return logistic_answers.drawn(state, state.response, design, rng, int(self.n_draws))
        if by == "probit":
            return logistic_answers.probit(state, state.response, design, scores)
        return state.response.probabilities(scores)

    def _averages(self, state: CurvedState) -> Predictive:
        refuse_averages(self.predictive, self.n_draws)
        if self.predictive != "plugin" and state.posterior.precision is None:
            raise ValueError(
                f"predictive={self.predictive!r} needs a posterior, expected posterior='full' or 'diagonal'"
            )
        return self.predictive

    def predict(self, X: object) -> NDArray[Any]:
        """The most probable class of each row; ties go to the first."""
        state, _, scores = self._scores(X)
        plain = self.predictive == "plugin" or state.response.classes == 2  # averaging two keeps their order
        best = state.response.class_scores(scores) if plain else self.predict_proba(X)
        return np.asarray(self.classes_[best.argmax(axis=1)])

    def explain(self, X: object, for_: Hashable = None, against: Hashable = None) -> Explanation:
        """What each column says for one class against another: it sums to the log-odds.

        Of dense rows, what they say beyond the mean row, whose log-odds are `prior`. With two classes the
        second against the first; with more, each row's likeliest against its next, unless they are named.
        """
        state, _, scores = self._scores(X)
        one, other = answers.opponents(state.response.class_scores(scores), state.keys, for_, against)
        table = self._table(X)
        coefficients, ends = self._coefficients()
        if len(coefficients) == 1:
            coefficients, ends = np.vstack([np.zeros_like(coefficients), coefficients]), np.append(0.0, ends)
        apart = coefficients[one] - coefficients[other]
        prior = ends[one] - ends[other] + apart @ state.mean
        terms = answers.linear_terms(table, state.mean, apart, state.schema, X)
        names = tuple(state.schema.name(j) for j in range(state.schema.width))
        labels_ = self.classes_
        return Explanation(terms, np.zeros(len(one)), prior, labels_[one], labels_[other], names)

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
        """What models of the other folds say of each row; each begins where the model of all rows ended.

        With folds="leave-one-out", each row is taken away by one step of Newton's, which is near and not
        exact.
        """
        return logistic_folds.held_out(self, X, y, folds, sample_weight, groups, random_state)
