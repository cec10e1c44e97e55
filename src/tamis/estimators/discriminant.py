"""Gaussian discriminants: a multivariate Gaussian per class, and the directions that separate classes."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from tamis import validate
from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.estimators.generative import GenerativeClassifier
from tamis.linalg import eigen
from tamis.models.generative import Block, Generative
from tamis.models.generative.block import Estimate
from tamis.models.generative.fisher import Projection, count_components, discriminant
from tamis.models.generative.gaussian_vectors import Covariance, GaussianVectors
from tamis.models.generative.shrinkage import LedoitWolf, Shrinkage, is_automatic
from tamis.parameters import check_class_probabilities
from tamis.schema import Schema
from tamis.stats import Keys

_BLOCK = "gaussian"  # the name of the only block, which has all columns


@dataclass(eq=False, repr=False)
class GaussianDiscriminant(GenerativeClassifier):
    """A Gaussian in each class: boundaries are linear if all share one covariance, and quadratic otherwise.

    Parameters
    ----------
    covariance : "tied", "full", "diag" or "spherical"
        One covariance for all classes (linear discriminant analysis), one for each class (quadratic), only
        the variances of each class (naive Bayes), or one variance for each class.
    shrinkage : float from 0 to 1 or "auto", optional
        How far covariances are shrunk toward a multiple of the identity, with estimate="mle". "auto" shrinks
        that of each class toward its diagonal, by Ledoit and Wolf's coefficient. `fit` chooses it from the
        rows that have a label (`shrinkage_`); `partial_fit`, `merge`, `unlearn` and `decay` keep it, and a
        class that is learned later gets the mean of the coefficients.
    estimate : "mean", "map", "mle" or "predictive"
        All but "mle" have a normal–inverse-Wishart prior, so that covariances are regular even if columns
        are collinear, or more than rows; "predictive" integrates the parameters out and gives Student t
        densities. "mle" is what textbooks call linear and quadratic discriminant analysis.
    prior : NormalInverseWishart, optional
        By default it has the mean and the variances of all classes together, and counts as much as `strength`
        rows.
    strength : float
    unbiased : whether covariances are divided by the degrees of freedom instead of the weight
    exact : whether sums of products are exact to the bit, which takes several times as long
    priors : sequence or mapping of the classes' probabilities, optional
    missing_label, unlabelled_weight, max_iter, tol, verbose : as in `NaiveBayes`

    Examples
    --------
    >>> import tamis
    >>> rows = [[0, 0], [1, 2], [2, 1], [4, 4], [5, 6], [6, 5]]
    >>> model = tamis.GaussianDiscriminant(estimate="mle").fit(rows, ["a", "a", "a", "b", "b", "b"])
    >>> model.predict([[1, 1], [5, 5]]).tolist(), model.coef_.round(3).tolist()
    (['a', 'b'], [[4.0, 4.0]])
    """

    covariance: Covariance = "tied"
    _: KW_ONLY
    shrinkage: float | Literal["auto"] | None = None
    estimate: Estimate = "mean"
    prior: NormalInverseWishart | None = None
    strength: float = 1.0
    unbiased: bool = False
    exact: bool = False
    priors: ArrayLike | Mapping[Any, float] | None = None

    @property
    def _takes_missing(self) -> bool:
        return self.covariance in ("diag", "spherical")

    @property
    def _accepts_sparse(self) -> bool:
        return False

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        block = GaussianVectors(
            covariance=self.covariance,
            shrinkage=self._get_shrinkage(),
            estimate=self.estimate,
            prior=self.prior,
            strength=self.strength,
            unbiased=self.unbiased,
            exact=self.exact,
        )
        return {_BLOCK: block}

    def _get_shrinkage(self) -> Shrinkage:
        """Return the shrinkage as given; for "auto" the coefficients that `fit` chose, if it was called."""
        state = self._get_state_or_none()
        if is_automatic(self.shrinkage) and state is not None:
            block = state.model.blocks[_BLOCK]
            if isinstance(block, GaussianVectors) and isinstance(block.shrinkage, LedoitWolf):
                return block.shrinkage
        return self.shrinkage

    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Learn more rows, as every classifier does; shrinkage="auto" needs `fit` first, which chooses it."""
        if is_automatic(self._get_shrinkage()):
            raise ValueError(
                "got partial_fit before fit with shrinkage='auto', expected fit first, which chooses it from "
                "the rows: call fit with the first batch, or give a number from 0 to 1"
            )
        return super().partial_fit(X, y, classes, sample_weight)

    def cross_validate(
        self,
        X: object,
        y: object,
        folds: int | str | ArrayLike = 5,
        *,
        sample_weight: object = None,
        groups: object = None,
        random_state: Any = None,
    ) -> validate.HeldOut:
        """Predict each row without its fold, as every classifier does; shrinkage="auto" is refused."""
        if is_automatic(self.shrinkage):
            raise ValueError(
                "got shrinkage='auto' in cross_validate, expected a number from 0 to 1: folds are "
                "subtracted, and 'auto' needs rows; give a number, or "
                "use sklearn.model_selection.cross_val_predict"
            )
        return super().cross_validate(
            X, y, folds, sample_weight=sample_weight, groups=groups, random_state=random_state
        )

    def _describe_selected(self) -> Any:
        """Return, for a file, the coefficients that shrinkage="auto" chose; None if it chose none."""
        chosen = self._get_shrinkage()
        if not isinstance(chosen, LedoitWolf):
            return None
        # The coefficients of classes that are learned later, and of all classes together.
        others = np.array([chosen.later, chosen.overall])
        return {"classes": chosen.keys, "by_class": np.asarray(chosen.by_class), "others": others}

    def _restore_selected(self, model: Generative, description: Any) -> Generative:
        if description is None:
            return model
        keys, by_class = description["classes"], np.asarray(description["by_class"], dtype=np.float64)
        later, overall = (float(value) for value in description["others"])
        chosen = np.array([*by_class, later, overall])
        if (
            not isinstance(keys, Keys)
            or by_class.shape != (len(keys),)
            or not ((chosen >= 0) & (chosen <= 1)).all()
        ):
            raise ValueError("its shrinkage is not one number from 0 to 1 per class")
        block: Any = model.blocks[_BLOCK]
        return replace(
            model, blocks={_BLOCK: replace(block, shrinkage=LedoitWolf(keys, by_class, later, overall))}
        )

    @property
    def shrinkage_(self) -> Array:
        """How far the covariance of each class is shrunk (classes,): as given, or as chosen by `fit`."""
        chosen, keys = self._get_shrinkage(), self.posterior_.keys
        if isinstance(chosen, LedoitWolf):
            return chosen.coefficients(keys)
        return np.full(len(keys), 0.0 if chosen is None else float(chosen))

    @property
    def priors_(self) -> Array:
        """The probability of each class: as given, or its part of the total weight."""
        return np.exp(self.posterior_.log_prior)

    @property
    def means_(self) -> Array:
        """The mean of each class (classes, columns)."""
        return self._density.mean  # type: ignore[no-any-return]

    @property
    def covariance_(self) -> Array:
        """The covariance: one matrix if tied; else a matrix, variances or a variance for each class."""
        return self._density.covariance  # type: ignore[no-any-return]

    @property
    def scalings_(self) -> Any:
        """The variances of each class along the axes of its covariance, largest first (columns,)."""
        return [values[::-1] for values, _ in self._compute_axes("scalings_")]

    @property
    def rotations_(self) -> list[Array]:
        """The axes of the covariance of each class, as columns (columns, columns), ordered as `scalings_`."""
        return [vectors[:, ::-1] for _, vectors in self._compute_axes("rotations_")]

    def _compute_axes(self, name: str) -> list[tuple[Array, Array]]:
        covariance = self._density.covariance
        if self._make_blocks(self.state_.schema)[_BLOCK].covariance != "full":  # type: ignore[attr-defined]
            raise AttributeError(f"{name} needs covariance='full', which has axes per class")
        return [eigen(one) for one in covariance]

    @property
    def coef_(self) -> Array:
        """Coefficients of the scores coef_ · x + intercept_ of the classes.

        With two classes, there is only one score: the log-odds of the second class against the first.
        """
        return self._compute_coefficients("coef_")[0]

    @property
    def intercept_(self) -> Array:
        """The intercepts of the scores: one per row of `coef_`."""
        return self._compute_coefficients("intercept_")[1]

    def _compute_coefficients(self, name: str) -> tuple[Array, Array]:
        density = self._density
        if not hasattr(density, "coefficients"):
            raise AttributeError(
                f"{name} needs covariance='tied' and an estimate other than 'predictive', because otherwise "
                "log-odds are not linear"
            )
        weights, intercepts = density.coefficients, density.intercepts + self.posterior_.log_prior
        if len(intercepts) == 2:
            return weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
        return weights, intercepts

    @property
    def _density(self) -> Any:
        return self.posterior_.densities[_BLOCK]


