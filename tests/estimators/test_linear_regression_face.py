"""The face of Bayesian linear regression: scikit-learn's verbs, the algebra's, and honest answers."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import tamis
from tamis.conjugate import Normal, StudentT
from tamis.estimators import BayesianLinearRegression

rng = np.random.default_rng(0)
X = rng.normal([1.0, -2.0, 3.0], size=(50, 3))
Y = X @ [1.0, 2.0, 0.0] + 5.0 + 0.5 * rng.normal(size=50)
BOTH = np.column_stack([Y, -2.0 * X[:, 2] + rng.normal(size=50)])
NAMES = ["age", "height", "weight"]


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [
        BayesianLinearRegression(),
        BayesianLinearRegression(beta="unknown"),
        BayesianLinearRegression(alpha=1.0, beta=1.0, fit_intercept=False),
    ]
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("beta", ["evidence", "unknown"])
def test_intervals_hold_what_they_promise(beta: str) -> None:
    """Targets drawn from the model lie in nine intervals of ten: 600 times 40 rows, and 20 new."""
    dice, inside, below = np.random.default_rng(7), [], []
    for _ in range(600):
        x, new = dice.normal(size=(40, 4)), dice.normal(size=(20, 4))
        w, level, noise = dice.normal(size=4), dice.normal(scale=10.0), 0.7
        model = BayesianLinearRegression(beta=beta).fit(x, x @ w + level + noise * dice.normal(size=40))
        y = new @ w + level + noise * dice.normal(size=20)
        low, high = model.predict_interval(new)
        inside.append(((low < y) & (y < high)).mean())
        below.append((y < low).mean())
    assert 0.88 < np.mean(inside) < 0.92
    assert 0.04 < np.mean(below) < 0.06


def test_answers_agree_with_each_other() -> None:
    for model, kind in (
        (BayesianLinearRegression(), Normal),
        (BayesianLinearRegression(beta="unknown", noise_shape=1, noise_scale=1), StudentT),
    ):
        model.fit(X, Y)
        mean, std = model.predict(X, return_std=True)
        said = model.predict_distribution(X)
        assert isinstance(said, kind)
        assert said.batch == (50,)
        assert_allclose(mean, said.mean)
        assert_allclose(std, np.sqrt(said.variance))
        assert_allclose(model.predict_interval(X, 0.5), said.interval(0.5))
        assert_allclose(mean, X @ model.coef_ + model.intercept_)
        assert_allclose(np.diag(model.coef_covariance_), model.coef_std_**2)
        at_zero = model.predict([[0, 0, 0]], return_std=True)[1][0]
        assert_allclose(model.intercept_std_**2 + _noise(model), at_zero**2)
        assert 1 < model.n_effective_ < 4
        assert np.isfinite(model.log_evidence_)
        low, high = model.coef_interval(0.9)
        assert (low < model.coef_).all()
        assert (model.coef_ < high).all()


def _noise(model: Any) -> float:
    """The variance of the noise alone, as predictions count it."""
    unknown = model.beta == "unknown"
    freedom = 2 * 1 + 49
    return float(model.noise_std_**2 * (freedom / (freedom - 2) if unknown else 1.0))


def test_functions_are_drawn_whole() -> None:
    model = BayesianLinearRegression(beta="unknown").fit(X, Y)
    line = np.linspace(0, 1, 5)[:, None] * np.ones(3)
    drawn = model.sample_functions(line, 8000, random_state=0)
    assert drawn.shape == (8000, 5)
    assert_allclose(np.diff(drawn, n=2, axis=1), 0.0, atol=1e-9)  # each is a straight line
    assert_allclose(drawn.mean(axis=0), model.predict(line), atol=0.05)
    spread = model.predict(line, return_std=True)[1]
    assert (drawn.std(axis=0) < spread).all()
    assert_array_equal(drawn, model.sample_functions(line, 8000, random_state=0))
    assert model.sample_coefficients(3).shape == (3, 3)
    with pytest.raises(ValueError, match="got n_samples=0"):
        model.sample_functions(line, 0)


def test_several_targets_have_an_axis() -> None:
    model = BayesianLinearRegression().fit(X, BOTH)
    assert model.coef_.shape == (2, 3)
    assert model.coef_std_.shape == (2, 3)
    assert model.coef_covariance_.shape == (2, 3, 3)
    for told in (model.intercept_, model.alpha_, model.beta_, model.log_evidence_, model.n_effective_):
        assert told.shape == (2,)
    assert model.predict(X).shape == (50, 2)
    assert model.predict_distribution(X).batch == (50, 2)
    assert model.sample_functions(X, 4).shape == (4, 50, 2)
    assert model.sample_coefficients(4).shape == (4, 2, 3)
    assert model.cross_validate(X, BOTH).predictions.shape == (50, 2)
    for k in range(2):
        alone = BayesianLinearRegression().fit(X, BOTH[:, k])
        assert_allclose(model.coef_[k], alone.coef_, rtol=1e-9)
        assert_allclose(model.log_evidence_[k], alone.log_evidence_, rtol=1e-9)
    assert model.score(X, BOTH) > 0.8
    with pytest.raises(ValueError, match="got 1 targets per row, expected 2"):
        model.partial_fit(X, Y)


def test_a_column_of_targets_keeps_its_axis() -> None:
    model = BayesianLinearRegression().fit(X, Y[:, None])
    assert model.predict(X).shape == (50, 1)
    assert model.coef_.shape == (1, 3)


def test_contributions_sum_to_the_prediction() -> None:
    frame = pd.DataFrame(X, columns=NAMES, index=np.arange(50) + 7)
    model = BayesianLinearRegression().fit(frame, BOTH)
    for target in range(2):
        told = model.explain(frame, target)
        assert_allclose(told.prediction, model.predict(frame)[:, target])
        assert_allclose(told.baseline, BOTH[:, target].mean())
    assert list(told.contributions.columns) == NAMES
    assert told.contributions.index[0] == 7
    assert told.top(0, 1)[0][0] == "weight"
    assert isinstance(model.explain(X).contributions, np.ndarray)
    with pytest.raises(ValueError, match="got target=2, expected 0 to 1"):
        model.explain(X, 2)


def test_frames_are_known_by_their_names() -> None:
    model = BayesianLinearRegression().fit(pl.DataFrame(X, schema=NAMES), Y)
    assert model.feature_names_in_.tolist() == NAMES
    other = pd.DataFrame(X, columns=NAMES)[NAMES[::-1]]
    assert_allclose(model.predict(other), model.predict(X))
    with pytest.raises(ValueError, match="no column 'age'"):
        model.predict(other.drop(columns="age"))
    broken = other.copy()
    broken.loc[3, "height"] = np.nan
    for verb in (model.predict, lambda x: model.partial_fit(x, Y)):
        with pytest.raises(ValueError, match="column 'height' holds nan in row 3"):
            verb(broken)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.int8, np.bool_])
def test_numbers_of_any_kind_are_read(kind: Any) -> None:
    x = (3 * X).astype(kind)
    assert_allclose(
        BayesianLinearRegression().fit(x, Y).coef_,
        BayesianLinearRegression().fit(x.astype(np.float64), Y).coef_,
    )


def test_what_was_never_learned_cannot_be_forgotten() -> None:
    model = BayesianLinearRegression(alpha=1.0, beta=1.0).fit(X[:10], Y[:10])
    before = model.statistic_
    for rows, targets, message in (
        (X[:20], Y[:20], "more would be subtracted than was learned"),
        (10 * X[:5], Y[:5], "more would be subtracted than was learned"),
        (X[:10], Y[:10], "every row would be forgotten"),
    ):
        with pytest.raises(ValueError, match=message):
            model.unlearn(rows, targets)
        assert model.statistic_ is before


def test_inferring_again_reads_no_data() -> None:
    model = BayesianLinearRegression().fit(X, Y)
    other = BayesianLinearRegression(alpha=3.0, beta=2.0).fit(X, Y)
    assert_allclose(model.infer(alpha=3.0, beta=2.0).coef_, other.coef_)
    assert model.infer(fit_intercept=False).intercept_ == 0.0
    with pytest.raises(ValueError, match="got alpha=-1"):
        model.infer(alpha=-1.0)
    assert model.alpha == 3.0
    assert model.alpha_ == 3.0


def test_decay_lets_the_new_outweigh_the_old() -> None:
    model = BayesianLinearRegression(alpha=1.0, beta=1.0).fit(X, Y).decay(0.5)
    halved = BayesianLinearRegression(alpha=1.0, beta=1.0).fit(X, Y, sample_weight=0.5)
    assert_allclose(model.coef_, halved.coef_)
    with pytest.raises(ValueError, match="got factor=2"):
        model.decay(2.0)


def test_models_merge_with_their_like_alone() -> None:
    model = BayesianLinearRegression().fit(X[:30], Y[:30])
    with pytest.raises(TypeError, match="got a GaussianNB to merge"):
        model.merge(tamis.GaussianNB().fit(X, Y > 0))
    with pytest.raises(ValueError, match="the models have different columns"):
        model.merge(BayesianLinearRegression().fit(X[:, :2], Y))


def test_a_saved_model_is_the_model(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=NAMES)
    for y in (Y, BOTH):
        prior = (np.zeros(3), np.eye(3))
        model = BayesianLinearRegression(beta=2.0, prior=prior).fit(frame, y)
        model.save(tmp_path / "model.tamis")
        back = tamis.load(tmp_path / "model.tamis")
        assert back.statistic_ == model.statistic_
        assert_array_equal(back.predict(frame), model.predict(frame))
        assert back.feature_names_in_.tolist() == NAMES
        assert_allclose(back.partial_fit(frame, y).coef_, model.partial_fit(frame, y).coef_)
    with pytest.raises(NotFittedError):
        BayesianLinearRegression().save(tmp_path / "empty.tamis")


def test_a_pickle_learns_on() -> None:
    model = pickle.loads(pickle.dumps(BayesianLinearRegression().fit(X[:20], Y[:20])))
    assert_allclose(model.partial_fit(X[20:], Y[20:]).coef_, BayesianLinearRegression().fit(X, Y).coef_)


def test_rows_may_come_one_by_one() -> None:
    model = BayesianLinearRegression()
    for x, y in zip(X, Y, strict=True):
        model.partial_fit([x], [y])
    assert_allclose(model.coef_, BayesianLinearRegression().fit(X, Y).coef_, rtol=1e-9)


def test_held_out_answers_tell_models_apart() -> None:
    held = BayesianLinearRegression().cross_validate(X, Y, folds=5, random_state=0)
    mean = BayesianLinearRegression(alpha=1e12, beta="unknown").cross_validate(X, Y, folds=5, random_state=0)
    assert held.mean_log_density > mean.mean_log_density
    assert held.rmse == pytest.approx(np.sqrt(np.square(Y - held.predictions).mean()))
    assert 0.9 < held.r2 < 1.0 > mean.r2
    assert [len(part.targets) for part in held.by_fold()] == [10] * 5
    groups = np.repeat(np.arange(10), 5)
    by_group = BayesianLinearRegression().cross_validate(X, Y, groups=groups)
    assert all(len(set(by_group.fold[groups == one].tolist())) == 1 for one in range(10))
    weights = np.arange(50) % 2
    assert len(BayesianLinearRegression().cross_validate(X, Y, sample_weight=weights).targets) == 25
    for wrong, kind in (("leave-two-out", ValueError), (2.5, TypeError)):
        with pytest.raises(kind, match="got folds="):
            BayesianLinearRegression().cross_validate(X, Y, folds=wrong)
    with pytest.raises(ValueError, match="row 0 alone determines"):
        BayesianLinearRegression(alpha=0.0, beta=1.0).cross_validate(X[:4], Y[:4], folds="leave-one-out")


def test_evidence_needs_a_prior_that_integrates() -> None:
    for model in (BayesianLinearRegression(alpha=0.0), BayesianLinearRegression(beta="unknown")):
        with pytest.raises(AttributeError, match="does not integrate to one"):
            model.fit(X, Y).log_evidence_  # noqa: B018
    with pytest.raises(AttributeError, match="a prior was given"):
        BayesianLinearRegression(prior=(np.zeros(3), np.eye(3))).fit(X, Y).alpha_  # noqa: B018
    assert not hasattr(BayesianLinearRegression(), "coef_")


def test_it_is_a_part_of_scikit_learn() -> None:
    search = GridSearchCV(BayesianLinearRegression(), {"alpha": [1e-3, 1.0, "evidence"]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9
    model = clone(BayesianLinearRegression(alpha=2.0).fit(X, Y))
    assert model.alpha == 2.0
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_scipys_names_mean_the_same() -> None:
    ours, theirs = Normal([0.0, 1.0], 2.0), stats.norm([0.0, 1.0], 2.0)
    x = np.array([[0.5], [3.0]])
    for name in ("pdf", "logpdf", "cdf"):
        assert_allclose(getattr(ours, name)(x), getattr(theirs, name)(x), rtol=1e-12)
    assert_allclose(ours.ppf(0.3), theirs.ppf(0.3), rtol=1e-12)
    assert_allclose(ours.rvs(20_000, random_state=1).mean(axis=0), [0.0, 1.0], atol=0.05)
    assert_allclose(StudentT(3.0).pdf(x), stats.t(3).pdf(x), rtol=1e-12)
    assert_allclose([ours.mean, ours.variance], [[0.0, 1.0], [4.0, 4.0]])
