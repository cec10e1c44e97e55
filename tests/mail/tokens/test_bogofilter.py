"""The tokens of bogofilter: as `bogolexer -p` of bogofilter 1.2.5 prints them."""

import shutil
import subprocess
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import canonical, parse
from tamis_mail.sample import messages
from tamis_mail.tokens import bogofilter

HEADER = b"""\
Received: from x ([1.2.3.4] helo=foo.bar) by mx (8.9/8.9) with SMTP id g7ABC123; Mon, 01 Jan 2002 10:00 (CET)
Return-Path: <rp-user@rp.example.com>
Date: Thu, 22 Aug 2002 18:26:25 +0700
Message-Id: <13258.1030015585@munnari.OZ.AU>
From: "Ann Smith" <ann.s@mail.example.org>
Cc: copy@cc.example
To: To Me <someone@c.example>
Subject: Re: [ILUG] =?iso-8859-1?Q?Gr=FC=DFe?= 100% FREE!!! for $50.00 don't A-B
X-Mailer: Foo Bar 5.0
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="----=_Next"

"""
HEADER_TOKENS = """
rcvd:from rcvd:1.2.3.4 rcvd:helo rcvd:foo.bar rcvd:with rcvd:SMTP rcvd:Mon rcvd:Jan rcvd:CET rtrn:rp-user
rtrn:rp.example.com head:Date head:Message-Id from:Ann from:Smith from:ann.s from:mail.example.org to:copy
to:cc.example to:someone to:c.example subj:ILUG subj:Grüße subj:FREE!!! subj:for subj:$50.00 subj:don't
subj:A-B head:X-Mailer head:Foo head:Bar head:MIME-Version head:Content-Type head:multipart head:mixed
"""
PARTS = b"""\
------=_Next
Content-Type: text/plain; charset="ISO-8859-1"; name="foo bar.txt"
Content-Transfer-Encoding: quoted-printable

foo=
bar caf=E9 x12 12abc 3com $19 $1,000 v1agra! foo..bar foo_ -foo x_y_z_w 192.168.1.300 ab
averyveryveryverylongwordofmorethanthirtycharacters
------=_Next
Content-Type: text/html

<td>cell</td><td>next</td> one<br>two sp<b>lit</b>word <!-- comment --> <A HREF="http://foo.com/bar.html"
title="hint">link</A> <td bgcolor="blue"> &#65;&#66;&#67;&#68; caf&eacute;
------=_Next--
"""
PART_TOKENS = """
mime:Content-Type mime:text mime:plain mime:charset mime:ISO-8859-1 mime:foo mime:bar.txt
mime:Content-Transfer-Encoding mime:quoted-printable foobar café x12 abc com $19 $1 v1agra! foo..bar foo
x_y_z_w 192.168.1.30 mime:html cell next one two splitword HREF http foo.com bar.html title hint link ABCD caf
eacute
"""

PIECES = [
    b"Content-Type: text/html\n\n",
    b"<a ",
    b"<!--",
    b"\n--x\nContent-a:",
    b"a.",
    b"\xff",
    b"$1.",
    b"&#1114112;",
]


def tokens(raw: bytes) -> list[str]:
    return [token.decode() for token in bogofilter.read(parse(canonical(raw)))]


def test_fields_have_prefixes() -> None:
    assert tokens(HEADER) == HEADER_TOKENS.split()


def test_parts_are_decoded_and_pages_lose_most_of_their_tags() -> None:
    assert sorted(tokens(HEADER + PARTS)) == sorted(f"{HEADER_TOKENS} {PART_TOKENS}".split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc!def abc!! wow!wow a!b.", "abc!def abc!! wow!wow a!b"),
        ("foo~bar foo`bar foo^bar e-mail --- $$money", "foo~bar foo`bar foo bar e-mail money"),
        ("v1.2.3 foo.1 1800-555-foo T.h.i.s", "v1.2.3 foo.1 foo T.h.i.s"),
        ("300.1.1.1 10.0.0 1.2.3.4", "00.1.1.1 1.2.3.4"),
        ("中文字符测试中文 " + "é" * 16, "中文字符测试中文"),  # 24 bytes, and 32
        ("abc@def.ghi foo&bar a=b xn--foo", "abc def.ghi foo bar xn--foo"),
    ],
)
def test_words_of_plain_text(text: str, expected: str) -> None:
    raw = f"Content-Type: text/plain; charset=utf-8\n\n{text}".encode()
    assert [token for token in tokens(raw) if ":" not in token] == expected.split()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_any_bytes_have_tokens_of_bounded_length_and_each_once(raw: bytes) -> None:
    found = bogofilter.read(parse(canonical(raw)))
    assert len(found) == len(set(found))
    assert all(1 < len(token) <= 30 for token in found)


@pytest.mark.skipif(shutil.which("bogolexer") is None, reason="bogofilter is not installed")
@pytest.mark.parametrize("raw", [HEADER, HEADER + PARTS], ids=["header", "parts"])
def test_the_tokens_are_those_of_bogofilter_itself(raw: bytes) -> None:
    printed = subprocess.run(["bogolexer", "-p"], input=raw, capture_output=True, check=True).stdout
    assert sorted(tokens(raw)) == sorted(set(printed.decode().split()))


@pytest.mark.skipif(shutil.which("bogolexer") is None, reason="bogofilter is not installed")
def test_most_tokens_of_any_mail_are_those_of_bogofilter() -> None:
    for one in islice(messages(), 0, 400, 8):
        printed = subprocess.run(["bogolexer", "-p"], input=one.raw, capture_output=True, check=True).stdout
        theirs, ours = set(printed.split()), set(bogofilter.read(parse(canonical(one.raw))))
        assert len(ours & theirs) >= 0.8 * len(ours | theirs), sorted(ours ^ theirs)
