"""Read the bundles of a store, remove messages from them and combine small ones.

Learning one message writes a bundle of one message. When the eight newest bundles, or more, have fewer than 8
messages each, they are combined, and likewise when they have fewer than 64 messages each. So a store has few
small bundles. Of messages that are learned one by one, the first eight are combined, and then each further
seven are added to their bundle until it has 64 messages: a message is rewritten five times on average, and at
most nine times. The order of the messages in a bundle has no meaning.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.threads import map_ahead
from tamis_mail.features.hashing import FINAL_MULTIPLIER, MULTIPLIER
from tamis_mail.labels import GUESSED_LABELS, Label
from tamis_mail.schema import MAX_BUNDLE_FEATURES, MAX_BUNDLE_MESSAGES, TABLES, find_row_fault
from tamis_mail.store.bundle_arrays import Bundle, MessageFeatures, combine, merge_keys, pack, unpack
from tamis_mail.store.bundles import bundle_error, refuse_place_outside_bundle
from tamis_mail.store.database import StoreError

_MIN_COMBINED = 8  # small bundles are combined if there are at least so many
_SMALL_SIZES = (8, 64)  # bundles with fewer than 8 messages are combined, then those with fewer than 64
_MAX_CACHED = 4  # the number of bundles that a reader keeps in memory

StoredBundle = tuple[int, object, object]  # a row of `bundle`: id, number of messages, bytes


class BundleReader:
    """Reads the features of single messages. It is fast if successive messages are in the same bundle."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._bundles: dict[int, Bundle] = {}

    def find(self, digest: bytes) -> NDArray[np.uint64] | None:
        """Return the keys of a message's features, in ascending order; None if they are not stored."""
        bundle_id, place = self._find_place(digest)
        if bundle_id is None:
            return None
        if bundle_id not in self._bundles:
            if len(self._bundles) >= _MAX_CACHED:
                self._bundles.pop(next(iter(self._bundles)))
            self._bundles[bundle_id] = _read(self._connection, bundle_id)
        bundle = self._bundles[bundle_id]
        refuse_place_outside_bundle(place, len(bundle))
        return bundle.features(place)

    def find_many(self, digests: Sequence[bytes]) -> list[NDArray[np.uint64] | None]:
        """Return the features of each message as `find` does; read each bundle once."""
        bundle_ids = [self._find_place(digest)[0] for digest in digests]
        order = sorted(range(len(digests)), key=lambda index: bundle_ids[index] or 0)
        features = {index: self.find(digests[index]) for index in order}
        return [features[index] for index in range(len(digests))]

    def _find_place(self, digest: bytes) -> tuple[int | None, int]:
        """Return the id of a message's bundle, None if its features are not stored, and its place there."""
        row = self._connection.execute(
            "SELECT bundle, place FROM message WHERE digest = ?", (digest,)
        ).fetchone()
        if row is None:
            return None, 0
        if fault := find_row_fault("message", dict(zip(("bundle", "place"), row, strict=True))):
            raise bundle_error(fault)
        bundle_id, place = row
        return bundle_id, place


# A function that is given the column of each message's label, and returns the indices of chosen messages.
Selection = Callable[[NDArray[np.intp]], NDArray[np.intp]]
# Of a message: its digest, the id of its bundle, its place there, its date, its label's column, its weight.
MessageRow = tuple[bytes, int, int, int | None, int, int]
_LABEL, _WEIGHT = 4, 5  # the positions of the last two in a row


def choose_messages(
    connection: sqlite3.Connection, columns: Collection[int], choose: Selection | None
) -> list[MessageRow]:
    """Return the messages of some labels that have stored features, in the order of digests.

    `choose` is given the column of the label of each of these messages, and returns the indices of those to
    return, in ascending order.
    """
    _refuse_bad_values(connection, "message", TABLES["message"])
    _refuse_bad_values(connection, "journal", ("label", "weight"))
    rows = [
        row
        for row in connection.execute(
            "SELECT digest, bundle, place, date, label, weight FROM message JOIN journal USING (digest) "
            "WHERE bundle IS NOT NULL ORDER BY digest"
        )
        if row[_LABEL] in columns
    ]
    if choose is None:
        return rows
    return [rows[index] for index in choose(np.array([row[_LABEL] for row in rows], np.intp)).tolist()]


