"""The compiled core reads pages, styles and bodies as the reference in Python does, to the byte."""

import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.fuzz_mail import Fuzzer
from benchmarks.hostile_mail import CASES
from tamis import compiled
from tamis_mail.message import Message, Part, canonical, fold_text, parse, read_html, remove_style_sheet
from tamis_mail.message.entities import decode_entities
from tamis_mail.message.styles import effect_of
from tamis_mail.sample import messages
from tamis_mail.tokens import body
from tests.mail.message.test_html import LARGE

if compiled.core is None:
    pytest.skip("there is no compiled core", allow_module_level=True)
mail: Any = compiled.core.mail

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.eml"))
TAGS = (250, 3, 1, 50_000)


def compare_page(page: str, tags: int = 250) -> None:
    read = read_html(page, tags)
    expected = (read.visible, read.hidden, read.links, read.images, read.tricks, read.outlook)
    assert mail.read_page(page, tags) == expected
    assert mail.read_page(page, tags, as_code_points=True) == expected


def compare_body(message: Message) -> None:
    for version in (2, 3):
        read = body.read(message, version)
        expected = (read.words, read.marks, read.links, read.images, read.hidden)
        assert mail.read_body(message, version) == expected


def compare_text(text: str, kind: str = "text/plain", name: str = "") -> None:
    part = Part(kind, text[:50], "", name, name[:5], len(text) * 1000, text)
    compare_body(Message(b"x" * len(text), (), (part,), text, (text[:3],)))


def compare_name(name: str) -> None:
    compare_text("", "a/b", name)


def compare_effect(attributes: str) -> None:
    attributes = attributes.lower()
    assert mail.find_effect(attributes) == tuple(effect_of(attributes, 2))


def compare_references(text: str) -> None:
    assert mail.decode_entities(text) == decode_entities(text)


def compare_style_sheet(text: str) -> None:
    assert mail.remove_style_sheet(text) == remove_style_sheet(text)


def compare_links(address: str) -> None:
    compare_text(f"<a href='{address}'>t</a>", "text/html")
    many = [f"<a href='{address}{n}'>t</a><img src=\"{address[n % 7 :]}{n // 2}\">" for n in range(60)]
    compare_text("".join(many), "text/html")


def in_page(before: str, after: str = "") -> Callable[[str], None]:
    def compare(text: str) -> None:
        for tags in TAGS:
            compare_page(before + text + after, tags)

    return compare


def in_style(*beginnings: str) -> Callable[[str], None]:
    def compare(text: str) -> None:
        for beginning in beginnings:
            compare_effect(f' style="{beginning}{text}')

    return compare


def compare_link_text(text: str) -> None:
    for address in (
        "http://a.com",
        "https://u@b.a.com/x",
        "http://www.a.com:80",
        "ftp://a.com",
        f"http://{text}",
    ):
        compare_page(f"<a href='{address}'>{text}</a>")
        compare_page(f"<a href='{address}'><b>{text[:3]}</b>{text[3:]}<a>")


def repeat(text: str, *numbers: int) -> list[str]:
    return [text * number for number in numbers]


SPACES = [" ", "\t", "\x0b", "\f", "\r", "\x1c", "\x85", "\xa0", "\u2003", "\n"]
LENGTHS = ("font-size:", "line-height:", "opacity:", "left:", "text-indent:")
COLOURS = ("color:", "background:", "background-color:")

