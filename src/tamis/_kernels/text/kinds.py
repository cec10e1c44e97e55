"""Types of arguments and results of the kernels of text: alphabets, tokens, numbers and rows of counts."""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
Hashes = NDArray[np.uint32]  # MurmurHash3 of tokens (`hash_tokens`), for the columns of hashed texts
Indices = NDArray[np.int32]
Floats = NDArray[np.float64]

# Classes of characters.
BREAK = 0  # ends a token; a zero byte in folded text
WORD = 1  # belongs to a word
MARK = 2  # belongs to the character before it; composed with it where Unicode has such a character
UNSPACED = 3  # belongs to a script without spaces: tokens are its overlapping pairs, or a single character
SKIP = 4  # is ignored (soft hyphens, zero-width joiners, marks of direction)

PAD = 72  # zero bytes after a text, because kernels read up to 64 + 8 bytes beyond its end
GROWTH = 4  # a folded text has fewer bytes than the text times this (tests/text/test_alphabet.py)
LONG = 255  # the highest byte of the key of a token of eight bytes or more: see `Tokens`
# The multiplier of hashes, such as the keys of long tokens. It is random in each process, so that nobody can
# choose tokens that collide; so these keys differ from process to process.
SEED = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
# If there are many keys, several threads number them, each a share: key * SHARE_MULTIPLIER decides which
# (`share_of`). It is odd and differs from SEED, so that keys of one share collide no more often than others.
SHARE_MULTIPLIER = 0xD1B54A32D192ED03
SPACE = 0x20
REPLACEMENT = 0xFFFD  # Unicode's replacement character, for bytes that are not UTF-8


class Alphabet(NamedTuple):
    """The class and the folded form (such as lower case) of each Unicode character, as a two-level table.

    The cell of the character c is cells[256 * blocks[c >> 8] + (c & 255)]. It holds, from the lowest bit: a
    class (3 bits), the number of bytes of the folded form (5 bits; 0 if the character is unchanged) and their
    offset in `pool`.
    """

    ascii: Bytes  # (128,): the folded form of each ASCII character; 0 for one that is not of class WORD
    blocks: Indices  # (4352,): for each 256 successive characters, the block that has their cells
    cells: NDArray[np.uint32]  # (256 * number of blocks,)
    pool: Bytes  # the folded forms, in UTF-8
    pairs: Int64s  # pairs that Unicode composes, sorted: character << 21 | mark
    composed: Int64s  # the composed character of each pair


class Tokens(NamedTuple):
    """Tokens (words, or n-grams of characters): concatenated UTF-8 texts, followed by `PAD` zero bytes.

    The key of a token of up to 7 bytes has its bytes, the first lowest, and its length in the highest byte.
    The key of a longer token is a hash of 64 bits (not that of `Hashes`), whose highest byte is LONG.
    """

    text: Bytes
    starts: Int64s
    lengths: Int64s
    keys: UInt64s


class TokenStream(NamedTuple):
    """The tokens of documents as numbers; distinct tokens are numbered by first occurrence."""

    numbers: Indices  # the number of each token of all documents
    documents: Int64s  # (n + 1,): numbers[documents[d] : documents[d + 1]] belong to document d
    tokens: Tokens  # the distinct tokens


class Numbering(NamedTuple):
    """The numbers that keys were given, equal keys the same number."""

    numbers: Indices  # (n,): the number of each key
    first_positions: Int64s  # (distinct keys,): the position of the first key with each number


class Rows(NamedTuple):
    """A sparse matrix of counts (CSR); columns are in the order that the function which made it states."""

    indptr: Int64s  # (rows + 1,)
    indices: Indices  # the column of each count
    counts: Floats
