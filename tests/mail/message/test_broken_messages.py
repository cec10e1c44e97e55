"""Whatever is wrong with a message, it is read, and what it says is found: a case for each way."""

import pytest

from tamis_mail.message import Message, canonical, parse
from tamis_mail.message.fields import FIELDS, LONGEST
from tamis_mail.message.tree import DEPTH, MESSAGE_TEXT, PART_TEXT, PARTS, SHAPE

MEGA = 1 << 20
MIXED = b"Subject: a\nContent-Type: multipart/mixed; boundary=b\n\n"


def read(raw: bytes) -> Message:
    message = parse(canonical(raw))
    assert len(message.headers) <= FIELDS
    assert all(len(value) <= LONGEST for _, value in message.headers)
    assert len(message.parts) <= PARTS + 1
    assert len(message.shape) <= SHAPE
    assert all(len(part.text) <= PART_TEXT for part in message.parts)
    assert sum(len(part.text) for part in message.parts) <= MESSAGE_TEXT
    return message


def texts(message: Message) -> list[str]:
    return [part.text for part in message.parts]


@pytest.mark.parametrize(
    ("raw", "headers", "found"),
    [
        pytest.param(b"", [], [""], id="empty"),
        pytest.param(b"\n", [], [""], id="only an empty line"),
        pytest.param(b"Subject: a\nTo: b", [("subject", "a"), ("to", "b")], [""], id="only headers"),
        pytest.param(b"Subject: a\nTo: b\n\n", [("subject", "a"), ("to", "b")], [""], id="and an empty line"),
        pytest.param(b"just words\nand more", [], ["just words\nand more"], id="no headers"),
        pytest.param(b"\nSubject: a\n\nbody", [("subject", "a")], ["body"], id="leading empty line"),
        pytest.param(b" folded\nTo: b\n\nc", [("", "folded"), ("to", "b")], ["c"], id="leading space"),
        pytest.param(b"A: b\nhello\nyou\n\nc", [("a", "b")], ["hello\nyou\n\nc"], id="no empty line"),
        pytest.param(b"A: b\nno\nC: d\n\ne", [("a", "b"), ("", "no"), ("c", "d")], ["e"], id="no colon"),
        pytest.param(b"A: b\nFrom x\nC: d\n\ne", [("a", "b"), ("c", "d")], ["e"], id="From within"),
        pytest.param(b": x\nA: b\n\nc", [("", ": x"), ("a", "b")], ["c"], id="no name"),
        pytest.param(b"A: b\r\nC: d\n\r\ne\rf", [("a", "b"), ("c", "d")], ["e\nf"], id="mixed ends of lines"),
        pytest.param(b"A: b\0c\n\nd\0e", [("a", "bc")], ["de"], id="NUL"),
        pytest.param(b"A: caf\xc3\xa9\nB: caf\xe9\n\nx", [("a", "café"), ("b", "café")], ["x"], id="8 bits"),
        pytest.param(b"A: \xc3\xa0\n\nx", [("a", "à")], ["x"], id="8 bits that look like a blank"),
        pytest.param(b"A: b\n\n\xed\xa0\x80\xc0\xaf", [("a", "b")], None, id="lone surrogate and overlong"),
        pytest.param(b"A:\n\nx", [("a", "")], ["x"], id="empty value"),
    ],
)
def test_a_block_of_fields(raw: bytes, headers: list[tuple[str, str]], found: list[str] | None) -> None:
    message = read(raw)
    assert list(message.headers) == headers
    if found is not None:
        assert texts(message) == found
    assert all(part.text.encode() is not None for part in message.parts)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=?utf-8?q?caf=C3", "=?utf-8?q?caf=C3"),  # unterminated
        ("=?utf-8?q?a\n b?=", "a b"),  # folded
        ("=?utf-8?q?=?utf-8?q?a?=?=", "=?utf-8?q?a?="),  # nested
        ("=?utf-8?q?a=0Ab=00c?=", "a bc"),  # newline, NUL
        ("=?x-none?q?caf=C3=A9?=", "café"),  # unknown charset
        ("=?utf-8?b?Y2Fm6Q?=", "café"),  # wrong charset, wrong padding
        ("=?utf-8?b?=YWI=?=", "ab"),
        ("=?utf-8?x?a?=", "=?utf-8?x?a?="),
        ("=?utf-8?q??=", ""),
        ("=?punycode?q?a-b?=", "a-b"),
    ],
)
def test_encoded_words_that_are_broken(value: str, text: str) -> None:
    assert read(f"Subject: {value}\n\n".encode()).headers[0] == ("subject", text)


