"""Sparse rows belong to the caller: whatever their form, learning writes nothing to them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from tamis import BernoulliNB, GeneralizedLinear, LogisticRegression, MultinomialNB

MODELS: dict[str, Callable[[], Any]] = {
    "logistic": LogisticRegression,
    "generalized": lambda: GeneralizedLinear("bernoulli", alpha=1.0),
    "bernoulli": BernoulliNB,
    "multinomial": MultinomialNB,
}


def given_rows(dtype: str, form: str, n: int = 60) -> Any:
    rng = np.random.default_rng(0)
    dense = ((rng.random((n, 8)) < 0.4) * rng.integers(1, 4, (n, 8))).astype(dtype)
    found = sparse.csr_array(dense)
    indices, values = found.indices.copy(), found.data.copy()
    for start, stop in zip(found.indptr[:-1], found.indptr[1:], strict=True):
        indices[start:stop], values[start:stop] = indices[start:stop][::-1], values[start:stop][::-1]
        if form == "twice" and stop - start > 1:
            indices[stop - 1] = indices[start]
    return sparse.csr_array((values, indices, found.indptr.copy()), shape=found.shape)


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("dtype", ["i1", "?", "f4", "f8"])
@pytest.mark.parametrize("form", ["unsorted", "twice"])
@pytest.mark.parametrize("locked", [False, True], ids=["writable", "read-only"])
def test_sparse_rows_are_never_written_to(model: str, dtype: str, form: str, locked: bool) -> None:
    rows, labels = given_rows(dtype, form), np.random.default_rng(1).integers(0, 2, 60)
    dense = rows.toarray()
    parts = (rows.data, rows.indices, rows.indptr)
    for part in parts:
        part.flags.writeable = not locked
    before = [part.tobytes() for part in parts]
    found = MODELS[model]().fit(rows, labels)
    answers = found.predict(rows)
    held_out = found.cross_validate(rows, labels, random_state=0)
    found.partial_fit(rows, labels).predict(rows)
    assert [part.tobytes() for part in parts] == before
    other = MODELS[model]().fit(dense, labels)
    assert_allclose(answers, other.predict(dense), rtol=1e-6)
    other_held_out = other.cross_validate(dense, labels, random_state=0)
    if hasattr(held_out, "log_joint"):
        assert_allclose(held_out.log_joint, other_held_out.log_joint, rtol=1e-5)
    else:
        assert_allclose(held_out.predictions, other_held_out.predictions, rtol=1e-5)


def test_an_old_flag_of_the_matrix_is_not_believed() -> None:
    rows, labels = given_rows("f8", "unsorted"), np.random.default_rng(1).integers(0, 2, 60)
    rows.has_canonical_format = True  # as it was before the caller wrote to its indices
    before = rows.indices.copy()
    model = LogisticRegression().fit(rows, labels)
    assert np.array_equal(rows.indices, before)
    assert_allclose(model.coef_, LogisticRegression().fit(rows.toarray(), labels).coef_, rtol=1e-6, atol=1e-8)
