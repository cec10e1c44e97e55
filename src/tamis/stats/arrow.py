"""statistic ↔ Arrow table with one row per digit: any program that can sum a column can add statistics.

A sum is an integer in base 2**32 (see `_kernels.reference`). Its digits, without the zeros, are rows of

    part      string    the name of the sum: weight, first, …
    label     scalar    the key it is grouped under; null if the statistic is not grouped by label
    term      scalar    the term, in the total of a Tally that names its terms; null otherwise
    cell      int64     index into the other axes of the sum, in row-major order
    exponent  int32     32 times the power of 2**32: the row adds digits * 2**exponent to the sum
    digits    int64     the digit: from 0 to 2**32 − 1; the highest digit of a number may be negative

and the schema's metadata holds the kind of statistic and the shapes, as JSON. `scalar` is one of the types in
`_SCALARS`. The first five columns are the coordinates of a digit. Digits with the same coordinates are added
when a table is read. So concatenated tables are the sum of their statistics, and so is SELECT …, SUM(digits)
GROUP BY all other columns; no sum of fewer than 2**30 tables overflows. One more row, of the part `check`,
holds the sum of all digits times a hash of their coordinates, modulo 2**31; it is left out if it is 0. It is
added like the digits, so a table is refused if rows were lost or changed, even after tables were added.
"""

import json
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from math import prod
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tamis.stats.consistency import CONSISTENCY_CHECKS
from tamis.stats.exact import MAX_POWER, Exact
from tamis.stats.keys import Keys
from tamis.stats.moments import Moments
from tamis.stats.sums import Sums
from tamis.stats.tally import Tally

try:
    import pyarrow as pa
except ModuleNotFoundError:
    raise ModuleNotFoundError("statistics go to and from Arrow by pyarrow: install tamis[arrow]") from None

S = TypeVar("S", bound=Sums)
Integers = NDArray[np.int64]

