"""tokens of many messages → their feature numbers, in NumPy: the same as `hashing`, and much faster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import hashing
from tamis_mail.features.hashing import GRAMS, HEADERS, KEY_BITS, PAIRS, RELATIONS, WORDS
from tamis_mail.tokens import VERSION, Tokens

Numbers = NDArray[np.uint64]

MAX_MESSAGES = 1 << 64 - KEY_BITS  # per batch: the upper bits of a 64-bit number hold the message's index
_KEY = np.uint64((1 << KEY_BITS) - 1)
_MULTIPLIER = np.uint64(hashing.MULTIPLIER)
_FINAL_MULTIPLIER = np.uint64(hashing.FINAL_MULTIPLIER)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(hashing.BLOCK + 1)], np.uint64)
_OWNER = np.uint64(KEY_BITS)
_ROOM = b"\0" * hashing.BLOCK  # so that a block can be read at the last byte
_BREAK = 10


@dataclass(frozen=True, slots=True)
class FeatureBatch:
    """The features of several messages, one message after the other, each in ascending order."""

    keys: Numbers  # (features,)
    starts: NDArray[np.intp]  # (messages + 1,): message i has keys[starts[i] : starts[i + 1]]

    def __len__(self) -> int:
        return len(self.starts) - 1


def views(keys: Numbers, version: int = VERSION) -> NDArray[np.intp]:
    """Compute `hashing.view` of each key."""
    return (keys & np.uint64(hashing.view_mask(version))).astype(np.intp)


def expand_ranges(
    starts: NDArray[np.intp], chosen: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of all features of the chosen messages, and for each the index of its message.

    Message i has the places starts[i], …, starts[i + 1] - 1; the index counts the chosen messages.

    >>> places, owners = expand_ranges(np.array([0, 2, 5, 6]), np.array([1, 2]))
    >>> places.tolist(), owners.tolist()
    ([2, 3, 4, 5], [0, 0, 0, 1])
    """
    sizes = starts[chosen + 1] - starts[chosen]
    owners = np.repeat(np.arange(len(chosen)), sizes)
    begins = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + (starts[chosen] - begins)[owners], owners


def hash_tokens(messages: Sequence[Tokens]) -> FeatureBatch:
    """The features of at most MAX_MESSAGES messages, whose tokens are of one version."""
    if len(messages) >= MAX_MESSAGES:
        raise ValueError(f"a batch has at most {MAX_MESSAGES - 1} messages, not {len(messages)}")
    if not messages:
        return FeatureBatch(np.empty(0, np.uint64), np.zeros(1, np.intp))
    versions = {tokens.version for tokens in messages}
    if len(versions) > 1:
        raise ValueError(f"a batch has tokens of one version, not of {sorted(versions)}")
    bits = hashing.view_bits(*versions)
    keys = np.concatenate([_grams(messages, bits), *_words(messages, bits)])
    keys.sort()
    distinct = keys[np.flatnonzero(np.diff(keys, prepend=~keys[:1]))]
    boundaries = np.arange(len(messages) + 1, dtype=np.uint64) << np.uint64(KEY_BITS)
    return FeatureBatch(distinct & _KEY, np.searchsorted(distinct, boundaries))


def _grams(messages: Sequence[Tokens], bits: int) -> Numbers:
    heads = [tokens.head for tokens in messages]
    text = b"".join((*heads, _ROOM))
    sizes = np.array([len(head) for head in heads], np.intp)
    ends = np.cumsum(sizes)
    is_complete = np.ones(
        len(text) - hashing.BLOCK, bool
    )  # whether the gram that begins here ends in the same head
    for missing in range(1, hashing.GRAM_SIZE):
        is_complete[np.maximum(ends - missing, 0)[ends >= missing]] = False
    states = _mix(
        _blocks(text)[:-1] & _MASKS[hashing.GRAM_SIZE], np.uint64(hashing.SALTS[GRAMS] ^ hashing.GRAM_SIZE)
    )
    places = np.flatnonzero((states & np.uint64(1)).astype(bool) & is_complete)
    return (
        _numbers(states[places], GRAMS, bits)
        | np.searchsorted(ends, places, side="right").astype(np.uint64) << _OWNER
    )


