"""A tree of values and its arrays ↔ one file that holds data and nothing else.

The file is a ZIP archive without compression that any tool can open:

    manifest.json   the format, the version of tamis, the caller's tree, the arrays that follow with the
                    SHA-256 of each, and the SHA-256 of the manifest itself, without this field
    NAME.npy        an array as NumPy writes it, in row-major order and little-endian

and its comment ends with the SHA-256 of all bytes before it, so that a file that was truncated or changed
anywhere is refused before its content is read. All dates are of 1980, so that one version of tamis writes the
same bytes for the same content.

Digests detect damage, not forgery: an attacker can compute them. So nothing in the file chooses code. There
is no pickle, types of arrays are looked up in a table here, and the bytes before an array's numbers are not
parsed but compared with those that its declared type and shape would have. No more is read than is declared,
and no more can be declared than the file is long.
"""

import errno
import json
import os
import re
import secrets
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

Content = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

# Types of arrays, as NumPy writes them.
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")  # of NumPy's times
_TIMES = {f"<{letter}8[{unit}]" for letter in "Mm" for unit in _UNITS}  # M: points in time; m: durations
_INTEGERS = {"|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8"}
_FLOATS = {"<f2", "<f4", "<f8", "<c8", "<c16"}
DTYPES = frozenset(_INTEGERS | _FLOATS | _TIMES)  # the types that arrays in a file may have

_FORMAT = 1
_MANIFEST, _SUFFIX = "manifest.json", ".npy"
_FIELDS = {"format", "tamis", "content", "arrays", "sha256"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_COMMENT, _DIGEST_LENGTH = b"tamis sha256 ", 64  # the comment is this text and 64 hexadecimal digits
_CHUNK = 1 << 20  # bytes that are hashed at a time
_START = b"PK\x03\x04"  # the first bytes of a ZIP archive that is not empty
_PARSE_ERRORS = (  # raised by zipfile and json for malformed files; a RecursionError is a RuntimeError
    AttributeError,
    BadZipFile,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)
# Each opening bracket of JSON becomes a list or dict of about 70 bytes in memory, so a forged manifest of
# empty lists, three bytes each, would need far more memory than it is long. `pack` of `values`, which turns a
# model into such a tree, writes about eight bytes per bracket. A manifest may have _FREE_BRACKETS
# brackets, and one more per _BYTES_PER_BRACKET bytes.
_FREE_BRACKETS, _BYTES_PER_BRACKET = 1 << 16, 6
_REMEDY = "copy it anew, or save the model again"


class _RefusedError(ValueError):
    """A file is refused; the message is the reason, to which `read` adds the name of the file."""


def write(path: str | os.PathLike[str], manifest: Content, arrays: Arrays) -> None:
    """Write a tree that JSON can hold, and arrays by name.

    The file is written under another name first, and then replaces an old file of this name atomically. If
    writing fails, the old file stays as it was.
    """
    target = Path(path).resolve()  # so that a symbolic link is not replaced by a file
    if target.is_dir():
        raise ValueError(f"got {path}, which is a directory, expected the name of a file: add one")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"got {path}, expected a file in a directory that exists: make {target.parent}"
        )
    plain = {name: _to_plain(name, array) for name, array in arrays.items()}
    members: dict[str, list[Any]] = {_MANIFEST: [_make_manifest(manifest, plain)]}
    for name, array in plain.items():
        members[name + _SUFFIX] = [_make_header(array.dtype.str, array.shape), _view_bytes(array)]
    with _open_replacement(target) as file:
        with ZipFile(file, "w", ZIP_STORED) as archive:
            for name, parts in members.items():
                _add_member(archive, name, parts)
            archive.comment = _COMMENT + b"0" * _DIGEST_LENGTH
        size = file.seek(0, os.SEEK_END) - _DIGEST_LENGTH
        digest = _compute_digest(file, size)
        file.seek(size)
        file.write(digest)


