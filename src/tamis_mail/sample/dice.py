"""Seeded random choices, the same on every machine and under every Python.

Of `random.Random`, only `random()` and the seeding are guaranteed to be stable across versions of Python.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Dice:
    """Random choices from a seed. Each message has a seed, so that a new text does not change the others."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def draw_below(self, bound: int) -> int:
        """Draw an integer from 0 to bound − 1."""
        return int(self._random() * bound)

    def draw_between(self, low: int, high: int) -> int:
        """Draw an integer from `low` to `high`, including both."""
        return low + self.draw_below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items; one that is repeated is drawn more often."""
        return items[self.draw_below(len(items))]

    def pick_several(self, items: Sequence[T], count: int) -> list[T]:
        """Draw `count` items, or all if there are fewer, each at most once."""
        pool = list(items)
        return [pool.pop(self.draw_below(len(pool))) for _ in range(min(count, len(pool)))]

    def string(self, length: int, alphabet: str = _LETTERS) -> str:
        """Draw characters of an alphabet, by default the lower-case letters."""
        draw, size = self._random, len(alphabet)
        return "".join([alphabet[int(draw() * size)] for _ in range(length)])

    def digits(self, length: int) -> str:
        return self.string(length, "0123456789")

    def hexadecimal(self, length: int) -> str:
        return self.string(length, "0123456789abcdef")

    def token(self, length: int) -> str:
        """Draw letters of both cases and digits, as in identifiers."""
        return self.string(length, _LETTERS + _LETTERS.upper() + "0123456789")

    def bytes(self, length: int) -> bytes:
        return bytes(self.draw_below(256) for _ in range(length))