def read_messages(
    connection: sqlite3.Connection, rows: Sequence[MessageRow], at_hand: Mapping[bytes, NDArray[np.uint64]]
) -> MessageFeatures:
    """Return the features of messages; those in `at_hand`, by digest, are not read from the store."""
    # id of a stored bundle → the index of each of its messages in `rows`, and the place in the bundle
    members: dict[int, list[tuple[int, int]]] = {}
    messages_at_hand = []
    for message, (digest, bundle_id, place, *_) in enumerate(rows):
        if digest in at_hand:
            messages_at_hand.append(message)
        else:
            members.setdefault(bundle_id, []).append((message, place))
    bundles = []
    places: list[list[tuple[int, int]]] = []  # the same pairs for each of `bundles`, with places there
    sizes = np.zeros(len(rows), np.intp)
    if messages_at_hand:
        bundles.append(Bundle.of([at_hand[rows[message][0]] for message in messages_at_hand]))
        places.append([(message, place) for place, message in enumerate(messages_at_hand)])
        sizes[messages_at_hand] = np.diff(bundles[0].starts)
    stored = ((_fetch(connection, bundle_id), pairs) for bundle_id, pairs in members.items())
    # Bundles are unpacked in threads; this thread alone reads the store.
    for bundle, messages, bundle_places in map_ahead(lambda one: _unpack_messages(*one), stored):
        bundles.append(bundle)
        places.append(list(zip(messages.tolist(), bundle_places.tolist(), strict=True)))
        sizes[messages] = np.diff(bundle.starts)[bundle_places]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    first, last = starts[:-1].tolist(), starts[1:].tolist()
    indices = np.empty(starts[-1], np.intp)
    keys, all_indices = merge_keys(bundles)  # the distinct keys, and for each bundle its indices into them
    for bundle, bundle_indices, pairs in zip(bundles, all_indices, places, strict=True):
        bundle_starts = bundle.starts.tolist()
        for message, place in pairs:
            features = bundle_indices[bundle_starts[place] : bundle_starts[place + 1]]
            indices[first[message] : last[message]] = features
    return MessageFeatures(
        digests=[row[0] for row in rows],
        starts=starts,
        indices=indices,
        keys=keys,
        labels=np.array([row[_LABEL] for row in rows], np.intp),
        weights=np.array([row[_WEIGHT] for row in rows], np.int64),
        dates=np.array([np.nan if row[3] is None else row[3] for row in rows], np.float64),
    )


def _unpack_messages(
    stored: StoredBundle, pairs: Sequence[tuple[int, int]]
) -> tuple[Bundle, NDArray[np.intp], NDArray[np.intp]]:
    """Unpack some messages of a stored bundle.

    `pairs` has for each of them its index among all messages that are read, and its place in the stored
    bundle. Return a bundle of these messages alone, their indices, and their places in the new bundle.
    """
    bundle = _unpack(stored)
    for _, place in pairs:
        refuse_place_outside_bundle(place, len(bundle))
    messages, places = np.array(pairs).T
    if len(pairs) < len(bundle):
        is_chosen = np.zeros(len(bundle), bool)
        is_chosen[places] = True
        chosen = np.flatnonzero(is_chosen)
        bundle = bundle.select(chosen.tolist())
        places = np.searchsorted(chosen, places)
    return bundle, messages, places


