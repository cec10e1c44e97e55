"""Actions and the items' factors → a Gram matrix per user → the users' factors (Hu, Koren, Volinsky 2008).

Every user has a preference for every item: 1 after an action (played, clicked, bought), 0 without. A pair
with an action has the confidence c = 1 + confidence · value; every other pair has c = 1. The Gram matrices
have one part in common, YᵀY for the factors Y of all items, which is computed once.
"""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from tamis import threads
from tamis._kernels import factors as kernels
from tamis.arrays import Array
from tamis.models.factors.alternating import Factors, RatingsGiven, Sweep, SweepModel, predict_pairs
from tamis.models.factors.ratings import GroupedRatings, Ratings
from tamis.protocols import Iterative


@dataclass(frozen=True, slots=True)
class Implicit(SweepModel):
    """Alternating least squares over all pairs, with an action or without; no level and no offsets."""

    rank: int  # the number of factors
    ridge: float = 0.1  # of each factor of a row
    confidence: float = 40.0  # the confidence that an action of value 1 adds to that of a pair without one

    def start(self, ratings: Ratings, rng: np.random.Generator) -> Factors:
        """Start with small random factors of items."""
        items = np.zeros((ratings.n_items, self.rank + 1))
        items[:, :-1] = rng.normal(scale=0.1 / np.sqrt(self.rank), size=(ratings.n_items, self.rank))
        users = np.zeros((ratings.n_users, self.rank + 1))
        return Factors(
            level=0.0,
            users=users,
            items=items,
            time_offsets=np.zeros(0),
            item_time_offsets=np.zeros((ratings.n_items, 0)),
        )

    def infer(self, statistic: RatingsGiven[Sweep]) -> Sweep:
        """Make one sweep: items given users, then users given items."""
        ratings, factors = statistic.ratings, statistic.posterior.factors
        factors = replace(factors, items=self.solve_items(ratings, factors))
        factors = replace(factors, users=self.solve_users(ratings, factors))
        return self.evaluate(ratings, factors)

    def evaluate(self, ratings: Ratings, factors: Factors) -> Sweep:
        """Compute the RMSE of pairs with an action, whose preference is 1, and the objective of all pairs."""
        side, users, items = ratings.by_user, factors.users[:, :-1], factors.items[:, :-1]
        residuals = 1.0 - predict_pairs(
            factors.users, factors.items, ratings.user_index[side.rating_index], side.other_index
        )
        with threads.one_blas_thread:
            all_pairs = float(((users.T @ users) * (items.T @ items)).sum())
        has_action = side.weights > 0.0
        actions = self.compute_pulls(side) * np.square(residuals) - has_action * np.square(1.0 - residuals)
        penalty = self.ridge * float(np.square(users).sum() + np.square(items).sum())
        squares = float((side.weights * np.square(residuals)).sum())
        objective = all_pairs + float(actions.sum()) + penalty
        return Sweep(factors, sqrt(squares / ratings.total_weight), objective)

    def compute_confidence(self, side: GroupedRatings) -> Array:
        """c − 1 of each action (n,)."""
        return self.confidence * side.weights * side.values

    def compute_pulls(self, side: GroupedRatings) -> Array:
        """c times the preference of each pair (n,); an action of weight 0 counts as none."""
        return np.where(side.weights > 0.0, 1.0 + self.compute_confidence(side), 0.0)

    def _solve_rows(self, ratings: Ratings, side: GroupedRatings, other: Array, factors: Factors) -> Array:
        features = np.ascontiguousarray(other[:, :-1])
        confidence, pulls = self.compute_confidence(side), self.compute_pulls(side)
        ridge = np.full((len(side.counts), self.rank), self.ridge)
        with threads.one_blas_thread:
            shared_gram = features.T @ features
        # `solve_rows` adds `base` to the Gram matrix of each row's regression.
        rows = kernels.solve_rows(
            side.indptr, side.other_index, confidence, pulls, features, ridge, base=shared_gram
        )
        if not np.isfinite(rows).all():
            raise ValueError(
                f"got actions of confidence {confidence.max():.0e} with ridge={self.ridge:g}, expected less: "
                "rounding leaves no digits of the factors; lower confidence, raise ridge, or give log1p of "
                "values"
            )
        return np.column_stack([rows, np.zeros(len(rows))])


# The type checker verifies by this assignment that Implicit has the methods of Iterative.
_: type[Iterative[Ratings, RatingsGiven[Sweep], Sweep]] = Implicit
