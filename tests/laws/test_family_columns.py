"""Every law of blocks and faces, over every family as a column of `NaiveBayes` and of `Mixture`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.families import Exponential, Gamma, Geometric, NegativeBinomial
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.registry import FAMILIES
from tamis.models.generative.block import ESTIMATES
from tamis.models.generative.column_blocks import FASTER
from tamis.testing import faces
from tamis.testing import family_columns as laws
from tamis.testing.faces import FaceCase
from tamis.testing.family_columns import FAMILY_FACES, FASTER_BLOCKS, BlockCase, draw_columns

ONE_COLUMN = [name for name, family in FAMILIES.items() if isinstance(family, ConjugateFamily)]
GENERIC = [name for name in ONE_COLUMN if name not in FASTER]
every_family = pytest.mark.parametrize("case", FAMILY_FACES, ids=lambda case: case.name)


@pytest.mark.parametrize("shared", [False, True], ids=["labels", "responsibilities"])
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("case", FASTER_BLOCKS, ids=lambda case: case.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_faster_block_is_the_block_of_any_family(
    case: BlockCase, estimate: str, shared: bool, data: Any
) -> None:
    alpha = data.draw(st.sampled_from([1.0, 2.5, 40.0] if estimate == "map" else [0.3, 1.0, 2.5, 40.0]))
    laws.a_faster_block_is_the_block_of_any_family(case, data.draw(case.columns), estimate, alpha, shared)


def test_every_faster_block_of_one_column_is_registered() -> None:
    assert {case.name for case in FASTER_BLOCKS} == set(FASTER) & set(ONE_COLUMN)


@every_family
@pytest.mark.parametrize(
    "law",
    [
        faces.shards_leave_no_trace,
        faces.merging_is_learning,
        faces.forgetting_restores_the_model,
        faces.cross_validation_is_refitting,
    ],
    ids=lambda law: law.__name__,
)
def test_naive_bayes_of_any_family_keeps_the_laws_of_faces(case: FaceCase, law: Any) -> None:
    if case.name == "multinomial":  # it takes no missing values, and the draws have none
        assert not np.isnan(case.draw(np.random.default_rng(0), 50)).any()
    law(case, np.random.default_rng(0))


@every_family
def test_the_outlier_of_any_family_is_forgotten(case: FaceCase) -> None:
    if case.name != "bernoulli":  # which has none
        faces.an_outlier_is_forgotten(case, np.random.default_rng(0))


@every_family
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_a_model_of_any_family_is_saved(case: FaceCase, estimate: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows, labels = case.draw(rng, 80), rng.choice(["a", "b"], 80)
    mixture = tamis.Mixture(2, families=FAMILIES[case.name], covariance="diag", estimate=estimate)
    mixture.set_params(random_state=0, max_iter=5, tol=1e9)
    for model in (case.make().set_params(estimate=estimate).fit(rows, labels), mixture.fit(rows)):
        model.save(tmp_path / "model.tamis")
        again = tamis.load(tmp_path / "model.tamis")
        assert again.statistic_ == model.statistic_
        expected = model.predict_joint_log_proba(rows)
        assert np.array_equal(again.predict_joint_log_proba(rows), expected)
        again.partial_fit(rows, labels)


@every_family
def test_leaving_one_row_out_is_learning_the_others(case: FaceCase) -> None:
    rng = np.random.default_rng(2)
    rows, labels = case.draw(rng, 12), np.array(["a", "b"] * 6)
    held = case.make().cross_validate(rows, labels, folds="leave-one-out")
    for i in range(len(rows)):
        others = np.delete(np.arange(len(rows)), i)
        model = case.make().fit(rows[others], labels[others])
        expected = model.predict_joint_log_proba(rows[[i]])[0]
        np.testing.assert_allclose(held.log_joint[i], expected, rtol=1e-9, atol=1e-9)


@every_family
def test_decay_is_weight(case: FaceCase) -> None:
    rng = np.random.default_rng(3)
    rows, labels = case.draw(rng, 30), rng.choice(["a", "b"], 30)
    decayed = case.make().fit(rows, labels).decay(0.5)
    weighed = case.make().fit(rows, labels, sample_weight=np.full(30, 0.5))
    assert decayed.statistic_ == weighed.statistic_


@every_family
def test_explanations_sum_to_log_odds_and_missing_values_say_nothing(case: FaceCase) -> None:
    rng = np.random.default_rng(4)
    rows, labels = case.draw(rng, 60), np.array(["a", "b"] * 30)
    model = case.make().fit(rows, labels)
    parts = model.explain(rows)
    joint = model.predict_joint_log_proba(rows)
    log_odds = parts.contributions.sum(axis=1) + parts.rest + parts.prior
    np.testing.assert_allclose(log_odds, joint[:, 1] - joint[:, 0], rtol=1e-9, atol=1e-9)
    if case.name != "multinomial":
        assert (parts.contributions[np.isnan(rows)] == 0).all()
        empty = model.predict_proba(np.full((1, 3), np.nan))
        np.testing.assert_allclose(empty, [np.exp(model.class_log_prior_)], rtol=1e-12)


@every_family
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_a_class_that_was_never_seen_has_the_prior(case: FaceCase, estimate: str) -> None:
    rows = case.draw(np.random.default_rng(5), 40)
    model = case.make().set_params(class_alpha=1.0, estimate=estimate)
    joint = model.partial_fit(rows, ["a"] * 40, classes=["a", "b"]).predict_joint_log_proba(rows)
    assert not np.isnan(joint).any()
    if estimate == "mean":
        assert np.isfinite(joint).all()
        assert joint[:, 0].sum() > joint[:, 1].sum()


@every_family
def test_draws_of_a_model_are_learned_again(case: FaceCase) -> None:
    rng = np.random.default_rng(6)
    rows, labels = case.draw(rng, 400), rng.choice(["a", "b"], 400)
    for estimate in ESTIMATES:
        model = case.make().set_params(estimate=estimate).fit(rows, labels)
        drawn, names = model.sample(300, random_state=0)
        assert case.make().fit(drawn, names).score(drawn, names) >= model.score(drawn, names) - 0.1


@every_family
@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_the_log_likelihood_of_a_mixture_never_falls(case: FaceCase) -> None:
    rng = np.random.default_rng(7)
    rows = np.concatenate([case.draw(rng, 100), case.draw(rng, 100)])
    mixture = tamis.Mixture(2, families=FAMILIES[case.name], estimate="mle", random_state=0, tol=0.0)
    likelihoods = mixture.set_params(max_iter=40).fit(rows).log_likelihoods_
    assert (np.diff(likelihoods) >= -1e-9 * np.abs(likelihoods[1:])).all()
    assert np.isfinite(mixture.bic(rows))
    assert mixture.n_parameters_ > 0


@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize(
    ("family", "means"),
    [
        (Exponential(1.0), (0.5, 40.0)),
        (Geometric(0.5), (0.5, 60.0)),
        (NegativeBinomial(size=3.0), (1.0, 30.0)),
        (Gamma(shape=4.0), (1.0, 12.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_two_components_are_recovered(family: Any, means: tuple[float, float], estimate: Any) -> None:
    rng = np.random.default_rng(8)
    group = (rng.random(4000) < 0.7).astype(np.int64)
    members = family.with_mean(np.array(means)[group][:, None, None])  # (n, 1): one column
    rows = np.concatenate([members.sample(rng), members.sample(rng)], axis=1)
    rows[rng.random(len(rows)) < 0.1, 0] = np.nan
    mixture = tamis.Mixture(2, families=family, estimate=estimate, random_state=0, tol=1e-6, max_iter=500)
    order = np.argsort([np.nanmean(rows[mixture.fit_predict(rows) == k]) for k in range(2)])
    np.testing.assert_allclose(mixture.weights_[order], [0.3, 0.7], atol=0.03)
    (part,) = (part for name, part in mixture.statistic_.items() if name != "classes")
    found: Any = part
    np.testing.assert_allclose(
        found.mean[order][..., 0], [[mean] * 2 for mean in means], rtol=0.15
    )  # six standard errors
    assert (mixture.predict(rows) == np.argsort(order)[group]).mean() > 0.95


@pytest.mark.parametrize("name", GENERIC)
def test_values_outside_the_support_are_named(name: str) -> None:
    family = FAMILIES[name]
    rows = np.abs(draw_columns(family, np.random.default_rng(9), 20)) + 1.0
    rows[7, 2] = -1.0
    for model in (tamis.NaiveBayes(families=family), tamis.Mixture(2, families=family)):
        with pytest.raises(ValueError, match=r"column 2 holds -1 in row 7, expected .*: correct that row"):
            model.fit(rows, ["a", "b"] * 10)
    fitted = tamis.NaiveBayes(families=family).fit(np.delete(rows, 7, axis=0), (["a", "b"] * 10)[:19])
    assert np.isneginf(fitted.predict_joint_log_proba(rows)[7]).all()


def test_a_family_with_a_fixed_parameter_needs_it() -> None:
    rows = [[1.0], [2.0], [4.0]]
    for families, words in (
        ("gamma", r"'gamma' for 'families' without its shape, expected .*tamis\.families\.Gamma\(shape=2\)"),
        ({0: "negative_binomial"}, r"'negative_binomial' for 0 in families=.* without its size"),
        (Gamma(2.0, rate=[1.0, 2.0]), r"a batch of \(2,\), expected one member"),
    ):
        wrong: Any = families
        with pytest.raises(ValueError, match=words):
            tamis.NaiveBayes(families=wrong).fit(rows, [0, 1, 1])
    ones, labels = np.ones((4, 3)), [0, 1, 0, 1]
    both = tamis.NaiveBayes({0: Gamma(2.0), 1: Gamma(3.0), 2: "exponential"}).fit(ones, labels)
    assert both.families_ == {0: "gamma(shape=2)", 1: "gamma(shape=3)", 2: "exponential"}
    other = tamis.NaiveBayes({0: Gamma(2.0), 1: Gamma(4.0), 2: "exponential"}).fit(ones, labels)
    with pytest.raises(ValueError, match="sum rows in different ways"):
        both.merge(other)


def test_columns_without_values_change_their_kind_beside_any_family() -> None:
    first: list[Any] = [[1.0, None], [2.0, None], [4.0, None]]
    second: list[Any] = [[3.0, "x"], [1.0, "y"]]
    model = tamis.NaiveBayes({0: "exponential"}).partial_fit(first, [0, 1, 1]).partial_fit(second, [0, 1])
    assert model.families_ == {0: "exponential", 1: "categorical"}
    at_once = tamis.NaiveBayes({0: "exponential"}).fit(first + second, [0, 1, 1, 0, 1])
    assert model.statistic_ == at_once.statistic_
    empty = tamis.NaiveBayes({0: "exponential"}, integers="geometric").partial_fit(first, [0, 1, 1])
    assert empty.partial_fit(np.array([[1.0, 3]], dtype=object), [0]).families_ == {
        0: "exponential",
        1: "geometric",
    }
