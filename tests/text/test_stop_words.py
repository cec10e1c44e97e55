"""Lists of words that say little."""

from importlib.resources import files
from unicodedata import normalize

import pytest

from tamis.text.stop_words import NAMES, stop_words


def test_none_stops_nothing() -> None:
    assert stop_words(None) == frozenset()


def test_a_list_is_of_words_even_if_they_look_like_codes() -> None:
    assert stop_words(["en", "de"]) == {"en", "de"}
    with pytest.raises(TypeError, match="expected a list of words"):
        stop_words(iter(["a"]))  # it could be read but once


@pytest.mark.parametrize("given", ["en", "EN", "english", "English", " en "])
def test_a_string_is_a_language_by_code_or_name(given: str) -> None:
    assert {"the", "and", "don", "ll", "ve"} <= stop_words(given)


def test_languages_may_be_joined() -> None:
    assert stop_words("en+de+french") == stop_words("en") | stop_words("de") | stop_words("fr")


@pytest.mark.parametrize("given", ["xx", "", "en+", "the and of"])
def test_an_unknown_language_is_told_with_those_known(given: str) -> None:
    with pytest.raises(
        ValueError, match=r"expected a list of words or a language among ar, bg, .*vi$"
    ) as caught:
        stop_words(given)
    assert "\n" not in str(caught.value)


def test_each_file_is_a_language_and_each_language_has_a_file() -> None:
    names = {entry.name for entry in files("tamis.text.stop_words").iterdir() if entry.name.endswith(".txt")}
    assert names == {f"{code}.txt" for code in NAMES}


@pytest.mark.parametrize("code", NAMES)
def test_lists_are_of_words_in_lower_case(code: str) -> None:
    words = stop_words(code)
    assert 60 <= len(words) <= 250
    for word in words:
        assert word == normalize("NFC", word).lower()
        assert not any(character.isdigit() or character in "_#.,'" for character in word)
