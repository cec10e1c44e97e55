"""Addresses of header fields: who sent a message, who receives it, and what a forger cannot pretend."""

from email.headerregistry import Address
from email.utils import getaddresses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import canonical
from tamis_mail.message.addresses import (
    FIELD,
    FROM_FIELDS,
    LONGEST,
    RECIPIENTS,
    SENDERS,
    normalise_address,
    normalise_domain,
    parse_addresses,
    read_recipients,
    read_senders,
    split_domain,
)
from tamis_mail.message.fields import LONGEST as LONGEST_VALUE
from tests.steps import assert_proportional, count_steps

WELL_FORMED = {
    "ann@example.org": ["ann@example.org"],
    "Ann <ANN@Example.Org>": ["ann@example.org"],
    '"Ann, at work" <ann@example.org>': ["ann@example.org"],
    "ann@example.org (Ann (at) work)": ["ann@example.org"],
    "Ann <ann@example.org> (at work)": ["ann@example.org"],
    "a@x.org, b@x.org ,": ["a@x.org", "b@x.org"],
    "Friends: a@x.org, Bob <b@x.org>;": ["a@x.org", "b@x.org"],
    "undisclosed-recipients:;": [],
    "<@a.org,@b.org:joe@c.org>": ["joe@c.org"],
    "ann . smith @ example . org": ["ann.smith@example.org"],
    '"ann"@example.org': ["ann@example.org"],
    '"a b"@example.org': ["a b@example.org"],
    r'"Ann \"the\" Smith" <ann@example.org>': ["ann@example.org"],
    "ann+lists@example.org": ["ann+lists@example.org"],
    "ann@[192.0.2.1]": ["ann@[192.0.2.1]"],
    "ann@example.org.": ["ann@example.org"],
    "[Team] <team@example.org>": ["team@example.org"],
    "ann@M\u00fcnchen.example": ["ann@xn--mnchen-3ya.example"],
    "ann@XN--MNCHEN-3YA.example": ["ann@xn--mnchen-3ya.example"],
    "ann@stra\u00dfe.example": ["ann@xn--strae-oqa.example"],
    "M\u00fcller <M\u00dcLLER@example.org>": ["m\u00fcller@example.org"],
    "J. Smith <ann@example.org>": ["ann@example.org"],
    "Ann@example.org <ann@example.org>": ["ann@example.org"],
    '"a b".c@example.org': ["a b.c@example.org"],
    "ann (at) @ (home) example.org": ["ann@example.org"],
    "<@a.org,,@b.org:joe@c.org>": ["joe@c.org"],
    "Ann <ann@x.org>, Friends: b@x.org;, , c@x.org": ["ann@x.org", "b@x.org", "c@x.org"],
    "ann@a\uff61b.org": ["ann@a.b.org"],
}


@pytest.mark.parametrize("value", WELL_FORMED)
def test_a_well_formed_field_has_these_addresses(value: str) -> None:
    assert parse_addresses(value.encode().decode("latin-1")) == (WELL_FORMED[value], True)


