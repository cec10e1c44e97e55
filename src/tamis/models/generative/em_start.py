"""rows without labels, and what is known of the components → the posterior that EM starts from.

Rows are assigned to the nearest of K centres, or at random, and the first posterior is inferred from that.
Weights, means and precisions that a user gives (`Initial`) then replace those that were inferred.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats
from tamis.linalg import Cholesky
from tamis.models.generative.block import Codes, Density, Responsibilities
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_densities import DiagonalNormal, FullNormal, SphericalNormal, TiedNormal
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.model import Encoded, Generative, LabelledRows, Posterior, observe_blocks
from tamis.protocols import total
from tamis.stats import Keys
from tamis.tables import Sparse, runs

Method = Literal["kmeans", "k-means++", "random_from_data", "random"]
METHODS: tuple[Method, ...] = get_args(Method)

_CELLS = 1 << 20  # of features, or of responsibilities, in memory at a time
_SAMPLE = 2000  # rows among which centres are sought, or _EACH a centre
_EACH = 50
_LLOYD = 10  # rounds of k-means after k-means++: on 2,000 rows they cost less than one step on 100,000
_SOFT = 0.05  # of each row goes to all classes at the start: what is 0 once is 0 at every step
_WIDEST = 2000  # features of rows that are compared; of more columns, these many are drawn


@dataclass(frozen=True, slots=True, eq=False)
class Initial:
    """Parameters of the first posterior that a user gives; those that are None are inferred from rows.

    Means and covariances are those of the Gaussian columns, all together.
    """

    weights: Array | None = None  # (K,)
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
        """Check what was given for `k` components of `width` Gaussian columns."""
        if means is None and precisions is None:
            return cls(None if weights is None else _check_weights(weights, k))
        name = "means_init" if means is not None else "precisions_init"
        block = _gaussian_block(model)
        if block is None:
            raise ValueError(f"got {name} for columns none of which is Gaussian, expected None: drop it")
        if block.estimate == "predictive":
            raise ValueError(
                f"got {name} with estimate='predictive', whose components have no parameters, expected None: "
                "drop it, or set estimate='map'"
            )
        return cls(
            None if weights is None else _check_weights(weights, k),
            None if means is None else _check_array("means_init", means, (k, width)),
            None if precisions is None else _covariances(block.covariance, precisions, k, width),
        )

    def replace_in(self, posterior: Posterior) -> Posterior:
        """Give a posterior these parameters instead of its own."""
        found = posterior
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                found = replace(found, log_prior=np.log(self.weights))
        if self.means is None and self.covariances is None:
            return found
        densities = {name: self._replace_density(one) for name, one in posterior.densities.items()}
        return replace(found, densities=densities)

    def _replace_density(self, density: Density[Any]) -> Density[Any]:
        if isinstance(density, FullNormal | TiedNormal):
            mean = density.mean if self.means is None else self.means
            if self.covariances is None:
                return replace(density, mean=mean)
            factor = Cholesky.of(self.covariances, "inverse of precisions_init")
            return replace(density, mean=mean, covariance=self.covariances, factor=factor)
        if isinstance(density, DiagonalNormal | SphericalNormal):
            mean = density.mean if self.means is None else self.means
            variance = density.variance
            if self.covariances is not None:
                own = self.covariances if self.covariances.ndim == 2 else self.covariances[:, None]
                variance = np.broadcast_to(own, variance.shape)
            return type(density).of(density.keys, mean, variance, density.prior, density.class_sums)
        return density


def _gaussian_block(model: Generative) -> GaussianVectors | None:
    return next((block for block in model.blocks.values() if isinstance(block, GaussianVectors)), None)


def _check_array(name: str, given: ArrayLike, shape: tuple[int, ...]) -> Array:
    values = floats(given, name)
    if values.shape != shape:
        raise ValueError(f"got {name} of shape {values.shape}, expected {shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds {values[~np.isfinite(values)][0]}, expected finite numbers")
    return values


def _check_weights(given: ArrayLike, k: int) -> Array:
    values = _check_array("weights_init", given, (k,))
    if (values < 0).any():
        raise ValueError(f"weights_init holds {values.min():g}, expected probabilities between 0 and 1")
    if not abs(values.sum() - 1.0) <= 1e-6:
        raise ValueError(f"weights_init sums to {values.sum():.6g}, expected 1: divide it by its sum")
    return np.asarray(values / values.sum())


def _covariances(covariance: str, precisions: ArrayLike, k: int, width: int) -> Array:
    """The inverses of precisions of the shape that goes with the form of the covariance."""
    shapes = {"full": (k, width, width), "tied": (width, width), "diag": (k, width), "spherical": (k,)}
    values = _check_array("precisions_init", precisions, shapes[covariance])
    if covariance in ("diag", "spherical"):
        if not (values > 0).all():
            raise ValueError(f"precisions_init holds {values.min():g}, expected numbers above zero")
        return np.asarray(1.0 / values)
    if not np.allclose(values, np.swapaxes(values, -1, -2), rtol=1e-6, atol=1e-12):
        raise ValueError("precisions_init holds a matrix that is not symmetric, expected symmetric matrices")
    return Cholesky.of(
        values, "matrix in precisions_init", "give symmetric, positive definite ones"
    ).inverse()


def start(
    model: Generative,
    data: LabelledRows,
    k: int,
    rng: np.random.Generator,
    method: Method = "kmeans",
    initial: Initial | None = None,
) -> Posterior:
    """Find a first posterior of classes 0 … k − 1 for rows that have no labels.

    Each row goes to the nearest of k centres, and a little of it to the other classes. The centres are the
    means given, or those of k-means ("kmeans"), rows far from each other ("k-means++"), or rows drawn evenly
    ("random_from_data"); with "random" there are none, and every row has responsibilities drawn at random.
    Where labels are known, infer a start from the rows that have them instead.
    """
    if (data.labels.group >= 0).any():
        raise ValueError(
            "got rows with labels, expected none: start from the posterior of the rows that have one"
        )
    if not 1 <= k <= len(data.rows):
        raise ValueError(
            f"got k={k} classes for {len(data.rows)} rows, expected 1 or more, and no more than rows"
        )
    if method not in METHODS:
        raise ValueError(f"got init_params={method!r}, expected one of {', '.join(map(repr, METHODS))}")
    given = Initial() if initial is None else initial
    keys = Keys(tuple(range(k)))
    n = len(data.rows)
    sample = data.take(np.sort(rng.permutation(n)[: max(_SAMPLE, _EACH * k)]))
    assign = _assignment(model, sample, k, rng, method, given)
    # The sample has all means and squares that numbers need, but not all words that texts may hold.
    numeric = all(isinstance(block, GaussianColumns | GaussianVectors) for block in model.blocks.values())
    chosen = sample if numeric else data
    parts = []
    for run_of_rows in runs(len(chosen.rows), max(_width_of(model, sample.rows), k), _CELLS):
        part = chosen.take(run_of_rows)
        responsibilities = Responsibilities(keys, assign(part.rows) * part.weight()[:, None])
        parts.append(observe_blocks(model.blocks, _fill_vectors(model, part.rows), responsibilities))
    return given.replace_in(model.infer(total(parts)))


def _assignment(
    model: Generative,
    sample: LabelledRows,
    k: int,
    rng: np.random.Generator,
    method: Method,
    given: Initial,
) -> Callable[[Encoded], Array]:
    """How rows are assigned to classes: rows → responsibilities (n, k)."""
    if method == "random" and given.means is None:

        def draw(rows: Encoded) -> Array:
            numbers = rng.random((len(rows), k))
            return np.asarray(numbers / numbers.sum(axis=1, keepdims=True))

        return draw
    by_means = given.means is not None
    names = [
        name for name, block in model.blocks.items() if not by_means or isinstance(block, GaussianVectors)
    ]
    features = _Features.of(names, sample.rows, rng)
    rows, weights = features.compute(sample.rows), sample.weight()
    if given.means is not None:
        centres = features.scale_values(names[0], given.means[:, features.columns[names[0]]])
    elif method == "random_from_data":
        centres = _fill_gaps(rows)[rng.choice(len(rows), k, replace=False)]
    else:
        centres = kmeans_plus_plus(rows, k, rng, weights)
        if method == "kmeans":
            centres = _lloyd(rows, centres, weights)

    def assign(rows: Encoded) -> Array:
        nearest = _distances(features.compute(rows), centres).argmin(axis=1)
        return np.asarray(np.eye(k)[nearest] * (1.0 - _SOFT) + _SOFT / k)

    return assign


def _width_of(model: Generative, rows: Encoded) -> int:
    """Features of a row at most."""
    return sum(min(_width(rows.blocks[name]), _WIDEST) for name in model.blocks)


def _fill_vectors(model: Generative, rows: Encoded) -> Encoded:
    """What is missing among vectors, which have no one yet to guess it, is the mean of its column."""
    filled = dict(rows.blocks)
    for name, block in model.blocks.items():
        values = filled[name]
        if isinstance(block, GaussianVectors) and np.isnan(values).any():
            filled[name] = _fill_gaps(values)
    return Encoded(filled, len(rows))


def _fill_gaps(rows: Array) -> Array:
    """Rows with the mean of its column wherever a value is missing."""
    counts = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    return np.where(np.isnan(rows), np.nansum(rows, axis=0) / counts, rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """Numbers by which rows of any blocks are compared: in units of their spread, categories as flags."""

    columns: dict[str, NDArray[np.int64]]  # of each block, those that are used
    centre: dict[str, Array]
    scale: dict[str, Array]

    @classmethod
    def of(cls, names: list[str], rows: Encoded, rng: np.random.Generator) -> "_Features":
        """Of the blocks with these names."""
        columns, centre, scale = {}, {}, {}
        for name in names:
            width = _width(rows.blocks[name])
            columns[name] = np.sort(rng.permutation(width)[:_WIDEST])
            values = _numbers(rows.blocks[name], columns[name])
            counts = np.maximum((~np.isnan(values)).sum(axis=0), 1)
            centre[name] = np.nansum(values, axis=0) / counts
            spread = np.sqrt(np.nansum(np.square(values - centre[name]), axis=0) / counts)
            scale[name] = np.where(spread > 0, spread, 1.0)
        return cls(columns, centre, scale)

    def compute(self, rows: Encoded) -> Array:
        parts = [
            self.scale_values(name, _numbers(rows.blocks[name], columns))
            for name, columns in self.columns.items()
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0))

    def scale_values(self, name: str, values: Array) -> Array:
        """Values of a block's columns, about their mean and in units of their spread."""
        return np.asarray((values - self.centre[name]) / self.scale[name])