# Each pattern of the reference: a comparison, and pieces of texts that come near to what the pattern matches.
PATTERNS: dict[str, tuple[Callable[[str], None], str, Sequence[str]]] = {
    "tags": (
        in_page(""),
        "< </ <! <? > / a A b p br td img x = é İ Σ style hidden ! ? 1 \" '",
        [*SPACES, "\u212a", "lin\u212a"],
    ),
    "quoted values": (
        in_page("<a href=", "<b>t<i hidden>u"),
        "< > \" ' \" ' x",
        ["<a ", " ", *repeat("x", 19998, 19999, 20000, 20001)],
    ),
    "scripts": (
        in_page(""),
        (
            "< </ script style SCRIPT Style <script </script <style> </style> > / x <s background Background "
            "ſtyle"
        ),
        ["</Style ", " ", "\x1c", "\t", "\xa0"],
    ),
    "data": (
        in_page(""),
        "data: data DATA: image/png a / + . - A1 ; , % b : ' é _ .. A.bA.b",
        [
            " ",
            "\xa0",
            "\x1c",
            *repeat("a", 58, 59, 60, 61, 62, 138, 139, 140, 141, 142, 199, 200, 201),
            *repeat("a1", 69, 70, 71, 99, 100, 101),
        ],
    ),
    "tags in words": (
        in_page("w<"),
        "></ bold bold b </b> <b> > x < é </",
        [" ", *repeat("q", 11, 12, 13), *repeat("-", 98, 99, 100, 101)],
    ),
    "attributes": (
        in_page("<a ", "</a><img src=x>"),
        "href= HREF src hr ef = : _ - x / é &amp; &#x41 data: http://h.example/ # > < \" '",
        ["HrEf =", "= ", " ", "\t", "\x1c", "\xa0"],
    ),
    "pointers after the last tag": (
        lambda text: compare_page("<b>" * 3 + text, 3),
        "< <a> <frame/ <IFRAME/ a href= src= action= x > / é \" '",
        [
            " ",
            "\xa0",
            "\x1c",
            "y ",
            "<a ",
            "<A\t",
            "<area ",
            "<are ",
            "<form ",
            "<iframe ",
            "<img ",
            "<input ",
            "<inputs ",
        ],
    ),
    "text for Outlook": (
        in_page("<!--[if x]>", "-->z"),
        "< </ <style <STYLE> <xml> </style </STYLE> </xml </Script > x ſ y <b> <![endif] -- [if é <![endif]-",
        ["<xml ", "<script ", " ", "\t", "\x1c"],
    ),
    "comments": (
        in_page(""),
        "<!-- <!- --> -> -- - ! < [if [endif] <![endif]--> <![endif] a é > <p> <style> x",
        [" ", "[if mso]>"],
    ),
    "blanks": (
        in_page("<i hidden>"),
        (
            "& &nbsp &NBSP &nbsp; &zwnj; &zwj &shy &ſhy &enſp; &thinsp &thınsp &thİnsp; &lrm; &rlm &# &#x "
            "&#X 0 00 32 160 173 847 8192 8199 820 65279 20 a0 AD 34f 34F 200b feff ; x"
        ),
        [*SPACES],
    ),
    "hosts of links": (
        compare_link_text,
        (
            "http:// https:// HTTP:// @ user@ a a.com b-c _ www. .com .example .pdf . / ? # : 80 é İ &amp; 1 "
            "A //"
        ),
        ["\u212a", " ", "\xa0", *repeat("a.", 9, 10, 11), *repeat("a", 19, 20, 21, 62, 63, 64, 99, 100, 101)],
    ),
    "references": (
        compare_references,
        (
            "& &# &#x &#X ; amp amp; copy copy2 notin; not notit; nbsp NBSP lt eacute NewLine; fjlig; "
            "CounterClockwiseContourIntegral; a Z 0 1 12 128 129 150 159 160 31 32 65 x41 D800 110000 10FFFF "
            "123456789 fffffff é ١ hellip semi"
        ),
        [" ", *repeat("9", 8), *repeat("a", 30, 31, 32, 33)],
    ),
    "style attributes": (
        compare_effect,
        "style =' = x - _ é > display:none color: white ; hidden / STYLE &quot; &NewLine; =\" \" '",
        [" ", "\t", "\x1c", "\xa0", "\n"],
    ),
    "the attribute hidden": (
        compare_effect,
        'hidden hidden = / x - style " é &Tab;',
        [" ", "\t", "\n", "\x1c", "\xa0"],
    ),
    "colour attributes": (
        compare_effect,
        "color bgcolor bg color= = # #fff white #ffffff 0x1234 ffffff abc x - _ é &#35; rgb \" '",
        ["bgcolor =", " ", *repeat("f", 17, 18, 19, 20, 21)],
    ),
    "declarations": (
        in_style(""),
        (
            "display visibility font-size opacity color background background-color mso-hide text-indent "
            "line-height left top margin-left clip : : ; { none hidden collapse visible 0 1px 2 -600px 9 all "
            "white #000 rgb(1,2,3) x - /**/ /*"
        ),
        ["rect(0 0 0", " ", "\t", "\x1c", "\xa0", *repeat("z", 78, 79, 80, 81)],
    ),
    "lengths": (
        in_style(*LENGTHS),
        "- 0 1 2 3 9 00 000000 1234 123456 . . px pt em rem ex % r e p x 500 600 -501 5e ١",
        [" "],
    ),
    "colours": (
        in_style(*COLOURS),
        (
            "rgb rgb( rgba( hsla( hsl( transparent , ) 0 0. 1 2 00 .0 255 2555 white black snow ivory # ## "
            "fff f abc 0x 0X 1234 12345 123456 ١ ٠ ０ x _ + é ²"
        ),
        [" ", ", ", "\xa0", *repeat("1", 36, 38, 39, 40, 41)],
    ),
    "clear colours": (
        in_style("color:rgba(", "color:hsla(", "color:rgba"),
        "0 0 1 . , , ) 00",
        [" ", "\xa0", *repeat("1", 36, 37, 38, 39, 40, 41)],
    ),
    "clips": (
        in_style("clip:"),
        "rect( rect 0 0px px , 1 )",
        [" ", ", ", "\xa0"],
    ),
    "boxes": (
        in_style("overflow:hidden;"),
        (
            "height width max- max-height : : 0 1 1.5 2 px em ; { overflow overflow-x -y :hidden :clip :auto "
            "x line-height /*c*/ -1"
        ),
        [" ", "\x1c", *repeat("z", 78, 79, 80, 81)],
    ),
    "comments in styles": (
        in_style(""),
        "/ * /* */ ** /**/ x display:none color:white ; none dis play :",
        [" "],
    ),
    "background images": (
        compare_effect,
        'background background-image -image : = url( gradient( linear- // / http:// ; > x u g style="',
        [" ", "\t", "\x1c", *repeat("z", 100, 195, 196, 197, 199, 200, 201)],
    ),
    "style sheets": (
        compare_style_sheet,
        "{ } { } : ; a b-c A p td a:b a:b; {a:b} {a:b;c:d} ;; @ @im é 1 @font-face{ {c:d} @media",
        [
            " ",
            "\n",
            "\n\n",
            "\xa0",
            "@media x {",
            "td {c:d; }",
            "text ",
            *repeat(" ", 290, 310),
            *repeat("n", 17, 18, 19, 20, 38, 39, 40, 41, 42),
            *repeat("z", 280, 298, 299, 300, 301),
        ],
    ),
    "links in text": (
        compare_text,
        (
            "http:// https:// http: // www. ww w h htt p s :// x a.b/c < > ( ) [ ] é İ @ % ? # : 8080 xn-- "
            "1.2.3.4 ::1 ./ abcdef/ghij \" '"
        ),
        [" ", "\xa0", "\n", *repeat("y", 398, 399, 400, 401)],
    ),
    "marks of links": (
        compare_links,
        (
            "http:// https:// www. ftp: mailto: x a.b c / path word ?q @ %41 : 80 xn--a 1.2.3.4 [::1] fe80 "
            "0x7f ١.٢ . .. é İ Σ ΑΣ data:"
        ),
        [" ", *repeat("abc", 10, 11, 12)],
    ),
    "mail addresses": (
        compare_text,
        "@ @ a b - 1 . . com x.y ab a1 é _ b.b.b.b. b.b.b.b.b. b.b.b.b.b.b. b.b.b.b.b.b.b.",
        [" ", *repeat("a", 61, 62, 63, 64, 65)],
    ),
    "file names": (
        compare_name,
        ". . a ab _ - é 1 ² exe İ Σ ß 字",
        [" ", "\x00", *repeat("a", 38, 39, 40, 41, 190, 200)],
    ),
    "pages that are called text": (
        compare_text,
        "<html <HTML> < <p> x <!-- text",
        [" ", "\xa0", "\n", *repeat(" ", 190, 198, 199, 200), *repeat("z", 900, 990, 996)],
    ),
    "elements": (
        in_page(""),
        (
            "<p> <li> <dt> <dd> <option> <div> <table> <tr> <td> <body> <o:p> <xyz> <br> <form> <img> <a> "
            "<i> </p> </td> </div> </table> </span> </body> </font> </xyz> </a> </i> a c.com &nbsp; <x"
        ),
        [
            "<p hidden>",
            "<li hidden>",
            "<dt hidden>",
            "<td hidden>",
            "<i hidden>",
            "<br hidden>",
            "</br hidden>",
            "<dd style='color:white'>",
            "<span style='font-size:0'>",
            "<span style='font-size:9px'>",
            "b ",
            "<body bgcolor=black>",
            "<font color=white>",
            "<td bgcolor=white>",
            "<i style='line-height:0'>",
            "<td style='background:url(x)'>",
            "<a href='http://c.com'>",
            "</ ",
            "<form action=x>",
            "<iframe src=y>",
            "<img src=z>",
        ],
    ),
    "unusual letters": (
        compare_text,
        "v i a . _ * - Ａ ß ﬁ Σ İ а ο 字 ば 한 ก $ ! é",
        [
            " ",
            "\xad",
            "\u200b",
            "\u0301",
            "\uff9e",
            "\U0001d400",
            "\ufdfa",
            "\ufe0f",
            "\U000e0041",
            "\u212b",
            "\u1161",
            "\u1100",
        ],
    ),
}


