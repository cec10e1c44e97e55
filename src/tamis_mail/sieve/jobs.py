"""The jobs of a worker: computing features, counts or verdicts of a batch of messages."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import arrays, read_features
from tamis_mail.message import Heading, canonical, identify, read_headings
from tamis_mail.message.addresses import read_senders
from tamis_mail.schema import MAX_BUNDLE_FEATURES
from tamis_mail.sieve.word_list import read_word_list
from tamis_mail.store import Store
from tamis_mail.store.bundle_arrays import Bundle, divide, merge_lists, pack, unpack
from tamis_mail.store.overlay import VerdictStore, open_overlay
from tamis_mail.store.tables import Change, CountTable, RunCache
from tamis_mail.verdict import Identity, Judgement, Rule, judge_sender, with_standing
from tamis_mail.verdict.arrays import judge_many

__all__ = [
    "Change",
    "CountedMessages",
    "ReadMessages",
    "count",
    "count_and_pack",
    "digest_messages",
    "extract_features",
    "identify_and_judge",
    "judge",
    "judge_features",
    "keep_stores_open",
    "read_messages",
    "select_messages",
]


@dataclass(frozen=True, slots=True)
class CountedMessages:
    """The counts of some messages, and their features to be stored."""

    table: CountTable
    bundles: list[tuple[int, bytes | None]]  # (messages, packed features), one after the other
    dates: list[int | None]  # of those messages


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """What was read of some messages that are to be learned."""

    token_version: int
    digests: list[bytes]
    headings: list[Heading]  # empty if they were not asked for
    # The indices of the messages with features, in ascending order: neither copies nor known messages.
    places: list[int]
    dates: list[int | None]  # of those messages
    bundles: list[tuple[int, bytes | None]]  # (messages, packed features), one after the other
    keys: arrays.Numbers  # of all features, in ascending order
    counts: NDArray[np.int64]  # (keys,): the number of messages that have each
    features: dict[bytes, arrays.Numbers]  # of those messages, by their digests


@dataclass(slots=True)
class OpenStore:
    """A store that stays open, with a cache of its counts, which is cleared when the store changes."""

    store: VerdictStore
    data_version: int = -1
    runs: RunCache = field(default_factory=dict)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads of the block see the same state of the store."""
        with self.store.snapshot():
            data_version = self.store.data_version()
            if data_version != self.data_version:
                self.runs.clear()
                self.data_version = data_version
            yield


@dataclass(slots=True)
class _Opened:
    """The store at a path, and the store that verdicts read, which may include the site's."""

    own: Store
    judging: OpenStore

    @classmethod
    def open_path(cls, path: str) -> "_Opened":
        own = Store(path, readonly=True)
        try:
            return cls(own, OpenStore(open_overlay(own) or own))
        except BaseException:  # the site's store cannot be opened
            own.close()
            raise

    def close(self) -> None:
        self.judging.store.close()
        self.own.close()


class _ThreadStores(threading.local):
    """The stores that a thread keeps open, by path; None if a store is closed after each job."""

    stores: dict[str, _Opened] | None = None


_thread = _ThreadStores()


@contextmanager
def keep_stores_open() -> Iterator[None]:
    """Keep the stores of this thread open until the end of the block, for all jobs of a worker."""
    _thread.stores = {}
    try:
        yield
    finally:
        for opened in _thread.stores.values():
            opened.close()
        _thread.stores = None


@contextmanager
def _open(path: str) -> Iterator[_Opened]:
    """Open a store, or take the open one of this thread; all reads of the block see the same state."""
    stores = _thread.stores
    if stores is None:
        opened = _Opened.open_path(path)
    elif path in stores:
        opened = stores[path]
    else:
        opened = stores[path] = _Opened.open_path(path)
    with closing(opened) if stores is None else nullcontext(), opened.judging.snapshot():
        yield opened


