"""Compute the strongest evidence on a message with NumPy; `judging.judge` is the reference."""

import numpy as np
from numpy.typing import NDArray

from tamis_mail import tokens
from tamis_mail.features import GRAMS, VIEWS, hash_tokens, name_features
from tamis_mail.features.arrays import views
from tamis_mail.message import canonical, parse
from tamis_mail.message.addresses import read_senders
from tamis_mail.sieve.open_stores import OpenStore
from tamis_mail.sieve.word_list import read_word_list
from tamis_mail.verdict import Evidence, Rule, judge_sender, sort_evidence
from tamis_mail.verdict.arrays import contribute
from tamis_mail.verdict.judging import HEADER_LENGTH, INTERCEPT, INTERCEPT_VIEW

_STRONGEST = 20  # so many features of all views are explained, and so many of the views other than n-grams


def explain_strongest(opened: OpenStore, raw: bytes) -> tuple[Evidence, ...]:
    """Return the evidence for `Verdict.strongest` on a message; the caller opens a snapshot before."""
    plain = canonical(raw)
    store = opened.store
    rule = Rule.of(store)
    message_tokens = tokens.read(parse(plain), rule.token_version)
    keys = np.array(hash_tokens(message_tokens), np.uint64)
    counts = store.count_arrays(keys, opened.runs)
    parts = contribute(
        keys, counts, store.labels(), rule, store.message_weight(), store.coefficient_array(keys)
    )
    sizes = np.abs(parts.features)
    kinds = views(keys, rule.token_version)
    selected = np.flatnonzero(_are_largest(sizes) | _are_largest(np.where(kinds == GRAMS, 0.0, sizes)))
    names = name_features(message_tokens, frozenset(keys[selected].tolist()))
    evidence = [
        Evidence(names[int(keys[index])], VIEWS[kinds[index]], *map(float, numbers))
        for index, *numbers in zip(
            selected, parts.features[selected], parts.spam[selected], parts.ham[selected], strict=True
        )
    ]
    evidence += read_word_list(store, plain)
    messages = parts.n_spam, parts.n_ham
    if parts.header_length:
        evidence.append(Evidence(HEADER_LENGTH, VIEWS[GRAMS], parts.header_length, *messages))
    if parts.intercept:
        evidence.append(Evidence(INTERCEPT, INTERCEPT_VIEW, parts.intercept, *messages))
    if store.has_people():
        senders = read_senders(plain)
        people = store.look_up_people(senders.addresses)
        standing = judge_sender(senders, people.listed, people.correspondents)
        evidence += [standing.evidence] if standing.evidence else []
    return sort_evidence(evidence)


def _are_largest(sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(features,): whether each size is above 0 and at least the _STRONGEST-th largest one."""
    if len(sizes) <= _STRONGEST:
        return sizes > 0
    smallest: np.float64 = np.partition(sizes, -_STRONGEST)[-_STRONGEST]
    return (sizes >= smallest) & (sizes > 0)
