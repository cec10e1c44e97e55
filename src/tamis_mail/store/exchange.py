"""Export a store as text, which programs and people can read, and load such a text.

The text has all of the store except the fitted weights and the log, which is a file of its own. Lines are
ASCII, end with a line feed and come in this order, so that stores of equal contents have equal text. Names
are strings of JSON. A label is identified by its index among the label lines, from 0. The rest of a message
is its weight under the other guessed label; its era is the number of prunings before it was learned.

    tamis-store 2 tokens 1 epoch 0 era 0      format, version of the tokens (- if none), decays, prunings
    setting "name" "value"                    other settings, by name
    row ["table", "key", 1]                   by table and key: a row of `listed`, `sent` or `word_list`
    label 0 "ham"                             by name: the weight imported from another filter, and the name
    message 9f…e2 0 1 0 1 0 1700000000 - "a"  by digest: its label, weight, rest, tokens, era, time, own date
                                              (- if unknown) and source
    features 9f…e2 00a1b2c3d4e5…              by digest: all features of a message, if they are stored; the
                                              features of a long message are divided among several lines
    count 00a1b2c3d4e5 3 0                    by feature: a count for each label
    end 0 0 2 17 17 4711 ab…01                the number of lines of each kind, in this order; the SHA-256 of
                                              all lines before

Format 1 has no rows, no dates and no features of messages. It is read, too.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import IO, NoReturn

import numpy as np

from tamis_mail.features import KEY_BITS
from tamis_mail.labels import GUESSED_LABELS
from tamis_mail.schema import (
    LISTS,
    MAX_BUNDLE_FEATURES,
    MAX_BUNDLE_MESSAGES,
    MAX_COUNT,
    MAX_DECAYS,
    MAX_LABELS,
    REPLICA_POSITION,
    TABLES,
    find_label_fault,
    find_row_fault,
    find_setting_fault,
)
from tamis_mail.store import maintenance, people
from tamis_mail.store.bundle_arrays import Bundle, pack
from tamis_mail.store.bundles import divide
from tamis_mail.store.database import StoreError
from tamis_mail.store.maintenance import versions
from tamis_mail.store.store import Entry, Store, Writer
from tamis_mail.store.tables import CountTable, FeatureKeys
from tamis_mail.tokens import VERSION

FORMAT = 2
_BATCH_COUNTS = 1 << 19  # counts that are written at once
_MAX_SETTINGS = 10_000  # a store has few; each import from another filter adds one
_BATCH_MESSAGES = 10_000  # messages whose features are read at once
_BATCH_FEATURES = 1 << 19  # features of messages that are stored at once
_MAX_ROWS = 1 << 26  # of all lists together; a word list of another filter may have millions
_MAX_LINE_BYTES = 1 << 16  # bytes of a line; the longest setting or source, fully escaped, is shorter
# The first words of lines, in their order.
_KINDS = (b"setting", b"row", b"label", b"message", b"features", b"count", b"end")
_LATER_KINDS = (b"row", b"features")  # that format 1 does not have
_LINE_FEATURES = 4000  # features of a message on one line

_HEADER = re.compile(
    rb"tamis-store (\d{1,9}) tokens (\d{1,9}(?:,\d{1,9})*|-) epoch (\d{1,9}) era (\d{1,9})\n"
)
_MESSAGE = re.compile(
    rb"message ([0-9a-f]{2,128}) (\d{1,9}) (\d{1,18}) (\d{1,18}) (\d{1,9}) (\d{1,9}) (-?\d{1,18}) "
    rb'(?:(-?\d{1,18}|-) )?(".*")\n'
)
_FEATURES = re.compile(rb"features ([0-9a-f]{2,128}) ((?:[0-9a-f]{%d})*)\n" % (KEY_BITS // 4))
_COUNT = re.compile(rb"count ([0-9a-f]{%d})((?: \d{1,19})+)\n" % (KEY_BITS // 4))
_END = re.compile(rb"end ((?:\d{1,18} )+)([0-9a-f]{64})\n")


def export(store: Store, file: IO[bytes]) -> None:
    """Write a store to a file as text."""
    digest = hashlib.sha256()
    n_lines = dict.fromkeys(_KINDS[:-1], 0)
    with store.snapshot():
        for line in _generate_lines(store):
            data = line.encode("ascii")
            kind = data.partition(b" ")[0]
            if kind in n_lines:  # not the first line
                n_lines[kind] += 1
            digest.update(data)
            file.write(data)
    totals = " ".join(map(str, n_lines.values()))
    file.write(f"end {totals} {digest.hexdigest()}\n".encode("ascii"))


def _generate_lines(store: Store) -> Iterator[str]:
    tokens = ",".join(map(str, versions(store))) or "-"
    decays_and_prunings = f"epoch {store.integer_setting('epoch')} era {store.prunings()}"
    yield f"tamis-store {FORMAT} tokens {tokens} {decays_and_prunings}\n"
    for name, value in store.connection.execute("SELECT name, value FROM setting ORDER BY name"):
        if name in ("weights", REPLICA_POSITION):  # weights are fitted again when the file is loaded
            continue
        if fault := find_setting_fault(name, value):
            raise StoreError(f"the store {store.name} cannot be exported ({fault}): see tamis store check")
        if name not in ("epoch", "era"):
            yield f"setting {json.dumps(name)} {json.dumps(value)}\n"
    for name in sorted(LISTS):
        for values in store.connection.execute(f"SELECT * FROM {name} ORDER BY 1"):
            if fault := find_row_fault(name, dict(zip(TABLES[name], values, strict=True))):
                raise StoreError(
                    f"the store {store.name} cannot be exported ({fault}): see tamis store check"
                )
            yield f"row {json.dumps([name, *values])}\n"
    labels = sorted(store.labels(), key=lambda label: label.name)
    for label in labels:
        yield f"label {label.lent} {json.dumps(label.name)}\n"
    label_indices = {label.name: index for index, label in enumerate(labels)}
    for entry in store.entries():
        date = store.find_date(entry.digest)
        yield (
            f"message {entry.digest.hex()} {label_indices[entry.label]} {entry.weight} {entry.other_weight} "
            f"{entry.token_version} {entry.prunings} {entry.time} {'-' if date is None else date} "
            f"{json.dumps(entry.source)}\n"
        )
    digests = (entry.digest for entry in store.entries())
    while batch := list(islice(digests, _BATCH_MESSAGES)):
        for digest, keys in zip(batch, store.feature_reader().find_many(batch), strict=True):
            if keys is not None:
                yield from _generate_feature_lines(digest, keys)
    columns = [label.id for label in labels]
    for table in store.count_slices():
        for key, counts in zip(table.keys.tolist(), table.counts[:, columns].tolist(), strict=True):
            yield f"count {key:012x} {' '.join(map(str, counts))}\n"


def _generate_feature_lines(digest: bytes, keys: FeatureKeys) -> Iterator[str]:
    text = keys.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - KEY_BITS // 8 :].tobytes().hex()
    length = _LINE_FEATURES * KEY_BITS // 4
    for start in range(0, max(len(text), 1), length):
        yield f"features {digest.hex()} {text[start : start + length]}\n"


def load(store: Store, file: IO[bytes]) -> int:
    """Load an export into an empty store in one transaction; return the number of messages.

    The settings of the store are replaced. Weights are not loaded: `Sieve.fit_weights` fits them again.
    """
    with store.transaction() as writer:
        for table in ("label", "journal", "run", *LISTS):
            if store.connection.execute(f"SELECT 1 FROM {table}").fetchone():
                raise StoreError(
                    f"the store {store.name} is not empty: load into a new one and merge (tamis store merge)"
                )
        store.connection.execute("DELETE FROM setting")
        messages = _Reader(store, writer, file).read()
        people.recount_correspondents(store)
        writer.drop_weights()
        return messages


class _Reader:
    """Reads an export line by line; error messages name the line."""

    def __init__(self, store: Store, writer: Writer, file: IO[bytes]) -> None:
        self._store = store
        self._writer = writer
        self._file = file
        self._line = 0
        self._format = FORMAT
        self._checksum = hashlib.sha256()
        self._n_lines = dict.fromkeys(_KINDS[:-1], 0)
        self._versions: set[int] = set()  # the versions of the tokens that the first line names
        self._labels: list[str] = []
        self._previous = b""  # the name, digest or feature of the line before, to check the order
        # What is not stored yet: digests of messages with their features, the number of these features, and
        # keys of features with their counts.
        self._messages: list[tuple[bytes, list[FeatureKeys]]] = []
        self._n_features = 0
        self._keys: list[int] = []
        self._counts: list[list[int]] = []

    def read(self) -> int:
        self._read_header(self._read_line())
        stage = 0  # the index in _KINDS of the line before
        while True:
            line = self._read_line()
            kind = line.partition(b" ")[0]
            if kind not in _KINDS:
                self._refuse(
                    f"begins with {kind[:20]!r}, expected {', '.join(known.decode() for known in _KINDS)}"
                )
            if _KINDS.index(kind) < stage:
                self._refuse(f"a {kind.decode()} comes after a {_KINDS[stage].decode()}")
            if _KINDS.index(kind) > stage:
                stage, self._previous = _KINDS.index(kind), b""
            if kind == b"end":
                break
            self._n_lines[kind] += 1
            self._checksum.update(line)
            {
                b"setting": self._read_setting,
                b"row": self._read_row,
                b"label": self._read_label,
                b"message": self._read_message,
                b"features": self._read_features,
                b"count": self._read_count,
            }[kind](line)
        self._read_end(line)
        self._store_features()
        self._add_counts()
        if faults := maintenance.compare_counts_with_features(self._store):
            self._refuse(faults[0])
        return self._n_lines[b"message"]

    def _read_line(self) -> bytes:
        try:
            line = self._file.readline(_MAX_LINE_BYTES)
        except (OSError, EOFError) as error:  # such as a compressed file that is cut off
            self._refuse(f"cannot be read ({error})")
        self._line += 1
        if not line.endswith(b"\n"):
            self._refuse(
                "is cut off: the file is not complete, get it again"
                if len(line) < _MAX_LINE_BYTES
                else "is too long"
            )
        return line

    def _refuse(self, fault: str) -> NoReturn:
        name = getattr(self._file, "name", "the text")
        raise StoreError(f"{name}, line {self._line}: {fault}; nothing was loaded")

    def _read_header(self, line: bytes) -> None:
        match = _HEADER.fullmatch(line)
        if not match:
            self._refuse(
                "is not the first line of a store in text: give a file that `tamis store export` wrote"
            )
        self._format = int(match[1])
        if self._format > FORMAT:
            self._refuse(f"the format is {self._format}, and this tamis reads {FORMAT}: upgrade it")
        self._versions = set() if match[2] == b"-" else {int(number) for number in match[2].split(b",")}
        if max(self._versions, default=0) > VERSION:
            self._refuse(
                f"the tokens are of version {max(self._versions)}, and this tamis knows {VERSION}: upgrade it"
            )
        if int(match[3]) > MAX_DECAYS:
            self._refuse(f"the epoch is {int(match[3])}, and at most {MAX_DECAYS} is possible")
        for name, value in (("epoch", int(match[3])), ("era", int(match[4]))):
            if value:
                self._writer.write_setting(name, value)
        self._checksum.update(line)

    def _parse_strings(self, text: bytes, number: int) -> list[str]:
        """Read strings of JSON that are separated by spaces."""
        values: list[object] = []
        decoder = json.JSONDecoder()
        remaining = text.decode("ascii", "replace").rstrip("\n")
        with suppress(ValueError, RecursionError):
            while remaining:
                value, end = decoder.raw_decode(remaining)
                values.append(value)
                remaining = remaining[end:].removeprefix(" ")
        strings = [value for value in values if isinstance(value, str) and _is_text(value)]
        if remaining or len(values) != number or len(strings) != number:
            self._refuse(f"expected {number} strings of JSON")
        return strings

    def _read_setting(self, line: bytes) -> None:
        name, value = self._parse_strings(line.partition(b" ")[2], 2)
        if name.encode() <= self._previous:
            self._refuse(f"the setting {name[:60]!r} is out of order")
        if name in ("epoch", "era"):
            self._refuse(f"the setting {name!r} belongs to the first line")
        if fault := find_setting_fault(name, value):
            self._refuse(fault)
        if self._n_lines[b"setting"] > _MAX_SETTINGS:
            self._refuse(f"there are more than {_MAX_SETTINGS} settings")
        self._previous = name.encode()
        self._writer.write_setting(name, value)

    def _read_row(self, line: bytes) -> None:
        values: object = None
        with suppress(ValueError, RecursionError):
            values = json.loads(line.partition(b" ")[2])
        if not isinstance(values, list) or not values or values[0] not in LISTS:
            self._refuse(f"a row needs one of the lists ({', '.join(LISTS)}) and its values, in JSON")
        if self._n_lines[b"row"] > _MAX_ROWS:
            self._refuse(f"there are more than {_MAX_ROWS} rows")
        table, *row = values
        if len(row) != len(TABLES[table]) or not all(
            _is_text(value) for value in row if isinstance(value, str)
        ):
            self._refuse(f"a row of {table} needs {', '.join(TABLES[table])}")
        if fault := find_row_fault(table, dict(zip(TABLES[table], row, strict=True))):
            self._refuse(fault)
        if not self._writer.add_row(table, row):
            self._refuse(f"the list {table} has two rows with the same key")

    def _read_label(self, line: bytes) -> None:
        _, lent, name = [*line.split(b" ", 2), b"", b""][:3]
        (label,) = self._parse_strings(name, 1)
        if not lent.isdigit() or len(lent) > 19:
            self._refuse("a label needs its weight and its name")
        self._refuse_large([int(lent)])
        if self._labels and label <= self._labels[-1]:
            self._refuse(f"the label {label[:60]!r} is out of order")
        if fault := find_label_fault(label):
            self._refuse(fault)
        if len(self._labels) >= MAX_LABELS:
            self._refuse(f"there are more than {MAX_LABELS} labels")
        self._labels.append(label)
        self._writer.add_imported(label, int(lent))

    def _read_message(self, line: bytes) -> None:
        match = _MESSAGE.fullmatch(line)
        if not match or len(match[1]) % 2:
            self._refuse("a message needs digest, label, weight, rest, tokens, era, time, date and source")
        if (match[8] is None) != (self._format == 1):
            self._refuse(
                f"the date of a message is {'missing' if match[8] is None else 'not of this format'}"
            )
        number, weight, other_weight, version, prunings, time = map(int, match.groups()[1:7])
        if number >= len(self._labels):
            self._refuse(f"there is no label {number}, only {len(self._labels)}")
        if other_weight and not set(GUESSED_LABELS) <= set(self._labels):
            self._refuse(f"a message with a rest needs the labels {' and '.join(GUESSED_LABELS)}")
        digest = bytes.fromhex(match[1].decode())
        if digest <= self._previous:
            self._refuse(f"the message {digest.hex()} is out of order")
        self._previous = digest
        if version not in self._versions:
            self._refuse(f"its tokens are of version {version}, which the first line does not name")
        (source,) = self._parse_strings(match[9], 1)
        date = None if match[8] in (None, b"-") else int(match[8])
        entry = Entry(digest, self._labels[number], weight, other_weight, version, prunings, source, time)
        fault = find_row_fault(
            "journal", {"digest": digest, "version": version, "era": prunings, "time": time}
        )
        fault = fault or find_row_fault("message", {"date": date})
        if fault := fault or find_row_fault("source", {"name": source}):
            self._refuse(fault)
        self._writer.record(entry)
        if date is not None:
            self._writer.store_features([digest], None, [date])

    def _read_features(self, line: bytes) -> None:
        match = _FEATURES.fullmatch(line)
        if not match or len(match[1]) % 2:
            self._refuse(f"features need the digest of a message and keys of {KEY_BITS // 4} digits")
        digest = bytes.fromhex(match[1].decode())
        if digest < self._previous:
            self._refuse(f"the features of the message {digest.hex()} are out of order")
        if digest != self._previous:
            if self._store.find_entry(digest) is None:
                self._refuse(f"there is no message {digest.hex()}")
            if len(self._messages) >= MAX_BUNDLE_MESSAGES or self._n_features > _BATCH_FEATURES:
                self._store_features()
            self._messages.append((digest, []))
        self._previous = digest
        parts = np.frombuffer(bytes.fromhex(match[2].decode()), np.uint8).reshape(-1, KEY_BITS // 8)
        keys = np.zeros((len(parts), 8), np.uint8)
        keys[:, 8 - KEY_BITS // 8 :] = parts
        self._messages[-1][1].append(keys.view(">u8")[:, 0].astype(np.uint64))
        self._n_features += len(keys)
        if self._n_features > _BATCH_FEATURES + MAX_BUNDLE_FEATURES:
            self._refuse(f"a message has more than {MAX_BUNDLE_FEATURES} features")

    def _store_features(self) -> None:
        features = [np.concatenate(parts) for _, parts in self._messages]
        for (digest, _), keys in zip(self._messages, features, strict=True):
            if len(keys) > MAX_BUNDLE_FEATURES:
                self._refuse(f"the message {digest.hex()} has more than {MAX_BUNDLE_FEATURES} features")
            if not bool(np.all(keys[1:] > keys[:-1])):
                self._refuse(f"the features of the message {digest.hex()} are not in ascending order")
        for begin, end in divide([len(keys) for keys in features]):
            digests = [digest for digest, _ in self._messages[begin:end]]
            packed = pack(Bundle.of(features[begin:end]))
            self._writer.store_features(digests, packed, [None] * len(digests))
        self._messages, self._n_features = [], 0

    def _read_count(self, line: bytes) -> None:
        match = _COUNT.fullmatch(line)
        if not match:
            self._refuse(f"a feature needs a key of {KEY_BITS // 4} digits and a count for each label")
        counts = [int(count) for count in match[2].split()]
        if len(counts) != len(self._labels) or not any(counts):
            self._refuse(f"a feature needs {len(self._labels)} counts, not all zero")
        self._refuse_large(counts)
        if match[1] <= self._previous:
            self._refuse(f"the feature {match[1].decode()} is out of order")
        self._previous = match[1]
        self._keys.append(int(match[1], 16))
        self._counts.append(counts)
        if len(self._keys) * len(counts) >= _BATCH_COUNTS:
            self._add_counts()

    def _refuse_large(self, numbers: list[int]) -> None:
        if max(numbers) >= MAX_COUNT:
            self._refuse(f"the number {max(numbers)} is too large, expected less than {MAX_COUNT}")

    def _add_counts(self) -> None:
        if self._keys:
            self._writer.add(CountTable(np.array(self._keys, np.uint64), np.array(self._counts, np.int64)))
            self._keys, self._counts = [], []

    def _read_end(self, line: bytes) -> None:
        match = _END.fullmatch(line)
        n_lines = {
            kind.decode(): number
            for kind, number in self._n_lines.items()
            if self._format > 1 or kind not in _LATER_KINDS
        }
        if not match or list(map(int, match[1].split())) != list(n_lines.values()):
            expected = ", ".join(f"{number} {kind}" for kind, number in n_lines.items())
            self._refuse(f"expected the numbers of lines before this one ({expected}): get the file again")
        if match[2].decode() != self._checksum.hexdigest():
            self._refuse("the checksum differs: the file was changed in transfer, get it again")
        if self._file.read(1):
            self._refuse("something follows the last line")


def _is_text(value: str) -> bool:
    """Whether the string has no lone surrogates, which UTF-8 cannot encode and SQLite refuses."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
