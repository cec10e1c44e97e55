"""What encoding bytes are in."""

import codecs
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.text import charset
from tamis.text.charset import GUESSED, decode, guess, to_utf8
from tests.text.test_language import SENTENCES

TRADITIONAL = "誰也不知道那座橋能不能撐住，可是他們還是走了過去。"


def encoded() -> list[tuple[str, str]]:
    found = []
    for name, languages in GUESSED.items():
        for code in languages.split():
            text = TRADITIONAL if name == "big5" else SENTENCES[code]
            try:
                text.encode(name)
            except (
                UnicodeEncodeError
            ):  # Persian and Urdu have letters that cp1256 lacks; Romanian as it is now written
                continue
            found.append((name, text))
    return found


@pytest.mark.parametrize(("name", "text"), encoded())
def test_a_sentence_is_read_as_it_was_written(name: str, text: str) -> None:
    assert decode(text.encode(name)) == text
    assert to_utf8(text.encode(name)) == text.encode()


def test_utf8_is_not_touched() -> None:
    for document in (b"", b"plain", "żółw 東京".encode()):
        assert to_utf8(document) is document


def test_utf8_that_is_declared_is_not_touched_even_if_broken() -> None:
    document = b"caf\xe9 \xff"
    for name in ("utf-8", "UTF8", "unicode-1-1-utf-8", ' "utf-8" '):
        assert to_utf8(document, name) is document


def test_a_few_broken_bytes_leave_it_utf8() -> None:
    document = (SENTENCES["fr"] + SENTENCES["ru"]).encode()
    assert guess(document[:-1] + b"\xff") == "utf-8"
    assert guess(document[:50] + b"\xe9" + document[50:]) == "utf-8"


@pytest.mark.parametrize("name", ["utf-16", "utf-32", "utf-8-sig", "utf-16-le", "utf-16-be", "iso2022_jp"])
def test_marks_and_zeros_and_escapes_tell(name: str) -> None:
    text = SENTENCES["ja"] if name == "iso2022_jp" else SENTENCES["de"]
    assert decode(text.encode(name)) == text


def test_a_mark_is_no_text() -> None:
    assert to_utf8(codecs.BOM_UTF8 + b"text") == b"text"


@pytest.mark.parametrize(
    ("name", "written", "text"),
    [
        ("iso-8859-1", "cp1252", "“quotes” – €"),
        ("x-sjis", "cp932", "①東京"),
        ("gb2312", "gb18030", "東京都"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("unicode-1-1-utf-7", "utf-7", "Größe"),
        ("us-ascii", "cp1251", SENTENCES["ru"]),
        ("ISO-8859-7", "iso8859-7", "γέφυρα"),
    ],
)
def test_what_mail_declares_is_read_as_it_is_meant(name: str, written: str, text: str) -> None:
    assert decode(text.encode(written), name) == text


@pytest.mark.parametrize("name", ["nonsense", "", "base64", "rot13", "a\0b", "undefined"])
def test_what_is_no_encoding_is_told_in_one_line(name: str) -> None:
    with pytest.raises(LookupError, match="expected a name that Python knows") as caught:
        to_utf8(b"caf\xe9", name)
    assert "\n" not in str(caught.value)


def test_declared_but_broken_bytes_are_replaced() -> None:
    assert decode(b"\x81\x20ok", "shift_jis").endswith("ok")


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=300) | st.binary(min_size=1, max_size=40).map(lambda part: 50 * part))
def test_any_bytes_have_an_encoding(document: bytes) -> None:
    codecs.lookup(guess(document))
    found = to_utf8(document)
    if found is not document:
        found.decode("utf-8")
    assert isinstance(decode(document), str)


@settings(deadline=None)
@given(st.text())
def test_utf8_is_always_found(text: str) -> None:
    document = text.encode("utf-8", "ignore")
    if "\0" not in text and "\x1b" not in text and not text.startswith("\ufeff"):
        assert to_utf8(document) is document


def test_languages_are_those_that_are_known() -> None:
    assert set(" ".join(GUESSED.values()).split()) <= set(SENTENCES)


def count_steps(document: bytes) -> int:
    """The lines of Python and the calls of C functions that it takes to guess an encoding."""
    steps = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal steps
        steps += event == "line"
        return trace

    charset._guess_by_words.cache_clear()  # it keeps the guesses of words, which these documents share
    before = sys.gettrace(), sys.getprofile()
    gc.disable()  # what it finalises is not a step of the guess
    sys.settrace(trace)
    sys.setprofile(note)
    try:
        guess(document)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
        gc.enable()
    return steps


@pytest.mark.parametrize(
    "part", [b"\xe4", b"\x80", b"\xff", b"\xe4 ", b"a" * 999 + b"\xe4", b"a" * 999 + b" \xe4"]
)
def test_a_long_document_takes_no_more_steps_than_its_head(part: bytes) -> None:
    guess(b"\xe4\xf6\xfc")  # loads the languages
    head = 1 << 17
    short, long = (part * (size // len(part)) for size in (head, 32 * head))
    assert count_steps(long) <= count_steps(short) + 10


def test_ascii_before_the_first_word_that_tells_is_passed_in_large_steps() -> None:
    guess(b"\xe4\xf6\xfc")
    short, long = (count_steps(b"plain " * (size // 6) + b"\xe4 ") for size in (1 << 17, 1 << 22))
    assert long - short <= 8 * ((1 << 22) // (1 << 16))
