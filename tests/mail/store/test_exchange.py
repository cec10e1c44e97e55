"""A store as text, there and back, and text that is not what it should be."""

import gzip
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tamis_mail import schema
from tamis_mail.schema import Integer, Nullable, Text
from tamis_mail.store import Store, StoreError, database, exchange, maintenance
from tamis_mail.store.bundle_arrays import Bundle, pack
from tamis_mail.store.tables import CountTable
from tests.mail.store.memory import careless, digest, features, forget, learn, remembered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        learn(careless(store), range(10), "spam", 'mail "of" Zoë/spam\n')
        learn(store, range(10, 15), "ham")
        maintenance.decay(store)
        learn(store, range(15, 18), "spam?", rest=7)
        with store.transaction() as writer:
            writer.add_imported("ham", 12)
            writer.write_setting("threshold of Zoë", "0.9\n0.8")
        yield store


def text(store: Store) -> bytes:
    file = io.BytesIO()
    exchange.export(store, file)
    return file.getvalue()


def test_there_and_back_is_the_same_to_the_byte(store: Store, tmp_path: Path) -> None:
    written = text(store)
    with Store(tmp_path / "new") as new:
        assert exchange.load(new, io.BytesIO(written)) == 18
        assert text(new) == written
        assert remembered(new) == remembered(store)
        assert list(new.entries()) == list(store.entries())
        assert maintenance.check(new) == []
        assert new.message_weight() == 2
        forget(new, range(18))
        assert remembered(new) == {}


def test_counts_of_a_store_that_was_decayed_often_are_loaded(tmp_path: Path) -> None:
    largest = (1 << 62) - 1  # 19 digits
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b:
        with a.transaction() as writer:
            writer.add_imported("ham", largest)
            writer.add(CountTable(np.array([5], np.uint64), np.array([[largest]], np.int64)))
        exchange.load(b, io.BytesIO(text(a)))
        assert text(b) == text(a)
        assert remembered(b) == remembered(a)