def test_encoded_words_with_bytes_that_are_not_encoded() -> None:
    assert read(b"Subject: \xc3\xa9 =?iso-8859-1?q?caf\xe9?=\n\n").headers[0] == ("subject", "é café")


def encoded(encoding: str, body: bytes, kind: str = "text/plain") -> Message:
    return read(f"Content-Type: {kind}\nContent-Transfer-Encoding: {encoding}\n\n".encode() + body)


@pytest.mark.parametrize(
    ("encoding", "body", "text", "fault"),
    [
        ("base64", b"=aGVsbG8=", "hello", "base64"),
        ("base64", b"aGVsbG8", "hello", "base64"),
        ("base64", b"aGVsbG8====", "hello", "base64"),
        ("base64", b"aGVsb", "hel", "base64"),
        ("base64", b"aGV!sbG8=", "hello", "base64"),
        ("base64", b"aGVs  \n  bG8=\n", "hello", "base64"),
        ("base64", b"aGU=\nbGxv\n", "hello", "base64"),
        ("base64", b"This is plain, is it not?", "This is plain, is it not?", "base64"),
        ("base64", b"\n\n", "", None),
        ("quoted-printable", b"a=\nb=", "ab", None),
        ("quoted-printable", b"a=\rb", "ab", None),
        ("quoted-printable", b"a= \t\nb", "ab", None),
        ("quoted-printable", b"1 = 2, =ZZ =4", "1 = 2, =ZZ =4", "quoted-printable"),
        ("quoted-printable", b"=63=61=66=c3=a9", "café", None),
        ('"base64"', b"aGVsbG8=", "hello", None),
        ("BASE64 (yes)", b"aGVsbG8=", "hello", None),
        ("klingon", b"aGVsbG8=", "aGVsbG8=", None),
        ("base64\nContent-Transfer-Encoding: 7bit", b"aGVsbG8=", "hello", None),
    ],
)
def test_transfer_encodings_that_are_broken(encoding: str, body: bytes, text: str, fault: str | None) -> None:
    message = encoded(encoding, body)
    assert texts(message) == [text]
    assert (fault in message.faults) if fault else not message.faults


@pytest.mark.parametrize(
    ("declared", "body", "text", "faults"),
    [
        ("charset=x-none", "café".encode(), "café", ("charset",)),
        ("charset=utf-8", b"caf\xe9", "café", ("charset",)),
        ("charset=us-ascii", b"caf\xe9", "café", ("charset",)),
        ("charset=utf-8; charset=utf-16", "café".encode(), "café", ("duplicate-parameter",)),
        ("charset=utf-16", b"\xff\xfea\0", "a", ()),
        ("charset=utf-7", b"+2AA-x", "\ufffdx", ()),
        ("charset=iso-2022-jp", b"\x1b$B2q\n5D\x1b(B", "会\n議", ("charset",)),
        ("charset=unicode_escape", rb"\ud800\x", r"\ud800\x", ("charset",)),
        ("charset=base64", b"YQ==", "YQ==", ("charset",)),
        ("charset=punycode", b"a-b", "a-b", ("charset",)),
        ("charset=", b"a", "a", ()),
        ('charset="utf-8', "café".encode(), "café", ()),
        ("charset=windows-1252", b"a\x81b", "a\ufffdb", ("charset",)),
        ("charset=utf-8", "Привет, мир".encode() + b"\xff", "Привет, мир\ufffd", ("charset",)),
    ],
)
def test_charsets_that_are_wrong(declared: str, body: bytes, text: str, faults: tuple[str, ...]) -> None:
    message = read(f"Content-Type: text/plain; {declared}\n\n".encode() + body)
    if declared != "charset=iso-2022-jp":  # what becomes of the second line is the codec's choice
        assert texts(message) == [text]
    assert message.faults == faults or declared == "charset=iso-2022-jp"
    assert message.parts[0].text.encode()


