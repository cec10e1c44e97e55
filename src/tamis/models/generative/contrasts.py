"""Posterior, rows → the contribution of each column to the log-odds of one class against another."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tamis.arrays import Array
from tamis.models.generative.block import Block, Contrast, subtract_logs
from tamis.models.generative.model import Encoded, Posterior

Indices = NDArray[np.int64]


class LogOddsParts(NamedTuple):
    """The parts whose sum is the log-odds of each row."""

    terms: Any  # (n, d), columns in the order of the data; a sparse matrix if the rows are one
    rest: Array  # (n,): terms that belong to no single column
    prior: Array  # (n,): the log-odds of the class probabilities


def compute_contributions(
    blocks: Mapping[str, Block[Any, Any]],
    posterior: Posterior,
    rows: Encoded,
    for_: Indices,
    against: Indices,
    width: int,
) -> LogOddsParts:
    """The contributions of `width` columns to the log-odds of class `for_` over `against`, of each row.

    `for_` and `against` (n,) are indices of classes.
    """
    prior = subtract_logs(posterior.log_prior[for_], posterior.log_prior[against])
    contrasts = _contrast_rows(posterior, rows, for_, against)
    rest = sum((contrast.rest for contrast in contrasts.values()), np.zeros(len(for_)))
    if len(contrasts) == 1 and all(blocks[name].columns is None for name in contrasts):
        terms: Any = next(iter(contrasts.values())).terms
    else:
        terms = np.zeros((len(for_), width))
        for name, contrast in contrasts.items():
            columns = blocks[name].columns
            block_terms = contrast.terms.toarray() if hasattr(contrast.terms, "toarray") else contrast.terms
            terms[:, list(range(width) if columns is None else columns)] = block_terms
    return LogOddsParts(terms, rest, prior)


def _contrast_rows(
    posterior: Posterior, rows: Encoded, for_: Indices, against: Indices
) -> dict[str, Contrast]:
    """The log-odds of each block, between the two classes of each row."""
    pairs, pair_index = np.unique(np.stack([for_, against], axis=1), axis=0, return_inverse=True)
    if len(pairs) == 1:
        return posterior.contrasts(rows, int(pairs[0, 0]), int(pairs[0, 1]))
    parts: list[dict[str, Contrast]] = []
    order: list[Indices] = []
    for number, (one, other) in enumerate(pairs.tolist()):
        selected = np.flatnonzero(pair_index.ravel() == number)
        order.append(selected)
        parts.append(posterior.contrasts(rows.take(selected), one, other))
    inverse_order = np.argsort(np.concatenate(order))
    return {
        name: Contrast(
            _concatenate_rows([part[name].terms for part in parts], inverse_order),
            np.concatenate([part[name].rest for part in parts])[inverse_order],
        )
        for name in parts[0]
    }


def _concatenate_rows(parts: list[Any], order: Indices) -> Any:
    if hasattr(parts[0], "tocsr"):
        return sparse.vstack(parts).tocsr()[order]
    return np.concatenate(parts)[order]
