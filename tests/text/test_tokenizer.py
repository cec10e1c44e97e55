"""Tokens are what `unicodedata` and `re` say: nothing here asks the kernels what is right."""

import re
import subprocess
import sys
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamis.text import Corpus, Tokenizer

thoroughly = settings(max_examples=100, deadline=None)
UNSPACED = re.compile(
    "(HALFWIDTH |FULLWIDTH )?"
    "(CJK|HIRAGANA|KATAKANA|HANGUL|THAI|LAO|KHMER|MYANMAR|IDEOGRAPHIC ITERATION|BOPOMOFO|IDEOGRAPHIC CLOSING)"
)
WHITE = re.compile(r"\s+")


# ── the oracle ──


@cache
def kind(character: str) -> str:
    """b, w, m, u or s: a break, of a word, a mark, of a script without spaces, skipped."""
    category = unicodedata.category(character)
    if category == "Cf" or "VARIATION SELECTOR" in unicodedata.name(character, ""):
        return "s"
    if category[0] in "LM" and UNSPACED.match(unicodedata.name(character, "")):
        return "u"
    if category[0] == "M":
        return "m" if unicodedata.category(character.casefold()[0])[0] == "M" else "w"
    return "w" if category[0] in "LN" or character == "_" else "b"


def fold(character: str, case: bool) -> str:
    return unicodedata.normalize("NFC", character.casefold()) if case else character


def composed(characters: list[str]) -> str:
    """Marks together with what they are on, where there is a character for both."""
    out = ""
    for character in characters:
        both = unicodedata.normalize("NFC", out[-1:] + character)
        joins = bool(out) and len(both) == 1 and kind(character) == "m"
        out = out[:-1] + both if joins else out + character
    return out


def words(text: str, case: bool = True, pairs: bool = True, shortest: int = 2) -> list[str]:
    """The words of a text, and pairs of characters where no spaces part words."""
    seen = [character for character in text if kind(character) != "s"]
    kinds = "".join(kind(character) for character in seen)
    if not pairs:
        kinds = kinds.replace("u", "w")
    found = []
    for match in re.finditer("w[wm]*|u[um]*", kinds):
        run = [fold(c, case) for c in seen[slice(*match.span())]]
        if match[0][0] == "w":
            if len(composed(run)) >= shortest:
                found.append(composed(run))
            continue
        each: list[str] = []
        for character, its in zip(run, match[0], strict=True):
            if its == "u":
                each.append(character)
            elif len(both := composed([each[-1], character])) == 1:
                each[-1] = both
        found += [a + b for a, b in pairwise(each)] or each
    return found


def characters(text: str, case: bool = True) -> str:
    """A text as runs of characters are taken from it."""
    seen = [fold(c, case) for c in text if kind(c) != "s" or WHITE.match(c)]
    return WHITE.sub(" ", composed(seen))


def runs(text: str, least: int, most: int) -> list[str]:
    return [text[i : i + n] for n in range(least, most + 1) for i in range(len(text) - n + 1)]


def runs_within(text: str, least: int, most: int) -> list[str]:
    found = []
    for word in text.split(" "):
        for n in range(least, most + 1) if word else ():
            spaced = f" {word} "
            found += runs(spaced, n, n) or [spaced]
            if len(spaced) <= n:
                break
    return found


# ── texts ──

LETTERS = "aAzZ019_éÉßẞΣςσİıŉſµªÅǆǅאبकกंЙйĳ"
OTHERS = "日本語年カかがｶ々ー한국ไทยกาປົກမြ \t\n.,-'\u00a0\u3000\0\u00ad\u200b\u200d\u202e\u2066\ufeff\ufe0f"
MARKS = "\u0300\u0301\u0308\u030a\u0323\u0327\u05b4\u064b\u093c\u0951\u3099\u309a\u20dd"


def is_plain(character: str) -> bool:
    """One of Unicode 14 that is no mark, carries one at most, and is no part of a Korean syllable."""
    if unicodedata.category(character)[0] == "M" or unicodedata.category(character) in ("Cn", "Cs", "Co"):
        return kind(character) == "u" and len(unicodedata.normalize("NFD", character)) == 1
    if any("HANGUL" in unicodedata.name(c, "") for c in unicodedata.normalize("NFKD", character)):
        return character in "한국"
    return len(unicodedata.normalize("NFD", character)) <= 2 and character != "〇"


def marked(drawn: tuple[str, str]) -> str:
    """With a mark, if it has none yet."""
    character, mark = drawn
    may = kind(character) != "s" and len(unicodedata.normalize("NFD", fold(character, True))) == 1
    return character + mark if may else character


