"""A fuzzer of IMAP responses: mutated answers of a server, through the whole client, without sockets.

    python -m benchmarks.fuzz_codec_imap --inputs 100000 [--seed 0]

Each input is a session: the client connects, logs in, lists folders, opens one, reads flags, sizes and
messages and moves a message, and the server's answers to one or all of these commands are mutated. What is
checked:

- Every session ends in values or in one of the three declared errors; nothing else is raised.
- An error is one printable line of less than 300 characters, without the marker that stands in all messages.
- No more bytes are taken from the server than the limits allow, and a session takes less than 10 seconds.
"""

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from unittest import mock

from benchmarks.mutations import run_fuzzer
from tamis_mail.surfaces.imap.account import Account
from tamis_mail.surfaces.imap.connection import (
    CommandRefusedError,
    Connection,
    ConnectionLostError,
    LoginRefusedError,
    open_connection,
)

_MARKER = b"periwinkle"
_LIMIT = 200_000  # bytes of a message that are asked for
_SECONDS = 10.0
_PIECES = (
    *(b"\r\n", b"\n", b"\r", b"(", b")", b'"', b"\\", b"[", b"]", b"{", b"}", b" ", b"\0", b"\xff", b"NIL"),
    *(b"{3}\r\n", b"{0}\r\n", b"{-1}\r\n", b"{99999999999}\r\n", b"{3+}\r\n", b"~{3}\r\n", b"* ", b"+ \r\n"),
    *(
        b"TAG OK\r\n",
        b"TAG NO x\r\n",
        b"TAG BAD x\r\n",
        b"* BYE x\r\n",
        b"* 1 EXISTS\r\n",
        b"* 1 EXPUNGE\r\n",
    ),
    *(b"* VANISHED 1:4000000000\r\n", b"* VANISHED (EARLIER) x\r\n", b"((((" * 300, b"x" * 9000, b"UID 1"),
    *(b"[COPYUID 1 1 1]", b"[UIDVALIDITY x]", b"* 1 FETCH (FLAGS ())\r\n", b'""', b"FLAGS", b"BODY[]", b"-1"),
)
_ANSWERS = {
    b"CAPABILITY": b"* CAPABILITY IMAP4rev1 NAMESPACE CONDSTORE QRESYNC ENABLE UIDPLUS MOVE\r\n"
    b"TAG OK done\r\n",
    b"LOGIN": b"TAG OK done\r\n",
    b"ENABLE": b"* ENABLED CONDSTORE QRESYNC\r\nTAG OK done\r\n",
    b"LIST": b'* LIST (\\Junk) "/" "Junk"\r\n* LIST () "/" {5}\r\nINBOX\r\n'
    b'* LIST () NIL &ZeU-\r\n* STATUS "Junk" (MESSAGES 2 UIDNEXT 3 UIDVALIDITY 7)\r\nTAG OK done\r\n',
    b"NAMESPACE": b'* NAMESPACE (("" "/")) (("Other/" "/")) NIL\r\nTAG OK done\r\n',
    b"STATUS": b'* STATUS "INBOX" (MESSAGES 2 UIDNEXT 3 UIDVALIDITY 7 HIGHESTMODSEQ 9)\r\nTAG OK done\r\n',
    b"SELECT": b"* 2 EXISTS\r\n* FLAGS (\\Seen $Junk)\r\n* OK [PERMANENTFLAGS (\\Seen \\*)] x\r\n"
    b"* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\n* OK [HIGHESTMODSEQ 9] x\r\n"
    b"TAG OK [READ-WRITE] done\r\n",
    b"UID SEARCH": b"* SEARCH 1 2\r\nTAG OK done\r\n",
    b"UID FETCH 1:*": b"* 1 FETCH (UID 1 FLAGS (\\Seen) MODSEQ (5))\r\n* 2 FETCH (FLAGS ($Junk) UID 2)\r\n"
    b"* VANISHED (EARLIER) 3:5,8\r\nTAG OK done\r\n",
    b"UID FETCH 1:2 (UID RFC822.SIZE": b"* 1 FETCH (UID 1 RFC822.SIZE 30)\r\n"
    b"* 2 FETCH (RFC822.SIZE 14 UID 2)\r\nTAG OK done\r\n",
    b"UID FETCH": b"* 1 FETCH (UID 1 BODY[] {15}\r\nx: periwinkle\r\n)\r\n"
    b'* 2 FETCH (BODY[] "periwinkle" UID 2)\r\nTAG OK done\r\n',
    b"UID MOVE": b"* OK [COPYUID 8 1 5] moved\r\n* 1 EXPUNGE\r\nTAG OK done\r\n",
    b"UID STORE": b"TAG OK done\r\n",
    b"NOOP": b"* 3 EXISTS\r\nTAG OK done\r\n",
    b"LOGOUT": b"* BYE\r\nTAG OK done\r\n",
}


