"""Factorisations against NumPy's inverse and determinant, with batch axes and without."""

import numpy as np
import pytest

from tamis.linalg import Cholesky


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("rows", [(), (7,)])
def test_a_factor_answers_what_the_matrix_would(batch: tuple[int, ...], rows: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(*batch, 4, 4))
    matrix = root @ np.swapaxes(root, -1, -2) + np.eye(4)
    x = rng.normal(size=(*rows, *batch, 4))
    factor = Cholesky.of(matrix)
    inverse = np.linalg.inv(matrix)
    np.testing.assert_allclose(factor.log_determinant(), np.linalg.slogdet(matrix)[1], rtol=1e-12)
    np.testing.assert_allclose(factor.inverse(), inverse, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(factor.quadratic(x), np.einsum("...i,...ij,...j", x, inverse, x), rtol=1e-9)
    np.testing.assert_allclose(factor.colour(factor.whiten(x)), x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(matrix @ factor.solve(x[..., None]), x[..., None], rtol=1e-9, atol=1e-12)


def test_an_indefinite_matrix_is_named_and_its_eigenvalue_shown() -> None:
    with pytest.raises(ValueError, match=r"the covariance has eigenvalue -1, expected all above zero"):
        Cholesky.of(np.diag([1.0, -1.0]), "covariance")


def test_a_matrix_that_is_not_square_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\), expected square"):
        Cholesky.of(np.ones((2, 3)))
