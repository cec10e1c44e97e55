"""Fit the weights of a store to its learned messages, by two logistic regressions.

The first fits the scale of each view and the intercept. Each message is scored by the counts of all others
(its own counts are subtracted), as a new message would be. The prior is Gaussian around the default scales,
so that a few messages change the scales little. Scales are not negative. The centre of a view is subtracted
from the weight of each known feature; it is chosen so that the mean scores of the two classes sum to zero.

    minimise  Σ wᵢ log(1 + exp(∓ zᵢ·s)) + Σ ((s - s₀) / σ)² / 2,   s ≥ 0 except for the intercept

The second fits a coefficient for each single header, word and relation that at least two messages have, with
the scores of the first as its offset and a Gaussian prior around zero. A message has the value 1/√n for each
of its n features of a view.

    minimise  Σ wᵢ log(1 + exp(∓ (zᵢ·s + xᵢ·b))) + λ |b|² / 2

The sign is − for spam and + for other mail. wᵢ is the weight of message i, and zᵢ has its scores and the
factor of the intercept. s are the scales and the intercept, s₀ their means and σ their standard deviations
under the prior. xᵢ has the values 1/√n, and b are the coefficients.

These coefficients are fitted to messages that are not held out, so they are multiplied by m / (m + 10), where
m is the number of messages of the smaller class: with few messages, they have little effect.

Both objectives are convex, so that each has one minimum. The result is a function of the set of messages and
of the counts: messages come in the order of their digests, and every sum is taken in that order.
`tests/mail/verdict/test_fitting.py` compares both with scikit-learn and with `tamis.LogisticRegression`. They
are written in NumPy alone, because the filter is installed without SciPy.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tamis.compiled import core
from tamis.links import sigmoid
from tamis.threads import run_together
from tamis_mail.features import GRAMS
from tamis_mail.features.arrays import expand_ranges, views
from tamis_mail.labels import SPAM, Label, count_messages
from tamis_mail.records import record, replace
from tamis_mail.verdict.arrays import Groups, Kinds, Rows, group_counts, score_and_find_presences
from tamis_mail.verdict.judging import list_other_labels, shrinkage
from tamis_mail.verdict.rule import LAYER_VIEWS, MIN_FITTED_MESSAGES, RULES, Rule, sides

if TYPE_CHECKING:
    from tamis._core.mail import FitMatrix

    Design = tuple[NDArray[np.bool_], "SparseRows"]  # which features have a coefficient, and their matrix
    GroupedFeatures = tuple[Groups, Kinds, NDArray[np.int64]]  # see `group_features`

Floats = NDArray[np.float64]

MAX_MESSAGES = 2000  # of spam, and of other mail, to which weights are fitted: by the smallest digests
PRECISION = 0.02  # λ, of the coefficients of single features: experiments/0010-learned-weights
COEFFICIENT_PATIENCE = 10  # with this many messages of the smaller class, coefficients are halved
SCALE_WIDTH = 0.5  # standard deviation of a scale before any mail, relative to the default scale
INTERCEPT_WIDTH = 1.0  # standard deviation of the intercept before any mail
_NEWTON_STEPS = 100  # at most; about ten suffice
_TOLERANCE = 1e-10  # the scales have converged at this gradient per message, or at this step
_DECREMENT = 1e-4  # the second fit has converged if its objective would fall by no more than about this
# Forcing terms: a step is solved until the squared residual is this fraction of the squared gradient. The
# first step has the largest one; a later one has half the ratio of the squared gradient to the one before.
_SMALLEST_FORCING, _LARGEST_FORCING = 0.05, 0.5
# After a step, the fall of the objective that is left is taken to be the forcing term times the fall that the
# step promised, or this fraction of it if the forcing term is smaller.
_LEAST_REMAINDER = 0.1
_NO_VIEW = 4  # in the core's matrix, instead of the index in LAYER_VIEWS, for views without coefficients
_PRODUCTS = 60  # maximum number of products with the Hessian per step of the second fit
_HALVINGS = 30  # of the length of a step, at most


@record(frozen=True, slots=True)
class Training:
    """Labelled messages to which weights are fitted, in the order of their digests."""

    rows: Rows  # of the features of all messages, one message after the other: rows of the counts
    starts: NDArray[np.intp]  # (messages + 1,): message i has rows[starts[i] : starts[i + 1]]
    columns: NDArray[np.intp]  # (messages,): the column of each message's label
    weights: NDArray[np.int64]  # (messages,): the weight with which each message is counted
    # (counts,): for each row of the counts, the index of its key in the keys that the caller has
    distinct: NDArray[np.intp]

    @classmethod
    def from_messages(
        cls,
        indices: Rows,
        starts: NDArray[np.intp],
        columns: NDArray[np.intp],
        weights: NDArray[np.int64],
        chosen: NDArray[np.intp],
        features: int,
    ) -> "Training":
        """Take the messages `chosen`, given the indices of their features in a list of `features` keys."""
        places, _ = expand_ranges(starts[chosen], starts[chosen + 1])
        chosen_indices = indices[places]
        chosen_starts = np.concatenate([np.zeros(1, np.intp), np.cumsum(np.diff(starts)[chosen])])
        is_used = np.zeros(features, np.bool_)
        is_used[chosen_indices] = True
        rows = (np.cumsum(is_used) - 1)[chosen_indices]
        return cls(rows, chosen_starts, columns[chosen], weights[chosen], np.flatnonzero(is_used))


@record(frozen=True, slots=True)
class HeldOut:
    """The scores of messages, each by the counts of all others."""

    scores: Floats  # (messages, views + 1): of the views, without centres, and the factor of the intercept
    presences: Floats  # (messages, views): by how much each score is smaller if the centre is 1

    def find_centres(self, is_spam: NDArray[np.bool_], weights: Floats) -> Floats:
        """(views,): find the centres at which the mean scores of spam and of other mail sum to zero.

        The centre of a view without known features is 0.
        """

        def sum_means(values: Floats) -> Floats:
            shares = [np.where(kind, weights, 0.0) for kind in (is_spam, ~is_spam)]
            total: Floats = sum(
                (share[:, np.newaxis] * values).sum(axis=0) / max(share.sum(), 1e-300) for share in shares
            )
            return total

        presence = sum_means(self.presences)
        middle = sum_means(self.scores[:, :-1])
        return np.where(presence > 0, middle / np.where(presence > 0, presence, 1.0), 0.0)

    def subtract(self, centres: Floats) -> Floats:
        """(messages, views + 1): compute the scores with these centres."""
        return self.scores - np.column_stack([centres * self.presences, np.zeros(len(self.scores))])


@record(frozen=True, slots=True)
class ScaleFit:
    """The Laplace posterior of the scales and of the intercept."""

    scales: Floats  # (views,)
    intercept: float
    deviations: Floats  # (views + 1,): of the scales and of the intercept; 0 where a scale is held at 0


@record(frozen=True, slots=True)
class WeightFit:
    """The scales, the intercept, the centres of the views and the coefficients of single features."""

    scale_fit: ScaleFit
    centres: Floats  # (views,)
    keys: NDArray[np.uint64]  # of the features that have a coefficient, ascending
    coefficients: Floats
    log_odds: Floats  # (messages,): by the first fit, each message by all others
    is_spam: NDArray[np.bool_]  # (messages,)


class PreparedFit:
    """A fit of weights as tasks for two threads: make the matrix of the coefficients, compute the rest."""

    def __init__(
        self,
        training: Training,
        keys: NDArray[np.uint64],
        counts: NDArray[np.int64],
        labels: Sequence[Label],
        rule: Rule,
        unit: int,
        groups: "GroupedFeatures | None" = None,
    ) -> None:
        """Take the arguments of `fit_weights`, and the groups of the features if they are known."""
        self._arguments = training, keys, counts, labels, rule, unit
        self._groups = groups
        self._design: Future[Design] = Future()

    def make_design(self, then: Callable[[], None] = lambda: None) -> None:
        """Make the matrix, for which `compute` waits, and then call `then`."""
        training, keys, _, _, rule, _ = self._arguments
        try:
            self._design.set_result(make_layer_design(training, keys, rule.token_version))
        except BaseException as error:
            self._design.set_exception(error)
            raise
        then()

    def compute(self) -> WeightFit:
        """Fit the weights, while `make_design` runs in another thread or after it."""
        return fit_weights(*self._arguments, self._design.result, self._groups)


def training_sample(is_spam: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the ascending indices of the messages to fit: the first MAX_MESSAGES of each class."""
    chosen = [np.flatnonzero(is_spam == kind)[:MAX_MESSAGES] for kind in (False, True)]
    return np.sort(np.concatenate(chosen))


