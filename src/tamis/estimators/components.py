"""Principal component analysis (PCA) from sums of products, which can be merged and subtracted.

Rounding errors of these sums do not grow with the columns' means.
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import update_wrapper
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from tamis.arrays import Array, Matrix
from tamis.engines import DatabaseShards, UnsupportedSumsError
from tamis.estimators.base import TableFace, refuse_to_forget_all, with_sklearn_callbacks
from tamis.estimators.linear import LinearExplanation, explain_terms
from tamis.estimators.reading import check_sample_count, make_generator, read_folds
from tamis.estimators.sharded import with_shards
from tamis.inputs import read_first_table, read_numbers, read_weights
from tamis.models.components import (
    Components,
    Gaps,
    HeldOutRows,
    PrincipalComponents,
    choose_solver,
    cross_validate,
    decompose_randomized,
    decompose_rows,
    dense_blocks,
    fit_gaps,
    fold_by_content,
    has_gaps,
    impute,
    log_densities_with_gaps,
    refuse_few_rows,
    refuse_gaps,
    refuse_lost_precision,
    refuse_unknown_solver,
    to_integer,
)
from tamis.parameters import check_decay_factor, check_integer, check_nonnegative
from tamis.schema import Schema
from tamis.stats import Moments
from tamis.tables import Table, make_frame
from tamis.warning import warn

# What to do about rows with gaps (missing values), in error messages.
_DROP = "drop or fill those rows"
_FILL = f"{_DROP}, or set missing='em'"
_AT_ONCE = "rows with gaps are imputed together, so pass all rows to fit at once"


@dataclass(frozen=True, slots=True, eq=False)
class ComponentsState:
    """All that a PCA has learned: the statistic, and the components inferred from it or from the rows."""

    schema: Schema
    statistic: Moments | None  # one per fold if n_components="held-out"; None unless solver is "moments"
    solver: str = "moments"
    log_likelihoods: tuple[float, ...] = ()  # the log-likelihood at each step of EM, if there were gaps
    components: Components | None = None  # None until they are first needed

    is_empty: ClassVar[bool] = False  # see `State.is_empty`: this state is made only when rows are learned

    def require_statistic(self, purpose: str) -> Moments:
        """Return the statistic, which may be by fold; raise if the solver kept none.

        `purpose` is a verb for the message: what the statistic is needed for.
        """
        if self.statistic is None:
            raise ValueError(
                f"this PCA was fitted with solver={self.solver!r}, which keeps no statistic to {purpose}, "
                "expected solver='moments': set it and fit again"
            )
        return self.statistic

    @property
    def pooled_statistic(self) -> Moments:
        """The statistic of all rows together, not by fold."""
        statistic = self.require_statistic("show")
        return statistic if statistic.keys is None else statistic.pooled()


class RequiresStatistic:
    """A decorator of a method that is hidden (`hasattr` is False) if `solver` is "rows" or "randomized".

    With "auto" it exists, and raises an error if a solver was chosen that keeps no statistic.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:  # read from the class, as scikit-learn does for signatures
            return self._method
        if face.solver in ("rows", "randomized"):
            raise AttributeError(
                f"PCA(solver={face.solver!r}) has no {self._method.__name__}, because it keeps no statistic: "
                "set solver='moments'"
            )
        return self._method.__get__(face, owner)


