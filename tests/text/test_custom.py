"""A pattern or functions of one's own give the columns and counts of scikit-learn's vectorizers."""

import inspect
import io
import pickle
import re
import threading
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.pipeline import make_pipeline

import tamis
from tamis.text import TokenCounts, counts, fit_stream
from tamis.text.custom import CustomAnalyzer
from tamis.text.tokenizer import Tokenizer
from tests.text.test_counts import assert_same, english, read_corpora, unicode

DEFAULT_PATTERN = r"(?u)\b\w\w+\b"


def split_at_commas(text: str) -> list[str]:
    return text.split(",")


def without_digits(text: str) -> str:
    return re.sub(r"\d", "", text).lower()


def initials(text: str) -> list[str]:
    return [word[0] for word in text.split()]


def without_vowels(text: str) -> str:
    return re.sub("[aeiou]", "", text)


def named(asked: dict[str, Any]) -> str:
    """The same name in every process, which the address of a function is not."""
    return ", ".join(f"{name}={getattr(value, '__name__', value)!s}" for name, value in asked.items())


CUSTOM: list[dict[str, Any]] = [
    {"token_pattern": r"(?u)\b\w+\b"},
    {"token_pattern": r"(?u)\b\w+\b", "ngram_range": (1, 2)},
    {"token_pattern": r"#?(\w+)-?", "lowercase": False},
    {"token_pattern": r"\w*"},  # empty tokens, too
    {"tokenizer": str.split, "token_pattern": None},
    {
        "tokenizer": split_at_commas,
        "token_pattern": None,
        "ngram_range": (1, 3),
    },  # tokens with spaces in them
    {"tokenizer": split_at_commas, "token_pattern": None, "stop_words": ["", "the"]},
    {"preprocessor": without_digits},
    {
        "preprocessor": without_digits,
        "strip_accents": "unicode",
        "stop_words": ["the"],
        "ngram_range": (2, 2),
    },
    {"preprocessor": without_digits, "analyzer": "char", "ngram_range": (1, 3)},
    {"preprocessor": without_digits, "analyzer": "char_wb", "ngram_range": (2, 4)},
    {"analyzer": initials},
    {"analyzer": initials, "binary": True, "min_df": 2},
    {"strip_accents": "ascii"},
    {"strip_accents": without_vowels, "max_df": 0.5},
    {"strip_accents": "unicode", "lowercase": False},
    {"strip_accents": "ascii", "analyzer": "char", "ngram_range": (2, 2)},
    {"token_pattern": r"[a-z]+", "vocabulary": ["the", "array", "data"]},
    {"token_pattern": r"[a-z]+", "min_df": 0.05, "max_df": 0.8},
]


@pytest.mark.parametrize("which", [0, 1], ids=["ASCII", "Unicode"])
@pytest.mark.parametrize("asked", CUSTOM, ids=named)
def test_columns_and_counts_are_those_of_count_vectorizer(asked: dict[str, Any], which: int) -> None:
    texts = read_corpora()[which][::4]
    ours, theirs = TokenCounts(**asked), CountVectorizer(**asked)
    learned, expected = ours.fit_transform(texts), theirs.fit_transform(texts)
    assert isinstance(ours.build_reader(), CustomAnalyzer)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert ours.vocabulary_ == theirs.vocabulary_
    assert ours.fixed_vocabulary_ == theirs.fixed_vocabulary_
    assert_same(learned, expected)
    other = [*texts[::3], "new words alone", ""]
    assert_same(ours.transform(other), theirs.transform(other))
    assert_same(TokenCounts(**asked).fit(texts).transform(texts), expected)
    for mine, peer in zip(ours.inverse_transform(learned), theirs.inverse_transform(expected), strict=True):
        assert sorted(mine) == sorted(peer)