_FORMAT = 1
_BITS = 32  # the number of bits of a digit
_LARGEST = 2.0**62  # the sum of the digits with the same coordinates in 2**30 tables is below this
# Zeros are not written, so a table of few digits may describe a large array. To bound the memory that a
# hostile table can claim, an array may have at most _FREE_WORDS words (32 MB) plus _WORDS_PER_DIGIT words for
# each digit of the table.
_FREE_WORDS, _WORDS_PER_DIGIT = 1 << 22, 64
_TERMED = "total"  # the sum whose last axis terms name, if a Tally has terms
_CHECK = "check"  # the part of the row that holds the check
_CHECK_MODULUS = 1 << 31
_HEADER: dict[str, type] = {
    "format": int,
    "kind": str,
    "filed": bool,  # whether the statistic is grouped by label
    "termed": bool,  # whether terms name the last axis of `total`
    "traits": dict,  # the fields that are neither sums nor names of axes, such as the `form` of Moments
    "shapes": dict,  # the shape of each sum, without the axes that labels and terms name
}
# The sums that a statistic need not have, and that a table then does not have either, with their value.
_OPTIONAL_FIELDS: dict[type, dict[str, Any]] = {Moments: {"second": None}}
_COLUMNS: dict[str, Any] = {
    "part": pa.string(),
    "cell": pa.int64(),
    "exponent": pa.int64(),
    "digits": pa.int64(),
}
_SCALARS: dict[type, Any] = {  # the order matters, because a bool is an int and a datetime is a date
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us"),
    date: pa.date32(),
}
_PRIMES = (  # odd multipliers of the hash: large primes, those of the hash function xxHash
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


@dataclass(frozen=True)
class _Axis:
    """Distinct names, and for each row of a table the index of its name, -1 for a null."""

    names: list[Any]
    index: Integers

    @classmethod
    def of(cls, column: Any) -> "_Axis":
        """Read a column of an Arrow table."""
        encoded = column.combine_chunks().dictionary_encode()
        return cls(encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy().astype(np.int64))

    def hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row's name, 0 for a row without a name."""
        return np.array([*(crc32(_to_bytes(name)) for name in self.names), 0], dtype=np.uint64)[self.index]

    def keys(self) -> tuple[Keys, Integers]:
        """Return the names in their natural order, and for each row the index of its name, -1 for none."""
        keys, key_index = Keys.of(self.names)
        return keys, np.append(key_index, -1)[self.index]


@dataclass(frozen=True)
class _Digits:
    """The columns of a table. A digit stands for digit * 2**exponent, with exponent = 32 * power."""

    part: _Axis
    label: _Axis
    term: _Axis
    cell: Integers
    power: Integers
    digits: Integers

    def check(self, header: bytes) -> int:
        """Return the sum of digits times hashes of header and coordinates, modulo 2**31."""
        coordinates = [self.part.hashes(), self.label.hashes(), self.term.hashes()]
        coordinates += [self.cell.astype(np.uint64), self.power.astype(np.uint64)]
        hashes = np.full(len(self.digits), crc32(header), dtype=np.uint64)
        for coordinate, prime in zip(coordinates, _PRIMES, strict=True):
            hashes += coordinate * np.uint64(prime)
        hashes = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(_PRIMES[0])
        products = (hashes >> np.uint64(33)) * self.digits.astype(np.uint64)
        return int(products.sum(dtype=np.uint64)) % _CHECK_MODULUS

    def take(self, mask: NDArray[np.bool_]) -> "_Digits":
        """Return the rows that the mask marks."""
        part, label, term = (
            _Axis(axis.names, axis.index[mask]) for axis in (self.part, self.label, self.term)
        )
        return _Digits(part, label, term, self.cell[mask], self.power[mask], self.digits[mask])


def to_arrow(statistic: Sums) -> pa.Table:
    """Convert a statistic to a table of its digits."""
    header = _make_header(statistic)
    labels, terms = _to_arrow_array(statistic.keys, "labels"), _to_arrow_array(_get_terms(statistic), "terms")
    parts = [*statistic.parts(), _CHECK]
    columns = np.concatenate(
        [_list_digits(statistic, part_index, name) for part_index, name in enumerate(parts[:-1])], axis=1
    )
    part, label, term, cell, power, digits = columns
    rows = _Digits(
        _Axis(parts, part),
        _Axis(labels.to_pylist(), label),
        _Axis(terms.to_pylist(), term),
        cell,
        power,
        digits,
    )
    check = rows.check(header)
    table = pa.table(
        {
            "part": pa.array(parts, type=pa.string()).take(pa.array(np.append(part, len(parts) - 1))),
            "label": _take_or_null(labels, np.append(label, -1)),
            "term": _take_or_null(terms, np.append(term, -1)),
            "cell": pa.array(np.append(cell, 0)),
            "exponent": pa.array(np.append(power * _BITS, 0).astype(np.int32)),
            "digits": pa.array(np.append(digits, check)),
        }
    )
    return table.slice(0, len(digits) + (check != 0)).replace_schema_metadata({b"tamis": header})


def _list_digits(statistic: Sums, part_index: int, name: str) -> Integers:
    """List the nonzero digits of a part: part, label, term, cell, power and digit of each (6, digits)."""
    part = statistic.parts()[name]
    is_grouped, terms = statistic.keys is not None, _get_terms(statistic) if name == _TERMED else None
    words = part.words.reshape(
        len(part.words),
        part.shape[0] if is_grouped else 1,
        prod(_get_unnamed_shape(statistic, name)),
        1 if terms is None else len(terms),
    )
    word_index, label, cell, term = np.nonzero(words)
    none = np.full(len(word_index), -1)
    return np.stack(
        [
            np.full(len(word_index), part_index),
            label if is_grouped else none,
            none if terms is None else term,
            cell,
            word_index + part.low,
            words[word_index, label, cell, term],
        ]
    )


def from_arrow(kind: type[S], table: Any) -> S:
    """Read a statistic of this kind from a table of its digits; a table that is not valid is refused."""
    if not isinstance(table, pa.Table):
        try:
            table = pa.table(table)
        except (TypeError, ValueError):
            raise TypeError(f"got a {type(table).__name__}, expected a table made by to_arrow()") from None
    try:
        return _add_digits(kind, table)
    except _RefusedError as refusal:
        raise ValueError(str(refusal)) from None
    except Exception as problem:  # noqa: BLE001 (columns may be of any type that Arrow has, or will have)
        reason = " ".join(str(problem).split())[:200]
        raise ValueError(str(_describe_refusal(f"columns that cannot be read ({reason})"))) from None


def _add_digits(kind: type[S], table: pa.Table) -> S:
    """Sum the digits of a table to a statistic; raise _RefusedError if the table is not valid."""
    table.validate(full=True)  # Arrow does not check a file when it reads it
    header, rows = _read_rows(kind, table)
    keys, label = rows.label.keys() if header["filed"] else (None, np.zeros_like(rows.cell))
    terms, term = rows.term.keys() if header["termed"] else (None, np.zeros_like(rows.cell))
    sums: dict[str, Any] = {"keys": keys, **({} if kind is not Tally else {"terms": terms})}
    for part_index, (name, unnamed_shape) in enumerate(header["shapes"].items()):
        is_in_part = rows.part.index == part_index
        part_terms = terms if name == _TERMED else None
        shape = (
            *([] if keys is None else [len(keys)]),
            *unnamed_shape,
            *([] if part_terms is None else [len(part_terms)]),
        )
        unnamed_size = prod(unnamed_shape)
        cells = rows.cell[is_in_part]
        if len(cells) and (cells.min() < 0 or cells.max() >= unnamed_size):
            raise _describe_refusal(f"a cell of {name!r} outside its shape {tuple(unnamed_shape)}")
        if (label[is_in_part] < 0).any() or (part_terms is not None and (term[is_in_part] < 0).any()):
            raise _describe_refusal(f"a digit of {name!r} without its label or term")
        cells = label[is_in_part] * unnamed_size + cells
        cells = cells if part_terms is None else cells * len(part_terms) + term[is_in_part]
        try:
            sums[name] = _sum_digits(rows.power[is_in_part], cells, rows.digits[is_in_part], shape)
        except ValueError as problem:
            raise _describe_refusal(f"{problem} of {name!r}") from None
    if not CONSISTENCY_CHECKS[kind](**{**_OPTIONAL_FIELDS.get(kind, {}), **sums, **header["traits"]}):
        raise _describe_refusal("sums whose shapes do not fit each other")
    return kind(**sums, **header["traits"]).drop_zeros()  # drops labels and terms whose sums are zero


def _sum_digits(power: Integers, cell: Integers, digits: Integers, shape: tuple[int, ...]) -> Exact:
    """Add each digit (n,) to the sum in its cell, at its power of 2**32; raise ValueError if one is invalid.

    The result has this shape, and `cell` is an index into it, flattened. Only the cells that have digits are
    brought to canonical form, because most cells may have none.

    >>> _sum_digits(np.array([0, 1, 0]), np.array([2, 2, 0]), np.array([5, 1, 7]), (3,)).value.tolist()
    [7.0, 0.0, 4294967301.0]
    """
    if not len(power):
        _refuse_large(prod(shape), 0)
        return Exact.zeros(shape)
    low, high = int(power.min()), int(power.max())
    if low < -MAX_POWER or high >= MAX_POWER - 2:  # room for the carries of digits of up to 62 bits
        raise ValueError("exponents beyond any sum")
    length = high - low + 1
    _refuse_large(length * prod(shape), len(power))
    used, used_index = np.unique(cell, return_inverse=True)
    flat = (power - low) * len(used) + used_index.reshape(-1)
    if np.bincount(flat, np.abs(digits.astype(np.float64))).max() >= _LARGEST:
        raise ValueError("digits that are too large")
    words = np.zeros(length * len(used), dtype=np.int64)
    np.add.at(words, flat, digits)
    settled = Exact.from_words(words.reshape(length, len(used)), low)
    words = np.zeros((len(settled.words), prod(shape)), dtype=np.int64)
    words[:, used] = settled.words
    return Exact(words.reshape(len(words), *shape), settled.low)


def _refuse_large(words: int, digits: int) -> None:
    """Raise if the sums would have far more words than the table has digits: see `_FREE_WORDS`."""
    if words > _FREE_WORDS + _WORDS_PER_DIGIT * digits:
        raise ValueError(f"{digits} digits for {words} words")


def _get_terms(statistic: Sums) -> Keys | None:
    """Return the names of a Tally's terms; None for other statistics."""
    return getattr(statistic, "terms", None)


def _get_unnamed_shape(statistic: Sums, name: str) -> tuple[int, ...]:
    """Return the shape of a part without the axes that labels and terms name."""
    shape = statistic.parts()[name].shape
    shape = shape if statistic.keys is None else shape[1:]
    return shape[:-1] if name == _TERMED and _get_terms(statistic) is not None else shape


def _make_header(statistic: Sums) -> bytes:
    """Make the metadata, see _HEADER. Only tables with equal metadata can be concatenated."""
    header = {
        "format": _FORMAT,
        "kind": type(statistic).__name__,
        "filed": statistic.keys is not None,
        "termed": _get_terms(statistic) is not None,
        "traits": {name: getattr(statistic, name) for name in statistic.field_names.traits},
        "shapes": {name: _get_unnamed_shape(statistic, name) for name in statistic.parts()},
    }
    return json.dumps(header).encode()


def _read_rows(kind: type[Sums], table: pa.Table) -> tuple[dict[str, Any], _Digits]:
    """Read the header and the rows; raise if the check does not agree with them."""
    metadata = (table.schema.metadata or {}).get(b"tamis")
    if metadata is None:
        raise _RefusedError(
            "got a table without the metadata that to_arrow() wrote, expected a table that has it: "
            "call table.replace_schema_metadata(original.schema.metadata)"
        )
    try:
        header: dict[str, Any] = json.loads(metadata)
        version, name = header["format"], header["kind"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _describe_refusal("metadata that cannot be read") from None
    if version != _FORMAT:
        raise _RefusedError(
            f"got a table of format {str(version)[:40]}, expected {_FORMAT}: read it with a newer tamis"
        )
    if name != kind.__name__:
        name = str(name)[:40]
        raise _RefusedError(
            f"got a table of {name}, expected one of {kind.__name__}: read it by {name}.from_arrow"
        )
    _refuse_other_header(kind, header)
    rows = _decode(table, [*header["shapes"], _CHECK])
    is_check = rows.part.index == len(header["shapes"])
    check, rows = rows.digits[is_check], rows.take(~is_check)
    if int(check.sum()) % _CHECK_MODULUS != rows.check(metadata):
        raise _describe_refusal("other rows than were written, or rows of a statistic with other metadata")
    return header, rows


def _refuse_other_header(kind: type[Sums], header: dict[str, Any]) -> None:
    """Raise if the header does not describe this kind of statistic."""
    names = {field.name: field.type for field in fields(kind)}
    has_all_fields = header.keys() == _HEADER.keys() and all(
        type(header[name]) is expected for name, expected in _HEADER.items()
    )
    if (
        not has_all_fields
        or not header["shapes"].keys() <= names.keys()
        or not header["traits"].keys() <= names.keys()
    ):
        raise _describe_refusal("metadata of another statistic")
    for name, shape in header["shapes"].items():
        if names[name] not in (Exact, Exact | None):
            raise _describe_refusal(f"a sum called {name!r}")
        if type(shape) is not list or len(shape) > 16 or not all(type(n) is int and n >= 0 for n in shape):
            raise _describe_refusal(f"a shape of {name!r} that is not a list of up to 16 sizes")
        if prod(n for n in shape if n) >= 1 << 40:
            raise _describe_refusal(f"a shape of {name!r} that is too large for any memory")


def _decode(table: pa.Table, parts: list[str]) -> _Digits:
    """Read the columns of a table; `parts` are the names that the column `part` may have."""
    if missing := [
        name for name in ("part", "label", "term", *list(_COLUMNS)[1:]) if name not in table.column_names
    ]:
        raise _describe_refusal(f"no column {missing[0]!r}")
    columns = {}
    for name, kind in _COLUMNS.items():
        try:
            columns[name] = table[name].cast(kind)
        except pa.ArrowException:
            raise _describe_refusal(f"a column {name!r} of type {table[name].type}") from None
        if columns[name].null_count:
            raise _describe_refusal(f"a null in column {name!r}")
    part = _Axis.of(columns["part"])
    if unknown := [name for name in part.names if name not in parts]:
        raise _describe_refusal(f"a part {unknown[0]!r}")
    part_index = np.array([parts.index(name) for name in part.names], dtype=np.int64)
    power, remainder = np.divmod(columns["exponent"].to_numpy(), _BITS)
    if remainder.any():
        raise _describe_refusal(f"an exponent that is no multiple of {_BITS}")
    return _Digits(
        _Axis(parts, part_index[part.index]),
        _Axis.of(table["label"]),
        _Axis.of(table["term"]),
        columns["cell"].to_numpy(),
        power,
        columns["digits"].to_numpy(),
    )


class _RefusedError(ValueError):
    """A table was refused; the message is meant for the caller."""


def _describe_refusal(defect: str) -> _RefusedError:
    return _RefusedError(f"got a table with {defect}, expected the table that to_arrow() made: fetch it anew")


def _to_arrow_array(keys: Keys | None, what: str) -> Any:
    """Convert keys to an Arrow array of one type."""
    if not keys:
        return pa.nulls(0)
    kinds = {
        next((scalar for scalar in _SCALARS if issubclass(kind, scalar)), kind)
        for kind in set(map(type, keys))
    }
    if len(kinds) > 1 or not kinds <= _SCALARS.keys():
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        expected = ", ".join(kind.__name__ for kind in _SCALARS)
        raise TypeError(f"got {what} of type {names}, expected all of one type among {expected}")
    scalar = _SCALARS[kinds.pop()]
    try:
        if pa.types.is_timestamp(scalar):
            has_zone = {getattr(key, "tzinfo", None) is not None for key in keys}
            if len(has_zone) > 1:
                raise ValueError("some have a time zone and some have none")
            scalar = pa.timestamp("us", "UTC" if has_zone.pop() else None)
        return pa.array(list(keys), type=scalar)
    except (ValueError, OverflowError) as problem:
        raise TypeError(f"got {what} that an Arrow column of {scalar} cannot hold: {problem}") from None


def _take_or_null(values: Any, index: Integers) -> Any:
    """Return the Arrow values at the indices, null where the index is -1."""
    if not len(values):
        return pa.nulls(len(index))
    return values.take(pa.array(index, mask=index < 0))


def _to_bytes(name: Any) -> bytes:
    """Convert a label or term to bytes that do not depend on the machine or on the time zone's name."""
    if isinstance(name, bytes):
        return name
    if isinstance(name, datetime) and name.tzinfo is not None:
        name = name.astimezone(UTC)
    return (name.isoformat() if isinstance(name, datetime) else str(name)).encode()
