"""Any bytes are a message: nothing raises, all is bounded, and the same bytes are the same message."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.message import Message, canonical, digest, parse, read_html
from tamis_mail.message.addresses import read_recipients, read_senders
from tamis_mail.message.fields import FIELDS, LONGEST
from tamis_mail.message.tree import DEPTH, NAME, PARTS, SHAPE

NESTED = b"""\
From: =?utf-8?q?Ann_=C3=89mile?= <ann@a.example>
Subject: =?iso-2022-jp?b?GyRCMnE1RBsoQg==?=
Content-Type: multipart/mixed; boundary="=_a"

preamble
--=_a
Content-Type: multipart/alternative; boundary=b

--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

caf=C3=A9 =
now
--b
Content-Type: text/html; charset="iso-8859-1"
Content-Transfer-Encoding: base64

PHA+Y2Fm6TwvcD4=
--b--
--=_a
Content-Type: image/png; name*0*=utf-8''%e2; name*1*=%82%ac.png
Content-Disposition: attachment
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--=_a--
""".replace(b"\n", b"\r\n")
FORWARDED = b"""\
From ann Mon
Status: RO
X-Spam-Flag: YES
 folded
Content-Type: message/rfc822

Subject: in
Content-Type: text/html

<p style="display:none">a<a href='http://b.example'>c.example</a>&#118;<!-- x -->
"""
PASTED = b"""\
Subject: x
Content-Type: text/plain; charset=utf-16; charset=utf-7

+AGE-
begin 644 a
MAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
`
end
"""
SEEDS = [NESTED, FORWARDED, PASTED]
PIECES = st.sampled_from(
    [
        *(line + b"\n" for seed in SEEDS for line in seed.split(b"\n")),
        *[
            b"\n",
            b"\r",
            b"\0",
            b"--",
            b"=",
            b"?=",
            b"=?",
            b";",
            b'"',
            b":",
            b" ",
            b"\x1b$B",
            b"\xff\xfe",
            b"\xed\xa0\x80",
        ],
        *[
            b"boundary=",
            b"charset=",
            b"name*1*=",
            b"Content-Type: ",
            b"multipart/mixed;",
            b"message/rfc822\n\n",
        ],
    ]
)


def check(raw: bytes) -> Message:
    once = canonical(raw)
    assert canonical(once) == once
    message = parse(once)
    assert message.raw is once or message.raw == once
    assert len(message.headers) <= FIELDS
    assert all(name == name.lower() and len(value) <= LONGEST for name, value in message.headers)
    assert 1 <= len(message.parts) <= PARTS + 1
    assert len(message.shape) <= SHAPE
    assert message.shape.count("(") <= DEPTH
    assert list(message.faults) == sorted(set(message.faults))
    said = [*message.faults, message.shape]
    for name, value in message.headers:
        said += [name, value]
        assert "\n" not in value
    for part in message.parts:
        assert part.kind.count("/") == 1
        assert part.kind == part.kind.lower()
        assert len(part.name) <= NAME
        assert part.disposition in ("", "inline", "attachment")
        assert part.size >= 0
        assert "\r" not in part.text
        page = read_html(part.text)
        said += [part.kind, part.charset, part.encoding, part.name, part.text, page.visible, page.hidden]
    senders = read_senders(once)
    said += [*senders.addresses, *read_recipients(once)]
    assert not senders.is_clear or senders.addresses
    "".join(said).encode()  # all of it can be written down
    return message


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message(raw: bytes) -> None:
    check(raw)


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=40).map(b"".join))
def test_any_lines_are_a_message(raw: bytes) -> None:
    check(raw)


def mutated(seed: bytes, source: random.Random) -> bytes:
    """A message with a few cuts, copies, flips and strange bytes."""
    raw = bytearray(seed)
    for _ in range(source.randint(1, 8)):
        start, length = source.randrange(len(raw) + 1), source.randrange(1, 40)
        match source.randrange(5):
            case 0:
                del raw[start : start + length]
            case 1:
                raw[start:start] = source.randbytes(length)
            case 2:
                raw[start:start] = raw[source.randrange(len(raw) + 1) :][:length]
            case 3:
                raw[start : start + 1] = bytes([source.choice(b"\0\n\r =?;:\"'<>&-/\\%*\x1b\xff")])
            case _:
                del raw[start:]
    return bytes(raw)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 2**32))
def test_a_message_that_was_damaged_is_a_message(seed: bytes, number: int) -> None:
    check(mutated(seed, random.Random(number)))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 2**32))
def test_ends_of_lines_make_no_difference(seed: bytes, number: int) -> None:
    raw = mutated(seed, random.Random(number)).replace(b"\r", b"")
    assert digest(canonical(raw.replace(b"\n", b"\r\n"))) == digest(canonical(raw))


def test_the_seeds_are_read_as_they_were_meant() -> None:
    shapes = [check(seed).shape for seed in SEEDS]
    assert shapes == [
        "multipart/mixed(multipart/alternative(text/plain,text/html),image/png)",
        "message/rfc822(text/html)",
        "text/plain",
    ]
    assert check(SEEDS[0]).faults == ()
    assert [part.name for part in check(SEEDS[0]).parts] == ["", "", "€.png"]
