"""Rows whose labels are missing → a first posterior → steps of EM, each with a statistic and a posterior.

EM (expectation maximisation) is `protocols.iterate` of a `Generative` model: a step observes the rows given
the last posterior and infers the next. `run` is the loop that decides when to stop.

`start` infers the first posterior from rows that are assigned to the nearest of K centres, or at random.
Weights, means and precisions that a user gives (`Initial`) then replace those that were inferred.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, Protocol, Self, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis import _kernels
from tamis.arrays import Array
from tamis.models.generative.block import Codes, Responsibilities, check_array
from tamis.models.generative.gaussian_expectation import fill_by_means
from tamis.models.generative.model import (
    Encoded,
    Generative,
    LabelledRows,
    Posterior,
    log_likelihood_of_labels,
    observe_blocks,
)
from tamis.protocols import Statistic, Step, iterate, total
from tamis.stats import Joint, Keys
from tamis.tables import Sparse, runs

S = TypeVar("S", bound=Statistic)

Method = Literal["kmeans", "k-means++", "random_from_data", "random"]
METHODS: tuple[Method, ...] = get_args(Method)
StepReport = Callable[[Step[Joint, Posterior]], None]  # called after each step

# Starting centres are searched in a sample of at most max(_MIN_SAMPLE, _SAMPLE_PER_CENTRE · k) rows.
_MIN_SAMPLE = 2000
_SAMPLE_PER_CENTRE = 50
_MAX_PERMUTED_ROWS = 1 << 18  # up to this number, a sample is drawn by a permutation of all row numbers
# Iterations of k-means from the centres of k-means++: on 2,000 rows they take less time than one step of EM
# on 100,000.
_KMEANS_ITERATIONS = 10
# At the start, this fraction of each row is divided among all classes: a responsibility of 0 would stay 0.
_SHARED_FRACTION = 0.05
_MAX_FEATURES = 2000  # distances use at most this number of columns, drawn at random if there are more
_CELLS = 1 << 20  # array elements (features, responsibilities or log p(x, class)) in memory at a time


@dataclass(frozen=True, slots=True)
class History:
    """The log-likelihoods of a run of EM."""

    log_likelihoods: tuple[float, ...]  # Σ w log p of all rows, under the posterior before each step
    weight: float  # the sum of the weights of all rows
    converged: bool  # whether the last step changed the mean log-likelihood per row by less than `tol`

    @property
    def iterations(self) -> int:
        """The number of steps."""
        return len(self.log_likelihoods)

    @property
    def lower_bounds(self) -> Array:
        """The mean log-likelihood per row before each step (iterations,)."""
        return np.array(self.log_likelihoods) / (self.weight if self.weight > 0 else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The last step of a run, and its history."""

    posterior: Posterior
    statistic: Joint
    history: History


class RowShards(Protocol):
    """Rows in shards (parts of the data), in this process or in others: see `tamis.engines`."""

    def total(self, observe: Callable[[LabelledRows], S | None], /) -> S:
        """Call `observe` with every shard and add the results."""

    def map(self, change: Callable[[LabelledRows], Any], /) -> "RowShards":
        """Apply a function to every shard, and return the shards of its results."""

    def keep(self) -> "RowShards":
        """Keep the shards in the memory of the processes that hold them."""


def steps(
    model: Generative, data: LabelledRows, start: Posterior, pool_squares: bool = False
) -> Iterator[Step[Joint, Posterior]]:
    """Yield steps of EM from a posterior, without end; for `pool_squares` see `Generative.prepare`."""
    return iterate(model, [model.prepare(data, pool_squares)], start)


def run(
    model: Generative,
    data: LabelledRows | RowShards,
    start: Posterior,
    max_iter: int = 100,
    tol: float = 1e-3,
    report_step: StepReport | None = None,
    last_log_likelihood: float | None = None,
) -> Outcome:
    """Make at most `max_iter` steps, until the mean log-likelihood per row changes by less than `tol`.

    `report_step` is called with every step. Where squares are pooled in the steps, a last step computes the
    statistic without pooling. If this run continues another, `last_log_likelihood` is the last one of that
    run, with which the first one of this run is compared.
    """
    if max_iter < 1:
        raise ValueError(f"got max_iter={max_iter}, expected at least 1")
    prepared = None
    if isinstance(data, LabelledRows):
        weight, prepared = _sum_weights(model, data), model.prepare(data, pool_squares=True)
        shards: Any = [prepared]
    else:  # squares are not pooled, because some shards might have rows for which that is not possible
        weight, shards = data.total(partial(_sum_weights, model)), data.map(model.prepare).keep()
    log_likelihoods: list[float] = []
    converged, posteriors = False, [start]
    for step in islice(iterate(model, shards, start), max_iter):
        log_likelihoods.append(step.objective)
        posteriors = [posteriors[-1], step.posterior]
        if report_step is not None:
            report_step(step)
        # With a prior, likelihood times prior never falls; the likelihood alone may.
        if last_log_likelihood is not None and abs(step.objective - last_log_likelihood) < tol * weight:
            converged = True
            break
        last_log_likelihood = step.objective
    if prepared is not None and prepared.pool_squares:
        step = next(iterate(model, [replace(prepared, pool_squares=False)], posteriors[0]))
    return Outcome(step.posterior, step.statistic, History(tuple(log_likelihoods), weight, converged))


