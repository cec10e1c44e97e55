"""The format of stored features: a bundle holds the feature sets of up to 256 messages, as bytes.

Messages share most of their features, so a bundle lists each distinct key once, in ascending order, and each
message as ascending indices into that list. On 18,365 messages of two corpora, that takes 2.8 bytes per
feature of a message, and 2.5 where the gaps are compressed; a separate set per message takes 5.2. With 128
messages it is 2.6, and with 512 it is 2.5.

    4 bytes         number of messages
    4 bytes         number of distinct keys
    1 byte          bytes of the low part of a key: 3, 4 or 5; plus 16 if the gaps are compressed by zlib
    4 per message   number of its features
    low parts       of all keys
    high parts      of all keys, in unary: a bit is set at (high part + number of the key)
    1 per feature   of a message: the gap to its next lower index; 255 for a longer gap
    4 per long gap

Numbers are little-endian, and the lowest bit of a byte is the first. This module reads one message in plain
Python, `bundle_arrays` reads and writes bundles in NumPy.
"""

import struct
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import accumulate, pairwise

from tamis.compiled import core
from tamis_mail.features import KEY_BITS
from tamis_mail.records import record
from tamis_mail.schema import MAX_BUNDLE_FEATURES, MAX_BUNDLE_MESSAGES
from tamis_mail.store.database import StoreError

LOW_BYTES = (3, 4, 5)
LONG_GAP = 255
HEAD = struct.Struct("<IIB")
_COMPRESSED = 16  # added to the bytes of the low part
_MAX_GAP_BYTES = 5 * MAX_BUNDLE_FEATURES


@record(frozen=True, slots=True)
class Layout:
    """Where the parts of a bundle begin; each ends where the next begins."""

    messages: int
    keys: int
    low_bytes: int
    lows: int
    highs: int
    gaps: int
    long_gaps: int

    @property
    def high_bits(self) -> int:
        """The number of bits of all high parts in unary."""
        return self.keys + (1 << KEY_BITS - 8 * self.low_bytes)


