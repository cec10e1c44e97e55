"""The layer of coefficients: which features have one, and features of the same messages as one column."""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from streams import Corpus

from tamis_mail.features.arrays import expand_ranges
from tamis_mail.store.coefficient_arrays import count_units
from tamis_mail.store.coefficients import UNIT
from tamis_mail.verdict import RULES, arrays, fitting

Floats = np.ndarray


class Design:
    """The features of a corpus that may have coefficients, with the value 1 / √n of each."""

    def __init__(self, corpus: Corpus, views: tuple[int, ...], values: str = "view") -> None:
        features = corpus.features(2)
        keep = np.isin(features.kinds, views)[features.places]
        owners = np.repeat(np.arange(len(corpus)), np.diff(features.starts))[keep]
        self.columns = features.places[keep].astype(np.int32)
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(corpus)))])
        cell = owners * 8 + features.kinds[self.columns]
        sizes, kinds = np.bincount(cell)[cell].astype(float), features.kinds[self.columns]
        if values == "reluctant":
            sizes += np.array([view.reluctance for view in RULES[2].views])[kinds]
        if values == "overall":
            sizes = np.bincount(owners)[owners] / len(views)
        self.values = 1 / np.sqrt(sizes)
        self.features, self.kinds = len(features.keys), features.kinds

    def take(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Owners, columns and values of the entries of some messages."""
        places, owners = expand_ranges(self.starts[messages], self.starts[messages + 1])
        return owners, self.columns[places], self.values[places]

    def judge(self, messages: np.ndarray, b: Floats) -> Floats:
        owners, columns, values = self.take(messages)
        return np.bincount(owners, values * b[columns], len(messages))


@dataclass(frozen=True)
class Priors:
    """Precisions that differ by feature: a value that is multiplied by f stands for a precision of λ / f²."""

    by_view: tuple[float, ...] = (1, 1, 1, 1, 1)  # the factor of each view
    by_weight: str = ""  # "all": times the weight of the feature; "others": … by the counts of other messages
    labels: np.ndarray | None = None  # of the corpus

    def apply(self, design: Design, messages, owners, columns, values) -> tuple[Floats, Floats]:
        """The factor of each feature, and the values of the entries times these."""
        factors = np.array(self.by_view)[design.kinds]
        if not self.by_weight:
            return factors, values * factors[columns]
        labels = self.labels[messages]
        cells = columns * 2 + labels[owners]
        counts = np.bincount(cells, minlength=2 * design.features).reshape(-1, 2)
        totals = np.bincount(labels, minlength=2)
        weights = weigh(design.kinds, counts, totals)
        entry_weights = weights[columns]
        if self.by_weight == "others":
            for label in (0, 1):
                own = np.arange(2) == label
                without = weigh(design.kinds, np.maximum(counts - own, 0), np.maximum(totals - own, 1))
                is_own = labels[owners] == label
                entry_weights[is_own] = without[columns[is_own]]
        return factors * weights, values * factors[columns] * entry_weights


def weigh(kinds: np.ndarray, counts: np.ndarray, totals: np.ndarray) -> Floats:
    """(features,): the weight of each feature, by naive Bayes."""
    weights = np.zeros(len(kinds))
    for kind, view in enumerate(RULES[2].views):
        chosen = np.flatnonzero((kinds == kind) & (counts.sum(axis=1) > 0))
        ham, spam = counts[chosen].T.astype(float)
        weights[chosen] = arrays.weigh(view, spam, ham, *totals[::-1].astype(float))
    return weights


@dataclass(frozen=True)
class Matrix:
    """The entries of the columns that stand for others, and the column of each feature."""

    rows: fitting.SparseRows
    used: np.ndarray  # features with a coefficient
    column_of: np.ndarray  # of each of these
    sizes: np.ndarray  # of the group of each column
    factors: np.ndarray  # of each used feature: its value is multiplied by it


def build(design: Design, messages: np.ndarray, least: int = 2, priors: Priors | None = None) -> Matrix:
    """Features that the same messages have get the same coefficient, so that they are one column, times √g."""
    owners, columns, values = design.take(messages)
    factors = np.ones(design.features)
    if priors is not None:
        factors, values = priors.apply(design, messages, owners, columns, values)
    counts = np.bincount(columns, minlength=design.features)
    is_used = counts >= least
    rng = np.random.default_rng(1)
    marks = [
        np.bincount(columns, rng.integers(0, 1 << 39, len(messages)).astype(float)[owners], design.features)
        for _ in range(2)
    ]
    used = np.flatnonzero(is_used)
    # a message has the same value for all its features of a view
    marks.append(design.kinds)
    order = np.lexsort([mark[used] for mark in marks])
    one = used[order]
    is_first = np.zeros(len(used), bool)
    is_first[:1] = True
    for mark in marks:
        is_first[1:] |= mark[one[1:]] != mark[one[:-1]]
    group = np.cumsum(is_first) - 1
    sizes = np.bincount(group)
    number = np.full(design.features, -1, np.int64)
    number[one[is_first]] = np.arange(len(sizes))
    column_of = np.empty(len(used), np.int64)
    column_of[order] = group
    entry_columns = number[columns]
    kept = np.flatnonzero(entry_columns >= 0)
    entry_columns = entry_columns[kept]
    rows = fitting.SparseRows.of(
        owners[kept], entry_columns, values[kept] * np.sqrt(sizes)[entry_columns], len(messages), len(sizes)
    )
    return Matrix(rows, used, column_of, sizes, factors[used])


def fit(matrix: Matrix, is_spam: np.ndarray, weights: Floats, offset: Floats, precision: float) -> Floats:
    """(columns,): the coefficients of the columns."""
    with patch.object(fitting, "PRECISION", precision):
        return fitting._minimise(matrix.rows, is_spam.astype(float), weights, offset)


def spread(matrix: Matrix, b: Floats, features: int, worth: float) -> Floats:
    """(features,): the coefficients as they are stored."""
    found = np.zeros(features)
    coefficients = (b / np.sqrt(matrix.sizes))[matrix.column_of] * matrix.factors
    found[matrix.used] = count_units(worth * coefficients) * UNIT
    return found
