"""Coefficients of many features, read from the store and written to it, in NumPy.

The highest b bits of a feature's key are the number of the shelf that has its coefficient; an entry of the
shelf has the other bits, and the coefficient as an integer, in multiples of UNIT.
"""

import sqlite3

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import KEY_BITS
from tamis_mail.features.arrays import find_firsts, find_keys
from tamis_mail.store.coefficients import FEW_ENTRIES, UNIT, entry_format, read_shelves, refuse_cut_off
from tamis_mail.store.runs import choose_bits

_LARGEST = 2**15 - 1  # in multiples of UNIT: a larger coefficient is clipped, so that it fits into two bytes


def look_up(connection: sqlite3.Connection, keys: NDArray[np.uint64], bits: int) -> NDArray[np.float64]:
    """(keys,): the coefficients of keys in ascending order, zeros for keys without one."""
    numbers = keys >> np.uint64(KEY_BITS - bits)
    shelves = read_shelves(connection, numbers[find_firsts(numbers)].tolist(), bits)
    stored, values = _decode(shelves, bits)
    coefficients = np.zeros(len(keys))
    is_present, places = find_keys(stored, keys)
    coefficients[is_present] = values[places] * UNIT
    return coefficients


def count_units(coefficients: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return coefficients as they are stored: rounded to multiples of UNIT, and clipped."""
    return np.clip(np.rint(coefficients / UNIT), -_LARGEST, _LARGEST).astype(np.int64)


def replace(
    connection: sqlite3.Connection, keys: NDArray[np.uint64], coefficients: NDArray[np.float64]
) -> int:
    """Replace all coefficients inside the open transaction; return b, where 2**b shelves hold them.

    The keys are in ascending order.
    """
    values = count_units(coefficients)
    keys, values = keys[values != 0], values[values != 0]
    # From FEW_ENTRIES on, there are at least 2**16 shelves, and keys take 4 bytes instead of 8.
    bits = choose_bits(len(keys), FEW_ENTRIES)
    shift = np.uint64(KEY_BITS - bits)
    records = np.empty(len(keys), _make_entry_type(bits))
    records["key"] = keys & np.uint64((1 << (KEY_BITS - bits)) - 1)
    records["value"] = values
    data, size = records.tobytes(), records.itemsize
    numbers, firsts = np.unique(keys >> shift, return_index=True)
    ends = np.append(firsts, len(keys))[1:].tolist()
    connection.execute("DELETE FROM coefficient")
    connection.executemany(
        "INSERT INTO coefficient VALUES (?, ?)",
        (
            (number, data[first * size : end * size])
            for number, first, end in zip(numbers.tolist(), firsts.tolist(), ends, strict=True)
        ),
    )
    return bits


def find_faults(connection: sqlite3.Connection, bits: int) -> list[str]:
    """List the faults of the stored coefficients: shelves beyond 2**bits, entries out of order.

    Raise StoreError for a shelf that is cut off or too long.
    """
    rows = dict(connection.execute("SELECT id, data FROM coefficient ORDER BY id"))
    if any(not 0 <= number < 1 << bits for number in rows):
        return ["a shelf of coefficients is out of place"]
    refuse_cut_off(rows.values(), bits)
    keys, _ = _decode(rows, bits)
    return [] if bool((keys[1:] > keys[:-1]).all()) else ["coefficients are out of order"]


def _decode(shelves: dict[int, bytes], bits: int) -> tuple[NDArray[np.uint64], NDArray[np.int16]]:
    """Return the keys and the values (multiples of UNIT) of shelves, in the order of the shelves' numbers."""
    numbers = sorted(shelves)
    records = np.frombuffer(b"".join(shelves[number] for number in numbers), _make_entry_type(bits))
    sizes = [len(shelves[number]) // records.itemsize for number in numbers]
    keys: NDArray[np.uint64] = np.repeat(np.array(numbers, np.uint64) << np.uint64(KEY_BITS - bits), sizes)
    keys |= records["key"].astype(np.uint64)
    values: NDArray[np.int16] = records["value"]
    return keys, values


def _make_entry_type(bits: int) -> np.dtype[np.void]:
    key_type = entry_format(bits)[:2]  # "<I" or "<Q": the type of the value follows
    return np.dtype([("key", key_type), ("value", "<i2")])
