"""Hash the tokens of a message to the numbers of its features: the reference for `core/mail/hash.cpp`."""

from collections.abc import Collection, Iterator
from itertools import pairwise

from tamis_mail.tokens import VERSION, Tokens

VIEWS = ("grams", "headers", "words", "pairs", "relations")
GRAMS, HEADERS, WORDS, PAIRS, RELATIONS = range(5)
VIEWS_OF = {1: VIEWS[:4], 2: VIEWS, 3: VIEWS}  # by version of the tokens
KEY_BITS = 48

GRAM_SIZE = 5  # bytes of a gram: experiments/0005-mail-views
PAIR_DISTANCE = 1  # maximum distance of the words of a pair: experiments/0005-mail-views

MASK = (1 << 64) - 1
MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio
FINAL_MULTIPLIER = 0xD6E8FEB86659FD93  # an odd number with irregular bits
# Start values of the hash, by view; values that are mixed into the hash of a pair, by the words' distance.
SALTS = tuple(MULTIPLIER * (2 * view + 1) & MASK for view in range(len(VIEWS)))
DISTANCE_SALTS = tuple(FINAL_MULTIPLIER * distance & MASK for distance in range(PAIR_DISTANCE + 1))
SUBJECT_SALT = MULTIPLIER  # mixed into the hash of two words of the subject, in place of one for a distance
SPACE = 32  # bytes from 0 to this one separate tokens
_SEPARATORS_TO_SPACE = bytes(max(code, SPACE) for code in range(256))
BLOCK = 8  # bytes of a token that a step of the hash reads
BLOCKS = 5  # the hash depends on a token's length and on its first 40 bytes; of a pattern, on all bytes


def hash_tokens(tokens: Tokens) -> set[int]:
    """Hash the tokens of a message to the numbers of its features, which have KEY_BITS bits.

    >>> from tamis_mail.tokens import Tokens
    >>> numbers = hash_tokens(Tokens(head=b"From: a@b", headers=b"from:@b", words=b"see you soon", marks=b""))
    >>> len(numbers), max(numbers) < 2**48
    (9, True)
    """
    return {number for number, _, _ in _list_features(tokens)}


def name_features(tokens: Tokens, wanted: Collection[int] | None = None) -> dict[int, str]:
    """Compute the features of a message, each with a readable name; only the `wanted` ones, if given."""
    return {
        number: (" … " if distance > 1 else " ").join(map(make_readable, parts))
        for number, parts, distance in _list_features(tokens)
        if wanted is None or number in wanted
    }


def _list_features(tokens: Tokens) -> Iterator[tuple[int, tuple[bytes, ...], int]]:
    """Yield each feature's number, its token or its two words, and the distance of these.

    The distance is 0 for a token, and for two words of the subject, which follow `subject:`.
    """
    bits = view_bits(tokens.version)
    for state, gram in _hash_grams(tokens.head).items():
        yield _make_number(state, GRAMS, bits), (gram,), 0
    # Each distinct token is hashed once, because a hostile message may repeat one 100,000 times.
    for text, view in ((tokens.headers, HEADERS), (tokens.marks, WORDS), (tokens.relations, RELATIONS)):
        for token in dict.fromkeys(_split_tokens(text)):
            yield _make_number(_hash_token(token, view), view, bits), (token,), 0
    for token in dict.fromkeys(_split_tokens(tokens.patterns)):
        yield _make_number(_hash_token(token, RELATIONS, len(token)), RELATIONS, bits), (token,), 0
    states = {word: _hash_token(word, WORDS) for word in dict.fromkeys(_split_tokens(tokens.words))}
    for word, state in states.items():
        yield _make_number(state, WORDS, bits), (word,), 0
    for left, right, distance in _list_pairs(tokens.words):
        state = _hash_pair(states[left], states[right], DISTANCE_SALTS[distance])
        yield _make_number(state, PAIRS, bits), (left, right), distance
    subject = _split_tokens(tokens.subject)
    states = {word: _hash_token(word, WORDS) for word in subject}
    for left, right in dict.fromkeys(pairwise(subject)):
        state = _hash_pair(states[left], states[right], SUBJECT_SALT)
        yield _make_number(state, PAIRS, bits), (b"subject:", left, right), 0


def key(token: bytes, view: int, version: int = VERSION) -> int:
    """Compute the number of a token under a view, for a version of the tokens."""
    return _make_number(_hash_token(token, view), view, view_bits(version))


def view(number: int, version: int = VERSION) -> int:
    """Return the view that a feature belongs to, for a version of the tokens."""
    return number & view_mask(version)


def view_bits(version: int) -> int:
    """Return how many of the lowest bits of a feature's number hold its view."""
    return (len(VIEWS_OF[version]) - 1).bit_length()


def view_mask(version: int) -> int:
    """Return the mask of the bits of a feature's number that hold its view."""
    return (1 << view_bits(version)) - 1


def _split_tokens(text: bytes) -> list[bytes]:
    """Return the tokens of a document, which bytes up to SPACE separate."""
    return [token for token in text.translate(_SEPARATORS_TO_SPACE).split(b" ") if token]


def _hash_grams(head: bytes) -> dict[int, bytes]:
    """Map the hash state of each distinct n-gram to the n-gram; leave out even states.

    About half of the n-grams are left, which suffices because they overlap.
    """
    grams = {head[start : start + GRAM_SIZE] for start in range(len(head) - GRAM_SIZE + 1)}
    states = ((_hash_token(gram, GRAMS), gram) for gram in grams)
    return {state: gram for state, gram in states if state & 1}


def _list_pairs(words: bytes) -> set[tuple[bytes, bytes, int]]:
    """Return the pairs of words of one line with at most PAIR_DISTANCE - 1 words between them.

    A pair is its left word, its right word and their distance: 1 for neighbours.
    """
    pairs: set[tuple[bytes, bytes, int]] = set()
    for line in words.split(b"\n"):
        tokens = _split_tokens(line)
        for distance in range(1, PAIR_DISTANCE + 1):
            pairs.update(zip(tokens, tokens[distance:], [distance] * len(tokens), strict=False))
    return pairs


def make_readable(token: bytes) -> str:
    """Return the token as printable text on one line."""
    text = token.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text)


def _hash_token(token: bytes, view: int, longest: int = BLOCK * BLOCKS) -> int:
    """Return the hash state of a token: 64 bits, which `_make_number` turns into the feature's number.

    It depends on the length of the token and on its first `longest` bytes.
    """
    state = SALTS[view] ^ len(token)
    for start in range(0, min(len(token), longest), BLOCK):
        state = (state ^ int.from_bytes(token[start : start + BLOCK], "little")) * MULTIPLIER & MASK
        state ^= state >> 32
    return state


def _hash_pair(left: int, right: int, salt: int) -> int:
    """Return the hash state of a pair, given those of its words, and the salt for its kind."""
    return ((left ^ salt) * MULTIPLIER + right) & MASK


def _make_number(state: int, view: int, bits: int) -> int:
    """Return the number of a feature: the highest bits of the mixed state; the lowest `bits` are its view."""
    state = (state ^ state >> 29) * FINAL_MULTIPLIER & MASK
    return state >> 64 - KEY_BITS + bits << bits | view
