"""An mbox gives back what was written into it: every dialect, every size of block, every lie."""

import mailbox
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.compiled import core
from tamis_mail.mailbox import mbox, open_source
from tests.compiled_core import needs_core
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


BEFORE = POSTMARK + SECOND + b"\n"  # the first message comes in two blocks: Python splits it


def split_by_python(text: bytes, block: int, largest: int) -> list[bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mbox, "core", None)
        return split(text, block, largest)


@needs_core
@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300) | messages.map(b"\n".join) | messages.map(mboxo),
    st.sampled_from([1, 5, 1500, 1 << 20]),
    st.sampled_from([1, 30, 1 << 20]),
)
def test_the_core_splits_as_python_does(text: bytes, block: int, largest: int) -> None:
    assert split(POSTMARK + text, block, largest) == split_by_python(POSTMARK + text, block, largest)


@needs_core
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *(b"Mon", b"Jan", b"Janu", b"12:30", b"12:30:59", b"1:30", b"12:3", b"2024", b"20245"),
                *(b",", b" ", b"\t", b"\x0b", b"\x1c", b"\xa0", b"\r", b"x", b"12:30,", b"Tue,"),
            ]
        ),
        max_size=9,
    ),
    st.sampled_from([b"", b" ", b"y" * 990, b"y" * 1040]),
)
def test_the_core_knows_the_postmarks_of_python(words: list[bytes], filler: bytes) -> None:
    text = (
        BEFORE + POSTMARK + FIRST + b"\nFrom " + b" ".join(words) + filler + b"".join(words) + b"\n" + SECOND
    )
    for part in (text, text + 2 * POSTMARK, text + b"z" * 3000):
        assert split(part) == split_by_python(part, 1 << 20, 1 << 20)


@needs_core
@pytest.mark.parametrize("separator", [b",", b" ,", b"\t", b"\x0b", b"\x0c", b"\x1c", b"\xa0", b";"])
@pytest.mark.parametrize(
    "date", [b"Tue 12:30 2024", b"2024 12:30:59 x Dec", b"may 12:30 2024", b"Dec 12;30 2024"]
)
def test_the_core_separates_the_words_of_a_postmark_as_python_does(separator: bytes, date: bytes) -> None:
    mark = b"\nFrom x" + separator + date.replace(b" ", separator) + b"\n"
    text = BEFORE + POSTMARK + FIRST + mark + SECOND + b"\n" + POSTMARK + FIRST
    assert split(text) == split_by_python(text, 1 << 20, 1 << 20)


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