def _words(messages: Sequence[Tokens], bits: int) -> Iterator[Numbers]:
    """Yield the features of headers, relations, marks and words, which one pass finds, and of pairs."""
    count = len(messages)
    documents = [tokens.headers for tokens in messages]
    documents += [tokens.relations for tokens in messages]
    documents += [tokens.marks for tokens in messages]
    documents += [tokens.words for tokens in messages]
    text = b"\n".join((b"", *documents, _ROOM))
    letters = np.frombuffer(text, np.uint8)[: len(text) - hashing.BLOCK]
    gaps = letters <= hashing.SPACE
    edges = np.flatnonzero(gaps[1:] != gaps[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    bounds = np.cumsum([len(document) + 1 for document in documents], dtype=np.intp)
    place = np.searchsorted(bounds, starts, side="left")
    owners = (place % count).astype(np.uint64) << _OWNER
    ends_of_kinds = bounds[[count - 1, 2 * count - 1, 3 * count - 1]]
    first_relation, first_mark, first_word = np.searchsorted(starts, ends_of_kinds).tolist()
    salts = np.full(len(starts), hashing.SALTS[WORDS], np.uint64)
    salts[:first_relation] = hashing.SALTS[HEADERS]
    salts[first_relation:first_mark] = hashing.SALTS[RELATIONS]
    states = _states(_blocks(text), starts, ends - starts, salts)
    for kind, part in (
        (HEADERS, slice(first_relation)),
        (RELATIONS, slice(first_relation, first_mark)),
        (WORDS, slice(first_mark, None)),
    ):
        yield _numbers(states[part], kind, bits) | owners[part]
    states, owners, starts = states[first_word:], owners[first_word:], starts[first_word:]
    words_begin = ends_of_kinds[-1]
    lines = np.searchsorted(np.flatnonzero(letters[words_begin:] == _BREAK) + words_begin, starts)
    for distance in range(1, hashing.PAIR_DISTANCE + 1):
        pairs = np.flatnonzero(lines[:-distance] == lines[distance:])
        pair_states = (states[pairs] ^ np.uint64(hashing.DISTANCE_SALTS[distance])) * _MULTIPLIER + states[
            pairs + distance
        ]
        yield _numbers(pair_states, PAIRS, bits) | owners[pairs]


def _states(blocks: Numbers, starts: NDArray[np.intp], sizes: NDArray[np.intp], salts: Numbers) -> Numbers:
    """Compute the hash state of each token: its length, mixed with its first blocks."""
    states = sizes.astype(np.uint64) ^ salts
    states = _mix(blocks[starts] & _MASKS[np.minimum(sizes, hashing.BLOCK)], states)
    for begin in range(hashing.BLOCK, hashing.BLOCK * hashing.BLOCKS, hashing.BLOCK):
        longer = np.flatnonzero(sizes > begin)
        if not len(longer):
            break
        part = blocks[starts[longer] + begin] & _MASKS[np.minimum(sizes[longer] - begin, hashing.BLOCK)]
        states[longer] = _mix(part, states[longer])
    return states


def _mix(blocks: Numbers, states: Numbers | np.uint64) -> Numbers:
    product = (blocks ^ states) * _MULTIPLIER
    product ^= product >> np.uint64(32)
    return product


def _numbers(states: Numbers, view: int, bits: int) -> Numbers:
    numbers = (states ^ states >> np.uint64(29)) * _FINAL_MULTIPLIER
    numbers >>= np.uint64(64 - KEY_BITS + bits)
    numbers <<= np.uint64(bits)
    numbers |= np.uint64(view)
    return numbers


def _blocks(text: bytes) -> Numbers:
    """(bytes,): the eight bytes that begin at each place, as a number; a view without a copy."""
    return np.ndarray((len(text) - hashing.BLOCK + 1,), "<u8", text, strides=(1,))
