"""Ratings of simulated tastes, and recommenders of them."""

from typing import Any

import numpy as np
import pandas as pd

from tamis import MatrixFactorization

USERS, ITEMS = 40, 30


def triples(seed: int = 0, share: float = 0.5) -> list[tuple[str, str, float]]:
    """Ratings of 1 to 5 of two tastes."""
    rng = np.random.default_rng(seed)
    own, other = rng.normal(size=(USERS, 2)), rng.normal(size=(ITEMS, 2))
    stars = np.clip(np.round(3.0 + 0.4 * rng.normal(size=ITEMS) + own @ other.T), 1, 5)
    cells = np.argwhere(rng.random((USERS, ITEMS)) < share).tolist()
    return [(f"u{u:02}", f"i{i:02}", float(stars[u, i])) for u, i in cells]


def made(**more: Any) -> MatrixFactorization:
    return MatrixFactorization(**{"n_factors": 3, "max_iter": 8, "tol": 0.0, "random_state": 0, **more})


def timed(seed: int = 0) -> pd.DataFrame:
    rows = pd.DataFrame(triples(seed), columns=["user", "item", "rating"])
    rows["time"] = np.random.default_rng(seed).uniform(0.0, 100.0, len(rows))
    return rows