class Counted(bytes):
    """Bytes that count how many are looked at or copied, of them and of all that is cut from them."""

    touched = 0

    def _searched(self, found: int, start: int, end: int) -> int:
        start, end = min(start, len(self)), min(end, len(self))
        Counted.touched += 1 + max(0, (end if found < 0 else found) - start)
        return found

    def find(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        return self._searched(super().find(sub, start, end), start, len(self) if end is None else end)

    def rfind(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        found, end = super().rfind(sub, start, end), len(self) if end is None else end
        Counted.touched += 1 + max(0, min(end, len(self)) - max(start, found))
        return found

    def _made(self, made: bytes) -> "Counted":
        Counted.touched += 1 + len(made)
        return Counted(made)

    def __getitem__(self, at: Any) -> Any:
        got = super().__getitem__(at)
        return got if isinstance(got, int) else self._made(got)

    def __add__(self, other: Any) -> "Counted":
        return self._made(super().__add__(other))

    def lower(self) -> "Counted":
        return self._made(super().lower())

    def replace(self, *given: Any) -> "Counted":
        return self._made(super().replace(*given))

    def strip(self, *given: Any) -> "Counted":
        Counted.touched += len(self)
        return Counted(super().strip(*given))

    def split(self, *given: Any) -> list[bytes]:
        Counted.touched += len(self)
        return super().split(*given)


def touched(text: bytes) -> int:
    """How many bytes are looked at or copied to split a text."""
    source = BytesIO(text)
    Counted.touched = 0
    assert list(mbox.split(lambda most: Counted(source.read(most)), 1 << 20))
    return Counted.touched


# Each begins with a postmark, and may be as long as one likes.
HOSTILE: dict[str, Callable[[int], bytes]] = {
    "ordinary": lambda n: (POSTMARK + FIRST + b"\n") * (n // 64),
    "marks": lambda n: POSTMARK + b"From " * (n // 5),
    "marks on lines": lambda n: POSTMARK + b"\n\nFrom \n" * (n // 8),
    "dated marks": lambda n: POSTMARK + (b"\n\n" + POSTMARK.rstrip()) * (n // 45),
    "quotes": lambda n: POSTMARK + b">" * n + b"From x\n",
    "lines of quotes": lambda n: POSTMARK + (b"\n" + b">" * 500 + b"From x") * (n // 507),
    "escapes": lambda n: POSTMARK + b"\n>From " * (n // 7),
    "escapes on one line": lambda n: POSTMARK + b">From " * (n // 6),
    "lengths": lambda n: POSTMARK + b"Content-Length: 999999\n" * (n // 23),
    "lengths that lie": lambda n: (POSTMARK + b"Content-Length: 900000\n\nx\n\n") * (n // 71),
    "many lengths that lie": lambda n: (POSTMARK + b"Content-Length: 9\n" * 100 + b"\nx\n\n") * (n // 1848),
    "lengths of one line": lambda n: (POSTMARK + b"ength:" * 10_000 + b"\n\nx\n\n") * (n // 60_000),
    "length without a line end": lambda n: POSTMARK + b"\n\nx\n\n" + POSTMARK + b"ength:" * (n // 6),
    "long headers": lambda n: (POSTMARK + b"A: b\n" * 13_000 + b"\nx\n\n") * (n // 65_000),
    "line ends": lambda n: POSTMARK + b"\n" * n,
    "CRLF": lambda n: POSTMARK + b"\r\n" * (n // 2),
}


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d",
        b"CONTENT-length:%d",
        b"Content-Length: \t %d " + b" " * 50,
        b"Subject: a\nContent-Length: %d\nTo: b",
    ],
)
def test_a_length_that_holds_is_kept_to_however_it_is_written(header: bytes) -> None:
    """The body of the first message is a postmark after a blank line."""
    text = POSTMARK + header % (1 + len(POSTMARK)) + b"\n\n\n" + POSTMARK + b"\n" + POSTMARK + SECOND
    assert len(split(text)) == 2


@pytest.mark.parametrize(
    "header",
    [b"X-Content-Length: %d", b"A: Content-Length: %d", b"Content-Length: %dx", b"ontent-Length: %d"],
)
def test_what_only_looks_like_a_length_is_none(header: bytes) -> None:
    text = POSTMARK + header % (1 + len(POSTMARK)) + b"\n\n\n" + POSTMARK + b"\n" + POSTMARK + SECOND
    assert len(split(text)) == 3


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_work_in_proportion_to_its_length(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: a reader that looks again and again at the same bytes touches too many."""
    monkeypatch.setattr(mbox, "BLOCK", 1 << 12)
    monkeypatch.setattr(mbox, "core", None)
    for n in (70_000, 700_000):
        text = HOSTILE[name](n)
        assert len(text) > n / 2
        assert touched(text) < 60 * len(text)


@needs_core
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_given_to_the_core_in_proportion_to_its_length(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is given and does not split, Python reads: so no byte may be given to it many times."""
    given_bytes = 0

    def count(buffer: bytes, begin: int, largest: int, is_at_end: bool) -> list[tuple[int, int, bool, int]]:
        nonlocal given_bytes
        assert core is not None
        found: list[tuple[int, int, bool, int]]
        found = core.mail.split_mbox(buffer, begin, largest, is_at_end)
        given_bytes += len(buffer) - (found[-1][1] if found else begin) + 1
        return found

    text = HOSTILE[name](700_000)
    expected = split_by_python(text, 1 << 12, 1 << 20)
    monkeypatch.setattr(mbox, "BLOCK", 1 << 12)
    monkeypatch.setattr(mbox, "core", SimpleNamespace(mail=SimpleNamespace(split_mbox=count)))
    assert split(text, 1 << 12) == expected
    assert given_bytes < 60 * len(text)


def test_a_long_text_is_split_however_hostile_it_is() -> None:
    for text in (b">" * 1_000_000 + b"From x\n", b"\n" * 1_000_000, b"From " * 300_000):
        assert split(POSTMARK + text)
