"""Naive Bayes of categories, with scikit-learn's parameters and answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array
from tamis.estimators.discrete import DiscreteClassifier
from tamis.models.generative import Block, CategoryColumns
from tamis.schema import Schema
from tamis.stats import Keys

_MOST_CODES = 1 << 16


class CategoricalNB(DiscreteClassifier):
    """Categorical naive Bayes, with scikit-learn's parameters and answers; categories of any kind.

    Numbers are taken for 0, 1, 2 … up to the largest seen, as scikit-learn does. Strings need no encoder, and
    a category first seen in `predict` just works.

    >>> import tamis
    >>> model = tamis.CategoricalNB().fit([["red", "s"], ["red", "m"], ["blue", "m"]], [1, 1, 0])
    >>> model.predict([["red", "xl"]]).tolist()
    [1]
    """

    @property
    def _sparse(self) -> bool:
        return False

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        min_categories: ArrayLike | None = None,
        missing_label: object = None,
        unlabelled_weight: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.min_categories = min_categories
        self.missing_label = missing_label
        self.unlabelled_weight = unlabelled_weight
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {
            "categorical": CategoryColumns(
                columns=tuple(range(schema.width)),
                alpha=self._alpha(schema),
                numbered=True,
                least=self.min_categories,
            )
        }

    @property
    def category_count_(self) -> list[Array]:
        """Of each column, how often each value came in each class; columns as in `categories_`."""
        density = self._density("category_count_")
        never = np.zeros_like(density.absent)
        columns = zip(density.counts, density.values, density.sizes, never, strict=True)
        return [_numbered(*column) for column in columns]

    @property
    def feature_log_prob_(self) -> list[Array]:
        """Of each column, log p(value | class); columns as in `categories_`."""
        density = self._density("feature_log_prob_")
        columns = zip(density.tables, density.values, density.sizes, density.absent, strict=True)
        return [_numbered(*column) for column in columns]

    @property
    def categories_(self) -> list[Sequence[Any]]:
        """The values that each column was seen with; of whole numbers, all from 0 up."""
        density = self._density("categories_")
        columns = zip(density.values, density.sizes.tolist(), strict=True)
        return [list(range(size) if _are_codes(keys, size) else keys) for keys, size in columns]

    @property
    def n_categories_(self) -> NDArray[np.int64]:
        """How many values each column may have."""
        return self._density("n_categories_").sizes  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags


def _are_codes(keys: Keys, size: int) -> bool:
    """Whether values are whole numbers, and not so far apart that a column for each would fill the memory."""
    return size <= _MOST_CODES and all(isinstance(key, int | float) and key == int(key) for key in keys)


def _numbered(table: Array, keys: Keys, size: int, absent: Array) -> Array:
    """A column for each of 0, 1, … size − 1, as scikit-learn has it, if the keys are such numbers."""
    if not _are_codes(keys, size):
        return table
    found = np.repeat(absent[:, None], size, axis=1)
    found[:, [int(key) for key in keys]] = table  # type: ignore[call-overload]
    return found
