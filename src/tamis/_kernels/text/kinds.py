"""Arguments and results of the kernels of text: characters by class, tokens, numbers, rows of counts."""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
Hashes = NDArray[np.uint32]
Indices = NDArray[np.int32]
Floats = NDArray[np.float64]

BREAK, WORD, MARK, UNSPACED, SKIP = range(5)
PAD = 72  # zero bytes after a text, because kernels read up to 64 + 8 bytes at once
GROWTH = 4  # folding lengthens a text by less than this factor (tests/text/test_alphabet.py)
LONG = 255  # marks the key of a token of eight bytes or more
# The multiplier of hashes. It is random in each process, so that nobody can write tokens that collide.
SEED = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
SHARE = 0xD1B54A32D192ED03  # odd, and unlike SEED: the multiplier that assigns keys to shares of work
SPACE = 0x20
REPLACEMENT = 0xFFFD


class Alphabet(NamedTuple):
    """A table of characters.

    A cell holds a class (3 bits), and the folded form's length (5 bits; 0: unchanged) and offset in `pool`.
    """

    small: Bytes  # (128,) the folded form of each ASCII character; 0: a break
    blocks: Indices  # (4352,) the block of cells of each 256 characters
    cells: NDArray[np.uint32]  # (256 * blocks,)
    pool: Bytes  # UTF-8
    pairs: Int64s  # sorted: character << 21 | mark
    composed: Int64s  # the composed character of each pair


class Tokens(NamedTuple):
    """Tokens (words, or n-grams of characters): concatenated UTF-8 texts, followed by `PAD` zero bytes.

    The key of a token of up to 7 bytes has its bytes, the first lowest, and its length in the highest byte.
    The key of a longer token is a hash, whose highest byte is LONG.
    """

    text: Bytes
    starts: Int64s
    lengths: Int64s
    keys: UInt64s


class TokenStream(NamedTuple):
    """The tokens of documents as numbers; tokens are numbered by first occurrence."""

    numbers: Indices
    documents: Int64s  # (n + 1,): numbers[documents[d] : documents[d + 1]] belong to document d
    tokens: Tokens


class Numbering(NamedTuple):
    """The numbers of distinct keys, by first occurrence."""

    numbers: Indices  # of each key
    first_positions: Int64s  # the first position of each number


class Rows(NamedTuple):
    """A sparse matrix of counts; within a row, columns are in the order of first occurrence."""

    indptr: Int64s
    indices: Indices
    counts: Floats
