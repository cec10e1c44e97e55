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

_STRONGEST = 20  # number of the largest contributions that are returned, with and without n-grams


def explain_strongest(opened: OpenStore, raw: bytes) -> tuple[Evidence, ...]:
    """Return the evidence for `Verdict.strongest` on a message; the caller opens a snapshot before."""
    plain = canonical(raw)
    store = opened.store
    rule = Rule.of(store)
    message_tokens = tokens.read(parse(plain), rule.token_version)
    keys = np.array(hash_tokens(message_tokens), np.uint64)
    counts = store.count_arrays(keys, opened.runs)
    contributions = contribute(
        keys, counts, store.labels(), rule, store.message_weight(), store.coefficient_array(keys)
    )
    sizes = np.abs(contributions.features)
    view_numbers = views(keys, rule.token_version)
    selected = np.flatnonzero(_are_largest(sizes) | _are_largest(np.where(view_numbers == GRAMS, 0.0, sizes)))
    names = name_features(message_tokens, frozenset(keys[selected].tolist()))
    evidence = [
        Evidence(names[int(keys[index])], VIEWS[view_numbers[index]], *map(float, numbers))
        for index, *numbers in zip(
            selected,
            contributions.features[selected],
            contributions.spam[selected],
            contributions.ham[selected],
            strict=True,
        )
    ]
    evidence += read_word_list(store, plain)
    messages = contributions.n_spam, contributions.n_ham
    if contributions.offset:
        evidence.append(Evidence(HEADER_LENGTH, VIEWS[GRAMS], contributions.offset, *messages))
    if contributions.intercept:
        evidence.append(Evidence(INTERCEPT, INTERCEPT_VIEW, contributions.intercept, *messages))
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
