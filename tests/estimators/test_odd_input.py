"""Rows, labels and weights as people really bring them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from tamis.estimators import (
    BernoulliNB,
    CategoricalNB,
    FisherDiscriminant,
    GaussianDiscriminant,
    GaussianNB,
    Mixture,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
)

RNG = np.random.default_rng(0)
ROWS, LABELS = RNG.normal(size=(60, 3)), np.arange(60) % 3
COUNTS = RNG.poisson(2.0, size=(60, 4)).astype(float)


def test_rows_of_one_group_are_left_out_together() -> None:
    groups = np.repeat(np.arange(12), 5)
    held = GaussianNB().cross_validate(ROWS, LABELS, folds=4, groups=groups)
    assert all(len(set(held.fold[groups == group])) == 1 for group in range(12))


def test_rows_of_no_weight_are_left_out_of_cross_validation() -> None:
    weights = np.where(np.arange(60) < 6, 0.0, 1.0)
    labels = np.where(np.arange(60) < 6, 7, LABELS)
    some = GaussianNB().cross_validate(ROWS, labels, folds=np.arange(60) % 4, sample_weight=weights)
    kept = GaussianNB().cross_validate(ROWS[6:], labels[6:], folds=np.arange(6, 60) % 4)
    assert_array_equal(some.log_joint, kept.log_joint)


def test_decisions_go_by_calibrated_probabilities() -> None:
    wide = np.repeat(ROWS + LABELS[:, None], 5, axis=1)
    model = GaussianNB().fit(wide, LABELS).calibrate(wide, LABELS)
    unsure = 1.0 - model.predict_proba(wide).max(axis=1) > 0.4
    assert_array_equal([label is None for label in model.decide(wide, reject=0.4)], unsure)


def test_models_that_summed_rows_differently_are_not_merged() -> None:
    with pytest.raises(ValueError, match="sum rows in different ways"):
        BernoulliNB(binarize=0.0).fit(COUNTS, LABELS).merge(BernoulliNB(binarize=1.0).fit(COUNTS, LABELS))
    one, other = ({0: "poisson", 1: "gaussian"}, {0: "gaussian", 1: "poisson"})
    with pytest.raises(ValueError, match="sum rows in different ways"):
        NaiveBayes(one).fit(COUNTS[:, :2], LABELS).merge(NaiveBayes(other).fit(COUNTS[:, :2], LABELS))


def test_a_discriminant_changes_its_covariance_only_where_its_sums_allow() -> None:
    model = GaussianDiscriminant("tied").fit(ROWS, LABELS)
    full = GaussianDiscriminant("full").fit(ROWS, LABELS)
    assert_array_equal(model.infer(covariance="full").predict_proba(ROWS), full.predict_proba(ROWS))
    with pytest.raises(ValueError, match="needs a different statistic"):
        model.infer(covariance="diag")
    assert model.covariance == "full"


def test_numbers_that_a_frame_calls_categories_are_categories() -> None:
    frame = pd.DataFrame(
        {"size": pd.Categorical([1, 2, 1, 2]), "on": pd.Categorical([True, False, True, True])}
    )
    assert NaiveBayes().fit(frame, [0, 1, 0, 1]).families_ == {"size": "categorical", "on": "categorical"}


def test_a_number_names_a_column_before_it_names_a_place() -> None:
    frame = pd.DataFrame(COUNTS[:, :2], columns=[1, 0])
    assert NaiveBayes({0: "poisson"}).fit(frame, LABELS).families_ == {1: "gaussian", 0: "poisson"}


def test_gaps_in_sparse_rows_are_refused_where_they_would_be_zeros() -> None:
    rows = sp.csr_array(COUNTS)
    rows.data[0] = np.nan
    for model in (PoissonNB(), BernoulliNB()):
        with pytest.raises(ValueError, match="holds NaN"):
            model.fit(rows, LABELS)


def test_entries_that_are_named_twice_are_added() -> None:
    twice = sp.csr_array((np.ones(4), np.array([0, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2))
    labels = [0, 1]
    for model in (
        MultinomialNB(),
        NaiveBayes("multinomial", estimate="predictive"),
        BernoulliNB(),
        PoissonNB(),
        PoissonNB(estimate="predictive"),
    ):
        dense = model.fit(twice.toarray(), labels).predict_joint_log_proba(twice.toarray())
        assert_allclose(model.fit(twice, labels).predict_joint_log_proba(twice), dense, rtol=1e-12)


def test_sparse_rows_that_point_outside_themselves_are_refused() -> None:
    rows = sp.csr_array(COUNTS)
    rows.indices[3] = 4
    with pytest.raises(ValueError, match="outside its shape"):
        MultinomialNB().fit(rows, LABELS)


def test_fractions_may_be_categories() -> None:
    model = CategoricalNB().fit([[0.2], [0.5], [0.7], [0.5]], [0, 1, 0, 1])
    assert model.n_categories_.tolist() == [3]
    assert_allclose(np.exp(model.posterior_.densities["categorical"].tables[0]).sum(axis=1), 1.0)


def test_infinities_that_cancel_are_seen() -> None:
    model = GaussianNB().fit(ROWS, LABELS)
    with pytest.raises(ValueError, match="holds inf"):
        model.predict_proba([[np.inf, -np.inf, 0.0]])


def test_counts_with_fractions_are_as_good_as_any() -> None:
    model = PoissonNB(estimate="predictive").fit(COUNTS + 0.5, LABELS)
    assert len(np.unique(model.predict_proba(COUNTS + 0.5)[:, 0])) > 10


def test_a_declared_class_may_have_a_prior_before_it_has_rows() -> None:
    model = FisherDiscriminant(priors=[0.3, 0.3, 0.4])
    model.partial_fit(ROWS[LABELS < 2], LABELS[LABELS < 2], classes=[0, 1, 2])
    assert model.transform(ROWS).shape == (60, 1)


def test_a_column_of_which_nothing_was_seen_can_be_drawn() -> None:
    rows = np.array([[1.0, None], [2.0, None], [3.0, None]], dtype=object)
    model = NaiveBayes({1: "categorical"}).fit(rows, [0, 1, 1])
    assert model.sample(3, random_state=0)[0][:, 1].tolist() == [None, None, None]


def test_a_hard_mixture_learns_each_row_wholly() -> None:
    rows = np.concatenate([ROWS, ROWS + 3.0])
    model = Mixture(2, hard=True, covariance="spherical", random_state=0).fit(rows)
    assert_array_equal(model.partial_fit(rows[:1]).class_count_ % 1.0, 0.0)


def test_tuning_what_makes_no_difference_is_refused() -> None:
    with pytest.raises(ValueError, match="have the same score"):
        GaussianNB().fit(ROWS, LABELS).tune(var_smoothing=[1e-9, 1e-3])


def test_many_classes_make_no_long_message() -> None:
    model = GaussianNB().fit(np.arange(2000.0)[:, None], np.arange(2000))
    with pytest.raises(ValueError, match="was never learned") as caught:
        model.unlearn([[0.0]], [-5])
    assert len(str(caught.value)) < 300


def test_one_number_weighs_every_row() -> None:
    plain = GaussianNB().fit(ROWS, LABELS)
    for weight in (2, 2.0, np.float32(2.0)):
        assert_array_equal(GaussianNB().fit(ROWS, LABELS, sample_weight=weight).theta_, plain.theta_)


def test_answers_do_not_need_all_rows_times_all_classes_at_once() -> None:
    classes, rows = 3000, RNG.normal(size=(4000, 1))
    model = GaussianNB().fit(np.arange(2.0 * classes)[:, None], np.repeat(np.arange(classes), 2))
    assert_array_equal(
        model.predict(rows), model.classes_[model.predict_joint_log_proba(rows).argmax(axis=1)]
    )


@pytest.mark.parametrize("ends", [(np.inf, -np.inf), (1e308, 1.5e308)], ids=["infinite", "huge"])
@pytest.mark.parametrize("face", [GaussianNB, GaussianDiscriminant, FisherDiscriminant, NaiveBayes])
def test_numbers_that_cannot_be_squared_are_refused_without_a_warning(
    face: type, ends: tuple[float, float]
) -> None:
    rows = ROWS.copy()
    rows[0, 1], rows[7, 1] = ends
    with pytest.raises(ValueError, match="column 1 holds"):
        face().fit(rows, LABELS)
