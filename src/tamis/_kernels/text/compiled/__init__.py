"""The kernels of `text/reference.py`, compiled by Numba: the same functions with the same results to the bit.

Text is read in words of eight bytes: a token of up to seven bytes is one number, and is known by it; a
longer one is known by a hash and its bytes. Every buffer that is read so ends in `PAD` zeros. All kernels
are compiled when the door first imports this package, in some 15 s, and kept on disk.
"""

from tamis._kernels.text.compiled.counts import (
    add_columns,
    add_rows,
    arrange,
    count_numbers,
    make_pair_keys,
    sum_groups,
)
from tamis._kernels.text.compiled.fold import fold_characters, fold_words
from tamis._kernels.text.compiled.hashes import hash_tokens
from tamis._kernels.text.compiled.numbers import find_keys, find_tokens, index_keys, join_tokens, number_keys
from tamis._kernels.text.compiled.tables import make_keys
from tamis._kernels.text.compiled.tokens import number_tokens, read_grams, read_words

__all__ = [
    "add_columns",
    "add_rows",
    "arrange",
    "count_numbers",
    "find_keys",
    "find_tokens",
    "fold_characters",
    "fold_words",
    "hash_tokens",
    "index_keys",
    "join_tokens",
    "make_keys",
    "make_pair_keys",
    "number_keys",
    "number_tokens",
    "read_grams",
    "read_words",
    "sum_groups",
]
