"""One table of coefficients, and one shape of intervals, for all linear models."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]
from numpy.testing import assert_allclose

from tamis import BayesianLinearRegression, GeneralizedLinear, LogisticRegression
from tamis.estimators import CoefficientSummary

rng = np.random.default_rng(0)
NAMES = ["age", "a very long name of a column that nobody would cut", "z"]
X = pd.DataFrame(rng.normal([1.0, -2.0, 3.0], size=(90, 3)), columns=NAMES)
Y = X.to_numpy() @ [1.0, 2.0, 0.0] + 5.0 + rng.normal(size=90)
KINDS = np.array(["ham", "spam", "unsure"])[np.digitize(Y + rng.normal(size=90), [2.0, 5.0])]
NUMBERS = ["std_err", "p_value", "lower", "upper", "coef"]

FITTED = {
    "linear": BayesianLinearRegression().fit(X, Y),
    "linear, unknown noise": BayesianLinearRegression(alpha=0.0, beta="unknown").fit(X, Y),
    "linear, two targets": BayesianLinearRegression().fit(X, np.column_stack([Y, -2.0 * Y])),
    "linear, no intercept": BayesianLinearRegression(fit_intercept=False).fit(X, Y),
    "logistic": LogisticRegression().fit(X, KINDS == "ham"),
    "softmax": LogisticRegression().fit(X, KINDS),
    "softmax, diagonal": LogisticRegression(posterior="diagonal", fit_intercept=False).fit(X, KINDS),
    "generalized": GeneralizedLinear("gamma", link="log").fit(X, np.exp(0.2 * Y)),
}
each_model = pytest.mark.parametrize("model", FITTED.values(), ids=FITTED)


@each_model
def test_every_linear_model_has_one_table_of_its_coefficients(model: Any) -> None:
    table = model.summary(0.9)
    assert isinstance(table, CoefficientSummary)
    frame = table.to_frame()
    assert isinstance(frame, pd.DataFrame)
    outputs = [name for name in ("class", "target") if name in frame]
    statistic = "t" if "t" in frame else "z"
    assert list(frame) == ["name", *outputs, "coef", "std_err", statistic, "p_value", "lower", "upper"]
    rows = frame[frame["name"] != "(intercept)"]
    coefficients = np.atleast_2d(model.coef_)
    assert rows["name"].tolist() == NAMES * len(coefficients)
    assert_allclose(rows["coef"], coefficients.ravel())
    low, high = model.coef_interval(0.9)
    assert_allclose(rows["lower"], np.ravel(low))
    assert_allclose(rows["upper"], np.ravel(high))
    assert_allclose(frame[statistic], frame["coef"] / frame["std_err"])
    ends = frame[frame["name"] == "(intercept)"]
    assert len(ends) in (0, len(coefficients))
    if len(ends):
        assert_allclose(ends["coef"], np.ravel(model.intercept_))
        assert ends.index.tolist() == [4 * k for k in range(len(coefficients))]


@each_model
def test_names_are_whole_and_columns_aligned(model: Any) -> None:
    text = str(model.summary())
    assert repr(model.summary()) == text
    lines = text.split("\n\n")[1].splitlines()
    assert len({len(line) for line in lines}) == 1
    frame = model.summary().to_frame()
    assert len(lines) == 1 + len(frame)
    for line, name in zip(lines[1:], frame["name"], strict=True):
        assert line.startswith(f"{name} ")
        end = lines[0].index("coef") + len("coef")  # each number ends where its title does
        assert line[end - 1] != " "
        assert line[end] == " "


def test_extreme_numbers_leave_columns_apart() -> None:
    names = pd.DataFrame({"small": [1e-120, -2e-120, 3e-120, 5e-120], "b": [1.0, -1.0, 1.0, 2.0]})
    model = BayesianLinearRegression(alpha=0.0, beta=1.0).fit(names, [-1e100, 2e100, 0.0, 5.0])
    lines = str(model.summary()).split("\n\n")[1].splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [len(line.split()) for line in lines[1:]] == [7] * 3


def test_least_squares_have_statsmodels_table() -> None:
    theirs = sm.OLS(Y, sm.add_constant(X)).fit()
    found = FITTED["linear, unknown noise"].summary(0.9).to_frame()
    for name, wanted in (
        ("coef", theirs.params),
        ("std_err", theirs.bse),
        ("t", theirs.tvalues),
        ("p_value", theirs.pvalues),
        ("lower", theirs.conf_int(0.1)[0]),
        ("upper", theirs.conf_int(0.1)[1]),
    ):
        assert_allclose(found[name], np.asarray(wanted), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("kind", ["logit", "poisson"])
def test_likeliest_coefficients_have_statsmodels_table(kind: str) -> None:
    if kind == "logit":
        y: Any = (KINDS == "ham").astype(float)
        model: Any = LogisticRegression(alpha=0.0).fit(X, y)
        theirs = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-12)
    else:
        y = np.random.default_rng(1).poisson(np.exp(0.1 * Y))
        model = GeneralizedLinear("poisson").fit(X, y)
        theirs = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit(tol=1e-12)
    found = model.summary().to_frame()
    for name, wanted in (
        ("coef", theirs.params),
        ("std_err", theirs.bse),
        ("z", theirs.tvalues),
        ("p_value", theirs.pvalues),
        ("lower", theirs.conf_int()[0]),
        ("upper", theirs.conf_int()[1]),
    ):
        assert_allclose(found[name], np.asarray(wanted), rtol=1e-4, atol=1e-9)


def test_several_outputs_are_named() -> None:
    frame = FITTED["softmax"].summary().to_frame()
    assert frame["class"].tolist() == [label for label in ("ham", "spam", "unsure") for _ in range(4)]
    assert_allclose(
        frame.pivot(index="name", columns="class", values="coef").sum(axis=1), np.zeros(4), atol=1e-9
    )
    frame = FITTED["linear, two targets"].summary().to_frame()
    assert frame["target"].tolist() == [0] * 4 + [1] * 4
    assert_allclose(frame["coef"][4:], -2.0 * frame["coef"][:4], rtol=1e-6)
    assert "'ham'" not in str(FITTED["softmax"].summary()).splitlines()[0]
    assert "logistic, True against False: 90 rows" in str(FITTED["logistic"].summary())


def test_a_frame_is_of_the_library_that_was_fitted_or_the_one_that_is_named() -> None:
    model = GeneralizedLinear().fit(pl.DataFrame(X.to_dict("list")), Y)
    assert isinstance(model.summary().to_frame(), pl.DataFrame)
    assert isinstance(model.summary().to_frame("pandas"), pd.DataFrame)
    plain = GeneralizedLinear().fit(X.to_numpy(), Y).summary()
    assert plain.to_frame()["name"].tolist() == ["(intercept)", "0", "1", "2"]
    assert plain.to_frame("polars")["name"].to_list() == ["(intercept)", "0", "1", "2"]
    with pytest.raises(ValueError, match="got library='spark', expected one of 'pandas'"):
        plain.to_frame("spark")


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table = FITTED["linear"].summary()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="a frame of pandas needs pandas, which is not installed"):
        table.to_frame("pandas")
    assert str(table).startswith("linear regression: 90 rows")


def test_tables_refuse_what_coverage_cannot_be() -> None:
    for model in FITTED.values():
        with pytest.raises(ValueError, match="expected between 0 and 1"):
            model.summary(95)