RANGES = [
    range(0x3400),
    range(0x4E00, 0x4E80),
    range(0xA000, 0xA830),
    range(0xF900, 0x10400),
    range(0x1D400, 0x1F700),
]
PLAIN = [chr(code) for codes in RANGES for code in codes if is_plain(chr(code))]
plain = st.sampled_from(LETTERS + OTHERS) | st.sampled_from(PLAIN)
texts = st.lists(st.tuples(plain, st.sampled_from([*MARKS, *([""] * 20)])).map(marked), max_size=25).map(
    "".join
)


# ── words ──


@thoroughly
@given(text=texts, case=st.booleans(), pairs=st.booleans(), shortest=st.integers(1, 4))
@example(text="Straße CAFE\u0301 日本語 ไทย soft\u00adhyphen", case=True, pairs=True, shortest=2)
def test_words_are_what_unicode_says(text: str, case: bool, pairs: bool, shortest: int) -> None:
    tokenizer = Tokenizer(
        fold="case" if case else "none", unspaced="pairs" if pairs else "words", min_length=shortest
    )
    assert tokenizer.tokens(text) == words(text, case, pairs, shortest)


@thoroughly
@given(text=texts)
def test_texts_that_look_the_same_have_the_same_tokens(text: str) -> None:
    text = text.replace("한", "").replace("국", "")
    whole, parts = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert Tokenizer().tokens(whole) == Tokenizer().tokens(parts)
    analyzers: list[Any] = ["char", "char_wb"]
    for analyzer in analyzers:
        runs_of = Tokenizer(analyzer=analyzer, ngram_range=(1, 3))
        assert runs_of.tokens(whole) == runs_of.tokens(parts)


def test_korean_in_parts_is_korean() -> None:
    assert Tokenizer().tokens(unicodedata.normalize("NFD", "한국어 문장")) == Tokenizer().tokens(
        "한국어 문장"
    )


def test_half_width_kana_are_voiced() -> None:
    assert Tokenizer(fold="compatible").tokens("ｶﾞｷﾞ") == ["ガギ"]


def test_zero_is_an_ideograph() -> None:
    assert Tokenizer().tokens("二〇二四年") == ["二〇", "〇二", "二四", "四年"]


@thoroughly
@given(text=texts)
def test_what_a_token_is_read_as_is_the_token(text: str) -> None:
    for token in Tokenizer(unspaced="words").tokens(text):
        assert Tokenizer(unspaced="words").tokens(token) == [token]


@thoroughly
@given(text=texts, data=st.binary(max_size=20))
def test_bytes_are_utf8_and_what_is_not_breaks_words(text: str, data: bytes) -> None:
    assert Tokenizer().tokens(text.encode()) == Tokenizer().tokens(text)
    escaped = data.decode("utf-8", "surrogateescape")
    broken = re.sub("[\udc80-\udcff]", " ", escaped)
    assert Tokenizer(min_length=1).tokens(data) == Tokenizer(min_length=1).tokens(broken)


@pytest.mark.parametrize(
    ("fold", "text", "expected"),
    [
        ("none", "Straße ÉCOLE e\u0301", ["Straße", "ÉCOLE"]),
        ("case", "Straße ÉCOLE ΣΊΣΥΦΟΣ Ŀl", ["strasse", "école", "σίσυφοσ", "ŀl"]),
        ("compatible", "ﬁsh Ｗｉｄｅ ℡ ½ x² ⅷ", ["fish", "wide", "x2", "viii"]),
        (
            "base",
            "ÉCOLE naïve Ångström e\u0301e\u0301 Ελλάδα",
            ["ecole", "naive", "angstrom", "ee", "ελλαδα"],
        ),
        ("base", "שָׁלוֹם", ["שלום"]),
        ("base", "हिन्दी", ["हिन्दी"]),
        ("case", "हिन्दी שָׁלוֹם", ["हिन्दी", "שָׁלוֹם"]),
    ],
)
def test_ways_of_folding(fold: Any, text: str, expected: list[str]) -> None:
    assert Tokenizer(fold=fold).tokens(text) == expected


def test_digits_have_a_shape() -> None:
    text = "call 0800-555 or ٣٤ on 2024"
    assert Tokenizer(digits="shape").tokens(text) == ["call", "0000", "000", "or", "00", "on", "0000"]


# ── phrases ──


