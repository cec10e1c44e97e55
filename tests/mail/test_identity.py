"""One message has one digest, by whichever route it comes: stdin, a path, any mailbox, a delivery agent."""

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.mail_identity import PROCMAIL_ROUTES, ROUTES, digests
from tamis_mail.framing import LARGEST, LARGEST_RAW
from tamis_mail.mailbox import open_source
from tamis_mail.message import canonical, digest

GOLDEN = sorted((Path(__file__).parent / "tokens" / "golden").glob("*.eml"))
QUOTED = (
    b"Subject: quoted\n\n>From the old dialect\n>>From another\nFrom here on\n > From none\n\n"
    b"From me to you\n\n\n"
)
POSTMARK = b"From a Mon Jan  5 10:00:00 2026\n"
ODD = {
    "quoted": QUOTED,
    "postmark": POSTMARK + QUOTED,
    "postmark twice": POSTMARK + b">" + POSTMARK + b"Subject: x\n\nbody\n",
    "blank lines before the postmark": b"\n\n" + POSTMARK + b"Subject: x\n\nbody\n",
    "no end of line": b"Subject: x\n\nbody",
    "many ends of line": b"Subject: x\n\nbody\n\n\n\n",
    "header only": b"Subject: x",
    "no header": b"just a text\nand more\n",
    "empty header": b"\nbody\n",
    "begins with a blank": b" begins\nSubject: x\n\nbody\n",
    "status of a reader": b"Status: RO\nX-UID: 7\nSubject: x\nContent-Length: 4711\n\nbody\n",
    "lines that end in CR alone": (POSTMARK + b"Subject: x\n\nbody\n").replace(b"\n", b"\r"),
    "carriage returns": b"Subject: x\r\n\r\n>From me\r\n\r\n",
}
NOT_FOR_PROCMAIL = {"lines that end in CR alone"}  # it takes all up to the first LF for the postmark


def messages() -> dict[str, bytes]:
    golden = {path.name: path.read_bytes() for path in GOLDEN}
    return ODD | {name: raw for name, raw in golden.items() if canonical(raw)}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", messages())
def test_a_message_has_one_digest_by_every_route(name: str, route: str) -> None:
    raw = messages()[name]
    assert digests(ROUTES[route], raw) == [digest(canonical(raw))]


@pytest.mark.skipif(
    shutil.which("procmail") is None, reason="procmail is not installed (apt install procmail)"
)
@pytest.mark.parametrize("route", PROCMAIL_ROUTES)
@pytest.mark.parametrize("name", [name for name in messages() if name not in NOT_FOR_PROCMAIL])
def test_procmail_delivers_the_same_message(name: str, route: str) -> None:
    raw = messages()[name]
    assert digests(PROCMAIL_ROUTES[route], raw) == [digest(canonical(raw))]


LINES = st.sampled_from(
    [
        b"From me",
        b">From you",
        b">>From them",
        b"Subject: x",
        b"",
        b"",
        b" folded",
        b"text",
        b"Status: RO",
        b"\xff\0",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=10).map(b"\n".join), st.sampled_from(list(ROUTES)))
def test_any_lines_have_one_digest(raw: bytes, route: str) -> None:
    if canonical(raw):
        assert digests(ROUTES[route], raw) == [digest(canonical(raw))]


@pytest.mark.parametrize("change", ["quote", "newline", "crlf", "postmark"])
def test_what_a_mailbox_does_to_a_message_leaves_its_digest(change: str) -> None:
    changed = {
        "quote": re.sub(rb"(?m)^(>*From )", rb">\1", QUOTED),
        "newline": QUOTED + b"\n",
        "crlf": QUOTED.replace(b"\n", b"\r\n"),
        "postmark": b"From someone Thu Jan  1 00:00:00 2026\n" + QUOTED,
    }[change]
    assert digest(canonical(changed)) == digest(canonical(QUOTED))


@pytest.mark.parametrize("size", [LARGEST - 1, LARGEST, LARGEST + 1, LARGEST_RAW + 1])
def test_a_message_above_the_limit_is_one_by_path_and_by_stdin(tmp_path: Path, size: int) -> None:
    header = b"Subject: large\n\n"
    raw = header + b"x" * (size - len(header))
    (tmp_path / "large").write_bytes(raw)
    (letter,) = open_source(tmp_path / "large")
    assert canonical(letter.raw) == canonical(raw)
    assert len(canonical(raw)) == min(size, LARGEST)


def test_a_large_message_is_one_however_its_lines_end(tmp_path: Path) -> None:
    raw = b"Subject: large\n\n" + b"0123456789\n" * (LARGEST // 11 + 10)
    (tmp_path / "large").write_bytes(raw.replace(b"\n", b"\r\n"))
    (letter,) = open_source(tmp_path / "large")
    assert digest(canonical(letter.raw)) == digest(canonical(raw))
