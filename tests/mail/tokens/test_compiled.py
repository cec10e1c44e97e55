"""The compiled core reads the same tokens as the reference in Python, to the byte."""

import random
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_mail import Fuzzer
from benchmarks.hostile_mail import CASES
from tamis import compiled
from tamis_mail import tokens
from tamis_mail.message import Message, Part, canonical, fold_text, parse
from tamis_mail.sample import messages
from tamis_mail.tokens import head, headers, reference, relations, words
from tamis_mail.tokens.body import Body

if compiled.core is None:
    pytest.skip("there is no compiled core", allow_module_level=True)
mail: Any = compiled.core.mail

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.eml"))

# Letters whose lower case or class is unusual, white space and digits of all kinds, and what is no letter.
HARD = (
    *(
        "ſ",
        "İ",
        "ı",
        "ß",
        "ẞ",
        "Σ",
        "σς",
        "ΑΣ",
        "\u212a",
        "\u212b",
        "ﬁ",
        "\uff21",
        "\uff5a",
        "\uff11",
        "\uff01",
    ),
    *(
        "\uff20",
        "\uff0e",
        "٣",
        "۵",
        "৪",
        "\U0001d7d7",
        "²",
        "½",
        "Ⅷ",
        "①",
        "〇",
        "e\u0301",
        "\u0301",
        "\u0345",
    ),
    *(
        "\u034f",
        "\u3099",
        "\uff9e",
        "\ufdfa",
        "ǅ",
        "ª",
        "\xa0",
        "\x85",
        "\u1680",
        "\u2003",
        "\u2028",
        "\u2029",
    ),
    *(
        "\u202f",
        "\u3000",
        "\u200b",
        "\u200d",
        "\xad",
        "\ufeff",
        "\x00",
        "\x1b",
        "\x1c",
        "\x1f",
        "\x7f",
        "\x80",
    ),
    *("\ud800", "\udfff", "\udcff", "\ufffd", "\uffff", "\U0010ffff", "\U0001d400", "\U0001f600", "→", "✓"),
    *(
        "限时优惠",
        "あア",
        "한국",
        "กขค",
        "ລາວ",
        "\u1019\u103c\u1014",
        "\u1781\u17d2\u1798",
        "\U00020000\U00020001",
    ),
    *(
        "\u0430",
        "\u0455\u0435\u0445",
        "αb",
        "…",
        "«»",
        "‿",
        "\uff3f",
        "\u05be",
        "·",
        "\U000e0041",
        "\U0001f1e6",
    ),
)
# Pieces that have a meaning in header fields, links and results.
PIECES = (
    *(
        "a",
        "B",
        "9",
        "_",
        "-",
        ".",
        "..",
        "@",
        "<",
        ">",
        "(",
        ")",
        '"',
        "'",
        "[",
        "]",
        ",",
        ":",
        ";",
        "=",
        " ",
        "  ",
    ),
    *(
        "\t",
        "\n",
        "\r",
        "/",
        "\\",
        "?",
        "#",
        "!",
        "!!",
        "$",
        "+",
        "*",
        "%",
        "|",
        "~",
        "&",
        "x" * 40,
        "y" * 63,
    ),
    *(
        "z" * 101,
        "w." * 10,
        "1.2.3.4",
        "10.0.0.",
        "id ",
        "id x",
        "with ",
        "with esmtp",
        "d=",
        "d = ",
        " d=a.b",
        "D=a",
    ),
    *(
        "boundary=",
        "charset=",
        "text/html",
        "+0100",
        "-00",
        "gmt",
        "(cest)",
        "utc\n",
        "re:",
        "Fwd:",
        "http://",
        "://",
    ),
    *(
        "HTTPS://",
        "www.",
        "cid:",
        "spf",
        "dkim=pass",
        "; dmarc = fail",
        "arc=",
        "example.org",
        ".co.uk",
        "github.io",
    ),
    *(
        "a@gmail.com",
        "info@",
        "<b@example.org>",
        "qq.com",
        "v i a g r a",
        "f.r.e.e.e",
        "a_b_c_d_e",
        "http:",
        "&amp;",
    ),
)
TEXTS = st.lists(
    st.sampled_from(PIECES) | st.sampled_from(HARD) | st.characters(codec=None), max_size=25
).map("".join)
NAMES = st.sampled_from(
    [
        *(
            "from",
            "to",
            "cc",
            "subject",
            "date",
            "message-id",
            "received",
            "received",
            "content-type",
            "x-mailer",
        ),
        *(
            "reply-to",
            "return-path",
            "sender",
            "errors-to",
            "list-unsubscribe",
            "list-unsubscribe-post",
            "list-id",
        ),
        *(
            "dkim-signature",
            "authentication-results",
            "references",
            "in-reply-to",
            "content-disposition",
            "user-agent",
        ),
        *("organization", "x-face", "x-anything", "", "é", "x-\ud800"),
    ]
)
FIELDS = st.lists(st.tuples(NAMES, TEXTS), max_size=12)
KINDS = st.sampled_from(["text/plain", "text/html", "image/png", "text/\ud800", "a b", ""])
ENCODINGS = st.sampled_from(["", "quoted-printable", "base64", "7 bit", "é" * 20])
STYLES = (
    "@media",
    "@import",
    "@font-face",
    "mso-",
    "xmlns",
    "<script",
    "<form",
    "<!DOCTYPE html>",
    "<!doctype",
)
PAGES = st.lists(st.sampled_from(STYLES) | TEXTS, max_size=6).map("".join)
PARTS = st.builds(
    lambda kind, encoding, text: Part(kind, "", encoding, "", "", 0, text), KINDS, ENCODINGS, PAGES
)
ESCAPES = st.lists(
    st.sampled_from([b"=\n", b"=3d", b"=3D", b"=e", b"=fa", b"\n", b"\n\n", b"x" * 60, b"A: b\n", b" "]),
    max_size=30,
).map(b"".join)
HEADS = st.lists(
    st.sampled_from(
        [
            *(
                b"Received: a; b",
                b"RECEIVED:",
                b"received:; ",
                b"Date:",
                b"date: 12 Jan 2002 11:14:11 +0100",
                b"id x",
            ),
            *(
                b" id 4711;",
                b"id ",
                b"_id y",
                b"\xe9id z",
                b"\n",
                b"\n ",
                b"\n\t \t",
                b"\n\n",
                b"\r\n",
                b";",
                b"9",
            ),
            *(b"x" * 700, b"Subject: hi", b"\0", b"\xff"),
        ]
    )
    | st.binary(max_size=8),
    max_size=25,
).map(b"".join)


def encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def assert_same_tokens(message: Message) -> None:
    for version in tokens.COMPILED_VERSIONS:
        assert tokens.read(message, version) == reference.read(message, version)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_messages_have_the_tokens_of_the_reference(path: Path) -> None:
    assert_same_tokens(parse(canonical(path.read_bytes())))


@pytest.mark.parametrize("size", [300, 6000])
def test_hostile_messages_have_the_tokens_of_the_reference(size: int) -> None:
    for case in CASES.values():
        assert_same_tokens(parse(canonical(case(size))))


def test_sample_messages_and_their_mutants_have_the_tokens_of_the_reference() -> None:
    corpus = [one.raw for one in messages()] + [path.read_bytes() for path in GOLDEN]
    for raw in corpus:
        assert_same_tokens(parse(canonical(raw)))
    fuzzer = Fuzzer(corpus, seed=19)
    for number in range(400):
        assert_same_tokens(parse(canonical(fuzzer.message(number)[0][:30_000])))


@pytest.mark.parametrize("text", HARD)
def test_hard_characters_are_words_as_in_the_reference(text: str) -> None:
    for one in (text, f"a{text}B", f"{text} {text}{text}", f"1{text}.{text}"):
        assert mail.lower(one) == one.lower()
        assert mail.separate_words(one) == words.separate_words(one)
        assert mail.fold_text(one) == fold_text(one)


def test_every_character_has_the_class_and_the_lower_case_that_python_gives_it() -> None:
    # Blocks of 64 characters, and each after a letter, so that marks and a final sigma matter.
    for start in range(0, 0x110000, 64):
        block = "a".join(map(chr, range(start, start + 64)))
        assert mail.lower(block) == block.lower()
        assert mail.separate_words(block) == words.separate_words(block)


def test_every_character_is_folded_as_in_the_reference() -> None:
    for character in map(chr, (*range(0x40000), *range(0xE0000, 0xE0200), 0x10FFFF)):
        assert mail.fold_text(f"e{character}") == fold_text(f"e{character}")


