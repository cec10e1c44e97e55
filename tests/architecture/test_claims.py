"""What the docs say that models can do, they can; and what they cannot do is said."""

import argparse
import importlib
import re
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import tamis
from tamis.families.registry import FAMILIES

ROOT = Path(__file__).parents[2]
MODELS = (ROOT / "docs" / "reference" / "models.md").read_text(encoding="utf-8")
VERBS = [
    "partial_fit",
    "merge",
    "unlearn",
    "decay",
    "cross_validate",
    "tune",
    "calibrate",
    "explain",
    "sample",
    "save",
]
NAIVE_BAYES = {name for name in tamis.__all__ if name.endswith("NB") or name == "NaiveBayes"}
DISCRIMINANTS = {"GaussianDiscriminant", "FisherDiscriminant"}
CLASSIFIERS = NAIVE_BAYES | DISCRIMINANTS

rng = np.random.default_rng(0)
LABELS = np.tile(["a", "b"], 30)
NUMBERS = rng.normal(size=(60, 3)) * [1.0, 20.0, 0.1] + 7.0 + 2.0 * (LABELS == "b")[:, None]
COUNTS = rng.poisson(2.0, size=(60, 3)).astype(np.float64)
TARGET = NUMBERS @ [1.0, 2.0, 3.0] + rng.normal(size=60)
PAIRS = [(f"user{k % 6}", f"item{k // 6}") for k in range(60)]
RATINGS = rng.integers(1, 6, 60).astype(np.float64)


@cache
def table() -> dict[str, dict[str, str]]:
    """The table of verbs of docs/reference/models.md: of each model, the mark of each verb."""
    lines = MODELS.splitlines()
    (start,) = [k for k, line in enumerate(lines) if line.startswith("| | `partial_fit`")]
    verbs = re.findall(r"`(\w+)`", lines[start])
    found: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        names, *marks = [cell.strip() for cell in line.strip("|").split("|")]
        found |= {name: dict(zip(verbs, marks, strict=True)) for name in re.findall(r"`(\w+)`", names)}
    return found


def rows_of(name: str) -> tuple[Any, ...]:
    """What a model is fitted to."""
    if name == "MatrixFactorization":
        return PAIRS, RATINGS
    if name in ("Mixture", "PCA"):
        return (NUMBERS,)
    if name in ("BayesianLinearRegression", "GeneralizedLinear"):
        return NUMBERS, TARGET
    if name in ("MultinomialNB", "ComplementNB", "PoissonNB"):
        return COUNTS, LABELS
    if name == "BernoulliNB":
        return (COUNTS > 1).astype(np.float64), LABELS
    if name == "CategoricalNB":
        return COUNTS.astype(np.int64), LABELS
    return NUMBERS, LABELS


TUNED: dict[str, Any] = {
    "GaussianNB": {"var_smoothing": [1e-9, 0.1]},
    "NaiveBayes": {"strength": [0.5, 5.0]},
    "GaussianDiscriminant": {"strength": [0.5, 5.0]},
    "FisherDiscriminant": {"shrinkage": [0.0, 0.5]},
}


SETTINGS: dict[str, dict[str, Any]] = {
    "Mixture": {"n_components": 2, "covariance": "tied", "random_state": 0},
    "GeneralizedLinear": {"family": "gaussian"},
}


def made(name: str) -> Any:
    """A model whose sums are exact, where it can be asked for that."""
    kind = getattr(tamis, name)
    settings: dict[str, Any] = dict(SETTINGS.get(name, {}))
    if "exact" in kind().get_params():
        settings["exact"] = True
    return kind(**settings)


def some(rows: tuple[Any, ...], which: slice) -> list[Any]:
    return [part[which] for part in rows]


def use(name: str, verb: str, folder: Path) -> Any:
    """Do to a fitted model what a verb says; the model after it."""
    rows = rows_of(name)
    first, last = some(rows, slice(0, 50)), some(rows, slice(50, 60))
    model = made(name).fit(*(first if verb in ("partial_fit", "merge") else rows))
    act = getattr(model, verb)
    if verb in ("partial_fit", "unlearn"):
        act(*last)
    elif verb == "merge":
        act(made(name).fit(*last))
    elif verb == "decay":
        act(0.5)
    elif verb == "tune":
        act(*rows, by="leave-one-out", **TUNED.get(name, {"alpha": [0.5, 5.0]}))
    elif verb in ("cross_validate", "calibrate"):
        act(*rows)
    elif verb == "explain":
        act(*(("user0", "item0") if name == "MatrixFactorization" else (rows[0][:2],)))
    elif verb == "sample":
        act(3)
    else:
        act(folder / "model.tamis")
        tamis.load(folder / "model.tamis")
    return model


