"""A fuzzer of LMTP, both sides: sessions and replies that are mutated, and cut into packets at random places.

    python -m benchmarks.fuzz_codec_lmtp --inputs 200000 [--seed 0]

What is checked of each input:

- Sessions: nothing is raised; the events are the same in one piece and in random pieces; a message is what a
  reader of single bytes makes of it; the reader holds no more than a line and one packet.
- Messages: what is sent is read as the same message, and has no lone dot, whatever is taken for a line end,
  before its end; or the message is refused because it has one.
- Replies: a reply or a ReplyError, the same in pieces; a reply that is passed on is read as the same reply.
"""

import random
import re
import sys
from collections.abc import Sequence

from benchmarks.mutations import cut, run_fuzzer
from tamis_mail.surfaces.lmtp.codec import (
    AmbiguousDotError,
    BadLine,
    Command,
    CommandReader,
    Content,
    ContentWriter,
    End,
    Reply,
    ReplyError,
    ReplyReader,
)

_LONGEST = 4096  # bytes of a line
_LINE_ENDS = (b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\n\r", b"\r\r\n")
_LINES = (
    *(b"LHLO client", b"MAIL FROM:<a@b>", b"RCPT TO:<c@d> NOTIFY=NEVER", b"DATA", b"RSET", b"QUIT", b"data"),
    *(
        b"",
        b".",
        b"..",
        b".x",
        b"Subject: a",
        b"\0",
        b"\xff\xfe",
        b" NOOP",
        b"x" * 4095,
        b"x" * 4097,
        b"BDAT 3",
    ),
)
_REPLY_LINES = (
    *(b"250 2.0.0 ok", b"250-a", b"550-5.1.1 no", b"550 5.1.1 no", b"354", b"354 go", b"220 x", b"421 bye"),
    *(b"", b"25", b"199 a", b"600 a", b"250\ta", b"\xff\xff\xff x", b"250 \0\x1b\r", b"250 " + b"x" * 4093),
)

Event = Command | BadLine | Content | End


def mutate(dice: random.Random, data: bytes) -> bytes:
    """Return bytes with some mutations."""
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
        place = dice.randrange(len(data) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            data = data[:place] + dice.choice((*_LINE_ENDS, b".", b"\r\n.\r\n", b"\n.\n")) + data[place:]
        elif kind == 1:
            data = data[:place] + data[place + dice.randrange(1, 4) :]
        elif kind == 2:
            data = data[:place] + dice.randbytes(1) + data[place + 1 :]
        else:
            data = data[:place] + data[dice.randrange(len(data) + 1) :]
    return data


def join(dice: random.Random, lines: Sequence[bytes]) -> bytes:
    """Return some lines, with ends of all kinds."""
    return b"".join(dice.choice(lines) + dice.choice(_LINE_ENDS) for _ in range(dice.randrange(12)))


def read_session(packets: Sequence[bytes]) -> list[Event]:
    """Return the events of a session, with the parts of each message joined."""
    reader = CommandReader()
    events: list[Event] = []
    for packet in packets:
        reader.feed(packet)
        while (event := reader.read_event()) is not None:
            if isinstance(event, Content) and events and isinstance(last := events[-1], Content):
                events[-1] = Content(last.data + event.data)
            else:
                events.append(event)
            if isinstance(event, Command) and event.verb == "DATA":
                reader.expect_content()
        if len(reader._buffer) > _LONGEST + 2:
            raise AssertionError(f"the reader holds {len(reader._buffer)} bytes")
    return events


def read_bytewise(data: bytes) -> tuple[bytes, bool]:
    """Return the message at the start of some bytes, and whether it is complete."""
    message, line = bytearray(), bytearray()
    for byte in data:
        line.append(byte)
        if line.endswith(b"\r\n"):
            if line == b".\r\n":
                return bytes(message), True
            message += line[1:] if line.startswith(b".") else line
            line.clear()
    return bytes(message), False


def check_session(dice: random.Random) -> str:
    data = mutate(dice, join(dice, _LINES))
    events = read_session([data])
    if read_session(cut(dice, data)) != events:
        raise AssertionError("the events depend on the packets")
    message, is_complete = read_bytewise(data)
    first = read_session([b"DATA\r\n" + data])[1:]
    ended = next((event for event in first if not isinstance(event, Content)), None)
    if is_complete != isinstance(ended, End):
        raise AssertionError("a message ends at another place")
    if is_complete and (first[0].data if isinstance(first[0], Content) else b"") != message:
        raise AssertionError("a message is another one")
    return "sessions"


def check_message(dice: random.Random) -> str:
    message = mutate(dice, join(dice, _LINES)) + b"\r\n"
    writer = ContentWriter()
    lone = re.search(rb"(?:(?<!\r)\n|\r)\.[\r\n]", message)
    try:
        wire = b"".join(map(writer.write, cut(dice, message))) + writer.end()
    except AmbiguousDotError:
        if lone is None:
            raise AssertionError("a message is refused for nothing") from None
        return "messages refused"
    if lone is not None:
        raise AssertionError("a lone dot is sent")
    if read_bytewise(wire) != (message, True):
        raise AssertionError("another message is sent")
    if b"." in re.split(rb"\r\n|\n|\r", wire)[:-2]:
        raise AssertionError("a lenient reader sees an end")
    return "messages sent"


def read_replies(packets: Sequence[bytes]) -> tuple[list[Reply], bool]:
    """Return the replies, and whether they end in an error."""
    reader = ReplyReader()
    replies = []
    try:
        for packet in packets:
            reader.feed(packet)
            while (reply := reader.read_reply()) is not None:
                replies.append(reply)
    except ReplyError:
        return replies, True
    return replies, False


def check_replies(dice: random.Random) -> str:
    data = mutate(dice, join(dice, _REPLY_LINES) * dice.choice((1, 1, 1, 30)))
    replies, is_error = read_replies([data])
    if read_replies(cut(dice, data)) != (replies, is_error):
        raise AssertionError("the replies depend on the packets")
    passed_on = b"".join(reply.encode() for reply in replies)
    if read_replies([passed_on]) != (replies, False):
        raise AssertionError("a reply that is passed on is another one")
    return "replies with an error" if is_error else "replies"


def check(dice: random.Random) -> str:
    """Draw a session, a message or a series of replies, and check it."""
    return dice.choice((check_session, check_message, check_replies))(dice)


if __name__ == "__main__":
    sys.exit(run_fuzzer(__doc__, check))
