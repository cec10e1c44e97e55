"""The packets of the milter protocol, without I/O: whatever a peer sends, in whatever pieces, is bounded."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.surfaces.milter import codec
from tamis_mail.surfaces.milter.codec import (
    LARGEST_PACKET,
    Action,
    Negotiation,
    Packet,
    PacketReader,
    ProtocolError,
    ProtocolOption,
)

COMMANDS = [bytes([command]) for command in b"ABCDEHKLMNOQRTU"]
STRING = st.binary(max_size=30).filter(lambda text: b"\0" not in text)


def read(*parts: bytes) -> list[Packet]:
    """Read packets that come in parts."""
    reader = PacketReader()
    packets: list[Packet] = []
    for part in parts:
        reader.feed(part)
        while (packet := reader.take_packet()) is not None:
            packets.append(packet)
    return packets


@given(st.lists(st.tuples(st.sampled_from(COMMANDS), st.binary(max_size=60)), max_size=4))
def test_packets_are_the_same_wherever_they_are_split(items: list[tuple[bytes, bytes]]) -> None:
    data = b"".join(codec.encode(*item) for item in items)
    expected = [Packet(*item) for item in items]
    for place in range(len(data) + 1):
        assert read(data[:place], data[place:]) == expected
    assert read(*(data[place : place + 1] for place in range(len(data)))) == expected


def test_a_packet_that_is_not_complete_is_waited_for() -> None:
    reader = PacketReader()
    reader.feed(codec.encode(b"H", b"mx\0") + b"\0\0")
    assert reader.take_packet() == Packet(b"H", b"mx\0")
    assert reader.take_packet() is None
    reader.feed(codec.encode(b"M", b"")[2:])
    assert reader.take_packet() == Packet(b"M", b"")


@pytest.mark.parametrize("length", [0, LARGEST_PACKET + 1, 0xFFFFFFFF])
def test_a_wrong_length_is_refused_before_the_packet_has_come(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"a packet has {length} bytes"):
        read(struct.pack("!I", length))


def test_the_largest_packet_is_read() -> None:
    assert read(codec.encode(b"B", bytes(LARGEST_PACKET - 1)))[0].data == bytes(LARGEST_PACKET - 1)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.0\r\n\r\n", b"\0\0\0\5z", b"EHLO", b"\x16\x03\x01\x02\x00\x01\xfc"]
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(data)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_give_packets_or_an_error_and_the_same_ones_in_parts(data: bytes, place: int) -> None:
    def outcome(*parts: bytes) -> object:
        try:
            return read(*parts)
        except ProtocolError:
            return "refused"

    assert outcome(data) == outcome(data[:place], data[place:])


@given(st.lists(STRING, min_size=1))
def test_strings_are_read_as_they_were_written(strings: list[bytes]) -> None:
    assert codec.read_strings(b"".join(text + b"\0" for text in strings)) == strings


@pytest.mark.parametrize("data", [b"", b"a", b"a\0b"])
def test_a_string_without_an_end_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="NUL"):
        codec.read_strings(data)


@pytest.mark.parametrize("data", [b"name\0", b"name\0value\0more\0", b"name\0value"])
def test_a_header_field_has_a_name_and_a_value(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.read_header(data)
    assert codec.read_header(b"Subject\0 a\n\tb\xff\0") == (b"Subject", b" a\n\tb\xff")


@pytest.mark.parametrize("data", [b"", b"Mi\0", b"Mi", b"M" + b"i\0x\0" * 101])
def test_macros_are_pairs_and_not_too_many(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"macros|NUL"):
        codec.read_macros(data)
    assert codec.read_macros(b"C") == (b"C", {})


@pytest.mark.parametrize(
    ("data", "client"),
    [
        (b"mx.example\x006\0\x19IPv6:2001:db8::1\0", (b"mx.example", b"IPv6:2001:db8::1")),
        (b"localhost\x00L\0\0/run/socket\0", (b"localhost", b"")),
        (b"unknown\0U", (b"unknown", b"")),
    ],
)
def test_the_client_has_a_name_and_perhaps_an_address(data: bytes, client: tuple[bytes, bytes]) -> None:
    assert codec.read_client(data) == client


@pytest.mark.parametrize("data", [b"", b"mx", b"mx\0", b"mx\x004", b"mx\x004\0\x19", b"mx\x004\0\x191.2.3.4"])
def test_a_client_that_is_cut_off_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.read_client(data)


def test_an_offer_is_read_and_bits_without_a_meaning_are_ignored() -> None:
    offer = Negotiation.read(struct.pack("!III", 9, 0xFFFFFFFF, 0xFFFFFFFF) + b"more")
    assert offer.version == 6
    assert offer.actions == Action.ADD_HEADERS | Action.CHANGE_HEADERS | Action.QUARANTINE
    assert ProtocolOption.LEADING_SPACE in offer.options
    assert codec.encode_negotiation(offer)[:9] == b"\0\0\0\x0dO\0\0\0\6"


@pytest.mark.parametrize("data", [b"", b"\0" * 11, struct.pack("!III", 1, 0, 0)])
def test_an_offer_that_is_too_short_or_too_old_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="expected"):
        Negotiation.read(data)


def test_commands_are_answered_unless_it_was_agreed_that_they_are_not() -> None:
    chatty = Negotiation(2, Action(0), ProtocolOption(0))
    assert {command for command in COMMANDS if not chatty.is_answered(command)} == {b"D", b"A", b"Q", b"K"}
    silent = Negotiation(6, Action(0), ProtocolOption.SILENT_HEADER | ProtocolOption.SILENT_MAIL)
    assert not silent.is_answered(codec.HEADER)
    assert not silent.is_answered(codec.MAIL)
    assert silent.is_answered(codec.RECIPIENT)


def test_changes_have_the_form_that_mail_servers_read() -> None:
    assert codec.encode_insert_header(0, b"X-A", b" b\n\tc") == b"\0\0\0\x0fi\0\0\0\0X-A\0 b\n\tc\0"
    assert codec.encode_add_header(b"X-A", b" b") == b"\0\0\0\x08hX-A\0 b\0"
    assert codec.encode_remove_header(b"X-A", 2) == b"\0\0\0\x0am\0\0\0\2X-A\0\0"
    assert codec.encode_quarantine("spam") == b"\0\0\0\6qspam\0"
    with pytest.raises(ValueError, match="NUL"):
        codec.encode_add_header(b"X-A", b"a\0b")