# What a forger writes who wants to pass for ann@example.org.
FORGERIES = {
    '"ann@example.org" <eve@evil.org>': (["eve@evil.org"], True),
    "ann@example.org <eve@evil.org>": (["eve@evil.org", "ann@example.org"], False),
    "eve@evil.org <ann@example.org>": (["ann@example.org", "eve@evil.org"], False),
    "eve@evil.org <ann@example.org": (["ann@example.org", "eve@evil.org"], False),
    "Eve @ evil.org <ann@example.org>": (["ann@example.org", "eve@evil.org"], False),
    "<ann@example.org> eve@evil.org": (["ann@example.org", "eve@evil.org"], False),
    "<ann@example.org:eve@evil.org>": (["ann@example.org", "eve@evil.org"], False),
    "<@a.org:@b.org:ann@example.org>": (["ann@example.org"], False),
    "<@a.org,ann@example.org>": (["ann@example.org"], False),
    "<,ann@example.org>": (["ann@example.org"], False),
    "<:ann@example.org>": (["ann@example.org"], False),
    "<ann@example.org,:>": (["ann@example.org"], False),
    '"eve@" ann@example.org': (["ann@example.org"], False),
    'eve ".ann"@example.org': ([".ann@example.org"], False),
    'a"nn"@example.org': (["ann@example.org"], False),
    'ann@"example.org"': (["ann@example.org"], False),
    'ann@example".org"': (["ann@example.org"], False),
    "ann..x@example.org": (["ann..x@example.org"], False),
    ".ann@example.org": ([".ann@example.org"], False),
    "ann.@example.org": (["ann.@example.org"], False),
    "ann[x]@example.org": (["ann[x]@example.org"], False),
    r"Eve \" <ann@example.org>": (["ann@example.org"], False),
    "Eve\0 <ann@example.org>": (["ann@example.org"], False),
    "ann\u00a0@example.org": ([], False),
    "\u00a0ann@example.org": (["ann@example.org"], False),
    "[<eve@evil.org>] <ann@example.org>": (["ann@example.org"], False),
    "[eve:] <ann@example.org>": (["ann@example.org"], False),
    "=?utf-8?q?eve=40evil=2Eorg?=@example.org": (["=?utf-8?q?eve=40evil=2eorg?=@example.org"], False),
    "ann@example.org;": (["ann@example.org"], False),
    ": ann@example.org;": (["ann@example.org"], False),
    "Friends: ann@example.org": (["ann@example.org"], False),
    "a: b: ann@example.org;": (["ann@example.org"], False),
    "a: ann@example.org; b: eve@evil.org;": (["ann@example.org", "eve@evil.org"], False),
    "Eve <eve@evil.org>: ann@example.org;": (["eve@evil.org", "ann@example.org"], False),
    '"Ann <ann@example.org>" <eve@evil.org>': (["eve@evil.org"], True),
    "=?utf-8?q?ann=40example=2Eorg?= <eve@evil.org>": (["eve@evil.org"], True),
    "=?utf-8?q?=3Cann=40example=2Eorg=3E=2C?= <eve@evil.org>": (["eve@evil.org"], True),
    "(ann@example.org) eve@evil.org": (["eve@evil.org"], True),
    '"ann@example.org"@evil.org': (["ann@example.org@evil.org"], True),
    "ann@example.org.evil.org": (["ann@example.org.evil.org"], True),
    "ann@example.org@evil.org": (["ann@example.org@evil.org"], False),
    "<ann@example.org> <eve@evil.org>": (["ann@example.org", "eve@evil.org"], False),
    "ann@example.org eve@evil.org": (["ann@example.org", "eve@evil.org"], False),
    "<ann@example.org, eve@evil.org>": (["ann@example.org", "eve@evil.org"], False),
    "<ann@example.org> eve": (["ann@example.org"], False),
    '(") <ann@example.org> (") <eve@evil.org>': (["ann@example.org", "eve@evil.org"], False),
    "eve@evil.org <>, ann@example.org": (["eve@evil.org", "ann@example.org"], False),
    "eve@evil.org: <ann@example.org>;": (["eve@evil.org", "ann@example.org"], False),
    "eve, ann@example.org": (["ann@example.org"], False),
    "<ann@example.org": (["ann@example.org"], False),
    "ann@example.org (eve@evil.org": (["ann@example.org"], False),
    'ann@example.org "eve': (["ann@example.org"], False),
    "ann@exa\0mple.org": ([], False),
    "ann@exam\u0440le.org": (["ann@xn--examle-erf.org"], True),  # a Cyrillic letter
}


@pytest.mark.parametrize("value", FORGERIES)
def test_a_forged_field_is_not_ann_or_not_clear(value: str) -> None:
    addresses, is_well_formed = parse_addresses(value.encode().decode("latin-1"))
    assert (addresses, is_well_formed) == FORGERIES[value]
    assert addresses != ["ann@example.org"] or not is_well_formed


def test_several_from_fields_are_several_senders() -> None:
    senders = read_senders(b"From: ann@example.org\nSubject: a\nFrom: eve@evil.org\n\nFrom: x@y.org")
    assert (senders.addresses, senders.is_clear) == (("ann@example.org", "eve@evil.org"), True)
    assert not read_senders(b"Subject: a\n\nbody").is_clear
    many = b"From: ann@example.org\n" * (FROM_FIELDS + 1)
    assert not read_senders(many).is_clear
    others = ", ".join(f"a{n}@x.org" for n in range(SENDERS + 1))
    crowd = read_senders(f"From: {others}\n\n".encode())
    assert (len(crowd.addresses), crowd.is_clear) == (SENDERS, False)


@pytest.mark.parametrize(
    "filler",
    [b"X-A: b\n" * 1000, b"X-A: " + b"b" * (1 << 21) + b"\n", b"no field\nnor this\n"],
    ids=["fields", "bytes", "lines"],
)
def test_a_from_behind_what_is_read_of_the_header_is_not_clear(filler: bytes) -> None:
    senders = read_senders(b"From: ann@example.org\n" + filler + b"FROM : eve@evil.org\n\nFrom: x@y.org")
    assert (senders.addresses, senders.is_clear) == (("ann@example.org",), False)
    assert read_senders(b"From: ann@example.org\n" + filler + b"\nFrom: eve@evil.org").is_clear


def test_a_field_that_is_too_long_to_be_read_is_not_clear() -> None:
    for spaces in (FIELD, LONGEST_VALUE):
        senders = read_senders(b"From: ann@example.org" + b" " * spaces + b", eve@evil.org\n\n")
        assert (senders.addresses, senders.is_clear) == (("ann@example.org",), False)


def test_a_field_of_the_largest_length_is_clear() -> None:
    address = "ann@example.org"
    assert parse_addresses(" " * (FIELD - len(address)) + address) == ([address], True)
    assert parse_addresses(" " * (FIELD - len(address) + 1) + address) == (["ann@example.or"], False)