PIECES = {name: (*words.split(), *others) for name, (_, words, others) in PATTERNS.items()}
ALL_PIECES = sorted({piece for pieces in PIECES.values() for piece in pieces if len(piece) < 200})


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_near_to_a_pattern_are_read_as_the_reference_reads_them(pattern: str) -> None:
    compare, pieces = PATTERNS[pattern][0], PIECES[pattern]
    dice = random.Random(pattern)
    for _ in range(60 if pattern == "quoted values" else 300):
        compare("".join(dice.choices(pieces, k=dice.choice((1, 2, 3, 4, 6, 8, 12, 20, 40)))))


@given(st.lists(st.sampled_from(ALL_PIECES) | st.text(max_size=3), max_size=30), st.sampled_from(TAGS))
def test_any_pieces_of_pages_are_read_as_the_reference_reads_them(pieces: list[str], tags: int) -> None:
    page = "".join(pieces)
    compare_page(page, tags)
    compare_text(page, "text/html", page)
    compare_text(page)
    compare_effect(page)
    compare_references(page)
    compare_style_sheet(page)


@given(st.text(max_size=300), st.integers(-3, 300))
@example("<b>", 0)
@example("<b>", 1)
@example("<b>", -1)
def test_any_text_is_read_as_the_reference_reads_it(text: str, tags: int) -> None:
    compare_page(text, tags)
    compare_text(text)


