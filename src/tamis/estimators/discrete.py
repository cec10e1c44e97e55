"""Naive Bayes of counts, flags and categories, with scikit-learn's parameters and answers."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array
from tamis.estimators import answers
from tamis.estimators.generative import GenerativeClassifier
from tamis.estimators.reading import Schema, class_probabilities
from tamis.models import (
    BernoulliColumns,
    Block,
    CategoryColumns,
    ComplementCounts,
    Generative,
    MultinomialCounts,
    PoissonColumns,
)
from tamis.models.block import Estimate
from tamis.stats import Keys

_LEAST_ALPHA = 1e-10
_MOST_CODES = 1 << 16


class _Discrete(GenerativeClassifier):
    """What scikit-learn's discrete naive Bayes share: smoothing and the classes' prior."""

    alpha: ArrayLike
    force_alpha: bool
    fit_prior: bool
    class_prior: ArrayLike | None

    def _class_prior(self, classes: Keys) -> dict[str, Any]:
        return {
            "prior": class_probabilities(self.class_prior, classes, total=False),
            "even": not self.fit_prior,
        }

    def _counts_classes(self) -> bool:
        return self.class_prior is None

    def _alpha(self) -> Any:
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if (alpha < 0).any() or not np.isfinite(alpha).all():
            raise ValueError(f"got alpha={self.alpha}, expected smoothing of at least 0")
        alpha = alpha if self.force_alpha else np.maximum(alpha, _LEAST_ALPHA)
        return float(alpha) if alpha.ndim == 0 else alpha

    def _density(self, name: str) -> Any:
        answers.fitted_attribute(self, name)
        (density,) = self._posterior().densities.values()
        return density


class MultinomialNB(_Discrete):
    """Multinomial naive Bayes for counts, with scikit-learn's parameters and answers; dense or sparse.

    >>> import tamis
    >>> model = tamis.MultinomialNB().fit([[2, 1, 0], [2, 0, 1], [1, 0, 0], [0, 1, 2]], [1, 1, 1, 0])
    >>> model.predict([[3, 0, 1]]).tolist()
    [1]
    """

    def __init__(
        self,
        *,
        alpha: ArrayLike = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
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
        self.missing_label = missing_label
        self.unlabelled_weight = unlabelled_weight
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {"multinomial": MultinomialCounts(alpha=self._alpha())}

    def _takes_sums(self) -> Literal["counts", "flags"] | None:
        return "counts"

    @property
    def feature_count_(self) -> Array:
        """What each column came to in each class."""
        return self._density("feature_count_").seen.total.value  # type: ignore[no-any-return]

    @property
    def feature_log_prob_(self) -> Array:
        """log p(column | class)."""
        return self._density("feature_log_prob_").log_shares  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags


class ComplementNB(MultinomialNB):
    """Complement naive Bayes (Rennie and others, 2003), with scikit-learn's parameters and answers."""

    def __init__(
        self,
        *,
        alpha: ArrayLike = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        norm: bool = False,
        missing_label: object = None,
        unlabelled_weight: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            alpha=alpha,
            force_alpha=force_alpha,
            fit_prior=fit_prior,
            class_prior=class_prior,
            missing_label=missing_label,
            unlabelled_weight=unlabelled_weight,
            max_iter=max_iter,
            tol=tol,
            verbose=verbose,
        )
        self.norm = norm

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {"complement": ComplementCounts(alpha=self._alpha(), norm=self.norm)}

    def _class_prior(self, classes: Keys) -> dict[str, Any]:
        super()._class_prior(classes)  # which refuses what cannot be one
        return {"even": True}

    @property
    def class_log_prior_(self) -> Array:
        """log p(class), which the scores leave out."""
        answers.fitted_attribute(self, "class_log_prior_")
        keys = self._posterior().keys
        counted = Generative({}, classes=keys, **super()._class_prior(keys))
        return counted.log_prior(self.statistic_, keys)

    def predict_joint_log_proba(self, X: object) -> Array:
        """Scores in the place of log p(x, class): without the classes' prior."""
        posterior, rows, _ = self._encoded(X)
        return posterior.log_joint(rows) - posterior.log_prior


class BernoulliNB(_Discrete):
    """Bernoulli naive Bayes, with scikit-learn's parameters and answers; dense or sparse.

    >>> import tamis
    >>> model = tamis.BernoulliNB().fit([[1, 0], [1, 1], [0, 1]], ["spam", "spam", "ham"])
    >>> model.predict([[1, 0]]).tolist()
    ['spam']
    """

    _learned_with = ("binarize",)

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        force_alpha: bool = True,
        binarize: float | None = 0.0,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        missing_label: object = None,
        unlabelled_weight: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.missing_label = missing_label
        self.unlabelled_weight = unlabelled_weight
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {"bernoulli": BernoulliColumns(alpha=self._alpha(), threshold=self.binarize)}

    def _takes_sums(self) -> Literal["counts", "flags"] | None:
        return "flags" if self.binarize == 0.0 else None

    @property
    def feature_count_(self) -> Array:
        """How often each column was present in each class."""
        return self._density("feature_count_").seen.first.value  # type: ignore[no-any-return]

    @property
    def feature_log_prob_(self) -> Array:
        """log p(column is present | class)."""
        return self._density("feature_log_prob_").log_up  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class PoissonNB(_Discrete):
    """Naive Bayes with a Poisson rate for each column and class; dense or sparse.

    `alpha` is how many observations the prior is worth: a rate like that of all classes together.

    >>> import tamis
    >>> model = tamis.PoissonNB().fit([[9, 1], [8, 0], [1, 7]], ["day", "day", "night"])
    >>> model.predict([[7, 2]]).tolist()
    ['day']
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        estimate: Estimate = "mean",
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
        self.estimate = estimate
        self.missing_label = missing_label
        self.unlabelled_weight = unlabelled_weight
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {"poisson": PoissonColumns(alpha=self._alpha(), estimate=self.estimate)}

    def _takes_sums(self) -> Literal["counts", "flags"] | None:
        return "counts"

    @property
    def feature_count_(self) -> Array:
        """What each column came to in each class."""
        return self._density("feature_count_").seen.first.value  # type: ignore[no-any-return]

    @property
    def rate_(self) -> Array:
        """The mean count of each class and column."""
        density = self._density("rate_")
        return density.shape / density.rate if self.estimate == "predictive" else density.rates  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags


class CategoricalNB(_Discrete):
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
                alpha=self._alpha(),
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