def tidy(connection: sqlite3.Connection, changed_bundles: Iterable[int]) -> None:
    """Rewrite the changed bundles without their removed messages, and combine the newest small bundles."""
    for bundle_id in sorted(changed_bundles):
        bundle = _read(connection, bundle_id)
        places = _list_places(connection, bundle_id)
        if not places:
            connection.execute("DELETE FROM bundle WHERE id = ?", (bundle_id,))
        elif len(places) < len(bundle):
            _replace(connection, [(bundle_id, bundle, places)])
    for limit in _SMALL_SIZES:
        bundle_ids: list[int] = []
        for bundle_id, messages in connection.execute("SELECT id, messages FROM bundle ORDER BY id DESC"):
            if fault := find_row_fault("bundle", {"messages": messages}):
                raise bundle_error(fault)
            if messages >= limit:
                break
            bundle_ids.append(bundle_id)
        if len(bundle_ids) >= _MIN_COMBINED:
            _combine_successive(connection, bundle_ids[::-1])


def combine_all(connection: sqlite3.Connection) -> None:
    """Combine successive bundles, of any size, as far as the limits of a bundle allow."""
    _refuse_bad_values(connection, "bundle", ("messages",))
    _combine_successive(connection, _list_bundles(connection))


def drop_keys(connection: sqlite3.Connection, dropped: NDArray[np.uint64]) -> None:
    """Remove keys from all stored features; `dropped` is in ascending order."""
    if not len(dropped):
        return
    for bundle_id in _list_bundles(connection):
        bundle = _read(connection, bundle_id)
        nearest = np.minimum(np.searchsorted(dropped, bundle.keys), len(dropped) - 1)
        is_kept = dropped[nearest] != bundle.keys
        if not is_kept.all():
            data = pack(bundle.keep(is_kept))
            connection.execute("UPDATE bundle SET data = ? WHERE id = ?", (data, bundle_id))


def find_faults(connection: sqlite3.Connection) -> list[str]:
    """List the faults of stored features, one line per fault."""
    faults = []
    for bundle_id, messages in connection.execute("SELECT id, messages FROM bundle ORDER BY id").fetchall():
        try:
            _read(connection, bundle_id)
        except StoreError as error:
            faults.append(f"bundle {bundle_id}: {error}")
        places = [place for _, place in _list_places(connection, bundle_id)]
        if places != list(range(messages)):
            faults.append(
                f"bundle {bundle_id} has {messages} messages, and {len(places)} messages refer to it"
            )
    return faults