def can_fit(is_spam: NDArray[np.bool_]) -> bool:
    """Whether there are enough messages of spam and of other mail."""
    spams = int(is_spam.sum())
    return min(spams, len(is_spam) - spams) >= MIN_FITTED_MESSAGES


def fit_weights(
    training: Training,
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    labels: Sequence[Label],
    rule: Rule,
    unit: int,
    find_design: "Callable[[], Design] | None" = None,
    groups: "GroupedFeatures | None" = None,
) -> WeightFit:
    """Fit centres, scales, intercept and coefficients.

    `keys` are the distinct features of the messages in ascending order, `counts` their counts by label;
    `unit` is the weight of a message that is learned now. `find_design` returns the matrix of the
    coefficients, if it is made elsewhere; `groups` are those of the features, if they are known.
    """
    is_spam = np.isin(training.columns, [label.id for label in labels if label.name == SPAM])
    row_weights = _class_shares(is_spam, labels) * training.weights / unit
    held_out = leave_one_out(training, keys, counts, labels, rule, unit, groups)
    centres = held_out.find_centres(is_spam, row_weights)
    designs = held_out.subtract(centres)
    scales, widths = _scales(rule), SCALE_WIDTH * _scales(RULES[rule.token_version])
    scale_fit = fit_scales(designs, is_spam, row_weights, scales, rule.intercept, widths)
    offset = designs @ np.append(scale_fit.scales, scale_fit.intercept)
    design = find_design() if find_design else None
    used_keys, coefficients = fit_coefficients(
        training, keys, is_spam, row_weights, offset, rule.token_version, design
    )
    smaller = float(min(row_weights[is_spam].sum(), row_weights[~is_spam].sum()))
    coefficients *= smaller / (smaller + COEFFICIENT_PATIENCE)
    return WeightFit(scale_fit, centres, used_keys, coefficients, offset, is_spam)


