"""See core/mail.cpp."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

# Memory.
def keep_freed_memory() -> None: ...
def reserve_large_pages() -> None: ...

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
    text: str, tags: int, as_code_points: bool = False
) -> tuple[str, str, tuple[str, ...], tuple[str, ...], tuple[str, ...], str]: ...
def read_body(message: object, version: int, /) -> tuple[bytes, str, list[str], list[str], int]: ...
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
    head: bytes,
    headers: bytes,
    words: bytes,
    marks: bytes,
    relations: bytes,
    patterns: bytes,
    subject: bytes,
    version: int,
    /,
) -> bytes: ...

# Whole messages.
def read_tokens(message: Any, version: int, /) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes]: ...
def split_mbox(
    buffer: bytes, begin: int, largest: int, is_at_end: bool, /
) -> list[tuple[int, int, bool, int]]: ...

class MessageBatch:
    def __len__(self) -> int: ...
    def digests(self) -> list[bytes]: ...
    def canonical(self, index: int, /) -> bytes: ...
    def features(self, index: int, /) -> bytes: ...
    def count_features(self, places: Sequence[int], /) -> list[int]: ...
    def set_features(self, index: int, packed: bytes, /) -> None: ...

class CanonicalForm:
    def __init__(self, volatile_fields: Sequence[str], /) -> None: ...
    def make(self, raw: bytes, /) -> bytes: ...
    def open(self, messages: list[bytes], /) -> MessageBatch: ...
    def identify(self, messages: list[bytes], /) -> tuple[list[bytes], list[bytes]]: ...

class MessageReader:
    def __init__(self, aliases: Mapping[str, str], codecs: Set[str], /) -> None: ...
    def read_features(
        self, messages: list[bytes], version: int, /
    ) -> list[tuple[bytes, int | None] | None]: ...
    def read_batch(
        self, batch: MessageBatch, places: list[int], version: int, /
    ) -> list[int | Literal[True] | None]: ...
    def read_batch_headings(
        self, messages: list[bytes], batch: MessageBatch, form: CanonicalForm, /
    ) -> list[tuple[str, str] | None]: ...
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
    rows: NDArray[np.int32] | NDArray[np.int64],
    groups: NDArray[np.int32],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    views: NDArray[np.uint8],
    weights: NDArray[np.float64],
    is_known: NDArray[np.uint8],
    sums: NDArray[np.float64],
    sizes: NDArray[np.int64],
    known: NDArray[np.int64],
) -> None: ...
def group_counts(
    views: NDArray[np.uint8],
    counts: NDArray[np.int64],
    groups: NDArray[np.int32],
    firsts: NDArray[np.int64],
) -> int: ...
def sum_coefficients(
    rows: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    views: NDArray[np.uint8],
    values: NDArray[np.float64],
    n_views: int,
    sums: NDArray[np.float64],
) -> None: ...
def add_counts(
    stored: NDArray[np.uint64],
    stored_counts: NDArray[np.signedinteger],
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None: ...
def find_widths(counts: NDArray[np.int64], widths: NDArray[np.uint8]) -> None: ...
def encode_entries(
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    widths: NDArray[np.uint8],
    width: int,
    shift: int,
    data: NDArray[np.uint8],
    shelves: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int: ...
def compress_bytes(bytes: bytes, /) -> bytes: ...

class ScoreTable:
    def __init__(self, labels: int, view_bits: int, /) -> None: ...
    def add_run(
        self,
        rows: list[tuple[int, bytes]],
        start: int,
        bits: int,
        width: int,
        labels: int,
        entries: int,
        /,
    ) -> None: ...
    def add_coefficients(self, rows: list[tuple[int, bytes]], bits: int, /) -> None: ...
    def finish(self) -> None: ...
    def compare(
        self,
        left: Sequence[tuple[int, float]],
        right: Sequence[tuple[int, float]],
        views: Sequence[Sequence[float]],
        acquaintance: float,
        /,
    ) -> None: ...
    def score(self, batch: MessageBatch, /) -> list[list[float]]: ...
    def __len__(self) -> int: ...

class MergedFeatures:
    def __init__(self, batch: MessageBatch, places: Sequence[int], /) -> None: ...
    def __len__(self) -> int: ...
    def count_keys(self) -> int: ...
    def count_features(self) -> int: ...
    def pack(self, message: int, /) -> bytes: ...
    def encode(self, low_bytes: int, /) -> tuple[bytes, bytes]: ...
    def write_counts(self, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None: ...

class FeatureSum:
    def __init__(self, labels: int, ranges: int, /) -> None: ...
    def add(self, part: MergedFeatures, change: Sequence[tuple[int, int]], /) -> None: ...
    def sum_range(self, number: int, /) -> None: ...
    def __len__(self) -> int: ...
    def write_range(self, number: int, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None: ...
    def count_features(self, messages: Sequence[tuple[int, int]], /) -> list[int]: ...
    def gather(self, messages: Sequence[tuple[int, int]], rows: NDArray[np.int32]) -> None: ...

class FitMatrix:
    @overload
    def __init__(
        self,
        starts: NDArray[np.int64],
        columns: NDArray[np.int32],
        values: NDArray[np.float64],
        slots: NDArray[np.uint8],
    ) -> None: ...
    @overload
    def __init__(
        self,
        rows: NDArray[np.int32] | NDArray[np.int64],
        starts: NDArray[np.int64],
        views: NDArray[np.uint8],
        slots_of_views: NDArray[np.uint8],
        is_used: NDArray[np.uint8],
    ) -> None: ...
    def __len__(self) -> int: ...
    def count_columns(self) -> int: ...
    def write_starts(self, starts: NDArray[np.int64]) -> None: ...
    def write_entries(self, columns: NDArray[np.int32], values: NDArray[np.float64]) -> None: ...
    def multiply(self, vector: NDArray[np.float64], sums: NDArray[np.float64]) -> None: ...
    def multiply_transposed(
        self,
        vector: NDArray[np.float64],
        squared_vector: NDArray[np.float64],
        threads: int,
        sums: NDArray[np.float64],
        squares: NDArray[np.float64],
    ) -> None: ...
    def solve(
        self,
        curvature: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        gradient: NDArray[np.float64],
        precision: float,
        forcing: float,
        products: int,
        threads: int,
        step: NDArray[np.float64],
    ) -> None: ...
