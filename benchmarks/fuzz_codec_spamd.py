"""A fuzzer of the spamd protocol: requests that are mutated, and cut into packets at random places.

    python -m benchmarks.fuzz_codec_spamd --inputs 200000 [--seed 0]

What is checked of each input:

- It gives a request, nothing (if it is empty) or a ProtocolError; nothing else is raised.
- The outcome is the same in one piece and in random pieces.
- A message is never larger than the limit, also if it is compressed, and the reader holds no more than the
  limit and one packet.
- The answer to an error is one line of printable ASCII.
"""

import argparse
import random
import re
import sys
import zlib
from collections import Counter
from collections.abc import Sequence

from benchmarks.mutations import cut, mutate
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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for number in range(options.inputs):
        dice = random.Random(f"{options.seed} {number}")
        data = make_input(dice)
        try:
            outcome = read([data])
            parts = read(cut(dice, data))
            size = len(outcome.message) if isinstance(outcome, Request) else 0
            is_right = outcome == parts and size <= _LARGEST
        except Exception as error:  # noqa: BLE001 (that is what we look for)
            sys.stdout.write(f"seed {options.seed}, input {number}: {error!r}: {data[:300]!r}\n")
            return 1
        if not is_right:
            sys.stdout.write(f"seed {options.seed}, input {number}: two outcomes: {data[:300]!r}\n")
            return 1
        outcomes[outcome if isinstance(outcome, str) else "request" if outcome else "nothing"] += 1
    listed = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
    sys.stdout.write(f"{options.inputs} inputs, no finding: {listed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
