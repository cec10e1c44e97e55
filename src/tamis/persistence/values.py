"""Convert values of a closed list of types to a tree that JSON can hold, plus arrays; and back.

JSON's own values are not changed: null, booleans, integers between ±2**63, finite floats, valid Unicode text
and lists. Any other value becomes an object with one entry, {tag: its parts}. All tags are in the tables
of this module, and no name in a tree is looked up elsewhere. Arrays are collected in the dict `arrays`, and
the tree has their names.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import fields
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from inspect import isroutine
from math import isfinite, prod
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from tamis.conjugate import Beta, Dirichlet, Gamma, NormalInverseGamma, NormalInverseWishart
from tamis.families.registry import FAMILIES
from tamis.persistence.archive import DTYPES, Arrays
from tamis.stats import Exact, Gram, Joint, Keys, Moments, Tally
from tamis.stats.consistency import refuse_inconsistent

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"

_MAX_DEPTH = 64  # of nested values; a list that contains itself is deeper, and raises an error
# Integers of at least this magnitude are written in hexadecimal: reading many digits in base 10 is slow.
_LARGE_INTEGER = 1 << 63
# The errors that reading a tree which `pack` did not make can raise.
_READ_ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
# Random generators, whose state is not saved: see `_make_refusal`.
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.SeedSequence, np.random.BitGenerator)
_EXPECTED = "expected numbers, strings, dates, arrays, statistics, priors, families, lists, tuples or dicts"

# Statistics, priors and members of families are saved as the parameters of their constructors.
_PARAMETERS: dict[type, tuple[str, ...]] = {
    Keys: ("values",),
    Exact: ("words", "low"),
    Tally: ("keys", "weight", "total", "terms"),
    Moments: ("keys", "weight", "first", "second", "form"),
    Gram: ("keys", "weight", "first", "products", "width", "targets"),
    Joint: ("parts",),
    Beta: ("a", "b", "likelihood", "keys"),
    Dirichlet: ("concentration", "keys", "terms"),
    Gamma: ("shape", "rate", "likelihood", "keys"),
    NormalInverseGamma: ("location", "strength", "shape", "scale", "keys"),
    NormalInverseWishart: ("location", "strength", "freedom", "scale", "keys"),
}
# One member of each family, by the tag of the family.
_MEMBERS: dict[str, Any] = {f"family {name}": member for name, member in FAMILIES.items()}
_PARAMETERS |= {type(member): tuple(one.name for one in fields(member)) for member in _MEMBERS.values()}
_ROUNDED = "rounded"  # a field of Moments and Gram, not written if it is None, and missing in older files
# The tag of each type, and the type of each tag.
_TAGS = {cls: cls.__name__ for cls in _PARAMETERS} | {type(member): tag for tag, member in _MEMBERS.items()}
_CLASSES = {tag: cls for cls, tag in _TAGS.items()}


def pack(value: object, arrays: Arrays, name: str = "") -> Tree:
    """Return the value as a tree; arrays that it holds are added to `arrays`.

    If a value inside cannot be saved, the error has its path: `name`, then the keys of the dicts around it.
    Scalars of NumPy, except times, become Python's, and so do times of pandas. A time zone that is not of
    `zoneinfo` becomes its offset.

    >>> arrays: Arrays = {}
    >>> pack({"alpha": 0.5, "shape": (2, 3), "prior": np.zeros(2)}, arrays)
    {'dict': [['alpha', 0.5], ['shape', {'tuple': [2, 3]}], ['prior', {'array': 'array0'}]]}
    >>> unpack({"tuple": [2, 3]}, arrays)
    (2, 3)
    """
    new: Arrays = {}
    tree = _Packer(arrays, new, name).pack(value, 0)
    arrays.update(new)  # at the end, so that an error changes nothing
    return tree


def unpack(tree: object, arrays: Arrays) -> Any:
    """Return the value that `pack` converted, with read-only arrays; raise ValueError for any other tree."""
    try:
        return _Reader(arrays).read(tree, 0)
    except _READ_ERRORS as problem:
        text = " ".join(str(problem).split())
        raise ValueError(f"got a value that cannot be read ({text}), expected one made by pack()") from None


class _Packer:
    """Packs a value. It adds arrays to `new` under names that `given` does not have.

    `path` has the keys of the dicts around the value that is being packed.
    """

    def __init__(self, given: Arrays, new: Arrays, name: str) -> None:
        self.given, self.new = given, new
        self.path: list[Any] = [name] if name else []

    def pack(self, value: Any, depth: int) -> Tree:
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"{self._describe_failure()}: got values nested {depth} deep, expected at most {_MAX_DEPTH}: "
                "does one contain itself?"
            )
        cls = type(value)
        if value is None or cls is bool:
            return value  # type: ignore[no-any-return]
        if packer := _PACKERS.get(cls):
            return packer(value)
        if cls is list:
            return [self.pack(item, depth + 1) for item in value]
        if cls is tuple:
            return {"tuple": [self.pack(item, depth + 1) for item in value]}
        if cls is dict:
            return {"dict": [self._pack_pair(key, item, depth) for key, item in value.items()]}
        if cls in _PARAMETERS:
            return self._pack_object(value, depth)
        if cls in (np.ndarray, np.memmap):
            return self._pack_array(np.asarray(value), depth)
        if isinstance(value, np.generic):
            return self._pack_scalar(value)
        if isinstance(value, datetime | timedelta):
            return self._pack_time(value)
        raise self._make_refusal(value)

    def _pack_pair(self, key: Any, item: Any, depth: int) -> list[Tree]:
        self.path.append(key)
        pair = [self.pack(key, depth + 1), self.pack(item, depth + 1)]
        self.path.pop()
        return pair

    def _pack_object(self, value: Any, depth: int) -> Tree:
        cls = type(value)
        parameters = {name: getattr(value, name) for name in _PARAMETERS[cls]}
        if (rounded := getattr(value, _ROUNDED, None)) is not None:
            parameters[_ROUNDED] = rounded
        if cls is Joint:
            parameters["parts"] = dict(value.parts)
        try:
            refuse_inconsistent(cls, parameters)
        except (TypeError, ValueError) as problem:
            raise ValueError(
                f"{self._describe_failure()}: got {problem}, expected one that tamis made"
            ) from None
        return {_TAGS[cls]: {name: self.pack(item, depth + 1) for name, item in parameters.items()}}

    def _pack_array(self, value: NDArray[Any], depth: int) -> Tree:
        kind = value.dtype.kind  # NumPy's letter: U and S for texts, O for objects, m and M for times
        if value.dtype.newbyteorder("<").str in DTYPES:
            return {"array": self._add_array(value)}
        if kind in "US":  # arrays of the codes of their characters
            tag, code = ("texts", np.uint32) if kind == "U" else ("byte texts", np.uint8)
            width = max(1, value.dtype.itemsize // np.dtype(code).itemsize)
            plain = value.astype(f"={kind}{width}", order="C", copy=False)
            return {tag: self._add_array(plain.reshape(-1).view(code).reshape(*value.shape, width))}
        if kind == "O":
            return {"objects": [list(value.shape), [self.pack(cell, depth + 1) for cell in value.flat]]}
        raise self._make_refusal(value)

    def _add_array(self, array: NDArray[Any]) -> str:
        number = len(self.new) + len(self.given)
        while (name := f"array{number}") in self.given or name in self.new:
            number += 1
        self.new[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        return name

    def _pack_scalar(self, value: np.generic) -> Tree:
        if value.dtype.kind in "mM" and value.dtype.newbyteorder("<").str in DTYPES:
            return {"scalar": self._add_array(np.asarray(value))}
        packer = _PACKERS.get(type(plain := value.item()))
        if isinstance(plain, bool):
            return plain
        if packer is None:  # a record; a float longer than Python's
            raise self._make_refusal(value)
        return packer(plain)

    def _pack_time(self, value: Any) -> Tree:
        """Pack a time of pandas, whose types derive from Python's.

        Raise for NaT, for a time with nanoseconds, and for other subclasses of Python's types.
        """
        convert = getattr(value, "to_pydatetime" if isinstance(value, datetime) else "to_pytimedelta", None)
        if (
            convert is None
            or value != value
            or getattr(value, "nanosecond", getattr(value, "nanoseconds", 0))
        ):
            raise self._make_refusal(value)
        return _PACKERS[type(plain := convert())](plain)

    def _describe_failure(self) -> str:
        names = [key if type(key) is str else repr(key)[:40] for key in self.path]
        return f"{'.'.join(names) or 'the value'} cannot be saved"

    def _make_refusal(self, value: object) -> TypeError:
        kind = type(value).__name__
        if isinstance(value, _GENERATORS):
            return TypeError(f"{self._describe_failure()}: got a {kind}, expected a seed: pass an int")
        what = f"a {kind}"
        if isinstance(value, type) or isroutine(value):
            what = f"{'the class' if isinstance(value, type) else 'the function'} {value.__name__}"
        elif isinstance(value, np.ndarray | np.generic):
            what += f" of type {value.dtype}"
        return TypeError(f"{self._describe_failure()}: got {what}, {_EXPECTED}")


def _pack_float(value: float) -> Tree:
    return value if isfinite(value) else {"float": repr(value)}


def _pack_text(value: str) -> Tree:
    """Pack a string; encode one with lone surrogates (halves of characters of UTF-16).

    A JSON reader could join two of them.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"text": b64encode(value.encode(errors="surrogatepass")).decode()}
    return value


