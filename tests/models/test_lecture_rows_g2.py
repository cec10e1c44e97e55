"""Row G2: a matrix of 1000 × 1000 and rank 5 is recovered from 50,000 of its entries."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis import MatrixFactorization
from tamis.arrays import Array

SIZE, RANK, SEEN = 1000, 5, 50_000
PARAMETERS = 2 * SIZE * RANK  # less 25, which a change of basis takes


@pytest.fixture(scope="module")
def factors() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(SIZE, RANK)), rng.normal(size=(SIZE, RANK))


@pytest.fixture(scope="module")
def truth(factors: tuple[Array, Array]) -> Array:
    return factors[0] @ factors[1].T


@pytest.fixture(scope="module")
def order() -> NDArray[np.int64]:
    return np.random.default_rng(1).permutation(SIZE * SIZE)


def completed(pairs: Array, y: Array, ridge: float, sweeps: int) -> tuple[Array, float]:
    """The whole matrix, and the root mean square of what is wrong with the entries seen."""
    model = MatrixFactorization(
        RANK, ridge=ridge, offset_ridge=np.inf, max_iter=sweeps, tol=0.0, clip=False, random_state=0
    )
    model.fit(pairs, y)
    return model.user_factors_ @ model.item_factors_.T, float(model.train_rmse_[-1])


def test_without_noise_it_is_recovered(truth: Array, order: NDArray[np.int64]) -> None:
    seen = order[:SEEN]
    found, _ = completed(np.stack(np.divmod(seen, SIZE), axis=1), truth.flat[seen], 1e-9, 10)
    error = float(np.linalg.norm(found - truth) / np.linalg.norm(truth))
    print(f"relative error {error:.1e}")  # noqa: T201
    assert error < 1e-3


def test_with_noise_it_is_nearer_than_what_was_seen(truth: Array, order: NDArray[np.int64]) -> None:
    """p parameters fitted to n entries cost σ²p/n in each cell, where entries are many for each row.

    σ√(p/n) = 0.447 σ of the truth, and σ√(1 + p/n) = 1.095 σ of noisy entries. Rows of 50 have 0.51 and 1.12.
    The noise itself is told to 5 %: by what is wrong with the entries seen, over those that p leaves free.
    """
    sigma = 1.0
    rng = np.random.default_rng(2)
    seen, held = order[:SEEN], order[SEEN : SEEN + 20_000]
    noisy = truth.flat[seen] + sigma * rng.normal(size=SEEN)
    found, rmse = completed(np.stack(np.divmod(seen, SIZE), axis=1), noisy, 0.02, 10)
    of_truth = float(np.sqrt(np.mean(np.square(found - truth))))
    wrong = found.flat[held] - truth.flat[held] - sigma * rng.normal(size=len(held))
    of_held = float(np.sqrt(np.mean(np.square(wrong))))
    noise = rmse / np.sqrt(1.0 - PARAMETERS / SEEN)
    print(f"of the truth {of_truth:.3f} σ, of held-out entries {of_held:.3f} σ, noise {noise:.3f} σ")  # noqa: T201
    assert noise == pytest.approx(sigma, rel=0.05)
    assert of_truth < 0.55 * sigma
    assert of_held < 1.05 * sigma * np.sqrt(1.0 + PARAMETERS / SEEN)


def bound_held_out_error(factors: tuple[Array, Array], seen: NDArray[np.int64]) -> float:
    """The error of held-out entries, in units of the noise, if each side were fitted to the true other side.

    The variance of an entry u·v is then 1 + vᵀ(Σvvᵀ)⁻¹v + uᵀ(Σuuᵀ)⁻¹u, with sums over the entries that were
    seen in its row and in its column. No unbiased estimate has a smaller one.
    """
    users, items = np.divmod(seen, SIZE)
    variance = 1.0
    for mine, others, other in ((users, items, factors[1]), (items, users, factors[0])):
        grams = np.zeros((SIZE, RANK, RANK))
        np.add.at(grams, mine, other[others, :, None] * other[others, None, :])
        variance += float((np.linalg.inv(grams).mean(axis=0) * (other.T @ other / SIZE)).sum())
    return float(np.sqrt(variance))


def test_with_noise_the_error_of_held_out_entries_is_near_its_bound(
    factors: tuple[Array, Array], truth: Array, order: NDArray[np.int64]
) -> None:
    """The bound is 1.109 σ; counting parameters, σ√(1 + p/n), gives 1.095 σ."""
    rng = np.random.default_rng(2)
    noisy = truth + rng.normal(size=truth.shape)
    seen, held = order[:SEEN], order[SEEN:]
    estimate, _ = completed(np.stack(np.divmod(seen, SIZE), axis=1), noisy.flat[seen], 0.02, 10)
    error = float(np.sqrt(np.mean(np.square(estimate.flat[held] - noisy.flat[held]))))
    bound = bound_held_out_error(factors, seen)
    print(f"held-out entries {error:.3f} σ, bound {bound:.3f} σ")  # noqa: T201
    assert bound == pytest.approx(1.109, abs=0.001)
    assert bound < error < 1.02 * bound


def test_draws_tell_the_noise(truth: Array, order: NDArray[np.int64]) -> None:
    seen = order[:SEEN]
    noisy = truth.flat[seen] + np.random.default_rng(2).normal(size=SEEN)
    model = MatrixFactorization(RANK, method="gibbs", n_draws=40, burn_in=20, clip=False, random_state=0)
    model.fit(np.stack(np.divmod(seen, SIZE), axis=1), noisy)
    print(f"noise {model.noise_std_:.3f} σ")  # noqa: T201
    assert model.noise_std_ == pytest.approx(1.0, rel=0.05)