def test_the_table_of_verbs_has_every_estimator_and_every_verb() -> None:
    estimators = {
        name
        for name in tamis.__all__
        if isinstance(getattr(tamis, name), type) and issubclass(getattr(tamis, name), BaseEstimator)
    }
    assert set(table()) == estimators
    assert all(list(marks) == VERBS and set(marks.values()) <= set("✓≈–") for marks in table().values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", sorted(table()))
def test_a_model_has_the_verbs_that_the_table_says(name: str, verb: str, tmp_path: Path) -> None:
    if table()[name][verb] == "–":
        with pytest.raises((AttributeError, ValueError), match=f"{verb}|cannot draw rows"):
            use(name, verb, tmp_path)
    else:
        use(name, verb, tmp_path)


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        (name, verb)
        for name, marks in sorted(table().items())
        for verb in ("partial_fit", "merge", "unlearn")
        if marks[verb] == "✓"
    ],
)
def test_a_model_that_is_said_to_be_the_same_is_the_same(name: str, verb: str, tmp_path: Path) -> None:
    left = slice(0, 50) if verb == "unlearn" else slice(0, 60)
    assert use(name, verb, tmp_path).statistic_ == made(name).fit(*some(rows_of(name), left)).statistic_


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_covariances_that_need_no_products_are_the_same_to_the_bit_as_they_come(covariance: Any) -> None:
    whole = tamis.GaussianDiscriminant(covariance).fit(NUMBERS, LABELS)
    parts = tamis.GaussianDiscriminant(covariance).fit(NUMBERS[:50], LABELS[:50])
    assert parts.partial_fit(NUMBERS[50:], LABELS[50:]).statistic_ == whole.statistic_


def test_evidence_is_there_for_all_classifiers_but_complement_naive_bayes() -> None:
    for name in sorted(CLASSIFIERS - {"ComplementNB"}):
        assert np.isfinite(made(name).fit(*rows_of(name)).log_evidence_), name
    with pytest.raises(AttributeError, match="complement naive Bayes has no evidence"):
        _ = made("ComplementNB").fit(*rows_of("ComplementNB")).log_evidence_


def test_rows_without_labels_are_learned_by_naive_bayes_and_discriminants() -> None:
    assert "naive Bayes and the discriminants learn such rows by EM" in MODELS
    partly = LABELS.astype(object)
    partly[::3] = None
    for name in sorted(CLASSIFIERS):
        model = made(name).fit(rows_of(name)[0], partly)
        assert model.n_iter_ > 1, name
        assert model.classes_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="label 0 is missing"):
        tamis.LogisticRegression().fit(NUMBERS, partly)


def test_mixtures_are_of_columns_of_any_family() -> None:
    assert "`Mixture`, of columns of any family" in MODELS
    for name, member in FAMILIES.items():
        rows = (COUNTS > 1).astype(np.float64) if name == "bernoulli" else COUNTS + (name == "gamma")
        tamis.Mixture(2, families=member, random_state=0, max_iter=1000).fit(rows)
    for other in ("normal", "multivariate_gaussian"):
        with pytest.raises(ValueError, match="expected one of gaussian, bernoulli"):
            tamis.Mixture(2, families=other).fit(COUNTS)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_gaps_are_filled_by_mixtures_and_refused_by_discriminants_with_full_matrices(covariance: Any) -> None:
    gaps = NUMBERS.copy()
    gaps[::5, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it converged is not asked here
        tamis.Mixture(2, covariance=covariance, random_state=0).fit(gaps)
    discriminant = tamis.GaussianDiscriminant(covariance)
    if covariance in ("full", "tied"):
        with pytest.raises(ValueError, match="column 1 holds NaN"):
            discriminant.fit(gaps, LABELS)
    else:
        discriminant.fit(gaps, LABELS)


@pytest.mark.parametrize(
    "name",
    ["LogisticRegression", "GeneralizedLinear", "BayesianLinearRegression", "PCA", "FisherDiscriminant"],
)
def test_models_that_are_said_to_refuse_gaps_do(name: str) -> None:
    rows, *rest = rows_of(name)
    gaps = rows.copy()
    gaps[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        made(name).fit(gaps, *rest)


# ── benchmarks ──


def test_every_option_that_the_readme_of_the_benchmarks_names_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `benchmarks\.(\w+)` \| ([^|]*) \|", text, flags=re.MULTILINE)
    assert len(listed) >= 6
    assert set(re.findall(r"--[a-z][a-z-]*", text)) <= {
        option for _, options in listed for option in re.findall(r"--[a-z][a-z-]*", options)
    } | {"--list", "--repeats"}

    def stop(parser: argparse.ArgumentParser, *_: object) -> Any:
        raise Parsed(set(parser._option_string_actions))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    for module, options in listed:
        monkeypatch.setattr(sys, "argv", [module])
        with pytest.raises(Parsed) as parsed:
            importlib.import_module(f"benchmarks.{module}").main()
        assert set(re.findall(r"--[a-z][a-z-]*", options)) <= parsed.value.options, module


class Parsed(Exception):  # noqa: N818  # it stops a script once its options are known
    """The options that a script takes."""

    def __init__(self, options: set[str]) -> None:
        super().__init__()
        self.options = options
