"""Arrays of fitted attributes belong to whoever asked for them."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import decomposition
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import tamis
from tamis import PCA, CategoricalNB, GaussianDiscriminant, GaussianNB, Mixture
from tamis.testing.components import COMPONENTS
from tamis.testing.faces import FACES
from tamis.testing.regressions import REGRESSIONS

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.integers(0, 3, 60)


def fitted_models() -> dict[str, Any]:
    models: dict[str, Any] = {}
    for face in FACES:
        models[face.name] = face.make().fit(face.draw(np.random.default_rng(1), 60), Y)
    for regression in REGRESSIONS:
        y = X[:, :2] if regression.targets else X[:, 0]
        models[f"regression, {regression.name}"] = regression.make().fit(X[:, 1:], y)
    for case in COMPONENTS:
        models[f"components, {case.name}"] = case.make().fit(X)
    models["mixture"] = Mixture(2, random_state=0).fit(X)
    models["logistic"] = tamis.LogisticRegression().fit(X, Y)
    models["generalised"] = tamis.GeneralizedLinear().fit(X, Y)
    return models


MODELS = fitted_models()


def arrays_of(model: Any) -> dict[str, Any]:
    names = [name for name, _ in inspect.getmembers_static(type(model), lambda m: isinstance(m, property))]
    public = [name for name in names if name.endswith("_") and not name.startswith("_")]
    found = {name: getattr(model, name, None) for name in public}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


@pytest.mark.parametrize("name", MODELS)
def test_writing_to_a_fitted_array_changes_no_model(name: str, tmp_path: Path) -> None:
    MODELS[name].save(tmp_path / "model")
    for model in (MODELS[name], tamis.load(tmp_path / "model")):
        before = {name: array.copy() for name, array in arrays_of(model).items()}
        assert before
        for array in arrays_of(model).values():
            array[...] = array.ravel()[0] if array.dtype == object else 0
        for attribute, array in arrays_of(model).items():
            assert_array_equal(array, before[attribute], err_msg=attribute)


@pytest.mark.parametrize("seed", range(20))
def test_a_share_of_the_variance_is_met_as_in_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 60)), int(rng.integers(2, 8))
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    ours, theirs = PCA().fit(x), decomposition.PCA().fit(x)
    for share in [*rng.uniform(0.01, 0.99, 5), 0.5, 0.9, 0.95]:
        assert PCA(share).fit(x).n_components_ == decomposition.PCA(share).fit(x).n_components_
    for model, kind in ((ours, PCA), (theirs, decomposition.PCA)):  # each meets its own shares to the bit
        for k, share in enumerate(np.cumsum(model.explained_variance_ratio_)[:-1].tolist()):
            if 0 < share < 1:
                assert kind(share).fit(x).n_components_ == min(k + 2, n, d)


@pytest.mark.parametrize("seed", range(20))
def test_rows_decomposed_by_their_products_meet_a_share_to_the_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 12)), int(rng.integers(2, 40))
    x = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d))
    every = PCA(solver="rows").fit(x)
    for k, share in enumerate(np.cumsum(every.explained_variance_ratio_)[:-1].tolist()):
        if 0 < share < 1:
            assert PCA(share, solver="rows").fit(x).n_components_ == min(k + 2, n, d)
            assert PCA(np.nextafter(share, 0), solver="rows").fit(x).n_components_ == k + 1


def test_attributes_that_scikit_learn_has_are_there() -> None:
    model, peer = GaussianDiscriminant(estimate="mle").fit(X, Y), LinearDiscriminantAnalysis().fit(X, Y)
    assert_allclose(model.priors_, peer.priors_)
    assert_allclose(GaussianDiscriminant(priors=[0.2, 0.3, 0.5]).fit(X, Y).priors_, [0.2, 0.3, 0.5])
    assert PCA().fit(X).n_samples_seen_ == decomposition.IncrementalPCA().fit(X).n_samples_seen_


def test_writing_to_a_fitted_list_of_arrays_changes_no_model() -> None:
    model = CategoricalNB().fit(np.array([["a", "x"], ["b", "y"], ["a", "y"]], dtype=object), [0, 1, 1])
    discriminant = GaussianDiscriminant(covariance="full").fit(X, Y)
    for face, name in (
        (model, "category_count_"),
        (model, "feature_log_prob_"),
        (discriminant, "scalings_"),
        (discriminant, "rotations_"),
    ):
        before = [array.copy() for array in getattr(face, name)]
        for array in getattr(face, name):
            array[...] = 7.0
        for array, expected in zip(getattr(face, name), before, strict=True):
            assert_array_equal(array, expected)


def test_a_model_that_only_knows_its_columns_is_not_fitted() -> None:
    model = GaussianNB()
    model.expect_columns(X[:, :2])
    with pytest.raises(NotFittedError):
        _ = model.state_
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.partial_fit(X[:, :2], Y > 0))


def test_an_interrupted_inference_changes_no_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    model = PCA(2).fit(X)
    monkeypatch.setattr(PCA, "_make_model", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.infer(n_components=3)
    assert model.n_components == 2
