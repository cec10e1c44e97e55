"""One pass over texts learns what `fit` learns, to the bit, whatever the chunks; or says why it cannot."""

import io
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import MultinomialNB as TheirNB
from sklearn.pipeline import make_pipeline

import tamis
from tamis.text import TfIdf, TokenCounts, fit_stream
from tamis.text import stream as module

WORDS = ["money", "meeting", "Geld", "東京都", "lunch", "noon", "pills", "a", ""]
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
pairs = st.lists(st.tuples(texts, st.sampled_from(["spam", "ham", "news"])), min_size=1, max_size=30)

COUNTS: dict[str, dict[str, Any]] = {
    "vocabulary": {},
    "phrases": {"ngram_range": (1, 2), "pairs": 3},
    "pruned": {"min_df": 2, "unknown": True},
    "few": {"max_features": 3},
    "given": {"vocabulary": ["money", "lunch"], "unknown": True},
    "binary": {"binary": True},
    "hashed": {"form": "hashed", "n_features": 8},
}
MODELS = {
    "multinomial": tamis.MultinomialNB,
    "complement": tamis.ComplementNB,
    "bernoulli": tamis.BernoulliNB,
    "poisson": tamis.PoissonNB,
}


@pytest.fixture(params=[1, 40, 1 << 19])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks of one text each, of some, and of all."""
    monkeypatch.setattr(module, "CHUNK_BYTES", request.param)
    monkeypatch.setattr(module, "_SMALL_CHUNK", request.param)
    return int(request.param)


@pytest.mark.hypothesis  # for tools/fuzz, which cannot see the property inside
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("counts", COUNTS)
def test_one_pass_learns_what_fit_learns(counts: str, model: str, chunk: int) -> None:
    if counts == "pruned" and model == "bernoulli":
        pytest.skip("unknown words of a vocabulary pruned in the same pass cannot be flags: told by an error")

    @settings(max_examples=8, deadline=None)
    @given(pairs)
    def holds(mail: list[tuple[str, str]]) -> None:
        def made() -> Any:
            return make_pipeline(TokenCounts(**COUNTS[counts]), MODELS[model]())

        try:
            whole = made().fit([text for text, _ in mail], [label for _, label in mail])
        except ValueError as problem:
            with pytest.raises(ValueError, match=str(problem).split(":")[0].split("(")[0]):
                fit_stream(made(), iter(mail))
            return
        found = fit_stream(made(), iter(mail))
        assert found[-1].statistic_ == whole[-1].statistic_
        assert found[0].get_feature_names_out().tolist() == whole[0].get_feature_names_out().tolist()
        assert (found.predict_proba(["money lunch", ""]) == whole.predict_proba(["money lunch", ""])).all()

    holds()


def test_more_adds_to_what_was_learned() -> None:
    mail = [("cheap pills", "spam"), ("lunch at noon", "ham"), ("cheap lunch", "ham"), ("news", "news")]
    for counts in (TokenCounts(form="hashed", n_features=64), TokenCounts(vocabulary=["cheap", "news"])):
        whole = fit_stream(make_pipeline(clone(counts), tamis.MultinomialNB()), mail)
        parts = fit_stream(make_pipeline(clone(counts), tamis.MultinomialNB()), mail[:2])
        assert fit_stream(parts, mail[2:], more=True)[-1].statistic_ == whole[-1].statistic_
        assert fit_stream(parts, mail)[-1].statistic_ == whole[-1].statistic_  # without more, anew


def test_a_learned_vocabulary_stays_when_more_is_learned() -> None:
    first = fit_stream(make_pipeline(TokenCounts(), tamis.MultinomialNB()), [("aa bb", 0), ("bb", 1)])
    fit_stream(first, [("aa zz", 1)], more=True)
    assert first[0].get_feature_names_out().tolist() == ["aa", "bb"]
    assert first[-1].class_count_.tolist() == [1.0, 2.0]


def test_a_classifier_alone_gets_hashed_counts_and_takes_texts() -> None:
    found = fit_stream(
        tamis.ComplementNB(), [("cheap pills", "spam"), ("lunch", "ham"), ("more pills", "spam")]
    )
    assert found.predict(["pills"]).tolist() == ["spam"]
    assert found[0].form == "hashed"


@pytest.mark.parametrize("learner", [SGDClassifier(random_state=0), TheirNB()])
def test_one_that_cannot_learn_from_sums_learns_from_rows(learner: Any, chunk: int) -> None:
    counts = TokenCounts(form="hashed", n_features=64)
    first = [("cheap pills", "spam"), ("lunch", "ham")]
    learner.partial_fit(
        counts.transform([t for t, _ in first]), [y for _, y in first], classes=["ham", "spam"]
    )
    found = fit_stream(make_pipeline(counts, learner), first * 5, more=True)
    assert found.predict(["cheap pills", "lunch"]).tolist() == ["spam", "ham"]
    with pytest.raises(TypeError, match="learns from rows, for which the columns must be known"):
        fit_stream(make_pipeline(TokenCounts(), learner), first)


def test_what_cannot_be_streamed_is_told() -> None:
    mail = [("cheap pills", "spam"), ("lunch", "ham")]
    three = TokenCounts(binary=True, unknown=True, min_df=2)
    with pytest.raises(
        TypeError, match="got a pipeline of TokenCounts, TfIdf, MultinomialNB, expected TokenCounts and"
    ):
        fit_stream(make_pipeline(TokenCounts(), TfIdf(), tamis.MultinomialNB()), mail)
    with pytest.raises(TypeError, match=r"item 1 is a str, expected \(text, label\): zip\(texts, labels\)"):
        fit_stream(tamis.MultinomialNB(), [mail[0], "lunch"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="document 0 is a int, expected text"):
        fit_stream(tamis.MultinomialNB(), [(3, "spam")])
    with pytest.raises(
        ValueError, match="unknown=True, binary counts and a vocabulary pruned in the same pass"
    ):
        fit_stream(make_pipeline(three, tamis.MultinomialNB()), [*mail, ("cheap", "spam")])


def test_a_model_is_as_it_was_if_the_texts_break_off() -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield "cheap pills", "spam"
        raise OSError("the disk is gone")

    model = fit_stream(tamis.MultinomialNB(), [("cheap pills", "spam"), ("lunch", "ham")])
    before = model[-1].statistic_
    for more in (True, False):
        with pytest.raises(OSError, match="the disk is gone"):
            fit_stream(model, broken(), more=more)
        assert model[-1].statistic_ == before


def test_names_are_remembered_on_the_way() -> None:
    counts = TokenCounts(form="hashed", n_features=1024, names=2)
    found = fit_stream(
        make_pipeline(counts, tamis.MultinomialNB()), [("pills pills lunch", 0), ("lunch at noon", 1)]
    )
    named = sorted(name for name in found[0].get_feature_names_out() if not name.startswith("#"))
    assert named == ["lunch", "pills"]


def test_progress_is_told_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    fit_stream(tamis.MultinomialNB(), [("cheap pills", 0), ("lunch", 1)], progress=True)
    assert stream.getvalue().startswith("2 texts, 0.0 MB, ")
    fit_stream(tamis.MultinomialNB(), [("cheap pills", 0), ("lunch", 1)])
    assert stream.getvalue().count("\n") == 1


def test_models_of_counts_learn_from_sums() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (40, 6)), rng.integers(0, 3, 40)
    for model in (tamis.MultinomialNB, tamis.ComplementNB, tamis.PoissonNB):
        whole = model().fit(X, y)
        parts = model().partial_fit_sums(tamis.stats.Tally.observe(X[:10], by=y[:10]))
        parts.partial_fit_sums(tamis.stats.Tally.observe(X[10:], by=y[10:]))
        assert parts.statistic_ == whole.statistic_
    with pytest.raises(ValueError, match="got sums of 5 columns, expected 6"):
        parts.partial_fit_sums(tamis.stats.Tally.observe(X[:, :5], by=y))
    with pytest.raises(ValueError, match="more would be subtracted"):
        parts.partial_fit_sums(tamis.stats.Tally.observe(X, by=y) * -2.0)
    with pytest.raises(TypeError, match="gaussian columns cannot be learned from sums"):
        tamis.GaussianNB().partial_fit_sums(tamis.stats.Tally.observe(X, by=y))
    assert parts.statistic_ == whole.statistic_


@pytest.mark.parametrize("binarize", [1.0, None])
def test_flags_of_another_threshold_are_learned_from_rows(binarize: float | None) -> None:
    mail = [("pills pills pills", "spam"), ("pills lunch", "ham"), ("lunch lunch", "ham")]
    counts = TokenCounts(form="hashed", n_features=64, binary=binarize is None)
    whole = make_pipeline(clone(counts), tamis.BernoulliNB(binarize=binarize)).fit(*zip(*mail, strict=True))
    found = fit_stream(make_pipeline(clone(counts), tamis.BernoulliNB(binarize=binarize)), mail)
    assert found[-1].statistic_ == whole[-1].statistic_


def test_labels_that_are_missing_are_told() -> None:
    for label in (None, float("nan"), -1):
        with pytest.raises(ValueError, match="a label is missing, expected one for each text"):
            fit_stream(tamis.MultinomialNB(missing_label=-1), [("pills", 0), ("lunch", label)])
    with pytest.raises(ValueError, match="got no texts, expected at least one"):
        fit_stream(tamis.MultinomialNB(), [])
    with pytest.raises(TypeError, match="got a NoneType, expected texts with labels"):
        fit_stream(tamis.MultinomialNB(), None)  # type: ignore[arg-type]


def test_more_keeps_names_and_restricted_columns() -> None:
    counts = TokenCounts(form="hashed", n_features=1024, names=5)
    found = fit_stream(make_pipeline(counts, tamis.MultinomialNB()), [("money now", 0), ("noon", 1)])
    fit_stream(found, [("zzz", 1)], more=True)
    assert {"money", "zzz"} <= set(found[0].get_feature_names_out())
    given_terms = TokenCounts(vocabulary=["aa", "bb", "cc"]).fit([]).restrict([0, 2])
    fit_stream(make_pipeline(given_terms, tamis.MultinomialNB()), [("aa bb cc", 0), ("cc", 1)], more=True)
    assert given_terms.get_feature_names_out().tolist() == ["aa", "cc"]


def test_classes_may_be_told_beforehand() -> None:
    counts = TokenCounts(form="hashed", n_features=64)
    mail = [("cheap pills", "spam")] * 5 + [("lunch", "ham")] * 5
    found = fit_stream(make_pipeline(counts, TheirNB()), mail, classes=["ham", "spam"])
    assert found.predict(["pills", "lunch"]).tolist() == ["spam", "ham"]