def test_recipients_are_those_of_to_cc_and_bcc() -> None:
    raw = b"From: me@x.org\nTo: a@x.org\nCC: Bob <b@x.org>,\n c@x.org\nbcc: A@X.org\nReply-To: d@x.org\n\n"
    assert read_recipients(raw) == ("a@x.org", "b@x.org", "c@x.org")
    assert read_recipients(b"Auto-Submitted: no\n" + raw) == ("a@x.org", "b@x.org", "c@x.org")
    assert read_recipients(b"Auto-Submitted: (by a person) No\n" + raw) == ("a@x.org", "b@x.org", "c@x.org")
    assert read_recipients(b"Auto-Submitted: auto-replied\n" + raw) == ()
    assert read_recipients(b"To: eve@evil.org <ann@x.org>\n\n") == ("ann@x.org",)
    many = ",".join(f"a{n}@x.org" for n in range(RECIPIENTS + 5))
    assert len(read_recipients(f"To: {many}\n\n".encode())) == RECIPIENTS


RESULTS = {
    b"mx.home; dmarc=fail (p=none) header.from=example.org": True,
    b"mx.home 1; spf=pass;\n dmarc = FAIL": True,
    b"mx.home; dmarc/1=fail": True,
    b"spf=pass smtp.mailfrom=x; dmarc=fail action=none": True,  # without the name of the server
    b"dmarc=fail": True,
    b"mx.home; spf=pass\nAuthentication-Results: mx.home; dmarc=fail": True,
    b"mx.home; spf=pass\nAuthentication-Results: list.example; dmarc=fail": False,
    b"mx.home; dmarc=pass\nAuthentication-Results: mx.other; dmarc=fail": False,
    b"mx.home; dmarc=pass": False,
    b"mx.home; dmarc=none": False,
    b"mx.home; none": False,
    b"mx.home; dkim=pass (dmarc=fail)": False,
    b'mx.home; dkim=pass reason="; dmarc=fail"': False,
    b"mx.home; x-dmarc=fail": False,
    b"mx.home; dmarc=failed": False,
    b"": False,
}


@pytest.mark.parametrize("results", RESULTS)
def test_the_topmost_server_says_whether_dmarc_failed(results: bytes) -> None:
    raw = b"Received: x\nAuthentication-Results: " + results + b"\nFrom: ann@example.org\n\n"
    assert read_senders(canonical(raw)).fails_dmarc is RESULTS[results]


@given(st.text(min_size=1, max_size=20), st.text(max_size=30))
def test_a_normal_form_is_its_own_normal_form(local: str, domain: str) -> None:
    for host in (domain, f"{domain}.example"):
        normal = normalise_domain(host)
        if normal is not None:
            assert normal.isascii()
            assert normalise_domain(normal) == normal
        address = normalise_address(local, host)
        if address is not None:
            assert len(address) <= LONGEST
            assert len(address.splitlines()) == 1
            first, _, last = address.rpartition("@")
            assert normalise_address(first, last) == address


NAMES = st.text("abc ,.@<>()\"'\\:;é", max_size=12).map(str.strip)
LOCALS = st.text("abc019.+-_", min_size=1, max_size=9).filter(
    lambda text: not text.startswith(".") and not text.endswith(".") and ".." not in text
)
MAILBOXES = st.builds(lambda name, local: Address(name, local, "Mail.Example.org"), NAMES, LOCALS)


@given(st.lists(MAILBOXES, min_size=1, max_size=4))
def test_mailboxes_that_python_writes_are_read(mailboxes: list[Address]) -> None:
    value = ", ".join(map(str, mailboxes)).encode().decode("latin-1")
    expected = [f"{one.username}@mail.example.org" for one in mailboxes]
    assert parse_addresses(value) == (expected, True)
    assert [address.lower() for _, address in getaddresses([value])] == expected


@given(st.text('ab@.<>()",;:\\[] \n\t\x00é=?', max_size=60))
@settings(max_examples=300)
def test_any_text_has_addresses_in_normal_form(value: str) -> None:
    addresses, _ = parse_addresses(value)
    for address in addresses:
        local, _, domain = address.rpartition("@")
        assert normalise_address(local, domain) == address
        assert split_domain(address)[0] == domain


PATTERNS = ["(", '"', "<", "\\", "@", "[", "a ", "(\\", '"\\', "<a@b,", "a:", "((a)", ";("]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_work_is_proportional_to_the_length_of_a_field(pattern: str) -> None:
    assert_proportional(lambda size: parse_addresses(pattern * (size // len(pattern))), FIELD // 8 - 10)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_only_so_many_fields_are_read(pattern: str) -> None:
    def work(fields: int) -> int:
        value = pattern.encode() * 100
        raw = b"From: %s\nAuthentication-Results: %s\nTo: %s\n" % (value, value, value)
        return count_steps(lambda: (read_senders(raw * fields), read_recipients(raw * fields)))

    work(1)
    assert work(1000) < 2 * work(250)  # the lines of the block itself are still counted
