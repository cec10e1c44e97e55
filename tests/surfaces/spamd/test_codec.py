"""The spamd protocol without I/O: whatever a client sends, in whatever pieces, has one bounded outcome."""

import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.surfaces.spamd.codec import (
    DATA_ERROR,
    METHODS,
    METHODS_WITHOUT_MESSAGE,
    PROTOCOL,
    ProtocolError,
    Request,
    RequestReader,
    answer_error,
    answer_learning,
    answer_verdict,
    find_body,
)

MESSAGE = b"Subject: a\r\n\r\nbody\x00\xff without a line end"


def make_request(
    method: str = "CHECK", *fields: str, message: bytes = MESSAGE, version: str = "1.5"
) -> bytes:
    lines = [f"{method} SPAMC/{version}", f"Content-length: {len(message)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + message


def read(*parts: bytes, largest: int = 1000) -> Request | None:
    """Read a request that comes in parts, and then the end of the stream."""
    reader = RequestReader(largest)
    for part in parts:
        if (request := reader.feed(part)) is not None:
            return request
    return reader.end()


def refuse(*parts: bytes, largest: int = 1000) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        read(*parts, largest=largest)
    return caught.value


@pytest.mark.parametrize("method", sorted(METHODS - METHODS_WITHOUT_MESSAGE))
def test_a_request_in_two_parts_is_the_same_wherever_it_is_split(method: str) -> None:
    data = make_request(method, "User: ann", "X-Else: 1")
    whole = read(data)
    assert whole == Request(
        method, {"content-length": str(len(MESSAGE)), "user": "ann", "x-else": "1"}, MESSAGE
    )
    for place in range(len(data) + 1):
        assert read(data[:place], data[place:]) == whole
    assert read(*(data[place : place + 1] for place in range(len(data)))) == whole


def test_line_ends_without_carriage_return_are_understood() -> None:
    request = read(b"CHECK SPAMC/1.2\nUser: ann\n\nSubject: a\n\nb")
    assert request is not None
    assert (request.user, request.message, request.version) == ("ann", b"Subject: a\n\nb", (1, 2))


def test_without_a_length_the_message_ends_with_the_stream() -> None:
    request = read(b"CHECK SPAMC/1.2\r\n\r\n", b"Subject: a\n", b"\nb")
    assert request is not None
    assert request.message == b"Subject: a\n\nb"


def test_what_follows_the_message_is_ignored() -> None:
    request = read(make_request() + b"PING SPAMC/1.5\r\n\r\n")
    assert request is not None
    assert request.message == MESSAGE


def test_an_empty_message_is_a_message() -> None:
    request = read(make_request(message=b""))
    assert request is not None
    assert request.message == b""


def test_a_client_that_sends_nothing_asks_nothing() -> None:
    assert read() is None


@pytest.mark.parametrize("method", sorted(METHODS_WITHOUT_MESSAGE))
@pytest.mark.parametrize("data", [" SPAMC/1.5\r\n\r\n", " SPAMC/1.2\r\n", " SPAMC/1.2\n"])
def test_ping_and_skip_are_complete_without_a_message(method: str, data: str) -> None:
    request = RequestReader(10).feed((method + data).encode())
    assert request is not None
    assert request.method == method


def test_before_version_1_1_the_message_follows_the_first_line() -> None:
    request = read(b"CHECK SPAMC/1.0\r\nSubject: a\n\nb")
    assert request is not None
    assert (request.fields, request.message) == ({}, b"Subject: a\n\nb")


def test_a_message_that_is_shorter_than_its_length_is_refused() -> None:
    error = refuse(make_request()[:-1])
    assert error.code == PROTOCOL
    assert "bytes were sent" in str(error)


@pytest.mark.parametrize("length", ["-1", "1e3", "", "９", "0x10", "1" * 13, "1 2"])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    assert refuse(f"CHECK SPAMC/1.2\r\nContent-length: {length}\r\n\r\n".encode()).code == PROTOCOL


def test_an_oversize_message_is_refused_before_it_is_read() -> None:
    reader = RequestReader(10)
    with pytest.raises(ProtocolError, match="larger than 10 bytes") as caught:
        reader.feed(b"CHECK SPAMC/1.2\r\nContent-length: 11\r\n\r\n")
    assert caught.value.code == DATA_ERROR


def test_an_oversize_message_without_a_length_is_refused_while_it_is_read() -> None:
    assert refuse(b"CHECK SPAMC/1.2\r\n\r\n", b"x" * 6, b"x" * 5, largest=10).code == DATA_ERROR


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"check SPAMC/1.2\r\n\r\n",
        b"CHECK SPAMC\r\n\r\n",
        b"CHECK  SPAMC/1.2\r\n\r\n",
        b"CHECK SPAMC/1.2\r\nno field\r\n\r\n",
        b"CHECK SPAMC/1.2\r\nUser: a\x00b\r\n\r\n",
        b"CHECK SPAMC/1.2\r\n" + b"a: b\r\n" * 101 + b"\r\n",
        b"CHECK SPAMC/1.2\r\nCompress: gzip\r\n\r\nx",
        b"DESTROY SPAMC/1.2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"\r\n\r\n",
        b"x" * 10_000,
        b"CHECK SPAMC/1.2\r\nUser: " + b"x" * 10_000,
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    error = refuse(data)
    assert error.code == PROTOCOL
    assert re.fullmatch(rb"SPAMD/1\.0 76 EX_PROTOCOL [ -~]+\r\n", answer_error(76, str(error), error.given))


def test_the_sentence_of_an_error_quotes_nothing_that_a_client_sent() -> None:
    for data in (b"SECRET SPAMC/1.2\r\n\r\n", b"secret", b"CHECK SPAMC/1.2\r\nsecret\r\n\r\n"):
        assert "secret" not in str(refuse(data + b"\r\n\r\n")).lower()


def test_a_compressed_message_is_decompressed() -> None:
    request = read(make_request("CHECK", "Compress: zlib", message=zlib.compress(MESSAGE)))
    assert request is not None
    assert request.message == MESSAGE


@pytest.mark.parametrize("cut", [b"", b"x", zlib.compress(MESSAGE)[:-1], MESSAGE])
def test_a_message_that_is_no_complete_zlib_stream_is_refused(cut: bytes) -> None:
    assert refuse(make_request("CHECK", "Compress: zlib", message=cut)).code == DATA_ERROR


def test_a_compressed_message_may_not_expand_beyond_the_limit() -> None:
    bomb = zlib.compress(bytes(20 << 20), 9)
    assert len(bomb) < 30_000
    error = refuse(make_request("CHECK", "Compress: zlib", message=bomb), largest=30_000)
    assert "larger than 30000 bytes" in str(error)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_give_a_request_or_an_error_and_the_same_one_in_parts(data: bytes, place: int) -> None:
    def outcome(*parts: bytes) -> object:
        try:
            return read(*parts, largest=100)
        except ProtocolError as error:
            return error.code

    assert outcome(data) == outcome(data[:place], data[place:])


@given(
    st.sampled_from(sorted(METHODS - METHODS_WITHOUT_MESSAGE)),
    st.dictionaries(
        st.from_regex("X-[A-Za-z]{1,9}", fullmatch=True), st.from_regex("[!-~]{0,20}", fullmatch=True)
    ),
    st.binary(max_size=500),
)
def test_a_request_is_read_as_it_was_written(method: str, fields: dict[str, str], message: bytes) -> None:
    request = read(
        make_request(method, *(f"{name}: {value}" for name, value in fields.items()), message=message)
    )
    assert request is not None
    assert (request.method, request.message) == (method, message)
    assert request.fields.keys() == {"content-length", *map(str.lower, fields)}


def answer_to(method: str, version: tuple[int, int], body: bytes | None) -> bytes:
    return answer_verdict(
        Request(method, version=version), is_spam=True, score=7.123, required=2.944, body=body
    )


def test_the_fields_of_an_answer_have_the_order_of_spamassassin() -> None:
    assert answer_to("REPORT", (1, 5), b"why") == (
        b"SPAMD/1.1 0 EX_OK\r\nContent-length: 3\r\nSpam: True ; 7.1 / 2.9\r\n\r\nwhy"
    )
    assert answer_to("CHECK", (1, 2), None) == b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 7.1 / 2.9\r\n\r\n"
    assert b"Spam: Yes ; " in answer_to("REPORT_IFSPAM", (1, 5), b"")


def test_exim_understands_a_report() -> None:
    """Exim says version 1.2 and expects the Spam field directly after the first line."""
    assert re.fullmatch(
        rb"SPAMD/[0-9.]{1,7} 0 EX_OK\r\nSpam: \S+ ; [0-9.]+ / [0-9.]+\r\n\r\nwhy",
        answer_to("REPORT", (1, 2), b"why"),
    )


def test_an_old_client_gets_the_message_without_a_spam_field() -> None:
    assert answer_to("PROCESS", (1, 2), b"mail") == b"SPAMD/1.1 0 EX_OK\r\nContent-length: 4\r\n\r\nmail"
    assert answer_to("PROCESS", (1, 1), b"mail") == b"SPAMD/1.1 0 EX_OK\r\nmail"


@given(st.booleans(), st.floats(-50, 50), st.floats(-5, 9))
def test_the_numbers_of_an_answer_agree_with_the_verdict(
    is_spam: bool, score: float, required: float
) -> None:
    data = answer_verdict(Request("CHECK"), is_spam=is_spam, score=score, required=required, body=None)
    numbers = re.search(rb"; (\S+) / (\S+)", data)
    assert numbers
    assert (float(numbers[1]) >= float(numbers[2])) == is_spam


def test_an_answer_to_learning_says_what_changed() -> None:
    assert answer_learning() == b"SPAMD/1.1 0 EX_OK\r\n\r\n"
    assert b"\r\nDidRemove: local\r\n" in answer_learning("DidRemove")


def test_an_error_is_one_line_of_ascii() -> None:
    assert answer_error(75, "the store /home/é\r\nDidSet: local") == (
        b"SPAMD/1.0 75 EX_TEMPFAIL the store /home/? DidSet: local\r\n"
    )


@pytest.mark.parametrize(
    ("message", "place"),
    [(b"a: b\n\nc", 6), (b"a: b\r\n\r\nc\n\n", 8), (b"a: b\n", 5), (b"\n\nc", 2), (b"", 0)],
)
def test_the_body_begins_after_the_first_empty_line(message: bytes, place: int) -> None:
    assert find_body(message) == place