def log_likelihood(data: LabelledRows, posterior: Posterior, unlabelled_weight: float = 1.0) -> float:
    """Σ w log p(x, y) of labelled rows, plus Σ w log p(x) of the others times `unlabelled_weight`."""
    likelihood = log_likelihood_of_labels(data.select_labelled(), posterior)
    for part in _split_unlabelled(data, len(posterior.keys)):
        log_density = _kernels.log_sum_rows(posterior.log_joint(part.rows))
        likelihood += unlabelled_weight * float(part.weight() @ log_density)
    return likelihood


def lower_bound(data: LabelledRows, posterior: Posterior, given: Posterior) -> float:
    """A(θ, θ₀) = Σ w Σ_k r_k (log p(x, k | θ) − log r_k), r_k = p(k | x, θ₀): the bound that EM maximises.

    It is at most the log-likelihood at θ (`posterior`), and equals it at θ = θ₀ (`given`). A row with a label
    adds w log p(x, y | θ).
    """
    if posterior.keys != given.keys:
        raise ValueError(
            f"got posteriors of {posterior.keys!r} and {given.keys!r}, expected the same classes"
        )
    bound = log_likelihood_of_labels(data.select_labelled(), posterior)
    for part in _split_unlabelled(data, len(given.keys)):
        joint, given_joint = posterior.log_joint(part.rows), given.log_joint(part.rows)
        log_r = given_joint - _kernels.log_sum_rows(given_joint)[:, None]
        r = np.exp(log_r)
        with np.errstate(invalid="ignore"):  # 0 log 0 = 0
            terms = np.where(r > 0, r * (joint - log_r), 0.0)
        bound += float(part.weight() @ terms.sum(axis=1))
    return bound


def _split_unlabelled(data: LabelledRows, classes: int) -> Iterator[LabelledRows]:
    """Yield the rows without a label in parts that fit into memory."""
    unknown = data.select_unlabelled()
    if unknown is not None:
        yield from map(unknown.take, runs(len(unknown.rows), classes, _CELLS))