@thoroughly
@given(
    text=texts,
    sizes=st.sampled_from([(1, 1), (2, 2), (1, 3), (3, 4), None]),
    pairs=st.integers(0, 4),
    stops=st.frozensets(st.sampled_from(["aa", "zz", "ss", "日本", "k"])),
)
def test_phrases_are_words_that_follow_each_other(
    text: str, sizes: tuple[int, int] | None, pairs: int, stops: frozenset[str]
) -> None:
    if sizes is None and not pairs:
        pairs = 2
    tokenizer = Tokenizer(ngram_range=sizes, pairs=pairs, min_length=1, stop_words=stops)
    text = f"Aa zz k {text} aa SS 日本"
    found = [word for word in words(text, shortest=1) if word not in stops]
    least, most = sizes or (1, 0)
    expected = [" ".join(found[i : i + n]) for n in range(least, most + 1) for i in range(len(found) - n + 1)]
    expected += [
        f"{found[i]} {'* ' * (d - 1)}{found[i + d]}"
        for d in range(2 if least <= 2 <= most else 1, pairs + 1)  # two words side by side are counted once
        for i in range(len(found) - d)
    ]
    assert tokenizer.tokens(text) == expected


def test_stop_words_are_read_as_texts_are() -> None:
    tokenizer = Tokenizer(stop_words=frozenset({"THE", "Straße", "i'm", "!"}))
    assert tokenizer.tokens("The strasse, I'm here") == ["here"]


# ── runs of characters ──


@thoroughly
@given(text=texts, case=st.booleans(), sizes=st.sampled_from([(1, 1), (2, 2), (1, 4), (3, 7)]))
def test_runs_of_characters(text: str, case: bool, sizes: tuple[int, int]) -> None:
    fold_by: Any = "case" if case else "none"
    read = characters(text, case)
    whole = Tokenizer(analyzer="char", ngram_range=sizes, fold=fold_by)
    assert whole.tokens(text) == runs(read, *sizes)
    within = Tokenizer(analyzer="char_wb", ngram_range=sizes, fold=fold_by)
    assert within.tokens(text) == runs_within(read, *sizes)


# ── documents ──


@thoroughly
@given(
    documents=st.lists(texts, max_size=5), sizes=st.sampled_from([(1, 1), (1, 2)]), pairs=st.integers(0, 2)
)
def test_a_document_is_counted_as_if_it_were_alone(
    documents: list[str], sizes: tuple[int, int], pairs: int
) -> None:
    tokenizer = Tokenizer(ngram_range=sizes, pairs=pairs)
    lexicon, rows = tokenizer.count(Corpus.of(documents))
    names = lexicon.names.strings()
    for d, document in enumerate(documents):
        entries = slice(rows.indptr[d], rows.indptr[d + 1])
        counted = dict(
            zip([names[k] for k in rows.indices[entries]], rows.counts[entries].tolist(), strict=True)
        )
        tokens = tokenizer.tokens(document)
        assert counted == {token: tokens.count(token) for token in tokens}
    assert len(names) == len(set(names))


@thoroughly
@given(text=texts, sizes=st.sampled_from([(1, 1), (2, 2)]), pairs=st.sampled_from([0, 3]))
def test_a_token_is_its_own_name(text: str, sizes: tuple[int, int], pairs: int) -> None:
    tokenizer = Tokenizer(ngram_range=sizes, pairs=pairs)
    for token in tokenizer.tokens(text):
        assert tokenizer.name(token) == token


# ── refusals ──


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"analyzer": "words"}, "got analyzer='words', expected 'word', 'char' or 'char_wb'"),
        ({"ngram_range": (2, 1)}, r"got ngram_range=\(2, 1\), expected"),
        ({"ngram_range": (0, 1)}, r"got ngram_range=\(0, 1\), expected"),
        ({"ngram_range": None}, "nothing would be counted"),
        ({"pairs": -1}, "got pairs=-1"),
        ({"min_length": 0}, "min_length=0, expected"),
        ({"analyzer": "char", "pairs": 2}, "which need words"),
        ({"analyzer": "char_wb", "stop_words": frozenset({"a"})}, "which need words"),
        ({"analyzer": "char", "ngram_range": None}, "which need words"),
    ],
)
def test_a_wrong_setting_is_told(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tokenizer(**wrong)


@pytest.mark.parametrize("term", ["", "!", "a", "two-words", "東京都", "the"])
def test_a_term_that_no_text_could_hold_is_told(term: str) -> None:
    with pytest.raises(ValueError, match=f"the term {term!r} is not made of tokens"):
        Tokenizer(stop_words=frozenset({"the"})).name(term)


def test_one_message_loads_nothing_heavy() -> None:
    script = """
import sys
from tamis.text import Tokenizer
print(Tokenizer(ngram_range=(1, 2), stop_words=frozenset({"to"})).tokens("Send money to Mary"))
print([name for name in ("scipy", "sklearn", "pandas", "pyarrow") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['send', 'money', 'mary', 'send money', 'money mary']", "[]"]