def divide(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split messages with these feature counts into consecutive ranges [begin, end) of one bundle each."""
    begin = total = 0
    for number, size in enumerate(sizes):
        if number > begin and (number - begin >= MAX_BUNDLE_MESSAGES or total + size > MAX_BUNDLE_FEATURES):
            yield begin, number
            begin, total = number, 0
        total += size
    if len(sizes) > begin:
        yield begin, len(sizes)


def choose_low_bytes(keys: int) -> int:
    """Choose the bytes of the low part of a key so that a bundle of so many keys is short."""
    return min(LOW_BYTES, key=lambda size: 8 * size * keys + (1 << KEY_BITS - 8 * size))


def write_bundle(messages: int, keys: int, low_bytes: int, parts: bytes, gaps: bytes) -> bytes:
    """Write a bundle, given its parts before the gaps, and the gaps, which are compressed."""
    # Gaps seldom repeat a sequence. Not looking for one takes half the time; bundles have 3 % more bytes.
    packed = _compress_by_zlib(gaps) if core is None else core.mail.compress_bytes(gaps)
    return HEAD.pack(messages, keys, low_bytes + _COMPRESSED) + parts + packed


def _compress_by_zlib(gaps: bytes) -> bytes:
    zlib = import_module("zlib")
    machine = zlib.compressobj(1, zlib.DEFLATED, strategy=zlib.Z_HUFFMAN_ONLY)
    packed: bytes = machine.compress(gaps) + machine.flush()
    return packed


def expand_gaps(data: object) -> bytes:
    """Return a bundle whose gaps are not compressed."""
    if not isinstance(data, bytes) or len(data) < HEAD.size:
        raise bundle_error("a bundle is cut off")
    messages, keys, low_bytes = HEAD.unpack_from(data)
    low_bytes -= _COMPRESSED
    if low_bytes not in LOW_BYTES:
        return data
    gaps = _find_gaps(messages, keys, low_bytes)
    zlib = import_module("zlib")
    machine = zlib.decompressobj()
    try:
        tail: bytes = machine.decompress(data[gaps:], _MAX_GAP_BYTES)
    except zlib.error as error:
        raise bundle_error("its gaps cannot be decompressed") from error
    if not machine.eof or machine.unused_data:
        raise bundle_error("a bundle has another length than its parts")
    return HEAD.pack(messages, keys, low_bytes) + data[HEAD.size : gaps] + tail


def _find_gaps(messages: int, keys: int, low_bytes: int) -> int:
    """Return the place where the gaps of a bundle begin."""
    highs = HEAD.size + 4 * messages + low_bytes * keys
    return highs + (keys + (1 << KEY_BITS - 8 * low_bytes) + 7) // 8


def read_layout(data: bytes) -> Layout:
    """Read the layout of a bundle whose gaps are expanded.

    Raise StoreError if the lengths of its parts disagree with its length.
    """
    messages, keys, low_bytes = HEAD.unpack_from(data)
    if low_bytes not in LOW_BYTES:
        raise bundle_error(f"the low part of a key has {low_bytes} bytes, expected 3, 4 or 5")
    if messages > MAX_BUNDLE_MESSAGES:
        raise bundle_error(f"a bundle has {messages} messages, expected at most {MAX_BUNDLE_MESSAGES}")
    lows = HEAD.size + 4 * messages
    highs = lows + low_bytes * keys
    gaps = _find_gaps(messages, keys, low_bytes)
    if gaps > len(data):
        raise bundle_error("a bundle is cut off")
    features = sum(struct.unpack_from(f"<{messages}I", data, HEAD.size))
    if keys > features or features > MAX_BUNDLE_FEATURES:
        raise bundle_error(f"a bundle has {keys} keys and {features} features of messages")
    long_gaps = gaps + features
    if long_gaps > len(data) or len(data) - long_gaps != 4 * data.count(LONG_GAP, gaps, long_gaps):
        raise bundle_error("a bundle has another length than its parts")
    return Layout(messages, keys, low_bytes, lows, highs, gaps, long_gaps)


def read_message(stored: object, place: int) -> list[int]:
    """Return the keys of the features of one message of a bundle, in ascending order."""
    data = expand_gaps(stored)
    layout = read_layout(data)
    refuse_place_outside_bundle(place, layout.messages)
    sizes = struct.unpack_from(f"<{layout.messages}I", data, HEAD.size)
    begin = layout.gaps + sum(sizes[:place])
    end = begin + sizes[place]
    first_long = layout.long_gaps + 4 * data.count(LONG_GAP, layout.gaps, begin)
    n_long = data.count(LONG_GAP, begin, end)
    long_gaps = iter(struct.unpack_from(f"<{n_long}I", data, first_long))
    steps = (1 + (next(long_gaps) if gap == LONG_GAP else gap) for gap in data[begin:end])
    indices = [index - 1 for index in accumulate(steps)]
    if indices and indices[-1] >= layout.keys:
        raise bundle_error("a message refers to more keys than there are")
    bit_indices = _find_ones(data[layout.highs : layout.gaps])
    if len(bit_indices) != layout.keys or (bit_indices and bit_indices[-1] >= layout.high_bits):
        raise bundle_error("the high parts of keys are not one per key")
    low_bytes, lows = layout.low_bytes, layout.lows
    keys = []
    for index in indices:
        low = int.from_bytes(data[lows + low_bytes * index : lows + low_bytes * (index + 1)], "little")
        keys.append(bit_indices[index] - index << 8 * low_bytes | low)
    if any(left >= right for left, right in pairwise(keys)):
        raise bundle_error("the keys of a message are not in ascending order")
    return keys


def refuse_place_outside_bundle(place: object, messages: int) -> None:
    """Raise StoreError unless the place is from 0 to `messages` − 1, the places of a bundle's messages."""
    if not isinstance(place, int) or not 0 <= place < messages:
        raise bundle_error(f"a message has the place {place!r:.40} in a bundle of {messages} messages")


def bundle_error(fault: str) -> StoreError:
    """Make the error for invalid stored features."""
    return StoreError(
        f"the store's features of messages are damaged ({fault}): restore a backup (tamis store restore)"
    )


def _find_ones(data: bytes) -> list[int]:
    """Return the numbers of the bits that are set, the lowest bit of a byte first."""
    digits = bin(int.from_bytes(data, "little"))[:1:-1]
    return [number for number, digit in enumerate(digits) if digit == "1"]