def _class_shares(is_spam: NDArray[np.bool_], labels: Sequence[Label]) -> Floats:
    """(messages,): the number of learned messages per message of the sample, for the class of each message.

    With these weights, the classes have the same proportions in the sample as among all learned messages.
    """
    all_spams, all_others = count_messages(labels)
    spams = int(is_spam.sum())
    of_spam = max(1.0, all_spams / max(spams, 1))
    of_others = max(1.0, all_others / max(len(is_spam) - spams, 1))
    return np.where(is_spam, of_spam, of_others)


def _scales(rule: Rule) -> Floats:
    return np.array([view.scale for view in rule.views])


def group_features(
    keys: NDArray[np.uint64], counts: NDArray[np.int64], token_version: int
) -> "GroupedFeatures":
    """Group the features with the same view and the same counts, which have the same weight.

    Return the group of each feature, and the view and the counts of each group.
    """
    kinds = views(keys, token_version)
    groups, firsts = group_counts(kinds, counts)
    return groups, kinds[firsts], counts[firsts]


def leave_one_out(
    training: Training,
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    labels: Sequence[Label],
    rule: Rule,
    unit: int,
    grouped: "GroupedFeatures | None" = None,
) -> HeldOut:
    """Score each message by the counts of all others.

    Without a message, the counts of its features under its label are smaller by its weight. So one table of
    counts suffices for all messages with the same label and the same weight.
    """
    groups, kinds, counts = grouped or group_features(keys, counts, rule.token_version)
    by_id = {label.id: label for label in labels}
    other_labels = list_other_labels(labels)
    rule = rule.drop_centres()
    # Per message: the score of each view, and the factor of the intercept.
    design = np.zeros((len(training.columns), len(rule.views) + 1))
    presences = np.zeros((len(training.columns), len(rule.views)))

    def score(column: int, weight: int) -> None:
        members = np.flatnonzero((training.columns == column) & (training.weights == weight))
        remaining = counts.copy()
        remaining[:, column] = np.maximum(remaining[:, column] - weight, 0)
        label = by_id[column]
        rest_of_label = replace(label, weight=max(label.weight - weight, 0))
        spam, rest = sides(
            [rest_of_label if one.id == column else one for one in labels],
            SPAM,
            other_labels,
            unit,
            guessed_weight=rule.guessed,
        )
        ranges = training.starts[members], training.starts[members + 1]
        design[members, :-1], presences[members] = score_and_find_presences(
            training.rows, ranges, kinds, remaining, rule, spam, rest, groups
        )
        # The numbers of messages with n-grams: all but the lent ones.
        design[members, -1] = shrinkage(spam.messages[GRAMS], rest.messages[GRAMS], rule)

    cases = sorted(set(zip(training.columns.tolist(), training.weights.tolist(), strict=True)))
    # Each case writes rows of its own.
    run_together([partial(score, column, weight) for column, weight in cases])
    return HeldOut(design, presences)


