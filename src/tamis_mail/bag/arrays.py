"""tokens of many messages → their feature numbers, in NumPy: the same as `hashing`, and much faster."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.bag import hashing
from tamis_mail.bag.hashing import GRAMS, HEADERS, KEY_BITS, PAIRS, WORDS
from tamis_mail.tokens import Tokens

Numbers = NDArray[np.uint64]

MOST = 1 << 64 - KEY_BITS  # messages that one batch can tell apart
_KEY = np.uint64((1 << KEY_BITS) - 1)
_STIR = np.uint64(hashing.STIR)
_FINISH = np.uint64(hashing.FINISH)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(hashing.BLOCK + 1)], np.uint64)
_SPACE, _BREAK = 32, 10


@dataclass(frozen=True, slots=True)
class Bags:
    """The features of several messages, one message after the other, each in ascending order."""

    keys: Numbers  # (features,)
    starts: NDArray[np.intp]  # (messages + 1,): message i has keys[starts[i] : starts[i + 1]]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def owners(self) -> NDArray[np.intp]:
        """(features,): the message each belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


def features(messages: Sequence[Tokens]) -> Bags:
    """The features of at most MOST messages."""
    if len(messages) >= MOST:
        raise ValueError(f"a batch has at most {MOST - 1} messages, not {len(messages)}")
    found = [_grams([tokens.head for tokens in messages])]
    for kind, documents in (
        (HEADERS, [tokens.headers for tokens in messages]),
        (WORDS, [tokens.marks for tokens in messages]),
    ):
        states, owners, _ = _tokens(documents, kind)
        found.append(_owned(states, owners, kind))
    states, owners, lines = _tokens([tokens.words for tokens in messages], WORDS)
    found.append(_owned(states, owners, WORDS))
    for apart in range(1, hashing.REACH + 1):
        follows = np.flatnonzero(lines[:-apart] == lines[apart:])
        mixed = (states[follows] ^ np.uint64(hashing.APART[apart])) * _STIR + states[follows + apart]
        found.append(_owned(mixed, owners[follows], PAIRS))
    everything = np.concatenate(found)
    everything.sort()
    distinct = (
        everything[np.concatenate(([True], everything[1:] != everything[:-1]))]
        if len(everything)
        else everything
    )
    first = np.arange(len(messages) + 1, dtype=np.uint64) << np.uint64(KEY_BITS)
    return Bags(distinct & _KEY, np.searchsorted(distinct, first))


def _owned(states: Numbers, owners: Numbers, kind: int) -> Numbers:
    """Feature numbers, with the message in the bits above."""
    finished = (states ^ states >> np.uint64(29)) * _FINISH
    shifted = finished >> np.uint64(hashing.SHIFT) << np.uint64(hashing.VIEW_BITS)
    return shifted | np.uint64(kind) | owners << np.uint64(KEY_BITS)


def _grams(heads: list[bytes]) -> Numbers:
    text, _ = _joined(heads)
    sizes = np.array([len(head) + 1 for head in heads], np.intp)
    ends = np.repeat(np.cumsum(sizes) - 1, sizes)  # where the message of each byte ends
    owners = np.repeat(np.arange(len(heads), dtype=np.uint64), sizes)
    places = np.flatnonzero(ends - np.arange(len(ends)) >= hashing.SIZE)
    states = _stirred(
        _blocks(text)[places] & _MASKS[hashing.SIZE], np.uint64(hashing.SALTS[GRAMS] ^ hashing.SIZE)
    )
    kept = np.flatnonzero(states & np.uint64(1))
    return _owned(states[kept], owners[places[kept]], GRAMS)


def _stirred(blocks: Numbers, states: Numbers | np.uint64) -> Numbers:
    mixed = (blocks ^ states) * _STIR
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _tokens(documents: list[bytes], kind: int) -> tuple[Numbers, Numbers, NDArray[np.intp]]:
    """The state of each token, its document, and its line (numbered through all documents)."""
    text, letters = _joined(documents)
    is_space = np.concatenate((letters == _SPACE, [True])) | np.concatenate((letters == _BREAK, [True]))
    edges = np.flatnonzero(is_space[1:] != is_space[:-1]) + 1
    if len(is_space) and not is_space[0]:
        edges = np.concatenate(([0], edges))
    starts, ends = edges[0::2], edges[1::2]
    sizes = ends - starts
    blocks = _blocks(text)
    states = sizes.astype(np.uint64) ^ np.uint64(hashing.SALTS[kind])
    states = _stirred(blocks[starts] & _MASKS[np.minimum(sizes, hashing.BLOCK)], states)
    for begin in range(hashing.BLOCK, hashing.BLOCK * hashing.BLOCKS, hashing.BLOCK):
        longer = np.flatnonzero(sizes > begin)
        if not len(longer):
            break
        part = blocks[starts[longer] + begin] & _MASKS[np.minimum(sizes[longer] - begin, hashing.BLOCK)]
        states[longer] = _stirred(part, states[longer])
    bounds = np.cumsum([len(document) + 1 for document in documents], dtype=np.intp)
    owners = np.searchsorted(bounds, starts, side="right").astype(np.uint64)
    lines = np.searchsorted(np.flatnonzero(letters == _BREAK), starts)
    return states, owners, lines


def _joined(documents: list[bytes]) -> tuple[bytes, NDArray[np.uint8]]:
    """The documents, each ended by a line break, and room for a block to be read at the last byte."""
    text = b"\n".join((*documents, b"\0" * hashing.BLOCK))
    return text, np.frombuffer(text, np.uint8)[: len(text) - hashing.BLOCK]


def _blocks(text: bytes) -> Numbers:
    """(bytes,): the eight bytes that begin at each place, as a number; a view, nothing is copied."""
    return np.ndarray((len(text) - hashing.BLOCK + 1,), "<u8", text, strides=(1,))
