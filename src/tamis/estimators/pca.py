"""Principal components from one sum of products: they can be merged, forgotten, and are right at any mean."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from tamis.arrays import Array, Matrix
from tamis.estimators import answers
from tamis.estimators.base import with_callbacks
from tamis.estimators.linear_explanation import LinearExplanation, explained
from tamis.estimators.pca_attributes import ComponentsFace
from tamis.estimators.pca_learning import (
    Learned,
    dense_blocks,
    folds_of,
    guess,
    has_gaps,
    observe,
    refuse_gaps,
    refuse_lost,
    refuse_other_solver,
    solver_for,
    unless_wide,
)
from tamis.estimators.reading import make_generator
from tamis.estimators.regression_answers import number
from tamis.inputs import read_first_table, read_numbers, read_weights
from tamis.models.components import (
    Components,
    HeldOutRows,
    PrincipalComponents,
    cross_validate,
    filled,
    from_rows,
    log_densities,
    randomized,
    refuse_few_rows,
    whole,
)
from tamis.parameters import check_nonnegative
from tamis.schema import Schema
from tamis.stats import Moments
from tamis.tables import Table

_DROP = "drop or fill those rows"
_FILL = f"{_DROP}, or set missing='em'"
_AT_ONCE = "rows with gaps are guessed together, so give them to fit, all at once"


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ComponentsFace):  # type: ignore[misc]
    """Principal components, and the Gaussian of probabilistic PCA, with scikit-learn's names and signs.

    The statistic is the sum of the rows and of their products. Components are those of a singular value
    decomposition of the centred rows, whatever the mean. A variance of less than 1e-13 of the largest is lost
    in the rounding of the products, and is 0 here. A row of weight 2 is that row twice.

    Parameters
    ----------
    n_components : int, float, "mle", "held-out" or None
        How many to keep: a number; the fewest that explain more than that share of the variance; the number
        of largest evidence (Minka); the number that gives rows held out in five folds the largest density, at
        no further look at the data; or all. A row's fold is chosen by what it holds. Directions in which no
        row varies have no say in densities: of rows that span only r directions, at most r are kept.
    whiten : whether codes are scaled to unit variance; a component without variance is not scaled
    solver : "auto", "moments", "rows" or "randomized"
        "moments" keeps the statistic. Without one, and so without `partial_fit`, `merge`, `unlearn` and
        `decay`: "rows" decomposes the products of rows with each other, for fewer rows than columns;
        "randomized" is for many of both and few components, and says in `error_bound_` what it may have
        missed. "auto" takes moments up to 2,000 columns, and beyond what suits.
    missing : "refuse" or "em"
        "em" takes NaN, and guesses what is missing from what is there by the EM algorithm.
    tol, max_iter : EM ends when a step adds less than `tol` to a row's log-likelihood, or after `max_iter`
    exact : whether sums of products are exact to the bit, at several times the price
    random_state : of the randomized solver
    verbose : whether to show EM's progress

    Notes
    -----
    Variances divide by the total weight less one, as scikit-learn's do. `noise_variance_` is the mean over
    all d − K directions left over, where scikit-learn counts at most as many directions as rows; the two
    differ only with fewer rows than columns. The covariance does not depend on `whiten`.

    Examples
    --------
    >>> import tamis
    >>> model = tamis.PCA(1).fit([[0, 0], [1, 2], [2, 4.5]])
    >>> model.components_.round(2).tolist(), model.explained_variance_ratio_.round(3).tolist()
    ([[0.4, 0.91]], [0.999])
    >>> model.partial_fit([[3, 6]]).unlearn([[3, 6]]).transform([[2, 4.5]]).round(2).tolist()
    [[2.54]]
    """

    _sparse = True

    def __init__(
        self,
        n_components: Any = None,
        *,
        whiten: bool = False,
        solver: str = "auto",
        missing: str = "refuse",
        tol: float = 1e-6,
        max_iter: int = 1000,
        exact: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.solver = solver
        self.missing = missing
        self.tol = tol
        self.max_iter = max_iter
        self.exact = exact
        self.random_state = random_state
        self.verbose = verbose

    def _model(self) -> PrincipalComponents:
        return PrincipalComponents(self.n_components, bool(self.exact))

    # ── the algebra ──

    @with_callbacks
    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn from rows; `y` is not looked at."""
        self._refuse_parameters()
        table, schema = read_first_table(X)
        weighed = read_weights(sample_weight, table.rows)
        solver = solver_for(self.solver, table.rows, table.width, self.n_components)
        if self.missing == "em" and has_gaps(table):
            found = self._guessed(table, schema, weighed, X)
        elif solver == "moments":
            weight = float(table.rows if weighed is None else weighed.sum())
            refuse_few_rows(self.n_components, weight, table.width)
            found = self._summed(schema, table, weighed)
        else:
            refuse_gaps(table, _FILL)
            found = Learned(schema, None, solver, inferred=self._wide(solver, table, weighed))
        if found.statistic is not None:
            found = replace(found, inferred=self._model().infer(found.statistic))
        self._fitted = found
        return self

    def _wide(self, solver: str, table: Table, weighed: Array | None) -> Components:
        if solver == "rows":
            return from_rows(table, self.n_components, weighed, folds_of(table) if self._by_fold() else None)
        return randomized(table, self.n_components, weighed, make_generator(self.random_state))

    def _guessed(self, table: Table, schema: Schema, weighed: Array | None, X: object) -> Learned:
        if table.sparse is not None or self.solver in ("rows", "randomized"):
            how = "that are sparse" if table.sparse is not None else f"and solver={self.solver!r}"
            raise ValueError(
                f"got rows with gaps {how}, expected dense rows and solver='moments' for EM: {_DROP}"
            )
        with self._report_progress(int(self.max_iter), X) as watch:
            statistic, told = guess(
                table.numbers(),
                weighed,
                self.n_components,
                bool(self.exact),
                float(self.tol),
                int(self.max_iter),
                watch,
            )
        return Learned(schema, statistic, likelihoods=told)

    @unless_wide
    def partial_fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn more rows: the model is as if all had come at once. (What EM guessed before stays so.)"""
        self._refuse_parameters()
        before: Learned | None = self._find_state()
        if before is not None:
            before.summed("add to")
        table, schema = self._read(X)
        if before is None:
            solver = solver_for("moments", table.rows, table.width, None)
            found = self._summed(schema, table, read_weights(sample_weight, table.rows))
            self._fitted = replace(found, solver=solver)
        else:
            self._change(lambda sums, part: sums + part, table, sample_weight)
        return self

    def unlearn(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Forget rows that were learned, with their weights: as if they had never come.

        Products of many rows at once are rounded, unless `exact`; only rows far out among others are summed
        exactly. So if less than 1e-10 of the squares of a column would be left, the rows are refused.
        """
        self.state_.summed("take from")
        self._change(lambda sums, part: sums - part, self._read(X)[0], sample_weight)
        return self

    def _change(
        self, change: Callable[[Moments, Moments], Moments], table: Table, sample_weight: object
    ) -> None:
        fitted: Learned = self.state_
        sums = fitted.summed("change")
        part = self._observed(table, read_weights(sample_weight, table.rows), sums.keys is not None)
        after = change(sums, part)
        refuse_lost(after, table)
        if not float(after.weight.value.sum()) > 0:
            raise ValueError(
                "every row would be forgotten, expected some to be left: make a new model instead; "
                "nothing was changed"
            )
        self._fitted = replace(fitted, statistic=after, inferred=None)

    def merge(self, *others: Self) -> Self:
        """Add what other models of the same columns have learned."""
        fitted: Learned
        fitted, *rest = self._states_to_merge(others)
        statistic = fitted.summed("add to")
        for theirs in rest:
            sums = theirs.summed("add")
            if (sums.keys is None) != (statistic.keys is None):
                raise ValueError(
                    "one model learned with n_components='held-out' and one without, expected both or neither"
                )
            statistic = statistic + sums
        self._fitted = replace(fitted, statistic=statistic, inferred=None)
        return self

    def decay(self, factor: float) -> Self:
        """Let everything learned so far count `factor` times as much."""
        fitted: Learned = self.state_
        if not 0.0 < float(factor) <= 1.0:
            raise ValueError(f"got factor={factor}, expected above 0 and at most 1, as 0.99")
        sums = fitted.summed("scale") * float(factor)
        self._fitted = replace(fitted, statistic=sums, inferred=None)
        return self

    def infer(self, **params: Any) -> Self:
        """Set parameters and infer again from what was learned, without reading data again."""
        fitted: Learned = self.state_
        statistic = fitted.summed("infer from")
        before = self.get_params(deep=False)
        try:
            self.set_params(**params)
            self._refuse_parameters()
            found = self._model().infer(statistic)
        except Exception:
            self.set_params(**before)
            raise
        self._fitted = replace(fitted, inferred=found)
        return self

    def _summed(self, schema: Schema, table: Table, weighed: Array | None) -> Learned:
        return Learned(schema, self._observed(table, weighed))

    def _observed(self, table: Table, weighed: Array | None, by_fold: bool | None = None) -> Moments:
        by_fold = self._by_fold() if by_fold is None else by_fold
        try:
            return observe(table, weighed, by_fold, bool(self.exact))
        except ValueError:
            refuse_gaps(
                table, _FILL if self.missing != "em" else _AT_ONCE
            )  # which knows what to do about NaN
            raise

    def _by_fold(self) -> bool:
        return isinstance(self.n_components, str) and self.n_components == "held-out"

    def _refuse_parameters(self) -> None:
        refuse_other_solver(self.solver)
        if self.missing not in ("refuse", "em"):
            raise ValueError(f"got missing={self.missing!r}, expected 'refuse' or 'em'")
        if (whole(self.max_iter) or 0) < 1:
            raise ValueError(f"got max_iter={self.max_iter!r}, expected a whole number of at least 1")
        check_nonnegative("tol", self.tol)

    # ── answers ──

    def _blocks(self, table: Table) -> Iterator[Array]:
        """Dense rows to answer for, a block at a time; NaN is let through if it may be guessed."""
        for block in dense_blocks(table):
            if self.missing == "em":
                if (infinite := np.isinf(block)).any():
                    Matrix(block, table.names).refuse_broken(int(infinite.any(axis=0).argmax()))
                yield block
                continue
            try:
                yield read_numbers(Table(block, len(block), "number", table.names))
            except ValueError:
                refuse_gaps(table, _FILL)
                raise

    def _whole_rows(self, table: Table) -> Iterator[Array]:
        """The same, with what is missing guessed."""
        given = self._components()
        for block in self._blocks(table):
            gaps = self.missing == "em" and np.isnan(block).any()
            yield filled(block, given) if gaps else block

    def transform(self, X: object) -> Array:
        """Codes of rows (n, n_components); of a row with gaps, what is expected given what is there."""
        given = self._components()
        codes = np.concatenate([given.codes(block) for block in self._whole_rows(self._table(X))])
        return np.asarray(codes / given.scale if self.whiten else codes)

    def fit_transform(self, X: object, y: object = None, sample_weight: object = None) -> Any:
        """Learn from rows, and their codes."""
        return self.fit(X, y, sample_weight=sample_weight).transform(X)

    def inverse_transform(self, X: object) -> Array:
        """The rows that codes stand for (n, d)."""
        given, codes = self._components(), read_numbers(Table.of(X))
        if codes.shape[1] != given.count:
            raise ValueError(
                f"got codes of {codes.shape[1]} columns, expected {given.count}, one per component"
            )
        return given.rows(codes * given.scale if self.whiten else codes)

    def score_samples(self, X: object) -> Array:
        """log p of each row under probabilistic PCA (n,); of a row with gaps, of what is there."""
        given = self._components()
        return np.concatenate(
            [
                log_densities(block, given) if self.missing == "em" else given.log_densities(block)
                for block in self._blocks(self._table(X))
            ]
        )

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """The mean of `score_samples`."""
        told = self.score_samples(X)
        return float(np.average(told, weights=read_weights(sample_weight, len(told))))

    def log_likelihood(self, statistic: Moments | None = None) -> float:
        """Σ w log p of all rows that were learned, or of those of another statistic, from the sums alone."""
        fitted: Learned = self.state_
        if statistic is None and fitted.likelihoods:
            raise ValueError(
                "the sums hold what EM guessed of rows with gaps, expected a statistic of whole rows: see "
                "log_likelihoods_ for EM's steps, or sum score_samples of the rows"
            )
        sums = fitted.whole if statistic is None else statistic
        return self._components().log_likelihood(sums if sums.keys is None else sums.pooled())

    def get_covariance(self) -> Array:
        """Of probabilistic PCA (d, d)."""
        return self._components().covariance()

    def get_precision(self) -> Array:
        """Its inverse (d, d)."""
        return self._components().precision()

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Rows drawn from probabilistic PCA (n, d): a frame if the model was fitted to one."""
        rows = self._components().draw(make_generator(random_state), number(n_samples))
        schema: Schema = self.state_.schema
        if schema.library is None or schema.names is None:
            return rows
        return answers.frame(dict(zip(schema.names, rows.T, strict=True)), schema.library)

    def explain(self, X: object, component: int | None = None) -> LinearExplanation:
        """What each column adds to a row's code, or to its squared reconstruction error if none is named."""
        given, table = self._components(), self._table(X)
        rows = np.concatenate(list(self._whole_rows(table)))
        if component is None:
            terms = np.square(given.residuals(rows))
        else:
            if (k := whole(component)) is None or not 0 <= k < given.count:
                raise ValueError(f"got component={component!r}, expected 0 to {given.count - 1}")
            terms = (rows - given.mean) * (given.directions[k] / (given.scale[k] if self.whiten else 1.0))
        return explained(terms, np.zeros(len(terms)), self.state_.schema, X, table)

    def cross_validate(
        self,
        X: object,
        folds: int | str | ArrayLike = 5,
        *,
        sample_weight: object = None,
        groups: object = None,
        random_state: Any = None,
    ) -> HeldOutRows:
        """Log-density and reconstruction error of each row by a model that never saw its fold, from one pass.

        `folds` is a number, the fold of each row, or "leave-one-out"; rows of one group stay together.
        """
        table, _ = read_first_table(X)
        refuse_gaps(table, _DROP)
        fold = answers.fold_of_each(folds, table.rows, None, groups, random_state)
        part = np.arange(table.rows) if fold is None else fold
        return cross_validate(self._model(), table, part, read_weights(sample_weight, table.rows))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "em"
        return tags
