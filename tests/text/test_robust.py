"""Whatever bytes come: no error, the output that is stated here, and steps in proportion to the text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tamis._kernels.text import reference  # noqa: PLC2701 (its steps can be counted)
from tamis.compiled import core
from tamis.text import TokenCounts, Tokenizer
from tests.kernels.text_door import use_kernels
from tests.steps import assert_proportional

MEGA = 1_000_000 if core is not None else 10_000  # the reference would take minutes


def counted(texts: list[str] | list[bytes], **settings: Any) -> dict[str, float]:
    model = TokenCounts(**settings)
    total = np.asarray(model.fit_transform(texts).sum(axis=0)).ravel()
    return dict(zip(model.get_feature_names_out().tolist(), total.tolist(), strict=True))


# ── large documents ──


def test_one_long_word_is_one_word() -> None:
    assert counted([b"x" * 50 * MEGA]) == {"x" * 50 * MEGA: 1}


def test_marks_upon_marks_are_one_word() -> None:
    (found,) = counted(["e" + "\u0301" * 10 * MEGA])
    assert len(found) == 10 * MEGA
    assert found[:3] == "é\u0301\u0301"


def test_what_turns_the_line_about_is_not_there() -> None:
    assert counted(["\u202e" * 7 * MEGA + "gnp.exe"]) == {"gnp": 1, "exe": 1}
    assert counted(["ab" + "\u202e" * 7 * MEGA + "cd"]) == {"abcd": 1}


def test_chinese_without_end_is_pairs() -> None:
    n = 3 * MEGA
    assert counted(["中文" * n]) == {"中文": n, "文中": n - 1}


def test_bytes_that_are_no_utf8_break_words() -> None:
    assert counted([b"ab\xff" * 5 * MEGA], encoding="utf-8") == {"ab": 5 * MEGA}


def test_long_runs_of_characters() -> None:
    assert counted(["ab" * MEGA], analyzer="char", ngram_range=(3, 3)) == {"aba": MEGA - 1, "bab": MEGA - 1}
    assert counted(["a" + " " * 5 * MEGA + "b"], analyzer="char", ngram_range=(3, 3)) == {"a b": 1}
    assert counted(["x" * 2 * MEGA], analyzer="char_wb", ngram_range=(2, 2)) == {
        " x": 1,
        "xx": 2 * MEGA - 1,
        "x ": 1,
    }


def test_a_phrase_of_one_word_over_and_over() -> None:
    found = counted(["spam " * MEGA], ngram_range=(1, 3), pairs=3)
    assert found == {
        "spam": MEGA,
        "spam spam": MEGA - 1,
        "spam spam spam": MEGA - 2,
        "spam * spam": MEGA - 2,
        "spam * * spam": MEGA - 3,
    }


def test_long_words_that_differ_at_their_ends() -> None:
    stem = "a" * 100_000
    found = counted([" ".join(f"{stem}{k}" for k in range(50))])
    assert list(found) == sorted(f"{stem}{k}" for k in range(50))
    assert set(found.values()) == {1}


def test_a_million_documents_of_nothing() -> None:
    model = TokenCounts(vocabulary=["money"])
    table = model.transform([""] * MEGA)
    assert table.shape == (MEGA, 1)
    assert table.nnz == 0
    learned = TokenCounts().fit([*([""] * 1000), "money"])
    assert learned.vocabulary_ == {"money": 0}


GROWING: dict[str, tuple[Callable[[int], str | bytes], dict[str, Any]]] = {
    "a long word": (lambda n: b"x" * n, {}),
    "marks upon marks": (lambda n: "e" + "\u0301" * n, {}),
    "what turns the line about": (lambda n: "ab" + "\u202e" * n + "cd", {}),
    "Chinese": (lambda n: "中文" * n, {}),
    "bytes that are no UTF-8": (lambda n: b"ab\xff" * n, {}),
    "runs of characters": (lambda n: "ab" * n, {"analyzer": "char", "ngram_range": (3, 3)}),
    "blanks": (lambda n: "a" + " " * n + "b", {"analyzer": "char", "ngram_range": (3, 3)}),
    "runs within a word": (lambda n: "x" * n, {"analyzer": "char_wb", "ngram_range": (2, 2)}),
    "phrases of one word": (lambda n: "spam " * n, {"ngram_range": (1, 3), "pairs": 3}),
    "words that differ at their ends": (lambda n: " ".join(f"{'a' * 50}{k}" for k in range(n)), {}),
}


@pytest.mark.parametrize("name", GROWING)
def test_the_steps_of_the_reference_grow_in_proportion_to_the_text(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_kernels(monkeypatch, reference)
    write, settings = GROWING[name]
    tokenizer = Tokenizer(**settings)
    assert_proportional(lambda n: tokenizer.tokens(write(n)), 250)


# ── odd documents ──


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"\0", []),
        (b"ab\0cd", ["ab", "cd"]),
        (b"ab\xffcd", ["ab", "cd"]),
        (b"\xc3", []),
        (b"ab\xc3", ["ab"]),
        (b"caf\xc3\xa9", ["café"]),
        (b"caf\xc3 \xa9", ["caf"]),
        (b"\xc0\xafab", ["ab"]),  # overlong
        (b"ab\xed\xa0\x80cd", ["ab", "cd"]),  # a surrogate
        (b"ab\xf4\x90\x80\x80cd", ["ab", "cd"]),  # beyond Unicode
        (b"\xe6\x97\xa5\xe6", ["日"]),
        ("ab\ud800cd", ["ab", "cd"]),
        ("\ufeffab", ["ab"]),
        ("\u0301ab", ["ab"]),
        ("ab\u0301", ["ab\u0301"]),
        ("日\u0301本", ["日本"]),
        ("\u202eab\u202c", ["ab"]),
        ("a\u200db", ["ab"]),
        ("ab\ufe0f", ["ab"]),
        ("🙂🙂 ab", ["ab"]),
        ("\U0010ffff ab \U000e0041", ["ab"]),
        (" \t\r\n\x0b\x0c\x1c\x85\u2028 ", []),
    ],
)
def test_odd_texts(text: str | bytes, expected: list[str]) -> None:
    assert Tokenizer().tokens(text) == expected
    model = TokenCounts(vocabulary=expected or ["none"], encoding="utf-8")
    assert model.transform([text, b"", text]).sum() == 2 * len(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a\xff", ["a", "\ufffd", "a\ufffd"]),
        (b"a\0", ["a", "\0", "a\0"]),
        ("\u0301", ["\u0301"]),
        ("  ", [" "]),
        ("a\u00adb", ["a", "b", "ab"]),
    ],
)
def test_odd_runs_of_characters(text: str | bytes, expected: list[str]) -> None:
    assert Tokenizer(analyzer="char", ngram_range=(1, 2)).tokens(text) == expected


def test_random_bytes_are_read() -> None:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, size=n, dtype=np.uint8).tobytes() for n in (1, 2, 3, 63, 64, 65, 100_000)]
    shapes: list[Any] = [
        {},
        {"analyzer": "char"},
        {"analyzer": "char_wb"},
        {"ngram_range": (1, 2), "pairs": 3},
    ]
    for shape in shapes:
        model = TokenCounts(encoding="utf-8", **shape)
        table = model.fit_transform(noise)
        tokens = [len(model.tokens(text)) for text in noise]
        assert np.asarray(table.sum(axis=1)).ravel().tolist() == tokens
        assert tokens[-1] > 1000
