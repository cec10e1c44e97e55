"""Naive Bayes classifiers, whose columns are independent given the class."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, one_line
from tamis.estimators.generative import GenerativeClassifier
from tamis.families.registry import label_of
from tamis.models.generative import (
    BernoulliColumns,
    Block,
    CategoryColumns,
    ComplementCounts,
    Encoded,
    GaussianColumns,
    Generative,
    MultinomialCounts,
    PoissonColumns,
    Posterior,
)
from tamis.models.generative.block import Estimate
from tamis.models.generative.column_blocks import (
    BlockOptions,
    Families,
    FamilyChoice,
    choose_families,
    make_blocks,
)
from tamis.parameters import check_class_probabilities, check_nonnegative
from tamis.schema import Schema
from tamis.stats import Keys
from tamis.warning import warn

_MIN_ALPHA = 1e-10  # the least alpha with force_alpha=False, as in scikit-learn
_MAX_CODES = 1 << 16  # only up to this number of values, tables have a column for each of 0, 1, 2, …


@dataclass(eq=False, repr=False)
class NaiveBayes(GenerativeClassifier):
    """Naive Bayes with a family of distributions for each column, chosen by the data or by the user.

    Parameters
    ----------
    families : "auto", a family, or a mapping from columns to families
        "auto" chooses Bernoulli for bools, categorical for strings and categories, and Gaussian for floats.
        Families are those of `tamis.families` by name: "gaussian", "bernoulli", "categorical", "poisson",
        "exponential", "geometric", and "multinomial" for columns of counts that form one vector; or a family
        with a fixed parameter: `tamis.families.NegativeBinomial(size=3)`, `tamis.families.Gamma(shape=2)`.
        Columns that a mapping does not name have the family that "auto" chooses.
    integers : the family that "auto" chooses for columns of whole numbers
        "gaussian" for amounts, "poisson" for counts or "categorical" for codes; the data do not say which
        they are.
    estimate : "mean", "map", "mle" or "predictive"
        The parameters that predictions use: the mean of the posterior, its mode, or the maximum of the
        likelihood; "predictive" integrates the parameters out.
    alpha : float
        The number of pseudo-observations of each outcome of a column, and of each rate.
    strength : float
        The strength, in observations, of the prior of a Gaussian column's mean and variance; the prior has
        the mean and the variance of the column in all classes together.
    var_smoothing : float
        The fraction of the largest variance that is added to every variance, with estimate="mle".
    priors : sequence or mapping of the classes' probabilities, optional
    class_alpha : float
        The number of pseudo-observations of each class.
    missing_label : a label that counts as missing, such as -1, besides None and NaN
    unlabelled_weight : float
        The factor by which the weight of a row without a label is multiplied.
    max_iter, tol : if labels are missing, the limits at which EM stops, as in `Mixture`
    verbose : whether to draw a progress bar during EM

    Examples
    --------
    >>> import tamis
    >>> rows = [[1.0, "red"], [1.2, "red"], [3.1, "blue"], [2.9, None], [None, "blue"]]
    >>> model = tamis.NaiveBayes().fit(rows, ["a", "a", "b", "b", "b"])
    >>> model.predict([[1.1, "red"], [3.0, "green"], [None, "blue"]]).tolist()
    ['a', 'b', 'b']
    >>> forgotten = model.unlearn([[2.9, None]], ["b"])
    >>> forgotten.class_count_.tolist()
    [2.0, 2.0]
    """

    families: Families = "auto"
    _: KW_ONLY
    integers: FamilyChoice = "gaussian"
    estimate: Estimate = "mean"
    alpha: float = 1.0
    strength: float = 1.0
    var_smoothing: float = 1e-9
    priors: ArrayLike | Mapping[Any, float] | None = None
    class_alpha: float = 0.0

    _statistic_parameters = ("families", "integers")  # `infer` cannot change them
    _takes_new_columns = True  # rows given as dicts may add columns

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        estimate, alpha = self.estimate, check_nonnegative("alpha", self.alpha)
        options = BlockOptions(
            estimate=estimate,
            alpha=alpha,
            outcome_alpha=alpha,
            strength=self.strength,
            smoothing=check_nonnegative("var_smoothing", self.var_smoothing),
        )
        return make_blocks(schema, self.families, self.integers, options)

    def _make_class_prior(self, classes: Keys) -> dict[str, Any]:
        return super()._make_class_prior(classes) | {
            "alpha": check_nonnegative("class_alpha", self.class_alpha)
        }

    @property
    def families_(self) -> dict[Any, str]:
        """The family of each column."""
        schema = self.state_.schema
        families = choose_families(schema, self.families, self.integers)
        return {schema.name(j): label_of(family) for j, family in enumerate(families)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianNB(GenerativeClassifier):
    """Gaussian naive Bayes, with scikit-learn's parameters and predictions.

    The model does not depend, not in a single bit, on how the rows are divided into batches; in scikit-learn,
    the smoothing that `partial_fit` adds depends on the order of the batches. The smoothing is a fraction of
    the weighted variance; scikit-learn ignores the weights in it. Missing values are ignored.

    >>> import tamis
    >>> model = tamis.GaussianNB().fit([[1.0, 8.0], [1.2, 7.9], [3.0, 1.0], [3.2, 1.1]], [0, 0, 1, 1])
    >>> model.predict([[1.1, 8.0], [float("nan"), 1.0]]).tolist()
    [0, 1]
    """

    priors: ArrayLike | Mapping[Any, float] | None = None
    var_smoothing: float = 1e-9

    _takes_new_columns = True

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        smoothing = check_nonnegative("var_smoothing", self.var_smoothing)
        return {"gaussian": GaussianColumns(estimate="mle", smoothing=smoothing)}

    @property
    def theta_(self) -> Array:
        """The mean of each class and column."""
        return self._density.mean  # type: ignore[no-any-return]

    @property
    def var_(self) -> Array:
        """The variance of each class and column, smoothing included."""
        return self._density.variance  # type: ignore[no-any-return]

    @property
    def epsilon_(self) -> float:
        """The smoothing that is added to every variance."""
        moments: Any = self.statistic_["gaussian"]
        return float(self.var_smoothing * np.nanmax(moments.pooled().variance, initial=0.0))

    @property
    def class_prior_(self) -> Array:
        """p(class)."""
        return np.exp(self.posterior_.log_prior)

    @property
    def _density(self) -> Any:
        return self.posterior_.densities["gaussian"]


@dataclass(eq=False, repr=False, kw_only=True)
class DiscreteClassifier(GenerativeClassifier):
    """The base of classifiers whose smoothing and class probabilities have scikit-learn's parameters."""

    alpha: ArrayLike = 1.0
    force_alpha: bool = True
    fit_prior: bool = True
    class_prior: ArrayLike | None = None

    _alpha_per_column: ClassVar[bool] = False  # whether alpha may be one number per column
    _takes_negative: ClassVar[bool] = False  # whether values below 0 are allowed
    _takes_new_columns = True

    def _make_class_prior(self, classes: Keys) -> dict[str, Any]:
        return {
            "prior": check_class_probabilities(
                self.class_prior, classes, must_sum_to_one=False, name="class_prior"
            ),
            "is_uniform": not self.fit_prior,
        }

    def _is_prior_counted(self) -> bool:
        return self.class_prior is None

    def _check_alpha(self, schema: Schema) -> Any:
        """Return the pseudo-counts: one number or, if the class accepts that, an array of one per column."""
        expected = "one number of at least 0"
        shapes: tuple[tuple[int, ...], ...] = ((),)
        if self._alpha_per_column:
            expected += f", or one for each of the {schema.width} columns"
            shapes = ((), (schema.width,))
        message = f"got alpha={one_line(self.alpha)}, expected {expected}"
        try:
            alpha = np.asarray(self.alpha, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(message) from None
        if alpha.shape not in shapes:
            raise ValueError(f"got alpha of shape {alpha.shape}, expected {expected}")
        if not (np.isfinite(alpha) & (alpha >= 0)).all():
            raise ValueError(message)
        if not self.force_alpha and (alpha < _MIN_ALPHA).any():
            warn(
                f"alpha too small: got alpha={one_line(self.alpha)} with force_alpha=False, so that "
                f"{_MIN_ALPHA:g} is used: raise alpha, or set force_alpha=True",
                UserWarning,
            )
            alpha = np.maximum(alpha, _MIN_ALPHA)
        return float(alpha) if alpha.ndim == 0 else alpha

    @property
    def _density(self) -> Any:
        (density,) = self.posterior_.densities.values()
        return density

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self._takes_negative
        tags.classifier_tags.poor_score = True  # its tests then do not expect a high accuracy
        return tags


class MultinomialNB(DiscreteClassifier):
    """Multinomial naive Bayes for counts, with scikit-learn's parameters and predictions; dense or sparse.

    NaN raises an error: without a count, the total of a row, on which the probability of its counts depends,
    is not known. `PoissonNB` ignores missing counts.

    >>> import tamis
    >>> model = tamis.MultinomialNB().fit([[2, 1, 0], [2, 0, 1], [1, 0, 0], [0, 1, 2]], [1, 1, 1, 0])
    >>> model.predict([[3, 0, 1]]).tolist()
    [1]
    """

    _alpha_per_column = True
    _absent = 0.0  # the value of a column that a row given as a dict does not name

    @property
    def _takes_missing(self) -> bool:
        return False

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {"multinomial": MultinomialCounts(alpha=self._check_alpha(schema))}

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        """What `partial_fit_sums` expects sums of."""
        return "counts"

    @property
    def feature_count_(self) -> Array:
        """The sum of each column in each class."""
        return self._density.class_sums.total.value  # type: ignore[no-any-return]

    @property
    def feature_log_prob_(self) -> Array:
        """log p(column | class)."""
        return self._density.log_probabilities  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False, kw_only=True)
