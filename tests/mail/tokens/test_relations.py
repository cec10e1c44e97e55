"""Relations say whether the parts of a message agree, in words that a person can read."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail import tokens
from tamis_mail.message import canonical, parse
from tamis_mail.sample import messages
from tamis_mail.tokens import reference, relations
from tamis_mail.tokens.relations import find_domain

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parent / "golden"


def read(headers: str, body: str = "", kind: str = "text/plain") -> list[str]:
    raw = f"{headers}\nMIME-Version: 1.0\nContent-Type: {kind}; charset=utf-8\n\n{body}".encode()
    return tokens.read(parse(canonical(raw))).relations.decode().split()


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.com", "example.com"),
        ("www.mail.example.com", "example.com"),
        ("WWW.Example.COM.", "example.com"),
        ("shop.example.co.uk", "example.co.uk"),
        ("example.co.uk", "example.co.uk"),
        ("a.b.example.com.au", "example.com.au"),
        ("t.co", "t.co"),
        ("www.t.co", "t.co"),
        ("mine.pages.dev", "mine.pages.dev"),
        ("a.mine.github.io", "mine.github.io"),
        ("a.scam.sa.com", "scam.sa.com"),
        ("192.0.2.7", "192.0.2.7"),
        ("localhost", "localhost"),
        ("", ""),
    ],
)
def test_the_domain_of_a_host_is_what_somebody_registered(host: str, domain: str) -> None:
    assert find_domain(host) == domain


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ("From: a@mail.example.org", "from:tld=org"),
        ("Subject: s", "from:no-domain"),
        ("From: a@example.org", "name:none"),
        ("From: Example Shop <a@mail.example.org>", "name:like-domain"),
        ("From: Big Bank <a@bigbank.example>", "name:like-domain"),
        ("From: Other Bank <a@example.org>", "name:unlike-domain"),
        ('From: "help@bank.example" <a@example.org>', "name-address:other-domain"),
        ('From: "a@example.org" <a@mail.example.org>', "name-address:own-domain"),
        ("From: Anne Miller <a.miller@gmail.com>", "name:like-address"),
        ("From: Big Bank <qx7@gmail.com>", "name:unlike-address"),
        ("From: a@gmail.com", "from:free-mail"),
        ("From: a@yahoo.co.uk", "from:free-mail"),
        ("From: a@example.org", "reply-to:none"),
        ("From: a@example.org\nReply-To: b@news.example.org", "reply-to:own-domain"),
        ("From: a@example.org\nReply-To: b@other.example", "reply-to:other-domain"),
        ("From: a@example.org\nReply-To: b@other.example, c@example.org", "reply-to:mixed"),
        ("From: a@example.org\nReply-To: b@hotmail.com", "reply-to:free-mail"),
        ("From: a@example.org\nReturn-Path: <bounce@mail.example.org>", "return-path:own-domain"),
        ("From: a@example.org\nSender: b@list.example", "sender:other-domain"),
        ("From: a@example.org\nMessage-ID: <1@a.example.org>", "message-id:own-domain"),
        ("From: a@example.org\nErrors-To: b@other.example", "errors-to:other-domain"),
        ("From: a@example.org\nList-Unsubscribe: <https://u.example.org/x>", "unsubscribe:own-domain"),
        ("From: a@example.org\nList-Unsubscribe: <mailto:u@other.example>", "unsubscribe:other-domain"),
        (
            "From: a@example.org\nList-Unsubscribe: <mailto:u@example.org>,<http://other.example>",
            "unsubscribe:mixed",
        ),
        ("From: a@example.org\nList-Unsubscribe-Post: List-Unsubscribe=One-Click", "unsubscribe:one-click"),
        ("From: a@example.org\nDKIM-Signature: v=1; d=mail.example.org; s=x", "dkim:own-domain"),
        ("From: a@example.org\nDKIM-Signature: v=1; d=sender.example; s=x", "dkim:other-domain"),
        (
            "From: a@example.org\nDKIM-Signature: d=sender.example\nDKIM-Signature: d=example.org",
            "dkim:some-own-domain",
        ),
        ("From: a@example.org", "dkim:none"),
        ("From: a@example.org", "auth:none"),
        ("From: a@example.org", "recipients:0"),
        ("From: a@example.org\nTo: b@x.example, c@x.example\nCc: d@x.example", "recipients:2+"),
        ("From: a@example.org\nTo: b@mail.example.org", "recipients:own-domain"),
        ("From: a@example.org\nTo: jane@x.example\nSubject: Jane, you won", "subject:names-recipient"),
        ("Subject: Re: the plan", "subject:answers-nothing"),
        ("Subject: Re: the plan\nIn-Reply-To: <1@x.example>", "subject:answers-message"),
        ("Subject: =?utf-8?q?=F0=9F=8E=81?= for you", "subject:symbols"),
        ("List-Id: <x.example>", "has:list-id"),
        ("Content-Transfer-Encoding: base64", "encoding:text/plain=base64"),
    ],
)
def test_a_relation_of_header_fields(headers: str, token: str) -> None:
    assert token in read(headers)


def results(*values: str) -> set[str]:
    fields = "\n".join(f"Authentication-Results: {value}" for value in values)
    return {token for token in read(f"{fields}\nFrom: a@example.org") if token.startswith("auth:")}


def test_results_of_authentication_are_those_of_the_topmost_field_only() -> None:
    own = "mx.example; spf=pass smtp.mailfrom=x; dkim=fail (bad) header.d=y; dmarc = none"
    expected = {"auth:spf=pass", "auth:dkim=fail", "auth:dmarc=none"}
    assert results(own) == expected
    assert results(own, "mx.example; arc=pass; dkim=pass") == expected
    assert results("mx.example; none") == {"auth:none"}


@pytest.mark.parametrize(
    "forged",
    [
        "mx.example; spf=fail (domain of x; dkim=pass; y)",
        "mx.example; spf=fail (domain of (nested; dkim=pass) x; dkim=pass)",
        'mx.example; spf=fail smtp.mailfrom="a; dkim=pass"@x.example',
        "mx.example; spf=fail smtp.mailfrom=dkim=pass@x.example",
        "dkim=pass; spf=fail",
    ],
)
def test_text_of_the_sender_is_no_result_of_authentication(forged: str) -> None:
    assert results(forged) == {"auth:spf=fail"}


@pytest.mark.parametrize(
    ("page", "token"),
    [
        ("hi", "links:none"),
        ("hi", "images:none"),
        ("hi", "hidden-text:0"),
        ("<a href=https://www.example.org/x>y</a>", "links:own-domain"),
        ("<a href=https://example.org.evil.example/x>y</a>", "links:other-domain"),
        ("<a href=https://example.org@evil.example/x>y</a>", "links:other-domain"),
        ("<a href=https://evil.example?example.org/x>y</a>", "links:other-domain"),
        ("<a href=HTTPS://EXAMPLE.ORG:443/x>y</a>", "links:own-domain"),
        ("<a href=https://a.example><a href=https://example.org>", "links:mixed"),
        ("<a href=https://a.example><a href=https://example.org>", "links:some-own-domain"),
        ("<a href=https://a.xyz/1><a href=https://b.xyz/2><a href=https://b.xyz/3>", "links:tld=xyz"),
        ("<a href=https://a.xyz/1><a href=https://b.xyz/2><a href=https://c.xyz/3>", "link-domains:2+"),
        ("<a href=https://a.example/1><a href=https://example.org/2>" * 2, "most-links:other-domain"),
        ("<a href=http://192.0.2.7/x>", "links:numeric-address"),
        ("<a href=http://example.org/x>", "links:all-http"),
        ("<a href=http://example.org/x><a href=https://example.org/y>", "links:some-http"),
        ("<img src=https://cdn.example/x>", "images:other-domain"),
        ("<a href=https://example.org/x><img src=https://img.example.org/y>", "images:as-links"),
        ("<a href=https://example.org/x><img src=https://cdn.example/y>", "images:elsewhere"),
        ("<img src=cid:1>", "images:attached"),
        ("<style>@media print {a {b: c}}</style>", "page:@media"),
        ("<!DOCTYPE html><p>x", "page:doctype"),
        ("<p hidden>one two three</p>", "hidden-text:2+"),
    ],
)
def test_a_relation_of_a_page(page: str, token: str) -> None:
    assert token in read("From: a@mail.example.org", page, "text/html")


def test_links_of_plain_text_and_far_down_a_page_are_compared() -> None:
    assert "links:other-domain" in read("From: a@example.org", "see https://evil.example/x")
    far = "<p>x</p>" * 400 + "<a href=https://evil.example/x>y</a>"
    assert "links:other-domain" in read("From: a@example.org", far, "text/html")
    raw = f"From: a@example.org\nContent-Type: text/html\n\n{far}".encode()
    assert b"url:evil.example" in tokens.read(parse(raw)).marks
    assert b"url:evil.example" not in tokens.read(parse(raw), 1).marks


@pytest.mark.parametrize(
    ("body", "token"),
    [
        ("short", "quoted-printable:short-lines"),
        ("a" * 75 + "=\n" + "b" * 70 + "=\nc", "quoted-printable:lines=76"),
        ("b=\n" + "a" * 500 + "=\nc", "quoted-printable:lines=100"),
        ("caf=c3=a9", "quoted-printable:lower-case"),
    ],
)
def test_how_quoted_printable_was_written(body: str, token: str) -> None:
    found = read("From: a@example.org\nContent-Transfer-Encoding: quoted-printable", body)
    assert token in found
    assert ("quoted-printable:lower-case" in found) == ("=c3" in body)
    assert not any(token.startswith("quoted") for token in read("From: a@example.org", body))


@given(st.binary(max_size=2000))
def test_any_bytes_have_few_short_printable_relations(raw: bytes) -> None:
    found = tokens.read(parse(canonical(raw))).relations.decode().split(" ")
    assert len(found) == len(set(found)) < 100
    for token in found:
        assert re.fullmatch(r"[a-z\-]{2,20}:\S{1,60}", token), token


def test_every_kind_of_relation_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "tokens.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([a-z\\-]+):[^`]+`", page))
    kinds = {
        token.partition(":")[0]
        for raw in [one.raw for one in messages()] + [path.read_bytes() for path in GOLDEN.glob("*.eml")]
        for token in tokens.read(parse(canonical(raw))).relations.decode().split()
    }
    assert {"auth", "links", "unsubscribe"} <= kinds <= documented


def test_version_1_has_no_relations() -> None:
    assert tokens.read(parse(b"From: a@example.org\n\nhi"), 1).relations == b""


def test_the_work_for_a_hostile_message_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    def count(value: str) -> list[str]:
        nonlocal looked_at
        looked_at += len(value)
        return []

    monkeypatch.setattr(relations, "find_addresses", count)
    names = ("From", "To", "Cc", "Reply-To", "Sender", "Message-ID", "List-Unsubscribe", "Errors-To")
    fields = "".join(f"{name}: {'a@b.c,' * 2000}\n" for name in names * 50)
    reference.read(parse(fields.encode()), tokens.VERSION)
    assert 0 < looked_at < 200_000
