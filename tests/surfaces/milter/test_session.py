"""One connection of a mail server without I/O: messages are put together byte for byte, in bounded memory."""

import struct
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.message import canonical
from tamis_mail.surfaces.milter import codec
from tamis_mail.surfaces.milter.codec import Action, ProtocolError
from tamis_mail.surfaces.milter.session import Envelope, Message, Session
from tamis_mail.surfaces.milter.trace import format_trace
from tests.surfaces.peers.milter import VERSION_2, VERSION_6, pack, pack_message

ACTIONS = Action.ADD_HEADERS | Action.CHANGE_HEADERS
RAW = b"From: ann\r\nSubject:  two\r\n\tlines \xff\r\nX:\ty\r\nEmpty:\r\n\r\nbody\r\n\r\n\x00\xff end"
CONNECT = pack(b"C", b"mx.elsewhere.test\x004\0\x19192.0.2.1\0")
HELO = pack(b"H", b"mx\0")


def offer(version: tuple[int, int, int] = VERSION_6) -> bytes:
    return pack(b"O", struct.pack("!III", *version))


def run(*parts: bytes, session: Session | None = None) -> list[bytes | Message]:
    """Feed a session, and return all that comes out of it."""
    session = session or Session(10_000, ACTIONS)
    return [item for part in parts for item in session.feed(part)]


def only_message(items: Sequence[bytes | Message]) -> Message:
    (message,) = [item for item in items if isinstance(item, Message)]
    return message


def test_a_message_is_put_together_byte_for_byte_wherever_the_packets_are_split() -> None:
    data = b"".join((offer(), CONNECT, HELO, *pack_message(RAW, "ann@example.test"), pack(b"Q")))
    whole = run(data)
    assert only_message(whole).raw == RAW
    for place in range(len(data) + 1):
        assert run(data[:place], data[place:]) == whole
    assert run(*(data[place : place + 1] for place in range(len(data)))) == whole


def test_few_packets_are_answered() -> None:
    items = run(offer(), CONNECT, HELO, *pack_message(RAW, "ann@example.test"))
    kinds = [item[4:5] if isinstance(item, bytes) else b"" for item in items]
    assert kinds == [b"O", b"c", b""]  # the offer, one part of the body, the end of the message


def test_an_old_server_gets_an_answer_to_each_command() -> None:
    packets = pack_message(RAW, "ann@example.test", "bob@example.test")
    items = run(offer(VERSION_2), CONNECT, HELO, *packets)
    assert items.count(codec.CONTINUE) == 2 + len(packets) - 2  # macros and the end have none
    assert only_message(items).envelope.n_recipients == 2


def test_no_space_is_added_before_a_value_that_begins_with_a_line_end() -> None:
    for value in (b"\n folded", b"\r\n folded"):
        header = pack(b"L", b"Subject\0" + value + b"\0")
        message = only_message(run(offer(VERSION_2), pack(b"M", b"<a@b.test>\0"), header, pack(b"E", b"")))
        assert message.raw == b"Subject:\r\n folded\r\n\r\n"


def test_an_old_server_removes_a_space_after_the_colon_and_it_is_put_back() -> None:
    packets = [pack(b"L", name + b"\0" + value + b"\0") for name, value in ((b"A", b"b"), (b"C", b"\td"))]
    packets.append(pack(b"L", b"Folded\0\n e\0"))
    message = only_message(run(offer(VERSION_2), *packets, pack(b"E", b"body")))
    assert message.raw == b"A: b\r\nC:\td\r\nFolded:\r\n e\r\n\r\nbody"


def test_the_envelope_says_who_sent_the_message_to_whom() -> None:
    macros = ("i", "4711", "{auth_type}", "PLAIN", "{tls_version}", "TLSv1.3")
    j = pack(b"D", b"Cj\0home.example\0")
    message = only_message(
        run(offer(), j, CONNECT, HELO, *pack_message(RAW, "ann@example.test", macros=macros))
    )
    assert message.envelope == Envelope(
        client_name=b"mx.elsewhere.test",
        client_address=b"192.0.2.1",
        helo=b"mx",
        server=b"home.example",
        queue_id=b"4711",
        tls_version=b"TLSv1.3",
        auth_type=b"PLAIN",
        recipient=b"<ann@example.test>",
        n_recipients=1,
    )
    assert format_trace(message.envelope, 0).startswith(
        b"Received: from mx (mx.elsewhere.test [192.0.2.1])\r\n\tby home.example with ESMTPSA id 4711; "
    )


