"""statistic ↔ Arrow table, one row a digit: whatever can add up a column can merge statistics.

A sum is an integer in base 2**32 (see `_kernels.reference`). Its digits, without the zeros, are rows of

    part      string    the name of the sum: weight, first, …
    label     scalar    the key it is filed under; null if the statistic is not filed by label
    term      scalar    the term, in the total of a Tally that names its terms; null otherwise
    cell      int64     where in the rest of the sum's shape, counted in row-major order
    exponent  int32     the digit stands for digits * 2**exponent
    digits    int64     the digit: below 2**32 and not negative, save for the first of a number

and the schema's metadata says the rest, as JSON. Digits that meet in one place are added, so to concatenate
tables, or to SELECT …, SUM(digits) GROUP BY all other columns, is `+`; below 2**30 tables no sum overflows.
One row more, of the part `check`, is the sum of all digits times a fingerprint of their places, modulo 2**31.
It adds up as they do, so a table that lost or changed rows is refused, however often it was merged.
"""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import prod
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tamis.stats.exact import Exact
from tamis.stats.keys import Keys
from tamis.stats.sums import Sums

try:
    import pyarrow as pa
except ModuleNotFoundError:
    raise ModuleNotFoundError("statistics go to and from Arrow by pyarrow: install tamis[arrow]") from None

S = TypeVar("S", bound=Sums)
Integers = NDArray[np.int64]