@pytest.mark.parametrize(
    "asked", [case for case in CUSTOM if not {"min_df", "max_df"} & case.keys()], ids=named
)
@pytest.mark.parametrize("signed", [False, True])
def test_hashed_columns_are_those_of_hashing_vectorizer(asked: dict[str, Any], signed: bool) -> None:
    shared = {name: value for name, value in asked.items() if name != "vocabulary"}
    texts = unicode()[:40]
    ours = TokenCounts(form="hashed", n_features=500, alternate_sign=signed, **shared)
    theirs = HashingVectorizer(norm=None, n_features=500, alternate_sign=signed, **shared)
    assert_same(ours.transform(texts), theirs.transform(texts))


patterns = st.sampled_from([r"(?u)\b\w+\b", r"[a-z]{2,}", r"\S+", r"(\w)\w*", r"\w*"])


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("ab ,"), max_size=40), max_size=4
    ),
    pattern=patterns,
    most=st.integers(1, 3),
    lowercase=st.booleans(),
    accents=st.sampled_from([None, "ascii", "unicode"]),
)
def test_any_text_is_counted_alike(
    texts: list[str], pattern: str, most: int, lowercase: bool, accents: Any
) -> None:
    texts = [*texts, "ab aba"]
    asked: dict[str, Any] = {
        "token_pattern": pattern,
        "ngram_range": (1, most),
        "lowercase": lowercase,
        "strip_accents": accents,
    }
    ours, theirs = TokenCounts(**asked), CountVectorizer(**asked)
    learned, expected = ours.fit_transform(texts), theirs.fit_transform(texts)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert_same(learned, expected)
    assert_same(ours.transform(texts[::-1]), theirs.transform(texts[::-1]))


# ── which path is taken ──

COMPILED: list[tuple[dict[str, Any], str]] = [
    ({}, "case"),
    ({"token_pattern": DEFAULT_PATTERN, "lowercase": True}, "case"),
    ({"lowercase": False}, "none"),
    ({"lowercase": False, "fold": "none"}, "none"),
    ({"strip_accents": "unicode"}, "base"),
    ({"strip_accents": "unicode", "fold": "base"}, "base"),
    ({"analyzer": "char", "token_pattern": None}, "case"),
]


@pytest.mark.parametrize(("asked", "fold"), COMPILED, ids=str)
def test_what_the_compiled_tokenizer_can_do_it_does(asked: dict[str, Any], fold: str) -> None:
    reader = TokenCounts(**asked).build_reader()
    assert isinstance(reader, Tokenizer)
    assert reader.fold == fold


@pytest.mark.parametrize("which", [0, 1], ids=["ASCII", "Unicode"])
@pytest.mark.parametrize("asked", [{"lowercase": False}, {"strip_accents": "unicode"}], ids=str)
def test_case_and_accents_by_the_names_of_scikit_learn(asked: dict[str, Any], which: int) -> None:
    texts = read_corpora()[which]
    ours, theirs = TokenCounts(**asked), CountVectorizer(**asked)
    assert_same(ours.fit_transform(texts), theirs.fit_transform(texts))
    assert ours.vocabulary_ == theirs.vocabulary_


# ── all that else depends on tokens ──


def test_pairs_and_unknown_words_are_counted_as_by_the_compiled_tokenizer() -> None:
    texts = english()[:20]
    shapes: list[Any] = [{"pairs": 3}, {"ngram_range": None, "pairs": 2}, {"ngram_range": (1, 2), "pairs": 2}]
    limits: list[Any] = [{}, {"unknown": True, "min_df": 2}, {"max_features": 30}]
    for shape in shapes:
        for rest in limits:
            compiled = TokenCounts(**shape, **rest)
            custom = TokenCounts(token_pattern=r"\b\w\w+\b", **shape, **rest)
            assert_same(custom.fit_transform(texts), compiled.fit_transform(texts))
            assert custom.get_feature_names_out().tolist() == compiled.get_feature_names_out().tolist()


