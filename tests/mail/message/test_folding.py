"""Text in disguise is read as it looks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import fold_text

MEGA = 1 << 20


@pytest.mark.parametrize(
    ("text", "folded", "found"),
    [
        ("", "", ()),
        ("Hello, World", "hello, world", ()),
        ("Straße ÉTÉ", "strasse été", ()),
        ("v\u0456agra", "viagra", ("mixed-script",)),
        ("V\u0406\u0410GRA", "viagra", ("mixed-script",)),
        ("p\u03b1ypal", "paypal", ("mixed-script",)),
        ("Привет, мир: hello", "привет, мир: hello", ()),
        ("IT\u0448\u043d\u0438\u043a", "it\u0448\u043d\u0438\u043a", ("mixed-script",)),
        ("vi\u200bag\u2060ra", "viagra", ("zero-width",)),
        ("vi\xadagra", "viagra", ("soft-hyphen",)),
        ("a \u200c\u200c b", "a  b", ()),
        ("می\u200cخواهم", "میخواهم", ()),
        ("Ｆｒｅｅ", "free", ("full-width",)),
        ("\U0001d403\U0001d41e\U0001d41a\U0001d425", "deal", ("math-letters",)),
        ("ⓕⓡⓔⓔ", "free", ("math-letters",)),
        ("ﬁne", "fine", ()),
        ("buy v i a g r a now", "buy v i a g r a now", ("spaced-out",)),
        ("V.I.A.G.R.A", "v.i.a.g.r.a", ("spaced-out",)),
        ("v_i_a_g_r_a é", "v_i_a_g_r_a é", ("spaced-out",)),
        ("I am a b c man", "i am a b c man", ()),
        ("U.S.A. and e.g. this", "u.s.a. and e.g. this", ()),
        ("cafe\u0301", "café", ()),
    ],
)
def test_what_it_looks_like(text: str, folded: str, found: tuple[str, ...]) -> None:
    assert fold_text(text) == (folded, found)


@pytest.mark.parametrize(
    "unit",
    [
        "\u0301",
        "a" + "\u0301" * 50,
        "\u05b0\u05b1",
        "\u200b",
        "a\u0430",
        "\ufdfa",
        "\U0001d400",
        "a ",
        "é.",
        "\u1100\u1161",
    ],
)
def test_what_is_large_is_folded_all_the_same(unit: str) -> None:
    folded, _ = fold_text("needle " + unit * (MEGA // len(unit)))
    assert folded.startswith("needle")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_any_text_can_be_folded(text: str) -> None:
    folded, found = fold_text(text)
    assert found == tuple(sorted(set(found)))
    assert len(folded) <= 20 * len(text)
    if text.isascii():
        assert folded == text.lower()
    assert "\u200b" not in folded
