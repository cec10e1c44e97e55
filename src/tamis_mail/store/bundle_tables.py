"""Bundles in the store: all stored features are read, and bundles are rewritten without removed messages.

Learning one message writes a small bundle. Eight bundles of similar size are combined, so there are few small
ones, and the features of a message are rewritten three times. The order of the messages in bundles has no
meaning.
"""

import sqlite3
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features.hashing import FINAL_MULTIPLIER, MULTIPLIER
from tamis_mail.labels import GUESSED_LABELS, Label
from tamis_mail.schema import MAX_BUNDLE_FEATURES, MAX_BUNDLE_MESSAGES, TABLES, find_row_fault
from tamis_mail.store.bundle_arrays import Bundle, MessageFeatures, combine, pack, unite, unpack
from tamis_mail.store.bundles import bundle_error, refuse_place
from tamis_mail.store.database import StoreError

__all__ = [
    "BundleReader",
    "combine_all",
    "drop_keys",
    "find_faults",
    "fingerprint",
    "read_messages",
    "sum_fingerprints",
    "tidy",
]

_RATIO = 8  # so many of the newest bundles are combined, if …
_LEVELS = (8, 64)  # … each has fewer messages than this
_CACHED = 4  # bundles in memory when single messages are read


class BundleReader:
    """Reads the features of single messages; messages of one bundle follow each other."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._bundles: dict[int, Bundle] = {}

    def find(self, digest: bytes) -> NDArray[np.uint64] | None:
        """Return the keys of a message's features, in ascending order; None if they are not stored."""
        number, place = self._find_place(digest)
        if number is None:
            return None
        if number not in self._bundles:
            if len(self._bundles) >= _CACHED:
                self._bundles.pop(next(iter(self._bundles)))
            self._bundles[number] = _read(self._connection, number)
        bundle = self._bundles[number]
        refuse_place(place, len(bundle))
        return bundle.features(place)

    def find_many(self, digests: Sequence[bytes]) -> list[NDArray[np.uint64] | None]:
        """Return `find` of many messages in any order; each bundle is read once."""
        numbers = [self._find_place(digest)[0] for digest in digests]
        order = sorted(range(len(digests)), key=lambda place: numbers[place] or 0)
        features = {place: self.find(digests[place]) for place in order}
        return [features[place] for place in range(len(digests))]

    def _find_place(self, digest: bytes) -> tuple[int | None, int]:
        """Return the bundle of a message, None if its features are not stored, and its place there."""
        row = self._connection.execute(
            "SELECT bundle, place FROM message WHERE digest = ?", (digest,)
        ).fetchone()
        if row is None:
            return None, 0
        if fault := find_row_fault("message", dict(zip(("bundle", "place"), row, strict=True))):
            raise bundle_error(fault)
        number, place = row
        return number, place


def read_messages(connection: sqlite3.Connection, columns: Collection[int]) -> MessageFeatures:
    """Read the stored features of messages of some labels, in the order of digests."""
    _refuse_bad_values(connection, "message", TABLES["message"])
    _refuse_bad_values(connection, "journal", ("label", "weight"))
    rows = [
        row
        for row in connection.execute(
            "SELECT digest, bundle, place, date, label, weight FROM message JOIN journal USING (digest) "
            "WHERE bundle IS NOT NULL ORDER BY digest"
        )
        if row[4] in columns
    ]
    places: dict[int, list[tuple[int, int]]] = {}  # bundle → message, place in the bundle
    for message, (_, number, place, *_) in enumerate(rows):
        places.setdefault(number, []).append((message, place))
    bundles = [_read(connection, number) for number in places]
    sizes = np.zeros(len(rows), np.intp)
    for bundle, pairs in zip(bundles, places.values(), strict=True):
        for _, place in pairs:
            refuse_place(place, len(bundle))
        messages, bundle_places = np.array(pairs).T
        sizes[messages] = np.diff(bundle.starts)[bundle_places]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    first, last = starts[:-1].tolist(), starts[1:].tolist()
    indices = np.empty(starts[-1], np.intp)
    keys, all_indices = unite(bundles)
    for bundle, bundle_indices, pairs in zip(bundles, all_indices, places.values(), strict=True):
        bundle_starts = bundle.starts.tolist()
        for message, place in pairs:
            features = bundle_indices[bundle_starts[place] : bundle_starts[place + 1]]
            indices[first[message] : last[message]] = features
    if sum(map(len, bundles)) > len(rows):  # bundles also hold messages of other labels
        is_used = np.zeros(len(keys), bool)
        is_used[indices] = True
        keys, indices = keys[is_used], (np.cumsum(is_used) - 1)[indices]
    return MessageFeatures(
        digests=[row[0] for row in rows],
        starts=starts,
        indices=indices,
        keys=keys,
        labels=np.array([row[4] for row in rows], np.intp),
        weights=np.array([row[5] for row in rows], np.int64),
        dates=np.array([np.nan if row[3] is None else row[3] for row in rows], np.float64),
    )