def read_messages(path: str, messages: Sequence[bytes], label: str, has_headings: bool) -> ReadMessages:
    """Read messages that are to be learned under a label by the store at a path.

    The features of messages that the store knows under that label are left out.
    """
    plain, digests = identify(messages)
    with _open(path) as opened:
        token_version = opened.own.token_version()
        known = {name for name, entry in opened.own.find_entries(digests).items() if entry.label == label}
    first_places: dict[bytes, int] = {}
    for place, name in enumerate(digests):
        if name not in known:
            first_places.setdefault(name, place)
    places = list(first_places.values())
    dates: list[int | None] = []
    features = extract_features([plain[place] for place in places], token_version, dates)
    headings = read_headings(messages, plain) if has_headings else []
    features_by_digest = {digests[place]: keys for place, keys in zip(places, features, strict=True)}
    return ReadMessages(
        token_version, digests, headings, places, dates, *_combine(features), features_by_digest
    )


def _combine(
    features: Sequence[arrays.Numbers],
) -> tuple[list[tuple[int, bytes | None]], arrays.Numbers, NDArray[np.int64]]:
    """Return the packed features of messages, all keys, and the number of messages that have each key."""
    bundles = [Bundle.of(features[begin:end]) for begin, end in divide([len(keys) for keys in features])]
    if len(bundles) == 1:  # the bundle has sorted the keys, which takes most of the time
        keys = bundles[0].keys
        counts = np.bincount(bundles[0].indices, minlength=len(keys))
    else:
        table = CountTable.count_features(np.concatenate([*features, np.empty(0, np.uint64)]))
        keys, counts = table.keys, table.counts[:, 0]
    return [(len(bundle), _pack(bundle)) for bundle in bundles], keys, counts.astype(np.int64, copy=False)


def select_messages(read: ReadMessages, places: Sequence[int], messages: Sequence[bytes]) -> ReadMessages:
    """Return what was read of some of the messages; their bytes are needed where features are not packed."""
    features: dict[int, arrays.Numbers] = {}
    dates = dict(zip(read.places, read.dates, strict=True))
    begin = 0
    for n_messages, packed in read.bundles:
        if packed is not None:
            bundle = unpack(packed)
            for number, place in enumerate(read.places[begin : begin + n_messages]):
                features[place] = bundle.features(number)
        begin += n_messages
    for place in places:
        if place not in features:
            own_dates: list[int | None] = []
            (features[place],) = extract_features([canonical(messages[place])], read.token_version, own_dates)
            (dates[place],) = own_dates
    bundles, keys, counts = _combine([features[place] for place in places])
    return replace(
        read,
        places=list(places),
        dates=[dates[place] for place in places],
        bundles=bundles,
        keys=keys,
        counts=counts,
    )


def count_and_pack(
    messages: Sequence[bytes],
    changes: Sequence[Change],
    labels: int,
    token_version: int,
    are_added: Sequence[bool],
) -> CountedMessages:
    """Sum the changes of counts of messages in canonical form, and pack the features of those to be added."""
    dates: list[int | None] = []
    features = extract_features(messages, token_version, dates)
    added = [keys for keys, is_added in zip(features, are_added, strict=True) if is_added]
    bundles = [Bundle.of(added[begin:end]) for begin, end in divide([len(keys) for keys in added])]
    if len(bundles) == 1 and len(added) == len(features) and len(set(changes)) == 1:
        # The usual case: the bundle has sorted the keys, which takes most of the time of `sum_messages`.
        counts = np.bincount(bundles[0].indices, minlength=len(bundles[0].keys))
        table = CountTable.multiply_change(bundles[0].keys, counts, changes[0], labels)
    else:
        table = CountTable.sum_messages(features, changes, labels)
    added_dates = [date for date, is_added in zip(dates, are_added, strict=True) if is_added]
    return CountedMessages(table, [(len(bundle), _pack(bundle)) for bundle in bundles], added_dates)