@dataclass(eq=False, repr=False)
class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TableFace[ComponentsState]):  # type: ignore[misc]
    """Principal components, and the Gaussian of probabilistic PCA, with scikit-learn's names and signs.

    The statistic has the sum of each column, and for each pair of columns the sum of their product.
    Components are those of a singular value decomposition of the centred rows, whatever the mean. A variance
    of less than 1e-13 of the largest is lost in the rounding of the products, and is 0 here. Only a column
    whose numbers are all small, because of its unit of measurement, keeps such a variance. A row of weight 2
    counts as two equal rows.

    Parameters
    ----------
    n_components : int, float, "mle", "held-out" or None
        How many components to keep: an int is their number; a float keeps the fewest that explain more than
        this fraction of the variance; "mle" the number with the largest evidence (Minka's MLE); "held-out"
        the number with the largest density of held-out rows in five-fold cross-validation, which needs no
        further pass over the data (a hash of a row's values decides its fold); None keeps all. Directions
        without variance are never kept.
    whiten : whether transformed rows are scaled to unit variance; components without variance are not scaled
    solver : "auto", "moments", "rows" or "randomized"
        "moments" keeps the statistic. The other solvers keep none, so that `partial_fit`, `merge`, `unlearn`,
        `decay` and `infer` raise an error. "rows" decomposes the products of rows with each other, for fewer
        rows than columns; "randomized" is for many rows, many columns and few components, and bounds its
        error in `error_bound_`. "auto" takes "moments" for up to 2,000 columns, and beyond that chooses by
        the numbers of rows and columns.
    missing : "refuse" or "em"
        "refuse" raises an error if a value is NaN; "em" imputes these values from the others of their row by
        the EM algorithm.
    tol, max_iter : EM ends when a step adds at most `tol` to the mean log-likelihood of a row, or after
        `max_iter` steps
    exact : whether sums of products are exact to the bit, which takes several times as long
    random_state : seed or generator of the random numbers for the randomized solver
    verbose : whether to draw a progress bar during EM

    Notes
    -----
    Variances are divided by the total weight minus one, as in scikit-learn. `noise_variance_` is the mean
    over all d − k other directions, for k components; scikit-learn counts at most as many directions as rows,
    which differs only with fewer rows than columns. The covariance does not depend on `whiten`.

    Examples
    --------
    >>> import tamis
    >>> model = tamis.PCA(1).fit([[0, 0], [1, 2], [2, 4.5]])
    >>> model.components_.round(2).tolist(), model.explained_variance_ratio_.round(3).tolist()
    ([[0.4, 0.91]], [0.999])
    >>> model.partial_fit([[3, 6]]).unlearn([[3, 6]]).transform([[2, 4.5]]).round(2).tolist()
    [[2.54]]
    """

    n_components: Any = None
    _: KW_ONLY
    whiten: bool = False
    solver: str = "auto"
    missing: str = "refuse"
    tol: float = 1e-6
    max_iter: int = 1000
    exact: bool = False
    random_state: Any = None
    verbose: bool = False

    @property
    def _accepts_sparse(self) -> bool:
        return True

    @property
    def _takes_missing(self) -> bool:
        return bool(self.missing == "em")

    @property
    def _by_fold(self) -> bool:
        return isinstance(self.n_components, str) and self.n_components == "held-out"

    def _make_model(self) -> PrincipalComponents:
        return PrincipalComponents(self.n_components, bool(self.exact))

    def _check_parameters(self) -> None:
        refuse_unknown_solver(self.solver)
        if self.missing not in ("refuse", "em"):
            raise ValueError(f"got missing={self.missing!r}, expected 'refuse' or 'em'")
        check_integer("max_iter", self.max_iter)
        check_nonnegative("tol", self.tol)

    # ── learning ──

    def learn_sums(self, shards: DatabaseShards) -> None:
        """Learn from sums that a database computes; raise UnsupportedSumsError if the rows are needed."""
        self._check_parameters()
        options = {
            "exact=True": self.exact,
            "missing='em'": self.missing == "em",
            "'held-out'": self._by_fold,
        }
        if reasons := [option for option, is_set in options.items() if is_set]:
            raise UnsupportedSumsError(f"{reasons[0]} needs the rows")
        schema, rows, statistic = shards.sum_products()
        solver = choose_solver(self.solver, rows, schema.width, self.n_components)
        if solver != "moments":
            raise UnsupportedSumsError(f"solver={solver!r} needs the rows")
        self.state_ = ComponentsState(schema, statistic)

    @with_sklearn_callbacks
    @with_shards
    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn from rows; `y` is ignored."""
        self._check_parameters()
        table, schema = read_first_table(X)
        weights = read_weights(sample_weight, table.rows)
        solver = choose_solver(self.solver, table.rows, table.width, self.n_components)
        if self.missing == "em" and has_gaps(table):
            state = self._fit_gaps(table, schema, weights, X)
        elif solver == "moments":
            weight = float(table.rows if weights is None else weights.sum())
            refuse_few_rows(self.n_components, weight, table.width)
            state = ComponentsState(schema, self._observe(table, weights, self._by_fold))
        else:
            refuse_gaps(table, _FILL)
            components = self._decompose(solver, table, weights)
            state = ComponentsState(schema, None, solver, components=components)
        if state.statistic is not None:
            state = replace(state, components=self._make_model().infer(state.statistic))
        self.state_ = state
        return self

    def _decompose(self, solver: str, table: Table, weights: Array | None) -> Components:
        if solver == "rows":
            fold = fold_by_content(table) if self._by_fold else None
            return decompose_rows(table, self.n_components, weights, fold)
        return decompose_randomized(table, self.n_components, weights, make_generator(self.random_state))

    def _fit_gaps(self, table: Table, schema: Schema, weights: Array | None, X: object) -> ComponentsState:
        if table.sparse is not None or self.solver in ("rows", "randomized"):
            how = "that are sparse" if table.sparse is not None else f"and solver={self.solver!r}"
            raise ValueError(
                f"got rows with gaps {how}, expected dense rows and solver='moments' for EM: {_DROP}"
            )
        gaps, max_iter = Gaps.of(table.numbers(), weights, bool(self.exact)), int(self.max_iter)
        with self._report_progress(max_steps=max_iter, X=X) as report_step:
            fit = fit_gaps(gaps, self.n_components, float(self.tol), max_iter, report_step)
        if not fit.converged:
            warn(f"EM did not converge in {max_iter} steps: raise max_iter, or tol", ConvergenceWarning)
        return ComponentsState(schema, fit.statistic, log_likelihoods=fit.log_likelihoods)

    @RequiresStatistic
    @with_shards
    def partial_fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn more rows; the model is as if all rows had been learned at once.

        Values that were imputed before do not change.
        """
        self._check_parameters()
        state: ComponentsState | None = self._get_state_or_none()
        if state is not None:
            state.require_statistic("add to")
            self._change_statistic(
                lambda statistic, part: statistic + part, self._read_next_table(X), sample_weight
            )
            return self
        table, schema = read_first_table(X)
        # Rows that come in parts need "moments", whatever `solver` says; this raises for too many columns.
        solver = choose_solver("moments", table.rows, table.width, count=None)
        weights = read_weights(sample_weight, table.rows)
        self.state_ = ComponentsState(schema, self._observe(table, weights, self._by_fold), solver)
        return self

    def unlearn(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Forget rows that were learned, with their weights, as if they had never been learned.

        Without `exact`, products are rounded if many rows are learned at once, except those of outliers,
        which are summed exactly. Therefore an error is raised if less than 1e-10 of a column's sum of
        rounded squares would be left.
        """
        self.state_.require_statistic("take from")
        self._change_statistic(
            lambda statistic, part: statistic - part, self._read_next_table(X), sample_weight
        )
        return self

    def _change_statistic(
        self, change: Callable[[Moments, Moments], Moments], table: Table, sample_weight: object
    ) -> None:
        state: ComponentsState = self.state_
        statistic = state.require_statistic("change")
        part = self._observe(table, read_weights(sample_weight, table.rows), statistic.keys is not None)
        after = change(statistic, part)
        refuse_lost_precision(after, table)
        refuse_to_forget_all(float(after.weight.value.sum()))
        self.state_ = replace(state, statistic=after, components=None)

    def merge(self, *others: Self) -> Self:
        """Add what other models of the same columns have learned."""
        state: ComponentsState
        state, *rest = self._list_states_to_merge(others)
        statistic = state.require_statistic("add to")
        for other in rest:
            theirs = other.require_statistic("add")
            if (theirs.keys is None) != (statistic.keys is None):
                raise ValueError(
                    "one model learned with n_components='held-out' and one without, expected both or neither"
                )
            statistic = statistic + theirs
        self.state_ = replace(state, statistic=statistic, components=None)
        return self

    def decay(self, factor: float) -> Self:
        """Multiply the weight of everything learned so far by `factor`."""
        state: ComponentsState = self.state_
        statistic = state.require_statistic("scale") * check_decay_factor(factor)
        self.state_ = replace(state, statistic=statistic, components=None)
        return self

    def infer(self, **params: Any) -> Self:
        """Set parameters and infer again from what was learned, without reading data again."""
        state: ComponentsState = self.state_
        statistic = state.require_statistic("infer from")
        with self._set_params_or_roll_back(params):
            self._check_parameters()
            self.state_ = replace(state, components=self._make_model().infer(statistic))
        return self

    def _observe(self, table: Table, weights: Array | None, by_fold: bool) -> Moments:
        fold = fold_by_content(table) if by_fold else None
        try:
            return self._make_model().observe(table, weights=weights, fold=fold)
        except ValueError:  # if the rows have gaps, raise an error that says what to do
            refuse_gaps(table, _FILL if self.missing != "em" else _AT_ONCE)
            raise

    def _get_components(self, attribute: str = "") -> Components:
        """Return the components, inferred when first needed; an error names the `attribute` that was read."""
        state: ComponentsState = self._require_state(attribute)
        if state.components is not None:
            return state.components
        try:
            components = self._make_model().infer(state.require_statistic("infer from"))
        except ValueError as problem:
            if attribute:  # `hasattr` is False only if it catches an AttributeError
                raise AttributeError(f"no {attribute}: {problem}") from None
            raise
        self.state_ = replace(state, components=components)
        return components

    # ── projections and densities ──

    def _read_runs(self, table: Table) -> Iterator[Array]:
        """Yield dense rows: all at once or, if they were sparse, run by run; raise for NaN without EM."""
        for rows in dense_blocks(table):
            if self.missing == "em":
                if (is_infinite := np.isinf(rows)).any():
                    first_column = int(is_infinite.any(axis=0).argmax())
                    Matrix(rows, table.names).refuse_nonfinite(first_column)
                yield rows
                continue
            try:
                yield read_numbers(Table(rows, len(rows), "number", table.names))
            except ValueError:
                refuse_gaps(table, _FILL)
                raise

    def _impute_runs(self, table: Table) -> Iterator[Array]:
        """Yield the arrays of `_read_runs` with missing values imputed."""
        components = self._get_components()
        for rows in self._read_runs(table):
            has_gaps_here = self.missing == "em" and np.isnan(rows).any()
            yield impute(rows, components) if has_gaps_here else rows

    def transform(self, X: object) -> Array:
        """Project rows on the components (n, n_components); gaps are replaced by their expectation."""
        components = self._get_components()
        codes = np.concatenate(
            [components.codes(rows) for rows in self._impute_runs(self._read_next_table(X))]
        )
        # `scale` has the standard deviation along each component.
        return np.asarray(codes / components.scale if self.whiten else codes)

    def fit_transform(self, X: object, y: object = None, sample_weight: object = None) -> Any:
        """Learn from rows and return their projections."""
        return self.fit(X, y, sample_weight=sample_weight).transform(X)

    def inverse_transform(self, X: object) -> Array:
        """Reconstruct rows (n, d) from their projections."""
        components, codes = self._get_components(), read_numbers(Table.of(X))
        if codes.shape[1] != components.count:
            raise ValueError(
                f"got projections of {codes.shape[1]} columns, expected {components.count}, one per component"
            )
        return components.reconstruct(codes * components.scale if self.whiten else codes)

    def score_samples(self, X: object) -> Array:
        """Return log p of each row under probabilistic PCA (n,); missing values are integrated out."""
        components = self._get_components()
        return np.concatenate(
            [
                log_densities_with_gaps(rows, components)
                if self.missing == "em"
                else components.log_densities(rows)
                for rows in self._read_runs(self._read_next_table(X))
            ]
        )

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the mean of `score_samples`."""
        densities = self.score_samples(X)
        return float(np.average(densities, weights=read_weights(sample_weight, len(densities))))

    def log_likelihood(self, statistic: Moments | None = None) -> float:
        """Compute Σ w log p(x) of the rows that were learned, or of those that another statistic sums."""
        state: ComponentsState = self.state_
        if statistic is None and state.log_likelihoods:
            raise ValueError(
                "the sums hold values that EM imputed, expected a statistic of rows without gaps: see "
                "log_likelihoods_ for EM's steps, or sum score_samples of the rows"
            )
        statistic = state.pooled_statistic if statistic is None else statistic
        return self._get_components().log_likelihood(
            statistic if statistic.keys is None else statistic.pooled()
        )

    def get_covariance(self) -> Array:
        """Return the covariance of probabilistic PCA (d, d)."""
        return self._get_components().covariance()

    def get_precision(self) -> Array:
        """Return the inverse of the covariance (d, d)."""
        return self._get_components().precision()

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw rows from probabilistic PCA (n, d); they are a frame if the model was fitted to one."""
        rows = self._get_components().draw(make_generator(random_state), check_sample_count(n_samples))
        schema: Schema = self.state_.schema
        if schema.library is None or schema.names is None:
            return rows
        return make_frame(dict(zip(schema.names, rows.T, strict=True)), schema.library)

    def explain(self, X: object, component: int | None = None) -> LinearExplanation:
        """Compute each column's contribution to a row's projection on a component.

        Without `component`, it is the contribution to the row's squared reconstruction error.
        """
        components, table = self._get_components(), self._read_next_table(X)
        rows = np.concatenate(list(self._impute_runs(table)))
        if component is None:
            terms = np.square(components.residuals(rows))
        else:
            if (k := to_integer(component)) is None or not 0 <= k < components.count:
                raise ValueError(f"got component={component!r}, expected 0 to {components.count - 1}")
            terms = (rows - components.mean) * (
                components.directions[k] / (components.scale[k] if self.whiten else 1.0)
            )
        no_baseline = np.zeros(len(terms))  # the contributions alone add up to what is explained
        return explain_terms(terms, no_baseline, self.state_.schema, X, table)

    def cross_validate(
        self,
        X: object,
        folds: int | str | ArrayLike = 5,
        *,
        sample_weight: object = None,
        groups: object = None,
        random_state: Any = None,
    ) -> HeldOutRows:
        """Compute log-density and reconstruction error of each row by a model fitted without its fold.

        `folds` is a number, the fold of each row, or "leave-one-out"; the rows of a group are in one fold.
        This takes one pass over the rows.
        """
        table, _ = read_first_table(X)
        refuse_gaps(table, _DROP)
        fold = read_folds(folds, table.rows, class_index=None, groups=groups, random_state=random_state)
        fold = np.arange(table.rows) if fold is None else fold  # leave-one-out: each row is a fold
        return cross_validate(self._make_model(), table, fold, read_weights(sample_weight, table.rows))

    # ── attributes ──

    @property
    def statistic_(self) -> Moments:
        """The moments of all rows, if the solver keeps them."""
        state = self.state_
        if state.statistic is None:
            raise AttributeError(f"no statistic_: solver={state.solver!r} keeps none, 'moments' does")
        return state.pooled_statistic

    @property
    def solver_(self) -> str:
        """The solver that was used."""
        return self.state_.solver

    @property
    def components_(self) -> Array:
        """The directions of largest variance (n_components, d), in descending order.

        Their signs make the entry of largest magnitude positive.
        """
        return self._get_components("components_").directions

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return self._get_components("n_components_").count

    @property
    def _n_features_out(self) -> int:
        return self._get_components().count

    @property
    def explained_variance_(self) -> Array:
        """The variance along each component (n_components,), divided by the total weight minus one."""
        return self._get_components("explained_variance_").variances

    @property
    def explained_variance_ratio_(self) -> Array:
        """The variance of each component divided by the total variance; 0 if nothing varies."""
        return self._get_components("explained_variance_ratio_").ratios

    @property
    def singular_values_(self) -> Array:
        """The singular values of the centred rows (n_components,)."""
        components = self._get_components("singular_values_")
        return np.asarray(np.sqrt(components.variances * components.freedom))

    @property
    def noise_variance_(self) -> float:
        """The mean variance along the directions that are not kept; 0 if all are kept."""
        return self._get_components("noise_variance_").noise

    @property
    def mean_(self) -> Array:
        """The mean of each column (d,)."""
        return self._get_components("mean_").mean

    @property
    def n_samples_(self) -> float:
        """The total weight: the number of rows, if they had no weights."""
        weight = self._get_components("n_samples_").weight
        return int(weight) if weight.is_integer() else weight

    @property
    def n_samples_seen_(self) -> float:
        """The same as `n_samples_`, as scikit-learn's IncrementalPCA names it."""
        return self.n_samples_

    @property
    def n_iter_(self) -> int:
        """The steps of EM; 1 if there were no gaps."""
        return max(1, len(self.state_.log_likelihoods))

    @property
    def log_likelihoods_(self) -> Array:
        """The log-likelihood of the observed values before each step of EM (n_iter_,).

        A step lowers it only by rounding errors.
        """
        likelihoods = self.state_.log_likelihoods
        if not likelihoods:
            raise AttributeError("no log_likelihoods_: there were no gaps to be imputed by EM")
        return np.array(likelihoods)

    @property
    def count_scores_(self) -> Array:
        """The score of 1, 2, … components: Minka's log-evidence, or the mean log-density of held-out rows."""
        scores = self._get_components("count_scores_").scores
        if scores is None:
            raise AttributeError("no count_scores_: n_components was not 'mle' or 'held-out'")
        return scores

    @property
    def error_bound_(self) -> float:
        """For the randomized solver, a bound on the largest singular value of the centred rows' residuals.

        It holds with probability 1 − 10⁻¹⁰. With k exact components, the largest singular value of the
        residuals is that of number k + 1 of the centred rows, so that no bound can be smaller. The other
        solvers find the exact components (up to rounding); for them it is 0, and says nothing about
        residuals.
        """
        return self._get_components("error_bound_").error

    # ── the file ──

    def describe_state(self) -> dict[str, Any]:
        state: ComponentsState = self.state_
        components, saved = state.components, None
        # Components are saved, because parameters may have changed since they were inferred.
        if components is not None:
            saved = {name: getattr(components, name) for name in ("mean", "directions", "variances")}
            noise_and_total = (components.noise, components.total)  # `total`: the sum of all variances
            numbers = (*noise_and_total, components.weight, components.freedom, components.error)
            saved |= {"numbers": numbers, "scores": components.scores}
        return {
            "schema": state.schema.to_tuple(),
            "statistic": state.statistic,
            "solver": state.solver,
            "likelihoods": np.array(state.log_likelihoods, dtype=np.float64),
            "components": saved,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        schema, statistic, saved = Schema(*state["schema"]), state["statistic"], state["components"]
        widths, components = [], None  # the numbers of columns that the parts of the state have
        # The caller, `tamis.load`, adds the name of the file to these errors.
        if statistic is not None or saved is None:
            # The form "full" has the products of all pairs of columns.
            if not isinstance(statistic, Moments) or statistic.form != "full":
                raise TypeError("no statistic")
            widths.append(statistic.first.shape[-1])
        if saved is not None:
            noise, total, weight, freedom, error = saved["numbers"]
            mean, directions, variances = saved["mean"], saved["directions"], saved["variances"]
            is_consistent = directions.shape == (len(variances), len(mean))
            widths.append(len(mean) if is_consistent else -1)  # −1 is refused below, as another width
            sizes = (noise, total, weight, freedom)
            components = Components(mean, directions, variances, *sizes, saved.get("scores"), error)
        rounded = state.get("rounded", 0.0)  # older versions wrote it here, newer ones into the statistic
        if any(width != schema.width for width in widths) or np.shape(rounded) not in ((), (schema.width,)):
            raise TypeError("its arrays have another number of columns than its schema")
        if statistic is not None and np.shape(rounded):
            folds = 1 if statistic.keys is None else len(statistic.keys)
            statistic = replace(statistic, rounded=np.broadcast_to(rounded / folds, statistic.first.shape))
        likelihoods = tuple(state["likelihoods"].tolist())
        self.state_ = ComponentsState(schema, statistic, str(state["solver"]), likelihoods, components)