class FisherDiscriminant(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GaussianDiscriminant):  # type: ignore[misc]
    """Fisher's discriminant: the directions with the largest ratio of variance between and within classes.

    `transform` projects rows on them; `predict` is that of the tied Gaussian discriminant.

    Parameters
    ----------
    n_components : int, optional
        The number of directions: at most the number of columns, and at most the number of classes minus one;
        by default the largest possible number.
    shrinkage, priors, exact, missing_label, unlabelled_weight, max_iter, tol, verbose :
        as in `GaussianDiscriminant`

    Examples
    --------
    >>> import tamis
    >>> rows = [[0, 0], [1, 2], [2, 1], [4, 4], [5, 6], [6, 5]]
    >>> model = tamis.FisherDiscriminant().fit(rows, ["a", "a", "a", "b", "b", "b"])
    >>> model.transform([[0, 0], [3, 3], [6, 6]]).round(2).tolist()
    [[-4.24], [0.0], [4.24]]
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shrinkage: float | Literal["auto"] | None = None,
        exact: bool = False,
        priors: ArrayLike | Mapping[Any, float] | None = None,
        missing_label: object = None,
        unlabelled_weight: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.exact = exact
        self.priors = priors
        self.missing_label = missing_label
        self.unlabelled_weight = unlabelled_weight
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _make_blocks(self, schema: Schema) -> dict[str, Block[Any, Any]]:
        estimate: Estimate = "mean" if self.shrinkage is None else "mle"
        block = GaussianVectors(
            covariance="tied", shrinkage=self._get_shrinkage(), estimate=estimate, exact=self.exact
        )
        return {_BLOCK: block}

    def _check_suitability(self, schema: Schema, classes: Keys) -> None:
        if self.n_components is not None:
            count_components(self.n_components, len(classes), schema.width)  # raises if it is too large

    def transform(self, X: object) -> Array:
        """Project rows on the directions (n, components)."""
        rows = self.state_.model.encode(self._read_next_table(X), learn=False)
        return self._get_projection("transform").transform(rows.blocks[_BLOCK])

    @property
    def scalings_(self) -> Array:
        """The directions (columns, components), each of unit variance within classes."""
        return self._get_projection("scalings_").directions

    @property
    def xbar_(self) -> Array:
        """The point that is projected to zero."""
        return self._get_projection("xbar_").centre

    @property
    def explained_variance_ratio_(self) -> Array:
        """The fraction of the variance between classes in each direction."""
        return self._get_projection("explained_variance_ratio_").ratios

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])

    def criterion(self, direction: NDArray[np.float64] | None = None) -> float:
        """Return Fisher's (m₂ − m₁)² / (s₁² + s₂²) of two classes along a direction, by default the best one.

        m is the mean of a class's projections, and s² the sum of their squared deviations from it.
        """
        self._require_state()  # raises if nothing was learned
        return self._get_projection("criterion").criterion(direction)

    def _get_projection(self, name: str) -> Projection:
        state = self._require_state(name)
        if state.projection is None:
            moments: Any = state.statistic[_BLOCK]
            priors = check_class_probabilities(self.priors, self.posterior_.keys)
            state.projection = discriminant(moments, self.n_components, self._get_shrinkage(), priors)
        return state.projection
