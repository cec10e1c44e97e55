"""Numbers and nouns in the sentences of the rooms."""

_PLURALS = {"toss": "tosses", "hidden entry": "hidden entries", "known entry": "known entries"}


def count_of(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless there is one.

    >>> count_of(1, "toss"), count_of(2, "toss"), count_of(0, "point")
    ('1 toss', '2 tosses', '0 points')
    """
    return f"{number} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"
