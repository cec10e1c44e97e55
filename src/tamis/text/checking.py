"""Check the parameters that a user gives. Each error message names the parameter and what is expected."""

from collections.abc import Iterable, Iterator
from numbers import Integral, Real

# The largest number of words or characters per phrase, because each length takes a pass over the text.
MAX_LENGTH = 1000


def check_integer(name: str, given: object, least: int, most: int | None = None) -> int:
    """Return a parameter as an int; raise unless it is a whole number within the bounds."""
    number = int(given) if isinstance(given, Integral) else least - 1
    if number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"got {name}={given!r}, expected a whole number {bounds}")
    return number


def check_range(given: object) -> tuple[int, int] | None:
    """Return the least and the largest n of `ngram_range`, or None; raise if it is not valid."""
    if given is None:
        return None
    pair = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
    if len(pair) != 2 or not all(isinstance(n, Integral) for n in pair) or not 1 <= pair[0] <= pair[1]:
        raise ValueError(f"got ngram_range={given!r}, expected (n, m) with 1 <= n <= m, or None")
    if pair[1] > MAX_LENGTH:
        raise ValueError(f"got ngram_range={given!r}, expected lengths of at most {MAX_LENGTH}")
    return int(pair[0]), int(pair[1])


def is_share(given: object) -> bool:
    """Return whether a number means a share (fraction) of the texts: 1.0 does, but 1 means one text."""
    return not isinstance(given, Integral)


def count_texts(name: str, given: object, documents: int) -> float:
    """Return the number of texts that a parameter stands for; a float is a share of all documents."""
    number = float(given) if isinstance(given, Real) else -1.0
    share = is_share(given)
    if not number >= 0.0 or (share and number > 1.0):
        raise ValueError(f"got {name}={given!r}, expected a number of texts, or a share from 0.0 to 1.0")
    return number * documents if share else number


def check_choice(name: str, given: object, known: tuple[object, ...]) -> None:
    """Raise unless a parameter has one of the known values."""
    if given not in known:
        raise ValueError(f"got {name}={given!r}, expected one of {', '.join(map(repr, known))}")


def check_phrases(analyzer: object, ngram_range: object, pairs: object, stop_words: object) -> None:
    """Raise unless `ngram_range` and `pairs` are valid, and the analyzer has the words that they need.

    `pairs` is the largest distance of the two words of a pair, 0 for no pairs. An `ngram_range` of None means
    pairs only.
    """
    check_range(ngram_range)
    check_integer("pairs", pairs, 0, MAX_LENGTH)
    if analyzer != "word" and (pairs or ngram_range is None or stop_words):
        raise ValueError(
            f"got analyzer={analyzer!r} with pairs, stop words or no ngram_range, which need words: "
            "expected analyzer='word', or an ngram_range and nothing else"
        )


def check_words(name: str, given: object) -> list[str]:
    """Return a parameter as a list of strings; raise if it is not a collection of strings."""
    if not isinstance(given, Iterable) or isinstance(given, Iterator | str):
        raise TypeError(f"got {name}={given!r}, expected a list of words")
    strings = []
    for k, word in enumerate(given):
        if not isinstance(word, str):
            raise TypeError(f"item {k} of {name} is a {type(word).__name__}, expected words")
        strings.append(word)
    return strings