def fit_scales(
    designs: Floats,
    is_spam: NDArray[np.bool_],
    weights: Floats,
    default_scales: Floats,
    default_intercept: float = 0.0,
    widths: Floats | None = None,
) -> ScaleFit:
    """Find the posterior mode of the scales and of the intercept by Newton's method.

    `widths` are the standard deviations of the scales before any mail. They must be given if one of the
    default scales is zero.
    """
    centre = np.append(default_scales, default_intercept)
    widths = SCALE_WIDTH * default_scales if widths is None else widths
    precision = 1 / np.square(np.append(widths, INTERCEPT_WIDTH))
    is_bounded = np.append(np.ones(len(default_scales), np.bool_), False)
    signs = np.where(is_spam, 1.0, -1.0)

    def loss(point: Floats) -> float:
        difference = point - centre
        return float(
            (weights * np.logaddexp(0, -signs * (designs @ point))).sum()
            + (precision * difference * difference).sum() / 2
        )

    def clip(point: Floats) -> Floats:
        return np.where(is_bounded, np.maximum(point, 0), point)

    point = centre.copy()
    hessian = np.diag(precision)
    for _ in range(_NEWTON_STEPS):
        p = sigmoid(designs @ point)
        gradient = (designs * (weights * (p - is_spam))[:, np.newaxis]).sum(axis=0) + precision * (
            point - centre
        )
        curvature = weights * p * (1 - p)
        hessian = _multiply_weighted(designs, curvature) + np.diag(precision)
        is_free = (point > 0) | (gradient < 0) | ~is_bounded
        if np.abs(gradient[is_free]).max(initial=0) < _TOLERANCE * max(1, len(designs)):
            break
        step = np.zeros_like(point)
        step[is_free] = np.linalg.solve(hessian[np.ix_(is_free, is_free)], gradient[is_free])
        size, current = 1.0, loss(point)
        while size > 1e-8 and loss(clip(point - size * step)) > current:
            size /= 2
        next_point = clip(point - size * step)
        if np.abs(next_point - point).max() < _TOLERANCE:
            break
        point = next_point
    is_free = (point > 0) | ~is_bounded
    deviations = np.zeros_like(point)
    deviations[is_free] = np.sqrt(np.diag(np.linalg.inv(hessian[np.ix_(is_free, is_free)])))
    return ScaleFit(point[:-1], float(point[-1]), deviations)


def make_layer_design(training: Training, keys: NDArray[np.uint64], token_version: int) -> "Design":
    """Make the matrix to which the layer, the coefficients of single features, is fitted."""
    return make_design(training.rows, training.starts, views(keys, token_version))


