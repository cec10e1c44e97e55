"""What a page shows and hides, where it points, and by what tricks; work is in proportion to its size."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import Page, read_html
from tamis_mail.message.html import ADDRESS, LINKS, TAGS
from tests.steps import assert_proportional

MEGA = 1 << 20


@pytest.mark.parametrize(
    ("html", "visible"),
    [
        ("", ""),
        ("plain text", "plain text"),
        ("v<b></b>iagra", "viagra"),
        ("v<!-- x -->iagra", "viagra"),
        ("v<font size=2>i</font>agra", "viagra"),
        ("v<xyzzy>iagra</xyzzy>", "viagra"),
        ("<p>one</p><p>two", "one\ntwo"),
        ("one<br>two<BR/>three", "one\ntwo\nthree"),
        ("<table><tr><td>a<td>b<tr><td>c</table>", "a b\nc"),
        ("<title>Offer</title><body>buy", "Offer\nbuy"),
        ("<style>p{color:red}</style>a<script>var b = '<p>c</p>';</script>d", "ad"),
        ("<STYLE type=x>p{}</STYLE >a", "a"),
        ("a &lt;b&gt; &amp;amp; c&nbsp;d", "a <b> &amp; c d"),
        ("&eacute;&#233;&#xE9;&#xe9 &eacute &CounterClockwiseContourIntegral;", "éééé é ∳"),
        ("&#128;&#150;", "€–"),
        ("&#xD800;&#x110000;&#0;x", "\ufffd\ufffd x"),
        ("&nosuch; &copy2026 & &;", "&nosuch; ©2026 & &;"),
        ("1 < 2 and <3 you", "1 < 2 and <3 you"),
        ('<a title="x > y" href=z>b</a>', "b"),
        ("<a title='it\"s' href=z>b</a>", "b"),
        ("<p>a\n  b\t c</p>", "a b c"),
        ("<!DOCTYPE html><?xml version=1?><html>a", "a"),
        ("a<![if !mso]>b<![endif]>c", "abc"),
        ("a<!-->b<!--->c", "abc"),
        ("a<p style='x", "a"),
        ("a<!-- never closed b", "a"),
    ],
)
def test_what_is_seen(html: str, visible: str) -> None:
    assert read_html(html).visible == visible


@pytest.mark.parametrize(
    "opening",
    [
        '<span style="display:none">',
        "<span style='DISPLAY : None !important'>",
        "<span style=display:none>",
        '<div style="color:red;visibility:hidden">',
        '<font style="font-size:0">',
        '<font style="font-size:1px">',
        '<font style="font-size: 0.5pt">',
        '<span style="opacity:0">',
        '<span style="dis/**/play:none">',
        '<span style="display&#58;none">',
        '<span style="mso-hide:all">',
        '<span style="text-indent:-9999px">',
        "<span hidden>",
        '<span class="x" hidden="">',
        '<span style="color:#fff;background:#fefefe">',
        '<span style="color:rgb(255, 255, 255)">',
        "<font color=white>",
        '<font color="#FFFFFF">',
    ],
)
@pytest.mark.parametrize("edition", [1, 2])
def test_what_is_hidden_is_kept_apart(opening: str, edition: int) -> None:
    closing = "</" + opening[1:].partition(" ")[0] + ">"
    page = read_html(f"<div>before {opening}secret <b>words</b>{closing} after</div>", edition=edition)
    assert page.visible.split() == ["before", "after"]
    assert page.hidden == "secret words"
    assert "hidden-text" in page.tricks


@pytest.mark.parametrize(
    "opening",
    [
        '<div style="line-height:0">',
        '<div style="line-height:1px;color:#333">',
        '<div style="line-height:1px !important">',
        '<div style="line-height: 0.05">',
        '<div style="height:0;overflow:hidden">',
        '<div style="overflow: hidden; max-height: 0px">',
        '<div style="width:0px;overflow:hidden">',
        '<div style="max-width:1px;max-height:1px;overflow:hidden">',
        '<div style="position:absolute;left:-9999px">',
        '<div style="position:absolute; top:-1000px">',
        '<div style="margin-left:-999em">',
        '<div style="clip: rect(0 0 0 0)">',
        '<div style="clip:rect(0px, 0px, 0px, 0px)">',
        '<div style="visibility:collapse">',
        '<span style="color:transparent">',
        '<span style="color:rgba(255, 0, 0, 0)">',
        '<span style="color:rgba(9,9,9,0.0)">',
        '<td style="background:#112233;color:#111f2e">',
    ],
)
def test_edition_2_knows_more_ways_to_hide(opening: str) -> None:
    closing = "</" + opening[1:].partition(" ")[0] + ">"
    page = read_html(f"<table><tr><td>before {opening}secret <b>words</b>{closing} after</table>")
    assert page.visible.split() == ["before", "after"]
    assert page.hidden == "secret words"
    assert "hidden-text" in page.tricks


@pytest.mark.parametrize(
    "opening",
    [
        '<div style="line-height:1.5">',
        '<div style="line-height:1">',
        '<div style="line-height:100%">',
        '<div style="line-height:normal">',
        '<div style="height:0">',
        '<div style="max-height:0">',
        '<div style="overflow:hidden">',
        '<div style="overflow:hidden;height:20px;width:100%">',
        '<div style="overflow:auto;height:0">',
        '<div style="overflow:hidden;min-height:0;border-width:0">',
        '<div style="left:-20px">',
        '<div style="margin-left:-8px">',
        '<div style="clip:rect(0, 100px, 40px, 0)">',
        '<div style="visibility:inherit">',
        '<span style="color:rgba(0, 0, 0, 0.87)">',
        '<span style="color:rgba(0,0,0,1)">',
        '<td style="color:#fff;background:url(x.png)">',
        '<td background="http://a.example/x.png" style="color:#fff">',
        '<td style="color:#fff;background-image:linear-gradient(black,blue)">',
    ],
)
def test_what_is_only_styled_is_seen(opening: str) -> None:
    closing = "</" + opening[1:].partition(" ")[0] + ">"
    page = read_html(f"<div>before {opening}some <b>words</b>{closing} after</div>")
    assert page.visible.split() == ["before", "some", "words", "after"]
    assert page.hidden == ""


@pytest.mark.parametrize(
    ("html", "visible", "hidden"),
    [
        ("<div><i style='display:none'>a<i>b</i>c</i>d</div>", "d", "abc"),
        ("<div><i style='display:none'>a</div>b", "b", "a"),
        ("<p hidden>a<p>b", "b", "a"),
        ("<td style='font-size:0'><p style='font-size:12px'>a</p>b</td><td>c", "a\nc", "b"),
        ("<img style='display:none' src=x>a", "a", ""),
        ("<body bgcolor=black><font color=#000000>a</font><font color=white>b</font>", "b", "a"),
        ("<table bgcolor=#003366><td><font color=white>a</font></table>", "a", ""),
        ("<p style='display:none'>a</p></p></p>b", "b", "a"),
        ("<div><i hidden>a<b style='font-size:0'>b</div>c</b>d</i>e", "cde", "ab"),
    ],
)
@pytest.mark.parametrize("edition", [1, 2])
def test_where_hiding_ends(html: str, visible: str, hidden: str, edition: int) -> None:
    page = read_html(html, edition=edition)
    assert (page.visible, page.hidden) == (visible, hidden)


@pytest.mark.parametrize(
    ("html", "visible", "hidden"),
    [
        ("<dt hidden>a<dd>b", "b", "a"),
        ("<i hidden>a</i>b<i hidden>c</i>", "b", "a\nc"),
        ("<dd hidden>a<dt>b", "b", "a"),
        ("<dl><dt>a<dd hidden>b<dt>c</dl>d", "a\nc\nd", "b"),
        ("<ul><li hidden>a<ul><li>b</ul>c<li>d</ul>", "d", "a\nb\nc"),
        ("<p hidden>a<b>b</b>c</p>d", "d", "abc"),
        ("<div hidden>a<p>b<div>c</div>d</div>e", "e", "a\nb\nc\nd"),
        ("<div style='line-height:0'>a<p style='line-height:20px'>b</p>c</div>d", "b\nd", "a\nc"),
        ("<td bgcolor=black><font color=#000>a</font><font color=#fff>b</font>", "b", "a"),
        (
            "<table bgcolor=#369><td bgcolor=white><i style='color:white'>a</i></td><font color=white>b",
            "b",
            "a",
        ),
    ],
)
def test_where_hiding_ends_in_edition_2(html: str, visible: str, hidden: str) -> None:
    page = read_html(html)
    assert (page.visible, page.hidden) == (visible, hidden)


def test_text_for_outlook_is_no_hidden_text_and_has_no_style_sheets() -> None:
    html = (
        "<p>a</p><!--[if mso]><style>td {color: red} <b></style ><XML><o:x>96</o:x></XML><p>b &amp; c</p>"
        "<![endif]--> d <!--[if gte mso 9]><style>never closed<![endif]-->e"
    )
    page = read_html(html)
    assert (page.visible, page.hidden, page.outlook, page.tricks) == ("a\nd e", "", "b & c", ())
    assert "b & c" in read_html(html, edition=1).hidden


def test_a_blank_that_is_hidden_is_no_trick() -> None:
    blank = "<td style='font-size:1px;line-height:1px'>&nbsp; &#160;&#xA0;&zwnj;&#8199;&#847;</td>"
    assert read_html(blank).tricks == ()
    assert "hidden-text" in read_html(blank.replace("&zwnj;", "&eacute;")).tricks


def test_links_after_the_last_tag_that_is_interpreted_are_found() -> None:
    tags = "<p>a</p>" * 10
    late = (
        "<a class='x' href=\"http://a.example/?x=1&amp;y=2\">b</a><A\nHREF='http://b.example'>c</A>"
        "<img alt='> src=no' src=http://c.example/i.png><area href=d><form action=e>"
        "<input name=href src='f'><a name=g>g</a><abbr href=no><a data-href=no>"
    )
    page = read_html(tags + late, 20)
    assert page.links == ("http://a.example/?x=1&y=2", "http://b.example", "d", "e")
    assert page.images == ("http://c.example/i.png", "f")
    assert page.visible.split() == ["a"] * 10 + ["b", "c", "g"]
    assert read_html(tags + late, 20, 1).links == ()
    tags = "".join(f"<a href=x{number}><img src=y{number}>" for number in range(LINKS + 9))
    many = read_html("<p>" * 30 + tags, 20)
    assert len(many.links) == len(many.images) == LINKS


# The lists of names here and below are those of the HTML standard, as far as mail uses them.
@pytest.mark.parametrize("edition", [1, 2])
@pytest.mark.parametrize("name", ["p", "li", "option", "dt", "dd"])
def test_an_element_without_an_end_tag_ends_where_the_next_of_its_name_begins(
    name: str, edition: int
) -> None:
    html = f"<{name}>a<{name} hidden>b<{name}>c<{name} style='font-size:0'>d<{name}>e"
    page = read_html(html, edition=edition)
    assert (page.visible.split(), page.hidden.split()) == (["a", "c", "e"], ["b", "d"])


@pytest.mark.parametrize("name", ["b", "i", "span", "font", "div", "h1"])
def test_an_element_that_needs_an_end_tag_does_not_end_where_the_next_begins(name: str) -> None:
    page = read_html(f"<{name} hidden>a<{name}> b</{name}> c</{name}>d")
    assert (page.visible, page.hidden.split()) == ("d", ["a", "b", "c"])


@pytest.mark.parametrize(
    "name",
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ],
)
def test_an_element_without_content_hides_nothing_after_it(name: str) -> None:
    page = read_html(f"<div>a <{name} hidden style='display:none'> b</div>")
    assert (page.visible.split(), page.hidden) == (["a", "b"], "")


@pytest.mark.parametrize(
    "name", ["table", "tr", "td", "div", "body", "center", "ul", "ol", "blockquote", "section"]
)
def test_the_end_of_a_block_ends_all_that_was_left_open_in_it(name: str) -> None:
    page = read_html(f"a <{name}><i hidden>b <{name}>c </{name}>d</{name}>e")
    assert (page.visible.split(), page.hidden.split()) == (["a", "e"], ["b", "c", "d"])


@pytest.mark.parametrize(
    ("names", "between"),
    [
        (
            "a abbr b big cite code em font i ins kbd label mark q s small span strong sub sup time tt u var",
            "",
        ),
        ("img wbr", ""),
        ("address blockquote br center dd div dl dt form h1 h2 h3 h4 h5 h6 hr li ol option p pre", "\n"),
        ("section table title tr ul", "\n"),
        ("td th", " "),
    ],
)
def test_blocks_and_cells_part_words_and_other_elements_do_not(names: str, between: str) -> None:
    for name in names.split():
        assert read_html(f"one<{name}>two").visible == f"one{between}two", name
        if name not in ("img", "wbr", "br", "hr"):
            assert read_html(f"one<{name}>two</{name}>three").visible == f"one{between}two{between}three", (
                name
            )


def test_links_and_pictures() -> None:
    page = read_html(
        "<a href='http://a.example/?x=1&amp;y=2'>a</a><A HREF=b.example>b</A><area href=\"c\"><form action=d>"
        "<img src=cid:e><iframe src=f></iframe><a name=g>g</a><a href='h\n  h'>h</a>"
        "<img alt='src=z' src=\"i\">"
    )
    assert page.links == ("http://a.example/?x=1&y=2", "b.example", "c", "d", "f", "hh")
    assert page.images == ("cid:e", "i")


def test_links_are_bounded_and_data_is_cut() -> None:
    page = read_html("<a href=x>" * (LINKS + 9) + "<img src='data:image/png;base64," + "A" * 99_999 + "'>end")
    assert len(page.links) == LINKS
    assert page.images[0].startswith("data:image/png")
    assert len(page.images[0]) <= 60
    assert page.visible == "end"
    assert len(read_html("<a href='" + "x" * 9999 + "'>").links[0]) == ADDRESS


@pytest.mark.parametrize(
    ("html", "trick"),
    [
        ("v<b></b>iagra", "split-words"),
        ("v<!--x-->iagra", "split-words"),
        ("v<zz>iagra", "split-words"),
        ("<i style='display:none'>a</i>", "hidden-text"),
        ("<i style='font-size:1px'>a</i>", "tiny-font"),
        ("<font color=white>a</font>", "invisible-ink"),
        ("&#118;iagra", "entity-letters"),
        ("<p", "no-close"),
        ("<style>a", "no-close"),
        ("<!--", "no-close"),
        ("<form action=x>", "form"),
        ("<script>x</script>", "script"),
        ("<iframe src=x>", "iframe"),
        ("<a href='http://evil.example/'>www.bank.example</a>", "link-mismatch"),
        ("<a href='http://evil.example/'>https://<b>bank</b>.example/login</a>", "link-mismatch"),
        ("<a href='http://www.bank.example@evil.example/'>bank.example</a>", "link-mismatch"),
        ("<p>" * (TAGS + 1), "many-tags"),
    ],
)
def test_tricks_are_named(html: str, trick: str) -> None:
    assert trick in read_html(html).tricks


@pytest.mark.parametrize(
    "html",
    [
        "<p>Dear <b>Ann</b>, &eacute;t&eacute; <i>and</i> so<br>on</p>",
        "<b>W</b>elcome to<!-- x --> all",
        "<a href='http://www.bank.example/x'>bank.example</a>",
        "<a href='http://bank.example'>www.bank.example/y</a>",
        "<a href='http://x.example'>click here</a> <a href='http://x.example/r'>report.pdf</a>",
        "<a href='mailto:a@b.example'>c.example</a>",
        "<font color=black>a</font><td bgcolor=#ffffff>b",
        "<i style='display:none'> </i>",
    ],
)
def test_ordinary_pages_have_no_tricks(html: str) -> None:
    assert read_html(html).tricks == ()


SAME = [
    ("bank.example", "bank.example"),
    ("bank.example", "www.bank.example"),
    ("www.bank.example", "bank.example"),
    ("bank.example", "login.bank.example"),
    ("login.bank.example", "bank.example"),
    ("BANK.example", "bank.EXAMPLE"),
    ("bank.example", "bank.example:8443"),
]
OTHER = [
    ("bank.example", "notbank.example"),
    ("notbank.example", "bank.example"),
    ("bank.example", "not-bank.example"),
    ("bank.example", "bank.example.evil.example"),
    ("bank.example.evil.example", "bank.example"),
    ("bank.example", "bank.evil.example"),
    ("bank.example", "bank.examples"),
    ("login.bank.example", "shop.bank.example"),
    ("wwwbank.example", "bank.example"),
    ("bank.example", "bank.example@evil.example"),
    ("bank.example", "evil.example/bank.example"),
    ("bank.example", "evil.example?bank.example"),
    ("bank.example", "evil.example#bank.example"),
]


@pytest.mark.parametrize(
    ("text", "place", "differ"), [(*p, False) for p in SAME] + [(*p, True) for p in OTHER]
)
def test_a_link_that_names_another_host_than_it_leads_to_is_told(text: str, place: str, differ: bool) -> None:
    for scheme in ("http://", "https://", "HTTP://"):
        for written in ("{}", "https://{}", " {} ", "{}/login", "<b>{}</b>"):
            html = f"<a href='{scheme}{place}'>{written.format(text)}</a>"
            assert ("link-mismatch" in read_html(html).tricks) == differ, html


LARGE: dict[str, tuple[int, Callable[[int], str]]] = {  # how often, and the page
    "a usual page": (3000, lambda n: "<p>hello <b>world</b></p>" * n),
    "divs": (20_000, lambda n: "<div>" * n),
    "many divs": (200_000, lambda n: "<div>" * n),
    "comments": (20_000, lambda n: "<!--" * n),
    "many comments": (250_000, lambda n: "<!--" * n),
    "openings": (330_000, lambda n: "<a " * n),
    "50000 attributes": (50_000, lambda n: "<a " + " b=c" * n + ">"),
    "100000 styles": (100_000, lambda n: "<a " + " style=c" * n + ">"),
    "ends": (500_000, lambda n: "</" * n),
    "less than": (MEGA, lambda n: "<" * n),
    "quotes": (200_000, lambda n: "<a \"'" * n),
    "a quote": (MEGA, lambda n: '<a b="' + ">" * n),
    "ampersands": (MEGA, lambda n: "&" * n),
    "references": (200_000, lambda n: "&amp;" * n),
    "unknown references": (100_000, lambda n: "".join(f"&a{number};" for number in range(n))),
    "10 MB of style": (1_700_000, lambda n: "<style>" + "a{b:c}" * n + "</style>"),
    "styles": (150_000, lambda n: "<style>" * n),
    "deep CSS": (MEGA, lambda n: "<p style='" + "{" * n + "'>"),
    "comments in CSS": (500_000, lambda n: "<p style='" + "/*" * n + "'>"),
    "hidden in hidden": (40_000, lambda n: "<p style='display:none'>" * n),
    "sizes": (10_000, lambda n: "<i style='font-size:0'><i style='font-size:9px'>" * n),
    "data": (MEGA, lambda n: "<img src='data:" + "A" * n + "'>"),
    "data without end": (200_000, lambda n: "data:" * n),
    "20000 links": (20_000, lambda n: "<a href='http://x.example/%25%32%35'>y.example</a>" * n),
    "unknown tags": (100_000, lambda n: "".join(f"<x{number}>" for number in range(n))),
    "conditional comments": (30_000, lambda n: "<!--[if mso]><p><![endif]-->" * n),
    "blanks": (MEGA, lambda n: " " * n),
    "hidden blanks": (100_000, lambda n: "<i hidden>" + "&nbsp;" * n),
    "zeros": (MEGA, lambda n: "<i hidden>&#" + "0" * n),
    "backgrounds": (20_000, lambda n: "<td bgcolor=white><i style='color:white'>" * n),
    "boxes without size": (20_000, lambda n: "<div style='overflow:hidden;height:0'>" * n),
    "open cells": (50_000, lambda n: "<tr hidden><td hidden>" * n),
    "style sheets for Outlook": (100_000, lambda n: "<!--[if mso]>" + "<style>a" * n + "<![endif]-->"),
    "addresses without end": (100_000, lambda n: "<a href=\"x <img src='y " * n),
    "tags without address": (50_000, lambda n: "<a x='h' " * n),
}


@pytest.mark.parametrize("edition", [1, 2])
@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_read_all_the_same(name: str, edition: int) -> None:
    count, write = LARGE[name]
    html = "<p>needle</p>" + write(count)
    page = read_html(html, edition=edition)
    assert "needle" in page.visible
    bounded(page, len(html))


@pytest.mark.parametrize("name", LARGE)
def test_the_steps_of_reading_grow_in_proportion_to_the_page(name: str) -> None:
    assert_proportional(lambda n: read_html(LARGE[name][1](n)), 250)
    assert_proportional(lambda n: read_html(LARGE[name][1](n), 20), 250)


def bounded(page: Page, size: int) -> None:
    assert len(page.visible) + len(page.hidden) <= 2 * size + 10
    assert len(page.links) <= LINKS
    assert len(page.images) <= LINKS
    assert all(len(link) <= 2 * ADDRESS for link in page.links + page.images)
    (page.visible + page.hidden + "".join(page.links + page.images)).encode()  # no half of a pair


WORDS = """
<p <p> </p> <b></b> <!-- --> <!--[if <![endif]--> <style> </style> <script </script <a href= </a> <img src=" '
" > / = & &# &#x41; &amp; &eacute style="display:none" style='font-size:0' hidden color=white <div> </div> <td
<body bgcolor=black data: http://a.example word \u200b é \ud7ff \x00 <form action=x> <title> < ; : <i> </i>
"""
PIECES = st.sampled_from([*WORDS.split(), " ", "\n"])
EVERY_TRICK = (
    "<body bgcolor=black><form action=x><iframe src=y><img src=z>v<b></b>x<script>s</script>&#118;x"
    "<!--[if]>m--><a href='http://evil.example/'>bank.example</a><td style='color:white;background:white'>a"
    "<li style='font-size:0'>b<div hidden>c<p"
)
TRICKS = {
    "split-words",
    "hidden-text",
    "tiny-font",
    "invisible-ink",
    "entity-letters",
    "no-close",
    "form",
    "script",
    "iframe",
    "link-mismatch",
}
GONE = [" hidden", " style='display:none'"]
SIZES = {" style='font-size:0'": True, " style='font-size:12px'": False}  # whether that is too small to read
TEXT = st.sampled_from(["ham ", "eggs ", "1 ", "été ", "东京 "])
# Text, or the name of an element, its attributes and what is within.
ELEMENTS: st.SearchStrategy[list[Any]] = st.recursive(
    st.lists(TEXT, max_size=2),
    lambda within: st.lists(
        TEXT
        | st.tuples(
            st.sampled_from(["div", "span", "b", "ul", "blockquote", "td", "h1", "font"]),
            st.sampled_from(["", "", " class=x", *GONE, *SIZES]),
            within,
        ),
        max_size=4,
    ),
    max_leaves=12,
)


def written(nodes: list[Any]) -> str:
    return "".join(
        node if isinstance(node, str) else f"<{node[0]}{node[1]}>{written(node[2])}</{node[0]}>"
        for node in nodes
    )


def seen_and_hidden(nodes: list[Any], gone: bool = False, tiny: bool = False) -> tuple[list[str], list[str]]:
    """The words that a reader of the whole tree finds: those that can be seen, and the others."""
    words: tuple[list[str], list[str]] = ([], [])
    for node in nodes:
        if isinstance(node, str):
            words[gone or tiny].append(node.strip())
        else:
            _, attributes, within = node
            inner = seen_and_hidden(within, gone or attributes in GONE, SIZES.get(attributes, tiny))
            words[0].extend(inner[0])
            words[1].extend(inner[1])
    return words


@settings(max_examples=300, deadline=None)
@given(ELEMENTS)
def test_of_a_page_whose_elements_are_all_closed_what_is_outside_hidden_ones_is_seen(
    nodes: list[Any],
) -> None:
    page = read_html(written(nodes))
    assert (page.visible.split(), page.hidden.split()) == seen_and_hidden(nodes)


def test_a_page_may_have_every_trick() -> None:
    assert set(read_html(EVERY_TRICK).tricks) == TRICKS


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_is_a_page(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    page = read_html(text)
    bounded(page, len(text))
    read_html(EVERY_TRICK)
    assert read_html(text) == page  # nothing of another page is left


@given(st.text(st.characters(codec="utf-8", exclude_characters="<&:\0"), max_size=60))
def test_text_without_tags_is_seen_as_it_is(text: str) -> None:
    page = read_html(text)
    assert [line.split() for line in page.visible.split("\n")] == [text.split()]
    assert (page.hidden, page.tricks) == ("", ())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["ham", "eggs", "1", "été", "东京", "v-x", "a.b"]), min_size=1, max_size=8),
    st.data(),
)
def test_inline_tags_change_no_word(words: list[str], data: st.DataObject) -> None:
    tags = st.sampled_from(
        ["<b>", "</b>", "<i class=x>", "</i>", "<span>", "</span>", "<!-- no -->", "<font size=2>"]
    )
    text = " ".join(words)
    cut = data.draw(st.integers(0, len(text)))
    assert read_html(text[:cut] + data.draw(tags) + text[cut:]).visible == text