def test_what_a_client_says_of_itself_cannot_add_a_field() -> None:
    envelope = Envelope(client_name=b"a\r\nX-Spam-Flag: NO", client_address=b"192.0.2.1", helo=b"b c\n\xff")
    assert format_trace(envelope, 0).count(b"\n") == 2
    assert b"from b?c?? (a??X-Spam-Flag:?NO [192.0.2.1])" in format_trace(envelope, 0)
    assert format_trace(Envelope(), 0) == b""


def test_several_messages_of_a_connection_have_nothing_in_common() -> None:
    session = Session(10_000, ACTIONS)
    macros = ("i", "1", "{auth_type}", "PLAIN")
    first = pack_message(b"X-Spam-Flag: NO\r\n\r\none", "ann@example.test", macros=macros)
    second = pack_message(b"A: b\r\n\r\ntwo", "bob@example.test", macros=("i", "2"))
    items = run(offer(), CONNECT, *first, *second, session=session)
    one, two = [item for item in items if isinstance(item, Message)]
    assert (one.raw, two.raw) == (b"X-Spam-Flag: NO\r\n\r\none", b"A: b\r\n\r\ntwo")
    assert (one.envelope.auth_type, two.envelope.auth_type) == (b"PLAIN", b"")
    assert (one.envelope.recipient, two.envelope.recipient) == (b"<ann@example.test>", b"<bob@example.test>")
    assert (one.n_old_fields, two.n_old_fields) == (1, 0)
    assert two.envelope.client_address == b"192.0.2.1"


@pytest.mark.parametrize("end", [pack(b"E"), pack(b"A"), pack(b"K")], ids=["end", "abort", "new client"])
def test_macros_of_a_message_end_with_it(end: bytes) -> None:
    session = Session(10_000, ACTIONS)
    first = pack_message(RAW, "ann@example.test", macros=("{auth_type}", "PLAIN"))
    run(offer(), *first[:-1], end, session=session)
    message = only_message(run(*pack_message(RAW, "ann@example.test")[1:], session=session))
    assert message.envelope.auth_type == b""


@pytest.mark.parametrize("stop", range(1, 9))
def test_after_an_abort_the_next_message_begins_anew(stop: int) -> None:
    begun = pack_message(RAW, "ann@example.test")[:stop]
    items = run(offer(), CONNECT, *begun, pack(b"A"), *pack_message(b"A: b\r\n\r\nc", "bob@example.test"))
    message = only_message(items)
    assert message.raw == b"A: b\r\n\r\nc"
    assert message.envelope.n_recipients == 1


def test_a_connection_can_be_used_for_another_client() -> None:
    session = Session(10_000, ACTIONS)
    run(offer(), CONNECT, HELO, *pack_message(RAW, "ann@example.test"), pack(b"K"), session=session)
    message = only_message(run(*pack_message(RAW, "ann@example.test"), session=session))
    assert (message.envelope.client_address, message.envelope.helo) == (b"", b"")
    assert not session.is_ended
    run(pack(b"Q"), session=session)
    assert session.is_ended


def test_unknown_commands_and_data_are_passed_over() -> None:
    items = run(offer(), pack(b"U", b"FOO\0"), pack(b"T"), pack(b"N"), *pack_message(RAW, "a@b"))
    assert only_message(items).raw == RAW


def test_of_a_message_that_is_too_large_nothing_is_kept() -> None:
    session = Session(1000, ACTIONS)
    items = run(offer(), pack(b"M", b"<>\0"), pack(b"B", bytes(600)), pack(b"B", bytes(600)), session=session)
    assert items[1:] == [codec.CONTINUE, codec.SKIP]
    (message,) = run(pack(b"E"), session=session)
    assert isinstance(message, Message)
    assert (message.raw, message.size) == (None, 1202)


def test_a_message_without_end_takes_no_memory() -> None:
    session = Session(100_000, ACTIONS)
    run(offer(VERSION_2), session=session)
    long_name = pack(b"L", b"X-Old-" * 9000 + b"X-Spam-Flag\0 YES\0")
    long_value = pack(b"L", b"X-Spam-Flag\0" + b"x" * 50_000 + b"\0")
    body = pack(b"B", bytes(65535))
    tracemalloc.start()
    run(*[long_name] * 100, *[long_value] * 100, *[body] * 100, session=session)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # of 17 MB


