"""`TokenCounts` is one of scikit-learn's: in pipelines and searches, cloned, pickled, and by its checks."""

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from tamis.text import TokenCounts

TEXTS = ["cheap money now", "meet me now", "send money", "see you at the meeting"] * 10
LABELS = ["spam", "ham", "spam", "ham"] * 10
MODELS = [
    TokenCounts(),
    TokenCounts(ngram_range=(1, 2), min_df=2, unknown=True),
    TokenCounts(vocabulary=["money", "meeting"]),
    TokenCounts(form="hashed", n_features=2**10, alternate_sign=True),
    TokenCounts(analyzer="char_wb", ngram_range=(2, 3), stop_words=None, dtype=np.int32),
]


# Those of scikit-learn's checks that make no numbers up: it runs none of them for what reads texts.
CHECKS = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_valid_tag_types,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_mixin_order,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("form", ["vocabulary", "hashed"])
def test_the_checks_of_scikit_learn(form: Any, check: Any) -> None:
    check("TokenCounts", TokenCounts(form=form))


@pytest.mark.parametrize("form", ["vocabulary", "hashed"])
def test_the_other_checks_are_not_for_texts(form: Any) -> None:
    """As for scikit-learn's own vectorizers; this fails when it learns to check them."""
    with pytest.warns(SkipTestWarning, match="Can't test estimator TokenCounts which requires input"):
        parametrize_with_checks([TokenCounts(form=form)])


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_parameters_and_state_stay_what_they_are(model: TokenCounts) -> None:
    fitted = clone(model)
    assert fitted.fit(TEXTS, LABELS) is fitted
    assert fitted.get_params() == model.get_params()
    before = dict(fitted.__dict__)
    first = fitted.transform(TEXTS)
    fitted.get_feature_names_out()
    assert fitted.__dict__ == before
    assert (fitted.fit(TEXTS).transform(TEXTS) != first).nnz == 0
    assert (clone(model).fit_transform(TEXTS) != first).nnz == 0
    assert (fitted.transform(TEXTS[:7]) != first[:7]).nnz == 0


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_what_is_copied_counts_the_same(model: TokenCounts) -> None:
    fitted = clone(model).fit(TEXTS)
    expected = fitted.transform(TEXTS)
    for again in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), clone(fitted).fit(TEXTS)):
        assert (again.transform(TEXTS) != expected).nnz == 0
        assert again.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()
    assert expected.dtype == np.dtype(model.dtype)


def test_parameters_are_got_and_set() -> None:
    model = TokenCounts(pairs=3, fold="base")
    parameters = model.get_params()
    assert parameters["pairs"] == 3
    assert TokenCounts(**parameters).get_params() == parameters
    assert model.set_params(pairs=0, ngram_range=(1, 2)).tokens("Send Money") == [
        "send",
        "money",
        "send money",
    ]
    assert repr(model) == "TokenCounts(fold='base', ngram_range=(1, 2))"
    with pytest.raises(ValueError, match="Invalid parameter 'norm'"):
        model.set_params(norm="l2")


def test_it_is_part_of_pipelines_and_searches() -> None:
    model = make_pipeline(TokenCounts(), TfidfTransformer(), MultinomialNB())
    assert cross_val_score(model, TEXTS, LABELS).min() == 1.0
    grid = {"tokencounts__ngram_range": [(1, 1), (1, 2)], "tokencounts__form": ["vocabulary", "hashed"]}
    search = GridSearchCV(model, grid, error_score="raise").fit(np.array(TEXTS), LABELS)
    assert search.predict(["cheap money", "the meeting"]).tolist() == ["spam", "ham"]
    names = model.fit(TEXTS, LABELS)[:1].get_feature_names_out()
    assert "money" in names


def test_it_is_given_columns_of_a_frame() -> None:
    frame = pd.DataFrame({"subject": TEXTS, "body": TEXTS[::-1], "size": range(40)})
    columns = ColumnTransformer(
        [("s", TokenCounts(), "subject"), ("b", TokenCounts(), ["body"]), ("n", "passthrough", ["size"])]
    )
    table = columns.fit_transform(frame)
    words = len(TokenCounts().fit(TEXTS).vocabulary_)
    assert table.shape == (40, 2 * words + 1)
    assert columns.get_feature_names_out()[0] == "s__at"


