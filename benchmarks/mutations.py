"""The common parts of the fuzzers of codecs: changing bytes, cutting them into packets, and the loop."""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence


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


def run_fuzzer(description: str | None, check: Callable[[random.Random], str], inputs: int = 200_000) -> int:
    """Check `--inputs` random inputs; print the number of each outcome, or the first finding.

    `check` draws an input and returns the name of its outcome; an exception is a finding. Returns the exit
    status, which is 1 if there is a finding.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=inputs)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for number in range(options.inputs):
        try:
            outcomes[check(random.Random(f"{options.seed} {number}"))] += 1
        except Exception as error:  # noqa: BLE001 (that is what we look for)
            sys.stdout.write(f"seed {options.seed}, input {number}: {error!r}\n")
            return 1
    listed = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
    sys.stdout.write(f"{options.inputs} inputs, no finding: {listed}\n")
    return 0
