"""The counts of a store are a statistic of `tamis`: what the store does, the algebra does."""

from pathlib import Path

import numpy as np

from tamis.stats import Tally
from tamis_mail.store import Store, maintenance
from tests.mail.store.memory import careless, features, forget, learn


def test_the_statistic_is_the_tally_of_the_learned_features(tmp_path: Path) -> None:
    with careless(Store(tmp_path / "store")) as store:
        learn(store, range(20), "spam")
        learn(store, range(20, 50), "ham")
        statistic = store.statistic()
    pairs = [
        (key, "spam" if number < 20 else "ham") for number in range(50) for key in features(number).tolist()
    ]
    counted = Tally.count([key for key, _ in pairs], by=[label for _, label in pairs])
    assert (statistic.keys, statistic.terms, statistic.total) == (counted.keys, counted.terms, counted.total)
    assert statistic.weight.value.tolist() == [30, 20]  # messages of ham and of spam


def test_learning_adds_forgetting_subtracts_and_merging_is_plus(tmp_path: Path) -> None:
    with careless(Store(tmp_path / "one")) as one, careless(Store(tmp_path / "other")) as other:
        learn(one, range(10), "spam")
        learn(one, range(10, 25), "ham")
        first = one.statistic()
        learn(other, range(30, 40), "ham")
        learn(other, range(40, 43), "work")
        second = other.statistic()
        maintenance.merge(one, other)
        assert one.statistic() == first + second
        forget(one, range(30, 43))
        assert one.statistic() == first


def test_decay_doubles_the_unit_and_an_empty_store_is_nothing(tmp_path: Path) -> None:
    with careless(Store(tmp_path / "store")) as store:
        assert len(store.statistic().keys or ()) == 0
        learn(store, range(5), "spam")
        before = store.statistic()
        maintenance.decay(store)
        learn(store, range(5, 8), "spam")
        after = store.statistic()
    assert (after - before).at("spam").weight.value == 3 * 2
    assert np.all((after - before).at("spam").total.value % 2 == 0)
