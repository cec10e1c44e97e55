"""See core/text.cpp. Arrays are in C order and of the types that are named; the last ones are written to."""

import numpy as np
from numpy.typing import NDArray

_Bytes = NDArray[np.uint8]
_Int32s = NDArray[np.int32]
_Int64s = NDArray[np.int64]
_UInt32s = NDArray[np.uint32]
_UInt64s = NDArray[np.uint64]
_Floats = NDArray[np.float64]

class TokenTable:
    def __init__(self, size: int, seed: int) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def text_size(self) -> int: ...
    def read_words(
        self,
        folded: _Bytes,
        offsets: _Int64s,
        shortest: int,
        blocks: _Int32s,
        cells: _UInt32s,
        numbers: _Int32s,
        documents: _Int64s,
    ) -> int: ...
    def read_grams(
        self,
        folded: _Bytes,
        offsets: _Int64s,
        least: int,
        most: int,
        within: bool,
        numbers: _Int32s,
        documents: _Int64s,
    ) -> int: ...
    def number_tokens(
        self, text: _Bytes, starts: _Int64s, lengths: _Int64s, keys: _UInt64s, numbers: _Int32s
    ) -> None: ...
    def write(self, text: _Bytes, starts: _Int64s, lengths: _Int64s, keys: _UInt64s) -> None: ...

def fold_words(
    text: _Bytes,
    offsets: _Int64s,
    small: _Bytes,
    blocks: _Int32s,
    cells: _UInt32s,
    pool: _Bytes,
    pairs: _Int64s,
    composed: _Int64s,
    out: _Bytes,
    places: _Int64s,
) -> int: ...
def fold_characters(
    text: _Bytes,
    offsets: _Int64s,
    blocks: _Int32s,
    cells: _UInt32s,
    pool: _Bytes,
    pairs: _Int64s,
    composed: _Int64s,
    within: bool,
    out: _Bytes,
    places: _Int64s,
) -> int: ...
def make_keys(text: _Bytes, starts: _Int64s, lengths: _Int64s, seed: int, keys: _UInt64s) -> None: ...
def number_keys(
    keys: _UInt64s,
    share: int,
    shares: int,
    share_multiplier: int,
    seed: int,
    numbers: _Int32s,
    first_positions: _Int64s,
) -> int: ...
def index_keys(keys: _UInt64s, seed: int, table: _UInt64s) -> None: ...
def find_keys(table: _UInt64s, seed: int, keys: _UInt64s, numbers: _Int32s) -> None: ...
def find_tokens(
    table: _UInt64s,
    seed: int,
    text: _Bytes,
    starts: _Int64s,
    lengths: _Int64s,
    other_text: _Bytes,
    other_starts: _Int64s,
    other_lengths: _Int64s,
    keys: _UInt64s,
    numbers: _Int32s,
) -> None: ...
def join_tokens(
    text: _Bytes,
    starts: _Int64s,
    lengths: _Int64s,
    numbers: _Int32s,
    bounds: _Int64s,
    separator: _Bytes,
    places: _Int64s,
    out: _Bytes,
) -> None: ...
def make_pair_keys(
    left: _Int32s,
    left_documents: _Int64s,
    right: _Int32s,
    right_documents: _Int64s,
    shift: int,
    keys: _UInt64s,
    documents: _Int64s,
) -> int: ...
def count_numbers(
    numbers: _Int32s, documents: _Int64s, n_numbers: int, indptr: _Int64s, indices: _Int32s, counts: _Floats
) -> int: ...
def sum_groups(
    indptr: _Int64s,
    indices: _Int32s,
    counts: _Floats,
    group: _Int64s,
    n_numbers: int,
    ends: _Int64s,
    numbers: _Int32s,
    values: _Floats,
) -> int: ...
def arrange(
    indptr: _Int64s,
    indices: _Int32s,
    counts: _Floats,
    columns: _Int32s,
    signs: _Floats,
    ends: _Int64s,
    positions: _Int32s,
    values: _Floats,
) -> int: ...
def add_columns(sums: _Int64s, numbers: _Int64s, table: _Int64s) -> None: ...
def add_rows(
    indptr: _Int64s, indices: _Int32s, counts: _Floats, columns: _Int32s, group: _Int64s, table: _Int64s
) -> None: ...
def hash_tokens(text: _Bytes, starts: _Int64s, lengths: _Int64s, seed: int, hashes: _UInt32s) -> None: ...
