"""The base classes of naive Bayes, discriminants and mixtures.

`GenerativeFace` is the base of all these faces (scikit-learn estimators), `GenerativeClassifier` that of the
faces with labels. They have scikit-learn's methods, and `merge`, `unlearn` and `decay`, which add, subtract
and scale the statistic. The state (`GenerativeState`) holds the statistic, to which rows are added when they
are learned, and the posterior, which is inferred when it is first needed. A face stores its state in
`_fitted`; the property `state_` returns it, and raises NotFittedError if nothing was learned.
"""

import importlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from tamis import decide, validate
from tamis.arrays import Array
from tamis.engines import Batch, BatchShards, DatabaseShards
from tamis.estimators.base import TableFace, refuse_to_forget_all, with_sklearn_callbacks
from tamis.estimators.generative_shards import RowReader, encode_rows
from tamis.estimators.reading import (
    check_sample_count,
    drop_weightless,
    make_generator,
    read_folds,
    read_labels,
)
from tamis.estimators.sharded import learn_in_one_pass, with_shards
from tamis.inputs import (
    list_named_rows,
    read_few_rows,
    read_first_table,
    read_next_table,
    read_plain_row,
    read_weights,
    require_names,
    to_label_array,
)
from tamis.models.explanation import Explanation, choose_classes, frame_like
from tamis.models.generative import Block, Encoded, Generative, LabelledRows, Posterior, em
from tamis.models.generative.contrasts import compute_contributions
from tamis.models.generative.em import History
from tamis.models.generative.model import all_classes, classes_of
from tamis.models.generative.state import GenerativeState, InferenceModel
from tamis.parameters import (
    check_class_probabilities,
    check_decay_factor,
    check_em_options,
    check_nonnegative,
)
from tamis.schema import Schema
from tamis.stats import Joint, Keys, Labels, Tally
from tamis.tables import Table, make_frame, runs
from tamis.warning import warn

_IMMUTABLE = (bool, int, float, str, type(None))  # types of parameters that can only change by assignment
_MAX_CELLS = 1 << 22  # log-probabilities that `predict` computes at a time; at least those of one row
_NO_CLASSES = Keys(())
# Why `calibrate` sets the temperature to its lower or upper bound, and what to do about it.
_AT_LOWER_BOUND = (
    "every left-out row is predicted correctly, so that temperature_ is set to its bound {:.2g} and "
    "probabilities are nearly all 0 or 1"
)
_AT_UPPER_BOUND = (
    "left-out rows are predicted no better than by chance, so that temperature_ is set to its bound "
    "{:.2g} and all classes are nearly equally probable"
)
_REMEDY = "expected some rows predicted right and some wrong: calibrate with more rows, or undo it by infer()"