def _pack_datetime(value: datetime) -> Tree:
    """Pack as a list: the time in ISO format, its `fold`, and its zone.

    The zone is its name, or its offset as the parts of a timedelta, or None.
    """
    zone: Tree = None
    if isinstance(value.tzinfo, ZoneInfo) and value.tzinfo.key:
        zone = value.tzinfo.key
    elif (offset := value.utcoffset()) is not None:
        zone = [offset.days, offset.seconds, offset.microseconds]
    return {"datetime": [value.replace(tzinfo=None).isoformat(), value.fold, zone]}


# Functions that pack values of exactly these types: subclasses may have further data.
_PACKERS: dict[type, Callable[[Any], Tree]] = {
    int: lambda value: value if -_LARGE_INTEGER < value < _LARGE_INTEGER else {"int": hex(value)},
    float: _pack_float,
    complex: lambda value: {"complex": repr(value)},
    str: _pack_text,
    bytes: lambda value: {"bytes": b64encode(value).decode()},
    date: lambda value: {"date": value.isoformat()},
    datetime: _pack_datetime,
    timedelta: lambda value: {"timedelta": [value.days, value.seconds, value.microseconds]},
    Decimal: lambda value: {"Decimal": str(value)},
}


class _Reader:
    """Makes values from a tree and the arrays that it names."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.nested: dict[str, Callable[[Any, int], Any]] = {
            "tuple": lambda content, depth: tuple(self._read_list(content, depth)),
            "dict": self._read_dict,
            "array": lambda content, _: self._read_array(content),
            "scalar": lambda content, _: self._read_array(content).reshape(())[()],
            "texts": lambda content, _: self._read_texts(content, np.uint32, "U"),
            "byte texts": lambda content, _: self._read_texts(content, np.uint8, "S"),
            "objects": self._read_objects,
        }

    def read(self, tree: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("values nested too deep")
        cls = type(tree)
        if tree is None or cls in (bool, int, str):
            return tree
        if cls is float:
            return tree if isfinite(tree) else _fail("a float that JSON does not have")
        if cls is list:
            return self._read_list(tree, depth)
        if cls is not dict or len(tree) != 1:
            return _fail(f"a {cls.__name__} that is no value")
        ((tag, content),) = tree.items()
        if tag in self.nested:
            return self.nested[tag](content, depth)
        if tag in _READERS:
            return _READERS[tag](content)
        if tag in _CLASSES:
            return self._make(_CLASSES[tag], content, depth)
        return _fail(f"the unknown type {str(tag)[:40]!r}: upgrade tamis if a newer one wrote it")

    def _read_list(self, tree: Any, depth: int) -> list[Any]:
        return [self.read(item, depth + 1) for item in _expect(tree, list)]

    def _read_dict(self, tree: Any, depth: int) -> dict[Any, Any]:
        pairs = [self._read_list(pair, depth) for pair in _expect(tree, list)]
        items = {key: value for key, value in pairs}  # noqa: C416 (dict() would take pairs of any kind)
        return items if len(items) == len(pairs) else _fail("a key that comes twice")

    def _read_array(self, name: Any) -> NDArray[Any]:
        array = self.arrays[_expect(name, str)]
        if array.dtype.newbyteorder("<").str not in DTYPES:
            return _fail(f"an array of type {array.dtype}")  # type: ignore[no-any-return]
        return _freeze(array.copy() if array.flags.writeable else array)

    def _read_texts(self, name: Any, code: type, kind: str) -> NDArray[Any]:
        codes = self._read_array(name)
        if codes.dtype != code or not codes.ndim or codes.max(initial=0) > 0x10FFFF:
            return _fail("an array that holds no characters")  # type: ignore[no-any-return]
        *shape, width = codes.shape
        flat = np.ascontiguousarray(codes).reshape(-1)
        return _freeze(flat.view(f"{kind}{width}").reshape(shape))

    def _read_objects(self, tree: Any, depth: int) -> NDArray[Any]:
        shape, cells = _expect(tree, list)
        values = self._read_list(cells, depth)
        if any(type(side) is not int or side < 0 for side in shape) or prod(shape) != len(values):
            return _fail("an array of another size than its shape")  # type: ignore[no-any-return]
        array = np.empty(len(values), dtype=object)
        for index, value in enumerate(values):  # one by one, because NumPy would read lists as rows
            array[index] = value
        return _freeze(array.reshape(shape))

    def _make(self, cls: type, tree: Any, depth: int) -> Any:
        if _expect(tree, dict).keys() - {_ROUNDED} != set(_PARAMETERS[cls]):
            _fail(f"a {cls.__name__} with other parameters")
        parameters = {name: self.read(content, depth + 1) for name, content in tree.items()}
        refuse_inconsistent(cls, parameters)
        return cls(**parameters)


def _read_timedelta(content: Any) -> timedelta:
    days, seconds, microseconds = (_expect(part, int) for part in _expect(content, list))
    return timedelta(days, seconds, microseconds)


def _read_datetime(content: Any) -> datetime:
    text, fold, name_or_offset = _expect(content, list)
    zone: tzinfo | None = ZoneInfo(name_or_offset) if isinstance(name_or_offset, str) else None
    if isinstance(name_or_offset, list):
        zone = timezone(_read_timedelta(name_or_offset))
    return datetime.fromisoformat(text).replace(fold=fold, tzinfo=zone)


# Functions that read what `_PACKERS` wrote, by tag.
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda content: int(content, 16),
    "float": lambda content: (
        float(content) if content in ("nan", "inf", "-inf") else _fail("an unknown float")
    ),
    "complex": lambda content: complex(_expect(content, str)),
    "text": lambda content: b64decode(content, validate=True).decode(errors="surrogatepass"),
    "bytes": lambda content: b64decode(content, validate=True),
    "date": date.fromisoformat,
    "datetime": _read_datetime,
    "timedelta": _read_timedelta,
    "Decimal": lambda content: Decimal(_expect(content, str)),
}


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _expect(content: Any, cls: type) -> Any:
    """Return the content; raise if it is not of this type."""
    if type(content) is not cls:
        raise ValueError(f"a {type(content).__name__} in place of a {cls.__name__}")
    return content


def _fail(reason: str) -> Any:
    """Raise a ValueError; the type of the result lets a conditional expression call this."""
    raise ValueError(reason)