def test_characters_that_join_are_folded_as_in_the_reference() -> None:
    decompositions = [unicodedata.decomposition(chr(code)).split() for code in range(0x30000)]
    pairs = [
        f"{chr(int(one[0], 16))}{chr(int(one[1], 16))}"
        for one in decompositions
        if len(one) == 2 and one[0][0] != "<"
    ]
    assert len(pairs) > 900
    for pair in [
        *pairs,
        "\u1100\u1161",
        "\u1100\u1161\u11a8",
        "\uac00\u11a8",
        "\u3131\u314f",
        "\u3260\u326e",
        "\uffa1\uffc2",
    ]:
        for text in (pair, f"é{pair}x", f"{pair[0]}\u200b{pair[1:]}", f"{pair * 30}"):
            assert mail.fold_text(text) == fold_text(text)


@settings(max_examples=200)
@given(TEXTS)
def test_words_hosts_and_networks_are_those_of_the_reference(text: str) -> None:
    assert mail.lower(text) == text.lower()
    assert mail.fold_text(text) == fold_text(text)
    assert mail.separate_words(text) == words.separate_words(text)
    assert mail.split_words(text, 7) == [word[: words.LONGEST] for word in words.split_words(text)[:7]]
    assert mail.find_hosts(text) == words.find_hosts(text)
    assert mail.find_networks(text) == words.find_networks(text)
    assert mail.find_domain(text) == relations.find_domain(text)


@settings(max_examples=300)
@given(FIELDS)
def test_header_fields_have_the_tokens_of_the_reference(fields: list[tuple[str, str]]) -> None:
    assert mail.read_headers(fields) == encode(headers.read(fields))


@pytest.mark.parametrize("name", ["from", "subject", "x-any", "received", "content-type", "dkim-signature"])
def test_long_and_many_fields_have_the_tokens_of_the_reference(name: str) -> None:
    dice = random.Random(name)
    for _ in range(30):
        pieces = dice.choices(PIECES, k=3) if dice.random() < 0.5 else dice.choices(PIECES + HARD, k=12)
        fields = [
            (name, "".join(dice.choices(pieces, k=dice.choice((10, 600, 3000)))))
            for _ in range(dice.choice((1, 40, 210)))
        ]
        assert mail.read_headers(fields) == encode(headers.read(fields))
        message = Message(b"", tuple(fields), (), "", ())
        assert mail.read_relations(fields, b"", (), (), (), 0) == encode(relations.read(message, Body()))


@settings(max_examples=200)
@given(FIELDS, st.lists(PARTS, max_size=4), st.lists(TEXTS), st.lists(TEXTS), st.integers(0, 99), ESCAPES)
def test_relations_are_those_of_the_reference(
    fields: list[tuple[str, str]],
    parts: list[Part],
    links: list[str],
    images: list[str],
    hidden: int,
    raw: bytes,
) -> None:
    message = Message(raw, tuple(fields), tuple(parts), "", ())
    body = Body(links=links, images=images, hidden=hidden)
    found = mail.read_relations(fields, raw, parts, links, images, hidden)
    assert found == encode(relations.read(message, body))


@given(
    st.lists(
        st.sampled_from(["http://a.b", "http://c.d/x", "https://c.d", "cid:1", "mailto:x", "HTTP://1.2.3.4"])
    )
)
def test_relations_of_repeated_links_are_those_of_the_reference(links: Sequence[str]) -> None:
    fields = (("from", "C D <x@c.d>"),)
    body = Body(links=list(links), images=list(links[::2]))
    found = mail.read_relations(fields, b"", (), links, links[::2], 0)
    assert found == encode(relations.read(Message(b"", fields, (), "", ()), body))


@settings(max_examples=200)
@given(HEADS)
def test_the_head_is_that_of_the_reference(raw: bytes) -> None:
    assert mail.read_head(raw) == head.read(raw)
    assert mail.read_head(raw * 20) == head.read(raw * 20)


def test_what_is_no_text_is_refused() -> None:
    for arguments in ([("from", b"x")], [("from",)], [None], [("from", "x", "y")]):
        with pytest.raises((TypeError, ValueError)):
            mail.read_headers(arguments)
    with pytest.raises(TypeError):
        mail.read_relations((), b"", (), [1], (), 0)
    with pytest.raises(TypeError):
        mail.separate_words(b"x")
    with pytest.raises(ValueError, match="version 1, 2 or 3"):
        mail.hash_tokens(*[b""] * 7, 4)
    with pytest.raises(ValueError, match="version 2 or 3"):
        mail.read_tokens(parse(b""), 1)
