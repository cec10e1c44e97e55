"""log-joint → probabilities → decision under a loss, with a reject option; and calibration.

All predictions of a classifier are derived here from its log-joint, log p(x, class), (n, classes). A decision
is the index of an action; without a loss matrix, action k is to predict class k. (Bishop 2006, section 1.5)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats

REJECT = -1  # the decision not to choose an action


def log_probabilities(log_joint: ArrayLike) -> Array:
    """Compute log p(class | x) from log p(x, class), (..., classes), by log-sum-exp, without underflow.

    A row with probability zero in every class (all −∞) gets equal probabilities.

    >>> float(log_probabilities([-120.0, -121.0])[0].round(6))
    -0.313262
    """
    joint = _read_log_joint(log_joint)
    return np.asarray(joint - _compute_log_sum(joint))


def log_evidence(log_joint: ArrayLike) -> Array:
    """Compute log p(x) = log Σ p(x, class): (..., classes) → (...,).

    >>> float(log_evidence([-120.0, -121.0])) == float(np.log1p(np.exp(-1.0)) - 120.0)
    True
    """
    joint = floats(log_joint, "the log-joint")
    largest = joint.max(axis=-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray((largest + np.log(np.exp(joint - largest).sum(axis=-1, keepdims=True)))[..., 0])


def probabilities(log_joint: ArrayLike) -> Array:
    """Compute p(class | x) from log p(x, class), (..., classes); rows sum to one.

    >>> probabilities([[0.0, 0.0], [-1e5, -1e5 - np.log(3.0)]]).round(6).tolist()
    [[0.5, 0.5], [0.75, 0.25]]
    """
    if isinstance(log_joint, np.ndarray) and log_joint.ndim == 2 and len(log_joint) == 1 and log_joint.size:
        largest = log_joint.max()  # the fast path for one row
        if -np.inf < largest < np.inf:
            row: Array = np.exp(log_joint - largest)
            row /= row.sum()
            return row
    joint = _read_log_joint(log_joint)
    p: Array = np.exp(joint - joint.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p


def log_odds(log_joint: Array) -> Array:
    """Return the log-odds of the second class against the first (n,) if there are two classes.

    They are 0 where both log-joints are −∞. With more classes, the log-joint itself is returned, and with one
    class its column (n,).

    >>> log_odds(np.array([[-3.0, -1.0], [-np.inf, -np.inf]])).tolist()
    [2.0, 0.0]
    """
    if log_joint.shape[1] != 2:
        return log_joint[:, 0] if log_joint.shape[1] == 1 else log_joint
    with np.errstate(invalid="ignore"):
        odds = log_joint[:, 1] - log_joint[:, 0]
    return np.where(np.isnan(odds), 0.0, odds)


def expected_losses(log_joint: ArrayLike, loss: ArrayLike) -> Array:
    """Return the expected cost of each action, (n, actions), for a loss matrix (classes, actions).

    `loss[c, a]` is the cost of action a when the class is c.
    """
    costs = _read_loss(loss, np.shape(log_joint)[-1])
    return np.asarray(probabilities(log_joint) @ costs)


def decide(
    log_joint: ArrayLike, loss: ArrayLike | None = None, reject: float | None = None
) -> NDArray[np.int64]:
    """Choose the action with the least expected loss, (n,); `REJECT` where that loss exceeds `reject`.

    Without a loss matrix a mistake costs 1: the most probable class is chosen, and `reject=0.1` rejects where
    the probability of a mistake exceeds 0.1. If several actions have the least loss, the first is chosen.

    >>> joint = np.log([[0.90, 0.10], [0.60, 0.40], [0.02, 0.98]])
    >>> decide(joint).tolist(), decide(joint, reject=0.1).tolist()
    ([0, 0, 1], [0, -1, 1])
    >>> decide(joint, loss=[[0, 50], [1, 0]]).tolist()  # calling 0 a 1 is fifty times worse
    [0, 0, 0]
    """
    classes = np.shape(log_joint)[-1]
    costs = expected_losses(log_joint, 1.0 - np.eye(classes) if loss is None else loss)
    chosen: NDArray[np.int64] = np.asarray(costs.argmin(axis=-1), dtype=np.int64)
    if reject is None:
        return chosen
    if not reject >= 0:
        raise ValueError(f"got reject={reject}, expected the cost of rejecting, at least 0")
    # a tolerance for rounding: otherwise reject=0.1 would reject a probability of 0.9
    return np.where(costs.min(axis=-1) > reject + 1e-12, REJECT, chosen)


def threshold(scores: ArrayLike, negative: ArrayLike, rate: float) -> float:
    """Return the score above which at most a fraction `rate` of new negatives is expected.

    Scores (n,) increase with the probability of the positive class, and `negative` (n,) is whether a row is
    of the negative class; the model should not have been fitted to these rows. With m negatives, a new
    negative exceeds their k-th largest score with probability at most k / (m + 1), whatever the distribution.
    The threshold is that score for the largest k with k / (m + 1) ≤ rate; ∞ if k is 0, and −∞ if k exceeds m.

    >>> threshold([1.0, 2.0, 3.0, 4.0, 9.0], [True, True, True, True, False], rate=0.25)
    4.0
    """
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"got a false-positive rate of {rate}, expected between 0 and 1, such as 0.001")
    values, mask = floats(scores, "scores"), np.asarray(negative, dtype=np.bool_)
    if values.shape != mask.shape or values.ndim != 1:
        raise ValueError(
            f"got scores of shape {values.shape} and negative of shape {mask.shape}, expected (n,) for both"
        )
    negatives = np.sort(values[mask])
    if np.isnan(negatives).any():
        raise ValueError("a negative's score is NaN, expected numbers: drop or correct that row")
    allowed = int(np.floor(rate * (len(negatives) + 1) + 1e-9))  # k; 1e-9 is for rounding errors
    if allowed <= 0:
        return float("inf")
    if allowed > len(negatives):
        return float("-inf")
    return float(negatives[len(negatives) - allowed])


_LOWEST = 2.0**-20  # the lowest temperature that `fit` returns; its inverse is the highest


@dataclass(frozen=True, slots=True)
class Temperature:
    """Temperature scaling (Guo et al. 2017): log-joints are divided by `value`, then normalised.

    Naive Bayes treats dependent columns as independent, so its probabilities are too close to 0 and 1. A
    temperature above 1 moves them away from 0 and 1, and does not change which class is the most probable.

    >>> rng = np.random.default_rng(0)
    >>> joint = rng.normal(size=(4000, 2)) * 3
    >>> labels = (rng.random(4000) > probabilities(joint)[:, 0]).astype(int)
    >>> round(Temperature.fit(joint * 5, labels).value)
    5
    """

    value: float

    @property
    def is_at_bound(self) -> bool:
        """Whether `fit` found no minimum: the value is within a factor of 2 of a bound, 2⁻²⁰ or 2²⁰."""
        return not 2.0 * _LOWEST < self.value < 0.5 / _LOWEST

    def apply(self, log_joint: ArrayLike) -> Array:
        """Divide log-probabilities by the temperature; pass the result to `probabilities` to normalise it."""
        return np.asarray(log_probabilities(log_joint) / self.value)

    @classmethod
    def fit(
        cls,
        log_joint: ArrayLike,
        labels: Sequence[int] | NDArray[np.int64],
        weights: ArrayLike | None = None,
    ) -> "Temperature":
        """Find the temperature with the least log-loss, between 2⁻²⁰ and 2²⁰.

        Log-joints (n, classes) and labels (n,), indices of classes, should be of rows that the model was not
        fitted to; weights are (n,). The log-loss is convex in the inverse temperature, so it has one minimum
        between the bounds, which `_minimise` finds. Without bounds there might be none: if each row's own
        class is the most probable, the log-loss falls for ever as the temperature falls.
        """
        logs = log_probabilities(log_joint)
        truth = np.asarray(labels, dtype=np.int64)
        if logs.ndim != 2 or truth.shape != logs.shape[:1] or not len(truth):
            raise ValueError(
                f"got log-joints {logs.shape} and labels {truth.shape}, expected (n, classes) and (n,)"
            )
        if truth.min() < 0 or truth.max() >= logs.shape[1]:
            raise ValueError(
                f"got labels {truth.min()} to {truth.max()}, expected indices of {logs.shape[1]} classes"
            )
        w = np.ones(len(truth)) if weights is None else floats(weights, "weights")
        logs = np.maximum(logs, -1e6)  # the probability of an impossible class stays 0, without 0 · ∞ in sums
        log_likelihoods = logs[np.arange(len(truth)), truth]

        def compute_derivatives(inverse: float) -> tuple[float, float]:
            scaled = inverse * logs
            p = np.exp(scaled - _compute_log_sum(scaled))
            mean = (p * logs).sum(axis=1)
            variance = (p * np.square(logs - mean[:, None])).sum(axis=1)
            return float(w @ (mean - log_likelihoods)), float(w @ variance)

        return cls(1.0 / _minimise(compute_derivatives, _LOWEST, 1.0 / _LOWEST))


def _minimise(
    compute_derivatives: Callable[[float], tuple[float, float]], least: float, most: float
) -> float:
    """Find the minimum of a convex function between two positive numbers, by Newton's method and bisection.

    `compute_derivatives` returns the first and the second derivative at a point. The bracket is the interval
    from `least` to `most`, which shrinks around the minimum. If a step of Newton's method leaves the bracket,
    or is more than half as long as the step before it, the bracket is halved instead.
    Lengths are differences of logarithms. The steps or the bracket shrink to zero, so the loop ends.
    """
    x, last_length = 1.0, np.inf
    while True:
        slope, curvature = compute_derivatives(x)
        if slope > 0:
            most = x
        else:
            least = x
        newton = x - slope / curvature if curvature > 0 else x
        is_accepted = least < newton < most and abs(np.log(newton / x)) <= 0.5 * last_length
        new = newton if is_accepted else float(np.sqrt(least * most))
        last_length = abs(np.log(new / x))
        if last_length <= 1e-12 or np.log(most / least) <= 1e-12:
            return new
        x = new


def _compute_log_sum(joint: Array) -> Array:
    """Compute log Σ e^joint over the last axis, which stays with the length 1."""
    largest = joint.max(axis=-1, keepdims=True)
    return np.asarray(largest + np.log(np.exp(joint - largest).sum(axis=-1, keepdims=True)))


def _read_log_joint(log_joint: ArrayLike) -> Array:
    """Convert to float64; rows in which all values are −∞ become zeros. Raise for NaN and ∞."""
    joint = floats(log_joint, "the log-joint")
    if joint.ndim == 0 or joint.shape[-1] == 0:
        raise ValueError(f"got a log-joint of shape {joint.shape}, expected (..., classes)")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(joint.sum()):  # the usual case, found by one pass
            return joint
    if np.isnan(joint).any() or np.isposinf(joint).any():
        raise ValueError("the log-joint holds NaN or ∞, expected logarithms of densities: check the model")
    impossible = np.isneginf(joint).all(axis=-1, keepdims=True)
    return np.where(impossible, 0.0, joint)


def _read_loss(loss: ArrayLike, classes: int) -> Array:
    """Return a loss matrix (classes, actions); raise for another shape, NaN and ∞."""
    costs = floats(loss, "the loss matrix")
    if costs.ndim != 2 or costs.shape[0] != classes:
        raise ValueError(
            f"got a loss matrix of shape {costs.shape}, expected ({classes}, actions): one row per class"
        )
    if not np.isfinite(costs).all():
        raise ValueError("the loss matrix holds NaN or ∞, expected finite costs: use a very large number")
    return costs
