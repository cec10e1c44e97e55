"""What a fitted PCA shows: scikit-learn's attributes and its own, and what a file holds of it."""

from dataclasses import replace
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.estimators.linear_face import LinearFace
from tamis.estimators.pca_learning import Learned
from tamis.models.components import Components, PrincipalComponents
from tamis.schema import Schema
from tamis.stats import Moments


class ComponentsFace(LinearFace[Any]):
    """The attributes, read off what was inferred; that is done when it is first asked for."""

    def _model(self) -> PrincipalComponents:
        raise NotImplementedError

    def _learned(self, name: str) -> Learned:
        fitted: Any = self._state_for(name)
        return fitted  # type: ignore[no-any-return]

    def _components(self, wanted: str = "") -> Components:
        fitted: Learned = self._learned(wanted) if wanted else self.state_
        if fitted.inferred is not None:
            return fitted.inferred
        try:
            found = self._model().infer(fitted.summed("infer from"))
        except ValueError as problem:
            if wanted:  # so that `hasattr` says no
                raise AttributeError(f"no {wanted}: {problem}") from None
            raise
        self._fitted = replace(fitted, inferred=found)
        return found

    @property
    def statistic_(self) -> Moments:
        """All that was learned, if the solver keeps it."""
        fitted = self._learned("statistic_")
        if fitted.statistic is None:
            raise AttributeError(f"no statistic_: solver={fitted.solver!r} keeps none, 'moments' does")
        return fitted.whole

    @property
    def solver_(self) -> str:
        """The solver that was used."""
        return self._learned("solver_").solver

    @property
    def components_(self) -> Array:
        """Directions of largest variance (n_components, d), largest first; the largest entry is positive."""
        return self._components("components_").directions

    @property
    def n_components_(self) -> int:
        """How many there are."""
        return self._components("n_components_").count

    @property
    def _n_features_out(self) -> int:
        return self._components().count

    @property
    def explained_variance_(self) -> Array:
        """The variance along each (n_components,), divided by the total weight less one."""
        return self._components("explained_variance_").variances

    @property
    def explained_variance_ratio_(self) -> Array:
        """Its share of the variance of all columns; 0 if nothing varies."""
        return self._components("explained_variance_ratio_").ratios

    @property
    def singular_values_(self) -> Array:
        """Of the centred rows (n_components,)."""
        found = self._components("singular_values_")
        return np.asarray(np.sqrt(found.variances * found.freedom))

    @property
    def noise_variance_(self) -> float:
        """The mean variance in the directions left over; 0 if there are none."""
        return self._components("noise_variance_").noise

    @property
    def mean_(self) -> Array:
        """Of each column (d,)."""
        return self._components("mean_").mean

    @property
    def n_samples_(self) -> float:
        """The total weight: the number of rows, if they were not weighed."""
        weight = self._components("n_samples_").weight
        return int(weight) if weight.is_integer() else weight

    @property
    def n_samples_seen_(self) -> float:
        """The same, by the name that scikit-learn's IncrementalPCA has for it."""
        return self.n_samples_

    @property
    def n_iter_(self) -> int:
        """The steps of EM; 1 if there were no gaps."""
        return max(1, len(self._learned("n_iter_").likelihoods))

    @property
    def log_likelihoods_(self) -> Array:
        """Of what was seen of rows with gaps, after each step of EM (n_iter_,): it never falls."""
        found = self._learned("log_likelihoods_").likelihoods
        if not found:
            raise AttributeError("no log_likelihoods_: there were no gaps to be guessed by EM")
        return np.array(found)

    @property
    def count_scores_(self) -> Array:
        """Of 1, 2, … components: Minka's log-evidence, or the mean log-density of rows held out."""
        found = self._components("count_scores_").scores
        if found is None:
            raise AttributeError("no count_scores_: n_components was not 'mle' or 'held-out'")
        return found

    @property
    def error_bound_(self) -> float:
        """Bound on the largest singular value that the components leave of the centred rows.

        Of the randomized solver, with probability 1 − 10⁻¹⁰; no components could leave less than the singular
        value after theirs. The other solvers leave just that, and say 0.
        """
        return self._components("error_bound_").error

    def describe_state(self) -> dict[str, Any]:
        fitted: Learned = self.state_
        schema = fitted.schema
        found = None
        if (c := fitted.inferred) is not None:  # which parameters set since then say nothing of
            numbers = (c.noise, c.total, c.weight, c.freedom, c.error)
            found = {"mean": c.mean, "directions": c.directions, "variances": c.variances, "numbers": numbers}
            found["scores"] = c.scores
        return {
            "schema": (schema.width, schema.kinds, schema.names, schema.library),
            "statistic": fitted.statistic,
            "solver": fitted.solver,
            "likelihoods": np.array(fitted.likelihoods, dtype=np.float64),
            "components": found,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        schema, statistic, kept = Schema(*state["schema"]), state["statistic"], state["components"]
        widths, inferred = [], None
        if statistic is not None or kept is None:
            if not isinstance(statistic, Moments) or statistic.form != "full":
                raise TypeError("no statistic")
            widths.append(statistic.first.shape[-1])
        if kept is not None:
            noise, total, weight, freedom, error = kept["numbers"]
            mean, directions, variances = kept["mean"], kept["directions"], kept["variances"]
            widths.append(mean.shape[0] if directions.shape == (len(variances), len(mean)) else -1)
            sizes = (noise, total, weight, freedom)
            inferred = Components(mean, directions, variances, *sizes, kept.get("scores"), error)
        rounded = state.get("rounded", 0.0)  # in files of older versions; now the statistic knows
        if any(width != schema.width for width in widths) or np.shape(rounded) not in ((), (schema.width,)):
            raise TypeError("it is of other columns")
        if statistic is not None and np.shape(rounded):
            folds = 1 if statistic.keys is None else len(statistic.keys)
            statistic = replace(statistic, rounded=np.broadcast_to(rounded / folds, statistic.first.shape))
        told = tuple(float(one) for one in state["likelihoods"])
        self._fitted = Learned(schema, statistic, str(state["solver"]), told, inferred)
