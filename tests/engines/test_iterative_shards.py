"""Models that read their rows several times: over shards they take the same steps to the same posterior."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tamis
from tamis.engines import Batch, Batches
from tamis.engines.batches import Loaded
from tamis.engines.local import LocalShards
from tamis.estimators.generative_shards import RowReader, gather_rows, survey_rows
from tamis.stats import Keys
from tests.engines.iterative_cases import ITERATIVE, IterativeCase


@pytest.mark.parametrize("case", ITERATIVE, ids=lambda case: case.name)
def test_steps_over_shards_are_steps_over_all_rows(case: IterativeCase) -> None:
    case.assert_alike(case.fit(), case.make().fit(Batches(case.deal())))


def test_categories_of_all_shards_have_components() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 400)
    rows = np.empty((400, 2), dtype=object)
    rows[:, 0] = np.where(rng.random(400) < 0.9, group, 1 - group).astype(str)
    rows[:, 1] = ["pq"[g] if rng.random() < 0.9 else None for g in group]
    rows[-1, 1] = "only in the last shard"
    model = tamis.Mixture(2, random_state=0, tol=1e-8, max_iter=1000)
    sharded = tamis.Mixture(2, random_state=0, tol=1e-8, max_iter=1000)
    model.fit(rows)
    sharded.fit(Batches([(rows[k::3],) for k in range(3)]))
    np.testing.assert_allclose(
        np.sort(model.score_samples(rows)), np.sort(sharded.score_samples(rows)), rtol=1e-4
    )


def test_more_rows_in_shards_are_more_rows() -> None:
    case = ITERATIVE[0]
    data = case.draw()
    more = [(data.X[:40], data.y[:40]), (data.X[40:90], data.y[40:90])]
    one, other = case.fit(), case.fit()
    one.partial_fit(data.X[:90], data.y[:90])
    np.testing.assert_allclose(other.partial_fit(Batches(more)).coef_, one.coef_, rtol=1e-9)
    mixture, like = (tamis.Mixture(3, random_state=0).fit(data.X) for _ in range(2))
    mixture.partial_fit(data.X[:90])
    like.partial_fit(Batches([(data.X[:40],), (data.X[40:90],)]))
    np.testing.assert_allclose(like.means_, mixture.means_, rtol=1e-12)


def test_separable_classes_in_shards_are_detected() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3))
    y = rows[:, 0] > 0
    with pytest.warns(tamis.SeparationWarning, match="the classes are separable"):
        tamis.LogisticRegression(C=np.inf).fit(Batches([(rows[k::3], y[k::3]) for k in range(3)]))


class _CountedShards(LocalShards[Any]):
    """Shards that count the passes over them."""

    passes = 0

    def total(self, observe: Any, /) -> Any:
        type(self).passes += 1
        return super().total(observe)

    def map(self, change: Any, /) -> "_CountedShards":
        return _CountedShards(super().map(change).pieces)


def _deal_classes(rows: Any, y: Any, order: Any) -> Any:
    """Rows in this order, in six shards."""
    _CountedShards.passes = 0
    runs = enumerate(np.array_split(order, 6))
    return _CountedShards([Loaded(f"batch {k}", Batch(rows[run], y[run], number=k)) for k, run in runs])


@pytest.mark.parametrize("classes", [2, 3])
def test_many_rows_in_shards_take_few_passes_to_the_mode(classes: int) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40_000, 4)) * [0.1, 1.0, 10.0, 1.0] + [0.0, 5.0, 0.0, 1e6]
    scores = (rows - [0.0, 5.0, 0.0, 1e6]) @ rng.normal(size=(4, classes)) + rng.normal(size=classes)
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    expected = tamis.LogisticRegression().fit(rows, y)
    # Sorted by their classes: most shards have one class only.
    for order in (np.arange(40_000), np.argsort(y, kind="stable")):
        sharded = tamis.LogisticRegression().learn_shards(_deal_classes(rows, y, order), True)
        np.testing.assert_allclose(sharded.coef_, expected.coef_, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(sharded.intercept_, expected.intercept_, rtol=1e-6)
        np.testing.assert_allclose(sharded.coef_std_, expected.coef_std_, rtol=1e-5)
        assert sharded.log_evidence_ == pytest.approx(expected.log_evidence_, rel=1e-9)
        assert sharded.converged_
        assert _CountedShards.passes <= 7  # a survey, the sample, and four or five points


def test_classes_that_the_first_rows_do_not_show_are_fitted_in_shards() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(40_000, 3))
    rare = np.zeros(40_000, dtype=int)
    rare[rng.permutation(40_000)[:5]] = 1  # the sample of the rows may have none of these
    separable = (rows[:, 0] > 0.5).astype(int)
    for y in (rare, separable):
        expected = tamis.LogisticRegression().fit(rows, y)
        sharded = tamis.LogisticRegression().learn_shards(_deal_classes(rows, y, np.arange(40_000)), True)
        np.testing.assert_allclose(sharded.coef_, expected.coef_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(sharded.intercept_, expected.intercept_, rtol=1e-6)
        assert sharded.converged_
    shards = _deal_classes(rows, separable, np.arange(40_000))
    with pytest.warns(tamis.SeparationWarning, match="the classes are separable"):
        tamis.LogisticRegression(C=np.inf).learn_shards(shards, True)


def test_an_iterator_is_refused_where_rows_are_read_again() -> None:
    data = ITERATIVE[0].deal()
    with pytest.raises(ValueError, match="got an iterator of batches, which can be read once, for a model"):
        tamis.LogisticRegression().fit(iter(data))


def test_no_label_at_all_is_refused() -> None:
    rows = np.ones((4, 2))
    with pytest.raises(
        ValueError, match=r"no row has a label, expected at least one: without labels, use tamis\.Mixture"
    ):
        tamis.GaussianNB().fit(Batches([(rows, [None] * 4)]))


def _find_case(name: str) -> IterativeCase:
    return next(case for case in ITERATIVE if case.name == name)


@pytest.mark.parametrize("name", ["poisson", "gaussian, log", "recommender"])
def test_more_targets_in_shards_are_more_targets(name: str) -> None:
    case = _find_case(name)
    data, parts = case.draw(), case.deal()
    arguments = (data.X[120:], data.y[120:], data.sample_weight[120:])
    others = {name: values[120:] for name, values in data.others.items()}
    one, other = (case.make().fit(Batches(parts[:2])) for _ in range(2))
    one.partial_fit(*arguments, **others)
    other.partial_fit(Batches(parts[2:]))
    if name == "recommender":
        assert np.array_equal(one.user_factors_, other.user_factors_)
    else:
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)
        assert one.deviance_ == pytest.approx(other.deviance_, rel=1e-9)


def test_coefficients_that_grow_without_end_are_found_in_shards() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=120), np.arange(120) % 4 == 0])
    counts = np.where(rows[:, 1] > 0, 0, rng.poisson(3.0, 120))
    parts = [(rows[k::3], counts[k::3]) for k in range(3)]
    with pytest.warns(tamis.SeparationWarning):
        whole = tamis.GeneralizedLinear("poisson").fit(rows, counts)
    with pytest.warns(tamis.SeparationWarning):
        sharded = tamis.GeneralizedLinear("poisson").fit(Batches(parts))
    assert whole.converged_ is sharded.converged_ is False


def test_a_target_that_cannot_occur_names_its_shard_and_changes_nothing() -> None:
    case = _find_case("poisson")
    parts = case.deal()
    model = case.make().fit(Batches(parts))
    before = model.coef_.copy()
    parts[2].y[3] = -1.0
    with pytest.raises(ValueError, match=r"batch 2: target \d is -1, expected counts, 0 or more"):
        model.fit(Batches(parts))
    assert np.array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="all targets are 0, so that the likelihood rises for ever"):
        case.make().fit(Batches([(np.eye(2), np.zeros(2)), (np.eye(2) + 1.0, np.zeros(2))]))


def test_pairs_that_repeat_in_another_shard_are_refused_and_matrices_too() -> None:
    with pytest.raises(ValueError, match="user 1 has item 2 twice or more, expected each pair once"):
        tamis.MatrixFactorization().fit(Batches([[(1, 2, 3.0), (1, 3, 3.0)], [(1, 2, 4.0)]]))
    with pytest.raises(TypeError, match="got a sparse matrix in a shard, where row numbers name no users"):
        tamis.MatrixFactorization().fit(Batches([sparse.eye_array(3, format="csr")]))
    with pytest.raises(
        ValueError, match="got shards with times and shards without, expected times in all or in none"
    ):
        tamis.MatrixFactorization().fit(Batches([[(1, 2, 3.0, 1.0)], [(1, 3, 4.0)]]))


def test_a_shard_of_implicit_feedback_may_have_no_action() -> None:
    rows = np.array([(user, item, (user + item) % 3) for user in range(8) for item in range(6)])
    parts = [rows[rows[:, 2] == 0], rows[rows[:, 2] > 0]]
    whole, sharded = (tamis.MatrixFactorization(2, feedback="implicit", random_state=0) for _ in range(2))
    whole.fit(np.concatenate(parts))
    assert np.array_equal(whole.item_factors_, sharded.fit(Batches(parts)).item_factors_)


def test_components_do_not_depend_on_which_shard_has_fractions_or_words() -> None:
    counts = np.random.default_rng(0).poisson(np.repeat([[2, 9], [30, 4]], 20, axis=0))
    whole = [[int(a), int(b)] for a, b in counts]
    with_fractions = [[a + 0.5, b] for a, b in whole]
    with_words = [["low" if a < 15 else "high", b] for a, b in whole]
    for other, kinds in ((with_fractions, ("number", "integer")), (with_words, ("category", "integer"))):
        shards = [np.array(whole, dtype=object), np.array(other, dtype=object)]
        model, forth, back = (
            tamis.Mixture(2, integers="poisson", random_state=0, tol=1e-9, max_iter=500) for _ in range(3)
        )
        model.fit(np.concatenate(shards))
        forth.fit(Batches([(rows,) for rows in shards]))
        back.fit(Batches([(rows,) for rows in shards[::-1]]))
        assert model.state_.schema.kinds == forth.state_.schema.kinds == back.state_.schema.kinds == kinds
        expected = np.sort(model.score_samples(shards[1]))
        for fitted in (forth, back):
            np.testing.assert_allclose(np.sort(fitted.score_samples(shards[1])), expected, rtol=1e-4)


def test_a_sample_of_shards_with_and_without_weights_of_zero_has_all_keys() -> None:
    keys = Keys((0, 1, 2))
    shards: Any = LocalShards(
        [
            Loaded("first", Batch([[1.0], [2.0], [3.0]], sample_weight=[1.0, 0.0, 2.0])),
            Loaded("second", Batch([[4.0], [5.0]], number=1)),
        ]
    )
    reader = RowReader("Mixture", sparse=False, takes_missing=True, labels=keys)
    rows = gather_rows(shards.map(reader), survey_rows(shards, reader), np.arange(4))
    assert rows.labels.keys == keys
    assert rows.labels.group.tolist() == [-1, -1, -1, -1]
    assert reader(Batch([[1.0]], sample_weight=[0.0])) is None
