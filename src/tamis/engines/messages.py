"""Encode a statistic as bytes in Arrow's stream format, to send it between processes.

The stream has one row per array,

    name   string         the array's name in the tree below
    type   string         the dtype as NumPy writes it, one of `persistence.archive.DTYPES`
    shape  list<int64>
    data   large_binary   the numbers, in row-major order and little-endian

and the metadata of the stream's schema hold the rest as JSON: a tree whose nodes are

    {"record": [module, name, fields]}     a dataclass of tamis, such as `Joint`, with a node for each field
    {"records": [node, …]}                 a tuple with records or models in it
    {"named records": [[key, node], …]}    a mapping with records or models in it
    {"model": [class name, content]}       a fitted model, with the content that a saved file would have
    {"value": content}                     anything else, converted to JSON by `persistence.values`

Decoding imports only modules of tamis, and calls only the dataclasses and models that a "record" or a "model"
names. So a process may decode the bytes of a process that it does not trust.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.extras import import_package
from tamis.persistence import values
from tamis.persistence.archive import DTYPES, Arrays

_PACKAGE = "tamis."
_SAVED = "tamis.estimators.saved"  # lists the models that can be sent; imported when a model is sent
_TREE_KEY = b"tamis"  # the key of the tree in the metadata


def encode(statistic: object) -> bytes:
    """Return a statistic as bytes; it may be any dataclass of numbers, names, arrays and fitted models.

    >>> from tamis.stats import Joint, Tally
    >>> joint = Joint({"sky": Tally.count(["sun", "rain"])}, log_likelihood=-1.5)
    >>> decode(encode(joint)) == joint, decode(encode(joint)).log_likelihood
    (True, -1.5)
    """
    pa = import_package("pyarrow", "a statistic that travels between processes")
    arrays: Arrays = {}
    tree = _pack(statistic, arrays)
    plain = {name: _to_little_endian(array) for name, array in arrays.items()}
    table = pa.record_batch(
        [
            pa.array(list(plain), pa.string()),
            pa.array([array.dtype.str for array in plain.values()], pa.string()),
            pa.array([list(array.shape) for array in plain.values()], pa.list_(pa.int64())),
            pa.array([array.reshape(-1).view(np.uint8).data for array in plain.values()], pa.large_binary()),
        ],
        schema=_make_schema(pa).with_metadata({_TREE_KEY: json.dumps(tree).encode()}),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decode(content: bytes) -> Any:
    """Return the statistic that `encode` wrote.

    Raise ValueError for bytes that are no stream of Arrow with these columns and a tree in JSON.
    """
    pa = import_package("pyarrow", "a statistic that travels between processes")
    try:
        with pa.ipc.open_stream(content) as reader:
            table = reader.read_all()
        if not table.schema.equals(_make_schema(pa)):
            raise ValueError("columns that a statistic does not have")
        columns = (table.column(name).to_pylist() for name in ("name", "type", "shape"))
        cells = (cell.as_buffer() for cell in table.column("data"))
        arrays = {
            name: _read_array(kind, shape, cell)
            for name, kind, shape, cell in zip(*columns, cells, strict=True)
        }
        tree = json.loads((table.schema.metadata or {})[_TREE_KEY])
    except (KeyError, OSError, TypeError, ValueError) as problem:  # Arrow's errors derive from these
        text = " ".join(str(problem).split())[:200]
        raise ValueError(f"got bytes that hold no statistic ({text}), expected those of encode()") from None
    return _unpack(tree, arrays, len(content))


def _make_schema(pa: Any) -> Any:
    shape = ("shape", pa.list_(pa.int64()))
    return pa.schema([("name", pa.string()), ("type", pa.string()), shape, ("data", pa.large_binary())])


def _to_little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(array).astype(array.dtype.newbyteorder("<"), order="C", copy=False)


def _read_array(kind: str, shape: list[int], cell: Any) -> NDArray[Any]:
    if kind not in DTYPES or prod(shape) * np.dtype(kind).itemsize != cell.size:
        raise ValueError(f"an array of type {kind!r} and shape {shape} of {cell.size} bytes")
    array = np.frombuffer(cell, dtype=kind).reshape(shape)
    array = array.astype(array.dtype.newbyteorder("="))  # a copy: the buffer need not be aligned
    array.setflags(write=False)
    return array


def _pack(value: Any, arrays: Arrays) -> Any:
    kind = type(value)
    if hasattr(value, "describe_state"):  # a fitted model
        name, content = import_module(_SAVED).REGISTRY.describe(value)
        return {"model": [name, values.pack(content, arrays, name)]}
    if is_dataclass(kind) and kind.__module__.startswith(_PACKAGE):
        parts = {each.name: _pack(getattr(value, each.name), arrays) for each in fields(value) if each.init}
        return {"record": [kind.__module__, kind.__qualname__, parts]}
    if kind is tuple and any(_is_record(item) for item in value):
        return {"records": [_pack(item, arrays) for item in value]}
    if isinstance(value, Mapping) and any(_is_record(item) for item in value.values()):
        return {
            "named records": [[values.pack(key, arrays), _pack(item, arrays)] for key, item in value.items()]
        }
    return {"value": values.pack(value, arrays, "the statistic")}


def _is_record(value: object) -> bool:
    """Return whether a value is a record or a model, which `values` cannot pack."""
    return is_dataclass(value) or hasattr(value, "describe_state")


def _unpack(tree: Any, arrays: Arrays, message_bytes: int) -> Any:
    """Return the value of a node; `message_bytes`, the length of all bytes, bounds what a model allocates."""
    ((tag, content),) = tree.items()
    if tag == "value":
        return values.unpack(content, arrays)
    if tag == "records":
        return tuple(_unpack(item, arrays, message_bytes) for item in content)
    if tag == "named records":
        return {values.unpack(key, arrays): _unpack(item, arrays, message_bytes) for key, item in content}
    if tag == "model":
        name, model = content
        return import_module(_SAVED).REGISTRY.restore(name, values.unpack(model, arrays), message_bytes)
    module, name, parts = content
    kind = _find_record(module, name)
    return kind(**{part: _unpack(item, arrays, message_bytes) for part, item in parts.items()})


def _find_record(module: str, name: str) -> type:
    """Return the dataclass of this name that a module of tamis defines."""
    try:
        kind = getattr(import_module(module), name, None) if module.startswith(_PACKAGE) else None
    except ImportError:
        kind = None
    if not isinstance(kind, type) or not is_dataclass(kind) or kind.__module__ != module:
        raise ValueError(
            f"got bytes of a {module}.{name}, expected a statistic of this tamis: install the same version "
            "in all processes"
        )
    return kind