class GenerativeFace(TableFace[GenerativeState]):
    """The base of all generative faces; each defines its blocks of columns."""

    @property
    def _accepts_sparse(self) -> bool:
        return True

    @property
    def _takes_missing(self) -> bool:
        return True

    # Parameters on which the statistic depends, so that infer() cannot change them.
    _statistic_parameters: ClassVar[tuple[str, ...]] = ()
    _absent: ClassVar[float] = np.nan  # the value of a column that a row given as a dict does not name
    _takes_new_columns: ClassVar[bool] = False  # whether rows given as dicts may add columns

    max_iter: int
    tol: float
    priors: ArrayLike | Mapping[Any, float] | None = None  # the probabilities of the classes, if given

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        """Return the blocks of a model of these columns."""
        raise NotImplementedError

    def _make_class_prior(self, classes: Keys) -> dict[str, Any]:
        """Return the arguments of `Generative` that define the probabilities of the classes.

        These are `prior`, a probability per class; `alpha`, pseudo-observations of each class; and
        `is_uniform`.
        """
        return {}

    def _check_class_prior(self, classes: Keys) -> None:
        """Raise if the parameters give no valid probabilities for these classes."""
        self._make_class_prior(classes)

    def _make_model(
        self, schema: Schema, classes: Keys = _NO_CLASSES, declared: Keys = _NO_CLASSES
    ) -> Generative:
        """Return the model of these columns.

        `classes` are all classes in the order of their probabilities, which only `infer` needs; `declared`
        are those that were announced in advance, with or without rows.
        """
        return Generative(self._make_blocks(schema), classes=declared, **self._make_class_prior(classes))

    def _describe_selected(self) -> Any:
        """Return, for a file, the settings that were selected from the rows; None if there are none."""
        return None

    def _restore_selected(self, model: Generative, description: Any) -> Generative:
        """Return the model with the settings that `_describe_selected` described."""
        return model

    # ── adding, scaling and inferring ──

    def merge(self, *others: Self) -> Self:
        """Add the statistics of other models of the same class and columns."""
        states = self._list_states_to_merge(others)
        schema = states[0].schema
        for other in states[1:]:
            schema = schema.with_kinds_of(other.schema)
        state, *rest = (self._adopt_kinds(one, one.schema.with_kinds_of(schema)) for one in states)
        statistic, declared = state.statistic, state.declared
        for other in rest:
            if not other.model.sums_like(state.model):
                raise ValueError(
                    "the models sum rows in different ways, expected the same families of the same columns, "
                    "the same form of covariance and the same thresholds: fit them alike"
                )
            statistic = statistic + other.statistic
            declared = declared.union(other.declared)[0]
        self._check_class_prior(all_classes(statistic, declared))
        self._fitted = state.replace(statistic, declared)
        return self

    def decay(self, factor: float) -> Self:
        """Multiply the weight of everything learned so far by `factor`."""
        state = self.state_
        self._fitted = state.replace(state.statistic * check_decay_factor(factor))
        return self

    def infer(self, **params: Any) -> Self:
        """Set parameters and infer again from the statistic, without reading data again.

        The temperature that `calibrate` fitted belongs to the old parameters and is dropped.
        """
        state = self.state_
        before = self.get_params(deep=False)
        for name in self._statistic_parameters:
            if name in params and params[name] != before[name]:
                raise ValueError(
                    f"got {name}={params[name]!r}, expected {before[name]!r}, which the rows were learned "
                    "with: fit a new model instead"
                )
        with self._set_params_or_roll_back(params):
            model = self._make_model(state.schema)
            if not model.sums_like(state.model):
                raise ValueError(
                    f"got {_format_params(params)}, which needs a different statistic from the one "
                    "that was learned: fit a new model instead"
                )
            posterior = self._infer_posterior(state)
        self._fitted = GenerativeState(
            state.schema, model, state.statistic, state.declared, posterior, state.history
        )
        return self

    def _observe(self, state: GenerativeState, table: Table, labels: Labels, weights: Array | None) -> Joint:
        model = state.model
        return model.observe(LabelledRows(model.encode(table), labels, weights))

    # ── what was learned ──

    def _infer_posterior(self, state: GenerativeState) -> Posterior:
        """Infer from the statistic; the model is kept for the next call if all parameters are immutable."""
        keys = all_classes(state.statistic, state.declared)
        params = self._list_immutable_params()
        cached = state.inference_model
        if cached is None or params is None or cached.params != params or cached.keys != keys:
            model = self._make_model(state.schema, keys, state.declared)
            state.inference_model = None if params is None else InferenceModel(params, keys, model)
            return model.infer(state.statistic)
        return cached.model.infer(state.statistic)

    def _list_immutable_params(self) -> list[Any] | None:
        """Return the parameters if all are immutable, so that equal lists mean equal models; else None."""
        params = [value for name, value in vars(self).items() if name[0] != "_" and name[-1] != "_"]
        return params if all(type(value) in _IMMUTABLE for value in params) else None

    @property
    def posterior_(self) -> Posterior:
        """The posterior that the present parameters infer from the statistic."""
        return self._get_posterior(self.state_)

    def _get_posterior(self, state: GenerativeState) -> Posterior:
        """Return the posterior, inferred when first needed."""
        if state.posterior is None:
            state.posterior = self._infer_posterior(state)
        return state.posterior

    @property
    def statistic_(self) -> Joint:
        """The sufficient statistic of all rows that were learned."""
        return self.state_.statistic

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the columns of `predict_proba`."""
        state = self.state_
        if state.classes is None:
            keys = all_classes(state.statistic, state.declared)
            state.classes = to_label_array(keys)
        return state.classes

    @property
    def n_iter_(self) -> int:
        """The number of iterations of EM; 1 if all labels were given."""
        history = self.state_.history
        return 1 if history is None else history.iterations

    @property
    def converged_(self) -> bool:
        """Whether the last gain of EM was less than `tol`; True if all labels were given."""
        history = self.state_.history
        return history is None or history.converged

    @property
    def lower_bound_(self) -> float:
        """The mean log-likelihood per row before the last iteration of EM.

        Without a prior, smoothing, `reg_covar` (a number added to the variances) and `hard` (each row belongs
        to one component), iterations only raise the likelihood (up to rounding), so that this is a lower
        bound on that of the fitted model. A row with a label contributes log p(x, label), any other log p(x).
        """
        return float(self.lower_bounds_[-1])

    @property
    def lower_bounds_(self) -> Array:
        """The mean log-likelihood per row before each iteration of EM (n_iter_,)."""
        history = self.state_.history
        if history is None:
            raise AttributeError(
                "lower_bounds_ needs a fit by EM: all labels were given, so there was nothing to iterate"
            )
        return history.lower_bounds

    def _warn_unless_converged(self, history: History) -> None:
        if not history.converged:
            warn(
                f"EM did not converge in max_iter={history.iterations} iterations: raise max_iter or tol",
                ConvergenceWarning,
            )

    @property
    def class_count_(self) -> Array:
        """The weight of each class."""
        posterior = self.posterior_
        counts: Any = self.statistic_["classes"]
        weights = np.zeros(len(posterior.keys))
        weights[posterior.keys.find(counts.terms)] = counts.total.value
        return weights

    @property
    def class_log_prior_(self) -> Array:
        """log p(class)."""
        return self.posterior_.log_prior

    @property
    def log_evidence_(self) -> float:
        """log p(rows | labels) with the parameters integrated out, where that has a closed form."""
        return self.posterior_.log_evidence()

    # ── predictions ──

    def _read_rows(self, X: object, state: GenerativeState) -> Table:
        """Read further rows of the same columns; strings in a column of unknown kind count as missing."""
        return self._read_table(X, state.schema).blank_categories(state.schema.unknown_columns)

    def _read_table(self, X: object, schema: Schema) -> Table:
        return read_next_table(
            X, schema, type(self).__name__, self._accepts_sparse, self._takes_missing, self._absent
        )

    def _adopt_kinds(self, state: GenerativeState, schema: Schema) -> GenerativeState:
        """Return the state after the same rows, of a model that knows the kinds of columns in `schema`."""
        if schema is state.schema:
            return state
        return state.with_columns(schema, self._make_model(schema))

    def _encode(self, X: object) -> tuple[Posterior, Encoded, Table]:
        state = self.state_
        table = self._read_rows(X, state)
        # Rows to predict (`learn=False`) are checked less strictly than rows to learn.
        return self.posterior_, state.model.encode(table, learn=False), table

    def predict_joint_log_proba(self, X: object) -> Array:
        """Return log p(x, class), (n, classes)."""
        posterior, rows, _ = self._encode(X)
        return self._score(posterior, rows)

    def _score(self, posterior: Posterior, rows: Encoded) -> Array:
        """Return log p(x, class) (n, classes), or scores that a subclass uses instead."""
        return posterior.log_joint(rows)

    def predict_log_proba(self, X: object) -> Array:
        """Return log p(class | x), (n, classes)."""
        return decide.log_probabilities(self._apply_temperature(self.predict_joint_log_proba(X)))

    def predict_proba(self, X: object) -> Array:
        """Return p(class | x), (n, classes)."""
        return decide.probabilities(self._apply_temperature(self.predict_joint_log_proba(X)))

    def _apply_temperature(self, joint: Array) -> Array:
        temperature = self.state_.temperature
        return joint if temperature == 1.0 else decide.Temperature(temperature).apply(joint)

    @property
    def temperature_(self) -> float:
        """The number by which log-odds are divided before they become probabilities: 1 before `calibrate`."""
        return self.state_.temperature

    def decision_function(self, X: object) -> Array:
        """Return log-odds of the second class against the first, (n,); with more classes, log p(x, class)."""
        return decide.log_odds(self.predict_joint_log_proba(X))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, NDArray[Any]]:
        """Draw rows, a frame if the model was fitted to one, and their labels."""
        schema, count = self.state_.schema, check_sample_count(n_samples)
        group, blocks = self.posterior_.draw(make_generator(random_state), count)
        columns: list[NDArray[Any]] = [np.empty(0)] * schema.width
        for name, block in self._make_blocks(schema).items():
            indices = range(schema.width) if block.columns is None else block.columns
            for index, values in zip(indices, blocks[name], strict=True):
                columns[index] = _restore_type(values, schema.kind(index), block.type_of_draws)
        labels = self.classes_[group]
        if schema.library is not None and schema.names is not None:
            return make_frame(dict(zip(schema.names, columns, strict=True)), schema.library), labels
        if isinstance(schema.kinds, tuple) and len(set(schema.kinds)) > 1:  # values keep their types
            columns = [values.astype(object) for values in columns]
        return np.column_stack(columns), labels

    def explain(self, X: object, for_: object = None, against: object = None) -> Explanation:
        """Compute how much each column adds to the log-odds of class `for_` against class `against`.

        The default is, with two classes, the second against the first; with more, the most probable class of
        each row against the next most probable one. See `Explanation`.
        """
        posterior, rows, table = self._encode(X)
        if len(posterior.keys) < 2:
            raise ValueError("got a model of one class, expected two or more to compare")
        one, other = choose_classes(posterior.log_joint(rows), posterior.keys, for_, against)
        schema = self.state_.schema
        parts = compute_contributions(self._make_blocks(schema), posterior, rows, one, other, schema.width)
        return Explanation(
            frame_like(parts.terms, schema, table, X),
            parts.rest,
            parts.prior,
            self.classes_[one],
            self.classes_[other],
            tuple(schema.name(j) for j in range(schema.width)),
        )

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        state = self.state_
        schema, history = state.schema, state.history
        return {
            "schema": schema.to_tuple(),
            "statistic": state.statistic,
            "declared": state.declared,
            "history": history
            and {
                "log_likelihoods": np.array(history.log_likelihoods),
                "weight": history.weight,
                "converged": history.converged,
            },
            "temperature": state.temperature,
            "choice": self._describe_selected(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        schema, history = Schema(*state["schema"]), state["history"]
        model = self._make_model(schema)
        # Imported here, because only a model that is loaded from a file needs the rules of files.
        rules = importlib.import_module("tamis.estimators.saved")
        rules.check_statistic(model, state["statistic"], schema.width)
        self._fitted = GenerativeState(
            schema,
            self._restore_selected(model, state.get("choice")),
            state["statistic"],
            state["declared"],
            history=history
            and History(
                tuple(history["log_likelihoods"].tolist()), float(history["weight"]), history["converged"]
            ),
            temperature=float(state["temperature"]),
        )


@dataclass(eq=False, repr=False, kw_only=True)
class GenerativeClassifier(ClassifierMixin, GenerativeFace):  # type: ignore[misc]  # scikit-learn has no types
    """The base of generative classifiers.

    `partial_fit`, `merge`, `unlearn` and `decay` add, subtract or scale statistics; only `fit` iterates (EM),
    and only if labels are missing.
    """

    missing_label: object = None
    unlabelled_weight: float = 1.0
    max_iter: int = 100
    tol: float = 1e-4
    verbose: int = 0

    def _make_class_prior(self, classes: Keys) -> dict[str, Any]:
        return {"prior": check_class_probabilities(self.priors, classes)}

    def _is_prior_counted(self) -> bool:
        """Return whether the probabilities of the classes are estimated from their counts.

        If they are, a class may be new; otherwise it needs an entry in `priors`.
        """
        return self.priors is None

    def _make_model(
        self, schema: Schema, classes: Keys = _NO_CLASSES, declared: Keys = _NO_CLASSES
    ) -> Generative:
        model = super()._make_model(schema, classes, declared)
        weight = check_nonnegative("unlabelled_weight", self.unlabelled_weight)
        return replace(model, unlabelled_weight=weight)

    def _check_suitability(self, schema: Schema, classes: Keys) -> None:
        """Raise if the parameters do not suit these columns and classes; the default checks nothing."""

    def expect_columns(self, X: object) -> Schema:
        """Store the columns of X and their kinds, without learning its rows."""
        _, schema = read_first_table(X, self._accepts_sparse, self._absent)
        self._fitted = GenerativeState(schema, self._make_model(schema), statistic=None, declared=_NO_CLASSES)
        return schema

    def learn_sums(self, shards: DatabaseShards) -> None:
        """Learn from sums by label that a database computes.

        Raise UnsupportedSumsError if it cannot, for example because a row has no label; the caller then reads
        the rows.
        """
        schema = shards.read_schema()
        model = self._make_model(schema)
        schema, statistic = shards.sum_by_class(schema, model.blocks, self.missing_label)
        # The kinds of the columns are known now, so the model is made again. This also warns of columns that
        # are not suitable as categories.
        model = self._make_model(schema)
        self._check_class_prior(classes_of(statistic))
        self._fitted = GenerativeState(schema, model, statistic, declared=_NO_CLASSES)

    @with_sklearn_callbacks
    @with_shards
    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn from rows and their labels; where labels are missing, by EM.

        A label is missing if it is None, NaN or NA, or equals `missing_label`. If EM has not converged after
        `max_iter` iterations, there is a ConvergenceWarning, and `converged_` is False.
        """
        table, schema = read_first_table(X, self._accepts_sparse, self._absent)
        labels = read_labels(y, table.rows, self.missing_label)
        weights = read_weights(sample_weight, table.rows)
        labels, weights, table = drop_weightless(labels, weights, table)
        if not len(labels.keys):
            raise ValueError("no row has a label, expected at least one: without labels, use tamis.Mixture")
        model = self._make_model(schema, labels.keys)
        self._check_suitability(schema, labels.keys)
        data = LabelledRows(model.encode(table), labels, weights)
        labelled = data.select_labelled()
        statistic = model.observe(labelled)
        model = model.choose(labelled, statistic)  # selects settings such as shrinkage='auto'
        posterior = model.infer(statistic)
        if (labels.group < 0).any():
            self._fitted = self._run_em(schema, model, data, posterior, X, y)
        else:
            self._fitted = GenerativeState(schema, model, statistic, _NO_CLASSES, posterior)
        return self

    def _run_em(
        self,
        schema: Schema,
        model: Generative,
        data: LabelledRows | em.RowShards,
        start: Posterior,
        X: object = None,
        y: object = None,
    ) -> GenerativeState:
        """Run EM from the posterior `start`; X and y are passed to callbacks."""
        check_em_options(self.max_iter, self.tol)
        with self._report_progress(self.max_iter, X, y) as report:
            outcome = em.run(model, data, start, self.max_iter, self.tol, lambda step: report(step.objective))
        self._warn_unless_converged(outcome.history)
        return GenerativeState(
            schema, model, outcome.statistic, _NO_CLASSES, outcome.posterior, outcome.history
        )

    @with_shards
    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Learn more rows; the model is as if all rows had been learned at once.

        Classes and categories may be new. `classes`, which is optional, names classes that later rows will
        have. Rows may be a dict or a list of dicts, from the names of columns to values: see `learn_one`.
        """
        self._learn_rows(X, y, classes, sample_weight)
        return self

    def learn_labelled(self, X: object, y: object, sample_weight: object = None) -> int:
        """Learn the rows that have a label, as `partial_fit` does; return the number of the others."""
        return self._learn_rows(X, y, None, sample_weight, skip_unlabelled=True)

    def _learn_rows(
        self, X: object, y: object, classes: object, sample_weight: object, skip_unlabelled: bool = False
    ) -> int:
        state = self._get_state_or_none()
        if isinstance(X, Mapping) and (isinstance(y, str | bytes) or not isinstance(y, Iterable)):
            y = [y]  # the label of the one row
        if state is None:
            table, schema = read_first_table(X, self._accepts_sparse, self._absent)
            state = GenerativeState(schema, self._make_model(schema), statistic=None, declared=_NO_CLASSES)
        else:
            # At most 16 rows of numbers are only stored here, and summed when the statistic is next read.
            # `batch` is None if there are more rows, or if they need the checks below.
            batch = read_few_rows(X, y, state.schema) if classes is None and sample_weight is None else None
            if batch is not None and not state.is_empty and self._can_sum_later(state, *batch):
                self._fitted = state.with_pending(*batch)
                return 0
            state = self._add_columns(state, X)
            table = self._read_table(X, state.schema)
            state = self._adopt_kinds(state, state.schema.with_kinds_of(table))
        labels = read_labels(y, table.rows, self.missing_label)
        weights = read_weights(sample_weight, table.rows)
        is_missing = labels.group < 0
        skipped = int(is_missing.sum())
        if skipped and not skip_unlabelled:
            raise ValueError(
                f"label {int(np.argmax(is_missing))} is missing, expected all labels in partial_fit: "
                "leave those rows out, or call fit with all rows"
            )
        if skipped == table.rows:
            return skipped
        if skipped:
            weights = np.where(is_missing, 0.0, 1.0 if weights is None else weights)
        labels, weights, table = drop_weightless(labels, weights, table)
        if skipped and weights is not None and (weights == 1.0).all():
            weights = None
        declared = state.declared if classes is None else state.declared.union(_read_classes(classes))[0]
        if state.is_empty:
            statistic = state.model.observe_table(table, labels, weights)
        elif table.rows > 1:
            statistic = state.statistic + state.model.observe_table(table, labels, weights)
        else:
            data = LabelledRows(state.model.encode(table), labels, weights)
            statistic = state.model.add_rows(state.statistic, data)
        self._check_class_prior(all_classes(statistic, declared))
        self._fitted = state.replace(statistic, declared)
        return skipped

    def learn_shards(self, shards: BatchShards[Batch], anew: bool) -> Self:
        """Learn from rows in shards in one pass: as `fit` if `anew`, else as `partial_fit`.

        Where labels are missing, `fit` continues by EM over the shards.
        """
        if not anew:
            return super().learn_shards(shards, anew)
        learned = learn_in_one_pass(self, shards, skip_unlabelled=True)
        if learned.face is None:
            raise ValueError("no row has a label, expected at least one: without labels, use tamis.Mixture")
        learned.face.infer()
        self._fitted = self._run_shards(learned.face, shards) if learned.unlabelled else learned.face.state_
        return self

    def _run_shards(self, start: Self, shards: BatchShards[Batch]) -> GenerativeState:
        """Run EM over shards; it starts from the model `start` of the rows that have a label."""
        schema, posterior = start.state_.schema, start.posterior_
        model = self._make_model(schema, posterior.keys)
        reader = RowReader(
            type(self).__name__,
            self._accepts_sparse,
            self._takes_missing,
            self._absent,
            self.missing_label,
            schema=schema,
        )
        # Engines with workers keep the encoded rows there; otherwise each pass reads and encodes them again.
        data = shards.map(reader).map(partial(encode_rows, model)).keep()
        return self._run_em(schema, model, data, posterior)

    def _add_columns(self, state: GenerativeState, X: object) -> GenerativeState:
        """Add the new columns of rows given as dicts; their values in earlier rows are missing."""
        rows = list_named_rows(X)
        if rows is None:
            return state
        names = set(require_names(state.schema, type(self).__name__))
        new = dict.fromkeys(name for row in rows for name in row if name not in names)
        if not new:
            return state
        if not self._takes_new_columns:
            raise ValueError(
                f"X has a column {next(iter(new))!r}, which {type(self).__name__} was not fitted with: "
                "drop it"
            )
        return self._adopt_kinds(state, state.schema.with_columns(new))

    # ── one row at a time ──

    def learn_one(self, row: Mapping[Any, Any], label: Any, weight: float = 1.0) -> Self:
        """Learn one row, a dict from the names of columns to values, as `partial_fit` does, but faster.

        The model is the same, to the bit, as if all rows had been learned at once; but products of columns,
        which only the statistic of a `GaussianDiscriminant` with matrices has, are rounded unless `exact` is
        set. If the row does not name a column, its value is missing; in `MultinomialNB` and `ComplementNB` it
        is a count of 0. A name that no row had before becomes a new column, whose values in earlier rows are
        missing; only naive Bayes accepts new columns.

        >>> import tamis
        >>> model = tamis.GaussianNB()
        >>> for row, label in [({"x": 1.0}, "a"), ({"x": 1.5}, "a"), ({"x": 4.0, "y": 2.0}, "b")]:
        ...     model = model.learn_one(row, label)
        >>> model.predict_one({"x": 1.2}), model.n_features_in_
        ('a', 2)
        """
        state = self._get_state_or_none()
        if state is not None and not state.is_empty and type(weight) is float and 0.0 < weight < np.inf:
            table = self._read_plain_row(state, row, label)
            if table is not None:
                self._learn_plain_row(state, table, label, weight)
                return self
        return self.partial_fit([_require_mapping(row)], [label], sample_weight=[weight])

    def _read_plain_row(self, state: GenerativeState, row: Mapping[Any, Any], label: Any) -> Table | None:
        """Read a dict of numbers and strings with its label; None if `partial_fit` must check them."""
        if type(row) is not dict or type(label) not in (str, int, bool) or not self._is_prior_counted():
            return None
        if label == self.missing_label or not state.has_columns(row.keys()):
            return None
        return read_plain_row(row, state.schema, self._absent)

    def _learn_plain_row(self, state: GenerativeState, table: Table, label: Any, weight: float) -> None:
        data = table.data
        if weight == 1.0 and type(data) is np.ndarray and state.model.admits(data):
            # The row is summed when the statistic is next read.
            self._fitted = state.with_pending(data, [label])
            return
        row = state.model.encode(table)
        self._fitted = state.replace(state.model.add_row(state.statistic, row, label, weight))

    def predict_one(self, row: Mapping[Any, Any]) -> Any:
        """Return the most probable class of one row, a dict; None if nothing was learned yet.

        Names that no learned row had are ignored. Columns that the row does not name are read as in
        `learn_one`.
        """
        state = self._get_state_or_none()
        if state is None or state.is_empty:
            _require_mapping(row)
            return None
        posterior, scores = self._score_one(state, row)
        return posterior.keys[int(scores.argmax())]

    def predict_proba_one(self, row: Mapping[Any, Any]) -> dict[Any, float]:
        """Return p(class | row) by class, for one row as in `predict_one`; {} if nothing was learned yet."""
        state = self._get_state_or_none()
        if state is None or state.is_empty:
            _require_mapping(row)
            return {}
        posterior, scores = self._score_one(state, row)
        probabilities = decide.probabilities(self._apply_temperature(scores))
        return dict(zip(posterior.keys, probabilities[0].tolist(), strict=True))

    def _score_one(self, state: GenerativeState, row: Mapping[Any, Any]) -> tuple[Posterior, Array]:
        table = read_plain_row(row, state.schema, self._absent) if type(row) is dict else None
        if table is None:
            table = self._read_rows([_require_mapping(row)], state)
        posterior = self.posterior_
        return posterior, self._score(posterior, state.model.encode(table, learn=False))

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        """What `partial_fit_sums` expects sums of: counts, or flags that are 1 for counts above 0."""
        return None

    def partial_fit_sums(self, sums: Tally, classes: object = None) -> Self:
        """Learn rows of counts that were summed elsewhere: the number of rows of each class, and their sums.

        >>> import tamis
        >>> sums = tamis.stats.Tally.observe([[3, 0], [1, 1], [0, 4]], by=["ham", "ham", "spam"])
        >>> tamis.MultinomialNB().partial_fit_sums(sums).predict([[2, 1]]).tolist()
        ['ham']
        """
        given: object = sums
        if not isinstance(given, Tally) or sums.keys is None or len(sums.total.shape) != 2:
            raise TypeError("expected sums by class: tamis.stats.Tally.observe(rows, by=labels)")
        width = sums.total.shape[-1]
        state = self._get_state_or_none()
        if state is None:
            schema = Schema(width, "number")
            state = GenerativeState(schema, self._make_model(schema), statistic=None, declared=_NO_CLASSES)
        elif width != state.schema.width:
            raise ValueError(f"got sums of {width} columns, expected {state.schema.width}")
        part = state.model.convert_sums(sums)
        declared = state.declared if classes is None else state.declared.union(_read_classes(classes))[0]
        statistic = part if state.is_empty else state.statistic + part
        state.model.refuse_impossible(statistic)  # raises if no rows could have these sums
        self._check_class_prior(all_classes(statistic, declared))
        self._fitted = state.replace(statistic, declared)
        return self

    def _can_sum_later(self, state: GenerativeState, values: Array, labels: list[Any]) -> bool:
        """Return whether to learn these rows cannot raise an error, so that they may be summed later."""
        return state.model.admits(values) and self.missing_label not in labels and self._is_prior_counted()

    def unlearn(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Forget rows, with their labels and weights; the model is as if they had never been learned."""
        state = self.state_
        table, labels = self._read_learned(state, X, y)
        learned_classes = set(classes_of(state.statistic))
        for key in labels.keys:
            if key not in learned_classes:
                raise ValueError(
                    f"label {key!r} was never learned, expected one of {classes_of(state.statistic)!r}: "
                    "nothing was changed"
                )
        weights = read_weights(sample_weight, table.rows)
        labels, weights, table = drop_weightless(labels, weights, table)
        rest = state.statistic - self._observe(state, table, labels, weights)
        keys = all_classes(rest, state.declared)
        # This raises an error if rows were subtracted that had not been learned, and a sum is below 0 now.
        self._make_model(state.schema, keys, state.declared).refuse_impossible(rest)
        refuse_to_forget_all(len(classes_of(rest)))
        self._fitted = state.replace(rest)
        return self

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most probable class of each row; many rows are scored in parts, to save memory."""
        posterior, rows, _ = self._encode(X)
        if len(rows) * len(posterior.keys) <= _MAX_CELLS:
            return np.asarray(self.classes_[posterior.log_joint(rows).argmax(axis=1)])
        parts = (rows.take(run) for run in runs(len(rows), len(posterior.keys), _MAX_CELLS))
        best = [posterior.log_joint(part).argmax(axis=1) for part in parts]
        return np.asarray(self.classes_[np.concatenate(best)])

    def decide(self, X: object, loss: ArrayLike | None = None, reject: float | None = None) -> NDArray[Any]:
        """Return the class of the least expected loss; None if `reject`, the cost of no answer, is less.

        If the number of actions, the columns of `loss`, is not that of classes, the index of the best action
        is returned instead, and −1 if rejecting costs less. See `tamis.decide`.
        """
        chosen = decide.decide(self._apply_temperature(self.predict_joint_log_proba(X)), loss, reject)
        if reject is None and loss is None:
            return self.classes_[chosen]
        named = np.empty(len(self.classes_) + 1, dtype=object)
        named[:-1] = self.classes_
        return named[chosen] if loss is None or np.shape(loss)[1] == len(self.classes_) else chosen

    def cross_validate(
        self,
        X: object,
        y: object,
        folds: int | str | ArrayLike = 5,
        *,
        sample_weight: object = None,
        groups: object = None,
        random_state: Any = None,
    ) -> validate.HeldOut:
        """Predict each row by a model that was fitted without its fold; this takes one pass over the rows.

        `folds` is a number, the fold of each row, or "leave-one-out"; the rows of a group are in one fold.
        The result has no rows of weight zero.
        """
        table, schema = read_first_table(X, self._accepts_sparse)
        labels = read_labels(y, table.rows, self.missing_label)
        if (labels.group < 0).any():
            raise ValueError("a label is missing, expected all of them to be known in cross-validation")
        weights = read_weights(sample_weight, table.rows)
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            folds = folds if np.ndim(folds) == 0 else np.asarray(folds)[kept]
            groups = None if groups is None else np.asarray(groups)[kept]
            labels, weights, table = drop_weightless(labels, weights, table)
        model = self._make_model(schema, labels.keys)
        data = LabelledRows(model.encode(table), labels, weights)
        fold = read_folds(folds, len(data.rows), labels.group, groups, random_state)
        if fold is None:
            return validate.leave_one_out(model, data)
        return validate.cross_validate(model, data, fold)

    def calibrate(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Calibrate probabilities by predicting each of these learned rows without itself (leave-one-out).

        One number, the temperature, is fitted (see `tamis.decide.Temperature`); from then on `predict_proba`
        and `predict_log_proba` use it. It does not change what `predict` returns. If all rows are predicted
        correctly, or no better than by chance, the best temperature would be 0 or infinite; then it is set to
        a bound, and there is a ConvergenceWarning.
        """
        state, data = self.state_, self._read_labelled_rows(X, y, sample_weight)
        model = self._make_model(state.schema, self.posterior_.keys, state.declared)
        held_out = validate.leave_one_out(model, data, state.statistic)
        temperature = decide.Temperature.fit(held_out.log_joint, held_out.group, held_out.weights)
        if temperature.is_at_bound:
            reason = _AT_LOWER_BOUND if temperature.value < 1.0 else _AT_UPPER_BOUND
            warn(f"{reason.format(temperature.value)}, {_REMEDY}", ConvergenceWarning)
        self._fitted = state.replace(posterior=self.posterior_, temperature=temperature.value)
        return self

    def tune(
        self,
        X: object = None,
        y: object = None,
        by: Literal["evidence", "leave-one-out"] = "evidence",
        sample_weight: object = None,
        **grid: Iterable[Any],
    ) -> Self:
        """Set one parameter to the best of some values, and infer again: `tune(alpha=[0.1, 1])`.

        `by="evidence"` needs no rows; `by="leave-one-out"` needs the learned rows again, with their labels
        and weights, but does not learn them again. `tune_scores_` holds the score of each value.
        """
        state = self.state_
        if len(grid) != 1:
            raise ValueError(f"got {len(grid)} parameters to tune, expected one: tune(alpha=[0.1, 1.0])")
        ((name, values),) = grid.items()
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise TypeError(
                f"got {name}={values!r}, expected a list of values to try: tune(alpha=[0.1, 1.0])"
            )
        if by == "leave-one-out" and (X is None or y is None):
            raise ValueError("got no rows to leave out, expected X and y, or by='evidence', which needs none")
        candidates = {}
        for value in values:
            if not isinstance(value, Hashable):
                raise TypeError(f"got {name}={value!r} to try, expected numbers, strings or None")
            candidates[value] = self._make_candidate(state, {name: value})
        data = self._read_labelled_rows(X, y, sample_weight) if by == "leave-one-out" else state.statistic
        selection = validate.choose(candidates, data, by)
        if len(candidates) > 1 and len(set(selection.scores.values())) == 1:
            raise ValueError(
                f"all values of {name} have the same score by {by}, expected a parameter that makes a "
                "difference: tune another, or by='leave-one-out'"
            )
        self.infer(**{name: selection.best})
        self.tune_scores_ = dict(selection.scores)
        return self

    def _make_candidate(self, state: GenerativeState, params: dict[str, Any]) -> Generative:
        """Return the model with these parameters; those of the face stay as they are."""
        keys, before = self.posterior_.keys, self.get_params(deep=False)
        try:
            self.set_params(**params)
            return self._make_model(state.schema, keys, state.declared)
        finally:
            self.set_params(**before)

    def _read_learned(self, state: GenerativeState, X: object, y: object) -> tuple[Table, Labels]:
        """Read rows that were learned before, and their labels."""
        table = self._read_rows(X, state)
        labels = read_labels(y, table.rows, self.missing_label)
        if (labels.group < 0).any():
            raise ValueError("a label is missing, expected those that the rows were learned with")
        return table, labels

    def _read_labelled_rows(self, X: object, y: object, sample_weight: object) -> LabelledRows:
        """Read and encode rows that were learned before."""
        state = self.state_
        table, labels = self._read_learned(state, X, y)
        weights = read_weights(sample_weight, table.rows)
        labels, weights, table = drop_weightless(labels, weights, table)
        return LabelledRows(state.model.encode(table), labels, weights)


def _require_mapping(row: object) -> Mapping[Any, Any]:
    if not isinstance(row, Mapping):
        raise TypeError(
            f"got a row of type {type(row).__name__}, expected a dict from names of columns to values: call "
            "partial_fit or predict with rows of another kind"
        )
    return row


def _read_classes(classes: object) -> Keys:
    if not isinstance(classes, Iterable) or isinstance(classes, str | bytes | Mapping):
        raise TypeError(f"got classes={classes!r}, expected a list of labels")
    return Keys.of(np.asarray(classes) if isinstance(classes, list | tuple) else classes)[0]


def _restore_type(values: NDArray[Any], kind: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Convert drawn floats to integers or flags, if the column held those; `dtype` is that of the draws."""
    if values.dtype.kind != "f" or dtype is np.float64 or kind not in ("bool", "integer"):
        return values
    return values.astype(dtype if kind == "bool" else np.int64)


def _format_params(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items())
