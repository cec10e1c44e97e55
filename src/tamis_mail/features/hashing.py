"""tokens → feature numbers, one message, plain Python: the meaning of `arrays`, and cheap to load."""

from collections.abc import Iterable

from tamis_mail.tokens import Tokens

VIEWS = ("grams", "headers", "words", "pairs")
GRAMS, HEADERS, WORDS, PAIRS = range(4)
VIEW_BITS = 2
KEY_BITS = 48

GRAM_SIZE = 5  # bytes of a gram: experiments/0005-mail-views
PAIR_DISTANCE = 1  # how far apart the words of a pair may be: experiments/0005-mail-views

MASK = (1 << 64) - 1
MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio
FINAL_MULTIPLIER = 0xD6E8FEB86659FD93  # an odd number with irregular bits
SALTS = tuple(MULTIPLIER * (2 * kind + 1) & MASK for kind in range(len(VIEWS)))
DISTANCE_SALTS = tuple(FINAL_MULTIPLIER * distance & MASK for distance in range(PAIR_DISTANCE + 1))
SHIFT = 64 - (KEY_BITS - VIEW_BITS)
SPACE = 32  # bytes up to this one separate tokens
_GAPS = bytes(max(code, SPACE) for code in range(256))
BLOCK = 8  # bytes of a token that are mixed in at once
BLOCKS = 5  # a token is known by its length and its first 40 bytes


def hash_tokens(tokens: Tokens) -> set[int]:
    """Compute the numbers of the features of a message.

    >>> from tamis_mail.tokens import Tokens
    >>> numbers = hash_tokens(Tokens(head=b"From: a@b", headers=b"from:@b", words=b"see you soon", marks=b""))
    >>> len(numbers), max(numbers) < 2**48
    (9, True)
    """
    numbers = {_number(state, GRAMS) for state in _grams(tokens.head)}
    numbers.update(key(token, HEADERS) for token in set(_split(tokens.headers)))
    numbers.update(key(token, WORDS) for token in set(_split(tokens.marks)))
    states = {word: _state(word, WORDS) for word in set(_split(tokens.words))}
    numbers.update(_number(state, WORDS) for state in states.values())
    numbers.update(
        _pair(states[left], states[right], distance) for left, right, distance in _pairs(tokens.words)
    )
    return numbers


def name_features(tokens: Tokens) -> dict[int, str]:
    """Compute the features of a message, each with a readable name."""
    names = {_number(state, GRAMS): _readable(gram) for state, gram in _grams(tokens.head).items()}
    # A hostile message repeats one token 100,000 times: each distinct token is hashed once.
    names.update(_name_tokens(dict.fromkeys(_split(tokens.headers)), HEADERS))
    names.update(_name_tokens(dict.fromkeys(_split(tokens.words) + _split(tokens.marks)), WORDS))
    for left, right, distance in _pairs(tokens.words):
        separator = " … " if distance > 1 else " "
        name = _readable(left) + separator + _readable(right)
        names[_pair(_state(left, WORDS), _state(right, WORDS), distance)] = name
    return names


def key(token: bytes, kind: int) -> int:
    """Compute the number of a token under a view."""
    return _number(_state(token, kind), kind)


def view(number: int) -> int:
    """Return the view that a feature belongs to."""
    return number & ((1 << VIEW_BITS) - 1)


def _split(document: bytes) -> list[bytes]:
    return [token for token in document.translate(_GAPS).split(b" ") if token]


def _grams(head: bytes) -> dict[int, bytes]:
    """Return n-grams by hash state; a bit of the hash selects every second one, because they overlap."""
    grams = {head[start : start + GRAM_SIZE] for start in range(len(head) - GRAM_SIZE + 1)}
    states = ((_state(gram, GRAMS), gram) for gram in grams)
    return {state: gram for state, gram in states if state & 1}


def _pairs(words: bytes) -> set[tuple[bytes, bytes, int]]:
    """Return pairs of words of one line with at most PAIR_DISTANCE - 1 words between them."""
    pairs: set[tuple[bytes, bytes, int]] = set()
    for line in words.split(b"\n"):
        row = _split(line)
        for distance in range(1, PAIR_DISTANCE + 1):
            pairs.update(zip(row, row[distance:], [distance] * len(row), strict=False))
    return pairs


def _name_tokens(tokens: Iterable[bytes], kind: int) -> dict[int, str]:
    return {key(token, kind): _readable(token) for token in tokens}


def _readable(token: bytes) -> str:
    """Return the token as printable text on one line."""
    text = token.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text)


def _state(token: bytes, view: int) -> int:
    state = SALTS[view] ^ len(token)
    for start in range(0, min(len(token), BLOCK * BLOCKS), BLOCK):
        state = (state ^ int.from_bytes(token[start : start + BLOCK], "little")) * MULTIPLIER & MASK
        state ^= state >> 32
    return state


def _pair(left: int, right: int, distance: int) -> int:
    return _number(((left ^ DISTANCE_SALTS[distance]) * MULTIPLIER + right) & MASK, PAIRS)


def _number(state: int, view: int) -> int:
    state = (state ^ state >> 29) * FINAL_MULTIPLIER & MASK
    return state >> SHIFT << VIEW_BITS | view
