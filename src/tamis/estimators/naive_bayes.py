"""Naive Bayes of every kind: columns independent given the class."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array
from tamis.estimators.generative import GenerativeClassifier
from tamis.families.registry import label_of
from tamis.models.generative import (
    Block,
    GaussianColumns,
)
from tamis.models.generative.block import Estimate
from tamis.models.generative.column_blocks import (
    BlockOptions,
    Families,
    FamilyChoice,
    choose_families,
    make_blocks,
)
from tamis.parameters import check_nonnegative
from tamis.schema import Schema
from tamis.stats import Keys


class NaiveBayes(GenerativeClassifier):
    """Naive Bayes with a family for each column, read from the data or chosen.

    Parameters
    ----------
    families : "auto", a family, or a mapping from columns to families
        "auto" takes flags for Bernoulli, strings and categories for categorical, floats for Gaussian.
        Families are those of `tamis.families` by name: "gaussian", "bernoulli", "categorical", "poisson",
        "exponential", "geometric", and "multinomial" for columns that count together; or a member, where a
        parameter is not inferred: `tamis.families.NegativeBinomial(size=3)`, `tamis.families.Gamma(shape=2)`.
        Columns that a mapping does not name are taken as "auto".
    integers : the family that "auto" takes for columns of whole numbers
        They may be amounts, counts or codes, and nothing in the data says which: "gaussian", "poisson" or
        "categorical".
    estimate : "mean", "map", "mle" or "predictive"
        What stands for the parameters: their posterior mean, the most probable ones, those of maximum
        likelihood, or all of them, integrated out.
    alpha : float
        Pseudo-observations behind every probability and rate.
    strength : float
        Observations that the prior of a Gaussian column's mean and variance is worth; it is centred on the
        column's mean and variance over all classes.
    var_smoothing : float
        Share of the largest variance that is added to every variance, with estimate="mle".
    priors : sequence or mapping of the classes' probabilities, optional
    class_alpha : float
        Pseudo-observations of every class.
    missing_label : what else than None and NaN says that a label is missing, as -1
    unlabelled_weight : float
        What a row without a label weighs.
    max_iter, tol : when EM stops, where labels are missing
    verbose : whether to draw a bar meanwhile

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

    _learned_with = ("families", "integers")

    def __init__(
        self,
        families: Families = "auto",
        *,
        integers: FamilyChoice = "gaussian",
        estimate: Estimate = "mean",
        alpha: float = 1.0,
        strength: float = 1.0,
        var_smoothing: float = 1e-9,
        priors: ArrayLike | Mapping[Any, float] | None = None,
        class_alpha: float = 0.0,
        missing_label: object = None,
        unlabelled_weight: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        verbose: int = 0,
    ) -> None:
        self.families = families
        self.integers = integers
        self.estimate = estimate
        self.alpha = alpha
        self.strength = strength
        self.var_smoothing = var_smoothing
        self.priors = priors
        self.class_alpha = class_alpha
        self.missing_label = missing_label
        self.unlabelled_weight = unlabelled_weight
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        estimate, alpha = self.estimate, check_nonnegative("alpha", self.alpha)
        options = BlockOptions(
            estimate=estimate,
            alpha=alpha,
            outcome_alpha=alpha,
            strength=self.strength,
            smoothing=check_nonnegative("var_smoothing", self.var_smoothing),
        )
        return make_blocks(schema, self.families, self.integers, options)

    def _class_prior(self, classes: Keys) -> dict[str, Any]:
        return super()._class_prior(classes) | {"alpha": check_nonnegative("class_alpha", self.class_alpha)}

    @property
    def families_(self) -> dict[Any, str]:
        """The family of each column."""
        schema = self._state_for("families_").schema
        families = choose_families(schema, self.families, self.integers)
        return {schema.name(j): label_of(family) for j, family in enumerate(families)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


class GaussianNB(GenerativeClassifier):
    """Gaussian naive Bayes, with scikit-learn's parameters and answers.

    Where `partial_fit` of scikit-learn adds a smoothing that depends on the order of the batches, this is the
    same to the bit however the rows come. Its smoothing goes by the weighted variances, where scikit-learn's
    forgets the weights. Missing values are left out.

    >>> import tamis
    >>> model = tamis.GaussianNB().fit([[1.0, 8.0], [1.2, 7.9], [3.0, 1.0], [3.2, 1.1]], [0, 0, 1, 1])
    >>> model.predict([[1.1, 8.0], [float("nan"), 1.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        *,
        priors: ArrayLike | Mapping[Any, float] | None = None,
        var_smoothing: float = 1e-9,
        missing_label: object = None,
        unlabelled_weight: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        verbose: int = 0,
    ) -> None:
        self.priors = priors
        self.var_smoothing = var_smoothing
        self.missing_label = missing_label
        self.unlabelled_weight = unlabelled_weight
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        smoothing = check_nonnegative("var_smoothing", self.var_smoothing)
        return {"gaussian": GaussianColumns(estimate="mle", smoothing=smoothing)}

    @property
    def theta_(self) -> Array:
        """The mean of each class and column."""
        return self._density("theta_").mean  # type: ignore[no-any-return]

    @property
    def var_(self) -> Array:
        """The variance of each class and column, smoothing included."""
        return self._density("var_").variance  # type: ignore[no-any-return]

    @property
    def epsilon_(self) -> float:
        """What is added to every variance."""
        self._state_for("epsilon_")
        moments: Any = self.statistic_["gaussian"]
        return float(self.var_smoothing * np.nanmax(moments.pooled().variance, initial=0.0))

    @property
    def class_prior_(self) -> Array:
        """p(class)."""
        self._state_for("class_prior_")
        return np.exp(self.posterior_.log_prior)

    def _density(self, name: str) -> Any:
        self._state_for(name)
        return self.posterior_.densities["gaussian"]