def fit_coefficients(
    training: Training,
    keys: NDArray[np.uint64],
    is_spam: NDArray[np.bool_],
    weights: Floats,
    offset: Floats,
    token_version: int,
    design: "Design | None" = None,
) -> tuple[NDArray[np.uint64], Floats]:
    """Find the posterior mode of the coefficients of single features by Newton's method.

    Each Newton step is computed by conjugate gradients, which need products of the Hessian with vectors and
    not the Hessian itself.
    """
    is_used, matrix = design or make_layer_design(training, keys, token_version)
    return keys[is_used], _minimise(matrix, is_spam.astype(np.float64), weights, offset)


@record(frozen=True, slots=True)
class SparseRows:
    """A sparse matrix (messages, features) by its nonzero entries, in the order of messages."""

    rows: NDArray[np.intp]  # these three are empty where only the core has the entries
    columns: NDArray[np.int32]
    values: Floats
    starts: NDArray[np.int64]  # (messages + 1,): message i has the entries starts[i], …, starts[i + 1] - 1
    features: int
    matrix: "FitMatrix | None" = None  # the same in the core

    @classmethod
    def of(
        cls,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
        values: Floats,
        messages: int,
        features: int,
    ) -> "SparseRows":
        """Make a matrix of entries in the order of messages."""
        starts = np.zeros(messages + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=messages), out=starts[1:])
        return cls(rows, columns.astype(np.int32), values, starts, features)

    def multiply(self, vector: Floats) -> Floats:
        """(messages,): the matrix times a vector of coefficients."""
        sums = np.zeros(len(self.starts) - 1)
        if self.matrix is not None:
            self.matrix.multiply(vector, sums)
        else:
            sums += np.bincount(self.rows, self.values * vector.take(self.columns), len(sums))
        return sums

    def multiply_transposed(self, vector: Floats, squared_vector: Floats) -> tuple[Floats, Floats]:
        """(features,): the transposed matrix times a vector of messages.

        And the transposed matrix of its squared values times another vector.
        """
        sums, squares = np.zeros(self.features), np.zeros(self.features)
        if self.matrix is not None:
            self.matrix.multiply_transposed(vector, squared_vector, sums, squares)
        else:
            sums += self.sum_columns(self.values, vector)
            squares += self.sum_columns(self.values * self.values, squared_vector)
        return sums, squares

    def sum_columns(self, values: Floats, vector: Floats) -> Floats:
        """(features,): sum `values`, one per entry and each times the element of its message, by column."""
        sums = np.bincount(self.columns, values * vector.take(self.rows), self.features)
        return sums.astype(np.float64, copy=False)


def make_design(rows: Rows, starts: NDArray[np.intp], kinds: Kinds) -> tuple[NDArray[np.bool_], SparseRows]:
    """Return which rows of the counts have a coefficient, and the matrix of these: 1 / √n for each feature.

    They are those of LAYER_VIEWS that more than one message has. `kinds` is the view of each row, and n the
    number of the message's features of that view.
    """
    if core is None:
        return make_design_by_numpy(rows, starts, kinds)
    layer_views_of_kinds = np.full(int(kinds.max(initial=0)) + 1, _NO_VIEW, np.uint8)
    for index, kind in enumerate(LAYER_VIEWS):
        layer_views_of_kinds[kind : kind + 1] = index
    is_used = np.empty(len(kinds), np.bool_)
    matrix = core.mail.FitMatrix(
        rows if rows.dtype == np.int32 else rows.astype(np.int64, copy=False),
        starts.astype(np.int64, copy=False),
        kinds.astype(np.uint8, copy=False),
        layer_views_of_kinds,
        is_used.view(np.uint8),
    )
    entry_starts = np.empty(len(starts), np.int64)
    matrix.write_starts(entry_starts)
    no_columns, no_values = np.empty(0, np.int32), np.empty(0)
    features = matrix.count_columns()
    return is_used, SparseRows(np.empty(0, np.intp), no_columns, no_values, entry_starts, features, matrix)


