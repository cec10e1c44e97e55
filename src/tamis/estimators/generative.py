"""The face of every generative classifier: scikit-learn's verbs, and those of the algebra."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning

from tamis import decide, validate
from tamis.arrays import Array
from tamis.estimators import answers
from tamis.estimators.base import with_callbacks
from tamis.estimators.generative_face import GenerativeFace
from tamis.estimators.generative_state import GenerativeState
from tamis.estimators.reading import read_labels
from tamis.inputs import read_few_rows, read_first_table, read_next_table, read_weights
from tamis.models.generative import Generative, LabelledRows, em
from tamis.models.generative.model import all_classes, classes_of
from tamis.parameters import check_class_probabilities, check_em_options, check_nonnegative
from tamis.schema import Schema
from tamis.stats import Keys, Labels, Tally
from tamis.tables import Table, runs
from tamis.warning import warn

_CELLS = 1 << 22  # log-probabilities in memory at a time
_UNCALIBRATED = {
    True: "every row has its own class ahead when it is left out, so that temperature_ is held at {:.2g} and "
    "probabilities are nearly all 0 or 1",
    False: "left-out rows are told no better than by chance, so that temperature_ is held at {:.2g} and all "
    "classes are nearly as probable",
}
_REMEDY = "expected some rows told right and some wrong: calibrate with more rows, or undo it by infer()"


class GenerativeClassifier(ClassifierMixin, GenerativeFace):  # type: ignore[misc]  # scikit-learn has no types
    """What all generative classifiers do. `fit`, `partial_fit`, `merge`, `unlearn` and `decay` are sums."""

    priors: ArrayLike | Mapping[Any, float] | None = None  # the classes' probabilities
    missing_label: object
    unlabelled_weight: float

    def _class_prior(self, classes: Keys) -> dict[str, Any]:
        return {"prior": check_class_probabilities(self.priors, classes)}

    def _counts_classes(self) -> bool:
        """Whether a class that is new needs no probability to be given for it."""
        return self.priors is None

    def _model(self, schema: Schema, classes: Keys, declared: Keys) -> Generative:
        found = super()._model(schema, classes, declared)
        weight = check_nonnegative("unlabelled_weight", self.unlabelled_weight)
        return replace(found, unlabelled_weight=weight)

    def _refuse_classes(self, schema: Schema, classes: Keys) -> None:
        """Raise if the parameters do not fit these columns and classes; for a face that has such ones."""

    @with_callbacks
    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Learn from rows and their labels; where labels are missing, by EM.

        A label is missing if it is None, NaN or NA, or equals `missing_label`. If EM has not converged after
        `max_iter` iterations, there is a ConvergenceWarning, and `converged_` is False.
        """
        table, schema = read_first_table(X, self._sparse)
        filed = read_labels(y, table.rows, self.missing_label)
        weighed = read_weights(sample_weight, table.rows)
        filed, weighed, table = _weighty(filed, weighed, table)
        if not len(filed.keys):
            raise ValueError("no row has a label, expected at least one: see tamis.Mixture for none")
        model = self._model(schema, filed.keys, Keys(()))
        self._refuse_classes(schema, filed.keys)
        evidence = LabelledRows(model.encode(table), filed, weighed)
        known = evidence.select_labelled()
        statistic = model.observe(known)
        model = model.choose(known, statistic)
        posterior = model.infer(statistic)
        history = None
        if (filed.group < 0).any():
            check_em_options(self.max_iter, self.tol)
            with self._report_progress(self.max_iter, X, y) as watch:
                outcome = em.run(model, evidence, posterior, self.max_iter, self.tol, watch=watch)
            statistic, posterior, history = outcome.statistic, outcome.posterior, outcome.history
            self._warn_unless_converged(history)
        self._fitted = GenerativeState(schema, model, statistic, Keys(()), posterior, history)
        return self

    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Learn more rows: the model is as if all had come at once. New classes and categories just work.

        `classes` may name classes that are still to come, and need not.
        """
        fitted = self._find_state()
        if fitted is None:
            table, schema = read_first_table(X, self._sparse)
            fitted = GenerativeState(schema, self._model(schema, Keys(()), Keys(())), None, Keys(()))
        else:
            few = read_few_rows(X, y, fitted.schema) if classes is None and sample_weight is None else None
            if few is not None and not fitted.is_empty and self._takes(fitted, *few):
                self._fitted = fitted.with_pending(*few)
                return self
            table = read_next_table(X, fitted.schema, type(self).__name__, self._sparse, self._takes_missing)
            fitted = self._adopt_kinds(fitted, fitted.schema.with_kinds_of(table))
        filed = read_labels(y, table.rows, self.missing_label)
        if (filed.group < 0).any():
            raise ValueError(
                f"label {int(np.argmax(filed.group < 0))} is missing, expected all labels in partial_fit: "
                "leave those rows out, or call fit with all rows"
            )
        weighed = read_weights(sample_weight, table.rows)
        filed, weighed, table = _weighty(filed, weighed, table)
        declared = fitted.declared if classes is None else fitted.declared.union(_declared(classes))[0]
        part = self._observe(fitted, table, filed, weighed)
        statistic = part if fitted.is_empty else fitted.statistic + part
        self._class_prior(all_classes(statistic, declared))
        self._fitted = fitted.replace(statistic, declared)
        return self

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        """The sums that `partial_fit_sums` takes: of counts, or of flags that mark counts above 0."""
        return None

    def partial_fit_sums(self, sums: Tally, classes: object = None) -> Self:
        """Learn rows of counts that were summed elsewhere: how many there are of each class, and their sums.

        >>> import tamis
        >>> sums = tamis.stats.Tally.observe([[3, 0], [1, 1], [0, 4]], by=["ham", "ham", "spam"])
        >>> tamis.MultinomialNB().partial_fit_sums(sums).predict([[2, 1]]).tolist()
        ['ham']
        """
        given: object = sums
        if not isinstance(given, Tally) or sums.keys is None or len(sums.total.shape) != 2:
            raise TypeError("expected sums by class: tamis.stats.Tally.observe(rows, by=labels)")
        width = sums.total.shape[-1]
        fitted = self._find_state()
        if fitted is None:
            schema = Schema(width, "number")
            fitted = GenerativeState(schema, self._model(schema, Keys(()), Keys(())), None, Keys(()))
        elif width != fitted.schema.width:
            raise ValueError(f"got sums of {width} columns, expected {fitted.schema.width}")
        part = fitted.model.convert_sums(sums)
        declared = fitted.declared if classes is None else fitted.declared.union(_declared(classes))[0]
        statistic = part if fitted.is_empty else fitted.statistic + part
        fitted.model.refuse_impossible(statistic)
        self._class_prior(all_classes(statistic, declared))
        self._fitted = fitted.replace(statistic, declared)
        return self

    def _takes(self, fitted: GenerativeState, values: Array, named: list[Any]) -> bool:
        """Whether rows are sure to be learned without a complaint, so that they may wait."""
        return fitted.model.admits(values) and self.missing_label not in named and self._counts_classes()

    def unlearn(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Forget rows that were learned, with their labels and weights: as if they had never come."""
        fitted = self.state_
        table, filed = self._learned_rows(fitted, X, y)
        known = set(classes_of(fitted.statistic))
        for key in filed.keys:
            if key not in known:
                raise ValueError(
                    f"label {key!r} was never learned, expected one of {classes_of(fitted.statistic)!r}: "
                    "nothing was changed"
                )
        weighed = read_weights(sample_weight, table.rows)
        filed, weighed, table = _weighty(filed, weighed, table)
        rest = fitted.statistic - self._observe(fitted, table, filed, weighed)
        keys = all_classes(rest, fitted.declared)
        self._model(fitted.schema, keys, fitted.declared).refuse_impossible(rest)
        if not len(classes_of(rest)):
            raise ValueError(
                "every row would be forgotten, expected some to be left: make a new model instead; "
                "nothing was changed"
            )
        self._fitted = fitted.replace(rest)
        return self

    def predict(self, X: object) -> NDArray[Any]:
        """The most probable class of each row; no more than some rows' probabilities are held at a time."""
        posterior, rows, _ = self._encode(X)
        if len(rows) * len(posterior.keys) <= _CELLS:
            return np.asarray(self.classes_[posterior.log_joint(rows).argmax(axis=1)])
        parts = (rows.take(run) for run in runs(len(rows), len(posterior.keys), _CELLS))
        best = [posterior.log_joint(part).argmax(axis=1) for part in parts]
        return np.asarray(self.classes_[np.concatenate(best)])

    def decide(self, X: object, loss: ArrayLike | None = None, reject: float | None = None) -> NDArray[Any]:
        """The class with the least expected loss; None where rejecting costs less. See `tamis.decide`."""
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
        """Answers for each row from a model that never saw its fold, for the price of one pass.

        `folds` is a number, the fold of each row, or "leave-one-out"; rows of one group stay together. Rows
        of no weight are left out of the answer.
        """
        table, schema = read_first_table(X, self._sparse)
        filed = read_labels(y, table.rows, self.missing_label)
        if (filed.group < 0).any():
            raise ValueError("a label is missing, expected all of them to be known in cross-validation")
        weighed = read_weights(sample_weight, table.rows)
        if weighed is not None and not weighed.all():
            kept = np.flatnonzero(weighed)
            folds = folds if np.ndim(folds) == 0 else np.asarray(folds)[kept]
            groups = None if groups is None else np.asarray(groups)[kept]
            filed, weighed, table = _weighty(filed, weighed, table)
        model = self._model(schema, filed.keys, Keys(()))
        evidence = LabelledRows(model.encode(table), filed, weighed)
        return answers.held_out(model, evidence, folds, groups, random_state)

    def calibrate(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Make probabilities as sure as they are right, by rows that were learned, each left out in turn.

        One number, the temperature, is fitted (see `tamis.decide.Temperature`); from then on `predict_proba`
        and `predict_log_proba` go by it. It changes no prediction. Where all rows are told right, or told no
        better than by chance, no temperature is the best: it is held at a bound, with a ConvergenceWarning.
        """
        fitted, evidence = self.state_, self._evidence(X, y, sample_weight)
        model = self._model(fitted.schema, self.posterior_.keys, fitted.declared)
        held = validate.leave_one_out(model, evidence, fitted.statistic)
        found = decide.Temperature.fit(held.log_joint, held.group, held.weights)
        if found.is_at_bound:
            happened = _UNCALIBRATED[found.value < 1.0].format(found.value)
            warn(f"{happened}, {_REMEDY}", ConvergenceWarning)
        self._fitted = fitted.replace(posterior=self.posterior_, temperature=found.value)
        return self

    def tune(
        self,
        X: object = None,
        y: object = None,
        by: Literal["evidence", "leave-one-out"] = "evidence",
        sample_weight: object = None,
        **grid: Iterable[Any],
    ) -> Self:
        """Set the parameter named to the best of the values given, and infer again: `tune(alpha=[0.1, 1])`.

        By evidence what was learned is enough; leaving one out takes rows that were learned, with their
        labels and weights, and reads them without learning them again. `tune_scores_` tells what each value
        came to.
        """
        fitted = self.state_
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
                raise TypeError(f"got {name}={value!r} to try, expected values like numbers, words or None")
            candidates[value] = self._candidate(fitted, {name: value})
        data = self._evidence(X, y, sample_weight) if by == "leave-one-out" else fitted.statistic
        choice = validate.choose(candidates, data, by)
        if len(candidates) > 1 and len(set(choice.scores.values())) == 1:
            raise ValueError(
                f"all values of {name} come to the same by {by}, expected a parameter that makes a "
                "difference: tune another, or by='leave-one-out'"
            )
        self.infer(**{name: choice.best})
        self.tune_scores_ = dict(choice.scores)
        return self

    def _candidate(self, fitted: GenerativeState, params: dict[str, Any]) -> Generative:
        other = clone(self).set_params(**params)
        other._fitted = fitted  # which holds what was chosen from the rows
        found: Generative = other._model(fitted.schema, self.posterior_.keys, fitted.declared)
        return found

    def _learned_rows(self, fitted: GenerativeState, X: object, y: object) -> tuple[Table, Labels]:
        """Rows that were learned, and their labels."""
        table = self._read_rows(X, fitted)
        filed = read_labels(y, table.rows, self.missing_label)
        if (filed.group < 0).any():
            raise ValueError("a label is missing, expected those that the rows were learned with")
        return table, filed

    def _evidence(self, X: object, y: object, sample_weight: object) -> LabelledRows:
        """Rows that were learned, as the model keeps them."""
        fitted = self.state_
        table, filed = self._learned_rows(fitted, X, y)
        weighed = read_weights(sample_weight, table.rows)
        filed, weighed, table = _weighty(filed, weighed, table)
        return LabelledRows(fitted.model.encode(table), filed, weighed)


def _declared(classes: object) -> Keys:
    if not isinstance(classes, Iterable) or isinstance(classes, str | bytes | Mapping):
        raise TypeError(f"got classes={classes!r}, expected a list of labels")
    return Keys.of(np.asarray(classes) if isinstance(classes, list | tuple) else classes)[0]


def _weighty(filed: Labels, weighed: Array | None, table: Table) -> tuple[Labels, Array | None, Table]:
    """Less the rows of no weight: a class or category that only they have was never there."""
    if weighed is None or weighed.all():
        return filed, weighed, table
    kept = weighed > 0
    left = filed.take(np.flatnonzero(kept))
    seen = np.zeros(len(filed.keys), dtype=np.bool_)
    seen[left.group[left.group >= 0]] = True
    place = np.append(np.cumsum(seen) - 1, -1)
    return Labels(filed.keys.keep(seen), place[left.group]), weighed[kept], table.take(np.flatnonzero(kept))