def tidy(connection: sqlite3.Connection, loose: Iterable[int]) -> None:
    """Rewrite bundles without removed messages, and combine the newest ones of similar size."""
    for number in sorted(loose):
        bundle = _read(connection, number)
        places = _list_places(connection, number)
        if not places:
            connection.execute("DELETE FROM bundle WHERE id = ?", (number,))
        elif len(places) < len(bundle):
            _replace(connection, [(number, bundle, places)])
    for limit in _LEVELS:
        numbers: list[int] = []
        for number, messages in connection.execute("SELECT id, messages FROM bundle ORDER BY id DESC"):
            if fault := find_row_fault("bundle", {"messages": messages}):
                raise bundle_error(fault)
            if messages >= limit:
                break
            numbers.append(number)
        if len(numbers) >= _RATIO:
            _combine_small(connection, numbers[::-1])


def combine_all(connection: sqlite3.Connection) -> None:
    """Combine small bundles, so that few are left."""
    _refuse_bad_values(connection, "bundle", ("messages",))
    _combine_small(connection, [number for (number,) in connection.execute("SELECT id FROM bundle")])


def drop_keys(connection: sqlite3.Connection, dropped: NDArray[np.uint64]) -> None:
    """Remove keys, in ascending order, from all stored features."""
    if not len(dropped):
        return
    for (number,) in connection.execute("SELECT id FROM bundle ORDER BY id").fetchall():
        bundle = _read(connection, number)
        places = np.minimum(np.searchsorted(dropped, bundle.keys), len(dropped) - 1)
        is_kept = dropped[places] != bundle.keys
        if not is_kept.all():
            data = pack(bundle.keep(is_kept))
            connection.execute("UPDATE bundle SET data = ? WHERE id = ?", (data, number))


def find_faults(connection: sqlite3.Connection) -> list[str]:
    """List the faults of stored features."""
    faults = []
    for number, messages in connection.execute("SELECT id, messages FROM bundle ORDER BY id").fetchall():
        try:
            _read(connection, number)
        except StoreError as error:
            faults.append(f"bundle {number}: {error}")
        places = [place for _, place in _list_places(connection, number)]
        if places != list(range(messages)):
            faults.append(f"bundle {number} has {messages} messages, and {len(places)} refer to it")
    return faults


def sum_fingerprints(connection: sqlite3.Connection, labels: Sequence[Label], seed: int) -> list[int]:
    """Return the sum of the fingerprints of all stored features, times their weights, for each label."""
    totals = [0] * len(labels)
    others = {label.id: _find_other_guess(label, labels) for label in labels}
    for (number,) in connection.execute("SELECT id FROM bundle ORDER BY id").fetchall():
        bundle = _read(connection, number)
        sums = np.concatenate([[np.uint64(0)], np.cumsum(fingerprint(bundle.keys, seed)[bundle.indices])])
        values = np.diff(sums[bundle.starts]).tolist()  # modulo 2**64
        rows = connection.execute(
            "SELECT place, label, weight, rest FROM message JOIN journal USING (digest) WHERE bundle = ?",
            (number,),
        )
        for place, label, weight, rest in rows:
            totals[label] += values[place] * weight
            if rest:
                totals[others[label]] += values[place] * rest
    return [total % (1 << 64) for total in totals]