def count(
    messages: Sequence[bytes], changes: Sequence[Change], labels: int, token_version: int
) -> CountTable:
    """Sum the changes of counts of messages in canonical form."""
    return CountTable.sum_messages(extract_features(messages, token_version), changes, labels)


def _pack(bundle: Bundle) -> bytes | None:
    return None if len(bundle.indices) > MAX_BUNDLE_FEATURES else pack(bundle)


def identify_and_judge(path: str, messages: Sequence[bytes]) -> list[tuple[Judgement, Identity]]:
    """Judge messages by the store at a path; return each with its digest, sender and subject."""
    with _open(path) as opened:
        return identify_and_judge_by(opened.judging, messages)


def identify_and_judge_by(opened: OpenStore, messages: Sequence[bytes]) -> list[tuple[Judgement, Identity]]:
    """Judge messages by an open store, in a snapshot; return each with its digest, sender and subject."""
    plain, digests = identify(messages)
    headings = read_headings(messages, plain)
    identities = [Identity(name, *heading) for name, heading in zip(digests, headings, strict=True)]
    return list(zip(_judge(opened, plain), identities, strict=True))


def judge(path: str, messages: Sequence[bytes]) -> list[Judgement]:
    """Judge messages by the store at a path, without evidence."""
    with _open(path) as opened:
        return _judge(opened.judging, identify(messages)[0])


def _judge(opened: OpenStore, plain: Sequence[bytes]) -> list[Judgement]:
    """Judge messages in canonical form."""
    store = opened.store
    features = extract_features(plain, store.token_version())
    judgements = judge_features(features, store, offsets=_weigh_word_list(plain, store), cache=opened.runs)
    if not store.has_people():
        return judgements
    rule = Rule.of(store)
    all_senders = [read_senders(message) for message in plain]
    people = store.look_up_people(address for senders in all_senders for address in senders.addresses)
    return [
        with_standing(judgement, judge_sender(senders, people.listed, people.correspondents), rule)
        for judgement, senders in zip(judgements, all_senders, strict=True)
    ]


def _weigh_word_list(messages: Sequence[bytes], store: VerdictStore) -> NDArray[np.float64] | None:
    """(messages,): the sum of the evidence of the store's word list; None if there is no list."""
    if store.word_list_totals() is None:
        return None
    return np.array(
        [sum(one.contribution for one in read_word_list(store, raw)) for raw in messages], np.float64
    )


def judge_features(
    features: Sequence[arrays.Numbers],
    store: VerdictStore,
    *,
    with_guesses: bool = True,
    offsets: NDArray[np.float64] | None = None,
    cache: RunCache | None = None,
) -> list[Judgement]:
    """Judge messages by their features; without guesses, by labelled mail only."""
    rule = Rule.of(store)
    if not with_guesses:
        rule = replace(rule, guessed=0.0)
    starts = np.cumsum([0, *(len(keys) for keys in features)], dtype=np.intp)
    distinct, inverse = merge_lists(features)
    counts = store.count_arrays(distinct, cache)
    return judge_many(
        distinct,
        inverse,
        starts,
        counts,
        store.labels(),
        rule,
        store.message_weight(),
        coefficients=store.coefficient_array(distinct),
        offsets=offsets,
    )


def digest_messages(
    messages: Sequence[bytes], token_version: int
) -> tuple[list[bytes], list[arrays.Numbers]]:
    """Return the digest and the features of each message."""
    plain, digests = identify(messages)
    return digests, extract_features(plain, token_version)


def extract_features(
    messages: Sequence[bytes], token_version: int, dates: list[int | None] | None = None
) -> list[arrays.Numbers]:
    """Compute the features of each message in canonical form, and append its date to `dates`, if given."""
    features = read_features(messages, token_version)
    if dates is not None:
        dates += [date for _, date in features]
    return [np.frombuffer(packed, "<u8") for packed, _ in features]