def _width(rows: Any) -> int:
    if isinstance(rows, Codes):
        return sum(map(len, rows.keys))
    return rows.columns if isinstance(rows, Sparse) else int(rows.shape[1])


def _numbers(rows: Any, columns: NDArray[np.int64]) -> Array:
    """Some columns of a block as numbers (n, len(columns)), NaN where they are missing."""
    if isinstance(rows, Sparse):
        return np.asarray(rows.matrix()[:, columns].toarray(), dtype=np.float64)
    if not isinstance(rows, Codes):
        return np.asarray(rows[:, columns], dtype=np.float64)
    starts = np.cumsum([0, *map(len, rows.keys)])
    owner = np.searchsorted(starts, columns, side="right") - 1
    codes = rows.codes[:, owner]
    return np.where(codes < 0, np.nan, (codes == columns - starts[owner]).astype(np.float64))


def kmeans_plus_plus(rows: Array, k: int, rng: np.random.Generator, weights: Array | None = None) -> Array:
    """k of the rows (k, d) that are far from each other: each drawn by its squared distance to those before.

    Of 2 + log k draws the one is taken that leaves least. On a sample, if there are many rows. Distances are
    over the columns that are present; what a centre misses is the mean of its column.
    """
    if not 1 <= k <= len(rows):
        raise ValueError(
            f"got k={k} for {len(rows)} rows, expected 1 or more, and no more than there are rows"
        )
    most = max(_SAMPLE, _EACH * k)
    if len(rows) > most:
        chosen = rng.choice(len(rows), most, replace=False)
        rows, weights = rows[chosen], None if weights is None else weights[chosen]
    w = np.ones(len(rows)) if weights is None else weights
    filled = _fill_gaps(rows)
    first = rng.choice(len(rows), p=w / w.sum())
    centres = [filled[first]]
    nearest = _distances(rows, filled[first][None])[:, 0]
    for _ in range(1, k):
        chance = np.cumsum(nearest * w)
        if chance[-1] > 0:
            drawn = np.searchsorted(chance, rng.random(2 + int(np.log(k))) * chance[-1], side="right")
        else:  # fewer distinct rows than centres
            drawn = rng.integers(len(rows), size=1)
        drawn = np.minimum(drawn, len(rows) - 1)
        left = np.minimum(_distances(rows, filled[drawn]), nearest[:, None])
        best = int((w @ left).argmin())
        nearest = left[:, best]
        centres.append(filled[drawn[best]])
    return np.stack(centres)


