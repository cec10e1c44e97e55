"""A fuzzer of the milter protocol: connections that are mutated, and cut into packets at random places.

    python -m benchmarks.fuzz_codec_milter --inputs 200000 [--seed 0]

What is checked of each input:

- It gives answers and messages, or a ProtocolError; nothing else is raised.
- The outcome is the same in one piece and in random pieces.
- A message is never larger than the limit; its old fields and the names of its envelope are bounded, too.
- A connection that was not mutated gives its messages byte for byte.
- The answers, and the changes that a service makes of a message, are packets of the protocol.
"""

import random
import struct
import sys
from collections.abc import Sequence

from benchmarks.mutations import cut, mutate, run_fuzzer
from tamis_mail.surfaces.milter import codec
from tamis_mail.surfaces.milter.codec import Action, ProtocolError
from tamis_mail.surfaces.milter.service import rename_old_fields
from tamis_mail.surfaces.milter.session import Message, Session
from tamis_mail.surfaces.milter.trace import format_trace

_LARGEST = 2000
_OFFERS = ((6, 0x1FF, 0x1FFFFF), (2, 0x3F, 0x7F), (6, 0, 0), (4, 0x1FF, 0x3FF), (9, 0xFFFFFFFF, 0xFFFFFFFF))
_NAMES = (b"Subject", b"X-Spam-Flag", b"x-spam-status", b"X-Old-X-Bogosity", b"X", b"Received", b"\xff\xfe")
_VALUES = (b" a", b"", b" YES", b"\tb", b" two\n lines", b" \xe4\xff", b"x" * 600, b"\n c")
_PIECES = (
    *(b"\0", b"\0\0\0\0", b"\0\0\0\1", b"\xff\xff\xff\xff", b"\0\0\0\1Q", b"\0\0\0\1A", b"\0\0\0\1K"),
    *(b"\0\0\0\5L", b"\r\n", b"\n", b"\0\0\0\1E", b"\0\0\0\1Z", b"\0\0\0\4Mx\0\0", b"\0\0\0\3Rx\0"),
)


def make_message(dice: random.Random) -> tuple[list[bytes], bytes]:
    """Return the packets of a message, and the message itself, if the server offers LEADING_SPACE."""
    auth = [b"{auth_type}\0PLAIN\0"] if dice.random() < 0.2 else []
    packets = [codec.encode(b"D", b"".join((b"Mi\0", b"%d\0" % dice.randrange(99), *auth)))]
    packets.append(codec.encode(b"M", b"<a@b>\0SIZE=1\0"))
    packets += [codec.encode(b"R", b"<%d@c>\0" % number) for number in range(dice.randrange(4))]
    fields = [(dice.choice(_NAMES), dice.choice(_VALUES)) for _ in range(dice.choice((0, 1, 3, 10, 120)))]
    packets += [codec.encode(b"L", name + b"\0" + value + b"\0") for name, value in fields]
    body = dice.randbytes(dice.choice((0, 1, 30, 500, 1999, 2500)))
    cuts = sorted(dice.randrange(len(body) + 1) for _ in range(dice.randrange(3)))
    parts = [body[start:stop] for start, stop in zip((0, *cuts), (*cuts, len(body)), strict=True)]
    packets += [codec.encode(b"B", part) for part in parts[:-1]]
    packets.append(codec.encode(b"E", parts[-1]))
    header = b"".join(name + b":" + value.replace(b"\n", b"\r\n") + b"\r\n" for name, value in fields)
    return packets, header + b"\r\n" + body


def make_input(dice: random.Random) -> tuple[bytes, list[bytes] | None]:
    """Return a connection, and its messages if it was not mutated."""
    offer = dice.choice(_OFFERS)
    packets = [codec.encode(b"O", struct.pack("!III", *offer))]
    packets += [codec.encode(b"D", b"Cj\0mx\0"), codec.encode(b"C", b"h\x004\0\x191.2.3.4\0")]
    packets.append(codec.encode(b"H", b"helo\0"))
    messages: list[bytes] = []
    for _ in range(dice.randrange(3)):
        of_message, raw = make_message(dice)
        packets += of_message
        messages.append(raw)
    packets += dice.sample(
        (codec.encode(b"A"), codec.encode(b"U", b"X\0"), codec.encode(b"K")), dice.randrange(3)
    )
    packets.append(codec.encode(b"Q"))
    if dice.random() < 0.3:
        return b"".join(packets), messages if offer[2] & 0x100000 else None
    for _ in range(dice.randrange(3)):
        packets.insert(dice.randrange(len(packets) + 1), dice.choice(packets))
        del packets[dice.randrange(len(packets))]
    data = b"".join(packets)
    return mutate(dice, data, _PIECES, 400), None


def read(parts: Sequence[bytes]) -> list[bytes | Message | str]:
    """Return the answers and messages of a connection; the last one is a sentence if it was refused."""
    actions = Action.ADD_HEADERS | Action.CHANGE_HEADERS | Action.QUARANTINE
    session = Session(_LARGEST, actions, lambda envelope: envelope.auth_type == b"PLAIN")
    items: list[bytes | Message | str] = []
    try:
        for part in parts:
            for item in session.feed(part):
                items.append(item)
                if isinstance(item, Message):
                    check_message(item, rename_old_fields(item, session.agreed))
                else:
                    check_packets(item)
    except ProtocolError as error:
        items.append(str(error))
    return items


def check_message(message: Message, changes: bytes) -> None:
    """Raise AssertionError if a message exceeds a limit."""
    envelope = message.envelope
    names = (envelope.client_name, envelope.helo, envelope.server, envelope.queue_id, envelope.auth_type)
    trace = format_trace(envelope, 0.0)
    if not (
        len(message.raw or b"") <= _LARGEST
        and len(message.old_fields) <= 100
        and all(len(name) <= 255 for name in names)
        and trace.count(b"\n") == 2 * bool(trace)
    ):
        raise AssertionError("a message exceeds a limit")
    check_packets(changes)


def check_packets(data: bytes) -> None:
    """Raise AssertionError if bytes are not a sequence of packets."""
    while data:
        (length,) = struct.unpack_from("!I", data)
        if not 1 <= length <= len(data) - 4:
            raise AssertionError("an answer is no packet")
        data = data[4 + length :]


def has_all(items: Sequence[bytes | Message | str], messages: Sequence[bytes]) -> bool:
    """Whether all messages came out as they were, unless they were too large or exempt."""
    raw = [item.raw for item in items if isinstance(item, Message)]
    return all(one is None or one in messages for one in raw) and not any(
        isinstance(one, str) for one in items
    )


def check(dice: random.Random) -> str:
    """Draw a connection, and read it in one piece and in packets."""
    data, messages = make_input(dice)
    items = read([data])
    if items != read(cut(dice, data)):
        raise AssertionError(f"the outcome depends on the packets: {data[:300]!r}")
    if messages is not None and not has_all(items, messages):
        raise AssertionError(f"a message is missing or another one: {data[:300]!r}")
    if items and isinstance(items[-1], str):
        return "refused"
    return "read, with a message" if any(isinstance(item, Message) for item in items) else "read"


def main() -> int:
    return run_fuzzer(__doc__, check)


if __name__ == "__main__":
    sys.exit(main())
