"""Text for terminals: how wide it is, cut to a width, without characters that hide or move anything."""

import pytest

from tamis_mail.surfaces.cli.layout import clip, pad, replace_hidden, width_of


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("限时", 4),
        ("ｶﾅ", 2),  # halfwidth
        ("e\u0301", 1),  # an accent
        ("ก\u0e31น", 2),  # a vowel above a Thai consonant
        ("a\u20dd", 1),  # an enclosing circle
        ("🙂", 2),
    ],
)
def test_a_text_takes_the_columns_that_terminals_give_it(text: str, width: int) -> None:
    assert width_of(text) == width


@pytest.mark.parametrize("text", ["", "abcdef", "限时优惠", "a限b时", "e\u0301e\u0301e\u0301"])
@pytest.mark.parametrize("dots", ["…", "..."])
@pytest.mark.parametrize("width", range(8))
def test_a_cut_text_is_never_wider_than_asked(text: str, dots: str, width: int) -> None:
    assert width_of(clip(text, width, dots)) <= width
    assert width_of(pad(text, width, dots)) == width
    if width_of(text) <= width:
        assert clip(text, width, dots) == text


@pytest.mark.parametrize(
    "hidden", ["\x1b", "\u202e", "\u200b", "\u115f", "\u1160", "\u2800", "\u3164", "\uffa0", "\ue000"]
)
def test_what_cannot_be_seen_becomes_a_dot(hidden: str) -> None:
    assert replace_hidden(f"a{hidden}b") == "a·b"
    assert replace_hidden("Grüße, 限时 🙂") == "Grüße, 限时 🙂"
