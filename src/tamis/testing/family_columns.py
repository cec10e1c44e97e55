"""Property tests (laws) of blocks of columns: a faster block equals the generic block `FamilyColumns`.

A law is a function that raises AssertionError. `FASTER_BLOCKS` registers every block that is specialised for
a family of single columns, with columns of that family to test it with: few rows, missing values, weights,
classes without rows, and counts of up to 1e8.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import NaiveBayes
from tamis.families import Bernoulli, Categorical, Gaussian, Poisson
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.family import Family
from tamis.families.registry import FAMILIES
from tamis.models.generative import BernoulliColumns, Block, CategoryColumns, GaussianColumns, PoissonColumns
from tamis.models.generative.block import Responsibilities
from tamis.models.generative.family_columns import FamilyColumns
from tamis.stats import Keys, Labels
from tamis.tables import Table
from tamis.testing.faces import FaceCase

CLASSES = Keys(("a", "b", "c"))
OBSERVED = Keys(("a", "b"))  # the classes that have rows
CATEGORIES = 3

_CLOSE = 1e-10  # tolerance, relative to results
_ROUNDING = 1e-14  # tolerance, relative to the largest terms, which nearly cancel where counts are large


@dataclass(frozen=True, eq=False)
class LabelledColumns:
    """Columns, the label and weight of each row, and responsibilities for the same rows."""

    values: Array  # (n, d), NaN where missing
    group: NDArray[np.int64]  # (n,), of OBSERVED
    weights: Array | None  # (n,)
    responsibilities: Array  # (n, 3)


@dataclass(frozen=True)
class BlockCase:
    """A faster block and its family.

    `make` takes an estimate, such as "map", and the strength of the prior. `columns` draws data of the
    family.
    """

    name: str
    family: ConjugateFamily
    make: Callable[[Any, float], Block[Any, Any]]
    columns: SearchStrategy[LabelledColumns]


@st.composite
def _columns(draw: st.DrawFn, values: Callable[[tuple[int, int]], SearchStrategy[Array]]) -> LabelledColumns:
    """Draw some rows; each of two classes has two rows that differ in every column, for the variances."""
    n, d = draw(st.integers(0, 12)), draw(st.integers(1, 3))
    drawn = np.where(draw(hnp.arrays(np.bool_, (n, d))), np.nan, draw(values((n, d))))
    rows = np.concatenate([drawn, [[0.0] * d, [1.0] * d] * 2])
    group = np.concatenate([draw(hnp.arrays(np.int64, n, elements=st.integers(0, 1))), [0, 0, 1, 1]])
    weights = draw(st.none() | hnp.arrays(np.float64, n + 4, elements=st.sampled_from([0.5, 1.0, 3.0])))
    responsibilities = draw(hnp.arrays(np.float64, (n + 4, 3), elements=st.sampled_from([0.125, 0.25, 0.5])))
    return LabelledColumns(rows, group, weights, responsibilities)


def _integers(largest: int) -> Callable[[tuple[int, int]], SearchStrategy[Array]]:
    return lambda shape: hnp.arrays(np.float64, shape, elements=st.integers(0, largest).map(float))


def _counts(shape: tuple[int, int]) -> SearchStrategy[Array]:
    return st.sampled_from([3, 100, 10**8]).flatmap(lambda largest: _integers(largest)(shape))


def _quarters(shape: tuple[int, int]) -> SearchStrategy[Array]:
    return hnp.arrays(np.float64, shape, elements=st.integers(-80, 80).map(lambda k: k / 4))


FASTER_BLOCKS: tuple[BlockCase, ...] = (
    BlockCase(
        "gaussian",
        Gaussian(0.0, 1.0),
        lambda estimate, alpha: GaussianColumns(estimate=estimate, strength=alpha),
        _columns(_quarters),
    ),
    BlockCase(
        "bernoulli",
        Bernoulli(0.5),
        lambda estimate, alpha: BernoulliColumns(estimate=estimate, alpha=alpha),
        _columns(_integers(1)),
    ),
    BlockCase(
        "poisson",
        Poisson(0.0),
        lambda estimate, alpha: PoissonColumns(estimate=estimate, alpha=alpha),
        _columns(_counts),
    ),
    BlockCase(
        "categorical",
        Categorical(np.full(CATEGORIES, 1.0 / CATEGORIES)),
        lambda estimate, alpha: CategoryColumns(
            estimate=estimate,
            alpha=alpha,
            numbered=True,  # all integers from 0 to the largest are categories, seen or not
            min_values=CATEGORIES,
        ),
        _columns(_integers(CATEGORIES - 1)),
    ),
)


def draw_columns(family: Family, rng: np.random.Generator, n: int) -> Array:
    """Draw three columns (n, 3), each of another member of a family; a tenth of the second is NaN."""
    if not isinstance(family, ConjugateFamily):  # the multinomial: its columns together are one value
        return rng.multinomial(8, [0.2, 0.3, 0.5], n).astype(np.float64)
    mean = family.mean_parameters
    mean = np.where(mean.any(), mean, 1.0)
    weight = np.full(3, 5.0)
    columns = family.sample_prior(rng, weight, weight[:, None] * mean).sample(rng, n)
    columns[rng.random(n) < 0.1, 1] = np.nan
    return columns


# Naive Bayes of each registered family, for the laws of `tamis.testing.faces`.
FAMILY_FACES: tuple[FaceCase, ...] = tuple(
    FaceCase(name, partial(NaiveBayes, families=family), partial(draw_columns, family))
    for name, family in FAMILIES.items()
)


def a_faster_block_is_the_block_of_any_family(
    case: BlockCase, data: LabelledColumns, estimate: Any, alpha: float, by_responsibilities: bool
) -> None:
    """Raise unless both blocks give the same scores, contrasts and log-evidence.

    Rows are summed by their labels or, with `by_responsibilities`, by these.
    """
    fast = case.make(estimate, alpha)
    any_family = FamilyColumns(family=case.family, estimate=estimate, alpha=alpha)
    table = Table.of(data.values)
    sizes = _compute_sizes(data.values)
    scores, contrasts, evidence = [], [], []
    for block in (fast, any_family):
        rows = block.encode(table)
        if by_responsibilities:
            statistic = block.observe(rows, Responsibilities(CLASSES, data.responsibilities), None)
        else:
            statistic = block.observe(rows, Labels(OBSERVED, data.group), data.weights)
        density = block.infer(statistic, CLASSES)
        scores.append(density.scores(rows))
        contrast = density.contrasts(rows, 0, 1)
        contrasts.append(np.asarray(contrast.terms).sum(axis=1) + contrast.rest)
        evidence.append(np.array(density.log_evidence()))
    assert_close("scores", scores[0], scores[1], sizes.sum(axis=1)[:, None])
    assert_close("contrasts", contrasts[0], contrasts[1], sizes.sum(axis=1))
    assert_close("log-evidence", evidence[0], evidence[1], sizes.sum())


def _compute_sizes(values: Array) -> Array:
    """Return x log x, about the size of the terms of log p(x), which nearly cancel if x is near its mean."""
    x = np.nan_to_num(np.abs(values), nan=0.0)
    return np.asarray(x * (1.0 + np.log1p(x.max(initial=0.0))))


def assert_close(what: str, left: Array, right: Array, size: Array) -> None:
    """Raise unless both are equal up to a small fraction of themselves and of the terms that they sum."""
    with np.errstate(invalid="ignore"):
        difference = np.where(left == right, 0.0, np.abs(left - right))
    allowed = _CLOSE * (1.0 + np.abs(right)) + _ROUNDING * size
    assert (difference <= allowed).all(), f"{what}: {left} and {right}, {np.max(difference)} apart"