def make_design_by_numpy(
    rows: Rows, starts: NDArray[np.intp], kinds: Kinds
) -> tuple[NDArray[np.bool_], SparseRows]:
    """Make the matrix in NumPy: the reference for `core.mail`."""
    messages = len(starts) - 1
    is_in_layer = np.isin(kinds, LAYER_VIEWS)[rows]
    layer_rows = rows[is_in_layer]
    owners = np.repeat(np.arange(messages), np.diff(starts))[is_in_layer]
    is_used = np.bincount(layer_rows, minlength=len(kinds)) > 1
    cell = owners * (kinds.max(initial=0) + 1) + kinds[layer_rows]
    sizes = np.bincount(cell, minlength=1)
    occurrences = np.flatnonzero(is_used[layer_rows])
    numbers = np.cumsum(is_used) - 1  # the place of each used feature among the used ones
    columns, owners = numbers[layer_rows[occurrences]], owners[occurrences]
    values = 1 / np.sqrt(sizes[cell[occurrences]])
    return is_used, SparseRows.of(owners, columns, values, messages, int(is_used.sum()))


def _minimise(design: SparseRows, target: Floats, weights: Floats, offset: Floats) -> Floats:
    """Minimise the second objective: Newton's method, with steps by preconditioned conjugate gradients.

    Far from the minimum, a step is solved roughly, because the quadratic model is rough there, too; the
    forcing terms are those of Eisenstat and Walker (1996).
    """
    point = np.zeros(design.features)
    score = offset.copy()
    signs = np.where(target > 0, 1.0, -1.0)

    def loss(point: Floats, score: Floats) -> float:
        return float(
            (weights * np.logaddexp(0, -signs * score)).sum() + PRECISION * (point * point).sum() / 2
        )

    current = loss(point, score)
    forcing = _LARGEST_FORCING
    previous_size = 0.0  # of the gradient: squared, and scaled by the diagonal of the Hessian
    for _ in range(_NEWTON_STEPS):
        p = sigmoid(score)
        curvature = weights * p * (1 - p)
        gradient, diagonal = design.multiply_transposed(weights * (p - target), curvature)
        gradient += PRECISION * point
        diagonal += PRECISION
        gradient_size = float((gradient * gradient / diagonal).sum())
        if previous_size > 0:
            forcing = min(_LARGEST_FORCING, max(gradient_size / previous_size / 2, _SMALLEST_FORCING))
        previous_size = gradient_size
        step = solve(design, curvature, diagonal, gradient, forcing)
        decrement = float((gradient * step).sum()) / 2
        change = design.multiply(step)
        size = 1.0
        for _ in range(_HALVINGS):
            next_point, next_score = point - size * step, score - size * change
            following = loss(next_point, next_score)
            if following <= current:
                break
            size /= 2
        point, score, current = next_point, next_score, following
        if not max(forcing, _LEAST_REMAINDER) * decrement > _DECREMENT:
            break
    return point


def solve(
    design: SparseRows, curvature: Floats, diagonal: Floats, gradient: Floats, forcing: float
) -> Floats:
    """Solve (XᵀWX + λ) step = gradient approximately, by preconditioned conjugate gradients.

    They end when the squared residual is at most the fraction `forcing` of the squared gradient.
    """
    step = np.zeros_like(gradient)
    if design.matrix is not None:
        design.matrix.solve(curvature, diagonal, gradient, PRECISION, forcing, _PRODUCTS, step)
        return step
    residual = gradient.copy()
    scaled = residual / diagonal
    direction = scaled.copy()
    product = float((residual * scaled).sum())
    tolerance = forcing * product
    for _ in range(_PRODUCTS):
        if not product > tolerance:
            break
        products = curvature * design.multiply(direction)
        image = design.sum_columns(design.values, products) + PRECISION * direction
        length = product / float((direction * image).sum())
        step += length * direction
        residual -= length * image
        scaled = residual / diagonal
        previous, product = product, float((residual * scaled).sum())
        direction = scaled + (product / previous) * direction
    return step


def _multiply_weighted(designs: Floats, weights: Floats) -> Floats:
    """Xᵀ diag(w) X, summed in a fixed order; the columns are few."""
    columns = designs.shape[1]
    products = np.empty((columns, columns))
    for left in range(columns):
        weighted = weights * designs[:, left]
        for right in range(left, columns):
            products[left, right] = products[right, left] = (weighted * designs[:, right]).sum()
    return products
