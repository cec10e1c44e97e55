"""Version 3 of the tokens says whether servers, sender, recipient and text agree, and how late mail came."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fuzz_mail import Fuzzer
from tamis_mail import features, tokens
from tamis_mail.features import hashing
from tamis_mail.message import canonical, parse
from tamis_mail.sample import messages
from tamis_mail.tokens import Tokens, agreements, headers, patterns, reference
from tests.steps import assert_proportional

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parent / "golden"
HOP = "from mail.example.org (mx.example.org [192.0.2.1]) by mx.example.com for <bob@example.com>"
DATE = "Date: Fri, 23 Aug 2002 23:10:22 +0800"


def read(head: str, body: str = "", version: int = 3) -> Tokens:
    return reference.read(parse(canonical(f"{head}\n\n{body}".encode())), version)


def received(*hops: str) -> str:
    return "\n".join(f"Received: {hop}" for hop in hops)


@pytest.mark.parametrize(
    ("head", "token"),
    [
        (received(HOP), "oldest-hop:domain=same"),
        (received("from [192.0.2.1] (mx.example.org [192.0.2.1]) by b"), "oldest-hop:address=other"),
        (received("from laptop (mx.example.org [192.0.2.1]) by b"), "oldest-hop:word=other"),
        (received("from 3221225985 by b"), "oldest-hop:number=unnamed"),
        (received("from mail.example.org by b"), "oldest-hop:domain=unnamed"),
        (received("by b with SMTP"), "oldest-hop:no-claim"),
        (received("from a.example by b", "by c"), "second-hop:domain=unnamed"),
        (received(HOP), "oldest-hop-says:recipient"),
        (received("from a (may be forged) by b"), "oldest-hop-says:forged"),
        (received("from a (unknown [192.0.2.1]) by b for <c@b>"), "oldest-hop-says:unknown+recipient"),
        (received("from a by b"), "oldest-hop-says:nothing"),
        (received(HOP) + "\nFrom: a@news.example.org", "route:has-sender"),
        (received(HOP) + "\nFrom: a@other.example", "route:lacks-sender"),
        (
            received(HOP) + "\nFrom: a@x.example\nMessage-ID: <1@example.org>",
            "message-id-domain:in-route,other",
        ),
        (
            received(HOP) + "\nFrom: a@x.example\nMessage-ID: <1@x.example>",
            "message-id-domain:not-in-route,own",
        ),
        (
            received(HOP) + "\nFrom: a@example.org\nReturn-Path: <a@example.org>",
            "return-path-domain:in-route,own",
        ),
        (received(HOP) + "\nTo: Bob <bob@example.com>", "hop-recipient:addressed,1+"),
        (received(HOP) + "\nTo: a@x.example, b@x.example", "hop-recipient:not-addressed,2+"),
        ("To: bob@example.com", "hop-recipient:unknown,1+"),
        (received(HOP + "; Fri, 23 Aug 2002 15:19:22 +0000") + f"\n{DATE}", "delay:8+min"),
        (received(HOP + "; Fri, 23 Aug 2002 15:09:00 +0000") + f"\n{DATE}", "delay:-1+min"),
        (received(HOP + "; Fri, 23 Aug 2002 15:10:00 +0000") + f"\n{DATE}", "delay:-0min"),
        (received(HOP + "; Fri, 23 Aug 2002 15:10:30 +0000") + f"\n{DATE}", "delay:0min"),
        (received(HOP + "; Fri, 23 Aug 2002 15:10:30 +0000", "by b") + f"\n{DATE}", "delay:0min"),
        (received(HOP + "; Fri, 23 Aug 2002 15:10:30 +0000") + f"\n{DATE}", "sent-hour:20-23"),
        (received(HOP + "; Fri, 23 Aug 2002 15:10:30 +0000") + f"\n{DATE}", "sent-seconds:other"),
        (
            received("by b; 24 Aug 2002 04:00:01 +0000") + "\nDate: 24 Aug 2002 04:00:00 +0000",
            "sent-seconds:zero",
        ),
        (received(HOP) + f"\n{DATE}", "delay:no-hop-date"),
        (received(HOP + "; Fri, 23 Aug 2002 15:10:30 +0000"), "delay:no-date"),
        (received("by b"), "delay:no-dates"),
    ],
)
def test_header_fields_have_a_token_of_agreement(head: str, token: str) -> None:
    assert token in read(head).relations.decode().split()


@pytest.mark.parametrize(
    ("head", "body", "token"),
    [
        ("To: bob@example.com", "dear bob, hello", "recipient-in-text:local-part"),
        ("To: Robert <bob@example.com>", "dear Robert, hello", "recipient-in-text:word"),
        ("To: Robert <bob@example.com>", "dear robert (bob)", "recipient-in-text:local-part+word"),
        ("To: bob@example.com", "dear friend", "recipient-in-text:no"),
        ("From: x@shop.example", "the best shop", "sender-in-text:yes"),
        ("From: x@shop.example", "the best place", "sender-in-text:no"),
        ("From: Ann Lee <x@shop.example>", "yours, Lee", "from-in-text:yes"),
        ("From: Ann Lee <x@shop.example>", "yours, Bob", "from-in-text:no"),
        ("Subject: one two three four", "one", "subject-in-text:1/4"),
        ("Subject: one two three four five six seven eight", "one", "subject-in-text:0/4"),
        ("Subject: one two three four five six seven eight", "one two three", "subject-in-text:2/4"),
        ("Subject: one two", "two one", "subject-in-text:4/4"),
        ("From: x@shop.example", "x", "subject-in-text:0/4"),
    ],
)
def test_fields_and_text_have_a_token_of_agreement(head: str, body: str, token: str) -> None:
    assert token in read(head, body).relations.decode().split()


@pytest.mark.parametrize(
    ("head", "token"),
    [
        ("Message-ID: <2002AB.x7@Mail.Example>", "pattern:message-id=<A.a@Aa.Aa>"),
        ("Subject: Cheap_WATCHES  now!!", "pattern:subject=Aa0A__a!!"),
        ("Subject: é1a2a", "pattern:subject=éaa"),
        ("From: " + "a-" * 60, "pattern:from=" + "a-" * 20),
        ('Content-Type: a/b; boundary="--AAA12345678901_b"', "pattern:boundary=--A3990a"),
        ("Content-Type: a/b; boundary=b", "pattern:boundary=a"),
        (
            "Received: from x1.example (unknown [192.0.2.1]) by Mail with id_A; Fri",
            "pattern:hop=from_x_(unknown_[x])_by_Mail_with_id0A",
        ),
        ("Received: " + "ab " * 60, "pattern:hop=" + ("ab_" * 27)[:80]),
    ],
)
def test_the_value_of_a_field_has_a_pattern(head: str, token: str) -> None:
    assert token in read(head).patterns.decode().split()


def test_numbers_have_their_signs_and_are_read_in_each_part() -> None:
    marks = read("Subject: s", "$1,299.00 at 10:30 on 2026-11-19, 50% off £5 ٣").marks.decode().split()
    numbers = [mark for mark in marks if mark.startswith("number:")]
    assert numbers == [
        f"number:{number}" for number in ("$9,999.99", "99:99", "9999-99-99,", "99%", "£9", "٣")
    ]
    page = "Content-Type: multipart/alternative; boundary=b"
    body = (
        f"--b\n\n{'word ' * 3000}\n--b\nContent-Type: text/html\n\n<p style='width:7px'>Only $25</p>\n--b--"
    )
    assert "number:$99" in read(page, body).marks.decode().split()  # its words are not read


def test_pairs_of_words_of_the_subject_differ_from_those_of_the_text() -> None:
    names = hashing.name_features(read("Subject: free money", "free money"))
    pairs = [name for number, name in names.items() if features.view(number) == features.PAIRS]
    assert sorted(pairs) == ["free money", "subject: ^ free", "subject: free money", "subject: money $"]


def test_a_feature_depends_on_all_bytes_of_its_pattern() -> None:
    long = b"x" * 70
    numbers = [hashing.hash_tokens(Tokens(b"", b"", b"", b"", patterns=long + end)) for end in (b"a", b"b")]
    assert numbers[0] != numbers[1]


def test_hops_that_are_newer_than_the_three_oldest_change_nothing() -> None:
    old = received(*[f"from h{n}.example by b; Fri, 23 Aug 2002 15:1{n}:00 +0000" for n in range(3)])
    newer = received(
        "from own.example (unknown [192.0.2.9]) by mx for <me@b>; Sat, 24 Aug 2002 15:10:00 +0000"
    )
    with_old, with_all = (
        read(f"{head}\n{DATE}\nFrom: a@b.example", "hello") for head in (old, f"{newer}\n{old}")
    )
    assert with_old.relations == with_all.relations
    assert with_old.patterns == with_all.patterns


@pytest.mark.parametrize("name", ["X-Spam-Status", "X-Bogosity", "Status", "X-Mozilla-Status"])
def test_fields_that_filters_and_mailboxes_add_change_nothing(name: str) -> None:
    head = f"{received(HOP)}\n{DATE}\nFrom: a@b.example\nSubject: $5 now"
    assert read(f"{name}: from spam.example 99%\n{head}", "$7") == read(head, "$7")


MAIL = [one.raw for one in messages()][::7] + [path.read_bytes() for path in sorted(GOLDEN.glob("*.eml"))]


def test_version_3_has_all_features_of_version_2_and_further_ones() -> None:
    fuzzer = Fuzzer(MAIL, seed=3)
    for raw in [*MAIL, *(fuzzer.message(number)[0][:30_000] for number in range(100))]:
        message = parse(canonical(raw))
        older, newer = reference.read(message, 2), reference.read(message, 3)
        assert (older.head, older.headers, older.words) == (newer.head, newer.headers, newer.words)
        assert (older.patterns, older.subject) == (b"", b"")
        assert set(older.marks.split()) <= set(newer.marks.split())
        assert newer.relations.startswith(older.relations + b" ")
        assert hashing.hash_tokens(older) < hashing.hash_tokens(newer)


@given(st.binary(max_size=2000))
def test_any_bytes_have_tokens_of_bounded_length(raw: bytes) -> None:
    message = parse(canonical(raw))
    read_tokens = reference.read(message, 3)
    for token in read_tokens.patterns.decode().split(" "):
        assert re.fullmatch(r"(pattern:[a-z\-]{2,12}=\S{0,80})?", token), token
    assert all(len(mark) <= 47 for mark in read_tokens.marks.decode().split() if mark.startswith("number:"))
    assert read_tokens.subject.startswith(b"^ ")
    assert read_tokens.subject.endswith(b" $")
    assert len(read_tokens.subject.split()) <= 42


HOSTILE: dict[str, Callable[[int], str]] = {
    "hosts": lambda n: received("a" * n, "a." * n, "a-" * n),
    "claims": lambda n: received("from [" + "a" * n, "(a" * n, "(a " * n),
    "recipients": lambda n: received("for <" * n, "for <a> " * n, "for <>" * n),
    "dates": lambda n: received(";1 Jan 2002 00:00" * n, "1:" * n + ";") + "\nDate: " + "1 Jan " * n,
    "boundaries": lambda n: "Content-Type: a/b;" + 'boundary="' * n + "\nSubject: " + "aA1" * n,
    "subject": lambda n: "Subject: " + "a$ " * n + "\nTo: " + "a@b " * n,
    "numbers": lambda n: "Subject: s\n\n" + "1.," * n + "$" * n + "1% " * n,
    "parts": lambda n: (
        "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\nContent-Type: text/html\n\n<p>1</p>\n" * n
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_steps_for_a_hostile_message_grow_at_most_in_proportion_to_it(name: str) -> None:
    assert_proportional(lambda size: reference.read(parse(HOSTILE[name](size).encode()), 3), 100)


def test_long_fields_are_cut_off_before_they_are_searched() -> None:
    fields, hops = headers.select_fields([("received", "a." * 5000), ("to", "a@b," * 5000)] * 300)
    assert max(map(len, [*fields.values(), *hops])) == 2000
    assert len(hops) == 3
    assert len(patterns.read(fields, hops)) < 500
    assert len(agreements.read(fields, hops, b"")) < 1000


def test_every_kind_of_pattern_and_number_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "tokens.md").read_text(encoding="utf-8")
    for raw in MAIL:
        for token in tokens.read(parse(canonical(raw))).patterns.decode().split():
            assert f"`{token.partition('=')[0]}=" in page, token
    assert "`number:" in page
    assert "`subject: " in page
