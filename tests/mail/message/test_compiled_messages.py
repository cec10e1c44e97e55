"""The compiled core reads whole messages as the modules in Python do, or leaves them to Python."""

import random
from itertools import islice, product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_mail import Fuzzer
from benchmarks.hostile_mail import CASES
from tamis_mail import tokens
from tamis_mail.features import pack_features, read_features
from tamis_mail.message import digest, identify, parse, read_headings
from tamis_mail.message.canonical_reference import canonical
from tamis_mail.message.compiled import CANONICAL_FORM, MESSAGE_READER
from tamis_mail.message.dates import read_date
from tamis_mail.message.heading import read_by_python
from tamis_mail.sample import messages
from tamis_mail.tokens import reference
from tests.compiled_core import needs_core

pytestmark = needs_core

GOLDEN = sorted((Path(__file__).parents[1] / "tokens" / "golden").glob("*.eml"))
HEAD = b"Received: from a by b; Fri, 23 Aug 2002 23:10:22 +0800\nFrom: Ann <ann@example.org>\n"
PIECES = [
    *(
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r\r\n",
        b"\r",
        b" ",
        b"\t",
        b"\0",
        b"\x1b",
        b"\xe9",
        b"\xc3\xa9",
        b"\xef\xbb\xbf",
    ),
    *(
        b"From a Mon\n",
        b">From ",
        b">>From b\n",
        b"X-Spam-Flag: YES\n",
        b"\nstatus: R\n x",
        b"X-Old-X-Bogosity: y\n",
    ),
    *(
        b"Subject: ",
        b"=?utf-8?q?caf=C3=A9_?=",
        b"=?iso-8859-1?B?6Q==?=",
        b"=?utf-8?b?4p",
        b"=?x?q??=",
        b" =?UTF-8*en?Q?=C3?=",
    ),
    *(
        b"=C3",
        b"=A9",
        b"=\n",
        b"= \n",
        b"=zz",
        b"==",
        b"aGVsbG8=",
        b"aGVsbG8",
        b"a b c d e f",
        b"begin 644 a\nM11\nend\n",
    ),
    *(
        b"Content-Type: text/html; charset=utf-8\n",
        b"Content-Type: text/plain; charset=koi8-r\n",
        b"content-type: x\n",
    ),
    *(
        b"Content-Transfer-Encoding: base64\n",
        b"Content-Transfer-Encoding: quoted-printable\n",
        b"charset=gb2312;",
    ),
    *(
        b'Content-Disposition: attachment; filename="a\\".txt"\n',
        b"; name=b.pdf",
        b"; name*0*=utf-8''c",
        b"Received: ; ",
    ),
    *(
        b'Content-Type: multipart/mixed; boundary="x"\n\n',
        b"\n--x\n",
        b"\n--x--\n",
        b"\n--x \n",
        b"\n--y\n",
        b"\n--\n",
    ),
    *(
        b'Content-Type: multipart/alternative; boundary=y; boundary=" x "\n\n',
        b"Content-Type: message/rfc822\n\n",
    ),
    *(
        b"Date: ",
        b"1 Jan 99 1:02",
        b"31 Feb 2002 23:10:60.5",
        b"Fri Aug 23 23:10:22 2002",
        b" +08:00",
        b" PST",
        b" gmt-130",
    ),
    *(
        b"<html><p>hello",
        b"\xff\xfea\0b\0",
        b"+AGE-",
        b"\x1b$B",
        b"word ",
        b"http://a.example/b ",
        b"\x01" * 30,
    ),
]


def compare(raw: bytes) -> None:
    """Compare what the core says of a message with what Python says of it."""
    assert CANONICAL_FORM is not None
    assert MESSAGE_READER is not None
    plain = canonical(raw)
    assert identify([raw]) == ([plain], [digest(plain)])
    heading = read_by_python(raw, plain)
    assert MESSAGE_READER.read_headings([raw], [plain], CANONICAL_FORM)[0] in (None, heading)
    assert read_headings([raw], [plain]) == [heading]
    message = parse(plain)
    for version in tokens.COMPILED_VERSIONS:
        expected = (pack_features(reference.read(message, version)), read_date(message.headers))
        assert read_features([plain], version) == [expected]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join))
@example(b"")
@example(b"\n")
@example(b"X-Spam: y\n\n" * 3 + b"Subject: a\n\n\n")
@example(b"A: " + b"v" * 10_001 + b"\nSubject: s\n")
@example(b"a: b\n" * 1_001)
@example(b"Content-Transfer-Encoding: base64\n\nabcd====")
@settings(max_examples=300)
def test_both_read_the_same_of_any_bytes(raw: bytes) -> None:
    compare(raw)
    compare(HEAD + raw)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_both_read_the_same_of_golden_messages(path: Path) -> None:
    compare(path.read_bytes())


