"""Sparse rows, codes and scores → cells: the kernels, against what NumPy and SciPy users write."""

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.harness import AnyCase, Case
from tamis import _kernels
from tamis._kernels import Floats, Words

ROWS, COLUMNS, ENTRIES = 100_000, 50_000, 50  # entries a row


class Texts:
    """Counts of words in texts, in so many groups."""

    def __init__(self, groups: int) -> None:
        rng = np.random.default_rng(0)
        self.indptr: Words = np.arange(ROWS + 1) * ENTRIES
        self.indices = rng.integers(0, COLUMNS, size=ROWS * ENTRIES).astype(np.int32)
        self.values = rng.integers(1, 5, size=ROWS * ENTRIES).astype(np.float64)
        self.group: Words = rng.integers(0, groups, size=ROWS)
        self.groups = groups
        csr: Any = (self.values, self.indices, self.indptr.astype(np.int32))
        self.matrix = sparse.csr_array(csr, shape=(ROWS, COLUMNS))


def _deposit_sparse(texts: Texts) -> Words:
    csr = texts.indptr, texts.indices, texts.values
    words, _ = _kernels.deposit_sparse(*csr, None, texts.group, texts.groups, COLUMNS)
    return words.reshape(texts.groups, COLUMNS)


def _indicator_product(texts: Texts) -> Any:
    ones: Any = (np.ones(ROWS), (texts.group, np.arange(ROWS)))
    return sparse.csr_array(ones, shape=(texts.groups, ROWS)) @ texts.matrix


def _same_counts(ours: Words, peer: Any) -> bool:
    return bool((ours == peer.toarray()).all())


class Table:
    """200,000 rows of 30 columns with 20 categories each, in 20 groups."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.codes: Words = rng.integers(0, 20, size=(200_000, 30))
        self.group: Words = rng.integers(0, 20, size=200_000)
        self.offsets: Words = np.arange(31) * 20


def _deposit_codes(table: Table) -> Words:
    return _kernels.deposit_codes(table.codes, table.offsets, None, table.group, 20)[0].reshape(20, 600)


def _joint_bincount(table: Table) -> Words:
    cell = (table.group * 600)[:, None] + table.offsets[:-1] + table.codes
    return np.bincount(cell.ravel(), minlength=20 * 600).reshape(20, 600)


class Mixture:
    """1,000,000 rows of 20 columns, and so many Gaussian classes."""

    def __init__(self, classes: int) -> None:
        rng = np.random.default_rng(0)
        self.x: Floats = rng.normal(size=(1_000_000, 20))
        self.mean: Floats = rng.normal(size=(classes, 20))
        self.precision: Floats = rng.exponential(size=(classes, 20))
        self.log_peak: Floats = 0.5 * np.log(self.precision)
        self.constant: Floats = rng.normal(size=classes)


def _gaussian_scores(mixture: Mixture) -> Floats:
    parameters = mixture.mean, mixture.precision, mixture.log_peak, mixture.constant
    return _kernels.gaussian_scores(mixture.x, *parameters)


def _expanded_square(mixture: Mixture) -> Floats:
    """The square multiplied out, for BLAS: fast, and wrong for data far from zero."""
    weighted = mixture.precision * mixture.mean
    constant = mixture.constant + mixture.log_peak.sum(axis=1) - 0.5 * (weighted * mixture.mean).sum(axis=1)
    return np.asarray(mixture.x @ weighted.T - 0.5 * (mixture.x**2 @ mixture.precision.T) + constant)


def _near(ours: Floats, peer: Floats) -> bool:
    return bool(np.allclose(ours, peer, rtol=1e-9, atol=1e-9))


def _sparse(groups: int) -> AnyCase:
    return Case(
        name=f"kernel-sparse-{groups}",
        what=f"exact column sums of 100,000 × 50,000 with 5e6 entries in {groups} groups (dense), "
        "against SciPy's indicator @ X (sparse)",
        setup=lambda: Texts(groups),
        ours=_deposit_sparse,
        peer=_indicator_product,
        agree=_same_counts,
    )


def _gaussian(classes: int) -> AnyCase:
    return Case(
        name=f"kernel-gaussian-{classes}",
        what=f"scores of 1,000,000 × 20 in {classes} Gaussian classes, against the expanded square by BLAS",
        setup=lambda: Mixture(classes),
        ours=_gaussian_scores,
        peer=_expanded_square,
        agree=_near,
    )


CASES: tuple[AnyCase, ...] = (
    _sparse(2),
    _sparse(200),
    Case(
        name="kernel-codes",
        what="counts of 200,000 × 30 codes in 20 groups of 600 cells, against NumPy's bincount of them all",
        setup=Table,
        ours=_deposit_codes,
        peer=_joint_bincount,
        agree=lambda ours, peer: bool((ours == peer).all()),
    ),
    _gaussian(10),
    _gaussian(100),
)
