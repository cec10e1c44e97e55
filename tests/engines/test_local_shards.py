"""Shards in this process: a face that learns from them is the face that learned all rows at once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tamis
from tamis.engines import Batch, Batches
from tamis.testing.components import COMPONENTS
from tamis.testing.faces import FACES
from tamis.testing.learning import LearningCase, an_engine_leaves_no_trace
from tamis.testing.regressions import REGRESSIONS

CASES: tuple[LearningCase, ...] = (*FACES, *COMPONENTS, *REGRESSIONS)
X = np.random.default_rng(0).normal(size=(90, 3))
Y = np.repeat(["a", "b", "c"], 30)


def deal(parts: int = 4) -> list[tuple[Any, Any]]:
    return [(X[k::parts], Y[k::parts]) for k in range(parts)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{type(case).__name__} {case.name}")
def test_shards_are_all_rows_at_once(case: LearningCase) -> None:
    for seed in range(2):
        an_engine_leaves_no_trace(case, np.random.default_rng(seed))


def test_shards_are_added_to_what_was_learned() -> None:
    model = tamis.GaussianNB().fit(*deal()[0])
    model.partial_fit(Batches(deal()[1:]))
    assert model.statistic_ == tamis.GaussianNB().fit(X, Y).statistic_


def test_fit_forgets_what_was_learned_before() -> None:
    model = tamis.GaussianNB().fit(X * 7.0, Y)
    assert model.fit(Batches(deal())).statistic_ == tamis.GaussianNB().fit(X, Y).statistic_


def test_an_iterator_serves_models_of_one_pass() -> None:
    model = tamis.GaussianNB().fit(iter(deal()))
    assert model.statistic_ == tamis.GaussianNB().fit(X, Y).statistic_


def test_a_function_is_called_for_each_pass() -> None:
    def read() -> Iterator[tuple[Any, Any]]:
        yield from deal()

    assert tamis.fit(tamis.GaussianNB(), Batches(read)).statistic_ == tamis.GaussianNB().fit(X, Y).statistic_


def test_a_bad_shard_is_named_and_nothing_is_learned() -> None:
    model = tamis.GaussianNB().fit(X, Y)
    before = model.statistic_
    bad = [*deal(), (X[:4, :2], Y[:4])]
    with pytest.raises(
        ValueError, match=r"^batch 4: X has 2 features, but GaussianNB is expecting 3 features"
    ):
        model.partial_fit(Batches(bad))
    assert model.statistic_ == before


def test_other_columns_in_a_shard_are_refused() -> None:
    first, second = pd.DataFrame(X, columns=list("abc")), pd.DataFrame(X, columns=list("abd"))
    with pytest.raises(ValueError, match="batch 1: X has no column 'c', which GaussianNB was fitted with"):
        tamis.GaussianNB().fit(Batches([(first, Y), (second, Y)]))
    with pytest.raises(ValueError, match="batch 1: got column 'd' where the first shard has 'c'"):
        tamis.PCA(2).fit(Batches([(first,), (second,)]))


def test_shards_without_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="got no rows, expected at least one: all shards are empty"):
        tamis.GaussianNB().fit(Batches([Batch(X[:0], Y[:0])]))


def test_a_shard_of_no_weight_adds_nothing() -> None:
    shards = [Batch(X, Y, np.ones(90)), Batch(X + 1.0, np.full(90, "z"), np.zeros(90))]
    assert tamis.GaussianNB().fit(Batches(shards)).statistic_ == tamis.GaussianNB().fit(X, Y).statistic_
