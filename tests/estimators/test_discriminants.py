"""Gaussian discriminants: scikit-learn's numbers, the laws of sums, and rows that are no help."""

import copy
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.estimators import GaussianDiscriminant
from tamis.models.generative.gaussian_vectors import Covariance

COVARIANCES: tuple[Covariance, ...] = ("tied", "full", "diag", "spherical")
ESTIMATES = ("mean", "map", "mle", "predictive")
each_covariance = pytest.mark.parametrize("covariance", COVARIANCES)
each_estimate = pytest.mark.parametrize("estimate", ESTIMATES)


def clusters(
    n: int = 120, d: int = 3, classes: int = 3, seed: int = 0, apart: float = 1.5
) -> tuple[Array, NDArray[np.int64]]:
    """Gaussians that overlap, with correlations of their own; numbers that 1e8 can be added to exactly."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    turn = 0.4 * rng.normal(size=(classes, d, d)) + np.eye(d)
    rows = (turn[labels] @ rng.normal(size=(n, d, 1)))[..., 0] + apart * rng.normal(size=(classes, d))[labels]
    return np.round(rows * 2.0**20) / 2.0**20, labels


def one_line(caught: pytest.ExceptionInfo[BaseException]) -> bool:
    return "\n" not in str(caught.value) and "expected" in str(caught.value)


def close(one: Any, other: Any, rtol: float = 1e-12) -> None:
    """Whether two models have learned the same but for rounding."""
    assert one.statistic_["classes"] == other.statistic_["classes"]
    ours, theirs = one.statistic_["gaussian"], other.statistic_["gaussian"]
    assert ours.weight == theirs.weight
    spread = np.abs(theirs.covariance).max() if theirs.form == "full" else theirs.variance.max()
    assert_allclose(ours.mean, theirs.mean, rtol=rtol, atol=rtol)
    found = (
        (ours.covariance, theirs.covariance) if theirs.form == "full" else (ours.variance, theirs.variance)
    )
    assert_allclose(*found, rtol=rtol, atol=rtol * spread)


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [GaussianDiscriminant(covariance) for covariance in COVARIANCES]
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


# Against scikit-learn


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", ["svd", "lsqr", "eigen"])
def test_tied_most_likely_is_linear_discriminant_analysis(solver: str, classes: int) -> None:
    rows, labels = clusters(classes=classes)
    ours = GaussianDiscriminant(estimate="mle").fit(rows, labels)
    theirs = LinearDiscriminantAnalysis(solver=solver, store_covariance=True).fit(rows, labels)
    assert_allclose(ours.predict_log_proba(rows), theirs.predict_log_proba(rows), rtol=1e-8, atol=1e-8)
    assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-8, atol=1e-8)
    # of more than two classes only differences mean anything: ours sum to log p(x, class), theirs do not
    coef, floor = (found - found.mean(axis=0) for found in (ours.coef_, ours.intercept_))
    if classes == 2:
        coef, floor = ours.coef_, ours.intercept_
        assert_allclose(theirs.coef_, coef, rtol=1e-8)
        assert_allclose(theirs.intercept_, floor, rtol=1e-8)
    else:
        assert_allclose(theirs.coef_ - theirs.coef_.mean(axis=0), coef, rtol=1e-8, atol=1e-8)
        assert_allclose(theirs.intercept_ - theirs.intercept_.mean(), floor, rtol=1e-8, atol=1e-8)


def test_shrinkage_and_priors_are_those_of_linear_discriminant_analysis() -> None:
    rows, labels = clusters()
    priors = [0.2, 0.3, 0.5]
    ours = GaussianDiscriminant(estimate="mle", shrinkage=0.3).fit(rows, labels)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(rows, labels)
    assert_allclose(ours.predict_log_proba(rows), theirs.predict_log_proba(rows), rtol=1e-8, atol=1e-8)
    for given in (priors, {2: 0.5, 0: 0.2, 1: 0.3}):
        model = GaussianDiscriminant(priors=given).fit(rows, labels)
        assert_allclose(model.class_log_prior_, np.log(priors))


def test_own_most_likely_covariances_are_quadratic_discriminant_analysis() -> None:
    rows, labels = clusters()
    ours = GaussianDiscriminant("full", estimate="mle").fit(rows, labels)
    theirs = QuadraticDiscriminantAnalysis(solver="eigen", store_covariance=True).fit(rows, labels)
    assert_allclose(ours.covariance_, np.stack(theirs.covariance_), rtol=1e-8, atol=1e-8)
    assert_allclose(ours.predict_log_proba(rows), theirs.predict_log_proba(rows), rtol=1e-8, atol=1e-8)
    # its solver "svd" divides by n or by n − 1, as the version has it: the latter is `unbiased`
    unbiased = ours.infer(unbiased=True).covariance_
    assert_allclose(unbiased, [np.cov(rows[labels == k].T) for k in range(3)], rtol=1e-8, atol=1e-8)


# The laws of sums


@pytest.mark.parametrize("exact", [False, True], ids=["rounded", "exact"])
@each_covariance
def test_shards_in_any_order_are_one_fit_and_so_is_their_merge(covariance: Any, exact: bool) -> None:
    rows, labels = clusters(seed=1)
    rng = np.random.default_rng(2)
    whole = GaussianDiscriminant(covariance, exact=exact).fit(rows, labels)
    for _ in range(3):
        parts = np.split(rng.permutation(120), np.sort(rng.choice(np.arange(1, 120), 6, replace=False)))
        learned = GaussianDiscriminant(covariance, exact=exact)
        for part in parts:
            learned.partial_fit(rows[part], labels[part])
        shards = [
            GaussianDiscriminant(covariance, exact=exact).fit(rows[part], labels[part]) for part in parts
        ]
        for found in (learned, shards[0].merge(*shards[1:])):
            close(found, whole)
            if exact or covariance in ("diag", "spherical"):
                assert found.statistic_ == whole.statistic_
                assert_array_equal(found.predict_joint_log_proba(rows), whole.predict_joint_log_proba(rows))


@pytest.mark.parametrize("exact", [False, True], ids=["rounded", "exact"])
@each_covariance
def test_what_was_unlearned_never_was(covariance: Any, exact: bool) -> None:
    rows, labels = clusters(seed=3)
    before = GaussianDiscriminant(covariance, exact=exact).fit(rows[:60], labels[:60])
    model = copy.deepcopy(before).partial_fit(rows[60:], labels[60:])
    model.unlearn(rows[60:], labels[60:])
    close(model, before)
    if exact or covariance in ("diag", "spherical"):
        assert model.statistic_ == before.statistic_
    with pytest.raises(ValueError, match="nothing was changed") as caught:
        model.unlearn(np.repeat(rows[:60], 2, axis=0), np.repeat(labels[:60], 2))
    assert one_line(caught)
    close(model, before)


@each_covariance
def test_a_weight_is_a_row_that_often(covariance: Any) -> None:
    rows, labels = clusters(seed=4)
    times = np.random.default_rng(5).integers(0, 4, 120)
    for exact in (False, True):
        make = GaussianDiscriminant(covariance, exact=exact)
        weighted = copy.copy(make).fit(rows, labels, sample_weight=times.astype(np.float64))
        repeated = copy.copy(make).fit(rows.repeat(times, axis=0), labels.repeat(times))
        close(weighted, repeated)
        assert not exact or weighted.statistic_ == repeated.statistic_


@each_estimate
@each_covariance
def test_cross_validation_is_refitting_each_fold(covariance: Any, estimate: Any) -> None:
    rows, labels = clusters(seed=6)
    model = GaussianDiscriminant(covariance, estimate=estimate)
    held = model.cross_validate(rows, labels, folds=4, random_state=0)
    for number in range(4):
        out = held.fold == number
        refitted = GaussianDiscriminant(covariance, estimate=estimate).fit(rows[~out], labels[~out])
        expected = refitted.predict_joint_log_proba(rows[out])
        assert_allclose(held.log_joint[out], expected, rtol=1e-8, atol=1e-8)


@each_estimate
@each_covariance
def test_leaving_one_out_is_refitting_without_it(covariance: Any, estimate: Any) -> None:
    rows, labels = clusters(n=40, d=2, seed=7)
    held = GaussianDiscriminant(covariance, estimate=estimate).cross_validate(rows, labels, "leave-one-out")
    for out in range(0, 40, 3):
        kept = np.arange(40) != out
        refitted = GaussianDiscriminant(covariance, estimate=estimate).fit(rows[kept], labels[kept])
        expected = refitted.predict_joint_log_proba(rows[[out]])[0]
        assert_allclose(held.log_joint[out], expected, rtol=1e-7, atol=1e-7)


# Numbers


@each_estimate
@each_covariance
def test_a_mean_of_a_hundred_million_costs_nothing(covariance: Any, estimate: Any) -> None:
    rows, labels = clusters(seed=8)
    near, far = (
        GaussianDiscriminant(covariance, estimate=estimate).fit(rows + shift, labels) for shift in (0.0, 1e8)
    )
    assert_allclose(
        far.predict_joint_log_proba(rows + 1e8), near.predict_joint_log_proba(rows), rtol=1e-6, atol=1e-6
    )
    if estimate != "predictive":
        spread = float(np.abs(near.covariance_).max())
        assert_allclose(far.covariance_, near.covariance_, rtol=1e-9, atol=1e-9 * spread)


@each_covariance
def test_single_precision_is_read_as_it_is(covariance: Any) -> None:
    rows, labels = clusters(seed=9)
    single = rows.astype(np.float32)
    ours = GaussianDiscriminant(covariance).fit(single, labels)
    theirs = GaussianDiscriminant(covariance).fit(single.astype(np.float64), labels)
    assert ours.statistic_ == theirs.statistic_
    assert_array_equal(ours.predict_joint_log_proba(single), theirs.predict_joint_log_proba(single))


@each_covariance
def test_more_columns_than_rows_need_a_prior(covariance: Any) -> None:
    rows, labels = clusters(n=12, d=30, classes=2, seed=10, apart=3.0)
    for estimate in ("mean", "map", "predictive"):
        model = GaussianDiscriminant(covariance, estimate=estimate).fit(rows, labels)
        assert np.isfinite(model.predict_joint_log_proba(rows)).all()
        assert model.score(rows, labels) == 1.0
    if covariance in ("tied", "full"):
        with pytest.raises(ValueError, match="give more rows than columns") as caught:
            GaussianDiscriminant(covariance, estimate="mle").fit(rows, labels)
        assert one_line(caught)
        mended = GaussianDiscriminant(covariance, estimate="mle", shrinkage=0.1).fit(rows, labels)
        assert mended.score(rows, labels) == 1.0


@each_covariance
def test_a_column_that_is_constant_or_repeats_another_does_no_harm(covariance: Any) -> None:
    rows, labels = clusters(seed=11)
    for more in (np.full(120, 7.0), rows[:, 0]):
        wide = np.column_stack([rows, more])
        model = GaussianDiscriminant(covariance).fit(wide, labels)
        assert np.isfinite(model.predict_joint_log_proba(wide)).all()
        assert model.score(wide, labels) > 0.6
        if covariance in ("tied", "full"):
            with pytest.raises(ValueError, match="drop columns that repeat others") as caught:
                GaussianDiscriminant(covariance, estimate="mle").fit(wide, labels)
            assert one_line(caught)


@each_covariance
def test_one_class_is_a_density(covariance: Any) -> None:
    rows, _ = clusters(seed=12)
    model = GaussianDiscriminant(covariance).fit(rows, ["only"] * 120)
    assert set(model.predict(rows)) == {"only"}
    assert_array_equal(model.predict_proba(rows), np.ones((120, 1)))
    assert_array_equal(model.decision_function(rows), model.predict_joint_log_proba(rows)[:, 0])
    with pytest.raises(ValueError, match="one class, expected two") as caught:
        model.explain(rows)
    assert one_line(caught)


@pytest.mark.parametrize("covariance", ["tied", "full"])
def test_what_is_missing_is_refused_and_nothing_is_learned(covariance: Any) -> None:
    rows, labels = clusters(seed=13)
    model = GaussianDiscriminant(covariance).fit(rows[:60], labels[:60])
    before = model.statistic_
    holed = rows[60:].copy()
    holed[4, 2] = np.nan
    for verb in (model.partial_fit, model.fit, model.unlearn):
        with pytest.raises(
            ValueError, match=r"column 2 holds NaN in row 4.*GaussianDiscriminant\(covariance='diag'\)"
        ) as caught:
            verb(holed, labels[60:])
        assert one_line(caught)
        assert model.statistic_ == before
    with pytest.raises(ValueError, match="column 2 holds NaN in row 4"):
        model.predict(holed)


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_without_correlations_what_is_missing_is_left_out(covariance: Any) -> None:
    rows, labels = clusters(seed=14)
    rows[::7, 1] = np.nan
    model = GaussianDiscriminant(covariance, estimate="mle").fit(rows, labels)
    means = [np.nanmean(rows[labels == k], axis=0) for k in range(3)]
    assert_allclose(model.means_, means, rtol=1e-12, atol=1e-12)
    one, other = rows[:1].copy(), rows[:1].copy()
    one[0, 1], other[0, 1] = np.nan, 0.0
    apart = model.predict_joint_log_proba(other) - model.predict_joint_log_proba(one)
    variance = model.covariance_[:, 1] if covariance == "diag" else np.ravel(model.covariance_)
    alone = -0.5 * (model.means_[:, 1] ** 2 / variance + np.log(2.0 * np.pi * variance))
    assert_allclose(apart[0], alone, rtol=1e-9)


# Answers


@pytest.mark.parametrize("covariance", ["tied", "diag", "spherical"])
def test_an_explanation_sums_to_the_log_odds(covariance: Any) -> None:
    rows, labels = clusters(classes=2, seed=15)
    model = GaussianDiscriminant(covariance).fit(rows, labels)
    found = model.explain(rows)
    assert_allclose(found.log_odds, model.decision_function(rows), rtol=1e-9, atol=1e-9)
    sums = found.values().sum(axis=1) + found.rest + found.prior
    assert_allclose(sums, model.decision_function(rows), rtol=1e-9, atol=1e-9)
    rows, labels = clusters(seed=15)
    model = GaussianDiscriminant(covariance).fit(rows, labels)
    joint = np.sort(model.predict_joint_log_proba(rows), axis=1)
    assert_allclose(model.explain(rows).log_odds, joint[:, -1] - joint[:, -2], rtol=1e-9, atol=1e-9)


def test_what_is_no_sum_over_columns_is_not_explained() -> None:
    rows, labels = clusters(seed=15)
    for model in (GaussianDiscriminant("full"), GaussianDiscriminant(estimate="predictive")):
        with pytest.raises(ValueError, match="not a sum over columns") as caught:
            model.fit(rows, labels).explain(rows)
        assert "\n" not in str(caught.value)


@each_estimate
@each_covariance
def test_a_sample_is_of_the_model(covariance: Any, estimate: Any) -> None:
    rows, labels = clusters(n=400, seed=16)
    model = GaussianDiscriminant(covariance, estimate=estimate).fit(rows, labels)
    drawn, named = model.sample(6000, random_state=0)
    again = model.sample(6000, random_state=0)
    assert_array_equal(drawn, again[0])
    assert drawn.shape == (6000, 3)
    shares = np.bincount(named, minlength=3) / 6000
    assert_allclose(shares, np.exp(model.class_log_prior_), atol=0.03)
    for k in range(3):
        error = np.sqrt(np.var(drawn[named == k], axis=0) / (named == k).sum())
        assert (
            np.abs(drawn[named == k].mean(axis=0) - rows[labels == k].mean(axis=0)) < 5 * error + 0.05
        ).all()


@each_covariance
def test_the_evidence_is_a_chain_of_predictions(covariance: Any) -> None:
    rows, labels = clusters(n=30, seed=17)
    prior = NormalInverseWishart.from_mean(np.zeros(3), 2.0, np.eye(3))
    make = GaussianDiscriminant(covariance, estimate="predictive", prior=prior)
    before = copy.copy(make).fit(rows[:20], labels[:20])
    after = copy.copy(make).fit(rows[:21], labels[:21])
    joint = before.predict_joint_log_proba(rows[[20]])[0] - before.class_log_prior_
    assert after.log_evidence_ - before.log_evidence_ == pytest.approx(joint[labels[20]], rel=1e-9)


def test_evidence_chooses_one_covariance_where_there_is_one() -> None:
    rng = np.random.default_rng(18)
    labels = rng.integers(0, 2, 60)
    turn = rng.normal(size=(4, 4))
    same = rng.normal(size=(60, 4)) @ turn + labels[:, None]
    other = np.where(labels[:, None] == 1, same @ np.diag([0.1, 10.0, 0.1, 10.0]), same)
    for rows, expected in ((same, "tied"), (other, "full")):
        found = {c: GaussianDiscriminant(c).fit(rows, labels).log_evidence_ for c in ("tied", "full")}
        assert max(found, key=found.__getitem__) == expected


@each_covariance
def test_integrating_parameters_out_gives_heavier_tails(covariance: Any) -> None:
    rows, labels = clusters(n=16, classes=2, seed=19)
    plugged = GaussianDiscriminant(covariance).fit(rows, labels)
    integrated = GaussianDiscriminant(covariance, estimate="predictive").fit(rows, labels)
    far = rows.mean(axis=0) + 30.0 * np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, 0.0]])
    assert (integrated.predict_joint_log_proba(far) > plugged.predict_joint_log_proba(far)).all()
    assert (np.abs(integrated.decision_function(far)) < np.abs(plugged.decision_function(far))).all()
    new, truth = clusters(n=600, classes=2, seed=19)
    loss = [-m.predict_log_proba(new)[np.arange(600), truth].mean() for m in (integrated, plugged)]
    assert loss[0] < loss[1]


@each_covariance
def test_rows_without_labels_teach_too(covariance: Any) -> None:
    rng = np.random.default_rng(20)
    truth = np.repeat(["left", "right"], 200)
    rows = rng.normal(size=(400, 5)) + np.where(truth == "right", 2.2, 0.0)[:, None] * [1, 0, 0, 1, 0]
    labels = np.full(400, None, dtype=object)
    labels[[0, 1, 2, 200, 201, 202]] = truth[[0, 1, 2, 200, 201, 202]]
    known = labels != None  # noqa: E711  (an array of objects)
    few = GaussianDiscriminant(covariance).fit(rows[known], truth[known])
    all_rows = GaussianDiscriminant(covariance).fit(rows, labels)
    assert all_rows.score(rows, truth) > few.score(rows, truth)
    assert all_rows.n_iter_ > 1
    assert few.n_iter_ == 1


def test_axes_of_the_classes_are_those_of_quadratic_discriminant_analysis() -> None:
    rows, labels = clusters()
    ours = GaussianDiscriminant("full", estimate="mle").fit(rows, labels)
    theirs = QuadraticDiscriminantAnalysis(solver="eigen").fit(rows, labels)
    for one, other in zip(ours.scalings_, theirs.scalings_, strict=True):
        assert_allclose(one, other, rtol=1e-8)
    for one, other in zip(ours.rotations_, theirs.rotations_, strict=True):
        assert_allclose(np.abs(one), np.abs(other), atol=1e-8)
    tied = GaussianDiscriminant("tied").fit(rows, labels)
    assert not hasattr(tied, "scalings_")
    assert not hasattr(tied, "rotations_")


def test_priors_must_name_every_class_and_sum_to_one() -> None:
    rows, labels = clusters()
    for priors in ({0: 0.5, 1: 0.5}, [0.5, 0.6, 0.1], [0.5, 0.5], {0: -0.5, 1: 0.5, 2: 1.0}):
        with pytest.raises(ValueError, match=r"(?i)prior") as caught:
            GaussianDiscriminant(priors=priors).fit(rows, labels)
        assert "\n" not in str(caught.value)
    model = GaussianDiscriminant(priors={0: 0.25, 1: 0.75}).fit(rows[labels < 2], labels[labels < 2])
    with pytest.raises(ValueError, match="without class 2, expected a probability for every class"):
        model.partial_fit(rows, labels)
    assert model.classes_.tolist() == [0, 1]


def test_settings_that_make_no_sense_are_refused() -> None:
    rows, labels = clusters()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"covariance": "round"}, "covariance='round'"),
        ({"estimate": "best"}, "estimate='best'"),
        ({"shrinkage": 0.1}, "expected estimate='mle'"),
        ({"unbiased": True}, "expected estimate='mle'"),
        ({"shrinkage": 2.0, "estimate": "mle"}, "shrinkage=2"),
        ({"strength": 0.0}, "strength of 0"),
    ]
    for params, match in wrong:
        with pytest.raises(ValueError, match=match) as caught:
            GaussianDiscriminant(**params).fit(rows, labels)
        assert one_line(caught)
