"""The layer of coefficients: which features have one, and features of the same messages as one column."""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from streams import Corpus

from tamis_mail.features.arrays import expand_ranges
from tamis_mail.store.coefficient_arrays import count_units
from tamis_mail.store.coefficients import UNIT
from tamis_mail.verdict import RULES, fitting

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
        self.features = len(features.keys)

    def take(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Owners, columns and values of the entries of some messages."""
        places, owners = expand_ranges(self.starts[messages], self.starts[messages + 1])
        return owners, self.columns[places], self.values[places]

    def judge(self, messages: np.ndarray, b: Floats) -> Floats:
        owners, columns, values = self.take(messages)
        return np.bincount(owners, values * b[columns], len(messages))


@dataclass(frozen=True)
class Matrix:
    """The entries of the columns that stand for others, and the column of each feature."""

    rows: fitting.SparseRows
    used: np.ndarray  # features with a coefficient
    column_of: np.ndarray  # of each of these
    sizes: np.ndarray  # of the group of each column


def build(design: Design, messages: np.ndarray, least: int = 2) -> Matrix:
    """Features that the same messages have get the same coefficient, so that they are one column, times √g."""
    owners, columns, values = design.take(messages)
    counts = np.bincount(columns, minlength=design.features)
    is_used = counts >= least
    rng = np.random.default_rng(1)
    marks = [
        np.bincount(columns, rng.integers(0, 1 << 39, len(messages)).astype(float)[owners], design.features)
        for _ in range(2)
    ]
    used = np.flatnonzero(is_used)
    # two views can have the same messages but not the same values: the value of the first entry tells
    value_of = np.zeros(design.features)
    value_of[columns] = values
    order = np.lexsort([value_of[used], marks[0][used], marks[1][used]])
    one = used[order]
    is_first = np.ones(len(used), bool)
    for mark in (*marks, value_of):
        pass
    is_first[1:] = (
        (marks[0][one[1:]] != marks[0][one[:-1]])
        | (marks[1][one[1:]] != marks[1][one[:-1]])
        | (value_of[one[1:]] != value_of[one[:-1]])
    )
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
    return Matrix(rows, used, column_of, sizes)


def fit(matrix: Matrix, is_spam: np.ndarray, weights: Floats, offset: Floats, precision: float) -> Floats:
    """(columns,): the coefficients of the columns."""
    with patch.object(fitting, "PRECISION", precision):
        return fitting._minimise(matrix.rows, is_spam.astype(float), weights, offset)


def spread(matrix: Matrix, b: Floats, features: int, worth: float) -> Floats:
    """(features,): the coefficients as they are stored."""
    found = np.zeros(features)
    found[matrix.used] = count_units(worth * (b / np.sqrt(matrix.sizes))[matrix.column_of]) * UNIT
    return found
