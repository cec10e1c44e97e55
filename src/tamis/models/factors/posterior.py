"""Factors, or draws of them → the expected rating of each pair, and its uncertainty.

The first axis of arrays has one entry for one set of factors, or one per draw. The expected rating is the
mean over it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky
from tamis.models.factors.alternating import (
    Alternating,
    Factors,
    compute_targets,
    predict_pairs,
    select_time_offsets,
)
from tamis.models.factors.gibbs import Draw, RowPrior, draw_rows
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.ratings import Indices, Ratings

# Rows of users or items, with an axis of draws first; one set of factors is float64, several draws are
# float32.
Stack = NDArray[np.float64] | NDArray[np.float32]
Solver = Alternating | Implicit
SideName = Literal["users", "items"]

_MAX_STEPS = 100  # of the search for a quantile
_TOLERANCE = 1e-9  # of a quantile, in units of _WIDTH standard deviations of the noise
# Beyond this number of standard deviations from its mean, a normal variable has a probability of 1e-19, less
# than rounding errors.
_WIDTH = 9.0


@dataclass(frozen=True, slots=True, eq=False)
class Hyperparameters:
    """The noise and the priors of rows in each draw."""

    precision: Array  # (draws,): of the noise
    user_mean: Array  # (draws, k + 1)
    user_precision: Array  # (draws, k + 1, k + 1)
    item_mean: Array  # (draws, k + 1)
    item_precision: Array  # (draws, k + 1, k + 1)

    @classmethod
    def from_draws(cls, draws: Sequence[Draw], user_scale: Array, item_scale: Array) -> "Hyperparameters":
        """The hyperparameters of draws, after their rows are multiplied by the scales (k + 1,)."""
        return cls(
            np.array([draw.precision for draw in draws]) / np.square(user_scale[-1]),
            user_scale * np.array([draw.user_prior.mean for draw in draws]),
            np.array([draw.user_prior.precision for draw in draws])
            / np.multiply.outer(user_scale, user_scale),
            item_scale * np.array([draw.item_prior.mean for draw in draws]),
            np.array([draw.item_prior.precision for draw in draws])
            / np.multiply.outer(item_scale, item_scale),
        )

    def select_priors(self, side: SideName) -> tuple[Array, Array]:
        """The mean (draws, k + 1) and the precision (draws, k + 1, k + 1) of one side's rows."""
        if side == "users":
            return self.user_mean, self.user_precision
        return self.item_mean, self.item_precision


