"""The jobs of a worker process: counts or verdicts of a batch of messages."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tamis_mail import tokens
from tamis_mail.features import arrays
from tamis_mail.message import canonical, digest, parse
from tamis_mail.message.addresses import read_senders
from tamis_mail.store import Store
from tamis_mail.store.people import look_up
from tamis_mail.store.tables import CountTable
from tamis_mail.verdict import Judgement, Rule, judge_sender, with_standing
from tamis_mail.verdict.arrays import judge_many

__all__ = ["Change", "count", "digest_messages", "extract_features", "judge", "judge_features"]

Change = tuple[tuple[int, int], ...]  # (column, weight) of each label whose counts a message changes

_FEATURE_BATCH = 32  # messages whose features are computed together: more exceed the processor's cache


def count(
    messages: Sequence[bytes], changes: Sequence[Change], labels: int, token_version: int
) -> CountTable:
    """Sum the changes of counts of messages in canonical form."""
    features = extract_features(messages, token_version)
    messages_by_change: dict[Change, list[int]] = defaultdict(list)
    for number, change in enumerate(changes):
        messages_by_change[change].append(number)
    tables = []
    for change, numbers in messages_by_change.items():
        keys = np.concatenate([features[number] for number in numbers])
        table = CountTable.count_features(keys)
        for column, weight in change:
            counts = np.zeros((len(table.keys), labels), np.int64)
            counts[:, column] = table.counts[:, 0] * weight
            tables.append(CountTable(table.keys, counts))
    return tables[0] if len(tables) == 1 else CountTable.total(tables, labels)


def judge(path: str, messages: Sequence[bytes]) -> list[Judgement]:
    """Judge messages by the store at a path, without evidence."""
    plain = [canonical(raw) for raw in messages]
    senders = [read_senders(one) for one in plain]
    with Store(path, readonly=True) as store, store.snapshot():
        judgements = judge_features(extract_features(plain, store.token_version()), store)
        rule = Rule.of(store)
        people = look_up(store, (address for one in senders for address in one.addresses))
    return [
        with_standing(judgement, judge_sender(one, people.listed, people.correspondents), rule)
        for judgement, one in zip(judgements, senders, strict=True)
    ]


def judge_features(
    features: Sequence[arrays.Numbers], store: Store, *, with_guesses: bool = True
) -> list[Judgement]:
    """Judge messages by their features; without guesses, by labelled mail only."""
    rule = Rule.of(store)
    if not with_guesses:
        rule = replace(rule, guessed=0.0)
    starts = np.cumsum([0, *(len(keys) for keys in features)])
    keys = np.concatenate([*features, np.empty(0, np.uint64)])
    distinct, inverse = np.unique(keys, return_inverse=True)
    counts = store.count_arrays(distinct)
    return judge_many(keys, inverse, starts, counts, store.labels(), rule, store.message_weight())


def digest_messages(
    messages: Sequence[bytes], token_version: int
) -> tuple[list[bytes], list[arrays.Numbers]]:
    """Return the digest and the features of each message."""
    plain = [canonical(raw) for raw in messages]
    return [digest(raw) for raw in plain], extract_features(plain, token_version)


def extract_features(messages: Sequence[bytes], token_version: int) -> list[arrays.Numbers]:
    """Compute the features of each message in canonical form."""
    features: list[arrays.Numbers] = []
    for start in range(0, len(messages), _FEATURE_BATCH):
        batch = arrays.hash_tokens(
            [tokens.read(parse(raw), token_version) for raw in messages[start : start + _FEATURE_BATCH]]
        )
        features += np.split(batch.keys, batch.starts[1:-1])
    return features