@pytest.mark.parametrize(
    ("raw", "found", "faults"),
    [
        pytest.param(b"Content-Type: multipart/mixed\n\n--b\n\nx", ["--b\n\nx"], {"boundary"}, id="none"),
        pytest.param(b"Content-Type: multipart/mixed; boundary=\n\nx", ["x"], {"boundary"}, id="empty"),
        pytest.param(MIXED + b"preamble", ["preamble"], {"boundary", "truncated"}, id="only a preamble"),
        pytest.param(MIXED + b"pre\n--b\n\nx\n--b--\nepilogue", ["x"], set(), id="preamble and epilogue"),
        pytest.param(MIXED + b"--b\n\nx\n--b\n\ny", ["x", "y"], {"truncated"}, id="unterminated"),
        pytest.param(MIXED + b"--b--\n", [""], {"boundary"}, id="closed at once"),
        pytest.param(MIXED + b"--b\n--b\n\nx\n--b--", ["", "x"], set(), id="empty part"),
        pytest.param(MIXED + b"--b\nA: b\n--b\n\nx\n--b--", ["", "x"], set(), id="part of fields only"),
        pytest.param(MIXED + b"--bc\n\nx\n--b\n\ny\n--b--", ["y"], set(), id="prefix of another line"),
        pytest.param(MIXED + b"--b \t\n\nx\n--b-- \n", ["x"], set(), id="blanks after it"),
        pytest.param(
            b"Content-Type: multipart/mixed; boundary=b--\n\n--b--\n\nx\n--b--\n\ny\n--b----\n",
            ["x", "y"],
            set(),
            id="boundary that ends in --",
        ),
        pytest.param(
            b"Content-Type: multipart/mixed; boundary=b; boundary=c\n\n--b\n\nx\n--c\n\ny\n--c--",
            ["x", "y"],
            {"duplicate-parameter"},
            id="two boundaries: all that either reader sees",
        ),
        pytest.param(
            MIXED + b"--b\nContent-Type: multipart/alternative; boundary=bb\n\n--bb\n\nx\n--b\n\ny\n--b--",
            ["x", "y"],
            set(),
            id="outer closes inner, prefix of each other",
        ),
        pytest.param(
            MIXED + b"--b\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\n--b--\n",
            ["x"],
            set(),
            id="the same boundary within",
        ),
        pytest.param(b"Content-Type: nonsense\n\nx", ["x"], set(), id="type without subtype"),
        pytest.param(b"Content-Type:\n\nx", ["x"], set(), id="type without a value"),
        pytest.param(b"Content-Type: message/rfc822\n\nA: b\n\nx", ["x"], set(), id="message in a message"),
        pytest.param(
            MIXED + b"--b\nContent-Type: message/rfc822\n\n" + MIXED + b"--b\n\nx\n--b--",
            ["x"],
            None,
            id="message that looks like the one around it",
        ),
    ],
)
def test_trees_that_are_broken(raw: bytes, found: list[str], faults: set[str] | None) -> None:
    message = read(raw)
    assert texts(message) == found
    assert faults is None or set(message.faults) - {"headers"} == faults


def test_deep_trees_end_at_a_depth_and_what_is_below_is_text() -> None:
    nested = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(5000))
    for raw in (nested + b"\nneedle", b"Content-Type: message/rfc822\n\n" * 5000 + b"needle"):
        message = read(raw)
        assert "depth" in message.faults
        assert message.shape.count("(") == DEPTH
        assert any("needle" in text for text in texts(message))


def test_names_in_pieces_out_of_order_and_many_parameters() -> None:
    field = b"".join(b"; x%d=y" % number for number in range(8000))
    message = read(b"Content-Type: text/html; name*1=b; name*0=a" + field + b"\n\nx")
    assert (message.parts[0].kind, message.parts[0].name) == ("text/html", "ab")


def test_a_picture_that_says_that_it_is_text_is_none() -> None:
    message = read(b"Content-Type: text/html\n\n" + bytes(range(256)) * 20)
    assert texts(message) == [""]
    assert "binary" in message.faults


def test_pasted_files_are_left_out() -> None:
    body = (
        b"hello\nbegin 644 a.bin\n"
        + (b"M" + b"A" * 60 + b"\n") * 20
        + b"`\nend\nbye\nbegin 644 words\nof a poem\n"
    )
    message = read(b"Subject: a\n\n" + body)
    assert texts(message) == ["hello\n\nbye\nbegin 644 words\nof a poem"]
    assert message.faults == ("uuencode",)


