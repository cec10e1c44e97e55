"""The jobs of a worker process: counts or verdicts of a batch of messages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis_mail import tokens
from tamis_mail.features import arrays
from tamis_mail.message import canonical, digest, parse
from tamis_mail.message.addresses import read_senders
from tamis_mail.message.dates import read_date
from tamis_mail.schema import MAX_BUNDLE_FEATURES
from tamis_mail.sieve.word_list import read_word_list
from tamis_mail.store import Store
from tamis_mail.store.bundle_arrays import Bundle, divide, pack
from tamis_mail.store.people import look_up
from tamis_mail.store.tables import Change, CountTable
from tamis_mail.verdict import Judgement, Rule, judge_sender, with_standing
from tamis_mail.verdict.arrays import judge_many

__all__ = [
    "Change",
    "CountedMessages",
    "count",
    "count_and_pack",
    "digest_messages",
    "extract_features",
    "judge",
    "judge_features",
]


@dataclass(frozen=True, slots=True)
class CountedMessages:
    """The counts of some messages, and their features to be stored."""

    table: CountTable
    bundles: list[tuple[int, bytes | None]]  # (messages, packed features), one after the other
    dates: list[int | None]  # of those messages


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


def judge(path: str, messages: Sequence[bytes]) -> list[Judgement]:
    """Judge messages by the store at a path, without evidence."""
    plain = [canonical(raw) for raw in messages]
    senders = [read_senders(one) for one in plain]
    with Store(path, readonly=True) as store, store.snapshot():
        features = extract_features(plain, store.token_version())
        judgements = judge_features(features, store, offsets=_weigh_word_list(plain, store))
        rule = Rule.of(store)
        people = look_up(store, (address for one in senders for address in one.addresses))
    return [
        with_standing(judgement, judge_sender(one, people.listed, people.correspondents), rule)
        for judgement, one in zip(judgements, senders, strict=True)
    ]


def _weigh_word_list(messages: Sequence[bytes], store: Store) -> NDArray[np.float64] | None:
    """(messages,): the sum of the evidence of the store's word list; None if there is no list."""
    if store.word_list_totals() is None:
        return None
    return np.array(
        [sum(one.contribution for one in read_word_list(store, parse(raw))) for raw in messages], np.float64
    )


def judge_features(
    features: Sequence[arrays.Numbers],
    store: Store,
    *,
    with_guesses: bool = True,
    offsets: NDArray[np.float64] | None = None,
) -> list[Judgement]:
    """Judge messages by their features; without guesses, by labelled mail only."""
    rule = Rule.of(store)
    if not with_guesses:
        rule = replace(rule, guessed=0.0)
    starts = np.cumsum([0, *(len(keys) for keys in features)])
    keys = np.concatenate([*features, np.empty(0, np.uint64)])
    distinct, inverse = np.unique(keys, return_inverse=True)
    counts = store.count_arrays(distinct)
    return judge_many(
        keys,
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
    plain = [canonical(raw) for raw in messages]
    return [digest(raw) for raw in plain], extract_features(plain, token_version)


def extract_features(
    messages: Sequence[bytes], token_version: int, dates: list[int | None] | None = None
) -> list[arrays.Numbers]:
    """Compute the features of each message in canonical form, and append its date to `dates`, if given."""
    features: list[arrays.Numbers] = []
    for raw in messages:
        message = parse(raw)
        if dates is not None:
            dates.append(read_date(message.headers))
        features.append(arrays.hash_tokens(tokens.read(message, token_version)))
    return features