@pytest.mark.parametrize("name", LARGE)
def test_large_pages_are_read_as_the_reference_reads_them(name: str) -> None:
    _, write = LARGE[name]
    for count in (1, 30, 700):
        compare_page("<p>needle</p>" + write(count), 250)
        compare_page(write(count) + "<p>needle</p>", 50_000)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_messages_are_read_as_the_reference_reads_them(path: Path) -> None:
    compare_body(parse(canonical(path.read_bytes())))


def test_sample_and_hostile_messages_are_read_as_the_reference_reads_them() -> None:
    for sample in messages(20):
        compare_body(parse(canonical(sample.raw)))
    for name in sorted(CASES)[::6]:
        compare_body(parse(canonical(CASES[name](1500))))


def test_mutated_messages_are_read_as_the_reference_reads_them() -> None:
    fuzzer = Fuzzer([path.read_bytes() for path in GOLDEN], 5)
    for number in range(300):
        compare_body(parse(canonical(fuzzer.message(number)[0])))


def test_a_message_without_text_has_marks_only() -> None:
    compare_body(parse(b""))
    compare_body(Message(b"", (), (), "", ()))


def test_more_parts_and_words_than_are_read_are_left_out() -> None:
    part = Part("text/plain", "utf-8", "", "", "", 9, "one two three " * 100)
    compare_body(Message(b"", (), (part,) * 60, "", ("a", "b c")))


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="str"):
        mail.read_page(b"<p>", 250)
    with pytest.raises(AttributeError):
        mail.read_body("<p>", 2)


def test_characters_are_folded_alone_only_if_they_do_not_combine() -> None:
    """The reference normalises texts; the core characters, where that is the same (core/mail/folding.cpp)."""
    combining = {*map(chr, range(0x1161, 0x1176)), *map(chr, range(0x11A8, 0x11C3))}
    everything = [chr(code) for code in (*range(0xD800), *range(0xE000, 0x10000), *range(0x1D000, 0x20000))]
    for character in everything:
        decomposed = unicodedata.normalize("NFD", character)
        combining |= {sign for sign in decomposed if unicodedata.combining(sign)}
        combining.update(decomposed[1:2])
    for character in everything:
        assert mail.fold_text(character) == fold_text(character), ascii(character)
    for character in sorted(combining):
        for before in ("e", "か", "가", "ᄀ", "Ä", "\u09c7", "字", "\xad"):
            text = before + character + "é"
            assert mail.fold_text(text) == fold_text(text), ascii(text)


@pytest.mark.parametrize("after", ["", "#", "x", " end of a longer text" * 8])
def test_spaced_words_are_found_at_every_place_of_a_text(after: str) -> None:
    """Texts are searched in blocks of 64 places, as bytes and as code points."""
    for place in range(140):
        for sign in " ._*-=":
            text = "#" * place + sign.join("viagra") + after
            compare_text(text)
            assert mail.fold_text(text) == fold_text(text)
            assert mail.fold_text(text + "é") == fold_text(text + "é")


def test_spaces_between_words_of_a_page_are_those_of_the_reference() -> None:
    gaps = ("", " ", "  ", "\t", "\x1f", "<br>", " <br>", "<br> ", "&nbsp;", "\n", "\xa0")
    for first in gaps:
        for second in gaps:
            for third in gaps:
                compare_page(f"{first}a{second}bc{third}")
