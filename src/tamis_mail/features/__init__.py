"""tokens → the set of features of a message, each a 48-bit number.

A feature is a token under one of the views; its number is a hash of the token's bytes with the view in the
lowest bits, so that a store of counts needs neither text nor a column for the view. The hash is part of the
format of a store: it never changes without `tokens.VERSION`. Version 1 has four views in two bits, version 2
has five in three. Two forms give the same numbers: `hashing`, in plain Python, for one message in a process
that has just started, and `arrays`, in NumPy, for many messages at once. `tests/mail/features` compares them.

With 45 bits of hash and a hundred million features known, one new token in 350,000 meets another's number.
"""

from tamis_mail.features.hashing import (
    GRAMS,
    HEADERS,
    KEY_BITS,
    PAIRS,
    RELATIONS,
    VIEWS,
    VIEWS_OF,
    WORDS,
    hash_tokens,
    key,
    name_features,
    view,
    view_mask,
)

__all__ = [
    "GRAMS",
    "HEADERS",
    "KEY_BITS",
    "PAIRS",
    "RELATIONS",
    "VIEWS",
    "VIEWS_OF",
    "WORDS",
    "hash_tokens",
    "key",
    "name_features",
    "view",
    "view_mask",
]
