"""What the fuzzers of the codecs do to a stream of bytes: change it, and cut it into packets."""

import random
from collections.abc import Sequence


def mutate(dice: random.Random, data: bytes, pieces: Sequence[bytes], reach: int) -> bytes:
    """Insert a piece, remove some bytes, replace a byte or cut off the end; up to five times, or never.

    Only the first `reach` bytes are changed: a codec is most interesting there.
    """
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
        place = dice.randrange(min(len(data), reach) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            data = data[:place] + dice.choice(pieces) + data[place:]
        elif kind == 1:
            data = data[:place] + data[place + dice.randrange(1, 20) :]
        elif kind == 2:
            data = data[:place] + dice.randbytes(1) + data[place + 1 :]
        else:
            data = data[:place]
    return data


def cut(dice: random.Random, data: bytes) -> list[bytes]:
    """Cut bytes into packets."""
    places = sorted(dice.randrange(len(data) + 1) for _ in range(dice.randrange(6)))
    return [data[start:stop] for start, stop in zip((0, *places), (*places, len(data)), strict=True)]
