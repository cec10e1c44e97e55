"""Files of models and tables of statistics that a stranger might send: valid ones, with changes.

A `Forgery` is a file taken apart: its manifest as a tree, and its arrays as bytes. A mutator changes one
thing in it, and `write` puts it together again with all digests right, so that only what the file says is
wrong. Every case is known by its number: the same number is the same file.
"""

import copy
import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

__all__ = ["INTEGERS", "MUTATORS", "Forgery", "parent_of", "places_in", "value_from"]


INTEGERS = (
    *(-1, 0, 1, 2, 3, 7, 64, 255, 1000, 65536, -1_000_000, 1_000_000, 30_000_000, 67_108_863),
    *(2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**31), -(2**63) + 1),
)
FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 0.5, 1e308, -1e308, 5e-324, 1e-300, 1e18)
_TAGS = (
    "tuple",
    "dict",
    "array",
    "scalar",
    "texts",
    "byte texts",
    "objects",
    "int",
    "float",
    "Decimal",
    "Keys",
)
_DTYPES = ("|b1", "|i1", "|u1", "<i4", "<i8", "<u4", "<u8", "<f4", "<f8", "<c16", "<M8[s]")


@dataclass
class Forgery:
    """A file taken apart."""

    manifest: dict[str, Any]
    members: list[tuple[str, bytes]]
    raw: bytes | None = None  # the whole file instead, if bytes of it were changed

    @classmethod
    def of(cls, raw: bytes) -> "Forgery":
        """Take a file apart."""
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
        manifest = json.loads(members[0][1])
        del manifest["sha256"]
        return cls(manifest, members[1:])

    def copy(self) -> "Forgery":
        """Another that can be changed."""
        return Forgery(copy.deepcopy(self.manifest), list(self.members), self.raw)

    def write(self) -> bytes:
        """The file, with digests that fit."""
        if self.raw is not None:
            return self.raw
        text = _json(self.manifest)
        manifest = _json({**self.manifest, "sha256": hashlib.sha256(text).hexdigest()})
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that come twice
            for name, raw in (("manifest.json", manifest), *self.members):
                archive.writestr(name, raw)
            archive.comment = b"tamis sha256 " + b"0" * 64
        return _sealed(buffer.getvalue())

    def arrays(self) -> list[dict[str, Any]]:
        """What the manifest says of arrays."""
        found: list[dict[str, Any]] = self.manifest["arrays"]
        return found

    def array(self, place: int) -> np.ndarray[Any, Any]:
        """An array that can be changed."""
        return np.array(np.load(io.BytesIO(self.members[place][1]), allow_pickle=False))

    def put(self, place: int, array: np.ndarray[Any, Any], shape: Sequence[int] | None = None) -> None:
        """Another array in that place, with digests that fit; it may claim another shape than it has."""
        entry = self.arrays()[place]
        array = np.ascontiguousarray(array)
        claimed = tuple(array.shape if shape is None else shape)
        dtype = array.dtype.newbyteorder("<").str
        header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {claimed!r}, }}"
        width = -(-(10 + len(header) + 1) // 64) * 64 - 10
        start = b"\x93NUMPY\x01\x00" + width.to_bytes(2, "little") + header.ljust(width - 1).encode() + b"\n"
        numbers = array.tobytes()
        entry.update(dtype=dtype, shape=list(claimed), sha256=hashlib.sha256(numbers).hexdigest())
        self.members[place] = (self.members[place][0], start + numbers)


def _json(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        errors="surrogatepass"
    )


def _sealed(raw: bytes) -> bytes:
    return raw[:-64] + hashlib.sha256(raw[:-64]).hexdigest().encode()


# ── mutators of files ──

Mutator = Callable[[Random, Forgery, Sequence[Forgery]], None]


def places_in(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values in a tree of JSON."""
    found = [at] if at else []
    items: Any = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found += places_in(value, (*at, key))
    return found


def parent_of(tree: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        tree = tree[key]
    return tree


def _pick(rng: Random, forged: Forgery, kinds: tuple[type, ...] = ()) -> tuple[Any, Any] | None:
    content = forged.manifest["content"]
    every = places_in(content)
    if kinds:
        every = [place for place in every if type(parent_of(content, place)[place[-1]]) in kinds]
    if not every:
        return None
    place = rng.choice(every)
    return parent_of(content, place), place[-1]


def value_from(rng: Random) -> Any:
    """Some value that a tree may hold."""
    number = rng.choice(INTEGERS)
    return rng.choice(
        [
            None,
            True,
            number,
            0.5,
            1e308,
            "",
            "x" * rng.choice([1, 1000]),
            [],
            [1] * rng.choice([1, 5, 1000]),
            {"tuple": []},
            {"tuple": [number, "a"]},
            {"dict": []},
            {"dict": [["a", 1], ["a", 2]]},
            {"float": rng.choice(["nan", "inf", "-inf", "1e5"])},
            {"int": hex(number**9)},
            {"array": f"array{rng.randrange(12)}"},
            {"Decimal": "1E+999999999"},
            {"Keys": {"values": {"tuple": list(range(rng.choice([0, 1, 3, 2000])))}}},
            {"objects": [[rng.choice([0, 1, 3, 2**40]), 0], []]},
            {"bytes": "AAAA"},
            {"datetime": ["2026-01-31T12:00:00", 0, "../../etc/passwd"]},
            {rng.choice(_TAGS): number},
        ]
    )


def change_number(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """A number of the manifest becomes an extreme one."""
    if found := _pick(rng, forged, (int, float)):
        holder, key = found
        number = rng.choice(INTEGERS)
        holder[key] = rng.choice(
            [number, {"float": repr(rng.choice(FLOATS[:3]))}, rng.choice(FLOATS[3:]), holder[key] + 1]
        )


def change_value(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """Any value of the manifest becomes another."""
    if found := _pick(rng, forged):
        found[0][found[1]] = value_from(rng)


def move_value(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """One part of the manifest, or of another file's, takes the place of another."""
    source = rng.choice([forged, rng.choice(others)])
    found, taken = _pick(rng, forged), _pick(rng, source)
    if found and taken:
        found[0][found[1]] = copy.deepcopy(taken[0][taken[1]])


def drop_value(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """A value of a list or dict of the manifest is gone, twice there, or has another name."""
    if found := _pick(rng, forged):
        holder, key = found
        if isinstance(holder, dict):
            value = holder.pop(key)
            if rng.random() < 0.6:
                holder[rng.choice([*_TAGS, key + "x", "Exact", "Moments", "Tally", "Gram", "Joint"])] = value
        elif rng.random() < 0.5:
            del holder[key]
        else:
            holder.extend(copy.deepcopy(holder[key]) for _ in range(rng.choice([1, 3, 1000])))


def nest(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """A value is wrapped many times."""
    if found := _pick(rng, forged):
        holder, key = found
        depth = rng.choice([3, 70, 400])
        for _ in range(depth):
            holder[key] = rng.choice([[holder[key]], {"tuple": [holder[key]]}])


def nest_without_end(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """JSON that is deeper than Python's stack."""
    depth = rng.choice([2_000, 100_000])
    raw = b"[" * depth + b"]" * depth
    if rng.random() < 0.5:
        raw = b'{"a":' * depth + b"1" + b"}" * depth
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("manifest.json", raw)
        archive.comment = b"tamis sha256 " + b"0" * 64
    forged.raw = _sealed(buffer.getvalue())


def change_cells(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """Some cells of an array, or all, become extreme."""
    if not forged.members:
        return
    place = rng.randrange(len(forged.members))
    array = forged.array(place)
    if not array.size:
        return
    cells = rng.choice([1, 1, 3, array.size])
    flat = array.reshape(-1)
    where = [rng.randrange(array.size) for _ in range(cells)] if cells < array.size else slice(None)
    value: Any = rng.choice(FLOATS) if array.dtype.kind == "f" else rng.choice(INTEGERS)
    with np.errstate(all="ignore"):
        if array.dtype.kind in "iu":
            value = np.array([value], dtype=np.int64).astype(array.dtype)[0]
        flat[where] = value
    forged.put(place, array)


def change_shape(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """An array has other axes, or fewer cells, or says so."""
    if not forged.members:
        return
    place = rng.randrange(len(forged.members))
    array = forged.array(place)
    way = rng.randrange(7)
    if way == 0:
        forged.put(place, array.T)
    elif way == 1:
        forged.put(place, array.reshape(-1))
    elif way == 2 and array.ndim:
        forged.put(place, array[: rng.randrange(len(array) + 1)])
    elif way == 3 and array.ndim:
        forged.put(place, np.concatenate([array] * rng.choice([2, 3])))
    elif way == 4:
        forged.put(place, array[..., None] if rng.random() < 0.5 else array[None])
    elif way == 5:  # no cells, of any other size
        sides = [0, *(rng.choice([1, 3, 1000, 30_000_000, 2**40]) for _ in range(max(1, array.ndim - 1)))]
        rng.shuffle(sides)
        forged.put(place, array.reshape(-1)[:0], sides)
    else:
        sides = [rng.choice([*array.shape, 0, 1, 2**20, 2**61]) for _ in range(rng.randrange(5))]
        forged.put(place, array, sides)


def change_dtype(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """The bytes or the numbers of an array are of another type."""
    if not forged.members:
        return
    place = rng.randrange(len(forged.members))
    array, dtype = forged.array(place), np.dtype(rng.choice(_DTYPES))
    with np.errstate(all="ignore"):
        if rng.random() < 0.5 and dtype.itemsize == array.dtype.itemsize:
            forged.put(place, array.view(dtype))
        elif dtype.kind not in "Mc" and array.dtype.kind not in "Mm":
            forged.put(
                place,
                np.nan_to_num(array.real).astype(dtype) if array.dtype.kind == "f" else array.astype(dtype),
            )


def swap_arrays(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """Two arrays change places, or one of another file takes the place of one."""
    if not forged.members:
        return
    one = rng.randrange(len(forged.members))
    source = rng.choice([forged, rng.choice(others)])
    if not source.members:
        return
    other = rng.randrange(len(source.members))
    mine, theirs = forged.array(one), source.array(other)
    forged.put(one, theirs)
    if source is forged:
        forged.put(other, mine)


def drop_array(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """An array is gone, twice there, or has another name; from the manifest, the members, or both."""
    if not forged.members:
        return
    place = rng.randrange(len(forged.members))
    way = rng.randrange(6)
    if way in (0, 2):
        del forged.arrays()[place]
    if way in (1, 2):
        del forged.members[place]
    if way in (3, 4):
        forged.arrays().append(dict(forged.arrays()[place]))
    if way == 4:
        forged.members.append(forged.members[place])
    if way == 5:
        name = rng.choice(["array99", "../x", "", "array0"])
        forged.arrays()[place]["name"] = name
        forged.members[place] = (name + ".npy", forged.members[place][1])


def change_entry(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """What the manifest says of an array, or of itself, is something else."""
    holder: Any = forged.manifest
    if forged.arrays() and rng.random() < 0.8:
        holder = rng.choice(forged.arrays())
    holder[rng.choice(list(holder))] = value_from(rng)


def change_bytes(rng: Random, forged: Forgery, others: Sequence[Forgery]) -> None:
    """Some bytes are others, or the end is missing; the digest of the whole fits."""
    raw = bytearray(forged.write())
    for _ in range(rng.choice([1, 2, 8])):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    if rng.random() < 0.2:
        raw = raw[: rng.randrange(len(raw))]
    forged.raw = _sealed(bytes(raw)) if rng.random() < 0.8 else bytes(raw)


MUTATORS: tuple[Mutator, ...] = (
    *(change_number, change_number, change_number, change_value, change_value, move_value, drop_value),
    *(change_cells, change_cells, change_cells, change_shape, change_shape, change_dtype, swap_arrays),
    *(nest, drop_array, change_entry, change_bytes, nest_without_end),
)
