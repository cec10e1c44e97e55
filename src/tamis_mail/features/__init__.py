"""Compute the features of a message from its tokens: a set of 48-bit numbers.

A feature is a token and its view (kind of token); its number is a hash of the token's bytes with the view in
the lowest bits, so that a store of counts needs neither text nor a column for the view. The hash is part of
the format of a store: it never changes without `tokens.VERSION`. Version 1 has four views in two bits, and
later versions have five views in three. The compiled core computes the numbers; `hashing`, in plain Python,
defines them, and is used where there is no core. `tests/mail/features` compares them.

A new token has the number of a known one with probability 1 / 350,000, if a hundred million features of its
view are known (and 45 bits are those of the hash, as since version 2).
"""

from collections.abc import Sequence
from importlib import import_module
from struct import pack, unpack

from tamis.compiled import core
from tamis_mail import tokens
from tamis_mail.features import hashing
from tamis_mail.features.hashing import (
    GRAMS,
    HEADERS,
    KEY_BITS,
    PAIRS,
    RELATIONS,
    VIEWS,
    VIEWS_OF,
    WORDS,
    key,
    name_features,
    view,
    view_mask,
)
from tamis_mail.message.compiled import MESSAGE_READER
from tamis_mail.tokens import COMPILED_VERSIONS, Tokens

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
    "pack_features",
    "read_features",
    "read_keys",
    "view",
    "view_mask",
]


def hash_tokens(tokens: Tokens) -> list[int]:
    """Compute the features of a message, in ascending order.

    >>> numbers = hash_tokens(Tokens(head=b"From: a@b", headers=b"from:@b", words=b"see you soon", marks=b""))
    >>> len(numbers), max(numbers) < 2**48
    (9, True)
    """
    packed = pack_features(tokens)
    return list(unpack(f"<{len(packed) // 8}Q", packed))


def read_keys(canonical_bytes: bytes, version: int) -> list[int]:
    """Compute the features of a message, in ascending order."""
    ((packed, _),) = read_features([canonical_bytes], version)
    return list(unpack(f"<{len(packed) // 8}Q", packed))


def pack_features(tokens: Tokens) -> bytes:
    """Compute the features of a message, in ascending order, eight little-endian bytes each."""
    if core is None:
        numbers = sorted(hashing.hash_tokens(tokens))
        return pack(f"<{len(numbers)}Q", *numbers)
    packed: bytes = core.mail.hash_tokens(
        tokens.head,
        tokens.headers,
        tokens.words,
        tokens.marks,
        tokens.relations,
        tokens.patterns,
        tokens.subject,
        tokens.version,
    )
    return packed


def read_features(messages: Sequence[bytes], version: int) -> list[tuple[bytes, int | None]]:
    """Compute the features of messages in canonical form, packed, and the date of each message (or None).

    >>> ((packed, date),) = read_features([b"Date: Fri, 23 Aug 2002 23:10:22 +0800\\n\\nsee you"], 2)
    >>> len(packed) // 8, date
    (36, 1030115422)
    """
    # MESSAGE_READER is the core's reader; None if there is no core.
    by_core = (
        [None] * len(messages)
        if MESSAGE_READER is None or version not in COMPILED_VERSIONS
        else MESSAGE_READER.read_features(list(messages), version)
    )
    features = []
    for raw, result in zip(messages, by_core, strict=True):
        if result is None:  # a message that Python must read
            message = import_module("tamis_mail.message.tree").parse(raw)
            packed = pack_features(tokens.read(message, version))
            date = import_module("tamis_mail.message.dates").read_date(message.headers)
            features.append((packed, date))
        else:
            features.append(result)
    return features
