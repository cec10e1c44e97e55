"""Every face, and rows that suit it: a new face is one more line in FACES."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
)

Draw = Callable[[np.random.Generator, int], Any]


def numbers(rng: np.random.Generator, n: int, d: int = 4) -> Array:
    """Numbers with means far from zero, as no face should mind."""
    return rng.normal(size=(n, d)) * np.linspace(0.1, 10.0, d) + 100.0


def counts(rng: np.random.Generator, n: int, d: int = 4) -> Array:
    return rng.poisson(np.linspace(0.5, 3.0, d), size=(n, d)).astype(np.float64)


def flags(rng: np.random.Generator, n: int, d: int = 4) -> Array:
    return (rng.random((n, d)) < np.linspace(0.2, 0.8, d)).astype(np.float64)


def codes(rng: np.random.Generator, n: int, d: int = 4) -> Array:
    return rng.integers(0, np.arange(2, 2 + d), size=(n, d)).astype(np.float64)


def mixed(rng: np.random.Generator, n: int) -> NDArray[Any]:
    """A number, a flag, a word, and a word or nothing."""
    found = np.empty((n, 4), dtype=object)
    found[:, 0] = rng.normal(size=n)
    found[:, 1] = [bool(value) for value in rng.integers(0, 2, n)]
    found[:, 2] = rng.choice(["red", "green", "blue"], n)
    found[:, 3] = [None if value == "none" else value for value in rng.choice(["s", "m", "none"], n)]
    return found


@dataclass(frozen=True)
class Face:
    """A classifier of some kind, and how to draw rows for it."""

    name: str
    make: Callable[..., Any]
    draw: Draw
    counting: bool = False  # whether it takes no negative numbers
    sparse: bool = True  # whether it takes sparse rows

    def rows(self, n: int = 40, classes: int = 3, seed: int = 0) -> tuple[Any, NDArray[Any]]:
        """Rows and labels, each label there at least once if n allows."""
        rng = np.random.default_rng(seed)
        return self.draw(rng, n), np.concatenate(
            [np.arange(min(n, classes)), rng.integers(0, classes, max(0, n - classes))]
        )

    def fitted(self, n: int = 40, classes: int = 3, seed: int = 0) -> Any:
        return self.make().fit(*self.rows(n, classes, seed))


def of_all_kinds() -> NaiveBayes:
    """With its families named: a batch whose column is all missing does not tell of what kind that is."""
    return NaiveBayes({0: "gaussian", 1: "bernoulli", 2: "categorical", 3: "categorical"})


FACES = [
    Face("GaussianNB", GaussianNB, numbers),
    Face("MultinomialNB", MultinomialNB, counts, counting=True),
    Face("ComplementNB", ComplementNB, counts, counting=True),
    Face("BernoulliNB", BernoulliNB, flags),
    Face("PoissonNB", PoissonNB, counts, counting=True),
    Face("CategoricalNB", CategoricalNB, codes, counting=True, sparse=False),
    Face("NaiveBayes", NaiveBayes, numbers),
    Face("NaiveBayes-mixed", of_all_kinds, mixed, sparse=False),
]
PLAIN = [face for face in FACES if face.draw is not mixed]  # those whose rows are arrays of numbers


def named(face: Face) -> str:
    """How a test calls the face."""
    return face.name


def same(one: Any, other: Any, rows: Any) -> bool:
    """Whether two models have learned the same, to the bit, and answer the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours, theirs = one.predict_joint_log_proba(rows), other.predict_joint_log_proba(rows)
    return bool(
        one.statistic_ == other.statistic_
        and one.classes_.tolist() == other.classes_.tolist()
        and np.array_equal(ours, theirs, equal_nan=True)
    )