def sum_fingerprints(connection: sqlite3.Connection, labels: Sequence[Label], seed: int) -> list[int]:
    """Return for each label the sum of the fingerprints of all stored features, modulo 2**64.

    A fingerprint, the pseudo-random number of a key (see `fingerprint`), is multiplied by the weight of the
    message that has the feature.
    """
    totals = [0] * len(labels)
    others = {label.id: _find_other_guess(label, labels) for label in labels}
    for bundle_id in _list_bundles(connection):
        bundle = _read(connection, bundle_id)
        sums = np.concatenate([[np.uint64(0)], np.cumsum(fingerprint(bundle.keys, seed)[bundle.indices])])
        values = np.diff(sums[bundle.starts]).tolist()  # modulo 2**64
        rows = connection.execute(
            "SELECT place, label, weight, rest FROM message JOIN journal USING (digest) WHERE bundle = ?",
            (bundle_id,),
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
    """Return a pseudo-random number for each key.

    If two collections of keys have equal sums of these numbers, they almost certainly have equal counts.
    """
    numbers = (keys ^ np.uint64(seed)) * np.uint64(MULTIPLIER)
    numbers ^= numbers >> np.uint64(32)
    numbers *= np.uint64(FINAL_MULTIPLIER)
    numbers ^= numbers >> np.uint64(29)
    return numbers


def _list_bundles(connection: sqlite3.Connection) -> list[int]:
    return [bundle_id for (bundle_id,) in connection.execute("SELECT id FROM bundle ORDER BY id")]


def _combine_successive(connection: sqlite3.Connection, bundle_ids: Iterable[int]) -> None:
    """Combine successive bundles into bundles as large as the limits of a bundle allow."""
    group: list[tuple[int, Bundle]] = []
    for bundle_id in bundle_ids:
        bundle = _read(connection, bundle_id)
        members = [*(member for _, member in group), bundle]
        if (
            sum(map(len, members)) > MAX_BUNDLE_MESSAGES
            or sum(len(member.indices) for member in members) > MAX_BUNDLE_FEATURES
        ):
            _combine(connection, group)
            group = []
        group.append((bundle_id, bundle))
    _combine(connection, group)


def _combine(connection: sqlite3.Connection, group: Sequence[tuple[int, Bundle]]) -> None:
    """Combine bundles, given by id and contents, into one."""
    if len(group) > 1:
        _replace(
            connection,
            [(bundle_id, bundle, _list_places(connection, bundle_id)) for bundle_id, bundle in group],
        )


def _replace(
    connection: sqlite3.Connection, parts: Sequence[tuple[int, Bundle, Sequence[tuple[bytes, int]]]]
) -> None:
    """Replace bundles by one bundle of their remaining messages.

    `parts` has for each old bundle its id, the bundle, and the digests and places of its remaining messages.
    """
    first, *others = [bundle_id for bundle_id, _, _ in parts]
    combined = combine([bundle for _, bundle, _ in parts])
    digests: list[bytes] = []
    places: list[int] = []
    offset = 0
    for _, bundle, rows in parts:
        for digest, place in rows:
            refuse_place_outside_bundle(place, len(bundle))
            digests.append(digest)
            places.append(offset + place)
        offset += len(bundle)
    if len(set(places)) < len(places):
        raise bundle_error("two messages have the same place in a bundle")
    if len(places) < len(combined):
        combined = combined.select(places)
    connection.execute(
        "UPDATE bundle SET messages = ?, data = ? WHERE id = ?", (len(digests), pack(combined), first)
    )
    connection.executemany(
        "UPDATE message SET bundle = ?, place = ? WHERE digest = ?",
        ((first, place, digest) for place, digest in enumerate(digests)),
    )
    connection.executemany("DELETE FROM bundle WHERE id = ?", ((bundle_id,) for bundle_id in others))


def _list_places(connection: sqlite3.Connection, bundle_id: int) -> list[tuple[bytes, int]]:
    """List the digests of a bundle's messages and their places, in the order of places."""
    return connection.execute(
        "SELECT digest, place FROM message WHERE bundle = ? ORDER BY place", (bundle_id,)
    ).fetchall()


def _read(connection: sqlite3.Connection, bundle_id: int) -> Bundle:
    """Read a bundle; raise StoreError if it is missing or invalid."""
    return _unpack(_fetch(connection, bundle_id))


def _fetch(connection: sqlite3.Connection, bundle_id: int) -> StoredBundle:
    """Read the row of a bundle; raise StoreError if it is missing."""
    row = connection.execute("SELECT messages, data FROM bundle WHERE id = ?", (bundle_id,)).fetchone()
    if row is None:
        raise bundle_error(f"there is no bundle {bundle_id}")
    return bundle_id, *row


def _unpack(stored: StoredBundle) -> Bundle:
    """Unpack the bundle of a row; raise StoreError if it is invalid."""
    bundle_id, messages, data = stored
    bundle = unpack(data)
    if len(bundle) != messages:
        raise bundle_error(f"bundle {bundle_id} has {len(bundle)} messages, expected {messages!r:.40}")
    return bundle


def _refuse_bad_values(connection: sqlite3.Connection, table: str, columns: Iterable[str]) -> None:
    """Raise StoreError if one of these columns has an invalid value in some row."""
    conditions = {column: TABLES[table][column].make_fault_condition(column) for column in columns}
    if not connection.execute(f"SELECT 1 FROM {table} WHERE {' OR '.join(conditions.values())}").fetchone():
        return
    for column, condition in conditions.items():
        if connection.execute(f"SELECT 1 FROM {table} WHERE {condition}").fetchone():
            raise bundle_error(f"the table {table} has a row whose {column} is not {TABLES[table][column]}")