def _find_other_guess(label: Label, labels: Sequence[Label]) -> int:
    """Return the column of the other guessed label; that of the label itself if it is not a guessed one."""
    others = [one.id for one in labels if one.name in GUESSED_LABELS and one.name != label.name]
    return others[0] if label.name in GUESSED_LABELS and others else label.id


def fingerprint(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return a pseudo-random number for each key. Equal sums of them show that sums of counts are equal."""
    numbers = (keys ^ np.uint64(seed)) * np.uint64(MULTIPLIER)
    numbers ^= numbers >> np.uint64(32)
    numbers *= np.uint64(FINAL_MULTIPLIER)
    numbers ^= numbers >> np.uint64(29)
    return numbers


def _combine_small(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Combine bundles that follow each other, as long as the union is not too large."""
    group: list[tuple[int, Bundle]] = []
    for number in numbers:
        bundle = _read(connection, number)
        members = [*(member for _, member in group), bundle]
        if (
            sum(map(len, members)) > MAX_BUNDLE_MESSAGES
            or sum(len(member.indices) for member in members) > MAX_BUNDLE_FEATURES
        ):
            _combine(connection, group)
            group = []
        group.append((number, bundle))
    _combine(connection, group)


def _combine(connection: sqlite3.Connection, group: Sequence[tuple[int, Bundle]]) -> None:
    if len(group) > 1:
        _replace(connection, [(number, bundle, _list_places(connection, number)) for number, bundle in group])


def _replace(
    connection: sqlite3.Connection, parts: Sequence[tuple[int, Bundle, Sequence[tuple[bytes, int]]]]
) -> None:
    """Replace bundles by one with their remaining messages; `parts` has digests and places of those."""
    first, *others = [number for number, _, _ in parts]
    union = combine([bundle for _, bundle, _ in parts])
    digests: list[bytes] = []
    places: list[int] = []
    offset = 0
    for _, bundle, rows in parts:
        for digest, place in rows:
            refuse_place(place, len(bundle))
            digests.append(digest)
            places.append(offset + place)
        offset += len(bundle)
    if len(set(places)) < len(places):
        raise bundle_error("two messages have one place")
    if len(places) < len(union):
        union = union.select(places)
    connection.execute(
        "UPDATE bundle SET messages = ?, data = ? WHERE id = ?", (len(digests), pack(union), first)
    )
    connection.executemany(
        "UPDATE message SET bundle = ?, place = ? WHERE digest = ?",
        ((first, place, digest) for place, digest in enumerate(digests)),
    )
    connection.executemany("DELETE FROM bundle WHERE id = ?", ((number,) for number in others))


def _list_places(connection: sqlite3.Connection, number: int) -> list[tuple[bytes, int]]:
    """List the messages of a bundle: digests and places."""
    return connection.execute(
        "SELECT digest, place FROM message WHERE bundle = ? ORDER BY place", (number,)
    ).fetchall()


def _read(connection: sqlite3.Connection, number: int) -> Bundle:
    row = connection.execute("SELECT messages, data FROM bundle WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise bundle_error(f"there is no bundle {number}")
    messages, data = row
    bundle = unpack(data)
    if len(bundle) != messages:
        raise bundle_error(f"bundle {number} has {len(bundle)} messages, expected {messages!r:.40}")
    return bundle


def _refuse_bad_values(connection: sqlite3.Connection, table: str, columns: Iterable[str]) -> None:
    for column in columns:
        kind = TABLES[table][column]
        if connection.execute(f"SELECT 1 FROM {table} WHERE {kind.violation(column)}").fetchone():
            raise bundle_error(f"{table}.{column} is not always {kind}")
