"""A fuzzer of the spamd protocol: requests that are mutated, and cut into packets at random places.

    python -m benchmarks.fuzz_codec_spamd --inputs 200000 [--seed 0]

What is checked of each input:

- It gives a request, nothing (if it is empty) or a ProtocolError; nothing else is raised.
- The outcome is the same in one piece and in random pieces.
- A message is never larger than the limit, also if it is compressed, and the reader holds no more than the
  limit and one packet.
- The answer to an error is one line of printable ASCII.
"""

import random
import re
import sys
import zlib
from collections.abc import Sequence

from benchmarks.mutations import cut, mutate, run_fuzzer
from tamis_mail.surfaces.spamd.codec import METHODS, ProtocolError, Request, RequestReader, answer_error

_LARGEST = 2000
_LINE = re.compile(rb"SPAMD/1\.0 \d\d EX_[A-Z]+ [ -~]+\r\n")
_PIECES = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\n\n",
        b" ",
        b":",
        b"\0",
        b"\xff",
        b"SPAMC/1.2",
        b"SPAMC/1.0",
        b"/",
    ),
    *(
        b"Content-length: 0\r\n",
        b"Content-length: 99999999999\r\n",
        b"Content-length: -1\r\n",
        b"User: x\r\n",
    ),
    *(b"Compress: zlib\r\n", b"PING SPAMC/1.5\r\n\r\n", b"x" * 9000, b"a: b\r\n" * 120, b"9", b"0"),
)


def make_input(dice: random.Random) -> bytes:
    """Return a request with some mutations, which is often not a request any more."""
    message = dice.randbytes(dice.choice((0, 1, 10, 300, 1999, 2000, 2001)))
    fields = dice.sample(
        (b"User: ann", b"Set: local", b"Message-class: spam", b"X-Else: y"), dice.randrange(4)
    )
    if dice.random() < 0.3:
        fields.append(b"Compress: zlib")
        message = zlib.compress(
            bytes(dice.choice((10, 2000, 2001, 1_000_000))) if dice.random() < 0.5 else message
        )
    if dice.random() < 0.8:
        length = len(message) + dice.choice((0, 0, 0, 0, 1, -1))
        fields.append(b"Content-length: %d" % length)
    first = dice.choice(sorted(METHODS)).encode() + dice.choice((b" SPAMC/1.5", b" SPAMC/1.2", b" SPAMC/1.0"))
    data = b"\r\n".join((first, *fields, b"", b"")) + message
    return mutate(dice, data, _PIECES, 200)


def read(packets: Sequence[bytes]) -> Request | str | None:
    """Return the request, the kind of error, or None."""
    reader = RequestReader(_LARGEST)
    try:
        for packet in packets:
            if (request := reader.feed(packet)) is not None:
                return request
        return reader.end()
    except ProtocolError as error:
        line = answer_error(error.code, str(error), error.given)
        if not _LINE.fullmatch(line):
            raise AssertionError(f"the answer is no line of text: {line!r}") from error
        return f"error {error.code}"


def check(dice: random.Random) -> str:
    """Draw a request, and read it in one piece and in packets."""
    data = make_input(dice)
    outcome = read([data])
    if read(cut(dice, data)) != outcome:
        raise AssertionError(f"the outcome depends on the packets: {data[:300]!r}")
    if isinstance(outcome, Request) and len(outcome.message) > _LARGEST:
        raise AssertionError(f"a message of {len(outcome.message)} bytes: {data[:300]!r}")
    return outcome if isinstance(outcome, str) else "request" if outcome else "nothing"


if __name__ == "__main__":
    sys.exit(run_fuzzer(__doc__, check))
