"""The kernels of `text/reference.py`, compiled by Numba: same functions, same bits (`tests/kernels`).

Text is read in words of eight bytes: a token of up to seven bytes is one number, and is known by it; a
longer one is known by a hash and its bytes. Every buffer that is read so ends in `PAD` zeros. All kernels
are compiled when the door first imports this package, in some 15 s, and kept on disk.
"""

from tamis._kernels.text.compiled.counts import add, arrange, condense, move, pair, tally
from tamis._kernels.text.compiled.fold import fold_characters, fold_words
from tamis._kernels.text.compiled.hashes import hashes
from tamis._kernels.text.compiled.numbers import find, find_keys, identify_keys, index, join
from tamis._kernels.text.compiled.tables import keys
from tamis._kernels.text.compiled.tokens import read_grams, read_words, unite

__all__ = [
    "add",
    "arrange",
    "condense",
    "find",
    "find_keys",
    "fold_characters",
    "fold_words",
    "hashes",
    "identify_keys",
    "index",
    "join",
    "keys",
    "move",
    "pair",
    "read_grams",
    "read_words",
    "tally",
    "unite",
]
