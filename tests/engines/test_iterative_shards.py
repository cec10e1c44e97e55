"""Models that read their rows several times: over shards they take the same steps to the same posterior."""

import numpy as np
import pytest

import tamis
from tamis.engines import Batches
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


def test_an_iterator_is_refused_where_rows_are_read_again() -> None:
    data = ITERATIVE[0].deal()
    with pytest.raises(ValueError, match="got an iterator of batches, which can be read once, for a model"):
        tamis.LogisticRegression().fit(iter(data))


def test_no_label_at_all_is_refused() -> None:
    rows = np.ones((4, 2))
    with pytest.raises(ValueError, match=r"no row has a label, expected at least one: see tamis\.Mixture"):
        tamis.GaussianNB().fit(Batches([(rows, [None] * 4)]))


@pytest.mark.parametrize("face", [tamis.MatrixFactorization(), tamis.GeneralizedLinear("poisson")])
def test_models_that_need_all_rows_at_once_say_so(face: object) -> None:
    with pytest.raises(TypeError, match="does not learn from shards, expected rows in memory: read them"):
        face.fit(Batches([(np.ones((4, 2)), np.ones(4))]))  # type: ignore[attr-defined]
