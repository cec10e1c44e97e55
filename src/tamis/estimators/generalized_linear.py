"""Generalised linear models: yes or no, counts, numbers and positive numbers, with their uncertainty."""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from sklearn.base import RegressorMixin

from tamis.arrays import Array
from tamis.conjugate import Univariate
from tamis.conjugate.distribution import tail_of
from tamis.estimators import answers, generalized_folds, generalized_rows
from tamis.estimators.base import with_callbacks
from tamis.estimators.curved_face import column_means
from tamis.estimators.curved_state import CurvedState
from tamis.estimators.generalized_face import GeneralizedFace
from tamis.estimators.generalized_rows import Observed
from tamis.estimators.generalized_state import (
    GeneralizedState,
    added,
    decayed,
    fitted_to,
    merged,
    told_of_end,
    told_of_scatter,
)
from tamis.estimators.linear_explanation import LinearExplanation
from tamis.estimators.reading import make_generator
from tamis.estimators.regression_answers import fold_of_kept, number
from tamis.inputs import read_first_table
from tamis.models.linear import generalized
from tamis.models.linear.design import Design
from tamis.models.linear.fitting import Fit, Kept
from tamis.models.linear.generalized import HeldOutResponses, Scaled
from tamis.models.linear.laplace import LinearRows, moved_on
from tamis.models.linear.newton import WHOLE, Solver
from tamis.models.linear.objective import GaussianPrior
from tamis.models.linear.responses import CANONICAL, RESPONSES, Family, Link, Response, make_response


