"""A file of data gives back what it was given, or says in one line why it does not."""

import hashlib
import io
import json
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tamis.persistence import archive

CONTENT = {"kind": "naïve", "alpha": 0.1, "names": ["a", None, True]}
ARRAYS: dict[str, Any] = {"counts": np.arange(6).reshape(2, 3), "means": np.array([np.nan, -0.0])}

numbers = hnp.scalar_dtypes()  # not longer than 64 bits, or 128 if complex
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.tamis"
    archive.write(path, CONTENT, ARRAYS)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(raw: bytes) -> bytes:
    """With the digest that a forger would give it."""
    return raw[:-64] + hashlib.sha256(raw[:-64]).hexdigest().encode()


def forge(path: Path, parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """An archive of these members, digests and all."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
        archive.comment = b"tamis sha256 " + b"0" * 64
    path.write_bytes(sealed(buffer.getvalue()))
    return path


def announce(parts: dict[str, bytes], change: Callable[[Any], None]) -> dict[str, bytes]:
    """The members, with a manifest that was changed and has a digest again."""
    manifest = json.loads(parts["manifest.json"])
    del manifest["sha256"]
    change(manifest)
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    manifest["sha256"] = hashlib.sha256(text).hexdigest()
    raw = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    return {**parts, "manifest.json": raw}


def refused(path: Path, match: str) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        archive.read(path)
    message = str(caught.value)
    assert message.startswith(f"got {path}, which ")
    assert "expected" in message
    assert "\n" not in message


def assert_same(found: dict[str, Any], given: dict[str, Any]) -> None:
    assert list(found) == list(given)
    for name, array in given.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.astype(found[name].dtype).tobytes()
        assert not found[name].flags.writeable


@settings(max_examples=50, deadline=None)
@given(data=st.data(), tree=trees)
def test_what_was_written_is_read_to_the_bit(folder: Path, data: Any, tree: Any) -> None:
    shapes = hnp.array_shapes(min_dims=0, min_side=0, max_side=4)
    names = st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True)
    content = {"tree": tree}
    given_arrays = data.draw(st.dictionaries(names, hnp.arrays(numbers, shapes), max_size=3))
    archive.write(folder / "any.tamis", content, given_arrays)
    found, arrays = archive.read(folder / "any.tamis")
    assert found == content
    assert_same(arrays, given_arrays)


def test_any_order_of_axes_and_bytes_is_read_as_the_same_numbers(tmp_path: Path) -> None:
    given_arrays = {"f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "b": np.arange(3, dtype=">i4")}
    archive.write(tmp_path / "m", {}, given_arrays | {"s": np.arange(9)[::-2]})
    _, arrays = archive.read(tmp_path / "m")
    assert_same(arrays, given_arrays | {"s": np.arange(9)[::-2]})


def test_the_same_model_is_the_same_file(saved: Path, tmp_path: Path) -> None:
    archive.write(tmp_path / "again", CONTENT, ARRAYS)
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_numpy_and_any_zip_tool_read_the_members(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", "counts.npy", "means.npy"]
    counts = np.load(io.BytesIO(members(saved)["counts.npy"]), allow_pickle=False)
    assert np.array_equal(counts, ARRAYS["counts"])


def test_a_file_cut_short_anywhere_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in range(len(whole)):
        saved.write_bytes(whole[:length])
        refused(saved, "not a model that tamis saved|cut short")


def test_a_file_changed_in_any_byte_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in range(len(whole)):
        flipped = whole[place] ^ (1 << place % 8)
        saved.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        refused(saved, "not a model that tamis saved|cut short|was changed")


def test_a_file_with_more_at_its_end_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + b"\0")
    refused(saved, "cut short")


def test_a_forged_digest_lets_no_wrong_number_through(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in range(len(whole) - 64):
        saved.write_bytes(sealed(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]))
        try:
            content, arrays = archive.read(saved)
        except ValueError:
            continue
        assert content == CONTENT  # it was a date or an attribute, which nobody reads
        assert_same(arrays, ARRAYS)


def test_a_newer_format_asks_for_an_upgrade(saved: Path) -> None:
    forge(saved, announce(members(saved), lambda manifest: manifest.update(format=2)))
    refused(saved, "written by a newer tamis in format 2, expected format 1: upgrade tamis")


@pytest.mark.parametrize("version", [0, -1, True, "1", None, 1.0])
def test_a_format_that_never_was_is_refused(saved: Path, version: Any) -> None:
    forge(saved, announce(members(saved), lambda manifest: manifest.update(format=version)))
    refused(saved, "not of format 1")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"P",
        b"hello\n",
        pickle.dumps({"a": 1}),
        b"PK\x05\x06" + bytes(18),
        b"PK\x03\x04",
        b"tamis sha256 " + hashlib.sha256(b"tamis sha256 ").hexdigest().encode(),
        sealed(b"PK\x03\x04tamis sha256 " + bytes(64)),
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_another_kind_of_file_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "other").write_bytes(raw)
    refused(tmp_path / "other", "not a model that tamis saved|cut short")


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused(tmp_path / "other.zip", "not from tamis")
    refused(forge(tmp_path / "other.zip", {"readme.txt": b"hello"}), "does not begin with manifest.json")
    refused(forge(tmp_path / "other.zip", {}), "no ZIP archive")


class Bomb:
    """Whoever unpickles it runs its code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_no_code_runs_from_a_pickle_in_an_array(saved: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    raw = buffer.getvalue()
    data = raw[raw.index(b"\n") + 1 :]
    entry = {"name": "x", "dtype": "|O", "shape": [1], "sha256": hashlib.sha256(data).hexdigest()}
    parts = announce(members(saved), lambda manifest: manifest.update(arrays=[entry]))
    forge(saved, {"manifest.json": parts["manifest.json"], "x.npy": raw})
    refused(saved, "of type '|O', not of numbers")
    entry.update(dtype="<i8", shape=[len(data) // 8])
    parts = announce(members(saved), lambda manifest: manifest.update(arrays=[entry]))
    forge(saved, {"manifest.json": parts["manifest.json"], "x.npy": raw})
    refused(saved, r"x\.npy")


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ({"shape": [2, 4]}, "bytes and declares"),
        ({"shape": [10**15]}, "bytes and declares"),
        ({"shape": [0, 10**18]}, "bytes and declares"),
        ({"shape": [10**30]}, "has no shape"),
        ({"shape": [-2, -3]}, "has no shape"),
        ({"shape": [True, 6]}, "has no shape"),
        ({"shape": [1] * 70}, "dimensions"),
        ({"shape": [3, 2]}, "not the array"),
        ({"shape": 6}, "has no shape"),
        ({"dtype": "<f8"}, "not the array"),
        ({"dtype": "<U12"}, "not of numbers"),
        ({"dtype": ["<i8"]}, "not of numbers"),
        ({"dtype": "builtins.object"}, "not of numbers"),
        ({"name": "other"}, "other members"),
        ({"name": "means"}, "other members"),
        ({"name": "../counts"}, "without a name"),
        ({"sha256": "0" * 64}, "not the array"),
        ({"sha256": None}, "without a name or digest"),
        ({"more": 1}, "not an array"),
    ],
)
def test_an_array_that_is_not_as_announced_is_refused(saved: Path, entry: dict[str, Any], match: str) -> None:
    def change(manifest: Any) -> None:
        manifest["arrays"][0].update(entry)

    forge(saved, announce(members(saved), change))
    refused(saved, match)


@pytest.mark.parametrize("arrays", [None, {}, [1], [["counts"]], "counts"])
def test_a_manifest_of_another_make_is_refused(saved: Path, arrays: Any) -> None:
    forge(saved, announce(members(saved), lambda manifest: manifest.update(arrays=arrays)))
    refused(saved, "not a model that tamis saved")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b"{",
        b"\xff\xfe",
        b'{"format":1,"format":1}',
        b"[" * 100_000,
        b'{"format":' + b"9" * 5000 + b"}",
        b'{"format":NaN}',
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_a_manifest_that_is_no_manifest_is_refused(saved: Path, raw: bytes) -> None:
    forge(saved, {**members(saved), "manifest.json": raw})
    refused(saved, "not a model that tamis saved")


def test_members_too_many_or_too_few_are_refused(saved: Path) -> None:
    parts = members(saved)
    refused(forge(saved, {**parts, "more.npy": parts["means.npy"]}), "other members than its manifest names")
    refused(forge(saved, {name: parts[name] for name in list(parts)[:-1]}), "other members")
    twice = announce(parts, lambda manifest: manifest["arrays"].append(manifest["arrays"][0]))
    refused(forge(saved, twice), "other members")


def test_a_bomb_that_unpacks_to_more_than_the_file_is_refused(saved: Path) -> None:
    parts = members(saved) | {"counts.npy": bytes(10**7)}
    refused(forge(saved, parts, zipfile.ZIP_DEFLATED), "compressed or encrypted")


def test_a_bomb_of_members_that_share_their_bytes_is_refused(saved: Path) -> None:
    entry = members(saved)
    forge(saved, {"manifest.json": entry["manifest.json"], "zeros.npy": bytes(4096)})
    raw = saved.read_bytes()
    start = raw.rindex(b"PK\x01\x02")
    end = raw.rindex(b"PK\x05\x06")
    record, tail = raw[start:end], bytearray(raw[end:])
    tail[8:10] = tail[10:12] = (6).to_bytes(2, "little")
    tail[12:16] = (int.from_bytes(tail[12:16], "little") + 4 * len(record)).to_bytes(4, "little")
    saved.write_bytes(sealed(raw[:end] + 4 * record + bytes(tail)))
    refused(saved, "longer than itself|not a model that tamis saved")


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"does not exist, expected a saved model: check the path"):
        archive.read(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="expected a file in a directory that exists: make"):
        archive.write(tmp_path / "nowhere" / "model", {}, {})


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    refused(tmp_path, "a directory")
    with pytest.raises(ValueError, match="is a directory, expected the name of a file"):
        archive.write(tmp_path, {}, {})


@pytest.mark.parametrize(
    "array", [np.array([None]), np.array(["a"]), np.zeros(1, np.longdouble), np.zeros(1, "i4,f4")]
)
def test_arrays_that_hold_no_numbers_are_not_written(saved: Path, array: Any) -> None:
    before = saved.read_bytes()
    with pytest.raises(TypeError, match=r"array 'x' is of type .*, expected numbers"):
        archive.write(saved, {}, {"x": array})
    assert saved.read_bytes() == before


@pytest.mark.parametrize("name", ["", ".", "a/b", "..", "ü", "a" * 200, "a b"])
def test_arrays_with_names_that_are_no_file_names_are_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="expected letters, digits"):
        archive.write(tmp_path / "m", {}, {name: np.zeros(1)})


@pytest.mark.parametrize(
    "thing",
    [(1,), {1: 2}, float("nan"), "\ud800", b"", object(), 10**5000, np.int64(1)],
    ids=lambda thing: type(thing).__name__,
)
def test_a_manifest_that_json_would_change_is_not_written(tmp_path: Path, thing: Any) -> None:
    with pytest.raises(TypeError, match=r"expected what pack\(\) makes"):
        archive.write(tmp_path / "m", {"thing": thing}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        archive.write(saved, {}, {})
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_private_file_stays_private_and_a_link_a_link(saved: Path) -> None:
    saved.chmod(0o600)
    link = saved.with_name("link")
    link.symlink_to(saved)
    archive.write(link, {"new": 1}, {})
    assert link.is_symlink()
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert archive.read(saved) == ({"new": 1}, {})