def read(path: str | os.PathLike[str]) -> tuple[Content, Arrays]:
    """Return the tree and the arrays that `write` was given; the arrays are read-only.

    Raise ValueError for a file that `write` did not make, and OSError for one that cannot be opened.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"got {path}, which does not exist, expected a saved model: check the path")
    if not source.is_file():
        kind = "a directory" if source.is_dir() else "no plain file"
        raise ValueError(f"got {path}, which is {kind}, expected a saved model: check the path")
    with source.open("rb") as file:
        try:
            size = _check_digest(file)
            with ZipFile(file) as archive:
                return _read_contents(archive, size)
        except _RefusedError as refusal:
            raise ValueError(f"got {path}, {refusal}") from None
        except (*_PARSE_ERRORS, OSError) as problem:
            if isinstance(problem, OSError) and problem.errno != errno.EINVAL:  # EINVAL: a forged offset
                raise
            raise ValueError(f"got {path}, {_make_refusal(' '.join(str(problem).split()))}") from None


def _to_plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in row-major order and little-endian, as in files."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"got an array named {name!r}, expected letters, digits and _.- in its name")
    little = array.dtype.newbyteorder("<")
    if little.str not in DTYPES:
        raise TypeError(f"array {name!r} is of type {array.dtype}, expected numbers: a file holds no objects")
    return np.asarray(array).astype(little, order="C", copy=False)


def _make_manifest(content: Content, arrays: Arrays) -> bytes:
    declared = [
        {
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "sha256": sha256(_view_bytes(array)).hexdigest(),
        }
        for name, array in arrays.items()
    ]
    tree: Content = {"format": _FORMAT, "tamis": version("tamis"), "content": content, "arrays": declared}
    try:
        text = _write_json(tree)
        is_same = json.loads(text) == tree
    except (TypeError, ValueError, RecursionError) as problem:
        raise TypeError(
            f"got a manifest that JSON cannot hold: {problem}; expected what pack() makes"
        ) from None
    if not is_same:  # a tuple, a key that is not a string
        raise TypeError("got a manifest that JSON would change, expected what pack() makes")
    return _write_json({**tree, "sha256": sha256(text).hexdigest()})


def _write_json(tree: Content) -> bytes:
    """Return a tree as JSON in the format that `read` compares with: compact, in UTF-8."""
    return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _make_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the bytes before the numbers in an .npy file of version 1.0, the same with every NumPy."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    # Spaces and a newline extend the text: with the 10 bytes before it, it fills a multiple of 64 bytes.
    width = -(-(10 + len(text) + 1) // 64) * 64 - 10
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", width) + text.ljust(width - 1).encode() + b"\n"


def _view_bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _add_member(archive: ZipFile, name: str, parts: list[Any]) -> None:
    info = ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    # Unix (3) and permissions of a Unix file, on every system, so that files of the same content are equal.
    info.create_system, info.external_attr = 3, 0o644 << 16
    info.file_size = sum(map(len, parts))  # known in advance, so that zipfile uses ZIP64 for large members
    with archive.open(info, "w") as member:
        for part in parts:
            member.write(part)


@contextmanager
def _open_replacement(target: Path) -> Iterator[BinaryIO]:
    """Open a new file, which replaces the target atomically once all of it is on the disk."""
    fresh = target.with_name(f".tamis-{secrets.token_hex(8)}")
    try:
        with fresh.open("x+b") as file:
            if target.exists():
                shutil.copymode(target, fresh)  # a private file stays private
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _compute_digest(file: BinaryIO, size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes, in hexadecimal."""
    file.seek(0)
    digest = sha256()
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest().encode()


