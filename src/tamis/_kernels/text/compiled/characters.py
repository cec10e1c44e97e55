"""Reads and writes UTF-8, one character at a time."""

from typing import Any

import numpy as np

from tamis._kernels.jit import part
from tamis._kernels.text.compiled.machine import U
from tamis._kernels.text.kinds import SPACE, Bytes, Int64s


@part
def character(buffer: Bytes, place: int, stop: int) -> Any:
    """Return the character at `place` and its length in bytes; -1 for a byte that is not UTF-8."""
    lead = np.int64(buffer[U(place)])
    if lead < 0x80:
        return lead, 1
    if lead < 0xC2 or lead > 0xF4:
        return -1, 1
    if lead < 0xE0:
        length, code, least = 2, lead & 0x1F, 0x80
    elif lead < 0xF0:
        length, code, least = 3, lead & 0x0F, 0x800
    else:
        length, code, least = 4, lead & 0x07, 0x10000
    if place + length > stop:
        return -1, 1
    for k in range(1, length):
        byte = np.int64(buffer[U(place + k)])
        if byte & 0xC0 != 0x80:
            return -1, 1
        code = code << 6 | (byte & 0x3F)
    if code < least or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return -1, 1
    return code, length


@part
def is_space(code: int) -> bool:
    """Return whether a character is white space."""
    if code < 0x80:
        return code == SPACE or 9 <= code <= 13 or 28 <= code <= 31
    if code < 0x2000:
        return code in (0x85, 0xA0, 0x1680)
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@part
def cell_of(blocks: Any, cells: Any, code: int) -> Any:
    """Return the cell of a character."""
    return np.int64(cells[U(np.int64(blocks[U(code >> 8)]) * 256 + (code & 255))])


@part
def put(out: Any, w: int, code: int) -> int:
    """Write a character; return the offset after it."""
    if code < 0x80:
        out[w] = code
        return w + 1
    if code < 0x800:
        out[w], out[w + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return w + 2
    if code < 0x10000:
        out[w], out[w + 1], out[w + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
        return w + 3
    out[w], out[w + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 0x3F
    out[w + 2], out[w + 3] = 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return w + 4


@part
def _find_last(out: Any, w: int) -> int:
    """Return the offset of the last character written."""
    w -= 1
    while out[w] & 0xC0 == 0x80:
        w -= 1
    return w


@part
def compose(out: Any, w: int, mark: int, pairs: Int64s, composed: Int64s) -> int:
    """Compose the last character with a mark; return the offset after it, or -1 if they do not compose."""
    start = _find_last(out, w)
    letter, _ = character(out, start, w)
    key = letter << 21 | mark
    at = np.searchsorted(pairs, key)
    if at == len(pairs) or pairs[at] != key:
        return -1
    return put(out, start, composed[at])


@part
def write(out: Any, w: int, buffer: Bytes, i: int, length: int, cell: int, pool: Bytes) -> int:
    """Write the folded form of a character; return the offset after it."""
    many = cell >> 3 & 31
    if many == 0:
        for k in range(length):
            out[U(w + k)] = buffer[U(i + k)]
        return w + length
    for k in range(many):
        out[U(w + k)] = pool[U((cell >> 8) + k)]
    return w + many
