"""The compiled reading of header fields gives what the Python reading gives."""

from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tamis import compiled
from tamis_mail.message import fields
from tests.compiled_core import needs_core

pytestmark = needs_core

PIECES = [
    *"\n\n\n::: \t\r\x0b\0aZ!~=é",
    "\n ",
    "\n\t",
    "Subject: ",
    "From ",
    "\n\n",
    "x" * 101,
    ": v" * 9,
    "y" * 10_001,
]
blocks = st.lists(st.sampled_from(PIECES)).map(lambda pieces: "".join(pieces).encode("latin-1"))


def read(data: bytes, start: int, end: int) -> tuple[fields.Fields, int, set[str]]:
    faults: set[str] = set()
    return *fields.read_fields(data, start, end, faults), faults


@given(blocks, st.integers(0, 5), st.integers(0, 5))
@example(b"A: b\n c\n\td\nE:", 0, 0)
@example(b"A:\n \n\nbody", 0, 0)
@example(b"N" * 200 + b": v\n", 0, 0)
@example(b"A: " + b"v" * 9_999 + b"\n\tw", 0, 0)
@example(b"A: " + b"v" * 10_000 + b"\n\tw", 0, 0)
@example(b"a:b\n" * 1_002, 0, 0)
def test_both_read_the_same_fields(data: bytes, start: int, left_out: int) -> None:
    end = max(start, len(data) - left_out)
    if start > len(data):
        return
    found = read(data, start, end)
    with mock.patch("tamis_mail.message.fields.core", None):
        assert read(data, start, end) == found


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 6)])
def test_a_block_outside_the_data_is_refused(start: int, stop: int) -> None:
    core = compiled.core
    assert core is not None
    with pytest.raises(ValueError, match="within the data"):
        core.mail.read_header_block(b"a: b\n", start, stop, 10, 10, 10)


@given(st.lists(st.tuples(st.just("subject"), st.text("a =?~\x7f\x1f\t\xe9\u20ac", max_size=8))))
@example([("a", "="), ("a", "=?"), ("a", "?="), ("a", "")])
def test_both_find_the_same_encoded_fields(pairs: fields.Fields) -> None:
    indices = fields.find_encoded_fields(pairs)
    with mock.patch("tamis_mail.message.fields.core", None):
        assert fields.find_encoded_fields(pairs) == indices


@pytest.mark.parametrize("field", [("subject",), ("subject", b"bytes"), "ab", None])
def test_what_is_no_field_is_refused(field: object) -> None:
    core = compiled.core
    assert core is not None
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        core.mail.find_encoded_fields([field])
