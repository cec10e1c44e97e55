"""An mbox gives back what was written into it: every dialect, every size of block, every lie."""

import mailbox
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.mailbox import mbox, open_source
from tests.mail.mailbox.writers import POSTMARK, counted, ended, mboxcl2, mboxo, mboxrd

FIRST = b"Subject: first\n\nOne.\n"
SECOND = b"Subject: second\n\nTwo.\n\nAnd a half.\n"


def read(path: Path) -> list[bytes]:
    return [letter.raw for letter in open_source(path)]


def split(text: bytes, block: int = 1 << 20, largest: int = 1 << 20) -> list[bytes]:
    """As it is split when at most `block` bytes come at a time."""
    assert mbox.is_mbox(text[: mbox.HEAD])
    source = BytesIO(text)
    first = [source.readline()]
    parts = mbox.split(lambda most: first.pop() if first else source.read(min(most, block)), largest)
    return [raw for raw, _ in parts]


@pytest.fixture
def box(tmp_path: Path) -> Path:
    return tmp_path / "box"


lines = st.sampled_from(
    [
        b"From here\n",
        POSTMARK,
        b">" + POSTMARK,
        b">>From there\n",
        b"\n",
        b"\r\n",
        b"text\n",
        b"text\r\n",
        b"Content-Length: 3\n",
        b"Content-length: 100\n",
        b"> From\n",
        b"\xff\x00\n",
        b"From ",
        b">",
    ]
)
messages = st.lists(
    st.lists(lines, max_size=8).map(b"".join) | st.binary(max_size=60), min_size=1, max_size=6
)
headers = st.sampled_from([b"", b"Subject: a\n", b"X-Length: 7\n", b"From: a\nTo: b\n"])


# A Content-Length in a message that nobody counted may be true by chance: then it is believed, and nothing
# was escaped. The two properties below keep apart what only a reader of minds could tell.
@settings(max_examples=150, deadline=None)
@given(messages, st.sampled_from([1, 7, 64, 1 << 20]))
def test_what_was_written_as_mboxrd_comes_back(given_messages: list[bytes], block: int) -> None:
    honest = [m.replace(b"ength:", b"ength") for m in given_messages]
    assert split(mboxrd(honest), block) == [ended(m) for m in honest]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(headers, messages.map(b"".join)), min_size=1), st.sampled_from([1, 7, 1 << 20]))
def test_what_was_written_as_mboxcl2_comes_back(parts: list[tuple[bytes, bytes]], block: int) -> None:
    assert split(mboxcl2(parts), block) == [counted(head, body) for head, body in parts]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300) | messages.map(b"\n".join), st.sampled_from([1, 5, 1 << 20]))
def test_anything_after_a_postmark_is_read_the_same_whatever_the_blocks(text: bytes, block: int) -> None:
    assert split(POSTMARK + text, block) == split(POSTMARK + text)


def test_the_standard_library_agrees_on_a_well_formed_file(box: Path) -> None:
    written = [b"Subject: %d\nTo: x\n\n%b\n" % (n, b"line\n" * n) for n in range(50)]
    box.write_bytes(mboxo(written))
    theirs = mailbox.mbox(box, create=False)
    assert read(box) == [theirs.get_bytes(key) for key in theirs.iterkeys()] == written
    theirs.close()


def test_mboxo_and_mboxrd_lose_one_mark_of_quotation(box: Path) -> None:
    box.write_bytes(POSTMARK + b"S: a\n\n>From one\n>>From two\n> From three\nno >From four\n")
    assert read(box) == [b"S: a\n\nFrom one\n>From two\n> From three\nno >From four\n"]


def test_mboxcl_is_cut_by_its_length(box: Path) -> None:
    escaped = counted(b"Subject: a\n", b"x\n\n>" + POSTMARK)
    box.write_bytes(POSTMARK + escaped + b"\n" + POSTMARK + FIRST)
    assert read(box) == [escaped, FIRST]


def test_mboxcl2_may_hold_a_whole_mbox(box: Path) -> None:
    letter = counted(b"Subject: a\n", mboxo([FIRST, SECOND]))
    box.write_bytes(POSTMARK + letter + b"\n" + mboxo([FIRST]))
    assert read(box) == [letter, FIRST]


@pytest.mark.parametrize(
    "length", [b"0", b"3", b"6", b"40", b"99999", b"99999999999999999999", b"-5", b"ten"]
)
def test_a_length_that_lies_is_not_believed(box: Path, length: bytes) -> None:
    liar = b"Subject: a\nContent-Length: " + length + b"\n\nOne.\nTwo.\n"
    box.write_bytes(mboxo([liar, SECOND, FIRST]))
    assert read(box) == [liar, SECOND, FIRST]


def test_of_two_lengths_the_true_one_counts(box: Path) -> None:
    letter = b"Content-Length: 999\ncontent-length: %d\n\nx\n\n" % (3 + len(POSTMARK)) + POSTMARK
    box.write_bytes(POSTMARK + letter + b"\n" + mboxo([FIRST]))
    assert read(box) == [letter, FIRST]


def test_crlf(box: Path) -> None:
    box.write_bytes(mboxrd([FIRST, b"S: x\n\nFrom a\n", SECOND]).replace(b"\n", b"\r\n"))
    assert read(box) == [m.replace(b"\n", b"\r\n") for m in (FIRST, b"S: x\n\nFrom a\n", SECOND)]


