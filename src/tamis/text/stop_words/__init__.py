"""Words that say little, by language."""

from collections.abc import Iterable


def stop_words(given: str | Iterable[str] | None) -> frozenset[str]:
    """The words of a list, or of a language ("en"), or of several."""
    return frozenset() if given is None else frozenset(given)
