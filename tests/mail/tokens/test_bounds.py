"""The tokens of one hostile message take no more work than its size allows: work is counted, never timed."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import fold_text, parse
from tamis_mail.tokens import VERSION, body, headers, read, reference, relations
from tests.steps import assert_proportional

ADDRESS = re.compile(r"[^\s<>\"'(),:;@\[\]]{1,100}@[\w.\-]{1,200}")  # what an address is, in one expression
PIECES = ["a", "@", "@", " ", "<", ".", "-", "é", "b" * 99, "b" * 100, "b" * 101, "c" * 200, "!", ",", "+="]


class Separators:
    """An expression that counts the characters that it is given to split."""

    def __init__(self, expression: re.Pattern[str]) -> None:
        self.expression = expression
        self.characters = 0

    def split(self, text: str) -> list[str | None]:
        self.characters += len(text)
        return self.expression.split(text)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_addresses_are_what_one_expression_finds(pieces: list[str]) -> None:
    value = "".join(pieces)
    addresses = [f"to:{address}" for address in ADDRESS.findall(value.lower())]
    tokens = headers.read([("to", value)]).split(" ")
    if len(addresses) <= 20:
        assert [token for token in tokens if token in addresses] == addresses
    else:
        assert set(addresses[:20]) <= set(tokens)
    words = re.findall(r"\w{2,40}", ADDRESS.sub(" ", value.lower()[:1000]))
    assert {f"to:{word}" for word in words[:40]} <= set(tokens)


@pytest.mark.parametrize("value", ["a" * 5000, "a" * 4900 + "@b", "a@b" * 1600, "a@ " * 1600, "@" * 5000])
def test_each_character_of_a_value_is_looked_at_once_for_addresses(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Separators(headers._NOT_LOCAL)
    monkeypatch.setattr(headers, "_NOT_LOCAL", counted)
    headers.read([("to", value)])
    assert counted.characters <= len(value) + 1000


def test_the_characters_of_all_fields_that_are_folded_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = 0

    def count(text: str) -> tuple[str, tuple[str, ...]]:
        nonlocal folded
        folded += len(text)
        return fold_text(text)

    monkeypatch.setattr(headers, "fold_text", count)
    fields = [("to", f"{number} " + "\ufdfb" * 5000) for number in range(200)]
    tokens = headers.read([*fields, ("x-late", "needle")])
    assert 50_000 <= folded <= 100_000
    assert "to>to" in tokens


HOSTILE: dict[str, Callable[[int], str]] = {
    "addresses": lambda n: "From: " + "a@b.c," * n + "\n\n",
    "at signs": lambda n: "From: x" + "@" * n + "\n\n",
    "fields": lambda n: "Reply-To: a@b.c\n" * n + "\n",
    "signatures": lambda n: "DKIM-Signature: " + "d=" * n + "\n\n",
    "comments": lambda n: "Authentication-Results: x;" + "(" * n + ")" * n + "\n\n",
    "results": lambda n: "Authentication-Results: x" + ";spf=pass" * n + "\n\n",
    "links to unsubscribe": lambda n: "List-Unsubscribe: " + "<http://a.b/>," * n + "\n\n",
    "links": lambda n: "Subject: s\n\n" + "".join(f"http://h{number}.example/ " for number in range(n)),
    "links of a page": lambda n: (
        "Content-Type: text/html\n\n" + "<p>" * 300 + "".join(f"<a href=http://h{i}.b>" for i in range(n))
    ),
    "broken lines": lambda n: "Content-Transfer-Encoding: quoted-printable\n\n" + "x=\n" * n,
    "rules": lambda n: "Subject: s\n\n" + "td {a: b;} " * n,
    "open rules": lambda n: "Subject: s\n\n" + "{a:b;" * n,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_steps_for_a_hostile_message_grow_at_most_in_proportion_to_it(name: str) -> None:
    def work(size: int) -> None:
        for cached in (headers._read_cached_field, body._describe_link, relations.find_domain):
            cached.cache_clear()
        reference.read(parse(HOSTILE[name](size).encode()), VERSION)

    assert_proportional(work, 100)


def test_an_ordinary_message_with_a_hundred_recipients_is_read_whole() -> None:
    people = b", ".join(b"Person %d <p%d@example.org>" % (number, number) for number in range(100))
    raw = b"To: " + people + b"\nSubject: late\nX-Last: needle\n\nbody"
    assert b"x-last:needle" in read(parse(raw)).headers.split()
