"""How many principal components: by evidence, by rows held out, or as asked."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln
from sklearn import decomposition

from tamis.arrays import Array
from tamis.models.components import PrincipalComponents, decompose_rows, score_by_evidence, score_held_out
from tamis.stats import Moments
from tamis.tables import Table
from tests.models.component_rows import drawn, fitted, low_rank


def evidence(variances: Array, k: int, n: int) -> float:
    """Minka's equation 30, term by term."""
    d = len(variances)
    rest = variances[k:].mean()
    smooth = np.concatenate([variances[:k], np.full(d - k, rest)])
    m = d * k - k * (k + 1) / 2
    found = -k * np.log(2.0) + sum(
        gammaln((d - i + 1) / 2) - (d - i + 1) / 2 * np.log(np.pi) for i in range(1, k + 1)
    )
    found += -n / 2 * np.log(variances[:k]).sum() - n * (d - k) / 2 * np.log(rest)
    found += (m + k) / 2 * np.log(2 * np.pi) - k / 2 * np.log(n)
    for i in range(k):
        for j in range(i + 1, d):
            apart = (1 / smooth[j] - 1 / smooth[i]) * (variances[i] - variances[j])
            found -= 0.5 * np.log(n * apart)
    return float(found)


def test_minkas_evidence_is_the_slow_one() -> None:
    variances = fitted(drawn(200, 9)).variances
    assert_allclose(
        score_by_evidence(variances, 200), [evidence(variances, k, 200) for k in range(1, 9)], rtol=1e-12
    )
    x = low_rank(500, 12, 4)
    assert fitted(x, "mle").count == decomposition.PCA("mle").fit(x).n_components_
    assert fitted(low_rank(500, 12, 4), "mle").count == 4
    assert score_by_evidence(np.ones(1), 10).size == 0
    assert fitted(drawn(20, 1), "mle").count == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1.0, 1e9])
def test_evidence_does_not_depend_on_the_unit(unit: float) -> None:
    assert fitted(unit * low_rank(500, 12, 4), "mle").count == 4
    variances = fitted(np.column_stack([low_rank(200, 4, 2), np.zeros(200)])).variances
    scores = score_by_evidence(variances, 200)
    assert_allclose(score_by_evidence(variances * unit**2, 200) - scores, -1000 * np.log(unit), rtol=1e-10)
    assert np.isneginf(score_by_evidence(np.zeros(3), 200)).all()


def test_held_out_counts_are_those_of_models_fitted_anew() -> None:
    x = low_rank(120, 6, 2)
    fold = np.arange(120) % 4
    parts = [Moments.observe(x[fold == one], form="full") for one in range(4)]
    tried = score_held_out(parts)
    for k in range(1, 6):
        told = [fitted(x[fold != one], k).log_densities(x[fold == one]) for one in range(4)]
        assert_allclose(tried.log_densities[k - 1], np.concatenate(told).mean(), rtol=1e-10)
    assert tried.best == 2
    assert score_held_out([Moments.observe(part, form="full") for part in (x[:50, :1], x[50:, :1])]).best == 1


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_the_true_rank_of_collinear_rows_is_chosen(rank: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, rank)) @ rng.normal(size=(rank, 5))
    tried = score_held_out([Moments.observe(part, form="full") for part in np.split(x, 3)])
    assert tried.best == rank
    assert np.isneginf(tried.log_densities[rank:]).all()
    span = np.linalg.svd(x)[2][:rank].T  # the density is that of rows written in the span
    parts = np.split(x @ span, 3)
    told = [fitted(np.concatenate(parts[:i] + parts[i + 1 :])).log_densities(parts[i]) for i in range(3)]
    assert_allclose(tried.log_densities[rank - 1], np.concatenate(told).mean(), rtol=1e-9)


def test_held_out_counts_without_variance_have_no_density() -> None:
    x = drawn(40, 3)
    x = np.column_stack([x, x[:, 0]])
    x[:20] *= [1.0, 1.0, 0.0, 1.0]  # nothing says how the third varies in the others
    tried = score_held_out([Moments.observe(part, form="full") for part in (x[:20], x[20:])])
    assert np.isneginf(tried.log_densities[1:]).all()
    assert tried.best == 1
    assert score_held_out([Moments.observe(np.ones((9, 3)), form="full")] * 2).best == 1
    with pytest.raises(ValueError, match="got rows of 1 fold, expected at least 2"):
        score_held_out([Moments.observe(x, form="full")])


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "got n_components=0 for 20 rows of 4 columns, expected 1 to 4: give at least 1"),
        (-1, "got n_components=-1 for 20 rows of 4 columns, expected 1 to 4: give at least 1"),
        (5, "got n_components=5 for 20 rows of 4 columns, expected 1 to 4: give fewer"),
        (1.5, "expected None, a whole number from 1 to 4, a share"),
        (True, "got n_components=True"),
        ("some", "got n_components='some'"),
        ("held-out", "were learned without folds"),
    ],
)
def test_other_counts_are_refused(count: int | float | str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(drawn(20, 4), count)


def test_evidence_asks_for_rows() -> None:
    with pytest.raises(ValueError, match="got n_components='mle' for 4 rows of 8 columns"):
        fitted(drawn(4), "mle")
    with pytest.raises(ValueError, match="got n_components=5 for 4 rows of 8 columns, expected 1 to 4"):
        fitted(drawn(4), 5)
    assert fitted(drawn(4)).count == 4


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize(("n", "rank"), [(30, 30), (30, 3), (80, 80), (30, 1)])
def test_products_of_rows_choose_the_same_number(n: int, rank: int, weighed: bool) -> None:
    rng = np.random.default_rng(2)
    x = low_rank(n, 40, 3) if rank == n else rng.normal(size=(n, rank)) @ rng.normal(size=(rank, 40))
    fold, weights = np.arange(n) % 5, rng.random(n) + 0.5 if weighed else None
    sums = Moments.observe(x, weights, fold, form="full")
    wide, square = (
        decompose_rows(Table.of(x), "held-out", weights, fold),
        PrincipalComponents("held-out").infer(sums),
    )
    assert wide.count == square.count
    assert wide.scores is not None
    assert square.scores is not None
    assert_allclose(wide.scores, square.scores, rtol=1e-7)
    assert_allclose(wide.variances, square.variances, rtol=1e-9)


def test_evidence_is_refused_before_anything_is_decomposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tamis.models.components.model.spectrum")
    with pytest.raises(ValueError, match="got n_components='mle' for 4 rows of 8 columns"):
        fitted(drawn(4), "mle")


def test_weights_below_one_lose_no_directions() -> None:
    x = drawn(100, 6)
    found = fitted(x, None, np.full(100, 0.03))
    assert found.count == 6
    assert_allclose(found.ratios, fitted(x).ratios, rtol=1e-10)
