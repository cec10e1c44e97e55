"""See core/mail.cpp."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The fields of a header block.
def read_header_block(
    data: bytes, start: int, stop: int, room: int, longest_name: int, longest_value: int
) -> list[tuple[str, str]] | None: ...
def find_encoded_fields(fields: list[tuple[str, str]]) -> list[int]: ...

# Words.
def fold_text(text: str, /) -> tuple[str, tuple[str, ...]]: ...
def lower(text: str, /) -> str: ...
def separate_words(text: str, /) -> bytes: ...
def split_words(text: str, limit: int, /) -> list[str]: ...
def find_hosts(name: str, /) -> list[str]: ...
def find_networks(address: str, /) -> list[str]: ...

# Pages, styles, entities and bodies.
def read_page(
    text: str, tags: int, /
) -> tuple[str, str, tuple[str, ...], tuple[str, ...], tuple[str, ...], str]: ...
def read_body(message: object, /) -> tuple[bytes, str, list[str], list[str], int]: ...
def decode_entities(text: str, /) -> tuple[str, bool]: ...
def find_effect(
    attributes: str, /
) -> tuple[
    bool,
    bool | None,
    bool | None,
    bool | None,
    tuple[int, int, int] | None,
    tuple[int, int, int] | None,
    bool,
]: ...
def remove_style_sheet(text: str, /) -> str: ...

# Headers, relations, the head, and features.
def read_head(raw: bytes, /) -> bytes: ...
def read_headers(headers: Sequence[tuple[str, str]], /) -> bytes: ...
def read_relations(
    headers: Sequence[tuple[str, str]],
    raw: bytes,
    parts: Sequence[Any],
    links: Sequence[str],
    images: Sequence[str],
    hidden_words: int,
    /,
) -> bytes: ...
def find_domain(host: str, /) -> str: ...
def hash_tokens(
    head: bytes, headers: bytes, words: bytes, marks: bytes, relations: bytes, version: int, /
) -> bytes: ...

# Whole messages.
def read_tokens(message: Any, /) -> tuple[bytes, bytes, bytes, bytes, bytes]: ...

class CanonicalForm:
    def __init__(self, volatile_fields: Sequence[str], /) -> None: ...
    def make(self, raw: bytes, /) -> bytes: ...
    def identify(self, messages: list[bytes], /) -> tuple[list[bytes], list[bytes]]: ...

class MessageReader:
    def __init__(self, aliases: Mapping[str, str], codecs: Set[str], /) -> None: ...
    def read_features(self, messages: list[bytes], /) -> list[tuple[bytes, int | None] | None]: ...
    def read_headings(
        self, messages: list[bytes], canonical: list[bytes], form: CanonicalForm, /
    ) -> list[tuple[str, str] | None]: ...

# The features of many messages.
def merge_lists(
    keys: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    distinct: NDArray[np.uint64],
    indices: NDArray[np.int64],
) -> int: ...
def find_keys(list: NDArray[np.uint64], keys: NDArray[np.uint64], places: NDArray[np.int64]) -> None: ...
def sum_tables(
    keys: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    counts: NDArray[np.int64],
    total_keys: NDArray[np.uint64],
    total_counts: NDArray[np.int64],
) -> int: ...
def decode_bundle(
    sizes: NDArray[np.uint8],
    lows: NDArray[np.uint8],
    highs: NDArray[np.uint8],
    gaps: NDArray[np.uint8],
    long_gaps: NDArray[np.uint8],
    low_bytes: int,
    keys: NDArray[np.uint64],
    indices: NDArray[np.int64],
) -> int: ...
def encode_bundle(
    keys: NDArray[np.uint64], starts: NDArray[np.int64], indices: NDArray[np.int64], low_bytes: int
) -> tuple[bytes, bytes]: ...
def sum_views(
    rows: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    views: NDArray[np.int64],
    weights: NDArray[np.float64],
    is_known: NDArray[np.uint8],
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
    known: NDArray[np.int64],
) -> None: ...
def group_counts(
    views: NDArray[np.int64],
    counts: NDArray[np.int64],
    groups: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> int: ...
def sum_coefficients(
    rows: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    views: NDArray[np.int64],
    values: NDArray[np.float64],
    n_views: int,
    sums: NDArray[np.float64],
) -> None: ...
def find_repeated(
    rows: NDArray[np.int64],
    views: NDArray[np.int64],
    is_in_layer: NDArray[np.uint8],
    is_used: NDArray[np.uint8],
) -> int: ...
def make_design(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    views: NDArray[np.int64],
    is_in_layer: NDArray[np.uint8],
    is_used: NDArray[np.uint8],
    entry_starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
) -> None: ...
def add_counts(
    stored: NDArray[np.uint64],
    stored_counts: NDArray[np.signedinteger],
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None: ...
def multiply_rows(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    vector: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None: ...
def multiply_columns(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    vector: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None: ...