# Made when they are needed: all at once, they are half a gigabyte.
LARGE = {
    "a line of 10 MB": lambda: b"Subject: " + b"x" * (10 * MEGA) + b"\n\nneedle",
    "half a million fields": lambda: b"A: b\n" * 500_000 + b"\nneedle",
    "half a million verdicts": lambda: b"X-Spam-Flag: YES\n" * 500_000 + b"\nneedle",
    "fields and other lines": lambda: b"A: b\nnone\n" * 900 + b"\nneedle",
    "a name of 1 MB": lambda: b"x" * MEGA + b": y\n\nneedle",
    "a field of a million folds": lambda: b"A: b\n" + b" c\n" * 1_000_000 + b"\nneedle",
    "8000 encoded words": lambda: b"Subject: " + b"=?utf-8?q?a?= " * 8000 + b"\n\nneedle",
    "a million openings of encoded words": lambda: b"Subject: " + b"=?" * MEGA + b"\n\nneedle",
    "100000 recipients": lambda: b"To: " + b"a@b.example, " * 100_000 + b"\n\nneedle",
    "nested comments": lambda: b"To: " + b"(" * MEGA + b"\n\nneedle",
    "a quoted string that is not closed": lambda: b'To: "' + b"a\\" * MEGA + b"\n\nneedle",
    "many @": lambda: b"To: " + b"@" * MEGA + b"\n\nneedle",
    "parameters without end": lambda: b"Content-Type: text/plain" + b'; a="' * MEGA + b"\n\nneedle",
    "blanks without end": lambda: b"Content-Type: text/plain;" + b" " * MEGA + b"\n\nneedle",
    "a word of 50 MB": lambda: b"needle" + b"x" * (50 * MEGA),
    "ends of lines": lambda: b"A: b\n\nneedle" + b"\n" * (10 * MEGA),
    "lone CR": lambda: b"A: b\n\nneedle" + b"\r" * (10 * MEGA),
    "20 MB of fields": lambda: b"Name: value\n" * (2 * MEGA) + b"\nneedle",
    "a million words": lambda: b"A: b\n\nneedle" + b"".join(b" w%d" % number for number in range(100_000)),
    "base64 with much padding": lambda: b"Content-Transfer-Encoding: base64\n\nbmVlZGxl" + b"QQ==\n" * MEGA,
    "escapes without end": lambda: (
        b"Content-Transfer-Encoding: quoted-printable\n\nneedle" + b"= " * (4 * MEGA)
    ),
    "50000 parts": lambda: MIXED + b"--b\n\nneedle\n" * 50_000,
    "parts of nothing": lambda: MIXED + b"--b\n\nneedle\n" + b"--b\n" * MEGA,
    "parts without an empty line": lambda: MIXED + b"--b\n\nneedle\n" + b"--b\nA: b\n" * MEGA,
    "lines that are nearly boundaries": lambda: MIXED + b"--b\n\nneedle\n" + b"--bb\n" * MEGA,
    "mbox lines": lambda: b"From a\n" * MEGA + b"\nneedle",
    "beginnings of pasted files": lambda: b"A: b\n\nneedle\n" + b"begin 644 x\nABC\n" * 60_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_read_all_the_same(name: str) -> None:
    message = read(LARGE[name]())
    assert any("needle" in text for text in texts(message))


def test_more_of_the_same_is_cut_at_the_same_place() -> None:
    raws = [MIXED + b"--b\n\n" + b"x" * PART_TEXT * number for number in (1, 4, 16)]
    assert [texts(read(raw)) for raw in raws] == [["x" * PART_TEXT]] * 3


def test_the_text_of_all_parts_is_bounded() -> None:
    part = b"--b\n\n" + b"word " * (PART_TEXT // 4) + b"\n"
    message = read(MIXED + part * 10)
    assert sum(map(len, texts(message))) == MESSAGE_TEXT
    assert "long" in message.faults
    assert len(message.parts) == 10


def test_an_attachment_is_measured_and_not_decoded() -> None:
    message = encoded("base64", b"QUFB" * 19 + b"\n" + b"QUFB" * 19 + b"\n", "application/zip")
    assert (message.parts[0].size, message.parts[0].text) == (2 * 57, "")
