"""The jobs that workers run: read the features of a batch of messages, count them, or judge messages."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import arrays, read_features
from tamis_mail.message import canonical, identify, read_headings
from tamis_mail.message.addresses import read_senders
from tamis_mail.records import record, replace
from tamis_mail.schema import MAX_BUNDLE_FEATURES
from tamis_mail.sieve.open_stores import OpenStore, open_store
from tamis_mail.sieve.reading import ReadMessages, find_known, find_new_places, locate_features
from tamis_mail.sieve.word_list import read_word_list
from tamis_mail.store import feature_sums
from tamis_mail.store.bundle_arrays import Bundle, merge_lists, pack
from tamis_mail.store.bundles import divide
from tamis_mail.store.overlay import VerdictStore
from tamis_mail.store.tables import Change, CountTable, RunCache
from tamis_mail.verdict import Identity, Judgement, Rule, judge_sender, with_standing
from tamis_mail.verdict.arrays import judge_many


@record(frozen=True, slots=True)
class CountedMessages:
    """The counts of some messages, and the packed features of those that are to be stored."""

    table: CountTable
    # For each bundle in order: its number of messages, and their packed features (None if they are too many).
    bundles: list[tuple[int, bytes | None]]
    dates: list[int | None]  # of the messages in `bundles`


def read_messages(
    path: str | None, messages: Sequence[bytes], label: str, has_headings: bool
) -> ReadMessages:
    """Read messages as `reading.read_messages` does, without the core."""
    plain, digests = identify(messages)
    token_version, known = find_known(path, digests, label)
    places = find_new_places(digests, known)
    dates: list[int | None] = []
    features = extract_features([plain[place] for place in places], token_version, dates)
    headings = read_headings(messages, plain) if has_headings else []
    parts, bundles = _bundle(features)
    return ReadMessages(
        token_version=token_version,
        digests=digests,
        headings=headings,
        places=places,
        dates=dates,
        bundles=bundles,
        parts=[*parts],
        features=locate_features([digests[place] for place in places], parts),
    )


def _bundle(features: Sequence[arrays.Numbers]) -> tuple[list[Bundle], list[tuple[int, bytes | None]]]:
    """Return bundles of the features of messages, and for each its number of messages and its bytes."""
    bundles = [Bundle.of(features[begin:end]) for begin, end in divide([len(keys) for keys in features])]
    return bundles, [(len(bundle), _pack(bundle)) for bundle in bundles]


def select_messages(read: ReadMessages, places: Sequence[int], messages: Sequence[bytes]) -> ReadMessages:
    """Return what `read_messages` would return for the messages at some places; read those it left out."""
    features: dict[int, arrays.Numbers] = {}
    dates = dict(zip(read.places, read.dates, strict=True))
    all_places = ((part, number) for part in read.parts for number in range(len(part)))
    for place, (part, number) in zip(read.places, all_places, strict=True):
        features[place] = feature_sums.read_features(part, number)
    for place in places:
        if place not in features:
            one_date: list[int | None] = []  # `extract_features` appends the date of the message
            (features[place],) = extract_features([canonical(messages[place])], read.token_version, one_date)
            (dates[place],) = one_date
    parts, bundles = _bundle([features[place] for place in places])
    return replace(
        read,
        places=list(places),
        dates=[dates[place] for place in places],
        bundles=bundles,
        parts=[*parts],
        features=locate_features([read.digests[place] for place in places], parts),
    )


def count_and_pack(
    messages: Sequence[bytes],
    changes: Sequence[Change],
    labels: int,
    token_version: int,
    are_added: Sequence[bool],
) -> CountedMessages:
    """Sum what messages in canonical form change in the counts; pack the features of the added messages."""
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
    """Sum what messages in canonical form change in the counts."""
    return CountTable.sum_messages(extract_features(messages, token_version), changes, labels)


def _pack(bundle: Bundle) -> bytes | None:
    return None if len(bundle.indices) > MAX_BUNDLE_FEATURES else pack(bundle)


def identify_and_judge(path: str, messages: Sequence[bytes]) -> list[tuple[Judgement, Identity]]:
    """Judge messages by the store at a path; return each with its digest, sender and subject."""
    with open_store(path) as opened:
        return identify_and_judge_by(opened.judging, messages)  # the store, or it and the site's


def identify_and_judge_by(opened: OpenStore, messages: Sequence[bytes]) -> list[tuple[Judgement, Identity]]:
    """Judge messages by an open store, in a snapshot; return each with its digest, sender and subject."""
    plain, digests = identify(messages)
    headings = read_headings(messages, plain)
    identities = [Identity(digest, *heading) for digest, heading in zip(digests, headings, strict=True)]
    return list(zip(_judge(opened, plain), identities, strict=True))


def judge(path: str, messages: Sequence[bytes]) -> list[tuple[Judgement, None]]:
    """Judge messages by the store at a path; return each judgement with None in place of an identity."""
    with open_store(path) as opened:
        return [(judgement, None) for judgement in _judge(opened.judging, identify(messages)[0])]


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
    """Judge messages by their features; with `with_guesses=False`, by labelled mail only."""
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
