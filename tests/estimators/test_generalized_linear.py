"""Fits of generalised linear models: statsmodels' answers, scikit-learn's checks, and refusals."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]  # it has no types
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis.estimators import BayesianLinearRegression, GeneralizedLinear
from tamis.estimators.newton import SeparationWarning
from tamis.models.linear.responses import RESPONSES
from tests.estimators.generalized_cases import LINKS, NAMES, PAIRS, N, drawn, each_pair, theirs


def told(model: GeneralizedLinear) -> tuple[Any, Any]:
    """Coefficients and standard errors, the intercept first."""
    if not model.fit_intercept:
        return model.coef_, model.coef_std_
    return np.append(model.intercept_, model.coef_), np.append(model.intercept_std_, model.coef_std_)


# ── statsmodels ──


@each_pair
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("besides", ["nothing", "weights", "offset", "exposure", "all"])
def test_answers_are_those_of_statsmodels(family: str, link: str, intercept: bool, besides: str) -> None:
    x, y, offset = drawn(family, link)
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 5, N).astype(float) if besides in ("weights", "all") else None
    offset = offset if besides in ("offset", "all") else None
    exposure = rng.uniform(0.5, 3, N) if besides in ("exposure", "all") and link == "log" else None
    ours = GeneralizedLinear(family, link=link, fit_intercept=intercept)  # type: ignore[arg-type]
    ours.fit(x, y, weights, offset, exposure)
    columns = sm.add_constant(x) if intercept else x
    known = theirs(family, link, columns, y, freq_weights=weights, offset=offset, exposure=exposure)
    coefficients, errors = told(ours)
    assert_allclose(coefficients, known.params, rtol=1e-6)
    assert_allclose(errors, known.bse, rtol=1e-5)
    assert_allclose(ours.deviance_, known.deviance, rtol=1e-8)
    assert_allclose(ours.null_deviance_, known.null_deviance, rtol=1e-8)
    assert_allclose(ours.pearson_, known.pearson_chi2, rtol=1e-7)
    assert_allclose(ours.dispersion_, known.scale, rtol=1e-7)
    assert_allclose(ours.log_likelihood_, known.llf, rtol=1e-8)
    assert_allclose(ours.aic_, known.aic, rtol=1e-8)
    assert_allclose(ours.bic_, known.bic_llf, rtol=1e-8)
    assert_allclose((ours.df_resid_, ours.n_observed_), (known.df_resid, known.df_resid + len(known.params)))
    assert_allclose(ours.z_values_, known.tvalues[intercept:], rtol=1e-5)
    assert_allclose(ours.p_values_, known.pvalues[intercept:], rtol=1e-3, atol=1e-12)
    low, high = ours.coef_interval(0.9)
    assert_allclose(np.column_stack([low, high]), known.conf_int(0.1)[intercept:], rtol=1e-5, atol=1e-6)
    where = {
        "offset": None if offset is None else offset[:5],
        "exposure": None if exposure is None else exposure[:5],
    }
    assert_allclose(ours.predict(x[:5], **where), known.predict(columns[:5], **where), rtol=1e-6)
    linear = known.predict(columns[:5], which="linear", **where)
    assert_allclose(ours.predict_linear(x[:5], **where), linear, rtol=1e-6)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", columns[:5], known.cov_params(), columns[:5]))
    ends = np.multiply.outer(stats.norm.ppf([0.025, 0.975]), spread) + linear
    means = np.sort(LINKS[link]().inverse(ends), axis=0)
    assert_allclose(ours.mean_interval(x[:5], 0.95, **where), means, rtol=1e-5)


def test_quasi_poisson_is_statsmodels_x2() -> None:
    x, y, _ = drawn("poisson", "log")
    known = sm.GLM(y, sm.add_constant(x), sm.families.Poisson()).fit(scale="X2")
    ours = GeneralizedLinear("poisson", dispersion="pearson").fit(x, y)
    assert_allclose(told(ours)[1], known.bse, rtol=1e-6)
    twice = GeneralizedLinear("poisson", dispersion=4.0).fit(x, y)
    assert_allclose(twice.coef_std_, 2.0 * GeneralizedLinear("poisson").fit(x, y).coef_std_)


# ── scikit-learn ──


@pytest.mark.parametrize(
    ("family", "link", "theirs_"),
    [
        ("poisson", "log", PoissonRegressor),
        ("gamma", "log", GammaRegressor),
        ("gaussian", "log", lambda **kwargs: TweedieRegressor(power=0, link="log", **kwargs)),
    ],
)
@pytest.mark.parametrize("intercept", [True, False])
def test_penalties_are_scikit_learns(family: Any, link: Any, theirs_: Any, intercept: bool) -> None:
    x, y, _ = drawn(family, link)
    weights = np.random.default_rng(1).uniform(0.2, 2, N)
    if family == "gaussian":
        y = np.abs(y)
    known = theirs_(alpha=7.0 / weights.sum(), tol=1e-12, max_iter=10_000, fit_intercept=intercept)
    known.fit(x, y, sample_weight=weights)
    ours = GeneralizedLinear(family, link=link, alpha=7.0, fit_intercept=intercept).fit(x, y, weights)
    assert_allclose(ours.coef_, known.coef_, rtol=1e-6, atol=1e-6)
    assert_allclose(ours.intercept_, known.intercept_, rtol=1e-6, atol=1e-6)
    assert_allclose(ours.predict(x), known.predict(x), rtol=1e-5)
    assert_allclose(ours.score(x, y), known.score(x, y), rtol=1e-6)
    assert_allclose(ours.score(x, y, weights), known.score(x, y, weights), rtol=1e-6)


FEW = "it has more columns than rows, which alpha=0 leaves open: alpha=1 is checked with it"


def expected_failures(model: Any) -> dict[str, str]:
    if model.alpha:
        return {}
    return {f"check_sample_weight_equivalence_on_{kind}_data": FEW for kind in ("dense", "sparse")}


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [
        GeneralizedLinear(family, link=link, alpha=alpha)
        for family, link in PAIRS
        if family != "bernoulli"  # no check has targets of 0 and 1
        for alpha in (0.0, 1.0)
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


# ── the fit ──


@each_pair
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([0.0, 0.5, 20.0]),
    intercept=st.booleans(),
    n=st.integers(12, 80),
)
def test_no_slope_is_left_at_the_top(
    family: str, link: str, seed: int, alpha: float, intercept: bool, n: int
) -> None:
    x, y, offset = drawn(family, link, n, seed)
    y = np.abs(y) if link == "log" else y
    weights = np.random.default_rng(seed).uniform(0.5, 2, n)
    model = GeneralizedLinear(family, link=link, alpha=alpha, fit_intercept=intercept)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model.fit(x, y, weights, offset=offset)
        except (SeparationWarning, ValueError):  # few rows may lie apart, or all be zero
            return
    kind = RESPONSES[family, link]()  # type: ignore[index]
    scores = model.predict_linear(x, offset=offset)
    slopes = weights * kind.loss(scores, y.astype(float))[1]
    rows = np.column_stack([x, np.ones(n)]) if intercept else x
    gradient = slopes @ rows
    gradient[:3] += alpha * model.coef_
    sizes = np.abs(slopes) @ np.abs(rows) + alpha
    assert (np.abs(gradient) < 1e-6 * sizes).all()


@each_pair
def test_weights_count_rows(family: Any, link: Any) -> None:
    x, y, offset = drawn(family, link)
    weights = np.random.default_rng(2).integers(0, 3, N)
    once = GeneralizedLinear(family, link=link).fit(x, y, weights, offset)
    often = np.repeat(np.arange(N), weights)
    again = GeneralizedLinear(family, link=link).fit(x[often], y[often], offset=offset[often])
    kept = np.flatnonzero(weights)
    dropped = GeneralizedLinear(family, link=link).fit(x[kept], y[kept], weights[kept], offset[kept])
    for name in ("coef_", "coef_std_", "dispersion_", "deviance_", "null_deviance_", "aic_", "df_resid_"):
        assert_allclose(getattr(once, name), getattr(again, name), rtol=1e-7, err_msg=name)
        assert_array_equal(getattr(once, name), getattr(dropped, name), err_msg=name)


@each_pair
def test_sparse_rows_and_other_solvers_say_the_same(family: Any, link: Any) -> None:
    x, y, _ = drawn(family, link)
    x = np.where(np.abs(x) > 0.5, x, 0.0)
    known = GeneralizedLinear(family, link=link).fit(x, y)
    for rows in (sparse.csr_array(x), sparse.csc_matrix(x)):
        found = GeneralizedLinear(family, link=link).fit(rows, y)
        assert_allclose(found.coef_, known.coef_, rtol=1e-9, atol=1e-12)
        assert_allclose(found.predict(rows), known.predict(x), rtol=1e-9)
        explained = found.explain(rows)
        assert sparse.issparse(explained.contributions)
        assert_allclose(explained.prediction, known.predict_linear(x), rtol=1e-9)
    for solver in ("newton", "whitened", "diagonal"):
        found = GeneralizedLinear(family, link=link, solver=solver, tol=1e-14).fit(x, y)
        assert_allclose(found.coef_, known.coef_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["diagonal", "none"])
def test_less_of_the_posterior_may_be_kept(kind: Any) -> None:
    x, y, _ = drawn("poisson", "log")
    known = GeneralizedLinear("poisson").fit(x, y)
    model = GeneralizedLinear("poisson", posterior=kind).fit(x, y)
    assert_allclose(model.coef_, known.coef_, rtol=1e-5)
    with pytest.raises(AttributeError, match="posterior='full'"):
        _ = model.coef_covariance_
    if kind == "none":
        with pytest.raises(AttributeError, match="needs a posterior"):
            _ = model.coef_std_


def test_evidence_chooses_alpha_where_the_dispersion_is_known() -> None:
    x, y, _ = drawn("poisson", "log")
    chosen = GeneralizedLinear("poisson", alpha="evidence").fit(x, y)
    for factor in (0.5, 2.0):
        other = GeneralizedLinear("poisson", alpha=factor * chosen.alpha_).fit(x, y)
        assert other.log_evidence_ < chosen.log_evidence_
    with pytest.raises(ValueError, match="alpha='evidence' for family='gamma'"):
        GeneralizedLinear("gamma", alpha="evidence").fit(x, y + 1.0)
    with pytest.raises(ValueError, match=r"got .*dispersion=1\.0, expected family='bernoulli' or 'poisson'"):
        GeneralizedLinear(alpha="evidence", dispersion=1.0).fit(x, y)


def test_the_remaining_degrees_of_freedom_decay_with_the_rows() -> None:
    x, y, _ = drawn("gaussian", "identity")
    model = GeneralizedLinear().fit(x, y)
    assert model.df_resid_ == model.n_observed_ - model.n_effective_
    before = model.df_resid_
    assert model.decay(0.5).df_resid_ == 0.5 * before


def test_the_evidence_is_that_of_linear_regression() -> None:
    x, y, _ = drawn("gaussian", "identity")
    ours = GeneralizedLinear(alpha=3.0, dispersion=0.25).fit(x, y)
    known = BayesianLinearRegression(alpha=12.0, beta=4.0).fit(x, y)
    assert_allclose(ours.log_evidence_, known.log_evidence_, rtol=1e-9)
    assert_allclose(ours.coef_std_, known.coef_std_, rtol=1e-9)
    given_ = GeneralizedLinear(alpha="evidence", prior=(np.zeros(3), np.eye(3) / 3.0), dispersion=0.25).fit(
        x, y
    )
    assert_allclose(given_.coef_, ours.coef_, rtol=1e-9)


# ── extremes ──


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e8, 1e150])
@pytest.mark.parametrize(("family", "link"), [pair for pair in PAIRS if pair[0] in ("gaussian", "gamma")])
def test_the_unit_of_the_targets_does_not_matter(family: Any, link: Any, unit: float) -> None:
    x, y, _ = drawn(family, link)
    known = GeneralizedLinear(family, link=link).fit(x, y)
    found = GeneralizedLinear(family, link=link).fit(x, unit * y)
    factor = {"identity": unit, "inverse": 1.0 / unit, "log": 1.0}[link]
    assert_allclose(found.coef_ / factor, known.coef_, rtol=1e-6)
    assert_allclose(found.coef_std_ / factor, known.coef_std_, rtol=1e-6)
    assert_allclose(found.predict(x) / unit, known.predict(x), rtol=1e-6)


def test_columns_and_targets_far_from_zero() -> None:
    x, y, _ = drawn("poisson", "log")
    far = 2.0**27 + np.round(x * 2**20) / 2**20
    near = GeneralizedLinear("poisson").fit(far - 2.0**27, y)
    found = GeneralizedLinear("poisson").fit(far, y)
    assert_allclose(found.coef_, near.coef_, rtol=1e-6)
    assert_allclose(found.coef_std_, near.coef_std_, rtol=1e-6)
    rng = np.random.default_rng(0)
    model = GeneralizedLinear().fit(x, 1e8 + x @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=N))
    assert_allclose(model.coef_, [1.0, 2.0, 3.0], atol=0.05)
    assert_allclose(model.dispersion_, 0.01, rtol=0.3)


def test_kinds_of_numbers_do_not_matter() -> None:
    x, y, _ = drawn("poisson", "log")
    x = x.astype(np.float32)
    known = GeneralizedLinear("poisson").fit(x.astype(float), y.astype(float))
    for rows, counts in ((x, y.astype(np.float32)), (x, y.astype(np.int8)), (x.tolist(), y.tolist())):
        assert_array_equal(GeneralizedLinear("poisson").fit(rows, counts).coef_, known.coef_)


@pytest.mark.parametrize("intercept", [True, False])
def test_huge_counts_and_large_offsets(intercept: bool) -> None:
    x, _, _ = drawn("poisson", "log")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rng = np.random.default_rng(0)
        y = rng.poisson(1e9 * np.exp(0.3 * x[:, 0]))
        model = GeneralizedLinear("poisson", fit_intercept=intercept)
        model.fit(x, y, offset=None if intercept else np.full(N, np.log(1e9)))
        assert_allclose(model.coef_, [0.3, 0.0, 0.0], atol=1e-4)
        assert 0.7 < model.pearson_ / N < 1.3
        small = rng.poisson(np.exp(0.3 * x[:, 0]))
        known = GeneralizedLinear("poisson").fit(x, small)
        for offset in (30.0, -30.0):
            found = GeneralizedLinear("poisson").fit(x, small, offset=offset)
            assert_allclose(found.coef_, known.coef_, rtol=1e-7)
            assert_allclose(found.intercept_ + offset, known.intercept_, rtol=1e-6, atol=1e-6)
            assert_allclose(found.null_deviance_, known.null_deviance_, rtol=1e-9)
            yes = GeneralizedLinear("bernoulli").fit(x, small > 0, offset=offset)
            assert_allclose(yes.coef_, GeneralizedLinear("bernoulli").fit(x, small > 0).coef_, rtol=1e-6)


def test_many_rows_take_the_other_way_to_the_same_place() -> None:
    rng = np.random.default_rng(0)
    x, offset = rng.normal(size=(20_000, 4)), rng.normal(size=20_000)
    y = rng.poisson(np.exp(x @ [0.3, -0.2, 0.1, 0.0] + 0.5 + offset))
    whitened = GeneralizedLinear("poisson").fit(x, y, offset=offset)
    newton = GeneralizedLinear("poisson", solver="newton").fit(x, y, offset=offset)
    assert_allclose(whitened.coef_, newton.coef_, rtol=1e-8, atol=1e-10)
    assert_allclose(whitened.coef_std_, newton.coef_std_, rtol=1e-6)


def test_a_perfect_fit_has_no_dispersion() -> None:
    x, _, _ = drawn("gaussian", "identity")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GeneralizedLinear().fit(x, x @ [1.0, 2.0, 3.0] + 1.0)
        assert_allclose(model.coef_, [1.0, 2.0, 3.0], rtol=1e-12)
        assert model.dispersion_ < 1e-25
        assert model.score(x, x @ [1.0, 2.0, 3.0] + 1.0) == pytest.approx(1.0)
        flat = GeneralizedLinear("gamma").fit(x, np.full(N, 2.0))
        assert_allclose((flat.intercept_, flat.dispersion_), (0.5, 0.0), atol=1e-12)
        assert "gamma, link inverse: 250 rows" in str(flat.summary())


def test_too_few_rows_leave_the_dispersion_unknown() -> None:
    x, y, _ = drawn("gaussian", "identity", n=4)
    with pytest.warns(UserWarning, match="rows of weight 4 determine 4 coefficients and leave nothing"):
        model = GeneralizedLinear().fit(x, y)
    assert np.isnan(model.dispersion_)
    assert np.isnan(model.coef_std_).all()
    one = GeneralizedLinear("poisson", fit_intercept=False).fit([[1.0]], [3.0])
    assert_allclose(one.coef_, np.log([3.0]))


# ── what cannot be ──


@pytest.mark.parametrize(
    ("params", "y", "said"),
    [
        ({"family": "poisson"}, [0.0, 0.0, 0.0, 0.0, 0.0], "all targets are 0.*intercept_alpha"),
        ({"family": "bernoulli"}, [1.0, 1.0, 1.0, 1.0, 1.0], "all targets are 1"),
        ({"family": "poisson"}, [0.0, 1.0, -1.0, 0.0, 2.0], "target 2 is -1, expected counts, 0 or more"),
        ({"family": "gamma"}, [1.0, 0.0, 1.0, 1.0, 1.0], "target 1 is 0, expected numbers above 0"),
        ({"family": "bernoulli"}, [1.0, 0.0, 0.0, 1.0, 2.0], "target 4 is 2, expected 0, 1, or a fraction"),
        ({"link": "log"}, [-1.0, -2.0, 1.0, 0.0, 0.0], "the mean of the targets is -0.4, expected above 0"),
        ({"dispersion": "none"}, [1.0, 2.0, 3.0, 1.0, 2.0], "dispersion='none', expected 'estimate'"),
        ({"dispersion": 0.0}, [1.0, 2.0, 3.0, 1.0, 2.0], "or a number above 0"),
        ({"family": "normal"}, [1.0, 2.0, 3.0, 1.0, 2.0], "family='normal', expected one of"),
        ({"family": "poisson", "link": "logit"}, [1.0, 2.0, 3.0, 1.0, 2.0], "link='logit' for 'poisson'"),
        ({"solver": "liblinear"}, [1.0, 2.0, 3.0, 1.0, 2.0], "solver='liblinear'"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(params: Any, y: list[float], said: str) -> None:
    model = GeneralizedLinear(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=said) as caught:
            model.fit(np.arange(5.0)[:, None], y)
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        _ = model.coef_


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"offset": [0.0, np.nan, 0.0]}, "offset 1 is nan"),
        ({"offset": [0.0, 1.0]}, "offset of shape .* for 3 rows"),
        ({"offset": np.zeros((3, 2))}, "offset of shape .* for 3 rows"),
        ({"exposure": [1.0, 0.0, 1.0]}, "exposure 1 is 0, expected above 0"),
        ({"exposure": [1.0, 1.0, np.inf]}, "exposure 2 is inf"),
    ],
)
def test_offsets_and_exposures_are_checked(more: Any, said: str) -> None:
    rows, counts = [[0.0], [1.0], [2.0]], [1, 2, 2]
    with pytest.raises(ValueError, match=said):
        GeneralizedLinear("poisson").fit(rows, counts, **more)
    fitted = GeneralizedLinear("poisson").fit(rows, counts)
    with pytest.raises(ValueError, match=said):
        fitted.predict(rows, **more)
    with pytest.raises(ValueError, match="expected link='log'"):
        GeneralizedLinear().fit(rows, counts, exposure=[1.0, 1.0, 1.0])


def test_what_has_no_end_is_said() -> None:
    x, y, _ = drawn("poisson", "log")
    frame = pd.DataFrame(x, columns=NAMES).assign(closed=np.arange(N) < 30)
    y = np.where(frame["closed"], 0, y)
    with pytest.warns(SeparationWarning, match="counts are 0 along column 'closed'"):
        GeneralizedLinear("poisson").fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GeneralizedLinear("poisson", alpha=0.1).fit(frame, y)
        held = GeneralizedLinear("poisson", alpha=1.0, intercept_alpha=1.0).fit(x, np.zeros(N))
    assert held.intercept_ < -2.0
    with pytest.warns(SeparationWarning, match="are separable"):
        GeneralizedLinear("bernoulli").fit(x, x[:, 0] > 0)


def test_columns_that_others_determine_are_named() -> None:
    x, y, _ = drawn("poisson", "log")
    frame = pd.DataFrame(x, columns=NAMES).assign(twice=2.0 * x[:, 0])
    with pytest.raises(ValueError, match=r"'twice'.*set alpha above 0"):
        GeneralizedLinear("poisson").fit(frame, y)
    assert_allclose(GeneralizedLinear("poisson", alpha=1.0).fit(frame, y).predict(frame).sum(), y.sum())


def test_the_inverse_link_needs_a_start() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ValueError, match="set link='log', or fit_intercept=True"):
        GeneralizedLinear("gamma", fit_intercept=False).fit(x, np.ones(50))