def test_the_text_does_not_tell_in_what_order_things_were_learned(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b:
        learn(a, range(5), "spam")
        learn(a, range(5, 9), "ham")
        for number in (8, 7, 6, 5):
            learn(b, [number], "ham")
        learn(b, [100, *range(5)], "spam")
        forget(b, [100])
        maintenance.compact(a)
        assert text(a) == text(b)


def test_the_text_of_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b:
        assert text(a).splitlines()[0] == b"tamis-store 2 tokens - epoch 0 era 0"
        assert exchange.load(b, io.BytesIO(text(a))) == 0
        assert text(a) == text(b)


def test_an_export_of_the_first_format_is_read(store: Store, tmp_path: Path) -> None:
    remove_features(store)
    lines = (
        text(store).replace(b"tamis-store 2", b"tamis-store 1", 1).replace(b' - "', b' "').splitlines(True)
    )
    kinds = Counter(line.partition(b" ")[0] for line in lines)
    numbers = b" ".join(b"%d" % kinds[kind] for kind in (b"setting", b"label", b"message", b"count"))
    checksum = hashlib.sha256(b"".join(lines[:-1])).hexdigest().encode()
    with Store(tmp_path / "new") as new:
        exchange.load(new, io.BytesIO(b"".join(lines[:-1]) + b"end %s %s\n" % (numbers, checksum)))
        assert text(new) == text(store)


def remove_features(store: Store) -> None:
    """Make a store as an older tamis wrote it."""
    store.connection.execute("DELETE FROM message")
    store.connection.execute("DELETE FROM bundle")


def test_features_and_dates_are_exported_and_loaded(store: Store, tmp_path: Path) -> None:
    learn(store, [50, 51], stored=False)
    store.connection.execute("UPDATE message SET date = 1030115422 WHERE digest = ?", (digest(3),))
    with store.transaction() as writer:
        writer.store_features([digest(50)], None, [-1])
        writer.store_features([digest(51)], pack(Bundle.of([features(51)])), [7])
    written = text(store)
    with Store(tmp_path / "new") as new:
        exchange.load(new, io.BytesIO(written))
        assert text(new) == written
        for number in (*range(18), 51):
            assert new.find_features(digest(number)) == features(number).tolist()
        assert new.find_features(digest(50)) is None
        dates = [new.find_date(digest(number)) for number in (1, 3, 50, 51)]
        assert dates == [None, 1030115422, -1, 7]
        assert maintenance.check(new) == []


def test_the_features_of_a_long_message_are_on_several_lines(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_LINE_FEATURES", 7)
    monkeypatch.setattr(exchange, "_BATCH_FEATURES", 100)
    written = text(store)
    assert written.count(b"features " + digest(3).hex().encode()) == -(-len(features(3)) // 7)
    with Store(tmp_path / "new") as new:
        exchange.load(new, io.BytesIO(written))
        assert text(new) == written
        assert maintenance.check(new) == []


def test_a_message_with_more_features_than_a_bundle_has_is_refused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = max(len(features(number)) for number in range(18))
    with Store(tmp_path / "new") as new:
        monkeypatch.setattr(exchange, "MAX_BUNDLE_FEATURES", most - 1)
        with pytest.raises(StoreError, match=f"has more than {most - 1} features; nothing was loaded"):
            exchange.load(new, io.BytesIO(text(store)))
        monkeypatch.setattr(exchange, "MAX_BUNDLE_FEATURES", most)
        assert exchange.load(new, io.BytesIO(text(store))) == 18


def seal(lines: list[bytes]) -> bytes:
    """An export of these lines, with the right last line."""
    kinds = Counter(line.partition(b" ")[0] for line in lines)
    order = (b"setting", b"row", b"label", b"message", b"features", b"count")
    numbers = b" ".join(b"%d" % kinds[kind] for kind in order)
    return b"".join(lines) + b"end %s %s\n" % (numbers, hashlib.sha256(b"".join(lines)).hexdigest().encode())


def test_features_that_do_not_add_up_to_the_counts_are_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store, Store(tmp_path / "new") as new:
        learn(store, range(3), "spam")
        *lines, _ = text(store).splitlines(keepends=True)
        place = next(place for place, line in enumerate(lines) if line.startswith(b"features"))
        lines[place] = lines[place][:-13] + b"\n"  # one feature less
        with pytest.raises(
            StoreError, match=r"'spam' are not the sum of the features of its messages; nothing"
        ):
            exchange.load(new, io.BytesIO(seal(lines)))
        assert new.labels() == []


BAD_FEATURES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no message": (lambda line: b"features 00 " + line[42:], "there is no message 00"),
    "half a key": (lambda line: line[:-2] + b"\n", "features need the digest"),
    "no hexadecimal digits": (lambda line: line[:-2] + b"x\n", "features need the digest"),
    "out of order": (lambda line: line[:-1] + line[42:54] + b"\n", "not in ascending order"),
    "a message twice": (lambda line: line + line, "not in ascending order"),
}


@pytest.mark.parametrize("damage", BAD_FEATURES)
def test_features_that_no_message_has_are_refused(store: Store, tmp_path: Path, damage: str) -> None:
    change, words = BAD_FEATURES[damage]
    *lines, _ = changed(text(store), b"features", change).splitlines(keepends=True)
    with Store(tmp_path / "new") as new:
        with pytest.raises(StoreError, match=r"line \d+: .*; nothing was loaded") as error:
            exchange.load(new, io.BytesIO(seal(lines)))
        assert words in str(error.value)
        assert new.labels() == []


@pytest.fixture
def fruit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that a later migration adds, whose rows stand for themselves."""
    table = "CREATE TABLE fruit (name TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID"
    monkeypatch.setattr(database, "MIGRATIONS", {**database.MIGRATIONS, "9999-fruit": table})
    columns = {"name": Text(9), "number": Nullable(Integer(0, 9))}
    monkeypatch.setitem(schema.TABLES, "fruit", columns)
    for module in (schema, exchange, maintenance):
        monkeypatch.setattr(module, "LISTS", ("fruit",))


@pytest.mark.usefixtures("fruit")
def test_rows_of_a_list_are_exported_loaded_and_merged(store: Store, tmp_path: Path) -> None:
    rows = [("apple", 3), ("fig", None)]
    with store.transaction() as writer:
        assert all(writer.add_row("fruit", row) for row in reversed(rows))
        assert not writer.add_row("fruit", ("apple", 4))
    written = text(store)
    assert b'row ["fruit", "apple", 3]\nrow ["fruit", "fig", null]\n' in written
    with Store(tmp_path / "new") as new, Store(tmp_path / "other") as other:
        exchange.load(new, io.BytesIO(written))
        assert text(new) == written
        with other.transaction() as writer:
            writer.add_row("fruit", ("apple", 5))
        maintenance.merge(other, new)
        found = other.connection.execute("SELECT * FROM fruit ORDER BY name").fetchall()
        assert found == [("apple", 5), ("fig", None)]
        with pytest.raises(StoreError, match="is not empty"):
            exchange.load(other, io.BytesIO(written))


BAD_ROWS = {
    "no JSON": (b"apple", "a row needs one of the lists (fruit)"),
    "no list": (b'"fruit"', "a row needs one of the lists"),
    "another list": (b'["label", "a", 1]', "a row needs one of the lists"),
    "a list in a list": (b'[["fruit"], "a", 1]', "a row needs one of the lists"),
    "nested deeply": (b"[" * 50_000, "a row needs one of the lists"),
    "too few values": (b'["fruit", "a"]', "a row of fruit needs name, number"),
    "no text": (b'["fruit", "\\ud800", 1]', "a row of fruit needs name, number"),
    "a number out of range": (b'["fruit", "a", 10]', "fruit.number is 10, expected a whole number"),
    "the same key": (b'["fruit", "apple", 1]', "two rows with the same key"),
}


@pytest.mark.usefixtures("fruit")
@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_row_that_no_list_has_is_refused(store: Store, tmp_path: Path, row: str) -> None:
    with store.transaction() as writer:
        writer.add_row("fruit", ("apple", 3))
    line, words = BAD_ROWS[row]
    hostile = changed(text(store), b"row", lambda apple: apple + b"row " + line + b"\n")
    with Store(tmp_path / "new") as new:
        with pytest.raises(StoreError, match=r"line 4: .*; nothing was loaded") as error:
            exchange.load(new, io.BytesIO(hostile))
        assert words in str(error.value)
        assert new.connection.execute("SELECT count(*) FROM fruit").fetchone() == (0,)


def test_many_batches_are_one_store(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_BATCH_COUNTS", 50)
    with Store(tmp_path / "new") as new:
        exchange.load(new, io.BytesIO(text(store)))
        assert text(new) == text(store)
        assert maintenance.check(new) == []


def test_a_store_that_knows_something_is_not_loaded_into(store: Store, tmp_path: Path) -> None:
    with Store(tmp_path / "new") as new:
        learn(new, [1])
        before = text(new)
        with pytest.raises(StoreError, match="is not empty: load into a new one and merge"):
            exchange.load(new, io.BytesIO(text(store)))
        assert text(new) == before


def swap(data: bytes, first: bytes, second: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    one = next(place for place, line in enumerate(lines) if line.startswith(first))
    two = next(place for place, line in enumerate(lines) if line.startswith(second) and place != one)
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def changed(data: bytes, start: bytes, change: Callable[[bytes], bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if line.startswith(start))
    lines[place] = change(lines[place])
    return b"".join(lines)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing": (lambda data: b"", "line 1: is cut off"),
    "something else": (lambda data: b"Dear all,\n", "line 1: is not the first line of a store"),
    "no end": (lambda data: data[: data.rindex(b"end ")], "is cut off: the file is not complete"),
    "half": (lambda data: data[: len(data) // 2], "is cut off: the file is not complete"),
    "half an end": (lambda data: data[:-10], "is cut off"),
    "more": (lambda data: data + b"\n", "something follows the last line"),
    "newer format": (lambda data: data.replace(b"store 2", b"store 3", 1), "line 1: the format is 3"),
    "newer tokens": (
        lambda data: data.replace(b"tokens 3", b"tokens 999", 1),
        "line 1: the tokens are of version 999",
    ),
    "many epochs": (lambda data: data.replace(b"epoch 1", b"epoch 99", 1), "line 1: the epoch is 99"),
    "unknown": (
        lambda data: changed(data, b"label", lambda line: b"lable" + line[5:]),
        "begins with b'lable'",
    ),
    "order of kinds": (lambda data: swap(data, b"message", b"count"), "a message comes after a count"),
    "order of labels": (lambda data: swap(data, b"label", b"label"), "the label 'ham' is out of order"),
    "order of messages": (lambda data: swap(data, b"message", b"message"), "is out of order"),
    "order of features": (lambda data: swap(data, b"count", b"count"), "is out of order"),
    "a long line": (
        lambda data: changed(data, b"count", lambda line: b"count " + b"0" * 99_999 + b"\n"),
        "is too long",
    ),
    "a label without a name": (
        lambda data: changed(data, b"label", lambda line: b"label 0\n"),
        "strings of JSON",
    ),
    "a name that is no text": (
        lambda data: changed(data, b"label", lambda line: b'label 0 "\\ud800"\n'),
        "of JSON",
    ),
    "a name that is a number": (
        lambda data: changed(data, b"label", lambda line: b"label 0 7\n"),
        "strings of JSON",
    ),
    "a label without a weight": (
        lambda data: changed(data, b"label", lambda line: b'label x "a"\n'),
        "needs its weight",
    ),
    "a half setting": (
        lambda data: changed(data, b"setting", lambda line: b'setting "a\n'),
        "strings of JSON",
    ),
    "a setting of the first line": (
        lambda data: changed(data, b"setting", lambda line: b'setting "epoch" "zz"\n'),
        "'epoch' belongs to the first line",
    ),
    "a label that is none": (
        lambda data: changed(data, b"label", lambda line: b'label 0 "Ham"\n'),
        "is not the label 'ham'",
    ),
    "a short message": (
        lambda data: changed(data, b"message", lambda line: b"message 00 1\n"),
        "a message needs digest",
    ),
    "a message of no label": (
        lambda data: changed(data, b"message", lambda line: b'message 0000 77 1 0 1 0 0 - "a"\n'),
        "there is no label 77",
    ),
    "a feature of too few": (
        lambda data: changed(data, b"count", lambda line: line[:20] + b"\n"),
        "feature needs",
    ),
    "a feature of nothing": (
        lambda data: changed(data, b"count", lambda line: line[:18] + b" 0 0 0 0\n"),
        "needs 4 counts, not all zero",
    ),
    "a negative count": (
        lambda data: changed(data, b"count", lambda line: line[:18] + b" -1 0 0 1\n"),
        "a feature needs",
    ),
    "a count beyond the largest": (
        lambda data: changed(data, b"count", lambda line: line[:18] + b" 1 1 1 4611686018427387904\n"),
        "4611686018427387904 is too large, expected less than 4611686018427387904",
    ),
    "a weight beyond the largest": (
        lambda data: changed(data, b"label", lambda line: b'label 9999999999999999999 "ham"\n'),
        "9999999999999999999 is too large",
    ),
    "another count": (
        lambda data: changed(data, b"count", lambda line: line[:18] + b" 99 1 1 1\n"),
        "checksum differs",
    ),
    "a line less": (lambda data: changed(data, b"count", lambda line: b""), "expected the numbers of lines"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_is_said_with_its_line_and_nothing_is_loaded(
    store: Store, tmp_path: Path, damage: str
) -> None:
    change, words = DAMAGES[damage]
    with Store(tmp_path / "new") as new:
        before = text(new)
        with pytest.raises(StoreError, match=r"the text, line \d+: .*; nothing was loaded") as error:
            exchange.load(new, io.BytesIO(change(text(store))))
        assert words in str(error.value)
        assert "\n" not in str(error.value)
        assert text(new) == before


def test_a_compressed_file_that_is_cut_off_is_recognised(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(text(store))[:-100])
    with Store(tmp_path / "new") as new, gzip.open(path) as file:
        with pytest.raises(StoreError, match=r"text.gz, line \d+: cannot be read"):
            exchange.load(new, file)  # type: ignore[arg-type]  # it reads bytes, whatever it is
        assert new.labels() == []


def test_a_rest_needs_the_labels_of_guesses(tmp_path: Path) -> None:
    lines = b'tamis-store 1 tokens 1 epoch 0 era 0\nlabel 0 "spam?"\nmessage 00 0 9 7 1 0 0 "a"\n'
    with (
        Store(tmp_path / "new") as new,
        pytest.raises(StoreError, match=r"line 3: a message with a rest needs"),
    ):
        exchange.load(new, io.BytesIO(lines))
