"""Stored coefficients of single features (corrections of their weights), all rewritten by each fit.

The highest bits of the keys divide the sorted entries into 2**bits shelves, each of which is one row of the
table `coefficient`. An entry is the lower bits of a key and the coefficient as a whole number of UNITs, in
two bytes. A coefficient that rounds to zero is not stored.
"""

import sqlite3
import struct
from collections.abc import Iterable

from tamis_mail.features import KEY_BITS
from tamis_mail.store.runs import damage_error

_MAX_SHELF_BYTES = 1 << 16  # a typical shelf has 200 to 1,300, since hashes are spread evenly
UNIT = 2.0**-10  # log-odds; coefficients are within ±32


def entry_format(bits: int) -> str:
    """Return the format of an entry in `struct`."""
    return "<Ih" if KEY_BITS - bits <= 32 else "<Qh"


def choose_bits(entries: int) -> int:
    """Choose b for 2**b shelves: from 128 entries on, these have 64 to 127 entries each, on average.

    From 2**21 entries on, b is at least 16, so that an entry stores four bytes of its key; up to twice as
    many entries, a shelf then has 32 to 63.
    """
    return max(16 if entries >= 1 << 21 else 0, entries.bit_length() - 7)


def look_up(connection: sqlite3.Connection, keys: Iterable[int], bits: int) -> dict[int, float]:
    """Return the coefficients of those keys that have one, in plain Python, for one message."""
    shift = KEY_BITS - bits
    low_bits = (1 << shift) - 1
    sorted_keys = sorted(keys)
    shelves = read_shelves(connection, {key >> shift for key in sorted_keys}, bits)
    entry = struct.Struct(entry_format(bits))
    key_size = entry.size - 2
    coefficients: dict[int, float] = {}
    for key in sorted_keys:
        data = shelves.get(key >> shift)
        if data is None:
            continue
        pattern = (key & low_bits).to_bytes(key_size, "little")
        offset = data.find(pattern)
        while offset > 0 and offset % entry.size:
            offset = data.find(pattern, offset + 1)
        if offset >= 0:
            coefficients[key] = entry.unpack_from(data, offset)[1] * UNIT
    return coefficients


def read_shelves(connection: sqlite3.Connection, numbers: Iterable[int], bits: int) -> dict[int, bytes]:
    """Return the bytes of those shelves with these numbers that exist."""
    numbers_json = str(sorted(numbers))  # Python prints a list of integers as JSON
    rows = dict(
        connection.execute(
            "SELECT id, data FROM coefficient WHERE id IN (SELECT value FROM json_each(?))", (numbers_json,)
        )
    )
    refuse_cut_off(rows.values(), bits)
    return rows


def refuse_cut_off(shelves: Iterable[object], bits: int) -> None:
    """Raise StoreError for a shelf of coefficients that ends within an entry, or that is too long."""
    size = struct.calcsize(entry_format(bits))
    for data in shelves:
        if not isinstance(data, bytes) or len(data) % size or len(data) > _MAX_SHELF_BYTES:
            raise damage_error("a shelf of coefficients is cut off or too long")
