"""The recommender's ridge, where it is left to the ratings."""

from typing import Any

import numpy as np
import pytest

import tamis


def drawn(seed: int, noise: float, scale: float = 1.0, n: int = 3000) -> tuple[Any, Any]:
    """Ratings of rank 3 with noise, of 80 users and 60 items."""
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(80, 3)), rng.normal(size=(60, 3))
    cells = rng.choice(80 * 60, n, replace=False)
    user, item = cells // 60, cells % 60
    values = np.einsum("nk,nk->n", users[user], items[item]) + noise * rng.normal(size=n)
    return np.column_stack([user, item]), scale * values


@pytest.mark.filterwarnings("ignore:ALS did not converge")  # 30 sweeps are enough to compare ridges
def test_noisy_ratings_want_a_larger_ridge() -> None:
    firm = tamis.MatrixFactorization(3, random_state=0).fit(*drawn(0, 3.0)).ridge_
    free = tamis.MatrixFactorization(3, random_state=0).fit(*drawn(0, 0.1)).ridge_
    assert firm > free


@pytest.mark.parametrize("n", [100, 3000])
def test_the_ridge_goes_with_the_scale_of_the_ratings(n: int) -> None:
    pairs, y = drawn(1, 0.5, n=n)
    small = tamis.MatrixFactorization(3, random_state=0).fit(pairs, y)
    large = tamis.MatrixFactorization(3, random_state=0).fit(pairs, 32.0 * y)
    assert large.ridge_ == pytest.approx(32.0 * small.ridge_)
    np.testing.assert_allclose(large.predict(pairs), 32.0 * small.predict(pairs), rtol=1e-6, atol=1e-6)


def test_what_is_given_is_taken_and_few_ratings_choose_nothing() -> None:
    pairs, y = drawn(2, 0.5)
    assert tamis.MatrixFactorization(3, ridge=0.3).fit(pairs, y).ridge_ == 0.3
    assert tamis.MatrixFactorization(3).fit(pairs[:50], y[:50]).ridge_ == pytest.approx(0.15 * y[:50].std())


def test_a_word_that_is_no_ridge_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got ridge='auto', expected a number above 0, or 'validated'"):
        tamis.MatrixFactorization(ridge="auto").fit(*drawn(3, 0.5))  # type: ignore[arg-type]


def test_the_sweeps_before_draws_use_the_ridge_in_the_unit_of_the_ratings() -> None:
    pairs, y = drawn(4, 0.5, n=300)
    kind: dict[str, Any] = {"method": "gibbs", "n_draws": 2, "burn_in": 0, "random_state": 0}
    small = tamis.MatrixFactorization(3, ridge=0.5, **kind).fit(pairs, y)
    large = tamis.MatrixFactorization(3, ridge=16.0, **kind).fit(pairs, 32.0 * y)
    np.testing.assert_allclose(large.predict(pairs), 32.0 * small.predict(pairs), rtol=1e-5, atol=1e-5)


def test_draws_report_the_ridge_of_the_sweeps_before_them() -> None:
    pairs, y = drawn(5, 0.5, n=300)
    model = tamis.MatrixFactorization(3, method="gibbs", n_draws=2, burn_in=0, random_state=0).fit(pairs, y)
    assert model.ridge_ == pytest.approx(0.15 * y.std())
