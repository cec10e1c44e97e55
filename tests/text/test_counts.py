"""Counts are those of scikit-learn where both read a text alike; where they do not is listed, and why."""

import inspect
import re
import unicodedata
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.cluster
import sklearn.linear_model
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from tamis.text import TokenCounts

MODULES: list[ModuleType] = [np, np.random, np.linalg, scipy.stats, sklearn.cluster, sklearn.linear_model]
SENTENCES = [
    "Die Bürgermeisterin überreichte dem Künstler gestern früh die Schlüssel",
    "Où êtes-vous né, à Besançon ou à Nîmes ? L'été dernier, c'était le chaos",
    "Съешь ещё этих мягких французских булок, да выпей чаю",
    "Zażółć gęślą jaźń; pchnąć w tę łódź jeża lub ośm skrzyń fig",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío",
    "Flygande bäckasiner söka hwila på mjuka tuvor",
    "Γαζίες καὶ μυρτιὲς δὲν θὰ βρῶ πιὰ στὸ χρυσαφὶ ξέφωτο".casefold(),
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία".casefold(),
    "دع عنك لومي فإن اللوم إغراء وداوني بالتي كانت هي الداء",
    "Տարբեր լեզուներ 2024 թ.",
    "x² + y² = 4, 12 345,67 € and __dunder__ snake_case",
]


@cache
def english() -> list[str]:
    """Docstrings: prose with code, tables and formulas in it."""
    found = [
        inspect.getdoc(getattr(module, name)) or ""
        for module in MODULES
        for name in sorted(dir(module))
        if name[0] != "_" and callable(getattr(module, name))
    ]
    distinct = sorted({text for text in found if len(text) > 200})[::6]
    assert len(distinct) > 40
    return [text.encode("ascii", "ignore").decode() for text in distinct]


@cache
def unicode() -> list[str]:
    """Texts in many languages that hold nothing that is read otherwise here."""
    root = Path(sklearn.__file__).parents[1] / "sphinx" / "locale"  # there if the docs can be built
    found = [*SENTENCES]
    for language in ("cs", "de", "es", "et", "fr", "it", "lt", "pl", "pt_BR", "ro", "ru", "sv", "uk_UA"):
        for path in sorted((root / language).rglob("*.po")):
            text = path.read_text(encoding="utf-8")
            found += re.findall(r'^msgstr "(.{20,})"$', text, flags=re.MULTILINE)[:40]
    return [text for text in found if is_shared(text)]


UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u3000-\ud7ff\uf900-\ufaff\uff00-\uffef]")


def is_shared(text: str) -> bool:
    """Whether a text is read alike: its case is folded as it is lowered, and no mark or joiner is in it."""
    folded, lowered = unicodedata.normalize("NFC", text.casefold()), text.lower()
    kinds = {unicodedata.category(character) for character in text}
    return folded == lowered and not kinds & {"Mn", "Mc", "Me", "Cf"} and not UNSPACED.search(text)