def _sum_weights(model: Generative, data: LabelledRows) -> float:
    """The sum of the weights of all rows; those without a label are multiplied by `unlabelled_weight`."""
    factors = np.where(data.labels.group < 0, model.unlabelled_weight, 1.0)
    return float((factors * data.weight()).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Initial:
    """Parameters of the first posterior, given by the user; those that are None are inferred from rows.

    Means and covariances are those of the Gaussian columns, all together.
    """

    weights: Array | None = None  # (K,): the probabilities of the components
    means: Array | None = None  # (K, d)
    covariances: Array | None = None  # (K, d, d) full, (d, d) tied, (K, d) diag, (K,) spherical

    @classmethod
    def of(
        cls,
        model: Generative,
        k: int,
        width: int,
        weights: ArrayLike | None = None,
        means: ArrayLike | None = None,
        precisions: ArrayLike | None = None,
    ) -> Self:
        """Check parameters for `k` components of `width` Gaussian columns."""
        if means is None and precisions is None:
            return cls(None if weights is None else _check_weights(weights, k))
        name = "means_init" if means is not None else "precisions_init"
        block = next((block for block in model.blocks.values() if block.takes_means), None)
        if block is None:
            raise ValueError(f"got {name} for columns none of which is Gaussian, expected None: drop it")
        if block.estimate == "predictive":
            raise ValueError(
                f"got {name} with estimate='predictive', whose components have no parameters, expected None: "
                "drop it, or set estimate='map'"
            )
        return cls(
            None if weights is None else _check_weights(weights, k),
            None if means is None else check_array("means_init", means, (k, width)),
            None if precisions is None else block.invert_precisions(precisions, k, width),
        )

    def replace_in(self, posterior: Posterior) -> Posterior:
        """Return the posterior with these parameters instead of its own."""
        log_prior, densities = posterior.log_prior, posterior.densities
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                log_prior = np.log(self.weights)
        if self.means is not None or self.covariances is not None:
            densities = {
                name: density.with_parameters(self.means, self.covariances)
                for name, density in densities.items()
            }
        return replace(posterior, log_prior=log_prior, densities=densities)


def _check_weights(given: ArrayLike, k: int) -> Array:
    """Return the probabilities of k components; raise unless they are probabilities that sum to 1."""
    values = check_array("weights_init", given, (k,))
    if (values < 0).any():
        raise ValueError(f"weights_init holds {values.min():g}, expected probabilities between 0 and 1")
    if not abs(values.sum() - 1.0) <= 1e-6:
        raise ValueError(f"weights_init sums to {values.sum():.6g}, expected 1: divide it by its sum")
    return np.asarray(values / values.sum())


def start(
    model: Generative,
    data: LabelledRows,
    k: int,
    rng: np.random.Generator,
    method: Method = "kmeans",
    initial: Initial | None = None,
) -> Posterior:
    """Find a first posterior of classes 0 … k − 1 for rows that have no labels.

    Each row is assigned to the nearest of k centres, and a small part of it to the other classes. The centres
    are the means in `initial`, or those of k-means ("kmeans"), rows far from each other ("k-means++"), or
    rows drawn uniformly ("random_from_data"). The method "random" has no centres: responsibilities are
    random. If some labels are known, infer a start from the rows that have them instead.
    """
    if (data.labels.group >= 0).any():
        raise ValueError(
            "got rows with labels, expected none: start from the posterior of the rows that have one"
        )
    if not 1 <= k <= len(data.rows):
        raise ValueError(f"got k={k} classes for {len(data.rows)} rows, expected 1 to the number of rows")
    given = Initial() if initial is None else initial
    sample = data.take(draw_row_numbers(len(data.rows), k, rng))
    assign = _make_assignment(model, sample, k, rng, method, given)
    chosen = data if _needs_all_rows(model) else sample
    return given.replace_in(model.infer(_observe_assigned(model, assign, k, chosen)))


def start_shards(
    model: Generative,
    data: RowShards,
    sample: LabelledRows,
    k: int,
    rng: np.random.Generator,
    method: Method = "kmeans",
    initial: Initial | None = None,
) -> Posterior:
    """Find a first posterior, as `start` does, for rows in shards.

    `sample` has the rows that `draw_row_numbers` selects.
    """
    given = Initial() if initial is None else initial
    needs_all = _needs_all_rows(model)
    if needs_all and method == "random" and given.means is None:
        raise ValueError(
            "got init_params='random' for categories or counts in shards, expected 'kmeans', 'k-means++' or "
            "'random_from_data': every shard would draw the same numbers"
        )
    assign = _make_assignment(model, sample, k, rng, method, given)
    if not needs_all:
        statistic = _observe_assigned(model, assign, k, sample)
    else:
        statistic = data.total(partial(_observe_shard, model, assign, k, sample.rows))
    return given.replace_in(model.infer(statistic))


def draw_row_numbers(rows: int, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the numbers of the rows among which starting centres are searched, in ascending order."""
    count = min(rows, max(_MIN_SAMPLE, _SAMPLE_PER_CENTRE * k))
    if rows <= _MAX_PERMUTED_ROWS:
        return np.sort(rng.permutation(rows)[:count])
    return np.sort(rng.choice(rows, count, replace=False))


def _needs_all_rows(model: Generative) -> bool:
    return any(block.needs_all_rows for block in model.blocks.values())


def _observe_shard(
    model: Generative, assign: Callable[[Encoded], Array], k: int, like: Encoded, data: LabelledRows
) -> Joint:
    """Observe rows of a shard, with categories encoded as in `like`, the rows that `assign` was made for."""
    return _observe_assigned(model, lambda rows: assign(_recode(rows, like)), k, data)


def _recode(rows: Encoded, like: Encoded) -> Encoded:
    """Encode the categories of rows as in `like`; a category that `like` lacks gets a code of its own."""
    blocks = {name: _recode_block(block, like.blocks[name]) for name, block in rows.blocks.items()}
    return Encoded(blocks, rows.rows)


def _recode_block(rows: Any, like: Any) -> Any:
    if not isinstance(rows, Codes):
        return rows
    codes = np.empty_like(rows.codes)
    for j, (old_keys, new_keys) in enumerate(zip(rows.keys, like.keys, strict=True)):
        new_codes = new_keys.find(old_keys)
        new_codes = np.append(np.where(new_codes < 0, len(new_keys), new_codes), -1)  # −1 stays −1
        codes[:, j] = new_codes[rows.codes[:, j]]
    return Codes(codes, like.keys)


def _observe_assigned(
    model: Generative, assign: Callable[[Encoded], Array], k: int, data: LabelledRows
) -> Joint:
    """Observe rows by responsibilities that do not depend on a posterior; missing values are filled in."""
    keys, parts = Keys(tuple(range(k))), []
    for run_of_rows in runs(len(data.rows), max(_count_model_features(model, data.rows), k), _CELLS):
        part = data.take(run_of_rows)
        responsibilities = Responsibilities(keys, assign(part.rows) * part.weight()[:, None])
        filled = {name: block.fill_missing(part.rows.blocks[name]) for name, block in model.blocks.items()}
        parts.append(observe_blocks(model.blocks, Encoded(filled, len(part.rows)), responsibilities))
    return total(parts)


def _make_assignment(
    model: Generative,
    sample: LabelledRows,
    k: int,
    rng: np.random.Generator,
    method: Method,
    given: Initial,
) -> Callable[[Encoded], Array]:
    """Make the function that assigns rows to classes: rows → responsibilities (n, k)."""
    if method not in METHODS:
        raise ValueError(f"got init_params={method!r}, expected one of {', '.join(map(repr, METHODS))}")
    if method == "random" and given.means is None:

        def draw(rows: Encoded) -> Array:
            numbers = rng.random((len(rows), k))
            return np.asarray(numbers / numbers.sum(axis=1, keepdims=True))

        return draw
    by_means = given.means is not None
    names = [name for name, block in model.blocks.items() if block.takes_means or not by_means]
    features = _Features.of(names, sample.rows, rng)
    rows, weights = features.compute(sample.rows), sample.weight()
    if given.means is not None:
        centres = features.scale_values(names[0], given.means[:, features.columns[names[0]]])
    elif method == "random_from_data":
        centres = fill_by_means(rows)[rng.choice(len(rows), k, replace=False)]
    else:
        centres = kmeans_plus_plus(rows, k, rng, weights)
        if method == "kmeans":
            centres = _iterate_kmeans(rows, centres, weights)

    def assign(rows: Encoded) -> Array:
        nearest = _compute_distances(features.compute(rows), centres).argmin(axis=1)
        return np.asarray(np.eye(k)[nearest] * (1.0 - _SHARED_FRACTION) + _SHARED_FRACTION / k)

    return assign


def _count_model_features(model: Generative, rows: Encoded) -> int:
    """The number of features of all blocks that `_Features` uses."""
    return sum(min(_count_features(rows.blocks[name]), _MAX_FEATURES) for name in model.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """Features for distances between rows: standardised numbers, and categories as flags (one-hot)."""

    columns: dict[str, NDArray[np.int64]]  # by block: the m columns that are used
    centre: dict[str, Array]  # by block (m,): their means
    scale: dict[str, Array]  # by block (m,): their standard deviations

    @classmethod
    def of(cls, names: list[str], rows: Encoded, rng: np.random.Generator) -> "_Features":
        """Choose the features of the blocks with these names, and find their means and deviations."""
        columns, centre, scale = {}, {}, {}
        for name in names:
            width = _count_features(rows.blocks[name])
            columns[name] = np.sort(rng.permutation(width)[:_MAX_FEATURES])
            values = _select_numbers(rows.blocks[name], columns[name])
            counts = np.maximum((~np.isnan(values)).sum(axis=0), 1)
            centre[name] = np.nansum(values, axis=0) / counts
            deviation = np.sqrt(np.nansum(np.square(values - centre[name]), axis=0) / counts)
            scale[name] = np.where(deviation > 0, deviation, 1.0)
        return cls(columns, centre, scale)

    def compute(self, rows: Encoded) -> Array:
        """The features of rows (n, features), NaN where a value is missing."""
        parts = [
            self.scale_values(name, _select_numbers(rows.blocks[name], columns))
            for name, columns in self.columns.items()
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0))

    def scale_values(self, name: str, values: Array) -> Array:
        """Standardise the values of a block's columns."""
        return np.asarray((values - self.centre[name]) / self.scale[name])


def _count_features(rows: Any) -> int:
    """The number of features of one block: its columns, or its values if they are categories."""
    if isinstance(rows, Codes):
        return sum(map(len, rows.keys))
    return rows.columns if isinstance(rows, Sparse) else int(rows.shape[1])


def _select_numbers(rows: Any, columns: NDArray[np.int64]) -> Array:
    """Some columns of a block as numbers (n, len(columns)), NaN where they are missing."""
    if isinstance(rows, Sparse):
        return np.asarray(rows.matrix()[:, columns].toarray(), dtype=np.float64)
    if not isinstance(rows, Codes):
        return np.asarray(rows[:, columns], dtype=np.float64)
    starts = np.cumsum([0, *map(len, rows.keys)])
    source_columns = np.searchsorted(starts, columns, side="right") - 1
    codes = rows.codes[:, source_columns]
    return np.where(codes < 0, np.nan, (codes == columns - starts[source_columns]).astype(np.float64))


def kmeans_plus_plus(rows: Array, k: int, rng: np.random.Generator, weights: Array | None = None) -> Array:
    """k-means++: k rows (k, d), each drawn by its weight times the squared distance from those before it.

    Each but the first, which is drawn by its weight, is the best of 2 + log k candidates (rounded down) that
    are drawn so. If there are many rows, a sample is used.
    Distances are over the columns that are present; a missing value of a centre is replaced by the mean of
    its column.
    """
    if not 1 <= k <= len(rows):
        raise ValueError(f"got k={k} for {len(rows)} rows, expected 1 to the number of rows")
    sample_size = max(_MIN_SAMPLE, _SAMPLE_PER_CENTRE * k)
    if len(rows) > sample_size:
        chosen = rng.choice(len(rows), sample_size, replace=False)
        rows, weights = rows[chosen], None if weights is None else weights[chosen]
    w = np.ones(len(rows)) if weights is None else weights
    filled = fill_by_means(rows)
    first = rng.choice(len(rows), p=w / w.sum())
    centres = [filled[first]]
    nearest = _compute_distances(rows, filled[first][None])[:, 0]
    for _ in range(1, k):
        cumulative = np.cumsum(nearest * w)
        if cumulative[-1] > 0:
            candidates = np.searchsorted(
                cumulative, rng.random(2 + int(np.log(k))) * cumulative[-1], side="right"
            )
        else:  # there are fewer distinct rows than centres
            candidates = rng.integers(len(rows), size=1)
        candidates = np.minimum(candidates, len(rows) - 1)
        reduced = np.minimum(_compute_distances(rows, filled[candidates]), nearest[:, None])
        best = int((w @ reduced).argmin())
        nearest = reduced[:, best]
        centres.append(filled[candidates[best]])
    return np.stack(centres)


def _compute_distances(rows: Array, centres: Array) -> Array:
    """Squared distances (n, k) over the columns that are present, scaled to the number of all columns."""
    present = ~np.isnan(rows)
    if present.all():
        mean = rows.mean(axis=0)
        x, c = rows - mean, centres - mean
        squares = np.square(x).sum(axis=1)[:, None] - 2.0 * x @ c.T + np.square(c).sum(axis=1)
        return np.asarray(np.maximum(squares, 0.0))
    x = np.where(present, rows, 0.0)
    squares = np.square(x).sum(axis=1)[:, None] - 2.0 * x @ centres.T + present @ np.square(centres).T
    fraction = present.sum(axis=1) / max(1, rows.shape[1])
    return np.asarray(np.maximum(squares, 0.0) / np.where(fraction > 0, fraction, 1.0)[:, None])


def _iterate_kmeans(rows: Array, centres: Array, weights: Array) -> Array:
    """Make a few iterations of k-means (Lloyd's algorithm); a centre without rows does not move."""
    present = ~np.isnan(rows)
    filled = np.where(present, rows, 0.0)
    for _ in range(_KMEANS_ITERATIONS):
        nearest = np.eye(len(centres))[_compute_distances(rows, centres).argmin(axis=1)] * weights[:, None]
        weight = nearest.T @ present
        centres = np.where(weight > 0, nearest.T @ filled / np.where(weight > 0, weight, 1.0), centres)
    return centres


def run_best(
    model: Generative,
    data: LabelledRows,
    k: int,
    rng: np.random.Generator,
    tries: int = 1,
    max_iter: int = 100,
    tol: float = 1e-3,
    report_step: StepReport | None = None,
    method: Method = "kmeans",
    initial: Initial | None = None,
) -> Outcome:
    """Run EM from several starts, and return the outcome with the largest last log-likelihood."""
    if tries < 1:
        raise ValueError(f"got tries={tries}, expected at least 1")
    outcomes = (
        run(model, data, start(model, data, k, rng, method, initial), max_iter, tol, report_step)
        for _ in range(tries)
    )
    return max(outcomes, key=lambda outcome: outcome.history.log_likelihoods[-1])
