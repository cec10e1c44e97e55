"""Corpora that are made of sets of words, without any mail."""

from collections.abc import Iterable, Sequence

import numpy as np

from tamis_mail.features import WORDS
from tamis_mail.reporting.corpus import Corpus
from tamis_mail.tokens import VERSION


def make_corpus(messages: Sequence[Iterable[int]], is_spam: Sequence[bool]) -> Corpus:
    """Make a corpus of messages, each of which has the words of these numbers."""
    sets = [sorted(set(words)) for words in messages]
    numbers = sorted({word for words in sets for word in words})
    keys = np.array([word << 3 | WORDS for word in numbers], np.uint64)
    places = {word: place for place, word in enumerate(numbers)}
    return Corpus(
        keys,
        np.array([places[word] for words in sets for word in words], np.int32),
        np.cumsum([0, *map(len, sets)], dtype=np.intp),
        np.array(is_spam, np.bool_),
        np.arange(len(sets)),
        tuple(number.to_bytes(16, "big") for number in range(len(sets))),
        0,
        0,
        VERSION,
    )