@dataclass(frozen=True, slots=True, eq=False)
class FactorPosterior:
    """The rows of users and items, in one set of factors or in many draws."""

    level: float
    users: Stack  # (draws, users, k + 1)
    items: Stack  # (draws, items, k + 1)
    time_offsets: Array  # (bins,)
    item_time_offsets: Array  # (items, bins)
    hyperparameters: Hyperparameters | None = None  # None for one set of factors

    @classmethod
    def from_factors(cls, factors: Factors) -> "FactorPosterior":
        """The posterior with one set of factors."""
        users, items = factors.users[None], factors.items[None]
        return cls(factors.level, users, items, factors.time_offsets, factors.item_time_offsets)

    @classmethod
    def from_draws(cls, draws: Sequence[Draw], unit: float = 1.0) -> "FactorPosterior":
        """The posterior with several draws, in float32 to save memory; ratings were divided by `unit`."""
        first = draws[0].factors
        user_scale, item_scale = np.full(first.rank + 1, unit), np.append(np.ones(first.rank), unit)
        users = np.array([user_scale * draw.factors.users for draw in draws], dtype=np.float32)
        items = np.array([item_scale * draw.factors.items for draw in draws], dtype=np.float32)
        return cls(
            unit * first.level,
            users,
            items,
            unit * first.time_offsets,
            unit * first.item_time_offsets,
            Hyperparameters.from_draws(draws, user_scale, item_scale),
        )

    def select_draw(self, draw: int = 0) -> Factors:
        """The factors of one draw, or the one set of factors, in float64."""
        users, items = self.users[draw].astype(np.float64), self.items[draw].astype(np.float64)
        return Factors(self.level, users, items, self.time_offsets, self.item_time_offsets)

    def predict_by_draw(self, user: Indices, item: Indices, time_bin: Indices | None) -> Iterator[Array]:
        """Yield for each draw the rating of each pair (n,) that it expects."""
        fixed = self.level + select_time_offsets(self, item, time_bin)
        for users, items in zip(self.users, self.items, strict=True):
            yield fixed + predict_pairs(users.astype(np.float64), items.astype(np.float64), user, item)

    def predict(self, user: Indices, item: Indices, time_bin: Indices | None = None) -> Array:
        """The expected rating of each pair (n,)."""
        return np.asarray(sum(self.predict_by_draw(user, item, time_bin)) / len(self.users))

    def predict_variance(self, user: Indices, item: Indices, time_bin: Indices | None = None) -> Array:
        """The variance of each pair's expected rating over the draws (n,), without noise."""
        count, mean, squares = 0, np.zeros(len(user)), np.zeros(len(user))
        for expected in self.predict_by_draw(user, item, time_bin):
            count += 1
            difference = expected - mean
            mean = mean + difference / count
            squares = squares + difference * (expected - mean)
        return squares / max(count, 1)

    def predict_interval(
        self, user: Indices, item: Indices, time_bin: Indices | None, coverage: float
    ) -> tuple[Array, Array]:
        """The ends (n,) of the central interval of each pair's distribution, a mixture over draws."""
        means = np.stack(list(self.predict_by_draw(user, item, time_bin)))
        scale = np.sqrt(self.noise_variances)[:, None]
        lower, upper = (1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0
        return find_mixture_quantile(means, scale, lower), find_mixture_quantile(means, scale, upper)

    @property
    def noise_variances(self) -> Array:
        """The variance of a rating's noise in each draw (draws,)."""
        assert self.hyperparameters is not None
        return 1.0 / self.hyperparameters.precision

    def predict_all_items(self, rows: Stack, time_bin: int | None = None) -> Array:
        """The expected ratings of all items (q, items) by users with these rows (draws, q, k + 1)."""
        ratings = np.zeros((rows.shape[1], self.items.shape[1]))
        with threads.one_blas_thread:
            for users, items in zip(rows, self.items, strict=True):
                ratings += users[:, :-1] @ items[:, :-1].T + users[:, -1:] + items[:, -1]
        ratings /= len(self.users)
        ratings += self.level
        if time_bin is not None and len(self.time_offsets):
            ratings += self.time_offsets[time_bin] + self.item_time_offsets[:, time_bin]
        return ratings

    def join_item_factors(self) -> Array:
        """Factors by which items are compared (items, draws · k): draws side by side, without offsets."""
        items = self.items.shape[1]
        return np.asarray(self.items[:, :, :-1].transpose(1, 0, 2).reshape(items, -1), dtype=np.float64)

    def resize(self, users: Indices, items: Indices, size: tuple[int, int]) -> "FactorPosterior":
        """Extend to `size` users and items; known rows move to these indices, and all others are 0."""
        user_rows = np.zeros((len(self.users), size[0], self.users.shape[2]), dtype=self.users.dtype)
        item_rows = np.zeros((len(self.items), size[1], self.items.shape[2]), dtype=self.items.dtype)
        offsets = np.zeros((size[1], len(self.time_offsets)))
        user_rows[:, users], item_rows[:, items] = self.users, self.items
        offsets[items] = self.item_time_offsets
        return replace(self, users=user_rows, items=item_rows, item_time_offsets=offsets)

    def with_rows(self, side: SideName, indices: Indices, rows: Stack) -> "FactorPosterior":
        """Replace the rows of these users or items."""
        all_rows = (self.users if side == "users" else self.items).copy()
        all_rows[:, indices] = rows
        return replace(self, users=all_rows) if side == "users" else replace(self, items=all_rows)

    def make_unknown_row(self, side: SideName) -> Array:
        """The expected row of an unknown user or item (draws, k + 1)."""
        if self.hyperparameters is None:
            return np.zeros((1, self.users.shape[2]))
        mean, _ = self.hyperparameters.select_priors(side)
        return mean

    def with_unknown_row(
        self, indices: Indices, side: SideName, rng: np.random.Generator | None
    ) -> tuple["FactorPosterior", Indices]:
        """Add one row for unknown users or items; in the returned indices, its index replaces −1.

        The row is the mean of its side's prior or, with a generator, a draw from the prior.
        """
        if self.hyperparameters is None or (indices >= 0).all():
            return self, indices
        row = self.make_unknown_row(side)
        if rng is not None:
            _, precision = self.hyperparameters.select_priors(side)
            roots = Cholesky.of(precision, "precision of the factors").inverse_factor()
            row = row + np.einsum("dk,dkj->dj", rng.standard_normal(row.shape), roots)
        rows: Stack = self.users if side == "users" else self.items
        extended = np.concatenate([rows, row[:, None].astype(rows.dtype)], axis=1)
        indices = np.where(indices >= 0, indices, rows.shape[1])
        if side == "users":
            return replace(self, users=extended), indices
        offsets = np.concatenate([self.item_time_offsets, np.zeros((1, len(self.time_offsets)))])
        return replace(self, items=extended, item_time_offsets=offsets), indices

    def solve_rows(
        self, side: SideName, solver: Solver, ratings: Ratings, indices: Indices, rng: np.random.Generator
    ) -> Stack:
        """The rows of some users given the items, or of some items given the users (draws, rows, k + 1).

        If the factors are draws, the rows are drawn again.
        """
        of_users = side == "users"
        if self.hyperparameters is None:
            solve = solver.solve_users if of_users else solver.solve_items
            return solve(ratings, self.select_draw(), indices)[None]
        grouped = (ratings.by_user if of_users else ratings.by_item).select_rows(indices)
        targets = compute_targets(ratings, grouped, self)
        rows = []
        others, precisions = self.items if of_users else self.users, self.hyperparameters.precision
        priors = zip(*self.hyperparameters.select_priors(side), strict=True)
        for other, noise, prior in zip(others, precisions.tolist(), priors, strict=True):
            rows.append(draw_rows(grouped, targets, other.astype(np.float64), noise, RowPrior(*prior), rng))
        return np.array(rows, dtype=np.float32)


def find_mixture_quantile(means: Array, scale: Array, probability: float) -> Array:
    """The quantile of each column's mixture of Gaussians (n,), by Newton's method with a bracket.

    `means` is (draws, n) and `scale` (draws, 1). A step that would leave the bracket, or be longer than half
    of the last one, is replaced by a bisection of the bracket.
    """
    width = _WIDTH * float(scale.max())
    low, high = means.min(axis=0) - width, means.max(axis=0) + width
    deviation = np.sqrt(np.square(scale).mean() + means.var(axis=0))
    x: Array = means.mean(axis=0) + float(special.ndtri(probability)) * deviation
    length, tolerance = high - low, _TOLERANCE * width
    for _ in range(_MAX_STEPS):
        z = (x - means) / scale
        shortfall = probability - special.ndtr(z).mean(axis=0)
        low, high = np.where(shortfall > 0.0, x, low), np.where(shortfall > 0.0, high, x)
        density = (np.exp(-0.5 * z * z) / scale).mean(axis=0) / np.sqrt(2.0 * np.pi)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            newton = x + shortfall / density
        is_accepted = (
            (low <= newton) & (newton <= high) & (np.abs(newton - x) <= np.maximum(0.5 * length, tolerance))
        )
        last, x = x, np.where(is_accepted, newton, 0.5 * (low + high))
        length = np.abs(x - last)
        if (length <= tolerance).all():
            break
    return x
