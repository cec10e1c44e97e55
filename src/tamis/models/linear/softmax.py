"""Softmax: scores of K classes → losses, slopes and curvatures, in K − 1 contrasts.

Adding the same to every class's score changes nothing, so that K rows of coefficients would be one too
many. The parameters are those of K − 1 orthonormal contrasts; the classes' own are their image, and sum to
zero. A Gaussian prior with one precision for all classes has the same mode in both.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import helmert

from tamis.arrays import Array
from tamis.models.linear.design import Block
from tamis.tables import runs

_CELLS = 1 << 21  # of rows times probabilities, in memory at a time


@dataclass(frozen=True, slots=True, eq=False)
class Softmax:
    """K classes, told apart by K − 1 linear scores."""

    contrasts: Array  # (K, K − 1), orthonormal columns that sum to zero

    @classmethod
    def of(cls, classes: int) -> "Softmax":
        return cls(np.ascontiguousarray(helmert(classes).T))

    @property
    def classes(self) -> int:
        """K."""
        return len(self.contrasts)

    def loss(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """−log p(own class) of each row (k,), and its slope in each class's score (k, K)."""
        own = (np.arange(len(scores)), targets.astype(np.intp))
        most = scores.max(axis=1, keepdims=True)
        shares = scores - most
        losses = -shares[own]
        np.exp(shares, out=shares)
        total = shares.sum(axis=1, keepdims=True)
        losses += np.log(total[:, 0])
        shares /= total
        shares[own] -= 1.0
        return losses, shares

    def probabilities(self, scores: Array) -> Array:
        """(k, K)."""
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return np.asarray(shares)

    def curvature(self, block: Block, scores: Array, weights: Array | None) -> Array:
        """Σ (diag p − p pᵀ) ⊗ x xᵀ over all K classes (K · width, K · width)."""
        p, width = self.probabilities(scores), block.width
        found = np.zeros((self.classes * width,) * 2)
        for part in runs(len(p), self.classes * width, _CELLS):
            rows = block.dense(part)
            if weights is not None:
                rows = rows * np.sqrt(weights[part])[:, None]
            stacked = (p[part, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            found -= stacked.T @ stacked
            for place in range(self.classes):
                at = slice(place * width, (place + 1) * width)
                found[at, at] += rows.T @ stacked[:, at]
        return found

    def project(self, full: Array) -> Array:
        """The same in contrasts ((K − 1) · width)²."""
        k = self.classes
        width = len(full) // k
        cells = full.reshape(k, width, k, width)
        found = np.einsum("ka,kilj,lb->aibj", self.contrasts, cells, self.contrasts, optimize=True)
        return np.ascontiguousarray(found.reshape((k - 1) * width, -1))

    def diagonal(self, block: Block, scores: Array, weights: Array | None) -> Array:
        """The diagonal of that."""
        p = self.probabilities(scores)
        mean = p @ self.contrasts
        spread = p @ np.square(self.contrasts) - np.square(mean)  # (k, K − 1): variance of each contrast
        if weights is not None:
            spread *= weights[:, None]
        return np.concatenate([block.squares(each) for each in np.ascontiguousarray(spread.T)])