_FORMAT = 1
_BITS = 32  # of a digit
_TERMED = "total"  # the part whose last axis terms name
_CHECK, _CHECKS = "check", 1 << 31
_COLUMNS: dict[str, Any] = {
    "part": pa.string(),
    "cell": pa.int64(),
    "exponent": pa.int64(),
    "digits": pa.int64(),
}
_SCALARS: dict[type, Any] = {  # in this order: a bool is an int, a datetime is a date
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us"),
    date: pa.date32(),
}
_PRIMES = (  # those of xxHash
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


@dataclass(frozen=True)
class _Axis:
    """Names along an axis, and for each row of a table the index of the one it has, -1 for none."""

    names: list[Any]
    index: Integers

    @classmethod
    def of(cls, column: Any) -> "_Axis":
        """The distinct values of a column."""
        encoded = column.combine_chunks().dictionary_encode()
        return cls(encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy().astype(np.int64))

    def hashes(self) -> NDArray[np.uint64]:
        """One a row, 0 for none."""
        return np.array([*(crc32(_bytes(name)) for name in self.names), 0], dtype=np.uint64)[self.index]

    def keys(self) -> tuple[Keys, Integers]:
        """The names in their natural order, and for each row the index of its own, -1 for none."""
        keys, place = Keys.of(self.names)
        return keys, np.append(place, -1)[self.index]


@dataclass(frozen=True)
class _Digits:
    """The columns of a table; `word` is the exponent in words."""

    part: _Axis
    label: _Axis
    term: _Axis
    cell: Integers
    word: Integers
    digits: Integers

    def check(self, header: bytes) -> int:
        """The sum of digits times fingerprints of their places, modulo 2**31."""
        places = [self.part.hashes(), self.label.hashes(), self.term.hashes()]
        places += [self.cell.astype(np.uint64), self.word.astype(np.uint64)]
        fingerprint = np.full(len(self.digits), crc32(header), dtype=np.uint64)
        for place, prime in zip(places, _PRIMES, strict=True):
            fingerprint += place * np.uint64(prime)
        fingerprint = (fingerprint ^ (fingerprint >> np.uint64(29))) * np.uint64(_PRIMES[0])
        products = (fingerprint >> np.uint64(33)) * self.digits.astype(np.uint64)
        return int(products.sum(dtype=np.uint64)) % _CHECKS

    def only(self, mask: NDArray[np.bool_]) -> "_Digits":
        """The rows that the mask marks."""
        part, label, term = (
            _Axis(axis.names, axis.index[mask]) for axis in (self.part, self.label, self.term)
        )
        return _Digits(part, label, term, self.cell[mask], self.word[mask], self.digits[mask])


def to_arrow(statistic: Sums) -> pa.Table:
    """The table of a statistic's digits."""
    header = _header(statistic)
    labels, terms = _scalars(statistic.keys, "labels"), _scalars(_terms(statistic), "terms")
    parts = [*statistic.parts(), _CHECK]
    found = np.concatenate([_digits_of(statistic, k, name) for k, name in enumerate(parts[:-1])], axis=1)
    part, label, term, cell, word, digits = found
    rows = _Digits(
        _Axis(parts, part),
        _Axis(labels.to_pylist(), label),
        _Axis(terms.to_pylist(), term),
        cell,
        word,
        digits,
    )
    check = rows.check(header)
    table = pa.table(
        {
            "part": pa.array(parts, type=pa.string()).take(pa.array(np.append(part, len(parts) - 1))),
            "label": _taken(labels, np.append(label, -1)),
            "term": _taken(terms, np.append(term, -1)),
            "cell": pa.array(np.append(cell, 0)),
            "exponent": pa.array(np.append(word * _BITS, 0).astype(np.int32)),
            "digits": pa.array(np.append(digits, check)),
        }
    )
    return table.slice(0, len(digits) + (check != 0)).replace_schema_metadata({b"tamis": header})


def _digits_of(statistic: Sums, number: int, name: str) -> Integers:
    """Part, label, term, cell, word and digit (6, rows) of a part's digits that are not zero."""
    part = statistic.parts()[name]
    filed, terms = statistic.keys is not None, _terms(statistic) if name == _TERMED else None
    words = part.words.reshape(
        len(part.words),
        part.shape[0] if filed else 1,
        prod(_rest(statistic, name)),
        1 if terms is None else len(terms),
    )
    word, label, cell, term = np.nonzero(words)
    none = np.full(len(word), -1)
    return np.stack(
        [
            np.full(len(word), number),
            label if filed else none,
            none if terms is None else term,
            cell,
            word + part.low,
            words[word, label, cell, term],
        ]
    )


def from_arrow(kind: type[S], table: Any) -> S:
    """The statistic of this kind that the digits add up to."""
    if not isinstance(table, pa.Table):
        try:
            table = pa.table(table)
        except (TypeError, ValueError):
            raise TypeError(f"got a {type(table).__name__}, expected a table made by to_arrow()") from None
    header, rows = _checked(kind, table)
    keys, label = rows.label.keys() if header["filed"] else (None, np.zeros_like(rows.cell))
    terms, term = rows.term.keys() if header["termed"] else (None, np.zeros_like(rows.cell))
    fields: dict[str, Any] = {} if terms is None else {"terms": terms}
    for number, (name, rest) in enumerate(header["shapes"].items()):
        here = rows.part.index == number
        named = terms if name == _TERMED else None
        shape = (*([] if keys is None else [len(keys)]), *rest, *([] if named is None else [len(named)]))
        low, high = int(rows.word[here].min(initial=0)), int(rows.word[here].max(initial=0))
        words = np.zeros((high - low + 1, prod(shape)), dtype=np.int64)
        cell = label[here] * prod(rest) + rows.cell[here]
        cell = cell if named is None else cell * len(named) + term[here]
        np.add.at(words, (rows.word[here] - low, cell), rows.digits[here])
        fields[name] = Exact.of_words(words.reshape(len(words), *shape), low)
    return kind(keys=keys, **fields, **header["traits"])._pruned()


def _terms(statistic: Sums) -> Keys | None:
    return getattr(statistic, "terms", None)


def _rest(statistic: Sums, name: str) -> tuple[int, ...]:
    """The shape of a part without the axes that have names."""
    shape = statistic.parts()[name].shape
    shape = shape if statistic.keys is None else shape[1:]
    return shape[:-1] if name == _TERMED and _terms(statistic) is not None else shape


def _header(statistic: Sums) -> bytes:
    """All that is not a digit or a name; only tables with the same can be merged."""
    header = {
        "format": _FORMAT,
        "kind": type(statistic).__name__,
        "filed": statistic.keys is not None,
        "termed": _terms(statistic) is not None,
        "traits": {name: getattr(statistic, name) for name in statistic._names.traits},
        "shapes": {name: _rest(statistic, name) for name in statistic.parts()},
    }
    return json.dumps(header).encode()


def _checked(kind: type[Sums], table: pa.Table) -> tuple[dict[str, Any], _Digits]:
    """The header, and the rows it describes: all of them, and none that it does not."""
    written = (table.schema.metadata or {}).get(b"tamis")
    if written is None:
        raise ValueError(
            "got a table without the metadata of to_arrow(), expected it kept: "
            "call table.replace_schema_metadata(original.schema.metadata)"
        )
    try:
        header: dict[str, Any] = json.loads(written)
        version, name = header["format"], header["kind"]
    except (ValueError, KeyError, TypeError):
        raise _altered("metadata that cannot be read") from None
    if version != _FORMAT:
        raise ValueError(f"got a table of format {version}, expected {_FORMAT}: read it with a newer tamis")
    if name != kind.__name__:
        raise ValueError(
            f"got a table of {name}, expected one of {kind.__name__}: read it by {name}.from_arrow"
        )
    rows = _decoded(table, [*header["shapes"], _CHECK])
    checks = rows.part.index == len(header["shapes"])
    found, rows = rows.digits[checks], rows.only(~checks)
    if int(found.sum()) % _CHECKS != rows.check(written):
        raise _altered("other rows than were written, or rows of a statistic of another form")
    return header, rows


def _decoded(table: pa.Table, parts: list[str]) -> _Digits:
    if missing := [
        name for name in ("part", "label", "term", *list(_COLUMNS)[1:]) if name not in table.column_names
    ]:
        raise _altered(f"no column {missing[0]!r}")
    columns = {}
    for name, kind in _COLUMNS.items():
        try:
            columns[name] = table[name].cast(kind)
        except pa.ArrowException:
            raise _altered(f"a column {name!r} of type {table[name].type}") from None
        if columns[name].null_count:
            raise _altered(f"a null in column {name!r}")
    part = _Axis.of(columns["part"])
    if unknown := [name for name in part.names if name not in parts]:
        raise _altered(f"a part {unknown[0]!r}")
    place = np.array([parts.index(name) for name in part.names], dtype=np.int64)
    word, shift = np.divmod(columns["exponent"].to_numpy(), _BITS)
    if shift.any():
        raise _altered(f"an exponent that is no multiple of {_BITS}")
    return _Digits(
        _Axis(parts, place[part.index]),
        _Axis.of(table["label"]),
        _Axis.of(table["term"]),
        columns["cell"].to_numpy(),
        word,
        columns["digits"].to_numpy(),
    )


def _altered(found: str) -> ValueError:
    return ValueError(f"got a table with {found}, expected it as to_arrow() made it: fetch it anew")


def _scalars(keys: Keys | None, what: str) -> Any:
    """The keys as an array of one type."""
    if not keys:
        return pa.nulls(0)
    kinds = {
        next((scalar for scalar in _SCALARS if issubclass(kind, scalar)), kind)
        for kind in set(map(type, keys))
    }
    if len(kinds) > 1 or not kinds <= _SCALARS.keys():
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        expected = ", ".join(kind.__name__ for kind in _SCALARS)
        raise TypeError(f"got {what} of type {found}, expected all of one type among {expected}")
    scalar = _SCALARS[kinds.pop()]
    try:
        if pa.types.is_timestamp(scalar):
            zoned = {getattr(key, "tzinfo", None) is not None for key in keys}
            if len(zoned) > 1:
                raise ValueError("some have a time zone and some have none")
            scalar = pa.timestamp("us", "UTC" if zoned.pop() else None)
        return pa.array(list(keys), type=scalar)
    except (ValueError, OverflowError) as problem:
        raise TypeError(f"got {what} that an Arrow column of {scalar} cannot hold: {problem}") from None


def _taken(values: Any, index: Integers) -> Any:
    """The values at an index, null at -1."""
    if not len(values):
        return pa.nulls(len(index))
    return values.take(pa.array(index, mask=index < 0))


def _bytes(name: Any) -> bytes:
    """A writing that does not depend on who wrote it."""
    if isinstance(name, bytes):
        return name
    if isinstance(name, datetime) and name.tzinfo is not None:
        name = name.astimezone(UTC)
    return (name.isoformat() if isinstance(name, datetime) else str(name)).encode()
