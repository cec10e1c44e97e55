"""tokens of many messages → their feature numbers, in NumPy: the same as `hashing`, and much faster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import hashing
from tamis_mail.features.hashing import GRAMS, HEADERS, KEY_BITS, PAIRS, WORDS
from tamis_mail.tokens import Tokens

Numbers = NDArray[np.uint64]

MOST = 1 << 64 - KEY_BITS  # messages that one batch can tell apart
_KEY = np.uint64((1 << KEY_BITS) - 1)
_STIR = np.uint64(hashing.STIR)
_FINISH = np.uint64(hashing.FINISH)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(hashing.BLOCK + 1)], np.uint64)
_OWNER = np.uint64(KEY_BITS)
_ROOM = b"\0" * hashing.BLOCK  # so that a block can be read at the last byte
_BREAK = 10


@dataclass(frozen=True, slots=True)
class Bags:
    """The features of several messages, one message after the other, each in ascending order."""

    keys: Numbers  # (features,)
    starts: NDArray[np.intp]  # (messages + 1,): message i has keys[starts[i] : starts[i + 1]]

    def __len__(self) -> int:
        return len(self.starts) - 1


def views(keys: Numbers) -> NDArray[np.intp]:
    """`hashing.view` of each key."""
    return (keys & np.uint64((1 << hashing.VIEW_BITS) - 1)).astype(np.intp)


def hash_tokens(messages: Sequence[Tokens]) -> Bags:
    """The features of at most MOST messages."""
    if len(messages) >= MOST:
        raise ValueError(f"a batch has at most {MOST - 1} messages, not {len(messages)}")
    if not messages:
        return Bags(np.empty(0, np.uint64), np.zeros(1, np.intp))
    everything = np.concatenate([_grams(messages), *_words(messages)])
    everything.sort()
    distinct = everything[np.flatnonzero(np.diff(everything, prepend=~everything[:1]))]
    first = np.arange(len(messages) + 1, dtype=np.uint64) << np.uint64(KEY_BITS)
    return Bags(distinct & _KEY, np.searchsorted(distinct, first))


def _grams(messages: Sequence[Tokens]) -> Numbers:
    heads = [tokens.head for tokens in messages]
    text = b"".join((*heads, _ROOM))
    sizes = np.array([len(head) for head in heads], np.intp)
    ends = np.cumsum(sizes)
    whole = np.ones(
        len(text) - hashing.BLOCK, bool
    )  # whether the gram that begins here ends in the same head
    for short in range(1, hashing.SIZE):
        whole[np.maximum(ends - short, 0)[ends >= short]] = False
    states = _stirred(
        _blocks(text)[:-1] & _MASKS[hashing.SIZE], np.uint64(hashing.SALTS[GRAMS] ^ hashing.SIZE)
    )
    kept = np.flatnonzero((states & np.uint64(1)).astype(bool) & whole)
    return (
        _numbers(states[kept], GRAMS) | np.searchsorted(ends, kept, side="right").astype(np.uint64) << _OWNER
    )


def _words(messages: Sequence[Tokens]) -> Iterator[Numbers]:
    """The features of headers, marks and words, which are found in one pass, and of pairs."""
    count = len(messages)
    documents = [tokens.headers for tokens in messages]
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
    first_mark, first_word = np.searchsorted(starts, bounds[[count - 1, 2 * count - 1]]).tolist()
    salts = np.full(len(starts), hashing.SALTS[WORDS], np.uint64)
    salts[:first_mark] = hashing.SALTS[HEADERS]
    states = _states(_blocks(text), starts, ends - starts, salts)
    yield _numbers(states[:first_mark], HEADERS) | owners[:first_mark]
    yield _numbers(states[first_mark:], WORDS) | owners[first_mark:]
    states, owners, starts = states[first_word:], owners[first_word:], starts[first_word:]
    lines = np.searchsorted(
        np.flatnonzero(letters[bounds[2 * count - 1] :] == _BREAK) + bounds[2 * count - 1], starts
    )
    for apart in range(1, hashing.REACH + 1):
        follows = np.flatnonzero(lines[:-apart] == lines[apart:])
        mixed = (states[follows] ^ np.uint64(hashing.APART[apart])) * _STIR + states[follows + apart]
        yield _numbers(mixed, PAIRS) | owners[follows]


def _states(blocks: Numbers, starts: NDArray[np.intp], sizes: NDArray[np.intp], salts: Numbers) -> Numbers:
    """The state of each token: its length, and its first blocks stirred in."""
    states = sizes.astype(np.uint64) ^ salts
    states = _stirred(blocks[starts] & _MASKS[np.minimum(sizes, hashing.BLOCK)], states)
    for begin in range(hashing.BLOCK, hashing.BLOCK * hashing.BLOCKS, hashing.BLOCK):
        longer = np.flatnonzero(sizes > begin)
        if not len(longer):
            break
        part = blocks[starts[longer] + begin] & _MASKS[np.minimum(sizes[longer] - begin, hashing.BLOCK)]
        states[longer] = _stirred(part, states[longer])
    return states


def _stirred(blocks: Numbers, states: Numbers | np.uint64) -> Numbers:
    mixed = (blocks ^ states) * _STIR
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _numbers(states: Numbers, kind: int) -> Numbers:
    finished = (states ^ states >> np.uint64(29)) * _FINISH
    finished >>= np.uint64(hashing.SHIFT)
    finished <<= np.uint64(hashing.VIEW_BITS)
    finished |= np.uint64(kind)
    return finished


def _blocks(text: bytes) -> Numbers:
    """(bytes,): the eight bytes that begin at each place, as a number; a view, nothing is copied."""
    return np.ndarray((len(text) - hashing.BLOCK + 1,), "<u8", text, strides=(1,))
