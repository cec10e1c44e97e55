"""Bayesian linear regression: coefficients and noise with their uncertainty, from sums of products."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from tamis import arrays
from tamis.arrays import Array
from tamis.conjugate import Univariate
from tamis.estimators.base import with_callbacks
from tamis.estimators.coefficient_summary import CoefficientSummary
from tamis.estimators.linear_explanation import LinearExplanation, explained
from tamis.estimators.linear_face import LinearFace, LinearState
from tamis.estimators.reading import make_generator
from tamis.estimators.regression_answers import held_out, number, summarize_posterior
from tamis.inputs import read_first_table, read_numbers, read_targets, read_weights
from tamis.models.linear import BayesianLinear, HeldOutNumbers, LinearPosterior
from tamis.parameters import check_decay_factor
from tamis.schema import Schema
from tamis.stats import Gram
from tamis.tables import Table

_INFERRED_WITH = ("alpha", "beta", "prior", "noise_shape", "noise_scale", "intercept", "exact")  # in files


@dataclass(frozen=True, slots=True, eq=False)
class Regression(LinearState):
    """The sums, and what was inferred from them so far."""

    model: BayesianLinear  # the parameters that it was, or is to be, inferred with
    statistic: Gram
    flat: bool  # whether targets were (n,), and answers are
    inferred: list[LinearPosterior] = field(default_factory=list)  # empty until it is asked for


class BayesianLinearRegression(RegressorMixin, LinearFace[Any]):  # type: ignore[misc]  # scikit-learn has no types
    """Linear regression that says how sure it is, chooses its own regularisation, and can forget.

    y = intercept + x·w + noise, with a normal prior on the coefficients w, a flat one on the intercept, and
    normal noise of precision β = 1/variance. A row of weight 2 is that row twice. Several columns of targets
    share the sums of the rows; each has its own coefficients, noise and, if evidence chooses it, α.

    Parameters
    ----------
    alpha : float, array of one a column, or "evidence"
        Precision of the coefficients about 0; 0 is a flat prior, as least squares have. By evidence it is
        the one that makes the targets most probable; where columns say nothing of them, it is large, and
        bounded.
    beta : float or array of one a target, "unknown" or "evidence"
        Precision of the noise. "unknown" integrates it out and predicts by a Student t; the belief in its
        variance σ² is an inverse gamma, and the prior of the coefficients is in units of it: N(0, σ²/α). By
        evidence it is one number; for a perfect fit it is bounded, σ² at 1e-12 of the targets' variance.
    prior : tuple, optional
        Mean and covariance (d, d), or variances (d,), of the coefficients, in place of `alpha`.
    noise_shape, noise_scale : float
        Of the inverse gamma belief, for beta="unknown". 0 and 0 say nothing, and have no evidence.
    fit_intercept : bool
    exact : whether sums of products are exact to the bit, at several times the price

    Notes
    -----
    With alpha=0, coefficients are those of least squares. Then beta="evidence" has their usual standard
    errors as `coef_std_`, and beta="unknown" their usual t intervals (n − d − 1 degrees of freedom) as
    `coef_interval`; its `coef_std_` is that of the t distribution, and so a little larger.

    Examples
    --------
    >>> import tamis
    >>> model = tamis.BayesianLinearRegression(alpha=0.1, beta=4.0).fit([[0], [1], [2], [3]], [1, 3, 5, 7])
    >>> low, high = model.predict_interval([[4]])
    >>> model.predict([[4]]).round(2).tolist(), low.round(2).tolist(), high.round(2).tolist()
    ([8.98], [7.68], [10.27])
    """

    def __init__(
        self,
        *,
        alpha: Any = "evidence",
        beta: Any = "evidence",
        prior: tuple[ArrayLike, ArrayLike] | None = None,
        noise_shape: float = 0.0,
        noise_scale: float = 0.0,
        fit_intercept: bool = True,
        exact: bool = False,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.prior = prior
        self.noise_shape = noise_shape
        self.noise_scale = noise_scale
        self.fit_intercept = fit_intercept
        self.exact = exact

    def _model(self, schema: Schema) -> BayesianLinear:
        return BayesianLinear(
            alpha=self.alpha,
            beta=self.beta,
            prior=self.prior,
            noise_shape=self.noise_shape,
            noise_scale=self.noise_scale,
            intercept=bool(self.fit_intercept),
            exact=bool(self.exact),
            names=schema.names,
        )

    # ── the algebra ──

    @with_callbacks
    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn from rows and their targets, (n,) or (n, q)."""
        table, schema = read_first_table(X, self._sparse)
        model = self._model(schema)
        found = Regression(schema, model, *self._observed(table, y, sample_weight))
        found.inferred.append(model.infer(found.statistic))
        self._fitted = found
        return self

    def partial_fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn more rows: the model is as if all had come at once."""
        table, schema = self._read(X)
        part, flat = self._observed(table, y, sample_weight)
        before: Regression | None = self._find_state()
        if before is not None:
            self._fitted = self._after(before, before.statistic + _alike(part, before))
            return self
        model = self._model(schema)
        model.refuse_impossible(schema.width, part.targets)
        self._fitted = Regression(schema, model, part, flat)
        return self

    def unlearn(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Forget rows that were learned, with their targets and weights: as if they had never come."""
        fitted: Regression = self.state_
        part, _ = self._observed(self._read(X)[0], y, sample_weight)
        rest = fitted.statistic - _alike(part, fitted)
        rest.refuse_impossible()
        rest.refuse_lost(bool(self.fit_intercept), fitted.schema.names)
        if not float(rest.weight.value) > 0:
            raise ValueError(
                "every row would be forgotten, expected some to be left: make a new model instead; "
                "nothing was changed"
            )
        self._fitted = self._after(fitted, rest)
        return self

    def merge(self, *others: Self) -> Self:
        """Add what other models of the same columns have learned."""
        fitted: Regression
        fitted, *rest = self._states_to_merge(others)
        statistic = fitted.statistic
        for theirs in rest:
            statistic = statistic + _alike(theirs.statistic, fitted)
        self._fitted = self._after(fitted, statistic)
        return self

    def decay(self, factor: float) -> Self:
        """Let everything learned so far count `factor` times as much."""
        fitted: Regression = self.state_
        self._fitted = self._after(fitted, fitted.statistic * check_decay_factor(factor))
        return self

    def infer(self, **params: Any) -> Self:
        """Set parameters and infer again from what was learned, without reading data again."""
        fitted: Regression = self.state_
        before = self.get_params(deep=False)
        try:
            self.set_params(**params)
            model = self._model(fitted.schema)
            found = model.infer(fitted.statistic)
        except Exception:
            self.set_params(**before)
            raise
        self._fitted = replace(fitted, model=model, inferred=[found])
        return self

    def _after(self, fitted: Regression, statistic: Gram) -> Regression:
        """With other sums, to be inferred from with the parameters as they are now."""
        model = self._model(fitted.schema)
        model.refuse_impossible(fitted.schema.width, statistic.targets)
        return Regression(fitted.schema, model, statistic, fitted.flat)

    def _observed(self, table: Table, y: object, sample_weight: object) -> tuple[Gram, bool]:
        """The sums of the rows, and whether y had one dimension."""
        z, weighed = read_targets(y, table.rows), read_weights(sample_weight, table.rows)
        rows = arrays.Matrix(table.numbers(), table.names)
        return Gram.observe(rows, z, weighed, exact=bool(self.exact)), z.ndim == 1

    def _posterior(self, wanted: str = "") -> LinearPosterior:
        fitted: Any = self._state_for(wanted) if wanted else self.state_
        if not fitted.inferred:
            try:
                fitted.inferred.append(fitted.model.infer(fitted.statistic))
            except ValueError as problem:
                if not wanted:
                    raise
                raise AttributeError(f"no {wanted}: {problem}") from None
        return fitted.inferred[0]  # type: ignore[no-any-return]

    def _shaped(self, values: Array, axis: int = -1) -> Array:
        """Without the axis of targets, if y had none."""
        return np.asarray(np.take(values, 0, axis=axis) if self.state_.flat else values)

    def _told(self, name: str, values: Array) -> Any:
        """One number of each target, or just one."""
        return float(values[0]) if self._state_for(name).flat else values

    # ── answers ──

    def predict(self, X: object, return_std: bool = False) -> Any:
        """The mean answer (n,) or (n, q); and if asked the standard deviation of the next, noise and all."""
        posterior, rows = self._posterior(), self._rows(X)
        mean = self._shaped(posterior.predict(rows))
        if not return_std:
            return mean
        return mean, self._shaped(posterior.deviation(1.0 + posterior.leverage(rows)))

    def predict_interval(self, X: object, coverage: float = 0.9) -> tuple[Array, Array]:
        """Where the next answer lies with that probability: lower and upper ends, each (n,) or (n, q)."""
        return self.predict_distribution(X).interval(coverage)

    def predict_distribution(self, X: object) -> Univariate:
        """Of the next answer for each row: a `Normal`, or a `StudentT` for beta="unknown"."""
        return self._posterior().distribution(self._rows(X), 0 if self.state_.flat else slice(None))

    def sample_functions(self, X: object, n_samples: int = 1, random_state: Any = None) -> Array:
        """Whole functions drawn from the posterior, without noise: (n_samples, n) or (n_samples, n, q)."""
        posterior, rows = self._posterior(), self._rows(X)
        slopes, levels = posterior.draw(make_generator(random_state), number(n_samples))
        found = levels[:, None] + (rows - posterior.centre) @ np.swapaxes(slopes, -1, -2)
        return self._shaped(found)

    def sample_coefficients(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Coefficients drawn from the posterior, (n_samples, d) or (n_samples, q, d)."""
        slopes, _ = self._posterior().draw(make_generator(random_state), number(n_samples))
        return self._shaped(slopes, axis=1)

    def coef_interval(self, coverage: float = 0.95) -> tuple[Array, Array]:
        """Ends of the interval in which each coefficient lies with that probability, (d,) or (q, d)."""
        low, high = self._posterior().marginals().interval(coverage)
        return self._shaped(low.T, axis=0), self._shaped(high.T, axis=0)

    def summary(self, coverage: float = 0.95) -> CoefficientSummary:
        """Coefficients with their standard errors, z or t, p and intervals: print it, or call its `to_frame`.

        For beta="unknown" it is t, and the standard error is the scale of its distribution.
        """
        posterior, fitted = self._posterior(), self.state_
        weight = float(fitted.statistic.weight.value)
        return summarize_posterior(posterior, fitted.schema, fitted.model.intercept, weight, coverage)

    def explain(self, X: object, target: int = 0) -> LinearExplanation:
        """How far each column moves the prediction of a target; see `LinearExplanation`."""
        posterior, schema = self._posterior(), self.state_.schema
        asked: object = target
        if not isinstance(asked, int | np.integer) or not 0 <= asked < len(posterior.level):
            raise ValueError(f"got target={target!r}, expected 0 to {len(posterior.level) - 1}")
        table = self._table(X)
        terms = (read_numbers(table) - posterior.centre) * posterior.mean[target]
        return explained(terms, np.full(len(terms), posterior.level[target]), schema, X, table)

    def cross_validate(
        self,
        X: object,
        y: object,
        folds: int | str | ArrayLike = 5,
        *,
        sample_weight: object = None,
        groups: object = None,
        random_state: Any = 0,
    ) -> HeldOutNumbers:
        """Answers for each row from a model that never saw its fold, for the price of one pass.

        `folds` is a number, the fold of each row, or "leave-one-out"; rows of one group stay together. What
        evidence chooses is chosen anew for each fold; leaving one out, it is what all rows chose. Rows of no
        weight are left out of the answer.
        """
        table, schema = read_first_table(X, self._sparse)
        z, weighed = read_targets(y, table.rows), read_weights(sample_weight, table.rows)
        return held_out(self._model(schema), read_numbers(table), z, weighed, folds, groups, random_state)

    # ── what was learned ──

    @property
    def statistic_(self) -> Gram:
        """All that was learned."""
        return self._state_for("statistic_").statistic  # type: ignore[no-any-return]

    @property
    def coef_(self) -> Array:
        """The mean of the coefficients, (d,) or (q, d)."""
        return self._shaped(self._posterior("coef_").mean, axis=0)

    @property
    def coef_std_(self) -> Array:
        """The standard deviation of each coefficient, (d,) or (q, d)."""
        posterior = self._posterior("coef_std_")
        return self._shaped(posterior.deviation(posterior.variances.T).T, axis=0)

    @property
    def coef_covariance_(self) -> Array:
        """The covariance of the coefficients, (d, d) or (q, d, d)."""
        return self._shaped(self._posterior("coef_covariance_").covariance, axis=0)

    @property
    def intercept_(self) -> Any:
        """The answer for a row of zeros; 0 without an intercept."""
        return self._told("intercept_", self._posterior("intercept_").intercept)

    @property
    def intercept_std_(self) -> Any:
        """Its standard deviation."""
        posterior = self._posterior("intercept_std_")
        found = posterior.deviation(posterior.leverage(np.zeros((1, len(posterior.centre)))))[0]
        fitted: Regression = self.state_
        return self._told("intercept_std_", found if fitted.model.intercept else np.zeros_like(found))

    @property
    def alpha_(self) -> Any:
        """The precision of the coefficients: what evidence chose, a number a target, or what was given."""
        found = self._posterior("alpha_").alpha
        if found is None:
            raise AttributeError("alpha_ is not known: a prior was given in its place")
        if isinstance(self.state_.model.alpha, str):
            return self._told("alpha_", found)
        return found if found.ndim else float(found)

    @property
    def beta_(self) -> Any:
        """The precision of the noise; its posterior mean, for beta="unknown"."""
        return self._told("beta_", self._posterior("beta_").beta)

    @property
    def noise_std_(self) -> Any:
        """1/√β."""
        return self._told("noise_std_", 1.0 / np.sqrt(self._posterior("noise_std_").beta))

    @property
    def n_effective_(self) -> Any:
        """How many coefficients, the intercept too, the data rather than the prior determine: γ, and 1."""
        found = self._posterior("n_effective_").effective
        return self._told("n_effective_", found + self.state_.model.intercept)

    @property
    def log_evidence_(self) -> Any:
        """log p(targets | rows), parameters integrated out: a number a target.

        The intercept's flat prior counts as a density of 1, so that models compare if both have one.
        """
        found = self._posterior("log_evidence_").log_evidence
        if found is None:
            raise AttributeError(
                "log_evidence_ is not defined for a prior that does not integrate to one: give alpha above "
                "0, and with beta='unknown' noise_shape and noise_scale above 0"
            )
        return self._told("log_evidence_", found)

    def describe_state(self) -> dict[str, Any]:
        fitted: Regression = self.state_
        schema = fitted.schema
        columns = (schema.width, schema.kinds, schema.names, schema.library)
        params = {name: getattr(fitted.model, name) for name in _INFERRED_WITH}
        return {
            "schema": columns,
            "statistic": fitted.statistic,
            "flat": fitted.flat,
            "inferred_with": params,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        schema, statistic = Schema(*state["schema"]), state["statistic"]
        if not isinstance(statistic, Gram) or statistic.width != schema.width or statistic.keys is not None:
            raise TypeError("its statistic is of other columns")
        model = replace(self._model(schema), **state.get("inferred_with", {}))
        self._fitted = Regression(schema, model, statistic, bool(state["flat"]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _alike(part: Gram, fitted: Regression) -> Gram:
    """The sums, if they are of as many targets as those that were learned."""
    learned = fitted.statistic.targets
    if part.targets != learned:
        raise ValueError(f"got {part.targets} targets per row, expected {learned}, as were learned")
    return part
