"""The base of all generative faces: what follows from a statistic, whether labels are given or not.

The state is a statistic; the posterior is inferred from it when it is first needed. To learn is to add to the
statistic.
"""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tamis import decide
from tamis.arrays import Array
from tamis.estimators import answers
from tamis.estimators.base import TableFace
from tamis.estimators.explanation import Explanation, contrasted
from tamis.estimators.generative_state import GenerativeState
from tamis.estimators.saved import check_statistic
from tamis.inputs import read_next_table, to_label_array
from tamis.models.generative import Block, Encoded, Generative, LabelledRows, Posterior
from tamis.models.generative.em import History
from tamis.models.generative.model import all_classes
from tamis.parameters import check_decay_factor
from tamis.schema import Schema
from tamis.stats import Joint, Keys, Labels
from tamis.tables import Table
from tamis.warning import warn


class GenerativeFace(TableFace[GenerativeState]):
    """What all generative models do; each face defines its blocks of columns."""

    @property
    def _sparse(self) -> bool:
        """Whether sparse rows are taken."""
        return True

    @property
    def _takes_missing(self) -> bool:
        """Whether NaN is taken, for a value that is missing."""
        return True

    _learned_with: ClassVar[tuple[str, ...]] = ()  # parameters by which rows are summed

    max_iter: int
    tol: float
    verbose: int

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        """The blocks of a model of these columns."""
        raise NotImplementedError

    def _class_prior(self, classes: Keys) -> dict[str, Any]:
        """The arguments of `Generative` that define the probabilities of the classes."""
        return {}

    def _model(self, schema: Schema, classes: Keys, declared: Keys) -> Generative:
        return Generative(self._blocks(schema), classes=declared, **self._class_prior(classes))

    def _describe_choice(self) -> Any:
        """For a file: what was chosen from the rows besides their sums; None for most faces."""
        return None

    def _restore_choice(self, model: Generative, description: Any) -> Generative:
        """The model with the choice that a file describes."""
        return model

    # ── the algebra ──

    def merge(self, *others: Self) -> Self:
        """Add the statistics of other models of the same class and columns."""
        states = self._states_to_merge(others)
        schema = states[0].schema
        for state in states[1:]:
            schema = schema.with_kinds_of(state.schema)
        fitted, *rest = (self._adopt_kinds(state, state.schema.with_kinds_of(schema)) for state in states)
        statistic, declared = fitted.statistic, fitted.declared
        for theirs in rest:
            if not theirs.model.sums_like(fitted.model):
                raise ValueError(
                    "the models sum rows in different ways, expected the same families of the same columns, "
                    "the same form of covariance and the same thresholds: fit them alike"
                )
            statistic = statistic + theirs.statistic
            declared = declared.union(theirs.declared)[0]
        self._class_prior(all_classes(statistic, declared))
        self._fitted = fitted.replace(statistic, declared)
        return self

    def decay(self, factor: float) -> Self:
        """Let everything learned so far count `factor` times as much."""
        fitted = self.state_
        self._fitted = fitted.replace(fitted.statistic * check_decay_factor(factor))
        return self

    def infer(self, **params: Any) -> Self:
        """Set parameters and infer again from the statistic, without reading data again.

        The temperature that `calibrate` fitted belongs to the old parameters and is dropped.
        """
        fitted = self.state_
        before = self.get_params(deep=False)
        for name in self._learned_with:
            if name in params and params[name] != before[name]:
                raise ValueError(
                    f"got {name}={params[name]!r}, expected {before[name]!r}, which the rows were learned "
                    "with: fit a new model instead"
                )
        with self._try_params(params):
            model = self._model(fitted.schema, Keys(()), Keys(()))
            if not model.sums_like(fitted.model):
                raise ValueError(
                    f"got {_format_params(params)}, by which rows are summed in another way than "
                    "those that were learned: fit a new model instead"
                )
            posterior = self._infer_posterior(fitted)
        self._fitted = GenerativeState(
            fitted.schema,
            model,
            fitted.statistic,
            fitted.declared,
            posterior,
            fitted.history,
        )
        return self

    def _observe(self, fitted: GenerativeState, table: Table, labels: Labels, weights: Array | None) -> Joint:
        model = fitted.model
        return model.observe(LabelledRows(model.encode(table), labels, weights))

    # ── what was learned ──

    def _infer_posterior(self, fitted: GenerativeState) -> Posterior:
        keys = all_classes(fitted.statistic, fitted.declared)
        return self._model(fitted.schema, keys, fitted.declared).infer(fitted.statistic)

    @property
    def posterior_(self) -> Posterior:
        """What was inferred from the statistic with the present parameters."""
        fitted = self.state_
        if fitted.posterior is None:
            fitted.posterior = self._infer_posterior(fitted)
        return fitted.posterior

    @property
    def statistic_(self) -> Joint:
        """The sufficient statistic of all rows that were learned."""
        return self._state_for("statistic_").statistic

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of all answers."""
        fitted = self._state_for("classes_")
        if fitted.classes is None:
            keys = all_classes(fitted.statistic, fitted.declared)
            fitted.classes = to_label_array(keys)
        return fitted.classes

    @property
    def n_iter_(self) -> int:
        """Iterations of EM; 1 where all labels were given."""
        history = self._state_for("n_iter_").history
        return 1 if history is None else history.iterations

    @property
    def converged_(self) -> bool:
        """Whether the log-likelihood gained less than `tol` in the end; True where all labels were given."""
        history = self._state_for("converged_").history
        return history is None or history.converged

    @property
    def lower_bound_(self) -> float:
        """The mean log-likelihood per row that the last iteration of EM began with.

        An iteration never lowers the log-likelihood where there is no prior, so that this is a lower bound
        on that of the fitted model. Rows with a label count with it: log p(x, label).
        """
        return float(self.lower_bounds_[-1])

    @property
    def lower_bounds_(self) -> Array:
        """The mean log-likelihood per row that each iteration of EM began with (n_iter_,)."""
        history = self._state_for("lower_bounds_").history
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
        self._state_for("class_count_")
        posterior = self.posterior_
        counts: Any = self.statistic_["classes"]
        weights = np.zeros(len(posterior.keys))
        weights[posterior.keys.find(counts.terms)] = counts.total.value
        return weights

    @property
    def class_log_prior_(self) -> Array:
        """log p(class)."""
        self._state_for("class_log_prior_")
        return self.posterior_.log_prior

    @property
    def log_evidence_(self) -> float:
        """log p(rows | labels) with the parameters integrated out, where that has a closed form."""
        self._state_for("log_evidence_")
        return self.posterior_.log_evidence()

    # ── answers ──

    def _read_rows(self, X: object, fitted: GenerativeState) -> Table:
        """Further rows of the same columns; words in a column of unknown kind count as missing."""
        table = read_next_table(X, fitted.schema, type(self).__name__, self._sparse, self._takes_missing)
        return table.blank_categories(fitted.schema.unknown_columns)

    def _adopt_kinds(self, fitted: GenerativeState, schema: Schema) -> GenerativeState:
        """The state that a model of these kinds of columns would have after the same rows."""
        if schema is fitted.schema:
            return fitted
        return fitted.with_columns(schema, self._model(schema, Keys(()), Keys(())))

    def _encode(self, X: object) -> tuple[Posterior, Encoded, Table]:
        fitted = self.state_
        table = self._read_rows(X, fitted)
        return self.posterior_, fitted.model.encode(table, learn=False), table

    def predict_joint_log_proba(self, X: object) -> Array:
        """log p(x, class), (n, classes)."""
        posterior, rows, _ = self._encode(X)
        return posterior.log_joint(rows)

    def predict_log_proba(self, X: object) -> Array:
        """log p(class | x), (n, classes)."""
        return decide.log_probabilities(self._apply_temperature(self.predict_joint_log_proba(X)))

    def predict_proba(self, X: object) -> Array:
        """p(class | x), (n, classes)."""
        return decide.probabilities(self._apply_temperature(self.predict_joint_log_proba(X)))

    def _apply_temperature(self, joint: Array) -> Array:
        temperature = self.state_.temperature
        return joint if temperature == 1.0 else decide.Temperature(temperature).apply(joint)

    @property
    def temperature_(self) -> float:
        """The divisor of log-odds before they become probabilities: 1 until `calibrate` sets it."""
        return self._state_for("temperature_").temperature

    def decision_function(self, X: object) -> Array:
        """Log-odds of the second class against the first, (n,); with more classes, log p(x, class)."""
        return answers.decision(self.predict_joint_log_proba(X))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, NDArray[Any]]:
        """Rows and their labels, drawn from the model."""
        fitted = self.state_
        return answers.drawn(self, self.posterior_, fitted.schema, n_samples, random_state)

    def explain(self, X: object, for_: object = None, against: object = None) -> Explanation:
        """How much each column adds to the log-odds of one class against another; see `Explanation`.

        With two classes it is the second against the first; with more, the likeliest class of each row
        against the next, unless they are named.
        """
        posterior, rows, table = self._encode(X)
        if len(posterior.keys) < 2:
            raise ValueError("got a model of one class, expected two or more to compare")
        joint = posterior.log_joint(rows)
        one, other = answers.opponents(joint, posterior.keys, for_, against)
        contrasts, prior = contrasted(posterior, rows, one, other)
        return answers.explanation(self, contrasts, prior, one, other, X, table)

    # ── files ──

    def describe_state(self) -> dict[str, Any]:
        fitted = self.state_
        schema, history = fitted.schema, fitted.history
        return {
            "schema": schema.to_tuple(),
            "statistic": fitted.statistic,
            "declared": fitted.declared,
            "history": history
            and {
                "log_likelihoods": np.array(history.log_likelihoods),
                "weight": history.weight,
                "converged": history.converged,
            },
            "temperature": fitted.temperature,
            "choice": self._describe_choice(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        schema, history = Schema(*state["schema"]), state["history"]
        model = self._model(schema, Keys(()), Keys(()))
        check_statistic(model, state["statistic"], schema.width)
        self._fitted = GenerativeState(
            schema,
            self._restore_choice(model, state.get("choice")),
            state["statistic"],
            state["declared"],
            history=history
            and History(
                tuple(history["log_likelihoods"].tolist()), float(history["weight"]), history["converged"]
            ),
            temperature=float(state["temperature"]),
        )


def _format_params(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items())