class ComplementNB(MultinomialNB):
    """Complement naive Bayes (Rennie and others 2003), with scikit-learn's parameters and predictions.

    The weights of a class are estimated from the rows of all other classes; with `norm`, they are divided by
    their sum.
    """

    norm: bool = False

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {"complement": ComplementCounts(alpha=self._check_alpha(schema), norm=self.norm)}

    def _make_class_prior(self, classes: Keys) -> dict[str, Any]:
        super()._make_class_prior(classes)  # raises if `class_prior` is not valid
        return {"is_uniform": True}

    @property
    def feature_all_(self) -> Array:
        """The sum of each column in all classes together."""
        return np.asarray(self.feature_count_.sum(axis=0))

    @property
    def class_log_prior_(self) -> Array:
        """log p(class), which the scores do not include."""
        keys = self.posterior_.keys
        counted = Generative({}, classes=keys, **super()._make_class_prior(keys))
        return counted.log_prior(self.statistic_, keys)

    def _score(self, posterior: Posterior, rows: Encoded) -> Array:
        """Return the scores without log p(class), as scikit-learn does."""
        return posterior.log_joint(rows) - posterior.log_prior


@dataclass(eq=False, repr=False, kw_only=True)
class BernoulliNB(DiscreteClassifier):
    """Bernoulli naive Bayes, with scikit-learn's parameters and predictions; dense or sparse.

    >>> import tamis
    >>> model = tamis.BernoulliNB().fit([[1, 0], [1, 1], [0, 1]], ["spam", "spam", "ham"])
    >>> model.predict([[1, 0]]).tolist()
    ['spam']
    """

    binarize: float | None = 0.0

    _statistic_parameters = ("binarize",)
    _alpha_per_column = True
    _takes_negative = True

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        given: object = self.binarize
        if given is not None and (not isinstance(given, Real) or not np.isfinite(float(given))):
            raise ValueError(f"got binarize={one_line(given)}, expected a finite number, or None for 0 and 1")
        return {"bernoulli": BernoulliColumns(alpha=self._check_alpha(schema), threshold=self.binarize)}

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        """What `partial_fit_sums` expects sums of: flags of values above 0; None if `binarize` is not 0."""
        return "flags" if self.binarize == 0.0 else None

    @property
    def feature_count_(self) -> Array:
        """The weight of the rows of each class in which each column is 1 (classes, columns)."""
        return self._density.class_sums.first.value  # type: ignore[no-any-return]

    @property
    def feature_log_prob_(self) -> Array:
        """log p(column is 1 | class)."""
        return self._density.log_one  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False, kw_only=True)
