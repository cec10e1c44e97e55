"""features of messages as NumPy arrays."""

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import hashing, pack_features
from tamis_mail.tokens import VERSION, Tokens

Numbers = NDArray[np.uint64]


def hash_tokens(tokens: Tokens) -> Numbers:
    """(features,): compute the features of a message, in ascending order; the array cannot be written to."""
    return np.frombuffer(pack_features(tokens), "<u8")


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
