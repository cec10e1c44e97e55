"""Tokens are what a store has counted: any change to them is a new version."""

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail import tokens
from tamis_mail.message import canonical, parse
from tamis_mail.sample import messages
from tamis_mail.tokens import Tokens

GOLDEN = Path(__file__).parent / "golden"
TOOL = Path(__file__).parents[3] / "tools" / "golden_tokens"
NAMES = runpy.run_path(str(TOOL))
WRITTEN: Callable[[bytes, int], str] = NAMES["written"]
ENDINGS: dict[int, str] = NAMES["ENDINGS"]


def read(raw: bytes, version: int = tokens.VERSION) -> Tokens:
    return tokens.read(parse(canonical(raw)), version)


def test_every_version_has_golden_files() -> None:
    assert tuple(ENDINGS) == tokens.VERSIONS


@pytest.mark.parametrize("version", ENDINGS)
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.eml")), ids=lambda path: path.stem)
def test_tokens_of_golden_messages_have_not_changed(path: Path, version: int) -> None:
    expected = path.with_suffix(ENDINGS[version]).read_text(encoding="utf-8")
    assert WRITTEN(path.read_bytes(), version).split("\n") == expected.split("\n")


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="version is 4, expected one of 1, 2, 3"):
        read(b"Subject: s", 4)


def test_the_tool_writes_what_is_there(tmp_path: Path) -> None:
    for path in GOLDEN.glob("*.eml"):
        shutil.copy(path, tmp_path)
    subprocess.run([sys.executable, TOOL, tmp_path], check=True)
    written = {path.name: path.read_bytes() for path in tmp_path.glob("*.tokens*")}
    assert written == {path.name: path.read_bytes() for path in GOLDEN.glob("*.tokens*")}


@given(st.binary(max_size=3000))
def test_any_bytes_have_tokens_without_space_in_them(raw: bytes) -> None:
    found = read(raw)
    assert len(found.head) <= 1500
    for document in (found.headers, found.marks, found.relations):
        assert b"\n" not in document
    assert not re.search(rb"[\t\r\x0b\x0c]", found.words)


def test_a_huge_message_has_bounded_tokens() -> None:
    words = b" ".join(b"word%d http://h%d.example/p" % (n, n) for n in range(100_000))
    fields = b"".join(b"X-Field-%d: %s\n" % (n, b"v" * 300) for n in range(5000))
    to = b"To: " + b", ".join(b"a%d@example.org" % n for n in range(20_000)) + b"\n"
    found = read(to + fields + b"\n" + words)
    assert len(found.words) < 30_000
    assert len(found.marks) < 30_000
    assert len(found.headers) < 200_000


def test_verdicts_of_filters_are_no_tokens() -> None:
    plain = b"From: a@example.org\nSubject: hello\n\nbody\n"
    forged = b"X-Spam-Status: No, hits=-99\nX-Bogosity: Ham\nStatus: RO\n" + plain
    assert read(forged) == read(plain)


def test_line_ends_and_mailbox_lines_do_not_matter() -> None:
    plain = b"From: a@example.org\nSubject: hello\n\nbody text\n"
    assert read(b"From a@example.org Fri Nov 13 10:00:00 2026\n" + plain) == read(plain)
    assert read(plain.replace(b"\n", b"\r\n")) == read(plain)


def test_each_kind_of_sample_has_all_documents() -> None:
    found = {sample.kind: read(sample.raw) for sample in messages()}
    assert all(one.head and one.headers and one.marks for one in found.values())


@pytest.mark.parametrize(
    ("body", "mark"),
    [
        (b"http://192.0.2.7/x", b"url:192.0.2"),
        (b"see https://www.shop.example.com/sale", b"url:example.com"),
        (b"write to me@mail.example.org", b"mail:@example.org"),
        (b"http://user@host.example/", b"url~user"),
    ],
)
def test_marks(body: bytes, mark: bytes) -> None:
    assert mark in read(b"Subject: s\n\n" + body).marks.split()


def test_words_of_scripts_without_spaces_are_pairs_of_letters() -> None:
    found = read("Subject: s\nContent-Type: text/plain; charset=utf-8\n\n限时优惠".encode())
    assert found.words.decode().split() == ["限时", "时优", "优惠"]
