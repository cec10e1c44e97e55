"""Bayesian linear regression: coefficients and noise with their uncertainty, from sums of products.

The faces of all linear models share the rest of this module, which reads rows of numbers, makes tables of
coefficients, and explains predictions.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from tamis import arrays
from tamis.arrays import Array
from tamis.conjugate import Univariate
from tamis.engines import DatabaseShards, UnsupportedSumsError
from tamis.estimators.base import T, TableFace, refuse_to_forget_all, with_sklearn_callbacks
from tamis.estimators.reading import check_sample_count, make_generator, read_folds
from tamis.estimators.sharded import with_shards
from tamis.inputs import read_first_table, read_numbers, read_targets, read_weights
from tamis.models.explanation import Contributions
from tamis.models.linear import BayesianLinear, HeldOutNumbers, LinearPosterior, cross_validate, leave_one_out
from tamis.models.linear.posterior import assess_coefficients
from tamis.parameters import check_decay_factor
from tamis.schema import Schema
from tamis.stats import Gram
from tamis.tables import Table, make_frame

INTERCEPT = "(intercept)"
_NAME_WIDTH = 14  # least width of the column of names
_LARGE = 1e4  # from here on, z and t are printed in scientific notation, with three digits
_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
# The parameters of `BayesianLinear` that a file holds.
_INFERRED_WITH = ("alpha", "beta", "prior", "noise_shape", "noise_scale", "intercept", "exact")


# ── what all linear faces share ──


@dataclass(frozen=True, slots=True, eq=False)
class LinearState:
    """The base class of the states of linear models; each estimator adds fields for what it learned."""

    schema: Schema

    is_empty: ClassVar[bool] = False  # a state is made only when rows are learned


class LinearFace(TableFace[T]):
    """The base of linear estimators (faces), which read rows of numbers."""

    def _read(self, X: object) -> tuple[Table, Schema]:
        """Read rows to learn; the first rows define the columns, which later rows must have, too."""
        state = self._get_state_or_none()
        if state is None:
            return read_first_table(X, self._accepts_sparse)
        return self._read_next_table(X), state.schema

    def _read_dense_rows(self, X: object) -> Array:
        """Read rows to predict as a dense array (n, d)."""
        return read_numbers(self._read_next_table(X))


def assign_folds(
    folds: int | str | ArrayLike, groups: Any, rows: int, indices: NDArray[np.int64] | None, random_state: Any
) -> NDArray[np.int64] | None:
    """Return the fold of each row, or of the rows with these indices; None for leave-one-out."""
    if indices is not None:
        folds = folds if np.ndim(folds) == 0 else _check_per_row(folds, rows, "folds")[indices]
        groups = None if groups is None else _check_per_row(groups, rows, "groups")[indices]
    count = rows if indices is None else len(indices)
    fold = read_folds(folds, count, class_index=None, groups=groups, random_state=random_state)
    if fold is not None and len(np.unique(fold)) < 2:
        raise ValueError("got 1 fold, expected at least 2: the model learns from the others")
    return fold


def _check_per_row(given: Any, rows: int, name: str) -> NDArray[Any]:
    values = np.asarray(given)
    if values.shape != (rows,):
        raise ValueError(f"got {name} of shape {values.shape} for {rows} rows, expected one per row")
    return values


# ── tables of coefficients ──


@dataclass(frozen=True, slots=True)
class CoefficientSummary:
    """A row for each coefficient; it prints as a table, and `to_frame` makes a data frame of it.

    The columns are `name`; `class` or `target`, if there are several; `coef`, `std_err`, and `z` or `t`, the
    ratio coef / std_err; `p_value`; and `lower` and `upper`, the ends of the interval that holds the
    coefficient with probability `coverage`. Without a prior, p-values are the usual ones; with a prior they
    are twice the posterior probability that the coefficient has the other sign.

    Examples
    --------
    >>> import tamis
    >>> model = tamis.GeneralizedLinear("poisson").fit([[0.0], [1.0], [2.0], [3.0]], [2, 3, 6, 7])
    >>> model.summary().to_frame().round(2)
              name  coef  std_err     z  p_value  lower  upper
    0  (intercept)  0.77     0.51  1.50     0.13  -0.23   1.77
    1            0  0.42     0.23  1.85     0.06  -0.02   0.86
    """

    headline: str
    columns: Mapping[str, tuple[Any, ...]]
    coverage: float
    library: str | None = None  # the library of the data frame that the model was fitted to, if there was one

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame of a library: "pandas", "polars", "pyarrow", "modin" or "cudf".

        The default is the library of the frame that the model was fitted to, or else pandas.
        """
        chosen = self.library if library is None else library
        chosen = chosen if library is not None or chosen in _LIBRARIES else "pandas"
        if chosen not in _LIBRARIES:
            raise ValueError(f"got library={library!r}, expected one of {', '.join(map(repr, _LIBRARIES))}")
        if importlib.util.find_spec(chosen) is None:
            raise ImportError(
                f"a frame of {chosen} needs {chosen}, which is not installed: install it, name another "
                "library, or use the attribute columns"
            )
        return make_frame({name: list(column) for name, column in self.columns.items()}, chosen)

    def __str__(self) -> str:
        columns, coverage = self.columns, f"{100 * self.coverage:g} %"
        ratio = "t" if "t" in columns else "z"
        parts: list[tuple[str, int, list[str]]] = [
            ("coef", 10, [f"{x:.4g}" for x in columns["coef"]]),
            ("std err", 9, [f"{x:.3g}" for x in columns["std_err"]]),
            (ratio, 10, [f"{x:.2f}" if abs(x) < _LARGE else f"{x:.3g}" for x in columns[ratio]]),
            ("p", 6, [f"{x:.3f}" for x in columns["p_value"]]),
            (f"{coverage} from", 12, [f"{x:.4g}" for x in columns["lower"]]),
            ("to", 11, [f"{x:.4g}" for x in columns["upper"]]),
        ]
        lines = _align("", _NAME_WIDTH, [str(name) for name in columns["name"]], str.ljust)
        for kind in ("class", "target"):
            if kind in columns:
                cells = _align(kind, 0, [str(label) for label in columns[kind]], str.ljust)
                lines = [line + cell for line, cell in zip(lines, cells, strict=True)]
        for title, width, column in parts:
            cells = _align(title, width, column, str.rjust)
            lines = [line + cell for line, cell in zip(lines, cells, strict=True)]
        return "\n".join([self.headline, "", *lines])

    __repr__ = __str__


