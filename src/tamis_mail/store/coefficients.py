"""The format of the fitted coefficients of single features on disk. Each fit of the weights rewrites all.

The highest bits of the keys divide the sorted entries into 2**bits shelves, each of which is one row of the
table `coefficient`. An entry has the lower bits of a key, and the coefficient as a multiple of UNIT in two
bytes. A coefficient that is rounded to zero is not stored.
"""

import sqlite3
import struct
from collections.abc import Iterable

from tamis_mail.features import KEY_BITS
from tamis_mail.store.runs import damage_error, fetch_shelves

_MAX_SHELF_BYTES = 1 << 16  # a typical shelf has 200 to 1,300 bytes, because keys are evenly distributed
UNIT = 2.0**-10  # coefficients are stored as multiples of this log-odds, and are within ±32
# So many coefficients, or more, are in at least 2**16 shelves, and keys take 4 bytes (`runs.choose_bits`).
FEW_ENTRIES = 1 << 21


def entry_format(bits: int) -> str:
    """Return the format of an entry for `struct`, given b for 2**b shelves."""
    return "<Ih" if KEY_BITS - bits <= 32 else "<Qh"


def look_up(connection: sqlite3.Connection, keys: Iterable[int], bits: int) -> dict[int, float]:
    """Return the coefficients of those keys that have one, without NumPy, for the keys of one message."""
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
        offset = data.find(pattern)  # if it is not at the beginning of an entry, the search goes on
        while offset > 0 and offset % entry.size:
            offset = data.find(pattern, offset + 1)
        if offset >= 0:
            coefficients[key] = entry.unpack_from(data, offset)[1] * UNIT
    return coefficients


def read_shelves(connection: sqlite3.Connection, numbers: Iterable[int], bits: int) -> dict[int, bytes]:
    """Return the bytes of those shelves with these numbers that exist."""
    rows = fetch_shelves(connection, "coefficient", numbers)
    refuse_cut_off(rows.values(), bits)
    return rows


def refuse_cut_off(shelves: Iterable[object], bits: int) -> None:
    """Raise StoreError for a shelf of coefficients that ends within an entry, or that is too long."""
    size = struct.calcsize(entry_format(bits))
    for data in shelves:
        if not isinstance(data, bytes) or len(data) % size or len(data) > _MAX_SHELF_BYTES:
            raise damage_error("a shelf of coefficients is cut off or too long")
