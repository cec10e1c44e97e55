"""Arguments and results of the kernels of text: characters by class, tokens, numbers, rows of counts."""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.int64]
Digits = NDArray[np.uint64]
Hashes = NDArray[np.uint32]
Indices = NDArray[np.int32]
Floats = NDArray[np.float64]

BREAK, WORD, MARK, UNSPACED, SKIP = range(5)
PAD = 72  # zeros after what is folded: it is read 64 bytes at a time, and 8 from any place
GROWTH = 4  # bytes that a byte becomes at most; it is 3 as yet (tests/text/test_alphabet.py)
LONG = 255  # marks the key of a token of eight bytes or more
# Scatters keys; each process has its own: nobody can write a text whose tokens all fall into one place.
SEED = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
SHARE = 0xD1B54A32D192ED03  # odd, and unlike the other: what share of work a key belongs to
SPACE = 0x20
REPLACEMENT = 0xFFFD


class Alphabet(NamedTuple):
    """Characters. A cell: class (3 bits), bytes folded to (5; 0: itself), their place in `pool`."""

    small: Bytes  # (128,) what an ASCII character is folded to; 0: a break
    blocks: Indices  # (4352,) the block of cells of each 256 characters
    cells: NDArray[np.uint32]  # (256 * blocks,)
    pool: Bytes  # UTF-8
    pairs: Words  # sorted: character << 21 | mark
    composed: Words  # what each pair is together


class Stems(NamedTuple):
    """Distinct tokens, back to back, with zeros after them.

    The key of one of up to 7 bytes is these, the first lowest, and how many in the highest.
    """

    text: Bytes
    starts: Words
    lengths: Words
    keys: Digits


class TokenStream(NamedTuple):
    """The tokens of documents by number, in the order in which they first came."""

    numbers: Indices
    documents: Words  # (n + 1,) the first token of each document
    stems: Stems


class Numbering(NamedTuple):
    """Distinct keys, numbered in the order in which they first came."""

    numbers: Indices  # of each key
    first: Words  # where each number first came


class Rows(NamedTuple):
    """A sparse matrix of counts; within a row, columns are in the order in which they first came."""

    indptr: Words
    indices: Indices
    counts: Floats