def test_no_result_depends_on_how_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = unicode()
    whole = TokenCounts(token_pattern=r"\w+", ngram_range=(1, 2))
    expected = whole.fit_transform(texts)
    monkeypatch.setattr(counts, "_MIN_CHUNK", 1)
    monkeypatch.setattr(TokenCounts.read_chunks, "__defaults__", (200, 0))
    cut = TokenCounts(token_pattern=r"\w+", ngram_range=(1, 2))
    assert len(list(cut.read_chunks(texts, cut.build_reader()))) > 5
    assert_same(cut.fit_transform(texts), expected)
    assert cut.vocabulary_ == whole.vocabulary_
    assert sum(part.shape[0] for part in cut.batches(texts)) == len(texts)


def test_functions_are_called_in_the_callers_thread_in_the_order_of_the_texts() -> None:
    seen: list[tuple[str, int]] = []

    def watch(text: str) -> list[str]:
        seen.append((text, threading.get_ident()))
        return [text]

    texts = [f"t{k}" for k in range(50)]
    TokenCounts(analyzer=watch).fit(iter(texts))
    assert seen == [(text, threading.get_ident()) for text in texts]


def test_streams_learn_what_fit_learns() -> None:
    mail = [("cheap-pills now", "spam"), ("lunch at noon", "ham"), ("cheap-lunch", "ham"), ("now", "spam")]
    forms: list[Any] = ["vocabulary", "hashed"]
    for form in forms:
        read = TokenCounts(form=form, tokenizer=str.split)
        streamed = fit_stream(make_pipeline(clone(read), tamis.MultinomialNB()), iter(mail))
        whole = make_pipeline(read, tamis.MultinomialNB()).fit(*zip(*mail, strict=True))
        assert streamed[-1].statistic_ == whole[-1].statistic_
        assert streamed.predict(["cheap-pills"]).tolist() == ["spam"]


def test_documents_may_be_anything_that_the_first_function_takes() -> None:
    listed = [["send", "money"], ["send", "mary"]]
    theirs = CountVectorizer(analyzer=list).fit_transform(listed)
    assert_same(TokenCounts(analyzer=list).fit_transform(listed), theirs)
    as_they_are = TokenCounts(tokenizer=list, lowercase=False)
    assert_same(as_they_are.fit_transform(listed), theirs)
    with pytest.raises(TypeError, match="document 0 is a list, expected text"):
        TokenCounts(tokenizer=list).fit(listed)
    with pytest.raises(TypeError, match="document 1 has the token 3, expected tokens that are str"):
        TokenCounts(analyzer=list).fit([["a"], [3]])
    with pytest.raises(ValueError, match="expected tokens without lone surrogates"):
        TokenCounts(analyzer=list).fit([["a\ud800"]])


def test_texts_come_from_frames_bytes_and_files_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes("für dich".encode("cp1252"))
    model = TokenCounts(token_pattern=r"\S+")
    model.fit([tmp_path / "one.txt", b"gr\xc3\xbcn", "x", None, float("nan")])
    assert model.get_feature_names_out().tolist() == ["dich", "für", "grün", "x"]
    frame = pd.DataFrame({"text": ["a b", None, "b"]})
    assert model.fit_transform(frame).toarray().tolist() == [[1, 1], [0, 0], [0, 1]]
    with pytest.raises(ValueError, match="put it into a list"):
        model.fit("one text")
    with pytest.raises(TypeError, match="got a int, expected an iterable"):
        model.fit(3)


@pytest.mark.parametrize("pattern", [DEFAULT_PATTERN, r"\w+"])
def test_documents_are_names_of_files_or_open_files_if_asked(tmp_path: Path, pattern: str) -> None:
    texts = ["Grün ist gut", "blau nicht"]
    paths = []
    for k, text in enumerate(texts):
        paths.append(tmp_path / f"{k}.txt")
        paths[-1].write_text(text, encoding="utf-8")
    expected = TokenCounts(token_pattern=pattern).fit_transform(texts)
    shared: dict[str, Any] = {"token_pattern": pattern}
    assert_same(TokenCounts(input="filename", **shared).fit_transform(list(map(str, paths))), expected)
    opened = [io.BytesIO(text.encode()) for text in texts]
    assert_same(TokenCounts(input="file", **shared).fit_transform(opened), expected)
    opened_texts = [io.StringIO(text) for text in texts]
    assert_same(TokenCounts(input="file", **shared).fit_transform(opened_texts), expected)
    names: list[Any] = ["file", "filename"]
    for wrong in names:
        with pytest.raises(TypeError, match="document 0 is a float, expected"):
            TokenCounts(input=wrong, **shared).fit([1.0])
    with pytest.raises(FileNotFoundError):
        TokenCounts(input="filename", **shared).fit(["no-such-file"])


