"""Mixture models: those of the generative classifiers, fitted to rows without labels by the EM algorithm."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin

from tamis import _kernels, decide, validate
from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.engines import Batch, BatchShards
from tamis.estimators.base import refuse_to_forget_all, with_sklearn_callbacks
from tamis.estimators.generative import GenerativeFace
from tamis.estimators.generative_shards import RowReader, encode_rows, gather_rows, survey_rows
from tamis.estimators.reading import make_generator
from tamis.estimators.sharded import with_shards
from tamis.inputs import read_first_table, read_next_table, read_weights
from tamis.models.generative import Block, Encoded, Generative, LabelledRows, Posterior, em
from tamis.models.generative.block import Estimate
from tamis.models.generative.column_blocks import (
    BlockOptions,
    Families,
    FamilyChoice,
    can_read_sparse,
    make_blocks,
)
from tamis.models.generative.gaussian_densities import precision_factors_of, precisions_of, refuse_collapse
from tamis.models.generative.gaussian_vectors import Covariance, GaussianVectors
from tamis.models.generative.state import GenerativeState
from tamis.parameters import check_em_options, check_integer, check_nonnegative
from tamis.protocols import observe_shards
from tamis.schema import Schema
from tamis.stats import Joint, Keys, Labels
from tamis.tables import Table

_NO_CLASSES = Keys(())


@dataclass(eq=False, repr=False)
class Mixture(DensityMixin, GenerativeFace):  # type: ignore[misc]  # scikit-learn has no types
    """A mixture of columns of any family, fitted by EM.

    Parameters
    ----------
    n_components : int
    covariance : "full", "tied", "diag" or "spherical"
        The form of the covariance of all Gaussian columns together.
    families : "auto", a family, or a mapping from columns to families
        As in `NaiveBayes`.
    integers : the family that "auto" chooses for columns of whole numbers
    estimate : "map", "mle", "mean" or "predictive"
        The estimate that each step makes, as in `NaiveBayes`; with "predictive", the densities of components
        have their parameters integrated out. All but "mle" have priors, so that the variance of a component
        cannot shrink to 0 at a single row.
    prior : NormalInverseWishart, optional
        The prior of a Gaussian component; by default it has the mean of all rows, the variances within
        components, and counts as much as `strength` rows (its mean counts less if components are far apart).
    strength, alpha : float
        The strength, in observations, of priors of Gaussian columns, and of probabilities and rates.
    weight_alpha : float
        The number of pseudo-observations of each component.
    reg_covar : float
        A number that is added to every variance, with estimate="mle". The other estimates have a prior, and
        accept only 0.
    hard : bool
        Whether each row belongs to its most probable component alone, as in k-means (which also has one
        variance and one weight for all).
    init_params : "kmeans", "k-means++", "random_from_data" or "random"
        How EM starts: from components around the centres of k-means on a sample, around rows that are far
        from each other, or around rows drawn uniformly; or from random responsibilities.
    weights_init : array (n_components,), optional
        Weights of the components to start from.
    means_init : array (n_components, Gaussian columns), optional
        Means to start from; other parameters that are not given are estimated from the rows nearest to each.
    precisions_init : array, optional
        Inverse covariances of the Gaussian columns to start from; they have the shape of `precisions_`.
    n_init : int
        The number of runs, each from another start; the one with the largest `lower_bound_` is kept.
    warm_start : bool
        Whether `fit` continues from the components of the last fit, in one run.
    max_iter, tol : int, float
        EM stops when the mean log-likelihood per row changes by less than `tol`. If it has not converged
        after `max_iter` iterations, there is a ConvergenceWarning, and `converged_` is False.
    random_state : seed or generator of the random numbers for the start and for `sample`
    verbose : whether to draw a progress bar

    Examples
    --------
    >>> import numpy as np, tamis
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(8, 1, (100, 2))])
    >>> model = tamis.Mixture(2, random_state=0).fit(rows)
    >>> sorted(model.means_.round(0).tolist()), model.weights_.round(2).tolist()
    ([[-0.0, 0.0], [8.0, 8.0]], [0.5, 0.5])
    """

    n_components: int = 1
    _: KW_ONLY
    covariance: Covariance = "full"
    families: Families = "auto"
    integers: FamilyChoice = "gaussian"
    estimate: Estimate = "map"
    prior: NormalInverseWishart | None = None
    strength: float = 1.0
    alpha: float = 1.0
    weight_alpha: float = 0.0
    reg_covar: float = 0.0
    hard: bool = False
    init_params: em.Method = "kmeans"
    weights_init: ArrayLike | None = None
    means_init: ArrayLike | None = None
    precisions_init: ArrayLike | None = None
    n_init: int = 1
    warm_start: bool = False
    max_iter: int = 100
    tol: float = 1e-3
    random_state: Any = None
    verbose: int = 0

    # `infer` cannot change these parameters.
    _statistic_parameters = ("n_components", "covariance", "families", "integers")

    @property
    def _accepts_sparse(self) -> bool:
        """Whether all families are of counts or flags: Gaussian columns are rarely sparse."""
        return can_read_sparse(self.families)

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        # A Dirichlet prior of parameters below 1 has its mode on the boundary. So 1 is added to alpha for MAP
        # estimates, whose pseudo-counts are the parameters minus 1, and alpha=0 does not smooth.
        alpha = check_nonnegative("alpha", self.alpha)
        outcome_alpha = alpha + 1.0 if self.estimate == "map" else alpha
        floor = check_nonnegative("reg_covar", self.reg_covar)
        if floor and self.estimate != "mle":
            raise ValueError(
                f"got reg_covar={floor:g} with estimate={self.estimate!r}, expected 0: its prior keeps "
                "variances above zero; set strength instead, or estimate='mle'"
            )
        vectors = GaussianVectors(
            covariance=self.covariance,
            missing=True,  # EM imputes missing values
            within_classes=True,  # the default prior has the variances within components
            estimate=self.estimate,
            prior=self.prior,
            strength=self.strength,
            floor=floor,
        )
        options = BlockOptions(
            estimate=self.estimate, alpha=alpha, outcome_alpha=outcome_alpha, vectors=vectors
        )
        return make_blocks(schema, self.families, self.integers, options)

    def _make_class_prior(self, classes: Keys) -> dict[str, Any]:
        return {"alpha": check_nonnegative("weight_alpha", self.weight_alpha)}

    def _make_model(
        self, schema: Schema, classes: Keys = _NO_CLASSES, declared: Keys = _NO_CLASSES
    ) -> Generative:
        # All components are declared, because one without rows is a component, too.
        return replace(super()._make_model(schema, classes, self._list_components()), hard=bool(self.hard))

    def _list_components(self) -> Keys:
        return Keys(tuple(range(check_integer("n_components", self.n_components))))

    def learn_shards(self, shards: BatchShards[Batch], anew: bool) -> Self:
        """Learn from rows in shards: in each step, the processes that have the shards sum over their rows."""
        keys, state = self._list_components(), None if anew else self._get_state_or_none()
        if state is not None:
            return self._add_shards(self.state_, shards)
        last = self._get_state_or_none() if self.warm_start else None
        reader = self._make_reader(keys, None if last is None else last.schema)
        survey = survey_rows(shards, reader)
        self._refuse_few_rows(survey.n_rows)
        schema = survey.schema
        model = self._make_model(schema)
        tables = shards.map(replace(reader, schema=schema))
        data = tables.map(partial(encode_rows, model)).keep()
        rng = make_generator(self.random_state)

        def draw_start() -> Posterior:
            row_numbers = em.draw_row_numbers(survey.n_rows, len(keys), rng)
            sample = encode_rows(model, gather_rows(tables, survey, row_numbers))
            given = self._read_initial_parameters(model, sample)
            return em.start_shards(model, data, sample, len(keys), rng, self.init_params, given)

        return self._run_em(schema, model, data, draw_start)

    def _make_reader(self, keys: Keys, schema: Schema | None) -> RowReader:
        return RowReader(
            type(self).__name__, self._accepts_sparse, self._takes_missing, labels=keys, schema=schema
        )

    def _add_shards(self, state: GenerativeState, shards: BatchShards[Batch]) -> Self:
        """Learn more rows, in shards, by one step of online EM."""
        posterior = self._get_posterior(state)
        reader = self._make_reader(posterior.keys, state.schema)
        model = replace(state.model, hard=bool(self.hard))
        data = shards.map(reader).map(partial(encode_rows, model))
        self._fitted = state.replace(state.statistic + observe_shards(model, data, posterior))
        return self

    @with_sklearn_callbacks
    @with_shards
    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Find the components by EM; y is ignored."""
        last = self._get_state_or_none() if self.warm_start else None
        if last is None:
            table, schema = read_first_table(X, self._accepts_sparse)
        else:
            schema = last.schema
            table = read_next_table(X, schema, type(self).__name__, self._accepts_sparse)
        weights = read_weights(sample_weight, table.rows)
        if weights is not None and not weights.all():
            table, weights = table.take(np.flatnonzero(weights)), weights[weights > 0]
        self._refuse_few_rows(table.rows)
        keys = self._list_components()
        model = self._make_model(schema)
        data = _make_unlabelled_rows(model.encode(table), keys, weights)
        rng = make_generator(self.random_state)

        def draw_start() -> Posterior:
            given = self._read_initial_parameters(model, data)
            return em.start(model, data, len(keys), rng, self.init_params, given)

        return self._run_em(schema, model, data, draw_start, X)

    def _refuse_few_rows(self, rows: int) -> None:
        """Raise if there are fewer rows than components, or if the parameters of EM are not valid."""
        k = len(self._list_components())
        if rows < k:
            raise ValueError(f"got n_samples={rows} rows for n_components={k}, expected one per component")
        check_em_options(self.max_iter, self.tol, self.n_init)

    def _run_em(
        self,
        schema: Schema,
        model: Generative,
        data: LabelledRows | em.RowShards,
        draw_start: Callable[[], Posterior],
        X: object = None,
    ) -> Self:
        """Run EM from `n_init` starts, or from the components of the last fit; keep the best outcome.

        Raise if the variance of a component has shrunk to 0.
        """
        last = self._get_state_or_none() if self.warm_start else None
        with self._report_progress(self.max_iter * (self.n_init if last is None else 1), X) as report:

            def run(start: Posterior, last_log_likelihood: float | None = None) -> em.Outcome:
                return em.run(
                    model,
                    data,
                    start,
                    self.max_iter,
                    self.tol,
                    lambda step: report(step.objective),
                    last_log_likelihood,
                )

            if last is None:
                outcomes = (run(draw_start()) for _ in range(self.n_init))
                outcome = max(outcomes, key=lambda each: each.history.log_likelihoods[-1])
            else:
                self._refuse_other_model(last, model)
                history, last_log_likelihood = last.history, None
                if history is not None and isinstance(data, LabelledRows):
                    # If the total weight is the same, the rows are probably the same, too.
                    is_same_weight = history.weight == float(data.weight().sum())
                    last_log_likelihood = history.log_likelihoods[-1] if is_same_weight else None
                outcome = run(self.posterior_, last_log_likelihood)
        if self.estimate == "mle":
            refuse_collapse(outcome.posterior.densities.get("gaussian"))
        self._warn_unless_converged(outcome.history)
        self._fitted = GenerativeState(
            schema, model, outcome.statistic, _NO_CLASSES, outcome.posterior, outcome.history
        )
        return self

    def _read_initial_parameters(self, model: Generative, data: LabelledRows) -> em.Initial:
        """Check `weights_init`, `means_init` and `precisions_init`."""
        width = data.rows.blocks["gaussian"].shape[1] if "gaussian" in model.blocks else 0
        k = len(self._list_components())
        return em.Initial.of(model, k, width, self.weights_init, self.means_init, self.precisions_init)

    def _refuse_other_model(self, last: GenerativeState, model: Generative) -> None:
        """Raise if the components of the last fit are no start for this model."""
        count = len(self.posterior_.keys)
        if count != len(self._list_components()) or not model.sums_like(last.model):
            raise ValueError(
                f"got warm_start=True with other parameters than the last fit had ({count} components), "
                "expected the same components, families and covariance: set warm_start=False"
            )

    def merge(self, *others: Self) -> Self:
        """Add the statistic of each component of other mixtures to that of the component with its index.

        This is meaningful for copies of one mixture that have learned different rows since.
        """
        for other in others:
            if type(other) is type(self) and other.n_components != self.n_components:
                raise ValueError(
                    f"got a mixture of n_components={other.n_components}, expected {self.n_components}"
                )
        return super().merge(*others)

    @with_shards
    def partial_fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Add more rows by their responsibilities under the present components: one step of online EM."""
        if self._get_state_or_none() is None:
            return self.fit(X, y, sample_weight)  # type: ignore[no-any-return]
        state = self.state_
        table = read_next_table(X, state.schema, type(self).__name__, self._accepts_sparse)
        state = self._adopt_kinds(state, state.schema.with_kinds_of(table))
        self._fitted = state.replace(state.statistic + self._observe_rows(state, table, sample_weight))
        return self

    def unlearn(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Subtract rows by their responsibilities under the present components.

        The result is near a model that never learned them, but not equal to it, because the responsibilities
        have changed since. A new `fit` without the rows is exact.
        """
        state = self.state_
        rest = state.statistic - self._observe_rows(state, self._read_rows(X, state), sample_weight)
        state.model.refuse_impossible(rest)  # raises if no rows could have these sums
        counted: Any = rest["classes"]
        refuse_to_forget_all(float(counted.weight.value))
        self._fitted = state.replace(rest)
        return self

    def _observe_rows(self, state: GenerativeState, table: Table, sample_weight: object) -> Joint:
        weights = read_weights(sample_weight, table.rows)
        posterior = self._get_posterior(state)
        data = _make_unlabelled_rows(state.model.encode(table), posterior.keys, weights)
        return replace(state.model, hard=bool(self.hard)).observe(data, posterior)

    def predict(self, X: object) -> NDArray[np.int64]:
        """Return the most probable component of each row."""
        return np.asarray(self.predict_joint_log_proba(X).argmax(axis=1))

    def fit_predict(self, X: object, y: object = None, sample_weight: object = None) -> NDArray[np.int64]:
        """Fit, and return the most probable component of each row."""
        return self.fit(X, y, sample_weight).predict(X)  # type: ignore[no-any-return]

    def score_samples(self, X: object) -> Array:
        """Return log p(x) of each row."""
        return decide.log_evidence(self.predict_joint_log_proba(X))

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the mean log p(x) of the rows."""
        log_densities = self.score_samples(X)
        weights = read_weights(sample_weight, len(log_densities))
        return float(np.average(log_densities, weights=weights))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, NDArray[Any]]:
        """Draw rows and their components from the model; by default with its own `random_state`."""
        return super().sample(n_samples, self.random_state if random_state is None else random_state)

    def bic(self, X: object) -> float:
        """Return the Bayesian information criterion of the rows: less is better."""
        log_densities = self.score_samples(X)
        return float(self.n_parameters_ * np.log(len(log_densities)) - 2.0 * log_densities.sum())

    def aic(self, X: object) -> float:
        """Return Akaike's information criterion of the rows: less is better."""
        return float(2.0 * self.n_parameters_ - 2.0 * self.score_samples(X).sum())

    def lower_bound(self, X: object, given: "Mixture | None" = None) -> float:
        """Return the lower bound on the log-likelihood of the rows that a step of EM maximises.

        Its responsibilities are those under the mixture `given`, by default under this one; then it equals
        the log-likelihood.
        """
        other = self if given is None else given
        posterior, rows, _ = self._encode(X)
        return em.lower_bound(
            _make_unlabelled_rows(rows, posterior.keys, weights=None), posterior, other.posterior_
        )

    def cross_validate(
        self, X: object, folds: int = 5, *, sample_weight: object = None, random_state: Any = 0
    ) -> Array:
        """Return log p(x) of each row under a mixture fitted to the other folds; EM runs once per fold."""
        table, schema = read_first_table(X, self._accepts_sparse)
        weights = read_weights(sample_weight, table.rows)
        check_em_options(self.max_iter, self.tol, self.n_init)
        model = self._make_model(schema)
        fold = validate.split(table.rows, folds, make_generator(random_state))
        log_densities = np.empty(table.rows)
        rows, keys = model.encode(table), self._list_components()
        data = _make_unlabelled_rows(rows, keys, weights)
        for number in range(int(fold.max()) + 1):
            is_held_out = fold == number
            train = data.take(np.flatnonzero(~is_held_out))
            outcome = em.run_best(
                model,
                train,
                len(keys),
                make_generator(self.random_state),
                self.n_init,
                self.max_iter,
                self.tol,
                method=self.init_params,
                initial=self._read_initial_parameters(model, train),
            )
            self._warn_unless_converged(outcome.history)
            joint = outcome.posterior.log_joint(rows.take(np.flatnonzero(is_held_out)))
            log_densities[is_held_out] = _kernels.log_sum_rows(joint)
        return log_densities

    @property
    def n_parameters_(self) -> int:
        """The number of free parameters."""
        return self.state_.model.count_parameters(self.posterior_)

    @property
    def weights_(self) -> Array:
        """The weight of each component; they sum to 1."""
        return np.exp(self.posterior_.log_prior)

    @property
    def means_(self) -> Array:
        """The mean of each component, of the Gaussian columns."""
        return self._get_gaussian("means_").mean  # type: ignore[no-any-return]

    @property
    def covariances_(self) -> Array:
        """The covariance of each component, of the Gaussian columns; one for all if tied."""
        return self._get_gaussian("covariances_").covariance  # type: ignore[no-any-return]

    @property
    def precisions_(self) -> Array:
        """The inverse of each of `covariances_`, in the same shape."""
        return precisions_of(self._get_gaussian("precisions_"))

    @property
    def precisions_cholesky_(self) -> Array:
        """Upper triangular U with U Uᵀ = precision, for each component; if diagonal, square roots of it."""
        return precision_factors_of(self._get_gaussian("precisions_cholesky_"))

    @property
    def log_likelihoods_(self) -> Array:
        """The log-likelihood of all rows before each iteration of EM (n_iter_,)."""
        history = self.state_.history
        return np.array(() if history is None else history.log_likelihoods)

    def _get_gaussian(self, name: str) -> Any:
        densities = self.posterior_.densities
        if "gaussian" not in densities:
            raise AttributeError(f"{name} needs Gaussian columns: this mixture has none")
        return densities["gaussian"]

    @property
    def log_evidence_(self) -> float:
        """Raise AttributeError: the evidence of a mixture has no closed form; see `bic` and `lower_bound`."""
        raise AttributeError("a mixture has no evidence in closed form: see bic and lower_bound")


def _make_unlabelled_rows(rows: Encoded, keys: Keys, weights: Array | None) -> LabelledRows:
    """Return rows whose labels are all missing; `keys` are those of the components."""
    return LabelledRows(rows, Labels(keys, np.full(len(rows), -1)), weights)
