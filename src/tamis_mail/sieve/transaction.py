"""Learn and forget messages in one transaction of the store: their journal entries, features and counts.

This thread writes the journal while workers count the features of earlier messages. Other processes see
nothing of the transaction until it is committed.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS
from tamis_mail.message import canonical
from tamis_mail.message import digest as compute_digest
from tamis_mail.message.addresses import read_recipients, read_senders
from tamis_mail.records import replace
from tamis_mail.sieve.executor import JOB_BYTES, JOB_MESSAGES
from tamis_mail.sieve.receipt import Receipt
from tamis_mail.sieve.weights import update_weights
from tamis_mail.store import Entry, Store, StoreError, Writer, people

if TYPE_CHECKING:
    from tamis_mail.sieve.executor import RunJobs
    from tamis_mail.sieve.reading import Part, PlaceInPart, ReadMessages
    from tamis_mail.store.bundle_tables import BundleReader
    from tamis_mail.store.feature_sums import PendingSum
    from tamis_mail.store.tables import Change, CountTable, FeatureKeys

    # The digest of a message (None if it is subtracted), its canonical bytes, and what it adds to the counts
    # of each of its features.
    UncountedMessage = tuple[bytes | None, bytes, Change]


class Transaction:
    """Learns and forgets messages: each method changes the journal at once, and `run` writes all counts."""

    def __init__(self, store: Store, writer: Writer, source: str) -> None:
        self._store = store
        self._writer = writer
        self._source = source
        self._message_weight, self._prunings = store.message_weight(), store.prunings()
        self._token_version = store.token_version()
        self._now = int(time.time())
        self._uncounted: list[UncountedMessage] = []  # messages whose features workers will count
        self._bytes = 0  # the total length of those that are added
        self._uncounted_pruned: list[
            UncountedMessage
        ] = []  # the same for messages to be subtracted from pruned counts
        self._reader: BundleReader | None = None
        self._stored: list[tuple[FeatureKeys, Change]] = []  # stored features, to be subtracted
        self._relabelled: list[tuple[FeatureKeys, Change]] = []  # stored features, to be added
        # New messages that were read before the transaction: the features of those of each bundle (a part),
        # and what each message adds to the counts of its features.
        self._parts: list[tuple[Part, Change]] = []
        self._features: dict[bytes, PlaceInPart] = {}  # digest of a new message → its place in a part
        # All entries of the journal, so that they need not be looked up, if only `learn_read` has made any.
        self._journal: dict[bytes, Entry] | None = None if store.has_entries() else {}

    def learn(self, raw: bytes, label: str) -> Receipt:
        """Learn a message under a label; if it is known under another one, move it."""
        plain = canonical(raw)
        digest = compute_digest(plain)
        old = self._store.find_entry(digest)
        if old is not None:
            if old.label == label:
                return Receipt("known", label, label, digest)
            self._refuse_other_tokens(old)
            self._subtract(plain, old)
        entry = self._make_entry(digest, label, self._message_weight, 0)
        self._add(plain, entry)
        return _make_receipt(old, entry)

    def learn_read(
        self, messages: Sequence[bytes] | None, read: "ReadMessages", label: str, source: str | None = None
    ) -> list[Receipt]:
        """Learn messages that `reading.read_messages` has read for this label.

        `messages` may be None if the store was new, so that the features of all of them were read. `source`
        is the source of the messages, by default that of the transaction.
        """
        if read.token_version != self._token_version:  # another process has changed the store meanwhile
            read = replace(
                read, token_version=self._token_version, places=[], dates=[], parts=[], features={}
            )
        old_entries = self._find_entries(read.digests)
        new_entries: dict[bytes, Entry] = {}
        receipts, places = [], []
        for place, digest in enumerate(read.digests):
            old = old_entries.get(digest)
            if digest in new_entries or (old is not None and old.label == label):
                receipts.append(Receipt("known", label, label, digest))
                continue
            if old is not None:
                self._refuse_other_tokens(old)
                plain = None if messages is None else canonical(messages[place])
                self._subtract(plain, old, read.features.get(digest))
            entry = self._make_entry(digest, label, self._message_weight, 0, source)
            new_entries[digest] = entry
            receipts.append(_make_receipt(old, entry))
            places.append(place)
        if not places:
            return receipts
        if places != read.places:
            if messages is None and not set(places) <= set(read.places):
                raise StoreError(
                    f"the store {self._store.name} was changed by another process while mail was read for "
                    "it: run the command again"
                )
            read = _select_messages(read, places, messages or ())
        self._writer.record(*new_entries.values())
        if self._journal is not None:
            self._journal |= new_entries
        change = self._change(next(iter(new_entries.values())), 1)
        digests = [read.digests[place] for place in places]
        self._store_bundles(digests, read.bundles, read.dates)
        self._parts += [(part, change) for part in read.parts]
        self._features |= {digest: read.features[digest] for digest in digests}
        return receipts

    def _find_entries(self, digests: Sequence[bytes]) -> Mapping[bytes, Entry]:
        """Return the entries of those messages that are in the journal, and perhaps entries of others."""
        return self._store.find_entries(digests) if self._journal is None else self._journal

    def relearn(self, raw: bytes, entries: Mapping[bytes, Entry]) -> Receipt:
        """Learn a message with its journal entry of another store; without an entry, it is unknown."""
        plain = canonical(raw)
        digest = compute_digest(plain)
        entry = entries.get(digest)
        if entry is None:
            return _make_unknown_receipt(digest)
        if self._store.find_entry(digest) is not None:
            return Receipt("known", entry.label, entry.label, digest)
        self._add(plain, replace(entry, token_version=self._token_version, prunings=self._prunings))
        return Receipt("learned", entry.label, None, digest)

    def guess(self, plain: bytes, spam_units: int) -> Receipt:
        """Learn an unlabelled message in canonical form: `spam_units` of its GUESS_UNITS count as spam."""
        units = (spam_units, GUESS_UNITS - spam_units)
        likelier = int(units[0] < units[1])
        weight, other_weight = (units[i] * self._message_weight for i in (likelier, 1 - likelier))
        entry = self._make_entry(compute_digest(plain), GUESSED_LABELS[likelier], weight, other_weight)
        self._add(plain, entry)
        return Receipt("guessed", entry.label, None, entry.digest, None, entry)

    def forget(self, raw: bytes) -> Receipt:
        """Forget a message that was learned or guessed, sent, or both."""
        plain = canonical(raw)
        was_sent = people.remove_sent(self._store, compute_digest(plain))
        receipt = self.unlearn(plain)
        return replace(receipt, action="forgotten") if was_sent else receipt

    def unlearn(self, raw: bytes) -> Receipt:
        """Remove a message and its counts; a sent message stays recorded with its recipients."""
        plain = canonical(raw)
        return self._unlearn(compute_digest(plain), plain)

    def restore(self, raw: bytes | None, entry: Entry) -> Receipt:
        """Restore an earlier journal entry of a message.

        If the message is in the journal, and its features are stored, these suffice; otherwise `raw` is
        needed.
        """
        old = self._store.find_entry(entry.digest)
        keys = self._find_stored(old) if old else None
        if old is not None and keys is not None:
            new = replace(entry, token_version=old.token_version, prunings=self._prunings)
            return self._replace(old, new, keys)
        if raw is None:
            raise self._missing_features_error()
        plain = canonical(raw)
        if old is not None:
            self._subtract(plain, old)
        new = replace(entry, token_version=self._token_version, prunings=self._prunings)
        self._add(plain, new)
        return _make_receipt(old, new)

    def learn_sent(self, raw: bytes) -> Receipt:
        """Record the recipients of a sent message."""
        plain = canonical(raw)
        digest = compute_digest(plain)
        recipients = read_recipients(plain)
        if not recipients:
            return Receipt("ignored", None, None, digest)
        is_new = people.record_sent(self._store, digest, read_senders(plain).addresses, recipients)
        return Receipt("learned" if is_new else "known", None, None, digest)

    def _make_entry(
        self, digest: bytes, label: str, weight: int, other_weight: int, source: str | None = None
    ) -> Entry:
        return Entry(
            digest,
            label,
            weight,
            other_weight,
            self._token_version,
            self._prunings,
            self._source if source is None else source,
            self._now,
        )

    def forget_digest(self, digest: bytes) -> Receipt:
        """Forget the message with this digest, by its stored features."""
        return self._unlearn(digest, None)

    def _unlearn(self, digest: bytes, plain: bytes | None) -> Receipt:
        old = self._store.find_entry(digest)
        if old is None:
            return _make_unknown_receipt(digest)
        self._subtract(plain, old)
        return Receipt("forgotten", None, old.label, digest, old)

    def relabel_digest(self, digest: bytes, label: str) -> Receipt:
        """Move the message with this digest to another label, by its stored features."""
        old = self._store.find_entry(digest)
        if old is None:
            return _make_unknown_receipt(digest)
        if old.label == label:
            return Receipt("known", label, label, digest)
        keys = self._find_stored(old)
        if keys is None:
            raise self._missing_features_error()
        new = replace(
            old,
            label=label,
            weight=self._message_weight,
            other_weight=0,
            prunings=self._prunings,
            time=self._now,
        )
        return self._replace(old, new, keys)

    def _replace(self, old: Entry, new: Entry, keys: "FeatureKeys") -> Receipt:
        """Replace the entry of a message, and move its counts by its stored features."""
        self._journal = None
        self._writer.replace(new)
        self._stored.append((keys, self._change(old, -1)))
        self._relabelled.append((keys, self._change(new, 1)))
        return _make_receipt(old, new)

    def _change(self, entry: Entry, sign: int) -> "Change":
        return tuple(
            (self._writer.ensure_column(name), sign * weight) for name, weight in entry.label_weights
        )

    def _add(self, plain: bytes, entry: Entry) -> None:
        self._journal = None
        self._writer.record(entry)
        self._bytes += len(plain)
        self._uncounted.append((entry.digest, plain, self._change(entry, 1)))

    def _subtract(self, plain: bytes | None, old: Entry, features: "PlaceInPart | None" = None) -> None:
        """Remove a message and subtract its features.

        If the store does not have them, they are the `features` that were read before the transaction, or
        they are read from the canonical bytes.
        """
        self._journal = None
        keys = self._find_stored(old)
        if keys is None and features is not None:
            keys = import_module("tamis_mail.store.feature_sums").read_features(*features)
        if keys is not None:
            self._stored.append((keys, self._change(old, -1)))
        elif plain is None:
            raise self._missing_features_error()
        else:
            self._refuse_other_tokens(old)
            uncounted = self._uncounted_pruned if self._prunings else self._uncounted
            uncounted.append((None, plain, self._change(old, -1)))
        self._writer.remove(old.digest)

    def _refuse_other_tokens(self, old: Entry) -> None:
        if old.token_version != self._token_version:
            raise StoreError(
                f"the store {self._store.name} knows this message by tokens of version {old.token_version} "
                f"and counts tokens of version {self._token_version}, so it cannot be subtracted: "
                "learn your mail into a new store"
            )

    def _find_stored(self, entry: Entry) -> "FeatureKeys | None":
        if self._reader is None:
            self._reader = self._store.feature_reader()
        return self._reader.find(entry.digest)

    def _missing_features_error(self) -> StoreError:
        return StoreError(
            f"the store {self._store.name} does not have the features of this message, which an older tamis "
            "learned: give the message itself (tamis forget, tamis relabel)"
        )

    def run(
        self,
        steps: Iterable[Receipt],
        run_jobs: "RunJobs",
        *,
        has_more: bool = False,
        has_moved: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[Receipt]:
        """Iterate over `steps` while workers count; then write the counts, and fit the weights if necessary.

        `steps` calls the methods of this object and yields their receipts, which are returned. With
        `has_more`, further transactions follow, after which the caller fits the weights; if this transaction
        has removed or moved a message, they are fitted here all the same. `has_moved` says that `learn_read`
        has moved one. `meanwhile` is called once, during the fit if there is one.
        """
        receipts: list[Receipt] = []
        digests: deque[list[bytes]] = deque()  # of the messages that each job adds

        def jobs() -> "Iterator[tuple[Any, ...]]":
            for receipt in steps:
                receipts.append(receipt)
                if len(self._uncounted) >= JOB_MESSAGES or self._bytes >= JOB_BYTES:
                    yield self._make_packing_job(digests)
            while self._uncounted:
                yield self._make_packing_job(digests)

        def subtraction_jobs() -> "Iterator[tuple[Any, ...]]":
            while self._uncounted_pruned:
                yield self._make_job(_take_messages(self._uncounted_pruned))

        added: list[CountTable] = []
        for counted in run_jobs("count_and_pack", jobs()):
            added.append(counted.table)
            self._store_bundles(digests.popleft(), counted.bundles, counted.dates)
        subtracted: list[CountTable] = list(run_jobs("count", subtraction_jobs()))
        if self._relabelled:
            added.append(self._count_stored(self._relabelled))
        if self._stored:
            (subtracted if self._prunings else added).append(self._count_stored(self._stored))
        pending_sum = self._sum(added) if added or self._parts else None
        if subtracted:
            if pending_sum is not None:
                self._writer.add(pending_sum.compute().table)
            self._writer.add_clipped(self._sum(subtracted).compute().table)
            pending_sum = None
        has_removed = has_moved or any(receipt.action in ("moved", "forgotten") for receipt in receipts)
        if has_removed or not has_more:
            update_weights(
                self._store,
                self._writer,
                has_removed=has_removed,
                pending_sum=pending_sum,
                features=self._features,
                meanwhile=meanwhile,
            )
            return receipts
        if pending_sum is not None:
            self._writer.add(pending_sum.compute().table)
        meanwhile()
        return receipts

    def _sum(self, tables: "list[CountTable]") -> "PendingSum":
        """Prepare the sum of the tables and of `_parts`; clear both lists, whose memory is large."""
        total: PendingSum = import_module("tamis_mail.store.feature_sums").PendingSum(
            self._parts, tables, self._writer.n_labels
        )
        tables.clear()
        self._parts.clear()
        return total

    def _make_packing_job(self, digests: deque[list[bytes]]) -> "tuple[Any, ...]":
        """Return the arguments of a job that counts and packs messages; append the digests of those added."""
        messages = _take_messages(self._uncounted)
        self._bytes = 0
        digests.append([digest for digest, _, _ in messages if digest is not None])
        return *self._make_job(messages), [digest is not None for digest, _, _ in messages]

    def _make_job(
        self, messages: "Sequence[UncountedMessage]"
    ) -> "tuple[list[bytes], list[Change], int, int]":
        """Return the arguments of a job that counts the features of messages."""
        raws, changes = [plain for _, plain, _ in messages], [change for *_, change in messages]
        return raws, changes, self._writer.n_labels, self._token_version

    def _store_bundles(
        self,
        digests: Sequence[bytes],
        bundles: Iterable[tuple[int, bytes | None]],
        dates: Sequence[int | None],
    ) -> None:
        """Store bundles, given the number of messages and the bytes of each."""
        begin = 0
        for n_messages, packed in bundles:
            part = slice(begin, begin + n_messages)
            self._writer.store_features(digests[part], packed, dates[part])
            begin += n_messages

    def _count_stored(self, changes: "list[tuple[FeatureKeys, Change]]") -> "CountTable":
        keys, weights = [keys for keys, _ in changes], [change for _, change in changes]
        table: CountTable = import_module("tamis_mail.store.tables").CountTable.sum_messages(
            keys, weights, self._writer.n_labels
        )
        return table


def _take_messages(uncounted: "list[UncountedMessage]") -> "list[UncountedMessage]":
    """Return the messages of one job, and remove them from the list."""
    part = uncounted[:JOB_MESSAGES]
    del uncounted[:JOB_MESSAGES]
    return part


def _select_messages(
    read: "ReadMessages", places: Sequence[int], messages: Sequence[bytes]
) -> "ReadMessages":
    selected: ReadMessages = import_module("tamis_mail.sieve.jobs").select_messages(read, places, messages)
    return selected


def _make_unknown_receipt(digest: bytes) -> Receipt:
    return Receipt("unknown", None, None, digest)


def _make_receipt(old: Entry | None, new: Entry) -> Receipt:
    if old is None:
        return Receipt("learned", new.label, None, new.digest, None, new)
    return Receipt("moved", new.label, old.label, new.digest, old, new)