@pytest.mark.parametrize("pattern", [DEFAULT_PATTERN, r"(?u)\b\w+\b"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_bytes_are_decoded_as_asked(pattern: str, encoding: str) -> None:
    document = b"caf\xc3\xa9 na\xefve"
    for errors in ("strict", "ignore"):
        asked: dict[str, Any] = {"encoding": encoding, "decode_error": errors, "token_pattern": pattern}
        ours, theirs = TokenCounts(**asked), CountVectorizer(**asked)
        try:
            expected = theirs.fit_transform([document])
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError, match="document 0: give its encoding"):
                ours.fit_transform([document])
            continue
        assert_same(ours.fit_transform([document]), expected)
        assert ours.vocabulary_ == theirs.vocabulary_
        assert ours.decode(document) == theirs.decode(document)


# ── scikit-learn's names ──


def test_every_parameter_and_method_of_scikit_learns_is_here() -> None:
    """But for `norm`, which is `tamis.text.UnitLength`, and the `partial_fit` that does nothing."""
    ours = set(inspect.signature(TokenCounts).parameters)
    for peer, less in ((CountVectorizer, set()), (HashingVectorizer, {"norm"})):
        assert set(inspect.signature(peer).parameters) - ours == less
    public = {name for name in dir(CountVectorizer) if not name.startswith("_")}
    assert public <= set(dir(TokenCounts))
    hashing = {name for name in dir(HashingVectorizer) if not name.startswith("_")}
    assert hashing - set(dir(TokenCounts)) == {"partial_fit"}


@pytest.mark.parametrize("asked", CUSTOM, ids=named)
def test_the_steps_are_those_of_scikit_learn(asked: dict[str, Any]) -> None:
    ours, theirs = TokenCounts(**asked), CountVectorizer(**asked)
    for text in unicode()[:20]:
        assert sorted(ours.build_analyzer()(text)) == sorted(theirs.build_analyzer()(text))
        assert ours.build_preprocessor()(text) == theirs.build_preprocessor()(text)
        if asked.get("analyzer", "word") == "word":
            assert ours.build_tokenizer()(text) == theirs.build_tokenizer()(text)
    assert ours.get_stop_words() == theirs.get_stop_words()


@pytest.mark.parametrize("asked", [{}, {"strip_accents": "unicode"}, {"lowercase": False}], ids=str)
def test_the_compiled_steps_make_up_the_whole(asked: dict[str, Any]) -> None:
    model, theirs = TokenCounts(**asked), CountVectorizer(**asked)
    fold, split, analyze = model.build_preprocessor(), model.build_tokenizer(), model.build_analyzer()
    for text in unicode():
        assert split(fold(text)) == analyze(text) == model.tokens(text) == theirs.build_analyzer()(text)
        assert split(text) == theirs.build_tokenizer()(text)
        spaced = re.sub(r"\s+", " ", unicodedata.normalize("NFC", text))
        assert fold(spaced) == theirs.build_preprocessor()(spaced)
    assert analyze(None) == []
    assert pickle.loads(pickle.dumps(analyze))("ab cd") == ["ab", "cd"]


def test_copies_read_as_the_original_does() -> None:
    model = TokenCounts(tokenizer=split_at_commas, preprocessor=without_digits).fit(["a1,b", "b,c"])
    again = pickle.loads(pickle.dumps(model))
    assert_same(again.transform(["a,b2"]), model.transform(["a,b2"]))
    assert clone(model).get_params() == model.get_params()


# ── saving ──


def test_a_pattern_is_saved(tmp_path: Path) -> None:
    model = TokenCounts(token_pattern=r"\w+", strip_accents="ascii", ngram_range=(1, 2), unknown=True)
    model.fit(["a café b", "c"])
    tamis.save(model, tmp_path / "model.tamis")
    again = tamis.load(tmp_path / "model.tamis")
    assert_same(again.transform(["cafe a b"]), model.transform(["cafe a b"]))
    assert again.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


@pytest.mark.parametrize("name", ["analyzer", "preprocessor", "tokenizer", "strip_accents"])
@pytest.mark.parametrize("form", ["vocabulary", "hashed"])
def test_a_function_cannot_be_saved(name: str, form: Any, tmp_path: Path) -> None:
    asked: dict[str, Any] = {name: str.split if name in ("analyzer", "tokenizer") else str.upper}
    model = TokenCounts(form=form, **asked).fit(["ab cd"])
    with pytest.raises(
        TypeError, match=f"got {name}=<method .*>, expected no function: a file holds no code"
    ):
        tamis.save(model, tmp_path / "model.tamis")
    assert not list(tmp_path.iterdir())


# ── refusals ──


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"tokenizer": "split"}, TypeError, "got tokenizer='split', expected a function, or None"),
        ({"preprocessor": "lower"}, TypeError, "got preprocessor='lower', expected a function, or None"),
        ({"token_pattern": None}, TypeError, "got token_pattern=None, expected a regular expression"),
        ({"token_pattern": r"(\w)(\w)"}, ValueError, "capturing group"),
        ({"strip_accents": "latin"}, ValueError, "got strip_accents='latin', expected 'ascii', 'unicode'"),
        ({"strip_accents": "unicode", "fold": "none"}, ValueError, "expected one of them"),
        ({"lowercase": False, "fold": "base"}, ValueError, "which folds case: expected one of them"),
        ({"tokenizer": str.split, "fold": "base"}, ValueError, "got fold='base' with a pattern or function"),
        ({"token_pattern": r"\w+", "min_length": 3}, ValueError, "got min_length=3 with a pattern"),
        ({"analyzer": str.split, "pairs": 2}, ValueError, "with pairs, stop words or no ngram_range"),
        ({"analyzer": str.split, "stop_words": ["a"]}, ValueError, "with pairs, stop words"),
        ({"analyzer": "words", "preprocessor": str.upper}, ValueError, "got analyzer='words', expected"),
        ({"input": "files"}, ValueError, "got input='files', expected 'content', 'filename' or 'file'"),
        ({"decode_error": "raise"}, ValueError, "got decode_error='raise', expected 'strict'"),
    ],
)
def test_a_wrong_setting_is_told(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        TokenCounts(**wrong).fit(["some text", "text"])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tokenizer": str.split, "token_pattern": r"\w+"}, "token_pattern is not used, because tokenizer"),
        (
            {"analyzer": "char", "token_pattern": r"\w+"},
            "token_pattern is not used, because analyzer is 'char'",
        ),
        ({"analyzer": "char", "tokenizer": str.split}, "tokenizer is not used, because analyzer is 'char'"),
        ({"analyzer": str.split, "preprocessor": str.upper}, "preprocessor is not used"),
        ({"analyzer": str.split, "ngram_range": (1, 2)}, "ngram_range is not used"),
        ({"token_pattern": r"\w+", "vocabulary": ["Text"]}, "'Text' is never found, because texts are lower"),
    ],
)
def test_a_setting_that_is_not_used_is_warned_of(asked: dict[str, Any], message: str) -> None:
    with pytest.warns(UserWarning, match=message):
        TokenCounts(**asked).fit(["some text", "text"])


def test_nothing_is_warned_of_that_is_used() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for asked in CUSTOM:
            if "stop_words" not in asked:  # scikit-learn warns of those that a tokenizer cuts otherwise
                TokenCounts(**asked).fit(["the array, 12 data", "the array, more data", "array, data"])
