"""The format of stored features: a bundle holds the feature sets of up to 256 messages, as bytes.

Messages share most of their features, so a bundle lists each distinct key once, in ascending order, and each
message as ascending indices into that list. For 18,365 messages, that takes 2.8 bytes per feature of a
message, and 2.5 if the gaps are compressed; a separate set per message takes 5.2. With compressed gaps, and
at most 128 messages per bundle, it would be 2.6; with 512, 2.5.

    4 bytes         number of messages
    4 bytes         number of distinct keys
    1 byte          number of bytes of the low part of a key: 3, 4 or 5; plus 16 if zlib compresses the gaps
    4 per message   number of its features
    low parts       the lowest bytes of all keys
    high parts      the other bits of all keys, in unary: bit h + i is set if key number i has the high part h
    1 per feature   of a message, its gap: how many indices lie between its index and the next lower one of
                    the message, or below the first; 255 if there are 255 or more (a long gap)
    4 per long gap  the number of these indices

Numbers are little-endian, and the lowest bit of a byte is the first. This module reads one message in plain
Python; `bundle_arrays` reads and writes bundles in NumPy.
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
HEAD = struct.Struct("<IIB")  # the first three numbers
_COMPRESSED = 16  # added to the number of bytes of the low part if the gaps are compressed
_MAX_GAP_BYTES = 5 * MAX_BUNDLE_FEATURES


@record(frozen=True, slots=True)
class Layout:
    """The numbers in the head of a bundle, and the offsets of its other parts."""

    messages: int
    keys: int
    low_bytes: int  # of the low part of a key
    # The offsets of the low parts, the high parts, the gaps of one byte, and the long gaps.
    lows: int
    highs: int
    gaps: int
    long_gaps: int

    @property
    def high_bits(self) -> int:
        """The number of bits of all high parts in unary."""
        return self.keys + (1 << KEY_BITS - 8 * self.low_bytes)


def divide(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Divide messages with these numbers of features into ranges [begin, end), each for one bundle.

    A message with more than MAX_BUNDLE_FEATURES has a range of its own.
    """
    begin = total = 0
    for number, size in enumerate(sizes):
        if number > begin and (number - begin >= MAX_BUNDLE_MESSAGES or total + size > MAX_BUNDLE_FEATURES):
            yield begin, number
            begin, total = number, 0
        total += size
    if len(sizes) > begin:
        yield begin, len(sizes)


def choose_low_bytes(keys: int) -> int:
    """Choose the number of bytes of the low part with which a bundle of this number of keys is shortest."""
    return min(LOW_BYTES, key=lambda size: 8 * size * keys + (1 << KEY_BITS - 8 * size))


def write_bundle(messages: int, keys: int, low_bytes: int, parts: bytes, gaps: bytes) -> bytes:
    """Return the bytes of a bundle; `parts` are those between head and gaps. The gaps are compressed here."""
    # Only Huffman codes are used: a search for repeated sequences, which are rare in gaps, would take twice
    # the time and make bundles 3 % shorter.
    packed = _compress_by_zlib(gaps) if core is None else core.mail.compress_bytes(gaps)
    return HEAD.pack(messages, keys, low_bytes + _COMPRESSED) + parts + packed


def _compress_by_zlib(gaps: bytes) -> bytes:
    zlib = import_module("zlib")
    compressor = zlib.compressobj(1, zlib.DEFLATED, strategy=zlib.Z_HUFFMAN_ONLY)
    packed: bytes = compressor.compress(gaps) + compressor.flush()
    return packed


def decompress_gaps(data: object) -> bytes:
    """Return a bundle with decompressed gaps; raise StoreError if they, or their length, are invalid."""
    if not isinstance(data, bytes) or len(data) < HEAD.size:
        raise bundle_error("a bundle is cut off")
    messages, keys, low_bytes = HEAD.unpack_from(data)
    low_bytes -= _COMPRESSED
    if low_bytes not in LOW_BYTES:
        return data
    begin = _find_gaps(messages, keys, low_bytes)
    zlib = import_module("zlib")
    decompressor = zlib.decompressobj()
    try:
        gaps: bytes = decompressor.decompress(data[begin:], _MAX_GAP_BYTES)
    except zlib.error as error:
        raise bundle_error("its gaps cannot be decompressed") from error
    if not decompressor.eof or decompressor.unused_data:
        raise bundle_error("the length of a bundle differs from that of its parts")
    return HEAD.pack(messages, keys, low_bytes) + data[HEAD.size : begin] + gaps


def _find_gaps(messages: int, keys: int, low_bytes: int) -> int:
    """Return the offset at which the gaps of a bundle begin."""
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
        raise bundle_error("the length of a bundle differs from that of its parts")
    return Layout(messages, keys, low_bytes, lows, highs, gaps, long_gaps)


def read_message(stored: object, place: int) -> list[int]:
    """Return the keys of the message at a place of a bundle, in ascending order."""
    data = decompress_gaps(stored)
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
    bit_indices = _list_set_bits(data[layout.highs : layout.gaps])
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
    """Raise StoreError unless the place is from 0 to `messages` − 1."""
    if not isinstance(place, int) or not 0 <= place < messages:
        raise bundle_error(f"a message has the place {place!r:.40} in a bundle of {messages} messages")


def bundle_error(fault: str) -> StoreError:
    """Make the error for invalid stored features."""
    return StoreError(
        f"the store's features of messages are damaged ({fault}): restore a backup (tamis store restore)"
    )


def _list_set_bits(data: bytes) -> list[int]:
    """Return the indices of the bits that are set; the lowest bit of a byte is the first."""
    digits = bin(int.from_bytes(data, "little"))[:1:-1]  # without "0b", the lowest bit first
    return [number for number, digit in enumerate(digits) if digit == "1"]