@pytest.mark.parametrize("name", CASES)
def test_both_read_the_same_of_hostile_messages(name: str) -> None:
    compare(CASES[name](4000))


@pytest.mark.parametrize("lead", range(0x80, 0x100, 4))
def test_both_replace_invalid_bytes_of_utf_8_by_as_many_characters(lead: int) -> None:
    head = b"Content-Type: text/plain; charset=utf-8\n\n"
    for first in range(lead, lead + 4):
        # At the limits of what may follow: no long forms, surrogates, or characters after the last one.
        for second, third, fourth in product(
            (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0), (0x20, 0x80, 0xBF), (0x7A, 0xBF)
        ):
            data = b"word" + bytes((first, second, third, fourth)) + b" "
            text = data.decode("utf-8", "replace")
            # It is not taken for UTF-8 if it has more replaced characters than further bytes of characters.
            lacking = text.count("\ufffd") - (len(data) - len(text))
            for accents in (max(0, lacking - 1), max(0, lacking)):
                compare(head + data + "é".encode() * accents)


def test_both_read_the_same_of_mutated_messages() -> None:
    fuzzer = Fuzzer([one.raw for one in islice(messages(), 60)], seed=19)
    for number in range(150):
        compare(fuzzer.message(number)[0])


@pytest.mark.parametrize(
    "date",
    [
        *(
            "Fri, 23 Aug 2002 23:10:22 +0800",
            "23-August.-02 3.10 GMT",
            "1 Jan 2000, 00:00:00.123:",
            "1 Jan 70 0:00",
        ),
        *(
            "29 Feb 1900 1:00:00",
            "29 feb 2000 1:00:00 +2500",
            "1 Jan 102 24:00:60 cest",
            "9 May 2001 1:2:3:4",
        ),
        *(
            "9 May 2001 01.02.345",
            "123 May 2001 01:02",
            "9 May 2001 01:02 utc+9",
            "9 May 2001 1:02 +12:3",
            "9 9:99",
        ),
        *(
            "1 Jan 2001 1:02 3 Mar 2003 4:05 -0130 (6 Jun 6666 6:66)",
            "2002-08-23T23:10:22+08:00",
            "Aug 23 1:02 2002",
        ),
    ],
)
def test_both_read_the_same_date(date: str) -> None:
    compare(f"Date: {date}\n\n".encode())
    compare(f"Received: by mail; {date}\n\n".encode())


def test_usual_messages_are_not_left_to_python() -> None:
    """A message of the sample that Python must read would hold the lock that others wait for."""
    assert MESSAGE_READER is not None
    plain = [canonical(one.raw) for one in islice(messages(), 200)]
    assert None not in MESSAGE_READER.read_features(plain, 3)


def test_many_messages_at_once_give_what_each_gives() -> None:
    raws = [one.raw for one in islice(messages(), 30)] + [b"no field\nat all", b""]
    random.Random(6).shuffle(raws)
    plain, digests = identify(raws)
    assert list(zip(plain, digests, strict=True)) == [
        (canonical(raw), digest(canonical(raw))) for raw in raws
    ]
    for version in tokens.COMPILED_VERSIONS:
        assert read_features(plain, version) == [read_features([one], version)[0] for one in plain]


@pytest.mark.parametrize("number", [1, 7, 8, 9, 60])
def test_digests_of_many_messages_at_once_are_those_of_each(number: int) -> None:
    assert CANONICAL_FORM is not None
    random_source = random.Random(number)
    sizes = [random_source.choice([0, 1, 127, 128, 129, 256, 1000, 20_000]) for _ in range(number)]
    raw = [random_source.randbytes(size).replace(b"\n", b"") for size in sizes]
    canonicals, digests = CANONICAL_FORM.identify(raw)
    assert digests == [digest(one) for one in canonicals]
    assert CANONICAL_FORM.open(raw).digests() == digests


@pytest.mark.parametrize("items", [["text"], [b"", None]])
def test_what_is_no_message_is_refused(items: list[object]) -> None:
    assert CANONICAL_FORM is not None
    assert MESSAGE_READER is not None
    with pytest.raises(TypeError, match="list of bytes"):
        CANONICAL_FORM.identify(items)
    with pytest.raises(TypeError, match="list of bytes"):
        MESSAGE_READER.read_features(items, 3)
    with pytest.raises(ValueError, match="one canonical form per message"):
        MESSAGE_READER.read_headings([b"a"], [], CANONICAL_FORM)