def _align(title: str, least: int, cells: list[str], justify: Any) -> list[str]:
    """Align the cells under their title; all get one width, which includes a space between columns."""
    width = max(least, 1 + max(map(len, [title, *cells])))
    return [justify(cell, width) for cell in [title, *cells]]


def summarize(
    headline: str,
    schema: Schema,
    coefficients: Array,
    errors: Array,
    intercepts: tuple[Array, Array] | None,
    coverage: float,
    outputs: tuple[str, Sequence[Any]] | None = None,
    degrees: Array | None = None,
) -> CoefficientSummary:
    """Make a table of the coefficients (k, d) of k outputs and their standard errors.

    `intercepts`, (k,) and their standard errors (k,), come first. `outputs` is "class" or "target", and the
    labels of the outputs. Intervals and p-values follow from the normal distribution, or, if `degrees` of
    freedom (k,) are given, from Student's t.
    """
    names = [str(schema.name(j)) for j in range(schema.width)]
    if intercepts is not None:
        names.insert(0, INTERCEPT)
        coefficients = np.column_stack([intercepts[0], coefficients])
        errors = np.column_stack([intercepts[1], errors])
    tests = assess_coefficients(coefficients, errors, coverage, degrees)
    columns: dict[str, tuple[Any, ...]] = {"name": tuple(names * len(coefficients))}
    if outputs is not None:
        columns[outputs[0]] = tuple(label for label in outputs[1] for _ in names)
    numbers = {
        "coef": coefficients,
        "std_err": errors,
        "z" if degrees is None else "t": tests.statistics,
        "p_value": tests.p_values,
        "lower": tests.lower,
        "upper": tests.upper,
    }
    columns |= {name: tuple(np.ravel(values).tolist()) for name, values in numbers.items()}
    return CoefficientSummary(headline, columns, float(coverage), schema.library)


# ── explanations ──


@dataclass(frozen=True, slots=True, eq=False)
class LinearExplanation(Contributions):
    """The prediction of each row as a sum over columns, on the scale of the linear predictor.

    For each row, `contributions` and `baseline` sum to `prediction`. The baseline is the prediction for a row
    of means, if the model has an intercept; a contribution is how far its column moves the prediction.
    """

    baseline: Array  # (n,)
    names: tuple[Any, ...]  # the names of the d columns

    @property
    def prediction(self) -> Array:
        """The prediction of each row (n,)."""
        return self.sum_columns() + self.baseline

    def top(self, row: int = 0, count: int = 10) -> list[tuple[Any, float]]:
        """Return the names and contributions of the columns that contribute most to a row, largest first."""
        return self.find_largest(row, count, self.names)


