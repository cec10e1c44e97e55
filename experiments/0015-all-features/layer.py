"""The layer of coefficients: which features have one, and features of the same messages as one column."""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_matrix
from streams import Corpus

from tamis.links import sigmoid
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
    """Features of a view that the same messages have get the same coefficient: they are one column, × √g."""
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


def compute_log_evidence(
    matrix: Matrix, b: Floats, is_spam: np.ndarray, weights: Floats, offset: Floats, precision: float
) -> float:
    """Laplace's approximation of the logarithm of the probability of the labels."""
    rows = matrix.rows
    score = offset + rows.multiply(b)
    loss = (weights * np.logaddexp(0, np.where(is_spam, -score, score))).sum() + precision * (b * b).sum() / 2
    p = sigmoid(score)
    owners = np.repeat(np.arange(len(score)), np.diff(rows.starts))
    values = rows.values * np.sqrt(weights * p * (1 - p))[owners]
    shape = len(score), rows.features
    scaled = csr_matrix((values, rows.columns, rows.starts), shape)
    gram = (scaled @ scaled.T).toarray() / precision
    gram[np.diag_indices_from(gram)] += 1
    return -loss - np.log(np.diag(np.linalg.cholesky(gram))).sum()


def choose_by_evidence(
    design: Design,
    messages: np.ndarray,
    least: int,
    is_spam: np.ndarray,
    weights: Floats,
    offset: Floats,
    precision: float,
    views: tuple[int, ...],
    is_by_view: bool,
) -> tuple[Matrix, Floats]:
    """Choose one factor of all values, or of each view, by coordinate ascent of the evidence from 1 on."""

    def attempt(factors: tuple[float, ...]) -> tuple[float, Matrix, Floats]:
        matrix = build(design, messages, least, Priors(factors))
        b = fit(matrix, is_spam, weights, offset, precision)
        return compute_log_evidence(matrix, b, is_spam, weights, offset, precision), matrix, b

    factors = (1.0,) * 5
    best = attempt(factors)
    groups = [(view,) for view in views] if is_by_view else [views]
    for group in groups:
        for step in (2.0, 0.5):
            for _ in range(3):
                changed = tuple(f * step if view in group else f for view, f in enumerate(factors))
                tried = attempt(changed)
                if tried[0] <= best[0]:
                    break
                best, factors = tried, changed
    return best[1], best[2]


def spread(matrix: Matrix, b: Floats, features: int, worth: float) -> Floats:
    """(features,): the coefficients as they are stored."""
    stored = np.zeros(features)
    coefficients = (b / np.sqrt(matrix.sizes))[matrix.column_of] * matrix.factors
    stored[matrix.used] = count_units(worth * coefficients) * UNIT
    return stored