def test_what_was_not_fitted_says_so() -> None:
    for ask in (
        lambda model: model.transform(["a text"]),
        lambda model: model.get_feature_names_out(),
        lambda model: model.vocabulary_,
        lambda model: model.inverse_transform(np.ones((1, 1))),
        lambda model: model.restrict([0]),
        check_is_fitted,
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask(TokenCounts())
    assert not hasattr(TokenCounts(), "vocabulary_")
    for ready in (TokenCounts(form="hashed"), TokenCounts(vocabulary=["money"])):
        check_is_fitted(ready)
        assert ready.transform(["money"]).sum() == 1
    with pytest.raises(AttributeError, match="hashed columns have no vocabulary"):
        _ = TokenCounts(form="hashed").vocabulary_


def test_a_fit_that_fails_leaves_what_was_there() -> None:
    model = TokenCounts().fit(TEXTS)
    names = model.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="empty vocabulary"):
        model.fit(["", "!"])
    with pytest.raises(TypeError, match="document 1 is a int"):
        model.fit(["fine", 3])
    assert model.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("model", MODELS[:3], ids=str)
def test_tokens_of_rows_are_got_back(model: TokenCounts) -> None:
    fitted = clone(model).fit(TEXTS)
    table = fitted.transform(TEXTS)
    names = set(fitted.get_feature_names_out())
    for back, text in zip(fitted.inverse_transform(table), TEXTS, strict=True):
        known = {token if token in names else "<unknown>" for token in fitted.tokens(text)}
        assert set(back) == known & names
    dense = fitted.inverse_transform(table.toarray())
    assert [set(row) for row in dense] == [set(row) for row in fitted.inverse_transform(table)]
    with pytest.raises(ValueError, match=f"got 1 columns, expected {len(names)}"):
        fitted.inverse_transform(np.ones((1, 1)))


def test_counts_are_sparse_and_frames_cannot_be_asked_for() -> None:
    model = TokenCounts().set_output(transform="pandas")
    with pytest.raises(ValueError, match="sparse"):
        model.fit_transform(TEXTS)


def test_sparse_arrays_are_given_where_scikit_learn_asks_for_them() -> None:
    assert type(TokenCounts().fit_transform(TEXTS)).__name__ == "csr_matrix"
    try:
        context = config_context(sparse_interface="sparray")
    except TypeError:  # older than that
        return
    with context:
        assert type(TokenCounts().fit_transform(TEXTS)).__name__ == "csr_array"


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.uint8])
def test_counts_are_of_the_type_that_is_asked_for(kind: Any) -> None:
    for model in (
        TokenCounts(dtype=kind),
        TokenCounts(dtype=kind, form="hashed"),
        TokenCounts(dtype=kind, binary=True),
    ):
        table = model.fit_transform(TEXTS)
        assert table.dtype == kind
        assert table.sum() > 0


# ── refusals ──


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"form": "hash"}, ValueError, "got form='hash', expected 'vocabulary' or 'hashed'"),
        (
            {"form": "hashed", "n_features": 0},
            ValueError,
            "got n_features=0, expected a whole number from 1 to",
        ),
        (
            {"form": "hashed", "n_features": 2**31},
            ValueError,
            "got n_features=2147483648, expected a whole number from 1 to",
        ),
        ({"keep_by": "use"}, ValueError, "got keep_by='use', expected 'count' or 'evidence'"),
        ({"max_features": 0}, ValueError, "got max_features=0, expected a whole number of at least 1"),
        ({"min_df": 1.5}, ValueError, "got min_df=1.5, expected a number of texts"),
        ({"min_df": 3, "max_df": 2}, ValueError, "max_df corresponds to < documents than min_df"),
        ({"min_df": 5, "max_df": 9}, ValueError, "After pruning, no terms remain"),
        ({"stop_words": ["some", "text"]}, ValueError, "empty vocabulary; perhaps"),
        ({"vocabulary": []}, ValueError, "got an empty vocabulary, expected at least one term"),
        ({"vocabulary": "money"}, TypeError, "got vocabulary='money', expected a list of terms"),
        (
            {"vocabulary": ["Money", "money"]},
            ValueError,
            "the terms 'Money' and 'money' are one token, 'money'",
        ),
        ({"vocabulary": {"a1": 0, "b1": 2}}, ValueError, "the columns of the vocabulary are not 0 to 1"),
        ({"vocabulary": ["two-words"]}, ValueError, "the term 'two-words' is not made of tokens"),
        ({"fold": "lower"}, ValueError, "got fold='lower', expected one of"),
        ({"ngram_range": (2, 1)}, ValueError, "got ngram_range"),
    ],
)
def test_a_wrong_setting_is_told(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TokenCounts(**wrong).fit_transform(["some text", "text"])


@pytest.mark.parametrize("nothing", [[], [""], ["", "!"], ["a"]])
def test_texts_without_a_token_have_no_vocabulary(nothing: list[str]) -> None:
    with pytest.raises(ValueError, match="empty vocabulary; perhaps the documents only contain stop words"):
        TokenCounts().fit(nothing)
    assert TokenCounts(form="hashed").fit_transform(nothing).shape == (len(nothing), 2**20)