def explain_terms(
    terms: Array, baseline: Array, schema: Schema, X: object, table: Table
) -> LinearExplanation:
    """Make an explanation of contributions (n, d); they become a data frame if X is one."""
    names = tuple(schema.name(j) for j in range(schema.width))
    contributions: Any = terms
    if schema.names is not None and table.names is not None:
        library = type(X).__module__.partition(".")[0]
        contributions = make_frame(dict(zip(names, terms.T, strict=True)), library, like=X)
    return LinearExplanation(contributions, baseline, names)


# ── the regression ──


@dataclass(frozen=True, slots=True, eq=False)
class RegressionState(LinearState):
    """The statistic, and the posterior that was inferred from it when it was first needed."""

    model: BayesianLinear  # infers the posterior
    statistic: Gram
    targets_are_1d: bool  # whether targets had the shape (n,); then predictions have it, too
    cache: list[LinearPosterior] = field(default_factory=list)  # the posterior; empty until it is needed


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianLinearRegression(RegressorMixin, LinearFace[RegressionState]):  # type: ignore[misc]  # scikit-learn has no types
    """Bayesian linear regression: it estimates uncertainty, chooses its regularisation, and can forget rows.

    y = intercept + x·w + noise, with a normal prior on the coefficients w, a flat one on the intercept, and
    normal noise of precision β = 1/variance. A row of weight 2 counts as two equal rows. Several columns of
    targets share the sums of the rows; each has its own coefficients, noise and, with alpha="evidence", α.

    Parameters
    ----------
    alpha : float, array of one per column, or "evidence"
        Precision of the prior of the coefficients, whose mean is 0; 0 is a flat prior, as in least squares.
        "evidence" chooses the precision under which the targets are most probable; if the columns do not
        predict the targets, this would be infinite, and a large bound is chosen.
    beta : float or array of one per target, "unknown" or "evidence"
        Precision of the noise. "unknown" integrates it out and predicts by a Student t; the prior of the
        variance σ² = 1/β is an inverse gamma, and that of the coefficients is N(0, σ²/α). "evidence" chooses
        one number; for a perfect fit, σ² has its lower bound, which is 1e-12 of the targets' variance.
    prior : tuple, optional
        Mean and covariance (d, d), or variances (d,), of the coefficients, in place of `alpha`.
    noise_shape, noise_scale : float
        Parameters of the inverse gamma prior, for beta="unknown". With 0 and 0 the prior is improper, and
        there is no log-evidence.
    fit_intercept : bool
    exact : whether sums of products are exact to the bit, which takes several times as long

    Notes
    -----
    With alpha=0, coefficients are those of least squares. With beta="evidence", `coef_std_` are then their
    usual standard errors. With beta="unknown", `coef_interval` returns their usual t intervals (n − d − 1
    degrees of freedom), and `coef_std_` is the standard deviation of the t distribution, a little larger.

    Examples
    --------
    >>> import tamis
    >>> model = tamis.BayesianLinearRegression(alpha=0.1, beta=4.0).fit([[0], [1], [2], [3]], [1, 3, 5, 7])
    >>> low, high = model.predict_interval([[4]])
    >>> model.predict([[4]]).round(2).tolist(), low.round(2).tolist(), high.round(2).tolist()
    ([8.98], [7.68], [10.27])
    """

    alpha: Any = "evidence"
    beta: Any = "evidence"
    prior: tuple[ArrayLike, ArrayLike] | None = None
    noise_shape: float = 0.0
    noise_scale: float = 0.0
    fit_intercept: bool = True
    exact: bool = False

    def _make_model(self, schema: Schema) -> BayesianLinear:
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

    # ── learning ──

    def learn_sums(self, shards: DatabaseShards) -> None:
        """Learn from sums that a database computes; raise UnsupportedSumsError if `exact` is set."""
        if self.exact:
            raise UnsupportedSumsError("exact=True asks for products that are not rounded")
        schema, gram = shards.sum_normal_equations()
        model = self._make_model(schema)
        model.refuse_invalid_parameters(schema.width, gram.targets)
        self.state_ = RegressionState(schema, model, gram, targets_are_1d=True)

    @with_sklearn_callbacks
    @with_shards
    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn from rows and their targets, (n,) or (n, q)."""
        table, schema = read_first_table(X, self._accepts_sparse)
        model = self._make_model(schema)
        state = RegressionState(schema, model, *self._observe(table, y, sample_weight))
        state.cache.append(model.infer(state.statistic))
        self.state_ = state
        return self

    @with_shards
    def partial_fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn more rows; the model is as if all rows had been learned at once."""
        table, schema = self._read(X)
        part, targets_are_1d = self._observe(table, y, sample_weight)
        before = self._get_state_or_none()
        if before is not None:
            self.state_ = self._with_statistic(before, before.statistic + _check_targets(part, before))
            return self
        model = self._make_model(schema)
        model.refuse_invalid_parameters(schema.width, part.targets)
        self.state_ = RegressionState(schema, model, part, targets_are_1d)
        return self

    def unlearn(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Forget rows, with their targets and weights; the model is as if they had never been learned."""
        state = self.state_
        part, _ = self._observe(self._read(X)[0], y, sample_weight)
        rest = state.statistic - _check_targets(part, state)
        rest.refuse_impossible()  # raises if no rows could have these sums
        rest.refuse_lost_precision(bool(self.fit_intercept), state.schema.names)
        refuse_to_forget_all(float(rest.weight.value))
        self.state_ = self._with_statistic(state, rest)
        return self

    def merge(self, *others: Self) -> Self:
        """Add what other models of the same columns have learned."""
        state, *rest = self._list_states_to_merge(others)
        statistic = state.statistic
        for other in rest:
            statistic = statistic + _check_targets(other.statistic, state)
        self.state_ = self._with_statistic(state, statistic)
        return self

    def decay(self, factor: float) -> Self:
        """Multiply the weight of everything learned so far by `factor`."""
        state = self.state_
        self.state_ = self._with_statistic(state, state.statistic * check_decay_factor(factor))
        return self

    def infer(self, **params: Any) -> Self:
        """Set parameters and infer again from what was learned, without reading data again."""
        state = self.state_
        with self._set_params_or_roll_back(params):
            model = self._make_model(state.schema)
            posterior = model.infer(state.statistic)
        self.state_ = replace(state, model=model, cache=[posterior])
        return self

    def _with_statistic(self, state: RegressionState, statistic: Gram) -> RegressionState:
        """Return the state with another statistic, and a model with the present parameters."""
        model = self._make_model(state.schema)
        model.refuse_invalid_parameters(state.schema.width, statistic.targets)
        return RegressionState(state.schema, model, statistic, state.targets_are_1d)

    def _observe(self, table: Table, y: object, sample_weight: object) -> tuple[Gram, bool]:
        """Return the sums of the rows, and whether y had one dimension."""
        targets, weights = read_targets(y, table.rows), read_weights(sample_weight, table.rows)
        rows = arrays.Matrix(table.numbers(), table.names)
        return Gram.observe(rows, targets, weights, exact=bool(self.exact)), targets.ndim == 1

    def _get_posterior(self, attribute: str = "") -> LinearPosterior:
        """Return the posterior, inferred when first needed; an error names the `attribute` that was read."""
        state = self._require_state(attribute)
        if not state.cache:
            try:
                state.cache.append(state.model.infer(state.statistic))
            except ValueError as problem:
                if not attribute:
                    raise
                raise AttributeError(f"no {attribute}: {problem}") from None
        return state.cache[0]

    def _drop_target_axis(self, values: Array, axis: int = -1) -> Array:
        """Drop the axis of targets, if y had one dimension."""
        return np.asarray(np.take(values, 0, axis=axis) if self.state_.targets_are_1d else values)

    def _to_number_or_array(self, values: Array) -> Any:
        """Return the values, one per target, or the only one as a number if y had one dimension."""
        return float(values[0]) if self.state_.targets_are_1d else values

    # ── predictions ──

    def predict(self, X: object, return_std: bool = False) -> Any:
        """Return means (n,) or (n, q); with `return_std` also standard deviations, noise included."""
        posterior, rows = self._get_posterior(), self._read_dense_rows(X)
        mean = self._drop_target_axis(posterior.predict(rows))
        if not return_std:
            return mean
        # `deviation` converts variances in units of the noise, whose own is 1, to standard deviations.
        return mean, self._drop_target_axis(posterior.deviation(1.0 + posterior.leverage(rows)))

    def predict_interval(self, X: object, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return both ends of the interval that holds a new target with this probability, (n,) or (n, q)."""
        return self.predict_distribution(X).interval(coverage)

    def predict_distribution(self, X: object) -> Univariate:
        """Return the distribution of each row's target: `Normal`, or `StudentT` for beta="unknown"."""
        return self._get_posterior().distribution(
            self._read_dense_rows(X), 0 if self.state_.targets_are_1d else slice(None)
        )

    def sample_functions(self, X: object, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw functions from the posterior, without noise: (n_samples, n) or (n_samples, n, q)."""
        posterior, rows = self._get_posterior(), self._read_dense_rows(X)
        coefficients, levels = posterior.draw(make_generator(random_state), check_sample_count(n_samples))
        functions = levels[:, None] + (rows - posterior.centre) @ np.swapaxes(coefficients, -1, -2)
        return self._drop_target_axis(functions)

    def sample_coefficients(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw coefficients from the posterior, (n_samples, d) or (n_samples, q, d)."""
        coefficients, _ = self._get_posterior().draw(
            make_generator(random_state), check_sample_count(n_samples)
        )
        return self._drop_target_axis(coefficients, axis=1)

    def coef_interval(self, coverage: float = 0.95) -> tuple[Array, Array]:
        """Return both ends of the interval that holds each coefficient with this probability.

        Their shape is (d,) or (q, d).
        """
        low, high = self._get_posterior().marginals().interval(coverage)
        return self._drop_target_axis(low.T, axis=0), self._drop_target_axis(high.T, axis=0)

    def summary(self, coverage: float = 0.95) -> CoefficientSummary:
        """Return a table of coefficients, standard errors, z or t, p-values and intervals.

        Print it, or call its `to_frame`. With beta="unknown" it has t instead of z, and the standard errors
        are the scales of t distributions.
        """
        posterior, state = self._get_posterior(), self.state_
        weight = float(state.statistic.weight.value)
        return _summarize_posterior(posterior, state.schema, state.model.intercept, weight, coverage)

    def explain(self, X: object, target: int = 0) -> LinearExplanation:
        """Compute how far each column moves the prediction of a target; see `LinearExplanation`."""
        posterior, schema = self._get_posterior(), self.state_.schema
        index: object = target
        if not isinstance(index, int | np.integer) or not 0 <= index < len(posterior.level):
            raise ValueError(f"got target={target!r}, expected 0 to {len(posterior.level) - 1}")
        table = self._read_next_table(X)
        terms = (read_numbers(table) - posterior.centre) * posterior.mean[target]
        return explain_terms(terms, np.full(len(terms), posterior.level[target]), schema, X, table)

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
        """Predict each row by a model that was fitted without its fold; this takes one pass over the rows.

        `folds` is a number, the fold of each row, or "leave-one-out"; the rows of a group are in one fold. If
        α or β are chosen by evidence, they are chosen again for each fold, but not for leave-one-out. The
        result has no rows of weight zero.
        """
        table, schema = read_first_table(X, self._accepts_sparse)
        targets, weights = read_targets(y, table.rows), read_weights(sample_weight, table.rows)
        model, rows = self._make_model(schema), read_numbers(table)
        indices = None if weights is None or weights.all() else np.flatnonzero(weights)
        fold = assign_folds(folds, groups, len(rows), indices, random_state)
        if weights is not None and indices is not None:
            rows, targets, weights = rows[indices], targets[indices], weights[indices]
        if fold is None:
            return leave_one_out(model, rows, targets, weights)
        return cross_validate(model, rows, targets, fold, weights)

    # ── what was learned ──

    @property
    def statistic_(self) -> Gram:
        """The sums of products of all rows that were learned."""
        return self.state_.statistic

    @property
    def coef_(self) -> Array:
        """The mean of the coefficients, (d,) or (q, d)."""
        return self._drop_target_axis(self._get_posterior("coef_").mean, axis=0)

    @property
    def coef_std_(self) -> Array:
        """The standard deviation of each coefficient, (d,) or (q, d)."""
        posterior = self._get_posterior("coef_std_")
        return self._drop_target_axis(posterior.deviation(posterior.variances.T).T, axis=0)

    @property
    def coef_covariance_(self) -> Array:
        """The covariance of the coefficients, (d, d) or (q, d, d)."""
        return self._drop_target_axis(self._get_posterior("coef_covariance_").covariance, axis=0)

    @property
    def intercept_(self) -> Any:
        """The prediction for a row of zeros; 0 without an intercept."""
        return self._to_number_or_array(self._get_posterior("intercept_").intercept)

    @property
    def intercept_std_(self) -> Any:
        """The standard deviation of the intercept."""
        posterior = self._get_posterior("intercept_std_")
        std = posterior.deviation(posterior.leverage(np.zeros((1, len(posterior.centre)))))[0]
        has_intercept = self.state_.model.intercept
        return self._to_number_or_array(std if has_intercept else np.zeros_like(std))

    @property
    def alpha_(self) -> Any:
        """The precision of the coefficients: that chosen by evidence, one per target, or as given."""
        alpha = self._get_posterior("alpha_").alpha
        if alpha is None:
            raise AttributeError("alpha_ is not known: a prior was given in its place")
        if isinstance(self.state_.model.alpha, str):
            return self._to_number_or_array(alpha)
        return alpha if alpha.ndim else float(alpha)

    @property
    def beta_(self) -> Any:
        """The precision of the noise; its posterior mean, for beta="unknown"."""
        return self._to_number_or_array(self._get_posterior("beta_").beta)

    @property
    def noise_std_(self) -> Any:
        """The standard deviation of the noise, 1/√β."""
        return self._to_number_or_array(1.0 / np.sqrt(self._get_posterior("noise_std_").beta))

    @property
    def n_effective_(self) -> Any:
        """The effective number of coefficients, γ, plus 1 for the intercept."""
        effective = self._get_posterior("n_effective_").effective
        return self._to_number_or_array(effective + self.state_.model.intercept)

    @property
    def log_evidence_(self) -> Any:
        """log p(targets | rows), parameters integrated out: one number per target.

        The flat prior of the intercept counts as a density of 1, so that models can be compared only if both
        have an intercept, or neither.
        """
        log_evidence = self._get_posterior("log_evidence_").log_evidence
        if log_evidence is None:
            raise AttributeError(
                "log_evidence_ is not defined for a prior that does not integrate to one: give alpha above "
                "0, and with beta='unknown' noise_shape and noise_scale above 0"
            )
        return self._to_number_or_array(log_evidence)

    def describe_state(self) -> dict[str, Any]:
        state, schema = self.state_, self.state_.schema
        return {
            "schema": schema.to_tuple(),
            "statistic": state.statistic,
            "flat": state.targets_are_1d,  # its name in files
            "inferred_with": {name: getattr(state.model, name) for name in _INFERRED_WITH},
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        schema, statistic = Schema(*state["schema"]), state["statistic"]
        if not isinstance(statistic, Gram) or statistic.width != schema.width or statistic.keys is not None:
            raise TypeError("its statistic is of other columns")
        model = replace(self._make_model(schema), **state.get("inferred_with", {}))
        self.state_ = RegressionState(schema, model, statistic, bool(state["flat"]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _check_targets(part: Gram, state: RegressionState) -> Gram:
    """Return the sums; raise unless they have as many targets as the learned ones."""
    learned = state.statistic.targets
    if part.targets != learned:
        raise ValueError(f"got {part.targets} targets per row, expected {learned}, as in the rows so far")
    return part


def _summarize_posterior(
    posterior: LinearPosterior, schema: Schema, intercept: bool, weight: float, coverage: float
) -> CoefficientSummary:
    """Make a table of the coefficients; if the noise is unknown, by Student's t instead of the normal."""
    count = len(posterior.level)
    errors = np.sqrt(posterior.variances / posterior.beta[:, None])
    leverage = posterior.leverage(np.zeros((1, len(posterior.centre))))[0]  # of a row of zeros
    intercepts = (posterior.intercept, np.sqrt(leverage / posterior.beta)) if intercept else None
    outputs = ("target", range(count)) if count > 1 else None
    degrees = None if posterior.noise is None else 2.0 * posterior.noise.shape
    headline = f"linear regression: {weight:g} rows"
    if count > 1:
        headline += f", {count} targets"
    else:
        headline += f"\nstandard deviation of the noise {1.0 / np.sqrt(posterior.beta[0]):.4g}"
        if posterior.log_evidence is not None:
            headline += f", log-evidence {posterior.log_evidence[0]:.6g}"
    return summarize(headline, schema, posterior.mean, errors, intercepts, coverage, outputs, degrees)