class PoissonNB(DiscreteClassifier):
    """Naive Bayes with a Poisson rate for each column and class; dense or sparse.

    `alpha` is the strength of the prior, in observations; its mean is the rate of all classes together.

    >>> import tamis
    >>> model = tamis.PoissonNB().fit([[9, 1], [8, 0], [1, 7]], ["day", "day", "night"])
    >>> model.predict([[7, 2]]).tolist()
    ['day']
    """

    alpha: float = 1.0
    estimate: Estimate = "mean"

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {"poisson": PoissonColumns(alpha=self._check_alpha(schema), estimate=self.estimate)}

    @property
    def sum_kind(self) -> Literal["counts", "flags"] | None:
        """What `partial_fit_sums` expects sums of."""
        return "counts"

    @property
    def feature_count_(self) -> Array:
        """The sum of each column in each class."""
        return self._density.class_sums.first.value  # type: ignore[no-any-return]

    @property
    def rate_(self) -> Array:
        """The mean count of each class and column."""
        density = self._density
        return density.shape / density.rate if self.estimate == "predictive" else density.rates  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False, kw_only=True)
class CategoricalNB(DiscreteClassifier):
    """Categorical naive Bayes, with scikit-learn's parameters and predictions; categories of any type.

    Whole numbers are taken as the codes 0, 1, 2 … up to the largest one, as in scikit-learn. Strings need no
    encoder, and a category may be new in `predict`.

    >>> import tamis
    >>> model = tamis.CategoricalNB().fit([["red", "s"], ["red", "m"], ["blue", "m"]], [1, 1, 0])
    >>> model.predict([["red", "xl"]]).tolist()
    [1]
    """

    alpha: float = 1.0
    min_categories: ArrayLike | None = None

    @property
    def _accepts_sparse(self) -> bool:
        return False

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        return {
            "categorical": CategoryColumns(
                columns=tuple(range(schema.width)),
                alpha=self._check_alpha(schema),
                numbered=True,  # whole numbers are codes
                min_values=self.min_categories,
            )
        }

    @property
    def category_count_(self) -> list[Array]:
        """For each column, the weight of each of its values in each class; values as in `categories_`."""
        density = self._density
        zeros = np.zeros_like(density.log_unseen)
        columns = zip(density.counts, density.values, density.sizes, zeros, strict=True)
        return [_fill_codes(*column) for column in columns]

    @property
    def feature_log_prob_(self) -> list[Array]:
        """For each column, log p(value | class); values as in `categories_`."""
        density = self._density
        columns = zip(density.tables, density.values, density.sizes, density.log_unseen, strict=True)
        return [_fill_codes(*column) for column in columns]

    @property
    def categories_(self) -> list[Sequence[Any]]:
        """The values that were learned of each column; for whole numbers, 0 to n − 1 (see `n_categories_`).

        If n is above 65,536, they are only those that were learned.
        """
        density = self._density
        columns = zip(density.values, density.sizes.tolist(), strict=True)
        return [list(range(size) if _are_codes(keys, size) else keys) for keys, size in columns]

    @property
    def n_categories_(self) -> NDArray[np.int64]:
        """The number of values that each column may have."""
        return self._density.sizes  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


def _are_codes(keys: Keys, size: int) -> bool:
    """Return whether the values are whole numbers, and the number of values of their column is small."""
    return size <= _MAX_CODES and all(isinstance(key, int | float) and key == int(key) for key in keys)


def _fill_codes(table: Array, keys: Keys, size: int, absent: Array) -> Array:
    """Return a table (K, size) with a column for each of 0, 1, … size − 1, as in scikit-learn.

    `table` (K, values) has the columns of the values `keys`, and `absent` (K,) is the column of all others.
    If the keys are not whole numbers, the table is returned as it is.
    """
    if not _are_codes(keys, size):
        return table
    columns = np.repeat(absent[:, None], size, axis=1)
    columns[:, [int(key) for key in keys]] = table  # type: ignore[call-overload]
    return columns