class GeneralizedLinear(RegressorMixin, GeneralizedFace):  # type: ignore[misc]  # scikit-learn has no types
    """Regression on means that are not numbers of any size: shares, counts, rates, positive amounts.

    The mean of a target is g⁻¹(intercept + x·w + offset), g being the link, and its variance φ V(mean), φ
    being the dispersion. What is found is the top of the posterior, and a Gaussian around it. A row of weight
    2 is that row twice.

    Parameters
    ----------
    family : "gaussian", "poisson", "bernoulli" or "gamma"
    link : "identity", "log", "logit" or "inverse", optional
        The family's canonical link if it is not given: identity, log, logit, inverse. Log is the other one
        that gaussian and gamma take.
    alpha : float, array of one a column, or "evidence"
        Precision of the Gaussian prior on each coefficient, in units of the dispersion: coefficients are
        N(0, φ/α), and minimise Σ weight · loss + α/2 |w|². That is Σ weight times scikit-learn's alpha. By
        evidence it can be chosen where the dispersion is 1.
    prior : tuple, optional
        Mean and covariance of the coefficients, in place of alpha; in units of the dispersion too.
    fit_intercept : bool
    intercept_alpha : float
        Precision of the prior on the intercept: 0, none.
    dispersion : "estimate", "pearson", "mle" or a number
        "estimate" is 1 for bernoulli and poisson, and for the others Pearson's Σ weight (y − mean)²/V(mean)
        over the degrees of freedom left; "pearson" is the latter for all families (quasi-Poisson). "mle" is
        the likeliest. Covariances are multiplied by it; coefficients do not depend on it.
    solver, posterior, tol, max_iter, verbose
        See `LogisticRegression`.

    Notes
    -----
    Steps are Newton's, by the Hessian; standard errors are by the expected information (Fisher's), with every
    link. Without a prior, answers are those of statsmodels' GLM, and with frequency weights: standard errors,
    deviance, AIC (for gaussian with the identity, at the likeliest dispersion) and z by the normal
    distribution. With a prior, degrees of freedom count what the rows determine (`n_effective_`), and
    `coef_std_` is the posterior's. With the inverse link a score that is not above zero has an infinite mean.

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
    >>> hours = [1.0, 2.0, 1.0, 4.0, 2.0]  # and the same as rates
    >>> rates = tamis.GeneralizedLinear("poisson").fit(days, calls, exposure=hours)
    >>> rates.predict([[5.0]]).round(2).tolist(), rates.predict([[5.0]], exposure=[10.0]).round(1).tolist()
    ([5.74], [57.4])
    """

    def __init__(
        self,
        family: Family = "gaussian",
        *,
        link: Link | None = None,
        alpha: float | ArrayLike | str = 0.0,
        prior: tuple[ArrayLike, ArrayLike] | None = None,
        fit_intercept: bool = True,
        intercept_alpha: float = 0.0,
        dispersion: Literal["estimate", "pearson", "mle"] | float = "estimate",
        solver: Solver | Literal["lbfgs", "newton-cholesky"] = "auto",
        posterior: Kept = "auto",
        tol: float = 1e-8,
        max_iter: int = 100,
        verbose: int = 0,
    ) -> None:
        self.family = family
        self.link = link
        self.alpha = alpha
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.intercept_alpha = intercept_alpha
        self.dispersion = dispersion
        self.solver = solver
        self.posterior = posterior
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _state_kind(self) -> Any:
        return GeneralizedState

    # ── learning ──

    @with_callbacks
    def fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> Self:
        """Learn from rows and their targets; offsets are added to scores, exposures multiply means.

        An exposure needs the log link: it is how long, or of how many, a count was taken.
        """
        answer = make_response(self.family, self.link)
        observed = Observed.of(*read_first_table(X, self._sparse), answer, y, sample_weight, offset, exposure)
        self._fitted = self._from_nothing(observed, X, y)
        return self

    def _from_nothing(
        self, observed: Observed, X: object, y: object, near: GeneralizedState | None = None
    ) -> GeneralizedState:
        """Fit, from the top of a model that is near, if there is one."""
        answer, scatter = make_response(self.family, self.link), self._scatter()
        rows = self._linear_rows(observed, near)
        prior, free = self._prior(rows.design.columns, 1)
        if free and (answer.has_dispersion or scatter not in ("estimate", "mle", 1.0)):
            raise ValueError(
                f"got alpha='evidence' for family={answer.family!r} and dispersion={self.dispersion!r}, "
                "expected a dispersion of 1: set alpha to a number, or use BayesianLinearRegression"
            )
        generalized_rows.refuse_boundless(answer, observed, prior, rows.design.intercept)
        start = None if near is None else near.posterior.mean
        found = self._top(rows, answer, prior, free, start, observed, X, y)
        return told_of_scatter(self._told_of(rows, answer, found, observed))

    def _linear_rows(self, observed: Observed, like: CurvedState | None) -> LinearRows:
        design = self._design(observed.table, like)
        return LinearRows(design, observed.targets, observed.weights, observed.offsets)

    def _top(
        self,
        rows: LinearRows,
        answer: Response,
        prior: GaussianPrior,
        free: bool,
        start: Array | None,
        observed: Observed,
        X: object,
        y: object,
    ) -> Fit:
        plan = self._plan()
        # Ranges and squares: a sample of the rows would mislead the one, and the other takes a single step.
        if plan.solver == "auto" and answer.needs_all_rows:
            plan = replace(plan, solver="newton" if rows.design.width <= WHOLE else "diagonal")
        if not answer.is_canonical:  # there steps by slopes alone measure what is left less well
            plan = replace(plan, tol=1e-4 * plan.tol)
        scaled = Scaled.of(rows, answer, prior)
        near = None if start is None else scaled.start(start)
        begun = generalized.begin(scaled.rows, answer, scaled.prior, near)
        found = self._climbed(scaled.rows, answer, scaled.prior, begun, free, observed.schema, X, y, plan)
        return scaled.back(found, found.prior if free else prior)

    def _told_of(
        self, rows: LinearRows, answer: Response, found: Fit, observed: Observed, parts: bool = False
    ) -> GeneralizedState:
        dense = None if observed.table.sparse is not None else observed.table.numbers()
        mean = column_means(rows, dense)
        more = fitted_to(rows, answer, found, self._scatter(), parts)
        found = told_of_end(rows, answer, found, more.pop("scores"), observed.schema)
        evidence = more.pop("evidence")
        state: GeneralizedState = self._learned(
            observed.schema, rows, answer, found, mean, more["told"], **more
        )
        return state if np.isnan(state.evidence) else replace(state, evidence=evidence)

    def partial_fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> Self:
        """Learn more rows, with the posterior so far as their prior: near what a fit to all rows would be.

        For gaussian with the identity it is that fit. A dispersion is estimated over all rows seen.
        """
        fitted: GeneralizedState | None = self._find_state()
        if fitted is None:
            return self.fit(X, y, sample_weight, offset, exposure)  # type: ignore[no-any-return]
        table, schema = self._read(X)
        answer = fitted.response
        generalized_rows.refuse_another(make_response(self.family, self.link), answer)
        observed = Observed.of(table, schema, answer, y, sample_weight, offset, exposure)
        rows, prior = self._linear_rows(observed, fitted), moved_on(fitted.posterior)
        found = self._top(rows, answer, prior, False, prior.mean, observed, X, y)
        after = self._told_of(rows, answer, found, observed, parts=True)
        self._fitted = told_of_scatter(added(fitted, after, self._scatter()))
        return self

    def merge(self, *others: Self) -> Self:
        """Add what other models learned of the same columns: near a fit to all rows.

        Each posterior is taken for a Gaussian, and their common prior is counted once.
        """
        self._fitted = merged(self._states_to_merge(others), self._scatter())
        return self

    def decay(self, factor: float) -> Self:
        """Let everything learned so far count `factor` times as much: the posterior widens."""
        before: GeneralizedState = self.state_
        super().decay(factor)
        self._fitted = decayed(before, self._fitted, float(factor))
        return self

    # ── answers ──

    def _answers(self, X: object, offset: object, exposure: object) -> tuple[GeneralizedState, Design, Array]:
        state, design, scores = self._scores(X)
        assert isinstance(state, GeneralizedState)
        moved = generalized_rows.offsets(offset, exposure, len(design), state.response)
        return state, design, scores[:, 0] if moved is None else scores[:, 0] + moved

    def predict_linear(self, X: object, offset: object = None, exposure: object = None) -> Array:
        """Scores (n,): what the link makes of the means."""
        return self._answers(X, offset, exposure)[2]

    def predict(self, X: object, offset: object = None, exposure: object = None) -> Array:
        """Means (n,), at the most probable coefficients."""
        state, _, scores = self._answers(X, offset, exposure)
        with np.errstate(over="ignore"):
            return state.response.mean(scores)

    def mean_interval(
        self, X: object, coverage: float = 0.95, offset: object = None, exposure: object = None
    ) -> tuple[Array, Array]:
        """Ends of the interval in which each mean lies with that probability: normal in the score."""
        state, design, scores = self._answers(X, offset, exposure)
        reach = -special.ndtri(tail_of(coverage)) * np.sqrt(self._score_variances(state, design))
        with np.errstate(over="ignore"):
            ends = state.response.mean(scores - reach), state.response.mean(scores + reach)
        return (ends[1], ends[0]) if state.response.is_decreasing else ends

    @staticmethod
    def _score_variances(state: GeneralizedState, design: Design) -> Array:
        return np.asarray(state.dispersion * state.posterior.score_variances(design))

    def predict_interval(
        self, X: object, coverage: float = 0.9, offset: object = None, exposure: object = None
    ) -> tuple[Array, Array]:
        """Where the next target lies with that probability, at least: lower and upper ends, each (n,)."""
        return self.predict_distribution(X, offset, exposure).interval(coverage)

    def predict_distribution(self, X: object, offset: object = None, exposure: object = None) -> Univariate:
        """Of the next target of each row, coefficients averaged over, where that is closed.

        Gaussian with the identity: `Normal`. Poisson: `NegativeBinomial`, by a gamma belief in the mean whose
        logarithm has the score's mean and variance. Of bernoulli, `predict` says it all.
        """
        state, design, scores = self._answers(X, offset, exposure)
        variances = self._score_variances(state, design)
        return state.response.predict_distribution(scores, variances, state.dispersion)

    def sample_coefficients(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Coefficients drawn from the posterior (n_samples, d)."""
        state = self.state_
        return self._draws(state, n_samples, random_state)[:, : len(state.centre)]

    def sample_functions(
        self,
        X: object,
        n_samples: int = 1,
        random_state: Any = None,
        offset: object = None,
        exposure: object = None,
    ) -> Array:
        """Means of rows by coefficients drawn from the posterior (n_samples, n)."""
        state, design, scores = self._answers(X, offset, exposure)
        moves = self._draws(state, n_samples, random_state) - state.posterior.mean
        with np.errstate(over="ignore"):
            return state.response.mean(scores + design.scores(moves).T)

    @staticmethod
    def _draws(state: GeneralizedState, n_samples: int, random_state: Any) -> Array:
        drawn = state.posterior.draw(make_generator(random_state), number(n_samples))
        mean = state.posterior.mean
        return np.asarray(mean + np.sqrt(state.dispersion) * (drawn - mean))

    def score(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> float:
        """D²: the share of the deviance of an intercept alone that the model explains."""
        state: GeneralizedState = self.state_
        table, schema = self._table(X), state.schema
        observed = Observed.of(table, schema, state.response, y, sample_weight, offset, exposure)
        rows = self._linear_rows(observed, state)
        return state.explained(generalized.scores_of(rows, state.posterior.mean), rows)

    def explain(self, X: object, offset: object = None, exposure: object = None) -> LinearExplanation:
        """How far each column moves the score, on the scale of the link; see `LinearExplanation`."""
        state, _, scores = self._answers(X, offset, exposure)
        table, names = self._table(X), tuple(state.schema.name(j) for j in range(state.schema.width))
        coefficients, _ = self._coefficients()
        mean = state.mean if state.intercept else np.zeros_like(state.mean)
        each = np.broadcast_to(coefficients, (len(scores), len(coefficients)))
        moved = generalized_rows.offsets(offset, exposure, len(scores), state.response)
        baseline = np.full(len(scores), self.intercept_ + float(coefficients @ mean))
        terms = answers.linear_terms(table, mean, each, state.schema, X)
        return LinearExplanation(terms, baseline if moved is None else baseline + moved, names)

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
        """What models of the other folds say of each row; each begins where the model of all rows ended.

        With folds="leave-one-out", each row is taken away by one step of Newton's, which is near, and exact
        for gaussian with the identity; the dispersion is that of all rows. Rows of no weight are left out.
        """
        answer = make_response(self.family, self.link)
        table, schema = read_first_table(X, self._sparse)
        observed = Observed.of(table, schema, answer, y, sample_weight, offset, exposure)
        fold = fold_of_kept(folds, groups, table.rows, observed.kept, random_state)
        return generalized_folds.held_out(self, observed, fold)

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        answer = self.state_.response
        return {**super().describe_state(), "answer": (answer.family, answer.link)}

    def _restored_response(self, given: dict[str, Any]) -> Response:
        return make_response(*given.pop("answer"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = RESPONSES.get((self.family, self.link or CANONICAL.get(self.family, "identity")))
        tags.target_tags.positive_only = kind is not None and kind.has_positive_targets
        return tags