def _check_digest(file: BinaryIO) -> int:
    """Return the length of the file; raise if it is no ZIP archive, or if its digest is wrong."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(len(_START))
    if not start or (start != _START and not _START.startswith(start)):
        raise _make_refusal("it is empty" if not size else "it is no ZIP archive")
    file.seek(max(0, size - _DIGEST_LENGTH - len(_COMMENT)))
    end = file.read()
    if not end.startswith(_COMMENT):
        raise _RefusedError(f"which was cut short or is not from tamis, expected a saved model: {_REMEDY}")
    if _compute_digest(file, size - _DIGEST_LENGTH) != end[len(_COMMENT) :]:
        raise _RefusedError(f"which was changed after it was saved, expected it as it was written: {_REMEDY}")
    return size


def _read_contents(archive: ZipFile, size: int) -> tuple[Content, Arrays]:
    members = archive.infolist()
    if not members or members[0].filename != _MANIFEST:
        raise _make_refusal(f"it does not begin with {_MANIFEST}")
    for member in members:
        if member.compress_type != ZIP_STORED or member.compress_size != member.file_size or member.flag_bits:
            raise _make_refusal(f"{member.filename!r} is compressed or encrypted, or has other flags")
    if sum(member.file_size for member in members) > size:
        raise _make_refusal("its members are longer than itself")
    manifest = _read_manifest(_read_member(archive, members[0]))
    declared = [_read_declaration(entry) for entry in manifest["arrays"]]
    expected = [name + _SUFFIX for name, *_ in declared]
    if [member.filename for member in members[1:]] != expected or len(set(expected)) < len(expected):
        raise _make_refusal("it holds other members than its manifest names")
    arrays = {
        name: _read_array(archive, member, dtype, shape, digest, size)
        for member, (name, dtype, shape, digest) in zip(members[1:], declared, strict=True)
    }
    return manifest["content"], arrays


def _read_manifest(raw: bytes) -> Content:
    if raw.count(b"[") + raw.count(b"{") > _FREE_BRACKETS + len(raw) // _BYTES_PER_BRACKET:
        raise _make_refusal("its manifest has too many lists")
    manifest = json.loads(raw.decode())
    if not isinstance(manifest, dict):
        raise _make_refusal("its manifest is not an object")
    format_number = manifest.get("format")
    # Checked first, because a newer format may differ in all else.
    if type(format_number) is int and format_number > _FORMAT:
        raise _RefusedError(
            f"which was written by a newer tamis in format {format_number}, "
            f"expected format {_FORMAT}: upgrade tamis"
        )
    if manifest.keys() != _FIELDS or type(format_number) is not int or format_number != _FORMAT:
        raise _make_refusal(f"its manifest is not of format {_FORMAT}")
    digest = manifest.pop("sha256")
    text = _write_json(manifest)
    if digest != sha256(text).hexdigest() or _write_json({**manifest, "sha256": digest}) != raw:
        raise _make_refusal("its manifest is not as it was written")
    if not isinstance(manifest["content"], dict) or not isinstance(manifest["arrays"], list):
        raise _make_refusal("its manifest has no content or no arrays")
    return manifest


def _read_declaration(entry: Any) -> tuple[str, str, tuple[int, ...], str]:
    """Return name, type, shape and digest of an array, as the manifest declares them."""
    if not isinstance(entry, dict) or entry.keys() != {"name", "dtype", "shape", "sha256"}:
        raise _make_refusal("its manifest declares something that is not an array")
    name, dtype, shape, digest = entry["name"], entry["dtype"], entry["shape"], entry["sha256"]
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(digest, str):
        raise _make_refusal("its manifest declares an array without a name or digest")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise _make_refusal(f"array {name!r} is of type {dtype!r}, not of numbers")
    if not isinstance(shape, list) or not all(
        type(length) is int and 0 <= length < 2**62 for length in shape
    ):
        raise _make_refusal(f"array {name!r} has no shape")
    return name, dtype, tuple(shape), digest


def _read_array(
    archive: ZipFile, member: ZipInfo, dtype: str, shape: tuple[int, ...], digest: str, size: int
) -> NDArray[Any]:
    array_type = np.dtype(dtype)
    if len(shape) > 32:
        raise _make_refusal(f"{member.filename!r} has {len(shape)} dimensions")
    header = _make_header(dtype, shape)
    declared_bytes = len(header) + prod(shape) * array_type.itemsize
    if declared_bytes != member.file_size:
        raise _make_refusal(f"{member.filename!r} has {member.file_size} bytes and declares {declared_bytes}")
    # If one axis has the length 0, the number of bytes does not limit the others.
    if 0 in shape and prod(length for length in shape if length) > size:
        raise _make_refusal(f"{member.filename!r} is larger than the file")
    raw = _read_member(archive, member)
    numbers = memoryview(raw)[len(header) :]
    if raw[: len(header)] != header or sha256(numbers).hexdigest() != digest:
        raise _make_refusal(f"{member.filename!r} is not the array that its manifest declares")
    # Read-only, as bytes are.
    array: NDArray[Any] = np.ndarray(shape, array_type, buffer=raw, offset=len(header))
    if not array_type.isnative:
        array = array.astype(array_type.newbyteorder("="))
        array.setflags(write=False)
    return array


def _read_member(archive: ZipFile, member: ZipInfo) -> bytes:
    """Return the bytes of a member, no more than its declared size."""
    with archive.open(member) as stream:
        return stream.read(member.file_size)


def _make_refusal(reason: str) -> _RefusedError:
    return _RefusedError(
        f"which is not a model that tamis saved ({reason}), expected one: check the path, or save again"
    )