def _distances(rows: Array, centres: Array) -> Array:
    """Squared, (n, k), over the columns that are present and as if all were."""
    present = ~np.isnan(rows)
    if present.all():
        about = rows.mean(axis=0)
        x, c = rows - about, centres - about
        found = np.square(x).sum(axis=1)[:, None] - 2.0 * x @ c.T + np.square(c).sum(axis=1)
        return np.asarray(np.maximum(found, 0.0))
    x = np.where(present, rows, 0.0)
    found = np.square(x).sum(axis=1)[:, None] - 2.0 * x @ centres.T + present @ np.square(centres).T
    share = present.sum(axis=1) / max(1, rows.shape[1])
    return np.asarray(np.maximum(found, 0.0) / np.where(share > 0, share, 1.0)[:, None])


def _lloyd(rows: Array, centres: Array, weights: Array) -> Array:
    """A few rounds of k-means; a centre that no row is near stays where it is."""
    present = ~np.isnan(rows)
    filled = np.where(present, rows, 0.0)
    for _ in range(_LLOYD):
        nearest = np.eye(len(centres))[_distances(rows, centres).argmin(axis=1)] * weights[:, None]
        weight = nearest.T @ present
        centres = np.where(weight > 0, nearest.T @ filled / np.where(weight > 0, weight, 1.0), centres)
    return centres
