"""LMTP without I/O: whatever comes, in whatever pieces, has one bounded outcome; only CR LF ends a line."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
    has_bare_line_ends,
    read_extensions,
    read_path,
)

Event = Command | BadLine | Content | End
SESSION = (
    b"LHLO client\r\nmail FROM:<ann@example.net> SIZE=5\r\nRCPT TO:<ben@example.org>\r\nDATA\r\n"
    b"Subject: a\r\n\r\n..dot\r\n\n.\nbare\r.\r\r\n..\r\nend\r\n.\r\nNOOP\r\nDATA\r\n.\r\nQUIT\r\n"
)
PIECES = st.lists(
    st.sampled_from([b"\r\n", b"\r", b"\n", b".", b"..", b"a", b"\0", b"\xff", b"\r\n.", b"\r\n.\r\n"])
)


def read(*packets: bytes) -> list[Event]:
    """Return the events of a session; parts of a message are joined, as their borders are by chance."""
    reader = CommandReader()
    events: list[Event] = []
    for packet in packets:
        reader.feed(packet)
        while (event := reader.read_event()) is not None:
            if isinstance(event, Content) and events and isinstance(events[-1], Content):
                event = Content(events.pop().data + event.data)  # type: ignore[union-attr]
            events.append(event)
            if isinstance(event, Command) and event.verb == "DATA":
                reader.expect_content()
    return events


def test_a_session_is_the_same_wherever_it_is_split() -> None:
    events = read(SESSION)
    assert [event.verb for event in events if isinstance(event, Command)] == [
        *("LHLO", "MAIL", "RCPT", "DATA"),
        *("NOOP", "DATA", "QUIT"),
    ]
    content = next(event for event in events if isinstance(event, Content))
    assert content.data == b"Subject: a\r\n\r\n.dot\r\n\n.\nbare\r.\r\r\n.\r\nend\r\n"
    for place in range(len(SESSION) + 1):
        assert read(SESSION[:place], SESSION[place:]) == events
    assert read(*(SESSION[place : place + 1] for place in range(len(SESSION)))) == events


@pytest.mark.parametrize(
    "dot", [b"\n.\n", b"\r.\r", b"\n.\r\n", b"\r\n.\n", b"\r.\r\n", b"\r\n.\r", b"\n\r.\n\r", b"\r\n.\0\r\n"]
)
def test_no_other_dot_ends_a_message(dot: bytes) -> None:
    events = read(b"DATA\r\na" + dot + b"QUIT\r\n")
    assert [type(event) for event in events] == [Command, Content]


@given(PIECES)
@example([b".\r\n"])
@example([b"\r\n", b"."])
def test_a_message_is_the_same_after_sending_it_once_more(pieces: list[bytes]) -> None:
    message = b"".join(pieces) + b"\r\n"
    writer = ContentWriter()
    try:
        wire = b"".join(map(writer.write, pieces)) + writer.write(b"\r\n") + writer.end()
    except AmbiguousDotError:
        assert re.search(rb"(?:(?<!\r)\n|\r)\.[\r\n]", message)
        return
    events = read(b"DATA\r\n" + wire)
    assert events == [Command("DATA", b"", b"DATA"), Content(message), End()]
    # No lenient server sees an end before ours, either.
    assert [line for line in re.split(rb"\r\n|\n|\r", b"\r\n" + wire)[1:-2] if line == b"."] == []


@given(PIECES, st.integers(0, 50))
def test_a_lone_dot_is_seen_wherever_the_message_is_split(pieces: list[bytes], place: int) -> None:
    message = b"".join(pieces)
    outcomes = []
    for parts in ([message], [message[:place], message[place:]], [bytes((byte,)) for byte in message]):
        writer = ContentWriter()
        try:
            outcomes.append(b"".join(map(writer.write, parts)) + writer.end())
        except AmbiguousDotError:
            outcomes.append(b"ambiguous")
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_message_without_a_last_line_end_gets_one() -> None:
    writer = ContentWriter()
    assert writer.write(b"a") + writer.end() == b"a\r\n.\r\n"
    assert ContentWriter().end() == b".\r\n"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"NOOP\nQUIT", "control character"),
        (b"NOOP\rQUIT", "control character"),
        (b"RCPT TO:<a\0b>", "control character"),
        (b"", "not a command"),
        (b" NOOP", "not a command"),
        (b"\xff\xfe", "not a command"),
        (b"NO-OP", "not a command"),
        (b"x" * 4097, "longer than 4096 bytes"),
        (b"x" * 100_000, "longer than 4096 bytes"),
    ],
)
def test_a_line_that_is_no_command_is_skipped(line: bytes, sentence: str) -> None:
    bad, after = read(line + b"\r\nNOOP\r\n")
    assert isinstance(bad, BadLine)
    assert sentence in bad.sentence
    assert after == Command("NOOP", b"", b"NOOP")


def test_the_longest_line_is_the_same_wherever_it_is_split() -> None:
    for line, kind in ((b"NOOP " + b"x" * 4091, Command), (b"NOOP " + b"x" * 4092, BadLine)):
        data = line + b"\r\n"
        for place in range(4090, len(data) + 1):
            assert [type(event) for event in read(data[:place], data[place:])] == [kind]
        reply = b"250 " + line[4:] + b"\r\n"
        outcomes = set()
        for place in range(4090, len(reply) + 1):
            try:
                outcomes.add(tuple(read_replies(reply[:place], reply[place:])))
            except ReplyError:
                outcomes.add(())
        assert outcomes == ({(Reply(250, (line[4:],)),)} if kind is Command else {()})


def test_a_line_without_an_end_costs_no_memory() -> None:
    reader = CommandReader()
    for _ in range(1000):
        reader.feed(b"x" * 5000)
        assert reader.read_event() is None
        assert len(reader._buffer) <= 5001
    reader.feed(b"\r")
    assert reader.read_event() is None
    reader.feed(b"\nNOOP\r\n")
    assert isinstance(reader.read_event(), BadLine)
    assert isinstance(reader.read_event(), Command)


def test_pending_bytes_are_known() -> None:
    reader = CommandReader()
    pending = []
    for step in (
        lambda: reader.feed(b"DATA\r\n"),
        reader.read_event,
        reader.expect_content,
        lambda: reader.feed(b"a"),
    ):
        step()
        pending.append(reader.has_pending)
    assert pending == [True, False, False, True]


@pytest.mark.parametrize(
    ("argument", "path"),
    [
        (b"TO:<ann@example.org>", b"ann@example.org"),
        (b"to: <ann@example.org> NOTIFY=NEVER", b"ann@example.org"),
        (b"FROM:<>", b""),
        (b"TO:ann@example.org", None),
        (b"<ann@example.org>", None),
        (b"TO:<ann@example.org>NOTIFY=NEVER", None),
        (b"TO:<<ann@example.org>>", None),
        (b"", None),
    ],
)
def test_an_address_stands_in_angle_brackets(argument: bytes, path: bytes | None) -> None:
    assert read_path(Command("RCPT", argument, b"")) == path


REPLIES = b"220 hop\r\n250-a\r\n250-8BITMIME\r\n250 SIZE 10\r\n354\r\n550-5.1.1 no\n550 5.1.1 user\r\n"


def read_replies(*packets: bytes) -> list[Reply]:
    reader = ReplyReader()
    replies = []
    for packet in packets:
        reader.feed(packet)
        while (reply := reader.read_reply()) is not None:
            replies.append(reply)
    return replies


def test_replies_are_the_same_wherever_they_are_split() -> None:
    replies = read_replies(REPLIES)
    assert [reply.code for reply in replies] == [220, 250, 354, 550]
    assert replies[1].encode() == b"250-a\r\n250-8BITMIME\r\n250 SIZE 10\r\n"
    assert replies[3].encode() == b"550-5.1.1 no\r\n550 5.1.1 user\r\n"
    for place in range(len(REPLIES) + 1):
        assert read_replies(REPLIES[:place], REPLIES[place:]) == replies


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n",
        b"\r\n",
        b"99 a\r\n",
        b"199 a\r\n",
        b"2500 a\r\n",
        b"600 a\r\n",
        b"250-a\r\n550 b\r\n",
        b"250 " + b"x" * 5000,
        b"250 " + b"x" * 5000 + b"\r\n",
        b"250-a\r\n" * 101,
        b"\xff\xff\xff\r\n",
    ],
)
def test_what_is_no_reply_is_an_error(data: bytes) -> None:
    with pytest.raises(ReplyError):
        read_replies(data)


def test_a_reply_cannot_contain_another_one() -> None:
    (reply,) = read_replies(b"250 a\r250 b\0\x1b\r\n")
    assert reply.encode() == b"250 a?250 b??\r\n"


def test_extensions_are_read() -> None:
    reply = Reply(250, (b"hop", b"8bitmime", b"SIZE 10", b"", b"\xff"))
    assert read_extensions(reply) == {"8BITMIME": "", "SIZE": "10", "\ufffd": ""}


def test_bare_line_ends_are_found() -> None:
    assert not has_bare_line_ends(b"")
    assert not has_bare_line_ends(b"a\r\nb\r\n")
    for bare in (b"\n", b"\r", b"a\r\n\n", b"a\r\r\n", b"\n\r"):
        assert has_bare_line_ends(bare)