@pytest.mark.parametrize(
    "line",
    [
        b"From now on we meet on Monday.",
        b"From now on we meet at 12:30.",
        b"From Mon 5 Jan the door is shut",
        b"From 2024 to 2026, 10:30 on",
        b"From: a@example.org Thu Jan  1 00:00:00 2026",
        b"From " + b"x" * 2000 + b" Thu Jan  1 00:00:00 2026",
    ],
)
def test_a_sentence_is_no_postmark(box: Path, line: bytes) -> None:
    letter = b"Subject: a\n\nDear all,\n\n" + line + b"\nBye\n"
    box.write_bytes(POSTMARK + letter + b"\n" + POSTMARK + FIRST)
    assert read(box) == [letter, FIRST]


@pytest.mark.parametrize(
    "line",
    [
        b"From - Thu Jan 01 00:00:00 2026",
        b"From a@b Thu Jan  1 00:00 2026",
        b"From a@b Thu, 01 Jan 2026 00:00:00 +0000",
        b"From a b at example.org  Thu Jan  1 00:00:00 CET 2026",
        b"From a!b Thu Jan  1 00:00:00 2026 remote from c",
        b"From \xff@\xff Thu Jan  1 00:00:00 2038",
        b"From a@b Thu Jan  1 00:00:00 9999",
    ],
)
def test_postmarks_of_many_programs(box: Path, line: bytes) -> None:
    box.write_bytes(line + b"\n" + FIRST + b"\n" + line + b"\n" + SECOND)
    assert read(box) == [FIRST, SECOND]


def test_a_postmark_without_a_blank_line_before_it_is_text(box: Path) -> None:
    box.write_bytes(POSTMARK + b"S: a\n\nsee:\n" + POSTMARK + b"\n")
    assert read(box) == [b"S: a\n\nsee:\n" + POSTMARK]


@pytest.mark.parametrize("before", [b"\n", b"\r\n\r\n", b"\xef\xbb\xbf"])
def test_what_may_stand_before_the_first_postmark(box: Path, before: bytes) -> None:
    box.write_bytes(before + mboxo([FIRST, SECOND]))
    assert read(box) == [FIRST, SECOND]


@pytest.mark.parametrize("cut", range(1, len(SECOND), 3))
def test_a_last_message_that_is_cut_short_is_given(box: Path, cut: int) -> None:
    whole = mboxo([FIRST, SECOND])
    box.write_bytes(whole[:-cut])
    found = read(box)
    assert found[0] == FIRST
    assert len(found) == 2
    assert SECOND.startswith(found[1])
    assert len(found[1]) >= len(SECOND) - cut


def test_empty_messages_are_messages(box: Path) -> None:
    box.write_bytes((POSTMARK + b"\n") * 3)
    assert read(box) == [b"", b"", b""]


def test_a_message_that_is_too_large_is_cut_and_the_next_is_whole() -> None:
    large = b"Subject: large\n\n" + b"word\n" * 2_000_000
    for block in (5000, 1 << 20):
        assert split(mboxo([FIRST, large, SECOND]), block, 1000) == [FIRST, large[:1000], SECOND]
        assert split(mboxo([FIRST, large]), block, 1000) == [FIRST, large[:1000]]


def test_a_message_too_large_may_lie_about_it() -> None:
    large = b"Content-Length: 900000\n\n" + b"word\n" * 1000
    assert split(mboxo([large, SECOND]), largest=1000) == [large[:1000], SECOND]


def test_names_and_positions_count_up_to_the_size(box: Path) -> None:
    box.write_bytes(mboxo([FIRST, SECOND, FIRST]))
    source = open_source(box)
    letters = list(source)
    assert (source.kind, source.path) == ("mbox", str(box))
    assert [letter.name for letter in letters] == ["box#1", "box#2", "box#3"]
    positions = [letter.position for letter in letters]
    assert positions == sorted(set(positions))
    assert positions[-1] == source.size == box.stat().st_size


def test_a_large_mbox_is_not_held_in_memory(box: Path) -> None:
    text = mboxo([b"S: x\n\n" + b"some text\n" * 1000] * 100)
    with box.open("wb") as file:
        for _ in range(60):
            file.write(text)
    tracemalloc.start()
    try:
        count = sum(1 for _ in open_source(box))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 6000
    assert peak < 8 << 20 < box.stat().st_size


@pytest.mark.parametrize(
    "text",
    [
        b"From " * 300_000,
        b"\n\nFrom \n" * 150_000,
        b">" * 1_000_000 + b"From x\n",
        b"\n>From " * 150_000,
        b"Content-Length: 999999\n" * 50_000,
        (POSTMARK + b"Content-Length: 900000\n\nx\n\n") * 12_000,
        b"\r\n" * 500_000,
        b"\n" * 1_000_000,
    ],
    ids=["marks", "lines", "quotes", "escapes", "lengths", "lies", "crlf", "blank"],
)
def test_hostile_text_takes_no_more_time_than_its_length(text: bytes) -> None:
    """Not timed: a quadratic reader would not come back from these."""
    assert split(POSTMARK + text)
