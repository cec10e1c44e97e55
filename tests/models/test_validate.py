"""Validation by subtraction is refitting; and row B7, a check that fails on a misfit model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.naive_bayes import GaussianNB

from tamis import validate
from tamis.arrays import Array
from tamis.conjugate import Gamma, NormalInverseGamma
from tamis.models.generative import (
    BernoulliColumns,
    Block,
    CategoryColumns,
    ComplementCounts,
    GaussianColumns,
    Generative,
    LabelledRows,
    MultinomialCounts,
    PoissonColumns,
)
from tamis.models.generative.block import ESTIMATES
from tamis.stats import Joint, Keys, Labels
from tamis.tables import Table

CLASSES = np.array([*"abbcccddddeeeeeacde", "one"])
N = len(CLASSES)


def numbers(rng: np.random.Generator) -> Array:
    values = rng.normal(size=(N, 3)) * [1.0, 10.0, 0.1] + 3.0
    values[:, 1] += np.unique(CLASSES, return_inverse=True)[1]
    return values


def gaps(rng: np.random.Generator) -> Array:
    values = numbers(rng)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[CLASSES == "d", 2] = np.nan  # a column of which a class shows nothing
    values[np.flatnonzero(CLASSES == "d")[0], 2] = 1.0  # … but for one row
    values[CLASSES == "b", 0] = 0.5  # a column that is constant in a class
    return values


def counts(rng: np.random.Generator) -> Array:
    found = rng.poisson(1.5, size=(N, 6)).astype(np.float64)
    found[:, 5] = 0.0
    found[4, 5] = 3.0  # a word of one row alone
    found[7] = 0.0  # a row of no words
    return found


def flags(rng: np.random.Generator) -> Array:
    return (counts(rng) > 1).astype(np.float64)


def flags_with_gaps(rng: np.random.Generator) -> Array:
    return np.where(rng.random((N, 6)) < 0.2, np.nan, flags(rng))


def categories(rng: np.random.Generator) -> NDArray[np.int64]:
    found = rng.integers(0, 3, size=(N, 3))
    found[3, 0], found[9, 1] = 7, 4  # values of one row alone
    return found


def words(rng: np.random.Generator) -> NDArray[np.object_]:
    found = rng.choice(np.array(["red", "green", "blue"], dtype=object), size=(N, 3))
    found[3, 0], found[9, 1] = "pink", "teal"
    found[rng.random(found.shape) < 0.2] = None
    return found


PRIOR = NormalInverseGamma.from_mean([1.0, 2.0, 3.0], 2.0, [1.0, 2.0, 0.1])
CASES: dict[str, tuple[Block[Any, Any], Any]] = {
    "gaussian": (GaussianColumns(), numbers),
    "gaussian, smoothed": (GaussianColumns(smoothing=1e-9), gaps),
    "gaussian, smoothed much": (GaussianColumns(smoothing=0.5), gaps),
    "gaussian, missing": (GaussianColumns(smoothing=1e-3, strength=0.7), gaps),
    "gaussian, with a prior": (GaussianColumns(prior=PRIOR), gaps),
    "multinomial": (MultinomialCounts(alpha=1.5), counts),
    "multinomial, sparse": (MultinomialCounts(alpha=[1.0, 2.0, 1.5, 1.0, 1.0, 3.0]), sparse.csr_array),
    "complement": (ComplementCounts(), counts),
    "bernoulli": (BernoulliColumns(alpha=1.5), flags),
    "bernoulli, missing": (BernoulliColumns(), flags_with_gaps),
    "bernoulli, sparse": (BernoulliColumns(threshold=0.0), sparse.csr_array),
    "poisson": (PoissonColumns(), counts),
    "poisson, with a prior": (PoissonColumns(prior=Gamma(2.0, 1.5)), counts),
    "poisson, sparse": (PoissonColumns(alpha=0.3), sparse.csr_array),
    "categories": (CategoryColumns(), words),
    "categories, numbered": (CategoryColumns(numbered=True, alpha=1.5), categories),
    "categories, at least five": (CategoryColumns(min_values=5, alpha=2.0), categories),
}
EVERY = [(name, estimate) for name in CASES for estimate in ESTIMATES]


def problem(name: str, estimate: Any, seed: int = 0, **options: Any) -> tuple[Generative, LabelledRows]:
    block, make = CASES[name]
    rng = np.random.default_rng(seed)
    data = make(counts(rng)) if make is sparse.csr_array else make(rng)
    model = Generative({"x": replace(block, estimate=estimate)}, **options)
    return model, LabelledRows(model.encode(Table.of(data)), Labels.of(CLASSES))


def weighed(evidence: LabelledRows, seed: int = 1) -> LabelledRows:
    return replace(evidence, weights=np.random.default_rng(seed).choice([0.1, 0.7, 1.0, 2.3], size=N))


def refitted(model: Generative, evidence: LabelledRows, keys: Keys, fold: NDArray[np.int64]) -> Array:
    """By fitting from the rows again for each fold."""
    joint = np.full((len(fold), len(keys)), -np.inf)
    for one in np.unique(fold):
        rows, rest = np.flatnonzero(fold == one), np.flatnonzero(fold != one)
        labels = Labels.of([evidence.labels.keys[k] for k in evidence.labels.group[rest]])
        weights = None if evidence.weights is None else evidence.weights[rest]
        posterior = model.infer(model.observe(LabelledRows(evidence.rows.take(rest), labels, weights)))
        joint[np.ix_(rows, keys.find(posterior.keys))] = posterior.log_joint(evidence.rows.take(rows))
    return joint


def same(found: Array, expected: Array, tolerance: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "estimate"), EVERY)
def test_cross_validation_is_refitting_to_the_last_bit(name: str, estimate: str) -> None:
    model, evidence = problem(name, estimate)
    for data in (evidence, weighed(evidence)):
        fold = validate.split(N, 4, group=data.labels.group)
        held_out = validate.cross_validate(model, data, fold)
        np.testing.assert_array_equal(held_out.log_joint, refitted(model, data, held_out.keys, fold))


@pytest.mark.parametrize(("name", "estimate"), EVERY)
def test_leaving_each_row_out_is_refitting_without_it(name: str, estimate: str) -> None:
    model, evidence = problem(name, estimate)
    for data in (evidence, weighed(evidence)):
        held_out = validate.leave_one_out(model, data)
        same(held_out.log_joint, refitted(model, data, held_out.keys, np.arange(N)), 1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"is_uniform": True},
        {"alpha": 0.5},
        {"alpha": 2.0, "classes": Keys(("a", "never", "one"))},
        {"prior": {key: 0.1 * (i + 1) for i, key in enumerate(np.unique(CLASSES).tolist())}},
    ],
)
def test_a_class_of_one_row_is_gone_without_it_unless_it_was_declared(options: dict[str, Any]) -> None:
    for name in CASES:
        model, evidence = problem(name, "mean", **options)
        held_out = validate.leave_one_out(model, evidence)
        same(held_out.log_joint, refitted(model, evidence, held_out.keys, np.arange(N)), 1e-10)
        known = "one" in model.classes
        assert np.isfinite(held_out.log_joint[-1, held_out.group[-1]]) == known
        assert np.isfinite(held_out.log_loss) == known


def test_rows_far_from_zero_keep_their_digits_when_left_out() -> None:
    rng = np.random.default_rng(2)
    near = np.round(rng.normal(size=(60, 2)) * 1024) / 1024  # so that adding 2**27 rounds nothing
    labels = Labels.of(np.arange(60) % 3)
    for estimate in ("mle", "mean", "predictive"):
        joints = []
        for offset in (0.0, 2.0**27):
            model = Generative({"x": GaussianColumns(estimate=estimate, smoothing=1e-9)})
            evidence = LabelledRows(model.encode(Table.of(near + offset)), labels)
            joints.append(validate.leave_one_out(model, evidence).log_joint)
        same(joints[1], joints[0], 1e-6 if estimate == "mle" else 1e-8)


def test_leaving_one_out_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 80)
    data = rng.normal(size=(80, 4)) * [1, 5, 0.2, 3] + labels[:, None]
    odds = cross_val_predict(GaussianNB(), data, labels, cv=LeaveOneOut(), method="predict_log_proba")
    model = Generative({"x": GaussianColumns(estimate="mle", smoothing=1e-9)})
    evidence = LabelledRows(model.encode(Table.of(data)), Labels.of(labels))
    held_out = validate.leave_one_out(model, evidence)
    same(held_out.log_joint - np.logaddexp.reduce(held_out.log_joint, axis=1)[:, None], odds, 1e-8)
    assert held_out.accuracy == np.mean(odds.argmax(axis=1) == labels)
    for i in range(0, 80, 8):
        rest = np.arange(80) != i
        joint = GaussianNB().fit(data[rest], labels[rest]).predict_joint_log_proba(data[[i]])
        same(held_out.log_joint[[i]], joint, 1e-8)


@pytest.mark.parametrize("smoothing", [1e-9, 1e-4, 1e-2])
def test_the_smoothing_too_is_that_of_the_other_rows(smoothing: float) -> None:
    rng = np.random.default_rng(10)
    labels = rng.integers(0, 3, 200)
    data = rng.normal(size=(200, 3)) + labels[:, None]
    data[rng.random(data.shape) < 0.1] = np.nan
    data[50] = 40.0  # most of the largest variance
    model = Generative({"x": GaussianColumns(estimate="mle", smoothing=smoothing)})
    for rows in (np.arange(200), np.flatnonzero(~np.isnan(data).any(axis=1))):
        evidence = LabelledRows(model.encode(Table.of(data[rows])), Labels.of(labels[rows]))
        held_out = validate.leave_one_out(model, evidence)
        same(held_out.log_joint, refitted(model, evidence, held_out.keys, np.arange(len(rows))), 1e-10)


def test_columns_without_any_variance_are_left_out_like_others() -> None:
    model = Generative({"x": GaussianColumns(estimate="mle", smoothing=1e-9)})
    data = np.repeat([[3.0, 1e5]], 6, axis=0)
    evidence = LabelledRows(model.encode(Table.of(data)), Labels.of([0, 0, 0, 1, 1, 1]))
    held_out = validate.leave_one_out(model, evidence)
    same(held_out.log_joint, refitted(model, evidence, held_out.keys, np.arange(6)), 1e-10)


def test_a_sparse_row_may_name_a_column_twice() -> None:
    once = sparse.csr_array(np.array([[3.0, 0.0], [1.0, 2.0], [0.0, 4.0], [2.0, 2.0]]))
    twice = sparse.csr_array(
        (np.array([1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 2.0]), np.array([0, 0, 0, 1, 1, 0, 1]), [0, 2, 4, 5, 7])
    )
    model = Generative({"x": MultinomialCounts()})
    evidence = [LabelledRows(model.encode(Table.of(rows)), Labels.of([0, 0, 1, 1])) for rows in (once, twice)]
    first, second = (validate.leave_one_out(model, data).log_joint for data in evidence)
    same(first, second, 1e-14)


def test_blocks_side_by_side_are_left_out_together() -> None:
    rng = np.random.default_rng(4)
    data = np.column_stack([numbers(rng), counts(rng)])
    model = Generative(
        {
            "numbers": GaussianColumns(columns=(0, 1, 2)),
            "counts": MultinomialCounts(columns=(3, 4, 5, 6, 7, 8)),
        }
    )
    evidence = weighed(LabelledRows(model.encode(Table.of(data)), Labels.of(CLASSES)))
    held_out = validate.leave_one_out(model, evidence)
    same(held_out.log_joint, refitted(model, evidence, held_out.keys, np.arange(N)), 1e-10)


def test_rows_may_be_left_out_of_a_statistic_that_holds_more() -> None:
    model, evidence = problem("gaussian", "mean")
    whole = model.observe(evidence)
    few = np.array([18, 2, 9])
    held_out = validate.leave_one_out(model, evidence.take(few), whole)
    np.testing.assert_allclose(
        held_out.log_joint, validate.leave_one_out(model, evidence).log_joint[few], rtol=1e-12
    )


def test_a_row_of_no_weight_is_not_missed() -> None:
    for name in CASES:
        model, evidence = problem(name, "mean")
        weights = np.ones(N)
        weights[[5, 11]] = 0.0
        evidence = replace(evidence, weights=weights)
        posterior = model.infer(model.observe(evidence))
        held_out = validate.leave_one_out(model, evidence)
        same(held_out.log_joint[[5, 11]], posterior.log_joint(evidence.rows)[[5, 11]], 1e-10)


def test_accuracy_and_log_loss_are_weighted_means_over_the_folds() -> None:
    model, evidence = problem("categories", "mean", alpha=1.0, classes=Keys(("one",)))
    data = weighed(evidence)
    held_out = validate.cross_validate(model, data, validate.split(N, 3))
    parts = held_out.by_fold()
    shares = [part.weights.sum() for part in parts if part.weights is not None]
    assert held_out.accuracy == pytest.approx(np.average([part.accuracy for part in parts], weights=shares))
    assert held_out.log_loss == pytest.approx(np.average([part.log_loss for part in parts], weights=shares))
    odds = held_out.log_joint - np.logaddexp.reduce(held_out.log_joint, axis=1)[:, None]
    own = odds[np.arange(N), held_out.group]
    assert held_out.log_loss == pytest.approx(-np.average(own, weights=data.weights))


def test_a_row_that_all_classes_call_impossible_says_nothing() -> None:
    held_out = validate.HeldOut(Keys((0, 1)), np.full((1, 2), -np.inf), np.array([1]), np.array([0]))
    assert held_out.log_loss == pytest.approx(np.log(2.0))


def test_folds_are_of_one_size_and_hold_their_share_of_every_class() -> None:
    group = np.repeat([0, 1, 2], [40, 21, 9])
    for rng in (None, np.random.default_rng(0)):
        fold = validate.split(70, 5, rng, group)
        assert np.bincount(fold).tolist() == [14] * 5
        table = np.array([np.bincount(fold[group == k], minlength=5) for k in range(3)])
        assert (np.ptp(table, axis=1) <= 1).all()
    assert np.bincount(validate.split(10, 3, np.random.default_rng(1))).tolist() == [4, 3, 3]


def test_grouped_folds_keep_groups_together_and_are_balanced() -> None:
    rng = np.random.default_rng(5)
    groups = rng.choice([f"patient {i}" for i in range(40)], size=500)
    for shuffle in (None, rng):
        fold = validate.split(500, 4, shuffle, groups=groups)
        assert all(len(set(fold[groups == one])) == 1 for one in set(groups.tolist()))
        assert np.ptp(np.bincount(fold, minlength=4)) <= max(np.unique(groups, return_counts=True)[1])


def test_what_cannot_be_split_or_left_out_is_refused() -> None:
    with pytest.raises(ValueError, match="got 1 folds for 5 rows"):
        validate.split(5, 1)
    with pytest.raises(ValueError, match="got 2 groups for 3 folds"):
        validate.split(5, 3, groups=[0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="both group= and groups="):
        validate.split(4, 2, group=[0, 0, 1, 1], groups=[0, 0, 1, 1])
    model, evidence = problem("gaussian", "mean")
    unlabelled = replace(evidence, labels=Labels(evidence.labels.keys, np.full(N, -1)))
    with pytest.raises(ValueError, match="some labels are missing"):
        validate.leave_one_out(model, unlabelled)
    with pytest.raises(ValueError, match="expected at least 2"):
        validate.cross_validate(model, evidence, np.zeros(N, dtype=np.int64))
    with pytest.raises(ValueError, match="has no weight in the statistic"):
        validate.leave_one_out(model, evidence, model.observe(evidence.take(CLASSES != "one")))


def alphas(block: Any, grid: list[float]) -> dict[float, Generative]:
    return {alpha: Generative({"x": replace(block, alpha=alpha)}, is_uniform=True) for alpha in grid}


def test_the_evidence_chooses_a_prior_from_the_statistic_alone() -> None:
    rng = np.random.default_rng(6)
    data = np.array([rng.multinomial(30, rng.dirichlet(np.full(8, 0.4))) for _ in range(40)])
    labels = Labels.of(np.arange(40))
    candidates = alphas(MultinomialCounts(), [0.01, 0.1, 0.4, 1.0, 10.0])
    model = candidates[1.0]
    evidence = LabelledRows(model.encode(Table.of(data)), labels)
    statistic = model.observe(evidence)
    choice = validate.choose(candidates, statistic)
    direct = {alpha: one.infer(one.observe(evidence)).log_evidence() for alpha, one in candidates.items()}
    assert choice.scores == direct
    assert choice.best == max(direct, key=direct.__getitem__) == 0.4
    assert validate.choose(candidates, evidence).best == choice.best


def test_leaving_one_out_chooses_what_predicts_best() -> None:
    rng = np.random.default_rng(7)
    labels = np.repeat([0, 1], 15)
    data = rng.poisson(np.where(labels[:, None] == 0, 1.0, 1.3), size=(30, 25))
    candidates = alphas(MultinomialCounts(), [1e-3, 1.0, 1e4])
    evidence = LabelledRows(candidates[1.0].encode(Table.of(data)), Labels.of(labels))
    choice = validate.choose(candidates, evidence, by="leave-one-out")
    losses = {}
    for alpha, model in candidates.items():
        joint = refitted(model, evidence, Keys((0, 1)), np.arange(30))
        odds = joint - np.logaddexp.reduce(joint, axis=1)[:, None]
        losses[alpha] = -float(odds[np.arange(30), labels].mean())
    assert choice.best == min(losses, key=losses.__getitem__)
    assert choice.scores == pytest.approx({alpha: -loss for alpha, loss in losses.items()}, rel=1e-9)
    with pytest.raises(TypeError, match="got only a statistic"):
        validate.choose(candidates, candidates[1.0].observe(evidence), by="leave-one-out")
    other = Generative({"x": PoissonColumns()})
    with pytest.raises(ValueError, match="differ in their blocks"):
        validate.choose({0.1: candidates[1.0], 0.2: other}, evidence)


def dispersion(group: NDArray[np.int64], columns: Mapping[str, list[NDArray[Any]]]) -> float:
    """Variance over mean, which is 1 for a Poisson count, within classes."""
    x = columns["x"][0]
    ratios = [np.var(x[group == k]) / np.mean(x[group == k]) for k in np.unique(group)]
    return float(np.mean(ratios))


def counted(rng: np.random.Generator, spread: float) -> tuple[Generative, Joint, validate.Measure, float]:
    labels = np.repeat([0, 1], 150)
    rates = np.where(labels == 0, 3.0, 8.0)
    if spread:
        rates = rng.gamma(1.0 / spread, spread * rates)
    data = rng.poisson(rates).astype(np.float64)
    model = Generative({"x": PoissonColumns()})
    statistic = model.observe(LabelledRows(model.encode(Table.of(data[:, None])), Labels.of(labels)))
    return model, statistic, dispersion, dispersion(labels, {"x": [data]})


def test_b7_a_check_fails_on_a_misfit_model_and_passes_on_one_that_fits() -> None:
    rng = np.random.default_rng(8)
    misfit = validate.check(*counted(rng, 0.5), rng=rng)
    assert misfit.observed > misfit.replicated.max()
    assert misfit.p_value == pytest.approx(2 / 201)
    fitting = [validate.check(*counted(rng, 0.0), rng=rng, draws=100).p_value for _ in range(20)]
    assert np.mean(np.array(fitting) < 0.05) <= 0.2
    assert np.mean(fitting) > 0.3


def test_a_check_draws_as_many_rows_of_each_class_as_were_seen_or_as_are_asked_for() -> None:
    rng = np.random.default_rng(9)
    model, statistic, _, observed = counted(rng, 0.0)
    sizes: list[list[int]] = []

    def measure(group: NDArray[np.int64], columns: Mapping[str, list[NDArray[Any]]]) -> float:
        assert len(columns["x"][0]) == len(group)
        sizes.append(np.bincount(group).tolist())
        return float(columns["x"][0].mean())

    validate.check(model, statistic, measure, observed, rng, draws=3)
    assert sizes == [[150, 150]] * 3
    validate.check(model, statistic, measure, observed, rng, draws=3, n=17)
    assert [sum(each) for each in sizes[3:]] == [17] * 3
