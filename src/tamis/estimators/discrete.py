"""Naive Bayes of counts and flags, with scikit-learn's parameters and answers."""

from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, one_line
from tamis.estimators.generative import GenerativeClassifier
from tamis.models.generative import (
    BernoulliColumns,
    Block,
    ComplementCounts,
    Generative,
    MultinomialCounts,
    PoissonColumns,
)
from tamis.models.generative.block import Estimate
from tamis.parameters import check_class_probabilities
from tamis.schema import Schema
from tamis.stats import Keys
from tamis.warning import warn

_LEAST_ALPHA = 1e-10


class DiscreteClassifier(GenerativeClassifier):
    """What scikit-learn's discrete naive Bayes share: smoothing and the classes' prior."""

    alpha: ArrayLike
    force_alpha: bool
    fit_prior: bool
    class_prior: ArrayLike | None

    _alpha_per_column: ClassVar[bool] = False  # whether alpha may be one number per column

    def _class_prior(self, classes: Keys) -> dict[str, Any]:
        return {
            "prior": check_class_probabilities(self.class_prior, classes, total=False, name="class_prior"),
            "even": not self.fit_prior,
        }

    def _counts_classes(self) -> bool:
        return self.class_prior is None

    def _alpha(self, schema: Schema) -> Any:
        """The pseudo-counts, checked: one number, or one per column where the face takes that."""
        expected = "one number of at least 0"
        shapes: tuple[tuple[int, ...], ...] = ((),)
        if self._alpha_per_column:
            expected += f", or one for each of the {schema.width} columns"
            shapes = ((), (schema.width,))
        written = f"got alpha={one_line(self.alpha)}, expected {expected}"
        try:
            alpha = np.asarray(self.alpha, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(written) from None
        if alpha.shape not in shapes:
            raise ValueError(f"got alpha of shape {alpha.shape}, expected {expected}")
        if not (np.isfinite(alpha) & (alpha >= 0)).all():
            raise ValueError(written)
        if not self.force_alpha and (alpha < _LEAST_ALPHA).any():
            warn(
                f"alpha too small: got alpha={one_line(self.alpha)} with force_alpha=False, so that "
                f"{_LEAST_ALPHA:g} is used: raise alpha, or set force_alpha=True",
                UserWarning,
            )
            alpha = np.maximum(alpha, _LEAST_ALPHA)
        return float(alpha) if alpha.ndim == 0 else alpha

    def _density(self, name: str) -> Any:
        self._state_for(name)
        (density,) = self.posterior_.densities.values()
        return density


class MultinomialNB(DiscreteClassifier):
    """Multinomial naive Bayes for counts, with scikit-learn's parameters and answers; dense or sparse.

    NaN is refused: the probability of the other counts depends on how long rows are, of which the model says
    nothing. `PoissonNB` leaves missing counts out.

    >>> import tamis
    >>> model = tamis.MultinomialNB().fit([[2, 1, 0], [2, 0, 1], [1, 0, 0], [0, 1, 2]], [1, 1, 1, 0])
    >>> model.predict([[3, 0, 1]]).tolist()
    [1]
    """

    _alpha_per_column = True

    @property
    def _takes_missing(self) -> bool:
        return False

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
        return {"multinomial": MultinomialCounts(alpha=self._alpha(schema))}

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        return "counts"

    @property
    def feature_count_(self) -> Array:
        """What each column came to in each class."""
        return self._density("feature_count_").class_sums.total.value  # type: ignore[no-any-return]

    @property
    def feature_log_prob_(self) -> Array:
        """log p(column | class)."""
        return self._density("feature_log_prob_").log_probabilities  # type: ignore[no-any-return]

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
        return {"complement": ComplementCounts(alpha=self._alpha(schema), norm=self.norm)}

    def _class_prior(self, classes: Keys) -> dict[str, Any]:
        super()._class_prior(classes)  # which refuses what cannot be one
        return {"even": True}

    @property
    def feature_all_(self) -> Array:
        """What each column came to in all classes together."""
        return np.asarray(self.feature_count_.sum(axis=0))

    @property
    def class_log_prior_(self) -> Array:
        """log p(class), which the scores leave out."""
        self._state_for("class_log_prior_")
        keys = self.posterior_.keys
        counted = Generative({}, classes=keys, **super()._class_prior(keys))
        return counted.log_prior(self.statistic_, keys)

    def predict_joint_log_proba(self, X: object) -> Array:
        """Scores in the place of log p(x, class): without the classes' prior."""
        posterior, rows, _ = self._encode(X)
        return posterior.log_joint(rows) - posterior.log_prior


class BernoulliNB(DiscreteClassifier):
    """Bernoulli naive Bayes, with scikit-learn's parameters and answers; dense or sparse.

    >>> import tamis
    >>> model = tamis.BernoulliNB().fit([[1, 0], [1, 1], [0, 1]], ["spam", "spam", "ham"])
    >>> model.predict([[1, 0]]).tolist()
    ['spam']
    """

    _learned_with = ("binarize",)
    _alpha_per_column = True

    def __init__(
        self,
        *,
        alpha: ArrayLike = 1.0,
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
        given: object = self.binarize
        if given is not None and (not isinstance(given, Real) or not np.isfinite(float(given))):
            raise ValueError(f"got binarize={one_line(given)}, expected a finite number, or None for 0 and 1")
        return {"bernoulli": BernoulliColumns(alpha=self._alpha(schema), threshold=self.binarize)}

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        return "flags" if self.binarize == 0.0 else None

    @property
    def feature_count_(self) -> Array:
        """How often each column was present in each class."""
        return self._density("feature_count_").class_sums.first.value  # type: ignore[no-any-return]

    @property
    def feature_log_prob_(self) -> Array:
        """log p(column is present | class)."""
        return self._density("feature_log_prob_").log_up  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class PoissonNB(DiscreteClassifier):
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
        return {"poisson": PoissonColumns(alpha=self._alpha(schema), estimate=self.estimate)}

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        return "counts"

    @property
    def feature_count_(self) -> Array:
        """What each column came to in each class."""
        return self._density("feature_count_").class_sums.first.value  # type: ignore[no-any-return]

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
