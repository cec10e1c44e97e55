"""One hostile message takes no more work than its size allows: work is counted, never timed."""

import re
from collections.abc import Callable
from unicodedata import combining, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.message import bodies, fields, fold_text, folding, parse, tree
from tamis_mail.message.bodies import decode_text
from tamis_mail.message.fields import BLOCK_BYTES, parameters_of
from tamis_mail.message.tree import ALL_WORDS, DEPTH, HEADER_BLOCKS, HEADER_BYTES

MULTIPART = b"Content-Type: multipart/mixed; boundary=b\n"


class Calls:
    """Calls a function, and keeps what it was given."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.given: list[tuple[object, ...]] = []

    def __call__(self, *given: object, **named: object) -> object:
        self.given.append(given)
        return self.function(*given, **named)


def record(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> Calls:
    calls = Calls(getattr(module, name))
    monkeypatch.setattr(module, name, calls)
    return calls


def test_a_dashed_line_is_not_compared_with_each_open_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    class Boundary(bytes):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return bytes.__eq__(self, other)

        __hash__ = bytes.__hash__

    boundaries = tree._Reader._read_boundaries
    monkeypatch.setattr(
        tree._Reader, "_read_boundaries", lambda self, value: tuple(map(Boundary, boundaries(self, value)))
    )
    head = b""
    for depth in range(DEPTH):
        names = b"".join(b";boundary=%d" % (100 * depth + number) for number in range(100))
        head += b"Content-Type: multipart/mixed" + names + b"\n\n--%d\n" % (100 * depth)
    lines = 1000
    message = parse(head + b"\nneedle\n" + b"--99999--\n" * lines)
    assert message.shape.count("multipart/mixed(") == DEPTH
    assert "needle" in message.parts[0].text
    assert compared <= 2 * (lines + 100 * DEPTH)


def test_the_innermost_of_two_frames_with_one_boundary_is_closed_first() -> None:
    nested = b"--b\n" + MULTIPART + b"\n--b\n\none\n--b--\n--b\n\ntwo\n--b--\n"
    message = parse(MULTIPART + b"\n" + nested)
    assert message.shape == "multipart/mixed(multipart/mixed(text/plain),text/plain)"
    assert [part.text.strip() for part in message.parts] == ["one", "two"]


@pytest.mark.parametrize(
    "unit",
    [
        "\uff9e\u0334",
        "\uff9f\u0301",
        "\uff9e",
        "\u0344\uff9f",
        "\u1fa7\uff9e" + "\u0334" * 30,
        "\u0301\u0334",
    ],
)
def test_no_long_row_of_marks_is_normalised(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(normalize)
    tools = folding._load_unicode_tools()._replace(normalize=calls)  # type: ignore[arg-type]
    monkeypatch.setattr(folding, "_load_unicode_tools", lambda: tools)
    fold_text("a" + unit * 2000)
    assert calls.given
    for _, text in calls.given:
        assert longest_row_of_marks(normalize("NFKD", str(text))) <= 3 * 20 + 3


def test_two_letters_of_unicode_become_marks_and_are_known() -> None:
    """Marks that are letters before they are normalised would not be counted as marks."""
    signs = map(chr, [*range(0xD800), *range(0xE000, 0x110000)])
    letters = [sign for sign in signs if (sign.isalnum() and combining(normalize("NFKD", sign)[0]))]
    assert letters == ["\uff9e", "\uff9f"]
    for letter in letters:
        assert fold_text("\uff76" + letter)[0] == normalize("NFKC", "\uff76" + letter)


def longest_row_of_marks(text: str) -> int:
    longest = row = 0
    for sign in text:
        row = row + 1 if combining(sign) else 0
        longest = max(longest, row)
    return longest


def test_the_encoded_words_of_all_fields_and_parameters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    words = b"=?utf-8?q?needle?= x " * 90
    part = b'\n--b\nContent-Type: a/b; name="' + words + b'"\n\nx'
    calls = record(monkeypatch, fields, "a2b_qp")
    message = parse(MULTIPART + (b"To: " + words + b"\n") * 100 + part * 100)
    assert len(calls.given) <= ALL_WORDS
    assert message.headers[1][1].startswith("needle")
    assert "=?" in message.headers[-1][1]


def test_a_table_of_a_charset_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = record(monkeypatch, bodies, "charmap_decode")
    for _ in range(3):
        assert decode_text(b"\xd5", "cp857", set()) == "\ufffd"
    tables = [given[2] for given in calls.given]
    assert len(tables) == 3
    assert all(table is tables[0] for table in tables)


def test_the_bytes_of_all_headers_are_bounded() -> None:
    field = b"x: " + b"y" * 9000 + b"\n"
    part = b"\n--b\n" + field * 10 + b"Content-Type: a/b\n\nz"
    message = parse(MULTIPART + part * 100)
    read = [part.kind == "a/b" for part in message.parts]
    assert len(read) == 100
    assert 0 < sum(read) * len(part) <= HEADER_BYTES
    assert read == sorted(read, reverse=True)
    assert "headers" in message.faults


def test_the_bytes_of_one_header_are_bounded() -> None:
    message = parse(b"a: b\nc: " + b"d" * BLOCK_BYTES + b"\nSubject: late\n\nneedle")
    assert message.headers == (("a", "b"),)
    assert message.parts[0].text == "needle"
    assert "headers" in message.faults


def test_the_number_of_headers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = b"".join(
        b"Content-Type: multipart/mixed; boundary=c%d\n\n--c%d\n" % (depth, depth)
        for depth in range(1, DEPTH - 1)
    )
    calls = record(monkeypatch, tree, "read_fields")
    message = parse(MULTIPART + (b"\n--b\n" + levels) * 300)
    assert len(calls.given) <= HEADER_BLOCKS + DEPTH
    assert "parts" in message.faults


@given(st.text(alphabet='\\a"; =\n', max_size=30))
def test_backslashes_quote_what_follows_them(text: str) -> None:
    quoted = text.replace('"', "")
    if not (len(quoted) - len(quoted.rstrip("\\"))) % 2:
        plain = re.sub(r"\\(.)", r"\1", re.sub(r"[ \n]+", " ", quoted))
        assert parameters_of(f'a/b; name="{quoted}"')[0] == ("name", plain)
