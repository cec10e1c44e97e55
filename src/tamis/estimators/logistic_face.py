"""The prior of a logistic regression, and its attributes: classes, coefficients, rows taken away."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators.coefficient_summary import CoefficientSummary, summarize
from tamis.estimators.curved_face import SOLVERS, CurvedFace
from tamis.estimators.logistic_options import intercept_precision, prior_precision
from tamis.inputs import to_label_array
from tamis.models.linear.fitting import gaussian_prior
from tamis.models.linear.newton import Solver
from tamis.models.linear.objective import GaussianPrior


class LogisticFace(CurvedFace):
    """The prior that a logistic regression is asked for, and its attributes once it is fitted."""

    _solvers: ClassVar[dict[str, Solver]] = {
        **SOLVERS,
        "liblinear": "auto",
        "newton-cg": "auto",
        "sag": "auto",
        "saga": "auto",
    }

    C: float | None
    penalty: str | None
    l1_ratio: float | None
    intercept_scaling: float

    def _prior_precision(self) -> Any:
        return prior_precision(self.alpha, self.C, self.penalty, self.l1_ratio)

    def _intercept_precision(self) -> float:
        given = super()._intercept_precision()
        alpha = self._prior_precision() if self.solver == "liblinear" else None
        return intercept_precision(given, self.solver, self.intercept_scaling, alpha)

    def _prior(self, columns: int, outputs: int) -> tuple[GaussianPrior, bool]:
        alpha, level = self._prior_precision(), self._intercept_precision()
        return gaussian_prior(alpha, self.prior, columns, outputs, bool(self.fit_intercept), level)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of all answers."""
        return to_label_array(self._fitted_for("classes_").keys)

    @property
    def coef_(self) -> Array:
        """Coefficients (1, d) of the second class's log-odds, or (classes, d), which sum to zero."""
        self._fitted_for("coef_")
        return self._coefficients()[0]

    @property
    def intercept_(self) -> Array:
        """See `coef_`."""
        self._fitted_for("intercept_")
        return self._coefficients()[1]

    @property
    def n_iter_(self) -> NDArray[np.int32]:  # type: ignore[override]  # an array, as scikit-learn has it
        """Steps over all rows (1,)."""
        return np.array([self._fitted_for("n_iter_").iterations], dtype=np.int32)

    @property
    def removal_bound_(self) -> float:
        """How far the exact answer can be after `unlearn_approximately`, in posterior standard deviations.

        More precisely, the slope that is left, in that measure: to first order it is the distance. ∞ if
        rows had been learned by `partial_fit`, `merge` or after `decay`: then no bound is known.
        """
        return self._removal("removal_bound_", "bound")

    @property
    def removal_shift_(self) -> float:
        """How far the coefficients moved when rows were taken away, in posterior standard deviations."""
        return self._removal("removal_shift_", "shift")

    def _removal(self, name: str, field: str) -> float:
        found = float(getattr(self._fitted_for(name), field))
        if np.isnan(found):
            raise AttributeError(f"no rows were taken away since the last fit: no {name}")
        return found

    def summary(self, coverage: float = 0.95) -> CoefficientSummary:
        """Coefficients with their standard errors, z, p and intervals: print it, or call its `to_frame`.

        Of two classes, they are of the second's log-odds; of more, each class has its own.
        """
        state, labels = self.state_, self.classes_.tolist()
        ends = (self.intercept_, self.intercept_std_) if state.intercept else None
        if len(labels) == 2:
            said, outputs = f"logistic, {labels[1]!r} against {labels[0]!r}", None
        else:
            said, outputs = f"softmax, {len(labels)} classes", ("class", labels)
        strength = f"alpha {self.alpha_:.4g}" if isinstance(self.alpha_, float) else "a prior of its own"
        evidence = "" if np.isnan(state.evidence) else f", log-evidence {state.evidence:.6g}"
        headline = f"{said}: {state.weight:g} rows\n{strength}{evidence}"
        return summarize(headline, state.schema, self.coef_, self.coef_std_, ends, coverage, outputs)
