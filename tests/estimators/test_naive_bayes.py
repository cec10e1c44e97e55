"""NaiveBayes: a family for each column, whatever holds the rows."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

from tamis.conjugate import Beta, Dirichlet, Gamma, NormalInverseGamma
from tamis.estimators import BernoulliNB, GaussianNB, MultinomialNB, NaiveBayes, PoissonNB
from tamis.stats import Moments, Tally
from tests.estimators.faces import FACES, Face, named, same

nan = np.nan
LABELS = ["a", "a", "b", "b", "b", "a"]
CONTENT: dict[str, list[Any]] = {
    "flag": [True, False, True, None, True, True],
    "word": ["x", "y", None, "x", "z", "x"],
    "real": [0.5, 1.5, nan, 2.5, 4.0, 0.25],
    "whole": [1, 2, 3, 4, 5, 6],
    "maybe": [1, None, 3, 4, 5, None],
}


def in_pandas() -> Any:
    frame = pd.DataFrame(CONTENT)
    return frame.astype({"flag": "boolean", "word": "category", "maybe": "Int64"})


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": in_pandas,
    "polars": lambda: pl.DataFrame(CONTENT, strict=False).with_columns(pl.col("word").cast(pl.Categorical)),
    "pyarrow": lambda: pa.table(CONTENT),
}
each_frame = pytest.mark.parametrize("frame", [make() for make in FRAMES.values()], ids=list(FRAMES))
AUTO = {
    "flag": "bernoulli",
    "word": "categorical",
    "real": "gaussian",
    "whole": "gaussian",
    "maybe": "gaussian",
}


@each_frame
def test_types_of_columns_choose_their_families(frame: Any) -> None:
    assert NaiveBayes().fit(frame, LABELS).families_ == AUTO
    counted = NaiveBayes(integers="poisson").fit(frame, LABELS).families_
    assert counted == AUTO | {"whole": "poisson", "maybe": "poisson"}
    coded = NaiveBayes(integers="categorical").fit(frame, LABELS).families_
    assert coded == AUTO | {"whole": "categorical", "maybe": "categorical"}


@each_frame
def test_a_mapping_chooses_for_the_columns_it_names(frame: Any) -> None:
    chosen = NaiveBayes({"whole": "poisson", "flag": "categorical", 4: "categorical"}).fit(frame, LABELS)
    assert chosen.families_ == AUTO | {"whole": "poisson", "flag": "categorical", "maybe": "categorical"}
    assert np.isfinite(chosen.predict_joint_log_proba(frame)).all()


def test_every_library_gives_the_same_answers() -> None:
    first, *others = [NaiveBayes().fit(make(), LABELS) for make in FRAMES.values()]
    frame = in_pandas()
    for other in others:
        assert other.statistic_ == first.statistic_
        assert_allclose(other.predict_joint_log_proba(frame), first.predict_joint_log_proba(frame), rtol=0)


def test_plain_rows_are_read_as_frames_are() -> None:
    rows = [list(row) for row in zip(*CONTENT.values(), strict=True)]
    model = NaiveBayes().fit(rows, LABELS)
    assert list(model.families_.values()) == list(AUTO.values())
    frame = NaiveBayes().fit(in_pandas(), LABELS)
    assert_allclose(model.predict_proba(rows), frame.predict_proba(in_pandas()))
    full = [["red", 1.5, True], ["blue", 2.5, False], ["red", 3.5, True]]  # nothing missing: no less a number
    found = NaiveBayes().fit(full, [0, 1, 1]).families_
    assert found == {0: "categorical", 1: "gaussian", 2: "bernoulli"}


@each_frame
def test_rows_of_which_nothing_is_known_get_the_classes_shares(frame: Any) -> None:
    model = NaiveBayes().fit(frame, LABELS)
    nothing = np.full((2, 5), None, dtype=object)
    assert_allclose(model.predict_proba(nothing), 0.5)
    before = model.statistic_
    model.partial_fit(nothing, ["a", "a"])
    assert model.class_count_.tolist() == [5.0, 3.0]
    assert model.unlearn(nothing, ["a", "a"]).statistic_ == before


def test_unseen_categories_speak_for_no_class_of_the_same_size() -> None:
    model = NaiveBayes().fit([["x"], ["y"], ["x"], ["z"]], [0, 0, 1, 1])
    assert_allclose(model.predict_proba([["never"]]), [[0.5, 0.5]])
    assert np.isfinite(
        NaiveBayes(estimate="mle").fit([["x"], ["y"]], [0, 1]).predict_proba([["never"]])
    ).all()


def test_new_classes_just_come() -> None:
    rows = np.array([[0.0, "x"], [1.0, "y"], [5.0, "z"], [6.0, "z"]], dtype=object)
    model = NaiveBayes().partial_fit(rows[:2], ["a", "a"])
    model.partial_fit(rows[2:3], ["c"]).partial_fit(rows[3:], ["b"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert same(model, NaiveBayes().fit(rows, ["a", "a", "c", "b"]), rows)


def column_scores(model: NaiveBayes, column: int, values: list[Any]) -> Any:
    """log p(value | class) of one column: the other columns are missing."""
    rows = np.full((len(values), len(model.families_)), None, dtype=object)
    rows[:, column] = values
    return model.predict_joint_log_proba(rows) - model.class_log_prior_


def data(n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    frame = pd.DataFrame(
        {
            "real": rng.normal(labels, 1.0 + labels),
            "flag": rng.random(n) < 0.3 + 0.2 * labels,
            "word": rng.choice(["x", "y", "z"], n),
            "count": rng.poisson(1 + labels),
        }
    )
    return frame, labels


def priors(frame: Any, alpha: float, strength: float) -> dict[str, Any]:
    real, count = frame["real"].to_numpy(), frame["count"].to_numpy()
    rate = (count.sum() + 0.5) / len(count)
    return {
        "real": NormalInverseGamma.from_mean(real.mean(), strength, real.var()),
        "flag": Beta(alpha, alpha),
        "word": Dirichlet(np.full(3, alpha)),
        "count": Gamma(alpha * rate, alpha),
    }


def seen(frame: Any, labels: Any, k: int) -> dict[str, Any]:
    mine = frame[labels == k]
    return {
        "real": Moments.observe(mine["real"].to_numpy()[:, None], form="diagonal"),
        "flag": Tally.observe(mine["flag"].to_numpy().astype(float)),
        "word": Tally.count(mine["word"].tolist()),
        "count": Tally.observe(mine["count"].to_numpy().astype(float)),
    }


@pytest.mark.parametrize("estimate", ["mle", "map", "mean", "predictive"])
def test_every_estimate_is_that_of_the_conjugate_prior(estimate: Any) -> None:
    frame, labels = data()
    alpha, strength = 1.5, 2.0
    model = NaiveBayes(
        integers="poisson", estimate=estimate, alpha=alpha, strength=strength, var_smoothing=0.0
    ).fit(frame, labels)
    prior = priors(frame, alpha, strength)
    reals, counts = [-1.0, 0.3, 4.0], [0, 1, 5]
    asked: list[list[Any]] = [reals, [True], ["x", "y", "z"], counts]
    for k in range(3):
        after = {name: prior[name].update(found) for name, found in seen(frame, labels, k).items()}
        mine = frame[labels == k]
        found = [column_scores(model, j, values)[:, k] for j, values in enumerate(asked)]
        if estimate == "predictive":
            expected = [
                np.ravel([after["real"].predictive().log_density(x) for x in reals]),
                np.log([float(after["flag"].mean)]),
                np.log(after["word"].mean),
                np.ravel([after["count"].predictive().log_density(x) for x in counts]),
            ]
        else:
            if estimate == "mle":
                mean, variance = mine["real"].mean(), mine["real"].var(ddof=0)
                p, rate = mine["flag"].mean(), mine["count"].mean()
                shares = np.array([(mine["word"] == word).mean() for word in "xyz"])
            else:
                pick = "mode" if estimate == "map" else "mean"
                mean, variance = getattr(after["real"], pick)
                p, rate = float(getattr(after["flag"], pick)), float(getattr(after["count"], pick))
                shares = getattr(after["word"], pick)
            normal = stats.norm(np.ravel(mean)[0], np.sqrt(np.ravel(variance)[0]))
            expected = [normal.logpdf(reals), np.log([p]), np.log(shares), stats.poisson(rate).logpmf(counts)]
        for mine_, theirs in zip(found, expected, strict=True):
            assert_allclose(mine_, theirs, rtol=1e-10)


def test_the_evidence_is_the_sum_of_the_columns_evidences() -> None:
    frame, labels = data()
    model = NaiveBayes(integers="poisson", alpha=1.5, strength=2.0).fit(frame, labels)
    prior = priors(frame, 1.5, 2.0)
    whole = sum(
        float(np.sum(prior[name].log_evidence(found)))
        for k in range(3)
        for name, found in seen(frame, labels, k).items()
    )
    assert_allclose(model.log_evidence_, whole, rtol=1e-10)
    for estimate in ("mle", "predictive"):  # what stands for the parameters is no matter to the evidence
        assert_allclose(model.infer(estimate=estimate).log_evidence_, whole, rtol=1e-10)


def assert_adds_up(model: Any, rows: Any, told: Any) -> None:
    logs = model.predict_log_proba(rows)
    place = {label: k for k, label in enumerate(model.classes_.tolist())}
    line = np.arange(len(logs))
    one, other = ([place[label] for label in labels.tolist()] for labels in (told.for_, told.against))
    assert_allclose(told.log_odds, logs[line, one] - logs[line, other], rtol=1e-10, atol=1e-10)
    total = told.values().sum(axis=1) + told.rest + told.prior
    assert_allclose(total, told.log_odds, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("face", FACES, ids=named)
@pytest.mark.parametrize("classes", [2, 4])
def test_contributions_add_up_to_the_log_odds(face: Face, classes: int) -> None:
    rows, labels = face.rows(60, classes)
    model = face.make().fit(rows, labels)
    assert_adds_up(model, rows, model.explain(rows))
    assert_adds_up(model, rows, model.explain(rows, for_=0))
    assert_adds_up(model, rows, model.explain(rows, against=1))
    told = model.explain(rows, for_=1, against=0)
    assert set(told.for_.tolist()) == {1}
    assert set(told.against.tolist()) == {0}
    assert_adds_up(model, rows, told)


@pytest.mark.parametrize("make", [MultinomialNB, BernoulliNB, PoissonNB, lambda: NaiveBayes("multinomial")])
@pytest.mark.parametrize("classes", [2, 3])
def test_sparse_rows_are_explained_sparsely(make: Any, classes: int) -> None:
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, (30, 12)).astype(np.float64)
    rows, labels = sparse.csr_array(dense), np.arange(30) % classes
    model = make().fit(rows, labels)
    told = model.explain(rows)
    assert hasattr(told.contributions, "tocsr")
    assert told.contributions.nnz <= rows.nnz
    assert_adds_up(model, rows, told)
    assert_allclose(told.log_odds, model.explain(dense).log_odds, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("estimate", ["mle", "map", "mean", "predictive"])
def test_every_estimate_can_be_explained(estimate: Any) -> None:
    frame, labels = data()
    model = NaiveBayes(integers="poisson", estimate=estimate).fit(frame, labels)
    assert_adds_up(model, frame, model.explain(frame))


def test_what_is_impossible_is_explained_without_a_number() -> None:
    flags, labels = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), [0, 0, 1]
    asked = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    for family in ("bernoulli", "multinomial", "poisson"):
        model = NaiveBayes(family, estimate="mle").fit(flags, labels)
        for rows in (asked, sparse.csr_array(asked)):
            assert_adds_up(model, rows, model.explain(rows))
    words = NaiveBayes(estimate="mle").fit([["a", "x"], ["b", "y"], ["a", "y"]], [0, 1, 1])
    told = words.explain([["b", "x"], ["a", "x"]])
    assert told.log_odds.tolist() == [0.0, -np.inf]  # "b" is impossible in one class, "x" in the other


@pytest.mark.parametrize("library", list(FRAMES))
@pytest.mark.parametrize("labels", [LABELS, ["a", "b", "c", "a", "b", "c"]], ids=["two", "three"])
def test_a_frame_is_explained_by_a_frame(library: str, labels: list[str]) -> None:
    frame = FRAMES[library]()
    if library == "pandas":
        frame.index = pd.Index(list("uvwxyz"), name="row")
    model = NaiveBayes().fit(frame, labels)
    told = model.explain(frame)
    assert type(told.contributions) is type(frame)
    names = told.contributions.column_names if library == "pyarrow" else list(told.contributions.columns)
    assert names == list(CONTENT)
    assert_adds_up(model, frame, told)
    if library == "pandas":
        assert told.contributions.index.equals(frame.index)
        assert told.contributions.loc["w", "word"] == 0.0  # missing: it says nothing
    assert len(told.top(0, 2)) == 2


@pytest.mark.parametrize("library", list(FRAMES))
def test_a_model_of_frames_draws_frames(library: str) -> None:
    frame = FRAMES[library]()
    model = NaiveBayes(integers="poisson").fit(frame, LABELS)
    drawn, labels = model.sample(50, random_state=0)
    assert type(drawn) is type(frame)
    assert set(labels.tolist()) <= {"a", "b"}
    again = NaiveBayes(integers="poisson").fit(drawn, labels)
    assert again.families_ == model.families_
    same_draw, _ = model.sample(50, random_state=0)
    assert drawn.equals(same_draw)


@pytest.mark.parametrize("count", [0, 2.5, np.inf, np.nan, "a", None, [2]])
def test_a_number_of_rows_that_cannot_be_drawn_is_refused(count: Any) -> None:
    model = GaussianNB().fit(np.array([[0.0], [1.0], [4.0], [5.0]]), [0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"got n_samples=.*, expected a whole number of at least 1"):
        model.sample(count)


def test_decisions_weigh_losses_and_may_be_declined() -> None:
    rows, labels = np.array([[0.0], [1.0], [4.0], [5.0]]), ["ham", "ham", "spam", "spam"]
    model = NaiveBayes().fit(rows, labels)
    asked = [[0.5], [2.6], [4.5]]
    assert model.decide(asked).tolist() == model.predict(asked).tolist() == ["ham", "spam", "spam"]
    assert model.decide(asked, loss=[[0, 50], [1, 0]]).tolist()[1] == "ham"
    assert model.decide(asked, reject=0.2).tolist() == ["ham", None, "spam"]
    p = model.predict_proba(asked)
    three = model.decide(asked, loss=[[0, 1, 0.3], [1, 0, 0.3]])
    assert three.tolist() == (p @ [[0, 1, 0.3], [1, 0, 0.3]]).argmin(axis=1).tolist()


def two_hills(n: int = 400) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    labels = np.arange(n) % 2
    return rng.normal(np.where(labels, 1.5, -1.5)[:, None], 1.0, (n, 3)), labels


@pytest.mark.parametrize("make", [GaussianNB, NaiveBayes])
@pytest.mark.parametrize("missing", [None, nan, -1], ids=str)
def test_rows_without_labels_help(make: Any, missing: Any) -> None:
    rows, truth = two_hills()
    few = np.arange(len(truth)) < 6
    marked = [int(label) if known else missing for label, known in zip(truth, few, strict=True)]
    model = make(missing_label=-1).fit(rows, marked)
    alone = make().fit(rows[few], truth[few])
    assert model.n_iter_ > 1
    new, answers = two_hills(4000)
    assert model.score(new, answers) > alone.score(new, answers)
    assert model.score(new, answers) > 0.98
    assert_allclose(model.class_count_.sum(), len(rows), rtol=1e-9)


@pytest.mark.parametrize("make", [GaussianNB, NaiveBayes])
def test_rows_without_labels_and_weight_change_nothing(make: Any) -> None:
    rows, truth = two_hills()
    marked = [int(label) if row < 10 else None for row, label in enumerate(truth)]
    model = make(unlabelled_weight=0.0).fit(rows, marked)
    alone = make().fit(rows[:10], truth[:10])
    assert_allclose(model.predict_joint_log_proba(rows), alone.predict_joint_log_proba(rows), rtol=1e-10)
    assert model.class_count_.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("face", FACES, ids=named)
def test_every_face_takes_rows_without_labels(face: Face) -> None:
    rows, labels = face.rows(60)
    marked = [int(label) if row < 40 else None for row, label in enumerate(labels)]
    model = face.make().fit(rows, marked)
    assert_allclose(model.class_count_.sum(), 60.0, rtol=1e-9)
    assert np.isfinite(model.predict_proba(rows)).all()


def test_many_classes_are_fitted_without_a_table_of_rows_by_classes() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(100_000, 3)), rng.integers(0, 10_000, 100_000)
    NaiveBayes().fit(rows[:10], labels[:10])  # what is compiled once is not counted
    tracemalloc.start()
    model = NaiveBayes().fit(rows, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(model.classes_) > 9_000
    assert peak < 200e6  # rows by classes would be eight gigabytes


@pytest.mark.parametrize("estimate", ["map", "mean", "predictive"])
def test_a_column_counts_whatever_its_unit(estimate: Any) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 2
    income, rate = rng.normal(5e4, 2e4, 400), 0.03 + 0.01 * labels + rng.normal(0.0, 0.004, 400)
    for unit in (1.0, 1e-6, 1e-12, 1e-100, 1e100):
        rows = np.column_stack([income, unit * rate])
        assert NaiveBayes(estimate=estimate).fit(rows, labels).score(rows, labels) > 0.85


@pytest.mark.parametrize("estimate", ["mle", "map", "mean", "predictive"])
def test_a_column_that_never_varies_says_nothing(estimate: Any) -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], [30, 300])
    rows = rng.normal(size=(330, 2)) + labels[:, None]
    plain = NaiveBayes(estimate=estimate).fit(rows, labels)
    wide = NaiveBayes(estimate=estimate).fit(np.column_stack([rows, np.full(330, 7.0)]), labels)
    for value in (7.0, 8.0):
        odds = wide.decision_function(np.column_stack([rows, np.full(330, value)]))
        assert_allclose(odds, plain.decision_function(rows), atol=1e-6)
