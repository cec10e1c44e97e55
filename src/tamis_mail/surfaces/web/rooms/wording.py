"""Format numbers with nouns for the sentences of the rooms."""

_PLURALS = {"toss": "tosses", "hidden entry": "hidden entries", "known entry": "known entries"}


def pluralize(number: int, noun: str) -> str:
    """Return a number with a noun, in the plural unless the number is 1.

    >>> pluralize(1, "toss"), pluralize(2, "toss"), pluralize(0, "point")
    ('1 toss', '2 tosses', '0 points')
    """
    return f"{number} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"
