"""Linear classifiers: the start of Newton's method, averaged probabilities, predictions of held-out rows.

The model of all rows is near the model without some of them. So for each fold of a cross-validation Newton's
method starts there and takes few steps; for a model without a single row, one step is enough.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.linear.design import Design
from tamis.models.linear.laplace import Laplace
from tamis.models.linear.objective import GaussianPrior, LinearRows
from tamis.models.linear.responses import Bernoulli, ClassResponse, Softmax
from tamis.models.linear.updates import FittedLinear
from tamis.stats import Labels
from tamis.tables import runs

_CELLS = 1 << 20  # numbers (scores of draws, or covariances of scores) in memory at a time


def make_class_response(classes: int) -> ClassResponse:
    """Make the response for this number of classes; of two, the only score is the second's log-odds."""
    return Bernoulli() if classes == 2 else Softmax.of(classes)


def start_at_frequencies(rows: LinearRows, response: ClassResponse, prior: GaussianPrior) -> Array:
    """Return the parameters to start at: the prior's mean, with intercepts by the classes' frequencies.

    A class without rows counts as if it had a thousandth of the rows of the largest class.
    """
    start = prior.mean.copy()
    if rows.design.intercept:
        counts = rows.count_classes(response.classes)
        intercepts = start.reshape(-1, rows.design.width)[:, -1]
        intercepts += response.class_contrasts.T @ np.log(np.maximum(counts, 1e-3 * counts.max()))
    return start


def add_unseen_classes(prior: GaussianPrior, rows: LinearRows, response: ClassResponse) -> GaussianPrior:
    """Add a weak prior on the intercepts if some classes have no rows, as if each had half a row.

    Without a prior the intercept of a class that has no rows yet would fall without bounds.
    """
    width = rows.design.width
    counts = rows.count_classes(response.classes)
    unseen = counts == 0.0
    intercepts = np.arange(width - 1, len(prior.mean), width)
    if not rows.design.intercept or not unseen.any() or prior.diagonal[intercepts].all():
        return prior
    contrasts = response.class_contrasts.T
    mean, precision = prior.mean.copy(), prior.precision.copy()
    mean[intercepts] += contrasts @ np.log(np.where(unseen, 0.5, counts))
    diagonal = (intercepts, intercepts) if precision.ndim == 2 else (intercepts,)
    precision[diagonal] += 0.5 * np.square(contrasts) @ unseen
    return GaussianPrior(mean, precision)


# ── probabilities ──


def average_probabilities(
    posterior: Laplace, response: ClassResponse, design: Design, scores: Array
) -> Array:
    """Return p(class) (n, K) of rows with these scores, averaged over the posterior (MacKay 1992)."""
    if response.outputs == 1:
        return response.average_probabilities(scores, posterior.score_variances(design))
    probabilities, covariance = np.empty_like(scores), posterior.covariance()
    # In memory are a row of the design, and about four matrices (K, K) per row.
    for part in runs(len(scores), max(design.width, 4 * response.classes**2), _CELLS):
        covariances = posterior.score_covariances(design.take(part), response, covariance)
        probabilities[part] = response.average_probabilities(scores[part], covariances)
    return probabilities


def sample_probabilities(
    fit: FittedLinear, response: ClassResponse, design: Design, rng: np.random.Generator, count: int
) -> Array:
    """Return p(class) of rows (n, K), averaged over `count` draws of the parameters from the posterior."""
    draws = fit.posterior.draw(rng, count)
    total = np.zeros((len(design), response.classes))
    for part in runs(len(draws), len(design) * response.classes, _CELLS):
        coefficients = fit.expand(draws[part])  # (draws, outputs, width)
        outputs, width = coefficients.shape[1:]
        scores = design.scores(coefficients.reshape(-1, width)).reshape(-1, outputs)
        total += response.probabilities(scores).reshape(len(design), -1, response.classes).sum(axis=1)
    return np.asarray(total / count)


# ── rows that are left out ──


def leave_one_out(fit: FittedLinear, response: ClassResponse, rows: LinearRows) -> Array:
    """Return log p(class) of each row (n, K) by the model of all other rows, after one Newton step."""
    posterior, scores = fit.posterior, rows.design.scores(fit.parameters_by_output)
    weights = np.ones(len(scores)) if rows.weights is None else rows.weights
    if response.outputs == 1:
        variances = posterior.score_variances(rows.design)
        return response.log_probabilities(response.leave_out(scores, rows.targets, weights, variances))
    covariance, left_out = posterior.covariance(), np.empty_like(scores)
    # In memory are a row of the design, and about six matrices (K, K) per row.
    for part in runs(len(scores), max(rows.design.width, 6 * response.classes**2), 2 * _CELLS):
        covariances = posterior.score_covariances(rows.design.take(part), response, covariance)
        left_out[part] = response.leave_out(scores[part], rows.targets[part], weights[part], covariances)
    return response.log_probabilities(left_out)


def cross_validate(
    fit_rows: Callable[[NDArray[np.int64], Labels], Callable[[NDArray[np.int64]], Array]],
    labels: Labels,
    fold: NDArray[np.int64],
) -> Array:
    """Return log p(class) (n, K) of each row by the model of all other folds; −∞ for classes without rows.

    `fit_rows` fits a model to rows with labels, and returns a function from rows to log-probabilities.
    """
    log_probabilities = np.full((len(fold), len(labels.keys)), -np.inf)
    for number in np.unique(fold).tolist():
        held_out, rest = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        rest_labels = select_labels(labels, rest)
        predict = fit_rows(rest, rest_labels)
        log_probabilities[np.ix_(held_out, labels.keys.find(rest_labels.keys))] = predict(held_out)
    return log_probabilities


def select_labels(labels: Labels, rows: NDArray[np.int64]) -> Labels:
    """Return the labels of these rows, with only the classes that occur among them."""
    group = labels.group[rows]
    present = np.bincount(group, minlength=len(labels.keys)) > 0
    return Labels(labels.keys.keep(present), (np.cumsum(present) - 1)[group])


# ── weights of classes ──


def balance_classes(labels: Labels, weights: Array | None) -> Array:
    """Return a factor for the weights of each class's rows (K,), so that all classes weigh the same."""
    classes = len(labels.keys)
    counts = np.bincount(labels.group, weights, classes)  # a row of weight 2 counts as two rows
    return np.asarray(counts.sum() / (classes * np.where(counts > 0, counts, 1.0)))