def assert_same(ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape
    assert (np.diff(ours.indices)[np.isin(np.arange(1, ours.nnz), ours.indptr, invert=True)] > 0).all()
    assert (ours != theirs).nnz == 0


def read_corpora() -> list[list[str]]:
    return [english(), unicode()]


def single_spaced(texts: list[str]) -> list[str]:
    return [re.sub(r"\s+", " ", text) for text in texts]


# ── the same ──

SHARED: list[dict[str, Any]] = [
    {},
    {"ngram_range": (2, 2)},
    {"ngram_range": (1, 3)},
    {"analyzer": "char", "ngram_range": (1, 1)},
    {"analyzer": "char", "ngram_range": (2, 4)},
    {"analyzer": "char_wb", "ngram_range": (1, 2)},
    {"analyzer": "char_wb", "ngram_range": (3, 6)},
    {"binary": True},
    {"min_df": 2},
    {"min_df": 0.05, "max_df": 0.5},
    {"max_df": 3},
    {"max_df": 1, "min_df": 1},
    {"min_df": 3, "max_df": 0.9, "ngram_range": (1, 2)},
    {"stop_words": ["the", "and", "of", "die", "le", "data"]},
    {"stop_words": ["the", "of"], "ngram_range": (1, 2)},
    {"vocabulary": ["data", "the", "array", "die", "никогда"]},
    {"vocabulary": {"the": 1, "data": 0}},
    {"vocabulary": ["the data", "array"], "ngram_range": (1, 2)},
]


@pytest.mark.parametrize("which", [0, 1], ids=["ASCII", "Unicode"])
@pytest.mark.parametrize("shared", SHARED, ids=str)
def test_counts_are_those_of_scikit_learn(shared: dict[str, Any], which: int) -> None:
    texts = read_corpora()[which]
    if "analyzer" in shared:  # runs of characters are many
        texts = texts[::4]
    if shared.get("analyzer") == "char":
        texts = single_spaced(texts)
    ours, theirs = TokenCounts(**shared), CountVectorizer(**shared)
    learned, expected = ours.fit_transform(texts), theirs.fit_transform(texts)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert ours.vocabulary_ == theirs.vocabulary_
    assert_same(learned, expected)
    other = [*texts[::3], "new words alone", ""]
    assert_same(ours.transform(other), theirs.transform(other))
    assert_same(TokenCounts(**shared).fit(texts).transform(texts), expected)


@pytest.mark.parametrize("which", [0, 1], ids=["ASCII", "Unicode"])
def test_case_is_kept_if_asked(which: int) -> None:
    texts = read_corpora()[which]
    ours, theirs = TokenCounts(fold="none"), CountVectorizer(lowercase=False)
    assert_same(ours.fit_transform(texts), theirs.fit_transform(texts))
    assert ours.vocabulary_ == theirs.vocabulary_


@pytest.mark.parametrize("which", [0, 1], ids=["ASCII", "Unicode"])
def test_accents_are_taken_off_as_theirs_are(which: int) -> None:
    texts = read_corpora()[which]
    ours, theirs = TokenCounts(fold="base"), CountVectorizer(strip_accents="unicode")
    assert_same(ours.fit_transform(texts), theirs.fit_transform(texts))
    assert ours.vocabulary_ == theirs.vocabulary_


@pytest.mark.parametrize("limit", [1, 10, 500])
@pytest.mark.parametrize("binary", [False, True])
def test_the_most_frequent_columns_are_kept(limit: int, binary: bool) -> None:
    """Of several that are as frequent as the last, ours are the first by name; theirs are some."""
    ours = TokenCounts(max_features=limit, binary=binary, min_df=2)
    theirs = CountVectorizer(max_features=limit, binary=binary, min_df=2)
    learned, expected = ours.fit_transform(english()), theirs.fit_transform(english())
    often, theirs_often = (np.sort(np.asarray(table.sum(axis=0)).ravel()) for table in (learned, expected))
    assert (often == theirs_often).all()
    every = TokenCounts(binary=binary, min_df=2).fit_transform(english()).sum(axis=0)
    names = TokenCounts(binary=binary, min_df=2).fit(english()).get_feature_names_out()
    ranked = sorted(zip((-np.asarray(every)).ravel().tolist(), names, strict=True))[:limit]
    assert sorted(name for _, name in ranked) == ours.get_feature_names_out().tolist()


@pytest.mark.parametrize("width", [2**20, 100, 1])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    "shape", [{}, {"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (3, 4)}]
)
def test_hashed_columns_are_those_of_scikit_learn(width: int, signed: bool, shape: dict[str, Any]) -> None:
    ours = TokenCounts(form="hashed", n_features=width, alternate_sign=signed, **shape)
    theirs = HashingVectorizer(norm=None, n_features=width, alternate_sign=signed, **shape)
    for texts in read_corpora():
        assert_same(ours.transform(texts[::2]), theirs.transform(texts[::2]))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("width", [2**12, 20])
def test_hashed_columns_say_whether_too(signed: bool, width: int) -> None:
    ours = TokenCounts(form="hashed", n_features=width, alternate_sign=signed, binary=True)
    theirs = HashingVectorizer(norm=None, n_features=width, alternate_sign=signed, binary=True)
    found = ours.transform(english())
    assert_same(found, theirs.transform(english()))
    assert set(found.data.tolist()) == {1.0}


@pytest.mark.parametrize("signed", [False, True])
def test_there_may_be_as_many_columns_as_there_are_hashes(signed: bool) -> None:
    ours = TokenCounts(form="hashed", n_features=2**31 - 1, alternate_sign=signed)
    theirs = HashingVectorizer(norm=None, n_features=2**31 - 1, alternate_sign=signed)
    assert_same(ours.transform(unicode()), theirs.transform(unicode()))


shared_characters = st.sampled_from(
    [chr(c) for c in range(0x2C00) if unicodedata.category(chr(c)) != "Cn" and is_shared(chr(c))]
)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.text(shared_characters | st.sampled_from("ab "), max_size=40).filter(is_shared), max_size=4
    ),
    shape=st.sampled_from([{}, {"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 3)}]),
)
def test_any_text_without_what_is_listed_below_is_counted_alike(
    texts: list[str], shape: dict[str, Any]
) -> None:
    texts = [*texts, "ab aba"]
    ours, theirs = TokenCounts(**shape), CountVectorizer(**shape)
    learned, expected = ours.fit_transform(texts), theirs.fit_transform(texts)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    assert_same(learned, expected)


# ── not the same, on purpose ──

DIFFERENCES: list[tuple[str, dict[str, Any], str, list[str], list[str]]] = [
    ("case is folded, not lowered: ß", {}, "Straße STRASSE", ["strasse", "straße"], ["strasse"]),
    ("case is folded: final sigma", {}, "ΛΌΓΟΣ λόγοσ", ["λόγος", "λόγοσ"], ["λόγοσ"]),
    ("case is folded: the micro sign is a mu", {}, "µm μm", ["µm", "μm"], ["μm"]),
    ("case is folded: long s", {}, "ſie sie", ["sie", "ſie"], ["sie"]),
    ("a letter and its mark are the letter", {}, "cafe\u0301 café", ["cafe", "café"], ["café"]),
    ("marks are part of words: Hindi", {}, "हिन्दी", [], ["हिन्दी"]),
    ("marks are part of words: points of Hebrew", {}, "שָׁלוֹם", ["לו"], ["שָׁלוֹם"]),
    ("no spaces between words: pairs (Chinese)", {}, "我爱北京", ["我爱北京"], ["北京", "我爱", "爱北"]),
    ("one ideograph is a word", {}, "年 2024", ["2024"], ["2024", "年"]),
    ("no spaces between words: pairs (Thai)", {}, "ไทย", ["ไทย"], ["ทย", "ไท"]),
    ("Korean in pairs", {}, "한국어", ["한국어"], ["국어", "한국"]),
    ("soft hyphens are not there", {}, "via\u00adgra", ["gra", "via"], ["viagra"]),
    ("joiners are not there", {}, "via\u200dgra", ["gra", "via"], ["viagra"]),
    ("directions are not there", {}, "pay\u202epal", ["pal", "pay"], ["paypal"]),
    ("any white space is one space", {"analyzer": "char", "ngram_range": (3, 3)}, "a\tb", ["a\tb"], ["a b"]),
    ("accents: a fraction stays", {"fold": "base"}, "ab½", ["ab1"], ["ab½"]),
    ("accents: vowels of Hindi are letters", {"fold": "base"}, "हिन्दी", ["नद"], ["हिन्दी"]),
]


@pytest.mark.parametrize(
    ("asked", "text", "theirs", "ours"), [row[1:] for row in DIFFERENCES], ids=[row[0] for row in DIFFERENCES]
)
def test_where_we_differ(asked: dict[str, Any], text: str, theirs: list[str], ours: list[str]) -> None:
    peer = {key: value for key, value in asked.items() if key != "fold"}
    if "fold" in asked:
        peer["strip_accents"] = "unicode"
    assert sorted(set(CountVectorizer(**peer).build_analyzer()(text))) == theirs
    assert TokenCounts(**asked).fit([text]).get_feature_names_out().tolist() == ours


# ── what only we have ──


def test_the_example_of_the_lecture() -> None:
    text = "John sent money to Mary after the meeting about money"
    terms = ["john", "mary", "sex", "money", "send", "meeting"]
    counts = TokenCounts(vocabulary=terms, unknown=True)
    assert counts.fit_transform([text]).toarray().tolist() == [[1, 1, 0, 2, 0, 1, 5]]
    assert counts.get_feature_names_out().tolist() == [*terms, "<unknown>"]
    whether = TokenCounts(vocabulary=terms, binary=True).transform([text])
    assert whether.toarray().tolist() == [[1, 1, 0, 1, 0, 1]]
    unknown = [token for token in counts.tokens(text) if token not in terms]
    assert unknown == ["sent", "to", "after", "the", "about"]


@pytest.mark.parametrize(
    "pruned", [{"min_df": 3}, {"max_features": 20}, {"min_df": 2, "ngram_range": (1, 2)}]
)
def test_what_is_unknown_is_all_that_is_left(pruned: dict[str, Any]) -> None:
    every = TokenCounts(ngram_range=pruned.get("ngram_range", (1, 1))).fit_transform(english())
    model = TokenCounts(unknown=True, **pruned)
    learned = model.fit_transform(english())
    assert (learned.sum(axis=1) == every.sum(axis=1)).all()
    assert_same(model.transform(english()), learned)
    assert learned.shape[1] == len(model.get_feature_names_out()) == len(model.vocabulary_) + 1
    assert model.transform(["never seen zzz", ""])[:, -1].toarray().ravel().tolist()[1] == 0


def test_names_are_each_once() -> None:
    shapes: list[Any] = [{"ngram_range": (1, 3), "pairs": 3}, {"ngram_range": None, "pairs": 3}, {"pairs": 1}]
    for shape in shapes:
        model = TokenCounts(**shape)
        names = model.fit(english()[:30]).get_feature_names_out().tolist()
        assert names == sorted(set(names))
        assert len(names) == len(model.vocabulary_)


def test_columns_are_kept_by_their_evidence() -> None:
    texts = ["the offer", "the offer now", "the meeting", "the meeting now"]
    labels = ["spam", "spam", "ham", "ham"]
    by_evidence = TokenCounts(max_features=2, keep_by="evidence").fit(texts, labels)
    assert by_evidence.get_feature_names_out().tolist() == ["meeting", "offer"]
    by_count = TokenCounts(max_features=1).fit(texts, labels)
    assert by_count.get_feature_names_out().tolist() == ["the"]
    learned = TokenCounts(max_features=2, keep_by="evidence").fit_transform(texts, labels)
    assert learned.toarray().tolist() == [[0, 1], [0, 1], [1, 0], [1, 0]]
    with pytest.raises(ValueError, match="got keep_by='evidence' and no labels"):
        TokenCounts(max_features=2, keep_by="evidence").fit(texts)


def test_evidence_is_the_gain_in_log_likelihood() -> None:
    """What a token says is half the statistic of the likelihood-ratio test of independence."""
    rng = np.random.default_rng(3)
    words = [f"w{k:02}" for k in range(40)]
    texts = [" ".join(rng.choice(words, size=12)) for _ in range(90)]
    labels = np.arange(90) % 3
    whole = TokenCounts(binary=True)
    has = whole.fit_transform(texts).toarray() > 0
    says = {}
    for name, column in zip(whole.get_feature_names_out(), has.T, strict=True):
        cells = [np.bincount(labels[column], minlength=3), np.bincount(labels[~column], minlength=3)]
        says[name] = scipy.stats.chi2_contingency(cells, correction=False, lambda_="log-likelihood")[0]
    ranked = sorted(says, key=lambda name: -says[name])
    for limit in (1, 7, 20):
        model = TokenCounts(max_features=limit, keep_by="evidence").fit(texts, labels)
        assert set(model.vocabulary_) == set(ranked[:limit])


def test_a_vocabulary_may_be_restricted() -> None:
    model = TokenCounts(unknown=True).fit(["aa bb cc dd", "aa"])
    before = model.transform(["aa bb cc dd dd"]).toarray()
    model.restrict(np.array([True, False, True, False]))
    assert model.get_feature_names_out().tolist() == ["aa", "cc", "<unknown>"]
    after = model.transform(["aa bb cc dd dd"]).toarray()
    assert after.tolist() == [[before[0, 0], before[0, 2], 3]]
    model.restrict([1])
    assert model.vocabulary_ == {"cc": 0}
    given_terms = TokenCounts(vocabulary=["bb", "aa"]).restrict([0])
    assert given_terms.transform(["aa bb bb"]).toarray().tolist() == [[2]]
    for wrong in ([False], [0, 9], [True, False, True], []):
        with pytest.raises(ValueError, match="expected some of 0 to 0, or a mask"):
            model.restrict(wrong)
    with pytest.raises(ValueError, match="got hashed columns, expected a vocabulary"):
        TokenCounts(form="hashed").restrict([0])


def test_hashed_columns_have_names_if_they_are_remembered() -> None:
    model = TokenCounts(form="hashed", n_features=64, names=5).fit(["money money send", "money mary send"])
    names = model.get_feature_names_out()
    assert len(names) == 64
    row = model.transform(["money"]).toarray()[0]
    assert "money" in names[int(row.argmax())].split(" | ")
    assert sum(not name.startswith("#") for name in names) == 3
    plain = TokenCounts(form="hashed", n_features=3).get_feature_names_out()
    assert plain.tolist() == ["#0", "#1", "#2"]


def test_texts_that_can_be_read_once_are_read_once() -> None:
    texts = english()[:9]
    for model in (
        TokenCounts(),
        TokenCounts(form="hashed", names=3, n_features=99),
        TokenCounts(form="hashed"),
    ):
        assert_same(model.fit_transform(iter(texts)), model.fit_transform(texts))


def test_a_set_of_terms_has_its_columns_by_name() -> None:
    terms = {f"term{k}" for k in range(50)}
    assert TokenCounts(vocabulary=terms).get_feature_names_out().tolist() == sorted(terms)


def test_columns_that_were_signed_stay_signed() -> None:
    texts = ["money for the meeting, and money for you"]
    model = TokenCounts(form="hashed", alternate_sign=True, n_features=50).fit(texts)
    before = model.transform(texts)
    model.set_params(alternate_sign=False)
    assert_same(model.transform(texts), before)