def test_a_server_that_cannot_skip_is_let_go_on() -> None:
    session = Session(1000, ACTIONS)
    items = run(offer(VERSION_2), pack(b"B", bytes(1200)), pack(b"B", bytes(1200)), session=session)
    assert items[1:] == [codec.CONTINUE, codec.CONTINUE]
    assert only_message(run(pack(b"E"), session=session)).raw is None


def test_headers_count_for_the_size_too() -> None:
    session = Session(1000, ACTIONS)
    run(offer(), *[pack(b"L", b"a\0 b\0")] * 300, session=session)
    assert only_message(run(pack(b"E"), session=session)).raw is None


def test_fields_with_the_name_of_a_verdict_are_numbered_by_name_in_any_case() -> None:
    raw = (
        b"X-Spam-Flag: a\r\nx-spam-flag: b\r\nX-Bogosity: c\r\nX-Old-X-Spam-Status: d\r\nX-Spam-A: 1\r\n\r\n"
    )
    message = only_message(run(offer(), *pack_message(raw, "ann@example.test")))
    assert [(old.name, old.number, old.value) for old in message.old_fields] == [
        (b"X-Spam-Flag", 1, b" a"),
        (b"x-spam-flag", 2, b" b"),
        (b"X-Bogosity", 1, b" c"),
        (b"X-Old-X-Spam-Status", 1, b" d"),
    ]


def test_no_more_than_a_hundred_such_fields_are_remembered() -> None:
    raw = b"X-Spam-Flag: a\r\n" * 300 + b"X-Spam-Status: " + b"x" * 5000 + b"\r\n\r\n"
    message = only_message(run(offer(), *pack_message(raw, "ann@example.test")))
    assert (len(message.old_fields), message.n_old_fields) == (100, 301)


def test_a_field_that_is_too_long_to_be_sent_back_is_known_without_its_value() -> None:
    raw = b"X-Spam-Flag: " + b"x" * 70_000 + b"\r\nX-Spam-Flag: b\r\nX-Bogosity:" + b" y" * 5000 + b"\r\n\r\n"
    message = only_message(run(offer(), *pack_message(raw, "ann@example.test")))
    assert [(old.name, old.number, old.value) for old in message.old_fields] == [
        (b"X-Spam-Flag", 1, None),
        (b"X-Spam-Flag", 2, b" b"),
        (b"X-Bogosity", 1, b" y" * 5000),
    ]


def test_exempt_mail_is_accepted_at_the_first_part_of_its_body_or_at_its_end() -> None:
    session = Session(10_000, ACTIONS, lambda envelope: envelope.auth_type == b"PLAIN")
    macros = ("{auth_type}", "PLAIN")
    packets = pack_message(b"A: b\r\n\r\nc", "ann@example.test", macros=macros)
    assert run(offer(), *packets[:-1], session=session)[1:] == [codec.ACCEPT]
    without_body = pack_message(b"A: b\r\n\r\n", "ann@example.test", macros=macros)
    assert run(*without_body, session=session) == [codec.ACCEPT]
    assert only_message(run(*pack_message(RAW, "ann@example.test"), session=session)).raw == RAW


@pytest.mark.parametrize(
    "data",
    [
        CONNECT,
        pack(b"E"),
        offer() + pack(b"L", b"no value\0"),
        offer() + pack(b"R"),
        offer() + pack(b"C", b"mx"),
        offer() + pack(b"D"),
        offer() + pack(b"M"),
        offer() + pack(b"H", b"mx"),
        pack(b"O", b"\0\0\0\6"),
    ],
)
def test_what_is_no_milter_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        run(data)


FIELDS = st.lists(
    st.tuples(
        st.from_regex(rb"[!-9;-~]{1,12}", fullmatch=True),
        st.from_regex(rb"[ \t]?[^\x00\r\n]{0,20}(?:\r\n[ \t][^\x00\r\n]{1,20}){0,2}", fullmatch=True),
    ),
    max_size=6,
)


@given(FIELDS, st.binary(max_size=300))
def test_any_message_is_put_together_as_it_was(fields: list[tuple[bytes, bytes]], body: bytes) -> None:
    raw = b"".join(name + b":" + value + b"\r\n" for name, value in fields) + b"\r\n" + body
    packets = [pack(b"L", name + b"\0" + value.replace(b"\r\n", b"\n") + b"\0") for name, value in fields]
    message = only_message(run(offer(), *packets, pack(b"B", body), pack(b"E")))
    assert message.raw == raw
    assert canonical(message.raw) == canonical(raw)
