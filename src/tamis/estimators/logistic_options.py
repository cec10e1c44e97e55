"""What a caller says of classes, averages and penalties → weights and numbers, or one line that refuses it.

scikit-learn minimises C Σ loss + ½|w|², which has its minimum where Σ loss + ½ α|w|² has it for α = 1/C.
"""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.stats import Keys, Labels
from tamis.warning import warn

PREDICTIVES = ("plugin", "probit", "monte-carlo")
_THEIRS = "use scikit-learn's LogisticRegression(solver='saga')"
_ONE_AGAINST_THE_REST = "use OneVsRestClassifier(LogisticRegression())"


def prior_precision(alpha: Any, C: Any, penalty: Any, l1_ratio: Any) -> Any:
    """What the parameter alpha comes to, next to scikit-learn's C, penalty and l1_ratio."""
    _refuse_sparse_penalty(penalty, l1_ratio)
    if isinstance(alpha, str) and alpha in ("l1", "l2", "elasticnet", "none"):
        raise ValueError(f"got alpha={alpha!r}, expected a number or 'evidence': name it, penalty={alpha!r}")
    if C is not None and (not isinstance(C, Real) or not float(C) > 0.0):
        raise ValueError(f"got C={C!r}, expected a number above 0, or None for what alpha says")
    if penalty is None:
        if alpha is not None and (isinstance(alpha, str) or np.any(np.asarray(alpha) != 0)):
            raise ValueError(f"got penalty=None and alpha={alpha!r}, expected one of them: drop one")
        if C is not None and C not in (1.0, np.inf):
            warn(
                f"penalty=None leaves C={C!r} without a meaning: coefficients are not penalised", UserWarning
            )
        return 0.0
    if C is None:
        return 1.0 if alpha is None else alpha
    if alpha is not None and not _are_reciprocal(alpha, float(C)):
        raise ValueError(f"got alpha={alpha!r} and C={C!r}, expected one of them: alpha is 1/C, {1.0 / C:g}")
    return 1.0 / float(C)


def _are_reciprocal(alpha: Any, C: float) -> bool:
    return isinstance(alpha, Real) and math.isclose(float(alpha), 1.0 / C, rel_tol=1e-12)


def _refuse_sparse_penalty(penalty: Any, l1_ratio: Any) -> None:
    if penalty not in ("l2", "l1", "elasticnet", "deprecated", None):
        raise ValueError(f"got penalty={penalty!r}, expected 'l2' or None")
    if l1_ratio is not None and (not isinstance(l1_ratio, Real) or not 0.0 <= float(l1_ratio) <= 1.0):
        raise ValueError(f"got l1_ratio={l1_ratio!r}, expected 0")
    if penalty == "l1" or (penalty == "elasticnet" and l1_ratio is None):
        raise ValueError(f"got penalty={penalty!r}, expected 'l2' or None: {_THEIRS} for sparse coefficients")
    if l1_ratio and penalty is not None:
        raise ValueError(f"got l1_ratio={l1_ratio!r}, expected 0: {_THEIRS} for sparse coefficients")


def intercept_precision(intercept_alpha: float, solver: Any, intercept_scaling: Any, alpha: Any) -> float:
    """The precision of the prior on intercepts: scikit-learn's liblinear has one, α / intercept_scaling²."""
    if solver != "liblinear" or intercept_alpha:
        return intercept_alpha
    if not isinstance(intercept_scaling, Real) or not 0.0 < float(intercept_scaling) < np.inf:
        raise ValueError(f"got intercept_scaling={intercept_scaling!r}, expected a finite number above 0")
    if not isinstance(alpha, Real):
        raise ValueError(
            f"got solver='liblinear' and alpha={alpha!r}, expected one number, which is the intercept's "
            "too: set solver='auto'"
        )
    return float(alpha) / float(intercept_scaling) ** 2


def refuse_scheme(solver: Any, dual: Any, multi_class: Any, classes: int) -> None:
    """Raise if scikit-learn's parameters ask for an optimum that softmax does not have."""
    if dual and solver not in ("auto", "liblinear"):
        raise ValueError(f"got dual={dual!r} and solver={solver!r}, expected dual=False: it has no dual")
    if multi_class not in ("auto", "deprecated", "multinomial", "ovr"):
        raise ValueError(f"got multi_class={multi_class!r}, expected 'auto'")
    if classes > 2 and (solver == "liblinear" or multi_class == "ovr"):
        given = "solver='liblinear'" if solver == "liblinear" else "multi_class='ovr'"
        raise ValueError(f"got {given} for {classes} classes, expected two: {_ONE_AGAINST_THE_REST}")
    if classes == 2 and multi_class == "multinomial":
        raise ValueError(
            "got multi_class='multinomial' for 2 classes, expected 'auto': a softmax of two classes halves "
            "the penalty, which alpha=1/(2C) says"
        )


def refuse_averages(predictive: Any, n_draws: Any) -> None:
    """Raise if probabilities cannot be averaged that way, or by so many draws."""
    if predictive not in PREDICTIVES:
        raise ValueError(
            f"got predictive={predictive!r}, expected one of {', '.join(map(repr, PREDICTIVES))}"
        )
    if not isinstance(n_draws, int | np.integer) or isinstance(n_draws, bool) or n_draws < 1:
        raise ValueError(f"got n_draws={n_draws!r}, expected a whole number of at least 1")


def refuse_class_weight(given: Any, keys: Keys) -> None:
    """Raise unless it is "balanced", or maps some of the classes to weights."""
    if given is None or (isinstance(given, str) and given == "balanced"):
        return
    if not isinstance(given, Mapping):
        raise ValueError(f"got class_weight={given!r}, expected 'balanced' or a mapping from labels")
    for label, weight in given.items():
        if label not in keys:
            raise ValueError(f"got class_weight for {label!r}, expected labels among {keys!r}")
        try:
            sound = 0.0 <= float(weight) < np.inf
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise ValueError(
                f"got class_weight={weight!r} for {label!r}, expected a finite number of at least 0"
            )


def class_weights(given: Mapping[Any, float] | str, filed: Labels, weighed: Array | None) -> Array:
    """The weight of a row of each class (K,)."""
    if isinstance(given, Mapping):
        return np.array([float(given.get(key, 1.0)) for key in filed.keys])
    counts = np.bincount(filed.group, weighed, len(filed.keys))  # a row of weight 2 is that row twice
    return np.asarray(counts.sum() / (len(filed.keys) * np.where(counts > 0, counts, 1.0)))