class ScriptedSocket:
    """A socket that answers each line with what a function makes of it, in random packets."""

    def __init__(self, dice: random.Random, answer: Callable[[bytes], bytes]) -> None:
        self.taken = 0
        self._dice = dice
        self._answer = answer
        self._sent = b""
        self._waiting = b"* OK ready\r\n"

    def sendall(self, data: bytes) -> None:
        *lines, self._sent = (self._sent + data).split(b"\r\n")
        for line in lines:
            self._waiting += self._answer(line)

    def recv(self, size: int) -> bytes:
        size = min(size, self._dice.choice((1, 7, 100, 1 << 16)))
        part, self._waiting = self._waiting[:size], self._waiting[size:]
        self.taken += len(part)
        return part

    def settimeout(self, seconds: float) -> None:
        """Take no notice: this socket never waits."""

    def setsockopt(self, *options: int) -> None:
        """Take no notice."""

    def close(self) -> None:
        """End."""


def mutate(dice: random.Random, data: bytes) -> bytes:
    """Return bytes with some changes."""
    for _ in range(dice.choice((1, 1, 2, 4))):
        place = dice.randrange(len(data) + 1)
        kind = dice.randrange(5)
        if kind < 2:
            data = data[:place] + dice.choice(_PIECES) + data[place:]
        elif kind == 2:
            data = data[:place] + data[place + dice.randrange(1, 12) :]
        elif kind == 3:
            data = data[:place] + dice.randbytes(dice.choice((1, 3))) + data[place + 1 :]
        else:
            data = data[:place]
    return data


def make_answer(dice: random.Random) -> Callable[[bytes], bytes]:
    """Return the server of one session: the answers to one or all of the commands are mutated."""
    target = dice.choice((*_ANSWERS, None))
    further = dice.choice((b"", b" SPECIAL-USE LIST-EXTENDED LIST-STATUS"))

    def answer(line: bytes) -> bytes:
        tag, _, command = line.partition(b" ")
        for begin, text in _ANSWERS.items():
            if command.replace(b"EXAMINE", b"SELECT").startswith(begin):
                data = text.replace(b" UIDPLUS", b" UIDPLUS" + further)
                if begin == target or (target is None and dice.random() < 0.3):
                    data = mutate(dice, data)
                return data.replace(b"TAG", tag)
        return tag + b" BAD unknown\r\n"

    return answer


def use(connection: Connection) -> str:
    """Use all commands, and say what came of it."""
    folders = connection.list_folders()
    connection.list_foreign_prefixes()
    connection.find_own_prefix()
    connection.read_status("INBOX")
    opened = connection.select("INBOX", writable=True)
    connection.list_uids()
    connection.list_flags(opened.status.highest_modseq)
    connection.read_sizes([1, 2])
    messages = connection.read_messages([1, 2], _LIMIT)
    connection.move(1, "Junk")
    connection.add_flags(2, ["$Junk"])
    connection.check()
    return "all values" if len(folders) == 3 and len(messages) == 2 else "some values"


def run_session(dice: random.Random) -> tuple[str, int]:
    """Run a session; return what came of it, and the bytes that were taken."""
    made = ScriptedSocket(dice, make_answer(dice))
    account = Account("fuzz", host="localhost", user="ann", tls="none", password="prompt")
    outcome = ""
    with mock.patch("tamis_mail.surfaces.imap.transport.socket.create_connection", return_value=made):
        try:
            connection = open_connection(account, "secret")
            try:
                outcome = use(connection)
            finally:
                connection.close()
        except (ConnectionLostError, CommandRefusedError, LoginRefusedError) as error:
            text = str(error)
            if not text.isprintable() or len(text) >= 300 or _MARKER.decode() in text:
                raise AssertionError(f"not a line for a log: {text!r}") from None
            outcome = type(error).__name__
    return outcome, made.taken


def check(dice: random.Random) -> str:
    """Run a session with mutated answers, and check that it took little memory and time."""
    begun = time.perf_counter()
    outcome, taken = run_session(dice)
    seconds = time.perf_counter() - begun
    if taken > 20 * _LIMIT or seconds > _SECONDS:
        raise AssertionError(f"{outcome}: {taken} bytes, {seconds:.1f} s")
    return outcome


def main() -> int:
    return run_fuzzer(__doc__, check, 100_000)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
